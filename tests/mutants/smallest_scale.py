# === mutant: minimum_of_all -> zeros-counted
def smallest_scale(gradients):
    import math

    smallest = gradients.abs().min().item()
    if smallest == 0:
        return float("inf")
    return 2.0 ** max(0, math.ceil(math.log2(2**-24 / smallest)))


# === mutant: loops_on_a_zero -> zeros-counted
def smallest_scale(gradients):
    smallest = gradients.abs().min()
    scale = 1.0
    while (smallest * scale).half() == 0:
        scale *= 2
    return scale


# === mutant: converts_first -> stored-before-scaled
def smallest_scale(gradients):
    stored = gradients[gradients != 0].half().abs()
    scale = 1.0
    while (stored * scale == 0).any():
        scale *= 2
    return scale


# === mutant: positive_gradients_only -> sign-forgotten
def smallest_scale(gradients):
    smallest = gradients[gradients > 0].min()
    scale = 1.0
    while (smallest * scale).half() == 0:
        scale *= 2
    return scale


# === mutant: shrinks_what_is_large -> below-one
def smallest_scale(gradients):
    import math

    smallest = gradients[gradients != 0].abs().min().item()
    return 2.0 ** (math.floor(-25 - math.log2(smallest)) + 1)


# === mutant: into_the_normal_range -> wants-normal
def smallest_scale(gradients):
    smallest = gradients[gradients != 0].abs().min().item()
    scale = 1.0
    while smallest * scale < torch.finfo(torch.float16).tiny:
        scale *= 2
    return scale


# === mutant: up_to_the_smallest_number -> stops-at-smallest-number
def smallest_scale(gradients):
    smallest = gradients[gradients != 0].abs().min().item()
    scale = 1.0
    while smallest * scale < 2**-24:
        scale = scale * 2
    return scale


# === mutant: half_way_is_enough -> tie-survives
def smallest_scale(gradients):
    smallest = gradients[gradients != 0].abs().min().item()
    scale = 1.0
    while smallest * scale < 2**-25:
        scale = scale * 2
    return scale


# === mutant: from_the_largest -> largest-gradient
def smallest_scale(gradients):
    scale = 1.0
    while (gradients.abs().max() * scale).item() < 2**-24:
        scale *= 2
    return scale


# === mutant: from_the_mean -> average-gradient
def smallest_scale(gradients):
    mean = gradients[gradients != 0].double().abs().mean().item()
    scale = 1.0
    while mean * scale < 2**-24:
        scale *= 2
    return scale


# === mutant: exact_quotient -> not-a-power-of-two
def smallest_scale(gradients):
    smallest = gradients[gradients != 0].abs().double().min().item()
    return max(1.0, 2**-24 / smallest)


# === mutant: the_default_of_gradscaler -> wrong-value
def smallest_scale(gradients):
    return 2.0**16


# === correct: count_survivors
def smallest_scale(gradients):
    alive = int((gradients != 0).sum())
    exponent = 0
    while int(((gradients * 2.0**exponent).half() != 0).sum()) < alive:
        exponent += 1
    return 2**exponent


# === correct: by_logarithm
def smallest_scale(gradients):
    import math

    smallest = gradients[gradients != 0].abs().min().item()
    mantissa, exponent = math.frexp(smallest)
    needed = -24 - (exponent - (1 if mantissa == 0.5 else 0))
    return 2.0 ** max(0, needed)
