"""A hand-out without solutions, as a learner's notebook meets it.

Its file, beside the sheets, holds a salted hash of each exercise's code, and the instructor holds
the codes. A learner's entries in the progress file are also kept beside the sheets, so that they
are in what the learner hands in. All this keeps honest learners honest: the installed package
holds the answers. `workspace.handing_out` makes the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from amp_lessons.core import progress
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.files import data_folder, write_atomically
from amp_lessons.core.progress import ExerciseRecord

FILE = "amp-lessons-handout.json"
RECORD = "progress.json"
"""Beside the sheets: the entries of the exercises that were used in this folder."""
SHEETS = "exercises"
"""The folder of the sheets in a workspace."""
VARIABLE = "AMP_LESSONS_HANDOUT"
"""An environment variable that names a hand-out's file, for a server with many learners."""
VERSION = 1

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base 32, which leaves out the letters that look like digits."""
LENGTH = 8
"""Characters of a code: 40 random bits. A guess costs about 10 ms of a CPU core, so to try all of
them costs 300 years of one."""
_READ_AS = str.maketrans("OILU", "011V")


class HandoutError(AmpLessonsError):
    """A hand-out's file cannot be used. The message is one line with the cure."""


@dataclass(frozen=True)
class Handout:
    """What a hand-out's file says.

    Attributes:
        salt: random bytes, other ones in each hand-out.
        hashes: of each exercise's code, by the exercise's name.
        folder: where the record of what the learner did is kept: the folder of the sheets.
    """

    salt: bytes
    hashes: Mapping[str, bytes]
    folder: Path

    @classmethod
    def from_codes(cls, codes: Mapping[str, str], folder: Path) -> Self:
        """The hand-out whose solutions these codes open, by exercise."""
        salt = secrets.token_bytes(16)
        hashes = {name: _hash(code, salt, name) for name, code in codes.items()}
        return cls(salt, hashes, folder)

    @classmethod
    def read(cls, path: Path, folder: Path) -> Self:
        """Raises `HandoutError` for a file that is not a hand-out's."""
        try:
            data = json.loads(path.read_bytes())
            if data["version"] > VERSION:
                raise HandoutError(f"{path} is newer than this AMP Lessons: upgrade the package")
            hashes = {name: bytes.fromhex(text) for name, text in data["codes"].items()}
            return cls(bytes.fromhex(data["salt"]), hashes, folder)
        except OSError as error:
            raise HandoutError(f"{path} cannot be read: {error.strerror or error}") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise HandoutError(
                f"{path} is broken: put your instructor's copy of this file in its place"
            ) from error

    def to_bytes(self) -> bytes:
        data: dict[str, Any] = {
            "version": VERSION,
            "about": "Salted hashes of the codes that open the solutions of this hand-out.",
            "salt": self.salt.hex(),
            "codes": {name: value.hex() for name, value in self.hashes.items()},
        }
        return (json.dumps(data, indent=1) + "\n").encode()

    def opens(self, exercise: str, code: str) -> bool:
        """Whether this is the code of this exercise. Case, spaces and hyphens don't matter."""
        held = self.hashes.get(exercise)
        return held is not None and secrets.compare_digest(held, _hash(code, self.salt, exercise))


def new_codes(exercises: Iterable[str]) -> dict[str, str]:
    """A random code for each exercise, such as ``"K7QF-2M9X"``."""
    codes = {}
    for name in exercises:
        text = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
        codes[name] = f"{text[: LENGTH // 2]}-{text[LENGTH // 2 :]}"
    return codes


def _hash(code: str, salt: bytes, exercise: str) -> bytes:
    """The exercise's name is a part of the salt, so that one code's hash fits no other exercise."""
    plain = "".join(char for char in code.upper() if char.isalnum()).translate(_READ_AS)
    salted = salt + exercise.encode()
    return hashlib.scrypt(
        plain.encode("utf-8", "replace"), salt=salted, n=2**12, r=8, p=1, dklen=16
    )


# ---- on the learner's machine -------------------------------------------------------------------


def find() -> Handout | None:
    """The hand-out that the current folder lies in, or None.

    It is looked for in each folder from the current one upwards, and in a folder of sheets there.

    Raises:
        HandoutError: if there is one and its file is broken.
    """
    try:
        here = Path.cwd()
    except OSError:  # the folder was deleted
        return None
    if named := os.environ.get(VARIABLE):
        return Handout.read(Path(named), here)
    for folder in (here, *here.parents):
        for place in (folder, folder / SHEETS):
            if (place / FILE).is_file():
                return Handout.read(place / FILE, place)
    return None


def why_closed(exercise: str, give_up: bool, code: str) -> str:
    """Why a solution that no pass has opened stays closed here; "" if it opens now."""
    try:
        handout = find()
    except HandoutError as error:
        return f"This folder is a hand-out, and its solutions can't be opened: {error}."
    call = f'`ex.{exercise}.solution(give_up=True, code="…")`'
    if not give_up:
        held = f"To give up before that, ask your instructor for its code and run {call}."
        own = "To open it now, and have that recorded, run the same cell with "
        own += "solution(give_up=True)."
        return f"It opens when your answer passes. {held if handout else own}"
    if handout is None or handout.opens(exercise, code):
        return ""
    if code:
        return (
            "This is not the code of this exercise. Each exercise has a code of its own: check the "
            "spelling, or ask your instructor. You can try as often as you like."
        )
    return (
        f"Your instructor holds the code of this exercise. With it, run {call}. That you gave up "
        "is recorded, and your instructor will see it."
    )


def keep(exercise: str, entry: ExerciseRecord, diagnosis: str | None = None) -> list[str]:
    """In a hand-out, keep what is known about an exercise beside the sheets.

    What was kept before is never taken back: a give-up stays when the learner forgets the exercise.

    Args:
        exercise: its name.
        entry: what the learner's own progress file says about it.
        diagnosis: the name of the mistake that a check has now found, "" if it found none, and
            None if this was no check.

    Returns:
        What went wrong, as lines for the foot of a box.
    """
    import filelock

    try:
        if (handout := find()) is None:
            return []
        path = handout.folder / RECORD
        lock = data_folder() / "handout.lock"  # beside the sheets it would be in the learner's way
        lock.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(lock, timeout=5):
            content = path.read_bytes() if path.exists() else progress.to_bytes(progress.Progress())
            record = progress.parse(content, path)
            record.entries[exercise] = _joined(record[exercise], entry, diagnosis)
            write_atomically(path, progress.to_bytes(record))
    except HandoutError as error:
        return [str(error)]
    except progress.ProgressError as error:
        return [f"Your instructor's copy of your progress was not saved: {error}. Move it away."]
    except (OSError, NotImplementedError) as error:  # a timeout of the lock is an OSError too
        reason = getattr(error, "strerror", None) or error
        return [f"Your instructor's copy of your progress was not saved: {reason}"]
    return []


def _joined(before: ExerciseRecord, now: ExerciseRecord, diagnosis: str | None) -> ExerciseRecord:
    """The entry as it is now, with nothing taken back, and with the time of the latest check."""
    extra = before.extra | now.extra
    if diagnosis is not None:
        at = datetime.now(UTC).isoformat(timespec="seconds")
        extra |= {"diagnosis": diagnosis, "checked_at": at}
    return replace(
        now,
        checks=max(before.checks, now.checks),
        hints=max(before.hints, now.hints),
        passed_at=before.passed_at or now.passed_at,
        gave_up_at=before.gave_up_at or now.gave_up_at,
        extra=extra,
    )
