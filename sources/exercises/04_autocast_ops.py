# %% [markdown]
# # Exercises 04: What autocast does to each op
#
# Predict a dtype, mend what autocast does not look after, and write two tools that show what it
# did to a model. Everything runs on a CPU; where CUDA is asked for, the check asks fake tensors.
# Take [[lesson autocast_ops]] first.

# %%
import torch
from torch import nn
from torch.nn import functional as F

from amp_lessons.checks import autocast_ops as ex

# %% [markdown] heading="result_dtype"
# Write `result_dtype(op, device, region, inputs)`: the dtype that an op gives under autocast.
#
# `op` is one of the names below, `device` is `"cpu"` or `"cuda"`, `region` is the dtype of the
# autocast region (`torch.float16` or `torch.bfloat16`), and `inputs` is a tuple with the dtype of
# each input: float16, bfloat16 and float32 in any mixture, or all float64. Return a `torch.dtype`.
# The check compares 400 combinations, drawn at random, with what torch really gives.
#
# Ops with one input: `softmax`, `layer_norm` (without weights), `exp`, `log`, `sum`, `cumsum`,
# `prod`, `mean`, `var`, `sqrt`, `relu`, `sigmoid`, and `softmax, dtype=float32`, which is
# `torch.softmax(x, -1, dtype=torch.float32)`. Ops with two: `matmul`, `linear`, `conv1d`,
# `mse_loss`, `add`, `cat`, and `add_`, which is `a.add_(b)`. Do not run them.


# %% exercise="result_dtype"
def result_dtype(op, device, region, inputs):
    """The dtype of op's result, given inputs of these dtypes, under autocast to region."""
    ### BEGIN SOLUTION
    low = {"matmul", "linear", "conv1d"}
    single = {"mse_loss", "prod"}
    if device == "cuda":
        single |= {"softmax", "layer_norm", "exp", "log", "sum", "cumsum"}
    if op == "add_":
        return inputs[0]
    if op == "softmax, dtype=float32":
        return torch.float32
    widest = torch.promote_types(inputs[0], inputs[-1])
    if widest == torch.float64:
        return widest
    if op in low:
        return region
    return torch.float32 if op in single else widest
    ### END SOLUTION


# %% [markdown] heading="mend_mismatches"
# Here are five functions as people write them for float32. Under autocast three of them raise, one
# raises in one of the two formats, and one gives a wrong number without a word. Mend each so that
# it gives **float32**, in a region of float16, in one of bfloat16, and with no region open. What
# runs in 16 bits now must still run in 16 bits: `x @ weight` must not become a float32 product. And
# the head of `classify` stays a float32 product.
#
# All but `classify` are called *inside* the caller's region; `classify` opens its own. Edit the
# functions where they stand. The check names those that behave as before.


# %% exercise="mend_mismatches" answer="update_memory, project, classify, energy, predictions"
def update_memory(memory, rows, x, weight):
    """memory, with the features of x added to the given rows."""
    return memory.clone().index_add_(0, rows, x @ weight)


def project(x, weight, head):
    """The scores of x, written into a buffer."""
    hidden = torch.relu(x @ weight)
    scores = torch.empty(len(x), head.shape[1])
    torch.matmul(hidden, head, out=scores)
    return scores


def classify(x, weight, head, region):
    """Features under autocast to region, and a head after it, in float32."""
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return hidden @ head


def energy(x, weight):
    """The sum of the squared features, a tensor without dimensions. Features may reach 1000."""
    return ((x @ weight) ** 2).sum()


def predictions(x, weight):
    """The features as a NumPy array."""
    return (x @ weight).detach().numpy()


### BEGIN SOLUTION
# Mended:


def update_memory(memory, rows, x, weight):
    return memory.clone().index_add_(0, rows, (x @ weight).to(memory.dtype))


def project(x, weight, head):
    hidden = torch.relu(x @ weight)
    return (hidden @ head).float()


def classify(x, weight, head, region):
    with torch.autocast("cpu", dtype=region):
        hidden = torch.relu(x @ weight)
    return hidden.float() @ head


def energy(x, weight):
    return ((x @ weight).float() ** 2).sum()


def predictions(x, weight):
    return (x @ weight).detach().float().numpy()


### END SOLUTION

# %% [markdown] heading="dtype_offenders"
# Write `dtype_offenders(model, x, expected, region)`: run `model(x)` once under CPU autocast to
# `region`, and report the modules whose output has another dtype than `expected`.
#
# `expected` is a dict from a module's path, such as `"0.body.0"`, to a dtype. Return a dict from
# the path of each offender to the dtype that was seen. A module that returns a tuple: look at its
# first tensor. A module that runs several times: report the first dtype that is not the expected
# one. A module in `expected` that did not run at all is an offender too: report `None`. Leave the
# model as it was: without your hooks, and each module in the mode it was in.


# %% exercise="dtype_offenders"
def dtype_offenders(model, x, expected, region):
    """A dict {path: dtype seen} of the modules that do not give the expected dtype."""
    ### BEGIN SOLUTION
    seen = {path: [] for path in expected}

    def watch(path):
        def hook(module, args, output):
            first = output[0] if isinstance(output, tuple) else output
            seen[path].append(first.dtype)

        return model.get_submodule(path).register_forward_hook(hook)

    handles = [watch(path) for path in expected]
    try:
        with torch.autocast("cpu", dtype=region):
            model(x)
    finally:
        for handle in handles:
            handle.remove()

    offenders = {}
    for path, dtype in expected.items():
        wrong = [d for d in seen[path] or [None] if d is not dtype]
        if wrong:
            offenders[path] = wrong[0]
    return offenders
    ### END SOLUTION


# %% [markdown] heading="gram"
# Write `gram(x, weight)`: the features `F.linear(x, weight)`, and of these the matrix of all inner
# products, `features @ features.T`.
#
# It is called inside somebody's autocast region, on a CPU or on CUDA, in float16 or bfloat16. The
# linear layer runs in the region's dtype. The inner products reach many millions, so they have to
# be computed, and returned, in float32. After the call the region must be as it was. With no
# region open, everything is float32 anyway.


# %% exercise="gram"
def gram(x, weight):
    """features @ features.T in float32, for features = F.linear(x, weight) as autocast has them."""
    ### BEGIN SOLUTION
    features = F.linear(x, weight)
    with torch.autocast(x.device.type, enabled=False):
        features = features.float()
        return features @ features.T
    ### END SOLUTION


# %% [markdown] heading="low_flop_share"
# Write `low_flop_share(model, x, region)`: which share of the FLOPs of `model(x)` is computed in 16
# bits, float16 or bfloat16, under CPU autocast to `region`? Return a number between 0 and 1.
#
# Count the ops that `torch.utils.flop_counter.flop_registry` has a formula for: matrix products and
# convolutions, in the forward pass only. `flop_registry[op](*args, **kwargs, out_val=out)` gives
# the FLOPs of a call.
#
# To see the ops, subclass `TorchDispatchMode` and write
# `__torch_dispatch__(self, func, types, args=(), kwargs=None)`. Inside `with` an instance of it,
# torch calls that method in place of each op, below autocast, where the casts have been made. It
# must call `func(*args, **(kwargs or {}))` and return the result; `func.overloadpacket` is the op.
# Do not run the model in `inference_mode`: there torch does not take its layers apart.

# %%
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry


# %% exercise="low_flop_share"
def low_flop_share(model, x, region):
    """The share of the matmul and convolution FLOPs of model(x) that runs in 16 bits."""
    ### BEGIN SOLUTION
    low, total = 0, 0

    class Count(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal low, total
            out = func(*args, **(kwargs or {}))
            if func.overloadpacket in flop_registry:
                formula = flop_registry[func.overloadpacket]
                flops = formula(*args, **(kwargs or {}), out_val=out)
                total += flops
                low += flops if out.dtype.itemsize == 2 else 0
            return out

    with torch.autocast("cpu", dtype=region), Count():
        model(x)
    return low / total
    ### END SOLUTION


# %% [markdown]
# Next: [[lesson autocast_regions]] looks at the region itself: where it begins and ends, what it remembers, and what
# happens when that goes wrong.
