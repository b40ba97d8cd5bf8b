"""Run the calls of a training step in any order, with a real GradScaler, and note what happens.

The network is the course's digit painter, on a CPU in FP16. One step overflows and one is clipped
if the calls are in order. Before and after each call this module looks at what the gradients hold:
which micro-batches, with which share of the loss, and how many times their size. What that means
is the business of `naming`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from amp_lessons.amp.training.loops import autoencoder, load_digits
from amp_lessons.exercises.checks.torch_state import usual_torch
from amp_lessons.lessons.call_order.cards import BY_ID, ZONES, Order

STEPS, PIECES, PICTURES = 30, 4, 8  # steps, micro-batches in a step, pictures in a micro-batch
RATE, DECAY, MOMENTUM = 0.6, 0.95, 0.5
BROKEN_STEP, BROKEN = 6, 3000.0  # the step in which a broken picture makes gradients overflow
BRIGHT_STEP, BRIGHT = 14, 8.0  # the step whose pictures are too bright, so that it is clipped


@dataclass(frozen=True)
class Held:
    """What the gradients hold of one micro-batch.

    Attributes:
        share: of its loss; 1/4 if the loss was divided by the number of micro-batches.
        factor: how many times its size it is, because of the loss scale. 1 once it is unscaled.
    """

    share: float
    factor: float


Gradients = Mapping[tuple[int, int], Held]  # by step and micro-batch, both from 0


@dataclass(frozen=True)
class Play:
    """One call that was made, and what it met.

    Attributes:
        card: the id of the call.
        step: from 0.
        piece: the micro-batch, from 0; None outside the loop over the micro-batches.
        held: what the gradients held before the call.
        fresh: the parts of it that no `scaler.step()` has met before.
        norm: of the gradients, before `clip`; else 0.
        share: of the micro-batch's loss that went into a `backward`; else 0.
    """

    card: str
    step: int
    piece: int | None
    held: Gradients
    fresh: frozenset[tuple[int, int]]
    norm: float = 0.0
    share: float = 0.0


@dataclass(frozen=True)
class Move:
    """One step that the optimizer made, with what it was given.

    Attributes:
        step: from 0.
        held: what the gradients held.
        norm: of the gradients.
        rate: the learning rate.
    """

    step: int
    held: Gradients
    norm: float
    rate: float


@dataclass(frozen=True)
class Stop:
    """The call that raised.

    Attributes:
        play: the call.
        message: the exception's type and text.
    """

    play: Play
    message: str


@dataclass(frozen=True)
class OrderRun:
    """What happened in a run, step by step.

    Attributes:
        order: of the calls.
        plays: the calls that were made; the one that raised is not among them.
        moves: the steps that the optimizer made.
        errors: error per pixel on pictures that weren't trained on, after each complete step.
        scales: the loss scale after each complete step.
        skipped: the steps, from 0, in which the scaler skipped the optimizer's step.
        stop: the call that raised, or None.
        warned: what PyTorch warned of, each text once.
        weights: at the end, all in one tensor.
        moved: how far the weights have moved: the norm of the difference.
    """

    order: Order
    plays: tuple[Play, ...]
    moves: tuple[Move, ...]
    errors: tuple[float, ...]
    scales: tuple[float, ...]
    skipped: tuple[int, ...]
    stop: Stop | None
    warned: tuple[str, ...]
    weights: Tensor
    moved: float


def play_order(order: Order) -> OrderRun:
    """Train for `STEPS` steps with the calls in this order, or until one of them raises."""
    with usual_torch(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # In a region around this one, the copies of the weights would outlive a step.
        torch.set_autocast_cache_enabled(False)
        player = _Player(order)
        player.train()
    warned = tuple(dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in caught))
    return player.result(warned)


@cache
def batches() -> tuple[Tensor, ...]:
    """The pictures of each step, float32, shape (32, 64): one of them broken, some too bright."""
    size = PIECES * PICTURES
    cut = load_digits().train_images[: STEPS * size].split(size)
    given = [pictures.clone() for pictures in cut]
    given[BROKEN_STEP][PICTURES] *= BROKEN  # the first picture of the second micro-batch
    given[BRIGHT_STEP] *= BRIGHT
    return tuple(given)


@cache
def unseen() -> Tensor:
    """Pictures that aren't trained on, float32, shape (128, 64)."""
    return load_digits().validation_images[:128]


def loss_of(model: nn.Module, piece: Tensor) -> Tensor:
    """The error per pixel, as the cards have it."""
    return mse_loss(model(piece), piece)


def parts() -> dict[str, Any]:
    """The names that the cards use, new for each run."""
    model = autoencoder()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=MOMENTUM)
    return {
        "torch": torch,
        "nn": nn,
        "loss_of": loss_of,
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=DECAY),
        "scaler": torch.amp.GradScaler("cpu"),
        "batches": batches(),
    }


def weights_of(model: nn.Module) -> Tensor:
    """All weights in one tensor, a copy."""
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


@dataclass
class _Ledger:
    """What the gradients hold, and which of it no `scaler.step()` has met."""

    held: dict[tuple[int, int], Held] = field(default_factory=dict)
    fresh: set[tuple[int, int]] = field(default_factory=set)

    def add(self, key: tuple[int, int], share: float, factor: float) -> None:
        self.held[key] = Held(share, factor)
        self.fresh.add(key)

    def divide(self, scale: float) -> None:
        for key, part in self.held.items():
            self.held[key] = replace(part, factor=part.factor / scale)

    def clear(self) -> None:
        self.held.clear()
        self.fresh.clear()


class _Player:
    """Makes the calls one by one and looks at what each of them meets."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.names = parts()
        self.model, self.optimizer = self.names["model"], self.names["optimizer"]
        self.scaler = self.names["scaler"] = _WatchedScaler(self._unscaled)
        self.optimizer.register_step_pre_hook(self._moving)
        self.start = weights_of(self.model)
        self.ledger = _Ledger()
        self.plays: list[Play] = []
        self.moves: list[Move] = []
        self.errors: list[float] = []
        self.scales: list[float] = []
        self.skipped: list[int] = []
        self.stop: Stop | None = None
        self.step = 0
        self.pieces: tuple[Tensor, ...] = ()
        self.loss_of_piece = (0, 0.0)  # of the last forward pass: the piece, and its whole loss

    def train(self) -> None:
        for self.step, pictures in enumerate(batches()):
            self.pieces = self.names["pieces"] = pictures.split(PICTURES)
            if not self._one_step():
                return
            with torch.no_grad():
                self.errors.append(loss_of(self.model, unseen()).item())
            self.scales.append(self.scaler.get_scale())

    def result(self, warned: tuple[str, ...]) -> OrderRun:
        weights = weights_of(self.model)
        return OrderRun(
            self.order, tuple(self.plays), tuple(self.moves), tuple(self.errors),
            tuple(self.scales), tuple(self.skipped), self.stop, warned, weights,
            (weights - self.start).norm().item(),
        )  # fmt: skip

    def _one_step(self) -> bool:
        """Whether no call of the step raised."""
        before, each, after = (getattr(self.order, zone) for zone in ZONES)
        if not self._make_calls(before, None):
            return False
        for number, piece in enumerate(self.pieces):
            self.names["piece"] = piece
            if not self._make_calls(each, number):
                return False
        return self._make_calls(after, None)

    def _make_calls(self, cards: tuple[str, ...], piece: int | None) -> bool:
        return all(self._make_call(card, piece) for card in cards)

    def _make_call(self, card: str, piece: int | None) -> bool:
        play = self._look(card, piece)
        moves = len(self.moves)
        try:
            exec(_compiled(card), self.names)
        except Exception as error:
            self.stop = Stop(play, f"{type(error).__name__}: {error}")
            return False
        self.plays.append(play)
        if card == "zero_grad":
            self.ledger.clear()
        elif card == "forward":
            number = PIECES - 1 if piece is None else piece  # after the loop, the last one is left
            self.loss_of_piece = (number, self.names["loss"].item())
        elif card == "backward":
            key = (self.step, self.loss_of_piece[0])
            self.ledger.add(key, play.share, self.scaler.get_scale())
        elif card == "step":
            self.ledger.fresh.clear()
            if len(self.moves) == moves:
                self.skipped.append(self.step)
        return True

    def _look(self, card: str, piece: int | None) -> Play:
        """A call that is about to be made, with what it meets."""
        held, fresh = dict(self.ledger.held), frozenset(self.ledger.fresh)
        norm = self._norm() if card == "clip" else 0.0
        share = 0.0
        if card == "backward" and "loss" in self.names:
            whole = self.loss_of_piece[1]
            share = self.names["loss"].item() / whole if whole else 1.0
        return Play(card, self.step, piece, held, fresh, norm, share)

    def _norm(self) -> float:
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        return nn.utils.get_total_norm(grads).item() if grads else 0.0

    def _unscaled(self, scale: float) -> None:
        self.ledger.divide(scale)

    def _moving(self, *_: object) -> None:
        rate = self.optimizer.param_groups[0]["lr"]
        self.moves.append(Move(self.step, dict(self.ledger.held), self._norm(), rate))


class _WatchedScaler(torch.amp.GradScaler):
    """A GradScaler that tells when it has unscaled gradients; `step` does it too, if nobody has."""

    def __init__(self, unscaled: Any) -> None:
        super().__init__("cpu")
        self._tell = unscaled

    def unscale_(self, optimizer: torch.optim.Optimizer) -> None:
        super().unscale_(optimizer)
        self._tell(self.get_scale())


@cache
def _compiled(card: str) -> Any:
    return compile(BY_ID[card].code, f"<{BY_ID[card].name}>", "exec")
