"""Buttons below the box of a verdict: the next hint, and the solution.

They do what ``ex.NAME.hint()`` and ``ex.NAME.solution()`` do, and show their boxes below. They're
drawn only where somebody runs cells in a page: what other programs run looks as it always did.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import anywidget
import traitlets

from amp_lessons.core import output_box, progress
from amp_lessons.core.es_modules import join_modules, read_static

STATIC = Path(__file__).parent / "static"


class Helpful(Protocol):
    """What the buttons need of an exercise."""

    name: str

    @property
    def hints(self) -> tuple[str, ...]: ...

    def hint(self) -> None: ...

    def solution(self, give_up: bool = False) -> None: ...


class HelpButtons(anywidget.AnyWidget):
    """The two buttons of an exercise.

    Attributes:
        shown: the boxes that they have shown, as HTML.
        more_hints: whether there is a hint that they haven't shown.
        gives_up: whether the solution counts as giving up, so that the page asks first.
    """

    _esm = join_modules("help_buttons.mjs", STATIC)
    _css = read_static("widgets.css") + read_static("help_buttons.css", STATIC)

    shown = traitlets.List(traitlets.Unicode()).tag(sync=True)
    more_hints = traitlets.Bool(True).tag(sync=True)
    gives_up = traitlets.Bool(True).tag(sync=True)

    def __init__(self, exercise: Helpful) -> None:
        self.exercise = exercise
        super().__init__(gives_up=self._gives_up())
        self.on_msg(self._on_message)

    def hint(self) -> None:
        """Show the next hint below the others."""
        with output_box.shown_to(self._add):
            self.exercise.hint()
        self.more_hints = self._entry().hints < len(self.exercise.hints)

    def solution(self) -> None:
        """Show the solution, which gives up if the exercise has not passed."""
        with output_box.shown_to(self._add):
            self.exercise.solution(give_up=True)
        self.gives_up = self._gives_up()

    # ---- inside ----

    def _on_message(self, _: Any, content: Any, buffers: Any) -> None:
        if content == "hint":
            self.hint()
        elif content == "solution":
            self.solution()

    def _add(self, markup: str) -> None:
        self.shown = [*(old for old in self.shown if old != markup), markup]

    def _entry(self) -> progress.ExerciseRecord:
        try:
            return progress.load()[self.exercise.name]
        except progress.ProgressError:
            return progress.ExerciseRecord()

    def _gives_up(self) -> bool:
        entry = self._entry()
        return not entry.passed and entry.gave_up_at is None

    def _repr_mimebundle_(self, **options: Any) -> Any:
        """Nothing to read where no widget is drawn: the box above names both commands."""
        found = super()._repr_mimebundle_(**options)
        data, metadata = found if isinstance(found, tuple) else (found, {})
        return dict(data or {}) | {"text/plain": ""}, metadata


def show(exercise: Helpful) -> None:
    """Show the buttons of an exercise."""
    from IPython.display import display

    display(HelpButtons(exercise))
