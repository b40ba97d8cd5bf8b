"""What the norms and the streams of this topic are handed, and what is noted of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.checks.probe import Case
from amp_lessons.exercises.stage import (
    BFLOAT,
    HALF,
    SINGLE,
    as_play,
    from_seed,
    in_words,
    name_of,
    region,
)

# ---- rows: unit_rows(x) and safe_rms_norm(x, weight, eps) ---------------------------------------
# A row that goes wrong in 16 bits has another row beside it that doesn't.


def _rows(values: Any, dtype: torch.dtype) -> Tensor:
    return torch.as_tensor(values, dtype=SINGLE).to(dtype)


def unit_row_cases() -> list[Case]:
    """Rows of zeros, large and small rows, and rows that are not zeros but look like it."""
    noise = torch.randn(4, 6, generator=from_seed(21))

    def case(values: Any, dtype: torch.dtype, label: str) -> Case:
        return Case((_rows(values, dtype),), f"{label}, {name_of(dtype)}")

    return [
        case(noise, HALF, "4 random rows"),
        case([[3.0, -4.0], [0.0, 0.0]], HALF, "a row of zeros"),
        case([[0.0] * 4, [1.5, 2.0, -1.0, 0.5]], HALF, "a row of zeros first"),
        case([[300.0, -200.0, 150.0], [1.0, -1.0, 2.0]], HALF, "entries of 300"),
        case([[5e4, 4e4, -5e4, 1e4], [2.0, 1.0, -1.0, 3.0]], HALF, "entries of 50,000"),
        case([[1.5, 3.0, -2.0], [5e4, -4e4, 4.5e4]], HALF, "a second row of 50,000"),
        case([[0.003, -0.001, 0.002], [40.0, 10.0, -30.0]], HALF, "entries of 0.003"),
        case(100 * noise, BFLOAT, "4 larger rows"),
        case([[0.0] * 5, [2.0, 1.0, 3.0, -1.0, 5.0]], BFLOAT, "a row of zeros"),
        case([[0.003, -0.001, 0.002], [40.0, 10.0, -30.0]], BFLOAT, "entries of 0.003"),
        case([[0.003, -0.001, 0.002], [40.0, 10.0, -30.0]], SINGLE, "entries of 0.003"),
        case([[0.0, 3, -1, -2], [-1, -3, -2, 0], [1, 2, 3, 4]], BFLOAT, "a 0 in two rows"),
        case(100 * noise[:2, :3], SINGLE, "2 random rows"),
        case([[0.0, 0.0], [300.0, 100.0]], SINGLE, "a row of zeros"),
        case([[2.0, -1.0, 5.0], [0.0, 0.0, 0.0]], SINGLE, "a row of zeros at the end"),
        case([[0.0, 4, -6, 2], [-5, -1, -2, 0], [5, 1, 2, 3]], SINGLE, "a 0 in two rows"),
    ]


def rms_norm_cases() -> list[Case]:
    """Large and small rows, rows of zeros, and each eps that an answer may have written in."""
    random = from_seed(22)
    noise = 2 + torch.randn(3, 6, generator=random)

    def case(values: Any, dtype: torch.dtype, eps: float, label: str) -> Case:
        rows = _rows(values, dtype)
        weight = 1 + 0.5 * torch.rand(rows.shape[-1], generator=random)
        return Case((rows, weight, eps), f"{label}, eps {eps:g}, {name_of(dtype)}")

    return [
        case(noise, HALF, 1e-5, "3 random rows"),
        case(noise, BFLOAT, 1e-5, "3 random rows"),
        case(noise, SINGLE, 1e-5, "3 random rows"),
        case([[300.0, -300.0, 600.0, 100.0], [1.0, 2.0, -1.0, 4.0]], HALF, 1e-6, "a row of 600"),
        case([[1.0, 3.0, 2.0], [6e4, 3e4, -5e4]], HALF, 1e-6, "a row of 60,000"),
        case([[5e4, -5e4], [2.0, 1.0]], HALF, 1e-5, "a row of 50,000"),
        case([[1e-3, -2e-3, 3e-3, 1e-4]], HALF, 1e-6, "entries of 0.003"),
        case([[1e-4, -2e-4, 3e-4]], HALF, 1e-8, "entries of 0.0003"),
        case([[0.0, 0.0], [3.0, 1.0]], HALF, 1e-6, "a row of zeros"),
        case([[2.0, 3.0, -1.0], [0.0, 0.0, 0.0]], HALF, 1e-12, "a row of zeros"),
        case([[1e-5, -5e-6, 8e-6, 2e-6]], HALF, 1e-12, "entries of 0.00001"),
        case([[0.3, 0.1, 0.2]], BFLOAT, 0.5, "a large eps"),
        case([[1.0, -0.5, 2.0], [0.1, 0.3, 0.2]], SINGLE, 0.25, "a large eps"),
        case([[4e4, 3e4, -5e4]], SINGLE, 1e-6, "entries of 50,000"),
    ]


# ---- a stream: residual_stream(x, blocks, region) -----------------------------------------------


class Block(nn.Module):
    """A norm and a linear layer. It notes the dtype that the linear layer gives."""

    def __init__(self, width: int, weight: float, bias: float, random: torch.Generator) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)
        with torch.no_grad():
            self.linear.weight.copy_(weight * torch.randn(width, width, generator=random))
            self.linear.bias.copy_(bias * (1 + 0.1 * torch.randn(width, generator=random)))
        self.ran_in: list[str] = []

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(self.norm(x))
        self.ran_in.append(name_of(y.dtype))
        return y

    def marks(self) -> set[str]:
        """What a caller would find afterwards, in words."""
        words = {f"{name_of(p.dtype)} weights" for p in self.parameters()}
        if not all(p.requires_grad for p in self.parameters()):
            words.add("frozen weights")
        if any(m._forward_hooks or m._forward_pre_hooks for m in self.modules()):
            words.add("hooks")
        return words


def stream_cases() -> list[Case]:
    """Streams on which the updates get lost, or that grow past 65504, in each pair of dtypes."""
    random = from_seed(23)

    def case(
        start: float, count: int, size: tuple[float, float], x: torch.dtype, inside: torch.dtype
    ) -> Case:
        given = (start + torch.randn(3, 6, generator=random)).to(x)
        with torch.random.fork_rng(devices=[]):
            blocks = [Block(6, *size, random) for _ in range(count)]
        label = f"{count} blocks that add about {size[1] or 1:g} each to a stream of {start:g}"
        return Case((given, blocks, inside), f"{label}, x {name_of(x)}, region {name_of(inside)}")

    some, little, much = (0.3, 0.0), (0.05, 0.6), (0.3, 4000.0)
    return [
        case(0.0, 5, some, SINGLE, HALF),
        case(0.0, 3, some, BFLOAT, BFLOAT),
        case(300.0, 12, little, BFLOAT, BFLOAT),
        case(2500.0, 15, little, HALF, HALF),
        case(300.0, 10, little, HALF, BFLOAT),
        case(300.0, 12, little, SINGLE, BFLOAT),
        case(2500.0, 10, little, SINGLE, HALF),
        case(0.0, 25, much, HALF, HALF),
        case(0.0, 25, much, SINGLE, HALF),
        case(62000.0, 4, much, HALF, HALF),
    ]


@as_play
def play_stream(
    function: Callable[..., Any], x: Tensor, blocks: list[Block], inside: torch.dtype
) -> Any:
    start = x.detach().double()
    with region(None):
        stream = function(x, blocks, inside)
        left_on = torch.is_autocast_enabled("cpu")
    if not isinstance(stream, Tensor) or stream.shape != x.shape:
        return stream
    return {
        "linear layers ran in": in_words(n for b in blocks for n in b.ran_in),
        "runs of each block": sorted({len(block.ran_in) for block in blocks}),
        "the blocks afterwards": in_words(w for b in blocks for w in b.marks()),
        "autocast afterwards": "on" if left_on else "off",
        "added to x": (stream.detach().double() - start).float(),
        "dtype of the stream": name_of(stream.dtype),
    }
