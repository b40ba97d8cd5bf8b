# %% statement points=2 minutes=10
# # A mask that fits the dtype
#
# Write `masked_softmax(scores, keep)`: the softmax of each row over the places that are kept.
#
# `scores` has the shape (rows, places) and is float16, bfloat16 or float32, at most a tenth of the
# dtype's largest number in magnitude. `keep` has the same shape and is True where a place counts.
#
# A place that isn't kept gets probability 0. Only in a row in which nothing is kept, every place
# gets the same probability, never NaN. (On a CPU, `scaled_dot_product_attention` with a mask of
# booleans returns zeros for such a row.) Return a tensor of the dtype and shape of `scores`.

# %% answer
def masked_softmax(scores, keep):
    """The softmax of each row over the places where keep is True."""
    ### BEGIN SOLUTION
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~keep, lowest), dim=-1)
    ### END SOLUTION

# %% hints
# - In `scores.masked_fill(~keep, value)`, which `value` has an `exp` of 0 next to any score?
# - It must fit the dtype, and be finite: think of a row in which nothing is kept.
# - `torch.finfo(scores.dtype).min` is the lowest finite number of a dtype.

# %% probe
from amp_lessons.exercises.how_numbers_break.harness import scores_with_masks

probe = Probe(scores_with_masks)

# %% judge
judge = Judge(same=within_ulps(8), asked_for="a tensor with the dtype and shape of the scores")

# %% passed
# A constant that is right in FP32 may not exist in 16 bits. Ask the dtype.

# %% right where_and_own_softmax
def masked_softmax(scores, keep):
    lowest = torch.full_like(scores, torch.finfo(scores.dtype).min)
    x = torch.where(keep, scores, lowest).float()
    e = torch.exp(x - x.max(-1, keepdim=True).values)
    return (e / e.sum(-1, keepdim=True)).to(scores.dtype)

# %% right nan_repaired
def masked_softmax(scores, keep):
    p = torch.softmax(scores.float().masked_fill(~keep, float("-inf")), dim=-1)
    return torch.where(p.isnan(), torch.full_like(p, 1 / p.shape[-1]), p).to(scores.dtype)

# %% rule wrong-dtype
# Your result is {got} for scores of {wanted}. Convert it at the end, with `.to(scores.dtype)`.
def breaks(seen, right):
    got, wanted = seen.get("value"), right["value"]["dtype"]
    wrong = is_tensor(got) and got["dtype"] != wanted
    return {"got": got["dtype"], "wanted": wanted} if wrong else None
of("where_and_own_softmax", swap("keepdim=True)).to(scores.dtype)", "keepdim=True))"))

# %% wrong fill-does-not-fit
# Your fill value is below -65504, and FP16 refuses it. Use `torch.finfo(scores.dtype).min`.
swap("torch.finfo(scores.dtype).min", "-1e9")
put("return torch.softmax(scores.masked_fill(keep == 0, -1e9), -1)", before="lowest")
of("where_and_own_softmax", put("scores = scores.masked_fill(~keep, -1e9)", before="lowest"))
swap("scores.dtype", "torch.float32")

# %% wrong fill-is-infinite
# In a row with nothing kept, -inf - (-inf) is NaN. Fill with the lowest finite number of the dtype.
swap("torch.finfo(scores.dtype).min", "float('-inf')")
of("nan_repaired", put("return p.to(scores.dtype)", after="p ="))

# %% wrong fill-from-another-dtype
# Your fill value is the same for every dtype. BF16 and FP32 can hold scores far below it, and then
# the masked places win. Ask the dtype for its lowest number: `torch.finfo(scores.dtype).min`.
swap("torch.finfo(scores.dtype).min", "-65504.0")
of("where_and_own_softmax", swap("torch.finfo(scores.dtype).min", "-6e4"))
swap("scores.dtype", "torch.float16")
of("nan_repaired", swap('float("-inf")', "-1e9"))

# %% wrong masked-by-zero
# Your masked scores are 0. But exp(0) is 1, so masked places get their share of the probability.
swap("torch.finfo(scores.dtype).min", "0.0")
swap("scores.masked_fill(~keep, lowest)", "scores * keep")

# %% wrong empty-row-zero
# In a row with nothing kept, your probabilities are all 0, so they don't sum to 1. With the lowest
# finite number as the fill value, such a row comes out uniform without any special treatment.
swap("dim=-1)", "dim=-1) * keep")
of("nan_repaired", swap("1 / p.shape[-1]", "0"))

# %% wrong empty-row-not-uniform
# In a row with nothing kept, you return the softmax of all scores. Each place should get the same.
put("keep = keep | ~keep.any(-1, keepdim=True)", before="lowest")
of("nan_repaired", swap("torch.full_like(p, 1 / p.shape[-1])", "torch.softmax(scores.float(), -1)"))

# %% wrong masked-afterwards
# You masked after the softmax, so what is left doesn't sum to 1. Mask the scores before it.
swap("torch.softmax(scores.masked_fill(~keep, lowest), dim=-1)", "torch.softmax(scores, -1) * keep")
of("where_and_own_softmax", swap("torch.where(keep, scores, lowest)", "scores")
   & swap("(e / e.sum(-1, keepdim=True))", "(keep * e / e.sum(-1, keepdim=True))"))

# %% wrong renormalised-afterwards
# You set the masked places to 0 after `exp`, and divided by the rest. If a masked score is much
# larger, the rest is 0 already, and 0/0 is NaN. Mask the scores before the softmax.
put("p = torch.softmax(scores, -1) * keep\nreturn p / p.sum(-1, keepdim=True)", before="lowest")
put("p = torch.softmax(scores.float(), -1) * keep\n"
    "return (p / p.sum(-1, keepdim=True)).to(scores.dtype)", before="lowest")
put("p = scores.softmax(-1).masked_fill(~keep, 0)\nreturn p / p.sum(-1, True)", before="lowest")
put("none = ~keep.any(-1, True)\np = scores.masked_fill(none, 0).float().softmax(-1)\n"
    "p = p * (keep | none)\nreturn (p / p.sum(-1, True)).to(scores.dtype)", before="lowest")

# %% wrong mask-added
# You added a large negative number to the masked scores. In a row with nothing kept, they still
# differ, or become -inf. Replace the scores instead, with `masked_fill` or `torch.where`.
swap("scores.masked_fill(~keep, lowest)", "scores + (~keep).to(scores.dtype) * lowest")
put("return torch.softmax(scores + (1 - keep.to(scores.dtype)) * lowest, -1)", after="lowest")
swap("scores.masked_fill(~keep, lowest), dim=-1)",
    "scores.float() + (~keep) * lowest, dim=-1).to(scores.dtype)")
swap("scores.masked_fill(~keep, lowest)", "scores + (~keep).to(scores.dtype) * -1e4")

# %% wrong mask-inverted
# You masked the places that should be kept: `keep` is True at the places that count.
swap("~keep", "keep")
of("where_and_own_softmax", swap("scores, lowest)", "lowest, scores)"))

# %% wrong mask-ignored
# You ignored the mask: your result is the softmax of all scores.
swap("scores.masked_fill(~keep, lowest)", "scores")
of("where_and_own_softmax", swap("torch.where(keep, scores, lowest)", "scores"))

# %% wrong wrong-dimension
# You took the softmax over the rows, down each column. Each row has its own softmax: use `dim=-1`.
swap("dim=-1", "dim=0")
of("where_and_own_softmax", swap("-1, keepdim", "0, keepdim", nth=0))

# %% wrong changed-argument
swap("masked_fill", "masked_fill_")
