"""Bad input gets one line that says what is wrong, from every public function and command."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from amp_lessons.amp import roofline
from amp_lessons.amp.distributed.launch import launch
from amp_lessons.amp.memory.training import training_memory
from amp_lessons.amp.numbers.float8 import DelayedScale
from amp_lessons.amp.scaling import loss_scale
from amp_lessons.amp.scaling.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from amp_lessons.amp.scaling.scaler_log import simulate_scaler, torch_records
from amp_lessons.amp.speed import timing
from amp_lessons.amp.training.loops import Batches, load_digits
from amp_lessons.app import cli

NAN = math.nan
H200 = roofline.find_gpu("H200")
ONES = torch.ones(3)


class Refuses:
    """A part of a training whose state cannot be had."""

    def state_dict(self):
        raise RuntimeError("no\nstate")


REFUSED = {
    "a number is no tensor": (TypeError, lambda: loss_scale.exponent_histogram(3.0)),
    "nor are several": (TypeError, lambda: loss_scale.smallest_safe_scale([1.0, 2.0])),
    "nor is an array": (TypeError, lambda: loss_scale.fate(np.ones(3))),
    "complex": (TypeError, lambda: loss_scale.exponent_histogram(torch.ones(2) * 1j)),
    "meta": (ValueError, lambda: loss_scale.fate(torch.empty(2, device="meta"))),
    "format": (ValueError, lambda: loss_scale.smallest_safe_scale(ONES, "fp15")),
    "scale as text": (TypeError, lambda: loss_scale.fate(ONES, "2")),
    "scale None": (TypeError, lambda: loss_scale.fates(ONES, [1.0, None])),
    "pattern None": (TypeError, lambda: simulate_scaler(None)),
    "pattern text": (TypeError, lambda: torch_records("yn")),
    "no int64": (ValueError, lambda: torch_records([], growth_interval=2**63)),
    "no function to time": (ValueError, lambda: timing.compare({"a": 3}, repeats=2)),
    "a list of steps": (ValueError, lambda: timing.compare([print], repeats=2)),
    "half a repeat": (ValueError, lambda: timing.compare({"a": print}, repeats=2.5)),
    "no device": (ValueError, lambda: timing.clock_for("tpu")),
    "no matrix": (ValueError, lambda: timing.measured_peak(torch.float32, "cpu", size=0)),
    "no bytes": (ValueError, lambda: timing.measured_bandwidth("cpu", size=-1)),
    "a size as text": (ValueError, lambda: timing.measured_bandwidth("cpu", size="3")),
    "a device that is None": (ValueError, lambda: timing.compare({"a": print}, None, repeats=2)),
    "a device without a clock": (ValueError, lambda: timing.compare({"a": print}, "meta", 2)),
    "intensity NaN": (ValueError, lambda: H200.roof("fp16", NAN)),
    "no GPU's name": (ValueError, lambda: roofline.find_gpu(None)),
    "negative size": (ValueError, lambda: roofline.matmul_flops(-1, 2, 3)),
    "half a row": (ValueError, lambda: roofline.matmul_bytes(1.5, 2, 3, "fp16")),
    "negative FLOPs": (ValueError, lambda: roofline.floor_seconds(H200, "fp16", -1)),
    "NaN bytes": (ValueError, lambda: roofline.bound(H200, "fp16", 1, NAN)),
    "seconds as text": (ValueError, lambda: roofline.share_of_peak(H200, "fp16", 1, "1")),
    "no history": (ValueError, lambda: DelayedScale(0)),
    "share of 2": (ValueError, lambda: load_digits(2)),
    "labels missing": (ValueError, lambda: Batches(torch.ones(4, 2), torch.ones(3), 2)),
    "no state": (ValueError, lambda: Batches(ONES, ONES, 2).load_state_dict({})),
    "no path": (CheckpointError, lambda: load_checkpoint(None)),
    "a part without state": (CheckpointError, lambda: save_checkpoint("never.pt", a=Refuses())),
    "no script": (ValueError, lambda: launch("nowhere.py")),
    "true ranks": (ValueError, lambda: launch("nowhere", ranks=True)),
    "for ever": (ValueError, lambda: launch("nowhere", timeout=math.inf)),
    "timeout as text": (ValueError, lambda: launch("nowhere", timeout="3")),
    "no module's name": (ValueError, lambda: launch("")),
    "an option as a script": (ValueError, lambda: launch("-m")),
    "a number as an argument": (ValueError, lambda: launch("nowhere", 3)),
    "optimizers": (ValueError, lambda: training_memory(torch.nn.Identity(), optimizer=[])),
    "a null in a path": (CheckpointError, lambda: load_checkpoint("a\0b")),
    "a path to nothing": (CheckpointError, lambda: save_checkpoint("")),
    "half a rank": (ValueError, lambda: launch("nowhere.py", ranks=1.5)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused_in_one_line(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kind, call = REFUSED[name]
    with pytest.raises(kind) as caught:
        call()
    assert caught.type is kind
    assert len(str(caught.value)) > 10
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without a GPU")
def test_a_gpu_that_is_not_here_is_refused_before_it_is_timed():
    for call in (
        lambda: timing.compare({"a": print}, "cuda", repeats=2),
        lambda: timing.measured_peak(torch.float32, "cuda", size=8),
        lambda: timing.measured_bandwidth("cuda", size=8),
    ):
        with pytest.raises(ValueError, match="finds no cuda device here: try"):
            call()


def test_gradients_of_frozen_and_sparse_parameters_are_welcome():
    sparse = torch.tensor([0.0, 2.0, 0.0]).to_sparse()
    assert loss_scale.exponent_histogram([None, sparse]).total == 3
    assert loss_scale.fate([None]).normal == 0
    assert loss_scale.smallest_safe_scale([torch.tensor([2.0**-25])], "fp16") == 2.0


FACTORIES = """
import sys
import torch
from torch import nn

def ends():
    sys.exit(0)

def talks():
    print("hello")
    return nn.Linear(3, 3), torch.randn(2, 3)
"""


def run(capsys, *words):
    with pytest.raises(SystemExit) as caught:
        cli.main(["explain", *words, "--device", "cpu"])
    return caught.value.code, *capsys.readouterr()


@pytest.fixture
def factories(tmp_path, monkeypatch):
    (tmp_path / "factories_of_a_learner.py").write_text(FACTORIES)
    (tmp_path / "ends_on_import.py").write_text("raise SystemExit(0)\nmodel = None")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return "factories_of_a_learner"


def test_explain_is_not_ended_by_a_factory_that_exits(capsys, factories):
    for target in (f"{factories}:ends", "ends_on_import:model"):
        status, out, output = run(capsys, target)
        assert (status, out, output.count("\n")) == (1, "", 1)
        assert "SystemExit" in output


def test_what_a_factory_prints_does_not_spoil_the_json(capsys, factories):
    status, out, output = run(capsys, f"{factories}:talks", "--json")
    assert (status, output) == (0, "hello\n")
    assert json.loads(out)["model"] == "Linear"


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (["factories_of_a_lerner.py:talks"], "did you mean factories_of_a_learner.py"),
        (["./deep/net.py:talks"], "no file ./deep/net.py"),
        (["no_such_module_here:talks"], "in its folder"),
        (["factories_of_a_learner:talks", "--input", ""], "write a shape"),
        (["factories_of_a_learner:talks", "--input", f"{10**20},3"], "that large"),
        (["factories_of_a_learner:talks", "--input", f"{10**10},{10**10}"], "that large"),
    ],
)
def test_explain_gives_the_cure(words, cure, capsys, factories):
    status, out, output = run(capsys, *words)
    assert (status, out, output.count("\n")) == (1, "", 1)
    assert cure in output
