# %% statement points=1 minutes=5
# # What survives in FP16?
#
# In the lesson, the gradient of a pixel became zero in FP16. Which numbers survive? Write
# `survives(x)`: is the number `x` still different from zero after it has been stored in FP16?
#
# `x` is a Python float, positive or negative. Return `True` or `False`. A number that is too large
# for FP16 becomes infinity. Infinity isn't zero, so the answer is `True`.
#
# Make a guess before you write: does 4e-8 survive? Does 1e-8?

# %% answer
def survives(x):
    """Whether x, stored in torch.float16, is still different from zero."""
    ### BEGIN SOLUTION
    return torch.tensor(x, dtype=torch.float16).item() != 0
    ### END SOLUTION

# %% hints
# - You don't need to know a limit: let torch store the number, and look at what comes back.
# - `torch.tensor(x, dtype=torch.float16)` stores `x` in FP16. `.item()` gives a Python number.

# %% probe
from amp_lessons.exercises.amp_in_20_minutes.harness import numbers_to_store

probe = Probe(numbers_to_store)

# %% judge
judge = Judge(asked_for="`True` or `False`")

# %% passed
# Storing a number rounds it to the nearest one that the format has. Sometimes that is zero.

# %% right by_the_limit
def survives(x):
    return abs(x) > 2**-25

# %% right zero_dimensional_tensor
def survives(x):
    return torch.tensor(x).half().abs() > 0

# %% wrong sign-forgotten
# Your answer is `False` for negative numbers, but -1.0 survives as 1.0 does. Compare magnitudes.
swap("!= 0", "> 0")
of("by_the_limit", swap("abs(x)", "x"))

# %% wrong inverted
# Your answer is the wrong way round: `True` for the numbers that become zero.
swap("!=", "==")
of("by_the_limit", swap("return ", "return not "))

# %% wrong tie-survives
# Nearly: 2**-25 lies half-way between 0 and 2**-24. A tie goes to the even mantissa, and that is 0.
of("by_the_limit", swap(">", ">="))
of("by_the_limit", swap("abs(x) > 2**-25", "abs(x) * 2**24 + 0.5 >= 1"))

# %% wrong not-stored
# You asked about `x` itself or stored it in float32, which holds all of these. Use `torch.float16`.
swap(", dtype=torch.float16", "")
of("by_the_limit", swap("abs(x) > 2**-25", "x != 0"))

# %% wrong always-true
# Your answer is `True` for every number, even for 0. A number below 2**-25 becomes zero in FP16.
swap(".item() != 0", " is not None")
of("by_the_limit", swap("abs(x) > 2**-25", "True"))

# %% wrong smallest-is-the-limit
# You compared with the smallest number that FP16 has: 2**-24, about 6e-8. But storing a number
# rounds it to the nearest one. What lies above half of 2**-24 is rounded up, so it survives.
of("by_the_limit", swap("> 2**-25", ">= 2**-24"))
of("by_the_limit", swap("-25", "-24"))
of("by_the_limit", swap("> 2**-25", ">= 6e-8"))

# %% wrong smallest-normal-is-the-limit
# You compared with 2**-14, the smallest *normal* number. The subnormal ones aren't zero either.
of("by_the_limit", swap("-25", "-14"))
of("by_the_limit", swap("> 2**-25", ">= torch.finfo(torch.float16).tiny"))

# %% wrong eps-is-the-limit
# You compared with eps, 2**-10, the spacing between 1 and 2. Smaller numbers go down to 2**-24.
of("by_the_limit", swap("2**-25", "torch.finfo(torch.float16).eps"))
of("by_the_limit", swap("> 2**-25", "/ 2**-10 > 1"))

# %% wrong bfloat16
# That is what survives in BF16, which reaches much further down. Ask about `torch.float16`.
swap("=torch.float16", "=torch.bfloat16")
of("zero_dimensional_tensor", swap("half", "bfloat16"))

# %% wrong overflow-counted-as-lost
# You count a number that becomes infinity as lost. Overflow is a fault too. But the question here
# is only whether the stored number is zero, and infinity isn't.
swap("item() != 0", "item() not in (0, float('inf'), float('-inf'))")
of("by_the_limit", swap("abs(x) > 2**-25", "2**-25 < abs(x) <= 65504"))

# %% wrong rounded-to-decimals
# You rounded to decimal places, but FP16 stores binary digits. Let torch store `x`, and look.
of("by_the_limit", swap("abs(x) > 2**-25", "round(x, 7) != 0"))
of("by_the_limit", swap("abs(x) > 2**-25", "float(f'{x:.7f}') != 0"))

# %% wrong wrong-type
swap(" != 0", "")
