"""Lesson 12's exercises, the capstone: ten programs that are ill, each mended by the learner.

A program is judged by what it leaves behind: how many steps were real, the dtypes of gradients and
parameters and those in which the layers ran, the scale at each batch, the losses and the weights.
While it runs, a `_Chart` notes all that, whatever optimizer or helper the program makes for itself.
"""

from __future__ import annotations

import itertools
import math
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, log_softmax, softmax
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from amp_lessons.checks.cases import Case, Misconception, function_exercise, within

HALF = torch.float16
TOO_LARGE = 3e5  # an input beyond FP16: the forward pass overflows, and the step must be skipped
SMALL = 2.0**-24  # a weight of the loss with which FP16 gradients are lost unless they are scaled
INPUTS, CLASSES = 6, 3

Batch = tuple[Tensor, Tensor]
_close = within(1e-2)


# ---- what a program is handed, and what is noted ------------------------------------------------


def _seeded(seed: int, make: Callable[[], nn.Module]) -> Any:
    """A module whose weights depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def _network(seed: int, width: int = 8) -> nn.Sequential:
    """Two layers, float32."""
    return _seeded(
        seed,
        lambda: nn.Sequential(nn.Linear(INPUTS, width), nn.ReLU(), nn.Linear(width, CLASSES)),
    )


def _batches(seed: int, sizes: Iterable[int], spoiled: dict[int, float] | None = None):
    """Batches of random inputs with labels that can be learned.

    Args:
        sizes: the rows of each.
        spoiled: by the number of a batch, a value for one of its inputs, such as NaN.
    """
    random = torch.Generator().manual_seed(seed)
    rule = torch.randn(INPUTS, CLASSES, generator=random)
    batches = []
    for number, size in enumerate(sizes):
        x = torch.randn(size, INPUTS, generator=random)
        y = (x @ rule).argmax(1)
        if spoiled and number in spoiled:
            x[0, 0] = spoiled[number]
        batches.append((x, y))
    return batches


class _Chart:
    """The scaler and the loss that a program is handed, and what they see of it.

    Args:
        init_scale: of the scaler.
        weight: the loss is multiplied by it.
        growth_interval: of the scaler; short, so that its scale moves in a few batches.
    """

    def __init__(
        self, init_scale: float = 2.0**10, weight: float = 1.0, growth_interval: int = 3
    ) -> None:
        self.scaler = torch.amp.GradScaler(
            "cpu", init_scale=init_scale, growth_interval=growth_interval
        )
        self.weight = weight
        self.steps = 0
        self.gradients: set[str] = set()
        self.layers: dict[str, set[str]] = {}
        self.scales: list[float] = []
        self.losses: list[float] = []
        self.rows = self.most_rows = 0

    def listen(self, **modules: nn.Module) -> None:
        """Note the dtypes that the linear layers of these give; the modules by the names given.

        What is handed to the loss may have been cast, and says nothing of the products.
        """
        for name, module in modules.items():
            dtypes = self.layers.setdefault(name, set())
            for layer in module.modules():
                if isinstance(layer, nn.Linear):
                    layer.register_forward_hook(
                        lambda layer, args, output, dtypes=dtypes: dtypes.add(_name(output.dtype))
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
    def watching(self) -> Iterator[_Chart]:
        """Within this context every optimizer's real steps are noted, whoever made it."""
        before = register_optimizer_step_pre_hook(self._note_gradients)
        after = register_optimizer_step_post_hook(self._count_step)
        try:
            yield self
        finally:
            before.remove()
            after.remove()

    def forget_bad_losses(self) -> None:
        """Drop what was noted at batches whose loss is not finite."""
        good = [math.isfinite(loss) for loss in self.losses]
        for notes in (self.scales, self.losses):
            notes[:] = itertools.compress(notes, good)

    def _note_gradients(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        parameters = (p for group in optimizer.param_groups for p in group["params"])
        if not _skips(optimizer):
            self.gradients |= {_name(p.grad.dtype) for p in parameters if p.grad is not None}

    def _count_step(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self.steps += not _skips(optimizer)

    def left_behind(self, **modules: nn.Module) -> dict[str, Any]:
        """The evidence, in the order in which it is compared; weights by the names given."""
        parts = {name: list(module.parameters()) for name, module in modules.items()}
        return {
            "optimizer steps": self.steps,
            "dtype of the gradients": ", ".join(sorted(self.gradients)) or "no step was made",
            **{f"dtype from the {n}": ", ".join(sorted(d)) for n, d in self.layers.items()},
            **{f"dtype of the {n}'s weights": _kinds(ps) for n, ps in parts.items()},
            "scale at each batch": self.scales,
            "loss of each batch": self.losses,
            **{f"the {n}'s weights": _flat(ps) for n, ps in parts.items()},
        }


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _kinds(tensors: Iterable[Tensor]) -> str:
    return ", ".join(sorted({_name(t.dtype) for t in tensors}))


def _skips(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the scaler lets a fused optimizer skip: it calls its step all the same, and hands it
    ``found_inf``."""
    found = getattr(optimizer, "found_inf", None)
    return found is not None and bool(found)


def _flat(tensors: Iterable[Tensor]) -> Tensor:
    """All elements in one float64 tensor, which holds each of them exactly."""
    return torch.cat([torch.empty(0).double(), *(t.detach().double().flatten() for t in tensors)])


def _floats(result: Any) -> Any:
    """The losses as a list of floats, be they a tensor, or a list of tensors of one element."""
    if isinstance(result, Tensor):
        return result.tolist()
    if type(result) not in (list, tuple):
        return result
    return [x.item() if isinstance(x, Tensor) and x.numel() == 1 else x for x in result]


def _region(dtype: torch.dtype = HALF, enabled: bool = True) -> torch.autocast:
    return torch.autocast("cpu", dtype=dtype, enabled=enabled)


def _sgd(model: nn.Module, rate: float = 0.5) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=rate)


def _forward(model: nn.Module, loss_fn: Callable, batch: Batch) -> Tensor:
    with _region():
        return loss_fn(model(batch[0]), batch[1])


def _finish(scaler, optimizer) -> None:
    scaler.step(optimizer)
    scaler.update()


def _plain_loop(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:
        optimizer.zero_grad()
        scaler.scale(_forward(model, loss_fn, batch)).backward()
        _finish(scaler, optimizer)


def _bypassing_loop(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:
        optimizer.zero_grad()
        _forward(model, loss_fn, batch).backward()
        optimizer.step()


def _forward_in(program: Callable, dtype: torch.dtype) -> Callable:
    """The same program, with the forward pass of its model in another dtype than FP16."""

    def run(model: nn.Module, *rest: Any) -> Any:
        model.forward = _region(dtype, enabled=dtype != torch.float32)(model.forward)
        return program(model, *rest)

    return run


def _not_in_fp16(program: Callable) -> Misconception:
    """The mistake of mending a program by another precision."""
    return Misconception(
        "The rest is right, but the layers do not run in FP16 now. To change the precision was no "
        "part of the mend.",
        _forward_in(program, torch.float32),
        _forward_in(program, torch.bfloat16),
    )


def _scaler_gone(program: Callable) -> Misconception:
    """The mistake of mending a program by leaving out the scaler."""
    return Misconception(
        "This is mended, but the scaler is gone: nothing keeps small gradients from becoming zero "
        "in FP16, and nothing skips a step that overflows. Keep scale, step and update.",
        program,
    )


# ---- case 1, mend_finetune: an optimizer for parameters that are gone ---------------------------


class _Tuned(nn.Module):
    """A backbone and a head that can be exchanged."""

    def __init__(self) -> None:
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(INPUTS, 12), nn.ReLU())
        self.head = nn.Linear(12, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.backbone(x))


def _finetune_cases() -> list[Case]:
    return [
        Case((31, 6, {}), "6 batches, none overflows"),
        Case((32, 8, {2: TOO_LARGE}), "8 batches, the third overflows"),
    ]


def _play_finetune(train: Callable) -> Callable:
    def play(seed: int, count: int, spoiled: dict[int, float]) -> dict[str, Any]:
        chart, model = _Chart(), _seeded(seed, _Tuned)
        head = _seeded(seed + 1, lambda: nn.Linear(12, CLASSES))
        chart.listen(layers=nn.ModuleList([model, head]))
        with chart.watching():
            train(
                model, head, chart.scaler, chart.loss_fn, _batches(seed, [10] * count, spoiled), 0.5
            )
        seen = chart.left_behind(head=model.head, backbone=model.backbone)
        return seen | {"model.head is the new head": model.head is head}

    return play


def _finetuning(
    parameters: Callable[[nn.Module], Iterable[Tensor]],
    loop: Callable = _plain_loop,
    early: bool = False,
) -> Callable:
    """A program that tunes these parameters; ``early`` makes its optimizer before the new head."""

    def program(model, head, scaler, loss_fn, batches, rate) -> None:
        optimizer = torch.optim.SGD(parameters(model), lr=rate) if early else None
        model.head = head
        optimizer = optimizer or torch.optim.SGD(parameters(model), lr=rate)
        loop(model, optimizer, scaler, loss_fn, batches)

    return program


def _head(model: nn.Module) -> Iterable[Tensor]:
    return model.head.parameters()


def _all(model: nn.Module) -> Iterable[Tensor]:
    return model.parameters()


def _silenced_loop(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:
        optimizer.zero_grad()
        scaler.scale(_forward(model, loss_fn, batch)).backward()


mend_finetune = function_exercise(
    "mend_finetune",
    cases=_finetune_cases,
    reference=_finetuning(_head),
    play=_play_finetune,
    same=_close,
    misconceptions={
        "optimizer-of-the-old-head": Misconception(
            "The optimizer still holds the parameters of the old head. They take no part in the "
            "loss, so they have no gradient, and the scaler says that it recorded nothing for "
            "this optimizer. An optimizer holds parameters, not modules: make it after the head "
            "has been replaced.",
            _finetuning(_head, early=True),
        ),
        "nothing-trains": Misconception(
            "The message is gone, and the new head stands where it stood. Going past the scaler "
            "or leaving out the step only silences the watchman: the optimizer holds the "
            "parameters of the old head.",
            _finetuning(_head, _bypassing_loop, early=True),
            _finetuning(_head, _silenced_loop, early=True),
        ),
        "backbone-trained": Misconception(
            "You gave the optimizer all parameters of the model. The message is gone because the "
            "backbone has gradients; but now it is trained too, and it was to stay as it is.",
            _finetuning(_all),
            _finetuning(_all, early=True),
        ),
        "scaler-bypassed": Misconception(
            "The new head trains, but past the scaler: a batch that overflows goes into the "
            "weights. Keep scaler.scale, scaler.step and scaler.update.",
            _finetuning(_head, _bypassing_loop),
        ),
        "not-in-fp16": _not_in_fp16(_finetuning(_head)),
    },
    hints=(
        "Which parameters does the optimizer hold when it is made, and which are in the loss?",
        "Print id(p) of the optimizer's parameters and of the head's.",
        "Which of the two lines at the top has to come first?",
    ),
    lesson_learned="'No inf checks were recorded' says: none of this optimizer's parameters has a "
    "gradient. Look for the optimizer's parameters, not for the scaler.",
)


# ---- case 2, mend_guard: update without step ----------------------------------------------------


def _guard_cases() -> list[Case]:
    nan = float("nan")
    return [
        Case((33, 8, {1: nan}, 2.0**10), "8 batches, the second holds a NaN"),
        Case((34, 12, {5: nan, 6: nan}, 2.0**22), "12 batches, two hold a NaN, a large scale"),
        Case((35, 9, {0: nan, 8: nan}, 2.0**10), "9 batches, the first and last hold a NaN"),
    ]


def _play_guard(train: Callable) -> Callable:
    def play(seed: int, count: int, spoiled: dict[int, float], init_scale: float):
        chart, model = _Chart(init_scale), _network(seed)
        chart.listen(layers=model)
        batches = _batches(seed, [10] * count, spoiled)
        with chart.watching():
            train(model, _sgd(model), chart.scaler, chart.loss_fn, batches)
        chart.forget_bad_losses()  # a program may leave a batch out before or after its forward
        return chart.left_behind(model=model) | {"last scale": chart.scaler.get_scale()}

    return play


def _guarded(when_bad: Callable[..., Any] | None, before: Callable[[Tensor], Tensor] | None = None):
    """A loop that asks for finite losses; ``when_bad`` is called for the others, and says whether
    to stop. ``before`` changes the inputs."""

    def loop(model, optimizer, scaler, loss_fn, batches) -> None:
        for x, y in batches:
            optimizer.zero_grad()
            loss = _forward(model, loss_fn, (before(x) if before else x, y))
            if when_bad and not loss.isfinite():
                if when_bad(scaler):
                    break
                continue
            scaler.scale(loss).backward()
            _finish(scaler, optimizer)

    return loop


def _only_finite_gradients(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:
        optimizer.zero_grad()
        scaler.scale(_forward(model, loss_fn, batch)).backward()
        if all(p.grad.isfinite().all() for p in model.parameters()):
            _finish(scaler, optimizer)


def _guarded_without_scaler(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:
        optimizer.zero_grad()
        loss = _forward(model, loss_fn, batch)
        if loss.isfinite():
            loss.backward()
            optimizer.step()


mend_guard = function_exercise(
    "mend_guard",
    cases=_guard_cases,
    reference=_guarded(lambda scaler: False),
    play=_play_guard,
    same=_close,
    misconceptions={
        "update-without-step": Misconception(
            "For a bad batch you leave out backward and step, but not update(). The scaler has "
            "then seen no gradient since the last update, and says so. step and update belong "
            "together: both or neither.",
            _guarded(lambda scaler: scaler.update()),
        ),
        "scale-blamed": Misconception(
            "The scaler still sees the gradients of a bad batch. No step is made, but it blames "
            "its scale and halves it each time. The data are bad, and a smaller scale does not "
            "mend them: update() has to be left out too.",
            _guarded(None),
        ),
        "numbers-made-up": Misconception(
            "You replaced the NaN by a number and trained on it. The program was to leave the "
            "batch out: nobody knows what the sensor should have said.",
            _guarded(None, lambda x: x.nan_to_num(0.0)),
        ),
        "training-stopped": Misconception(
            "The first bad batch ends the training: the good ones behind it are not seen.",
            _guarded(lambda scaler: True),
        ),
        "scale-never-falls": Misconception(
            "You look at the gradients, or at the scaled loss, instead of the loss, and leave out "
            "the update when they are not finite. That also hides the overflows that come from "
            "the scale: it can never fall, and each of these batches is lost. A loss that is not "
            "finite is the data's fault; a finite loss with gradients that are not is the scale's.",
            _only_finite_gradients,
        ),
        "scaler-bypassed": _scaler_gone(_guarded_without_scaler),
        "not-in-fp16": _not_in_fp16(_guarded(lambda scaler: False)),
    },
    hints=(
        "What has the scaler seen since the last update when the batch was bad?",
        "How can you tell bad data from a scale that is too large, before the backward pass?",
        "What does `continue` leave out that `if` does not?",
    ),
    lesson_learned="step and update come together or not at all; a loss that is not finite is no "
    "business of the scaler.",
)


# ---- case 3, mend_adapter: trainable parameters in FP16 -----------------------------------------


class _Adapter(nn.Module):
    """A product of two thin matrices, as in LoRA; the second starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Linear(INPUTS, 2, bias=False)
        self.up = nn.Linear(2, CLASSES, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.down(x))


def _adapter_cases() -> list[Case]:
    return [
        Case((36, 8, {}), "8 batches, none overflows"),
        Case((37, 10, {4: TOO_LARGE}), "10 batches, the fifth overflows"),
    ]


def _play_adapter(train: Callable) -> Callable:
    def play(seed: int, count: int, spoiled: dict[int, float]) -> dict[str, Any]:
        chart = _Chart(2.0**16, weight=SMALL)
        base = _seeded(seed, lambda: nn.Linear(INPUTS, CLASSES)).half().requires_grad_(False)
        adapter = _seeded(seed, _Adapter).half()
        chart.listen(layers=nn.ModuleList([base, adapter]))
        batches = _batches(seed, [12] * count, spoiled)
        with chart.watching():
            train(base, adapter, chart.scaler, chart.loss_fn, batches, 0.5 / SMALL)
        seen = chart.left_behind(adapter=adapter, base=base)
        del seen["dtype of the adapter's weights"]  # FP16 again at the end, from FP32, is right too
        return seen

    return play


def _adapting(
    prepare: Callable[[nn.Module, nn.Module], Any],
    autocast: bool = True,
    loop: Callable = _plain_loop,
) -> Callable:
    def program(base, adapter, scaler, loss_fn, batches, rate) -> None:
        prepare(base, adapter)

        def model(x: Tensor) -> Tensor:
            if autocast:
                return base(x) + adapter(x)
            with _region(enabled=False):
                return base(x.to(base.weight.dtype)) + adapter(x.to(adapter.up.weight.dtype))

        loop(model, _sgd(adapter, rate), scaler, loss_fn, batches)

    return program


def _both_float(base: nn.Module, adapter: nn.Module) -> None:
    base.float()
    adapter.float()


mend_adapter = function_exercise(
    "mend_adapter",
    cases=_adapter_cases,
    reference=_adapting(lambda base, adapter: adapter.float()),
    play=_play_adapter,
    same=_close,
    misconceptions={
        "fp16-gradients": Misconception(
            "The adapter's parameters are FP16, so their gradients are, and the scaler refuses: "
            "divided by the scale, the small ones would be zero again. What is trained has to be "
            "in FP32; the frozen base may stay as it is.",
            _adapting(lambda base, adapter: None),
        ),
        "scaler-thrown-out": Misconception(
            "The refusal is gone and its reason is not: the adapter is FP16 still, and so are its "
            "gradients and its steps. Small ones become zero, and the rate that the check asks "
            "for does not even fit into FP16. What is trained has to be in FP32.",
            _adapting(lambda base, adapter: None, loop=_bypassing_loop),
        ),
        "scaler-bypassed": Misconception(
            "The adapter is FP32 now, but the loss is no longer scaled: in the backward pass, "
            "which runs in FP16, the gradients of this small loss are zero. Both are needed.",
            _adapting(lambda base, adapter: adapter.float(), loop=_bypassing_loop),
        ),
        "base-in-fp32": Misconception(
            "You cast the base to FP32 as well. It trains, but the base was kept in FP16 because "
            "it does not fit otherwise, and being frozen it has no update that could be lost.",
            _adapting(_both_float),
            _adapting(_both_float, autocast=False),
        ),
        "autocast-left-out": Misconception(
            "The adapter is run in FP32, outside of autocast: its products are no faster than "
            "before. Under autocast FP32 parameters and an FP16 base meet in FP16 without "
            "any cast of yours.",
            _adapting(lambda base, adapter: adapter.float(), autocast=False),
        ),
    },
    hints=(
        "Whose gradients does the scaler speak of?",
        "Which of the two modules is trained, and which dtype must such parameters have?",
    ),
    lesson_learned="What is trained is FP32; what is frozen may be anything that autocast casts.",
)


# ---- case 4, mend_uneven: accumulation over unequal micro-batches -------------------------------


def _uneven_cases() -> list[Case]:
    return [
        Case((38, [[2, 14], [9, 3, 4], [16]], {}), "groups of 2, 3 and 1 micro-batches"),
        Case(
            (39, [[1, 20, 3], [12, 2], [1, 1, 18], [6, 5]], {4: TOO_LARGE}),
            "4 groups, the second overflows",
        ),
    ]


def _play_uneven(train: Callable) -> Callable:
    def play(seed: int, sizes: list[list[int]], spoiled: dict[int, float]) -> dict[str, Any]:
        chart, model = _Chart(), _network(seed)
        chart.listen(layers=model)
        batches = iter(_batches(seed, itertools.chain(*sizes), spoiled))
        groups = [list(itertools.islice(batches, len(group))) for group in sizes]
        with chart.watching():
            train(model, _sgd(model), chart.scaler, chart.loss_fn, groups)
        seen = chart.left_behind(model=model)
        return {"most rows at once": chart.most_rows} | seen

    return play


def _accumulating(share: Callable[[Batch, list[Batch]], float], each: bool = False) -> Callable:
    """A program that weighs each micro-batch by ``share``; ``each`` steps after every one."""

    def program(model, optimizer, scaler, loss_fn, groups) -> None:
        for group in groups:
            optimizer.zero_grad()
            for batch in group:
                loss = _forward(model, loss_fn, batch) * share(batch, group)
                scaler.scale(loss).backward()
                if each:
                    _finish(scaler, optimizer)
                    optimizer.zero_grad()
            if not each:
                _finish(scaler, optimizer)

    return program


def _rows(group: list[Batch]) -> int:
    return sum(len(y) for _, y in group)


def _by_rows(batch: Batch, group: list[Batch]) -> float:
    """The share of a group's rows that a micro-batch holds."""
    return len(batch[1]) / _rows(group)


def _unscaled_rows(model, optimizer, scaler, loss_fn, groups) -> None:
    for group in groups:
        optimizer.zero_grad()
        for batch in group:
            (_forward(model, loss_fn, batch) * _by_rows(batch, group)).backward()
        optimizer.step()


def _one_backward(model, optimizer, scaler, loss_fn, groups) -> None:
    for group in groups:
        optimizer.zero_grad()
        losses = [_forward(model, loss_fn, batch) * len(batch[1]) for batch in group]
        scaler.scale(sum(losses) / _rows(group)).backward()
        _finish(scaler, optimizer)


def _one_big_batch(model, optimizer, scaler, loss_fn, groups) -> None:
    whole = [tuple(map(torch.cat, zip(*group, strict=True))) for group in groups]
    _plain_loop(model, optimizer, scaler, loss_fn, whole)


mend_uneven = function_exercise(
    "mend_uneven",
    cases=_uneven_cases,
    reference=_accumulating(_by_rows),
    play=_play_uneven,
    same=within(3e-3),
    misconceptions={
        "mean-of-means": Misconception(
            "Each loss is divided by the number of micro-batches. That is the mean of their "
            "means, and a row in a micro-batch of one counts as much as twenty in another. The "
            "mean over the rows weighs each micro-batch by its share of the rows.",
            _accumulating(lambda batch, group: 1 / len(group)),
        ),
        "loss-not-divided": Misconception(
            "The losses are added without being divided at all: steps are as many times too "
            "large as there are micro-batches.",
            _accumulating(lambda batch, group: 1.0),
        ),
        "rows-not-divided": Misconception(
            "You made each loss the sum over its rows, which gives every row the same weight; "
            "but nothing divides by the number of rows of the group before the step is made. "
            "Steps are as many times too large.",
            _accumulating(lambda batch, group: len(batch[1])),
        ),
        "stepped-each-micro-batch": Misconception(
            "You step after every micro-batch. The group was to make one step.",
            _accumulating(lambda batch, group: 1.0, each=True),
            _accumulating(lambda batch, group: 1 / len(group), each=True),
            _accumulating(_by_rows, each=True),
        ),
        "one-big-batch": Misconception(
            "The gradient is right, but all the micro-batches of a group go forward before the "
            "first backward pass. Until then their activations are in memory together, and they "
            "were cut because these do not fit.",
            _one_big_batch,
            _one_backward,
        ),
        "scaler-bypassed": _scaler_gone(_unscaled_rows),
        "not-in-fp16": _not_in_fp16(_accumulating(_by_rows)),
    },
    hints=(
        "A mean of 2 rows and a mean of 14 rows: how do you get the mean of the 16?",
        "Which share of the group's rows does a micro-batch hold?",
        "The number of rows of the whole group has to be known before the first backward pass, "
        "or the gradients divided after the last one.",
    ),
    lesson_learned="Accumulation averages over rows, or tokens, and not over micro-batches.",
)


# ---- case 5, mend_decay: gradients touched before unscale_ --------------------------------------


def _decay_cases() -> list[Case]:
    return [
        Case((40, 8, {}, 0.2, 2.0**12), "8 batches, none overflows, a decay of 0.2"),
        Case((41, 10, {3: TOO_LARGE, 7: TOO_LARGE}, 0.3, 2.0**12), "10 batches, two overflow"),
        Case((52, 8, {}, 0.3, 2.0), "8 batches, a scale of 2"),
    ]


def _play_decay(train: Callable) -> Callable:
    def play(seed: int, count: int, spoiled: dict[int, float], decay: float, init_scale: float):
        chart, model = _Chart(init_scale), _network(seed, 10)
        chart.listen(layers=model)
        batches = _batches(seed, [10] * count, spoiled)
        with chart.watching():
            train(model, _sgd(model), chart.scaler, chart.loss_fn, batches, decay)
        return chart.left_behind(model=model)

    return play


def _add_decay(model: nn.Module, decay: float) -> None:
    with torch.no_grad():
        for p in model.parameters():
            p.grad.add_(p, alpha=decay)


def _shrink(model: nn.Module, factor: float) -> None:
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(factor)


def _decaying(finish: Callable[..., None]) -> Callable:
    """A loop whose part after the backward pass is given."""

    def loop(model, optimizer, scaler, loss_fn, batches, decay) -> None:
        for batch in batches:
            optimizer.zero_grad()
            scaler.scale(_forward(model, loss_fn, batch)).backward()
            finish(model, optimizer, scaler, decay)
            scaler.update()

    return loop


def _unscale_decay_step(model, optimizer, scaler, decay) -> None:
    scaler.unscale_(optimizer)
    _add_decay(model, decay)
    scaler.step(optimizer)


def _decay_step(model, optimizer, scaler, decay) -> None:
    _add_decay(model, decay)
    scaler.step(optimizer)


def _step_decay(model, optimizer, scaler, decay) -> None:
    scaler.step(optimizer)
    _add_decay(model, decay)


def _decayed_without_scaler(model, optimizer, scaler, loss_fn, batches, decay) -> None:
    for batch in batches:
        optimizer.zero_grad()
        _forward(model, loss_fn, batch).backward()
        _add_decay(model, decay)
        optimizer.step()


def _by_hand(model, optimizer, scaler, decay) -> None:
    for p in model.parameters():
        p.grad /= scaler.get_scale()
    _decay_step(model, optimizer, scaler, decay)


def _shrink_step(model, optimizer, scaler, decay) -> None:
    _shrink(model, 1 - optimizer.param_groups[0]["lr"] * decay)
    scaler.step(optimizer)


def _step_shrink(model, optimizer, scaler, decay) -> None:
    scaler.step(optimizer)
    _shrink(model, 1 - optimizer.param_groups[0]["lr"] * decay)


mend_decay = function_exercise(
    "mend_decay",
    cases=_decay_cases,
    reference=_decaying(_unscale_decay_step),
    play=_play_decay,
    same=_close,
    misconceptions={
        "decay-before-unscale": Misconception(
            "The decay is added to gradients that still carry the scale, and step() then divides "
            "the sum: what is left of the decay is one part in thousands. Whatever reads or "
            "changes gradients comes after unscale_().",
            _decaying(_decay_step),
        ),
        "decay-without-effect": Misconception(
            "These are the weights of a training without decay: yours does not reach the step. "
            "Added after step() it comes too late, and the next zero_grad() throws it away; "
            "grad.add(…) without the underscore changes no gradient.",
            _decaying(_step_decay),
        ),
        "divided-twice": Misconception(
            "You divide by the scale yourself, and step() does it once more: it only knows what "
            "unscale_() has done. Now the whole gradient is as good as gone.",
            _decaying(_by_hand),
        ),
        "decay-in-skipped-steps": Misconception(
            "The weights shrink in every iteration, also where the scaler skips the step. A "
            "skipped step leaves everything as it was.",
            _decaying(_shrink_step),
            _decaying(_step_shrink),
        ),
        "scaler-bypassed": _scaler_gone(_decayed_without_scaler),
        "not-in-fp16": _not_in_fp16(_decaying(_unscale_decay_step)),
    },
    hints=(
        "How large is the scaled gradient beside decay * weight?",
        "Which call of the scaler makes the gradients the true ones, before step()?",
    ),
    lesson_learned="unscale_ first: then clipping, decay, noise and logs all see true gradients.",
)


# ---- case 6, mend_closure: forward and backward behind the scaler's back ------------------------


def _closure_cases() -> list[Case]:
    return [
        Case((42, 7, {}), "7 batches, none overflows"),
        Case((43, 9, {2: TOO_LARGE}), "9 batches, the third overflows"),
    ]


def _play_closure(train: Callable) -> Callable:
    def play(seed: int, count: int, spoiled: dict[int, float]) -> dict[str, Any]:
        chart, model = _Chart(2.0**16, weight=SMALL), _network(seed)
        chart.listen(layers=model)
        batches = _batches(seed, [10] * count, spoiled)
        with chart.watching():
            train(model, _sgd(model, 0.5 / SMALL), chart.scaler, chart.loss_fn, batches)
        return chart.left_behind(model=model)

    return play


def _with_closure(step: Callable[..., Any], scaled: bool = False) -> Callable:
    """A loop with a closure; ``step`` gets the scaler, the optimizer and the closure."""

    def loop(model, optimizer, scaler, loss_fn, batches) -> None:
        def closure(batch: Batch) -> Tensor:
            optimizer.zero_grad()
            loss = _forward(model, loss_fn, batch)
            (scaler.scale(loss) if scaled else loss).backward()
            return loss

        for batch in batches:
            step(scaler, optimizer, partial(closure, batch))

    return loop


def _by_position(scaler, optimizer, closure) -> None:
    scaler.scale(closure())
    scaler.step(optimizer, closure)
    scaler.update()


def _by_name(scaler, optimizer, closure) -> None:
    scaler.scale(closure())
    scaler.step(optimizer, closure=closure)
    scaler.update()


def _checked_then_plain(model, optimizer, scaler, loss_fn, batches) -> None:
    for batch in batches:

        def closure(batch: Batch = batch) -> Tensor:
            optimizer.zero_grad()
            loss = _forward(model, loss_fn, batch)
            loss.backward()
            return loss

        optimizer.zero_grad()
        scaler.scale(_forward(model, loss_fn, batch)).backward()
        scaler.step(optimizer, closure)
        scaler.update()


def _called_first(scaler, optimizer, closure) -> None:
    scaler.scale(closure())
    _finish(scaler, optimizer)


mend_closure = function_exercise(
    "mend_closure",
    cases=_closure_cases,
    reference=_plain_loop,
    play=_play_closure,
    same=_close,
    misconceptions={
        "closure-behind-the-scaler": Misconception(
            "The scaler unscales and checks one set of gradients; then the optimizer calls the "
            "closure, which makes another: not scaled, so the small ones are zero in FP16, and "
            "never checked. It also runs each batch twice.",
            _with_closure(_by_position),
            _checked_then_plain,
        ),
        "closure-by-name": Misconception(
            "By name the scaler sees the closure and refuses it. That is the honest answer: with "
            "a scaler, forward and backward happen before step(), not inside it.",
            _with_closure(_by_name),
            _with_closure(_by_name, scaled=True),
        ),
        "closure-not-unscaled": Misconception(
            "Now the closure scales its loss. But it runs inside optimizer.step(), after the "
            "scaler has unscaled: these gradients go into the weights as many times too large "
            "as the scale says.",
            _with_closure(_by_position, scaled=True),
        ),
        "scaler-bypassed": Misconception(
            "The scaler is gone, and with it the scale: without it the gradients of this small "
            "loss are zero in FP16, and an overflow is not skipped.",
            _bypassing_loop,
            _with_closure(lambda scaler, optimizer, closure: optimizer.step(closure)),
        ),
        "divided-and-not-scaled": Misconception(
            "What goes backward is the plain loss; scaler.scale(loss) gives back a new tensor and "
            "leaves the loss alone. step() divides gradients that were never multiplied.",
            _with_closure(_called_first),
        ),
        "not-in-fp16": _not_in_fp16(_plain_loop),
    },
    hints=(
        "How often does the program run the forward pass for one batch?",
        "Which gradients does the optimizer use: those that the scaler has checked?",
        "SGD needs no closure. Which four calls of the usual loop are then left?",
    ),
    lesson_learned="With a scaler no closure: scale, backward, step, update, in the open.",
)


# ---- case 7, mend_moments: Adam's averages in FP16 ----------------------------------------------


def _moments_cases() -> list[Case]:
    return [
        Case((44, 30, 0.05, 1e-3), "30 batches, a loss with a weight of 0.001"),
        Case((45, 40, 0.03, 1e-4), "40 batches, a loss with a weight of 0.0001"),
        Case((53, 20, 0.05, 0.3), "20 batches, a loss with a weight of 0.3"),
    ]


def _play_moments(train: Callable) -> Callable:
    def play(seed: int, count: int, rate: float, weight: float) -> dict[str, Any]:
        chart, model = _Chart(weight=weight), _network(seed)
        chart.listen(layers=model)
        train(model, chart.loss_fn, _batches(seed, [12] * count), rate)
        seen = chart.left_behind(model=model)
        kept = ("dtype from the layers", "dtype of the model's weights")
        kept += ("loss of each batch", "the model's weights")
        return {key: seen[key] for key in kept}

    return play


def _adam(
    dtype: torch.dtype = torch.float32,
    eps: float = 1e-8,
    rate_first: bool = True,
    mend: bool = False,
    *,
    gradient: torch.dtype | None = None,
    square: torch.dtype | None = None,
    mean: torch.dtype | None = None,
) -> Callable:
    """Adam by hand, with its averages in ``dtype``.

    Args:
        gradient: what the gradient is cast to first; default ``dtype``.
        square: what it is cast to before it is squared; default ``gradient``.
        mean: the dtype of the average of gradients; default ``dtype``.
        rate_first: multiply by the rate before dividing, which rounds differently.
        mend: replace what is not finite by 0.
    """

    def program(model, loss_fn, batches, rate) -> None:
        parameters = list(model.parameters())
        means = [torch.zeros_like(p, dtype=mean or dtype) for p in parameters]
        squares = [torch.zeros_like(p, dtype=dtype) for p in parameters]
        for number, (x, y) in enumerate(batches, 1):
            with _region(torch.bfloat16):
                loss = loss_fn(model(x), y)
            gradients = torch.autograd.grad(loss, parameters)
            for p, g, m, v in zip(parameters, gradients, means, squares, strict=True):
                g = g.to(gradient or dtype)
                m.mul_(0.9).add_(g, alpha=0.1)
                g = g.to(square or gradient or dtype)
                v.mul_(0.999).add_(g * g, alpha=0.001)
                m_hat, v_hat = m / (1 - 0.9**number), v / (1 - 0.999**number)
                size = v_hat.sqrt() + eps
                step = rate * m_hat / size if rate_first else rate * (m_hat / size)
                p.data -= step.nan_to_num(0.0, 0.0, 0.0) if mend else step

    return program


mend_moments = function_exercise(
    "mend_moments",
    cases=_moments_cases,
    reference=_adam(),
    play=_play_moments,
    same=within(2e-3),
    misconceptions={
        "moments-in-fp16": Misconception(
            "A gradient of 1e-4 squared is 1e-8, and in FP16 that is 0; so is the eps of 1e-8. The "
            "step is divided by zero. Averages of squares need FP32's range.",
            _adam(HALF),
            _adam(HALF, rate_first=False),
        ),
        "squared-in-fp16": Misconception(
            "The averages are FP32 now, but the gradient is still cast to FP16 before it is "
            "squared: 1e-4 * 1e-4 is 0 there, and a sum of zeros is 0 in any dtype.",
            _adam(gradient=HALF),
            _adam(gradient=HALF, rate_first=False),
        ),
        "means-in-fp16": Misconception(
            "The squares have FP32's range now, but the gradients are still rounded to FP16 on "
            "their way into the other average, or the average itself is FP16: a gradient of 1e-6 "
            "is 17 times the smallest number there, and rounded to a multiple of that.",
            *(
                _adam(mean=mean, gradient=gradient, square=torch.float32, rate_first=first)
                for mean, gradient in ((HALF, None), (HALF, HALF), (None, HALF))
                for first in (True, False)
            ),
        ),
        "eps-raised": Misconception(
            "A larger eps survives in FP16, but the squares are zero still: the step is now the "
            "mean over a constant, and Adam's whole point, a step that does not depend on the "
            "size of the gradient, is lost.",
            *(_adam(HALF, eps) for eps in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)),
            *(_adam(HALF, eps, rate_first=False) for eps in (1e-4, 1e-7)),
        ),
        "moments-in-bfloat16": Misconception(
            "BF16 has the range, but 8 significant bits: v times 0.999 is rounded, and what is "
            "added in a step is lost beside what is there. The average does not follow the "
            "gradients.",
            _adam(torch.bfloat16),
            _adam(torch.bfloat16, rate_first=False),
        ),
        "infinities-replaced": Misconception(
            "You replaced what is not finite by 0. Where the squares are zero in FP16, no step "
            "is made at all: the weights with small gradients stand still.",
            _adam(HALF, mend=True),
            _adam(HALF, rate_first=False, mend=True),
        ),
    },
    hints=(
        "What is 1e-4 * 1e-4 in FP16? And 1e-8?",
        "Which tensors of the program are FP16, and why does an optimizer's state last longer "
        "than an activation?",
        "One argument of torch.zeros_like, and one cast of the gradient.",
    ),
    lesson_learned="16 bits for what passes through, FP32 for what is kept and added to.",
)


# ---- case 8, mend_entropy: the logarithm of a probability ---------------------------------------


def _entropy_cases() -> list[Case]:
    return [
        Case((46, 7, 2.0**10, 0.5, 0.0), "7 batches, a bonus of 0.5"),
        Case((47, 12, 2.0**22, 0.3, 0.0), "12 batches, a large scale, a bonus of 0.3"),
        Case((54, 6, 2.0**10, 0.4, 200.0), "6 batches, a class whose logits are 200 below"),
    ]


def _play_entropy(train: Callable) -> Callable:
    def play(seed: int, count: int, init_scale: float, bonus: float, below: float):
        chart, model = _Chart(init_scale), _network(seed)
        with torch.no_grad():
            model[-1].weight.mul_(40.0)  # confident from the start: probabilities of 0 in FP16
            model[-1].bias[1] -= below  # and in FP32
        chart.listen(layers=model)
        batches = _batches(seed, [10] * count)
        with chart.watching():
            losses = train(model, _sgd(model, 0.05), chart.scaler, chart.loss_fn, batches, bonus)
        return chart.left_behind(model=model) | {"losses returned": _floats(losses)}

    return play


def _with_entropy(entropy: Callable[[Tensor], Tensor], dtype: torch.dtype | None = HALF):
    """A loop with this entropy of the logits; ``dtype=None`` runs it all in float32."""

    def loop(model, optimizer, scaler, loss_fn, batches, bonus) -> list[float]:
        losses = []
        for x, y in batches:
            optimizer.zero_grad()
            with _region(dtype) if dtype else nullcontext():
                logits = model(x)
                loss = loss_fn(logits, y) - bonus * entropy(logits)
            scaler.scale(loss).backward()
            _finish(scaler, optimizer)
            losses.append(loss.item())
        return losses

    return loop


def _stable_entropy(logits: Tensor) -> Tensor:
    log_p = log_softmax(logits.float(), 1)
    return -(log_p.exp() * log_p).sum(1).mean()


def _naive_entropy(logits: Tensor) -> Tensor:
    p = softmax(logits, 1)
    return -(p * (p + 1e-8).log()).sum(1).mean()


def _entropy_without_eps(logits: Tensor) -> Tensor:
    p = softmax(logits.float(), 1)
    return -(p * p.log()).sum(1).mean()


def _hidden_entropy(logits: Tensor) -> Tensor:
    p = softmax(logits, 1)
    return -(p * (p + 1e-8).log()).nan_to_num(0.0).sum(1).mean()


def _late_entropy(logits: Tensor) -> Tensor:
    p = softmax(logits, 1)
    return -(p * (p + 1e-8).log()).float().sum(1).mean()


mend_entropy = function_exercise(
    "mend_entropy",
    cases=_entropy_cases,
    reference=_with_entropy(_stable_entropy),
    play=_play_entropy,
    same=_close,
    misconceptions={
        "eps-vanishes": Misconception(
            "On a CPU softmax stays in FP16 under autocast, and a small probability is 0 there. An "
            "eps of 1e-8 is 0 too: the logarithm is −inf, and 0 times −inf is NaN. The scaler can "
            "only skip. Compute log p from the logits, or in FP32.",
            _with_entropy(_naive_entropy),
            _with_entropy(_late_entropy),
        ),
        "zero-in-fp32": Misconception(
            "FP32 helps as long as no probability is 0 in it. It is 0 where a logit is some 104 "
            "below the largest, and 0 times −inf is NaN again. log_softmax of the logits never "
            "takes the logarithm of a 0.",
            _with_entropy(_entropy_without_eps),
        ),
        "nan-only-hidden": Misconception(
            "The loss is finite now, and no step is taken: you replaced the NaN in the forward "
            "pass, and in the backward pass the logarithm's slope at 0 is still infinite, and 0 "
            "times it is NaN.",
            _with_entropy(_hidden_entropy),
        ),
        "entropy-dropped": Misconception(
            "The NaN is gone because the entropy is. The bonus no longer has a part in the loss.",
            _with_entropy(lambda logits: torch.zeros(())),
            _with_entropy(lambda logits: _stable_entropy(logits.detach())),
        ),
        "sign-of-the-entropy": Misconception(
            "The entropy has the wrong sign: the loss must become smaller where the entropy is "
            "larger. −Σ p log p is positive, and it is subtracted.",
            _with_entropy(lambda logits: -_stable_entropy(logits)),
        ),
        "autocast-left-out": Misconception(
            "Everything runs in FP32 now. The network's products were to stay in FP16; only the "
            "entropy needs more.",
            _with_entropy(_stable_entropy, None),
            _with_entropy(_naive_entropy, None),
        ),
    },
    hints=(
        "Which dtype has p here, and what is 1e-8 in it?",
        "log(softmax(z)) can be had without computing softmax(z) first.",
        "A function of torch.nn.functional, on logits in float32.",
    ),
    lesson_learned="Never the logarithm of a probability: log_softmax of the logits, in FP32.",
)


# ---- case 9, mend_similarity: an overflow in the forward pass -----------------------------------


def _similarity_cases() -> list[Case]:
    return [
        Case((48, 6, 8), "6 batches of 8 pairs"),
        Case((49, 7, 5), "7 batches of 5 pairs"),
    ]


TEMPERATURE = 2e5


def _play_similarity(train: Callable) -> Callable:
    def play(seed: int, count: int, size: int) -> dict[str, Any]:
        chart = _Chart(16.0, growth_interval=100)  # room for the gradients of any right answer
        encoder = _seeded(seed, lambda: nn.Linear(INPUTS, 16))
        random = torch.Generator().manual_seed(seed)
        batches = []
        for _ in range(count):
            x = 300 * torch.randn(size, INPUTS, generator=random)
            batches.append((x, x + 90 * torch.randn(size, INPUTS, generator=random)))
        chart.listen(encoder=encoder)
        optimizer = _sgd(encoder, 0.1)
        with chart.watching(), _Products() as products:
            losses = train(encoder, optimizer, chart.scaler, batches, TEMPERATURE)
        seen = chart.left_behind(encoder=encoder)
        del seen["scale at each batch"], seen["loss of each batch"]  # no loss_fn is handed over
        return (
            {"products in bfloat16": products.count["bfloat16"]}
            | seen
            | {
                "last scale": chart.scaler.get_scale(),
                "losses returned": _floats(losses),
            }
        )

    return play


def _matching(score: Callable[..., Tensor], dtype: torch.dtype | None = HALF, scaled: bool = True):
    """A loop that scores all pairs of a batch and asks for the right ones."""

    def loop(encoder, optimizer, scaler, batches, temperature) -> list[float]:
        losses = []
        for x, z in batches:
            optimizer.zero_grad()
            with _region(dtype) if dtype else nullcontext():
                scores = score(encoder(x), encoder(z), temperature)
                loss = cross_entropy(scores, torch.arange(len(x)))
            if scaled:
                scaler.scale(loss).backward()
                _finish(scaler, optimizer)
            else:
                loss.backward()
                optimizer.step()
            losses.append(loss.item())
        return losses

    return loop


def _scores_late(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    return (a @ b.T) / temperature


def _scores_cast_late(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    return (a @ b.T).float() / temperature


def _scores_early(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    return (a / temperature**0.5) @ (b / temperature**0.5).T


def _scores_clamped(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    return (a @ b.T).clamp(-65504, 65504) / temperature


def _scores_bfloat16(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    with _region(torch.bfloat16):
        return (a @ b.T) / temperature


def _scores_cast_to_bfloat16(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    with _region(enabled=False):
        return (a.bfloat16() @ b.bfloat16().T).float() / temperature


def _scores_float(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    with _region(enabled=False):
        return (a.float() @ b.float().T) / temperature


mend_similarity = function_exercise(
    "mend_similarity",
    cases=_similarity_cases,
    reference=_matching(_scores_float),
    play=_play_similarity,
    same=_close,
    misconceptions={
        "overflow-before-the-division": Misconception(
            "The product of two embeddings is beyond 65504 before the temperature divides it, and "
            "inf divided, or cast to FP32, is inf. The loss is not finite before any scaling, so "
            "the scale sinks and nothing helps. Make the numbers small before they are "
            "multiplied, or multiply in FP32.",
            _matching(_scores_late),
            _matching(_scores_cast_late),
            _matching(lambda a, b, t: (a.float() @ b.float().T) / t),
        ),
        "scores-clamped": Misconception(
            "Cut off at 65504, the large scores are all the same: the loss is finite and knows "
            "no longer which pair fits best.",
            _matching(_scores_clamped),
            _matching(lambda a, b, t: (a @ b.T).nan_to_num(posinf=65504.0, neginf=-65504.0) / t),
        ),
        "scaler-bypassed": Misconception(
            "Without the scaler nothing skips the steps, so the NaN goes into the weights. The "
            "scaler was right to skip; the loss is at fault.",
            _matching(_scores_late, scaled=False),
        ),
        "bfloat16-region": Misconception(
            "BF16 has the range, and where the GPU has it, it is a good cure. This program has to "
            "run where there is none: stay in FP16.",
            _matching(_scores_late, torch.bfloat16),
            _matching(_scores_early, torch.bfloat16),
            _matching(_scores_late, torch.bfloat16, scaled=False),
            _matching(_scores_bfloat16),
            _matching(_scores_cast_to_bfloat16),
        ),
        "autocast-left-out": Misconception(
            "The encoder runs in FP32 now. It was to stay in FP16: what overflows is the product "
            "of the embeddings.",
            _matching(_scores_late, None),
        ),
    },
    hints=(
        "Is the loss finite before it is scaled? Which operation gives the first inf?",
        "Scores of pairs are a product of two large numbers, then a division. In which order "
        "would you do that by hand?",
        "Under autocast `a.float() @ b.float().T` is cast down again; what switches that off?",
    ),
    lesson_learned="A scale that sinks to nothing: look for the first inf of the forward pass, and "
    "divide before you multiply.",
)


# ---- case 10, mend_recompute: a checkpoint that forgets the region ------------------------------


class _Products(TorchDispatchMode):
    """Counts matrix products by the dtype in which they run."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[str] = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket.__name__ in ("mm", "addmm", "bmm", "baddbmm"):
            self.count[_name(result.dtype)] += 1
        return result


class _Saved:
    """Bytes that a forward pass keeps for backward, until `stop` is called."""

    def __init__(self, own: Iterable[Tensor]) -> None:
        self.own, self.seen, self.open = {p.data_ptr() for p in own}, {}, True

    def pack(self, tensor: Tensor) -> Tensor:
        if self.open and tensor.data_ptr() not in self.own:
            self.seen[tensor.data_ptr()] = tensor.numel() * tensor.element_size()
        return tensor

    def stop(self) -> int:
        self.open = False
        return sum(self.seen.values())


def _recompute_cases() -> list[Case]:
    return [
        Case((50, 5, 24, {}), "5 batches, none overflows"),
        Case((51, 6, 32, {2: TOO_LARGE}), "6 batches, the third overflows"),
    ]


def _block() -> nn.Sequential:
    layers = (nn.Linear(INPUTS, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh())
    return nn.Sequential(*layers, nn.Linear(16, INPUTS), nn.Tanh())


def _play_recompute(train: Callable) -> Callable:
    def play(seed: int, count: int, size: int, spoiled: dict[int, float]) -> dict[str, Any]:
        chart = _Chart()
        blocks = _seeded(seed, lambda: nn.ModuleList(_block() for _ in range(3)))
        head = _seeded(seed, lambda: nn.Linear(INPUTS, CLASSES))
        both = nn.ModuleList([blocks, head])
        chart.listen(blocks=blocks, head=head)
        layers = [layer for layer in blocks.modules() if isinstance(layer, nn.Linear)]
        passes: list[nn.Module] = []
        for layer in layers:
            layer.register_forward_hook(lambda layer, *_: passes.append(layer))
        saved, kept = _Saved(both.parameters()), []

        def loss_fn(outputs: Tensor, labels: Tensor) -> Tensor:
            kept.append(saved.stop())
            return chart.loss_fn(outputs, labels)

        hooks = torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda tensor: tensor)
        batches = _batches(seed, [size] * count, spoiled)
        with chart.watching(), _Products() as products, hooks:
            train(blocks, head, _sgd(both), chart.scaler, loss_fn, batches)
        # Some 350 bytes a row without checkpoints, 70 with three, 180 with torch's
        # checkpoint_sequential, which leaves the last block as it is.
        roomy = bool(kept) and kept[0] > 240 * size
        # Twice each; checkpoint_sequential runs a third of them once.
        anew = len(passes) >= 1.6 * len(layers) * count
        return {
            "activations kept": "those of most layers" if roomy else "few",
            "layers recomputed": "most" if anew else "few or none",
            "products in float32": products.count["float32"],
            "products in bfloat16": products.count["bfloat16"],
        } | chart.left_behind(model=both)

    return play


class _Recompute(torch.autograd.Function):
    """A hand-made checkpoint, which computes the block anew in the region that it is given, with
    its input cast to float32 or not."""

    @staticmethod
    def forward(ctx, block, x, region, cast):
        ctx.block, ctx.region, ctx.cast = block, region, cast
        ctx.save_for_backward(x)
        return block(x)

    @staticmethod
    def backward(ctx, gradient):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad(), ctx.region():
            output = ctx.block(x.float() if ctx.cast else x)
        torch.autograd.backward(output, gradient)
        return None, x.grad, None, None


def _recomputing(
    run: Callable[[nn.Module, Tensor], Tensor],
    backward: Callable[[], Any] = nullcontext,
    head_in_region: bool = False,
) -> Callable:
    def program(blocks, head, optimizer, scaler, loss_fn, batches) -> None:
        for x, y in batches:
            optimizer.zero_grad()
            hidden = x.clone().requires_grad_()
            with _region():
                for block in blocks:
                    hidden = run(block, hidden)
                with _region(enabled=head_in_region):
                    loss = loss_fn(head(hidden.float()), y)
            with backward():
                scaler.scale(loss).backward()
            _finish(scaler, optimizer)

    return program


def _run_in(context: Callable[[], Any]) -> Callable[[nn.Module, Tensor], Tensor]:
    """A block that is run in a context, and is no checkpoint."""

    def run(block: nn.Module, x: Tensor) -> Tensor:
        with context():
            return block(x)

    return run


def _by_hand_in(region: Callable[[], Any], cast: bool = False) -> Callable[..., Tensor]:
    return lambda block, x: _Recompute.apply(block, x, region, cast)


mend_recompute = function_exercise(
    "mend_recompute",
    cases=_recompute_cases,
    reference=_recomputing(lambda block, x: checkpoint(block, x, use_reentrant=False)),
    play=_play_recompute,
    same=_close,
    misconceptions={
        "recomputed-outside": Misconception(
            "The backward pass stands outside autocast, as it should, and so does the second "
            "forward pass that your checkpoint makes in it: there an FP16 input meets FP32 "
            "weights. The region has to be opened again for the recomputation.",
            _recomputing(_by_hand_in(nullcontext)),
        ),
        "recomputed-in-float32": Misconception(
            "With the input cast to FP32 the message is gone, and the recomputation runs in FP32: "
            "slower, and it gives the gradient of another forward pass than the one whose loss "
            "you saw. Open the region again instead.",
            _recomputing(_by_hand_in(nullcontext, cast=True)),
        ),
        "recomputed-in-bfloat16": Misconception(
            "You open a region for the recomputation, but not the one of the forward pass: "
            'torch.autocast("cpu") without a dtype means BF16.',
            _recomputing(_by_hand_in(lambda: torch.autocast("cpu"))),
            _recomputing(_by_hand_in(partial(_region, torch.bfloat16))),
        ),
        "backward-in-the-region": Misconception(
            "The whole backward pass stands in the region now. The blocks are recomputed in "
            "FP16, but the head, which was kept in FP32 on purpose, gets its gradient from FP16 "
            "products. Open the region around the recomputation alone.",
            _recomputing(_by_hand_in(nullcontext), backward=_region),
        ),
        "checkpoint-removed": Misconception(
            "The dtypes are right because little or nothing is recomputed: most layers' "
            "activations are kept for the backward pass, and to do without them was what the "
            "program was for.",
            _recomputing(_run_in(nullcontext)),
            _recomputing(_run_in(torch.autograd.graph.save_on_cpu)),
        ),
        "blocks-untrained": Misconception(
            "The blocks get no gradient, and only the head is trained. To autograd a Function of "
            "your own, or a checkpoint with use_reentrant=True, depends on its inputs and not on "
            "the parameters inside: one of its inputs has to require a gradient, and a batch does "
            "not.",
            _recomputing(_run_in(torch.no_grad)),
        ),
        "head-in-the-region": Misconception(
            "The head runs in FP16 now. It was kept in FP32 on purpose.",
            _recomputing(
                lambda block, x: checkpoint(block, x, use_reentrant=False), head_in_region=True
            ),
            _recomputing(_by_hand_in(_region), head_in_region=True),
        ),
    },
    hints=(
        "Is autocast on when `backward` of the Function runs?",
        "Which parts of the program need the region: the recomputation, or the whole backward "
        "pass?",
        "torch.utils.checkpoint remembers the region for you.",
    ),
    lesson_learned="Whatever runs a forward pass again has to open the same region again; "
    "torch.utils.checkpoint does.",
)
