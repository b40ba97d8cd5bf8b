# %% [markdown]
# # Lesson 06, deeper: GradScaler at its edges
#
# This notebook is optional. It shows what a GradScaler does where few loops take it: odd scales, a
# scale of 0, fused optimizers, closures, and a machine without CUDA. Everything here runs on a CPU,
# also where the text speaks of CUDA.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson grad_scaler]].

# %%
import math

import torch

from amp_lessons import ScalerLog, predict, simulate_scaler
from amp_lessons.lessons.experiments import item_calls, raised, warned, without_cuda

GradScaler = torch.amp.GradScaler

# %% [markdown]
# ## Keep the scale a power of two
#
# `init_scale=1000.0` is allowed. We scale 10,000 FP32 gradients and unscale them again, once with
# 65,536 and once with 1,000.

# %% tags=["question"]
predict("grad_scaler.scale_of_1000")

# %%
torch.manual_seed(0)
gradients = torch.randn(10_000)
for scale in (65536.0, 1000.0):
    values = gradients.clone().requires_grad_()
    scaler = GradScaler("cpu", init_scale=scale)
    scaler.scale((values * gradients).sum()).backward()  # the true gradient is `gradients`
    scaler.unscale_(torch.optim.SGD([values]))
    changed = (values.grad != gradients).sum().item()
    print(f"scale {scale:6.0f}: {changed:,} of {len(gradients):,} gradients changed")

# %% [markdown]
# The same holds for `growth_factor` and `backoff_factor`: with powers of two, the scale stays a power
# of two.
#
# ## How far can a scale fall or grow?
#
# `simulate_scaler` computes scales from the rule of `update`, without a scaler. Let it overflow 170
# times in a row. Then let a scale grow from $2^{120}$, which is as large as a model could want.

# %%
down = simulate_scaler([True] * 170)
print("below 1 after", 1 + sum(scale >= 1 for scale in down), "skipped steps")
print("0 after      ", 1 + sum(scale > 0 for scale in down), "skipped steps")
up = simulate_scaler([False] * 12, init_scale=2.0**120, growth_interval=1)
print("exponents while it grows:", [int(math.log2(scale)) for scale in up])

# %% [markdown]
# The scale is an FP32 number. Downwards it passes through the subnormal numbers and ends at 0. Upwards
# a power of two stops at $2^{127}$, because a scale that would become inf is not taken.
#
# ## A scale of 0 destroys the weights
#
# Suppose that the run with 170 overflows goes on, and now a good batch comes. We try a scale of 0,
# and two scales just above it.

# %% tags=["question"]
predict("grad_scaler.scale_of_zero")

# %%
for init_scale in (2.0**-127, 2.0**-128, 0.0):
    weight = torch.tensor(3.0, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    log = ScalerLog(GradScaler("cpu", init_scale=init_scale))
    log.scale(weight**2).backward()
    scaled = weight.grad.item()
    log.step(optimizer)
    log.update()
    print(f"scale {init_scale:.3g}: scaled gradient {scaled:.3g}, weight {weight.item():.4g}")

# %% [markdown]
# ## Fused optimizers step in any case
#
# To decide about a step, Python must know whether there was an inf. So `scaler.step` calls `.item()`,
# and on a GPU that waits for the backward pass. A *fused* optimizer (`fused=True`) updates many
# weights in one kernel. It receives the scaled gradients, the scale and the result of the check as
# tensors, and decides inside the kernel.
#
# We make three steps with each kind, the second with an overflow, and count how often
# `optimizer.step` and `.item()` are called.

# %% tags=["question"]
predict("grad_scaler.fused_steps")

# %%
for fused in (False, True):
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1, fused=fused)
    scaler, steps, path = GradScaler("cpu"), [], []
    optimizer.register_step_post_hook(lambda *_, steps=steps: steps.append(1))
    with item_calls() as reads:
        for overflow in (False, True, False):
            optimizer.zero_grad()
            scaler.scale(weight.sum()).backward()
            weight.grad[0] += math.inf if overflow else 0.0
            scaler.step(optimizer)
            scaler.update()
            path.append(round(weight.tolist()[1], 1))
    name = "fused" if fused else "plain"
    print(f"{name}  optimizer.step {len(steps)}, .item() {len(reads)}, weight {path}")

# %% [markdown]
# In this run the weights are the same, because the kernel leaves them alone in the second step. But
# other things differ from what [[lesson grad_scaler]] shows:
#
# - A hook on `optimizer.step` counts skipped steps too. Comparing the scale works with both kinds.
# - After a skipped step, `.grad` is still scaled.
# - Where `scaler.unscale_` wasn't called, nobody refuses FP16 gradients.
# - Without any gradient, the message "No inf checks were recorded" comes from `update`.
#
# ### Reading the scale brings the wait back
#
# Your loop may compare the scale before and after each step, for its schedule. `get_scale` calls `.item()`
# too. We count again, over three clean steps: once without a comparison, once with two reads in each step,
# and once with one.

# %%
for reading in ("no comparison", "two reads in each step", "one read in each step"):
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1, fused=True)
    scaler = GradScaler("cpu")
    after = scaler.get_scale()
    with item_calls() as reads:
        for _ in range(3):
            optimizer.zero_grad()
            scaler.scale(weight.sum()).backward()
            before = scaler.get_scale() if reading.startswith("two") else after
            scaler.step(optimizer)
            scaler.update()
            after = before if reading.startswith("no") else scaler.get_scale()
            skipped = after < before
    print(f"{reading:22}  .item() {len(reads)}")

# %% [markdown]
# With a fused optimizer, `step` doesn't wait, and each of these reads does. If a few
# steps more or less don't matter to your schedule, leave the comparison out.
#
# A CUDA graph records the kernels of a step and launches them all at once. While it records, the CPU may
# not wait for the GPU, so it can't record `scaler.step` with a plain optimizer. PyTorch's
# [notes](https://docs.pytorch.org/docs/stable/notes/cuda.html#usage-with-torch-cuda-amp) say to record
# forward, loss and backward, and to leave `step` and `update` outside.
#
# ### Fused SGD with momentum: a bug in PyTorch 2.13
#
# Now fused SGD with momentum, whose *very first* step overflows, as first steps often do. Run the cell
# a few times. With plain SGD, both weights would end at 0.9.

# %% tags=["live"]
weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1, momentum=0.9, fused=True)
scaler = GradScaler("cpu")
for overflow in (True, False):
    optimizer.zero_grad()
    scaler.scale(weight.sum()).backward()
    weight.grad[0] += math.inf if overflow else 0.0
    scaler.step(optimizer)
    scaler.update()
print("weights", weight.tolist(), "momentum", optimizer.state[weight]["momentum_buffer"].tolist())

# %% [markdown]
# Did you see numbers that nobody computed? In the first step, `torch/optim/sgd.py` creates the momentum
# with `torch.empty_like`: memory that holds whatever was there before. The kernel is expected to fill
# it. But the step is skipped, and the kernel returns without touching it. The second step takes this
# memory for momentum. What you see depends on chance, and can look right many times in a row. One
# project met it [on GPUs](https://github.com/LibreYOLO/libreyolo/pull/771). Until it's fixed, use plain
# SGD with a scaler; fused Adam and AdamW don't have this bug.
#
# ## A scheduler after a skipped first step
#
# The scheduler in this cell stands where it belongs, after `optimizer.step`. But that step is skipped.

# %%
weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
scaler = GradScaler("cpu")
scaler.scale(weight.sum() * math.inf).backward()
scaler.step(optimizer)  # skipped
scaler.update()
print(warned(scheduler.step))
print(f"learning rate {scheduler.get_last_lr()[0]}, and no update was made")

# %% [markdown]
# PyTorch notices that `optimizer.step` was never called, and takes it for a wrong order of the two
# calls. With a fused optimizer, or after a later skip, there is no warning at all.
#
# ## Closures don't go with a scaler
#
# Some optimizers, such as LBFGS, call a function that computes the loss and the gradients again: a
# closure. The optimizer uses these gradients at once, before a scaler could unscale or check them.

# %%
weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
scaler = GradScaler("cpu")
scaler.scale(weight.sum()).backward()
print("by name:    ", raised(lambda: scaler.step(optimizer, closure=lambda: 7.0)))
print("by position:", raised(lambda: scaler.step(optimizer, lambda: 7.0)))

# %% [markdown]
# By name, it is refused. By position it gets through in PyTorch 2.13, and nobody unscales or checks the
# gradients that the closure computes. So use FP32 or BF16 with such an optimizer.
#
# ## `GradScaler()` means CUDA
#
# The first argument is the device, and its default is `"cuda"`. Here is what that does on a machine
# without CUDA.

# %%
made = []
with without_cuda():
    print("warning:", warned(lambda: made.append(GradScaler())))
scaler, loss = made[0], torch.tensor(2.0)
print(f"a loss of 2 becomes {scaler.scale(loss).item():.0f}, the scale is {scaler.get_scale():.0f}")

# %% [markdown]
# It warns, and then it is off. A script that falls back to the CPU but says `GradScaler("cuda")`
# trains FP16 without loss scaling there. Use one variable for both: `GradScaler(device)`.
#
# Back to [[lesson grad_scaler]], its [[exercises grad_scaler]], or on to [[lesson training_loops]].
