"""Runs the corpus in a process of its own: ``python -m hostile.table fork``.

What came out is written to standard output in JSON. With ``none`` for the sandbox, what could harm
the machine is left out. ``--known-inputs`` draws the inputs that everybody has at home.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from amp_lessons.classroom.grading import GradingOptions, batch
from hostile import class_room
from hostile.corpus import CORPUS
from hostile.sheets import Submission

NOT_RUN = "not run"


@dataclass
class Table:
    """What came out.

    Attributes:
        words: by submission, such as ``"6/8"``.
        faults: by submission, what isn't as it must be.
        reached: what attacks reached outside.
    """

    words: dict[str, str]
    faults: dict[str, list[str]]
    reached: list[str]


def came_out(folder: Path, submissions: Sequence[Submission], sandbox: str, jobs: int) -> Table:
    """Grade these submissions, with honest neighbours between."""
    limits = class_room.LIMITS if sandbox == "fork" else class_room.SLOWER
    table, evidence = Table({}, {}, []), class_room.evidence_from_home()
    options = GradingOptions(limits, jobs, sandbox=sandbox)
    with class_room.graded(folder, submissions, evidence, options) as (results, table.reached):
        beside = class_room.neighbours(submissions)
        for submission in submissions:
            word, faults = class_room.compare(submission, beside[submission.name], results)
            table.words[submission.name], table.faults[submission.name] = word, faults
    return table


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("sandbox")
    options.add_argument("names", nargs="*")
    options.add_argument("--jobs", type=int, default=6)
    options.add_argument("--known-inputs", action="store_true")
    given = options.parse_args()
    wanted = [s for s in CORPUS if s.name in given.names or not given.names]
    run = [s for s in wanted if given.sandbox != "none" or not s.dangerous]
    known = mock.patch.object(batch.secrets, "token_hex", return_value="")
    with (
        tempfile.TemporaryDirectory(prefix="hostile-") as folder,
        known if given.known_inputs else nullcontext(),
    ):
        Path(folder).chmod(0o755)
        table = came_out(Path(folder), run, given.sandbox, given.jobs)
    table.words |= {s.name: NOT_RUN for s in wanted if s not in run}
    json.dump(vars(table), sys.stdout)


if __name__ == "__main__":
    main()
