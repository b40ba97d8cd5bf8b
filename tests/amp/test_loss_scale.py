"""scaling.py at its edges: ties, zeros, infinities, empty input, and both ends of each format."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from amp_lessons.amp.numbers.formats import BF16, FORMATS, FP8_E4M3, FP16, FP32, Format
from amp_lessons.amp.scaling.loss_scale import (
    ExponentHistogram,
    Fate,
    exponent_histogram,
    fate,
    fates,
    smallest_safe_scale,
)

pytestmark = pytest.mark.filterwarnings("error")

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


# ---- exponent_histogram --------------------------------------------------------------------


def test_histogram_counts_by_floor_of_log2_of_the_magnitude():
    numbers = torch.tensor([1.0, -1.5, 1.9999, 2.0, 0.25, -0.4999, 0.0, -0.0])
    histogram = exponent_histogram(numbers)
    assert histogram == ExponentHistogram(exponents=(-2, -1, 0, 1), counts=(2, 0, 3, 1), zeros=2)
    assert histogram.total == 8


@pytest.mark.parametrize("dtype", DTYPES)
def test_histogram_takes_every_float_dtype_and_its_subnormals(dtype):
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    histogram = exponent_histogram(torch.tensor([smallest, 1.0], dtype=dtype))
    assert histogram.exponents == tuple(range(round(math.log2(smallest)), 1))
    assert (histogram.counts[0], histogram.counts[-1], histogram.total) == (1, 1, 2)


def test_histogram_leaves_out_infinities_and_nan():
    numbers = torch.tensor([math.inf, -math.inf, math.nan, 1.0, 0.0])
    assert exponent_histogram(numbers) == ExponentHistogram((0,), (1,), 1)


@pytest.mark.parametrize("nothing", [(), {}.values(), torch.empty(0), [torch.empty(0)] * 2])
def test_histogram_of_nothing_is_empty(nothing):
    assert exponent_histogram(nothing) == ExponentHistogram((), (), 0)
    assert exponent_histogram(nothing).total == 0
    assert exponent_histogram(iter(())).total == 0


def test_histogram_of_zeros_has_no_exponents():
    assert exponent_histogram(torch.zeros(2, 3)) == ExponentHistogram((), (), 6)


def test_several_tensors_count_as_one():
    whole = torch.randn(60, generator=torch.Generator().manual_seed(0))
    parts = [whole[:10].reshape(2, 5), whole[10].double(), whole[11:].reshape(7, 7)]
    assert exponent_histogram(parts) == exponent_histogram(whole)
    assert exponent_histogram(part for part in parts) == exponent_histogram(whole)
    assert fate(parts, 2.0**-20) == fate(whole, 2.0**-20)
    assert smallest_safe_scale([p * 2**-30 for p in parts]) == smallest_safe_scale(whole * 2**-30)


def test_tensors_that_require_grad_are_counted_and_left_alone():
    parameter = torch.nn.Parameter(torch.tensor([-1.0, 0.5]))
    assert exponent_histogram([parameter]).counts == (1, 1)
    assert parameter.tolist() == [-1.0, 0.5]
    assert parameter.grad is None


# ---- fate ----------------------------------------------------------------------------------


def test_fate_at_every_border_of_fp16():
    borders = [
        2.0**-26,  # below half of the smallest subnormal
        2.0**-25,  # exactly half: a tie, and zero is even
        math.nextafter(2.0**-25, 1),  # rounds up to the smallest subnormal
        2.0**-24,
        2.0**-14 - 2.0**-24,  # the largest subnormal
        2.0**-14 - 2.0**-25,  # a tie that rounds up to the smallest normal
        2.0**-14,
        65504.0,
        math.nextafter(65520.0, 0),  # rounds down to 65504
        65520.0,  # a tie that rounds to inf
        1e300,
    ]
    kinds = ["zero"] * 2 + ["subnormal"] * 3 + ["normal"] * 4 + ["overflow"] * 2
    for value, kind in zip(borders, kinds, strict=True):
        for signed in (value, -value):
            became = fate(torch.tensor([signed], dtype=torch.float64))
            assert {k: getattr(became, k) for k in set(kinds)} == {
                k: int(k == kind) for k in set(kinds)
            }, f"{signed} should be {kind}"
    together = fate(torch.tensor(borders, dtype=torch.float64))
    assert together == Fate(scale=1.0, zero=2, subnormal=3, normal=4, overflow=2)


def test_fate_multiplies_by_the_scale_before_it_rounds():
    numbers = torch.tensor([2.0**-30, 2.0**-20, 1.0])
    assert fate(numbers) == Fate(1.0, zero=1, subnormal=1, normal=1, overflow=0)
    assert fate(numbers, 2.0**10) == Fate(2.0**10, zero=0, subnormal=1, normal=2, overflow=0)
    assert fate(numbers, 2.0**16) == Fate(2.0**16, zero=0, subnormal=0, normal=2, overflow=1)


def test_fate_leaves_out_zeros_and_what_is_infinite_already():
    numbers = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan])
    assert fate(numbers) == Fate(1.0, 0, 0, 0, 0)
    assert fate([]) == Fate(1.0, 0, 0, 0, 0)


def test_fate_in_other_formats():
    numbers = torch.tensor([2.0**-30, 448.0, 465.0, 1e6])
    assert fate(numbers, format=FP8_E4M3) == Fate(1.0, zero=1, subnormal=0, normal=1, overflow=2)
    assert fate(numbers, format=BF16) == Fate(1.0, zero=0, subnormal=0, normal=4, overflow=0)


@pytest.mark.parametrize("format", FORMATS.values(), ids=list(FORMATS))
def test_fate_accounts_for_each_finite_number_that_is_not_zero(format):
    generator = torch.Generator().manual_seed(1)
    numbers = torch.randn(1000, generator=generator) * 10 ** torch.randn(1000, generator=generator)
    for scale in (2.0**-30, 1.0, 2.0**30):
        became = fate(numbers, scale, format)
        assert became.zero + became.subnormal + became.normal + became.overflow == 1000


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_fate_refuses_a_scale_that_is_none(scale):
    message = f"scale must be a positive finite number, got {scale}"
    with pytest.raises(ValueError, match=message):
        fate(torch.ones(1), scale)
    with pytest.raises(ValueError, match=message):
        fates(torch.ones(1), [1.0, scale, 2.0])


def test_fate_counts_what_leaves_even_a_float64_as_overflow():
    huge = torch.tensor([1e300, 1.0], dtype=torch.float64)
    assert fate(huge, 2.0**100, FP32) == Fate(2.0**100, 0, 0, normal=1, overflow=1)
    assert fates(huge[:1], [2.0**100], FP32) == [Fate(2.0**100, 0, 0, normal=0, overflow=1)]


@pytest.mark.parametrize("format", FORMATS.values(), ids=list(FORMATS))
def test_fates_are_the_fate_for_each_scale_in_the_order_given(format):
    generator = torch.Generator().manual_seed(2)
    some = torch.randn(500, generator=generator) * 2 ** (40 * torch.randn(500, generator=generator))
    ends = torch.tensor([format.min_subnormal / 2, format.min_normal, format.max, 0, math.inf])
    numbers = [some, some[:100], ends.double(), torch.tensor([math.nan, 1e300]).double()]
    scales = [2.0**12, 1.0, 2.0**-30, 3.0, 2.0**70, 1.0, 2.0**1000, 2.0**-1000]
    assert fates(numbers, scales, format) == [fate(numbers, s, format) for s in scales]
    assert len({(f.zero, f.overflow) for f in fates(numbers, scales, format)}) > 3


@pytest.mark.parametrize("numbers", [[], torch.zeros(3), torch.tensor([5.0]), torch.ones(7)])
def test_fates_of_few_numbers_or_scales(numbers):
    scales = [2.0**-40, 1.0, 2.0**17]
    assert fates(numbers, iter(scales)) == [fate(numbers, s) for s in scales]
    assert fates(numbers, []) == []


# ---- smallest_safe_scale -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("smallest", "scale"),
    [
        (2.0**-24, 1.0),
        (math.nextafter(2.0**-25, 1), 1.0),
        (2.0**-25, 2.0),  # a tie goes to zero, so half of the smallest subnormal is lost
        (2.0**-26, 4.0),
        (1.5 * 2.0**-26, 2.0),
        (2.0**-40, 2.0**16),
        (2.0**-149, 2.0**125),  # the smallest number of FP32
        (-(2.0**-25), 2.0),
        (1.0, 1.0),
        (1e300, 1.0),
    ],
)
def test_smallest_safe_scale_for_fp16(smallest, scale):
    numbers = torch.tensor([3.0, smallest, 0.0], dtype=torch.float64)
    if abs(smallest) > 3:
        numbers = numbers[1:]
    assert smallest_safe_scale(numbers) == scale


@pytest.mark.parametrize("format", FORMATS.values(), ids=list(FORMATS))
def test_smallest_safe_scale_saves_everything_and_half_of_it_does_not(format):
    numbers = format.min_subnormal * torch.logspace(-20, 5, 50, base=2, dtype=torch.float64)
    scale = smallest_safe_scale(numbers, format)
    assert scale > 1
    assert math.log2(scale).is_integer()
    assert fate(numbers, scale, format).zero == 0
    assert fate(numbers, scale / 2, format).zero >= 1


def test_smallest_safe_scale_passes_over_zeros_infinities_and_nan():
    numbers = torch.tensor([0.0, math.inf, math.nan, 2.0**-25])
    assert smallest_safe_scale(numbers) == 2.0


def test_smallest_safe_scale_is_inf_where_a_float64_cannot_hold_it():
    numbers = torch.tensor([5e-324], dtype=torch.float64)
    assert smallest_safe_scale(numbers, FP16) == math.inf
    assert smallest_safe_scale(numbers, FP32) == 2.0 ** (1074 - 149)
    assert smallest_safe_scale(numbers, Format("FP64", 11, 52)) == 1.0


@pytest.mark.parametrize(
    "nothing", [[], torch.empty(0), torch.zeros(3), torch.tensor([math.inf, math.nan])]
)
def test_smallest_safe_scale_says_so_when_there_is_nothing_to_save(nothing):
    with pytest.raises(ValueError, match="no number is finite and not zero"):
        smallest_safe_scale(nothing)


# ---- why loss scaling works ----------------------------------------------------------------


def test_scaling_saves_the_gradients_of_a_real_network_exactly():
    from amp_lessons.amp.training.loops import digits_gradients

    small = list(digits_gradients(2.0**-14).values())
    lost = fate(small)
    assert lost.zero > 0
    scale = smallest_safe_scale(small)
    saved = fate(small, scale)
    assert (saved.zero, saved.overflow) == (0, 0)
    exponents = np.array(exponent_histogram(small).exponents)
    shifted = exponent_histogram([g * scale for g in small])
    np.testing.assert_array_equal(exponents + round(math.log2(scale)), shifted.exponents)
    assert shifted.counts == exponent_histogram(small).counts
