"""Pictures and sound beside a text, for models of transformers that take them."""

from __future__ import annotations

import importlib.util
import json

import pytest
import torch
from torch import nn

from amp_lessons.amp.explain import explain_autocast
from amp_lessons.amp.loading import ModelSpec, load_model
from amp_lessons.amp.loading.batches import with_batch
from amp_lessons.amp.memory.budget import survey
from amp_lessons.amp.memory.training import training_memory
from amp_lessons.app import cli

if importlib.util.find_spec("transformers") is None:
    pytest.skip("needs transformers", allow_module_level=True)

LLAMA = {
    "model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 96,
}  # fmt: skip
CLIP = {
    "model_type": "clip_vision_model", "hidden_size": 32, "intermediate_size": 64,
    "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 32, "patch_size": 8,
}  # fmt: skip
PATCHES = {
    "depth": 2, "embed_dim": 32, "hidden_size": 32, "num_heads": 4, "mlp_ratio": 2, "patch_size": 14
}  # fmt: skip
QWEN = LLAMA | {
    "model_type": "qwen2_vl_text",
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]},
}
HEARS = {
    "model_type": "qwen3_asr_encoder", "d_model": 32, "encoder_attention_heads": 4,
    "encoder_ffn_dim": 64, "encoder_layers": 2, "num_mel_bins": 16, "output_dim": 32,
    "downsample_hidden_size": 8,
}  # fmt: skip
CONFIGS = {
    "llava": {
        "model_type": "llava", "image_token_index": 90, "text_config": LLAMA,
        "vision_config": CLIP,
    },
    "qwen2_vl": {
        "model_type": "qwen2_vl", "image_token_id": 90, "video_token_id": 91, "text_config": QWEN,
        "vision_config": PATCHES,
    },
    "qwen3_asr": {
        "model_type": "qwen3_asr", "audio_token_id": 90, "audio_config": HEARS,
        "text_config": LLAMA | {"model_type": "qwen3", "head_dim": 8},
    },
}  # fmt: skip


@pytest.fixture
def configs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, settings in CONFIGS.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(settings))
    return tmp_path


def tokens(given) -> int:
    """How many tokens of each text stand for something else."""
    (count,) = set((given.kwargs["input_ids"] == 90).sum(1).tolist())
    return count


@pytest.mark.parametrize(
    ("name", "inputs", "count"),
    [
        ("llava", {"pixel_values": (2, 3, 32, 32)}, 16),
        ("qwen2_vl", {"pixel_values": (2048, 1176), "image_grid_thw": (2, 3)}, 256),
        (
            "qwen3_asr",
            {"input_features": (2, 16, 800), "input_features_mask": (2, 800)},
            104,
        ),
    ],
)
@pytest.mark.slow
def test_a_model_that_sees_or_hears_gets_something_to_see_or_hear(configs, name, inputs, count):
    given = load_model(ModelSpec(hf=f"{name}.json"))
    for key, shape in inputs.items():
        assert tuple(given.kwargs[key].shape) == shape
    assert tokens(given) == count
    assert f"of each text, {count} " in given.note
    assert "pixel_values=" in given.note or "input_features=" in given.note
    explained = explain_autocast(given.model, kwargs=given.kwargs)
    assert [part.path for part in explained.not_run if part.is_missed] == []
    text = explain_autocast(given.plain.model, kwargs=given.plain.kwargs)
    assert explained.totals.flops > text.totals.flops


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.slow
def test_what_was_made_runs_for_real_too(configs, name):
    given = load_model(ModelSpec(hf=f"{name}.json", image_size=56 if name == "qwen2_vl" else None,
                         length=160, real=True))  # fmt: skip
    assert torch.isfinite(given.model(**given.kwargs).loss)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_a_survey_counts_them_at_two_batches(configs, name):
    given = load_model(ModelSpec(hf=f"{name}.json", length=320))
    found = survey(given, precisions=("fp32", "amp fp16"))
    assert found.knows_batches
    assert found.missed == ()
    text = survey(given.plain, precisions=("fp32", "amp fp16"))
    assert found.each_example("fp32") > text.each_example("fp32")
    assert text.largest_batch("fp32", 16) is None
    twice = with_batch(given, 4)
    assert tokens(twice) == tokens(given)
    assert found.twice["fp32"].data == training_memory(given.model, kwargs=twice.kwargs).data


def test_a_person_s_own_picture_is_taken(configs):
    own = load_model(ModelSpec(hf="llava.json", inputs=("pixel_values=4,3,32,32",)))
    assert tuple(own.kwargs["input_ids"].shape) == (4, 512)
    assert tokens(own) == 16
    patches = load_model(ModelSpec(hf="qwen2_vl.json", inputs=("pixel_values=128,1176",)))
    assert patches.kwargs["image_grid_thw"].tolist() == [[1, 8, 8]] * 2
    assert tokens(patches) == 16
    assert patches.plain is None


def test_labels_are_as_long_as_a_text_that_had_to_grow(configs):
    given = load_model(ModelSpec(hf="qwen2_vl.json", image_size=896))
    assert tokens(given) == 1024
    assert given.kwargs["labels"].shape == given.kwargs["input_ids"].shape == (2, 1089)


def test_a_text_without_room_for_the_picture_says_so(configs, capsys):
    given = load_model(ModelSpec(hf="qwen2_vl.json", length=64))
    assert "pixel_values" not in given.kwargs
    assert "256 image tokens don't fit a text of 64: take --length 257" in given.note
    cli.app(["memory", "--hf", "qwen2_vl.json", "--length", "64"], standalone_mode=False)
    out = " ".join(capsys.readouterr().out.split())
    assert "model.visual" in out
    assert "No largest batch" in out


@pytest.mark.slow
@pytest.mark.parametrize("command", ["explain", "memory"])
def test_what_the_model_refuses_is_left_out_and_told(configs, command, capsys):
    odd = CONFIGS["qwen2_vl"] | {"vision_config": PATCHES | {"hidden_size": 16}}
    (configs / "odd.json").write_text(json.dumps(odd))
    cli.app([command, "--hf", "odd.json"], standalone_mode=False)
    out, err = (" ".join(text.split()) for text in capsys.readouterr())
    assert "features of width 16 for a text of width 32" in err
    assert "left out, because the model refused them: pixel_values, image_grid_thw" in err
    assert "model.visual" in out
    assert "give pixel_values=…" in out


def test_a_mask_that_is_expanded_over_a_wide_activation_stays_known():
    class Fills(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.seen = nn.Embedding(8, 2048), nn.Linear(2048, 2048)

        def forward(self, ids):
            words = self.words(ids)
            mask = (ids == 1).unsqueeze(-1).expand_as(words)
            return words.masked_scatter(mask, self.seen(words[mask].view(-1, 2048)))

    ids = torch.zeros(2, 512, dtype=torch.int64)
    ids[:, 3:7] = 1
    explained = explain_autocast(Fills(), ids, values="fake")
    assert [row.shape_out for row in explained.rows if row.op == "aten::addmm"] == [(8, 2048)]
