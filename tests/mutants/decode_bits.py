# === mutant: no_bias -> bias-forgotten
def decode_bits(code, exponent_bits, mantissa_bits):
    s = code >> (exponent_bits + mantissa_bits)
    e = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
    m = code & ((1 << mantissa_bits) - 1)
    if e == (1 << exponent_bits) - 1:
        return float("nan") if m else float("-inf") if s else float("inf")
    if e == 0:
        return (-1) ** s * m * 2.0 ** (1 - mantissa_bits)
    return (-1) ** s * (1 + m / 2**mantissa_bits) * 2.0**e


# === mutant: mantissa_is_everything -> hidden-one-forgotten
def decode_bits(code, exponent_bits, mantissa_bits):
    bits = format(code, f"0{1 + exponent_bits + mantissa_bits}b")
    sign = -1.0 if bits[0] == "1" else 1.0
    e = int(bits[1 : 1 + exponent_bits], 2)
    m = int(bits[1 + exponent_bits :], 2)
    bias = 2 ** (exponent_bits - 1) - 1
    if e == 2**exponent_bits - 1:
        return sign * float("inf") if m == 0 else float("nan")
    return sign * (m / 2**mantissa_bits) * 2.0 ** (max(e, 1) - bias)


# === mutant: no_subnormals -> subnormal-as-normal
def decode_bits(code, exponent_bits, mantissa_bits):
    sign = 1 - 2 * (code >> (exponent_bits + mantissa_bits))
    e = code >> mantissa_bits & (2**exponent_bits - 1)
    m = code % 2**mantissa_bits
    if e == 2**exponent_bits - 1:
        return sign * float("inf") if m == 0 else float("nan")
    return sign * (1 + m / 2**mantissa_bits) * 2.0 ** (e - 2 ** (exponent_bits - 1) + 1)


# === mutant: subnormals_half_as_large -> subnormal-exponent
def decode_bits(code, exponent_bits, mantissa_bits):
    sign = (-1.0) ** (code >> (exponent_bits + mantissa_bits))
    e = (code >> mantissa_bits) & (2**exponent_bits - 1)
    fraction = (code & (2**mantissa_bits - 1)) / 2**mantissa_bits
    power = 2.0 ** (e - (2 ** (exponent_bits - 1) - 1))
    if e == 2**exponent_bits - 1:
        return sign * float("inf") if fraction == 0 else float("nan")
    if e == 0:
        return sign * fraction * power
    return sign * (1 + fraction) * power


# === mutant: no_sign -> sign-ignored
def decode_bits(code, exponent_bits, mantissa_bits):
    bias = 2 ** (exponent_bits - 1) - 1
    e = (code >> mantissa_bits) & (2**exponent_bits - 1)
    f = (code & (2**mantissa_bits - 1)) / 2**mantissa_bits
    if e == 2**exponent_bits - 1:
        return float("nan") if f else float("inf")
    return (1 + f) * 2.0 ** (e - bias) if e else f * 2.0 ** (1 - bias)


# === mutant: no_infinities -> specials-as-numbers
def decode_bits(code, exponent_bits, mantissa_bits):
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    bias = 2 ** (exponent_bits - 1) - 1
    e = (code >> mantissa_bits) & (2**exponent_bits - 1)
    f = (code & (2**mantissa_bits - 1)) / 2**mantissa_bits
    return sign * ((1 + f) * 2.0 ** (e - bias) if e else f * 2.0 ** (1 - bias))


# === mutant: flushes_subnormals -> subnormals-flushed
def decode_bits(code, exponent_bits, mantissa_bits):
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    bias = 2 ** (exponent_bits - 1) - 1
    e = (code >> mantissa_bits) & (2**exponent_bits - 1)
    f = (code & (2**mantissa_bits - 1)) / 2**mantissa_bits
    if e == 2**exponent_bits - 1:
        return float("nan") if f else sign * float("inf")
    if e == 0:
        return 0.0
    return sign * (1 + f) * 2.0 ** (e - bias)


# === mutant: bias_from_the_lesson -> bias-of-fp16
def decode_bits(code, exponent_bits, mantissa_bits):
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    e = (code >> mantissa_bits) & (2**exponent_bits - 1)
    f = (code & (2**mantissa_bits - 1)) / 2**mantissa_bits
    if e == 2**exponent_bits - 1:
        return float("nan") if f else sign * float("inf")
    if e == 0:
        return sign * f * 2.0**-14
    return sign * (1 + f) * 2.0 ** (e - 15)


# === mutant: top_exponent_is_infinity -> nan-forgotten
def decode_bits(code, exponent_bits, mantissa_bits):
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    bias = 2 ** (exponent_bits - 1) - 1
    e = (code >> mantissa_bits) & (2**exponent_bits - 1)
    f = (code & (2**mantissa_bits - 1)) / 2**mantissa_bits
    if e == 2**exponent_bits - 1:
        return sign * float("inf")
    return sign * ((1 + f) * 2.0 ** (e - bias) if e else f * 2.0 ** (1 - bias))


# === mutant: only_plus_infinity -> infinity-without-sign
def decode_bits(code, exponent_bits, mantissa_bits):
    sign = -1.0 if code >> (exponent_bits + mantissa_bits) else 1.0
    bias = 2 ** (exponent_bits - 1) - 1
    e = (code >> mantissa_bits) & (2**exponent_bits - 1)
    f = (code & (2**mantissa_bits - 1)) / 2**mantissa_bits
    if e == 2**exponent_bits - 1:
        return float("nan") if f else float("inf")
    return sign * ((1 + f) * 2.0 ** (e - bias) if e else f * 2.0 ** (1 - bias))


# === mutant: two_mistakes_at_once -> wrong-value
def decode_bits(code, exponent_bits, mantissa_bits):
    e = (code >> mantissa_bits) & (2**exponent_bits - 1)
    f = (code & (2**mantissa_bits - 1)) / 2**mantissa_bits
    return (1 + f) * 2.0**e


# === mutant: fp16_only -> wrong-value
def decode_bits(code, exponent_bits, mantissa_bits):
    code = code - 65536 if code >= 32768 else code
    return torch.tensor(code, dtype=torch.int16).view(torch.float16).item()


# === correct: through_strings
def decode_bits(code, exponent_bits, mantissa_bits):
    bits = f"{code:0{1 + exponent_bits + mantissa_bits}b}"
    exponent, mantissa = bits[1 : 1 + exponent_bits], bits[1 + exponent_bits :]
    value = int(mantissa, 2)
    if "0" not in exponent:
        value = float("nan") if value else float("inf")
    else:
        value += 2**mantissa_bits if "1" in exponent else 0
        value *= 2.0 ** (max(int(exponent, 2), 1) - 2 ** (exponent_bits - 1) + 1 - mantissa_bits)
    return -value if bits[0] == "1" else value


# === correct: with_the_course_package
def decode_bits(code, exponent_bits, mantissa_bits):
    from amp_lessons.formats import Format

    return Format("mine", exponent_bits, mantissa_bits).decode(code)
