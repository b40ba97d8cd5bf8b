"""Proof that an exercise can be graded on inputs that nobody knows beforehand.

    python tests/salts.py --topic number_formats --salt s1
    python tests/salts.py next_float clip_step --salt s1 --salt s2

Under a salt each right answer passes, each wrong one earns its own sentence or the general box,
and what the solution gave on other inputs doesn't pass. A probe makes its cases once a process, so
each salt gets a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from amp_lessons.core.catalogue import LESSONS
from amp_lessons.exercises.checks import draws, find_exercise
from amp_lessons.exercises.checks.exercise import COMMON_DIAGNOSES, Exercise
from amp_lessons.exercises.checks.torch_state import usual_torch
from amp_lessons.exercises.checks.verdict import State

CONSTANT: dict[str, str] = {
    "classify_faults": "the answer is ten letters with a word each, about programs in the sheet",
    "read_roofline": "the answer is ten letters with a word each, about reports in the sheet",
}
"""Exercises whose answer is one constant table, with the reason: what is right without a salt is
right under each."""

EXERCISES = {info.name: lesson.slug for lesson in LESSONS for info in lesson.exercises}
Recorded = Mapping[str, Mapping[str, Any]]
"""For each salt the evidence of each exercise's solution, as it stands in a recording."""


# ---- in the process of one salt -----------------------------------------------------------------


def evidence_of(exercise: Exercise, source: str) -> Any:
    """What a program does on the inputs of this process's salt, as a grader receives it."""
    try:
        answer = exercise.public.answer(source)
    except Exception as error:  # a wrong answer that can't even be defined
        return {"error": {"type": type(error).__name__, "message": str(error)}}
    return exercise.evidence_of(*answer)


def record(names: Sequence[str]) -> dict[str, Any]:
    """The evidence of each solution.

    Raises:
        RuntimeError: if a probe can't even make its cases.
    """
    found = {
        name: evidence_of(find_exercise(name), find_exercise(name).answer_key.right[""])
        for name in names
    }
    for name, evidence in found.items():
        if not isinstance(evidence, list):
            raise RuntimeError(f"{name}: the solution gave {evidence}")
    return found


def problems(name: str, recorded: Recorded) -> Iterator[str]:
    """What is wrong with one exercise under this process's salt, a line each.

    Args:
        name: the exercise's.
        recorded: evidence of its solution under other salts; none of it may pass.
    """
    exercise = find_exercise(name)
    for answer, source in exercise.answer_key.right.items():
        verdict = exercise.verdict(_outcomes(exercise, source))
        if not verdict.passed:
            yield (
                f"{name}: the right answer {answer or '(the solution)'} is {verdict.state}: "
                f"{verdict.diagnosis} {verdict.seen[:2] or verdict.message}"
            )
    for mistake, answer, slug, seen in _wrong(exercise):
        if slug != mistake and slug not in COMMON_DIAGNOSES:
            yield f"{name}: {answer} should earn {mistake!r} and gets {slug!r} ({seen})"
    for salt, evidence in recorded.items():
        if name not in CONSTANT and exercise.verdict(evidence[name], foreign=True).passed:
            yield f"{name}: what the solution gave under the salt {salt!r} passes"


def nameless(name: str) -> Iterator[str]:
    """Wrong answers that get the general box under this process's salt, and not their sentence."""
    for mistake, answer, slug, seen in _wrong(find_exercise(name)):
        if slug != mistake and slug in COMMON_DIAGNOSES:
            yield f"{name}: {answer} should earn {mistake!r} and gets {slug!r} ({seen})"


def _wrong(exercise: Exercise) -> Iterator[tuple[str, str, str, Any]]:
    """Each wrong answer's mistake and name; the diagnosis it gets, or its state; what was seen."""
    for mistake in exercise.answer_key.diagnosis.mistakes:
        for answer in mistake.answers:
            verdict = exercise.verdict(_outcomes(exercise, answer.source))
            slug = verdict.diagnosis if verdict.state is State.WRONG else str(verdict.state)
            yield mistake.slug, f"{answer.where} {answer.name}", slug, verdict.seen[:1]


def _outcomes(exercise: Exercise, source: str) -> list[dict[str, Any]]:
    """A program's evidence, case by case and kept: most serve as models as well."""
    diagnosis = exercise.answer_key.diagnosis
    return [diagnosis.outcome(source, n) for n in range(len(diagnosis.probe.all_cases))]


# ---- one process a salt -------------------------------------------------------------------------


def run(names: Sequence[str], salt: str, *options: str) -> subprocess.CompletedProcess[str]:
    """This script under one salt."""
    command = [sys.executable, str(Path(__file__).resolve()), *names, "--salt", salt, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def recordings(names: Sequence[str], salts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """What the solutions give under each of these salts."""
    found = {}
    for salt in salts:
        done = run(names, salt, "--record")
        if done.returncode:
            raise RuntimeError(f"nothing was recorded under the salt {salt!r}: {done.stderr}")
        found[salt] = json.loads(done.stdout)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="exercises, such as clip_step; default all")
    parser.add_argument("--topic", help="all exercises of this topic, such as number_formats")
    parser.add_argument("--salt", action="append", required=True, help="may be given several times")
    parser.add_argument("--record", action="store_true", help="print the evidence of the solutions")
    parser.add_argument("--nameless", action="store_true", help="list what lost its name too")
    chosen = parser.parse_args()
    names = chosen.names or [n for n, topic in EXERCISES.items() if chosen.topic in (None, topic)]
    if not names or not EXERCISES.keys() >= set(names):
        print(f"no such exercises: {chosen.topic or ', '.join(names)}", file=sys.stderr)
        return 2
    if len(chosen.salt) > 1:
        flags = ["--nameless"] if chosen.nameless else []
        codes = []
        for salt in chosen.salt:
            done = run(names, salt, *flags)
            print(done.stdout, done.stderr, sep="", end="", flush=True)
            codes.append(done.returncode)
        return max(codes)
    (salt,) = chosen.salt
    draws.use_salt(salt)
    if chosen.record:
        print(json.dumps(record(names)))
        return 0
    return report(names, salt, chosen.nameless)


def report(names: Sequence[str], salt: str, all_nameless: bool) -> int:
    """Print what is wrong under this process's salt; 1 if something is."""
    recorded = recordings(names, ["", f"{salt}/other"])
    count = lost = 0
    for name in names:
        began = time.process_time()
        with usual_torch():
            found, without_name = list(problems(name, recorded)), list(nameless(name))
        count, lost = count + len(found), lost + len(without_name)
        for line in [*found, *(f"nameless: {line}" for line in without_name if all_nameless)]:
            print(f"{salt}: {line}", flush=True)
        if time.process_time() - began > 20:
            print(f"{salt}: {name} took {time.process_time() - began:.0f} s", flush=True)
    print(f"{salt}: {len(names)} exercises, {count} problems, {lost} answers without their name")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
