# %% [markdown]
# # Lesson 00: Start here
#
# **You will be able to** say why a gradient can vanish in FP16 and what brings it back, see what
# your machine can measure, and use the checks of this course.
#
# **Time** 10 minutes. **Needs** any computer; no GPU.
#
# Run each cell with Shift+Enter, from top to bottom. Before you run a cell, say aloud what you
# expect. A guess that turns out wrong teaches more than a page that you agree with.

# %% [markdown]
# ## The smallest model there is
#
# FP16 is a number format with 16 bits, half of those of FP32, PyTorch's default. Mixed precision
# training does most of its arithmetic in such a format: suitable hardware does more of it per
# second, and each stored value takes half the bytes.
#
# Here is a model with one weight, one input and one loss. Nothing in it is unusual; two of its
# factors are small.

# %%
import torch


def gradient(dtype, scale=1.0):
    """d(loss)/d(weight), computed in dtype, with the loss multiplied by scale."""
    weight = torch.tensor(1.0, dtype=dtype, requires_grad=True)
    activation = torch.tensor(2.0**-14, dtype=dtype)
    loss = (weight * activation).float() * 2.0**-12
    (loss * scale).backward()
    return weight.grad


# %% [markdown]
# By the chain rule the gradient is $2^{-14} \cdot 2^{-12} = 2^{-26}$, about 1.5e-8.
# **Predict:** what does the backward pass give in FP32, and what in FP16?

# %%
# NBVAL_CHECK_OUTPUT
print("FP32", gradient(torch.float32).item())
print("FP16", gradient(torch.float16).item())

# %% [markdown]
# Zero, and no warning. Under plain SGD a weight whose gradient is zero does not move, so a network
# with many of them learns slowly or not at all, and looks healthy.
#
# This is *underflow*: the smallest positive number that FP16 has is $2^{-24}$, and $2^{-26}$ lies
# closer to zero than to it.

# %% [markdown]
# ## Scale the loss
#
# A gradient is linear in the loss: multiply the loss by 65536 and every gradient is multiplied by
# 65536 too. **Predict:** what is the gradient of the scaled loss in FP16? And divided by 65536
# again, in FP32?

# %%
# NBVAL_CHECK_OUTPUT
scale = 2.0**16
scaled = gradient(torch.float16, scale)
unscaled = scaled.float() / scale
print("scaled gradient, FP16  ", scaled.item())
print("divided again, FP32    ", unscaled.item())
print("exactly the true value:", bool(unscaled == gradient(torch.float32)))

# %% [markdown]
# The gradient is back, to the last bit. This is *loss scaling*, and it is the idea behind
# PyTorch's `GradScaler`: move the small numbers into the range of the format while they are
# stored in it, and move them back where there is room.

# %%
from amp_lessons import plots
from amp_lessons.formats import FP16

plots.rescue(2.0**-26, scale, FP16)

# %% [markdown]
# The hatched part holds FP16's very smallest numbers, the *subnormal* ones, which have fewer and
# fewer bits. Lesson 01 explains them.
#
# ## On a real network
#
# One weight proves little. The next cell takes a network with two hidden layers, one batch of
# scikit-learn's handwritten digits, and a loss with a weight of one in a million, such as a small
# auxiliary loss may have. All gradients are computed in FP32, and then counted: of those that are
# not zero already, how many would be zero if they were stored in FP16?
#
# **Predict:** a few, about half, or nearly all?

# %%
# NBVAL_CHECK_OUTPUT
from amp_lessons.scaling import fate
from amp_lessons.training import digits_gradients

gradients = digits_gradients(loss_factor=1e-6).values()
for scale in (1.0, 2.0**16):
    counted = fate(gradients, scale)
    total = counted.zero + counted.subnormal + counted.normal
    print(f"scale {scale:>5.0f}: {counted.zero:4} of {total} gradients become zero in FP16")

# %% [markdown]
# Lesson 02 looks at these gradients one binary exponent at a time.

# %% [markdown]
# ## What your machine can do
#
# This course runs on any machine. What only an NVIDIA GPU can show is marked: there it is
# measured, and elsewhere it says *not measured here*. The next cell depends on your machine, so
# the course keeps no output for it. In a terminal, `amp-lessons doctor` says more.

# %% tags=["live"]
from amp_lessons.device import devices


def yes_or_no(fact):
    return {True: "yes", False: "no", None: "not known"}[fact]


print(f"PyTorch {torch.__version__}")
for device in devices():
    print(f"{device.name}: {device.model}")
    for name, fact in (("FP16", device.fp16), ("BF16", device.bf16), ("TF32", device.tf32)):
        print(f"    computes in {name} natively: {yes_or_no(fact)}")

# %% [markdown]
# BF16 and TF32 are two more formats; lesson 01 has them. For FP16 and BF16 a "no" does not mean
# that the format cannot be used. Without native arithmetic the results are the same kind of
# numbers, rounded to the same format, only slower. (TF32 is another matter: it exists only inside a
# GPU.) So what is *true* of a format can be shown on your machine, and what is *fast* often cannot.

# %% [markdown]
# ## How the course works
#
# - A cell that begins with `# NBVAL_CHECK_OUTPUT` prints a fact. Our tests run it again at every
#   change and compare. If your output differs, trust your run, and tell us.
# - Each lesson has a sheet of exercises in the folder `exercises`. A **check** tells five states
#   apart: not attempted, wrong, error, passed, skipped. A wrong answer gets a diagnosis: which
#   mistake it is, not merely that there is one.
# - `ex.NAME.hint()` gives the next hint. `ex.NAME.solution()` opens after a pass, or when you give
#   up with `solution(give_up=True)`.
# - Your progress is kept outside the notebooks. `amp-lessons progress` lists it, and
#   `amp-lessons reset NAME` puts an exercise back as it was.
#
# Here is a check at work, on the untouched stub and on a wrong answer of ours. The task: does a
# number remain different from zero in FP16? Your answer is asked for in
# `exercises/00_amp_in_20_minutes_exercises.ipynb`. **Predict:** what is wrong with comparing x with $2^{-24}$?

# %%
# NBVAL_CHECK_OUTPUT
from amp_lessons.checks import amp_in_20_minutes as ex


def stub(x):
    raise NotImplementedError()


def compare_with_the_smallest(x):
    return abs(x) >= 2.0**-24


for answer in (stub, compare_with_the_smallest):
    verdict = ex.survives.evaluate(answer)
    print(f"{verdict.state}: {verdict.message}\n")

# %% [markdown]
# ## Recap
#
# 1. FP16's smallest positive number is $2^{-24}$. A gradient of half of it or less becomes zero,
#    silently.
# 2. Scaling the loss scales every gradient by the same factor.
# 3. Dividing by a power of two afterwards is exact, if it is done in FP32.
# 4. What a format does to a number can be shown on any machine; its speed cannot.
# 5. Predict, run, explain.

# %% [markdown]
# ## Three questions
#
# **1.** A gradient of $2^{-26}$ becomes zero in FP16. Which is the smallest power of two that saves
# it? (a) 2 (b) 4 (c) 65536
#
# <details><summary>Answer</summary>
#
# **(b)** $4 \cdot 2^{-26}$ is $2^{-24}$, FP16's smallest number. (a) gives $2^{-25}$, half-way
# between 0 and $2^{-24}$, and a tie goes to the even one, 0. (c) works, and is far more than is
# needed.
#
# </details>
#
# **2.** The loss is multiplied by 1024, and nobody divides the gradients again. With plain SGD,
# what has changed? (a) nothing (b) the learning rate is in effect 1024 times as large
# (c) the loss overflows
#
# <details><summary>Answer</summary>
#
# **(b)** SGD moves a weight by the learning rate times the gradient. (a) is true of the *direction*
# of the step only. (c) needs a loss of about 64 or more, and one that is stored in FP16.
#
# </details>
#
# **3.** How does PyTorch tell you that gradients have underflowed? (a) a warning (b) NaN in the
# loss (c) not at all
#
# <details><summary>Answer</summary>
#
# **(c)** A zero is an ordinary number. Where NaN comes from, lesson 02 shows.
#
# </details>

# %%
# NBVAL_CHECK_OUTPUT
# The answers, computed.
print("1.", next(k for k in (2, 4, 65536) if gradient(torch.float16, k) != 0))
ratio = gradient(torch.float32, 1024) / gradient(torch.float32)
print("2. every gradient is", int(ratio), "times as large")
print("3. nothing is said, and the gradient is", gradient(torch.float16).item())

# %% [markdown]
# **Next:** the exercise in `exercises/00_amp_in_20_minutes_exercises.ipynb`, then lesson 01,
# `notebooks/01_number_formats.ipynb`.
