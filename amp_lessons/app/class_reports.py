"""`amp-lessons doctor DIR`: who of a class is ready, by the reports that they sent.

A report is what `amp-lessons doctor --json` prints, saved under the learner's name. It comes from
outside: it may hold anything, and nothing in it is run. A broken one becomes a line of the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amp_lessons.app.doctor import Problem
from amp_lessons.classroom.grading import whose
from amp_lessons.classroom.grading.report.class_list import decoded, matched, read_class_list
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.terminal import line

if TYPE_CHECKING:
    from rich.table import Table

LARGEST = 2**20
"""Bytes of a report. One has about 10,000."""
LONGEST = 300
"""Characters of what is wrong, and of its cure."""
ASK_FOR_IT = "ask for it: amp-lessons doctor --json > NAME.json"


class ReportsError(AmpLessonsError):
    """The folder cannot be read, or holds no reports. The message is one line with the cure."""


@dataclass(frozen=True)
class Readiness:
    """Whether somebody's machine is ready for the course.

    Attributes:
        learner: by the file's or the folder's name, or as the class's list has it.
        ready: whether nothing blocks the course. None if no report tells.
        problems: what is wrong, with its cure. Somebody who is ready may have some, too.
    """

    learner: str
    ready: bool | None
    problems: tuple[Problem, ...] = ()


def read(folder: Path, roster: Path | None = None) -> list[Readiness]:
    """What the reports in a folder say, those first who aren't ready.

    Args:
        folder: a file for each learner, such as ``ada.json``, or a folder for each with one file.
        roster: the class's list, as `read_class_list` takes it, to see who sent nothing.

    Raises:
        ReportsError: if the folder cannot be read, or holds no file.
        ClassListError: if the list cannot be used.
    """
    people = read_class_list(roster) if roster is not None else ()
    try:
        found = [_read_report(learner, file) for learner, file in _reports(folder)]
    except OSError as error:
        raise ReportsError(f"{folder} cannot be read: {error.strerror}") from error
    if not found:
        raise ReportsError(f"{folder} holds no report: {ASK_FOR_IT}")
    sent = matched([(each.learner, "") for each in found], people)
    no_report = (Problem("sent no report", ASK_FOR_IT, blocks=True),)
    found += [Readiness(each.name, None, no_report) for each in people if each not in sent]
    return sorted(found, key=lambda each: (bool(each.ready), each.learner.casefold()))


def _reports(folder: Path) -> Iterator[tuple[str, Path]]:
    """The files, each with its learner. Tables, such as a roster, and hidden files are left out.

    A folder that is empty or cannot be read stands for itself, so that it gets a row too.
    """
    for path in _inside(folder):
        if path.is_symlink() or not path.is_dir():
            yield whose.of_file(path.name), path
            continue
        try:
            files = _inside(path)
        except OSError:
            files = []
        for file in files or [path]:
            yield whose.of_folder(path.name), file


def _inside(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.iterdir()) if not whose.is_apart(path.name)]


def _read_report(learner: str, file: Path) -> Readiness:
    """What one file says. Never raises for what is in it."""
    try:
        if file.is_symlink() or not file.is_file():  # to open a pipe would wait for ever
            raise ValueError("not a file")
        with file.open("rb") as stream:
            content = stream.read(LARGEST + 1)
        if len(content) > LARGEST:
            raise ValueError("larger than 1 MB")
        report = json.loads(decoded(content))
        problems = tuple(_problem(each) for each in report["problems"])
        ready = report["ok"]
        if not isinstance(ready, bool):
            raise TypeError("ok")
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        what = f"{line(file.name)} is no report of the doctor"
        return Readiness(learner, None, (Problem(what, ASK_FOR_IT, blocks=True),))
    return Readiness(learner, ready and not any(each.blocks for each in problems), problems)


def _problem(entry: Any) -> Problem:
    """One problem of a report. Raises `TypeError` or `KeyError` if it isn't one."""
    what, cure, blocks = entry["what"], entry["cure"], entry["blocks"]
    if not (isinstance(what, str) and isinstance(cure, str) and isinstance(blocks, bool)):
        raise TypeError("a problem")
    return Problem(line(what)[:LONGEST], line(cure)[:LONGEST], blocks)


def as_json(found: Sequence[Readiness]) -> dict[str, Any]:
    """The same in JSON's types. ``ready`` is null where no report tells."""
    learners = [
        {
            "learner": each.learner,
            "ready": each.ready,
            "problems": [vars(problem) for problem in each.problems],
        }
        for each in found
    ]
    return {"learners": learners}


def table(found: Sequence[Readiness]) -> Table:
    """A row for each problem, and one for each learner who has none."""
    from rich.table import Table

    made = Table(show_lines=True)
    for heading in ("learner", "ready", "what is wrong", "what to do"):
        made.add_column(heading, overflow="fold")
    for each in found:
        ready = {True: "yes", False: "no", None: "not known"}[each.ready]
        for problem in each.problems or (Problem("", "", blocks=False),):
            made.add_row(each.learner, ready, problem.what, problem.cure)
    return made


def summary(found: Sequence[Readiness]) -> str:
    """Such as ``"12 of 15 are ready."``"""
    ready = sum(each.ready is True for each in found)
    return f"{ready} of {len(found)} {'is' if ready == 1 else 'are'} ready."
