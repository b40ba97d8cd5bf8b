# %% [markdown]
# # Exercises 09: Memory
#
# Five small calculators of the kind that you need before you rent a GPU. Take [[lesson memory]] first. Nothing here needs a GPU.

# %%
import torch
from torch import nn

from amp_lessons.checks import memory as ex

# %% [markdown] heading="training_bytes"
# Write `training_bytes(parameters, optimizer, precision)`: the bytes of parameters, gradients and
# optimizer state together, between `backward()` and `zero_grad()`.
#
# `parameters` is how many there are. `optimizer` is `"sgd"`, `"momentum"` (SGD with momentum) or
# `"adam"`, all of torch.optim. `precision` is `"fp32"`, `"amp"` (autocast) or `"bf16"` (a model
# stored in bfloat16, and no autocast). Leave out Adam's count of steps. Return a whole number.


# %% exercise="training_bytes"
def training_bytes(parameters, optimizer, precision):
    """Bytes of parameters, gradients and optimizer state."""
    ### BEGIN SOLUTION
    tensors = 2 + {"sgd": 0, "momentum": 1, "adam": 2}[optimizer]
    width = 2 if precision == "bf16" else 4
    return parameters * tensors * width
    ### END SOLUTION


# %% [markdown] heading="crossover"
# Write `crossover(added, fp32_each, amp_each)`: the smallest batch at which AMP needs less memory
# than FP32.
#
# `added` is what AMP adds whatever the batch (its casts), `fp32_each` and `amp_each` are the bytes
# that each example needs in FP32 and with AMP, all whole numbers. The smallest batch is 1. Return a
# whole number, or `None` if AMP never needs less.


# %% exercise="crossover"
def crossover(added, fp32_each, amp_each):
    """The smallest batch with added + amp_each * batch < fp32_each * batch; None for never."""
    ### BEGIN SOLUTION
    gain = fp32_each - amp_each
    if gain <= 0:
        return None
    return added // gain + 1
    ### END SOLUTION


# %% [markdown] heading="cache_bytes"
# Write `cache_bytes(model, x)`: how many bytes of 16-bit copies are in autocast's cache at the end
# of `model(x)`, in a region `torch.autocast("cpu", dtype=torch.bfloat16)`.
#
# The model is any small module: some of its parameters are frozen, shared, used twice, not used, or
# bfloat16 already, and not every layer casts. Leave the model as it is: no hook of yours stays on
# it, and no gradient. Return a whole number.


# %% exercise="cache_bytes"
def cache_bytes(model, x):
    """Bytes of the casts of parameters that autocast keeps until its region ends."""
    ### BEGIN SOLUTION
    from torch.utils._python_dispatch import TorchDispatchMode

    trained = {id(p) for p in model.parameters() if p.requires_grad}
    copies = {}

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if func is torch.ops.aten._to_copy.default and id(args[0]) in trained:
                copies[id(args[0])] = result.nbytes
            return result

    with Watch(), torch.autocast("cpu", dtype=torch.bfloat16):
        model(x)
    return sum(copies.values())
    ### END SOLUTION


# %% [markdown] heading="step_ratio"
# Write `step_ratio(fp32, amp)`: by what factor AMP changed the memory of a model and its step.
#
# Each argument is one run's report, in bytes: `before` is what was allocated when the run began
# (tensors of other runs), `loaded` after all data were put on the GPU, still with no model, `peak`
# the most that was allocated in the run, `reserved` the most that the allocator kept. Return AMP
# over FP32, without old tensors and without data.

# %%
fp32_report = {"before": 0, "loaded": 6_710_886_400, "peak": 7_533_332_992}
amp_report = {"before": 0, "loaded": 6_710_886_400, "peak": 7_634_019_840}
print("the peaks alone:", round(amp_report["peak"] / fp32_report["peak"], 3))


# %% exercise="step_ratio"
def step_ratio(fp32, amp):
    """Bytes of model and step with AMP over those in FP32."""

    ### BEGIN SOLUTION
    def own(report):
        return report["peak"] - report["loaded"]

    return own(amp) / own(fp32)
    ### END SOLUTION


# %% [markdown] heading="best_lever"
# Write `best_lever(parts)`: which one of three levers saves most bytes of a model that trains in
# FP32: `"autocast"`, `"checkpointing"`, or `"sgd"` in place of the optimizer that it has. Where
# none saves anything, `"none"`.
#
# `parts` is a dict of bytes: `parameters`, `gradients` and `optimizer` (its state);
# `activations_fp32`, and `activations_amp` as they would be under autocast; `casts`, which autocast
# would add; `checkpoints`, which checkpointing would keep in place of the activations. Leave the
# dict as it is.


# %% exercise="best_lever"
def best_lever(parts):
    """The lever that saves most: "autocast", "checkpointing", "sgd" or "none"."""
    ### BEGIN SOLUTION
    saved = {
        "autocast": parts["activations_fp32"] - parts["activations_amp"] - parts["casts"],
        "checkpointing": parts["activations_fp32"] - parts["checkpoints"],
        "sgd": parts["optimizer"],
        "none": 0,
    }
    most = max(saved.values())
    return "none" if most == 0 else next(name for name in saved if saved[name] == most)
    ### END SOLUTION


# %% [markdown]
# Next: speed. Memory is counted; time must be measured, and [[lesson speed]] shows how.
