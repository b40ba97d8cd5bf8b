# %% statement points=3 minutes=20
# # Which rows of this table are suspect?
#
# A table of benchmark results is a list of rows, one dict per row. Two values have one entry for
# each of the two runs, `"baseline"` and `"mixed"`: `dtype`, and `rate` in samples per second, for
# all GPUs together. `hours`, the time of a whole training, has both entries too.
#
# | key | value |
# |---|---|
# | `id`, `model`, `gpu` | text; `gpu` is `"V100"` or `"A100"` |
# | `gpus`, `batch` | the number of GPUs, and the batch of each |
# | `stated` | the speed-up that the table prints |
# | `log` | a few lines from the log of the mixed run, or `""` |
# | `samples` | how many samples a whole training goes through |
# | `gflop` | the GFLOP that training on one sample takes (1 GFLOP is 10⁹ FLOP) |
#
# `stated`, `gflop` and `hours` may be None. Leave out the test that needs them then.
#
# Write `suspect_rows(rows)`. It returns a dict from the id of each suspect row to the set of its
# reasons. Rows without a reason are left out. These are the reasons:
#
# | reason | a row has it if |
# |---|---|
# | `"stated"` | `stated` is off by more than 2% of the speed-up that the two rates give |
# | `"log"` | the log contains `amp : False` (these programs have no other switch for it) |
# | `"same"` | both rates are the same number |
# | `"peak"` | in either run, one GPU computes more TFLOP/s than `PEAKS` allows for its dtype |
# | `"scaling"` | in either run, its rate is more than 5% above `gpus` times that of one GPU |
# | `"time"` | in either run, at this `rate`, `hours` are too short for 95% of the `samples` |
#
# For `"scaling"`, look for a row with one GPU and the same model, GPU and batch. A table has at
# most one. Where it has none, leave out the test.

# %% given
from amp_lessons.exercises.speed.harness_published import PEAKS, QUOTED

# %% text
# These rows were published. The check uses them, and tables that are made up. `gflop` isn't known
# for any of them, and the rates have different units.

# %% demo
print("TFLOP/s at most:", PEAKS)
for row in QUOTED:
    rate, hours = row["rate"], row["hours"]
    print(f"\n{row['id']}  {row['model']}, {row['gpus']} x {row['gpu']}, batch {row['batch']}")
    print(f"   {row['dtype']['baseline']} {rate['baseline']:,}, mixed {rate['mixed']:,}")
    print(f"   stated: {row['stated']}, log: {row['log']!r}")
    if hours:
        times = f"{hours['baseline']:.2f} and {hours['mixed']:.2f} hours"
        print(f"   {times} for {row['samples']:,} samples")
    print(f"   {row['source']}")

# %% answer
def suspect_rows(rows):
    """A dict from the id of each suspect row to the set of its reasons."""
    ### BEGIN SOLUTION
    ones = {(r["model"], r["gpu"], r["batch"]): r["rate"] for r in rows if r["gpus"] == 1}
    found = {}
    for row in rows:
        reasons = set()
        rate, gpus = row["rate"], row["gpus"]
        speedup = rate["mixed"] / rate["baseline"]
        if row["stated"] is not None and abs(row["stated"] - speedup) > 0.02 * speedup:
            reasons.add("stated")
        if "amp : False" in row["log"]:
            reasons.add("log")
        if rate["baseline"] == rate["mixed"]:
            reasons.add("same")
        one = ones.get((row["model"], row["gpu"], row["batch"]))
        for run in ("baseline", "mixed"):
            if row["gflop"] is not None:
                teraflops = row["gflop"] / 1000 * rate[run] / gpus
                if teraflops > PEAKS[row["gpu"]][row["dtype"][run]]:
                    reasons.add("peak")
            if one is not None and rate[run] > 1.05 * gpus * one[run]:
                reasons.add("scaling")
            if row["hours"] is not None:
                done = row["hours"][run] * 3600 * rate[run]
                if done < 0.95 * row["samples"]:
                    reasons.add("time")
        if reasons:
            found[row["id"]] = reasons
    return found
    ### END SOLUTION

# %% hints
# - Start with the three reasons that need one row and no loop: `"stated"`, `"log"` and `"same"`.
# - For the other three, go over both runs. `rate` counts all GPUs; `PEAKS` is for one.
# - For `"scaling"`, first collect the rows with one GPU in a dict. Which values make up its key?
# - For `"time"`, how many samples does a run get through in `hours` at its `rate`?

# %% probe
from amp_lessons.exercises.speed.harness_published import play_table, table_cases

probe = Probe(table_cases, play=play_table)

# %% judge
from amp_lessons.exercises.speed.harness_published import OTHER, tell_row

judge = Judge(asked_for="a dict from ids to sets of reasons", tell=tell_row)

# %% passed
# You check a table before you believe it: against its log, its own arithmetic and the data sheet.
# Five of the eight published rows are suspect, each for another reason.

# %% right one_function_for_each_reason
def suspect_rows(rows):
    def gain(row):
        return row["rate"]["mixed"] / row["rate"]["baseline"]

    def stated(row):
        return row["stated"] is not None and not 0.98 < row["stated"] / gain(row) < 1.02

    def peak(row, run):
        flops = (row["gflop"] or 0) * 1e9 * row["rate"][run] / row["gpus"]
        return flops > 1e12 * PEAKS[row["gpu"]][row["dtype"][run]]

    def scaling(row, run):
        same = [r for r in rows if all(r[k] == row[k] for k in ("model", "gpu", "batch"))]
        return any(row["rate"][run] / r["rate"][run] / row["gpus"] > 1.05
                   for r in same if r["gpus"] == 1)

    def time(row, run):
        return bool(row["hours"]) and row["samples"] / row["rate"][run] * 0.95 > (
            3600 * row["hours"][run])

    tests = {"stated": stated, "log": lambda row: "amp : False" in row["log"],
             "same": lambda row: gain(row) == 1}
    of_runs = {"peak": peak, "scaling": scaling, "time": time}
    found = {}
    for row in rows:
        reasons = [name for name, test in tests.items() if test(row)]
        for name, test in of_runs.items():
            if any(test(row, run) for run in row["rate"]):
                reasons.append(name)
        if reasons:
            found[row["id"]] = reasons
    return found

# %% right pairs_of_id_and_reason
def suspect_rows(rows):
    from collections import defaultdict

    found = defaultdict(set)
    for row in rows:
        name, rate, n = row["id"], row["rate"], row["gpus"]
        x, y = rate.values()
        if row["stated"] is not None and not math.isclose(row["stated"], y / x, rel_tol=0.02):
            found[name].add("stated")
        if any(line.endswith("amp : False") for line in row["log"].splitlines()):
            found[name].add("log")
        if x == y:
            found[name].add("same")
        for run, speed in rate.items():
            peak = n * 1e3 * PEAKS[row["gpu"]][row["dtype"][run]]  # GFLOP/s
            if row["gflop"] and speed * row["gflop"] > peak:
                found[name] |= {"peak"}
            if row["hours"] and row["hours"][run] < 0.95 * row["samples"] / speed / 3600:
                found[name] |= {"time"}
            for one in rows:
                alike = all(one[k] == row[k] for k in ("model", "gpu", "batch"))
                if alike and one["gpus"] == 1 and speed > 1.05 * n * one["rate"][run]:
                    found[name] |= {"scaling"}
    return found

# %% rule another-reason
# {word} is not one of the six reasons: "stated", "log", "same", "peak", "scaling", "time".
def breaks(seen, right):
    words = noted(seen, OTHER)
    return bool(words) and {"word": describe(words[0])}
swap('reasons.add("same")', 'reasons.add("equal")')
of("pairs_of_id_and_reason", swap('.add("log")', '.add("AMP was off")'))

# %% wrong every-row-listed
# You also listed rows that have no reason. Leave them out.
unwrap("if reasons:")
put("for row in rows: found.setdefault(row['id'], set())", before="return found")

# %% wrong first-reason-only
# You stop at a row's first reason, or join tests by `elif`. A row can have several, and each is a
# thing to look into.
of("one_function_for_each_reason", swap("] = reasons", "] = reasons[:1]"))
put("reasons = set([r for r in ['stated', 'log', 'same', 'peak', 'scaling', 'time'] if r in reasons"
    "][:1])", before="if reasons")
swap('if "amp : False"', 'elif "amp : False"') & swap('if rate["b', 'elif rate["b')
of("one_function_for_each_reason", swap("if test(row)]", "if test(row)][:1]"))

# %% wrong stated-exactly
# You expected the printed speed-up to match exactly. Tables round it or cut it off: allow 2%.
swap("abs(row[\"stated\"] - speedup) > 0.02 * speedup", 'row["stated"] != round(speedup, 2)')
swap("0.02 * speedup", "0.0001 * speedup")
of("pairs_of_id_and_reason", swap("rel_tol=0.02", "rel_tol=0.0001"))

# %% wrong stated-by-an-amount
# You allow one amount for every speed-up. The task allows 2% of the speed-up.
swap("> 0.02 * speedup", "> 0.02")
of("one_function_for_each_reason", swap('not 0.98 < row["stated"] / gain(row) < 1.02',
    'abs(row["stated"] - gain(row)) > 0.02'))

# %% wrong missing-is-suspect
# You suspect rows that state no speed-up. None means that there is nothing to compare.
swap('row["stated"] is not None and abs', 'row["stated"] is None or abs')
of("one_function_for_each_reason", swap('row["stated"] is not None and not',
    'not row["stated"] or not'))

# %% wrong stated-upside-down
# You divided the baseline's rate by the mixed one. A speed-up is the new rate divided by the old.
swap('rate["mixed"] / rate["baseline"]', 'rate["baseline"] / rate["mixed"]')
of("pairs_of_id_and_reason", swap("y / x", "x / y"))

# %% wrong stated-one-sided
# You found only speed-ups that are stated too high. One that is too low is wrong as well.
swap("abs(row[\"stated\"] - speedup)", 'row["stated"] - speedup')
of("one_function_for_each_reason", swap("not 0.98 < row[\"stated\"] / gain(row) <",
    'row["stated"] / gain(row) >='))

# %% wrong inverse-accepted
# You accept a speed-up that is printed upside down, such as 0.66 for 1.51. Only 2% are allowed.
swap('abs(row["stated"] - speedup)',
    'min(abs(x - speedup) for x in (row["stated"], 1 / row["stated"]))')
of("one_function_for_each_reason", swap("0.98 < row",
    "(0.98 < 1 / row[\"stated\"] / gain(row) < 1.02) and not 0.98 < row"))

# %% wrong any-false
# You took any `False` in the log for a sign. Other settings may be False. Look for `amp : False`.
swap('"amp : False" in row', '"False" in row')
of("pairs_of_id_and_reason", swap('endswith("amp : False")', 'endswith(": False")'))

# %% wrong whole-log-compared
# A log has several lines, with more text in each. Look for `amp : False` anywhere in it.
swap('"amp : False" in row["log"]', 'row["log"] == "amp : False"')
of("pairs_of_id_and_reason", swap("line.endswith(", "line.startswith("))

# %% wrong log-must-say-true
# You suspect every row whose log doesn't say `amp : True`. An empty log says nothing either way.
swap('"amp : False" in row', '"amp : True" not in row')
of("pairs_of_id_and_reason",
    swap('any(line.endswith("amp : False")', 'all("amp : True" not in line'))

# %% wrong same-means-close
# You took rates that are close for the same. A small gain is possible. Compare with `==`.
swap('rate["baseline"] == rate["mixed"]', "abs(speedup - 1) < 0.01")
of("pairs_of_id_and_reason", swap("x == y", "math.isclose(x, y, rel_tol=0.01)"))

# %% wrong peak-of-one-gpu
# You compared the rate of all GPUs with the peak of one. Divide the rate by `gpus` first.
swap("* rate[run] / gpus", "* rate[run]")
of("pairs_of_id_and_reason", swap("n * 1e3 *", "1e3 *"))

# %% wrong peak-of-another-dtype
# You compared both runs with the peak of one dtype. Each run has its own: `row["dtype"][run]`.
swap('row["dtype"][run]', '"FP16"')
swap('row["dtype"][run]', 'row["dtype"]["baseline"]')
of("one_function_for_each_reason", swap('PEAKS[row["gpu"]][row["dtype"][run]]',
    'max(PEAKS[row["gpu"]].values())'))
of("one_function_for_each_reason", swap('PEAKS[row["gpu"]][row["dtype"][run]]',
    'min(PEAKS[row["gpu"]].values())'))

# %% wrong units-of-the-peak
# You give "peak" to nearly every row whose `gflop` is known. `gflop` times samples per second is
# GFLOP/s, and `PEAKS` has TFLOP/s.
swap(' / 1000', "")
of("one_function_for_each_reason", swap("1e9", "1e12"))

# %% wrong peak-never-given
# You never give "peak". Check the units: `gflop` times samples per second is GFLOP/s, and `PEAKS`
# has TFLOP/s. And compare with the peak of the row's own GPU and dtype.
swap(' / 1000', " / 1e6")
of("one_function_for_each_reason", swap("1e9", "1e6"))

# %% wrong no-room-for-scaling
# You left no room for chance. "scaling" asks for more than 5% above `gpus` times one GPU's rate.
swap("1.05 * gpus", "gpus")
of("one_function_for_each_reason", swap("> 1.05", "> 1"))

# %% wrong scaling-across-batches
# You compared with one GPU at another batch. Batch, model and GPU must all be the same.
(swap('(r["model"], r["gpu"], r["batch"])', '(r["model"], r["gpu"])') &
    swap('((row["model"], row["gpu"], row["batch"]))', '((row["model"], row["gpu"]))'))
of("pairs_of_id_and_reason", swap('("model", "gpu", "batch")', '("model", "gpu")'))
of("one_function_for_each_reason", swap('"gpu", "batch")', '"gpu")'))

# %% wrong scaling-across-gpus
# You compared with one GPU of another kind. Model, GPU and batch must all be the same.
of("pairs_of_id_and_reason", swap('("model", "gpu", "batch")', '("model", "batch")'))
of("one_function_for_each_reason", swap('"gpu", "batch")', '"batch")'))
of("one_function_for_each_reason", swap('("model", "gpu", "batch")', '("model",)'))

# %% wrong good-scaling-only
# You suspect rows that scale worse than one GPU. That is normal: GPUs wait for each other. What
# can't be right is a rate more than 5% *above* `gpus` times that of one GPU.
swap("rate[run] > 1.05 * gpus", "rate[run] < 0.95 * gpus")
swap("rate[run] > 1.05 * gpus * one[run]", "abs(rate[run] / gpus / one[run] - 1) > 0.05")
of("pairs_of_id_and_reason", swap('speed > 1.05 * n * one["rate"][run]',
    'speed / n < 0.95 * one["rate"][run]'))
of("pairs_of_id_and_reason", swap('speed > 1.05 * n * one["rate"][run]',
    'not 0.95 < speed / n / one["rate"][run] < 1.05'))

# %% wrong time-of-one-gpu
# You brought the number of GPUs into "time". `rate` counts the samples of all GPUs already.
swap("* 3600 * rate[run]", "* 3600 * rate[run] * gpus")
swap("* 3600 * rate[run]", "* 3600 * rate[run] / gpus")
of("pairs_of_id_and_reason", swap('row["hours"][run] < 0.95', 'row["hours"][run] * n < 0.95'))

# %% wrong equal-times
# You took equal times for the fault. Ask of each run if its `hours` are enough for its samples.
swap('done < 0.95 * row["samples"]', 'row["hours"]["baseline"] == row["hours"]["mixed"]')
of("pairs_of_id_and_reason", swap('row["hours"][run] < 0.95 * row["samples"] / speed / 3600',
    'len({*row["hours"].values()}) == 1'))

# %% wrong time-without-room
# You left no room for chance. "time" asks for hours too short for 95% of the samples.
swap("0.95 * ", "")
of("one_function_for_each_reason", swap(" * 0.95", ""))

# %% wrong time-by-ratio
# You compared the times' ratio with that of the rates. Validation and loading make them differ.
(swap("done < 0.95 * row[\"samples\"]", "abs(row['hours']['baseline'] / row['hours']['mixed'] - "
    "speedup) > 0.05 * speedup"))
of("pairs_of_id_and_reason", swap('row["hours"][run] < 0.95 * row["samples"] / speed / 3600',
    'not 0.95 < row["hours"]["baseline"] / row["hours"]["mixed"] / (y / x) < 1.05'))

# %% wrong too-long-is-fine
# You suspect runs that took longer than their rate needs. Validation takes time too, so they may.
swap('done < 0.95 * row["samples"]', 'done > 1.05 * row["samples"]')
of("pairs_of_id_and_reason", swap('row["hours"][run] < 0.95', 'row["hours"][run] > 1.05'))
swap('done < 0.95 * row["samples"]', 'not 0.95 < done / row["samples"] < 1.05')

# %% wrong units-of-the-time
# Your units of time differ. A rate is per second, and an hour has 3600 of them.
swap(" * 3600", "")
swap(" * 3600", " * 60")
of("pairs_of_id_and_reason", swap(" / 3600", " / 60"))

# %% wrong one-run-only
# You looked at one of the two runs only. "peak", "scaling" and "time" ask about both.
swap('("baseline", "mixed")', '("mixed",)')
of("one_function_for_each_reason", swap('in row["rate"])', 'in ["mixed"])'))
swap('("baseline", "mixed")', '("baseline",)')

# %% wrong both-runs-needed
# You suspect a row only if both runs break the rule. One is enough.
of("one_function_for_each_reason", swap("if any(test(row, run)", "if all(test(row, run)"))
(put("both = []", after="reasons = set()") & swap('reasons.add("peak")', 'both.append("peak")') &
    swap('reasons.add("scaling")', 'both.append("scaling")') & swap('reasons.add("time")',
    'both.append("time")') & put("reasons |= {x for x in both if both.count(x) == 2}",
    before="if reasons"))

# %% wrong wrong-type
swap("return found", "return sorted(found)")
