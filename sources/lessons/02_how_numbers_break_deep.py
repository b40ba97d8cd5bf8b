# %% [markdown]
# # Lesson 02, deeper: More ways to lose a number
#
# This notebook is optional. It looks closer at what [[lesson how_numbers_break]] passes quickly: a
# single gradient that underflows, the exact limits of swamping, rounding at random, a binary loss, masks
# that add up, and a CPU that flushes tiny numbers to zero.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson how_numbers_break]].

# %%
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from amp_lessons import FP16, plots, predict
from amp_lessons.lessons.experiments import rounded_at_random

# %% [markdown]
# ## One gradient by hand
#
# The smallest example of underflow has one weight. Its activation is $2^{-14}$, and the gradient that
# arrives from the loss is $2^{-12}$. FP16 can hold both. The gradient of the weight is their product,
# $2^{-26}$, and FP16 can't hold that.


# %%
def gradient(dtype, scale=1.0):
    weight = torch.tensor(1.0, dtype=dtype, requires_grad=True)
    activation = torch.tensor(2.0**-14, dtype=dtype)
    loss = (weight * activation).float() * 2.0**-12
    (loss * scale).backward()
    return weight.grad.float().item() / scale


print(f"FP32: {gradient(torch.float32):.3g}, FP16: {gradient(torch.float16):.3g}")
print(f"FP16, scaled by 65,536 and divided again: {gradient(torch.float16, 65_536.0):.3g}")
plots.rescue(2.0**-26, 2.0**16, FP16)

# %% [markdown]
# ## Where between two powers of two?
#
# In FP16 an update may be lost from weight / 2,048 on, and from weight / 4,096 on it is lost. Why are
# there two limits? FP16 numbers between 1 and 2 all have the same gap. But 1.0 and 1.999 are not the
# same size, so the same gap is a larger part of 1.0.

# %% tags=["question"]
predict("how_numbers_break.updates_of_one_3000th")

# %%
weights = FP16.decode(torch.arange(0x0400, 0x7C00))  # every normal FP16 number above 0
for divisor in (2047, 2048, 2500, 3000, 3500, 4096):
    same = FP16.round(weights + weights / divisor) == weights
    print(f"update of weight / {divisor}: {same.double().mean():6.1%} of the weights stay")

# %% [markdown]
# Rounding can also make an update larger. Here a weight of 1.0 gets a thousand updates of −0.00025,
# which should bring it to 0.75. Below 1.0 the gap is 0.00049, and the update is a little more than half
# of it.

# %%
weight = torch.tensor(1.0).half()
for _ in range(1000):
    weight = weight - 2.5e-4
print(f"should be 0.75, is {weight.item():.2f}")

# %% [markdown]
# Each time the result is rounded away from the old weight, by nearly half a gap. The errors all have
# the same direction, so they add up. That is what rounding at random avoids.
#
# ## BF16 weights that do move
#
# If there is no memory for FP32 weights, BF16 weights can be rounded at random. `rounded_at_random`,
# from this course's package, rounds an FP32 number up or down. The closer neighbour is more likely.

# %% tags=["question"]
predict("how_numbers_break.rounded_at_random")

# %%
draw = torch.Generator().manual_seed(0)
nearest = torch.ones(1000, dtype=torch.bfloat16)
random = torch.ones(1000, dtype=torch.bfloat16)
for _ in range(1000):
    nearest = nearest - 1e-4
    random = rounded_at_random(random.float() - 1e-4, draw)
for name, weights in (("to nearest", nearest), ("at random", random)):
    low, high = weights.min().item(), weights.max().item()
    print(f"{name:10}  from {low:.2f} to {high:.2f}, mean {weights.float().mean().item():.2f}")

# %% [markdown]
# ## A binary loss
#
# A classifier with two classes puts out one logit. Its probability is the sigmoid of the logit. For a
# target of 0, the loss is −log(1 − p).

# %% tags=["question"]
predict("how_numbers_break.logit_of_10")

# %%
logit, target = torch.tensor(10.0).half(), torch.tensor(0.0).half()
p = torch.sigmoid(logit)
print(f"probability {p.item()}, -log(1 - p) = {-(1 - p).log().item()}")
print(f"from the logit: {binary_cross_entropy_with_logits(logit, target).item():.1f}")

# %% [markdown]
# [[Lesson losses_and_ops]] looks at the gradients of both.
#
# ## Masks that add up
#
# Many models add a mask to the scores instead of filling it in. Here the hidden places get −65,504
# added, FP16's lowest finite number. The second row is padding: everything in it is hidden.

# %%
scores = torch.tensor([[1.0, 2.0, 3.0], [-20.0, -30.0, -40.0]]).half()
hidden = torch.tensor([[False, False, True], [True, True, True]])
lowest = torch.finfo(torch.float16).min
added = scores + hidden.half() * lowest
for name, masked in (("added", added), ("filled in", scores.masked_fill(hidden, lowest))):
    row = [round(p, 2) for p in torch.softmax(masked, -1)[1].tolist()]
    print(f"{name:9}  padding row {masked[1].tolist()}, softmax {row}")

# %% [markdown]
# −65,504 − 20 is −65,524, and from −65,520 on FP16 has only −inf. The softmax of a row of −inf is NaN.
# The same happens where two masks are added, one for padding and one for the future. Combine masks as
# booleans, and fill in once.
#
# ## Positions that a cast moves
#
# Many language models tell positions apart by angles: position times a frequency, for 32 frequencies in
# the cell below (RoPE). The frequencies are often stored in a *buffer*, a tensor of the model that isn't
# trained. `model.to(torch.bfloat16)` casts buffers too.

# %%
frequencies = 1e4 ** -(torch.arange(32) / 32)
positions = torch.arange(4096)
exact = positions[:, None] * frequencies.double()
cast = positions[:, None] * frequencies.bfloat16().double()
off = (cast - exact).abs().amax(1)
print(f"frequencies cast: one angle is wrong by a radian from position {(off > 1).nonzero()[0, 0]}")
different = positions.bfloat16().unique().numel()
print(f"positions cast:   {different} of {positions.numel()} positions stay different")

# %% [markdown]
# Between 256 and 512 BF16 has only even numbers, so two neighbours get the same position. Compute the
# angles in FP32 and cast their cosines and sines: these are at most 1. If the model has a buffer of
# frequencies, make it again in FP32 after the cast, or keep it out of the cast.
#
# ## A CPU that flushes to zero
#
# Subnormal numbers can be slow on a CPU. `torch.set_flush_denormal(True)` makes the CPU replace them by
# zero in the calling thread, where it supports that ([docs](https://docs.pytorch.org/docs/stable/generated/torch.set_flush_denormal.html)).
# What you see here depends on your CPU.

# %% tags=["live"]
for flush in (False, True):
    supported = torch.set_flush_denormal(flush)
    fp32 = (torch.tensor([2e-38]) * 0.1).item()
    fp16 = (torch.tensor([1e-4]).half() * 0.01).item()
    setting = "flush" if flush and supported else "keep"
    print(f"{setting:5}  FP32: 2e-38 times 0.1 is {fp32:.2g}, FP16: 1e-4 times 0.01 is {fp16:.2g}")
torch.set_flush_denormal(False)

# %% [markdown]
# On the CPU that this was written on, flushing removes FP32's subnormal numbers and leaves FP16's alone.
# The likely reason: it computes FP16 products in FP32, where 1e-6 is a normal number.
#
# Back to [[lesson how_numbers_break]], its [[exercises how_numbers_break]], or on to
# [[lesson amp_from_scratch]].
