"""A table of answers for people, in a terminal, and for tools, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from rich.table import Table

from amp_lessons import policy, policy_record
from amp_lessons.policy.answer import OpPolicy, counts, short
from amp_lessons.policy.names import find_device, find_dtype
from amp_lessons.policy_record import changes
from amp_lessons.policy_record.changes import KINDS, Changes, answer


def table(found: Sequence[OpPolicy], *, why: bool) -> Table:
    """A row for each op; ``why`` adds a column of reasons, for wide terminals."""
    first = found[0]
    title = f"autocast({first.device!r}, {first.dtype}), {first.measured}"
    table = Table(title=title, title_justify="left", title_style="bold", expand=True)
    table.add_column("op", overflow="fold", ratio=3)
    for heading in ("16-bit", "float32", "mixed"):
        table.add_column(heading, no_wrap=True)
    table.add_column("group", overflow="fold", ratio=2)
    if why:
        table.add_column("why", overflow="fold", ratio=5)
    for p in found:
        dtypes = [short(dtype) for dtype in (p.low, p.full, p.mixed)]
        table.add_row(p.op, *dtypes, p.group, *([p.note] if why else []))
    return table


def totals(found: Sequence[OpPolicy]) -> list[str]:
    """The lines below the table: how many ops are in each group, and which have no answer."""
    groups = counts(found)
    lost = groups.pop("not answerable")
    lines = [
        f"{len(found) - lost} of {len(found)} ops answered, on torch {torch.__version__}:",
        ", ".join(f"{n} {group}" for group, n in groups.items()),
    ]
    if lost:
        lines.append(f"{lost} not answerable here:")
        lines += [f"- {p.op}: {p.note}" for p in found if p.group == "not answerable"]
    return lines


def since(version: str, device: Any, dtype: Any, ops: Sequence[str] = ()) -> Changes:
    """Compare what autocast does now with a recorded version.

    Args:
        version: the recorded one, such as ``"2.13"``.
        device, dtype: as for `policy.op_policy`.
        ops: which ones; () for all. One that only the recorded version has is told too.

    Raises:
        PolicyRecordError: for a version that is not recorded.
        PolicyError: for an op, device or dtype that is not known.
    """
    device, wanted = find_device(device), find_dtype(dtype)
    where = (device, short(wanted))
    if not ops:
        found, rules = policy.policy_table(device, wanted), policy.rules(device)
        return changes.since(version, torch.__version__, policy.as_json(found), rules, where=where)
    recorded = policy_record.table(*where, policy_record.find_version(version))
    missing = [op for op in ops if op not in policy.OPS and op in recorded]
    found = [policy.op_policy(op, device, wanted) for op in ops if op not in missing]
    rows = policy.as_json(found)
    return changes.since(version, torch.__version__, rows, where=where, missing=missing)


def all_changed(found: Sequence[Changes]) -> list[str]:
    """The lines for several devices and dtypes, those of one device one after another."""
    lines = older(found[0])
    before: Changes | None = None
    for each in found:
        beside = before if before and before.device == each.device else None
        lines += changed(each, beside)
        before = each
    return lines


def changed(found: Changes, told: Changes | None = None) -> list[str]:
    """What was compared, the ops that differ with both answers, and autocast's rules: as lines.

    ``told`` is what was said just before of the same device in the other dtype. It isn't repeated.
    """
    where = f"autocast({found.device!r}, {found.dtype}), torch {found.now} beside {found.before}"
    if not found:
        return [f"{where}: nothing changed, {found.asked} asked"]
    count = f"{len(found.ops)} {'op differs' if len(found.ops) == 1 else 'ops differ'}"
    if told:
        found = found.besides(told)
        if not found:
            return [f"{where}: {count}, as in {told.dtype}"]
        count += "; besides those above:"
    lines = [f"{where}: {count}"]
    for kind, words in KINDS.items():
        ops = found.of_kind(kind)
        lines += [f"{words}:"] if ops else []
        for each in ops:
            answers = (answer(had) for had in (each.recorded, each.now) if had)
            lines.append(f"- {each.op}: {' → '.join(answers)}")
    for words, names in (("now has", found.new_rules), ("no longer has", found.old_rules)):
        lines += [f"autocast {words} a rule for: {', '.join(names)}"] if names else []
    return lines


def older(found: Changes) -> list[str]:
    """A line if the installed torch is the older of the two."""
    if found.installed == found.now:
        return []
    upgrade = f"what changes from torch {found.before}, which is installed, to {found.now}"
    return [f"This is {upgrade}."]


def as_json(found: Sequence[OpPolicy]) -> dict[str, Any]:
    """The table as plain data, with where it holds."""
    first = found[0]
    return {
        "torch": torch.__version__,
        "device": first.device,
        "dtype": short(first.dtype),
        "measured": first.measured,
        "counts": counts(found),
        "ops": policy.as_json(found),
    }
