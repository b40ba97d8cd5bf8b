# === mutant: amp_is_half -> amp-halves
def training_bytes(parameters, optimizer, precision):
    width = 4 if precision == "fp32" else 2
    return width * parameters * {"sgd": 2, "momentum": 3, "adam": 4}[optimizer]


# === mutant: weights_in_half -> amp-halves
def training_bytes(parameters, optimizer, precision):
    copies = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer]
    weight = 4 if precision == "fp32" else 2
    rest = 2 if precision == "bf16" else 4
    return parameters * (weight + rest + rest * copies)


# === mutant: master_weights -> copies-kept
def training_bytes(parameters, optimizer, precision):
    copies = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer]
    width = 2 if precision == "bf16" else 4
    master = 2 if precision == "amp" else 0
    return parameters * (width * (2 + copies) + master)


# === mutant: weights_and_state -> gradients-forgotten
def training_bytes(parameters, optimizer, precision):
    width = 2 if precision == "bf16" else 4
    return parameters * width * (1 + ["sgd", "momentum", "adam"].index(optimizer))


# === mutant: one_moment -> adam-keeps-two
def training_bytes(parameters, optimizer, precision):
    width = 2 if precision == "bf16" else 4
    return parameters * width * (2 if optimizer == "sgd" else 3)


# === mutant: state_in_float32 -> state-has-the-dtype
def training_bytes(parameters, optimizer, precision):
    copies = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer]
    width = 2 if precision == "bf16" else 4
    return parameters * (2 * width + 4 * copies)


# === mutant: always_four_bytes -> bf16-as-float32
def training_bytes(parameters, optimizer, precision):
    return 4 * parameters * (2 + {"sgd": 0, "momentum": 1, "adam": 2}[optimizer])


# === correct: asks_torch
def training_bytes(parameters, optimizer, precision):
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    weight = nn.Parameter(torch.zeros(1000, dtype=dtype))
    weight.grad = torch.ones_like(weight)
    makers = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        "adam": lambda p: torch.optim.Adam(p, lr=0.1),
    }
    made = makers[optimizer]([weight])
    made.step()
    kept = [t for t in made.state[weight].values() if t is not None and t.numel() == 1000]
    return parameters * sum(t.element_size() for t in (weight, weight.grad, *kept))


# === correct: a_table
def training_bytes(parameters, optimizer, precision):
    table = {"sgd": 8, "momentum": 12, "adam": 16}
    return parameters * table[optimizer] / (2 if precision == "bf16" else 1)


# === mutant: state_in_half -> amp-halves
def training_bytes(parameters, optimizer, precision):
    copies = {"sgd": 0, "momentum": 1, "adam": 2}[optimizer]
    weight, state = {"fp32": (4, 4), "amp": (4, 2), "bf16": (2, 2)}[precision]
    return parameters * (2 * weight + copies * state)


# === correct: half_of_it_as_a_fraction
def training_bytes(parameters, optimizer, precision):
    from fractions import Fraction

    part = Fraction(1, 2) if precision == "bf16" else 1
    return parameters * part * {"sgd": 8, "momentum": 12, "adam": 16}[optimizer]


# === mutant: counted_in_32_bits -> wrong-value
def training_bytes(parameters, optimizer, precision):
    import numpy as np

    tensors = 2 + ["sgd", "momentum", "adam"].index(optimizer)
    width = 2 if precision == "bf16" else 4
    return int(np.array([parameters * tensors * width]).astype(np.int32)[0])
