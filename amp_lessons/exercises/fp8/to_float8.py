# %% statement points=2 minutes=10
# # A tensor in FP8
#
# Write `to_float8(x)`. It stores a tensor in E4M3, with a scale of its own.
#
# `x` is float32, float16 or bfloat16, of any shape, with at least one element. It is all zero, or
# its largest magnitude is between $10^{-10}$ and $10^{10}$. Return a pair `(q, scale)`:
#
# - `q` has the dtype `torch.float8_e4m3fn` and the shape of `x`.
# - `scale` is one positive number, a float or a tensor with one element.
# - `q.float() / scale` is `x`, up to the rounding of E4M3.
# - The largest `|q|` is 448, so that the whole range is used. If you prefer a scale that is a power
#   of two, the largest `|q|` is at least 224.
#
# Leave `x` as it is.

# %% answer
def to_float8(x):
    """(q, scale): x times the scale, as float8_e4m3fn, and the scale."""
    ### BEGIN SOLUTION
    wide = x.float()
    amax = wide.abs().max()
    if amax == 0:
        amax = torch.ones(())
    scale = 448 / amax
    return (wide * scale).to(torch.float8_e4m3fn), scale
    ### END SOLUTION

# %% hints
# - Call the largest magnitude amax. Which factor takes it to 448, the largest number of E4M3?
# - In which dtype do you compute that factor? What is it if every element is zero?

# %% probe
from amp_lessons.exercises.fp8.harness import float8_cases, play_float8

probe = Probe(float8_cases, play=play_float8, own=("amp_lessons.amp.numbers.float8",))

# %% judge
judge = Judge(asked_for="a pair (q, scale)")

# %% passed
# FP8 training casts like this: find the largest magnitude, scale, round, and keep the scale.

# %% right a_power_of_two
def to_float8(x):
    import math

    amax = x.abs().max().item()
    scale = 2.0 ** math.floor(math.log2(448 / amax)) if amax else 1.0
    return (x.to(torch.float32) * scale).to(torch.float8_e4m3fn), scale

# %% right as_torchao_does
def to_float8(x):
    amax = torch.max(torch.abs(x)).to(torch.float64)
    scale = (torch.finfo(torch.float8_e4m3fn).max / torch.clamp(amax, min=1e-12)).float()
    scaled = x.to(torch.float32) * scale
    return scaled.clamp(-448, 448).to(torch.float8_e4m3fn), scale

# %% rule x-changed
# You changed `x` itself, and the caller still needs it. For a float32 tensor, `x.float()` is not a
# copy but the same tensor, so `*=` and `mul_` change it. Write `x.float() * scale`.
def breaks(seen, right):
    return "changed" in seen
swap("(wide * scale)", "wide.mul_(scale)")
of("as_torchao_does", swap("scaled = x.to(torch.float32) * scale", "scaled = x.mul_(scale)"))

# %% rule another-dtype
# Your `q` is a tensor of {dtype}. E4M3 is `torch.float8_e4m3fn`, with one byte for each number.
def breaks(seen, right):
    dtype = noted(seen, "dtype of q")
    return dtype not in (None, "float8_e4m3fn") and {"dtype": dtype}
swap(".to(torch.float8_e4m3fn)", ".to(torch.float8_e5m2)")
swap(".to(torch.float8_e4m3fn)", ".round().to(torch.int8)")

# %% rule several-scales
# Your scale is {scale}. Several are more exact, but this exercise asks for one number.
def breaks(seen, right):
    scale = noted(seen, "scale") or ""
    return "elements" in scale and {"scale": scale}
swap("max()", "amax(-1, keepdim=True).clamp(min=1e-12)") & drop("if amax")
of("as_torchao_does", swap("torch.max(torch.abs(x))", "x.abs().amax(0)"))

# %% rule reciprocal
# You return the reciprocal of the scale: your `q * scale` is `x`, and `q / scale` should be.
def breaks(seen, right):
    return noted(seen, "what gives x back, q / scale or q * scale") == "q * scale"
swap("(torch.float8_e4m3fn), scale", "(torch.float8_e4m3fn), 1 / scale")
of("a_power_of_two", swap("(torch.float8_e4m3fn), scale", "(torch.float8_e4m3fn), 1 / scale"))

# %% wrong no-scale
# You cast `x` before you scale it, or you never scale it. In E4M3 everything below 0.001 becomes
# zero, and nothing is larger than 448. Multiply first, by 448 divided by the largest magnitude.
swap("scale = 448 / amax", "scale = 1.0")
of("a_power_of_two", swap("(x.to(torch.float32) * scale).to(", "x.to("))

# %% wrong sign-forgotten
# You took the largest value and not the largest *magnitude*. A large negative number then lands
# below -448, where E4M3 ends, and negative numbers alone give no useful scale. Take `abs()` first.
swap("wide.abs().max()", "wide.max()")
swap("wide.abs().max()", "wide.max().clamp(min=1e-12)")
swap("wide.abs().max()", "wide.max()") & swap("amax == 0", "amax <= 0")
of("as_torchao_does", swap("torch.max(torch.abs(x))", "torch.max(x)"))
of("a_power_of_two", swap("x.abs().max()", "x.max().abs()"))

# %% wrong beyond-the-range
# Your scale takes the largest number beyond 448, where E4M3 ends, so large numbers are cut off. A
# power of two must be rounded down. 57344 is the end of E5M2, another format.
swap("448 /", "torch.finfo(torch.float8_e5m2).max /")
of("a_power_of_two", swap("floor", "ceil"))
of("a_power_of_two", swap("math.floor(math.log2(448 / amax))", "round(math.log2(448 / amax))"))

# %% wrong range-not-used
# Your largest `|q|` is too small, so small numbers of `x` lose bits that E4M3 has. Let the scale
# take the largest magnitude to 448. With a power of two it must reach 224.
swap("448 /", "224 /")
of("a_power_of_two", swap("math.log2(448 / amax)", "-math.log2(amax)"))

# %% wrong zero-tensor
# 448 / 0 is inf, which is no scale. If all of `x` is zero, any finite positive scale is right.
drop("if amax")
of("as_torchao_does", swap("torch.clamp(amax, min=1e-12)", "amax"))
swap("torch.ones(())", "torch.tensor(torch.inf)")

# %% wrong tiny-tensor
# A tensor of tiny numbers doesn't use the range. You keep amax away from zero with a number that is
# too large: amax may be 1e-10. Treat zero apart, or take a much smaller number.
drop("if amax") & swap("448 / amax", "448 / (amax + 1e-8)")
of("as_torchao_does", swap("1e-12", "torch.finfo(torch.float32).eps"))
swap("amax == 0", "amax < 1e-8")

# %% wrong scale-in-fp16
# You compute in the dtype of `x`, and FP16 overflows. Cast `x` and the scale to float32 first.
swap("x.float()", "x")
swap("(wide * scale)", "(x * scale.to(x.dtype))")
of("as_torchao_does", swap(".to(torch.float64)", "") & swap("x.to(torch.float32)", "x"))

# %% rule no-pair
# You returned a {what}. Return `(q, scale)`: without the scale nobody can turn `q` back into `x`.
def breaks(seen, right):
    what = noted(seen, "returned")
    return what not in (None, "a pair") and {"what": what}
swap("e4m3fn), scale", "e4m3fn)")

# %% wrong ready-made
# %% program the_course_quantises
def to_float8(x):
    from amp_lessons.amp.numbers import quantise, scale_for

    scale = scale_for(x.float().abs().max())
    return quantise(x.float(), scale).to(torch.float8_e4m3fn), scale
