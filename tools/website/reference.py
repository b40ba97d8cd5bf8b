"""The front page, and the pages to look things up on: myths, numbers and the glossary.

The texts are those of the home notebook, one part a page.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from pathlib import Path

import nbformat

from amp_lessons.app import cards
from amp_lessons.core.catalogue import HOME, LESSONS
from amp_lessons.core.progress import Progress
from amp_lessons.lessons.myths import MYTHS
from website import lessons, places, widgets
from website.pages import Page
from website.places import Places
from website.text import Text, github_anchor, jupyter_anchor

ROOT = Path(__file__).resolve().parents[2]
WHAT = (
    "An interactive course on PyTorch's automatic mixed precision: predict what 16-bit training "
    "does, see it happen, and learn to fix what goes wrong."
)
PARTS = {places.NUMBERS: "## The page of numbers", places.GLOSSARY: "## Glossary"}
"""How the cell of the home notebook begins that is a page here."""
_HREF = re.compile(r'href="([^"]+)"')


def home_anchors() -> dict[str, str]:
    """The page of each heading of the home notebook that isn't on the front page."""
    found = {}
    for page, beginning in PARTS.items():
        for heading in re.findall(r"^#{2,3} (.+)$", _part(beginning), re.MULTILINE):
            found[jupyter_anchor(heading)] = page
    return found


def _part(beginning: str) -> str:
    """The text cell of the home notebook that begins so."""
    cells = nbformat.read(ROOT / HOME, as_version=4).cells
    return next(cell.source for cell in cells if cell.source.startswith(beginning))


def front(to: Places) -> Page:
    """The first page: the lab, what the course is, and a card for each lesson."""
    linked = _HREF.sub(
        lambda found: f'href="{to.link(found[1], HOME, places.INDEX)}"', cards.lessons(Progress())
    )
    linked = linked.replace("<h2>Lessons</h2>", '<h2 id="Lessons">Lessons</h2>')
    first = LESSONS[0]
    content = (
        "<h1>Mixed precision in PyTorch</h1>"
        f'<p class="lead">{html.escape(WHAT)}</p>'
        f'<p><a class="start" href="{places.lesson_page(first.slug)}">'
        f"Start: {html.escape(first.title)}</a> "
        f'<span class="beside">{first.minutes} minutes, nothing to install</span></p>'
        f"{_whole_course(to)}"
        "<h2>Drag the loss scale and see training come back to life</h2>"
        "<p>FP16 loses small gradients. This network learns nothing, until you multiply its loss "
        "by a number that is large enough: the loss scale.</p>"
        f"{widgets.lab('')}{linked}"
    )
    return Page(
        places.INDEX, "AMP Lessons: mixed precision in PyTorch", content, wide=True, kind="front"
    )


def _whole_course(to: Places) -> str:
    """Where its notebooks can be run without installing anything; "" if no repository is known."""
    links = " · ".join(
        f'<a href="{html.escape(way.address)}">{way.words}</a>'
        for way in lessons.ways_to_run(HOME, places.INDEX, to)
        if not way.download
    )
    return f'<p class="ways">Run the notebooks: {links}</p>' if links else ""


def glossary(to: Places) -> Page:
    return _of_home(places.GLOSSARY, to)


def numbers(to: Places) -> Page:
    return _of_home(places.NUMBERS, to)


def _of_home(page: str, to: Places) -> Page:
    text = Text(lambda href: to.link(href, HOME, page), jupyter_anchor)
    content = text.render(re.sub(r"^#(#+) ", r"\1 ", _part(PARTS[page]), flags=re.MULTILINE))
    return Page(page, text.headings[0].text, content, text.headings, kind="reference")


def myths(to: Places) -> Page:
    """Each claim with its verdict; the evidence is in the lesson."""
    text = Text(lambda href: to.link(href, HOME, places.MYTHS), github_anchor)
    lesson = next(each for each in LESSONS if each.slug == "myths")
    opening = text.render(
        "# Myths about AMP, each with its verdict\n\nWe tried each of these claims, which people "
        f"find on the web. [Lesson {lesson.number}]({lesson.id}.ipynb) shows how, and what came "
        "out."
    )
    rows = "".join(
        f'<li id="myth-{each.number}"><p class="claim">“{text.inline(each.claim)}.”</p>'
        f"<p>This is {text.inline(each.ruling)}. {_sources(each.lesson, each.source)}</p></li>"
        for each in MYTHS
    )
    content = f'{opening}<ol class="myths">{rows}</ol>'
    return Page(places.MYTHS, "Myths about AMP", content, text.headings, kind="reference")


def _sources(number: int, source: str) -> str:
    lesson = next(each for each in LESSONS if each.number == number)
    words = f"Lesson {number:02}: {html.escape(lesson.title)}"
    link = f'<a href="{places.lesson_page(lesson.slug)}">{words}</a>'
    return link + (f' · <a href="{html.escape(source)}">source</a>' if source else "")


def guides(titles: Iterable[tuple[str, str]]) -> Page:
    """A list of the documentation's pages."""
    rows = "".join(f'<li><a href="{to}">{html.escape(title)}</a></li>' for title, to in titles)
    content = (
        "<h1>Guides</h1><p>For your own model, for a class, and for those who work on the "
        "course.</p>"
        f'<ul>{rows}</ul><p>See also <a href="{places.NUMBERS}">the page of numbers</a>, '
        f'<a href="{places.GLOSSARY}">the glossary</a> and '
        f'<a href="{places.API}">the package\'s names</a>.</p>'
    )
    return Page(places.DOCS, "Guides", content, kind="reference")


def doc(path: Path, to: Places) -> Page:
    """A page of the documentation."""
    file, page = f"docs/{path.name}", places.doc_page(path.stem)
    text = Text(lambda href: to.link(href, file, page), github_anchor)
    content = text.render(path.read_text(encoding="utf-8"))
    return Page(page, text.headings[0].text, content, text.headings, kind="guide")
