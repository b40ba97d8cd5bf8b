# === mutant: clock_stops_after_the_launch -> not-synchronised
def time_step(gpu, step, warm_up, repeats):
    for _ in range(warm_up):
        step(gpu.make_batch())
    times = []
    for _ in range(repeats):
        batch = gpu.make_batch()
        start = gpu.clock()
        step(batch)
        times.append(gpu.clock() - start)
    return statistics.median(times)


# === mutant: synchronises_before_only -> not-synchronised
def time_step(gpu, step, warm_up, repeats):
    for _ in range(warm_up):
        step(gpu.make_batch())
    times = []
    for _ in range(repeats):
        batch = gpu.make_batch()
        gpu.synchronize()
        start = gpu.clock()
        step(batch)
        times.append(gpu.clock() - start)
    gpu.synchronize()
    return statistics.median(times)


# === mutant: synchronises_after_only -> queue-on-the-clock
def time_step(gpu, step, warm_up, repeats):
    for _ in range(warm_up):
        step(gpu.make_batch())
    times = []
    for _ in range(repeats):
        batch = gpu.make_batch()
        start = gpu.clock()
        step(batch)
        gpu.synchronize()
        times.append(gpu.clock() - start)
    return statistics.median(times)


# === mutant: no_warm_up -> no-warm-up
def time_step(gpu, step, warm_up, repeats):
    times = []
    for _ in range(repeats):
        batch = gpu.make_batch()
        gpu.synchronize()
        start = gpu.clock()
        step(batch)
        gpu.synchronize()
        times.append(gpu.clock() - start)
    return statistics.median(times)


# === mutant: one_run_of_warm_up -> no-warm-up
def time_step(gpu, step, warm_up, repeats):
    step(gpu.make_batch())
    times = []
    for _ in range(repeats):
        batch = gpu.make_batch()
        gpu.synchronize()
        start = gpu.clock()
        step(batch)
        gpu.synchronize()
        times.append(gpu.clock() - start)
    return statistics.median(times)


# === mutant: warm_up_among_the_samples -> no-warm-up
def time_step(gpu, step, warm_up, repeats):
    times = []
    for _ in range(warm_up + repeats):
        batch = gpu.make_batch()
        gpu.synchronize()
        start = gpu.clock()
        step(batch)
        gpu.synchronize()
        times.append(gpu.clock() - start)
    return statistics.median(times[:repeats])


# === mutant: batch_made_while_the_clock_runs -> data-on-the-clock
def time_step(gpu, step, warm_up, repeats):
    for _ in range(warm_up):
        step(gpu.make_batch())
    times = []
    for _ in range(repeats):
        gpu.synchronize()
        start = gpu.clock()
        batch = gpu.make_batch()
        step(batch)
        gpu.synchronize()
        times.append(gpu.clock() - start)
    return statistics.median(times)


# === mutant: events_around_the_batch_too -> data-on-the-clock
def time_step(gpu, step, warm_up, repeats):
    for _ in range(warm_up):
        step(gpu.make_batch())
    times = []
    for _ in range(repeats):
        start, end = gpu.event(), gpu.event()
        start.record()
        step(gpu.make_batch())
        end.record()
        gpu.synchronize()
        times.append(start.elapsed_time(end) / 1000)
    return statistics.median(times)


# === mutant: warm_up_still_in_the_queue -> queue-on-the-clock
def time_step(gpu, step, warm_up, repeats):
    batch = gpu.make_batch()
    for _ in range(warm_up):
        step(batch)
    start = gpu.clock()
    for _ in range(repeats):
        step(batch)
    gpu.synchronize()
    return (gpu.clock() - start) / repeats


# === mutant: pythons_own_clock -> another-clock
def time_step(gpu, step, warm_up, repeats):
    import time

    for _ in range(warm_up):
        step(gpu.make_batch())
    times = []
    for _ in range(repeats):
        batch = gpu.make_batch()
        gpu.synchronize()
        start = time.perf_counter()
        step(batch)
        gpu.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


# === mutant: warm_up_taken_from_the_repeats -> too-few-runs
def time_step(gpu, step, warm_up, repeats):
    times = []
    for i in range(repeats):
        batch = gpu.make_batch()
        gpu.synchronize()
        start = gpu.clock()
        step(batch)
        gpu.synchronize()
        if i >= warm_up:
            times.append(gpu.clock() - start)
    return statistics.median(times)


# === mutant: mean_of_the_samples -> mean-with-spikes
def time_step(gpu, step, warm_up, repeats):
    for _ in range(warm_up):
        step(gpu.make_batch())
    total = 0.0
    for _ in range(repeats):
        batch = gpu.make_batch()
        gpu.synchronize()
        start = gpu.clock()
        step(batch)
        gpu.synchronize()
        total += gpu.clock() - start
    return total / repeats


# === mutant: one_clock_around_all -> mean-with-spikes
def time_step(gpu, step, warm_up, repeats):
    batch = gpu.make_batch()
    for _ in range(warm_up):
        step(batch)
    gpu.synchronize()
    start = gpu.clock()
    for _ in range(repeats):
        step(batch)
    gpu.synchronize()
    return (gpu.clock() - start) / repeats


# === mutant: the_fastest -> not-the-median
def time_step(gpu, step, warm_up, repeats):
    for _ in range(warm_up):
        step(gpu.make_batch())
    times = []
    for _ in range(repeats):
        batch = gpu.make_batch()
        gpu.synchronize()
        start = gpu.clock()
        step(batch)
        gpu.synchronize()
        times.append(gpu.clock() - start)
    return min(times)


# === mutant: a_single_sample -> too-few-runs
def time_step(gpu, step, warm_up, repeats):
    for _ in range(warm_up):
        step(gpu.make_batch())
    batch = gpu.make_batch()
    gpu.synchronize()
    start = gpu.clock()
    step(batch)
    gpu.synchronize()
    return gpu.clock() - start


# === mutant: events_count_milliseconds -> milliseconds
def time_step(gpu, step, warm_up, repeats):
    for _ in range(warm_up):
        step(gpu.make_batch())
    times = []
    for _ in range(repeats):
        batch = gpu.make_batch()
        start, end = gpu.event(), gpu.event()
        start.record()
        step(batch)
        end.record()
        gpu.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


# === mutant: forgets_to_divide -> all-steps-together
def time_step(gpu, step, warm_up, repeats):
    batch = gpu.make_batch()
    for _ in range(warm_up):
        step(batch)
    gpu.synchronize()
    start = gpu.clock()
    for _ in range(repeats):
        step(batch)
    gpu.synchronize()
    return gpu.clock() - start


# === mutant: prints_and_returns_nothing -> returned-none
def time_step(gpu, step, warm_up, repeats):
    for _ in range(warm_up + repeats):
        step(gpu.make_batch())
    gpu.synchronize()
    print(gpu.clock())


# === mutant: returns_the_samples -> wrong-type
def time_step(gpu, step, warm_up, repeats):
    for _ in range(warm_up):
        step(gpu.make_batch())
    times = []
    for _ in range(repeats):
        batch = gpu.make_batch()
        gpu.synchronize()
        start = gpu.clock()
        step(batch)
        gpu.synchronize()
        times.append(gpu.clock() - start)
    return times


# === mutant: results_of_the_last_check_by_heart -> wrong-value
def time_step(gpu, step, warm_up, repeats):
    for _ in range(warm_up + repeats):
        step(gpu.make_batch())
    gpu.synchronize()
    gpu.clock()
    return {(2, 11): 1.7e-3, (3, 11): 0.9e-3, (12, 15): 1.1e-3}.get((warm_up, repeats), 1.9e-3)


# === correct: events
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


# === correct: one_batch_for_all_and_more_samples
def time_step(gpu, step, warm_up, repeats):
    batch = gpu.make_batch()

    def sample():
        gpu.synchronize()
        before = gpu.clock()
        step(batch)
        gpu.synchronize()
        return gpu.clock() - before

    times = sorted(sample() for _ in range(warm_up + 2 * repeats))
    for _ in range(warm_up):
        sample()
    times = sorted(sample() for _ in range(2 * repeats + 1))
    return times[len(times) // 2]


# === correct: torchs_median_of_events_waited_for_one_by_one
def time_step(gpu, step, warm_up, repeats):
    import torch

    times = []
    for i in range(warm_up + repeats):
        batch = gpu.make_batch()
        start, end = gpu.event(), gpu.event()
        start.record()
        step(batch)
        end.record()
        end.synchronize()
        if i >= warm_up:
            times.append(start.elapsed_time(end) / 1000)
    return torch.tensor(times, dtype=torch.float64).quantile(0.5)


# === correct: the_packages_own_clock
def time_step(gpu, step, warm_up, repeats):
    from amp_lessons.timing import WallClock

    clock = WallClock(gpu.synchronize, gpu.clock)
    batches = [gpu.make_batch() for _ in range(warm_up + repeats)]
    times = [clock.time(lambda: step(batch)) for batch in batches]
    return statistics.median(times[warm_up:])


# === correct: timeit_with_the_gpus_clock
def time_step(gpu, step, warm_up, repeats):
    import timeit

    def now():
        gpu.synchronize()
        return gpu.clock()

    batch = gpu.make_batch()
    timeit.repeat(lambda: step(batch), timer=now, repeat=warm_up, number=1)
    return statistics.median(
        timeit.repeat(lambda: step(batch), timer=now, repeat=repeats, number=1)
    )


# === correct: torchs_benchmark_timer_and_numpy
def time_step(gpu, step, warm_up, repeats):
    import numpy as np
    from torch.utils.benchmark import Timer

    def now():
        gpu.synchronize()
        return gpu.clock()

    batch = gpu.make_batch()
    for _ in range(warm_up):
        step(batch)
    timer = Timer("step(batch)", globals={"step": step, "batch": batch}, timer=now)
    return np.median([timer.timeit(1).median for _ in range(repeats)])


# === mutant: median_of_warm_up_and_samples -> no-warm-up
def time_step(gpu, step, warm_up, repeats):
    times = []
    for _ in range(warm_up + repeats):
        batch = gpu.make_batch()
        gpu.synchronize()
        start = gpu.clock()
        step(batch)
        gpu.synchronize()
        times.append(gpu.clock() - start)
    return statistics.median(times)


# === mutant: mean_without_the_outliers -> not-the-median
def time_step(gpu, step, warm_up, repeats):
    for _ in range(warm_up):
        step(gpu.make_batch())
    times = []
    for _ in range(repeats):
        batch = gpu.make_batch()
        gpu.synchronize()
        start = gpu.clock()
        step(batch)
        gpu.synchronize()
        times.append(gpu.clock() - start)
    typical = statistics.median(times)
    return statistics.mean(t for t in times if t < 3 * typical)


# === mutant: mean_of_the_middle_half -> not-the-median
def time_step(gpu, step, warm_up, repeats):
    for _ in range(warm_up):
        step(gpu.make_batch())
    times = []
    for _ in range(repeats):
        batch = gpu.make_batch()
        gpu.synchronize()
        start = gpu.clock()
        step(batch)
        gpu.synchronize()
        times.append(gpu.clock() - start)
    quarter = repeats // 4
    return statistics.mean(sorted(times)[quarter:-quarter])


# === mutant: the_last_sample -> not-the-median
def time_step(gpu, step, warm_up, repeats):
    for _ in range(warm_up + repeats):
        batch = gpu.make_batch()
        gpu.synchronize()
        start = gpu.clock()
        step(batch)
        gpu.synchronize()
        seconds = gpu.clock() - start
    return seconds


# === correct: chain_of_events_in_fractions
def time_step(gpu, step, warm_up, repeats):
    from fractions import Fraction

    batches = [gpu.make_batch() for _ in range(repeats)]
    for _ in range(warm_up):
        step(batches[0])
    marks = [gpu.event() for _ in range(repeats + 1)]
    gpu.synchronize()
    marks[0].record()
    for batch, mark in zip(batches, marks[1:]):
        step(batch)
        mark.record()
    marks[-1].synchronize()
    return statistics.median(Fraction(a.elapsed_time(b)) / 1000 for a, b in pairwise(marks))
