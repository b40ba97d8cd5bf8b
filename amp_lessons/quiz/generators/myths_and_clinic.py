"""Name the fault: a training log that a simulated run with one planted fault has printed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from amp_lessons.quiz.generators import simulation
from amp_lessons.quiz.generators.base import Draft, Option, choices, generator
from amp_lessons.quiz.generators.floats import BF16
from amp_lessons.quiz.generators.formatting import listed
from amp_lessons.quiz.generators.simulation import (
    LogRow,
    SimulatedRun,
    curvature,
    loss_text,
    norm_text,
)

NO_SCALER = "There is no scaler: the scale is 1 in all rows."


def scale_told(scale: float) -> str:
    """A scale as in a sentence."""
    return f"{scale:,.0f}" if scale >= 1 else f"{scale:g}"


@dataclass(frozen=True)
class PrintedLog:
    """A log, and what can be seen in it."""

    rows: tuple[LogRow, ...]

    @property
    def losses(self) -> list[float]:
        return [row.loss for row in self.rows]

    @property
    def norms(self) -> list[float]:
        return [row.norm for row in self.rows]

    @property
    def scales(self) -> list[float]:
        return [row.scale for row in self.rows]

    @property
    def finite(self) -> bool:
        """Whether all losses are."""
        return all(map(math.isfinite, self.losses))

    @property
    def constant(self) -> bool:
        """Whether the loss is the same in all rows, as printed."""
        return len({loss_text(loss) for loss in self.losses}) == 1

    @property
    def scaler(self) -> bool:
        return set(self.scales) != {1.0}

    @property
    def sinks(self) -> bool:
        """Whether the scale still falls in the last row."""
        return self.scales[-1] < self.scales[-2]

    @property
    def from_to(self) -> str:
        """How the loss goes."""
        first, last = loss_text(self.losses[0]), loss_text(self.losses[-1])
        return f"it is {first} in all rows" if self.constant else f"it goes from {first} to {last}"

    @property
    def scale_path(self) -> str:
        """How the scale goes."""
        first, last = self.scales[0], self.scales[-1]
        if len(set(self.scales)) == 1:
            return f"is {scale_told(first)} in all rows"
        return f"starts at {scale_told(first)} and ends at {scale_told(last)}"

    @property
    def last_norm(self) -> str:
        return norm_text(self.norms[-1])


@dataclass(frozen=True)
class LogFault:
    """A fault that a log can show.

    Attributes:
        text: the diagnosis.
        plant: a log with this fault, or None if this draw does not show it.
        confirmed: why this log has it.
        refuted: why another log does not have it; "" if it can't be told.
    """

    text: str
    plant: Callable[[random.Random], PrintedLog | None]
    confirmed: Callable[[PrintedLog], str]
    refuted: Callable[[PrintedLog], str]


def _task(rng: random.Random, size: float = 2.0) -> SimulatedRun:
    """Four samples with three features, and weights that are not the right ones yet."""
    inputs = tuple(tuple(round(rng.uniform(-size, size), 2) for _ in range(3)) for _ in range(4))
    true = [rng.uniform(-1.5, 1.5) for _ in range(3)]
    targets = tuple(
        round(sum(a * b for a, b in zip(row, true, strict=True)) + rng.uniform(-0.3, 0.3), 2)
        for row in inputs
    )
    weights = tuple(
        round(weight + rng.choice((-1, 1)) * rng.uniform(0.4, 1.2), 2) for weight in true
    )
    rate = rng.uniform(0.05, 0.15) / curvature(inputs)
    return SimulatedRun(inputs, targets, weights, float(f"{rate:.2g}"))


def _log(run: SimulatedRun, rng: random.Random, every: int = 1) -> PrintedLog:
    rows = rng.randint(10, 14)
    return PrintedLog(tuple(simulation.train(run, every * (rows - 1) + 1, every)))


def _near_the_limit(run: SimulatedRun) -> float:
    """The largest power of two as a scale with which the first step does not overflow."""
    scale = 2.0**24
    while simulation.train(run.change(scale=scale), 1)[0].skipped:
        scale /= 2
    return scale


# ---- the faults ---------------------------------------------------------------------------------


def _plant_overflow(rng: random.Random) -> PrintedLog | None:
    run = _task(rng, 2.0)
    inputs = tuple(tuple(value * 300 for value in row) for row in run.inputs)
    weights = tuple(weight * rng.uniform(200, 500) for weight in run.weights)
    log = _log(run.change(inputs=inputs, weights=weights, scale=2.0 ** rng.randint(12, 20)), rng)
    return log if not any(map(math.isfinite, log.losses)) else None


def _confirm_overflow(log: PrintedLog) -> str:
    return (
        "Yes. The loss is inf before anything is multiplied by the scale, so no scale can help: it "
        f"falls from {scale_told(log.scales[0])} to {scale_told(log.scales[-1])}, and every "
        "step is skipped."
    )


def _refute_overflow(log: PrintedLog) -> str:
    if log.finite:
        return f"Then the loss itself would be inf or NaN. Here {log.from_to}."
    return "Then the loss would be inf or NaN in all rows. Here the first rows are finite."


def _plant_clip(rng: random.Random) -> PrintedLog | None:
    every = rng.choice((10, 20))
    run = _task(rng).change(
        clip_early=True, max_norm=rng.choice((0.5, 1.0)), growth_interval=every * rng.randint(4, 5)
    )
    scale = min(_near_the_limit(run) / 8, 2.0 ** rng.randint(11, 14))
    log = _log(run.change(scale=scale), rng, every)
    doubled = log.scales[-1] >= 4 * log.scales[0]
    return log if doubled and log.norms[0] > 1000 and not any(r.skipped for r in log.rows) else None


def _confirm_clip(log: PrintedLog) -> str:
    first, last = log.rows[0], log.rows[-1]
    return (
        f"Yes. The norm follows the scale: {norm_text(first.norm)} at "
        f"{scale_told(first.scale)}, and "
        f"{norm_text(last.norm)} at {scale_told(last.scale)}. These gradients are still "
        "scaled when they "
        "are clipped, so the updates are too small by the scale, and the loss hardly moves."
    )


def _refute_clip(log: PrintedLog) -> str:
    if not log.scaler:
        return f"{NO_SCALER} So there's nothing to unscale."
    if math.isfinite(log.norms[-1]) and log.constant:
        return (
            f"Then the norm would grow with the scale. Here it's {log.last_norm} in all rows, and "
            f"the scale {log.scale_path}."
        )
    if math.isfinite(log.norms[-1]):
        return (
            f"Then each step would be clipped about {scale_told(log.scales[-1])} times too hard, "
            f"and the loss would hardly move. Here {log.from_to}."
        )
    if not log.finite:
        return "Clipping changes gradients. It can't make the loss of the first row inf."
    return "Then the norm would be huge, but finite, and steps would be taken."


def _plant_stale(rng: random.Random) -> PrintedLog | None:
    every = rng.choice((10, 20, 50))
    run = _task(rng).change(stale=True, growth_interval=every * rng.randint(3, 6))
    log = _log(
        run.change(scale=min(_near_the_limit(run) / 8, 2.0 ** rng.randint(8, 13))), rng, every
    )
    same = len({norm_text(norm) for norm in log.norms}) == 1
    return log if log.constant and same and log.norms[0] > 0.01 else None


def _confirm_stale(log: PrintedLog) -> str:
    return (
        f"Yes. Loss and norm are {loss_text(log.losses[0])} and {log.last_norm} in all rows, "
        "though "
        "no step is skipped. The weights move, but the forward pass reads casts that the "
        "cache made "
        "in the first step."
    )


def _refute_stale(log: PrintedLog) -> str:
    if not log.finite:
        return "Stale casts repeat the first loss. They don't make it inf or NaN."
    if not log.constant and not _hardly_moves(log):
        return f"Then the loss would stay the same to the last digit. Here {log.from_to}."
    if not math.isfinite(log.norms[-1]):
        return "Then the norm would stay finite. Here it's inf, so every step is skipped."
    if log.norms[-1] == 0:
        return "Then the norm would be above 0: there are gradients, computed from old weights."
    return (
        "Then the norm would stay the same too. Here it goes from "
        f"{norm_text(log.norms[0])} to {log.last_norm}, as the scale grows."
    )


def _hardly_moves(log: PrintedLog) -> bool:
    return log.finite and abs(log.losses[-1] / log.losses[0] - 1) < 0.01


def _plant_no_scaler(rng: random.Random) -> PrintedLog | None:
    run = _task(rng).change(scale=None, copies=2**27)
    log = _log(run, rng, rng.choice((1, 10, 20, 50)))
    return log if set(log.norms) == {0.0} else None


def _confirm_no_scaler(log: PrintedLog) -> str:
    return (
        "Yes. The scale is 1 in all rows, and the norm is 0 although the loss is "
        f"{loss_text(log.losses[0])}. Each gradient is below FP16's smallest number and "
        "becomes 0 on "
        "the way back."
    )


def _refute_no_scaler(log: PrintedLog) -> str:
    if log.scaler:
        return f"There is a scaler: its scale {log.scale_path}."
    if not log.finite:
        return "Underflow makes gradients 0. It doesn't make the loss NaN."
    return f"Then the norm would be 0. Here it ends at {log.last_norm}."


def _plant_stuck(rng: random.Random) -> PrintedLog | None:
    run = _task(rng)
    run = run.change(keep_grads=True, lr=run.lr / 4, growth_interval=rng.randint(3, 5))
    log = _log(run.change(scale=_near_the_limit(run)), rng)
    skipped = [row.skipped for row in log.rows]
    first = skipped.index(True) if True in skipped else -1
    return log if first >= 2 and all(skipped[first:]) and log.finite else None


def _confirm_stuck(log: PrintedLog) -> str:
    first = next(row for row in log.rows if row.skipped)
    return (
        f"Yes. The first overflow is at step {first.step}. From then on the norm is never finite "
        f"again, the scale sinks, and the loss stays at {loss_text(log.losses[-1])}. Nothing "
        "clears `.grad`, and inf plus any gradient is inf again. (Before that it hardly showed: "
        "`step` divides `.grad` in place, so old gradients are tiny beside new, scaled ones.)"
    )


def _refute_stuck(log: PrintedLog) -> str:
    if not log.finite:
        return "With a scaler such steps are skipped, so the weights and the loss stay finite."
    if all(map(math.isfinite, log.norms)):
        return f"Then the norm would be inf or NaN. Here it ends at {log.last_norm}."
    back = next(
        (b.step for a, b in zip(log.rows, log.rows[1:], strict=False) if a.skipped > b.skipped),
        None,
    )
    return f"Then no step would work after an inf. Here the norm is finite again at step {back}."


def _plant_settling(rng: random.Random) -> PrintedLog | None:
    run = _task(rng)
    if rng.random() < 0.6:
        run = run.change(scale=_near_the_limit(run) * 2.0 ** rng.randint(2, 5), lr=run.lr * 1.5)
    else:
        run = run.change(
            scale=_near_the_limit(run), lr=run.lr / 2, growth_interval=rng.randint(3, 4)
        )
    log = _log(run, rng)
    skipped = sum(row.skipped for row in log.rows)
    works = log.losses[-1] < 0.8 * log.losses[0] and not any(row.skipped for row in log.rows[-2:])
    return log if works and 1 <= skipped <= 6 else None


def _confirm_settling(log: PrintedLog) -> str:
    skipped = [row.step for row in log.rows if row.skipped]
    where = f"Step {skipped[0]} is" if len(skipped) == 1 else f"Steps {_span(skipped)} are"
    return (
        f"Yes. {where} skipped and the scale is halved: it was too large for FP16. The other steps "
        f"work, and the loss goes from {loss_text(log.losses[0])} to {loss_text(log.losses[-1])}."
    )


def _span(steps: list[int]) -> str:
    """``0 to 4``, or ``3, 7 and 11``."""
    if len(steps) > 2 and steps[-1] - steps[0] == len(steps) - 1:
        return f"{steps[0]} to {steps[-1]}"
    return listed([str(step) for step in steps])


def _refute_settling(log: PrintedLog) -> str:
    if not log.scaler:
        return f"{NO_SCALER} So no scale can settle."
    if log.sinks:
        return (
            "Then the skips would end. Here the scale still falls in the last row, to "
            f"{scale_told(log.scales[-1])}."
        )
    return f"Then the loss would fall as soon as steps work. Here {log.from_to}."


def _plant_stall(rng: random.Random) -> PrintedLog | None:
    run = _task(rng)
    log = _log(
        run.change(fmt=BF16, weight_fmt=BF16, scale=None, lr=run.lr / rng.choice((16, 24, 32))),
        rng,
        rng.choice((5, 10, 20)),
    )
    tail = {loss_text(loss) for loss in log.losses[-5:]}
    moved = log.losses[-1] < 0.9 * log.losses[0]
    return log if len(tail) == 1 and moved and log.norms[-1] > 0.05 else None


def _confirm_stall(log: PrintedLog) -> str:
    return (
        f"Yes. The loss falls and then stays at {loss_text(log.losses[-1])}, though the norm "
        "is still "
        f"{log.last_norm}. Learning rate times gradient is now less than half a gap between "
        "two BF16 "
        "numbers, so no weight moves."
    )


def _refute_stall(log: PrintedLog) -> str:
    if not log.finite:
        return "Updates that are lost leave the loss where it is. They don't make it inf or NaN."
    if not log.constant and log.losses[-1] != log.losses[-2]:
        return (
            "Then the loss would stop at one value. Here it still changes in the last rows, from "
            f"{loss_text(log.losses[-2])} to {loss_text(log.losses[-1])}."
        )
    if log.norms[-1] == 0:
        return (
            "Then the norm would be above 0: the gradients are there, but the weights don't move."
        )
    if not math.isfinite(log.norms[-1]):
        return "Then the norm would be finite, and nothing would make the scale sink."
    return (
        "Then the loss would fall first. And BF16 needs no scaler, but this scale "
        f"{log.scale_path}."
    )


def _plant_rate(rng: random.Random) -> PrintedLog | None:
    run = _task(rng)
    rate = rng.uniform(2.2, 2.7) / curvature(run.inputs)
    log = _log(run.change(lr=rate, scale=2.0 ** rng.randint(5, 8)), rng)
    grows = all(b > a for a, b in zip(log.losses[3:], log.losses[4:], strict=False))
    big = log.finite and log.losses[-1] > 3 * log.losses[0]
    return log if grows and big and not any(row.skipped for row in log.rows) else None


def _confirm_rate(log: PrintedLog) -> str:
    return (
        f"Yes. The loss grows from {loss_text(log.losses[0])} to {loss_text(log.losses[-1])} "
        "and the "
        "norm with it, while no step is skipped. In FP32 this run would diverge too."
    )


def _refute_rate(log: PrintedLog) -> str:
    if math.isinf(log.losses[0]):
        return (
            "Then the loss would be finite at first, and grow. Here it's inf from the first row on."
        )
    if not log.finite:
        last = max(loss for loss in log.losses if math.isfinite(loss))
        return f"Then the loss would grow row by row. Here it is at most {loss_text(last)} before."
    return f"Then the loss would grow. Here {log.from_to}."


def _plant_batch(rng: random.Random) -> PrintedLog | None:
    every = rng.choice((5, 10, 20))
    run = _task(rng)
    bad = every * rng.randint(4, 8) + rng.randrange(1, every)
    run = run.change(fmt=BF16, scale=None, bad_step=bad, lr=run.lr / 4)
    return _log(run, rng, every)


def _confirm_batch(log: PrintedLog) -> str:
    last = [row for row in log.rows if math.isfinite(row.loss)][-1]
    return (
        f"Yes. At step {last.step} all is well, with a loss of {loss_text(last.loss)}. Then "
        "loss and "
        "norm are NaN for good: a batch with inf or NaN made the gradients NaN. Without a scaler, "
        "nobody checks the gradients, so the step was taken."
    )


def _refute_batch(log: PrintedLog) -> str:
    if log.finite:
        return f"Then the loss would become NaN and stay NaN. Here {log.from_to}."
    return "Here the loss is inf in the first row, before any step could change the weights."


def _plant_dead(rng: random.Random) -> PrintedLog | None:
    every = rng.choice((10, 20, 50))
    run = _task(rng)
    inputs = tuple(tuple(abs(value) + 0.1 for value in row) for row in run.inputs)
    weights = tuple(-abs(weight) - 0.1 for weight in run.weights)
    targets = tuple(abs(target) + 0.1 for target in run.targets)
    run = run.change(inputs=inputs, weights=weights, targets=targets, relu=True)
    interval = every * rng.randint(1, 3)
    return _log(run.change(growth_interval=interval, scale=2.0 ** rng.randint(12, 16)), rng, every)


def _confirm_dead(log: PrintedLog) -> str:
    return (
        "Yes. The norm is 0 in all rows, though the scale grows from "
        f"{scale_told(log.scales[0])} to "
        f"{scale_told(log.scales[-1])}. With such a scale, tiny gradients would show up. "
        "These are 0 in "
        "FP32 too."
    )


def _refute_dead(log: PrintedLog) -> str:
    if not log.finite:
        return "Dead ReLUs give gradients of 0. They don't make the loss inf or NaN."
    if log.norms[-1] == 0:
        return ""  # without a scaler it looks the same
    return f"Then the norm would be 0. Here it ends at {log.last_norm}."


FAULTS: dict[str, LogFault] = {
    "overflow": LogFault(
        "The forward pass overflows in FP16", _plant_overflow, _confirm_overflow, _refute_overflow
    ),
    "clip": LogFault("Clipping comes before `unscale_`", _plant_clip, _confirm_clip, _refute_clip),
    "stale": LogFault(
        "One autocast region spans the whole loop", _plant_stale, _confirm_stale, _refute_stale
    ),
    "no_scaler": LogFault(
        "Gradients underflow in FP16, with no scaler",
        _plant_no_scaler,
        _confirm_no_scaler,
        _refute_no_scaler,
    ),
    "stuck": LogFault(
        "`.grad` is never cleared, so an inf stays", _plant_stuck, _confirm_stuck, _refute_stuck
    ),
    "settling": LogFault(
        "Nothing: the loss scale is settling",
        _plant_settling,
        _confirm_settling,
        _refute_settling,
    ),
    "stall": LogFault(
        "BF16 weights round the updates away", _plant_stall, _confirm_stall, _refute_stall
    ),
    "rate": LogFault("The learning rate is too high", _plant_rate, _confirm_rate, _refute_rate),
    "batch": LogFault(
        "One bad batch got into the weights", _plant_batch, _confirm_batch, _refute_batch
    ),
    "dead": LogFault(
        "All ReLUs are dead, at any precision", _plant_dead, _confirm_dead, _refute_dead
    ),
}
"""What can be wrong, or look wrong, by name."""

NEAR = {
    "overflow": ("stuck", "settling", "batch"),
    "clip": ("stale", "rate", "stall"),
    "stale": ("stall", "clip", "no_scaler"),
    "no_scaler": ("stale", "stall", "batch"),
    "stuck": ("overflow", "settling", "stale"),
    "settling": ("stuck", "overflow", "clip"),
    "stall": ("stale", "no_scaler", "rate"),
    "rate": ("overflow", "batch", "clip"),
    "batch": ("overflow", "rate", "stuck"),
    "dead": ("no_scaler", "stale", "stall"),
}
"""For each fault, those whose logs look most like its own."""


@generator(
    "myths_and_clinic.gen_name_the_fault", "Name the fault in 60 seconds", level=3, kind="trace"
)
def name_the_fault(rng: random.Random) -> Draft | None:
    planted = rng.choice(tuple(FAULTS))
    log = None
    while log is None:  # one draw in six shows its fault clearly, at worst
        log = FAULTS[planted].plant(rng)
    right = Option(FAULTS[planted].text, FAULTS[planted].confirmed(log))
    others = rng.sample([name for name in FAULTS if name != planted], len(FAULTS) - 1)
    others.sort(key=lambda name: name not in NEAR[planted])
    wrong = [
        Option(FAULTS[name].text, why) for name in others if (why := FAULTS[name].refuted(log))
    ]
    return {
        "prompt": "A training run uses the same examples in each step, unless a bad batch gets in. "
        "It prints its loss, its loss scale after `update()` (1 if there is no "
        "GradScaler) and its gradient norm, as `clip_grad_norm_` returns it. A run that doesn't "
        "clip calls `clip_grad_norm_(..., max_norm=inf)`. You have 60 seconds: what is wrong, if "
        "anything?",
        "log": simulation.text(log.rows),
        "hint": "Go column by column. Is the loss finite? Does the scale move? Is the norm 0, inf, "
        "or far too large?",
        "source": "simulated in amp_lessons/quiz/generators/simulation.py, which the tests hold "
        "against torch 2.13",
        "choice": choices(rng, right, wrong[:5], count=4),
    }


GENERATORS = (name_the_fault,)
