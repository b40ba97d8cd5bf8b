"""FP8 by hand agrees with torch's casts and products, and scales as it says."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import ScalingType, scaled_mm

from amp_lessons.amp.numbers.float8 import (
    DelayedScale,
    float8_matmul,
    quantise,
    relative_error,
    scale_for,
)
from amp_lessons.amp.numbers.formats import FP8_E4M3, FP8_E5M2
from amp_lessons.lessons import plots

NATIVE = {FP8_E4M3: torch.float8_e4m3fn, FP8_E5M2: torch.float8_e5m2}


def random(*shape: int, seed: int = 0, size: float = 1.0) -> torch.Tensor:
    return size * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("format", NATIVE, ids=lambda format: format.name)
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e9])
def test_largest_magnitude_lands_on_the_largest_number(format, size):
    tensor = random(50, size=size)
    q = quantise(tensor, scale_for(tensor.abs().max(), format), format)
    assert q.abs().max() == format.max
    assert torch.equal(q, q.to(NATIVE[format]).float()), "not a number of the format"


def test_scale_of_zeros_and_of_the_smallest_is_finite():
    scales = scale_for(torch.tensor([0.0, 1e-45, 448.0]))
    assert scales[0] == 1.0
    assert scales.isfinite().all()
    assert scales[2] == 1.0


@pytest.mark.parametrize("scale", [0.25, 1.0, 64.0])
def test_quantise_is_torchs_saturating_cast(scale):
    tensor = torch.cat([random(2000, size=30.0), torch.tensor([500.0, -1e9])])
    assert torch.equal(quantise(tensor, scale), (tensor * scale).to(torch.float8_e4m3fn).float())


def test_matmul_is_torchs_scaled_mm():
    a, b = random(32, 64, size=1e-3), random(64, 16, seed=1, size=5.0)
    scale_a, scale_b = scale_for(a.abs().max()), scale_for(b.abs().max())
    left = (a * scale_a).to(torch.float8_e4m3fn)
    right = (b * scale_b).to(torch.float8_e4m3fn).t().contiguous().t()
    whole = ScalingType.TensorWise
    theirs = scaled_mm(
        left, right, 1 / scale_a, whole, 1 / scale_b, whole, output_dtype=torch.float32
    )
    assert relative_error(float8_matmul(a, b, scale_a, scale_b), theirs) < 1e-5


def test_error_falls_with_a_scale_and_with_one_a_row():
    a, b = random(32, 64, size=1e-3), random(64, 16, seed=1)
    a[0, 0] = 500.0
    rows = slice(1, None)
    exact = (a.double() @ b.double())[rows]
    scale_b = scale_for(b.abs().max())
    errors = [
        relative_error(float8_matmul(a, b, scale, scale_b)[rows], exact)
        for scale in (scale_for(a.abs().max()), scale_for(a.abs().amax(1, keepdim=True)))
    ]
    assert errors[1] < 0.05 < 0.5 < errors[0]


def test_delayed_scale_knows_the_past_only_and_forgets_it():
    delayed = DelayedScale(length=2)
    amax = (7.0, 448.0, 2.0, 2.0, 2.0)
    scales = [delayed.next(torch.tensor([-value, 0.5])).item() for value in amax]
    assert scales == [1.0, 64.0, 1.0, 1.0, 224.0]


def test_pictures_say_what_they_show():
    grid = plots.where_the_inf_is(ranks=2, parameters=6, bad=4)
    assert "only rank 1 has the inf" in grid.alt
    valley = plots.error_by_scale([-2, -1, 0, 1], {"E": [0.2, 0.1, 0.1, 0.9]}, title="Errors")
    assert "from 2^-1 to 2^0" in valley.alt
    assert grid.png != valley.png
