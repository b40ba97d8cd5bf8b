"""Runs of the bench that were kept, and figures that others published; the two are never mixed.

Each record is a JSON file in this folder that ``record.schema.json`` describes. A *measured* one
says on what, when, by which command and clock, with every sample. A *quoted* one says where its
figures were published. Nothing here imports torch.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.files import write_atomically

FOLDER = Path(__file__).parent
SCHEMA_VERSION = 1


class RecordError(AmpLessonsError):
    """A record could not be read, written or believed. The message is one line."""


@dataclass(frozen=True)
class RecordRow:
    """One workload in one mode.

    Attributes:
        workload: such as "mlp 4096x4096, 3 layers" (batch x width).
        mode: "FP32", "TF32", "AMP FP16", "AMP BF16" or "AMP BF16 + compile".
        samples_s: seconds a step, each sample; empty in a quoted row.
        total_s: seconds of the whole run; None in a measured row.
        steps: training steps in that run; None in a measured row.
        step_flops: floating-point operations of a step, or None.
        step_bytes: bytes that the eager ops of a step read and write, or None.
        roof: FLOP/s of a large matmul in this precision, measured on the spot, or None.
        peak_bytes: peak of allocated memory with the preloaded data, or None.
        data_bytes: bytes of that data, or None.
        losses: of each step from the first; None where it was not finite.
        departs: how the loss curve departs from float32's; "" if it does not, so that the speed
            was not bought with quality; None if there was nothing to compare.
        details: the row as it stands in the file.
    """

    workload: str
    mode: str
    samples_s: tuple[float, ...] = ()
    total_s: float | None = None
    steps: int | None = None
    step_flops: int | None = None
    step_bytes: int | None = None
    roof: float | None = None
    peak_bytes: int | None = None
    data_bytes: int | None = None
    losses: tuple[float | None, ...] = ()
    departs: str | None = None
    details: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def median_s(self) -> float:
        """Seconds a step: the median of the samples; for a quoted row, its one run by its steps."""
        if self.samples_s:
            return statistics.median(self.samples_s)
        assert self.total_s is not None, "a row has samples, or a total"
        assert self.steps is not None
        return self.total_s / self.steps

    @property
    def spread(self) -> float | None:
        """Interquartile range by median; None for a quoted row, which has one run."""
        if not self.samples_s:
            return None
        low, _, high = statistics.quantiles(self.samples_s, n=4, method="inclusive")
        return (high - low) / self.median_s

    @property
    def tflops(self) -> float | None:
        """TFLOP/s, or None if the operations of a step are not known."""
        return self.step_flops / self.median_s / 1e12 if self.step_flops else None

    @property
    def share(self) -> float | None:
        """Share of the measured roof, 0 to 1, or None."""
        return self.tflops * 1e12 / self.roof if self.tflops and self.roof else None

    @property
    def intensity(self) -> float | None:
        """Arithmetic intensity in FLOP/byte, or None."""
        return self.step_flops / self.step_bytes if self.step_flops and self.step_bytes else None

    @property
    def step_peak_bytes(self) -> int | None:
        """Peak memory without the preloaded data, or None."""
        if self.peak_bytes is None or self.data_bytes is None:
            return None
        return self.peak_bytes - self.data_bytes


@dataclass(frozen=True)
class Record:
    """A file of rows, and where they come from.

    Attributes:
        name: of the record, as the file's.
        kind: "measured" by this course's bench, or "quoted" from a page.
        source: where quoted figures were published; for a measured one, GPU, date and command.
        gpu: such as "NVIDIA H200", or None if the source does not name it.
        rows: one for each workload and mode.
        url: of the source, or "".
        bandwidth: bytes/s of a copy, measured on the spot, or None.
        details: the record as it stands in the file.
    """

    name: str
    kind: Literal["measured", "quoted"]
    source: str
    gpu: str | None
    rows: tuple[RecordRow, ...]
    url: str = ""
    bandwidth: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


def load_records(folder: str | Path = FOLDER) -> list[Record]:
    """Every record of a folder, by name; an empty list if there is none.

    Raises:
        RecordError: if a file breaks the schema; the message names the file and the field.
    """
    found = sorted(path for path in Path(folder).glob("*.json") if not path.match("*.schema.json"))
    return [read_record(path) for path in found]


def read_record(path: str | Path) -> Record:
    """One record. Raises `RecordError`, which names the file and the field."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        data = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except OSError as error:
        raise RecordError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is no JSON: {str(error).splitlines()[0]}") from error
    _check(data, str(path))
    return from_json(data)


def write_record(path: str | Path, data: Mapping[str, Any]) -> None:
    """Write a record, whole or not at all. Raises `RecordError` if it breaks the schema."""
    _check(data, str(path))
    try:
        write_atomically(Path(path), (json.dumps(data, indent=1, allow_nan=False) + "\n").encode())
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error.strerror}") from error


def from_json(data: Mapping[str, Any]) -> Record:
    """A record from data that has been checked."""
    source = data.get("source") or f"{data['gpu']}, {data['date']}: {data['command']}"
    bandwidth = data["peaks"]["bandwidth"] if "peaks" in data else None
    return Record(
        name=data["name"],
        kind=data["kind"],
        source=source,
        gpu=data.get("gpu"),
        rows=tuple(map(row_from_json, data["rows"])),
        url=data.get("url", ""),
        bandwidth=bandwidth,
        details=data,
    )


def row_from_json(data: Mapping[str, Any]) -> RecordRow:
    """A row from data that has been checked."""
    plain = {name: data[name] for name in _ROW_FIELDS if name in data}
    for name in ("samples_s", "losses"):
        plain[name] = tuple(plain.get(name, ()))
    return RecordRow(**plain, details=data)


_ROW_FIELDS = tuple(name for name in RecordRow.__dataclass_fields__ if name != "details")


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number in JSON")


def _finite(number: str) -> float:
    """A float; ``1e999``, which Python reads as inf, is refused."""
    if not math.isfinite(float(number)):
        raise ValueError(f"{number} is too large")
    return float(number)


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator

    schema = json.loads((FOLDER / "record.schema.json").read_text(encoding="utf-8"))
    return Draft202012Validator(schema)


def _check(data: Any, where: str) -> None:
    """Raise for the field that is most to blame."""
    from jsonschema.exceptions import best_match

    error = best_match(_validator().iter_errors(data))
    if error is None:
        return
    field_name = "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path
    ).lstrip(".")
    message = error.message if len(error.message) < 160 else f"{error.message[:150]} ..."
    raise RecordError(f"{where} breaks the schema at {field_name or 'the top'}: {message}")
