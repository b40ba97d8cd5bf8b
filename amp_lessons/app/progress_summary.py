"""`amp-lessons progress` for people: one screen for the course, one table for a lesson."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from amp_lessons.core.catalogue import LESSONS, Lesson
from amp_lessons.core.progress import ExerciseRecord, Progress, progress_file
from amp_lessons.core.standing import chosen_path, next_step, passes, points, state_of
from amp_lessons.core.terminal import lesson_state_text, state_text


def course_table(done: Progress, width: int) -> Table:
    """A row for each lesson: its state, its exercises, its points.

    Args:
        done: what was recorded.
        width: of the terminal, in characters.
    """
    table = Table(box=None, expand=True, pad_edge=False, padding=(0, 1))
    table.add_column("lesson", ratio=1, no_wrap=True, overflow="ellipsis")
    if width >= 50:
        table.add_column("state", no_wrap=True)
    table.add_column("exercises", justify="right", no_wrap=True)
    table.add_column("points", justify="right", no_wrap=True)
    for lesson in LESSONS:
        won, of = points([lesson], done)
        state = [lesson_state_text(state_of(lesson, done))] if width >= 50 else []
        count = f"{passes(lesson, done)} of {len(lesson.exercises)}" if lesson.exercises else ""
        score = f"{won}/{of}" if of else ""
        row = (Text(f"{lesson.number:02} {lesson.title}"), *state, Text(count), Text(score))
        table.add_row(*row)
    return table


def summary(done: Progress) -> list[str]:
    """The lines below the table: the totals, and where to go on."""
    won, of = points(LESSONS, done)
    passed = sum(passes(lesson, done) for lesson in LESSONS)
    exercises = sum(len(lesson.exercises) for lesson in LESSONS)
    lines = [f"{passed} of {exercises} exercises, {won} of {of} points."]
    step, path = next_step(done), chosen_path(done)
    on_path = f" You follow the {path.name}." if path else ""
    if step is None:
        lines.append("You have finished every lesson.")
    else:
        lines.append(f"Continue with {step}.{on_path}")
    return lines


def lesson_table(lesson: Lesson, done: Progress, width: int) -> Table:
    """A row for each exercise of one lesson: its state, points, hints, and whether you gave up."""
    won, of = points([lesson], done)
    title = f"{lesson.number:02} {lesson.title}"
    table = Table(title=title, title_justify="left", title_style="bold", expand=True)
    table.show_footer = True
    table.add_column("exercise", footer="total", overflow="fold", ratio=1)
    table.add_column("state", overflow="fold", ratio=1)
    table.add_column("points", footer=f"{won}/{of}", justify="right")
    if width >= 64:
        table.add_column("hints", justify="right")
        table.add_column("gave up")
    for info in lesson.exercises:
        entry = done[info.name]
        worth = f"{info.points if entry.passed else 0}/{info.points}"
        rest = [str(entry.hints or ""), (entry.gave_up_at or "")[:10]] if width >= 64 else []
        table.add_row(info.name, _state_of(entry), worth, *rest)
    return table


def _state_of(entry: ExerciseRecord) -> Text:
    """A pass stays a pass, and a later check that went otherwise is still told."""
    if entry.passed and entry.state != "passed":
        return state_text("passed", f", latest check: {entry.state}")
    return state_text(entry.state)


def as_json(done: Progress) -> dict[str, Any]:
    """All of it as plain data, for tools."""
    won, of = points(LESSONS, done)
    path = chosen_path(done)
    lessons = {
        lesson.id: {
            info.name: done[info.name].to_json()
            | {"points": info.points if done[info.name].passed else 0, "of": info.points}
            for info in lesson.exercises
        }
        for lesson in LESSONS
        if lesson.exercises
    }
    return {
        "file": str(progress_file()),
        "path": path.key if path else None,
        "lessons": lessons,
        "points": won,
        "of": of,
        "warnings": done.warnings,
    }
