"""The search: an index of every section of the site, and the page that uses it."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from website import places
from website.pages import Page

MOST_CHARACTERS = 345
"""Of the words of a section that its title and beginning don't have."""
SHOWN = 100
"""Characters of a section's beginning that a hit shows."""
_HEADING = re.compile(
    r'<h[1-6][^>]*\bid="([^"]*)"[^>]*>(.*?)</h[1-6]>'
    r'|<details class="entry" id="([^"]*)"><summary>(.*?)</summary>',
    re.DOTALL,
)
_HIDDEN = re.compile(
    r"<script.*?</script>|<noscript.*?</noscript>|<svg.*?</svg>|<math.*?</math>", re.DOTALL
)
_WORD = re.compile(r"[a-z_][a-z0-9_]{2,}")
TOO_COMMON = frozenset(
    """the and that this with for are you not its from have has was one but can all when than then
    into which what each more they their there does your how only also""".split()  # noqa: SIM905
)
_TAG = re.compile(r"<[^>]+>")


def index(pages: Iterable[Page]) -> str:
    """The index: ``[page, anchor, title, beginning, words]`` for each section, and the pages."""
    listed, sections = [], []
    for page in pages:
        if page.kind == "search":
            continue
        listed.append([page.path, page.title, page.kind])
        sections += [[len(listed) - 1, *each] for each in _sections(page)]
    found = {"pages": listed, "sections": sections}
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _sections(page: Page) -> Iterator[tuple[str, str, str, str]]:
    content = _HIDDEN.sub(" ", page.content)
    if page.path == places.POLICY:
        content = content.partition('<div class="table">')[0]
    ends = list(_HEADING.finditer(content))
    starts = [(0, "", page.title), *((e.end(), e[1] or e[3], _plain(e[2] or e[4])) for e in ends)]
    stops = [*(e.start() for e in ends), len(content)]
    for (start, anchor, title), stop in zip(starts, stops, strict=True):
        text = _plain(content[start:stop])
        if text or anchor:
            name = title.removesuffix(" #")
            yield html.unescape(anchor), name, _beginning(text), _words(text, name)


def _plain(markup: str) -> str:
    return " ".join(html.unescape(_TAG.sub(" ", markup)).split())


def _beginning(text: str) -> str:
    return text if len(text) <= SHOWN else text[:SHOWN].rpartition(" ")[0] + " …"


def _words(text: str, name: str) -> str:
    """The words that neither the title nor the beginning has. A search looks for how words begin,
    so "scale" is left out where "scales" stands."""
    known = {*_WORD.findall(name.lower()), *_WORD.findall(text[: SHOWN - 20].lower()), *TOO_COMMON}
    words = [each for each in dict.fromkeys(_WORD.findall(text.lower())) if each not in known]
    begins = {one for one, next_ in pairwise(sorted(words)) if next_.startswith(one)}
    return " ".join(each for each in words if each not in begins)[:MOST_CHARACTERS]


def page() -> Page:
    content = (
        "<h1>Search</h1>"
        '<form class="search" action="search.html"><label for="wanted">Words to look for</label> '
        '<input id="wanted" type="search" name="q"> <button>Search</button></form>'
        '<p id="told" role="status"></p><ol id="hits"></ol>'
        "<noscript><p>The search needs JavaScript.</p></noscript>"
    )
    return Page(places.SEARCH, "Search", content, scripts=("search.mjs",), kind="search")
