# === mutant: looks_at_the_clock_only -> quality-ignored
def speed_verdict(baseline, candidate):
    old = statistics.median(baseline["seconds"])
    new = statistics.median(candidate["seconds"])
    return "faster" if new < old else "slower"


# === mutant: spread_without_quality -> quality-ignored
def speed_verdict(baseline, candidate):
    a, old, b = statistics.quantiles(baseline["seconds"], n=4, method="inclusive")
    c, new, d = statistics.quantiles(candidate["seconds"], n=4, method="inclusive")
    if c <= b and a <= d:
        return "no difference"
    return "faster" if new < old else "slower"


# === mutant: nan_is_not_greater -> nan-slips-through
def speed_verdict(baseline, candidate):
    old, new = (sum(run["losses"][-10:]) / 10 for run in (baseline, candidate))
    if new > 1.02 * old:
        return "not comparable"
    a, old, b = statistics.quantiles(baseline["seconds"], n=4, method="inclusive")
    c, new, d = statistics.quantiles(candidate["seconds"], n=4, method="inclusive")
    if c <= b and a <= d:
        return "no difference"
    return "faster" if new < old else "slower"


# === mutant: the_last_loss -> one-loss
def speed_verdict(baseline, candidate):
    old, new = baseline["losses"][-1], candidate["losses"][-1]
    if not (math.isfinite(old) and math.isfinite(new)) or new > 1.02 * old:
        return "not comparable"
    a, old, b = statistics.quantiles(baseline["seconds"], n=4, method="inclusive")
    c, new, d = statistics.quantiles(candidate["seconds"], n=4, method="inclusive")
    if c <= b and a <= d:
        return "no difference"
    return "faster" if new < old else "slower"


# === mutant: all_losses -> whole-curve
def speed_verdict(baseline, candidate):
    old, new = (statistics.fmean(run["losses"]) for run in (baseline, candidate))
    if not (math.isfinite(old) and math.isfinite(new)) or new > 1.02 * old:
        return "not comparable"
    a, old, b = statistics.quantiles(baseline["seconds"], n=4, method="inclusive")
    c, new, d = statistics.quantiles(candidate["seconds"], n=4, method="inclusive")
    if c <= b and a <= d:
        return "no difference"
    return "faster" if new < old else "slower"


# === mutant: medians_alone -> spread-ignored
def speed_verdict(baseline, candidate):
    old, new = baseline["losses"][-10:], candidate["losses"][-10:]
    if not all(map(math.isfinite, old + new)) or sum(new) > 1.02 * sum(old):
        return "not comparable"
    old = statistics.median(baseline["seconds"])
    new = statistics.median(candidate["seconds"])
    return "faster" if new < old else "slower"


# === correct: with_numpy_and_the_condition_turned_round
def speed_verdict(baseline, candidate):
    import numpy as np

    old, new = (np.mean(run["losses"][-10:]) for run in (baseline, candidate))
    if not (np.isfinite(old) and new <= 1.02 * old):
        return "not comparable"
    low, median, high = np.percentile(baseline["seconds"], [25, 50, 75])
    if np.percentile(candidate["seconds"], 75) < low:
        return "faster"
    if np.percentile(candidate["seconds"], 25) > high:
        return "slower"
    return "no difference"


# === correct: in_small_functions
def speed_verdict(baseline, candidate):
    def end(run):
        return run["losses"][-10:]

    def half(run):
        low, _, high = statistics.quantiles(run["seconds"], n=4, method="inclusive")
        return low, high

    broken = any(x != x or x in (math.inf, -math.inf) for x in end(baseline) + end(candidate))
    if broken or statistics.mean(end(candidate)) / statistics.mean(end(baseline)) > 1.02:
        return "not comparable"
    if max(half(baseline)[0], half(candidate)[0]) <= min(half(baseline)[1], half(candidate)[1]):
        return "no difference"
    times = [statistics.median(run["seconds"]) for run in (baseline, candidate)]
    return ("faster", "slower")[times[1] > times[0]]
