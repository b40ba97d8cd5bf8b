"""The states of exercises and lessons, with one symbol and one colour each, wherever they stand.

No state relies on its colour alone: a symbol and a word stand beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """The five outcomes of a check. They are told apart everywhere, also in marks."""

    NOT_ATTEMPTED = "not attempted"
    WRONG = "wrong"
    ERROR = "error"
    PASSED = "passed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Look:
    """How a state is shown.

    Args:
        symbol: one character.
        ascii: the same for a terminal that knows only ASCII.
        terminal: a colour of a terminal, as rich names it.
        edge: a colour for the edge of a box, with a contrast of at least 3:1 on white and black.
    """

    symbol: str
    ascii: str
    terminal: str
    edge: str


GREEN, RED, AMBER, GREY, BLUE = "#2e8b57", "#d9482b", "#b8651b", "#7a7f87", "#4a7fc1"

UNKNOWN = Look("?", "?", "", GREY)
LOOKS: dict[str, Look] = {
    State.PASSED: Look("✔", "+", "green", GREEN),
    State.WRONG: Look("✘", "x", "red", RED),
    State.ERROR: Look("!", "!", "yellow", AMBER),
    State.NOT_ATTEMPTED: Look("○", "-", "dim", GREY),
    State.SKIPPED: Look("↷", "~", "cyan", BLUE),
    # of a lesson
    "done": Look("✔", "+", "green", GREEN),
    "started": Look("◐", "~", "yellow", AMBER),
    "open": Look("○", "-", "dim", GREY),
    # of a hazard in a model
    "raises": Look("✘", "x", "red", RED),
    "wrong numbers": Look("!", "!", "yellow", AMBER),
    "watch": Look("○", "-", "cyan", BLUE),
}
"""How each state looks, by its name."""


def look(state: str) -> Look:
    """How a state is shown; a question mark for one that nobody knows."""
    return LOOKS.get(state, UNKNOWN)
