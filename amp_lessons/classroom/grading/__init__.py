"""Grading other people's notebooks: each in a process of its own, locked in where that is possible.

The processes, and who talks to whom. The grader talks to each of the others, and begins it:

- the grader itself: `batch`, with a thread for each notebook that is graded at the time;
- a reader (`reader`; the grader's side is `reading`) and a few judges (`judge`; `judging`). All are
  `services`: a question goes to their standard input, and an answer comes back, in `frames`;
- the fork server (`fork_server`; `launch`): it takes requests in JSON on a socket, with five pipes
  for each notebook, and forks a process that is locked in (`sandbox`). Where there are no user
  namespaces, `launch` starts a new Python for each notebook;
- a notebook's process (`child`; `watch`): it takes its job from the first pipe, and reports in
  `frames` on the second. What it prints goes into the third. The process between (`sandbox.cell`)
  tells on the fourth how it ended, and ends all of them when the grader lets go of the fifth;
- what answers may call and must not look into lies in a fork of the notebook's process (`apart`).

Only the judges hold answer keys. `batch` grades many and is what the command uses; `grade` and
`grade_all` are its short forms.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from amp_lessons.classroom.grading.batch import Batch, GradingOptions, open_batch
from amp_lessons.classroom.grading.collect import HandedIn, collect
from amp_lessons.classroom.grading.marks import Graded, Mark
from amp_lessons.classroom.grading.sandbox.limits import Limits

__all__ = [
    "Batch",
    "Graded",
    "GradingOptions",
    "HandedIn",
    "Limits",
    "Mark",
    "collect",
    "grade",
    "grade_all",
    "open_batch",
]


def grade_all(paths: Sequence[Path], options: GradingOptions | None = None) -> Iterator[Graded]:
    """Grade everything at these paths, each notebook yielded as soon as it is done.

    Raises:
        NothingToGrade: if no notebook is there.
        SandboxError, ResultsError: see `open_batch`.
    """
    handed_in = collect(paths)
    with open_batch(options or GradingOptions()) as batch:
        yield from batch.grade(handed_in)


def grade(path: Path, limits: Limits | None = None) -> Graded:
    """Grade one notebook. What goes wrong with it is told in the result, and never raised."""
    return next(iter(grade_all([path], GradingOptions(limits or Limits()))))
