"""The precisions that are compared, and which of them this machine can do."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from importlib.util import find_spec

import torch

from amp_lessons.amp.speed import device as machine
from amp_lessons.amp.speed.bench.workloads import BenchError, Workload
from amp_lessons.amp.speed.timing import Fp32Precision

CPU_FP16_WIDTH = 128
"""Without native float16, a CPU's matmul of 512 takes more than 100 times what 128 does."""


@dataclass(frozen=True)
class Mode:
    """One way to run a training step.

    Attributes:
        key: as the command line knows it.
        name: as tables and records show it.
        autocast: dtype of autocast, or None for none.
        fp32: how the float32 matmuls and convolutions that are left run on CUDA.
        scaler: whether the loss is scaled.
        compile: whether the model goes through torch.compile.
        roof: the key of the measured peak that it is held against.
    """

    key: str
    name: str
    autocast: torch.dtype | None
    roof: str
    fp32: Fp32Precision = "ieee"
    scaler: bool = False
    compile: bool = False


MODES = (
    Mode("fp32", "FP32", None, "FP32"),
    Mode("tf32", "TF32", None, "TF32", fp32="tf32"),
    Mode("fp16", "AMP FP16", torch.float16, "FP16", scaler=True),
    Mode("bf16", "AMP BF16", torch.bfloat16, "BF16"),
    Mode("bf16-compile", "AMP BF16 + compile", torch.bfloat16, "BF16", compile=True),
)
ROOF_DTYPES = {
    "FP32": torch.float32,
    "TF32": torch.float32,
    "FP16": torch.float16,
    "BF16": torch.bfloat16,
}


def chosen(keys: list[str]) -> list[Mode]:
    """Modes by key, in the order of `MODES`. Raises `BenchError` for one that there is not."""
    known = [mode.key for mode in MODES]
    for key in keys:
        if key not in known:
            raise BenchError(f"no mode {key!r}: choose from {', '.join(known)}")
    return [mode for mode in MODES if mode.key in keys]


def why_not(mode: Mode, workload: Workload, device: torch.device) -> str:
    """Why this machine cannot do a workload in a mode: one sentence, or "" if it can."""
    if mode.fp32 == "tf32":
        return _no_tf32(device)
    if mode.autocast == torch.bfloat16 and device.type == "cuda":
        with torch.cuda.device(device):
            native = torch.cuda.is_bf16_supported(including_emulation=False)
        if not native:
            name = torch.cuda.get_device_name(device)
            return f"{name} has no bf16 tensor cores and would emulate it"
    if mode.autocast == torch.float16 and device.type == "cpu" and _too_wide(workload):
        return (
            f"this CPU has no native float16; sizes up to {CPU_FP16_WIDTH} only "
            f"(try --sizes 64x{CPU_FP16_WIDTH})"
        )
    return _no_compiler(device) if mode.compile else ""


def _no_tf32(device: torch.device) -> str:
    if device.type != "cuda":
        return machine.why_not("tf32") or "TF32 needs an NVIDIA GPU, and this ran on the CPU"
    if torch.version.hip is not None or (
        torch.cuda.get_device_capability(device) < machine.TF32_SINCE
    ):
        name = torch.cuda.get_device_name(device)
        return f"{name} has no TF32, which came with NVIDIA's Ampere (compute capability 8.0)"
    return ""


def _too_wide(workload: Workload) -> bool:
    return workload.widest > CPU_FP16_WIDTH and not machine.cpu().fp16


def _no_compiler(device: torch.device) -> str:
    """What torch.compile's default backend lacks here: it writes C++ for a CPU, Triton for a GPU,
    and Triton compiles a launcher in C.
    """
    compilers = [os.environ.get(name, "") for name in ("CXX", "CC")]
    compilers += ["g++", "clang++", "gcc", "clang", "cl"]
    if not any(shutil.which(compiler) for compiler in compilers if compiler):
        return "torch.compile needs a C++ compiler, and none is here (install g++)"
    if device.type == "cuda" and find_spec("triton") is None:
        return "torch.compile needs Triton on a GPU, and it is not installed"
    return ""
