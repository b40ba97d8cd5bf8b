"""Check exercises: is everything there, and does every answer get the verdict that it should?

    python tools/check_exercises.py                 # all of them
    python tools/check_exercises.py clip_step       # some, with a table of their answers: -v

Each problem is one line: file, line, what is wrong, and its cure. The tests run the same checks.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from functools import cache

import prose

from amp_lessons.core import catalogue
from amp_lessons.core.catalogue import LESSONS
from amp_lessons.exercises import checks
from amp_lessons.exercises.checks.authoring.exercise_parser import ExerciseFileError
from amp_lessons.exercises.checks.diagnosis import ENOUGH, Diagnosis, Mistake, WrongAnswer, _Answers
from amp_lessons.exercises.checks.exercise import COMMON_DIAGNOSES, Exercise
from amp_lessons.exercises.checks.serialize.compare import same_outcome
from amp_lessons.exercises.checks.torch_state import usual_torch
from amp_lessons.exercises.checks.verdict import State

MAX_LINES = 350
FEWEST_WRONG = 3
EXERCISES = [info.name for lesson in LESSONS for info in lesson.exercises]

Check = Callable[[Exercise], Iterator[str]]


@cache
def find_exercise(name: str) -> Exercise:
    """The exercise with this name, also one that the catalogue doesn't list yet.

    Raises:
        UnknownExercise: if there is neither.
    """
    unlisted = [] if name in EXERCISES else sorted(catalogue.EXERCISES.glob(f"*/{name}.py"))
    return Exercise(unlisted[0]) if unlisted else checks.find_exercise(name)


# ---- is everything there? -----------------------------------------------------------------------


def parts(exercise: Exercise) -> Iterator[str]:
    """Statement, hints, sentences and answers."""
    file, secret = f"{exercise.path.parent.name}/{exercise.path.name}", exercise.answer_key
    if len(exercise.hints) < 2:
        yield f"{file}: has {len(exercise.hints)} hints; write at least two, from gentle to clear."
    for hint in exercise.hints:
        if len(hint) > 40 and hint in secret.solution:
            yield f"{file}: the hint {hint[:40]!r}… is a part of the solution; say it in words."
    if not secret.passed:
        yield f"{file}: the cell 'passed' is empty; say in a sentence what a pass has taught."
    if len(secret.right) < 2:
        yield f"{file}: has no other right answer; write one in another way, '# %% right NAME'."
    mistakes = secret.diagnosis.mistakes
    wrong = [answer for mistake in mistakes for answer in mistake.answers]
    if len(wrong) < FEWEST_WRONG:
        yield f"{file}: has {len(wrong)} wrong answers; write at least {FEWEST_WRONG}."
    for mistake in mistakes:
        if not mistake.sentence and mistake.slug not in COMMON_DIAGNOSES:
            yield f"{mistake.where}: {mistake.slug!r} has no sentence; write one as a comment."
        if not mistake.answers:
            yield f"{mistake.where}: no wrong answer earns {mistake.slug!r}; write one."
    slugs = [mistake.slug for mistake in mistakes]
    for slug in {slug for slug in slugs if slugs.count(slug) > 1}:
        yield f"{file}: {slug!r} stands there twice; put the answers under one heading."


def listed(exercise: Exercise) -> Iterator[str]:
    """The catalogue has it."""
    topic, name = exercise.path.parent.name, exercise.name
    if name not in EXERCISES:
        yield (
            f"{topic}/{name}.py: not in the course yet; add {name!r} to the exercises of {topic} "
            "in amp_lessons/core/catalogue.py."
        )


def words(exercise: Exercise) -> Iterator[str]:
    """What people read is plain."""
    yield from prose.faults(exercise.path)


def size(exercise: Exercise) -> Iterator[str]:
    """No file is long, and none is wide."""
    file = f"{exercise.path.parent.name}/{exercise.path.name}"
    text = exercise.path.read_text(encoding="utf-8")
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if "TODO" in line:
            yield f"{file}:{number}: still to do: {line.strip('# ')}"
    if len(lines) > MAX_LINES:
        yield f"{file}: has {len(lines)} lines, over {MAX_LINES}; write programs as edits."


# ---- do the answers get their verdicts? ---------------------------------------------------------


@cache
def entries(diagnosis_of: str, source: str) -> list[dict]:
    """What a program of ours does, case by case."""
    diagnosis = find_exercise(diagnosis_of).answer_key.diagnosis
    return [diagnosis.outcome(source, n) for n in range(len(diagnosis.probe.all_cases))]


def right(exercise: Exercise) -> Iterator[str]:
    """Every right answer passes, and the stub is not attempted."""
    file = f"{exercise.path.parent.name}/{exercise.path.name}"
    for name, source in exercise.answer_key.right.items():
        verdict = exercise.verdict(entries(exercise.name, source))
        if verdict.state is not State.PASSED:
            yield (
                f"{file}: the right answer {name or '(the solution)'} does not pass but is "
                f"{verdict.state}: {verdict.diagnosis} {verdict.message} {verdict.seen}. Correct "
                "it, or the check."
            )


def wrong(exercise: Exercise) -> Iterator[str]:
    """Every wrong answer earns the sentence above it."""
    for mistake in exercise.answer_key.diagnosis.mistakes:
        for answer in mistake.answers:
            seen = entries(exercise.name, answer.source)
            verdict = exercise.verdict(seen)
            if (verdict.state, verdict.diagnosis) == (State.WRONG, mistake.slug):
                continue
            if verdict.state is State.PASSED:
                yield (
                    f"{answer.where}: {answer.name} passes; it changes nothing that a case shows. "
                    "Add a case that tells it apart, or remove it."
                )
            else:
                few = failing(exercise.answer_key.diagnosis, seen)
                cure = "Add another case like it" if len(few) < ENOUGH else "Tell the two apart"
                yield (
                    f"{answer.where}: {answer.name} should earn {mistake.slug!r} and gets "
                    f"{verdict.diagnosis or verdict.state!r} (wrong in {len(few)} cases: "
                    f"{verdict.seen[:1]}). {cure}."
                )


def failing(diagnosis: Diagnosis, seen: list[dict]) -> list[int]:
    """The numbers of the cases in which an answer differs from the right one."""
    same = diagnosis.judge.same
    return [
        n
        for n, (one, other) in enumerate(zip(diagnosis.expected, seen, strict=True))
        if not same_outcome(one, other, same)
    ]


def ambiguous(exercise: Exercise) -> Iterator[str]:
    """No program earns two sentences."""
    diagnosis = exercise.answer_key.diagnosis
    models = list(diagnosis.models())
    for place, (mistake, answer) in enumerate(models):
        seen = _seen(diagnosis, answer)
        for other, model in models[:place]:
            if other.slug != mistake.slug and seen.explains_all(model.source):
                yield (
                    f"{answer.where}: {answer.name} does the same as {model.name} at "
                    f"{model.where}, so a learner gets {other.slug!r} for both. Add a case that "
                    "tells them apart, or put them under one sentence."
                )


def _seen(diagnosis: Diagnosis, answer: WrongAnswer) -> _Answers:
    """An answer's entries, as the diagnosis looks at a learner's."""
    found = entries(diagnosis.name, answer.source)
    return _Answers(diagnosis, found, list(range(len(found))))


def independent(exercise: Exercise) -> Iterator[str]:
    """Each sentence is earned by a wrong answer that isn't made from the edit that models it."""
    diagnosis = exercise.answer_key.diagnosis
    by_model = {mistake.slug for mistake, _ in diagnosis.models()}
    for mistake in diagnosis.mistakes:
        if mistake.slug in by_model and not any(_earned_alone(diagnosis, mistake)):
            yield (
                f"{mistake.where}: {mistake.slug!r} is earned only by the edits that model it. "
                "Write a wrong answer in another way, that shows the same mistake."
            )


def _earned_alone(diagnosis: Diagnosis, mistake: Mistake) -> Iterator[bool]:
    for answer in mistake.answers:
        seen = _seen(diagnosis, answer)
        others = (a for m, a in diagnosis.models() if m is mistake and _text(a) != _text(answer))
        yield any(seen.explains_all(model.source) for model in others)


def _text(answer: WrongAnswer) -> str:
    """An edit's text, the same for whichever right answer it is made of."""
    name = answer.name
    return name.partition(", ")[2].removesuffix(")") if name.startswith("of(") else name


def two_at_once(exercise: Exercise) -> Iterator[str]:
    """Every program with two mistakes can be run; none of them hangs."""
    diagnosis = exercise.answer_key.diagnosis
    file = f"{exercise.path.parent.name}/{exercise.path.name}"
    for slugs, source in diagnosis.pairs if diagnosis.judge.pairs else ():
        began = time.process_time()
        diagnosis.diagnose(entries(exercise.name, source))
        if time.process_time() - began > 5:
            yield f"{file}: {' and '.join(sorted(slugs))} together take over 5 s; say pairs=False."


CHECKS: tuple[Check, ...] = (parts, size, right, wrong, ambiguous, independent)


def problems(name: str, asked: tuple[Check, ...] = CHECKS) -> list[str]:
    """All that is wrong with one exercise; a file that cannot be read is one problem."""
    exercise = find_exercise(name)
    found: list[str] = []
    with usual_torch():
        for check in asked:
            try:
                found += check(exercise)
            except ExerciseFileError as error:
                return [*found, str(error)]
    return found


def table(name: str) -> Iterator[str]:
    """Each wrong answer with what it gets."""
    exercise = find_exercise(name)
    for mistake in exercise.answer_key.diagnosis.mistakes:
        for answer in mistake.answers:
            verdict = exercise.verdict(entries(name, answer.source))
            got = verdict.diagnosis or verdict.state
            mark = "ok" if got == mistake.slug else "NO"
            yield f"  {mark}  {mistake.slug}: {answer.name[:60]} -> {got}"
            yield from (f"         {line}" for line in verdict.seen[:2])


def unknown(name: str) -> str:
    """One line for a name that neither the catalogue nor a file has."""
    close = get_close_matches(name, EXERCISES, n=1)
    cure = f"did you mean {close[0]}?" if close else "begin one with tools/new_exercise.py"
    return f"no exercise is called {name!r}; {cure}"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="exercises, such as clip_step; default all")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every wrong answer")
    parser.add_argument("--pairs", action="store_true", help="also run all mistakes in pairs")
    chosen = parser.parse_args(arguments)
    for name in chosen.names:
        if name not in EXERCISES and not list(catalogue.EXERCISES.glob(f"*/{name}.py")):
            print(unknown(name), file=sys.stderr)
            return 2
    asked = (listed, words, *CHECKS, *([two_at_once] if chosen.pairs else []))
    count = 0
    for name in chosen.names or EXERCISES:
        began = time.process_time()
        found = problems(name, asked)
        count += len(found)
        if chosen.verbose:
            print(f"{name}: {time.process_time() - began:.1f} s")
            with suppress(ExerciseFileError):  # a file that can't be read is among the problems
                print("\n".join(table(name)))
        print("\n".join(found), end="\n" if found else "")
    print(f"{len(chosen.names or EXERCISES)} exercises, {count} problems")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
