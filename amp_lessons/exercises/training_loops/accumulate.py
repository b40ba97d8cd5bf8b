# %% statement points=2 minutes=10
# # A large batch in small pieces
#
# Write `accumulate(model, optimizer, scaler, loss_fn, batches, every)`. It makes one step for each
# `every` small batches. That step must equal a step with one big batch.
#
# - All small batches have the same size, and their number is a multiple of `every`.
# - `loss_fn` gives the mean over the images of a batch.
# - Train in FP16 with the scaler, and leave the optimizer's learning rate as it is.
# - If one small batch overflows, the step of its whole group is skipped.
#
# The big batch wouldn't fit in memory, so the model must see one small batch at a time. The check
# also accepts one backward pass for a whole group, although that keeps its activations alive.

# %% answer
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

# %% hints
# - Which calls come once for a small batch, and which once for a step?
# - The loss of a batch is a mean over its images. What is the mean of four such means?
# - If you count from 0, a group ends where `number + 1` is a multiple of `every`.

# %% probe
from amp_lessons.exercises.training_loops.harness_plays import accumulate_cases, use_in_groups
from amp_lessons.exercises.training_loops.harness import never_in_float16

probe = Probe(accumulate_cases, play=use_in_groups)

# %% judge
judge = Judge(same=within(1e-3))

# %% passed
# Forward and backward belong to the small batch; `zero_grad`, `step` and `update` to the group.

# %% right zeroed_after_the_step
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    optimizer.zero_grad()
    for i, batch in enumerate(batches):
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(model(batch[0]), batch[1]) * (1 / every)
        scaler.scale(loss).backward()
        if (i + 1) % every:
            continue
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

# %% right one_backward_for_the_mean
def accumulate(model, optimizer, scaler, loss_fn, batches, every):
    losses = []
    for x, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            losses.append(loss_fn(model(x).float(), y))
        if len(losses) == every:
            scaler.scale(torch.stack(losses).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            losses.clear()

# %% rule another-precision
breaks = never_in_float16

# %% rule joined-into-one-batch
# You join small batches, which takes the memory that accumulation saves. Run the model on each.
def breaks(seen, right):
    largest = "images in the largest batch"
    return (noted(seen, largest) or 0) > noted(right, largest)
put("x, y = map(torch.cat, zip(*batches[number:number + every]))", before="with torch")

# %% rule rate-divided
# You change the learning rate. With Adam or clipping, that isn't the same. Divide each loss.
def breaks(seen, right):
    rates = noted(seen, "learning rates")
    return bool(rates) and rates != noted(right, "learning rates")
swap(" / every", "") & put('optimizer.param_groups[0]["lr"] /= every', before="for number")

# %% wrong loss-not-divided
# The gradients of the small batches add up, but the big batch's gradient is their mean. So your
# steps are too large by the factor `every`. Divide each loss by it.
swap(" / every", "")
of("one_backward_for_the_mean", swap("mean()", "sum()"))

# %% wrong divided-by-all
# You divide by the number of all batches, but a step sees only `every` of them. Divide by `every`.
swap("/ every", "/ len(batches)")
of("zeroed_after_the_step", swap("1 / every", "1 / len(batches)"))

# %% wrong gradients-thrown-away
# A step sees only the last small batch of its group. Either you remove the gradients before each
# small batch, or only its loss goes backward. Call `zero_grad()` once for each step.
unwrap("if number % every")
move("scaler.scale", before="scaler.step")
swap(" / every", "") & unwrap("if number % every")

# %% wrong never-zeroed
of("zeroed_after_the_step", drop("optimizer.zero_grad()", nth=2))

# %% wrong group-ends-too-soon
# Your first step comes after the very first small batch, and the others come too soon as well. Step
# where `number + 1`, counted from 0, is a multiple of `every`.
of("zeroed_after_the_step", swap("(i + 1)", "i"))
(swap("(number + 1)", "number") & swap("if number % every == 0:\n    optimizer.zero_grad()",
    "pass") & put("optimizer.zero_grad()", after="scaler.update"))

# %% wrong batch-left-out
# You leave out a small batch that overflows. Let the scaler see it and skip the whole group's step.

# %% wrong stepped-each-small-batch
# You step after every small batch, so nothing is accumulated. Step once for each `every` batches.
unwrap("if (number") & unwrap("if number")
of("zeroed_after_the_step", drop("if (i + 1)"))
unwrap("if (number")
unwrap("if (number") & swap(" / every", "")

# %% wrong updated-each-small-batch
# You call `update()` for each small batch. It raises an error if no `step()` came before it, and
# within one step all gradients must carry the same scale. Call it once, after `step()`.
move("scaler.update()", after="if (number")
of("zeroed_after_the_step", move("scaler.update()", before="if (i + 1)"))

# %% wrong unscaled-each-small-batch
# You unscale after each small batch, and add the next, scaled gradients to unscaled ones. So a
# second `unscale_()` raises an error, unless `update()` silences it. Unscale once for each group.
put("scaler.unscale_(optimizer)", after="scaler.scale")
of("zeroed_after_the_step", put("scaler.unscale_(optimizer)", before="if (i + 1)"))
put("scaler.unscale_(optimizer)\nscaler.update()", after="scaler.scale")

# %% wrong stepped-without-the-scaler
swap(".step(opt", ".unscale_(opt") & put("optimizer.step()", before="scaler.update")
swap("scaler.step(optimizer)\nscaler.update()",
    "scaler.unscale_(optimizer)\noptimizer.step()\nscaler.update()")

# %% wrong never-unscaled
swap("scaler.step(optimizer)\nscaler.update()", "optimizer.step()")
of("zeroed_after_the_step", swap("scaler.step(optimizer)", "optimizer.step()") & drop("scaler.up"))

# %% wrong scaler-bypassed
put('scaler = torch.amp.GradScaler("cpu", enabled=False)', before="for number")
(swap("scaler.scale(loss)", "loss") & swap("scaler.step(optimizer)\nscaler.update()",
    "optimizer.step()"))

# %% wrong never-updated
move("scaler.update()", after="for number")
