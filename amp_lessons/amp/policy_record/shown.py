"""Answers for people, as a table in a terminal, and for tools, as JSON.

Here an answer is a row of plain data, as `policy.as_json` and `asked.answers` give it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from amp_lessons.amp.policy_record import GROUPS
from amp_lessons.amp.policy_record.asked import RECORDED

Row = Mapping[str, Any]


def table(found: Sequence[Row], version: str, *, why: bool) -> Table:
    """A row for each op; ``why`` adds a column of reasons, for wide terminals."""
    first = found[0]
    how = first["measured"]
    title = f"autocast({first['device']!r}, torch.{first['dtype']}), {how}"
    if how == RECORDED:
        title += f" for torch {version}"
    table = Table(title=title, title_justify="left", title_style="bold", expand=True)
    table.add_column("op", overflow="fold", ratio=3)
    for heading in ("16-bit", "float32", "mixed"):
        table.add_column(heading, no_wrap=True)
    table.add_column("group", overflow="fold", ratio=2)
    if why:
        table.add_column("why", overflow="fold", ratio=5)
    for row in found:
        dtypes = [row[name] or "-" for name in ("low", "full", "mixed")]
        table.add_row(row["op"], *dtypes, row["group"], *([row["note"]] if why else []))
    return table


def totals(found: Sequence[Row], version: str) -> list[str]:
    """The lines below the table: how many ops are in each group, and which have no answer."""
    groups = counts(found)
    lost = groups.pop("not answerable")
    lines = [
        f"{len(found) - lost} of {len(found)} ops answered, on torch {version}:",
        ", ".join(f"{n} {group}" for group, n in groups.items()),
    ]
    if lost:
        lines.append(f"{lost} not answerable here:")
        lines += [f"- {row['op']}: {row['note']}" for row in found if not _answered(row)]
    return lines


def _answered(row: Row) -> bool:
    return bool(row["group"] != "not answerable")


def counts(found: Sequence[Row]) -> dict[str, int]:
    """How many ops are in each group, in the order of `GROUPS`."""
    counted = Counter(row["group"] for row in found)
    return {group: counted[group] for group in GROUPS}


def as_json(found: Sequence[Row], version: str) -> dict[str, Any]:
    """The table as plain data, with where it holds."""
    first = found[0]
    return {
        "torch": version,
        "device": first["device"],
        "dtype": first["dtype"],
        "measured": first["measured"],
        "counts": counts(found),
        "ops": list(found),
    }
