# %% [markdown]
# # Lesson 07, deeper: Training loops at their edges
#
# This notebook is optional. It has what fewer loops need: a loss made of gradients, averaged weights,
# the steps of each optimizer, a checkpoint's file, and two ways to serve a model. All of it runs on a
# CPU.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson training_loops]].

# %%
import copy
import math
import tempfile
from collections import Counter
from pathlib import Path

import torch
from torch.nn.functional import mse_loss
from torch.optim.swa_utils import AveragedModel

from amp_lessons import autoencoder, load_digits, predict
from amp_lessons.amp.training import load_checkpoint, save_checkpoint
from amp_lessons.lessons.experiments import raised

pictures = load_digits().train_images[:600]
GradScaler = torch.amp.GradScaler

# %% [markdown]
# ## A loss made of gradients
#
# A gradient penalty adds a term to the loss that is made of gradients, here their norm. You compute
# the gradients with `torch.autograd.grad`, which returns them and leaves `.grad` alone. The loss is
# scaled by 65,536.


# %%
def norm_of(gradients):
    return sum(gradient.square().sum() for gradient in gradients).sqrt()


model = autoencoder()
weights = list(model.parameters())
true_norm = norm_of(torch.autograd.grad(mse_loss(model(pictures), pictures), weights))  # FP32
with torch.autocast("cpu", dtype=torch.float16):
    loss = mse_loss(model(pictures), pictures)
scaler = GradScaler("cpu")
scaled = torch.autograd.grad(scaler.scale(loss), weights, create_graph=True)

# %% tags=["question"]
predict("training_loops.penalty_as_it_comes")

# %%
print(f"true norm, in FP32:         {true_norm.item():.3f}")
print(f"norm as it comes:           {norm_of(scaled).item():,.0f}")
penalty = norm_of([gradient / scaler.get_scale() for gradient in scaled])
print(f"norm after dividing:        {penalty.item():.3f}")
scaler.scale(loss + 0.1 * penalty).backward()  # then step and update, as always

# %% [markdown]
# PyTorch's documentation has
# [the whole loop](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-penalty).
#
# ## Averaged weights
#
# Many runs keep an average of the weights beside the model, and validate that. In each iteration,
# `AveragedModel` takes in the weights as they are now. Its default is a plain mean. Our weight is 1, 2,
# 3 and 4 after four real steps, and one step between 3 and 4 is skipped.

# %% tags=["question"]
predict("training_loops.average_with_a_skip")

# %%
model = torch.nn.Linear(1, 1, bias=False)
torch.nn.init.zeros_(model.weight)
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
scaler, each_time, each_real_step = GradScaler("cpu"), AveragedModel(model), AveragedModel(model)
for overflow in (False, False, False, True, False):
    optimizer.zero_grad()
    scaler.scale(-model.weight.sum() * (math.inf if overflow else 1.0)).backward()
    before = scaler.get_scale()
    scaler.step(optimizer)
    scaler.update()
    each_time.update_parameters(model)
    if scaler.get_scale() >= before:
        each_real_step.update_parameters(model)
print(f"average, updated in each iteration:    {each_time.module.weight.item():.1f}")
print(f"average, updated after each real step: {each_real_step.module.weight.item():.1f}")

# %% [markdown]
# You have the same choice with an average that forgets, such as
# `AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))`. One skip hardly matters there, and
# hundreds in a row do.
#
# `AveragedModel(…, use_buffers=True)` also averages BatchNorm's running statistics. Once the average has
# taken in a NaN, it stays NaN, even when you have repaired the model.
#
# ## The steps of each optimizer
#
# With two optimizers and one scaler, a falling scale doesn't say which of them skipped. A hook on
# each optimizer counts its real steps, and a schedule can follow that. (A fused optimizer is called
# for skipped steps too, so this doesn't work with `fused=True`: [[deep grad_scaler]].)

# %%
weights = [torch.tensor(3.0, requires_grad=True) for _ in range(2)]
optimizers = [torch.optim.SGD([weight], lr=0.1) for weight in weights]
scaler, steps = GradScaler("cpu"), Counter()


def count(optimizer, args, kwargs):
    steps[optimizer] += 1


for optimizer in optimizers:
    optimizer.register_step_post_hook(count)

# %%
for overflow in (True, False, False):
    for weight, optimizer in zip(weights, optimizers, strict=True):
        optimizer.zero_grad()
        scaler.scale(weight**2).backward()
    weights[0].grad += math.inf if overflow else 0.0
    for optimizer in optimizers:
        scaler.step(optimizer)
    scaler.update()
print("real steps:", *(steps[optimizer] for optimizer in optimizers))

# %% [markdown]
# In adversarial training, one of the two may have no gradients this time. Then `scaler.step` raises an
# error, unless that optimizer is fused. Leave out its `step` in such an iteration; the other and
# `update` go on as usual.

# %%
for optimizer in optimizers:
    optimizer.zero_grad()
scaler.scale(weights[0] ** 2).backward()
print("first: ", raised(lambda: scaler.step(optimizers[0])))
print("second:", raised(lambda: scaler.step(optimizers[1])))
scaler.update()

# %% [markdown]
# ## The norm in the log
#
# Here a run with clipping starts with a scale of $2^{24}$, which is 8 times too high. It logs
# the norm that `clip_grad_norm_` returns. At the end we take the mean of all 50 norms, and of the
# finite ones.

# %%
model = autoencoder()
optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
scaler, norms = GradScaler("cpu", init_scale=2.0**24), []
for _ in range(50):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = mse_loss(model(pictures), pictures)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0).item())
    scaler.step(optimizer)
    scaler.update()
finite = [norm for norm in norms if math.isfinite(norm)]
print(f"mean of {len(norms)} norms: {sum(norms) / len(norms):.2f}", end=", ")
print(f"of the {len(finite)} that are finite: {sum(finite) / len(finite):.2f}")

# %% [markdown]
# ## What is in the file
#
# `save_checkpoint` of this course writes a whole file or none. It adds the random numbers of PyTorch
# (the CPU's, and once CUDA is in use, those of all GPUs), NumPy and Python. `load_checkpoint` checks
# the file first, and loads all of it or nothing.

# %%
path = Path(tempfile.mkdtemp()) / "run.pt"
save_checkpoint(path, model=model, optimizer=optimizer, scaler=scaler)
content = torch.load(path, map_location="cpu")
print("parts:", ", ".join(content["states"]))
print("random numbers:", ", ".join(content["random"]))
off = GradScaler("cpu", enabled=False)
error = raised(lambda: load_checkpoint(path, model=model, optimizer=optimizer, scaler=off))
print(error.replace(str(path), "run.pt"))

# %% [markdown]
# `torch.load(path, map_location="cpu")` reads a file from a GPU on any machine. The model's
# `load_state_dict` then copies each tensor to where the model is. Older code says
# `map_location=lambda storage, loc: storage.cuda(dev)`. That fails on a machine without CUDA, and
# it moves the CPU's random numbers to the GPU, where `torch.set_rng_state` refuses them. A
# `DataLoader` has no `state_dict()` in PyTorch 2.13. The batches of this course have one, and so
# does [`StatefulDataLoader`](https://github.com/meta-pytorch/data) of torchdata.
#
# Two more things are easy to get wrong:
#
# - Save each `state_dict()`, not the object. Since PyTorch 2.6, `torch.load` by default refuses most
#   objects other than tensors and plain data.
# - The tensors in a model's `state_dict()` are its own, so they change in the next step. If you keep
#   "the best model so far" in memory, use `copy.deepcopy`.
#
# ## Two ways to serve
#
# For inference you can keep the FP32 model and use autocast, or convert the model once to 16 bits. We
# look at the network from above after its 47 real steps, on pictures that it has not seen.

# %%
unseen, model = load_digits().validation_images, model.eval()
with torch.inference_mode():
    print(f"FP32:               error per pixel {mse_loss(model(unseen), unseen).item():.4f}")
    for dtype in (torch.float16, torch.bfloat16):
        converted = copy.deepcopy(model).to(dtype)
        with torch.autocast("cpu", dtype=dtype):
            mixed = model(unseen)
        for name, painted in {"autocast": mixed, "converted": converted(unseen.to(dtype))}.items():
            error = mse_loss(painted.float(), unseen).item()
            print(f"{str(dtype)[6:]:8}  {name:9} error per pixel {error:.4f}")

# %% [markdown]
# Both are good here, and the converted model needs half the bytes for its parameters. Under
# `inference_mode`, autocast converts each weight again in each call ([[lesson autocast_regions]]). A
# converted model doesn't. But autocast still runs some operations in FP32 ([[lesson autocast_ops]]), and
# a converted model runs its operations in 16 bits. So compare the two once on your own data. Neither
# needs a scaler, because there is no backward pass.
#
# ## `bf16=True` isn't `dtype=torch.bfloat16`
#
# In a Hugging Face script you meet two settings that sound alike. `TrainingArguments(bf16=True)` trains
# under autocast. `from_pretrained(…, dtype=torch.bfloat16)` loads the weights in BF16, and without more
# code everything else follows. Here are both by hand, for one step of AdamW.

# %%
for name, dtype in (("bf16=True", torch.float32), ("dtype=bfloat16", torch.bfloat16)):
    network = autoencoder().to(dtype)
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    before = network[0].weight.detach().clone()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype is torch.float32):
        loss = mse_loss(network(unseen.to(dtype)).float(), unseen)
    loss.backward()
    optimizer.step()
    weight = network[0].weight
    kept = (weight, weight.grad, *(v for v in optimizer.state[weight].values() if v.ndim))
    dtypes, size = {str(t.dtype)[6:] for t in kept}, sum(t.element_size() for t in kept)
    moved = (weight != before).float().mean()
    print(f"{name:15} weights, gradients, averages: {dtypes}, {size} bytes", end=", ")
    print(f"{moved:.0%} of the weights moved")

# %% [markdown]
# The second way needs half the bytes, and small updates are lost in the rounding
# ([[lesson how_numbers_break]]). For LoRA, people mix a frozen model in BF16 and an adapter in FP32. PEFT [casts](https://huggingface.co/docs/peft/package_reference/functional) new adapters to FP32
# by default (`autocast_adapter_dtype=True`).
#
# ## One place for the device
#
# [PyTorch's AMP recipe](https://docs.pytorch.org/tutorials/recipes/recipes/amp_recipe.html) calls
# `torch.set_default_device`, and still names CUDA in other lines. So what follows the default? Here
# `"meta"` stands for a GPU. It is a device for tensors that have a shape and no data.

# %% tags=["question"]
predict("training_loops.follows_the_default")

# %%
there = torch.ones(2)
torch.set_default_device("meta")
print("a new tensor:           ", torch.ones(2).device)
print("a new layer's weight:   ", torch.nn.Linear(2, 2).weight.device)
print("a tensor made before:   ", there.device)
print("GradScaler():           ", GradScaler(enabled=False)._device)
torch.set_default_device(None)

# %% [markdown]
# Keep the device in one variable, and give it to the model, the batches, `torch.autocast` and
# `GradScaler`. If it's a `torch.device`, such as `torch.device("cuda:0")`, `torch.autocast` wants
# its type: `device.type`. A loss such as `nn.MSELoss()` holds no tensors, so it needs no
# `.to(device)`; `nn.CrossEntropyLoss(weight=…)` does hold one.
#
# Back to [[lesson training_loops]], its [[exercises training_loops]], or on to
# [[lesson losses_and_ops]].
