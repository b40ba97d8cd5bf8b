"""The explorer of published runs: what mixed precision gave others, GPU by GPU and model by model.

The pairs come from `speed.published`, with their sources and what else differs in them; the
limits beside them come from `roofline`. The page in `static/` shows both and computes nothing new.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import anywidget
import traitlets

from amp_lessons.amp import roofline
from amp_lessons.amp.speed.published import GpuMedian, TrainingPair, load_published
from amp_lessons.lessons.widgets.files import module, style
from amp_lessons.lessons.widgets.traits import Refused

Row = TrainingPair | GpuMedian

PLACEBO = "the logs of the runs labelled FP16 say that AMP was off, so both are 32-bit runs"


class PublishedExplorer(anywidget.AnyWidget):
    """Published pairs of training runs, 32 bits beside mixed precision, on one GPU.

    Args:
        gpu: as in `gpus()`, in any case: ``"A100 80GB"``, ``"V100 16GB"``, ``"RTX 3090"``.
        model: one that was published for this GPU, such as ``"BERT large"``; "" for all of them.
        batch: of that model, as `batch_of` writes it: ``"64"``, ``"128 → 256"``; "" for any.

    Attributes:
        gpu, model, batch: as above.

    All follow the learner, and the widget follows when a lesson sets one of them. When the GPU
    changes, a model that it does not have becomes "", and so does the batch.

    Raises:
        ValueError: for a GPU, a model or a batch without a published pair.
        RecordError: if the published files can't be read.
    """

    _esm = module("published_explorer.mjs")
    _css = style("widgets.css", "published_explorer.css")

    data = traitlets.Dict().tag(sync=True)
    gpu = traitlets.Unicode("A100 80GB").tag(sync=True)
    model = traitlets.Unicode("").tag(sync=True)
    batch = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self, gpu: str = "A100 80GB", model: str = "", batch: str = "", **traits: Any
    ) -> None:
        # One after the other: which models there are depends on the GPU, and so on.
        super().__init__(data=_plain_data(), gpu=gpu, **traits)
        self.model = model
        self.batch = batch

    @property
    def rows(self) -> tuple[Row, ...]:
        """The pairs that are shown: of a model all, or of all models those on one GPU."""
        if not self.model:
            alone = [row for row in _rows(self.gpu) if row.gpu_count == 1]
            return tuple(sorted(alone, key=speedup_of, reverse=True))
        rows = [row for row in _rows(self.gpu) if row.model == self.model]
        shown = [row for row in rows if self.batch in ("", batch_of(row))]
        return tuple(sorted(shown, key=lambda row: row.gpu_count))

    @property
    def limit(self) -> float | None:
        """How many times as fast compute-bound work can become, by the peaks of `roofline`.

        None where it has no figures for this GPU.
        """
        return _limit(self.gpu)["limit"]

    @traitlets.validate("gpu")
    def _check_gpu(self, proposal: dict[str, Any]) -> str:
        return _known("gpu", proposal["value"], gpus())

    @traitlets.observe("gpu")
    def _keep_model(self, _: Any) -> None:
        if self.model and self.model not in models_on(self.gpu):
            self.model = ""

    @traitlets.validate("model")
    def _check_model(self, proposal: dict[str, Any]) -> str:
        name = proposal["value"]
        return _known("model", name, models_on(self.gpu), f" on {self.gpu}") if name else ""

    @traitlets.observe("model", "gpu")
    def _keep_batch(self, _: Any) -> None:
        if self.batch and self.batch not in self._batches:
            self.batch = ""

    @traitlets.validate("batch")
    def _check_batch(self, proposal: dict[str, Any]) -> str:
        name = proposal["value"]
        if name and not self.model:
            raise Refused(f"batch {name!r} needs a model: choose the model first")
        where = f" of {self.model} on {self.gpu}"
        return _known("batch", name, self._batches, where) if name else ""

    @property
    def _batches(self) -> tuple[str, ...]:
        rows = [row for row in _rows(self.gpu) if row.model == self.model]
        return tuple(dict.fromkeys(batch_of(row) for row in rows))


def gpus() -> tuple[str, ...]:
    """The GPUs with published pairs: NVIDIA's tables first, then Lambda's, as they were read."""
    published = load_published()
    nvidia = sorted({pair.gpu_type for pair in published.training}, reverse=True)
    return tuple(dict.fromkeys([*nvidia, *(row.gpu_type for row in _medians())]))


def models_on(gpu: str) -> tuple[str, ...]:
    """The models with published pairs on a GPU of `gpus()`, by name."""
    return tuple(sorted({row.model for row in _rows(gpu)}, key=str.lower))


def batch_of(row: Row) -> str:
    """The batch of each GPU in words: ``"64"``, ``"128 → 256"``, or ``"not printed"``."""
    if isinstance(row, GpuMedian):
        return "differs" if row.other_batch else "same"
    if not row.batch_baseline or not row.batch_mixed:
        return "not printed"
    if row.batch_baseline == row.batch_mixed:
        return row.batch_mixed
    return f"{row.batch_baseline} → {row.batch_mixed}"


def speedup_of(row: Row) -> float:
    """The mixed rate divided by the baseline's; of several runs the median."""
    return row.median if isinstance(row, GpuMedian) else row.speedup


def _medians() -> tuple[GpuMedian, ...]:
    """Lambda's runs on one GPU."""
    return tuple(row for row in load_published().medians if row.gpu_count == 1)


def _rows(gpu: str) -> list[Row]:
    pairs: list[Row] = [p for p in load_published().training if p.gpu_type == gpu]
    return pairs + [row for row in _medians() if row.gpu_type == gpu]


def _known(what: str, name: str, names: tuple[str, ...], where: str = "") -> str:
    """The name as it is written in ``names``. Raises `Refused`."""
    found = next((each for each in names if each.lower() == name.strip().lower()), None)
    if found is None:
        there = ", ".join(names)
        raise Refused(f"{what} {name!r} has no published pair{where}; choose one of {there}")
    return found


# ---- as the page takes it -----------------------------------------------------------------------


@cache
def _plain_data() -> dict[str, Any]:
    """All pairs and limits; the form is told in published_explorer.mjs."""
    rows = [row for gpu in gpus() for row in _rows(gpu)]
    sources = list(dict.fromkeys(row.source for row in rows))
    addresses = {row.source: row.url.partition("#")[0] for row in rows}
    return {
        "gpus": [{"name": name, **_limit(name)} for name in gpus()],
        "pairs": [_plain_row(row) | {"source": sources.index(row.source)} for row in rows],
        "sources": [{"name": f"{s.repository}, {s.path}", "commit": s.commit[:7],
                     "url": addresses[s]} for s in sources],
    }  # fmt: skip


@cache
def _limit(gpu: str) -> dict[str, Any]:
    """The peaks of a GPU's baseline and of FP16 in TFLOP/s, and their ratio; None if not known."""
    baseline = "fp32" if _rows(gpu)[0].baseline == "FP32" else "tf32"
    family = next((p.family for p in load_published().training if p.gpu_type == gpu), gpu)
    try:
        # A DGX A100 with 40 GB has the peaks of one with 80, so the family's figures will do.
        known = roofline.find_gpu(family)
        limit = roofline.speedup_limit(known, baseline, "fp16")
    except ValueError:
        return {"baseline": baseline.upper(), "limit": None, "peaks": None}
    peaks = [known.peak(dtype) / 1e12 for dtype in (baseline, "fp16")]
    return {"baseline": baseline.upper(), "limit": limit, "peaks": peaks}


def _plain_row(row: Row) -> dict[str, Any]:
    common = {
        "gpu": row.gpu_type, "model": row.model, "gpus": row.gpu_count, "batch": batch_of(row),
        "speedup": speedup_of(row), "line": row.line,
    }  # fmt: skip
    if isinstance(row, GpuMedian):
        return common | {
            "name": row.model,
            "rates": _spread(row),
            "differs": "batch" if row.other_batch else "",
            "suspect": "" if row.confirmed == "yes" else PLACEBO,
            "note": "",
        }
    rates = f"{row.baseline} {row.rate_baseline:,g}, {row.mixed} {row.rate_mixed:,g} {row.unit}"
    return common | {
        "name": row.name,
        "rates": rates,
        "differs": _differs(row),
        "suspect": row.suspect,
        "note": row.note,
    }


def _differs(row: TrainingPair) -> str:
    """What besides the format differs in a pair: "", "batch", or "more", which may include it."""
    if row.comparison == "batch not printed" or row.also_differs:
        return "more"
    return "" if row.comparison == "same batch" else "batch"


def _spread(row: GpuMedian) -> str:
    formats = f"{row.baseline} and FP16"
    if row.runs == 1:
        return f"{formats}, one pair of runs by Lambda"
    return f"{formats}, median of {row.runs} pairs by Lambda: {row.low:.2f} to {row.high:.2f}"
