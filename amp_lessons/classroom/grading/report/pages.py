"""The grader's HTML pages: one a learner, one of the class, and a list of them all.

Each page is one file: no script, nothing from the network. What learners wrote is escaped by the
template engine, characters that can't be seen or that turn a line around are spelt out, and a
content security policy forbids scripts besides. File names are made of ASCII letters and digits.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amp_lessons.classroom.grading.marks import Graded
from amp_lessons.classroom.grading.report import class_page, learner_page
from amp_lessons.classroom.grading.report.class_list import Listed
from amp_lessons.classroom.grading.report.console import short
from amp_lessons.classroom.grading.report.roster import Learner, columns, lesson_title, roster
from amp_lessons.classroom.grading.report.writing import ReportError, cannot_write, write
from amp_lessons.core.states import look

if TYPE_CHECKING:
    from jinja2 import Environment

GENERATOR = "amp-lessons grade"
"""Stands in each page, so that no page of somebody else is overwritten."""

LEARNERS = "learners"
"""The folder of the learners' pages."""

WRITERS = 8
"""Threads that wait for the disk, each until a page is safely there."""

LONGEST_FILE_NAME = 60
LONGEST_SOURCE = 20_000
"""Characters of an answer on a page. A notebook may hold 50 MB of them."""

_TEMPLATES = Path(__file__).parent / "templates"
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d|index|class)$")


def write_pages(
    all_graded: Sequence[Graded],
    folder: Path,
    about: Mapping[str, Any] | None = None,
    people: Sequence[Listed] = (),
) -> Path:
    """Write ``class.html``, ``index.html``, and a page for each learner in ``learners/``.

    ``index.html`` and the last section of ``class.html`` name learners; a learner's page names
    nobody else, so it can be handed out.

    Args:
        folder: is made if it isn't there. Pages of an earlier run are replaced.
        about: what is known of the batch, such as ``{"date": "2026-11-23"}``. ``"date"``,
            ``"course"``, ``"torch"`` and ``"sandbox"`` go on each page, all of it on the index.
            ``"lab"`` is where links to the course lead, by default JupyterLab on this computer.
        people: the class's list. Who is missing is on the index, and has no page.

    Returns:
        ``index.html``.

    Raises:
        ReportError: if the folder can't be written, or holds an ``index.html`` or ``class.html``
            that is not the grader's.
    """
    about = {"lab": learner_page.LAB, **(about or {})}
    learners = roster(all_graded, people)
    files = file_names(learner.name for learner in learners)
    index = folder / "index.html"
    try:
        (folder / LEARNERS).mkdir(parents=True, exist_ok=True)
        for page in (index, folder / "class.html"):
            _refuse_to_overwrite(page)
    except OSError as error:
        raise cannot_write(folder, error, "--html") from error
    with ThreadPoolExecutor(WRITERS) as pool:
        writing = []
        for learner, name in zip(learners, files, strict=True):
            if learner.missing:
                continue
            theirs = _render("learner.html", about, **learner_page.content(learner, about))
            writing.append(pool.submit(write, folder / LEARNERS / name, theirs, "--html"))
        for each in writing:
            each.result()
    links = [f"{LEARNERS}/{name}" for name in files]
    content = class_page.content(learners, all_graded, links)
    write(folder / "class.html", _render("class.html", about, **content), "--html")
    write(index, _render("index.html", about, **_index(learners, links, all_graded)), "--html")
    return index


def _refuse_to_overwrite(page: Path) -> None:
    if page.exists() and f'content="{GENERATOR}"'.encode() not in page.read_bytes()[:4000]:
        raise ReportError(
            f"{page} is not a page of this grader, and would be lost: choose another folder with "
            "--html"
        )


def file_names(names: Iterable[str]) -> list[str]:
    """A file name for each learner: readable, safe on every system, and different from all others,
    also where capitals make no difference."""
    taken: set[str] = set()
    found = []
    for name in names:
        ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        stem = re.sub(r"[^a-z0-9]+", "-", ascii_only.lower()).strip("-")
        stem = stem[:LONGEST_FILE_NAME].strip("-") or "learner"
        stem = f"{stem}-" if _RESERVED.match(stem) else stem
        unique, number = stem, 1
        while unique in taken:
            number += 1
            unique = f"{stem}-{number}"
        taken.add(unique)
        found.append(f"{unique}.html")
    return found


def _index(
    learners: Sequence[Learner], links: Sequence[str], all_graded: Sequence[Graded]
) -> dict[str, Any]:
    sheets = list(dict.fromkeys(column.lesson for column in columns(learners)))
    rows = []
    for learner, href in zip(learners, links, strict=True):
        by_lesson = {graded.lesson: graded for graded in learner.counted if graded.marks}
        rows.append(
            {
                "learner": learner,
                "href": href,
                "sheets": [by_lesson.get(lesson) for lesson in sheets],
            }
        )
    return {
        "title": "Graded notebooks",
        "sheets": [lesson_title(lesson) for lesson in sheets],
        "of": sum(column.of for column in columns(learners)),
        "rows": rows,
        "notebooks": len(all_graded),
        "missing": sum(learner.missing for learner in learners),
    }


def _render(template: str, about: Mapping[str, Any], **content: Any) -> bytes:
    page = _environment().get_template(template).render(about=about, generator=GENERATOR, **content)
    return visible(page).encode("utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    found = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {"short": short, "code": code_html, "sentence": sentence_html}
    found.globals["look"] = look
    return found


@lru_cache(maxsize=4096)
def code_html(source: str) -> Any:
    """Python as coloured, escaped HTML for a ``<pre>``. What is too long is cut, and says so."""
    from markupsafe import Markup
    from pygments import highlight

    source = source.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    cut = len(source) > LONGEST_SOURCE
    html = highlight(source[:LONGEST_SOURCE], *_highlighting()).rstrip("\n")
    rest = f"\n# … {len(source) - LONGEST_SOURCE:,} more characters" if cut else ""
    return Markup(html) + rest


@cache
def _highlighting() -> tuple[Any, Any]:
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    return PythonLexer(stripnl=False), HtmlFormatter(nowrap=True)


def sentence_html(text: str) -> Any:
    """A sentence, escaped, with what stands in backticks set as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


_HARMLESS = re.compile(r"[^\n\t -~]")
_JOINERS = "\u200c\u200d"  # words of several languages need them


def visible(text: str) -> str:
    """The text with each character that can't be seen spelt out, as in ``⟨U+202E⟩``.

    Among them are those that turn a line of code around for the reader and not for Python, and
    those that HTML must not contain.
    """
    return _HARMLESS.sub(_spelt_out, text)


def _spelt_out(found: re.Match[str]) -> str:
    char = found[0]
    if char.isprintable() or char in _JOINERS or unicodedata.category(char) == "Zs":
        return char
    return f"⟨U+{ord(char):04X}⟩"
