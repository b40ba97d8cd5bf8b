"""Launching ranks: what they say comes back, and whatever goes wrong ends soon and is named.

The ranks of most tests import no torch, so a launch costs a second and a half. What two real ranks
do is checked in lesson 12, which runs the experiments.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import psutil
import pytest
from waiting import wait_until

from amp_lessons.amp.distributed import LaunchError, launch
from amp_lessons.amp.distributed.launch import _failed, _rank

SCRIPT = """
import os, sys, time
from pathlib import Path
{report}
rank = int(os.environ["RANK"])
print("rank", rank, "of", os.environ["WORLD_SIZE"], flush=True)
written = Path(sys.argv[2], f"{{os.getpid()}}.tmp")
written.write_text(str(os.getpid()))
written.rename(Path(sys.argv[2], f"pid{{rank}}"))  # whoever finds the file finds the number in it
while len(list(Path(sys.argv[2]).glob("pid*"))) < 2:  # one that fails early ends the other
    time.sleep(0.02)
{body}
"""
REPORT = """
sys.path.insert(0, sys.argv[1])
from amp_lessons.amp.distributed.launch import report
"""


@pytest.fixture
def ranks(tmp_path):
    """Launch two ranks with this body; the answer also tells which processes there were."""

    def go(body: str, **options):
        script = tmp_path / "script.py"
        script.write_text(SCRIPT.format(body=body, report=REPORT), encoding="utf-8")
        return launch(script, str(tmp_path), str(tmp_path), **options)

    def processes() -> list[int]:
        return [int(path.read_text()) for path in sorted(tmp_path.glob("pid*"))]

    go.processes = processes
    return go


def assert_gone(pids: list[int]) -> None:
    """They were killed; when the system has buried them is its own affair."""
    assert len(pids) == 2, "the ranks never ran"
    wait_until(lambda: not any(map(psutil.pid_exists, pids)))


def test_output_and_reports_come_back_in_order(ranks):
    body = "report('double', [rank, 2 * rank]); print('done'); print('oops', file=sys.stderr)"
    found = ranks(body)
    assert [rank.number for rank in found] == [0, 1]
    assert [rank.reports for rank in found] == [{"double": [0, 0]}, {"double": [1, 2]}]
    assert found[1].output == "rank 1 of 2\ndone"
    assert found[1].errors.strip() == "oops"


def test_rank_that_raises_is_named_with_its_words(ranks):
    with pytest.raises(LaunchError, match="rank 1 ended with exit status 1: ValueError: no fuel"):
        ranks("if rank: raise ValueError('no fuel')\ntime.sleep(3600)")
    assert_gone(ranks.processes())


@pytest.mark.slow
def test_rank_that_is_killed_is_named_with_the_signal(ranks):
    with pytest.raises(LaunchError, match="rank 0 was killed by SIGKILL, as when memory runs out"):
        ranks("if not rank: os.kill(os.getpid(), 9)\ntime.sleep(3600)")
    assert_gone(ranks.processes())


@pytest.fixture
def time_is_over_when_both_are_deaf(tmp_path, monkeypatch):
    """`launch` runs out of time when both ranks ignore signals, however slow the machine is."""
    wait = subprocess.Popen.communicate

    def communicate(self, input=None, timeout=None):
        if timeout is None:
            return wait(self, input)
        wait_until(lambda: len(list(tmp_path.glob("deaf*"))) == 2, self)
        raise subprocess.TimeoutExpired(self.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", communicate)


@pytest.mark.slow
def test_ranks_that_hang_are_ended_even_if_they_refuse(ranks, time_is_over_when_both_are_deaf):
    body = (
        "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "Path(sys.argv[2], f'deaf{rank}').touch(); time.sleep(3600)"
    )
    with pytest.raises(LaunchError, match=r"not done after 77 s.*rank 1: rank 1 of 2"):
        ranks(body, timeout=77)
    assert_gone(ranks.processes())


LAUNCHER = """
import sys
from amp_lessons.amp.distributed import launch
launch(sys.argv[1], sys.argv[2], sys.argv[2])
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "killpg"), reason="no process groups on Windows")
def test_ranks_end_when_the_launcher_is_killed(ranks, tmp_path):
    """As a kernel is that is restarted while its ranks run: with its whole process group."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(body="time.sleep(3600)", report=REPORT), encoding="utf-8")
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(script), str(tmp_path)], start_new_session=True
    )
    wait_until(lambda: len(ranks.processes()) == 2, launcher)
    os.killpg(launcher.pid, signal.SIGKILL)
    launcher.wait()
    assert_gone(ranks.processes())


def test_time_is_kept(ranks):
    """The ranks would sleep for longer than a test may run."""
    with pytest.raises(LaunchError, match=r"no rank after 0.01 s. It needs the address 127.0.0.1"):
        ranks("time.sleep(3600)", timeout=0.01)  # too short to start Python


def test_missing_torchrun_is_said_before_anything_starts(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("a process was started"))
    with pytest.raises(LaunchError, match=r"no torch.distributed.run .*: install torch"):
        launch("amp_lessons.amp.distributed.train")


def test_missing_torch_is_said_too(monkeypatch):
    def missing(name):
        raise ModuleNotFoundError("No module named 'torch'")

    monkeypatch.setattr("importlib.util.find_spec", missing)
    with pytest.raises(LaunchError, match="install torch"):
        launch("amp_lessons.amp.distributed.train")


@pytest.mark.parametrize("options", [{"ranks": 0}, {"timeout": 0}, {"timeout": -1.0}])
def test_launch_refuses_numbers_that_make_no_sense(options):
    with pytest.raises(ValueError, match="must be positive"):
        launch("script.py", **options)


def test_torchrun_that_fails_by_itself_is_quoted():
    log = "a warning\nRuntimeError: the rendezvous was closed\n\n"
    assert _failed([], log) == (
        "torchrun failed before the ranks ran: RuntimeError: the rendezvous was closed"
    )


@pytest.mark.slow
def test_rank_that_asks_for_input_gets_none(ranks):
    """Its standard input was the launcher's pipe: a `breakpoint()` waited until the time was up."""
    first, second = ranks("print(repr(sys.stdin.read()))")
    assert (first.last_words, second.last_words) == ("''", "''")


def test_report_that_was_cut_off_is_left_out(tmp_path):
    folder = tmp_path / "run" / "attempt_0" / "0"
    folder.mkdir(parents=True)
    text = 'amp-lessons-report ["a", 1]\namp-lessons-report ["b", 1'
    (folder / "stdout.log").write_text(text, encoding="utf-8")
    assert _rank(0, tmp_path).reports == {"a": 1}
    (folder / "stdout.log").write_text("amp-lessons-report 3", encoding="utf-8")
    assert _rank(0, tmp_path).reports == {}


# ---- the training script, on one rank of this process ------------------------------------------


@pytest.fixture
def alone(monkeypatch):
    """The environment that torchrun gives to a single rank, and no GPU."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.setenv(name, "0")
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(port))
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)


@pytest.mark.parametrize(
    ("parallel", "precision"),
    [
        pytest.param("ddp", "fp32", marks=pytest.mark.slow),
        ("ddp", "fp16"),
        pytest.param("fsdp2", "fp16", marks=pytest.mark.slow),
        ("fsdp2", "bf16"),
    ],
)
def test_script_trains_in_every_precision(alone, capsys, parallel, precision):
    from amp_lessons.amp.distributed.train import main

    assert main(["--parallel", parallel, "--precision", precision, "--steps", "60"]) == 0
    words = capsys.readouterr().out
    assert words.startswith(f"{parallel} on 1 ranks (cpu), {precision}: ")
    assert int(words.split(": ")[1].split("%")[0]) > 60


@pytest.mark.parametrize("parallel", ["ddp", "fsdp2"])
def test_micro_batches_make_the_step_of_the_whole_batch(alone, parallel):
    """Four micro-batches of one step change the weights as their mean does."""
    import torch
    from torch.nn.functional import cross_entropy

    from amp_lessons.amp.distributed.train import process_group, train
    from amp_lessons.amp.training.loops import Batches, digits_network, load_digits

    with process_group() as device:
        model, records = train(
            device, parallel=parallel, precision="fp32", steps=1, micro_batches=4
        )
        found = [getattr(p, "full_tensor", lambda p=p: p)() for p in model.parameters()]
    digits = load_digits()
    batches = Batches(digits.train_images, digits.train_labels, size=16)
    images, labels = map(torch.cat, zip(*(next(batches) for _ in range(4)), strict=True))
    network = digits_network(width=32)
    cross_entropy(network(images), labels).backward()
    for mine, parameter in zip(found, network.parameters(), strict=True):
        assert torch.allclose(mine, parameter - 0.05 * parameter.grad, atol=1e-6)
    assert records == [{"step": 0, "finite": True, "skipped": False, "scale": 1.0}]


@pytest.mark.parametrize(("gpus", "nccl"), [(1, True), (2, False)])
def test_gpus_are_taken_only_if_there_is_one_for_each_rank(alone, monkeypatch, gpus, nccl):
    from amp_lessons.amp.distributed.train import process_group

    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.setattr("torch.distributed.is_nccl_available", lambda: nccl)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with process_group() as device:
        assert device.type == "cpu"


def test_script_that_is_run_as_a_file_says_how_to_start_it(monkeypatch, capsys):
    """And so does one under a launcher that sets RANK alone."""
    from amp_lessons.amp.distributed import train

    monkeypatch.setattr(train, "__spec__", None)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    with pytest.raises(SystemExit):
        train.main([])
    assert "-m amp_lessons.amp.distributed.train" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--steps", "0"], "--steps and --micro-batches must be at least 1"),
        (["--precision", "fp8"], "invalid choice: 'fp8'"),
        ([], "start me with torchrun: python -m torch.distributed.run --nproc-per-node 2 -m amp_"),
    ],
)
def test_script_says_in_one_line_what_is_wrong(monkeypatch, capsys, arguments, words):
    from amp_lessons.amp.distributed.train import main

    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("size", [None, "1"])
def test_experiments_ask_for_two_ranks(monkeypatch, size):
    from amp_lessons.amp.distributed.experiments import main

    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
        if size is not None:
            monkeypatch.setenv(name, size)
    with pytest.raises(SystemExit, match="start me on two ranks: python -m torch"):
        main()


def test_launching_does_not_import_torch_here():
    code = "import sys, amp_lessons.amp.distributed; print('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
    assert os.environ.get("RANK") is None, "a test left its environment behind"
