"""What the process that runs a notebook sends to the grader: small headers, some with evidence.

A frame is a length of four bytes, a header in JSON, a length again, and as many bytes of evidence.
The grader reads headers and hands evidence on unread. A learner's code can write to the same pipe,
so `FrameReader` takes nothing for granted but a bound on the sizes.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from typing import Any

LONGEST_HEADER = 64 * 1024
"""Bytes. An exception is described in less than 2,000."""

LONGEST_EVIDENCE = 2**20
"""Bytes of one check. The longest of a solution of this course has 65,000."""

MOST = 16 * 2**20
"""Bytes of all the frames of one run."""

MOST_FRAMES = 5_000
"""Frames of one run. Each cell has two, and each check one more."""

_LENGTH = struct.Struct(">I")

Frame = tuple[dict[str, Any], bytes]


class TooLong(ValueError):
    """A frame, or all frames together, are longer than an honest run makes them."""


def packed(header: dict[str, Any], evidence: bytes = b"") -> bytes:
    """A frame as bytes."""
    text = json.dumps(header).encode()
    return b"".join((_LENGTH.pack(len(text)), text, _LENGTH.pack(len(evidence)), evidence))


def write(pipe: int, data: bytes) -> None:
    """Write all of it to a pipe."""
    left = memoryview(data)
    while left:
        left = left[os.write(pipe, left) :]


class FrameReader:
    """Cuts a stream of bytes into frames.

    Args:
        trusted: whether the sender is a process of ours. All others have bounds.
    """

    def __init__(self, trusted: bool = False) -> None:
        self._data = bytearray()
        self._taken = self._frames = 0
        self._trusted = trusted

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete now.

        Raises:
            TooLong: if there is more than an honest run sends.
        """
        self._taken += len(data)
        self._check(self._taken <= MOST, f"more than {MOST // 2**20} MB in all")
        self._data += data
        while (frame := self._next()) is not None:
            self._frames += 1
            self._check(self._frames <= MOST_FRAMES, f"more than {MOST_FRAMES:,} times")
            header, evidence = frame
            if isinstance(header, dict):
                yield header, evidence

    def _check(self, bounded: bool, what: str) -> None:
        if not (bounded or self._trusted):
            raise TooLong(what)

    def _next(self) -> tuple[Any, bytes] | None:
        header = self._part(0, LONGEST_HEADER)
        if header is None:
            return None
        evidence = self._part(_LENGTH.size + len(header), LONGEST_EVIDENCE)
        if evidence is None:
            return None
        del self._data[: 2 * _LENGTH.size + len(header) + len(evidence)]
        try:
            return json.loads(header), evidence
        except (ValueError, RecursionError):
            return None, b""

    def _part(self, start: int, longest: int) -> bytes | None:
        """The bytes that stand behind the length at ``start``; None if they have not all come."""
        begin = start + _LENGTH.size
        if len(self._data) < begin:
            return None
        (length,) = _LENGTH.unpack_from(self._data, start)
        self._check(length <= longest, f"{length / 2**20:.1f} MB at once")
        if len(self._data) < begin + length:
            return None
        return bytes(self._data[begin : begin + length])
