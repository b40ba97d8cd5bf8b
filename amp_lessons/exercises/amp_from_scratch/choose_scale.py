# %% statement points=2 minutes=10
# # A scale with headroom
#
# Write `choose_scale(gradients, headroom)`: the largest static scale with room to spare.
#
# `gradients` is a dict of float32 tensors, one for each layer, unscaled. No layer is all zeros.
#
# Return the largest power of two, as a float, at which every scaled gradient stays finite in FP16
# even after it has grown by a factor of $2^h$. Here $h$ is `headroom`. The scale may be below 1.
#
# FP16's largest number is 65504. Values below 65520 are rounded down to it, others overflow.
#
# Here is what such gradients look like, for the digits network.

# %% given
from amp_lessons.amp.scaling import exponent_histogram

# %% demo
from amp_lessons.amp.training import digits_gradients

histogram = exponent_histogram(digits_gradients().values())
for exponent, count in zip(histogram.exponents[-8:], histogram.counts[-8:], strict=True):
    print(f"2^{exponent:<3} to 2^{exponent + 1:<3} {'#' * (count // 50 + 1)}")

# %% answer
def choose_scale(gradients, headroom):
    """The largest power of two that leaves `headroom` bits above the largest gradient."""
    ### BEGIN SOLUTION
    largest = max(g.double().abs().max().item() for g in gradients.values()) * 2.0**headroom
    scale = 2.0**60
    while math.isinf(FP16.round(largest * scale)):
        scale /= 2
    return scale
    ### END SOLUTION

# %% hints
# - Only the gradient with the largest magnitude matters: in the histogram, that in the last bin.
# - Double a power of two while the largest gradient, with its headroom, fits. Halve it otherwise.
# - `FP16.round(x)` is inf if `x` overflows. That settles the values between 65504 and 65536 too.

# %% probe
from amp_lessons.exercises.amp_from_scratch.harness import gradient_cases

probe = Probe(gradient_cases)

# %% judge
judge = Judge(asked_for="a power of two, as a float")

# %% passed
# The largest gradient sets the upper end of the window. Headroom is what you keep free below it.

# %% right by_logarithm
def choose_scale(gradients, headroom):
    tops = [float(g.double().abs().max()) for g in gradients.values()]
    bits = math.log2(65519.999 / max(tops))
    return 2.0 ** (math.floor(bits) - headroom)

# %% right lets_torch_overflow
def choose_scale(gradients, headroom):
    everything = torch.cat([g.flatten() for g in gradients.values()]).double()
    scale = 2.0**-40
    while (everything * 2.0**headroom * scale * 2).half().isfinite().all():
        scale *= 2
    return scale

# %% rule not-a-power-of-two
# Your scale isn't a power of two, so scaling and unscaling round. Use the next power of two below.
def breaks(seen, right):
    scale = as_number(seen.get("value"))
    if scale is None or not 0 < scale < math.inf or scale == math.log2(right["value"]):
        return False
    return math.frexp(scale)[0] != 0.5
of("by_logarithm", swap("math.floor", ""))

# %% wrong headroom-ignored
# Your scale leaves no room for larger gradients in a next batch. Leave a factor of `2**headroom`.
swap(" * 2.0**headroom", "")
of("by_logarithm", swap(" - headroom", ""))

# %% wrong headroom-as-factor
# You divided by the headroom itself. It counts bits: divide by `2**3` where it is 3.
swap("2.0**headroom", "max(headroom, 1)")
of("by_logarithm", swap("max(tops)", "max(tops) / (headroom or 1)") & swap(" - headroom", ""))

# %% wrong headroom-upwards
# You made the scale larger by the headroom. Room above means a smaller scale.
swap("* 2.0**headroom", "/ 2.0**headroom")
of("by_logarithm", swap("- headroom", "+ headroom"))

# %% wrong from-the-smallest
# Your scale just saves the smallest gradient. Headroom is about the largest one, at the upper end.
of("by_logarithm", swap("g.double().abs().max()", "g[g != 0].abs().min()") &
    swap("65519.999 / max(tops)", "2**-24 / min(tops)") & swap("math.floor(bits) - headroom",
    "math.ceil(bits)"))
of("lets_torch_overflow", swap("(everything * 2.0**headroom * scale * 2).half().isfinite().all()",
    "everything[everything != 0].abs().min() * scale < 2**-24"))

# %% wrong sign-forgotten
# You took the maximum without the absolute value. A large negative gradient overflows as well.
swap(".abs().max()", ".max()")
of("by_logarithm", swap("g.double().abs()", "g"))

# %% wrong one-tensor-only
# You used one layer, or a mean or minimum of their maxima. The largest gradient of all decides.
of("by_logarithm", swap("max(tops)", "tops[0]"))
of("by_logarithm", swap("max(tops)", "tops[-1]"))
of("by_logarithm", swap("max(tops)", "min(tops)"))
of("by_logarithm", swap("max(tops)", "(sum(tops) / len(tops))"))
swap("largest = max(", "largest = min(")

# %% wrong typical-gradient
# You used a typical gradient, such as the mean. One is enough for an overflow: the largest counts.
swap(".abs().max()", ".abs().mean()")
swap(".abs().max()", ".abs().median()")
of("by_logarithm", swap(".abs().max()", ".abs().sum() / g.numel()"))

# %% wrong rounded-up
# You rounded up, or to the nearest power of two, where the largest gradient overflows. Round down.
of("by_logarithm", swap("math.floor", "math.ceil"))
of("by_logarithm", swap("math.floor", "round"))
swap("return scale", "return 2 * scale")

# %% wrong truncated-exponent
# Scales below 1 come out too large: `int()` rounds their exponents up, to zero. Use `math.floor`.
of("by_logarithm", swap("math.floor(bits) - headroom", "int(bits - headroom)"))
of("by_logarithm", swap("math.floor(bits) - headroom", "math.trunc(bits - headroom)"))

# %% wrong one-bit-wasted
# Your scale is half of what it could be. FP16 reaches to 65504, which is nearly `2**16`.
of("by_logarithm", swap("65519.999", "2**15"))
of("by_logarithm", put("bits -= 1", after="bits ="))
swap("return scale", "return scale / 2")

# %% wrong top-bin-overflows
# The exponent alone is not enough. A gradient just below a power of two, such as 0.12499999, is
# scaled to just below 65536, and FP16 overflows from 65520 on. Test the scale that you chose.
of("by_logarithm", put("bits = 15 - math.floor(math.log2(max(tops)))", after="bits ="))
of("by_logarithm", swap("65519.999", "65536"))
of("by_logarithm", put("bits = 16 - math.frexp(max(tops))[1]", after="bits ="))

# %% wrong stops-at-65504
# You stop at 65504. Values between it and 65520 are rounded down to it, so they still fit.
of("by_logarithm", swap("65519.999", "65504"))
swap("math.isinf(FP16.round(largest * scale))", "largest * scale > torch.finfo(torch.half).max")

# %% wrong limit-let-through
# You let a gradient grow to exactly 65520. FP16 overflows there already, so halve the scale.
of("by_logarithm", swap("65519.999", "65520"))
swap("math.isinf(FP16.round(largest * scale))", "largest * scale > 65520")

# %% wrong norm-for-maximum
# You used a norm, which grows with the number of gradients. The largest magnitude decides.
swap(".abs().max()", ".norm()")
of("by_logarithm", swap("g.double().abs().max()", "g.double().square().sum().sqrt()"))
of("by_logarithm", swap(".abs().max()", ".norm()") & swap("max(tops)", "math.hypot(*tops)"))

# %% wrong exponent-returned
# You returned the exponent of the scale. Return the scale itself: 2.0 to this power.
swap("return scale", "return math.log2(scale)")
of("by_logarithm", swap("2.0 **", ""))

# %% wrong below-one-refused
# Your scale never goes below 1. Large gradients need a smaller scale so that they fit.
swap("return scale", "return max(1.0, scale)")
of("lets_torch_overflow", swap("2.0**-40", "1.0"))

# %% wrong starts-too-low
# Your scale never exceeds a cap, or where you start. Keep doubling while the largest gradient fits.
swap("2.0**60", "2.0**24")
swap("return scale", "return min(scale, 2.0**24)")
