"""Lesson 11: what its cells show, as numbers, and what its text says beside them."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
import torch
from sections import curves_of, text_after
from torch.nn.functional import mse_loss

from amp_lessons.amp.training.loops import autoencoder, load_digits
from amp_lessons.core.catalogue import lesson_called
from amp_lessons.lessons.experiments import compiled, fp16_pass

ROOT = Path(__file__).resolve().parents[2]
LESSON = lesson_called("compile_and_checkpoint")
CELLS = nbformat.read(ROOT / LESSON.notebook, as_version=4).cells
DEEP = nbformat.read(ROOT / LESSON.deep_notebook, as_version=4).cells
BIG = 100_000_000


@pytest.fixture(scope="module")
def pictures() -> torch.Tensor:
    return load_digits().train_images[:600]


# ---- compile ------------------------------------------------------------------------------------


def test_the_compiled_painter_learns_the_average_picture(pictures):
    shown = curves_of(CELLS, "The same painter in eager mode and compiled")
    average = (pictures - pictures.mean(dim=0)).square().mean().item()
    assert shown["FP32"][-1] == pytest.approx(0.0147, rel=0.02)
    assert shown["compiled"][-1] == pytest.approx(average, rel=0.02)


def test_only_its_last_bias_has_a_gradient(pictures):
    class FP32Painter(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = autoencoder()

        def forward(self, x):
            with torch.autocast("cpu", enabled=False):
                return self.layers(x)

    painter = FP32Painter()
    with torch.autocast("cpu", dtype=torch.float16):
        error = mse_loss(compiled(painter)(pictures), pictures, reduction="sum")
    (error / BIG).backward()
    found = [name for name, p in painter.named_parameters() if p.grad.count_nonzero()]
    assert found == ["layers.6.bias"]


def test_both_cures_give_what_eager_mode_gives():
    found = re.findall(r"error per pixel (\S+)", text_after(CELLS, "with_setting ="))
    assert found == ["0.015"] * 3


def test_in_bf16_the_gradients_are_off_by_a_rounding():
    found = re.findall(r"(\S+)%", text_after(CELLS, "def gradients"))
    assert [float(word) for word in found] == [pytest.approx(0.15, abs=0.06), 0.0]


def test_the_setting_counts_at_the_first_call():
    printed = [line.split()[-1] for line in text_after(CELLS, "early = compiled").splitlines()]
    assert printed == ["65536.0", "inf", "65536.0"]


# ---- recomputation ------------------------------------------------------------------------------


def test_the_recomputation_by_hand_runs_in_fp32_and_checkpoint_does_not():
    lines = text_after(CELLS, "calls = {").splitlines()
    assert "float16, float16; gradients differ by 0.00%" in lines[1]
    assert "float16, float32; gradients differ by 0.03%" in lines[2]
    assert lines[3] == "autograd keeps 264 KiB, with checkpoint 150 KiB"
    assert 600 * 64 * 4 == 150 * 1024
    assert "gradients differ by 0.00%" in text_after(DEEP, "recomputed = ")


def test_fp16_pass_watches_and_leaves_no_hook(pictures):
    painter = autoencoder()
    found = fp16_pass(painter, pictures)
    assert found.dtypes == ("float16",)
    assert found.gradients.shape == (sum(p.numel() for p in painter.parameters()),)
    assert not painter[0]._forward_hooks


def test_the_older_checkpoint_trains_nothing():
    printed = text_after(DEEP, "outputs = []")
    assert "None of the inputs have requires_grad=True" in printed
    assert "does not require grad" in printed


# ---- how it is told -----------------------------------------------------------------------------


def test_no_line_of_output_is_a_bare_true_or_false():
    for cell in [*CELLS, *DEEP]:
        text = "".join(output.get("text", "") for output in cell.get("outputs", []))
        assert not re.search(r"(?<!=)\b(True|False|yes|no|ok)\s*$", text, re.MULTILINE)
