"""Short ways to choose among published rows, so that a cell needs one line for it.

Each takes rows and returns some of them, in their order, or a summary of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from amp_lessons.amp.speed.published.rows import NvidiaRow, Published, TrainingPair

N = TypeVar("N", bound=NvidiaRow)


def one_gpu(rows: Iterable[N]) -> tuple[N, ...]:
    """The rows of a single GPU."""
    return tuple(row for row in rows if row.gpu_count == 1)


def on(rows: Iterable[N], gpu: str) -> tuple[N, ...]:
    """The rows of a kind of GPU: "V100", "A100", "T4", or with its memory, "A100 80GB"."""
    return tuple(row for row in rows if gpu in (row.family, row.gpu_type))


def of(rows: Iterable[N], *models: str) -> tuple[N, ...]:
    """The rows of some models, each by the start of its name: "ResNet50" finds "ResNet50 v1.5"."""
    return tuple(row for row in rows if row.model.startswith(models))


def like_for_like(rows: Iterable[TrainingPair]) -> tuple[TrainingPair, ...]:
    """The pairs of equal batches in which nothing else is known to differ."""
    return tuple(row for row in rows if row.like_for_like)


def on_both(rows: Iterable[TrainingPair]) -> tuple[TrainingPair, ...]:
    """The pairs of models (with variant and stage) that stand there for a V100 and for an A100."""
    rows = tuple(rows)
    names = [{row.name for row in on(rows, gpu)} for gpu in ("V100", "A100")]
    return tuple(row for row in rows if all(row.name in found for found in names))


def first_variants(rows: Iterable[N]) -> tuple[N, ...]:
    """One variant for each model, the first among the rows, on every GPU it is there for."""
    rows = tuple(rows)
    first = {row.model: row.name for row in reversed(rows)}
    return tuple(row for row in rows if row.name == first[row.model])


@dataclass(frozen=True)
class FourRates:
    """The best printed rates of a model on two GPUs in two precisions.

    Batches and containers differ between the four, and the GPUs differ in more than their formats.

    Attributes:
        name: of the model.
        unit: of the rates.
        v100_fp32, v100_mixed, a100_tf32, a100_mixed: the rates.
    """

    name: str
    unit: str
    v100_fp32: float
    v100_mixed: float
    a100_tf32: float
    a100_mixed: float

    @property
    def relative(self) -> tuple[float, float, float, float]:
        """The four rates divided by that of the V100 in FP32."""
        rates = (self.v100_fp32, self.v100_mixed, self.a100_tf32, self.a100_mixed)
        first, second, third, fourth = (rate / self.v100_fp32 for rate in rates)
        return first, second, third, fourth


def four_rates(rows: Iterable[TrainingPair]) -> tuple[FourRates, ...]:
    """The best rates of each model that is there for both GPUs in one unit, suspect rows left out.

    Choose the number of GPUs first: ``four_rates(one_gpu(published.training))``.
    """
    rows = on_both(row for row in rows if not row.suspect)
    found = []
    for name in dict.fromkeys(row.name for row in rows):
        v100, a100 = (on((r for r in rows if r.name == name), gpu) for gpu in ("V100", "A100"))
        units = {row.unit for row in v100 + a100}
        if len(units) == 1:
            best = [
                max(rates)
                for pairs in (v100, a100)
                for rates in ([r.rate_baseline for r in pairs], [r.rate_mixed for r in pairs])
            ]
            found.append(FourRates(name, units.pop(), *best))
    return tuple(found)


def table(rows: Sequence[TrainingPair]) -> str:
    """The pairs as lines of text: model, GPUs, batches, rates, speed-up and what differs."""
    return "\n".join(map(_line, rows))


def _line(row: TrainingPair) -> str:
    batches = f"{row.batch_baseline or '?'} → {row.batch_mixed or '?'}"
    rates = f"{row.rate_baseline:,.6g} → {row.rate_mixed:,.6g} {row.unit}"
    differs = "" if row.comparison == "same batch" else row.comparison
    also = f"other {row.also_differs}" if row.also_differs else ""
    remarks = ", ".join(filter(None, [differs, also, "suspect" if row.suspect else ""]))
    return (
        f"{row.name[:34]:34} {row.gpu_count:3} x {row.gpu_type:9} {row.baseline} → {row.mixed}  "
        f"batch {batches:15} {rates:32} {row.speedup:5.2f}x  {remarks}".rstrip()
    )


def across_gpus(
    published: Published,
    models: Sequence[str],
    gpus: Sequence[str] = ("V100 16GB", "A100 80GB SXM", "H100 80GB SXM", "B200 192GB"),
) -> str:
    """Lambda's median speed-ups of some models on one GPU of each kind, a line a model."""
    lines = []
    for model in models:
        rows = [row for row in published.medians if row.model.startswith(model)]
        found = {row.gpu_type: row.median for row in rows if row.gpu_count == 1}
        cells = [f"{gpu} {found[gpu]:.2f}" for gpu in gpus if gpu in found]
        lines.append(f"{model:12}" + "  ".join(cells))
    return "\n".join(lines)
