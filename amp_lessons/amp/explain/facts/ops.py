"""What each op makes of the facts of its inputs: the table of all rules.

An op that is not here gives results of which nothing is known.
"""

from __future__ import annotations

import math

from amp_lessons.amp.explain.facts.arithmetic import (
    added,
    div,
    length,
    matmul,
    mul,
    neg,
    raised,
    rsub,
    sqrt,
    square,
    sub,
    summed,
)
from amp_lessons.amp.explain.facts.call import OpCall, Rule
from amp_lessons.amp.explain.facts.elements import (
    cat,
    copy,
    diagonal,
    extreme,
    filtered,
    mean,
    one_of,
    same,
    some,
)
from amp_lessons.amp.explain.facts.fact import Fact, inverse
from amp_lessons.amp.explain.facts.functions import (
    above,
    absolute,
    batch_norm,
    clamp,
    clamp_max,
    clamp_min,
    dropout,
    elu,
    exp_of,
    group_norm,
    hardtanh,
    layer_norm,
    lgamma,
    log_of,
    logsumexp,
    maximum,
    minimum,
    relu,
    rising,
    sigmoid,
    softmax,
    spread,
)
from amp_lessons.amp.explain.facts.numbers import always, arange, between, filled, linspace, randint

_NORMAL = 10.0  # a standard normal is beyond this once in 10**23 draws


def of_call(call: OpCall) -> tuple[Fact, ...]:
    """The facts of an op's results."""
    name = call.name
    if name.endswith("_") and not name.startswith("_"):
        name = name.rstrip("_")
    rule = _RULES.get(name)
    if rule is None:
        return tuple(Fact() for _ in call.outputs)
    made = rule(call)
    return made if isinstance(made, tuple) else (made, *(Fact() for _ in call.outputs[1:]))


_FLAT = (  # a choice or a mean of the elements
    "gather", "index", "index_select", "take", "sort", "topk", "flip", "roll", "repeat",
    "masked_select", "unique_consecutive", "kthvalue", "median", "max_pool2d_with_indices",
    "max_pool3d_with_indices", "upsample_nearest2d", "upsample_nearest1d", "upsample_bilinear2d",
    "reflection_pad2d", "replication_pad2d", "triu", "tril", "index_put", "slice_backward",
)  # fmt: skip
_POOLED = ("avg_pool1d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
_RULES: dict[str, Rule] = {
    "scalar_tensor": filled(0), "full": filled(1), "full_like": filled(1),
    "new_full": filled(2), "fill": filled(1), "zeros": always(0.0), "zeros_like": always(0.0),
    "new_zeros": always(0.0), "zero": always(0.0), "ones": always(1.0), "ones_like": always(1.0),
    "new_ones": always(1.0), "eye": between(0.0, 1.0), "arange": arange, "linspace": linspace,
    "rand": between(0.0, 1.0, "rand"), "rand_like": between(0.0, 1.0, "rand"),
    "uniform": between(0.0, 1.0, "rand"), "bernoulli": between(0.0, 1.0),
    "randn": between(-_NORMAL, _NORMAL), "randn_like": between(-_NORMAL, _NORMAL),
    "normal": between(-_NORMAL, _NORMAL), "randint": randint,
    "_to_copy": same, "clone": same, "contiguous": same, "_conj_physical": same,
    "copy": copy, "diagonal_copy": diagonal, "where": one_of(1, 2), "masked_fill": one_of(0, 2),
    "constant_pad_nd": one_of(0, 2), "cat": cat, "stack": cat,
    "max": extreme, "amax": extreme, "min": extreme, "amin": extreme, "mean": mean,
    "add": added, "sub": sub, "rsub": rsub, "neg": neg, "sum": summed, "nansum": summed,
    "cumsum": summed, "linalg_vector_norm": length, "norm": length,
    "mul": mul, "div": div, "pow": raised, "square": square, "sqrt": sqrt,
    "convolution": filtered,
    "mm": matmul(0, 1), "bmm": matmul(0, 1), "addmm": matmul(1, 2), "baddbmm": matmul(1, 2),
    "exp": rising(exp_of, 0.0, math.inf, "exp"), "exp2": rising(lambda x: 2.0**x, 0.0, math.inf,
    "exp"), "expm1": rising(lambda x: exp_of(x) - 1, -1.0, math.inf, "exp"),
    "sinh": rising(lambda x: math.inf, -math.inf, math.inf, "exp"),
    "cosh": rising(lambda x: math.inf, 1.0, math.inf, "exp"),
    "log": rising(log_of, -math.inf, math.inf), "log2": rising(log_of, -math.inf, math.inf),
    "_log_softmax": between(-math.inf, 0.0), "log_sigmoid_forward": between(-math.inf, 0.0),
    "reciprocal": lambda call: Fact(*inverse(call.fact(0)), exact=call.fact(0).exact),
    "rsqrt": lambda call: Fact(
        0.0, math.inf if call.fact(0).low <= 0 else call.fact(0).low ** -0.5
    ),
    "sigmoid": sigmoid, "hardsigmoid": between(0.0, 1.0), "_softmax": softmax,
    "_safe_softmax": softmax, "tanh": between(-1.0, 1.0, "tanh"), "sin": between(-1.0, 1.0),
    "cos": between(-1.0, 1.0), "erf": between(-1.0, 1.0, "erf"), "sign": between(-1.0, 1.0),
    "relu": relu, "threshold": relu, "abs": absolute, "clamp": clamp, "clamp_min": clamp_min,
    "clamp_max": clamp_max, "hardtanh": hardtanh, "maximum": maximum, "minimum": minimum,
    "native_layer_norm": layer_norm, "_fused_rms_norm": layer_norm,
    "native_group_norm": group_norm, "native_batch_norm": batch_norm,
    "cudnn_batch_norm": batch_norm, "_native_batch_norm_legit": batch_norm,
    "elu": elu, "silu": above(-0.2785), "gelu": above(-0.17), "mish": above(-0.3088),
    "hardswish": above(-0.375),
    "softplus": rising(lambda x: x if x > 20 else math.log1p(exp_of(x)), 0.0, math.inf),
    "var": spread, "std": spread, "var_mean": spread, "lgamma": lgamma,
    "logsumexp": logsumexp, "native_dropout": dropout,
    "acos": between(0.0, math.pi), "cosine_similarity": between(-1.0, 1.0, "cosine"),
} | dict.fromkeys(_FLAT, some) | dict.fromkeys(_POOLED, mean)  # fmt: skip
