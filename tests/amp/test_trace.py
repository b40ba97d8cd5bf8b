"""The trace of a model: equal to a real run on the CPU, true to CUDA's rules, and without trace."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
import threading
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

from amp_lessons.amp.explain import TraceError, explain_autocast
from amp_lessons.amp.fake_tensors.cuda import ensure_cuda_guard
from amp_lessons.amp.fake_tensors.models import fake_like
from amp_lessons.amp.training import models
from amp_lessons.app import cli

EXAMPLES = ("mlp", "cnn", "lstm", "transformer_encoder", "custom_function")
DTYPES = (torch.bfloat16, torch.float16)


class Of(nn.Module):
    """A model of one function, with a parameter, so that there is something to train."""

    def __init__(self, function, width: int = 8) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.function = function

    def forward(self, *inputs):
        return self.function(self.linear(inputs[0]), *inputs[1:])


def explain(function, *inputs, **options):
    return explain_autocast(Of(function), torch.randn(4, 8), *inputs, **options)


def kinds(explained) -> list[str]:
    return [hazard.kind for hazard in explained.hazards]


# ---- against a real run on the CPU --------------------------------------------------------------


class CastCounter(TorchDispatchMode):
    """Counts the casts between floating dtypes that really run."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and args[0].is_floating_point():
            self.count += args[0].dtype != result.dtype
        return result


def real_run(model, inputs, dtype, enabled):
    """What happens when the model runs for real: casts, output dtypes, bytes kept."""
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    kept, outputs, hooks = {}, {}, []

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    for name, module in model.named_modules():
        hooks.append(
            module.register_forward_hook(
                lambda _, __, out, name=name: outputs.update({name: tree_leaves(out)[0].dtype})
            )
        )
    with torch.autocast("cpu", dtype=dtype, enabled=enabled), CastCounter() as forward:
        hooked = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
        with hooked:
            output = model(*inputs)
    for hook in hooks:
        hook.remove()
    first = tree_leaves(output)[0]
    with CastCounter() as backward:
        first.backward(torch.ones_like(first))
    saved = sum(storage.nbytes() for storage in kept.values())
    return {"casts": (forward.count, backward.count), "saved": saved, "outputs": outputs}


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", EXAMPLES)
def test_cpu_trace_equals_a_real_run(name, dtype, training):
    torch.manual_seed(0)
    model, inputs = getattr(models, name)()
    model.train(training)
    explained = explain_autocast(model, *inputs, device="cpu", dtype=dtype)
    try:
        real = real_run(model, inputs, dtype, enabled=True)
    except RuntimeError as error:
        if "primitive descriptor" not in str(error):
            raise
        pytest.skip(f"this CPU cannot run it: {error}")
    plain = real_run(model, inputs, dtype, enabled=False)
    totals = explained.totals
    assert (totals.casts_forward, totals.casts_backward) == real["casts"]
    assert totals.casts_forward > 0
    if name != "lstm" and not (name == "transformer_encoder" and training):
        # oneDNN's backward casts on its own account; plain attention casts what nobody uses
        assert sum(row.grad_casts for row in explained.rows) == totals.casts_backward
    assert totals.saved_amp == real["saved"] > 0
    assert totals.saved_fp32 == plain["saved"]
    last = {row.path: row.dtype_out for row in explained.rows}
    compared = [path for path in last if path in real["outputs"] and path]
    assert len(compared) >= 2
    for path in compared:
        module = model.get_submodule(path)
        if not list(module.children()) and not isinstance(module, nn.LSTM):
            assert f"torch.{last[path]}" == str(real["outputs"][path]), path


def test_flops_equal_the_flop_counter():
    from torch.utils.flop_counter import FlopCounterMode

    for name in ("mlp", "cnn", "custom_function"):
        model, inputs = getattr(models, name)()
        with FlopCounterMode(display=False) as counter:
            model(*inputs)
        assert explain_autocast(model, *inputs).totals.flops == counter.get_total_flops() > 0


# ---- CUDA's rules, without CUDA -----------------------------------------------------------------


def row_of(explained, op):
    return next(row for row in explained.rows if row.op == f"aten::{op}")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_cuda_rules_differ_from_the_cpus(dtype):
    def function(x):
        return F.layer_norm(x, (8,)).sum() + x.softmax(-1).sum() + x.exp().sum()

    low = str(dtype).removeprefix("torch.")
    cuda = explain(function, device="cuda", dtype=dtype)
    cpu = explain(function, device="cpu", dtype=dtype)
    for op in ("native_layer_norm", "_softmax", "exp", "sum"):
        assert row_of(cuda, op).dtype_out == "float32"
        assert row_of(cpu, op).dtype_out == low
    assert row_of(cuda, "addmm").computed_in == row_of(cpu, "addmm").computed_in == low


def test_rows_name_dtypes_and_casts():
    model, inputs = models.mlp()
    explained = explain_autocast(model, *inputs)
    first, second = explained.rows[0], explained.rows[2]
    assert [row.path for row in explained.rows] == ["0", "1", "2", "3", "4"]
    assert first.dtypes_in == ("float32",) * 3
    assert (first.computed_in, first.dtype_out) == ("float16", "float16")
    assert {cast.what for cast in first.casts} == {"0.weight", "0.bias", "activation"}
    assert {cast.what for cast in second.casts} == {"2.weight", "2.bias"}
    assert explained.totals.casts_step == 13
    assert explained.totals.cached_bytes == 2 * sum(p.numel() for p in model.parameters())


class Ten(nn.Module):
    """The same layer, ten times, as in the subject's count of casts."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x):
        return [self.layer(x) for _ in range(10)]


@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_the_cast_cache_is_seen(device):
    half = torch.randn(4, 8, dtype=torch.float16)
    cached = explain_autocast(Ten(), half, device=device).totals
    assert (cached.casts_forward, cached.casts_cached) == (2, 18)
    frozen = explain_autocast(Ten().requires_grad_(False), half, device=device)
    assert (frozen.totals.casts_forward, frozen.totals.casts_cached) == (20, 0)
    assert [c.how for row in frozen.rows for c in row.casts].count("again") == 18
    with torch.no_grad():
        assert explain_autocast(Ten(), half, device=device).totals.casts_forward == 2
    with torch.inference_mode():
        assert explain_autocast(Ten(), half, device=device).totals.casts_forward == 20


def test_regions_inside_the_model_count():
    def function(x):
        with torch.autocast("cuda", enabled=False):
            y = x.float() @ x.float().t()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            return y @ y

    explained = explain(function)
    assert [row.computed_in for row in explained.rows if row.op == "aten::mm"] == [
        "float32",
        "bfloat16",
    ]


def test_conversions_of_the_models_own_are_no_casts_of_autocast():
    explained = explain(lambda x: x.float().half().double())
    assert explained.totals.casts_forward == 3  # input, weight, bias
    assert [row.op for row in explained.rows].count("aten::_to_copy") == 3


def test_indexing_and_device_strings_work_without_a_gpu():
    def function(x):
        y = x[None, :, 1:3][0] + torch.ones(2, device="cuda") + torch.zeros(2).to("cuda")
        y[0] = 1.0
        return y.to("cuda") + torch.arange(2, device=x.device).cuda()

    assert explain(function).rows[-1].dtype_out == "float32"


def test_attention_is_the_gpus_on_cuda():
    def function(x):
        q = x.view(1, 1, 4, 8)
        masked = F.scaled_dot_product_attention(q, q, q, torch.ones(4, 4, device=x.device) > 0)
        return F.scaled_dot_product_attention(q, q, q, is_causal=True) + masked

    ops = [row.op for row in explain(function, gpu="a100").rows]
    assert "aten::_scaled_dot_product_flash_attention" in ops
    assert "aten::_scaled_dot_product_efficient_attention" in ops
    model, inputs = models.transformer_encoder()
    assert explain_autocast(model, *inputs).totals.share_16bit == 1.0


def test_a_real_backward_still_works_after_a_cuda_trace():
    explain(lambda x: x)
    x = torch.ones(3, requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    if not torch.cuda.is_available():
        with pytest.raises((AssertionError, RuntimeError), match=r"CUDA|NVIDIA"):  # by the build
            torch.ones(1, device="cuda")


LAYERS = {
    "gru": (lambda: nn.GRU(8, 8, 2, bidirectional=True), (2, 5, 8)),
    "gru cell": (lambda: nn.GRUCell(8, 8), (4, 8)),
    "rnn": (lambda: nn.RNN(8, 8), (2, 5, 8)),
    "lstm cell": (lambda: nn.LSTMCell(8, 8), (4, 8)),
    "projected lstm": (lambda: nn.LSTM(8, 8, proj_size=4), (2, 5, 8)),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)), (4, 8)),
    "spectral norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8)), (4, 8)),
    "transposed convolution": (lambda: nn.ConvTranspose2d(3, 4, 3), (2, 3, 8, 8)),
    "instance norm": (lambda: nn.InstanceNorm2d(3, affine=True), (2, 3, 8, 8)),
    "rms norm": (lambda: nn.RMSNorm(8), (4, 8)),
    "prelu": (lambda: nn.PReLU(), (4, 8)),
    "checkpoint": (lambda: Of(lambda x: checkpoint(F.gelu, x, use_reentrant=False)), (4, 8)),
    "vmap": (lambda: Of(torch.vmap(lambda x: x * 2)), (4, 8)),
    "fft": (lambda: Of(lambda x: torch.fft.rfft(x).abs()), (4, 8)),
}


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_every_kind_are_traced(name, device):
    make, shape = LAYERS[name]
    explained = explain_autocast(make(), torch.randn(shape), device=device)
    assert explained.rows
    assert explained.totals.saved_fp32
    assert "in-place or out= mix" not in kinds(explained)


# ---- hazards ------------------------------------------------------------------------------------


def test_bce_after_sigmoid():
    target = torch.rand(4, 8)

    def function(x, target):
        return F.binary_cross_entropy(x.sigmoid(), target)

    cuda = explain(function, target, device="cuda")
    assert [(h.kind, h.severity) for h in cuda.hazards] == [("BCE after sigmoid", "raises")]
    assert "unsafe to autocast" in cuda.hazards[0].message
    assert "test_trace.py" in cuda.hazards[0].where[0]
    assert "with_logits" in cuda.hazards[0].fix
    cpu = explain(function, target, device="cpu")
    assert [(h.kind, h.severity) for h in cpu.hazards] == [("BCE after sigmoid", "wrong numbers")]
    better = explain(F.binary_cross_entropy_with_logits, target)
    assert better.hazards == ()


@pytest.mark.parametrize(
    ("function", "dtype", "found"),
    [
        (lambda x: (x + 1e-8).log(), "float16", True),
        (lambda x: (x + 1e-7).log(), "float16", False),
        (lambda x: (x + 1e-8).log(), "bfloat16", False),
        (lambda x: x.clamp(min=1e-8).log(), "float16", True),
        (lambda x: (x.float() + 1e-8).log(), "float16", False),
        (lambda x: x / (x + 1e-12), "float16", True),
        (lambda x: x / (x * x + 1e-9).sqrt(), "float16", True),
        (lambda x: (x + 1e-9).rsqrt(), "float16", True),
        (lambda x: (x + 1e-9) / 2, "float16", False),
        (lambda x: x / (x + 1e-3), "float16", False),
    ],
)
def test_eps_that_vanishes(function, dtype, found):
    for device in ("cuda", "cpu"):
        assert ("eps vanishes" in kinds(explain(function, device=device, dtype=dtype))) == found


@pytest.mark.parametrize(
    ("function", "dtype", "found"),
    [
        (lambda x: x.masked_fill(x > 0, -1e9), "float16", True),
        (lambda x: x.masked_fill(x > 0, -1e9), "bfloat16", False),
        (lambda x: x.masked_fill(x > 0, -1e4), "float16", False),
        (lambda x: x.masked_fill(x > 0, float("-inf")), "float16", False),
        (lambda x: x.masked_fill(x > 0, torch.finfo(x.dtype).min), "float16", False),
        (lambda x: torch.where(x > 0, x, -1e9), "float16", True),
        (lambda x: x + -1e9, "float16", True),
        (lambda x: x.float().masked_fill(x > 0, -1e9), "float16", False),
    ],
)
def test_constants_beyond_the_format(function, dtype, found):
    assert ("constant beyond the format" in kinds(explain(function, dtype=dtype))) == found


def test_in_place_and_out_mixes():
    other = torch.randn(4, 8)
    assert "in-place or out= mix" in kinds(explain(lambda x, y: x.add_(y), other))
    assert "in-place or out= mix" not in kinds(explain(lambda x, y: y.mul_(x), other))  # float32
    assert "in-place or out= mix" not in kinds(explain(lambda x, y: x + y, other))
    assert "in-place or out= mix" not in kinds(explain(lambda x: x.add_(1)))

    def into_out(x, y):
        with torch.no_grad():
            return torch.mul(y, 2, out=torch.empty_like(x))

    assert "in-place or out= mix" in kinds(explain(into_out, other))
    model, inputs = models.cnn()
    assert "in-place or out= mix" not in kinds(explain_autocast(model, *inputs))


def test_reductions_left_in_16_bit():
    def function(x):
        return x.mean() + x.var() + x.sum()

    model, x = Of(function), torch.randn(512, 8)
    assert [h.op for h in explain_autocast(model, x).hazards] == ["var"]
    assert {h.op for h in explain_autocast(model, x, device="cpu").hazards} == {"var", "sum"}
    assert explain_autocast(model, x, dtype=torch.bfloat16).hazards == ()
    assert explain(lambda x: x.float().var()).hazards == ()


def test_parameters_and_float64():
    half = explain_autocast(nn.Linear(8, 8).half(), torch.randn(4, 8))
    assert [(h.kind, h.severity) for h in half.hazards] == [("16-bit parameters", "raises")]
    assert "weight" in half.hazards[0].message
    bfloat = explain_autocast(nn.Linear(8, 8).bfloat16(), torch.randn(4, 8), dtype="bf16")
    assert [(h.kind, h.severity) for h in bfloat.hazards] == [("16-bit parameters", "watch")]
    assert "float64" in kinds(explain(lambda x: x.double() * 2))


def test_log_of_a_probability():
    assert "log of a probability" in kinds(explain(lambda x: x.sigmoid().log()))
    assert "log of a probability" in kinds(explain(lambda x: x.softmax(-1).log(), device="cpu"))
    assert "log of a probability" not in kinds(explain(lambda x: x.softmax(-1).log()))  # fp32


def test_custom_function_without_custom_fwd():
    model, inputs = models.custom_function()
    assert kinds(explain_autocast(model, *inputs)) == ["custom Function"]

    class Decorated(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cuda")
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @torch.amp.custom_bwd(device_type="cuda")
        def backward(ctx, grad):
            return grad * 2

    assert explain(Decorated.apply).hazards == ()


def test_alike_hazards_come_once():
    model = nn.Sequential(Of(lambda x: x / (x + 1e-9)), Of(lambda x: x / (x + 1e-9)))
    (hazard,) = explain_autocast(model, torch.randn(4, 8)).hazards
    assert (hazard.count, hazard.paths) == (2, ("0", "1"))


# ---- bad input ----------------------------------------------------------------------------------


def error_of(model, *inputs, **options) -> TraceError:
    with pytest.raises(TraceError) as caught:
        explain_autocast(model, *inputs, **options)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize(
    ("device", "dtype", "word"),
    [
        ("tpu", "float16", "tpu"),
        ("cuda:1", "float16", "cuda:1"),
        (None, "float16", "None"),
        ("cuda", "float8", "float8"),
        ("cuda", torch.float32, "float32"),
        ("cpu", None, "None"),
    ],
)
def test_unknown_device_or_dtype(device, dtype, word):
    error = error_of(*models.mlp()[:1], torch.randn(2, 64), device=device, dtype=dtype)
    assert word in str(error)


def test_what_is_no_model():
    assert "Linear()" in str(error_of(nn.Linear))
    assert "function" in str(error_of(models.mlp))
    assert "no shape yet" in str(error_of(nn.LazyLinear(3), torch.randn(2, 2)))


def test_a_missing_input_and_one_too_many():
    class Two(nn.Module):
        def forward(self, x, y):
            return x + y

    assert "'y'" in str(error_of(Two(), torch.ones(1)))
    assert "give every input" in str(error_of(Two(), torch.ones(1)))
    assert "too many" in str(error_of(Two(), *[torch.ones(1)] * 3))
    assert explain_autocast(Two(), torch.ones(1), kwargs={"y": torch.ones(1)}).rows


def test_a_model_on_two_devices():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    ensure_cuda_guard()
    model[1].weight = fake_like(model[1].weight, FakeTensorMode(), "cuda")
    error = str(error_of(model, torch.ones(1, 2)))
    assert "0.weight on cpu" in error
    assert "1.weight on cuda:0" in error


def test_a_tensor_that_stays_behind():
    class Forgot(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(8, 8)
            self.scale = torch.ones(8)

        def forward(self, x):
            return self.inner(x) * self.scale

    error = error_of(Forgot(), torch.randn(2, 8))
    assert "register it as a buffer" in str(error)
    assert "aten::mul" in str(error)
    assert explain_autocast(Forgot(), torch.randn(2, 8), device="cpu").rows


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if x.sum() > 0 else -x,
        lambda x: x * int(x.argmax()) if x.sum().item() > 0 else x,
        lambda x: -x if torch.equal(x, x.abs()) else x,
        lambda x: x if x[x > 0].numel() > 3 else -x,
    ],
)
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_branch_on_data_says_where(function, device):
    model = nn.Sequential(nn.ReLU(), Of(function))
    error = error_of(model, torch.randn(4, 8), device=device, values="fake")
    assert error.kind == "cannot follow"
    assert (error.path, error.op.partition("::")[0]) == ("1", "aten")
    assert "test_trace.py:" in error.where
    assert "1 (Of)" in str(error)
    assert "value" in str(error)
    assert "explain the parts before and after it" in str(error)
    assert [row.path for row in error.explanation.rows][:2] == ["0", "1.linear"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to ask")
@pytest.mark.parametrize(
    "ask",
    [lambda: torch.Generator("cuda"), torch.cuda.Stream, torch.cuda.mem_get_info],
    ids=["generator", "stream", "memory"],
)
def test_code_that_needs_a_gpu_is_not_told_as_the_models_fault(ask):
    error = error_of(nn.Sequential(Of(lambda x: (ask(), x)[1])), torch.randn(4, 8))
    assert error.kind == "cannot follow"
    assert "ask torch.cuda.is_available() in the code first" in str(error)
    assert "ATen_cuda library. PyTorch" not in str(error)  # of torch's words the first sentence


def test_an_error_in_the_models_own_code_says_where():
    def function(x):
        raise KeyError("oops")

    error = error_of(nn.Sequential(Of(function)), torch.randn(4, 8))
    assert (error.path, error.op) == ("0", "")
    assert "oops" in str(error)


def test_a_gradient_inside_the_forward_is_told_apart():
    def function(x):
        return torch.autograd.grad(x.sum(), x, create_graph=True)[0]

    assert explain(function, device="cpu").rows
    if not torch.cuda.is_available():
        error = error_of(Of(function), torch.randn(4, 8), values="fake")
        assert 'device="cpu"' in str(error)


def test_shapes_that_do_not_fit_are_quiet(capfd, caplog):
    error = error_of(nn.Sequential(nn.Linear(3, 3)), torch.randn(2, 4))
    assert "0 (Linear)" in str(error)
    out = capfd.readouterr()
    assert out.out == out.err == caplog.text == ""


# ---- the model is left as it was ----------------------------------------------------------------


def state_of(model) -> dict:
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    return {
        "values": {name: (id(t), t.detach().clone()) for name, t in tensors.items()},
        "grads": {n: p.grad is not None and p.grad.clone() for n, p in model.named_parameters()},
        "flags": [m.training for m in model.modules()],
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
        "attributes": [sorted(vars(m)) for m in model.modules()],
        "rng": (torch.get_rng_state(), random.getstate(), str(np.random.get_state())),
        "autocast": (torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")),
    }


def same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b


class Restless(nn.Module):
    """Changes everything that a forward can change."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.calls = 0
        self.lock = threading.Lock()
        self.seen = []

    def forward(self, x, stop=False):
        self.calls += 1
        self.steps += 1
        self.latest = x
        self.seen.append(x)
        x = F.dropout(self.norm(x)) * random.random() * np.random.rand() + torch.randn_like(x)
        self.eval()
        with torch.no_grad():
            self.norm.weight.mul_(2)
        x.sum().item() if stop else None
        return x


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.parametrize("stop", [False, True])
def test_the_model_is_left_as_it_was(device, stop):
    torch.manual_seed(0)
    model = Restless()
    handle = model.norm.register_forward_hook(lambda module, args, out: out + 1)
    x = torch.randn(4, 8)
    model.norm(x).sum().backward()
    before, x_before = state_of(model), x.clone()
    explain_autocast(model, x, stop, device=device, values="fake")
    explain_autocast(model, x, stop, device=device)
    assert same(before, state_of(model))
    assert (model.calls, model.seen, model.training) == (0, [], True)
    assert torch.equal(x, x_before)
    assert not x.requires_grad
    handle.remove()


def test_tied_weights_stay_tied_and_are_cast_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(8, 8, False), nn.Linear(8, 8, False)
            self.second.weight = self.first.weight

        def forward(self, x):
            return self.second(self.first(x))

    totals = explain_autocast(Tied(), torch.randn(2, 8)).totals
    assert (totals.casts_forward, totals.casts_cached) == (2, 1)


def test_fake_meta_and_compiled_models_are_welcome():
    expected = explain_autocast(*flat(models.mlp())).to_json()
    with torch.device("meta"):
        assert explain_autocast(*flat(models.mlp())).to_json() == expected
    with torch._subclasses.FakeTensorMode():
        example = models.mlp()
    assert explain_autocast(*flat(example)).to_json() == expected
    model, inputs = models.mlp()
    assert explain_autocast(torch.compile(model), *inputs).to_json() == expected
    assert explain_autocast(copy.deepcopy(model), *inputs).to_json() == expected


def flat(example):
    return example[0], *example[1]


# ---- forms --------------------------------------------------------------------------------------


def test_html_is_escaped_and_has_every_row():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module("<b>&x", nn.Linear(8, 8))

        def forward(self, x):
            return next(self.children())(x).mean()

    explained = explain_autocast(Odd(), torch.randn(2, 8))
    markup = explained._repr_html_()
    assert "<b>" not in markup
    assert "&lt;b&gt;&amp;x" in markup
    assert markup.count('<tr class="op"') == len(explained.rows)
    assert "color:inherit" in markup


def test_text_and_json_say_the_same():
    model, inputs = models.cnn()
    explained = explain_autocast(model, *inputs)
    data = json.loads(explained.to_json())
    assert len(data["rows"]) == len(explained.rows)
    assert data["totals"]["casts_step"] == explained.totals.casts_step
    text = str(explained)
    assert "block_norm" in text
    assert "casts a step" in text
    assert "\x1b" not in text
    assert all(len(line) <= 120 for line in text.splitlines())


# ---- the command line ---------------------------------------------------------------------------


def command(*words):
    done = subprocess.run(
        [sys.executable, "-m", "amp_lessons.app.cli", "explain", *words],
        capture_output=True,
        text=True,
    )
    assert "Traceback" not in done.stderr
    return done


def test_the_command():
    done = command(
        "amp_lessons.amp.training.models:custom_function", "--device", "cpu", "--dtype", "bfloat16"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "Swish has no custom_fwd" in done.stdout
    assert "bf16" in done.stdout
    data = json.loads(command("amp_lessons.amp.training.models:mlp", "--json").stdout)
    assert data["totals"]["casts_step"] == 13


@pytest.mark.parametrize(
    ("words", "word", "status"),
    [
        (("amp_lessons.amp.training.models:mpl",), "did you mean", 1),
        (("amp_lessons.amp.training.models:mlp", "--device", "tpu"), "tpu", 2),
        (("amp_lessons.amp.training.models:mlp", "--input", "3,5"), "0 (Linear)", 1),
    ],
)
def test_the_command_fails_in_one_line(capsys, words, word, status):
    with pytest.raises(SystemExit) as leaving:
        cli.main(["explain", *words])
    assert leaving.value.code == status
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert word in line


def test_no_warning_reaches_the_caller():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in EXAMPLES:
            explain_autocast(*flat(getattr(models, name)()))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells it so")
@pytest.mark.slow
def test_gpt2_takes_little_memory():
    # The high-water mark of this program alone: ru_maxrss also counts what the process was before,
    # a copy of a test process that may be larger.
    code = (
        "import re\n"
        "from pathlib import Path\n"
        "from amp_lessons.amp.loading import ModelSpec, load_model\n"
        "from amp_lessons.amp.explain import explain_autocast\n"
        "given = load_model(ModelSpec('amp_lessons.amp.training.models:gpt2'))\n"
        "explained = explain_autocast(given.model, *given.args)\n"
        "peak = re.search(r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1]\n"
        "print(explained.totals.parameters, peak)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    parameters, kib = map(int, run.stdout.split())
    assert parameters == 124_439_808
    assert kib < 2**20


@pytest.mark.parametrize("device", ["cuda", "cpu"])
@pytest.mark.slow
def test_each_block_of_a_model_costs_as_much_as_the_one_before(monkeypatch, device):
    """Nearly all the time of a trace goes into operations on fake tensors, so these are counted."""
    dispatched = []
    dispatch = FakeTensorMode.dispatch

    def counted(mode, *args, **options):
        dispatched.append(mode)
        return dispatch(mode, *args, **options)

    monkeypatch.setattr(FakeTensorMode, "dispatch", counted)
    costs = []
    for blocks in (6, 3, 4, 5, 6):  # the first fills torch's own cache of what fake operations give
        dispatched.clear()
        model = models.GPT(vocabulary=100, context=64, width=48, layers=blocks, heads=4)
        explain_autocast(model, torch.zeros(1, 64, dtype=torch.long), device=device)
        costs.append(len(dispatched))
    third, fourth, fifth = (after - before for before, after in pairwise(costs[1:]))
    assert third == fourth == fifth
    assert 0 < third < 1000
