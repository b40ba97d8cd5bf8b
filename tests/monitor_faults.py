"""Training loops with a planted fault, and healthy ones, for the monitor and what it is held
against. Each fault strikes in step 3, at the line that ends in ``# fault``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

STRIKES = 3
STEPS = 6
WIDTH = 16


class Base(nn.Module):
    """Two layers with a body between them, where a fault can be."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)
        self.head = nn.Linear(WIDTH, 4)

    def body(self, h: Tensor) -> Tensor:
        return torch.relu(h)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.inner(x)))


class Attention(Base):
    def body(self, h: Tensor) -> Tensor:
        weights = torch.softmax(
            h @ h.mT,  # fault
            dim=-1,
        )
        return weights @ h


class TinyEps(Base):
    def body(self, h: Tensor) -> Tensor:
        low = h.half()
        wide = low / (low.abs().amax(-1, keepdim=True) + 1e-8)  # fault
        return wide.float()


class Exponential(Base):
    def body(self, h: Tensor) -> Tensor:
        return torch.exp(h)  # fault


class Root(Base):
    def body(self, h: Tensor) -> Tensor:
        return torch.sqrt(h.square().sum(-1, keepdim=True)) * torch.cos(h)  # fault


class Masked(Base):
    def body(self, h: Tensor) -> Tensor:
        closed = h.abs() >= (0 if self.struck else 1e9)
        scores = h.masked_fill(closed, float("-inf"))
        return torch.softmax(scores, dim=-1)  # fault

    struck = False


class RunningSum(Base):
    def body(self, h: Tensor) -> Tensor:
        return h.half().cumsum(-1).float()  # fault


class Normed(Base):
    def body(self, h: Tensor) -> Tensor:
        return h / torch.relu(h).norm(dim=-1, keepdim=True)  # fault


Loss = Callable[[Tensor, Tensor], Tensor]


def cross_entropy(out: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(out.float(), y)


def log_of_zero(out: Tensor, y: Tensor) -> Tensor:
    p = torch.softmax(out.float(), -1)
    return -torch.log(p)[torch.arange(len(y)), y].mean()  # fault


def bce_by_hand(out: Tensor, y: Tensor) -> Tensor:
    p = torch.sigmoid(out[:, 0].half()).float()
    right = (y > 1).float()
    return -(right * torch.log(p) + (1 - right) * torch.log(1 - p)).mean()  # fault


def tiny_loss(out: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(out.float(), y) * 1e-9  # fault


def huge_loss(out: Tensor, y: Tensor) -> Tensor:
    factor = 1e9 if huge_loss.struck else 1.0  # type: ignore[attr-defined]
    return F.cross_entropy(out.float(), y) * factor  # fault


huge_loss.struck = False  # type: ignore[attr-defined]


def squared(out: Tensor, y: Tensor) -> Tensor:
    return (out - y[:, None]).square().mean()  # fault too


@dataclass(frozen=True)
class Case:
    """One loop.

    Args:
        name: what goes wrong.
        model: makes the model.
        loss: of the output and the labels.
        ops: names of ops that are a right answer.
        scale: what the batch is multiplied by when the fault strikes.
        half: whether autocast is on, in float16.
        lr: of plain SGD.
    """

    name: str
    model: Callable[[], nn.Module] = Base
    loss: Loss = cross_entropy
    ops: tuple[str, ...] = ()
    scale: float = 1.0
    half: bool = False
    lr: float = 0.01


FAULTS = (
    Case("attention scores overflow", Attention, ops=("bmm", "mm"), scale=3e3, half=True),
    Case("log of zero", loss=log_of_zero, ops=("log",), scale=1e4),
    Case("division by a tiny eps", TinyEps, ops=("div",), scale=0.0),
    Case("FP16 gradients underflow", loss=tiny_loss, ops=("_to_copy",), half=True),
    Case("exp overflows", Exponential, ops=("exp",), scale=1e4),
    Case("slope of sqrt at 0", Root, ops=("sqrt",), scale=0.0),
    Case("BCE at p = 1", loss=bce_by_hand, ops=("log",), scale=1e4),
    Case("NaN in the batch", ops=("input 0",), scale=float("nan")),
    Case("learning rate too high", loss=squared, ops=("pow", "addmm", "mean"), lr=1e12),
    Case("softmax of masked rows", Masked, ops=("_softmax",)),
    Case("FP16 cumsum overflows", RunningSum, ops=("cumsum",), scale=4e4),
    Case("backward overflows in FP16", loss=huge_loss, ops=("_to_copy",), half=True),
    Case("division by the norm of zeros", Normed, ops=("div",), scale=0.0),
)


def batches(case: Case) -> Iterator[tuple[int, Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(1)
    for step in range(STEPS):
        x = torch.randn(4, 3, WIDTH, generator=generator)[:, 0] + 0.1
        if case.model is Attention:
            x = x.expand(2, 4, WIDTH).contiguous()
        y = torch.randint(4, (4,), generator=generator)
        yield step, x * (case.scale if step == STRIKES else 1.0), y


def train(case: Case, model: nn.Module, watch: Callable[[nn.Module], Any] | None = None) -> Any:
    """Run the loop. ``watch`` makes a context around it; its result is what is returned."""
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=case.lr)
    with watch(model) if watch else nullcontext() as seen:
        for step, x, y in batches(case):
            struck = step == STRIKES
            Masked.struck = huge_loss.struck = struck  # type: ignore[attr-defined]
            if case.model in (Root, Normed) and struck:
                with torch.no_grad():
                    model.inner.bias.zero_()  # type: ignore[union-attr, operator]
            if case.model is TinyEps and struck:
                with torch.no_grad():
                    model.inner.bias.zero_()  # type: ignore[union-attr, operator]
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16, enabled=case.half):
                out = model(x)  # the call
            if case.model is Attention:
                out = out[0]
            loss = case.loss(out, y)
            loss.backward()
            optimizer.step()
    Masked.struck = huge_loss.struck = False  # type: ignore[attr-defined]
    return seen


def made(case: Case) -> nn.Module:
    torch.manual_seed(0)
    return case.model()


# ---- healthy runs ----------------------------------------------------------------------------

Watch = Callable[[nn.Module, "torch.amp.GradScaler | None"], Any]


def _data(step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(16, WIDTH, generator=generator)
    return x, (x[:, :4]).argmax(-1)


def _plain(watch: Watch, dtype: torch.dtype | None, scaler: torch.amp.GradScaler | None) -> Any:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(WIDTH, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    with watch(model, scaler) as seen:
        for step in range(30):
            x, y = _data(step)
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype or torch.bfloat16, enabled=dtype is not None):
                loss = F.cross_entropy(model(x), y)
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
    return seen


def fp16_with_scaler(watch: Watch) -> Any:
    """A scale of 2**24 overflows at first, as a large initial scale does. Then it settles."""
    return _plain(watch, torch.float16, torch.amp.GradScaler("cpu", init_scale=2.0**24))


def bf16(watch: Watch) -> Any:
    return _plain(watch, torch.bfloat16, None)


def fp32(watch: Watch) -> Any:
    return _plain(watch, None, None)


class Players(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.maker = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, WIDTH))
        self.judge = nn.Sequential(nn.Linear(WIDTH, 16), nn.LeakyReLU(), nn.Linear(16, 1))


def two_optimizers(watch: Watch) -> Any:
    """A small GAN in FP16, with one scaler."""
    torch.manual_seed(0)
    model, scaler = Players(), torch.amp.GradScaler("cpu", init_scale=2.0**10)
    opt_judge = torch.optim.Adam(model.judge.parameters(), lr=1e-3)
    opt_maker = torch.optim.Adam(model.maker.parameters(), lr=1e-3)
    wrong = F.binary_cross_entropy_with_logits
    with watch(model, scaler) as seen:
        for step in range(20):
            real, _ = _data(step)
            with torch.autocast("cpu", torch.float16):
                fake = model.maker(torch.randn(16, 4))
                told_real, told_fake = model.judge(real), model.judge(fake.detach())
            loss = wrong(told_real.float(), torch.ones(16, 1))
            loss = loss + wrong(told_fake.float(), torch.zeros(16, 1))
            opt_judge.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(opt_judge)
            with torch.autocast("cpu", torch.float16):
                output = model.judge(fake)
            opt_maker.zero_grad()
            scaler.scale(wrong(output.float(), torch.ones(16, 1))).backward()
            scaler.step(opt_maker)
            scaler.update()
    return seen


def accumulation_and_clipping(watch: Watch) -> Any:
    """Four batches to a step, the mean of an attention mask filled with -inf, norms clipped."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(WIDTH, 2, 32, batch_first=True, norm_first=True)
    model = nn.ModuleDict({"layer": layer, "head": nn.Linear(WIDTH, 4)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    mask = nn.Transformer.generate_square_subsequent_mask(8)
    with watch(model, None) as seen:
        for step in range(8):
            for part in range(4):
                x, y = _data(4 * step + part)
                with torch.autocast("cpu", torch.bfloat16):
                    h = model["layer"](x.reshape(2, 8, WIDTH), src_mask=mask, is_causal=True)
                    loss = F.cross_entropy(model["head"](h).flatten(0, 1), y) / 4
                loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
    return seen


HEALTHY = (fp16_with_scaler, bf16, fp32, two_optimizers, accumulation_and_clipping)
