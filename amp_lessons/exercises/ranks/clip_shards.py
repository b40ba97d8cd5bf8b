# %% statement points=3 minutes=15
# # Clip by the norm of all ranks
#
# Write `clip_shards(shards, copies, max_norm, all_reduce)`. Each rank calls it before the
# optimizer's step. It clips the gradients of a sharded model by their norm, and returns the norm
# that they had before.
#
# - `shards` is the list of gradients that only this rank holds. The ranks have shards of different
#   shapes. A rank may have an empty list, or tensors without elements.
# - `copies` is the list of gradients that every rank holds whole, such as those of small norm
#   layers. They are equal on all ranks, and count once. The list may be empty.
# - The norm is the root of the sum of the squares of all gradients of the model. Every rank must
#   return the same one, as a float or as a tensor with one element.
# - If the norm is larger than `max_norm`, multiply all gradients of this rank by `max_norm / norm`,
#   in place, those of both lists. If it is inf or NaN, leave them: the step will be skipped.
#
# All gradients are float32. Finite ones may be as large as 1e30, and all of them may be 0.
#
# `all_reduce(tensor, op=dist.ReduceOp.SUM)` does what `torch.distributed.all_reduce` does. It
# replaces the tensor, in place, by the sum over all ranks, or by `dist.ReduceOp.MAX` and so on.
# Every rank must call it equally often, with tensors of the same shape and dtype.

# %% answer
def clip_shards(shards, copies, max_norm, all_reduce):
    """Clip this rank's gradients in place by the norm of the whole model; the norm before."""
    ### BEGIN SOLUTION
    squares = torch.zeros((), dtype=torch.float64)
    for gradient in shards:
        squares += gradient.double().square().sum()
    all_reduce(squares)
    for gradient in copies:
        squares += gradient.double().square().sum()
    norm = squares.sqrt().item()
    if max_norm < norm < float("inf"):
        for gradient in [*shards, *copies]:
            gradient *= max_norm / norm
    return norm
    ### END SOLUTION

# %% hints
# - The norm of (3, 4) is 5. Two ranks that hold 3 and 4 can't get 5 by adding up their own norms.
#   What must they add up?
# - Which squares must not be added up over the ranks?
# - (1e30)² is 1e60. Which dtype holds that? Or divide by the largest gradient of all ranks first.

# %% probe
from amp_lessons.exercises.ranks.harness_norm import norm_cases, play_norms

probe = Probe(norm_cases, play=play_norms)

# %% judge
judge = Judge(same=within(1e-4), asked_for="a number")

# %% passed
# The ranks exchanged one number, the sum of their squares, and all clipped by the same factor.

# %% right by_the_largest
def clip_shards(shards, copies, max_norm, all_reduce):
    everything = shards + copies
    largest = torch.zeros(1)
    for g in everything:
        if g.numel():
            largest = torch.maximum(largest, g.abs().max())
    all_reduce(largest, op=dist.ReduceOp.MAX)
    squares = torch.zeros(1)
    if largest > 0:
        for g in shards:
            squares += (g / largest).square().sum()
    all_reduce(squares)
    if largest > 0:
        squares += sum((g / largest).square().sum() for g in copies)
    norm = largest * squares.sqrt()
    if norm.isfinite() and norm > max_norm:
        for g in everything:
            g.div_(norm / max_norm)
    return norm

# %% right copies_shared_out
def clip_shards(shards, copies, max_norm, all_reduce):
    count = torch.ones(())
    all_reduce(count)
    total = torch.stack([(t.double() ** 2).sum() for t in [torch.zeros(1), *shards]]).sum()
    total = total + sum((t.double() ** 2).sum() for t in copies) / count.double()
    all_reduce(total, dist.ReduceOp.SUM)
    norm = total ** 0.5
    factor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    if torch.isfinite(norm):
        for t in shards + copies:
            t.mul_(factor.float())
    return float(norm)

# %% right norms_of_norms
def clip_shards(shards, copies, max_norm, all_reduce):
    def norm_of(tensors):
        parts = [torch.linalg.vector_norm(t, dtype=torch.float64) for t in tensors]
        return torch.stack(parts).norm() if parts else torch.tensor(0.0, dtype=torch.float64)

    square = norm_of(shards).pow(2).reshape(1)
    all_reduce(square)
    norm = torch.hypot(square.sqrt()[0], norm_of(copies))
    if not norm.isfinite() or norm <= max_norm:
        return norm
    for tensor in (*shards, *copies):
        tensor.copy_(tensor * (max_norm / norm))
    return norm

# %% rule result-of-all-reduce
# `all_reduce` returns None. It changes the tensor that you give it, so use that one afterwards.
def breaks(seen, right):
    return "NoneType" in str(seen.get("error", {}).get("message"))
swap("all_reduce(squares)", "squares = all_reduce(squares)")
swap("all_reduce(squares)", "squares = all_reduce(squares, op=dist.ReduceOp.SUM).double()")

# %% rule gradients-added-up
# You called `all_reduce` on the gradients. Shards are different parts of the model, and copies are
# equal already: neither must be added up. Reduce one number, the sum of this rank's squares.
def breaks(seen, right):
    return noted(seen, "all_reduce was given") == "gradients"
put("all_reduce(gradient)", before="squares +=", nth=2)
put("for g in shards: all_reduce(g)", before="squares = ")

# %% rule unequal-calls
# Not every rank makes the same calls of `all_reduce`. A collective waits for all ranks, so a real
# run hangs there until its timeout. Call it once on every rank, whatever the rank holds.
def breaks(seen, right):
    between = noted(seen, "between the ranks") or ""
    return "waits" in between or "operations" in between
wrap("if shards:", "all_reduce")
wrap("if squares.isfinite():", "all_reduce")
put("if not shards: return 0.0", before="squares = ")
put("if not all(g.isfinite().all() for g in shards): return math.inf", before="squares = ")
swap("all_reduce(squares)", "") & put("all_reduce(squares)", after="squares +=", nth=1)

# %% rule unequal-shapes
# The ranks call `all_reduce` with tensors of different shapes or dtypes. Let each rank reduce one
# number of the same dtype for all its gradients, also where its list is empty.
def breaks(seen, right):
    return "shapes" in (noted(seen, "between the ranks") or "")
swap("all_reduce(squares)", "parts = torch.stack([g.norm() for g in shards]) if shards else"
    " torch.zeros(0)\n    all_reduce(parts)")
(swap("squares = torch.zeros((), dtype=torch.float64)", "squares = torch.tensor(0)") &
    swap("squares += gradient", "squares = squares + gradient", 0))

# %% rule zero-norm
# You divide by a norm of 0. Multiply the gradients only if the norm is larger than `max_norm`.
def breaks(seen, right):
    return seen.get("error", {}).get("type") == "ZeroDivisionError"
(swap("if max_norm < norm < float(\"inf\")", "if math.isfinite(norm)") &
    swap("max_norm / norm\n", "min(1.0, max_norm / norm)\n"))

# %% wrong local-norm
# Each rank clips by its own norm, so the ranks multiply by different factors. Let `all_reduce` add
# up the squares of all ranks first.
drop("all_reduce")
of("norms_of_norms", drop("all_reduce"))
of("by_the_largest", drop("all_reduce(largest") & drop("all_reduce(squares"))

# %% wrong norms-added-up
# You add up the norms of the ranks. The norm of (3, 4) is 5, not 3 + 4. Add up the squares, and
# take the root afterwards.
(swap("all_reduce(squares)", "squares = squares.sqrt(); all_reduce(squares); squares = squares**2"))
of("norms_of_norms", swap("norm_of(shards).pow(2)", "norm_of(shards)") &
    swap("square.sqrt()[0]", "square[0]"))

# %% wrong copies-added-as-norms
# You add the norm of the copies to the norm of the shards. Add their squares, then take the root.
of("norms_of_norms", swap("torch.hypot(square.sqrt()[0], norm_of(copies))",
    "square.sqrt()[0] + norm_of(copies)"))
(drop("for gradient in copies") & swap("squares.sqrt().item()", "squares.sqrt().item() + float("
    "torch.tensor([float(g.double().square().sum()) for g in copies]).double().sum().sqrt())"))
move("norm = ", before="for gradient in copies") & swap("squares += gradient.double().square()."
    "sum()", "norm += gradient.double().norm().item()", nth=2)

# %% wrong norms-of-tensors-added
# You add up the norms of the tensors. The norm of (3, 4) is 5, not 3 + 4. Add up squares, and take
# the root at the end.
swap("gradient.double().square().sum()", "gradient.double().norm()", 0) & swap(".sqrt()", "")
of("copies_shared_out", swap("(t.double() ** 2).sum()", "t.double().norm()", 0) &
    swap("total ** 0.5", "total"))

# %% wrong largest-norm
# You take the largest norm of a rank. The norm of the model is the root of the sum of all squares.
swap("all_reduce(squares)", "all_reduce(squares, op=dist.ReduceOp.MAX)")
of("norms_of_norms", swap("all_reduce(square)", "all_reduce(square, dist.ReduceOp.MAX)"))

# %% wrong squares-averaged
# You take the mean of the ranks' squares. Shards are different parts of one model: add up theirs,
# and only those.
swap("all_reduce(squares)", "all_reduce(squares, op=dist.ReduceOp.AVG)")
of("copies_shared_out", swap("all_reduce(total, dist.ReduceOp.SUM)", "all_reduce(total)\n"
    "    copied = sum((t.double() ** 2).sum() for t in copies)\n"
    "    total = (total - copied) / count + copied"))
(move("all_reduce(squares)", before="norm = ") &
    swap("all_reduce(squares)", "all_reduce(squares, op=dist.ReduceOp.AVG)"))

# %% wrong copies-of-each-rank
# You count the copies once for each rank. They are the same gradients: add their squares once,
# after the exchange.
move("all_reduce(squares)", before="norm = ")
of("copies_shared_out", swap(" / count.double()", ""))

# %% wrong copies-not-counted
# The copies are missing in your norm. Add their squares once, after the exchange.
drop("for gradient in copies")
of("norms_of_norms", swap("torch.hypot(square.sqrt()[0], norm_of(copies))", "square.sqrt()[0]"))

# %% wrong copies-not-clipped
# You clip only the shards. All gradients get the same factor, the copies too.
swap("[*shards, *copies]", "shards")
of("norms_of_norms", swap("(*shards, *copies)", "shards"))

# %% wrong squares-overflow
# You return inf for gradients that are finite: the square of 1e30 doesn't fit in FP32. Square in
# float64, or divide by the largest gradient first.
swap("dtype=torch.float64", "dtype=torch.float32") & swap("gradient.double()", "gradient", 0)
of("norms_of_norms", swap(", dtype=torch.float64", "", 0))

# %% wrong always-scaled
# You multiply also where the norm is below `max_norm`, and make those gradients larger. Leave them.
swap("max_norm < norm", "0 < norm")
of("norms_of_norms", swap("norm <= max_norm", "norm == 0"))

# %% wrong clipped-by-inf
# You clip by a norm that is inf or NaN, and then nothing is left but 0 and NaN. Leave the
# gradients as they are: the scaler has found the inf before, and skips the step.
swap("max_norm < norm < float(\"inf\")", "norm > max_norm")
of("copies_shared_out", swap("torch.isfinite(norm)", "not norm.isnan()"))
swap("max_norm < norm < float(\"inf\")", "not norm <= max_norm")
of("norms_of_norms", swap("not norm.isfinite() or ", ""))
of("copies_shared_out", unwrap("if torch"))

# %% wrong own-inf-only
# You look for an inf in this rank's gradients alone. So where another rank has one, you clip by it.
# Look at the norm, which is the same on all ranks.
swap("all_reduce(squares)", "fine = squares.isfinite(); all_reduce(squares)") & swap(
    "max_norm < norm < float(\"inf\")", "fine and norm > max_norm")
of("norms_of_norms", swap("not norm.isfinite()", "not norm_of(shards).isfinite()"))
of("norms_of_norms", swap("not norm.isfinite() or norm <= max_norm",
    "not (norm_of(shards).isfinite() and norm > max_norm)"))

# %% wrong inf-replaced
# You replace inf and NaN by numbers, or leave them out of the norm. So nobody learns of the
# overflow, and the step is made. Leave them in, and return the norm that comes out.
put("gradient.nan_to_num_(0.0, 0.0, 0.0)", before="squares +=", nth=1)
swap("gradient.double().square().sum()", "gradient[gradient.isfinite()].double().square().sum()", 0)
of("norms_of_norms", put("for t in shards: t.copy_(torch.where(t.isfinite(), t, 0.0))",
    before="square = "))
of("norms_of_norms", swap("vector_norm(t,", "vector_norm(t[t.abs() < math.inf],"))

# %% wrong own-norm-returned
# You clip by the norm of the model, and return that of this rank alone. Return the same on all.
(swap("all_reduce(squares)", "own = squares.sqrt(); all_reduce(squares)") &
    swap("return norm", "return own"))
of("norms_of_norms", put("own = square.sqrt()", before="all_reduce") & swap("return norm\n",
    "return own\n", 0))
of("norms_of_norms", put("own = norm_of([*shards, *copies])", before="square = ") &
    swap("return norm\n", "return own\n", 0))
(swap("all_reduce(squares)", "own = squares.clone(); all_reduce(squares)") & swap("return norm",
    "return (own + sum(g.double().square().sum() for g in before)).sqrt()") &
    put("before = [g.clone() for g in copies]", before="squares = "))

# %% wrong each-tensor-alone
# You clip each tensor by its own norm, which turns the step into another direction. Use one factor
# for all gradients.
swap("max_norm / norm\n", "min(1, max_norm / gradient.norm())\n")
of("norms_of_norms", swap("tensor.copy_(tensor * (max_norm / norm))",
    "tensor.mul_((max_norm / tensor.norm()).clamp(max=1))"))

# %% wrong root-forgotten
# You return the sum of the squares, and clip by it. Take its root first.
swap("squares.sqrt().item()", "squares.item()")
of("copies_shared_out", swap("total ** 0.5", "total"))

# %% wrong norm-after-clipping
# You return the norm that the gradients have after clipping. Return the one before: it tells the
# caller whether the step is fine.
swap("return norm", "return min(norm, max_norm)")
of("copies_shared_out", swap("return float(norm)", "return float(norm * factor)"))
of("norms_of_norms", swap("return norm", "return max_norm", 2))

# %% wrong not-in-place
# Your gradients aren't clipped: `g = g * factor` makes a new tensor. Use `*=` or `mul_`.
swap("gradient *= max_norm / norm", "gradient = gradient * max_norm / norm")
of("copies_shared_out", swap("t.mul_", "t.mul"))

# %% wrong clamped
# You cut each element off at `max_norm`. Clipping by the norm multiplies all by one factor.
swap("gradient *= max_norm / norm", "gradient.clamp_(-max_norm, max_norm)")
of("norms_of_norms", swap("tensor.copy_(tensor * (max_norm / norm))",
    "tensor.copy_(tensor.clip(-max_norm, max_norm))"))

# %% rule returned-none
def breaks(seen, right):
    return "NoneType" in (noted(seen, "norms, rank by rank") or [])
drop("return norm")
