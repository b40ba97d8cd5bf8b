"""Where each file of the course lies on the site, and how a page links to it.

Pages are named by topic, such as ``lessons/grad_scaler.html``. The number of a lesson may change,
and a link to its page then still works.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass, field
from urllib.parse import unquote

from amp_lessons import __version__
from amp_lessons.core.catalogue import HOME, LESSONS, WHEEL

INDEX, QUIZ, ERRORS, POLICY = "index.html", "quiz.html", "errors.html", "policy.html"
MYTHS, NUMBERS, GLOSSARY, SEARCH = "myths.html", "numbers.html", "glossary.html", "search.html"
DOCS, API = "docs.html", "api.html"
_OUTSIDE = re.compile(r"[a-z][a-z+.-]*:", re.IGNORECASE)


def lesson_page(slug: str) -> str:
    return f"lessons/{slug}.html"


def deep_page(slug: str) -> str:
    return f"lessons/{slug}_deep.html"


def sheet_page(slug: str) -> str:
    return f"exercises/{slug}.html"


def doc_page(stem: str) -> str:
    return f"docs/{stem}.html"


def of_course(docs: list[str]) -> dict[str, str]:
    """The page of each file of the repository that has one. ``docs`` are stems in ``docs/``."""
    pages = {HOME: INDEX}
    for lesson in LESSONS:
        pages[lesson.notebook] = lesson_page(lesson.slug)
        if lesson.deep:
            pages[lesson.deep_notebook] = deep_page(lesson.slug)
        if lesson.exercises:
            pages[lesson.sheet] = sheet_page(lesson.slug)
    return pages | {f"docs/{stem}.md": doc_page(stem) for stem in docs}


@dataclass
class Places:
    """Links between files of the repository, as links between pages.

    Args:
        pages: the page of each file.
        home: the page of each anchor of the home notebook; its parts are several pages here.
        repository: such as ``"owner/name"`` on GitHub, or "" where nobody has said it.
        ref: the branch or tag that is linked to there.

    Attributes:
        lost: what a link pointed to that is neither a page nor in a known repository. Such a link
            is shown as plain text.
    """

    pages: dict[str, str]
    home: dict[str, str] = field(default_factory=dict)
    repository: str = ""
    ref: str = "main"
    lost: set[str] = field(default_factory=set)

    def link(self, href: str, file: str, page: str) -> str | None:
        """A link in ``file`` as it stands on ``page``; None if it leads nowhere."""
        if _OUTSIDE.match(href) or href.startswith("#"):
            return href if not href.startswith("#") else self._in_home(href, file, page)
        path, _, anchor = href.partition("#")
        target = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
        if target == HOME and anchor:
            return self._in_home(f"#{anchor}", HOME, page)
        if target in self.pages:
            return self.to(self.pages[target], page) + (f"#{anchor}" if anchor else "")
        if self.repository:
            return f"https://github.com/{self.repository}/blob/{self.ref}/{target}"
        self.lost.add(target)
        return None

    @property
    def wheel(self) -> str:
        """Where pip finds the wheel of a release; "" where the site belongs to none."""
        if not self.repository or self.ref != f"v{__version__}":
            return ""
        return f"https://github.com/{self.repository}/releases/download/{self.ref}/{WHEEL}"

    def _in_home(self, href: str, file: str, page: str) -> str:
        if file != HOME:
            return href
        where = self.home.get(unquote(href[1:]), INDEX)
        return (self.to(where, page) if where != page else "") + href

    @staticmethod
    def to(target: str, page: str) -> str:
        """The relative address of one page from another."""
        return posixpath.relpath(target, posixpath.dirname(page) or ".")
