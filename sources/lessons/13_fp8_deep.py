# %% [markdown]
# # Lesson 13, deeper: FP8 at its edges
#
# This notebook is optional. It trains with gradients in either format, shows what a scale from earlier
# steps costs, and compares the course's FP8 by hand with PyTorch's own product. Everything here runs on a
# CPU.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson fp8]].

# %%
import torch
from torch.nn.functional import mse_loss

from amp_lessons import FP8_E4M3, FP8_E5M2, autoencoder, load_digits, plots
from amp_lessons.amp.numbers import float8_matmul, in_float8, quantise, relative_error, scale_for

pictures = load_digits().train_images[:600]

# %% [markdown]
# ## E4M3 or E5M2 for gradients?
#
# Let's train the painter in FP8 with each of them, on the big pictures of the lesson.

# %%
our_pixels, big = pictures.numel(), 100_000_000
for format in (FP8_E5M2, FP8_E4M3):
    model = in_float8(autoencoder(), gradients=format)
    optimizer = torch.optim.SGD(model.parameters(), lr=big / our_pixels, momentum=0.9)
    for _ in range(150):
        optimizer.zero_grad()
        error = mse_loss(model(pictures), pictures, reduction="sum")
        (error / big).backward()
        optimizer.step()
    print(f"gradients in {format.name}: error per pixel {error.item() / our_pixels:.3f}")

# %% [markdown]
# This small network works with both. Don't take that for a rule: the gradients of large models can spread
# over a wider range.
#
# ## A scale from the past
#
# Delayed scaling takes the largest number of the last tensors. 40 tensors come one after the other.
# Those from 20 to 24 are 50 times as large as the others. The memory is 8 tensors long. It is empty
# before the first tensor, which gets a scale of 1.

# %%
from amp_lessons.amp.numbers import DelayedScale

torch.manual_seed(0)
history = DelayedScale(length=8)
exponents = {"delayed": [], "dynamic": []}
errors = {"delayed": [], "dynamic": []}
for number in range(40):
    tensor = torch.randn(64, 64) * (50.0 if 20 <= number < 25 else 1.0)
    for name, scale in (
        ("delayed", history.next(tensor)),
        ("dynamic", scale_for(tensor.abs().max())),
    ):
        exponents[name].append(scale.log2().item())
        errors[name].append(relative_error(quantise(tensor, scale) / scale, tensor))
for name, values in errors.items():
    print(f"{name}: largest error {max(values[1:]):.0%}, in tensor {values.index(max(values[1:]))}")

# %%
plots.curves(
    exponents,
    title="Scales of 40 tensors",
    xlabel="tensor",
    ylabel="exponent of the scale",
    alt="The scales of 40 FP8 tensors, as exponents of two. Dynamic scaling falls by five to six at "
    "tensor 20 and rises again at 25. Delayed scaling begins at 0, falls one tensor later, at 21, "
    "and rises again only at 33.",
)

# %% [markdown]
# Tensor 20 is cut off, with a scale that knows only smaller ones. After tensor 24 the scale is too small
# for eight tensors, which costs nothing here, as the lesson's figure shows. torchao has dropped delayed scaling
# ([issue 1680](https://github.com/pytorch/ao/issues/1680)). Transformer Engine still has it.
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
by_hand = float8_matmul(weights, inputs, a, b)
exact = weights.double() @ inputs.double()
print(f"error of scaled_mm {relative_error(product, exact):.3f}", end=", ")
print(f"of FP8 by hand {relative_error(by_hand, exact):.3f}")

# %% [markdown]
# Back to [[lesson fp8]], its [[exercises fp8]], or on to [[lesson myths]].
