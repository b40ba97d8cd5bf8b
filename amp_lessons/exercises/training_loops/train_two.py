# %% statement points=2 minutes=10
# # Two models, two optimizers
#
# Write `train_two(models, optimizers, scaler, loss_fn, batches)`. It trains two models, each with
# its own loss and its own optimizer, and one scaler for both.
#
# - `models` and `optimizers` are pairs, and each batch is `(x, z, y)`.
# - The first model makes a guess from `x`. Its loss is `loss_fn(guess, y)`.
# - The second model sees `z` and corrects the guess. Its loss is
#   `loss_fn(guess.detach() + correction, y)`.
#
# Both run in FP16. If the gradients of one model overflow, only *that* model's step is skipped.

# %% answer
def train_two(models, optimizers, scaler, loss_fn, batches):
    """Train both models on each batch once."""
    ### BEGIN SOLUTION
    first, second = models
    for x, z, y in batches:
        for opt in optimizers:
            opt.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = first(x)
            first_loss = loss_fn(guess, y)
            second_loss = loss_fn(guess.detach() + second(z), y)
        scaler.scale(first_loss).backward()
        scaler.scale(second_loss).backward()
        for opt in optimizers:
            scaler.step(opt)
        scaler.update()
    ### END SOLUTION

# %% hints
# - The scaler notes for each optimizer whether it found an inf. What do both share?
# - There are two backward passes and two steps. How many updates of the scale?

# %% probe
from amp_lessons.exercises.training_loops.harness_plays import two_cases, use_for_two

probe = Probe(two_cases, play=use_for_two)

# %% judge
judge = Judge(same=within(1e-3))

# %% passed
# One scaler and one update for each batch. An optimizer is skipped only for its own inf.

# %% right list_of_losses
def train_two(models, optimizers, scaler, loss_fn, batches):
    for x, z, y in batches:
        with torch.autocast("cpu", dtype=torch.float16):
            one = models[0](x)
            with torch.no_grad():
                fixed = models[0](x)
            losses = [loss_fn(one, y), loss_fn(fixed + models[1](z), y)]
        torch.autograd.backward(scaler.scale(losses))
        for optimizer in reversed(optimizers):
            scaler.step(optimizer)
            optimizer.zero_grad()
        scaler.update()

# %% right first_steps_early
def train_two(models, optimizers, scaler, loss_fn, batches):
    (first, second), (one, two) = models, optimizers
    for x, z, y in batches:
        one.zero_grad()
        two.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            guess = first(x)
            loss = loss_fn(guess.float(), y)
        scaler.scale(loss).backward()
        scaler.step(one)
        with torch.autocast("cpu", dtype=torch.float16):
            loss = loss_fn(guess.detach() + second(z), y)
        scaler.scale(loss).backward()
        scaler.step(two)
        scaler.update()

# %% rule another-precision
# The {which} model doesn't always run in FP16: its outputs are {dtypes}. Run both models under
# `torch.autocast("cpu", dtype=torch.float16)`.
def breaks(seen, right):
    for which in ("first", "second"):
        dtypes = noted(seen, f"dtype of the model's outputs ({which} model)") or ""
        if "bfloat16" in dtypes or "float32" in dtypes:
            kinds = {word for word in dtypes.replace(",", "").split() if "float" in word}
            return {"which": which, "dtypes": " and ".join(sorted(kinds))}
    return None
of("first_steps_early", swap(", dtype=torch.float16", "", nth=2))

# %% wrong updated-twice
# You call `update()` twice a batch. Each counts as two, and the scale grows too soon. Call it once.
move("scaler.update()", after="scaler.step(opt)")
of("first_steps_early", put("scaler.update()", after="scaler.step(one)"))
swap("for opt in optimizers:\n    scaler.step(opt)\nscaler.update()",
    "scaler.step(optimizers[0])\nscaler.update()\nscaler.step(optimizers[1])\nscaler.update()")

# %% wrong two-scalers
# You made a second scaler, so the caller's doesn't see the second model's overflows. One scaler
# serves any number of optimizers: it notes for each of them whether it found an inf.
(put('new = torch.amp.GradScaler("cpu", 2.0**10, growth_interval=3)', before="for x, z") &
    swap("scaler.scale(second_loss)", "new.scale(second_loss)") &
    swap("for opt in optimizers:\n    scaler.step(opt)\nscaler.update()",
    "for s, opt in zip([scaler, new], optimizers):\n    s.step(opt)\n    s.update()"))
of("first_steps_early", put('new = torch.amp.GradScaler("cpu", 2.0**10, growth_interval=3)',
    before="for x") & swap("scaler.scale(loss)", "new.scale(loss)", nth=2) &
    swap("scaler.step(two)", "new.step(two)") & put("new.update()", after="scaler.update"))

# %% wrong all-or-none
# You skip both optimizers when one has an inf. Call `scaler.step()` for both: it skips that one.
(put("for opt in optimizers: scaler.unscale_(opt)", after="scaler.scale(second_loss)") &
    wrap("if all(p.grad.isfinite().all() for m in models for p in m.parameters()):",
    "for opt in optimizers:", nth=3))
(put("for opt in optimizers: scaler.unscale_(opt)", after="scaler.scale(second_loss)") &
    wrap("if all(o.param_groups[0]['params'][0].grad.isfinite().all() for o in optimizers):",
    "for opt in optimizers:", nth=3))

# %% wrong batch-left-out
put("if not (first_loss + second_loss).isfinite(): continue", before="scaler.scale(first_loss)")
put("if not (first_loss.isfinite() and second_loss < 1e9): continue", before="scaler.scale(fir")

# %% wrong one-loss-not-scaled
# One of the two losses isn't scaled, but the scaler divides its gradients. Scale both losses.
swap("scaler.scale(second_loss)", "second_loss")
swap("scaler.scale(first_loss)", "first_loss")
of("list_of_losses", swap("scaler.scale(losses)", "[scaler.scale(losses[0]), losses[1]]"))

# %% wrong guess-not-detached
# The second loss also goes back into the first model. Call `guess.detach()` for the second loss.
swap("guess.detach()", "guess")
(swap("guess.detach()", "guess") & swap("first_loss).backward()",
    "first_loss).backward(retain_graph=True)"))
of("list_of_losses", swap("fixed + models", "one + models"))

# %% wrong guess-forgotten
# The second loss doesn't contain the guess. Add the two: `guess.detach() + correction`.
swap("guess.detach() + second(z)", "second(z)")
of("list_of_losses", swap("fixed + ", ""))

# %% wrong second-never-zeroed
# You remove only the first optimizer's gradients. Call `zero_grad()` for both.
swap("for opt in optimizers:\n    opt.zero_grad()", "optimizers[0].zero_grad()")
of("first_steps_early", drop("two.zero_grad"))

# %% wrong never-zeroed
drop("for opt in", nth=1)
of("list_of_losses", drop("optimizer.zero_grad"))

# %% wrong second-step-past-the-scaler
# The second optimizer steps past the scaler, with scaled gradients. Call `scaler.step` for both.
swap("for opt in optimizers:\n    scaler.step(opt)",
    "scaler.step(optimizers[0])\noptimizers[1].step()")
of("first_steps_early", swap("scaler.step(two)", "two.step()"))

# %% wrong never-updated
move("scaler.update()", after="for x, z")
