"""Layer lists and GPUs for a speed-up by the roofline, and runs of which some make fair pairs.

All sizes, times and losses here are made up. The GPUs' peaks are those of `roofline`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.checks.messages import line
from amp_lessons.exercises.harness import as_play
from amp_lessons.exercises.varied import Varied
from amp_lessons.exercises.checks.serialize import plain
from amp_lessons.exercises.checks.serialize.compare import as_number, exactly, is_dict, within
from amp_lessons.amp.roofline import find_gpu

Layer = dict[str, Any]
Run = dict[str, Any]


# ---- layers -------------------------------------------------------------------------------------


def product(m: int, k: int, n: int, weight: str) -> Layer:
    return {"kind": "matmul", "m": m, "k": k, "n": n, "weight": weight}


def elementwise(elements: int, tensors: int, fp32: bool = False) -> Layer:
    return {"kind": "elementwise", "elements": elements, "tensors": tensors, "fp32": fp32}


def other(seconds: float) -> Layer:
    return {"kind": "other", "seconds": seconds}


def block(rows: int, width: int) -> list[Layer]:
    """The forward pass of a transformer's feed-forward part, with a head that shares a weight."""
    return [
        elementwise(rows * width, 2, fp32=True),  # layer norm: one tensor read, one written
        product(rows, width, 4 * width, "up"),
        elementwise(4 * rows * width, 2),  # relu
        product(rows, 4 * width, width, "down"),
        elementwise(rows * width, 3),  # the residual sum
        product(rows, width, 3 * width, "tied"),
        product(rows, width, 3 * width, "tied"),
    ]


class SaltedSize(dict[int, int]):
    """What stands for a size: itself, or under a salt one that is up to an eighth larger, and the
    same one each time."""

    def __init__(self, vary: Varied) -> None:
        super().__init__()
        self.vary = vary

    def __missing__(self, size: int) -> int:
        return self.setdefault(size, self.vary.more(size, -(-size // 8) if size > 1 else 0))


def layer_cases() -> list[Case]:
    """Layers, a GPU and a baseline: each kind of layer alone, then together."""
    vary = Varied(20)
    random, n = vary.random, SaltedSize(vary)
    a100, h100, v100 = (find_gpu(name) for name in ("A100", "H100 SXM", "V100"))
    large = [product(n[4096], n[5120], n[3072], "a"), product(n[8192], n[2048], n[4608], "b")]
    narrow = [product(n[4], n[4096], n[4096], "c"), product(n[16], n[1024], n[8192], "d")]
    shared = [product(n[512], n[2048], n[2048], "a")] * 3 + [product(n[512], n[2048], n[1000], "b")]
    shared += [product(n[700], n[2048], n[2048], "c")]  # another weight, of the same size
    small = product(n[64], n[256], n[256], "a")
    some_ops = [small, elementwise(n[50_000_000], 2), elementwise(n[20_000_000], 3, fp32=True)]
    fp32_ops = [elementwise(n[30_000_000], 2, fp32=True), elementwise(n[9_000_000], 3, fp32=True)]
    fp32_ops.insert(0, small)
    cases = []

    def add(kind: str, layers: list[Layer], *where: tuple[Any, str]) -> None:
        for gpu, baseline in where:
            label = f"{kind} on {gpu.name} against {baseline}"
            cases.append(Case((layers, gpu, baseline), label, kind))

    add("large matrix products", large, (a100, "tf32"), (a100, "fp32"), (v100, "fp32"))
    add("products with few rows", narrow, (a100, "tf32"), (h100, "fp32"))
    add("weights used several times", shared, (a100, "tf32"), (v100, "fp32"), (h100, "tf32"))
    add("large and narrow products", [*large, *narrow[:1]], (a100, "tf32"), (v100, "fp32"))
    add("elementwise ops", some_ops, (a100, "tf32"), (v100, "fp32"))
    add("ops in FP32 only", fp32_ops, (a100, "fp32"), (h100, "tf32"))
    add("other work", [*large, other(2e-3), other(0.7e-3)], (a100, "tf32"), (v100, "fp32"))
    for rows, width in ((8192, 1024), (64, 2048), (2000, 768)):
        layers = [*block(n[rows], n[width]), other(random.uniform(1e-5, 4e-4))]
        add("a whole block", layers, (a100, "tf32"), (a100, "fp32"), (v100, "fp32"))
    return cases


# ---- runs ---------------------------------------------------------------------------------------

SETTINGS = ("model", "gpu", "batch", "layout", "torch")
_CHANGED: dict[str, tuple[Any, Any]] = {
    "model": ("ResNet50", "ResNet101"),
    "gpu": ("A100", "V100"),
    "batch": (128, 256),
    "layout": ("contiguous", "channels_last"),
    "torch": ("2.13.0", "2.12.1"),
}


def run(dtype: str, rate: float, loss: float = 1.9, spread: float = 0.02, **changed: Any) -> Run:
    settings: dict[str, Any] = {name: values[0] for name, values in _CHANGED.items()} | changed
    return {"id": "", "dtype": dtype, **settings, "rate": rate, "loss": loss, "spread": spread}


def _named(random: Random, runs: list[Run]) -> list[Run]:
    random.shuffle(runs)
    return [each | {"id": f"run{n}"} for n, each in enumerate(runs, 1)]


def _losses(random: Random, spread: float, apart: float) -> tuple[float, float, float]:
    """Two losses and the second one's spread; ``apart`` in combined standard deviations."""
    loss, other_spread = random.uniform(1.2, 2.4), 0.7 * spread
    return loss, loss + apart * math.hypot(spread, other_spread), other_spread


def _pair(random: Random, apart: float, old: str = "fp32", new: str = "fp16") -> list[Run]:
    """Two runs with one setting of their own, so that they pair with no others."""
    spread = random.choice((0.01, 0.03, 0.05))
    loss, other_loss, other_spread = _losses(random, spread, apart)
    rate, gain = random.uniform(300, 900), random.uniform(1.2, 3.1)
    own: dict[str, Any] = {"model": f"UNet-{random.randint(100, 999)}"}
    return [
        run(old, round(rate, 1), round(loss, 4), spread, **own),
        run(new, round(rate * gain, 1), round(other_loss, 4), round(other_spread, 4), **own),
    ]


def run_cases() -> list[Case]:
    """Lists of runs in which one thing differs, or several, or nothing but the format."""
    vary = Varied(21)
    random, cases = vary.random, []

    def add(kind: str, runs: list[Run]) -> None:
        runs = [each | {"rate": round(vary.near(each["rate"], 0.05), 1)} for each in runs]
        label = f"{len(runs)} runs, {kind}"
        cases.append(Case((_named(random, runs),), label, kind))

    for name, (first, second) in _CHANGED.items():
        for old, these, those in (("fp32", first, second), ("tf32", second, first)):
            same: dict[str, Any] = {name: these}
            other_setting: dict[str, Any] = {name: those}
            runs = [run(old, 410.5, **same), run("fp16", 902.3, **other_setting)]
            runs += [run("bf16", 871.9, **same), run("fp16", 455.1, 1.91, **same)]
            add(f"some with another {name}", runs)
    for apart in (0.4, 1.8, -1.8):
        add("losses that agree", [*_pair(random, apart), *_pair(random, -apart)])
    for apart in (2.3, -2.3, 9.0, -9.0):
        add("losses that differ", [*_pair(random, apart), *_pair(random, 0.1)])
    for apart in (1.07, -1.27, 1.5, -1.5, 1.75, -1.9, 2.15, -2.15, 2.5, -2.9, 3.2):
        add("losses at some distance", [*_pair(random, apart), *_pair(random, apart, "tf32")])
    for units, old, new in ((10, "fp32", "fp16"), (-10, "tf32", "bf16")):
        unit = vary.shifted(2.0**-6, -1, 1)  # so that each way to compare them is exact
        first = run(old, 480.0, 1.75, 3 * unit)
        second = run(new, 1090.0, 1.75 + units * unit, 4 * unit)
        add("losses exactly two apart", [first, second, *_pair(random, 0.1)])
    for _ in vary.extra(4):  # the spreads are drawn, and some of them tell less
        add("losses that agree", [*_pair(random, 0.03), *_pair(random, -0.03)])
    for dtype in ("fp16", "bf16", "fp32", "tf32"):
        for loss in (math.nan, math.inf):
            runs = [run("fp32", 500.0), run("fp16", 1200.0), run("bf16", 1100.0)]
            add("a loss that isn't finite", [*runs, run(dtype, 1300.0, loss)])
    for new in ("fp16", "bf16"):
        both = [run("tf32", 620.0, math.inf), run(new, 1300.0, math.inf), run(new, 1250.0)]
        add("a loss that isn't finite", [*both, run("tf32", 640.0)])
    four = [run("fp32", 210.0), run("tf32", 520.0), run("fp16", 880.0), run("bf16", 860.0)]
    add("each format once", [*four])
    add("one format more than once", [*four, run("fp16", 890.0), run("fp16", 840.0)])
    add("one format more than once", [*four, run("fp32", 205.0, 1.88), run("tf32", 530.0)])
    add("slower runs", [run("fp32", 300.0), run("fp16", 240.0), run("tf32", 610.0)])
    add("slower runs", [run("tf32", 700.0), run("bf16", 610.0), run("fp16", 650.0)])
    add("nothing to pair", [run("fp16", 900.0), run("bf16", 880.0)])
    add("nothing to pair", [run("fp32", 210.0), run("tf32", 520.0)])
    return cases


def _triple(item: Any) -> tuple[str, Any] | None:
    if isinstance(item, list) and len(item) == 3:
        old, new, speedup = item
        if isinstance(old, str) and isinstance(new, str) and as_number(speedup) is not None:
            return f"{old} to {new}", as_number(speedup)
    return None


@as_play
def play_pairs(function: Callable[[list[Run]], Any], runs: list[Run]) -> Any:
    """The pairs in a fixed order, and the speed-up of each."""
    found = function(runs)
    if issubclass(type(found), dict):
        return list(dict.items(found))
    listed = plain(list(found) if type(found) in (set, frozenset) else found)
    triples = [_triple(item) for item in listed] if isinstance(listed, list) else [None]
    if found is ... or None in triples:
        return found
    pairs = sorted((each for each in triples if each is not None), key=lambda pair: pair[0])
    return {"pairs": [name for name, _ in pairs], "speed-ups": dict(pairs)}


def tell_pair(case: Case, right: dict[str, Any], seen: dict[str, Any]) -> str:
    """The first pair that is missing, too many, or wrong, with what its runs differ in."""
    if not is_dict(seen["value"]):
        return line("", case, right, seen, exactly)
    wanted, got = (each["value"]["dict"]["pairs"] for each in (right, seen))
    for name in sorted({*wanted, *got}):
        counts = got.count(name), wanted.count(name)
        if counts[0] != counts[1]:
            did = "left out" if not counts[0] else "listed twice" if counts[1] else "listed"
            return f"{case.label}: you {did} {name} ({_differences(case.args[0], name)})"
    return line("", case, right, seen, within(0.006)).removeprefix("speed-ups: ")


def _differences(runs: list[Run], name: str) -> str:
    known = {each["id"]: each for each in runs}
    pair = [known.get(each) for each in name.split(" to ")]
    if None in pair or len(pair) != 2:
        return "no such runs"
    one, other = (each or {} for each in pair)
    told = [f"{one['dtype']} and {other['dtype']}"]
    told += [f"{k} {one[k]} and {other[k]}" for k in SETTINGS if one[k] != other[k]]
    losses = [f"{each['loss']} ± {each['spread']}" for each in (one, other)]
    return ", ".join([*told, f"losses {losses[0]} and {losses[1]}"])
