"""What a measured record must have before it comes with the course.

The schema says how a record is written. These checks ask whether its figures can be used: the right
clock, enough samples, a baseline, and nothing that names a person's folders. No torch is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from amp_lessons.amp.speed.records import FOLDER, Record, RecordError, read_record

LEAST_SAMPLES = 7
"""Samples of each mode that ``amp-lessons bench --quick`` takes. Without --quick it takes 15."""

CLOCK = "cuda events"
_PERSONAL = re.compile(r"""(?:^|[\s='"])(?:/|~|[A-Za-z]:[\\/])""")


def faults(path: str | Path) -> list[str]:
    """What keeps a record from being handed in, one line each; an empty list if nothing does."""
    try:
        record = read_record(path)
    except RecordError as error:
        return [str(error).removeprefix(f"{path} ")]
    if record.kind != "measured":
        return ["it quotes figures: only what `amp-lessons bench` measured is handed in"]
    return list(_faults(record, Path(path).stem))


def unfit(folder: str | Path = FOLDER) -> list[str]:
    """The faults of all measured records of a folder, by default the course's own, one line each.

    Quoted records are held to the schema alone.
    """
    paths = sorted(path for path in Path(folder).glob("*.json") if not path.match("*.schema.json"))
    return [
        f"{path.name}: {fault}" for path in paths if not _quoted(path) for fault in faults(path)
    ]


def _quoted(path: Path) -> bool:
    try:
        return read_record(path).kind == "quoted"
    except RecordError:
        return False  # `faults` tells


def _faults(record: Record, stem: str) -> Iterator[str]:
    details = record.details
    if record.name != stem:
        yield f"the record is called {record.name!r} and its file {stem!r}: use one name for both"
    if details["clock"] != CLOCK:
        yield f"the clock is {details['clock']!r}: a record for the course is timed by {CLOCK}"
    if "stopped" in details:
        yield f"the bench ended early ({details['stopped']}): run it again"
    if _PERSONAL.search(details["command"]):
        yield "the command names a folder on your computer: shorten it to the file's name"
    rows = record.rows
    with_baseline = {row.workload for row in rows if row.mode == "FP32"}
    for workload in dict.fromkeys(row.workload for row in rows):
        if workload not in with_baseline:
            yield f"{workload}: there is no FP32 row to compare with"
    for row in rows:
        if len(row.samples_s) < LEAST_SAMPLES:
            have = len(row.samples_s)
            yield f"{row.workload}, {row.mode}: {have} samples, and {LEAST_SAMPLES} are needed"
        if not row.details["settled"]:
            yield f"{row.workload}, {row.mode}: the time was not stable yet; run it again"
