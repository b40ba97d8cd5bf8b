"""Ask PyTorch's own C++, with no GPU, which kernel attention takes, and record what it says.

The CUDA build of PyTorch chooses a kernel from shapes, dtypes and the GPU's compute capability. It
does so for fake tensors too, once something answers for the GPU: a small library that is loaded
before CUDA's own and tells any capability. No kernel runs. The answers go to the version's file
among tests/attention_recorded_….json, against which tests/amp/test_attention.py holds the course's
rules.

    python tools/record_attention.py /path/to/python-with-torch-2.13.0-for-CUDA

It needs a C compiler, and the headers that come with that PyTorch's packages.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RECORDS = ROOT / "tests"

RUNTIME = r"""
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>
#define ANSWER return cudaSuccess
typedef enum cudaStreamCaptureStatus Capture;
cudaError_t cudaGetDeviceCount(int *count) { *count = 1; ANSWER; }
cudaError_t cudaGetDevice(int *device) { *device = 0; ANSWER; }
cudaError_t cudaSetDevice(int device) { ANSWER; }
cudaError_t cudaGetLastError(void) { ANSWER; }
cudaError_t cudaDriverGetVersion(int *version) { *version = 13000; ANSWER; }
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0; *greatest = -5; ANSWER;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
  *stream = (cudaStream_t)malloc(8); ANSWER;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, Capture *status) {
  *status = cudaStreamCaptureStatusNone; ANSWER;
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
  int sm = atoi(getenv("PRETENDED_SM"));
  memset(properties, 0, sizeof *properties);
  properties->major = sm / 10;
  properties->minor = sm % 10;
  ANSWER;
}
"""
DRIVER = r"""
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  *flags = 0; *active = 1; return 0;
}
"""


def main(python: str) -> None:
    """Ask for each row of the table, and write the record."""
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    from attention_calls import TABLE

    from amp_lessons.amp.attention import capability

    answers: list[dict[str, Any] | None] = [None] * len(TABLE)
    with tempfile.TemporaryDirectory() as folder:
        environment = _pretend(python, Path(folder))
        for sm in sorted({capability(case.gpu) for case in TABLE}):
            asked = [i for i, case in enumerate(TABLE) if capability(case.gpu) == sm]
            calls = [asdict(TABLE[i].call) | TABLE[i].settings for i in asked]
            environment["PRETENDED_SM"] = f"{sm[0]}{sm[1]}"
            done = subprocess.run(
                [python, __file__, "--answer"],
                input=json.dumps(calls),
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
                check=True,
            )
            build, *found = json.loads(done.stdout.splitlines()[-1])
            for i, answer in zip(asked, found, strict=True):
                answers[i] = {"what": TABLE[i].what, "gpu": TABLE[i].gpu, **answer}
    rows = ",\n  ".join(json.dumps(answer) for answer in answers)
    version = re.match(r"torch (\d+\.\d+)", build)[1]
    file = RECORDS / f"attention_recorded_{version}.json"
    file.write_text(f'{{"build": {json.dumps(build)},\n "answers": [\n  {rows}\n ]}}\n')
    print(f"{len(answers)} answers of {build} in {file.name}")


def _pretend(python: str, folder: Path) -> dict[str, str]:
    """The environment of a process that takes this machine for one with a GPU."""
    where = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    packages = Path(where.stdout.strip())
    headers = next(packages.glob("nvidia/cu*/include/cuda_runtime_api.h")).parent
    # Triton brings the few headers that NVIDIA's package leaves out.
    more = folder / "more"
    more.mkdir()
    (more / "crt").symlink_to(packages / "triton/backends/nvidia/include/crt")
    for name, text in (("runtime.so", RUNTIME), ("libcuda.so.1", DRIVER)):
        source = folder / f"{name}.c"
        source.write_text(text)
        paths = [f"-I{headers}", f"-I{more}"]
        subprocess.run(["cc", "-shared", "-fPIC", *paths, source, "-o", folder / name], check=True)
    own = {"LD_PRELOAD": str(folder / "runtime.so"), "LD_LIBRARY_PATH": str(folder)}
    return {**os.environ, **own, "OMP_NUM_THREADS": "1"}


# ---- in the process that has the CUDA build -----------------------------------------------------


def answer() -> None:
    """Read calls from standard input, and print what PyTorch's C++ does with each."""
    import torch

    torch._C._ensureCUDADeviceGuardSet()
    version = f"torch {torch.__version__} ({torch.version.git_version[:8]})"
    build = f"{version}, cuDNN {'.'.join(map(str, torch._C._cudnn.getRuntimeVersion()))}"
    print(json.dumps([build, *(_answered(call) for call in json.load(sys.stdin))]))


def _answered(call: dict[str, Any]) -> dict[str, Any]:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.backends.cuda import SDPAParams

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    query, key, value, mask = _tensors(call, mode)
    options = (call["dropout"], call["causal"])
    torch.use_deterministic_algorithms(call.get("deterministic", False))
    backends, on = torch.backends.cuda, call.get("enabled", ["flash", "efficient", "cudnn", "math"])
    backends.enable_flash_sdp("flash" in on)
    backends.enable_mem_efficient_sdp("efficient" in on)
    backends.enable_cudnn_sdp("cudnn" in on)
    backends.enable_math_sdp("math" in on)
    asked = SDPAParams(query, key, value, mask, *options, call["gqa"])
    lines = {}
    for name in ("flash", "efficient", "cudnn"):
        allows = getattr(backends, f"can_use_{name}_attention")
        warning = _stderr_of(lambda allows=allows: allows(asked, True))
        place = re.search(r"(sdp_utils\w*\.(?:cpp|h)):(\d+)\] Warning", warning)
        if not allows(asked, False):
            lines[name] = f"{place[1]}:{place[2]}" if place else "silent"
    saved: dict[int, int] = {}
    ops: list[str] = []
    kept = []

    def keep(tensor: Any) -> Any:
        kept.append(tensor)
        saved[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        return tensor

    def run() -> None:
        hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
        with mode, _op_names(ops), hooks:
            torch.nn.functional.scaled_dot_product_attention(
                query, key, value, mask, *options, enable_gqa=call["gqa"]
            )

    try:
        _stderr_of(run)
    except RuntimeError:
        return {"kernel": "", "lines": lines, "saved": 0}
    names = " ".join(ops)
    fused = (name for name in ("cudnn", "flash", "efficient") if f"product_{name}" in names)
    plain = "none" if "zeros" in ops and "bmm" not in ops else "math"
    return {"kernel": next(fused, plain), "lines": lines, "saved": sum(saved.values())}


def _tensors(call: dict[str, Any], mode: Any) -> list[Any]:
    import torch
    from torch._subclasses.fake_tensor import FakeTensor

    def fake(shape: list[int], dtype: str, grad: bool, last: int, offset: int = 0) -> Any:
        strides, size = [], last
        for length in reversed(shape):
            strides.insert(0, size)
            size *= max(length, 1)
        flat = torch.empty(size + offset, dtype=getattr(torch, dtype), device="meta")
        meta = flat.as_strided(shape, strides, offset)
        return FakeTensor(mode, meta, torch.device("cuda", 0)).requires_grad_(grad)

    grad, dtype = call["needs_grad"], call["dtype"]
    layout = zip(("query", "key", "value"), call["last_strides"], call["offsets"], strict=True)
    tensors = [fake(call[name], dtype, grad, last, offset) for name, last, offset in layout]
    if call["mask"] is None:
        return [*tensors, None]
    last, grad = call["mask_last_stride"], call["mask_needs_grad"]
    return [*tensors, fake(call["mask"], call["mask_dtype"], grad, last)]


def _op_names(ops: list[str]) -> Any:
    """A mode that notes the names of the ops that run."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Ops(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func._schema.name != "prim::device":
                ops.append(func._schema.name.removeprefix("aten::"))
            return func(*args, **(kwargs or {}))

    return Ops()


def _stderr_of(run: Any) -> str:
    """What is written to standard error, also by C++, while ``run`` runs."""
    before = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            run()
        finally:
            os.dup2(before, 2)
            os.close(before)
        file.seek(0)
        return file.read().decode()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("give the Python of an environment with a PyTorch for CUDA, 2.13.0 or 2.15.0")
    if sys.argv[1] == "--answer":
        answer()
    else:
        main(sys.argv[1])
