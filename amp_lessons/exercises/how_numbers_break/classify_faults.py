# %% statement points=2 minutes=10
# # Name ten faults
#
# These ten small programs show what each gives and should give. Name the *first* thing that goes
# wrong: `"underflow"`, `"overflow"`, `"swamping"`, `"cancellation"`, or `"no fault"`.

# %% demo
half, bfloat = torch.float16, torch.bfloat16


def fp16(x):
    return torch.tensor(x, dtype=half)


def bf16(x):
    return torch.tensor(x, dtype=bfloat)


big = fp16(12.0).exp()
ten = fp16([10.01, 10.02, 10.03])
programs = {
    "a": ("fp16(1e-8)", fp16(1e-8), 1e-8),
    "b": ("fp16(256.0) * fp16(256.0)", fp16(256.0) * fp16(256.0), 65536.0),
    "c": ("fp16(2048.0) + fp16(1.0)", fp16(2048.0) + fp16(1.0), 2049.0),
    "d": ("bf16(1e-8)", bf16(1e-8), 1e-8),
    "e": ("big = fp16(12.0).exp(); big - big", big - big, 0.0),
    "f": ("fp16(1.001) - fp16(1.0)", fp16(1.001) - fp16(1.0), 0.001),
    "g": ("bf16(1.0) - bf16(1e-4) * bf16(10.0)", bf16(1.0) - bf16(1e-4) * bf16(10.0), 0.999),
    "h": ("fp16(1e-6) / fp16(1e-8)", fp16(1e-6) / fp16(1e-8), 100.0),
    "i": (
        "the variance of 10.01, 10.02, 10.03 in FP16, as mean of squares minus square of the mean",
        (ten * ten).mean() - ten.mean() * ten.mean(),
        0.0000667,
    ),
    "j": (
        "the root of the mean square of 300 and 400, in FP16",
        fp16([300.0, 400.0]).square().mean().sqrt(),
        353.6,
    ),
}
for letter, (program, got, true) in programs.items():
    print(f"{letter}  {program}\n   gives {got.item():<12.6g} should be {true:g}")

# %% answer check=faults
faults = {"a": "?", "b": "?", "c": "?", "d": "?", "e": "?"}
faults |= {"f": "?", "g": "?", "h": "?", "i": "?", "j": "?"}
### BEGIN SOLUTION
faults = dict.fromkeys("ah", "underflow") | dict.fromkeys("bej", "overflow")
faults |= dict.fromkeys("cg", "swamping") | dict.fromkeys("fi", "cancellation")
faults["d"] = "no fault"
### END SOLUTION

# %% hints
# - Find the first stored value that differs from the true one by more than a rounding. Why?
# - Became 0: underflow. Became inf: overflow. A sum that didn't change: swamping. A difference of
#   two close numbers with wrong digits: cancellation.
# - NaN and division by zero are symptoms. Their cause is one step earlier.

# %% probe
from amp_lessons.exercises.how_numbers_break.harness import FAULTS, letters
from amp_lessons.exercises.harness import answers_to

probe = Probe(letters, play=answers_to)

# %% judge
def given(entry):
    """The letter and the answer to it."""
    ((letter, fault),) = entry["value"]["dict"].items()
    return letter, fault

def answers(wrong):
    """A rule that one of these answers breaks, such as ``{"e": ("underflow",)}``."""

    def breaks(seen, right):
        letter, fault = given(seen)  # rules above refuse all but a dict
        return {"letter": letter} if fault in wrong.get(letter, ()) else None

    return breaks

def tell(case, right, seen):
    """What was answered, and not what is right."""
    value = seen["value"]
    answer = given(seen)[1] if is_dict(value) else describe(value)
    return f"({case.label}): you answered {answer!r}"[:70]

judge = Judge(asked_for="a dict from letter to fault", tell=tell)

# %% passed
# You look for the first step that went wrong, not for the step that shows it.

# %% right one_by_one
faults = {}
faults["a"] = faults["h"] = "underflow"
faults["b"] = faults["e"] = faults["j"] = "overflow"
faults["c"] = faults["g"] = "swamping"
faults["f"] = faults["i"] = "cancellation"
faults["d"] = "no fault"

# %% right capitals_and_spaces
faults = {"a": "Underflow", "b": "overflow ", "c": " Swamping", "d": "No fault", "e": "OVERFLOW"}
faults |= {"f": "cancellation", "g": "swamping", "h": "underflow", "i": "cancellation"}
faults |= {"j": "overflow"}

# %% rule not-a-dict
# Your answer isn't a dict from letter to fault. Keep the dict of the cell and replace each `"?"`.
def breaks(seen, right):
    return not is_dict(seen.get("value"))
put('faults = ["underflow", "overflow"]', after='faults["d"]')

# %% rule not-a-fault
# {fault} isn't one of the five words. Each answer must be one of: {faults}.
def breaks(seen, right):
    fault = given(seen)[1]
    known = isinstance(fault, str) and fault in FAULTS
    return None if known else {"fault": repr(fault)[:60], "faults": ", ".join(FAULTS)}
put('faults["j"] = "too large"', after='faults["d"]')

# %% rule nan-misread
# Look at each step of (e). `big` is already inf, and inf - inf is NaN: something became too large.
breaks = answers({"e": ("underflow", "cancellation", "no fault")})
put('faults["e"] = "underflow"', after='faults["d"]')

# %% rule swamping-misread
# In ({letter}) nothing became zero, and no leading digits cancelled. The small number is lost
# because it is added to a number whose ulp is at least twice as large: that is swamping.
breaks = answers(dict.fromkeys("cg", ("underflow", "cancellation", "no fault")))
put('faults |= {"c": "underflow", "g": "underflow"}', after='faults["d"]')

# %% rule bf16-underflows
# BF16 has the exponents of FP32, so it holds 1e-8. The last digits of any stored decimal differ.
breaks = answers({"d": ("underflow", "overflow", "cancellation", "swamping")})
put('faults["d"] = "underflow"', after='faults["d"]')

# %% rule symptom-not-cause
# In (h) the inf is the symptom. Ask what went wrong first: what does 1e-8 become in FP16?
breaks = answers({"h": ("overflow",)})
put('faults["h"] = "overflow"', after='faults["d"]')

# %% rule cancellation-misread
# In ({letter}) the subtraction itself is exact. It removes the leading digits that both numbers
# share. What is left are the rounding errors from before: that is cancellation.
breaks = answers(dict.fromkeys("fi", ("swamping", "underflow", "no fault")))
put('faults |= {"f": "swamping", "i": "swamping"}', after='faults["d"]')

# %% rule some-wrong
# ({letter}) isn't {fault}. Find its first step that differs from the true one. What happened there?
def breaks(seen, right):
    letter, fault = given(seen)
    return {"letter": letter, "fault": fault} if fault != given(right)[1] else None
put('faults |= {"a": "swamping", "j": "no fault"}', after='faults["d"]')
