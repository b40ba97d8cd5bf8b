# === mutant: to_the_very_top -> headroom-ignored
def choose_scale(gradients, headroom):
    largest = max(float(g.abs().max()) for g in gradients.values())
    return 2.0 ** math.floor(math.log2(65519 / largest))


# === mutant: divides_by_the_bits -> headroom-as-factor
def choose_scale(gradients, headroom):
    largest = max(float(g.abs().max()) for g in gradients.values())
    return 2.0 ** math.floor(math.log2(65519 / largest / max(headroom, 1)))


# === mutant: room_upwards -> headroom-upwards
def choose_scale(gradients, headroom):
    largest = max(float(g.abs().max()) for g in gradients.values())
    return 2.0 ** (math.floor(math.log2(65519 / largest)) + headroom)


# === mutant: saves_the_smallest -> from-the-smallest
def choose_scale(gradients, headroom):
    everything = torch.cat([g.flatten() for g in gradients.values()]).abs()
    smallest = everything[everything > 0].min().item()
    scale = 1.0
    while smallest * scale < 2**-24:
        scale *= 2
    while smallest * scale / 2 >= 2**-24:
        scale /= 2
    return scale


# === mutant: maximum_with_its_sign -> sign-forgotten
def choose_scale(gradients, headroom):
    largest = max(g.max().item() for g in gradients.values())
    return 2.0 ** math.floor(math.log2(65519 / largest / 2**headroom))


# === mutant: first_layer_only -> one-tensor-only
def choose_scale(gradients, headroom):
    largest = next(iter(gradients.values())).abs().max().item()
    return 2.0 ** math.floor(math.log2(65519 / largest / 2**headroom))


# === mutant: last_layer_wins -> one-tensor-only
def choose_scale(gradients, headroom):
    for name, g in gradients.items():
        largest = g.abs().max().item()
    return 2.0 ** math.floor(math.log2(65519 / largest / 2**headroom))


# === mutant: mean_of_the_layers_maxima -> one-tensor-only
def choose_scale(gradients, headroom):
    tops = [g.double().abs().max().item() for g in gradients.values()]
    return 2.0 ** math.floor(math.log2(65519 / (sum(tops) / len(tops)) / 2**headroom))


# === mutant: mean_gradient -> typical-gradient
def choose_scale(gradients, headroom):
    typical = max(g.double().abs().mean().item() for g in gradients.values())
    return 2.0 ** math.floor(math.log2(65519 / typical / 2**headroom))


# === mutant: exact_quotient -> not-a-power-of-two
def choose_scale(gradients, headroom):
    largest = max(g.double().abs().max().item() for g in gradients.values())
    return 65504.0 / (largest * 2.0**headroom)


# === mutant: rounds_up -> rounded-up
def choose_scale(gradients, headroom):
    largest = max(float(g.abs().max()) for g in gradients.values())
    return 2.0 ** math.ceil(math.log2(65519 / largest / 2**headroom))


# === mutant: fifteen_bits -> one-bit-wasted
def choose_scale(gradients, headroom):
    largest = max(float(g.abs().max()) for g in gradients.values())
    return 2.0 ** math.floor(math.log2(2**15 / largest / 2**headroom))


# === mutant: exponent_of_the_top_bin -> top-bin-overflows
def choose_scale(gradients, headroom):
    top = exponent_histogram(gradients.values()).exponents[-1]
    return 2.0 ** (15 - headroom - top)


# === mutant: never_below_one -> below-one-refused
def choose_scale(gradients, headroom):
    scale = 1.0
    while not any(
        math.isinf(FP16.round(g.abs().max().item() * 2**headroom * scale * 2))
        for g in gradients.values()
    ):
        scale *= 2
    return scale


# === mutant: the_default_of_gradscaler -> wrong-value
def choose_scale(gradients, headroom):
    return 2.0**16


# === mutant: int_for_floor -> truncated-exponent
def choose_scale(gradients, headroom):
    largest = max(g.abs().max().item() for g in gradients.values())
    return 2.0 ** int(math.log2(65504 / largest) - headroom)



# === correct: lets_torch_overflow
def choose_scale(gradients, headroom):
    everything = torch.cat([g.flatten() for g in gradients.values()]).double()
    scale = 2.0**-40
    while (everything * 2.0**headroom * scale * 2).half().isfinite().all():
        scale *= 2
    return scale


# === correct: histogram_then_a_test
def choose_scale(gradients, headroom):
    scale = 2.0 ** (15 - headroom - exponent_histogram(gradients.values()).exponents[-1])
    largest = max(g.abs().max().item() for g in gradients.values())
    return scale / 2 if largest * scale * 2**headroom >= 65520 else scale


# === mutant: finfo_max -> stops-at-65504
def choose_scale(gradients, headroom):
    top = max(g.abs().max().item() for g in gradients.values())
    return 2.0 ** math.floor(math.log2(torch.finfo(torch.float16).max / (top * 2**headroom)))


# === mutant: norm_instead_of_max -> norm-for-maximum
def choose_scale(gradients, headroom):
    top = max(g.norm().item() for g in gradients.values()) * 2.0**headroom
    return 2.0 ** math.floor(math.log2(65519.999 / top))


# === mutant: total_norm -> norm-for-maximum
def choose_scale(gradients, headroom):
    top = torch.nn.utils.get_total_norm(list(gradients.values())).item() * 2.0**headroom
    return 2.0 ** math.floor(math.log2(65519.999 / top))


# === mutant: the_exponent -> exponent-returned
def choose_scale(gradients, headroom):
    top = max(g.double().abs().max().item() for g in gradients.values())
    return math.floor(math.log2(65519.999 / top)) - headroom


# === correct: frexp
def choose_scale(gradients: dict[str, torch.Tensor], headroom: int) -> float:
    top = max(float(g.double().abs().max()) for g in gradients.values())
    mantissa, exponent = math.frexp(top)
    room = 16 - exponent - headroom
    return math.ldexp(1.0, room if mantissa * 65536 < 65520 else room - 1)
