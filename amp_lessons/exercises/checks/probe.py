"""The half of a check that runs next to the learner's code: it makes calls and notes what happens.

A probe knows the calls and nothing of the right answer, so a process that holds probes alone has
nothing to give away. What it notes is plain data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from amp_lessons.core.interrupts import time_limit
from amp_lessons.exercises.checks.closed import Closed, without
from amp_lessons.exercises.checks.evidence import describe_error, observe
from amp_lessons.exercises.checks.op_watch import watched

SECONDS = 120.0
"""How long all calls of one check may take, in seconds, before they are stopped."""


@dataclass(frozen=True)
class Case:
    """One call.

    Args:
        args: what the function is called with; each call gets a copy.
        label: the call in words, such as ``"6 batches, the third overflows"``; by default it is
            written as Python.
        kind: what such calls have in common, in words that fit behind "for", such as
            ``"subnormal inputs"``. A check that is sure of one kind alone says so.
    """

    args: tuple[Any, ...]
    label: str = ""
    kind: str = ""


class Hidden:
    """What an answer is given to call, and must not look into. The grader keeps such arguments of a
    case in another process, and gives the answer something to call in their place."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Takes numbers, and gives what can be pickled; raises ValueError for others."""
        raise NotImplementedError

    def forget(self) -> None:
        """Drop what this process keeps of its results."""


def _itself(answer: Any) -> Any:
    return answer


@dataclass(frozen=True)
class Probe:
    """What a check does with an answer.

    Args:
        cases: makes the calls; the same ones each time, from fixed seeds, edge cases among them.
            A mistake is named only if it shows in two of them, so no case should stand alone.
        play: takes what the learner passed to `check` and gives the function that is called on
            each case. It is for an answer that is used and not just called, such as a class or a
            step of a training loop; what it returns is what there was to see.
        watch: whether to list the operations that ran too, as `op_watch.watched` does.
        own: what already does the task, and so is closed while an answer runs: modules or
            packages, such as ``"amp_lessons.amp.memory.training"``, or parts of a module, such as
            ``"amp_lessons.amp.numbers.formats:Format.next_up"``. Neither `cases` nor `play` may
            need it.
        lent: what the sheet's other exercises close, and this one's statement offers.
        closed: all that is closed: `own`, and what the sheet's other exercises close in the course,
            so that an answer that passes in a notebook also passes in the grader.
    """

    cases: Callable[[], Sequence[Case]]
    play: Callable[..., Any] = _itself
    watch: bool = False
    own: tuple[str, ...] = ()
    lent: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()

    @cached_property
    def all_cases(self) -> tuple[Case, ...]:
        return tuple(self.cases())

    def __call__(self, *answer: Any) -> list[dict[str, Any]]:
        """What happens in each case, as `evidence.observe` describes it.

        Raises:
            TooSlow: if the calls take more than `SECONDS`.
        """
        with time_limit(SECONDS):
            return [self.see(number, *answer) for number in range(len(self.all_cases))]

    def see(self, number: int, *answer: Any) -> dict[str, Any]:
        """What happens in one case; ``"used"`` is what the answer called of what is closed."""
        look = watched(observe) if self.watch else observe

        def seen() -> dict[str, Any]:
            try:
                return look(self.play(*answer), *self.all_cases[number].args)
            except Closed as error:
                return {"error": describe_error(error)}

        found, used = without(self.closed or self.own, seen)
        return found | {"used": used[0]} if used else found
