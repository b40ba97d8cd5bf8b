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


# === correct: kahan_with_other_signs
def kahan_sum(values):
    total, rest = values[0], values[0] - values[0]
    for i in range(1, values.shape[0]):
        wanted = values[i] + rest
        before = total
        total = before + wanted
        rest = wanted - (total - before)
    return total
