"""scaler.py: the simulator is torch's GradScaler to the bit, and the log changes nothing."""

from __future__ import annotations

import copy
import io
import math
import pickle

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from amp_lessons.amp.scaling import scaler_log as module
from amp_lessons.amp.scaling.scaler_log import (
    ScalerLog,
    ScalerRecord,
    simulate_records,
    simulate_scaler,
    torch_records,
)

pytestmark = pytest.mark.filterwarnings("error")

LARGEST = torch.finfo(torch.float32).max


def make_training(scaler, *, values=(0.5,), lr=0.1):
    """Parameters, one optimizer each, and a step whose gradients are given."""
    parameters = [torch.nn.Parameter(torch.tensor(v)) for v in values]
    optimizers = [torch.optim.SGD([p], lr=lr) for p in parameters]

    def step(*gradients, update=True):
        for parameter, optimizer, gradient in zip(parameters, optimizers, gradients, strict=True):
            optimizer.zero_grad()
            scaler.scale(parameter * gradient).backward()
            scaler.step(optimizer)
        if update:
            scaler.update()

    return parameters, optimizers, step


# ---- the simulator ---------------------------------------------------------------------------


def test_the_trace_of_two_overflows():
    overflows = [i in (5, 6) for i in range(12)]
    want = [4.0, 8.0, 8.0, 16.0, 16.0, 8.0, 4.0, 4.0, 8.0, 8.0, 16.0, 16.0]
    assert simulate_scaler(overflows, init_scale=4.0, growth_interval=2) == want
    real = torch_records(overflows, init_scale=4.0, growth_interval=2)
    assert [record.scale for record in real] == want


patterns = st.one_of(
    st.lists(st.booleans(), max_size=60),
    st.lists(st.sampled_from([False] * 7 + [True]), max_size=60),
    st.lists(st.sampled_from([True] * 7 + [False]), max_size=60),
)
scales = st.one_of(
    st.integers(-149, 127).map(lambda e: math.ldexp(1.0, e)),
    st.floats(min_value=1e-46, max_value=LARGEST, exclude_min=True),
    st.sampled_from([math.inf, LARGEST, 2.0**127, 2.0**-149, 3, 1]),
)
growths = st.one_of(
    st.sampled_from([2.0, 2, 4.0, 1.5, math.inf]),
    st.floats(min_value=1.0, exclude_min=True, allow_nan=False),
)
backoffs = st.one_of(
    st.sampled_from([0.5, 0.25, 0.9, 2.0**-100]),
    st.floats(min_value=0.0, max_value=1.0, exclude_min=True, exclude_max=True),
)


@settings(max_examples=3000)
@given(patterns, scales, growths, backoffs, st.integers(1, 9))
@example([True] * 166, 2.0**16, 2.0, 0.5, 2000)
@example([False] * 130, 1.0, 2.0, 0.5, 1)
@example([False] * 3 + [True] + [False] * 3, LARGEST, 1.0000001, 0.99, 1)
@example([True, False] * 9, 1e38, 1 + 2.0**-23, math.nextafter(1.0, 0.0), 1)
@example([True] * 4 + [False] * 4, 3 * 2.0**-149, 1.5, 0.5, 1)
@example([True, False, False], math.inf, 1 + 2.0**-52, 5e-324, 2**31)
def test_the_simulator_is_torch(found_inf, init_scale, growth, backoff, interval):
    """Every pattern, every setting that torch can work with: scale and clean steps, to the bit."""
    chosen = (init_scale, growth, backoff, interval)
    assert simulate_records(found_inf, *chosen) == torch_records(found_inf, *chosen)


@pytest.mark.parametrize("trace", [simulate_records, torch_records])
def test_the_scale_sinks_to_zero_and_stays_there(trace):
    scales = [record.scale for record in trace([True] * 167 + [False] * 3, growth_interval=1)]
    assert scales[15:17] == [1.0, 0.5]
    assert scales[164:] == [2.0**-149, 0.0, 0.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("trace", [simulate_records, torch_records])
def test_growth_stops_below_infinity_and_counting_starts_again(trace):
    records = trace([False] * 5, init_scale=2.0**126, growth_interval=2)
    assert [record.scale for record in records] == [2.0**126] + [2.0**127] * 4
    assert [record.clean_steps for record in records] == [1, 0, 1, 0, 1]


@pytest.mark.parametrize("trace", [simulate_records, torch_records])
def test_the_scale_is_a_float32(trace):
    [record] = trace([True], init_scale=1.0, backoff_factor=0.1)
    assert record.scale == torch.tensor(0.1, dtype=torch.float32).item() != 0.1


def test_defaults_are_those_of_torch():
    overflows = [i == 2003 for i in range(4100)]
    real = torch.amp.GradScaler("cpu")
    assert real.get_scale() == simulate_scaler([False])[0]
    want = [record.scale for record in torch_records(overflows)]
    assert simulate_scaler(overflows) == want
    assert sorted(set(want)) == [2.0**16, 2.0**17]
    assert real.state_dict() | {"_growth_tracker": 1} == {
        "scale": 2.0**16,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2000,
        "_growth_tracker": 1,
    }


def test_any_iterable_of_truth_values_will_do():
    assert simulate_scaler(iter([0, 1, torch.tensor(True)])) == [2.0**16, 2.0**15, 2.0**14]
    assert simulate_scaler([]) == torch_records([]) == []


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"growth_interval": 0}, "growth_interval must be 1 or more, got 0"),
        ({"growth_interval": -3}, "growth_interval must be 1 or more, got -3"),
        ({"growth_factor": 1.0}, "growth_factor must be greater than 1, got 1.0"),
        ({"growth_factor": -2.0}, "growth_factor must be greater than 1"),
        ({"growth_factor": math.nan}, "growth_factor must be greater than 1"),
        ({"backoff_factor": 1.0}, "backoff_factor must be between 0 and 1, got 1.0"),
        ({"backoff_factor": 0.0}, "backoff_factor must be between 0 and 1, got 0.0"),
        ({"backoff_factor": -0.5}, "backoff_factor must be between 0 and 1"),
        ({"backoff_factor": math.nan}, "backoff_factor must be between 0 and 1"),
        ({"init_scale": 0.0}, "init_scale must be a positive float32, got 0.0"),
        ({"init_scale": -1.0}, "init_scale must be a positive float32"),
        ({"init_scale": math.nan}, "init_scale must be a positive float32"),
        ({"init_scale": 1e39}, "init_scale must be a positive float32"),
    ],
)
@pytest.mark.parametrize("trace", [simulate_scaler, torch_records])
def test_settings_that_cannot_work_are_refused(trace, setting, complaint):
    with pytest.raises(ValueError, match=complaint):
        trace([False, True], **setting)


@pytest.mark.parametrize(
    "setting",
    [
        {"growth_interval": 2.0},
        {"growth_interval": True},
        {"init_scale": "big"},
        {"growth_factor": None},
        {"backoff_factor": [0.5]},
    ],
)
def test_settings_of_the_wrong_type_are_refused(setting):
    with pytest.raises(TypeError, match=f"{next(iter(setting))} must be"):
        simulate_scaler([False], **setting)


@given(st.floats(), st.floats(), st.floats(), st.integers(-3, 3))
def test_whatever_torch_refuses_is_refused(init_scale, growth, backoff, interval):
    chosen = (init_scale, growth, backoff, interval)
    try:
        simulated = simulate_records([True, False], *chosen)
    except ValueError:
        return
    scaler = torch.amp.GradScaler("cpu", *chosen)  # torch must not refuse it
    scaler.scale(torch.ones(()))
    assert len(simulated) == 2


def test_at_scale_zero_torch_destroys_the_parameters():
    """0 is a finite gradient, so the step is taken; unscaled it is 0 times inf: NaN."""
    log = ScalerLog(torch.amp.GradScaler("cpu", 2.0**-149))
    [parameter], _, step = make_training(log)
    step(math.inf)
    assert (log.get_scale(), parameter.item()) == (0.0, 0.5)
    step(1.0)
    assert log.skipped_steps == [0]
    assert math.isnan(parameter.item())


# ---- the log ---------------------------------------------------------------------------------


@pytest.mark.parametrize("enabled", [True, False])
def test_the_log_changes_nothing(enabled):
    """The same parameters, scales and states with the log and without, overflows included."""
    gradients = [1.0, -3.0, math.inf, 0.5, math.nan, 2.0, 1.0, 1.0, -math.inf]
    found = []
    for wrap in (ScalerLog, lambda scaler: scaler):
        scaler = wrap(torch.amp.GradScaler("cpu", 8.0, growth_interval=2, enabled=enabled))
        [parameter], _, step = make_training(scaler)
        seen = []
        for gradient in gradients:
            step(gradient)
            seen.append((repr(parameter.item()), scaler.get_scale(), scaler.state_dict()))
        found.append(seen)
    assert found[0] == found[1]


def test_records_tell_what_happened():
    log = ScalerLog(torch.amp.GradScaler("cpu", 8.0, growth_interval=2))
    [parameter], _, step = make_training(log)
    before = parameter.item()
    moved = []
    for gradient in (1.0, 2.0, math.inf, 0.5, math.nan):
        step(gradient)
        moved.append(parameter.item() != before)
        before = parameter.item()
    assert log.records == [
        ScalerRecord(0, 8.0, False, False, 1, used=8.0),
        ScalerRecord(1, 16.0, False, False, 0, used=8.0),
        ScalerRecord(2, 8.0, True, True, 0, used=16.0),
        ScalerRecord(3, 8.0, False, False, 1, used=8.0),
        ScalerRecord(4, 4.0, True, True, 0, used=8.0),
    ]
    assert log.skipped_steps == [2, 4] == [i for i, m in enumerate(moved) if not m]


def test_a_disabled_scaler_is_logged_too():
    log = ScalerLog(torch.amp.GradScaler("cpu", enabled=False))
    [parameter], _, step = make_training(log)
    step(1.0)
    step(math.inf)
    assert parameter.item() == -math.inf  # nobody looked
    assert log.records == [ScalerRecord(i, 1.0, False, False, 0, used=1.0) for i in (0, 1)]
    assert log.skipped_steps == []
    assert not log.is_enabled()


def test_two_optimizers_one_of_which_overflows():
    log = ScalerLog(torch.amp.GradScaler("cpu", 8.0))
    parameters, _, step = make_training(log, values=(1.0, 2.0))
    step(math.inf, 1.0)
    assert log.records == [ScalerRecord(0, 4.0, True, True, 0, used=8.0)]
    assert [p.item() for p in parameters] == [1.0, pytest.approx(1.9)]


def test_found_inf_but_nobody_asked_for_a_step():
    log = ScalerLog(torch.amp.GradScaler("cpu", 8.0))
    (a, b), (first, second), _ = make_training(log, values=(1.0, 2.0))
    log.scale(a + b).backward()
    b.grad.fill_(math.inf)
    log.step(first)
    log.unscale_(second)  # looked at, but not stepped
    log.update()
    assert log.records == [ScalerRecord(0, 4.0, True, False, 0, used=8.0)]


def test_clipping_between_unscale_and_step():
    log = ScalerLog(torch.amp.GradScaler("cpu", 8.0))
    [p], [optimizer], _ = make_training(log)
    for gradient in (3.0, math.inf):
        optimizer.zero_grad()
        log.scale(p * gradient).backward()
        log.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_([p], 1.0)
        log.step(optimizer)
        log.update()
    assert [(r.found_inf, r.skipped) for r in log.records] == [(False, False), (True, True)]


def test_a_new_scale_by_hand_is_recorded():
    log = ScalerLog(torch.amp.GradScaler("cpu", 8.0))
    [p], [optimizer], _ = make_training(log)
    log.scale(p).backward()
    log.step(optimizer)
    log.update(32.0)
    log.update(torch.tensor(64.0))
    assert [r.scale for r in log.records] == [32.0, 64.0]
    assert [r.found_inf for r in log.records] == [False, False]


def test_a_fused_optimizer_that_skips_by_itself():
    log = ScalerLog(torch.amp.GradScaler("cpu", 8.0, growth_interval=2))
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([p], lr=0.1, fused=True)
    values = []
    for gradient in (1.0, math.inf, 1.0, 1.0):
        optimizer.zero_grad()
        log.scale((p * gradient).sum()).backward()
        log.step(optimizer)
        log.update()
        values.append(p[0].item())
    assert log.skipped_steps == [1]
    assert values[0] == values[1] != values[2]
    assert [r.scale for r in log.records] == [8.0, 4.0, 4.0, 8.0]


def test_errors_are_the_scalers_own_and_leave_no_record():
    log = ScalerLog(torch.amp.GradScaler("cpu"))
    [p], [optimizer], step = make_training(log)
    with pytest.raises(AssertionError, match="_scale is None"):
        log.step(optimizer)
    log.scale(p).backward()
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        log.update()
    log.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called"):
        log.unscale_(optimizer)
    log.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
        log.step(optimizer)
    assert log.records == []
    log.update()
    step(1.0)
    assert [r.step for r in log.records] == [0, 1]


def test_only_scalers_can_be_logged():
    with pytest.raises(TypeError, match=r"must be a torch\.amp\.GradScaler, got str"):
        ScalerLog("cpu")


def test_everything_else_is_the_scalers():
    real = torch.amp.GradScaler("cpu", 8.0, 4.0, 0.25, 7)
    log = ScalerLog(real)
    assert (log.get_scale(), log.get_growth_factor(), log.get_backoff_factor()) == (8.0, 4.0, 0.25)
    log.set_growth_interval(9)
    assert real.get_growth_interval() == 9
    assert log.state_dict() == real.state_dict()
    outputs = log.scale([torch.ones(2), (torch.ones(1),)])
    assert outputs[1][0].item() == 8.0
    log.load_state_dict(torch.amp.GradScaler("cpu", 2.0).state_dict())
    assert real.get_scale() == 2.0
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = log.no_such_thing
    public = [n for n in dir(torch.amp.GradScaler) if not n.startswith("_")]
    assert len(public) > 10
    assert all(hasattr(log, name) for name in public)


def test_a_log_can_be_copied_and_pickled():
    log = ScalerLog(torch.amp.GradScaler("cpu", 8.0))
    _, _, step = make_training(log)
    step(math.inf)
    for other in (copy.deepcopy(log), pickle.loads(pickle.dumps(log))):
        assert other.records == log.records
        assert other.get_scale() == 4.0
        assert other.scaler is not log.scaler


def test_the_step_returns_what_the_optimizer_returns():
    for wrap in (ScalerLog, lambda scaler: scaler):
        scaler = wrap(torch.amp.GradScaler("cpu"))
        [p], [optimizer], _ = make_training(scaler)
        scaler.scale(p).backward()
        assert scaler.step(optimizer, lambda: 3.5) == 3.5  # torch lets a positional closure pass


# ---- nothing is read from a device until it is asked for ---------------------------------------


class Reads(TorchDispatchMode):
    """Counts what waits for a device: reading a number out of a tensor."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.count += op is torch.ops.aten._local_scalar_dense.default
        return op(*args, **(kwargs or {}))


@pytest.fixture
def as_on_a_device(monkeypatch):
    """Treat the CPU's numbers as if they lay on another device."""
    monkeypatch.setattr(module, "_on_cpu", lambda tensor: False)


@pytest.mark.usefixtures("as_on_a_device")
def test_a_step_reads_no_more_than_without_the_log():
    counts = []
    for wrap in (ScalerLog, lambda scaler: scaler):
        scaler = wrap(torch.amp.GradScaler("cpu", 8.0, growth_interval=2))
        _, _, step = make_training(scaler, values=(1.0, 2.0))
        with Reads() as reads:
            for gradient in (1.0, math.inf, 1.0):
                step(gradient, 1.0)
        counts.append(reads.count)
    assert counts[0] == counts[1] > 0


@pytest.mark.usefixtures("as_on_a_device")
@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 600])
def test_unread_numbers_are_packed_and_give_the_same_records(count):
    overflows = [i % 7 == 3 for i in range(count)]
    chosen = (8.0, 2.0, 0.5, 3)
    assert torch_records(overflows, *chosen) == simulate_records(overflows, *chosen)


@pytest.mark.usefixtures("as_on_a_device")
def test_memory_on_a_device_stays_small():
    log = ScalerLog(torch.amp.GradScaler("cpu"))
    _, _, step = make_training(log)
    for _ in range(2 * module.PACK_AFTER + 1):
        step(1.0)
    assert len(log._unread) == 1
    assert [len(column) for block in log._packed for column in block] == [module.PACK_AFTER] * 10
    log.records  # noqa: B018
    assert len(log.records) == 2 * module.PACK_AFTER + 1


@pytest.mark.usefixtures("as_on_a_device")
def test_what_update_changes_later_was_copied_before():
    """update() adds up the checks in place and changes the scale: the records keep their own."""
    log = ScalerLog(torch.amp.GradScaler("cpu", 8.0))
    (a, b), (first, second), step = make_training(log, values=(1.0, 2.0))
    log.scale(a + b).backward()
    b.grad.fill_(math.inf)
    log.step(first)
    log.unscale_(second)
    log.update()
    step(1.0, 1.0)
    step(math.inf, math.inf)
    assert [(r.scale, r.found_inf, r.skipped) for r in log.records] == [
        (4.0, True, False),
        (4.0, False, False),
        (2.0, True, True),
    ]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_on_cuda():
    log = ScalerLog(torch.amp.GradScaler("cuda", 8.0, growth_interval=2))
    p = torch.nn.Parameter(torch.ones((), device="cuda"))
    optimizer = torch.optim.SGD([p], lr=0.1)
    for gradient in (1.0, 1.0, math.inf, 1.0):
        optimizer.zero_grad()
        log.scale(p * gradient).backward()
        log.step(optimizer)
        log.update()
    assert [r.scale for r in log.records] == simulate_scaler(
        [False, False, True, False], init_scale=8.0, growth_interval=2
    )
    assert log.skipped_steps == [2]


def test_a_saved_scaler_goes_on_where_it_stood():
    """state_dict() through torch.save, as a checkpoint does it."""
    chosen = {"init_scale": 8.0, "growth_interval": 3}
    overflows = [False, False, True, False, False, False, False, True, False]
    want = [r.scale for r in torch_records(overflows, **chosen)]
    log = ScalerLog(torch.amp.GradScaler("cpu", **chosen))
    _, _, step = make_training(log)
    scales = []
    for overflow in overflows:
        step(math.inf if overflow else 1.0)
        scales.append(log.get_scale())
        stream = io.BytesIO()
        torch.save(log.state_dict(), stream)
        stream.seek(0)
        log = ScalerLog(torch.amp.GradScaler("cpu"))
        log.load_state_dict(torch.load(stream, weights_only=True))
        _, _, step = make_training(log)
    assert scales == want
