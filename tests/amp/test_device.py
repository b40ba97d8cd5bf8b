"""What the machine is said to do, on this machine and on pretended ones."""

from __future__ import annotations

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from amp_lessons.amp.speed import device
from amp_lessons.app import doctor
from amp_lessons.app.doctor import Kernel


def fake_torch(capability=None, hip=None, name="Tesla T4"):
    """A PyTorch that sees one NVIDIA GPU of this capability, or none."""
    cuda = SimpleNamespace(
        is_available=lambda: capability is not None,
        get_device_capability=lambda index: capability,
        get_device_name=lambda index: name,
    )
    return SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=hip, cuda="13.0"))


def test_importing_it_brings_no_torch():
    code = (
        "import sys, amp_lessons.amp.speed.device, amp_lessons.app.doctor, "
        "amp_lessons.app.workspace, amp_lessons.app.lab; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_cpu_need_is_always_met(monkeypatch):
    monkeypatch.setattr(device, "_import_torch", lambda: "No module named 'torch'")
    assert device.why_not("cpu") == ""


@pytest.mark.parametrize(
    ("torch", "says"),
    [
        ("No module named 'torch'", "cannot be used"),
        (fake_torch(), "finds none"),
        (fake_torch((7, 5)), "Tesla T4 has 7.5"),
        (fake_torch((9, 4), hip="6.4"), "AMD"),
    ],
    ids=["no torch", "no GPU", "Turing", "ROCm"],
)
def test_why_tf32_cannot_be_measured(monkeypatch, torch, says):
    monkeypatch.setattr(device, "_import_torch", lambda: torch)
    assert says in device.why_not("tf32")
    assert "\n" not in device.why_not("tf32")


def test_tf32_can_be_measured_from_ampere_on(monkeypatch):
    monkeypatch.setattr(device, "_import_torch", lambda: fake_torch((8, 0)))
    assert device.why_not("tf32") == ""


def test_the_real_devices_agree_with_torch():
    import torch

    found = {each.name: each for each in device.devices()}
    assert found["cpu"].memory is None or found["cpu"].memory > 2**28
    gpus = [name for name in found if name.startswith("cuda")]
    assert len(gpus) == torch.cuda.device_count()
    for index, name in enumerate(gpus):
        major, minor = torch.cuda.get_device_capability(index)
        assert found[name].capability == f"{major}.{minor}"
        assert found[name].tf32 == (major >= 8)


def test_a_cpu_that_tells_nothing_is_not_guessed(monkeypatch):
    monkeypatch.setattr(device, "_cpu_flags", set)
    assert device.cpu().bf16 is None
    assert device.cpu().fp16 is None


@pytest.mark.parametrize(
    ("flags", "bf16", "fp16"),
    [
        ({"avx2"}, False, False),
        ({"avx512_bf16"}, True, False),
        ({"amx_bf16", "avx512_fp16"}, True, True),
        ({"asimdhp", "bf16"}, True, True),
    ],
)
def test_native_arithmetic_is_read_from_the_flags(monkeypatch, flags, bf16, fp16):
    monkeypatch.setattr(device, "_cpu_flags", lambda: flags)
    assert (device.cpu().bf16, device.cpu().fp16) == (bf16, fp16)


# ---- doctor -------------------------------------------------------------------------------------


def test_the_report_is_json_and_names_every_lesson():
    data = json.loads(json.dumps(doctor.as_json(doctor.examine())))
    assert data["ok"] is True
    lessons = {entry["lesson"] for entry in data["measurements"]}
    assert {"00_amp_in_20_minutes", "01_number_formats", "02_how_numbers_break"} <= lessons
    for entry in data["measurements"]:
        assert entry["measured_here"] == (entry["why_not"] == "")
    assert {package["name"] for package in data["packages"]} >= {"torch", "jupyterlab", "rich"}


def test_every_problem_has_a_cure_in_one_line(monkeypatch):
    monkeypatch.setattr(device, "nvidia_gpu_present", lambda: True)
    monkeypatch.setattr(device, "torch_installed", lambda: device.Torch("2.13.0+cpu"))
    monkeypatch.setattr(doctor, "_can_write", lambda folder: False)
    monkeypatch.setattr(doctor, "_kernel", lambda: Kernel("python3", "/usr/bin/python", False))
    old = doctor.Package("torch", "2.5.1", ">=2.13,<3", ok=False, too_old=True)
    new = doctor.Package("rich", "99.0", ">=13.9,<20", ok=False)
    gone = doctor.Package("psutil", None, ">=6.0", ok=False)
    monkeypatch.setattr(doctor, "_packages", lambda: [old, new, gone])
    report = doctor.examine()
    blocks = {problem.what: problem.blocks for problem in report.problems}
    assert len(blocks) == 6
    for problem in report.problems:
        assert problem.cure
        assert "\n" not in problem.cure + problem.what
    assert [blocks[what] for what in blocks if what.startswith(("torch", "psutil"))] == [True, True]
    assert [blocks[what] for what in blocks if what.startswith("rich")] == [False]
    assert report.blocked


def test_a_torch_that_cannot_be_imported_blocks(monkeypatch):
    broken = device.Torch(None, error="libtorch_cpu.so: cannot open shared object file")
    problems = doctor._torch_problems(broken)
    assert "libtorch_cpu.so" in problems[0].what
    assert problems[0].blocks


@pytest.mark.parametrize("program", ["python", "python3", sys.executable])
def test_this_kernel_is_known_as_ours(monkeypatch, tmp_path, program):
    write_kernel(monkeypatch, tmp_path, program)
    assert doctor.kernel_problems() == []


def test_the_kernel_of_another_python_is_a_problem(monkeypatch, tmp_path):
    other = tmp_path / "bin" / "python"
    other.parent.mkdir()
    other.symlink_to(sys.executable)
    write_kernel(monkeypatch, tmp_path, str(other))
    (problem,) = doctor.kernel_problems()
    assert str(other) in problem.what
    assert problem.cure.startswith(f"{sys.executable} -m ipykernel install")


def test_a_kernel_file_that_is_broken_is_a_problem(monkeypatch, tmp_path):
    write_kernel(monkeypatch, tmp_path, "python")
    (tmp_path / "kernels" / "python3" / "kernel.json").write_text("{")
    assert "no usable kernel" in doctor.kernel_problems()[0].what


def write_kernel(monkeypatch, folder, program):
    """Let Jupyter find a kernel python3 that starts this program, before all others."""
    place = folder / "kernels" / "python3"
    place.mkdir(parents=True)
    spec = {"argv": [program, "-m", "ipykernel_launcher"], "display_name": "x", "language": "x"}
    (place / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(folder))
