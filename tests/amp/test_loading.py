"""From a command line to a model and its inputs: functions, files, configs, and what is refused."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from waiting import wait_until

from amp_lessons.amp.explain import explain_autocast
from amp_lessons.amp.loading import (
    LoadedModel,
    LoadError,
    ModelSpec,
    hf_config,
    kinds,
    libraries,
    load_model,
    losses,
    source_names,
)
from amp_lessons.amp.loading.batches import batch_of, with_batch
from amp_lessons.amp.loading.captured_output import SHOWN, heard
from amp_lessons.amp.loading.inputs import parse, parse_all
from amp_lessons.app import cli, model_commands

OWN = '''
import sys
import torch
from torch import nn

class Words(nn.Module):
    """Token ids to four numbers each."""
    def __init__(self, width):
        super().__init__()
        self.rows = nn.Embedding(10, width)
        self.head = nn.Linear(width, 4)
    def forward(self, ids, mask=None, *, scale=1.0):
        rows = self.rows(ids)
        return self.head(rows if mask is None else rows * mask[..., None]) * scale

class Looks(nn.Linear):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else x

IDS = torch.zeros(2, 3, dtype=torch.long)
ready = Words(8)
def model(): return Words(8)
def one_input(): return Words(8), IDS
def listed(): return Words(8), [IDS]
def named(): return Words(8), {"ids": IDS}
def three(): return Words(8), (IDS,), {"scale": 2.0}
def needs_values(): return Words(int(torch.ones(8).sum())), IDS
def looks(): return Looks(3, 3), torch.ones(2, 3)
def misnamed(): return Words(8), {"idz": IDS}
def past_the_end(): return Words(8), torch.full((2, 3), 12)
def gives_text(): return "x"
def gives_class(): return Words
def gives_four(): return Words(8), IDS, {}, 1
def breaks(): raise ZeroDivisionError("of all\\nthings")
def exits(): sys.exit("usage: own.py")
def asks(): return Words(int(input("width? ")))
def on_gpu(): return Words(8).cuda(), IDS
def downloads(): raise type("URLError", (OSError,), {})("Name or service not known")
def panics(): raise BaseException("a panic in Rust")
def several(): raise ExceptionGroup("two", [ValueError("the first of them"), TypeError("b")])
def empty(): raise ValueError
async def later(): return Words(8)
def nothing(output): pass
def reads(): return torch.load("weights.pt")
def own_words(): return Words(8), (IDS,), {"scale": float(len(sys.argv))}
def talks():
    print("x" * 100_000)
    print("on the other one", file=sys.stderr)
    return Words(8), IDS
'''


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with a module of the reader's own."""
    (tmp_path / "own_models.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("own_models")]:
        del sys.modules[name]
    sys.path[:] = [path for path in sys.path if path != str(tmp_path)]


def refusal(target="", **options) -> str:
    with pytest.raises(LoadError) as caught:
        load_model(ModelSpec(target, **options))
    assert "\n" not in str(caught.value)
    return str(caught.value)


# ---- inputs in words ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shape", "dtype", "name", "below"),
    [
        ("32,64", (32, 64), torch.float32, "", None),
        ("(2, 3)", (2, 3), torch.float32, "", None),
        ("2x3", (2, 3), torch.float32, "", None),
        ("()", (), torch.float32, "", None),
        ("8,128:int64", (8, 128), torch.int64, "", None),
        ("input_ids=2,16:int64<50257", (2, 16), torch.int64, "input_ids", 50257),
        ("mask=2,16:bool", (2, 16), torch.bool, "mask", None),
        ("x=4:bf16", (4,), torch.bfloat16, "x", None),
        ("cond.text=2,8:torch.float16", (2, 8), torch.float16, "cond.text", None),
    ],
)
def test_an_input_in_words(text, shape, dtype, name, below):
    spec = parse(text)
    assert (spec.shape, spec.dtype, spec.name, spec.below) == (shape, dtype, name, below)
    assert parse(str(spec)) == spec


def test_whole_numbers_have_values_below_their_bound_and_floats_have_none():
    ids = parse("ids=64,64:int64<7").tensor()
    assert (ids.min(), ids.max()) == (0, 6)
    assert parse("ids=1,1:int64<50257").tensor().item() == 50256
    assert parse("attention_mask=2,3:int64").tensor().all()
    assert parse("keep=2,3:bool").tensor().all()
    assert parse("2,3").tensor().is_meta
    assert parse("2,3").tensor(real=True).std() > 0
    assert parse("100000,100000:int64").tensor().is_meta
    before = torch.random.get_rng_state()
    parse("2,3:int64<9").tensor(real=True)
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,b", "write a shape as 32,64"),
        ("", "write a shape as 32,64"),
        ("2,,3", "write a shape as 32,64"),
        ("2,-1", "can't be negative"),
        ("2:florp", "'florp' is not a dtype"),
        ("2:Tensor", "'Tensor' is not a dtype"),
        ("2<5", "a bound is for whole numbers"),
        ("2:int64<0", "a whole number above 0"),
        ("2:int64<x", "a whole number above 0"),
        ("2=3=4", "write it as 32,64"),
    ],
)
def test_an_input_that_is_refused(text, words):
    with pytest.raises(LoadError, match=words):
        parse(text)


def test_a_name_twice_is_refused():
    with pytest.raises(LoadError, match="x=… is given twice"):
        parse_all(["x=2", "x=3"])


# ---- functions, classes and models --------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "args", "kwargs"),
    [
        ("own_models:ready", 0, []),
        ("own_models:model", 0, []),
        ("own_models:one_input", 1, []),
        ("own_models:listed", 1, []),
        ("own_models:named", 0, ["ids"]),
        ("own_models:three", 1, ["scale"]),
        ("own_models.py:three", 1, ["scale"]),
        ("./own_models.py:needs_values", 1, []),
        ("own_models:Words(8)", 0, []),
        ("own_models:Words(width=4 + 4)", None, None),
    ],
)
def test_what_a_target_gives(own, target, args, kwargs):
    if args is None:
        assert "must be plain values" in refusal(target)
        return
    given = load_model(ModelSpec(target))
    assert given.name == "Words"
    assert given.model.head.weight.shape == (4, 8)
    assert len(given.args) == args
    assert sorted(given.kwargs) == kwargs


def test_a_module_in_a_package_is_imported_as_part_of_it(own, monkeypatch):
    package = own / "deep" / "inner"
    package.mkdir(parents=True)
    for folder in (own / "deep", package):
        (folder / "__init__.py").write_text("")
    (package / "parts.py").write_text("from torch import nn\ndef part(): return nn.Linear(2, 3)\n")
    (package / "net.py").write_text("from .parts import part\ndef net(): return part()\n")
    assert load_model(ModelSpec("deep/inner/net.py:net")).model.out_features == 3
    other = own / "json.py"  # a name that the standard library has
    other.write_text("from torch import nn\ndef net(): return nn.Linear(5, 1)\n")
    assert load_model(ModelSpec("./json.py:net")).model.in_features == 5
    assert sys.modules["json"] is json


def test_a_model_of_any_size_costs_nothing():
    given = load_model(ModelSpec("torch.nn:Linear(1000000, 1000000)", ("4,1000000",)))
    assert explain_autocast(given.model, *given.args).totals.parameters > 10**12


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("own_models", "not of the form package.module:factory"),
        ("own_models.py", "name a function in the file, as own_models.py:make_model"),
        ("gpt2", "take --hf gpt2"),
        ("weights.pt", "weights alone hold no code"),
        ("own_modls.py:model", "did you mean own_models.py?"),
        ("own_models:modle", "did you mean 'model'?"),
        ("no_such_module:x", "run this in its folder, or install it"),
        ("no.such.module:x", "run this in its folder, or install it"),
        ("own_models:gives_text", "gives str; it must give an nn.Module"),
        ("own_models:gives_class", "gives the class Words"),
        ("own_models:gives_four", "gives 4 things"),
        ("own_models:breaks", "ZeroDivisionError: of all things"),
        ("own_models:exits", "does not end the program"),
        ("own_models:asks", "write the value into the call, as 'own_models:asks(width=64)'"),
        ("own_models:reads", "build the model without the file"),
        ("own_models:on_gpu", "build it on the CPU"),
        ("own_models:downloads", "nothing is downloaded here"),
        ("own_models:panics", "own_models:panics failed: RuntimeError: BaseException: a panic"),
        ("own_models:several", "the first: ValueError: the first of them"),
        ("own_models:empty", "own_models:empty failed: ValueError"),
        ("own_models:later", "gives coroutine"),
        ("own_models:misnamed", "no input 'idz'; did you mean 'ids'?"),
        ("own_models:Words", "'own_models:Words(width=…)'"),
        ("own_models:Words(8", "not of the form"),
        ("", "name a model"),
    ],
)
def test_a_target_that_is_refused(own, target, words):
    assert words in refusal(target)


def test_inputs_of_the_command_line_take_the_place_of_the_factory_s(own):
    given = load_model(ModelSpec("own_models:three", ("5,7:int64",)))
    assert (given.args[0].shape, sorted(given.kwargs)) == ((5, 7), ["scale"])
    given = load_model(ModelSpec("own_models:three", ("ids=5,7:int64<10", "mask=5,7")))
    assert given.args[0].shape == (5, 7)
    assert sorted(given.kwargs) == ["mask", "scale"]
    given = load_model(ModelSpec("own_models:named", ("ids=5,7:int64",)))
    assert (given.args, given.kwargs["ids"].shape) == ((), (5, 7))
    given = load_model(ModelSpec("own_models:model", ("ids=2,3:int64", "mask.a.b=4")))
    assert given.kwargs["mask"]["a"]["b"].shape == (4,)
    assert "it takes ids, mask, scale" in refusal("own_models:model", inputs=("qqq=2,3",))


def test_ids_of_a_factory_keep_their_values(own):
    given = load_model(ModelSpec("own_models:past_the_end"))
    with pytest.raises(Exception, match="index 12 is out of range for an embedding of 10 rows"):
        explain_autocast(given.model, *given.args)


def test_what_a_script_sees_of_the_outside(own, capfd, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["amp-lessons", "explain", "x"])
    assert load_model(ModelSpec("own_models:own_words")).kwargs["scale"] == 1.0
    load_model(ModelSpec("own_models:talks"))
    out, err = capfd.readouterr()
    assert out == ""
    assert len(err) < SHOWN + 100
    assert "more characters that your code printed" in err


def test_what_programs_print_does_not_spoil_the_results(capfd):
    with heard():
        os.write(1, b"from below\n")
        os.system("echo from a program")
    out, err = capfd.readouterr()
    assert out == ""
    assert "from below" in err
    assert "from a program" in err


def test_standard_output_may_be_closed(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    monkeypatch.setattr(os, "dup", lambda _: (_ for _ in ()).throw(OSError))
    with heard():
        print("still here")
    assert sys.stderr.getvalue() == "still here\n"


# ---- batches ------------------------------------------------------------------------------------


def test_another_batch_repeats_ids_and_leaves_the_rest():
    ids, bias = torch.tensor([[1, 2], [3, 4]]), torch.ones(5)
    given = LoadedModel(
        nn.Identity(), (ids, {"x": torch.empty(2, 3, device="meta")}), {"bias": bias}
    )
    assert batch_of(given) == 2
    larger = with_batch(given, 5)
    assert larger.args[0].tolist() == [[1, 2], [3, 4], [1, 2], [3, 4], [1, 2]]
    assert larger.args[1]["x"].shape == (5, 3)
    assert larger.kwargs["bias"] is bias
    assert batch_of(LoadedModel(nn.Identity(), (torch.tensor(1.0), 3))) is None


def test_batch_of_a_factory_s_inputs(own):
    assert load_model(ModelSpec("own_models:one_input", batch=16)).args[0].shape == (16, 3)
    assert "--batch must be at least 1" in refusal("own_models:one_input", batch=0)


@pytest.mark.parametrize(
    "words",
    [
        "explain x:y --dtype fp8",
        "explain x:y --device tpu",
        "explain x:y --gpu foo",
        "explain x:y --values maybe",
        "explain x:y --batch 0",
        "explain x:y --summary --ops",
        "memory x:y --optimizer lion",
        "memory x:y --gpu foo",
        "memory x:y --length 0",
    ],
)
def test_a_wrong_option_ends_with_status_2(capsys, words):
    status, out, err = command(capsys, *words.split())
    assert (status, out) == (2, "")
    assert words.split()[2] in err


def test_what_was_assumed_is_wrapped_in_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    words = "amp-lessons: " + "parameters in float32, as autocast wants them " * 3
    model_commands._say(words)
    assert capsys.readouterr().err.count("\n") == 1
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    model_commands._say(words)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert max(map(len, lines)) <= 80


# ---- losses -------------------------------------------------------------------------------------


def test_a_loss_in_words(own):
    called, target = losses.named("torch.nn:CrossEntropyLoss", "4:int64<3")
    assert target.shape == (4,)
    assert called(torch.zeros(4, 3), target).item() == pytest.approx(1.0986, abs=1e-4)
    called, target = losses.named("torch:sum")
    assert (called(torch.ones(3), target), target) == (3, None)
    assert losses.named("") == (None, None)
    for text, shape, words in (
        ("torch:sums", "", "did you mean"),
        ("torch:float32", "", "can't be called"),
        ("", "4", "goes with --loss"),
        ("torch.nn.functional:mse_loss", "", "mse_loss takes a target: add --target SHAPE"),
        ("torch.nn:MSELoss", "", "MSELoss takes a target"),
        ("cross_entropy", "4", "write --loss torch.nn.functional:cross_entropy"),
        ("CrossEntropyLoss", "4", "write --loss torch.nn:CrossEntropyLoss"),
    ):
        with pytest.raises(LoadError, match=words):
            losses.named(text, shape)


# ---- Hugging Face, timm, torchvision ------------------------------------------------------------

SMALL = {
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 64, "n_positions": 32},
    "llama": {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 64,
        "max_position_embeddings": 32,
        "architectures": ["LlamaForCausalLM"],
        "torch_dtype": "bfloat16",
    },
    "bert": {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "vocab_size": 64,
        "architectures": ["BertForSequenceClassification"],
        "num_labels": 3,
    },
    "t5": {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "vocab_size": 64},
    "vit": {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 32,
        "patch_size": 8,
        "architectures": ["ViTForImageClassification"],
    },
    "whisper": {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "vocab_size": 64,
        "max_source_positions": 16,
        "max_target_positions": 16,
        "num_mel_bins": 8,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "decoder_start_token_id": 1,
        "suppress_tokens": None,
        "begin_suppress_tokens": None,
    },
    "clap": {
        "text_config": {
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "vocab_size": 64,
            "max_position_embeddings": 34,
        },
        "audio_config": {
            "spec_size": 32,
            "num_mel_bins": 8,
            "window_size": 2,
            "patch_embeds_hidden_size": 8,
            "hidden_size": 16,
            "depths": [1, 1],
            "num_attention_heads": [2, 2],
            "num_classes": 3,
        },
        "projection_dim": 8,
    },
}


def needs(name: str) -> None:
    """Skip where a library of the extra `models` is not installed."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"needs {name}: pip install amp-lessons[models]")


@pytest.fixture
def configs(tmp_path, monkeypatch):
    """A folder with a small config for each type, as KIND.json."""
    needs("transformers")
    for kind, settings in SMALL.items():
        (tmp_path / f"{kind}.json").write_text(json.dumps({"model_type": kind, **settings}))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "name", "inputs"),
    [
        ("gpt2", "GPT2LMHeadModel", {"input_ids": (2, 32), "labels": (2, 32)}),
        ("llama", "LlamaForCausalLM", {"input_ids": (2, 32), "labels": (2, 32)}),
        ("bert", "BertForSequenceClassification", {"input_ids": (2, 512), "labels": (2,)}),
        (
            "t5",
            "T5ForConditionalGeneration",
            {"input_ids": (2, 512), "decoder_input_ids": (2, 512), "labels": (2, 512)},
        ),
        ("vit", "ViTForImageClassification", {"pixel_values": (2, 3, 32, 32), "labels": (2,)}),
        (
            "whisper",
            "WhisperForConditionalGeneration",
            {"input_features": (2, 8, 32), "decoder_input_ids": (2, 16), "labels": (2, 16)},
        ),
    ],
)
@pytest.mark.slow
def test_a_config_gives_a_model_and_inputs_that_it_takes(configs, kind, name, inputs):
    given = load_model(ModelSpec(hf=f"{kind}.json"))
    assert given.name == name
    assert {key: tuple(value.shape) for key, value in given.kwargs.items()} == inputs
    assert "--batch, --length, --image-size or --input" in given.note
    explained = explain_autocast(given.model, kwargs=given.kwargs, device="cpu", dtype="bf16")
    assert explained.totals.flops_16bit > 0
    assert explained.rows[-1].shape_out == ()  # the loss
    without = load_model(ModelSpec(hf=f"{kind}.json", labels=False, batch=3))
    assert "labels" not in without.kwargs
    assert {value.shape[0] for value in without.kwargs.values()} == {3}


def test_a_model_of_text_and_sound(configs):
    given = load_model(ModelSpec(hf="clap.json"))
    shapes = {key: tuple(v.shape) for key, v in given.kwargs.items() if key != "return_loss"}
    assert shapes == {"input_ids": (2, 32), "input_features": (2, 1, 128, 8)}
    explained = explain_autocast(given.model, kwargs=given.kwargs, device="cpu", dtype="bf16")
    assert explained.rows[-1].shape_out == ()  # the loss


def test_the_door_says_what_it_assumed(configs):
    assert "parameters in float32" in load_model(ModelSpec(hf="llama.json")).note
    assert "the config names no class" in load_model(ModelSpec(hf="gpt2.json")).note
    assert "the config names no class" not in load_model(ModelSpec(hf="llama.json")).note


def test_the_door_says_what_a_reader_may_not_expect(configs):
    assert "32, but this model takes more" in load_model(ModelSpec(hf="llama.json", length=33)).note
    assert "takes more" not in load_model(ModelSpec(hf="llama.json", length=32)).note
    assert "the loss isn't counted" in load_model(ModelSpec(hf="llama.json", labels=False)).note
    assert "the loss isn't counted" not in load_model(ModelSpec(hf="llama.json")).note
    lines = load_model(ModelSpec(hf="gpt2", length=8)).note.splitlines()
    assert lines[0].endswith("taking transformers' default GPT2Config: 124.4 M parameters")
    assert len(lines) == 3
    known = load_model(ModelSpec(hf="llama.json", inputs=("num_items_in_batch=():int64",)))
    assert "forward does not name 'num_items_in_batch'" in known.note


def test_a_model_of_text_and_pictures_computes_its_loss(configs):
    width = {"hidden_size": 16, "intermediate_size": 32}
    small = {**width, "num_hidden_layers": 1, "num_attention_heads": 2}
    parts = {
        "text_config": {**small, "vocab_size": 64, "max_position_embeddings": 16},
        "vision_config": {**small, "image_size": 16, "patch_size": 8},
    }
    settings = {"model_type": "clip", "projection_dim": 8, **parts}
    (configs / "clip.json").write_text(json.dumps(settings))
    given = load_model(ModelSpec(hf="clip.json"))
    assert given.kwargs["return_loss"] is True
    assert "return_loss=True" in given.note
    explained = explain_autocast(given.model, kwargs=given.kwargs, device="cpu", dtype="bf16")
    assert any(row.op == "aten::nll_loss_forward" for row in explained.rows)
    assert "return_loss" not in load_model(ModelSpec(hf="clip.json", labels=False)).kwargs


BROKEN_VISION = """
import sys
import torch

def refuse(path):
    raise OSError(f"{path} was built for CUDA")

torch.ops.load_library = refuse
sys.meta_path[:] = [each for each in sys.meta_path if type(each).__name__ != "DeclaresOps"]
"""
"""A start of Python in which torchvision's compiled ops don't load, and nothing repairs that."""


def with_broken_vision(code: str) -> subprocess.CompletedProcess[str]:
    needs("torchvision")
    command = [sys.executable, "-c", f"{BROKEN_VISION}\n{code}"]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.slow
def test_a_torchvision_whose_ops_do_not_load_stops_an_import():
    done = with_broken_vision("import torchvision")
    assert "operator torchvision::nms does not exist" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", ["'torchvision.models:resnet18'", "timm='resnet18'"])
def test_the_doors_open_beside_a_torchvision_whose_ops_do_not_load(words):
    needs("timm")
    code = f"from amp_lessons.amp.loading import *; print(load_model(ModelSpec({words})).name)"
    done = with_broken_vision(code)
    assert done.stdout == "ResNet\n", done.stderr


def test_a_torchvision_that_lacks_another_op_is_told_to_be_reinstalled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "raise RuntimeError('operator torchvision::new_op does not exist')\nmake = None"
    (tmp_path / "old_vision.py").write_text(text)
    with pytest.raises(LoadError, match=r"torchvision doesn't fit this torch: reinstall the two"):
        load_model(ModelSpec("old_vision.py:make"))


@pytest.mark.slow
def test_the_environment_of_the_tests_imports_what_needs_torchvision():
    for name in ("torchvision", "timm", "peft", "transformers"):
        needs(name)
    code = "import torchvision, timm, peft; from transformers import Trainer"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_inputs_of_the_command_line_decide_the_others_sizes(configs):
    given = load_model(ModelSpec(hf="llama.json", inputs=("input_ids=4,8:int64<64",)))
    assert {key: tuple(value.shape) for key, value in given.kwargs.items()} == {
        "input_ids": (4, 8),
        "labels": (4, 8),
    }
    given = load_model(ModelSpec(hf="llama.json", inputs=("4,8:int64",)))
    assert given.args[0].shape == given.kwargs["labels"].shape == (4, 8)
    assert load_model(ModelSpec(hf="llama.json", length=16)).kwargs["input_ids"].shape == (2, 16)


def test_other_ways_to_the_same_config(configs):
    (configs / "saved").mkdir()
    (configs / "saved" / "config.json").write_text((configs / "llama.json").read_text())
    for wanted in (
        ModelSpec(hf="saved"),
        ModelSpec("saved"),
        ModelSpec("llama.json"),
        ModelSpec("transformers:LlamaForCausalLM", hf="llama.json"),
        ModelSpec("transformers:AutoModelForCausalLM", hf="llama.json"),
    ):
        assert load_model(wanted).name == "LlamaForCausalLM"
    assert load_model(ModelSpec("transformers:LlamaModel", hf="saved")).name == "LlamaModel"
    given = load_model(ModelSpec("transformers:GPT2Config(n_layer=1, n_embd=16, n_head=2)"))
    assert (given.name, len(given.model.transformer.h)) == ("GPT2LMHeadModel", 1)


def test_a_model_that_looks_at_its_initial_weights_is_still_fake(configs):
    """SigLIP draws from a normal distribution until the values suit it."""
    given = load_model(ModelSpec("transformers:SiglipConfig"))
    parameters = list(given.model.parameters())
    assert all(isinstance(p, FakeTensor) for p in parameters)
    assert sum(p.numel() for p in parameters) > 10**8


def test_a_model_type_without_a_file_is_the_library_s_default(configs):
    given = load_model(ModelSpec(hf="gpt2", batch=1))
    assert sum(p.numel() for p in given.model.parameters()) == 124_439_808
    assert "transformers' default GPT2Config" in given.note
    rows = given.model.transformer.wte.num_embeddings
    assert int(given.kwargs["input_ids"].max()) < rows == 50257


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"hf": "meta-llama/Llama-3.2-1B"},
            "AutoConfig.from_pretrained('meta-llama/Llama-3.2-1B')",
        ),
        ({"hf": "lama"}, "--hf llama for that type's default"),
        ({"hf": "nope.json"}, "no file or folder nope.json"),
        ({"hf": "."}, "holds no config.json"),
        ({"hf": "weights.safetensors"}, "no file or folder"),
        ({"hf": "broken.json"}, "can't be read as JSON"),
        ({"hf": "tokenizer.json"}, "neither model_type (transformers) nor _class_name"),
        ({"hf": "pipeline"}, "a pipeline's folder"),
        ({"hf": "adapter"}, "its base model's config"),
        ({"hf": "new.json"}, "does not know the model type 'gpt22'; did you mean 'gpt2'?"),
        ({"hf": "custom.json"}, "its code is not in transformers"),
        ({"hf": "llama.json", "target": "transformers:GPT2LMHeadModel"}, "takes GPT2Config"),
        ({"hf": "llama.json", "target": "torch.nn:Linear"}, "not a Hugging Face model class"),
        ({"hf": "llama.json", "target": "transformers:LlamaForCausal"}, "did you mean"),
        ({"target": "transformers:GPT2LMHeadModel"}, "give its config with --hf config.json"),
        ({"hf": "llama.json", "timm": "resnet18"}, "leave out the other one"),
        ({"hf": "llama.json", "inputs": ("input_idz=2,3:int64",)}, "did you mean 'input_ids'?"),
        ({"hf": "llama.json", "inputs": ("input_ids=2,3",)}, "write --input input_ids=2,3:int64"),
        ({"hf": "llama.json", "inputs": ("2,3:int64<65",)}, "the largest id is 63"),
        ({"hf": "llama.json", "inputs": ("foo=2,16",)}, "no input 'foo'; it takes input_ids, "),
        (
            {"hf": "llama.json", "inputs": ("labels=2,17:int64",)},
            "labels are 2,17 and input_ids are 2,32",
        ),
        ({"hf": "gpt2.json", "length": 33}, "--length is at most 32 here"),
        ({"hf": "gpt2.json", "inputs": ("input_ids=2,33:int64",)}, "--length is at most 32 here"),
        ({"hf": "nowhere/"}, "there is no folder nowhere/"),
        ({"hf": "one/two/three"}, "there is no folder one/two/three"),
    ],
)
def test_a_config_that_is_refused(configs, options, words):
    (configs / "broken.json").write_text("{")
    (configs / "tokenizer.json").write_text('{"version": "1.0"}')
    (configs / "new.json").write_text('{"model_type": "gpt22"}')
    (configs / "custom.json").write_text('{"model_type": "mine", "auto_map": {}}')
    for folder, name in (("pipeline", "model_index"), ("adapter", "adapter_config")):
        (configs / folder).mkdir()
        (configs / folder / f"{name}.json").write_text("{}")
    assert words in refusal(**options)


def test_a_name_that_timm_does_not_have():
    needs("timm")
    assert "did you mean resnet18" in refusal(timm="resnet19")
    assert "did you mean vit_base_" in refusal(timm="vit_base")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["no_file.py:Model", "--input", "2,4"], "there is no file no_file.py"),
        (["json"], "is not of the form package.module:factory"),
        (["json:loads("], "is not of the form package.module:factory"),
        (["json:loads", "--timm", "resnet18"], "--timm names a whole model"),
        ([], "name a model"),
        (["--hf", "no_file.json"], "there is no file or folder no_file.json"),
        (["--hf", "gtp2"], "--hf gpt2 for that type's default"),
        (["--hf", "unknown.json"], "does not know the model type 'gtp2'; did you mean 'gpt2'?"),
        (["--timm", "resnet18"], "timm is not installed"),
        (["--timm", "resnet19"], "timm has no model 'resnet19'; did you mean resnet"),
        (["nets.py:Modl"], "nets.py has no 'Modl'; did you mean 'Model'?"),
        (["nets:Modl.of_size(3)"], "nets has no 'Modl.of_size'; did you mean 'Model'?"),
        (["starred:Modl"], "starred has no 'Modl'; did you mean 'Model'?"),
    ],
)
def test_what_is_wrong_without_torch_is_said_without_torch(tmp_path, words, said):
    if "--timm" in words:
        needs("timm")
    (tmp_path / "unknown.json").write_text('{"model_type": "gtp2"}')
    (tmp_path / "nets.py").write_text("import torch\nclass Model(torch.nn.Linear): pass")
    (tmp_path / "starred.py").write_text("from nets import *")
    lacks = words == ["--timm", "resnet18"]
    code = (
        "import importlib.util, sys\nfrom amp_lessons.app import cli\n"
        f"if {lacks}: importlib.util.find_spec = lambda name: None\n"
        "for command in ('explain', 'memory'):\n"
        f"    try: cli.main([command, *{words!r}])\n"
        "    except SystemExit as leaving: assert leaving.code == 1\n"
        "    else: raise AssertionError\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(said) == 2, done.stderr


def test_the_models_of_timm_are_read_from_its_source():
    needs("timm")
    import timm
    from timm.models import _registry

    models, renamed = source_names.models_of_timm()
    assert models == set(timm.list_models())
    assert renamed == set(_registry._deprecated_models)


def test_a_timm_whose_models_stand_elsewhere_is_asked_itself(monkeypatch):
    needs("timm")
    monkeypatch.setattr(source_names, "models_of_timm", lambda: (frozenset(), frozenset()))
    assert refusal(timm="resnet19") == "timm has no model 'resnet19'"


@pytest.mark.parametrize(
    "source",
    [
        "globals()['Made'] = 1",
        "def __getattr__(name): return 1",
        "import sys; setattr(sys.modules[__name__], 'Made', 1)",
        "from json import *; from no_such_module_here import *",
        "def broken(:",
        "for Made in (): pass",
        "def f():\n    global Made\n    Made = 1",
        "try:\n    import json as Made\nexcept ImportError: pass",
        "match 1:\n    case Made: pass",
        "if (Made := 1): pass",
    ],
)
def test_a_name_that_a_source_may_have_is_left_to_the_import(tmp_path, source):
    (tmp_path / "own.py").write_text(source)
    known = source_names.names_of(tmp_path / "own.py")
    assert known is None or "Made" in known


def test_the_names_in_the_courses_own_source_are_all_found():
    """Every module of the package that is loaded, against what it really has."""
    import amp_lessons.amp.loading.loader as _  # noqa: F401

    looked = 0
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.startswith("amp_lessons.") and file and file.endswith(".py"):
            known = source_names.names_of(Path(file))
            if known is not None:
                looked += 1
                assert {each for each in vars(module) if each[:2] != "__"} <= known, name
    assert looked > 20


def test_the_model_types_are_those_of_transformers():
    needs("transformers")
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    assert hf_config.known_types() == set(CONFIG_MAPPING)


def test_a_transformers_whose_types_stand_elsewhere_is_asked_itself(monkeypatch):
    needs("transformers")
    monkeypatch.setattr(hf_config, "_TYPES_IN", ("no_such_file.py",))
    hf_config.known_types.cache_clear()
    try:
        assert "or --hf gpt2 for that type's default" in refusal(hf="gtp2")
    finally:
        hf_config.known_types.cache_clear()


def test_a_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(libraries.importlib.util, "find_spec", lambda _: None)
    assert refusal(hf="gpt2") == "transformers is not installed: pip install transformers"
    assert refusal(timm="resnet18") == "timm is not installed: pip install timm"


def test_a_config_from_the_cache(configs, monkeypatch):
    monkeypatch.setattr(hf_config, "_cached", lambda name: configs / "llama.json")
    given = load_model(ModelSpec(hf="somebody/llama"))
    assert given.name == "LlamaForCausalLM"
    assert "from this machine's Hugging Face cache" in given.note


def test_timm_and_torchvision_say_what_images_they_take():
    needs("timm")
    needs("torchvision")
    given = load_model(ModelSpec(timm="resnet18", image_size=64))
    assert given.kwargs["x"].shape == (2, 3, 64, 64)
    given = load_model(ModelSpec(timm="vit_tiny_patch16_224", image_size=32, batch=1))
    assert given.kwargs["x"].shape == (1, 3, 32, 32)
    assert explain_autocast(given.model, kwargs=given.kwargs).totals.flops_16bit > 0
    given = load_model(ModelSpec('timm:create_model("resnet18")'))
    assert given.kwargs["x"].shape == (2, 3, 224, 224)
    libraries.library("timm")  # makes torchvision importable here
    assert load_model(ModelSpec("torchvision.models:resnet18")).kwargs["x"].shape == (
        2,
        3,
        224,
        224,
    )


@pytest.mark.slow
def test_a_unet_of_diffusers(configs):
    needs("diffusers")
    settings = {
        "_class_name": "UNet2DConditionModel",
        "sample_size": 16,
        "block_out_channels": [8, 16],
        "layers_per_block": 1,
        "norm_num_groups": 4,
        "cross_attention_dim": 12,
        "attention_head_dim": 4,
        "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
        "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
        "addition_embed_type": "text_time",
        "addition_time_embed_dim": 4,
        "projection_class_embeddings_input_dim": 32,
    }
    (configs / "unet.json").write_text(json.dumps(settings))
    given = load_model(ModelSpec(hf="unet.json"))
    assert given.kwargs["sample"].shape == (2, 4, 16, 16)
    assert given.kwargs["encoder_hidden_states"].shape == (2, 77, 12)
    assert given.kwargs["added_cond_kwargs"]["text_embeds"].shape == (2, 8)
    explained = explain_autocast(given.model, kwargs=given.kwargs, device="cpu", dtype="bf16")
    assert explained.rows[-1].shape_out == (2, 4, 16, 16)
    assert "not of LlamaForCausalLM" in refusal("transformers:LlamaForCausalLM", hf="unet.json")


def test_positions_that_begin_after_the_padding_leave_room():
    from types import SimpleNamespace

    text = SimpleNamespace(model_type="roberta", max_position_embeddings=66, pad_token_id=1)

    class Small(nn.Module):
        main_input_name = "input_ids"

        def forward(self, input_ids):
            return input_ids

    made = kinds._Text(Small(), text, kinds.ChosenSizes(), False).specs()
    assert made["input_ids"].shape == (2, 64)


# ---- the command --------------------------------------------------------------------------------


def command(capsys, *words):
    with pytest.raises(SystemExit) as leaving:
        cli.main([*words])
    return leaving.value.code, *capsys.readouterr()


def test_the_command_takes_every_door(own, capsys):
    status, out, err = command(capsys, "explain", "own_models:one_input", "--json", "--eval")
    assert (status, err) == (0, "")
    assert json.loads(out)["model"] == "Words"
    status, out, err = command(
        capsys,
        *("explain", "own_models:one_input", "--device", "cpu", "--dtype", "bf16", "--json"),
        *("--loss", "torch.nn.functional:mse_loss", "--target", "2,3,4"),
    )
    assert (status, err) == (0, "")
    assert json.loads(out)["rows"][-1]["op"] == "aten::mse_loss"
    status, out, err = command(capsys, "explain", "own_models:one_input", "--no-grad", "--json")
    assert json.loads(out)["totals"]["saved_amp"] == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("own_models:model", "give every input that forward asks for"),
        ("own_models:model --input 2,3", "write --input input_ids=2,16:int64"),
        ("own_models:past_the_end", "index 12 is out of range"),
        ("own_models:model --input ids=2,3:int64<11", "index 10 is out of range"),
        ("own_models:one_input --loss torch:sums", "did you mean"),
        ("own_models:one_input --loss own_models:nothing --target 2", "leave out --target"),
        ("own_models:one_input --loss own_models:nothing", "the loss gives NoneType"),
        (
            "torch.nn:Linear(3,4) --input 2,3 --loss torch.nn.functional:cross_entropy --target 2",
            "try --target 2:int64",
        ),
        ("own_models:looks --values fake", "--values real"),
    ],
)
def test_the_command_fails_in_one_line_with_the_cure(own, capsys, words, message):
    status, out, err = command(capsys, "explain", *words.split())
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert message in err


def test_a_model_that_looks_at_values_is_built_for_real(own, capsys):
    for values in ("auto", "real"):
        words = ("own_models:looks", "--device", "cpu", "--values", values, "--json")
        status, out, err = command(capsys, "explain", *words)
        assert (status, err) == (0, "")
        assert json.loads(out)["values"] == "real"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are another matter there")
def test_ctrl_c_ends_a_long_call_into_c(tmp_path):
    """A handler of Python has to wait for the end of the line, and this one takes an hour."""
    (tmp_path / "slow_model.py").write_text(
        "import hashlib, pathlib\n"
        "def make():\n"
        "    pathlib.Path('working').touch()\n"
        "    hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)\n"
    )
    words = [sys.executable, "-m", "amp_lessons", "explain", "slow_model:make", "--values", "real"]
    running = subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    with running:
        wait_until((tmp_path / "working").exists, running)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate()
    assert err.strip() == "amp-lessons: stopped with Ctrl+C"
    assert running.returncode == 130
