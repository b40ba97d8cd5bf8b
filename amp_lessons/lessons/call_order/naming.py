"""Say which mistake a run shows, from what its calls met.

Nothing here looks up an order. An order is right if its run ends with the weights of the usual one.
If it doesn't, each rule below looks for its own mistake in what was noted: which micro-batches the
gradients held, how many times their size they were, which call raised and what had run before it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, lru_cache

from amp_lessons.core.catalogue import lesson_called
from amp_lessons.lessons.call_order.cards import BY_ID, MAX_NORM, USUAL, Order
from amp_lessons.lessons.call_order.playing import (
    PIECES,
    STEPS,
    Gradients,
    Move,
    OrderRun,
    Play,
    Stop,
    play_order,
)

SAME = 1e-4  # weights that differ by less, as a share of how far they moved, are the same


@dataclass(frozen=True)
class OrderMistake:
    """A mistake.

    Attributes:
        slug: its name in tests.
        text: one sentence that names it, and what it did in this run.
    """

    slug: str
    text: str


@dataclass(frozen=True)
class OrderOutcome:
    """What came of an order.

    Attributes:
        run: what happened, step by step.
        right: whether the weights ended where those of the usual order do.
        findings: the mistakes, the one that explains most first; none if it is right.
        notes: what to know about an order that is right.
    """

    run: OrderRun
    right: bool
    findings: tuple[OrderMistake, ...]
    notes: tuple[str, ...]


@lru_cache(maxsize=512)
def run_order(order: Order) -> OrderOutcome:
    """Run the calls in an order, and say what came of it. The same order is run once."""
    run = play_order(order)
    if _is_right(run):
        return OrderOutcome(run, True, (), _notes(run))
    return OrderOutcome(run, False, _find(run), ())


@cache
def usual_run() -> OrderRun:
    """The run of the usual order."""
    return play_order(USUAL)


def numbers(run: OrderRun) -> dict[str, str]:
    """A run in numbers: what is counted, and the number as text."""
    sizes = sorted({len(move.held) for move in run.moves})
    norms = [play.norm for play in run.plays if play.card == "clip" and math.isfinite(play.norm)]
    skipped = f"{len(run.skipped)}"
    if run.skipped:
        first, last = run.skipped[0] + 1, run.skipped[-1] + 1
        skipped += f": step {first}" if first == last else f": steps {first} to {last}"
    return {
        "Steps that the optimizer made": str(len(run.moves)),
        "Steps that the scaler skipped": skipped,
        "Micro-batches in a step's gradient": _span(sizes) or "none",
        f"Largest norm that met the threshold {MAX_NORM}": _times(max(norms)) if norms else "none",
        "Learning rate of the last step": _times(run.moves[-1].rate) if run.moves else "none",
        "Loss scale at the end": _times(run.scales[-1]) if run.scales else "none",
        "How far the weights moved": _times(run.moved),
        "Error per pixel at the end": _times(run.errors[-1]) if run.errors else "none",
    }


def _span(sizes: list[int]) -> str:
    if len(sizes) < 2:
        return "".join(map(str, sizes))
    return f"{sizes[0]} to {sizes[-1]}"


def _is_right(run: OrderRun) -> bool:
    usual = usual_run()
    difference = (run.weights - usual.weights).norm().item()
    return run.stop is None and difference <= SAME * usual.moved


def _notes(run: OrderRun) -> tuple[str, ...]:
    order = run.order
    notes = []
    if "zero_grad" in order.after:
        notes.append(
            "`zero_grad()` at the end of a step clears the gradients for the next one, so it is as "
            "good as at the start."
        )
    after = order.after
    if after.index("schedule") < after.index("update"):
        notes.append(
            "`scheduler.step()` may come before or after `scaler.update()`: it has to follow "
            "`scaler.step()`."
        )
    skipped = ", ".join(str(step + 1) for step in run.skipped)
    number = lesson_called("training_loops").number
    notes.append(
        f"The scaler skipped step {skipped}, and the schedule moved on all the same. Lesson "
        f"{number:02} shows how to let it wait."
    )
    return tuple(notes)


# ---- what the rules look at --------------------------------------------------------------------


class _SortedRun:
    """A run, sorted for the rules; ``found`` holds the mistakes that are named already."""

    def __init__(self, run: OrderRun) -> None:
        self.run = run
        self.found: set[str] = set()
        last = STEPS if run.stop is None else run.stop.play.step
        self.complete = range(last)  # the steps in which no call raised
        self.steps: dict[int, list[Play]] = {}
        for play in run.plays:
            self.steps.setdefault(play.step, []).append(play)

    def plays(self, card: str) -> list[Play]:
        return [play for play in self.run.plays if play.card == card]

    def most_in_a_step(self, card: str) -> int:
        return max(Counter(play.step for play in self.plays(card)).values(), default=0)

    def before(self, play: Play) -> list[Play]:
        """The calls of the same step that came before a call, the last one first."""
        plays = self.steps.get(play.step, [])
        end = next((i for i, other in enumerate(plays) if other is play), len(plays))
        return plays[:end][::-1]

    def after(self, play: Play) -> list[Play]:
        """The calls of the same step that came after a call."""
        return self.steps[play.step][len(self.before(play)) + 1 :]

    def never(self, card: str) -> bool:
        """Whether a run that came to its end has left a card out."""
        return self.run.stop is None and not self.plays(card)


# ---- the rules ---------------------------------------------------------------------------------

Rule = Callable[[_SortedRun], str | None]
_RULES: list[tuple[str, Rule]] = []


def _rule(slug: str) -> Callable[[Rule], Rule]:
    """Name what a rule finds. The rules are asked in the order in which they stand here."""

    def add(rule: Rule) -> Rule:
        _RULES.append((slug, rule))
        return rule

    return add


def _find(run: OrderRun) -> tuple[OrderMistake, ...]:
    seen = _SortedRun(run)
    found = []
    if run.stop is not None:
        found.append(OrderMistake(*_why_it_raised(seen, run.stop)))
        seen.found.add(found[0].slug)
    for slug, rule in _RULES:
        if slug not in seen.found and (text := rule(seen)):
            found.append(OrderMistake(slug, text))
            seen.found.add(slug)
    if not found:
        found.append(OrderMistake("other", "The weights end elsewhere than with the usual order."))
    return tuple(found)


def _times(factor: float) -> str:
    """65536 as ``65,536``; 0.25 as ``0.25``."""
    if not math.isfinite(factor):
        return "NaN" if math.isnan(factor) else "inf"
    if factor >= 1000:
        return f"{factor:,.0f}" if factor < 1e9 else f"{factor:.1e}"
    return f"{factor:.3g}"


def _has(cards: list[Play], card: str) -> bool:
    return any(play.card == card for play in cards)


# ---- a call that raised --------------------------------------------------------------------------


def _why_it_raised(seen: _SortedRun, stop: Stop) -> tuple[str, str]:
    """The mistake behind an exception: a slug and a sentence."""
    by_card = {
        "forward": _forward_raised,
        "divide": _loss_is_missing,
        "backward": _loss_is_missing,
        "unscale": _unscale_raised,
        "step": _step_raised,
        "update": _update_raised,
    }
    why = by_card.get(stop.play.card, lambda *_: None)
    return why(seen, stop) or ("other", f"{BY_ID[stop.play.card].name} raised an error.")


def _forward_raised(seen: _SortedRun, stop: Stop) -> tuple[str, str]:
    return "forward-before-loop", (
        "The forward pass before the loop: it needs a micro-batch, and `piece` gets its value in "
        "the loop."
    )


def _loss_is_missing(seen: _SortedRun, stop: Stop) -> tuple[str, str]:
    if "forward" in seen.run.order.unused:
        return "no-forward", "No forward pass: nothing computes the loss."
    slug = f"{stop.play.card}-before-forward"
    what = "Dividing the loss" if stop.play.card == "divide" else "`backward()`"
    return slug, f"{what} before the forward pass: there is no loss yet."


def _nothing_was_scaled(seen: _SortedRun, card: str) -> tuple[str, str] | None:
    if seen.plays("backward"):
        return None
    if "backward" in seen.run.order.unused:
        return "no-backward", "No `backward()`: there are no gradients, and no loss was scaled."
    return f"{card}-before-backward", (
        f"`{BY_ID[card].name}` before `backward()`: no loss has been scaled yet, so there is no "
        "scale and there are no gradients."
    )


def _since_update(seen: _SortedRun) -> list[Play]:
    """The calls since the last `update()`, the last one first."""
    found = []
    for play in reversed(seen.run.plays):
        if play.card == "update":
            break
        found.append(play)
    return found


def _unscale_raised(seen: _SortedRun, stop: Stop) -> tuple[str, str] | None:
    if nothing := _nothing_was_scaled(seen, "unscale"):
        return nothing
    here = [play for play in _since_update(seen) if play.step == stop.play.step]
    if _has(here, "step"):
        return "unscale-after-step", (
            "`unscale_()` after `step()`: `scaler.step()` has already divided these gradients by "
            "the scale and used them."
        )
    if _has(here, "unscale"):
        return "unscale-each", (
            "`unscale_()` in each micro-batch: the gradients of a step add up, and they are "
            "divided by the scale once, after the last micro-batch."
        )
    return _no_update(seen, stop)


def _no_update(seen: _SortedRun, stop: Stop) -> tuple[str, str]:
    """The scaler has had no `update` since the last step. Perhaps there was one before."""
    for slug, rule in (("update-each", _update_each), ("update-before-step", _update_before_step)):
        if text := rule(seen):
            return slug, (
                f"{text} In step {stop.play.step + 1} the scaler refuses, because nothing came "
                "after `step()` to end the step before."
            )
    return "no-update", (
        f"No `update()`: in step {stop.play.step + 1} the scaler still waits for the end of step "
        f"{stop.play.step}."
    )


def _step_raised(seen: _SortedRun, stop: Stop) -> tuple[str, str] | None:
    if nothing := _nothing_was_scaled(seen, "step"):
        return nothing
    since = _since_update(seen)
    if _has([play for play in since if play.step == stop.play.step], "step"):
        return "step-each", (
            "`scaler.step()` in each micro-batch: it belongs to the whole step, after the last of "
            f"the {PIECES} micro-batches."
        )
    if _has(since, "step"):
        return _no_update(seen, stop)
    return _thrown_away(seen)


def _thrown_away(seen: _SortedRun) -> tuple[str, str]:
    still = "" if seen.run.moved else " The weights never moved."
    return "zero-before-step", (
        "`zero_grad()` between `backward()` and `step()`: it removed the gradients before "
        f"`scaler.step()` could use them.{still}"
    )


def _update_raised(seen: _SortedRun, stop: Stop) -> tuple[str, str] | None:
    if nothing := _nothing_was_scaled(seen, "update"):
        return nothing
    if stop.play.piece is not None:
        return "update-each", (
            "`update()` in each micro-batch: it ends a step, so it comes once, after "
            "`scaler.step()`."
        )
    if "step" in seen.run.order.unused:
        return "no-step", "No `scaler.step()`: the weights never move, and `update()` refuses."
    return "update-before-step", (
        "`update()` before `step()`: it needs to know whether the gradients held inf, and nothing "
        "has looked for that yet."
    )


# ---- rules: the micro-batches --------------------------------------------------------------------


@_rule("no-accumulation")
def _no_accumulation(seen: _SortedRun) -> str | None:
    """Everything stands in the loop, so a micro-batch is a step."""
    steps = seen.plays("step")
    alone = all(len(play.held) == 1 and play.fresh for play in steps)
    times = seen.most_in_a_step("step")
    if times < 2 or not alone:
        return None
    return (
        f"A whole step in each micro-batch: nothing adds up. The optimizer stepped {times} times "
        "for each batch, with the gradient of 1 micro-batch each time."
    )


@_rule("no-backward")
def _no_backward(seen: _SortedRun) -> str | None:
    if not seen.never("backward"):
        return None
    return "No `backward()`: there are no gradients, so the weights never moved."


@_rule("one-micro-batch")
def _one_micro_batch(seen: _SortedRun) -> str | None:
    """The forward pass or `backward` stands after the loop."""
    counts = Counter(play.step for play in seen.plays("backward") if play.step in seen.complete)
    if not counts or max(counts.values()) > 1:
        return None
    late = "The forward pass" if seen.most_in_a_step("forward") == 1 else "`backward()`"
    return (
        f"{late} after the loop: it runs once a step, so the gradients are those of 1 of the "
        f"{PIECES} micro-batches."
    )


@_rule("undivided")
def _undivided(seen: _SortedRun) -> str | None:
    whole = [play for play in seen.plays("backward") if play.share > 1.5 / PIECES]
    if not whole or "one-micro-batch" in seen.found:
        return None
    if seen.plays("divide"):
        return (
            "The division comes after `backward()`, when the gradients are already there: each is "
            f"{PIECES} times its share of the mean."
        )
    return (
        "No division by the number of micro-batches: each gradient is "
        f"{PIECES} times its share of the mean."
    )


# ---- rules: zero_grad ----------------------------------------------------------------------------


def _lost(seen: _SortedRun) -> list[Play]:
    """Calls of `zero_grad` that removed gradients of their own step before it could use them."""
    return [
        play for play in seen.plays("zero_grad") if any(step == play.step for step, _ in play.fresh)
    ]


@_rule("zero-each")
def _zero_each(seen: _SortedRun) -> str | None:
    early = [play for play in _lost(seen) if _has(seen.after(play), "backward")]
    if not early or "zero-before-step" in seen.found:
        return None
    gone = max(Counter(play.step for play in early).values())
    return (
        f"`zero_grad()` in each micro-batch: it removed the gradients of {gone} of the {PIECES} "
        "micro-batches before the step could use them."
    )


@_rule("zero-before-step")
def _zero_before_step(seen: _SortedRun) -> str | None:
    late = [play for play in _lost(seen) if not _has(seen.after(play), "backward")]
    late = [play for play in late if _has(seen.after(play), "step")]
    return _thrown_away(seen)[1] if late else None


@_rule("never-zeroed")
def _never_zeroed(seen: _SortedRun) -> str | None:
    old = [m for m in seen.plays("step") if any(step < m.step for step, _ in m.held)]
    if not old or _lost(seen):
        return None
    example = old[min(len(old), 5) - 1]
    stuck = ""
    if len(seen.run.skipped) > STEPS // 3:
        stuck = (
            f" The inf of step {seen.run.skipped[0] + 1} stayed in them too, so "
            f"{len(seen.run.skipped)} steps were skipped."
        )
    return (
        f"No `zero_grad()`: the gradients of earlier steps stay, and step {example.step + 1} used "
        f"those of {len({step for step, _ in example.held})} steps.{stuck}"
    )


# ---- rules: unscale_ and clipping ----------------------------------------------------------------


@_rule("unscale-each")
def _unscale_each(seen: _SortedRun) -> str | None:
    times = seen.most_in_a_step("unscale")
    if times < 2 or "no-accumulation" in seen.found:
        return None
    return (
        f"`unscale_()` in each micro-batch: it ran {times} times in a step. Gradients that are "
        "there already are divided by the scale again."
    )


@_rule("unscale-after-step")
def _unscale_after_step(seen: _SortedRun) -> str | None:
    """Without an exception: `update` came between them, and the next step believes it."""
    late = [play for play in seen.plays("unscale") if not play.fresh and play.held]
    late = [play for play in late if _has(seen.before(play), "step")]
    if not late or "unscale-each" in seen.found:
        return None
    return (
        "`unscale_()` after `step()`: these gradients were used already, and the next "
        f"`scaler.step()` takes its own for unscaled.{_used_scaled(seen)}"
    )


def _used_scaled(seen: _SortedRun) -> str:
    """What the optimizer was given after an `unscale_` that came too late."""
    texts = []
    if scaled := _scaled_clips(seen):
        times = _times(_largest_factor(scaled[-1].held))
        texts.append(f" Clipping met gradients {times} times their size.")
    else:
        worst = max((_largest_factor(move.held) for move in seen.run.moves), default=1.0)
        if worst > 2:
            texts.append(f" The optimizer got gradients {_times(worst)} times their size.")
    bad = [move for move in seen.run.moves if not math.isfinite(move.norm)]
    if bad:
        texts.append(
            f" In step {bad[0].step + 1} nobody looked for inf, and the optimizer used it."
        )
    return "".join(texts)


@_rule("clip-before-unscale")
def _clip_before_unscale(seen: _SortedRun) -> str | None:
    scaled = [play for play in _scaled_clips(seen) if _has(seen.after(play), "unscale")]
    scaled = [play for play in scaled if not _has(_until(seen.after(play), "unscale"), "step")]
    if not scaled:
        return None
    return f"Clipping before `unscale_()`: {_clipped_against(scaled)}"


@_rule("clip-without-unscale")
def _clip_without_unscale(seen: _SortedRun) -> str | None:
    scaled = _scaled_clips(seen)
    if not scaled or {"clip-before-unscale", "unscale-after-step"} & seen.found:
        return None
    if seen.plays("unscale"):
        return None
    return (
        f"Clipping without `unscale_()`: {_clipped_against(scaled)} `scaler.step()` divides them "
        "by the scale, but only afterwards."
    )


@_rule("clip-each")
def _clip_each(seen: _SortedRun) -> str | None:
    clips = [play for play in seen.plays("clip") if play.held]
    first = [play for play in clips if play.step == clips[0].step]
    if len(first) < 2 or "no-accumulation" in seen.found:
        return None
    sizes = sorted({len(play.held) for play in first})
    each = ", ".join(map(str, sizes[:-1])) + " and " if len(sizes) > 1 else ""
    return (
        "Clipping in each micro-batch: the threshold is meant for the gradient of a whole step. In "
        f"step {first[0].step + 1} it met {len(first)} gradients, of {each}{sizes[-1]} of the "
        f"{PIECES} micro-batches."
    )


@_rule("clip-before-backward")
def _clip_before_backward(seen: _SortedRun) -> str | None:
    clips = seen.plays("clip")
    if not clips or any(play.held for play in clips) or "zero-before-step" in seen.found:
        return None
    return "Clipping before `backward()`: there are no gradients yet, so nothing is clipped."


@_rule("clip-after-step")
def _clip_after_step(seen: _SortedRun) -> str | None:
    clips = [play for play in seen.plays("clip") if play.held]
    if not clips or any(play.fresh for play in clips) or not seen.run.moves:
        return None
    return f"Clipping after `step()`: the gradients have been used.{_not_clipped(seen)}"


@_rule("no-clip")
def _no_clip(seen: _SortedRun) -> str | None:
    if not seen.never("clip") or not seen.run.moves:
        return None
    return f"No clipping: nothing limits the gradients.{_not_clipped(seen)}"


def _scaled_clips(seen: _SortedRun) -> list[Play]:
    """Calls of `clip` that met gradients at another size than their own, before any step."""
    return [play for play in seen.plays("clip") if play.fresh and _largest_factor(play.held) > 2]


def _until(plays: list[Play], card: str) -> list[Play]:
    end = next((i for i, play in enumerate(plays) if play.card == card), len(plays))
    return plays[:end]


def _largest_factor(held: Gradients) -> float:
    return max((part.factor for part in held.values()), default=1.0)


def _clipped_against(scaled: list[Play]) -> str:
    play = scaled[0]
    factor = _largest_factor(play.held)
    text = f"the threshold {MAX_NORM} met gradients {_times(factor)} times their size."
    if any(part.factor != factor for part in play.held.values()):
        return text
    return (
        f"{text} In step {play.step + 1} their norm was {_times(play.norm)} instead of "
        f"{_times(play.norm / factor)}."
    )


def _not_clipped(seen: _SortedRun) -> str:
    """An example of what clipping is for, if there was one in this run."""
    largest = max(seen.run.moves, key=lambda move: move.norm if math.isfinite(move.norm) else 0.0)
    if not largest.norm > MAX_NORM:
        return ""
    return (
        f" In step {largest.step + 1} the optimizer used a gradient with a norm of "
        f"{_times(largest.norm)}, and the threshold is {MAX_NORM}."
    )


# ---- rules: step, update, schedule ---------------------------------------------------------------


@_rule("no-step")
def _no_step(seen: _SortedRun) -> str | None:
    if not seen.never("step") or seen.found:
        return None
    return "No `scaler.step()`: the gradients are never used, and the weights never moved."


@_rule("step-each")
def _step_each(seen: _SortedRun) -> str | None:
    times = seen.most_in_a_step("step")
    if times < 2 or "no-accumulation" in seen.found:
        return None
    return (
        f"`scaler.step()` in each micro-batch: the optimizer was asked {times} times a step, "
        "before all micro-batches had added their gradients."
    )


@_rule("update-each")
def _update_each(seen: _SortedRun) -> str | None:
    times = seen.most_in_a_step("update")
    if times < 2 or "no-accumulation" in seen.found:
        return None
    return (
        f"`update()` in each micro-batch: it ran {times} times a step. It ends a step, so it comes "
        "once, after `scaler.step()`."
    )


@_rule("update-before-step")
def _update_before_step(seen: _SortedRun) -> str | None:
    early = [
        play
        for play in seen.plays("update")
        if not _has(seen.before(play), "step") and _has(seen.after(play), "step")
    ]
    if not early or "update-each" in seen.found:
        return None
    move = _twice_unscaled(seen)
    if move is None:
        return "`update()` before `step()`: it ends a step, so it comes after `scaler.step()`."
    factor = 1 / min(part.factor for part in move.held.values())
    return (
        "`update()` before `step()`: it forgets that `unscale_()` has run, so `scaler.step()` "
        "divides the gradients by the scale a second time. The optimizer got them "
        f"{_times(factor)} times too small."
    )


def _twice_unscaled(seen: _SortedRun) -> Move | None:
    moves = [m for m in seen.run.moves if any(part.factor < 0.5 for part in m.held.values())]
    return moves[0] if moves else None


@_rule("schedule-each")
def _schedule_each(seen: _SortedRun) -> str | None:
    times = seen.most_in_a_step("schedule")
    if times < 2:
        return None
    return (
        f"`scheduler.step()` in each micro-batch: the learning rate fell {times} times a "
        f"step.{_rates(seen)}"
    )


@_rule("schedule-before-step")
def _schedule_before_step(seen: _SortedRun) -> str | None:
    early = [play for play in seen.plays("schedule") if _has(seen.after(play), "step")]
    if not early or "schedule-each" in seen.found:
        return None
    return (
        "`scheduler.step()` before `scaler.step()`: each step uses the learning rate of the "
        f"next.{_rates(seen)}"
    )


@_rule("no-schedule")
def _no_schedule(seen: _SortedRun) -> str | None:
    if not seen.never("schedule") or not seen.run.moves:
        return None
    return f"No `scheduler.step()`: the learning rate never falls.{_rates(seen)}"


def _rates(seen: _SortedRun) -> str:
    """The rate of the optimizer's last step beside that of the usual order in the same step."""
    if not seen.run.moves:
        return ""
    last = seen.run.moves[-1]
    usual = {move.step: move.rate for move in usual_run().moves}
    if last.step not in usual:
        return ""
    return (
        f" In step {last.step + 1} it was {_times(last.rate)} instead of "
        f"{_times(usual[last.step])}."
    )
