# %% statement points=2 minutes=15
# # Accumulate, exchange once
#
# Write `few_exchanges(model, optimizer, scaler, loss_fn, batches)`. It makes one optimizer step
# over several micro-batches, and the ranks exchange their gradients once.
#
# `model` is a `DistributedDataParallel`. `batches` is a list of pairs (x, y), at least one, and the
# pairs may have different numbers of rows.
#
# - Clear the gradients.
# - For each micro-batch, run the model and `loss_fn(output, y)` under
#   `torch.autocast("cpu", dtype=torch.float16)`. Then run the backward pass of the scaled loss,
#   before the next micro-batch begins.
# - The step is that of the *mean* of the losses. Each micro-batch counts the same.
# - DDP may exchange gradients only once, and then all of them. Call no collective yourself.
# - Call `scaler.step` and `scaler.update` once.

# %% answer
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    """One step over all the micro-batches, with a single all-reduce; nothing is returned."""
    ### BEGIN SOLUTION
    optimizer.zero_grad()
    for number, (x, y) in enumerate(batches, 1):
        last = number == len(batches)
        with contextlib.nullcontext() if last else model.no_sync():
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) / len(batches)
            scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    ### END SOLUTION

# %% hints
# - Under `model.no_sync()` DDP keeps the gradients on this rank. Which micro-batches belong there?
# - DDP decides in the forward pass whether the backward pass exchanges. Put both there.
# - For the last micro-batch, `contextlib.nullcontext()` is a context that does nothing.

# %% probe
from amp_lessons.exercises.ranks.harness_group import exchange_cases, play_exchanges

probe = Probe(exchange_cases, play=play_exchanges, own=("amp_lessons.amp.distributed",))

# %% judge
judge = Judge(same=within(2e-3))

# %% passed
# One exchange in each step, and one scale for all the gradients that are added up.

# %% right last_one_apart
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    def backward(x, y):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss / len(batches)).backward()

    *others, last = batches
    with model.no_sync():
        for x, y in others:
            backward(x, y)
    backward(*last)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()

# %% right gradients_divided
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    optimizer.zero_grad(set_to_none=False)
    count = len(batches)
    while batches:
        x, y = batches.pop(0)
        model.require_backward_grad_sync = not batches
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(x), y)
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    for p in model.parameters():
        p.grad /= count
    scaler.step(optimizer)
    scaler.update()

# %% rule another-precision
# Your model ran in {ran}. Run it under `torch.autocast("cpu", dtype=torch.float16)`.
def breaks(seen, right):
    ran = noted(seen, "dtype of the outputs")
    return ran in ("float32", "bfloat16") and {"ran": ran}
unwrap("with torch.autocast")
swap(", dtype=torch.float16", "")

# %% rule own-collective
# You call a collective yourself. Leave the last micro-batch outside of `no_sync()`: DDP does it.
def breaks(seen, right):
    return noted(seen, "calls of all_reduce") == "your own"
(swap("contextlib.nullcontext() if last else model.no_sync()", "model.no_sync()") &
    put("for p in model.parameters(): dist.all_reduce(p.grad)", before="scaler.step"))

# %% rule all-at-once
# You run several forward passes in a row, or one pass over all rows, so their activations are in
# memory together. Run each backward pass before the next forward pass.
def breaks(seen, right):
    rows, wanted = (noted(one, "rows of the forward passes") for one in (seen, right))
    together = (noted(seen, "forward passes before a backward pass") or 0) > 1
    return together or (rows and len(rows) < len(wanted) and sum(rows) == sum(wanted))
put("batches = [[torch.cat(part) for part in zip(*batches)]]", before="for number")
(put("total = 0", before="for number") & swap("scaler.scale(loss).backward()", "total += loss") &
    put("scaler.scale(total).backward()", before="scaler.step"))

# %% rule no-scaler-step
# You step without `scaler.step`, which skips the step if a gradient is inf or NaN.
def breaks(seen, right):
    return max(noted(seen, "calls of scaler.step in each step") or [1]) == 0
swap("scaler.step(optimizer)", "optimizer.step()") & drop("scaler.update")
swap("scaler.step(optimizer)", "scaler.unscale_(optimizer)\n    optimizer.step()")

# %% rule stepped-each-time
# You call `scaler.step` more than once. All micro-batches together get one step and one update.
def breaks(seen, right):
    return max(noted(seen, "calls of scaler.step in each step") or [0]) > 1
move("scaler.step", after="scaler.scale") & move("scaler.update", after="scaler.step")
of("last_one_apart", put("scaler.step(optimizer)\nscaler.update()", after="scaler.scale"))

# %% wrong exchanged-each-time
# DDP exchanges in every micro-batch. It decides during the forward pass whether the backward pass
# will exchange. Run both passes under `no_sync()`, for every micro-batch but the last.
unwrap("with contextlib")
(unwrap("with contextlib") & wrap("with contextlib.nullcontext() if last else model.no_sync():",
    "scaler.scale"))

# %% wrong never-exchanged
# DDP never exchanges a gradient. Run the last micro-batch outside of `no_sync()`, and call `model`.
swap("contextlib.nullcontext() if last else model.no_sync()", "model.no_sync()")
swap("model(x)", "model.module(x)")

# %% wrong exchanged-too-early
# You exchange first, so what the others add stays on this rank. Exchange with the last micro-batch.
swap("number == len(batches)", "number == 1")
of("gradients_divided", swap("not batches\n", "len(batches) == count - 1\n"))

# %% wrong loss-not-divided
# The gradients add up, so your step is too large. Divide each loss by `len(batches)`.
swap(" / len(batches)", "")
of("gradients_divided", drop("for p in"))

# %% wrong weighted-by-rows
# You weight each loss by the rows of its micro-batch, which gives the mean over all rows. This
# exercise asks for the mean of the losses: each micro-batch counts the same.
swap("/ len(batches)", "* len(y) / sum(len(b) for _, b in batches)")
of("last_one_apart", swap("/ len(batches)", "* (len(y) / sum(map(len, (y for _, y in batches))))"))

# %% wrong gradients-not-cleared
# The gradients of the step before are still there when the next step begins. Clear them first.
drop("optimizer.zero_grad")
of("gradients_divided", swap("optimizer.zero_grad(set_to_none=False)", "scaler.get_scale()"))

# %% wrong cleared-in-between
# You clear the gradients for each micro-batch, so only the last one counts. Clear them once.
move("optimizer.zero_grad()", after="last = ")
of("last_one_apart", put("optimizer.zero_grad()", before="with torch"))

# %% wrong update-forgotten
# You never call `scaler.update()`, so the scale stays too large. Call it once, after `scaler.step`.
drop("scaler.update")
put("return model", before="scaler.update")

# %% wrong partly-scaled
# You scale the losses of some micro-batches only, and one scale divides the sum. Scale every loss.
swap("scaler.scale(loss)", "(scaler.scale(loss) if last else loss)")
swap("scaler.scale(loss)", "(loss if number == 1 else scaler.scale(loss))")
of("gradients_divided", swap("scaler.scale(loss)", "(loss if batches else scaler.scale(loss))"))

# %% wrong ready-made
# %% program the_course_synchronises
def few_exchanges(model, optimizer, scaler, loss_fn, batches):
    from amp_lessons.amp.distributed.train import gradient_sync

    optimizer.zero_grad()
    for number, (x, y) in enumerate(batches, 1):
        with gradient_sync(model, wanted=number == len(batches)):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) / len(batches)
            scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
