"""What others measured and published, one dataclass for each table, each row with its source.

A table's columns are the fields of its dataclass; `tables` checks them. Rates, times and accuracies
are as printed. Speed-ups are computed from them, because a few printed ones are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

Baseline = Literal["FP32", "TF32"]
Mixed = Literal["FP16", "BF16"]
Comparison = Literal["same batch", "other batch", "batch not printed"]
Besides = Literal["", "layout", "layout, perhaps", "batch of a step"]
Answer = Literal["yes", "no"]
Signed = Annotated[float, "may be negative"]


@dataclass(frozen=True)
class Source:
    """A file of a repository at a commit, or a folder (its path ends with "/").

    Attributes:
        name: what rows call it.
        repository: on GitHub, such as "NVIDIA/DeepLearningExamples".
        path: in the repository.
        commit: 40 hex digits.
        licence: of the file, or "none found".
        author: who published it.
        use: what this course takes from it.
    """

    name: str
    repository: str
    path: str
    commit: str
    licence: str
    author: str
    use: str

    def where(self, line: int = 0) -> str:
        """Repository, path, line and commit in words. ``line`` 0 stands for the whole file."""
        place = f"{self.repository}, {self.path}"
        return f"{place}, {f'line {line}, ' if line else ''}commit {self.commit[:7]}"

    def url(self, line: int = 0) -> str:
        """Where GitHub shows that line at that commit."""
        kind = "tree" if self.path.endswith("/") else "blob"
        place = f"https://github.com/{self.repository}/{kind}/{self.commit}/{self.path}"
        if not line:
            return place.rstrip("/")
        # GitHub renders Markdown, and then knows no lines, unless it is asked for the plain text.
        return f"{place}{'?plain=1' if self.path.endswith('.md') else ''}#L{line}"


@dataclass(frozen=True, kw_only=True)
class Quoted:
    """What every row has.

    Attributes:
        source: where it was published.
        line: of that file, where the row's table begins; 0 if the row comes from several files.
    """

    source: Source
    line: int

    @property
    def where(self) -> str:
        """Such as "NVIDIA/DeepLearningExamples, PyTorch/.../README.md, line 69, commit 729963d"."""
        return self.source.where(self.line)

    @property
    def url(self) -> str:
        """A link to that line at that commit."""
        return self.source.url(self.line)


@dataclass(frozen=True, kw_only=True)
class NvidiaRow(Quoted):
    """What the rows of NVIDIA's tables share.

    Attributes:
        id: of this row; it stays the same.
        model: such as "ResNet50 v1.5".
        variant: of the model or its input, such as "large" or "seq 128"; or "".
        gpu: the machine as printed.
        gpu_type: such as "V100 16GB".
        gpu_count: GPUs that worked together.
        software: the container, such as "NGC 21.03". Containers differ between models: compare two
            precisions of a row, not two models.
        suspect: why we doubt the row, or "". These are our reasons, not the source's.
        note: what else one should know. "two tables": the two precisions stand in two tables, and
            the line is the baseline's.
    """

    id: str
    model: str
    variant: str
    gpu: str
    gpu_type: str
    gpu_count: int
    software: str
    suspect: str
    note: str

    @property
    def name(self) -> str:
        """The model and its variant."""
        return f"{self.model} {self.variant}".strip()

    @property
    def family(self) -> str:
        """The GPU without its memory: "V100", "A100" or "T4"."""
        return self.gpu_type.partition(" ")[0]


@dataclass(frozen=True, kw_only=True)
class TrainingPair(NvidiaRow):
    """A training's throughput in 32 bits and in mixed precision.

    Attributes:
        task: such as "object detection (COCO)".
        baseline: "FP32" on a V100; "TF32" on an A100, never IEEE FP32.
        mixed: the 16-bit format.
        batch_baseline, batch_mixed: per GPU, as printed; "" where the table prints none. Some are
            in tokens, and BERT's on V100 are accumulated: see ``note``.
        rate_baseline, rate_mixed: in ``unit``.
        stated_speedup: as printed, or None. NCF prints the inverse.
        comparison: what the printed batches say.
        also_differs: what else isn't equal. "layout": only the mixed run uses channels_last.
            "batch of a step": the printed batches are equal because gradients are accumulated.
    """

    task: str
    baseline: Baseline
    mixed: Mixed
    batch_baseline: str
    batch_mixed: str
    rate_baseline: float
    rate_mixed: float
    unit: str
    stated_speedup: float | None
    comparison: Comparison
    also_differs: Besides

    @property
    def name(self) -> str:
        """The model and its variant, with the stage of training where the task names one."""
        stages = ("pre-training", "fine-tuning")
        stage = next((stage for stage in stages if stage in self.task), "")
        return f"{super().name} {stage}".strip()

    @property
    def speedup(self) -> float:
        """Mixed rate divided by baseline rate."""
        return self.rate_mixed / self.rate_baseline

    @property
    def like_for_like(self) -> bool:
        """True if the printed batches are equal and nothing else is known to differ."""
        return self.comparison == "same batch" and not self.also_differs


@dataclass(frozen=True, kw_only=True)
class AccuracyPair(NvidiaRow):
    """The same recipe, trained in 32 bits and in mixed precision: what both reached.

    Attributes:
        metric: such as "top-1 %".
        better: whether a higher or a lower value is better.
        final: "no" for a loss along the way.
        baseline: "FP32" or "TF32".
        value_baseline, value_mixed: as printed.
        std_baseline, std_mixed: the standard deviations over runs, where printed.
        runs: what the source says about the number of runs or epochs.
    """

    metric: str
    better: Literal["higher", "lower"]
    final: Answer
    baseline: Baseline
    value_baseline: Signed
    value_mixed: Signed
    std_baseline: float | None
    std_mixed: float | None
    runs: str

    @property
    def gain(self) -> float:
        """Mixed minus baseline, with the sign set so that plus is better for mixed."""
        difference = self.value_mixed - self.value_baseline
        return difference if self.better == "higher" else -difference

    @property
    def relative_gain(self) -> float:
        """`gain` divided by the baseline's value."""
        return self.gain / abs(self.value_baseline)

    @property
    def combined_std(self) -> float | None:
        """The standard deviation of the difference, sqrt(a^2 + b^2), or None."""
        if self.std_baseline is None or self.std_mixed is None:
            return None
        return math.hypot(self.std_baseline, self.std_mixed)

    @property
    def deviations(self) -> float | None:
        """`gain` divided by `combined_std`, or None where no spread is printed."""
        return self.gain / self.combined_std if self.combined_std else None


@dataclass(frozen=True, kw_only=True)
class TimePair(NvidiaRow):
    """How long a whole training took in 32 bits and in mixed precision.

    Attributes:
        baseline, mixed: the formats.
        hours_baseline, hours_mixed: in hours.
        printed_baseline, printed_mixed: as the table has them.
        unit: of the printed times.
        stated_speedup: as printed, or None.
    """

    baseline: Baseline
    mixed: Mixed
    hours_baseline: float
    hours_mixed: float
    printed_baseline: str
    printed_mixed: str
    unit: str
    stated_speedup: float | None

    @property
    def speedup(self) -> float:
        """Baseline time divided by mixed time."""
        return self.hours_baseline / self.hours_mixed


@dataclass(frozen=True, kw_only=True)
class InferencePair(NvidiaRow):
    """Inference in 32 bits and in mixed precision on one GPU: throughput, latency or both.

    Attributes:
        task: such as "image classification (ImageNet)".
        baseline, mixed: the formats. V100 and T4 have no TF32.
        batch: inputs at a time.
        rate_baseline, rate_mixed: in ``unit``, or None.
        unit: of the rates, or "".
        latency_baseline, latency_mixed: average time for a batch in ``latency_unit``, or None.
        latency_unit: "s", "ms" or "".
        stated_speedup: as printed, or None.
    """

    task: str
    baseline: Baseline
    mixed: Mixed
    batch: int
    rate_baseline: float | None
    rate_mixed: float | None
    unit: str
    latency_baseline: float | None
    latency_mixed: float | None
    latency_unit: Literal["", "s", "ms"]
    stated_speedup: float | None

    def __post_init__(self) -> None:
        rates = (self.rate_baseline, self.rate_mixed)
        if None in rates and None in (self.latency_baseline, self.latency_mixed):
            raise ValueError("it needs both rates, or both latencies")

    @property
    def speedup(self) -> float:
        """By the throughput where it is printed, otherwise by the latency."""
        if self.rate_baseline is not None and self.rate_mixed is not None:
            return self.rate_mixed / self.rate_baseline
        assert self.latency_baseline is not None
        assert self.latency_mixed is not None
        return self.latency_baseline / self.latency_mixed


@dataclass(frozen=True, kw_only=True)
class GpuMedian(Quoted):
    """Lambda's training runs of a model on a kind of GPU: their median speed-up, not the runs.

    Attributes:
        gpu_type: such as "H100 80GB SXM", or "every GPU".
        gpu_count: GPUs that worked together; 0 for any number of them.
        model: such as "BERT large".
        confirmed: "yes" if the logs say that mixed precision was on in the run labelled FP16 and
            off in the run labelled FP32. "no" where the log of the FP16 run says it was off.
        baseline: "FP32", or "FP32/TF32" where the GPU has TF32 and the log doesn't say which.
        runs: pairs of runs.
        machines: how many machines they ran on.
        median, low, high: of the speed-ups.
        other_batch: how many of the pairs have another batch in mixed precision.
    """

    gpu_type: str
    gpu_count: int
    model: str
    confirmed: Answer
    baseline: Literal["FP32", "FP32/TF32"]
    runs: int
    machines: int
    median: float
    low: float
    high: float
    other_batch: int


@dataclass(frozen=True, kw_only=True)
class MatmulRate(Quoted):
    """How fast one matrix product ran.

    Attributes:
        gpu: as printed.
        dtype: such as "BF16".
        shape_mxnxk: the sizes of the product.
        tflops: 10^12 floating-point operations a second, printed or computed from a printed time.
        peak: the data sheet's dense TFLOPS as the source gives it, or None.
        how: how it was measured, in words.
        error: the largest absolute error against FP64, where printed.
    """

    gpu: str
    dtype: str
    shape_mxnxk: str
    tflops: float
    peak: float | None
    how: str
    error: float | None

    @property
    def share(self) -> float | None:
        """The rate divided by the peak, or None."""
        return self.tflops / self.peak if self.peak else None


@dataclass(frozen=True, kw_only=True)
class LogLine(Quoted):
    """A line of the log of one of Lambda's runs, word for word.

    Attributes:
        model, gpu_type: what ran, and on what.
        label: the precision in Lambda's table.
        text: the line.
        mixed: whether the run was in mixed precision.
        note: what else one should know.
    """

    model: str
    gpu_type: str
    label: str
    text: str
    mixed: Answer
    note: str


@dataclass(frozen=True)
class LeftOut:
    """A row of a table that isn't a pair, or is there twice: kept so that it can be counted.

    Attributes:
        table: "training" or "time_to_train".
        id, model, gpu_type, gpu_count: as in the table.
        why_left_out: "repeats another row" or "no 32-bit run".
        where: in words.
    """

    table: str
    id: str
    model: str
    gpu_type: str
    gpu_count: int
    why_left_out: Literal["repeats another row", "no 32-bit run"]
    where: str


@dataclass(frozen=True)
class Published:
    """All that the course quotes. Nothing in it was measured by the course.

    Attributes:
        training: 287 pairs of throughputs by NVIDIA, 32 models, V100 and A100.
        accuracy: 177 pairs by NVIDIA, 145 of them final.
        time_to_train: 122 pairs by NVIDIA.
        inference: 423 pairs by NVIDIA, one GPU: V100, A100 and T4.
        medians: Lambda's speed-ups for each GPU, number of GPUs and model.
        overall: the same over all GPUs: on one GPU (``gpu_count`` 1), and on any number (0).
        matmul: ten rates of matrix products.
        logs: lines of Lambda's logs.
        left_out: rows that aren't pairs.
        sources: by name.
    """

    training: tuple[TrainingPair, ...]
    accuracy: tuple[AccuracyPair, ...]
    time_to_train: tuple[TimePair, ...]
    inference: tuple[InferencePair, ...]
    medians: tuple[GpuMedian, ...]
    overall: tuple[GpuMedian, ...]
    matmul: tuple[MatmulRate, ...]
    logs: tuple[LogLine, ...]
    left_out: tuple[LeftOut, ...]
    sources: Mapping[str, Source]

    def best_pairs(self, gpu_count: int = 1) -> tuple[TrainingPair, ...]:
        """For each model, variant and GPU (V100, A100) the pair that compares most fairly.

        A pair that is like for like comes before others, and then the higher mixed rate.
        Suspect rows are left out.
        """
        rows = [row for row in self.training if row.gpu_count == gpu_count and not row.suspect]
        best: dict[tuple[str, str, str], TrainingPair] = {}
        for row in sorted(rows, key=lambda row: (row.like_for_like, row.rate_mixed)):
            best[row.name, row.task, row.family] = row
        return tuple(row for row in rows if row in best.values())

    def by_model(self, gpu_count: int = 1) -> tuple[GpuMedian, ...]:
        """Lambda's speed-ups of each model over all GPUs; ``gpu_count`` 0 for any number of them.

        A model has two rows if only some of its runs are confirmed.
        """
        rows = (row for row in self.overall if row.gpu_count == gpu_count)
        return tuple(row for row in rows if " and " not in row.model)

    def spread_pairs(self) -> tuple[AccuracyPair, ...]:
        """The final accuracies that are printed with a standard deviation."""
        return tuple(r for r in self.accuracy if r.final == "yes" and r.deviations is not None)
