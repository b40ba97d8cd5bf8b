"""Lesson 07's exercises: training loops in mixed precision that are mended, or written anew.

A loop is judged by what it leaves behind: the parameters, how often each optimizer really
stepped, the scale, the dtypes that the model's last layer gave. The loop is handed a small model
with all that belongs to it (a `_Bench`); the reference and the models of the misconceptions are
handed the same. Some batches hold an input that FP16 cannot store, so that their step must be
skipped.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import math
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from amp_lessons.checks.cases import (
    Case,
    Misconception,
    as_number,
    exactly,
    function_exercise,
    within,
)
from amp_lessons.checks.legacy import Exercise, Finding
from amp_lessons.checks.verdict import Verdict
from amp_lessons.plain_data import plain

HALF = torch.float16
LARGE = 3e4  # an input with which the forward pass is fine, and the scaled gradients overflow
TOO_LARGE = 3e5  # an input beyond FP16: the forward pass overflows, and the step must be skipped
SMALL = 2.0**-24  # a weight of the loss with which FP16 gradients are lost unless they are scaled
INPUTS, CLASSES = 6, 3

Batch = tuple[Tensor, Tensor]


# ---- what a loop is handed, and what it leaves behind -------------------------------------------


def _network(seed: int, width: int = 8, *, noisy: bool = False) -> nn.Sequential:
    """Two layers, float32; ``noisy`` adds batch norm and dropout."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        between = [nn.BatchNorm1d(width), nn.Dropout(0.4)] if noisy else []
        layers = [nn.Linear(INPUTS, width), *between, nn.ReLU(), nn.Linear(width, CLASSES)]
        return nn.Sequential(*layers)


def _batches(
    seed: int,
    count: int,
    size: int,
    overflows: tuple[int, ...] = (),
    too_large: float = TOO_LARGE,
) -> list[Batch]:
    """Batches of random inputs with labels that can be learned; some with an input too large."""
    random = torch.Generator().manual_seed(seed)
    rule = torch.randn(INPUTS, CLASSES, generator=random)
    batches = []
    for number in range(count):
        x = torch.randn(size, INPUTS, generator=random)
        y = (x @ rule).argmax(1)
        if number in overflows:
            x[0, 0] = too_large
        batches.append((x, y))
    return batches


@dataclass
class _Bench:
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

    def __post_init__(self) -> None:
        self.model = _network(self.seed, self.width, noisy=self.noisy)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=self.rate / self.weight)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=self.init_scale, growth_interval=3)
        self.optimizer.register_step_post_hook(self._count)
        # Asked of the model and not in the loss, since a loop may cast the logits to float32. A
        # function, so that a deep copy of the model reports here too.
        self.model[-1].register_forward_hook(lambda *seen: self.outputs.append(_dtype(seen[-1])))

    def _count(self, *_: Any) -> None:
        self.steps += 1
        self.rates.append(self._rate())

    def _rate(self) -> float:
        """The learning rate as it would be for a loss of weight 1, without rounding errors."""
        return round(self.optimizer.param_groups[0]["lr"] * self.weight, 6)

    def loss_fn(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross entropy times the weight of the loss."""
        return cross_entropy(logits.float(), labels) * self.weight

    def left_behind(self, *, every_forward: bool = True) -> dict[str, Any]:
        """The evidence that every loop leaves, in the order in which it is compared.

        Args:
            every_forward: how often the model was run counts, and not only in which dtypes.
        """
        parameters = list(self.model.parameters())
        outputs = _runs(self.outputs) if every_forward else ", ".join(sorted({*self.outputs}))
        return {
            "optimizer steps": self.steps,
            "dtype of the model's outputs": outputs,
            "dtype of the parameters": _kept_in(parameters),
            "learning rates": sorted({*self.rates, self._rate()}),
            "scale at the end": self.scaler.get_scale(),
            "parameters at the end": _flat(parameters),
        }


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _runs(words: Iterable[Any]) -> str:
    """A sequence in short: ``"4 x float16, 1 x float32"``."""
    return ", ".join(f"{len(list(same))} x {word}" for word, same in itertools.groupby(words))


def _kept_in(parameters: list[Tensor]) -> str:
    """The dtypes of the parameters; told apart from float32 are values that 16 bits can hold."""
    dtypes = {_dtype(p) for p in parameters}
    for narrow in (HALF, torch.bfloat16):
        if dtypes == {"float32"} and all((p.to(narrow).float() == p).all() for p in parameters):
            return f"float32, rounded to {str(narrow).removeprefix('torch.')}"
    return ", ".join(sorted(dtypes))


def _flat(tensors: Iterable[Tensor]) -> list[float]:
    """All elements in one list of floats, which holds each of them exactly."""
    return [x for t in tensors for x in t.detach().double().flatten().tolist()]


def _numbers(result: Any) -> Any:
    """Numbers in a list, a tuple, a tensor or an array, as a list; inf and NaN are one thing."""
    described = plain(result)
    if isinstance(described, dict) and isinstance(described.get("values"), list):
        described = described["values"]
    if not isinstance(described, list):
        return result
    numbers = [as_number(x) for x in described]
    if None in numbers:
        return result
    return [x if math.isfinite(x) else "not finite" for x in numbers]


def _forward(bench_model: nn.Module, loss_fn: Callable, batch: Batch, dtype=HALF) -> Tensor:
    x, y = batch
    with torch.autocast("cpu", dtype=dtype):
        return loss_fn(bench_model(x), y)


_close = within(1e-3)


# ---- mend_stuck: no zero_grad -------------------------------------------------------------------


def _plain_cases() -> list[Case]:
    return [
        Case((1, 8, 8, 6, ()), "6 batches, none overflows"),
        Case((2, 8, 8, 7, (1,)), "7 batches, the second overflows"),
        Case((3, 12, 16, 8, (0, 5)), "8 batches, the first and the sixth overflow"),
    ]


def _loop_cases() -> list[Case]:
    """The same; one in which gradients overflow and their loss does not; and one in which old
    gradients, or such as were never scaled, weigh as much as scaled ones."""
    return [
        *_plain_cases(),
        Case((5, 8, 8, 6, (2,), 1.0, 2.0**10, LARGE), "6 batches, gradients of the third overflow"),
        Case((4, 8, 8, 5, (), 1.0, 2.0), "5 batches, a scale of 2"),
    ]


def _play_plain(train: Callable, weight: float = 1.0, init_scale: float = 2.0**10) -> Callable:
    """For a loop ``train(model, optimizer, scaler, loss_fn, batches)``."""

    def play(
        seed: int,
        width: int,
        size: int,
        count: int,
        overflows: tuple,
        weight: float = weight,
        init_scale: float = init_scale,
        too_large: float = TOO_LARGE,
    ) -> dict[str, Any]:
        bench = _Bench(seed, width, weight=weight, init_scale=init_scale)
        batches = _batches(seed, count, size, overflows, too_large)
        train(bench.model, bench.optimizer, bench.scaler, bench.loss_fn, batches)
        return bench.left_behind()

    return play


def _plain_loop(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:
        optimizer.zero_grad()
        scaler.scale(_forward(model, loss_fn, batch)).backward()
        scaler.step(optimizer)
        scaler.update()


def _never_zeroed(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:
        scaler.scale(_forward(model, loss_fn, batch)).backward()
        scaler.step(optimizer)
        scaler.update()


def _zeroed_before_step(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:
        scaler.scale(_forward(model, loss_fn, batch)).backward()
        optimizer.zero_grad()
        scaler.step(optimizer)
        scaler.update()


def _zeroed_to_zeros_before_step(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:
        scaler.scale(_forward(model, loss_fn, batch)).backward()
        optimizer.zero_grad(set_to_none=False)
        scaler.step(optimizer)
        scaler.update()


def _zeroed_after_skips(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:
        scaler.scale(_forward(model, loss_fn, batch)).backward()
        before = scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()
        if scaler.get_scale() < before:
            optimizer.zero_grad()


def _nan_to_num(model, optimizer, scaler, loss_fn, batches, every_time: bool = False) -> None:
    for batch in batches:
        if every_time:
            optimizer.zero_grad()
        scaler.scale(_forward(model, loss_fn, batch)).backward()
        for parameter in model.parameters():
            parameter.grad = parameter.grad.nan_to_num(0.0, 0.0, 0.0)
        scaler.step(optimizer)
        scaler.update()


def _in_precision(dtype: torch.dtype | None) -> Callable:
    """The right loop in another precision: None for float32, with no autocast."""

    def loop(model, optimizer, scaler, loss_fn, batches) -> None:
        for x, y in batches:
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=dtype or HALF, enabled=dtype is not None):
                loss = loss_fn(model(x), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    return loop


_ANOTHER_PRECISION = Misconception(
    "Your loop left FP16: its forward pass runs in float32, or in BF16, which is what "
    "torch.autocast('cpu') means without a dtype. Both have the range, so nothing overflows any "
    "more. Asked for is FP16: mend the loop and keep dtype=torch.float16.",
    _in_precision(None),
    _in_precision(torch.bfloat16),
)


def _left_out(bad: Callable[..., bool]) -> Callable:
    """A loop that leaves out the batches in which it sees something bad."""

    def loop(model, optimizer, scaler, loss_fn, batches) -> None:
        for batch in batches:
            optimizer.zero_grad()
            loss = _forward(model, loss_fn, batch)
            if bad(batch[0], loss):
                continue
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()

    return loop


mend_stuck = function_exercise(
    "mend_stuck",
    cases=_loop_cases,
    reference=_plain_loop,
    play=lambda train: _play_plain(train, init_scale=2.0),
    same=_close,
    misconceptions={
        "never-zeroed": Misconception(
            "The gradients of one batch are still there when the next ones are added. After one "
            "overflow they hold inf or NaN for ever: every step is skipped, and the scale sinks "
            "with each of them. (Without an overflow it hardly shows, since the old gradients are "
            "unscaled and the new ones are as many times larger as the scale says.)",
            _never_zeroed,
            lambda m, o, s, f, b: (o.zero_grad(), _never_zeroed(m, o, s, f, b))[0],
        ),
        "zeroed-before-step": Misconception(
            "You removed the gradients between backward() and step(): there is nothing left to "
            "step with. (zero_grad() sets them to None, and then the scaler has nothing to check: "
            "'No inf checks were recorded'.) Remove them before the backward pass or after the "
            "step.",
            _zeroed_before_step,
            _zeroed_to_zeros_before_step,
        ),
        "zeroed-after-skips-only": Misconception(
            "You remove the gradients only after a skipped step. That brings the loop back to "
            "life, but between two overflows old gradients are added to new ones. With a large "
            "scale they hardly count, with a small one they do.",
            _zeroed_after_skips,
        ),
        "infinities-replaced": Misconception(
            "You replaced inf and NaN in the gradients. Now the scaler cannot see the overflow: it "
            "takes a step with gradients that were made up, and never lowers the scale.",
            _nan_to_num,
            lambda m, o, s, f, b: _nan_to_num(m, o, s, f, b, every_time=True),
        ),
        "batch-left-out": Misconception(
            "You leave the batch out before the scaler has seen it, so the scale never comes down. "
            "And most overflows have a loss that is a good number: only the gradients are not. Let "
            "the scaler decide, and clear the gradients.",
            _left_out(lambda x, loss: not loss.isfinite()),
        ),
        "another-precision": _ANOTHER_PRECISION,
    },
    hints=(
        "Print a gradient after each update. When does it become finite again?",
        "backward() adds to .grad. inf plus anything stays inf.",
        "One call of optimizer.zero_grad() for each batch. Where may it stand?",
    ),
    lesson_learned="A skipped step leaves its inf in .grad; only zero_grad() takes it out.",
)


# ---- mend_unscaled: the loss was not scaled -----------------------------------------------------


def _unscaled_backward(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:
        optimizer.zero_grad()
        _forward(model, loss_fn, batch).backward()
        scaler.step(optimizer)
        scaler.update()


def _scaler_bypassed(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:
        optimizer.zero_grad()
        _forward(model, loss_fn, batch).backward()
        optimizer.step()


def _never_unscaled(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:
        optimizer.zero_grad()
        scaler.scale(_forward(model, loss_fn, batch)).backward()
        optimizer.step()


def _scaled_for_show(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:
        optimizer.zero_grad()
        loss = _forward(model, loss_fn, batch)
        scaler.scale(loss)
        loss.backward()
        scaler.step(optimizer)
        scaler.update()


def _backward_twice(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:
        optimizer.zero_grad()
        loss = _forward(model, loss_fn, batch)
        scaler.scale(loss).backward(retain_graph=True)
        loss.backward()
        scaler.step(optimizer)
        scaler.update()


def _unscaled_by_hand(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:
        optimizer.zero_grad()
        scaler.scale(_forward(model, loss_fn, batch)).backward()
        for parameter in model.parameters():
            parameter.grad /= scaler.get_scale()
        scaler.step(optimizer)
        scaler.update()


mend_unscaled = function_exercise(
    "mend_unscaled",
    cases=_loop_cases,
    reference=_plain_loop,
    play=lambda train: _play_plain(train, weight=SMALL, init_scale=2.0**16),
    same=_close,
    misconceptions={
        "loss-not-scaled": Misconception(
            "step() still meets a scaler that has never scaled anything. What goes backward must "
            "be the result of scaler.scale(loss).",
            _unscaled_backward,
        ),
        "divided-too-often": Misconception(
            "The gradients are divided by the scale once more than they were multiplied by it. "
            "Either what goes backward is still the plain loss (scale(loss) gives back a new "
            "tensor and leaves the loss alone), or you divide by hand what step() divides too. "
            "unscale_() is the way to do it earlier that step() knows about.",
            _scaled_for_show,
            _unscaled_by_hand,
        ),
        "scaler-bypassed": Misconception(
            "You removed the error by going past the scaler, or with one that is switched off. Now "
            "nothing raises, and nothing trains: without a scale the gradients of this small loss "
            "are zero in FP16.",
            _scaler_bypassed,
        ),
        "never-unscaled": Misconception(
            "The loss is scaled, but optimizer.step() knows nothing of it: the gradients are as "
            "many times too large as the scale says, and a step with inf in it is not skipped. "
            "scaler.step(optimizer) does both.",
            _never_unscaled,
        ),
        "backward-twice": Misconception(
            "Two backward passes, one with the scale and one without: their gradients are added "
            "up. With a large scale it hardly shows, with a small one it does. Replace the old "
            "call.",
            _backward_twice,
        ),
        "another-precision": _ANOTHER_PRECISION,
    },
    hints=(
        "Read the message: which call sets _scale for the first time?",
        "Three calls belong together: scale(loss), step(optimizer), update().",
    ),
    lesson_learned="scale, step and update come as a set: leave one out, and the others are wrong.",
)


# ---- mend_norms: unscale_ called twice ----------------------------------------------------------


def _norm_cases() -> list[Case]:
    """The same, and one in which some of the norms are below the limit."""
    return [*_plain_cases(), Case((1, 8, 8, 6, (), 0.65), "6 batches, a max_norm of 0.65")]


def _play_norms(train: Callable) -> Callable:
    """For a loop that also takes ``max_norm`` and returns the norm of each batch's gradient."""

    def play(
        seed: int, width: int, size: int, count: int, overflows: tuple, max_norm: float = 0.25
    ) -> dict[str, Any]:
        bench = _Bench(seed, width)
        batches = _batches(seed, count, size, overflows)
        norms = train(bench.model, bench.optimizer, bench.scaler, bench.loss_fn, batches, max_norm)
        return bench.left_behind() | {"norms": _numbers(norms)}

    return play


def _norm(model: nn.Module) -> float:
    return clip_grad_norm_(model.parameters(), float("inf")).item()


def _norm_loop(after_backward: Callable[..., float]) -> Callable:
    """A loop whose part between backward and step is given."""

    def loop(model, optimizer, scaler, loss_fn, batches, max_norm) -> list[float]:
        norms = []
        for batch in batches:
            optimizer.zero_grad()
            scaler.scale(_forward(model, loss_fn, batch)).backward()
            norms.append(after_backward(model, optimizer, scaler, max_norm))
            scaler.step(optimizer)
            scaler.update()
        return norms

    return loop


def _unscale_and_clip(model, optimizer, scaler, max_norm) -> float:
    scaler.unscale_(optimizer)
    return clip_grad_norm_(model.parameters(), max_norm).item()


def _unscale_twice(model, optimizer, scaler, max_norm) -> float:
    scaler.unscale_(optimizer)
    norm = _norm(model)
    scaler.unscale_(optimizer)
    clip_grad_norm_(model.parameters(), max_norm)
    return norm


def _update_between(model, optimizer, scaler, max_norm) -> float:
    scaler.unscale_(optimizer)
    norm = _norm(model)
    scaler.update()
    scaler.unscale_(optimizer)
    clip_grad_norm_(model.parameters(), max_norm)
    return norm


def _scaled_norm(model, optimizer, scaler, max_norm) -> float:
    norm = _norm(model)
    scaler.unscale_(optimizer)
    clip_grad_norm_(model.parameters(), max_norm)
    return norm


def _scaled_clip(model, optimizer, scaler, max_norm) -> float:
    return clip_grad_norm_(model.parameters(), max_norm).item()


def _norm_after_clip(model, optimizer, scaler, max_norm) -> float:
    scaler.unscale_(optimizer)
    clip_grad_norm_(model.parameters(), max_norm)
    return _norm(model)


mend_norms = function_exercise(
    "mend_norms",
    cases=_norm_cases,
    reference=_norm_loop(_unscale_and_clip),
    play=_play_norms,
    same=_close,
    misconceptions={
        "unscaled-twice": Misconception(
            "unscale_() may be called once for each optimizer and update(): a second call would "
            "divide by the scale again, so it raises. The first one has already made the "
            "gradients what you want to see and to clip.",
            _norm_loop(_unscale_twice),
        ),
        "update-to-silence": Misconception(
            "update() makes the scaler forget that the gradients are unscaled, so the second "
            "unscale_() does not raise: it divides by the scale once more, and clipping and "
            "stepping get gradients that are far too small. update() belongs at the end, once.",
            _norm_loop(_update_between),
        ),
        "norm-of-scaled-gradients": Misconception(
            "You measured the norm before unscale_(): it is the true one times the scale. What "
            "you clip is right, what you report is not.",
            _norm_loop(_scaled_norm),
        ),
        "clipped-before-unscale": Misconception(
            "No unscale_() is left before the clip, so norm and clip see gradients that are still "
            "multiplied by the scale: what you report is too large, and after the division the "
            "model hardly moves. One call is right, where the first one stood.",
            _norm_loop(_scaled_clip),
        ),
        "norm-after-clipping": Misconception(
            "You measured the norm after clipping: it can never be above max_norm, so it will "
            "not tell you when the gradients explode.",
            _norm_loop(_norm_after_clip),
        ),
        "not-clipped": Misconception(
            "You report the right norms, but no gradient is clipped to max_norm any more, or only "
            "after the step.",
            _norm_loop(lambda m, o, s, max_norm: (s.unscale_(o), _norm(m))[1]),
        ),
    },
    hints=(
        "How often may unscale_() be called between two updates?",
        "Once it has been called, the gradients are the true ones until step().",
        "What does clip_grad_norm_ return?",
    ),
    lesson_learned="Unscale once; then everything that looks at gradients sees the true ones.",
)


# ---- mend_epochs: a fresh scaler for each epoch -------------------------------------------------


def _epoch_cases() -> list[Case]:
    return [
        Case((4, 8, 8, 2), "2 epochs of 9 batches"),
        Case((5, 12, 16, 3), "3 epochs of 9 batches"),
    ]


def _play_epochs(train: Callable) -> Callable:
    """For a loop that makes its own scaler and returns the scale that it ends with."""

    def play(seed: int, width: int, size: int, epochs: int) -> dict[str, Any]:
        bench = _Bench(seed, width, weight=SMALL)
        batches = _batches(seed, 9 * epochs, size)
        parts = [batches[9 * i : 9 * i + 9] for i in range(epochs)]
        scale = train(bench.model, bench.optimizer, bench.loss_fn, parts, 2.0**45)
        seen = bench.left_behind()
        return seen | {"scale at the end": scale}

    return play


def _one_scaler(model, optimizer, loss_fn, epochs, init_scale) -> float:
    scaler = torch.amp.GradScaler("cpu", init_scale=init_scale)
    _plain_loop(model, optimizer, scaler, loss_fn, itertools.chain(*epochs))
    return scaler.get_scale()


def _scaler_an_epoch(model, optimizer, loss_fn, epochs, init_scale) -> float:
    return [_one_scaler(model, optimizer, loss_fn, [epoch], init_scale) for epoch in epochs][-1]


def _scaler_a_batch(model, optimizer, loss_fn, epochs, init_scale) -> float:
    batches = [[[batch]] for epoch in epochs for batch in epoch]
    return [_one_scaler(model, optimizer, loss_fn, one, init_scale) for one in batches][-1]


mend_epochs = function_exercise(
    "mend_epochs",
    cases=_epoch_cases,
    reference=_one_scaler,
    play=_play_epochs,
    same=_close,
    misconceptions={
        "scaler-each-epoch": Misconception(
            "Each epoch begins with a fresh scaler, which knows nothing of the scale that the "
            "last one found: the first steps of every epoch are skipped again. One scaler lives "
            "as long as the run.",
            _scaler_an_epoch,
        ),
        "scaler-each-batch": Misconception(
            "Each batch gets a scaler of its own. The scale can never come down: what overflows "
            "once overflows for ever, and no step is taken.",
            _scaler_a_batch,
        ),
        "scaling-given-up": Misconception(
            "No step is skipped any more, because nothing is scaled: the gradients of this small "
            "loss are zero in FP16, and the model does not move. The skipped steps at the "
            "beginning are the price of finding a scale; pay it once. (GradScaler() without a "
            "device means CUDA, and where there is none it is switched off.)",
            lambda m, o, f, e, _: _one_scaler(m, o, f, e, 1.0),
            lambda m, o, f, e, _: (
                _plain_loop(
                    m, o, torch.amp.GradScaler("cpu", enabled=False), f, itertools.chain(*e)
                )
                or 1.0
            ),
        ),
        "init-scale-ignored": Misconception(
            "Your scaler does not begin with init_scale. It may find the same range in the end, "
            "but the caller asked for another beginning.",
            lambda m, o, f, e, _: _one_scaler(m, o, f, e, 2.0**16),
        ),
    },
    hints=(
        "How many steps are skipped in the first epoch, and how many in the second?",
        "What does a scaler know after an epoch that a fresh one does not?",
    ),
    lesson_learned="One run, one scaler: its scale is something that the run has learned.",
)


# ---- mend_half: a model in half precision -------------------------------------------------------


def _half_model(model, optimizer, scaler, loss_fn, batches) -> None:
    model.half()
    for x, y in batches:
        optimizer.zero_grad()
        scaler.scale(loss_fn(model(x.half()), y)).backward()
        scaler.step(optimizer)
        scaler.update()


def _half_without_scaler(model, optimizer, scaler, loss_fn, batches) -> None:
    model.half()
    for x, y in batches:
        optimizer.zero_grad()
        loss_fn(model(x.half()), y).backward()
        optimizer.step()


def _half_scaled_by_hand(model, optimizer, scaler, loss_fn, batches) -> None:
    model.half()
    for x, y in batches:
        optimizer.zero_grad()
        scale = scaler.get_scale()
        (loss_fn(model(x.half()), y) * scale).backward()
        for parameter in model.parameters():
            parameter.grad /= scale
        optimizer.step()


def _half_under_autocast(model, optimizer, scaler, loss_fn, batches) -> None:
    model.half()
    _plain_loop(model, optimizer, scaler, loss_fn, batches)


def _half_inputs_only(model, optimizer, scaler, loss_fn, batches) -> None:
    for x, y in batches:
        optimizer.zero_grad()
        scaler.scale(loss_fn(model(x.half()), y)).backward()
        scaler.step(optimizer)
        scaler.update()


def _float32_only(model, optimizer, scaler, loss_fn, batches) -> None:
    for x, y in batches:
        optimizer.zero_grad()
        scaler.scale(loss_fn(model(x), y)).backward()
        scaler.step(optimizer)
        scaler.update()


mend_half = function_exercise(
    "mend_half",
    cases=_loop_cases,
    reference=_plain_loop,
    play=lambda train: _play_plain(train, weight=SMALL, init_scale=2.0**16),
    same=_close,
    misconceptions={
        "half-parameters": Misconception(
            "The parameters are FP16, so their gradients are too, and the scaler refuses to "
            "unscale them: divided by the scale, the small ones would be zero again. Leave the "
            "model in float32 and let autocast make the 16-bit copies.",
            _half_model,
            _half_under_autocast,
        ),
        "scaler-thrown-out": Misconception(
            "The error is gone because the scaler is. The parameters are FP16 still: gradients "
            "become zero, small updates are lost, and no step is skipped when something "
            "overflows. Leave the model in float32 and use autocast.",
            _half_without_scaler,
            _half_scaled_by_hand,
        ),
        "inputs-cast-by-hand": Misconception(
            "The model is float32 and its inputs are FP16: a linear layer refuses to mix them. "
            "Under autocast you need not cast anything by hand.",
            _half_inputs_only,
        ),
        "autocast-left-out": Misconception(
            "Everything runs in float32 now: right, and no faster than before. The forward pass "
            "belongs under torch.autocast('cpu', dtype=torch.float16).",
            _float32_only,
        ),
        "default-dtype": Misconception(
            "Your forward pass runs in BF16, which is what torch.autocast('cpu') means without a "
            "dtype. Asked for is FP16: say dtype=torch.float16.",
            _in_precision(torch.bfloat16),
        ),
        "scaler-left-out": Misconception(
            "The model is float32 and autocast does the casting, as it should be. But the scaler "
            "is gone, or switched off: the FP16 gradients of this small loss are zero, and an "
            "overflow is not skipped.",
            _scaler_bypassed,
        ),
    },
    hints=(
        "Which dtype must the parameters have, so that an update of 0.0001 is not lost?",
        "Who makes the 16-bit copies of the weights if you do not?",
    ),
    lesson_learned="The model stays in float32; autocast makes the 16-bit copies, forward by "
    "forward.",
)


# ---- mend_evaluation: another mode, another precision -------------------------------------------


def _evaluation_cases() -> list[Case]:
    return [
        Case((6, 8, 12, 2), "2 epochs of 4 batches"),
        Case((7, 16, 20, 3), "3 epochs of 4 batches"),
    ]


def _play_evaluation(train: Callable) -> Callable:
    """For a loop that evaluates after each epoch and returns the losses that it found."""

    def play(seed: int, width: int, size: int, epochs: int) -> dict[str, Any]:
        bench = _Bench(seed, width, noisy=True, rate=0.3)
        batches = _batches(seed, 4 * epochs + 1, size)
        parts = [batches[4 * i : 4 * i + 4] for i in range(epochs)]
        gradients: list[bool] = []
        # Asked of the model, since a graph is recorded whether or not the logits are detached.
        bench.model[-1].register_forward_hook(
            lambda *seen: gradients.append(seen[-1].requires_grad)
        )
        torch.manual_seed(seed)
        losses = train(
            bench.model, bench.optimizer, bench.scaler, bench.loss_fn, parts, batches[-1]
        )
        return bench.left_behind() | {
            "recorded for backward": _runs(gradients),
            "running mean at the end": bench.model[1].running_mean.clone(),
            "losses": _numbers(losses),
        }

    return play


def _evaluating(evaluate: Callable[..., float], train_epochs: int | None = None) -> Callable:
    """A loop that evaluates in this way, and calls ``train()`` before the first epochs only."""

    def loop(model, optimizer, scaler, loss_fn, epochs, validation) -> list[float]:
        losses = []
        for number, batches in enumerate(epochs):
            if train_epochs is None or number < train_epochs:
                model.train()
            else:
                model.eval()
            _plain_loop(model, optimizer, scaler, loss_fn, batches)
            losses.append(evaluate(model, loss_fn, validation))
        return losses

    return loop


def _evaluate(model, loss_fn, validation) -> float:
    model.eval()
    with torch.no_grad():
        return _forward(model, loss_fn, validation).item()


def _evaluate_with_graph(model, loss_fn, validation) -> float:
    model.eval()
    return _forward(model, loss_fn, validation).item()


def _evaluate_in_train_mode(model, loss_fn, validation) -> float:
    with torch.no_grad():
        return _forward(model, loss_fn, validation).item()


def _evaluate_in_float32(model, loss_fn, validation) -> float:
    model.eval()
    with torch.no_grad():
        return loss_fn(model(validation[0]), validation[1]).item()


def _evaluate_in_float32_with_graph(model, loss_fn, validation) -> float:
    model.eval()
    return loss_fn(model(validation[0]), validation[1]).item()


def _evaluate_in_train_mode_in_float32(model, loss_fn, validation) -> float:
    with torch.no_grad():
        return loss_fn(model(validation[0]), validation[1]).item()


def _evaluate_in_bfloat16(model, loss_fn, validation) -> float:
    model.eval()
    with torch.no_grad():
        return _forward(model, loss_fn, validation, torch.bfloat16).item()


def _evaluate_as_given(model, loss_fn, validation) -> float:
    return loss_fn(model(validation[0]), validation[1]).item()


mend_evaluation = function_exercise(
    "mend_evaluation",
    cases=_evaluation_cases,
    reference=_evaluating(_evaluate),
    play=_play_evaluation,
    same=_close,
    misconceptions={
        "evaluated-in-train-mode": Misconception(
            "The model evaluates in training mode: dropout throws away a share of it, and batch "
            "norm learns from the validation images. model.eval() switches both. (no_grad does "
            "not: it is about recording, not about behaviour.)",
            _evaluating(_evaluate_in_train_mode),
            _evaluating(_evaluate_as_given),
            _evaluating(lambda m, f, v: _forward(m, f, v).item()),
            _evaluating(_evaluate_in_train_mode_in_float32),
        ),
        "left-in-eval-mode": Misconception(
            "The model trains in eval mode, in all epochs or from the second on: without dropout "
            "and with frozen batch statistics. eval() lasts until train() is called, so call "
            "model.train() before each epoch.",
            _evaluating(_evaluate, train_epochs=1),
            _evaluating(_evaluate_with_graph, train_epochs=1),
            _evaluating(_evaluate_in_float32, train_epochs=1),
            _evaluating(_evaluate_in_float32_with_graph, train_epochs=1),
            _evaluating(_evaluate, train_epochs=0),
        ),
        "evaluated-in-another-precision": Misconception(
            "The model trains in FP16 and is evaluated in something else. You then measure a "
            "model that you do not train, and an FP16 overflow will not show in the validation.",
            _evaluating(_evaluate_in_float32),
            _evaluating(_evaluate_in_bfloat16),
            _evaluating(_evaluate_in_float32_with_graph),
        ),
        "recorded-for-backward": Misconception(
            "The evaluation records everything for a backward pass that never comes, which takes "
            "memory. torch.no_grad() or torch.inference_mode() switches that off. (eval() does "
            "not: it is about behaviour, not about recording.)",
            _evaluating(_evaluate_with_graph),
        ),
    },
    hints=(
        "An evaluation needs three switches: one for dropout and batch norm, one for autograd, "
        "one for the precision.",
        "model.eval(), torch.no_grad() and torch.autocast are independent of each other.",
        "Which of the three must be switched back before the next epoch?",
    ),
    lesson_learned="eval() for behaviour, no_grad() for recording, autocast for precision: three "
    "switches, and none of them does another's work.",
)


# ---- accumulate: one step for several batches ---------------------------------------------------


def _accumulate_cases() -> list[Case]:
    return [
        Case((8, 8, 8, 8, (), 2), "8 micro-batches, 2 a step"),
        Case((9, 12, 4, 12, (4,), 3), "12 micro-batches, 3 a step, the fifth overflows"),
        Case((10, 8, 6, 16, (0, 9), 4), "16 micro-batches, 4 a step, two overflow"),
        Case((14, 8, 8, 6, (2,), 2, LARGE), "6 micro-batches, 2 a step, gradients overflow"),
    ]


def _play_accumulate(train: Callable) -> Callable:
    def play(
        seed: int,
        width: int,
        size: int,
        count: int,
        overflows: tuple,
        every: int,
        too_large: float = TOO_LARGE,
    ) -> dict[str, Any]:
        bench = _Bench(seed, width)
        batches = _batches(seed, count, size, overflows, too_large)
        train(bench.model, bench.optimizer, bench.scaler, bench.loss_fn, batches, every)
        return bench.left_behind()

    return play


def _accumulating(
    divide: bool = True,
    zero_each: bool = False,
    each: Callable | None = None,
    wait: bool = True,
    zero: bool = True,
    last: int = -1,
) -> Callable:
    """An accumulating loop: right by default, or with one mistake.

    Args:
        divide: divide the loss by the number of micro-batches.
        zero_each: remove the gradients before each micro-batch.
        each: called with (scaler, optimizer) after each backward pass.
        wait: step at the end of a group only.
        zero: remove the gradients of a group after its step.
        last: the micro-batch of a group, from 0, that its step comes after.
    """

    def loop(model, optimizer, scaler, loss_fn, batches, every) -> None:
        for number, batch in enumerate(batches):
            starts = number == 0 or (number - 1 - last) % every == 0
            if zero_each or (zero and starts):
                optimizer.zero_grad()
            loss = _forward(model, loss_fn, batch)
            scaler.scale(loss / every if divide else loss).backward()
            if each:
                each(scaler, optimizer)
            if not wait or number % every == last % every:
                scaler.step(optimizer)
                scaler.update()

    return loop


def _rate_divided(model, optimizer, scaler, loss_fn, batches, every) -> None:
    for group in optimizer.param_groups:
        group["lr"] /= every
    _accumulating(divide=False)(model, optimizer, scaler, loss_fn, batches, every)


def _rate_divided_for_now(model, optimizer, scaler, loss_fn, batches, every) -> None:
    _rate_divided(model, optimizer, scaler, loss_fn, batches, every)
    for group in optimizer.param_groups:
        group["lr"] *= every


def _joined(model, optimizer, scaler, loss_fn, batches, every) -> None:
    groups = [batches[i : i + every] for i in range(0, len(batches), every)]
    joined = [tuple(map(torch.cat, zip(*group, strict=True))) for group in groups]
    _plain_loop(model, optimizer, scaler, loss_fn, joined)


def _without_bad_losses(model, optimizer, scaler, loss_fn, batches, every) -> None:
    for number, batch in enumerate(batches):
        if number % every == 0:
            optimizer.zero_grad()
        loss = _forward(model, loss_fn, batch) / every
        if loss.isfinite():
            scaler.scale(loss).backward()
        if number % every == every - 1:
            scaler.step(optimizer)
            scaler.update()


def _step_at_the_end_update_each(model, optimizer, scaler, loss_fn, batches, every) -> None:
    for number, batch in enumerate(batches):
        if number % every == 0:
            optimizer.zero_grad()
        scaler.scale(_forward(model, loss_fn, batch) / every).backward()
        if number % every == every - 1:
            scaler.step(optimizer)
        scaler.update()


accumulate = function_exercise(
    "accumulate",
    cases=_accumulate_cases,
    reference=_accumulating(),
    play=_play_accumulate,
    same=_close,
    misconceptions={
        "loss-not-divided": Misconception(
            "The gradients of the micro-batches add up to a sum, and the big batch's gradient is "
            "their mean: your steps are `every` times too large. Divide each loss by `every`.",
            _accumulating(divide=False),
        ),
        "gradients-thrown-away": Misconception(
            "A step sees its last micro-batch only. Either you remove the gradients before each of "
            "them, and zero_grad() should come once for each step; or only the last loss goes "
            "backward, and each of them should.",
            _accumulating(zero_each=True),
            _accumulating(zero_each=True, divide=False),
        ),
        "never-zeroed": Misconception(
            "Nobody removes the gradients of a group after its step, so they are added to those of "
            "the next. An inf among them stays for ever. zero_grad() comes once for each step.",
            _accumulating(zero=False),
            _accumulating(zero=False, divide=False),
        ),
        "group-ends-too-soon": Misconception(
            "Your first step comes after the very first micro-batch, and each later one a batch "
            "too soon: 0 % every is 0 as well. Step where (number + 1) % every == 0, counting "
            "from 0.",
            _accumulating(last=0),
            _accumulating(last=0, divide=False),
        ),
        "rate-divided": Misconception(
            "You divided the learning rate and not the loss. For plain SGD the steps are the same; "
            "with momentum of another rate, with clipping or with Adam they are not. Divide each "
            "loss by `every`.",
            _rate_divided,
            _rate_divided_for_now,
        ),
        "joined-into-one-batch": Misconception(
            "You joined the small batches into the big one and ran the model on that. The numbers "
            "are right, and the memory that accumulation is there to save is used after all. Run "
            "the model on one small batch at a time.",
            _joined,
        ),
        "bad-batch-left-out": Misconception(
            "You leave out the micro-batch whose loss is not finite and step with the others. The "
            "sum is then that of fewer batches than it is divided by, and the scaler never sees "
            "the overflow. Let it skip the step of the whole group.",
            _without_bad_losses,
        ),
        "stepped-each-micro-batch": Misconception(
            "You step after every micro-batch. Nothing is accumulated between two removals of "
            "the gradients; these are small batches with small steps.",
            _accumulating(zero_each=True, wait=False),
            _accumulating(wait=False),
            _accumulating(zero_each=True, wait=False, divide=False),
            _accumulating(wait=False, divide=False),
        ),
        "updated-each-micro-batch": Misconception(
            "update() may change the scale, and within one step all gradients must carry the same "
            "scale. It also raises if no step() or unscale_() came since the last update. Call "
            "it once, after step().",
            _step_at_the_end_update_each,
        ),
        "unscaled-each-micro-batch": Misconception(
            "You unscale after each micro-batch. The next gradients, still scaled, are added to "
            "unscaled ones, which is why a second unscale_() raises (and calling update() to "
            "silence it makes the sum wrong). Unscale once, at the end of the group.",
            _accumulating(each=lambda s, o: s.unscale_(o)),
            _accumulating(each=lambda s, o: (s.unscale_(o), s.update())),
        ),
    },
    hints=(
        "Which of these come once for a micro-batch, and which once for a step: zero_grad, "
        "forward, backward, step, update?",
        "The loss of a batch is a mean over its images. What is the mean of four means?",
        "(number + 1) % every == 0",
    ),
    lesson_learned="Forward and backward belong to the micro-batch; zero_grad, unscale_, step and "
    "update to the effective batch.",
)


# ---- train_two: two models, two optimizers, one scaler ------------------------------------------


def _two_cases() -> list[Case]:
    return [
        Case((11, 6, (), ()), "6 batches, none overflows"),
        Case((12, 9, (), (1, 4)), "9 batches, the second model overflows twice"),
        Case((13, 9, (2,), (5,)), "9 batches, each model overflows once"),
        Case((15, 8, (3,), (), LARGE), "8 batches, gradients of the first model overflow"),
    ]


def _play_two(train: Callable) -> Callable:
    def play(
        seed: int, count: int, first: tuple, second: tuple, too_large: float = TOO_LARGE
    ) -> dict[str, Any]:
        a, b = _Bench(seed, 8), _Bench(seed + 50, 12, rate=0.3)
        ones = _batches(seed, count, 10, first, too_large)
        twos = _batches(seed + 70, count, 10, second)
        batches = [(x, z, y) for (x, y), (z, _) in zip(ones, twos, strict=True)]
        train((a.model, b.model), (a.optimizer, b.optimizer), a.scaler, a.loss_fn, batches)
        # A guess may be made anew for the second loss, before the first model has stepped.
        parts = {"first": a.left_behind(every_forward=False), "second": b.left_behind()}
        return {
            f"{key} ({name} model)": value
            for name, seen in parts.items()
            for key, value in seen.items()
            if name == "first" or key != "scale at the end"
        }

    return play


def _two_losses(models, loss_fn, batch, detach: bool = True) -> tuple[Tensor, Tensor]:
    x, z, y = batch
    with torch.autocast("cpu", dtype=HALF):
        guess = models[0](x)
        known = guess.detach() if detach else guess
        return loss_fn(guess, y), loss_fn(known + models[1](z), y)


def _two(
    finish: Callable, scale_second: bool = True, detach: bool = True, zeroed: int = 2
) -> Callable:
    """A loop for two models: right but for the given part, or with one mistake."""

    def loop(models, optimizers, scaler, loss_fn, batches) -> None:
        for batch in batches:
            for optimizer in optimizers[:zeroed]:
                optimizer.zero_grad()
            one, two = _two_losses(models, loss_fn, batch, detach)
            scaler.scale(one).backward(retain_graph=not detach)
            (scaler.scale(two) if scale_second else two).backward()
            finish(scaler, *optimizers)

    return loop


def _finish_two(scaler, one, two) -> None:
    scaler.step(one)
    scaler.step(two)
    scaler.update()


def _finish_twice(scaler, one, two) -> None:
    scaler.step(one)
    scaler.update()
    scaler.step(two)
    scaler.update()


def _one_after_the_other(models, optimizers, scaler, loss_fn, batches) -> None:
    for batch in batches:
        losses = _two_losses(models, loss_fn, batch)
        for loss, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()


def _all_or_none(scaler, one, two) -> None:
    scaler.unscale_(one)
    scaler.unscale_(two)
    gradients = [p.grad for o in (one, two) for g in o.param_groups for p in g["params"]]
    if all(g.isfinite().all() for g in gradients):
        scaler.step(one)
        scaler.step(two)
    scaler.update()


def _two_scalers(models, optimizers, scaler, loss_fn, batches) -> None:
    second = torch.amp.GradScaler("cpu", init_scale=scaler.get_scale(), growth_interval=3)
    for batch in batches:
        for optimizer in optimizers:
            optimizer.zero_grad()
        for loss, s, optimizer in zip(
            _two_losses(models, loss_fn, batch), (scaler, second), optimizers, strict=True
        ):
            s.scale(loss).backward()
            s.step(optimizer)
            s.update()


def _one_forgotten(scaler, one, two) -> None:
    scaler.step(one)
    two.step()
    scaler.update()


train_two = function_exercise(
    "train_two",
    cases=_two_cases,
    reference=_two(_finish_two),
    play=_play_two,
    same=_close,
    misconceptions={
        "updated-twice": Misconception(
            "You call update() twice for each batch, so each counts as two and the scale grows too "
            "soon. And where both backward passes come first, the second optimizer's gradients "
            "carry the old scale and are divided by the new one. One update, after all steps.",
            _two(_finish_twice),
            _one_after_the_other,
        ),
        "two-scalers": Misconception(
            "You made a second scaler. Then the caller's scaler knows nothing of the second "
            "model's overflows. One scaler serves any number of losses and optimizers: it keeps "
            "a record of inf for each optimizer.",
            _two_scalers,
        ),
        "all-or-none": Misconception(
            "You skip both optimizers when one of them has inf. The scaler is finer than that: "
            "step() skips only the optimizer whose own gradients are not finite.",
            _two(_all_or_none),
        ),
        "second-loss-not-scaled": Misconception(
            "The second loss is not scaled, but its optimizer divides by the scale: the second "
            "model hardly moves. Every loss that meets this scaler must be scaled by it.",
            _two(_finish_two, scale_second=False),
        ),
        "guess-not-detached": Misconception(
            "The second loss goes back through the guess into the first model, which then learns "
            "from both losses and catches the second one's overflows. guess.detach() keeps them "
            "apart.",
            _two(_finish_two, detach=False),
        ),
        "second-never-zeroed": Misconception(
            "Only the first optimizer's gradients are removed. Those of the second add up, and "
            "after an overflow it is skipped for ever. zero_grad() for both.",
            _two(_finish_two, zeroed=1),
        ),
        "second-step-past-the-scaler": Misconception(
            "The second optimizer steps past the scaler: with scaled gradients, and without a "
            "look at inf.",
            _two(_one_forgotten),
        ),
    },
    hints=(
        "The scaler keeps its record of inf for each optimizer. What is common to both?",
        "Two backward passes, two steps. How many updates?",
    ),
    lesson_learned="One scaler, one update; each optimizer is skipped for its own infinities only.",
)


# ---- exact_resume: capture and restore ----------------------------------------------------------


@dataclass
class Training:
    """A run that can be interrupted: everything that the next step depends on, but one thing.

    Attributes:
        model: has dropout, which draws from torch's global random numbers.
        optimizer: SGD with momentum.
        scaler: of FP16 training.
        scheduler: lowers the learning rate after each epoch of three steps.
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
        torch.manual_seed(seed)
        model = _network(seed, 10, noisy=True)
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
            loss = _forward(self.model, cross_entropy, (images[chosen], labels[chosen]))
            self.scaler.scale(loss).backward()
            before = self.scaler.get_scale()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            if number % 3 == 2 and self.scaler.get_scale() >= before:
                self.scheduler.step()
            losses.append(loss.item())
        return losses


_STORED = ("model", "optimizer", "scaler", "scheduler", "data order")


def _fingerprint(state: Tensor) -> str:
    """A generator's state of some 5,000 bytes, in twelve letters."""
    return hashlib.sha256(state.numpy().tobytes()).hexdigest()[:12]


def _parts(run: Training) -> dict[str, Any]:
    """What the next step depends on, part by part, as plain numbers and tensors."""
    buffers = run.optimizer.state_dict()["state"].values()
    momentum = [x["momentum_buffer"] for x in buffers if x.get("momentum_buffer") is not None]
    scaler = run.scaler.state_dict()
    return {
        "mode": "training" if all(m.training for m in run.model.modules()) else "evaluation",
        "model": _flat(run.model.state_dict().values()),
        "optimizer": _flat([*momentum, torch.tensor(run.optimizer.param_groups[0]["lr"])]),
        "scaler": [scaler.get("scale"), scaler.get("_growth_tracker")],
        "scheduler": [run.scheduler.last_epoch],
        "random numbers": _fingerprint(torch.get_rng_state()),
        "data order": _fingerprint(run.order.get_state()),
    }


def _play_resume(pair: tuple[Callable, Callable]) -> Callable:
    """Interrupt a run, write its state to a file, and go on in a fresh one."""
    capture, restore = pair

    def play(seed: int, before: int, after: int) -> dict[str, Any]:
        images, labels = _batches(seed, 1, 60)[0]
        run = Training.fresh(seed)
        run.steps(images, labels, before)
        random = torch.get_rng_state()
        file, as_it_was = io.BytesIO(), _parts(run)
        torch.save(capture(run), file)
        touched = [part for part, value in _parts(run).items() if value != as_it_was[part]]
        torch.set_rng_state(random)
        run.steps(images, labels, 2)  # the run goes on after the checkpoint was written
        capture(run)  # and writes the next one: what counts is what stands in the first file
        other = Training.fresh(seed + 1000)
        try:
            state = torch.load(io.BytesIO(file.getvalue()))
        except pickle.UnpicklingError:
            return {"file": "torch.load refuses it"}
        untouched = _parts(other)
        restore(other, state)
        parts = _parts(other)
        changed = any(parts[part] != untouched[part] for part in parts if part in _STORED)
        return {
            "file": "loads",
            "run after capture": f"changed: {', '.join(touched)}" if touched else "as it was",
            "run after restore": "changed" if changed else "as it was before",
            **parts,
            "losses": other.steps(images, labels, after),
        }

    return play


def _capture(run: Training) -> dict[str, Any]:
    return {
        "model": run.model.state_dict(),
        "optimizer": run.optimizer.state_dict(),
        "scaler": run.scaler.state_dict(),
        "scheduler": run.scheduler.state_dict(),
        "random numbers": torch.get_rng_state(),
        "data order": run.order.get_state(),
    }


def _restore(run: Training, state: dict[str, Any]) -> None:
    run.model.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.scaler.load_state_dict(state["scaler"])
    run.scheduler.load_state_dict(state["scheduler"])
    torch.set_rng_state(state["random numbers"])
    run.order.set_state(state["data order"])


def _resume_cases() -> list[Case]:
    return [
        Case((21, 12, 5), "interrupted after 12 steps"),
        Case((22, 14, 4), "interrupted after 14 steps"),
    ]


_SLUGS = {
    "file": "objects-in-the-file",
    "run after capture": "run-changed-by-capture",
    "run after restore": "run-untouched",
    "model": "model-differs",
    "optimizer": "optimizer-differs",
    "scaler": "scaler-differs",
    "scheduler": "scheduler-differs",
    "random numbers": "random-numbers-differ",
    "data order": "data-order-differs",
}


def _expected_resume(case: Case) -> dict[str, Any]:
    return plain(_play_resume((_capture, _restore))(*case.args))["dict"]


def _compared() -> Exercise:
    """The exercise as far as `function_exercise` goes: it finds that runs differ, not in what."""
    return function_exercise(
        "exact_resume",
        cases=_resume_cases,
        reference=(_capture, _restore),
        play=_play_resume,
        misconceptions={},
        hints=(),
        lesson_learned="",
    )


def _judge_resume(evidence: Any) -> Finding | Verdict:
    """The first part that is not as it was, if any; else whether the losses go on alike."""
    finding = _compared().judge(evidence)
    if isinstance(finding, Verdict) or not finding.diagnosis:
        return finding
    for case, seen in zip(_resume_cases(), evidence, strict=True):
        expected, given = _expected_resume(case), seen["value"]["dict"]
        differing = [k for k in expected if k not in given or not exactly(expected[k], given[k])]
        named = [part for part in _SLUGS if part in differing]
        if named:
            line = f"{case}: not as it was: {', '.join(p for p in differing if p in given)}"
            return Finding(_SLUGS[named[0]], (line,))
    return finding


exact_resume = replace(
    _compared(),
    judge=_judge_resume,
    diagnoses={
        "objects-in-the-file": "torch.load refuses your file: since 2.6 it reads tensors, numbers, "
        "text, lists and dicts and nothing else, so that a file cannot run code. Save "
        "state_dict()s and get_state()s, not the objects themselves.",
        "run-changed-by-capture": "capture changed the run that it was to describe. That run goes "
        "on afterwards, and must go on as if nothing had happened: read its state and leave it as "
        "it is.",
        "run-untouched": "After restore the run is what it was before restore. Load the state into "
        "the parts of the `run` that restore was given; a copy of it, or a new object under the "
        "same name, is lost when the function returns.",
        "model-differs": "After restore the model is not what it was. Its state_dict holds the "
        "weights and also the running statistics of batch norm, which are no parameters.",
        "optimizer-differs": "After restore the optimizer is not what it was: its momentum (or "
        "Adam's averages) and its learning rate belong to the checkpoint too, and a "
        "scheduler.step() after they were loaded changes the rate again.",
        "scaler-differs": "After restore the scaler is not what it was. A fresh scale is too large "
        "for this run, so the next steps are skipped; and its count of clean steps says when the "
        "scale grows.",
        "scheduler-differs": "After restore the scheduler has forgotten how many epochs it has "
        "seen. The learning rate is right for now, it lies in the optimizer; what comes after it "
        "will not be.",
        "random-numbers-differ": "After restore torch's global random numbers are not where they "
        "were, so dropout draws another mask. A seed set anew does not help: it starts from the "
        "beginning. torch.get_rng_state() and torch.set_rng_state(), and nothing after it that "
        "draws numbers.",
        "data-order-differs": "After restore the generator that shuffles the images is not where "
        "it was, so the run sees other images. It has a state of its own: order.get_state().",
    },
    hints=(
        "List everything that the next step depends on. `Training` names five things; what does "
        "dropout depend on?",
        "Five of the six have a state_dict() or a get_state(). The sixth belongs to torch itself.",
        "torch.get_rng_state() gives it, torch.set_rng_state(state) puts it back.",
    ),
    lesson_learned="Six parts: model, optimizer, scaler, scheduler, random numbers, data order. "
    "With all of them the run goes on as if nothing had happened, to the last bit.",
)


# ---- train_any: one path for three precisions ---------------------------------------------------


def _any_cases() -> list[Case]:
    return [
        Case((31, "fp32", 1.0, (), 0.2), "fp32"),
        Case((32, "bf16", 1.0, (), 0.2), "bf16"),
        Case((33, "fp16", 1.0, (2,), 0.2), "fp16, the third batch overflows"),
        Case((36, "fp16", 1.0, (1,), 0.2, LARGE), "fp16, gradients of the second batch overflow"),
        # Not clipped: beside such gradients the 1e-6 that clip_grad_norm_ adds would count.
        Case((34, "fp16", SMALL, (), 1.0), "fp16, a loss with a small weight"),
        Case((35, "bf16", SMALL, (), 1.0), "bf16, a loss with a small weight"),
    ]


def _play_any(train: Callable) -> Callable:
    def play(
        seed: int,
        precision: str,
        weight: float,
        overflows: tuple,
        limit: float,
        too_large: float = TOO_LARGE,
    ) -> dict[str, Any]:
        bench = _Bench(seed, 8, weight=weight)
        batches = _batches(seed, 7, 10, overflows, too_large)
        scale = train(bench.model, bench.optimizer, bench.loss_fn, batches, precision, limit)
        return bench.left_behind() | {"scale at the end": scale}

    return play


_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def _any_loop(
    scaled: Iterable[str] = ("fp16",),
    cast: dict[str, torch.dtype] | None = None,
    unscale: bool = True,
    clip: bool = True,
    move: bool = False,
    zero: bool = True,
) -> Callable:
    """The one path for all precisions, or the same with one mistake.

    Args:
        scaled: the precisions with a scaler that works.
        cast: autocast's dtype for each precision with autocast.
        unscale: unscale before clipping.
        clip: clip at all.
        move: cast the model and not its operations.
        zero: remove the gradients before each batch.
    """
    cast = cast or {"bf16": torch.bfloat16, "fp16": HALF}

    def loop(model, optimizer, loss_fn, batches, precision, max_norm) -> float:
        scaler = torch.amp.GradScaler("cpu", enabled=precision in scaled)
        if move:
            model.to(_DTYPES[precision])
        for x, y in batches:
            if zero:
                optimizer.zero_grad()
            enabled = precision in cast and not move
            with torch.autocast("cpu", dtype=cast.get(precision, HALF), enabled=enabled):
                loss = loss_fn(model(x.to(_DTYPES[precision]) if move else x), y)
            scaler.scale(loss).backward()
            if unscale:
                scaler.unscale_(optimizer)
            if clip:
                clip_grad_norm_(model.parameters(), max_norm)
            scaler.step(optimizer)
            scaler.update()
        return scaler.get_scale()

    return loop


_ALL = ("fp32", "bf16", "fp16")

train_any = function_exercise(
    "train_any",
    cases=_any_cases,
    reference=_any_loop(),
    play=_play_any,
    same=_close,
    misconceptions={
        "bf16-scaled": Misconception(
            "You scale in BF16 or in float32 too. It does little harm and no good: their range "
            "does not need it, and every step() then waits for the answer whether there was an "
            "inf. enabled= should be true for FP16 alone.",
            _any_loop(scaled=_ALL),
            _any_loop(scaled=("bf16", "fp16")),
        ),
        "fp16-not-scaled": Misconception(
            "FP16 runs without a scale: the gradients of a loss with a small weight are zero, and "
            "an overflow is not skipped. (GradScaler() without a device means CUDA, and where "
            "there is none it is switched off.)",
            _any_loop(scaled=()),
            _any_loop(scaled=("bf16",)),
        ),
        "default-dtype": Misconception(
            "Your FP16 run computes in BF16. If you left out autocast's dtype: on a CPU the "
            "default is BF16, whatever the scaler thinks; say which dtype you mean.",
            _any_loop(cast={"bf16": torch.bfloat16, "fp16": torch.bfloat16}),
        ),
        "fp32-under-autocast": Misconception(
            "Your float32 run computes in 16 bits. Autocast must be off there: enabled=False.",
            _any_loop(cast={"fp32": torch.bfloat16, "bf16": torch.bfloat16, "fp16": HALF}),
            _any_loop(cast={"fp32": HALF, "bf16": torch.bfloat16, "fp16": HALF}),
        ),
        "clipped-scaled-gradients": Misconception(
            "With a scaler that works, you clip gradients that are still scaled: nearly all are "
            "cut down to next to nothing. Call scaler.unscale_(optimizer) before you clip; on a "
            "disabled scaler it does nothing.",
            _any_loop(unscale=False),
        ),
        "never-zeroed": Misconception(
            "Nobody removes the gradients, so those of each batch are added to the old ones. In "
            "FP16 one overflow then skips every step that follows.",
            _any_loop(zero=False),
        ),
        "not-clipped": Misconception(
            "No gradient is clipped: max_norm is not used, or only after the step.",
            _any_loop(clip=False),
            _any_loop(clip=False, unscale=False),
        ),
        "model-cast": Misconception(
            "You cast the model itself. Then the weights that the optimizer updates are 16 bit "
            "too, and small updates are lost. (And a scaler refuses FP16 gradients.) The model "
            "stays in float32; autocast does the rest.",
            _any_loop(move=True),
            _any_loop(move=True, scaled=()),
        ),
    },
    hints=(
        "autocast and GradScaler both take enabled=. Which of the two is on in which precision?",
        "A disabled scaler gives back the loss as it is, and its step() is optimizer.step().",
        "unscale_() may stand there in all three: on a disabled scaler it does nothing.",
    ),
    lesson_learned="enabled= keeps one path for all precisions, so the float32 run tests the same "
    "code as the FP16 run.",
)
