"""What loss scaling does to the gradients: who is saved, and who overflows.

Everything is counted with `formats`, never estimated, so a picture drawn from these numbers is
as exact as the format itself. How GradScaler finds its scale is watched and simulated in
`scaler_log`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Real

import numpy as np
import torch
from torch import Tensor

from amp_lessons.amp.numbers.formats import FP16, Format, get_format


@dataclass(frozen=True)
class ExponentHistogram:
    """How many numbers have which binary exponent.

    Attributes:
        exponents: consecutive integers e, ascending.
        counts: how many numbers have a magnitude in [2**e, 2**(e+1)).
        zeros: how many are exactly zero and have no exponent.
    """

    exponents: tuple[int, ...]
    counts: tuple[int, ...]
    zeros: int

    @property
    def total(self) -> int:
        return sum(self.counts) + self.zeros


@dataclass(frozen=True)
class Fate:
    """What becomes of a set of numbers when they are scaled and stored in a format.

    Attributes:
        scale: what they were multiplied by.
        zero: non-zero numbers that become zero: what underflow loses.
        subnormal: numbers that survive with fewer mantissa bits than the format has.
        normal: numbers that survive in full.
        overflow: finite numbers that become inf (NaN in a format without inf).
    """

    scale: float
    zero: int
    subnormal: int
    normal: int
    overflow: int


def _magnitudes(tensors: Tensor | Iterable[Tensor]) -> np.ndarray:
    """Finite magnitudes of one tensor or several, in one float64 array.

    None is left out, for it is the gradient of a parameter that is frozen.

    Raises:
        TypeError: for what isn't a real tensor. ValueError: for one on the meta device.
    """
    several = [tensors] if isinstance(tensors, Tensor) else tensors
    if not isinstance(several, Iterable):
        raise TypeError(f"give a tensor or several, not {type(tensors).__name__}")
    flat = [_flat_magnitudes(tensor) for tensor in several if tensor is not None]
    if not flat:
        return np.empty(0)
    joined = torch.cat(flat)
    return joined[torch.isfinite(joined)].numpy()


def _flat_magnitudes(tensor: Tensor) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"give tensors, not {type(tensor).__name__}; torch.as_tensor makes one")
    if tensor.is_complex():
        raise TypeError("a complex tensor has no one exponent; torch.view_as_real makes it two")
    if tensor.is_meta:
        raise ValueError("a tensor on the meta device has no numbers to look at")
    dense = tensor.detach() if tensor.layout is torch.strided else tensor.detach().to_dense()
    # To the CPU first: Apple's GPUs have no float64.
    return dense.cpu().double().abs().reshape(-1)


def exponent_histogram(tensors: Tensor | Iterable[Tensor]) -> ExponentHistogram:
    """Count numbers by their binary exponent, floor(log2 |x|).

    Args:
        tensors: one tensor or several, any float dtype and shape. Infinities and NaN are left out.
    """
    magnitudes = _magnitudes(tensors)
    positive = magnitudes[magnitudes > 0]
    zeros = int(magnitudes.size - positive.size)
    if positive.size == 0:
        return ExponentHistogram((), (), zeros)
    exponents = np.frexp(positive)[1] - 1  # x = m * 2**e with m in [0.5, 1)
    low, high = int(exponents.min()), int(exponents.max())
    counts = np.bincount(exponents - low, minlength=high - low + 1)
    return ExponentHistogram(tuple(range(low, high + 1)), tuple(counts.tolist()), zeros)


def fate(tensors: Tensor | Iterable[Tensor], scale: float = 1.0, format: Format = FP16) -> Fate:
    """Count what becomes of numbers that are multiplied by ``scale`` and rounded to ``format``.

    Args:
        tensors: one tensor or several, any float dtype and shape. Zeros, infinities and NaN are
            left out: no scale changes what becomes of them.
        scale: positive.
        format: where they are stored.

    Raises:
        ValueError: if the scale is not a positive finite number.
    """
    _check_scale(scale)
    magnitudes = _magnitudes(tensors)
    magnitudes = magnitudes[magnitudes > 0]
    format = get_format(format)
    with np.errstate(over="ignore"):
        stored = format.round(magnitudes * scale)
    zero = int((stored == 0).sum())
    overflow = int((~np.isfinite(stored)).sum())
    subnormal = int(((stored > 0) & (stored < format.min_normal)).sum())
    return Fate(scale, zero, subnormal, magnitudes.size - zero - overflow - subnormal, overflow)


def fates(
    tensors: Tensor | Iterable[Tensor], scales: Iterable[float], format: Format = FP16
) -> list[Fate]:
    """`fate` for many scales at once: a million numbers and forty scales in a tenth of a second.

    Rounding never changes the order of two numbers. So among sorted numbers those that share a
    fate stand together, and bisection finds where each run ends, with the format itself as judge.

    Args:
        tensors, format: as for `fate`.
        scales: positive.

    Raises:
        ValueError: if a scale is not a positive finite number.
    """
    magnitudes = _magnitudes(tensors)
    ordered = np.sort(magnitudes[magnitudes > 0])
    format = get_format(format)
    chosen = list(scales)
    for factor in chosen:
        _check_scale(factor)
    factors = np.array(chosen, dtype=np.float64)
    zero = _run_length(ordered, factors, format, lambda stored: stored == 0)
    below_normal = _run_length(ordered, factors, format, lambda stored: stored < format.min_normal)
    finite = _run_length(ordered, factors, format, np.isfinite)
    return [
        Fate(s, int(z), int(b - z), int(f - b), int(ordered.size - f))
        for s, z, b, f in zip(factors.tolist(), zero, below_normal, finite, strict=True)
    ]


def _check_scale(scale: float) -> None:
    if isinstance(scale, bool) or not isinstance(scale, Real):
        raise TypeError(f"scale must be a number, got {type(scale).__name__}")
    if not 0 < scale < math.inf:
        raise ValueError(f"scale must be a positive finite number, got {scale}")


def _run_length(
    ordered: np.ndarray,
    factors: np.ndarray,
    format: Format,
    belongs: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """How many of the smallest numbers belong together, for each factor: an array of ints."""
    low = np.zeros(factors.size, dtype=np.int64)
    high = np.full(factors.size, ordered.size)
    while (low < high).any():
        middle = (low + high) // 2
        # A search that has ended may stand behind the last number: any index does for it.
        probe = ordered[np.minimum(middle, ordered.size - 1)]
        with np.errstate(over="ignore"):
            inside = belongs(format.round(probe * factors))
        searching = low < high
        low = np.where(searching & inside, middle + 1, low)
        high = np.where(searching & ~inside, middle, high)
    return low


def smallest_safe_scale(tensors: Tensor | Iterable[Tensor], format: Format = FP16) -> float:
    """The smallest power of two that keeps every non-zero number from rounding to zero.

    Returns:
        The scale, a float; 1.0 if nothing would be lost without one. inf if a float64 cannot
        hold it, which takes numbers smaller than float32 has.

    Raises:
        ValueError: if there is no number to save: none that is finite and not zero.
    """
    magnitudes = _magnitudes(tensors)
    magnitudes = magnitudes[magnitudes > 0]
    if magnitudes.size == 0:
        raise ValueError("no number is finite and not zero: no scale can bring one back")
    smallest, format = float(magnitudes.min()), get_format(format)
    scale = 1.0
    while format.round(smallest * scale) == 0:
        scale *= 2
    return scale
