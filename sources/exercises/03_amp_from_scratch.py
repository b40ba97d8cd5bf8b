# %% [markdown]
# # Exercises 03: AMP from scratch
#
# The three ingredients, built by hand, and a set of runs that lack one of them. Take [[lesson amp_from_scratch]] first. Nothing here needs `torch.amp`.

# %%
import math

import torch

from amp_lessons.checks import amp_from_scratch as ex
from amp_lessons.formats import FP16

# %% [markdown] heading="MasterSGD"
# Write the class `MasterSGD`: SGD for parameters in 16 bits that keeps an FP32 master of each.
#
# `MasterSGD(parameters, lr, momentum=0.0)` gets a list of float16 or bfloat16 parameters. `step()`
# reads each parameter's `.grad`, which has the parameter's dtype, and updates like
# `torch.optim.SGD`: `velocity = momentum * velocity + gradient`, `weight = weight - lr * velocity`,
# in float32. Afterwards each parameter, the same tensor as before and in the same dtype, holds its
# master rounded to 16 bits. A parameter whose `.grad` is None stays as it is.


# %% exercise="MasterSGD"
class MasterSGD:
    """SGD with float32 master weights for 16-bit parameters."""

    def __init__(self, parameters, lr, momentum=0.0):
        ### BEGIN SOLUTION
        self.parameters = list(parameters)
        self.lr, self.momentum = lr, momentum
        self.masters = [p.detach().float() for p in self.parameters]
        self.velocities = [torch.zeros_like(m) for m in self.masters]
        ### END SOLUTION

    @torch.no_grad()
    def step(self):
        """Update the masters with the parameters' gradients, then the parameters."""
        ### BEGIN SOLUTION
        for p, master, velocity in zip(self.parameters, self.masters, self.velocities, strict=True):
            if p.grad is not None:
                velocity.mul_(self.momentum).add_(p.grad.float())
                master.sub_(self.lr * velocity)
                p.copy_(master)
        ### END SOLUTION


# %% [markdown] heading="StaticScaler"
# Write the class `StaticScaler`: loss scaling with a scale that stays.
#
# - `StaticScaler(scale)` raises a `ValueError` unless `scale` is a positive, finite power of two.
# - `scale(loss)` returns the loss times the scale. (So keep the number itself under another name
#   than `self.scale`.)
# - `step(optimizer)` is called after `backward()`. It divides the gradients of all of the
#   optimizer's parameters, in all of its groups, by the scale, in place. (A parameter may have
#   none.) If all of them are finite it calls `optimizer.step()` and returns True. If one is inf or
#   NaN, it leaves the weights and the optimizer's state alone and returns False.


# %% exercise="StaticScaler"
class StaticScaler:
    """Loss scaling by a constant power of two, with steps skipped on overflow."""

    def __init__(self, scale):
        ### BEGIN SOLUTION
        if not 0 < scale < math.inf or math.frexp(scale)[0] != 0.5:
            raise ValueError(f"the scale must be a positive, finite power of two, got {scale}")
        self.factor = scale
        ### END SOLUTION

    def scale(self, loss):
        """The loss, multiplied."""
        ### BEGIN SOLUTION
        return loss * self.factor
        ### END SOLUTION

    def step(self, optimizer):
        """Unscale, check, and perhaps step. True if the step was taken."""
        ### BEGIN SOLUTION
        everything = [p for group in optimizer.param_groups for p in group["params"]]
        gradients = [p.grad for p in everything if p.grad is not None]
        for gradient in gradients:
            gradient.div_(self.factor)
        if not all(gradient.isfinite().all() for gradient in gradients):
            return False
        optimizer.step()
        return True
        ### END SOLUTION


# %% [markdown] heading="choose_scale"
# Write `choose_scale(gradients, headroom)`: the largest static scale with room to spare.
#
# `gradients` is a dict of float32 tensors, by layer, as they are without a scale; some of their
# elements may be zero. Return the largest power of two, as a float, at which every gradient stays
# finite in FP16 even after it has grown by a factor of $2^h$, where $h$ is `headroom`. (A value
# overflows in FP16 from 65520 on.) The scale may be smaller than 1.
#
# Here is what such gradients look like, for the digits network.

# %%
from amp_lessons.scaling import exponent_histogram
from amp_lessons.training import digits_gradients

histogram = exponent_histogram(digits_gradients().values())
for exponent, count in zip(histogram.exponents[-8:], histogram.counts[-8:], strict=True):
    print(f"2^{exponent:<3} to 2^{exponent + 1:<3} {'#' * (count // 50 + 1)}")


# %% exercise="choose_scale"
def choose_scale(gradients, headroom):
    """The largest power of two that leaves `headroom` bits above the largest gradient."""
    ### BEGIN SOLUTION
    largest = max(g.double().abs().max().item() for g in gradients.values()) * 2.0**headroom
    scale = 2.0**60
    while math.isinf(FP16.round(largest * scale)):
        scale /= 2
    return scale
    ### END SOLUTION


# %% [markdown] heading="mixed_loss"
# Write `mixed_loss(images, weight, bias, labels)`: a linear classifier and its mean cross-entropy,
# with explicit casts.
#
# `images` has the shape (rows, inputs), `weight` (classes, inputs) and `bias` (classes,), all
# float32; `labels` has the shape (rows,). The matrix product runs in float16, everything from the
# softmax on in float32, and the loss is returned as float32. `weight` and `bias` stay what they
# are, and after `loss.backward()` their gradients are float32.


# %% exercise="mixed_loss"
def mixed_loss(images, weight, bias, labels):
    """Mean cross-entropy of images @ weight.T + bias, the product in float16."""
    ### BEGIN SOLUTION
    logits = torch.nn.functional.linear(images.half(), weight.half(), bias.half())
    return torch.nn.functional.cross_entropy(logits.float(), labels)
    ### END SOLUTION


# %% [markdown] heading="missing_ingredient"
# Write `missing_ingredient(run)`: find out by experiment what a training run lacks.
#
# `run` trains a small model in FP16, as often as you call it, and always from the same weights:
# `run(steps=1, lr=2.0**-3, loss_factor=1.0, repeats=1)`. `loss_factor` multiplies the loss,
# `repeats` says how often the same 8 examples stand in the batch. It returns an outcome with four
# fields:
#
# - `loss`: the mean loss of the last step, without the factor
# - `gradient`: the last step's gradient, float32, unscaled
# - `before`, `after`: the float16 weights that the model computed with at first, and would compute
#   with next
#
# A run that scales its loss does so by $2^{10}$. Return `"loss scaling"`, `"master weights"`,
# `"wide accumulation"` or `"nothing"`. Beware: with these default settings every run looks healthy.

# %%
for missing, run in ex.practice_runs().items():
    outcome = run()
    print(f"lacks {missing:18}", end=" ")
    print("gradients not zero:", bool((outcome.gradient != 0).all()), end="   ")
    print("all weights moved:", bool((outcome.before != outcome.after).all()))


# %% exercise="missing_ingredient"
def missing_ingredient(run):
    """Which ingredient of mixed precision a run lacks, or "nothing"."""
    ### BEGIN SOLUTION
    if (run(loss_factor=2.0**-32).gradient == 0).all():
        return "loss scaling"
    slow = run(lr=2.0**-16, steps=1000)
    if (slow.before == slow.after).all():
        return "master weights"
    if abs(run(repeats=2000).loss / run().loss - 1) > 0.1:
        return "wide accumulation"
    return "nothing"
    ### END SOLUTION


# %% [markdown]
# Next: [[lesson autocast_ops]] shows which casts PyTorch makes for you, op by op; in [[lesson grad_scaler]] your scaler learns
# to find its scale.
