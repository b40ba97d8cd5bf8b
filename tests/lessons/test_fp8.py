"""Lesson 13: what its cells show, as numbers, and what its text says beside them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
import torch
from sections import curves_of, text_after
from torch.nn.functional import mse_loss

from amp_lessons.amp.numbers import (
    BLOCKWISE,
    FP8_1X128,
    FP8_TENSORWISE,
    ROWWISE,
    TENSORWISE,
    Accumulator,
    block_matmul,
    errors_by_scale,
    in_block_format,
    quantize_blocks,
    relative_error,
)
from amp_lessons.amp.roofline import find_gpu
from amp_lessons.amp.training.loops import autoencoder, load_digits
from amp_lessons.core.catalogue import lesson_called

ROOT = Path(__file__).resolve().parents[2]
LESSON = lesson_called("fp8")
CELLS = nbformat.read(ROOT / LESSON.notebook, as_version=4).cells
DEEP = nbformat.read(ROOT / LESSON.deep_notebook, as_version=4).cells
PIXELS, BIG = 38_400, 100_000_000
TRAININGS = "Big pictures: FP32, and FP8 without and with scales"
EACH = pytest.mark.parametrize(
    "recipe",
    [TENSORWISE, replace(TENSORWISE, gradients=FP8_TENSORWISE), ROWWISE, BLOCKWISE],
    ids=["tensor-wise", "tensor-wise E4M3", "row-wise", "block-wise"],
)


@pytest.fixture(scope="module")
def pictures() -> torch.Tensor:
    return load_digits().train_images[:600]


def gradients(pictures: torch.Tensor) -> torch.Tensor:
    """Of the loss with respect to the painter's first hidden values, as in both notebooks."""
    painter = autoencoder()
    hidden = painter[0](pictures)
    hidden.retain_grad()
    (mse_loss(painter[1:](hidden), pictures, reduction="sum") / BIG).backward()
    return hidden.grad


def percents(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"([\d.]+)%", text)]


# ---- training -----------------------------------------------------------------------------------


@EACH
def test_the_painter_learns_with_each_recipe(pictures, recipe):
    model = in_block_format(autoencoder(), recipe)
    optimizer = torch.optim.SGD(model.parameters(), lr=BIG / PIXELS, momentum=0.9)
    for _ in range(150):
        optimizer.zero_grad()
        error = mse_loss(model(pictures), pictures)
        (error * PIXELS / BIG).backward()
        optimizer.step()
    fp32 = curves_of(CELLS, TRAININGS)["FP32"][-1]
    assert error.item() == pytest.approx(fp32, rel=0.03)


def test_without_scales_it_learns_the_average_picture(pictures):
    shown = curves_of(CELLS, TRAININGS)
    average = (pictures - pictures.mean(dim=0)).square().mean().item()
    assert shown["FP8, no scales"][-1] == pytest.approx(average, rel=0.02)
    assert shown["FP32"][-1] == pytest.approx(0.0147, rel=0.02)
    assert shown["FP8 with scales"][-1] == pytest.approx(shown["FP32"][-1], rel=0.03)


# ---- scales -------------------------------------------------------------------------------------


def test_a_cast_saturates():
    assert "[448.0, 448.0, 448.0]" in text_after(CELLS, "beyond =")
    assert "[1.0, 448.0, 448.0, 448.0, nan]" in text_after(DEEP, "stored = x.clamp")


def test_gradients_lie_below_e4m3_and_the_pictures_in_it():
    found = curves_of(CELLS, "painter's first layer")
    low = -9
    assert found["gradients"][1] < low - 10
    assert found["weights"][0] < low < found["weights"][1]
    assert low < found["pictures"][0]


def test_a_scale_may_be_far_too_small_and_not_too_large(pictures):
    torch.manual_seed(0)
    small, right, large = errors_by_scale(torch.randn(64, 64), pictures.T, (-10, 0, 1))
    assert small == pytest.approx(right, rel=0.05)
    assert large > 1.5 * right


def test_delayed_scaling_is_wrong_once_and_with_the_bug_for_good():
    found = curves_of(CELLS, "The error of 40 tensors")
    wrong = {
        name: [n for n, error in enumerate(errors) if error > 0.1] for name, errors in found.items()
    }
    assert wrong == {"current": [], "delayed": [20], "amax after the cast": [*range(20, 40)]}


def test_an_outlier_spoils_what_shares_its_scale():
    whole, row, tile, square = percents(text_after(CELLS, "weights[150, 200]"))
    assert 60 < whole < 65
    assert row < 5
    assert tile < row < 0.3 * square
    shares = curves_of(CELLS, "Where the matrix is spoilt")
    expected = {"tensor-wise": 1, "row-wise": 1 / 256, "1x128": 1 / 1024, "128x128": 1 / 8}
    for name, share in expected.items():
        assert shares[f"FP8 {name}"][0] == pytest.approx(share, rel=0.1)


def test_squares_alone_are_the_same_in_both_passes():
    assert percents(text_after(CELLS, "backward = quantize_blocks")) == [0, 100, 100, 0]


def test_e4m3_needs_blocks_for_gradients_and_halves_the_error_there():
    text = text_after(CELLS, "row_errors =")
    lost, errors = percents(text)[::2], percents(text)[1::2]
    whole_e5m2, whole_e4m3, tile_e5m2, tile_e4m3 = range(4)
    assert lost[whole_e4m3] == pytest.approx(50, abs=5)
    assert lost[tile_e5m2] == lost[tile_e4m3] == 0
    assert errors[tile_e4m3] == pytest.approx(errors[tile_e5m2] / 2, rel=0.1)
    assert errors[whole_e5m2] < errors[whole_e4m3]


# ---- sums and speed -----------------------------------------------------------------------------


def test_a_sum_of_ones_stands_still_at_2_to_the_14():
    text = text_after(CELLS, "ones = quantize_blocks")
    assert re.findall(r"[\d,]+$", text, re.MULTILINE) == ["32,768", "16,384", "32,768"]


def test_errors_of_sums_grow_with_k_and_not_with_promotion():
    found = curves_of(CELLS, "Sums of 14 bits")
    at_4096 = -2
    rounding = 0.026
    assert found["positive"][at_4096] == pytest.approx(0.074, abs=0.002)
    assert found["positive"][at_4096] > rounding
    for signs in ("positive", "of both signs"):
        assert found[signs] == sorted(found[signs])
        assert max(found[f"{signs}, promoted"]) < 1.2 * min(found[f"{signs}, promoted"])
    torch.manual_seed(0)
    a, b = (quantize_blocks(torch.rand(16, 4096), FP8_TENSORWISE) for _ in range(2))
    exact = a.dequantize().double() @ b.dequantize().double().T
    error = relative_error(block_matmul(a, b.T, Accumulator(promote=None)), exact)
    assert error == pytest.approx(found["positive"][at_4096], rel=0.01)


def test_rounding_to_fp8_is_off_by_what_the_text_says():
    torch.manual_seed(0)
    for draw in (torch.rand, torch.randn):
        x = draw(256, 512)
        found = quantize_blocks(x, FP8_TENSORWISE).dequantize()
        assert relative_error(found, x) == pytest.approx(0.026, abs=0.001)


def test_fp8_is_slower_for_small_n():
    gains = curves_of(CELLS, "Estimate: a product of n × n matrices")
    faster = {name: [gain > 1 for gain in values] for name, values in gains.items()}
    assert faster["current scaling"] == [False, False, False, True, True, True]
    assert faster["delayed scaling"] == [False, False, True, True, True, True]
    gpu = find_gpu("H100 SXM")
    assert 2 * gpu.peak("bf16") == pytest.approx(3958e12 / 2, rel=0.001)
    assert 10 * gpu.peak("bf16") / gpu.bytes_per_second() == pytest.approx(2950, rel=0.01)


# ---- the deep notebook --------------------------------------------------------------------------


def test_a_first_scale_of_1_loses_all_gradients():
    assert percents(text_after(DEEP, "kept =")) == [0, 100]


def test_zeros_push_out_a_history():
    kept, lost = percents(text_after(DEEP, "for idle in"))
    assert kept < 5
    assert lost > 50


def test_a_smallest_amax_for_inference_loses_gradients(pictures):
    found = quantize_blocks(gradients(pictures), FP8_1X128).dequantize()
    assert (found == 0).float().mean().item() == pytest.approx(0.12, abs=0.01)
    assert percents(text_after(DEEP, "for smallest in"))[0] == pytest.approx(12, abs=1)


# ---- how it is told -----------------------------------------------------------------------------


def test_no_line_of_output_is_a_bare_true_or_false():
    for cell in [*CELLS, *DEEP]:
        text = "".join(output.get("text", "") for output in cell.get("outputs", []))
        assert not re.search(r"(?<!=)\b(True|False|yes|no|ok)\s*$", text, re.MULTILINE)
