"""Floating-point formats: what the bits mean, and what rounding to fewer of them does.

One class, `Format`, describes any (exponent, mantissa) layout that fits in a float64. The formats
of the course are instances of it: FP32, TF32, FP16, BF16, FP8_E4M3, FP8_E5M2, and the smaller ones
that block-scaled formats are made of: FP6_E2M3, FP6_E3M2, FP4_E2M1. The arithmetic here
is ours and not torch's, so that a lesson can show each step; the tests compare it with torch and
ml_dtypes over every bit pattern of 16 bits and fewer. Only `round` leaves some tensors to torch's
own cast, for speed. Pictures live in `plots`, and the bit explorer in `widgets`.

Sources: IEEE 754-2019 (binary16, binary32); the OCP 8-bit Floating Point Specification, revision
1.0 (E4M3, E5M2); the OCP Microscaling Formats (MX) Specification, version 1.0 (E2M3, E3M2, E2M1);
the NVIDIA A100 white paper (TF32).
"""

from __future__ import annotations

import math
import numbers
import operator
import sys
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

    floating: type[np.floating]
    integer: type[np.signedinteger]
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
        exponent_bits: 2 to 11 (to 10 without inf).
        mantissa_bits: stored bits of the mantissa, 1 to 52 (the leading 1 is not stored).
        has_inf: True for the IEEE layout, in which the top exponent means inf and NaN. False for
            the "fn" layout of E4M3, in which the top exponent holds ordinary numbers and only
            the pattern of all ones is NaN.
        has_nan: False for FP6 and FP4, in which every pattern is a number. Such a format has no inf
            either, so what overflows becomes `max`.

    Raises:
        ValueError: if the widths do not fit in a float64, or there is an inf and no NaN.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    has_inf: bool = True
    has_nan: bool = True

    def __post_init__(self) -> None:
        if not 2 <= self.exponent_bits <= 11:
            raise ValueError(
                f"{self.name}: exponent_bits must be 2 to 11, got {self.exponent_bits}"
            )
        if not 1 <= self.mantissa_bits <= 52:
            raise ValueError(
                f"{self.name}: mantissa_bits must be 1 to 52, got {self.mantissa_bits}"
            )
        if self.exponent_bits == 11 and not self.has_inf:
            raise ValueError(f"{self.name}: without inf, exponent_bits must be 2 to 10, got 11")
        if self.has_inf and not self.has_nan:
            raise ValueError(f"{self.name}: a format without NaN has no inf either")

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
        nan_is_on_top = self.has_nan and not self.has_inf
        top = 2 - 2.0**-self.mantissa_bits * (2 if nan_is_on_top else 1)
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
        if self.has_inf:
            return full - (1 << self.mantissa_bits)
        return full - 1 if self.has_nan else full

    @property
    def _nan_code(self) -> int:
        """Bit pattern that `encode` gives for a NaN: the quiet one, or -0 where there is none."""
        if not self.has_nan:
            return self._sign_bit
        if not self.has_inf:
            return self._sign_bit - 1
        return (self._exponent_ones << self.mantissa_bits) | (1 << (self.mantissa_bits - 1))

    @property
    def code_dtype(self) -> np.dtype:
        """The smallest unsigned integer type that holds a bit pattern."""
        widths = (np.uint8, np.uint16, np.uint32, np.uint64)
        return next(dtype for dtype in map(np.dtype, widths) if self.bits <= 8 * dtype.itemsize)

    # ---- bits to numbers --------------------------------------------------------------------

    def fields(self, code: int) -> Fields:
        """Split a bit pattern into sign, exponent and mantissa.

        Args:
            code: the bit pattern, 0 to ``2**bits - 1``.

        Raises:
            ValueError: if ``code`` is no integer, or has more bits than the format.
        """
        code = self._checked_code(code)
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
            if self.has_nan and mantissa == (1 << self.mantissa_bits) - 1:
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
            ValueError: if a pattern is no integer, or has more bits than the format.
        """
        if isinstance(codes, int | np.integer):
            return float(self._decode_array(np.array([self._checked_code(codes)]))[0])
        return _apply(self._decode_array, codes)

    def _decode_array(self, codes: np.ndarray) -> np.ndarray:
        codes = self._checked_codes(codes).astype(np.int64)
        magnitude = codes & (self._sign_bit - 1)
        # Put the mantissa where float64 has its own. The float64 that results has our number's
        # exponent field, so only the difference of the two biases is left to multiply by; our
        # subnormals become float64's subnormals on the way, and stay exact.
        aligned = (magnitude << (_F64.mantissa_bits - self.mantissa_bits)).view(np.float64)
        with np.errstate(all="ignore"):  # inf and NaN patterns are put right below
            value = aligned * 2.0 ** (_F64.bias - self.bias)
        if self.has_inf:
            infinity = self._exponent_ones << self.mantissa_bits
            value[magnitude == infinity] = np.inf
            value[magnitude > infinity] = np.nan
        elif self.has_nan:
            value[magnitude == self._nan_code] = np.nan
        return np.where((codes >> (self.bits - 1)) & 1, -value, value)

    def _checked_code(self, code: Any) -> int:
        try:
            code = operator.index(code)
        except TypeError:
            raise ValueError(f"a bit pattern is an integer, got {code!r}") from None
        if not 0 <= code < 1 << self.bits:
            raise ValueError(f"{code} is not a bit pattern of {self.name}: it has {self.bits} bits")
        return code

    def _checked_codes(self, codes: np.ndarray) -> np.ndarray:
        if codes.size == 0:
            return codes
        if codes.dtype.kind not in "iu":
            raise ValueError(f"bit patterns are integers, got an array of {codes.dtype}")
        self._checked_code(codes.min())
        self._checked_code(codes.max())
        return codes

    # ---- numbers to bits --------------------------------------------------------------------

    def round(self, values: Any, *, saturate: bool = False, out: Any = None) -> Any:
        """The nearest number of this format, ties to the even mantissa.

        Args:
            values: a number, or a float array or tensor of any shape. Integers, Python's numbers
                and long doubles are taken as float64.
            saturate: what lies beyond `max` becomes `max` with its sign, infinities included.
                By default it follows the format's own rule: inf where the format has it, else
                NaN (the two modes of the OCP FP8 specification). torch 2.13 casts to E4M3 with
                saturation, ml_dtypes without. FP6 and FP4 always saturate.
            out: a float array or tensor with the shape of ``values`` to write into. It may be
                ``values`` itself.

        Returns:
            A float, or an array or tensor with the dtype and shape of ``values`` (float64 for
            integers), detached from autograd; or ``out``. NaN stays NaN, also for FP6 and FP4,
            which cannot store it. A negative number that rounds to zero gives -0.0.

        Raises:
            TypeError: if ``values`` are not real numbers, or ``out`` cannot take the result.
            ValueError: if the shapes of ``out`` and ``values`` differ.
        """
        if out is None and isinstance(values, numbers.Real):
            return float(self._round_array(np.array([float(values)]), saturate)[0])
        if out is not None:
            _check_out(out, values)
        native = self._native_dtype(values)
        if native is not None and not saturate:
            return _store(values.detach().to(native, copy=True), values, out)
        memory = None if out is None else _memory_of(out)
        rounded = self._round_array(_as_array(values), saturate, memory)
        return out if rounded is memory else _store(rounded, values, out)

    def _native_dtype(self, values: Any) -> Any:
        """torch's own dtype for this format, if ``values`` is a tensor that torch casts rightly.

        torch 2.13 casts a float64 by way of float32, on the CPU at least. That rounds twice, and
        a number just above a tie can end below it.
        """
        if not _is_tensor(values) or not values.is_floating_point():
            return None
        import torch

        if values.dtype == torch.float64:
            return None
        native = {FP16: torch.float16, BF16: torch.bfloat16, FP8_E5M2: torch.float8_e5m2}
        return native.get(self)

    def _round_array(
        self, values: np.ndarray, saturate: bool, out: np.ndarray | None = None
    ) -> np.ndarray:
        """`round` for an array, in NumPy alone. The result is float32 or float64.

        It is ``out`` itself where that has the right type and layout, else a new array.
        """
        if not np.can_cast(values.dtype, np.float64, "same_kind"):
            raise TypeError(f"only real numbers can be rounded, got an array of {values.dtype}")
        carrier = self._carrier(values.dtype)
        with np.errstate(invalid="ignore"):  # a signalling NaN
            work = np.ascontiguousarray(values, dtype=carrier.floating).reshape(values.shape)
        fits = out is not None and out.dtype == work.dtype and out.flags.c_contiguous
        # A block must not overwrite what a later one has yet to read.
        may_take = out is not None and fits and not np.may_share_memory(out, work)
        result = out if out is not None and may_take else np.empty_like(work)
        shared_exponent = carrier.exponent_bits == self.exponent_bits
        pass_over = self._cut_mantissa if shared_exponent else self._round_to_ulp
        flat_in, flat_out = work.reshape(-1), result.reshape(-1)
        scratch = np.empty(min(_BLOCK, flat_in.size), dtype=carrier.integer)
        with np.errstate(all="ignore"):
            for start in range(0, flat_in.size, _BLOCK):
                block = slice(start, start + _BLOCK)
                part = flat_in[block]
                pass_over(carrier, part, flat_out[block], scratch[: part.size])
                self._overflow(carrier, flat_out[block], saturate)
        return result

    def _carrier(self, dtype: np.dtype) -> _Carrier:
        """The cheaper type that holds the input and every number of this format."""
        wide_input = dtype not in (np.float16, np.float32)
        in_f32 = self.mantissa_bits <= 23 and self.max_exponent <= _F32.bias
        return _F32 if in_f32 and not wide_input else _F64

    def _round_to_ulp(
        self, carrier: _Carrier, values: np.ndarray, result: np.ndarray, scratch: np.ndarray
    ) -> None:
        """Divide by the ulp, round to a whole number with ties to even, multiply by the ulp.

        The ulp of a value in [2**e, 2**(e+1)) is 2**(e - mantissa_bits); below the smallest
        normal number e stands still: those are the subnormals. The division and the product are
        exact, since an ulp is a power of two.
        """
        lowest = (self.min_exponent + carrier.bias) << carrier.mantissa_bits
        to_ulp = self.mantissa_bits << carrier.mantissa_bits
        np.bitwise_and(
            values.view(carrier.integer), carrier.integer(carrier.exponent_mask), out=scratch
        )
        np.maximum(scratch, carrier.integer(lowest), out=scratch)
        np.subtract(scratch, carrier.integer(to_ulp), out=scratch)
        ulp = scratch.view(carrier.floating)
        np.divide(values, ulp, out=result)
        np.rint(result, out=result)
        np.multiply(result, ulp, out=result)

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
        bits, codes = values.view(carrier.integer), result.view(carrier.integer)
        np.right_shift(bits, carrier.integer(drop), out=scratch)
        np.bitwise_and(scratch, carrier.integer(1), out=scratch)
        np.add(scratch, carrier.integer((1 << (drop - 1)) - 1), out=scratch)
        np.add(scratch, bits, out=scratch)
        np.bitwise_and(scratch, carrier.integer(-(1 << drop)), out=codes)
        # The payload of a NaN may lie in the bits that went, or carry into the sign.
        np.copyto(result, carrier.floating(np.nan), where=np.isnan(values))

    def _overflow(self, carrier: _Carrier, result: np.ndarray, saturate: bool) -> None:
        """Apply the overflow rule to what was rounded with an unlimited exponent."""
        if saturate or not self.has_nan:
            np.clip(result, -self.max, self.max, out=result)
        elif not self.has_inf:
            np.copyto(result, carrier.floating(np.nan), where=np.abs(result) > self.max)
        elif self.max_exponent < carrier.bias:
            # Lift our largest binade onto the carrier's: what lies beyond becomes inf, and stays.
            lift = 2.0 ** (carrier.bias - self.max_exponent)
            np.multiply(result, carrier.floating(lift), out=result)
            np.multiply(result, carrier.floating(1 / lift), out=result)

    def encode(self, values: Any, *, saturate: bool = False) -> Any:
        """The bit pattern of the nearest number of this format.

        Args:
            values: as for `round`.
            saturate: as for `round`.

        Returns:
            An int, or an array of `code_dtype` of the same shape; for a tensor, a tensor of
            int64 (uint64 if the format has 64 bits). Any NaN gives the format's quiet NaN with
            sign 0; FP6 and FP4 have none, and give -0 as ml_dtypes does.
        """
        if isinstance(values, numbers.Real):
            return int(self._encode_array(np.array([float(values)]), saturate)[0])
        dtype = np.int64 if _is_tensor(values) and self.bits < 64 else self.code_dtype
        return _apply(lambda a: self._encode_array(a, saturate).astype(dtype, copy=False), values)

    def _encode_array(self, values: np.ndarray, saturate: bool) -> np.ndarray:
        codes = np.empty(values.shape, dtype=self.code_dtype)
        flat_in, flat_out = values.reshape(-1), codes.reshape(-1)
        # Each step makes a new float64 array here. Those of a larger block would be big enough
        # for malloc to give them back to the system every time, which takes four times as long.
        step = _BLOCK // 4
        for start in range(0, flat_in.size, step):
            block = slice(start, start + step)
            rounded = self._round_array(flat_in[block], saturate)
            with np.errstate(invalid="ignore"):  # a signalling NaN
                flat_out[block] = self._codes_of(rounded.astype(np.float64, copy=False))
        return codes

    def _codes_of(self, rounded: np.ndarray) -> np.ndarray:
        """Bit patterns, as uint64, of float64 numbers that this format has."""
        # The way back from `_decode_array`: make the biases agree, then keep the top bits.
        aligned = np.abs(rounded) * 2.0 ** (self.bias - _F64.bias)
        codes = aligned.view(np.uint64) >> np.uint64(_F64.mantissa_bits - self.mantissa_bits)
        codes[np.isinf(rounded)] = self._exponent_ones << self.mantissa_bits
        codes |= np.signbit(rounded) * np.uint64(self._sign_bit)
        codes[np.isnan(rounded)] = self._nan_code
        return codes

    # ---- the numbers around a number ----------------------------------------------------------

    def ulp(self, value: float) -> float:
        """Distance between neighbouring numbers of this format at ``value``.

        As `math.ulp`: the value of the last bit of the number that ``value`` rounds to, inf for
        an infinity, NaN for NaN. The smallest answer is `min_subnormal`, which holds all through
        the subnormals and zero.
        """
        nearest = abs(self.round(float(value)))
        if math.isnan(nearest) or math.isinf(nearest):
            return nearest
        _, exponent = math.frexp(nearest)  # nearest = m * 2**exponent with m in [0.5, 1)
        exponent = max(exponent - 1, self.min_exponent) if nearest else self.min_exponent
        return math.ldexp(1.0, exponent - self.mantissa_bits)

    def next_up(self, value: float) -> float:
        """The smallest number of this format that is larger than ``value``.

        Above `max` comes inf, or NaN in a format without it, and inf itself gives the same. In
        FP6 and FP4 nothing comes after `max`, and it is given again. The
        two zeros are one number: -0.0 follows the last negative number, and `min_subnormal`
        follows both. NaN gives NaN.
        """
        value = float(value)
        if math.isnan(value):
            return math.nan
        if value < -self.max:
            return -self.max
        if value >= self.max and not self.has_nan:
            return self.max
        if value >= self.max:
            return math.inf if self.has_inf else math.nan
        nearest = self.round(value)
        if nearest > value:
            return nearest
        if nearest == 0.0:
            return self.min_subnormal
        return self.decode(self.encode(nearest) + (1 if nearest > 0 else -1))

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
FP6_E2M3 = Format("FP6 E2M3", exponent_bits=2, mantissa_bits=3, has_inf=False, has_nan=False)
FP6_E3M2 = Format("FP6 E3M2", exponent_bits=3, mantissa_bits=2, has_inf=False, has_nan=False)
FP4_E2M1 = Format("FP4 E2M1", exponent_bits=2, mantissa_bits=1, has_inf=False, has_nan=False)

FORMATS: dict[str, Format] = {
    f.name: f for f in (FP32, TF32, FP16, BF16, FP8_E4M3, FP8_E5M2)
}  # from wide to narrow, the order in which lessons list them


def get_format(name: Any) -> Format:
    """Look a format up by its name or by a torch or NumPy dtype.

    Args:
        name: ``"FP16"`` (case, spaces, ``-`` and ``_`` do not matter; ``"float16"`` and
            ``"half"`` work too), ``torch.float16``, ``np.float16``, or a `Format` itself.

    Raises:
        ValueError: if there is no such format; the message lists those that there are.
    """
    if isinstance(name, Format):
        return name
    key = str(name.__name__ if isinstance(name, type) else name).removeprefix("torch.")
    key = "".join(c for c in key.lower() if c.isalnum())
    for format in FORMATS.values():
        if key == "".join(c for c in format.name.lower() if c.isalnum()):
            return format
    if key in _ALIASES:
        return _ALIASES[key]
    raise ValueError(f"no format called {name!r}; there are {', '.join(FORMATS)}")


# Not "float", which is float64 in Python and NumPy, and not "float8_e4m3", which in ml_dtypes is
# an IEEE layout and has another range.
_ALIASES: dict[str, Format] = {
    "float32": FP32,
    "float16": FP16,
    "half": FP16,
    "bfloat16": BF16,
    "float8e4m3fn": FP8_E4M3,
    "e4m3": FP8_E4M3,
    "float8e5m2": FP8_E5M2,
    "e5m2": FP8_E5M2,
}


def _is_tensor(values: Any) -> bool:
    torch = sys.modules.get("torch")  # who holds a tensor has imported torch
    return torch is not None and isinstance(values, torch.Tensor)


def _as_array(values: Any) -> np.ndarray:
    """A NumPy array of an array, sequence or tensor; a view where NumPy has the dtype."""
    if not _is_tensor(values):
        return np.asarray(values)
    tensor = values.detach().cpu()
    memory = _memory_of(tensor)
    return tensor.float().numpy() if memory is None else memory


def _memory_of(values: Any) -> np.ndarray | None:
    """The memory of an array or CPU tensor, as an array; None where NumPy lacks the dtype."""
    if not _is_tensor(values):
        return values
    try:
        return values.detach().numpy()
    except TypeError:  # bfloat16 and FP8, or a tensor on another device
        return None


def _apply(function: Callable[[np.ndarray], np.ndarray], values: Any) -> Any:
    """Run an array function on an array, a sequence or a tensor; give back the same kind."""
    array = _as_array(values)
    result = function(np.atleast_1d(array)).reshape(array.shape)
    if not _is_tensor(values):
        return result
    import torch

    return torch.from_numpy(result).to(values.device)


def _check_out(out: Any, values: Any) -> None:
    """Refuse an ``out`` that `_store` could only fill in part, or with something else."""
    if _is_tensor(values):
        takes_floats = _is_tensor(out) and out.is_floating_point()
    else:
        takes_floats = isinstance(out, np.ndarray) and np.can_cast(float, out.dtype, "same_kind")
    if not takes_floats:
        kind = "tensor" if _is_tensor(values) else "array"
        got = f"{type(out).__name__} of {getattr(out, 'dtype', 'no dtype')}"
        raise TypeError(f"out must be a float {kind}, as values are, not a {got}")
    if tuple(out.shape) != np.shape(values):
        raise ValueError(f"out has shape {tuple(out.shape)}, values have {np.shape(values)}")


def _store(rounded: Any, values: Any, out: Any) -> Any:
    """``rounded`` in the dtype of ``values``, on its device; or written into ``out``."""
    if _is_tensor(values):
        import torch

        rounded = torch.as_tensor(rounded)
        if out is None:
            dtype = values.dtype if values.is_floating_point() else torch.float64
            return rounded.to(device=values.device, dtype=dtype)
        out.detach().copy_(rounded)
        return out
    with np.errstate(over="ignore"):  # float16 cannot hold every number of a wider format
        if out is None:
            dtype = np.asarray(values).dtype
            return rounded.astype(rounded.dtype if dtype.kind in "biu" else dtype, copy=False)
        out[...] = rounded
        return out
