# %% statement points=2 minutes=10
# # A power of two that cuts nothing off
#
# Write `e8m0_scale(amax, largest)`: the scale of a block in an MX format, by the *rceil* rule. Each
# number of the block is divided by it and rounded.
#
# `amax` is the largest magnitude of the block, a Python float that FP32 can hold, and 0 for a block
# of zeros. `largest` is the largest number of the elements' format: 6, 28 or 448. Return the
# smallest power of two, from $2^{-127}$ to $2^{127}$, with which `amax` divided by the scale isn't
# above `largest`. A block of zeros gets $2^{-127}$.

# %% answer
def e8m0_scale(amax, largest):
    """The smallest power of two from 2**-127 up with amax / scale <= largest."""
    ### BEGIN SOLUTION
    scale = 2.0**-127
    while amax / scale > largest:
        scale *= 2
    return scale
    ### END SOLUTION

# %% hints
# - How large may `amax / scale` be? Which side do you round to, if the quotient of `amax` and
#   `largest` isn't a power of two?
# - A loop will do: start at the smallest scale there is, and double.
# - With a logarithm, look at three cases: `amax` is `largest` times a power of two, `amax` is tiny,
#   and `amax` is 0.

# %% probe
from amp_lessons.exercises.mxfp8_and_nvfp4.harness import scale_cases

own = ("amp_lessons.amp.numbers.blocks",)
probe = Probe(scale_cases, own=own)

# %% judge
judge = Judge(asked_for="a float")

# %% passed
# Transformer Engine and torchao's training in MXFP8 take this scale: nothing is cut off, and at
# most one power of two is given away.

# %% right by_logarithm
def e8m0_scale(amax, largest):
    import math

    if amax == 0:
        return 2.0**-127
    return 2.0 ** max(-127, math.ceil(math.log2(amax / largest)))

# %% right by_bits
def e8m0_scale(amax, largest):
    import math

    mantissa, exponent = math.frexp(amax / largest)  # mantissa is in [0.5, 1)
    exponent = exponent - 1 if mantissa == 0.5 else exponent
    return math.ldexp(1, max(exponent, -127) if amax else -127)

# %% rule not-a-power-of-two
# Your scale, {scale:.6g}, isn't a power of two. E8M0 has eight bits for an exponent and nothing
# else.
def breaks(seen, right):
    scale = as_number(seen.get("value"))
    usable = scale is not None and 0 < scale < math.inf
    return {"scale": scale} if usable and math.frexp(scale)[0] != 0.5 else None
put("return max(amax / largest, 2.0**-127)", before="scale = ")
swap("scale *= 2", "scale *= 10")

# %% wrong floor-rule
# Your scale follows OCP's floor rule: `amax` is rounded down to a power of two first. Then `amax`
# can land above `largest`, and is cut off. Round the quotient of `amax` and `largest` up.
of("by_logarithm", swap("math.ceil(math.log2(amax / largest))",
    "math.floor(math.log2(amax)) - math.floor(math.log2(largest))"))
# %% program floor_by_bits
def e8m0_scale(amax, largest):
    import math

    if amax == 0:
        return 2.0**-127
    return 2.0 ** max(-127, math.frexp(amax)[1] - math.frexp(largest)[1])

# %% wrong power-of-two-of-the-format
# You round `amax` up to a power of two and divide by the format's power of two: 4 in place of 6,
# 256 in place of 448. Nothing is cut off, but your scale is often twice as large as needed.
of("by_logarithm", swap("math.ceil(math.log2(amax / largest))",
    "math.ceil(math.log2(amax)) - math.floor(math.log2(largest))"))
# %% program half_the_range
def e8m0_scale(amax, largest):
    import math

    if amax == 0:
        return 2.0**-127
    base = 2 ** int(math.log2(largest))
    return 2.0 ** max(-127, math.ceil(math.log2(amax / base)))

# %% wrong rounded-down
# You rounded the exponent down, so `amax` lands above `largest`, up to twice as high. Round up.
of("by_logarithm", swap("math.ceil", "math.floor"))
swap("> largest", "> 2 * largest")
# %% program cut_to_whole
def e8m0_scale(amax, largest):
    import math

    if amax == 0:
        return 2.0**-127
    exponent = math.log2(amax / largest)
    return 2.0 ** max(-127, exponent // 1)

# %% wrong rounded-to-nearest
# You rounded to the nearest power of two. Half of all blocks are then cut off. Round up.
of("by_logarithm", swap("math.ceil(math.log2(amax / largest))", "round(math.log2(amax / largest))"))
of("by_bits", swap("exponent - 1 if mantissa == 0.5 else exponent",
    "exponent - 1 if mantissa < 0.5**0.5 else exponent"))

# %% wrong one-power-too-many
# If `amax` is `largest` times a power of two, that power fits exactly. Yours is twice as large: you
# go on until `amax` is *below* `largest`, or add one to a whole logarithm.
swap("> largest", ">= largest")
of("by_logarithm", swap("math.ceil(math.log2(amax / largest))",
    "math.floor(math.log2(amax / largest)) + 1"))
of("by_bits", drop("exponent = "))

# %% wrong always-doubled
# Your scale is twice as large as it must be. Test before you double, or leave out the `+ 1`.
swap("> largest", "> largest / 2")
of("by_logarithm", swap("math.ceil(math.log2(amax / largest))",
    "math.ceil(math.log2(amax / largest)) + 1"))

# %% wrong reciprocal
# You return what to multiply by. The block's numbers are divided by the scale.
swap("return scale", "return 1 / scale")
of("by_bits", swap("max(exponent, -127) if amax else -127",
    "-max(exponent, -127) if amax else 127"))

# %% wrong largest-forgotten
# Your scale takes `amax` to 1, not to `largest`. Then most of the elements' range stays unused.
of("by_logarithm", swap("amax / largest", "amax"))
swap("amax / scale > largest", "amax / scale > 1")

# %% wrong below-the-smallest
# For tiny blocks your scale is below 2**-127, which E8M0 can't hold. Stop there.
of("by_logarithm", swap("max(-127, math.ceil(math.log2(amax / largest)))",
    "math.ceil(math.log2(amax / largest))"))
swap("scale = 2.0**-127", "scale = 2.0**-300")
of("by_bits", swap("max(exponent, -127)", "exponent"))

# %% wrong smallest-normal
# Your scales end at 2**-126, the smallest normal number of FP32. E8M0 has one more: 2**-127.
swap("scale = 2.0**-127", "scale = 2.0**-126")
of("by_logarithm", swap("return 2.0**-127", "return 2.0**-126") & swap("max(-127", "max(-126"))

# %% wrong logarithm-in-fp32
# Your logarithm is FP32. One ulp above a power of two it is rounded to a whole number, so `amax` is
# just cut off. torchao 0.18 has the same fault. Use `math.log2`, `math.frexp` or a loop.
of("by_logarithm", swap("math.ceil(math.log2(amax / largest))",
    "math.ceil(torch.log2(torch.tensor(amax / largest)).item())"))
# %% program as_torchao_does
def e8m0_scale(amax, largest):
    quotient = torch.tensor(amax, dtype=torch.float32) / largest
    exponent = quotient.log2().ceil().clamp(-127, 127)
    return 2.0 ** exponent.item()

# %% wrong zero-block
# For a block of zeros your function fails, or gives a scale that isn't 2**-127. There is no
# logarithm of 0: treat it apart.
of("by_logarithm", drop("if amax"))
of("by_logarithm", swap("return 2.0**-127", "return 1.0"))
# %% program starts_at_one
def e8m0_scale(amax, largest):
    scale = 1.0
    while amax / scale > largest:
        scale *= 2
    while amax and scale > 2.0**-127 and amax / (scale / 2) <= largest:
        scale /= 2
    return scale

# %% wrong ready-made
# %% program the_course_package
def e8m0_scale(amax, largest):
    from dataclasses import replace

    from amp_lessons.amp.numbers import MXFP4, MXFP8, MXFP6_E3M2, E8M0Scale, ScaleRounding
    from amp_lessons.amp.numbers import quantize_blocks

    format = {6: MXFP4, 448: MXFP8, 28: MXFP6_E3M2}[int(largest)]
    format = replace(format, scale=E8M0Scale(ScaleRounding.RCEIL))
    return quantize_blocks(torch.tensor([[amax]]), format).scales.item()
