# %% [markdown]
# # Exercises 02: Three ways numbers break
#
# Three pieces of code that hold in 16 bits, and ten faults to name. Take [[lesson how_numbers_break]] first.

# %%
import torch

from amp_lessons.checks import how_numbers_break as ex

# %% [markdown] heading="kahan_sum"
# Write `kahan_sum(values)`: the sum of an FP16 tensor, to within two ulp, without leaving FP16.
#
# `values` has one dimension. Adding one value after the other loses what each addition rounds
# away; the idea is to keep that loss in a second variable and to put it back with the next value.
# Keep every number in `torch.float16`: no float32, no Python floats, no NumPy, no `.item()`, no
# `sum()`. Return an FP16 tensor without dimensions.


# %% exercise="kahan_sum"
def kahan_sum(values):
    """The sum of a float16 tensor of shape (n,), as a float16 tensor of shape ()."""
    ### BEGIN SOLUTION
    total = torch.zeros((), dtype=values.dtype)
    lost = torch.zeros((), dtype=values.dtype)
    for value in values:
        wanted = value - lost
        new = total + wanted
        lost = (new - total) - wanted
        total = new
    return total
    ### END SOLUTION


# %% [markdown] heading="log_softmax"
# Write `log_softmax(logits)`: the logarithm of the softmax of each row, in the dtype of the
# logits, for any finite logits.
#
# `logits` has the shape (rows, classes) and is float16, bfloat16 or float32. Return a tensor of
# the same dtype and shape, right to within two ulp of the result, or of 1 where the result is
# smaller. Do not call `torch.log_softmax` or `torch.logsumexp`: write them out.


# %% exercise="log_softmax"
def log_softmax(logits):
    """log(softmax(logits)) over the last dimension, with no overflow and no log(0)."""
    ### BEGIN SOLUTION
    shifted = logits - logits.max(dim=-1, keepdim=True).values
    return shifted - shifted.exp().sum(dim=-1, keepdim=True).log()
    ### END SOLUTION


# %% [markdown] heading="masked_softmax"
# Write `masked_softmax(scores, keep)`: attention probabilities over the places that are kept.
#
# `scores` has the shape (rows, places) and is float16, bfloat16 or float32; `keep` has the same
# shape and is True where a place counts. A place that is not kept gets probability 0, except in a
# row in which nothing is kept: that row gets the same probability everywhere, and never NaN. Return
# a tensor of the dtype and shape of `scores`.


# %% exercise="masked_softmax"
def masked_softmax(scores, keep):
    """The softmax of each row over the places where keep is True."""
    ### BEGIN SOLUTION
    lowest = torch.finfo(scores.dtype).min
    return torch.softmax(scores.masked_fill(~keep, lowest), dim=-1)
    ### END SOLUTION


# %% [markdown] heading="classify_faults"
# Here are ten small programs, with what each gives and what it should give. Name the *first*
# thing that goes wrong in each: `"underflow"`, `"overflow"`, `"swamping"`, `"cancellation"`, or
# `"no fault"`.

# %%
half, bfloat = torch.float16, torch.bfloat16


def fp16(x):
    return torch.tensor(x, dtype=half)


def bf16(x):
    return torch.tensor(x, dtype=bfloat)


big = fp16(12.0).exp()
ten = fp16([10.01, 10.02, 10.03])
results = {
    "a": (fp16(1e-8), 1e-8),
    "b": (fp16(256.0) * fp16(256.0), 65536.0),
    "c": (fp16(2048.0) + fp16(1.0), 2049.0),
    "d": (bf16(1e-8), 1e-8),
    "e": (big - big, 0.0),
    "f": (fp16(1.001) - fp16(1.0), 0.001),
    "g": (bf16(1.0) - bf16(1e-4) * bf16(10.0), 0.999),
    "h": (fp16(1e-6) / fp16(1e-8), 100.0),
    "i": ((ten * ten).mean() - ten.mean() * ten.mean(), 0.0000667),
    "j": (fp16([300.0, 400.0]).square().mean().sqrt(), 353.6),
}
programs = {
    "a": "fp16(1e-8)",
    "b": "fp16(256.0) * fp16(256.0)",
    "c": "fp16(2048.0) + fp16(1.0)",
    "d": "bf16(1e-8)",
    "e": "big = fp16(12.0).exp(); big - big",
    "f": "fp16(1.001) - fp16(1.0)",
    "g": "bf16(1.0) - bf16(1e-4) * bf16(10.0)",
    "h": "fp16(1e-6) / fp16(1e-8)",
    "i": "variance of 10.01, 10.02, 10.03 in fp16, as mean of squares less square of mean",
    "j": "root of the mean square of 300 and 400 in fp16",
}
for letter, (got, true) in results.items():
    print(f"{letter}  {programs[letter]}\n   gives {got.item():<12.6g} should be {true:g}")

# %% exercise="classify_faults" answer="faults"
faults = {
    "a": "?",
    "b": "?",
    "c": "?",
    "d": "?",
    "e": "?",
    "f": "?",
    "g": "?",
    "h": "?",
    "i": "?",
    "j": "?",
}
### BEGIN SOLUTION
faults = dict.fromkeys("ah", "underflow") | dict.fromkeys("bej", "overflow")
faults |= dict.fromkeys("cg", "swamping") | dict.fromkeys("fi", "cancellation")
faults |= {"d": "no fault"}
### END SOLUTION

# %% [markdown]
# Next: [[lesson amp_from_scratch]] trains a network with a remedy for each of the three faults: loss scaling for the
# first, FP32 for the fragile parts for the second, FP32 weights for the third.
