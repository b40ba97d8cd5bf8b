"""Mark an answer, and say what is right and why: the same words in every front end.

An answer is plain data: a list of places in the choices (from 0), a number, or a list of places in
the offered lines. What somebody types for a number, `typed_numbers` reads. The page that works
without Python repeats these few rules in JavaScript, under test. Nothing here imports torch.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.quiz.items import ChoiceItem, Item, NumberItem, OrderItem

Answer = Sequence[int] | float
Role = Literal["right", "wrong", "missed", "explanation"]
NAMES = "1234567890"
"""What choices and lines are called, in order, and the keys that choose them."""


class AnswerError(AmpLessonsError, ValueError):
    """What was typed is no answer to this question. The message says what is."""


@dataclass(frozen=True)
class Remark:
    """One piece of feedback.

    Attributes:
        role: ``"right"`` and ``"wrong"`` for what was answered, ``"missed"`` for a right choice
            that was not, ``"explanation"`` for the rest.
        answer: the choice, line or number that it is about; may be empty.
        text: the remark, in Markdown.
    """

    role: Role
    answer: str
    text: str


@dataclass(frozen=True)
class Marked:
    """The verdict on an answer.

    Attributes:
        right: whether all of it is right.
        score: from 0 to 1. Only a *several* question gives part of it: the share of the right
            choices that were found, less one for each wrong one.
        remarks: in the order in which to show them.
    """

    right: bool
    score: float
    remarks: tuple[Remark, ...]


def mark(item: Item, answer: Answer) -> Marked:
    """Mark an answer. Raises `AnswerError` if it is none."""
    if isinstance(item, NumberItem):
        if isinstance(answer, bool) or not isinstance(answer, int | float):
            raise AnswerError("this question wants a number")
        return _mark_number(item, float(answer))
    if not isinstance(answer, list | tuple | set | frozenset):
        raise AnswerError("this question wants a list of places")
    places = list(answer)
    if not all(type(place) is int for place in places):
        raise AnswerError("places are whole numbers")
    if isinstance(item, ChoiceItem):
        return _mark_choices(item, places)
    return _mark_order(item, places)


def _mark_choices(item: ChoiceItem, places: list[int]) -> Marked:
    chosen = set(places)
    if not chosen <= set(range(len(item.choices))):
        raise AnswerError(f"this question has {len(item.choices)} choices")
    if item.form == "one" and len(chosen) != 1:
        raise AnswerError("this question has one right choice: choose one")
    remarks = []
    for place, choice in enumerate(item.choices):
        if place in chosen:
            remarks.append(Remark("right" if choice.right else "wrong", choice.text, choice.why))
        elif choice.right:
            remarks.append(Remark("missed", choice.text, choice.why))
    if item.explanation:
        remarks.append(Remark("explanation", "", item.explanation))
    found, extra = len(chosen & item.right), len(chosen - item.right)
    return Marked(chosen == item.right, max(0.0, (found - extra) / len(item.right)), tuple(remarks))


def _mark_number(item: NumberItem, value: float) -> Marked:
    right = item.accepts(value)
    remarks = [Remark("right" if right else "wrong", with_unit(value, item.unit), "")]
    if not right:
        remarks = [Remark("wrong", with_unit(value, item.unit), why_wrong(item, value))]
        remarks.append(Remark("missed", with_unit(item.answer, item.unit), item.explanation))
    else:
        remarks = [Remark("right", with_unit(item.answer, item.unit), item.explanation)]
    return Marked(right, float(right), tuple(remarks))


def why_wrong(item: NumberItem, value: float) -> str:
    """The mistake that leads to this number, or how far off it is."""
    nearest = min(item.mistakes, key=lambda mistake: abs(value - mistake.value), default=None)
    reach = max(item.tolerance, 1e-3) * abs(nearest.value) if nearest else 0.0
    if nearest and abs(value - nearest.value) <= reach:
        return nearest.why
    if item.answer and value and math.isfinite(value):
        factor = value / item.answer
        if factor < 0:
            return "The sign is wrong."
        if factor >= 2 or factor <= 0.5:
            times = factor if factor > 1 else 1 / factor
            size = "large" if factor > 1 else "small"
            return f"That is {times:,.3g} times too {size}."
    return "That is close, but too far off to count." if item.tolerance else "Not this number."


def _mark_order(item: OrderItem, order: list[int]) -> Marked:
    if not order or not set(order) <= set(range(len(item.offered))) or len(set(order)) < len(order):
        raise AnswerError("an order names some of the lines, each at most once")
    right = item.accepts(order)
    remarks = []
    for number, distractor in enumerate(item.distractors, len(item.lines)):
        if number in order:
            remarks.append(Remark("wrong", distractor.text, distractor.why))
    place = {line: number for number, line in enumerate(order)}
    for slip in item.slips:
        if {slip.early, slip.late} <= set(place) and place[slip.early] < place[slip.late]:
            remarks.append(Remark("wrong", item.lines[slip.early], slip.why))
    left_out = [line for number, line in enumerate(item.lines) if number not in place]
    if left_out:
        remarks.append(
            Remark("missed", left_out[0], "This line belongs to it, and you left it out.")
        )
    if not right and not remarks:
        first = next(n for n, line in enumerate(order) if line != n)
        text = "This is the first line that is not where it has to be."
        remarks.append(Remark("wrong", item.offered[order[first]], text))
    remarks.append(Remark("explanation", "", item.explanation))
    return Marked(right, float(right), tuple(remarks))


# ---- showing answers ---------------------------------------------------------------------------


def shuffled(item: OrderItem) -> tuple[int, ...]:
    """The places of the offered lines in the order in which they are shown: never a right one."""
    draw = random.Random(item.id)
    places = list(range(len(item.offered)))
    while True:
        draw.shuffle(places)
        if not item.accepts([place for place in places if place < len(item.lines)]):
            return tuple(places)


def with_unit(value: float, unit: str) -> str:
    """``112 GB``; numbers from 10,000 on get their commas."""
    comma = "," if abs(value) >= 10_000 else ""
    if float(value).is_integer() and abs(value) < 1e15:
        number = format(int(value), f"{comma}d")
    else:
        number = format(value, f"{comma}.6g")
    return f"{number} {unit}".strip()
