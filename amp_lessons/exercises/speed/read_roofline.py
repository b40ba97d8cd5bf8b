# %% statement points=2 minutes=15
# # What would help?
#
# The next cell prints ten reports of work on one H200. The times were made up for this exercise,
# and each floor follows from the data sheet. What would help most? Fill in the ten words.
#
# - `"measurement"`: measure again, because this time cannot be true
# - `"launches"`: fewer and larger kernels (fusing, CUDA graphs, a larger batch)
# - `"sizes"`: sizes that are multiples of 8
# - `"bytes"`: fewer bytes for each FLOP (a larger batch, or an op fused with the one before it)
# - `"precision"`: compute in another of FP32, TF32, FP16 and BF16
# - `"nothing"`: the work computes in 16 bits and comes close to their peak

# %% demo
for letter, it in ex.SITUATIONS.items():
    print(f"{letter}  {it.what}")
    print(f"   took {1e6 * it.seconds:9.1f} µs, floor {1e6 * it.floor:9.3f} µs by {it.bound}")

# %% answer check=helps
helps = {
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
helps = dict.fromkeys("ah", "precision") | dict.fromkeys("cdi", "bytes")
helps |= dict.fromkeys("ej", "launches") | {"b": "nothing", "f": "sizes", "g": "measurement"}
### END SOLUTION

# %% hints
# - Is the time below the floor? Then something is wrong with the measurement.
# - Is it far above? Look at the sizes, and ask whether the floor is shorter than a launch.
# - Is it near? If bandwidth sets the floor, move fewer bytes. If compute does, use a faster dtype.

# %% probe
from amp_lessons.exercises.speed.harness import SITUATIONS
from amp_lessons.exercises.harness import answers_to

probe = Probe(lambda: [Case((letter,), letter) for letter in SITUATIONS], play=answers_to)

# %% judge
from amp_lessons.exercises.speed.harness import CHOICES

def one(seen):
    """The letter and the word of one case."""
    return next(iter(seen["value"]["dict"].items())) if is_dict(seen.get("value")) else ("", "")

def wrong(*letters):
    return lambda seen, right: one(seen)[0] in letters and one(seen) != one(right)

def tell(case, right, seen):
    letter, word = one(seen)
    return f"{letter}: {word!r} is not right" if letter else f"helps is {describe(seen['value'])}"

judge = Judge(tell=tell)

# %% passed
# Can the time be true? How far is it from the floor? What sets the floor? That shows where to work.

# %% right letters_in_capitals
groups = {"Precision": "AH", "Bytes ": "CDI", "LAUNCHES": "EJ"}
helps = {letter: answer for answer, letters in groups.items() for letter in letters}
helps.update(B="nothing", F="sizes", G="measurement")

# %% right a_defaultdict_of_enum_members
from collections import defaultdict
from enum import StrEnum

Lever = StrEnum("Lever", "precision bytes launches sizes nothing measurement")
helps = defaultdict(lambda: Lever.bytes, a=Lever.precision, h=Lever.precision, b=Lever.nothing)
helps |= {"e": Lever.launches, "j": Lever.launches, "f": Lever.sizes, "g": Lever.measurement}
helps |= {letter: helps[letter] for letter in "cdi"}

# %% rule not-a-dict
# Your answer is not a dict from letter to word. Fill in the one in the cell.
def breaks(seen, right):
    return "value" in seen and not is_dict(seen["value"])
put("helps = list(helps.values())", after="helps |=")
put("helps = None", after="helps |=")

# %% rule not-a-choice
# {word} is not one of the six words. Each answer must be one of: {choices}.
def breaks(seen, right):
    letter, word = one(seen)
    return letter and word not in CHOICES and {"word": word, "choices": ", ".join(CHOICES)}
swap('"ah", "precision"', '"ah", "AMP"')
swap('"ej", "launches"', '"ej", 3')

# %% rule beats-the-floor
# (g) took less time than its arithmetic needs at the GPU's peak. Check that time before you explain
# it.
breaks = wrong("g")
swap('"g": "measurement"', '"g": "nothing"')

# %% rule above-the-floor
# You want to measure ({letter}) again, but its time can be true: it isn't below the floor.
def breaks(seen, right):
    letter, word = one(seen)
    return word == "measurement" and one(right)[1] != word and {"letter": letter}
swap('"ej", "launches"', '"ej", "measurement"')
swap('"f": "sizes"', '"f": "measurement"')

# %% rule launch-bound
# (e) and (j) take hundreds or thousands of times their floor, a fraction of a microsecond. The GPU
# waits for Python's launches. Faster arithmetic or fewer bytes would make it wait longer.
breaks = wrong("e", "j")
swap('"ej", "launches"', '"ej", "precision"')
swap('"ej", "launches"', '"ej", "bytes"')

# %% rule bandwidth-bound
# (c), (d) and (i) are near the floor that the bandwidth sets, in 16 bits already. Move fewer bytes:
# more rows for each weight of (c), and (d) and (i) fused with the op before them.
breaks = wrong("c", "d", "i")
swap('"cdi", "bytes"', '"cdi", "precision"')
swap('"cdi", "bytes"', '"cdi", "nothing"')

# %% rule near-the-roof
# (b) is in 16 bits and reaches about 80% of the peak, as the best products do: nothing to gain.
breaks = wrong("b")
swap('"b": "nothing"', '"b": "precision"')
swap('"ah", "precision"', '"abh", "precision"') & swap('"b": "nothing", ', "")

# %% rule wrong-roof
# (a) and (h) are near their floor, set by the peak of FP32 or TF32. Another precision has a higher.
breaks = wrong("a", "h")
swap('"ah", "precision"', '"ah", "nothing"')
swap('"ah", "precision"', '"ah", "sizes"')

# %% rule odd-sizes
# (f) takes more than three times its floor. It is far too large to wait for a launch, and it
# computes in 16 bits already. Look at its sizes: none of them is a multiple of 8.
breaks = wrong("f")
swap('"f": "sizes"', '"f": "bytes"')
