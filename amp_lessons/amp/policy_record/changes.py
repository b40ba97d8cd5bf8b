"""What changed between a recorded version of torch and the one that is installed.

Five things can differ, and only the first of them is a change of autocast itself: its rule for an
op, an op that torch added or removed, the dtype of a result under the same rule, and whether fake
tensors can run the op at all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from packaging.version import Version

from amp_lessons.amp.policy_record import (
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
    "rule": "autocast's rule changed",
    "new": "new in torch",
    "gone": "gone from torch",
    "result": "same rule, another result",
    "runs": "same rule, but only one of the two versions can run it here",
}
BUILD_ONLY = frozenset({"_cudnn_rnn"})
"""Operators with a rule only in a build with CUDA: whether they are there says nothing of torch."""


@dataclass(frozen=True)
class PolicyChanges:
    """What changed for one device and dtype.

    Attributes:
        before, now: the two versions of torch, the older one first.
        installed: the version that gave the live answers: ``now``, or ``before`` if it was compared
            with a newer one.
        device, dtype: what autocast was asked for, as names.
        asked: how many ops were asked of the installed torch.
        ops: the ops whose answers differ.
        new_rules, old_rules: operators that autocast has a rule for only in ``now``, and only in
            ``before``; empty where a few ops were asked.
    """

    before: str
    now: str
    installed: str
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

    def besides(self, other: PolicyChanges) -> PolicyChanges:
        """Without what ``other`` says too: the same change, for the other of the two dtypes."""
        told = {_any_dtype(each) for each in other.ops}
        return replace(
            self,
            ops=tuple(each for each in self.ops if _any_dtype(each) not in told),
            new_rules=tuple(name for name in self.new_rules if name not in other.new_rules),
            old_rules=tuple(name for name in self.old_rules if name not in other.old_rules),
        )

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
    *,
    where: tuple[str, str],
    missing: Collection[str] = (),
) -> PolicyChanges:
    """Compare live answers with the recorded ones of another version.

    Args:
        version: the recorded one, such as ``"2.13"``.
        now: the version that gave the live answers.
        rows: the live answers, all for one device and dtype, as `policy.as_json` gives them.
        live_rules: what `policy.rules` says now. None if only some ops were asked: then an op that
            isn't among the rows doesn't count as gone.
        where: the device and the dtype, as names.
        missing: ops that were asked too, and that the live torch doesn't have.

    Raises:
        PolicyRecordError: if the version is not recorded.
    """
    other, installed = find_version(version), release(now)
    device, dtype = where
    live, recorded = from_plain(rows), table(device, dtype, other)
    then: frozenset[str] = frozenset()
    here: frozenset[str] = frozenset()
    if live_rules is None:
        asked = {*live, *missing}
        recorded = {op: policy for op, policy in recorded.items() if op in asked}
    else:
        then, here = rules(device, other) - BUILD_ONLY, frozenset(live_rules) - BUILD_ONLY
    old, new = (other, recorded, then), (installed, live, here)
    if Version(installed) < Version(other):
        old, new = new, old
    return PolicyChanges(
        old[0],
        new[0],
        installed,
        device,
        dtype,
        len(live),
        tuple(differences(old[1], new[1])),
        tuple(sorted(new[2] - old[2])),
        tuple(sorted(old[2] - new[2])),
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


def _any_dtype(difference: Difference) -> tuple[str, str, str]:
    """A difference in words that are the same for both 16-bit dtypes."""
    had, now = (
        answer(policy).replace("bfloat16", "float16") if policy else ""
        for policy in (difference.recorded, difference.now)
    )
    return difference.op, had, now


def _plain(policy: RecordedPolicy | None) -> dict[str, Any] | None:
    if policy is None:
        return None
    return {name: getattr(policy, name) for name in ("low", "full", "mixed", "group")}
