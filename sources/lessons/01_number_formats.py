# %% [markdown]
# # Lesson 01: Number formats
#
# **You will be able to** read the bits of a number in any format, say what it can hold and how
# finely, predict how a value is rounded, and choose a format for a tensor.
#
# **Time** 35 minutes. **Needs** [[lesson amp_in_20_minutes]]; no GPU. One cell measures TF32 if there is a GPU.

# %% [markdown]
# ## Three fields
#
# A floating-point number is scientific notation in base 2: a sign, an exponent that says where
# the number lies, and a mantissa that says which of the numbers there it is. FP16 has 1 bit for
# the sign, 5 for the exponent and 10 for the mantissa.
#
# Here are the 16 bits that FP16 stores for 0.1.

# %%
import torch

from amp_lessons.formats import BF16, FORMATS, FP8_E4M3, FP8_E5M2, FP16, FP32, TF32

code = FP16.encode(0.1)
print(f"0x{code:04X}")
print(FP16.bit_string(code))
print(FP16.fields(code))

# %% [markdown]
# The stored exponent is 11. Exponents are stored with a *bias* of 15 added, so that no sign is
# needed for them: 11 stands for $2^{11 - 15} = 2^{-4}$. The mantissa, 614 of 1024, is the part
# after a leading 1 that is not stored, because nearly every number has it. Numbers with that hidden
# 1 are called *normal*. With it FP16 has 11 *significant bits*, though it stores 10.
#
# **Predict:** what does $(1 + 614/1024) \cdot 2^{-4}$ give: 0.1, a little more, or a little less?

# %%
print((1 + 614 / 1024) * 2**-4)
print(torch.tensor(0.1, dtype=torch.float16).double().item())

# %% [markdown]
# A little less, and torch agrees to the last digit. In binary 0.1 has no end, so every format has
# to round it.

# %% [markdown]
# ## The bit explorer
#
# Toggle bits, type values, change the format. Try these:
#
# - 0.3 in FP16, then in BF16: which of the two is closer?
# - 1.0, then its neighbour above: what is the distance? The same for 1024.
# - The pattern with only the last bit set. What kind of number is it?
# - 70000 in FP16. And in BF16?
#
# Tab moves between the controls, the arrow keys between bits, and Space toggles one.

# %% tags=["live"]
from amp_lessons.widgets import BitExplorer

explorer = BitExplorer(value=0.1, format="FP16")
explorer

# %% [markdown]
# ## Where the bits go
#
# This course uses six formats. They differ above all in one decision: how many bits for the
# exponent, how many for the mantissa. **Predict:** FP16 and BF16 both have 16 bits. Which of them
# has the larger range, and what does it pay for it?

# %%
from amp_lessons import plots

plots.bit_layouts(list(FORMATS.values()))

# %% [markdown]
# The exponent decides the **range**, the mantissa the **precision**. BF16 has the layout of FP32
# without its last 16 bits, so it has FP32's range and little precision; FP16 has eight times the
# precision in a small range.
#
# TF32 is not a format for storing. A tensor in memory stays FP32; the *tensor cores* of an NVIDIA
# GPU, its units for matrix products, read it with the mantissa shortened to 10 bits, multiply, and
# add up in FP32.

# %%
print("           bits         max  smallest normal  smallest      eps")
for f in FORMATS.values():
    print(
        f"{f.name:10} {f.bits:4} {f.max:11.5g} {f.min_normal:16.3g} {f.min_subnormal:9.2g}"
        f" {f.eps:8.2g}"
    )

# %% [markdown]
# `eps` is the distance from 1 to the next number. "Smallest" is the smallest positive number of
# all; why that differs from the smallest *normal* one comes below. `torch.finfo` gives the other
# three figures for the formats that torch can store. Torch calls them `float32`, `float16` (`half`
# for short) and `bfloat16`; in this course FP16 names the format, and float16 the dtype of a tensor
# in it.

# %%
for dtype, f in ((torch.float32, FP32), (torch.float16, FP16), (torch.bfloat16, BF16)):
    info = torch.finfo(dtype)
    print(f.name, (info.max, info.smallest_normal, info.eps) == (f.max, f.min_normal, f.eps))

# %%
plots.ranges(list(FORMATS.values()))

# %% [markdown]
# Look at FP16 beside BF16: FP16 spans 40 powers of two in all, BF16 over 250.

# %% [markdown]
# ## Precision is relative
#
# A stretch from one power of two to the next is called a *binade*. Each binade of normal numbers
# holds equally many: 1024 in FP16. So the distance between neighbours, the *ulp* (unit in the last
# place), doubles from each binade to the next.
#
# **Predict:** what is the distance to the next FP16 number at 1, at 1000, at 2048, at 60000?

# %%
for x in (1.0, 1000.0, 2048.0, 60000.0):
    print(f"{x:>8}: FP16 {FP16.ulp(x):<12} BF16 {BF16.ulp(x)}")

# %% [markdown]
# From 2048 on, FP16 has even numbers only, and near 60000 it knows multiples of 32. BF16 cannot
# even count to 300.

# %%
plots.spacing([FP32, FP16, BF16, FP8_E4M3])

# %% [markdown]
# The staircases climb evenly: the *relative* distance is the same everywhere, to within a factor of
# two. But at its left end each becomes flat. What that is comes in the section on the small end.

# %% [markdown]
# ## Rounding
#
# A value between two numbers goes to the nearer one. Exactly half-way, it goes to the one whose
# last mantissa bit is 0: *round to nearest, ties to even*. So on the whole ties go up as often as
# down.
#
# **Predict:** 2049 and 2051 both lie half-way between two FP16 numbers. Where does each go?

# %%
for x in (2049.0, 2051.0):
    print(x, "->", torch.tensor(x, dtype=torch.float16).item(), FP16.neighbours(x))

# %% [markdown]
# 2049 goes down to 2048, 2051 up to 2052. The same rule decides what happens to a small number
# added to 1. **Predict:** what are $1 + 2^{-10}$, $1 + 2^{-11}$ and $1 + 2^{-11} + 2^{-20}$ in
# FP16?

# %%
for name, x in (
    ("1 + 2^-10        ", 1 + 2**-10),
    ("1 + 2^-11        ", 1 + 2**-11),
    ("1 + 2^-11 + 2^-20", 1 + 2**-11 + 2**-20),
):
    print(name, torch.tensor(x, dtype=torch.float16).item())

# %% [markdown]
# In BF16 everything of this kind happens eight times sooner. **Predict:** what is 256 + 1 in
# BF16? And $1 + 2^{-8}$?

# %%
one = torch.tensor(1.0, dtype=torch.bfloat16)
print("256 + 1  =", (256 * one + one).item())
print("1 + 2^-8 =", (one + 2.0**-8).item())

# %% [markdown]
# ## The small end: subnormal numbers
#
# The smallest normal FP16 number is $2^{-14}$. Below it the exponent field is 0, the leading 1 is
# gone, and the spacing stays at $2^{-24}$ all the way down to zero. Those are the *subnormal*
# numbers. The closer to zero, the fewer bits they have.
#
# **Predict:** how large is the relative error of 1e-5, 1e-6 and 1e-7 in FP16?

# %%
for x in (1e-4, 1e-5, 1e-6, 1e-7, 1e-8):
    stored = FP16.round(x)
    kind = FP16.fields(FP16.encode(x)).kind
    print(f"{x:g}: stored {stored:<12.6g} error {abs(stored - x) / x:8.3%}  {kind}")

# %% [markdown]
# Underflow is gradual: the error grows from 0.02% to 19%, and at 1e-8 it is 100%. The last stop
# before zero is $2^{-24}$. **Predict:** which of $2^{-24}$, $2^{-25}$ and a little more than
# $2^{-25}$ survive?

# %%
for name, x in (
    ("2^-24       ", 2**-24),
    ("2^-25       ", 2**-25),
    ("1.01 * 2^-25", 1.01 * 2**-25),
):
    print(name, torch.tensor(x, dtype=torch.float16).item())

# %% [markdown]
# ## The large end: overflow
#
# FP16's largest number is 65504. What lies beyond it becomes infinity, but not at once: a number
# is still rounded as if the format went on.
#
# **Predict:** 65519 and 65520: which is still finite?

# %%
for x in (65504.0, 65519.0, 65520.0):
    print(x, "->", torch.tensor(x, dtype=torch.float16).item())
largest = torch.finfo(torch.float32).max
print("FP32's largest number in BF16 ->", torch.tensor(largest).bfloat16().item())

# %% [markdown]
# If the format went on, the next number after 65504 would be 65536. 65520 lies half-way, and the
# tie goes away from 65504, whose last bit is 1. BF16 has FP32's exponents, and yet FP32's largest
# number does not fit: it is rounded up, and there is nothing above.

# %% [markdown]
# ## The patterns at both ends
#
# Two stored exponents do not stand for a power of two in the usual way. An exponent of **0** means
# no hidden 1: the value is $(-1)^s \cdot m/1024 \cdot 2^{1-15}$ in FP16, with the same power of two
# as a stored exponent of 1. That gives zero and the subnormal numbers. An exponent of **all ones**
# means infinity if the mantissa is 0, and NaN if it is anything else.
#
# **Predict:** which of these five patterns is NaN, and which is the smallest positive number?

# %%
for code in (0x0000, 0x0001, 0x7BFF, 0x7C00, 0x7E01):
    print(f"0x{code:04X}  {FP16.bit_string(code)}  {FP16.decode(code)}")

# %% [markdown]
# ## Eight bits
#
# With 256 patterns one can draw every number. E4M3 has 4 exponent and 3 mantissa bits, E5M2 has 5
# and 2. The paper that introduced them recommends E4M3 for weights and activations and E5M2 for
# gradients, which need more range ([Micikevicius et al.](https://arxiv.org/abs/2209.05433)).

# %%
plots.number_lines([FP8_E4M3, FP8_E5M2], 0, 8)

# %% [markdown]
# E5M2 follows the conventions of IEEE 754, with infinities. E4M3 does not: it gives up infinity to
# gain most of another binade, and so reaches 448 instead of 240. What a cast does beyond that is a
# choice: saturate at 448, or give NaN. The [OCP
# specification](https://www.opencompute.org/documents/ocp-8-bit-floating-point-specification-ofp8-revision-1-0-2023-12-01-pdf-1)
# names both modes.
#
# **Predict:** what does torch 2.13 give for 1000 in each?

# %%
x = torch.tensor([448.0, 1000.0, 57344.0, 70000.0])
print("E4M3", x.to(torch.float8_e4m3fn).float().tolist())
print("E5M2", x.to(torch.float8_e5m2).float().tolist())
print("E4M3, not saturating", FP8_E4M3.round(x).tolist())

# %% [markdown]
# This version of torch saturates in E4M3 and overflows in E5M2. With ranges this small, training in
# FP8 gives each tensor or block a scale of its own; [[lesson past_one_gpu]] comes back to it.

# %% [markdown]
# ## TF32
#
# A GPU that computes a float32 matrix product in TF32 shortens the inputs and keeps the sum in
# FP32. The shortening can be shown anywhere, with `TF32.round`, which rounds to nearest (how a GPU
# shortens is its own affair). **Predict:** how large can the relative error of one product of two
# numbers become, compared with that of one input?

# %%
a, b = torch.rand(2, 100_000, generator=torch.Generator().manual_seed(0)).double() + 1
one = (TF32.round(a) - a).abs() / a
two = (TF32.round(a) * TF32.round(b) - a * b).abs() / (a * b)
print(f"largest relative error: input {one.max():.1e}, product {two.max():.1e}")
print("TF32 has FP16's precision:", TF32.eps == FP16.eps)
print("and FP32's exponents:", TF32.max_exponent == FP32.max_exponent)

# %% [markdown]
# So a TF32 product has about three correct digits, as one of FP16 numbers has, without FP16's small
# range. Whether your GPU does it is another matter. The next cell measures, if it can.

# %% tags=["live"]
from amp_lessons.device import why_not

if why_not("tf32"):
    print("Not measured here:", why_not("tf32"))
else:
    a = torch.rand(512, 512, device="cuda")
    exact = a.double() @ a.double()
    before = torch.backends.cuda.matmul.fp32_precision
    for precision in ("ieee", "tf32"):
        torch.backends.cuda.matmul.fp32_precision = precision
        error = ((a @ a - exact) / exact).abs().max().item()
        print(f"{precision}: largest relative error {error:.1e}")
    torch.backends.cuda.matmul.fp32_precision = before

# %% [markdown]
# ## Which format for which tensor?
#
# Ask two questions, in this order. *Range:* what are the largest and the smallest value that
# matter? *Precision:* what happens to the last digits?
#
# | tensor | range | precision | so |
# |---|---|---|---|
# | weights that the optimizer updates | small | an update is far smaller than the weight | FP32 |
# | inputs of a matrix product | moderate | errors partly average out in the sum | FP16 or BF16; FP8 with scales |
# | the sum inside a matrix product | grows with its length | errors add up | FP32 |
# | gradients of activations | many powers of two | a few bits are enough | BF16, or FP16 with a scale |
# | a loss, a norm, a variance | sums of squares overflow | differences of close numbers | FP32 |
#
# The first row is easily tested. **Predict:** a weight of 1.0 gets an update of 0.001. Which
# formats notice?

# %%
for f in (FP32, FP16, BF16):
    print(f.name, f.round(f.round(1.0) - f.round(0.001)))

# %% [markdown]
# BF16 does not: its neighbours of 1 are 0.996 and 1.008. BF16's range answers underflow, and does
# nothing for precision. "BF16 needs no care" is a myth.

# %% [markdown]
# ## Recap
#
# 1. Sign, exponent, mantissa: the exponent bits give range, the mantissa bits precision.
# 2. Neighbours are one ulp apart, and the ulp doubles from each binade to the next.
# 3. Rounding goes to the nearest number, ties to the even one. 65520 is the first to overflow in
#    FP16, and $2^{-25}$ the last to become zero.
# 4. FP16: 11 significant bits, $2^{-24}$ to 65504. BF16: 8 significant bits, FP32's exponents.
# 5. E4M3 has no infinity, TF32 is no format for storing, and range comes before precision.

# %% [markdown]
# ## Three questions

# %% tags=["question"]
from amp_lessons.interview import ask

ask(
    "number_formats.first_gap_bf16",
    "number_formats.narrowest_for_range",
    "number_formats.why_a_bias",
)

# %% [markdown]
# **Next:** [[exercises number_formats|four exercises]], then [[lesson how_numbers_break]].
