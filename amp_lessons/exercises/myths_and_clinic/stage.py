"""What a broken program is handed, and what is noted while the fixed one runs.

A program gets a small model with an optimizer, a scaler, a loss and batches. Some batches hold an
input that FP16 cannot store, so the scaler must skip their step. A `Chart` notes what happens:
the steps that were really made, the dtypes of layers, gradients and weights, the scale and the
loss at each batch, and the weights at the end. It sees every optimizer that a program makes.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Optimizer
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)

from amp_lessons.checks.probe import Case

NAN = float("nan")
TOO_LARGE = 3e5  # an input beyond FP16: the forward pass overflows, and the step must be skipped
SMALL = 2.0**-24  # a weight of the loss with which FP16 gradients are lost unless they are scaled
INPUTS, CLASSES = 6, 3

Batch = tuple[Tensor, Tensor]
Play = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Setting:
    """One run of a program.

    Args:
        seed: of the model and of the batches.
        sizes: the rows of each batch.
        spoiled: by the number of a batch, a value for one of its inputs, such as NaN.
        init_scale: of the scaler.
        weight: the loss is multiplied by it, and the learning rate divided by it.
        rate: the learning rate.
        growth_interval: of the scaler; short, so that the scale moves in a few batches.
        more: what the program is handed besides, such as a weight decay.
    """

    seed: int
    sizes: tuple[int, ...]
    spoiled: dict[int, float] = field(default_factory=dict)
    init_scale: float = 2.0**10
    weight: float = 1.0
    rate: float = 0.5
    growth_interval: int = 3
    more: tuple[Any, ...] = ()

    def batches(self) -> list[Batch]:
        """Batches of random inputs with labels that can be learned."""
        random = torch.Generator().manual_seed(self.seed)
        rule = torch.randn(INPUTS, CLASSES, generator=random)
        made = []
        for number, size in enumerate(self.sizes):
            x = torch.randn(size, INPUTS, generator=random)
            y = (x @ rule).argmax(1)
            if number in self.spoiled:
                x[0, 0] = self.spoiled[number]
            made.append((x, y))
        return made

    def optimizer(self, model: nn.Module) -> SGD:
        return SGD(model.parameters(), lr=self.rate / self.weight)


def case(
    label: str,
    seed: int,
    count: int,
    spoiled: dict[int, float] | None = None,
    *,
    rows: int = 10,
    kind: str = "",
    **settings: Any,
) -> Case:
    """A case with one `Setting`: so many batches with so many rows each."""
    return Case((Setting(seed, (rows,) * count, spoiled or {}, **settings),), label, kind)


def seeded(seed: int, make: Callable[[], Any]) -> Any:
    """A module whose weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def network(seed: int, width: int = 8) -> nn.Sequential:
    """Two layers, float32."""

    def make() -> nn.Sequential:
        return nn.Sequential(nn.Linear(INPUTS, width), nn.ReLU(), nn.Linear(width, CLASSES))

    return seeded(seed, make)


class Chart:
    """The scaler and the loss that a program is handed, and what they see of it."""

    def __init__(self, setting: Setting) -> None:
        self.scaler = torch.amp.GradScaler("cpu", init_scale=setting.init_scale, growth_interval=3)
        self.weight = setting.weight
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
                        lambda layer, args, output, dtypes=dtypes: dtypes.add(dtype(output))
                    )

    def loss_fn(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The mean cross entropy in float32, times the weight."""
        loss = cross_entropy(outputs.float(), labels)
        self.scales.append(self.scaler.get_scale())
        self.losses.append(loss.item())
        self.most_rows = max(self.most_rows, self.rows + len(labels))
        if outputs.requires_grad:
            self._hold(outputs, len(labels))
        return loss * self.weight

    def _hold(self, outputs: Tensor, rows: int) -> None:
        """Count these rows as in memory until backward comes by, or their graph is gone."""
        self.rows += rows

        def passed(gradient: Tensor) -> None:
            let_go()

        let_go = weakref.finalize(passed, self._let_go, rows)
        outputs.register_hook(passed)

    def _let_go(self, rows: int) -> None:
        self.rows -= rows

    @contextmanager
    def watching(self) -> Iterator[Chart]:
        """Within this context every optimizer's real steps are noted."""
        before = register_optimizer_step_pre_hook(self._note_gradients)
        after = register_optimizer_step_post_hook(self._count_step)
        try:
            yield self
        finally:
            before.remove()
            after.remove()

    def _note_gradients(self, optimizer: Optimizer, *_: Any) -> None:
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        if not _skips(optimizer):
            self.gradients |= {dtype(p.grad) for p in parameters if p.grad is not None}

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
            **{f"dtype from the {n}": ", ".join(sorted(d)) for n, d in self.layers.items()},
            **self.returned,
            "optimizer steps": self.steps,
            "calls of loss_fn with a finite loss": len(good),
            "dtype of the gradients": ", ".join(sorted(self.gradients)) or "no step was made",
            **{
                f"dtype of the {of(n)} weights": in_words(map(dtype, ps)) for n, ps in parts.items()
            },
            "scale at each batch with a finite loss": [self.scales[n] for n in good],
            "scale at the end": self.scaler.get_scale(),
            "finite losses, batch by batch": [self.losses[n] for n in good],
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


def dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def in_words(words: Iterable[str]) -> str:
    return ", ".join(sorted(set(words)))


def _skips(optimizer: Optimizer) -> bool:
    """Whether the scaler lets a fused optimizer skip: it calls its step all the same, and hands it
    ``found_inf``."""
    found = getattr(optimizer, "found_inf", None)
    return found is not None and bool(found)


def flat(tensors: Iterable[Tensor]) -> list[float]:
    """All elements in one list of floats, which holds each of them exactly."""
    return [x for t in tensors for x in t.detach().double().flatten().tolist()]


def floats(result: Any) -> Any:
    """The losses as a list of floats, be they a tensor, or a list of tensors of one element."""
    if isinstance(result, Tensor):
        return result.tolist()
    if type(result) not in (list, tuple):
        return result
    return [x.item() if isinstance(x, Tensor) and x.numel() == 1 else x for x in result]


# ---- train(model, optimizer, scaler, loss_fn, batches, *more) -----------------------------------


def plain_loop(train: Callable[..., Any]) -> Play:
    """How a loop over batches with one network is used."""

    def play(setting: Setting) -> dict[str, Any]:
        chart, model = Chart(setting), network(setting.seed)
        chart.listen(layers=model)
        with chart.watching():
            train(
                model,
                setting.optimizer(model),
                chart.scaler,
                chart.loss_fn,
                chart.batches,
                *setting.more,
            )
        return chart.left_behind(model=model)

    return play
