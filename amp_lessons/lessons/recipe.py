"""The run of PyTorch's AMP recipe that this course doubts, so that you can make it yourself.

The record ``seed_003`` quotes its figures: three linear layers of 4096, 3 passes over 50 batches of
4096, once in FP32 and once with AMP. `run_recipe` trains the same network in the same sizes, and
looks at dtypes in every step. One run on one clock is no benchmark: `bench` is.
"""

from __future__ import annotations

import gc
import math
import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from amp_lessons.amp.speed import device as machine
from amp_lessons.amp.speed.timing import fp32_precision
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.sizes import size as in_words


class RecipeError(AmpLessonsError):
    """The run is not what it should be. The message is one line."""


@dataclass(frozen=True)
class Size:
    """How large the run is: square layers of ``width``, and ``epochs`` passes over the batches."""

    width: int
    batch: int
    layers: int = 3
    batches: int = 50
    epochs: int = 3

    @property
    def steps(self) -> int:
        return self.batches * self.epochs


AS_RECORDED = Size(width=4096, batch=4096)
FOR_A_CPU = Size(width=64, batch=64, batches=4)


@dataclass(frozen=True)
class RecipeRun:
    """One training run.

    Attributes:
        name: "FP32", "AMP FP16" or "AMP BF16".
        machine: the GPU's or the CPU's name.
        on_cuda: whether it ran on a GPU.
        size: of the network and its data.
        seconds: of all steps together, by the clock on the wall.
        peak_bytes: the most memory allocated at once, the data included; None on a CPU.
        data_bytes: of the inputs and targets, all there before the first step.
        losses: of each step.
        skipped: steps that the scaler skipped.
        dtypes: of the last layer's "output", the "loss", the "parameters" and the "gradients",
            the same in every step.
    """

    name: str
    machine: str
    on_cuda: bool
    size: Size
    seconds: float
    peak_bytes: int | None
    data_bytes: int
    losses: tuple[float, ...]
    skipped: int
    dtypes: dict[str, str]

    def __str__(self) -> str:
        peak = "not measured here" if self.peak_bytes is None else f"{self.peak_bytes:,} bytes"
        dtypes = ", ".join(f"{what} {dtype}" for what, dtype in self.dtypes.items())
        where = "" if self.on_cuda else "; a CPU's time says nothing about a GPU's"
        return (
            f"{self.name}: {self.size.steps} steps of {self.size.layers} layers of "
            f"{self.size.width}, batch {self.size.batch}, on {self.machine}\n"
            f"  {self.seconds:.3f} s{where}\n"
            f"  peak memory {peak}, data {in_words(self.data_bytes)}\n"
            f"  {dtypes}\n"
            f"  loss {self.losses[0]:.4f} at first, {self.losses[-1]:.4f} at the end"
        )


def run_recipe(mixed: bool, size: Size | None = None, *, warm_up: int = 3) -> RecipeRun:
    """Train the recipe's network, in FP32 or with AMP: on CUDA if there is a GPU, else small.

    On CUDA, AMP is FP16 with a `GradScaler`, and FP32 is IEEE FP32 without TF32. A CPU uses BF16 if
    it has that natively, else FP16. The targets are random, as in the recipe, so both losses hardly
    fall: they can't show that one run learns less.

    Args:
        mixed: with AMP, or in FP32.
        size: by default `AS_RECORDED` on CUDA (8 GB of memory) and `FOR_A_CPU` elsewhere.
        warm_up: steps before the clock starts, on a network that is then thrown away. The record
            had none, so its FP32 run, the first of the two, also paid for CUDA's start.

    Raises:
        RecipeError: if a tensor has another dtype than autocast should give it.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    size = size or (AS_RECORDED if device == "cuda" else FOR_A_CPU)
    dtype = _half(device) if mixed else torch.float32
    data = _data(size, device)
    with fp32_precision("ieee"):
        if warm_up:
            _train(data[:1] * warm_up, size, dtype, device, epochs=1)
        _start(device)
        begin = time.perf_counter()
        losses, skipped, dtypes = _train(data, size, dtype, device, size.epochs)
        _wait(device)
        seconds = time.perf_counter() - begin
    short = {torch.float16: "AMP FP16", torch.bfloat16: "AMP BF16", torch.float32: "FP32"}
    cuda = device == "cuda"
    return RecipeRun(
        name=short[dtype],
        machine=torch.cuda.get_device_name(device) if cuda else machine.cpu().model,
        on_cuda=cuda,
        size=size,
        seconds=seconds,
        peak_bytes=torch.cuda.max_memory_allocated(device) if cuda else None,
        data_bytes=sum(t.numel() * t.element_size() for pair in data for t in pair),
        losses=tuple(torch.stack(losses).tolist()),
        skipped=skipped,
        dtypes=dtypes,
    )


def _train(
    data: list[tuple[Tensor, Tensor]], size: Size, dtype: torch.dtype, device: str, epochs: int
) -> tuple[list[Tensor], int, dict[str, str]]:
    """The loop itself: the loss of each step, the skipped steps, the dtypes that were seen."""
    torch.manual_seed(0)
    with torch.device(device):
        layers: list[nn.Module] = [nn.Linear(size.width, size.width)]
        for _ in range(size.layers - 1):
            layers += [nn.ReLU(), nn.Linear(size.width, size.width)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    scaler = torch.amp.GradScaler(device, enabled=dtype == torch.float16)
    losses, scale = [], scaler.get_scale()
    for _ in range(epochs):
        for x, target in data:
            with torch.autocast(device, dtype, enabled=dtype != torch.float32):
                output = model(x)
                loss = mse_loss(output, target)
            scaler.scale(loss).backward()
            _check("the output of the last layer", output, dtype)
            _check("the loss", loss, torch.float32)  # autocast runs mse_loss in FP32
            for name, parameter in model.named_parameters():
                _check(name, parameter, torch.float32)
                _check(f"the gradient of {name}", parameter.grad, torch.float32)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            losses.append(loss.detach().clone())  # a view would keep mse_loss's buffer in memory
    seen = {"output": output.dtype, "loss": loss.dtype}
    seen |= {"parameters": torch.float32, "gradients": torch.float32}  # checked above
    # Each skip halves the scale, and it doubles again only after 2,000 steps.
    skipped = round(math.log2(scale / scaler.get_scale()))
    return losses, skipped, {what: str(d).removeprefix("torch.") for what, d in seen.items()}


def _check(what: str, tensor: Tensor | None, dtype: torch.dtype) -> None:
    if tensor is None or tensor.dtype != dtype:
        has = "is missing" if tensor is None else f"is {tensor.dtype}"
        raise RecipeError(f"{what} {has}, and {dtype} was expected")


def _data(size: Size, device: str) -> list[tuple[Tensor, Tensor]]:
    """Random inputs and targets in FP32, all on the device before the first step."""
    torch.manual_seed(1)
    shape = (size.batch, size.width)
    return [
        (torch.randn(shape, device=device), torch.randn(shape, device=device))
        for _ in range(size.batches)
    ]


def _half(device: str) -> torch.dtype:
    """FP16 on CUDA, as in the recipe. On a CPU BF16 if it is native: FP16 seldom is."""
    return torch.bfloat16 if device == "cpu" and machine.cpu().bf16 else torch.float16


def _start(device: str) -> None:
    """Nothing left over from before counts: not in the time, and not in the peak."""
    gc.collect()
    if device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats(device)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()
