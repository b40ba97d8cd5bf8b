"""A class's table is brought up to date, and never replaced by that of a few learners.

Where the CSV file is there already, the rows of learners who were graded now are updated, cell by
cell, and everything else stays: other learners, sheets that were not graded again, and columns that
the instructor has added. Totals are added up again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from amp_lessons.classroom.grading.report.class_list import plain, rows_of
from amp_lessons.classroom.grading.report.writing import ReportError
from amp_lessons.classroom.grading.whose import key

Row = list[str | int]
FEEDBACK = " (feedback)"
_NO_MARK = ("", "-")


@dataclass(frozen=True)
class Form:
    """How a table is laid out.

    Args:
        front: the headings of the columns before the points; of each, all that it may say.
        total: the heading of the total.
        back: the headings behind it.
        names: the columns that tell whose a row is, the surest first.
        same: equal for two spellings of one name.
        joined: columns with remarks, which are kept where not all of a row is new.
        second_head: whether the second row says what each column is worth.
    """

    front: tuple[tuple[str, ...], ...]
    total: str
    back: tuple[str, ...] = ()
    names: tuple[int, ...] = (0,)
    same: Callable[[str], str] = key
    joined: tuple[str, ...] = ()
    second_head: bool = False


FORMS = {
    "plain": Form(
        (("learner",),),
        "points",
        ("of", "gave up", "look at", "notes", "notebooks"),
        joined=("gave up", "look at", "notes", "notebooks"),
    ),
    "canvas": Form(
        (("Student",), ("ID",), ("SIS User ID",), ("SIS Login ID",), ("Section",)),
        "Final Points",
        names=(1, 0),
        same=plain,  # Canvas calls Jane Doe "Doe, Jane" in a table, and "doejane" in a file's name
        second_head=True,
    ),
    "moodle": Form((("Username", "Email address"),), "Total"),
}


@dataclass
class _Table:
    """A table by its headings.

    Attributes:
        items: the headings of points, in their order.
        own: columns that somebody has added.
    """

    head: list[str]
    rows: list[dict[str, str | int]]
    items: list[str]
    own: list[str]


def merged(
    file: Path, rows: Sequence[Row], layout: str, worth: Mapping[str, int], others: Sequence[str]
) -> tuple[list[Row], str]:
    """The rows to write, and a line that says what was kept, or "".

    Args:
        file: where they will be written. If it is not there, the rows are what they are.
        worth: what each column of points is worth that this table may have, in their order.
        others: headings that this table would have if it were laid out in another way.

    Raises:
        ReportError: if the file holds anything else: it would be lost.
    """
    if not file.exists():
        return list(rows), ""
    form, new = FORMS[layout], _table(rows, FORMS[layout], worth)
    old = read(file, layout, worth, others)
    updated, kept = _joined(old, new, form)
    items = [title for title in worth if title in {*old.items, *new.items}]
    columns = [title + part for title in items for part in ("", FEEDBACK)]
    middle = [title for title in columns if title in items or layout == "moodle"]
    head = [*new.head[: len(form.front)], *middle, form.total, *form.back, *old.own]
    result: list[Row] = [[*head]]
    if form.second_head:
        second: dict[str, str | int] = dict(zip(new.head, rows[1], strict=True))
        result.append([(second | dict(worth)).get(title, "") for title in head])
    everybody = sorted([*updated, *kept], key=lambda row: str(row[head[0]]).casefold())
    for row in everybody:
        row[form.total] = sum(_points(row.get(title, "")) for title in items)
        if "of" in form.back:
            row["of"] = sum(worth[title] for title in items)
        result.append([row.get(title, "") for title in head])
    if not kept:
        return result, ""
    return result, (
        f"{file}: {len(updated)} learner{'' if len(updated) == 1 else 's'} updated, and "
        f"{len(kept)} whom this batch doesn't have kept as they were"
    )


def names_in(file: Path) -> list[str]:
    """The learners in a CSV file that `grade` has written; none if it cannot be read."""
    with suppress(OSError):
        return [row[0] for row in rows_of(file.read_bytes())[1:] if row and row[0]]
    return []


def _points(cell: str | int) -> int:
    text = str(cell)
    return int(text) if text.isdecimal() else 0


def read(file: Path, layout: str, worth: Mapping[str, int], others: Sequence[str]) -> _Table:
    """The table in a file. Raises `ReportError` if it holds anything else; see `merged`."""
    form = FORMS[layout]
    try:
        found = [row for row in rows_of(file.read_bytes()) if any(row)]
    except OSError as error:
        raise ReportError(f"cannot read {file}: {error.strerror}") from error
    head = found[0] if found else []
    front = [cell in told for cell, told in zip(head, form.front, strict=False)]
    fits = len(front) == len(form.front) and all(front) and form.total in head
    if found and (not fits or set(head) & set(others) - set(worth)):
        raise ReportError(
            f"{file} holds another table, which would be lost: name another file with --csv, or "
            "use the same --layout and --per as before"
        )
    rows: list[Row] = [[*row] for row in found]
    return _table(rows or [[form.front[0][0], form.total]], form, worth)


def _table(rows: Sequence[Row], form: Form, worth: Mapping[str, int]) -> _Table:
    head = [str(cell) for cell in rows[0]]
    known = {*head[: len(form.front)], form.total, *form.back}
    items = [title for title in head if title in worth]
    feedback = {title + FEEDBACK for title in items}
    own = [title for title in head if title not in known | set(items) | feedback]
    below = rows[2:] if form.second_head else rows[1:]
    cells = [dict(zip(head, row, strict=False)) for row in below]
    return _Table(head, cells, items, own)


def _joined(
    old: _Table, new: _Table, form: Form
) -> tuple[list[dict[str, str | int]], list[dict[str, str | int]]]:
    """The new rows, each with what stays of its old one; and the old rows that have no new one."""
    left, updated = list(old.rows), []
    for row in new.rows:
        before = next((each for each in left if _are_one(each, old, row, new, form)), None)
        if before is not None:
            left.remove(before)
            row = _updated(before, row, old, new, form)
        updated.append(row)
    return updated, left


def _are_one(
    one: Mapping[str, str | int],
    old: _Table,
    other: Mapping[str, str | int],
    new: _Table,
    form: Form,
) -> bool:
    """Whether two rows are one learner's: by the first of the columns that both have."""
    for place in form.names:
        first = form.same(str(one.get(old.head[place], "")))
        second = form.same(str(other.get(new.head[place], "")))
        if first and second:
            return first == second
    return bool(form.back) and one.get(form.back[-1]) == other.get(form.back[-1])


def _updated(
    before: Mapping[str, str | int],
    row: Mapping[str, str | int],
    old: _Table,
    new: _Table,
    form: Form,
) -> dict[str, str | int]:
    """A learner's row: a mark is replaced by a mark, and by nothing else."""
    result = {**before, **row}
    stays = [
        title
        for title in old.items
        if before.get(title, "") not in _NO_MARK and row.get(title, "") in _NO_MARK
    ]
    for title in stays:
        result |= {t: before[t] for t in (title, title + FEEDBACK) if t in before}
    for title in form.joined if stays else ():
        result[title] = _together(before.get(title, ""), row.get(title, ""))
    return result


def _together(before: str | int, now: str | int) -> str:
    parts = [part for text in (now, before) for part in str(text).split(" / ") if part]
    return " / ".join(dict.fromkeys(parts))
