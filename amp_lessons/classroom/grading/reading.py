"""The grader's side of its reader: the bytes of a file go in, and a submission comes out."""

from __future__ import annotations

import json

from amp_lessons.classroom.grading.notebook import CellToRun, Submission
from amp_lessons.classroom.grading.services import Service, ServiceError
from amp_lessons.core import catalogue
from amp_lessons.core.ipynb import NotebookError

PATIENCE = 20.0
"""Seconds for one file. 50 MB of plots take about one."""

MEMORY = 2048
"""MiB for one file."""


class NotebookReader:
    """A process that reads notebooks."""

    def __init__(self) -> None:
        self._service = Service("amp_lessons.classroom.grading.reader", memory=MEMORY)

    def read(self, content: bytes) -> Submission:
        """Read a learner's notebook; see `notebook.parse`. May be called from several threads.

        Raises:
            NotebookError: if it is not a notebook that can be graded.
        """
        try:
            header, given = self._service.ask({}, content, PATIENCE)
        except ServiceError as error:
            raise NotebookError(f"cannot be read, because {error}") from error
        if "refused" in header:
            raise NotebookError(header["refused"])
        found = json.loads(given)
        return Submission(
            catalogue.lesson_called(found["lesson"]),
            tuple(CellToRun(**step) for step in found["steps"]),
            tuple(found["problems"]),
            tuple(found["notes"]),
            tuple(found["gave_up"]),
        )

    def close(self) -> None:
        self._service.close()
