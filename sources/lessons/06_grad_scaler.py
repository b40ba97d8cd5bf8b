# %% [markdown]
# # Lesson 06: GradScaler
#
# In [[lesson amp_in_20_minutes]], a `GradScaler` turned a flat loss curve into a falling one. Here
# you look inside. You'll see what each of its calls does, how it finds a scale, and why a scale that
# keeps falling points to a fault somewhere else.
#
# **You will be able to** say what each call of a GradScaler does and read the curve of its scale. You'll
# know where `zero_grad`, clipping and a schedule belong, and how to fix the errors that it raises.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson amp_in_20_minutes]] and [[lesson autocast_ops]]; no GPU.

# %%
import math

import torch
from torch import nn
from torch.nn.functional import mse_loss

from amp_lessons import ScalerLog, ask, autoencoder, load_digits, plots, predict, simulate_scaler

device = "cuda" if torch.cuda.is_available() else "cpu"
pictures = load_digits().train_images[:600].to(device)
our_pixels, big = pictures.numel(), 100_000_000
GradScaler = torch.amp.GradScaler

# %% [markdown]
# ## Which number should we multiply by?
#
# The network of [[lesson amp_in_20_minutes]] paints digits again. As there, we pretend that the pictures
# are big: the loss is divided by 100 million pixels, where we have only 38,400. The learning rate
# is multiplied by 100 million / 38,400, so with exact numbers every update would stay the same.
#
# But under autocast, the gradients that flow back from layer to layer are FP16. Those up to 2.98e-8 are
# rounded to zero, and those from 65,520 on become inf. They are converted to FP32 only at the end,
# in `.grad`, and then it's too late. So we multiply the loss by a number, and divide `.grad` by the
# same number before the update. This number is the [[term loss scaling|loss scale]].
#
# `GradScaler` starts with 65,536. Is that number special? Let's try others, each fixed for a whole
# training, and without a `GradScaler`.


# %%
def painting_loss(model):
    """The loss to train on, and the error per pixel to show."""
    with torch.autocast(device, dtype=torch.float16):
        error = mse_loss(model(pictures), pictures, reduction="sum")
    return error / big, error.item() / our_pixels


# %%
def train_by_hand(scale):
    model = autoencoder().to(device)  # always the same initial weights
    optimizer = torch.optim.SGD(model.parameters(), lr=big / our_pixels, momentum=0.9)
    for _ in range(150):
        optimizer.zero_grad()
        loss, error = painting_loss(model)
        (loss * scale).backward()
        for parameter in model.parameters():
            parameter.grad /= scale
        optimizer.step()
    return error


# %% tags=["question"]
predict("grad_scaler.fixed_scales")

# %%
for exponent in (0, 8, 16, 24, 32, 40):
    error = train_by_hand(2.0**exponent)
    print(f"loss scale 2^{exponent:<2}: error per pixel {error:.3f} after 150 steps")

# %% [markdown]
# Four of the six work equally well. With 1 every gradient becomes zero, and with 2^40 some become
# inf. These are six positions of the slider in [[lesson amp_in_20_minutes]]. Here it is again, for
# a second question: would one fixed scale do for a whole training? It stands at 16. Drag **Time**.

# %% tags=["live"]
from amp_lessons.lessons.widgets import LossScaleLab

LossScaleLab(scale=16, predict=False)

# %% [markdown]
# ## Four calls
#
# `GradScaler` does the same as `train_by_hand`, and two things more: it checks the gradients before
# each update, and it changes the scale during the training. Let's watch it make one step.
# Everything in it is FP32, without autocast.

# %% tags=["question"]
predict("grad_scaler.grad_after_backward")

# %%
weight = torch.tensor(3.0, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
scaler = GradScaler("cpu")

scaler.scale(weight**2).backward()
print(f"after backward:  grad   {weight.grad.item():,.0f}")
scaler.unscale_(optimizer)
print(f"after unscale_:  grad   {weight.grad.item():,.0f}")
scaler.step(optimizer)
print(f"after step:      weight {weight.item():.1f}")
scaler.update()
print(f"after update:    scale  {scaler.get_scale():,.0f}")

# %% [markdown]
# `.grad` holds 6, the true gradient, times 65,536, until `unscale_` divides it.
#
# | call | what it does |
# |---|---|
# | `scale(loss)` | returns the loss times the scale, as a new tensor |
# | `unscale_(optimizer)` | divides the gradients of this optimizer by the scale, in place, and notes whether any of them is inf or NaN |
# | `step(optimizer)` | calls `unscale_`, unless you have; then decides whether to call `optimizer.step()` |
# | `update()` | chooses the scale for the next step |
#
# `step` calls `unscale_` for you. You call it yourself if you want to see or change the true gradients
# before the step, above all to clip them. (Optimizers with `fused=True` work in another way, which
# [[deep grad_scaler]] shows.)
#
# ## What does one inf cost?
#
# If the scale is too large, some gradients overflow and become inf. What does one such step do to
# the weights, and to Adam's running average of each gradient?

# %% tags=["question"]
predict("grad_scaler.one_inf")

# %%
first, second = torch.tensor(3.0, requires_grad=True), torch.tensor(5.0, requires_grad=True)
optimizer = torch.optim.Adam([first, second], lr=0.1)
scaler = GradScaler("cpu")
for overflow in (False, True):
    optimizer.zero_grad()
    scaler.scale(first**2 + second**2).backward()
    if overflow:
        first.grad.fill_(math.inf)
    scaler.step(optimizer)
    scaler.update()
    averages = [optimizer.state[w]["exp_avg"].item() for w in (first, second)]
    print(f"weights {first.item():.1f} and {second.item():.1f}", end=", ")
    print("averages {:.1f} and {:.1f}".format(*averages), end=", ")
    print(f"scale {scaler.get_scale():,.0f}")

# %% [markdown]
# One inf, and the whole step is skipped: neither weight moves, and Adam's averages stay clean.
#
# ## How the scale moves
#
# Gradients shrink while a network learns. In the lab above, with a scale of 16, between the layers
# 41% of the gradients become zero at the first step, and 75% after 150 steps. (The error still ends
# within 3% of FP32's.) So the scale should move.
#
# The scaler remembers two numbers: the scale, and how many clean steps there were in a row. A step
# is clean if no gradient was inf or NaN. `update` changes both numbers.
#
# | this step | scale | clean steps in a row |
# |---|---|---|
# | had an inf or a NaN | times `backoff_factor`, 0.5 | back to 0 |
# | was clean | stays | one more |
# | was the 2,000th clean step in a row (`growth_interval`) | times `growth_factor`, 2 | back to 0 |
#
# In the lab below you decide which steps overflow. A real `GradScaler` runs with your pattern. Predict
# its next scale before you uncover it. Then try to answer the question below, with the lab's help.

# %% tags=["live"]
from amp_lessons.lessons.widgets import ScalerLab

ScalerLab([step in (5, 6) for step in range(12)], init_scale=4.0, growth_interval=3)

# %% tags=["question"]
predict("grad_scaler.fewest_overflows")

# %%
for gap in (5, 4, 3, 2):
    overflows = range(2, 12, gap)
    pattern = [step in overflows for step in range(12)]
    scales = simulate_scaler(pattern, init_scale=64.0, growth_interval=3)
    print(f"{len(overflows)} overflows, in steps {[*overflows]}: scales", *map(round, scales))

# %% [markdown]
# With four overflows, there are never three clean steps in a row. So the scale never grows.
#
# ## A start that is much too high
#
# Now a whole training with a `GradScaler`. `train` has two switches for later: it can leave out
# `zero_grad`, and it can make the loss of one step inf. `ScalerLog(scaler)`, from this course's
# package, wraps a scaler. It behaves like that scaler, and remembers what each `update` did.


# %%
def train(scaler, clear=True, spoiled=None):
    model = autoencoder().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=big / our_pixels, momentum=0.9)
    errors = []
    for step in range(150):
        if clear:
            optimizer.zero_grad()
        loss, error = painting_loss(model)
        if step == spoiled:
            loss = loss * math.inf
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        errors.append(error)
    return errors


# %% tags=["question"]
predict("grad_scaler.start_at_2_40")

# %%
usual = train(GradScaler(device))
log = ScalerLog(GradScaler(device, init_scale=2.0**40, growth_interval=20))
plots.scaled_training(
    {"scale from 2^16": usual, "scale from 2^40": train(log)},
    log.records,
    title="A scale that starts at 2^40",
    ylabel="error per pixel",
)

# %% [markdown]
# The first eight steps are skipped, and each halves the scale. At 2^32 the gradients fit, and the
# network learns as usual. Then the scaler tries larger scales again.
#
# ## Was my step skipped?
#
# People ask this in PyTorch's issues
# ([55585](https://github.com/pytorch/pytorch/issues/55585),
# [67590](https://github.com/pytorch/pytorch/issues/67590)), because a learning rate schedule should
# count only the steps that were made. In PyTorch 2.13 no public method of the scaler answers it. But the
# scale does.

# %% tags=["question"]
predict("grad_scaler.which_comparison")

# %%
weight = torch.ones(2, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
scaler = GradScaler("cpu", growth_interval=2)
for overflow in (False, False, True):
    optimizer.zero_grad()
    scaler.scale(weight.sum()).backward()
    if overflow:
        weight.grad[0] = math.inf
    before = scaler.get_scale()
    returned = scaler.step(optimizer)
    scaler.update()
    print(f"gradients {'with an inf' if overflow else 'finite':11}", end="  ")
    print(f"step returned {returned}, scale {before:,.0f} -> {scaler.get_scale():,.0f}")

# %% [markdown]
# Only a skipped step makes the scale smaller. It also changes when it grows, so don't ask whether
# it has changed. A loop with one optimizer and a schedule looks like this. If the scaler is off,
# `get_scale` returns 1 each time, and the same lines are right.
#
# ```python
# before = scaler.get_scale()
# scaler.step(optimizer)
# scaler.update()
# if scaler.get_scale() >= before:
#     scheduler.step()
# ```
#
# On a GPU, each `get_scale` waits until the GPU has computed the scale. One call in each step is
# enough: what you read after `update` is `before` in the next step.
#
# Without the `if`, the learning rate runs ahead of the training by one step at each skip. You may have
# met the warning "Detected call of `lr_scheduler.step()` before `optimizer.step()`" in a loop whose
# order was right. In that case the very first step was skipped ([[deep grad_scaler]]).
#
# ## If you forget zero_grad
#
# Without `zero_grad`, each backward pass adds to the gradients that are already in `.grad`.

# %% tags=["question"]
predict("grad_scaler.no_zero_grad")

# %%
log = ScalerLog(GradScaler(device))
plots.scaled_training(
    {"with zero_grad": usual, "no zero_grad": train(log, clear=False, spoiled=30)},
    log.records,
    title="No zero_grad, and one inf in step 30",
    ylabel="error per pixel",
)

# %% [markdown]
# Up to step 30 nothing shows that `zero_grad` is missing. Then the inf stays in `.grad`, and every
# later step is skipped. The place of `zero_grad()` is free: at the top of the step, between the
# forward pass and `backward()`, or after `update()`. All three give the same numbers. Only between
# `backward()` and `step` is it wrong.
#
# ## Clip the true gradients
#
# In [[lesson amp_in_20_minutes]] we clipped the norm before `unscale_`, and the updates became far too
# small. `clip_grad_value_` limits each number of a gradient instead. The next cell makes the same step
# twice, with an inf in one gradient: first with `unscale_` before the clipping, then without it.

# %% tags=["question"]
predict("grad_scaler.clip_by_value")

# %%
for order in ("unscale_, clip, step", "clip, step"):
    weights = torch.tensor([3.0, 5.0], requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.1)
    scaler = GradScaler("cpu")
    scaler.scale((weights**2).sum()).backward()
    weights.grad[0] = math.inf
    if "unscale_" in order:
        scaler.unscale_(optimizer)
    nn.utils.clip_grad_value_([weights], 1.0)
    scaler.step(optimizer)
    scaler.update()
    shown = ", ".join(f"{w:.7f}" for w in weights.tolist())
    print(f"{order:20}  weights {shown}, scale {scaler.get_scale():,.0f}")

# %% [markdown]
# Without `unscale_`, clipping makes a 1 of the inf. Then `step` finds nothing wrong, and updates
# with a made-up gradient.
#
# ## Too large in the forward pass
#
# So far the scale was too large for the gradients. Now the trouble comes earlier, in the forward
# pass.

# %% tags=["question"]
predict("grad_scaler.forward_overflow")

# %%
layer = nn.Linear(3, 1, bias=False).to(device)
nn.init.constant_(layer.weight, 300.0)
inputs, targets = torch.full((4, 3), 100.0, device=device), torch.zeros(4, 1, device=device)
optimizer = torch.optim.SGD(layer.parameters(), lr=1e-3)
log = ScalerLog(GradScaler(device))
for _ in range(20):
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        loss = mse_loss(layer(inputs), targets)
    log.scale(loss).backward()
    log.step(optimizer)
    log.update()
print(f"loss {loss.item()}, {len(log.skipped_steps)} of 20 steps skipped")
plots.scaler_path(log.records, title="An overflow in the forward pass")

# %% [markdown]
# Every step is skipped. The output is inf before anything is scaled, so no scale helps, and the
# scaler halves its scale again and again. When you see such a curve, start with the loss.
#
# | what you see | where to look |
# |---|---|
# | The loss is inf or NaN in every step | The forward pass overflows, or the weights are NaN already. Find the first op that puts out an inf and run it in FP32, or train in BF16, whose range is almost that of FP32. Models that were trained in BF16 often don't fit into FP16 ([docs](https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling)) |
# | The loss is inf or NaN in some steps | A bad number in the data, or a loss that can overflow ([[lesson losses_and_ops]]) |
# | From some step on, every step is skipped, and the loss stops falling | An inf or a NaN stays in `.grad`, most likely because `zero_grad` is missing. Print whether `.grad` is finite *before* `backward` |
# | The loss is fine, but many steps in a row are skipped | The backward pass makes an inf or a NaN by itself. The derivative of a square root at 0 is inf, for example. (A single skip after the scale has grown is normal) |
#
# A scale below 1 makes gradients smaller than they are, and few models need that. A rule of thumb: stop
# a run whose scale falls below 1, or which skips 50 steps in a row, and look. You write such an alarm
# in the [[exercises grad_scaler|exercises]].
#
# ## Let a monitor find the op
#
# In a large network you don't have to look for the first inf by hand. `amp_lessons.monitor` watches a
# training loop and names the op that made it, with its line. Your loop doesn't change. Here the monitor
# watches the layer from above.

# %%
import amp_lessons

scaler = GradScaler(device)
with amp_lessons.monitor(layer, scaler) as seen:
    for _ in range(20):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16):
            loss = mse_loss(layer(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
print(*(alarm.title for alarm in seen.alarms), sep="\n")
print("line:", seen.faults[0].place.code)

# %% [markdown]
# `mm` is the matrix product inside the layer. The alarm says "in the forward pass", so change the
# line that is named. `print(seen)` shows the whole report. It also counts which gradients
# underflow, and says which loss scales would keep them.
#
# ## Error messages, and what they mean
#
# A `GradScaler` checks how you use it. Each line below makes one backward pass with a new scaler, then
# the calls that it names. In line 1 the loss was not scaled. In line 2 the optimizer holds another
# parameter, which got no gradient.

# %%
from amp_lessons.lessons.experiments import scaler_error

print("1", scaler_error("step", scaled=False))
print("2", scaler_error("step", trained=False))
print("3", scaler_error("unscale_", "unscale_"))
print("4", scaler_error("step", "step"))
print("5", scaler_error("step", "unscale_"))
print("6", scaler_error("update"))

# %% [markdown]
# | | what happened | what to do |
# |---|---|---|
# | 1 | You call `loss.backward()`, not `scaler.scale(loss).backward()`, and the scaler has not been used before. If it has been used, there is no error, and that is worse: `step` divides the gradients by the scale all the same, and SGD hardly moves the weights | Scale every loss |
# | 2 | No parameter of this optimizer has a gradient. Perhaps it holds other parameters than the loss depends on, all of them are frozen, or `zero_grad` came between `backward` and `step` | Print which `.grad` are None |
# | 3 | You called `unscale_` twice without an `update` in between | Call `unscale_` once, right before the step ([[lesson training_loops]]) |
# | 4 | You called `step` twice without an `update` in between | Call `update` once in each step, last |
# | 5 | Your `unscale_`, often with clipping, stands after `step`, or `update` is missing | Put it before `step` |
# | 6 | You left out `step`, for example because the loss was bad, and called `update` | Call `scaler.step` in each step, and then `scaler.update`. If a gradient is inf or NaN, `scaler.step` leaves the weights alone |
#
# ## FP16 gradients, and BF16 gradients
#
# A scaler is made for FP32 gradients. Under autocast the parameters stay in FP32, and so do the
# gradients in `.grad`. What if the parameters are 16-bit themselves?

# %%
for dtype in (torch.float16, torch.bfloat16):
    weight = torch.ones(2, dtype=dtype, requires_grad=True)
    scaler = GradScaler("cpu")
    scaler.scale(weight.sum()).backward()
    try:
        scaler.unscale_(torch.optim.SGD([weight]))
        print(f"{dtype}: gradients {weight.grad.tolist()}")
    except ValueError as error:
        print(f"{dtype}: ValueError: {error}")

# %% [markdown]
# **"Attempting to unscale FP16 gradients"** means that you train FP16 parameters. This is how people
# get there, and the cure:
#
# - `model.half()`. Leave it out, and let autocast convert.
# - `from_pretrained(…, dtype=torch.float16)` (`torch_dtype` in older versions), which loads a model's
#   weights in FP16. If you train all of them, load them in FP32.
# - LoRA: the model is frozen in FP16, and you train a small adapter beside it. The model may stay
#   in FP16, but the adapter must be FP32. By hand:
#
#   ```python
#   for parameter in model.parameters():
#       if parameter.requires_grad:
#           parameter.data = parameter.data.float()
#   ```
#
# **BF16 gradients** are accepted on a CPU. On CUDA, PyTorch 2.13 raises
# `"_amp_foreach_non_finite_check_and_unscale_cuda" not implemented for 'BFloat16'`
# ([issue 127176](https://github.com/pytorch/pytorch/issues/127176); a
# [fix](https://github.com/pytorch/pytorch/pull/194947) was open in August 2026). BF16 doesn't need a
# scaler: turn it off.
#
# ## When the scaler is off
#
# `GradScaler(device, enabled=False)` takes the four calls too, but its scale is 1 and stays 1. So one
# loop serves FP16, BF16 and FP32: you enable the scaler for FP16 only. `scaler.is_enabled()` says
# whether it is on. It is also False for `GradScaler("cuda")` on a machine without CUDA.

# %% tags=["question"]
predict("grad_scaler.disabled_nan")

# %%
for enabled in (True, False):
    scaler = GradScaler("cpu", enabled=enabled)
    weight = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    scaler.scale(weight.sum() * math.nan).backward()
    scaler.step(optimizer)
    scaler.update()
    print(f"scaler {'on' if enabled else 'off':3}  weight after a loss of NaN: {weight.item()}")

# %% [markdown]
# With the scaler off, nobody checks the gradients, and the weight becomes NaN. In a loop for BF16
# or FP32 that clips, a check costs one line more. `clip_grad_norm_` returns the norm of all
# gradients, and that is inf or NaN if any gradient is:
#
# ```python
# norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
# if norm.isfinite():
#     scaler.step(optimizer)  # off, so it is optimizer.step()
# ```
#
# On a GPU, this `if` waits for the backward pass, as `step` does with a scaler that is on (unless the
# optimizer is fused).
#
# ## Recap
#
# 1. `scale` multiplies the loss. `unscale_` divides the gradients and looks for inf and NaN. `step`
#    updates the weights only if there is none. `update` changes the scale.
# 2. The scale halves after a skipped step, and doubles after 2,000 clean steps in a row. A few skips
#    at the start are normal.
# 3. If the scale is smaller after `update` than before `step`, the step was skipped. Then leave out
#    `scheduler.step()` too.
# 4. `zero_grad` in every step, `unscale_` before clipping, one `update` at the end.
# 5. A scaler protects small gradients in FP16. It can't fix an overflow in the forward pass. If that
#    happens in each step, it may skip every step.
#
# ## Three questions

# %% tags=["question"]
ask(
    "grad_scaler.three_skips_then_none",
    "grad_scaler.overflow_at_1999",
    "grad_scaler.scale_falls_loss_inf",
)

# %% [markdown]
# **Next:** [[exercises grad_scaler|the exercises]]: write your own GradScaler, predict a scale, clip
# and schedule, and stop a run that is sinking. Then [[lesson training_loops]] puts the scaler into real
# training loops. Optional: [[deep grad_scaler]], on a scale of 0, fused optimizers, closures, and
# a scaler on a machine without CUDA.
