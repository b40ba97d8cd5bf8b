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
