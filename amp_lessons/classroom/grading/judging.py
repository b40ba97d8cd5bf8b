"""The grader's side of its judges: evidence goes to one as bytes, and a verdict comes back.

Equal evidence of the same exercise gets the same verdict, so each is judged once a batch. An
exercise always goes to the same judge, which has run its right and wrong answers already.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

from amp_lessons.classroom.grading.marks import verdict_from_json
from amp_lessons.classroom.grading.services import Service, ServiceError

if TYPE_CHECKING:
    from amp_lessons.exercises.checks.verdict import Verdict

TO_PREPARE = 180.0
"""Seconds for running an exercise's right answers, once a batch."""

TO_JUDGE = 30.0
"""Seconds for one verdict. The first wrong answer takes the longest, for all the wrong answers that
the exercise knows are run then."""

MEMORY = 6144
"""MiB of address space for a judge. Torch alone takes about half of it."""


class Judges:
    """Judge processes that share the exercises among them.

    Args:
        salt: the batch's.
        count: how many processes.
    """

    def __init__(self, salt: str, count: int = 1) -> None:
        module = "amp_lessons.classroom.grading.judge"
        self._judges = [Service(module, [salt], MEMORY) for _ in range(count)]
        self._known: dict[tuple[str, bytes], Verdict] = {}
        self._prepared: set[str] = set()

    def prepare(self, exercise: str) -> list[str]:
        """Run an exercise's right answers, as each verdict needs them.

        Returns:
            the modules that its judge has imported by now.
        """
        with suppress(ServiceError):
            header = {"exercise": exercise, "prepare": True}
            _, modules = self._judge_of(exercise).ask(header, b"", TO_PREPARE)
            self._prepared.add(exercise)
            return json.loads(modules)
        return []

    def _judge_of(self, exercise: str) -> Service:
        return self._judges[zlib.crc32(exercise.encode()) % len(self._judges)]

    def verdict(self, exercise: str, evidence: bytes, patience: float = TO_JUDGE) -> Verdict:
        """The verdict on what a probe saw. May be called from several threads.

        Args:
            patience: seconds that this submission may cost its judge.
        """
        from amp_lessons.exercises.checks.verdict import State, Verdict

        key = exercise, hashlib.sha256(evidence).digest()
        if key in self._known:
            return self._known[key]
        if exercise not in self._prepared:
            self.prepare(exercise)
        judge = self._judge_of(exercise)
        try:
            _, given = judge.ask({"exercise": exercise}, evidence, max(1.0, patience))
        except ServiceError as error:
            self._prepared.clear()  # the judge starts again, and knows no right answers yet
            message = f"What this check reported cannot be judged ({error}). Look at this answer."
            return Verdict(State.ERROR, message, check_failed=True)
        return self._known.setdefault(key, verdict_from_json(json.loads(given)))

    def close(self) -> None:
        for judge in self._judges:
            judge.close()
