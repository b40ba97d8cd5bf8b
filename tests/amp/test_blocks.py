"""blocks/ to the bit against ml_dtypes, gfloat, torchao and torch, and what each option changes.

In the gate 20,000 blocks are compared in each family of formats, and a million in `make test-long`.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import block_references as reference
import gfloat
import numpy as np
import pytest
import torch
from block_references import random_blocks, same
from scipy.linalg import hadamard as scipys_hadamard
from torch.nn.functional import ScalingType, scaled_mm

from amp_lessons.amp.numbers import (
    FP4_E2M1,
    FP6_E2M3,
    FP6_E3M2,
    FP8_1X128,
    FP8_128X128,
    FP8_E4M3,
    FP8_E5M2,
    FP8_ROWWISE,
    FP8_TENSORWISE,
    MXFP4,
    MXFP6_E2M3,
    MXFP6_E3M2,
    MXFP8,
    MXFP8_E5M2,
    NVFP4,
    Accumulator,
    Arithmetic,
    BlockTensor,
    E4M3Scale,
    E8M0Scale,
    ElementRounding,
    Format,
    FP32Scale,
    ScaleRounding,
    block_matmul,
    hadamard,
    quantize_blocks,
    random_hadamard,
    random_signs,
    relative_error,
)

MX = (MXFP8, MXFP8_E5M2, MXFP6_E2M3, MXFP6_E3M2, MXFP4)
SMALL = (FP6_E2M3, FP6_E3M2, FP4_E2M1)
BY_NAME = {"ids": lambda f: getattr(f, "name", str(f))}
ROUNDINGS = pytest.mark.parametrize("rounding", ScaleRounding, ids=lambda r: r.name)
# How many blocks a family of formats is compared on.
COUNTS = pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
INF, NAN = math.inf, math.nan


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def in_parts(count: int, shares: int, size: int):
    """Blocks for one of some comparisons that share a count; a million at a time is too much."""
    left, seed = count // shares, 0
    while left > 0:
        yield random_blocks(min(left, 50_000), size, seed)
        left, seed = left - 50_000, seed + 1


# ---- elements -----------------------------------------------------------------------------------


@pytest.mark.parametrize("format", SMALL, **BY_NAME)
def test_small_formats_have_the_numbers_of_ml_dtypes_and_gfloat(format):
    codes = np.arange(2**format.bits)
    numbers = codes.astype(np.uint8).view(reference.ML_DTYPES[format]).astype(np.float64)
    assert (format.decode(codes) == numbers).all()
    assert (gfloat.decode_ndarray(reference.GFLOAT[format], codes) == numbers).all()
    assert [format.encode(number) for number in numbers] == codes.tolist()
    assert format.max == numbers.max()
    assert format.fields(2 ** (format.bits - 1) - 1).kind == "normal"
    assert format.next_up(format.max) == format.max


@pytest.mark.parametrize("format", SMALL, **BY_NAME)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_formats_round_as_ml_dtypes_and_gfloat_do(format, dtype):
    """At each number and midpoint and beside them; in between, rounding is monotonic.

    ml_dtypes rounds a float64 to float32 first, so a number just above a tie can end below it.
    """
    numbers = np.unique(format.decode(np.arange(2**format.bits)))
    points = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2, [1e9, -1e9]]).astype(dtype)
    points = np.concatenate([points, np.nextafter(points, INF), np.nextafter(points, -INF)])
    ours = format.round(points)
    theirs = [gfloat.round_ndarray(reference.GFLOAT[format], points, sat=True)]
    if dtype is np.float32:
        points = np.append(points, [INF, -INF]).astype(dtype)
        ours = format.round(points)
        theirs = [np.append(theirs[0], [format.max, -format.max])]
        theirs.append(points.astype(reference.ML_DTYPES[format]).astype(dtype))
    for other in theirs:
        np.testing.assert_array_equal(ours, other)
        np.testing.assert_array_equal(np.signbit(ours), np.signbit(other))
    assert math.isnan(format.round(NAN))
    assert format.encode(NAN) == np.array(NAN).astype(reference.ML_DTYPES[format]).view(np.uint8)


def test_a_format_with_inf_and_without_nan_is_refused():
    with pytest.raises(ValueError, match="no inf either"):
        Format("odd", 3, 2, has_nan=False)


# ---- MX: a power of two for 32 numbers ----------------------------------------------------------


@COUNTS
@pytest.mark.parametrize("format", MX, **BY_NAME)
@ROUNDINGS
def test_mx_is_torchaos(format, rounding, count):
    """Except for what the next two tests are about."""
    ours_format = replace(format, scale=E8M0Scale(rounding))
    for blocks in in_parts(count, 20, 32):
        if rounding is ScaleRounding.RCEIL:
            blocks = blocks[~just_above_a_scale(blocks, format.element)]
        ours = quantize_blocks(blocks, ours_format)
        elements, scales = reference.torchao_mx(blocks, format.element, rounding.name)
        assert same(ours.scales, scales).all()
        lowest = (scales == 2.0**-127)[:, 0]
        assert lowest.any()
        assert lowest.float().mean() < 0.05
        assert same(ours.elements, elements)[~lowest].all()


def just_above_a_scale(blocks: torch.Tensor, element: Format) -> torch.Tensor:
    """Where amax / max is a power of two and up to 32 ulps more."""
    mantissa, _ = torch.frexp(blocks.abs().amax(1) / element.max)
    return (mantissa > 0.5) & (mantissa <= 0.5 + 32 * 2.0**-24)


@pytest.mark.parametrize("format", MX, **BY_NAME)
@ROUNDINGS
def test_torchao_divides_by_another_scale_than_it_stores_in_the_smallest_blocks(format, rounding):
    """torchao 0.18 stores 2**-127 and divides by 2**-126, or by 1 in RCEIL; gfloat doesn't."""
    blocks = (randn(500, 32).double() * 2.0**-131).float()
    ours = quantize_blocks(blocks, replace(format, scale=E8M0Scale(rounding)))
    elements, scales = reference.torchao_mx(blocks, format.element, rounding.name)
    assert (scales == 2.0**-127).any()
    lowest = scales[:, 0] == 2.0**-127
    divisor = 1.0 if rounding is ScaleRounding.RCEIL else 2.0**-126
    used = format.element.round(blocks / divisor, saturate=True)
    assert same(elements[lowest], used[lowest]).all()
    right = format.element.round(blocks.double() * 2.0**127, saturate=True).float()
    assert same(ours.elements[lowest], right[lowest]).all()
    assert not same(elements[lowest], ours.elements[lowest]).all()


@pytest.mark.parametrize("format", MX, **BY_NAME)
def test_torchaos_rceil_takes_a_logarithm_that_rounds(format):
    """An amax one ulp above max * 2**k needs the next scale. torchao 0.18 misses it for most k.

    A log2 near k is itself rounded to k, up to 22 ulps above 2**k.
    """
    blocks = torch.zeros(200, 32)
    exponents = torch.arange(-100, 100)
    blocks[:, 0] = torch.nextafter(format.element.max * 2.0**exponents, torch.tensor(INF))
    ours = quantize_blocks(blocks, replace(format, scale=E8M0Scale(ScaleRounding.RCEIL)))
    _, theirs = reference.torchao_mx(blocks, format.element, "RCEIL")
    assert (ours.scales[:, 0] == 2.0 ** (exponents + 1)).all()
    differ = (ours.scales != theirs)[:, 0]
    assert differ.any()
    assert (theirs[differ, 0] == 2.0 ** exponents[differ]).all()


@pytest.mark.parametrize(
    "count", [1_000, pytest.param(1_000_000, marks=[pytest.mark.long, pytest.mark.timeout(3600)])]
)
@pytest.mark.parametrize("format", MX, **BY_NAME)
def test_mx_by_floor_is_gfloats(format, count):
    for blocks in in_parts(count, 5, 32):
        ours = quantize_blocks(blocks, format)
        elements, scales = reference.gfloat_mx(blocks, format.element)
        assert same(ours.scales, scales).all()
        assert same(ours.elements, elements).all()


def test_roundings_of_a_scale_differ_where_their_names_say():
    """amax from 4 to 8 in MXFP4, whose largest number is 6: a scale of 1, then of 2."""
    amax = torch.tensor([[4.0], [4.25], [6.0], [6.25], [6.75], [7.0], [7.75]])
    scales = {
        rounding.name: quantize_blocks(
            amax, replace(MXFP4, scale=E8M0Scale(rounding))
        ).scales.flatten()
        for rounding in ScaleRounding
    }
    assert scales["FLOOR"].tolist() == [1, 1, 1, 1, 1, 1, 1]
    assert scales["CEIL"].tolist() == [1, 2, 2, 2, 2, 2, 2]
    assert scales["RCEIL"].tolist() == [1, 1, 1, 2, 2, 2, 2]
    assert scales["EVEN"].tolist() == [1, 1, 1, 1, 1, 2, 2]


@pytest.mark.parametrize("format", MX, **BY_NAME)
@ROUNDINGS
def test_special_values_in_mx(format, rounding):
    """A NaN takes its block with it. An inf saturates, or takes its block with it too."""
    special = torch.zeros(6, 32)
    special[0, 3], special[1, 3], special[2, :2] = NAN, INF, torch.tensor([-INF, 1.0])
    special[3, :2] = torch.tensor([NAN, INF])
    special[4] = torch.finfo(torch.float32).max
    ours = quantize_blocks(special, replace(format, scale=E8M0Scale(rounding)))
    elements, scales = reference.torchao_mx(special, format.element, rounding.name)
    assert same(ours.scales, scales).all()
    numbers = ~scales.isnan()[:, 0]
    numbers[5] = False  # zeros have the lowest scale
    assert same(ours.elements, elements)[numbers].all()
    left = ours.dequantize()
    assert left[[0, 3]].isnan().all()
    assert not left[[1, 2, 4]].isnan().any()
    assert (ours.elements[1:3].abs().amax(1) == format.element.max).all()
    assert (left[5] == 0).all()
    strict = replace(format, scale=E8M0Scale(rounding, nan_for_inf=True))
    strict = quantize_blocks(special, strict).dequantize()
    assert strict[[0, 1, 2, 3]].isnan().all()
    assert same(strict[4:], left[4:]).all()


# ---- NVFP4: an FP8 number for 16 numbers, and FP32 for the tensor -------------------------------

TORCHAOS = E4M3Scale(smallest=2.0**-6, arithmetic=Arithmetic.DIVIDE)
TORCHAOS_NVFP4 = replace(NVFP4, scale=TORCHAOS)


def moderate(blocks: torch.Tensor) -> torch.Tensor:
    """Random bits span so much that one tensor's scale flattens nearly all; take them apart."""
    return torch.where(blocks.abs().amax(1, keepdim=True) < 1e6, blocks, blocks.sign())


@COUNTS
@pytest.mark.parametrize("two_levels", [True, False])
def test_nvfp4_is_torchaos(count, two_levels):
    format = replace(NVFP4, scale=replace(TORCHAOS, two_levels=two_levels))
    for blocks in in_parts(count, 1, 16):
        for tensor in (blocks, moderate(blocks)):
            ours = quantize_blocks(tensor, format)
            elements, scales, tensor_scale = reference.torchao_nvfp4(tensor, two_levels)
            assert ours.tensor_scale == tensor_scale
            assert same(ours.scales, scales).all()
            assert same(ours.elements, elements).all()


@COUNTS
def test_nvfp4_is_transformer_engines(count):
    for blocks in in_parts(count, 1, 16):
        for tensor in (blocks, moderate(blocks)):
            ours = quantize_blocks(tensor, NVFP4)
            elements, scales = reference.transformer_engine_nvfp4(tensor)
            assert same(ours.scales, scales).all()
            assert same(ours.elements, elements).all()


def test_nvfp4_is_theirs_also_at_ties():
    """There the last bit of a scale decides. Every number here is amax / 24 times an integer."""
    generator = torch.Generator().manual_seed(0)
    decided = 0
    for amax in 24 * torch.randint(1, 2000, (200,), generator=generator):
        blocks = amax / 24 * torch.randint(-24, 25, (8, 16), generator=generator)
        blocks[:, 0] = amax
        engine, torchao = (quantize_blocks(blocks, f) for f in (NVFP4, TORCHAOS_NVFP4))
        assert same(engine.elements, reference.transformer_engine_nvfp4(blocks)[0]).all()
        assert same(torchao.elements, reference.torchao_nvfp4(blocks, True)[0]).all()
        decided += (engine.elements != torchao.elements).sum()
    assert decided > 0


def test_small_blocks_of_nvfp4_get_a_subnormal_scale_or_the_smallest_normal_one():
    blocks = torch.ones(3, 16) * torch.tensor([[6.0 * 448], [6.0 * 2**-9], [0.0]])
    engine = quantize_blocks(blocks, NVFP4)
    torchao = quantize_blocks(blocks, TORCHAOS_NVFP4)
    assert engine.scales.flatten().tolist() == [448, 2**-9, 0]
    assert torchao.scales.flatten().tolist() == [448, 2**-6, 2**-6]
    assert engine.elements[1].unique().item() == 6.0
    assert torchao.elements[1].unique().item() == 1.0, "6 * 2**-9 is 0.75 * 2**-6: a tie"
    for q in (engine, torchao):
        assert (q.dequantize()[2] == 0).all()


def test_a_tensor_of_zeros_is_zero_in_transformer_engines_nvfp4_and_nan_in_torchaos():
    zeros = torch.zeros(2, 32)
    assert (quantize_blocks(zeros, NVFP4).dequantize() == 0).all()
    _, scales, _ = reference.torchao_nvfp4(zeros.reshape(-1, 16), True)
    assert scales.isnan().all()
    assert quantize_blocks(zeros, TORCHAOS_NVFP4).dequantize().isnan().all()


@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_special_values_in_nvfp4(value):
    """A NaN spoils the whole tensor, by way of its scale. An inf becomes 2688 or NaN."""
    blocks = randn(4, 16)
    blocks[0, 0] = value
    engine, torchao = (quantize_blocks(blocks, f) for f in (NVFP4, TORCHAOS_NVFP4))
    for ours, (elements, scales, *_) in (
        (engine, reference.transformer_engine_nvfp4(blocks)),
        (torchao, reference.torchao_nvfp4(blocks, True)),
    ):
        assert same(ours.scales, scales).all()
        assert same(ours.elements, elements)[~scales.isnan()[:, 0]].all()
    left = engine.dequantize()[0, 0].item(), torchao.dequantize()[0, 0].item()
    assert math.isnan(left[1])
    assert math.isnan(left[0]) if math.isnan(value) else left[0] == math.copysign(2688, value)
    one_level = replace(NVFP4, scale=E4M3Scale(two_levels=False))
    left = quantize_blocks(blocks, one_level).dequantize()
    assert left[0].isnan().all() == math.isnan(value)
    assert left[1:].isfinite().all()


def test_without_the_tensors_scale_small_tensors_vanish_and_large_ones_saturate():
    one_level = replace(NVFP4, scale=E4M3Scale(two_levels=False))
    for size, left in ((1e-3, 0.0), (1e5, 2688.0)):
        tensor = torch.full((1, 16), size)
        assert quantize_blocks(tensor, NVFP4).dequantize()[0, 0].item() == pytest.approx(size)
        assert quantize_blocks(tensor, one_level).dequantize()[0, 0] == left


# ---- FP8 with scales in FP32 --------------------------------------------------------------------

SCALES_IN_FP32 = {
    "torchao": FP32Scale(Arithmetic.MULTIPLY, 1e-12),
    "Transformer Engine": FP32Scale(),
    "DeepSeek-V3": FP32Scale(Arithmetic.DIVIDE, 1e-4),
    "DeepGEMM": FP32Scale(Arithmetic.RECIPROCAL, 1e-4),
}


@COUNTS
@pytest.mark.parametrize("power_of_two", [False, True])
@pytest.mark.parametrize("element", [FP8_E4M3, FP8_E5M2], **BY_NAME)
@pytest.mark.parametrize("how", SCALES_IN_FP32)
def test_scales_in_fp32_are_those_of_each_library(how, element, power_of_two, count):
    scale = replace(SCALES_IN_FP32[how], power_of_two=power_of_two)
    format = replace(FP8_ROWWISE, element=element, scale=scale)
    for blocks in in_parts(count, 16, 32):
        ours = quantize_blocks(blocks, format)
        elements, scales = reference.fp8_by_scale_in_fp32(blocks, element, how, power_of_two)
        assert same(ours.scales, scales).all()
        assert same(ours.elements, elements).all()


def test_the_orders_of_division_are_not_the_same_to_the_bit():
    """Integers are often half-way between two numbers, once they are scaled."""
    generator = torch.Generator().manual_seed(0)
    blocks = torch.randint(-2000, 2001, (4000, 128), generator=generator).float()
    formats = [replace(FP8_1X128, scale=FP32Scale(order, 1e-4)) for order in Arithmetic]
    multiplied, divided, reciprocal = (quantize_blocks(blocks, f).elements for f in formats)
    for a, b in ((multiplied, divided), (divided, reciprocal), (multiplied, reciprocal)):
        assert 0 < (~same(a, b)).float().mean() < 0.01


def test_rows_and_tensors_are_scaled_as_torchaos_training_does():
    from torchao.float8.config import ScalingGranularity
    from torchao.float8.float8_utils import tensor_to_scale, to_fp8_saturated

    x = randn(64, 96)
    for format, granularity, dim in (
        (FP8_TENSORWISE, ScalingGranularity.TENSORWISE, None),
        (FP8_ROWWISE, ScalingGranularity.AXISWISE, -1),
    ):
        scale = tensor_to_scale(
            x, torch.float8_e4m3fn, scaling_granularity=granularity, axiswise_dim=dim
        )
        theirs = to_fp8_saturated(x * scale, torch.float8_e4m3fn)
        ours = quantize_blocks(x, format)
        assert same(ours.elements, theirs).all()
        assert (ours.scales == (1 / scale).reshape(ours.scales.shape)).all()


def test_blocks_of_128_have_torchaos_scales():
    from torchao.float8.float8_utils import amax_to_scale, to_fp8_saturated

    x = randn(256, 384)
    for format in (FP8_1X128, FP8_128X128):
        rows, columns = format.block
        ours = quantize_blocks(x, replace(format, scale=SCALES_IN_FP32["torchao"]))
        assert ours.scales.shape == (256 // rows, 3)
        for i, j in np.ndindex(ours.scales.shape):
            place = slice(i * rows, (i + 1) * rows), slice(j * columns, (j + 1) * columns)
            scale = amax_to_scale(x[place].abs().max(), torch.float8_e4m3fn)
            theirs = to_fp8_saturated(x[place] * scale, torch.float8_e4m3fn)
            assert ours.scales[i, j] == 1 / scale
            assert same(ours.elements[place], theirs).all()


@pytest.mark.parametrize("format", [FP8_TENSORWISE, FP8_ROWWISE, FP8_1X128], **BY_NAME)
def test_special_values_with_scales_in_fp32(format):
    """A NaN takes its block with it. A block of zeros stays zero."""
    x = randn(3, 256)
    x[0, 0], x[1] = NAN, 0
    left = quantize_blocks(x, format).dequantize()
    whole = {(None, None): (3, 256), (1, None): (1, 256)}
    rows, columns = whole.get(format.block, (1, 128))
    assert left[:rows, :columns].isnan().all()
    assert left[rows:].isfinite().all()
    if rows == 1:
        assert (left[1] == 0).all()


# ---- elements within blocks: overflow and stochastic rounding -----------------------------------


def test_elements_saturate_or_follow_their_format():
    """448 lands at 448 or at 512, and FLOOR gives 511 a scale of 1."""
    x = torch.tensor([[511.0, -511.0, 1.0]])
    left = quantize_blocks(x, MXFP8).elements
    assert left.tolist() == [[448.0, -448.0, 1.0]]
    free = quantize_blocks(x, replace(MXFP8, saturate=False)).elements
    assert free[0, :2].isnan().all()
    large = replace(MXFP8_E5M2, saturate=False)
    assert quantize_blocks(torch.tensor([[65535.0]]), large).elements.item() == INF
    always = quantize_blocks(torch.tensor([[7.9]]), replace(MXFP4, saturate=False))
    assert always.elements.item() == 6.0


@pytest.mark.parametrize("format", MX, **BY_NAME)
def test_stochastic_rounding_takes_a_neighbour_with_the_right_odds(format):
    """As in gfloat, with the same random bits."""
    blocks = moderate(random_blocks(400, 32))
    blocks = blocks[quantize_blocks(blocks, format).scales[:, 0] > 2.0**-100]
    stochastic = replace(format, rounding=ElementRounding.STOCHASTIC)
    ours = quantize_blocks(blocks, stochastic, torch.Generator().manual_seed(1))
    noise = torch.rand(blocks.shape, generator=torch.Generator().manual_seed(1))
    values = (blocks / ours.scales).double().numpy()
    # gfloat rounds up if the dropped bits and the random ones carry; ours if noise < dropped.
    bits = (2**24 - 1 - (noise.double() * 2**24).numpy()).astype(np.int64)
    mode = gfloat.RoundMode.StochasticFastest
    info = reference.GFLOAT[format.element]
    magnitude = np.abs(values)
    up_bits = np.where(values < 0, 2**24 - 1 - bits, bits)
    theirs = gfloat.round_ndarray(info, magnitude, mode, True, up_bits, 24)
    theirs = torch.from_numpy(np.copysign(theirs, values)).float()
    agree = same(ours.elements, theirs) | ((ours.elements == 0) & (theirs == 0))
    assert agree.all()


@pytest.mark.parametrize("format", [MXFP8, MXFP4, NVFP4], **BY_NAME)
def test_stochastic_rounding_is_unbiased_and_nearest_rounding_is_not(format):
    """The mean of 150,000 roundings of what lies 0.3 ulps above a number."""
    step = 2.0**-format.element.mantissa_bits
    x = torch.full((10_000, 16), format.element.min_normal * 4 * (1 + 0.3 * step))
    x[:, 0] = format.element.max
    for rounding, low, high in (
        (ElementRounding.NEAREST_EVEN, 0.0, 0.0),
        (ElementRounding.STOCHASTIC, 0.29, 0.31),
    ):
        generator = torch.Generator().manual_seed(0)
        q = quantize_blocks(x, replace(format, rounding=rounding), generator)
        left = q.elements[:, 1:]
        mean = (left.double().mean() / (format.element.min_normal * 4) - 1) / step
        assert low <= mean <= high
        assert len(left.unique()) == (1 if rounding is ElementRounding.NEAREST_EVEN else 2)


@pytest.mark.parametrize("element", [FP8_E4M3, FP8_E5M2, *SMALL], **BY_NAME)
def test_stochastic_rounding_leaves_the_formats_numbers_and_does_not_pass_the_largest(element):
    numbers = torch.tensor(element.decode(np.arange(2**element.bits))).float()
    numbers = numbers[numbers.isfinite()]
    format = replace(MXFP8, element=element, rounding=ElementRounding.STOCHASTIC)
    kept = quantize_blocks(numbers.repeat(50, 1), replace(format, block=(1, None)))
    assert (kept.scales == 1).all()
    assert (kept.elements == numbers).all()
    beyond = torch.full((50, 32), element.max * 1.01)
    assert (quantize_blocks(beyond, format).elements == element.max).all()


# ---- blocks, transposes -------------------------------------------------------------------------


def test_each_block_has_the_scale_of_its_own_largest_magnitude():
    x = torch.ones(4, 64)
    x[0, 0], x[3, 40] = 2.0**10, 2.0**-3
    scales = quantize_blocks(x, MXFP8).scales * 2**8
    assert scales.tolist() == [[1024, 1], [1, 1], [1, 1], [1, 1]]
    down = quantize_blocks(x, replace(MXFP8, block=(2, 1))).scales * 2**8
    assert down.shape == (2, 64)
    assert down[0, 0] == 1024
    assert (down.flatten()[1:] == 1).all()
    assert quantize_blocks(x, replace(MXFP8, block=(16, 16))).scales.shape == (1, 4)


def test_blocks_that_do_not_fit_are_smaller():
    x = randn(5, 40)
    q = quantize_blocks(x, MXFP4)
    assert q.scales.shape == (5, 2)
    rest = quantize_blocks(x[:, 32:], MXFP4)
    assert same(q.elements[:, 32:], rest.elements).all()
    assert (q.scales[:, 1:] == rest.scales).all()


def test_a_transpose_is_another_tensor_in_rows_of_blocks_and_the_same_in_squares():
    x = randn(64, 64)
    for shape, equal in (((1, 16), False), ((16, 16), True)):
        format = replace(NVFP4, block=shape)
        there = quantize_blocks(x, format).dequantize()
        back = quantize_blocks(x.T.contiguous(), format).dequantize().T
        assert torch.equal(there, back) == equal


def test_t_holds_the_same_numbers():
    q = quantize_blocks(randn(32, 48), NVFP4)
    assert q.T.block == (16, 1)
    assert torch.equal(q.T.dequantize(), q.dequantize().T)


def test_bits_a_number_takes():
    bits = {f.name: f.bits for f in (*MX, NVFP4, FP8_TENSORWISE, FP8_128X128)}
    assert bits["MXFP8"] == 8.25
    assert bits["MXFP6 E3M2"] == 6.25
    assert bits["MXFP4"] == 4.25
    assert bits["NVFP4"] == 4.5
    assert bits["FP8 tensor-wise"] == 8
    assert bits["FP8 128x128"] == 8 + 32 / 128**2


def test_only_a_matrix_is_cut_into_blocks():
    with pytest.raises(ValueError, match="from a matrix"):
        quantize_blocks(torch.ones(32), MXFP8)


# ---- products -----------------------------------------------------------------------------------

NATIVE = {FP8_E4M3: torch.float8_e4m3fn, FP8_E5M2: torch.float8_e5m2}


def torchs_product(a: BlockTensor, b: BlockTensor, recipe: ScalingType) -> torch.Tensor:
    left = a.elements.to(NATIVE[a.element])
    right = b.elements.T.contiguous().to(NATIVE[b.element]).T
    return scaled_mm(left, right, a.scales, recipe, b.scales, recipe, output_dtype=torch.float32)


@pytest.mark.parametrize("elements", [(a, b) for a in NATIVE for b in NATIVE], ids=str)
@pytest.mark.parametrize(
    ("format", "recipe"),
    [(FP8_TENSORWISE, ScalingType.TensorWise), (FP8_ROWWISE, ScalingType.RowWise)],
    ids=["tensor", "row"],
)
def test_products_are_torchs_scaled_mm(format, recipe, elements):
    """To the bit where all sums are exact in float32, and closely for random numbers."""
    integers = torch.Generator().manual_seed(0)
    a = torch.randint(-7, 8, (32, 64), generator=integers).float()
    b = torch.randint(-7, 8, (48, 64), generator=integers).float()
    a[:, 0], b[:, 0] = 7.0, 7.0
    exact = replace(format, scale=FP32Scale(power_of_two=True))
    pairs = [(a, b, exact, 0.0), (randn(32, 64), randn(48, 64, seed=1), format, 1e-6)]
    for left, right, scaled, tolerance in pairs:
        ours = (
            quantize_blocks(left, replace(scaled, element=elements[0])),
            quantize_blocks(right, replace(scaled, element=elements[1])).T,
        )
        theirs = torchs_product(*ours, recipe)
        assert relative_error(block_matmul(*ours), theirs) <= tolerance


@pytest.mark.parametrize(
    ("recipe", "scale_dtype", "columns"),
    [
        (ScalingType.BlockWise1x16, torch.float8_e4m3fn, 16),
        (ScalingType.BlockWise1x32, torch.float8_e8m0fnu, 32),
        (ScalingType.BlockWise1x128, torch.float32, 128),
        (ScalingType.BlockWise128x128, torch.float32, 128),
    ],
    ids=str,
)
def test_torch_multiplies_no_smaller_blocks_on_a_cpu(recipe, scale_dtype, columns):
    """Once it does, these products can be compared with it too."""
    a = torch.ones(128, 256).to(torch.float8_e4m3fn)
    rows = 1 if recipe is ScalingType.BlockWise128x128 else 128
    scales = torch.ones(rows, 256 // columns).to(scale_dtype)
    with pytest.raises(ValueError, match="Invalid scaling configuration"):
        scaled_mm(a, a.T, scales, recipe, scales, recipe, output_dtype=torch.bfloat16)


@pytest.mark.parametrize("format", [*MX, NVFP4, FP8_1X128], **BY_NAME)
def test_products_of_blocks_are_those_of_what_is_left(format):
    a, b = randn(16, 256), randn(24, 256, seed=1)
    left, right = quantize_blocks(a, format), quantize_blocks(b, format)
    exact = left.dequantize().double() @ right.dequantize().double().T
    assert relative_error(block_matmul(left, right.T), exact) < 1e-6
    assert relative_error(exact, a.double() @ b.double().T) < 0.2


def test_scales_must_hold_along_the_sum():
    a, b = randn(16, 64), randn(64, 32)
    q = quantize_blocks(a, MXFP8)
    with pytest.raises(ValueError, match=r"quantize b's transpose, and take its \.T"):
        block_matmul(q, quantize_blocks(b, MXFP8))
    columns = quantize_blocks(a.T.contiguous(), MXFP8).T
    with pytest.raises(ValueError, match="along k"):
        block_matmul(columns, quantize_blocks(b, replace(MXFP8, block=(1, 32))))
    assert block_matmul(q, quantize_blocks(b.T, MXFP8).T).shape == (16, 32)


# ---- sums of about 14 bits ----------------------------------------------------------------------


def summed_by_hand(a: list[float], b: list[float], lowest: tuple[int, int], bits: int, at: int):
    """In exact fractions, from the description in MMA-Sim (arXiv 2511.10909)."""

    def exponent(value: float, lowest: int) -> int:
        return max(math.frexp(value)[1] - 1, lowest) if value else -126

    def cut(value: Fraction, last_bit: Fraction) -> Fraction:
        return math.trunc(value / last_bit) * last_bit

    total = Fraction(0)
    for start in range(0, len(a), at):
        pairs = list(zip(a[start : start + at], b[start : start + at], strict=True))
        top = [exponent(x, lowest[0]) + exponent(y, lowest[1]) for x, y in pairs]
        last_bit = Fraction(2) ** (max(*top, exponent(float(total), -126)) - bits + 1)
        total = cut(total, last_bit) + sum(
            cut(Fraction(x) * Fraction(y), last_bit) for x, y in pairs
        )
        total = cut(total, Fraction(2) ** (exponent(float(total), -126) - bits + 1))
    return float(total)


@pytest.mark.parametrize("bits", [8, 14, 22])
@pytest.mark.parametrize("elements", [(FP8_E4M3, FP8_E4M3), (FP8_E4M3, FP8_E5M2)], ids=str)
def test_accumulator_is_what_mma_sim_describes(elements, bits):
    a, b = (randn(6, 100, seed=seed) * 2.0 ** torch.arange(-9, 1).repeat(10) for seed in (0, 1))
    for matrix, format in zip((a, b), elements, strict=True):
        matrix[3:] = randn(3, 100, seed=2) * format.min_normal / 4  # mostly subnormal
        matrix.copy_(format.round(matrix))
    ours = Accumulator(bits, promote=None).add_up(a, b.T, elements)
    lowest = tuple(format.min_exponent for format in elements)
    theirs = [[summed_by_hand(x, y, lowest, bits, 32) for y in b.tolist()] for x in a.tolist()]
    assert ours.tolist() == theirs


def test_14_bits_lose_a_sum_of_4096_and_promotion_saves_it():
    """Numbers of one sign, which add up to a sum that new ones are cut off below."""
    a, b = (torch.rand(8, 4096, generator=torch.Generator().manual_seed(s)) for s in (0, 1))
    left, right = quantize_blocks(a, FP8_TENSORWISE), quantize_blocks(b, FP8_TENSORWISE).T
    exact = left.dequantize().double() @ right.dequantize().double()
    errors = {
        (bits, promote): relative_error(
            block_matmul(left, right, Accumulator(bits, promote=promote)), exact
        )
        for bits, promote in ((14, None), (14, 128), (30, None))
    }
    assert errors[14, None] > 0.05
    assert 1e-4 < errors[14, 128] < 1e-3
    assert errors[30, None] < 1e-6


@pytest.mark.parametrize("format", [*MX, NVFP4, FP8_ROWWISE], **BY_NAME)
def test_a_sum_of_many_bits_is_the_product_in_float32(format):
    a, b = randn(16, 96), randn(20, 96, seed=1)
    left, right = quantize_blocks(a, format), quantize_blocks(b, format).T
    ours = block_matmul(left, right, Accumulator(bits=40, promote=None))
    assert relative_error(ours, block_matmul(left, right)) < 1e-6


def test_scales_of_128_are_multiplied_in_where_the_sum_is_promoted():
    a, b = randn(16, 512), randn(160, 512, seed=1)
    left, right = quantize_blocks(a, FP8_1X128), quantize_blocks(b, FP8_128X128).T
    ours = block_matmul(left, right, Accumulator(bits=40))
    assert relative_error(ours, block_matmul(left, right)) < 1e-6
    small = quantize_blocks(a, MXFP8)
    with pytest.raises(ValueError, match="promoted every 128 products, in blocks of 32"):
        block_matmul(small, small.T, Accumulator())


# ---- the Hadamard transform ---------------------------------------------------------------------


def test_hadamard_is_scipys_and_orthogonal():
    for size in (1, 2, 16, 64):
        assert torch.equal(hadamard(size), torch.tensor(scipys_hadamard(size) / size**0.5).float())
    assert torch.allclose(hadamard() @ hadamard(), torch.eye(16))
    for size in (0, 12):
        with pytest.raises(ValueError, match="power of two"):
            hadamard(size)


def test_random_hadamard_keeps_a_product_and_spreads_an_outlier():
    signs = random_signs(generator=torch.Generator().manual_seed(0))
    assert set(signs.tolist()) == {1.0, -1.0}
    a, b = randn(8, 64), randn(12, 64, seed=1)
    a[0, 5] = 1000.0
    turned = random_hadamard(a, signs)
    assert turned[0, :16].abs().max() < 260
    by_hand = (a[0, :16] * signs) @ torch.tensor(scipys_hadamard(16) / 4).float()
    assert torch.allclose(turned[0, :16], by_hand)
    product = turned @ random_hadamard(b, signs).T
    assert torch.allclose(product, a @ b.T, atol=1e-3)
    others = random_hadamard(b, -signs.roll(1))
    assert not torch.allclose(turned @ others.T, a @ b.T, atol=1)
