# %% statement points=3 minutes=15
# # Why does the scale sink?
#
# The scale of a run falls and falls. Write `why_skipped(model, x, target, scale)`, which finds out
# what is wrong with a step.
#
# The step is this. It computes the mean squared error of `model(x)` and `target` under
# `torch.autocast("cpu", dtype=torch.float16)`. Then the loss times `scale` goes backward, and the
# new gradients are added to what is in `.grad`. Look for inf and NaN in the order in which things
# happen, and return the *first* answer that fits:
#
# | answer | an inf or NaN is in |
# |---|---|
# | `"old gradient"` | some `.grad`, before the step begins |
# | `"input"` | `x` or `target`, as they are given |
# | `"forward"` | the loss |
# | `"backward"` | the new gradients, even with a scale of 1 |
# | `"scale"` | the new gradients, but not with a scale of 1 |
# | `"no skip"` | none of these: the step is fine |

# %% answer
def why_skipped(model, x, target, scale):
    """The cause of a skipped step: one of the six strings above."""

    ### BEGIN SOLUTION
    def finite(tensors):
        return all(t.isfinite().all() for t in tensors)

    parameters = list(model.parameters())
    if not finite(p.grad for p in parameters if p.grad is not None):
        return "old gradient"
    if not finite([x, target]):
        return "input"
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x), target)
    if not finite([loss]):
        return "forward"
    scaled = torch.autograd.grad(loss * scale, parameters, retain_graph=True)
    if finite(scaled):
        return "no skip"
    plain = torch.autograd.grad(loss, parameters)
    return "scale" if finite(plain) else "backward"
    ### END SOLUTION

# %% hints
# - Go through the step in the order of the table, and stop at the first thing that is not finite.
# - If only the gradients are bad, run the backward pass again with a scale of 1.
# - `torch.autograd.grad(loss * scale, parameters, retain_graph=True)` leaves `.grad` alone.

# %% probe
from amp_lessons.exercises.grad_scaler.harness_network import play_why, why_cases

probe = Probe(why_cases, play=play_why)

# %% judge
judge = Judge(asked_for="one of the six strings of the table")

# %% passed
# A lower scale fixes one of these five causes. Where it falls and falls, look for the other four.

# %% right run_twice
def why_skipped(model, x, target, scale):
    def run(factor):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = nn.functional.mse_loss(model(x), target)
        (loss * factor).backward()
        return loss.isfinite(), all(p.grad.isfinite().all() for p in model.parameters())

    old = [p.grad for p in model.parameters() if p.grad is not None]
    if old and not sum(g.sum() for g in old).isfinite():
        return "old gradient"
    if not (x.sum() + target.sum()).isfinite():
        return "input"
    loss_is_good, good = run(scale)
    if not loss_is_good:
        return "forward"
    if good:
        return "no skip"
    return "scale" if run(1.0)[1] else "backward"

# %% rule not-in-the-table
# You returned "{got}", which is none of the six answers in the table.
def breaks(seen, right):
    got = seen.get("value")
    known = {"no skip", "old gradient", "input", "forward", "scale", "backward"}
    return {"got": got} if isinstance(got, str) and got not in known else None
swap('return "old gradient"', 'return "gradient"')

# %% wrong always-the-scale
# You blame the scale for every bad gradient. Look at the old gradients, the batch and the loss too.
(drop("if not finite(p.grad") & drop("if not finite([x") & drop("if not finite([loss") &
    (swap("if finite(plain)", "if True")))
of("run_twice", drop("if old") & drop("if not (x") & drop("if not loss") & swap("run(1.0)[1]", "1"))
of("run_twice", swap("old gradient", "scale") & drop("if not (x") & drop("if not loss") &
    swap("run(1.0)[1]", "1"))

# %% wrong loss-only
# You look at the loss only, an FP32 number. The gradients behind it are FP16: look at these too.
swap("if finite(scaled):", "if finite([loss * scale]):")
of("run_twice", swap("if good:", "if loss_is_good:"))

# %% wrong scale-of-1-in-float32
# Your pass with a scale of 1 is in FP32. In FP16 it can overflow at 1 too. Run both under autocast.
swap("grad(loss, parameters)", "grad(nn.functional.mse_loss(model(x), target), parameters)")
of("run_twice", swap("run(1.0)[1]", "all(g.isfinite().all() for g in torch.autograd.grad("
    "nn.functional.mse_loss(model(x), target), model.parameters()))"))

# %% wrong scale-guessed
# You judge by the size of the scale. Run the backward pass with a scale of 1, and look.
swap("if finite(plain)", "if scale > 65504")
of("run_twice", swap("run(1.0)[1]", "scale >= 2**16"))

# %% wrong first-inf-still-there
# You answer "backward" where a scale of 1 is fine. Is the inf of the first pass still in `.grad`?
swap("torch.autograd.grad(loss, parameters)", "scaled")
of("run_twice", swap('return "scale" if run(1.0)[1] else "backward"', 'return "backward"'))

# %% wrong old-gradient-overlooked
# You don't look at `.grad` before the step. Look at all old gradients first.
drop("if not finite(p.grad")
of("run_twice", drop("if old"))
(drop("if not finite(p.grad") &
    put("old = tuple(p.grad for p in parameters if p.grad is not None)", after="parameters =") &
    swap("finite(scaled)", "finite(scaled + old)") & swap("finite(plain)", "finite(plain + old)"))

# %% wrong batch-before-old-gradient
# You look at the batch before the old gradients. An old inf was there first: the order counts.
move("if not finite([x", before="if not finite(p.grad")
of("run_twice", move("if not (x.sum", before="old ="))

# %% wrong any-old-gradient
# You return "old gradient" as soon as there is one. Look for inf and NaN in it.
swap("not finite(p.grad for p", "any(True for p")
of("run_twice", swap("if old and not sum(g.sum() for g in old).isfinite()", "if old"))

# %% wrong input-overlooked
# You don't look at the batch. Look at `x` and `target` before the forward pass.
drop("if not finite([x")
of("run_twice", drop("if not (x.sum"))

# %% wrong half-of-the-batch
# You look at `x` only, or at `target` only. An inf or a NaN in either is a bad input.
swap("[x, target]", "[x]")
of("run_twice", swap("(x.sum() + target.sum())", "x.sum()"))
swap("[x, target]", "[target]")

# %% wrong loss-before-batch
# You look at the loss before the batch. A NaN in `x` or `target` makes the loss NaN too.
move("if not finite([x", after="if not finite([loss")
of("run_twice", move("if not (x.sum", after="if not loss_is_good"))

# %% wrong batch-rounded
# You round the batch to FP16 before you look. A finite number beyond 65504 is a good input.
swap("[x, target]", "[x.half(), target.half()]")
of("run_twice", swap("(x.sum() + target.sum()).isfinite()",
    "(x.half().isfinite().all() and target.half().isfinite().all())"))
of("run_twice", swap("(x.sum()", "(x.half().sum()"))
of("run_twice", swap("target.sum()", "target.half().sum()"))

# %% wrong forward-overlooked
# You don't look at the loss, and blame the backward pass for what the forward pass did.
drop("if not finite([loss")
of("run_twice", drop("if not loss_is_good"))

# %% wrong output-asked
# You look at the output of the model. Its squared error can overflow all the same: ask the loss.
swap("mse_loss(m", "mse_loss(out := m") & swap("finite([loss])", "finite([out])")
of("run_twice", swap("mse_loss(m", "mse_loss(out := m") & swap("loss.isf", "out.sum().isf"))

# %% wrong backward-overlooked
# You blame the scale for every bad gradient of a finite loss. Try a backward pass with 1 too: the
# gradient of a square root at 0 is infinite with any scale.
swap('"scale" if finite(plain) else "backward"', '"scale"')
of("run_twice", swap("run(1.0)[1]", "loss_is_good"))

# %% wrong answers-mixed-up
# You mix up two of the answers. "forward" means that the loss is not finite. "backward" means that
# the gradients aren't finite with a scale of 1, and "scale" means that they are.
swap("if finite(plain)", "if not finite(plain)")
of("run_twice", swap("if run(1.0)[1]", "if not run(1.0)[1]"))

# %% wrong nan-only
swap("t.isfinite().all()", "not t.isnan().any()")
swap("t.isfinite().all()", "(t == t).all()")

# %% wrong inf-only
swap("t.isfinite().all()", "not t.isinf().any()")
swap("t.isfinite().all()", "(t.abs() != torch.inf).all()")

# %% wrong unscaled-backward
# You run the backward pass without the scale, so you never see the overflow that the scale causes.
swap("loss * scale", "loss")
of("run_twice", swap("run(scale)", "run(1.0)"))
