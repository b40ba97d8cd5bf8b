"""What a training loop is handed, and what it leaves behind.

A loop gets a small model with all that belongs to it, a `Run`. Some batches hold an input that FP16
cannot store, so their step must be skipped. A loop is judged by what it leaves behind: the
parameters, how often the optimizer really stepped, the scale, the dtypes of the model's outputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from amp_lessons.checks.probe import Case

HALF = torch.float16
LARGE = 3e4  # an input with which the forward pass is fine, and the scaled gradients overflow
TOO_LARGE = 3e5  # an input beyond FP16: the forward pass overflows, and the step must be skipped
SMALL = 2.0**-24  # a weight of the loss with which FP16 gradients are zero unless they are scaled
INPUTS, CLASSES = 6, 3

Batch = tuple[Tensor, Tensor]


def network(seed: int, width: int = 8, *, noisy: bool = False) -> nn.Sequential:
    """Two layers, float32; ``noisy`` adds batch norm and dropout."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # much cheaper than torch.manual_seed
        between = [nn.BatchNorm1d(width), nn.Dropout(0.4)] if noisy else []
        layers = [nn.Linear(INPUTS, width), *between, nn.ReLU(), nn.Linear(width, CLASSES)]
        return nn.Sequential(*layers)


def batches(
    seed: int, count: int, size: int, overflows: tuple[int, ...] = (), too_large: float = TOO_LARGE
) -> list[Batch]:
    """Batches of random inputs with labels that can be learned; some with an input too large."""
    random = torch.Generator().manual_seed(seed)
    rule = torch.randn(INPUTS, CLASSES, generator=random)
    made = []
    for number in range(count):
        x = torch.randn(size, INPUTS, generator=random)
        y = (x @ rule).argmax(1)
        if number in overflows:
            x[0, 0] = too_large
        made.append((x, y))
    return made


@dataclass
class Run:
    """A model with its optimizer, scaler and loss, and a record of what they go through."""

    seed: int
    width: int = 8
    noisy: bool = False
    rate: float = 0.5
    weight: float = 1.0
    init_scale: float = 2.0**10
    steps: int = 0
    outputs: list[str] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.model = network(self.seed, self.width, noisy=self.noisy)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=self.rate / self.weight)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=self.init_scale, growth_interval=3)
        self.optimizer.register_step_post_hook(self._count)
        # A model that is cast to half and back has rounded weights before a step, and not after it.
        first = [next(self.model.parameters())]
        self.optimizer.register_step_pre_hook(lambda *_: self.kept.append(kept_in(first)))
        # Asked of the model and not in the loss, since a loop may cast the logits to float32. A
        # function, so that a deep copy of the model reports here too.
        self.model[-1].register_forward_hook(lambda *seen: self.outputs.append(dtype(seen[-1])))

    def _count(self, *_: Any) -> None:
        self.steps += 1
        self.rates.append(self._rate())

    def _rate(self) -> float:
        """The learning rate as it would be for a loss of weight 1, without rounding errors."""
        return round(self.optimizer.param_groups[0]["lr"] * self.weight, 6)

    def loss_fn(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross entropy times the weight of the loss."""
        return cross_entropy(logits.float(), labels) * self.weight

    def _kept(self, parameters: list[Tensor]) -> str:
        """How the parameters are kept at the end, or before a step if that is not in float32."""
        before = [f"{kept} before a step" for kept in self.kept if kept != "float32"]
        at_the_end = kept_in(parameters)
        return before[0] if before and at_the_end == "float32" else at_the_end

    def left_behind(self, *, every_forward: bool = True) -> dict[str, Any]:
        """What every loop leaves, in the order in which it is compared.

        Args:
            every_forward: how often the model was run counts, and not only in which dtypes.
        """
        parameters = list(self.model.parameters())
        outputs = in_runs(self.outputs) if every_forward else ", ".join(sorted({*self.outputs}))
        return {
            "optimizer steps": self.steps,
            "dtype of the model's outputs": outputs,
            "dtype of the parameters": self._kept(parameters),
            "learning rates": sorted({*self.rates, self._rate()}),
            "scale at the end": self.scaler.get_scale(),
            "parameters at the end": flat(parameters),
        }


def dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def in_runs(words: Iterable[Any]) -> str:
    """A sequence in short: ``"4 x float16, 1 x float32"``."""
    return ", ".join(f"{len(list(same))} x {word}" for word, same in itertools.groupby(words))


def kept_in(parameters: list[Tensor]) -> str:
    """The dtypes of the parameters; told apart from float32 are values that 16 bits can hold."""
    dtypes = {dtype(p) for p in parameters}
    for narrow in (HALF, torch.bfloat16):
        if dtypes == {"float32"} and all((p.to(narrow).float() == p).all() for p in parameters):
            return f"float32, rounded to {str(narrow).removeprefix('torch.')}"
    return ", ".join(sorted(dtypes))


def part(entry: dict[str, Any], key: str) -> Any:
    """What an entry of evidence says under a key; None if the loop raised."""
    return entry.get("value", {}).get("dict", {}).get(key)


def flat(tensors: Iterable[Tensor]) -> list[float]:
    """All elements in one list of floats, which holds each of them exactly."""
    return [x for t in tensors for x in t.detach().double().flatten().tolist()]


@dataclass
class Training:
    """A run that can be interrupted: it holds all that the next step depends on but one thing.

    Attributes:
        model: has batch norm and dropout, which draws from torch's global random numbers.
        optimizer: SGD with momentum.
        scaler: for FP16.
        scheduler: lowers the learning rate every second epoch; an epoch has three steps.
        order: the generator that shuffles the images.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    scheduler: Any
    order: torch.Generator

    @classmethod
    def fresh(cls, seed: int) -> Training:
        """A run at its beginning, with weights and data order from ``seed``."""
        torch.default_generator.manual_seed(seed)  # much cheaper than torch.manual_seed
        model = network(seed, 10, noisy=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
        return cls(
            model,
            optimizer,
            torch.amp.GradScaler("cpu", init_scale=2.0**26, growth_interval=3),
            torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5),
            torch.Generator().manual_seed(seed),
        )

    def steps(self, images: Tensor, labels: Tensor, count: int) -> list[float]:
        """Train ``count`` steps on 16 random images each; return the losses."""
        losses = []
        for number in range(count):
            chosen = torch.randperm(len(labels), generator=self.order)[:16]
            self.optimizer.zero_grad()
            with torch.autocast("cpu", dtype=HALF):
                loss = cross_entropy(self.model(images[chosen]), labels[chosen])
            self.scaler.scale(loss).backward()
            before = self.scaler.get_scale()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            if number % 3 == 2 and self.scaler.get_scale() >= before:
                self.scheduler.step()
            losses.append(loss.item())
        return losses


# ---- a plain loop: train(model, optimizer, scaler, loss_fn, batches) ----------------------------


def loop_cases() -> list[Case]:
    """Runs with and without overflows, in the loss or in the gradients alone; some in which old
    gradients weigh as much as scaled ones; one whose gradients are zero unless they are scaled."""
    return [
        Case((1, 8, 8, 6, ()), "6 batches, none overflows"),
        Case((2, 8, 8, 7, (1,)), "7 batches, the second overflows"),
        Case((3, 12, 16, 8, (0, 5)), "8 batches, the first and the sixth overflow"),
        Case((5, 8, 8, 6, (2,), 1.0, 2.0**10, LARGE), "6 batches, gradients of the third overflow"),
        Case((6, 8, 8, 7, (1, 4), 1.0, 2.0**10, LARGE), "7 batches, gradients of two overflow"),
        Case((4, 8, 8, 5, (), 1.0, 2.0), "5 batches, a scale of 2"),
        Case((9, 8, 12, 6, (), 1.0, 4.0), "6 batches, a scale of 4"),
        Case((7, 8, 8, 5, (), SMALL, 2.0**16), "5 batches, a loss with a small weight"),
    ]


def plain_loop(*, weight: float = 1.0, init_scale: float = 2.0**10) -> Callable[..., Any]:
    """How a plain loop is used, with this weight of the loss and this scale by default."""

    def use(train: Callable[..., Any]) -> Callable[..., Any]:
        def play(
            seed: int,
            width: int,
            size: int,
            count: int,
            overflows: tuple[int, ...],
            weight: float = weight,
            init_scale: float = init_scale,
            too_large: float = TOO_LARGE,
        ) -> dict[str, Any]:
            run = Run(seed, width, weight=weight, init_scale=init_scale)
            given = batches(seed, count, size, overflows, too_large)
            train(run.model, run.optimizer, run.scaler, run.loss_fn, given)
            return run.left_behind()

        return play

    return use
