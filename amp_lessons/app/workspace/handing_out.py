"""Making a hand-out without solutions: a workspace for learners, and the codes for the instructor.

The codes are written once, into a file beside the folder, and only their salted hashes go into it.
Lessons and sheets come without outputs, as in every workspace, and the home page without anybody's
progress.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from amp_lessons.app import home
from amp_lessons.app.workspace.copying import copy_course, reason
from amp_lessons.app.workspace.errors import WorkspaceError
from amp_lessons.app.workspace.messages import in_short
from amp_lessons.app.workspace.trust import trust, was_trusted
from amp_lessons.core import catalogue, ipynb
from amp_lessons.core.files import write_atomically
from amp_lessons.core.handout import FILE, RECORD, SHEETS, Handout, new_codes
from amp_lessons.core.progress import Progress

CODES = "_codes.txt"
"""Added to the folder's name, it is the name of the file with the codes."""


@dataclass(frozen=True)
class HandedOut:
    """A hand-out that is ready.

    Attributes:
        folder: where it is.
        codes: the file with its codes, or None if it was made before, with the codes it has.
        used: files in it that somebody changed, or that hold somebody's progress.
    """

    folder: Path
    codes: Path | None
    used: tuple[str, ...] = ()


def hand_out(folder: Path | None) -> HandedOut:
    """Make a hand-out without solutions, or bring one up to date.

    Args:
        folder: new or empty, or a hand-out that was made before.

    Raises:
        WorkspaceError: if that cannot be done.
        HandoutError: if a hand-out is there, and its file is broken.
    """
    if folder is None:
        raise WorkspaceError("name a folder for the hand-out: amp-lessons lab --no-solutions DIR")
    place = folder.resolve()
    file = place / SHEETS / FILE
    codes_file, used = None, []
    if file.exists():
        Handout.read(file, place / SHEETS)
        copied = copy_course(folder)
        used = [*copied.kept, *copied.kept_older, *copied.kept_beside.values()]
        used += [f"{SHEETS}/{RECORD}"] if (file.parent / RECORD).exists() else []
    else:
        codes_file = place.with_name(place.name + CODES)
        _refuse(folder, place, codes_file)
        copy_course(folder)
        _close(place, file, codes_file)
    try:
        _draw_home_for_somebody_new(place)
    except OSError as error:
        raise WorkspaceError(reason(error, place)) from error
    return HandedOut(folder, codes_file, tuple(used))


def _refuse(folder: Path, place: Path, codes_file: Path) -> None:
    """A folder with files may hold the instructor's own answers, or their progress."""
    with suppress(OSError):
        if place.is_dir() and any(place.iterdir()):
            raise WorkspaceError(
                f"{folder} has files in it, and a hand-out must hold nothing of yours: name a new "
                "or an empty folder"
            )
    if codes_file.exists():
        raise WorkspaceError(
            f"{codes_file} is there already, with the codes of another hand-out: move it away, or "
            "name another folder"
        )


def _close(place: Path, file: Path, codes_file: Path) -> None:
    """Write the codes, then the file that asks for them."""
    codes = new_codes(info.name for lesson in catalogue.LESSONS for info in lesson.exercises)
    text = "\n".join(_page(codes, place.name)) + "\n"
    try:
        number = os.open(codes_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(number, "w", encoding="utf-8") as stream:
            stream.write(text)
        write_atomically(file, Handout.from_codes(codes, place / SHEETS).to_bytes())
    except BaseException as error:
        with suppress(OSError):  # codes that open nothing would only mislead
            codes_file.unlink()
        if isinstance(error, OSError):
            raise WorkspaceError(
                f"{reason(error, codes_file)}. The hand-out in {place} is not complete: delete it, "
                "and make one where you may write beside it"
            ) from error
        raise


def _page(codes: Mapping[str, str], name: str) -> Iterator[str]:
    """The codes as a page to print."""
    yield f'AMP Lessons: the codes of the hand-out "{name}", made on {date.today()}'
    yield ""
    yield "Each code opens the solution of one exercise, in which the learner runs:"
    yield '    ex.NAME.solution(give_up=True, code="THE CODE")'
    yield "Keep this page out of the hand-out. The codes can't be printed again."
    width = max(map(len, codes))
    for lesson in catalogue.LESSONS:
        if lesson.exercises:
            yield ""
            yield f"Lesson {lesson.number:02}: {lesson.title}"
        for info in lesson.exercises:
            yield f"    {codes[info.name]}  {info.name:{width}}  {info.title}"


def _draw_home_for_somebody_new(place: Path) -> None:
    """The home page shows progress, and here it would be the instructor's."""
    page = place / catalogue.HOME
    notebook = home.drawn(ipynb.read(page), Progress())
    content, old = ipynb.to_bytes(notebook), page.read_bytes()
    if content != old:
        write_atomically(page, content)
        if was_trusted(old):
            trust(page)


def told(made: HandedOut) -> Iterator[str]:
    """What happened, in a few lines for a terminal."""
    yield f"Your hand-out without solutions is in {made.folder}"
    if made.codes:
        yield f"The codes that open the solutions, one for each exercise: {made.codes}"
        yield "Keep that file to yourself. The codes can't be printed again."
    else:
        yield "It was made before. Its codes are the ones that you got then."
    if made.used:
        yield f"Somebody has worked in it, and learners would see that: {in_short(made.used)}"
        yield "To hand out one that nobody has used, name another folder."
    yield f"What a learner does in it is kept in {SHEETS}/{RECORD}, and comes back with the folder."
    yield "It keeps honest learners honest: the installed package still holds the answers."
