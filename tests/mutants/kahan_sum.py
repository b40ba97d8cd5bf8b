# === mutant: plain_loop -> no-compensation
def kahan_sum(values):
    total = values[0] * 0
    for i in range(len(values)):
        total += values[i]
    return total


# === mutant: adds_the_loss_back_twice -> compensation-sign
def kahan_sum(values):
    s = torch.tensor(0.0, dtype=torch.float16)
    c = torch.tensor(0.0, dtype=torch.float16)
    for v in values:
        y = v + c
        t = s + y
        c = (t - s) - y
        s = t
    return s


# === mutant: total_overwritten_too_early -> compensation-after-update
def kahan_sum(values):
    s = torch.tensor(0.0, dtype=torch.float16)
    c = torch.tensor(0.0, dtype=torch.float16)
    for v in values:
        y = v - c
        s = s + y
        c = (s - s) - y
    return s


# === mutant: half_the_formula -> compensation-incomplete
def kahan_sum(values):
    s = torch.zeros((), dtype=torch.float16)
    c = torch.zeros((), dtype=torch.float16)
    for v in values:
        y = v - c
        t = s + y
        c = t - s
        s = t
    return s


# === mutant: accumulates_in_float32 -> left-fp16
def kahan_sum(values):
    total = torch.tensor(0.0)
    for v in values:
        total = total + v.float()
    return total.half()


# === mutant: through_python_floats -> left-fp16
def kahan_sum(values):
    import math

    return torch.tensor(math.fsum(values.tolist()), dtype=torch.float16)


# === mutant: calls_sum -> reduction-called
def kahan_sum(values):
    return values.sum()


# === mutant: inner_product_with_ones -> reduction-called
def kahan_sum(values):
    return torch.vdot(values, torch.ones_like(values))


# === mutant: average_pool -> reduction-called
def kahan_sum(values):
    n = len(values)
    return torch.nn.functional.avg_pool1d(values[None], n)[0, 0] * n


# === mutant: trace -> reduction-called
def kahan_sum(values):
    return torch.diag(values).trace()


# === mutant: through_numpy -> left-fp16
def kahan_sum(values):
    import numpy as np

    return torch.tensor(values.numpy().astype(np.float64).sum()).half()


# === mutant: cumulative_sum -> reduction-called
def kahan_sum(values):
    return values.cumsum(0)[-1]


# === correct: neumaier
def kahan_sum(values):
    total = torch.zeros((), dtype=torch.float16)
    lost = torch.zeros((), dtype=torch.float16)
    for v in values:
        new = total + v
        if abs(total) >= abs(v):
            lost = lost + ((total - new) + v)
        else:
            lost = lost + ((v - new) + total)
        total = new
    return total + lost


# === correct: zeros_made_in_float32_first
def kahan_sum(values):
    total = torch.tensor(0.0).half()
    lost = torch.full((), 0.0).to(values.dtype)
    for i in torch.arange(len(values)):
        wanted = values[i] - lost
        new = total + wanted
        lost = (new - total) - wanted
        total = new
    return total


# === correct: halves_added_up
def kahan_sum(values):
    while len(values) > 1:
        if len(values) % 2:
            values = torch.cat([values, torch.zeros(1, dtype=values.dtype)])
        values = values[::2] + values[1::2]
    return values[0]


# === correct: kahan_with_other_signs
def kahan_sum(values):
    total, rest = values[0], values[0] - values[0]
    for i in range(1, values.shape[0]):
        wanted = values[i] + rest
        before = total
        total = before + wanted
        rest = wanted - (total - before)
    return total
