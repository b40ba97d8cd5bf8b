# %% statement points=2 minutes=10
# # Log the skips of a run
#
# Write `skipped_steps(model, optimizer, scaler, batches)`. It trains, and reports skipped steps.
#
# - `batches` is a list of pairs (x, y). Make one training step for each pair, in this order.
# - A step clears the gradients and computes the mean squared error of `model(x)` and `y` under
#   `torch.autocast("cpu", dtype=torch.float16)`. Then it goes backward, steps and updates with
#   `scaler`, a `torch.amp.GradScaler("cpu")` whose scale stays above 0.
# - Return a list with the numbers of the skipped steps. The first step is number 0.

# %% answer
def skipped_steps(model, optimizer, scaler, batches):
    """Train one step per batch; the numbers of the skipped steps, as a list of ints."""
    ### BEGIN SOLUTION
    skipped = []
    for number, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        before = scaler.get_scale()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() < before:
            skipped.append(number)
    return skipped
    ### END SOLUTION

# %% hints
# - What `scaler.step` returns doesn't tell you. Which number changes after a skip, and how?
# - In `update`, the scale falls after a skipped step. After a real step it stays or grows.

# %% probe
from amp_lessons.exercises.grad_scaler.harness_network import log_cases, play_log

probe = Probe(log_cases, play=play_log, own=("amp_lessons.amp.scaling.scaler_log",))

# %% judge
judge = Judge(same=within(1e-5))

# %% passed
# GradScaler shows a skipped step most plainly by its scale: it falls in `update`, if it isn't 0.

# %% right gradients_asked
def skipped_steps(model, optimizer, scaler, batches):
    found = []
    for x, y in batches:
        with torch.autocast("cpu", torch.float16):
            loss = (model(x) - y).float().square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        bad = not all(p.grad.isfinite().all() for p in model.parameters())
        scaler.step(optimizer)
        scaler.update()
        found.append(bad)
        optimizer.zero_grad(set_to_none=False)
    return [i for i in range(len(found)) if found[i]]

# %% right falls_of_the_scale
def skipped_steps(model, optimizer, scaler, batches):
    import numpy as np

    scales = [scaler.get_scale()]
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return np.flatnonzero(np.diff(scales) < 0)

# %% wrong growth-counted
# You count each step after which the scale has changed. It also grows. A skip is a scale that fell.
swap("scaler.get_scale() < before", "scaler.get_scale() != before")
of("falls_of_the_scale", swap("(np.diff(scales) < 0)", "(np.diff(scales))"))

# %% wrong asked-before-update
# You found no skip. The scale changes in `update`: read it before the step and after `update`.
move("scaler.update()", after="if scaler.get")
move("before =", after="scaler.update")

# %% wrong one-step-late
# You read the scale before `update` changes it, so you see each skip one step late. Read it after.
of("falls_of_the_scale", move("scales.append", before="scaler.update()"))
(move("before =", before="for number") & move("scaler.update()", after="if scaler.get") &
    put("before = scaler.get_scale()", before="scaler.update()"))

# %% wrong loss-asked
# You list the steps whose loss is not finite. Gradients can overflow where the loss does not.
swap("scaler.get_scale() < before", "not loss.isfinite()")
of("gradients_asked", swap("bad = not all(p.grad.isfinite().all() for p in model.parameters())",
    "bad = not scaler.scale(loss).isfinite()"))

# %% wrong nan-only
swap("scaler.get_scale() < before", "any(p.grad.isnan().any() for p in model.parameters())")
of("gradients_asked", swap("not all(p.grad.isfinite().all()", "any((p.grad != p.grad).any()"))

# %% wrong inf-only
swap("scaler.get_scale() < before", "any(p.grad.isinf().any() for p in model.parameters())")
of("gradients_asked", swap("not all(p.grad.isfinite().all()", "any(p.grad.isinf().any()"))

# %% wrong one-gradient-asked
swap("scaler.get_scale() < before", "not model[0].weight.grad.isfinite().all()")
of("gradients_asked", swap("in model.parameters()", "in [next(model.parameters())]"))

# %% wrong return-value-asked
# You list every step as skipped. `scaler.step` returns None for a real step too.
swap("scaler.get_scale() < before", "result is None") & swap("scaler.step", "result = scaler.step")
of("falls_of_the_scale", swap("np.diff(scales) < 0", "scales[1:]"))

# %% wrong parameters-compared
# You compare the parameters. A real step with a learning rate of 0 leaves them. Ask the scale.
(swap("scaler.get_scale() < before", "all(map(torch.equal, old, model.parameters()))") &
    put("old = [p.clone() for p in model.parameters()]", before="scaler.step"))
of("gradients_asked", put("old = [p.clone() for p in model.parameters()]", before="scaler.step") &
    swap("found.append(bad)", "found.append(all(map(torch.equal, old, model.parameters())))"))

# %% wrong inverted
# You list the steps that were taken. The task asks for those that were skipped.
swap("scaler.get_scale() < before", "scaler.get_scale() >= before")
of("falls_of_the_scale", swap("< 0", ">= 0"))

# %% wrong counts-from-one
# Your numbers are one too high. The first step is number 0.
swap("enumerate(batches)", "enumerate(batches, 1)")
of("gradients_asked", swap("[i for", "[i + 1 for"))

# %% wrong flags-returned
# You return a flag for each step. The task asks for the numbers of the skipped steps.
drop("if scaler.get") & put("skipped.append(scaler.get_scale() < before)", after="scaler.update")
of("gradients_asked", swap("[i for i in range(len(found)) if found[i]]", "found"))

# %% wrong list-not-returned
# Your function returns None. Return the list of the skipped steps.
drop("return skipped")
swap("return skipped", "print(skipped)")

# %% wrong no-zero-grad
# You never clear the gradients, so an inf stays in `.grad`. Call `optimizer.zero_grad()` each time.
drop("optimizer.zero_grad()")
move("optimizer.zero_grad()", before="for number")

# %% wrong batch-left-out
# You leave a batch out before the scaler has seen its gradients. Let `scaler.step` decide.
put("if not loss.isfinite():\n    skipped.append(number)\n    continue", before="scaler.scale")
of("gradients_asked", put("if not loss.isfinite():\n    found.append(True)\n    continue",
    before="scaler.scale"))
of("gradients_asked", wrap("if loss.isfinite():", "scaler.step", to="scaler.update"))

# %% wrong scaler-not-asked
swap("scaler.step(optimizer)", "optimizer.step()")
drop("scaler.step(optimizer)")
move("optimizer.zero_grad()", before="scaler.step")

# %% wrong update-forgotten
move("scaler.update()", before="return")
of("gradients_asked", drop("scaler.update()"))

# %% wrong optimizer-stepped-directly
swap("step(optimizer)", "unscale_(optimizer)") & put("optimizer.step()", before="scaler.update")
of("gradients_asked", swap("scaler.step(optimizer)", "optimizer.step()"))

# %% wrong another-precision
of("gradients_asked", swap("torch.float16", "torch.bfloat16"))

# %% wrong ready-made

# %% program with_the_course_package
def skipped_steps(model, optimizer, scaler, batches):
    from amp_lessons import ScalerLog

    log = ScalerLog(scaler)
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), y)
        log.scale(loss).backward()
        log.step(optimizer)
        log.update()
    return log.skipped_steps
