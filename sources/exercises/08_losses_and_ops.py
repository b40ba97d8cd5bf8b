# %% [markdown]
# # Exercises 08: Losses, norms and your own ops
#
# Four losses and two formulas that have to hold in 16 bits, a stream to keep in float32, and two
# Functions of your own to get right under autocast. Take [[lesson losses_and_ops]] first. Everything runs on a CPU.

# %%
import torch
from torch.nn import functional as F

from amp_lessons.checks import losses_and_ops as ex

# %% [markdown] heading="stable_losses"
# Here are four losses as people write them. Each breaks somewhere: all of them in FP16,
# three of them in float32 too. Mend each so that it gives the loss, and the gradient of the logits,
# for what a model may put out.
#
# Logits and similarities are float16, bfloat16 or float32; targets and masks are float32, labels
# are whole numbers. The functions are called in a region of autocast, or after one with logits that
# are still float16. Logits lie between −60 and 60, similarities between −1 and 1; the temperature
# is a power of two and may be 1/128. There may be 9000 classes, and 90,000 pixels. Return
# **float32**, a tensor without dimensions, right to within 1%, and leave the arguments as they are.
#
# Edit the functions where they stand; you may call any of torch's functions. The check names those
# that behave as before.


# %% exercise="stable_losses" answer="click_loss, smoothed_loss, contrastive_loss, dice_loss"
def click_loss(logits, targets):
    """Binary cross entropy, the mean over logits of shape (n,); targets of 0 and 1."""
    p = torch.sigmoid(logits)
    return -(targets * torch.log(p + 1e-8) + (1 - targets) * torch.log(1 - p + 1e-8)).mean()


def smoothed_loss(logits, labels, smoothing):
    """Cross entropy of logits of shape (rows, classes), with label smoothing; the mean."""
    log_p = torch.log(torch.softmax(logits, -1) + 1e-8)
    right = log_p.gather(1, labels.unsqueeze(1)).squeeze(1)
    return -((1 - smoothing) * right + smoothing * log_p.sum(-1) / logits.shape[1]).mean()


def contrastive_loss(similarities, temperature):
    """Row i belongs to column i: minus the log of its share in exp(similarity / temperature)."""
    e = torch.exp(similarities / temperature)
    return -torch.log(e.diagonal() / e.sum(-1)).mean()


def dice_loss(logits, masks):
    """1 - (2 * overlap + 1) / (predicted area + true area + 1), over all pixels."""
    p = torch.sigmoid(logits)
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


### BEGIN SOLUTION
# Mended:


def click_loss(logits, targets):
    return F.binary_cross_entropy_with_logits(logits.float(), targets)


def smoothed_loss(logits, labels, smoothing):
    return F.cross_entropy(logits.float(), labels, label_smoothing=smoothing)


def contrastive_loss(similarities, temperature):
    partners = torch.arange(len(similarities))
    return F.cross_entropy(similarities.float() / temperature, partners)


def dice_loss(logits, masks):
    p = torch.sigmoid(logits.float())
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


### END SOLUTION

# %% [markdown] heading="unit_rows"
# Write `unit_rows(x)`: each row of x, divided by its length.
#
# `x` has the shape (rows, width) and is float16, bfloat16 or float32. The entries of a row are all
# zero, or the largest lies between 0.003 and 50,000. A row of zeros stays a row of zeros. Return a
# tensor of the dtype and shape of `x`, right to within four ulp.


# %% exercise="unit_rows"
def unit_rows(x):
    """The rows of x with length 1, in the dtype of x."""
    ### BEGIN SOLUTION
    wide = x.float()
    length = wide.norm(dim=-1, keepdim=True).clamp_min(1e-6)
    return (wide / length).to(x.dtype)
    ### END SOLUTION


# %% [markdown] heading="safe_rms_norm"
# Write `safe_rms_norm(x, weight, eps)`: $x / \sqrt{\mathrm{mean}(x^2) + \mathrm{eps}}$ over the
# last dimension, times the weight.
#
# `x` has the shape (rows, width) and is float16, bfloat16 or float32, with entries between −60,000
# and 60,000; the weight (width,) and is float32; eps is a number. Return a tensor of the dtype and
# shape of `x`, right to within four ulp.


# %% exercise="safe_rms_norm"
def safe_rms_norm(x, weight, eps):
    """The RMS norm of each row of x, in the dtype of x."""
    ### BEGIN SOLUTION
    wide = x.float()
    mean_square = wide.square().mean(-1, keepdim=True)
    return (wide * torch.rsqrt(mean_square + eps) * weight).to(x.dtype)
    ### END SOLUTION


# %% [markdown] heading="residual_stream"
# Write `residual_stream(x, blocks, region)`: add to x what each block makes of it, one block after
# the other: `x + block(x)`.
#
# `x` has the shape (rows, width) and is float32, or comes from a first layer in 16 bits. `blocks`
# is a list of modules with float32 weights, each a norm and a linear layer. The linear layers run
# in 16 bits, in `region`, which is `torch.float16` or `torch.bfloat16`; no region is open when you
# are called. The stream may grow past 65504, and the blocks may add little to something large.
# Return the stream in float32, and leave x and the blocks as they are.


# %% exercise="residual_stream"
def residual_stream(x, blocks, region):
    """The stream after all blocks, float32: the blocks in 16 bits, the sums in 32."""
    ### BEGIN SOLUTION
    x = x.float()
    with torch.autocast("cpu", dtype=region):
        for block in blocks:
            x = x + block(x)
    return x
    ### END SOLUTION


# %% [markdown] heading="recomputed_silu"
# This Function saves memory: it keeps x and the weight, and computes their product again in the
# backward pass. Nothing raises, and the gradients look right. Yet under autocast its backward pass
# runs in another precision than its forward.


# %%
class Silent(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        print("recomputed in", (x @ weight).dtype)
        return None, None


x, weight = torch.ones(2, 3, requires_grad=True), torch.ones(3, 4)
with torch.autocast("cpu", dtype=torch.float16):
    y = Silent.apply(x, weight)
print("computed in  ", y.dtype)
y.sum().backward()

# %% [markdown]
# Mend the class below. `x` and `weight` are float32 on the CPU. In a region, all matrix products,
# those of the backward pass too, run in the dtype of the region that `recomputed_silu` was called
# in, *wherever* `backward()` is called, in no region or in one of another dtype, and whatever was
# called in between. Called in no region, all of them run in float32. The result has the dtype of
# the products. Keep the saving of memory: the product of `x` and the weight is computed again, not
# kept. Leave the arguments, and autocast's state, as they are. Edit the class where it stands.


# %% exercise="recomputed_silu"
class RecomputedSilu(torch.autograd.Function):
    """silu(x @ weight), with the product computed again in the backward pass."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


def recomputed_silu(x, weight):
    return RecomputedSilu.apply(x, weight)


### BEGIN SOLUTION
# Mended:


class RecomputedSilu(torch.autograd.Function):
    """silu(x @ weight), with the product computed again in the backward pass."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


### END SOLUTION

# %% [markdown] heading="wide_energy"
# This Function overflows in FP16, or raises, and its products have to be float32. Mend the class:
# in a region of float16 or bfloat16, and without one, its matrix products run in float32, those of
# the backward pass too, wherever `backward()` is called. The energy is float32.
#
# In a region `x` may be 16 bit or float32; outside it is float32. The matrix is float32, symmetric,
# and needs no gradient. Everything is on the CPU. Leave the arguments, and autocast's state, as
# they are. Edit the class where it stands.


# %% exercise="wide_energy"
class Energy(torch.autograd.Function):
    """Half of x A x for each row of x."""

    @staticmethod
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x @ matrix), None


def wide_energy(x, matrix):
    return Energy.apply(x, matrix)


### BEGIN SOLUTION
# Mended:


class Energy(torch.autograd.Function):
    """Half of x A x for each row of x."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, matrix):
        ctx.save_for_backward(x, matrix)
        return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad):
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x @ matrix), None


### END SOLUTION

# %% [markdown]
# Next: lessons [[lesson memory|09]] and [[lesson speed|10]], on memory and speed, where the price of each float32 tensor is counted.
