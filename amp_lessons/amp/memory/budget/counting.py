"""A training step of one model in four precisions, at two batch sizes, and what follows from them.

Nothing is measured: the bytes are those of `memory.training_memory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import nn

from amp_lessons.amp.explain.passes import TraceRequest, what_raises
from amp_lessons.amp.fake_tensors.attention import gpu_named, settings
from amp_lessons.amp.fake_tensors.errors import MODEL_RAISES, TraceError
from amp_lessons.amp.fake_tensors.models import check_inputs, check_model
from amp_lessons.amp.fake_tensors.modes import check_device
from amp_lessons.amp.fake_tensors.not_run import NotRun, worth_naming
from amp_lessons.amp.loading.batches import batch_of, of_batch, with_batch
from amp_lessons.amp.loading.model_spec import LoadedModel, LoadError
from amp_lessons.amp.memory.training import (
    AUTOCAST,
    PRECISIONS,
    STATE_COPIES,
    STEP_COPIES,
    Loss,
    Memory,
    ModuleMemory,
    crossover_batch,
    memory_by_module,
)

CARDS = (16, 24, 40, 80)
"""Memory of common GPUs in GB, taken as 10**9 bytes each."""

OPTIMIZERS = {"sgd": "sgd", "momentum": "momentum", "adam": "adam", "adamw": "adam"}
"""What a command line may say, and which of `STATE_COPIES` it is: AdamW keeps what Adam keeps."""

NOT_COUNTED = (
    "the CUDA context",
    "workspaces of cuBLAS and cuDNN",
    "the allocator's rounding and fragmentation",
    "temporary tensors of the backward",
)


@dataclass(frozen=True)
class Survey:
    """Bytes of a training step by precision.

    Attributes:
        name: of the model.
        device: whose rules and kernels.
        optimizer: one of `OPTIMIZERS`.
        batch: of the inputs; None where they have none that could be changed.
        at: the memory of a step, by precision.
        twice: of a step with twice the batch; {} where it can't be had.
        modules: what each module adds, by precision.
        notes: what a reader must know about the count.
    """

    name: str
    device: str
    optimizer: str
    batch: int | None
    at: Mapping[str, Memory]
    twice: Mapping[str, Memory]
    modules: Mapping[str, tuple[ModuleMemory, ...]]
    notes: tuple[str, ...] = ()

    @property
    def not_run(self) -> tuple[NotRun, ...]:
        """Parts of the model that the step does not use, those that are worth naming."""
        return worth_naming(next(iter(self.at.values())).not_run) if self.at else ()

    @property
    def missed(self) -> tuple[NotRun, ...]:
        """Those among them that a step with other inputs would use: it would need more."""
        return tuple(part for part in self.not_run if part.is_missed)

    def peak(self, precision: str, optimizer: str = "") -> int:
        """The most bytes that are needed: for the whole step, or in ``optimizer.step()``.

        Adam's step needs room for a moment when the activations are gone; with a small batch that
        is the larger of the two.
        """
        memory = _with_optimizer(self.at[precision], optimizer or self.optimizer)
        return max(memory.total, self._in_step(memory, optimizer or self.optimizer))

    def largest_batch(self, precision: str, card: int) -> int | None:
        """The largest batch that fits on a GPU; 0 if not even one does; None if not known.

        It is not known either if the step leaves out a part of the model that others would use.

        Args:
            precision: one of those in `at`.
            card: GB of the GPU, each 10**9 bytes.
        """
        if self.batch is None or precision not in self.twice or self.missed:
            return None
        first, second = self.at[precision].total, self.twice[precision].total
        each = (second - first) / self.batch
        room = card * 10**9
        if self._in_step(self.at[precision], self.optimizer) > room or each <= 0:
            return 0 if first > room else None
        return max(0, int((room - first) / each + self.batch))

    def crossover(self, precision: str = "amp fp16") -> int | None:
        """The smallest batch at which a precision needs less than float32; None if none does.

        Raises:
            ValueError: if the batch could not be changed, or float32 was left out.
        """
        if not self.knows_batches or "fp32" not in self.at:
            raise ValueError("the memory of two batches is needed")
        return crossover_batch(self._one_and_two("fp32"), self._one_and_two(precision))

    @property
    def knows_batches(self) -> bool:
        return bool(self.batch and self.twice)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data, bytes as whole numbers."""
        known = self.knows_batches
        return {
            "model": self.name,
            "device": self.device,
            "optimizer": self.optimizer,
            "batch": self.batch,
            "torch": torch.__version__,
            "precisions": {
                name: {
                    **memory.bytes,
                    "total": memory.total,
                    "peak": self.peak(name),
                    "each_example": self.each_example(name),
                    "largest_batch": {str(gb): self.largest_batch(name, gb) for gb in CARDS},
                    "peak_by_optimizer": {other: self.peak(name, other) for other in STATE_COPIES},
                    "modules": [asdict(module) for module in self.modules[name]],
                }
                for name, memory in self.at.items()
            },
            "crossover_batch": {
                name: self.crossover(name)
                for name in self.at
                if known and not self.missed and name != "fp32" and "fp32" in self.at
            },
            "not_run": [asdict(part) for part in self.not_run],
            "not_counted": list(NOT_COUNTED),
            "notes": list(self.notes),
        }

    def each_example(self, precision: str) -> int | None:
        """Bytes that one more example adds; None if the batch could not be changed."""
        if not self.batch or precision not in self.twice:
            return None
        return (self.twice[precision].total - self.at[precision].total) // self.batch

    def _in_step(self, memory: Memory, optimizer: str) -> int:
        more = STEP_COPIES[OPTIMIZERS[optimizer]] * memory.gradients
        return memory.model_states + memory.data + more

    def _one_and_two(self, precision: str) -> list[Memory]:
        """The memory of a batch of one and of two, on the line through those that were counted."""
        assert self.batch is not None, "crossover has looked"
        memory, second, counted = self.at[precision], self.twice[precision].bytes, self.batch

        def of_batch(batch: int) -> dict[str, Any]:
            more = (batch - counted) / counted
            return {k: round(low + more * (second[k] - low)) for k, low in memory.bytes.items()}

        return [replace(memory, **of_batch(batch)) for batch in (1, 2)]


def survey(
    given: LoadedModel,
    optimizer: str = "adamw",
    device: str = "cuda",
    loss: Loss | None = None,
    target: Any = None,
    train: bool | None = None,
    precisions: tuple[str, ...] = PRECISIONS,
    gpu: str | None = None,
) -> Survey:
    """Count a training step in each precision, at the batch that was given and at twice that.

    Args:
        given: the model and its inputs.
        optimizer: one of `OPTIMIZERS`.
        device, loss, target, train, gpu: as for `memory.training_memory`.
        precisions: which of `memory.PRECISIONS`.

    Raises:
        LoadError: for an optimizer or a device that is not known.
        TraceError: if no precision can be traced.
    """
    if optimizer not in OPTIMIZERS:
        raise LoadError(f"--optimizer {optimizer}: choose one of {', '.join(OPTIMIZERS)}")
    if device not in ("cpu", "cuda"):
        raise LoadError(f"--device {device}: choose cuda or cpu")
    check_model(given.model)
    step = _Step(given, OPTIMIZERS[optimizer], device, loss, target, train, gpu)
    check_inputs(step.inner, given.args, dict(given.kwargs))
    check_device(device)
    batch = batch_of(given)
    doubled = step.with_batch(batch, 2 * batch) if batch else None
    at, modules, left_out = _by_precision(step, precisions)
    twice, unknown = _by_precision_doubled(doubled, at) if doubled else ({}, [])
    notes = dict.fromkeys([*_notes(given.model, device, gpu), *left_out, *unknown])
    return Survey(given.name, device, optimizer, batch, at, twice, modules, tuple(notes))


@dataclass(frozen=True)
class _Step:
    """A training step, but for its precision. The fields are arguments of `survey`."""

    given: LoadedModel
    optimizer: str
    device: str
    loss: Loss | None
    target: Any
    train: bool | None
    gpu: str | None

    @property
    def inner(self) -> nn.Module:
        """The model, also where `torch.compile` has wrapped it."""
        return getattr(self.given.model, "_orig_mod", self.given.model)

    def with_batch(self, old: int, new: int) -> _Step:
        """The same step with another batch size."""
        target = of_batch(self.target, old, new)
        return replace(self, given=with_batch(self.given, new), target=target)

    def counted(self, precision: str) -> tuple[Memory, tuple[ModuleMemory, ...]]:
        """Its memory, and what each module adds. Raises `TraceError` if it can't run."""
        return memory_by_module(
            self.given.model,
            *self.given.args,
            precision=precision,
            optimizer=self.optimizer,
            loss=self.loss,
            target=self.target,
            device=self.device,
            kwargs=self.given.kwargs,
            train=self.train,
            gpu=self.gpu,
        )

    def raises(self, precision: str) -> str:
        """Why it can't run in this precision, although fake tensors run it; "" if it can."""
        floats = torch.bfloat16 if precision == "bf16" else None
        low = AUTOCAST[precision]
        asked = TraceRequest(
            self.inner, self.given.args, self.device, low or torch.float16, self.given.kwargs,
            self.loss, self.target, self.train, gpu=self.gpu, floats=floats,
        )  # fmt: skip
        return what_raises(asked, low is not None)


def _by_precision(
    step: _Step, precisions: tuple[str, ...]
) -> tuple[dict[str, Memory], dict[str, tuple[ModuleMemory, ...]], list[str]]:
    """The memory of a step and of its modules; and why precisions were left out.

    Raises:
        TraceError: if no precision can be traced.
    """
    at: dict[str, Memory] = {}
    modules: dict[str, tuple[ModuleMemory, ...]] = {}
    left_out: list[str] = []
    # Most models raise in no precision, and then one look is enough: float16 is the pickiest.
    pickiest = step.raises("amp fp16")
    for precision in precisions:
        trouble = pickiest and (pickiest if precision == "amp fp16" else step.raises(precision))
        if trouble:
            left_out.append(f"{precision} is left out: this step raises: {trouble}")
            continue
        try:
            at[precision], modules[precision] = step.counted(precision)
        except TraceError as error:
            if precision == "fp32" or not (at or pickiest):
                raise
            left_out.append(f"{precision} is left out: {error}")
    if not at:
        raise TraceError(left_out[-1], kind=MODEL_RAISES)
    return at, modules, left_out


def _by_precision_doubled(
    doubled: _Step, at: Mapping[str, Memory]
) -> tuple[dict[str, Memory], list[str]]:
    """The memory of a step with twice the batch; {} and why, where it can't run."""
    twice: dict[str, Memory] = {}
    for precision in at:
        if precision == "amp bf16" and at.get("amp fp16") == at[precision] and twice:
            twice[precision] = twice["amp fp16"]  # the same ops in formats of the same size
            continue
        try:
            twice[precision] = doubled.counted(precision)[0]
        except TraceError as error:
            return {}, [f"other batch sizes can't be told: {error}"]
    return twice, []


def _with_optimizer(memory: Memory, optimizer: str) -> Memory:
    copies = STATE_COPIES[OPTIMIZERS[optimizer]]
    return replace(memory, optimizer=copies * memory.gradients)


def _notes(model: nn.Module, device: str, gpu: str | None) -> list[str]:
    notes = []
    if any(isinstance(module, nn.RNNBase) for module in model.modules()):
        keeps = "keeps a workspace of its own for an RNN's backward"
        counted = "it's counted where this CPU has an RNN for the dtype"
        notes.append(
            f"cuDNN {keeps}; it isn't counted" if device == "cuda" else f"oneDNN {keeps}; {counted}"
        )
    if not any(p.requires_grad for p in model.parameters()):
        notes.append("no parameter needs a gradient, so nothing is trained")
    parameters = {p.dtype for p in model.parameters() if p.is_floating_point()}
    if parameters - {torch.float32}:
        names = ", ".join(sorted(str(dtype).partition(".")[2] for dtype in parameters))
        notes.append(f"the parameters are in {names}, so the first columns are not pure float32")
    if device == "cuda":
        notes.append(
            f"attention is counted as PyTorch {settings().torch} runs it on the "
            f"{gpu_named(gpu).upper()}; --gpu names another GPU"
        )
    return notes
