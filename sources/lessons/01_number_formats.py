# %% [markdown]
# # Lesson 01: Number formats
#
# In [[lesson amp_in_20_minutes]], one argument switched a training from FP16 to BF16. Both formats have
# 16 bits, but they lose different things. Here you look at the bits, and see what each format keeps.
#
# **You will be able to** read the bits of a number, predict what a format stores of it, and choose a
# format for a tensor.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson amp_in_20_minutes]]; no GPU. One cell uses an NVIDIA GPU if you
# have a recent one.

# %% [markdown]
# ## A table of cars in 16 bits
#
# A colleague trains a network on used cars. Her table takes too much memory in FP32, so she stores
# it in FP16, which needs half the bytes. Here are six of the cars. `float16` is PyTorch's name for FP16.

# %%
import torch

from amp_lessons import BF16, FORMATS, FP8_E4M3, FP8_E5M2, FP16, FP32, TF32, ask, plots, predict

years = torch.tensor([2021.0, 2022.0, 2023.0, 2024.0, 2025.0, 2026.0])
prices = torch.tensor([12_450.0, 18_900.0, 23_490.0, 31_200.0, 41_250.0, 71_900.0])
print("prices in FP16:", prices.to(torch.float16).tolist())

# %% [markdown]
# Some prices have changed a little, and the last one has become [[term inf]]: it is far above 65,504,
# FP16's largest number. A batch with this car can make the loss inf or NaN.
#
# So she changes one word, to `torch.bfloat16`. BF16 reaches 3e38, so the prices are finite, and the
# training runs. But the table has another column, the years.

# %% tags=["question"]
predict("number_formats.years_in_bf16")

# %%
print("prices in BF16:", prices.to(torch.bfloat16).tolist())
print("years in BF16: ", years.to(torch.bfloat16).tolist())

# %% [markdown]
# All six years became 2024, with no exception and no warning.
#
# ## What is in 16 bits?
#
# To see why, let's look at the bits.
#
# A floating point number is scientific notation with base 2. 0.1 is 1.6 · 2⁻⁴, for example. FP16 stores
# it in three fields: 1 bit for the sign, 5 for the [[term exponent]], and 10 for the *mantissa*.
# `FP16` below comes from this course's package. Its `encode` gives the 16 bits that PyTorch stores, as
# one whole number.

# %%
code = FP16.encode(0.1)
print("bits  ", FP16.bit_string(code))
print("fields", FP16.fields(code))

# %% [markdown]
# - **Sign.** 0 means plus, 1 means minus.
# - **Exponent.** The field holds 11. A constant was added before it was stored, the *bias*, which is 15
#   in FP16. So the power of two is 11 − 15 = −4.
# - **Mantissa.** The field holds 614, and counts parts of 1,024. The number before the point isn't
#   stored, because in base 2 it is 1, for all but the smallest numbers.
#
# The value is (1 + 614/1024) · 2⁻⁴ = 0.09998. That isn't quite 0.1, which has infinitely many digits in
# binary. It's the nearest number that FP16 has.
#
# A number with the hidden 1 is called [[term normal number|normal]]. The hidden 1 and the mantissa
# together are the [[term significand]]. So FP16 has 11 significant bits, and stores 10 of them.
#
# ## The bit explorer
#
# Here you can toggle bits, type a value or change the format. Try to answer these three questions. Each
# answer comes up later in the lesson.
#
# - 1 in FP16: how far away is the next number above? And for 2, and for 1024?
# - Type the bits `0x0001` in FP16, where only the last bit is 1. Which number is this?
# - 65504 is FP16's largest number. What do you get if you step to its neighbour above?
#
# With the keyboard, Tab moves between the controls, the arrow keys move between bits, and Space
# toggles one.

# %% tags=["live"]
from amp_lessons.lessons.widgets import BitExplorer

BitExplorer(value=0.1, format="FP16")

# %% [markdown]
# ## Where do the bits go?
#
# This course uses six formats. They differ in how many bits they spend on the exponent, and how many
# on the mantissa. TF32 and the two FP8 formats have sections of their own below. The colours are those
# of the explorer: blue for the exponent, green for the mantissa.

# %%
plots.bit_layouts(list(FORMATS.values()))

# %% [markdown]
# More exponent bits give a larger range, and more mantissa bits give a higher precision. BF16 is FP32
# without its last 16 bits: it has all of FP32's exponents, and only 7 bits of mantissa.
#
# How much range do three more exponent bits give?

# %% tags=["question"]
predict("number_formats.powers_of_two")

# %%
formats = [FP32, FP16, BF16, FP8_E4M3, FP8_E5M2]  # not TF32: no tensor is stored in it
for f in formats:
    lowest, highest = f.min_exponent - f.mantissa_bits, f.max_exponent
    print(f"{f.name:8} from 2^{lowest} to 2^{highest}: {highest - lowest + 1} powers of two")
plots.ranges(formats)

# %% [markdown]
# BF16 spans 261 powers of two where FP16 spans 40: each exponent bit doubles the number of
# exponents.
#
# ## How far is it to the next number?
#
# The exponent picks a power of two, and the mantissa counts equal steps up to the next one. From 1 to
# 2, FP16 has 1,024 numbers, because it has 1,024 mantissas. So they are 1/1024 apart. From 2 to 4 there
# are 1,024 numbers again, which are 2/1024 apart.
#
# The distance from a number to the next one is its [[term ulp]], for *unit in the last place*. The
# ulp of 1 is also called *eps*: `torch.finfo(torch.float16).eps`. ([[numbers]] has a table of such
# limits.)

# %% tags=["question"]
predict("number_formats.gap_at_60000")

# %%
print("ulp at     FP16       BF16")
for x in (1.0, 2.0, 1024.0, 2021.0, 60_000.0):
    print(f"{x:6,.0f}   {FP16.ulp(x):8.3g}   {BF16.ulp(x):8.3g}")
plots.spacing([FP32, FP16, BF16, FP8_E4M3])

# %% [markdown]
# At 60,000, FP16's numbers are 32 apart: from 32,768 to 65,536 there are 1,024 of them. On most of
# each curve, the ulp doubles when the number doubles. So a format keeps about the same number of
# decimal digits in large and in small numbers: 3 to 4 in FP16, and 2 to 3 in BF16. At their left
# ends, FP16 and E4M3 become flat. We'll come back to the flat parts.
#
# ## Subtract first, cast afterwards
#
# From 1,024 to 2,048, BF16 has only the multiples of 8. Around our years these are 2016, 2024 and 2032.
# The nearest one to 2021 is 2024, and the nearest one to 2026 is 2024 too. So six years became one.
#
# Near zero, numbers are much closer together. And the network doesn't need the number 2021. It needs
# to know how much newer one car is than another. So subtract in FP32, and [[term cast]] the result:

# %%
newer = years - 2020
normalised = (years - years.mean()) / years.std()
print("subtract 2020, then cast:", newer.to(torch.bfloat16).tolist())
print("normalise, then cast:    ", [f"{y:.2f}" for y in normalised.to(torch.bfloat16).tolist()])

# %% [markdown]
# The second line is what many pipelines do with each column: subtract its mean and divide by its
# standard deviation, in FP32.
#
# Token ids, which stand for the words of a text, are names and not sizes. Keep ids as integers. If you
# cast a whole batch to BF16, ids above 256 may become other ids.
#
# ## Half-way between two numbers
#
# A cast from FP32 gives the nearest number that the format has ([[term rounding]]). If two are equally
# near, this is a *tie*. Then the cast takes the one whose last bit is 0.
#
# From 2,048 to 4,096, FP16 has only even numbers. So 2,049 lies half-way between 2,048 and 2,050, and
# 2,051 lies half-way between 2,050 and 2,052.

# %% tags=["question"]
predict("number_formats.half_way")

# %%
for x in (2049.0, 2051.0, 2049.01):
    stored = torch.tensor(x, dtype=torch.float16).item()
    print(f"{x:7} -> {stored:.0f}, stored as {FP16.bit_string(FP16.encode(stored))}")

# %% [markdown]
# Both ties went to the number whose last bit is 0. 2,049.01 isn't a tie: 2,050 is nearer.
#
# ## Close to zero
#
# In [[lesson amp_in_20_minutes]], gradients up to 2.98e-8 became zero in FP16. What happens on the way
# there?
#
# FP16's smallest normal number is 2⁻¹⁴, about 6e-5. Its stored exponent is 1. A stored exponent of 0
# has a special meaning: there is no hidden 1, and the power of two is 2⁻¹⁴ again. So the bits
# `0 00000 0000000010` stand for 2/1024 · 2⁻¹⁴. Such numbers are called [[term subnormal]].

# %% tags=["question"]
predict("number_formats.error_at_1e_6")

# %%
print("number    bits in FP16          stored     error")
for x in (1e-4, 1e-5, 1e-6, 1e-7, 4e-8, 2e-8):
    stored = FP16.round(x)
    bits = FP16.bit_string(FP16.encode(x))
    print(f"{x:5.0e}   {bits}   {stored:8.2e} {abs(stored - x) / x:8.2%}")

# %% [markdown]
# With each halving, a subnormal number loses a bit: 1e-6 has only 5 of 11, and is off by 1.3%. The
# smallest positive number is 2⁻²⁴, with the bits `0x0001`. Half of it is 2⁻²⁵, about 3e-8. From
# there down, everything becomes 0: this is [[term underflow]].
#
# ## Beyond 65,504
#
# Now the other end. FP16's largest number is 65,504, and the numbers just before it are 32 apart. In the
# bit explorer, one step further was inf. At the start, the price of 71,900 became inf too.

# %% tags=["question"]
predict("number_formats.just_above_the_largest")

# %%
for x in (65_504.0, 65_510.0, 65_519.0, 65_520.0, 71_900.0):
    stored = torch.tensor(x, dtype=torch.float16).item()
    print(f"{x:6.0f} -> {stored:5.0f}  {FP16.bit_string(FP16.encode(x))}")

largest = torch.tensor(torch.finfo(torch.float32).max)
print(f"FP32's largest number, {largest.item():.2e}, in BF16: {largest.bfloat16().item()}")

# %% [markdown]
# 65,510 is rounded down to 65,504. From 65,520 on, half-way to where the next number would be, the
# result is inf.
#
# BF16 can overflow too: the cast rounds FP32's largest number up, beyond BF16's largest. In the
# same way, FP32's lowest number, `torch.finfo(torch.float32).min`, becomes -inf in BF16. It is
# often used to fill attention masks.
#
# In FP16, two stored exponents have a special meaning, 0 and 31, which has all its bits set:
#
# | stored exponent in FP16 | mantissa 0 | any other mantissa |
# |---|---|---|
# | 0 | zero | subnormal: mantissa/1024 · 2⁻¹⁴ |
# | 1 to 30 | normal: a power of two, from 2⁻¹⁴ to 2¹⁵ | normal: (1 + mantissa/1024) · 2^(exponent − 15) |
# | 31, all ones | inf | NaN |
#
# You can also read the 16 bits as a whole number. For positive numbers, these whole numbers have the same
# order as the numbers that they stand for. So add 1 to the bits of 1.0, and you have the next number after
# 1.0. Add 1 to the bits of 65,504, and you have inf. Two things make this work. The exponent stands to
# the left of the mantissa, and thanks to the bias a larger exponent is stored as a larger whole number.
#
# ## Eight bits
#
# FP8 here means two formats. E4M3 has 4 exponent bits and 3 mantissa bits, and E5M2 has 5 and 2. E4M3
# has 126 positive numbers, from 0.002 to 448. (The next cell counts with the bits, read as whole
# numbers.)

# %% tags=["question"]
predict("number_formats.numbers_below_one")

# %%
for f in (FP8_E4M3, FP8_E5M2, FP16, BF16):
    below, all_of_them = f.encode(1.0) - 1, f.encode(f.max)
    print(f"{f.name:8} {all_of_them:6,} positive numbers, {below:6,} of them below 1")
plots.number_lines([FP8_E4M3, FP8_E5M2], 0, 8)

# %% [markdown]
# In each format, nearly half of the positive numbers are below 1: the powers of two are split about
# evenly.
#
# FP8's range is small, so libraries such as Transformer Engine give an FP8 tensor a *scale*. Before the
# cast, the numbers are multiplied by the scale, so that the largest of them lands near the format's
# largest number. The result of the matrix product is divided by the scales again
# ([[lesson fp8]]). The [paper](https://arxiv.org/abs/2209.05433) that proposed E4M3 and E5M2 in
# 2022 recommends E4M3 for weights and activations, and E5M2 for gradients.
#
# E5M2 has inf, and E4M3 doesn't. In E4M3 the highest exponent stands for numbers too, up to
# (1 + 6/8) · 2⁸ = 448. Only mantissa 7 is NaN there. What a cast does with 1,000 is a choice: 448 or
# NaN. PyTorch 2.13 gives 448 on a CPU. [[deep number_formats]] has more on this, and on newer formats
# with a scale for every few numbers.
#
# ## TF32: FP32 numbers, shortened for a matrix product
#
# No tensor has the dtype TF32. It's a way to *read* FP32 matrices. NVIDIA's [[term tensor core|tensor
# cores]], the GPU's units for matrix products, can do it since Ampere (A100, RTX 30 series). Of each FP32
# number they take the sign, all 8 exponent bits and 10 mantissa bits. They multiply these, and add up in
# FP32. In memory, the matrices stay FP32.
#
# On CUDA, PyTorch uses TF32 for convolutions by default. For matrix products you have to ask:
# `torch.backends.cuda.matmul.fp32_precision = "tf32"`. Here we imitate it on the CPU. We round both
# matrices to a format, and compute their product in FP64, which has 64 bits and is almost exact. (A GPU
# may shorten its inputs in another way.)

# %% tags=["question"]
predict("number_formats.tf32_small_entries")

# %%
torch.manual_seed(0)
left, right = torch.randn(2, 200, 200, dtype=torch.float64)
exact = left @ right
print("entries of size  1       1e-6")
for f in (FP32, TF32, FP16, BF16):
    errors = []
    for size in (1.0, 1e-6):
        product = f.round(left * size) @ f.round(right * size) / size**2
        errors.append((product - exact).norm() / exact.norm())
    print(f"{f.name:5} error  {errors[0]:8.1e} {errors[1]:8.1e}")

# %% [markdown]
# Only FP16 got worse, because 1e-6 is subnormal there. TF32 and BF16 have FP32's exponents. The
# next cell measures your GPU, if it has TF32. If it rounds as our imitation does, its TF32 error is
# about 3e-4. (`"ieee"` is FP32 without a shortcut.)

# %% tags=["live"]
from amp_lessons.amp.speed import why_not

if why_not("tf32"):
    print("Not measured here:", why_not("tf32"))
else:
    left, right = torch.randn(2, 512, 512, device="cuda")
    exact = left.double() @ right.double()
    before = torch.backends.cuda.matmul.fp32_precision
    for precision in ("ieee", "tf32"):
        torch.backends.cuda.matmul.fp32_precision = precision
        error = (left @ right - exact).norm() / exact.norm()
        print(f"{precision}: relative error {error.item():.1e}")
    torch.backends.cuda.matmul.fp32_precision = before

# %% [markdown]
# ## A weight and its update
#
# BF16 has almost the range of FP32, and needs half the bytes. Why not store the weights in it?

# %% tags=["question"]
predict("number_formats.update_of_a_thousandth")

# %%
for f in (FP32, FP16, BF16):
    weight, update = f.round(1.0), f.round(0.001)
    print(f"{f.name}: 1.0 - 0.001 = {f.round(weight - update):.5f}")

# %% [markdown]
# BF16's numbers just below 1 are 0.004 apart, so the update was rounded away.
#
# ## Which format for which tensor?
#
# Ask two questions, in this order. *Range:* what are the largest and the smallest numbers that matter?
# *Precision:* what happens if the last digits are lost?
#
# | tensor | range | precision | format |
# |---|---|---|---|
# | weights that the optimizer updates | narrow | updates are often far smaller than the weight | FP32 |
# | inputs of a matrix product | moderate | each number is rounded once | FP16 or BF16; FP8 with scales |
# | the sum inside a matrix product | grows with its length | rounded again after each addition | FP32 |
# | gradients between the layers | many powers of two | BF16's 8 significant bits were enough in [[lesson amp_in_20_minutes]] | BF16, or FP16 with a loss scale |
# | a loss, a norm, a variance | sums of squares can overflow | a variance can be a small difference of large numbers: without the last digits, nothing is left | FP32 |
#
# On CUDA, PyTorch's matrix products add up in FP32, but by default a GPU may round partial sums to
# 16 bits on the way
# ([docs](https://docs.pytorch.org/docs/stable/notes/numerical_accuracy.html#reduced-precision-reduction-for-fp16-and-bf16-gemms);
# not measured here).
#
# ## Recap
#
# 1. Sign, exponent, mantissa: the exponent bits give the range, the mantissa bits the precision.
# 2. The ulp of normal numbers doubles at each power of two. So they all have the same number of
#    significant bits: 11 in FP16, 8 in BF16. Normalise in FP32 before you cast, and keep ids as integers.
# 3. A cast from FP32 gives the nearest number. A tie goes to the number whose last bit is 0.
# 4. Below 6e-5, FP16's numbers are subnormal: each halving costs a bit. Positive numbers up to 2⁻²⁵
#    become zero, and those from 65,520 on become inf.
# 5. E4M3 has no inf, E5M2 has. TF32 is a way to read FP32 matrices, and saves no memory.
#
# ## Three questions

# %% tags=["question"]
ask(
    "number_formats.first_gap_bf16",
    "number_formats.narrowest_for_range",
    "number_formats.why_a_bias",
)

# %% [markdown]
# **Next:** [[exercises number_formats|the exercises]]: decode bits, find the next number, save small
# gradients, and choose a format. Then [[lesson how_numbers_break]]. Optional: [[deep number_formats]], on
# numbers that are rounded twice, subnormals that a CPU throws away, and scales for blocks.
