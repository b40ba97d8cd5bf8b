"""Questions on time: what a matmul needs at least, what bounds it, and what a speed-up is worth."""

from __future__ import annotations

import random

from amp_lessons.amp import roofline
from amp_lessons.amp.roofline import GPUS, Gpu, Matmul
from amp_lessons.quiz.generators.base import Draft, Option, choices, generator, mistakes
from amp_lessons.quiz.generators.formatting import amount, count, params

NAMES = {"fp32": "FP32", "tf32": "TF32", "fp16": "FP16", "bf16": "BF16"}
WIDTHS = (256, 512, 768, 1024, 2048, 4096, 8192, 11_008, 16_384)
STATE_BYTES = 16
"""For each parameter: FP32 weights, gradients and Adam's two moments, or BF16 with an FP32 copy."""
ROWS = (1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16_384)
SOURCE = "The makers' data sheets, as in amp_lessons/amp/roofline.py; arithmetic"


def _peaks(gpu: Gpu, dtype: str) -> str:
    return (
        f"The {gpu.name} reaches at most {amount(gpu.peak(dtype) / 1e12, 4)} TFLOP/s in "
        f"{NAMES[dtype]} and {amount(gpu.bandwidth, 4)} GB/s"
    )


def _draw(rng: random.Random) -> tuple[Gpu, str, Matmul]:
    gpu = rng.choice(GPUS)
    dtype = rng.choice(gpu.dtypes)
    work = Matmul(rng.choice(ROWS), rng.choice(WIDTHS), rng.choice(WIDTHS))
    return gpu, dtype, work


def _shape(work: Matmul) -> str:
    return f"{work.m:,} × {work.k:,} by {work.k:,} × {work.n:,}"


def _unit(seconds: float) -> tuple[float, str]:
    return (1e3, "ms") if seconds >= 1e-3 else (1e6, "µs")


@generator("speed.gen_matmul_floor", "The least time of a matmul", level=2, kind="number")
def matmul_floor(rng: random.Random) -> Draft | None:
    gpu, dtype, work = _draw(rng)
    computing = work.flops / gpu.peak(dtype)
    moving = work.bytes(dtype) / gpu.bytes_per_second()
    floor = roofline.matmul_floor(gpu, dtype, work)
    if not 2e-5 < floor < 1:
        return None
    factor, unit = _unit(floor)
    size = roofline.BYTES[dtype]
    slow, fast = ("computing", "moving") if computing > moving else ("moving", "computing")
    wrong = [
        (
            min(computing, moving),
            f"That is the time for {fast} alone. The slower of the two decides: {slow}.",
        ),
        (computing + moving, "This adds the two times. Computing and moving can overlap."),
    ]
    if computing > moving:
        wrong.insert(
            0, (computing / 2, "This counts m·n·k operations. Each is a product and an addition.")
        )
    else:
        wrong.append(
            (
                work.m * work.n * size / gpu.bytes_per_second(),
                "This moves only the result. The two factors must be read as well.",
            )
        )
        other = 4 if size == 2 else 2
        wrong.append(
            (moving * other / size, f"This takes {other} bytes for a number, and it has {size}.")
        )
    if dtype != "fp32":
        at_fp32 = work.flops / gpu.peak("fp32")
        if at_fp32 > moving:
            wrong.append((at_fp32, "That is the time at the peak of FP32, without tensor cores."))
    found = mistakes(floor * factor, 0.05, [(value * factor, why) for value, why in wrong])
    if found is None:
        return None
    return {
        "prompt": f"{_peaks(gpu, dtype)} of memory bandwidth. It multiplies two matrices, "
        f"{_shape(work)}, stored with {size} bytes a number, and moves each matrix once. "
        f"What is the least time that this can take, in {unit}?",
        "hint": "How long does the computing take at the peak, and how long the moving? The "
        "longer one is the floor.",
        "source": gpu.source,
        "answer": floor * factor,
        "unit": unit,
        "tolerance": 0.05,
        "explanation": f"Computing: 2 · {work.m:,} · {work.n:,} · {work.k:,} operations take "
        f"{amount(computing * factor)} {unit}. Moving: three matrices of "
        f"{amount(work.bytes(dtype) / 1e6)} MB in all take {amount(moving * factor)} {unit}. The "
        f"longer one decides: {amount(floor * factor)} {unit}.",
        "mistake": found,
        "proof": "from amp_lessons.amp.roofline import Matmul, find_gpu, matmul_floor\n\n"
        f"floor = matmul_floor(find_gpu({gpu.name!r}), {dtype!r}, "
        f"Matmul({work.m}, {work.n}, {work.k}))\nanswer = floor * {factor:g}",
    }


@generator("speed.gen_bound", "What bounds a matmul", level=1, kind="single")
def bound(rng: random.Random) -> Draft | None:
    gpu, dtype, work = _draw(rng)
    intensity, ridge = work.intensity(dtype), gpu.ridge(dtype)
    if 0.8 <= intensity / ridge <= 1.2:
        return None
    size = roofline.BYTES[dtype]
    compute = intensity > ridge
    limit = "cores" if compute else "memory"
    right = _limit(intensity, ridge, compute)
    right = Option(
        right.text,
        f"Yes. This matmul has {amount(intensity)} FLOP for each byte that it moves. The GPU can "
        f"do {amount(ridge)} in the same time, so the {limit} {'are' if compute else 'is'} the "
        "limit.",
        right.holds,
    )
    wrong = [
        _limit(
            intensity,
            ridge,
            not compute,
            "The numbers are right, but the conclusion is not. With "
            f"{'more' if compute else 'fewer'} FLOP for each byte than the ridge, the {limit} "
            f"{'are' if compute else 'is'} the limit.",
        )
    ]
    for value, why in (
        (
            work.flops / (size * work.m * work.n),
            "This moves only the result. The two factors are read too.",
        ),
        (intensity / 2, "This counts one FLOP for a product and an addition. They are two."),
        (
            intensity * size,
            f"This divides by the count of numbers. Each of them takes {size} bytes.",
        ),
        (intensity * size / (2 if size == 4 else 4), f"Each number takes {size} bytes here."),
    ):
        if amount(value) != amount(intensity):
            wrong.append(_limit(value, ridge, value > ridge, why))
    shown = choices(rng, right, wrong)
    if shown is None:
        return None
    return {
        "prompt": f"{_peaks(gpu, dtype)} of memory bandwidth. It multiplies two matrices, "
        f"{_shape(work)}, stored with {size} bytes a number. What limits this matmul, by the "
        "roofline model?",
        "hint": "Compare the FLOP for each byte moved with the ridge: the peak divided by the "
        "bandwidth.",
        "source": gpu.source,
        "choice": shown,
        "proof": "from amp_lessons.amp.roofline import Matmul, bound, find_gpu\n\n"
        f"gpu, work = find_gpu({gpu.name!r}), Matmul({work.m}, {work.n}, {work.k})\n"
        f"intensity = work.intensity({dtype!r})\n"
        f"limit = bound(gpu, {dtype!r}, work.flops, work.bytes({dtype!r}))",
    }


def _limit(intensity: float, ridge: float, compute: bool, why: str = "") -> Option:
    return Option(
        f"The {'cores' if compute else 'memory'}: {amount(intensity)} FLOP a byte, and the ridge "
        f"is {amount(ridge)}",
        why or "It is right.",
        f"limit == {('compute' if compute else 'bandwidth')!r} and abs(intensity / "
        f"{intensity!r} - 1) "
        "< 1e-9",
    )


@generator("speed.gen_amdahl", "What a faster part is worth", level=1, kind="number")
def amdahl(rng: random.Random) -> Draft | None:
    share, factor = rng.randrange(30, 96), rng.choice((2, 3, 4, 5, 6, 8, 10, 14, 16))
    rest = rng.choice((1, 1, 2))
    part = share / 100
    answer = 1 / (part / factor + (1 - part) / rest)
    wrong = [
        (factor, f"That is the factor of the part. The other {100 - share}% take their time too."),
        (part * factor, "This multiplies share and factor. Add up the times instead."),
        (
            part * factor + (1 - part) * rest,
            "This averages the factors. Times add up, and factors don't.",
        ),
        (
            rest / (1 - part),
            "That is the limit: it would hold if the matrix products took no time at all.",
        ),
    ]
    if rest > 1:
        wrong.insert(
            0,
            (1 / (part / factor + 1 - part), f"This leaves the other {100 - share}% as they were."),
        )
    found = mistakes(answer, 0.02, wrong)
    if found is None:
        return None
    others = "The rest stays as it is." if rest == 1 else "The rest becomes 2 times faster."
    told = f"{100 - share}" if rest == 1 else f"{100 - share} / 2"
    return {
        "prompt": f"{share}% of a step's time goes into matrix products. With 16-bit tensor cores "
        f"they become {factor} times faster. {others} How many times faster is the step?",
        "hint": "Let the step take 100 ms. How long do the two parts take afterwards?",
        "source": "Amdahl 1967; arithmetic",
        "answer": answer,
        "unit": "times",
        "tolerance": 0.02,
        "explanation": f"Of 100 ms, {share} / {factor} + {told} = {amount(100 / answer, 4)} ms are "
        f"left. 100 / {amount(100 / answer, 4)} is {amount(answer)} times faster.",
        "mistake": found,
        "proof": f"before = 100.0\nafter = {share} / {factor} + {100 - share} / {rest}\n"
        "answer = before / after",
    }


@generator("speed.gen_mfu", "Model FLOPs utilization", level=3, kind="number")
def mfu(rng: random.Random) -> Draft | None:
    gpu = rng.choice([each for each in GPUS if each.bf16])
    many = rng.choice((1e9, 1.3e9, 3e9, 7e9, 8e9, 13e9, 34e9, 70e9))
    used, gpus = rng.randrange(12, 62), rng.choice((1, 8, 16, 64, 256, 1024))
    if STATE_BYTES * many > 0.85 * gpu.memory * 1e9 * gpus:
        return None  # not even sharded over the GPUs would the training state fit
    peak = gpu.peak("bf16")
    speed = used / 100 * peak * gpus / (6 * many)
    speed = float(f"{speed:.2g}")
    answer = 100 * 6 * many * speed / (peak * gpus)
    wrong = [
        (answer / 3, "This counts the forward pass alone: 2 FLOP for each parameter and token."),
        (
            answer * 2 / 3,
            "This counts the backward pass alone: 4 FLOP for each parameter and token.",
        ),
        (answer / 2, "This divides by the peak with sparsity, which is twice the dense one."),
        (
            100 * 6 * many * speed / (gpu.peak("fp32") * gpus),
            "This divides by the peak in FP32. The matrix products run in BF16.",
        ),
    ]
    if gpus > 1:
        wrong.append(
            (answer * gpus, f"This divides by the peak of one GPU, and there are {gpus:,}.")
        )
    found = mistakes(answer, 0.03, wrong)
    if found is None or speed < 10:
        return None
    machines = f"one {gpu.name}" if gpus == 1 else f"{gpus:,} {gpu.name} GPUs"
    return {
        "prompt": f"A model with {params(many)} parameters trains in BF16 on {machines}, at "
        f"{int(speed):,} tokens a second in all. The dense BF16 peak of one GPU is "
        f"{amount(peak / 1e12, 4)} TFLOP/s. What is the model FLOPs utilization (MFU), in percent? "
        "Count 6 FLOP per parameter and token, and ignore attention.",
        "hint": "How many FLOP a second does the training take? And how many could the GPUs do?",
        "source": f"Chowdhery et al. 2022, arXiv 2204.02311, appendix B; {gpu.source}",
        "answer": answer,
        "unit": "%",
        "tolerance": 0.03,
        "explanation": f"6 · {params(many)} · {int(speed):,} are "
        f"{amount(6 * many * speed / 1e12)} TFLOP/s. {count(gpus, 'GPU')} could do "
        f"{amount(peak * gpus / 1e12, 4)}: {amount(answer)}%.",
        "mistake": found,
        "proof": "from amp_lessons.amp.roofline import find_gpu, share_of_peak\n\n"
        f"flops_a_second = 6 * {many:g} * {speed:g} / {gpus}\n"
        f"answer = 100 * share_of_peak(find_gpu({gpu.name!r}), 'bf16', flops_a_second, 1.0)",
    }


GENERATORS = (matmul_floor, bound, amdahl, mfu)
