# %% [markdown]
# # Exercises 01: Number formats
#
# Four functions about the bits of a number and about choosing how many of them to spend. Take [[lesson number_formats]] first. A check calls your function with many numbers,
# among them those that people forget.

# %%
import torch

from amp_lessons.checks import number_formats as ex
from amp_lessons.formats import FORMATS

# %% [markdown] heading="decode_bits"
# Write `decode_bits(code, exponent_bits, mantissa_bits)`: the value of a bit pattern.
#
# The layout is IEEE 754's: one sign bit, then the exponent, then the mantissa, with a bias of
# `2**(exponent_bits - 1) - 1`. A stored exponent of 0 means zero or a subnormal number, and one
# of all ones means infinity (mantissa 0) or NaN, as in the lesson's section on the patterns at
# both ends. `code` is an integer, such as `0x3C00`, which is 1.0 in FP16 (5 exponent bits, 10
# mantissa bits). Return a Python float; infinity and NaN are `float("inf")` and `float("nan")`.


# %% exercise="decode_bits"
def decode_bits(code, exponent_bits, mantissa_bits):
    """The value of a bit pattern in the format with these field widths, as a float."""
    ### BEGIN SOLUTION
    mantissa = code & (2**mantissa_bits - 1)
    exponent = (code >> mantissa_bits) & (2**exponent_bits - 1)
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    bias = 2 ** (exponent_bits - 1) - 1
    fraction = mantissa / 2**mantissa_bits
    if exponent == 2**exponent_bits - 1:
        return float("nan") if mantissa else sign * float("inf")
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias)
    return sign * (1 + fraction) * 2.0 ** (exponent - bias)
    ### END SOLUTION


# %% [markdown] heading="next_float"
# Write `next_float(x)`: the smallest FP16 number that is larger than `x`.
#
# `x` is a Python float that FP16 has: positive, negative, subnormal or zero. After the largest
# finite number comes infinity. Return a Python float.


# %% exercise="next_float"
def next_float(x):
    """The next larger FP16 number after x, as a float."""
    ### BEGIN SOLUTION
    if x == 0:
        return 2.0**-24
    bits = torch.tensor(x, dtype=torch.float16).view(torch.int16)
    bits = bits + 1 if x > 0 else bits - 1
    return bits.view(torch.float16).item()
    ### END SOLUTION


# %% [markdown] heading="smallest_scale"
# Write `smallest_scale(gradients)`: the smallest power of two, at least 1, by which to multiply
# the gradients so that none of those that are not zero becomes zero in FP16.
#
# `gradients` is a float32 tensor with one dimension. Some entries may be zero already, and at
# least one is not. Return a Python float.


# %% exercise="smallest_scale"
def smallest_scale(gradients):
    """The smallest power of two that keeps every non-zero gradient from becoming zero in FP16."""
    ### BEGIN SOLUTION
    smallest = gradients[gradients != 0].abs().min()
    scale = 1.0
    while (smallest * scale).half() == 0:
        scale *= 2
    return scale
    ### END SOLUTION


# %% [markdown] heading="choose_format"
# Write `choose_format(values, tolerance)`: the name of the narrowest format that holds a tensor
# well enough.
#
# The candidates are `"FP8 E4M3"`, `"FP8 E5M2"`, `"FP16"`, `"BF16"` and `"FP32"`. A format holds
# the values if none of them overflows, none that is not zero becomes zero, and no relative error
# `|stored - exact| / |exact|` is above `tolerance`. (A value of exactly 0 is stored exactly.)
# Take the format with the fewest bits; of two with equally many bits, the one whose largest
# relative error is smaller.
#
# `FORMATS["FP16"]` and the others are the course's own: `.bits` is the width, `.max` the largest
# number, and `.round(values)` gives what the format would store. `FORMATS` also holds TF32, which
# is no candidate here.


# %% exercise="choose_format"
def choose_format(values, tolerance):
    """The name of the narrowest format that holds the values to the tolerance."""
    ### BEGIN SOLUTION
    exact = values[values != 0].double()
    best = ("FP32", 32, 0.0)
    for name in ("FP8 E4M3", "FP8 E5M2", "FP16", "BF16"):
        stored = FORMATS[name].round(exact)
        if not stored.isfinite().all() or (stored == 0).any():
            continue
        error = ((stored - exact).abs() / exact.abs()).max().item()
        if error <= tolerance and (FORMATS[name].bits, error) < best[1:]:
            best = (name, FORMATS[name].bits, error)
    return best[0]
    ### END SOLUTION


# %% [markdown]
# Next: [[lesson how_numbers_break|Three ways numbers break]].
