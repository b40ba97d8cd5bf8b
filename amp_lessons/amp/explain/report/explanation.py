"""What `explain_autocast` returns: a trace that knows its own forms."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from amp_lessons.amp.explain.report import data, page
from amp_lessons.amp.explain.report.digest import Digest, headline
from amp_lessons.amp.explain.report.text import ALL, ReportLine, ReportOptions, lines_of
from amp_lessons.amp.explain.rows import Trace

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES = {
    "title": "bold",
    "heading": "bold",
    "faint": "dim",
    "raises": "red",
    "wrong numbers": "yellow",
    "watch": "cyan",
}


def in_colour(lines: Sequence[ReportLine]) -> RenderableType:
    """Lines for a rich console. Colour is never all that tells two lines apart."""
    from rich.text import Text

    return Text("\n").join(Text(line.text, _STYLES.get(line.role, "")) for line in lines)


class Explanation(Trace):
    """What autocast does to a model: `rows`, `modules`, `totals`, `hazards` and `notes`.

    In a notebook it shows itself as a page to unfold; `print` gives the text of a terminal, and
    `to_json` everything for a program.
    """

    @cached_property
    def digest(self) -> Digest:
        """The tree, the islands, the sizes and the costs, worked out when asked for."""
        return Digest(self)

    @property
    def title(self) -> str:
        return f"{headline(self)}, torch {self.torch}"

    def summary(self) -> list[str]:
        """What a person wants to know first, one line each."""
        return [f"{label}: {words}" for label, words in self.digest.summary()]

    def text(self, width: int = 80, **options: Any) -> str:
        """The report in lines of at most ``width``; the options are those of `ReportOptions`."""
        lines = lines_of(self.digest, width, ReportOptions(**options))
        return "\n".join(line.text for line in lines)

    def renderable(self, width: int = 80, options: ReportOptions = ALL) -> RenderableType:
        """The same for a rich console, in colour."""
        return in_colour(lines_of(self.digest, width, options))

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `to_json` writes it; `data` says what the keys mean."""
        return data.to_dict(self.digest)

    def to_json(self) -> str:
        """JSON with one row a line."""
        return data.to_json(self.to_dict())

    def to_html(self) -> str:
        """A page of its own, which needs nothing else."""
        return page.whole(self.digest)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        """A fragment that takes its colours from the theme around it; every word is escaped."""
        return page.fragment(self.digest, linked=True)
