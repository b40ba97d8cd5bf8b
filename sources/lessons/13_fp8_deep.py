# %% [markdown]
# # Lesson 13, deeper: FP8 at its edges
#
# This notebook is optional. It shows more traps of a scale from the past, a smallest amax that is too
# large, gradients in either format, and how the course's FP8 by hand compares with PyTorch's own product.
# Everything here runs on a CPU.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson fp8]].

# %%
from dataclasses import replace

import torch
from torch.nn.functional import mse_loss

from amp_lessons import FP8_E5M2, autoencoder, load_digits, plots
from amp_lessons.amp import numbers
from amp_lessons.amp.numbers import quantise, quantize_blocks, relative_error, scale_for

pictures = load_digits().train_images[:600]
our_pixels, big = pictures.numel(), 100_000_000

# %% [markdown]
# ## Past 448: clamp it yourself
#
# In PyTorch 2.13, a cast to E4M3 saturates on a CPU. Until
# [a change of April 2026](https://github.com/pytorch/pytorch/pull/178817) it made a NaN of 1,000. Compiled
# code may do yet another thing: torchao keeps
# [an issue](https://github.com/pytorch/ao/issues/1912) on it. With a clamp before the cast, the result is
# the same everywhere, and you can count what it cuts off. An inf is then 448, but a NaN stays one.

# %%
x = torch.tensor([1.0, 470.0, 1000.0, torch.inf, torch.nan])
stored = x.clamp(-448, 448).to(torch.float8_e4m3fn)
print("stored:", stored.float().tolist())
print(f"cut off: {(x.abs() > 448).sum()} of {x.numel()}")

# %% [markdown]
# ## The first step has no past
#
# In Transformer Engine, delayed scaling begins with a scale of 1. torchao, while it had delayed scaling,
# took the first scale from the first tensor
# ([its history](https://github.com/meta-pytorch/float8_experimental/pull/18)). What does a scale of 1 do to
# the painter's gradients?

# %%
painter = autoencoder()
hidden = painter[0](pictures)
hidden.retain_grad()
(mse_loss(painter[1:](hidden), pictures, reduction="sum") / big).backward()
gradients = hidden.grad
for name, scale in (
    ("1", torch.ones(())),
    ("57,344 / amax", scale_for(gradients.abs().max(), FP8_E5M2)),
):
    kept = (quantise(gradients, scale, FP8_E5M2) != 0).float().mean()
    print(f"first scale {name:13}: {kept:.0%} of the gradients are not zero")

# %% [markdown]
# In the first step this layer learns nothing. From the second step on, the history has an amax. The same
# happens after a restart, if the history isn't in the checkpoint.
#
# ## A scale that comes late and leaves late
#
# 40 tensors come one after the other. Those from 20 to 24 are 50 times as large as the others. The memory is
# 8 tensors long.

# %%
torch.manual_seed(0)
history = numbers.DelayedScale(length=8)
exponents = {"delayed": [], "current": []}
errors = {"delayed": [], "current": []}
for number in range(40):
    tensor = torch.randn(64, 64) * (50.0 if 20 <= number < 25 else 1.0)
    for name, scale in (
        ("delayed", history.next(tensor)),
        ("current", scale_for(tensor.abs().max())),
    ):
        exponents[name].append(scale.log2().item())
        errors[name].append(relative_error(quantise(tensor, scale) / scale, tensor))
for name, values in errors.items():
    worst = max(values[1:])
    print(f"{name}: largest error {worst:.0%}, in tensor {values.index(worst)}")

# %%
plots.curves(
    exponents,
    title="Scales of 40 tensors",
    xlabel="tensor",
    ylabel="exponent of the scale",
    alt="The scales of 40 FP8 tensors, as exponents of two. Current scaling falls by five "
    "to six at tensor 20 and rises again at 25. Delayed scaling begins at 0, falls one "
    "tensor later, at 21, and rises again only at 33.",
)

# %% [markdown]
# Tensor 20 is cut off, with a scale that knows only smaller ones. After tensor 24 the scale is too small for
# eight tensors, which costs nothing here, as the lesson's figure shows. A *margin* helps against small jumps:
# in Transformer Engine, `margin=1` halves the scale.
#
# ## A layer that had nothing to do
#
# An expert of a mixture gets no tokens for some steps, so its input is all zero. If zeros go into the
# history, they push out all that it knew. `scale_for` gives a scale of 1 for an amax of 0. (448 / 0 would be
# inf.)

# %%
torch.manual_seed(0)
for idle in (4, 8):
    history = numbers.DelayedScale(length=8)
    for tensor in [1e-3 * torch.randn(64)] * 8 + [torch.zeros(64)] * idle:
        history.next(tensor)
    tensor = 1e-3 * torch.randn(64)
    scale = history.next(tensor)
    error = relative_error(quantise(tensor, scale) / scale, tensor)
    print(f"after {idle} steps without tokens: scale {scale:,.0f}, error {error:.0%}")

# %% [markdown]
# Transformer Engine had this bug for modules that didn't run in a step, and
# [fixed it](https://github.com/NVIDIA/TransformerEngine/pull/825).
#
# ## A smallest amax that is too large
#
# A block of zeros would be divided by 0, so many kernels don't let amax fall below a small number. In
# [DeepSeek-V3's kernel](https://github.com/deepseek-ai/DeepSeek-V3/blob/main/inference/kernel.py), which is
# for inference, that number is 1e-4. `FP8_1X128` has it too. Here are the gradients of before, whose amax is
# 6e-9, with several smallest amaxes.

# %%
for smallest in (1e-4, 1e-8, 1e-12):
    scale = replace(numbers.FP8_1X128.scale, smallest_amax=smallest)
    stored = quantize_blocks(gradients, replace(numbers.FP8_1X128, scale=scale)).dequantize()
    lost = ((stored == 0) & (gradients != 0)).float().mean()
    error = relative_error(stored, gradients)
    print(f"smallest amax {smallest:g}: {lost:3.0%} became zero, error {error:.1%}")

# %% [markdown]
# The limit is harmless for activations of size 1. For gradients it acts like a fixed scale. So before you
# reuse a kernel for the backward pass, look for its smallest amax.
#
# ## E4M3 or E5M2 for gradients?
#
# Let's train the painter with each of them, with one scale for each tensor.

# %%
for format in (numbers.FP8_TENSORWISE_E5M2, numbers.FP8_TENSORWISE):
    recipe = replace(numbers.TENSORWISE, gradients=format)
    model = numbers.in_block_format(autoencoder(), recipe)
    optimizer = torch.optim.SGD(model.parameters(), lr=big / our_pixels, momentum=0.9)
    for _ in range(150):
        optimizer.zero_grad()
        error = mse_loss(model(pictures), pictures, reduction="sum")
        (error / big).backward()
        optimizer.step()
    print(f"gradients in {format.element.name}: error per pixel {error.item() / our_pixels:.3f}")

# %% [markdown]
# This small network works with both. Don't take that for a rule: the gradients of large models can spread
# over a wider range.
#
# ## The product itself
#
# `torch.nn.functional.scaled_mm` is what libraries call: FP8 in, wide sums inside, and the scales divided
# out at the end (it takes their reciprocals). In PyTorch 2.13 it runs on a CPU too, for the numbers and
# not for the speed. On CUDA it needs a compute capability of 8.9 or more. Does the course's FP8 by hand
# agree with it?

# %%
from torch.nn.functional import ScalingType, scaled_mm

torch.manual_seed(0)
weights, inputs = torch.randn(64, 128) * 1e-3, torch.randn(128, 32)
a, b = scale_for(weights.abs().max()), scale_for(inputs.abs().max())
left = (weights * a).to(torch.float8_e4m3fn)
right = (inputs * b).to(torch.float8_e4m3fn).t().contiguous().t()  # column by column in memory
whole = ScalingType.TensorWise
product = scaled_mm(left, right, 1 / a, whole, 1 / b, whole, output_dtype=torch.float32)
by_hand = numbers.float8_matmul(weights, inputs, a, b)
exact = weights.double() @ inputs.double()
print(f"error of scaled_mm {relative_error(product, exact):.3f}", end=", ")
print(f"of FP8 by hand {relative_error(by_hand, exact):.3f}")

# %% [markdown]
# Back to [[lesson fp8]], its [[exercises fp8]], or on to [[lesson mxfp8_and_nvfp4]].
