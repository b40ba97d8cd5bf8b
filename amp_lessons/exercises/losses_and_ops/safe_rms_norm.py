# %% statement points=2 minutes=10
# # An RMS norm that holds
#
# Write `safe_rms_norm(x, weight, eps)`: $x / \sqrt{\mathrm{mean}(x^2) + \mathrm{eps}}$ over the
# last dimension, times the weight.
#
# `x` has the shape (rows, width) and is float16, bfloat16 or float32, with entries between −60,000
# and 60,000. `weight` has the shape (width,) and is float32. `eps` is a positive number. Return a
# tensor with the dtype and the shape of `x`, with each entry right to within four ulp.

# %% answer
def safe_rms_norm(x, weight, eps):
    """The RMS norm of each row of x, in the dtype of x."""
    ### BEGIN SOLUTION
    wide = x.float()
    mean_square = wide.square().mean(-1, keepdim=True)
    normed = wide * torch.rsqrt(mean_square + eps)
    return (normed * weight).to(x.dtype)
    ### END SOLUTION

# %% hints
# - Put in an entry of 300, in FP16. Which intermediate value is the first that doesn't fit?
# - Compute everything in float32, and cast only the result to the dtype of `x`.
# - Square, take the mean of each row, add eps, take the inverse root. `F.rms_norm` also does it, if
#   you pass it the eps.

# %% probe
from amp_lessons.exercises.losses_and_ops.stage import rms_norm_cases

probe = Probe(rms_norm_cases)

# %% judge
judge = Judge(same=within_ulps(4), asked_for="a tensor with the dtype and shape of x")

# %% passed
# Your norm now does what the norms of torch do: it reads 16 bits, computes in float32 and writes 16
# bits.

# %% right torchs_own
def safe_rms_norm(x, weight, eps):
    return F.rms_norm(x.float(), weight.shape, weight, eps).to(x.dtype)

# %% right torchs_own_as_given
def safe_rms_norm(x, weight, eps):
    return F.rms_norm(x, (x.shape[-1],), weight.to(x.dtype), eps)

# %% right by_the_root
def safe_rms_norm(x, weight, eps):
    w = x.double()
    squares = (w**2).sum(dim=-1, keepdim=True) / x.shape[-1]
    root = torch.sqrt(squares + eps)
    return (w / root).to(x.dtype) * weight.to(x.dtype)

# %% right plain_python
def safe_rms_norm(x, weight, eps):
    import math

    rows = []
    for row in x.tolist():
        root = math.sqrt(math.fsum(v * v for v in row) / len(row) + eps)
        rows.append([v / root * factor for v, factor in zip(row, weight.tolist(), strict=True)])
    return torch.tensor(rows, dtype=x.dtype)

# %% rule squares-in-16-bits
# A large row comes back as zeros: you squared it in FP16. From 256 on a square is inf there, and
# dividing by inf gives 0 without a warning. Cast `x` to float32 before you square it, and cast back
# at the end.
def breaks(seen, right):
    got, wanted = seen.get("value"), right["value"]
    if not is_tensor(got) or [got["dtype"], got["shape"]] != ["float16", wanted["shape"]]:
        return False
    rows = list(zip(got["values"], wanted["values"], strict=True))
    lost = any(any(one) and not any(row) for row, one in rows)
    fine = any(
        any(o) and all(abs(a - b) < 0.02 for a, b in zip(r, o, strict=True)) for r, o in rows
    )
    return lost and fine
swap("x.float()", "x")
swap("wide.square().mean(-1, keepdim=True)", "(x * x).mean(-1, keepdim=True).float()")
swap("wide.square().mean(-1", "x.square().mean(-1, dtype=torch.float32")

# %% wrong scale-in-16-bits
# You rounded the inverse root to 16 bits before you multiplied by it. For zeros or tiny entries and
# a small eps it is beyond 65504, so FP16 makes it inf. Then 0 times inf is NaN. Round only the
# result.
(swap("torch.rsqrt(mean_square + eps)", "torch.rsqrt(mean_square + eps).to(x.dtype)") &
    swap("(normed * weight).to(x.dtype)", "normed.to(x.dtype) * weight.to(x.dtype)"))
swap("wide * torch.rsqrt(mean_square + eps)", "x * (mean_square + eps).rsqrt().type_as(x)")
of("by_the_root", swap("w / root", "x * (1 / root).to(x.dtype)"))

# %% wrong mean-subtracted
# You subtracted the mean. That is layer norm. The root mean square is taken of `x` as it is.
put("wide = wide - wide.mean(-1, keepdim=True)", after="wide = ")
of("torchs_own", swap("x.float()", "(x.float() - x.float().mean(-1, keepdim=True))"))
of("torchs_own", swap("F.rms_norm", "F.layer_norm") & swap("weight, eps", "weight, None, eps", 2))

# %% wrong variance-for-mean-square
# You divide by the standard deviation, so the mean is left out of the root. The root mean square is
# taken of the values as they are, with their mean.
swap("wide.square().mean(-1, keepdim=True)", "wide.var(-1, keepdim=True, unbiased=False)")
of("by_the_root", swap("(w**2).sum(", "((w - w.mean(-1, keepdim=True)) ** 2).sum("))

# %% wrong eps-outside-the-root
# Your eps stands outside the root. Inside the root it is added to the mean *square*, and that makes
# a difference wherever eps matters.
swap("torch.rsqrt(mean_square + eps)", "(1 / (mean_square.sqrt() + eps))")
of("by_the_root", swap("torch.sqrt(squares + eps)", "torch.sqrt(squares) + eps"))

# %% wrong eps-forgotten
# Your norm leaves eps out. A row of zeros gives NaN, and small rows come out too large. Add eps to
# the mean square, under the root.
swap("mean_square + eps", "mean_square")
of("by_the_root", swap("squares + eps", "squares"))

# %% wrong eps-rounded
# You cast eps to the dtype of `x`, and an eps of 1e-8 is 0 in FP16. Add it in float32.
swap("mean_square + eps", "mean_square + torch.tensor(eps, dtype=x.dtype)")
of("by_the_root", swap("squares + eps", "squares + x.new_tensor(eps)"))

# %% wrong eps-of-your-own
# Your norm uses an eps of its own and not the argument. If you call `F.rms_norm` without an eps, it
# takes that of the dtype, 1.2e-7 for float32. Use the eps that is passed.
of("torchs_own", swap("shape, weight, eps", "shape, weight"))
swap("mean_square + eps", "mean_square + torch.finfo(torch.float32).eps")
swap("mean_square + eps", "mean_square + 1e-5")
swap("mean_square + eps", "mean_square + 1e-8")
of("by_the_root", swap("squares + eps", "squares + 1e-6"))

# %% wrong weight-forgotten
# The weight is missing. Multiply the normed values by it.
swap("normed * weight", "normed")
of("torchs_own", swap("shape, weight, eps", "shape, eps=eps"))

# %% wrong weight-plus-one
# You multiplied by 1 + weight. Some models, such as Gemma, store their weights that way. Here the
# weight itself is the factor.
swap("normed * weight", "normed * (1 + weight)")
of("torchs_own", swap("shape, weight, eps", "shape, weight + 1, eps"))

# %% wrong sum-for-mean
# You took the sum of the squares. The *mean* square doesn't grow with the width of a row.
swap(".mean(", ".sum(")
of("by_the_root", swap(" / x.shape[-1]", ""))

# %% wrong one-mean-for-all
# You took one mean over all rows. Each row has its own: use `dim=-1` and `keepdim=True`.
swap("mean(-1, keepdim=True)", "mean()")
of("by_the_root", swap("sum(dim=-1, keepdim=True) / x.shape[-1]", "mean()"))

# %% wrong root-forgotten
# You divided by the mean square plus eps, without the root. Take the square root of the sum first.
swap("torch.rsqrt(mean_square + eps)", "(mean_square + eps).reciprocal()")
of("by_the_root", swap("torch.sqrt(squares + eps)", "squares + eps"))

# %% wrong wrong-type
swap(".to(x.dtype)", "")

# %% wrong changed-argument
(swap("normed = wide * torch", "normed = wide.mul_(torch") & swap("mean_square + eps)",
    "mean_square + eps))"))
