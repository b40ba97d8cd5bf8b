"""Numbers as people type them: one table, for Python and for the page that works without it."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, Page

from amp_lessons.core.es_modules import join_modules
from amp_lessons.quiz.exports import contents
from amp_lessons.quiz.marking import AnswerError, with_unit
from amp_lessons.quiz.typed_numbers import LONGEST, Typed, forms, read_number

READ = """
112                ||       112      |
 112 GB            |GB|     112      |
112gb              |GB|     112      |
1,000              ||       1000     |
65,504             ||       65504    |
1,234,567.5        ||       1234567.5|
65_536             ||       65536    |
12 345             ||       12345    |
.5                 ||       0.5      |
5.                 ||       5        |
1e-8               ||       1e-8     |
1E+3               ||       1000     |
−3                 ||       -3       |
+3                 ||       3        |
inf                ||       inf      |
5 tokens a second  |tokens a second|5|
5tokensasecond     |tokens a second|5|
1 step             |steps|  1        |
about 112          ||       112      |
~112 GB            |GB|     112      |
approx. 7          ||       7        |
0.2*65536          ||       13107.2  |0.2*65536 = 13,107.2
0.2 × 65,536       ||       13107.2  |0.2 * 65,536 = 13,107.2
0.2*65536 bytes    |bytes|  13107.2  |0.2*65536 bytes = 13,107.2 bytes
13k                ||       13000    |13k = 13,000
13K                |bytes|  13000    |13K = 13,000 bytes
13 k bytes         |bytes|  13000    |13 k bytes = 13,000 bytes
about 13k          ||       13000    |13k = 13,000
~13k               ||       13000    |13k = 13,000
2M                 ||       2e6      |2M = 2,000,000
1.5G               ||       1.5e9    |1.5G = 1,500,000,000
(1+2)*3k           ||       9000     |(1+2)*3k = 9000
2^-24              ||       5.960464477539063e-08|2^-24 = 5.96046e-08
2**16              ||       65536    |2**16 = 65,536
3*2^10             ||       3072     |3*2^10 = 3072
2^2^3              ||       256      |2^2^3 = 256
-2^2               ||       -4       |-2^2 = -4
2^0.5              ||       1.4142135623730951|2^0.5 = 1.41421
10-3-2             ||       5        |10-3-2 = 5
100/5/2            ||       10       |100/5/2 = 10
2*-3               ||       -6       |2*-3 = -6
1/3                ||       0.3333333333333333|1/3 = 0.333333
33%                ||       0.33     |33% = 0.33
33 per cent        ||       0.33     |33 % = 0.33
20%*65536          |bytes|  13107.2  |20%*65536 = 13,107.2 bytes
33%                |%|      33       |
33                 |percent|33       |
33 percent         |percent|33       |
100/3 %            |%|      33.333333333333336|100/3 % = 33.3333 %
16.8 GB            |GB|     16.8     |
16.8G              |GB|     16.8     |
16.8 GiB           |GB|     18.0388626432|16.8 GiB = 18.0389 GB
500 MB             |GB|     0.5      |500 MB = 0.5 GB
1 KiB              |bytes|  1024     |1 KiB = 1024 bytes
109 ms             |ms|     109      |
0.109 s            |ms|     109      |0.109 s = 109 ms
2 μs               |µs|     2        |
50 us              |ms|     0.05     |50 us = 0.05 ms
"""
REFUSED = """
               ||is not a number
GB             |GB|is not a number
twelve         ||is not a number
1,00           ||is not a number
1,2345         ||is not a number
1/0            ||is not a number
nan            ||is not a number
inf-inf        ||is not a number
2^^3           ||is not a number
0^-1           ||is not a number
(-8)^0.5       ||is not a number
9^99999        ||is not a number
--3            ||is not a number
(2             ||is not a number
2)             ||is not a number
½              ||is not a number
it's 5         ||is not a number
2*             ||is not a number
__import__('os')||is not a number
1e             |GB|'e' is not a unit
0x10           ||is not a number
12 apples      ||'apples' is not a unit
109 m          |ms|'m' is not a unit
109 GB         |ms|'GB' is not a unit
7 GB           ||'GB' is not a unit
33%            |GB|doesn't want a percentage
500M           |GB|it isn't clear what 'M' counts
13k            |GB|it isn't clear what 'k' counts
"""


def rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.strip("\n").splitlines()]


@pytest.mark.parametrize(("text", "unit", "value", "read_as"), rows(READ))
def test_what_is_typed_is_read(text, unit, value, read_as):
    assert read_number(text, unit) == (float(value), read_as)


@pytest.mark.parametrize(("text", "unit", "output"), rows(REFUSED))
def test_what_is_no_number_here_is_told_with_examples(text, unit, output):
    with pytest.raises(AnswerError) as caught:
        read_number(text, unit)
    assert output in str(caught.value)
    assert forms(unit) in str(caught.value)


@pytest.mark.parametrize("unit", ["", "%", "percent", "GB", "ms", "steps", "tokens a second"])
def test_each_example_can_be_typed(unit):
    for example in forms(unit).replace(" or ", ", ").split(", "):
        assert read_number(example, unit).value > 0


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_is_shown_can_be_typed_again(value):
    assert read_number(with_unit(value, "GB"), "GB").value == pytest.approx(value, rel=1e-5)


@given(st.text(alphabet="0123456789.,+-*/^()kMG% e", max_size=120))
def test_whatever_is_typed_is_read_or_refused(text):
    with contextlib.suppress(AnswerError):
        assert not math.isnan(read_number(text).value)


def test_a_tower_of_parentheses_is_refused():
    with pytest.raises(AnswerError):
        read_number("(" * 5000 + "1" + ")" * 5000)
    deep = "(" * (LONGEST // 2 - 1)
    assert read_number(deep + "1" + deep.replace("(", ")")).value == 1


# ---- the same without Python ---------------------------------------------------------------------


@pytest.fixture
def reader(chromium: Browser) -> Iterator[Page]:
    """A page with the module that reads numbers, as `readTyped`."""
    tab = chromium.new_page()
    tab.set_content("<!doctype html><title>Numbers</title>")
    text = join_modules("typed_numbers.mjs", contents.STATIC)
    tab.add_script_tag(content=f"window.readTyped = (() => {{{text}\nreturn readTyped}})()")
    yield tab
    tab.close()


READ_ALL = """(cases) => cases.map(([text, unit]) => {
  try {
    const { value, readAs } = readTyped(text, unit);
    return { value: String(value), readAs };
  } catch (fault) { return { error: fault.message }; }
})"""
ODD = r"""
-2^3|3/4|-1/3|1_000|− 5|-Infinity|1e400|-1e400|10^400|10^-400|0^0|1.5^2|1.1^-3|--3|^3|"q"|it's "q"
a\b|1e-320|10^-8|10^-5|10^23|10^308|10^309|3^-7|7^-20|5^30|2^1024|2^-1074|123456789012345678|1e5GB
1e5|e5|1.|+.5e1|--|1 / 3|-0|+0|00012|1e0005|1/2/3|2^-1080|0.1^3|6__5|5_|1.5.2|2 3|(1)(2)|7%%|7kk|kB
"""


def python_reads(text: str, unit: str) -> Typed | str:
    """The number, or what is wrong with the text."""
    try:
        return read_number(text, unit)
    except AnswerError as error:
        return str(error)


@pytest.mark.browser
def test_the_page_reads_numbers_as_python_does(reader: Page) -> None:
    draw = random.Random(0)
    written = [text for line in ODD.strip().splitlines() for text in line.split("|")]
    written += [f"{draw.randint(2, 20)}^{draw.randint(-60, 60)}" for _ in range(200)]
    signs = "0123456789.,+-*/^()kMG% e"
    written += ["".join(draw.choices(signs, k=draw.randint(1, 9))) for _ in range(2000)]
    cases = [[text, unit] for text in written for unit in ("", "GB", "%", "tokens a second")]
    cases += [row[:2] for row in rows(READ) + rows(REFUSED)]
    read = refused = 0
    for (text, unit), got in zip(cases, reader.evaluate(READ_ALL, cases), strict=True):
        message = python_reads(text, unit)
        if isinstance(message, str):
            assert got == {"error": message}, (text, unit)
            refused += 1
        else:
            assert float(got["value"]) == pytest.approx(message.value, rel=2.3e-16, abs=0), text
            assert got["readAs"] == message.read_as, (text, unit)
            read += 1
    assert min(read, refused) > 500


@pytest.mark.browser
def test_powers_of_whole_numbers_come_out_to_the_last_bit(reader: Page) -> None:
    """An exact answer of 1e-8 must accept 10^-8."""
    texts = [f"2^{size}" for size in range(-1080, 1024)]
    texts += [f"10^{size}" for size in range(-22, 23)]  # beyond, Python itself is off by a bit
    output = reader.evaluate("(ts) => ts.map((text) => readTyped(text).value)", texts)
    assert list(map(float, output)) == [read_number(text).value for text in texts]
