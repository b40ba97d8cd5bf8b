# %% statement points=2 minutes=15
# # Which runs make a fair pair?
#
# Somebody trained in several formats and wants to know what the format gains. Each run is a dict:
# its `id` and `dtype`; `model`, `gpu`, `batch`, `layout` and `torch` (its version); its `rate` in
# samples per second; and its final `loss`, with the standard deviation over some seeds as `spread`.
#
# Write `fair_pairs(runs)`. It returns a list of tuples `(baseline, candidate, speedup)`: the ids of
# two runs, and the candidate's rate divided by the baseline's. The list has each fair pair once, in
# any order. A pair is fair if all of these hold:
#
# 1. The baseline's dtype is `"fp32"` or `"tf32"`, the candidate's `"fp16"` or `"bf16"`.
# 2. Both runs have the same model, GPU, batch, layout and torch version.
# 3. Their losses agree: they are at most two combined standard deviations apart, in either
#    direction. The combined standard deviation is the square root of the sum of both squares.
# 4. Both losses are finite.
#
# A run can belong to several pairs. A fair pair may also show that the candidate is slower.

# %% demo
runs = [
    {"id": "a", "dtype": "tf32", "batch": 128, "layout": "contiguous", "rate": 812.0},
    {"id": "b", "dtype": "fp16", "batch": 256, "layout": "channels_last", "rate": 2310.0},
    {"id": "c", "dtype": "fp16", "batch": 128, "layout": "contiguous", "rate": 1190.0},
]
for candidate in runs[1:]:
    print(f"{candidate['id']} is {candidate['rate'] / runs[0]['rate']:.2f} times as fast as a")

# %% text
# Those three runs are made up. Only one of the two speed-ups is about the format.

# %% answer
def fair_pairs(runs):
    """All fair pairs, as a list of tuples (baseline, candidate, speedup)."""
    ### BEGIN SOLUTION
    found = []
    for old in runs:
        for new in runs:
            if old["dtype"] not in ("fp32", "tf32") or new["dtype"] not in ("fp16", "bf16"):
                continue
            settings = ("model", "gpu", "batch", "layout", "torch")
            if any(old[name] != new[name] for name in settings):
                continue
            if not (math.isfinite(old["loss"]) and math.isfinite(new["loss"])):
                continue
            if abs(old["loss"] - new["loss"]) > 2 * math.hypot(old["spread"], new["spread"]):
                continue
            found.append((old["id"], new["id"], new["rate"] / old["rate"]))
    return found
    ### END SOLUTION

# %% hints
# - Two loops over the runs give every pair. Then leave out what isn't fair, condition by condition.
# - What does Python say to `nan > 1`? Ask `math.isfinite` before you compare the losses.
# - `math.hypot(a, b)` is the square root of a² + b².

# %% probe
from amp_lessons.exercises.speed.harness_layers import play_pairs, run_cases

probe = Probe(run_cases, play=play_pairs)

# %% judge
from amp_lessons.exercises.speed.harness_layers import tell_pair

asked_for = "a list of tuples (baseline, candidate, speedup)"
judge = Judge(within(0.006), asked_for, tell=tell_pair)

# %% passed
# Same batch, same layout, same software, same quality: only then is a speed-up about the format.

# %% right groups_of_settings
def fair_pairs(runs):
    from itertools import groupby, product

    def settings(run):
        return run["model"], run["gpu"], run["batch"], run["layout"], run["torch"]

    def agree(a, b):
        return (a["loss"] - b["loss"]) ** 2 <= 4 * (a["spread"] ** 2 + b["spread"] ** 2)

    pairs = []
    finite = [run for run in runs if abs(run["loss"]) < math.inf]
    for _, group in groupby(sorted(finite, key=settings), settings):
        group = list(group)
        wide = [run for run in group if run["dtype"] in {"fp32", "tf32"}]
        narrow = [run for run in group if run["dtype"] in {"fp16", "bf16"}]
        for a, b in product(wide, narrow):
            if agree(a, b):
                pairs.append((a["id"], b["id"], b["rate"] / a["rate"]))
    return pairs

# %% right a_generator_of_lists
def fair_pairs(runs):
    def pairs():
        for a in runs:
            for b in runs:
                far = abs(a["loss"] - b["loss"]) / (a["spread"] ** 2 + b["spread"] ** 2) ** 0.5
                order = a["dtype"][-2:] == "32" and b["dtype"][-2:] == "16"
                names = a.keys() - {"id", "dtype", "rate", "loss", "spread"}
                if order and all(a[n] == b[n] for n in names) and far <= 2:
                    yield [a["id"], b["id"], round(b["rate"] / a["rate"], 2)]

    return list(pairs())

# %% wrong batch-ignored
# You pair runs with different batches. A larger batch is faster by itself on many GPUs.
swap('"batch", ', "")
of("a_generator_of_lists", swap('{"id",', '{"batch", "id",'))

# %% wrong layout-ignored
# You pair runs with different layouts. `channels_last` alone can make convolutions faster.
swap('"layout", ', "")
of("a_generator_of_lists", swap('{"id",', '{"layout", "id",'))

# %% wrong software-ignored
# You pair runs of different torch versions. Another version brings other kernels.
swap(', "torch")', ")")
of("a_generator_of_lists", swap('{"id",', '{"torch", "id",'))

# %% wrong gpu-ignored
# You pair runs on different GPUs. Then the speed-up is that of the GPU as well.
swap('"gpu", ', "")
of("a_generator_of_lists", swap('{"id",', '{"gpu", "id",'))

# %% wrong model-ignored
# You pair different models. They don't do the same work.
swap('"model", ', "")
of("a_generator_of_lists", swap('{"id",', '{"model", "id",'))

# %% wrong settings-ignored
# You left several settings out. Model, GPU, batch, layout and torch version must all be equal.
drop("if any")
swap('("model", "gpu", "batch", "layout", "torch")', '("batch",)')
swap('("model", "gpu", "batch", "layout", "torch")', '("batch", "layout")')
of("a_generator_of_lists", swap("all(a[n] == b[n] for n in names)", "True"))

# %% wrong quality-ignored
# You didn't compare the losses. A run that trains worse is no proof of a speed-up.
drop("if abs")
of("groups_of_settings", swap("if agree(a, b)", "if True"))

# %% wrong nan-slips-through
# You never look for NaN, and comparing with NaN gives False. Ask `math.isfinite` of both losses.
drop("if not (")
swap('not (math.isfinite(old["loss"]) and math.isfinite(new["loss"]))',
    'math.inf in (old["loss"], new["loss"])')
of("a_generator_of_lists", swap("far <= 2", "not far > 2"))

# %% wrong one-loss-checked
# You look for NaN and inf in one of the two losses only. Check both.
swap(' and math.isfinite(new["loss"])', "")
swap('math.isfinite(old["loss"]) and ', "")
of("groups_of_settings", swap("if agree(a, b)", "if agree(a, b) or math.isnan(a['loss'])") &
    swap("if abs(run", "if '32' in run['dtype'] or abs(run"))

# %% wrong inf-slips-through
# You look for NaN only. If both losses are inf, their distance is NaN, and comparing with NaN gives
# False. Ask `math.isfinite` of both losses.
swap('not (math.isfinite(old["loss"]) and math.isfinite(new["loss"]))',
    'math.isnan(old["loss"]) or math.isnan(new["loss"])')
of("a_generator_of_lists", swap("far <= 2", '(far <= 2 or a["loss"] == b["loss"])'))

# %% wrong only-worse-losses
# You accept any candidate with a lower loss. A loss far lower also says that more than the format
# changed. Compare the distance in both directions.
swap('abs(old["loss"] - new["loss"])', 'new["loss"] - old["loss"]')
of("groups_of_settings", swap("return (a", 'return b["loss"] < a["loss"] or (a'))

# %% wrong only-better-losses
# You accept any candidate with a higher loss. Compare the distance in both directions.
swap('abs(old["loss"] - new["loss"])', 'old["loss"] - new["loss"]')
of("groups_of_settings", swap("return (a", 'return b["loss"] > a["loss"] or (a'))

# %% wrong spreads-added
# You added the spreads. Standard deviations combine by their squares: `math.hypot`.
swap('math.hypot(old["spread"], new["spread"])', '(old["spread"] + new["spread"])')
of("a_generator_of_lists", swap('(a["spread"] ** 2 + b["spread"] ** 2) ** 0.5',
    '(a["spread"] + b["spread"])'))

# %% wrong one-spread
# You used the spread of one run. Both losses vary: combine both spreads.
swap('math.hypot(old["spread"], new["spread"])', 'old["spread"]')
swap('math.hypot(old["spread"], new["spread"])', 'new["spread"]')
swap('math.hypot(old["spread"], new["spread"])', 'max(old["spread"], new["spread"])')
of("a_generator_of_lists", swap(' + b["spread"] ** 2', ""))
of("a_generator_of_lists", swap('a["spread"] ** 2 + ', ""))

# %% wrong intervals-overlap
# You asked whether the intervals of loss ± spread overlap. Compare the distance with the combined
# standard deviation: `math.hypot` of both spreads, times two.
swap('2 * math.hypot(old["spread"], new["spread"])', 'old["spread"] + new["spread"]')
of("a_generator_of_lists", swap("far <= 2", "max(x['loss'] - x['spread'] for x in (a, b)) <= "
    "min(x['loss'] + x['spread'] for x in (a, b)) and math.isfinite(far)"))

# %% wrong no-square-root
# You left out the square root. The sum of the squares is a variance, in other units than a loss.
swap('math.hypot(old["spread"], new["spread"])', '(old["spread"] ** 2 + new["spread"] ** 2)')
of("a_generator_of_lists", swap(" ** 0.5", ""))

# %% wrong other-number-of-deviations
# You allow another number of combined standard deviations. Losses may be up to two of them apart.
swap("2 * math.hypot", "3 * math.hypot")
of("a_generator_of_lists", swap("far <= 2", "far <= 3"))
swap("2 * math.hypot", "math.hypot")
of("a_generator_of_lists", swap("far <= 2", "far <= 1"))

# %% wrong two-left-out
# You leave out losses that are exactly two combined standard deviations apart. At most two includes
# two.
swap("> 2 *", ">= 2 *")
of("a_generator_of_lists", swap("far <= 2", "far < 2"))
of("groups_of_settings", swap("** 2 <= 4", "** 2 < 4"))

# %% wrong fixed-distance
# You ask for equal losses, or allow a fixed distance. Whether a difference counts depends on the
# spread.
swap('2 * math.hypot(old["spread"], new["spread"])', '0')
swap('2 * math.hypot(old["spread"], new["spread"])', '0.05')
swap('abs(old["loss"] - new["loss"])', 'abs(round(old["loss"], 1) - round(new["loss"], 1))')
swap('2 * math.hypot(old["spread"], new["spread"])', '0.02 * old["loss"]')
swap('2 * math.hypot(old["spread"], new["spread"])', '0.01 * old["loss"]')
swap('2 * math.hypot(old["spread"], new["spread"])', '0.05 * old["loss"]')
of("groups_of_settings", swap("** 2 <= 4 * (a[\"spread\"] ** 2 + b[\"spread\"] ** 2)",
    '** 2 <= (0.02 * a["loss"]) ** 2'))

# %% wrong any-two-formats
# You pair any two formats. The baseline is in 32 bits (FP32 or TF32), the candidate in 16.
swap('old["dtype"] not in ("fp32", "tf32") or new["dtype"] not in ("fp16", "bf16")',
    'old["dtype"] == new["dtype"]')
of("a_generator_of_lists", swap('a["dtype"][-2:] == "32" and b["dtype"][-2:] == "16"',
    'a["dtype"] != b["dtype"]'))

of("a_generator_of_lists", swap('and b["dtype"][-2:] == "16"', 'and b["dtype"] != a["dtype"]'))

# %% wrong ids-swapped
# You put the candidate's id first. The order is baseline, candidate, speed-up.
swap('(old["id"], new["id"],', '(new["id"], old["id"],')
of("groups_of_settings", swap('(a["id"], b["id"],', '(b["id"], a["id"],'))

# %% wrong tf32-as-candidate
# You took TF32 for a 16-bit format. It is a way to multiply FP32 matrices, and a baseline here.
swap('("fp32", "tf32")', '("fp32",)') & swap('("fp16", "bf16")', '("fp16", "bf16", "tf32")')
of("a_generator_of_lists", swap('a["dtype"][-2:] == "32" and b["dtype"][-2:] == "16"',
    'a["dtype"] == "fp32" and b["dtype"] != "fp32"'))

# %% wrong tf32-forgotten
# You left out the pairs whose baseline is TF32. Both 32-bit formats count as baselines.
swap('("fp32", "tf32")', '("fp32",)')
of("groups_of_settings", swap('in {"fp32", "tf32"}', '== "fp32"'))

# %% wrong bf16-forgotten
# You left out the candidates in BF16. Both 16-bit formats count.
swap('("fp16", "bf16")', '("fp16",)')
of("groups_of_settings", swap('in {"fp16", "bf16"}', '== "fp16"'))

# %% wrong both-orders
# You list each pair in both orders. The run in 32 bits comes first.
put("found += [(new['id'], old['id'], old['rate'] / new['rate'])]", after="found.append")
of("groups_of_settings", put("pairs.append((b['id'], a['id'], a['rate'] / b['rate']))",
    after="pairs.append"))

# %% wrong one-pair-each
# You list one pair for each baseline, or the best pair. A run can belong to several pairs.
put("found = sorted(found, key=lambda pair: -pair[2])[:1]", before="return found")
of("a_generator_of_lists", swap("list(pairs())", "sorted(pairs(), key=lambda p: p[2])[-1:]"))
put("found = [p for p in found if p[2] == max(q[2] for q in found if q[0] == p[0])]",
    before="return found")
put("break", after="found.append")
put("if any(old['id'] == pair[0] for pair in found): continue", before="if any")
of("groups_of_settings", put("pairs = [p for n, p in enumerate(pairs) if p[0] not in [q[0] for"
    " q in pairs[:n]]]", before="return pairs"))

# %% wrong last-of-each-format
# You keep one run of each format and settings. There can be several, and each makes its own pairs.
put("runs = list({tuple(v for k, v in r.items() if k in ('dtype', 'model', 'gpu', 'batch', "
    "'layout', 'torch')): r for r in runs}.values())", before="found =")
of("a_generator_of_lists", put("runs_of = {}\nfor r in runs:\n    runs_of[r['dtype'], r['model'], "
    "r['gpu'], r['batch'], r['layout'], r['torch']] = r\nruns = list(runs_of.values())",
    before="def pairs"))

# %% wrong in-order-only
# You pair a run only with runs that come after it in the list. The runs are in no order.
swap("for new in runs:", "for new in runs[runs.index(old):]:")
of("a_generator_of_lists", swap("for b in runs",
    "for b in runs[[r is a for r in runs].index(True):]"))

# %% wrong slower-left-out
# You left out the pairs whose candidate is slower. A fair comparison can show that too.
wrap('if new["rate"] > old["rate"]:', "found.append")
of("groups_of_settings", swap("if agree(a, b)", 'if agree(a, b) and b["rate"] >= a["rate"]'))

# %% wrong upside-down
# You divided the wrong way round. A speed-up is the candidate's rate divided by the baseline's.
swap('new["rate"] / old["rate"]', 'old["rate"] / new["rate"]')
of("groups_of_settings", swap('b["rate"] / a["rate"]', 'a["rate"] / b["rate"]'))

# %% wrong rates-subtracted
# You returned a difference, or the share that is gained. Divide the candidate's rate by the
# baseline's.
swap('new["rate"] / old["rate"]', 'new["rate"] - old["rate"]')
of("groups_of_settings", swap('b["rate"] / a["rate"]', '-(a["rate"] - b["rate"])'))
swap('new["rate"] / old["rate"]', 'new["rate"] / old["rate"] - 1')
of("groups_of_settings", swap('b["rate"] / a["rate"]', '(b["rate"] - a["rate"]) / a["rate"]'))

# %% wrong wrong-type
swap('(old["id"], new["id"], new["rate"] / old["rate"])', '(old["id"], new["id"])')
swap("return found", "return {(a, b): x for a, b, x in found}")
