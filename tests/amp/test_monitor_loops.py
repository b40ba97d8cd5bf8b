"""Training loops as people break them, and odd ones that are healthy: what the monitor says.

`test_monitor.py` holds the table of planted faults; here each loop stands for a finding of its own.
"""

from __future__ import annotations

import copy
import io
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import amp_lessons
from amp_lessons.amp.monitor import MonitorError

STRIKES = 2
STEPS = 4


def batch(step: int, rows: int = 6) -> tuple[Tensor, Tensor]:
    x = torch.randn(rows, 8, generator=torch.Generator().manual_seed(step))
    return x, x[:, :4].argmax(-1)


def made(*parts: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), *parts, nn.Linear(8, 4))


def watched(model: nn.Module, step: Callable[..., Any], **options: Any) -> Any:
    """Run a loop in FP32. ``step(number, output, labels)`` gives the loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=options.pop("lr", 0.01))
    with amp_lessons.monitor(model, **options) as seen:
        for number in range(STEPS):
            x, y = batch(number)
            optimizer.zero_grad()
            step(number, model(x), y).backward()
            optimizer.step()
    assert seen._failure is None
    return seen


def scaled(step: Callable[..., Any], scale: float = 2.0**16, **options: Any) -> Any:
    """Run a loop with a GradScaler. ``step(scaler, optimizer, model, loss, output)`` ends it."""
    model = made()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, **options)
    with amp_lessons.monitor(model, scaler) as seen:
        for number in range(STEPS):
            x, y = batch(number)
            optimizer.zero_grad()
            output = model(x)
            step(scaler, optimizer, model, F.cross_entropy(output, y), output)
    assert seen._failure is None
    return seen


def only_alarm(seen: Any) -> tuple[Any, Any]:
    assert len(seen.faults) == len(seen.alarms) == 1, seen.summary()
    return seen.faults[0], seen.alarms[0]


# ---- a NaN that no loss scale cures ----------------------------------------------------------


def train_with_scaler(
    model: nn.Module, step: Callable[[int], Tensor], scale: float = 2.0**10, **options: Any
) -> Any:
    """Run a loop with a GradScaler. ``step(number)`` gives the loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    with amp_lessons.monitor(model, scaler, **options) as seen:
        for number in range(STEPS):
            optimizer.zero_grad()
            scaler.scale(step(number)).backward()
            scaler.step(optimizer)
            scaler.update()
    assert seen._failure is None
    return seen


def root_of_zero(out: Tensor) -> Tensor:
    return torch.sqrt((out * 0).square().sum(-1)).sum()  # the slope


def zero_times_inf(out: Tensor) -> Tensor:
    return torch.where(out > 1e9, torch.log(out * 0), out * 0).sum()  # the slope


def power_below_one(out: Tensor) -> Tensor:
    return ((out * 0) ** 0.5).sum()  # the slope


@pytest.mark.parametrize("breaks", [root_of_zero, zero_times_inf, power_below_one])
@pytest.mark.parametrize("scale", [2.0, 2.0**10])
def test_one_step_whose_gradients_are_nan_at_any_scale_is_a_fault(breaks: Any, scale: float):
    model = made()

    def step(number: int) -> Tensor:
        output = model(batch(number)[0])
        return breaks(output) if number == STRIKES else output.sum()

    seen = train_with_scaler(model, step, scale)
    assert [skip.step for skip in seen.skips] == [STRIKES]
    fault, alarm = only_alarm(seen)
    assert (fault.step, fault.phase, fault.always) == (STRIKES, "backward", True)
    assert "# the slope" in fault.place.code
    assert "it breaks at any loss scale" in alarm.text
    assert "Nothing to fix" not in seen.summary()


def test_an_overflow_in_the_loss_that_a_smaller_scale_cures_is_no_fault():
    model = made()

    def step(number: int) -> Tensor:
        output = model(batch(number)[0])
        return (output.half() * 100).float().sum()  # 2^10 × 100 is beyond FP16

    seen = train_with_scaler(model, step)
    assert [skip.step for skip in seen.skips] == [0]
    assert not seen.skips[0].cause.always
    assert seen.alarms == []
    assert "Nothing to fix was seen" in " ".join(seen.summary().split())


class Parts(nn.Module):
    """A model whose parts a loop calls one by one: ``m.body(m.emb(ids))``."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.emb, self.body = nn.Embedding(10, 8), nn.Linear(8, 4)


def test_a_slope_between_two_parts_is_not_blamed_on_a_batch_of_integers():
    model = Parts()

    def step(number: int) -> Tensor:
        h = model.emb(torch.arange(4))
        factor = 0.0 if number == STRIKES else 1.0
        return model.body(h * torch.sqrt((h * factor).square().sum(-1, keepdim=True))).sum()

    fault, alarm = only_alarm(train_with_scaler(model, step))
    assert (fault.step, fault.phase, fault.op, fault.always) == (STRIKES, "backward", "sqrt", True)
    assert "torch.sqrt" in fault.place.code
    assert "batch" not in alarm.title + alarm.text + alarm.entry.fix


def test_a_slope_at_a_padded_row_that_gets_no_gradient_is_no_fault():
    model = Parts()
    model.emb = nn.Embedding(10, 8, padding_idx=0)

    def step(number: int) -> Tensor:
        h = model.emb(torch.arange(4))  # the first row is 0
        out = model.body(h + torch.sqrt(h.square().sum(-1, keepdim=True)))
        return (out.half() * 100).float().sum()  # overflows in step 0

    seen = train_with_scaler(model, step)
    assert [skip.step for skip in seen.skips] == [0]
    assert seen.alarms == []


def test_an_op_between_two_parts_is_not_blamed_on_the_batch_either():
    model = Parts()

    def step(number: int) -> Tensor:
        h = model.emb(torch.arange(4)) * (0.0 if number == STRIKES else 1.0)
        return model.body(h / h.norm(dim=-1, keepdim=True)).sum()  # 0 / 0

    fault, alarm = only_alarm(train_with_scaler(model, step))
    assert (fault.step, fault.phase, fault.op, fault.kind) == (STRIKES, "forward", "div", "nan")
    assert "# 0 / 0" in fault.place.code
    assert "batch" not in alarm.title + alarm.text + alarm.entry.fix


def test_a_gradient_that_came_broken_is_not_blamed_on_a_batch_of_integers():
    """The op that broke it is out of sight: a second graph, sent back by hand."""
    model = Parts()
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    with amp_lessons.monitor(model, scaler) as seen:
        for number in range(STEPS):
            optimizer.zero_grad()
            h = model.emb(torch.arange(4))
            h.backward(torch.full_like(h, math.nan if number == STRIKES else 1.0))
            scaler.scale(model.body(torch.ones(1, 8)).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
    head = " ".join(seen.summary().split())
    assert "batch" not in head
    assert "No cause is known for 1 skipped step, at a loss scale that worked before" in head
    assert "the gradient that reached" in seen.skips[0].cause.detail


def test_a_nan_is_found_after_the_overflows_at_the_start():
    """Skips at the start are normal, and only two of them are looked into."""
    model = made()

    def step(number: int) -> Tensor:
        output = model(batch(number)[0]).half().float() * 2000
        return root_of_zero(output) if number == 6 else output.sum()

    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**9)
    with amp_lessons.monitor(model, scaler) as seen:
        for number in range(8):
            optimizer.zero_grad()
            scaler.scale(step(number)).backward()
            scaler.step(optimizer)
            scaler.update()
    assert [skip.step for skip in seen.skips] == [0, 1, 2, 3, 6]
    fault, _ = only_alarm(seen)
    assert (fault.step, fault.op, fault.always) == (6, "sqrt", True)


def test_a_skip_that_nobody_looked_into_is_not_called_nothing():
    model = made()

    def step(number: int) -> Tensor:
        output = model(batch(number)[0])
        return root_of_zero(output) if number == STRIKES else output.sum()

    seen = train_with_scaler(model, step, reruns=0)
    head = " ".join(seen.summary().split())
    assert "Nothing to fix" not in head
    assert "No cause is known for 1 skipped step" in head


# ---- the scaler, called in a wrong order -----------------------------------------------------


@pytest.mark.parametrize("name", ["clip_grad_norm_", "clip_grad_value_"])
def test_clipping_before_unscale_is_named_with_its_line(name: str):
    def step(scaler: Any, optimizer: Any, model: nn.Module, loss: Tensor, _: Tensor) -> None:
        scaler.scale(loss).backward()
        clip = clip_grad_norm_ if name == "clip_grad_norm_" else nn.utils.clip_grad_value_
        clip((p for p in model.parameters()), 1.0)  # too early
        scaler.step(optimizer)
        scaler.update()

    fault, alarm = only_alarm(scaled(step))
    assert (fault.step, fault.phase, fault.scale) == (0, "use", 2.0**16)
    assert "# too early" in fault.place.code
    assert name in alarm.title
    assert "1.5e-05" in alarm.text
    assert alarm.entry_id == "clip-before-unscale"


@pytest.mark.parametrize("order", ["unscaled", "by hand", "only the norm"])
def test_clipping_in_a_right_order_raises_no_alarm(order: str):
    def step(scaler: Any, optimizer: Any, model: nn.Module, loss: Tensor, _: Tensor) -> None:
        scaler.scale(loss).backward()
        bound = {"by hand": scaler.get_scale(), "only the norm": math.inf}.get(order, 0.01)
        if order == "unscaled":
            scaler.unscale_(optimizer)
            clip_grad_value_(model.parameters(), 1.0)
        clip_grad_norm_(model.parameters(), bound)
        scaler.step(optimizer)
        scaler.update()

    assert scaled(step).alarms == []


def test_clipping_with_a_disabled_scaler_raises_no_alarm():
    def step(scaler: Any, optimizer: Any, model: nn.Module, loss: Tensor, _: Tensor) -> None:
        scaler.scale(loss).backward()
        clip_grad_norm_(model.parameters(), 0.01)
        scaler.step(optimizer)
        scaler.update()

    assert scaled(step, enabled=False).alarms == []


def test_a_step_past_the_scaler_is_named():
    def step(scaler: Any, optimizer: Any, model: nn.Module, loss: Tensor, _: Tensor) -> None:
        scaler.scale(loss).backward()
        optimizer.step()  # should be the scaler's

    seen = scaled(step)
    fault, alarm = only_alarm(seen)
    assert "# should be the scaler's" in fault.place.code
    assert "SGD.step()" in alarm.title
    assert seen.steps == STEPS, "without update() the optimizer's step ends a step"


def test_gradients_unscaled_by_hand_are_no_fault():
    def step(scaler: Any, optimizer: Any, model: nn.Module, loss: Tensor, _: Tensor) -> None:
        scaler.scale(loss).backward()
        for p in model.parameters():
            p.grad.div_(scaler.get_scale())
        optimizer.step()

    assert scaled(step).alarms == []


def test_a_second_loss_that_is_not_scaled_is_named():
    def step(scaler: Any, optimizer: Any, _: nn.Module, loss: Tensor, output: Tensor) -> None:
        scaler.scale(loss).backward(retain_graph=True)
        output.square().mean().backward()  # not scaled
        scaler.step(optimizer)
        scaler.update()

    fault, alarm = only_alarm(scaled(step))
    assert "# not scaled" in fault.place.code
    assert alarm.entry_id == "loss-not-scaled"


@pytest.mark.parametrize("way", ["sum", "by hand", "divided", "seeded", "two calls"])
def test_other_ways_to_scale_are_no_fault(way: str):
    def step(scaler: Any, optimizer: Any, model: nn.Module, loss: Tensor, output: Tensor) -> None:
        if way == "two calls":
            first = scaler.scale(loss)
            second = scaler.scale(model(batch(9)[0]).square().mean())
            first.backward()
            second.backward()
        elif way == "seeded":
            leaf = output.detach().requires_grad_()
            scaler.scale(leaf.square().mean()).backward()
            output.backward(leaf.grad)
        else:
            both = scaler.scale(loss) + scaler.scale(output.square().mean())
            whole = {"sum": both, "by hand": loss * scaler.get_scale(), "divided": both / 2}[way]
            whole.backward()
        scaler.step(optimizer)
        scaler.update()

    assert scaled(step).alarms == []


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.maker, self.judge = nn.Linear(4, 8), nn.Linear(8, 1)


def test_an_optimizer_that_does_without_the_scaler_is_no_fault():
    """A critic in FP32 steps three times for each scaled step of the generator."""
    model, scaler = Two(), torch.amp.GradScaler("cpu", init_scale=1024.0)
    first = torch.optim.SGD(model.judge.parameters(), lr=0.01)
    second = torch.optim.SGD(model.maker.parameters(), lr=0.01)
    with amp_lessons.monitor(model, scaler) as seen:
        for number in range(9):
            first.zero_grad()
            model.judge(batch(number)[0]).mean().backward()
            clip_grad_norm_(model.judge.parameters(), 0.1)
            first.step()
            if number % 3 == 2:
                second.zero_grad()
                scaler.scale(model.judge(model.maker(torch.randn(4, 4))).mean()).backward()
                scaler.step(second)
                scaler.update()
    assert seen.alarms == []
    assert seen.steps == 3


# ---- backward passes that are hard to follow -------------------------------------------------


def test_the_second_of_two_backward_passes_is_checked_too():
    model = made()

    def step(number: int, output: Tensor, y: Tensor) -> Tensor:
        root = torch.sqrt((output * (number != STRIKES)).square()).mean()  # the root of 0
        F.cross_entropy(output, y).backward(retain_graph=True)
        return root

    fault, _ = only_alarm(watched(model, step))
    assert (fault.step, fault.op, fault.phase) == (STRIKES, "sqrt", "backward")
    assert "# the root of 0" in fault.place.code


def test_the_backward_pass_of_another_model_is_not_taken_for_its_own():
    """A GAN of which only the generator is watched: the judge learns in between."""
    both = Two()
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.01) for part in (both.judge, both.maker)]
    with amp_lessons.monitor(both.maker) as seen:
        for number in range(STEPS):
            fake = both.maker(torch.randn(4, 4))
            both.judge(fake.detach()).mean().backward()
            optimizers[0].step()
            p = torch.sigmoid(both.judge(fake)) * (number != STRIKES)
            (-torch.log(p).mean()).backward()  # the log of 0
            optimizers[1].step()
    fault, _ = only_alarm(seen)
    assert (fault.step, fault.op, fault.phase) == (STRIKES, "log", "loss")
    assert "# the log of 0" in fault.place.code
    assert seen.steps == STEPS


def test_gradients_from_autograd_grad_are_checked_when_the_optimizer_steps():
    model = made()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with amp_lessons.monitor(model) as seen:
        for number in range(STEPS):
            x, y = batch(number)
            p = model(x).softmax(-1) * (number != STRIKES)
            loss = -torch.log(p)[torch.arange(len(y)), y].mean()  # the log of 0
            found = torch.autograd.grad(loss, list(model.parameters()))
            for parameter, grad in zip(model.parameters(), found, strict=True):
                parameter.grad = grad
            optimizer.step()
    assert seen.steps == STEPS
    fault, _ = only_alarm(seen)
    assert (fault.step, fault.op) == (STRIKES, "log")
    assert "# the log of 0" in fault.place.code


def test_optimizers_that_step_inside_the_backward_pass():
    model = made()
    optimizers = {p: torch.optim.SGD([p], lr=0.01) for p in model.parameters()}

    def update(parameter: Tensor) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in optimizers:
        parameter.register_post_accumulate_grad_hook(update)
    with amp_lessons.monitor(model) as seen:
        for number in range(STEPS):
            x, y = batch(number)
            loss = F.cross_entropy(model(x), y) * (math.nan if number == STRIKES else 1)
            loss.backward()
    assert seen.steps == STEPS
    assert len(seen.samples) == 1, "the number of optimizers doesn't make each step a sampled one"
    assert seen.bad_steps[0] == STRIKES


def test_calls_inside_torch_func_are_left_alone():
    model = made()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def loss(parameters: Any, x: Tensor) -> Tensor:
        return torch.func.functional_call(model, parameters, (x,)).square().sum()

    parameters = {name: p.detach() for name, p in model.named_parameters()}
    with amp_lessons.monitor(model) as seen:
        grads = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, batch(0)[0])
        for name, p in model.named_parameters():
            p.grad = grads[name].mean(0)
        optimizer.step()
        F.cross_entropy(model(batch(1)[0]), batch(1)[1]).backward()
        optimizer.step()
    assert seen._failure is None
    assert seen.steps == 1
    assert [note for note in seen.notes if "torch.func" in note]


# ---- the right cause, and the right cure -----------------------------------------------------


def test_a_run_that_diverges_is_told_to_lower_the_learning_rate():
    def step(_: int, output: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(output[:, 0], y.float()) * 1e9

    fault, alarm = only_alarm(watched(made(), step, lr=1e6))
    assert fault.dtype == "float32"
    assert fault.reached > 1e9
    assert alarm.entry_id == "training-diverges"


def test_a_mask_that_float16_cannot_hold_is_told():
    class Padded(nn.Module):
        def forward(self, h: Tensor) -> Tensor:
            scores = h.half()
            scores = scores + torch.ones_like(scores) * -1e9  # the mask
            return torch.softmax(scores, -1).float()

    fault, alarm = only_alarm(watched(made(Padded()), lambda _, out, y: F.cross_entropy(out, y)))
    assert fault.op == "mul"
    assert "# the mask" in fault.place.code
    assert "-1e+09 is beyond float16" in alarm.text
    assert alarm.entry_id == "value-cannot-be-converted-to-half"


def test_a_label_that_is_inf_is_told_from_an_input():
    labels = [torch.full((6,), math.inf if n == STRIKES else 1.0) for n in range(STEPS)]

    def step(number: int, output: Tensor, _: Tensor) -> Tensor:
        return F.mse_loss(output[:, 0], labels[number])  # the labels

    fault, alarm = only_alarm(watched(made(), step))
    assert (fault.step, fault.phase) == (STRIKES, "input")
    assert "# the labels" in fault.place.code
    assert "given to the loss already held inf" in alarm.title
    assert alarm.entry_id == "nan-in-the-batch"


@pytest.mark.parametrize(
    ("slope", "op"),
    [
        (lambda out: ((out * 0) ** 2).sum(-1) ** 0.5, "pow"),
        (lambda out: torch.where(out > 9, (out * 0).log() * (out * 0), 0.0), "log"),
        (lambda out: torch.acos(out / out.detach()), "acos"),
    ],
)
def test_an_infinite_slope_is_told_from_a_log_or_a_product(slope: Any, op: str):
    def step(number: int, output: Tensor, y: Tensor) -> Tensor:
        return slope(output).mean() if number == STRIKES else F.cross_entropy(output, y)

    fault, alarm = only_alarm(watched(made(), step))
    assert (fault.step, fault.op, fault.phase) == (STRIKES, op, "backward")
    assert alarm.entry_id == "infinite-slope"


def test_a_division_by_zero_in_float32_is_not_told_to_go_on_in_float32():
    def step(number: int, output: Tensor, y: Tensor) -> Tensor:
        size = output.detach().norm() * (number != STRIKES)
        return (output / size).mean() + F.cross_entropy(output, y)

    fault, alarm = only_alarm(watched(made(), step))
    assert (fault.step, fault.op, fault.dtype) == (STRIKES, "div", "float32")
    assert alarm.entry_id == "nan-in-fp32-too"


def test_a_target_too_long_for_ctc_has_a_cure_of_its_own():
    def step(number: int, output: Tensor, _: Tensor) -> Tensor:
        log_p = output.log_softmax(-1)[:, None]
        lengths = torch.tensor([2 if number == STRIKES else 6]), torch.tensor([3])
        return F.ctc_loss(log_p, torch.tensor([[1, 2, 3]]), *lengths)

    _, alarm = only_alarm(watched(made(), step))
    assert alarm.entry_id == "ctc-target-too-long"


def test_adam_on_float16_weights_is_told_to_keep_them_in_float32():
    model = made().half()
    optimizer = torch.optim.Adam(model.parameters())
    with amp_lessons.monitor(model) as seen:
        for number in range(3):
            x, y = batch(number)
            optimizer.zero_grad()
            F.cross_entropy(model(x.half()).float(), y).backward()
            optimizer.step()  # eps is 0
    fault, alarm = only_alarm(seen)
    assert (fault.op, fault.dtype) == ("Adam.step", "float16")
    assert "# eps is 0" in fault.place.code
    assert alarm.entry_id == "adam-eps-zero-in-fp16"


def test_frozen_weights_that_broke_are_not_blamed_on_the_optimizer():
    class Pupil(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pupil, self.teacher = made(), made().requires_grad_(False)

        def forward(self, x: Tensor) -> Tensor:
            return self.pupil(x) - self.teacher(x)

    model = Pupil()

    def step(number: int, output: Tensor, y: Tensor) -> Tensor:
        if number == STRIKES - 1:
            model.teacher[0].weight.fill_(math.nan)  # a moving average gone wrong
        return F.cross_entropy(output, y)

    fault, alarm = only_alarm(watched(model, step))
    assert (fault.step, fault.module) == (STRIKES, "teacher.0.weight")
    assert "SGD" not in fault.op
    assert not fault.place.line
    assert alarm.entry_id == "nan-in-weights"


def test_running_statistics_that_overflow_are_found_while_all_outputs_are_finite():
    model = made(nn.BatchNorm1d(8)).half()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with amp_lessons.monitor(model) as seen:
        for number in range(2):
            x, y = batch(number)
            optimizer.zero_grad()
            F.cross_entropy(model((x * 2000).half()).float(), y).backward()
            optimizer.step()
    fault, alarm = only_alarm(seen)
    assert (fault.phase, fault.module, fault.kind) == ("buffer", "1.running_var", "inf")
    assert alarm.entry_id == "batchnorm-in-fp16"


def test_buffers_that_held_inf_from_the_start_raise_no_alarm():
    model = made()
    model.register_buffer("lowest", torch.tensor(math.inf))
    model.register_buffer("mask", torch.full((2, 2), -math.inf))
    assert watched(model, lambda _, out, y: F.cross_entropy(out, y)).alarms == []


def test_steps_skipped_for_one_reason_take_one_line():
    def step(scaler: Any, optimizer: Any, _: nn.Module, loss: Tensor, output: Tensor) -> None:
        scaler.scale(loss + torch.sqrt(output * 0).sum()).backward()
        scaler.step(optimizer)
        scaler.update()

    seen = scaled(step)
    assert len(seen.skips) == STEPS
    lines = " ".join(str(seen).split())
    assert "steps 0 to 3, scale 2^16 to 2^13:" in lines


def test_the_advice_on_scales_says_what_it_leaves_out():
    model = made()
    with amp_lessons.monitor(model) as seen:
        x, y = batch(0)
        with torch.autocast("cpu", torch.float16):
            output = model(x)
        (F.cross_entropy(output.float(), y) * 3e-7).backward()
    text = " ".join(str(seen).split())
    assert "gradients underflow to 0" in text
    assert "Gradients that were 0 before they could be counted are left out" in text


# ---- opening, closing, and what may not be disturbed -----------------------------------------


def test_a_closed_monitor_is_not_opened_again():
    seen = amp_lessons.monitor(made())
    seen.close()
    seen.close()
    with pytest.raises(MonitorError, match="is closed"), seen:
        pass


def test_clipping_functions_are_back_after_nested_monitors_close_in_any_order():
    clip = torch.nn.utils.clip_grad
    before = clip._clip_grads_with_norm_, clip.clip_grad_value_, torch.nn.utils.clip_grad_value_
    one, two = amp_lessons.monitor(made()), amp_lessons.monitor(made())
    assert clip._clip_grads_with_norm_ is not before[0]
    one.close()
    two.close()
    after = clip._clip_grads_with_norm_, clip.clip_grad_value_, torch.nn.utils.clip_grad_value_
    assert after == before


def test_a_model_and_a_scaler_are_copied_and_saved_while_they_are_watched():
    """As for a moving average or a checkpoint: the copies know nothing of the monitor."""
    model, scaler = made(), torch.amp.GradScaler("cpu", init_scale=8.0)
    held = io.BytesIO()
    with amp_lessons.monitor(model, scaler, every=1) as seen:
        scaler.scale(model(batch(0)[0]).sum()).backward()
        twin, other = copy.deepcopy((model, scaler))
        torch.save((model, scaler), held)
        assert b"amp_lessons" not in held.getvalue(), "the file loads where the course is missing"
        held.seek(0)
        read, read_scaler = torch.load(held, weights_only=False)
        for one in (twin, read):
            one(torch.full((1, 8), math.nan)).sum().backward()
        for one in (other, read_scaler):
            optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
            one.scale(optimizer.param_groups[0]["params"][0] * math.inf).sum().backward()
            one.step(optimizer)
            one.update()
            assert one.get_scale() == 4.0
    assert scaler.get_scale() == 8.0
    assert (seen.steps, seen.faults, seen._failure) == (0, [], None)


def test_a_compiled_training_step_is_left_alone_and_told():
    model = made()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = torch.compile(lambda x, y: F.cross_entropy(model(x), y), backend="eager")
    with amp_lessons.monitor(model) as seen:
        loss(*batch(0)).backward()
        optimizer.step()
    assert seen._failure is None
    assert [note for note in seen.notes if "compile the model alone" in note]


def test_an_interrupt_in_the_second_run_leaves_nothing_behind():
    class Impatient(nn.Module):
        calls = 0

        def forward(self, h: Tensor) -> Tensor:
            self.calls += 1
            Impatient.calls += 1
            if Impatient.calls == 2:
                raise KeyboardInterrupt
            return h / 0

    model = made(Impatient())
    random = torch.get_rng_state()
    x, _ = batch(0)
    with pytest.raises(KeyboardInterrupt), amp_lessons.monitor(model) as seen:
        model(x).sum().backward()
    assert Impatient.calls == 2, "the monitor ran the call once more"
    assert vars(model[1])["calls"] == 1
    assert seen.closed
    assert torch.equal(torch.get_rng_state(), random)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


# ---- two processes ---------------------------------------------------------------------------


class Talking(nn.Module):
    """Averages over the processes inside `forward()`, as SyncBatchNorm does."""

    def forward(self, h: Tensor) -> Tensor:
        torch.distributed.all_reduce(h.detach().mean(0))
        return h


class Breaking(nn.Module):
    bad = False

    def forward(self, h: Tensor) -> Tensor:
        return torch.log(h * 0) if self.bad else h  # the log of 0


def _train(rank: int, folder: str) -> None:
    """One of two processes. Only in the first one a number breaks."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2
    )
    found = {}
    for kind in ("ddp", "fsdp", "talking"):
        breaking = Breaking()
        model: nn.Module = made(breaking, *([Talking()] if kind == "talking" else []))
        if kind == "fsdp":
            torch.distributed.fsdp.fully_shard(model)
        else:
            model = nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        with amp_lessons.monitor(model) as seen:
            for number in range(STEPS):
                breaking.bad = rank == 0 and number == STRIKES
                x, y = batch(number + 10 * rank)
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
        assert seen._failure is None, seen._failure
        fault = seen.faults[0]
        found[kind] = [fault.step, fault.op, fault.place.code, fault.detail, len(seen.samples)]
    Path(folder, f"{rank}.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


@pytest.mark.long
def test_two_processes_that_train_one_model(tmp_path: Path):
    """DDP, FSDP, and a model that talks to the others: nobody waits, and each tells what it can."""
    command = [sys.executable, __file__, str(tmp_path)]
    both = [subprocess.Popen([*command, str(rank)]) for rank in (0, 1)]
    assert [process.wait() for process in both] == [0, 0]
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1))
    assert {kind: message[0] for kind, message in (first | second).items()} == dict.fromkeys(
        first, 2
    )
    assert first["ddp"][1] == "log"
    assert "# the log of 0" in first["ddp"][2]
    assert "look at the other processes" in second["ddp"][3]
    assert "sharded" in first["fsdp"][3]
    assert "talks to other processes" in first["talking"][3]
    assert all(message[4] == 1 for message in first.values())


if __name__ == "__main__":
    _train(int(sys.argv[2]), sys.argv[1])
