"""What a learner's file says: for each exercise, the state of the latest check and its diagnosis.

A notebook says it in the boxes that it stores (`checks.display.as_data`), and a progress file in
its entries. All of it is the learner's claim: it is cut to size, and anything of another type than
expected is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from amp_lessons.core import ipynb, progress
from amp_lessons.core.catalogue import LESSONS
from amp_lessons.core.progress import ExerciseRecord
from amp_lessons.core.states import State
from amp_lessons.core.terminal import line
from amp_lessons.exercises.checks.verdict import VERDICT

LONGEST = 400
"""Characters of a message or a diagnosis."""
STATES = frozenset(map(str, State))
_LESSON = {info.name: lesson.id for lesson in LESSONS for info in lesson.exercises}


@dataclass(frozen=True)
class Claim:
    """What a learner's files say about one exercise.

    Attributes:
        state: one of the five, of the latest check; "passed" if the exercise ever passed.
        when: of the latest check as far as it is known, in seconds since 1970.
        diagnosis: for a wrong answer, the names of the mistakes, joined by ``" + "``.
        message: what the box said.
        gave_up: whether the solution was opened without a pass.
        checks: how many checks there were, or 0 if nothing tells.
        hints: the highest hint that was opened.
    """

    exercise: str
    state: str
    when: float
    diagnosis: str = ""
    message: str = ""
    gave_up: bool = False
    checks: int = 0
    hints: int = 0

    @property
    def fails(self) -> bool:
        return self.state in (State.WRONG, State.ERROR)


@dataclass(frozen=True)
class Read:
    """What one file says.

    Attributes:
        claims: in the order of the file.
        lessons: the ids of the lessons whose sheet it is.
    """

    claims: tuple[Claim, ...] = ()
    lessons: frozenset[str] = frozenset()


def read_notebook(content: bytes, when: float, lesson: str = "") -> Read:
    """The verdicts in a saved notebook, by its stored outputs.

    Args:
        content: the file.
        when: it was last changed.
        lesson: whose sheet it is by its name, if the name tells.

    Raises:
        NotebookError: if it is no notebook.
    """
    named = frozenset([lesson] if lesson else [])
    whole = content.lstrip()[:1] == b"{" and content.rstrip()[-1:] == b"}"
    if whole and VERDICT.encode() not in content and (named or b'"grade_id"' not in content):
        return Read(lessons=named)  # nothing was checked; most files of a workspace end here
    claims: dict[str, Claim] = {}
    lessons = set(named)
    for cell in ipynb.parse(content)["cells"]:
        if lesson_id := _LESSON.get(ipynb.grade_id(cell)):
            lessons.add(lesson_id)
        for verdict in _verdicts(cell):
            if claim := _from_verdict(verdict, when):
                claims[claim.exercise] = claim
    lessons |= {_LESSON[name] for name in claims}
    return Read(tuple(claims.values()), frozenset(lessons))


def _verdicts(cell: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        data = output.get("data") if isinstance(output, dict) else None
        verdict = data.get(VERDICT) if isinstance(data, dict) else None
        if isinstance(verdict, dict):
            yield verdict


def _from_verdict(verdict: Mapping[str, Any], when: float) -> Claim | None:
    name, state, diagnosis, message = (
        _text(verdict.get(key)) for key in ("exercise", "state", "diagnosis", "message")
    )
    known = name in _LESSON and state in STATES
    return Claim(name, state, when, diagnosis, message) if known else None


def read_progress(content: bytes, when: float) -> Read:
    """The entries of a progress file, with the times and diagnoses that a hand-out keeps.

    Raises:
        ProgressError: if it is no progress file.
    """
    claims = []
    for name, entry in progress.parse(content, "this").entries.items():
        used = entry.checks or entry.hints or entry.passed or entry.gave_up_at
        if name in _LESSON and used:
            claims.append(_from_entry(name, entry, when))
    lessons = frozenset(_LESSON[claim.exercise] for claim in claims)
    return Read(tuple(claims), lessons)


def _from_entry(exercise: str, entry: ExerciseRecord, when: float) -> Claim:
    state = "passed" if entry.passed else entry.state
    return Claim(
        exercise,
        state if state in STATES else str(State.NOT_ATTEMPTED),
        min(when, _seconds(entry.extra.get("checked_at"), when)),
        _text(entry.extra.get("diagnosis")) if state == "wrong" else "",
        gave_up=entry.gave_up_at is not None,
        checks=min(max(entry.checks, 0), 9999),
        hints=min(max(entry.hints, 0), 99),
    )


def _seconds(moment: object, otherwise: float) -> float:
    try:
        return datetime.fromisoformat(moment).timestamp() if isinstance(moment, str) else otherwise
    except (ValueError, OverflowError, OSError):
        return otherwise


def _text(value: object) -> str:
    """A text of the learner's as one short line that can be printed."""
    if not isinstance(value, str):
        return ""
    text = line(value[: 4 * LONGEST])
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def joined_reads(reads: Iterable[Read]) -> Read:
    """What several files say, as if it stood in one."""
    claims: dict[str, list[Claim]] = {}
    lessons: frozenset[str] = frozenset()
    for read in reads:
        lessons |= read.lessons
        for claim in read.claims:
            claims.setdefault(claim.exercise, []).append(claim)
    return Read(tuple(map(joined, claims.values())), lessons)


def joined(claims: list[Claim]) -> Claim:
    """One claim from all files of a learner about an exercise: the newest, and a pass stays one."""
    newest = max(claims, key=lambda claim: claim.when)
    passed = any(claim.state == "passed" for claim in claims)
    same = [claim for claim in claims if claim.diagnosis and newest.state == claim.state == "wrong"]
    told = max(same, key=lambda claim: (claim.when, claim.message != ""), default=newest)
    with_words = [c for c in same if c.message and c.diagnosis == told.diagnosis] or [told]
    return replace(
        newest,
        state="passed" if passed else newest.state,
        diagnosis="" if passed else told.diagnosis,
        message="" if passed else with_words[0].message,
        gave_up=any(claim.gave_up for claim in claims),
        checks=max(claim.checks for claim in claims),
        hints=max(claim.hints for claim in claims),
    )
