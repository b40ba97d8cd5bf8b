"""A measured record beside the published runs that are nearest to it: same GPU, similar network.

The two stay apart: a `Beside` has the record's own speed-ups and a list of published ones, each
with its baseline and its source. Networks, batches and software differ, so it's a check, not a
ranking.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from amp_lessons.amp.speed.published import (
    GpuMedian,
    Published,
    TrainingPair,
    load_published,
    of,
    one_gpu,
)
from amp_lessons.amp.speed.records import Record, RecordRow

SIMILAR = {
    "transformer": ("BERT", "BART", "Transformer"),
    "cnn": ("ResNet50", "ResNeXt", "SE-ResNeXt", "EfficientNet", "SSD300"),
    "mlp": ("NCF", "DLRM"),
}
"""Published models that are nearest to each workload of the bench, by the start of their names."""

_NOT_THE_FAMILY = {
    *("nvidia", "tesla", "geforce", "quadro", "rtx", "amd", "instinct", "generation"),
    *("pcie", "sxm", "sxm2", "sxm3", "sxm4", "sxm5", "hbm2", "hbm3", "hbm3e", "(as", "named)"),
}


@dataclass(frozen=True)
class Neighbour:
    """A published speed-up.

    Attributes:
        model: that was trained.
        gpu: as the source names it; one GPU.
        baseline: "FP32", "TF32", or "FP32/TF32" where the source doesn't say which it was.
        speedup: of mixed precision; of several runs the median.
        low, high: of those runs; the same number for a single run.
        runs: how many.
        where: repository, path and commit.
    """

    model: str
    gpu: str
    baseline: str
    speedup: float
    low: float
    high: float
    runs: int
    where: str

    def __str__(self) -> str:
        told = f"{self.speedup:.2f} x {self.baseline}, {self.model} on {self.gpu}"
        return told if self.runs == 1 else f"{told}, {self.low:.2f} to {self.high:.2f}"


@dataclass(frozen=True)
class Beside:
    """One 16-bit row of a record, and what others published.

    Attributes:
        workload: the record's own.
        mode: "AMP FP16" or "AMP BF16", also with "+ compile".
        against: how many times as fast as each baseline of the record, by "FP32" and "TF32".
        neighbours: published speed-ups on this GPU, the smallest first; none if there are none.
    """

    workload: str
    mode: str
    against: dict[str, float]
    neighbours: tuple[Neighbour, ...]

    def __str__(self) -> str:
        own = ", ".join(f"{gain:.2f} x {name}" for name, gain in self.against.items())
        lines = [f"{self.workload}, {self.mode}: {own or 'no baseline was measured'}"]
        if not self.neighbours:
            return f"{lines[0]}\n  no published training run is near it"
        lines.append(f"  published on this GPU, similar networks: {len(self.neighbours)}")
        middle = len(self.neighbours) // 2
        for place in dict.fromkeys((0, middle, len(self.neighbours) - 1)):
            lines.append(f"    {self.neighbours[place]}")
        return "\n".join(lines)


def published_beside(record: Record, published: Published | None = None) -> tuple[Beside, ...]:
    """The 16-bit rows of a record, each beside the published runs on one GPU of its family.

    A family is all H100s, or all V100s; memory size and PCIe or SXM may differ. NVIDIA's A100 runs
    have TF32 as their baseline: hold them against ``against["TF32"]``, not ``against["FP32"]``.

    Args:
        record: with a GPU's name.
        published: by default `load_published()`.
    """
    published = published or load_published()
    near = family(record.gpu or "")
    rows = [row for row in record.rows if row.mode.startswith("AMP")]
    return tuple(
        Beside(row.workload, row.mode, _against(row, record), _neighbours(row, near, published))
        for row in rows
    )


def family(gpu: str) -> str:
    """A GPU's name without maker, memory and form: ``"NVIDIA A100-SXM4-80GB"`` gives ``"a100"``."""
    words = gpu.lower().replace("-", " ").split()
    return " ".join(w for w in words if w not in _NOT_THE_FAMILY and not w.endswith("gb"))


def _against(row: RecordRow, record: Record) -> dict[str, float]:
    base = {one.mode: one.median_s for one in record.rows if one.workload == row.workload}
    return {name: base[name] / row.median_s for name in ("FP32", "TF32") if name in base}


def _neighbours(row: RecordRow, near: str, published: Published) -> tuple[Neighbour, ...]:
    models = SIMILAR.get(row.workload.partition(" ")[0].partition("-")[0], ())
    if not near or not models:
        return ()
    pairs = [pair for pair in of(one_gpu(published.best_pairs()), *models) if not pair.suspect]
    medians = [
        median
        for median in published.medians
        if median.gpu_count == 1 and median.confirmed == "yes" and median.model.startswith(models)
    ]
    found = [one for one in _as_neighbours(pairs, medians) if family(one.gpu) == near]
    return tuple(sorted(found, key=lambda one: one.speedup))


def _as_neighbours(pairs: list[TrainingPair], medians: list[GpuMedian]) -> Iterator[Neighbour]:
    for pair in pairs:
        gain = pair.speedup
        yield Neighbour(pair.name, pair.gpu_type, pair.baseline, gain, gain, gain, 1, pair.where)
    for many in medians:
        yield Neighbour(
            many.model, many.gpu_type, many.baseline, many.median, many.low, many.high,
            many.runs, many.where,
        )  # fmt: skip
