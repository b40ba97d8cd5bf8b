"""Where the course teaches what a hazard is about."""

from __future__ import annotations

from amp_lessons.core import catalogue


def lesson_words(topic: str) -> str:
    """ "Lesson 08: Losses and ops", or "" for a topic that no lesson teaches."""
    lesson = _lesson(topic)
    return f"Lesson {lesson.number:02}: {lesson.title}" if lesson else ""


def lesson_link(topic: str) -> str:
    """The lesson's notebook, as a notebook beside it would link it; "" if there is none."""
    lesson = _lesson(topic)
    return f"{lesson.id}.ipynb" if lesson else ""


def _lesson(topic: str) -> catalogue.Lesson | None:
    for find in (catalogue.lesson_of_topic, catalogue.lesson_called):
        try:
            return find(topic)
        except KeyError:
            continue
    return None
