"""Runs that others measured and published, quoted with their source: `load_published` reads them.

They are never mixed with what this course's bench measured: those are `records.load_records`, and
neither loader finds the other's files. README.md in this folder says where the figures come from.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import MappingProxyType

from amp_lessons.amp.speed.published.choosing import (
    FourRates,
    across_gpus,
    first_variants,
    four_rates,
    like_for_like,
    of,
    on,
    on_both,
    one_gpu,
    table,
)
from amp_lessons.amp.speed.published.rows import (
    AccuracyPair,
    GpuMedian,
    InferencePair,
    LeftOut,
    LogLine,
    MatmulRate,
    Published,
    Source,
    TimePair,
    TrainingPair,
)
from amp_lessons.amp.speed.published.tables import read_pairs, read_rows, read_sources

FOLDER = Path(__file__).parent

__all__ = [
    "AccuracyPair",
    "FourRates",
    "GpuMedian",
    "InferencePair",
    "LeftOut",
    "LogLine",
    "MatmulRate",
    "Published",
    "Source",
    "TimePair",
    "TrainingPair",
    "across_gpus",
    "first_variants",
    "four_rates",
    "like_for_like",
    "load_published",
    "of",
    "on",
    "on_both",
    "one_gpu",
    "table",
]


def load_published(folder: str | Path | None = None) -> Published:
    """All published runs of a folder, by default the course's own, which are read only once.

    Raises:
        RecordError: if a file is missing, or a row can't be read. The message is one line and names
            the file, the row and the column.
    """
    return _own() if folder is None else _read(Path(folder))


@cache
def _own() -> Published:
    return _read(FOLDER)


def _read(folder: Path) -> Published:
    sources = read_sources(folder)
    training, no_training = read_pairs(folder, "training", TrainingPair, sources)
    times, no_times = read_pairs(folder, "time_to_train", TimePair, sources)
    return Published(
        training=tuple(training),
        accuracy=tuple(read_rows(folder, "accuracy", AccuracyPair, sources)),
        time_to_train=tuple(times),
        inference=tuple(read_rows(folder, "inference", InferencePair, sources)),
        medians=tuple(read_rows(folder, "medians", GpuMedian, sources)),
        overall=tuple(read_rows(folder, "overall", GpuMedian, sources)),
        matmul=tuple(read_rows(folder, "matmul", MatmulRate, sources)),
        logs=tuple(read_rows(folder, "logs", LogLine, sources)),
        left_out=tuple(no_training + no_times),
        sources=MappingProxyType(sources),
    )
