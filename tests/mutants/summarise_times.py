# === mutant: mean_and_deviation -> mean
def summarise_times(samples):
    mean = statistics.mean(samples)
    deviation = statistics.stdev(samples)
    return {"median": mean, "iqr": deviation, "steady": deviation <= 0.03 * mean}


# === mutant: mean_with_quartiles -> mean
def summarise_times(samples):
    mean = sum(samples) / len(samples)
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return {"median": mean, "iqr": high - low, "steady": high - low <= 0.03 * mean}


# === mutant: middle_of_the_unsorted_list -> not-sorted
def summarise_times(samples):
    median = samples[len(samples) // 2]
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return {"median": median, "iqr": high - low, "steady": high - low <= 0.03 * median}


# === mutant: upper_of_the_two -> upper-middle
def summarise_times(samples):
    ordered = sorted(samples)
    median = ordered[len(ordered) // 2]
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return {"median": median, "iqr": high - low, "steady": high - low <= 0.03 * median}


# === mutant: standard_deviation -> standard-deviation
def summarise_times(samples):
    median = statistics.median(samples)
    spread = statistics.stdev(samples)
    return {"median": median, "iqr": spread, "steady": spread <= 0.03 * median}


# === mutant: max_less_min -> full-range
def summarise_times(samples):
    median = statistics.median(samples)
    spread = max(samples) - min(samples)
    return {"median": median, "iqr": spread, "steady": spread <= 0.03 * median}


# === mutant: default_quantiles -> other-quartiles
def summarise_times(samples):
    low, median, high = statistics.quantiles(samples, n=4)
    return {"median": median, "iqr": high - low, "steady": high - low <= 0.03 * median}


# === mutant: three_hundredths_of_a_unit -> not-relative
def summarise_times(samples):
    median = statistics.median(samples)
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return {"median": median, "iqr": high - low, "steady": high - low <= 0.03}


# === mutant: medians_of_the_two_halves -> other-quartiles
def summarise_times(samples):
    ordered, n = sorted(samples), len(samples)
    median = statistics.median(ordered)
    iqr = statistics.median(ordered[(n + 1) // 2 :]) - statistics.median(ordered[: n // 2])
    return {"median": median, "iqr": iqr, "steady": iqr <= 0.03 * median}


# === mutant: no_interpolation -> other-quartiles
def summarise_times(samples):
    ordered, n = sorted(samples), len(samples)
    median = statistics.median(ordered)
    iqr = ordered[3 * n // 4] - ordered[n // 4]
    return {"median": median, "iqr": iqr, "steady": iqr <= 0.03 * median}


# === mutant: under_three_percent -> less-than
def summarise_times(samples):
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return {"median": median, "iqr": high - low, "steady": high - low < 0.03 * median}


# === mutant: sorts_the_callers_list -> changed-argument
def summarise_times(samples):
    samples.sort()
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return {"median": median, "iqr": high - low, "steady": high - low <= 0.03 * median}


# === correct: numpy
def summarise_times(samples):
    import numpy as np

    low, median, high = np.percentile(samples, [25, 50, 75])
    return {"median": median, "iqr": high - low, "steady": bool((high - low) / median <= 0.03)}


# === correct: numpy_bool
def summarise_times(samples):
    import numpy as np

    low, median, high = np.quantile(np.array(samples), (0.25, 0.5, 0.75))
    return {"median": median, "iqr": high - low, "steady": (high - low) <= 0.03 * median}


# === correct: torch
def summarise_times(samples):
    import torch

    q = torch.tensor(samples, dtype=torch.float64).quantile(torch.tensor([0.25, 0.5, 0.75]).double())
    iqr = q[2] - q[0]
    return {"median": q[1].item(), "iqr": iqr.item(), "steady": (iqr <= 0.03 * q[1]).item()}


# === correct: by_hand
def summarise_times(samples):
    ordered = sorted(samples)

    def at(share):
        position = share * (len(ordered) - 1)
        below = int(position)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (position - below) * (ordered[above] - ordered[below])

    median, iqr = at(0.5), at(0.75) - at(0.25)
    return dict(steady=iqr <= median * 0.03, iqr=iqr, median=median)


# === correct: torch_in_float32
def summarise_times(samples):
    import torch

    low, median, high = torch.quantile(torch.tensor(samples), torch.tensor([0.25, 0.5, 0.75]))
    iqr = high - low
    return {"median": median, "iqr": iqr, "steady": bool(iqr / median <= 0.03)}


# === correct: in_percent
def summarise_times(samples):
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return {"median": median, "iqr": high - low, "steady": 100 * (high - low) / median <= 3}


# === mutant: nearest_sample -> other-quartiles
def summarise_times(samples):
    import numpy as np

    low, high = np.percentile(samples, [25, 75], method="nearest")
    median = statistics.median(samples)
    return {"median": median, "iqr": high - low, "steady": bool(high - low <= 0.03 * median)}


# === mutant: three_percent_of_the_mean -> wrong-value
def summarise_times(samples):
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    iqr = high - low
    return {"median": median, "iqr": iqr, "steady": iqr <= 0.03 * statistics.mean(samples)}


# === mutant: three_percent_to_either_side -> wrong-value
def summarise_times(samples):
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    steady = median - low <= 0.03 * median and high - median <= 0.03 * median
    return {"median": median, "iqr": high - low, "steady": steady}


# === mutant: rounded_to_four_places -> wrong-value
def summarise_times(samples):
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    steady = high - low <= 0.03 * median
    return {"median": round(median, 4), "iqr": round(high - low, 4), "steady": steady}


# === correct: exact_fractions_in_an_ordered_dict
def summarise_times(samples):
    from collections import OrderedDict
    from fractions import Fraction

    ordered = sorted(map(Fraction, samples))

    def quartile(number):
        below, rest = divmod(number * (len(ordered) - 1), 4)
        if not rest:
            return ordered[below]
        return ordered[below] + (ordered[below + 1] - ordered[below]) * Fraction(rest, 4)

    iqr = quartile(3) - quartile(1)
    return OrderedDict(median=quartile(2), iqr=iqr, steady=100 * iqr <= 3 * quartile(2))
