# === mutant: plus_eps -> eps-everywhere
def next_float(x):
    return x + torch.finfo(torch.float16).eps


# === mutant: times_one_plus_eps -> eps-relative
def next_float(x):
    return torch.tensor(x * (1 + 2**-10)).half().item()


# === mutant: bits_plus_one -> negative-away
def next_float(x):
    bits = torch.tensor(x, dtype=torch.float16).view(torch.int16)
    return (bits + 1).view(torch.float16).item()


# === mutant: bits_by_sign_without_zero -> zero-forgotten
def next_float(x):
    bits = torch.tensor(x, dtype=torch.float16).view(torch.int16)
    bits = bits + 1 if x > 0 else bits - 1
    return bits.view(torch.float16).item()


# === mutant: minus_zero_counted_as_positive -> zero-forgotten
def next_float(x):
    bits = torch.tensor(x, dtype=torch.float16).view(torch.int16)
    bits = bits + 1 if x >= 0 else bits - 1
    return bits.view(torch.float16).item()


# === mutant: one_more_binade -> no-infinity
def next_float(x):
    import math

    if x == 0:
        return 2.0**-24
    mantissa, exponent = math.frexp(x)
    if mantissa == -0.5:
        exponent -= 1
    return x + 2.0 ** max(exponent - 11, -24)


# === mutant: nextafter_in_float32 -> float32-neighbour
def next_float(x):
    return torch.nextafter(torch.tensor(x), torch.tensor(float("inf"))).item()


# === mutant: nextafter_of_python -> float64-neighbour
def next_float(x):
    import math

    return math.nextafter(x, math.inf)


# === mutant: spacing_by_logarithm -> subnormals-forgotten
def next_float(x):
    import math

    exponent = math.floor(math.log2(abs(x)))
    return x + 2.0 ** (exponent - 10)


# === mutant: plus_own_ulp -> spacing-below-a-power
def next_float(x):
    import math

    if x == 65504:
        return math.inf
    exponent = max(math.frexp(x)[1] - 1, -14) if x else -14
    return x + 2.0 ** (exponent - 10)


# === mutant: down_instead_of_up -> wrong-value
def next_float(x):
    import numpy as np

    return float(np.nextafter(np.float16(x), np.float16(-np.inf)))


# === correct: numpy_nextafter
def next_float(x):
    import numpy as np

    return np.nextafter(np.float16(x), np.float16(np.inf))


# === correct: by_search
def next_float(x):
    patterns = torch.arange(-32768, 32768).to(torch.int16).view(torch.float16)
    larger = patterns[patterns > x]
    return larger.min().item()
