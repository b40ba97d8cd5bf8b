"""From a learner's objects to plain data: the last place where the two touch.

A probe runs the learner's code and hands over what it saw through `plain` and `observe`. What
comes out is numbers, text, lists and dicts, so a judge can never be fooled by an object that
claims to equal everything. Values are read by type, never by asking them what they are.
"""

from __future__ import annotations

import copy
import json
import traceback
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch

PACKAGE = Path(__file__).resolve().parent.parent
UNATTEMPTED = {"unattempted": True}
MAX_ELEMENTS = 100_000

# Bound once, before any learner's code runs.
_tolist, _detach, _cpu, _double = (
    torch.Tensor.tolist,
    torch.Tensor.detach,
    torch.Tensor.cpu,
    torch.Tensor.double,
)
_TENSORS = (torch.Tensor, torch.nn.Parameter)


class DamagedEvidence(ValueError):
    """A judge was given data that its probe never returns."""


def plain(value: Any) -> Any:
    """Describe a value in JSON's types.

    Returns:
        None, bool, int, float and str as they are, a subclass of str, such as a member of a
        `StrEnum`, as str; a `Fraction` or `Decimal` as a float, or an int if it is whole; a list or
        tuple as a list; a dict of any kind with text keys as ``{"dict": …}``; a tensor or array as
        ``{"values": nested list, "dtype": name, "shape": list, "requires_grad": bool}``, an array
        of text as text or a list; ``...`` as ``{"unattempted": True}``; anything else as
        ``{"object": class name}``.
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if value is ...:
        return UNATTEMPTED
    if kind in (list, tuple):
        return [plain(item) for item in value]
    if issubclass(kind, str):  # read, not asked: its own methods are the learner's
        return str.__str__(value)
    if kind in (Fraction, Decimal):
        return _plain_ratio(value)
    if issubclass(kind, dict):
        return {"dict": {str(key): plain(item) for key, item in dict.items(value)}}
    if kind in _TENSORS:
        return _plain_tensor(value)
    if kind is np.ndarray or (isinstance(value, np.generic) and kind.__module__ == "numpy"):
        return _plain_array(np.asarray(value))
    if isinstance(value, torch.dtype):
        return {"dtype": str(value)}
    return {"object": kind.__name__}


def _plain_ratio(value: Fraction | Decimal) -> int | float:
    number = float(value)
    return int(value) if number.is_integer() else number


def _plain_tensor(tensor: torch.Tensor) -> dict[str, Any]:
    shape = list(tensor.shape)
    data = {
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "shape": shape,
        "requires_grad": bool(tensor.requires_grad),
    }
    if np.prod(shape, dtype=float) > MAX_ELEMENTS:
        return data | {"values": None, "too_large": True}
    detached = _cpu(_detach(tensor))
    exact = _double(detached) if detached.is_floating_point() else detached
    return data | {"values": _tolist(exact)}


def _plain_array(array: np.ndarray) -> Any:
    data = {"dtype": array.dtype.name, "shape": list(array.shape), "requires_grad": False}
    if array.size > MAX_ELEMENTS:
        return data | {"values": None, "too_large": True}
    if array.dtype.kind == "U":  # text, as `numpy.where` gives it
        return array.tolist()
    if array.dtype.kind not in "fiub":
        return {"object": f"array of {array.dtype}"}
    exact = array.astype(np.float64) if array.dtype.kind == "f" else array
    return data | {"values": exact.tolist()}


def observe(function: Any, *args: Any) -> dict[str, Any]:
    """Call a learner's function on copies of ``args`` and describe what happens.

    Returns:
        ``{"value": plain result}``, ``{"unattempted": True}`` if it is still the stub, or
        ``{"error": …}`` as `describe_error` gives it. If the call changed one of its arguments,
        the first case also holds ``"changed": index of the argument``.
    """
    if function is ...:
        return UNATTEMPTED
    given = copy.deepcopy(args)
    before = as_json([plain(arg) for arg in given])
    try:
        result = function(*given)
        seen: dict[str, Any] = {"value": plain(result)}
    except NotImplementedError:
        return UNATTEMPTED
    except Exception as error:
        return {"error": describe_error(error)}
    except SystemExit as error:
        return {"error": describe_error(error)}
    if seen["value"] == UNATTEMPTED:
        return UNATTEMPTED
    after = as_json([plain(arg) for arg in given])
    if after != before:
        seen["changed"] = next(
            i for i, arg in enumerate(given) if as_json(plain(arg)) != as_json(plain(args[i]))
        )
    return seen


def by_name(names: Iterable[str], answers: Sequence[Any]) -> dict[str, Any]:
    """The answers of a check that takes several, by name. Raises TypeError if one is missing."""
    names = list(names)
    if len(answers) != len(names):
        raise TypeError(
            f"this check takes {len(names)} functions ({', '.join(names)}), got {len(answers)}"
        )
    return dict(zip(names, answers, strict=True))


def as_json(data: Any) -> str:
    """The one text form of plain data; raises TypeError or ValueError for anything else."""
    return json.dumps(data, sort_keys=True)


def describe_error(error: BaseException) -> dict[str, Any]:
    """A learner's exception as plain data, placed at the learner's own line.

    Returns:
        ``type``, ``message``, and, if one of the frames is the learner's, ``line`` (its number in
        the cell), ``source`` (its text) and ``function``.
    """
    try:
        message = str(error)
    except Exception:
        message = ""
    data: dict[str, Any] = {"type": type(error).__name__, "message": message[:500]}
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_learners(frame.filename)]
    if own:
        data |= {"line": own[-1].lineno, "source": own[-1].line or "", "function": own[-1].name}
    return data


def _is_learners(filename: str) -> bool:
    """Whether a frame is the learner's: not this package, not a library, not Python itself."""
    path = Path(filename)
    if PACKAGE in path.parents or "site-packages" in path.parts or filename.startswith("<frozen"):
        return False
    return Path(json.__file__).resolve().parent.parent not in path.resolve().parents


Probe = Callable[..., Any]
