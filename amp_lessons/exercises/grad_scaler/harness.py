"""What the answers about GradScaler are handed, and what is noted while they are used.

What goes wrong in a step is a letter of a pattern: "..n." is four steps with a NaN in the third.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import as_play, flat, from_seed
from amp_lessons.exercises.varied import Varied
from amp_lessons.exercises.checks.op_watch import watched
from amp_lessons.exercises.checks.serialize import plain
from amp_lessons.exercises.checks.serialize.compare import as_number

BAD = {"i": math.inf, "-": -math.inf, "n": math.nan}
WORDS = {"i": "inf", "-": "-inf", "n": "NaN"}
squares = functools.partial(nn.functional.mse_loss, reduction="sum")


def told(pattern: str, words: dict[str, str] = WORDS, first: int = 1) -> str:
    """A pattern in words: ``"5 steps, inf in steps 2 and 4"``."""
    parts = [f"{len(pattern)} steps"]
    for letter, word in words.items():
        numbers = [str(n) for n, other in enumerate(pattern, first) if other == letter]
        if numbers:
            *most, last = numbers
            several = f"steps {', '.join(most)} and" if most else "step"
            parts.append(f"{word} in {several} {last}")
    return ", ".join(parts)


def number(given: Any) -> Any:
    """A number as such, whether it comes as a tensor or a float; anything else as it is."""
    found = as_number(plain(given))
    return given if found is None else float(found)


def listed(result: Any) -> Any:
    """A sequence of numbers as a list, be it a list, a tensor or an array."""
    described = plain(result)
    values = described.get("values") if isinstance(described, dict) else None
    return result if values is None else values


def pulled(shapes: Sequence[tuple[int, ...]], seed: int) -> tuple[list[Any], Callable[[], Any]]:
    """Parameters of these shapes, and a loss that pulls each to its own place."""
    drawn = from_seed(seed)
    weights: list[Any] = [torch.randn(s, generator=drawn).requires_grad_() for s in shapes]
    goals = [3 * torch.randn(s, generator=drawn) for s in shapes]
    return weights, lambda: sum(map(squares, weights, goals))


# ---- OwnScaler(init_scale, growth_factor, backoff_factor, growth_interval) ----------------------

METHODS = ("scale", "unscale_", "step", "update", "get_scale")
BEYOND = "gradients that are finite and large"
UNSCALED = "steps in which the caller has called `unscale_`"


def scaler_cases() -> list[Case]:
    more = {UNSCALED: ", `unscale_` called before `step`", BEYOND: ", large gradients", "": ""}
    rows = [
        ("....", (256.0, 2.0, 0.5, 3), ""),
        (".i.", (8.0, 2.0, 0.5, 3), UNSCALED),
        ("-n..", (1024.0, 2.0, 0.5, 2), ""),
        ("...n.", (2.0**16, 2.0, 0.5, 2), UNSCALED),
        (".i...", (64.0, 4.0, 0.25, 3), ""),
        ("i..n", (1.0, 8.0, 0.125, 1), ""),
        (".-..", (1000.0, 3.0, 0.1, 3), UNSCALED),
        ("..", (2.0**16, 2.0, 0.5, 1), BEYOND),
        ("..", (1.0, 2.0, 0.5, 2), BEYOND),
    ]
    return [
        Case((seed, *row), f"OwnScaler{row[1]}, {told(row[0])}{more[row[2]]}", row[2])
        for seed, row in enumerate(rows)
    ]


@as_play
def play_scaler(
    make: Callable[..., Any], seed: int, pattern: str, settings: tuple[float, ...], kind: str
) -> dict[str, Any]:
    """Train three parameters for some steps; a fourth never has a gradient."""
    scaler = make(*settings)
    missing = [name for name in METHODS if not callable(getattr(scaler, name, None))]
    if missing:
        return {"methods that are missing": ", ".join(missing)}
    size = 1e5 if kind == BEYOND else 1.0
    weights, loss = pulled([(2,), (3,), (2, 2)], seed)
    idle = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD(weights[:1], lr=0.05 / size, momentum=0.9, weight_decay=0.1)
    optimizer.add_param_group({"params": [*weights[1:], idle], "lr": 0.02 / size})
    steps, losses, unscaled, scales, ops = [0], [], [], [], []
    optimizer.register_step_post_hook(lambda *_: steps.append(steps[0]))

    def train_step(i: int, letter: str) -> None:
        optimizer.zero_grad()
        scaled = scaler.scale(loss() * size)
        scaled.backward()
        losses.append(number(scaled))
        if letter in BAD:
            weights[i % 3].grad.view(-1)[i % 2] = BAD[letter]
        if kind == UNSCALED:
            scaler.unscale_(optimizer)
            unscaled.append(number(weights[(i + 1) % 3].grad.norm()))
        scaler.step(optimizer)
        scaler.update()
        scales.append(number(scaler.get_scale()))

    look = watched(lambda function: {"value": function()})
    for i, letter in enumerate(pattern):
        steps[0] = i + 1
        if i or seed:
            train_step(i, letter)
        else:  # one step of one case is watched, since that is slow
            ops += look(functools.partial(train_step, i, letter))["ops"]
    return {
        "methods that are missing": "",
        "operations of torch's own scaler": [op["op"] for op in ops if "_amp_" in op["op"]],
        "steps that the optimizer made": steps[1:],
        "scale after each update": scales,
        "scaled losses": losses,
        "norm of one gradient after `unscale_`": unscaled,
        "parameters at the end": flat(weights),
    }


# ---- predict_scale(found_inf, init_scale, growth_factor, backoff_factor, growth_interval) -------


def scale_cases() -> list[Case]:
    vary = Varied(7)
    top, bottom = "scales close to the largest FP32 number", "scales that fall below 1"
    usual = "scales far from both ends"

    def case(found: list[bool], settings: tuple[float, ...], label: str, kind: str = usual) -> Case:
        growth, backoff, interval = settings[1:]
        start = f"{settings[0]:g}" if settings[0] < 1e6 else f"2^{math.log2(settings[0]):g}"
        told = f"a first scale of {start}, factors {growth:g} and {backoff:g}, interval {interval}"
        return Case((found, *settings), f"{label}; {told}", kind)

    def noise(steps: int, share: float) -> list[bool]:
        return [vary.random.random() < share for _ in range(steps)]

    def run(bad: int, clean: int, settings: tuple[float, ...], kind: str = usual) -> Case:
        """First overflows and then clean steps; with a salt as many more of both."""
        more = vary.more(0, 5)
        bad, clean = (number + more if number else 0 for number in (bad, clean))
        words = [f"{n} {what}" for n, what in ((bad, "overflows"), (clean, "clean steps")) if n]
        return case([True] * bad + [False] * clean, settings, ", ".join(words), kind)

    start = vary.shifted(2.0**16)
    return [
        case([], (start, 2.0, 0.5, 2000), "no step"),
        case([True, False, False], (start, 2.0, 0.5, 2000), "3 steps, inf in step 1"),
        case([i in (5, 6) for i in range(12)], (vary.shifted(4.0), 2.0, 0.5, 2),
             "12 steps, inf in 6 and 7"),
        run(0, 7, (vary.shifted(1.0), 2.0, 0.5, 3)),
        case([False, False, True] * 4, (start / 256, 2.0, 0.5, 3),
             "12 steps, inf in every third step"),
        run(12, 0, (vary.shifted(64.0), 2.0, 0.5, 5), bottom),
        run(20, 0, (start, 2.0, 2.0**-9, 2000), bottom),
        run(5, 7, (vary.shifted(1.0), 1e10, 1e-10, 1), bottom),
        run(4, 6, (vary.shifted(8.0), 1e12, 1e-12, 1), bottom),
        run(0, 6, (vary.shifted(2.0**125, -2, 0), 2.0, 0.5, 1), top),
        run(0, 6, (vary.shifted(2.0**124, -2, 0), 4.0, 0.5, 2), top),
        run(0, 5, (vary.near(1.0, 0.2) * 2.0**126, 1.5, 0.5, 1), top),
        case([False, True, False, False], (vary.shifted(2.0**127, -1, 0), 8.0, 0.5, 1),
             "4 steps, inf in step 2", top),
        case(noise(30, 0.2), (start, 2.0, 0.5, 4), "30 random steps"),
        case(noise(25, 0.1), (1024.0, 4.0, 0.25, 3), "25 random steps"),
        case(noise(15, 0.3), (3.0, 1.5, 0.1, 1), "15 random steps"),
    ]  # fmt: skip


@as_play
def play_list(predict_scale: Callable[..., Any], *args: Any) -> Any:
    return listed(predict_scale(*args))


# ---- clip_step(scaler, optimizer, loss, max_norm) -----------------------------------------------


def clip_cases() -> list[Case]:
    rows = [
        ("..", 1.0, 2.0**16),
        ("..", 1000.0, 2.0**10),
        (".i..", 2.5, 2.0**12),
        ("n..", 0.5, 2.0**8),
        ("...", 7.0, 2.0**5),
        ("-..", 1000.0, 2.0**7),
    ]
    vary = Varied(11)
    found = []
    for seed, (pattern, max_norm, scale) in enumerate(rows, 1):
        max_norm, scale = vary.near(max_norm, 0.3), vary.shifted(scale, -1, 1)
        label = f"max_norm {max_norm:g}, a scale of {scale:g}, {told(pattern)}"
        found.append(Case((pattern, max_norm, scale, seed), label))
    return found


@as_play
def play_clip(
    clip_step: Callable[..., Any], pattern: str, max_norm: float, init_scale: float, seed: int
) -> dict[str, Any]:
    """Some steps with clipping; each loss is new, and the gradients are cleared before it."""
    weights, loss = pulled([(3,), (2, 2), (4,)], seed)
    extra, backward = [0.0], []

    def spoil(gradient: Tensor) -> Tensor:
        backward.append(gradient.norm().item())
        return gradient + extra[0]

    weights[1].register_hook(spoil)
    optimizer = torch.optim.SGD(weights[:1], lr=0.1, momentum=0.5)
    optimizer.add_param_group({"params": weights[1:], "lr": 0.05})
    scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, growth_interval=2)
    norms, places, scales = [], [flat(weights)], []
    for letter in pattern:
        extra[0] = BAD.get(letter, 0.0)
        optimizer.zero_grad()
        norm = number(clip_step(scaler, optimizer, loss(), max_norm))
        bad = isinstance(norm, float) and not math.isfinite(norm)
        norms.append(math.nan if bad else norm)
        places.append(flat(weights))
        scales.append(scaler.get_scale())
    return {
        **{f"norm returned in step {n}": norm for n, norm in enumerate(norms, 1)},
        "how far each step moved the parameters": list(map(math.dist, places, places[1:])),
        "scale after each step": scales,
        "parameters at the end": places[-1],
        "norm of one gradient in the backward pass": backward,
    }


# ---- stop_sinking(log, patience) ----------------------------------------------------------------


def sinking_cases() -> list[Case]:
    """Logs of runs: "x" is a skipped step, "+" a clean one after which the scale grows. With a salt
    most are longer, and there are random ones."""
    vary = Varied(12)

    def case(first: float, pattern: str, patience: int) -> Case:
        scale, log = first, []
        pattern += "." * vary.more(0) if pattern else ""
        for letter in pattern:
            scale *= {"x": 0.5, "+": 2.0}.get(letter, 1.0)
            log.append((scale, letter == "x"))
        label = f"{told(pattern, {'x': 'skipped'}, first=0)} (counted from 0)" if log else "no step"
        start = f"the first scale is {first:g}, the last one {scale:g}"
        return Case((log, patience), f"{label}; {start}; patience {patience}")

    def random_run() -> Case:
        pattern = "".join(vary.random.choices("x.+", (3, 3, 1), k=vary.more(5, 9)))
        return case(vary.shifted(2.0, -1, 4), pattern, vary.more(1, 4))

    return vary.mixed([
        case(2.0**16, "", 3),
        case(2.0**16, "......", 3),
        case(2.0**16, "xx....", 3),
        case(2.0**16, "xxx...", 3),
        case(2.0**16, "..xxxx", 4),
        case(2.0**16, ".xxxxx.", 3),
        case(2.0**16, "x.x.x.x", 3),
        case(2.0**10, "xx.xx+xx", 3),
        case(2.0**10, "xx.xxx", 3),
        case(2.0**10, "x" * 12, 10),
        case(2.0**16, ".x..", 1),
        case(4.0, "x.x.xxxxx", 5),
        case(2.0, "x...x..", 3),
        case(2.0, "x..+..", 3),
        case(1.0, "....", 3),
        case(1.0, "x.", 2),
        case(0.5, "..+.", 3),
        case(0.25, "++.", 4),
        case(8.0, "xxxxxx", 3),
        case(8.0, "xxxxxx", 5),
        case(0.0, "xx", 3),
        *(random_run() for _ in vary.extra(10)),
    ])  # fmt: skip
