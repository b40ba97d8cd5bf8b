# %% [markdown]
# # Lesson 13: FP8: a scale for each tensor, row or block
#
# Somebody mentions FP8: half the bits of FP16, and matrix products that can be twice as fast. But its
# range is so narrow that one loss scale for the whole training isn't enough. What takes its place?
#
# **You will be able to** train in FP8 with a scale for each tensor, row or block. You'll know what a wrong
# scale costs, what has to stay in 16 or 32 bits, and when FP8 is slower than BF16.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson number_formats]] and [[lesson training_loops]]; no GPU.

# %%
from collections import deque
from dataclasses import replace

import torch
from torch.nn.functional import mse_loss

from amp_lessons import FP8_E4M3, FP8_E5M2, ask, autoencoder, load_digits, plots, predict
from amp_lessons.amp import numbers
from amp_lessons.amp.numbers import quantise, quantize_blocks, relative_error, scale_for
from amp_lessons.lessons import block_plots

pictures = load_digits().train_images[:600]
our_pixels, big = pictures.numel(), 100_000_000

# %% [markdown]
# Fast FP8 products need a recent GPU, such as NVIDIA's Hopper (H100, H200) or Blackwell. This lesson
# computes them on the CPU with a module of this course, `numbers`. It rounds exactly as FP8 does, but it
# saves no time.
#
# ## Two formats
#
# [[term FP8]] comes in two formats, E4M3 and E5M2. The name counts bits: 4 for the exponent and 3 for the
# [[term significand|mantissa]], or 5 and 2. Here are all their numbers from 0 to 32.

# %%
for format in (FP8_E4M3, FP8_E5M2):
    ends = f"from {format.min_subnormal:.2g} to {format.max:,.0f}"
    print(f"{format.name}: {format.mantissa_bits + 1} significant bits, {ends}")
plots.number_lines((FP8_E4M3, FP8_E5M2), 0, 32)

# %% [markdown]
# E4M3 is twice as fine. E5M2 has as many exponent bits as FP16, so it reaches further in both directions.
#
# ## What FP8 does at the end of its range
#
# A loss scale works because an overflow leaves an inf, which the scaler finds. Here are three numbers
# beyond the end of E4M3, 448. We cast them to both formats on a CPU.

# %% tags=["question"]
predict("fp8.past_448")

# %%
beyond = torch.tensor([1000.0, 1e6, torch.inf])
for format in (torch.float8_e4m3fn, torch.float8_e5m2):
    print(format, beyond.to(format).float().tolist())

# %% [markdown]
# On a CPU, a cast to E4M3 leaves no inf that a check could find. So look for an overflow before the cast,
# or log the share of numbers that are cut off. (PyTorch made NaN of such numbers until
# [April 2026](https://github.com/pytorch/pytorch/pull/178817). Libraries clamp them first.)
#
# ## Why one scale isn't enough
#
# The network of [[lesson amp_in_20_minutes]] paints digits again: the painter. As there, we pretend that
# the pictures are big: we divide the loss by 100 million pixels, which makes the gradients small. Let's look
# at three tensors that its first layer multiplies. How large are they, beside what E4M3 can hold? The largest
# magnitude of a tensor is its [[term amax]].

# %%
painter = autoencoder()
hidden = painter[0](pictures)
hidden.retain_grad()
(mse_loss(painter[1:](hidden), pictures, reduction="sum") / big).backward()
tensors = {"pictures": pictures, "weights": painter[0].weight, "gradients": hidden.grad}
for name, tensor in tensors.items():
    amax = tensor.abs().max().item()
    print(f"{name:9}  amax {amax:.2g}, 448 / amax = {448 / amax:,.0f}")
block_plots.windows(tensors, FP8_E4M3, title="Three tensors of the painter's first layer")

# %% [markdown]
# The gradients lie far below E4M3's smallest number, and some weights do too. A loss scale could move the
# gradients. But it moves those of all layers together, and it moves neither weights nor activations.
#
# So each tensor gets a scale of its own. Before rounding, the tensor is multiplied by 448 / amax, and its
# largest number lands on 448. (For E5M2 it is 57,344.) After the product, the result is divided by both
# scales.
#
# ## Can the painter learn in FP8?
#
# First, we train the painter in FP32. The large learning rate makes up for the small gradients.


# %%
def train(painter):
    optimizer = torch.optim.SGD(painter.parameters(), lr=big / our_pixels, momentum=0.9)
    errors = []
    for _ in range(150):
        optimizer.zero_grad()
        error = mse_loss(painter(pictures), pictures, reduction="sum")
        (error / big).backward()
        optimizer.step()
        errors.append(error.item() / our_pixels)
    return errors


fp32_painter = autoencoder()
fp32 = train(fp32_painter)
print(f"FP32: error per pixel {fp32[-1]:.3f}")

# %% [markdown]
# A linear layer computes three matrix products: its output, the gradient of its input, and the gradient of
# its weights. `in_block_format` replaces each linear layer by one that rounds both factors of all three
# products to FP8. Parameters and sums stay in FP32, and there is no GradScaler.
#
# A `Recipe` says which format each of the three tensors gets. `TENSORWISE` takes E4M3 for inputs and
# weights and E5M2 for gradients, with a scale for each tensor. `plain` has the same formats and no scales.

# %% tags=["question"]
predict("fp8.painter_in_fp8")

# %%
unit = replace(numbers.FP8_TENSORWISE, scale=numbers.FixedScale())  # multiplies by 1
plain = numbers.Recipe("FP8, no scales", unit, unit, replace(unit, element=FP8_E5M2))
unscaled = train(numbers.in_block_format(autoencoder(), plain))
scaled = train(numbers.in_block_format(autoencoder(), numbers.TENSORWISE))
plots.training(
    {"FP32": fp32, "FP8, no scales": unscaled, "FP8 with scales": scaled},
    title="Big pictures: FP32, and FP8 without and with scales",
    ylabel="error per pixel",
)

# %% [markdown]
# With scales, FP8 ends close to FP32. Without them, small gradients become zero, and the painter
# learns the average picture.
#
# ## How exact must a scale be?
#
# The next cell multiplies the weights of the trained painter's first layer and the pictures, once in E4M3
# and once in E5M2. It tries scales for the weights from 65,536 times too small to 256 times too large.
# Numbers beyond the end of either format become its largest number.

# %% tags=["question"]
predict("fp8.wrong_scale")

# %%
weights = fp32_painter[0].weight.detach()
exponents = range(-16, 9)
plots.error_by_scale(
    exponents,
    {
        format.name: numbers.errors_by_scale(weights, pictures.T, exponents, format)
        for format in (FP8_E4M3, FP8_E5M2)
    },
    title="The error of one product, by the scale of the weights",
)

# %% [markdown]
# A scale that is too small costs nothing over a wide range, because FP8 has an exponent. One that is too
# large cuts off the largest weights at once.
#
# ## A scale from the past
#
# To find amax, a GPU reads the whole tensor. Only then can it round the first number, so it reads all of
# them again. This is *current scaling*. [[term delayed scaling|Delayed scaling]] reads the tensor once: it
# takes its scale from the largest amax of the last steps. While it rounds, it measures the tensor's own amax
# for later.
#
# Below, 40 tensors come one after the other. From number 20 on they are 50 times as large. `delayed`
# remembers 8 amaxes. It has a switch for a bug: it measures amax *after* the cast, on what was stored.


# %%
torch.manual_seed(0)
stream = [torch.randn(64, 64) * (50.0 if number >= 20 else 1.0) for number in range(40)]


def delayed(after_the_cast):
    history, errors = deque([stream[0].abs().max()], maxlen=8), []
    for tensor in stream:
        scale = scale_for(max(history))
        stored = quantise(tensor, scale) / scale
        history.append((stored if after_the_cast else tensor).abs().max())
        errors.append(relative_error(stored, tensor))
    return errors


# %% tags=["question"]
predict("fp8.amax_after_the_cast")

# %%
current = []
for tensor in stream:
    scale = scale_for(tensor.abs().max())
    current.append(relative_error(quantise(tensor, scale) / scale, tensor))
plots.training(
    {
        "current": current,
        "delayed": delayed(after_the_cast=False),
        "amax after the cast": delayed(after_the_cast=True),
    },
    title="The error of 40 tensors: from number 20 on they are 50 times as large",
    ylabel="relative error",
    xlabel="tensor",
)

# %% [markdown]
# Delayed scaling is wrong once, at tensor 20, since its history doesn't know the jump yet. With the bug it
# stays wrong for good. What was cut off at the old amax can't show a larger one, so the scale never falls.
#
# A history has more traps. In the first step it is empty: Transformer Engine begins with a scale of 1, which
# would make all of our gradients zero. In a step in which a layer doesn't run, an amax of 0 can push out what
# the history knew ([a bug that Transformer Engine fixed](https://github.com/NVIDIA/TransformerEngine/pull/825)).
# [[deep fp8]] shows both. torchao has dropped delayed scaling
# ([issue 1680](https://github.com/pytorch/ao/issues/1680)).
#
# ## One outlier
#
# Amax is a single number of the tensor. What if that number is far larger than all others? Such a number is
# an *outlier*. Let's give different groups of numbers a scale of their own:
#
# | format | one scale for |
# |---|---|
# | `FP8_TENSORWISE` | the whole tensor |
# | `FP8_ROWWISE` | each row |
# | `FP8_1X128` | each 128 numbers of a row |
# | `FP8_128X128` | each square of 128 rows and 128 columns |
#
# `quantize_blocks` finds these scales and rounds. `dequantize()` gives back what is left. In a matrix of 256
# rows and 512 columns, all weights have a size of about 0.001, and one becomes 500.

# %% tags=["question"]
predict("fp8.outlier_and_rows")

# %%
torch.manual_seed(0)
weights = torch.randn(256, 512) * 1e-3
weights[150, 200] = 500.0
others, left = weights != 500.0, {}
formats = [numbers.FP8_TENSORWISE, numbers.FP8_ROWWISE]
formats += [numbers.FP8_1X128, numbers.FP8_128X128]
for format in formats:
    q = quantize_blocks(weights, format)
    left[format.name] = q.dequantize()
    error = relative_error(q.dequantize()[others], weights[others])
    share = weights.numel() // q.scales.numel()
    print(f"{format.name:15} {share:7,} numbers a scale, error of the others {error:5.1%}")
block_plots.spoilt(weights, left, title="Where the matrix is spoilt")

# %% [markdown]
# The outlier spoils the numbers that share its scale, and no others. (The gap in the line is the outlier
# itself, which is stored well.) So a row does better than a square here: 512 numbers share its scale, and
# 16,384 share that of the square.
#
# ## Why would anybody take squares?
#
# Each number of a matrix product is a sum. Where its terms share a scale, the tensor core adds them up first
# and scales the sum once. So blocks must lie along the dimension that is summed over.
#
# In the forward pass, the sum runs along the rows of the weight matrix. For the gradient of the input, it runs
# along the columns, so the backward pass rounds the transpose. Does it see the same weights?

# %%
torch.manual_seed(0)
weights = torch.randn(256, 512)
for format in formats:
    forward = quantize_blocks(weights, format).dequantize()
    backward = quantize_blocks(weights.T, format).dequantize().T
    share = (forward != backward).float().mean()
    print(f"{format.name:15} {share:4.0%} of the weights differ")

# %% [markdown]
# With squares it does. With rows or parts of rows, nearly every weight is another number in the backward
# pass. So DeepSeek-V3 takes squares for the weights. For activations and gradients it takes 1x128, which is
# finer ([arXiv 2412.19437](https://arxiv.org/abs/2412.19437), section 3.3.2).
#
# ## Do gradients still need E5M2?
#
# `TENSORWISE` took E5M2 for gradients: it is coarser, but it reaches further down. Let's make 256 rows of
# gradients whose sizes differ by many powers of two, and round them to both formats. First there is one scale
# for the tensor, then one for each 128 numbers.

# %%
torch.manual_seed(0)
gradients = torch.randn(256, 512) * torch.exp(4 * torch.randn(256, 1))
for format in (numbers.FP8_TENSORWISE, numbers.FP8_1X128):
    for element in (FP8_E5M2, FP8_E4M3):
        stored = quantize_blocks(gradients, replace(format, element=element)).dequantize()
        row_errors = (stored - gradients).norm(dim=1) / gradients.norm(dim=1)
        lost = (stored == 0).float().mean()
        print(
            f"{format.name:15} {element.name}: {lost:4.0%} became zero, "
            f"error of a typical row {row_errors.median():.1%}"
        )

# %% [markdown]
# With one scale for the tensor, E4M3 loses half of these gradients. Within a block, sizes differ little. Then
# E4M3's range is enough, and its extra bit halves the error. That is why recipes with blocks take E4M3 for
# gradients too.
#
# ## The sum has few bits too
#
# So far all sums were in FP32, with 24 significant bits. DeepSeek-V3's authors report that Hopper's tensor
# cores keep about 14 bits while they add up FP8 products (section 3.3.2). `Accumulator` simulates this: it
# adds 32 products at a time, and cuts off what lies below the 14th bit of the sum.
#
# The authors' cure is *promotion*: after 128 products, the sum is added to one in FP32, and starts again at 0.
# `promote=128` does that.
#
# We add up 32,768 products of 1 and 1.

# %% tags=["question"]
predict("fp8.ones_in_14_bits")

# %%
ones = quantize_blocks(torch.ones(1, 32768), unit)
for name, accumulator in {
    "FP32": None,
    "14 bits": numbers.Accumulator(promote=None),
    "14 bits, to FP32 every 128": numbers.Accumulator(promote=128),
}.items():
    total = numbers.block_matmul(ones, ones.T, accumulator).item()
    print(f"{name:27} {total:,.0f}")

# %% [markdown]
# The sum stands still at 2^14, as 2,048 + 1 did in FP16 in [[lesson how_numbers_break]]. With random numbers
# it goes on growing, but it loses a little with every step. So the error depends on the length of the sum, K.
# The next cell takes positive numbers, and then numbers of both signs.


# %%
def sum_error(draw, k, promote):
    torch.manual_seed(0)
    a, b = (quantize_blocks(draw(16, k), numbers.FP8_TENSORWISE) for _ in range(2))
    exact = a.dequantize().double() @ b.dequantize().double().T
    found = numbers.block_matmul(a, b.T, numbers.Accumulator(promote=promote))
    return relative_error(found, exact)


ks, errors = [128, 256, 512, 1024, 2048, 4096, 8192], {}
for signs, draw in (("positive", torch.rand), ("of both signs", torch.randn)):
    for name, promote in ((signs, None), (f"{signs}, promoted", 128)):
        errors[name] = [sum_error(draw, k, promote) for k in ks]
        print(f"K = 4,096, {name:23} error {errors[name][5]:.3%}")
block_plots.by_size(ks, errors, title="Sums of 14 bits", xlabel="K", ylabel="error of the sum")

# %% [markdown]
# Without promotion, the error grows with K. For positive numbers at K = 4,096 it is larger than that of
# rounding to FP8, about 2.6%. In a test of their own with this K, the authors saw errors of up to nearly 2%.
# With promotion, the error doesn't grow.
#
# The simulation follows [MMA-Sim](https://arxiv.org/abs/2511.10909), whose authors compared theirs with an
# H100. NVIDIA doesn't document how its tensor cores add. But it says what PyTorch's `use_fast_accum=True` asks
# for: a product whose intermediate results are not promoted
# ([cuBLAS](https://docs.nvidia.com/cuda/cublas/index.html), `CUBLASLT_MATMUL_DESC_FAST_ACCUM`). torchao 0.18
# asks for it in the forward pass, and not in the two backward products
# ([config.py](https://github.com/pytorch/ao/blob/main/torchao/float8/config.py)).
#
# ## What stays in 16 or 32 bits
#
# "Trained in FP8" doesn't mean that everything is in FP8. DeepSeek-V3 was trained like this
# ([arXiv 2412.19437](https://arxiv.org/abs/2412.19437)):
#
# | part | precision | section |
# |---|---|---|
# | The inputs of the three products of linear layers | E4M3 | 3.3.1, 3.3.2 |
# | Their sums | FP32, every 128 products | 3.3.2 |
# | Embedding, output head, router (MoE gating), norms, attention | BF16 or FP32 | 3.3.1 |
# | Master weights, and the gradients that are added up | FP32 | 3.3.3 |
# | AdamW's two averages | BF16 | 3.3.3 |
#
# Two smaller models were trained in FP8 and in BF16, and their losses differed by less than 0.25% (section
# 3.3). Another one diverged when its gradients were rounded in squares of 128 × 128 (appendix B.2).
#
# Why is BF16 enough for the average of squares? β2 is 0.95, so each step moves it 5% of the way to the newest
# square, and BF16 numbers lie less than 1% apart. With Adam's usual 0.999 it is 0.1% of the way, and BF16 can
# round such a move away.
#
# ## When FP8 is slower than BF16
#
# The tensor cores of an H100 multiply FP8 matrices at twice the peak of BF16. But both matrices have to be
# rounded first. With current scaling, each BF16 number is read for amax (2 bytes), read again (2) and written
# in FP8 (1): 5 bytes. With delayed scaling it is 3. This work grows with n², and the product with n³.
#
# From which n is FP8 faster? We estimate it from the data sheet, as in [[lesson speed]]: with the full peak
# and the full bandwidth, and without anything else.


# %%
from amp_lessons.amp.roofline import Matmul, find_gpu, matmul_floor

gpu = find_gpu("H100 SXM")
fp8_peak = 2 * gpu.peak("bf16")  # the data sheet: 3,958 TFLOP/s with sparsity, so 1,979


def gain(n, bytes_per_number):
    product = Matmul(n, n, n)
    moved = (1 + 1 + 2) * n * n  # two FP8 matrices read, one in BF16 written
    fp8 = max(product.flops / fp8_peak, moved / gpu.bytes_per_second())
    passes = 2 * n * n * bytes_per_number / gpu.bytes_per_second()
    return matmul_floor(gpu, "bf16", product) / (fp8 + passes)


# %% tags=["question"]
predict("fp8.faster_from")

# %%
sizes = [512, 1024, 2048, 4096, 8192, 16384]
gains = {
    "delayed scaling": [gain(n, 3) for n in sizes],
    "current scaling": [gain(n, 5) for n in sizes],
}
block_plots.by_size(
    sizes,
    gains,
    title="Estimate: a product of n × n matrices in FP8 on an H100, against BF16",
    xlabel="n",
    ylabel="times as fast",
    level=1.0,
    log=False,
)

# %% [markdown]
# In small layers, rounding costs more than the faster product saves. A compiler can merge a pass with the
# operation before it, so use FP8 with `torch.compile`.
#
# torchao measured linear layers on an H100: FP8 was 0.80 times as fast as BF16 for M, K, N = 1,024, 2,048,
# 1,024, and 1.39 times for 4,096, 8,192, 16,384
# ([an earlier README](https://github.com/pytorch/ao/blob/0cf1281a38bdd8c84b11549ffc49a63eb3a92d40/torchao/float8/README.md)).
# For training Llama 3 8B on eight H100, [its
# documentation](https://docs.pytorch.org/ao/stable/workflows/training.html) reports 1.25 times with a scale
# for each tensor, and 1.10 times with one for each row. (We quote these figures and have not measured them.)
#
# ## Recipes side by side
#
# | recipe | forward | gradients | one scale for | scale from |
# |---|---|---|---|---|
# | Transformer Engine, [`DelayedScaling`](https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/api/common.html) | E4M3 | E5M2 | a tensor | up to 1,024 steps before |
# | Transformer Engine, [`Float8CurrentScaling`](https://nvidia.github.io/TransformerEngine/features/low_precision_training/fp8_current_scaling/fp8_current_scaling.html) | E4M3 | E5M2 | a tensor | the tensor |
# | torchao, [`tensorwise`](https://docs.pytorch.org/ao/main/api_reference/generated/torchao.float8.Float8LinearRecipeName.html) | E4M3 | E5M2 | a tensor | the tensor |
# | torchao, [`rowwise`](https://docs.pytorch.org/ao/main/api_reference/generated/torchao.float8.Float8LinearRecipeName.html) | E4M3 | E4M3 | a row | the row |
# | [DeepSeek-V3](https://arxiv.org/abs/2412.19437) | E4M3 | E4M3 | 1 × 128; weights 128 × 128 | the block |
# | Transformer Engine, [`Float8BlockScaling`](https://nvidia.github.io/TransformerEngine/features/low_precision_training/fp8_blockwise_scaling/fp8_blockwise_scaling.html) | E4M3 | E4M3 | 1 × 128; weights 128 × 128 | the block |
# | Transformer Engine, [`MXFP8BlockScaling`](https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/api/common.html) | E4M3 | E4M3 | 1 × 32 | the block |
#
# Does the painter learn with three of them?

# %%
for recipe in (numbers.TENSORWISE, numbers.ROWWISE, numbers.BLOCKWISE):
    error = train(numbers.in_block_format(autoencoder(), recipe))[-1]
    print(f"{recipe.name:15} error per pixel {error:.4f}   (FP32 {fp32[-1]:.4f})")

# %% [markdown]
# All three come within 3% of FP32. The painter is too small to tell them apart. In your own model, compare a
# part of the training with BF16.
#
# You don't write any of this yourself. [torchao](https://docs.pytorch.org/ao/stable/workflows/training.html)
# replaces linear layers with `convert_to_float8_training(model)`, and works with `torch.compile` and FSDP2.
# Pass a `module_filter_fn` to leave out the head, the router and small layers. NVIDIA's [Transformer
# Engine](https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/index.html) has FP8 layers of
# its own.
#
# ## When something goes wrong
#
# | what you see | likely cause | what to do |
# |---|---|---|
# | In FP8, a network learns no more than the average | Small gradients became zero in the cast | Give each tensor a scale |
# | The error of a product jumps, and nothing is inf | The scale is too large, and the largest numbers are cut off | Log the share of numbers that are cut off, and lower the scale |
# | That share stays high after magnitudes have grown | amax is measured on what was already cut off | Measure amax before the cast |
# | One large number spoils a whole tensor | They share one scale | A scale for each row or block |
# | FP8 is right on a CPU, and less exact on Hopper for large K | Sums of about 14 bits | Promote sums to FP32; `use_fast_accum=False` |
# | FP8 is slower than BF16 | Small layers, or passes that nothing merges | Convert large layers only, and compile |
#
# ## Recap
#
# 1. E4M3 has 4 significant bits and ends at 448. E5M2 has 3, and reaches further in both directions. A cast
#    to E4M3 can cut numbers off without leaving an inf.
# 2. Each tensor, row or block has a scale, 448 / amax. Too small costs little over a wide range, and too
#    large cuts off the largest numbers. A scale from the past is too large when magnitudes jump.
# 3. One outlier spoils the numbers that share its scale. With small blocks, E4M3 is enough for gradients too.
# 4. Hopper adds up FP8 products in about 14 bits. So DeepSeek-V3 adds its sums to FP32 every 128 products.
# 5. Embedding, head, router, norms, attention and master weights stay in 16 or 32 bits. In small layers, FP8
#    can be slower than BF16.
#
# ## Three questions

# %% tags=["question"]
ask(
    "fp8.scale_for_each_tensor",
    "fp8.exact_on_the_cpu",
    "fp8.which_are_in_fp8",
)

# %% [markdown]
# **Next:** [[exercises fp8|the exercises]]: a tensor in FP8, a history to repair, a sum that is promoted, and
# the layers to convert. Then [[lesson mxfp8_and_nvfp4]] goes down to
# four bits. Optional: [[deep fp8]], on more traps
# of a scale from the past, the format of the gradients, and the product itself.
