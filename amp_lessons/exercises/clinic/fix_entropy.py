# %% statement points=3 minutes=15
# # Case 8: an entropy of NaN
#
# This loss rewards entropy, so that the model doesn't become too sure of itself: it subtracts
# `bonus` times the mean entropy of the predictions. The author knew about `log(0)` and added 1e-8.

# %% demo
def rewarded(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            p = softmax(logits, dim=1)
            entropy = -(p * (p + 1e-8).log()).sum(dim=1).mean()
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses


model, its_scaler = network(), scaler()
model[-1].weight.data.mul_(40.0)  # a model that is sure of itself
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
print(rewarded(model, optimizer, its_scaler, cross_entropy, some_batches(5), 0.5))
print("scale", its_scaler.get_scale())

# %% text
# Fix it. Call your version `fix_entropy` and keep the arguments. Return the list of all losses,
# each with the bonus subtracted, as numbers or as tensors with one element. The entropy of a row is
# `-(p * log(p)).sum()`; take the mean over the rows. The network's matrix products stay in FP16. In
# some runs, one class has logits 200 below the others. The check allows an error of 1 percent.

# %% answer
def fix_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    """Train on each batch once, in FP16 with the scaler; return the losses."""
    ### BEGIN SOLUTION
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            log_p = log_softmax(logits.float(), dim=1)
            entropy = -(log_p.exp() * log_p).sum(dim=1).mean()
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses
    ### END SOLUTION

# %% hints
# - Print `p.dtype`. What is 1e-8 in that dtype?
# - You can compute `log(softmax(z))` without computing `softmax(z)` first.
# - `torch.nn.functional` has a function for that. Give it the logits in FP32.

# %% probe
from amp_lessons.exercises.clinic import harness_losses as harness

probe = Probe(harness.entropy_cases, harness.play_entropy)

# %% judge
judge = Judge(same=within(1e-2), asked_for="a list of losses")

# %% passed
# Don't take the logarithm of a probability. Take `log_softmax` of the logits, in FP32. If you added
# an eps that FP16 can store, such as 1e-3: it passes, but it changes every entropy a little.

# %% right p_in_fp32
def fix_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
            p = softmax(logits.float(), dim=1)
            entropy = -(p * (p + 1e-8).log()).sum(dim=1).mean()
            loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return losses

# %% right outside_the_region
def fix_entropy(model, optimizer, scaler, loss_fn, batches, bonus):
    losses = []
    for x, y in batches:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            logits = model(x)
        wide = logits.float()
        entropy = (torch.logsumexp(wide, 1) - (softmax(wide, 1) * wide).sum(1)).mean()
        loss = loss_fn(logits, y) - bonus * entropy
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss)
    return losses

# %% rule losses-not-returned
# Your function returned no losses. Put `loss.item()` of each batch into a list, and return it.
breaks = harness.no_losses
drop("return losses")
swap("return losses", "print(losses)")

# %% wrong eps-vanishes
# On a CPU, softmax stays in FP16 under autocast. A small probability is 0 there, and so is an eps
# of 1e-8. Then `log p` is -inf, and 0 times -inf is NaN. Use `log_softmax` of the logits, in FP32.
of("p_in_fp32", swap(".float()", ""))
of("p_in_fp32", swap("logits.float(), dim=1)", "logits, dim=1).float()") & swap(" + 1e-8", ""))

# %% wrong zero-in-fp32
# A probability can be 0 even in FP32, if its logit is more than about 104 below the largest. Then 0
# times -inf is NaN again. `log_softmax` never takes the logarithm of a 0.
of("p_in_fp32", swap("(p + 1e-8).log()", "p.log()"))
swap("log_softmax(logits.float(), dim=1)", "softmax(logits, dim=1, dtype=torch.float32).log()")

# %% wrong nan-only-hidden
# Your forward pass gives no NaN, but your backward pass does. The slope of the logarithm at 0 is
# infinite, so the scaler skips the step. Use `log_softmax` of the logits.
of("p_in_fp32", swap(".float()", "") & swap(".sum(", ".nan_to_num(0.0).sum("))
of("p_in_fp32", swap("softmax(logits.float(), dim=1)", "softmax(logits, dim=1)") &
    swap("(p * (p + 1e-8).log())", "torch.where(p > 0, p * (p + 1e-8).log(), 0.0)"))

# %% wrong entropy-dropped
# The entropy has no effect: keep `bonus * entropy` in the loss, with its gradient.
swap(" - bonus * entropy", "")
swap("logits.float()", "logits.detach().float()")
swap("bonus * entropy", "bonus * entropy.item()")

# %% wrong sign-of-the-entropy
# Your entropy has the wrong sign. `-(p * log(p)).sum()` is positive and lowers the loss.
swap("-(log_p.exp()", "(log_p.exp()")
swap("- bonus * entropy", "+ bonus * entropy")

# %% wrong sum-of-the-entropies
# You add up the entropies of all rows. The task asks for their mean.
swap("sum(dim=1).mean()", "sum()")
swap(".mean()", ".sum()")

# %% wrong mean-over-classes
# You take the mean over the classes. Sum over the classes, and take the mean only over the rows.
swap(".sum(dim=1).mean()", ".mean()")
swap(".sum(dim=1)", ".mean(dim=1)")

# %% wrong losses-without-the-bonus
# The losses that you return lack the subtracted bonus. Return the loss that you train with.
swap("loss.item()", "(loss + bonus * entropy).item()")
swap("losses.append(loss.item())", "losses.append(loss_fn(logits, y).item())")
put("losses[-1] += (bonus * entropy).item()", after="losses.append")

# %% wrong bonus-ignored
# You subtract the whole entropy. The task asks for `bonus` times the entropy.
swap("bonus * entropy", "entropy")
put("bonus = 1.0", before="losses = []")

# %% wrong batch-left-out
put("if not loss.isfinite(): losses.append(loss); continue", before="scaler.scale")
