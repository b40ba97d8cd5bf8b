"""What is trained: the seed's network, a small transformer, a small CNN, in sizes of your choice.

Each workload learns something, and quickly: only a loss that falls in float32 can show that
another mode learns less. (The seed's random targets at a learning rate of 0.001 leave the loss
where it was; a mode that skips every step would look as good.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.optim import SGD, AdamW, Optimizer

from amp_lessons.amp.training.models import GPT, ConvNet
from amp_lessons.core.errors import AmpLessonsError

Batch = tuple[Tensor, Tensor]
LARGEST, MOST_LAYERS = 10**9, 1000


class BenchError(AmpLessonsError):
    """The bench cannot run as it was asked to. The message is one line with the cure."""


@dataclass(frozen=True)
class Workload:
    """A model, its data and how it is trained.

    Attributes:
        name: with the sizes that matter.
        build: makes the model on the default device, the same for the same random state.
        batch: makes one batch (input, target) on the default device.
        loss: of (output, target).
        optimizer: of the parameters.
        widest: the longest sum in a matmul; float16 on most CPUs is hopeless above 128.
        batches: preloaded, and trained on in each epoch.
        epochs: of the run whose losses are compared.
    """

    name: str
    build: Callable[[], nn.Module]
    batch: Callable[[], Batch]
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: Callable[[Iterable[nn.Parameter]], Optimizer]
    widest: int
    batches: int = 50
    epochs: int = 3


def mlp(batch: int, width: int, layers: int = 3, **run: int) -> Workload:
    """The seed's network: linear layers of one width with ReLU between, MSE, plain SGD."""

    def build() -> nn.Module:
        parts: list[nn.Module] = [nn.Linear(width, width)]
        for _ in range(layers - 1):
            parts += [nn.ReLU(), nn.Linear(width, width)]
        return nn.Sequential(*parts)

    def data() -> Batch:
        x = torch.randn(batch, width)
        return x, x.abs()

    name = f"mlp {batch}x{width}, {layers} layers"
    # At this rate the loss falls from 1.0 to 0.4 within 12 steps, at every width up to 4096.
    optimizer = partial(SGD, lr=1.0)
    return Workload(name, build, data, mse_loss, optimizer, max(batch, width), **run)


def transformer(
    batch: int, length: int, width: int, layers: int, vocabulary: int, **run: int
) -> Workload:
    """A small GPT with heads of 64 (or one of the width), AdamW; the next token is one higher."""

    def build() -> nn.Module:
        model = GPT(vocabulary, length, width, layers, heads=max(1, width // 64))
        nn.init.normal_(model.tokens.weight, std=0.02)  # GPT-2's own, for a sane first loss
        return model

    def data() -> Batch:
        ids = (torch.randint(64, (batch, 1)) + torch.arange(length + 1)) % 64
        return ids[:, :-1].contiguous(), ids[:, 1:].contiguous()

    def loss(logits: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(logits.flatten(0, 1), target.flatten())

    name = f"transformer {batch}x{length}, width {width}, {layers} layers"
    widest = max(batch * length, vocabulary)
    return Workload(name, build, data, loss, partial(AdamW, lr=1e-3), widest, **run)


def cnn(
    batch: int, side: int, channels: int, *, channels_last: bool = False, **run: int
) -> Workload:
    """A small residual CNN with batch norm, SGD with momentum; the classes are colours.

    With ``channels_last``, model and images are in that memory format in every mode, FP32 too, so
    that a gain of the layout can't count as one of the 16 bits. Tensor cores' convolutions need it,
    and cuDNN transposes other layouts on the way (NVIDIA's guide to convolutional layers, "Tensor
    Layouts in Memory").
    """
    layout = torch.channels_last if channels_last else torch.contiguous_format

    def build() -> nn.Module:
        model = ConvNet(channels)
        for parameter in model.parameters():  # `model.to` can't convert fake tensors
            if parameter.dim() == 4:
                parameter.data = parameter.data.contiguous(memory_format=layout)
        return model

    def data() -> Batch:
        labels = torch.randint(10, (batch,))
        colour = torch.stack([torch.sin(labels * k) for k in (1, 2, 3)], dim=1)
        images = torch.randn(batch, 3, side, side) + colour[:, :, None, None]
        return images.contiguous(memory_format=layout), labels

    name = f"cnn {batch}x3x{side}x{side}, {channels} channels"
    if channels_last:
        name += ", channels_last"
    optimizer = partial(SGD, lr=0.05, momentum=0.9)
    return Workload(name, build, data, cross_entropy, optimizer, 9 * channels, **run)


PRESETS: dict[str, Callable[..., list[Workload]]] = {
    "seed": lambda **run: [mlp(4096, 4096, **run)],
    "seed-128": lambda **run: [mlp(128, 4096, **run)],
    "seed-256": lambda **run: [mlp(256, 4096, **run)],
    "seed-513": lambda **run: [mlp(513, 4096, **run)],
    "transformer": lambda **run: [transformer(16, 512, 768, 6, 16384, **run)],
    "cnn": lambda **run: [cnn(256, 64, 64, **run)],
    "cnn-channels-last": lambda **run: [cnn(256, 64, 64, channels_last=True, **run)],
    "course": lambda **run: [
        mlp(4096, 4096, **run),
        transformer(16, 512, 768, 6, 16384, **run),
        cnn(256, 64, 64, **run),
        cnn(256, 64, 64, channels_last=True, **run),
    ],
    "small": lambda **run: [
        mlp(64, 128, **run),
        mlp(256, 512, **run),
        transformer(4, 64, 128, 2, 1024, **run),
        cnn(16, 16, 32, **run),
    ],
}
"""By name: the seed's network in its own size and with the batches that it says to try; the two
others, the CNN in both memory formats; all of these at full size; and four that a CPU can do."""


def chosen(presets: Iterable[str], sizes: Iterable[str], **run: Any) -> list[Workload]:
    """The workloads of some presets, then the seed's network in some sizes.

    Args:
        presets: names from `PRESETS`.
        sizes: such as ``"513x4096"`` (batch x width) or ``"513x4096x5"`` (and layers).
        run: `batches` and `epochs`.

    Raises:
        BenchError: for a preset that there is not, and a size that is none.
    """
    workloads = []
    for name in presets:
        if name not in PRESETS:
            raise BenchError(f"no preset {name!r}: choose from {', '.join(PRESETS)}")
        workloads += PRESETS[name](**run)
    for size in sizes:
        numbers = size.lower().split("x")
        if len(numbers) not in (2, 3) or not all(n.isdecimal() and int(n) for n in numbers):
            raise BenchError(f"{size!r} is no size: give BATCHxWIDTH, such as 513x4096")
        batch, width, layers = (*map(int, numbers), 3)[:3]
        if max(batch, width) > LARGEST or layers > MOST_LAYERS:
            raise BenchError(
                f"{size!r} is past any memory: up to {LARGEST:,} and {MOST_LAYERS:,} layers"
            )
        workloads.append(mlp(batch, width, layers, **run))
    return list({workload.name: workload for workload in workloads}.values())
