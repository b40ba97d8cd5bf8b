"""Marking: what counts as right, what is said to a wrong answer, and how a number may be typed."""

from __future__ import annotations

import itertools

import pytest

from amp_lessons.quiz import bank
from amp_lessons.quiz.items import ChoiceItem, NumberItem, OrderItem
from amp_lessons.quiz.marking import AnswerError, mark, shuffled

BANK = bank.load()
EVERYTHING = [*BANK.items, *BANK.predictions]
CHOSEN = [item for item in EVERYTHING if isinstance(item, ChoiceItem)]
NUMBERS = [item for item in EVERYTHING if isinstance(item, NumberItem)]
ORDERS = [item for item in EVERYTHING if isinstance(item, OrderItem)]


def test_each_choice_gets_its_own_words(subtests):
    for item in CHOSEN:
        with subtests.test(item.id):
            each_choice_gets_its_own_words(item)


def each_choice_gets_its_own_words(item):
    for place, choice in enumerate(item.choices):
        marked = mark(item, [place])
        assert marked.right == (item.right == {place})
        output = [remark for remark in marked.remarks if remark.text == choice.why]
        assert [remark.role for remark in output] == ["right" if choice.right else "wrong"]
        if not choice.right:
            missed = [remark.answer for remark in marked.remarks if remark.role == "missed"]
            assert missed == [item.choices[each].text for each in sorted(item.right)]
    assert mark(item, sorted(item.right)).right


def test_each_mistake_is_named(subtests):
    for item in NUMBERS:
        with subtests.test(item.id):
            marked = mark(item, item.answer)
            assert marked.right
            assert [remark.role for remark in marked.remarks] == ["right"]
            for mistake in item.mistakes:
                marked = mark(item, mistake.value)
                assert not marked.right
                assert marked.remarks[0].text == mistake.why
                assert marked.remarks[1].text == item.explanation


def test_orders_are_marked_by_what_comes_before_what(subtests):
    for item in ORDERS:
        with subtests.test(item.id):
            right = list(range(len(item.lines)))
            assert mark(item, right).right
            assert not mark(item, right[::-1]).right
            assert not mark(item, right[:-1]).right
            for number, distractor in enumerate(item.distractors, len(right)):
                marked = mark(item, [*right[:-1], number])
                assert not marked.right
                assert distractor.why in [remark.text for remark in marked.remarks]
            for slip in item.slips:
                order = [line for line in right if line != slip.early]
                order.insert(order.index(slip.late), slip.early)
                marked = mark(item, order)
                assert not marked.right
                assert slip.why in [remark.text for remark in marked.remarks]


def test_lines_are_offered_in_another_order(subtests):
    for item in ORDERS:
        with subtests.test(item.id):
            offered = shuffled(item)
            assert sorted(offered) == list(range(len(item.offered)))
            assert shuffled(item) == offered
            assert not item.accepts([place for place in offered if place < len(item.lines)])


def test_several_gives_part_of_the_points():
    item = next(item for item in CHOSEN if item.kind == "several" and len(item.right) >= 2)
    right = sorted(item.right)
    wrong = next(place for place in range(len(item.choices)) if place not in item.right)
    assert mark(item, right[:1]).score == 1 / len(right)
    assert mark(item, [right[0], wrong]).score == 0
    assert mark(item, [wrong]).score == 0
    assert mark(item, [*right, wrong]).score == (len(right) - 1) / len(right)
    assert not mark(item, right[:1]).right


@pytest.mark.parametrize("answer", [[], [0, 1], [9], [-1], ["a"], [True], 3, "a", None, [0.0]])
def test_no_answer_to_a_single_question_is_refused(answer):
    item = next(item for item in CHOSEN if item.kind == "single")
    with pytest.raises(AnswerError):
        mark(item, answer)


@pytest.mark.parametrize("answer", [[0], "3", None, True])
def test_no_number_is_refused(answer):
    with pytest.raises(AnswerError):
        mark(NUMBERS[0], answer)


@pytest.mark.parametrize("answer", [[], [0, 0], [99], 3])
def test_no_order_is_refused(answer):
    with pytest.raises(AnswerError):
        mark(ORDERS[0], answer)


def test_a_wrong_number_without_a_name_is_told_how_far_off_it_is():
    item = next(item for item in NUMBERS if item.id == "grad_scaler.skips_to_below_one")
    for factor, output in ((100, "100 times too large"), (-1, "The sign is wrong")):
        assert output in mark(item, item.answer * factor).remarks[0].text
    assert "8.5 times too small" in mark(item, 2).remarks[0].text


def test_tolerance_is_a_share_of_the_answer():
    item = next(item for item in NUMBERS if 0 < item.tolerance < 0.5)
    for sign, share in itertools.product((-1, 1), (0.99, 1.01)):
        value = item.answer * (1 + sign * share * item.tolerance)
        assert mark(item, value).right == (share < 1)


def test_a_number_far_from_the_answer_is_wrong(subtests):
    """Also where it's the answer in another unit, or with a decimal point in another place."""
    for item in NUMBERS:
        with subtests.test(item.id):
            assert item.tolerance < 1
            far = [item.answer * factor for factor in (-1, 0, 0.1, 10, 1 / 1024, 1000, 1024)]
            for value in far if item.answer else (-1, 1):
                assert not mark(item, value).right, value
