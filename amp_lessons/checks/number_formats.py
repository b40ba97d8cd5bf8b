"""Lesson 01's exercises: reading bits, finding neighbours, choosing scales and formats."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from amp_lessons.checks.cases import Case, Misconception, function_exercise
from amp_lessons.formats import FORMATS, FP16, Format, get_format
from amp_lessons.scaling import smallest_safe_scale

# ---- decode_bits ------------------------------------------------------------------------------

_FP16_CODES = (
    0x3C00, 0x3555, 0xC0A8, 0x0001, 0x83FF, 0x0400, 0x7BFF, 0x7C00, 0xFC00, 0x7E01, 0x0000, 0x5640,
)  # fmt: skip
_BF16_CODES = (0x3F80, 0x3DCD, 0xC2C8, 0x0001, 0x807F, 0x7F80, 0xFFC0)
_E3M4_CODES = (0x30, 0x01, 0x8F, 0x10, 0x6F, 0x70, 0x79, 0xC3)


def _decode_cases() -> list[Case]:
    random = np.random.default_rng(1)
    layouts = (
        (5, 10, (*_FP16_CODES, *random.integers(0, 1 << 16, 12).tolist())),
        (8, 7, (*_BF16_CODES, *random.integers(0, 1 << 16, 12).tolist())),
        (3, 4, (*_E3M4_CODES, *random.integers(0, 1 << 8, 12).tolist())),
    )
    return [
        Case((code, e, m), f"0x{code:0{(1 + e + m) // 4}X}, exponent_bits={e}, mantissa_bits={m}")
        for e, m, codes in layouts
        for code in codes
    ]


def _decode(code: int, exponent_bits: int, mantissa_bits: int) -> float:
    return Format("", exponent_bits, mantissa_bits).decode(code)


def _decoder(
    *,
    bias: bool = True,
    hidden_one: bool = True,
    subnormals: bool = True,
    subnormal_exponent: int = 1,
    sign: bool = True,
    specials: bool = True,
    signed_infinity: bool = True,
    nan: bool = True,
    fixed_bias: int | None = None,
    flush: bool = False,
):
    """A decoder with one part left out: the models of the misconceptions."""

    def decode(code: int, exponent_bits: int, mantissa_bits: int) -> float:
        layout = Format("", exponent_bits, mantissa_bits)
        s, e, m, kind = layout.fields(code)
        factor = -1.0 if s and sign else 1.0
        if specials and kind in ("inf", "nan"):
            factor = factor if signed_infinity else 1.0
            return factor * (math.nan if kind == "nan" and nan else math.inf)
        offset = (layout.bias if fixed_bias is None else fixed_bias) if bias else 0
        fraction = m / 2**mantissa_bits
        if e == 0 and flush:
            return 0.0
        if e == 0 and subnormals:
            return factor * fraction * 2.0 ** (subnormal_exponent - offset)
        return factor * (hidden_one + fraction) * 2.0 ** (e - offset)

    return decode


decode_bits = function_exercise(
    "decode_bits",
    cases=_decode_cases,
    reference=_decode,
    misconceptions={
        "bias-forgotten": Misconception(
            "You used the stored exponent as it is. It is stored with a bias of "
            "2**(exponent_bits - 1) - 1 added, so that small exponents need no sign: subtract it.",
            _decoder(bias=False),
        ),
        "hidden-one-forgotten": Misconception(
            "You took the mantissa for the whole significand. A normal number has a leading 1 "
            "that is not stored: its significand is 1 + mantissa / 2**mantissa_bits.",
            _decoder(hidden_one=False),
        ),
        "subnormal-as-normal": Misconception(
            "You gave the hidden 1 to every number. When the stored exponent is 0 there is none: "
            "those are zero and the subnormal numbers.",
            _decoder(subnormals=False),
        ),
        "subnormal-exponent": Misconception(
            "Your subnormal numbers are half as large as they should be. A stored exponent of 0 "
            "means the same power of two as a stored exponent of 1: 2**(1 - bias). So the "
            "subnormals go on, without a gap, where the normal numbers stop.",
            _decoder(subnormal_exponent=0),
        ),
        "subnormals-flushed": Misconception(
            "You gave 0 for every stored exponent of 0. Only the pattern with mantissa 0 is zero; "
            "the others are the subnormal numbers, mantissa / 2**mantissa_bits * 2**(1 - bias).",
            _decoder(flush=True),
        ),
        "bias-of-fp16": Misconception(
            "Your FP16 numbers are right, the others are not: 15 is the bias for 5 exponent bits. "
            "In general it is 2**(exponent_bits - 1) - 1.",
            _decoder(fixed_bias=15),
        ),
        "nan-forgotten": Misconception(
            "You gave infinity for every pattern with the top exponent. It is infinity only if "
            "the mantissa is 0; with any other mantissa it is NaN.",
            _decoder(nan=False),
            _decoder(nan=False, signed_infinity=False),
        ),
        "infinity-without-sign": Misconception(
            "Your infinity is always positive. The sign bit counts for it too.",
            _decoder(signed_infinity=False),
        ),
        "sign-ignored": Misconception(
            "Your numbers are never negative. The first bit is the sign.",
            _decoder(sign=False),
        ),
        "specials-as-numbers": Misconception(
            "You decoded the top exponent like any other. When all of its bits are 1, the pattern "
            "stands for infinity (mantissa 0) or NaN (any other mantissa).",
            _decoder(specials=False),
        ),
    },
    hints=(
        "Cut the code into three fields with shifts and masks: the sign is code >> "
        "(exponent_bits + mantissa_bits).",
        "Three kinds of exponent field need three answers: 0, all ones, and everything between.",
        "Between: (-1)**sign * (1 + mantissa / 2**mantissa_bits) * 2**(exponent - bias). For 0: "
        "no hidden 1, and the exponent is 1 - bias.",
    ),
    lesson_learned="You can read any IEEE-style format now, those that have not been built too.",
    asked_for="a float",
)

# ---- next_float -------------------------------------------------------------------------------


def _next_cases() -> list[Case]:
    random = np.random.default_rng(2)
    chosen = [
        1.0,
        1.5,
        2.0,
        2047.0,
        2048.0,
        0.0,
        -0.0,
        2.0**-24,
        2.0**-14 - 2.0**-24,
        -1.0,
        -1.5,
        -2.0,
    ]
    chosen += [-(2.0**-14), -(2.0**-24), -65504.0, 65504.0, 0.0999755859375, -3e-5]
    some = FP16.decode(random.integers(0, 0x7BFF, 12)).tolist()
    values = chosen + some + [-x for x in some[:6]]
    return [Case((FP16.round(x),)) for x in values]


def _bits_up(x: float) -> float:
    """Add one to the bit pattern, whatever the sign."""
    return FP16.decode(FP16.encode(x) + 1)


def _ulp_without_subnormals(x: float) -> float:
    return x + 2.0 ** (math.floor(math.log2(abs(x))) - 10)


next_float = function_exercise(
    "next_float",
    cases=_next_cases,
    reference=FP16.next_up,
    misconceptions={
        "eps-everywhere": Misconception(
            "You added 2**-10 to every number. That is the spacing between 1 and 2 only: it "
            "doubles at each power of two above, and halves at each one below.",
            lambda x: x + FP16.eps,
        ),
        "eps-relative": Misconception(
            "You multiplied by 1 + 2**-10. Just above a power of two that is one step, but "
            "towards the next power it is almost two, and for a negative number it goes down.",
            lambda x: FP16.round(x * (1 + FP16.eps)),
        ),
        "negative-away": Misconception(
            "Your positive numbers are right, your negative ones went down. The format stores "
            "sign and magnitude, so adding 1 to the bits of a negative number makes its magnitude "
            "larger, which is the other way.",
            _bits_up,
        ),
        "zero-forgotten": Misconception(
            "Zero is the exception: it has two patterns, 0x0000 and 0x8000, and the rule for "
            "numbers of one sign leads astray from both. After zero, of either sign, comes 2**-24.",
            lambda x: FP16.next_up(x) if x else math.nan,
            lambda x: FP16.next_up(x) if x or math.copysign(1, x) > 0 else -(2.0**-24),
        ),
        "no-infinity": Misconception(
            "Everything is right but the last step: after 65504 comes infinity. FP16 has no 65536.",
            lambda x: 65536.0 if x == 65504 else FP16.next_up(x),
        ),
        "float32-neighbour": Misconception(
            "You found the next number of float32, which FP16 does not have: it would round back "
            "to where you started.",
            lambda x: float(np.nextafter(np.float32(x), np.float32(np.inf))),
        ),
        "float64-neighbour": Misconception(
            "You found the next number of Python's own float (float64), which FP16 does not have: "
            "it would round back to where you started.",
            lambda x: math.nextafter(x, math.inf),
        ),
        "subnormals-forgotten": Misconception(
            "Your spacing keeps shrinking below 2**-14, and zero has no logarithm. Among the "
            "subnormal numbers, and from zero, the spacing is always 2**-24.",
            _ulp_without_subnormals,
        ),
        "spacing-below-a-power": Misconception(
            "Almost. From a negative power of two the way up leads into the smaller binade, where "
            "the spacing is half as wide: after -2 comes -1.9990234375, which you stepped over.",
            lambda x: FP16.round(x + FP16.ulp(x)),
            lambda x: x + FP16.ulp(x),
        ),
    },
    hints=(
        "Numbers of one sign have the same order as their bit patterns read as integers.",
        "torch.tensor(x, dtype=torch.float16).view(torch.int16) gives the bits as an integer; "
        "the way back is .view(torch.float16).",
        "Positive: bits + 1. Negative: bits - 1. Zero, of either sign: the smallest positive "
        "number.",
    ),
    lesson_learned="Neighbouring numbers have neighbouring bit patterns, subnormals, powers of "
    "two and infinity included. That is why the format is laid out as it is.",
    asked_for="a float",
)

# ---- smallest_scale ---------------------------------------------------------------------------


def _scale_cases() -> list[Case]:
    random = torch.Generator().manual_seed(3)
    cases = [
        Case((torch.tensor(values),), f"torch.tensor({values})")
        for values in (
            [1e-9, 0.5],
            [2.0**-30, -3.0],
            [0.0, 5e-8, 0.0],
            [-7e-12, 1e-3, 0.0],
            [4e-8],
            [0.5, -3.0],
            [1e-10, 3e-9, -5e-8],
        )
    ]
    for size, power in ((40, -22), (300, -28), (7, -35)):
        gradients = torch.randn(size, generator=random) * 2.0**power
        gradients[0], gradients[-1] = 0.0, 2.0**-3
        cases.append(Case((gradients,), f"{size} random gradients around 2**{power}"))
    return cases


def _power_of_two(target: float, pick=min, zeros: bool = False):
    """A scale found by dividing ``target`` by one gradient and rounding up to a power of two."""

    def scale(gradients: Tensor) -> float:
        sizes = [abs(g) for g in gradients.double().tolist() if g or zeros]
        chosen = pick(sizes)
        if chosen == 0:
            return math.inf
        return max(1.0, 2.0 ** math.ceil(math.log2(target / chosen)))

    return scale


def _never_ends(gradients: Tensor) -> float:
    """Doubling until 0 * scale is no longer 0 ends when the scale is inf in float32."""
    return 2.0**128 if (gradients == 0).any() else smallest_safe_scale(gradients)


def _half_first(gradients: Tensor) -> float:
    """Storing before scaling: what has become zero stays zero until the scale is inf."""
    smallest = gradients[gradients != 0].abs().min().half()
    return 1.0 if smallest > 0 else 2.0**128


def _positive_only(gradients: Tensor) -> float:
    return smallest_safe_scale(gradients[gradients > 0])


def _below_one(gradients: Tensor) -> float:
    smallest, scale = _smallest(gradients), smallest_safe_scale(gradients)
    while FP16.round(smallest * scale / 2) != 0:
        scale /= 2
    return scale


def _mean(sizes: list[float]) -> float:
    return sum(sizes) / len(sizes)


smallest_scale = function_exercise(
    "smallest_scale",
    cases=_scale_cases,
    reference=smallest_safe_scale,
    misconceptions={
        "zeros-counted": Misconception(
            "You looked for the smallest gradient and found a zero. A zero stays zero under any "
            "scale and loses nothing: leave the zeros out.",
            _power_of_two(2.0**-24, zeros=True),
            _never_ends,
        ),
        "stored-before-scaled": Misconception(
            "You stored the gradients in FP16 first and scaled them afterwards. What has become "
            "zero stays zero under any scale: multiply in float32, then store.",
            _half_first,
        ),
        "sign-forgotten": Misconception(
            "You looked at the positive gradients only. A negative one can be the smallest in "
            "magnitude: take abs() first.",
            _positive_only,
        ),
        "below-one": Misconception(
            "Your scale is right where something has to be saved. Where nothing has, it makes the "
            "gradients smaller: the scale must be at least 1.",
            _below_one,
        ),
        "wants-normal": Misconception(
            "Your scale lifts everything into the normal range, above 2**-14. That keeps full "
            "precision, but survival needs less: subnormal numbers are not zero.",
            _power_of_two(2.0**-14),
        ),
        "stops-at-smallest-number": Misconception(
            "Your scale lifts the smallest gradient to 2**-24 or more. It need not go so far: "
            "what lies above half of that is rounded up to 2**-24. Try your scale divided by 2.",
            _power_of_two(2.0**-24),
        ),
        "tie-survives": Misconception(
            "Exactly 2**-25 lies half-way between 0 and 2**-24, and a tie goes to the even "
            "mantissa, which is 0. Your scale is too small by a factor of 2 in that case.",
            _power_of_two(2.0**-25),
        ),
        "largest-gradient": Misconception(
            "You looked at the largest gradient. It is the smallest one that dies first.",
            _power_of_two(2.0**-24, pick=max),
        ),
        "average-gradient": Misconception(
            "You looked at the average gradient. Most of the others are smaller, some by orders "
            "of magnitude, and the smallest one dies first.",
            _power_of_two(2.0**-24, pick=_mean),
        ),
        "not-a-power-of-two": Misconception(
            "Your scale saves the gradients, but it is not a power of two. Multiplying by a power "
            "of two changes the exponent only and can be undone exactly; other factors round.",
            lambda g: max(1.0, 2.0**-24 / _smallest(g)),
        ),
    },
    hints=(
        "Which single gradient decides? Look at magnitudes, and leave zeros out.",
        "You need no formula: start at 1.0 and double until the smallest gradient, multiplied by "
        "the scale and stored in torch.float16, is no longer zero.",
        "Multiply in float32 and convert afterwards, as the backward pass of a scaled loss does.",
    ),
    lesson_learned="One power of two, found from one gradient. GradScaler looks for the other "
    "end: the largest scale at which nothing overflows.",
    asked_for="a float",
)


def _smallest(gradients: Tensor) -> float:
    return min(abs(g) for g in gradients.double().tolist() if g)


# ---- choose_format ----------------------------------------------------------------------------

_CANDIDATES = ("FP8 E4M3", "FP8 E5M2", "FP16", "BF16", "FP32")


def _choose_cases() -> list[Case]:
    chosen = (
        ([17.3, -33.1, 68.7], 0.1),
        ([100.0, 300.0], 0.1),
        ([1000.0, 0.4], 0.2),
        ([0.1, -0.7, 3.3], 0.001),
        ([0.1, 1e5], 0.01),
        ([1e-7, 1.1], 0.01),
        ([3e-7, 1.1], 0.01),
        ([1e-9, 1.1], 0.01),
        ([1e-9, 0.1], 0.001),
        ([1e-9, 1.1], 1e-6),
        ([2049.0, 0.0], 1e-5),
        ([0.0, 60001.0], 0.03),
        ([0.02, -0.03], 0.05),
        ([1.1, 1.0, 1.0, 1.0, 1.0, 1.0], 0.02),
        ([0.0068, 0.0137], 0.2),
        ([0.001, 0.002], 0.06),
    )
    return [Case((torch.tensor(v), t), f"torch.tensor({v}), {t:g}") for v, t in chosen]


def _chooser(
    *, overflow: bool = True, underflow: bool = True, precision: bool = True,
    worst: bool = True, order: tuple[str, ...] | None = None, names: tuple[str, ...] = _CANDIDATES,
):  # fmt: skip
    """A chooser, right or with one condition left out."""

    def choose(values: Tensor, tolerance: float) -> str:
        exact = values.double().numpy()
        exact = exact[exact != 0]
        errors = {}
        for name in names:
            stored = FORMATS[name].round(exact)
            lost = (stored == 0).any() and underflow
            burst = not np.isfinite(stored).all() and overflow
            usable = np.isfinite(stored) & ((stored != 0) if not underflow else True)
            relative = np.abs(stored - exact)[usable] / np.abs(exact)[usable]
            error = relative.max(initial=0.0) if worst else relative.sum() / max(relative.size, 1)
            if not lost and not burst and (error <= tolerance or not precision):
                errors[name] = error
        if order:
            return next((name for name in order if name in errors), "FP32")
        return min(errors or {"FP32": 0.0}, key=lambda n: (FORMATS[n].bits, errors.get(n, 0.0)))

    return choose


def _same_format(expected: str, seen: object) -> bool:
    try:
        return isinstance(seen, str) and get_format(seen).name == expected
    except ValueError:
        return False


choose_format = function_exercise(
    "choose_format",
    cases=_choose_cases,
    reference=_chooser(),
    misconceptions={
        "overflow-ignored": Misconception(
            "Your choice overflows: the largest value lies beyond the largest number of that "
            "format. Enough mantissa bits are not enough.",
            _chooser(overflow=False),
        ),
        "underflow-ignored": Misconception(
            "Your choice loses the smallest value: it becomes zero, an error of 100%.",
            _chooser(underflow=False),
        ),
        "average-error": Misconception(
            "You compared the average error with the tolerance. One value that is off by too much "
            "is hidden among others that are exact: take the largest error.",
            _chooser(worst=False),
        ),
        "range-only": Misconception(
            "Your choice has the range but not the precision: some value is off by more than the "
            "tolerance.",
            _chooser(precision=False),
        ),
        "bf16-first": Misconception(
            "BF16 and FP16 both have 16 bits. Where both hold the values, the one with the "
            "smaller error is asked for, and for numbers that are normal in FP16 that is FP16: "
            "10 mantissa bits against 7.",
            _chooser(order=("FP8 E4M3", "FP8 E5M2", "BF16", "FP16", "FP32")),
            _chooser(order=("FP8 E5M2", "FP8 E4M3", "BF16", "FP16", "FP32")),
        ),
        "first-that-holds": Misconception(
            "You took the first format that holds the values, in a fixed order. Of two with the "
            "same number of bits the one with the smaller largest error is asked for, and which "
            "one that is depends on the values: among FP16's subnormal numbers BF16 is closer, "
            "among E4M3's E5M2 is.",
            _chooser(order=_CANDIDATES),
            _chooser(order=("FP8 E5M2", "FP8 E4M3", "FP16", "BF16", "FP32")),
        ),
        "tf32-chosen": Misconception(
            "You chose TF32. It is no format for storing a tensor, only a way to read one inside "
            "a matrix product, and it is not among the candidates.",
            _chooser(names=(*_CANDIDATES, "TF32")),
            _chooser(order=("FP8 E4M3", "FP8 E5M2", "FP16", "BF16", "TF32", "FP32")),
            _chooser(names=(*_CANDIDATES, "TF32"), order=tuple(FORMATS)),
        ),
        "16-bit-at-least": Misconception(
            "You never choose FP8. Where 8 bits hold the values to the tolerance, they are "
            "the narrowest.",
            _chooser(order=("FP16", "BF16", "FP32")),
        ),
    },
    hints=(
        "Let the formats answer: FORMATS[name].round(values) gives what each would store.",
        "A format is out if a stored value is not finite, if a non-zero value became zero, or if "
        "the largest relative error is above the tolerance.",
        "Of those that are left take the smallest by the pair (bits, largest relative error).",
    ),
    lesson_learned="Range decides first, precision second: FP16 and BF16 spend the same 16 bits "
    "on different things.",
    same=_same_format,
    asked_for="the name of a format",
)
