"""Pages and how they are written: a template around the content, pictures in files of their own."""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from website import places
from website.text import Heading

HERE = Path(__file__).parent
NAVIGATION = (
    ("Lessons", f"{places.INDEX}#Lessons"),
    ("Quiz", places.QUIZ),
    ("Errors", places.ERRORS),
    ("Policy table", places.POLICY),
    ("Myths", places.MYTHS),
    ("Glossary", places.GLOSSARY),
    ("API", places.API),
    ("Guides", places.DOCS),
)
_EMBEDDED = re.compile(r'<img src="data:image/png;base64,([^"]+)"')


@dataclass(frozen=True)
class Way:
    """A way to run a page's notebook: its words, and the address."""

    words: str
    address: str
    download: bool = False


@dataclass
class Page:
    """One page before it is written.

    Attributes:
        path: below the root of the site.
        title: of the browser's tab, and what the search shows.
        content: HTML, with the heading.
        headings: for the table of contents and the search.
        ways: to run its notebook.
        previous, following: the pages beside it, as title and path.
        scripts: modules that the page loads at once, besides ``site.mjs``.
        wide: whether it needs the whole width, so that it has no table of contents.
        kind: what the search calls it.
    """

    path: str
    title: str
    content: str
    headings: Sequence[Heading] = ()
    ways: Sequence[Way] = ()
    previous: tuple[str, str] | None = None
    following: tuple[str, str] | None = None
    scripts: Sequence[str] = ()
    wide: bool = False
    kind: str = "page"

    @property
    def to_root(self) -> str:
        return "../" * self.path.count("/")


@dataclass
class Writer:
    """Writes pages into a folder.

    Args:
        folder: the root of the site.
        version: of the course, for the foot of each page.

    Attributes:
        written: the paths of the pages.
    """

    folder: Path
    version: str
    written: list[str] = field(default_factory=list)

    def write(self, page: Page) -> None:
        text = _template().render(
            page=page,
            content=Markup(self._with_files(page)),
            navigation=[(words, page.to_root + to) for words, to in NAVIGATION],
            contents=[each for each in page.headings if each.level in (2, 3)],
            version=self.version,
            early=Markup(early_script()),
            policy=policy(),
        )
        self.put(page.path, text.encode())
        self.written.append(page.path)

    def put(self, path: str, content: bytes) -> None:
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    def _with_files(self, page: Page) -> str:
        """The content with each picture in a file, loaded when it comes into view."""

        def one(found: re.Match[str]) -> str:
            png = base64.b64decode(found[1])
            name = f"images/{hashlib.sha256(png).hexdigest()[:16]}.png"
            if not (self.folder / name).exists():
                self.put(name, png)
            width, height = struct.unpack(">II", png[16:24])
            return (
                f'<img src="{page.to_root}{name}" width="{width}" height="{height}" loading="lazy"'
            )

        return _EMBEDDED.sub(one, page.content)


@cache
def early_script() -> str:
    """Runs before the page is drawn, so that a chosen theme doesn't flash."""
    return (HERE / "static/early.js").read_text(encoding="utf-8").strip()


@cache
def policy() -> str:
    """What a page may load: nothing from another host."""
    digest = base64.b64encode(hashlib.sha256(early_script().encode()).digest()).decode()
    return "; ".join(
        [
            "default-src 'self'",
            f"script-src 'self' 'sha256-{digest}'",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "base-uri 'none'",
            "form-action 'self'",
        ]
    )


@cache
def _template() -> Any:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.jinja")
