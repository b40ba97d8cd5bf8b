"""A folder of results: each submission's is written as soon as it is there, whole or not at all.

An interrupted batch that is started again with the same folder goes on where it stopped: what was
graded under the same conditions is read and not run again. The batch's secret seed is kept here
too, so that everybody gets the same inputs.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from amp_lessons.classroom.grading.marks import Graded
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.files import write_atomically

BATCH = "batch.json"
_RESULTS = "results"


class ResultsError(AmpLessonsError):
    """The folder of results cannot be used. The message says what to do."""


class Results:
    """The results of one batch in a folder.

    Args:
        folder: made if it does not exist.
        conditions: what a result depends on besides the notebook, in JSON's types: the versions of
            the course and of torch, and the limits.
        salt: the secret seed, or "" for the one that the folder has, else a new one.

    Raises:
        ResultsError: if it cannot be written, or belongs to a batch with another seed.
    """

    def __init__(self, folder: Path, conditions: Mapping[str, Any], salt: str = "") -> None:
        self.folder, self._results = folder, folder / _RESULTS
        self._conditions = json.dumps(conditions, sort_keys=True)
        kept = _read(folder / BATCH)
        if salt and kept.get("seed") not in (None, salt):
            raise ResultsError(
                f"{folder} holds a batch with another seed: name a new folder, or leave --seed out"
            )
        self.salt = salt or str(kept.get("seed") or secrets.token_hex(16))
        try:
            self._results.mkdir(parents=True, exist_ok=True)
            content = json.dumps({"seed": self.salt, **conditions}, indent=1).encode()
            write_atomically(folder / BATCH, content)
            (folder / BATCH).chmod(0o600)
        except OSError as error:
            raise ResultsError(
                f"{folder} cannot be written ({error.strerror}): name another folder for --results"
            ) from error

    def known(self, name: str, content: bytes, trusted: bool = False) -> Graded | None:
        """The result of this notebook, if it was graded under the same conditions.

        Args:
            trusted: whether only a result will do for which a person has looked.
        """
        kept = _read(self._file(name))
        if kept.get("digest") != self._digest(content) or (trusted and not kept.get("trusted")):
            return None
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            return Graded.from_json(kept["graded"])
        return None

    def keep(self, content: bytes, graded: Graded, trusted: bool = False) -> None:
        """Write a result. Raises `ResultsError` if it cannot be written."""
        kept = {
            "digest": self._digest(content),
            "trusted": trusted,
            "graded": graded.to_json(),
        }
        file = self._file(graded.name)
        try:
            write_atomically(file, json.dumps(kept, indent=1).encode())
        except OSError as error:
            raise ResultsError(f"{file} cannot be written: {error.strerror}") from error

    def _digest(self, content: bytes) -> str:
        conditions = f"{self.salt}/{self._conditions}/".encode()
        return hashlib.sha256(conditions + content).hexdigest()

    def _file(self, name: str) -> Path:
        """A name for the file that no submission's name can steer."""
        return self._results / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"


def others_in(folder: Path, found: Iterable[Graded]) -> list[Graded]:
    """The results in a folder that these leave as they are: of other learners, and of their sheets
    that were not graded again."""
    found = list(found)
    names = {graded.name for graded in found}
    learners = {graded.learner for graded in found}
    sheets = {(graded.learner, graded.lesson) for graded in found}
    return [
        each
        for each in kept_in(folder)
        if each.name not in names
        and (each.learner not in learners or each.lesson)
        and (each.learner, each.lesson) not in sheets
    ]


def kept_in(folder: Path) -> list[Graded]:
    """All results in a folder, by the names of their notebooks; none if it is no such folder."""
    found = []
    for file in folder.glob(f"{_RESULTS}/*.json"):
        with suppress(KeyError, TypeError, ValueError, AttributeError):
            found.append(Graded.from_json(_read(file)["graded"]))
    return sorted(found, key=lambda graded: graded.name)


def _read(file: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads(file.read_bytes())
        return found if isinstance(found, dict) else {}
    return {}
