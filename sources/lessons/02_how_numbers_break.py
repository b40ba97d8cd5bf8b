# %% [markdown]
# # Lesson 02: Three ways numbers break
#
# **You will be able to** tell underflow, overflow and swamping apart by their symptoms, say where
# a NaN comes from, and write sums, softmaxes and masks that hold in 16 bits.
#
# **Time** 40 minutes. **Needs** [[lesson number_formats]]; no GPU.
#
# A 16-bit format can fail in three ways: a number is too small for it, too large for it, or too
# small *beside another number*. Each has its own symptom and its own remedy, and mixed precision
# training is the three remedies put together.

# %%
import torch

from amp_lessons import plots
from amp_lessons.formats import BF16, FP16, FP32

half, bfloat = torch.float16, torch.bfloat16

# %% [markdown]
# ## Underflow: too small
#
# A value of half of the smallest number or less becomes zero. It is the quietest fault of the
# three, and gradients are its usual victims. Here is one weight, whose gradient is
# $2^{-14} \cdot 2^{-12} = 2^{-26}$. **Predict:** what does the backward pass give in FP16? And with
# the loss multiplied by 65536?


# %%
def gradient(dtype, scale=1.0):
    """d(loss)/d(weight), computed in dtype, with the loss multiplied by scale."""
    weight = torch.tensor(1.0, dtype=dtype, requires_grad=True)
    activation = torch.tensor(2.0**-14, dtype=dtype)
    loss = (weight * activation).float() * 2.0**-12
    (loss * scale).backward()
    return weight.grad


print("FP32       ", gradient(torch.float32).item())
print("FP16       ", gradient(half).item())
print(
    "FP16 scaled", gradient(half, 2.0**16).item(), "divided", gradient(half, 2.0**16).item() / 65536
)

# %%
plots.rescue(2.0**-26, 2.0**16, FP16)

# %% [markdown]
# The smaller the loss, the more gradients a network loses. Here is a classifier of the handwritten
# digits. Its loss has a weight of 1, as usual; of 0.01, as one of several losses may have; and of one
# in a million. Of its gradients, 7,415 are not zero in FP32. **Predict:** how many of these become
# zero in FP16?

# %%
from amp_lessons.loss_scale import exponent_histogram, fate, smallest_safe_scale
from amp_lessons.training import digits_gradients

for weight in (1.0, 1e-2, 1e-6):
    counted = fate(digits_gradients(loss_factor=weight).values(), 1.0)
    total = counted.zero + counted.subnormal + counted.normal
    print(f"loss times {weight:<5g}: {counted.zero:4} of {total} become zero in FP16")

# %% [markdown]
# At a weight of 1 this network hardly notices. Here are the gradients for a weight of 1e-6, by their
# binary exponent.

# %%
gradients = digits_gradients(loss_factor=1e-6)
histogram = exponent_histogram(gradients.values())
plots.gradient_histogram(histogram, FP16)

# %% [markdown]
# All of them lie left of FP16's range; a single one is close enough to be rounded up into it.
# **Predict:** by how many powers of two must the histogram move to the right until most of it is
# inside? And until all of it is?

# %%
for exponent in (0, 8, 16, 24):
    counted = fate(gradients.values(), 2.0**exponent)
    print(
        f"scale 2^{exponent:<2}: {counted.zero:4} become zero, {counted.subnormal:4} subnormal,"
        f" {counted.normal:4} normal, {counted.overflow} overflow"
    )

# %% [markdown]
# Here is the same as a picture that you can move. Focus the slider and use the arrow keys.
#
# - Find the smallest scale at which nothing becomes zero. Does anything overflow there?
# - Change the format to FP8 E4M3. Is there a scale that saves every gradient?
# - Change the format to BF16. Why does the slider hardly matter any more?

# %% tags=["live"]
from amp_lessons.widgets import GradientHistogram

GradientHistogram(gradients, format="FP16")

# %%
scale = smallest_safe_scale(gradients.values())
largest = max(g.abs().max().item() for g in gradients.values())
print(f"nothing becomes zero from 2^{int(torch.tensor(scale).log2())}")
print("nothing overflows up to 2^40:", 2.0**40 * largest < 65520)
print("BF16 loses", fate(gradients.values(), 1.0, BF16).zero, "without any scale")

# %% [markdown]
# Here there is room to spare between the two ends: any scale from $2^{23}$ to $2^{40}$ will do. One
# scale for all gradients of a network works because their spread is usually smaller than the
# range of the format.
#
# ## Small constants
#
# Underflow hides in constants too. **Predict:** in FP16, what is 1 / (0 + 1e-8)? And with 1e-7?

# %%
zero = torch.tensor(0.0, dtype=half)
for eps in (1e-8, 1e-7):
    print(f"eps {eps:g}: 1/(0+eps) = {(1 / (zero + eps)).item():g}", end="   ")
    print(f"log(0+eps) = {(zero + eps).log().item():g}")

# %% [markdown]
# 1e-8, a popular eps, is 0 in FP16: it protects nothing. 1e-7 survives, but its reciprocal is
# beyond 65504, and overflows. A constant that is safe in FP32 has to be looked at again in 16
# bits.

# %% [markdown]
# ## Overflow: too large
#
# A value from 65520 on becomes infinity. **Predict:** up to which whole number does exp(x) fit?
# And what is 256 squared?

# %%
for x in (10.0, 11.0, 12.0):
    print(f"exp({x:.0f}) = {torch.tensor(x, dtype=half).exp().item():g}")
print("256 ** 2 =", (torch.tensor(256.0, dtype=half) ** 2).item())

# %% [markdown]
# Squares are where it happens in practice: a norm, a variance, a mean of squares. The result would
# fit; a step on the way does not. **Predict:** the root of the mean square of four times 300, in
# three ways: by squaring first, by dividing first, and in FP32?

# %%
x = torch.full((4,), 300.0, dtype=half)
print("mean square, then root:", x.square().mean().sqrt().item())
print("divide by 300 first:   ", ((x / 300).square().mean().sqrt() * 300).item())
print("squares in float32:    ", x.float().square().mean().sqrt().half().item())

# %% [markdown]
# ## Where NaN comes from
#
# It is often said that NaN losses come from underflow. **Predict:** which of these give NaN?

# %%
inf = torch.tensor(70000.0).half()
tiny = torch.tensor(1e-8).half()
for name, value in (
    ("1e-8 stored", tiny),
    ("1e-8 * 1e-8", tiny * tiny),
    ("70000 stored", inf),
    ("70000 - 70000", inf - inf),
    ("70000 * 1e-8", inf * tiny),
    ("1e-8 / 1e-8", tiny / tiny),
    ("log(1e-8)", tiny.log()),
):
    print(f"{name:15}", value.item())

# %% [markdown]
# Underflow gives zeros, and a zero by itself stays quiet: training stalls. Most NaNs come from an
# infinity (inf − inf, 0 · inf) or from 0/0; the root or the logarithm of a negative number gives
# one too. So when a loss becomes NaN, look for something that became too large, and for a division
# by, or a logarithm of, something that became zero.

# %% [markdown]
# ## Swamping: too small beside another
#
# 2048 and 1 are both FP16 numbers. **Predict:** what is their sum? And if 1 is added ten thousand
# times, one after the other, in FP16 and in BF16?

# %%
print("2048 + 1 =", (torch.tensor(2048.0, dtype=half) + 1).item())
for dtype in (half, bfloat, torch.float32):
    total = torch.tensor(0.0, dtype=dtype)
    for _ in range(10_000):
        total = total + 1
    print(f"{dtype}: ten thousand ones give {total.item():g}")

# %% [markdown]
# Once the ulp of the total is twice the number that is added, the sum lands half-way and goes back
# to the even neighbour. The total stands still at 2048 in FP16 and at 256 in BF16. Nothing
# overflowed, nothing became zero: the small number was *swamped* by the large one.
#
# **Predict:** what does `.sum()` give for the same numbers in FP16? And for a hundred thousand?

# %%
for count in (10_000, 100_000):
    print(count, "ones, .sum():", torch.ones(count, dtype=half).sum().item())

# %% [markdown]
# `.sum()` is right, because it accumulates in a wider format and rounds once at the end. Tensor
# cores can do the same inside a matrix product. But the *result* is stored in FP16 again, and
# 100000 is beyond 65504: a wide accumulator does not help against overflow of what is stored.

# %% [markdown]
# ## The weight that does not move
#
# Training adds small updates to large weights, thousands of times. **Predict:** a weight of 1.0
# gets a thousand updates of −0.0001. Where does it end in FP32, FP16 and BF16?

# %%
paths = {}
for f in (FP32, FP16, BF16):
    path = [1.0]
    for _ in range(1000):
        path.append(f.round(path[-1] - f.round(1e-4)))
    paths[f.name] = path
    print(f"{f.name}: {path[-1]:.4f}")

# %%
plots.curves(
    {"FP32": paths["FP32"], "FP16, BF16": paths["FP16"]},
    title="A weight of 1.0 after updates of −0.0001",
    xlabel="updates",
    ylabel="weight",
    alt="The weight in FP32 falls in a straight line from 1.0 to 0.9; in FP16 and BF16 it stays at 1.0.",
)

# %% [markdown]
# In 16 bits not one of the thousand updates arrives. In FP16 an update can be lost once the weight
# is 2048 times as large as it ([Micikevicius et al.](https://arxiv.org/abs/1710.03740), section
# 3.1), and from 4096 times on it always is. In BF16 the two are 256 and 512. So the weights that
# the optimizer updates are kept in FP32: that is what *master weights* are for. (In PyTorch's AMP
# they are the parameters themselves, and the 16-bit copies are temporary.)
#
# Why two figures? The ulp is the same for 1.0 and for 1.999, so half an ulp is 1/2048 of the one
# and 1/4096 of the other. **Predict:** how many of all weights does an update of weight/2048 leave
# in place? Of weight/3000, of weight/4096?

# %%
weights = FP16.decode(torch.arange(0x0400, 0x7C00))  # every normal FP16 number
for ratio in (2048, 3000, 4096):
    stuck = FP16.round(weights + weights / ratio) == weights
    print(f"weight/{ratio} does not move {stuck.double().mean():6.1%} of the weights")

# %% [markdown]
# ## Cancellation: the digits that were never there
#
# A fourth effect looks like a fault of subtraction, and is not. **Predict:** how large is the
# relative error of 1.001 − 1 in FP16? And what is the variance of 10.01, 10.02 and 10.03, which is
# 6.67e-5, as the mean of the squares less the square of the mean?

# %%
a, b = torch.tensor(1.001, dtype=half), torch.tensor(1.0, dtype=half)
print("1.001 is stored as", a.item())
print(f"1.001 - 1 gives {(a - b).item()}: {1 - (a - b).item() / 0.001:.1%} off")
v = torch.tensor([10.01, 10.02, 10.03], dtype=half)
print(f"mean of squares less square of mean: {(v.square().mean() - v.mean() ** 2).item():.3g}")
print(f"mean of squared differences:         {(v - v.mean()).square().mean().item():.3g}")

# %% [markdown]
# The subtraction itself is exact. It removes what both numbers share and leaves their rounding
# errors, which now are most of what there is. A variance that comes out negative is the classic
# sign; its square root is NaN. The remedy is to subtract *first*, while the digits are there, and
# to square afterwards, or to do the whole in FP32. (The second result is not good either, because
# 10.01, 10.02 and 10.03 were rounded when they were stored. But it cannot be negative.)

# %% [markdown]
# ## A softmax that holds
#
# Softmax is exp divided by a sum of exps. Written like that it fails at once. **Predict:** which
# of these logits can it stand in FP16: 5, 11, 12?


# %%
def plain_softmax(x):
    return x.exp() / x.exp().sum()


def shifted_softmax(x):
    return plain_softmax(x - x.max())


for largest in (5.0, 11.0, 12.0):
    x = torch.tensor([largest, largest - 1, 0.0], dtype=half)
    print(largest, plain_softmax(x).tolist()[0], shifted_softmax(x).tolist()[0])

# %% [markdown]
# At 12 the plain one divides inf by inf. At 11 exp still fits, but the sum does not, and a
# probability of 0.73 becomes 0. Subtracting the largest logit changes nothing in exact arithmetic,
# and then exp never sees more than 0. `torch.softmax` does it too.
#
# **Predict:** is the logarithm of a softmax safe now?

# %%
x = torch.tensor([0.0, -30.0], dtype=half)
print("log(softmax(x))  ", torch.softmax(x, 0).log().tolist())
print("log_softmax(x)   ", torch.log_softmax(x, 0).tolist())

# %% [markdown]
# The probability of the second class underflows to 0, and its logarithm is −inf. `log_softmax`
# never forms the probability. That is why losses take logits; you write it yourself in the
# exercises.
#
# The same trap waits in a binary loss. **Predict:** with the logit 10 and the target 0 the loss is
# about 10. What does it give in FP16 by way of the probability?

# %%
logit = torch.tensor(10.0, dtype=half)
probability = torch.sigmoid(logit)
print("probability     ", probability.item())
print("-log(1 - p)     ", -(1 - probability).log().item())
print("from the logit  ", torch.nn.functional.softplus(logit).item())

# %% [markdown]
# The probability is 0.99995, FP16 rounds it to 1, and 1 − 1 is 0. PyTorch's
# `binary_cross_entropy_with_logits` takes the second way. [[Lesson losses_and_ops]] looks at its gradient.

# %% [markdown]
# ## A mask that fits
#
# Attention masks are often written with −1e9, "minus infinity for all practical purposes".
# **Predict:** what happens in FP16? And with a true −inf, in a row in which everything is masked?

# %%
scores = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=half)
masked = torch.tensor([[False, True], [True, True]])
try:
    scores.masked_fill(masked, -1e9)
except RuntimeError as error:
    print("RuntimeError:", error)
for fill in (-torch.inf, torch.finfo(half).min):
    print(fill, torch.softmax(scores.masked_fill(masked, fill), -1).tolist())

# %% [markdown]
# torch refuses to fill with a finite number beyond the range of the dtype. (Adding −1e9 to a score
# is not refused: it gives −inf.) −inf works until a row has nothing left, and then gives NaN.
# `torch.finfo(dtype).min` fits every dtype and is finite.

# %% [markdown]
# ## Three remedies
#
# | fault | symptom | remedy in mixed precision training |
# |---|---|---|
# | underflow | gradients that are exactly zero, a loss that stalls | loss scaling (FP16); BF16 |
# | overflow | inf, then NaN | FP32 for exp, norms and losses; in gradients: skip the step, lower the scale |
# | swamping | weights that do not move, sums that stand still | FP32 weights; wide accumulation |
#
# [[Lesson amp_from_scratch]] builds mixed precision training from these three, and takes each away again to see it
# fail.

# %% [markdown]
# ## Recap
#
# 1. Underflow gives zeros and no message; FP16 loses $2^{-25}$ and all below it.
# 2. Overflow gives inf from 65520 on, most often in squares and exps on the way to a small result.
# 3. Most NaNs come from an infinity or from 0/0; underflow alone makes training stall.
# 4. Swamping loses the smaller of two numbers from a ratio of 2048 to 4096 in FP16, and of 256 to
#    512 in BF16.
# 5. Stay with logarithms, subtract before you square, ask the dtype for its limits.

# %% [markdown]
# ## Three questions

# %% tags=["question"]
from amp_lessons.interview import ask

ask(
    "how_numbers_break.bf16_weights_stand_still",
    "how_numbers_break.ones_after_2048",
    "how_numbers_break.which_can_be_nan",
)

# %% [markdown]
# **Next:** [[exercises how_numbers_break|four exercises]]: a sum that keeps its small
# terms, a log-softmax, a mask, and ten faults to name. Then [[lesson amp_from_scratch]]: AMP from scratch.
