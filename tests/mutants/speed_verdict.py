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


# === mutant: clock_before_losses -> times-first
def speed_verdict(baseline, candidate):
    a, median, b = statistics.quantiles(baseline["seconds"], n=4, method="inclusive")
    c, other, d = statistics.quantiles(candidate["seconds"], n=4, method="inclusive")
    if c <= b and a <= d:
        return "no difference"
    old, new = baseline["losses"][-10:], candidate["losses"][-10:]
    if not all(map(math.isfinite, old + new)) or sum(new) > 1.02 * sum(old):
        return "not comparable"
    return "faster" if other < median else "slower"


# === mutant: every_loss_must_be_finite -> early-losses
def speed_verdict(baseline, candidate):
    old, new = baseline["losses"][-10:], candidate["losses"][-10:]
    if not all(map(math.isfinite, baseline["losses"] + candidate["losses"])):
        return "not comparable"
    if not all(map(math.isfinite, old + new)) or sum(new) > 1.02 * sum(old):
        return "not comparable"
    a, old, b = statistics.quantiles(baseline["seconds"], n=4, method="inclusive")
    c, new, d = statistics.quantiles(candidate["seconds"], n=4, method="inclusive")
    if c <= b and a <= d:
        return "no difference"
    return "faster" if new < old else "slower"


# === mutant: two_percent_either_way -> lower-refused
def speed_verdict(baseline, candidate):
    old, new = baseline["losses"][-10:], candidate["losses"][-10:]
    if not all(map(math.isfinite, old + new)) or abs(sum(new) - sum(old)) > 0.02 * sum(old):
        return "not comparable"
    a, old, b = statistics.quantiles(baseline["seconds"], n=4, method="inclusive")
    c, new, d = statistics.quantiles(candidate["seconds"], n=4, method="inclusive")
    if c <= b and a <= d:
        return "no difference"
    return "faster" if new < old else "slower"


# === mutant: means_of_the_times -> mean-time
def speed_verdict(baseline, candidate):
    old, new = baseline["losses"][-10:], candidate["losses"][-10:]
    if not all(map(math.isfinite, old + new)) or sum(new) > 1.02 * sum(old):
        return "not comparable"
    a, old, b = statistics.quantiles(baseline["seconds"], n=4, method="inclusive")
    c, new, d = statistics.quantiles(candidate["seconds"], n=4, method="inclusive")
    if c <= b and a <= d:
        return "no difference"
    faster = statistics.mean(candidate["seconds"]) < statistics.mean(baseline["seconds"])
    return "faster" if faster else "slower"


# === mutant: fastest_to_slowest -> full-range
def speed_verdict(baseline, candidate):
    old, new = baseline["losses"][-10:], candidate["losses"][-10:]
    if not all(map(math.isfinite, old + new)) or sum(new) > 1.02 * sum(old):
        return "not comparable"
    a, b = min(baseline["seconds"]), max(baseline["seconds"])
    c, d = min(candidate["seconds"]), max(candidate["seconds"])
    old = statistics.median(baseline["seconds"])
    new = statistics.median(candidate["seconds"])
    if c <= b and a <= d:
        return "no difference"
    return "faster" if new < old else "slower"


# === mutant: its_median_in_the_others_half -> one-half-only
def speed_verdict(baseline, candidate):
    old, new = baseline["losses"][-10:], candidate["losses"][-10:]
    if not all(map(math.isfinite, old + new)) or sum(new) > 1.02 * sum(old):
        return "not comparable"
    a, old, b = statistics.quantiles(baseline["seconds"], n=4, method="inclusive")
    new = statistics.median(candidate["seconds"])
    if a <= new <= b:
        return "no difference"
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


# === correct: torch_and_numpys_where
def speed_verdict(baseline, candidate):
    import numpy as np
    import torch

    old, new = (torch.tensor(run["losses"])[-10:] for run in (baseline, candidate))
    if not torch.cat((old, new)).isfinite().all() or new.mean() > 1.02 * old.mean():
        return "not comparable"
    shares = torch.tensor([0.25, 0.5, 0.75])
    a, b = (torch.tensor(run["seconds"]).quantile(shares) for run in (baseline, candidate))
    if torch.max(a[0], b[0]) <= torch.min(a[2], b[2]):
        return "no difference"
    return np.where(b[1] < a[1], "faster", "slower")


# === mutant: last_five -> wrong-value
def speed_verdict(baseline, candidate):
    old, new = baseline["losses"][-5:], candidate["losses"][-5:]
    if not all(map(math.isfinite, old + new)):
        return "not comparable"
    if statistics.mean(new) > 1.02 * statistics.mean(old):
        return "not comparable"
    a, old_middle, b = statistics.quantiles(baseline["seconds"], n=4, method="inclusive")
    c, new_middle, d = statistics.quantiles(candidate["seconds"], n=4, method="inclusive")
    if c <= b and a <= d:
        return "no difference"
    return "faster" if new_middle < old_middle else "slower"


# === mutant: nan_only -> wrong-value
def speed_verdict(baseline, candidate):
    old, new = baseline["losses"][-10:], candidate["losses"][-10:]
    if any(map(math.isnan, old + new)):
        return "not comparable"
    if statistics.mean(new) > 1.02 * statistics.mean(old):
        return "not comparable"
    a, old_middle, b = statistics.quantiles(baseline["seconds"], n=4, method="inclusive")
    c, new_middle, d = statistics.quantiles(candidate["seconds"], n=4, method="inclusive")
    if c <= b and a <= d:
        return "no difference"
    return "faster" if new_middle < old_middle else "slower"


# === mutant: median_of_the_losses -> wrong-value
def speed_verdict(baseline, candidate):
    old, new = baseline["losses"][-10:], candidate["losses"][-10:]
    if not all(map(math.isfinite, old + new)):
        return "not comparable"
    if statistics.median(new) > 1.02 * statistics.median(old):
        return "not comparable"
    a, old_middle, b = statistics.quantiles(baseline["seconds"], n=4, method="inclusive")
    c, new_middle, d = statistics.quantiles(candidate["seconds"], n=4, method="inclusive")
    if c <= b and a <= d:
        return "no difference"
    return "faster" if new_middle < old_middle else "slower"


# === mutant: two_hundredths_more -> wrong-value
def speed_verdict(baseline, candidate):
    old, new = baseline["losses"][-10:], candidate["losses"][-10:]
    if not all(map(math.isfinite, old + new)):
        return "not comparable"
    if statistics.mean(new) > statistics.mean(old) + 0.02:
        return "not comparable"
    a, old_middle, b = statistics.quantiles(baseline["seconds"], n=4, method="inclusive")
    c, new_middle, d = statistics.quantiles(candidate["seconds"], n=4, method="inclusive")
    if c <= b and a <= d:
        return "no difference"
    return "faster" if new_middle < old_middle else "slower"


# === mutant: an_end_inside_the_other_half -> wrong-value
def speed_verdict(baseline, candidate):
    old, new = baseline["losses"][-10:], candidate["losses"][-10:]
    if not all(map(math.isfinite, old + new)):
        return "not comparable"
    if statistics.mean(new) > 1.02 * statistics.mean(old):
        return "not comparable"
    a, old_middle, b = statistics.quantiles(baseline["seconds"], n=4, method="inclusive")
    c, new_middle, d = statistics.quantiles(candidate["seconds"], n=4, method="inclusive")
    if a <= c <= b or a <= d <= b:
        return "no difference"
    return "faster" if new_middle < old_middle else "slower"


# === mutant: default_quantiles -> wrong-value
def speed_verdict(baseline, candidate):
    old, new = baseline["losses"][-10:], candidate["losses"][-10:]
    if not all(map(math.isfinite, old + new)):
        return "not comparable"
    if statistics.mean(new) > 1.02 * statistics.mean(old):
        return "not comparable"
    a, old_middle, b = statistics.quantiles(baseline["seconds"], n=4)
    c, new_middle, d = statistics.quantiles(candidate["seconds"], n=4)
    if c <= b and a <= d:
        return "no difference"
    return "faster" if new_middle < old_middle else "slower"


# === correct: members_of_an_enum
from enum import StrEnum


class Verdict(StrEnum):
    BAD = "not comparable"
    SAME = "no difference"
    UP = "faster"
    DOWN = "slower"


def speed_verdict(baseline, candidate):
    ends = [run["losses"][-10:] for run in (baseline, candidate)]
    if not math.isfinite(sum(map(sum, ends))) or sum(ends[1]) > 1.02 * sum(ends[0]):
        return Verdict.BAD
    runs = [sorted(run["seconds"]) for run in (baseline, candidate)]
    (a, b, c), (d, e, f) = (statistics.quantiles(run, n=4, method="inclusive") for run in runs)
    return Verdict.SAME if max(a, d) <= min(c, f) else Verdict.UP if e < b else Verdict.DOWN
