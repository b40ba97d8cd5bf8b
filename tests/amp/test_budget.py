"""What a training step needs by precision, module and batch, against counts at other batches."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from amp_lessons.amp.fake_tensors.errors import TraceError
from amp_lessons.amp.loading import LoadedModel, LoadError
from amp_lessons.amp.loading.batches import with_batch
from amp_lessons.amp.memory.budget import CARDS, Survey, rollup, survey
from amp_lessons.amp.memory.budget.screen import renderables
from amp_lessons.amp.memory.training import (
    STATE_COPIES,
    STEP_COPIES,
    BytesAlive,
    Memory,
    ModuleMemory,
    memory_by_module,
    training_memory,
)
from amp_lessons.amp.training import models
from amp_lessons.app import cli
from amp_lessons.core.terminal import console


def given(batch=4, width=16, layers=6) -> LoadedModel:
    model, (inputs,) = models.linear_stack(width, layers, batch)
    return LoadedModel(model, (inputs,), {}, "Sequential")


def own(path, parameters=0, activations=0, cast_cache=0, kind="Linear") -> ModuleMemory:
    return ModuleMemory(path, kind, parameters, parameters, activations, cast_cache)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.narrow(self.wide(x).relu())


class BlockWithAnExceptionallyLongNameOfItsOwnThatNoTerminalShows(Block):
    pass


class Stack(nn.Module):
    def __init__(self, blocks=4, width=8):
        super().__init__()
        self.first = nn.Linear(3, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.last = nn.Linear(width, 2)

    def forward(self, x, *, scale=1.0):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x) * scale


# ---- memory by module ---------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["fp32", "amp bf16", "bf16"])
def test_what_modules_hold_adds_up_to_the_whole(precision):
    model, x = Stack(), torch.randn(5, 3)
    options = {"precision": precision, "loss": mse_loss, "target": torch.randn(5, 2)}
    memory, modules = memory_by_module(model, x, kwargs={"scale": 2.0}, **options)
    assert [module.path for module in modules] == [path for path, _ in model.named_modules()]
    assert sum(module.parameters for module in modules) == memory.parameters
    assert sum(module.trained for module in modules) == memory.gradients
    assert sum(module.activations for module in modules) == memory.activations
    assert sum(module.cast_cache for module in modules) == memory.cast_cache
    assert memory == training_memory(model, x, kwargs={"scale": 2.0}, **options)
    by_path = {module.path: module for module in modules}
    element = 4 if precision == "fp32" else 2
    # The ReLU's result: the block's own, for it saves it first. The next layer saves it again.
    assert by_path["blocks.2"].activations == 5 * 32 * element
    assert by_path["blocks.2.narrow"].activations == 0
    weights = by_path["last"].parameters
    assert by_path["last"].cast_cache == (weights // 2 if precision == "amp bf16" else 0)


def test_a_tied_parameter_counts_where_it_comes_first():
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    model[1].weight = model[0].weight
    _, modules = memory_by_module(model, torch.randn(2, 8), precision="amp bf16")
    assert [m.parameters for m in modules] == [0, 256, 0]
    assert [m.cast_cache for m in modules] == [0, 128, 0]


def test_a_module_that_raises_leaves_no_one_else_s_bytes_to_itself():
    class Tries(nn.Module):
        def __init__(self):
            super().__init__()
            self.broken, self.after = nn.Bilinear(1, 1, 1), nn.Linear(3, 3)

        def forward(self, x):
            with suppress(RuntimeError):
                self.broken(x, x)
            return self.after(x.exp())

    _, modules = memory_by_module(Tries(), torch.randn(7, 3))
    own_bytes = {module.path: module.activations for module in modules}
    assert own_bytes == {"": 84, "broken": 0, "after": 84}  # the output, and the layer's input


def test_training_or_evaluation():
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5))
    x = torch.randn(4, 8)
    training, evaluation = (training_memory(model, x, train=mode) for mode in (True, False))
    assert training.activations > evaluation.activations
    assert model.training
    assert training_memory(model.eval(), x) == evaluation


# ---- the survey ---------------------------------------------------------------------------------


def test_the_largest_batch_fits_and_one_more_does_not():
    what = given()
    found = survey(what, "adamw", "cpu", mse_loss, torch.zeros(4, 16))
    for precision in ("fp32", "amp bf16", "bf16"):
        batch = found.largest_batch(precision, 1)
        assert batch > 10**5

        def total(examples, precision=precision):
            more = with_batch(what, examples)
            target = torch.empty(examples, 16, device="meta")
            options = {"precision": precision, "optimizer": "adam", "loss": mse_loss}
            return training_memory(more.model, *more.args, target=target, **options).total

        assert total(batch) <= 10**9 < total(batch + 1)


def test_the_crossover_is_where_the_totals_cross():
    what = given(batch=8)
    found = survey(what, "sgd", "cpu", mse_loss, torch.zeros(8, 16))
    batch = found.crossover("amp bf16")
    assert batch > 1

    def total(examples, precision):
        more, target = with_batch(what, examples), torch.zeros(examples, 16)
        options = {"precision": precision, "loss": mse_loss, "target": target}
        return training_memory(more.model, *more.args, **options).total

    assert total(batch - 1, "amp bf16") >= total(batch - 1, "fp32")
    assert total(batch, "amp bf16") < total(batch, "fp32")


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("sgd", lambda p: torch.optim.SGD(p, lr=0.1, foreach=True)),
        ("momentum", lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True)),
        ("adam", lambda p: torch.optim.Adam(p, lr=0.1, foreach=True)),
        ("adam", lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True)),
    ],
)
def test_what_a_step_of_the_optimizer_needs_for_a_moment(name, make):
    model, (x,) = models.linear_stack(64, 4, 2)
    parameters = sum(p.nbytes for p in model.parameters())
    with BytesAlive(x, *model.parameters()) as alive:
        optimizer = make(model.parameters())
        for _ in range(2):
            model(x).sum().backward()
            alive.mark("backward")
            optimizer.step()
            alive.mark("step")
            optimizer.zero_grad()
    peak = alive.peaks()[-1][1] - x.nbytes
    copies = 2 + STATE_COPIES[name] + STEP_COPIES[name]
    assert copies * parameters <= peak < (copies + 0.2) * parameters


def test_a_step_of_adam_can_need_more_than_the_whole_pass():
    found = survey(given(batch=1, width=64), "adamw", "cpu")
    memory = found.at["fp32"]
    assert found.peak("fp32") == memory.model_states + memory.data + memory.parameters
    assert found.peak("fp32", "sgd") == memory.total - memory.optimizer
    assert found.peak("fp32") > memory.total


def test_what_cannot_be_told_is_a_note():
    class Fixed(nn.Linear):
        def forward(self, x):
            return super().forward(x.reshape(4, 8))

    found = survey(LoadedModel(Fixed(8, 8), (torch.randn(4, 8),), {}, "Fixed"), device="cpu")
    assert not found.knows_batches
    assert found.largest_batch("fp32", 16) is None
    assert any(note.startswith("other batch sizes can't be told") for note in found.notes)
    with pytest.raises(ValueError, match="two batches"):
        found.crossover()
    frozen = nn.LSTM(4, 4).requires_grad_(False).half()
    found = survey(LoadedModel(frozen, (torch.randn(3, 2, 4).half(),), {}, "LSTM"), device="cpu")
    assert any("workspace of its own" in note for note in found.notes)
    assert any("nothing is trained" in note for note in found.notes)
    assert any("in float16" in note for note in found.notes)


def test_a_precision_that_does_not_run_is_left_out():
    class Wants32(nn.Linear):
        def forward(self, x):
            if self.weight.dtype == torch.bfloat16:
                raise TypeError("float32 or nothing")
            return super().forward(x)

    found = survey(LoadedModel(Wants32(4, 4), (torch.randn(4, 4),), {}, "W"), device="cpu")
    assert list(found.at) == ["fp32", "amp fp16", "amp bf16"]
    assert any(note.startswith("bf16 is left out") for note in found.notes)


class Refuses(nn.Module):
    """A linear layer, then a function that some real kernel refuses."""

    def __init__(self, function, dtype=torch.float32):
        super().__init__()
        self.layer, self.function = nn.Linear(8, 4, dtype=dtype), function

    def forward(self, x):
        return self.function(self.layer(x))


def added(h):
    index = torch.arange(len(h), device=h.device)
    return torch.zeros(h.shape, device=h.device).index_add(0, index, h)


def filled(h):
    return h.masked_fill(h > 0, -1e9)


def compared(h):
    return nn.functional.binary_cross_entropy(h.sigmoid(), torch.zeros_like(h))


@pytest.mark.parametrize(
    ("function", "left", "words"),
    [
        (added, ["fp32"], "amp fp16 is left out: this step raises: index_add takes one dtype"),
        (filled, ["fp32", "amp bf16", "bf16"], "amp fp16 is left out: this step raises: -1e+09"),
        (compared, ["fp32", "bf16"], "amp bf16 is left out: this step raises: raises under"),
    ],
)
def test_a_precision_whose_step_raises_gets_no_figure(function, left, words):
    found = survey(
        LoadedModel(Refuses(function), (torch.randn(4, 8),), {}, "Refuses"), device="cuda"
    )
    assert list(found.at) == list(found.twice) == left
    assert any(words in note for note in found.notes), found.notes


def test_a_step_that_raises_in_each_precision_gives_no_survey():
    model = Refuses(lambda h: h.float() @ torch.ones(4, 4, device=h.device, dtype=torch.float64))
    with pytest.raises(TraceError, match="raises"):
        survey(LoadedModel(model, (torch.randn(4, 8),), {}, "Refuses"), device="cuda")


def test_a_model_in_float16_is_not_counted_as_if_float32_fed_it():
    half = LoadedModel(Refuses(lambda h: h, torch.float16), (torch.randn(4, 8),), {}, "Refuses")
    found = survey(half, device="cuda")
    assert "fp32" not in found.at
    assert "amp fp16" not in found.at
    notes = " ".join(found.notes)
    assert "fp32 is left out: this step raises" in notes
    assert "GradScaler refuses their gradients" in notes


@pytest.mark.parametrize(
    ("options", "words"),
    [({"optimizer": "lion"}, "sgd, momentum, adam, adamw"), ({"device": "tpu"}, "cuda or cpu")],
)
def test_what_a_survey_refuses(options, words):
    with pytest.raises(LoadError, match=words):
        survey(given(), **options)


# ---- rolled up ----------------------------------------------------------------------------------


def test_equal_blocks_are_one_row_and_the_odd_one_is_apart():
    model = Stack(blocks=5)
    model.blocks[3] = Block(8)
    model.blocks[3].extra = nn.Linear(2, 2)
    _, modules = memory_by_module(model, torch.randn(5, 3))
    root = rollup.tree(modules)
    shown = {(level, node.name): node for level, node in rollup.rows(root, 2)}
    assert [name for level, name in shown if level == 0] == [
        "first",
        "blocks.0–2",
        "blocks.3",
        "blocks.4",
        "last",
    ]
    three, one = shown[0, "blocks.0–2"], shown[0, "blocks.4"]
    assert (three.count, three.bytes) == (3, tuple(3 * each for each in one.bytes))
    tops = [node for level, node in rollup.rows(root, 1)]
    summed = tuple(map(sum, zip(*(node.bytes for node in tops), strict=True)))
    assert summed[0] == root.parameters == sum(p.nbytes for p in model.parameters())
    assert summed[2] + modules[0].activations == root.activations


def test_blocks_of_two_lists_are_not_mixed():
    modules = [own("", kind="M")]
    for name in ("a", "b"):
        modules += [own(name, kind="ModuleList"), own(f"{name}.0", 4), own(f"{name}.1", 4)]
    root = rollup.tree(modules)
    assert [node.name for _, node in rollup.rows(root, 1)] == ["a.0–1", "b.0–1"]
    assert root.parameters == 16


# ---- on the screen ------------------------------------------------------------------------------


def printed(found: Survey, capsys, **options) -> str:
    settings = {"precision": "amp fp16", "depth": 2, "top": None, **options}
    for part in renderables(found, **settings):
        console().print(part)
    return capsys.readouterr().out


def test_the_screen_says_what_fits_and_what_is_not_counted(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    model = Stack(12)
    model.blocks.append(BlockWithAnExceptionallyLongNameOfItsOwnThatNoTerminalShows(8))
    found = survey(LoadedModel(model, (torch.randn(5, 3),), {}, "Stack"), "adam", "cpu")
    text = printed(found, capsys)
    assert all(len(line) <= 80 for line in text.splitlines())
    assert "blocks.0–11 ×12 Block" in text
    assert "parameters  grads+optim  activations  cast cache\n" in text
    assert "CUDA context" in text
    for card in CARDS:
        assert f"\n{card} GB " in text
    assert found.largest_batch("fp32", 16) > 10**6
    assert "> 1 million" in text
    assert "GPU" not in text.partition("Not counted")[0]
    name = BlockWithAnExceptionallyLongNameOfItsOwnThatNoTerminalShows.__name__
    assert name in text.replace("\n", "").replace(" ", "")
    assert "By module" not in printed(found, capsys, depth=0)
    assert "smaller rows" in printed(found, capsys, top=1)


def test_no_card_is_large_enough():
    big = Memory(10**12, 0, 0, 10, 10, 0)
    twice = Memory(10**12, 0, 0, 20, 20, 0)
    found = Survey("Big", "cuda", "sgd", 1, {"fp32": big}, {"fp32": twice}, {"fp32": ()})
    assert [found.largest_batch("fp32", card) for card in CARDS] == [0] * len(CARDS)


def test_the_command(capsys):
    with pytest.raises(SystemExit) as leaving:
        cli.main(
            ["memory", "amp_lessons.amp.training.models:mlp", "--optimizer", "momentum", "--json"]
        )
    out, err = capsys.readouterr()
    assert (leaving.value.code, err) == (0, "")
    data = json.loads(out)
    assert list(data["precisions"]) == ["fp32", "amp fp16", "amp bf16", "bf16"]
    fp32 = data["precisions"]["fp32"]
    assert fp32["optimizer"] == fp32["parameters"] == 26_122 * 4
    assert fp32["largest_batch"]["16"] > 1_000_000
    assert data["crossover_batch"]["amp fp16"] > 32
    with pytest.raises(SystemExit) as leaving:
        cli.main(["memory", "amp_lessons.amp.training.models:mlp", "--precision", "fp8"])
    assert leaving.value.code == 2
    assert "choose one of fp32" in capsys.readouterr().err
