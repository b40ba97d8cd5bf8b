# %% statement points=1 minutes=10
# # Median and spread
#
# Write `summarise_times(samples)`. It takes two or more times and returns a dict that sums them up:
#
# - `"median"`: the median;
# - `"iqr"`: the interquartile range, which is the third quartile minus the first. Where a quartile
#   falls between two samples, interpolate between them, as `numpy.percentile`, `torch.quantile` and
#   `statistics.quantiles(…, n=4, method="inclusive")` do;
# - `"steady"`: True if the interquartile range is at most 3% of the median.
#
# Leave the list as it is. The caller still needs the samples in their order.

# %% answer
def summarise_times(samples):
    """Median, interquartile range, and whether the times are steady, as a dict."""
    ### BEGIN SOLUTION
    median = statistics.median(samples)
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    iqr = high - low
    return {"median": median, "iqr": iqr, "steady": iqr <= 0.03 * median}
    ### END SOLUTION

# %% hints
# - Sort a copy first. Where is the middle if there are ten samples?
# - `statistics`, `numpy` and `torch` can all do this. By hand: the first quartile lies at position
#   (n - 1) / 4 of the sorted samples, counted from 0.
# - `steady` is a bool. Compare the interquartile range with 0.03 times the median.

# %% probe
from amp_lessons.exercises.speed.harness_runs import sample_cases

probe = Probe(sample_cases, own=("amp_lessons.amp.speed.timing",))

# %% judge
from amp_lessons.exercises.speed.harness import relatively

judge = Judge(relatively(1e-4), "a dict with median, iqr and steady")  # float32 is exact enough

# %% passed
# The median says what a run takes, the interquartile range how typical that is, spikes or not.

# %% right numpy
def summarise_times(samples):
    import numpy as np

    low, median, high = np.percentile(samples, [25, 50, 75])
    iqr = high - low
    return {"median": median, "iqr": iqr, "steady": iqr / median <= 0.03}

# %% right torch_in_float32
def summarise_times(samples):
    import torch

    low, median, high = torch.quantile(torch.tensor(samples), torch.tensor([0.25, 0.5, 0.75]))
    iqr = high - low
    return {"median": median, "iqr": iqr, "steady": bool(iqr / median <= 0.03)}

# %% wrong mean
# You took the mean. One run of 400 among runs of 8 moves it to 47, and leaves the median at 8.
swap("statistics.median", "statistics.mean")
of("numpy", put("median = np.mean(samples)", before="iqr ="))

# %% wrong not-sorted
# You took the middle of the list as it came. The median is the middle of the *sorted* samples.
swap("statistics.median(samples)", "samples[len(samples) // 2]")
of("numpy", put("median = samples[int(len(samples) / 2)]", before="iqr ="))

# %% wrong upper-middle
# You took one of the two middle samples. For an even number the median is half-way between them.
swap("statistics.median(samples)", "sorted(samples)[len(samples) // 2]")
of("torch_in_float32", put("median = sorted(samples)[len(samples) // 2]", before="iqr ="))
swap("statistics.median(", "statistics.median_low(")

# %% wrong standard-deviation
# Your spread is a standard deviation: it squares outliers. The interquartile range ignores them.
swap("high - low", "statistics.stdev(samples)")
swap("high - low", "statistics.pstdev(samples)")
of("numpy", swap("high - low", "np.std(samples)"))

# %% wrong full-range
# You took the range from smallest to largest: one spike decides it. Take that of the middle half.
swap("high - low", "max(samples) - min(samples)")
of("numpy", swap("[25, 50, 75]", "[0, 50, 100]"))

# %% wrong other-quartiles
# Your quartiles follow another rule than the one asked for. They lie at positions (n - 1) / 4 and
# 3 (n - 1) / 4 of the sorted samples, counted from 0, and are interpolated in between.
swap(', method="inclusive"', "")
put("n = len(samples)\nlow, high = (sorted(samples)[i * n // 4] for i in (1, 3))", before="iqr =")
of("torch_in_float32", put("low, high = np.percentile(samples, [25, 75], method='lower')",
    before="iqr =") & swap("import torch", "import numpy as np, torch"))
of("numpy", put("low, high = np.sort(samples)[np.array([1, 3]) * len(samples) // 4]", before="iqr"))
of("numpy", put("low, high = np.percentile(samples, [25, 75], method='nearest')", before="iqr ="))
put("one, other = sorted(samples)[: len(samples) // 2], sorted(samples)[-(len(samples) // 2):]\n"
    "low, high = map(statistics.median, (one, other))", before="iqr =")

# %% wrong spread-as-share
# You returned the spread as a share of the median. `"iqr"` is a time. Only `"steady"` compares it.
swap('"iqr": iqr', '"iqr": iqr / median')
swap('"iqr": iqr', '"iqr": 100 * iqr / median')
of("numpy", swap('"iqr": iqr', '"iqr": high / median - low / median'))

# %% wrong not-relative
# You compared the spread with 0.03: little beside 50, much beside 0.1. Take 3% of the median.
swap(" * median", "")
of("numpy", swap("iqr / median", "iqr"))

# %% wrong three-not-percent
# You compared the share with 3, and that is 300%. 3% is 0.03.
swap("0.03 * median", "median * 3")
of("numpy", swap("0.03", "3"))

# %% wrong less-than
# You ask for less than 3%. At most 3% includes 3% itself.
swap("<=", "<")
of("numpy", swap("iqr / median <= 0.03", "0.03 * median > iqr"))

# %% wrong each-side
# You compared the distance from median to quartile with 3%. Compare the whole interquartile range.
swap("iqr <= 0.03 * median", "max(median - low, high - median) <= 0.03 * median")
swap("iqr <= 0.03 * median", "0.97 * median <= low and high <= 1.03 * median")

# %% wrong share-of-something-else
# You took 3% of something other than the median. A spike moves the mean, and with it your limit.
swap("0.03 * median", "0.03 * statistics.mean(samples)")
of("numpy", swap("iqr / median", "iqr / np.mean(samples)"))
swap("0.03 * median", "0.03 * low")

# %% wrong rounded
# You rounded, and a time of 0.00219 s loses its digits. Round only where you print the numbers.
swap('"median": median, "iqr": iqr', '"median": round(median, 4), "iqr": round(iqr, 4)')
swap('"median": median, "iqr": iqr', '"median": round(median, 3), "iqr": round(iqr, 3)')
put("median, iqr = (float(f'{x:.4f}') for x in (median, iqr))", before="return")

# %% rule list-changed
# The call below changed the caller's list, as `samples.sort()` does. Use `sorted(samples)`.
def breaks(seen, right):
    return "changed" in seen
put("samples.sort()", before="median =")

# %% wrong wrong-type
swap('{"median": median, "iqr": iqr, "steady": iqr <= 0.03 * median}', "(median, iqr)")

# %% wrong ready-made
# %% program the_course_sums_up
def summarise_times(samples):
    from amp_lessons.amp.speed import Timing

    it = Timing("step", tuple(samples), "none")
    return {"median": it.median, "iqr": it.iqr, "steady": it.spread <= 0.03}
