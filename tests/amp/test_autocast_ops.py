"""What the exercises on autocast's ops take for granted, asked of the torch that is installed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import nbformat
import pytest
import torch
from stored import Stored, left_by
from torch import Tensor
from torch.nn import functional as F

from amp_lessons.amp.policy import op_policy
from amp_lessons.core import pictures
from amp_lessons.core.catalogue import lesson_called
from amp_lessons.exercises import checks
from amp_lessons.exercises.harness import region

HALF, BFLOAT, SINGLE = torch.float16, torch.bfloat16, torch.float32


# Each op with how it is asked: it takes one or two 4 x 4 tensors.
OPS: dict[str, tuple[int, Callable[..., Tensor]]] = {
    "matmul": (2, lambda a, b: torch.matmul(a, b)),
    "linear": (2, lambda a, b: F.linear(a, b)),
    "conv1d": (2, lambda a, b: F.conv1d(a.unsqueeze(0), b.unsqueeze(-1))),
    "softmax": (1, lambda a: torch.softmax(a, -1)),
    "layer_norm": (1, lambda a: F.layer_norm(a, (4,))),
    "exp": (1, lambda a: torch.exp(a)),
    "log": (1, lambda a: torch.log(a)),
    "sum": (1, lambda a: torch.sum(a)),
    "cumsum": (1, lambda a: torch.cumsum(a, 0)),
    "mse_loss": (2, lambda a, b: F.mse_loss(a, b)),
    "prod": (1, lambda a: torch.prod(a)),
    "mean": (1, lambda a: torch.mean(a)),
    "var": (1, lambda a: torch.var(a)),
    "sqrt": (1, lambda a: torch.sqrt(a)),
    "relu": (1, lambda a: torch.relu(a)),
    "sigmoid": (1, lambda a: torch.sigmoid(a)),
    "add": (2, lambda a, b: torch.add(a, b)),
    "cat": (2, lambda a, b: torch.cat([a, b])),
    "add_": (2, lambda a, b: a.add_(b)),
    "softmax, dtype=float32": (1, lambda a: torch.softmax(a, -1, dtype=SINGLE)),
}


@cache
def asked(op: str, device: str, dtype: torch.dtype, inputs: tuple[torch.dtype, ...]):
    """What autocast gives, live: the result's dtype, or None where torch raises."""
    function = OPS[op][1]
    with region(dtype, device):
        tensors = [torch.ones(4, 4, dtype=given, device=device) for given in inputs]
        try:
            return function(*tensors).dtype
        except RuntimeError:
            return None


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("dtype", [HALF, BFLOAT])
def test_region_is_open_inside_and_restored_after_an_exception(device, dtype):
    before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    seen = []

    def inside():
        with region(dtype, device):
            seen.append(torch.is_autocast_enabled(device))
            seen.append(torch.get_autocast_dtype(device))
            seen.append((torch.ones(2, 2, device=device) @ torch.ones(2, 2, device=device)).dtype)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        inside()
    assert seen == [True, dtype, dtype]
    assert before == (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))


def test_region_without_a_dtype_casts_nothing():
    for device in ("cpu", "cuda"):
        with region(None, device):
            ones = torch.ones(2, 2, device=device)
            assert (ones @ ones).dtype is SINGLE


def test_the_solution_says_what_torch_does():
    """In each case of the check, on both devices, in both formats and outside a region."""
    exercise = checks.find_exercise("result_dtype")
    (answer,) = exercise.public.answer(exercise.solved())
    cases = exercise.probe.all_cases
    assert len(cases) >= 200
    assert {case.args[:2] for case in cases} == {(o, d) for o in OPS for d in ("cpu", "cuda")}
    wrong = [case.args for case in cases if answer(*case.args) is not asked(*case.args)]
    assert wrong == []


def test_what_torch_does_agrees_with_the_policy_module():
    for op in ("softmax", "layer_norm", "exp", "sum", "mean", "mse_loss", "relu", "matmul", "prod"):
        for device in ("cpu", "cuda"):
            inputs = (HALF,) * OPS[op][0]
            assert asked(op, device, HALF, inputs) is op_policy(op, device, HALF).low


# ---- the numbers that the lesson shows ----------------------------------------------------------

ROOT = Path(__file__).resolve().parents[2]


def shown_curves() -> list[dict[str, list[float]]]:
    """The curves of the lesson's figures, as its notebook stores them."""
    notebook = nbformat.read(ROOT / lesson_called("autocast_ops").notebook, as_version=4)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    stored = [output.data.get(pictures.CURVES, {}) for output in outputs if "data" in output]
    split = [{k: [float(v) for v in words.split()] for k, words in each.items()} for each in stored]
    return [each for each in split if "FP32" in each and len(each["FP32"]) == 150]


def test_the_norm_by_hand_fails_and_only_the_early_cast_fixes_it():
    broken, cured = shown_curves()
    fp32 = broken["FP32"][-1]
    assert broken["mixed precision"][-1] > 4 * fp32
    assert cured["CastSquares"][-1] == pytest.approx(broken["mixed precision"][-1], rel=0.02)
    assert cured["CastFirst"][-1] == pytest.approx(fp32, rel=0.02)


def test_the_broken_norm_paints_one_picture_for_all_digits():
    stored = Stored("autocast_ops")
    parts = "xrays = 4095", "class Norm(", "def train(", "fp32_model, fp32", "painted = mixed_model"
    left = left_by(stored.cell(part).source for part in parts)
    assert torch.equal(left["painted"], left["painted"][:1].expand_as(left["painted"]))


def test_the_table_of_the_lesson_says_what_autocast_does():
    """Every op that the table of both devices names, except for the groups of ops."""
    source = (ROOT / "sources/lessons/04_autocast_ops.py").read_text(encoding="utf-8")
    names = {"16 bits": "lower precision", "FP32": "float32", "as given": "as given"}
    also = {"+": "add", "*": "mul"}
    seen = 0
    for line in source.splitlines():
        cells = [cell.strip() for cell in line.removeprefix("# |").split("|")]
        if not line.startswith("# | ") or len(cells) < 3 or cells[1] not in names:
            continue
        for op in cells[0].split("`")[1::2]:
            for device, message in zip(("cpu", "cuda"), cells[1:3], strict=True):
                assert op_policy(also.get(op, op), device, HALF).group == names[message], (
                    op,
                    device,
                )
                seen += 1
    assert seen == 70
