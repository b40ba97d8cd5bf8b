"""What this machine can do: its processors, their native 16-bit arithmetic, and its memory.

Facts come from PyTorch where it knows them and from the operating system where it does not; what
neither tells is None, never a guess. The report that a learner reads is made in `doctor`. Nothing
here imports torch until a fact is asked for.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from amp_lessons.core.needs import Need

TF32_SINCE = (8, 0)
"""Compute capability of the first tensor cores with TF32: Ampere (NVIDIA A100 whitepaper)."""

FP16_SINCE = (5, 3)
"""Compute capability of the first native half-precision arithmetic (CUDA C++ Programming Guide,
table of arithmetic instructions)."""

TENSOR_CORES_SINCE = (7, 0)
"""Compute capability of the first tensor cores, for FP16: Volta."""

# The flag that Linux, PyTorch or macOS shows for native 16-bit arithmetic, by format.
_BF16_FLAGS = ("avx512_bf16", "amx_bf16", "avx10_2", "bf16", "sve_bf16", "FEAT_BF16")
_FP16_FLAGS = ("avx512_fp16", "amx_fp16", "avx10_2", "fp16_arith", "asimdhp", "FEAT_FP16")


@dataclass(frozen=True)
class Torch:
    """The PyTorch that this Python finds.

    Attributes:
        version: such as ``"2.13.0+cpu"``, or None if it cannot be imported.
        cuda: the CUDA version it was built for, or None.
        hip: the ROCm version it was built for, or None.
        error: why it cannot be imported, or "".
    """

    version: str | None
    cuda: str | None = None
    hip: str | None = None
    error: str = ""


@dataclass(frozen=True)
class Device:
    """One processor that PyTorch can use.

    Attributes:
        name: as PyTorch calls it: ``"cpu"``, ``"cuda:0"``, ``"mps"``, ``"xpu:0"``.
        model: such as ``"NVIDIA H200"``, as far as it is known.
        capability: compute capability of an NVIDIA GPU, such as ``"9.0"``; the widest vector
            instructions that PyTorch uses for a CPU, such as ``"AVX512"``; else None.
        bf16, fp16, tf32: whether it computes in that format natively; None if not known.
        through: the instructions that do it, such as ``"avx512_bf16"``.
        memory: bytes in all, or None.
        free: bytes free now, or None.
    """

    name: str
    model: str
    capability: str | None
    bf16: bool | None
    fp16: bool | None
    tf32: bool | None
    through: str = ""
    memory: int | None = None
    free: int | None = None


def torch_installed() -> Torch:
    """Import torch and say which one it is. Never raises."""
    torch = _import_torch()
    if isinstance(torch, str):
        return Torch(None, error=torch)
    return Torch(torch.__version__, torch.version.cuda, torch.version.hip)


def devices() -> list[Device]:
    """Every processor that PyTorch can use, the CPU first."""
    found = [cpu()]
    torch = _import_torch()
    if isinstance(torch, str):
        return found
    if torch.cuda.is_available():
        found += [_cuda(torch, index) for index in range(torch.cuda.device_count())]
    if torch.backends.mps.is_available():
        found.append(Device("mps", "Apple GPU", None, None, None, False))
    xpu = getattr(torch, "xpu", None)
    if xpu is not None and xpu.is_available():
        found += [_xpu(xpu, index) for index in range(xpu.device_count())]
    return found


def why_not(need: Need) -> str:
    """Why this machine cannot measure what needs ``need``: one sentence, or "" if it can."""
    if need == "cpu":
        return ""
    torch = _import_torch()
    if isinstance(torch, str):
        return f"PyTorch cannot be used here: {torch}"
    if torch.version.hip is not None:
        return "TF32 is a format of NVIDIA's tensor cores, and this PyTorch is built for AMD GPUs"
    if not torch.cuda.is_available():
        return "TF32 needs an NVIDIA GPU (Ampere or newer), and PyTorch finds none here"
    capability = torch.cuda.get_device_capability(0)
    if capability < TF32_SINCE:
        name = torch.cuda.get_device_name(0)
        return f"TF32 needs compute capability 8.0, and {name} has {_dotted(capability)}"
    return ""


def cpu() -> Device:
    """The CPU, with or without PyTorch."""
    flags = _cpu_flags()
    known = bool(flags)
    bf16 = [flag for flag in _BF16_FLAGS if flag in flags]
    fp16 = [flag for flag in _FP16_FLAGS if flag in flags]
    total, free = _ram()
    torch = _import_torch()
    return Device(
        name="cpu",
        model=_cpu_model(),
        capability=None if isinstance(torch, str) else torch.backends.cpu.get_cpu_capability(),
        bf16=bool(bf16) if known else None,
        fp16=bool(fp16) if known else None,
        tf32=False,
        through=", ".join(dict.fromkeys(bf16 + fp16)),
        memory=total,
        free=free,
    )


def nvidia_gpu_present() -> bool:
    """Whether NVIDIA's driver runs here, whatever PyTorch was built for."""
    return Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is not None


def _cuda(torch: ModuleType, index: int) -> Device:
    capability = torch.cuda.get_device_capability(index)
    free, total = torch.cuda.mem_get_info(index)
    nvidia = torch.version.hip is None
    tensor_cores = nvidia and capability >= TENSOR_CORES_SINCE
    with torch.cuda.device(index):
        bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
    return Device(
        name=f"cuda:{index}",
        model=torch.cuda.get_device_name(index),
        capability=_dotted(capability) if nvidia else None,
        bf16=bf16,
        fp16=capability >= FP16_SINCE if nvidia else True,
        tf32=nvidia and capability >= TF32_SINCE,
        through="tensor cores" if tensor_cores else "",
        memory=total,
        free=free,
    )


def _xpu(xpu: ModuleType, index: int) -> Device:
    properties = xpu.get_device_properties(index)
    bf16 = getattr(xpu, "is_bf16_supported", lambda **_: None)(including_emulation=False)
    fp16 = getattr(properties, "has_fp16", None)
    name, memory = properties.name, properties.total_memory
    return Device(f"xpu:{index}", name, None, bf16, fp16, None, memory=memory)


def _import_torch() -> ModuleType | str:
    """The module, or why it cannot be imported."""
    try:
        import torch
    except Exception as error:  # a broken build raises OSError, RuntimeError and others
        return str(error).splitlines()[0] if str(error) else type(error).__name__
    return torch


def _cpu_flags() -> set[str]:
    """Names of the CPU's features: from PyTorch, Linux and macOS, whichever knows some."""
    flags: set[str] = set()
    torch = _import_torch()
    if not isinstance(torch, str) and hasattr(torch.cpu, "get_capabilities"):
        capabilities: dict[str, Any] = dict(torch.cpu.get_capabilities())
        flags |= {name for name, has in capabilities.items() if has is True}
    for key, value in _cpuinfo():
        if key in ("flags", "Features"):
            flags |= set(value.split())
    if platform.system() == "Darwin":
        flags |= {name for name in ("FEAT_BF16", "FEAT_FP16") if _sysctl(f"hw.optional.arm.{name}")}
    return flags


def _cpu_model() -> str:
    for key, value in _cpuinfo():
        if key == "model name":
            return value
    if platform.system() == "Darwin":
        return _sysctl("machdep.cpu.brand_string") or "Apple"
    return platform.processor() or platform.machine()


def _cpuinfo() -> list[tuple[str, str]]:
    """The first processor of Linux's /proc/cpuinfo; nothing elsewhere."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    first = text.split("\n\n")[0]
    pairs = [line.partition(":") for line in first.splitlines()]
    return [(key.strip(), value.strip()) for key, _, value in pairs]


def _sysctl(name: str) -> str:
    """A value of macOS' sysctl; "" for none and for "0"."""
    command = ["sysctl", "-n", name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    value = done.stdout.strip()
    return "" if done.returncode or value == "0" else value


def _ram() -> tuple[int | None, int | None]:
    """Bytes of memory in all and available, within the limit of a container if there is one."""
    try:
        import psutil
    except ImportError:
        return None, None
    memory = psutil.virtual_memory()
    limit = _container_limit()
    if limit is None or limit >= memory.total:
        return memory.total, memory.available
    return limit, min(memory.available, limit)


def _container_limit() -> int | None:
    """The memory limit of the control group that this process is in (cgroup v2)."""
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def _dotted(capability: tuple[int, int]) -> str:
    return f"{capability[0]}.{capability[1]}"


def logical_cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
