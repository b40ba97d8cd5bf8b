# %% statement points=2 minutes=10
# # Unit vectors, with an eps that survives
#
# Write `unit_rows(x)`. It divides each row of `x` by its length, the square root of the sum of its
# squares.
#
# `x` has the shape (rows, width) and is float16, bfloat16 or float32. A row is all zeros and stays
# so, or its largest magnitude is between 0.003 and 50,000. Return a tensor with the dtype and the
# shape of `x`, each entry right to within four ulp in 16 bits and 100 ulp in float32.

# %% answer
def unit_rows(x):
    """The rows of x with length 1, in the dtype of x."""
    ### BEGIN SOLUTION
    wide = x.float()
    length = wide.norm(dim=-1, keepdim=True)
    length = length.clamp_min(1e-6)
    return (wide / length).to(x.dtype)
    ### END SOLUTION

# %% hints
# - Try three rows: zeros, entries of 300, and entries of 0.003.
# - In which dtype do the squares fit? Is your eps still larger than 0 in that dtype?
# - Divide by the length in float32, with a small lower bound that keeps it from 0, then cast back.

# %% probe
from amp_lessons.exercises.losses_and_ops.harness import unit_row_cases

probe = Probe(unit_row_cases)

# %% judge
from amp_lessons.exercises.losses_and_ops.harness import close, lost, one_is_right, rows_beside

def same(expected, seen):
    single = is_tensor(expected) and expected["dtype"] == "float32"
    return within_ulps(100 if single else 4)(expected, seen)

judge = Judge(same, "a tensor with the dtype and shape of x")

def zeros_gave_nan(rows):
    return any(not any(wanted) and all(map(math.isnan, row)) for row, wanted in rows)

# %% passed
# An eps must lie between its dtype's smallest number and every length. float32 has room for that.

# %% right torchs_own_in_float32
def unit_rows(x):
    return F.normalize(x.float(), dim=-1).to(x.dtype)

# %% right zeros_by_where
def unit_rows(x):
    w = x.double()
    squares = (w * w).sum(-1, keepdim=True)
    length = squares.sqrt()
    return torch.where(length > 0, w / length, 0.0).to(x.dtype)

# %% rule no-eps
# A row of zeros gives NaN, since you divide by its length. Give the length a small lower bound.
def breaks(seen, right):
    return right["value"]["dtype"] == "float32" and zeros_gave_nan(rows_beside(seen, right))
drop("length = length.clamp_min")
of("zeros_by_where", swap("torch.where(length > 0, w / length, 0.0)", "(w / length)"))

# %% rule eps-underflows
# Your eps becomes 0 in FP16, so a row of zeros gives 0/0: 1e-8 and 1e-12 are below its smallest
# number. Compute in float32, and cast only the result back.
def breaks(seen, right):
    return right["value"]["dtype"] == "float16" and zeros_gave_nan(rows_beside(seen, right))
of("torchs_own_in_float32", swap("x.float()", "x"))
swap("x.float()", "x") & swap("length.clamp_min(1e-6)", "length + 1e-8")

# %% rule squares-overflow
# A large row comes back as zeros: its squares, or their sum, were FP16. The square of 300 is beyond
# 65504, so it is inf there. Cast `x` to float32 before you square it.
def breaks(seen, right):
    return lost(seen, right) > 1
of("zeros_by_where", swap("x.double()", "x"))

# %% rule length-overflows
# A large row comes back as zeros: its length was rounded to FP16. The length of a row of 50,000s is
# beyond 65504, so it is inf there. Keep the length in float32, and divide there too.
def breaks(seen, right):
    return lost(seen, right)
swap("x.float()", "x")
swap("(wide / length).to(x.dtype)", "x / length.to(x.dtype)")

# %% rule eps-too-large
# Your eps changes a row that isn't all zeros: its length comes out as {length:.7g}, not 1. What you
# add changes every row, and a lower bound only rows below it. Bound the float32 length by 1e-6.
def breaks(seen, right):
    rows, single = rows_beside(seen, right), right["value"]["dtype"] == "float32"
    for row, wanted in rows if one_is_right(rows) else ():
        length = sum(a * b for a, b in zip(row, wanted, strict=True))
        scaled = close(row, [length * b for b in wanted], 1e-6 if single else 0.01)
        if scaled and 0.02 < length < (1 - 1e-5 if single else 0.99):
            return {"length": length}
    return False
swap("length.clamp_min(1e-6)", "length + 1e-6")
swap("1e-6", "0.1")
of("zeros_by_where", swap("squares.sqrt()", "(squares + 1e-6).sqrt()"))

# %% wrong another-measure
# You divide by another measure of the row than its length, such as the sum or the largest of the
# magnitudes, or the mean square. The length is the square root of the sum of the squares.
swap("wide.norm(dim=-1, keepdim=True)", "wide.abs().sum(-1, keepdim=True)")
of("torchs_own_in_float32", swap("dim=-1", "p=1, dim=-1"))
of("zeros_by_where", drop("length = ") & swap("length", "squares", nth=0))
of("zeros_by_where", swap(".sum(", ".mean("))

# %% wrong one-length-for-all
# You divide all rows by one length. Each row has its own: use `dim=-1` and `keepdim=True`.
swap("dim=-1, keepdim=True", "")
of("zeros_by_where", swap("sum(-1, keepdim=True)", "sum()"))

# %% wrong columns-for-rows
# You give each column the length 1, since `dim=0` runs along a column. For rows use `dim=-1`.
swap("dim=-1", "dim=0")
of("zeros_by_where", swap("sum(-1", "sum(0"))

# %% wrong zeros-misjudged
# You look for rows of zeros with a test that other rows pass too. A sum, a maximum or a single
# entry can be 0 in a row with a length. Ask whether all entries are 0, or whether the length is.
of("zeros_by_where", swap("length > 0", "w.sum(-1, keepdim=True) != 0"))
of("zeros_by_where", swap("length > 0", "(w != 0).all(-1, keepdim=True)"))
of("torchs_own_in_float32", swap("dim=-1)", "dim=-1).where(x[:, :1] != 0, 0.0)"))

# %% wrong wrong-type
swap(".to(x.dtype)", "")

# %% wrong changed-argument
put("x /= length", before="return") & swap("(wide / length).to(x.dtype)", "x")
