"""blocks.mjs says what amp_lessons.amp.numbers.blocks says, bit by bit."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
import pages
import pytest
import torch

from amp_lessons.amp.numbers import MXFP4, NVFP4, BlockFormat, ScaleRounding, quantize_blocks
from amp_lessons.lessons.widgets.block_explorer import ROUNDINGS
from amp_lessons.lessons.widgets.block_fates import CLOSE, formats, larger

NUMBERS = 32  # in a row, which is one block, or two of NVFP4
MX = ("MXFP8", "MXFP4")
CASES = [(name, rounding) for name in MX for rounding in ROUNDINGS]
CASES += [("FP8", "FLOOR"), ("NVFP4", "FLOOR")]

# Numbers travel as the bytes of a Float32Array: quick, and NaN, inf and -0 arrive as they left.
_QUANTIZE = """async ([name, rounding, text, count]) => {
  const { BLOCK_FORMATS, quantize } = await import("/blocks.mjs");
  const format = BLOCK_FORMATS.find((each) => each.name === name);
  const numbers = new Float32Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const out = { scale: [], element: [], kept: [], cut: [] };
  for (let start = 0; start < numbers.length; start += count) {
    const row = [...numbers.slice(start, start + count)];
    for (const { scale, stored } of quantize(row, format, rounding)) {
      out.scale.push(scale);
      for (const one of stored)
        for (const name of ["element", "kept", "cut"]) out[name].push(one[name]);
    }
  }
  const pack = (values) => {
    const bytes = new Uint8Array(Float32Array.from(values).buffer);
    const parts = [];
    for (let i = 0; i < bytes.length; i += 32768)
      parts.push(String.fromCharCode(...bytes.subarray(i, i + 32768)));
    return btoa(parts.join(""));
  };
  return Object.values(out).map(pack);
}"""


def amax_at_edges(format: BlockFormat) -> np.ndarray:
    """Where a scale changes: at powers of two, and half-way between two numbers of E4M3."""
    exponents = [-127, -126, *range(-140, 119, 6)]
    return (
        format.element.max * np.ldexp(1 + np.arange(16) / 16, np.array(exponents)[:, None]).ravel()
    )


def hard_blocks(format: BlockFormat) -> np.ndarray:
    """Rows of numbers: of any bits, of one size, ties, both ends of float32, and special values."""
    rng = np.random.default_rng(0)
    size = (1500, NUMBERS)
    any_bits = rng.integers(0, 1 << 32, size, dtype=np.uint32).view(np.float32)
    finite = np.where(np.isfinite(any_bits), any_bits, np.float32(1))
    exponents = rng.integers(-149, 128, (1500, 1))
    normal = rng.standard_normal(size)
    one_size = np.ldexp(normal, exponents)
    outliers = normal * np.where(rng.random(size) < 0.05, np.exp2(rng.uniform(0, 20, size)), 1)
    elements = format.element.decode(np.arange(1 << (format.element.bits - 1)))
    elements = elements[np.isfinite(elements)]
    ties = np.concatenate([elements, (elements[1:] + elements[:-1]) / 2, elements[-1:] * 17 / 16])
    chosen = np.ldexp(rng.choice(ties, size) * rng.choice([-1, 1], size), exponents // 2)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 2.0**-126, 3.4028235e38, 1.0, -448.0]
    specials = rng.choice(special, size)
    alone = np.zeros((len(special) * 2, NUMBERS))
    for i, value in enumerate(special):
        alone[2 * i, 3] = value
        alone[2 * i + 1] = value
    with np.errstate(over="ignore", invalid="ignore"):
        edges = amax_at_edges(format).astype(np.float32)
        beside = [np.nextafter(edges, np.float32(side)) for side in (0, np.inf)]
        amax = np.concatenate([edges, *beside])[:, None]
        led = np.concatenate([amax, amax * rng.uniform(-1, 1, (len(amax), NUMBERS - 1))], 1)
        parts = [any_bits, finite, one_size, outliers, chosen, specials, alone, led]
        return np.concatenate([part.astype(np.float32) for part in parts])


@pytest.mark.browser
@pytest.mark.parametrize(("name", "rounding"), CASES)
def test_every_bit(open_page: Callable[..., Any], name: str, rounding: str) -> None:
    format = formats(rounding)[name]
    rows = hard_blocks(format)
    assert len(rows) > 11_000
    packed = base64.b64encode(rows.tobytes()).decode()
    found = pages.value_of(open_page(), _QUANTIZE, [name, rounding, packed, NUMBERS])
    scale, element, kept, cut = (
        np.frombuffer(base64.b64decode(each), np.float32) for each in found
    )
    ours = quantize_blocks(torch.from_numpy(rows), format)
    blocks = NUMBERS // min(format.block[1] or NUMBERS, NUMBERS)
    assert ours.scales.shape == (len(rows), blocks)
    for what, got, expected in (
        ("scale", scale.reshape(-1, blocks), ours.scales),
        ("element", element.reshape(-1, NUMBERS), ours.elements),
        ("kept", kept.reshape(-1, NUMBERS), ours.dequantize()),
    ):
        assert_same(got, expected.numpy(), rows, what)
    if name in MX:  # whose division is exact
        scaled = torch.from_numpy(rows).double() / ours.scales
        expected = larger(format.element).round(scaled).abs() > format.element.max
        assert expected.sum() > 400  # inf, if nothing else
        assert (cut.reshape(-1, NUMBERS) == expected.numpy()).all()


def assert_same(got: np.ndarray, expected: np.ndarray, rows: np.ndarray, what: str) -> None:
    """Equal bit by bit, but for the bits of a NaN."""
    assert got.shape == expected.shape
    same = (got.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(got) & np.isnan(expected))
    bad = np.flatnonzero(~same.all(1))
    assert not len(bad), f"{what}, {len(bad)} rows: {rows[bad[0]]} {got[bad[0]]} {expected[bad[0]]}"


@pytest.mark.browser
def test_a_block_of_16_is_a_block(open_page: Callable[..., Any]) -> None:
    """The widget also shows half a block of MX: the rest counts as zeros."""
    row = hard_blocks(MXFP4)[3000:3200, :16]
    packed = base64.b64encode(np.ascontiguousarray(row).tobytes()).decode()
    found = pages.value_of(open_page(), _QUANTIZE, ["MXFP4", "FLOOR", packed, 16])
    kept = np.frombuffer(base64.b64decode(found[2]), np.float32).reshape(-1, 16)
    padded = np.concatenate([row, np.zeros_like(row)], 1)
    expected = quantize_blocks(torch.from_numpy(padded), MXFP4).dequantize()[:, :16]
    assert_same(kept, expected.numpy(), row, "kept")


@pytest.mark.browser
def test_the_formats_and_the_names_of_roundings(open_page: Callable[..., Any]) -> None:
    code = """async () => {
      const { BLOCK_FORMATS, ROUNDINGS } = await import("/blocks.mjs");
      const formats = BLOCK_FORMATS.map(({ block, ...format }) => ({
        ...format,
        block: Number.isFinite(block) ? block : null,
      }));
      return [formats, ROUNDINGS];
    }"""
    theirs, roundings = pages.value_of(open_page(), code)
    assert roundings == {rounding.name: rounding.value for rounding in ScaleRounding}
    assert list(roundings) == list(ROUNDINGS)
    ours = formats("FLOOR")
    assert [each["name"] for each in theirs] == list(ours)
    for each, format in zip(theirs, ours.values(), strict=True):
        bits = format.element.exponent_bits, format.element.mantissa_bits
        assert (each["element"]["exponentBits"], each["element"]["mantissaBits"]) == bits
        assert each["block"] == format.block[1]
        assert each["scale"] == type(format.scale).__name__.removesuffix("Scale")
        # Rounding a normal number to the nearest misses it by half an ulp at most.
        half_ulp = 2.0 ** -(format.element.mantissa_bits + 1)
        assert each["close"] == CLOSE[each["name"]]
        assert half_ulp / (1 + half_ulp) <= each["close"] < 1.05 * half_ulp / (1 + half_ulp)


def test_nvfp4_is_that_of_a_tensor_whose_second_scale_is_1() -> None:
    rows = torch.from_numpy(hard_blocks(NVFP4))
    rows = rows[(rows.abs() <= 6 * 448).all(1)]
    assert len(rows) > 2_000
    largest = torch.full((1, NUMBERS), 6.0 * 448)
    whole = quantize_blocks(torch.cat([rows, largest]), NVFP4)
    assert whole.tensor_scale == 1
    alone = quantize_blocks(rows, formats("FLOOR")["NVFP4"])
    assert torch.equal(whole.scales[:-1], alone.scales)
    assert torch.equal(whole.elements[:-1], alone.elements)
