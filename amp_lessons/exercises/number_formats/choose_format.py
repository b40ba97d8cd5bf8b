# %% statement points=2 minutes=10
# # Which format for which tensor
#
# Write `choose_format(values, tolerance)`: return the name of the narrowest format that holds them.
#
# The candidates are `"FP8 E4M3"`, `"FP8 E5M2"`, `"FP16"`, `"BF16"` and `"FP32"`. A format holds the
# values if all of this is true:
#
# - No value overflows: each is stored as a finite number.
# - No value becomes zero, except those that are zero already.
# - No relative error `|stored - exact| / |exact|` is larger than `tolerance`. A zero has no error.
#
# Take the format with the fewest bits. Of two formats with equally many bits, take the one whose
# largest relative error is smaller. (In this check the two never tie.)
#
# `values` is a float32 tensor in which at least one value isn't zero, so FP32 always holds it. The
# formats are in `FORMATS`: `FORMATS["FP16"].bits` is the width, `.max` is the largest number, and
# `.round(values)` gives what the format would store. An overflow gives infinity there, or NaN in
# E4M3, which has no infinity. `FORMATS` also holds TF32, which isn't a candidate.

# %% answer
def choose_format(values, tolerance):
    """The name of the narrowest format that holds the values to the tolerance."""
    ### BEGIN SOLUTION
    exact = values[values != 0].double()
    found = []
    for name in ("FP8 E4M3", "FP8 E5M2", "FP16", "BF16", "FP32"):
        stored = FORMATS[name].round(exact)
        error = ((stored - exact).abs() / exact.abs()).max().item()
        if stored.isfinite().all() and (stored != 0).all() and error <= tolerance:
            found.append((FORMATS[name].bits, error, name))
    return min(found)[2]
    ### END SOLUTION

# %% hints
# - Let the formats answer: `FORMATS[name].round(values)` gives what each would store.
# - A format is out if a stored value isn't finite, a value became zero, or an error is too large.
# - Of those that are left, take the smallest by the pair (bits, largest relative error).

# %% probe
from amp_lessons.exercises.number_formats.harness import tensors_to_store

probe = Probe(tensors_to_store)

# %% judge
from amp_lessons.amp.numbers import get_format

def same_format(expected, seen):
    try:
        return isinstance(seen, str) and get_format(seen).name == expected
    except ValueError:
        return False

judge = Judge(same=same_format, asked_for="the name of a format")

# %% passed
# Range decides first, precision second. FP16 and BF16 spend the same 16 bits on different things.

# %% right step_by_step
def choose_format(values, tolerance):
    exact = values[values != 0].double()
    best = ("FP32", 32, 0.0)
    for name in ("BF16", "FP16", "FP8 E4M3", "FP8 E5M2"):
        f = FORMATS[name]
        stored = f.round(exact)
        if not stored.isfinite().all() or not stored.all():
            continue
        worst = abs(stored / exact - 1).max().item()
        if worst <= tolerance and (f.bits, worst) < best[1:]:
            best = (name, f.bits, worst)
    return best[0]

# %% right sorted_by_bits_and_error
def choose_format(values, tolerance):
    exact = values[values != 0].numpy().astype("float64")

    def badness(name):
        stored = FORMATS[name].round(exact)
        worst = abs(stored / exact - 1).max()
        return (not worst <= tolerance or not stored.all(), FORMATS[name].bits, worst)

    best = min(("FP32", "FP16", "BF16", "FP8 E4M3", "FP8 E5M2"), key=badness)
    return best.removeprefix("FP8 ").lower()

# %% wrong overflow-ignored
# Your choice overflows: a value becomes infinity or NaN. Check that each stored value is finite.
swap("stored.isfinite().all() and ", "") & swap("error <= tolerance", "not error > tolerance")
swap("stored.isfinite().all() and ", "") & swap(".max()", ".nan_to_num(0, 0).max()")
swap("round(exact)", "round(exact, saturate=True)")
of("step_by_step", swap("f.round(exact)", "f.round(exact, saturate=True)"))
(swap("stored.isfinite().all()", "values.max() <= FORMATS[name].max") & swap("error <= tolerance",
    "not error > tolerance"))
(swap("stored.isfinite().all()", "not stored.isinf().any()") & swap("error <= tolerance",
    "not ((stored - exact).abs() / exact.abs() > tolerance).any()"))

# %% wrong largest-number-is-the-limit
# You compared the values with the largest number of the format. A value slightly above it doesn't
# overflow: it is rounded down, as 460 is to 448 in E4M3. Ask whether each stored value is finite.
swap("stored.isfinite().all()", "exact.abs().max() <= FORMATS[name].max")
of("step_by_step", swap("not stored.isfinite().all()", "abs(exact).max() > f.max"))

# %% wrong underflow-ignored
# Your choice loses the smallest value: it becomes zero. That rules a format out at any tolerance.
swap(" and (stored != 0).all()", "")
of("step_by_step", swap(" or not stored.all()", ""))
swap(" and (stored != 0).all()", "") & swap("exact.abs())", "exact.abs())[stored != 0]")

# %% wrong absolute-error
# You compared the absolute error with the tolerance. Divide it by the magnitude of the exact value.
swap(" / exact.abs()", "")
of("step_by_step", swap("stored / exact - 1", "stored - exact"))

# %% wrong average-error
# You compared the average error with the tolerance. It hides one that is far off: take the largest.
swap(".max()", ".mean()")
of("step_by_step", swap("abs(stored / exact - 1).max()", "(stored / exact - 1).abs().mean()"))

# %% wrong range-only
# Your choice has the range but not the precision: some value is off by more than the tolerance.
swap(" and error <= tolerance", "")
of("step_by_step", swap("worst <= tolerance and ", ""))

# %% wrong tolerance-excluded
# An error equal to the tolerance is allowed, so compare with `<=`, also with a tolerance of 0.
swap("error <=", "error <") & swap("min(found)", "min(found, default=(0, 0, 'FP32'))")
of("step_by_step", swap("worst <= tolerance", "worst < tolerance"))

# %% wrong bf16-first
# BF16 and FP16 both have 16 bits. Where both hold the values, take the one with the smaller error.
# For numbers that are normal in FP16 that is FP16, which has 10 mantissa bits against 7.
swap('"FP16", "BF16"', '"BF16", "FP16"') & swap("min(found)", "found[0]")
swap('"FP16", "BF16"', '"BF16", "FP16"') & swap("min(found)", "min(found, key=lambda f: f[0])")

# %% wrong larger-range-first
# Of two formats with equally many bits you take the one with the larger range. If both hold the
# values, their range is large enough. Take the one with the smaller error.
swap(".bits, error, name)", ".bits, -FORMATS[name].max, name)")
of("sorted_by_bits_and_error", swap(".bits, worst)", ".bits, -FORMATS[name].max)"))

# %% wrong first-that-holds
# You took the first format that holds the values, in a fixed order. Of two with equally many bits,
# take the one with the smaller error. For numbers below 2^-17, which are subnormal in FP16, that is
# BF16. From 2^-16 on it is FP16.
swap("min(found)", "found[0]")
swap("min(found)", "min(found, key=lambda f: f[0])")
swap('"FP8 E4M3", "FP8 E5M2"', '"FP8 E5M2", "FP8 E4M3"') & swap("min(found)", "found[0]")

# %% wrong always-fp32
# You chose FP32, or the format with the smallest error, which often is FP32. Compare the bits
# first. The errors decide only between formats with equally many bits.
swap("(FORMATS[name].bits, error, name)", "(error, FORMATS[name].bits, name)")
of("step_by_step", swap("(f.bits, worst) < best[1:]", "worst < best[2]"))
swap("min(found)", "max(found)")

# %% wrong tf32-chosen
# You chose TF32, which isn't among the candidates. No tensor is stored in it.
swap('"BF16", "FP32"', '"BF16", "TF32", "FP32"')
swap('("FP8 E4M3", "FP8 E5M2", "FP16", "BF16", "FP32")', "FORMATS")

# %% wrong 16-bits-at-least
# You never choose FP8. Where 8 bits hold the values to the tolerance, they are the narrowest.
swap('"FP8 E4M3", "FP8 E5M2", ', "")
of("step_by_step", swap(', "FP8 E4M3", "FP8 E5M2"', ""))

# %% wrong wrong-type
swap("[2]", "[0]")
