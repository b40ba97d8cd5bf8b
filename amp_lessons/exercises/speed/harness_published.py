"""Tables of benchmark results with planted faults, and rows quoted from real ones.

The drawn tables are made up: the numbers of a row fit each other, but for the fault that is planted
in it. Each table also holds rows that come near a tolerance and are right. The quoted rows name
their source.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.checks.messages import line
from amp_lessons.exercises.harness import as_play
from amp_lessons.exercises.checks.serialize import plain
from amp_lessons.exercises.checks.serialize.compare import exactly, is_dict
from amp_lessons.amp.speed.published import TrainingPair, load_published
from amp_lessons.amp.roofline import find_gpu

Row = dict[str, Any]

REASONS = ("stated", "log", "same", "peak", "scaling", "time")
DTYPES = {"V100": ("FP32", "FP16"), "A100": ("TF32", "FP16")}
"""Of the two runs in a row. A100 tables call TF32 their baseline."""
PEAKS = {
    gpu: {dtype: find_gpu(gpu).peak(dtype.lower()) / 1e12 for dtype in dtypes}
    for gpu, dtypes in DTYPES.items()
}
"""TFLOP/s for dense matrices, from `roofline`."""

AMP_OFF = (
    "PARAMETER dynamic_loss_scaling : True\nPARAMETER amp : False\nPARAMETER cudnn_enabled : True"
)
"""Three lines of a real log: see `QUOTED`."""
OTHER_LOGS = (
    "",
    "PARAMETER amp : True",
    "PARAMETER amp : True\nPARAMETER resume_from_last : False",
)
MODELS = ("BERT", "DLRM", "GNMT", "Jasper", "ResNet50", "SSD300", "Transformer", "UNet")


# ---- rows quoted from real tables ---------------------------------------------------------------

_LAMBDA = (
    "lambdal/deeplearning-benchmark, pytorch/results/LambdaCloud_V100_16GB_v1/PyTorch_waveglow_FP16"
    " and the tables in pytorch/, commit aa5addb"
)


def _row_of(pair: TrainingPair, **more: Any) -> Row:
    """A published pair as a row of a table."""
    return {
        "id": pair.id,
        "model": pair.name,
        "gpu": pair.family,
        "gpus": pair.gpu_count,
        "batch": int(pair.batch_mixed) if pair.batch_mixed else None,
        "dtype": {"baseline": pair.baseline, "mixed": pair.mixed},
        "rate": {"baseline": pair.rate_baseline, "mixed": pair.rate_mixed},
        "stated": pair.stated_speedup,
        "log": "",
        "hours": None,
        "samples": None,
        "gflop": None,
        "source": pair.where,
    } | more


def _quoted() -> list[Row]:
    """Rows of NVIDIA's tables, and one of Lambda's, whose log was kept."""
    published = load_published()
    pairs = {pair.id: pair for pair in published.training}
    rows = [_row_of(pairs[name]) for name in ("t187", "t311", "t312", "t041", "t042", "t048")]
    time = next(each for each in published.time_to_train if each.id == "h049")
    hours = {"baseline": time.hours_baseline, "mixed": time.hours_mixed}
    # The README says 65 epochs. COCO train2017 has 117,266 images with annotations.
    rows.append(_row_of(pairs["t076"], hours=hours, samples=65 * 117_266))
    waveglow = {
        "model": "WaveGlow", "gpu": "V100", "gpus": 1, "batch": 8, "stated": None, "log": AMP_OFF,
        "dtype": {"baseline": "FP32", "mixed": "FP16"}, "source": _LAMBDA,
        "rate": {"baseline": 47394.0, "mixed": 47253.0},
    }  # fmt: skip
    rows.append(rows[0] | waveglow)
    return [row | {"id": letter} for letter, row in zip("abcdefgh", rows, strict=True)]


QUOTED = _quoted()
"""Published rows. Their units differ, and None stands for what the tables don't say."""


# ---- tables that are made up --------------------------------------------------------------------


def _rounded(number: float, digits: int = 5) -> float:
    return round(number, digits - 1 - math.floor(math.log10(abs(number))))


def _stated(random: Random, speedup: float, fault: str, variant: int) -> float | None:
    """A speed-up as a table prints it: rounded, or cut off, or left out."""
    if "stated" in fault:
        return round((1 / speedup, speedup * 1.07, speedup * 0.93)[variant % 3], 2)
    if speedup > 1.7 and random.random() < 0.5:
        return round(speedup * 1.012, 2)
    cut_off = math.floor(speedup * 100) / 100
    return random.choice([round(speedup, 2), cut_off, cut_off, None])


def _base_rates(random: Random, gpu: str, fault: str, variant: int) -> tuple[float, float]:
    """TFLOP/s of one GPU in both runs."""
    peak, peak_16 = PEAKS[gpu].values()
    baseline = random.uniform(0.3, 0.5) * peak
    mixed = baseline * (random.uniform(1.3, 1.8) if gpu == "A100" else random.uniform(1.7, 2.8))
    if "peak" in fault and variant % 2:
        return random.uniform(1.2, 1.3) * peak, 1.3 * random.uniform(1.2, 1.3) * peak
    if "peak" in fault:
        return baseline, random.uniform(1.25, 1.6) * peak_16
    if "same" in fault:
        return baseline, baseline
    return baseline, baseline * 1.006 if "nearly" in fault else mixed


def _family(random: Random, model: str, gpu: str, fault: str, variant: int) -> list[Row]:
    """One model on one GPU and on several, and on one with half the batch.

    Args:
        fault: one of `REASONS`, or several joined; "nearly" for rates that differ by 0.6%; "" for
            none.
        variant: faults have several forms.
    """
    gflop, batch = round(random.uniform(4, 300), 1), 2 ** random.randint(5, 9)
    one = [1000 * rate / gflop for rate in _base_rates(random, gpu, fault, variant)]
    several = random.choice((4, 8))
    scales = [random.uniform(0.88, 0.97), random.uniform(0.88, 0.97)]
    if "same" in fault:
        scales[1] = scales[0]
    if "scaling" in fault:
        scales[variant % 2] = random.uniform(1.15, 2.2)
    elif not fault:
        scales[variant % 2] = 1.03  # within the tolerance
    rows: list[Row] = []
    for gpus, size, shares in ((1, batch, (1, 1)), (several, batch, scales), (1, batch // 2, None)):
        rates = [r * gpus * s for r, s in zip(one, shares or (0.7, 0.7), strict=True)]
        here = fault if len(rows) == variant % 3 else ""
        rows.append(_row(random, model, gpu, gpus, size, rates, gflop, here, variant))
    return rows


def _row(
    random: Random, model: str, gpu: str, gpus: int, batch: int, rates: list[float], gflop: float,
    fault: str, variant: int,
) -> Row:  # fmt: skip
    rate = {"baseline": _rounded(rates[0]), "mixed": _rounded(rates[1])}
    samples = random.randint(20, 90) * round(rates[0]) * 1800
    shares = {"baseline": random.uniform(1.08, 1.4), "mixed": random.choice((0.98, 1.25))}
    if random.random() < 0.4:
        shares = {"baseline": 1.02, "mixed": random.choice((0.98, 1.03))}
    if "time" in fault:
        shares[("baseline", "mixed")[variant % 2]] = random.uniform(0.5, 0.85)
        if variant % 2 == 0:  # the same time in both, as if the baseline had been the mixed run
            shares["baseline"] = shares["mixed"] * rate["baseline"] / rate["mixed"]
    hours = {run: round(shares[run] * samples / rate[run] / 3600, 3) for run in rate}
    timed = "time" in fault or random.random() < 0.6
    return {
        "id": "",
        "model": model,
        "gpu": gpu,
        "gpus": gpus,
        "batch": batch,
        "dtype": dict(zip(("baseline", "mixed"), DTYPES[gpu], strict=True)),
        "rate": rate,
        "stated": _stated(random, rate["mixed"] / rate["baseline"], fault, variant),
        "log": AMP_OFF if "log" in fault else random.choice(OTHER_LOGS),
        "hours": hours if timed else None,
        "samples": samples if timed else None,
        "gflop": gflop if random.random() < 0.8 or "peak" in fault else None,
    }


def table(seed: int, *faults: str) -> list[Row]:
    """Rows in random order: a family for each fault, and two of one model on both GPUs."""
    random = Random(draws.seed(seed))
    models = random.sample(MODELS, len(faults) + 1)
    families = [(m, ("V100", "A100")[(seed + n) % 2], f) for n, (m, f) in
                enumerate(zip(models, faults, strict=False))]  # fmt: skip
    families += [(models[-1], "V100", ""), (models[-1], "A100", "")]
    rows = [
        row
        for n, (model, gpu, fault) in enumerate(families)
        for row in _family(random, model, gpu, fault, seed + n)
    ]
    random.shuffle(rows)
    for number, row in enumerate(rows, 1):
        row["id"] = f"r{number}"
    return rows


def table_cases() -> list[Case]:
    """Tables with one fault each, with all of them, with none, and the quoted rows."""
    kinds = {
        "stated": "speed-ups that are stated wrong",
        "log": "runs labelled mixed that weren't",
        "same": "equal rates",
        "peak": "rates above the peak",
        "scaling": "GPUs that scale too well",
        "time": "times that are too short",
    }
    cases = [
        Case((table(10 * n + seed, reason, reason, "nearly"),), f"table {n}.{seed}", kinds[reason])
        for n, reason in enumerate(REASONS, 1)
        for seed in (1, 2, 3)
    ]
    both = ("stated log", "peak time", "scaling stated", "same log")
    cases += [Case((table(seed, *both),), f"table 7.{seed}", "several faults") for seed in (1, 2)]
    cases += [
        Case((table(seed, *REASONS),), f"table 8.{seed}", "several faults") for seed in (1, 2)
    ]
    cases += [Case((table(3, "nearly"),), "a table with no fault", "no fault")]
    return [*cases, Case((QUOTED,), "the quoted rows", "the quoted rows")]


# ---- what came back -----------------------------------------------------------------------------

ROWS, OTHER = "rows returned", "other reasons"


def listed(reason: str) -> str:
    """The key under which `play_table` notes the rows with a reason."""
    return f'rows with "{reason}"'


def _as_lists(found: Any) -> Any:
    """A dict of sets, plainly; a set has no plain form of its own."""
    if not issubclass(type(found), dict):
        return plain(found)
    sets = (set, frozenset, tuple, list)
    return plain({k: list(v) if type(v) in sets else [v] for k, v in dict.items(found)})


@as_play
def play_table(function: Callable[[list[Row]], Any], rows: list[Row]) -> Any:
    """The ids under each reason, in the order of the table."""
    found = function(rows)
    if found is ... or not issubclass(type(found), dict):
        return found
    reasons = _as_lists(found).get("dict")
    if reasons is None:
        return found
    known = [row["id"] for row in rows]
    ids = [each for each in known if each in reasons] + [e for e in reasons if e not in known]
    noted: dict[str, Any] = {
        listed(reason): [each for each in ids if reason in reasons[each]] for reason in REASONS
    }
    others = [one for each in ids for one in reasons[each] if one not in REASONS]
    return noted | {OTHER: others, ROWS: ids}


def tell_row(case: Case, right: dict[str, Any], seen: dict[str, Any]) -> str:
    """The first row that has too many reasons or too few, with the numbers that decide."""
    if not is_dict(seen["value"]):
        return line("", case, right, seen, exactly)
    wanted, got = right["value"]["dict"], seen["value"]["dict"]
    for reason in REASONS:
        key = listed(reason)
        for row in case.args[0]:
            there = [row["id"] in noted.get(key, []) for noted in (wanted, got)]
            if there[0] != there[1]:
                what = "left out" if there[0] else "gave"
                why = _numbers(row, reason)
                return f'{case.label}, row {row["id"]}: you {what} "{reason}" ({why})'
    more = [each for each in got.get(ROWS, []) if each not in wanted[ROWS]]
    return f"{case.label}: {', '.join(map(str, more[:3]))} has no reason, and is in your dict"


def _numbers(row: Row, reason: str) -> str:
    """What decides whether a row has a reason, in words."""
    rate, hours = row["rate"], row["hours"]
    rates = f"rates {rate['baseline']:,} and {rate['mixed']:,}"
    where = f"{row['gpus']} x {row['gpu']}"
    if reason == "log":
        return f"log {row['log']!r}"
    if reason == "stated":
        return f"{rates}, stated {row['stated']}"
    if reason == "peak":
        return f"{where}, {rates}, {row['gflop']} GFLOP for a sample"
    if reason == "scaling":
        return f"{row['model']}, {where}, batch {row['batch']}, {rates}"
    if reason == "time" and hours:
        times = f"{hours['baseline']:.4g} and {hours['mixed']:.4g} hours"
        return f"{rates}, {times}, {row['samples']:,} samples"
    return rates
