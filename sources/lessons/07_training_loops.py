# %% [markdown]
# # Lesson 07: Real training loops
#
# So far the loop had one batch and one scaler. In a real training, batches don't fit into memory, and
# the learning rate follows a schedule. You validate, and the job is killed at night. Here you add these
# to the loop, one at a time. For each of them there is a wrong way that raises no error.
#
# **You will be able to** accumulate gradients, let a schedule follow the real steps, train two models
# with one scaler, resume an interrupted run exactly, and validate a model in mixed precision.
#
# **Time** [[minutes]] minutes. **Needs** [[lesson grad_scaler]] and the lessons before it; no GPU.

# %%
import warnings
from itertools import islice

import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss

from amp_lessons import ask, autoencoder, load_digits, plots, predict
from amp_lessons.amp.training import Batches

device = "cuda" if torch.cuda.is_available() else "cpu"
pictures = load_digits().train_images[:600].to(device)
our_pixels, big = pictures.numel(), 100_000_000
GradScaler = torch.amp.GradScaler

# %% [markdown]
# ## A batch that doesn't fit
#
# Your training needs batches of 600 pictures, but your GPU runs out of memory at 200. So you cut the
# batch into four pieces of 150. `backward()` adds to `.grad`: you call it once for each piece, and step
# after the fourth. This is [[term gradient accumulation]], and the pieces are also called micro-batches.
#
# Our network is again the one of [[lesson amp_in_20_minutes]], which paints digits: the painter. As
# there, we pretend that the pictures have 100 million pixels. This makes the loss so small that FP16
# needs a scaler. The learning rate is raised to match.
#
# First we train with one batch. Then we train with four pieces, once with each loss divided by 4
# (`divisor`), and once without that division.


# %%
def painting_loss(model, batch):
    """The loss to train on, and the error per pixel to show."""
    with torch.autocast(device, dtype=torch.float16):
        error = mse_loss(model(batch), batch)  # the mean over the pixels of this batch
    return error * our_pixels / big, error.item()


def train(step, pieces, divisor, rate=1):
    model = autoencoder().to(device)  # always the same initial weights
    optimizer = torch.optim.SGD(model.parameters(), lr=rate * big / our_pixels, momentum=0.9)
    scaler = GradScaler(device)
    return [step(model, optimizer, scaler, pieces, divisor) for _ in range(150)]


# %%
def step_in_pieces(model, optimizer, scaler, pieces, divisor):
    optimizer.zero_grad()
    errors = []
    for piece in pieces:
        loss, error = painting_loss(model, piece)
        scaler.scale(loss / divisor).backward()
        errors.append(error)
    scaler.step(optimizer)
    scaler.update()
    return sum(errors) / len(errors)


one_batch = train(step_in_pieces, [pictures], divisor=1)
print(f"one batch: error per pixel {one_batch[-1]:.3f} in step 150")

# %% tags=["question"]
predict("training_loops.undivided_pieces")

# %%
four = pictures.split(150)
in_four = train(step_in_pieces, four, divisor=4)
undivided = train(step_in_pieces, four, divisor=1)
rate_4 = train(step_in_pieces, [pictures], divisor=1, rate=4)
runs = {"one batch": one_batch, "/ 4": in_four, "undivided": undivided, "rate * 4": rate_4}
for name, errors in runs.items():
    print(f"{name:9}  error after 1 step {errors[1]:.2f}, after 10 {errors[10]:.2f}", end=", ")
    print(f"the largest in 150 steps {max(errors):.2f}")

# %% [markdown]
# Undivided, the gradients of the four pieces add up to four times those of one batch. With SGD that
# is four times the learning rate, and here too much.
#
# ## One bad piece
#
# A piece can overflow like any batch. To see what that costs, we take one weight, whose value is 3 and
# whose loss is its square. Four pieces make one step, and the second of them gives an inf.

# %%
weight = torch.tensor(3.0, requires_grad=True)
optimizer = torch.optim.SGD([weight], lr=0.1)
scaler = GradScaler("cpu")
for number, factor in enumerate((1.0, torch.inf, 1.0, 1.0), start=1):
    scaler.scale(weight**2 * factor / 4).backward()
    print(f"after piece {number}: grad {weight.grad.item():,.0f}")
scaler.step(optimizer)
scaler.update()
print(f"after the step: weight {weight.item():.1f}, scale {scaler.get_scale():,.0f}")

# %% [markdown]
# The second piece turns the sum into inf, and the finite gradients of the other pieces don't change that.
# So the scaler skips the whole step, once. Each bad piece costs three good ones: if one piece in a
# hundred is bad, about four in a hundred are lost. The next `zero_grad()` removes the inf.
#
# This is the order of the calls, if you accumulate, clip and have a schedule:
#
# ```python
# optimizer.zero_grad()
# for piece in pieces:
#     with torch.autocast(device, dtype=torch.float16):
#         loss = loss_of(model, piece) / len(pieces)
#     scaler.scale(loss).backward()
# scaler.unscale_(optimizer)
# nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
# scaler.step(optimizer)
# scaler.update()
# ...  # the schedule: see below
# ```
#
# All pieces of a step must carry the same scale, because their gradients are added up. That's why
# `update` comes once, after the last piece. A second `unscale_(optimizer)` before `update` raises an
# error.
#
# If a gradient is inf or NaN, `clip_grad_norm_` returns a norm of inf or NaN. And while the scaler
# is on, don't pass `error_if_nonfinite=True`: it raises an error in a case that the scaler takes
# care of.
#
# ## Texts of different lengths
#
# A language model's loss is a mean over tokens, and padding doesn't count. Take a short and a long
# text as the two pieces of a step, in FP32, because precision plays no part here.

# %% tags=["question"]
predict("training_loops.short_and_long")

# %%
logits = torch.zeros(2, 300, 5, requires_grad=True)  # 2 texts, 300 places, 5 words to choose from
labels = torch.zeros(2, 300, dtype=torch.long)
labels[0, 100:] = -100  # padding, which cross_entropy leaves out
for text in range(2):
    (cross_entropy(logits[text], labels[text]) / 2).backward()
for text, name in enumerate(("short", "long")):
    print(f"one token of the {name:5} text: gradient {logits.grad[text, 0, 0].item():.5f}")

# %% [markdown]
# A token of the short text counts three times as much, because its loss is divided by fewer tokens.
# So add up the *sums* of the losses, and divide by all tokens of the step. You write a loop for
# texts in the [[exercises training_loops|exercises]]. The end of an epoch needs the same care,
# since its last piece may be smaller, or pieces may be missing. There too, take sums, and divide by
# the number of pictures in the step.
#
# BatchNorm computes its mean and variance from one piece at a time. So with BatchNorm, four pieces
# of 150 are not the same as one batch of 600.
#
# ## A schedule counts its own calls
#
# `scheduler.step()` doesn't ask whether the scaler skipped the step. We start with a scale of
# $2^{40}$, which costs 8 steps here, as in [[lesson grad_scaler]].


# %%
def scheduled(only_real_steps):
    model = autoencoder().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=big / our_pixels, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
    scaler, errors = GradScaler(device, init_scale=2.0**40), []
    for _ in range(50):
        before = scaler.get_scale()
        errors.append(step_in_pieces(model, optimizer, scaler, [pictures], divisor=1))
        if scaler.get_scale() >= before or not only_real_steps:
            scheduler.step()
    return errors


# %% tags=["question"]
predict("training_loops.schedule_and_skips")

# %%
warnings.filterwarnings("ignore", "Detected call of")  # lesson 06 explains this warning
plots.training(
    {"after real steps": scheduled(True), "each iteration": scheduled(False)},
    title="Two schedules, and eight skipped steps",
    ylabel="error per pixel",
)

# %% [markdown]
# The schedule that counts each iteration has lowered its rate eight times before the first real
# step. So it ends at a larger error.
#
# ## Two models, one scaler
#
# Some trainings have two models that share one scaler. Each model has its own optimizer. Below,
# each model is a single weight. We call `update` once, after both steps. Then we try it after
# *each* step.

# %% tags=["question"]
predict("training_loops.update_after_each")

# %%
for updates in ("once", "after each step"):
    first, second = (torch.tensor(3.0, requires_grad=True) for _ in range(2))
    optimizers = [torch.optim.SGD([weight], lr=0.1) for weight in (first, second)]
    scaler = GradScaler("cpu")
    scaler.scale(first**2).backward()
    scaler.scale(second**2).backward()
    first.grad.fill_(torch.inf)
    for optimizer in optimizers:
        scaler.step(optimizer)
        if updates == "after each step":
            scaler.update()
    if updates == "once":
        scaler.update()
    print(f"update {updates}: weights {first.item():.1f}, {second.item():.1f}", end=", ")
    print(f"scale {scaler.get_scale():,.0f}")

# %% [markdown]
# The first `update` halves the scale. So the second gradient is divided by half of what it was
# multiplied by, and comes out twice as large as it should. With two optimizers, a falling scale
# doesn't say which of them skipped its step. So a schedule can't follow the scale here.
# [[deep training_loops]] shows how to count the steps of each optimizer.
#
# Two losses for *one* model need nothing new: `scaler.scale(a + b).backward()`. If you call `backward()`
# for each loss, scale each of them.
#
# ## The job is killed at night
#
# Your job is stopped after some hours and started again in the morning. It should go on as if nothing
# had happened. Here is a run with more of what a real one has: `Dropout`, a schedule, and batches in a
# shuffled order. Its loss is a *sum* of squared errors over 3,200 pixels, not a mean, so its
# gradients are large and its learning rate is small. `start` makes the parts of the run, and
# `go_on` trains them in a loop as you know it.


# %%
from amp_lessons import ScalerLog


def start(seed):
    """The parts of a new run. Each has a state_dict()."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Dropout(0.1), *autoencoder(seed)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25 / 3_200, momentum=0.9)
    return {
        "model": model,
        "optimizer": optimizer,
        "scaler": ScalerLog(GradScaler(device)),  # remembers its scales, as in lesson 06
        "scheduler": torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.3),
        "batches": Batches(pictures, pictures, size=50, seed=seed),  # endless
    }


# %%
def go_on(parts, epochs):
    """Train for some epochs of 12 batches. Returns the error per pixel of each batch."""
    model, optimizer, scaler, scheduler, batches = parts.values()
    errors = []
    for _ in range(epochs):
        for batch, targets in islice(batches, 12):
            optimizer.zero_grad()
            with torch.autocast(device, dtype=torch.float16):
                loss = mse_loss(model(batch), targets, reduction="sum")
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            errors.append(loss.item() / targets.numel())
        scheduler.step()  # once an epoch
    return errors


# %% [markdown]
# `resumed`, from this course's package, interrupts such a run. It trains for one epoch and copies the
# state of each part. Then it starts a new run from another seed, loads the states into it, and trains
# for three more epochs. It can leave out one part. First we forget the scaler, as a script that was
# written for FP32 would.

# %% tags=["question"]
predict("training_loops.forgotten_scaler")

# %%
from amp_lessons.lessons.experiments import resumed

run = start(seed=0)
whole = go_on(run, epochs=4)
without_scaler, records = resumed(start, go_on, before=1, after=3, without="scaler")
plots.scaled_training(
    {"not interrupted": whole, "resumed": without_scaler},
    records,
    title="Interrupted after 12 steps, resumed with a new scaler",
    ylabel="error per pixel",
)

# %% [markdown]
# The new scaler starts at 65,536 again, and skips steps until its scale fits. Until then the curve
# is flat.
#
# Now we leave out the other parts, one at a time. We compare each loss after the restart with the
# loss of the same step in the run that was not interrupted. "random numbers" stands for the state
# of PyTorch's generator, from which `Dropout` draws. "batches" is the order of the data and our
# place in it.

# %% tags=["question"]
predict("training_loops.last_to_show")

# %%
parts = ("model", "optimizer", "scaler", "scheduler", "batches", "random numbers")
for part in ("nothing", *parts):
    errors, _ = resumed(start, go_on, before=1, after=3, without=part)
    pairs = zip(errors[12:], whole[12:], strict=True)
    different = [number for number, (ours, theirs) in enumerate(pairs, start=1) if ours != theirs]
    first = different[0] if different else "none"
    print(f"without {part:15} the first loss that differs: {first}")

# %% [markdown]
# The schedule shows last. The rate of the moment is stored in the optimizer, and should next change
# 12 steps after the restart. With all six parts, the run continues to the last bit, here on a CPU.
# We haven't measured it on a GPU. There, even two runs of the same code can differ, because some
# operations don't add in a fixed order
# ([docs](https://docs.pytorch.org/docs/stable/notes/randomness.html)).
#
# On a GPU, `Dropout` draws from the GPU's own generator. `torch.get_rng_state()` gives you
# [the CPU's only](https://docs.pytorch.org/docs/stable/generated/torch.get_rng_state.html), so save
# `torch.cuda.get_rng_state_all()` as well. If your data loading uses random numbers of NumPy or Python,
# save those too. `save_checkpoint` from this course's package does all of this ([[deep training_loops]]).
#
# Save after `update()`, not between the pieces of a step: the gradients added up so far are in no
# `state_dict()`. And make one scaler for the whole run, not one for each epoch: each new scaler may
# skip steps again.
#
# ## The validation
#
# Three calls belong to a validation:
#
# - `model.eval()` turns off `nn.Dropout`. BatchNorm then uses its running statistics, which are averages
#   that it has gathered during the training.
# - `torch.no_grad()` saves the memory that a backward pass would need. It doesn't change the result,
#   except in layers with a faster path for inference (below).
# - `torch.autocast` with the dtype of the training. You'll soon see why.
#
# Call `model.train()` afterwards, or the next epoch trains without dropout.
#
# `nn.TransformerEncoder` has such a path, if its layers were made with `batch_first=True`. In
# PyTorch 2.13, a CPU's autocast doesn't turn it off, so the output is 16-bit where it is FP32 with
# gradients. `torch.backends.mha.set_fastpath_enabled(False)` turns it off.
#
# Now we give the painter a BatchNorm layer. After 30 steps, one of the 600 pictures is broken once:
# its pixels are a million, which is inf in FP16. The first layer adds up inf and -inf, and that is
# NaN. The loss becomes NaN too, and the scaler skips the step.

# %% tags=["question"]
predict("training_loops.batch_norm_after_a_skip")

# %%
first, *rest = autoencoder()
model = nn.Sequential(first, nn.BatchNorm1d(64), *rest).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=big / our_pixels, momentum=0.9)
scaler, errors, broken = GradScaler(device), [], pictures.clone()
broken[0] = 1e6
for step in range(150):
    batch = broken if step == 30 else pictures
    errors.append(step_in_pieces(model, optimizer, scaler, [batch], divisor=1))
for step in (29, 30, 31, 149):
    print(f"after {step:3} steps: error per pixel {errors[step]:.3f}")
model.eval()
with torch.no_grad():
    print(f"validation:      error per pixel {painting_loss(model, pictures)[1]:.3f}")

# %% [markdown]
# The scaler saved the weights. But the forward pass put NaN into BatchNorm's running statistics,
# where it stays, and only the validation uses them.
#
# Why the same precision? We take the model of the run that was not interrupted, and put two layers
# before it. The first multiplies each pixel by 100,000, the second divides by 100,000. With exact
# numbers, that changes nothing. We validate it in FP32, BF16 and FP16.

# %%
painter = run["model"].eval()  # from the section on resuming
stretch, shrink = nn.Linear(64, 64, bias=False).to(device), nn.Linear(64, 64, bias=False).to(device)
stretch.weight.data = 1e5 * torch.eye(64, device=device)
shrink.weight.data = torch.eye(64, device=device) / 1e5
stretched = nn.Sequential(stretch, shrink, painter)
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    mixed = dtype != torch.float32
    with torch.no_grad(), torch.autocast(device, dtype=dtype, enabled=mixed):
        errors = [mse_loss(model(pictures), pictures).item() for model in (painter, stretched)]
    print("{}: without the two layers {:.3f}, with them {:.3f}".format(dtype, *errors))

# %% [markdown]
# FP16 ends at 65,504, so autocast turns the weight 100,000 into inf, and 0 times inf is NaN. If you
# fine-tuned such a trained network in FP16 and validated it in FP32, every step would be skipped, and the
# validation would still look healthy.
#
# If the model will run in another precision than the one you trained it in, validate it in that
# precision too.
#
# ## One loop for FP32, BF16 and FP16
#
# `torch.autocast` and `GradScaler` both take `enabled=`. So one loop serves all precisions, as
# `train_amp` in [[lesson amp_in_20_minutes]] does. Three separate loops would drift apart. Trainers
# of libraries do this for you: `TrainingArguments(bf16=True)` in Hugging Face Transformers, or
# `precision="bf16-mixed"` in Lightning.
#
# A checkpoint may go from one precision to another.

# %% tags=["question"]
predict("training_loops.state_of_a_scaler_that_is_off")

# %%
from amp_lessons.lessons.experiments import raised

off, on = GradScaler("cpu", enabled=False), GradScaler("cpu")
print("the state of the one that is off:", off.state_dict())
print("the state of the one that is on: ", ", ".join(on.state_dict()))
print("off into on:", raised(lambda: on.load_state_dict(off.state_dict())))
print("on into off:", raised(lambda: off.load_state_dict(on.state_dict())))

# %% [markdown]
# A scaler that is on refuses an empty state. One that is off ignores what it gets.
#
# ## What does a wrong order do?
#
# Below are the calls of a training step with four micro-batches, clipping and a schedule, out of order.
# Arrange them and run them: the digit painter is trained for 30 steps. When your order is right, move
# `zero_grad` into the loop over the micro-batches. Guess first: does the network still learn?

# %% tags=["live"]
from amp_lessons.lessons.widgets import OrderTheCalls

OrderTheCalls()

# %% [markdown]
# ## When a loop misbehaves
#
# | what you see | a likely cause | the cure |
# |---|---|---|
# | with SGD and accumulation the error grows, or you need a smaller learning rate | the loss isn't divided | divide it by the number of pieces, or by the tokens of the whole step |
# | with SGD it learns, but slower than with one large batch | `zero_grad` for each piece | once for each step |
# | the learning rate is ahead of the training, above all in a warm-up | the schedule counts skipped steps | call it only if the scale didn't fall; with several optimizers, count the steps of each |
# | flat for some steps after each restart or each epoch | a new scaler | one scaler for the run, and its state in the checkpoint |
# | the training looks fine, the validation is NaN | NaN in BatchNorm's running statistics | find the bad batch, then reset and gather them again |
# | you fine-tune, the validation looks fine, but nothing improves | the training overflows in FP16, and the validation runs in FP32 | the same autocast for both |
#
# ## Recap
#
# 1. Accumulate: divide each loss. Call `zero_grad`, `unscale_`, `step` and `update` once for each step.
#    With tokens, divide by all tokens of the step.
# 2. If a schedule counts steps, call `scheduler.step()` only after a real step.
# 3. Several optimizers share one scaler. Each of them skips for itself. `update` comes once, last.
# 4. A run is its model, optimizer, scaler, schedule, data order and random numbers, those of the GPU
#    too. Save all six.
# 5. Validate with `eval()`, `no_grad()` and the autocast of the training. A skipped step saves the
#    weights, but not BatchNorm's running statistics.
#
# ## Three questions

# %% tags=["question"]
ask(
    "training_loops.unscale_in_accumulation",
    "training_loops.one_of_two_overflows",
    "training_loops.resume_without_scheduler",
)

# %% [markdown]
# **Next:** [[exercises training_loops|the exercises]]: broken loops to fix, and loops to
# write, an exact resume among them. Then [[lesson losses_and_ops]]: losses, norms and your own
# operations. Optional: [[deep training_loops]], on gradient penalties, averaged weights, serving, and
# the steps of each optimizer.
