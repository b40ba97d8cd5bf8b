"""Floating-point formats: what the bits mean, and what rounding to fewer of them does.

One class, `Format`, describes any (exponent, mantissa) layout that fits in a float64. The formats
of the course are instances of it: FP32, TF32, FP16, BF16, FP8_E4M3, FP8_E5M2. The arithmetic here
is ours and not torch's, so that a lesson can show each step; the tests compare it with torch and
ml_dtypes over every bit pattern. Pictures live in `plots`, and the bit explorer in `widgets`.

Sources: IEEE 754-2019 (binary16, binary32); the OCP 8-bit Floating Point Specification, revision
1.0 (E4M3, E5M2); the NVIDIA A100 white paper (TF32).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

Kind = Literal["zero", "subnormal", "normal", "inf", "nan"]

# Rounding goes over a block at a time, so that its half-dozen passes stay in the cache.
_BLOCK = 1 << 16


class Fields(NamedTuple):
    """The three fields of one number, as unsigned integers, and what they stand for."""

    sign: int
    exponent: int
    mantissa: int
    kind: Kind


@dataclass(frozen=True)
class _Carrier:
    """The IEEE type in which the rounding of another format is computed."""

    float: type[np.floating]
    int: type[np.signedinteger]
    exponent_bits: int
    mantissa_bits: int

    @property
    def bias(self) -> int:
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def exponent_mask(self) -> int:
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits


_F32 = _Carrier(np.float32, np.int32, 8, 23)
_F64 = _Carrier(np.float64, np.int64, 11, 52)


@dataclass(frozen=True)
class Format:
    """A binary floating-point format: one sign bit, then exponent, then mantissa.

    Args:
        name: what learners call it, such as ``"FP16"``.
        exponent_bits: 2 to 11.
        mantissa_bits: stored bits of the mantissa, 1 to 52 (the leading 1 is not stored).
        has_inf: True for the IEEE layout, in which the top exponent means inf and NaN. False for
            the "fn" layout of E4M3, in which the top exponent holds ordinary numbers and only
            the pattern of all ones is NaN.

    Raises:
        ValueError: if the widths do not fit in a float64.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    has_inf: bool = True

    def __post_init__(self) -> None:
        if not 2 <= self.exponent_bits <= 11:
            raise ValueError(
                f"{self.name}: exponent_bits must be 2 to 11, got {self.exponent_bits}"
            )
        if not 1 <= self.mantissa_bits <= 52:
            raise ValueError(
                f"{self.name}: mantissa_bits must be 1 to 52, got {self.mantissa_bits}"
            )

    # ---- sizes and limits -------------------------------------------------------------------

    @property
    def bits(self) -> int:
        """Width in bits, the sign included. (TF32 has 19, though memory holds it in 32.)"""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def bias(self) -> int:
        """What is subtracted from the stored exponent."""
        return (1 << (self.exponent_bits - 1)) - 1

    @property
    def min_exponent(self) -> int:
        """Exponent of the smallest normal number; subnormals share it."""
        return 1 - self.bias

    @property
    def max_exponent(self) -> int:
        """Exponent of the largest finite number."""
        return (1 << self.exponent_bits) - 1 - self.bias - (1 if self.has_inf else 0)

    @property
    def max(self) -> float:
        """Largest finite number."""
        top = 2 - 2.0**-self.mantissa_bits * (1 if self.has_inf else 2)
        return math.ldexp(top, self.max_exponent)

    @property
    def min_normal(self) -> float:
        """Smallest positive number with full precision."""
        return math.ldexp(1.0, self.min_exponent)

    @property
    def min_subnormal(self) -> float:
        """Smallest positive number."""
        return math.ldexp(1.0, self.min_exponent - self.mantissa_bits)

    @property
    def eps(self) -> float:
        """Distance from 1.0 to the next larger number: ``ulp(1.0)``."""
        return math.ldexp(1.0, -self.mantissa_bits)

    @property
    def _sign_bit(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def _exponent_ones(self) -> int:
        return (1 << self.exponent_bits) - 1

    @property
    def _max_code(self) -> int:
        """Bit pattern of `max`."""
        full = self._sign_bit - 1
        return full - (1 << self.mantissa_bits) if self.has_inf else full - 1

    @property
    def _nan_code(self) -> int:
        """Bit pattern of the quiet NaN that `encode` gives."""
        if not self.has_inf:
            return self._sign_bit - 1
        return (self._exponent_ones << self.mantissa_bits) | (1 << (self.mantissa_bits - 1))

    @property
    def code_dtype(self) -> np.dtype:
        """The smallest unsigned integer type that holds a bit pattern."""
        return np.dtype(np.min_scalar_type((1 << self.bits) - 1))

    # ---- bits to numbers --------------------------------------------------------------------

    def fields(self, code: int) -> Fields:
        """Split a bit pattern into sign, exponent and mantissa.

        Args:
            code: the bit pattern, 0 to ``2**bits - 1``.

        Raises:
            ValueError: if the pattern has more bits than the format.
        """
        code = self._checked_codes(code)
        sign = code >> (self.bits - 1)
        exponent = (code >> self.mantissa_bits) & self._exponent_ones
        mantissa = code & ((1 << self.mantissa_bits) - 1)
        return Fields(sign, exponent, mantissa, self._kind(exponent, mantissa))

    def _kind(self, exponent: int, mantissa: int) -> Kind:
        if exponent == 0:
            return "subnormal" if mantissa else "zero"
        if exponent == self._exponent_ones:
            if self.has_inf:
                return "nan" if mantissa else "inf"
            if mantissa == (1 << self.mantissa_bits) - 1:
                return "nan"
        return "normal"

    def decode(self, codes: Any) -> Any:
        """The exact value of a bit pattern.

        Args:
            codes: an int, or an array or tensor of integers of any shape.

        Returns:
            A float, or a float64 array (tensor for a tensor) of the same shape. Every value of
            every format here is exact in float64.

        Raises:
            ValueError: if a pattern has more bits than the format.
        """
        if isinstance(codes, int | np.integer):
            return float(self._decode_array(np.array([self._checked_codes(int(codes))]))[0])
        return _apply(self._decode_array, codes)

    def _decode_array(self, codes: np.ndarray) -> np.ndarray:
        codes = self._checked_codes(codes).astype(np.int64)
        magnitude = codes & (self._sign_bit - 1)
        # Put the mantissa where float64 has its own. The float64 that results has our number's
        # exponent field, so only the difference of the two biases is left to multiply by; our
        # subnormals become float64's subnormals on the way, and stay exact.
        aligned = (magnitude << (_F64.mantissa_bits - self.mantissa_bits)).view(np.float64)
        with np.errstate(all="ignore"):  # inf and NaN patterns are put right below
            value = np.ldexp(aligned, _F64.bias - self.bias)
        if self.has_inf:
            infinity = self._exponent_ones << self.mantissa_bits
            value[magnitude == infinity] = np.inf
            value[magnitude > infinity] = np.nan
        else:
            value[magnitude == self._nan_code] = np.nan
        return np.where((codes >> (self.bits - 1)) & 1, -value, value)

    def _checked_codes(self, codes: Any) -> Any:
        low, high = (codes, codes) if isinstance(codes, int) else _limits(codes)
        if low < 0 or high >= 1 << self.bits:
            bad = low if low < 0 else high
            raise ValueError(f"{bad} is not a bit pattern of {self.name}: it has {self.bits} bits")
        return codes

    # ---- numbers to bits --------------------------------------------------------------------

    def round(self, values: Any, *, saturate: bool = False, out: Any = None) -> Any:
        """The nearest number of this format, ties to the even mantissa.

        Args:
            values: a number, or a float array or CPU tensor of any shape. (A Python number is
                taken as a float64, an integer array too.)
            saturate: what lies beyond `max` becomes `max` with its sign, infinities included.
                By default it follows the format's own rule: inf where the format has it, else
                NaN (the two modes of the OCP FP8 specification). torch 2.13 casts to E4M3 with
                saturation, ml_dtypes without.
            out: an array or tensor like ``values`` to write into.

        Returns:
            A float, or an array or tensor with the dtype and shape of ``values``. NaN stays NaN,
            and a negative number that rounds to zero gives -0.0.
        """
        if isinstance(values, bool | int | float):
            return float(self._round_array(np.array([float(values)]), saturate)[0])
        native = self._native_dtype(values)
        if native is not None and not saturate:
            rounded = values.to(native)
            return rounded.to(values.dtype) if out is None else out.copy_(rounded)
        if out is None:
            return _apply(lambda a: self._round_array(a, saturate), values)
        self._round_array(_as_array(values), saturate, _as_array(out))
        return out

    def _native_dtype(self, values: Any) -> Any:
        """torch's own dtype for this format, if ``values`` is a tensor that it can cast."""
        if not _is_tensor(values) or not values.is_floating_point():
            return None
        import torch

        native = {FP16: torch.float16, BF16: torch.bfloat16, FP8_E5M2: torch.float8_e5m2}
        return native.get(self)

    def _round_array(
        self, values: np.ndarray, saturate: bool, out: np.ndarray | None = None
    ) -> np.ndarray:
        """`round` for an array, in NumPy alone."""
        values = np.asarray(values)
        if values.dtype not in (np.float16, np.float32, np.float64):
            values = values.astype(np.float64)
        carrier = self._carrier(values.dtype)
        work = np.ascontiguousarray(values, dtype=carrier.float)
        fits = out is not None and out.dtype == work.dtype and out.flags.c_contiguous
        result = out if fits else np.empty_like(work)
        pass_over = (
            self._cut_mantissa if carrier.exponent_bits == self.exponent_bits else self._add_magic
        )
        flat_in, flat_out = work.reshape(-1), result.reshape(-1)
        scratch = np.empty(min(_BLOCK, flat_in.size), dtype=carrier.int)
        with np.errstate(all="ignore"):
            for start in range(0, flat_in.size, _BLOCK):
                block = slice(start, start + _BLOCK)
                part = flat_in[block]
                pass_over(carrier, part, flat_out[block], scratch[: part.size])
                self._overflow(flat_out[block], part, saturate)
        if fits:
            return result
        if out is None:
            return result.astype(values.dtype, copy=False)
        out[...] = result
        return out

    def _carrier(self, dtype: np.dtype) -> _Carrier:
        """The cheapest type in which rounding from ``dtype`` is exact."""
        if dtype == np.float64 or self.exponent_bits > _F32.exponent_bits:
            return _F64
        narrow = self.exponent_bits == _F32.exponent_bits and self.mantissa_bits <= 23
        return _F32 if narrow or self.mantissa_bits <= 21 else _F64

    def _add_magic(
        self, carrier: _Carrier, values: np.ndarray, result: np.ndarray, scratch: np.ndarray
    ) -> None:
        """Round by adding and subtracting a number whose ulp is this format's ulp at ``values``.

        For a value in [2**e, 2**(e+1)) the sum with 1.5 * 2**(e + drop) has `mantissa_bits` bits
        left below the value's leading bit, so the hardware's own round-to-nearest-even does the
        work. Below the smallest normal number e stands still: those are the subnormals. Above
        the largest it may stand still too: there `_overflow` decides.
        """
        drop = carrier.mantissa_bits - self.mantissa_bits
        smallest = (self.min_exponent + carrier.bias) << carrier.mantissa_bits
        largest = (self.max_exponent + 1 + carrier.bias) << carrier.mantissa_bits
        to_magic = (drop << carrier.mantissa_bits) | (1 << (carrier.mantissa_bits - 1))
        np.bitwise_and(values.view(carrier.int), carrier.int(carrier.exponent_mask), out=scratch)
        np.clip(scratch, carrier.int(smallest), carrier.int(largest), out=scratch)
        np.add(scratch, carrier.int(to_magic), out=scratch)
        magic = scratch.view(carrier.float)
        np.add(values, magic, out=result)
        np.subtract(result, magic, out=result)
        np.copysign(result, values, out=result)

    def _cut_mantissa(
        self, carrier: _Carrier, values: np.ndarray, result: np.ndarray, scratch: np.ndarray
    ) -> None:
        """Round by integer arithmetic on the bits, where carrier and format share the exponent.

        Adding half of the last kept bit (less one, plus that bit itself) carries into it exactly
        when round-to-nearest-even says so, and a carry past the top gives the pattern of inf.
        """
        drop = carrier.mantissa_bits - self.mantissa_bits
        if drop == 0:
            result[...] = values
            return
        bits, codes = values.view(carrier.int), result.view(carrier.int)
        np.right_shift(bits, carrier.int(drop), out=scratch)
        np.bitwise_and(scratch, carrier.int(1), out=scratch)
        np.add(scratch, carrier.int((1 << (drop - 1)) - 1), out=scratch)
        np.add(scratch, bits, out=scratch)
        nan = np.isnan(values)
        np.bitwise_and(scratch, carrier.int(-(1 << drop)), out=codes)
        result[nan] = np.nan

    def _overflow(self, result: np.ndarray, values: np.ndarray, saturate: bool) -> None:
        """Apply the overflow rule to what was rounded with an unlimited exponent."""
        if saturate:
            np.clip(result, -self.max, self.max, out=result)
            return
        beyond = np.abs(result) > result.dtype.type(self.max)
        if beyond.any():
            rule = np.inf if self.has_inf else np.nan
            result[beyond] = np.copysign(rule, values[beyond])

    def encode(self, values: Any, *, saturate: bool = False) -> Any:
        """The bit pattern of the nearest number of this format.

        Args:
            values: as for `round`.
            saturate: as for `round`.

        Returns:
            An int, or an array of `code_dtype` (for a tensor, a tensor of int64) of the same
            shape. A NaN gives the format's quiet NaN.
        """
        if isinstance(values, bool | int | float):
            return int(self._encode_array(np.array([float(values)]), saturate)[0])
        if _is_tensor(values):
            return _apply(lambda a: self._encode_array(a, saturate).astype(np.int64), values)
        return _apply(lambda a: self._encode_array(a, saturate), values)

    def _encode_array(self, values: np.ndarray, saturate: bool) -> np.ndarray:
        rounded = self._round_array(values, saturate)
        codes = np.empty(rounded.shape, dtype=self.code_dtype)
        flat_in, flat_out = rounded.reshape(-1), codes.reshape(-1)
        for start in range(0, flat_in.size, _BLOCK):
            block = slice(start, start + _BLOCK)
            flat_out[block] = self._codes_of(flat_in[block].astype(np.float64))
        return codes

    def _codes_of(self, rounded: np.ndarray) -> np.ndarray:
        """Bit patterns, as int64, of float64 numbers that this format has."""
        with np.errstate(all="ignore"):
            # The way back from `_decode_array`: make the biases agree, then keep the top bits.
            aligned = np.ldexp(np.abs(rounded), self.bias - _F64.bias)
        codes = aligned.view(np.int64) >> (_F64.mantissa_bits - self.mantissa_bits)
        codes[np.isinf(rounded)] = self._exponent_ones << self.mantissa_bits
        codes[np.isnan(rounded)] = self._nan_code
        # As two's complement, so that the sign of a 64-bit format has a place in int64.
        codes |= np.where(np.signbit(rounded), -(1 << (self.bits - 1)), 0)
        return codes & (-1 if self.bits == 64 else (1 << self.bits) - 1)

    # ---- the numbers around a number ----------------------------------------------------------

    def ulp(self, value: float) -> float:
        """Distance between neighbouring numbers of this format at ``value``.

        As `math.ulp`: the value of the last bit of the number that ``value`` rounds to, inf for
        an infinity, NaN for NaN. The smallest answer is `min_subnormal`, which holds all through
        the subnormals and zero.
        """
        nearest = abs(self.round(value))
        if math.isnan(nearest) or math.isinf(nearest):
            return nearest
        _, exponent = math.frexp(nearest)  # nearest = m * 2**exponent with m in [0.5, 1)
        exponent = max(exponent - 1, self.min_exponent) if nearest else self.min_exponent
        return math.ldexp(1.0, exponent - self.mantissa_bits)

    def next_up(self, value: float) -> float:
        """The smallest number of this format that is larger than ``value``.

        Above `max` comes inf, or NaN in a format without it. NaN gives NaN.
        """
        if math.isnan(value) or value == math.inf:
            return value
        if abs(value) > self.max:  # between max and infinity nothing is left to find
            beyond = math.inf if self.has_inf else math.nan
            return beyond if value > 0 else -self.max
        nearest = self.round(value)
        if nearest > value:
            return nearest
        if nearest == 0.0:
            return self.min_subnormal
        step = 1 if nearest > 0 else -1
        code = self.encode(nearest) + step
        return self.decode(code)

    def next_down(self, value: float) -> float:
        """The largest number of this format that is smaller than ``value``."""
        return -self.next_up(-value)

    def neighbours(self, value: float) -> tuple[float, float]:
        """The nearest numbers strictly below and strictly above ``value``."""
        return self.next_down(value), self.next_up(value)

    def bit_string(self, code: int) -> str:
        """The bits of a pattern, fields apart: ``"0 01111 0000000000"`` for 1.0 in FP16."""
        sign, exponent, mantissa, _ = self.fields(code)
        return f"{sign} {exponent:0{self.exponent_bits}b} {mantissa:0{self.mantissa_bits}b}"


FP32 = Format("FP32", exponent_bits=8, mantissa_bits=23)
TF32 = Format("TF32", exponent_bits=8, mantissa_bits=10)
FP16 = Format("FP16", exponent_bits=5, mantissa_bits=10)
BF16 = Format("BF16", exponent_bits=8, mantissa_bits=7)
FP8_E4M3 = Format("FP8 E4M3", exponent_bits=4, mantissa_bits=3, has_inf=False)
FP8_E5M2 = Format("FP8 E5M2", exponent_bits=5, mantissa_bits=2)

FORMATS: dict[str, Format] = {
    f.name: f for f in (FP32, TF32, FP16, BF16, FP8_E4M3, FP8_E5M2)
}  # from wide to narrow, the order in which lessons list them


def get_format(name: Any) -> Format:
    """Look a format up by its name or by a torch or NumPy dtype.

    Args:
        name: ``"FP16"`` (case, spaces, ``-`` and ``_`` do not matter; ``"float16"`` and
            ``"half"`` work too), ``torch.float16``, ``np.float16``.

    Raises:
        ValueError: if there is no such format; the message lists those that there are.
    """
    key = str(name.__name__ if isinstance(name, type) else name).removeprefix("torch.")
    key = "".join(c for c in key.lower() if c.isalnum())
    for format in FORMATS.values():
        if key == "".join(c for c in format.name.lower() if c.isalnum()):
            return format
    if key in _ALIASES:
        return _ALIASES[key]
    raise ValueError(f"no format called {name!r}; there are {', '.join(FORMATS)}")


_ALIASES: dict[str, Format] = {
    "float32": FP32,
    "float": FP32,
    "float16": FP16,
    "half": FP16,
    "bfloat16": BF16,
    "float8e4m3fn": FP8_E4M3,
    "float8e4m3": FP8_E4M3,
    "e4m3": FP8_E4M3,
    "float8e5m2": FP8_E5M2,
    "e5m2": FP8_E5M2,
}


def _is_tensor(values: Any) -> bool:
    return type(values).__module__.partition(".")[0] == "torch"


def _limits(codes: Any) -> tuple[int, int]:
    codes = np.asarray(codes)
    if codes.dtype.kind not in "iu":
        raise ValueError(f"bit patterns are integers, got an array of {codes.dtype}")
    return (int(codes.min()), int(codes.max())) if codes.size else (0, 0)


def _as_array(values: Any) -> np.ndarray:
    """A NumPy view of an array, sequence or tensor (bfloat16, which NumPy lacks, as float32)."""
    if not _is_tensor(values):
        return np.asarray(values)
    tensor = values.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def _apply(function: Callable[[np.ndarray], np.ndarray], values: Any) -> Any:
    """Run an array function on an array, a sequence or a tensor; give back the same kind."""
    array = _as_array(values)
    result = function(np.atleast_1d(array)).reshape(array.shape)
    if not _is_tensor(values):
        return result
    import torch

    result = torch.from_numpy(result)
    keeps_dtype = values.is_floating_point() and result.is_floating_point()
    return result.to(device=values.device, dtype=values.dtype if keeps_dtype else result.dtype)
