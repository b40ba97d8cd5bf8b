"""The monitor names what breaks in real training loops, keeps still in healthy ones, and leaves
nothing behind."""

from __future__ import annotations

import gc
import json
import math
import sys
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from monitor_faults import FAULTS, HEALTHY, STRIKES, Case, made, train
from torch import Tensor, nn
from torch.optim.optimizer import _global_optimizer_post_hooks
from torch.utils.checkpoint import checkpoint

import amp_lessons
from amp_lessons.amp.monitor import MonitorError, chart, counting, taps
from amp_lessons.amp.monitor.counting import (
    Edges,
    Tally,
    fates_by_scale,
    largest_safe_scale,
    smallest_saving_scale,
)
from amp_lessons.amp.monitor.places import CodeLine
from amp_lessons.amp.numbers.formats import BF16, FP8_E4M3, FP8_E5M2, FP16, FP32, Format
from amp_lessons.amp.scaling.loss_scale import exponent_histogram, fate, fates
from amp_lessons.amp.scaling.scaler_log import ScalerLog


def watch(model: nn.Module, scaler: Any = None, **options: Any) -> Any:
    return amp_lessons.monitor(model, scaler, **options)


def sound(seen: Any) -> Any:
    """The monitor itself didn't fail."""
    assert seen._failure is None, seen._failure
    return seen


# ---- faults and healthy runs -----------------------------------------------------------------


@pytest.mark.parametrize("case", FAULTS, ids=lambda case: case.name)
def test_a_fault_is_named_with_its_op_and_line(case: Case):
    seen = sound(train(case, made(case), watch))
    fault = seen.faults[0]
    assert fault.op in case.ops
    assert "# fault" in fault.place.code or (fault.op, fault.phase) == ("input 0", "input")
    assert fault.place.file.endswith("monitor_faults.py")
    if case.lr < 1 and fault.kind != "underflow":
        assert fault.step == STRIKES, "a step that isn't sampled"
    assert len(seen.alarms) == len(seen.faults) == 1, "the steps after it are not news"
    look_up = f"amp-lessons lookup {seen.alarms[0].entry_id}"
    assert look_up in seen.summary()
    assert look_up in seen._repr_html_()


def test_a_bad_batch_is_traced_to_the_call_of_the_model():
    case = next(case for case in FAULTS if case.name == "NaN in the batch")
    assert "# the call" in train(case, made(case), watch).faults[0].place.code


@pytest.mark.parametrize("run", HEALTHY, ids=lambda run: run.__name__)
def test_a_healthy_run_raises_no_alarm(run: Callable[..., Any]):
    seen = sound(run(lambda model, scaler: watch(model, scaler, every=10)))
    assert seen.alarms == []
    assert seen.steps >= 8
    assert seen.samples
    assert "Nothing to fix was seen" in " ".join(str(seen).split())


def test_skips_at_the_start_are_told_with_their_cause():
    seen = HEALTHY[0](lambda model, scaler: watch(model, scaler))
    assert [skip.step for skip in seen.skips][:5] == list(range(5))
    assert seen.scales[:6] == [2.0 ** (24 - n) for n in range(6)]
    first = seen.skips[0]
    assert first.broken == 6
    assert first.parameters[0] == "0.weight"
    assert (first.cause.phase, first.cause.op) == ("backward", "_to_copy")
    assert "F.cross_entropy(model(x), y)" in first.cause.place.code


def test_a_scaler_that_cannot_settle_is_an_alarm():
    torch.manual_seed(0)
    model, scaler = nn.Linear(4, 4), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, ScalerLog(scaler)) as seen:
        for _ in range(12):
            optimizer.zero_grad()
            loss = torch.sqrt(model(torch.randn(2, 4)) * 0).sum()  # sqrt at 0
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    assert len(seen.skips) == 12
    assert any("doesn't settle" in alarm.title for alarm in seen.alarms)
    assert all(skip.cause is None or "# sqrt at 0" in skip.cause.place.code for skip in seen.skips)


def test_gradients_that_nobody_clears_are_told_apart():
    model = nn.Linear(4, 4)
    scaler = torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, scaler) as seen:
        for step in range(4):
            loss = model(torch.randn(2, 4)).sum() * (math.inf if step == 0 else 1.0)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    assert seen.skips[1].cause.phase == "gradient"


class Slope(torch.autograd.Function):
    """An absolute value whose slope at 0 is 0 / 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.abs()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * x / x.abs()  # 0 / 0


class Sloped(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Slope.apply(x)


def steps_of(model: nn.Module, loss: Callable[[int], Tensor], scaler: Any = None) -> Any:
    """Five steps of plain SGD under a monitor. ``loss`` is given the number of the step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with watch(model, scaler) as seen:
        for step in range(5):
            optimizer.zero_grad()
            if scaler is None:
                loss(step).backward()
                optimizer.step()
            else:
                scaler.scale(loss(step)).backward()
                scaler.step(optimizer)
                scaler.update()
    return sound(seen)


def test_a_fault_in_the_backward_of_a_custom_function_is_at_its_own_line():
    model = nn.Sequential(nn.Linear(4, 4, bias=False), Sloped())
    x = torch.randn(2, 4)
    fault = steps_of(model, lambda step: model(x * (step != STRIKES)).sum()).faults[0]
    assert (fault.op, fault.phase, fault.module) == ("div", "backward", "1")
    assert "# 0 / 0" in fault.place.code


def test_a_fault_between_layers_of_pytorch_is_at_the_call_of_the_model():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    with torch.no_grad():
        model[0].weight.fill_(1e4)

    def loss(step: int) -> Tensor:
        out = model(torch.full((2, 4), 1e36 if step == STRIKES else 1.0))  # the call of the layers
        return out.sum()

    fault = steps_of(model, loss).faults[0]
    assert (fault.op, fault.module) == ("addmm", "0")
    assert "# the call of the layers" in fault.place.code


def test_a_loss_that_is_nan_with_finite_gradients_is_a_fault_with_a_scaler_too():
    model = nn.Linear(4, 4)

    def loss(step: int) -> Tensor:
        y = torch.full((2,), -100 if step == STRIKES else 1)
        return F.cross_entropy(model(torch.ones(2, 4)), y)  # every label is ignored

    seen = steps_of(model, loss, torch.amp.GradScaler("cpu", init_scale=2.0))
    assert seen.skips == []
    assert [(f.step, f.kind, f.phase) for f in seen.faults] == [(STRIKES, "nan", "loss")]
    assert "# every label is ignored" in seen.faults[0].place.code
    assert seen.alarms[0].entry_id == "all-targets-ignored"


def test_a_loss_that_only_its_scale_makes_inf_is_no_fault():
    model = nn.Linear(1, 1)
    with torch.no_grad():
        model.weight.fill_(8.0)
    losses: list[Tensor] = []

    def loss(step: int) -> Tensor:
        losses.append(model(torch.ones(1, 1)).half().reshape(1) * 1.0)
        return losses[-1]

    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**15)
    seen = steps_of(model, loss, scaler)
    assert torch.isinf(scaler.scale(losses[0])).all()
    assert (seen.skips, seen.alarms) == ([], [])


def test_a_parameter_that_came_broken_is_not_blamed_on_the_optimizer():
    model = nn.Sequential(nn.Embedding(4, 2), nn.Linear(2, 2))
    with torch.no_grad():
        model[0].weight[3] = math.nan
    seen = steps_of(model, lambda step: model(torch.tensor([3 if step == STRIKES else 0])).sum())
    assert seen.faults[0].op == "parameter 0.weight"
    assert seen.alarms[0].entry_id == "nan-in-weights"
    assert seen.faults[0].step == STRIKES, "no step before it needs the broken row"


def test_the_second_optimizer_has_a_sample_in_the_first_round():
    model = nn.ModuleDict({"one": nn.Linear(2, 2), "two": nn.Linear(2, 2)})
    optimizers = [torch.optim.SGD(part.parameters(), lr=0.1) for part in model.values()]
    with watch(model) as seen:
        for _ in range(3):
            for part, optimizer in zip(model.values(), optimizers, strict=True):
                optimizer.zero_grad()
                part(torch.ones(1, 2)).sum().backward()
                optimizer.step()
    assert sound(seen).modules["two"].weights.numbers


def test_a_line_in_a_notebook_is_told_by_its_cell(monkeypatch: pytest.MonkeyPatch):
    names = {"/tmp/105928223.py": ("Cell", "In[3]")}
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=names.get))
    fake = SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", fake)  # type: ignore[arg-type]
    assert str(CodeLine("/tmp/105928223.py", 14)) == "cell In[3], line 14"
    assert str(CodeLine("/home/me/train.py", 14)) == "train.py:14"


def test_a_broken_update_is_blamed_on_the_optimizer():
    model = nn.Linear(4, 4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1, eps=0.0)
    with watch(model) as seen:
        for _ in range(3):
            optimizer.zero_grad()
            (model(torch.randn(2, 4)).sum() * 0).backward()
            optimizer.step()  # 0 / 0
    assert seen.faults[0].phase == "parameter"
    assert seen.faults[0].op == "Adam.step"
    assert "# 0 / 0" in seen.faults[0].place.code


def test_the_module_of_the_op_is_named():
    model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Softmax(-1)))
    with watch(model) as seen:
        loss = model(torch.full((1, 4), math.inf)).sum()
        loss.backward()
        seen.step()
    assert seen.faults[0].op == "input 0"
    model = nn.Sequential(nn.Linear(4, 4), nn.ModuleDict({"low": Low()})["low"])
    with watch(model) as seen:
        model(torch.full((1, 4), 1e9)).sum().backward()
        seen.step()
    assert (seen.faults[0].module, seen.faults[0].op) == ("1", "_to_copy")


class Low(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.half().float()


# ---- it changes nothing ----------------------------------------------------------------------


class Noisy(nn.Module):
    """Everything that a second run could disturb: dropout, running statistics, a counter."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(inplace=True), nn.Dropout(0.3)
        )
        self.head = nn.Linear(16, 4)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        h = self.layers(x)
        return self.head(torch.sqrt(h * 0 + (0.0 if x.mean() > 50 else 1.0)) * h)


def _train_noisy(watched: bool) -> tuple[dict[str, Tensor], Tensor, int, Any]:
    torch.manual_seed(0)
    model, scaler = Noisy(), torch.amp.GradScaler("cpu", init_scale=4.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    seen = watch(model, scaler, every=2) if watched else None
    for step in range(6):
        x = torch.randn(16, 8) + (100 if step == 3 else 0)
        optimizer.zero_grad()
        scaler.scale(F.cross_entropy(model(x), torch.zeros(16, dtype=torch.long))).backward()
        scaler.step(optimizer)
        scaler.update()
    if seen is not None:
        seen.close()
    return model.state_dict(), torch.rand(4), model.calls, seen


def test_a_watched_run_is_the_same_to_the_last_bit():
    plain, random, calls, _ = _train_noisy(watched=False)
    watched, also_random, also_calls, seen = _train_noisy(watched=True)
    assert sound(seen).faults[0].step == 3, "a step was run once more"
    assert seen.faults[0].op == "sqrt"
    assert all(torch.equal(plain[name], watched[name]) for name in plain)
    assert torch.equal(random, also_random)
    assert calls == also_calls == 6


def _hooks(model: nn.Module) -> int:
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    flags = ("_forward_hooks_always_called", "_forward_pre_hooks_with_kwargs")
    return sum(len(vars(part)[name]) for part in model.modules() for name in kinds + flags)


@pytest.mark.parametrize("breaks", [False, True])
def test_nothing_is_left_behind(breaks: bool):
    original, stack = torch.autograd.backward, torch._C._len_torch_dispatch_stack()
    registered = len(_global_optimizer_post_hooks)
    model, scaler = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.amp.GradScaler("cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(2, 4)
    seen = watch(model, scaler, every=1)
    assert torch.autograd.backward is not original
    try:
        with seen:
            for _ in range(2):
                scaler.scale(model(x).sum()).backward()
                scaler.step(optimizer)
                scaler.update()
            loss = model(x).sum()
            if breaks:
                raise KeyError("in the loop")
    except KeyError:
        assert breaks
    assert seen.closed
    assert torch.autograd.backward is original
    assert torch._C._len_torch_dispatch_stack() == stack
    assert len(_global_optimizer_post_hooks) == registered
    assert "update" not in vars(scaler)
    assert _hooks(model) == 0
    assert not taps._listeners
    assert not taps.ScalerTap._taps
    steps = seen.steps
    loss.backward()  # the graph made under the monitor still works
    assert seen.steps == steps == 2
    gone = weakref.ref(x)
    del x, loss
    gc.collect()
    assert gone() is None, "the monitor keeps no input"


def test_an_exception_in_the_model_does_not_confuse_it():
    class Sometimes(nn.Linear):
        broken = False

        def forward(self, x: Tensor) -> Tensor:
            if self.broken:
                raise ValueError("this batch")
            return super().forward(x)

    model = nn.Sequential(nn.Linear(4, 4), Sometimes(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, every=1) as seen:
        for step in range(4):
            model[1].broken = step == 1
            try:
                model(torch.randn(2, 4)).sum().backward()
            except ValueError:
                continue
            optimizer.step()
    assert sound(seen).steps == 3
    assert len(seen.samples) == 3


# ---- loops of many kinds ---------------------------------------------------------------------


@dataclass
class Answer:
    logits: Tensor
    extra: dict[str, Any]


class Nested(nn.Module):
    def __init__(self, shape: str) -> None:
        super().__init__()
        self.shape, self.layer = shape, nn.Linear(4, 4)

    def forward(self, *, batch: dict[str, Tensor]) -> Any:
        out = torch.log(self.layer(batch["x"]) * batch["factor"])  # log
        shapes = {"tuple": (None, (out,)), "dict": {"logits": out}, "dataclass": Answer(out, {})}
        return shapes[self.shape]


@pytest.mark.parametrize("shape", ["tuple", "dict", "dataclass"])
def test_inputs_and_outputs_may_be_nested(shape: str):
    torch.manual_seed(0)
    model = Nested(shape)
    with watch(model) as seen:
        for factor in (1.0, 0.0):
            out = model(batch={"x": torch.rand(2, 4), "factor": torch.tensor(factor)})
            found = out[1][0] if shape == "tuple" else out["logits"] if shape == "dict" else out
            found = found.logits if shape == "dataclass" else found
            loss = found.nan_to_num(nan=0.0, neginf=-math.inf).sum()
            loss.backward()
            seen.step()
    assert sound(seen).faults
    assert "# log" in seen.faults[-1].place.code


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_is_followed_and_counted_once(reentrant: bool):
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            h = checkpoint(self.part, self.first(x), use_reentrant=reentrant)
            return h.sum(-1)

        def part(self, h: Tensor) -> Tensor:
            return torch.sqrt(self.second(h).square() * self.factor)  # root

        factor = 1.0

    model = Checkpointed()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with watch(model, every=1) as seen:
        for step in range(2):
            model.factor = 0.0 if step else 1.0
            optimizer.zero_grad()
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
    assert sound(seen).faults[0].op == "sqrt"
    assert "# root" in seen.faults[0].place.code
    assert seen.modules["second"].activations.samples == 2
    assert seen.modules["second"].gradients.samples == 2


def test_frozen_shared_and_unused_modules():
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = self.b = nn.Linear(4, 4)
            self.frozen = nn.Linear(4, 4).requires_grad_(False)
            self.unused = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.a(self.frozen(x)))

    model = Shared()
    optimizer = torch.optim.SGD(model.a.parameters(), lr=0.1)
    with watch(model) as seen:
        model(torch.randn(2, 4)).sum().backward()
        optimizer.step()
    assert set(sound(seen).modules) == {"a", "frozen"}
    assert seen.modules["a"].activations.samples == 2
    assert seen.modules["frozen"].weights.samples == 0


def test_sparse_gradients_and_in_place_ops():
    model = nn.Sequential(nn.Embedding(10, 4, sparse=True), nn.ReLU(inplace=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model) as seen:
        for factor in (1.0, math.nan):
            optimizer.zero_grad()
            (model(torch.tensor([[1, 2, 2]])) * factor).sum().backward()
            optimizer.step()
    assert sound(seen).modules["0"].weights.numbers
    assert seen.faults[0].parameters == ("0.weight",)


def test_a_model_whose_parts_are_called_one_by_one():
    model = nn.ModuleDict({"inner": nn.Linear(4, 4), "outer": nn.Linear(4, 4)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model) as seen:
        for step in range(3):
            optimizer.zero_grad()
            h = model["inner"](torch.full((1, 4), 1e38 if step == 2 else 1.0))
            model["outer"](h * 1e4).sum().backward()  # too large
            optimizer.step()
    assert sound(seen).steps == 3
    assert seen.faults[0].step == 2
    assert set(seen.modules) == {"inner", "outer"}


def test_a_pass_without_gradients_does_not_count_while_training():
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, every=1) as seen:
        model(torch.randn(2, 4)).sum().backward()
        with torch.no_grad():
            model(torch.full((2, 4), math.nan))
        optimizer.step()
    assert seen.faults == []
    assert seen.modules[""].activations.samples == 1


def test_inference_is_watched_if_nothing_trains():
    model = nn.Sequential(nn.Linear(4, 4)).eval()
    with watch(model) as seen, torch.no_grad():
        for value in (1.0, 2.0, math.inf):
            model(torch.full((2, 4), value))
            seen.step()
    assert sound(seen).steps == 3
    assert (seen.faults[0].step, seen.faults[0].phase) == (2, "input")


def test_a_fault_in_an_earlier_part_of_an_accumulated_step():
    model, scaler = nn.Linear(4, 4), torch.amp.GradScaler("cpu", init_scale=2.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, scaler) as seen:
        for part in range(3):
            x = torch.ones(2, 4) * (math.inf if part == 1 else 1.0)
            scaler.scale(model(x).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    assert sound(seen).steps == 1
    assert seen.faults[0].phase == "input"


def test_a_closure_runs_forward_and_backward_inside_the_step():
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    x = torch.randn(8, 4)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    with watch(model) as seen:
        for _ in range(3):
            optimizer.step(closure)
    assert sound(seen).steps == 3
    assert seen.alarms == []


def test_explicit_steps_take_over():
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model) as seen:
        for _ in range(3):
            for _ in range(2):  # two updates to one step of ours
                model(torch.randn(2, 4)).sum().backward()
                optimizer.step()
            seen.step()
    assert seen.steps == 3


@pytest.mark.long
def test_a_compiled_model_is_watched_from_outside():
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    compiled: Any = torch.compile(model, backend="eager")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(compiled) as seen:
        for step in range(2):
            compiled(torch.full((2, 4), math.nan if step else 1.0)).sum().backward()
            optimizer.step()
    assert seen.faults[0].phase == "input"
    assert "torch.compile hides" in seen.notes[0]


# ---- what it refuses -------------------------------------------------------------------------


def test_two_monitors_on_one_model_are_refused():
    model = nn.Sequential(nn.Linear(4, 4))
    with watch(model), pytest.raises(MonitorError, match="already watches"):
        watch(model[0])
    watch(model).close()


def test_monitors_on_two_models_share_the_taps():
    original = torch.autograd.backward
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    scaler = torch.amp.GradScaler("cpu")
    one, two = watch(first, scaler), watch(second, scaler)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    scaler.scale(second(first(torch.randn(2, 4))).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    one.close()
    two.close()
    assert (one.steps, two.steps) == (1, 1)
    assert torch.autograd.backward is original


@pytest.mark.parametrize(
    ("arguments", "options", "output"),
    [
        (("no model",), {}, "must be a torch.nn.Module, not str"),
        ((nn.Linear(1, 1), "no scaler"), {}, "must be a torch.amp.GradScaler or None, not str"),
        ((nn.Linear(1, 1),), {"every": 0}, "1 or more, not 0"),
        ((nn.Linear(1, 1),), {"every": 2.5}, "1 or more, not 2.5"),
        ((nn.Linear(1, 1),), {"reruns": -1}, "0 or more, not -1"),
        ((nn.Linear(1, 1),), {"format": "float12"}, "no format called 'float12'"),
        ((nn.DataParallel(nn.Linear(1, 1)),), {}, "DistributedDataParallel"),
    ],
)
def test_bad_input_is_one_clear_line(arguments: Any, options: Any, output: str):
    with pytest.raises(ValueError, match=output) as error:
        watch(*arguments, **options)
    assert "\n" not in str(error.value)
    assert not taps._listeners


# ---- counting --------------------------------------------------------------------------------


def test_a_sample_of_a_large_tensor_stands_for_all_of_it(monkeypatch: pytest.MonkeyPatch):
    generator = torch.Generator().manual_seed(0)
    tensor = torch.randn(1024, 128, generator=generator).relu() * 2.0**-20
    tensor[:, ::4] = 0.0  # whole columns
    edges, part, whole = Edges.of(FP16), Tally(), Tally()
    part.add(tensor, edges)
    monkeypatch.setattr(counting, "MOST", 1 << 40)
    whole.add(tensor, edges)
    assert (part.thinned, whole.thinned) == (1, 0)
    assert part.largest == whole.largest
    assert part.numbers == pytest.approx(whole.numbers, rel=1e-3)
    for name in ("zeros", "underflow", "subnormal"):
        share = whole.share(getattr(whole, name))
        assert part.share(getattr(part, name)) == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("broken", [7e4, math.inf, math.nan])
def test_one_overflow_in_a_large_tensor_is_never_missed(broken: float):
    tensor = torch.ones(1 << 18)
    tensor[12345] = broken
    tally = Tally()
    tally.add(tensor, Edges.of(FP16))
    assert tally.overflow + tally.infs + tally.nans == 1
    assert tally.thinned == 0


@pytest.mark.parametrize("format", [FP16, BF16, FP32, FP8_E4M3, FP8_E5M2], ids=lambda f: f.name)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_counts_are_those_of_the_format_itself(format: Format, dtype: torch.dtype):
    torch.manual_seed(0)
    values = torch.randn(4000) * torch.exp2(torch.randint(-30, 20, (4000,)))
    edges = [format.max, format.min_normal, format.min_subnormal]
    near = [e * f for e in edges for f in (0.25, 0.5, 0.75, 1 - 2**-11, 1, 1 + 2**-5, 1.04, 2)]
    top = [format.max + format.ulp(format.max) / 2]
    x = torch.cat([values, torch.tensor([*near, *top, 0.0, -0.0])]).to(dtype)
    tally = Tally()
    tally.add(x, Edges.of(format))
    true = fate(x, 1.0, format)
    assert (tally.underflow, tally.subnormal, tally.overflow) == (
        true.zero,
        true.subnormal,
        true.overflow,
    )
    finite = x[torch.isfinite(x)]
    assert tally.zeros == int((finite == 0).sum())
    assert tally.infs == int(torch.isinf(x).sum())
    assert tally.largest == float(finite.abs().max())
    normal = finite[finite.abs() >= 2.0**-126]
    true_histogram = exponent_histogram(normal)
    counted = tally.histogram
    above = {e: n for e, n in zip(counted.exponents, counted.counts, strict=True) if e >= -126}
    assert {e: n for e, n in above.items() if n} == {
        e: n for e, n in zip(true_histogram.exponents, true_histogram.counts, strict=True) if n
    }


def test_the_loss_scale_is_divided_out():
    gradients = torch.tensor([1e-9, 3e-6, 0.5, 0.0])
    plain, scaled = Tally(), Tally()
    plain.add(gradients, Edges.of(FP16))
    scaled.add(gradients * 1024, Edges.of(FP16), scale=1024.0)
    assert scaled.exponents == plain.exponents
    assert (scaled.underflow, scaled.subnormal) == (plain.underflow, plain.subnormal) == (1, 1)
    assert scaled.largest == 0.5


def test_what_a_scale_would_have_saved():
    torch.manual_seed(0)
    gradients = torch.randn(2000) * 1e-7
    tally = Tally()
    tally.add(gradients, Edges.of(FP16))
    output = fates_by_scale(tally, FP16)
    true = fates(gradients, [fate.scale for fate in output], FP16)
    assert [f.zero for f in output] == [f.zero for f in true]
    assert [f.subnormal for f in output] == pytest.approx([f.subnormal for f in true], abs=2)
    saving, safe = smallest_saving_scale(tally, FP16), largest_safe_scale(tally, FP16)
    assert saving is not None
    assert safe is not None
    assert fate(gradients, saving, FP16).zero == 0 < fate(gradients, saving / 2, FP16).zero
    assert fate(gradients, safe, FP16).overflow == 0 < fate(gradients, safe * 2, FP16).overflow


def test_nan_inf_integers_and_empty_tensors():
    tally, edges = Tally(), Edges.of(FP16)
    tally.add(torch.tensor([math.nan, math.inf, -math.inf, 2.0]), edges)
    tally.add(torch.tensor([1, 2]), edges)
    tally.add(torch.empty(0), edges)
    tally.add(torch.tensor([3 + 4j]), edges)
    assert (tally.nans, tally.infs, tally.nonzero, tally.largest) == (1, 2, 3, 4.0)


# ---- what it tells ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seen() -> Any:
    case = next(case for case in FAULTS if case.name == "log of zero")
    return train(case, made(case), lambda model: watch(model, every=2))


def test_the_summary_fits_in_80_columns(seen: Any):
    lines = str(seen).splitlines()
    assert max(map(len, lines)) <= 80
    assert "! Step 3: log made inf in the loss" in lines
    assert any("-torch.log(p)" in line for line in lines)
    assert any("notebooks/08_losses_and_ops.ipynb" in line for line in lines)
    assert "inner" in seen.summary(top=1) or "head" in seen.summary(top=1)


def test_json_is_plain_and_complete(seen: Any):
    output = json.loads(seen.to_json())
    assert output["steps"] == 6
    assert output["faults"][0]["op"] == "log"
    assert output["faults"][0]["place"]["file"].endswith("monitor_faults.py")
    assert {part["path"] for part in output["modules"]} == {"inner", "head"}
    inner = output["modules"][0]["activations"]
    assert sum(inner["counts"]) + inner["zeros"] + inner["infs"] + inner["nans"] == inner["numbers"]
    assert [sample["step"] for sample in output["samples"]] == [0, 2, 4]


def test_the_notebook_shows_a_chart_with_alt_text(seen: Any):
    shown = seen._repr_html_()
    assert 'alt="Monitor of Base after 6 steps.' in shown
    assert "log made inf in the loss" in shown
    assert "08_losses_and_ops" in shown
    assert "<script" not in shown


def test_the_live_chart_is_redrawn_after_steps(monkeypatch: pytest.MonkeyPatch):
    drawn: list[str] = []

    class Handle:
        def update(self, picture: Any) -> None:
            drawn.append(picture.alt)

    class Shell:
        kernel = object()

    def display(picture: Any, display_id: bool) -> Handle:
        drawn.append(picture.alt)
        return Handle()

    monkeypatch.setattr("IPython.core.getipython.get_ipython", Shell)
    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(chart, "picture", lambda seen: SimpleNamespace(alt=chart.in_words(seen)))
    model = nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watch(model, every=1) as seen:
        seen.live(seconds=0.0)
        for _ in range(2):
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
    assert [f"after {n}" for n in range(3) if any(f"after {n} steps" in alt for alt in drawn)] == [
        "after 0",
        "after 1",
        "after 2",
    ]
    count = len(drawn)
    with watch(model) as slow:
        slow.live(seconds=1e9)
        for _ in range(5):
            model(torch.randn(2, 4)).sum().backward()
            optimizer.step()
    assert len(drawn) == count + 2, "once at the start, once at the end"


def test_without_a_notebook_the_live_chart_keeps_still(capsys: pytest.CaptureFixture[str]):
    with watch(nn.Linear(4, 4)) as seen:
        seen.live()
    assert capsys.readouterr().out == ""
