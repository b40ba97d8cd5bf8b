"""`amp-lessons grade`: its options, and what it prints and writes.

`cli` registers it. The grading itself is in `batch`, the reports are in `report`.
"""

from __future__ import annotations

import difflib
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from amp_lessons.core.terminal import console, say, warn

if TYPE_CHECKING:
    from amp_lessons.classroom.grading import Graded, GradingOptions, HandedIn
    from amp_lessons.classroom.grading.report import Listed


MOST_JOBS = 256


class Layout(StrEnum):
    PLAIN = "plain"
    CANVAS = "canvas"
    MOODLE = "moodle"


class Per(StrEnum):
    EXERCISE = "exercise"
    SHEET = "sheet"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(grade)


def grade(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="The class's folder, its learners' folders, notebooks, zip files, or nbgrader's "
            "folder `submitted`.",
        ),
    ],
    json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON: a line for each notebook, as soon as it is done."),
    ] = False,
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a table of learners and exercises. If it is there, bring it up to date: "
            "learners who are not graded now stay as they are.",
        ),
    ] = None,
    layout: Annotated[
        Layout, typer.Option(help="How --csv is laid out, for the gradebook that imports it.")
    ] = Layout.PLAIN,
    per: Annotated[
        Per, typer.Option(help="Whether --csv has a column for each exercise or each sheet.")
    ] = Per.EXERCISE,
    html: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write a page for each learner and one for the class."),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep each result here as soon as it is there. Run it again with the same DIR "
            "after an interruption, and it goes on. The reports then show all that is kept.",
        ),
    ] = None,
    roster: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The class's list: names, a table, or Canvas's gradebook. Says who is missing.",
        ),
    ] = None,
    exercises: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Count these exercises alone: clip_step,gram"),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(
            metavar="PLAN", help="Count only what a workshop of 2h, 4h or 8h sets everybody."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Notebooks to run at the same time. Default: one for each core."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds for one cell.")] = 30.0,
    total: Annotated[float, typer.Option(min=0.1, help="Seconds for one notebook.")] = 300.0,
    memory: Annotated[
        int, typer.Option(min=64, help="MiB of memory for one notebook, besides torch.")
    ] = 2048,
    seed: Annotated[
        str,
        typer.Option(
            help="Draw the checks' inputs from this text, as a former batch did. Default: a new "
            "secret for each batch.",
        ),
    ] = "",
    require_sandbox: Annotated[
        bool, typer.Option("--require-sandbox", help="Refuse to run where there is no sandbox.")
    ] = False,
    no_sandbox: Annotated[
        bool,
        typer.Option("--no-sandbox", help="Run without one: only for notebooks that you trust."),
    ] = False,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            "--trust",
            metavar="NAME",
            help="You have looked at this learner's notebooks: what was repaired in them is no "
            "problem, and they may use the course's functions that do a task. May be repeated.",
        ),
    ] = None,
    dask: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Send the notebooks to this Dask scheduler."),
    ] = None,
) -> None:
    """Run learners' notebooks in a sandbox, and give points.

    The exit status is 0 only if all could be graded. A wrong answer can; a
    notebook that is broken, or a cell that never ends, cannot.
    """
    if find_spec("IPython") is None:  # of the extra: better missed here than in the sandbox
        raise ModuleNotFoundError(name="IPython")
    from amp_lessons.classroom import grading
    from amp_lessons.classroom.grading import report

    if require_sandbox and no_sandbox:
        raise typer.BadParameter("--require-sandbox and --no-sandbox exclude each other")
    _check_outputs(csv, html)
    if csv is not None:
        report.check_csv(csv, layout.value, per.value)
    people = report.read_class_list(roster) if roster is not None else ()
    only = _what_was_set(exercises, plan)
    known = _known_learners(people, csv, results)
    without = [path for path in (csv, html, results, roster) if path is not None]
    handed_in = grading.collect(paths, known, without)
    options = grading.GradingOptions(
        grading.Limits(cell=timeout, total=total, memory=memory),
        min(jobs or os.cpu_count() or 1, len(handed_in), MOST_JOBS),
        seed,
        "required" if require_sandbox else "none" if no_sandbox else "auto",
        results,
        _trusted(trust or (), handed_in),
    )
    with _ended_as_on_ctrl_c(), _grading(handed_in, options, dask) as (about, found):
        counted = (_only(graded, only) for graded in found)
        all_graded = _shown_as_they_come(counted, len(handed_in), about if json else None)
    place = {each.name: number for number, each in enumerate(handed_in)}
    all_graded.sort(key=lambda graded: place[graded.name])
    all_graded = _without_strays(all_graded)
    well = all(graded.gradable for graded in all_graded)
    tell = warn if json else say
    if results is not None:
        all_graded += _kept_before(results, all_graded, only, tell)
    learners = report.roster(all_graded, people)
    if not json:
        _print(all_graded)
    for text in report.attendance(learners):
        tell(text)
    if not json and len(all_graded) > report.FEW:
        for text in report.summary(learners):
            print(text)
    gradebook = partial(report.write_csv, layout=layout.value, per=per.value, only=only)
    _write(all_graded, about, people, csv, gradebook, html, tell)
    raise typer.Exit(0 if well and not any(learner.doubts for learner in learners) else 1)


def _what_was_set(exercises: str | None, plan: str | None) -> frozenset[str] | None:
    """The exercises that count; None for all."""
    from amp_lessons.core import catalogue

    if exercises is None and plan is None:
        return None
    names = [name for name in re.split(r"[,\s]+", exercises or "") if name]
    found = {catalogue.exercise_info(name).name for name in names}
    if plan is not None:
        from amp_lessons.classroom.workshop import reading

        found |= set(reading.load(plan).exercises)
    if not found:
        raise typer.BadParameter("--exercises names no exercise: write them as clip_step,gram")
    return frozenset(found)


def _known_learners(
    people: Sequence[Listed], csv: Path | None, results: Path | None
) -> Iterator[str]:
    """The names that the class's learners have had so far, so that they keep them."""
    from amp_lessons.classroom.grading import kept, report

    for person in people:
        yield from (person.name, person.login, person.id)
    if csv is not None:
        yield from report.names_in(csv)
    if results is not None:
        yield from (graded.learner for graded in kept.kept_in(results))


def _trusted(names: Sequence[str], handed_in: Sequence[HandedIn]) -> frozenset[str]:
    """The learners with these names. A name that nobody has would be trusted in vain."""
    from amp_lessons.classroom.grading import whose

    found = {whose.key(each.learner): each.learner for each in handed_in}
    for name in names:
        if whose.key(name) not in found:
            near = difflib.get_close_matches(whose.key(name), found, n=3) or sorted(found)[:3]
            there = ", ".join(found[each] for each in near)
            raise typer.BadParameter(f"--trust: no learner here is called {name!r}; try {there}")
    wanted = set(map(whose.key, names))
    return frozenset(each.learner for each in handed_in if whose.key(each.learner) in wanted)


def _without_strays(all_graded: list[Graded]) -> list[Graded]:
    """A notebook without exercises, such as Untitled.ipynb, is worth a note and no more if the same
    learner has handed in a sheet too."""
    from amp_lessons.classroom.grading.notebook import NO_EXERCISE

    sheets = {graded.learner for graded in all_graded if graded.marks}
    return [
        replace(graded, problems=(), notes=(*graded.problems, *graded.notes))
        if graded.learner in sheets and any(NO_EXERCISE in text for text in graded.problems)
        else graded
        for graded in all_graded
    ]


def _only(graded: Graded, exercises: frozenset[str] | None) -> Graded:
    return graded if exercises is None else graded.only(exercises)


def _kept_before(
    folder: Path,
    all_graded: Sequence[Graded],
    only: frozenset[str] | None,
    tell: Callable[[str], None],
) -> list[Graded]:
    """The class's other results, so that no report shows a part of it alone."""
    from amp_lessons.classroom.grading import kept

    found = [_only(graded, only) for graded in kept.others_in(folder, all_graded)]
    if found:
        learners = len({graded.learner for graded in found})
        tell(
            f"{folder}: {len(found)} other notebook{'s' * (len(found) != 1)} of {learners} "
            f"learner{'s' * (learners != 1)} stand as they were graded before"
        )
    return found


def _check_outputs(csv: Path | None, html: Path | None) -> None:
    """Before minutes of grading: can the reports be written?"""
    if csv is not None and (csv.is_dir() or not csv.absolute().parent.is_dir()):
        raise typer.BadParameter(f"--csv: {csv} cannot be written: no such folder")
    if html is not None:
        try:
            html.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise typer.BadParameter(f"--html: {html}: {error.strerror}") from None


@contextmanager
def _grading(
    handed_in: list[HandedIn], options: GradingOptions, dask: str | None
) -> Iterator[tuple[dict[str, Any], Iterator[Graded]]]:
    """What is known of the batch, and its results as they come, from here or from a cluster."""
    from amp_lessons.classroom import grading

    today = {"date": f"{datetime.now(UTC):%Y-%m-%d}"}
    if dask is not None:
        from amp_lessons.classroom.grading import cluster

        with cluster.open_batch(dask, options) as batch:
            yield {**batch.about, **today}, batch.grade(handed_in)
        return
    with grading.open_batch(options) as batch:
        if batch.missing:
            warn(batch.missing)
        yield {**batch.about, **today}, batch.grade(handed_in)


def _shown_as_they_come(
    found: Iterator[Graded], total: int, about: dict[str, Any] | None
) -> list[Graded]:
    """Collect the results; with ``about``, write each as JSON at once."""
    from amp_lessons.classroom.grading import report

    document = report.JsonWriter(sys.stdout, about) if about is not None else None
    all_graded = []
    drawn = document is None or not sys.stdout.isatty()
    for graded in report.with_progress(found, total, drawn):
        all_graded.append(graded)
        if document is not None:
            document.add(graded)
            _warn_of(graded.name, graded.problems)
    if document is not None:
        document.close()
    return all_graded


def _print(all_graded: list[Graded]) -> None:
    from amp_lessons.classroom.grading import report

    screen = console()
    for table in report.tables(all_graded):
        screen.print(table)
    if len(all_graded) <= report.FEW:
        for graded in all_graded:
            _warn_of(graded.name, [*graded.problems, *(f"note: {n}" for n in graded.notes)])
    if len(all_graded) > 1:
        points = sum(graded.points for graded in all_graded)
        of = sum(graded.of for graded in all_graded)
        say(f"{points} of {of} points in {len(all_graded)} notebooks")


def _warn_of(name: str, texts: Sequence[str]) -> None:
    for text in texts:
        warn(f"{name}: {text}")


def _write(
    all_graded: list[Graded],
    about: dict[str, Any],
    people: Sequence[Listed],
    csv: Path | None,
    gradebook: Callable[..., Sequence[str]],
    html: Path | None,
    tell: Callable[[str], None],
) -> None:
    """Write the reports. Where they lie is told with ``tell``: standard output may hold JSON."""
    from amp_lessons.classroom.grading import report

    if csv is not None:
        for text in gradebook(all_graded, csv, people=people):
            warn(text)
        tell(f"marks: {csv}")
    if html is not None:
        tell(f"pages: {report.write_pages(all_graded, html, about, people)}")


@contextmanager
def _ended_as_on_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the stack, so that no notebook is left running."""

    def leave(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)

    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), leave)
    yield
