# %% statement points=2 minutes=10
# # The smallest scale that saves
#
# Before gradients are stored in FP16, they are multiplied by a scale, so that small ones don't
# become zero. Write `smallest_scale(gradients)`. It returns the smallest scale that saves every
# gradient: after scaling and storing in FP16, only those are zero that were zero before.
#
# The scale is a power of two, and at least 1. `gradients` is a float32 tensor with one dimension.
# Some entries may be zero, and at least one is not. Return a Python float.

# %% answer
def smallest_scale(gradients):
    """The smallest power of two that keeps every non-zero gradient from becoming zero in FP16."""
    ### BEGIN SOLUTION
    smallest = gradients[gradients != 0].abs().min()
    scale = 1.0
    while (smallest * scale).half() == 0:
        scale *= 2
    return scale
    ### END SOLUTION

# %% hints
# - A single gradient decides. Which one? Look at magnitudes, and leave zeros out.
# - You need no formula. Start at 1.0, and double until that gradient, scaled, isn't zero in FP16.
# - Multiply in float32 and convert afterwards, as the backward pass of a scaled loss does.

# %% probe
from amp_lessons.exercises.number_formats.harness import small_gradients

ASKED = ("smallest_safe_scale", "fate", "fates")
own = tuple(f"amp_lessons.amp.scaling.loss_scale:{name}" for name in ASKED)
probe = Probe(small_gradients, own=own)

# %% judge
judge = Judge(asked_for="a float")

# %% passed
# The smallest gradient alone decides on the scale. GradScaler looks for the other end: no overflow.

# %% right count_survivors
def smallest_scale(gradients):
    alive = int((gradients != 0).sum())
    exponent = 0
    while int(((gradients * 2.0**exponent).half() != 0).sum()) < alive:
        exponent += 1
    return 2**exponent

# %% right by_logarithm
def smallest_scale(gradients):
    import math

    smallest = gradients[gradients != 0].abs().min().item()
    exponent = math.floor(-25 - math.log2(smallest)) + 1
    return 2.0 ** max(0, exponent)

# %% rule not-a-power-of-two
# Your scale, {scale:.6g}, isn't a power of two. Multiplying by one changes only the exponent.
def breaks(seen, right):
    scale = as_number(seen.get("value"))
    usable = scale is not None and 1 <= scale < math.inf
    return {"scale": scale} if usable and math.frexp(scale)[0] != 0.5 else None
swap("return scale", "return max(1.0, 2**-24 / smallest.item())")
swap("scale *= 2", "scale *= 10")
of("by_logarithm", swap("2.0 ** max(0, exponent)", "max(1.0, 2**-25 / smallest)"))

# %% wrong zeros-counted
# You looked for the smallest gradient and found a zero. Leave the zeros out: they lose nothing.
swap("gradients[gradients != 0]", "gradients")
of("by_logarithm", swap("gradients[gradients != 0]", "gradients"))
put("if (gradients == 0).any(): return float('inf')", before="smallest =")
of("by_logarithm", put("if not gradients.all(): return float('inf')", before="smallest ="))

# %% wrong stored-before-scaled
# You stored the gradients in FP16 before you scaled them. Multiply in float32, then store.
swap("abs().min()", "abs().min().half()")
swap("gradients[gradients != 0].abs()", "gradients.half()[gradients != 0].abs()")
put("gradients = gradients.half()", before="smallest =")

# %% wrong sign-forgotten
# You left out the negative gradients, or compared them with their signs. Take `abs()` first.
swap("gradients != 0].abs()", "gradients > 0]")
swap(".abs()", "")
of("count_survivors", swap("!= 0", "> 0", nth=0))

# %% wrong below-one
# Where the gradients are large, your scale is below 1. It must be at least 1.
of("by_logarithm", swap("max(0, exponent)", "exponent"))
put("while (smallest * scale / 2).half() != 0: scale /= 2", before="return scale")

# %% wrong wants-normal
# Your scale lifts every gradient into the normal range, to 2**-14 or more. That keeps full
# precision, but a gradient needs less to survive: subnormal numbers aren't zero.
swap("(smallest * scale).half() == 0", "abs(smallest * scale) < torch.finfo(torch.float16).tiny")
of("by_logarithm", put("exponent = math.ceil(-14 - math.log2(smallest))", before="return"))

# %% wrong stops-at-smallest-number
# Your scale lifts the smallest gradient to 2**-24 or more. It needn't go that far: what lies above
# half of 2**-24 is rounded up to it. Try your scale divided by 2.
swap("(smallest * scale).half() == 0", "abs(smallest * scale) < 2**-24")
of("by_logarithm", put("exponent = math.ceil(-24 - math.log2(smallest))", before="return"))

# %% wrong tie-survives
# Exactly 2**-25 lies half-way between 0 and 2**-24. A tie goes to the even mantissa, which is 0. So
# your scale is too small by a factor of 2 there.
swap("(smallest * scale).half() == 0", "abs(smallest * scale) < 2**-25")
of("by_logarithm", put("exponent = math.ceil(-25 - math.log2(smallest))", before="return"))

# %% wrong doubled-once-more
# Your scale is twice as large as it needs to be. Test before you double.
swap("return scale", "return scale * 2")
of("by_logarithm", swap("max(0, exponent)", "(max(0, exponent) + 1)"))

# %% wrong largest-gradient
# You stop as soon as the largest gradient survives. The small ones are lost first.
swap("min()", "max()")
of("count_survivors", swap("alive = int((gradients != 0).sum())", "alive = 1"))
of("by_logarithm", swap("min()", "max()") & swap("-25 -", "-24 -"))

# %% wrong typical-gradient
# You looked at the average gradient, or at the median. The smallest one decides.
swap("min()", "mean()")
of("by_logarithm", swap("min().item()", "mean().item()"))
swap("min()", "median()")
of("by_logarithm", swap("min()", "quantile(0.5)"))
swap("min()", "mean()") & swap("(smallest * scale).half() == 0", "abs(smallest * scale) < 2**-24")

# %% wrong largest-safe-scale
# You looked for the largest scale at which nothing overflows. That is what GradScaler looks for.
# Here the question is the other end: the smallest scale at which nothing is lost.
swap("min()", "max()") & swap("(smallest * scale).half() == 0", "smallest * scale * 2 < 65520")
of("by_logarithm", swap("min()", "max()") & put(
    "exponent = math.ceil(math.log2(65520 / smallest)) - 1", before="return"))  # fmt: skip

# %% wrong default-scale
# Your scale is never below 65536, the scale at which GradScaler starts. Start from 1.
swap("scale = 1.0", "scale = 65536.0")
of("by_logarithm", swap("max(0", "max(16"))

# %% wrong ready-made

# %% program with_the_course_package
def smallest_scale(gradients):
    from amp_lessons.amp.scaling import smallest_safe_scale

    return smallest_safe_scale(gradients)
