# %% [markdown]
# # Exercises 06: GradScaler
#
# Write a GradScaler, watch one, predict one, and use it in the right order. Take [[lesson grad_scaler]] first. No GPU is needed: `torch.amp.GradScaler("cpu")` is the
# real thing.

# %%
import torch
from torch import nn

from amp_lessons.checks import grad_scaler as ex

# %% [markdown] heading="OwnScaler"
# Write the class `OwnScaler`: it does what `torch.amp.GradScaler` does, with one optimizer.
#
# - `scale(loss)` returns the loss times the scale.
# - `unscale_(optimizer)` divides every gradient of the optimizer by the scale, in place, and looks
#   for inf and NaN in them.
# - `step(optimizer)` does the same unless the caller has done it since the last `update`, and then
#   lets the optimizer step only if every gradient was finite.
# - `update()` multiplies the scale by `backoff_factor` if one was not; otherwise by
#   `growth_factor` at the end of `growth_interval` clean steps in a row. Then the next step begins.
# - `get_scale()` returns the scale as a number.
#
# Do not use `torch.amp`. The check trains with your scaler and with torch's side by side, through
# clean steps, inf, −inf and NaN, and compares scale, gradients, parameters and the optimizer's
# steps. A parameter whose `.grad` is None is left out.


# %% exercise="OwnScaler"
class OwnScaler:
    """Dynamic loss scaling for one optimizer."""

    def __init__(self, init_scale, growth_factor, backoff_factor, growth_interval):
        ### BEGIN SOLUTION
        self.current = init_scale
        self.growth_factor, self.backoff_factor = growth_factor, backoff_factor
        self.growth_interval = growth_interval
        self.clean_steps = 0
        self.found_inf = None  # None: the gradients of this step are still scaled
        ### END SOLUTION

    def scale(self, loss):
        ### BEGIN SOLUTION
        return loss * self.current
        ### END SOLUTION

    def unscale_(self, optimizer):
        ### BEGIN SOLUTION
        self.found_inf = False
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.div_(self.current)
                    self.found_inf |= not parameter.grad.isfinite().all().item()
        ### END SOLUTION

    def step(self, optimizer):
        ### BEGIN SOLUTION
        if self.found_inf is None:
            self.unscale_(optimizer)
        if not self.found_inf:
            optimizer.step()
        ### END SOLUTION

    def update(self):
        ### BEGIN SOLUTION
        if self.found_inf:
            self.current *= self.backoff_factor
            self.clean_steps = 0
        else:
            self.clean_steps += 1
            if self.clean_steps == self.growth_interval:
                self.current *= self.growth_factor
                self.clean_steps = 0
        self.found_inf = None
        ### END SOLUTION

    def get_scale(self):
        ### BEGIN SOLUTION
        return self.current
        ### END SOLUTION


# %% [markdown] heading="skipped_steps"
# Write `skipped_steps(model, optimizer, scaler, batches)`: train, and report which steps were
# skipped.
#
# `batches` is a list of pairs (x, y). For each pair, in order, make one whole training step:
# cleared gradients, the mean squared error of `model(x)` and `y` under
# `torch.autocast("cpu", dtype=torch.float16)`, backward, step and update with the scaler (a
# `torch.amp.GradScaler("cpu")`, already made). Return a list with the numbers of the steps that the
# scaler skipped, the first step being 0.


# %% exercise="skipped_steps"
def skipped_steps(model, optimizer, scaler, batches):
    """Train one step a batch; the numbers of the skipped steps, as a list of ints."""
    ### BEGIN SOLUTION
    skipped = []
    for number, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        before = scaler.get_scale()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() < before:
            skipped.append(number)
    return skipped
    ### END SOLUTION


# %% [markdown] heading="predict_scale"
# Write `predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval)`: the
# scale after each `update`, with no scaler and no training.
#
# `found_inf` is a list of bools, one for each step: whether a gradient of it was inf or NaN. Return
# a list of numbers of the same length. It is compared with what torch's scaler does, from the
# largest scales to the smallest.


# %% exercise="predict_scale"
def predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval):
    """The scale after each update, as a list of floats."""
    ### BEGIN SOLUTION
    scale, clean_steps, scales = init_scale, 0, []
    for bad in found_inf:
        if bad:
            scale, clean_steps = scale * backoff_factor, 0
        else:
            clean_steps += 1
        if clean_steps == growth_interval:
            clean_steps = 0
            if scale * growth_factor <= torch.finfo(torch.float32).max:
                scale *= growth_factor
        scales.append(scale)
    return scales
    ### END SOLUTION


# %% [markdown] heading="schedule_step"
# Write `schedule_step(scaler, optimizer, scheduler)`: the end of a training step with a learning
# rate schedule that counts real steps.
#
# The scaled loss has had its backward pass. Do the rest of the step with the scaler, and step the
# scheduler if, and only if, the optimizer has stepped. Return True if it has, False if the step was
# skipped. Leave the scaler ready for the next step.


# %% exercise="schedule_step"
def schedule_step(scaler, optimizer, scheduler):
    """Finish a step; True if the optimizer and the scheduler have stepped."""
    ### BEGIN SOLUTION
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    stepped = scaler.get_scale() >= before
    if stepped:
        scheduler.step()
    return stepped
    ### END SOLUTION


# %% [markdown] heading="clip_step"
# Write `clip_step(scaler, optimizer, loss, max_norm)`: a training step from the loss on, with the
# gradients clipped to `max_norm`.
#
# `loss` is not scaled yet; the gradients are cleared. The norm of *all* gradients of the optimizer
# together is limited to `max_norm`, with `torch.nn.utils.clip_grad_norm_`. Return the norm of the
# true gradients before the clipping, a number or a tensor without dimensions (in a step with an
# overflow it is not finite). Leave the scaler ready for the next step.


# %% exercise="clip_step"
def clip_step(scaler, optimizer, loss, max_norm):
    """Backward, clip and step; the norm of the gradients before clipping."""
    ### BEGIN SOLUTION
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    norm = nn.utils.clip_grad_norm_(parameters, max_norm)
    scaler.step(optimizer)
    scaler.update()
    return norm
    ### END SOLUTION


# %% [markdown] heading="why_skipped"
# A run's scale sinks and sinks. Write `why_skipped(model, x, target, scale)`: what makes this step
# bad?
#
# The step is: mean squared error of `model(x)` and `target` under
# `torch.autocast("cpu", dtype=torch.float16)`, then a backward pass of the loss times `scale` onto
# the gradients that are in `.grad` already. Return the *first* thing in which an inf or a NaN
# appears, in the order in which the step happens:
#
# | answer | the inf or NaN is first seen in |
# |---|---|
# | `"old gradient"` | what stands in `.grad` before the step |
# | `"input"` | `x` or `target` |
# | `"forward"` | the loss |
# | `"scale"` | the gradients of the scaled loss, but not with a scale of 1 |
# | `"backward"` | the gradients, with a scale of 1 too |
# | `"no skip"` | nothing: this step is fine |


# %% exercise="why_skipped"
def why_skipped(model, x, target, scale):
    """The cause of a skipped step: one of the six strings above."""

    ### BEGIN SOLUTION
    def finite(tensors):
        return all(t.isfinite().all() for t in tensors)

    parameters = list(model.parameters())
    if not finite(p.grad for p in parameters if p.grad is not None):
        return "old gradient"
    if not finite([x, target]):
        return "input"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    if not finite([loss]):
        return "forward"
    if finite(torch.autograd.grad(loss * scale, parameters, retain_graph=True)):
        return "no skip"
    return "scale" if finite(torch.autograd.grad(loss, parameters)) else "backward"
    ### END SOLUTION


# %% [markdown]
# Next: [[lesson training_loops]] puts the scaler into whole training loops, with accumulation, several optimizers
# and checkpoints.
