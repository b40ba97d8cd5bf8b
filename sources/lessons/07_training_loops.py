# %% [markdown]
# # Lesson 07: Real training loops
#
# **You will be able to** clip, accumulate, schedule, train several models, save, resume, evaluate
# and serve in mixed precision, and keep one loop for FP32, BF16 and FP16.
#
# **Time** 50 minutes. **Needs** lessons [[lesson amp_from_scratch|03]] to [[lesson grad_scaler|06]]; no GPU.
#
# The loop of a tutorial has five lines. Yours has clipping, a schedule, checkpoints, a validation,
# perhaps two models. Each of them meets the scaler somewhere, and each meeting has a wrong order
# that raises nothing. Everything here runs on the real `torch.amp.GradScaler("cpu")`.

# %%
import copy
import tempfile
import warnings
from itertools import islice
from pathlib import Path

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_, parameters_to_vector

from amp_lessons import plots
from amp_lessons.scaler_log import ScalerLog
from amp_lessons.training import Batches, digits_network, load_digits

half, bfloat = torch.float16, torch.bfloat16
digits = load_digits()

# %% [markdown]
# Three helpers for the whole lesson: a fresh model with all that belongs to it, a few batches of
# digits, and the part that every loop shares. Only the forward pass and the loss stand under
# autocast; backward and the step never do. (`ScalerLog` is [[lesson grad_scaler]]'s: a GradScaler with a
# record.)


# %%
def fresh(init_scale=2.0**16):
    model = digits_network(width=32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return model, optimizer, ScalerLog(torch.amp.GradScaler("cpu", init_scale=init_scale))


def some_batches(count, size=64):
    return islice(Batches(digits.train_images, digits.train_labels, size), count)


def forward(model, x, y):
    with torch.autocast("cpu", dtype=half):
        return cross_entropy(model(x), y)


# %% [markdown]
# ## The order of the seven calls
#
# | call | what it does | when |
# |---|---|---|
# | `optimizer.zero_grad()` | removes the old gradients, and an old inf with them | once a step |
# | `forward`, under autocast | the loss | each batch |
# | `scaler.scale(loss).backward()` | gradients, times the scale | each batch |
# | `scaler.unscale_(optimizer)` | divides them by the scale, looks for inf | once a step, if you look at gradients |
# | `clip_grad_norm_(…)` | whatever wants true gradients | after `unscale_` |
# | `scaler.step(optimizer)` | unscales if nobody has; steps, unless there was an inf | once a step for each optimizer |
# | `scaler.update()` | lowers or raises the scale | once a step, last |

# %% [markdown]
# ## Clipping
#
# [[Lesson grad_scaler]] had the order: `unscale_`, clip, `step`, with the `max_norm` that you would use in FP32.
# A real run adds a question. **Predict:** a batch overflows. What norm does `clip_grad_norm_`
# return, and what becomes of the step?

# %%
model, optimizer, scaler = fresh(init_scale=2.0**40)
x, y = next(some_batches(1))
scaler.scale(forward(model, x, y)).backward()
scaler.unscale_(optimizer)
norm = clip_grad_norm_(model.parameters(), max_norm=0.1)
scaler.step(optimizer)
scaler.update()
print("norm is finite:", norm.isfinite().item(), " step skipped:", scaler.records[0].skipped)

# %% [markdown]
# `unscale_` looks for inf before the clip sees anything, so the step is skipped as it should be. An
# infinite norm (or one of NaN) now and then is part of FP16 training: leave it out of your
# averages, and do not set `error_if_nonfinite=True`, which would turn each of these steps into an
# exception.
#
# A second look at the gradients needs no second `unscale_`. **Predict:** what does a second one do?
# And a second `update`?

# %%
scaler.scale(forward(model, x, y)).backward()
scaler.unscale_(optimizer)
for call in (lambda: scaler.unscale_(optimizer), lambda: scaler.update() or scaler.update()):
    try:
        call()
    except (RuntimeError, AssertionError) as error:
        print(f"{type(error).__name__}: {error}")

# %% [markdown]
# ## Accumulation
#
# Four batches of 16 make one step of 64. **Predict:** how do their gradients compare with those of
# the one batch of 64, if you divide each loss by four? And if you forget to?


# %%
def gradients_of(pieces, divide=True):
    model, optimizer, scaler = fresh()
    for x, y in pieces:
        loss = forward(model, x, y)
        scaler.scale(loss / len(pieces) if divide else loss).backward()
    scaler.unscale_(optimizer)
    return torch.cat([p.grad.flatten() for p in model.parameters()])


x, y = next(some_batches(1))
pieces = list(zip(x.split(16), y.split(16), strict=True))
one, four, undivided = gradients_of([(x, y)]), gradients_of(pieces), gradients_of(pieces, False)

# %%
print("divided: within 1% of the big batch:", ((four - one).norm() < 0.01 * one.norm()).item())
print("divided: equal to the last bit:     ", torch.equal(four, one))
print(f"not divided: {(undivided.norm() / one.norm()).item():.1f} times as large")

# %% [markdown]
# The loss is a mean, so four of them must be averaged. (The small difference is FP16's: each piece
# is rounded for itself. Batch norm would add one of its own, since it looks at each piece alone.)
# And the gradients that are added up must carry the *same* scale. So what belongs to a step comes
# once a step:


# %%
def accumulate(model, optimizer, scaler, batches, every):
    for number, (x, y) in enumerate(batches, 1):
        scaler.scale(forward(model, x, y) / every).backward()
        if number % every == 0:
            scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), max_norm=1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


# %% [markdown]
# **Predict:** 24 batches, four to a step, and the sixth holds a pixel of 300000, which is inf in
# FP16. How many updates are there, how many steps, and how many batches are lost?

# %%
model, optimizer, scaler = fresh()
batches = [(x.clone(), y) for x, y in some_batches(24, size=16)]
batches[5][0][0, 20] = 3e5
accumulate(model, optimizer, scaler, batches, every=4)
print("updates:", len(scaler.records), " skipped:", scaler.skipped_steps)
print("scale after each:", [record.scale for record in scaler.records])

# %% [markdown]
# The whole group of four is lost, from the fifth batch to the eighth: once an inf is in the sum, it
# stays until `zero_grad()`. The scale falls *between* two groups, never inside one. If the last
# group of an epoch may be short, make a step for it too, and divide by the number of batches that
# it really has.
#
# ## Schedules follow the real steps
#
# A schedule counts its own calls, not the optimizer's. Here is a loop with [[lesson grad_scaler]]'s `if`, which
# may be left out. **Predict:** the first six batches overflow, and the learning rate is halved
# after each step. What is it when the first real step comes?


# %%
def train_with_schedule(wait, overflows=6, count=12):
    model, optimizer, scaler = fresh()
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.5)
    rates = []
    for number, (x, y) in enumerate(some_batches(count)):
        rates.append(scheduler.get_last_lr()[0])
        loss = forward(model, x * 1e7 if number < overflows else x, y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        before = scaler.get_scale()
        scaler.update()
        if not wait or scaler.get_scale() >= before:
            scheduler.step()
    return rates


# %%
with warnings.catch_warnings(action="ignore"):  # that the scheduler came first: lesson 06
    hasty = train_with_schedule(wait=False)
patient = train_with_schedule(wait=True)
print("learning rate of the first real step:", hasty[6], "or, with patience,", patient[6])

# %%
plots.curves(
    {"follows the calls": hasty, "follows the steps": patient},
    title="Six skipped steps, and what the schedule makes of them",
    xlabel="batch",
    ylabel="learning rate",
    alt="Two learning rates over 12 batches. One halves from the first batch on, although the "
    "first six steps are skipped; the other stays at 0.1 for those six and halves afterwards.",
)

# %% [markdown]
# The hasty schedule is six steps ahead of the training, and its first real step is 64 times too
# small. `wait` asks what [[lesson grad_scaler]] asked: did the scale fall? (`get_scale()` makes a GPU wait, and
# so does `step()`.) A schedule that steps once an epoch hardly feels a skip; one that steps with
# each batch, with a warm-up at the very beginning, does.

# %% [markdown]
# ## Two optimizers
#
# Two models, each with its own loss and optimizer, share one scaler. **Predict:** the second
# model overflows. Which optimizers step, and what becomes of the scale?

# %%
models = [digits_network(width=32, seed=s) for s in (0, 1)]
optimizers = [torch.optim.SGD(model.parameters(), lr=0.1) for model in models]
before = [parameters_to_vector(model.parameters()).detach() for model in models]
scaler = torch.amp.GradScaler("cpu")
scaler.scale(forward(models[0], x, y)).backward()
scaler.scale(forward(models[1], x * 1e7, y)).backward()
for optimizer in optimizers:
    scaler.step(optimizer)
scaler.update()
for name, model, old in zip(("first", "second"), models, before, strict=True):
    print(
        f"the {name} model moved:", not torch.equal(old, parameters_to_vector(model.parameters()))
    )
print("scale:", scaler.get_scale())

# %% [markdown]
# The scaler keeps its record of inf for each optimizer, so the healthy model steps. The scale is
# one for all, and falls. This is why there is one scaler and *one* `update()`, after the last
# step: with an update in between, the second optimizer's gradients could carry one scale and be
# divided by another. It is also why a scale that fell does not say which of the two was skipped: a
# schedule for each has to count real steps by a hook, as question 2 does below (if not fused).
#
# Two losses for *one* model need nothing special. **Predict:** is
# `scale(a + b).backward()` the same as `scale(a).backward()` and `scale(b).backward()`?

# %%
gradients = []
for together in (True, False):
    model, optimizer, scaler = fresh()
    with torch.autocast("cpu", dtype=half):
        logits = model(x)
        a, b = cross_entropy(logits, y), 0.1 * logits.float().square().mean()
    if together:
        scaler.scale(a + b).backward()
    else:
        scaler.scale(a).backward(retain_graph=True)  # the graph is needed once more
        scaler.scale(b).backward()
    scaler.unscale_(optimizer)
    gradients.append(torch.cat([p.grad.flatten() for p in model.parameters()]))
difference = (gradients[0] - gradients[1]).norm() / gradients[0].norm()
print("the same to within 1%:", difference.item() < 0.01)

# %% [markdown]
# Up to FP16's rounding it is, and the sum is cheaper: one pass goes through the shared part once.
# Every loss whose gradients the scaler will meet must be scaled by it. In adversarial training only
# one of the optimizers may have gradients this time. **Predict:** what does `step` say to the
# other?

# %%
model, optimizer, scaler = fresh()
scaler.scale(forward(model, x, y))  # and no backward pass
try:
    scaler.step(optimizer)
except AssertionError as error:
    print("AssertionError:", error)

# %% [markdown]
# Leave out its `step` this time.
#
# ## A loss made of gradients
#
# A gradient penalty adds the norm of the gradients to the loss. `torch.autograd.grad` gives them
# without touching `.grad`, so `unscale_` knows nothing of them. **Predict:** how large is the
# penalty if you use them as they come? And if you divide by the scale?


# %%
def norm_of(gradients):
    return sum(g.square().sum() for g in gradients).sqrt()


model, optimizer, scaler = fresh()
weights, loss = list(model.parameters()), forward(model, x, y)
exact = norm_of(torch.autograd.grad(cross_entropy(model(x), y), weights))  # in FP32
scaled = torch.autograd.grad(scaler.scale(loss), weights, create_graph=True)
penalty = norm_of([g / scaler.get_scale() for g in scaled])
print(f"as they come: {(norm_of(scaled) / exact).log2().item():.1f} powers of two too large")
print("divided, within 1% of FP32:", ((penalty - exact).abs() < 0.01 * exact).item())
scaler.scale(loss + 0.1 * penalty).backward()
scaler.step(optimizer)
scaler.update()
print("skipped:", scaler.records[0].skipped)

# %% [markdown]
# So: scale, take the gradients, divide them *by hand*, build the penalty, scale the whole loss once
# more for the backward pass
# ([PyTorch's
# example](https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-penalty)).
#
# ## Save and resume
#
# PyTorch's recipe saves three things: model, optimizer and scaler. **Predict:** what else does the
# next step of this run depend on?


# %%
def start(seed):
    """All parts of a run, each with a state_dict()."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Dropout(0.2), digits_network(width=32, seed=seed))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    return {
        "model": model,
        "optimizer": optimizer,
        "scaler": torch.amp.GradScaler("cpu", init_scale=2.0**22),
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.3),
        "batches": Batches(digits.train_images, digits.train_labels, size=16, seed=seed),
    }


# %%
def train(parts, epochs):
    """Train on epochs of eight batches; return the losses."""
    model, optimizer, scaler, scheduler, batches = parts.values()
    losses = []
    for _ in range(epochs):
        for x, y in islice(batches, 8):
            optimizer.zero_grad()
            loss = forward(model, x, y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        scheduler.step()
    return losses


# %% [markdown]
# Dropout draws from torch's global random numbers, and the batches come in an order of their own.
# With the schedule that makes six parts. We interrupt a run after two epochs, go on in a fresh one
# with one part left out, and ask which loss is the first to differ. **Predict:** for which parts is
# it the very first one?


# %%
def resumed(left_out=None):
    """Two epochs, a checkpoint, and two more in a fresh run; the losses after the checkpoint."""
    first = start(seed=0)
    train(first, 2)
    saved = {name: copy.deepcopy(part.state_dict()) for name, part in first.items()}
    random_numbers = torch.get_rng_state()
    second = start(seed=1)
    for name, part in second.items():
        if name != left_out:
            part.load_state_dict(saved[name])
    if left_out != "random numbers":
        torch.set_rng_state(random_numbers)
    return train(second, 2)


# %%
uninterrupted = train(start(seed=0), 4)[16:]
print("with all six parts, equal to the last bit:", resumed() == uninterrupted)
for part in ("model", "batches", "random numbers", "optimizer", "scaler", "scheduler"):
    pairs = zip(resumed(left_out=part), uninterrupted, strict=True)
    first = next(number for number, (a, b) in enumerate(pairs, 1) if a != b)
    print(f"without the {part:14} the losses differ from number {first} on")

# %% [markdown]
# The model, the data order and the random numbers show at once. The optimizer and the scaler show
# after the first step: momentum and learning rate are gone, and a fresh scale, too large for this
# run, costs steps until it has come down again. The scheduler hides longest, since the learning
# rate of the moment lies in the optimizer: it shows after the next epoch. A test that compares one
# step after a restart would not have found it. (An epoch has 8 losses. The ninth is computed before
# the first step with the new rate, so the tenth is the first to differ.)
#
# How much a forgotten scaler costs depends on the run. **Predict:** what if its fresh scale happens
# not to overflow, and only differs from the old one?

# %%
weights = []
for scale in (2.0**10, 2.0**12):
    model, optimizer, scaler = fresh(init_scale=scale)
    for x, y in some_batches(5):
        optimizer.zero_grad()
        scaler.scale(forward(model, x, y)).backward()
        scaler.step(optimizer)
        scaler.update()
    weights.append(parameters_to_vector(model.parameters()).detach())
print("equal to within 0.001:", torch.allclose(*weights, atol=1e-3))

# %% [markdown]
# Then hardly anything: a scale is a power of two, so it changes gradients only where FP16 runs out
# of range. Save it all the same: its count of clean steps is part of it, and a run that needs a
# small scale would skip steps after each restart until it has found it again.
#
# In a file it looks like this. `save_checkpoint` of this course adds the random numbers by itself,
# writes the file whole or not at all, and `load_checkpoint` refuses one that does not fit before
# anything is loaded; read it in `amp_lessons/checkpoint.py`.

# %%
from amp_lessons.training import load_checkpoint, save_checkpoint

first = start(seed=0)
train(first, 2)
path = Path(tempfile.mkdtemp()) / "run.pt"
save_checkpoint(path, **first)
train(first, 1)  # the run goes on; the file does not change
second = start(seed=1)
load_checkpoint(path, **second)
print("equal to the last bit:", train(second, 2) == uninterrupted)
print("in the file:", ", ".join(torch.load(path)["states"]))

# %% [markdown]
# Five things around it:
#
# - One scaler lives as long as the run. A new run gets a new one.
# - `torch.load(path, map_location="cpu")` reads a file from a GPU on any machine; `load_state_dict`
#   then copies to where the model is.
# - Save between `update()` and the next backward pass. In the middle of a group of accumulated
#   batches the gradients belong to the state too, and nobody saves those.
# - `torch.load` reads tensors and plain data, not the objects themselves (`weights_only=True` is
#   the default since 2.6). Save `state_dict()`s.
# - The tensors in a `state_dict()` *are* the model's. Kept in memory as "the best model so far",
#   they go on training: make a deep copy.
#
# ## Evaluate as you train
#
# An evaluation has three switches: `eval()` for dropout and batch norm, `no_grad()` for autograd,
# autocast for the precision. None does another's work. **Predict:** does the model with dropout
# give the same answer twice under `no_grad()` and autocast, if nobody calls `eval()`?

# %%
model = second["model"]
images, labels = digits.validation_images, digits.validation_labels
for mode in ("train", "eval"):
    getattr(model, mode)()
    with torch.no_grad(), torch.autocast("cpu", dtype=half):
        once, again = model(images), model(images)
    print(f"{mode}(): twice the same {torch.equal(once, again)}, {once.dtype}")

# %% [markdown]
# Why the same precision? Here is a model whose first layer is 100000 times too large, and whose
# second makes up for it: in exact arithmetic nothing has changed. **Predict:** what does a
# validation in FP32 say about it, and what one in FP16?

# %%
from amp_lessons.training import accuracy

sick = copy.deepcopy(model[1])
with torch.no_grad():
    for parameter in (sick[0].weight, sick[0].bias):
        parameter *= 1e5
    sick[2].weight /= 1e5
for name, dtype in (("FP32", None), ("FP16", half)):
    healthy, now = (accuracy(m, images, labels, dtype) for m in (model[1], sick))
    print(f"{name}: as good as before: {abs(healthy - now) < 0.05}")

# %% [markdown]
# FP32 sees a healthy model. In FP16 the hidden layer overflows, and only a validation in FP16 shows
# it. After each evaluation call `model.train()` again, or the next epoch trains without dropout.
#
# ## Inference: autocast or a cast model
#
# For inference there is a second way: cast the model once. It needs half the bytes for its
# parameters and no casts ([[lesson autocast_regions]] counts both). **Predict:** does it give the answers of
# autocast, for a model that has learned something?

# %%
network = model[1].eval()
for dtype in (half, bfloat):
    cast = copy.deepcopy(network).to(dtype)
    with torch.inference_mode():
        answer = cast(images.to(dtype))
        with torch.autocast("cpu", dtype=dtype):
            mixed = network(images)
    same = (mixed.argmax(1) == answer.argmax(1)).float().mean().item() > 0.98
    print(f"{dtype}: the same digits: {same}")

# %% [markdown]
# It does, up to a digit here and there, and it is what you want for serving. Autocast keeps the
# FP32 weights and makes 16-bit copies of them again and again: under `inference_mode()` its cache
# does not work. Its advantage is that it runs the operations of its FP32 list in FP32 ([[lesson autocast_ops]]),
# as it did in training. So evaluate with autocast while you train; cast for serving, and compare
# the two once. No scaler is needed for either: there is no backward pass.

# %% [markdown]
# ## One path for every precision
#
# Autocast and GradScaler both take `enabled=`. A disabled scaler gives the loss back as it is
# ([[lesson grad_scaler]]). **Predict:** what does its `state_dict()` hold, and what becomes of an FP16 run that
# loads it?

# %%
off = torch.amp.GradScaler("cpu", enabled=False)
print("scale:", off.get_scale(), " state:", off.state_dict())
try:
    torch.amp.GradScaler("cpu").load_state_dict(off.state_dict())
except RuntimeError as error:
    print("RuntimeError:", error)

# %% [markdown]
# Its `unscale_` and `update` do nothing, and its `step` is the optimizer's. So a loop that is
# written for FP16 is a correct FP32 loop with both switched off, and a correct BF16 loop with the
# scaler off. That is the right pattern for a precision that is a setting: three loops would drift
# apart, and a bug in the FP16 one would never show in FP32. The price is the trap in the last line:
# a run that was saved without a scale cannot hand one to an FP16 run.


# %%
def train_in(precision, count=80):
    mixed, dtype = precision != "FP32", half if precision == "FP16" else bfloat
    model = digits_network(width=32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "FP16")
    for x, y in some_batches(count, size=32):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=mixed):
            loss = cross_entropy(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, images, labels, dtype if mixed else None), scaler.get_scale()


# %% [markdown]
# **Predict:** which of the three learn the digits, and with what scale do they end?

# %%
for precision in ("FP32", "BF16", "FP16"):
    share, scale = train_in(precision)
    print(f"{precision}: more than 80% right: {share > 0.8}, scale {scale:g}")

# %% [markdown]
# A loop for BF16 alone needs no scaler at all: BF16 has FP32's range. It still needs autocast, the
# loss under it, a backward pass, a step and `zero_grad()`; `train_bf16` in
# `amp_lessons/training.py` is that loop.
#
# **Predict:** is a disabled scaler also right for FP16, "because the loss is small anyway"?

# %%
from amp_lessons.training import train_digits

for mode in ("fp32", "bf16", "fp16", "fp16 unscaled"):
    run = train_digits(mode, 100, loss_factor=1e-6, learning_rate=0.3, width=32, batch=32)
    print(f"{mode:13} loss times 1e-6: learns {run.accuracy > 0.7}")

# %% [markdown]
# No: with a small loss the FP16 gradients are zero. A disabled scaler is right when the precision
# is not FP16, and only then.
#
# The device is a setting too. The recipe chooses one and calls `torch.set_default_device`; then it
# says `.cuda()` and `GradScaler("cuda")` all the same. **Predict:** which of these follow the
# default: a new tensor, a new layer, a tensor that is there already, a new scaler? (`"meta"` is a
# device with shapes and no data: it stands for any other.)

# %%
import inspect

torch.set_default_device("meta")
print("new:       ", torch.ones(2).device, nn.Linear(2, 2).weight.device)
print("there:     ", x.device)
print("GradScaler:", inspect.signature(torch.amp.GradScaler).parameters["device"].default)
torch.set_default_device(None)

# %% [markdown]
# Only what is made from then on. Scaler and region have to be told: keep the device in one name,
# and give it to the model, the batches, `torch.autocast` and `GradScaler`.
#
# ## When a loop misbehaves
#
# | symptom | cause | remedy |
# |---|---|---|
# | the loss hardly falls, the norm reads in the thousands | clipped before `unscale_` | `unscale_`, clip, `step` |
# | one overflow, then every step is skipped | no `zero_grad()` | once a step |
# | steps too large by the number of batches in a group | loss not divided | divide it |
# | "unscale_() has already been called" | unscaled for each batch, or twice | once a step |
# | "No inf checks were recorded prior to update" | `update()` without a step | once, after `step` |
# | "Attempted step but _scale is None" | the loss was not scaled | `scaler.scale(loss).backward()` |
# | "Attempting to unscale FP16 gradients" | the model was cast to half | leave it FP32, use autocast |
# | warning about `lr_scheduler.step()` | the first step was skipped | follow the real steps |
# | steps are skipped after each restart or epoch | a fresh scaler | one scaler a run, and save it |
# | validation good, training stuck | evaluated in FP32 | the same autocast for both |

# %% [markdown]
# ## Recap
#
# 1. Scale, backward, `unscale_`, clip, step, update: what looks at gradients stands after
#    `unscale_`.
# 2. Accumulating, divide the loss, and do the rest once for each effective batch.
# 3. Schedules follow the real steps; one scaler and one `update()` serve any number of optimizers.
# 4. A run is model, optimizer, scaler, schedule, random numbers and data order; save all six.
# 5. Evaluate in the precision of the training; `enabled=` keeps one loop for all of them.

# %% [markdown]
# ## Three questions

# %% tags=["question"]
from amp_lessons.interview import ask

ask(
    "training_loops.unscale_in_accumulation",
    "training_loops.one_of_two_overflows",
    "training_loops.resume_without_scheduler",
)

# %% [markdown]
# **Next:** [[exercises training_loops|ten exercises]]: six broken loops to fix, and four
# loops to write. The exact resume among them is graded to the last bit. Then
# [[lesson losses_and_ops]]: losses, norms and your own ops.
