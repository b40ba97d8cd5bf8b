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
# looks at the size of what the model sees. It doesn't measure memory, so it also accepts one
# backward pass for a whole group, although that keeps the activations of the group alive.

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
# - Which of these come once for a small batch, and which once for a step: `zero_grad`, forward,
#   `backward`, `step`, `update`?
# - The loss of a batch is a mean over its images. What is the mean of four such means?
# - If you count from 0, a group ends where `number + 1` is a multiple of `every`.

# %% probe
from amp_lessons.exercises.training_loops.stage_plays import accumulate_cases, use_in_groups

probe = Probe(accumulate_cases, play=use_in_groups)

# %% judge
from amp_lessons.plain_data.compare import within
from amp_lessons.exercises.training_loops.stage import part

judge = Judge(same=within(1e-3))

# %% passed
# The forward and the backward pass belong to the small batch. `zero_grad`, `unscale_`, `step` and
# `update` belong to the group.

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
def breaks(seen, right):
    dtypes = part(seen, "dtype of the model's outputs")
    return bool(dtypes) and "x float16" not in dtypes

# %% rule joined-into-one-batch
# You join small batches and run the model on the bigger one. That takes the memory that
# accumulation is there to save. Run the model on one small batch at a time.
def breaks(seen, right):
    largest = "images in the largest batch"
    return (part(seen, largest) or 0) > part(right, largest)
(swap("enumerate(batches)", "enumerate(zip(*[iter(batches)] * every))") & swap("(x, y)", "group") &
    swap("loss_fn(model(x), y) / every", "loss_fn(model(x), y)") &
    put("x, y = map(torch.cat, zip(*group))\nevery = 1", before="with torch"))

# %% rule rate-divided
# You change the learning rate where the loss should be divided. For plain SGD the steps are the
# same. With clipping, or with Adam, they are not. Divide each loss by `every`.
def breaks(seen, right):
    rates = part(seen, "learning rates")
    return bool(rates) and rates != part(right, "learning rates")
swap(" / every", "") & put('optimizer.param_groups[0]["lr"] /= every', before="for number")
(swap(" / every", "") & put('optimizer.param_groups[0]["lr"] /= every', before="scaler.step") &
    put('optimizer.param_groups[0]["lr"] *= every', after="scaler.step"))

# %% wrong loss-not-divided
# The gradients of the small batches add up to a sum, and the big batch's gradient is their mean. So
# your steps are too large by the factor `every`. Divide each loss by `every`.
swap(" / every", "")
of("one_backward_for_the_mean", swap("mean()", "sum()"))

# %% wrong divided-by-all
# You divide by the number of all batches. A step sees only `every` of them. Divide each loss by
# `every`.
swap("/ every", "/ len(batches)")
of("zeroed_after_the_step", swap("1 / every", "1 / len(batches)"))

# %% wrong gradients-thrown-away
# A step sees only the last small batch of its group. Either you remove the gradients before each
# small batch: call `zero_grad()` once for each step. Or only the last loss goes backward: each of
# them should.
unwrap("if number % every")
move("scaler.scale", before="scaler.step")
swap(" / every", "") & unwrap("if number % every")

# %% wrong never-zeroed
swap("number % every == 0:", "number == 0:", nth=1)
of("zeroed_after_the_step", drop("optimizer.zero_grad()", nth=2))
of("one_backward_for_the_mean", drop("optimizer.zero_grad()"))

# %% wrong group-ends-too-soon
# Your first step comes after the very first small batch, and each later one a batch too soon: 0 is
# a multiple of `every` too. Step where `number + 1` is a multiple of `every`, counting from 0.
of("zeroed_after_the_step", swap("(i + 1)", "i"))
(swap("(number + 1)", "number") & swap("if number % every == 0:\n    optimizer.zero_grad()",
    "pass") & put("optimizer.zero_grad()", after="scaler.update"))

# %% wrong batch-left-out
# You leave out a small batch that overflows, and step with the others. The sum then has fewer terms
# than you divide by, and the scaler never sees the overflow. Let it skip the step of the whole
# group.
wrap("if loss.isfinite():", "scaler.scale")
of("zeroed_after_the_step", wrap("if abs(loss.item()) < 1e9:", "scaler.scale"))

# %% wrong stepped-each-small-batch
# You step after every small batch, so nothing is accumulated. Step once for each `every` batches.
unwrap("if (number") & unwrap("if number")
unwrap("if (number")
of("zeroed_after_the_step", drop("if (i + 1)"))
unwrap("if (number") & unwrap("if number") & swap(" / every", "")
unwrap("if (number") & swap(" / every", "")

# %% wrong updated-each-small-batch
# You call `update()` for each small batch. It may change the scale, and within one step all
# gradients must carry the same one. It also raises an error if no `step()` came before it. Call it
# once, after `step()`.
move("scaler.update()", after="if (number")
of("zeroed_after_the_step", move("scaler.update()", before="if (i + 1)"))

# %% wrong unscaled-each-small-batch
# You unscale after each small batch. The next gradients are still scaled, and they are added to
# unscaled ones, so a second `unscale_()` raises an error. A call of `update()` silences it, and the
# sum is wrong. Unscale once, at the end of the group.
put("scaler.unscale_(optimizer)", after="scaler.scale")
of("zeroed_after_the_step", put("scaler.unscale_(optimizer)", before="if (i + 1)"))
put("scaler.unscale_(optimizer)\nscaler.update()", after="scaler.scale")

# %% wrong stepped-without-the-scaler
(swap("scaler.step(optimizer)", "optimizer.step()") & put("scaler.unscale_(optimizer)",
    before="optimizer.step"))
swap("scaler.step(optimizer)\nscaler.update()",
    "scaler.unscale_(optimizer)\noptimizer.step()\nscaler.update()")
(swap("scaler.step(optimizer)", "if good: optimizer.step()") &
    put("good = (number % every == 0 or good) and loss.isfinite()", before="scaler.scale") &
    put("scaler.unscale_(optimizer)", before="if good"))

# %% wrong never-unscaled
swap("scaler.step(optimizer)\nscaler.update()", "optimizer.step()")
of("zeroed_after_the_step", swap("scaler.step(optimizer)", "optimizer.step()") & drop("scaler.up"))

# %% wrong scaler-bypassed
put('scaler = torch.amp.GradScaler("cpu", enabled=False)', before="for number")
(swap("scaler.scale(loss)", "loss") & swap("scaler.step(optimizer)\nscaler.update()",
    "optimizer.step()"))

# %% wrong never-updated
move("scaler.update()", after="for number")
