"""Lesson 00: the loop it hands out is right, and what breaks it fails as the lesson says."""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any

import nbformat
import pytest
import torch
from stored import Stored, left_by
from torch import nn
from torch.nn.functional import mse_loss

from amp_lessons.amp.speed import published
from amp_lessons.core.catalogue import lesson_called
from amp_lessons.lessons.widgets.whole_loop import WHY, comparison, program

ROOT = Path(__file__).resolve().parents[2]
CELLS = nbformat.read(ROOT / lesson_called("amp_in_20_minutes").notebook, as_version=4).cells
STORED = Stored("amp_in_20_minutes")
CODE = STORED.code
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs CUDA"))]  # fmt: skip


@pytest.fixture(scope="module")
def lesson() -> dict[str, Any]:
    """The lesson's steps, and what they need."""
    needed = ("our_pixels =", "def train(", "def fp16_step", "# starts at a scale of 65,536")
    cells = [STORED.cell(part).source for part in (*needed, "def early_step")]
    fp32, _, _ = cells[1].partition("\n\n\nfp32_model")
    return left_by([cells[0], fp32, *cells[2:]])


# ---- the loop to copy ---------------------------------------------------------------------------


def copied() -> Any:
    """The loop as somebody has it who copied it into an empty file."""
    namespace: dict[str, Any] = {}
    exec(compile(program(), "<copied>", "exec"), namespace)
    return namespace["train_amp"]


REAL = torch.amp.GradScaler


class Probe(nn.Module):
    """A linear layer that notes the dtype of what it gives."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)
        self.seen: set[torch.dtype] = set()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x)
        self.seen.add(y.dtype)
        return y


def problem(device: str) -> tuple[Probe, list[tuple[torch.Tensor, torch.Tensor]]]:
    torch.manual_seed(0)
    inputs = torch.randn(64, 4)
    targets = inputs @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]])
    return Probe().to(device), [(inputs, targets)] * 60


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_the_copied_loop_learns_in_both_dtypes(device, dtype):
    model, batches = problem(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = copied()(model, optimizer, batches, mse_loss, dtype=dtype, max_norm=10.0)
    assert model.seen == {dtype}
    assert losses[-1] < 0.01 * losses[0]
    assert {p.dtype for p in model.parameters()} == {torch.float32}


@pytest.mark.parametrize("device", DEVICES)
def test_the_copied_loop_clips_the_true_gradients(device):
    """The gradient is longer than 0.05, and so the step of plain SGD is 0.05 long."""
    model, batches = problem(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
    small = [(0.3 * inputs, 0.3 * targets) for inputs, targets in batches[:1]]
    copied()(model, optimizer, small, mse_loss, max_norm=0.05)
    after = nn.utils.parameters_to_vector(model.parameters()).detach()
    assert (after - before).norm().item() == pytest.approx(0.05, rel=1e-2)


def test_the_copied_loop_keeps_one_scaler_for_all_epochs(monkeypatch):
    made = []
    monkeypatch.setattr(torch.amp, "GradScaler", lambda *args, **kwargs: made.append(args) or REAL(
        *args, **kwargs))  # fmt: skip
    model, batches = problem("cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = copied()(model, optimizer, batches[:3], mse_loss, epochs=5)
    assert len(losses) == 15
    assert len(made) == 1


@pytest.mark.parametrize("device", DEVICES)
def test_the_copied_loop_survives_an_overflow(device):
    """A batch that overflows is skipped, and the weights stay finite."""
    model, batches = problem(device)
    overflow = (torch.full((64, 4), 6e4), torch.zeros(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = copied()(model, optimizer, [*batches, overflow, *batches], mse_loss, max_norm=10.0)
    assert all(p.isfinite().all() for p in model.parameters())
    assert losses[-1] < 0.01 * losses[0]


# ---- the story ----------------------------------------------------------------------------------


CURVES = STORED.curves("amp = train")


def test_fp16_alone_learns_nothing():
    assert CURVES["FP32"][-1] < 0.1 * CURVES["FP32"][0]
    assert len(set(CURVES["FP16"])) == 1
    assert "weights that changed: 0 of 10448" in STORED.printed("weights that changed")


@pytest.mark.slow
def test_fp16_alone_learns_where_gradients_are_larger(lesson):
    """What the lesson says of the plain average."""

    def plain_step(model, optimizer):
        optimizer.zero_grad()
        with torch.autocast(lesson["device"], dtype=torch.float16):
            loss = mse_loss(model(lesson["pictures"]), lesson["pictures"])
        loss.backward()
        optimizer.step()
        return loss.item()

    model = lesson["autoencoder"]().to(lesson["device"])
    plain = lesson["train"](plain_step, model, lr=1.0)
    assert plain[-1] == pytest.approx(CURVES["FP32"][-1], rel=0.02)


def test_with_the_scaler_the_curve_is_that_of_fp32():
    assert CURVES["mixed precision"] == pytest.approx(CURVES["FP32"], rel=0.02)


@pytest.mark.slow
def test_without_the_scaler_the_curve_is_flat(lesson):
    """The first way to break it, as a workshop has it done."""
    source = STORED.cell("def amp_step").source.partition("\n\n\n")[2]
    source = re.sub("  # .*", "", source)
    broken = source.replace("scaler.scale(loss).backward()", "loss.backward()")
    broken = broken.replace("scaler.step(optimizer)", "optimizer.step()")
    broken = broken.replace("    scaler.update()\n", "")
    assert "scaler" not in broken
    namespace = dict(lesson)
    exec(broken, namespace)
    model = lesson["autoencoder"]().to(lesson["device"])
    curve = lesson["train"](namespace["amp_step"], model)
    assert curve[-1] == curve[0]


def test_clipping_too_early_sees_norms_65536_times_too_large_and_hardly_learns():
    (norm,) = re.findall(r"at the first step: (\d+), divided by 65536", STORED.printed("early = "))
    assert int(norm) / 65536 == pytest.approx(0.2, rel=0.05)
    assert int(norm) == pytest.approx(13_000, rel=0.05)  # so much the step is too short
    early, right = map(
        STORED.curves("early = ").get, ("clip before unscale_", "unscale_, then clip")
    )
    assert early[-1] > 0.9 * early[0]
    assert right[-1] < 0.1 * right[0]


@pytest.mark.slow
def test_adam_hides_the_early_clip(lesson):
    """What the explanation says of Adam: here it learns as well with the mistake."""

    def train(step) -> list[float]:
        model = lesson["autoencoder"]().to(lesson["device"])
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        return [step(model, optimizer) for _ in range(60)]

    source = STORED.cell("def early_step").source
    (clipping,) = re.findall(r"    norms\.append.*\n", source)
    namespace = dict(lesson)
    exec(source.replace(clipping, ""), namespace)
    early, right = train(lesson["early_step"]), train(namespace["early_step"])
    assert early[-1] < 1.1 * right[-1] < 0.15 * right[0]


@pytest.mark.parametrize("scaled", [True, False])
def test_a_half_model_is_refused_with_a_scaler_and_stands_still_without(lesson, scaled):
    model = lesson["autoencoder"]().to(lesson["device"]).half()
    if scaled:
        with pytest.raises(ValueError, match=r"^Attempting to unscale FP16 gradients\.$"):
            lesson["train"](lesson["amp_step"], model)
    else:
        curve = lesson["train"](lesson["fp16_step"], model)
        assert curve[-1] == curve[0]


# ---- how it is told -----------------------------------------------------------------------------


def test_no_line_of_output_is_a_bare_true_or_false():
    printed = [o.text for cell in CODE for o in cell.outputs if o.output_type == "stream"]
    assert len(printed) >= 5
    assert not re.search(r"\b(True|False|yes|no)\s*$", "\n".join(printed), re.MULTILINE)


def test_the_code_shows_no_marks_of_our_tests():
    assert not [cell.source for cell in CODE if "NBVAL" in cell.source]


def test_each_changed_line_of_the_loop_says_what_it_is_for():
    new = [line for line in comparison() if line.kind == "new"]
    assert len(new) == 8
    assert all(line.why for line in new)
    assert len({line.why for line in new}) == len(new)


def test_the_loop_is_torchs_defaults_in_words():
    scaler = torch.amp.GradScaler("cpu")
    assert f"{scaler.get_growth_interval():,} steps" in WHY["scaler.update"]
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor()) == (2.0, 0.5)


def test_the_gains_that_it_quotes_are_those_of_lesson_10():
    rows = published.load_published().training
    medians = {gpu: [p.speedup for p in published.on(rows, gpu)] for gpu in ("V100", "A100")}
    (text,) = [cell.source for cell in CELLS if "What do you gain?" in cell.source]
    assert f"{statistics.median(medians['V100']):.1f} times as fast as FP32" in text
    assert f"median of {len(medians['V100'])} runs" in text
    assert f"{statistics.median(medians['A100']):.1f} times as fast as TF32" in text
