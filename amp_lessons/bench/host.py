"""Where a bench ran, asked before it runs: after a CUDA error a GPU may answer nothing more."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import torch

from amp_lessons import device as machine


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
        host |= {"gpu": gpu.name, "driver": driver_version()}
        facts |= {
            "capability": f"{gpu.major}.{gpu.minor}",
            "gpu_memory_bytes": gpu.total_memory,
            "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(),
        }
    return host | {"machine": facts}


def driver_version() -> str:
    """The GPU's driver: by nvidia-smi, else by what Linux says of it, else "unknown"."""
    command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        if done.returncode == 0 and done.stdout.strip():
            return done.stdout.strip().splitlines()[0]
    except (OSError, subprocess.TimeoutExpired):
        pass
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "unknown"
    return text.partition("\n")[0].strip() or "unknown"
