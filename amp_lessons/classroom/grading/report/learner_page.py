"""What a learner reads about their notebooks: marks, what was seen, their own answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amp_lessons.classroom.grading.marks import Graded, Mark
from amp_lessons.classroom.grading.report.roster import Learner, columns, lesson_title
from amp_lessons.core.catalogue import LESSONS, heading_anchor
from amp_lessons.core.states import State

LAB = "http://localhost:8888/lab/tree/"
"""Where `amp-lessons lab` shows the course on the reader's own computer, on JupyterLab's port."""

LESSONS_BY_ID = {lesson.id: lesson for lesson in LESSONS}


def content(learner: Learner, about: Mapping[str, Any]) -> dict[str, Any]:
    """What the template ``learner.html`` shows."""
    notebooks = [_notebook(graded, about["lab"]) for graded in learner.counted]
    return {
        "title": learner.name,
        "learner": learner,
        "notebooks": notebooks,
        "points": learner.points,
        "of": sum(graded.of for graded in learner.counted),
    }


def _notebook(graded: Graded, lab: str) -> dict[str, Any]:
    lesson = LESSONS_BY_ID.get(graded.lesson or "")
    places = {column.exercise: column for column in columns([Learner("", False, (graded,))])}
    return {
        "graded": graded,
        "file": graded.name.rpartition("/")[2],  # the rest is the instructor's folder
        "title": lesson_title(graded.lesson) if graded.lesson else "",
        "lesson_link": lab + lesson.notebook if lesson else "",
        "exercises": [
            {
                "mark": mark,
                "heading": f"{places[mark.exercise].number}. {places[mark.exercise].title}",
                "link": _link(graded, mark, places[mark.exercise].number, lab),
                "answer": (graded.answers or {}).get(mark.exercise, ""),
                "gave_up": mark.exercise in graded.gave_up,
                "message": mark.verdict.message,
                "untouched": mark.verdict.state is State.NOT_ATTEMPTED,
            }
            for mark in graded.marks
        ],
    }


def _link(graded: Graded, mark: Mark, number: int, lab: str) -> str:
    """Where the exercise stands on its sheet, or "" if the catalogue doesn't have it.

    Tried with JupyterLab 4.6: it opens the sheet at its top, and leaves the heading to the reader.
    """
    lesson = LESSONS_BY_ID.get(graded.lesson or "")
    titles = {info.name: info.title for info in lesson.exercises} if lesson else {}
    if lesson is None or mark.exercise not in titles:
        return ""
    return f"{lab}{lesson.sheet}#{heading_anchor(f'{number}. {titles[mark.exercise]}')}"
