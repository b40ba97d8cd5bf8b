"""Marks in JSON's types, for programs: whole, or written notebook by notebook as they come."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from amp_lessons.classroom.grading.marks import Graded


def as_json(all_graded: Sequence[Graded], about: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Every notebook's marks in JSON's types, with totals.

    Args:
        about: what is known of the batch, in JSON's types: its seed, the versions of the course
            and of torch, the date, the protections that were on. It becomes the key "batch".
    """
    batch = {} if about is None else {"batch": dict(about)}
    return batch | {
        "notebooks": [graded.to_json() for graded in all_graded],
        "points": sum(graded.points for graded in all_graded),
        "of": sum(graded.of for graded in all_graded),
        "gradable": all(graded.gradable for graded in all_graded),
    }


class JsonWriter:
    """Writes what `as_json` gives, a notebook per line as soon as it is graded.

    If the grader is killed, the lines that it has written are the notebooks it had finished. The
    document becomes valid JSON with `close`.
    """

    def __init__(self, stream: TextIO, about: Mapping[str, Any] | None = None) -> None:
        self.stream = stream
        self.totals = as_json([])
        del self.totals["notebooks"]
        batch = "" if about is None else f'"batch": {json.dumps(dict(about))},\n'
        self._write("{" + batch + '"notebooks": [')
        self._between = "\n"

    def add(self, graded: Graded) -> None:
        self.totals["points"] += graded.points
        self.totals["of"] += graded.of
        self.totals["gradable"] &= graded.gradable
        self._write(self._between + json.dumps(graded.to_json()))
        self._between = ",\n"

    def close(self) -> None:
        self._write("\n],\n" + json.dumps(self.totals).removeprefix("{") + "\n")

    def _write(self, text: str) -> None:
        self.stream.write(text)
        self.stream.flush()
