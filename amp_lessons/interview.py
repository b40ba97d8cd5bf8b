"""What notebooks ask: `predict` before a result, `ask` at the end of a lesson, and the drill.

Questions, keys and explanations live in the bank (`quiz`); a notebook names them by their ids. In a
notebook each of these draws a widget. Nothing blocks: all cells can be run at once.
"""

from __future__ import annotations

import random
from typing import Any

from amp_lessons.quiz import bank
from amp_lessons.quiz.bank import BankError
from amp_lessons.quiz.items import Item, OpenQuestion
from amp_lessons.widgets.quiz import Prediction, Quiz

_hooks: dict[str, Any] = {}


def ask(*ids: str) -> None:
    """Ask these questions, one at a time.

    Args:
        ids: of the bank, such as ``"grad_scaler.what_step_does"``.

    Raises:
        BankError: if there is no such question, with the nearest ids.
    """
    _display(Quiz([_closed(wanted) for wanted in ids]))


def predict(wanted: str) -> None:
    """Ask for a prediction. Its explanation unfolds when you have committed one and the cell below
    has run; "Show me" unfolds it at once.

    Args:
        wanted: the prediction's id, such as ``"amp_in_20_minutes.small_pictures"``.

    Raises:
        BankError: if there is no such prediction, with the nearest ids.
    """
    widget = Prediction(_closed(wanted))
    _after_the_next_cell(wanted, widget)
    _display(widget)


def quiz(
    number: int = 5,
    *,
    lesson: str | None = None,
    topic: str | None = None,
    kind: str | None = None,
    level: int | None = None,
    seed: int | None = None,
) -> None:
    """Ask some questions of the bank, drawn at random.

    Args:
        number: how many, at most.
        lesson: such as ``"06"`` or ``"grad_scaler"``.
        topic: a topic's slug.
        kind: one of the seven kinds, such as ``"bug"``.
        level: 1, 2 or 3.
        seed: the same seed draws the same questions.

    Raises:
        BankError: for an unknown topic, kind or level, with the nearest names.
    """
    found = bank.load().choose(lesson=lesson, topic=topic, kind=kind, level=level)
    draw = random.Random(seed)
    _display(Quiz(draw.sample(found, min(number, len(found)))))


def _closed(wanted: str) -> Item:
    item = bank.load().find(wanted)
    if isinstance(item, OpenQuestion):
        raise BankError(f"{wanted} is an open question: it's asked by `amp-lessons mock`")
    return item


def _after_the_next_cell(wanted: str, widget: Prediction) -> None:
    """Tell the widget when the next cell has run without an error."""
    shell = _shell()
    if shell is None:
        return
    finished: list[Any] = []

    def notice(result: Any) -> None:
        finished.append(result)
        if len(finished) == 1 or not result.success:  # the first is the cell that asks
            return
        widget.result_there = True
        shell.events.unregister("post_run_cell", notice)
        _hooks.pop(wanted, None)

    if wanted in _hooks:
        shell.events.unregister("post_run_cell", _hooks.pop(wanted))
    _hooks[wanted] = notice
    shell.events.register("post_run_cell", notice)


def _shell() -> Any:
    try:
        from IPython import get_ipython
    except ImportError:
        return None
    return get_ipython()


def _display(widget: Quiz) -> None:
    from IPython.display import display

    display(widget)
