"""One catalogue of faults: whatever speaks of one names its entry, and repeats no message of it.

The package's code names ids that exist. A question or a lesson that quotes a message leads to its
entry, so a text that changes in one place is found in the others.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from amp_lessons.amp.errors import catalogue
from amp_lessons.amp.errors.catalogue import Entry
from amp_lessons.amp.explain.hazards import KINDS
from amp_lessons.core.catalogue import LESSONS
from amp_lessons.quiz import bank
from amp_lessons.quiz.items import Item, OpenQuestion

ROOT = Path(__file__).resolve().parents[1]
ENTRIES = catalogue.load()
BY_ID = {entry.id: entry for entry in ENTRIES}
NAMING = (
    "amp/monitor/entries.py",
    "amp/monitor/diagnosis.py",
    "amp/explain/hazards/kinds.py",
    "amp/explain/hazards/mixed.py",
    "amp/explain/hazards/parameters.py",
    "exercises/checks/messages.py",
    "lessons/clinic.py",
    "lessons/widgets/error_lookup.py",
)
"""Modules that name faults by their ids."""

ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)+")
NO_IDS = {"16-bit"}

QUOTES = {"amp/fake_tensors/calls.py": {"bce-unsafe-to-autocast"}}
"""Messages that a module has to know: it goes on where PyTorch stops."""


def quoted(text: str) -> Iterator[Entry]:
    """The entries one of whose messages stands in a text."""
    line = " ".join(text.split())
    return (
        entry
        for entry in ENTRIES
        if entry.kind == "message" and any(regex.search(line) for regex in entry.regexes)
    )


def constants(path: Path) -> Iterator[str]:
    """The texts in a module's code, without docstrings and comments."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    said = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in said:
            yield node.value


# ---- the package ---------------------------------------------------------------------------------


def test_each_fault_that_code_names_has_an_entry():
    named = {
        (path, text)
        for path in NAMING
        for text in constants(ROOT / "amp_lessons" / path)
        if ID.fullmatch(text) and text not in NO_IDS
    }
    assert {path for path, _ in named} == set(NAMING)
    assert [each for each in named if each[1] not in BY_ID] == []
    assert set(KINDS.values()) <= BY_ID.keys()


def test_no_module_repeats_a_message_of_the_catalogue():
    found = {}
    for folder in ("core", "amp", "quiz", "lessons", "classroom", "app", "exercises/checks"):
        for path in sorted((ROOT / "amp_lessons" / folder).rglob("*.py")):
            name = path.relative_to(ROOT / "amp_lessons").as_posix()
            ids = {entry.id for text in constants(path) for entry in quoted(text)}
            if ids - QUOTES.get(name, set()):
                found[name] = ids
    assert found == {}


# ---- questions and lessons -----------------------------------------------------------------------


def texts(value: object) -> Iterator[str]:
    """All texts in plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from texts(each)


def unlinked(question: Item | OpenQuestion) -> list[str]:
    """The entries whose message a question quotes, and that its source doesn't name."""
    data = question.model_dump(exclude={"source"})
    found = {entry.id for text in texts(data) for entry in quoted(text)}
    return sorted(name for name in found if not names(question.source, name))


def names(text: str, name: str) -> bool:
    """Whether a text has an id, and not only another that begins or ends with it."""
    return re.search(rf"(?<![\w-]){name}(?![\w-])", text) is not None


def questions() -> Iterable[Item | OpenQuestion]:
    there = bank.load()
    return (*there.items, *there.predictions, *there.open)


def test_a_question_that_quotes_a_message_names_its_entry():
    found = {each.id: missing for each in questions() if (missing := unlinked(each))}
    assert found == {}, "write `amp-lessons lookup ID` into the question's source"


def test_a_question_names_entries_that_exist():
    for each in questions():
        found = re.findall(r"`amp-lessons lookup ([\w-]+)`", each.source)
        assert [name for name in found if name not in BY_ID] == [], each.id


def test_a_question_without_its_link_is_found():
    linked = bank.load().find("autocast_ops.half_under_autocast")
    assert unlinked(linked) == []
    bare = linked.model_copy(update={"source": "torch 2.13"})
    assert unlinked(bare) == ["unscale-fp16-gradients"]
    other = linked.model_copy(update={"source": "`amp-lessons lookup un-unscale-fp16-gradients`"})
    assert unlinked(other) == ["unscale-fp16-gradients"]


def astray(slug: str, text: str) -> list[str]:
    """The entries whose message a lesson quotes, and that it doesn't lead to.

    It does so if it is the entry's lesson itself, links to that, or has the entry's id.
    """
    return sorted(
        entry.id
        for entry in quoted(text)
        if entry.lesson != slug
        and f"[lesson {entry.lesson}" not in text
        and not names(text, entry.id)
    )


def scripts(slug: str) -> str:
    """A lesson's text, with that of the notebook that goes deeper."""
    paths = sorted((ROOT / "sources" / "lessons").glob(f"[0-9][0-9]_{slug}*.py"))
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    return " ".join(line.removeprefix("#").strip() for line in lines)


@pytest.mark.parametrize("slug", [lesson.slug for lesson in LESSONS])
def test_a_lesson_that_quotes_a_message_leads_to_its_entry(slug):
    assert astray(slug, scripts(slug)) == []


def test_a_lesson_that_leads_nowhere_is_found():
    text = scripts("clinic").replace("`numpy-bfloat16`", "").replace("[lesson number_formats", "")
    assert astray("clinic", text) == ["numpy-bfloat16"]
