"""What changed since a recorded version, in lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from amp_lessons.amp import policy, policy_record
from amp_lessons.amp.policy.answer import short
from amp_lessons.amp.policy.names import find_device, find_dtype
from amp_lessons.amp.policy_record import changes
from amp_lessons.amp.policy_record.changes import KINDS, PolicyChanges, answer


def since(version: str, device: Any, dtype: Any, ops: Sequence[str] = ()) -> PolicyChanges:
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


def all_changed(found: Sequence[PolicyChanges]) -> list[str]:
    """The lines for several devices and dtypes, those of one device one after another."""
    lines = older(found[0])
    before: PolicyChanges | None = None
    for each in found:
        beside = before if before and before.device == each.device else None
        lines += changed(each, beside)
        before = each
    return lines


def changed(found: PolicyChanges, told: PolicyChanges | None = None) -> list[str]:
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


def older(found: PolicyChanges) -> list[str]:
    """A line if the installed torch is the older of the two."""
    if found.installed == found.now:
        return []
    upgrade = f"what changes from torch {found.before}, which is installed, to {found.now}"
    return [f"This is {upgrade}."]
