"""Grading a batch of notebooks: each runs in a process of its own, and is judged in another.

`collect` finds what was handed in, `notebook` reads and repairs a file, `launch` starts a process,
`watch` follows it, `judging` asks for verdicts. Whatever happens to one submission becomes that
submission's result.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Lock
from typing import TYPE_CHECKING, Any

from amp_lessons import __version__
from amp_lessons.classroom.grading import launch, watch
from amp_lessons.classroom.grading.collect import HandedIn
from amp_lessons.classroom.grading.judging import TO_JUDGE, Judges
from amp_lessons.classroom.grading.kept import Results, ResultsError
from amp_lessons.classroom.grading.launch import SandboxError, Starter
from amp_lessons.classroom.grading.marks import Graded, Mark
from amp_lessons.classroom.grading.notebook import Submission
from amp_lessons.classroom.grading.reading import NotebookReader
from amp_lessons.classroom.grading.sandbox.limits import Limits
from amp_lessons.classroom.grading.watch import NotebookRun
from amp_lessons.core import catalogue
from amp_lessons.core.catalogue import ExerciseInfo, Lesson
from amp_lessons.core.ipynb import NotebookError
from amp_lessons.core.states import State
from amp_lessons.core.terminal import line

if TYPE_CHECKING:
    from amp_lessons.exercises.checks.verdict import Verdict


@dataclass(frozen=True)
class GradingOptions:
    """How a batch is graded.

    Args:
        limits: what each notebook may use.
        jobs: how many run at the same time.
        seed: the secret that the inputs of the checks are drawn from; "" draws one.
        sandbox: ``"auto"``, ``"required"``, ``"fork"``, ``"bubblewrap"`` or ``"none"``.
        results: a folder for the results, from which an interrupted batch goes on.
        trusted: the learners whose notebooks a person has looked at: they may use what the sheet
            closes, and what was repaired in them is no problem.
    """

    limits: Limits = field(default_factory=Limits)
    jobs: int = 1
    seed: str = ""
    sandbox: str = "auto"
    results: Path | None = None
    trusted: frozenset[str] = frozenset()

    @property
    def conditions(self) -> dict[str, Any]:
        """What a result depends on, besides the notebook and the seed."""
        return {
            "course": __version__,
            "torch": metadata.version("torch"),
            "limits": asdict(self.limits),
        }


def with_beside(content: bytes, beside: Mapping[str, str]) -> bytes:
    """What a notebook's result depends on: its content, and the files beside it."""
    return content + json.dumps(beside, sort_keys=True).encode() if beside else content


class Batch:
    """A batch that is ready to be graded: the sandbox stands, and the judges wait.

    Attributes:
        about: what a report should say about it, in JSON's types: seed, versions, sandbox.
    """

    def __init__(
        self,
        options: GradingOptions,
        starter: Starter,
        reader: NotebookReader,
        judges: Judges,
        salt: str,
        results: Results | None = None,
    ) -> None:
        self._options, self._starter = options, starter
        self._reader, self._judges = reader, judges
        self._results, self._stop = results, Event()
        self._ready: set[str] = set()
        self._getting_ready = Lock()
        self.missing = starter.missing
        self.about = {**options.conditions, "seed": salt, "sandbox": starter.name}

    def grade(self, handed_in: Sequence[HandedIn]) -> Iterator[Graded]:
        """Grade notebooks, ``jobs`` at a time, each yielded as soon as it is done.

        With one job that is the order given. A notebook that cannot be graded says so in its
        `Graded` and never stops the others.

        Raises:
            SandboxError: if the machine takes the sandbox back in between.
            ResultsError: if a result cannot be written.
        """
        done: SimpleQueue[Future[Graded]] = SimpleQueue()
        with ThreadPoolExecutor(max_workers=self._options.jobs) as pool:
            try:
                for each in handed_in:
                    pool.submit(self._result, each).add_done_callback(done.put)
                for _ in handed_in:
                    yield done.get().result()
            finally:  # after Ctrl-C: end the processes, do not wait for the rest
                self._stop.set()
                pool.shutdown(wait=True, cancel_futures=True)
                self._stop.clear()

    def stop(self) -> None:
        """End the notebooks that run, from another thread. `grade` then raises `watch.Stopped`."""
        self._stop.set()

    def _result(self, handed_in: HandedIn) -> Graded:
        content, trusted = b"", handed_in.learner in self._options.trusted
        try:
            content, beside = handed_in.read(), handed_in.beside()
            whole = with_beside(content, beside)
            if self._results and (known := self._results.known(handed_in.name, whole, trusted)):
                return known
            graded = self._graded(handed_in, content, beside, trusted)
            content = whole
        except NotebookError as error:
            graded = _refused(handed_in, f"it {error}")
        except (watch.Stopped, SandboxError):
            raise
        except OSError as error:
            graded = _refused(handed_in, f"it could not be run: {error.strerror or error}")
        except Exception as error:
            said = line(f"{type(error).__name__}: {error}").rstrip(": ")[:500]
            graded = _refused(handed_in, f"it could not be graded: {said}")
        if self._results:
            self._results.keep(content, graded, trusted)
        return graded

    def _graded(
        self, handed_in: HandedIn, content: bytes, beside: Mapping[str, str], trusted: bool
    ) -> Graded:
        submission = replace(self._reader.read(content), beside=beside)
        self._get_ready(submission.lesson)
        run = watch.run(submission, self._starter, self._options.limits, self._stop, trusted)
        judging = _Judging(self._judges, submission, run, self._options.limits.total)
        marks = tuple(map(judging.mark, submission.lesson.exercises))
        names = [info.name for info in submission.lesson.exercises]
        recorded = _given_up(handed_in.progress())
        gave_up = submission.gave_up if recorded is None else recorded
        doubts = (*submission.problems, *map(line, run.problems))
        return Graded(
            handed_in.name,
            handed_in.learner,
            submission.lesson.id,
            marks,
            (*(() if trusted else doubts), *_unjudged(marks)),
            (
                *(doubts if trusted else ()),
                *submission.notes,
                *map(line, run.notes),
                *judging.notes,
                *_failed(submission, run, marks),
            ),
            tuple(name for name in names if name in gave_up),
            {name: answer for name in names if (answer := submission.answer(name))},
        )

    def _get_ready(self, lesson: Lesson) -> None:
        """Run a lesson's right answers before its first notebook. What they import takes seconds,
        and need not be imported for each notebook again."""
        with self._getting_ready:
            if lesson.slug not in self._ready:
                self._ready.add(lesson.slug)
                found = [self._judges.prepare(info.name) for info in lesson.exercises]
                self._starter.get_ready(sorted(set().union(*found)))


class _Judging:
    """The marks of one submission, from what its run gave."""

    def __init__(
        self, judges: Judges, submission: Submission, run: NotebookRun, seconds: float
    ) -> None:
        self._judges, self._submission, self._run = judges, submission, run
        self._patience = min(TO_JUDGE, seconds)
        self.notes: list[str] = []

    def mark(self, info: ExerciseInfo) -> Mark:
        verdict, again = self._verdict(info.name), self._run.again.get(info.name)
        if again is not None and not verdict.passed:
            below = self._judged(info.name, again)
            if (
                below.passed
                or info.name not in self._run.evidence
                or verdict.state == State.NOT_ATTEMPTED
            ):
                verdict = below
                where = next(s.where for s in self._submission.steps[::-1] if s.again_of(info.name))
                self.notes.append(f"{where}: that is what counts")
        return Mark(info.name, verdict, info.points if verdict.passed else 0, info.points)

    def _judged(self, exercise: str, evidence: bytes) -> Verdict:
        verdict = self._judges.verdict(exercise, evidence, self._patience)
        if verdict.check_failed:
            self._patience = 1.0  # one that takes long to judge has had its time
        return verdict

    def _verdict(self, exercise: str) -> Verdict:
        from amp_lessons.exercises.checks.verdict import Verdict

        run, steps = self._run, self._submission.steps_of(exercise)
        stopped = _first(run.stopped, steps)
        if stopped:
            return Verdict(State.ERROR, line(f"{stopped}."))
        if exercise in run.evidence:
            return self._judged(exercise, run.evidence[exercise])
        error = _first(run.errors, steps)
        if error is None:
            reason = run.unreached or "the check did not report"
            return Verdict(State.ERROR, line(f"Its check has no result: {reason}."))
        seen: dict[str, Any] = {"error": error}
        if error.get("type") == "NotImplementedError" and "line" in error:
            seen = {"unattempted": True}
        return self._judged(exercise, json.dumps(seen).encode())


@contextmanager
def open_batch(options: GradingOptions, lessons: Sequence[str] | None = None) -> Iterator[Batch]:
    """Make the sandbox and the judges, for as long as the context lasts.

    Args:
        lessons: the slugs of the lessons that were handed in, if that is known: the fork server
            loads their probes. Default: all that have exercises.

    Raises:
        SandboxError: if the sandbox that was asked for is not allowed here.
        ResultsError: if the folder of results cannot be used.
    """
    if os.name == "nt":
        raise SandboxError(
            "grading needs Linux or macOS: on Windows, run it in WSL (the Linux in Windows)"
        )
    slugs = lessons or [lesson.slug for lesson in catalogue.LESSONS if lesson.exercises]
    results = None
    if options.results is not None:
        results = Results(options.results, options.conditions, options.seed)
    salt = results.salt if results else options.seed or secrets.token_hex(16)
    with ExitStack() as stack:
        judges = Judges(salt, min(options.jobs, os.cpu_count() or 1))
        stack.callback(judges.close)
        reader = NotebookReader()
        stack.callback(reader.close)
        starter = launch.open_starter(slugs, salt, options.limits, options.sandbox)
        yield Batch(options, stack.enter_context(starter), reader, judges, salt, results)


def _refused(handed_in: HandedIn, problem: str) -> Graded:
    return Graded(handed_in.name, handed_in.learner, problems=(line(problem),))


def _given_up(progress: bytes | None) -> set[str] | None:
    """The exercises that a progress file says were given up; None if it says nothing."""
    with suppress(ValueError, RecursionError, AttributeError, TypeError, KeyError):
        entries = json.loads(progress or b"")["exercises"]
        return {
            name
            for name, entry in entries.items()
            if isinstance(entry, dict) and entry.get("gave_up_at")
        }
    return None


def _unjudged(marks: Sequence[Mark]) -> list[str]:
    """A line for each check that could not judge what was reported: a person has to."""
    return [f"{m.exercise}: {m.verdict.message}" for m in marks if m.verdict.check_failed]


def _failed(submission: Submission, run: NotebookRun, marks: Sequence[Mark]) -> list[str]:
    """A line for each cell that failed before an exercise that did not pass."""
    if all(mark.verdict.passed for mark in marks):
        return []
    steps = submission.steps
    failed = [n for n in sorted(run.errors) if n < len(steps) and not steps[n].checks]
    told = [
        f"{steps[n].where} ended with {run.errors[n].get('type')}: {run.errors[n].get('message')}"
        for n in failed
    ]
    return [line(text)[:300] for text in told[:5]]


def _first(found: Mapping[int, Any], steps: Sequence[int]) -> Any:
    """The entry of the first of these steps that has one."""
    return next((found[step] for step in steps if step in found), None)


__all__ = ["Batch", "GradingOptions", "ResultsError", "open_batch"]
