# %% [markdown]
# # Lesson 14, deeper: MXFP8 and NVFP4 at their edges
#
# This notebook is optional. It shows where two libraries quantise differently, what one NaN or inf
# spoils, what the random signs of a Hadamard transform are for, and how a product of blocks is computed.
# It ends with what sets quantisation apart from mixed precision. Everything here runs on a CPU.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson mxfp8_and_nvfp4]].

# %%
import math
from dataclasses import replace

import torch

from amp_lessons.amp.numbers import (
    MXFP4,
    MXFP8,
    NVFP4,
    Arithmetic,
    E4M3Scale,
    E8M0Scale,
    ScaleRounding,
    block_matmul,
    hadamard,
    quantize_blocks,
    random_hadamard,
    random_signs,
    relative_error,
)

# %% [markdown]
# ## Two libraries, two NVFP4s
#
# Transformer Engine and torchao agree on the format and not on every number. Three things differ
# (Transformer Engine's reference of August 2026, and torchao 0.18):
#
# | | Transformer Engine | torchao |
# |---|---|---|
# | what a number is scaled by | `x * (1 / (scale * tensor scale))` | `x / tensor scale / scale` |
# | the smallest scale of a block | 0: small blocks get subnormal scales | 2^-6, the smallest normal number of E4M3 |
# | a tensor of zeros | 0 | NaN |
#
# In this course's package, each is an option of the scale. Here are 20,000 blocks whose sizes span
# twenty powers of two, and a tensor of zeros.

# %%
engine = NVFP4
torchao = replace(NVFP4, scale=E4M3Scale(smallest=2.0**-6, arithmetic=Arithmetic.DIVIDE))
torch.manual_seed(0)
blocks = torch.randn(20_000, 16) * 2.0 ** torch.randint(-20, 1, (20_000, 1))
one, other = quantize_blocks(blocks, engine), quantize_blocks(blocks, torchao)
scales = (one.scales != other.scales).sum()
print(f"other scales in {scales:,} of 20,000 blocks", end=", ")
print(f"other elements in {(one.elements != other.elements).any(1).sum():,}")
for name, q in (("Transformer Engine", one), ("torchao", other)):
    small = blocks.abs().amax(1) < 0.0001
    error = relative_error(q.dequantize()[small], blocks[small])
    print(
        f"{name}: error {relative_error(q.dequantize(), blocks):.1%}, of small blocks {error:.1%}"
    )
zeros = torch.zeros(1, 16)
print("zeros:", [quantize_blocks(zeros, f).dequantize()[0, 0].item() for f in (engine, torchao)])

# %% [markdown]
# Over the whole tensor nobody notices. In blocks that are far smaller than the largest of the tensor, the
# smallest scale decides what is left. The zeros matter: a gradient can be all zero.
#
# ## Four roundings of a power of two
#
# The lesson has floor and rceil. torchao has two more for MX formats: *ceil* takes the power of two above
# amax, *even* rounds amax to the precision of the elements first. Here is the scale of an MXFP4 block by
# its amax, and the relative error of amax itself.

# %%
print("amax   ", *(f"{rounding.name:>12}" for rounding in ScaleRounding))
for amax in (4.0, 4.25, 5.9, 6.25, 6.75, 7.0, 7.75):
    block = torch.tensor([[amax]])
    cells = []
    for rounding in ScaleRounding:
        q = quantize_blocks(block, replace(MXFP4, scale=E8M0Scale(rounding)))
        cells.append(f"{q.scales.item():g} ({relative_error(q.dequantize(), block):.0%})")
    print(f"{amax:<7}", *(f"{cell:>12}" for cell in cells))

# %% [markdown]
# torchao 0.18 computes the logarithm of rceil in FP32, where it can be rounded to a whole number. If amax is
# one ulp above 448 times a power of two, it takes the smaller scale for most powers. It matters if you
# compare two implementations bit by bit.
#
# ## Four over six
#
# FP4 has nothing between 4 and 6. So a block's second-largest numbers are stored badly if they land near 5.
# [Four Over Six](https://arxiv.org/abs/2512.02010) tries both: amax on 6, or amax on 4, where the gaps are
# smaller. It keeps what has the smaller error. Transformer Engine has it as an option, for reinforcement
# learning and post-training (`nvfp4_4over6`).


# %%
def amax_on(largest, blocks):
    """NVFP4 whose largest number of a block lands on this one."""
    tensor_scale = blocks.abs().max() / (256 * 6)
    scale = (blocks.abs().amax(1, keepdim=True) / largest / tensor_scale).to(torch.float8_e4m3fn)
    factor = scale.float() * tensor_scale
    return NVFP4.element.round(blocks / factor) * factor


torch.manual_seed(0)
blocks = torch.randn(20_000, 16)
six, four = amax_on(6, blocks), amax_on(4, blocks)
better = (four - blocks).norm(dim=1) < (six - blocks).norm(dim=1)
both = torch.where(better[:, None], four, six)
for name, left in (("6", six), ("4", four), ("the better of both", both)):
    print(f"amax on {name}: error {relative_error(left, blocks):.1%}")
print(f"4 is better in {better.float().mean():.0%} of the blocks")

# %% [markdown]
# ## One NaN, one inf
#
# A scale is computed from the largest magnitude, so what isn't finite meets the scale first. Here's what is
# left of a matrix of 4 rows of 32 numbers, in which a single one isn't finite.

# %%
mx_strict = replace(MXFP8, name="MXFP8, strict", scale=E8M0Scale(nan_for_inf=True))
torch.manual_seed(0)
for value in (math.nan, math.inf):
    matrix = torch.randn(4, 32)
    matrix[0, 0] = value
    for format in (MXFP8, mx_strict, NVFP4, replace(torchao, name="NVFP4 of torchao")):
        left = quantize_blocks(matrix, format).dequantize()
        nan, zero = left.isnan().sum().item(), (left == 0).sum().item()
        print(f"{value} in {format.name:17} {nan:3} NaN, {zero:3} zeros, it became {left[0, 0]:g}")

# %% [markdown]
# In MXFP8 a NaN takes its block of 32 along. In NVFP4 it spoils the scale of the tensor, and with it
# everything. An inf is worse, for it can hide. In MXFP8 it becomes 448 times the largest scale, which FP32 holds
# as inf, and the rest of its block becomes 0. (torchao since August 2026 makes the block NaN: the *strict* line.)
# In Transformer Engine's NVFP4 it becomes 2,688, an ordinary number. So check for inf and NaN *before* you
# quantise. There is no GradScaler that would notice afterwards.
#
# ## What the signs are for
#
# A Hadamard transform spreads one large number over 16. It also does the reverse: 16 equal numbers become one
# large one, and 15 zeros. Such patterns are common, the mean of a batch for one. Random signs break them.

# %%
flat = torch.ones(1, 16)
torch.manual_seed(0)
print("no signs:    ", random_hadamard(flat, torch.ones(16))[0].round(decimals=1).tolist())
print("random signs:", random_hadamard(flat, random_signs())[0].round(decimals=1).tolist())
again = hadamard(16) @ hadamard(16)
print(f"twice is nothing: largest deviation {(again - torch.eye(16)).abs().max():.0e}")

# %% [markdown]
# ## The product of blocks
#
# A tensor core multiplies elements with elements, adds up a block, and multiplies the sum by both scales.
# `block_matmul` refuses blocks that don't lie along the sum. Let's give it both.

# %%
torch.manual_seed(0)
inputs, weights = torch.randn(8, 64), torch.randn(32, 64)
exact = inputs.double() @ weights.T.double()
for format in (MXFP8, MXFP4, NVFP4):
    product = block_matmul(quantize_blocks(inputs, format), quantize_blocks(weights, format).T)
    print(f"{format.name}: error {relative_error(product, exact):.1%}")
gradient = torch.randn(8, 32)
try:
    block_matmul(quantize_blocks(gradient, NVFP4), quantize_blocks(weights, NVFP4))
except ValueError as error:
    print(error)
square = replace(NVFP4, block=(16, 16))
product = block_matmul(quantize_blocks(gradient, NVFP4), quantize_blocks(weights, square))
print(f"blocks of 16x16: error {relative_error(product, gradient.double() @ weights.double()):.1%}")

# %% [markdown]
# ## Rounded after training, or trained to be rounded
#
# Mixed precision makes *training* cheaper: the products take few bits, and the weights that you save are
# in FP32 or BF16. *Quantisation* makes the finished model smaller. You can round its weights after
# training (post-training quantisation). Or you train on while the products already see rounded weights
# and the FP32 weights get the updates (quantisation-aware training). Here are both for the painter, with
# weights in NVFP4.

# %%
from torch.nn.functional import mse_loss

from amp_lessons import autoencoder, load_digits
from amp_lessons.amp.numbers import Recipe, in_block_format

pictures = load_digits().train_images[:600]


def trained(model, steps):
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    for _ in range(steps):
        optimizer.zero_grad()
        mse_loss(model(pictures), pictures).backward()
        optimizer.step()
    return mse_loss(model(pictures), pictures).item()


# %%
painter, longer = autoencoder(), autoencoder()
trained(longer, 150)
print(f"FP32, 150 steps:             error {trained(painter, 150):.4f}")
rounded = in_block_format(painter, Recipe("weights", inputs=None, weights=NVFP4, gradients=None))
print(f"the same, weights rounded:   error {trained(rounded, 0):.4f}")
print(f"50 more steps with rounding: error {trained(rounded, 50):.4f}")
print(f"50 more steps in FP32:       error {trained(longer, 50):.4f}")

# %% [markdown]
# Rounding costs 7% here. After 50 steps with rounded weights, the painter is 4% behind the one that went
# on in FP32. A served model can also store the keys and values of earlier tokens in FP8
# ([vLLM](https://docs.vllm.ai/en/latest/features/quantization/quantized_kvcache.html)). A training step
# has no such cache.
#
# Back to [[lesson mxfp8_and_nvfp4]], its [[exercises mxfp8_and_nvfp4]], or on to [[lesson myths]].
