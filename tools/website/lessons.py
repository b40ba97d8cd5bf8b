"""The pages of lessons, deep notebooks and sheets of exercises, from the stored notebooks."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from amp_lessons.core.catalogue import LESSONS, Lesson
from website import api, cells, exercises, places, questions, widgets
from website.cells import Part
from website.pages import Page, Way
from website.places import Places
from website.text import Text, code, jupyter_anchor

ROOT = Path(__file__).resolve().parents[2]
NOT_STORED = (
    "What this cell shows depends on the computer that runs it, so it isn't stored. "
    "Run the notebook to see it."
)


@dataclass(frozen=True)
class Source:
    """A notebook, its page, and the pages beside it."""

    file: str
    page: str
    kind: str
    previous: tuple[str, str] | None
    following: tuple[str, str] | None


def sources() -> list[Source]:
    """Every notebook that becomes a page of its own, in the order of the course."""
    found = []
    for number, lesson in enumerate(LESSONS):
        before = _beside(LESSONS[number - 1]) if number else None
        after = _beside(LESSONS[number + 1]) if number + 1 < len(LESSONS) else None
        own = _beside(lesson)
        found.append(Source(lesson.notebook, own[1], "lesson", before, after))
        if lesson.deep:
            page = places.deep_page(lesson.slug)
            found.append(Source(lesson.deep_notebook, page, "deep", own, after))
        if lesson.exercises:
            page = places.sheet_page(lesson.slug)
            found.append(Source(lesson.sheet, page, "exercises", own, after))
    return found


def _beside(lesson: Lesson) -> tuple[str, str]:
    return f"{lesson.number:02} {lesson.title}", places.lesson_page(lesson.slug)


def page_of(source: Source, to: Places) -> Page:
    """The page of one notebook."""
    notebook = nbformat.read(ROOT / source.file, as_version=4)
    names = {name: to.to(address, source.page) for name, address in api.names().items()}
    text = Text(lambda href: to.link(href, source.file, source.page), jupyter_anchor, names)
    if source.kind == "exercises":
        content = exercises.content(notebook, text)
    else:
        content = _content(source, notebook, text)
    return Page(
        source.page,
        text.headings[0].text,
        content,
        text.headings,
        ways_to_run(source.file, source.page, to),
        source.previous,
        source.following,
        kind=source.kind,
    )


def _content(source: Source, notebook: NotebookNode, text: Text) -> str:
    to_root = "../" * source.page.count("/")
    shown: list[str] = []
    folded: list[str] = []
    about = ""
    for part in cells.parts_of(notebook):
        if part.about != about and folded:
            shown.append(questions.folded(about, "\n".join(folded)))
            folded = []
        about = part.about
        made = _one(part, source.file, to_root, text)
        (folded if about else shown).append(made)
    if folded:
        shown.append(questions.folded(about, "\n".join(folded)))
    return "\n".join(shown)


def _one(part: Part, file: str, to_root: str, text: Text) -> str:
    if part.kind == "text":
        return text.render(part.source)
    if part.kind == "code":
        return api.with_links(code(part.source), to_root)
    if part.kind in ("predict", "ask"):
        return questions.box(part.kind, part.ids)
    if part.kind == "widget":
        return widgets.place(widgets.key(file, part.cell), to_root)
    if part.kind == "not stored":
        return f'<p class="without-kernel">{html.escape(NOT_STORED)}</p>'
    return f'<div class="output">{cells.output_html(part.outputs)}</div>'


def ways_to_run(file: str, page: str, to: Places) -> list[Way]:
    """The notebook itself and, where the repository is known, services that run it."""
    ways = [Way("download the notebook", to.to(file, page), download=True)]
    if to.repository:
        # The workflow pushes the site to gh-pages. The notebooks there know the release's wheel.
        branch = "gh-pages" if to.wheel else to.ref
        colab = f"https://colab.research.google.com/github/{to.repository}/blob/{branch}/{file}"
        binder = f"https://mybinder.org/v2/gh/{to.repository}/{to.ref}?urlpath=lab/tree/{file}"
        ways += [
            Way("Colab", colab),
            Way("Binder", binder),
            Way("Codespaces", f"https://codespaces.new/{to.repository}?ref={to.ref}"),
        ]
    return ways
