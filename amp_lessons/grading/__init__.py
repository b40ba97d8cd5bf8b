"""Grading other people's notebooks: each in a process of its own, judged in this one.

`notebook` reads and repairs a file, `runner` executes it in a child process, `watch` starts and
stops that child, `report` presents the marks. This module joins them: evidence comes in from the
child as plain data, and the verdict is given here, where no learner's code has run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import TYPE_CHECKING, Any

from amp_lessons.course import ExerciseInfo
from amp_lessons.grading import notebook, watch
from amp_lessons.grading.notebook import Submission
from amp_lessons.grading.report import Graded, Mark
from amp_lessons.grading.watch import Limits, Run
from amp_lessons.ipynb import NotebookError
from amp_lessons.terminal import line

if TYPE_CHECKING:
    from amp_lessons.checks.verdict import Verdict

__all__ = ["Graded", "Limits", "Mark", "grade", "grade_all"]


def grade_all(
    paths: Sequence[Path], limits: Limits | None = None, jobs: int = 1
) -> Iterator[Graded]:
    """Grade notebooks one after the other, or ``jobs`` at a time.

    Each is yielded as soon as it is done, so a slow one does not hold back those that finish
    before it. With one job that is the order given. A notebook that cannot be graded says so in
    its `Graded` and never stops the others.
    """
    stop = Event()
    done: SimpleQueue[Future[Graded]] = SimpleQueue()
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        try:
            for path in paths:
                pool.submit(grade, path, limits or Limits(), stop).add_done_callback(done.put)
            for _ in paths:
                yield done.get().result()
        finally:  # after Ctrl-C: end the children, do not wait for the rest
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)


def grade(path: Path, limits: Limits | None = None, stop: Event | None = None) -> Graded:
    """Grade one notebook. What goes wrong with it is a problem of this notebook and no other.

    Raises:
        Stopped: if ``stop`` was set.
    """
    try:
        submission = notebook.read(path)
    except NotebookError as error:
        return Graded(path, problems=(f"this file {error}",))
    except Exception as error:
        return Graded(path, problems=(f"it could not be read: {_in_one_line(error)}",))
    try:
        return _grade(path, submission, limits or Limits(), stop or Event())
    except watch.Stopped:
        raise
    except OSError as error:
        reason = f"it could not be run: {error.strerror or error}"
    except Exception as error:
        reason = f"it could not be graded: {_in_one_line(error)}"
    return Graded(path, submission.lesson.id, problems=(*submission.problems, reason))


def _in_one_line(error: Exception) -> str:
    from amp_lessons.checks.evidence import describe_error

    described = describe_error(error)
    return line(f"{described['type']}: {described['message']}").rstrip(": ")


def _grade(path: Path, submission: Submission, limits: Limits, stop: Event) -> Graded:
    run = watch.run(submission, limits, stop)
    marks = tuple(_mark(info, submission, run) for info in submission.lesson.exercises)
    return Graded(
        path,
        lesson=submission.lesson.id,
        marks=marks,
        problems=(*submission.problems, *run.problems, *_unjudged(marks)),
        notes=(*submission.notes, *run.notes),
    )


def _mark(info: ExerciseInfo, submission: Submission, run: Run) -> Mark:
    from amp_lessons.checks import find
    from amp_lessons.checks.verdict import State, Verdict

    exercise = find(info.name)
    stopped = _first(run.stopped, submission.steps_of(info.name))
    if stopped:
        verdict = Verdict(State.ERROR, f"{stopped}.")
    elif info.name in run.evidence:
        verdict = exercise.verdict(run.evidence[info.name], foreign=True)
    else:
        verdict = _without_evidence(submission.steps_of(info.name), run)
    points = info.points if verdict.passed else 0
    return Mark(info.name, verdict, points, info.points)


def _unjudged(marks: Sequence[Mark]) -> list[str]:
    """A line for each check that could not judge what was reported: a person has to."""
    return [f"{m.exercise}: {m.verdict.message}" for m in marks if m.verdict.check_failed]


def _without_evidence(steps: Sequence[int], run: Run) -> Verdict:
    """Why a check did not report: the learner's own exception, if there was one."""
    from amp_lessons.checks.diagnosis import error_verdict
    from amp_lessons.checks.verdict import State, Verdict

    error = _first(run.errors, steps)
    if error is None:
        reason = run.unreached or "the check did not report"
        return Verdict(State.ERROR, f"Its check has no result: {reason}.")
    if error.get("type") == "NotImplementedError":
        return Verdict(State.NOT_ATTEMPTED, "Your answer is still the stub.")
    return error_verdict(error)


def _first(found: Mapping[int, Any], steps: Sequence[int]) -> Any:
    """The entry of the first of these steps that has one."""
    return next((found[step] for step in steps if step in found), None)
