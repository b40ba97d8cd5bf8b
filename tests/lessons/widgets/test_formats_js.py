"""formats.mjs says what amp_lessons.amp.numbers.formats says, bit by bit."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pages
import pytest

from amp_lessons.amp.numbers.formats import FORMATS, FP4_E2M1, FP6_E3M2, Format
from amp_lessons.lessons.widgets import BitExplorer

KINDS = ["zero", "subnormal", "normal", "inf", "nan"]
CUSTOM = [
    Format("E2M1", 2, 1, has_inf=False),
    Format("E3M2", 3, 2),
    Format("E5M5", 5, 5, has_inf=False),
    Format("E11M20", 11, 20),
    Format("E8M23fn", 8, 23, has_inf=False),
    FP4_E2M1,
    FP6_E3M2,
]
ALL = [*FORMATS.values(), *CUSTOM]
EXHAUSTIVE_BITS = 16
SAMPLE_NEXT = 4000
SAMPLE = 5_000


def of_which_gate(*names: str) -> list[Any]:
    """All formats for a test, of which those with these names are tried in the gate."""
    marks = {f.name: [] if f.name in names else [pytest.mark.slow] for f in ALL}
    return [pytest.param(f, id=f.name, marks=marks[f.name]) for f in ALL]


# Numbers travel as the bytes of a Float64Array: quick, and NaN, inf and -0 arrive as they left.
_HELPERS = """
const unpack = (text) =>
  new Float64Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
const pack = (numbers) => {
  const bytes = new Uint8Array(Float64Array.from(numbers).buffer);
  let text = "";
  for (let i = 0; i < bytes.length; i += 32768) {
    text += String.fromCharCode(...bytes.subarray(i, i + 32768));
  }
  return btoa(text);
};
const formats = await import("/formats.mjs");
const format = plain && formats.makeFormat(plain);
"""


def plain(format: Format) -> dict[str, Any]:
    names = ("name", "exponent_bits", "mantissa_bits", "has_inf", "has_nan")
    return {name: getattr(format, name) for name in names}


def pack(numbers: Any) -> str:
    return base64.b64encode(np.asarray(numbers, dtype="<f8").tobytes()).decode()


def unpack(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), dtype="<f8")


@pytest.fixture
def run_js(open_page: Callable[..., Any]) -> Callable[..., Any]:
    """Run the body of a function of ``plain`` (a format) and ``input`` (packed) in the browser."""
    page = open_page()

    def run(body: str, format: Format | None = None, numbers: Any = ()) -> Any:
        argument = [plain(format) if format else None, pack(numbers)]
        return pages.value_of(page, f"async ([plain, input]) => {{{_HELPERS}\n{body}}}", argument)

    return run


def patterns(format: Format) -> np.ndarray:
    """Every pattern of a narrow format; of a wide one a sample, with both ends of each range.

    The second half is the first with the sign bit set.
    """
    sign = 1 << (format.bits - 1)
    if format.bits <= EXHAUSTIVE_BITS:
        return np.arange(2 * sign)
    random = np.random.default_rng(format.bits).integers(0, sign, SAMPLE)
    one = 1 << format.mantissa_bits  # the smallest normal number
    ends = [c + d for c in (3, one, format._max_code) for d in range(-3, 4)]
    positive = np.concatenate([random, [c for c in ends if c < sign], [sign - 1]])
    return np.concatenate([positive, positive + sign])


def assert_same(got: np.ndarray, expected: Any, codes: np.ndarray, what: str) -> None:
    """Equal number by number, with NaN equal to NaN and -0.0 different from 0.0."""
    expected = np.asarray(expected, dtype=np.float64)
    assert got.shape == expected.shape
    both_nan = np.isnan(got) & np.isnan(expected)
    equal = both_nan | ((got == expected) & (np.signbit(got) == np.signbit(expected)))
    bad = np.flatnonzero(~equal)[:5]
    assert equal.all(), f"{what}: {[(codes[i], got[i], expected[i]) for i in bad]}"


@pytest.mark.browser
def test_the_two_lists_of_formats_agree(run_js: Callable[..., Any]) -> None:
    ours = BitExplorer().get_state("formats")["formats"]
    assert len(ours) == len(FORMATS) == 6
    assert run_js("return formats.FORMATS;") == ours


def all_next_up(format: Format, values: np.ndarray) -> np.ndarray:
    """`Format.next_up` of each value. Asked one by one, 65,536 values take five seconds: so it's
    asked for a sample and for the ends, and in between a value's neighbour is the next by size."""
    if values.size <= 4 * SAMPLE_NEXT:
        return np.array([format.next_up(value) for value in values.tolist()])
    ordered = np.unique(values[np.isfinite(values)])
    place = np.searchsorted(ordered, values, side="right")
    above = ordered[np.minimum(place, ordered.size - 1)]
    above[(above == 0) & (values < 0)] = -0.0
    direct = ~np.isfinite(values) | (place == ordered.size)
    direct[:: values.size // SAMPLE_NEXT] = True
    asked = np.array([format.next_up(value) for value in values[direct].tolist()])
    some = np.isfinite(values[direct]) & (place[direct] < ordered.size)
    assert_same(above[direct][some], asked[some], values[direct][some], f"{format.name} next_up")
    above[direct] = asked
    return above


@pytest.mark.browser
@pytest.mark.parametrize("format", of_which_gate("FP8 E4M3", "FP32", "FP4 E2M1"))
def test_patterns(run_js: Callable[..., Any], format: Format) -> None:
    codes = patterns(format)
    assert codes.size >= min(1 << format.bits, SAMPLE)
    got = run_js(
        """
        const codes = [...unpack(input)];
        const values = codes.map((code) => formats.decode(format, code));
        const split = codes.map((code) => formats.fields(format, code));
        const kinds = ["zero", "subnormal", "normal", "inf", "nan"];
        return {
          decode: pack(values),
          encode: pack(values.map((value) => formats.encode(format, value))),
          ulp: pack(values.map((value) => formats.ulp(format, value))),
          nextUp: pack(values.map((value) => formats.nextUp(format, value))),
          nextDown: pack(values.map((value) => formats.nextDown(format, value))),
          sign: pack(split.map(({ sign }) => sign)),
          exponent: pack(split.map(({ exponent }) => exponent)),
          mantissa: pack(split.map(({ mantissa }) => mantissa)),
          kind: pack(split.map(({ kind }) => kinds.indexOf(kind))),
        };
        """,
        format,
        codes,
    )
    values = format.decode(codes)
    fields = [format.fields(code) for code in codes.tolist()]
    above = all_next_up(format, values)
    # next_down(x) is -next_up(-x), and -x stands half of the patterns away.
    below = -np.roll(above, codes.size // 2)
    some = slice(None, None, max(codes.size // 2000, 1))
    direct = [format.next_down(value) for value in values[some].tolist()]
    assert_same(below[some], direct, codes[some], f"{format.name} next_down")
    encoded = np.where(np.isnan(values), format.encode(math.nan), codes)  # one NaN for all
    expected = {
        "decode": values,
        "encode": encoded,
        "ulp": [format.ulp(value) for value in values.tolist()],
        "nextUp": above,
        "nextDown": below,
        "sign": [f.sign for f in fields],
        "exponent": [f.exponent for f in fields],
        "mantissa": [f.mantissa for f in fields],
        "kind": [KINDS.index(f.kind) for f in fields],
    }
    assert got.keys() == expected.keys()
    for what, numbers in expected.items():
        assert_same(unpack(got[what]), numbers, codes, f"{format.name} {what}")
    print(f"{format.name}: {codes.size} patterns x {len(expected)} functions")


def hard_numbers(format: Format) -> np.ndarray:
    """Doubles that try rounding: ties, their two neighbours, both ends, and any bits at all."""
    rng = np.random.default_rng(format.bits)
    codes = np.unique(np.minimum(patterns(format) % (1 << (format.bits - 1)), format._max_code))
    rng.shuffle(codes)
    values = format.decode(codes[:12_000])
    ulps = np.array([format.ulp(value) for value in values.tolist()])
    ties = np.concatenate([values + ulps / 2, values - ulps / 4, values[-5:] + ulps[-5:]])
    with np.errstate(over="ignore"):  # the largest format reaches as far as float64 does
        around_max = format.max + format.ulp(format.max) * np.array([0, 0.25, 0.5, 0.75, 1, 2])
    tiny = format.min_subnormal * np.array([0.25, 0.5, 0.75, 1, 1.25, 1.5, 2.5])
    exact = np.concatenate([ties, around_max, tiny])
    beside = np.concatenate([np.nextafter(exact, np.inf), np.nextafter(exact, 0)])
    any_bits = rng.integers(0, 1 << 63, 10_000, dtype=np.int64).view(np.float64)
    spread = np.exp2(
        rng.uniform(format.min_exponent - format.mantissa_bits - 3, format.max_exponent + 1, 20_000)
    )
    special = np.array([0.0, np.inf, np.nan, 5e-324, 1.7976931348623157e308])
    numbers = np.concatenate([values, exact, beside, any_bits, spread, special])
    numbers = np.where(np.isnan(numbers), np.nan, numbers)
    return np.concatenate([numbers, np.where(np.isnan(numbers), np.nan, -numbers)])


@pytest.mark.browser
@pytest.mark.parametrize("format", of_which_gate("FP8 E4M3", "FP16"))
def test_encode(run_js: Callable[..., Any], format: Format) -> None:
    numbers = hard_numbers(format)
    assert numbers.size > 60_000
    got = run_js(
        """
        const numbers = [...unpack(input)];
        const codes = (options) => pack(numbers.map((x) => formats.encode(format, x, options)));
        return [codes(), codes({ saturate: true })];
        """,
        format,
        numbers,
    )
    for codes, saturate in zip(got, (False, True), strict=True):
        expected = format.encode(numbers, saturate=saturate)
        assert_same(unpack(codes), expected, numbers, f"{format.name} saturate={saturate}")
    print(f"{format.name}: {numbers.size} numbers encoded, twice")


@pytest.mark.browser
@pytest.mark.parametrize("format", of_which_gate("FP16", "FP4 E2M1"))
def test_around_any_number(run_js: Callable[..., Any], format: Format) -> None:
    """The neighbours of numbers that the format does not have."""
    numbers = np.random.default_rng(0).choice(hard_numbers(format), 2_000)
    got = run_js(
        """
        const numbers = [...unpack(input)];
        const names = ["round", "ulp", "nextUp", "nextDown"];
        return names.map((name) => pack(numbers.map((x) => formats[name](format, x))));
        """,
        format,
        numbers,
    )
    for packed, ours in zip(got, ("round", "ulp", "next_up", "next_down"), strict=True):
        expected = [getattr(format, ours)(number) for number in numbers.tolist()]
        assert_same(unpack(packed), expected, numbers, f"{format.name} {ours}")


@pytest.mark.browser
def test_every_digit(run_js: Callable[..., Any]) -> None:
    rng = np.random.default_rng(0)
    any_bits = rng.integers(0, 1 << 63, 2_000, dtype=np.int64).view(np.float64)
    short = [format.decode(patterns(format)[-700:]) for format in FORMATS.values()]
    numbers = np.concatenate([any_bits, -any_bits, *short, [0.1, 5e-324, 2.0**1023, 2.0**-1074]])
    got = run_js("return [...unpack(input)].map(formats.exactDecimal);", None, numbers)
    expected = [exact_digits(number) for number in numbers.tolist()]
    assert got == expected
    assert len(got) > 6_000
    print(f"{len(got)} numbers, {sum(map(len, got))} digits")


def exact_digits(number: float) -> str:
    return str(number) if not math.isfinite(number) else f"{Decimal(number):f}"


@pytest.mark.browser
def test_digits_tell_neighbours_apart(run_js: Callable[..., Any]) -> None:
    for format in FORMATS.values():
        values = np.unique(np.abs(format.decode(patterns(format))))
        values = values[np.isfinite(values)]
        texts = run_js(
            "return [...unpack(input)].map((x) => formats.inDigits(format, x));", format, values
        )
        assert format.encode(np.array([float(t) for t in texts])).tolist() == (
            format.encode(values).tolist()
        )


@pytest.mark.browser
def test_what_is_no_pattern_is_refused(run_js: Callable[..., Any]) -> None:
    message = """
        try { return formats.decode(format, code) } catch (error) { return error.message }
    """
    half = FORMATS["FP16"]
    assert "65536 is not a bit pattern of FP16" in run_js(f"const code = 65536;{message}", half)
    assert "-1 is not a bit pattern" in run_js(f"const code = -1;{message}", half)
    assert "0.5 is not a bit pattern" in run_js(f"const code = 0.5;{message}", half)
