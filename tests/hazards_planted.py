"""Mistakes as people write them: small models with one hazard each, and the number it spoils.

`shown` is the same expression on a real value: what it gives in 16 bits, what the cure gives, and
the truth. For what raises, `shown` has the call that raises first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FP16, BF16 = torch.float16, torch.bfloat16
RAISES, WRONG, WATCH = "raises", "wrong numbers", "watch"
Shown = tuple[Callable[[], Any], Callable[[], Any], float]


class Of(nn.Module):
    """A Linear of width 8, then a function of its output and of further inputs."""

    def __init__(self, function: Callable[..., Any], **buffers: Tensor) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.function = function
        for name, tensor in buffers.items():
            self.register_buffer(name, tensor)

    def forward(self, x, *rest):
        x = self.linear(x)
        return self.function(self, x, *rest) if self._buffers else self.function(x, *rest)


@dataclass(frozen=True)
class Planted:
    """One mistake.

    Attributes:
        model: a function of a Linear's output (with the model first, if it has buffers), or a
            factory of a model.
        kind, severity: of the hazard that is expected.
        shown: what goes wrong, what the cure gives, and the truth; None where only a GPU shows it.
        inputs: of the model; by default one of shape (4, 8).
    """

    name: str
    model: Any
    kind: str
    severity: str
    shown: Shown | None = None
    dtype: torch.dtype = FP16
    device: str = "cuda"
    inputs: tuple[Tensor, ...] = ()
    buffers: tuple[tuple[str, Tensor], ...] = ()

    def made(self) -> tuple[nn.Module, tuple[Tensor, ...]]:
        inputs = self.inputs or (torch.randn(4, 8),)
        if isinstance(self.model, type):
            return self.model(), inputs
        return Of(self.model, **{n: t.clone() for n, t in self.buffers}), inputs


def half(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=FP16)


def no_autocast(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function in a region where autocast is off, on CUDA and on the CPU."""

    def inner(*args):
        with torch.autocast("cuda", enabled=False), torch.autocast("cpu", enabled=False):
            return function(*args)

    return inner


def rows_0_and_1(x):
    return torch.tensor([0, 1], device=x.device)


LOG, EPS, CONSTANT = "log of a probability", "eps vanishes", "constant beyond the format"
GROWS, SUMS, GRID = "overflow", "reduction in 16 bit", "positions in 16 bit"
DIFFER, KERNEL, CANCELS = "dtypes that differ", "no 16-bit kernel", "cancellation"
VANISHES = "underflow"


def inverse_sigmoid(x):
    """As Deformable DETR has it."""
    x = x.sigmoid()
    return x.clamp(min=1e-5) / (1 - x).clamp(min=1e-5)


def pairwise(x, y):
    """As a triplet loss with hard mining has it."""
    squares = x.pow(2).sum(1)[:, None] + y.pow(2).sum(1)
    return (squares - 2 * x @ y.t()).clamp(min=1e-12).sqrt()


def rotary(x):
    """A rotary table whose angles are a matrix product, which autocast runs in 16 bits."""
    positions = torch.arange(2048, device=x.device, dtype=torch.float32)
    steps = 1.0 / 10000 ** (torch.arange(0, 8, 2, device=x.device) / 8)
    return x.mean() * (positions[:, None] @ steps[None]).sin()


def by_slopes(x):
    """ALiBi with integer distances and slopes of 16 bits."""
    return torch.arange(8192, device=x.device)[:, None] * x[0].sigmoid()


def points(value: float) -> Tensor:
    """A row of eight numbers that FP16 does not hold exactly."""
    return torch.arange(8.0)[None] * 2.37 + value


def local_variance(x):
    """SSIM's variance, by pooling."""
    x = x[None, None]
    mean = F.avg_pool2d(x, 3, 1)
    return F.avg_pool2d(x * x, 3, 1) - mean * mean


def sine_by_hand(x):
    """As ArcFace's first implementations have it."""
    cosine = F.linear(F.normalize(x), F.normalize(x))
    return torch.sqrt(1.0 - torch.pow(cosine, 2))


class Teacher(nn.Module):
    """A running average of features in a half buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("centre", torch.zeros(8, dtype=FP16))

    def forward(self, x):
        x = self.linear(x)
        self.centre.mul_(0.999).add_(x.detach().mean(0).half(), alpha=0.001)
        return x - self.centre


class Lerped(Teacher):
    def forward(self, x):
        x = self.linear(x)
        self.centre.lerp_(x.detach().mean(0).to(self.centre.dtype), 0.001)
        return x - self.centre


class Halved(nn.Module):
    """Positions kept in a buffer, and brought to the model's dtype."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 4096)
        self.register_buffer("positions", torch.arange(4096).float())

    def forward(self, x):
        x = self.linear(x)
        return x + self.positions.to(x.dtype)


class MaskBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("mask", torch.triu(torch.full((8, 8), -1e9), 1))

    def forward(self, x):
        scores = self.linear(x) @ x.t()
        return scores + self.mask[: len(x), : len(x)].to(scores.dtype)


class HalfLayer(nn.Module):
    """A layer that is trained in half precision."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 2).half()

    def forward(self, x):
        return self.head(self.body(x))


class FromNumpy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("mean", torch.linspace(0, 1, 8, dtype=torch.float64))

    def forward(self, x):
        return self.linear(x) - self.mean


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


def ema(buffer: Tensor, steps: int) -> Tensor:
    for _ in range(steps):
        buffer.mul_(0.999).add_(torch.ones(1, dtype=buffer.dtype), alpha=0.001)
    return buffer


PLANTED = (
    # ---- logs and probabilities
    Planted(
        "log of a clamped complement",
        lambda x: torch.log(1 - torch.sigmoid(x).clamp(1e-7, 1 - 1e-7)), LOG, WRONG,
        (lambda: (1 - half(12.0).sigmoid().clamp(1e-7, 1 - 1e-7)).log(),
         lambda: F.logsigmoid(-torch.tensor([12.0])), -12.000006),
    ),
    Planted(
        "log of a half softmax", lambda x: x.softmax(-1).half().log(), LOG, WRONG,
        (lambda: half(0.0, 20.0).softmax(-1).half().log()[0],
         lambda: torch.tensor([0.0, 20.0]).log_softmax(-1)[0], -20.0),
    ),
    Planted("log method of a sigmoid", lambda x: x.sigmoid().log(), LOG, WRONG,
            (lambda: half(-20.0).sigmoid().log(), lambda: F.logsigmoid(torch.tensor([-20.0])),
             -20.0)),
    Planted("log after a late upcast", lambda x: x.sigmoid().float().log(), LOG, WRONG,
            (lambda: half(-20.0).sigmoid().float().log(),
             lambda: half(-20.0).float().sigmoid().log(), -20.0)),
    Planted("log1p of minus a sigmoid", lambda x: torch.log1p(-torch.sigmoid(x)), LOG, WRONG,
            (lambda: torch.log1p(-half(12.0).sigmoid()),
             lambda: F.logsigmoid(-torch.tensor([12.0])), -12.000006)),
    Planted("log2 of a chosen probability",
            lambda x: x.softmax(-1).to(x.dtype)[:, 0].log2(), LOG, WRONG,
            (lambda: half(0.0, 20.0).softmax(-1)[0].log2(),
             lambda: torch.tensor([0.0, 20.0]).log_softmax(-1)[0] / math.log(2), -28.8539)),
    Planted("logit of a sigmoid", lambda x: torch.logit(x.sigmoid()), LOG, WRONG,
            (lambda: torch.logit(half(12.0).sigmoid()), lambda: torch.tensor([12.0]), 12.0)),
    Planted("odds", lambda x: x.sigmoid() / (1 - x.sigmoid()), LOG, WRONG,
            (lambda: half(9.0).sigmoid() / (1 - half(9.0).sigmoid()),
             lambda: torch.tensor([9.0]).exp(), math.exp(9))),
    Planted("Gumbel noise", lambda x: x - torch.log(-torch.log(torch.rand_like(x))), LOG, WRONG,
            (lambda: half(1e-9).log(), lambda: torch.tensor([1e-9]).log(), math.log(1e-9))),
    Planted("log of a sigmoid on a CPU", lambda x: x.sigmoid().log10(), LOG, WRONG,
            (lambda: half(-20.0).sigmoid().log10(),
             lambda: F.logsigmoid(torch.tensor([-20.0])) / math.log(10), -8.685889),
            device="cpu"),
    Planted("complement in BF16", lambda x: (1 - x.sigmoid()).log(), LOG, WRONG,
            (lambda: (1 - torch.tensor([7.0], dtype=BF16).sigmoid()).log(),
             lambda: F.logsigmoid(-torch.tensor([7.0])), -7.000911), dtype=BF16),
    Planted("a margin that BF16 rounds away",
            lambda x: torch.log(1 - x.sigmoid().clamp(max=1 - 1e-3)), LOG, WRONG,
            (lambda: (1 - torch.ones(1, dtype=BF16).clamp(max=1 - 1e-3)).log(),
             lambda: (1 - torch.ones(1).clamp(max=1 - 1e-3)).log(), -6.907755), dtype=BF16),
    Planted("BCE of a sigmoid",
            lambda x: F.binary_cross_entropy(torch.sigmoid(x), torch.ones_like(x)),
            "BCE after sigmoid", RAISES),
    Planted("BCE of a sigmoid on a CPU",
            lambda x: F.binary_cross_entropy(torch.sigmoid(x), torch.ones_like(x)),
            "BCE after sigmoid", WRONG,
            (lambda: F.binary_cross_entropy(half(12.0).sigmoid().float(), torch.zeros(1)),
             lambda: F.binary_cross_entropy_with_logits(torch.tensor([12.0]), torch.zeros(1)),
             12.000006), device="cpu"),
    # ---- cancellation
    Planted("the sine of a cosine", sine_by_hand, CANCELS, WRONG,
            (lambda: torch.sqrt(1 - half(math.cos(0.01)) ** 2),
             lambda: torch.sqrt(1 - torch.tensor([math.cos(0.01)]).double() ** 2), 0.01)),
    Planted("the slope of tanh", lambda x: torch.sqrt(1 - x.tanh() * x.tanh()), CANCELS, WRONG,
            (lambda: torch.sqrt(1 - half(0.99995) * half(0.99995)),
             lambda: torch.sqrt(1 - torch.tensor([0.99995]).double() ** 2), 0.0099999)),
    Planted("the sine, clamped",
            lambda x: (1 - torch.cos(x) ** 2).clamp(0, 1).sqrt(), CANCELS, WRONG,
            (lambda: (1 - half(0.01).cos() ** 2).clamp(0, 1).sqrt(),
             lambda: torch.tensor([0.01]).sin(), 0.0099998)),
    Planted("variance as a difference",
            lambda x: ((x * x).mean(-1) - x.mean(-1) ** 2).sqrt(), CANCELS, WRONG,
            (lambda: (half(200, 201, 202) ** 2).mean() - half(200, 201, 202).mean() ** 2,
             lambda: torch.tensor([200.0, 201, 202]).var(correction=0), 2 / 3)),
    # ---- guards
    Planted("a guard under a log", lambda x: (x.relu() + 1e-8).log(), EPS, WRONG,
            (lambda: (half(0.0) + 1e-8).log(), lambda: (half(0.0).float() + 1e-8).log(),
             math.log(1e-8))),
    Planted("a guard under a division", lambda x: x / (x.abs() + 1e-8), EPS, WRONG,
            (lambda: half(0.0) / (half(0.0).abs() + 1e-8),
             lambda: half(0.0).float() / (half(0.0).float().abs() + 1e-8), 0.0)),
    Planted("a guard as torch.clip",
            lambda x: x / torch.clip(x.abs().amax(-1, True), 1e-12), EPS, WRONG,
            (lambda: half(0.0) / torch.clip(half(0.0), 1e-12),
             lambda: torch.zeros(1) / torch.clip(torch.zeros(1), 1e-12), 0.0)),
    Planted("a guard in a buffer", lambda m, x: torch.log(x.abs() + m.eps.to(x.dtype)), EPS, WRONG,
            (lambda: (half(0.0) + torch.tensor([1e-9]).half()).log(),
             lambda: (torch.zeros(1) + 1e-9).log(), math.log(1e-9)),
            buffers=(("eps", torch.tensor(1e-9)),)),
    Planted("a guard in place", lambda x: x.abs().add_(1e-8).sqrt_(), EPS, WRONG,
            (lambda: torch.autograd.functional.jacobian(
                lambda x: (x.abs().mul(1.0).add(1e-8)).sqrt(), half(0.0)).abs() + 1,
             lambda: torch.ones(1), 1.0)),
    Planted("a guard on the left", lambda x: torch.rsqrt(1e-10 + x.abs()), EPS, WRONG,
            (lambda: torch.rsqrt(1e-10 + half(0.0)), lambda: torch.rsqrt(1e-10 + torch.zeros(1)),
             1e5)),
    # ---- constants
    Planted("a mask of -1e9", lambda x: x.masked_fill(x > 0, -1e9), CONSTANT, RAISES,
            (lambda: half(1.0).masked_fill(half(1.0) > 0, -1e9),
             lambda: half(1.0).masked_fill(half(1.0) > 0, torch.finfo(FP16).min), -65504.0)),
    Planted("a mask by where", lambda x: torch.where(x > 0, x, -1e9), CONSTANT, WRONG,
            (lambda: torch.where(half(1.0) > 2, half(1.0), -1e9),
             lambda: torch.where(half(1.0) > 2, half(1.0), torch.finfo(FP16).min), -65504.0)),
    Planted("a mask written in place", lambda x: x.masked_fill_(x > 0, float(-2**20)), CONSTANT,
            RAISES,
            (lambda: half(1.0).masked_fill_(half(1.0) > 0, -1e9),
             lambda: half(1.0).masked_fill_(half(1.0) > 0, -1e4), -10000.0)),
    Planted("a mask that multiplies",
            lambda x: x + (1.0 - (x > 0).to(x.dtype)) * -1e9, CONSTANT, WATCH,
            (lambda: half(1.0) * -1e9, lambda: half(1.0) * torch.finfo(FP16).min, -65504.0)),
    Planted("a mask in a buffer", MaskBuffer, CONSTANT, WRONG,
            (lambda: torch.tensor([-1e9]).to(FP16),
             lambda: torch.tensor([-1e9]).clamp(min=torch.finfo(FP16).min).to(FP16), -65504.0)),
    Planted("two masks that add up",
            lambda x: x + (torch.full_like(x, torch.finfo(x.dtype).min)
                           + torch.full_like(x, torch.finfo(x.dtype).min)), CONSTANT, WATCH,
            (lambda: (half(-65504.0) + half(-65504.0)).expand(2).softmax(-1)[0],
             lambda: torch.minimum(half(-65504.0), half(-65504.0)).expand(2).softmax(-1)[0],
             0.5)),
    Planted("an index that is written", lambda x: x.index_fill(0, rows_0_and_1(x), -1e9),
            CONSTANT, RAISES,
            (lambda: half(1.0).index_fill(0, torch.tensor([0]), -1e9),
             lambda: half(1.0).index_fill(0, torch.tensor([0]), -1e4), -10000.0)),
    # ---- growth
    Planted("divided by a small number", lambda h: h / 1e-5, GROWS, WATCH,
            (lambda: half(1.0) / 1e-5, lambda: half(1.0).float() / 1e-5, 1e5)),
    Planted("divided in place", lambda h: h.clone().div_(1e-4), GROWS, WATCH,
            (lambda: half(10.0).div_(1e-4), lambda: half(10.0).float() / 1e-4, 1e5)),
    Planted("divided by a tensor", lambda h: h / torch.full_like(h, 1e-4), GROWS, WATCH,
            (lambda: half(10.0) / torch.full_like(half(1.0), 1e-4),
             lambda: half(10.0).float() / 1e-4, 1e5)),
    Planted("times an inverse", lambda h: h * (1 / 2e-5), GROWS, WATCH,
            (lambda: half(2.0) * (1 / 2e-5), lambda: half(2.0).float() * (1 / 2e-5), 1e5)),
    Planted("times a large number", lambda h: torch.mul(h, 2e4), GROWS, WATCH,
            (lambda: half(5.0) * 2e4, lambda: half(5.0).float() * 2e4, 1e5)),
    Planted("times two numbers", lambda h: h * 100 * 100, GROWS, WATCH,
            (lambda: half(10.0) * 100 * 100, lambda: half(10.0).float() * 100 * 100, 1e5)),
    Planted("a loss scaled by hand", lambda h: h.mean() * 65536, CONSTANT, WATCH,
            (lambda: half(1.5) * 65536, lambda: half(1.5).float() * 65536, 98304.0)),
    Planted("a square", lambda h: (h * h).sum(-1), GROWS, WATCH,
            (lambda: half(300.0) * half(300.0), lambda: half(300.0).float() ** 2, 90000.0)),
    Planted("a square brought to half", lambda h: h.pow(2).half(), GROWS, WATCH,
            (lambda: half(300.0).pow(2), lambda: half(300.0).float().pow(2), 90000.0)),
    Planted("a square on a CPU", lambda h: torch.square(h), GROWS, WATCH,
            (lambda: torch.square(half(300.0)), lambda: torch.square(torch.tensor([300.0])),
             90000.0), device="cpu"),
    Planted("a cube on a CPU", lambda h: torch.pow(h, 3), GROWS, WATCH,
            (lambda: half(50.0) ** 3, lambda: half(50.0).float() ** 3, 125000.0), device="cpu"),
    Planted("the GELU by hand",
            lambda x: 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x * x * x))),
            GROWS, WATCH,
            (lambda: half(50.0) * half(50.0) * half(50.0),
             lambda: half(50.0).float() ** 3, 125000.0)),
    Planted("a square in place", lambda h: h.clone().mul_(h), GROWS, WATCH,
            (lambda: half(300.0).mul_(half(300.0)), lambda: half(300.0).float() ** 2, 90000.0)),
    Planted("a squared length by einsum", lambda h: torch.einsum("bi,bi->b", h, h), GROWS, WATCH,
            (lambda: torch.einsum("i,i->", half(200, 200), half(200, 200)),
             lambda: torch.einsum("i,i->", *(torch.tensor([200.0, 200]),) * 2), 80000.0)),
    Planted("a Gram matrix", lambda h: h @ h.t() / 8, GROWS, WATCH,
            (lambda: (half(200, 200)[None] @ half(200, 200)[:, None] / 8)[0],
             lambda: ((half(200, 200)[None] / 8) @ half(200, 200)[:, None])[0], 10000.0)),
    Planted("a spread by hand", lambda h: ((h - h.mean(0)) * (h - h.mean(0))).sum(), GROWS, WATCH,
            (lambda: half(300.0) * half(300.0), lambda: half(300.0).float() ** 2, 90000.0)),
    Planted("exp brought to half", lambda h: h.exp().half(), GROWS, WATCH,
            (lambda: torch.tensor([12.0]).exp().half(), lambda: torch.tensor([12.0]).exp(),
             math.exp(12))),
    Planted("exp into a product", lambda h: torch.exp(h) @ h.t(), GROWS, WATCH,
            (lambda: torch.tensor([12.0]).exp().half(), lambda: torch.tensor([12.0]).exp(),
             math.exp(12))),
    Planted("exp on a CPU", lambda h: h.exp() / h.exp().sum(-1, keepdim=True), GROWS, WATCH,
            (lambda: (half(12.0, 0.0).exp() / half(12.0, 0.0).exp().sum())[0],
             lambda: half(12.0, 0.0).softmax(-1)[0], 0.999994), device="cpu"),
    Planted("exp2 in half", lambda h: torch.exp2(h), GROWS, WATCH,
            (lambda: torch.exp2(half(17.0)), lambda: torch.exp2(half(17.0).float()), 131072.0)),
    Planted("a small divisor on a CPU", lambda h: 1.0 / (h.abs() + 1e-5), GROWS, WATCH,
            (lambda: 1.0 / (half(0.0) + 1e-5), lambda: 1.0 / (torch.zeros(1) + 1e-5), 1e5),
            device="cpu"),
    # ---- reductions
    Planted("a long sum on a CPU", lambda x: x.sum(), SUMS, WATCH,
            (lambda: torch.full((70000,), 1.0, dtype=FP16).sum(),
             lambda: torch.full((70000,), 1.0, dtype=FP16).float().sum(), 70000.0),
            device="cpu", inputs=(torch.randn(512, 8),)),
    Planted("a sum that asks for half", lambda x: x.sum(dtype=FP16), SUMS, WATCH,
            (lambda: torch.ones(70000).sum(dtype=FP16), lambda: torch.ones(70000).sum(), 7e4),
            inputs=(torch.randn(512, 8),)),
    Planted("a running sum on a CPU", lambda x: x.cumsum(0), SUMS, WATCH,
            (lambda: torch.full((700,), 100.0, dtype=FP16).cumsum(0)[-1],
             lambda: torch.full((700,), 100.0).cumsum(0)[-1], 70000.0),
            device="cpu", inputs=(torch.randn(1024, 8),)),
    Planted("a variance", lambda x: (x - x.mean(0)) / (x.var(0) + 1e-3).sqrt(), SUMS, WATCH,
            (lambda: half(-400, 400).var(), lambda: half(-400, 400).float().var(), 320000.0)),
    # ---- positions
    Planted("arange past 2048",
            lambda x: x[:, :1] + torch.arange(4096, device=x.device, dtype=x.dtype), GRID, WRONG,
            (lambda: torch.arange(4096, dtype=FP16)[2048:2050].diff(),
             lambda: torch.arange(4096).float()[2048:2050].diff(), 1.0)),
    Planted("positions as the features", Halved, GRID, WRONG,
            (lambda: torch.arange(4096).half()[4094:].diff(),
             lambda: torch.arange(4096).float()[4094:].diff(), 1.0)),
    Planted("rotary angles by matmul",
            lambda x: torch.arange(4096, device=x.device).float()[:, None] @ x[:1, :1].float(),
            GRID, WRONG,
            (lambda: torch.tensor(4095.0).half().sin(), lambda: torch.tensor(4095.0).sin(),
             math.sin(4095))),
    Planted("positions past 256 in BF16",
            lambda x: x[:, :1] * torch.arange(512, device=x.device).to(x.dtype), GRID, WRONG,
            (lambda: torch.arange(512).bfloat16()[257] - torch.arange(512).bfloat16()[256],
             lambda: torch.arange(512).float()[257] - torch.arange(512).float()[256], 1.0),
            dtype=BF16),
    Planted("coordinates in BF16",
            lambda x: x[:, :1] * torch.linspace(0, 1, 1024, device=x.device, dtype=x.dtype), GRID,
            WRONG,
            (lambda: torch.linspace(0, 1, 1024, dtype=BF16).unique().numel(),
             lambda: torch.linspace(0, 1, 1024).unique().numel(), 1024.0), dtype=BF16),
    Planted("counts by index_add",
            lambda x: x.new_zeros(2).index_add_(
                0, torch.zeros(4096, dtype=torch.long, device=x.device), x.new_ones(4096)),
            GRID, WATCH,
            (lambda: torch.zeros(1, dtype=FP16).index_add_(
                0, torch.zeros(4096, dtype=torch.long), torch.ones(4096, dtype=FP16)),
             lambda: torch.zeros(1).index_add_(
                 0, torch.zeros(4096, dtype=torch.long), torch.ones(4096)), 4096.0)),
    # ---- stored in 16 or 64 bits
    Planted("a running average in half", Teacher, "running average in 16 bit", WRONG,
            (lambda: ema(half(0.0), 8000), lambda: ema(torch.zeros(1), 8000), 0.99966)),
    Planted("a running average by lerp", Lerped, "running average in 16 bit", WRONG,
            (lambda: ema(half(0.0), 8000), lambda: ema(torch.zeros(1), 8000), 0.99966)),
    Planted("a half layer that is trained", HalfLayer, "16-bit parameters", RAISES,
            (lambda: half(1.0) - 1e-4, lambda: torch.ones(1) - 1e-4 - 0.2, 0.7999)),
    Planted("statistics from NumPy", FromNumpy, "float64", WATCH),
    Planted("a Function with no decorators", lambda x: Scale.apply(x), "custom Function", WATCH),
    # ---- dtypes
    Planted("scatter_ of float32",
            lambda x: x.clone().scatter_(1, torch.zeros(4, 1, dtype=torch.long, device=x.device),
                                         x.float()), DIFFER, RAISES,
            (lambda: half(1.0).scatter_(0, torch.zeros(1, dtype=torch.long), torch.ones(1)),
             lambda: half(2.0).scatter_(0, torch.zeros(1, dtype=torch.long), half(1.0)), 1.0)),
    Planted("scatter_add_ of half",
            lambda x: torch.zeros(4, 8, device=x.device).scatter_add_(
                0, torch.zeros(4, 8, dtype=torch.long, device=x.device), x), DIFFER, RAISES,
            (lambda: torch.zeros(1).scatter_add_(0, torch.zeros(1, dtype=torch.long), half(1.0)),
             lambda: torch.zeros(1).scatter_add_(
                 0, torch.zeros(1, dtype=torch.long), half(1.0).float()), 1.0)),
    Planted("scatter_reduce_ of half",
            lambda x: torch.zeros(4, 8, device=x.device).scatter_reduce_(
                0, torch.zeros(4, 8, dtype=torch.long, device=x.device), x, "amax"),
            DIFFER, RAISES,
            (lambda: torch.zeros(1).scatter_reduce_(
                0, torch.zeros(1, dtype=torch.long), half(1.0), "amax"),
             lambda: torch.zeros(1).scatter_reduce_(
                 0, torch.zeros(1, dtype=torch.long), torch.ones(1), "amax"), 1.0)),
    Planted("index_copy of half",
            lambda x: torch.zeros(4, 8, device=x.device).index_copy(0, rows_0_and_1(x), x[:2]),
            DIFFER, RAISES,
            (lambda: torch.zeros(1).index_copy(0, torch.zeros(1, dtype=torch.long), half(1.0)),
             lambda: torch.zeros(1).index_copy(0, torch.zeros(1, dtype=torch.long), torch.ones(1)),
             1.0)),
    Planted("an indexed write",
            lambda x: torch.zeros(4, 8, device=x.device).index_put_((rows_0_and_1(x),), x[:2]),
            DIFFER, RAISES,
            (lambda: torch.zeros(1).index_put_((torch.tensor([0]),), half(1.0)),
             lambda: torch.zeros(1).index_put_((torch.tensor([0]),), torch.ones(1)), 1.0)),
    Planted("masked_scatter of half",
            lambda x: torch.zeros(4, 8, device=x.device).masked_scatter(x > 0, x), DIFFER, RAISES,
            (lambda: torch.zeros(1).masked_scatter(torch.ones(1) > 0, half(1.0)),
             lambda: torch.zeros(1).masked_scatter(torch.ones(1) > 0, torch.ones(1)), 1.0)),
    Planted("lerp of two dtypes", lambda x: torch.lerp(x, x.float(), 0.5), DIFFER, RAISES,
            (lambda: torch.lerp(half(1.0), torch.ones(1), 0.5),
             lambda: torch.lerp(half(1.0).float(), torch.ones(1), 0.5), 1.0)),
    Planted("an average of weights by lerp_", lambda m, x: m.ema.lerp_(x[0].detach(), 0.1),
            DIFFER, RAISES,
            (lambda: torch.zeros(1).lerp_(half(1.0), 0.1),
             lambda: torch.zeros(1).lerp_(half(1.0).float(), 0.1), 0.1),
            buffers=(("ema", torch.zeros(8)),)),
    Planted("baddbmm_ into float32",
            lambda x: torch.zeros(1, 4, 4, device=x.device).baddbmm_(x[None], x.t()[None]),
            DIFFER, RAISES,
            (lambda: torch.zeros(1, 1, 1).baddbmm_(half(1.0)[None, None], half(1.0)[None, None]),
             lambda: torch.baddbmm(torch.zeros(1, 1, 1), torch.ones(1, 1, 1), torch.ones(1, 1, 1)),
             1.0)),
    Planted("bmm into float32",
            no_autocast(lambda x: torch.bmm(x.detach()[None], x.detach().t()[None],
                                            out=torch.empty(1, 4, 4, device=x.device))),
            DIFFER, RAISES,
            (lambda: torch.bmm(half(1.0)[None, None], half(1.0)[None, None],
                               out=torch.empty(1, 1, 1)),
             lambda: torch.bmm(torch.ones(1, 1, 1), torch.ones(1, 1, 1)), 1.0)),
    Planted("linear where autocast is off",
            no_autocast(lambda x: F.linear(x, torch.ones(8, 8, device=x.device))), DIFFER, RAISES,
            (lambda: F.linear(half(1.0), torch.ones(1, 1)),
             lambda: F.linear(half(1.0).float(), torch.ones(1, 1)), 1.0)),
    Planted("a complex number of two dtypes", lambda x: torch.complex(x, x.float()).abs(),
            DIFFER, RAISES,
            (lambda: torch.complex(half(1.0), torch.ones(1)),
             lambda: torch.complex(torch.ones(1), torch.zeros(1)).abs(), 1.0)),
    Planted("a step function of two dtypes", lambda x: torch.heaviside(x, x.float()), DIFFER,
            RAISES,
            (lambda: torch.heaviside(half(0.0), torch.ones(1)),
             lambda: torch.heaviside(torch.zeros(1), torch.ones(1)), 1.0)),
    Planted("a float32 result written into half", lambda x: x.add_(torch.ones_like(x).float()),
            "in-place or out= mix", WATCH,
            (lambda: torch.full((1,), 2048.0, dtype=FP16).add_(torch.ones(1)) - 2048,
             lambda: torch.full((1,), 2048.0, dtype=FP16) + torch.ones(1) - 2048, 1.0)),
    # ---- kernels
    Planted("an FFT of 100 points", lambda x: torch.fft.rfft(x.reshape(-1)[:100]).abs(), KERNEL,
            RAISES, None, inputs=(torch.randn(16, 8),)),
    Planted("a 2-D FFT of 7 by 8", lambda x: torch.fft.fft2(x[:7]).real, KERNEL, RAISES, None,
            inputs=(torch.randn(16, 8),)),
    Planted("an FFT in BF16", lambda x: torch.fft.rfft(x).abs(), KERNEL, RAISES,
            (lambda: torch.fft.rfft(torch.ones(8, dtype=BF16)),
             lambda: torch.fft.rfft(torch.ones(8))[0].abs(), 8.0), dtype=BF16),
    Planted("a solver", lambda x: torch.linalg.solve(x[:4, :4], x[:4, 0]), KERNEL, RAISES,
            (lambda: torch.linalg.solve(half(2.0)[None], half(2.0)),
             lambda: torch.linalg.solve(torch.full((1, 1), 2.0), torch.full((1,), 2.0)), 1.0)),
    Planted("an inverse", lambda x: torch.linalg.inv(x[:4, :4]), KERNEL, RAISES,
            (lambda: torch.linalg.inv(half(2.0)[None]),
             lambda: torch.linalg.inv(torch.full((1, 1), 2.0)), 0.5)),
    Planted("a quantile", lambda x: torch.quantile(x, 0.5), KERNEL, RAISES,
            (lambda: torch.quantile(half(1.0, 3.0), 0.5),
             lambda: torch.quantile(torch.tensor([1.0, 3.0]), 0.5), 2.0)),
    Planted("a distance where autocast is off", no_autocast(lambda x: torch.cdist(x, x)), KERNEL,
            RAISES,
            (lambda: torch.cdist(half(1.0)[None], half(2.0)[None]),
             lambda: torch.cdist(torch.ones(1, 1), torch.full((1, 1), 2.0)), 1.0)),
    # ---- what an attack with code from libraries and bug reports added
    Planted("a distance by the squares", lambda x: pairwise(x, x), CANCELS, WRONG,
            (lambda: (points(10).pow(2).sum(1) + points(10.5).pow(2).sum(1)
                      - 2 * points(10).half() @ points(10.5).half().t()).clamp(min=1e-12).sqrt(),
             lambda: pairwise(points(10), points(10.5)), 0.5 * 8**0.5)),
    Planted("a distance, product first",
            lambda x: (-2 * (x @ x.flip(0).t()) + x.pow(2).sum(1)[:, None]
                       + x.flip(0).pow(2).sum(1)).sqrt(), CANCELS, WRONG,
            (lambda: (-2 * points(10).half() @ points(10.5).half().t()
                      + points(10).pow(2).sum(1) + points(10.5).pow(2).sum(1)).sqrt(),
             lambda: torch.cdist(points(10), points(10.5)), 0.5 * 8**0.5)),
    Planted("the variance of SSIM", lambda x: local_variance(x.sigmoid()), CANCELS, WRONG,
            (lambda: local_variance((torch.arange(9.0).view(3, 3) / 100 + 0.9).half()),
             lambda: local_variance(torch.arange(9.0).view(3, 3) / 100 + 0.9), 20 / 3 * 1e-4),
            inputs=(torch.randn(8, 8),)),
    Planted("the end of atanh", lambda x: torch.atanh(x.clamp(-1 + 1e-5, 1 - 1e-5)), EPS, WRONG,
            (lambda: torch.atanh(half(1.0).clamp(-1 + 1e-5, 1 - 1e-5)),
             lambda: torch.atanh(torch.ones(1).clamp(-1 + 1e-5, 1 - 1e-5)), math.atanh(1 - 1e-5))),
    Planted("the end of a logit", lambda x: torch.logit(x.clamp(1e-6, 1 - 1e-6)), EPS, WRONG,
            (lambda: torch.logit(half(1.0).clamp(1e-6, 1 - 1e-6)),
             lambda: torch.logit(torch.ones(1).double().clamp(1e-6, 1 - 1e-6)),
             math.log((1 - 1e-6) / 1e-6))),
    Planted("the end of erfinv", lambda x: torch.erfinv(x.clamp(max=1 - 1e-4)), EPS, WRONG,
            (lambda: torch.erfinv(half(1.0).clamp(max=1 - 1e-4).float()),
             lambda: torch.erfinv(torch.ones(1).clamp(max=1 - 1e-4)), 2.751064)),
    Planted("the end of a tanh", lambda x: torch.atanh(x.tanh().clamp(-1 + 1e-6, 1 - 1e-6)), EPS,
            WRONG,
            (lambda: torch.atanh(half(20.0).tanh().clamp(max=1 - 1e-6)),
             lambda: torch.atanh(half(20.0).double().tanh().clamp(max=1 - 1e-6)),
             math.atanh(1 - 1e-6))),
    Planted("log1p at the end", lambda x: torch.log1p(-x.clamp(1e-7, 1 - 1e-7)), EPS, WRONG,
            (lambda: torch.log1p(-half(1.0).clamp(1e-7, 1 - 1e-7)),
             lambda: torch.log1p(-half(1.0).double().clamp(1e-7, 1 - 1e-7)), math.log(1e-7))),
    Planted("steps beyond the format",
            lambda x: x.mean() * torch.linspace(0, 1e5, 10, device=x.device, dtype=x.dtype),
            CONSTANT, RAISES,
            (lambda: torch.linspace(0, 1e5, 3, dtype=FP16),
             lambda: torch.linspace(0, 1e5, 3)[2:], 1e5)),
    Planted("the log of what is left", lambda x: torch.log(1 - x.clamp(0, 1 - 1e-6)), EPS, WRONG,
            (lambda: torch.log(1 - half(1.0).clamp(0, 1 - 1e-6)),
             lambda: torch.log(1 - torch.ones(1).double().clamp(0, 1 - 1e-6)), math.log(1e-6))),
    Planted("an inverse sigmoid", inverse_sigmoid, GROWS, WATCH,
            (lambda: inverse_sigmoid(half(20.0)),
             lambda: inverse_sigmoid(torch.full((1,), 20.0)), 1e5)),
    Planted("a tiny weight", lambda x: x * 1e-8, VANISHES, WATCH,
            (lambda: half(1.0) * 1e-8 * 1e8, lambda: half(1.0).float() * 1e-8 * 1e8, 1.0)),
    Planted("divided by the number of pixels", lambda x: x / (4096 * 8192), VANISHES, WATCH,
            (lambda: half(0.5) / (4096 * 8192) * 2**26,
             lambda: half(0.5).float() / (4096 * 8192) * 2**26, 1.0)),
    Planted("a sum as a product with ones",
            lambda x: x.reshape(1, -1) @ torch.ones(4096, 1, device=x.device), SUMS, WATCH,
            (lambda: half(60.0).expand(1, 4096) @ torch.ones(4096, 1, dtype=FP16),
             lambda: half(60.0).expand(1, 4096).float() @ torch.ones(4096, 1), 60.0 * 4096),
            inputs=(torch.randn(512, 8),)),
    Planted("the overlap of two masks",
            lambda x: x.sigmoid().reshape(1, -1) @ (x > 0).to(x.dtype).reshape(-1, 1), SUMS, WATCH,
            (lambda: torch.ones(1, 131072, dtype=FP16) @ torch.ones(131072, 1, dtype=FP16),
             lambda: torch.ones(1, 131072) @ torch.ones(131072, 1), 131072.0),
            inputs=(torch.randn(16384, 8),)),
    Planted("rotary angles by a product", rotary, GRID, WRONG,
            (lambda: (half(2047.0) * torch.tensor([0.1]).half()).float().sin(),
             lambda: (torch.tensor([2047.0]) * 0.1).sin(), math.sin(204.7))),
    Planted("Fourier features", lambda x: torch.sin(x * 2.0**9), GRID, WATCH,
            (lambda: (half(0.7) * 2.0**9).sin(),
             lambda: (torch.tensor([0.7]) * 2.0**9).sin(), math.sin(0.7 * 2**9))),
    Planted("slopes times integers", by_slopes, GRID, WRONG,
            (lambda: torch.tensor([4097]) * half(1.0) - 4096,
             lambda: torch.tensor([4097]) * torch.ones(1) - 4096, 1.0)),
)  # fmt: skip
