"""What the record answers for the installed PyTorch, without loading PyTorch.

`policy` asks torch itself, which has to be imported first: seconds, for one word. Where the version
that is installed is recorded, `answers` gives the same rows from the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from amp_lessons.amp.policy_record import COLUMNS, DETAILS, read, release

DEVICES = ("cuda", "cpu")
DTYPES = {
    "fp16": "float16",
    "float16": "float16",
    "half": "float16",
    "bf16": "bfloat16",
    "bfloat16": "bfloat16",
}
"""The 16-bit dtypes by the names that people write."""

RECORDED = "recorded"
"""How the answers were found, beside "measured" and "fake tensors"."""


def installed() -> str:
    """The version of the installed torch, such as ``"2.13.0+cpu"``; "" if there is none."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def answers(ops: Sequence[str], device: str, dtype: str) -> list[dict[str, Any]] | None:
    """The rows of `policy.as_json` for these ops, from the record of the installed torch.

    None where the record can't say: for a version of which less is recorded or nothing, and for an
    op, a device or a dtype that it doesn't have under this name. And where the answer depends on
    the machine: see `_holds_elsewhere`. Then ask `policy`.
    """
    try:
        kept = read(release(installed()))
        table = kept["answers"][device][DTYPES[dtype]]
    except KeyError:
        return None
    columns = (*COLUMNS, *DETAILS)
    names = [name for op in ops if (name := _named(op, table))]
    if kept["columns"] != list(columns) or len(names) < len(ops):
        return None
    where = {"device": device, "dtype": DTYPES[dtype], "measured": RECORDED}
    rows = [{"op": name, **where, **dict(zip(columns, table[name], strict=True))} for name in names]
    return rows if all(map(_holds_elsewhere, rows)) else None


def _holds_elsewhere(row: dict[str, Any]) -> bool:
    """Not if the op couldn't run where it was recorded, since another CPU or build may run it; nor
    if a kernel of the CPU raised, since another kernel may raise with other words."""
    if row["group"] == "refused":
        return True
    raised = row["device"] == "cpu" and "raises" in row["note"]
    return not raised and None not in (row["low"], row["full"])


def _named(op: str, table: dict[str, Any]) -> str | None:
    return next((name for name in spellings(op) if name in table), None)


# Where the functions of the table live. One of the same name elsewhere (torch.sparse.mm,
# torch.ao.nn.quantized.functional.linear) is another function.
_HOMES = {"torch", "nn", "functional", "F", "ops", "aten", "Tensor", "modules", "special"}
_FAMILIES = ("linalg", "fft")


def spellings(op: str) -> list[str]:
    """The names that a dotted one can stand for, the most exact first; none if its home is other.

    ``aten.addmm.default``, as a dispatch mode or a profiler prints it, ends in an overload, and
    ``torch.fft.rfft`` is ``fft_rfft`` in ATen and in the table.
    """
    parts = op.strip().replace("::", ".").split(".")
    while len(parts) > 1 and parts[0] in _HOMES:
        del parts[0]
    match parts:
        case [name]:
            return [name]
        case [family, name] if family in _FAMILIES:
            return [f"{family}_{name}", name]
        case [name, "out"]:
            return [f"{name}(out=)"]
        case [name, _overload]:
            return [name]
    return []
