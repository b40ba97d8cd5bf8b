"""The learner's home page: the map of the course, the paths through it, and where to go on.

The page is an ordinary notebook, `course.HOME`. Its cells with the tag ``drawn`` belong to this
module: they are written again from the saved progress whenever `amp-lessons lab` starts, so that
the page can be read before any cell has run. Its one code cell calls `show`, which draws the same
from the progress of this moment. All other cells belong to the course, or to the learner.
"""

from __future__ import annotations

import base64
from posixpath import relpath
from typing import TYPE_CHECKING, Any

from amp_lessons import ipynb, progress, renamed
from amp_lessons.course import (
    HOME,
    LESSONS,
    PATHS,
    LearningPath,
    Lesson,
    Stage,
    lesson_called,
)
from amp_lessons.foundations.states import look
from amp_lessons.progress import Progress
from amp_lessons.standing import next_lesson, passes, state_of

if TYPE_CHECKING:
    from amp_lessons.plots import Picture

DRAWN = "drawn"
"""The tag of the cells that `drawn` writes."""

_MAP = "map.png"
_MARKS = {state: look(state).symbol for state in ("done", "started", "open")}


# ---- the page, as text --------------------------------------------------------------------------


def status(done: Progress) -> str:
    """Where the learner stands, in Markdown: where to go on, the map, the paths, all lessons."""
    paths = [
        "| path | where it leads | steps |",
        "|---|---|---|",
        *(_path_row(path, done) for path in PATHS),
    ]
    lessons = [
        "| done | lesson | you will be able to | minutes | exercises passed |",
        "|---|---|---|---:|---|",
        *(_lesson_row(lesson, done) for lesson in LESSONS),
    ]
    return "\n".join(
        [
            _go_on(done),
            "",
            f"![{alt_text(done)}](attachment:{_MAP})",
            "",
            "## Pick a path",
            "",
            *paths,
            "",
            "## All lessons",
            "",
            f"{_MARKS['done']} done, {_MARKS['started']} started, {_MARKS['open']} not yet. A "
            "lesson is done when you have run its last cell, or passed all its exercises.",
            "",
            *lessons,
        ]
    )


def _go_on(done: Progress) -> str:
    lesson = next_lesson(done)
    if lesson is None:
        return "**You have finished every lesson.** The exercises and the numbers below stay here."
    finished = sum(state_of(lesson, done) == "done" for lesson in LESSONS)
    passed = sum(passes(lesson, done) for lesson in LESSONS)
    exercises = sum(len(lesson.exercises) for lesson in LESSONS)
    link = f"[lesson {lesson.number:02}, {lesson.title}]({_to(lesson.notebook)})"
    if not finished and not passed:
        return f"**Start here: {link}.** It takes {lesson.minutes} minutes."
    return (
        f"**Continue here: {link}.** You have finished {finished} of {len(LESSONS)} lessons and "
        f"passed {passed} of {exercises} exercises."
    )


def _path_row(path: LearningPath, done: Progress) -> str:
    finished = sum(state_of(lesson, done) == "done" for lesson in path.lessons)
    following = next((x for x in path.lessons if state_of(x, done) != "done"), None)
    marked = following if finished else None  # for somebody new, one "start here" is enough
    stages = "<br>".join(_stage(stage, done, marked) for stage in path.stages)
    time = f"about {round(path.minutes / 60)} hours" if path.minutes > 120 else ""
    parts = [f"**{path.title}**", time, f"{finished} of {len(path.lessons)} done"]
    return f"| {'<br>'.join(filter(None, parts))} | {path.goal} | {stages} |"


def _stage(stage: Stage, done: Progress, marked: Lesson | None) -> str:
    steps = []
    for lesson in map(lesson_called, stage.lessons):
        step = f"{_MARKS[state_of(lesson, done)]}\u00a0[{lesson.number:02} {lesson.title}]"
        step += f"({_to(lesson.notebook)})"
        steps.append(f"{step} **← continue here**" if lesson is marked else step)
    for lesson in map(lesson_called, stage.sheets):
        count = f"{passes(lesson, done)} of {len(lesson.exercises)}"
        steps.append(f"[exercises {lesson.number:02}]({_to(lesson.sheet)}) {count}")
    before = f"*{stage.title}:* " if stage.title else ""
    return before + ", ".join(steps)


def _lesson_row(lesson: Lesson, done: Progress) -> str:
    title = f"[{lesson.number:02} {lesson.title}]({_to(lesson.notebook)})"
    count = f"[{passes(lesson, done)} of {len(lesson.exercises)}]({_to(lesson.sheet)})"
    if not lesson.exercises:
        count = ""
    if lesson.deep:
        title += f"<br>optional: [{lesson.deep.title}]({_to(lesson.deep_notebook)})"
    mark = _MARKS[state_of(lesson, done)]
    return f"| {mark} | {title} | {lesson.goal} | {lesson.minutes} | {count} |"


def _to(path: str) -> str:
    return relpath(path, HOME.rpartition("/")[0])


# ---- the page, as a picture ---------------------------------------------------------------------


def alt_text(done: Progress) -> str:
    """The map in words."""
    parts = []
    for state, word in (("done", "Done"), ("started", "Started"), ("open", "Not yet")):
        numbers = [f"{x.number:02}" for x in LESSONS if state_of(x, done) == state]
        if numbers:
            parts.append(f"{word}: {', '.join(numbers)}")
    what = f"Map of the {len(LESSONS)} lessons and how they build on each other."
    return f"{what} {'; '.join(parts)}."


def picture(done: Progress) -> Picture:
    """The map: each lesson with its state, and an arrow from each lesson it needs."""
    from amp_lessons import plots

    notes = {}
    for lesson in LESSONS:
        state = state_of(lesson, done)
        count = f", {passes(lesson, done)} of {len(lesson.exercises)} exercises"
        note = f"{_MARKS[state]} {state}{count if lesson.exercises else ''}"
        notes[lesson.id] = (state, "" if state == "open" else note)
    return plots.course_map(LESSONS, notes, alt=alt_text(done))


# ---- the notebook -------------------------------------------------------------------------------


def drawn(notebook: dict[str, Any], done: Progress) -> dict[str, Any]:
    """The home notebook with its drawn cells written from this progress."""
    png = base64.b64encode(picture(done).png).decode()
    cells = []
    for cell in notebook["cells"]:
        if not is_drawn(cell):
            cells.append(cell)
        elif cell["cell_type"] == "markdown":
            attached = {_MAP: {"image/png": png}}
            cells.append(cell | {"source": status(done), "attachments": attached})
        else:
            cells.append(cell | {"outputs": [], "execution_count": None})
    return notebook | {"cells": cells}


def is_drawn(cell: ipynb.Cell) -> bool:
    """Whether `drawn` writes this cell."""
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    return isinstance(tags, list) and DRAWN in tags


# ---- what its cells and the lessons' call -------------------------------------------------------


def show() -> None:
    """Draw the page from the progress of this moment, below the cell that calls this."""
    from IPython.display import display

    done = progress.load()
    for warning in done.warnings:
        print(warning)
    before, after = status(done).split(f"![{alt_text(done)}](attachment:{_MAP})")
    for text in (before, picture(done), after):
        data = {"text/markdown": text, "text/plain": text} if isinstance(text, str) else None
        display(data or text, raw=data is not None)


def finished(slug: str) -> None:
    """Mark a lesson as done, and show the way on. The last cell of each lesson calls this.

    Args:
        slug: of the lesson, such as ``"grad_scaler"``, or one that a lesson once had.

    Raises:
        KeyError: if there is no such lesson.
    """
    from amp_lessons import boxes
    from amp_lessons.checks import display

    slugs = renamed.LESSONS.get(slug, (slug,))
    lesson = [lesson_called(each) for each in slugs][-1]
    problems: list[str] = []
    message = ""
    try:
        done = [progress.record_lesson(each) for each in slugs][-1]
    except progress.ProgressError as error:
        problems.append(f"Progress was not saved. {error}")
    else:
        problems += done.warnings
        if lesson.exercises:
            message = f"Exercises passed: {passes(lesson, done)} of {len(lesson.exercises)}."
    sheet = ((f"exercises {lesson.number:02}", f"../{lesson.sheet}"),) if lesson.exercises else ()
    way = boxes.Links("Next: ", (*sheet, *display.way_on(lesson)))
    boxes.show_box(f"✔ Lesson {lesson.number:02} done: {lesson.title}", message, [way, *problems])
