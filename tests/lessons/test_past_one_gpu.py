"""Lesson 11: what its cells show, as numbers, and what its text says beside them.

Two ranks take some seconds to start, so their numbers are read from the built notebook. What runs
in one process is run again.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from torch.nn.functional import mse_loss

from amp_lessons.amp.distributed import experiments as on_ranks
from amp_lessons.amp.numbers.float8 import errors_by_scale, in_float8
from amp_lessons.amp.numbers.formats import FP8_E4M3, FP8_E5M2
from amp_lessons.amp.training.loops import autoencoder, load_digits
from amp_lessons.core.catalogue import lesson_called
from amp_lessons.core.pictures import CURVES
from amp_lessons.lessons.experiments import compiled, fp16_pass, one_of_ranks

ROOT = Path(__file__).resolve().parents[2]
LESSON = lesson_called("past_one_gpu")
CELLS = nbformat.read(ROOT / LESSON.notebook, as_version=4).cells
DEEP = nbformat.read(ROOT / LESSON.deep_notebook, as_version=4).cells
PIXELS, BIG = 38_400, 100_000_000


@pytest.fixture(scope="module")
def pictures() -> torch.Tensor:
    return load_digits().train_images[:600]


def after(cells: list[Any], words: str) -> str:
    """What the cell printed whose source contains these words."""
    cell = next(c for c in cells if c.cell_type == "code" and words in c.source)
    return "".join(output.get("text", "") for output in cell.outputs)


def curves(title: str) -> dict[str, list[float]]:
    """The numbers behind the lesson's picture with this title."""
    shown = next(
        output.data[CURVES]
        for cell in CELLS
        if cell.cell_type == "code" and title in cell.source
        for output in cell.outputs
        if CURVES in output.get("data", {})
    )
    return {name: [float(word) for word in words.split()] for name, words in shown.items()}


# ---- compile ------------------------------------------------------------------------------------


def test_the_compiled_painter_learns_the_average_picture(pictures):
    shown = curves("The same painter in eager mode and compiled")
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
    found = re.findall(r"error per pixel (\S+)", after(CELLS, "with_setting ="))
    assert found == ["0.015"] * 3


def test_in_bf16_the_gradients_are_off_by_a_rounding():
    found = re.findall(r"(\S+)%", after(CELLS, "def gradients"))
    assert [float(word) for word in found] == [pytest.approx(0.15, abs=0.06), 0.0]


# ---- recomputation ------------------------------------------------------------------------------


def test_the_recomputation_by_hand_runs_in_fp32_and_checkpoint_does_not():
    lines = after(CELLS, "calls = {").splitlines()
    assert "float16, float16; gradients differ by 0.00%" in lines[1]
    assert "float16, float32; gradients differ by 0.03%" in lines[2]
    assert lines[3] == "autograd keeps 264 KiB, with checkpoint 150 KiB"
    assert 600 * 64 * 4 == 150 * 1024
    assert "gradients differ by 0.00%" in after(DEEP, "recomputed = ")


def test_fp16_pass_watches_and_leaves_no_hook(pictures):
    painter = autoencoder()
    found = fp16_pass(painter, pictures)
    assert found.dtypes == ("float16",)
    assert found.gradients.shape == (sum(p.numel() for p in painter.parameters()),)
    assert not painter[0]._forward_hooks


# ---- ranks --------------------------------------------------------------------------------------


def test_an_inf_before_the_exchange_is_seen_by_both_ranks():
    for name in ('show("ddp loss")', 'show("fsdp2 gradient")'):
        printed = after(CELLS, name)
        assert printed.count("skipped steps [40], scale 32,768 at the end") == 2
    assert "by up to 0\n" in after(CELLS, 'show("ddp loss")')


def test_an_inf_after_the_exchange_makes_two_models():
    printed = after(CELLS, 'show("ddp gradient")')
    assert "rank 0: skipped steps [], scale 65,536" in printed
    assert "rank 1: skipped steps [40], scale 32,768" in printed
    assert float(printed.split()[-1]) > 0.05
    shown = curves("DDP, with an inf on rank 1 after the exchange")
    assert shown["inf in the loss"][-1] < 0.9 * min(shown["rank 0"][-1], shown["rank 1"][-1])


def test_scalers_with_two_scales_make_two_models(pictures):
    """As when only rank 0 loads the scaler's state, which the lesson says beside it."""
    models = [autoencoder(), autoencoder()]
    optimizers = [torch.optim.SGD(model.parameters(), lr=BIG / PIXELS) for model in models]
    scalers = [torch.amp.GradScaler("cpu", init_scale=2.0**e) for e in (14, 16)]
    for rank, model in enumerate(models):
        with torch.autocast("cpu", dtype=torch.float16):
            error = mse_loss(model(pictures[rank::2]), pictures[rank::2])
        scalers[rank].scale(error * PIXELS / BIG).backward()
    for pair in zip(*(model.parameters() for model in models), strict=True):
        mean = (pair[0].grad + pair[1].grad) / 2
        for parameter in pair:
            parameter.grad.copy_(mean)
    for optimizer, scaler in zip(optimizers, scalers, strict=True):
        scaler.step(optimizer)
    first, second = (torch.cat([p.flatten() for p in m.parameters()]) for m in models)
    assert (first - second).abs().max() > 1e-3


def test_fsdp2_has_the_dtypes_of_the_table():
    with one_of_ranks(2):
        assert on_ranks.fsdp2_dtypes(torch.device("cpu")) == {
            "parameter in the forward": "float16",
            "input of the first layer": "float16",
            "loss": "float32",
            "gradient": "a shard of float32",
            "parameter between steps": "a shard of float32",
        }
        message = on_ranks.mixed_gradients(torch.device("cpu"))
    assert "got mixed torch.Tensor and DTensor" in message


def test_the_mean_loses_a_rank_without_a_reduce_dtype():
    printed = after(CELLS, 'reports["reduce"]')
    assert "mean in bfloat16 128, in float32 128.5" in printed
    assert "mean in float16 0, in float32 5.96e-08" in printed


def test_no_sync_around_the_backward_pass_saves_nothing():
    counts = re.findall(r"(\d \d \d \d)$", after(CELLS, "loops = {"), re.MULTILINE)
    assert counts == ["1 2 3 4", "1 2 3 4", "0 0 0 1"]


def test_the_loop_in_the_text_is_the_one_that_runs():
    text = (ROOT / "amp_lessons/amp/distributed/experiments.py").read_text(encoding="utf-8")
    step = text[text.index("def paint_step") :].partition("\n\n\n")[0]
    report = next(c.source for c in CELLS if "model = DistributedDataParallel(" in c.source)
    for line in (
        "error = mse_loss(model(batch), batch)",
        "optimizer.zero_grad()",
        "scaler.update()",
    ):
        assert line in step
        assert line in report


# ---- FP8 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("gradients", [FP8_E5M2, FP8_E4M3], ids=lambda format: format.name)
def test_the_painter_learns_in_fp8_with_scales(pictures, gradients):
    model = in_float8(autoencoder(), gradients=gradients)
    optimizer = torch.optim.SGD(model.parameters(), lr=BIG / PIXELS, momentum=0.9)
    for _ in range(150):
        optimizer.zero_grad()
        error = mse_loss(model(pictures), pictures)
        (error * PIXELS / BIG).backward()
        optimizer.step()
    fp32 = curves("The same painter in eager mode and compiled")["FP32"][-1]
    assert error.item() == pytest.approx(fp32, rel=0.04)


def test_without_scales_it_learns_the_average_picture():
    shown = curves("Big pictures: FP32, and FP8 without and with scales")
    compiled_one = curves("The same painter in eager mode and compiled")["compiled"][-1]
    assert shown["FP8, no scales"][-1] == pytest.approx(compiled_one, rel=0.01)
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


def test_the_deeper_notebook_shows_what_its_predictions_ask():
    assert after(DEEP, "early = compiled").split()[-1] == "65536.0"
    assert "inf" in after(DEEP, "early = compiled")
    assert "[448.0, 448.0, 448.0]" in after(DEEP, "beyond =")
    of_tensor, of_rows = re.findall(r"(\d+)%", after(DEEP, "weights[0, 0] = 500.0"))
    assert 30 < int(of_tensor) < 80
    assert int(of_rows) < 10


# ---- how it is told -----------------------------------------------------------------------------


def test_no_line_of_output_is_a_bare_true_or_false():
    for cell in [*CELLS, *DEEP]:
        text = "".join(output.get("text", "") for output in cell.get("outputs", []))
        assert not re.search(r"(?<!=)\b(True|False|yes|no|ok)\s*$", text, re.MULTILINE)
