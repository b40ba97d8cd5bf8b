# %% statement points=2 minutes=10
# # A log-softmax that cannot overflow
#
# Write `log_softmax(logits)`: the logarithm of the softmax of each row, for any finite logits.
#
# `logits` has the shape (rows, classes) and is float16, bfloat16 or float32. A row may have more
# than 100,000 classes, like the vocabulary of a language model. Return a tensor of the same dtype
# and shape, right to within two ulp; for numbers smaller than 1, to within two ulp of 1.
#
# You may compute in a wider dtype. Don't call torch's own `log_softmax` or `logsumexp`.

# %% answer
def log_softmax(logits):
    """log(softmax(logits)) over the last dimension, with no overflow and no log(0)."""
    ### BEGIN SOLUTION
    wide = logits.float()
    shifted = wide - wide.max(dim=-1, keepdim=True).values
    result = shifted - shifted.exp().sum(dim=-1, keepdim=True).log()
    return result.to(logits.dtype)
    ### END SOLUTION

# %% hints
# - The log-softmax of x is x - log(sum(exp(x))). Which of these steps can overflow?
# - Adding the same number to all logits of a row doesn't change its log-softmax.
# - Work with `x - m`, where `m = x.max(dim=-1, keepdim=True).values`. Then think about the sum: how
#   large does it get with 100,000 equal logits, and which dtype can hold that?

# %% probe
from amp_lessons.exercises.how_numbers_break.harness import rows_of_logits, use_log_softmax

probe = Probe(rows_of_logits, play=use_log_softmax, watch=True)

# %% judge
wanted = "a tensor with the dtype and shape of the logits"
judge = Judge(same=within_ulps(2, at_least=1.0), asked_for=wanted)

# %% passed
# After the shift, `exp` never sees more than 0 and the sum is at least 1, so neither `exp` nor
# `log` fails. The sum is in FP32, since FP16 overflows from 65,520 equal logits on.

# %% right sum_in_float32
def log_softmax(logits):
    moved = logits - logits.amax(-1, keepdim=True)
    total = moved.exp().sum(-1, keepdim=True, dtype=torch.float32)
    return moved - total.log().to(logits.dtype)

# %% right row_by_row
def log_softmax(logits):
    rows = []
    for row in logits.double():
        moved = row - row.max()
        rows.append(moved - torch.log(torch.exp(moved).sum()))
    return torch.stack(rows).to(logits.dtype)

# %% rule library-called
# You called torch's own `log_softmax` or `logsumexp`. In real code, do that with FP32 logits: given
# 70,000 equal FP16 logits, a CPU's gives -inf. Here, write it out once, to see what it does.
def breaks(seen, right):
    names = ("_log_softmax", "_sparse_log_softmax", "logsumexp", "logcumsumexp")
    library = [f"aten::{name}" for name in names]
    return any(op["op"] in library for op in seen.get("ops", ()))
put("return torch.nn.functional.log_softmax(logits, dim=-1)", before="wide")
put("return logits - logits.logsumexp(dim=-1, keepdim=True)", before="wide")

# %% rule floor-under-the-probabilities
# You added a small number to the probabilities, or raised them to a minimum, to avoid log(0). Now
# all rare classes get the same made-up value. Stay with logarithms all the way.
def breaks(seen, right):
    value = seen.get("value")
    if not is_tensor(value) or value["shape"] != right["value"]["shape"]:
        return False
    for row, true in zip(value["values"], right["value"]["values"], strict=True):
        pairs = [pair for pair in zip(row, true, strict=True) if math.isfinite(pair[0])]
        raised = {wanted for got, wanted in pairs if got == min(row) > wanted + 1}
        if len(raised) > 1 and min(row) < -5:
            return all(abs(got - wanted) < 0.1 for got, wanted in pairs if wanted > -5)
    return False
put("return (torch.softmax(logits, -1) + 1e-8).log()", before="wide")
put("return torch.softmax(wide, -1).clamp(min=1e-38).log().to(logits.dtype)", after="wide")

# %% rule wrong-dtype
# Your result is {got} for logits of {wanted}. Convert it at the end, with `.to(logits.dtype)`.
def breaks(seen, right):
    got, wanted = seen.get("value"), right["value"]["dtype"]
    wrong = is_tensor(got) and got["dtype"] != wanted
    return {"got": got["dtype"], "wanted": wanted} if wrong else None
swap(".to(logits.dtype)", "")

# %% wrong no-shift
# Without a shift, `exp` overflows for large logits: in FP16 exp(12) is inf. For very negative ones
# it gives 0, and log(0) is -inf. First subtract each row's largest logit; it changes no result.
swap("wide - wide.max(dim=-1, keepdim=True).values", "wide")
of("row_by_row", swap("row - row.max()", "row"))
swap("float()", "double()") & swap("wide - wide.max(dim=-1, keepdim=True).values", "wide")
of("sum_in_float32", swap("logits - logits.amax(-1, keepdim=True)", "logits"))
put("return logits - logits.exp().sum(-1, keepdim=True).log()", before="wide")

# %% wrong log-of-softmax
# You took the logarithm of the probabilities. In FP16, one below 2**-25 has already become 0, and
# log(0) is -inf. In wider formats that happens later. Stay with logarithms all the way.
put("return torch.softmax(logits, -1).log()", before="wide")
put("return torch.softmax(wide, -1).log().to(logits.dtype)", after="wide")
put("p = shifted.exp()\nreturn (p / p.sum(-1, True)).log().to(logits.dtype)", before="result")
put("return torch.softmax(logits.double(), -1).log().to(logits.dtype)", before="wide")

# %% wrong log-forgotten
# You returned the probabilities. Return `x - m - log(sum(exp(x - m)))`, and not the log of those.
put("return torch.softmax(wide, -1).to(logits.dtype)", after="wide")
of("sum_in_float32", put("return moved.exp() / total.to(logits.dtype)", after="total"))

# %% wrong shift-added-back
# You computed logsumexp as `m + log(sum)` and subtracted that. Beside a large `m`, the small
# logarithm loses its digits: in FP16, 500 + 0.13 is 500.25. Subtract `m` first, then the logarithm.
swap("shifted - shifted", "wide - (wide.amax(-1, True) + shifted") & swap(".log()", ".log())")
of("sum_in_float32", swap("moved - total.log().to(logits.dtype)",
   "logits - (logits.amax(-1, keepdim=True) + total.log()).to(logits.dtype)"))
put("m = wide.amax(-1, True)\ne = (wide - m).exp().sum(-1, True)\n"
    "return (wide - (m + e.log())).to(logits.dtype)", before="shifted")

# %% wrong one-shift-for-all
# You subtracted the largest logit of all rows. In a row far below it, every `exp` gives 0, and
# log(0) is -inf. Subtract each row's own largest logit.
swap(".max(dim=-1, keepdim=True).values", ".max()")
swap("wide.max(dim=-1, keepdim=True).values", "torch.amax(wide)")
of("row_by_row", swap("row.max()", "logits.max().double()"))

# %% wrong wrong-dimension
# Each row has its own softmax: take the sum over the last dimension, `dim=-1`, with `keepdim=True`.
swap("dim=-1", "dim=0", nth=0)
of("sum_in_float32", swap("-1,", "0,", nth=0))
swap("sum(dim=-1, keepdim=True)", "sum()")
swap("sum(dim=-1, keepdim=True)", "sum(dim=0, keepdim=True)")

# %% wrong shift-not-subtracted
# You shifted inside the logarithm only. Both terms need it: `(x - m) - log(sum(exp(x - m)))`.
swap("result = shifted", "result = wide")
of("sum_in_float32", swap("return moved", "return logits"))

# %% wrong sum-in-16-bits
# Your sum overflows in long rows. FP16 ends at 65504, and 70,000 equal logits add up to 70,000
# after the shift. Take the sum in float32, for example with `sum(..., dtype=torch.float32)`.
of("sum_in_float32", swap(", dtype=torch.float32", ""))
swap("logits.float()", "logits")
