"""Slides: nothing of a lesson is lost, no answer comes early, and one file holds it all."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from amp_lessons.app import cli
from amp_lessons.classroom.slides import blocks, cutting, deck, of_plan, parts, sizes
from amp_lessons.classroom.slides.cutting import Slide
from amp_lessons.classroom.slides.parts import Code, Poll, Text, Try
from amp_lessons.classroom.workshop import page as workshop_page
from amp_lessons.classroom.workshop import reading
from amp_lessons.classroom.workshop.sections import sections as lesson_sections
from amp_lessons.core import catalogue, ipynb
from amp_lessons.core.catalogue import LESSONS, Lesson, find_lesson
from amp_lessons.quiz import bank
from amp_lessons.quiz.items import ChoiceItem

BANK = bank.load()
LONG = "One sentence says something about numbers. " * 8


def notebook_of(*cells: tuple[str, str] | tuple[str, str, list[str]]) -> dict:
    """A notebook of (type, source) or (type, source, tags)."""
    made = []
    for kind, source, *tags in cells:
        cell = {"cell_type": kind, "source": source, "metadata": {"tags": tags[0] if tags else []}}
        made.append(cell | ({"outputs": []} if kind == "code" else {}))
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made}


def stored(lesson: Lesson) -> list[ipynb.Cell]:
    return ipynb.read(catalogue.course_files() / lesson.notebook)["cells"]


def slides_of(*found: parts.Part, lesson: str = "myths") -> list[Slide]:
    """The slides of a lesson without exercises that has these parts."""
    sections = cutting.cut(found, find_lesson(lesson), BANK)
    return [slide for section in sections for slide in section]


@lru_cache
def deck_of(lesson: Lesson) -> deck.Deck:
    return deck.make(lesson)


def all_slides(lesson: Lesson) -> list[Slide]:
    return [slide for section in deck_of(lesson).sections for slide in section]


def words(text: str) -> str:
    """What is left of HTML or Markdown when markup, maths and spaces are gone."""
    text = re.sub(r"<math.*?</math>|\$[^$]+\$", "", text, flags=re.DOTALL)
    text = html.unescape(re.sub(r"<[^>]+>", "", text))
    text = re.sub(r"\]\([^)\s]*\)", "", text)
    return re.sub(r"[^\w.,;:?=+]+|_", "", text)


# ---- whole lessons -------------------------------------------------------------------------------


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.id)
def test_every_line_of_the_text_is_on_a_slide_or_in_the_notes(lesson):
    shown = words(
        " ".join(f"{s.part} {s.heading} {s.body} {' '.join(s.notes)}" for s in all_slides(lesson))
    )
    checked = 0
    for cell in stored(lesson):
        source = ipynb.source_of(cell)
        if cell["cell_type"] != "markdown" or source.startswith("Run this cell when"):
            continue
        for line in source.splitlines():
            line = re.sub(r"^(\s*([-*]|\d+\.|>|#+) )+", "", line).removeprefix(
                f"Lesson {lesson.number:02}: "
            )
            if line.lstrip().startswith(("[Home]", "|--", "```")) or not words(line):
                continue
            cells = line.strip("|").split("|") if line.startswith("|") else [line]
            for text in cells:
                assert words(text) in shown, text
                checked += 1
    assert checked > 30


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.id)
def test_code_pictures_and_questions_are_there_and_what_prepares_is_not(lesson):
    found = all_slides(lesson)
    bodies = "\n".join(slide.body for slide in found)
    calls = [ipynb.source_of(c) for c in stored(lesson) if c["cell_type"] == "code"]
    asked = [
        i
        for call in calls
        if call.startswith(("predict(", "ask("))
        for i in re.findall(r'"(.+?)"', call)
    ]
    assert [s.kind for s in found].count("poll") == len(asked) > 0
    pictures = sum(
        json.dumps(cell.get("outputs", "")).count("<img src=") for cell in stored(lesson)
    )
    assert bodies.count("<img ") == pictures
    text = html.unescape(re.sub(r"<[^>]+>", "", bodies))
    for absent in (
        "find_spec",
        "home.finished",
        ".check(",
        "predict(",
        "Not attempted",
        "Run this cell when",
    ):
        assert absent not in text
    for call in calls:
        if (
            "import " not in call
            and not call.startswith(("predict(", "ask("))
            and ".check(" not in call
        ):
            assert call.strip() in text, call


def test_the_maths_of_all_lessons_is_mathml():
    pages = {lesson.slug: deck.page(deck_of(lesson)).decode() for lesson in LESSONS}
    assert pages["amp_from_scratch"].count("<math") > 5
    for text in pages.values():
        assert not re.search(r"\$\d+\^|\\sqrt", text)


# ---- the file ------------------------------------------------------------------------------------


class Elements(HTMLParser):
    """Collects the elements of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def page() -> str:
    return deck.page(deck_of(find_lesson("06"))).decode()


def test_the_page_is_one_file_that_loads_nothing(page):
    elements = Elements(page).found
    tags = [tag for tag, _ in elements]
    assert tags.count("script") == page.lower().count("</script>") == 3
    assert not {"link", "iframe", "object", "embed", "video", "source"} & set(tags)
    for tag, attributes in elements:
        address = attributes.get("src") or attributes.get("srcset")
        assert address is None or (tag == "img" and address.startswith("data:image/png;base64,"))
    assert "default-src 'none'" in page
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    assert "url(data:" in style
    assert not re.search(r"url\((?!data:)|@import", style)
    assert not re.search(r"<!-- [A-Z]+ -->", page)


def test_it_has_a_language_a_title_and_words_for_its_pictures(page):
    elements = Elements(page).found
    assert ("html", {"lang": "en"}) in elements
    assert "<title>Lesson 06: GradScaler</title>" in page
    pictures = [attributes for tag, attributes in elements if tag == "img"]
    assert pictures
    assert all(len(picture["alt"]) > 20 for picture in pictures)
    assert [tag for tag, _ in elements].count("h1") == 1


def test_only_links_to_the_web_are_left(page):
    targets = {attributes["href"] for tag, attributes in Elements(page).found if tag == "a"}
    assert targets
    assert all(target.startswith("https://") for target in targets)


def test_reveal_is_the_version_that_its_page_names():
    folder = deck.STATIC / "reveal"
    version = re.search(r"^# reveal\.js (\S+)$", (folder / "README.md").read_text(), re.M)[1]
    assert f'"{version}"' in (folder / "reveal.js").read_text().replace("`", '"')
    assert "MIT" in (folder / "README.md").read_text()
    assert "Hakim El Hattab" in (folder / "LICENSE").read_text()
    assert "Permission is hereby granted" in (folder / "LICENSE.marked.md").read_text()


def test_a_script_cannot_end_its_element():
    assert deck._embedded("a = '</script><!--<script>'; b < c") == (
        r"a = '\x3c/script>\x3c!--\x3cscript>'; b < c"
    )


# ---- cells ---------------------------------------------------------------------------------------


def test_what_only_prepares_or_checks_has_no_slide():
    found = parts.parts(
        notebook_of(
            ("code", "print('set up')", ["setup"]),
            ("code", "import math\nfrom torch import nn"),
            ("code", "assert 1 + 1 == 2\nassert True"),
            ("code", "grad_scaler.clip_step.check(clip_step)"),
            ("code", "x = 1"),
            ("markdown", "Run this cell when you have finished."),
            ("code", "from amp_lessons.app import home\n\nhome.finished('x')"),
        )
    )
    assert found == [Code("x = 1")]


def test_the_first_cells_imports_go_to_the_notes_and_later_ones_stay():
    found = parts.parts(
        notebook_of(("code", "import math\n\nx = math.pi"), ("code", "import os\nos.getcwd()"))
    )
    assert found == [Code("x = math.pi", (), "import math"), Code("import os\nos.getcwd()")]
    first, *_ = slides_of(*found)
    assert "import math" not in first.body
    assert "import math" in "".join(first.notes)


def test_questions_widgets_and_other_live_cells():
    found = parts.parts(
        notebook_of(
            ("code", 'predict("grad_scaler.one_inf")', ["question"]),
            ("code", 'ask(\n    "grad_scaler.one_inf",\n    "grad_scaler.fixed_scales",\n)'),
            (
                "code",
                "from amp_lessons.lessons.widgets import ScalerLab\n\nScalerLab([])",
                ["live"],
            ),
            ("code", "print(seconds())", ["live"]),
        )
    )
    assert found[0] == Poll(("grad_scaler.one_inf",))
    assert found[1] == Poll(("grad_scaler.one_inf", "grad_scaler.fixed_scales"))
    assert [each.what for each in found if isinstance(each, Try)] == ["scaler lab", ""]
    lab, live = slides_of(*found[2:])
    assert "Open lesson 15 and try the <b>scaler lab</b>." in lab.body
    assert "Open lesson 15 and run this cell." in live.body


def test_a_picture_keeps_its_words_and_its_shape():
    png = "iVBORw0KGgoAAAANSUhEUgAAAyAAAAFACAIAAAA"  # the header of one of 800 x 320 pixels
    image = f'<img src="data:image/png;base64,{png}" alt="a &lt; b" style="max-width:100%">'
    notebook = notebook_of(("code", "draw()"))
    notebook["cells"][0]["outputs"] = [
        {"output_type": "display_data", "data": {"text/html": image}}
    ]
    (found,) = parts.parts(notebook)
    assert (found.results[0].kind, found.results[0].alt) == ("picture", "a < b")
    assert found.results[0].size == (800, 320)
    (slide,) = slides_of(found)
    assert 'alt="a &lt; b" width="800" height="320"' in slide.body
    assert slide.notes == ["The picture: a &lt; b"]


# ---- polls ---------------------------------------------------------------------------------------


def test_a_poll_keeps_the_answer_for_the_next_slide():
    asked, output = slides_of(Poll(("grad_scaler.one_inf",)))
    item = BANK.find("grad_scaler.one_inf")
    assert (asked.kind, output.kind) == ("poll", "answer")
    right = next(choice for choice in item.choices if choice.right)
    for choice in item.choices:
        assert words(choice.text) in words(asked.body)
        assert words(choice.why) not in words(asked.body)
        assert words(choice.why) in words("".join(output.notes))
    assert "right" not in re.sub(r">[^<]*<", "><", asked.body)  # no mark, visible or not
    assert words(right.why) in words(output.body)
    marked = re.search(r'<li class="right">.*?</li>', output.body)[0]
    assert words(right.text) in words(marked)


@pytest.mark.parametrize("kind", ["number", "order", "several", "output", "bug", "trace"])
def test_every_kind_of_question_makes_a_poll(kind):
    item = next(each for each in BANK.items if each.kind == kind)
    asked, output = slides_of(Poll((item.id,)))
    assert words(blocks.to_html(item.prompt)) in words(asked.body)
    assert output.body != asked.body
    assert isinstance(item, ChoiceItem) or words(item.explanation)[:40] in words(output.body)


# ---- cutting -------------------------------------------------------------------------------------


def test_each_heading_begins_a_slide_and_level_two_a_section():
    source = "## First\n\nText.\n\n### Below\n\nMore.\n\n## Second\n\nEnd."
    sections = [s for s in cutting.cut([Text(source)], find_lesson("12"), BANK) if s]
    named = [[(slide.part, slide.heading) for slide in section] for section in sections]
    assert named[:2] == [[("", "First"), ("First", "Below")], [("", "Second")]]


def test_a_long_list_goes_on_with_its_numbers_and_a_table_with_its_head():
    items = "\n".join(f"{n}. {LONG}" for n in range(1, 9))
    first, *others = cutting.pages(blocks.read(items))
    assert len(others) >= 2
    start = 1 + len(first[0].pieces)
    assert others[0][0].html.startswith(f'<ol start="{start}">')
    assert sum(len(block.pieces) for page in (first, *others) for block in page) == 8
    rows = "| a | b |\n|---|---|\n" + "\n".join(f"| {n} | {LONG} |" for n in range(9))
    pages = cutting.pages(blocks.read(rows))
    assert len(pages) > 1
    assert all("<th>a</th>" in page[0].html for page in pages)


def test_no_page_is_over_full_and_a_colon_stays_with_what_it_announces():
    source = "\n\n".join([LONG] * 4 + ["These are they:", "- one\n- two\n- three"] * 6)
    pages = cutting.pages(blocks.read(source))
    assert len(pages) > 2
    assert all(sizes.total(page) <= sizes.PROSE for page in pages)
    assert not any(page[-1].text.endswith(":") for page in pages)


def test_sentences_are_left_out_only_to_save_a_slide_and_stay_in_the_notes():
    definition = "This is the **term**."
    text = "\n\n".join([LONG + definition, LONG + "The last one goes."] + ["Short text."] * 3)
    found = blocks.read(text)
    whole, cut = cutting.pages(found), cutting.pages(cutting.shortened(found))
    assert len(cut) == len(whole) - 1
    shown = " ".join(block.html for page in cut for block in page)
    assert "The last one goes." not in shown
    assert "<strong>term</strong>" in shown
    assert "…" in shown
    slides = slides_of(Text(f"## Heading\n\n{text}"), Text("## End\n\nx"))
    assert "The last one goes." in slides[0].notes[0]
    short = blocks.read("One. Two. Three.")
    assert cutting.shortened(short) == short


def test_code_and_result_share_a_slide_if_they_fit():
    small = parts.CellOutput("text", "one line")
    large = parts.CellOutput("text", "\n".join("line" for _ in range(14)))
    code = "\n".join(f"x{n} = {n}" for n in range(15))
    assert len(slides_of(Code(code, (small,)))) == 1
    first, second = slides_of(Code(code, (large,)))
    assert "x14" in first.body
    assert second.tag == "Result"
    assert len(slides_of(Code("x = 1"), Code("print(x)", (small,)))) == 1
    assert len(slides_of(Code("x = 1", (small,)), Code("print(x)", (small,)))) == 2


def test_sentences_end_where_they_end():
    source = "See `a. B` and (e.g. C. D) here. It's 1.5 in 2.13. [A. B](x.ipynb#y) is it. Why? So."
    found = blocks.sentences(source)
    assert [piece.text for piece in found] == [
        "See a. B and (e.g. C. D) here.",
        "It's 1.5 in 2.13.",
        "A. B is it.",
        "Why?",
        "So.",
    ]
    assert [piece.keep for piece in found] == [False, False, True, False, False]


def test_maths_that_cannot_be_converted_stays_readable():
    assert "<math" in blocks.to_html(r"$\frac{a}{b}$ and $2^{-24}$")
    assert "<code>\\left(" in blocks.to_html(r"$\left( x$")


def test_a_listing_and_the_list_below_it_may_stand_on_two_slides():
    """As lesson 00's whole loop: together they would be in small type."""
    page = "<pre>a &lt; b\n" + "line\n" * 20 + "</pre><ul>" + "<li>One more.</li>" * 8 + "</ul>"
    cell = {"outputs": [{"output_type": "display_data", "data": {"text/html": page}}]}
    listing, rest = parts._results(cell)
    assert listing == parts.CellOutput("text", "a < b\n" + "line\n" * 20)
    assert rest.body.startswith("<ul>")
    found = slides_of(Code("loop()", (listing, rest)))
    assert [slide.tag for slide in found] == ["", "Result", "Result"]
    assert "One more." not in found[1].body


# ---- a workshop plan -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", reading.NAMES)
def test_a_plan_s_deck_asks_sets_and_shows_what_the_plan_does_in_its_order(name):
    plan = reading.load(name)
    made = of_plan.make(plan)
    (title,), *blocks_ = made.sections
    assert words(plan.goal) in words(title.body)
    assert len(blocks_) == len(plan.blocks)
    for block, found in zip(plan.blocks, blocks_, strict=True):
        asked = [words(slide.body) for slide in found if slide.kind == "poll"]
        assert len(asked) == len(block.polls)
        for poll, body in zip(block.polls, asked, strict=True):
            assert words(blocks.to_html(BANK.find(poll).prompt)) in body
        shown = dict.fromkeys(words(s.part or s.heading) for s in found if s.kind == "code")
        headings = dict.fromkeys(words(step.heading) for step in block.steps if step.heading)
        assert [each for each in headings if each in shown] == list(shown)
        sets = [slide.body for slide in found if slide.tag == "Exercise"]
        assert len(sets) == len(block.exercises)
        for exercise, body in zip(block.exercises, sets, strict=True):
            assert f"<code>{exercise}</code>" in body
    assert (made.slides, made.polls) == (sum(map(len, made.sections)), len(plan.polls))


def test_what_a_plan_tells_its_instructor_is_in_the_notes_and_on_no_slide():
    plan = reading.load("4h")
    made = [slide for section in of_plan.make(plan).sections for slide in section]
    notes = words(" ".join(note for slide in made for note in slide.notes))
    bodies = words(" ".join(slide.body for slide in made))
    links = workshop_page.CourseLinks()
    steps = [step for block in plan.blocks for step in block.steps]
    assert len(steps) > 30
    for step in steps:
        for text in filter(None, (step.say, step.then, step.late)):
            told = words(blocks.to_html(links.expand(text)))
            assert told in notes
            assert told not in bodies
    assert "Run first." in " ".join(note for slide in made for note in slide.notes)


def test_what_a_plan_skips_of_a_lesson_is_not_in_its_deck():
    plan = reading.load("4h")
    shown = {step.heading for block in plan.blocks for step in block.steps}
    there = [each.heading for each in lesson_sections(find_lesson("grad_scaler"))[1:]]
    skipped = [heading for heading in there if heading not in shown]
    text = deck.page(of_plan.make(plan)).decode()
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert "Was my step skipped?" in headings
    assert len(skipped) > 5
    assert not set(skipped) & set(headings)


def test_a_section_ends_at_the_next_heading_and_not_at_a_comment_in_code():
    source = "Before.\n\n## One\n\n```\n# Two\n```\n\n### Two\n\nText."
    found = [Text(source), Code("x = 1"), Text("## One more\n\nEnd."), Code("y = 1")]
    assert of_plan.under(found, "Two") == [Text("### Two\n\nText."), Code("x = 1")]
    assert of_plan.under(found, "One") == [Text("## One\n\n```\n# Two\n```\n")]
    assert of_plan.under(found, "Three") == []


# ---- the command ---------------------------------------------------------------------------------


def run(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        cli.main(["slides", *map(str, arguments)])
    message = capsys.readouterr()
    return ended.value.code, message.out, message.err


def test_it_writes_a_file_named_after_the_lesson(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    status, out, _ = run("grad_scaler", capsys=capsys)
    assert status == 0
    assert (tmp_path / "06_grad_scaler_slides.html").read_bytes().startswith(b"<!DOCTYPE html>")
    assert "06_grad_scaler_slides.html: " in out
    assert "13 polls" in out
    status, _, err = run("06", capsys=capsys)
    assert (status, err.count("\n")) == (2, 1)
    assert "exists" in err
    assert run("06", "--force", capsys=capsys)[0] == 0


def test_it_writes_a_file_named_after_the_plan(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    status, out, _ = run("--plan", "4", capsys=capsys)
    assert status == 0
    assert (tmp_path / "workshop_4h_slides.html").read_bytes().startswith(b"<!DOCTYPE html>")
    assert "workshop_4h_slides.html: " in out
    assert f"{len(reading.load('4h').polls)} polls" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("grad_scalar",), "did you mean grad_scaler?"),
        (("99",), "no lesson is called '99'"),
        (("06", "--output", "."), "is a folder: name a file in it"),
        (("06", "--output", "nowhere/deck.html"), "no such folder"),
        (("06", "--output", "deck.pdf"), "ends in .html"),
        ((), "name a lesson, such as 06, or a plan: --plan 4h"),
        (("06", "--plan", "4h"), "name a lesson, such as 06, or a plan: --plan 4h"),
        (("--plan", "3h"), "no plan is called '3h'; there are 2h, 4h, 8h"),
    ],
)
def test_a_wrong_call_gets_one_line(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    status, out, err = run(*arguments, capsys=capsys)
    assert status != 0
    assert out == ""
    assert message in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_gets_one_line(tmp_path, monkeypatch, capsys):
    def refuse(path: Path, content: bytes) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("amp_lessons.core.files.write_atomically", refuse)
    status, _, err = run("06", "-o", tmp_path / "deck.html", capsys=capsys)
    assert status == 1
    assert err.endswith("deck.html cannot be written: Permission denied\n")
    assert err.count("\n") == 1


def test_a_missing_notebook_gets_one_line_with_its_path(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(catalogue, "course_files", lambda: tmp_path)
    status, _, err = run("06", "-o", tmp_path / "deck.html", capsys=capsys)
    assert status == 1
    assert "06_grad_scaler.ipynb does not exist" in err


@pytest.mark.parametrize("what", [("06",), ("--plan", "2h")])
def test_slides_need_no_torch(tmp_path, what):
    code = (
        "import sys\nfrom amp_lessons.app import cli\n"
        f"try: cli.main(['slides', *{what}, '-o', sys.argv[1]])\n"
        "except SystemExit as end: print(end.code, 'torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "deck.html")], capture_output=True, text=True
    )
    assert done.stdout.splitlines()[-1] == "0 False", done.stderr
