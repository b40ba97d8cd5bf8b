"""Ops that have no 16-bit kernel, or one for some sizes only. The fake ones take everything."""

from __future__ import annotations

import torch

from amp_lessons.amp.explain.hazards.kinds import RAISES, hazard
from amp_lessons.amp.explain.recorder import OpEvent
from amp_lessons.amp.explain.rows import Hazard
from amp_lessons.amp.fake_tensors.ops import LOW
from amp_lessons.core.precision import dtype_name

_SOLVERS = (
    "linalg_cholesky_ex", "cholesky", "linalg_qr", "_linalg_svd", "_linalg_eigh", "linalg_eig",
    "_linalg_eigvals", "linalg_lu", "linalg_lu_factor_ex", "_linalg_det", "_linalg_solve_ex",
    "linalg_solve_triangular", "triangular_solve", "linalg_ldl_factor_ex", "linalg_lstsq",
    "linalg_householder_product", "_cdist_forward", "_pdist_forward", "cholesky_solve",
    "cholesky_inverse", "linalg_lu_solve", "geqrf", "ormqr", "linalg_inv_ex", "_linalg_slogdet",
    "_ctc_loss",
)  # fmt: skip
_HALF = (torch.float16, torch.complex32)


def solver_in_low(event: OpEvent) -> Hazard | None:
    """Solvers and distances have no 16-bit kernel. The fake one, which ran here, has."""
    if event.row.op.partition("::")[2] not in _SOLVERS:
        return None
    dtype = next((t.dtype for t, _ in event.inputs if t.dtype in LOW), None)
    if dtype is None:
        return None
    op = event.row.short_op.strip("_").removesuffix("_ex")
    return hazard(
        event,
        "no 16-bit kernel",
        RAISES,
        f"{op} gets {dtype_name(dtype)}, for which torch has no kernel: it raises",
    )


def fft_in_low(event: OpEvent) -> Hazard | None:
    """cuFFT's half precision takes powers of two only, and a CPU has no 16-bit transform at all.

    The check is in PyTorch's aten/src/ATen/native/cuda/CuFFTPlanCache.h (`CuFFTConfig`).
    """
    name = event.row.op.partition("::")[2]
    if not name.startswith("_fft_"):
        return None
    source = event.inputs[0][0]
    if source.dtype not in _HALF:
        return None
    if source.device.type != "cuda":
        message = "a CPU has no 16-bit FFT: it raises"
    else:
        lengths = _lengths(event)
        odd = next((n for n in lengths if n & (n - 1)), 0)
        if not odd:
            return None
        message = (
            f"cuFFT takes only lengths that are powers of two in half precision, and this is "
            f"{odd}: it raises"
        )
    return hazard(
        event,
        "no 16-bit kernel",
        RAISES,
        message,
        "transform in float32: torch.fft.rfft(x.float()), or pad to a power of two",
    )


def _lengths(event: OpEvent) -> list[int]:
    """The lengths that are transformed, of the real signal for the inverse."""
    source, dims = event.args[0], event.args[1]
    lengths = [source.shape[d] for d in dims]
    if event.row.op == "aten::_fft_c2r":
        lengths[-1] = event.args[3]
    return [n for n in lengths if isinstance(n, int)]
