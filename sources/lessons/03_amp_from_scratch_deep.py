# %% [markdown]
# # Lesson 03, deeper: Sums, windows, and gradients in between
#
# This notebook is optional. It looks closer at what the lesson needed: gradients that you don't see,
# the window of scales that work, the order of two operations, and sums in norms and matrix products.
# Everything here runs on the CPU.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson amp_from_scratch]].

# %%
import torch
from torch.nn.functional import mse_loss

from amp_lessons import FP16, autoencoder, load_digits, plots, predict
from amp_lessons.amp.scaling import fates

pictures = load_digits().train_images[:600]
our_pixels, big = pictures.numel(), 100_000_000


def gradients_of(model, scale=1.0):
    """All gradients of the painter's parameters in one tensor, as the backward pass gives them."""
    model.zero_grad()
    painted = model(pictures.to(model[0].weight.dtype)).float()
    (mse_loss(painted, pictures, reduction="sum") / big * scale).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


# %% [markdown]
# ## Gradients that you don't see
#
# Here are the painter's 10,448 gradients at the start, computed in FP32, without a scale. (2% of them
# are exactly zero, because four pixels are white in every picture. They are not in the figure.) Of
# the others, how many would become zero if you stored them in FP16?

# %% tags=["live"]
from amp_lessons.lessons.widgets import GradientHistogram

true_gradients = gradients_of(autoencoder())
GradientHistogram(true_gradients, format="FP16")

# %% [markdown]
# The figure says that 1,956 become zero, about 19%, and the others survive. Does the network train
# without a scale, then? Now the whole backward pass runs in FP16.

# %% tags=["question"]
predict("amp_from_scratch.gradients_in_between")

# %%
true_gradients = gradients_of(autoencoder())
in_fp16 = gradients_of(autoencoder().half())

for name, gradients in (
    ("computed in FP32, then stored in FP16", true_gradients.half()),
    ("computed in FP16", in_fp16),
):
    print(f"{name}: {(gradients == 0).float().mean():.0%} are zero")

# %% [markdown]
# So a histogram of `.grad` can look healthy while the gradients between the layers are lost. To see
# them, use a hook (`tensor.register_hook`), or count the zeros at two different scales.
#
# ## The window
#
# What becomes of the weights' gradients at each scale? At which scales does none become zero, and
# none overflow?

# %%
counted = fates(true_gradients, [2.0**exponent for exponent in range(41)])
plots.fates_by_scale(counted, FP16)

# %%
window = [n for n, fate in enumerate(counted) if fate.zero == fate.overflow == 0]
print(f"none becomes zero and none overflows from 2^{window[0]} to 2^{window[-1]}")
for exponent in (8, 16, 36):
    fate = counted[exponent]
    total = fate.zero + fate.subnormal + fate.normal + fate.overflow
    print(
        f"2^{exponent}: {fate.zero / total:.0%} become zero, {fate.overflow / total:.0%} overflow"
    )

# %% [markdown]
# Below the window a training can still do well: at $2^8$ this network loses 2% of its gradients, all
# of them small, and learns as in FP32 ([[lesson grad_scaler]] trains it at many scales). Above the
# window, one inf is enough to lose the weights, unless the step is skipped.
#
# Real networks differ. In [Micikevicius et al.](https://arxiv.org/abs/1710.03740), section 3, about
# 5% of a speech model's weight gradient values lie below $2^{-24}$, and the detection network SSD
# needs a scale of only 8.
#
# ## Convert first, or divide first?
#
# `update` in the lesson converts a gradient to FP32 and then divides it by the scale. With a scale of
# $2^{16}$, 2% of the FP16 gradients are zero before the division. All but two of those are zero in FP32
# too.

# %% tags=["question"]
predict("amp_from_scratch.divide_first")

# %%
scale = 2.0**16
gradients = gradients_of(autoencoder().half(), scale)
for name, result in (
    ("convert to FP32, then divide", gradients.float() / scale),
    ("divide, then convert to FP32", (gradients / scale).float()),
):
    print(f"{name}: {(result == 0).float().mean():.0%} are zero")

# %% [markdown]
# ## A norm adds up squares
#
# To clip gradients, you need their norm: the root of the sum of all squares. At a scale of $2^{24}$
# the largest scaled gradient is 187. The norm of all scaled gradients is 1,273, well inside FP16. We
# compute it by hand from FP16 gradients: square, sum, root.

# %% tags=["question"]
predict("amp_from_scratch.norm_by_squares")

# %%
gradients = (true_gradients * 2.0**24).half()
for dtype in (torch.float32, torch.float16):
    squares = gradients.to(dtype).square()
    print(f"{dtype}: largest square {squares.max().item():.3g}", end=", ")
    print(f"sum {squares.sum().item():.3g}, norm {squares.sum().sqrt().item():.3g}")

# %% [markdown]
# On a CPU, `clip_grad_norm_` uses `torch.linalg.vector_norm`, which adds up in FP32 inside. It gives
# 1,273 for these FP16 gradients. `sum` keeps its total in FP32 too. For a long sum on several CPU
# threads, each thread has a total of its own, and rounds it to FP16 before these totals are added up.
#
# ## Who adds up a matrix product?
#
# A row of 4,096 ones times a column of 4,096 ones is a sum of 4,096 products. `@` computes it, and
# the loop adds the same products up in an FP16 total.

# %% tags=["question"]
predict("amp_from_scratch.sum_of_products")

# %%
row = torch.ones(1, 4096, dtype=torch.float16)
total = torch.zeros((), dtype=torch.float16)
for product in row[0] * row[0]:
    total += product
print(f"row @ column: {(row @ row.T).item():,.0f}, in a loop: {total.item():,.0f}")

# %% [markdown]
# Your CPU ran `@` here. A GPU's [[term tensor core|tensor cores]] multiply FP16 numbers and can add the
# products up in FP32. On CUDA, PyTorch asks for FP32 totals. But by default it lets the GPU round partial
# sums to FP16 on the way, for speed
# ([docs](https://docs.pytorch.org/docs/stable/notes/cuda.html#reduced-precision-reduction-in-fp16-gemms);
# not measured here). Three flags in `torch.backends.cuda.matmul` decide about that. Here are their
# defaults.

# %%
for flag in (
    "fp16_reduced_precision_reduction",
    "bf16_reduced_precision_reduction",
    "fp16_accumulation",
):
    print(f"allow_{flag:32}", getattr(torch.backends.cuda.matmul, f"allow_{flag}"))

# %% [markdown]
# So by default CUDA may round partial sums of BF16 products to BF16 as well. `allow_fp16_accumulation`
# would let it add up FP16 products in FP16, as the loop above does.
#
# ## The batch decides the order
#
# Does an example give the same numbers alone and in a batch? The cell multiplies the first row of 512
# alone, and then together with the others. What you see depends on your CPU.

# %% tags=["live"]
rows, weights = torch.randn(512, 1024), torch.randn(1024, 1024)
for dtype in (torch.float32, torch.bfloat16):
    a, b = rows.to(dtype), weights.to(dtype)
    changed = (a[:1] @ b)[0] != (a @ b)[0]
    print(f"{dtype!s:14} {changed.float().mean():.0%} of the row's 1,024 results differ")

# %% [markdown]
# Libraries choose their kernel by the shapes, and another kernel can add up in another order. On our CPU
# most of the FP32 results differ, in their last bits, and none of the BF16 results. A server of language
# models puts whatever requests arrive into one batch, so the same request can get different answers ([He
# et al.](https://thinkingmachines.ai/blog/defeating-nondeterminism-in-llm-inference/)). In reinforcement
# learning one engine writes the answers and another one trains on them, and they differ in the same way.
# [Qi et al.](https://arxiv.org/abs/2510.26788) found that difference smaller in FP16 than in BF16,
# because FP16 has more significant bits.
#
# ## Adam's averages in BF16
#
# Adam divides by the root of `v`, an average of squared gradients: each step computes `v = β2 · v + (1 −
# β2) · g²`. Can `v` be stored in BF16? The cell lets `v` fall from 1 for 1,000 steps with gradients of
# zero, and rise from 0 for 10,000 steps with gradients of 1. With exact numbers it would come close to 0
# and to 1.

# %%
for beta2 in (0.999, 0.99, 0.95):
    falling, rising = torch.ones((), dtype=torch.bfloat16), torch.zeros((), dtype=torch.bfloat16)
    one = torch.ones_like(rising)
    for _ in range(1000):
        falling.mul_(beta2)
    for _ in range(10_000):
        rising.mul_(beta2).addcmul_(one, one, value=1 - beta2)
    print(f"β2 = {beta2:5}: falls to {falling.item():.1g}, rises to {rising.item():.2f}")

# %% [markdown]
# With Adam's default of 0.999, `v` doesn't move down at all and stops at half of its way up. With 0.95 it
# follows. DeepSeek-V3 trained with β2 = 0.95 and both averages in BF16
# ([paper](https://arxiv.org/abs/2412.19437), sections 3.3.3 and 4.2).
#
# Muon keeps one average, and computes the update from it in BF16: five steps that bring all singular
# values of a matrix close to 1 (*Newton-Schulz*). These are the steps of `torch.optim.Muon`.

# %%
matrix = torch.randn(64, 128, generator=torch.Generator().manual_seed(0))
for dtype in (torch.float32, torch.bfloat16):
    update = matrix.to(dtype) / matrix.norm()
    for _ in range(5):
        square = update @ update.T
        polynomial = -4.775 * square + 2.0315 * square @ square
        update = 3.4445 * update + polynomial @ update
    values = torch.linalg.svdvals(update.float())
    print(f"{dtype!s:14} singular values from {values.min():.1f} to {values.max():.1f}")

# %% [markdown]
# The result needn't be exact, and nothing of it is left in the next step: each update starts from the
# average again. Adam's `v` lives on from step to step, and so do its rounding errors.
#
# ## Training without master weights
#
# With 16-bit weights alone, small updates vanish because each result is rounded to the nearest number.
# There are ways around it. *Stochastic rounding* rounds up or down at random, and the nearer number
# is more likely, so small updates arrive on average. *Kahan summation* stores the lost part of each
# update in a second 16-bit number. [Zamirai et al.](https://arxiv.org/abs/2010.06192) tried both with
# BF16 weights.
#
# Back to [[lesson amp_from_scratch]], its [[exercises amp_from_scratch]], or on to [[lesson
# autocast_ops]].
