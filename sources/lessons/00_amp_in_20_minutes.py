# %% [markdown]
# # Lesson 00: AMP in 20 minutes
#
# You train a small network in FP16, watch it stop learning without a word, and fix it. You leave
# with a training loop to copy into your own project.
#
# **You will be able to** turn an FP32 training loop into a mixed precision one that is right on
# CUDA and on a CPU, and recognise three mistakes that break it.
#
# **Time** 20 minutes. **Needs** any computer. You don't need a GPU; if you have one, it is used.
#
# Run each cell with Shift+Enter. Where you see **Predict**, make a guess before you run the next
# cell.

# %% [markdown]
# ## A network that paints digits
#
# Our network squeezes a picture of a handwritten digit into 16 numbers and paints it again. It is
# an autoencoder: four linear layers, 10,448 parameters.

# %%
import torch
from torch.nn.functional import mse_loss

from amp_lessons import plots
from amp_lessons.training import autoencoder, load_digits

device = "cuda" if torch.cuda.is_available() else "cpu"
pictures = load_digits().train_images[:600].to(device)  # 600 pictures of 64 pixels
ours = pictures.numel()

# %% [markdown]
# Here is a training step as you would write it today, in FP32. The loss is the squared error,
# averaged over `pixels` pixels. For now that is all the pixels we have, 38,400 of them.


# %%
def fp32_step(model, optimizer, pixels):
    optimizer.zero_grad()
    error = mse_loss(model(pictures), pictures, reduction="sum")
    loss = error / pixels
    loss.backward()
    optimizer.step()
    return error.item() / ours


def train(step, pixels=ours, model=None):
    model = model or autoencoder().to(device)
    rate = pixels / ours  # 1 for now
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    return [step(model, optimizer, pixels) for _ in range(150)]


# %%
fp32 = train(fp32_step)
print(f"FP32: error per pixel {fp32[0]:.3f} at the start, {fp32[-1]:.3f} after 150 steps")

# %% [markdown]
# ## The same network in FP16
#
# PyTorch stores numbers in FP32 by default: 32 bits each. FP16 uses half as many, and GPUs with
# [[term tensor core|tensor cores]] multiply FP16 matrices faster, at best 2 to 16 times as fast
# ([[lesson speed]]). You don't convert anything yourself. Inside `torch.autocast`, PyTorch runs
# matrix products in FP16, and your parameters stay in FP32. Wrap the forward pass and the loss, and
# change nothing else.
#
# **Predict:** will the FP16 run end with a higher error than FP32, a lower one, or about the same?


# %%
def unprotected_step(model, optimizer, pixels):
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.float16):  # this line is new
        error = mse_loss(model(pictures), pictures, reduction="sum")
    loss = error / pixels
    loss.backward()
    optimizer.step()
    return error.item() / ours


# %%
unprotected = train(unprotected_step)
print(f"error per pixel: FP32 {fp32[-1]:.3f}, FP16 {unprotected[-1]:.3f}")

# %% [markdown]
# The same. So is one line all there is to mixed precision?
#
# ## Then your pictures get bigger
#
# Our digits are tiny. A batch of 32 colour photographs of one megapixel holds about 100 million
# numbers. The loss is their average, so each of them counts 2,600 times less than one of our
# pixels. We keep our network and our digits, and divide by 100 million as if they were such
# photographs. The learning rate grows by the same factor, so in exact arithmetic every step stays
# what it was.
#
# **Predict:** what happens to the FP16 run now: about the same, a higher error, or an exception?

# %%
many = 100_000_000
fp32_model, fp16_model = autoencoder().to(device), autoencoder().to(device)
fp32 = train(fp32_step, many, fp32_model)
unprotected = train(unprotected_step, many, fp16_model)
plots.training(
    {"FP32": fp32, "FP16 without protection": unprotected},
    title="Big pictures: one of the two learns nothing",
    ylabel="error per pixel",
)

# %%
plots.paintings(
    {
        "original": pictures,
        "FP32": fp32_model(pictures),
        "FP16 without protection": fp16_model(pictures),
    },
    alt="Ten digits; FP32 paints them recognisably, FP16 without protection paints grey noise.",
)

# %% [markdown]
# There was no exception, no warning and no NaN. How many weights has FP16 moved? And how large is
# the largest gradient that any pixel sends back into the network?

# %%
start = torch.cat([p.detach().flatten() for p in autoencoder().to(device).parameters()])
end = torch.cat([p.detach().flatten() for p in fp16_model.parameters()])
print(f"weights moved by FP16: {(start != end).sum()} of {len(start)}")

errors = (fp16_model(pictures) - pictures).abs()
largest = (2 * errors / many).max()
print(
    f"largest gradient of a pixel: {largest.item():.2g} in FP32, {largest.half().item():.2g} in FP16"
)

# %% [markdown]
# <details><summary>What happened?</summary>
#
# The gradient of a pixel is twice its error, divided by 100 million. The smallest positive number
# that FP16 can store is 6e-8, and anything below half of that rounds to zero. So the gradient is
# zero before it reaches the last layer, and every gradient computed from it is zero too.
#
# This is [[term underflow]]. FP32 reaches down to 1e-45 and doesn't notice. The loss can't tell you
# either: it stays at a healthy-looking 0.245, step after step. [[Lesson how_numbers_break]] shows
# where else it hides.
#
# </details>

# %% [markdown]
# ## Three lines bring it back
#
# Gradients are proportional to the loss. Multiply the loss by 65,536, and every gradient arrives
# 65,536 times as large, well inside FP16's range. Divide the gradients by 65,536 in FP32 before the
# update, and the optimizer sees the true ones. This is [[term loss scaling]], and `GradScaler` does
# both halves. It also looks for inf and NaN in the gradients. If it finds any, it skips that step
# and halves the factor.
#
# **Predict:** where does its curve end: with FP32, with unprotected FP16, or in between?

# %%
scaler = torch.amp.GradScaler(device)


def amp_step(model, optimizer, pixels):
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        error = mse_loss(model(pictures), pictures, reduction="sum")
    loss = error / pixels
    scaler.scale(loss).backward()  # 1. multiply the loss, then go backward
    scaler.step(optimizer)  # 2. divide the gradients, check them, then step or skip
    scaler.update()  # 3. choose the factor for the next step
    return error.item() / ours


# %%
amp_model = autoencoder().to(device)
amp = train(amp_step, many, amp_model)
plots.training(
    {"FP32": fp32, "FP16 without protection": unprotected, "mixed precision": amp},
    title="Big pictures: with a GradScaler, FP16 learns like FP32",
    ylabel="error per pixel",
)

# %%
plots.paintings(
    {"original": pictures, "FP32": fp32_model(pictures), "mixed precision": amp_model(pictures)},
    alt="Ten digits; FP32 and mixed precision paint them alike, and recognisably.",
)

# %% [markdown]
# <details><summary>Why is it as good as FP32?</summary>
#
# The factor is a power of two, 2<sup>16</sup>. Multiplying by it changes the exponent of a number
# and none of its digits, as long as the result is in range. Dividing by it in FP32 takes it out
# again. So the optimizer gets the gradients that FP16 could not store, and the learning rate stays
# as it is. What remains of FP16 is a little rounding in the matrix products.
#
# </details>

# %% [markdown]
# ## The whole loop
#
# Most real loops also clip: if the norm of the gradients exceeds a limit, they are all scaled down.
# Clipping has to see the true gradients, so `scaler.unscale_(optimizer)` divides them first.
# `scaler.step` knows that this has been done and doesn't divide again.
#
# The next cell is complete. Copy it into your project.


# %% tags=["copy"]
import torch
from torch.nn.utils import clip_grad_norm_


def train_amp(model, optimizer, batches, loss_function, dtype=torch.float16, max_norm=1.0):
    """Train in mixed precision, on CUDA or on a CPU; dtype is float16 or bfloat16."""
    device = next(model.parameters()).device
    scaler = torch.amp.GradScaler(device.type, enabled=dtype == torch.float16)
    losses = []
    for inputs, targets in batches:
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=dtype):
            loss = loss_function(model(inputs.to(device)), targets.to(device))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


# %% [markdown]
# | line | what it protects you from | more |
# |---|---|---|
# | `GradScaler(…, enabled=…)` | gradients that become zero in FP16; BF16 doesn't need it, and then its calls do nothing | [[lesson amp_from_scratch]] |
# | `optimizer.zero_grad()` | an inf that stays in the gradients, so that every later step is skipped | [[lesson grad_scaler]] |
# | `torch.autocast(…)` | choosing a dtype for each operation by hand | [[lesson autocast_ops]] |
# | `loss = …` inside, `backward()` outside | a loss computed in 16 bits; a backward pass in the wrong dtype | [[lesson autocast_regions]] |
# | `loss_function` | losses that overflow or lose their digits in 16 bits | [[lesson losses_and_ops]] |
# | `scaler.scale(loss)` | underflow in the backward pass | [[lesson how_numbers_break]] |
# | `scaler.unscale_`, then clip | clipping gradients that are 65,536 times too large | [[lesson training_loops]] |
# | `scaler.step` | inf and NaN in your weights | [[lesson grad_scaler]] |
# | `scaler.update` | a factor that is too large, or smaller than it could be | [[lesson grad_scaler]] |
#
# One argument switches between FP16 and BF16:

# %%
batches = [(pictures, pictures)] * 150
for dtype in (torch.float16, torch.bfloat16):
    model = autoencoder().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    losses = train_amp(model, optimizer, batches, mse_loss, dtype)
    print(f"{dtype!s:14}  loss {losses[0]:.3f} at the start, {losses[-1]:.3f} at the end")

# %% [markdown]
# ## FP16 or BF16: which should I use today?
#
# BF16 also has 16 bits. It has FP32's range, so gradients don't underflow and there is no scaler to
# look after. It pays with precision: 8 significant bits, where FP16 has 11
# ([[lesson number_formats]]).
#
# - **NVIDIA Ampere or newer** (A100, L4, H100, RTX 30 series and later): BF16. Its tensor cores
#   multiply BF16 as fast as FP16.
# - **NVIDIA Volta or Turing** (V100, T4, RTX 20 series): FP16 with a GradScaler. Their tensor cores
#   don't have BF16.
# - **A CPU**: BF16, and only where the processor computes in it (AMX or AVX512-BF16); FP32
#   otherwise. FP16 works, as you have just seen, and is usually slow.
# - **A model that somebody else trained in BF16**: stay with BF16. Its activations may be too large
#   for FP16.
#
# And your machine? This cell's output depends on it, so none is stored.

# %% tags=["live"]
from amp_lessons.device import devices

for found in devices():
    natively = [name for name in ("FP16", "BF16", "TF32") if getattr(found, name.lower())]
    print(f"{found.name} ({found.model}) computes natively in FP32 {' '.join(natively)}")

# %% [markdown]
# ## Break it, and put it back
#
# You trust a loop once you have broken it. Here is the step with a GradScaler again, under a name
# of its own. First run both cells as they are. The two curves lie on top of each other.


# %%
def my_step(model, optimizer, pixels):
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        error = mse_loss(model(pictures), pictures, reduction="sum")
    loss = error / pixels
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return error.item() / ours


# %%
mine = train(my_step, many)
plots.training(
    {"mixed precision": amp, "mine": mine},
    title="Big pictures: the loop of this lesson, and mine",
    ylabel="error per pixel",
)

# %% [markdown]
# ### Break 1: no scaler
#
# In `my_step`, write `loss.backward()` and `optimizer.step()`, and delete `scaler.update()`. Run
# both cells again. Your curve is the flat line from above. Now put the three lines back.
#
# ### Break 2: clip before `unscale_`
#
# The next step has every line it needs, two of them in the wrong order. It gets the small pictures
# again, with which even unprotected FP16 was fine.
#
# **Predict:** the norm of the true gradients is about 0.2, and the limit is 1. What norm does
# clipping see?


# %%
norms = []


def early_step(model, optimizer, pixels):
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        error = mse_loss(model(pictures), pictures, reduction="sum")
    loss = error / pixels
    scaler.scale(loss).backward()
    norms.append(clip_grad_norm_(model.parameters(), max_norm=1.0).item())  # too early
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    return error.item() / ours


# %%
early, right = train(early_step), train(amp_step)
print(f"norm that clipping saw: {norms[0]:.0f}, divided by 65536: {norms[0] / 65536:.3f}")
plots.training(
    {"mixed precision": right, "clip before unscale_": early},
    title="Small pictures: clipping too early",
    ylabel="error per pixel",
)

# %% [markdown]
# <details><summary>Why does it hardly move?</summary>
#
# Clipping saw gradients that were 65,536 times too large, and scaled them down to a norm of 1.
# Then `unscale_` divided them by 65,536 once more. The optimizer got a gradient of norm 0.000015 in
# place of 0.2. The scaler is there, nothing underflows, and the network learns 13,000 times too
# slowly.
#
# Plain SGD shows this at once. Adam divides each gradient by its own recent size, so it hides the
# mistake as long as the gradients stay far above its `eps`.
#
# </details>

# %% [markdown]
# ### Break 3: `.half()` on the model
#
# `model.half()` converts the parameters themselves to FP16. This is [[term pure FP16]]: nothing is
# left in FP32. Many people try it first.
#
# **Predict:** does the scaler accept it?


# %%
def pure_fp16_step(model, optimizer, pixels):
    optimizer.zero_grad()
    error = mse_loss(model(pictures.half()), pictures.half(), reduction="sum")
    loss = error / pixels
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    return error.item() / ours


try:
    train(pure_fp16_step, model=autoencoder().to(device).half())
except ValueError as refused:
    print("ValueError:", refused)

# %% [markdown]
# It refuses, and the message doesn't mention `.half()`. A tempting way out is to remove the scaler:
# the exception is gone, and the small pictures even train.


# %%
def pure_fp16_without_scaler(model, optimizer, pixels):
    optimizer.zero_grad()
    error = mse_loss(model(pictures.half()), pictures.half(), reduction="sum")
    loss = error / pixels
    loss.backward()
    optimizer.step()
    return error.item() / ours


small = train(pure_fp16_without_scaler, model=autoencoder().to(device).half())
big = train(pure_fp16_without_scaler, many, autoencoder().to(device).half())
print(f"pure FP16: small pictures {small[-1]:.3f}, big pictures {big[-1]:.3f}")

# %%
plots.training(
    {"mixed precision": amp, "pure FP16, no scaler": big},
    title="Big pictures: the model in .half()",
    ylabel="error per pixel",
)

# %% [markdown]
# <details><summary>What went wrong?</summary>
#
# The gradients of FP16 parameters are FP16 too. Divided by 65,536, they would underflow again, so
# the scaler refuses. Without the scaler they underflow as before.
#
# Pure FP16 has a second weakness, which these 150 steps don't show. The parameters themselves have
# only 11 significant bits, so a small update rounds to nothing. Keep the parameters in FP32 and let
# autocast convert what it needs. [[Lesson amp_from_scratch]] takes these protections away one at a
# time.
#
# </details>
#
# ### Put it back
#
# Is `my_step` whole again? Then the two numbers below agree.

# %%
mine = train(my_step, many)
print(f"error per pixel: mixed precision {amp[-1]:.3f}, mine {mine[-1]:.3f}")

# %% [markdown]
# ## Recap
#
# 1. `torch.autocast` around the forward pass and the loss runs matrix products in 16 bits. The
#    parameters stay in FP32.
# 2. FP16 rounds gradients below 3e-8 to zero. No exception, no warning: the loss stands still.
# 3. `GradScaler` multiplies the loss and divides the gradients, so that they survive in between.
# 4. Unscale, then clip, then step, then update.
# 5. BF16 has FP32's range and needs no scaler. Use it where the hardware has it.

# %% [markdown]
# ## Three questions
#
# **1.** You train in FP16 with autocast and no scaler. The loss hasn't changed since the first
# step, and there is no NaN. What do you look at first?
#
# - (a) whether the learning rate is too high
# - (b) whether the gradients are zero
# - (c) whether the weights contain inf
#
# <details><summary>Answer</summary>
#
# **(b)** A loss that stands still means that the weights don't move, and gradients that underflow
# are zero. (a) would make the loss jump. (c) would make it inf or NaN.
#
# </details>
#
# **2.** You add gradient clipping to a loop with a GradScaler. Which order is right?
#
# - (a) clip, `unscale_`, `step`, `update`
# - (b) `unscale_`, clip, `step`, `update`
# - (c) `step`, `unscale_`, clip, `update`
#
# <details><summary>Answer</summary>
#
# **(b)** Clipping has to see the true gradients, before the optimizer uses them. (a) is break 2.
# In (c) the weights have moved before anything is clipped, and `unscale_` after `step` raises an
# exception.
#
# </details>
#
# **3.** A model trains under `torch.autocast` with FP16. Which dtype do its parameters have
# afterwards?
#
# - (a) float16, all of them
# - (b) float16 in the linear layers, float32 in the others
# - (c) float32, as before
#
# <details><summary>Answer</summary>
#
# **(c)** Autocast makes 16-bit copies for the operations that run in FP16, and the copies are
# temporary. The parameters and their gradients stay in FP32.
#
# </details>
#
# The next cell computes the first and the third answer.

# %%
nonzero = sum(int(p.grad.count_nonzero()) for p in fp16_model.parameters())
print(f"1. {nonzero} of {len(end)} gradients differ from zero in the run without a scaler")
print(f"3. parameters {next(amp_model.parameters()).dtype}")

# %% [markdown]
# **Next:** [[exercises amp_in_20_minutes|one small exercise]] shows how answers are checked in this
# course. Then [[lesson number_formats]] explains where 6e-8 comes from. Or go [[home]] and pick the
# path that fits your time.
