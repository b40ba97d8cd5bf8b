# %% statement points=3 minutes=15
# # Ranks that agree
#
# Write `may_step(gradients, scale, all_reduce)`. Each rank calls it before the optimizer's step,
# with its own shards of the gradients.
#
# - `gradients` is a list of float32 tensors, still multiplied by `scale`, a float of at least 1.
#   The ranks have shards of different shapes. A rank may have an empty list, or tensors without
#   elements.
# - Divide all gradients by the scale, in place. Do it also where the step will be skipped, as
#   `scaler.unscale_()` does.
# - Return True if the optimizer may step, and False otherwise. It may step if *no* rank has an inf
#   or a NaN. Large finite numbers are fine. Every rank must return the same answer.
#
# `all_reduce(tensor, op=dist.ReduceOp.SUM)` does what `torch.distributed.all_reduce` does. It
# replaces the tensor, in place, by the sum over all ranks, or by `dist.ReduceOp.MAX`, `MIN` and so
# on. Every rank must call it equally often, with tensors of the same shape.

# %% answer
def may_step(gradients, scale, all_reduce):
    """Unscale this rank's gradients in place; True if they are finite on all ranks."""
    ### BEGIN SOLUTION
    found_inf = torch.zeros(())
    for gradient in gradients:
        gradient /= scale
        if not gradient.isfinite().all():
            found_inf.fill_(1.0)
    all_reduce(found_inf, op=dist.ReduceOp.MAX)
    return found_inf.item() == 0
    ### END SOLUTION

# %% hints
# - Each rank can say whether its own gradients are finite, as one number in a tensor. Which
#   reduction of these numbers gives the answer for all ranks?
# - Every rank has to call `all_reduce` equally often, even a rank with an empty list.

# %% probe
from amp_lessons.exercises.ranks.harness import play_ranks, rank_cases

probe = Probe(rank_cases, play=play_ranks)

# %% judge
judge = Judge(same=within(1e-6), asked_for="a bool")

# %% passed
# Each rank has its own shards, so you reduced the decision, as `ShardedGradScaler` does.

# %% right the_smallest_finite
def may_step(gradients, scale, all_reduce):
    finite = torch.ones(1, dtype=torch.int32)
    for g in gradients:
        g.mul_(1 / scale)
        finite *= int(torch.isfinite(g).all())
    all_reduce(finite, dist.ReduceOp.MIN)
    return finite == 1

# %% right sum_of_the_squares
def may_step(gradients, scale, all_reduce):
    total = torch.zeros((), dtype=torch.float64)
    for g in gradients:
        g.div_(scale)
        total += g.double().square().sum()
    all_reduce(total)
    return bool(total.isfinite())

# %% rule shards-added-up
# You called `all_reduce` on the gradients. They are shards: each rank holds another part. Reduce
# one number instead, which says whether this rank found an inf or a NaN.
def breaks(seen, right):
    return noted(seen, "all_reduce was given") == "gradients"
put("all_reduce(gradient)", after="gradient /= scale")
swap("all_reduce(found_inf, op=dist.ReduceOp.MAX)", "for g in gradients: all_reduce(g)")

# %% rule unequal-calls
# Not every rank makes the same calls of `all_reduce`. A collective waits for all ranks, so a real
# run hangs there until its timeout. Call it once on every rank, whatever the rank found.
def breaks(seen, right):
    between = noted(seen, "between the ranks") or ""
    return "waits" in between or "operations" in between
wrap("if found_inf:", "all_reduce")
put("if not gradients: return True", before="found_inf = ")
put("all_reduce(found_inf)", after="gradient /= scale")

# %% rule unequal-shapes
# The ranks call `all_reduce` with tensors of different shapes or dtypes. They don't have the same
# number of gradients. Let each rank reduce one number for all its gradients.
def breaks(seen, right):
    return "shapes" in (noted(seen, "between the ranks") or "")
swap("all_reduce(found_inf, op", "all_reduce(torch.zeros(len(gradients)), op")

# %% wrong local-decision
# Each rank decides for itself, so their models differ. Let `all_reduce` combine what they found.
drop("all_reduce")
of("the_smallest_finite", put("return bool(finite)", before="all_reduce") & drop("all_reduce"))

# %% wrong one-good-rank-is-enough
# You step as soon as one rank is fine, but all must be. Take the maximum of "found an inf".
swap("ReduceOp.MAX", "ReduceOp.MIN")
of("the_smallest_finite", swap("ReduceOp.MIN", "ReduceOp.MAX"))

# %% wrong count-compared-with-one
# You compare a sum over the ranks with 1, and it may be larger. Use `ReduceOp.MAX` or `MIN`.
swap(", op=dist.ReduceOp.MAX", "") & swap("found_inf.item() == 0", "found_inf.item() != 1")
of("the_smallest_finite", swap(", dist.ReduceOp.MIN", ""))
put("found_inf = 1 - found_inf", before="all_reduce") & swap("MAX)", "SUM)") & swap("== 0", "== 1")

# %% wrong nan-missed
# You look for inf only, and an overflow often arrives as NaN. Ask `torch.isfinite`.
swap("not gradient.isfinite().all()", "gradient.isinf().any()")
swap("not gradient.isfinite().all()", "float('inf') in gradient.abs()")

# %% wrong negative-inf-missed
# You miss -inf. A comparison without `abs()` lets it through. Ask `torch.isfinite`.
swap("gradient.isfinite()", "(gradient < float('inf'))")
swap("not gradient.isfinite().all()", "gradient.isnan().any() or (gradient == torch.inf).any()")

# %% wrong finite-refused
# You refuse gradients that are large but finite. What you compute from them overflows before they
# do, such as a sum, a norm, a cast to FP16. Ask `torch.isfinite` for each element.
swap("gradient.isfinite().all()", "gradient.half().isfinite().all()")
swap("gradient.isfinite().all()", "gradient.abs().sum().isfinite()")
of("sum_of_the_squares", swap(", dtype=torch.float64", "") & swap("double().square()", "abs()"))

# %% wrong not-unscaled
# Your gradients are still multiplied by the scale. Divide in place, with `/=` or `div_`.
swap("gradient /= scale", "gradient = gradient / scale")
of("the_smallest_finite", drop("g.mul_"))

# %% wrong multiplied
# You multiplied the gradients by the scale, as the backward pass had done already. Divide them.
swap("/= scale", "*= scale")
of("sum_of_the_squares", swap("div_", "mul_"))

# %% wrong unscaled-only-if-finite
# You skip the division, or stop it, at an inf or a NaN. Divide all gradients in every case.
drop("gradient /=") & put("for g in gradients if not found_inf else (): g /= scale", after="all_")
move("gradient /= scale", after="if not") & wrap("else:", "gradient /=")
put("break", after="found_inf.fill_")
of("the_smallest_finite", drop("g.mul_") & put("if finite: [g.mul_(1 / scale) for g in gradients]",
    after="all_reduce"))

# %% wrong only-the-last-counts
# You overwrite what you found with each gradient, so only the last one decides.
unwrap("if not") & swap("fill_(1.0)", "fill_(not gradient.isfinite().all())")
of("the_smallest_finite", swap("finite *=", "finite[0] ="))

# %% wrong inverted
# You return whether an inf was found. Return whether the optimizer may step, which is the opposite.
swap("== 0", "> 0")
of("the_smallest_finite", swap("== 1", "== 0"))

# %% rule returned-none
def breaks(seen, right):
    return "NoneType" in (noted(seen, "returned, rank by rank") or [])
swap("return found_inf.item() == 0", "found_inf.item() == 0")
