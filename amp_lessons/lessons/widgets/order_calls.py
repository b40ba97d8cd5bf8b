"""Order the calls: arrange the calls of a training step, run them, and see what breaks.

An order runs here, in Python, with a real `torch.amp.GradScaler`; what happened and which mistake
it was comes from `call_order`. The page in `static/` moves the cards and draws.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import anywidget
import traitlets

from amp_lessons.lessons import call_order
from amp_lessons.lessons.call_order import (
    CARDS,
    PIECES,
    STEPS,
    USUAL,
    Order,
    OrderError,
    OrderOutcome,
)
from amp_lessons.lessons.widgets.files import module, style
from amp_lessons.lessons.widgets.traits import Refused


class OrderTheCalls(anywidget.AnyWidget):
    """The calls of a step with accumulation, clipping and a schedule, as cards in a mixed order.

    The learner moves the cards before, into and after the loop over the micro-batches, or leaves
    some out, and runs them: 30 steps of the course's digit painter in FP16 on a CPU.

    Args:
        order: the order to start with, an `Order` or the ids of `CARDS` by zone, such as
            ``{"before": ["zero_grad"], "each": ["forward"], "after": []}``. A mixed one if none
            is given.
        seed: of the mixed order.

    Attributes:
        order: where the cards are, by zone: ``"before"``, ``"each"``, ``"after"``.
        result: what came of the order that was run last, in plain data; empty before the first run
            and after a reset.

    ``order`` follows the learner, and the widget follows when a lesson sets it.

    Raises:
        ValueError: for a card or a zone that doesn't exist, or a card that is used twice.
    """

    _esm = module("order_calls.mjs")
    _css = style("widgets.css", "order_calls.css")

    data = traitlets.Dict().tag(sync=True)
    order = traitlets.Dict().tag(sync=True)
    asked = traitlets.Dict().tag(sync=True)  # the order that is to be run; empty for none
    result = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        order: Order | Mapping[str, Iterable[str]] | None = None,
        *,
        seed: int = 0,
        **traits: Any,
    ) -> None:
        mixed = call_order.mixed_order(seed)
        start = mixed if order is None else call_order.read_order(order)
        super().__init__(data=_plain_data(start, mixed.used), order=start.as_dict(), **traits)

    def run(self) -> OrderOutcome:
        """Run the cards as they lie, as the button does."""
        self.asked = self.order
        return call_order.run_order(call_order.read_order(self.order))

    @property
    def outcome(self) -> OrderOutcome | None:
        """What came of the order that was run last; None if there is none."""
        return call_order.run_order(call_order.read_order(self.asked)) if self.asked else None

    @traitlets.validate("order")
    def _check_order(self, proposal: dict[str, Any]) -> dict[str, Any]:
        return _checked(proposal["value"])

    @traitlets.validate("asked")
    def _check_asked(self, proposal: dict[str, Any]) -> dict[str, Any]:
        return _checked(proposal["value"]) if proposal["value"] else {}

    @traitlets.observe("asked")
    def _answer(self, _: Any) -> None:
        outcome = self.outcome
        self.result = plain_result(outcome) if outcome else {}


def _checked(given: Any) -> dict[str, list[str]]:
    try:
        return call_order.read_order(given).as_dict()
    except OrderError as error:
        raise Refused(str(error)) from None


def _plain_data(start: Order, mixed: Iterable[str]) -> dict[str, Any]:
    """What the page needs before a run; its form is in order_calls.mjs.

    The cards come mixed, for in this order the page shows those that are left out.
    """
    usual = call_order.usual_run()  # also has everything ready for the learner's first run
    codes = {card.id: card.code for card in CARDS}
    return {
        "cards": [{"id": card, "code": codes[card]} for card in mixed],
        "start": start.as_dict(),
        "usual": USUAL.as_dict(),
        "steps": STEPS,
        "pieces": PIECES,
        "overflows": [step + 1 for step in usual.skipped],
        "clipped": [play.step + 1 for play in usual.plays if play.card == "clip" and play.norm > 1],
    }


def plain_result(outcome: OrderOutcome) -> dict[str, Any]:
    """What the page shows of a run; its form is in order_calls.mjs."""
    run, usual = outcome.run, call_order.usual_run()
    stop = run.stop and {
        "card": run.stop.play.card,
        "step": run.stop.play.step + 1,
        "piece": None if run.stop.play.piece is None else run.stop.play.piece + 1,
        "message": run.stop.message,
    }
    mine, right = call_order.numbers(run), call_order.numbers(usual)
    return {
        "order": run.order.as_dict(),
        "right": outcome.right,
        "findings": [finding.text for finding in outcome.findings],
        "notes": list(outcome.notes),
        "stop": stop,
        "warned": [text.partition(". ")[0] for text in run.warned],
        "numbers": [] if run.stop else [[name, mine[name], right[name]] for name in mine],
        "curves": {} if run.stop else {"yours": _curve(run), "right": _curve(usual)},
    }


def _curve(run: call_order.OrderRun) -> dict[str, Any]:
    """Errors and scales after each step, None for inf and NaN, which JSON doesn't have."""
    finite = [error if math.isfinite(error) else None for error in run.errors]
    return {
        "errors": finite,
        "scales": list(run.scales),
        "skipped": [step + 1 for step in run.skipped],
    }
