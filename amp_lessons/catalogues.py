"""What `myths` and `clinic` share: a table with links, and the complaint where one is wrong."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass


class Disagreement(AssertionError):
    """A cell found something else than the catalogue says. One of the two is wrong: read both."""


def anchor(heading: str) -> str:
    """The link to a heading of the same notebook, as JupyterLab makes it: blanks become dashes."""
    return f"#{heading.replace(' ', '-')}"


@dataclass(frozen=True)
class Table:
    """A table for a notebook; the first column links to the headings.

    Args:
        columns: their names.
        rows: for each a heading of this notebook, and the texts of the columns.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]

    def _repr_html_(self) -> str:
        head = "".join(f'<th style="text-align:left">{c}</th>' for c in self.columns)
        body = "".join(self._row(heading, texts) for heading, texts in self.rows)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"

    @staticmethod
    def _row(heading: str, texts: Sequence[str]) -> str:
        link = html.escape(anchor(heading), quote=True)
        first = f'<a href="{link}">{html.escape(texts[0])}</a>'
        cells = [first, *map(html.escape, texts[1:])]
        return "<tr>" + "".join(f'<td style="text-align:left">{c}</td>' for c in cells) + "</tr>"

    def __repr__(self) -> str:
        return "\n".join("  ".join(texts) for _, texts in self.rows)


def gaps(wanted: Iterable[int], seen: Iterable[int]) -> str:
    """The numbers that are wanted and were not seen, for a message; "" if there are none."""
    return ", ".join(map(str, sorted(set(wanted) - set(seen))))
