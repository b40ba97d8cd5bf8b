"""The calls of a training step in any order: run them with a real GradScaler, see what breaks.

`cards` has the calls and their arrangement, `playing` runs an arrangement on a small network, and
`naming` says from what was seen in the run which mistake was made. The widget `OrderTheCalls` shows
it.
"""

from amp_lessons.lessons.call_order.cards import (
    CARDS,
    USUAL,
    Card,
    Order,
    OrderError,
    mixed_order,
    read_order,
)
from amp_lessons.lessons.call_order.naming import (
    OrderMistake,
    OrderOutcome,
    numbers,
    run_order,
    usual_run,
)
from amp_lessons.lessons.call_order.playing import PIECES, STEPS, OrderRun

__all__ = [
    "CARDS",
    "PIECES",
    "STEPS",
    "USUAL",
    "Card",
    "Order",
    "OrderError",
    "OrderMistake",
    "OrderOutcome",
    "OrderRun",
    "mixed_order",
    "numbers",
    "read_order",
    "run_order",
    "usual_run",
]
