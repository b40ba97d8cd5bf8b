"""The choice of a path on the home page: a row of cards, one of which is chosen.

The choice is kept with the learner's progress, and everything in the course that says what is next
follows it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anywidget
import traitlets

from amp_lessons.core import progress
from amp_lessons.core.progress import ProgressError
from amp_lessons.lessons.widgets.files import module, style

Option = dict[str, str]
"""A path as the page shows it: its ``key``, or "" for the whole course, ``title``, ``time`` and
``goal``."""


class PathChoice(anywidget.AnyWidget):
    """A row of paths to choose from.

    Args:
        options: the paths, and the whole course.
        chosen: the key of the path that is chosen now, or "".
        form: what takes the widget's place where none can be drawn, by MIME type.
        changed: called when another path was chosen and saved.

    Attributes:
        chosen: follows the learner, and the page follows when the choice was made elsewhere.
        problem: why the choice could not be saved, or "".
    """

    _esm = module("path_choice.mjs")
    _css = style("home.css")

    options: traitlets.List[Option] = traitlets.List().tag(sync=True)
    chosen = traitlets.Unicode("").tag(sync=True)
    problem = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        options: Sequence[Option],
        chosen: str,
        form: dict[str, str],
        changed: Callable[[], object],
    ) -> None:
        super().__init__(options=list(options), chosen=chosen)
        self._form = form
        self._changed = changed
        self.on_msg(self._on_message)

    def _on_message(self, _: Any, content: dict[str, Any], buffers: Any) -> None:
        if "choose" in content:
            self.choose(content["choose"])

    def choose(self, key: str) -> None:
        """Choose a path and keep that. If it can't be saved, ``problem`` says why.

        Raises:
            ValueError: for a key that no option has.
        """
        if key not in [option["key"] for option in self.options]:
            raise ValueError(f"no path has the key {key!r}")
        self.problem = ""  # the page draws again when it changes, also to the same words
        try:
            progress.choose_path(key or None)
        except ProgressError as error:
            self.problem = f"Your choice was not saved. {error}"
            return
        self.chosen = key
        self._changed()

    def _repr_mimebundle_(self, **options: Any) -> Any:
        found = super()._repr_mimebundle_(**options)
        data, metadata = found if isinstance(found, tuple) else (found, {})
        return dict(data or {}) | self._form, metadata
