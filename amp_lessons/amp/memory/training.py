"""Where the bytes of a training step are: parameters, gradients, optimizer state, data,
activations, and the casts that autocast's cache keeps.

`training_memory` runs the forward once on fake tensors, so a model of any size can be asked about
on any machine; what autograd saves is counted by the hooks of `fake_tensors`. `allocator_check`
holds the count against what CUDA's allocator says, where there is one. `BytesAlive` follows the
bytes through a step, operation by operation, and `gpt_steps` does so for a GPT-2 of any size on
fake tensors.
"""

from __future__ import annotations

import copy
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from amp_lessons.amp.fake_tensors.calls import GpuCalls, on_gpu
from amp_lessons.amp.fake_tensors.errors import MODEL_RAISES, TraceError, kind_of, reason
from amp_lessons.amp.fake_tensors.known import KnownValues
from amp_lessons.amp.fake_tensors.models import (
    check_inputs,
    check_loss,
    check_model,
    fake_inputs,
    stand_in,
    tensors_in,
)
from amp_lessons.amp.fake_tensors.modes import (
    as_in_a_run,
    autocast_on,
    check_device,
    ctrl_c_between_ops,
    fake_mode,
    quiet,
    rng_kept,
)
from amp_lessons.amp.fake_tensors.not_run import NotRun, Used, worth_naming
from amp_lessons.amp.fake_tensors.ops import is_cached, run_op, storage_id
from amp_lessons.amp.fake_tensors.saved import SavedBytes
from amp_lessons.amp.training.models import GPT
from amp_lessons.core.sizes import size

AUTOCAST: dict[str, torch.dtype | None] = {
    "fp32": None,
    "amp fp16": torch.float16,
    "amp bf16": torch.bfloat16,
    "bf16": None,
}
PRECISIONS = tuple(AUTOCAST)
"""float32; autocast in one of two formats; and a model whose parameters are bfloat16."""

STATE_COPIES = {"sgd": 0, "momentum": 1, "adam": 2}
"""Tensors of a parameter's size and dtype that torch.optim's SGD, SGD with momentum, and Adam (or
AdamW) keep for each parameter. Adam's count of steps, 4 bytes a tensor, is left out."""

STEP_COPIES = {"sgd": 0, "momentum": 0, "adam": 1}
"""Tensors of a parameter's size that ``optimizer.step()`` takes for a moment in its "foreach" form,
CUDA's default: Adam's denominators. The tests follow real steps, operation by operation."""

Loss = Callable[[Any, Any], Tensor]
NOT_HERE = "not measured here: PyTorch finds no CUDA GPU"


@dataclass(frozen=True)
class Memory:
    """Bytes in use at the end of a forward pass, with the gradients that backward then adds.

    Attributes:
        parameters: of the model, each storage once.
        gradients: of the parameters that get one, in their dtype.
        optimizer: the state that stays between steps.
        data: the batch: inputs and target.
        activations: what autograd saved for backward, the output and the loss, without the four
            above. (The buffer in which `mse_loss` leaves its number is larger and not counted.)
        cast_cache: 16-bit copies of parameters, alive until autocast ends.
        not_run: parts of the model that this step does not use. Their parameters count, and the
            rest of what they would need does not.
    """

    parameters: int
    gradients: int
    optimizer: int
    data: int
    activations: int
    cast_cache: int
    not_run: tuple[NotRun, ...] = field(default=(), compare=False)

    @property
    def bytes(self) -> dict[str, int]:
        """The kinds of bytes, by their names."""
        kinds = ("parameters", "gradients", "optimizer", "data", "activations", "cast_cache")
        return {kind: getattr(self, kind) for kind in kinds}

    @property
    def total(self) -> int:
        return sum(self.bytes.values())

    @property
    def model_states(self) -> int:
        """Parameters, gradients and optimizer state: what does not depend on the batch."""
        return self.parameters + self.gradients + self.optimizer

    def __str__(self) -> str:
        rows = self.bytes | {"total": self.total}
        lines = [f"{n.replace('_', ' '):<12} {b:>18,}  {size(b)}" for n, b in rows.items()]
        return "\n".join([*lines, *map(str, worth_naming(self.not_run))])


@dataclass(frozen=True)
class ModuleMemory:
    """What one module adds to a step by itself, without the modules inside it, in bytes.

    Attributes:
        path: as `named_modules` gives it; "" for the model itself.
        kind: the class's name.
        parameters: a tensor that several modules share counts where it comes first.
        trained: those of the parameters that need a gradient.
        activations: what autograd saved while this module ran.
        cast_cache: 16-bit copies of its parameters.
    """

    path: str
    kind: str
    parameters: int
    trained: int
    activations: int
    cast_cache: int


def training_memory(
    model: nn.Module,
    *inputs: Any,
    precision: str = "fp32",
    optimizer: str = "sgd",
    loss: Loss | None = None,
    target: Any = None,
    device: str = "cpu",
    kwargs: Mapping[str, Any] | None = None,
    train: bool | None = None,
    gpu: str | None = None,
) -> Memory:
    """Count the bytes of a training step, with nothing allocated and nothing changed.

    Args:
        model: any module whose forward does not depend on values, on any device, also "meta".
        inputs: of its forward; only shapes and dtypes matter. For "bf16" tensors of floating
            point, the target's too, are taken to be bfloat16.
        precision: one of `PRECISIONS`.
        optimizer: "sgd", "momentum" or "adam".
        loss: called as ``loss(output, target)`` in the autocast region; what it saves counts.
        target: tensors for the loss.
        device: whose autocast rules and kernels, "cpu" or "cuda".
        kwargs: keyword inputs of the forward.
        train: the mode of the copy, training or evaluation; None: as the model stands.
        gpu: whose attention kernels run for "cuda", such as "a100" or "t4"; None for this
            machine's GPU, or an H200 if there is none.

    Raises:
        ValueError: for a precision, an optimizer, a device or a GPU that is not known.
        TraceError: for a model that cannot be traced.
    """
    return memory_by_module(
        model,
        *inputs,
        precision=precision,
        optimizer=optimizer,
        loss=loss,
        target=target,
        device=device,
        kwargs=kwargs,
        train=train,
        gpu=gpu,
    )[0]


def memory_by_module(
    model: nn.Module,
    *inputs: Any,
    precision: str = "fp32",
    optimizer: str = "sgd",
    loss: Loss | None = None,
    target: Any = None,
    device: str = "cpu",
    kwargs: Mapping[str, Any] | None = None,
    train: bool | None = None,
    gpu: str | None = None,
) -> tuple[Memory, tuple[ModuleMemory, ...]]:
    """`training_memory`, and what each module adds to it, in the order of `named_modules`.

    Arguments and errors are those of `training_memory`. What the modules hold adds up to the whole:
    parameters, activations and cast cache. What the loss and the output keep is the model's own.
    """
    _check(precision, optimizer, device)
    if loss is not None and not callable(loss):
        raise ValueError(f"loss must be called as loss(output, target); got {loss!r}")
    check_model(model)
    named = dict(kwargs or {})
    check_inputs(getattr(model, "_orig_mod", model), inputs, named)
    check_device(device)
    mode = fake_mode()
    floats = torch.bfloat16 if precision == "bf16" else None
    with rng_kept():
        copied = stand_in(model, mode, device, floats)
        if isinstance(loss, nn.Module):  # a weighted one, which a program moves to the GPU too
            loss = stand_in(loss, mode, device, floats)
    if train is not None:
        copied.train(train)
    given = fake_inputs((inputs, named, target), mode, device, floats)
    saved, casts, where = _forward(copied, given, loss, precision, device, mode, gpu)
    parameters = _bytes(copied.parameters())
    trained = _bytes(p for p in copied.parameters() if id(p) in where.trained)
    batch = {storage_id(t): t for t in tensors_in(given)}
    apart = batch.keys() | casts.sizes.keys()
    activations = {key: count for key, count in saved.sizes.items() if key not in apart}
    memory = Memory(
        parameters=parameters,
        gradients=trained,
        optimizer=STATE_COPIES[optimizer] * trained,
        data=_bytes(batch.values()),
        activations=sum(activations.values()),
        cast_cache=sum(casts.sizes.values()),
        not_run=where.used.not_run(model.forward, inputs, named),
    )
    return memory, _modules(copied, activations, casts, where)


def _modules(
    copied: nn.Module, activations: Mapping[int, int], casts: CastCache, where: _Where
) -> tuple[ModuleMemory, ...]:
    seen: set[int] = set()
    owner: dict[int, str] = {}
    rows = []
    for path, module in copied.named_modules():
        fresh = [p for p in module.parameters(recurse=False) if storage_id(p) not in seen]
        seen.update(storage_id(p) for p in fresh)
        owner.update((id(p), path) for p in fresh)
        own = [count for key, count in activations.items() if where.path.get(key, "") == path]
        rows.append((path, type(module).__name__, fresh, sum(own)))
    copies = {path: 0 for path, *_ in rows}
    for key, count in casts.sizes.items():
        copies[owner.get(casts.sources.get(key, 0), "")] += count
    return tuple(
        ModuleMemory(
            path,
            kind,
            _bytes(fresh),
            _bytes(p for p in fresh if id(p) in where.trained),
            own_activations,
            copies[path],
        )
        for path, kind, fresh, own_activations in rows
    )


class _Where:
    """Which module runs, and in which one a storage was first saved for backward.

    Attributes:
        path: of the module that saved a storage first, by the storage's identity.
        trained: the ``id`` of each parameter that gets a gradient.
        used: which parameters were given to an op.
    """

    def __init__(self, model: nn.Module) -> None:
        self.path: dict[int, str] = {}
        self.trained: set[int] = set()
        self.used = Used(model)
        self._running = [""]
        for path, module in model.named_modules():
            if path:
                module.register_forward_pre_hook(self._enter(path), prepend=True)
                module.register_forward_hook(self._leave, always_call=True)

    def note(self, tensor: Tensor, _: int) -> None:
        """Called with each tensor that brings a new storage."""
        self.path[storage_id(tensor)] = self._running[-1]

    def _enter(self, path: str) -> Callable[..., None]:
        return lambda *_: self._running.append(path)

    def _leave(self, *_: Any) -> None:
        if len(self._running) > 1:
            self._running.pop()


class CastCache(TorchDispatchMode):
    """Collects the casts that autocast keeps: of float32 parameters, to 16 bit.

    Args:
        used: told of each op, if somebody wants to know which parameters it was given.

    Attributes:
        sizes: bytes of each copy, by its storage's identity.
        sources: the ``id`` of the parameter that was copied, by the same key.
    """

    def __init__(self, used: Used | None = None) -> None:
        super().__init__()
        self._used = used
        self.sizes: dict[int, int] = {}
        self.sources: dict[int, int] = {}
        self._copies: list[Tensor] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if self._used is not None:
            self._used.note(func, args, kwargs)
        result = run_op(func, args, kwargs or {})
        if func is torch.ops.aten._to_copy.default and is_cached(args[0], result):
            self.sizes[storage_id(result)] = result.untyped_storage().nbytes()
            self.sources[storage_id(result)] = id(args[0])
            self._copies.append(result)
        return result


def _forward(
    copied: nn.Module,
    given: Any,
    loss: Loss | None,
    precision: str,
    device: str,
    mode: FakeTensorMode,
    gpu: str | None,
) -> tuple[SavedBytes, CastCache, _Where]:
    """One forward pass of a stand-in, and what it left behind."""
    args, kwargs, target = given
    low = AUTOCAST[precision]
    where = _Where(copied)
    saved, casts = SavedBytes(copied, where.note), CastCache(where.used)
    calls = GpuCalls(device, gpu)
    with ExitStack() as stack:
        contexts: tuple[Any, ...] = (
            ctrl_c_between_ops(),
            rng_kept(),
            quiet(),
            mode,
            KnownValues(mode),
            as_in_a_run(copied, loss),
            autocast_on(device, low or torch.float16, low is not None),
            saved.counted(),
            on_gpu(calls),
            casts,
            calls,
        )
        for context in contexts:
            stack.enter_context(context)
        output = _called("the model", copied, *args, **kwargs)
        value = output if loss is None else _called("the loss", loss, output, target)
        if loss is not None:
            check_loss(value)
        for tensor in tensors_in((output, value)):
            saved.add(tensor)
    where.trained = _trained(copied, tensors_in(value))
    return saved, casts, where


def _trained(model: nn.Module, results: list[Tensor]) -> set[int]:
    """The ``id`` of each parameter that a backward pass from these results gives a gradient.

    A function of the model's own, such as that of a checkpoint, may hide parameters. Where there is
    one, or no graph at all, every parameter counts that needs a gradient.
    """
    wanted = {id(p) for p in model.parameters() if p.requires_grad}
    nodes: list[Any] = [t.grad_fn for t in results if t.grad_fn is not None]
    seen, found = set(nodes), set()
    if not nodes:
        return wanted
    while nodes:
        node = nodes.pop()
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            return wanted
        found.add(id(getattr(node, "variable", None)))
        following = {each for each, _ in node.next_functions if each is not None} - seen
        seen |= following
        nodes += following
    return wanted & found


def _called(what: str, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call it; raises `TraceError` with one line if it fails."""
    try:
        return function(*args, **kwargs)
    except (Exception, SystemExit) as error:
        kind = kind_of(error)
        does = "raises" if kind == MODEL_RAISES else "cannot be run on fake tensors"
        raise TraceError(f"{what} {does}: {reason(error)}", kind=kind) from error


def optimizer_bytes(optimizer: torch.optim.Optimizer) -> int:
    """Bytes of the tensors that an optimizer keeps now, its counts of steps included."""
    states = optimizer.state.values()
    return _bytes(v for state in states for v in state.values() if isinstance(v, Tensor))


def crossover_batch(fp32: Sequence[Memory], amp: Sequence[Memory]) -> int | None:
    """The smallest batch at which AMP needs less memory than float32.

    Args:
        fp32, amp: the memory of a model for a batch of one and a batch of two. All that grows
            with the batch grows in proportion to it.

    Returns:
        The batch, or None if AMP never needs less.

    Raises:
        ValueError: if it is not the memory of two batches each.
    """
    if any(not all(isinstance(m, Memory) for m in two) or len(two) != 2 for two in (fp32, amp)):
        raise ValueError("crossover_batch needs two of Memory for each: of a batch of 1 and of 2")
    ahead = amp[0].total - fp32[0].total  # what AMP adds with a batch of one
    gain = (fp32[1].total - fp32[0].total) - (amp[1].total - amp[0].total)
    if ahead < 0:
        return 1
    return None if gain <= 0 else math.floor(ahead / gain) + 2


def allocator_check(
    model: nn.Module,
    *inputs: Any,
    precision: str = "fp32",
    loss: Loss,
    target: Any,
) -> str:
    """Run a step on CUDA, and print the count of `training_memory` beside the allocator's.

    The model is copied to the GPU first. The allocator rounds each request up to 512 bytes, and a
    cuBLAS workspace is one allocation more: the two columns are close, not equal.

    Raises:
        ValueError: for a precision that is not known.
    """
    _check(precision, "sgd", "cuda")
    if not torch.cuda.is_available():
        return NOT_HERE
    torch.cuda.synchronize()
    start = torch.cuda.memory_allocated()
    place = torch.device("cuda")
    moved = copy.deepcopy(model).to(place)
    if precision == "bf16":
        moved = moved.to(torch.bfloat16)
        inputs, target = tree_map_only(Tensor, _in_bf16, (inputs, target))
    args, wanted = tree_map_only(Tensor, lambda t: t.to(place), (inputs, target))
    low = AUTOCAST[precision]
    told = training_memory(
        model, *inputs, precision=precision, loss=loss, target=target, device="cuda"
    )
    loaded = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    with torch.autocast("cuda", low, enabled=low is not None):
        output = moved(*args)
        value = loss(output, wanted)
        forward = torch.cuda.memory_allocated()
    value.backward()
    backward = torch.cuda.memory_allocated()
    rows = (
        ("model and data", told.parameters + told.data, loaded - start),
        ("added by the forward", told.activations + told.cast_cache, forward - loaded),
    )
    lines = [f"{'':<22}{'counted':>16}{'allocator':>16}"]
    lines += [f"{name:<22}{counted:>16,}{seen:>16,}" for name, counted, seen in rows]
    lines.append(f"after backward {backward - start:,}, at the peak ")
    lines[-1] += f"{torch.cuda.max_memory_allocated() - start:,}"
    return "\n".join(lines)


def _check(precision: str, optimizer: str, device: str) -> None:
    known = {"precision": PRECISIONS, "optimizer": STATE_COPIES, "device": ("cpu", "cuda")}
    given = {"precision": precision, "optimizer": optimizer, "device": device}
    for name, value in given.items():
        if not isinstance(value, str) or value not in known[name]:
            raise ValueError(f"{name} must be one of {', '.join(known[name])}; got {value!r}")


def _in_bf16(tensor: Tensor) -> Tensor:
    return tensor.bfloat16() if tensor.is_floating_point() else tensor


def _bytes(tensors: Any) -> int:
    """Bytes of the storages behind some tensors, each once."""
    return sum({storage_id(t): t.untyped_storage().nbytes() for t in tensors}.values())


class BytesAlive(TorchDispatchMode):
    """Follows the bytes of all tensors that are alive, while a ``with`` block runs.

    A storage counts from the operation that made it to the moment when nothing refers to it. What
    a kernel takes for itself, and gives back before it ends, isn't seen.

    Args:
        there: tensors that are alive before the block, such as the parameters and the batch.

    Attributes:
        values: bytes after each operation, and at each mark.
        phases: for each mark, its name and how many values there were by then.
    """

    def __init__(self, *there: Tensor) -> None:
        super().__init__()
        self.values: list[int] = []
        self.phases: list[tuple[str, int]] = []
        self._now = 0
        self._alive: dict[int, weakref.ref[Any]] = {}
        for tensor in there:
            self._note(tensor)

    def mark(self, name: str) -> None:
        """Name what has run since the mark before, such as "forward"."""
        self.values.append(self._now)
        self.phases.append((name, len(self.values)))

    @property
    def peak(self) -> int:
        """The most bytes that were alive after an operation."""
        return max(self.values)

    def peaks(self) -> list[tuple[str, int]]:
        """The name and the peak of each marked phase, in order."""
        starts = [0, *(end for _, end in self.phases)]
        return [
            (name, max(self.values[start:end]))
            for start, (name, end) in zip(starts, self.phases, strict=False)
        ]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                self._note(leaf)
        self.values.append(self._now)
        return result

    def _note(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        key, count = storage_id(tensor), storage.nbytes()
        if key in self._alive:
            return

        def freed(_: Any) -> None:
            self._now -= count
            del self._alive[key]

        self._now += count
        self._alive[key] = weakref.ref(storage, freed)


GPT2_SIZES = {"small": (12, 768), "medium": (24, 1024), "large": (36, 1280), "XL": (48, 1600)}
"""Layers and width of the four GPT-2 models. Their head has the same weight as the embedding."""


def gpt_steps(name: str, batch: int, precision: str = "fp32", steps: int = 2) -> BytesAlive:
    """Follow the bytes of a GPT-2 that trains with Adam, on fake tensors, so on any machine.

    Autocast follows a CPU's rules, and Adam runs in its "foreach" form, CUDA's default, which
    updates all parameters together and needs room for intermediate results.

    Args:
        name: one of `GPT2_SIZES`.
        batch: texts of 1,024 tokens in a batch.
        precision: "fp32" or "amp bf16".
        steps: how many training steps.

    Raises:
        ValueError: for a name or a precision that is not known.
    """
    if name not in GPT2_SIZES or precision not in ("fp32", "amp bf16"):
        raise ValueError(f"no GPT-2 is called {name!r}, or {precision!r} is no precision here")
    layers, width = GPT2_SIZES[name]
    with _fakes():
        model = GPT(50257, 1024, width, layers, width // 64)
        ids, target = (torch.zeros(batch, 1024, dtype=torch.long) for _ in range(2))
        optimizer = torch.optim.Adam(model.parameters(), foreach=True)
        with BytesAlive(*model.parameters(), ids, target) as alive:
            for _ in range(steps):
                with torch.autocast("cpu", torch.bfloat16, enabled=precision != "fp32"):
                    loss = cross_entropy(model(ids).flatten(0, 1), target.flatten())
                alive.mark("forward")
                loss.backward()
                alive.mark("backward")
                optimizer.step()
                alive.mark("optimizer.step")
                optimizer.zero_grad()
    return alive


@contextmanager
def _fakes() -> Iterator[None]:
    """Tensors are fake in here, and neither a warning nor a random number is left behind."""
    with rng_kept(), quiet(), FakeTensorMode():
        yield
