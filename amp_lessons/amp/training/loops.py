"""The small, readable reference loops, on a data set that needs no download.

The digits of scikit-learn (1,797 images of 8 x 8 grey values) train a small network in seconds
on a laptop. Lessons read this module; what happens to its numbers is measured in `scaling`.
Checkpoints, which resume such a loop bit for bit, are in `checkpoint`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import Optimizer

from amp_lessons.amp.scaling.checkpoint import CheckpointError, load_checkpoint, save_checkpoint
from amp_lessons.amp.scaling.scaler_log import ScalerLog, ScalerRecord

__all__ = [
    "MODES",
    "Batches",
    "CheckpointError",
    "Digits",
    "TrainingRun",
    "accuracy",
    "autoencoder",
    "digits_gradients",
    "digits_network",
    "load_checkpoint",
    "load_digits",
    "save_checkpoint",
    "train_bf16",
    "train_digits",
    "train_fp16",
    "train_fp16_unscaled",
    "train_fp32",
]

Batch = tuple[Tensor, Tensor]


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

    def to(self, device: torch.device | str) -> Digits:
        """The same digits on another device."""
        return Digits(**{name: tensor.to(device) for name, tensor in vars(self).items()})


def load_digits(validation_share: float = 0.25, seed: int = 0) -> Digits:
    """scikit-learn's digits as tensors, shuffled with ``seed`` and split.

    Args:
        validation_share: share of the 1,797 images kept for validation.
        seed: of the shuffle.

    Raises:
        ValueError: if the share is not between 0 and 1.
    """
    if not 0 <= validation_share <= 1:
        raise ValueError(f"validation_share must be between 0 and 1, got {validation_share}")
    from sklearn.datasets import load_digits as load

    images, labels = load(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    x = torch.tensor(images, dtype=torch.float32)[order] / 16
    y = torch.tensor(labels)[order]
    cut = int(len(y) * (1 - validation_share))
    return Digits(x[:cut], y[:cut], x[cut:], y[cut:])


def digits_network(width: int = 64, seed: int = 0) -> nn.Sequential:
    """A network for the digits: 64 inputs, two hidden layers, 10 classes, float32.

    The seed alone decides the weights, and no global random generator moves.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(64, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, 10),
        )


def outcome(train: Callable[[], Sequence[float]]) -> str:
    """Train, and say in a line what came of it: the last error, or the exception.

    Args:
        train: gives the error per pixel after each step.
    """
    try:
        return f"error per pixel {train()[-1]:.3f}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def autoencoder(seed: int = 0) -> nn.Sequential:
    """The network that runs through the course: it paints a digit again from 16 numbers.

    It maps float32 pictures of shape (n, 64) to the same shape. The seed alone decides the
    weights, and no global random generator moves.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(64, 64),
            nn.Tanh(),
            nn.Linear(64, 16),
            nn.Tanh(),
            nn.Linear(16, 64),
            nn.Tanh(),
            nn.Linear(64, 64),
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
    loss = cross_entropy(logits, digits.train_labels[:batch])
    (loss * loss_factor).backward()
    return {name: p.grad for name, p in network.named_parameters() if p.grad is not None}


class Batches:
    """Endless batches of shuffled data that know where they stand.

    Each epoch has an order of its own, which depends on the seed and the epoch alone. So two
    numbers are enough to go on at the same batch, and no random generator has to be kept.

    Args:
        images, labels: the data, with the same first dimension and on the same device.
        size: of a batch. What is left at the end of an epoch is dropped.
        seed: of the order.

    Attributes:
        taken: how many batches were given out.

    Raises:
        ValueError: if there is not enough data for one batch, or a label for each image.
    """

    def __init__(self, images: Tensor, labels: Tensor, size: int = 64, seed: int = 0) -> None:
        if len(images) != len(labels):
            raise ValueError(f"there are {len(images)} images and {len(labels)} labels")
        if not 1 <= size <= len(images):
            raise ValueError(f"size must be 1 to {len(images)}, the number of images, got {size}")
        self.images, self.labels, self.size, self.seed = images, labels, size, seed
        self.taken = 0
        self._epoch = -1  # the epoch that the order is for: none yet

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        epoch, batch = divmod(self.taken, len(self.images) // self.size)
        if epoch != self._epoch:
            self._epoch, self._order = epoch, self._shuffle(epoch)
        chosen = self._order[batch * self.size : (batch + 1) * self.size]
        self.taken += 1
        return self.images[chosen], self.labels[chosen]

    def _shuffle(self, epoch: int) -> Tensor:
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + epoch)
        return torch.randperm(len(self.images), generator=generator).to(self.images.device)

    def state_dict(self) -> dict[str, int]:
        """Where the next batch comes from, as a checkpoint keeps it."""
        images = len(self.images)
        return {"images": images, "size": self.size, "seed": self.seed, "taken": self.taken}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on where another run stood. Its size and seed come along, its data do not.

        Raises:
            ValueError: if that run had another number of images: the order would be another;
                or if this is not what `state_dict` gives.
        """
        if not isinstance(state, Mapping) or not state.keys() >= self.state_dict().keys():
            raise ValueError("this is no state of Batches: give what Batches.state_dict() gave")
        if state["images"] != len(self.images):
            raise ValueError(
                f"the batches were made of {state['images']} images, these are of "
                f"{len(self.images)}: load them into batches of the same data"
            )
        self.size, self.seed, self.taken = state["size"], state["seed"], state["taken"]
        self._epoch = -1


# ---- one loop for each precision -------------------------------------------------------------


def train_fp32(
    network: nn.Module, optimizer: Optimizer, batches: Iterable[Batch], loss_factor: float = 1.0
) -> list[float]:
    """Train in float32. Returns the loss of each batch, without the factor."""
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        loss = cross_entropy(network(images), labels)
        (loss * loss_factor).backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


def train_bf16(
    network: nn.Module, optimizer: Optimizer, batches: Iterable[Batch], loss_factor: float = 1.0
) -> list[float]:
    """Train with bfloat16 autocast: almost float32's range, so no scaler."""
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        with torch.autocast(images.device.type, torch.bfloat16):
            loss = cross_entropy(network(images), labels)
        (loss * loss_factor).backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


def train_fp16_unscaled(
    network: nn.Module, optimizer: Optimizer, batches: Iterable[Batch], loss_factor: float = 1.0
) -> list[float]:
    """Train with float16 autocast and no scaler: small gradients become zero."""
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        with torch.autocast(images.device.type, torch.float16):
            loss = cross_entropy(network(images), labels)
        (loss * loss_factor).backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


def train_fp16(
    network: nn.Module,
    optimizer: Optimizer,
    batches: Iterable[Batch],
    scaler: torch.amp.GradScaler | ScalerLog,
    loss_factor: float = 1.0,
) -> list[float]:
    """Train with float16 autocast and a scaler: the way to use float16."""
    losses = []
    for images, labels in batches:
        optimizer.zero_grad()
        with torch.autocast(images.device.type, torch.float16):
            loss = cross_entropy(network(images), labels)
        scaler.scale(loss * loss_factor).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    return torch.stack(losses).tolist()


def accuracy(
    network: nn.Module, images: Tensor, labels: Tensor, dtype: torch.dtype | None = None
) -> float:
    """Share of images that are recognised, 0 to 1, evaluated in the precision of the training.

    Args:
        network: goes back to training mode afterwards if it was in it.
        dtype: of autocast, float16 or bfloat16; None for no autocast.
    """
    was_training = network.training
    network.eval()
    autocast = torch.autocast(images.device.type, dtype, enabled=dtype is not None)
    with torch.no_grad(), autocast:
        right = network(images).argmax(dim=1) == labels
    network.train(was_training)
    return right.float().mean().item()


# ---- the same training in each precision -----------------------------------------------------

AUTOCAST_DTYPE: dict[str, torch.dtype | None] = {
    "fp32": None,
    "fp16 unscaled": torch.float16,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
}
MODES = tuple(AUTOCAST_DTYPE)


@dataclass(frozen=True)
class TrainingRun:
    """What a training came to.

    Attributes:
        mode: one of `MODES`.
        losses: of each step, without the loss factor.
        accuracy: on the validation images, 0 to 1, in the precision of the training.
        records: what the scaler did at each step; empty where there was none.
        network: as it was trained, with the gradients of the last step in its parameters.
    """

    mode: str
    losses: list[float]
    accuracy: float
    records: list[ScalerRecord]
    network: nn.Module


def train_digits(
    mode: str,
    steps: int = 200,
    *,
    loss_factor: float = 1.0,
    learning_rate: float = 0.1,
    width: int = 64,
    batch: int = 64,
    seed: int = 0,
    device: torch.device | str = "cpu",
    scaler: torch.amp.GradScaler | ScalerLog | None = None,
) -> TrainingRun:
    """Train the digits network in one precision, the same way in each: SGD on the same batches.

    With ``loss_factor=1e-6`` every float16 gradient is zero without a scaler, and nothing is
    learned; the other three modes learn as if nothing had happened.

    Args:
        mode: "fp32", "fp16 unscaled" (autocast alone), "fp16" (with a scaler) or "bf16".
        steps: batches to train on, 1 or more.
        loss_factor: the loss is multiplied by this, and the learning rate divided by it: in exact
            arithmetic the training stays the same.
        learning_rate: of SGD, before that division.
        width: of the hidden layers.
        batch: images in a batch.
        seed: of the weights, the split and the order.
        device: where to train, "cpu" or "cuda".
        scaler: for the mode "fp16"; by default a GradScaler with torch's own settings.

    Raises:
        ValueError: if there is no such mode, there are no steps, the loss factor is not positive,
            or a scaler is given in another mode than "fp16".
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}; got {mode!r}")
    if steps < 1:
        raise ValueError(f"steps must be 1 or more, got {steps}")
    if not 0 < loss_factor < float("inf"):
        raise ValueError(f"loss_factor must be a positive finite number, got {loss_factor}")
    if scaler is not None and mode != "fp16":
        raise ValueError(f'a scaler belongs to the mode "fp16", not to {mode!r}')
    digits = load_digits(seed=seed).to(device)
    network = digits_network(width, seed).to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=learning_rate / loss_factor)
    batches = islice(Batches(digits.train_images, digits.train_labels, batch, seed), steps)
    records: list[ScalerRecord] = []
    if mode == "fp16":
        scaler = scaler or torch.amp.GradScaler(torch.device(device).type)
        log = scaler if isinstance(scaler, ScalerLog) else ScalerLog(scaler)
        losses = train_fp16(network, optimizer, batches, log, loss_factor)
        records = log.records
    else:
        losses = LOOPS[mode](network, optimizer, batches, loss_factor)
    dtype = AUTOCAST_DTYPE[mode]
    share = accuracy(network, digits.validation_images, digits.validation_labels, dtype)
    return TrainingRun(mode, losses, share, records, network)


LOOPS = {"fp32": train_fp32, "fp16 unscaled": train_fp16_unscaled, "bf16": train_bf16}
