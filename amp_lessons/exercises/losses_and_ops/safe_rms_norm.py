# %% statement points=2 minutes=10
# # An RMS norm that holds
#
# Write `safe_rms_norm(x, weight, eps)`: $x / \sqrt{\mathrm{mean}(x^2) + \mathrm{eps}}$ over the
# last dimension, times the weight.
#
# `x` has the shape (rows, width) and is float16, bfloat16 or float32, with entries between −60,000
# and 60,000. `weight` has the shape (width,) and is float32, and `eps` is positive. Return a tensor
# with the dtype and the shape of `x`, each entry right to within four ulp.

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
# - Square, take each row's mean, add eps, take the inverse root. Or pass all to `F.rms_norm`.

# %% probe
from amp_lessons.exercises.losses_and_ops.harness import rms_norm_cases

probe = Probe(rms_norm_cases)

# %% judge
from amp_lessons.exercises.losses_and_ops.harness import lost

judge = Judge(same=within_ulps(4), asked_for="a tensor with the dtype and shape of x")

# %% passed
# Like the norms of torch, yours reads 16 bits, computes in float32 and writes 16 bits.

# %% right torchs_own
def safe_rms_norm(x, weight, eps):
    return F.rms_norm(x.float(), weight.shape, weight, eps).to(x.dtype)

# %% right by_the_root
def safe_rms_norm(x, weight, eps):
    w = x.double()
    squares = (w**2).sum(dim=-1, keepdim=True) / x.shape[-1]
    root = torch.sqrt(squares + eps)
    return (w / root).to(x.dtype) * weight.to(x.dtype)

# %% rule squares-in-16-bits
# A large row comes back as zeros: its squares, or their sum, were FP16. From 256 on a square is inf
# there, and dividing by inf gives 0. Cast `x` to float32 before you square it, and back at the end.
def breaks(seen, right):
    return lost(seen, right) > 1
swap("x.float()", "x")
swap("wide.square().mean(-1, keepdim=True)", "(x * x).mean(-1, keepdim=True).float()")

# %% rule mean-square-in-16-bits
# A large row comes back as zeros: you rounded its mean square, or its length, to FP16. Beyond 65504
# that gives inf, and dividing by inf gives 0. Keep it in float32, and round only the result.
def breaks(seen, right):
    return lost(seen, right)
swap("mean_square + eps", "mean_square.to(x.dtype).float() + eps")
of("by_the_root", put("squares = squares.type_as(x).float()", after="squares ="))

# %% wrong scale-in-16-bits
# You rounded the inverse root to 16 bits. For zeros or tiny entries and a small eps it is beyond
# 65504, so FP16 makes it inf, and 0 times inf is NaN. Round only the result.
swap("torch.rsqrt(mean_square + eps)", "torch.rsqrt(mean_square + eps).to(x.dtype)")
of("by_the_root", swap("w / root", "x * (1 / root).to(x.dtype)"))

# %% wrong mean-subtracted
# You subtracted the mean. That is layer norm. The root mean square is taken of `x` as it is.
put("wide = wide - wide.mean(-1, keepdim=True)", after="wide = ")
of("torchs_own", swap("x.float()", "(x.float() - x.float().mean(-1, keepdim=True))"))
of("torchs_own", swap("F.rms_norm", "F.layer_norm") & swap("weight, eps", "weight, None, eps", 2))

# %% wrong variance-for-mean-square
# You divide by the standard deviation. The root mean square is of the values with their mean.
swap("wide.square().mean(-1, keepdim=True)", "wide.var(-1, keepdim=True, unbiased=False)")
of("by_the_root", swap("(w**2).sum(", "((w - w.mean(-1, keepdim=True)) ** 2).sum("))

# %% wrong eps-outside-the-root
# Your eps stands outside the root. It belongs inside, where it is added to the mean *square*.
swap("torch.rsqrt(mean_square + eps)", "(1 / (mean_square.sqrt() + eps))")
of("by_the_root", swap("torch.sqrt(squares + eps)", "torch.sqrt(squares) + eps"))

# %% wrong eps-forgotten
# Your norm leaves eps out, so zeros give NaN. Add it to the mean square, under the root.
swap("mean_square + eps", "mean_square")
of("by_the_root", swap("squares + eps", "squares"))

# %% wrong eps-rounded
# You cast eps to the dtype of `x`, and an eps of 1e-8 is 0 in FP16. Add it in float32.
swap("mean_square + eps", "mean_square + torch.tensor(eps, dtype=x.dtype)")
of("by_the_root", swap("squares + eps", "squares + x.new_tensor(eps)"))

# %% wrong eps-of-your-own
# Your norm uses an eps of its own, as `F.rms_norm` does without one. Use the eps that is passed.
of("torchs_own", swap("shape, weight, eps", "shape, weight"))
swap("mean_square + eps", "mean_square + torch.finfo(torch.float32).eps")
swap("mean_square + eps", "mean_square + 1e-5")
of("by_the_root", swap("squares + eps", "squares + 1e-6"))

# %% wrong weight-forgotten
# The weight is missing. Multiply the normed values by it.
swap("normed * weight", "normed")
of("torchs_own", swap("shape, weight, eps", "shape, eps=eps"))

# %% wrong weight-plus-one
# You multiplied by 1 + weight, as Gemma does. Here the weight itself is the factor.
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

# %% wrong result-in-float32
# You return float32 where `x` has 16 bits. Cast the result to the dtype of `x` at the end.
swap(".to(x.dtype)", "")
swap(".to(x.dtype)", ".float()")

# %% wrong changed-argument
swap("wide * torch.rsqrt(mean_square + eps)", "wide.mul_(torch.rsqrt(mean_square + eps))")
