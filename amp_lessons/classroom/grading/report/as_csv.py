"""Marks as a CSV file: for a spreadsheet, for Canvas, or for Moodle.

**Canvas** reads the columns Student, ID, SIS User ID, SIS Login ID and Section, then a column an
assignment, and a row "Points Possible" (instructure/canvas-lms, ``lib/gradebook_importer.rb``).
It looks for a learner by ID, then by SIS User ID, then by SIS Login ID, then by name. ID is
Canvas's own number, which stands in the names of files that Canvas gave out (see `roster`);
otherwise it stays empty, and a learner's name is taken for the login. A column that has the name
of no assignment becomes a new one. "Final Points" is on the importer's list of columns that it
skips, so the total stands there.
Ohio State's guide shows the steps:
https://teaching.resources.osu.edu/toolsets/carmencanvas/guides/calculating-final-grades/import-csv-file-carmen-grades

**Moodle** asks for the meaning of each column when it imports
(https://docs.moodle.org/405/en/Grade_import; moodle/moodle,
``grade/import/csv/classes/load_data.php``): a user is found by user name, e-mail address, ID number
or user id; a column becomes a new grade item, or goes to one that exists, as its grade or as its
feedback. "-" means no grade. A learner that Moodle does not know ends the whole import. A new
grade item gets a maximum of 100 (``lib/grade/grade_item.php``), so set it to the points after the
first import. Moodle's page warns to import feedback together with its grade: otherwise the grade
is lost.

All files are UTF-8 with a byte order mark. Without it, Excel takes a file that is opened by a
double click for the system's old encoding, and "é" becomes two other characters. Both importers
are fine with it: Moodle cuts it off (``lib/csvlib.class.php``), and Canvas only asks whether the
first cell contains "Student".

A name is the learner's own text. One that begins with ``=``, ``+``, ``-`` or ``@`` would be a
formula in a spreadsheet, so it gets an apostrophe in front (OWASP's advice on CSV injection). An
LMS then does not find that learner; such names are rare, and a formula is worse.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

from amp_lessons.classroom.grading.marks import Graded, Mark
from amp_lessons.classroom.grading.report import merging
from amp_lessons.classroom.grading.report.class_list import Listed
from amp_lessons.classroom.grading.report.merging import Row
from amp_lessons.classroom.grading.report.roster import (
    Column,
    Learner,
    all_columns,
    columns,
    lesson_title,
    roster,
    slug,
)
from amp_lessons.classroom.grading.report.writing import write
from amp_lessons.core.states import State
from amp_lessons.core.terminal import line

Layout = Literal["plain", "canvas", "moodle"]
Per = Literal["exercise", "sheet"]

LONGEST = 200
"""Characters of a name or a remark in a cell."""

MOODLES_MOST = 100
"""Moodle refuses a higher grade, unless an administrator has allowed it."""


@dataclass(frozen=True)
class Item:
    """A column of points: an exercise, or a whole sheet.

    Attributes:
        title: its heading.
        of: what it is worth.
        exercises: what it adds up.
    """

    title: str
    of: int
    exercises: tuple[str, ...]

    def marks(self, learner: Learner) -> list[Mark]:
        found = learner.marks
        return [found[name] for name in self.exercises if name in found]

    def points(self, learner: Learner) -> int | None:
        """None where nothing was handed in, or where nothing could be judged."""
        counting = [m for m in self.marks(learner) if m.verdict.state is not State.SKIPPED]
        return sum(mark.points for mark in counting) if counting else None

    def skipped(self, learner: Learner) -> bool:
        """Whether all of it was skipped: it counts neither for nor against the learner."""
        states = {mark.verdict.state for mark in self.marks(learner)}
        return states == {State.SKIPPED}

    def feedback(self, learner: Learner) -> str:
        """What the checks said, for the learner."""
        return " / ".join(_remark(mark, len(self.exercises) > 1) for mark in self.marks(learner))


def _remark(mark: Mark, named: bool) -> str:
    said = str(mark.verdict.state)
    if not mark.verdict.passed and mark.verdict.state is not State.NOT_ATTEMPTED:
        said = f"{said}: {mark.message}"
    return _text(f"{mark.exercise}: {said}" if named else said)


def write_csv(
    all_graded: Sequence[Graded],
    file: Path,
    layout: Layout = "plain",
    per: Per = "exercise",
    people: Sequence[Listed] = (),
    only: Collection[str] | None = None,
) -> tuple[str, ...]:
    """Write learners × exercises, with totals. An older file is brought up to date (see `merging`).

    A learner's notebooks of different lessons are one row. If several are of the same lesson, the
    one with the most points counts (see `roster`). An empty cell stands for a sheet that was not
    handed in; 0 points are a 0.

    Args:
        layout: ``"plain"`` for a spreadsheet, or what an LMS imports.
        per: a column an exercise, or a column a sheet.
        people: the class's list (see `class_list`).
        only: the exercises that were set; None for all.

    Returns:
        What the instructor should know about the file, a line each.

    Raises:
        ReportError: if it cannot be written.
    """
    learners = roster(all_graded, people)
    by_slug = layout != "plain"
    items = _items(columns(learners), per, by_slug)
    kept = learners if layout == "plain" else tuple(each for each in learners if each.known)
    worth, others = _headings(layout, per, only)
    worth |= {item.title: item.of for item in items}
    rows, note = merging.merged(file, _LAYOUTS[layout](kept, items), layout, worth, others)
    stream = io.StringIO(newline="")
    csv.writer(stream, lineterminator="\r\n").writerows(rows)  # as RFC 4180 has it
    write(file, stream.getvalue().encode("utf-8-sig"), "--csv")
    return (*([line(note)] if note else []), *_notes(learners, kept, items, layout))


def check_csv(file: Path, layout: Layout, per: Per) -> None:
    """Before minutes of grading: if the file is there, can it be brought up to date?

    Raises:
        ReportError: if it holds another table.
    """
    if file.exists():
        merging.read(file, layout, *_headings(layout, per, None))


def _headings(
    layout: Layout, per: Per, only: Collection[str] | None
) -> tuple[dict[str, int], list[str]]:
    """The columns of points that such a table may have, with what each is worth; and those of one
    with the other kind of columns."""
    by_slug = layout != "plain"
    rival: Per = "sheet" if per == "exercise" else "exercise"
    worth = {item.title: item.of for item in _items(all_columns(only), per, by_slug)}
    return worth, [item.title for item in _items(all_columns(None), rival, by_slug)]


def _items(exercises: Sequence[Column], per: Per, by_slug: bool) -> list[Item]:
    """The columns of points. An LMS keeps their names for years, so no lesson number is in them."""
    found = []
    for lesson, group in groupby(exercises, key=lambda column: column.lesson):
        sheet = list(group)
        if per == "sheet":
            title = slug(lesson) if by_slug else lesson_title(lesson)
            names = tuple(column.exercise for column in sheet)
            found.append(Item(title, sum(column.of for column in sheet), names))
            continue
        for column in sheet:
            title = f"{slug(lesson)}: {column.exercise}" if by_slug else column.exercise
            found.append(Item(title, column.of, (column.exercise,)))
    return found


MISSING = "nothing was handed in"
"""Of a learner who is on the class's list."""


def _plain(learners: Sequence[Learner], items: Sequence[Item]) -> list[Row]:
    of = sum(item.of for item in items)
    head = ("learner", *(_text(item.title) for item in items), "points", "of")
    rows: list[Row] = [[*head, "gave up", "look at", "notes", "notebooks"]]
    for learner in learners:
        notes = [note for graded in learner.counted for note in graded.notes]
        words = (
            learner.gave_up,
            [MISSING] if learner.missing else learner.problems,
            [*learner.notes, *notes],
            [graded.name for graded in learner.counted],
        )
        cells = [_points(item, learner, "", "") for item in items]
        name = _text(learner.name) if learner.known else ""
        joined = (_text(" / ".join(each), 5 * LONGEST) for each in words)
        rows.append([name, *cells, learner.points, of, *joined])
    return rows


def _canvas(learners: Sequence[Learner], items: Sequence[Item]) -> list[Row]:
    identity = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    rows: list[Row] = [
        [*identity, *(_text(item.title) for item in items), "Final Points"],
        ["    Points Possible", "", "", "", "", *(item.of for item in items), "(read only)"],
    ]
    for learner in learners:
        # A row whose name contains these words would set what the assignments are worth.
        name = _text(learner.name).replace("Points Possible", "Points_Possible")
        who = learner.listed or Listed(name, learner.canvas, login=name)
        told = (who.name, who.id or learner.canvas, who.sis, who.login, who.section)
        cells = [_points(item, learner, "", "EX") for item in items]  # EX: excused
        rows.append([*map(_text, told), *cells, learner.points])
    return rows


def _moodle(learners: Sequence[Learner], items: Sequence[Item]) -> list[Row]:
    names = [_moodles_name(learner) for learner in learners]
    mail = bool(learners) and all("@" in name for name in names)
    head: Row = ["Email address" if mail else "Username"]
    for item in items:
        title = _text(item.title)
        head += [title, f"{title} (feedback)"]
    rows = [[*head, "Total"]]
    for learner, name in zip(learners, names, strict=True):
        row: Row = [_text(name)]
        for item in items:
            row += [_points(item, learner, "-", "-"), item.feedback(learner)]
        rows.append([*row, learner.points])
    return rows


def _moodles_name(learner: Learner) -> str:
    """The user name or mail address that the class's list gives, or else the learner's name."""
    who = learner.listed
    return (who and (who.login or who.mail)) or learner.name


_LAYOUTS: dict[Layout, Callable[[Sequence[Learner], Sequence[Item]], list[Row]]] = {
    "plain": _plain,
    "canvas": _canvas,
    "moodle": _moodle,
}


def _points(item: Item, learner: Learner, missing: str, skipped: str) -> str | int:
    if item.skipped(learner):
        return skipped
    points = item.points(learner)
    return missing if points is None else points


_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


def _text(text: str, longest: int = LONGEST) -> str:
    """Text as a cell that no spreadsheet takes for a formula, or for two cells.

    Where a comma is the decimal sign, Excel splits lines at semicolons. So none is left.
    """
    cell = line(text).replace(";", ",")[:longest]
    return f"'{cell}" if cell.startswith(_FORMULA) else cell


def _notes(
    learners: Sequence[Learner], kept: Sequence[Learner], items: Sequence[Item], layout: Layout
) -> tuple[str, ...]:
    notes = [note for learner in learners for note in learner.notes]
    left_out = [line(each.name) for each in learners if not each.known and layout != "plain"]
    if left_out:
        notes.append(
            f"{len(left_out)} without a learner's name left out of the CSV file: "
            + ", ".join(left_out[:5])
            + (" …" if len(left_out) > 5 else "")
        )
    twice = [
        name
        for (name, _), count in Counter((_text(each.name), each.canvas) for each in kept).items()
        if count > 1
    ]
    notes += [f"several learners read {name!r} in the CSV file: tell them apart" for name in twice]
    changed = [line(each.name) for each in kept if _text(each.name).startswith("'")]
    if changed and layout != "plain":
        notes.append(
            f"{len(changed)} names begin like a formula and got an apostrophe, so {layout} will "
            f"not find them: {', '.join(changed[:5])}"
        )
    spaced = [line(name) for each in kept if " " in line(name := _moodles_name(each))]
    if layout == "moodle" and spaced:
        notes.append(
            f"{len(spaced)} names are not user names of Moodle, which have no spaces: replace them "
            f"before you import, for one unknown learner ends it: {', '.join(spaced[:5])}"
        )
    total = sum(item.of for item in items)
    if layout == "moodle" and total > MOODLES_MOST:
        notes.append(
            f"the total is out of {total}, and Moodle refuses grades above {MOODLES_MOST}: leave "
            "the column Total out, or ask for unlimited grades"
        )
    return tuple(line(note) for note in notes)
