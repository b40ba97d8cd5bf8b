"""Lesson 13: what its cells show, as numbers, and what its text says beside them."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
import torch
from sections import curves_of, text_after
from torch.nn.functional import mse_loss

from amp_lessons.amp.numbers.float8 import errors_by_scale, in_float8
from amp_lessons.amp.numbers.formats import FP8_E4M3, FP8_E5M2
from amp_lessons.amp.training.loops import autoencoder, load_digits
from amp_lessons.core.catalogue import lesson_called

ROOT = Path(__file__).resolve().parents[2]
LESSON = lesson_called("fp8")
CELLS = nbformat.read(ROOT / LESSON.notebook, as_version=4).cells
DEEP = nbformat.read(ROOT / LESSON.deep_notebook, as_version=4).cells
PIXELS, BIG = 38_400, 100_000_000


@pytest.fixture(scope="module")
def pictures() -> torch.Tensor:
    return load_digits().train_images[:600]


@pytest.mark.parametrize("gradients", [FP8_E5M2, FP8_E4M3], ids=lambda format: format.name)
def test_the_painter_learns_in_fp8_with_scales(pictures, gradients):
    model = in_float8(autoencoder(), gradients=gradients)
    optimizer = torch.optim.SGD(model.parameters(), lr=BIG / PIXELS, momentum=0.9)
    for _ in range(150):
        optimizer.zero_grad()
        error = mse_loss(model(pictures), pictures)
        (error * PIXELS / BIG).backward()
        optimizer.step()
    fp32 = curves_of(CELLS, "Big pictures: FP32, and FP8 without and with scales")["FP32"][-1]
    assert error.item() == pytest.approx(fp32, rel=0.04)


def test_without_scales_it_learns_the_average_picture(pictures):
    shown = curves_of(CELLS, "Big pictures: FP32, and FP8 without and with scales")
    average = (pictures - pictures.mean(dim=0)).square().mean().item()
    assert shown["FP8, no scales"][-1] == pytest.approx(average, rel=0.02)
    assert shown["FP32"][-1] == pytest.approx(0.0147, rel=0.02)
    assert shown["FP8 with scales"][-1] == pytest.approx(shown["FP32"][-1], rel=0.04)


def test_float8_linear_shares_parameters_and_gives_nearly_the_same(pictures):
    painter = autoencoder()
    model = in_float8(painter)
    assert [id(p) for p in model.parameters()] == [id(p) for p in painter.parameters()]
    expected = painter(pictures)
    assert (model(pictures) - expected).norm() < 0.1 * expected.norm()


def test_a_scale_may_be_far_too_small_and_not_too_large(pictures):
    torch.manual_seed(0)
    small, right, large = errors_by_scale(torch.randn(64, 64), pictures.T, (-10, 0, 1))
    assert small == pytest.approx(right, rel=0.05)
    assert large > 1.5 * right


def test_a_cast_saturates_and_an_outlier_harms_the_rows_that_share_its_scale():
    assert "[448.0, 448.0, 448.0]" in text_after(CELLS, "beyond =")
    of_tensor, of_rows = re.findall(r"(\d+)%", text_after(CELLS, "weights[0, 0] = 500.0"))
    assert 30 < int(of_tensor) < 80
    assert int(of_rows) < 10


# ---- how it is told -----------------------------------------------------------------------------


def test_no_line_of_output_is_a_bare_true_or_false():
    for cell in [*CELLS, *DEEP]:
        text = "".join(output.get("text", "") for output in cell.get("outputs", []))
        assert not re.search(r"(?<!=)\b(True|False|yes|no|ok)\s*$", text, re.MULTILINE)
