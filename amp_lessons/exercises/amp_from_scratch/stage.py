"""Gradients to choose a scale for, a linear classifier with its loss, and runs to examine.

`stage_training` holds what the optimizer and the scaler of these exercises are handed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from amp_lessons.checks.evidence import plain
from amp_lessons.checks.probe import Case

# ---- gradients to choose a scale for ------------------------------------------------------------

ABOVE, BELOW = "gradients that need a scale above 1", "gradients that need a scale below 1"


def gradient_cases() -> list[Case]:
    """Gradients with their largest in the first layer, in the last, negative, just below a power
    of two, and where FP16 rounds down to its largest number; some need a scale below 1."""
    random = torch.Generator().manual_seed(33)

    def case(label: str, headroom: int, *layers: Any, kind: str = ABOVE) -> Case:
        named = {f"layer{i}": torch.as_tensor(t) for i, t in enumerate(layers)}
        return Case((named, headroom), f"{label}, headroom {headroom}", kind)

    spread = 2.0 ** (torch.randn(40, generator=random) * 4 - 20)
    signs = torch.sign(torch.randn(40, generator=random))
    weight, bias = (torch.randn(size, generator=random) for size in ((4, 3), (3,)))
    just_below = 2.0**-3 - 2.0**-26
    return [
        case("largest 0.001", 3, [1e-3, -2e-5], [3e-7]),
        case("largest 0.001", 0, [1e-3, -2e-5], [3e-7]),
        case("largest -0.0005", 2, [2e-6, -5e-4], [3e-6]),
        case("with zeros, largest 0.004", 4, [0.0, 1e-6], [4e-3, -1e-8, 0.0]),
        case("41 random gradients", 5, spread * signs, [1e-9]),
        case("two layers", 2, weight * 1e-3, bias * 0.3),
        case("largest exactly 2**-10", 0, [2.0**-10, 3e-6]),
        case("largest just below 2**-3", 0, [just_below, 1e-4]),
        case("largest just below 2**-3", 6, [just_below, 1e-4]),
        case("largest 65512 * 2**-20", 0, [65512 * 2.0**-20, 1e-5]),
        case("largest -65510 * 2**-30", 4, [1e-6], [-65510 * 2.0**-30]),
        case("70 gradients of about 0.001", 1, [1e-3] * 40, [-9e-4] * 30),
        case("300 gradients of about 0.01", 3, [2e-2], [-1e-2] * 300),
        case("largest 30000", 2, [3e4, -1.0], kind=BELOW),
        case("largest 500000", 3, [5e5, -2.0], [7e4], kind=BELOW),
        case("largest -2000000", 1, [5e3, -2e6], [7e4, 1.0], kind=BELOW),
    ]


# ---- a linear classifier and its loss -----------------------------------------------------------


def loss_cases() -> list[Case]:
    """Batches of several sizes and shapes, with small and with large losses."""
    random = torch.Generator().manual_seed(34)

    def case(rows: int, inputs: int, classes: int, size: float, label: str) -> Case:
        images = torch.randn(rows, inputs, generator=random)
        weight = size * torch.randn(classes, inputs, generator=random) / math.sqrt(inputs)
        bias = torch.randn(classes, generator=random) / 2
        labels = torch.randint(classes, (rows,), generator=random)
        return Case((images, weight, bias, labels), label)

    return [
        case(5, 3, 4, 1.0, "5 images, 4 classes"),
        case(37, 16, 10, 2.0, "37 images, 10 classes"),
        case(64, 24, 3, 0.1, "64 images, 3 classes, small weights"),
        case(500, 8, 5, 40.0, "500 images, 5 classes, large losses"),
    ]


def forward_and_back(mixed_loss: Any) -> Callable[..., Any]:
    """How a loss is used: it is called on FP32 parameters, and the backward pass follows."""
    return partial(_lose, mixed_loss)


def _lose(
    mixed_loss: Callable[..., Any], images: Tensor, weight: Tensor, bias: Tensor, labels: Tensor
) -> Any:
    given = [weight, bias]
    weight, bias = parameters = [t.clone().requires_grad_() for t in given]
    loss = mixed_loss(images, weight, bias, labels)
    if type(loss) is not Tensor:
        return loss
    early = any(p.grad is not None for p in parameters)
    left = [_left_as(p, was) for p, was in zip(parameters, given, strict=True)]
    if loss.requires_grad and loss.numel() == 1 and not early:
        loss.backward()
    return {
        "weight after the call": left[0],
        "bias after the call": left[1],
        "gradients before backward()": "there already" if early else "none",
        "loss": loss.detach(),
        "gradient of weight": weight.grad,
        "gradient of bias": bias.grad,
    }


def _left_as(parameter: Tensor, was: Tensor) -> str:
    if parameter.dtype != was.dtype:
        return plain(parameter)["dtype"]
    if torch.equal(parameter.detach(), was):
        return "as before"
    rounded = torch.equal(parameter.detach(), was.half().float())
    return "rounded to float16" if rounded else "changed"
