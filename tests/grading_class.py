"""What the tests of the grader share: a sheet that a test spoils, and a batch that stands open."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from amp_lessons.classroom import grading
from amp_lessons.classroom.grading import Batch, Graded, GradingOptions, Limits
from amp_lessons.core import catalogue, ipynb
from amp_lessons.exercises import checks

LESSON = catalogue.lesson_called("number_formats")
SHEET = Path(LESSON.sheet).name
LIMITS = Limits(cell=120.0, total=500.0, start=300.0)  # for a hang, on the busiest machine


class Sheet:
    """A solved notebook that a test spoils, then saves and grades.

    Args:
        path: where it is saved.
        batch: grades it.
        folder: ``"solutions"``, or ``"exercises"`` for the stubs.
    """

    def __init__(self, path: Path, batch: Batch | None = None, folder: str = "solutions") -> None:
        self.path, self.batch = path, batch
        self.notebook = ipynb.read(catalogue.course_files() / folder / SHEET)

    @property
    def cells(self) -> list[ipynb.Cell]:
        return self.notebook["cells"]

    def index(self, grade_id: str) -> int:
        return [ipynb.grade_id(cell) for cell in self.cells].index(grade_id)

    def write(self, grade_id: str, source: str) -> None:
        self.cells[self.index(grade_id)]["source"] = source

    def add(self, source: str, at: int | None = None) -> None:
        cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        self.cells.insert(len(self.cells) if at is None else at, cell | {"source": source})

    def save(self) -> Path:
        self.path.write_bytes(ipynb.to_bytes(self.notebook))
        return self.path

    def grade(self, limits: Limits | None = None) -> Graded:
        assert self.batch is not None
        batch = self.batch if limits is None else with_options(self.batch, limits=limits)
        (graded,) = batch.grade(grading.collect([self.save()]))
        return graded


def with_options(batch: Batch, **changes: Any) -> Batch:
    """The same sandbox and judges, with other options."""
    options = replace(batch._options, **changes)
    return Batch(options, batch._starter, batch._reader, batch._judges, batch.about["seed"])


@contextmanager
def open_class(sandbox: str = "required", jobs: int = 2) -> Iterator[Batch]:
    """A batch for lesson 01."""
    options = GradingOptions(LIMITS, jobs, "a seed for tests", sandbox)
    with grading.open_batch(options, [LESSON.slug]) as batch:
        yield batch


def states(graded: Graded) -> dict[str, str]:
    return {mark.exercise: str(mark.verdict.state) for mark in graded.marks}


def message(graded: Graded, exercise: str) -> str:
    return next(mark.message for mark in graded.marks if mark.exercise == exercise)


def processes_with(marker: str) -> list[int]:
    """The processes whose command line has this word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker in path.read_bytes().decode(errors="replace").split("\0"):
                found.append(int(path.parent.name))
        except OSError:
            pass
    return found


def make_class(folder: Path, learners: int, wrong: float = 0.3, seed: int = 1) -> dict[str, int]:
    """Put a class's notebooks of lesson 01 into a folder; give each learner's points.

    Args:
        wrong: the share of learners with wrong answers, about half of theirs. They are those that
            the exercises know by name.
    """
    draw = random.Random(seed)
    answers = {info.name: wrong_answers(info.name) for info in LESSON.exercises}
    points = {}
    for number in range(learners):
        sheet, learner = Sheet(folder / f"learner{number:03}" / SHEET), f"learner{number:03}"
        points[learner] = LESSON.points
        if draw.random() < wrong:
            for info in LESSON.exercises:
                if draw.random() < 0.5:
                    sheet.write(info.name, draw.choice(answers[info.name]))
                    points[learner] -= info.points
        sheet.path.parent.mkdir(parents=True)
        sheet.save()
    return points


def wrong_answers(exercise: str) -> list[str]:
    mistakes = checks.find_exercise(exercise).answer_key.diagnosis.mistakes
    return [answer.source for mistake in mistakes for answer in mistake.answers]
