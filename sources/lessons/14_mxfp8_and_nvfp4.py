# %% [markdown]
# # Lesson 14: MXFP8 and NVFP4: four bits, and a scale for sixteen numbers
#
# In [[lesson fp8]], an outlier spoiled only the numbers that shared its scale. NVIDIA's Blackwell GPUs
# make these groups very small. Their tensor cores multiply numbers of 8, 6 or 4 bits in *blocks* of 32 or
# 16, and each block has a scale. With four bits there are eight magnitudes. Can a network learn with that?
#
# **You will be able to** say what a recipe for MXFP8 or NVFP4 does to each tensor, what each of its
# ingredients is for, and which one is missing.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson fp8]]; no GPU. We compute with the numbers that these
# formats have, at a CPU's speed. Their own speed needs a Blackwell GPU.

# %%
from dataclasses import replace

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from amp_lessons import ask, plots, predict
from amp_lessons.amp import numbers
from amp_lessons.amp.numbers import MXFP4, MXFP8, NVFP4, quantize_blocks, relative_error

# %% [markdown]
# ## Eight magnitudes
#
# FP4 has one bit for the sign, two for the exponent and one for the mantissa: E2M1. Here are all its
# numbers from zero up, beside those of FP8.

# %%
print([numbers.FP4_E2M1.decode(code) for code in range(8)])
plots.number_lines([numbers.FP4_E2M1, numbers.FP8_E4M3], 0, 6.5)

# %% [markdown]
# The largest is 6, and the smallest above zero is 0.5: 12 times less. A quarter or less becomes zero. So the
# scale decides which numbers of a tensor survive.
#
# Take 4,096 normally distributed weights, and one scale for all of them. `quantize_blocks` and
# `dequantize` are those of [[lesson fp8]].

# %%
from amp_lessons.amp.training.four_bits import ONE_SCALE

torch.manual_seed(0)
weights = torch.randn(64, 64)
left = quantize_blocks(weights, ONE_SCALE).dequantize()
print(f"one scale, largest {weights.abs().max():.1f}: {(left == 0).sum():,} of 4,096 are zero")

# %% tags=["question"]
predict("mxfp8_and_nvfp4.one_scale_in_fp4")

# %%
with_outlier = weights.clone()
with_outlier[0, 0] = 40.0
for format in (ONE_SCALE, MXFP4, NVFP4):
    left = quantize_blocks(with_outlier, format).dequantize()
    others = relative_error(left[1:], weights[1:])
    bits = f"{format.name}, {format.bits:g} bits a number:"
    print(f"{bits:31} {(left == 0).sum():5,} zeros, error of the other rows {others:.0%}")

# %% [markdown]
# With one scale, nine of ten weights are gone. With blocks, the outlier harms only its own
# block. There are two families of such formats:
#
# | format | elements | in a block | scale of a block | scale of the tensor |
# |---|---|---|---|---|
# | MXFP8 | E4M3 (or E5M2) | 32 | E8M0: a power of two | none |
# | MXFP4 | E2M1 | 32 | E8M0 | none |
# | NVFP4 | E2M1 | 16 | E4M3: a number of FP8 | FP32 |
#
# MX stands for *microscaling*. It is an open standard
# ([OCP](https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf)).
# NVFP4 is NVIDIA's. Each block's scale has 8 bits: for each of 32 numbers that is a quarter of a bit, for each
# of 16 half a bit. So a number takes 8.25 bits in MXFP8, 4.25 in MXFP4 and 4.5 in NVFP4.
#
# ## A power of two for 32 numbers
#
# E8M0 has eight bits for an exponent and nothing else. It holds the powers of two from 2^-127 to
# 2^127. The scale of a block follows from the largest magnitude in it, *amax*. The OCP standard writes:
# take the largest power of two that isn't above amax, and divide it by the largest power of two of the
# element format (4 for FP4, 256 for E4M3). That is *floor*.
#
# An example in MXFP4. If amax is 5, floor takes 4 and divides it by 4, so the scale is 1. If amax is 7, the
# scale is 1 again. Here are 1,000 blocks of normally distributed numbers.
# In how many of them is amax *cut off*, because it lies above the largest number times the scale?

# %% tags=["question"]
predict("mxfp8_and_nvfp4.floor_saturates")

# %%
torch.manual_seed(0)
blocks = torch.randn(1000, 32)
amax = blocks.abs().amax(dim=1)
print("           blocks cut off    error of all numbers")
for format in (MXFP8, MXFP4):
    for rounding in (numbers.ScaleRounding.FLOOR, numbers.ScaleRounding.RCEIL):
        q = quantize_blocks(blocks, replace(format, scale=numbers.E8M0Scale(rounding)))
        cut = (amax > q.scales[:, 0] * format.element.max).sum()
        error = relative_error(q.dequantize(), blocks)
        print(f"{format.name} {rounding.name:5} {cut:14} {error:19.1%}")
error = relative_error(quantize_blocks(blocks, NVFP4).dequantize(), blocks)
print(f"NVFP4, blocks of 16 {error:25.1%}")

# %% [markdown]
# *Rceil* takes the smallest power of two with which nothing is cut off. Transformer Engine uses it, and
# so does torchao's recipe for training in MXFP8: others had seen MXFP8 training fail with numbers that
# are cut off ([Mishra and others](https://arxiv.org/abs/2506.08027)).
#
# It has a price. With amax 7 the scale becomes 2, and 7 lands on 3.5. The numbers 4 and 6 of this block
# stay nearly unused: half of the range is given away. In MXFP4, where every number counts, both errors are
# the same here.
#
# Try it by hand. Drag the marked number up, or press an arrow key. The others stay what they are: what is left of
# them in each format? Then choose another rounding of the scale.

# %% tags=["live"]
from amp_lessons.lessons.widgets import BlockExplorer

BlockExplorer()

# %% [markdown]
# ## A finer scale for 16 numbers
#
# NVFP4 takes a number of FP8 as the scale. It has 4 significant bits, so it brings amax close to 6 whatever
# amax is. And a block has only half as many numbers. The last line above has its error, on the same numbers.
#
# But E4M3 ends at 448, and its smallest number is 0.002. E8M0 reaches much further, both ways. That's why
# NVFP4 has a *second* scale, in FP32, one for the whole tensor. What would happen without it? Here are 4,096 numbers of size 1, then gradients of size 0.000001.

# %% tags=["question"]
predict("mxfp8_and_nvfp4.no_second_scale")

# %%
one_level = replace(NVFP4, scale=numbers.E4M3Scale(two_levels=False))
for size in (10_000, 1, 0.01, 0.000001):
    tensor = size * weights
    errors = [
        relative_error(quantize_blocks(tensor, f).dequantize(), tensor) for f in (NVFP4, one_level)
    ]
    print(f"size {size:9g}: error {errors[0]:.0%} with the second scale, {errors[1]:.0%} without")

# %% [markdown]
# Without it, the scale of each block of gradients is 0, and so are its numbers. Large numbers are cut off
# at 6 x 448 = 2,688. It is the old trouble with FP16's range, in the scales this time. The second scale
# puts the tensor's largest magnitude on 2,688.
#
# ## A transpose is quantised again
#
# As in [[lesson fp8]], all numbers of a block must be added up together, so that the tensor core can scale the
# sum. Blocks lie along the dimension that a product sums over. A linear layer has three products, and each sums
# over another dimension:
#
# | product | sums over | blocks of the weight | blocks of the input | blocks of the gradient |
# |---|---|---|---|---|
# | output = input x weight transposed | the inputs | along its rows | along its rows | |
# | gradient of the input | the outputs | along its columns | | along its rows |
# | gradient of the weight | the batch | | along its columns | along its columns |
#
# So each tensor is quantised twice, along its rows and along its columns, and both times from the exact
# numbers. Do the two agree in four bits?

# %% tags=["question"]
predict("mxfp8_and_nvfp4.rows_and_columns")

# %%
layer = weights / 8
square = replace(NVFP4, name="NVFP4, 16x16", block=(16, 16))
for format in (MXFP8, NVFP4, square):
    forward = quantize_blocks(layer, format).dequantize()
    backward = quantize_blocks(layer.T, format).dequantize().T
    differ, error = (forward != backward).sum(), relative_error(forward, layer)
    print(f"{format.name:13} {differ:5,} of 4,096 differ, error {error:.0%}")

# %% [markdown]
# In NVFP4, the backward pass sees other weights than the forward pass. So it computes the gradient of a
# network that nobody ran. NVIDIA's recipe for training takes blocks of 16 rows and 16 columns for
# weights. Transposed, such a block is a block again, and both passes see the same weights. But 256
# numbers share a scale, so each of them is a little less exact. (In MXFP8 another power of two rarely
# changes a number: E4M3 has an exponent of its own. Only what is cut off or tiny differs.)
#
# ## A model that must be right on average
#
# Errors of a tenth sound bad, and yet networks learn with them, as long as the errors go up as often as
# down. Here's a case where they don't. An online shop wants to know how likely an advertisement is clicked.
# Only 2 or 3 of 100 views end with a click. Our model has 16 inputs, the first of which is always 1, and
# one output. Like most layers of a language model, it has no bias.


# %%
def click_rate(recipe, seed=0):
    torch.manual_seed(seed)
    views = torch.randn(2048, 16)
    views[:, 0] = 1.0
    clicks = (torch.rand(2048, 1) < 0.03).float()
    model = nn.Sequential(nn.Linear(16, 1, bias=False))
    nn.init.zeros_(model[0].weight)
    model = numbers.in_block_format(model, recipe)
    optimizer = torch.optim.SGD(model.parameters(), lr=8.0)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
    for _ in range(200):
        optimizer.zero_grad()
        binary_cross_entropy_with_logits(model(views), clicks).backward()
        optimizer.step()
        schedule.step()
    return clicks.mean(), model(views).sigmoid().mean()


# %% [markdown]
# In its `Recipe` we keep inputs and weights in FP32, and look at the gradients alone.

# %%
exact = numbers.Recipe("FP32", inputs=None, weights=None, gradients=None)
nearest = replace(exact, name="NVFP4 gradients", gradients=NVFP4)
for seed in range(3):
    actual, predicted = click_rate(exact, seed)
    print(f"{actual:.1%} of the views were clicked, the FP32 model says {predicted:.1%}")

# %% tags=["question"]
predict("mxfp8_and_nvfp4.click_rate")

# %%
for seed in range(3):
    actual, predicted = click_rate(nearest, seed)
    print(f"{actual:.1%} of the views were clicked, the model says {predicted:.1%}")

# %% [markdown]
# The gradient of a view that wasn't clicked is the predicted probability, about 0.03. If the view was
# clicked, it is 0.03 - 1. In a block of 16 views with one click, the smallest step is a twelfth of 0.97, and
# what is below half a step becomes zero. All those who didn't click are silenced by the one who did.
# Rounding to nearest is fine for one number. But of many small numbers in a block, each goes the same way.
#
# *Stochastic rounding* goes up or down at random. A number that lies a third of the way from 0 to the next
# number goes up in one of three cases. So it is right on average. Here is such a block, rounded both ways,
# and the model with its gradients rounded stochastically.

# %%
stochastic = replace(NVFP4, rounding=numbers.ElementRounding.STOCHASTIC)
block = torch.full((1, 16), 0.03)
block[0, 0] = 0.03 - 1
torch.manual_seed(0)
draws = torch.stack([quantize_blocks(block, stochastic).dequantize()[0] for _ in range(1000)])
print(
    "nearest:      ",
    [round(x, 3) for x in quantize_blocks(block, NVFP4).dequantize()[0, :8].tolist()],
)
print("stochastic:   ", [round(x, 3) for x in draws[0, :8].tolist()])
print("mean of 1,000:", [round(x, 3) for x in draws.mean(0)[:8].tolist()])
for seed in range(3):
    actual, predicted = click_rate(replace(exact, gradients=stochastic), seed)
    print(f"{actual:.1%} of the views were clicked, the model says {predicted:.1%}")

# %% [markdown]
# The same four bits, and the model is right again. A single draw is *less* exact than rounding to nearest,
# so recipes round stochastically where thousands of numbers are added up: gradients. In NVIDIA's
# experiments, stochastic rounding of weights or activations made training diverge
# ([appendix E.3](https://arxiv.org/abs/2509.25149)).
#
# ## Spreading an outlier
#
# An outlier leaves little for the 15 others of its block. The [[term random Hadamard transform]] mixes the
# 16 numbers before they are rounded: each result is the sum of all 16, with signs, divided by 4. If both
# matrices of a product are mixed in the same way, the product stays the same. Here's a block with an
# outlier, before and after:

# %%
torch.manual_seed(0)
signs = numbers.random_signs()
block = torch.randn(1, 16)
block[0, 5] = 20.0
mixed = numbers.random_hadamard(block, signs)
print("before", [round(x) for x in block[0].tolist()])
print("after ", [round(x) for x in mixed[0].tolist()])

# %% [markdown]
# Now all of them have about the same size, which sounds like a gift for a format with eight magnitudes. Is
# the error smaller? We take 4,000 rows of 32 numbers of size 1, and one outlier in each. We round the rows as
# they are, and after mixing.

# %% tags=["question"]
predict("mxfp8_and_nvfp4.does_mixing_help")

# %%
from amp_lessons.lessons.block_plots import by_size

sizes = [1, 2, 4, 8, 16, 32, 64, 128]
found = {name: [] for name in ("MXFP4", "MXFP4 mixed", "NVFP4", "NVFP4 mixed")}
for outlier in sizes:
    torch.manual_seed(0)
    rows = torch.randn(4000, 32)
    rows[:, 5] = outlier * (0.75 + torch.rand(4000) / 2)  # up to a quarter less or more
    mixed = numbers.random_hadamard(rows, signs)
    for format in (MXFP4, NVFP4):
        for name, exact in ((format.name, rows), (f"{format.name} mixed", mixed)):
            left = quantize_blocks(exact, format).dequantize()
            found[name].append(relative_error(left, exact))  # mixing keeps lengths
title = "The error of a row, by its outlier"
by_size(sizes, found, title=title, xlabel="size of the outlier", ylabel="error", log=False)

# %% [markdown]
# With a power of two as its scale, a block stores its own outlier badly, and mixing helps. NVFP4 stores the
# outlier nearly as exactly as FP8 would, so there is nothing to gain. Without an outlier, mixing changes
# nothing. (A [study](https://arxiv.org/abs/2509.23202) of quantising trained language models found the
# same: it helps MXFP4, and NVFP4's blocks are too small for it.)
#
# So why is it in NVIDIA's recipe? There it mixes only the inputs of one product, the gradient of the weight,
# which adds up over the batch. In this sum the small numbers count: without mixing, those in a block with
# an outlier become zero together. With mixing they are noisy, and noise averages out. Here every 16th row of the
# inputs is much larger than the others.

# %%
torch.manual_seed(0)
mix = torch.randn(64, 32)
for times in (1, 10, 100):
    inputs = torch.randn(4096, 64)
    gradients = inputs @ mix / 8 + torch.randn(4096, 32)
    inputs[::16] *= times
    exact_sum = gradients.T @ inputs
    found = []
    for left, right in (
        (gradients.T, inputs.T),
        (numbers.random_hadamard(gradients.T, signs), numbers.random_hadamard(inputs.T, signs)),
    ):
        left, right = quantize_blocks(left, NVFP4), quantize_blocks(right, NVFP4)
        found.append(relative_error(left.dequantize() @ right.dequantize().T, exact_sum))
    print(f"{times:3} times as large: error {found[0]:.1%} plain, {found[1]:.1%} mixed")

# %% [markdown]
# For outliers of 100 times the size it pays, and for smaller ones it costs a little. NVIDIA trained a model
# of 1.2 billion parameters with mixing in each of the three products. It helped in the gradient of the
# weight, and hurt in the other two ([appendix E.4](https://arxiv.org/abs/2509.25149)).
#
# ## The painter in four bits
#
# Now the painter of [[lesson amp_in_20_minutes]] trains with all of it. The *whole recipe* is NVFP4 for
# all inputs of products, stochastic rounding of gradients, Hadamard for the gradient of the weight, blocks
# of 16x16 for weights, and the last layer in BF16. The pictures are big again: the loss is divided by 100
# million pixels. There is no loss scale.
#
# Train it yourself: `RUNS` holds all the ways to train that we compare. Try others too.

# %% tags=["live"]
from amp_lessons.amp.training.four_bits import RUNS, train

ways = {run.name: run for run in RUNS}
for name in ("FP32", "NVFP4 recipe"):
    *_, last = train(ways[name], seed=0)
    print(f"{name:12} ends at {last:.4f}")

# %% [markdown]
# We did this for three sets of initial weights, and recorded the errors with `tools/record_four_bits.py`.
# These are the first set's curves.

# %%
from amp_lessons.amp.training.four_bits import recorded

runs = recorded()["runs"]
plots.training(
    {name: runs[name][0] for name in ("FP32", "MXFP8", "NVFP4 recipe", "MXFP4")},
    title="The painter on big pictures",
    ylabel="error per pixel",
)

# %% [markdown]
# All of them learn. FP32 ends at 0.0147, and at 0.0142 and 0.0151 with the other weights. The recipe ends 14%
# above FP32 in all three. What does each ingredient contribute? Leave out one at a time. Without which of
# them does it end more than 100% above FP32?

# %% tags=["question"]
predict("mxfp8_and_nvfp4.which_one_is_missed")

# %%
from amp_lessons.lessons.dot_plots import dots

ends = {name: [run[-1] for run in three] for name, three in runs.items()}
dots(
    {
        name: [100 * (end / fp32 - 1) for end, fp32 in zip(three, ends["FP32"], strict=True)]
        for name, three in ends.items()
        if name != "FP32"
    },
    title="Error after 150 steps, three runs each: how much above FP32",
    xlabel="percent above the FP32 run with the same initial weights",
    limit=30,
    unit="%",
)

# %% [markdown]
# Read it from the top. BF16 is as good as FP32, and MXFP8 ends 1 to 2% above it. With four bits the error is
# 12 to 26% higher, and NVFP4 does better than MXFP4. Of the ingredients, the second scale is vital: without it,
# the gradients of big pictures become zero. The last layer in BF16 gains 5 points, and stochastic rounding
# gains 2. Hadamard and the blocks of 16x16 gain nothing. FP4 with one scale for a tensor does no worse than
# MXFP4: the formats differ in what they do to outliers, and this network hardly has any.
#
# ## What only large runs have shown
#
# So are Hadamard and 16x16 blocks useless? A painter can't tell. NVIDIA's
# [report on NVFP4](https://arxiv.org/abs/2509.25149) says that smaller models may not need all of these
# techniques (section 4). This is what it found in training runs that nobody repeats on a laptop:
#
# | model | what they did | what they saw |
# |---|---|---|
# | 12 billion parameters, 10 trillion tokens | the whole recipe, against FP8 | the loss stayed within 1%, and ended slightly above 1.5% (section 3). MMLU-Pro: 62.58% against 62.62% |
# | the same, from 3.4 trillion tokens on | left out stochastic rounding, Hadamard or 16x16 blocks | each time the loss got worse (figure 4) |
# | the same | fewer layers in BF16: the last 4 blocks, instead of the first 2 and the last 8 | still stable (figure 4) |
# | 1.2 billion | every linear layer in NVFP4 | diverged; with the last 4 blocks in BF16 it didn't (appendix E.2) |
# | 1.2 billion | other sizes of Hadamard matrix; no random signs | hardly any difference. At 12 billion there was one (appendix E.4) |
# | 8 billion, 1 trillion tokens | MXFP4 against NVFP4 | 2.5% above BF16 against 1.5%. MXFP4 needed 36% more tokens for the same loss (section 5) |
#
# ## Recipes side by side
#
# All five quantise the inputs of the three products of linear layers. Sums, outputs and master weights stay
# wide.
#
# | recipe | elements | scales | besides | stays in BF16 or FP32 |
# |---|---|---|---|---|
# | DeepSeek-V3 ([paper](https://arxiv.org/abs/2412.19437), 3.3) | E4M3 | FP32: 1x128 for inputs and gradients, 128x128 for weights | sums go to FP32 every 128 products | embedding, output head, routers of experts, norms, attention |
# | Transformer Engine, [MXFP8BlockScaling](https://docs.nvidia.com/deeplearning/transformer-engine-releases/release-2.18/user-guide/features/low_precision_training/mxfp8/mxfp8.html) | E4M3; E5M2 for gradients with `Format.HYBRID` | E8M0 for 32, rounded up | each tensor quantised along rows and columns | attention, norms, softmax, and layers outside of `te.autocast` |
# | torchao, [MXFP8](https://docs.pytorch.org/ao/main/workflows/training.html) (prototype) | E4M3 | E8M0 for 32, rceil | the gradient of the weight can stay in BF16: `wgrad_with_hp` | all but the layers that `quantize_` is given |
# | NVIDIA's [NVFP4 report](https://arxiv.org/abs/2509.25149), section 4 | E2M1 | E4M3 for 16, weights 16x16; FP32 for the tensor | stochastic rounding of gradients, Hadamard for the gradient of the weight | about 15% of the linear layers, most of them the last; embedding, head, norms, attention |
# | Transformer Engine, [NVFP4BlockScaling](https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/api/common.html) | E2M1 | the same | the same, each with a switch: `disable_rht`, `disable_stochastic_rounding`, `disable_2d_quantization` | attention, norms, softmax, and the layers that you leave out of `te.autocast`. It picks none for you |
#
# ## If you have a Blackwell GPU
#
# ```python
# import transformer_engine.pytorch as te
# from transformer_engine.common.recipe import NVFP4BlockScaling
#
# for layer in layers[:-4]:  # te.Linear and te.TransformerLayer, with BF16 parameters
#     with te.autocast(enabled=True, recipe=NVFP4BlockScaling()):
#         x = layer(x)
# for layer in layers[-4:]:
#     x = layer(x)
# ```
#
# Transformer Engine's documentation lists compute capabilities 10.0 and 10.3 (B200, B300) for training in
# both formats. The peak of matrix products is 2 times that of BF16 for MXFP8. For NVFP4 it is 4 times on a GB200
# and 6 times on a GB300 (table 1 of the report). A whole step gains much less. torchao
# [measured](https://docs.pytorch.org/ao/main/workflows/training.html) 16 to 20% more tokens per second
# for Llama 3 8B in MXFP8, on eight B200 with limited power. We have not run this on a GPU.
#
# ## When something goes wrong
#
# | what you see | likely cause | what to do |
# |---|---|---|
# | In NVFP4, a network with a small loss learns nothing, and nothing is inf | No second scale, so the blocks' scales became 0 | Use both scales |
# | Training in NVFP4 diverges early | Every linear layer is in NVFP4 | Keep the last blocks in BF16 |
# | Rare events are predicted too often, or a gap to BF16 grows slowly | Gradients are rounded to nearest | Round gradients stochastically, and only those |
# | A gap to BF16 stays at the end | The rounding of the forward pass | Go on in BF16 for the last part of the training (appendix D of the report) |
#
# ## Recap
#
# 1. FP4 has eight magnitudes. A scale for each block of 16 or 32 numbers keeps an outlier's harm in its block.
# 2. MX formats take a power of two as the scale: floor cuts off the largest number of many blocks, rceil none.
#    NVFP4 takes an FP8 number, and needs a second scale for the tensor.
# 3. Blocks lie along the dimension that is summed over. So a transpose is quantised again, and in NVFP4 the
#    two differ, unless the blocks are square.
# 4. Rounding to nearest pushes many small numbers of a block the same way. Stochastic rounding of gradients is
#    right on average.
# 5. What a recipe needs depends on the size of the model. Small networks show the second scale, the last
#    layer and the rounding; for Hadamard and 16x16 blocks there are large runs, made by others.
#
# ## Three questions

# %% tags=["question"]
ask(
    "mxfp8_and_nvfp4.floor_or_rceil",
    "mxfp8_and_nvfp4.bits_for_a_layer",
    "mxfp8_and_nvfp4.transposed_codes",
)

# %% [markdown]
# **Next:** [[exercises mxfp8_and_nvfp4|the exercises]]: a scale that cuts nothing off, stochastic rounding,
# a block quantiser, and a recipe with a hole. Then [[lesson myths]] tests claims about AMP. Optional:
# [[deep mxfp8_and_nvfp4]], on where libraries differ, on inf and NaN, and on the product of blocks.
