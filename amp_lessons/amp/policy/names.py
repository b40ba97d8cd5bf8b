"""Which operation, device or dtype somebody means."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

import torch

from amp_lessons.amp import policy_record
from amp_lessons.amp.policy.answer import DTYPES, PolicyError
from amp_lessons.amp.policy.calls import CALLS, OPERATORS, OPS
from amp_lessons.amp.policy_record.asked import DEVICES, spellings


def find_op(op: str) -> str:
    """The name in `OPS` that is meant.

    Raises:
        PolicyError: if there is none; the message has near matches.
    """
    if not isinstance(op, str):
        raise PolicyError(f"op must be a name such as 'softmax', got {type(op).__name__}")
    names = spellings(op)
    for name in names:
        if name in CALLS:
            return name
        for known, operator in OPERATORS.items():
            if name == operator:
                return known
    last = op.strip().replace("::", ".").rpartition(".")[2]
    bare = (names or [last])[-1]
    if names and bare not in CALLS and (others := policy_record.versions_with(bare)):
        here = policy_record.release(torch.__version__)
        raise PolicyError(f"torch {here} has no {bare}; it is in torch {others[-1]}")
    written = bare.endswith(("_", "(out=)"))  # that mark is no matter of spelling
    loose = [] if written else _alike(names)
    if len(loose) == 1:
        return loose[0]
    near = loose or _near(bare) or _near(last)
    hint = f"near it: {', '.join(near)}" if near else _ELSEWHERE
    if written:
        hint = f"autocast leaves alone what works in place or with out=; {hint}"
    raise PolicyError(f"no op called {op!r} among the {len(OPS)} that can be asked; {hint}")


def _near(name: str) -> list[str]:
    return difflib.get_close_matches(name.lower(), OPS, n=3, cutoff=0.6)


_ELSEWHERE = (
    "amp_lessons.amp.policy.OPS has the names, and amp_lessons.explain_autocast shows any op in "
    "a model that has it"
)


def _alike(names: Iterable[str]) -> list[str]:
    """The ops of the table that differ from one of these in case and underscores alone."""
    loose = {_loosely(name) for name in names}
    return [name for name in OPS if _loosely(name) in loose]


def _loosely(name: str) -> str:
    return name.replace("_", "").lower()


def find_device(device: Any) -> str:
    """The device that is meant, "cuda" or "cpu". Raises `PolicyError` for another."""
    name = str(device).split(":")[0].lower()
    if name in DEVICES:
        return name
    near = difflib.get_close_matches(name, DEVICES, n=1, cutoff=0.5)
    hint = f"; near it: {near[0]!r}" if near else ""
    raise PolicyError(f"device must be 'cuda' or 'cpu', got {str(device)!r}{hint}")


def find_dtype(dtype: Any) -> torch.dtype:
    """The 16-bit dtype that is meant: itself, or by a name such as ``"fp16"`` or ``"bfloat16"``.

    Raises:
        PolicyError: if autocast does not compute in it.
    """
    known = dtype if isinstance(dtype, torch.dtype) else DTYPES.get(_bare_dtype(dtype))
    if known in (torch.float16, torch.bfloat16):
        return known
    near = difflib.get_close_matches(_bare_dtype(dtype), DTYPES, n=1)
    hint = f"; near it: {near[0]!r}" if near and known is None else ""
    raise PolicyError(f"autocast computes in torch.float16 or torch.bfloat16, not {dtype}{hint}")


def _bare_dtype(dtype: Any) -> str:
    return str(dtype).lower().removeprefix("torch.")
