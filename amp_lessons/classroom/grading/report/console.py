"""Marks in a terminal: a table for each notebook, one table for a class, and a progress bar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from amp_lessons.classroom.grading.marks import Graded
from amp_lessons.classroom.grading.report.class_counts import exercise_counts
from amp_lessons.classroom.grading.report.roster import Learner, lesson_title
from amp_lessons.core import terminal
from amp_lessons.core.terminal import line, state_text

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

LONGEST = 60
"""Characters of a name. A name can hold thousands, and would push everything else away."""

MOST, HARDEST = 30, 3
"""Names and exercises in a summary."""

FEW = 3
"""So many notebooks get a table each. More are a class."""


def tables(all_graded: Sequence[Graded]) -> list[Table]:
    """What to print at the end: a table for each of a few notebooks, or one for a class."""
    if len(all_graded) > FEW:
        return [class_table(all_graded)]
    return [table(graded) for graded in all_graded if graded.marks]


def table(graded: Graded) -> Table:
    """The marks of one notebook, for a console."""
    from rich.table import Table
    from rich.text import Text

    title = Text(line(graded.name))
    result = Table(title=title, title_justify="left", title_style="bold", expand=True)
    result.show_footer = True
    result.add_column("exercise", footer="total", no_wrap=True)
    result.add_column("state", no_wrap=True)
    points = f"{graded.points}/{graded.of}"
    result.add_column("points", footer=points, justify="right", no_wrap=True)
    result.add_column("what the check says", overflow="fold", ratio=1)
    for mark in graded.marks:
        said = "" if mark.verdict.passed else mark.message
        row = (
            Text(mark.exercise),
            state_text(mark.verdict.state),
            Text(f"{mark.points}/{mark.of}"),
        )
        result.add_row(*row, Text(said))
    return result


def class_table(all_graded: Sequence[Graded]) -> Table:
    """A line for each notebook: whose, which sheet, the points, and the first problem.

    A sheet of which nothing was set, and that has no problem, gets none: a hand-out has many.
    """
    from rich.table import Table

    points = sum(graded.points for graded in all_graded)
    of = sum(graded.of for graded in all_graded)
    result = Table(expand=True, show_footer=True)
    result.add_column("learner", footer="total", overflow="fold", ratio=2)
    result.add_column("sheet", overflow="fold", ratio=2)
    result.add_column("points", footer=f"{points}/{of}", justify="right", no_wrap=True)
    result.add_column("look at", overflow="fold", ratio=4)
    for graded in sorted(all_graded, key=lambda each: (_whose(each).casefold(), each.name)):
        if graded.marks or graded.problems:
            result.add_row(*_row(graded))
    return result


def attendance(learners: Sequence[Learner]) -> list[str]:
    """Who of the class's list is missing, and who is not on it, a line each."""
    missing = [each.name for each in learners if each.missing]
    strangers = [each.name for each in learners if not each.listed]
    listed = len(learners) - len(strangers)
    found = []
    if missing:
        found.append(f"missing, {len(missing)} of {listed} on the list: {_some(missing)}")
    if listed and strangers:
        found.append(f"not on the list: {_some(strangers)}")
    return found


def summary(learners: Sequence[Learner]) -> list[str]:
    """What an instructor wants to know of a class at once, a line each: whom to look at, and which
    exercises held the class up."""
    here = [each for each in learners if not each.missing]
    doubtful = [each for each in here if each.problems]
    looks = [f"  {short(each.name)}: {short(each.problems[0], 2 * LONGEST)}" for each in doubtful]
    found = []
    if looks:
        found += [f"to look at, {len(looks)} of {len(here)}:", *looks[:MOST]]
        found += [f"  and {len(looks) - MOST} more"] if looks[MOST:] else []
    if hardest := [each for each in exercise_counts(learners) if each.held_up][:HARDEST]:
        counts = (f"{x.column.exercise} ({x.held_up} of {x.learners})" for x in hardest)
        found.append(f"held the class up, with those who did not pass: {', '.join(counts)}")
    return found


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST} more" if names[MOST:] else ""
    return "; ".join(short(name) for name in names[:MOST]) + more


def _row(graded: Graded) -> tuple[Text, ...]:
    from rich.text import Text

    problem = ""
    if graded.problems:
        more = f" (and {len(graded.problems) - 1} more)" if len(graded.problems) > 1 else ""
        problem = short(graded.problems[0], 2 * LONGEST) + more
    points = f"{graded.points}/{graded.of}" if graded.marks else ""
    sheet = lesson_title(graded.lesson) if graded.lesson else ""
    return Text(short(_whose(graded))), Text(short(sheet)), Text(points), Text(problem)


def _whose(graded: Graded) -> str:
    return line(graded.learner) or line(graded.name)


def short(text: str, longest: int = LONGEST) -> str:
    """One line of at most so many characters, without anything that could steer a terminal."""
    whole = line(text)
    return whole if len(whole) <= longest else whole[: longest - 1] + "…"


def with_progress(all_graded: Iterable[Graded], total: int, show: bool = True) -> Iterator[Graded]:
    """The same results, with a progress bar on standard error while they come.

    The bar is there only if standard error is a terminal, and it is gone at the end. Standard
    output is left alone, so a pipe gets the report and nothing else.

    Args:
        total: how many results there will be.
        show: whether to draw a bar at all.
    """
    screen = terminal.console(stderr=True)
    if not (show and screen.is_terminal):
        yield from all_graded
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    shown = (
        TextColumn("grading"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[to_look_at]}"),
    )
    # Redirected, what is printed on standard output meanwhile would come out on standard error.
    with Progress(
        *shown, console=screen, transient=True, redirect_stdout=False, redirect_stderr=False
    ) as progress:
        task = progress.add_task("", total=total, to_look_at="")
        to_look_at = 0
        for graded in all_graded:
            to_look_at += not graded.gradable
            words = f"{to_look_at} to look at" if to_look_at else ""
            progress.update(task, advance=1, to_look_at=words)
            yield graded
