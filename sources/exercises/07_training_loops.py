# %% [markdown]
# # Exercises 07: Real training loops
#
# Six loops that are broken as loops really are, and four to write. Take [[lesson training_loops]] first.
#
# A loop is judged by what it leaves behind: the parameters and their dtype, the steps that were
# really taken, the learning rate, the scale of the scaler that it was given, and the dtypes that
# the model's outputs had. How you write it is up to you. Some of the batches that the check uses
# hold a number that FP16 cannot store: the scaler has to see that, skip their step, and lower its
# scale.

# %%
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from amp_lessons.checks import training_loops as ex
from amp_lessons.training import digits_network, load_digits

digits = load_digits()


def fresh(init_scale=2.0**16):
    """A new model with its optimizer and scaler."""
    model = digits_network(width=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    return model, optimizer, torch.amp.GradScaler("cpu", init_scale=init_scale)


def some_batches(count, overflow=None):
    """Batches of 16 digits; in the one numbered `overflow` a pixel is too large for FP16."""
    images = digits.train_images[: 16 * count].clone().view(count, 16, 64)
    if overflow is not None:
        images[overflow, 0, 20] = 3e5
    return list(zip(images, digits.train_labels[: 16 * count].view(count, 16), strict=True))


# %% [markdown] heading="mend_stuck"
# This loop trains well until a batch overflows. That happens in every FP16 run, and should cost
# one step. Here it costs all that follow.


# %%
def stuck(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(f"scale {scaler.get_scale():g}")


stuck(*fresh(), cross_entropy, some_batches(6, overflow=1))

# %% [markdown]
# Mend it, as `mend_stuck`, with the same arguments. (No need to print.)


# %% exercise="mend_stuck"
def mend_stuck(model, optimizer, scaler, loss_fn, batches):
    """Train on each batch once, in FP16 with the scaler."""
    ### BEGIN SOLUTION
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION


# %% [markdown] heading="mend_unscaled"
# Interview sites ask which error this loop raises. Ask PyTorch instead:


# %%
def unscaled(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        loss.backward()
        scaler.step(optimizer)
        scaler.update()


try:
    unscaled(*fresh(), cross_entropy, some_batches(2))
except AssertionError as error:
    print("AssertionError:", error)

# %% [markdown]
# Mend it, as `mend_unscaled`. In most cases of the check the loss has a small weight, as one of
# many losses may have, and its gradients are below the range of FP16.


# %% exercise="mend_unscaled"
def mend_unscaled(model, optimizer, scaler, loss_fn, batches):
    """Train on each batch once, in FP16 with the scaler."""
    ### BEGIN SOLUTION
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION


# %% [markdown] heading="mend_norms"
# This loop wants to record the norm of the gradient, as it is before clipping, and to clip it.


# %%
def total_norm(model):
    """The norm of all gradients as they are now."""
    return torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]).item()


def norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    found = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)  # to see the true gradients
        found.append(total_norm(model))
        scaler.unscale_(optimizer)  # to clip the true gradients
        clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return found


try:
    norms(*fresh(), cross_entropy, some_batches(2), max_norm=0.25)
except RuntimeError as error:
    print("RuntimeError:", error)

# %% [markdown]
# Mend it, as `mend_norms`: return the list of the norms, and clip the norm of all gradients together
# to `max_norm`, as here. You may use `total_norm`.


# %% exercise="mend_norms"
def mend_norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    """Train with clipping; return the norm of each batch's gradient before it is clipped."""
    ### BEGIN SOLUTION
    found = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        found.append(clip_grad_norm_(model.parameters(), max_norm).item())
        scaler.step(optimizer)
        scaler.update()
    return found
    ### END SOLUTION


# %% [markdown] heading="mend_epochs"
# This loop loses steps in every epoch, and not only in the first. Here it begins with a scale that
# is far too large, as a run may do whose gradients are small later on.


# %%
def by_epoch(model, optimizer, loss_fn, epochs, init_scale):
    for batches in epochs:
        scaler = torch.amp.GradScaler("cpu", init_scale=init_scale)
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        print(f"this epoch went from scale {init_scale:g} to {scaler.get_scale():g}")
    return scaler.get_scale()


last = by_epoch(*fresh()[:2], cross_entropy, [some_batches(5)] * 3, init_scale=2.0**30)

# %% [markdown]
# Mend it, as `mend_epochs`: train on all epochs, begin with `init_scale`, and return the scale at
# the end.


# %% exercise="mend_epochs"
def mend_epochs(model, optimizer, loss_fn, epochs, init_scale):
    """Train on a list of epochs, each a list of batches; return the last scale, a float."""
    ### BEGIN SOLUTION
    scaler = torch.amp.GradScaler("cpu", init_scale=init_scale)
    for batches in epochs:
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    return scaler.get_scale()
    ### END SOLUTION


# %% [markdown] heading="mend_half"
# "Mixed precision means half precision, so I cast the model."


# %%
def in_half(model, optimizer, scaler, loss_fn, batches):
    model.half()
    for x, y in batches:
        optimizer.zero_grad()
        loss = loss_fn(model(x.half()), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


try:
    in_half(*fresh(), lambda logits, y: cross_entropy(logits.float(), y), some_batches(2))
except ValueError as error:
    print("ValueError:", error)

# %% [markdown]
# Mend it, as `mend_half`: the matrix products run in FP16, and the parameters stay in float32.


# %% exercise="mend_half"
def mend_half(model, optimizer, scaler, loss_fn, batches):
    """Train on each batch once, in mixed precision with FP16 and the scaler."""
    ### BEGIN SOLUTION
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION


# %% [markdown] heading="mend_evaluation"
# After each epoch this loop looks at the validation images, twice here. The answers differ.


# %%
def with_validation(model, optimizer, scaler, loss_fn, epochs, validation):
    losses = []
    for batches in epochs:
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        images, labels = validation
        losses.append(loss_fn(model(images), labels).item())
    return losses


model, optimizer, scaler = fresh()
model = torch.nn.Sequential(model[:2], torch.nn.Dropout(0.5), model[2:])
validation = (digits.validation_images, digits.validation_labels)
torch.manual_seed(0)
once = with_validation(model, optimizer, scaler, cross_entropy, [[]], validation)
again = with_validation(model, optimizer, scaler, cross_entropy, [[]], validation)
print("two evaluations of the same model agree:", once == again)

# %% [markdown]
# There is more wrong with it than that. Mend it, as `mend_evaluation`: return the loss of the
# validation images after each epoch, of the model that is being trained, in the precision in which
# it is trained, with nothing recorded for a backward pass. The check's model has dropout and batch
# norm, and comes in training mode.


# %% exercise="mend_evaluation"
def mend_evaluation(model, optimizer, scaler, loss_fn, epochs, validation):
    """Train on each epoch in FP16; return the validation loss after each, a list of floats."""
    ### BEGIN SOLUTION
    losses = []
    for batches in epochs:
        model.train()
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        model.eval()
        images, labels = validation
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            losses.append(loss_fn(model(images), labels).item())
    return losses
    ### END SOLUTION


# %% [markdown] heading="accumulate"
# Write `accumulate(model, optimizer, scaler, loss_fn, batches, every)`: one step for each `every`
# batches, equal to a step with one big batch.
#
# All batches have the same size, and their number is a multiple of `every`. `loss_fn` gives the
# mean over the batch. Train in FP16 with the scaler, and with the optimizer's own learning rate.
# The big batch would not fit in memory, so the model sees one small batch at a time. If one of them
# overflows, the step of its group is skipped.


# %% exercise="accumulate"
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    """Train with one step for each `every` batches."""
    ### BEGIN SOLUTION
    for number, (x, y) in enumerate(batches):
        if number % every == 0:
            optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y) / every
        scaler.scale(loss).backward()
        if (number + 1) % every == 0:
            scaler.step(optimizer)
            scaler.update()
    ### END SOLUTION


# %% [markdown] heading="train_two"
# Write `train_two(models, optimizers, scaler, loss_fn, batches)`: two models, each with its own
# loss and its own optimizer, and one scaler for both.
#
# `models` and `optimizers` are pairs, and each batch is `(x, z, y)`. The first model makes a guess
# from `x`, and its loss is `loss_fn(guess, y)`. The second sees `z` and corrects the guess: its
# loss is `loss_fn(guess.detach() + correction, y)`. Both run in FP16. If one model overflows, the
# step of *that* model is skipped, and no other.


# %% exercise="train_two"
def train_two(models, optimizers, scaler, loss_fn, batches):
    """Train both models on each batch once."""
    ### BEGIN SOLUTION
    first, second = models
    for x, z, y in batches:
        for optimizer in optimizers:
            optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = first(x)
            first_loss = loss_fn(guess, y)
            second_loss = loss_fn(guess.detach() + second(z), y)
        scaler.scale(first_loss).backward()
        scaler.scale(second_loss).backward()
        for optimizer in optimizers:
            scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION


# %% [markdown] heading="exact_resume"
# Write `capture(run)` and `restore(run, state)`: a run that is interrupted and resumed goes on as
# if nothing had happened, to the last bit.
#
# A `run` has five attributes: `run.model` (with batch norm and dropout), `run.optimizer` (SGD with
# momentum), `run.scaler`, `run.scheduler`, and `run.order`, a `torch.Generator` that shuffles the
# images. `capture` returns what is to be saved; the check writes it to a file with `torch.save`,
# lets the run go on (which will call `capture` again), makes a fresh run with other weights and
# another order, reads the file with `torch.load`, and calls `restore` on the fresh run, which
# changes it in place. You may look at `ex.Training`.


# %% exercise="exact_resume" answer="(capture, restore)"
def capture(run):
    """Everything that the next steps of `run` depend on, in a form that torch.load accepts."""
    ### BEGIN SOLUTION
    return {
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "scaler": run.scaler.state_dict(),
        "scheduler": run.scheduler.state_dict(),
        "dropout": torch.get_rng_state(),
        "order": run.order.get_state(),
    }
    ### END SOLUTION


def restore(run, state):
    """Bring `run` to where the captured run was."""
    ### BEGIN SOLUTION
    run.model.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.scaler.load_state_dict(state["scaler"])
    run.scheduler.load_state_dict(state["scheduler"])
    torch.set_rng_state(state["dropout"])
    run.order.set_state(state["order"])
    ### END SOLUTION


# %% [markdown] heading="train_any"
# Write `train_any(model, optimizer, loss_fn, batches, precision, max_norm)`: one loop for
# `precision` in `"fp32"`, `"bf16"` and `"fp16"`.
#
# The model stays in float32. FP32 runs with no autocast, BF16 with autocast and no scale, FP16 with
# both, from the default scale on. In each step the norm of all gradients together is clipped to
# `max_norm`. Make your own scaler, and return its scale at the end: 1.0 where it is disabled.


# %% exercise="train_any"
def train_any(model, optimizer, loss_fn, batches, precision, max_norm):
    """Train on each batch once, on the CPU; return the last scale, a float."""
    ### BEGIN SOLUTION
    dtype = torch.float16 if precision == "fp16" else torch.bfloat16
    mixed = precision != "fp32"
    scaler = torch.amp.GradScaler("cpu", enabled=precision == "fp16")
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype, enabled=mixed):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale()
    ### END SOLUTION


# %% [markdown]
# Next: [[lesson losses_and_ops]] looks inside the loss, at the operations whose numbers overflow or vanish before
# any scaler can help.
