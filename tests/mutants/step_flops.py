# === mutant: three_products_a_layer -> data-gradient
def step_flops(widths, batch):
    return 3 * sum(2 * batch * a * b for a, b in zip(widths, widths[1:]))


# === mutant: forward_alone -> forward-only
def step_flops(widths, batch):
    total = 0
    for i in range(len(widths) - 1):
        total += 2 * batch * widths[i] * widths[i + 1]
    return total


# === mutant: backward_like_forward -> backward-as-forward
def step_flops(widths, batch):
    forward = sum(2 * batch * a * b for a, b in zip(widths, widths[1:]))
    return 2 * forward


# === mutant: last_layer_left_out -> wrong-end
def step_flops(widths, batch):
    layers = [2 * batch * a * b for a, b in zip(widths, widths[1:])]
    return 3 * sum(layers) - layers[-1]


# === mutant: a_multiply_add_is_one -> one-flop-each
def step_flops(widths, batch):
    layers = [batch * a * b for a, b in zip(widths, widths[1:])]
    return 3 * sum(layers) - layers[0]


# === mutant: one_row -> batch-forgotten
def step_flops(widths, batch):
    layers = [2 * a * b for a, b in zip(widths, widths[1:])]
    return 3 * sum(layers) - layers[0]


# === correct: layer_by_layer
def step_flops(widths, batch):
    total = 0
    for i in range(1, len(widths)):
        product = 2 * batch * widths[i - 1] * widths[i]
        total += 2 * product  # forward, and the weight's gradient
        if i > 1:
            total += product  # the input's gradient
    return total


# === correct: asks_torch
def step_flops(widths, batch):
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        layers = [torch.nn.Linear(a, b) for a, b in zip(widths, widths[1:])]
        x = torch.randn(batch, widths[0])
    with FlopCounterMode(display=False) as counter:
        torch.nn.Sequential(*layers)(x).sum().backward()
    return counter.get_total_flops()


# === correct: as_a_float
def step_flops(widths, batch):
    import numpy as np

    w = np.array(widths, dtype=float)
    return 6.0 * batch * (w[:-1] @ w[1:]) - 2.0 * batch * w[0] * w[1]
