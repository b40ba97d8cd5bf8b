# === mutant: the_peaks -> data-included
def step_ratio(fp32, amp):
    return amp["peak"] / fp32["peak"]


# === mutant: since_the_start -> data-included
def step_ratio(fp32, amp):
    return (amp["peak"] - amp["before"]) / (fp32["peak"] - fp32["before"])


# === mutant: only_the_data -> leftovers-included
def step_ratio(fp32, amp):
    data = fp32["loaded"] - fp32["before"]
    other = amp["loaded"] - amp["before"]
    return (amp["peak"] - other) / (fp32["peak"] - data)


# === mutant: first_runs_data -> one-start-for-both
def step_ratio(fp32, amp):
    start = fp32["loaded"]
    return (amp["peak"] - start) / (fp32["peak"] - start)


# === mutant: what_nvidia_smi_shows -> reserved-taken
def step_ratio(fp32, amp):
    return (amp["reserved"] - amp["loaded"]) / (fp32["reserved"] - fp32["loaded"])


# === mutant: fp32_over_amp -> upside-down
def step_ratio(fp32, amp):
    return (fp32["peak"] - fp32["loaded"]) / (amp["peak"] - amp["loaded"])


# === mutant: change -> not-a-ratio
def step_ratio(fp32, amp):
    own = [report["peak"] - report["loaded"] for report in (fp32, amp)]
    return (own[1] - own[0]) / own[0]


# === mutant: in_percent -> not-a-ratio
def step_ratio(fp32, amp):
    return 100 * (amp["peak"] - amp["loaded"]) / (fp32["peak"] - fp32["loaded"])


# === mutant: reserved_since_the_start -> reserved-taken
def step_ratio(fp32, amp):
    return (amp["reserved"] - amp["before"]) / (fp32["reserved"] - fp32["before"])


# === correct: step_by_step
def step_ratio(fp32, amp):
    own = []
    for report in (fp32, amp):
        data = report["loaded"] - report["before"]
        own.append(report["peak"] - data - report["before"])
    return torch.tensor(own[1] / own[0], dtype=torch.float64)


# === correct: as_a_fraction
def step_ratio(fp32, amp):
    from fractions import Fraction

    return Fraction(amp["peak"] - amp["loaded"], fp32["peak"] - fp32["loaded"])


# === correct: as_a_decimal
def step_ratio(fp32, amp):
    from decimal import Decimal

    own = [Decimal(report["peak"]) - Decimal(report["loaded"]) for report in (amp, fp32)]
    return own[0] / own[1]
