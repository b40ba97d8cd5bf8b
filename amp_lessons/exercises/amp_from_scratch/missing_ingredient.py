# %% statement points=3 minutes=20
# # What is missing?
#
# Write `missing_ingredient(run)`: find out by experiment what a training run lacks.
#
# `run` trains a small model in FP16 each time you call it. It always starts from the same weights:
# `run(steps=1, lr=2.0**-3, loss_factor=1.0, repeats=1)`. You may ask for 1 to 2000 steps.
# `loss_factor` multiplies the loss. `repeats`, 1 to 5000, says how often the same 8 examples stand
# in the batch. The call returns an outcome with four fields:
#
# - `loss`: the mean loss of the last step, without the factor
# - `gradient`: the gradient of the last step, float32, unscaled
# - `before`, `after`: the float16 weights for the first step, and for another step after the last
#
# A run that scales its loss does so by $2^{10}$. Return `"loss scaling"`, `"master weights"`,
# `"wide accumulation"` or `"nothing"`. No run lacks more than one. Some have an input that is
# always zero. With the default settings every run looks healthy, as you see here:

# %% demo
for missing, run in ex.practice_runs().items():
    outcome = run()
    print(f"lacks {missing:18}", end=" ")
    print("gradients not zero:", int(outcome.gradient.count_nonzero()), "of 6", end="   ")
    print("weights that moved:", int((outcome.before != outcome.after).sum()), "of 6")

# %% answer
def missing_ingredient(run):
    """Which ingredient of mixed precision a run lacks, or "nothing"."""
    ### BEGIN SOLUTION
    if (run(loss_factor=2.0**-32).gradient == 0).all():
        return "loss scaling"
    slow = run(lr=2.0**-16, steps=1000)
    if (slow.before == slow.after).all():
        return "master weights"
    if abs(run(repeats=2000).loss / run().loss - 1) > 0.1:
        return "wide accumulation"
    return "nothing"
    ### END SOLUTION

# %% hints
# - Do three experiments, one for each fault: a small `loss_factor`, a small learning rate with many
#   steps, and a large number of repeats. Try them on `ex.practice_runs()` first.
# - Look at `run(loss_factor=2**-32).gradient`, and at `before` and `after` of
#   `run(lr=2**-16, steps=1000)`. Compare `run(repeats=2000).loss` with `run().loss`.
# - Check whether *all* gradients are zero and *all* weights stay. One input may always be zero.

# %% probe
from amp_lessons.exercises.amp_from_scratch.harness import INGREDIENTS, examining, run_cases

probe = Probe(run_cases, play=examining)

# %% judge
def said(entry):
    """The answer in an entry, and how often it called `run`; None, None if it isn't text."""
    table = entry["value"]["dict"] if is_dict(entry.get("value")) else {}
    return table.get("answer"), table.get("calls")

def same(expected, seen):
    return is_dict(seen) and seen["dict"].get("answer") == expected["dict"]["answer"]

def tell(case, right, seen):
    answer = said(seen)[0] or describe(seen["value"])
    return f"{case.label} lacks {said(right)[0]}; your function says {answer}"

judge = Judge(same=same, tell=tell, asked_for=f"one of {', '.join(map(repr, INGREDIENTS))}")

# %% passed
# Zero gradients, weights that stay, sums that stop growing: each shows only when you provoke it.

# %% right other_experiments
def missing_ingredient(run):
    alive = run().gradient != 0
    if not (run(loss_factor=2.0**-30).gradient[alive] != 0).all():
        return "loss scaling"
    once, often = run(repeats=1), run(repeats=5000)
    if often.loss < 0.8 * once.loss:
        return "wide accumulation"
    long = run(lr=2.0**-15, steps=500)
    moved = (long.before != long.after)[alive]
    return "nothing" if moved.any() else "Master_weights"

# %% right all_at_once
def missing_ingredient(run):
    slow, big = run(lr=2.0**-17, steps=600), run(repeats=1500)
    return {
        (True, False, False): "loss scaling",
        (False, True, False): "master weights",
        (False, False, True): "wide accumulation",
        (False, False, False): "nothing",
    }[
        run(loss_factor=2.0**-33).gradient.count_nonzero().item() == 0,
        (slow.after - slow.before).abs().sum().item() == 0,
        abs(big.loss - run().loss) > 0.2,
    ]

# %% rule other-words
# Your function returned {answer!r}, and that is not one of the four answers. Return
# `"loss scaling"`, `"master weights"`, `"wide accumulation"` or `"nothing"`.
def breaks(seen, right):
    answer, _ = said(seen)
    return answer is not None and answer not in INGREDIENTS and {"answer": answer}
swap('"loss scaling"', '"loss scale"')

# %% rule no-experiment
# You gave an answer without an experiment: with the default settings every run looks healthy.
# Provoke each fault: with tiny gradients, tiny updates, a large batch.
def breaks(seen, right):
    answer, calls = said(seen)
    return answer is not None and calls == 0
put("return 'wide accumulation'", before="if (run(")
swap("loss_factor=2.0**-32", "") & swap("lr=2.0**-16, steps=1000", "") & swap("repeats=2000", "")

# %% rule stall-overlooked
# You miss a run without master weights. Choose a rate at which every update is lost beside its
# weight, such as `2**-16`, and many steps. If some weights move, all gradients change with them.
def breaks(seen, right):
    return (said(right)[0], said(seen)[0]) == ("master weights", "nothing")
swap("2.0**-16, steps=1000", "2.0**-6")

# %% rule rounding-taken-for-a-fault
# You say that wide accumulation is missing where it isn't. A sum in another order rounds
# differently, in any precision. Look for a difference of more than a tenth.
def breaks(seen, right):
    return said(seen)[0] == "wide accumulation" != said(right)[0]
swap("abs(run(repeats=2000).loss / run().loss - 1) > 0.1",
    "not torch.equal(run(repeats=2000).gradient, run().gradient)")

# %% wrong provoked-too-hard
# You say of every run that it lacks the loss scale, because your `loss_factor` provokes too hard.
# From `2**-37` down the gradients are lost in every run, and with a large one they overflow.
swap("2.0**-32", "2.0**-48")
put("if not run(loss_factor=0.0).gradient.any(): return 'loss scaling'", before="if (run(")

# %% wrong zeros-overlooked
# You miss runs without loss scaling. At a `loss_factor` of `2**-32` their gradients become zero.
swap("2.0**-32", "1e-3")
drop("if (run(")

# %% wrong sums-overlooked
# You miss runs without wide accumulation. Repeats should not change the mean loss: compare it with
# that of 1000 or more.
swap("repeats=2000", "repeats=10")
drop("if abs(run")
swap("abs(run(repeats=2000).loss / run().loss - 1) > 0.1",
    "not run(repeats=8).gradient.isfinite().all()")

# %% wrong copies-expected-to-move
# You say that masters are missing where they are not. `after` is the 16-bit copy, and it changes
# only when enough small updates have added up. Use hundreds of steps, at a rate not too small.
swap("steps=1000", "steps=1")
swap("2.0**-16, steps=1000", "2.0**-30, steps=9")
of("other_experiments", swap("2.0**-15, steps=500", "2.0**-16"))

# %% wrong weights-before-gradients
# You take a missing scale for missing masters. Gradients that are all zero mean a missing scale.
swap('return "loss scaling"', 'return "master weights"')
put("o = run(loss_factor=2.0**-32, lr=2.0**16, steps=200)\nif (o.before == o.after).all(): "
    "return 'master weights'", before="if (run(")

# %% wrong gradients-before-weights
# You take missing masters for a missing scale. Here it is the update that is lost.
swap('return "master weights"', 'return "loss scaling"')
put("o = run(lr=2.0**-16, steps=1000)\nif torch.equal(o.before, o.after): return 'loss scaling'",
    before="slow")

# %% wrong one-zero-is-enough
# One zero gradient is no underflow: its input may be zero. Check whether all gradients are zero.
swap("gradient == 0).all()", "gradient == 0).any()")
of("other_experiments", swap("[alive] != 0", " != 0"))

# %% wrong one-stall-is-enough
# One weight that stays doesn't show missing masters: its input may be zero. Check all weights.
swap("slow.after).all()", "slow.after).any()")
swap("slow.before == slow.after).all()", "slow.before != slow.after).sum() < 6")

# %% wrong wrong-type
put("return 2", before="if (run(")
