# %% statement points=2 minutes=10
# # The batch at which AMP pays
#
# Write `crossover(added, fp32_each, amp_each)`. It returns the smallest batch at which AMP needs
# less memory than FP32.
#
# - `added` is how many bytes AMP adds, whatever the batch. These are its casts.
# - `fp32_each` and `amp_each` are how many bytes each example needs in FP32 and with AMP.
#
# All three are whole numbers, and `added` is at least 0. The smallest batch is 1. If AMP never
# needs less memory, return `None`.

# %% answer
def crossover(added, fp32_each, amp_each):
    """The smallest batch with added + amp_each * batch < fp32_each * batch; None for never."""
    ### BEGIN SOLUTION
    gain = fp32_each - amp_each
    if gain <= 0:
        return None
    return added // gain + 1
    ### END SOLUTION

# %% hints
# - With a batch of B, FP32 needs `fp32_each * B` bytes and AMP needs `added + amp_each * B`. For
#   which B is the second number smaller?
# - B must be greater than `added` divided by what AMP saves with each example. Which whole number
#   comes next? Try 1000 bytes added and 40 saved.
# - What does each example save if `amp_each` is equal to `fp32_each`, or larger?

# %% probe
from amp_lessons.exercises.memory.harness import crossover_cases

probe = Probe(crossover_cases, own=("amp_lessons.amp.memory.training:crossover_batch",))

# %% judge
judge = Judge(asked_for="a whole number, or None")

# %% passed
# What AMP adds is fixed, and what it saves grows with the batch. One quotient tells where it pays.

# %% right halves_the_range
def crossover(added, fp32_each, amp_each):
    from bisect import bisect_right

    if fp32_each <= amp_each:
        return None
    return 1 + bisect_right(range(1, added + 1), added, key=lambda b: (fp32_each - amp_each) * b)

# %% right one_byte_more
def crossover(added, fp32_each, amp_each):
    import math
    from fractions import Fraction

    if fp32_each > amp_each:
        return math.ceil(Fraction(added + 1, fp32_each - amp_each))

# %% wrong equal-is-not-less
# At your batch both can need the same. The task asks for less: without a remainder, take the next.
swap("added // gain + 1", "max(1, -(-added // gain))")
of("halves_the_range", swap("bisect_right", "bisect_left", 0))
of("one_byte_more", swap("added + 1", "added"))

# %% wrong rounded-down
# You rounded the quotient down, and AMP doesn't need less yet. Take the next whole number.
swap("added // gain + 1", "added // gain")
of("one_byte_more", swap("math.ceil(Fraction(added + 1,", "math.floor(Fraction(added,"))

# %% wrong one-too-many
# You rounded up and then added one. If the division leaves a remainder, that is a batch too many.
swap("added // gain", "-(-added // gain)")
of("one_byte_more", swap("math.ceil(Fraction(added + 1,", "1 + math.ceil(Fraction(added,"))

# %% wrong rounded-to-the-nearest
# You rounded to the nearest whole number. Below the quotient AMP needs more: take the next above.
swap("added // gain + 1", "round(added / gain)")
swap("added // gain + 1", "(2 * added + gain) // (2 * gain)")

# %% wrong not-whole
# You returned the quotient. A batch is a whole number: return the smallest at which AMP needs less.
swap("added // gain + 1", "added / gain")
swap("added // gain + 1", "added / gain + 1")
of("one_byte_more", swap("math.ceil(Fraction(added + 1,", "float(Fraction(added,"))

# %% wrong one-precision-only
# You divided by the bytes of one precision. Each example saves the difference between the two.
swap("added // gain + 1", "added // fp32_each + 1")
put("return added // amp_each + 1", before="gain")
of("one_byte_more", swap("fp32_each - amp_each", "fp32_each"))

# %% wrong never-forgotten
# You don't return `None` in every case where AMP never pays. If it needs as much for each example
# as FP32, or more, it never needs less in all, even if it adds nothing. Ask about that first.
drop("if gain")
swap("gain <= 0", "gain == 0")
put("if added == 0: return 1", before="if gain")
of("one_byte_more", put("if not added: return 1", before="if fp32_each"))

# %% wrong equal-needs-forgotten
# You forgot models that need as much for each example with AMP as in FP32. There AMP saves nothing
# with any batch, so it never needs less: return `None` there too.
swap("gain <= 0", "gain < 0") & put("gain = max(gain, 1)", after="if gain")
swap("gain <= 0", "gain < 0")
of("halves_the_range", swap("fp32_each <= amp_each", "fp32_each < amp_each"))

# %% wrong never-by-another-name
# You found out that AMP never needs less, but you returned something other than `None` to say so.
swap("return None", "return 0")
swap("return None", "return float('inf')")
of("one_byte_more", put("return 0", after="if"))

# %% wrong subtracted-the-wrong-way
# You subtracted the bytes of FP32 from those of AMP. The gain is `fp32_each - amp_each`.
swap("fp32_each - amp_each", "amp_each - fp32_each")
of("one_byte_more", swap("fp32_each > amp_each", "fp32_each < amp_each") &
    swap("fp32_each - amp_each", "amp_each - fp32_each"))

# %% wrong search-ends-early
# You search and stop too early. Some cases need a batch above a million. Divide instead.
put("if added // gain >= 1_000: return None", before="return added")
put("return next((b for b in range(1, 10**6) if added < gain * b), None)", before="return added")
of("halves_the_range", put("if added > 100_000 * (fp32_each - amp_each): return None", after="if"))

# %% wrong ready-made
# %% program the_course_divides
def crossover(added, fp32_each, amp_each):
    from amp_lessons.amp.memory import Memory, crossover_batch

    fp32 = [Memory(0, 0, 0, 0, fp32_each * batch, 0) for batch in (1, 2)]
    amp = [Memory(0, 0, 0, 0, amp_each * batch, added) for batch in (1, 2)]
    return crossover_batch(fp32, amp)
