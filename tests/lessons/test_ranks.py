"""Lesson 12: what its cells show, as numbers, and what its text says beside them.

Two ranks take some seconds to start, so their numbers are read from the built notebook. What runs
in one process is run again.
"""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
import torch
from sections import curves_of, text_after
from torch.nn.functional import mse_loss

from amp_lessons.amp.distributed import experiments as on_ranks
from amp_lessons.amp.training.loops import autoencoder, load_digits
from amp_lessons.core.catalogue import lesson_called
from amp_lessons.lessons.experiments import one_of_ranks

ROOT = Path(__file__).resolve().parents[2]
LESSON = lesson_called("ranks")
CELLS = nbformat.read(ROOT / LESSON.notebook, as_version=4).cells
DEEP = nbformat.read(ROOT / LESSON.deep_notebook, as_version=4).cells
PIXELS, BIG = 38_400, 100_000_000


@pytest.fixture(scope="module")
def pictures() -> torch.Tensor:
    return load_digits().train_images[:600]


def test_an_inf_before_the_exchange_is_seen_by_both_ranks():
    for name in ('show("ddp loss")', 'show("fsdp2 gradient")'):
        printed = text_after(CELLS, name)
        assert printed.count("skipped steps [40], scale 32,768 at the end") == 2
    assert "by up to 0\n" in text_after(CELLS, 'show("ddp loss")')


def test_an_inf_after_the_exchange_makes_two_models():
    printed = text_after(CELLS, 'show("ddp gradient")')
    assert "rank 0: skipped steps [], scale 65,536" in printed
    assert "rank 1: skipped steps [40], scale 32,768" in printed
    assert float(printed.split()[-1]) > 0.05
    shown = curves_of(CELLS, "DDP, with an inf on rank 1 after the exchange")
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
    printed = text_after(CELLS, 'reports["reduce"]')
    assert "mean in bfloat16 128, in float32 128.5" in printed
    assert "mean in float16 0, in float32 5.96e-08" in printed


def test_no_sync_around_the_backward_pass_saves_nothing():
    counts = re.findall(r"(\d \d \d \d)$", text_after(CELLS, "loops = {"), re.MULTILINE)
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


def test_averages_in_fp16_fail_in_either_order():
    printed = text_after(DEEP, "total = mean =")
    assert "10,000:  divide last inf, divide first 9992" in printed
    assert "6e-8:  divide last 5.96e-08, divide first 0" in printed


# ---- how it is told -----------------------------------------------------------------------------


def test_no_line_of_output_is_a_bare_true_or_false():
    for cell in [*CELLS, *DEEP]:
        text = "".join(output.get("text", "") for output in cell.get("outputs", []))
        assert not re.search(r"(?<!=)\b(True|False|yes|no|ok)\s*$", text, re.MULTILINE)
