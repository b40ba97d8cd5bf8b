"""``--input input_ids=2,16:int64<50257``: an input's name, shape, dtype and bound in one word.

Tensors of floating point have no data, for a trace needs none; where a run on real numbers is asked
for, they hold random ones. Whole numbers always have values, for models look at them: random ones
below the bound, and 1 in a mask. bool is True.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from amp_lessons.amp.loading.model_spec import LoadError

FORMS = "write it as 32,64 or as input_ids=8,128:int64"
SHORT = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}
DEFAULT_BOUND = 2
"""Whole numbers with no bound are 0 and 1: ids that every vocabulary has."""
MOST_VALUES = 2**22
"""Whole numbers in one input. More than these have no values, unless a real run is asked for."""

_PARTS = re.compile(
    r"(?:(?P<name>[A-Za-z_][\w.]*)=)?(?P<sizes>[^:<=]*)(?::(?P<dtype>[^<]*))?(?:<(?P<below>.*))?"
)


@dataclass(frozen=True)
class Spec:
    """One input in words.

    Attributes:
        shape: its sizes; () for a single number.
        dtype: float32 unless it was named.
        name: of a keyword input; "" for a positional one.
        below: whole numbers are smaller than this; None where no bound was given.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    name: str = ""
    below: int | None = None

    def tensor(self, real: bool = False) -> Tensor:
        """The input, with random numbers or on the meta device. Raises `LoadError`."""
        whole = not (self.dtype.is_floating_point or self.dtype.is_complex)
        try:
            empty = self.empty()
            return self._numbers() if real or (whole and empty.numel() <= MOST_VALUES) else empty
        except (RuntimeError, MemoryError):  # more than this machine has
            raise LoadError(f"--input {self}: there is no room for its numbers") from None

    def empty(self) -> Tensor:
        """The input on the meta device. Raises `LoadError` for more bytes than an int64 holds."""
        try:
            return torch.empty(self.shape, dtype=self.dtype, device="meta")
        except (RuntimeError, TypeError):
            raise LoadError(f"--input {self}: no tensor can be that large") from None

    def _numbers(self) -> Tensor:
        drawn = torch.Generator().manual_seed(0)
        if self.dtype.is_floating_point or self.dtype.is_complex:
            return torch.randn(self.shape, generator=drawn).to(self.dtype)
        if self.dtype == torch.bool or (self.below is None and "mask" in self.name):
            return torch.ones(self.shape, dtype=self.dtype)
        below = self.below or DEFAULT_BOUND
        numbers = torch.randint(0, below, self.shape, generator=drawn).to(self.dtype)
        if self.below is not None and numbers.numel():
            numbers.view(-1)[0] = below - 1  # the largest is there, so a table too short is found
        return numbers

    def __str__(self) -> str:
        sizes = ",".join(map(str, self.shape)) or "()"
        dtype = "" if self.dtype == torch.float32 else f":{str(self.dtype).partition('.')[2]}"
        below = "" if self.below is None else f"<{self.below}"
        return f"{self.name + '=' if self.name else ''}{sizes}{dtype}{below}"


def parse(text: str) -> Spec:
    """ "input_ids=2,16:int64<50257" as a `Spec`. Raises `LoadError`."""
    found = _PARTS.fullmatch(text.strip())
    if found is None:
        raise LoadError(f"--input {text}: {FORMS}")
    dtype = _dtype(text, found["dtype"])
    return Spec(
        _shape(text, found["sizes"]), dtype, found["name"] or "", _bound(text, dtype, found)
    )


def parse_all(texts: Iterable[str]) -> tuple[Spec, ...]:
    """Each text as a `Spec`. Raises `LoadError`, also for a name that comes twice."""
    specs = tuple(map(parse, texts))
    for spec in specs:
        spec.empty()  # before anything is built that takes time
    names = [spec.name for spec in specs if spec.name]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise LoadError(f"--input {twice}=… is given twice; give it once")
    return specs


def nested(named: Mapping[str, Any]) -> dict[str, Any]:
    """``{"cond.text": t}`` as ``{"cond": {"text": t}}``: an input that is a dict of tensors."""
    result: dict[str, Any] = {}
    for name, value in named.items():
        *outer, last = name.split(".")
        inside = result
        for part in outer:
            inside = inside.setdefault(part, {})
        inside[last] = value
    return result


def _dtype(text: str, name: str | None) -> torch.dtype:
    name = "float32" if name is None else name.strip().removeprefix("torch.")
    dtype = getattr(torch, SHORT.get(name, name or "float32"), None)
    if not isinstance(dtype, torch.dtype):
        raise LoadError(f"--input {text}: {name!r} is not a dtype; try float32, int64 or bool")
    return dtype


def _shape(text: str, sizes: str) -> tuple[int, ...]:
    inner = sizes.strip()
    if inner == "()":
        return ()
    try:
        shape = tuple(int(size) for size in re.split(r"[,x]", inner.strip("()[] ,")))
    except ValueError:
        raise LoadError(f"--input {text}: write a shape as 32,64 or as 8,128:int64") from None
    if min(shape) < 0:
        raise LoadError(f"--input {text}: a size can't be negative; write a shape as 32,64")
    return shape


def _bound(text: str, dtype: torch.dtype, found: re.Match[str]) -> int | None:
    if found["below"] is None:
        return None
    if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool:
        raise LoadError(
            f"--input {text}: a bound is for whole numbers; write 2,16:int64<{found['below']}"
        )
    try:
        below = int(found["below"])
    except ValueError:
        below = 0
    if below < 1:
        raise LoadError(f"--input {text}: the bound after < is a whole number above 0")
    return below
