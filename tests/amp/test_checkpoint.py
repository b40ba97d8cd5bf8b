"""checkpoint.py: an interrupted run ends in the bits of an uninterrupted one, or not at all."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import warnings
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from amp_lessons.amp.scaling.scaler_log import ScalerLog
from amp_lessons.amp.training.loops import (
    Batches,
    CheckpointError,
    digits_network,
    load_checkpoint,
    load_digits,
    save_checkpoint,
)

STEPS, STOP = 30, 17
OPTIMIZERS = {
    "SGD with momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "two groups": lambda p: torch.optim.Adam([{"params": p[:2]}, {"params": p[2:], "lr": 0.003}]),
}
SCHEDULERS = {
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, STEPS),
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.05, total_steps=STEPS + 1),
    "warm-up, then steps": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o,
        [
            torch.optim.lr_scheduler.LinearLR(o, 0.1, total_iters=8),
            torch.optim.lr_scheduler.StepLR(o, 5, 0.7),
        ],
        [8],
    ),
}


class Training:
    """All that a run consists of: dropout and noise draw from three random generators."""

    def __init__(self, seed=0, optimizer="SGD with momentum", scheduler="cosine", width=32):
        digits = load_digits()
        torch.manual_seed(seed), random.seed(seed), np.random.seed(seed)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(64, width),
            torch.nn.BatchNorm1d(width),
            torch.nn.ReLU(),
            torch.nn.Dropout(0.2),
            torch.nn.Linear(width, 10),
        )
        self.optimizer = OPTIMIZERS[optimizer](list(self.model.parameters()))
        # Too large at first, and growing often: the run holds skipped steps on both sides.
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=3)
        self.scaler = ScalerLog(scaler)
        with warnings.catch_warnings(action="ignore"):  # torch's own, about SequentialLR
            self.scheduler = SCHEDULERS[scheduler](self.optimizer)
        self.batches = Batches(digits.train_images, digits.train_labels, 128, seed)
        self.losses = []

    @property
    def parts(self):
        names = ("model", "optimizer", "scaler", "scheduler", "batches")
        return {name: getattr(self, name) for name in names}

    def run(self, steps):
        for images, labels in islice(self.batches, steps):
            noise = np.random.rand() * 0.1 + random.random() * 0.1
            self.optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = cross_entropy(self.model(images + noise), labels)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.losses.append(loss.item())
            with warnings.catch_warnings(action="ignore"):  # the first steps are skipped
                self.scheduler.step()
        return self

    def state(self):
        """A digest of everything: two states are equal bit for bit, or it differs."""
        return digest(self.parts) + digest((torch.rand(3), random.random(), np.random.rand()))


def digest(value):
    return hashlib.sha256(repr(bits(value)).encode()).hexdigest()


def bits(value):
    """Plain data that is equal where every bit is."""
    if hasattr(value, "state_dict"):
        return bits(value.state_dict())
    if isinstance(value, torch.Tensor):
        return (
            str(value.dtype),
            tuple(value.shape),
            value.reshape(-1).view(torch.uint8).numpy().tobytes(),
        )
    if isinstance(value, dict):
        return {key: bits(entry) for key, entry in value.items()}
    return [bits(v) for v in value] if isinstance(value, list | tuple) else value


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Networks this small gain nothing from more threads, and wait for them on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", autouse=True)
def generators_restored():
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    yield
    torch.set_rng_state(states[0]), random.setstate(states[1]), np.random.set_state(states[2])


# ---- bit for bit -------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_an_interrupted_run_ends_in_the_same_bits(tmp_path, optimizer, scheduler):
    chosen = {"optimizer": optimizer, "scheduler": scheduler}
    whole = Training(**chosen).run(STEPS)
    skipped = whole.scaler.skipped_steps
    assert any(step < STOP for step in skipped)
    assert any(step >= STOP for step in skipped)
    want = whole.state()

    first = Training(**chosen).run(STOP)
    save_checkpoint(tmp_path / "run.pt", **first.parts)
    second = Training(seed=99, **chosen).run(2)  # another start, other generators
    load_checkpoint(tmp_path / "run.pt", **second.parts)
    second.losses.clear()
    second.run(STEPS - STOP)
    assert first.losses + second.losses == whole.losses
    assert second.state() == want


@pytest.mark.parametrize("stop", [1, 9, 10, 11, 29])
def test_wherever_it_is_interrupted(tmp_path, stop):
    """Between epochs too: ten batches are one epoch."""
    want = Training().run(STEPS).state()
    save_checkpoint(tmp_path / "run.pt", **Training().run(stop).parts)
    second = Training(seed=99)
    load_checkpoint(tmp_path / "run.pt", **second.parts)
    assert second.run(STEPS - stop).state() == want


@pytest.mark.slow
def test_in_another_process(tmp_path):
    want = Training().run(STEPS).state()
    save_checkpoint(tmp_path / "run.pt", **Training().run(STOP).parts)
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_checkpoint import *
torch.set_num_threads(1)
training = Training(seed=99)
load_checkpoint({str(tmp_path / "run.pt")!r}, **training.parts)
print(training.run(STEPS - STOP).state(), end="")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == want


@pytest.mark.parametrize("missing", ["optimizer", "scaler", "scheduler", "batches"])
def test_each_part_is_needed(tmp_path, missing):
    """Leave one out and the run ends elsewhere: so the tests above can see every part."""
    want = Training().run(STEPS).state()
    first, second = Training().run(STOP), Training(seed=0)
    for training in (first, second):
        training.kept = {n: p for n, p in training.parts.items() if n != missing}
    save_checkpoint(tmp_path / "run.pt", **first.kept)
    load_checkpoint(tmp_path / "run.pt", **second.kept)
    assert second.run(STEPS - STOP).state() != want


@pytest.mark.parametrize("generator", ["torch", "python", "numpy"])
def test_each_random_generator_is_needed(tmp_path, generator):
    disturb = {
        "torch": lambda: torch.rand(1),
        "python": random.random,
        "numpy": np.random.rand,
    }[generator]
    want = Training().run(STEPS).state()
    save_checkpoint(tmp_path / "run.pt", **Training().run(STOP).parts)
    second = Training()
    load_checkpoint(tmp_path / "run.pt", **second.parts)
    disturb()
    assert second.run(STEPS - STOP).state() != want


def test_a_log_and_its_scaler_are_interchangeable(tmp_path):
    first = Training().run(STOP)
    save_checkpoint(tmp_path / "run.pt", **first.parts)
    plain = torch.amp.GradScaler("cpu")
    load_checkpoint(tmp_path / "run.pt", **Training().parts | {"scaler": plain})
    assert plain.state_dict() == first.scaler.state_dict()


# ---- refused, and nothing loaded ---------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "run.pt"
    save_checkpoint(path, **Training().run(STOP).parts)
    return path


def refuse(path, match, training=None, **changed):
    """Loading fails with a clear line, and not one bit has changed."""
    training = training or Training(seed=5).run(3)
    parts = {n: p for n, p in (training.parts | changed).items() if p is not None}
    before = digest(parts)
    generators = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    with pytest.raises(CheckpointError, match=match) as caught:
        load_checkpoint(path, **parts)
    assert "\n" not in str(caught.value)
    assert "nothing was loaded" in str(caught.value) or "there is no" in str(caught.value)
    assert digest(parts) == before
    assert torch.equal(torch.get_rng_state(), generators[0])
    assert random.getstate() == generators[1]
    assert np.random.get_state()[1].tolist() == generators[2]


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.5, 0.9, 0.999])
def test_a_truncated_file(saved, share):
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    refuse(saved, "truncated or no checkpoint")


def test_a_file_with_one_flipped_bit(saved):
    content = bytearray(saved.read_bytes())
    weight = torch.load(saved)["states"]["model"]["0.weight"].numpy().tobytes()
    content[content.index(weight) + 5] ^= 4
    saved.write_bytes(content)
    assert torch.load(saved)["format"]  # torch does not notice
    refuse(saved, "is damaged in .*: take an older one")


@pytest.mark.parametrize("entry", ["torch", "kinds", "states", "random"])
@pytest.mark.parametrize("value", [None, 7])
def test_a_file_in_which_something_is_missing(saved, entry, value):
    content = torch.load(saved)
    content[entry] = value
    torch.save(content, saved)
    refuse(saved, "was not written by save_checkpoint")


@pytest.mark.parametrize(
    ("generator", "state"),
    [
        ("torch", torch.zeros(3, dtype=torch.uint8)),
        ("python", [3, [1, 2], None]),
        ("numpy", ["PCG64", [1], 0, 0, 0.0]),
        ("cuda", None),
    ],
)
def test_a_random_state_of_another_kind(saved, generator, state):
    content = torch.load(saved)
    content["random"][generator] = state
    torch.save(content, saved)
    refuse(saved, "its random state cannot be set here")


@pytest.mark.parametrize("part", ["model", "optimizer", "scaler", "scheduler", "batches"])
def test_a_state_that_is_none(saved, part):
    content = torch.load(saved)
    content["states"][part] = 7
    torch.save(content, saved)
    refuse(saved, f"{part} has no state in it")


def test_an_optimizer_state_that_is_something_else(saved):
    content = torch.load(saved)
    content["states"]["optimizer"] = {"lr": 0.1}
    torch.save(content, saved)
    refuse(saved, "this is no optimizer's state")


def test_batches_of_other_data(saved):
    few = Batches(torch.ones(40, 64), torch.ones(40, dtype=torch.int64), 8)
    refuse(saved, "made of 1347 images, these are of 40", batches=few)


class Stubborn:
    """A part that takes no state."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        raise RuntimeError("not today\nnor tomorrow")


@pytest.mark.parametrize("place", [0, 2, 5])
def test_a_part_that_refuses_takes_back_what_was_loaded(tmp_path, place):
    def parts(training):
        entries = list(training.parts.items())
        return dict([*entries[:place], ("stubborn", Stubborn()), *entries[place:]])

    save_checkpoint(tmp_path / "run.pt", **parts(Training().run(STOP)))
    other = Training(seed=5).run(3)
    before = digest(other.parts)
    with pytest.raises(CheckpointError, match=r"nothing was loaded: stubborn: .*not today$"):
        load_checkpoint(tmp_path / "run.pt", **parts(other))
    assert digest(other.parts) == before


def test_a_part_without_a_state(tmp_path, saved):
    for call in (save_checkpoint, load_checkpoint):
        with pytest.raises(CheckpointError, match=r"losses is of type list, .* no state_dict"):
            call(saved, losses=[1.0])


def test_a_missing_file_and_a_folder(tmp_path):
    refuse(tmp_path / "none.pt", "there is no checkpoint")
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_checkpoint(tmp_path)


@pytest.mark.parametrize("content", [{"model": {}}, [1, 2], torch.ones(2)])
def test_a_file_of_something_else(tmp_path, content):
    torch.save(content, tmp_path / "other.pt")
    refuse(tmp_path / "other.pt", "was not written by save_checkpoint")


class Trap:
    def __reduce__(self):
        return (print, ("code ran",))


def test_no_code_runs_from_a_file(tmp_path, capsys):
    torch.save({"format": Trap()}, tmp_path / "trap.pt")
    refuse(tmp_path / "trap.pt", "truncated or no checkpoint")
    assert "code ran" not in capsys.readouterr().out


def test_another_width(saved):
    refuse(saved, r"0\.weight was float32 \(32, 64\), is float32 \(8, 64\)", Training(width=8))


def test_another_architecture(saved):
    model = digits_network(32)
    refuse(saved, "model: no 2.weight in the file, .*, and [0-9]+ more", model=model)


def test_another_dtype(saved):
    refuse(saved, "was float32 .*, is bfloat16", model=Training().model.bfloat16())


def test_another_optimizer(saved):
    refuse(saved, "optimizer was a SGD, this is a AdamW", Training(optimizer="AdamW"))


def test_an_optimizer_of_other_parameters(saved):
    other = torch.optim.SGD(digits_network(8).parameters(), lr=0.1, momentum=0.9)
    refuse(saved, r"shape \(32, 64\), not \(8, 64\)", optimizer=other)
    other = torch.optim.SGD(torch.nn.Linear(64, 10).parameters(), lr=0.1, momentum=0.9)
    refuse(saved, r"optimizer: had groups of \[6\] parameters, has \[2\]", optimizer=other)
    shapes = [torch.nn.Parameter(torch.ones(p.shape[::-1])) for p in Training().model.parameters()]
    other = torch.optim.SGD(shapes, lr=0.1, momentum=0.9)
    refuse(saved, "momentum_buffer of parameter 0 has shape", optimizer=other)


def test_another_scheduler(saved):
    refuse(saved, "was a CosineAnnealingLR, this is a OneCycleLR", Training(scheduler="one cycle"))


def test_a_disabled_scaler(saved):
    disabled = torch.amp.GradScaler("cpu", enabled=False)
    refuse(saved, "scaler: was enabled, is disabled", scaler=disabled)


def test_other_parts(saved):
    refuse(saved, "it holds batches, which is not asked for", batches=None)
    refuse(saved, "it holds no second", second=digits_network())


def test_another_torch(saved, monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.99.0+cpu")
    refuse(saved, "written by torch 2.* this is 2.99.0.*other_torch=True")
    want = Training().run(STOP).state()
    training = Training(seed=5)
    with pytest.warns(UserWarning, match="may not go on bit for bit"):
        load_checkpoint(saved, other_torch=True, **training.parts)
    assert training.state() == want


def test_a_gpu_that_is_not_here(saved):
    content = torch.load(saved, weights_only=True)
    content["random"]["cuda"] = [torch.get_rng_state()] * (torch.cuda.device_count() + 1)
    torch.save(content, saved)
    refuse(saved, "random state of .* GPUs, which are not here")


# ---- saving ------------------------------------------------------------------------------------


def test_a_file_that_could_not_be_read_back_is_not_written(saved):
    before = saved.read_bytes()

    class Odd:
        def state_dict(self):
            return {"object": Trap()}

    with pytest.raises(CheckpointError, match="could not be read back"):
        save_checkpoint(saved, odd=Odd())
    assert saved.read_bytes() == before


def test_a_write_that_fails_keeps_the_old_file(saved, monkeypatch):
    before = saved.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(CheckpointError, match=r"cannot be written: No space left on device"):
        save_checkpoint(saved, **Training().parts)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(CheckpointError, match="cannot be written: No such file"):
        save_checkpoint(tmp_path / "none" / "run.pt", model=digits_network())


def test_saving_draws_nothing(tmp_path):
    training = Training().run(3)
    states = torch.get_rng_state(), random.getstate()
    save_checkpoint(tmp_path / "run.pt", **training.parts)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no such files on Windows")
def test_only_an_ordinary_file_is_replaced(tmp_path):
    """Else a save to /dev/null, by one who may, takes it from the whole machine."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="cannot be written: Not an ordinary file"):
        save_checkpoint(tmp_path / "pipe", model=digits_network())
    assert (tmp_path / "pipe").is_fifo()
    assert list(tmp_path.iterdir()) == [tmp_path / "pipe"]


@pytest.mark.skipif(os.name == "nt", reason="links need a right on Windows, and modes differ")
def test_a_link_stays_one_and_permissions_are_kept(saved):
    link = saved.with_name("latest.pt")
    link.symlink_to(saved.name)
    saved.chmod(0o600)
    save_checkpoint(link, model=digits_network(width=3))
    assert link.is_symlink()
    assert saved.stat().st_mode & 0o777 == 0o600
    load_checkpoint(saved, model=digits_network(width=3))
