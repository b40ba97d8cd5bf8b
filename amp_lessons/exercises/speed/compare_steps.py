# %% statement points=2 minutes=15
# # Fix a comparison that lies
#
# A comparison can lie although both its times are right. Here the candidate is 1.25 times as fast:

# %% demo
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

# %% text
# Fix it, as `compare_steps`. Return the speed-up: the baseline's median time divided by the
# candidate's, each over `repeats` samples. Before them, run each of the two `warm_up` times without
# counting. The result must also be right on devices that only queue the work.
#
# Leave the device's switches as the user has set them. Some chips get slower as they get warm, and
# the step that is measured second must not pay for that. One batch, made once by
# `gpu.make_batch()`, is enough. Making it is not part of a step.

# %% answer
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    """How many times as fast `candidate(batch)` is as `baseline(batch)`."""
    ### BEGIN SOLUTION
    batch = gpu.make_batch()
    for _ in range(warm_up):
        baseline(batch)
        candidate(batch)
    old, new = [], []
    for _ in range(repeats):
        for step, times in ((baseline, old), (candidate, new)):
            gpu.synchronize()
            start = gpu.clock()
            step(batch)
            gpu.synchronize()
            times.append(gpu.clock() - start)
    return statistics.median(old) / statistics.median(new)
    ### END SOLUTION

# %% hints
# - Only the step itself may differ between the two measurements. What else differs above?
# - Let the two take turns: one loop, with one sample of each in every turn, into two lists.
# - Run both `warm_up` times first. Synchronize before each reading of the clock.

# %% probe
from amp_lessons.exercises.speed.harness import pair_cases, play_benchmark

probe = Probe(pair_cases, play=play_benchmark, own=("amp_lessons.amp.speed.timing",))

# %% judge
from amp_lessons.exercises.speed.harness import off, same_times, teller, too_few_runs, was_noted

judge = Judge(same_times, "the speed-up", tell=teller("the speed-up is"))

# %% passed
# Both steps are warm, they take turns, and the switches are the user's.

# %% right events_in_random_order
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    import random

    def sample(step):
        batch = gpu.make_batch()
        start, end = gpu.event(), gpu.event()
        start.record()
        step(batch)
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    for step in (baseline, candidate):
        for _ in range(warm_up):
            sample(step)
    times = {baseline: [], candidate: []}
    for _ in range(repeats):
        for step in random.sample([baseline, candidate], 2):
            times[step].append(sample(step))
    return statistics.median(times[baseline]) / statistics.median(times[candidate])

# %% right one_chain_of_readings
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    batch = gpu.make_batch()
    gpu.synchronize()
    times, last = ([], []), gpu.clock()
    for i in range(2 * (warm_up + repeats)):
        (baseline, candidate)[i % 2](batch)
        gpu.synchronize()
        now = gpu.clock()
        times[i % 2].append(now - last)
        last = now
    return statistics.median(times[0][warm_up:]) / statistics.median(times[1][warm_up:])

# %% rule another-clock
# You never asked the pretend GPU for the time. Use `gpu.clock()` or `gpu.event()`.
breaks = was_noted("no clock of the device read")
swap("gpu.clock()", "__import__('time').perf_counter()", nth=0)

# %% rule moved-baseline
# You changed the device's TF32 switch, and with it the baseline. Measure with the user's switches.
breaks = was_noted("TF32 switched while a step ran")
put("gpu.tf32 = False", before="batch =")

# %% rule data-on-the-clock
# You make the batch while your clock runs, so it hides part of the gain. Make it before.
breaks = off("data that is slow to make")
swap("step(batch)", "step(gpu.make_batch())")
of("events_in_random_order", move("batch =", before="step(batch)"))

# %% rule not-synchronised
# A launch only queues the work, and not every reading of your clock waits. Synchronize before each.
breaks = off("a queue", "data to be copied")
drop("gpu.synchronize()", nth=2)
drop("gpu.synchronize()", nth=1) & put("batch = gpu.make_batch()", before="start =")

# %% rule cold-start
# The first runs are slow, and some are among your samples. Each of the steps needs its own warm-up.
breaks = off("a baseline that starts slowly", "a candidate that starts slowly")
drop("candidate(batch)")
drop("baseline(batch)")

# %% rule too-few-runs
# At least one step ran only {runs} times, not {asked}: `warm_up` and then `repeats` runs.
breaks = too_few_runs
swap("range(repeats)", "range(1)")
of("one_chain_of_readings", swap("(warm_up + repeats)", "repeats"))

# %% rule mean-with-spikes
# A few runs took fifty times as long, and they count in your result. Take each step's median.
breaks = off("spikes")
swap("statistics.median(old) / statistics.median(new)", "sum(old) / sum(new)")
of("one_chain_of_readings", swap("median", "mean", nth=0))

# %% rule one-after-the-other
# Most samples of one step came before most samples of the other. This chip slows down as it gets
# warm, so the step that you measured later looks slower than it is. Let the two take turns.
breaks = off("a chip that slows down")
swap("for _ in range(repeats):\n    for step, times in ((baseline, old), (candidate, new)):",
    "for step, times in ((baseline, old), (candidate, new)):\n    for _ in range(repeats):")

# %% wrong median-of-quotients
# You took the median of the quotients of all turns. Asked for is the quotient of the two medians.
swap("median(old) / statistics.median(new)", "median(a / b for a, b in zip(old, new))")
put("return sorted(a / b for a, b in zip(old, new))[repeats // 2]", before="return")

# %% rule not-the-median
# What you divided are not the medians. The fastest run is luck, and so is the first or the last.
breaks = off("a baseline that varies")
swap("statistics.median", "min", nth=0)

# %% rule switch-left
# You left the device's TF32 switch in another position than you found it. Don't touch it.
breaks = was_noted("TF32 left switched")
put("gpu.tf32 = False", before="return")
of("one_chain_of_readings", put("gpu.tf32 = not gpu.tf32", before="return"))

# %% wrong upside-down
# You divided the wrong way round. A speed-up is above 1 where the candidate is faster.
swap("(old) / statistics.median(new)", "(new) / statistics.median(old)")
of("one_chain_of_readings", swap("times[i % 2].append", "times[1 - i % 2].append"))

# %% wrong saved-share
# You returned the share of the time that was saved or gained. Return the quotient of the medians.
swap("statistics.median(new)", "statistics.median(new) - 1")
swap("return ", "return 100 * ") & swap("median(new)", "median(new) - 100")
swap("statistics.median(old) /", "1 - statistics.median(new) /") & swap("(new)", "(old)", nth=2)
of("one_chain_of_readings", swap("[1][warm_up:])", "[1][warm_up:]) - 1"))

# %% wrong ready-made
# %% program the_course_takes_turns
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    from amp_lessons.amp.speed import WallClock, take_turns

    batch, clock = gpu.make_batch(), WallClock(gpu.synchronize, gpu.clock)
    steps = {"old": lambda: baseline(batch), "new": lambda: candidate(batch)}
    times = {"old": [], "new": []}
    for name, seconds in take_turns(steps, clock, warm_up + repeats):
        times[name].append(seconds)
    old, new = (statistics.median(seen[warm_up:]) for seen in times.values())
    return old / new
