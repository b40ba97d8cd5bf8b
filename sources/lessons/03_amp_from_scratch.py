# %% [markdown]
# # Lesson 03: AMP from scratch
#
# In [[lesson amp_in_20_minutes]], `torch.autocast` and a `GradScaler` did the work. Here you train in
# FP16 without them. Each fix shows you the next thing that breaks, and in the end you have built
# mixed precision by hand.
#
# **You will be able to** write a mixed precision training step with nothing but tensors and autograd,
# name the three ingredients that it needs, and tell from the symptoms which one is missing.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson how_numbers_break]]; no GPU.

# %%
from copy import deepcopy

import torch
from torch.nn.functional import mse_loss

from amp_lessons import ask, autoencoder, load_digits, plots, predict

device = "cuda" if torch.cuda.is_available() else "cpu"
pictures = load_digits().train_images[:600].to(device)
big = 100_000_000

# %% [markdown]
# ## A colleague converts everything to FP16
#
# A colleague trains the network of [[lesson amp_in_20_minutes]], which paints a copy of each digit. An
# FP16 number takes half the memory, so she calls `.half()` on the model and on the pictures. Here is
# her training step. She uses no optimizer: `update` is plain SGD, computed in FP32. `copy_` then rounds
# the new weight to the dtype that the weight has.
#
# As in [[lesson amp_in_20_minutes|lesson 00]], the pictures are small, and we pretend that they are
# big. The loss is divided by 100 million pixels, and the learning rate is raised to make up for
# that. `scale` is for later.


# %%
@torch.no_grad()
def update(model, gradients_from, lr, scale):
    for weight, other in zip(model.parameters(), gradients_from.parameters(), strict=True):
        gradient = other.grad.float() / scale  # convert to FP32 first, then divide
        weight.copy_(weight - lr * gradient)


def plain_step(model, x, lr, scale):
    model.zero_grad()
    x = x.to(model[0].weight.dtype)  # an FP16 model gets FP16 pictures
    error = mse_loss(model(x), x, reduction="sum")
    (error / big * scale).backward()
    update(model, model, lr, scale)
    return error.item() / x.numel()


# %%
def train(step, model, x=pictures, rate=2.0, steps=150, scale=1.0):
    lr = rate * big / x.numel()
    return [step(model, x, lr, scale) for _ in range(steps)]


def new_model():
    return autoencoder().to(device)  # always the same initial weights


first_fp32 = train(plain_step, new_model())
first_fp16 = train(plain_step, new_model().half())
print(f"error per pixel: FP32 {first_fp32[-1]:.3f}, FP16 {first_fp16[-1]:.3f}")

# %% [markdown]
# 0.245 is the error that both start with, so the FP16 model has learned nothing. You know this fault
# already: [[term underflow]]. Backward begins with 1 and divides it by 100 million. In FP16 the result,
# 1e-8, is rounded to zero, and every other gradient is computed from it.
#
# Your colleague knows the cure too. `GradScaler` starts with a scale of 65,536, so she multiplies
# her loss by 65,536, which is $2^{16}$.

# %% tags=["question"]
predict("amp_from_scratch.scaled_in_fp16")

# %%
scaled = train(plain_step, new_model().half(), scale=2.0**16)
print(f"error per pixel: {scaled[0]:.3f} in the first step, {scaled[1]:.3f} in the second")

# %% [markdown]
# The loss of 6.2 is fine. But backward begins with the scale, as an FP16 number, and 65,536 is inf
# in FP16.
#
# ## Six backward passes
#
# Let's look at single backward passes, each with a new FP16 model. We count the gradients that are inf
# or NaN. The first two passes use her loss, with scales of $2^{15}$ and $2^{16}$.
#
# Then we make the loss large on purpose. We divide by 600, the number of pictures, instead of 100
# million. We try no scale, $2^{14}$, $2^{15}$ and $2^{16}$.

# %% tags=["question"]
predict("amp_from_scratch.infinite_loss")


# %%
def show_bad_gradients(divisor, exponent):
    model, x = new_model().half(), pictures.half()
    loss = mse_loss(model(x), x, reduction="sum") / divisor
    scaled = loss * 2.0**exponent
    scaled.backward()
    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    bad = (~gradients.isfinite()).sum().item()
    print(f"loss {loss.item():.3g}, times 2^{exponent} = {scaled.item():.3g}:", end=" ")
    print(f"{bad:,} of {len(gradients):,} gradients are inf or NaN")


for divisor, exponent in ((big, 15), (big, 16), (600, 0), (600, 14), (600, 15), (600, 16)):
    show_bad_gradients(divisor, exponent)

# %% [markdown]
# Backward never reads the value of the loss. It begins with the scale, so gradients are lost at
# 2^16 and not before.
#
# ## The loss in FP32
#
# With `.float()` on what the network paints, the loss is an FP32 number, and the backward pass starts
# in FP32. The first gradients in FP16 are those of the painted pixels. By then they have been multiplied
# by 65,536 and divided by 100 million, and FP16 can hold the result.


# %%
def fp32_loss_step(model, x, lr, scale):
    model.zero_grad()
    painted = model(x.to(model[0].weight.dtype)).float()  # new: .float()
    error = mse_loss(painted, x, reduction="sum")
    (error / big * scale).backward()
    update(model, model, lr, scale)
    return error.item() / x.numel()


# %%
rescued = train(fp32_loss_step, new_model().half(), scale=2.0**16)
plots.training(
    {"FP32": first_fp32, "FP16 without protection": first_fp16, "scale, FP32 loss": rescued},
    title="Big pictures, with FP16 weights",
    ylabel="error per pixel",
)

# %% [markdown]
# That is as good as FP32, with [[term loss scaling]] and a loss in FP32.
#
# ## A sum needs room too
#
# FP16 has a second problem with the loss: it's a sum of many small numbers. Suppose a program adds
# up our squared errors one by one.

# %% tags=["question"]
predict("amp_from_scratch.one_by_one")

# %%
with torch.no_grad():
    squares = (new_model()(pictures) - pictures).square().flatten().cpu()
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    total = torch.zeros((), dtype=dtype)
    for square in squares.to(dtype):
        total += square
    print(f"{dtype}: total {round(total.item()):,},", end=" ")
    print(f"error per pixel {total.item() / len(squares):.3g}")

# %% [markdown]
# At 4,096 the gap is 4, and no squared error is above 2. So FP16's total stops there. PyTorch's own
# `sum` and `mse_loss` do better: inside, each thread keeps its running total in FP32. This is
# called *wide accumulation*. But the result for FP16 input is FP16 again. With seven times as many
# pictures, our sum of 9,421 would be inf.
#
# Here, a wrong total in the loss would spoil only what you print, because backward doesn't read the
# loss. But the gradient of a weight is a sum too, with one term for each picture. A wrong total there
# would change the update. [[deep amp_from_scratch]] measures two more sums.
#
# ## Next, a small learning rate
#
# The cell below trains a model in FP32 on our pictures, black digits on white. We call it `painter`.
# Then we fine-tune it on 100 pictures of white digits on black, and `rate` is 0.002 instead of 2. We do
# that with FP32, FP16 and BF16 weights. FP16 gets the scale and the FP32 loss. BF16 gets the FP32 loss,
# and needs no scale.

# %% tags=["question"]
predict("amp_from_scratch.small_updates")

# %%
painter = new_model()
train(plain_step, painter)
inverted = 1 - pictures[:100]
tuning = {"x": inverted, "rate": 0.002, "steps": 1500}

fp32 = train(fp32_loss_step, deepcopy(painter), **tuning)
fp16_weights = train(fp32_loss_step, deepcopy(painter).half(), scale=2.0**16, **tuning)
bf16_weights = train(fp32_loss_step, deepcopy(painter).bfloat16(), **tuning)
plots.training(
    {"FP32": fp32, "FP16 weights": fp16_weights, "BF16 weights": bf16_weights},
    title="Fine-tuning with a small learning rate",
    ylabel="error per pixel",
)

# %% [markdown]
# With the same steps, FP16 weights learn less than FP32 weights, and BF16 weights hardly learn at
# all. Did the gradients become zero again? We make one step of the fine-tuning with each kind of
# weights, and count.


# %%
def show_first_step(dtype, scale):
    model = deepcopy(painter).to(dtype)
    before = torch.cat([p.detach().flatten() for p in model.parameters()])
    train(fp32_loss_step, model, inverted, rate=0.002, steps=1, scale=scale)
    after = torch.cat([p.detach().flatten() for p in model.parameters()])
    gradients = torch.cat([p.grad.flatten() for p in model.parameters()])
    alive = (gradients != 0).float().mean().item()
    changed = (after != before).float().mean().item()
    print(f"{dtype}: gradients that aren't zero {alive:.0%}, weights that change {changed:.0%}")


for dtype, scale in ((torch.float32, 1.0), (torch.float16, 2.0**16), (torch.bfloat16, 1.0)):
    show_first_step(dtype, scale)

# %% [markdown]
# The gradients are there, but the last line of `update` loses most updates. In this step, half of the
# weights are more than 20,000 times as large as their update, so the rounded result is the old
# weight. This is [[term swamping]]. An FP16 weight loses every update below 1/4,096 of its size, and a
# BF16 weight every update below 1/512 ([[lesson how_numbers_break]]).
#
# ## A weight that remembers
#
# What if we keep the weight in FP32, and the network computes with a copy that is rounded to FP16?
# Follow one weight:

# %% tags=["question"]
predict("amp_from_scratch.copy_moves")

# %%
in_fp32 = torch.tensor(1.0)
in_fp16 = torch.tensor(1.0, dtype=torch.float16)
for step in range(1, 101):
    in_fp32 -= 2.0**-14
    in_fp16 -= 2.0**-14
    if step <= 8 or step == 100:
        print(f"step {step:3}: copy of the FP32 weight {in_fp32.half().item():.5f}", end=", ")
        print(f"FP16 weight {in_fp16.item():.5f}")

# %% [markdown]
# After five steps the FP32 weight is past the middle, and its copy moves. The FP16 weight rounds
# each update away and stays at 1.
#
# ## Master weights
#
# Such an FP32 weight is called a [[term master weights|master weight]]. In each step we make FP16
# copies of the masters, run forward and backward with the copies, and update the masters. Then we
# throw the copies away. In code, the model stays in FP32. The two lines marked `new` do the rest. New
# copies have no gradients, so `zero_grad` isn't needed.
#
# The figure shows the fine-tuning again. "FP16 weights" is the run from above: it has a scale and an
# FP32 loss, but no masters. "FP16 without protection" is another run: it has FP16 weights, an FP16
# loss and no scale.


# %%
def mixed_step(model, x, lr, scale, dtype=torch.float16):
    copy = deepcopy(model).to(dtype)  # new: 16-bit copies of the FP32 masters, in each step
    painted = copy(x.to(dtype)).float()
    error = mse_loss(painted, x, reduction="sum")
    (error / big * scale).backward()
    update(model, copy, lr, scale)  # new: the gradients of the copies update the masters
    return error.item() / x.numel()


# %%
mixed = train(mixed_step, deepcopy(painter), scale=2.0**16, **tuning)
unprotected = train(plain_step, deepcopy(painter).half(), **tuning)
plots.training(
    {
        "FP32": fp32,
        "FP16 without protection": unprotected,
        "FP16 weights": fp16_weights,
        "mixed precision": mixed,
    },
    title="Fine-tuning in FP16, with more and more protection",
    ylabel="error per pixel",
)

# %% [markdown]
# With masters, the FP16 run follows FP32. The paper [Mixed Precision
# Training](https://arxiv.org/abs/1710.03740) has the same three ingredients, and so has PyTorch's
# AMP:
#
# | ingredient | in `mixed_step` | what you saw without it |
# |---|---|---|
# | loss scaling, of an FP32 loss | `* scale`, `.float()`, and the division in `update` | no scale: every gradient was zero. FP16 loss: with a scale of 65,536, every gradient was inf or NaN |
# | wide accumulation | inside `mse_loss` and the matrix products | not seen in the painter; a total that we kept in FP16 stopped at 4,096 |
# | master weights | the FP32 `model`, and `copy` | the gradients were fine, but most weights didn't change |
#
# BF16 has almost FP32's range, so the painter needs no scale in BF16. But BF16 has fewer significant
# bits, so it needs masters even more. Without them it ended at 0.442. `mixed_step` with
# `dtype=torch.bfloat16` and no scale ends at 0.121.

# %%
plots.dtype_flow(
    (
        ("master\nweights", "FP32"), ("copies", "FP16"), ("forward", "FP16"), ("loss\n× scale", "FP32"),
        ("backward", "FP16"), ("gradients\n/ scale", "FP32"), ("update", "FP32"),
    ),
    title="One step of mixed precision training",
)  # fmt: skip

# %% [markdown]
# Only the copies, the forward and the backward pass are FP16.
#
# ## How does autocast do it?
#
# With `torch.autocast` this network needs no `.half()` and no `.float()`: autocast chooses a dtype for
# each operation. On a CPU, a linear layer computes with FP16 copies of its input and its weights. The
# `tanh` between two layers keeps the dtype of its input, and `mse_loss` runs in FP32.

# %% tags=["question"]
predict("amp_from_scratch.same_as_autocast")

# %%
by_autocast, by_hand, x = autoencoder(), autoencoder().half(), pictures.cpu()
with torch.autocast("cpu", dtype=torch.float16):
    error = mse_loss(by_autocast(x), x, reduction="sum")
(error / big * 2.0**16).backward()

error = mse_loss(by_hand(x.half()).float(), x, reduction="sum")
(error / big * 2.0**16).backward()

pairs = zip(by_autocast.parameters(), by_hand.parameters(), strict=True)
apart = max((a.grad - b.grad.float()).abs().max().item() for a, b in pairs)
weight = by_autocast[0].weight
print(f"largest difference between two gradients: {apart:g}")
print(f"under autocast: parameters {weight.dtype}, gradients {weight.grad.dtype}")

# %% [markdown]
# The gradients are the same to the last bit: autocast does what `mixed_step` does. You may read
# that autocast keeps a master copy of the weights. It doesn't. The parameters *are* FP32, so they
# are the masters, and the 16-bit copies are temporary, as in `mixed_step`. After `model.half()`
# there are no masters any more, and autocast can't bring them back.
#
# ## One scale for a whole training?
#
# `mixed_step` has one weak point left: it trusts its scale. Your colleague wants a large one, to save as
# many gradients as she can. So she measures the gradients of the trained painter, on black digits. Here
# they are, without a scale. Move the slider to the last scale at which no gradient overflows.

# %% tags=["live"]
from amp_lessons.lessons.widgets import GradientHistogram


def fp32_gradients(x):
    model = deepcopy(painter)
    (mse_loss(model(x), x, reduction="sum") / big).backward()
    return [p.grad for p in model.parameters()]


GradientHistogram(fp32_gradients(pictures[:100]), format="FP16")

# %% [markdown]
# She chooses $2^{36}$, so that the largest of these gradients can still grow by a factor of 13.
# Such room is called *headroom*. ($2^{36}$ isn't an FP16 number, and needn't be: the loss is FP32.)
#
# With this scale she fine-tunes the painter for 100 steps: once on black digits, as in her
# measurement, and once on the white ones. At the start, the largest gradient on white digits is 29
# times as large as on black ones.

# %% tags=["question"]
predict("amp_from_scratch.static_scale")

# %%
for name, x in (("black digits", pictures[:100]), ("white digits", inverted)):
    largest = max(gradient.abs().max().item() for gradient in fp32_gradients(x))
    errors = train(mixed_step, deepcopy(painter), x, rate=0.002, steps=100, scale=2.0**36)
    print(f"{name}: largest gradient {largest:.1e}, times 2^36 = {largest * 2.0**36:.1e}", end="; ")
    print(f"error per pixel {errors[0]:.2f}, after 100 steps {errors[-1]:.2f}")

# %% [markdown]
# On white digits, `update` writes inf into the masters, and the next error is NaN. (On black ones,
# $2^{39}$ was the last scale without an overflow.) A scale that never changes is called *static*.
# In `mixed_step` it has to fit the largest gradient of the whole training, and you don't know that
# gradient beforehand. Two things help:
#
# - **Skip the bad step.** Before the update, check all gradients. If one of them is inf or NaN, leave
#   the weights as they are. `mixed_step` lacks this check, and you write it in the exercises.
# - **Let the scale move.** Halve it after a skipped step, and double it after many good ones.
#   By default, `GradScaler` does both ([[lesson grad_scaler]]).
#
# The scales in this lesson are powers of two: they change only the exponent of a number, so
# multiplying and dividing costs no digit, as long as nothing leaves the range.
#
# ## Recap
#
# 1. Mixed precision has three ingredients: loss scaling, wide accumulation and FP32 master weights.
# 2. If gradients are zero in FP16 and not in FP32, loss scaling is missing. If the gradients are
#    fine but most weights stay exactly the same, the masters are missing.
# 3. Compute the loss in FP32, because a scale of 65,536 is inf in FP16. Keep running totals in FP32 too,
#    because an FP16 total can stop growing.
# 4. `torch.autocast` leaves FP32 parameters in FP32. They are the master weights; the 16-bit copies
#    are temporary.
# 5. Choose a power of two as the scale, with headroom. Before each update, check for inf and NaN, and
#    skip the step if you find one.
#
# ## Three questions

# %% tags=["question"]
ask(
    "amp_from_scratch.missing_ingredient",
    "amp_from_scratch.half_then_autocast",
    "amp_from_scratch.unscale_order",
)

# %% [markdown]
# **Next:** [[exercises amp_from_scratch|the exercises]]: an optimizer with masters, a scaler that
# skips, a scale with headroom, a loss with FP32 in the right places, and runs to diagnose. Then
# [[lesson autocast_ops]]: what autocast does to each op. Optional: [[deep amp_from_scratch]], on
# norms, matrix products, and the window of scales that work.
