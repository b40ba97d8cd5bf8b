# %% statement points=3 minutes=20
# # Case 4: micro-batches of unequal size
#
# Texts have different lengths, so micro-batches have different numbers of rows. Each group makes
# one step, as if it were one batch. The program divides its losses as if all had the same size.

# %% demo
def uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        optimizer.zero_grad()
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) / len(group)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def weight_after(groups):
    model = network()
    uneven(model, torch.optim.SGD(model.parameters(), lr=0.5), scaler(), cross_entropy, groups)
    return model[0].weight[0, 0].item()


(whole,) = some_batches(1, rows=16)
parts = [(x, y) for x, y in zip(whole[0].split([2, 14]), whole[1].split([2, 14]), strict=True)]
print("16 rows at once", weight_after([[whole]]))
print("2 and 14 rows  ", weight_after([parts]))

# %% text
# Fix it. Call your version `fix_uneven` and keep the arguments. The gradient of a group is that of
# the mean loss over all its rows. `loss_fn` gives the mean over one micro-batch.
#
# The activations of two micro-batches don't fit into memory together. So run the backward pass of
# each micro-batch before the forward pass of the next one.

# %% answer
def fix_uneven(model, optimizer, scaler, loss_fn, groups):
    """Train with one step for each group of micro-batches (x, y), in FP16 with the scaler."""
    ### BEGIN SOLUTION
    for group in groups:
        optimizer.zero_grad()
        rows = sum(len(y) for _, y in group)
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y) * (len(y) / rows)
            scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION

# %% hints
# - You have a mean over 2 rows and a mean over 14 rows. How do you get the mean over all 16?
# - Which share of the group's rows does a micro-batch hold?
# - Count the rows of the group before the first backward pass, or divide the unscaled gradients.

# %% probe
from amp_lessons.exercises.clinic.harness_cases import play_uneven, uneven_cases

probe = Probe(uneven_cases, play_uneven)

# %% judge
judge = Judge(same=within(3e-3))

# %% passed
# Accumulation has to average over rows, or over tokens, and not over micro-batches.

# %% right divided_last
def fix_uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        optimizer.zero_grad()
        rows = 0
        for x, y in group:
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x).float(), y)
            scaler.scale(loss * x.shape[0]).backward()
            rows += x.shape[0]
        scaler.unscale_(optimizer)
        for parameter in model.parameters():
            parameter.grad.div_(rows)
        scaler.step(optimizer)
        scaler.update()

# %% right shares
def fix_uneven(model, optimizer, scaler, loss_fn, groups):
    for group in groups:
        counts = [y.numel() for _, y in group]
        for (x, y), count in zip(group, counts, strict=True):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = loss_fn(model(x), y)
            (scaler.scale(loss) * count / sum(counts)).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

# %% rule one-big-batch
# The activations of several micro-batches are in memory together, and they don't fit. Run
# `backward()` for each micro-batch before the forward pass of the next one.
def breaks(seen, right):
    most = "most rows in memory at once"
    return (noted(seen, most) or 0) > noted(right, most)
put("group = [tuple(torch.cat(part) for part in zip(*group))]", before="optimizer.zero_grad()")
(put("losses = []", before="for x, y") & swap("scaler.scale(loss).backward()",
    "losses.append(loss)") & put("scaler.scale(sum(losses)).backward()", before="scaler.step"))

# %% rule stepped-each-micro-batch
# You make a step after every micro-batch. Make one for each group, after its last micro-batch.
def breaks(seen, right):
    steps, wanted = (noted(entry, "optimizer steps") for entry in (seen, right))
    return (steps or 0) >= noted(right, "calls of loss_fn with a finite loss") > wanted
move("scaler.step(", after="scaler.scale(") & move("scaler.update()", after="scaler.step(")

# %% wrong mean-of-means
# You divide each loss by the number of micro-batches. So a row in a micro-batch of one counts as
# much as twenty rows in another. Weight each micro-batch by its share of the group's rows.
swap("(len(y) / rows)", "(1 / len(group))")
of("shares", swap("count / sum(counts)", "1 / len(counts)"))

# %% wrong divided-by-both
# You weight each loss by its rows, and you divide by the number of micro-batches as well. So each
# step is too small by that number. The shares of the rows add up to 1: divide by nothing else.
swap("(len(y) / rows)", "(len(y) / rows / len(group))")
of("shares", swap("* count /", "* count / len(counts) /"))

# %% wrong loss-not-divided
# You add up the losses and divide by nothing, so a step is too large by the number of micro-batches
# in its group. Weight each loss by its share of the group's rows.
swap(" * (len(y) / rows)", "")
of("shares", swap(" * count / sum(counts)", ""))

# %% wrong rows-not-divided
# Nothing divides the gradients by the number of rows, so they are that many times too large. Divide
# each loss by the rows of the whole group, or the unscaled gradients before `scaler.step`.
swap("(len(y) / rows)", "len(y)")
of("divided_last", move("for parameter in", after="scaler.step"))

# %% wrong rows-so-far
# You divide by the rows so far, so the first micro-batches weigh too much. Count them all first.
swap("sum(len(y) for _, y in group)", "0") & put("rows += len(y)", before="with torch.autocast")
of("shares", put("seen = 0", before="for (x, y)") & put("seen += count", before="with torch") &
    swap("/ sum(counts)", "/ seen"))

# %% wrong rows-of-all-groups
# You divide by the rows of all groups together. A step averages over the rows of its own group.
swap("for _, y in group)", "for part in groups for _, y in part)")
move("rows =", before="for group in groups") & swap("in group)", "in sum(groups, []))")

# %% wrong zeroed-each-micro-batch
# You clear the gradients before every micro-batch. Clear them once for each group.
move("optimizer.zero_grad()", before="with torch.autocast")
put("optimizer.zero_grad(set_to_none=False)", before="scaler.scale(")

# %% wrong not-unscaled
swap("scaler.step(optimizer)\nscaler.update()", "optimizer.step()")
swap("scaler.step(optimizer)", "optimizer.step()") & drop("scaler.update()")

# %% wrong batch-left-out
put("if not loss.isfinite(): continue", before="scaler.scale")
wrap("if loss.isfinite():", "scaler.scale")
