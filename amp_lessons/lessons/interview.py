"""What notebooks ask: `predict` before a result, `ask` at the end of a lesson, `quiz`, `practise`,
`drill` and `mock` whenever somebody wants to practise.

Questions, keys and explanations live in the bank (`quiz`); a notebook names them by their ids. In a
notebook each of these draws a widget. Nothing blocks: all cells can be run at once.
"""

from __future__ import annotations

import random
from typing import Any

from amp_lessons.lessons import just_run
from amp_lessons.lessons.widgets.quiz import Prediction, Quiz
from amp_lessons.quiz import bank, generators, log, schedule
from amp_lessons.quiz.bank import BankError
from amp_lessons.quiz.items import Item, OpenQuestion

_hooks: dict[str, Any] = {}
_asked: dict[str, Prediction] = {}


def ask(*ids: str) -> None:
    """Ask these questions, one at a time.

    Args:
        ids: of the bank, such as ``"grad_scaler.what_step_does"``.

    Raises:
        BankError: if there is no such question, with the nearest ids.
    """
    _display(Quiz([_closed(wanted) for wanted in ids]))


def predict(wanted: str) -> None:
    """Ask for a prediction. Its explanation unfolds when the cell below has run, whether you have
    committed one or not. Run again before that, it still has what you committed.

    Args:
        wanted: the prediction's id, such as ``"amp_in_20_minutes.small_pictures"``.

    Raises:
        BankError: if there is no such prediction, with the nearest ids.
    """
    before = _asked.get(wanted)
    widget = before if before and before.committed else Prediction(_closed(wanted))
    _asked[wanted] = widget
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


def practise(wanted: str, number: int = 5, *, seed: int | None = None) -> None:
    """Ask new questions, made for this run of the cell.

    Args:
        wanted: a generator's id, with its topic or without, or the slug of a topic: then its
            generators take turns.
        number: how many.
        seed: the same seed makes the same questions.

    Raises:
        BankError: if there is no such generator, with the nearest.
    """
    chosen = [each for each in generators.GENERATORS.values() if each.topic == wanted]
    if not chosen:
        chosen = [generators.find(wanted)]
    draw = random.Random(seed)
    fresh = generators.Fresh(draw.randrange(10**6))
    order = [chosen[n % len(chosen)] for n in range(number)]
    _display(Quiz([fresh.make(each) for each in order]))


def drill(number: int = 15, *, new: int = schedule.NEW_A_DAY) -> None:
    """Ask what is due today, then some new questions. The same plan as ``amp-lessons drill``.

    Args:
        number: how many questions, at most.
        new: how many of them may be new, counted over the day.
    """
    there, answered = bank.load(), log.read()
    for warning in answered.warnings:
        print(warning)
    made = generators.GENERATORS
    today = schedule.due(answered.entries, there, made, now=log.now(), new=new)
    names = (*today.now, *today.new)[:number]
    if not names:
        print(_nothing_due(today))
        return
    fresh = generators.Fresh(random.randrange(10**6))
    items = [fresh.make(made[each]) if each in made else _closed(each) for each in names]
    _display(Quiz(items, title="Drill", where="drill"))


def mock(minutes: int = 45, *, role: str = "ml", seed: int | None = None) -> None:
    """Start a mock interview, weighted to what you were weak in. The clock starts at once.

    Args:
        minutes: 10 to 90.
        role: ``"ml"``, ``"systems"``, ``"research"`` or ``"performance"``.
        seed: the same seed composes the same interview, as long as the log is the same.

    Raises:
        BankError: for another length or role.
    """
    from amp_lessons.lessons.widgets.mock import MockInterview
    from amp_lessons.quiz import mock as composing

    plan = composing.compose(
        bank.load(),
        log.read().entries,
        minutes=minutes,
        role=role,
        seed=random.randrange(10**6) if seed is None else seed,
        generators=generators.GENERATORS,
    )
    _display(MockInterview(plan))


def _nothing_due(today: schedule.Due) -> str:
    if today.next_day is None:
        return "Nothing is due. Answer some questions first: quiz(5)."
    when = schedule.in_words(today.next_day, log.now().astimezone().date())
    return f"Nothing is due today. The next questions come {when}: {today.next_count}."


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

    just_run.cells.shows(widget, _shell())
    display(widget)
