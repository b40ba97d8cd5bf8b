"""The Moodle file, read back as Moodle's importer reads it, and held against the bank."""

from __future__ import annotations

import base64
import html
import re
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest
from small_bank import small_bank

from amp_lessons.quiz import bank
from amp_lessons.quiz.bank import Bank
from amp_lessons.quiz.exports import moodle
from amp_lessons.quiz.items import ChoiceItem, NumberItem, OpenQuestion, OrderItem
from amp_lessons.quiz.marking import mark, why_wrong

# What `question_bank::fraction_options_full` offers; an import with another fraction fails.
SHARES = (1, 0.9, 5 / 6, 0.8, 0.75, 0.7, 2 / 3, 0.6, 0.5, 0.4, 1 / 3, 0.3, 0.25, 0.2)
SHARES += (1 / 6, 1 / 7, 0.125, 1 / 9, 0.1, 0.05, 0)
TYPES = {"multichoice", "numerical", "matching", "essay", "category"}
EACH_HAS = {"name", "questiontext", "generalfeedback", "defaultgrade", "penalty", "hidden"}
HAS = {
    "multichoice": {"single", "shuffleanswers", "answernumbering", "answer", "correctfeedback"},
    "numerical": {"answer", "unitgradingtype", "showunits"},
    "matching": {"subquestion", "shuffleanswers", "correctfeedback"},
    "essay": {"responseformat", "graderinfo", "responsetemplate"},
}


@pytest.fixture
def small(tmp_path: Path) -> Bank:
    return small_bank(tmp_path)


def questions(made: bytes) -> dict[str, Element]:
    """By name, without the categories."""
    quiz = ElementTree.fromstring(made)
    assert quiz.tag == "quiz"
    found = [question for question in quiz if question.get("type") != "category"]
    by_name = {text(question.find("name")): question for question in found}
    assert len(by_name) == len(found)
    return by_name


def text(element: Element | None) -> str:
    assert element is not None
    return (element.findtext("text") or "").strip()


def words(markup: str) -> str:
    """What is read of some HTML."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", markup)).split())


@pytest.mark.parametrize("which", ["small", "real"])
def test_each_question_has_what_moodles_importer_asks_for(which: str, small: Bank) -> None:
    chosen = small if which == "small" else bank.load()
    found = questions(moodle.build(chosen))
    assert list(found)
    assert set(found) == {q.id for q in (*chosen.items, *chosen.open)}
    for name, question in found.items():
        kind = question.get("type", "")
        tags = {child.tag for child in question}
        assert kind in TYPES
        assert EACH_HAS | HAS[kind] <= tags, name
        assert text(question.find("questiontext"))
        assert question.findtext("idnumber") == name
        for answer in question.findall("answer"):
            share = float(answer.get("fraction", "")) / 100
            assert min(abs(abs(share) - known) for known in SHARES) < 1e-5, name
            assert answer.find("feedback/text") is not None
        for each in question.iter():
            assert each.get("format") in (None, "html", "moodle_auto_format")


def marks(question: Element) -> list[float]:
    return [float(answer.get("fraction", "")) / 100 for answer in question.findall("answer")]


@pytest.mark.parametrize("which", ["small", "real"])
def test_choices_are_marked_as_the_bank_marks_them(which: str, small: Bank) -> None:
    chosen = small if which == "small" else bank.load()
    found = questions(moodle.build(chosen))
    items = [item for item in chosen.items if isinstance(item, ChoiceItem)]
    assert items
    for item in items:
        question, shares = found[item.id], marks(found[item.id])
        assert question.get("type") == "multichoice"
        assert question.findtext("single") == ("true" if item.form == "one" else "false")
        for place, choice in enumerate(item.choices):
            answer = question.findall("answer")[place]
            assert text(answer.find("feedback")) == moodle.markup.to_html(choice.why)
            if item.form == "one":
                assert mark(item, [place]).score == pytest.approx(shares[place])
        if item.form == "many":
            for number in range(1, 2 ** len(item.choices)):
                places = [p for p in range(len(item.choices)) if number >> p & 1]
                ours = mark(item, places).score
                theirs = min(max(sum(shares[p] for p in places), 0), 1)
                assert ours == pytest.approx(theirs, abs=1e-5)


def moodles_verdict(question: Element, value: float) -> tuple[float, str]:
    """The first answer whose tolerance holds this number, as qtype_numerical looks for it."""
    for answer in question.findall("answer"):
        reach = float(answer.findtext("tolerance") or 0)
        there = float(text(answer))
        if abs(value - there) <= reach * (1 + 1e-9):
            return float(answer.get("fraction", "")) / 100, text(answer.find("feedback"))
    return 0.0, ""


@pytest.mark.parametrize("which", ["small", "real"])
def test_numbers_are_marked_as_the_bank_marks_them(which: str, small: Bank) -> None:
    chosen = small if which == "small" else bank.load()
    found = questions(moodle.build(chosen))
    items = [item for item in chosen.items if isinstance(item, NumberItem)]
    assert items
    for item in items:
        question = found[item.id]
        assert question.get("type") == "numerical"
        assert question.findtext("units/unit/unit_name") == (item.unit or None)
        assert question.findtext("showunits") == ("0" if item.unit else "3")
        edge = item.tolerance * abs(item.answer)
        for value in (item.answer, item.answer + edge * 0.99, item.answer + edge * 1.01 + 1e-9):
            assert moodles_verdict(question, value)[0] == mark(item, value).score
        for mistake in item.mistakes:  # also where two of them are close to each other
            share, feedback = moodles_verdict(question, mistake.value)
            assert share == 0
            assert words(feedback) == words(moodle.markup.to_html(why_wrong(item, mistake.value)))


def test_an_order_becomes_a_line_for_each_place(small: Bank) -> None:
    question = questions(moodle.build(small))["grad_scaler.clip_in_order"]
    item = small.find("grad_scaler.clip_in_order")
    assert isinstance(item, OrderItem)
    assert question.get("type") == "matching"
    assert [words(part.findtext("text") or "") for part in question.findall("subquestion")] == [
        "Line 1",
        "Line 2",
        "Line 3",
        "Line 4",
        "",
    ]
    answers = [text(part.find("answer")) for part in question.findall("subquestion")]
    assert [answer.partition(") ")[2] for answer in answers] == list(item.offered)
    shown = re.findall(r"<li><code>(.*?)</code></li>", text(question.find("questiontext")))
    for answer, line in zip(answers, item.offered, strict=True):
        assert html.unescape(shown["abcde".index(answer[1])]) == line
    assert question.findtext("shuffleanswers") == "false"  # the places stand in their order


def test_an_item_with_several_right_orders_offers_whole_orders(small: Bank) -> None:
    question = questions(moodle.build(small))["grad_scaler.any_of_two_orders"]
    item = small.find("grad_scaler.any_of_two_orders")
    assert isinstance(item, OrderItem)
    assert question.get("type") == "multichoice"
    assert sorted(marks(question)) == [0, 0, 1]
    for answer in question.findall("answer"):
        lines = re.findall(r"<code>(.*?)</code>", text(answer))
        order = [item.offered.index(html.unescape(line)) for line in lines]
        assert item.accepts(order) == (float(answer.get("fraction", "")) == 100)
        assert item.accepts(order) or text(answer.find("feedback"))


def test_every_order_of_the_bank_that_is_offered_whole_has_one_right_answer() -> None:
    for item in bank.load().items:
        if isinstance(item, OrderItem):
            orders = [order for order, _ in moodle.orders_to_choose(item)]
            assert sum(item.accepts(order) for order in orders) == 1
            assert len(set(orders)) == len(orders) >= 2


def test_open_questions_are_essays_with_notes_for_who_marks(small: Bank) -> None:
    question = questions(moodle.build(small))["grad_scaler.why_scale"]
    asked = small.find("grad_scaler.why_scale")
    assert isinstance(asked, OpenQuestion)
    notes = words(text(question.find("graderinfo")))
    for part in (asked.short, *asked.rubric, asked.follow_ups[0].question, "It makes training"):
        assert part in notes


def test_what_there_is_to_read(small: Bank) -> None:
    found = questions(moodle.build(small))
    assert 'print("a" if x < 2 else "b &", x)' in html.unescape(
        text(found["number_formats.prints_two_lines"].find("questiontext"))
    )
    asked = found["grad_scaler.read_the_scale"].find("questiontext")
    assert asked is not None
    assert "@@PLUGINFILE@@/grad-scaler-read-the-scale.svg" in text(asked)
    assert 'alt="The scale over 5 steps"' in text(asked)
    (file,) = asked.findall("file")
    assert base64.b64decode(file.text or "").startswith(b"<svg ")
    tags = [text(tag) for tag in found["grad_scaler.read_the_scale"].iter("tag")]
    assert tags == ["grad_scaler", "trace", "level 2"]


def test_categories_are_topics(small: Bank) -> None:
    quiz = ElementTree.fromstring(moodle.build(small))
    kinds = [question.get("type") for question in quiz]
    assert [place for place, kind in enumerate(kinds) if kind == "category"] == [0, 5]
    assert [text(q.find("category")) for q in quiz if q.get("type") == "category"] == [
        "$course$/top/AMP Lessons/Number formats",
        "$course$/top/AMP Lessons/GradScaler",
    ]


def test_a_rebuild_gives_the_same_bytes(small: Bank) -> None:
    assert moodle.build(small) == moodle.build(small)
    assert moodle.build(small).startswith(b"<?xml version='1.0' encoding='UTF-8'?>\n<quiz>\n")
