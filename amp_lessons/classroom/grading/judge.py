"""The process that judges: it holds the answer keys, and is handed plain data alone.

It never runs a stranger's code. The course's own answers, right ones, wrong ones and pairs of
mistakes, are run once a batch on the batch's own inputs, when evidence first needs them. `judging`
starts it with the batch's salt. A question is an exercise's name and the evidence, and the answer
is the verdict.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any

from amp_lessons.classroom.grading import services
from amp_lessons.classroom.grading.frames import Frame

LONGEST, LONGEST_LINE = 2000, 500
"""Characters of what is told, and of one line of what was seen. A value may be far longer."""


def answer(header: dict[str, Any], evidence: bytes) -> Frame:
    """Judge evidence; or, where the question says ``"prepare"``, run the right answers first, and
    tell which modules that took."""
    from amp_lessons.exercises.checks import find_exercise

    exercise = find_exercise(header["exercise"])
    if header.get("prepare"):
        with suppress(Exception):  # the verdict will say so
            _ = exercise.answer_key.diagnosis.expected
        return {}, json.dumps(sorted(sys.modules)).encode()
    found: Any = None
    with suppress(ValueError, RecursionError):
        found = json.loads(evidence)
    given = exercise.verdict(found, foreign=True)
    return {}, json.dumps(
        {
            "state": str(given.state),
            "said": given.message[:LONGEST],
            "diagnosis": given.diagnosis,
            "seen": [text[:LONGEST_LINE] for text in given.seen],
            "check_failed": given.check_failed,
        }
    ).encode()


def main() -> None:
    from amp_lessons.exercises.checks.draws import use_salt

    use_salt(sys.argv[2])
    services.serve(answer)


if __name__ == "__main__":
    main()
