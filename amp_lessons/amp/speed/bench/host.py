"""Where a bench ran, asked before it runs: after a CUDA error a GPU may answer nothing more.

Clocks, power and temperature are asked again at the end.
"""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from amp_lessons.amp.speed import device as machine


def describe(device: torch.device) -> dict[str, Any]:
    """GPU, driver and torch, and under "machine" the rest. GPU and driver are None on a CPU."""
    cpu = machine.cpu()
    facts: dict[str, Any] = {
        "cpu": cpu.model,
        "cores": machine.logical_cores(),
        "threads": torch.get_num_threads(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
    }
    host: dict[str, Any] = {"gpu": None, "driver": None, "torch": str(torch.__version__)}
    if device.type == "cuda":
        gpu = torch.cuda.get_device_properties(device)
        state = gpu_state(device)
        host |= {"gpu": gpu.name, "driver": state.get("driver") or driver_version()}
        facts |= {
            "gpu_before": state,
            "l2_cache_bytes": gpu.L2_cache_size,
            "capability": f"{gpu.major}.{gpu.minor}",
            "gpu_memory_bytes": gpu.total_memory,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        }
    return host | {"machine": facts}


GPU_STATE = {
    "driver": "driver_version",
    "sm_clock_mhz": "clocks.sm",
    "sm_clock_max_mhz": "clocks.max.sm",
    "memory_clock_mhz": "clocks.mem",
    "power_w": "power.draw",
    "power_limit_w": "power.limit",
    "temperature_c": "temperature.gpu",
}
"""What is asked of nvidia-smi, by the name in the record (``nvidia-smi --help-query-gpu``)."""


def gpu_state(device: torch.device) -> dict[str, Any]:
    """Driver, clocks in MHz, power in W and temperature in °C of a GPU, by one call of nvidia-smi.

    What it doesn't know is left out. Empty on a CPU, and where nvidia-smi is missing or fails.
    """
    if device.type != "cuda":
        return {}
    command = ["nvidia-smi", f"--query-gpu={','.join(GPU_STATE.values())}"]
    command += ["--format=csv,noheader,nounits", *_this_one(device)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {}
    answers = [answer.strip() for answer in lines[0].split(",")]
    found: dict[str, Any] = {
        name: _number(answer) for name, answer in zip(GPU_STATE, answers, strict=False)
    }
    found["driver"] = answers[0]
    return {name: value for name, value in found.items() if value is not None}


def _this_one(device: torch.device) -> list[str]:
    """Names the GPU by its UUID: CUDA_VISIBLE_DEVICES may count others than nvidia-smi does."""
    try:
        return [f"--id=GPU-{torch.cuda.get_device_properties(device).uuid}"]
    except (AttributeError, RuntimeError):  # after a CUDA error nothing is answered
        return []


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:  # such as "[N/A]"
        return None


def driver_version() -> str:
    """The GPU's driver by what Linux says of it, else "unknown"."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "unknown"
    return text.partition("\n")[0].strip() or "unknown"
