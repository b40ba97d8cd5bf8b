"""A call of the model, noted so that it can be run once more, and the run itself.

A second run is how the monitor finds the op behind a fault in a step that it didn't sample. It
uses copies of the buffers, the random state and the autocast state of the first run, and aliases
of the parameters. So it leaves no gradient, no statistic and no random number behind.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.amp.monitor import taps
from amp_lessons.amp.monitor.ops import CantRunAgain, OpLog
from amp_lessons.amp.monitor.places import Mark
from amp_lessons.amp.monitor.tensors import replaced, tensors_in

KEPT_BYTES = 256 << 20
"""Incoming gradients of a call larger than this aren't kept, and its backward isn't run again."""


@dataclass(frozen=True)
class RandomState:
    """What the generators of the CPU and of one GPU hold."""

    cpu: Tensor
    cuda: Tensor | None = None
    device: torch.device | None = None

    @classmethod
    def now(cls, device: torch.device) -> RandomState:
        cpu = torch.get_rng_state()
        if device.type != "cuda":
            return cls(cpu)
        return cls(cpu, torch.cuda.get_rng_state(device), device)

    def restore(self) -> None:
        torch.set_rng_state(self.cpu)
        if self.cuda is not None and self.device is not None:
            torch.cuda.set_rng_state(self.cuda, self.device)


@dataclass(frozen=True)
class AutocastState:
    """Whether autocast is on, and in which dtype, for the CPU and the model's own device."""

    devices: tuple[tuple[str, bool, torch.dtype], ...]
    cache: bool

    @classmethod
    def now(cls, device: torch.device) -> AutocastState:
        kinds = dict.fromkeys(("cpu", device.type))
        states = [
            (kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind))
            for kind in kinds
            if torch.amp.is_autocast_available(kind)
        ]
        return cls(tuple(states), torch.is_autocast_cache_enabled())

    def context(self) -> ExitStack:
        stack = ExitStack()
        for kind, enabled, dtype in self.devices:
            autocast = torch.autocast(
                kind, dtype=dtype if enabled else None, enabled=enabled, cache_enabled=self.cache
            )
            stack.enter_context(autocast)
        return stack


@dataclass(eq=False)
class ModuleCall:
    """One call of a module by the user's own code.

    Attributes:
        path: of the module in the model, "" for the model itself.
        module: what was called.
        args, kwargs: what it was given: the tensors themselves, until the step ends.
        mark: the line that called it.
        versions: how often each tensor among them had been changed in place.
        first, last: autograd's sequence numbers when the call began and ended.
        grads: the gradients that reached its outputs, by their place among the output's tensors.
    """

    path: str
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    mark: Mark | None
    random: RandomState
    autocast: AutocastState
    gradients: bool
    first: int
    last: int = 0
    versions: list[int] = field(default_factory=list)
    grads: dict[int, Tensor] = field(default_factory=dict)
    too_large: bool = False

    def inputs(self) -> list[Tensor]:
        return [*tensors_in(self.args), *tensors_in(self.kwargs)]

    def changed(self) -> bool:
        """Whether the code has changed an input in place since the call."""
        return [_version(t) for t in self.inputs()] != self.versions


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def noted(
    path: str, module: nn.Module, args: Any, kwargs: Any, mark: Mark | None, device: torch.device
) -> ModuleCall:
    """Note a call that is about to run."""
    call = ModuleCall(
        path,
        module,
        args,
        kwargs,
        mark,
        RandomState.now(device),
        AutocastState.now(device),
        torch.is_grad_enabled(),
        torch._C._autograd._get_sequence_nr(),
    )
    call.versions = [_version(tensor) for tensor in call.inputs()]
    return call


# ---- once more -------------------------------------------------------------------------------


@dataclass
class Rerun:
    """What a call gave when it ran once more.

    Attributes:
        log: its operations, and those of its backward pass if that ran too.
        outputs: the tensors that came out.
        gradients: those of the parameters and inputs, by name. Empty if only the forward ran.
    """

    log: OpLog
    outputs: list[Tensor]
    gradients: dict[str, Tensor] = field(default_factory=dict)


def eager(module: nn.Module) -> nn.Module:
    """The module below torch.compile and DistributedDataParallel, which can run by itself."""
    while True:
        inner = module.__dict__.get("_modules", {}).get("_orig_mod")
        if inner is None and isinstance(module, nn.parallel.DistributedDataParallel):
            inner = module.module
        if inner is None:
            return module
        module = inner


def is_sharded(module: nn.Module) -> bool:
    """Whether FSDP or tensor parallelism spreads the parameters over several processes."""
    wrapped = any(type(part).__name__ == "FullyShardedDataParallel" for part in module.modules())
    return wrapped or any(type(p).__name__ == "DTensor" for p in module.parameters())


class _Around(nn.Module):
    """Holds a module, so that `functional_call` also covers what is done with its result."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, work: Callable[[nn.Module], None]) -> None:
        work(self.inner)


def run_again(call: ModuleCall, prefix: str, *, backward: bool, underflow: bool = False) -> Rerun:
    """Run a call once more with an `OpLog`, forward or forward and backward.

    Args:
        call: what to run.
        prefix: the path of its module, which the names of its parameters begin with.
        backward: also send the gradients that reached its outputs back through it.
        underflow: count what becomes zero in float16.

    Raises:
        CantRunAgain: its parameters are spread over several processes.
        Exception: whatever the model raises this time. The caller decides what that means.
    """
    module = eager(call.module)
    if is_sharded(module):
        raise CantRunAgain("its parameters are sharded, and the other processes don't run it again")
    log = OpLog(exact=True, underflow=underflow, stop=run_again.__code__)
    result = Rerun(log, [])
    aliases = {name: _alias(p) for name, p in module.named_parameters()}
    copies = {name: b.detach().clone() for name, b in module.named_buffers()}
    for name, parameter in aliases.items():
        log.name(parameter, f"parameter {_join(prefix, name)}")
    for name, buffer in copies.items():
        log.name(buffer, f"buffer {_join(prefix, name)}")
    inputs = _fresh_inputs(call, log)

    def work(inner: nn.Module) -> None:
        with _paths(inner, prefix, log):
            with torch.set_grad_enabled(call.gradients), call.autocast.context(), log:
                output = inner(*inputs[0], **inputs[1])
            result.outputs = list(tensors_in(output))
            if backward:
                pairs = [(result.outputs[place], grad) for place, grad in call.grads.items()]
                with log:
                    torch.autograd.backward([t for t, _ in pairs], [g for _, g in pairs])

    before = RandomState.now(_device(module))
    kept = _plain_attributes(module)
    call.random.restore()
    try:
        swapped = {f"inner.{name}": t for name, t in (aliases | copies).items()}
        with taps.unheard():
            torch.func.functional_call(_Around(module), swapped, (work,), tie_weights=True)
    finally:
        before.restore()
        _restore(kept)
    leaves = aliases | {f"input {n}": t for n, t in enumerate(tensors_in(inputs))}
    result.gradients = {name: t.grad for name, t in leaves.items() if t.grad is not None}
    return result


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _device(module: nn.Module) -> torch.device:
    return next((p.device for p in module.parameters()), torch.device("cpu"))


def _alias(parameter: Tensor) -> Tensor:
    return parameter.detach().requires_grad_(parameter.requires_grad)


def _fresh_inputs(call: ModuleCall, log: OpLog) -> tuple[Any, Any]:
    """The call's inputs as leaves of a new graph. What the model changes in place is a copy."""
    count = iter(range(1 << 30))

    def fresh(tensor: Tensor) -> Tensor:
        copy = tensor.detach().clone().requires_grad_(False)
        log.name(copy, f"input {next(count)}")
        return copy.requires_grad_(tensor.requires_grad and tensor.is_floating_point())

    copies = replaced((call.args, call.kwargs), fresh)
    # An in-place op refuses a leaf that wants a gradient, and would not refuse what stood here.
    with log:
        return replaced(copies, lambda t: t.view_as(t) if t.requires_grad else t)


@contextmanager
def _paths(module: nn.Module, prefix: str, log: OpLog) -> Iterator[None]:
    """Tell the log which module is running."""
    handles = []

    def enter(path: str, *_: Any) -> None:
        log.modules.append(path)

    def leave(*_: Any) -> None:
        log.modules.pop()

    try:
        for name, part in module.named_modules():
            path = _join(prefix, name) if name else prefix
            before = part.register_forward_pre_hook(functools.partial(enter, path), prepend=True)
            after = part.register_forward_hook(leave, always_call=True)
            handles += [before, after]
        yield
    finally:
        for handle in handles:
            handle.remove()


_REGISTRIES = ("_parameters", "_buffers", "_modules")
Kept = list[tuple[weakref.ref[nn.Module], dict[str, Any]]]


def _plain_attributes(module: nn.Module) -> Kept:
    """What each module keeps beside its parameters, buffers and parts, such as a counter."""
    return [
        (weakref.ref(part), {k: v for k, v in vars(part).items() if not _private(k)})
        for part in module.modules()
    ]


def _private(name: str) -> bool:
    return name in _REGISTRIES or name.endswith(("_hooks", "_hooks_with_kwargs", "_always_called"))


def _restore(kept: Kept) -> None:
    for reference, attributes in kept:
        part = reference()
        if part is None:
            continue
        for name in [n for n in vars(part) if not _private(n) and n not in attributes]:
            del vars(part)[name]
        for name, value in attributes.items():
            if vars(part).get(name) is not value:
                vars(part)[name] = value
