"""What autocast did to each operation, as recorded for the versions of torch that we ran.

`policy` asks torch; this room reads what torch answered, so that a quiz question about CUDA or a
comparison of two versions needs no torch at all. There is one file a version in `recorded`;
`tools/record_policy.py` writes the file of the installed version. `changes` compares two versions,
and `asked` answers for the installed one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args

from packaging.version import Version

from amp_lessons.core.errors import AmpLessonsError

FOLDER = Path(__file__).with_name("recorded")
COLUMNS = ("low", "full", "mixed", "group")
"""What is recorded of an op, in this order; see `policy.OpPolicy` for what each means."""
DETAILS = ("note", "double", "listed", "inputs")
"""What follows in the files that were written since `asked` answers from them."""
Group = Literal["lower precision", "float32", "widest", "as given", "refused", "not answerable"]
GROUPS: tuple[Group, ...] = get_args(Group)


class PolicyRecordError(AmpLessonsError, LookupError):
    """Nothing is recorded under this version, device or dtype. The message says what is."""


@dataclass(frozen=True)
class RecordedPolicy:
    """What autocast did to one operation: an `OpPolicy` with its dtypes as names.

    Attributes:
        op: its name in `policy.OPS`.
        device: ``"cuda"`` or ``"cpu"``.
        dtype: ``"float16"`` or ``"bfloat16"``, which autocast was asked for.
        low, full, mixed: dtype of the result for input of ``dtype``, of float32, and of both;
            None where there is no result.
        group: one of `GROUPS`.
    """

    op: str
    device: str
    dtype: str
    low: str | None
    full: str | None
    mixed: str | None
    group: str


@dataclass(frozen=True)
class Difference:
    """An op with another answer now. One of the two is None for an op that is new or gone."""

    recorded: RecordedPolicy | None
    now: RecordedPolicy | None

    @property
    def op(self) -> str:
        found = self.now or self.recorded
        assert found is not None
        return found.op


def release(version: str) -> str:
    """A version without the build it came from: ``"2.13.0"`` for ``"2.13.0+cpu"``."""
    return str(version).partition("+")[0]


@cache
def versions() -> tuple[str, ...]:
    """The versions of torch that are recorded, the newest last."""
    return tuple(sorted((path.stem for path in FOLDER.glob("*.json")), key=Version))


def find_version(text: str) -> str:
    """The recorded version that is meant: ``"2.13"`` is the newest of 2.13.

    Raises:
        PolicyRecordError: if none is; the message lists those that are recorded, and names the one
            that differs in the last number only.
    """
    wanted, there = release(text).strip().removeprefix("v"), ", ".join(versions())
    if not wanted:
        raise PolicyRecordError(f"name a version of torch; recorded: {there}")
    if found := _of(wanted):
        return found[-1]
    minor, _, patch = wanted.rpartition(".")
    near = _of(minor) if "." in minor and patch.isdigit() else []
    hint = f"; of torch {minor} it is {near[-1]}" if near else ""
    raise PolicyRecordError(f"torch {wanted} is not recorded; recorded: {there}{hint}")


def _of(beginning: str) -> list[str]:
    """The recorded versions that begin with these numbers, the newest last."""
    return [each for each in versions() if f"{each}.".startswith(f"{beginning}.")]


def table(device: str, dtype: str, version: str | None = None) -> dict[str, RecordedPolicy]:
    """The recorded answers by op, in the order of `policy.OPS`.

    Args:
        device: ``"cuda"`` or ``"cpu"``.
        dtype: ``"float16"`` or ``"bfloat16"``.
        version: of torch, with or without its build; by default the newest that is recorded.

    Raises:
        PolicyRecordError: if that is not recorded.
    """
    wanted = versions()[-1] if version is None else release(version)
    try:
        rows = read(wanted)["answers"][device][dtype]
    except KeyError:
        there = ", ".join(versions())
        raise PolicyRecordError(
            f"no record of autocast({device!r}, {dtype}) on torch {wanted}; recorded: {there}"
        ) from None
    return {op: RecordedPolicy(op, device, dtype, *row[: len(COLUMNS)]) for op, row in rows.items()}


def rules(device: str, version: str) -> frozenset[str]:
    """The operators that autocast had a rule for, as `policy.rules` names them.

    Raises:
        PolicyRecordError: if that is not recorded.
    """
    try:
        return frozenset(read(release(version))["rules"][device])
    except KeyError:
        there = ", ".join(versions())
        raise PolicyRecordError(
            f"no record of autocast's rules for {device!r} on torch {version}; recorded: {there}"
        ) from None


def versions_with(op: str) -> tuple[str, ...]:
    """The recorded versions in which an op could be asked, the newest last."""
    return tuple(each for each in versions() if op in read(each)["answers"]["cpu"]["float16"])


def differences(
    before: Mapping[str, RecordedPolicy], now: Mapping[str, RecordedPolicy]
) -> list[Difference]:
    """The ops whose answers differ: in the order of the new table, then those that are gone."""
    ops = [*now, *(op for op in before if op not in now)]
    pairs = ((before.get(op), now.get(op)) for op in ops)
    return [Difference(old, new) for old, new in pairs if old != new]


def from_plain(rows: Iterable[Mapping[str, Any]]) -> dict[str, RecordedPolicy]:
    """Live answers, as `policy.as_json` gives them, in the form of a recorded table."""
    names = ("op", "device", "dtype", *COLUMNS)
    return {row["op"]: RecordedPolicy(**{name: row[name] for name in names}) for row in rows}


def compared(version: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """One line if live answers are not the recorded ones, or cannot be compared; else nothing.

    Args:
        version: of the torch that gave the answers.
        rows: the answers, all for one device and dtype, as `policy.as_json` gives them.
    """
    live = from_plain(rows)
    if release(version) not in versions():
        return (
            f"torch {release(version)} is not recorded, so these answers were compared with none; "
            f"recorded: {', '.join(versions())}"
        )
    first = next(iter(live.values()))
    recorded = table(first.device, first.dtype, version)
    changed = differences({op: recorded[op] for op in live if op in recorded}, live)
    if not changed:
        return ""
    named = ", ".join(each.op for each in changed[:5]) + ", …" * (len(changed) > 5)
    many = "differs from that" if len(changed) == 1 else "differ from those"
    return (
        f"{len(changed)} of these {len(live)} answers {many} recorded for torch "
        f"{release(version)}: {named}"
    )


@cache
def read(version: str) -> dict[str, Any]:
    """The file of one version: torch, columns, rules by device, and by device, dtype and op the row
    of its columns: `COLUMNS`, and `DETAILS` in newer files. Raises `KeyError` for a version that is
    not recorded."""
    if version not in versions():
        raise KeyError(version)
    return json.loads((FOLDER / f"{version}.json").read_text(encoding="utf-8"))
