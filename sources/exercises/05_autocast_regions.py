# %% [markdown]
# # Exercises 05: Regions, cache, threads
#
# Six pieces of code around an autocast region: where it ends, what leaves it, what it keeps, and
# where it does not reach. Take [[lesson autocast_regions]] first. Everything
# runs on the CPU; the checks look at whether autocast was on when something ran, so a region may
# be opened in any way.

# %%
import torch
from torch import nn

from amp_lessons.checks import autocast_regions as ex

# %% [markdown] heading="autocast_step"
# Write `autocast_step(model, loss_fn, optimizer, x, y)`: one training step in bfloat16 autocast,
# with each of its parts on the right side of the region's border.
#
# `model` takes `x`, of shape (batch, inputs); `loss_fn` takes the prediction and `y`, and gives a
# loss without dimensions. Gradients of the step before may still be there, and must not count.
# Return the loss, as it was before the step, as a number or a tensor. No scaler is needed: bfloat16
# has the range of float32.


# %% exercise="autocast_step"
def autocast_step(model, loss_fn, optimizer, x, y):
    """One step of training in bfloat16 autocast; the loss before the step."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()
    ### END SOLUTION


# %% [markdown] heading="leak_free_scores"
# This function leaks. Its features leave the region in 16 bits and meet the float32 weights of
# the head.

# %%
from torch.nn import Linear


def leaking_scores(backbone, head, x, dtype):
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
    return head(features)


try:
    leaking_scores(Linear(4, 8), Linear(8, 3), torch.ones(2, 4), torch.bfloat16)
except RuntimeError as error:
    print("RuntimeError:", error)

# %% [markdown]
# Write `leak_free_scores(backbone, head, x, dtype)`: the backbone runs under autocast in `dtype`,
# the head in float32 with autocast off, and the scores are float32. `dtype` is bfloat16 or
# float16. The gradients of the scores must reach the backbone, and both modules must stay as they
# are.


# %% exercise="leak_free_scores"
def leak_free_scores(backbone, head, x, dtype):
    """The scores of shape (batch, classes), float32: backbone in 16 bits, head in 32."""
    ### BEGIN SOLUTION
    with torch.autocast("cpu", dtype=dtype):
        features = backbone(x)
    return head(features.float())
    ### END SOLUTION


# %% [markdown] heading="keep_float32"
# Write `keep_float32(module)`: it returns a callable (a function or a module) that runs `module`
# in float32, in whatever region it is called, and gives its float32 result.
#
# The arguments are positional: one or more tensors of floating point in 16 or 32 bits, tensors of
# indices, plain numbers. Autocast must be off while `module` runs, and as it was before when the
# call is over, also if `module` raises. Gradients must flow through to the inputs, and the module's
# parameters stay as they are. It is called in a region on the CPU, or outside any.


# %% exercise="keep_float32"
def keep_float32(module):
    """A callable that runs `module` with autocast off and its inputs in float32."""

    ### BEGIN SOLUTION
    def widened(value):
        is_number = isinstance(value, torch.Tensor) and value.is_floating_point()
        return value.float() if is_number else value

    def run(*args):
        with torch.autocast("cpu", enabled=False):
            return module(*[widened(arg) for arg in args])

    return run
    ### END SOLUTION


# %% [markdown] heading="count_casts"
# Write `count_casts(work)`: how many casts from float32 to float16 or bfloat16 happen while
# `work()` runs, those that autocast inserts included.
#
# `work` takes nothing; what it returns does not matter. It may do anything: run layers with the
# cache or without, frozen, under `no_grad` or in `inference_mode`, go backward, copy tensors, cast
# them by hand. Call it once. Only casts from float32 to 16 bits count. Return a whole number. The
# lesson shows a `TorchDispatchMode` that lists what runs; yours needs an eye for inference_mode.


# %% exercise="count_casts"
def count_casts(work):
    """The number of casts from float32 to a 16-bit float while work() runs."""
    ### BEGIN SOLUTION
    from torch.utils._python_dispatch import TorchDispatchMode

    casts = (torch.ops.aten._to_copy, torch.ops.aten.to)
    low = (torch.float16, torch.bfloat16)

    class Counter(TorchDispatchMode):
        number = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            if func.overloadpacket in casts:
                self.number += args[0].dtype == torch.float32 and result.dtype in low
            return result

    with Counter() as counter:
        work()
    return counter.number
    ### END SOLUTION


# %% [markdown] heading="thawed_epoch"
# This loop runs without an error, its parameters move, and its loss stands still.


# %%
def frozen_epoch(model, loss_fn, optimizer, batches):
    losses = []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for x, y in batches:
            optimizer.zero_grad()
            loss = loss_fn(model(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


model = Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
batch = torch.arange(12.0).reshape(3, 4) / 12, torch.ones(3, 1)
before = model.weight.detach().clone()
losses = frozen_epoch(model, nn.functional.mse_loss, optimizer, [batch] * 5)
print("the weights moved:  ", not torch.equal(before, model.weight))
print("different losses:   ", len(set(losses)))

# %% [markdown]
# Write `thawed_epoch(model, loss_fn, optimizer, batches)`: the same loop, mended. It trains for
# one pass over `batches`, a list of pairs (x, y), in bfloat16 autocast, and returns the list of
# the losses, one for each batch, each before its step.


# %% exercise="thawed_epoch"
def thawed_epoch(model, loss_fn, optimizer, batches):
    """Train on each batch once; the losses as a list of numbers."""
    ### BEGIN SOLUTION
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
    ### END SOLUTION


# %% [markdown] heading="carry_autocast"
# A thread begins with autocast off, whatever holds in the thread that starts it.
#
# Write `carry_autocast(function)`: it returns a function that can be called in any thread, with
# any arguments, and runs `function` in the CPU autocast state of the thread that called
# `carry_autocast`, at the moment of that call: on or off, the dtype, and whether casts are
# cached. That holds whatever the state of the thread it runs in, which is as before afterwards,
# also if `function` raises. For example:
#
# ```python
# with torch.autocast("cpu", dtype=torch.float16):
#     task = carry_autocast(model)
#     output = pool.submit(task, x).result()  # in float16
# ```


# %% exercise="carry_autocast"
def carry_autocast(function):
    """A function that runs `function` in the autocast state of this thread, here and now."""
    ### BEGIN SOLUTION
    state = {
        "enabled": torch.is_autocast_enabled("cpu"),
        "dtype": torch.get_autocast_dtype("cpu"),
        "cache_enabled": torch.is_autocast_cache_enabled(),
    }

    def carried(*args, **kwargs):
        with torch.autocast("cpu", **state):
            return function(*args, **kwargs)

    return carried
    ### END SOLUTION


# %% [markdown]
# Next: [[lesson grad_scaler]], on what FP16 needs besides a region.
