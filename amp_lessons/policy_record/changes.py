"""What changed between a recorded version of torch and the one that is installed.

Five things can differ, and only the first of them is a change of autocast itself: its rule for an
op, an op that torch added or removed, the dtype of a result under the same rule, and whether fake
tensors can run the op at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from amp_lessons.policy_record import (
    Difference,
    RecordedPolicy,
    differences,
    find_version,
    from_plain,
    release,
    rules,
    table,
)

Kind = Literal["rule", "new", "gone", "result", "runs"]
KINDS: dict[Kind, str] = {
    "rule": "autocast treats it in another way",
    "new": "new in torch",
    "gone": "gone from torch",
    "result": "same rule, another result",
    "runs": "same rule, runs here in one of the two only",
}
BUILD_ONLY = frozenset({"_cudnn_rnn"})
"""Operators with a rule only in a build with CUDA: whether they are there says nothing of torch."""


@dataclass(frozen=True)
class Changes:
    """What changed for one device and dtype.

    Attributes:
        before, now: the two versions of torch.
        device, dtype: what autocast was asked for, as names.
        asked: how many ops were asked now.
        ops: the ops whose answers differ.
        new_rules, old_rules: operators that autocast has a rule for only now, and only then; empty
            where a few ops were asked.
    """

    before: str
    now: str
    device: str
    dtype: str
    asked: int
    ops: tuple[Difference, ...]
    new_rules: tuple[str, ...]
    old_rules: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.ops or self.new_rules or self.old_rules)

    def of_kind(self, kind: Kind) -> list[Difference]:
        return [each for each in self.ops if kind_of(each) == kind]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON; a difference has its kind, and both answers or None."""
        ops = [
            {
                "op": each.op,
                "kind": kind_of(each),
                "before": _plain(each.recorded),
                "now": _plain(each.now),
            }
            for each in self.ops
        ]
        return asdict(self) | {"ops": ops}


def since(
    version: str,
    now: str,
    rows: Iterable[Mapping[str, Any]],
    live_rules: Collection[str] | None = None,
) -> Changes:
    """Compare live answers with the recorded ones of another version.

    Args:
        version: the recorded one, such as ``"2.13"``.
        now: the version that gave the live answers.
        rows: the live answers, all for one device and dtype, as `policy.as_json` gives them.
        live_rules: what `policy.rules` says now. None if only some ops were asked: then an op that
            isn't among the rows doesn't count as gone.

    Raises:
        PolicyRecordError: if the version is not recorded.
    """
    before = find_version(version)
    live = from_plain(rows)
    first = next(iter(live.values()))
    recorded = table(first.device, first.dtype, before)
    new_rules: list[str] = []
    old_rules: list[str] = []
    if live_rules is None:
        recorded = {op: policy for op, policy in recorded.items() if op in live}
    else:
        then, here = rules(first.device, before) - BUILD_ONLY, set(live_rules) - BUILD_ONLY
        new_rules, old_rules = sorted(here - then), sorted(then - here)
    return Changes(
        before,
        release(now),
        first.device,
        first.dtype,
        len(live),
        tuple(differences(recorded, live)),
        tuple(new_rules),
        tuple(old_rules),
    )


def kind_of(difference: Difference) -> Kind:
    """What a difference is about; see `KINDS`."""
    before, now = difference.recorded, difference.now
    if before is None:
        return "new"
    if now is None:
        return "gone"
    if "not answerable" in (before.group, now.group) or _ran(before) != _ran(now):
        return "runs"
    return "rule" if before.group != now.group else "result"


def answer(policy: RecordedPolicy) -> str:
    """An answer in a few words, such as ``"as given (float16, float32, -)"``.

    In brackets are the dtypes of the results for 16-bit, float32 and mixed input.
    """
    dtypes = ", ".join(dtype or "-" for dtype in (policy.low, policy.full, policy.mixed))
    return f"{policy.group} ({dtypes})"


def _ran(policy: RecordedPolicy) -> bool:
    return policy.group == "refused" or bool(policy.low or policy.full)


def _plain(policy: RecordedPolicy | None) -> dict[str, Any] | None:
    if policy is None:
        return None
    return {name: getattr(policy, name) for name in ("low", "full", "mixed", "group")}
