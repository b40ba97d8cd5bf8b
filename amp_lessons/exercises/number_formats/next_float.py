# %% statement points=2 minutes=10
# # Find the next float
#
# Write `next_float(x)`. It returns the smallest FP16 number that is larger than `x`.
#
# `x` is a finite Python float that FP16 can store exactly: positive, negative, subnormal or zero.
# Zero counts as one number, whatever its sign. After 65504 comes infinity. Return a Python float.

# %% answer
def next_float(x):
    """The next larger FP16 number after x, as a float."""
    ### BEGIN SOLUTION
    if x == 0:
        return 2.0**-24
    bits = torch.tensor(x, dtype=torch.float16).view(torch.int16)
    bits = bits + 1 if x > 0 else bits - 1
    return bits.view(torch.float16).item()
    ### END SOLUTION

# %% hints
# - Among numbers of one sign, order is the order of their bit patterns, read as integers.
# - `torch.tensor(x, dtype=torch.float16).view(torch.int16)` gives the bits; `.view` goes back too.
# - If `x` is positive, add 1 to the bits. If it is negative, subtract 1. Treat zero apart.

# %% probe
from amp_lessons.exercises.number_formats.harness import steps_up, walk

NEIGHBOURS = tuple(
    f"amp_lessons.amp.numbers.formats:Format.{name}"
    for name in ("next_up", "next_down", "neighbours")
)
probe = Probe(steps_up, play=walk, own=NEIGHBOURS)

# %% judge
def tell(case, right, seen):
    """All digits: the neighbour of 1 in float64 should not read as 1."""
    number = as_number(seen["value"])
    got = describe(seen["value"]) if number is None else repr(number)
    return f"{case.label}: returned {got}; expected {right['value']}"

judge = Judge(asked_for="a float", tell=tell)

# %% passed
# Neighbouring numbers have neighbouring bit patterns: across powers of two, among the subnormal
# numbers, and up to infinity. That is what the layout of the format is good for.

# %% right numpy_nextafter
def next_float(x):
    import numpy as np

    with np.errstate(over="ignore"):
        return float(np.nextafter(np.float16(x), np.float16(np.inf)))

# %% right by_search
def next_float(x):
    patterns = torch.arange(-32768, 32768).to(torch.int16).view(torch.float16)
    larger = patterns[patterns > x]
    return larger.min().item()

# %% wrong went-down
# You went down. For a positive number add 1 to its bits, for a negative one subtract 1.
swap("bits + 1 if x > 0", "bits + 1 if x < 0") & swap("return 2", "return -2")
of("numpy_nextafter", swap("np.inf", "-np.inf"))

# %% wrong eps-everywhere
# You added 2**-10. That is the spacing only between 1 and 2: it doubles at each power of two.
put("return x + 2**-10", before="if x == 0")
of("by_search", put("return x + torch.finfo(torch.float16).eps", before="patterns"))
put("return torch.tensor(x + 2**-10).half().item()", before="if x == 0")

# %% wrong relative-step
# You moved by a fixed share of `x`, such as 2**-10 of it. But the spacing is the same for all
# numbers between two powers of two, so your step is often too long. A factor such as 1 + 2**-10
# also moves negative numbers down, and leaves zero where it is.
put("return torch.tensor(x * (1 + 2**-10)).half().item()", before="if x == 0")
of("numpy_nextafter", put("return float(np.float16(x * (1 + 2**-10)))", before="return float"))
put("return torch.tensor(x + abs(x) * 2**-10).half().item()", after="if x == 0")
put("return torch.tensor(x + abs(x) * 2**-10).half().item()", before="if x == 0")
put("return x * (1 + 2**-10)", before="if x == 0")
put("return x + abs(x) * 2**-10", after="if x == 0")

# %% wrong negative-away
# Your negative numbers went down: adding 1 to the bits of one makes its magnitude larger.
swap("bits + 1 if x > 0 else bits - 1", "bits + 1")
of("numpy_nextafter", swap("(np.inf)", "(np.inf if x >= 0 else -np.inf)"))

# %% wrong zero-forgotten
# Zero needs its own branch. It has two patterns, 0x0000 and 0x8000, and the next number after both
# is 2**-24. Adding 1 to the bits of -0.0 gives -2**-24, and subtracting 1 from a zero's gives NaN.
drop("if x == 0")
drop("if x == 0") & swap("x > 0", "x >= 0")
drop("if x == 0") & swap("x > 0", "bits >= 0")
swap("2.0**-24", "0.0")
of("by_search", put("if x == 0: return 0.0", before="patterns"))
of("by_search", put("if not x: return float('nan')", before="patterns"))
of("by_search", put("if str(x) == '-0.0': return -(2.0**-24)", before="patterns"))

# %% wrong smallest-normal-after-zero
# After zero you return 2**-14, the smallest *normal* number. The subnormal 2**-24 is smaller.
swap("2.0**-24", "2.0**-14")
of("by_search", put("if x == 0: return 2.0**-14", before="patterns"))

# %% wrong no-infinity
# After 65504, the largest finite number, comes infinity. FP16 doesn't have 65536.
put("if x == 65504: return x", before="if x == 0")
put("if x == 65504: return 65536.0", before="if x == 0")
swap("return bits.view(torch.float16).item()", "return min(bits.view(torch.float16).item(), 65504)")

# %% wrong neighbour-of-a-wider-format
# Your step is too short: stored in FP16, the result is rounded back to `x`. The next number of
# float32 or float64 is such a step. Look for the neighbour among the FP16 numbers.
put("return torch.nextafter(torch.tensor(x), torch.tensor(1e9)).item()", before="if x == 0")
of("numpy_nextafter", swap("float16", "float32", nth=0))
of("numpy_nextafter", swap("float16", "float64", nth=0))
put("return torch.nextafter(torch.tensor(x), torch.tensor(1e9)).half().item()", before="if x == 0")

# %% wrong bfloat16-neighbour
# You took the bits and the neighbours of BF16. It has 7 mantissa bits and FP16 has 10, so its
# numbers lie further apart. This exercise is about `torch.float16`.
swap("=torch.float16", "=torch.bfloat16") & swap("view(torch.float16)", "view(torch.bfloat16)")
of("by_search", swap("float16", "bfloat16") & put("if x == 0: return 2.0**-24", before="patterns"))

# %% wrong subnormals-forgotten
# Your spacing shrinks below 2**-14, and zero has no logarithm. Down there it is always 2**-24.
put("import math\nreturn x + 2.0 ** (math.floor(math.log2(abs(x))) - 10)", before="if x == 0")
put("import math\nreturn x + 2.0 ** (math.floor(math.log2(abs(x))) - 10)", after="if x == 0")
put("import math\nreturn x + 2.0 ** (math.frexp(x)[1] - 11)", after="if x == 0")
put("import math\nreturn x + 2.0 ** (math.frexp(x)[1] - 11)", before="if x == 0")
(put("import math\nstep = 2.0 ** (math.floor(math.log2(abs(x))) - 10)", after="if x == 0") &
    swap("bits.view(torch.float16).item()", "torch.tensor(x + step).half().item()"))

# %% wrong spacing-below-a-power
# You are very close. From a negative power of two, the way up leads to numbers that lie half as far
# apart. After -2 comes -1.9990234375, and you stepped over it.
put("import math\nif x < 65504: return x + 2.0 ** max(math.frexp(x)[1] - 11, -24)", after="if x")
of("numpy_nextafter", put("return x + FORMATS['FP16'].ulp(x)", before="import"))
put("import math\nreturn x + 2.0 ** max(math.frexp(x)[1] - 11, -24)", after="if x")

# %% wrong ready-made

# %% program with_the_course_package
def next_float(x):
    return FORMATS["FP16"].next_up(x)

# %% program turned_round
def next_float(x):
    return -FORMATS["FP16"].neighbours(-x)[0]
