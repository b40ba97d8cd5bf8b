# === mutant: switches_tf32_off -> moved-baseline
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    gpu.tf32 = False
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


# === mutant: switches_tf32_on -> moved-baseline
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    gpu.tf32 = True
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


# === mutant: one_then_the_other -> one-after-the-other
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    batch = gpu.make_batch()

    def median(step):
        for _ in range(warm_up):
            step(batch)
        times = []
        for _ in range(repeats):
            gpu.synchronize()
            start = gpu.clock()
            step(batch)
            gpu.synchronize()
            times.append(gpu.clock() - start)
        return statistics.median(times)

    return median(baseline) / median(candidate)


# === mutant: only_the_baseline_is_warmed -> cold-start
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    batch = gpu.make_batch()
    for _ in range(warm_up):
        baseline(batch)
    old, new = [], []
    for _ in range(repeats):
        for step, times in ((baseline, old), (candidate, new)):
            gpu.synchronize()
            start = gpu.clock()
            step(batch)
            gpu.synchronize()
            times.append(gpu.clock() - start)
    return statistics.median(old) / statistics.median(new)


# === mutant: only_the_candidate_is_warmed -> cold-start
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    batch = gpu.make_batch()
    for _ in range(warm_up):
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


# === mutant: never_waits -> not-synchronised
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    batch = gpu.make_batch()
    for _ in range(warm_up):
        baseline(batch)
        candidate(batch)
    old, new = [], []
    for _ in range(repeats):
        for step, times in ((baseline, old), (candidate, new)):
            start = gpu.clock()
            step(batch)
            times.append(gpu.clock() - start)
    return statistics.median(old) / statistics.median(new)


# === mutant: adds_them_up -> mean-with-spikes
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    batch = gpu.make_batch()
    for _ in range(warm_up):
        baseline(batch)
        candidate(batch)
    old = new = 0.0
    for _ in range(repeats):
        gpu.synchronize()
        a = gpu.clock()
        baseline(batch)
        gpu.synchronize()
        b = gpu.clock()
        candidate(batch)
        gpu.synchronize()
        old += b - a
        new += gpu.clock() - b
    return old / new


# === mutant: one_pair -> too-few-runs
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    batch = gpu.make_batch()
    for _ in range(warm_up):
        baseline(batch)
        candidate(batch)
    gpu.synchronize()
    a = gpu.clock()
    baseline(batch)
    gpu.synchronize()
    b = gpu.clock()
    candidate(batch)
    gpu.synchronize()
    return (b - a) / (gpu.clock() - b)


# === mutant: divided_the_wrong_way -> upside-down
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
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
    return statistics.median(new) / statistics.median(old)


# === mutant: percent_faster -> saved-share
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
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
    return 100 * (statistics.median(old) / statistics.median(new) - 1)


# === mutant: no_warm_up_at_all -> cold-start
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    batch = gpu.make_batch()
    old, new = [], []
    for _ in range(repeats):
        for step, times in ((baseline, old), (candidate, new)):
            gpu.synchronize()
            start = gpu.clock()
            step(batch)
            gpu.synchronize()
            times.append(gpu.clock() - start)
    return statistics.median(old) / statistics.median(new)


# === mutant: warm_up_taken_from_the_repeats -> too-few-runs
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    batch = gpu.make_batch()
    old, new = [], []
    for _ in range(repeats):
        for step, times in ((baseline, old), (candidate, new)):
            gpu.synchronize()
            start = gpu.clock()
            step(batch)
            gpu.synchronize()
            times.append(gpu.clock() - start)
    return statistics.median(old[warm_up:]) / statistics.median(new[warm_up:])


# === mutant: the_fastest_of_each -> not-the-median
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
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
    return min(old) / min(new)


# === mutant: a_batch_for_each_sample_on_the_clock -> data-on-the-clock
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    for _ in range(warm_up):
        baseline(gpu.make_batch())
        candidate(gpu.make_batch())
    old, new = [], []
    for _ in range(repeats):
        for step, times in ((baseline, old), (candidate, new)):
            gpu.synchronize()
            start = gpu.clock()
            step(gpu.make_batch())
            gpu.synchronize()
            times.append(gpu.clock() - start)
    return statistics.median(old) / statistics.median(new)


# === mutant: does_not_wait_for_the_copy -> not-synchronised
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    for _ in range(warm_up):
        baseline(gpu.make_batch())
        candidate(gpu.make_batch())
    old, new = [], []
    for _ in range(repeats):
        for step, times in ((baseline, old), (candidate, new)):
            batch = gpu.make_batch()
            start = gpu.clock()
            step(batch)
            gpu.synchronize()
            times.append(gpu.clock() - start)
    return statistics.median(old) / statistics.median(new)


# === mutant: pythons_own_clock -> another-clock
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    import time

    batch = gpu.make_batch()
    for _ in range(warm_up):
        baseline(batch)
        candidate(batch)
    old, new = [], []
    for _ in range(repeats):
        for step, times in ((baseline, old), (candidate, new)):
            gpu.synchronize()
            start = time.perf_counter()
            step(batch)
            gpu.synchronize()
            times.append(time.perf_counter() - start)
    return statistics.median(old) / statistics.median(new)


# === correct: turns_in_random_order_with_torchs_median
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    import random

    import torch

    def sample(step):
        gpu.synchronize()
        start = gpu.clock()
        step(batch)
        gpu.synchronize()
        return gpu.clock() - start

    batch = gpu.make_batch()
    times = {baseline: [], candidate: []}
    for turn in range(warm_up + repeats):
        for step in random.sample([baseline, candidate], 2):
            seconds = sample(step)
            if turn >= warm_up:
                times[step].append(seconds)
    old, new = (torch.tensor(times[step]).median() for step in (baseline, candidate))
    return old / new


# === correct: events_and_the_median_of_ratios
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    batch = gpu.make_batch()

    def sample(step):
        start, end = gpu.event(), gpu.event()
        start.record()
        step(batch)
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    for _ in range(warm_up):
        sample(baseline), sample(candidate)
    return statistics.median(sample(baseline) / sample(candidate) for _ in range(repeats))


# === correct: forwards_and_backwards
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    def sample(step):
        batch = gpu.make_batch()
        gpu.synchronize()
        start = gpu.clock()
        step(batch)
        gpu.synchronize()
        return gpu.clock() - start

    for step in (baseline, candidate):
        for _ in range(warm_up):
            sample(step)
    times = {0: [], 1: []}
    order = [0, 1]
    for _ in range(repeats):
        for i in order:
            times[i].append(sample((baseline, candidate)[i]))
        order.reverse()
    return statistics.median(times[0]) / statistics.median(times[1])


# === correct: the_packages_own_comparison
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    from amp_lessons import timing

    batch = gpu.make_batch()
    for _ in range(warm_up):
        baseline(batch)
        candidate(batch)
    steps = {"old": lambda: baseline(batch), "new": lambda: candidate(batch)}
    clock = timing.WallClock(gpu.synchronize, gpu.clock)
    found = timing.compare(steps, repeats=repeats, clock=clock)
    return found["old"].median / found["new"].median


# === mutant: medians_of_warm_up_and_samples -> cold-start
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    batch = gpu.make_batch()
    old, new = [], []
    for _ in range(warm_up + repeats):
        for step, times in ((baseline, old), (candidate, new)):
            gpu.synchronize()
            start = gpu.clock()
            step(batch)
            gpu.synchronize()
            times.append(gpu.clock() - start)
    return statistics.median(old) / statistics.median(new)


# === mutant: means_of_the_middle_halves -> not-the-median
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
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
    quarter = repeats // 4
    old, new = (statistics.mean(sorted(times)[quarter:-quarter]) for times in (old, new))
    return old / new


# === mutant: tidies_the_switch_up -> switch-left
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
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
    gpu.tf32 = False  # back to PyTorch's default
    return statistics.median(old) / statistics.median(new)


# === correct: one_chain_of_readings
def compare_steps(gpu, baseline, candidate, warm_up, repeats):
    batch = gpu.make_batch()
    for _ in range(warm_up):
        baseline(batch)
        candidate(batch)
    gpu.synchronize()
    times, last = ([], []), gpu.clock()
    for i in range(2 * repeats):
        (baseline, candidate)[i % 2](batch)
        gpu.synchronize()
        now = gpu.clock()
        times[i % 2].append(now - last)
        last = now
    return statistics.median(times[0]) / statistics.median(times[1])
