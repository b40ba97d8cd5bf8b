"""What is said of one operation, and of a table of them."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch

from amp_lessons.amp.policy_record import GROUPS, Group, asked
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.precision import dtype_name

DTYPES = {word: getattr(torch, name) for word, name in asked.DTYPES.items()}


class PolicyError(AmpLessonsError, ValueError):
    """An op, a device or a dtype that this module has no answer for."""


@dataclass(frozen=True)
class OpPolicy:
    """What autocast does to one operation.

    Attributes:
        op: its name in `OPS`.
        device: ``"cuda"`` or ``"cpu"``.
        dtype: the 16-bit dtype that autocast was asked for.
        low: dtype of the result for input of ``dtype``; None where there is none, and ``note``
            says why.
        full: the same for float32 input.
        mixed: the same where the first floating-point tensor is 16 bit and the others are
            float32; None also for an op that takes only one.
        group: what autocast does:
            ``"lower precision"`` casts to ``dtype``, ``"float32"`` computes in float32,
            ``"widest"`` casts to the widest input's dtype, ``"as given"`` does nothing,
            ``"refused"`` raises, ``"not answerable"`` here.
        measured: ``"measured"`` on real tensors, or ``"fake tensors"``.
        note: why, with torch's own message for what raises.
        double: dtype of the result for float64 input, which autocast leaves alone.
        listed: whether autocast has a rule for this very op; an op without one still changes if
            what it calls has one.
        inputs: how many floating-point tensors the call takes; with one there is nothing to mix.
    """

    op: str
    device: str
    dtype: torch.dtype
    low: torch.dtype | None
    full: torch.dtype | None
    mixed: torch.dtype | None
    group: Group
    measured: Literal["measured", "fake tensors"]
    note: str
    double: torch.dtype | None = None
    listed: bool = False
    inputs: int = 1


def counts(table: Iterable[OpPolicy]) -> dict[Group, int]:
    """How many ops are in each group, in the order of `GROUPS`."""
    found = Counter(policy.group for policy in table)
    return {group: found[group] for group in GROUPS}


def short(dtype: torch.dtype | None) -> str:
    """``"float16"`` for `torch.float16`, and a dash for no answer."""
    return dtype_name(dtype) or "-"


def caption(table: Iterable[OpPolicy]) -> str:
    """One line: which device and dtype, how it was asked, and how many ops are in each group."""
    table = list(table)
    if not table:
        return "no ops"
    first = table[0]
    found = ", ".join(f"{n} {group}" for group, n in counts(table).items() if n)
    return (
        f"autocast({first.device!r}, {first.dtype}), torch {torch.__version__}, "
        f"{first.measured}: {len(table)} ops: {found}"
    )


def as_json(table: Iterable[OpPolicy]) -> list[dict[str, Any]]:
    """The table as plain data, a dict an op, with dtypes as ``"float16"``, ``"float32"``, None."""
    return [
        {key: _plain(value) for key, value in dataclasses.asdict(policy).items()}
        for policy in table
    ]


def _plain(value: Any) -> Any:
    return short(value) if isinstance(value, torch.dtype) else value
