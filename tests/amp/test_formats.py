"""formats.py against torch, ml_dtypes, NumPy and exact fractions.

The formats of 8, 16 and 19 bits are proved exhaustively: a rounding that is right at each number,
at each midpoint between neighbours and one float to either side of both is right everywhere in
between, because it is monotonic there. FP32 and the custom formats are sampled.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import product

import ml_dtypes
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from amp_lessons.amp.numbers.formats import (
    _BLOCK,
    BF16,
    FORMATS,
    FP8_E4M3,
    FP8_E5M2,
    FP16,
    FP32,
    TF32,
    Format,
    get_format,
)

pytestmark = pytest.mark.filterwarnings("error")

NUMPY_DTYPE = {
    FP32: np.float32,
    FP16: np.float16,
    BF16: ml_dtypes.bfloat16,
    FP8_E4M3: ml_dtypes.float8_e4m3fn,
    FP8_E5M2: ml_dtypes.float8_e5m2,
}
TORCH_DTYPE = {
    FP32: torch.float32,
    FP16: torch.float16,
    BF16: torch.bfloat16,
    FP8_E4M3: torch.float8_e4m3fn,
    FP8_E5M2: torch.float8_e5m2,
}
SMALL = [TF32, FP16, BF16, FP8_E4M3, FP8_E5M2]  # small enough to try every bit pattern
BY_NAME = pytest.mark.parametrize("format", FORMATS.values(), ids=list(FORMATS))
SMALL_BY_NAME = pytest.mark.parametrize("format", SMALL, ids=lambda f: f.name)


# ---- oracles that share no code with formats.py --------------------------------------------


def true_values(format: Format, codes: np.ndarray) -> np.ndarray:
    """What bit patterns mean, by NumPy and ml_dtypes; TF32 is the upper 19 bits of a float32."""
    if format == TF32:
        numbers = (codes.astype(np.uint32) << 13).view(np.float32)
    else:
        unsigned = f"u{np.dtype(NUMPY_DTYPE[format]).itemsize}"
        numbers = codes.astype(unsigned).view(NUMPY_DTYPE[format])
    return widened(numbers)


def widened(values: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # a signalling NaN is no fault of the format
        return np.asarray(values).astype(np.float64)


def all_codes(format: Format) -> np.ndarray:
    return np.arange(1 << format.bits)


def ladder(format: Format) -> np.ndarray:
    """Every finite number of a small format from +0 up; a number's index is its bit pattern."""
    values = true_values(format, np.arange(1 << (format.bits - 1)))
    values = values[np.isfinite(values)]
    assert (np.diff(values) > 0).all()
    return values


def steps(format: Format) -> tuple[np.ndarray, np.ndarray]:
    """The ladder, and the midpoint above each rung (also above the last, where the overflow is)."""
    rungs = ladder(format)
    after = np.append(rungs[1:], 2 * rungs[-1] - rungs[-2])
    return rungs, (rungs + after) / 2


def true_round(format: Format, values: np.ndarray, saturate: bool = False) -> np.ndarray:
    """Nearest rung, ties to the even bit pattern, found by comparing with the midpoints."""
    rungs, midpoints = steps(format)
    values = widened(values)
    magnitude = np.abs(values)
    index = np.searchsorted(midpoints, magnitude)  # how many midpoints lie below
    tie = magnitude == midpoints[np.minimum(index, len(rungs) - 1)]
    index += tie & (index % 2 == 1)
    above = rungs[-1] if saturate else np.inf if format.has_inf else np.nan
    rounded = np.append(rungs, above)[index]
    return np.copysign(np.where(np.isnan(values), np.nan, rounded), values)


def exact_round(format: Format, value: float, saturate: bool = False) -> float:
    """One rounding in exact fractions, from the definition."""
    if math.isnan(value):
        return math.nan
    bias = 2 ** (format.exponent_bits - 1) - 1
    top = 2**format.exponent_bits - 1 - bias
    last = Fraction(2) ** (top - format.mantissa_bits)
    largest = (Fraction(2) ** top - last / 2) if format.has_inf else (Fraction(2) ** top * 2)
    largest -= 0 if format.has_inf else 2 * last
    rounded: Fraction | float = math.inf
    if not math.isinf(value):
        magnitude = Fraction(abs(value))
        exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
        exponent -= magnitude < Fraction(2) ** exponent  # now floor(log2(magnitude))
        ulp = Fraction(2) ** (max(exponent, 1 - bias) - format.mantissa_bits)
        rounded = round(magnitude / ulp) * ulp  # Fraction rounds halves to even
    if rounded > largest:
        above = math.inf if format.has_inf else math.nan
        rounded = largest if saturate else above
    return math.copysign(float(rounded), value)


def critical(format: Format, dtype: type) -> np.ndarray:
    """Each number, each midpoint and the ``dtype`` floats beside both, with either sign."""
    rungs, midpoints = steps(format)
    exact = np.concatenate([rungs, midpoints])
    points = exact.astype(dtype)
    assert (points == exact).all(), "the midpoints must be exact, or they prove nothing"
    infinity = dtype(np.inf)
    near = [np.nextafter(points, infinity), np.nextafter(points, -infinity)]
    special = np.array([0, np.inf, np.nan, np.finfo(dtype).max, np.finfo(dtype).tiny / 2], dtype)
    points = np.concatenate([points, *near, special])
    return np.concatenate([points, -points])


def assert_same(got: np.ndarray, want: np.ndarray) -> None:
    """Equal values, NaN where NaN is wanted, and the same signs of zeros and the rest."""
    got, want = widened(got), widened(want)
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))


def random_patterns(dtype: type, count: int, seed: int) -> np.ndarray:
    """Floats with random bits: every binade, subnormals, infinities and NaNs."""
    raw = np.random.default_rng(seed).bytes(count * np.dtype(dtype).itemsize)
    return np.frombuffer(raw, dtype)


# ---- limits --------------------------------------------------------------------------------


@pytest.mark.parametrize("format", NUMPY_DTYPE, ids=lambda f: f.name)
def test_limits_are_those_of_torch_and_ml_dtypes(format):
    theirs, torchs = ml_dtypes.finfo(NUMPY_DTYPE[format]), torch.finfo(TORCH_DTYPE[format])
    assert format.max == float(theirs.max) == torchs.max
    assert format.min_normal == float(theirs.smallest_normal) == torchs.smallest_normal
    assert format.min_subnormal == float(theirs.smallest_subnormal)
    assert format.eps == float(theirs.eps) == torchs.eps
    assert format.min_exponent == theirs.minexp
    assert format.max_exponent == theirs.maxexp - 1  # theirs is one past it, as in C
    assert (format.bits, format.mantissa_bits) == (theirs.bits, theirs.nmant)


def test_limits_of_tf32_are_the_range_of_fp32_with_the_precision_of_fp16():
    assert (TF32.bits, TF32.exponent_bits, TF32.mantissa_bits) == (19, 8, 10)
    assert TF32.eps == FP16.eps == 2.0**-10
    assert TF32.min_normal == FP32.min_normal
    assert TF32.min_subnormal == 2.0**-136
    assert TF32.max == (2 - 2.0**-10) * 2.0**127
    assert (TF32.bias, TF32.min_exponent, TF32.max_exponent) == (127, -126, 127)


@pytest.mark.parametrize(
    ("format", "dtype"),
    [(FP8_E4M3, "u1"), (FP16, "u2"), (TF32, "u4"), (FP32, "u4"), (Format("FP64", 11, 52), "u8")],
)
def test_code_dtype_is_the_smallest_that_fits(format, dtype):
    assert format.code_dtype == np.dtype(dtype)


@pytest.mark.parametrize(
    ("widths", "message"),
    [
        ((1, 3), "exponent_bits must be 2 to 11, got 1"),
        ((12, 3), "exponent_bits must be 2 to 11, got 12"),
        ((5, 0), "mantissa_bits must be 1 to 52, got 0"),
        ((5, 53), "mantissa_bits must be 1 to 52, got 53"),
        ((11, 3, False), "without inf, exponent_bits must be 2 to 10"),
    ],
)
def test_formats_that_do_not_fit_in_a_float64_are_refused(widths, message):
    with pytest.raises(ValueError, match=f"wide: .*{message}"):
        Format("wide", *widths)


# ---- bits to numbers -----------------------------------------------------------------------


@SMALL_BY_NAME
def test_decode_is_exact_for_every_bit_pattern(format):
    codes = all_codes(format)
    decoded = format.decode(codes)
    assert decoded.dtype == np.float64
    assert_same(decoded, true_values(format, codes))


@pytest.mark.parametrize("format", [FP16, BF16, FP8_E4M3, FP8_E5M2], ids=lambda f: f.name)
def test_decode_agrees_with_torchs_own_view_of_the_bits(format):
    codes = torch.from_numpy(all_codes(format).astype(format.code_dtype))
    decoded = format.decode(codes)
    assert decoded.dtype == torch.float64
    assert_same(decoded, codes.view(TORCH_DTYPE[format]).double())


def test_decode_of_fp32_agrees_on_random_and_extreme_patterns():
    edges = np.array([0, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001], np.uint32)
    codes = random_patterns(np.uint32, 300_000, seed=1)
    codes = np.concatenate([codes, edges, edges | 0x80000000])
    assert_same(FP32.decode(codes), true_values(FP32, codes))


@SMALL_BY_NAME
def test_encode_gives_back_every_bit_pattern_that_decode_was_given(format):
    codes = all_codes(format)
    values = format.decode(codes)
    encoded = format.encode(values)
    assert encoded.dtype == format.code_dtype
    numbers = ~np.isnan(values)
    np.testing.assert_array_equal(encoded[numbers], codes[numbers])
    assert (encoded[~numbers] == format.encode(math.nan)).all()


@pytest.mark.parametrize(
    ("format", "code"),
    [(FP16, 0x7E00), (BF16, 0x7FC0), (FP32, 0x7FC00000), (FP8_E4M3, 0x7F), (FP8_E5M2, 0x7E)],
)
def test_any_nan_encodes_to_the_quiet_nan_of_numpy_and_ml_dtypes(format, code):
    theirs = np.array([math.nan], np.float32).astype(NUMPY_DTYPE[format])
    assert theirs.view(format.code_dtype).tolist() == [code]
    assert format.encode(math.nan) == format.encode(-math.nan) == code
    assert format.fields(code).kind == "nan"


@SMALL_BY_NAME
def test_fields_explain_every_bit_pattern(format):
    stride = 1 if format.bits <= 16 else 5
    codes = all_codes(format)[::stride]
    top = format.exponent_bits, format.mantissa_bits
    for code, value in zip(codes.tolist(), true_values(format, codes).tolist(), strict=True):
        sign, exponent, mantissa, kind = format.fields(code)
        assert (sign << top[0] | exponent) << top[1] | mantissa == code
        assert 0 <= exponent < 1 << top[0]
        assert 0 <= mantissa < 1 << top[1]
        if kind == "nan":
            assert math.isnan(value)
            continue
        # The textbook's formula, and the cases in which it does not hold.
        assert math.copysign(1, value) == (-1) ** sign
        if kind == "normal":
            scale, fraction = exponent - format.bias, 1 + mantissa / 2**format.mantissa_bits
            assert abs(value) == math.ldexp(fraction, scale)
        elif kind == "subnormal":
            assert 0 < abs(value) < format.min_normal
            assert abs(value) == mantissa * format.min_subnormal
        else:
            assert abs(value) == {"zero": 0.0, "inf": math.inf}[kind]


def test_fields_and_bit_string_of_known_numbers():
    assert FP16.fields(0x3C00) == (0, 15, 0, "normal")
    assert FP16.bit_string(0x3C00) == "0 01111 0000000000"
    assert FP16.bit_string(FP16.encode(-math.inf)) == "1 11111 0000000000"
    assert FP8_E4M3.bit_string(FP8_E4M3.encode(448)) == "0 1111 110"
    assert FP8_E5M2.bit_string(FP8_E5M2.encode(-0.0)) == "1 00000 00"


@pytest.mark.parametrize("integer", [np.uint8, np.int64, np.array, torch.tensor, int])
def test_fields_take_any_kind_of_integer(integer):
    assert FP16.fields(integer(5)) == (0, 0, 5, "subnormal")


@pytest.mark.parametrize("method", ["fields", "decode", "bit_string"])
@pytest.mark.parametrize("code", [-1, 1 << 16, 1 << 64, np.int64(-1)])
def test_a_pattern_with_too_many_bits_is_refused(method, code):
    with pytest.raises(ValueError, match=f"{code} is not a bit pattern of FP16: it has 16 bits"):
        getattr(FP16, method)(code)


def test_an_array_with_one_bad_pattern_is_refused():
    for bad in (-1, 256):
        with pytest.raises(ValueError, match=f"{bad} is not a bit pattern of FP8 E4M3"):
            FP8_E4M3.decode(np.array([0, 255, bad, 1]))
        with pytest.raises(ValueError, match=f"{bad} is not a bit pattern of FP8 E4M3"):
            FP8_E4M3.decode(torch.tensor([0, 255, bad, 1]))


@pytest.mark.parametrize("code", [1.0, "1", None, [1.0], np.array([True]), torch.tensor([1.0])])
def test_a_pattern_that_is_no_integer_is_refused(code):
    with pytest.raises(ValueError, match="bit pattern"):
        FP16.decode(code)
    with pytest.raises(ValueError, match="a bit pattern is an integer"):
        FP16.fields(code)


def test_decode_keeps_kind_and_shape():
    assert type(FP16.decode(0x3C00)) is type(FP16.decode(np.uint16(0x3C00))) is float
    assert FP16.decode([0x3C00, 0xC000]).tolist() == [1.0, -2.0]
    assert FP16.decode(np.zeros((2, 0, 3), np.uint16)).shape == (2, 0, 3)
    assert FP16.decode([]).shape == (0,)
    zero_d = FP16.decode(torch.tensor(0x3C00))
    assert zero_d.shape == ()
    assert zero_d == 1.0
    assert FP16.decode(np.array(0x3C00)).shape == ()
    grid = torch.arange(6).reshape(2, 3).T
    assert FP16.decode(grid).tolist() == [
        [0, 3 * 2**-24],
        [2**-24, 4 * 2**-24],
        [2**-23, 5 * 2**-24],
    ]


# ---- rounding ------------------------------------------------------------------------------


@SMALL_BY_NAME
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("saturate", [False, True], ids=["overflow", "saturate"])
def test_rounding_is_right_at_every_number_and_midpoint_and_beside_them(format, dtype, saturate):
    values = critical(format, dtype)
    want = true_round(format, values, saturate)
    rounded = format.round(values, saturate=saturate)
    assert rounded.dtype == dtype
    assert_same(rounded, want)
    assert_same(format._round_array(values, saturate), want)
    as_tensor = format.round(torch.from_numpy(values), saturate=saturate)
    assert as_tensor.dtype == torch.from_numpy(values).dtype
    assert_same(as_tensor, want)


@SMALL_BY_NAME
@pytest.mark.parametrize("saturate", [False, True], ids=["overflow", "saturate"])
def test_rounding_of_every_float16_and_bfloat16(format, saturate):
    codes = np.arange(1 << 16)
    halves = codes.astype(np.uint16).view(np.float16)
    brains = torch.from_numpy(codes.astype(np.int16)).view(torch.bfloat16)
    rounded = format.round(halves, saturate=saturate)
    assert rounded.dtype == np.float16
    with np.errstate(over="ignore"):  # BF16 has 65536, float16 has not
        assert_same(rounded, true_round(format, halves, saturate).astype(np.float16))
    tensor = format.round(torch.from_numpy(halves), saturate=saturate)
    assert tensor.dtype == torch.float16
    assert_same(tensor, rounded)
    rounded = format.round(brains, saturate=saturate)
    assert rounded.dtype == torch.bfloat16
    want = torch.from_numpy(true_round(format, brains.double().numpy(), saturate))
    assert_same(rounded.double(), want.bfloat16().double())


@SMALL_BY_NAME
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounding_of_random_patterns(format, dtype):
    values = random_patterns(dtype, 200_000, seed=2)
    assert_same(format.round(values), true_round(format, values))


def test_fp32_rounds_float64_as_numpy_does():
    numbers = widened(random_patterns(np.float32, 200_000, seed=3))
    numbers = numbers[np.isfinite(numbers)]
    after = np.nextafter(numbers.astype(np.float32), np.float32(np.inf)).astype(np.float64)
    after[np.isinf(after)] = 2.0**128
    ties = (numbers + after) / 2
    beside = [np.nextafter(ties, -np.inf), np.nextafter(ties, np.inf)]
    values = np.concatenate([numbers, ties, *beside, random_patterns(np.float64, 200_000, seed=4)])
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        want = values.astype(np.float32)
    assert np.isinf(want).any()
    assert ((want != 0) & (np.abs(want) < FP32.min_normal)).any()
    assert_same(FP32.round(values), want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(FP32.encode(values)[numbers], want.view(np.uint32)[numbers])


def test_fp32_leaves_float32_as_it_is_in_a_new_array():
    values = random_patterns(np.float32, 100_000, seed=5)
    rounded = FP32.round(values)
    assert_same(rounded, values)
    assert not np.shares_memory(rounded, values)
    numbers = ~np.isnan(values)
    encoded = FP32.encode(values)
    np.testing.assert_array_equal(encoded[numbers], values.view(np.uint32)[numbers])
    assert (encoded[~numbers] == FP32.encode(math.nan)).all()
    assert_same(Format("FP64", 11, 52).round(values), values)  # by way of float64


@pytest.mark.parametrize("format", [FP16, BF16, FP8_E4M3, FP8_E5M2], ids=lambda f: f.name)
def test_encode_gives_the_bits_of_ml_dtypes_casts(format):
    values = critical(format, np.float32)
    with np.errstate(over="ignore"):
        cast = values.astype(NUMPY_DTYPE[format])
    numbers = ~np.isnan(cast.astype(np.float32))
    encoded = format.encode(values)
    np.testing.assert_array_equal(encoded[numbers], cast.view(format.code_dtype)[numbers])
    assert (encoded[~numbers] == format.encode(math.nan)).all()
    assert (~numbers).any()
    tensor = format.encode(torch.from_numpy(values))
    assert tensor.dtype == torch.int64
    np.testing.assert_array_equal(tensor, encoded)


@pytest.mark.parametrize("format", [FP16, BF16, FP8_E5M2], ids=lambda f: f.name)
def test_round_is_torchs_cast_and_back(format):
    values = critical(format, np.float32)
    tensor = torch.from_numpy(values)
    cast = tensor.to(TORCH_DTYPE[format]).float()
    assert_same(format.round(values), cast)
    assert_same(format.round(tensor), cast)


def test_e4m3_overflows_to_nan_by_default_as_ml_dtypes_does():
    values = np.array([448, 464, 464.1, 1000, np.inf, -np.inf, -1000], np.float32)
    theirs = values.astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert_same(FP8_E4M3.round(values), theirs)
    assert_same(FP8_E4M3.round(torch.from_numpy(values)), theirs)
    assert np.isnan(theirs).tolist() == [False, False, True, True, True, True, True]
    assert math.isnan(FP8_E4M3.round(1000.0))


def test_e4m3_saturates_on_demand_as_torchs_cast_does():
    values = critical(FP8_E4M3, np.float32)
    cast = torch.from_numpy(values).to(torch.float8_e4m3fn).float()
    assert_same(FP8_E4M3.round(values, saturate=True), cast)
    assert_same(FP8_E4M3.round(torch.from_numpy(values), saturate=True), cast)
    codes = torch.from_numpy(values).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
    numbers = ~np.isnan(values)
    encoded = FP8_E4M3.encode(values, saturate=True)
    np.testing.assert_array_equal(encoded[numbers], codes[numbers])
    assert FP8_E4M3.round(1000.0, saturate=True) == FP8_E4M3.round(math.inf, saturate=True) == 448
    assert FP8_E4M3.encode(-math.inf, saturate=True) == 0xFE


def test_a_float64_tensor_is_rounded_once_where_torch_rounds_twice():
    above_a_tie = torch.tensor([1 + 2.0**-11 + 2.0**-40], dtype=torch.float64)
    assert above_a_tie.to(torch.float16).item() == 1.0  # by way of float32
    assert FP16.round(above_a_tie).item() == 1 + 2.0**-10


@pytest.mark.parametrize("count", [0, 1, _BLOCK - 1, _BLOCK, _BLOCK + 1, 2 * _BLOCK])
def test_blocks_meet_without_gap(count):
    values = np.linspace(-70000, 70000, count, dtype=np.float32)
    rounded, encoded = FP16.round(values), FP16.encode(values)
    with np.errstate(over="ignore"):
        want = values.astype(np.float16)
    assert_same(rounded, want)
    np.testing.assert_array_equal(encoded, want.view(np.uint16))


# ---- any format, in exact fractions --------------------------------------------------------

CUSTOM = [
    Format("S1E5M7", 5, 7),
    Format("S1E6M9", 6, 9),
    Format("E4M3 IEEE", 4, 3),
    Format("S1E2M1", 2, 1),
    Format("E2M1 fn", 2, 1, has_inf=False),
    Format("E8M7 fn", 8, 7, has_inf=False),  # holds 2**128, which a float32 does not
    Format("S1E7M23", 7, 23),
    Format("S1E8M24", 8, 24),
    Format("S1E10M51", 10, 51),
    Format("S1E10M52", 10, 52),
    Format("FP64", 11, 52),
]


def numbers_around(format: Format, count: int, seed: int) -> list[float]:
    """Ties, near ties and others over the range of a format, and past both of its ends."""
    rng = np.random.default_rng(seed)
    quarters = rng.integers(0, 2 ** min(format.mantissa_bits + 3, 53), count)
    exponents = rng.integers(
        format.min_exponent - format.mantissa_bits - 4,
        format.max_exponent - format.mantissa_bits + 2,
        count,
    )
    exponents = np.minimum(exponents, 1024 - 53 - 2)
    values = np.ldexp(quarters * rng.choice([-1.0, 1.0], count), exponents)
    values = np.concatenate([values, np.nextafter(values, np.inf), random_patterns(float, 200, 6)])
    ends = [format.max, format.min_normal, format.min_subnormal, format.min_subnormal / 2]
    return [*values.tolist(), *ends, 0.0, -0.0, math.inf, -math.inf, math.nan]


def test_rounding_of_any_format_is_exact(subtests):
    for format, dtype in product((*CUSTOM, TF32, FP32), (np.float32, np.float64)):
        with subtests.test(f"{format.name}, {dtype.__name__}"):
            with np.errstate(over="ignore", invalid="ignore"):
                values = np.array(numbers_around(format, 400, seed=7)).astype(dtype)
            for saturate in (False, True):
                want = np.array([exact_round(format, float(v), saturate) for v in values])
                with np.errstate(over="ignore"):
                    assert_same(format.round(values, saturate=saturate), want.astype(dtype))
                decoded = format.decode(format.encode(values, saturate=saturate))
                assert_same(decoded, want)


@st.composite
def formats_and_values(draw: Callable) -> tuple[Format, float]:
    exponent_bits = draw(st.integers(2, 11))
    has_inf = True if exponent_bits == 11 else draw(st.booleans())
    format = Format("any", exponent_bits, draw(st.integers(1, 52)), has_inf)
    lowest = format.min_exponent - format.mantissa_bits - 2
    highest = min(format.max_exponent - format.mantissa_bits + 2, 1024 - 53)
    halves = st.builds(
        math.ldexp, st.integers(-(2**53) + 1, 2**53 - 1).map(float), st.integers(lowest, highest)
    )
    return format, draw(st.one_of(halves, st.floats()))


@settings(max_examples=400, derandomize=True, database=None)
@given(formats_and_values())
def test_rounding_is_exact_for_formats_that_nobody_thought_of(pair):
    format, value = pair
    for saturate in (False, True):
        want = exact_round(format, value, saturate)
        assert_same(format.round(value, saturate=saturate), want)
        assert_same(format.decode(format.encode(value, saturate=saturate)), want)


def test_a_64_bit_format_keeps_its_sign_bit_in_arrays_and_tensors():
    fp64 = Format("FP64", 11, 52)
    values = random_patterns(np.float64, 1000, seed=8)
    values = values[~np.isnan(values)]
    np.testing.assert_array_equal(fp64.encode(values), values.view(np.uint64))
    assert_same(fp64.decode(fp64.encode(values)), values)
    assert_same(fp64.decode(fp64.encode(torch.from_numpy(values))), values)
    assert fp64.decode(fp64.encode(-1.5)) == -1.5


# ---- what may be rounded, and what comes back ----------------------------------------------


def test_a_number_gives_a_float(subtests):
    for format, number in product(
        FORMATS.values(), (3, True, -0.1, np.float32(0.1), np.float64(0.1), np.float16(2))
    ):
        with subtests.test(f"{format.name}, {number!r}"):
            rounded, code = format.round(number), format.encode(number)
            assert type(rounded) is float
            assert type(code) is int
            assert rounded == exact_round(format, float(number)) == format.decode(code)


@BY_NAME
def test_kind_dtype_and_shape_are_those_of_the_input(format):
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        for shape in ((), (0,), (3, 0), (2, 3)):
            tensor = torch.full(shape, 1.0, dtype=dtype)
            rounded = format.round(tensor)
            assert (rounded.dtype, rounded.shape) == (dtype, shape)
            assert (rounded == 1).all()
            codes = format.encode(tensor)
            assert (codes.dtype, codes.shape) == (torch.int64, shape)
    for dtype in (np.float16, np.float32, np.float64):
        for shape in ((), (0,), (3, 0), (2, 3)):
            array = np.full(shape, 1, dtype)
            rounded = format.round(array)
            assert type(rounded) is np.ndarray
            assert (rounded.dtype, rounded.shape) == (dtype, shape)
            assert (rounded == 1).all()
            codes = format.encode(array)
            assert (codes.dtype, codes.shape) == (format.code_dtype, shape)


def test_lists_integers_and_foreign_dtypes_are_rounded_too():
    assert FP16.round([1.0, 2049.0]).tolist() == [1.0, 2048.0]
    assert FP16.round([]).shape == (0,)
    assert FP16.round(np.array([2049, -2049])).dtype == np.float64
    assert FP16.round(np.array([2049, -2049])).tolist() == [2048, -2048]
    assert FP16.round(torch.tensor([2049])).dtype == torch.float64
    assert FP16.encode(np.array([1])).tolist() == [0x3C00]
    brain = np.array([3.0, 1e-9], ml_dtypes.bfloat16)
    assert FP16.round(brain).dtype == ml_dtypes.bfloat16
    assert FP16.round(brain).tolist() == [3, 0]
    eight = torch.tensor([1.125, 448]).to(torch.float8_e4m3fn)
    assert FP8_E5M2.round(eight).float().tolist() == [1.0, 448]
    assert FP16.encode(eight).tolist() == [0x3C80, 0x5F00]


def test_a_code_is_not_squeezed_through_the_narrower_dtype_of_its_value():
    assert BF16.encode(np.array([65504], np.float16)).tolist() == [BF16.encode(65536.0)]
    assert BF16.encode(torch.tensor([65504], dtype=torch.float16)).tolist() == [
        BF16.encode(65536.0)
    ]


@BY_NAME
def test_the_input_is_left_untouched_and_never_given_back(format):
    array = np.array([1 / 3, -1e-30, 1e30, np.nan], np.float32)
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        tensor = torch.from_numpy(array).to(dtype)
        before = tensor.clone()
        rounded = format.round(tensor)
        rounded.zero_()
        format.encode(tensor)
        assert torch.equal(tensor.nan_to_num(), before.nan_to_num())
    for dtype in (np.float16, np.float32, np.float64):
        with np.errstate(over="ignore", under="ignore"):
            values = array.astype(dtype)
        before = values.copy()
        format.round(values)[...] = 0
        format.encode(values)
        np.testing.assert_array_equal(values, before)


@BY_NAME
def test_non_contiguous_input_is_rounded_in_its_own_order(format):
    array = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6)
    for view in (array.T, array[:, ::2], array[::-1]):
        assert_same(format.round(view), format.round(view.copy()))
        np.testing.assert_array_equal(format.encode(view), format.encode(view.copy()))
    tensor = torch.from_numpy(array)
    for view in (tensor.T, tensor[:, ::2]):
        assert_same(format.round(view), format.round(view.contiguous()))
        assert_same(format.encode(view), format.encode(view.contiguous()))


@BY_NAME
def test_a_tensor_that_requires_grad_comes_back_detached(format):
    weight = torch.nn.Parameter(torch.tensor([0.1, 1e-9]))
    for rounded in (format.round(weight), format.round(weight, saturate=True)):
        assert not rounded.requires_grad
        assert type(rounded) is torch.Tensor
    assert weight.requires_grad
    assert format.decode(format.encode(weight)).tolist() == format.round(weight).tolist()


def test_a_subclass_of_tensor_is_a_tensor():
    class Mine(torch.Tensor):
        pass

    mine = torch.tensor([0.1]).as_subclass(Mine)
    assert isinstance(TF32.round(mine), torch.Tensor)
    assert isinstance(FP16.round(mine), torch.Tensor)


@pytest.mark.parametrize("values", [None, "1.5", [None], np.array([1j]), np.array(["2026"], "M8")])
def test_what_is_no_real_number_is_refused(values):
    with pytest.raises(TypeError, match="only real numbers can be rounded"):
        FP16.round(values)
    with pytest.raises(TypeError, match="only real numbers can be rounded"):
        FP16.encode(values)


# ---- out= ----------------------------------------------------------------------------------

ARRAYS = (np.float16, np.float32, np.float64)
TENSORS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
TRICKY = np.array([1 / 3, -1e-30, 70000, -np.inf, np.nan, 450], np.float32).reshape(2, 3)


def test_out_takes_the_result_for_arrays(subtests):
    for format, saturate, dtype in product(FORMATS.values(), (False, True), ARRAYS):
        with subtests.test(f"{format.name}, {saturate}, {dtype.__name__}"):
            with np.errstate(over="ignore", invalid="ignore"):
                want = format.round(TRICKY, saturate=saturate).astype(dtype)
            strided = np.zeros((3, 4), dtype).T[::2]
            for out in (np.empty((2, 3), dtype), np.empty((3, 2), dtype).T, strided):
                assert format.round(TRICKY, saturate=saturate, out=out) is out
                assert_same(out, want)
            listed = np.empty((2, 3), dtype)
            format.round(TRICKY.tolist(), saturate=saturate, out=listed)
            assert_same(listed, want)


def test_out_takes_the_result_for_tensors(subtests):
    for format, saturate, dtype in product(FORMATS.values(), (False, True), TENSORS):
        with subtests.test(f"{format.name}, {saturate}, {dtype}"):
            values = torch.from_numpy(TRICKY)
            want = format.round(values, saturate=saturate).to(dtype)
            strided = torch.zeros((3, 4), dtype=dtype).T[::2]
            parameter = torch.nn.Parameter(torch.zeros((2, 3), dtype=dtype))
            for out in (torch.empty((2, 3), dtype=dtype), strided, parameter):
                assert format.round(values, saturate=saturate, out=out) is out
                assert_same(out.detach().double(), want.double())


def test_out_may_be_the_input_or_overlap_it(subtests):
    for format, saturate in product(FORMATS.values(), (False, True)):
        with subtests.test(f"{format.name}, {saturate}"):
            want = format.round(TRICKY, saturate=saturate)
            array, tensor = TRICKY.copy(), torch.from_numpy(TRICKY.copy())
            format.round(array, saturate=saturate, out=array)
            assert_same(array, want)
            format.round(tensor, saturate=saturate, out=tensor)
            assert_same(tensor, want)
            line = np.linspace(1, 2, 3 * _BLOCK, dtype=np.float32)
            want = format.round(line[:-1].copy(), saturate=saturate)
            format.round(line[:-1], saturate=saturate, out=line[1:])
            assert_same(line[1:], want)


def test_out_works_for_a_single_number():
    out = np.empty(())
    assert FP16.round(2049.0, out=out) is out
    assert out == 2048


def test_out_that_cannot_take_the_result_is_refused():
    values, tensor = np.ones((2, 3), np.float32), torch.ones(2, 3)
    for out in (np.ones((3, 2)), np.ones(6), np.ones((4, 3)), np.ones(())):
        with pytest.raises(ValueError, match=r"out has shape \(.*\), values have \(2, 3\)"):
            FP16.round(values, out=out)
        with pytest.raises(ValueError, match=r"out has shape"):
            TF32.round(tensor, out=torch.from_numpy(out))
        with pytest.raises(ValueError, match=r"out has shape"):
            FP16.round(tensor, out=torch.from_numpy(out))
    for out in (np.ones((2, 3), int), [[0.0] * 3] * 2, tensor):
        with pytest.raises(TypeError, match="out must be a float array"):
            FP16.round(values, out=out)
    for out in (torch.ones(2, 3, dtype=torch.int64), values):
        with pytest.raises(TypeError, match="out must be a float tensor"):
            FP16.round(tensor, out=out)


# ---- the numbers around a number -----------------------------------------------------------


def some(format: Format, values: np.ndarray) -> list[float]:
    """Every value of an 8-bit format; of a larger one a sample that has both of its ends."""
    stride = 1 if format.bits == 8 else 29 if format.bits == 16 else 251
    return [*values[:50].tolist(), *values[50:-50:stride].tolist(), *values[-50:].tolist()]


def true_line(format: Format) -> np.ndarray:
    """The finite numbers in order, with one zero, and what comes after the last."""
    rungs = ladder(format)
    return np.concatenate(
        [-rungs[:0:-1], [-0.0], rungs[1:], [math.inf if format.has_inf else math.nan]]
    )


@SMALL_BY_NAME
def test_ulp_is_the_gap_above_each_number(format):
    rungs = ladder(format)
    gaps = np.append(np.diff(rungs), rungs[-1] - rungs[-2])
    for value, gap in zip(some(format, rungs), some(format, gaps), strict=True):
        assert format.ulp(value) == format.ulp(-value) == gap


@SMALL_BY_NAME
def test_ulp_of_what_rounds_up_to_a_power_of_two_is_the_larger_one(format):
    assert format.ulp(math.nextafter(2.0, 0)) == format.ulp(2.0) == 2 * format.eps
    assert format.ulp(2.0 - format.eps) == format.eps


def test_ulp_is_maths_for_a_float64_and_numpys_for_fp32():
    fp64 = Format("FP64", 11, 52)
    for value in random_patterns(np.float64, 500, seed=9).tolist():
        assert_same(fp64.ulp(value), math.ulp(value))
    for value in random_patterns(np.float32, 500, seed=10):
        with np.errstate(invalid="ignore"):
            spacing = abs(float(np.spacing(value)))
        if np.isfinite(spacing):
            assert FP32.ulp(value) == spacing


@BY_NAME
def test_ulp_at_and_beyond_the_ends(format):
    last = format.ulp(format.max)
    assert last == format.max - format.next_down(format.max)
    assert format.ulp(format.max + last / 4) == last  # still rounds to max
    beyond = format.ulp(4 * format.max)
    assert beyond == math.inf if format.has_inf else math.isnan(beyond)
    assert format.ulp(-math.inf) == math.inf if format.has_inf else True
    assert math.isnan(format.ulp(math.nan))
    for tiny in (0.0, -0.0, format.min_subnormal / 8, format.min_subnormal, format.min_normal):
        assert format.ulp(tiny) == format.min_subnormal


@pytest.mark.parametrize(
    "format",
    [pytest.param(FP16, marks=pytest.mark.slow), FP8_E4M3, FP8_E5M2],
    ids=lambda f: f.name,
)
def test_next_up_of_every_bit_pattern_is_the_next_in_order(format):
    line = true_line(format)
    assert_same([format.next_up(value) for value in line[:-1].tolist()], line[1:])


@pytest.mark.parametrize("format", [FP16, TF32, BF16], ids=lambda f: f.name)
def test_next_up_of_a_sample_of_bit_patterns_is_the_next_in_order(format):
    line = true_line(format)
    got = [format.next_up(value) for value in some(format, line[:-1])]
    assert_same(got, np.array(some(format, line[1:])))


@SMALL_BY_NAME
def test_neighbours_of_a_number_between_two_are_the_two(format):
    rungs, midpoints = steps(format)
    pairs = zip(
        some(format, rungs[:-1]),
        some(format, midpoints[:-1]),
        some(format, rungs[1:]),
        strict=True,
    )
    for below, middle, above in pairs:
        for value in (middle, math.nextafter(below, above), math.nextafter(above, below)):
            assert_same(format.neighbours(value), (below, above))
            assert_same(format.neighbours(-value), (-above, -below))


def test_next_up_and_down_of_fp16_and_fp32_are_numpys_nextafter():
    for format, dtype in ((FP16, np.float16), (FP32, np.float32)):
        values = random_patterns(dtype, 1500, seed=11)
        values = values[~np.isnan(values)]
        with np.errstate(all="ignore"):
            up = np.nextafter(values, dtype(np.inf))
            down = np.nextafter(values, dtype(-np.inf))
        assert_same([format.next_up(v) for v in values], up)
        assert_same([format.next_down(v) for v in values], down)


@BY_NAME
def test_neighbours_beyond_the_largest_number(format):
    above = math.inf if format.has_inf else math.nan
    for value in (
        math.nextafter(format.max, math.inf),
        format.max + format.ulp(format.max) / 2,
        2 * format.max,
        math.inf,
    ):
        assert_same(format.neighbours(value), (format.max, above))
        assert_same(format.neighbours(-value), (-above, -format.max))
    assert_same(format.next_up(format.max), above)
    assert_same(format.next_down(-format.max), -above)
    assert all(math.isnan(n) for n in format.neighbours(math.nan))


@BY_NAME
def test_neighbours_of_the_zeros(format):
    tiny = format.min_subnormal
    for zero in (0.0, -0.0):
        assert format.neighbours(zero) == (-tiny, tiny)
    assert_same(format.next_up(-tiny), -0.0)
    assert_same(format.next_down(tiny), 0.0)
    assert_same(format.neighbours(tiny / 4), (0.0, tiny))
    assert_same(format.neighbours(-tiny / 4), (-tiny, -0.0))


# ---- names ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "format"),
    [
        ("FP32", FP32),
        ("float32", FP32),
        (torch.float32, FP32),
        (torch.float, FP32),
        (np.float32, FP32),
        (np.dtype("float32"), FP32),
        ("tf32", TF32),
        ("fp16", FP16),
        ("float16", FP16),
        ("half", FP16),
        (torch.half, FP16),
        (np.float16, FP16),
        ("bf16", BF16),
        ("bfloat16", BF16),
        (torch.bfloat16, BF16),
        (ml_dtypes.bfloat16, BF16),
        ("FP8_E4M3", FP8_E4M3),
        ("fp8-e4m3", FP8_E4M3),
        ("FP8 E4M3", FP8_E4M3),
        ("E4M3", FP8_E4M3),
        (torch.float8_e4m3fn, FP8_E4M3),
        (ml_dtypes.float8_e4m3fn, FP8_E4M3),
        ("e5m2", FP8_E5M2),
        (torch.float8_e5m2, FP8_E5M2),
        (ml_dtypes.float8_e5m2, FP8_E5M2),
        *((format, format) for format in FORMATS.values()),
    ],
    ids=str,
)
def test_get_format_knows_names_and_dtypes(name, format):
    assert get_format(name) is format


@pytest.mark.parametrize(
    "name",
    [
        "FP64",
        "",
        None,
        float,
        torch.float64,
        torch.int8,
        torch.float8_e4m3fnuz,
        torch.float8_e5m2fnuz,
        ml_dtypes.float8_e4m3,  # the IEEE layout, whose largest number is 240
    ],
    ids=str,
)
def test_get_format_lists_what_there_is_when_it_knows_no_such_format(name):
    with pytest.raises(ValueError, match=r"no format called .*; there are FP32, TF32, FP16, BF16"):
        get_format(name)


def test_formats_are_listed_from_wide_to_narrow_under_their_names():
    assert list(FORMATS) == ["FP32", "TF32", "FP16", "BF16", "FP8 E4M3", "FP8 E5M2"]
    assert all(format.name == name for name, format in FORMATS.items())
    widths = [format.bits for format in FORMATS.values()]
    assert widths == sorted(widths, reverse=True)


def test_formats_compare_and_hash_by_value_and_cannot_be_changed():
    assert {Format("FP16", 5, 10): 1}[FP16] == 1
    with pytest.raises(AttributeError):
        FP16.mantissa_bits = 11
