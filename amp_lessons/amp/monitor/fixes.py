"""What to do about each kind of fault, and which lesson explains it.

A cure goes by what is known of the fault: where it broke, the op, its dtype, and how large its
inputs were. The tables hold what is true of an op wherever it stands.
"""

from __future__ import annotations

from amp_lessons.amp.monitor.findings import Fault

DIVERGED = 1e9
"""An op that overflows float32 from numbers of this size has met a run that diverges."""

_PRODUCTS = (
    "mm", "addmm", "bmm", "baddbmm", "linear", "convolution", "mv", "dot", "addmv", "matmul",
    "mkldnn_linear", "mkldnn_convolution", "_scaled_dot_product", "mul", "square", "pow", "einsum",
)  # fmt: skip
_SLOPE = (
    "The slope is infinite there. Add an eps inside the root, sqrt(x + eps), or keep the "
    "argument away from the end of the function's range."
)
_MASK = (
    "A number that doesn't fit becomes inf. Fill a mask with torch.finfo(scores.dtype).min, and "
    "keep at least one position of each row: a row of -inf gives NaN in softmax."
)
# The first line whose ops begin the name of the op wins. Each: ops, cure, lesson.
_CURES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("binary_cross_entropy_with", "log_sigmoid"),
        "Look at the logits: they are not finite, or too large to be compared.",
        "losses_and_ops",
    ),
    (
        ("binary_cross_entropy",),
        "Drop the sigmoid, and use binary_cross_entropy_with_logits.",
        "losses_and_ops",
    ),
    (
        ("_ctc_loss", "_cudnn_ctc_loss"),
        "A target is longer than its input allows, so its probability is 0. Pass "
        "zero_infinity=True, or leave such pairs out.",
        "losses_and_ops",
    ),
    (
        ("logsumexp", "_log_softmax", "_softmax", "_safe_softmax", "_scaled_dot_product"),
        "Keep at least one position of each row unmasked, or fill the mask with "
        "torch.finfo(scores.dtype).min. Scores that overflow belong in float32.",
        "how_numbers_break",
    ),
    (
        ("log", "xlogy"),
        "The log of 0 is -inf, and of a negative number NaN. Use log_softmax or logsigmoid for "
        "probabilities, or clamp the argument in float32 first.",
        "losses_and_ops",
    ),
    (
        ("div", "reciprocal", "rsqrt", "remainder", "fmod", "floor_divide"),
        "Divide in float32, by a number that can't be 0 there: an eps below 2.9e-8 is 0 in FP16.",
        "losses_and_ops",
    ),
    (
        ("exp", "expm1", "sinh", "cosh"),
        "Subtract the maximum before exp, or use softmax or logsumexp. In FP16 exp overflows "
        "above 11.09.",
        "how_numbers_break",
    ),
    (
        ("sqrt", "linalg_vector_norm", "norm", "dist", "_cdist", "acos", "asin", "erfinv", "atan2"),
        _SLOPE,
        "losses_and_ops",
    ),
    (
        ("cumsum", "sum", "mean", "cumprod", "prod", "var", "std"),
        "Add up in float32: x.cumsum(0, dtype=torch.float32), or x.float().sum().",
        "how_numbers_break",
    ),
    (
        ("_weight_norm",),
        "weight_norm divides each row by its norm, and one of them is 0. Start from other weights.",
        "losses_and_ops",
    ),
    (
        _PRODUCTS,
        "Make the inputs smaller before the op (normalise or scale them), or run it in float32 "
        "with autocast off. If the weights keep growing, lower the learning rate.",
        "how_numbers_break",
    ),
)


# What makes NaN of finite numbers in a forward pass.
_OF_NAN: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ("sqrt", "rsqrt"),
        "The root of a negative number is NaN. Rounding makes E[x^2] - E[x]^2 negative: use "
        "torch.var, or clamp the argument at 0.",
        "losses_and_ops",
    ),
    (
        ("nll_loss",),
        "If each target is ignored (ignore_index), the mean is 0 / 0. Leave such batches out, or "
        'use reduction="sum" and divide by max(count, 1).',
        "losses_and_ops",
    ),
    (
        ("var", "std"),
        "The variance of one number is 0 / 0. Pass correction=0, or leave out a last batch of "
        "one with drop_last=True.",
        "losses_and_ops",
    ),
    (
        ("mean", "nanmean"),
        "The mean of nothing is NaN. Check that what you selected isn't empty, or divide the "
        "sum by max(count, 1).",
        "losses_and_ops",
    ),
)


def fix_of(fault: Fault) -> tuple[str, str]:
    """What to do about a fault, and the slug of the lesson that explains it."""
    if fault.kind == "underflow":
        return (
            "Scale the loss: torch.amp.GradScaler multiplies it before backward() and divides "
            "the gradients after. BF16 doesn't need it.",
            "grad_scaler",
        )
    if fault.phase == "gradient":
        return (
            "Call optimizer.zero_grad() in each step, also after a skipped one.",
            "training_loops",
        )
    if fault.phase == "parameter" and fault.op.startswith("parameter "):
        return (
            "It was there before the first step: look at the checkpoint and the initialisation.",
            "training_loops",
        )
    if fault.phase == "parameter" and fault.op.startswith("buffer "):
        return (
            "A checkpoint or an earlier batch left it there: running statistics keep what they "
            "were given. Reset it, and leave such batches out.",
            "training_loops",
        )
    if fault.phase == "parameter" and fault.op == "other code":
        return (
            "Look at the code that writes it, such as an EMA, a schedule or a checkpoint.",
            "training_loops",
        )
    if fault.phase in ("parameter", "buffer") and fault.dtype == "float16":
        what = "a weight" if fault.phase == "parameter" else "a running statistic"
        eps = ", and Adam's eps=1e-8 is 0" if "Adam" in fault.op else ""
        return (
            f"Keep the model in float32 and let autocast cast. In float16, {what} ends at "
            f"65,504{eps}.",
            "amp_from_scratch",
        )
    if fault.phase == "buffer":
        return (
            "A batch with inf or NaN, or a very large one, went into it. Reset it, and leave such "
            "batches out.",
            "training_loops",
        )
    if fault.phase == "parameter":
        return (
            "An earlier update broke it: lower the learning rate, clip the gradients, and look "
            "at the optimizer's eps.",
            "training_loops",
        )
    if fault.phase == "input" and "loss" in fault.op:
        return (
            "Look at the labels, and at what else the loss is given. Clean it, or leave the batch "
            "out.",
            "how_numbers_break",
        )
    if fault.phase == "input":
        return "Clean the batch before the model sees it, or leave it out.", "how_numbers_break"
    return _of_use(fault) if fault.phase == "use" else _of_op(fault)


def _of_use(fault: Fault) -> tuple[str, str]:
    """What to do about a scaler whose methods are called in a wrong order."""
    if "clip" in fault.op:
        cure = "Call scaler.unscale_(optimizer) first, then clip, then scaler.step(optimizer)."
    elif "backward" in fault.op:
        cure = "Scale each loss: scaler.scale(loss).backward()."
    else:
        cure = "Call scaler.step(optimizer) and scaler.update() instead of optimizer.step()."
    return cure, "training_loops"


def _of_op(fault: Fault) -> tuple[str, str]:
    """What to do about an op that broke: the first line that fits."""
    ahead = fault.phase in ("forward", "loss")
    half = fault.dtype in ("float16", "")
    if "is beyond float16" in fault.detail:
        return _MASK, "how_numbers_break"
    if ahead and fault.kind == "inf" and not half and fault.reached >= DIVERGED:
        return (
            "Numbers of this size come from a run that diverges, or from the batch. Lower the "
            "learning rate, warm it up or clip the gradients, and look at the batch.",
            "training_loops",
        )
    if not ahead and fault.op.startswith("pow") and fault.always is not False:
        return _SLOPE, "losses_and_ops"
    if not ahead and fault.op in ("log", "log2", "log10"):
        return (
            "The slope of log at 0 is infinite. torch.where hides the result, not the slope: "
            "clamp the argument before log.",
            "losses_and_ops",
        )
    if fault.op == "_to_copy" and half:
        return _of_cast(fault.phase)
    for ops, cure, lesson in _OF_NAN + _CURES if fault.kind == "nan" and ahead else _CURES:
        if fault.op.strip("_").startswith(tuple(op.strip("_") for op in ops)):
            return cure, lesson
    if fault.op == "unknown op":
        return (
            "Look at the batch and the loss of this step. With every=1, the table of the modules "
            "shows where the numbers grow.",
            "how_numbers_break",
        )
    if not half:
        return (
            "It broke in a wide format, so look at what goes into the op.",
            "how_numbers_break",
        )
    return (
        "Run the op in float32 (with torch.autocast(..., enabled=False) and x.float()), and "
        "look at what goes into it.",
        "how_numbers_break",
    )


def _of_cast(phase: str) -> tuple[str, str]:
    if phase == "backward":
        return (
            "A gradient beyond 65,504 was cast to FP16. Make the loss or the loss scale smaller, "
            "or use BF16.",
            "grad_scaler",
        )
    return (
        "A number beyond 65,504 was cast to FP16. Normalise it first, or run this part in float32 "
        "with autocast off.",
        "how_numbers_break",
    )
