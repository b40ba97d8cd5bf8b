"""Any object as plain data: numbers, text, lists and dicts, and nothing that has a will of its own.

Values are read by type and never asked what they are, so an object that claims to equal everything
claims it in vain.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import torch

UNATTEMPTED = {"unattempted": True}
"""What ``...`` becomes: a part of an answer that nobody has written yet."""
MAX_ELEMENTS = 100_000
"""Of one tensor."""
MAX_ITEMS = 20_000
"""Of one value, counting the items of all the lists and dicts in it."""
MAX_DEPTH = 50
"""How deep lists and dicts may be nested."""

_LARGEST = sys.float_info.max
_CLASS_NAME = type.__dict__["__name__"]

# Bound once, before any learner's code runs.
_dumps = json.dumps
_tolist, _detach, _cpu, _double = (
    torch.Tensor.tolist,
    torch.Tensor.detach,
    torch.Tensor.cpu,
    torch.Tensor.double,
)
_TENSORS = (torch.Tensor, torch.nn.Parameter)


def plain(value: Any) -> Any:
    """Describe a value in JSON's types. Whatever the value is, this ends, and JSON can write it.

    Returns:
        None, bool, int, float and str as they are, a subclass of str, such as a member of a
        `StrEnum`, as str; a `Fraction` or `Decimal` as a float, or an int if it is whole; a list or
        tuple as a list; a dict of any kind with text keys as ``{"dict": …}``; a tensor or array as
        ``{"values": nested list, "dtype": name, "shape": list, "requires_grad": bool}``, an array
        of text as text or a list; ``...`` as ``{"unattempted": True}``; anything else as
        ``{"object": class name}``, with the reason under ``"what"`` if the class alone does not
        explain it, as for a number that is too large for a float.
    """
    try:
        return _Description().of(value)
    except _TooLarge:
        name = name_of(type(value))
        return {"object": name, "what": f"a {name} with more than {MAX_ITEMS:,} items in it"}


class _TooLarge(Exception):
    """A value holds more items than anyone needs to see."""


class _Description:
    """The description of one value. It stops where a list contains itself, or is too deep."""

    def __init__(self) -> None:
        self.open: list[int] = []  # the ids of the containers around the current item
        self.items = 0

    def of(self, value: Any) -> Any:
        kind = type(value)
        if value is None or kind in (bool, float, str):
            return value
        if value is ...:
            return UNATTEMPTED
        if kind is int:
            return _plain_int(value)
        if kind in (list, tuple):
            return self._container(value, lambda: [self.of(item) for item in value])
        if issubclass(kind, str):  # read, not asked: its own methods are the learner's
            return str.__str__(value)
        if kind in (Fraction, Decimal):
            return _plain_ratio(value)
        if issubclass(kind, dict):
            return self._container(value, lambda: {"dict": self._entries(value)})
        if kind in _TENSORS:
            return _plain_tensor(value)
        if kind is np.ndarray or (issubclass(kind, np.generic) and kind.__module__ == "numpy"):
            return _plain_array(np.asarray(value))
        if issubclass(kind, torch.dtype):
            return {"dtype": str(value)}
        return {"object": name_of(kind)}

    def _entries(self, table: dict[Any, Any]) -> dict[str, Any]:
        return {_key(key): self.of(item) for key, item in list(dict.items(table))}

    def _container(self, value: Any, describe: Callable[[], Any]) -> Any:
        name = name_of(type(value))
        self.items += dict.__len__(value) if issubclass(type(value), dict) else len(value)
        if self.items > MAX_ITEMS:
            raise _TooLarge
        if id(value) in self.open:
            return {"object": name, "what": f"a {name} that contains itself"}
        if len(self.open) >= MAX_DEPTH:
            return {"object": name, "what": f"a {name} nested more than {MAX_DEPTH} levels deep"}
        self.open.append(id(value))
        try:
            return describe()
        finally:
            self.open.pop()


def in_words(data: dict[str, Any]) -> str:
    """What to call a value that `plain` describes as an object."""
    return data.get("what") or f"an object of type {data['object']}"


def name_of(kind: type) -> str:
    """The name of a class, whatever its metaclass says."""
    return _CLASS_NAME.__get__(kind)


def _key(key: Any) -> str:
    """A dict's key as text; a key that has no text is named by its class."""
    try:
        return str.__str__(key) if issubclass(type(key), str) else str(key)
    except Exception:  # a number of more than 4,300 digits, or the learner's own `__str__`
        return f"<{name_of(type(key))}>"


def _plain_int(value: int) -> int | dict[str, str]:
    if -_LARGEST <= value <= _LARGEST:
        return value
    digits = int(math.log10(abs(value))) + 1
    what = f"an integer of about {digits:,} digits (too large for a float)"
    return {"object": "int", "what": what}


def _plain_ratio(value: Fraction | Decimal) -> int | float | dict[str, str]:
    name = type(value).__name__
    if isinstance(value, Decimal) and not value.is_finite():
        return math.nan if value.is_nan() else math.copysign(math.inf, value)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        return {"object": name, "what": f"a {name} that is too large for a float"}
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
    if tensor.is_complex():
        return {"object": f"tensor of {data['dtype']}"}
    try:
        detached = _cpu(_detach(tensor))
        exact = _double(detached) if detached.is_floating_point() else detached
        return data | {"values": _tolist(exact)}
    except Exception:  # a tensor without data, or in a layout that has no list
        return {"object": "Tensor", "what": "a tensor whose values cannot be read"}


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


def as_json(data: Any) -> str:
    """The one text form of plain data; raises TypeError or ValueError for anything else."""
    return _dumps(data, sort_keys=True)
