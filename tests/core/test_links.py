"""Links: written by what they mean in the sources, and every one of them leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from urllib.parse import unquote

import pytest
from headings import anchors, texts
from links import Linker, LinkError

from amp_lessons.core.catalogue import HOME, LESSONS

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in ("notebooks", "exercises", "solutions")
    for path in (ROOT / folder).rglob("*.ipynb")
)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?!https?:)([^)\s]+)\)")
HREF = re.compile(r'href="(?!https?:)([^"]+)"')


def targets(path: str) -> set[str]:
    """What a notebook links to, relative to it."""
    markdown, shown = texts(path)
    found = {target for text in markdown for target in LINK.findall(text)}
    return found | {target for text in shown for target in HREF.findall(text)}


def broken(path: str) -> list[str]:
    """The links of a notebook that lead to no file, or to no heading of one."""
    wrong = []
    for target in targets(path):
        file, _, anchor = target.partition("#")
        to = normpath((PurePosixPath(path).parent / unquote(file)).as_posix()) if file else path
        if not (ROOT / to).is_file() or (anchor and unquote(anchor) not in anchors(to)):
            wrong.append(target)
    return wrong


def test_every_link_leads_to_a_file_and_a_heading(subtests):
    for path in NOTEBOOKS:
        with subtests.test(path):
            assert targets(path), "no links: is the pattern right?"
            assert broken(path) == []


def test_a_broken_link_is_found(monkeypatch):
    written = ["[a](nowhere.ipynb) [b](home.ipynb#nothing) [c](home.ipynb#underflow) [d](#Recap)"]
    before = texts

    def patched(path):
        return (written, []) if path == NOTEBOOKS[-1] else before(path)

    monkeypatch.setattr("test_links.texts", patched)
    assert sorted(broken(NOTEBOOKS[-1])) == ["#Recap", "home.ipynb#nothing", "home.ipynb#underflow",
                                             "nowhere.ipynb"]  # fmt: skip


def test_lessons_and_sheets_link_to_each_other_to_home_and_to_what_is_next(subtests):
    for lesson in LESSONS:
        with subtests.test(lesson.id):
            sheet, notebook = PurePosixPath(lesson.sheet).name, PurePosixPath(lesson.notebook).name
            rest = LESSONS[LESSONS.index(lesson) + 1 :]
            following = [PurePosixPath(each.notebook).name for each in rest[:1]]
            assert {"home.ipynb", *following} <= targets(lesson.notebook)
            if lesson.exercises:
                assert f"../exercises/{sheet}" in targets(lesson.notebook)
                back = {"home.ipynb", notebook, *following}
                assert {f"../notebooks/{name}" for name in back} <= targets(lesson.sheet)


def test_the_home_page_links_to_every_lesson_and_sheet():
    names = {PurePosixPath(lesson.notebook).name for lesson in LESSONS}
    sheets = {f"../{lesson.sheet}" for lesson in LESSONS if lesson.exercises}
    assert names | sheets <= targets(HOME)


def test_no_lesson_or_sheet_is_mentioned_without_a_link():
    """Outside code, "lesson 06" is a link, and no path of a notebook stands as plain text."""
    for path in NOTEBOOKS:
        for text in texts(path)[0]:
            plain = re.sub(r"\[[^\]]*\]\([^)]*\)|^# .*$", "", text, flags=re.MULTILINE)
            plain = re.sub(r"```.*?```", "", plain, flags=re.DOTALL)
            assert not re.search(r"\b[Ll]essons? \d\d", plain), (path, text)
            assert not re.search(r"(notebooks|exercises)/\d\d_", plain), (path, text)


# ---- how the sources write them -----------------------------------------------------------------

LINKER = Linker("notebooks", frozenset({"underflow", "loss scaling"}))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("[[lesson grad_scaler]]", "[lesson 06](06_grad_scaler.ipynb)"),
        ("[[Lesson grad_scaler]]", "[Lesson 06](06_grad_scaler.ipynb)"),
        ("[[lesson\ngrad_scaler|here]]", "[here](06_grad_scaler.ipynb)"),
        ("[[exercises memory]]", "[exercises 09](../exercises/09_memory_exercises.ipynb)"),
        ("[[term underflow]]", "[underflow](home.ipynb#underflow)"),
        ("[[term loss scaling|scale]]", "[scale](home.ipynb#loss-scaling)"),
        ("[[home]]", "[home](home.ipynb)"),
        ("[[glossary]]", "[the glossary](home.ipynb#Glossary)"),
        ("x[[0, 1]] and `a[[b]]`", "x[[0, 1]] and `a[[b]]`"),
    ],
)
def test_a_link_is_written_out(source, expected):
    assert LINKER.expand(source) == expected


def test_the_way_from_another_folder():
    assert Linker("exercises", frozenset()).expand("[[home]]") == "[home](../notebooks/home.ipynb)"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("[[lesson grad_scalar]]", "no lesson is called 'grad_scalar'"),
        ("[[term swamp]]", "the glossary has no term 'swamp'"),
        ("[[leson grad_scaler]]", "not a kind of link"),
    ],
)
def test_a_link_to_nothing_is_refused(source, message):
    with pytest.raises(LinkError, match=message):
        LINKER.expand(source)
