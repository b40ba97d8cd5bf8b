"""What a lesson's built notebook shows, and what its cells leave behind, for tests of its claims.

nbval proves that a run shows what is stored. So a claim about a training is checked on the stored
outputs, and nothing is trained for it a second time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import nbformat

from amp_lessons.core.catalogue import checkout, lesson_called
from amp_lessons.core.pictures import CURVES


class Stored:
    """A lesson's notebook as it was built.

    Args:
        lesson: its name, such as ``"grad_scaler"``.
        deep: take its optional notebook.
    """

    def __init__(self, lesson: str, deep: bool = False) -> None:
        info = lesson_called(lesson)
        path = checkout() / (info.deep_notebook if deep else info.notebook)
        self.code = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]

    def cell(self, *parts: str) -> nbformat.NotebookNode:
        """The one code cell whose source has all of these parts."""
        found = [cell for cell in self.code if all(part in cell.source for part in parts)]
        assert len(found) == 1, f"{len(found)} cells have {parts}"
        return found[0]

    def printed(self, *parts: str) -> str:
        """What that cell printed."""
        return "".join(output.get("text", "") for output in self.cell(*parts).outputs)

    def curves(self, *parts: str) -> dict[str, list[float]]:
        """The numbers behind that cell's picture, to three digits, by the name of the curve."""
        outputs = self.cell(*parts).outputs
        (found,) = (o.data[CURVES] for o in outputs if CURVES in o.get("data", {}))
        return {name: [float(word) for word in words.split()] for name, words in found.items()}

    def left_behind(
        self, *, without: Iterable[str] = (), instead: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, Any]:
        """What the cells leave behind, run from top to bottom and silently, without the questions.

        Args:
            without: a part of the source of each further cell that is left out.
            instead: by a part of a cell's source, what runs in its place.
        """
        other = dict.fromkeys(without, "") | dict(instead)
        changed = {self.cell(part).source: source for part, source in other.items()}
        ours = [c for c in self.code if "question" not in c.metadata.get("tags", [])]
        sources = [cell.source for cell in ours if "home.finished" not in cell.source]
        return left_by(changed.get(source, source) for source in sources)


def left_by(cells: Iterable[str]) -> dict[str, Any]:
    """What these cells leave behind, run one after the other and silently."""
    namespace: dict[str, Any] = {"print": lambda *_, **__: None}
    for source in cells:
        exec(compile(source, "<a lesson's cell>", "exec"), namespace)
    return namespace
