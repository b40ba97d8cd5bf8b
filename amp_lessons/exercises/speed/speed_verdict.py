# %% statement points=2 minutes=15
# # Faster at equal quality?
#
# Write `speed_verdict(baseline, candidate)`. It says what you may claim about two runs, each a dict
# with `"seconds"`, a list of samples, and `"losses"`, the loss of each step. Ask in this order:
#
# 1. Return `"not comparable"` if one of the last ten losses of either run is inf or NaN. Return it
#    too if the mean of the candidate's last ten losses is more than 2% above the baseline's.
# 2. Return `"no difference"` if the middle halves of the samples overlap. The middle half goes from
#    the first quartile to the third, both computed as in the exercise before and both included. So
#    halves that only touch do overlap.
# 3. Otherwise return `"faster"` or `"slower"`, which is about the candidate and its median.

# %% answer
def speed_verdict(baseline, candidate):
    """One of "not comparable", "no difference", "faster", "slower"."""
    ### BEGIN SOLUTION
    old, new = baseline["losses"][-10:], candidate["losses"][-10:]
    if not all(map(math.isfinite, old + new)):
        return "not comparable"
    if statistics.fmean(new) > 1.02 * statistics.fmean(old):
        return "not comparable"
    a, before, b = statistics.quantiles(baseline["seconds"], n=4, method="inclusive")
    c, after, d = statistics.quantiles(candidate["seconds"], n=4, method="inclusive")
    if c <= b and a <= d:
        return "no difference"
    return "faster" if after < before else "slower"
    ### END SOLUTION

# %% hints
# - What does Python say to `nan > 1`, and to `nan < 1`?
# - The middle halves overlap if each begins before the other ends, or exactly there.

# %% probe
from amp_lessons.exercises.speed.harness_runs import verdict_cases

probe = Probe(verdict_cases)

# %% judge
judge = Judge(asked_for='one of "faster", "slower", "no difference", "not comparable"')

# %% passed
# First the quality, then the spread, then the median. Only what passes all three is a speed-up.

# %% right numpy_and_the_condition_turned_round
def speed_verdict(baseline, candidate):
    import numpy as np

    old, new = (np.mean(run["losses"][-10:]) for run in (baseline, candidate))
    if not (np.isfinite(old) and new <= 1.02 * old):
        return "not comparable"
    low, high = np.percentile(baseline["seconds"], [25, 75])
    if np.percentile(candidate["seconds"], 75) < low:
        return "faster"
    if np.percentile(candidate["seconds"], 25) > high:
        return "slower"
    return "no difference"

# %% right torch_in_float32
def speed_verdict(baseline, candidate):
    import numpy as np
    import torch

    old, new = (torch.tensor(run["losses"])[-10:] for run in (baseline, candidate))
    if not torch.cat((old, new)).isfinite().all() or new.mean() > 1.02 * old.mean():
        return "not comparable"
    a, b = (np.percentile(run["seconds"], [25, 50, 75]) for run in (baseline, candidate))
    if max(a[0], b[0]) <= min(a[2], b[2]):
        return "no difference"
    return np.where(b[1] < a[1], "faster", "slower")

# %% wrong quality-ignored
# You compared only the times. A run that diverges can be fast. Look at the losses first.
drop("if statistics.fmean(new)") & drop("if not all")
of("torch_in_float32", drop("if not torch.cat"))

# %% wrong nan-slips-through
# You never look for NaN and inf, and `nan > x` is False. Ask `math.isfinite` of both runs' losses.
drop("if not all")
of("torch_in_float32", swap("not torch.cat((old, new)).isfinite().all() or ", ""))

# %% wrong only-one-run-checked
# You look for NaN and inf in one of the two runs only. Check both.
swap("old + new", "new")
swap("old + new", "old")
of("torch_in_float32", swap("torch.cat((old, new))", "new"))

# %% wrong nan-only
# You look for NaN, and inf passes: `inf != inf` is False. `math.isfinite` is False for both.
swap("not all(map(math.isfinite, old + new))", "any(map(math.isnan, old + new))")
of("torch_in_float32", swap("not torch.cat((old, new)).isfinite().all()",
    "torch.cat((old, new)).isnan().any()"))

# %% wrong one-loss
# You judged the quality by the last loss alone. Take the mean of the last ten losses.
swap("[-10:]", "[-1:]", nth=0)
swap("statistics.fmean(new) > 1.02 * statistics.fmean(old)", "new[-1] > 1.02 * old[-1]")
of("torch_in_float32", swap("[-10:]", "[-1:]"))

# %% wrong other-losses
# You took other losses than the last ten: fewer, more, the first ones or all. Take `losses[-10:]`.
swap("[-10:]", "", nth=0)
put("old, new = baseline['losses'], candidate['losses']", before="if statistics")
swap("[-10:]", "[-5:]", nth=0)
swap("[-10:]", "[:10]", nth=0)
of("torch_in_float32", swap("[-10:]", "[-5:]"))

# %% wrong early-losses
# You want every loss of a run to be finite. Only the last ten count here.
swap("old + new", 'baseline["losses"] + candidate["losses"]')
of("torch_in_float32", swap("(old, new)).isf",
    "[torch.tensor(r['losses']) for r in (baseline, candidate)]).isf"))

# %% wrong lower-refused
# You refuse a candidate whose loss is *lower* by more than 2%. Refuse only a higher loss.
swap("statistics.fmean(new) > 1.02 * statistics.fmean(old)",
    "abs(statistics.mean(new) / statistics.mean(old) - 1) > 0.02")
of("torch_in_float32", swap("new.mean() > 1.02 * old.mean()",
    "(new.mean() - old.mean()).abs() > 0.02 * old.mean()"))

# %% wrong two-hundredths
# You allowed a loss that is higher by 0.02, and 2% of a loss of 8 is 0.16. Multiply by 1.02.
swap("1.02 * statistics.fmean(old)", "statistics.fmean(old) + 0.02")
of("torch_in_float32", swap("1.02 * old.mean()", "old.mean() + 0.02"))

# %% wrong any-higher-loss
# You refuse every candidate whose loss is higher at all. Up to 2% above the baseline is comparable.
swap("1.02 * ", "")
of("torch_in_float32", swap("new.mean() > 1.02 * old.mean()", "new.sum() > old.sum()"))

# %% wrong loss-of-the-median
# You compared the medians of the losses. A median hides losses that jump. Take the means.
swap("statistics.fmean", "statistics.median", nth=0)
of("torch_in_float32", swap("mean()", "quantile(0.5)", nth=0))

# %% wrong times-first
# You asked about the times before the losses. Ask about the losses first.
move("if c", before="if not") & move("c, after", before="if c") & move("a, b", before="c, after")
of("torch_in_float32", move("if max", before="if not") & move("a, b", before="if max"))

# %% wrong spread-ignored
# You compared only the medians. Where the middle halves overlap, say "no difference".
drop("if c <= b")
of("torch_in_float32", drop("if max(a[0]"))

# %% wrong touching-halves
# You take halves that only touch for apart. Write `<=` to ask for overlap, or `<` to ask for a gap.
swap("c <= b and a <= d", "c < b and a < d")
of("torch_in_float32", swap("<=", "<"))

# %% wrong other-quartiles
# Your quartiles follow another rule than asked for: `method="inclusive"` in `statistics.quantiles`.
swap(', method="inclusive"', "", nth=0)
of("torch_in_float32", swap("[25, 50, 75]", "[25, 50, 75], method='weibull'"))

# %% wrong full-range
# You compared the ranges from the fastest sample to the slowest. Take the middle halves.
put("(a, *_, b), (c, *_, d) = (sorted(r['seconds']) for r in (baseline, candidate))", before="if c")
of("torch_in_float32", swap("[25, 50, 75]", "[0, 50, 100]"))

# %% wrong one-half-only
# You asked whether a median or a quartile lies in the other middle half. A half may also contain
# the other one. The two overlap if each begins before the other ends.
swap("c <= b and a <= d", "a <= after <= b")
swap("c <= b and a <= d", "a <= c <= b or a <= d <= b")
of("torch_in_float32", swap("max(a[0], b[0]) <= min(a[2], b[2])", "a[0] <= b[1] <= a[2]"))

# %% wrong one-direction
# You made one of the two comparisons. Halves overlap if *each* begins before the other ends.
swap("c <= b and a <= d", "a <= d")
swap("c <= b and a <= d", "c <= b")
of("torch_in_float32", swap("max(a[0], b[0]) <= min(a[2], b[2])", "a[0] <= b[2]"))

# %% wrong mean-time
# You compared the means of the times, and a spike decides these. Compare the medians.
put("before, after = (statistics.mean(r['seconds']) for r in (baseline, candidate))", before="if c")
of("torch_in_float32", put("a[1], b[1] = (np.mean(r['seconds']) for r in (baseline, candidate))",
    before="if max"))

# %% wrong faster-for-slower
# You exchanged `"faster"` and `"slower"`. The candidate is faster if its median time is lower.
swap("after < before", "after > before")
of("torch_in_float32", swap("b[1] < a[1]", "a[1] < b[1]"))
