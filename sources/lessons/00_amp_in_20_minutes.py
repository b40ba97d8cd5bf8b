# %% [markdown]
# # Lesson 00: AMP in 20 minutes
#
# **Mixed precision** can make training faster: 16-bit numbers where they are safe, 32-bit
# numbers where they are needed. PyTorch's tools for it are called AMP, automatic mixed precision. You
# train a small network in FP16, find out where that goes wrong, and fix it.
#
# **You will be able to** turn your own training loop into a mixed precision one, for CUDA or a CPU,
# and spot three mistakes that break it.
#
# **Time** [[minutes]] minutes. **Needs** any computer; a CUDA GPU is used if you have one.
#
# Run each cell with Shift+Enter. A box headed **Predict** asks what the next cell will show. Answer
# it, then run that cell. The box then explains what you see.

# %%
import math

import torch
from torch.nn.functional import mse_loss

from amp_lessons import ask, autoencoder, load_digits, plots, predict
from amp_lessons.amp.training import train_amp
from amp_lessons.lessons.widgets import LossScaleLab, WholeLoop

device = "cuda" if torch.cuda.is_available() else "cpu"
pictures = load_digits().train_images[:600].to(device)
our_pixels = pictures.numel()
print(f"{len(pictures)} pictures of handwritten digits, {our_pixels} pixels")

# %% [markdown]
# ## A network that paints digits
#
# Our network squeezes a picture into 16 numbers and paints it again. Here is a training step as you
# know it, in FP32, PyTorch's default of 32 bits per number.
#
# One thing is unusual. A loss is usually the average over all numbers of a batch, here 38,400 pixels.
# 32 colour photographs of one megapixel have about 100 million numbers. So that you meet gradients as
# small as theirs, we divide by 100 million. Every gradient is then 2,600 times smaller, and a learning
# rate 2,600 times larger makes up for it: in FP32, the network learns as before.

# %%
photo_pixels = 100_000_000  # as many as 32 colour photographs have


def fp32_step(model, optimizer):
    optimizer.zero_grad()
    error = mse_loss(model(pictures), pictures, reduction="sum")
    loss = error / photo_pixels
    loss.backward()
    optimizer.step()
    return error.item() / our_pixels  # what the curves below show


def train(step, model, lr=photo_pixels / our_pixels):
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    return [step(model, optimizer) for _ in range(150)]


fp32_model = autoencoder().to(device)  # always the same initial weights
fp32 = train(fp32_step, fp32_model)
print(f"FP32: error per pixel {fp32[0]:.3f} at the start, {fp32[-1]:.3f} after 150 steps")

# %% [markdown]
# ## The same training in FP16
#
# FP16 numbers have 16 bits. They keep 3 to 4 decimal digits, and reach from 6e-8 to 65,504. Inside
# `torch.autocast`, PyTorch makes temporary FP16 copies of what goes into a matrix product. Your
# parameters stay in FP32.


# %%
def fp16_step(model, optimizer):
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.float16):  # new
        error = mse_loss(model(pictures), pictures, reduction="sum")
        loss = error / photo_pixels
    loss.backward()
    optimizer.step()
    return error.item() / our_pixels


# %% tags=["question"]
predict("amp_in_20_minutes.big_pictures")

# %%
fp16_model = autoencoder().to(device)
fp16 = train(fp16_step, fp16_model)
plots.training(
    {"FP32": fp32, "FP16": fp16},
    title="The same training in FP32 and FP16",
    ylabel="error per pixel",
)

# %%
plots.paintings(
    {"original": pictures, "FP32": fp32_model(pictures), "FP16": fp16_model(pictures)},
)

# %%
start = torch.cat([p.detach().flatten() for p in autoencoder().to(device).parameters()])
end = torch.cat([p.detach().flatten() for p in fp16_model.parameters()])
print(f"weights that changed: {(start != end).sum()} of {len(start)}")

# %% [markdown]
# No weight has changed in 150 steps. There was no exception, no warning and no NaN. The smallest positive
# number of FP16 is 6e-8. What is at most half of that becomes zero, and so do the first gradients on the
# way back. Every other gradient is computed from them, so all are zero. This is [[term underflow]].
#
# ## Drag the loss scale
#
# Gradients are proportional to the loss. Multiply the loss by a number, and every gradient grows by
# the same factor. Divide by that number before the update, and the optimizer sees the true gradient.
# The number is the **loss scale**, and this is [[term loss scaling]].
#
# So how large should it be? Run the cell, make a guess, and then drag. The slider shows two groups of
# gradients: those that the backward pass hands from layer to layer, and those of the weights. Both
# are computed in FP16. What becomes 0 there stays 0 in a weight's `.grad`, though that is FP32.

# %% tags=["widget"]
LossScaleLab()

# %% [markdown]
# Each position of the slider is a real training of our network, recorded on a CPU. In the zone *fewer
# bits*, FP16 keeps a number with fewer digits. Three things to notice:
#
# - **Too small:** gradients become zero on the way through the layers, and so do the weights' gradients,
#   which are computed from them. At a scale of 16, from 41% at the start to 75% at the end of those
#   between the layers are zero. The network still learns as well as in FP32: what it loses are the
#   smallest ones. At 4 its error ends at 0.052. At 1 all are zero, and it learns nothing.
# - **Too large:** gradients no longer fit into FP16, which ends at 65,504, and become inf. One step with
#   them destroys the weights. Here the gradients of the weights become inf first: each is a sum over
#   all pictures.
# - **Why it moves:** drag **Time**. These gradients shrink while the network learns, so the right scales
#   move up. Here any fixed scale from 13.5 to 2^32 works. You don't know that range before you train,
#   so the scale is adjusted while you do.
#
# ([[Lesson how_numbers_break]] counts what a classifier loses in this way.)
#
# ## Three lines of code
#
# `GradScaler` does this for you. It multiplies the loss, and divides the gradients
# before the update. If it finds inf or NaN in them, it skips the step and halves the scale. After
# 2,000 steps without inf or NaN it doubles the scale.

# %%
scaler = torch.amp.GradScaler(device)  # starts at a scale of 65,536


def amp_step(model, optimizer):
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        error = mse_loss(model(pictures), pictures, reduction="sum")
        loss = error / photo_pixels
    scaler.scale(loss).backward()  # 1. multiply the loss, then compute gradients
    scaler.step(optimizer)  # 2. divide the gradients, check them, then step or skip
    scaler.update()  # 3. adjust the scale for the next step
    return error.item() / our_pixels


# %% tags=["question"]
predict("amp_in_20_minutes.how_close")

# %%
amp_model = autoencoder().to(device)
amp = train(amp_step, amp_model)
plots.training(
    {"FP32": fp32, "FP16": fp16, "mixed precision": amp},
    title="FP32, FP16, and FP16 with a GradScaler",
    ylabel="error per pixel",
)

# %% [markdown]
# The scale moves by itself. Here is a scaler that starts far too high:

# %%
scaler = torch.amp.GradScaler(device, init_scale=2.0**36)
model = autoencoder().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=photo_pixels / our_pixels, momentum=0.9)
for _ in range(7):
    exponent = math.log2(scaler.get_scale())
    print(f"scale 2^{exponent:.0f}: error per pixel {amp_step(model, optimizer):.3f}")
scaler = torch.amp.GradScaler(device)  # the usual one again

# %% [markdown]
# Each step with an overflow is skipped, and halves the scale. Then the network learns.
#
# ## The whole loop
#
# Here is a training loop in FP32, and what turns it into a mixed precision one, for CUDA or a CPU.
# It also clips: it limits the norm of all gradients together. Run the cell, click a coloured line to read
# what it's for, and copy the loop into your project.

# %% tags=["widget"]
WholeLoop()

# %% [markdown]
# Evaluate in the same `torch.autocast`, without a scaler. Older code says `torch.cuda.amp.autocast` and
# `torch.cuda.amp.GradScaler`, deprecated names of the same tools. [[Lesson autocast_ops]] explains
# autocast, [[lesson grad_scaler]] the scaler, and [[lesson training_loops]] larger loops.
#
# What do you gain? In NVIDIA's published training runs, mixed precision is 2.4 times as fast as FP32 on
# a V100, in the median of 147 runs. On an A100 it is 1.6 times as fast as TF32, a faster way to multiply
# FP32 matrices. [[Lesson speed]] has these runs, and [[lesson memory]] what you save in memory.
#
# The other 16-bit format is BF16, and one argument switches to it. Both learn:


# %%
def photo_loss(outputs, targets):
    return mse_loss(outputs, targets, reduction="sum") / photo_pixels


loader = [(pictures, pictures)]  # one batch
for dtype in (torch.float16, torch.bfloat16):
    model = autoencoder().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=photo_pixels / our_pixels, momentum=0.9)
    losses = train_amp(model, optimizer, loader, photo_loss, epochs=150, dtype=dtype)
    last = losses[-1] * photo_pixels / our_pixels  # back to the error per pixel
    print(f"{dtype}: error per pixel {last:.3f} after 150 steps")

# %% [markdown]
# ## FP16 or BF16: which should I use today?
#
# BF16 reaches almost as far as FP32, from 9e-41 to 3e38, so it doesn't need a scaler. The price is
# precision: it keeps 2 to 3 decimal digits, where FP16 keeps 3 to 4.
#
# - **NVIDIA Ampere or newer** (A100, L4, H100, RTX 30 series and later): BF16. With PyTorch's default
#   settings, these GPUs multiply BF16 matrices as fast as FP16 ones.
# - **NVIDIA Volta or Turing** (V100, T4, RTX 20 series): FP16 with a GradScaler. They have no
#   hardware for BF16 matrices.
# - **A CPU**: BF16 if it has instructions for it (the next cell shows that), else FP32. FP16 also
#   runs, but is usually slow.
# - **A model that was trained in BF16 before**: stay with BF16, or use FP32 where the hardware lacks
#   BF16. Some of its values may be too large for FP16.
#
# Scaling is worth knowing even if you only use BF16: FP8, with fewer bits still, needs a scale for each
# tensor or block ([[lesson fp8]]). What does your machine support in hardware?

# %% tags=["live"]
from amp_lessons.amp.speed import devices

for found in devices():
    supported = {"FP16": found.fp16, "BF16": found.bf16}
    formats = ", ".join(["FP32", *(name for name, there in supported.items() if there)])
    print(f"{found.name}, {found.model}: {formats}")

# %% [markdown]
# ## Three ways to break it
#
# - **No scaler.** You saw it at the start: the curve is flat, and nothing tells you why. Where only a part
#   of the gradients is lost, a network learns worse, which is harder to notice.
# - **`.half()` on the model.** It converts the parameters themselves, and so their gradients. The scaler
#   refuses these: `ValueError: Attempting to unscale FP16 gradients`. Keep the parameters in FP32, and
#   let autocast convert what it needs.
# - **Clipping before `unscale_`.** No error is raised. Try it:


# %%
norms = []


def early_step(model, optimizer):
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.float16):
        error = mse_loss(model(pictures), pictures, reduction="sum")
        loss = error / our_pixels  # the plain average: the true norm is about 0.2 at the start
    scaler.scale(loss).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
    scaler.unscale_(optimizer)  # one line too late
    scaler.step(optimizer)
    scaler.update()
    norms.append(norm.item())
    return error.item() / our_pixels


# %% tags=["question"]
predict("amp_in_20_minutes.clip_too_early")

# %%
scale = scaler.get_scale()
early = train(early_step, autoencoder().to(device), lr=1.0)
print(f"norm at the first step: {norms[0]:.0f}, divided by {scale:.0f}: {norms[0] / scale:.3f}")

model = autoencoder().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
right = train_amp(model, optimizer, loader, mse_loss, epochs=150, max_norm=1.0)
plots.training(
    {"unscale_, then clip": right, "clip before unscale_": early},
    title="Clipping in the right order, and too early",
    ylabel="error per pixel",
)

# %% [markdown]
# The network hardly learns: each gradient is cut to a norm of 1 and then divided by 65,536 as well.
#
# ## Recap
#
# 1. `torch.autocast` around the forward pass and the loss runs matrix products in 16 bits. The
#    parameters stay in FP32.
# 2. In FP16, gradients of 2.98e-8 or less become zero, without an exception or a warning.
# 3. `GradScaler` multiplies the loss, so that small gradients survive the backward pass, and divides
#    the gradients again before the update.
# 4. With clipping, the order is `unscale_`, clip, `step`, `update`.
# 5. BF16 has almost FP32's range and needs no scaler. Use it where your hardware supports it.
#
# ## Three questions

# %% tags=["question"]
ask(
    "amp_in_20_minutes.loss_stands_still",
    "amp_in_20_minutes.clip_order",
    "amp_in_20_minutes.dtype_of_parameters",
)

# %% [markdown]
# **Next:** [[exercises amp_in_20_minutes|a small exercise]] on what FP16 can store.
