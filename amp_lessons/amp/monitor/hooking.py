"""The hooks of the monitor: on modules for a call, and on autograd's nodes for one backward pass.

Nothing is decided here. The hooks call what they are given, and can all be taken away again.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.amp.monitor.search import BackwardPass, GraphNode
from amp_lessons.amp.monitor.tensors import extremes

MOST_NODES = 512


def is_compiled(module: nn.Module) -> bool:
    """Whether torch.compile runs this module."""
    return "_orig_mod" in module._modules or module._compiled_call_impl is not None


def parts_of(model: nn.Module) -> Iterator[tuple[str, nn.Module]]:
    """Every module once, under its first path; nothing inside of what is compiled."""
    hidden: set[int] = set()
    for path, part in model.named_modules():
        if id(part) in hidden:
            continue
        yield path, part
        if is_compiled(part):
            hidden |= {id(inner) for inner in part.modules()}


class Hook:
    """A hook that stays with its module: a copy of it, also a pickled one, gets an empty hook.

    While torch.compile, torch.export or torch.jit.trace record the model, it does nothing, so that
    it doesn't become a part of what they record.
    """

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __call__(self, *args: Any) -> Any:
        if torch.compiler.is_compiling() or torch.jit.is_tracing():
            return None
        return self.call(*args)

    def __reduce__(self) -> Any:  # takes anything, does nothing, and needs no amp_lessons to load
        return getattr, (contextlib.nullcontext(), "__exit__")


class ModuleHooks:
    """Hooks before and after the calls of a model's modules.

    Args:
        model: whose modules.
        before: called with the path, the module, its args and its kwargs.
        after: called with the path, the module, its args and its output.
    """

    def __init__(
        self, model: nn.Module, before: Callable[..., Any], after: Callable[..., Any]
    ) -> None:
        self.model, self.before, self.after = model, before, after
        self.entries: set[str] = {""}  # paths of the modules that the user's code calls
        self._hooked: frozenset[str] | None = None  # None: all
        self._handles: list[Any] = []

    def place(self, *, everywhere: bool) -> None:
        """Hook every module, or only those that the user's own code calls."""
        wanted = None if everywhere else frozenset(self.entries)
        if wanted is not None and wanted == self._hooked:
            return  # as in the step before
        self.remove()
        self._hooked = wanted
        for path, part in parts_of(self.model):
            if wanted is not None and path not in wanted:
                continue
            before = Hook(functools.partial(self.before, path))
            after = Hook(functools.partial(self.after, path))
            if is_compiled(part) and "_orig_mod" not in part._modules:
                before.call = torch._dynamo.disable(before.call)
                after.call = torch._dynamo.disable(after.call)
            self._handles += [
                part.register_forward_pre_hook(before, with_kwargs=True),
                part.register_forward_hook(after, always_call=True),
            ]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()


def hook_nodes(current: BackwardPass, todo: list[Any]) -> Iterator[Any]:
    """Hook autograd's nodes from these on, until the model's calls. Gives the handles."""
    begin = min(call.first for call in current.calls)
    while todo and len(current.nodes) < MOST_NODES:
        node = todo.pop()
        sequence = node._sequence_nr()
        # A leaf has no number of its own.
        outside = begin <= sequence < 1 << 60 and not current.in_a_call(sequence)
        if not outside or sequence in current.nodes:
            continue
        after = [n for n, _ in node.next_functions if n is not None]
        leads_to = tuple(n._sequence_nr() for n in after)
        at_edge = any(map(current.in_a_call, leads_to))
        current.nodes[sequence] = GraphNode(node.name(), sequence, leads_to, at_edge)
        yield node.register_prehook(functools.partial(_came, current, sequence))
        todo += after


def hook_between(current: BackwardPass) -> Iterator[Any]:
    """The same between two calls, where a loop calls the parts of its model one by one."""
    inputs = [tensor.grad_fn for call in current.calls for tensor in call.inputs()]
    yield from hook_nodes(current, [node for node in inputs if node is not None])


def reaches(current: BackwardPass, roots: list[Tensor]) -> bool:
    """Whether a backward pass from these roots comes to the model's calls.

    One that doesn't belongs to another model, as in a GAN. Call `hook_nodes` before.
    """
    numbers = (root.grad_fn._sequence_nr() for root in roots if root.grad_fn is not None)
    if any(number < current.last for number in numbers):
        return True
    return len(current.nodes) >= MOST_NODES or any(n.at_edge for n in current.nodes.values())


def _came(current: BackwardPass, sequence: int, grads: tuple[Tensor | None, ...]) -> None:
    node = current.nodes[sequence]
    current.order.append(sequence)
    node.came += [found for g in grads if g is not None and (found := extremes(g)) is not None]


def silent(keep: Callable[[Tensor], Any]) -> Callable[[Tensor], None]:
    """A tensor's hook that changes nothing: what a hook returns would replace the gradient."""

    def hook(grad: Tensor) -> None:
        keep(grad.detach())

    return hook
