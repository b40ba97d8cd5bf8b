# %% statement points=1 minutes=5
# # Broken loop 2: an assertion
#
# Interview sites ask which error this loop raises. Ask PyTorch instead:

# %% demo
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

# %% text
# Fix it. Call your version `fix_unscaled` and keep the arguments.
#
# In most of the check's cases the loss has a small weight, as one of many losses may have. Without
# a loss scale, FP16 cannot hold its gradients: they become zero.

# %% answer
def fix_unscaled(model, optimizer, scaler, loss_fn, batches):
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
# - The message speaks of `_scale`. Which call of the scaler sets it for the first time?
# - Three calls belong together: one for the loss, one for the optimizer, one for the scale.
# - `scaler.scale(loss)` returns a new tensor. Which of the two should go backward?

# %% probe
from amp_lessons.exercises.harness import SMALL
from amp_lessons.exercises.training_loops.harness import loop_cases, never_in_float16, plain_loop

probe = Probe(partial(loop_cases, weight=SMALL, init_scale=2.0**16), play=plain_loop)

# %% judge
judge = Judge(same=within(1e-3))

# %% passed
# `scale`, `step` and `update` come as a set. If you leave one out, the other two go wrong.

# %% right scaled_under_autocast
def fix_unscaled(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            loss = scaler.scale(loss_fn(model(x), y))
        optimizer.zero_grad()
        loss.backward()
        scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()

# %% right scale_as_gradient_of_the_loss
def fix_unscaled(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
        loss = loss_fn(logits.float(), y)
        loss.backward(gradient=scaler.scale(torch.ones_like(loss)))
        scaler.step(optimizer)
        scaler.update()

# %% rule another-precision
breaks = never_in_float16

# %% wrong loss-not-scaled
of("scaled_under_autocast", swap("scaler.scale(loss_fn(model(x), y))", "loss_fn(model(x), y)"))

# %% wrong scaler-bypassed
# The error is gone because you go past the scaler, or because it is switched off. Now nothing
# raises, and nothing trains: without a scale, the gradients of this small loss are zero in FP16.

# %% wrong scaled-after-backward
# You scale the gradients after `backward()`. By then the small ones have become zero in FP16, and
# zero times the scale is still zero. Scale the loss before it goes backward.
(swap("scaler.scale(loss)", "loss") &
    put("for p in model.parameters(): p.grad = scaler.scale(p.grad)", before="scaler.step"))
(swap("scaler.scale(loss)", "loss") & put("for p in model.parameters(): p.grad *= factor",
    before="scaler.step") & put("factor = scaler.scale(torch.ones(()))", before="optimizer"))

# %% wrong backward-twice
# You call `backward()` twice, with the scale and without it, and the two gradients are added up.
# With a large scale you hardly notice, with a small one you do. Keep only the scaled call.
swap("scaler.scale(loss).backward()", "(scaler.scale(loss) + loss).backward()")
put("loss.backward()", after="scaler.scale") & swap("backward()", "backward(retain_graph=True)", 1)
