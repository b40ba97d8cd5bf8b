# %% [markdown]
# # Exercises 10: Speed, measured
#
# Mend two benchmarks that lie, summarise their times, judge a speed-up, and compute what no code
# can beat. Take [[lesson speed]] first.
#
# No speed of your machine is judged here. The two benchmarks run on a `PretendGpu`: a queue and a
# clock, with programs whose true times are known. Its times are made up for this sheet.

# %%
import math
import statistics
from itertools import pairwise

from amp_lessons.checks import speed as ex
from amp_lessons.pretend_gpu import PretendGpu

# %% [markdown] heading="time_step"
# This benchmark looks like many that are published. The step really takes 2 ms:


# %%
def lying_time_step(gpu, step, warm_up, repeats):
    times = []
    for _ in range(repeats):
        start = gpu.clock()
        batch = gpu.make_batch()
        step(batch)
        times.append(gpu.clock() - start)
    return sum(times) / len(times)


gpu = PretendGpu(batch_seconds=1e-3, copy_seconds=0.5e-3)
step = gpu.program("step", seconds=2e-3, cold=5, spike_every=9)
print(f"{1e3 * lying_time_step(gpu, step, 5, 21):.3f} ms")

# %% [markdown]
# Mend it, as `time_step`: the median time of one step in seconds, over `repeats` samples, each of
# one step on a batch of its own, after `warm_up` runs that are not counted. Making a batch is not
# part of the step. (One batch for all runs is as good.)
#
# `gpu` works like CUDA: a launch only queues the work. It has `clock()` (the host's, in seconds),
# `synchronize()`, `make_batch()` (which also queues the copy of the batch), and `event()`, whose
# `record()`, `synchronize()` and `elapsed_time(end)` do what those of `torch.cuda.Event` do. Its
# time passes on these clocks only: `time.perf_counter` and `torch.cuda.Event` would time your own
# machine. Your answer is tried on devices with one trap each, and on one with several.


# %% exercise="time_step"
def time_step(gpu, step, warm_up, repeats):
    """The median seconds of one `step(batch)` on `gpu`, measured without a lie."""
    ### BEGIN SOLUTION
    for _ in range(warm_up):
        step(gpu.make_batch())
    samples = []
    for _ in range(repeats):
        batch = gpu.make_batch()
        gpu.synchronize()
        start = gpu.clock()
        step(batch)
        gpu.synchronize()
        samples.append(gpu.clock() - start)
    return statistics.median(samples)
    ### END SOLUTION


# %% [markdown] heading="compare_steps"
# A comparison can lie where both of its times are right. Here the candidate is really 1.25 times
# as fast:


# %%
def lying_comparison(gpu, baseline, candidate, warm_up, repeats):
    gpu.tf32 = False  # "a clean baseline"
    medians = []
    for step in (baseline, candidate):
        samples = []
        for _ in range(warm_up + repeats):
            start = gpu.clock()
            step(None)
            samples.append(gpu.clock() - start)
        medians.append(statistics.median(samples[warm_up:]))
    return medians[0] / medians[1]


gpu = PretendGpu(tf32=True, warming=0.01, asynchronous=False)  # it waits for each step
baseline = gpu.program("TF32", seconds=5e-3, fp32=True)  # 2.5 ms with TF32 on
candidate = gpu.program("BF16", seconds=2e-3)
print(f"{lying_comparison(gpu, baseline, candidate, 5, 21):.2f} times as fast")

# %% [markdown]
# Mend it, as `compare_steps`: the speed-up, which is the baseline's median time divided by the
# candidate's, over `repeats` samples of each, after `warm_up` runs of each that are not counted. It
# must be right on devices that only queue the work, too.
#
# Leave the device's switches as the user has set them. Some chips get slower as they get warm: what
# is measured second must not pay for that. One batch, made once by `gpu.make_batch()`, is enough;
# making it is not part of a step.


# %% exercise="compare_steps"
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    """How many times as fast `candidate(batch)` is as `baseline(batch)`."""
    ### BEGIN SOLUTION
    batch = gpu.make_batch()
    steps = {"baseline": baseline, "candidate": candidate}
    for _ in range(warm_up):
        for run in steps.values():
            run(batch)
    samples = {name: [] for name in steps}
    for _ in range(repeats):
        for name, run in steps.items():
            gpu.synchronize()
            start = gpu.clock()
            run(batch)
            gpu.synchronize()
            samples[name].append(gpu.clock() - start)
    return statistics.median(samples["baseline"]) / statistics.median(samples["candidate"])
    ### END SOLUTION


# %% [markdown] heading="summarise_times"
# Write `summarise_times(samples)`: what to report of a list of two or more times, as a dict:
#
# - `"median"`: the median;
# - `"iqr"`: the interquartile range, the third quartile less the first, where a quartile that falls
#   between two samples is interpolated between them, as `numpy.percentile`, `torch.quantile` and
#   `statistics.quantiles(…, n=4, method="inclusive")` do;
# - `"steady"`: True if the interquartile range is at most 3% of the median.
#
# Leave the list as it is: whoever calls you still needs the samples in their order.


# %% exercise="summarise_times"
def summarise_times(samples):
    """Median, interquartile range, and whether the times are steady, as a dict."""
    ### BEGIN SOLUTION
    median = statistics.median(samples)
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return {"median": median, "iqr": high - low, "steady": high - low <= 0.03 * median}
    ### END SOLUTION


# %% [markdown] heading="speed_verdict"
# Write `speed_verdict(baseline, candidate)`: what may be claimed of two runs.
#
# Each is a dict with `"seconds"`, a list of samples, and `"losses"`, the loss of each step. Ask in
# this order:
#
# 1. `"not comparable"` if one of the last ten losses of either run is inf or NaN, or if the mean of
#    the candidate's last ten losses is more than 2% above that of the baseline's.
# 2. `"no difference"` if the middle halves of the samples overlap (from the first quartile to the
#    third, as in the exercise before).
# 3. Otherwise `"faster"` or `"slower"`: the candidate, by its median.


# %% exercise="speed_verdict"
def speed_verdict(baseline, candidate):
    """One of "not comparable", "no difference", "faster", "slower"."""
    ### BEGIN SOLUTION
    old, new = baseline["losses"][-10:], candidate["losses"][-10:]
    if not all(map(math.isfinite, old + new)):
        return "not comparable"
    if statistics.mean(new) > 1.02 * statistics.mean(old):
        return "not comparable"
    runs = (baseline["seconds"], candidate["seconds"])
    (a, old_middle, b), (c, new_middle, d) = (
        statistics.quantiles(seconds, n=4, method="inclusive") for seconds in runs
    )
    if c <= b and a <= d:
        return "no difference"
    return "faster" if new_middle < old_middle else "slower"
    ### END SOLUTION


# %% [markdown] heading="step_flops"
# Write `step_flops(widths, batch)`: the FLOPs of the matrix products in one training step, forward
# and backward, of a stack of linear layers.
#
# `widths` holds the width of the input and then of each layer's output: `[784, 512, 10]` are two
# layers. The data needs no gradient. Biases, activations, the loss and the optimizer are not
# counted (beside the products they are few).


# %% exercise="step_flops"
def step_flops(widths, batch):
    """FLOPs of one training step, as a whole number."""
    ### BEGIN SOLUTION
    products = [2 * batch * into * out for into, out in pairwise(widths)]
    return 3 * sum(products) - products[0]
    ### END SOLUTION


# %% [markdown] heading="least_seconds"
# Write `least_seconds(m, n, k, element_bytes, peak, bandwidth)`: the time in seconds below which
# nobody can multiply an (m, k) by a (k, n) matrix.
#
# `element_bytes` is the size of one element of each of the three matrices; `peak` is in FLOP/s and
# `bandwidth` in bytes/s. Each matrix crosses the memory's bus once. The GPU computes while it reads
# and writes.


# %% exercise="least_seconds"
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    """The floor of a matrix product, in seconds."""
    ### BEGIN SOLUTION
    computing = 2 * m * n * k / peak
    moving = element_bytes * (m * k + k * n + m * n) / bandwidth
    return max(computing, moving)
    ### END SOLUTION


# %% [markdown] heading="read_roofline"
# Ten reports of work on one H200, made up for this exercise, each with its floor by the data sheet.
# Of what is listed here, what would help most? Fill in the ten words.
#
# - `"precision"`: compute in another of FP32, TF32, FP16 and BF16
# - `"bytes"`: move fewer bytes for each FLOP (a larger batch, or ops fused)
# - `"launches"`: fewer and larger kernels (fusing, CUDA graphs, a larger batch)
# - `"sizes"`: sizes that are multiples of 8
# - `"nothing"`: it is as good as 16 bits can be
# - `"measurement"`: measure it again, for this cannot be true

# %%
for letter, it in ex.SITUATIONS.items():
    print(f"{letter}  {it.what}")
    print(f"   took {1e6 * it.seconds:9.1f} µs, floor {1e6 * it.floor:9.3f} µs by {it.bound}")

# %% exercise="read_roofline" answer="helps"
helps = {
    "a": "?",
    "b": "?",
    "c": "?",
    "d": "?",
    "e": "?",
    "f": "?",
    "g": "?",
    "h": "?",
    "i": "?",
    "j": "?",
}
### BEGIN SOLUTION
helps = dict.fromkeys("ah", "precision") | dict.fromkeys("cdi", "bytes")
helps |= dict.fromkeys("ej", "launches") | {"b": "nothing", "f": "sizes", "g": "measurement"}
### END SOLUTION

# %% [markdown]
# Next: run `amp-lessons bench` on the GPU that you use, and ask of its table what you asked here.
# [[Lesson past_one_gpu]] goes past one eager GPU.
