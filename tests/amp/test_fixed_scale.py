"""Training with a fixed loss scale: the loop itself, and the record that `LossScaleLab` draws."""

from __future__ import annotations

import gzip
import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import record_loss_scale
import torch
from torch.nn.functional import mse_loss

from amp_lessons.amp.training.fixed_scale import DIGITS, EXPONENTS, SHOWN, SetUp, one_thread, train
from amp_lessons.lessons.widgets import loss_scale_runs as runs

SHORT = replace(DIGITS, steps=6, snapshots=(0, 3, 6))


@pytest.fixture(autouse=True)
def _on_one_thread() -> Iterator[None]:
    with one_thread():
        yield


# ---- the loop ----------------------------------------------------------------------------------


def plain_loop(setup: SetUp, scale: float, fp16: bool) -> list[float]:
    """Lesson 00's loop, with the loss scaled by hand."""
    model, pictures = setup.model(), setup.inputs()
    optimizer = torch.optim.SGD(model.parameters(), lr=setup.learning_rate, momentum=0.9)
    errors = []
    for _ in range(setup.steps + 1):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16, enabled=fp16):
            error = mse_loss(model(pictures), pictures, reduction="sum")
            loss = error / setup.divisor
        (loss * scale).backward()
        for parameter in model.parameters():
            parameter.grad /= scale
        optimizer.step()
        errors.append(error.item() / pictures.numel())
    return errors


@pytest.mark.parametrize(("scale", "fp16"), [(1.0, False), (1.0, True), (8.0, True)])
def test_it_trains_as_the_lesson_does_and_looking_changes_nothing(scale: float, fp16: bool) -> None:
    found = list(train(SHORT, scale, fp16=fp16))
    assert [step for step, (_, shot) in enumerate(found) if shot] == [0, 3, 6]
    assert [error for error, _ in found] == plain_loop(SHORT, scale, fp16)


def test_what_a_snapshot_counts() -> None:
    """At the first step, by hand: each element of the two groups."""
    model, pictures = SHORT.model(), SHORT.inputs()
    outputs: list[torch.Tensor] = []
    for layer in model[::2]:
        layer.register_forward_hook(lambda _, __, out: (out.retain_grad(), outputs.append(out))[1])
    for fp16 in (False, True):
        with torch.autocast("cpu", torch.float16, enabled=fp16):
            loss = mse_loss(model(pictures), pictures, reduction="sum") / SHORT.divisor
        (loss * (8 if fp16 else 1)).backward()
        parameters = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        if not fp16:
            exact = [out.grad for out in outputs], parameters
            outputs = outputs[len(outputs) :]
    shot = next(train(SHORT, 8.0))[1]
    for group, right, found in (
        (shot.between, exact[0], [out.grad for out in outputs]),
        (shot.weights, exact[1], parameters),
    ):
        right, found = (torch.cat([t.flatten() for t in each]) for each in (right, found))
        alive = right != 0
        assert group.total == alive.sum() == group.exact.total
        assert group.zero == (found[alive] == 0).sum() > 0
        assert group.inf == 0
        assert group.found.total == group.total - group.zero
    assert shot.weights.total == sum(p.numel() for p in model.parameters()) - 256
    assert shot.pictures.shape == (10, 8, 8)


def test_nothing_is_skipped_after_an_overflow() -> None:
    errors, shots = zip(*train(SHORT, 2.0**33), strict=True)
    assert shots[0].weights.inf > 0
    assert not any(torch.isfinite(torch.tensor(errors[1:])))
    assert shots[1:] == (None,) * 6


# ---- the record --------------------------------------------------------------------------------


def by_exponent(bars: list[int]) -> dict[int, int]:
    return dict(enumerate(bars[1:], bars[0])) if bars else {}


def differences(
    mine: dict[str, Any], recorded: dict[str, Any], totals: dict[str, int]
) -> list[str]:
    """What is different in two records of a run beyond what another CPU's sums explain."""
    found = []
    if len(mine["errors"]) != len(recorded["errors"]):
        return [f"inf or NaN from step {len(mine['errors'])}, not {len(recorded['errors'])}"]
    for step, (a, b) in enumerate(zip(mine["errors"], recorded["errors"], strict=True)):
        if abs(a - b) > 10 + 0.1 * b:
            found.append(f"error after step {step}: {a}, not {b}")
    pairs = list(zip(mine["snapshots"], recorded["snapshots"], strict=True))
    for place, (name, total) in itertools.product(range(len(pairs)), totals.items()):
        a, b = (shot[name] for shot in pairs[place])
        for count in ("total", "zero", "inf"):
            most = 3 + (0.3 * b[count] if count == "inf" else 0.02 * total)
            if abs(a[count] - b[count]) > most:
                found.append(f"snapshot {place}, {name}, {count}: {a[count]}, not {b[count]}")
        for bars in ("exact", "found"):
            wide = [by_exponent(each.get(bars, [])) for each in (a, b)]
            off = sum(abs(wide[0].get(e, 0) - wide[1].get(e, 0)) for e in {*wide[0], *wide[1]})
            if off > 10 + 0.05 * total:
                found.append(f"snapshot {place}, {name}, {bars}: {off} in another place")
    for place, (a, b) in enumerate(pairs):
        levels = [[runs.LEVELS.index(c) for c in each.get("pictures", "")] for each in (a, b)]
        off = sum(abs(x - y) for x, y in zip(*levels, strict=True))
        if off > 2 * len(levels[0]):
            found.append(f"snapshot {place}: other pictures")
    return found


FEW = [0.0, 3.0, 16.0, 33.0]


@pytest.mark.parametrize(
    "exponents", [FEW, pytest.param(list(EXPONENTS), marks=pytest.mark.long)], ids=["few", "all"]
)
def test_the_record_is_what_a_training_gives(exponents: list[float]) -> None:
    mine, recorded = record_loss_scale.record(SHOWN, exponents), runs.recorded()
    machine = ("torch", "cpu")
    assert {k: v for k, v in mine["about"].items() if k not in machine} == {
        k: v for k, v in recorded["about"].items() if k not in machine
    }
    assert (mine["original"], mine["format"]) == (recorded["original"], recorded["format"])
    totals = recorded["about"]["total"]
    assert differences(mine["fp32"], recorded["fp32"], totals) == []
    assert [run["exponent"] for run in mine["runs"]] == exponents
    for run in mine["runs"]:
        assert differences(run, runs.run_at(run["exponent"]), totals) == [], run["exponent"]


@pytest.mark.parametrize(("one", "other"), [(3.0, 3.5), (2.0, 2.25), (32.0, 33.0), (33.0, 34.0)])
def test_the_comparison_tells_two_scales_apart(one: float, other: float) -> None:
    totals = runs.recorded()["about"]["total"]
    assert differences(runs.run_at(one), runs.run_at(other), totals) != []
    assert differences(runs.run_at(one), runs.run_at(one), totals) == []


def test_the_file_is_what_the_tool_writes_and_small() -> None:
    text = runs.FILE.read_text(encoding="utf-8")
    assert record_loss_scale.as_text(runs.recorded()) == text
    assert len(text) < 200_000
    assert len(gzip.compress(text.encode())) < 50_000
    assert runs.exponents() == list(EXPONENTS)


def test_weight_gradients_overflow_first_and_those_between_the_layers_never_do() -> None:
    first = {run["exponent"]: run["snapshots"][0] for run in runs.recorded()["runs"]}
    assert len(first) == 53
    overflow = [e for e, shot in first.items() if shot["weights"]["inf"]]
    assert overflow == [float(e) for e in range(33, 41)]
    assert first[33.0]["weights"]["inf"] == 8
    assert all(shot["between"]["inf"] == 0 for shot in first.values())
    broken = [run["exponent"] for run in runs.recorded()["runs"] if len(run["errors"]) <= 150]
    assert broken == overflow


def test_what_the_widget_is_there_to_show() -> None:
    recorded = runs.recorded()
    fp32 = recorded["fp32"]["errors"][-1]
    flat = runs.run_at(0.0)
    assert set(flat["errors"]) == {flat["errors"][0]}
    at_16 = runs.run_at(4.0)
    zeros = [at_16["snapshots"][place]["between"]["zero"] for place in (0, -1)]
    assert [round(100 * count / 124_800) for count in zeros] == [41, 75]
    assert at_16["errors"][-1] / fp32 < 1.05
    assert f"{runs.run_at(2.0)['errors'][-1] * runs.UNIT:.3f}" == "0.052"
    good = [run["exponent"] for run in recorded["runs"] if runs.trains(run)]
    assert (good[0], good[-1]) == (3.75, 32.0)
    assert good == [e for e in EXPONENTS if 3.75 <= e <= 32]


def test_the_gradients_shrink_during_training() -> None:
    shots = runs.run_at(16.0)["snapshots"]
    exact = [shot["weights"].get("exact") for shot in shots]
    exact[0] = runs.recorded()["fp32"]["snapshots"][0]["weights"]["exact"]
    tops = [bars[0] + len(bars) - 2 for bars in exact]
    assert tops == sorted(tops, reverse=True)
    assert tops[0] - tops[-1] >= 6
