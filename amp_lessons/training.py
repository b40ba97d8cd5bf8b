"""The small, readable reference loops, on a data set that needs no download.

The digits of scikit-learn (1,797 images of 8 x 8 grey values) train a small network in seconds
on a laptop. Lessons read this module; what happens to its numbers is measured in `scaling`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Digits:
    """The digits, split once and for all.

    Attributes:
        train_images, validation_images: float32, shape (n, 64), values 0 to 1.
        train_labels, validation_labels: int64, shape (n,), classes 0 to 9.
    """

    train_images: Tensor
    train_labels: Tensor
    validation_images: Tensor
    validation_labels: Tensor


def load_digits(validation_share: float = 0.25, seed: int = 0) -> Digits:
    """scikit-learn's digits as tensors, shuffled with ``seed`` and split.

    Args:
        validation_share: share of the 1,797 images kept for validation.
        seed: of the shuffle.
    """
    from sklearn.datasets import load_digits as load

    images, labels = load(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    x = torch.tensor(images, dtype=torch.float32)[order] / 16
    y = torch.tensor(labels)[order]
    cut = int(len(y) * (1 - validation_share))
    return Digits(x[:cut], y[:cut], x[cut:], y[cut:])


def digits_network(width: int = 64, seed: int = 0) -> nn.Sequential:
    """A network for the digits: 64 inputs, two hidden layers, 10 classes, float32."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(64, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 10),
        )


def digits_gradients(
    loss_factor: float = 1.0, batch: int = 256, width: int = 64, seed: int = 0
) -> dict[str, Tensor]:
    """Gradients of the digits network after one backward pass in float32.

    Args:
        loss_factor: the loss is multiplied by this before the backward pass. A small factor
            stands in for a loss with a small weight, such as one of many auxiliary losses.
        batch: images in the batch.
        width: of the hidden layers.
        seed: of the weights and of the split.

    Returns:
        The gradient of each parameter by its name, float32.
    """
    digits = load_digits(seed=seed)
    network = digits_network(width, seed)
    logits = network(digits.train_images[:batch])
    loss = nn.functional.cross_entropy(logits, digits.train_labels[:batch])
    (loss * loss_factor).backward()
    return {name: parameter.grad for name, parameter in network.named_parameters()}
