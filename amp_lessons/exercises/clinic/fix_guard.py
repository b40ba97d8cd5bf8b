# %% statement points=3 minutes=15
# # Case 2: a guard against bad batches
#
# A sensor writes NaN now and then. The program tries to leave such a batch out, and stops at it.

# %% demo
def guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        if loss.isfinite():
            scaler.scale(loss).backward()
            scaler.step(optimizer)
        scaler.update()


model = network()
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
try:
    guard(model, optimizer, scaler(), cross_entropy, some_batches(4, spoiled=(2,)))
except AssertionError as error:
    print("AssertionError:", error)

# %% text
# Fix it. Call your version `fix_guard` and keep the arguments. A batch with a NaN changes nothing:
# neither weights nor scaler. Training goes on with the next batch. `batches` stays as it was.
#
# All other inputs are small here: this check has no input of 300000. So a loss that is not finite
# means a NaN in the batch. If the loss is finite and the gradients overflow, the scale is too
# large. Then the scaler does what it always does: it skips the step and lowers the scale.

# %% answer
def fix_guard(model, optimizer, scaler, loss_fn, batches):
    """Train on each good batch once, in FP16 with the scaler."""
    ### BEGIN SOLUTION
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        if not loss.isfinite():
            continue
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION

# %% hints
# - If the batch is bad, what has the scaler seen since the last `update()`?
# - Two things can go wrong: bad data, and too large a scale. What tells them apart before backward?
# - Which calls does `continue` leave out that the program's `if` still makes?

# %% probe
from amp_lessons.exercises.clinic.harness import plain_loop
from amp_lessons.exercises.clinic.harness_cases import guard_cases

probe = Probe(guard_cases, plain_loop)

# %% judge
judge = Judge(same=within(1e-2))
CALLS = "calls of loss_fn with a finite loss"

# %% passed
# `step` and `update` come together or not at all. No smaller scale can fix a fault of the data.

# %% right batch_looked_at_before
def fix_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in (batch for batch in batches if batch[0].isfinite().all()):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x).float(), y)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

# %% right scale_put_back
def fix_guard(model, optimizer, scaler, loss_fn, batches):
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        if loss.isnan():
            scaler.update(scaler.get_scale())
        else:
            scaler.update()

# %% rule batches-changed
# You changed the caller's list of batches, or the tensors in it. Leave batches out in your loop.
def breaks(seen, right):
    return noted(seen, "the batches afterwards") == "changed"
put("batches[:] = [(x, y) for x, y in batches if x.isfinite().all()]", before="for x, y")

# %% rule bad-batch-trained
# You train on a batch with a NaN: you replace the NaN, or take its row out. We can't know what the
# sensor should have measured. The task is to leave out the whole batch.
def breaks(seen, right):
    calls = noted(seen, CALLS) or 0
    return calls > noted(right, CALLS) and calls == noted(right, "batches")
put("x = x.nan_to_num(0.0)", before="with torch.autocast")
put("y, x = y[~x.isnan().any(1)], x[~x.isnan().any(1)]", before="with torch.autocast")

# %% wrong update-without-step
# For a bad batch you leave out `step()`, but not `update()`. The scaler has seen no gradients since
# the last update, and says so. Call `step` and `update` both, or neither.
put("scaler.update()", before="continue")

# %% wrong updated-before-the-first-scale
# You call `scaler.update()` with the scale for a bad batch. If that is the first batch, the scaler
# has no scale yet: the first `scaler.scale(loss)` makes it. Leave out `update` for a bad batch.
put("scaler.update(scaler.get_scale())", before="continue")
put("scale = scaler.get_scale(); scaler.update(new_scale=scale)", before="continue")

# %% wrong scale-blamed
# A batch with a NaN lowers your scale: the scaler sees its gradients, skips the step and halves the
# scale. A smaller scale doesn't fix bad data. Leave out `backward`, `step` and `update` for it.
drop("if not loss.isfinite()")
of("scale_put_back", drop("if loss.isnan()") & put("scaler.update()", after="scaler.step"))

# %% wrong growth-count-lost
# You put the scale back after a bad batch, but not the scaler's count of good steps. It doubles its
# scale after a number of them in a row. Don't call `update()` for a bad batch.
of("scale_put_back", swap("scaler.update(scaler.get_scale())",
    "scale = scaler.get_scale(); scaler.update(); scaler.update(scale)"))
put("scaler.load_state_dict(scaler.state_dict() | {'_growth_tracker': 0})", before="continue")

# %% wrong gradients-replaced
# You replace NaN and inf in the gradients, so the scaler can't see them and makes a step. Leave out
# a batch whose loss is not finite, and let the scaler handle the rest.
(drop("if not loss.isfinite()") &
    put("for p in model.parameters(): p.grad.nan_to_num_(0.0, 0.0, 0.0)", before="scaler.step"))
(drop("if not loss.isfinite()") &
    put("for p in model.parameters(): p.grad[~p.grad.isfinite()] = 0", before="scaler.step"))

# %% wrong training-stopped
# The first bad batch ends the training. Leave out only that batch: `continue`, not `break`.
swap("continue", "break")
swap("continue", "return")

# %% wrong scale-never-falls
# You leave out `update()` if the gradients, or the scaled loss, overflow. Then a scale that is too
# large never falls, and each of these batches is lost. Look at the loss before it is scaled.
swap("loss.isfinite()", "scaler.scale(loss).half().isfinite()")
put("if not all(p.grad.isfinite().all() for p in model.parameters()): continue", after="scaler.sc")
