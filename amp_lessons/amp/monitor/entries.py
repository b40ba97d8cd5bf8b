"""Which entry of the catalogue of faults each fault of a run belongs to.

It goes by what is known of the fault: where it broke, the op, its dtype, and how large its inputs
were. The tables hold what is true of an op wherever it stands. What to do says the entry, in
`amp_lessons.amp.errors`.
"""

from __future__ import annotations

from amp_lessons.amp.monitor.findings import Fault

DIVERGED = 1e9
"""An op that overflows float32 from numbers of this size has met a run that diverges."""

_PRODUCTS = (
    "mm", "addmm", "bmm", "baddbmm", "linear", "convolution", "mv", "dot", "addmv", "matmul",
    "mkldnn_linear", "mkldnn_convolution", "_scaled_dot_product", "mul", "square", "pow", "einsum",
)  # fmt: skip
# The first line whose ops begin the name of the op wins. Each: ops, the entry.
_OF_OP: tuple[tuple[tuple[str, ...], str], ...] = (
    (("binary_cross_entropy_with", "log_sigmoid"), "nan-in-fp32-too"),
    (("binary_cross_entropy",), "bce-unsafe-to-autocast"),
    (("_ctc_loss", "_cudnn_ctc_loss"), "ctc-target-too-long"),
    (
        ("logsumexp", "_log_softmax", "_softmax", "_safe_softmax", "_scaled_dot_product"),
        "nan-rows-from-two-masks",
    ),
    (("log", "xlogy"), "log-of-a-probability"),
    (("div", "reciprocal", "rsqrt", "remainder", "fmod", "floor_divide"), "eps-zero-in-fp16"),
    (("exp", "expm1", "sinh", "cosh"), "exp-overflow"),
    (
        ("sqrt", "linalg_vector_norm", "norm", "dist", "_cdist", "acos", "asin", "erfinv", "atan2"),
        "infinite-slope",
    ),
    (("cumsum", "sum", "mean", "cumprod", "prod", "var", "std"), "sum-overflow"),
    (("_weight_norm",), "weight-norm-zero-row"),
    (_PRODUCTS, "activation-overflow"),
)
# What makes NaN of finite numbers in a forward pass.
_OF_NAN: tuple[tuple[tuple[str, ...], str], ...] = (
    (("sqrt", "rsqrt"), "cancellation"),
    (("nll_loss",), "all-targets-ignored"),
    (("var", "std"), "variance-of-one-number"),
    (("mean", "nanmean"), "mean-of-nothing"),
)
_OF_FP16 = ("eps-zero-in-fp16", "sum-overflow", "activation-overflow")
"""Entries that say to go on in FP32: no help to an op that broke there."""


def entry_of(fault: Fault) -> str:
    """The id of a fault's entry."""
    if fault.kind == "underflow":
        return "gradient-underflow"
    if fault.phase == "gradient":
        return "inf-gradients-not-cleared"
    if fault.phase in ("parameter", "buffer"):
        return _of_state(fault)
    if fault.phase == "input":
        return "nan-in-the-batch"
    return _of_use(fault) if fault.phase == "use" else _of_op(fault)


def _of_state(fault: Fault) -> str:
    """For a parameter or a buffer that broke."""
    if fault.phase == "parameter":
        if fault.op == "other code" or fault.op.startswith("parameter "):
            return "nan-in-weights"
        if fault.op.startswith("buffer "):
            return "batchnorm-poisoned-statistics"
        if fault.dtype == "float16":
            return "adam-eps-zero-in-fp16" if "Adam" in fault.op else "fp16-weights"
        return "training-diverges"
    return "batchnorm-in-fp16" if fault.dtype == "float16" else "batchnorm-poisoned-statistics"


def _of_use(fault: Fault) -> str:
    """For a scaler whose methods are called in a wrong order."""
    if "clip" in fault.op:
        return "clip-before-unscale"
    return "loss-not-scaled" if "backward" in fault.op else "optimizer-step-beside-scaler"


def _of_op(fault: Fault) -> str:
    """For an op that broke: the first line that fits."""
    ahead = fault.phase in ("forward", "loss")
    half = fault.dtype in ("float16", "")
    if "is beyond float16" in fault.detail:
        return "value-cannot-be-converted-to-half"
    if ahead and fault.kind == "inf" and not half and fault.reached >= DIVERGED:
        return "training-diverges"
    if not ahead and fault.op.startswith("pow") and fault.always is not False:
        return "infinite-slope"
    if not ahead and fault.op in ("log", "log2", "log10"):
        return "infinite-slope"
    if fault.op == "_to_copy" and half:
        return "gradient-overflow" if fault.phase == "backward" else "activation-overflow"
    for ops, entry in _OF_NAN + _OF_OP if fault.kind == "nan" and ahead else _OF_OP:
        if fault.op.strip("_").startswith(tuple(op.strip("_") for op in ops)):
            return entry if half or entry not in _OF_FP16 else "nan-in-fp32-too"
    return "nan-loss-after-some-epochs" if half else "nan-in-fp32-too"
