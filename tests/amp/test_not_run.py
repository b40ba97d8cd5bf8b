"""Parameters that a pass did not use: named with their share, and with what would run them."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from amp_lessons.amp.explain import explain_autocast
from amp_lessons.amp.explain.report.data import from_dict
from amp_lessons.amp.loading import LoadedModel
from amp_lessons.amp.memory.budget import survey
from amp_lessons.amp.memory.budget.screen import renderables
from amp_lessons.amp.memory.training import training_memory
from amp_lessons.amp.training import models
from amp_lessons.app import cli
from amp_lessons.core.terminal import console

X = torch.randn(2, 8)
IDS = torch.tensor([[1, 2, 3]])


class TwoSenses(nn.Module):
    """Text, and a picture if somebody gives one."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10, 8)
        self.visual = nn.Sequential(nn.Linear(8, 24), nn.Linear(24, 8))
        self.head = nn.Linear(8, 4)

    def forward(self, ids: Tensor, pixel_values=None, labels=None, attention_mask=None):
        seen = 0.0 if pixel_values is None else self.visual(pixel_values)
        return self.head(self.words(ids).mean(1) + seen)


class WithAPart(nn.Module):
    """Two layers and a part, of which ``use`` says what becomes of it."""

    def __init__(self, part: nn.Module, use) -> None:
        super().__init__()
        self.first, self.last, self.part = nn.Linear(8, 8), nn.Linear(8, 4), part
        self.use = use

    def forward(self, x: Tensor, context=None) -> Tensor:
        return self.last(self.use(self, self.first(x), context))


def names(found) -> list[str]:
    return [part.path for part in found.not_run]


# ---- what counts as run -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mlp", "cnn", "lstm", "transformer_encoder", "custom_function"])
def test_an_ordinary_model_runs_as_a_whole(name):
    model, inputs = getattr(models, name)()
    assert explain_autocast(model, *inputs).not_run == ()
    assert training_memory(model, *inputs).not_run == ()


def test_a_table_counts_as_run_if_one_row_is_looked_up():
    model = nn.Embedding(1000, 8)
    assert explain_autocast(model, IDS).not_run == ()


def test_a_tied_parameter_counts_once_and_as_run_wherever_it_ran():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(10, 8), nn.Linear(8, 10, bias=False)
            self.head.weight = self.words.weight
            self.visual = nn.Linear(8, 10, bias=False)

        def forward(self, ids, pixel_values=None):
            return self.words(ids)

    (part,) = explain_autocast(Tied(), IDS).not_run
    assert (part.path, part.parameters, part.share) == ("visual", 80, 0.5)


@pytest.mark.parametrize("values", ["fake", "real"])
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_view_of_a_parameter_is_no_use_of_it(values, device):
    model = WithAPart(nn.Linear(8, 8), lambda m, x, c: (m.part.weight.detach().t(), x)[1])
    explained = explain_autocast(model, X, values=values, device=device)
    assert names(explained) == ["part"]


# ---- what is said of it -----------------------------------------------------------------------


def test_a_part_without_its_input_is_named_with_its_share_and_the_input():
    explained = explain_autocast(TwoSenses(), IDS)
    (part,) = explained.not_run
    assert (part.path, part.parameters, part.inputs, part.sure) == (
        "visual", 416, ("pixel_values",), True,
    )  # fmt: skip
    assert "visual (78% of parameters) did not run: give pixel_values=…" in explained.summary()[1]
    assert explain_autocast(TwoSenses(), IDS, kwargs={"pixel_values": X[:1]}).not_run == ()
    kept = from_dict(json.loads(explained.to_json()))
    assert kept.not_run == explained.not_run


def test_an_input_of_another_name_may_run_it():
    model = WithAPart(nn.Linear(8, 8), lambda m, x, c: x if c is None else x + m.part(c))
    (part,) = explain_autocast(model, X).not_run
    assert (part.inputs, part.sure) == (("context",), False)
    assert "context=… may run it" in str(part)


def test_an_expert_that_got_no_token_is_told_from_a_part_without_input():
    experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))
    model = WithAPart(experts, lambda m, x, c: m.part[0](x) + m.part[3](x))
    (part,) = explain_autocast(model, X).not_run
    assert (part.path, part.count, part.beside, part.inputs) == ("part.*", 4, True, ())
    assert "an expert that got no token" in str(part)


def test_a_part_that_nothing_runs_is_named_and_no_input_is_blamed():
    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.pooler = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x, attention_mask=None, labels=None, output_attentions=None):
            return self.body(x)

    explained = explain_autocast(Pooled(), X)
    (part,) = explained.not_run
    assert (part.path, part.inputs, part.is_missed) == ("pooler", (), False)
    assert "give" not in str(part)


def test_a_pooler_that_ran_is_no_part_that_did_not_run_though_the_loss_has_no_use_for_it():
    class Pooled(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.pooler = nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            h = self.body(x)
            return SimpleNamespace(loss=h.sum(), pooled=self.pooler(h))

    model = Pooled()
    memory = training_memory(model, X, loss=lambda out, _: out.loss)
    assert memory.not_run == ()
    assert memory.gradients == memory.parameters // 2


def test_a_single_token_is_too_small_to_be_named():
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.mask_token = nn.Linear(64, 64), nn.Parameter(torch.zeros(4))

        def forward(self, x, bool_masked_pos=None):
            return self.body(x)

    explained = explain_autocast(Masked(), torch.randn(2, 64))
    assert names(explained) == ["mask_token"]
    assert "did not run" not in str(explained)


# ---- memory -----------------------------------------------------------------------------------


def shown(found) -> str:
    terminal = console()
    with terminal.capture() as captured:
        for part in renderables(found, "amp fp16", 0, None):
            terminal.print(part)
    return " ".join(captured.get().split())


def test_no_largest_batch_is_told_while_a_part_that_needs_an_input_did_not_run():
    found = survey(LoadedModel(TwoSenses(), (IDS,), {}, "TwoSenses"), device="cpu")
    text = shown(found)
    assert "visual (78% of parameters) did not run: give pixel_values=…" in text
    assert "No largest batch: this step leaves out visual" in text
    assert "Largest batch that fits" not in text
    data = found.to_dict()
    assert data["not_run"][0]["path"] == "visual"
    assert set(data["precisions"]["fp32"]["largest_batch"].values()) == {None}
    assert data["crossover_batch"] == {}
    whole = {"pixel_values": torch.randn(1, 8)}
    text = shown(survey(LoadedModel(TwoSenses(), (IDS,), whole, "TwoSenses"), device="cpu"))
    assert "Largest batch that fits" in text
    assert "did not run" not in text


def test_a_part_that_no_step_uses_is_named_beside_the_largest_batch():
    class Lean(WithAPart):
        def forward(self, x):
            return self.last(self.first(x))

    text = shown(survey(LoadedModel(Lean(nn.Linear(8, 8), None), (X,), {}, "Lean"), device="cpu"))
    assert "part (40% of parameters) did not run" in text
    assert "Largest batch that fits" in text


def test_training_memory_says_so_too():
    memory = training_memory(TwoSenses(), IDS)
    assert memory.total == sum(memory.bytes.values())
    assert "visual (78% of parameters) did not run" in str(memory)
    whole = training_memory(TwoSenses(), IDS, kwargs={"pixel_values": X[:1]})
    assert "did not run" not in str(whole)


@pytest.mark.parametrize("command", ["explain", "memory"])
def test_the_commands_say_so(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "senses.py").write_text(
        "import torch\nfrom test_not_run import TwoSenses\n"
        "def make(): return TwoSenses(), torch.tensor([[1, 2, 3]])\n"
    )
    cli.app([command, "senses.py:make", "--device", "cpu"], standalone_mode=False)
    out = " ".join(capsys.readouterr().out.split())
    assert "visual (78% of parameters) did not run: give pixel_values=…" in out
    words = [command, "senses.py:make", "--device", "cpu", "--input", "pixel_values=1,8"]
    cli.app(words, standalone_mode=False)
    assert "did not run" not in capsys.readouterr().out
