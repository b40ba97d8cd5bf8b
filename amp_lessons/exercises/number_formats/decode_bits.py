# %% statement points=2 minutes=10
# # Decode a bit pattern
#
# Write `decode_bits(code, exponent_bits, mantissa_bits)`: return a bit pattern's value as a float.
#
# The layout is IEEE 754's: one sign bit first, then the exponent, then the mantissa. The exponent
# is stored with a bias of `2**(exponent_bits - 1) - 1`. Two stored exponents are special:
#
# - 0 stands for zero and the subnormal numbers;
# - all ones stands for infinity (mantissa 0) or NaN (any other mantissa).
#
# `code` is an integer. For example, `0x3C00` is 1.0 in FP16, which has 5 exponent bits and 10
# mantissa bits. Infinity and NaN are `float("inf")` and `float("nan")`.

# %% answer
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

# %% hints
# - Use shifts and masks: the sign, for example, is `code >> (exponent_bits + mantissa_bits)`.
# - The exponent field needs three branches: 0, all ones, and everything in between.
# - In between, the value is (-1)**sign * (1 + mantissa / 2**mantissa_bits) * 2**(exponent - bias).
#   If the stored exponent is 0, there is no hidden 1, and the exponent is 1 - bias.

# %% probe
from amp_lessons.exercises.number_formats.harness import bit_patterns

ROOM = "amp_lessons.amp.numbers.formats:Format"
probe = Probe(bit_patterns, own=(f"{ROOM}.decode", f"{ROOM}._decode_array", f"{ROOM}.fields"))

# %% judge
judge = Judge(asked_for="a float")

# %% passed
# You can now decode any IEEE-style format.

# %% right through_strings
def decode_bits(code, exponent_bits, mantissa_bits):
    bits = f"{code:0{1 + exponent_bits + mantissa_bits}b}"
    exponent, mantissa = bits[1 : 1 + exponent_bits], bits[1 + exponent_bits :]
    value = int(mantissa, 2)
    if "0" not in exponent:
        value = float("nan") if value else float("inf")
    else:
        bias = 2 ** (exponent_bits - 1) - 1
        value += 2**mantissa_bits if "1" in exponent else 0
        value *= 2.0 ** (max(int(exponent, 2), 1) - bias - mantissa_bits)
    return -value if bits[0] == "1" else value

# %% wrong bias-forgotten
# You used the stored exponent as it is. It is stored with a bias of `2**(exponent_bits - 1) - 1`
# added, so that negative exponents need no sign of their own. Subtract the bias.
swap("bias = 2 ** (exponent_bits - 1) - 1", "bias = 0")
of("through_strings", swap(" - bias", ""))

# %% wrong bias-of-fp16
# Your FP16 numbers are right, but not the others. The bias is `2**(exponent_bits - 1) - 1`.
swap("bias = 2 ** (exponent_bits - 1) - 1", "bias = 15")
of("through_strings", swap("- bias", "- 15"))

# %% wrong bias-off-by-one
# Your numbers are too small by a factor of 2. The bias is `2**(exponent_bits - 1) - 1`, 15 in FP16.
swap("2 ** (exponent_bits - 1) - 1", "2 ** (exponent_bits - 1)")
of("through_strings", swap("- bias", "- (1 << exponent_bits - 1)"))

# %% wrong fp16-only
# You decoded every pattern as FP16, with widths of 5 and 10. Use those that your function is given.
put("exponent_bits, mantissa_bits = 5, 10", before="mantissa =")
of("through_strings", put("exponent_bits = 5; mantissa_bits = 10", before="bits ="))

# %% wrong fields-in-the-wrong-order
# You took the exponent from the lowest bits. The order is sign, exponent, mantissa.
put("exponent = code % 2**exponent_bits\nmantissa = (code >> exponent_bits) % 2**mantissa_bits",
    before="sign =")
of("through_strings", swap("[1 : 1 + exponent_bits]", "[-exponent_bits:]") &
    swap("[1 + exponent_bits :]", "[1 : 1 + mantissa_bits]"))

# %% wrong hidden-one-forgotten
# You took the mantissa for the whole significand. A normal number has a leading 1 that isn't
# stored: its significand is `1 + mantissa / 2**mantissa_bits`.
swap("(1 + fraction)", "fraction")
of("through_strings", drop("value += "))

# %% wrong mantissa-not-divided
# You added the mantissa as a whole number. Divide it by `2**mantissa_bits` before that.
swap(" / 2**mantissa_bits", "")
of("through_strings", swap("+= 2**mantissa_bits", "+= 1") & swap(" - mantissa_bits)", ")"))

# %% wrong fraction-lost
# Your numbers are all powers of two: the mantissa is lost. `//` and `>>` drop it. Divide with `/`.
swap(" / 2**mantissa_bits", " // 2**mantissa_bits")
of("through_strings", put("value >>= mantissa_bits; value <<= mantissa_bits", before="value +="))

# %% wrong hidden-one-always
# You gave the hidden 1 to every number, so zero is wrong too. A stored exponent of 0 has none.
drop("if exponent == 0")
of("through_strings", swap(' if "1" in exponent else 0', ""))
swap("return sign * fraction", "return sign * (1 + fraction)")

# %% wrong subnormal-as-normal
# You gave the hidden 1 to the subnormal numbers too. A stored exponent of 0 has none.
of("through_strings", swap('if "1" in exponent', 'if value or "1" in exponent'))
swap("sign * fraction", "sign * (mantissa > 0) * (1 + fraction)")
swap("if exponent == 0", "if exponent == mantissa == 0")

# %% wrong subnormal-exponent
# Your subnormal numbers are half as large as they should be. A stored exponent of 0 means the same
# power of two as a stored exponent of 1: `2**(1 - bias)`. That leaves no gap.
swap("(1 - bias)", "-bias")
of("through_strings", swap("max(int(exponent, 2), 1)", "int(exponent, 2)"))

# %% wrong subnormals-flushed
# You return 0 for every stored exponent of 0. Only a mantissa of 0 is zero there. The others are
# the subnormal numbers: `mantissa / 2**mantissa_bits * 2**(1 - bias)`.
swap("sign * fraction * 2.0 ** (1 - bias)", "0.0")
of("through_strings", put("value *= '1' in exponent", before="return -value"))

# %% wrong specials-as-numbers
# You decoded the top exponent like any other. All ones stand for infinity or NaN.
drop("if exponent == 2")
of("through_strings", swap('"0" not in exponent', 'exponent == ""'))

# %% wrong infinity-or-nan
# You confused infinity and NaN. With the top exponent, a mantissa of 0 means infinity.
swap('float("nan") if mantissa else ', "")
swap('float("nan") if mantissa else sign * ', "")
of("through_strings", swap('float("nan") if value else ', ""))
swap(' if mantissa else sign * float("inf")', "")
swap("if mantissa else", "if not mantissa else")

# %% wrong quiet-nan-only
# You return NaN only for some mantissas, such as those whose highest bit is 1. With the top
# exponent, every mantissa other than 0 means NaN.
swap("if mantissa else", "if fraction >= 0.5 else")
of("through_strings", swap('"nan") if value', '"nan") if mantissa[0] == "1"'))

# %% wrong infinity-without-sign
# Your infinity is always positive. The sign bit applies to it too.
swap('sign * float("inf")', 'float("inf")')
of("through_strings", swap("return -value if ", "return -value if '0' in exponent and "))

# %% wrong sign-ignored
# Your numbers are never negative. The highest bit is the sign: 1 means negative.
swap("-1.0 if", "1.0 if")
of("through_strings", swap('-value if bits[0] == "1" else ', ""))

# %% wrong ready-made

# %% program with_the_course_package
def decode_bits(code, exponent_bits, mantissa_bits):
    from amp_lessons.amp.numbers import Format

    return Format("mine", exponent_bits, mantissa_bits).decode(code)

# %% program its_fields
def decode_bits(code, exponent_bits, mantissa_bits):
    from amp_lessons.amp.numbers import Format

    f = Format("mine", exponent_bits, mantissa_bits)
    sign, exponent, mantissa, _ = f.fields(code)
    if exponent == 2**exponent_bits - 1:
        return float("nan") if mantissa else (-1.0) ** sign * float("inf")
    one = 2**mantissa_bits if exponent else 0
    return (-1.0) ** sign * (one + mantissa) * 2.0 ** (max(exponent, 1) - f.bias - mantissa_bits)
