"""What the sampled steps hold, counted by module and by step. `counting` does the arithmetic."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from amp_lessons.amp.monitor import taps
from amp_lessons.amp.monitor.counting import Edges, Tally
from amp_lessons.amp.monitor.findings import Sample, Seen
from amp_lessons.amp.monitor.hooking import is_compiled, parts_of
from amp_lessons.amp.monitor.search import HALF
from amp_lessons.amp.monitor.tensors import tensors_in


class Sampler:
    """Counts the activations and gradients of one step at a time.

    Attributes:
        edges: of the format that judges.
        modules: what was counted so far, by the module's path.
        samples: the steps that were counted, all modules together.
    """

    def __init__(self, edges: Edges) -> None:
        self.edges = edges
        self.modules: dict[str, Seen] = {}
        self.samples: list[Sample] = []
        self._now: dict[str, Tally] = {}
        self._counted: dict[int, weakref.ref[Tensor]] = {}

    def _seen(self, path: str, module: nn.Module) -> Seen:
        found = self.modules.get(path)
        if found is None:
            found = self.modules[path] = Seen(path, type(module).__name__)
        return found

    def outputs(self, path: str, module: nn.Module, output: Any) -> Iterator[tuple[Seen, Tensor]]:
        """Count a module's outputs, each tensor once. Gives those that will have a gradient."""
        for tensor in tensors_in(output):
            known = self._counted.get(id(tensor))
            if not tensor.is_floating_point() or (known is not None and known() is tensor):
                continue  # it came out of a part of this module, where it was counted
            self._counted[id(tensor)] = weakref.ref(tensor)
            seen = self._seen(path, module)
            if not taps.depth:  # else checkpointing computes it for the second time
                self._tally(seen.activations, "activations", tensor, 1.0)
            if tensor.requires_grad:
                yield seen, tensor

    def gradient(self, seen: Seen, grad: Tensor, scale: float) -> None:
        """Count the gradient of an output. ``scale`` is the loss scale that is in it."""
        self._tally(seen.gradients, "gradients", grad, scale)

    def weights(self, model: nn.Module, scale: float) -> None:
        """Count the gradients of the parameters."""
        for path, module in parts_of(model):
            own = module.parameters(recurse=is_compiled(module))
            for grad in [p.grad for p in own if p.grad is not None]:
                self._tally(self._seen(path, module).weights, "weights", grad, scale)

    def _tally(self, tally: Tally, what: str, tensor: Tensor, scale: float) -> None:
        one = Tally()
        one.add(tensor, self.edges, scale)
        tally.merge(one)
        self._now.setdefault(what, Tally()).merge(one)

    @property
    def sinking(self) -> bool:
        """Whether half of the parameters' gradients are zero, and float16 may be the reason."""
        weights = self._now.get("weights", Tally())
        low = "float16" in self._now.get("gradients", Tally()).dtypes | weights.dtypes
        return low and weights.share(weights.zeros) >= HALF

    def forget(self) -> None:
        """Let go of the tensors of a step."""
        self._counted = {}

    def keep(self, step: int, scale: float) -> None:
        """Put what this step counted into one line of the history."""
        if not self._now:
            return
        activations = self._now.get("activations", Tally())
        gradients = Tally()
        for what in ("gradients", "weights"):
            gradients.merge(self._now.get(what, Tally()))
        self._now = {}
        self.samples.append(
            Sample(
                step,
                scale,
                activations.largest,
                gradients.largest,
                gradients.share(gradients.zeros + gradients.underflow),
                gradients.share(gradients.subnormal),
                activations.share(activations.overflow),
            )
        )
