# %% [markdown]
# # Lesson 13: FP8
#
# Somebody mentions FP8: half the bits of FP16, and products that can be twice as fast. The range is so
# narrow that one loss scale for the whole training isn't enough. What takes its place?
#
# **You will be able to** train in FP8 with a scale for each tensor or row, and say what a wrong scale
# costs.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson number_formats]] and [[lesson training_loops]]; no GPU.

# %%
import torch
from torch.nn.functional import mse_loss

from amp_lessons import FP8_E4M3, FP8_E5M2, ask, autoencoder, load_digits, plots, predict
from amp_lessons.amp.numbers import (
    errors_by_scale,
    float8_matmul,
    in_float8,
    relative_error,
    scale_for,
)

device = "cuda" if torch.cuda.is_available() else "cpu"
pictures = load_digits().train_images[:600].to(device)
our_pixels, big = pictures.numel(), 100_000_000

# %% [markdown]
# ## The painter in FP32
#
# The network of [[lesson amp_in_20_minutes]] paints digits again: the painter. As there, it paints *big
# pictures*: we pretend that they have 100 million pixels, and divide the loss by that number. This makes
# the gradients small. The learning rate makes up for it: with exact numbers, the updates would stay the
# same. First we train it in FP32.


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


fp32_painter = autoencoder().to(device)
fp32 = train(fp32_painter)
print(f"FP32: error per pixel {fp32[-1]:.3f}")

# %% [markdown]
# ## Can the painter learn in FP8?
#
# The tensor cores of NVIDIA's Hopper GPUs multiply 8-bit numbers at
# [twice the peak rate of FP16](https://developer.nvidia.com/blog/nvidia-hopper-architecture-in-depth/).
# There are two formats of [[term FP8]]. E4M3 has 4 significant bits and reaches from 0.002 to 448.
# E5M2 has 3 and reaches from 0.000015 to 57,344. PyTorch 2.13 has no autocast to FP8; libraries
# replace the linear layers.
#
# `in_float8`, from this course's package, does that for the painter, with the arithmetic of FP8 and
# without its speed. It rounds both inputs of each matrix product to FP8: weights and activations to
# E4M3, gradients to E5M2. Sums and parameters stay in FP32.
#
# There is no GradScaler. With `scaled=True`, the default, each tensor has a scale of its own. Before
# rounding, the tensor is multiplied by its scale, so that its largest number lands on the largest number
# of the format. Afterwards, the product is divided by both scales.

# %% tags=["question"]
predict("fp8.painter_in_fp8")

# %%
unscaled = train(in_float8(autoencoder().to(device), scaled=False))
scaled = train(in_float8(autoencoder().to(device)))
plots.training(
    {"FP32": fp32, "FP8, no scales": unscaled, "FP8 with scales": scaled},
    title="Big pictures: FP32, and FP8 without and with scales",
    ylabel="error per pixel",
)

# %% [markdown]
# With scales, FP8 ends close to FP32. Without them, small gradients become zero, and the painter
# learns the average picture.
#
# ## What FP8 does at the end of its range
#
# A loss scale works because an overflow leaves an inf, which the scaler finds. Here are three numbers
# beyond the end of E4M3, 448. They are cast to both formats on a CPU.

# %% tags=["question"]
predict("fp8.past_448")

# %%
beyond = torch.tensor([1000.0, 1e6, torch.inf])
for format in (torch.float8_e4m3fn, torch.float8_e5m2):
    print(format, beyond.to(format).float().tolist())

# %% [markdown]
# On a CPU, a cast to E4M3 leaves no inf that a check could find. So look for an overflow before the cast,
# or log the share of numbers that are cut off.
#
# ## How exact must a scale be?
#
# *Dynamic* scaling takes the largest number of the tensor itself, which costs one more pass over it.
# *Delayed* scaling takes the largest number that the same tensor had in earlier steps, so it can be
# wrong. What does a wrong scale cost?
#
# The next cell multiplies the weights of the painter's first layer and the pictures, once with all
# tensors in E4M3 and once in E5M2. It tries scales for the weights, from 65,536 times too small to
# 256 times too large. In this cell, numbers beyond the end of either format become its largest number.

# %% tags=["question"]
predict("fp8.wrong_scale")

# %%
weights = fp32_painter[0].weight.detach()
exponents = range(-16, 9)
plots.error_by_scale(
    exponents,
    {f.name: errors_by_scale(weights, pictures.T, exponents, f) for f in (FP8_E4M3, FP8_E5M2)},
    title="The error of one product, by the scale of the weights",
)

# %% [markdown]
# A scale that is too small costs nothing over a wide range: FP8 has an exponent. One that is too
# large cuts off the largest weights at once.
#
# Recipes differ in two choices: the format of the gradients, and how many numbers share a scale.
#
# | recipe | format of the gradients | one scale for |
# |---|---|---|
# | the [paper](https://arxiv.org/abs/2209.05433) that proposed both formats | E5M2 | a tensor |
# | torchao, [row-wise](https://docs.pytorch.org/ao/main/api_reference/generated/torchao.float8.Float8LinearRecipeName.html) | E4M3 | a row |
# | Transformer Engine, [MXFP8](https://docs.nvidia.com/deeplearning/transformer-engine-releases/release-2.18/user-guide/features/low_precision_training/mxfp8/mxfp8.html) | E4M3 by default | 32 numbers |
#
# If fewer numbers share a scale, their sizes differ less, and the format needs less range. A single
# number that is far too large, an *outlier*, then harms only its own row or block.
#
# ## One outlier
#
# 64 rows of weights have a size of about 0.001. Now a single weight in the first row becomes 500. We
# multiply with FP8 weights, and look at the error of the *other* 63 rows of the product. Once, all
# weights share a scale, and once, each row has its own.

# %% tags=["question"]
predict("fp8.outlier_and_rows")

# %%
torch.manual_seed(0)
weights, inputs = torch.randn(64, 128) * 1e-3, torch.randn(128, 32)
weights[0, 0] = 500.0
exact = (weights.double() @ inputs.double())[1:]
scales = {
    "the tensor": scale_for(weights.abs().max()),
    "each row": scale_for(weights.abs().amax(dim=1, keepdim=True)),
}
for name, scale in scales.items():
    product = float8_matmul(weights, inputs, scale, scale_for(inputs.abs().max()))
    print(
        f"a scale for {name:10}: error of the other rows {relative_error(product[1:], exact):.0%}"
    )

# %% [markdown]
# NVFP4 goes on in this direction: 4-bit numbers with
# [a scale for each 16](https://intel.github.io/neural-compressor/latest/docs/source/3x/PT_NVFP4Quant.html),
# and one more for the tensor.
#
# ## Libraries replace the layers for you
#
# You don't write any of this yourself.
# [torchao](https://docs.pytorch.org/ao/stable/workflows/training.html) replaces linear layers with
# `convert_to_float8_training(model)`. It is meant for use with `torch.compile`, and works with
# FSDP2. NVIDIA's [Transformer
# Engine](https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/index.html) has FP8
# layers of its own.
#
# ## When something goes wrong
#
# | what you see | likely cause | what to do |
# |---|---|---|
# | In FP8, a network learns no more than the average | Small gradients became zero in the cast | Give each tensor a scale |
# | The error of a product jumps, and nothing is inf | The scale is too large, and the largest numbers are cut off | Log the share of numbers that are cut off, and lower the scale |
# | One large number spoils a whole tensor | They share one scale | A scale for each row or block |
#
# ## Recap
#
# 1. FP8 has two formats: E4M3 with 4 significant bits, and E5M2 with 3 and more range.
# 2. FP8 training has a scale for each tensor, row or block in place of one loss scale. With a scale for each
#    tensor, the painter learns almost as well as in FP32.
# 3. A cast to E4M3 can cut numbers off without leaving an inf. Look for an overflow before the cast.
# 4. A scale that is too small costs little, within a wide range. One that is too large cuts off the largest
#    numbers.
# 5. One outlier harms all that share its scale. With a scale for each row, it harms its own row.
#
# ## Three questions

# %% tags=["question"]
ask(
    "fp8.scale_for_e4m3",
    "fp8.one_outlier",
    "fp8.scale_for_each_tensor",
)

# %% [markdown]
# **Next:** [[exercises fp8|the exercise]]: a tensor in FP8. Then [[lesson myths]] tests claims about AMP.
# Optional: [[deep fp8]], on the format of the gradients, a scale from the past, and the product itself.
