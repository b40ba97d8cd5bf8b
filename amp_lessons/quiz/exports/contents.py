"""What all exports share: questions by topic, their titles, the programs that prove them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from amp_lessons.core import catalogue
from amp_lessons.quiz import proofs
from amp_lessons.quiz.bank import Bank
from amp_lessons.quiz.items import ChoiceItem, Item, OpenQuestion

STATIC = Path(__file__).parent / "static"


def by_topic(bank: Bank) -> Iterator[tuple[str, list[Item | OpenQuestion]]]:
    """Each topic that has questions, in the order of the course, with its items, then its open
    questions. Predictions are left out: they belong to a result in a lesson."""
    found: dict[str, list[Item | OpenQuestion]] = {}
    for question in (*bank.items, *bank.open):
        found.setdefault(question.topic, []).append(question)
    for lesson in catalogue.LESSONS:
        for topic in lesson.topics:
            if topic in found:
                yield topic, found[topic]


def topic_title(topic: str) -> str:
    """A topic in words: the title of its lesson, without the number, which may change."""
    lesson = catalogue.lesson_of_topic(topic)
    if len(lesson.topics) == 1:
        return lesson.title
    return f"{lesson.title}: {topic.replace('_', ' ')}"


def proof_program(item: Item) -> str:
    """The program that proves the answer, or nothing if it is the code of the question itself."""
    if not item.proved or (isinstance(item, ChoiceItem) and not item.proof):
        return ""
    return proofs.as_program(item)
