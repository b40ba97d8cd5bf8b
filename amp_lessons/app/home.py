"""The learner's home page: what is next, the paths and the lessons, from the saved progress.

The page is an ordinary notebook, `catalogue.HOME`. Its cells with the tag ``drawn`` show what
depends on progress, and a second tag says which part of the page that is (`PARTS`). Such a part has
two lives:

- `amp-lessons lab` stores it at its start (`drawn`), so that the page can be read before any cell
  has run. It says of which moment it speaks, or nothing about progress.
- To run the cell replaces it. In the JupyterLab that `amp-lessons lab` starts, an extension of
  ours runs the cells when the page opens (`labextensions/`). From then on a thread in the kernel
  keeps the parts up to date, so that they are right when a learner comes back from a lesson.

All other cells belong to the course, or to the learner. `cards` makes the HTML.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from amp_lessons.app import cards
from amp_lessons.core import ipynb, progress
from amp_lessons.core.catalogue import Lesson, lesson_called
from amp_lessons.core.progress import Progress
from amp_lessons.core.standing import chosen_path, core_passes, steps_of

if TYPE_CHECKING:
    from amp_lessons.lessons.widgets.path_choice import PathChoice

DRAWN = "drawn"
"""The tag of the cells whose output `drawn` writes."""

LIVE = "live"
"""The tag of cells that are stored without output."""

SECONDS = 2.0
"""How often an open page looks for new progress."""

Data = dict[str, str]
"""What an output shows, by MIME type."""


# ---- the parts of the page ----------------------------------------------------------------------


@cache
def _style() -> str:
    from amp_lessons.lessons.widgets.files import style

    return f"<style>{style('home.css')}</style>"


def _as_data(markup: str) -> Data:
    return {"text/html": _style() + markup, "text/plain": "This page needs a notebook."}


def _stored_start(done: Progress) -> list[Data]:
    return [_as_data(cards.way_in(done, live=False)), _as_data(cards.path_list(done))]


def _stored_lab(_: Progress) -> list[Data]:
    from amp_lessons.lessons.widgets.loss_scale_lab import static_form

    return [static_form()]


def _stored_lessons(done: Progress) -> list[Data]:
    return [_as_data(cards.lessons(done))]


PARTS: dict[str, Callable[[Progress], list[Data]]] = {
    "start": _stored_start,
    "lab": _stored_lab,
    "lessons": _stored_lessons,
}
"""The outputs that are stored with each drawn cell, by the cell's second tag."""


# ---- the notebook -------------------------------------------------------------------------------


def drawn(notebook: dict[str, Any], done: Progress) -> dict[str, Any]:
    """The home notebook with the outputs of its drawn cells written from this progress.

    The outputs of its live cells are taken away.
    """
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code" and (_has_tag(cell, LIVE) or is_drawn(cell)):
            # A box that a former kernel drew looks as if it worked.
            outputs = [
                {"output_type": "display_data", "metadata": {}, "data": data}
                for part, stored in PARTS.items()
                if is_drawn(cell) and _has_tag(cell, part)
                for data in stored(done)
            ]
            cells.append(cell | {"outputs": outputs, "execution_count": None})
        else:
            cells.append(cell)
    return notebook | {"cells": cells}


def is_drawn(cell: ipynb.Cell) -> bool:
    """Whether `drawn` writes this cell."""
    return _has_tag(cell, DRAWN)


def _has_tag(cell: ipynb.Cell, tag: str) -> bool:
    metadata = cell.get("metadata")
    tags = metadata.get("tags") if isinstance(metadata, dict) else None
    return isinstance(tags, list) and tag in tags


# ---- what its cells call ------------------------------------------------------------------------


def show() -> None:
    """Show what is next, and the paths to choose from."""
    from IPython.display import display

    from amp_lessons.lessons.widgets.path_choice import PathChoice

    done = progress.load()
    for warning in done.warnings:
        print(warning)
    _page.show("start", lambda done: cards.way_in(done, live=True), done)
    path = chosen_path(done)
    _page.choice = PathChoice(
        cards.path_options(),
        path.key if path else "",
        form=_as_data(cards.path_list(done)),
        changed=_page.look_again,
    )
    display(_page.choice)


def show_lessons() -> None:
    """Show a card for each lesson."""
    _page.show("lessons", cards.lessons, progress.load())


class _Page:
    """The parts that an open page shows, and the thread that keeps them up to date."""

    def __init__(self) -> None:
        self.choice: PathChoice | None = None
        self._parts: dict[str, tuple[Any, Callable[[Progress], str]]] = {}
        self._seen = Progress()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def show(self, part: str, draw: Callable[[Progress], str], done: Progress) -> None:
        """Show a part in the cell that runs. A cell that showed it before isn't kept up to date."""
        from IPython.display import display

        handle = display(_as_data(draw(done)), raw=True, display_id=True)
        if handle is None:  # there is no notebook
            return
        with self._lock:
            self._parts[part] = handle, draw
            self._seen = done
        if self._thread is None or not self._thread.is_alive():
            self._ended.clear()
            self._thread = threading.Thread(
                target=self._follow, name="amp-lessons home", daemon=True
            )
            self._thread.start()

    def look_again(self) -> None:
        """Draw the parts again if the saved progress has changed."""
        try:
            done = progress.load()
        except progress.ProgressError:
            return
        with self._lock:
            last, self._seen = self._seen, done
            if (done.entries, done.lessons, done.path) == (last.entries, last.lessons, last.path):
                return
            for handle, draw in self._parts.values():
                handle.update(_as_data(draw(done)), raw=True)
            path = chosen_path(done)
            if self.choice is not None:
                self.choice.chosen = path.key if path else ""

    def end(self) -> None:
        """Let the thread end."""
        self._ended.set()

    def _follow(self) -> None:
        while not self._ended.wait(SECONDS):
            self.look_again()


_page = _Page()


# ---- what the lessons' last cells call ----------------------------------------------------------


def finished(slug: str) -> None:
    """Mark a lesson as done, and show the way on. The last cell of each lesson calls this.

    Args:
        slug: of the lesson, such as ``"grad_scaler"``.

    Raises:
        KeyError: if there is no such lesson.
    """
    from amp_lessons.core import output_box

    lesson = lesson_called(slug)
    done = Progress()
    problems: list[str] = []
    message = ""
    try:
        done = progress.record_lesson(slug)
    except progress.ProgressError as error:
        problems.append(f"Progress was not saved. {error}")
    else:
        problems += done.warnings
        if lesson.exercises:
            message = f"Core exercises passed: {core_passes(lesson, done)} of {len(lesson.core)}."
    foot = [*_way_on(lesson, done), *problems]
    output_box.show_box(f"✔ Lesson {lesson.number:02} done: {lesson.title}", message, foot)


def _way_on(lesson: Lesson, done: Progress) -> list[Any]:
    """The lines of the box at the end of a lesson: what is next, on the chosen path if there is
    one, and the lesson's exercises."""
    from amp_lessons.core.output_box import Links
    from amp_lessons.exercises.checks import display

    way = display.way_on(lesson, done)
    sheet = ((f"exercises {lesson.number:02}", f"../{lesson.sheet}"),) if lesson.exercises else ()
    path = chosen_path(done)
    if path is None:
        return [Links("Next: ", (*sheet, *way))]
    own = [Links("To practise this lesson: ", sheet)] if sheet and sheet[0][1] != way[0][1] else []
    if any(step.is_open(done) for step in steps_of(path)):
        return [Links(f"Next on the {path.name}: ", way), *own]
    return [f"You have finished the {path.name}.", Links("Next in the course: ", way), *own]
