# %% statement points=2 minutes=10
# # Unit vectors, with an eps that survives
#
# Write `unit_rows(x)`. It divides each row of `x` by its length, the square root of the sum of its
# squares.
#
# `x` has the shape (rows, width) and is float16, bfloat16 or float32. A row is either all zeros, or
# its largest magnitude lies between 0.003 and 50,000. A row of zeros stays a row of zeros. Return a
# tensor with the dtype and the shape of `x`. Each entry is right to within four ulp if it has 16
# bits, and to within 100 ulp in float32.

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
# - Cast to float32 and divide by the length there. Keep the length away from 0 with a small lower
#   bound, then cast back.

# %% probe
from amp_lessons.exercises.losses_and_ops.stage import unit_row_cases

probe = Probe(unit_row_cases)

# %% judge
def same(expected, seen):
    single = is_tensor(expected) and expected["dtype"] == "float32"
    return within_ulps(100 if single else 4)(expected, seen)

judge = Judge(same, "a tensor with the dtype and shape of x")

def rows_beside(seen, right):
    """Pairs of rows, what was seen and what is right, of a tensor like the right one."""
    got, wanted = seen.get("value"), right["value"]
    alike = is_tensor(got) and all(got[key] == wanted[key] for key in ("dtype", "shape"))
    return list(zip(got["values"], wanted["values"], strict=True)) if alike else []

def close(row, wanted, within=0.01):
    return all(abs(a - b) <= within for a, b in zip(row, wanted, strict=True))

def one_is_right(rows):
    """Whether a row that isn't zeros came out right."""
    return any(any(wanted) and close(row, wanted) for row, wanted in rows)

def zeros_gave_nan(rows):
    return any(not any(wanted) and all(map(math.isnan, row)) for row, wanted in rows)

# %% passed
# An eps must be larger than the smallest number of its dtype, and smaller than every length that
# matters. float32 has room for both.

# %% right torchs_own_in_float32
def unit_rows(x):
    return F.normalize(x.float(), dim=-1).to(x.dtype)

# %% right zeros_by_where
def unit_rows(x):
    w = x.double()
    squares = (w * w).sum(-1, keepdim=True)
    length = squares.sqrt()
    return torch.where(length > 0, w / length, 0.0).to(x.dtype)

# %% right largest_entry_first
def unit_rows(x):
    largest = x.abs().amax(-1, keepdim=True).clamp_min(torch.finfo(x.dtype).tiny)
    y = x / largest
    return y / y.norm(dim=-1, keepdim=True).clamp_min(0.5)

# %% rule no-eps
# A row of zeros gives NaN, in float32 too. Its length is 0, and your code divides by it. Give the
# length a small lower bound, such as `clamp_min(1e-6)` in float32.
def breaks(seen, right):
    float32 = right["value"]["dtype"] == "float32"
    return float32 and zeros_gave_nan(rows_beside(seen, right))
drop("length = length.clamp_min")
of("zeros_by_where", swap("torch.where(length > 0, w / length, 0.0)", "(w / length)"))

# %% rule eps-underflows
# Your eps becomes 0 in FP16, so a row of zeros gives 0/0. 1e-8, and the 1e-12 of `F.normalize`, are
# smaller than the smallest number of FP16. Compute in float32, and cast only the result back.
def breaks(seen, right):
    half = right["value"]["dtype"] == "float16"
    return half and zeros_gave_nan(rows_beside(seen, right))
of("torchs_own_in_float32", swap("x.float()", "x"))
swap("x.float()", "x") & swap("length.clamp_min(1e-6)", "length + 1e-8")
swap("(wide / length).to(x.dtype)", "x / length.to(x.dtype)") & swap("1e-6", "1e-8")

# %% rule length-overflows
# A large row comes back as zeros: its length became inf in FP16. The square of 300 is already
# beyond 65504, and so is the length of a row of 50,000s. Compute the length in float32, and divide
# there too: a length that you cast back to FP16 is inf again.
def breaks(seen, right):
    rows = rows_beside(seen, right)
    lost = any(any(wanted) and not any(row) for row, wanted in rows)
    return lost and right["value"]["dtype"] == "float16" and one_is_right(rows)
swap("x.float()", "x")
swap("(wide / length).to(x.dtype)", "x / length.to(x.dtype)")
swap("x.float()", "x") & swap("clamp_min(1e-6)", "clamp_min(torch.finfo(x.dtype).tiny)")

# %% rule eps-too-large
# Your eps changes rows that are not zeros: one comes out with length {length:.7g}, not 1. What you
# add to a length, or set as its lower bound, is too large next to a length of 0.004. Under the root
# it is compared with the *square* of that. A lower bound of 1e-6 on a float32 length is safe.
def breaks(seen, right):
    rows, single = rows_beside(seen, right), right["value"]["dtype"] == "float32"
    for row, wanted in rows if one_is_right(rows) else ():
        length = sum(a * b for a, b in zip(row, wanted, strict=True))
        scaled = close(row, [length * b for b in wanted], 1e-6 if single else 0.01)
        if scaled and 0.02 < length < (1 - 1e-5 if single else 0.99):
            return {"length": length}
    return False
swap("length.clamp_min(1e-6)", "length + 1e-6")
swap("1e-6", "torch.finfo(x.dtype).eps")
swap("1e-6", "0.1")
of("zeros_by_where", swap("squares.sqrt()", "(squares + 1e-6).sqrt()"))

# %% wrong another-measure
# You divide by another measure of the row than its length, such as the sum or the largest of the
# magnitudes, or the mean square. The length is the square root of the sum of the squares.
swap("wide.norm(dim=-1, keepdim=True)", "wide.abs().sum(-1, keepdim=True)")
of("torchs_own_in_float32", swap("dim=-1", "p=1, dim=-1"))
swap("wide.norm(dim=-1, keepdim=True)", "wide.abs().amax(-1, keepdim=True)")
of("zeros_by_where", drop("length = ") & swap("length", "squares", nth=0))
of("zeros_by_where", swap(".sum(", ".mean("))

# %% wrong one-length-for-all
# You divide all rows by the length of the whole tensor. Each row has its own length: use `dim=-1`
# and `keepdim=True`.
swap("dim=-1, keepdim=True", "")
of("zeros_by_where", swap("sum(-1, keepdim=True)", "sum()"))

# %% wrong columns-for-rows
# You give each column the length 1, not each row. `dim=0` runs along a column. For rows use
# `dim=-1`.
swap("dim=-1", "dim=0")
of("zeros_by_where", swap("sum(-1", "sum(0"))

# %% wrong zeros-misjudged
# You look for rows of zeros with a test that other rows pass too. A sum, a maximum or a single
# entry can be 0 in a row with a length. Ask whether all entries are 0, or whether the length is.
of("zeros_by_where", swap("length > 0", "w.sum(-1, keepdim=True) != 0"))
of("zeros_by_where", swap("length > 0", "w.amax(-1, keepdim=True) > 0"))
of("zeros_by_where", swap("length > 0", "(w != 0).all(-1, keepdim=True)"))
of("torchs_own_in_float32", swap("dim=-1)", "dim=-1).where(x[:, :1] != 0, 0.0)"))

# %% wrong wrong-type
swap(".to(x.dtype)", "")

# %% wrong changed-argument
put("x /= length", before="return") & swap("(wide / length).to(x.dtype)", "x")
