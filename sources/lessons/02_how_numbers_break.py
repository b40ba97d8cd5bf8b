# %% [markdown]
# # Lesson 02: Three ways numbers break
#
# In [[lesson amp_in_20_minutes]] a loss curve was flat, because gradients were too small for FP16. That
# is one of three ways in which 16-bit numbers break a training. Here you meet all three. You find
# out what each looks like from outside, and where it starts.
#
# **You will be able to** tell underflow, overflow and [[term swamping]] apart, trace a NaN back to its
# first inf, and write sums, norms, softmaxes and masks that work in 16 bits.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson number_formats]]; no GPU.

# %%
import copy
import math

import torch
from torch.nn.functional import mse_loss

from amp_lessons import BF16, FP16, ask, autoencoder, load_digits, plots, predict
from amp_lessons.amp.scaling import exponent_histogram, fate

device = "cuda" if torch.cuda.is_available() else "cpu"
pictures = load_digits().train_images[:600].to(device)
our_pixels, big = pictures.numel(), 100_000_000

# %% [markdown]
# ## Three broken runs
#
# Three colleagues train the network that paints digits, and none of them gets FP32's result.
#
# - **Run A** uses autocast with FP16. The loss is divided by 100 million, as if there
#   were that many pixels.
# - **Run B** also uses autocast with FP16. The loss isn't divided at all: it's the sum over all 38,400
#   pixels. This colleague has read that FP16 needs a [[term loss scaling|loss scale]] of 65,536. So the
#   loss is multiplied by that number, and the gradients are divided by it before each update.
# - **Run C** uses no autocast. The model was converted with `model.bfloat16()`, so its weights and
#   gradients are BF16. The loss is divided by 38,400.
#
# The function below can make all of these runs, with plain SGD. The learning rate is 0.3 for a
# loss divided by 38,400. The function changes the learning rate in proportion to the divisor. So
# with exact numbers the three runs would be the same.


# %%
def train(model, divisor=our_pixels, scale=1.0, rate=0.3, autocast=None, steps=400):
    parameters = list(model.to(device).parameters())
    optimizer = torch.optim.SGD(parameters, lr=rate * divisor / our_pixels)
    errors = []
    for _ in range(steps):
        optimizer.zero_grad()
        with torch.autocast(device, dtype=autocast, enabled=autocast is not None):
            outputs = model(pictures.to(parameters[0].dtype))
        error = mse_loss(outputs.float(), pictures, reduction="sum")
        (error / divisor * scale).backward()
        for parameter in parameters:
            parameter.grad /= scale
        optimizer.step()
        errors.append(error.item() / our_pixels)
    return errors


# %% tags=["question"]
predict("how_numbers_break.which_run_is_nan")

# %%
fp32 = train(autoencoder())
run_a = train(autoencoder(), divisor=big, autocast=torch.float16)
run_b = train(autoencoder(), divisor=1, scale=65_536, autocast=torch.float16)
model_c = autoencoder().bfloat16()
run_c = train(model_c)
print("error per pixel in step      1       2      50     400")
for name, errors in {"FP32": fp32, "A": run_a, "B": run_b, "C": run_c}.items():
    shown = "".join(f"{errors[step - 1]:8.3f}" for step in (1, 2, 50, 400))
    print(f"{name:22}{shown}")

# %% [markdown]
# Run A never leaves its first error, run B is NaN from the second step on, and run C almost stops
# after 50 steps. Let's look inside all three.
#
# ## Run A: how many gradients are too small?
#
# A gradient of $2^{-25}$, about 3e-8, or less becomes zero in FP16. So let's compute the gradients
# of the first step in FP32 and see where they lie. The network has 10,448 weights and biases. For
# 10,192 of them, the gradient isn't zero in FP32.
#
# The picture sorts these gradients by size, in powers of two. The hatched area holds FP16's
# [[term subnormal]] numbers, which begin at $2^{-24}$. The bar just left of this area holds the
# gradients between $2^{-25}$ and $2^{-24}$. They are rounded up to $2^{-24}$. Those further left
# become zero.


# %%
def gradients(divisor=big, scale=1.0, autocast=None):
    model = autoencoder().to(device)
    with torch.autocast(device, dtype=autocast, enabled=autocast is not None):
        outputs = model(pictures)
    error = mse_loss(outputs.float(), pictures, reduction="sum")
    (error / divisor * scale).backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


exact = gradients()
nonzero = (exact != 0).sum().item()
too_small = fate(exact, format=FP16).zero  # not 0 in FP32, but 0 in FP16
print(f"{too_small / nonzero:.0%} of {nonzero:,} gradients are too small for FP16")
plots.gradient_histogram(exponent_histogram(exact), FP16)

# %% [markdown]
# So 19% become zero. Does that explain run A's flat curve?

# %% tags=["question"]
predict("how_numbers_break.lost_on_the_way")

# %%
found = gradients(autocast=torch.float16)
lost = ((exact != 0) & (found == 0)).sum().item()
print(f"too small by themselves:  {too_small / nonzero:4.0%}")
print(f"zero in run A's backward: {lost / nonzero:4.0%}")

# %% [markdown]
# Backward begins with the gradients of the painted pixels. In run A these are all zero in FP16, and
# so is everything that is computed from them.
#
# ## What if only half of the gradients are lost?
#
# Let's divide the loss by 30 million instead of 100 million.

# %% tags=["question"]
predict("how_numbers_break.half_lost")

# %%
half_lost = train(autoencoder(), divisor=30_000_000, autocast=torch.float16)
plots.training(
    {"FP32": fp32, "FP16": half_lost},
    title="Loss divided by 30 million: FP32 and FP16",
    ylabel="error per pixel",
)

# %% [markdown]
# FP16's curve falls and then creeps up again, far above FP32's: only the worst pixels still have a
# gradient. No error message tells you.
#
# ## How far must the gradients move?
#
# Too small for the format, and so rounded to zero: that is [[term underflow]]. There are two cures. You
# can use a format with more range, such as BF16. Or you multiply the loss, which moves the whole
# histogram to the right: [[term loss scaling]].
#
# Here is the histogram of run A's gradients again, and now you can move it. Focus the slider and use
# the arrow keys. Then answer the question below with its help. If you like, switch the format to BF16:
# how many gradients does it lose without any scale?

# %% tags=["live"]
from amp_lessons.lessons.widgets import GradientHistogram

GradientHistogram(exact, format="FP16")

# %% tags=["question"]
predict("how_numbers_break.one_percent")

# %%
print("loss scale   too small by themselves   zero in FP16's backward pass")
for exponent in (0, 4, 8, 9, 10, 11, 12, 16):
    scale = 2.0**exponent
    small = fate(exact, scale, FP16).zero
    found = gradients(scale=scale, autocast=torch.float16)
    lost = ((exact != 0) & (found == 0)).sum().item()
    print(f"2^{exponent:<10}{small / nonzero:24.1%}{lost / nonzero:31.1%}")
print(f"BF16, no scale: {fate(exact, format=BF16).zero} too small")

scaled = train(autoencoder(), divisor=big, scale=65_536, autocast=torch.float16)
print(f"Run A with a scale of 65,536: error {scaled[-1]:.3f}, FP32 {fp32[-1]:.3f}")

# %% [markdown]
# 2^10 is enough for fewer than 1%. At small scales the backward pass loses more than the histogram
# shows, since one zero makes others. BF16 needs no scale.
#
# ## Run B: from the first inf to NaN
#
# A scale of 65,536 is the cure for run A. Run B used the same number and got NaN in the second step.
# Its loss is not divided, so the gradient of a painted pixel is twice that pixel's error. An error of
# 0.6 has the gradient 1.2. Times 65,536, that is 78,643, and FP16 ends at 65,504. Values from 65,520 on
# become inf: this is [[term overflow]].
#
# The next cell makes the first backward pass of run B. It starts at the painted pixels, and goes
# back from the last layer to the first. In each layer, gradients are multiplied and added up.

# %%
model = autoencoder().to(device)
with torch.autocast(device, dtype=torch.float16):
    painted = model(pictures)
painted.retain_grad()  # keep this gradient, to look at it
error = mse_loss(painted.float(), pictures, reduction="sum")
(error * 65_536).backward()
places = {
    "painted pixels": painted.grad,
    "weights of the last layer": model[-1].weight.grad,
    "weights of the first layer": model[0].weight.grad,
}
for name, gradient in places.items():
    inf, nan = gradient.isinf().double().mean(), gradient.isnan().double().mean()
    print(f"{name:28} {inf:4.0%} inf, {nan:4.0%} NaN")

# %% tags=["question"]
predict("how_numbers_break.inf_to_nan")

# %%
inf = torch.tensor(70_000.0).half()
zero = torch.tensor(1e-8).half()  # too small for FP16
print(f"70,000 is stored as {inf.item()}, 1e-8 as {zero.item()}")
print("inf + inf =", (inf + inf).item(), "  1 / inf =", (1 / inf).item())
print("1 / 0 =", (1 / zero).item(), "  log(0) =", zero.log().item())
print("inf - inf =", (inf - inf).item(), "  inf / inf =", (inf / inf).item())
print("0 * inf =", (zero * inf).item(), "  0 / 0 =", (zero / zero).item())

# %% [markdown]
# In run B the last layer adds up inf and −inf, and that is NaN. When a loss is NaN, look for the
# first inf, for a division by something that became zero, or for the root or logarithm of a
# negative number. One such zero is easy to miss: in FP16, the popular `eps=1e-8` is 0. So
# `x / (x.norm() + 1e-8)` is NaN for a vector of zeros. ([[Lesson losses_and_ops]] has a safe eps.)
#
# Run B needs a smaller scale. With 16 it ends at FP32's 0.052, and with 64 it's NaN again. So the
# right number depends on the loss. `GradScaler` looks for it, and skips the steps that overflow
# ([[lesson grad_scaler]]).
#
# ## A norm by hand
#
# You don't need a loss scale to get an inf. 256 is a harmless number, and its square is too large for
# FP16. Norms, variances and mean squared errors are made of squares.
#
# The next cell has such a norm, written by hand. It divides numbers by the root of their mean
# square, so that they have a size of about 1.

# %% tags=["question"]
predict("how_numbers_break.norm_of_300s")

# %%
x = torch.full((4,), 300.0, dtype=torch.float16)
print("in FP16:         ", (x / x.square().mean().sqrt()).tolist())
print("squares in FP32: ", (x / x.float().square().mean().sqrt()).half().tolist())

# %% [markdown]
# 300² is inf in FP16, its root too, and 300 / inf is 0. A check for inf or NaN finds nothing in
# these zeros.
#
# ## The same sum, twice
#
# A training step is full of sums. We take a simple one: 50,000 times 1.4, and then 50,000 times −1.
# FP16 stores 1.4 as 1.4004, so the exact sum is 20,019.5. FP16's nearest number to that is 20,016.
# That is what `sum` returns on a CPU with one thread: it adds up in FP32 and rounds once. With two
# threads, each adds up one half in FP32, and stores its sum in the dtype of the result, FP16. Then
# the two sums are added.

# %% tags=["question"]
predict("how_numbers_break.two_threads")

# %%
x = torch.cat([torch.full((50_000,), 1.4), torch.full((50_000,), -1.0)]).half()
usual = torch.get_num_threads()
for threads in (1, 2):
    torch.set_num_threads(threads)
    wide = x.sum(dtype=torch.float32).item()
    print(f"{threads} thread(s): sum {x.sum().item():,.0f}, with dtype=torch.float32 {wide:,.0f}")
torch.set_num_threads(usual)

# %% [markdown]
# The first half adds up to 70,020. With two threads it is stored in FP16, and becomes inf. With
# `dtype=torch.float32` nothing is stored in FP16.
#
# ## A softmax by hand
#
# Softmax turns logits into probabilities: `x.exp() / x.exp().sum()`. For the logits 11, 10 and 0, the
# first probability should be 0.73. In FP16, exp(11) is 59,872, so it fits. exp(12) doesn't fit.

# %%
for largest in (5.0, 11.0, 12.0):
    x = torch.tensor([largest, largest - 1, 0.0]).half()
    plain = x.exp() / x.exp().sum()
    moved = (x - x.max()).exp() / (x - x.max()).exp().sum()
    print(f"largest logit {largest:2.0f}: first probability", end=" ")
    print(f"{plain[0].item():.2f} by hand, {moved[0].item():.2f} after subtracting the maximum")

# %% [markdown]
# For the logit 11, each `exp` fits, but their sum, about 81,900, becomes inf, and 59,872 / inf is 0. For
# 12, `exp` itself is inf, and inf / inf is NaN. Subtracting the maximum from all logits changes nothing
# in exact arithmetic, and `exp` then gives at most 1.
#
# `torch.softmax` subtracts the maximum for you. Two more things can go wrong around a softmax in
# FP16:
#
# - **The logarithm of a probability.** A small probability is 0 in FP16, and log(0) is −inf.
#   `log_softmax` computes the logarithm without the probability. That is why `cross_entropy` takes
#   logits.
# - **A mask of −1e9.** Many transformers hide a word of the input: they replace its attention score
#   by −1e9, so that softmax gives 0 there. FP16 ends at −65,504. `masked_fill` refuses −1e9 with an
#   error. If you add −1e9, multiply by it, or pass it to `torch.where`, you get −inf and no message.

# %%
from amp_lessons.lessons.experiments import raised

x = torch.tensor([0.0, -30.0]).half()
print("log of softmax:", torch.softmax(x, 0).log().tolist())
print("log_softmax:   ", torch.log_softmax(x, 0).tolist())

scores = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).half()
hidden = torch.tensor([[False, True], [True, True]])  # one place of row 1, all of row 2
print("-1e9 filled in:", raised(lambda: scores.masked_fill(hidden, -1e9)))
print("-1e9 added:    ", (scores + hidden.half() * -1e9).tolist())
for fill in (-math.inf, torch.finfo(torch.float16).min):
    rows = torch.softmax(scores.masked_fill(hidden, fill), -1).tolist()
    print(f"mask of {fill}: {rows[0]} and {rows[1]}")

# %% [markdown]
# `torch.finfo(dtype).min` is the lowest finite number of a dtype, −65,504 in FP16. A row in which
# everything is hidden then gets equal probabilities instead of NaN. Drop the output of such a row.
#
# ## Run C: finite, not zero, and still no progress
#
# Run C learned as well as FP32 for 50 steps. Since then it has hardly moved. Nothing overflows, since
# BF16 reaches almost as far as FP32. Nothing underflows either: more than 97% of the gradients
# aren't zero, and the others are zero in FP32 too.
#
# We give it 400 more steps, from where it stands, in three ways:
#
# - with the same learning rate, 0.3;
# - with a tenth of it, 0.03, in case the steps are too coarse for what is left to learn;
# - with 0.3, but the weights are converted to FP32. Autocast then makes BF16 copies for the matrix
#   products.

# %% tags=["question"]
predict("how_numbers_break.more_steps_for_c")

# %%
curves = {}
for name, rate, weights in (
    ("same rate", 0.3, torch.bfloat16),
    ("a tenth of it", 0.03, torch.bfloat16),
    ("FP32 weights", 0.3, torch.float32),
):
    model = copy.deepcopy(model_c).to(weights)
    curves[name] = train(model, rate=rate, autocast=torch.bfloat16)  # casts only FP32 weights
    pairs = zip(model_c.parameters(), model.parameters(), strict=True)
    changed = sum((before != after).sum().item() for before, after in pairs)
    print(f"{name:14} {changed / len(exact):5.1%} of the weights changed")
plots.training(curves, title="Run C: 400 more steps", ylabel="error per pixel")

# %% [markdown]
# Only FP32 weights bring the error down. In BF16, fewer than 5% of the weights change at all, and
# fewer still with the smaller rate.
#
# ## Too small beside another number
#
# An update can be a fine number by itself, and still be lost in the addition. This is
# [[term swamping]]: the update is less than half the gap to the next number that the format has. (The
# gap is also called [[term ulp]].) The gap doubles at each power of two and is constant in between,
# so the limit depends on the weight. For normal numbers:
#
# | | lost for some weights, if the update is below | lost for every weight, if it is below |
# |---|---|---|
# | FP16 | weight / 2,048 | weight / 4,096 |
# | BF16 | weight / 256 | weight / 512 |
#
# Sums that grow one by one have the same problem: a running loss, or a count of right answers. Let's
# count to 10,000 in each format.

# %%
for dtype in (torch.float32, torch.float16, torch.bfloat16):
    ones = torch.ones(10_000, dtype=dtype)
    total = torch.zeros((), dtype=dtype)
    for one in ones:
        total = total + one
    print(f"{dtype!s:14}  one by one {total.item():6,.0f}, sum() {ones.sum().item():6,.0f}")

# %% [markdown]
# The count stops where the gap becomes 2: at 2,048 in FP16, and at 256 in BF16. 2,048 + 1 lies half-way
# between two FP16 numbers, and the tie goes back to 2,048. `sum()` adds these numbers up in FP32 and
# rounds once: 9,984 is the BF16 number nearest to 10,000. Keep counts in integers and running sums in
# FP32.
#
# ## A variance of three numbers
#
# Rounding can also hurt when you subtract two numbers that are almost equal. A textbook formula for the
# variance is the mean of the squares, minus the square of the mean. For 10.01, 10.02 and 10.03 the
# variance is 0.0000667. Both terms are about 100.4. There, FP16 numbers are 0.0625 apart.

# %% tags=["question"]
predict("how_numbers_break.variance_by_formula")

# %%
for dtype in (torch.float32, torch.float16):
    x = torch.tensor([10.01, 10.02, 10.03], dtype=dtype)
    textbook = x.square().mean() - x.mean().square()
    centred = (x - x.mean()).square().mean()
    print(
        f"{dtype!s:14}  textbook {textbook.item():9.2g}, mean subtracted first {centred.item():.2g}"
    )

# %% [markdown]
# Both terms are multiples of 0.0625, so their difference can only be such a multiple too. Here it
# is even negative.
#
# This is called **cancellation**. It is not a fourth way to lose a number, but it makes old rounding
# errors visible. Compute variances in FP32, and subtract before you square.
#
# ## What you see, and what helps
#
# | what you see | what happened | what helps |
# |---|---|---|
# | a flat loss, or one that stops too high; gradients that are exactly zero | underflow | loss scaling for FP16; BF16 |
# | inf, then NaN; sometimes zeros after a division by inf | overflow | a smaller scale and a skipped step if it's the gradients; FP32 for squares, exps, norms and sums |
# | a loss that stops; gradients are fine, most weights don't change | swamping | FP32 weights; FP32 sums |
#
# ## Recap
#
# 1. Underflow: in FP16, everything up to $2^{-25}$ becomes 0, with no message. If the gradients of
#    the outputs are all zero, so are those of the weights.
# 2. Overflow: in FP16, values from 65,520 on become inf. Squares, exps and sums can overflow on the way
#    to a small result.
# 3. NaN comes from inf − inf, 0 · inf, inf / inf and 0 / 0, and from roots and logarithms of negative
#    numbers. Look for the first inf, the first zero, or the first negative number under a root.
# 4. Swamping: a BF16 weight doesn't change if the update is below 1/512 of it. A smaller learning rate
#    makes it worse; FP32 weights cure it.
# 5. Subtract before you square, stay with logarithms, and ask `torch.finfo` for the limits of a dtype.
#
# ## Three questions

# %% tags=["question"]
ask(
    "how_numbers_break.bf16_weights_stand_still",
    "how_numbers_break.ones_after_2048",
    "how_numbers_break.which_can_be_nan",
)

# %% [markdown]
# **Next:** [[exercises how_numbers_break|the exercises]]: a sum that keeps its small terms, a
# log-softmax, a mask, and ten faults to name. Then [[lesson amp_from_scratch]] builds AMP from scratch.
# Optional: [[deep how_numbers_break]], on lost updates, random rounding, a binary loss, and masks that
# add up.
