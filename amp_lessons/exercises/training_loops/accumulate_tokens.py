# %% statement points=3 minutes=15
# # Accumulate over texts of different lengths
#
# A batch of texts is filled up with padding. Its label is -100, which `cross_entropy` leaves out.
# So micro-batches hold different numbers of real tokens, and the mean of their means is not the
# mean over all tokens. Large training scripts had this error for years.
#
# Write `accumulate_tokens(model, optimizer, scaler, batches, every)`: one step for each `every`
# micro-batches, with the gradient of the mean loss over all real tokens of this group.
#
# - A micro-batch is `(x, labels)`: `x` is (texts, places, features), `labels` is (texts, places).
#   `model(x)` is (texts, places, classes).
# - The last group may be smaller. A micro-batch may be padding alone, a whole group never is.
# - Train in FP16 with the scaler. An overflow skips its group's step.
# - Run the model on one micro-batch at a time. As before, the check also accepts one backward pass
#   for a whole group.

# %% answer
def accumulate_tokens(model, optimizer, scaler, batches, every):
    """Train with one step for each `every` micro-batches of texts."""
    ### BEGIN SOLUTION
    for start in range(0, len(batches), every):
        group = batches[start : start + every]
        tokens = sum((labels != -100).sum() for _, labels in group)
        optimizer.zero_grad()
        for x, labels in group:
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(x)
                loss = cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
            scaler.scale(loss / tokens).backward()
        scaler.step(optimizer)
        scaler.update()
    ### END SOLUTION

# %% hints
# - A mean over 2 tokens and a mean over 9 tokens: how do you get the mean over all 11?
# - How many labels of the whole group are real? Count them before the first backward pass.
# - `cross_entropy(..., reduction="sum")` adds up the losses of the real tokens.

# %% probe
from amp_lessons.exercises.training_loops.harness_tokens import token_cases, use_on_texts

probe = Probe(token_cases, play=use_on_texts)

# %% judge
judge = Judge(same=within(1e-3))

# %% passed
# Sum the losses and divide by the real tokens of the group: then it doesn't matter how it is split.

# %% right means_weighted
def accumulate_tokens(model, optimizer, scaler, batches, every):
    groups = [batches[i : i + every] for i in range(0, len(batches), every)]
    for group in groups:
        model.zero_grad()
        counts = [int((labels >= 0).sum()) for _, labels in group]
        for (x, labels), count in zip(group, counts, strict=True):
            if count == 0:
                continue
            with torch.autocast("cpu", dtype=torch.float16):
                loss = cross_entropy(model(x).transpose(1, 2), labels)
            scaler.scale(loss * (count / sum(counts))).backward()
        scaler.step(optimizer)
        scaler.update()

# %% right divided_at_the_end
def accumulate_tokens(model, optimizer, scaler, batches, every):
    tokens = 0
    optimizer.zero_grad()
    for number, (x, labels) in enumerate(batches, start=1):
        real = labels != -100
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
        scaler.scale(cross_entropy(logits[real], labels[real], reduction="sum")).backward()
        tokens += int(real.sum())
        if number % every == 0 or number == len(batches):
            scaler.unscale_(optimizer)
            for parameter in model.parameters():
                parameter.grad /= tokens
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            tokens = 0

# %% right one_backward_for_the_group
def accumulate_tokens(model, optimizer, scaler, batches, every):
    for first in range(0, len(batches), every):
        total, tokens = 0.0, 0
        for x, labels in batches[first : first + every]:
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(x).reshape(-1, 3).float()
            total = total + cross_entropy(logits, labels.reshape(-1), reduction="none").sum()
            tokens += labels.ne(-100).sum().item()
        scaler.scale(total / tokens).backward()
        scaler.step(optimizer)
        scaler.update()
        model.zero_grad()

# %% wrong mean-of-means
# You took the mean over each micro-batch and averaged those means. A token in a short text then
# counts more than one in a long text. Divide the sum of the losses by the tokens of the group.
swap(', reduction="sum")', ")") & swap("loss / tokens", "loss / len(group)")
of("means_weighted", drop("if count") & swap("count / sum(counts)", "1 / len(group)"))

# %% wrong padding-counted
# You divided by all places, padding too, so the steps are too small. Count labels that aren't -100.
swap("(labels != -100).sum()", "labels.numel()")
of("divided_at_the_end", swap("int(real.sum())", "real.numel()"))

# %% wrong class-0-not-counted
# You take only labels above 0 for real ones. Class 0 is a real label too. Padding is -100 and
# nothing else: compare with that.
swap("labels != -100", "labels > 0")
swap("(labels != -100).sum()", "labels.clamp(min=0).count_nonzero()")
of("means_weighted", swap("labels >= 0", "labels > 0"))
of("divided_at_the_end", swap("labels != -100", "labels > 0"))

# %% wrong tokens-of-the-micro-batch
# You divided the sum by the tokens of the micro-batch, so each micro-batch counts the same, however
# short. Divide by the tokens of its whole group.
swap("loss / tokens", "loss / (labels != -100).sum().clamp(min=1)")
of("means_weighted", swap("loss * (count / sum(counts))", "loss"))

# %% wrong sum-not-divided
# You never divided by the tokens, so the step is as many times too large as the group has tokens.
swap("loss / tokens", "loss")
of("divided_at_the_end", drop("for parameter in"))
swap("scaler.scale(loss / tokens)", "scaler.scale(loss).div(1)")

# %% wrong tokens-of-one-step
# Your count of tokens goes on from group to group, so the steps shrink. Start at 0 in each group.
of("divided_at_the_end", drop("tokens = 0", nth=2))
swap("tokens = sum(", "tokens = seen = seen + sum(") & put("seen = 0", before="for start")

# %% wrong last-group-lost
# The last micro-batches never make a step if they don't fill a group. Step after the last one too.
of("divided_at_the_end", swap(" or number == len(batches)", ""))
swap("range(0, len(batches), every)", "range(0, len(batches) - every + 1, every)")

# %% wrong a-step-for-each
# You step after every micro-batch. Step once for each group.
move("scaler.step", after="scaler.scale") & move("scaler.update", after="scaler.step")
(wrap("for _ in [0]:", "scaler.scale") & move("scaler.step", after="scaler.scale") &
    move("scaler.update", after="scaler.step"))

# %% wrong never-zeroed
drop("optimizer.zero_grad()")
of("means_weighted", drop("model.zero_grad()"))

# %% wrong zeroed-in-the-group
# You remove the gradients before each micro-batch, so only the last counts. Do it once a group.
move("optimizer.zero_grad()", before="with torch")
put("model.zero_grad()", before="scaler.scale")

# %% wrong batch-left-out
of("divided_at_the_end", put("if not logits.isfinite().all(): continue", before="if number"))
put("if logits.isnan().any(): continue", before="loss =")

# %% wrong never-updated
wrap("if not group:", "scaler.update()")
of("divided_at_the_end", swap("scaler.update()", "scaler.get_scale()"))

# %% wrong divided-too-often
put("for p in model.parameters(): p.grad = p.grad / scaler.get_scale()", before="scaler.step")
