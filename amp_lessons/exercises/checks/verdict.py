"""What a check can say: five states, and the words that go with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from amp_lessons.core.states import State

__all__ = ["VERDICT", "Finding", "State", "Verdict"]

VERDICT = "application/vnd.amp-lessons.verdict+json"
"""The MIME type under which a notebook stores a verdict for programs, beside the box."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of one check.

    Attributes:
        state: one of the five.
        message: what to tell the learner, one to three sentences of plain text.
        diagnosis: for `State.WRONG`, the name of the misconception, such as ``"bias-forgotten"``.
        seen: lines of evidence, such as ``"next_float(1.0): expected 1.0009765625, got 1.0001"``.
        check_failed: the check could not judge. The state is then `State.ERROR`, and it says
            nothing about the answer.
    """

    state: State
    message: str = ""
    diagnosis: str = ""
    seen: tuple[str, ...] = ()
    check_failed: bool = False

    @property
    def passed(self) -> bool:
        return self.state is State.PASSED


@dataclass(frozen=True)
class Finding:
    """What a judge found: nothing (a pass), or the name of a mistake and what it was seen in.

    Args:
        diagnosis: the slug of a mistake, two of them joined by ``" + "``, or ``""`` for a pass.
        seen: lines of evidence for the learner.
        fields: values for the braces in the sentence.
        scope: the kinds of cases for which the mistake is sure, such as ``"subnormal inputs"``.
        of: how many wrong cases the mistake explains, where it does not explain all; else 0.
    """

    diagnosis: str = ""
    seen: tuple[str, ...] = ()
    fields: Mapping[str, Any] | None = None
    scope: str = ""
    of: int = 0
