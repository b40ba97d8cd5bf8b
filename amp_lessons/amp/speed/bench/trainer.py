"""A model in one mode, and its training step: the loop that the bench measures.

Which settings the step needs is said here; when they are set and what is timed is up to `runner`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor
from torch._functorch import config as compiler_settings

from amp_lessons.amp.speed.bench.modes import Mode
from amp_lessons.amp.speed.bench.workloads import Batch, Workload
from amp_lessons.amp.speed.timing import fp32_precision


class Trainer:
    """A model in one mode, and its training step: the loop that is measured.

    Args:
        workload: what is trained; the weights are the same in every mode.
        mode: how.
        data: the preloaded batches.
        device: where.
    """

    def __init__(
        self, workload: Workload, mode: Mode, data: list[Batch], device: torch.device
    ) -> None:
        self.mode, self.data, self.device, self.loss = mode, data, device, workload.loss
        with seeded(1, device):
            model = workload.build()
        self.optimizer = workload.optimizer(model.parameters())
        self.scaler = torch.amp.GradScaler(device.type, enabled=mode.scaler)
        if mode.compile:
            torch.compiler.reset()  # after 8 recompilations Dynamo would run eagerly, silently
        self.model: Callable[..., Tensor] = model
        if mode.compile:
            self.model = torch.compile(model, dynamic=False)

    def step(self, x: Tensor, target: Tensor) -> Tensor:
        """One training step within `settings`. Its loss stays on the device, in its own memory.

        `torch.nn.functional.mse_loss` resizes its buffer of single errors to one number, and that
        number keeps the whole buffer in memory (torch 2.13).
        """
        with torch.autocast(
            self.device.type, self.mode.autocast, enabled=self.mode.autocast is not None
        ):
            loss = self.loss(self.model(x), target)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad()
        return loss.detach().clone()

    def one_pass(self) -> None:
        """A step on each batch, within `settings`."""
        for x, target in self.data:
            self.step(x, target)

    @contextmanager
    def settings(self) -> Iterator[None]:
        """What the mode needs around its steps, and outside their time: TF32, and how to compile.

        `torch.compile` records the backward pass under the forward's autocast, unless it is told
        that it runs outside, as it does in `step` (torch 2.13, torch/_functorch/config.py).
        """
        outside = compiler_settings.patch(backward_pass_autocast="off")
        with fp32_precision(self.mode.fp32), outside if self.mode.compile else nullcontext():
            yield

    def learn(self, epochs: int) -> tuple[list[float], int]:
        """Train from the start: the loss of each step, and how many steps the scaler skipped."""
        losses, skipped = [], 0
        with self.settings():
            for _ in range(epochs):
                for x, target in self.data:
                    scale = self.scaler.get_scale()
                    losses.append(self.step(x, target))
                    skipped += self.scaler.get_scale() < scale
        return torch.stack(losses).tolist(), skipped


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """New tensors on the device, random ones from a seed; every generator goes back after it."""
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.device(device):
        torch.manual_seed(seed)
        yield
