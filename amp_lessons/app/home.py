"""The learner's home page: the map of the course, the paths through it, and where to go on.

The page is an ordinary notebook, `catalogue.HOME`. All that depends on progress is the output of
one cell, which has the tag ``drawn`` and calls `show`. So the page never shows two states at a
time:

- `amp-lessons lab` stores that output at its start (`drawn`), so that the page can be read before
  any cell has run. It says of which moment it speaks, or nothing about progress.
- To run the cell replaces it. From then on a thread in the kernel keeps the output up to date, so
  that it is right when a learner comes back from a lesson.

All other cells belong to the course, or to the learner.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime
from posixpath import relpath
from typing import TYPE_CHECKING, Any

from amp_lessons.core import ipynb, progress
from amp_lessons.core.catalogue import (
    HOME,
    LESSONS,
    PATHS,
    LearningPath,
    Lesson,
    Stage,
    lesson_called,
    paths_with,
)
from amp_lessons.core.progress import Progress
from amp_lessons.core.standing import core_passes, next_lesson, passes, state_of
from amp_lessons.core.states import look

if TYPE_CHECKING:
    from amp_lessons.core.boxes import Links
    from amp_lessons.core.pictures import Picture

DRAWN = "drawn"
"""The tag of the cell whose output `drawn` writes."""

LIVE = "live"
"""The tag of cells that are stored without output."""

SECONDS = 2.0
"""How often an open page looks for new progress."""

_MARKS = {state: look(state).symbol for state in ("done", "started", "open")}


# ---- the page, as text --------------------------------------------------------------------------


def status(done: Progress, now: datetime | None = None) -> tuple[str, str]:
    """Where the learner stands, in Markdown: what stands above the map, and what below it.

    For somebody who has done nothing yet it says nothing about progress, and so it stays true.

    Args:
        done: what has been recorded.
        now: the time to show, or None on a page that is stored when the course is opened.
    """
    new = _is_new(done)
    paths = [
        "| path | where it leads | steps |",
        "|---|---|---|",
        *(_path_row(path, done, new) for path in PATHS),
    ]
    lessons = [
        "| done | lesson | you will be able to | minutes | exercises passed |",
        "|---|---|---|---:|---|",
        *(_lesson_row(lesson, done, new) for lesson in LESSONS),
    ]
    legend = [
        f"{_MARKS['done']} done, {_MARKS['started']} started, {_MARKS['open']} not yet. A "
        "lesson is done when you have run its last cell, or passed its core exercises.",
        "",
    ]
    if new:
        head = ["| lesson | you will be able to | minutes | exercises |", "|---|---|---:|---|"]
        legend, lessons[:2] = [], head
    below = [
        "## Pick a path",
        "",
        *paths,
        "",
        "A path's time is that of its lessons with their core exercises.",
        "",
        "## All lessons",
        "",
        *legend,
        *lessons,
    ]
    return _go_on(done, now), "\n".join(below)


def _is_new(done: Progress) -> bool:
    return all(state_of(lesson, done) == "open" for lesson in LESSONS)


def _go_on(done: Progress, now: datetime | None) -> str:
    finished = sum(state_of(lesson, done) == "done" for lesson in LESSONS)
    passed = sum(passes(lesson, done) for lesson in LESSONS)
    exercises = sum(len(lesson.exercises) for lesson in LESSONS)
    lesson = next_lesson(done)
    if lesson is None:
        here = "**You have finished every lesson.** The exercises and the numbers below stay here."
    else:
        link = f"[lesson {lesson.number:02}, {lesson.title}]({_to(lesson.notebook)})"
        if _is_new(done):
            return f"**New here? Start with {link}.** It takes {lesson.minutes} minutes."
        here = f"**Continue here: {link}**, or at the arrow on your path below."
    count = f"finished {finished} of {len(LESSONS)} lessons and passed {passed} of {exercises}"
    if now is None:
        return f"When you opened the course, you had {count} exercises. {here}"
    return f"{here} You have {count} exercises (seen at {now:%H:%M})."


def _path_row(path: LearningPath, done: Progress, new: bool) -> str:
    finished = sum(state_of(lesson, done) == "done" for lesson in path.lessons)
    following = next((x for x in path.lessons if state_of(x, done) != "done"), None)
    marked = following if finished else None  # for somebody new, one start is enough
    stages = "<br>".join(_stage(stage, done, marked, new) for stage in path.stages)
    time = f"about {round(path.minutes / 60)} hours" if path.minutes > 120 else ""
    count = "" if new else f"{finished} of {len(path.lessons)} done"
    parts = [f"**{path.title}**", time, count]
    return f"| {'<br>'.join(filter(None, parts))} | {path.goal} | {stages} |"


def _stage(stage: Stage, done: Progress, marked: Lesson | None, new: bool) -> str:
    steps = []
    for lesson in map(lesson_called, stage.lessons):
        mark = "" if new else f"{_MARKS[state_of(lesson, done)]}\u00a0"
        step = f"{mark}[{lesson.number:02} {lesson.title}]({_to(lesson.notebook)})"
        steps.append(f"{step} **← continue here**" if lesson is marked else step)
    before = f"*{stage.title}:* " if stage.title else ""
    return before + ", ".join(steps)


def _lesson_row(lesson: Lesson, done: Progress, new: bool) -> str:
    title = f"[{lesson.number:02} {lesson.title}]({_to(lesson.notebook)})"
    count = (
        f"{len(lesson.exercises)}" if new else f"{passes(lesson, done)} of {len(lesson.exercises)}"
    )
    minutes = sum(info.minutes for info in lesson.exercises)
    sheet = f"[{count}]({_to(lesson.sheet)}), {minutes}\u00a0min" if lesson.exercises else ""
    if lesson.deep:
        title += f"<br>optional: [{lesson.deep.title}]({_to(lesson.deep_notebook)})"
    mark = "" if new else f"| {_MARKS[state_of(lesson, done)]} "
    return f"{mark}| {title} | {lesson.goal} | {lesson.minutes} | {sheet} |"


def _to(path: str) -> str:
    return relpath(path, HOME.rpartition("/")[0])


# ---- the page, as a picture ---------------------------------------------------------------------


def alt_text(done: Progress) -> str:
    """The map in words."""
    what = f"Map of the {len(LESSONS)} lessons and how they build on each other."
    if _is_new(done):
        return what
    parts = []
    for state, word in (("done", "Done"), ("started", "Started"), ("open", "Not yet")):
        numbers = [f"{x.number:02}" for x in LESSONS if state_of(x, done) == state]
        if numbers:
            parts.append(f"{word}: {', '.join(numbers)}")
    return f"{what} {'; '.join(parts)}."


def picture(done: Progress) -> Picture:
    """The map: each lesson with its state, and an arrow from each lesson it needs."""
    from amp_lessons.lessons import plots

    notes = {}
    for lesson in LESSONS:
        state = state_of(lesson, done)
        count = f", {passes(lesson, done)} of {len(lesson.exercises)} exercises"
        note = f"{_MARKS[state]} {state}{count if lesson.exercises else ''}"
        notes[lesson.id] = (state, "" if state == "open" else note)
    return plots.course_map(LESSONS, notes, alt=alt_text(done))


# ---- the notebook -------------------------------------------------------------------------------


def drawn(notebook: dict[str, Any], done: Progress) -> dict[str, Any]:
    """The home notebook with the output of its drawn cell written from this progress.

    The outputs of its live cells are taken away.
    """
    outputs = [
        {"output_type": "display_data", "metadata": {}, "data": data} for data in _parts(done)
    ]
    cells = []
    for cell in notebook["cells"]:
        if _has_tag(cell, LIVE) and cell["cell_type"] == "code":
            # A box that a former kernel drew looks as if it worked.
            cells.append(cell | {"outputs": [], "execution_count": None})
        elif is_drawn(cell) and cell["cell_type"] == "code":
            cells.append(cell | {"outputs": outputs, "execution_count": None})
        else:
            cells.append(cell)
    return notebook | {"cells": cells}


def _parts(done: Progress, now: datetime | None = None) -> list[dict[str, object]]:
    """What the drawn cell shows, by MIME type: text, the map, text. It is always three parts."""
    above, below = ({"text/markdown": text, "text/plain": text} for text in status(done, now))
    return [{**above}, picture(done)._repr_mimebundle_(), {**below}]


def is_drawn(cell: ipynb.Cell) -> bool:
    """Whether `drawn` writes this cell."""
    return _has_tag(cell, DRAWN)


def _has_tag(cell: ipynb.Cell, tag: str) -> bool:
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    return isinstance(tags, list) and tag in tags


# ---- what its cells and the lessons' call -------------------------------------------------------


def show() -> None:
    """Draw the page from the progress of this moment, and again whenever that changes."""
    from IPython.display import display

    done = progress.load()
    for warning in done.warnings:
        print(warning)
    shown = [display(data, raw=True, display_id=True) for data in _parts(done, datetime.now())]
    handles = [handle for handle in shown if handle is not None]

    def redraw(done: Progress) -> None:
        for handle, data in zip(handles, _parts(done, datetime.now()), strict=True):
            handle.update(data, raw=True)

    if handles:  # there are none where there is no notebook
        _follow(redraw, done)


_following = threading.Event()
"""Set when the thread that keeps the page up to date should end."""


def _follow(redraw: Callable[[Progress], None], seen: Progress) -> None:
    """Call ``redraw`` from a thread whenever the saved progress has changed; one at a time."""
    global _following
    _following.set()
    _following = ended = threading.Event()

    def look_again() -> None:
        last = seen
        while not ended.wait(SECONDS):
            try:
                done = progress.load()
            except progress.ProgressError:
                continue
            if (done.entries, done.lessons) != (last.entries, last.lessons):
                redraw(done)
                last = done

    threading.Thread(target=look_again, name="amp-lessons home", daemon=True).start()


def finished(slug: str) -> None:
    """Mark a lesson as done, and show the way on. The last cell of each lesson calls this.

    Args:
        slug: of the lesson, such as ``"grad_scaler"``.

    Raises:
        KeyError: if there is no such lesson.
    """
    from amp_lessons.core import boxes
    from amp_lessons.exercises.checks import display

    lesson = lesson_called(slug)
    done = Progress()
    problems: list[str] = []
    message = ""
    try:
        done = progress.record_lesson(slug)
    except progress.ProgressError as error:
        problems.append(f"Progress was not saved. {error}")
    else:
        problems += done.warnings
        if lesson.exercises:
            message = f"Core exercises passed: {core_passes(lesson, done)} of {len(lesson.core)}."
    sheet = ((f"exercises {lesson.number:02}", f"../{lesson.sheet}"),) if lesson.exercises else ()
    way = boxes.Links("Next in the course: ", (*sheet, *display.way_on(lesson)))
    foot = [way, *_way_on_paths(lesson, done), *problems]
    boxes.show_box(f"✔ Lesson {lesson.number:02} done: {lesson.title}", message, foot)


def _way_on_paths(lesson: Lesson, done: Progress) -> list[str | Links]:
    """What comes next on each path that leads through a lesson, and which of them end with it."""
    from amp_lessons.core.boxes import Links

    steps: dict[tuple[str, str], list[str]] = {}
    ends = []
    for path in paths_with(lesson):
        following = path.after(lesson)
        if following:
            step = f"{following.number:02} {following.title}", f"../{following.notebook}"
            steps.setdefault(step, []).append(path.name)
        if following is None:
            ends.append(f"That was the last lesson of the {path.name}{_left(path, done)}.")
    links = tuple((f"{', '.join(names)}: {label}", to) for (label, to), names in steps.items())
    return [*([Links("Next on your path: ", links)] if links else []), *ends]


def _left(path: LearningPath, done: Progress) -> str:
    """Which lessons of a path are not done, as the end of a sentence."""
    if len(path.lessons) == 1:
        return ""
    numbers = [f"{each.number:02}" for each in path.lessons if state_of(each, done) != "done"]
    return f" (not done yet: {', '.join(numbers)})" if numbers else ", and you have done them all"
