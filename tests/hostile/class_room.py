"""A class that hands in the corpus, with honest learners between, and how it is graded."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from amp_lessons.classroom import grading
from amp_lessons.classroom.grading import Graded, GradingOptions, Limits, scratch
from amp_lessons.classroom.grading.sandbox import rootfs
from amp_lessons.exercises import checks
from hostile.machine import TOKEN, Around, everything_in, machine, no_process_left
from hostile.sheets import LESSON, NAMES, OTHER, Sheet, Submission, notebook

BESIDE, APART = "~", 3
"""Added to a learner's name, it is an honest neighbour's: the next in the list. Every third learner
has one. Six notebooks are graded at the same time, so one or two of those are a neighbour's."""

LIMITS = Limits(cell=3.0, total=18.0, memory=512, processes=64)
SLOWER = replace(LIMITS, cell=5.0, total=90.0)
"""Where each notebook gets a Python of its own, which takes seconds to start."""
_HIDDEN = {*range(32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A)}


def evidence_from_home() -> dict[str, Any]:
    """What the checks of two sheets see of the right answers, with no salt."""
    found: dict[str, Any] = {}
    for lesson in (LESSON, OTHER):
        for info in lesson.exercises:
            exercise = checks.find_exercise(info.name)
            found[info.name] = exercise.evidence_of(*exercise.public.answer(exercise.solved()))
    return found


def neighbours(submissions: Iterable[Submission]) -> dict[str, str]:
    """By learner, the honest neighbour who is graded at about the same time."""
    names = sorted(submission.name for submission in submissions)
    return {name: names[i - i % APART] + BESIDE for i, name in enumerate(names)}


def hand_in(folder: Path, submissions: Sequence[Submission], around: Around) -> Path:
    """Put the submissions into a class's folder, and neighbours who have all right."""
    place, right = folder / "class", Sheet().to_bytes()
    (place / "neighbour").mkdir(parents=True)
    Path(around.neighbour).write_bytes(right)
    for name in set(neighbours(submissions).values()):
        (place / name).mkdir()
        notebook(place / name, right)
    for submission in submissions:
        (place / submission.name).mkdir()
        submission.put(place / submission.name, around)
    return place


Results = dict[str, list[Graded]]
"""By learner."""


@contextmanager
def graded(
    folder: Path,
    submissions: Sequence[Submission],
    evidence: Mapping[str, Any],
    options: GradingOptions,
) -> Iterator[tuple[Results, list[str]]]:
    """What a class that hands these in gets, and what the attacks reached outside of it.

    The machine to attack and the class's folder are there for as long as the context lasts.
    """
    reached: list[str] = []
    with machine(folder, evidence, reached) as around:
        os.environ[TOKEN] = around.secret
        try:
            place = hand_in(folder, submissions, around)
            ours = (rootfs.PACKAGE / name for name in ("exercises/checks", "classroom/grading"))
            watched = place, folder / "home", *ours
            before = everything_in(*watched)
            found: Results = {}
            with no_process_left(reached):
                for each in grading.grade_all([place], options):
                    found.setdefault(each.learner, []).append(each)
            changed = before.items() ^ everything_in(*watched).items()
            reached += [f"{path} was changed" for path in sorted({path for path, _ in changed})]
            if around.secret in json.dumps([g.to_json() for some in found.values() for g in some]):
                reached.append("a secret of the machine came out")
            yield found, reached
        finally:
            del os.environ[TOKEN]
            scratch.remove(folder / "class")


def compare(submission: Submission, neighbour: str, found: Results) -> tuple[str, list[str]]:
    """How a submission came out in a word, and the faults in that, its neighbour's too."""
    results, beside = found.get(submission.name, []), found.get(neighbour, [])
    return _word(results), [*_neighbour(beside), *_own(submission, results)]


def _word(results: Sequence[Graded]) -> str:
    if not results:
        return "lost"
    points = f"{max(g.points for g in results)}/{max(g.of for g in results)}"
    return points if any(g.marks for g in results) else "refused"


def _neighbour(results: Sequence[Graded]) -> Iterable[str]:
    if len(results) != 1:
        yield f"the neighbour has {len(results)} results"
    for graded in results:
        if (graded.points, graded.problems, graded.notes) != (LESSON.points, (), ()):
            yield f"the neighbour got {graded.points} points, {graded.problems} {graded.notes}"


def _own(submission: Submission, results: Sequence[Graded]) -> Iterable[str]:
    for text in (text for graded in results for text in _texts(graded)):
        if _HIDDEN & set(map(ord, text)):
            yield f"tells in hidden characters: {text[:100]!r}"
    outcome = submission.outcome
    if (outcome.results and len(results) != outcome.results) or not results:
        yield f"{len(results)} results, expected {outcome.results or 'some'}"
    if not results:
        return
    graded = max(results, key=lambda g: (len(g.marks), g.points))
    problems = " | ".join(graded.problems)
    if outcome.refused or (not outcome.states and not graded.marks):
        if graded.marks or outcome.refused not in problems or not problems:
            yield f"expected to be refused with {outcome.refused!r}: {graded.points} {problems}"
        return
    names = NAMES if submission.lesson is LESSON else [e.name for e in submission.lesson.exercises]
    marks = {mark.exercise: mark for mark in graded.marks}
    if sorted(marks) != sorted(names):
        yield f"has marks for {sorted(marks)} {problems}"
        return
    for name, mark in marks.items():
        wanted = outcome.states.get(name, "passed").split("|")
        state = str(mark.verdict.state)
        if state not in wanted:
            yield f"{name}: {state}, expected {' or '.join(wanted)}: {mark.message[:200]}"
        if outcome.says.get(name, "") not in mark.message:
            yield f"{name} says {mark.message[:200]!r}, not {outcome.says[name]!r}"
    message = " | ".join([*graded.problems, *graded.notes, *(m.message for m in graded.marks)])
    if re.search(r"it won (?!nothing|\" \+)", message):
        yield f"it won something: {message[:300]}"
    for words in outcome.problems:
        if not any(either in problems for either in words.split("|")):
            yield f"no problem says {words!r}: {problems[:300]!r}"
    if not outcome.problems and not outcome.other_problems and problems:
        yield f"has problems: {problems[:300]}"
    for words in outcome.notes:
        if not any(words in note for note in graded.notes):
            yield f"no note says {words!r}: {graded.notes}"
    if (output := sum(map(len, _texts(graded)))) > 30_000:
        yield f"tells {output:,} characters"


def _texts(graded: Graded) -> list[str]:
    """What a report shows on one line each."""
    of_all = [graded.name, graded.learner, *graded.problems, *graded.notes]
    return [*of_all, *(mark.message for mark in graded.marks)]
