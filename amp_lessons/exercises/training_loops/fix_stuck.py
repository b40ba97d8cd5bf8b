# %% statement points=1 minutes=5
# # Broken loop 1: it stops learning
#
# This loop trains well until a batch overflows. That happens in every FP16 run, and it should cost
# one step. Here it costs every step that follows.

# %% demo
def stuck(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(f"scale {scaler.get_scale():g}")


stuck(*fresh(), cross_entropy, some_batches(6, overflow=1))

# %% text
# Fix it. Call your version `fix_stuck` and keep the arguments. It doesn't need to print.

# %% answer
def fix_stuck(model, optimizer, scaler, loss_fn, batches):
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

# %% hints
# - Print a gradient after each update. When does it become finite again?
# - `backward()` adds to `.grad`. inf plus anything stays inf.
# - One call of `optimizer.zero_grad()` for each batch is enough. Where may it stand?

# %% probe
from functools import partial

from amp_lessons.exercises.training_loops.stage import loop_cases, plain_loop

probe = Probe(partial(loop_cases, init_scale=2.0), play=plain_loop)

# %% judge
judge = Judge(same=within(1e-3))

# %% passed
# A skipped step leaves its inf in `.grad`. Only `zero_grad()` takes it out.

# %% right after_the_step
def fix_stuck(model, optimizer, scaler, loss_fn, batches):
    for images, labels in batches:
        with torch.autocast(device_type="cpu", dtype=torch.half):
            scaled = scaler.scale(loss_fn(model(images), labels))
        scaled.backward()
        scaler.step(optimizer)
        scaler.update()
        model.zero_grad(set_to_none=False)

# %% rule another-precision
def breaks(seen, right):
    dtypes = noted(seen, "dtype of the model's outputs")
    return bool(dtypes) and "x float16" not in dtypes

# %% wrong never-zeroed
# The gradients of one batch are still there when the next ones are added. After one overflow they
# hold inf or NaN forever: every step is skipped, and the scale sinks with each of them. Without an
# overflow you hardly notice: the old gradients are unscaled, so the new ones are larger by the
# scale.
of("after_the_step", drop("model.zero_grad"))

# %% wrong zeroed-before-step
# You remove the gradients between `backward()` and `step()`, so nothing is left to step with.
# `zero_grad()` sets them to None, and then the scaler has nothing to check: "No inf checks were
# recorded". Remove them before the backward pass or after the step.
of("after_the_step", move("model.zero_grad", before="scaler.step"))

# %% wrong zeroed-after-skips-only
# You remove the gradients only after a skipped step. That brings the loop back to life, but between
# two overflows old gradients are added to new ones. With a large scale they hardly count, with a
# small one they do.
(move("optimizer.zero_grad()", after="scaler.update") & wrap("if scaler.get_scale() < before:",
    "optimizer.zero_grad()") & put("before = scaler.get_scale()", before="scaler.update"))

# %% program looks_at_the_old_gradients
def fix_stuck(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        if any(p.grad is not None and not p.grad.isfinite().all() for p in model.parameters()):
            model.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

# %% wrong stepped-without-the-scaler
# %% program looks_at_the_loss
def fix_stuck(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        model.zero_grad()
        with torch.autocast("cpu", torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        if not torch.isnan(loss) and not torch.isinf(loss):
            for p in model.parameters():
                p.grad /= scaler.get_scale()
            optimizer.step()
            scaler.update(scaler.get_scale())
        else:
            scaler.update(scaler.get_scale() / 2)
