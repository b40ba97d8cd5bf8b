"""Links in the sources of lessons and sheets, by what they point to and not by a path.

In a markdown cell, `[[lesson grad_scaler]]` becomes a link that reads "lesson 06", and
`[[Lesson grad_scaler]]` one that begins a sentence. The other kinds are
`[[exercises grad_scaler]]`, `[[deep grad_scaler]]` (the optional notebook beside the lesson),
`[[term underflow]]` (a heading of the glossary, on the home page), `[[numbers]]`, `[[glossary]]`
and `[[home]]`. Your own words follow a bar, as in `[[term underflow|underflowed]]`. Lessons can be
renumbered without touching a source.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from posixpath import relpath

from amp_lessons.core.catalogue import HOME, LESSONS, Lesson, lesson_called

_LINK = re.compile(
    r"\[\[(lesson|Lesson|exercises|Exercises|deep|term|home|glossary|numbers)"
    r"(?:\s+([^\]|]+?))?(?:\|([^\]]+))?\]\]"
)
_LEFT_OVER = re.compile(r"\[\[\s*[A-Za-z]")
_SECTIONS = {"home": "", "glossary": "#Glossary", "numbers": "#The-page-of-numbers"}
_TEXTS = {"home": "home", "glossary": "the glossary", "numbers": "the page of numbers"}


class LinkError(Exception):
    """A link points to nothing. The message names it, and what there is."""


@dataclass(frozen=True)
class Linker:
    """Turns the links of one notebook's markdown into paths relative to it.

    Args:
        folder: of the notebook, such as ``"exercises"``.
        terms: the headings of the glossary.
    """

    folder: str
    terms: frozenset[str]

    def expand(self, text: str) -> str:
        """The text with each link written out. Raises `LinkError`."""
        expanded = _LINK.sub(self._one, text)
        stray = _LEFT_OVER.search(re.sub(r"`[^`]*`", "", expanded))
        if stray:
            raise LinkError(f"not a kind of link: {expanded[stray.start() : stray.start() + 40]!r}")
        return expanded

    def to(self, path: str) -> str:
        """The way from this notebook to another file of the course."""
        return relpath(path, self.folder)

    def _one(self, match: re.Match[str]) -> str:
        kind, name, text = match[1], " ".join((match[2] or "").split()), match[3]
        if kind in _SECTIONS:
            return f"[{text or _TEXTS[kind]}]({self.to(HOME)}{_SECTIONS[kind]})"
        if kind == "term":
            if name not in self.terms:
                raise LinkError(f"the glossary has no term {name!r}: add it in sources/home.py")
            return f"[{text or name}]({self.to(HOME)}#{name.replace(' ', '-')})"
        lesson = _lesson(name)
        if kind == "deep":
            if lesson.deep is None:
                raise LinkError(f"lesson {name!r} has no notebook that goes deeper")
            return f"[{text or lesson.deep.title}]({self.to(lesson.deep_notebook)})"
        path = lesson.notebook if kind.lower() == "lesson" else lesson.sheet
        return f"[{text or f'{kind} {lesson.number:02}'}]({self.to(path)})"


def _lesson(slug: str) -> Lesson:
    try:
        return lesson_called(slug)
    except KeyError:
        slugs = ", ".join(lesson.slug for lesson in LESSONS)
        raise LinkError(f"no lesson is called {slug!r}; there are {slugs}") from None
