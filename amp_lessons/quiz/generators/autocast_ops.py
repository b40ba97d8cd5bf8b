"""Questions on the dtype that autocast gives to an op, from the recorded policy."""

from __future__ import annotations

import random

from amp_lessons.amp import policy_record
from amp_lessons.amp.policy_record import RecordedPolicy
from amp_lessons.quiz.generators.base import Draft, Option, choices, generator
from amp_lessons.quiz.generators.formatting import listed

VERSION = "2.13.0"
SOURCE = "torch 2.13, amp_lessons/amp/policy_record/recorded; asked of torch in the tests"

# How people write the ops that they meet, by their names in the record.
FUNCTIONS = {
    "linear": "F.linear", "matmul": "torch.matmul", "mm": "torch.mm", "mv": "torch.mv",
    "bmm": "torch.bmm", "addmm": "torch.addmm", "baddbmm": "torch.baddbmm",
    "einsum": "torch.einsum", "dot": "torch.dot", "conv1d": "F.conv1d", "conv2d": "F.conv2d",
    "conv3d": "F.conv3d", "conv_transpose2d": "F.conv_transpose2d", "prelu": "F.prelu",
    "scaled_dot_product_attention": "F.scaled_dot_product_attention",
    "layer_norm": "F.layer_norm", "rms_norm": "F.rms_norm",
    "group_norm": "F.group_norm", "batch_norm": "F.batch_norm", "normalize": "F.normalize",
    "dropout": "F.dropout", "sin": "torch.sin", "cos": "torch.cos", "exp": "torch.exp",
    "log": "torch.log", "log1p": "torch.log1p", "sqrt": "torch.sqrt", "rsqrt": "torch.rsqrt",
    "square": "torch.square", "abs": "torch.abs", "sigmoid": "torch.sigmoid",
    "tanh": "torch.tanh", "relu": "F.relu", "gelu": "F.gelu", "silu": "F.silu",
    "softplus": "F.softplus", "pow": "torch.pow", "add": "torch.add", "mul": "torch.mul",
    "div": "torch.div", "maximum": "torch.maximum", "where": "torch.where", "sum": "torch.sum",
    "prod": "torch.prod", "mean": "torch.mean", "amax": "torch.amax", "norm": "torch.norm",
    "var": "torch.var", "std": "torch.std", "cumsum": "torch.cumsum",
    "logsumexp": "torch.logsumexp", "cdist": "torch.cdist",
    "cosine_similarity": "F.cosine_similarity", "softmax": "F.softmax",
    "log_softmax": "F.log_softmax", "mse_loss": "F.mse_loss", "l1_loss": "F.l1_loss",
    "smooth_l1_loss": "F.smooth_l1_loss", "kl_div": "F.kl_div",
    "binary_cross_entropy": "F.binary_cross_entropy",
    "binary_cross_entropy_with_logits": "F.binary_cross_entropy_with_logits",
    "nll_loss": "F.nll_loss", "cross_entropy": "F.cross_entropy", "cat": "torch.cat",
    "stack": "torch.stack", "max_pool2d": "F.max_pool2d", "avg_pool2d": "F.avg_pool2d",
    "interpolate": "F.interpolate", "grid_sample": "F.grid_sample",
}  # fmt: skip

DEVICES = ("cuda", "cpu")
DEFAULTS = {"cuda": "float16", "cpu": "bfloat16"}
"""What autocast casts to where nobody asks for a dtype."""
RAISES = "It raises an error"


@generator("autocast_ops.gen_op_dtype", "The dtype of an op", level=2, kind="single")
def op_dtype(rng: random.Random) -> Draft | None:
    op, device = rng.choice(list(FUNCTIONS)), rng.choice(DEVICES)
    dtype, given = rng.choice(("float16", "bfloat16")), rng.choice(("low", "full", "mixed"))
    policy = policy_record.table(device, dtype, VERSION)[op]
    found = getattr(policy, given)
    if found is None and (policy.group != "refused" or given == "mixed"):
        return None
    if given == "mixed" and found != "float32" and policy.group == "as given":
        return None  # a kernel may refuse it on a real GPU
    if found not in (dtype, "float32", None):
        return None
    texts = {
        dtype: f"torch.{dtype}",
        "float32": "torch.float32",
        "": RAISES,
        "other": f"torch.{'bfloat16' if dtype == 'float16' else 'float16'}",
    }
    options = {
        key: Option(text, _why(policy, key, found or "", given), f"got == {_claimed(key, dtype)!r}")
        for key, text in texts.items()
    }
    right = options.pop(found or "")
    confused = dtype != DEFAULTS[device]
    if not confused:
        options.pop("other")
    elif found is not None:
        options.pop(rng.choice(("", "other")) if found == dtype else "")
    kept = [option for key, option in options.items() if key == "float32"]
    shown = choices(rng, right, options.values(), must=kept)
    if shown is None:
        return None
    return {
        "prompt": f"Inside {_region(device, dtype)}, you call "
        f"`{_called(op)}` with {_given(op, dtype, given)}. What is the dtype of the result?",
        "hint": "Autocast has a list of ops to run in 16 bits, one of ops to run in FP32, and "
        "leaves the rest alone. The lists of the CPU and of CUDA differ.",
        "source": SOURCE,
        "proof": "from amp_lessons.amp.policy import op_policy, short\n\n"
        f"got = short(op_policy({op!r}, {device!r}, {dtype!r}).{given})",
        "choice": shown,
    }


def _called(op: str) -> str:
    """The function, with the equation that an einsum can't do without."""
    equation = '("ij,jk->ik", ...)' if op == "einsum" else ""
    return f"{FUNCTIONS[op]}{equation}"


def _region(device: str, dtype: str) -> str:
    return f'`torch.autocast("{device}", dtype=torch.{dtype})`'


def _claimed(key: str, dtype: str) -> str:
    """What `policy.short` says of a dtype."""
    other = "bfloat16" if dtype == "float16" else "float16"
    return {"": "-", "other": other}.get(key, key)


def _given(op: str, dtype: str, given: str) -> str:
    if given == "mixed":
        return f"a `torch.{dtype}` tensor first and float32 tensors after it"
    if given == "full":
        return "float32 input"
    return f"`torch.{dtype}` input"


def _why(policy: RecordedPolicy, key: str, found: str, given: str) -> str:
    """Why a result of this dtype is right, or who would expect it."""
    rule = _rule(policy, mixed=given == "mixed")
    place = _place(policy)
    if key == found:
        return f"Yes. {rule}"
    if key == "":
        return f"It runs. {rule}"
    if key == "other":
        return f"That is the default of {place}. Here it was asked for {policy.dtype}."
    if key == "float32":
        return f"`{policy.op}` isn't on autocast's FP32 list here. {rule}"
    if given == "full":
        return f"That would need a cast to {policy.dtype}. {rule}"
    if given == "mixed":
        return f"You'd expect that of an op that autocast runs in 16 bits. {rule}"
    return f"You'd expect that where autocast leaves {policy.dtype} alone. {rule}"


def _rule(policy: RecordedPolicy, *, mixed: bool = False) -> str:
    place = _place(policy)
    place = place[0].upper() + place[1:]
    name = f"`{policy.op}`"
    return {
        "lower precision": f"{place} casts the input of {name} to {policy.dtype}.",
        "float32": f"{place} runs {name} in FP32.",
        "widest": f"{place} casts the inputs of {name} to the widest dtype among them.",
        "refused": f"{place} refuses {name}, and names a safe alternative in the error message.",
    }.get(policy.group, _left_alone(place, name, mixed))


def _place(policy: RecordedPolicy) -> str:
    return "CUDA's autocast" if policy.device == "cuda" else "the CPU's autocast"


def _left_alone(place: str, name: str, mixed: bool) -> str:
    if mixed:
        return f"{place} leaves {name} alone, and without autocast it promotes mixed input to FP32."
    return f"{place} leaves {name} alone, so the result has the dtype of the input."


@generator("autocast_ops.gen_float32_ops", "The ops that give FP32", level=2, kind="several")
def float32_ops(rng: random.Random) -> Draft | None:
    device, dtype = rng.choice(DEVICES), rng.choice(("float16", "bfloat16"))
    table = policy_record.table(device, dtype, VERSION)
    known = [op for op in FUNCTIONS if table[op].low in (dtype, "float32")]
    right = [op for op in known if table[op].low == "float32"]
    wrong = [op for op in known if table[op].low == dtype]
    count = rng.randint(1, 3)
    ops = rng.sample(right, count) + rng.sample(wrong, 5 - count)
    rng.shuffle(ops)
    other = "cpu" if device == "cuda" else "cuda"
    elsewhere = policy_record.table(other, dtype, VERSION)
    listing = listed([f"`{FUNCTIONS[op]}`" for op in ops])
    return {
        "prompt": f"Inside {_region(device, dtype)}, each of {listing} gets "
        f"`torch.{dtype}` input. Which of them give a float32 result?",
        "hint": "Which of these ops have a wide range of results, or add up many numbers? And is "
        "that on the list of this device?",
        "source": SOURCE,
        "proof": "from amp_lessons.amp.policy import op_policy, short\n\n"
        f"got = {{op: short(op_policy(op, {device!r}, {dtype!r}).low) for op in {sorted(ops)!r}}}",
        "choice": [
            {
                "text": f"`{FUNCTIONS[op]}`",
                "why": _rule(table[op]) + _differs(elsewhere[op], table[op]),
                "right": op in right,
                "holds": f"got[{op!r}] == 'float32'",
            }
            for op in ops
        ],
    }


def _differs(other: RecordedPolicy, here: RecordedPolicy) -> str:
    if other.low == here.low or other.low not in ("float32", here.dtype):
        return ""
    place = "On CUDA" if other.device == "cuda" else "On a CPU"
    return f" {place}, the result would be {other.low}."


GENERATORS = (op_dtype, float32_ops)
