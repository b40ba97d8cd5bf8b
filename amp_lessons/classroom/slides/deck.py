"""Slides as one HTML page: reveal.js, styles, pictures and maths inside, nothing to fetch.

The page's own policy forbids it every network. Besides reveal.js and its notes there is one script,
`static/deck.js`, which starts them and makes the type smaller on a slide that is too full.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from pathlib import Path

from amp_lessons.classroom.slides import cutting, parts
from amp_lessons.classroom.slides.cutting import Slide
from amp_lessons.core import catalogue, ipynb
from amp_lessons.core.catalogue import Lesson
from amp_lessons.quiz import bank

STATIC = Path(__file__).parent / "static"
STYLES = ("reveal/reset.css", "reveal/reveal.css", "deck.css")
SCRIPTS = ("reveal/reveal.js", "reveal/notes.js", "deck.js")
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:; "
    "frame-src 'self' file:; base-uri 'none'; form-action 'none'"
)
"""Nothing is loaded from anywhere. The speaker view shows this page in frames, and its window is
written by a script: it inherits the policy, so a list of hashes would have to name its scripts."""


@dataclass(frozen=True)
class Deck:
    """Slides, section by section.

    Attributes:
        title: what the browser shows for the page, such as "Lesson 06: GradScaler".
        sections: in each, slides that stand below each other.
    """

    title: str
    sections: list[list[Slide]]

    @property
    def slides(self) -> int:
        return sum(map(len, self.sections))

    @property
    def polls(self) -> int:
        return sum(slide.kind == "poll" for section in self.sections for slide in section)


def make(lesson: Lesson) -> Deck:
    """Cut the lesson's notebook into slides.

    Raises:
        NotebookError: if the notebook is missing or broken, with its path.
    """
    title = f"Lesson {lesson.number:02}: {lesson.title}"
    return Deck(title, cutting.cut(parts_of(lesson), lesson, bank.load()))


def parts_of(lesson: Lesson) -> list[parts.Part]:
    """What a room is shown of a lesson. Raises `NotebookError`."""
    path = catalogue.course_files() / lesson.notebook
    try:
        return parts.parts(ipynb.read(path))
    except ipynb.NotebookError as error:
        raise ipynb.NotebookError(f"{path} {error}") from error


def page(deck: Deck) -> bytes:
    """The deck as the bytes of an ``.html`` file."""
    values = {
        "TITLE": html.escape(deck.title),
        "POLICY": POLICY,
        "STYLE": "\n".join(map(_static, STYLES)),
        "SLIDES": "\n".join(map(_section, deck.sections)),
        "SCRIPT": "\n".join(f"<script>{_embedded(_static(name))}</script>" for name in SCRIPTS),
    }
    made = _static("deck.html")
    return re.sub(r"<!-- ([A-Z]+) -->", lambda found: values[found[1]], made).encode()


def _static(name: str) -> str:
    return (STATIC / name).read_text(encoding="utf-8")


_OPENS = re.compile(r"<(?=/script|script|!--)", re.IGNORECASE)


def _embedded(script: str) -> str:
    """A script without what would end or open an element. ``\\x3c`` is ``<`` in its strings,
    templates and regular expressions, the only places where these words stand."""
    return _OPENS.sub(r"\\x3c", script)


def _section(slides: list[Slide]) -> str:
    inside = "\n".join(map(_slide, slides))
    return f"<section>\n{inside}\n</section>"


def _slide(slide: Slide) -> str:
    where = html.escape(slide.place)
    if slide.part and slide.kind != "title":
        where += f" · {slide.part}"
    tag = f'<b class="tag">{slide.tag}</b>' if slide.tag else ""
    level = "h1" if slide.kind == "title" else "h2"
    notes = "".join(f"<div>{note}</div>" for note in slide.notes)
    aside = f'<aside class="notes">{notes}</aside>' if notes else ""
    return (
        f'<section class="{slide.kind}"><div class="frame"><header><p>{tag}{where}</p>'
        f"<{level}>{slide.heading}</{level}></header>"
        f'<div class="body">{slide.body}</div></div>{aside}</section>'
    )
