# %% statement points=1 minutes=5
# # Broken loop 3: the norm of the gradient
#
# This loop is meant to record the norm of the gradient before clipping, and then to clip it.

# %% given
def total_norm(model):
    """The norm of all gradients as they are now."""
    return torch.nn.utils.get_total_norm([p.grad for p in model.parameters()]).item()

# %% demo
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

# %% text
# Fix it. Call your version `fix_norms` and keep the arguments. Return a list with one norm for each
# batch, also for a batch that overflows: its norm is inf or NaN. Clip the norm of all gradients
# together to `max_norm`, as here. You may use `total_norm`.

# %% answer
def fix_norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    """Train with clipping; return the norm of each batch's gradient before it is clipped."""
    ### BEGIN SOLUTION
    found = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = clip_grad_norm_(model.parameters(), max_norm)
        found.append(norm.item())
        scaler.step(optimizer)
        scaler.update()
    return found
    ### END SOLUTION

# %% hints
# - How often may `unscale_()` be called between two updates?
# - After that call the gradients stay true until `step()`.
# - What does `clip_grad_norm_` return?

# %% probe
from amp_lessons.exercises.training_loops.harness_plays import norm_cases, use_with_norms
from amp_lessons.exercises.training_loops.harness import never_in_float16

probe = Probe(norm_cases, play=use_with_norms)

# %% judge
judge = Judge(same=within(1e-3), pairs=False)  # they would take over a second

# %% passed
# Call `unscale_()` once. Everything that looks at the gradients after it sees the true ones.

# %% right second_unscale_removed
def fix_norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    norms = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norms.append(total_norm(model))
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        scaler.step(optimizer)
        scaler.update()
    return norms

# %% right clipped_by_hand
def fix_norms(model, optimizer, scaler, loss_fn, batches, max_norm):
    found = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        norm = total_norm(model)
        found.append(float("inf") if norm != norm else norm)
        for p in model.parameters():
            p.grad.mul_(min(1.0, max_norm / (norm + 1e-6)))
        scaler.step(optimizer)
        scaler.update()
    return tuple(found)

# %% rule another-precision
breaks = never_in_float16

# %% rule norm-left-out
# Your list has no norm for a batch that overflows. An inf in it is how a log shows the overflow.
def breaks(seen, right):
    count, wanted = noted(seen, "how many norms"), noted(right, "norms returned")
    halved = noted(seen, "scale at the end") == noted(right, "scale at the end")
    return halved and count == len(wanted) - wanted.count("not finite") < len(wanted)
wrap("if norm.isfinite():", "found.append")
wrap("if norm.isfinite():", "found.append") & swap("max_norm)", "1e9)", nth=2)

# %% wrong unscaled-twice
# You may call `unscale_()` once for each optimizer and `update()`: a second call would divide by
# the scale again. The first has already made the gradients what you want to see and to clip.
of("second_unscale_removed", put("scaler.unscale_(optimizer)", before="torch."))
put("scaler.unscale_(optimizer)", before="scaler.step")

# %% wrong update-to-silence
# `update()` makes the scaler forget that the gradients are unscaled, so the second `unscale_()`
# divides by the scale once more without an error. Call `update()` only once, at the end.
put("scaler.update()\nscaler.unscale_(optimizer)", before="scaler.step")
of("second_unscale_removed", put("scaler.update()\nscaler.unscale_(optimizer)", before="torch."))
put("scaler.update()", before="scaler.step")

# %% wrong norm-of-scaled-gradients
# You measure the norm before `unscale_()`, so it is too large by the scale. Measure it after.
of("second_unscale_removed", move("norms.append", before="scaler.unscale_"))
(move("scaler.unscale_", before="norm =") & put("n = total_norm(model)",
    before="scaler.unscale_") & swap("norm.item()", "n"))

# %% wrong norm-after-clipping
# You measure the norm after clipping, when it is never above `max_norm`. So it won't show you that
# gradients explode. Measure it before.
of("second_unscale_removed", move("norms.append", after="torch."))
swap("norm.item()", "total_norm(model)")

# %% wrong clipped-before-unscale
drop("scaler.unscale_(optimizer)") & swap("norm.item()", "norm.item() / scaler.get_scale()")

# %% wrong stale-scale
of("second_unscale_removed", put("scale = scaler.get_scale()", before="for x, y") &
    swap("(total_norm(model))", "(total_norm(model) / scale)") &
    move("norms.append", before="scaler.unscale_"))

# %% wrong last-norm-only
# You return one norm in place of a list. The task asks for one norm for each batch.
swap("return found", "return found[-1]")
of("clipped_by_hand", swap("tuple(found)", "norm"))

# %% wrong stepped-without-the-scaler
swap("scaler.step(optimizer)", "optimizer.step()")
swap("scaler.step(optimizer)", "if loss.isfinite(): optimizer.step()")
of("second_unscale_removed", swap("scaler.step(optimizer)", "if loss < 1e4: optimizer.step()"))
