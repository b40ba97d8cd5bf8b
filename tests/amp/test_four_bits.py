"""Trainings in MXFP8, MXFP4 and NVFP4: what a run quantises, and the record of lesson 14."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import record_four_bits
import torch
from torch import nn

from amp_lessons.amp.numbers.blocks.linear import BlockLinear, in_block_format
from amp_lessons.amp.numbers.blocks.quantize import NVFP4, ElementRounding, quantize_blocks
from amp_lessons.amp.training import four_bits
from amp_lessons.amp.training.fixed_scale import one_thread
from amp_lessons.amp.training.four_bits import RUNS, SEEDS, STEPS, WHOLE, recorded, train
from amp_lessons.amp.training.loops import autoencoder, load_digits

BY_NAME = {run.name: run for run in RUNS}


@pytest.fixture(autouse=True)
def _on_one_thread() -> Iterator[None]:
    with one_thread():
        yield


def ends(name: str) -> list[float]:
    return [curve[-1] for curve in recorded()["runs"][name]]


def above_fp32(name: str) -> list[float]:
    """In percent, for each seed."""
    return [100 * (end / fp32 - 1) for end, fp32 in zip(ends(name), ends("FP32"), strict=True)]


# ---- the runs -----------------------------------------------------------------------------------


def test_the_recipe_is_nvidias_and_each_run_leaves_out_one_thing() -> None:
    assert (WHOLE.inputs, WHOLE.hadamard) == (NVFP4, True)
    assert WHOLE.weights is not None
    assert WHOLE.weights.block == (16, 16)
    assert WHOLE.gradients is not None
    assert WHOLE.gradients.rounding is ElementRounding.STOCHASTIC
    for name, changed in {
        "... nearest rounding": {"gradients"},
        "... no Hadamard": {"hadamard"},
        "... blocks of 1x16 for weights": {"weights"},
        "... last layer in NVFP4 too": set(),
        "... no second scale": {"inputs", "weights", "gradients"},
    }.items():
        recipe = BY_NAME[name].recipe
        fields = ("inputs", "weights", "gradients", "hadamard")
        assert {f for f in fields if getattr(recipe, f) != getattr(WHOLE, f)} == changed
        assert BY_NAME[name].last_in_bf16 is (name != "... last layer in NVFP4 too")


def test_bf16_is_torchs_cast() -> None:
    x = torch.randn(8, 40, generator=torch.Generator().manual_seed(0)) * 1e-20
    assert torch.equal(quantize_blocks(x, four_bits.IN_BF16).dequantize(), x.bfloat16().float())


def test_fp32_is_the_plain_loop() -> None:
    model, pictures = autoencoder(1), load_digits().train_images[:600]
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    errors = []
    for _ in range(5):
        optimizer.zero_grad()
        error = nn.functional.mse_loss(model(pictures), pictures)
        error.backward()
        optimizer.step()
        errors.append(error.item())
    assert list(train(BY_NAME["FP32"], 1, steps=5)) == pytest.approx(errors, rel=1e-4)


def test_the_last_layer_is_in_bf16_and_the_others_in_nvfp4(monkeypatch) -> None:
    made = []

    def kept(model, recipe, keep=()):
        made.append(model)
        return in_block_format(model, recipe, keep)

    monkeypatch.setattr(four_bits, "in_block_format", kept)
    list(train(BY_NAME["NVFP4 recipe"], 0, steps=1))
    names = [part.recipe.name for part in made[0].modules() if isinstance(part, BlockLinear)]
    assert names == ["NVFP4 recipe"] * 3 + ["BF16"]


def test_a_run_is_the_same_each_time_and_moves_no_global_generator() -> None:
    run = BY_NAME["NVFP4 recipe"]
    before = torch.random.get_rng_state()
    first, second = (list(train(run, 2, steps=3)) for _ in range(2))
    assert first == second
    assert torch.equal(torch.random.get_rng_state(), before)


# ---- the record ---------------------------------------------------------------------------------


def test_the_record_has_every_run_and_is_what_the_tool_writes() -> None:
    about, runs = recorded()["about"], recorded()["runs"]
    assert list(runs) == [run.name for run in RUNS]
    assert about["steps"] == STEPS
    assert about["seeds"] == list(SEEDS)
    assert all(len(curve) == STEPS for curves in runs.values() for curve in curves)
    assert all(len(curves) == len(SEEDS) for curves in runs.values())
    written = record_four_bits.as_text(runs).splitlines()[1:]
    assert four_bits.FILE.read_text(encoding="utf-8").splitlines()[1:] == written


def test_what_the_lesson_says_of_the_record() -> None:
    assert [f"{end:.4f}" for end in ends("FP32")] == ["0.0147", "0.0142", "0.0151"]
    assert above_fp32("BF16") == pytest.approx([0, 0, 0], abs=0.2)
    for name, low, high in (
        ("MXFP8", 1, 2.1),
        ("NVFP4 recipe", 13.5, 14.5),
        ("MXFP4", 18.5, 26),
        ("FP4, one scale for a tensor", 18, 20),
        ("... no second scale", 200, 225),
    ):
        assert all(low <= percent <= high for percent in above_fp32(name)), name
    four = [name for name in recorded()["runs"] if name not in ("FP32", "BF16", "MXFP8")]
    among = [p for name in four if "second" not in name for p in above_fp32(name)]
    assert (round(min(among)), round(max(among))) == (12, 26)
    gain = {name: sum(above_fp32(name)) / 3 - sum(above_fp32("NVFP4 recipe")) / 3 for name in four}
    assert gain["... last layer in NVFP4 too"] == pytest.approx(5, abs=0.5)
    assert gain["... nearest rounding"] == pytest.approx(2, abs=0.5)
    assert -1 < gain["... no Hadamard"] < 0.1
    assert -1 < gain["... blocks of 1x16 for weights"] < 0.1


@pytest.mark.parametrize("name", ["FP32", "MXFP8", "NVFP4 recipe"])
def test_a_training_begins_as_recorded(name: str) -> None:
    found = list(train(BY_NAME[name], 0, steps=12))
    assert found == pytest.approx(recorded()["runs"][name][0][:12], rel=0.01, abs=2e-5)


@pytest.mark.long
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_a_training_ends_as_recorded(run: four_bits.Run) -> None:
    for seed in SEEDS:
        *_, last = train(run, seed)
        assert last == pytest.approx(recorded()["runs"][run.name][seed][-1], rel=0.03)
