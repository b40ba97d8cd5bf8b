"""The trace and the count of bytes against real runs of models that nobody prepared for them.

Each case was a defect, or is a kind of model that engineers bring: what the trace says is compared
with what torch does on this CPU, and a hazard that "raises" must really raise.
"""

from __future__ import annotations

import copy
import dataclasses
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from amp_lessons.amp.explain import TraceError, explain_autocast
from amp_lessons.amp.memory.training import crossover_batch, training_memory

BF16, FP16 = torch.bfloat16, torch.float16


class Of(nn.Module):
    """A Linear, then a function of the module, its output and further inputs."""

    def __init__(self, function) -> None:
        super().__init__()
        self.linear, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.norm = nn.GroupNorm(2, 8)
        self.function = function

    def forward(self, x, *rest):
        return self.function(self, self.linear(x), *rest)


def of(function, *rest):
    return Of(function), (torch.randn(4, 8), *rest)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * 3 * x * x


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight, grad.t() @ x


def unet():
    class UNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.deep = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
            self.up, self.norm = nn.ConvTranspose2d(16, 8, 2, 2), nn.GroupNorm(2, 8)
            self.head = nn.Conv2d(16, 3, 1)

        def forward(self, x):
            skip = F.silu(self.norm(self.down(x)))
            up = self.up(F.gelu(self.deep(F.avg_pool2d(skip, 2))))
            return self.head(torch.cat([skip, up], 1))

    return UNet(), (torch.randn(2, 3, 8, 8),)


def lora():
    class Lora(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = nn.Linear(8, 8).requires_grad_(False)
            self.a, self.b = nn.Parameter(torch.randn(2, 8)), nn.Parameter(torch.zeros(8, 2))

        def forward(self, x):
            return self.base(x) + (x @ self.a.t()) @ self.b.t()

    return nn.Sequential(Lora(), nn.GELU(), Lora()), (torch.randn(4, 8),)


def mixture():
    def function(model, x):
        weights = model.second(x).softmax(-1)
        values, chosen = weights.topk(2)
        return x * torch.zeros_like(weights).scatter(1, chosen, values)

    return of(function)


MODELS = {
    "unet": unet,
    "residual with batch norm": lambda: (
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(True), nn.Conv2d(8, 4, 1)),
        (torch.randn(2, 3, 8, 8),),
    ),
    "transformer": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1),
        (torch.randn(2, 5, 16),),
    ),
    "gru": lambda: (nn.GRU(8, 8, bidirectional=True, batch_first=True), (torch.randn(2, 5, 8),)),
    "lora": lora,
    "mixture of experts": mixture,
    "weight norm": lambda: (parametrizations.weight_norm(nn.Linear(8, 8)), (torch.randn(4, 8),)),
    "checkpoint": lambda: of(lambda m, x: checkpoint(m.second, x, use_reentrant=False)),
    "reentrant checkpoint": lambda: of(lambda m, x: checkpoint(m.second, x, use_reentrant=True)),
    "custom function": lambda: of(lambda m, x: Cube.apply(x)),
    "own conversions": lambda: of(lambda m, x: m.second((x.float() * 2).type_as(x))),
    "fourier": lambda: of(lambda m, x: torch.fft.irfft(torch.fft.rfft(x.float()))),
    "view of a parameter": lambda: of(lambda m, x: F.linear(x, m.second.weight[:4])),
}
RECOMPUTED = ("checkpoint", "reentrant checkpoint")


class Counter(TorchDispatchMode):
    """Counts real casts between floating dtypes."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and args[0].is_floating_point():
            self.count += args[0].dtype != result.dtype
        return result


def really(model, inputs, dtype):
    """Casts forward and backward, and bytes saved, in a real run on the CPU."""
    own = {t.untyped_storage().data_ptr() for t in (*model.parameters(), *model.buffers())}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            kept[storage.data_ptr()] = storage
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with torch.autocast("cpu", dtype), Counter() as forward, hooks:
        output = model(*inputs)
    output = output[0] if isinstance(output, tuple) else output
    with Counter() as backward:
        output.backward(torch.ones_like(output))
    return forward.count, backward.count, sum(storage.nbytes() for storage in kept.values())


@pytest.mark.parametrize("dtype", [BF16, FP16], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_the_trace_is_what_a_cpu_does(name, dtype):
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    explained = explain_autocast(model, *inputs, device="cpu", dtype=dtype)
    forward, backward, saved = really(model, inputs, dtype)
    totals = explained.totals
    asked = [row for row in explained.rows if row.op == "aten::_to_copy"]
    own = sum(row.dtypes_in[0] != row.dtype_out for row in asked)
    if name != "gru":  # it gives two outputs, and the second has casts of its own
        assert totals.casts_backward == backward
    assert (totals.casts_forward + own, totals.saved_amp) == (forward, saved)
    if name not in (*RECOMPUTED, "gru", "transformer"):
        # What stands in for a backward that fake CUDA tensors do not have.
        assert sum(row.grad_casts for row in explained.rows) == backward


def test_a_checkpoint_on_cuda_says_what_is_not_counted():
    for name in RECOMPUTED:
        model, inputs = MODELS[name]()
        explained = explain_autocast(model, *inputs)
        assert explained.hazards == ()  # torch's own Function looks after autocast itself
        if not explained.totals.backward_counted:
            assert any("again in backward" in note for note in explained.notes)
        assert explain_autocast(model, *inputs, device="cpu").notes == ()


# ---- inputs and outputs of every class -----------------------------------------------------------


@dataclasses.dataclass
class Batch:
    x: torch.Tensor
    extra: object = None


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_objects_go_in_and_out(device):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(8, 8)

        def forward(self, batch):
            return type(batch)(x=self.linear(batch.x), extra=None)

    x = torch.randn(4, 8)
    for batch in (Batch(x), SimpleNamespace(x=x)):
        totals = explain_autocast(Model(), batch, device=device, dtype=BF16).totals
        assert (totals.casts_forward, totals.casts_backward) == (3, 2)
        assert batch.x is x
    assert training_memory(Model(), Batch(x)).data == x.nbytes


# ---- hazards -------------------------------------------------------------------------------------


def hazards(function, *rest, device="cpu", dtype=FP16):
    model, inputs = of(function, *rest)
    return explain_autocast(model, *inputs, device=device, dtype=dtype).hazards


def kinds(found) -> set[str]:
    return {hazard.kind for hazard in found}


def off(function):
    """The function where autocast is off, on both devices."""

    def inside(model, x):
        with torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
            return function(model, x)

    return inside


def rows_0_and_1(x):
    return torch.tensor([0, 1], device=x.device)


RAISES = {
    "linear where autocast is off": ("dtypes that differ", off(lambda m, x: m.second(x))),
    "matmul where autocast is off": ("dtypes that differ", off(lambda m, x: x @ m.second.weight)),
    "another dtype in a nested region": ("dtypes that differ", lambda m, x: nested(m, x)),
    "convolution where autocast is off": (
        "dtypes that differ",
        off(lambda m, x: F.conv1d(x[None], torch.ones(2, 4, 3, device=x.device))),
    ),
    "distance where autocast is off": ("no 16-bit kernel", off(lambda m, x: torch.cdist(x, x))),
    "indexed write": (
        "dtypes that differ",
        lambda m, x: x.clone().index_put_((rows_0_and_1(x),), x[:2].float()),
    ),
    "index_add": (
        "dtypes that differ",
        lambda m, x: torch.zeros(4, 8, device=x.device).index_add(0, rows_0_and_1(x), x[:2]),
    ),
    "solver": ("no 16-bit kernel", off(lambda m, x: torch.linalg.qr(x)[0])),
    "new_full": ("constant beyond the format", lambda m, x: x + x.new_full((8,), -1e9)),
    "index_fill": (
        "constant beyond the format",
        lambda m, x: x.index_fill(0, rows_0_and_1(x), -1e9),
    ),
    "scatter of a number": (
        "constant beyond the format",
        lambda m, x: x.scatter(1, torch.zeros(4, 1, dtype=torch.long, device=x.device), -1e9),
    ),
    "fill with a tensor": (
        "constant beyond the format",
        lambda m, x: x.masked_fill(x > 0, torch.tensor(-1e9, device=x.device)),
    ),
}


def nested(model, x):
    """The cast cache goes by the parameter, not by the dtype: the copy in it is of the other."""
    x = model.second(x)
    with torch.autocast(x.device.type, dtype=BF16):
        return model.second(x.float())


@pytest.mark.parametrize("name", RAISES)
def test_what_is_said_to_raise_raises(name):
    kind, function = RAISES[name]
    for device in ("cpu", "cuda"):
        found = [h for h in hazards(function, device=device) if h.kind == kind]
        assert [h.severity for h in found] == ["raises"]
    model, inputs = of(function)
    with pytest.raises(RuntimeError), torch.autocast("cpu", FP16):
        model(*inputs)


def test_bounds_beyond_the_format_raise_on_a_cpu_only():
    def function(model, x):
        return x.clamp(-1e9, 1e9)

    assert [h.severity for h in hazards(function)] == ["raises"]
    assert hazards(function, device="cuda") == ()


NORMS = (nn.LayerNorm(8), nn.GroupNorm(2, 8), nn.BatchNorm1d(8), nn.BatchNorm1d(8, affine=False))


@pytest.mark.parametrize("parameters", [torch.float32, BF16, FP16, torch.float64], ids=str)
@pytest.mark.parametrize("norm", NORMS, ids=str)
def test_a_cpus_norm_takes_parameters_of_some_dtypes(norm, parameters):
    norm = copy.deepcopy(norm).to(parameters)
    for dtype in (torch.float32, BF16, FP16, torch.float64):
        x = torch.randn(4, 8).to(dtype)
        message = explain_autocast(norm, x, device="cpu", dtype=BF16).hazards
        try:
            with torch.autocast("cpu", BF16):
                norm(x)
            raised = False
        except RuntimeError:
            raised = True
        assert ("dtypes that differ" in kinds(message)) is raised


def test_a_number_that_is_written_into_a_part():
    def function(model, x):
        x = x.clone()
        x[:, 0] = -1e9
        x[x > 0] = -1e9
        return x

    ones = torch.ones(2, 2, dtype=FP16)
    for device in ("cpu", "cuda"):
        found = hazards(function, device=device)
        assert kinds(found) == {"constant beyond the format"}
        if torch.__version__ >= (2, 15):  # it refuses the number
            assert [(each.severity, each.op) for each in found] == [
                ("raises", "fill_"),
                ("raises", "masked_fill_"),
            ]
        else:
            assert [(each.severity, each.count) for each in found] == [("wrong numbers", 2)]
            assert "writes -inf" in found[0].message
        assert kinds(hazards(lambda m, x: function(m, x.float()), device=device)) == set()
        assert kinds(hazards(function, device=device, dtype=BF16)) == set()
    if torch.__version__ >= (2, 15):
        with pytest.raises(RuntimeError, match="without overflow"):
            function(None, ones)
    else:
        assert torch.isinf(function(None, ones)).all()


def test_a_derivative_inside_the_forward_is_told_apart():
    with pytest.raises(TraceError, match="explain the function that they take by itself"):
        hazards(lambda m, x: torch.func.grad(lambda t: m.second(t).sum())(x))


WRONG = {
    "eps as a tensor": lambda x: torch.log(x + torch.tensor(1e-8, device=x.device)),
    "a maximum": lambda x: torch.log(torch.maximum(x, torch.tensor(1e-8, device=x.device))),
    "minus a minus": lambda x: torch.log(x - (-1e-8)),
    "in place": lambda x: x.abs().add_(1e-8).log(),
    "bound in place": lambda x: x.abs().clamp_(min=1e-8).log(),
    "root": lambda x: (x * x + 1e-9).sqrt(),
    "root as a power": lambda x: (x * x + 1e-9) ** 0.5,
    "instead of zeros": lambda x: 1 / torch.where(x == 0, 1e-9, x),
    "filled in": lambda x: 1 / x.masked_fill(x == 0, 1e-9),
    "lower bound in place": lambda x: x / x.abs().clamp_min_(1e-12),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_eps_in_every_spelling(name):
    function = WRONG[name]
    assert "eps vanishes" in kinds(hazards(lambda m, x: function(x)))
    assert "eps vanishes" not in kinds(hazards(lambda m, x: function(x.float())))


def test_the_log_of_one_minus_a_probability():
    for function in (
        lambda x: torch.log(1 - x.sigmoid()),
        lambda x: torch.log1p(-x.sigmoid()),
        lambda x: x.sigmoid().log2(),
        lambda x: x.softmax(-1).gather(1, torch.zeros(4, 1, dtype=torch.long)).log(),
    ):
        assert "log of a probability" in kinds(hazards(lambda m, x, f=function: f(x)))
        assert "log of a probability" not in kinds(hazards(lambda m, x, f=function: f(x.float())))
    assert kinds(hazards(lambda m, x: torch.log1p(x.sigmoid()))) == set()


def test_a_factor_beyond_the_format_is_only_watched():
    (found,) = hazards(lambda m, x: x * 1e5)
    assert (found.severity, "where |x| is above 0.66" in found.message) == ("watch", True)
    assert torch.isfinite(torch.full((2,), 1e-3, dtype=FP16) * 1e5).all()
    assert [h.severity for h in hazards(lambda m, x: x + 1e5)] == ["wrong numbers"]


def test_a_mean_or_softmax_does_not_overflow():
    assert hazards(lambda m, x: x.mean() + x.softmax(-1)) == ()
    assert torch.isfinite(torch.full((10**5,), 6e4, dtype=FP16).mean())
    (found,) = hazards(lambda m, x: x.expand(400, 4, 8).sum())
    assert "inf once they are above 5.1 on average" in found.message  # 65504 by 12,800


def test_a_backward_that_raises_is_foretold():
    def function(model, x):
        return Product.apply(x.float(), model.second.weight)

    found = [h for h in hazards(function) if h.kind == "dtypes that differ"]
    assert ["backward" in h.message for h in found] == [True]
    model, inputs = of(function)
    with torch.autocast("cpu", FP16):
        output = model(*inputs)
    with pytest.raises(RuntimeError):
        output.sum().backward()


def test_a_model_that_runs_only_under_autocast_says_so():
    model, inputs = of(lambda m, x: m.second(x.bfloat16()))
    explained = explain_autocast(model, *inputs, device="cpu", dtype=BF16)
    assert explained.totals.saved_fp32 is None
    assert "float" in explained.notes[0]
    with pytest.raises(RuntimeError):
        model(*inputs)


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_memory_of_recurrent_layers_on_both_devices(device):
    for model in (nn.GRU(8, 8), nn.LSTM(8, 8)):
        counted = training_memory(model, torch.randn(2, 3, 8), precision="amp fp16", device=device)
        assert counted.activations > 0


def test_memory_counts_the_statistics_that_kernels_keep():
    torch.manual_seed(0)
    model, inputs = MODELS["residual with batch norm"]()
    counted = training_memory(model, *inputs, precision="amp bf16")
    explained = explain_autocast(model, *inputs, device="cpu", dtype=BF16)
    weights = [p for p in model.parameters() if p.dim() > 1]
    copies = sum(2 * p.numel() for p in weights)  # saved by autograd, and in the cache too
    output = 2 * 4 * 2 * 6 * 6
    assert counted.activations + copies == explained.totals.saved_amp + output


def test_memory_tells_in_one_line_what_cannot_be_counted():
    layer, x = nn.Linear(3, 3), torch.randn(2, 3)
    branch = Of(lambda m, y: y if y.sum() > 0 else -y)
    for arguments, options, words in (
        ((layer,), {}, "input"),
        ((layer, x[:, :2]), {}, "the model raises"),
        ((branch, torch.randn(4, 8)), {}, "torch.where"),
        ((layer, x), {"loss": lambda out, target: out - target}, "the loss cannot be run"),
    ):
        with pytest.raises(TraceError, match=words) as caught:
            training_memory(*arguments, **options)
        assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match="loss must be"):
        training_memory(layer, x, loss=3)
    with pytest.raises(ValueError, match="two of Memory"):
        crossover_batch([], [])
