# %% statement points=3 minutes=20
# # Fix a benchmark that lies
#
# This benchmark looks like many that are published. The step really takes 2 ms:

# %% demo
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

# %% text
# Fix it, as `time_step`. Return the median time of one step in seconds, over `repeats` samples of
# one step each. Before them, run the step `warm_up` times without counting. Making a batch is not
# part of the step. You may make one batch for each run, or one for all of them.
#
# `gpu` works like CUDA, where a launch only queues the work:
#
# - `clock()` reads the host's clock, in seconds, and `synchronize()` waits for the queue;
# - `make_batch()` makes a batch on the host and queues its copy to the device;
# - `event()` is like `torch.cuda.Event`: `record()`, `synchronize()`, `elapsed_time(end)`.
#
# Only these clocks tell the device's time. `time.perf_counter` and `torch.cuda.Event` would time
# your own machine. Your answer is tried on devices with one trap each, and on one with several.

# %% answer
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

# %% hints
# - Which lines of a sample run on the host, which on the device? When do you read the clock?
# - One sample: make the batch, synchronize, read the clock, launch, synchronize, read the clock.
#   Or record an event before the launch and one after it, and synchronize at the end.
# - Run `warm_up` steps first. Then collect `repeats` samples in a list and take their median.

# %% probe
from amp_lessons.exercises.speed.harness import play_benchmark, time_cases

probe = Probe(time_cases, play=play_benchmark, own=("amp_lessons.amp.speed.timing",))

# %% judge
from amp_lessons.exercises.speed.harness import off, same_times, teller, too_few_runs, was_noted

judge = Judge(same_times, "the seconds of one step", tell=teller("a step takes", " s"))

# %% passed
# Warm up, synchronize before and after, keep the data out, and take the median of many samples.

# %% right events
def time_step(gpu, step, warm_up, repeats):
    for _ in range(warm_up):
        step(gpu.make_batch())
    pairs = []
    for _ in range(repeats):
        batch = gpu.make_batch()
        start, end = gpu.event(), gpu.event()
        start.record()
        step(batch)
        end.record()
        pairs.append((start, end))
    gpu.synchronize()
    return statistics.median(a.elapsed_time(b) for a, b in pairs) / 1e3

# %% right one_batch_and_more_samples
def time_step(gpu, step, warm_up, repeats):
    batch = gpu.make_batch()

    def sample():
        gpu.synchronize()
        before = gpu.clock()
        step(batch)
        gpu.synchronize()
        return gpu.clock() - before

    times = [sample() for _ in range(warm_up + 2 * repeats + 1)]
    return sorted(times[warm_up:])[repeats]

# %% rule another-clock
# You never asked the pretend GPU for the time. Use `gpu.clock()` or `gpu.event()`.
breaks = was_noted("no clock of the device read")
swap("gpu.clock()", "__import__('time').perf_counter()", nth=0)

# %% rule data-on-the-clock
# You make the batch while your clock runs, and it is not part of the step. Make it before.
breaks = off("data that is slow to make", above=True)
move("batch =", before="step(batch")
of("events", move("batch =", before="step(batch"))

# %% rule not-synchronised
# You stopped the clock before the queued work was done. Synchronize first, or let events time it.
breaks = off("a queue", "data to be copied", above=False)
drop("gpu.synchronize", nth=2)
move("gpu.synchronize", after="samples.append", nth=2)

# %% rule queue-on-the-clock
# The batch's copy or the warm-up still ran when your clock started. Synchronize before that too.
breaks = off("a queue", "data to be copied", above=True)
drop("gpu.synchronize", nth=1)
move("gpu.synchronize", before="batch =", nth=1)

# %% rule no-warm-up
# The first runs are slow, and some are among your samples. First run `warm_up` steps uncounted.
breaks = off("a slow start", above=True)
drop("for _ in range(warm_up)")
drop("for _ in range(warm_up)") & swap("range(repeats)", "range(warm_up + repeats)")

# %% rule too-few-runs
# You ran the step {runs} times, and not {asked}: `warm_up` runs that don't count, then `repeats`.
breaks = too_few_runs
drop("for _ in range(warm_up)") & swap("(samples)", "(samples[warm_up:])")
swap("range(repeats)", "range(1)")

# %% rule mean-with-spikes
# A few runs took fifty times as long, and count in your result. Time each alone; take the median.
breaks = off("spikes", above=True)
swap("statistics.median(samples)", "sum(samples) / repeats")
(move("batch =", before="samples =") & put("gpu.synchronize(); begun = gpu.clock()",
    before="samples =") & put("return (gpu.clock() - begun) / repeats", before="return"))

# %% rule not-the-median
# Your result is not the median of the samples. The fastest run is luck, and so is any single one.
breaks = off("times that vary")
swap("statistics.median", "min")
swap("statistics.median(samples)", "samples[-1]")

# %% wrong milliseconds
# Your result is in milliseconds, as `elapsed_time` gives them, and seconds were asked for.
of("events", swap(" / 1e3", ""))
swap("gpu.clock() - start", "1e3 * (gpu.clock() - start)")

# %% wrong microseconds
# Your result is a thousand times too small. Only the `elapsed_time` of events is in milliseconds.
swap("statistics.median(samples)", "statistics.median(samples) / 1000")
of("one_batch_and_more_samples", swap("gpu.clock() - before", "(gpu.clock() - before) / 1e3"))

# %% wrong all-steps-together
# You returned the time of all samples together. One step was asked for.
swap("statistics.median(samples)", "sum(samples)")
of("events", swap("statistics.median", "sum"))

# %% wrong wrong-type
swap("statistics.median(samples)", "samples")

# %% wrong ready-made
# %% program the_course_waits
def time_step(gpu, step, warm_up, repeats):
    from amp_lessons.amp.speed import WallClock

    clock, batch = WallClock(gpu.synchronize, gpu.clock), gpu.make_batch()
    times = [clock.time(lambda: step(batch)) for _ in range(warm_up + repeats)]
    return statistics.median(times[warm_up:])
