"""What a broken program is handed, and what is noted while the fixed one runs.

Some batches hold an input that FP16 cannot store, so the scaler must skip their step. A `Chart`
notes the steps that were really made, the dtypes of layers, gradients and weights, the scale and
the loss at each batch, and the weights at the end. It sees every optimizer that a program makes.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer, optimizer

from amp_lessons.exercises.harness import Setting, as_play, flat, in_words, name_of, network

NAN = math.nan


class Chart:
    """The scaler and the loss that a program is handed, and what they see of it."""

    def __init__(self, setting: Setting) -> None:
        self.setting, self.scaler = setting, setting.scaler()
        self.batches, self._as_given = setting.batches(), setting.batches()
        self.steps = 0
        self.gradients: set[str] = set()
        self.layers: dict[str, set[str]] = {}
        self.scales: list[float] = []
        self.losses: list[float] = []
        self.rows = self.most_rows = 0
        self.returned: dict[str, Any] = {}  # what is compared before the rest

    def listen(self, **modules: nn.Module) -> None:
        """Note the dtypes that the linear layers of these give; the modules by the names given.

        What is handed to the loss may have been cast, and says nothing of the products.
        """
        for name, module in modules.items():
            dtypes = self.layers.setdefault(name, set())
            for layer in module.modules():
                if isinstance(layer, nn.Linear):
                    layer.register_forward_hook(
                        lambda *seen, dtypes=dtypes: dtypes.add(name_of(seen[-1].dtype))
                    )

    def loss_fn(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The mean cross entropy in float32, times the weight."""
        loss = cross_entropy(outputs.float(), labels)
        self.scales.append(self.scaler.get_scale())
        self.losses.append(loss.item())
        self.most_rows = max(self.most_rows, self.rows + len(labels))
        if outputs.requires_grad:
            self._hold(outputs, len(labels))
        return loss * self.setting.weight

    def _hold(self, outputs: Tensor, rows: int) -> None:
        """Count these rows as in memory until backward comes by, or their graph is gone."""

        def let_go() -> None:
            self.rows -= rows

        def passed(gradient: Tensor) -> None:
            once()

        self.rows += rows
        once = weakref.finalize(passed, let_go)
        outputs.register_hook(passed)

    @contextmanager
    def watching(self) -> Iterator[Chart]:
        """Within this context every optimizer's real steps are noted."""
        before = optimizer.register_optimizer_step_pre_hook(self._note_gradients)
        after = optimizer.register_optimizer_step_post_hook(self._count_step)
        try:
            yield self
        finally:
            before.remove()
            after.remove()

    def watch(self, program: Callable[..., Any], model: nn.Module, *given: Any) -> Any:
        """Have a model trained with an optimizer of its own; this returns what the program does."""
        self.listen(layers=model)
        optimizer = self.setting.optimizer(model)
        with self.watching():
            return program(model, optimizer, self.scaler, self.loss_fn, *given)

    def _note_gradients(self, optimizer: Optimizer, *_: Any) -> None:
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        if not _skips(optimizer):
            self.gradients |= {name_of(p.grad.dtype) for p in parameters if p.grad is not None}

    def _count_step(self, optimizer: Optimizer, *_: Any) -> None:
        self.steps += not _skips(optimizer)

    def left_behind(self, **modules: nn.Module) -> dict[str, Any]:
        """The evidence, in the order in which it is compared; weights by the names given.

        Batches with a loss that is not finite are left out: a program may leave such a batch out
        before or after its forward pass.
        """
        parts = {name: list(module.parameters()) for name, module in modules.items()}
        good = [n for n, loss in enumerate(self.losses) if math.isfinite(loss)]
        return {
            **{f"dtype from the {n}": in_words(found) for n, found in self.layers.items()},
            **self.returned,
            "optimizer steps": self.steps,
            "calls of loss_fn with a finite loss": len(good),
            "dtype of the gradients": in_words(self.gradients) or "no step was made",
            **{
                f"dtype of the {of(n)} weights": in_words(name_of(p.dtype) for p in ps)
                for n, ps in parts.items()
            },
            "scale at the batches with a finite loss, in order": [self.scales[n] for n in good],
            "scale at the end": self.scaler.get_scale(),
            "finite losses, in order": [self.losses[n] for n in good],
            **{f"the {of(n)} weights at the end": flat(ps) for n, ps in parts.items()},
            "the batches afterwards": "as before" if self._untouched() else "changed",
            "batches": len(self._as_given),
        }

    def _untouched(self) -> bool:
        return len(self.batches) == len(self._as_given) and all(
            torch.allclose(one, other, equal_nan=True)
            for now, before in zip(self.batches, self._as_given, strict=True)
            for one, other in zip(now, before, strict=True)
        )


def of(name: str) -> str:
    """A genitive: ``"model's"``, ``"blocks'"``."""
    return f"{name}'" if name.endswith("s") else f"{name}'s"


def _skips(optimizer: Optimizer) -> bool:
    """Whether the scaler lets a fused optimizer skip: it calls its step all the same, and hands it
    ``found_inf``."""
    found = getattr(optimizer, "found_inf", None)
    return found is not None and bool(found)


# ---- train(model, optimizer, scaler, loss_fn, batches, *more) -----------------------------------


@as_play
def plain_loop(train: Callable[..., Any], setting: Setting) -> dict[str, Any]:
    """How a loop over batches with one network is used."""
    chart, model = Chart(setting), network(setting.seed)
    chart.watch(train, model, chart.batches, *setting.more)
    return chart.left_behind(model=model)
