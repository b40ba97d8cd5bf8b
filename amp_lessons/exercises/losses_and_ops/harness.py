"""What the norms and the streams of this topic are handed, and what is noted of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import (
    BFLOAT,
    HALF,
    SINGLE,
    as_play,
    from_seed,
    in_words,
    name_of,
    region,
)
from amp_lessons.exercises.varied import Varied
from amp_lessons.exercises.checks.serialize.compare import is_tensor

# ---- rows: unit_rows(x) and safe_rms_norm(x, weight, eps) ---------------------------------------
# A row that goes wrong in 16 bits has another row beside it that doesn't.


def _rows(values: Any, dtype: torch.dtype) -> Tensor:
    return torch.as_tensor(values, dtype=SINGLE).to(dtype)


def unit_row_cases() -> list[Case]:
    """Rows of zeros, large and small rows, and rows that are not zeros but look like it."""
    vary, noise = Varied(21), torch.randn(4, 6, generator=from_seed(21))

    def case(values: Any, dtype: torch.dtype, label: str) -> Case:
        about = ""
        if isinstance(values, list) and "in two rows" not in label:  # those have a sum of zero
            values = [[vary.near(x, 0.05) for x in row] for row in values]
            about = vary.note(0.05)
        return Case((_rows(values, dtype),), f"{label}, {name_of(dtype)}{about}")

    return [
        case(noise, HALF, "4 random rows"),
        case([[3.0, -4.0], [0.0, 0.0]], HALF, "a row of zeros"),
        case([[0.0] * 4, [1.5, 2.0, -1.0, 0.5]], HALF, "a row of zeros first"),
        case([[300.0, -200, 150], [1.0, -1, 2], [5e4, 4e4, 3e4]], HALF, "rows of 300, 1, 50,000"),
        case([[5e4, 4e4, -5e4, 1e4], [2.0, 1.0, -1.0, 3.0]], HALF, "entries of 50,000"),
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

    def case(values: Any, dtype: torch.dtype, eps: float) -> Case:
        rows = _rows(values, dtype)
        weight = 1 + 0.5 * torch.rand(rows.shape[-1], generator=random)
        label = f"x = {values}" if isinstance(values, list) else "3 random rows"
        return Case((rows, weight, eps), f"{label}, eps {eps:g}, {name_of(dtype)}")

    return [
        *(case(noise, dtype, 1e-5) for dtype in (HALF, BFLOAT, SINGLE)),
        case([[300, -300, 600, 100], [1, 2, -1, 4], [300, 8, -9, 1]], HALF, 1e-6),
        case([[1, 3, 2], [60000, 30000, -50000]], HALF, 1e-6),
        case([[50000, -50000], [2, 1]], HALF, 1e-5),
        case([[1e-3, -2e-3, 3e-3, 1e-4]], HALF, 1e-6),
        case([[1e-4, -2e-4, 3e-4]], HALF, 1e-8),
        case([[0, 0], [3, 1]], HALF, 1e-6),
        case([[2, 3, -1], [0, 0, 0]], HALF, 1e-12),
        case([[1e-5, -5e-6, 8e-6, 2e-6]], HALF, 1e-12),
        case([[0.3, 0.1, 0.2]], BFLOAT, 0.5),
        case([[1.0, -0.5, 2.0], [0.1, 0.3, 0.2]], SINGLE, 0.25),
        case([[40000, 30000, -50000]], SINGLE, 1e-6),
    ]


def rows_beside(seen: dict[str, Any], right: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Pairs of rows, what was seen and what is right, of a tensor like the right one."""
    got: Any = seen.get("value")
    wanted = right["value"]
    alike = is_tensor(got) and all(got[key] == wanted[key] for key in ("dtype", "shape"))
    return list(zip(got["values"], wanted["values"], strict=True)) if alike else []


def close(row: list[float], wanted: list[float], within: float = 0.01) -> bool:
    return all(abs(a - b) <= within for a, b in zip(row, wanted, strict=True))


def one_is_right(rows: list[tuple[Any, Any]]) -> bool:
    """Whether a row that isn't zeros came out right."""
    return any(any(wanted) and close(row, wanted, 0.02) for row, wanted in rows)


def lost(seen: dict[str, Any], right: dict[str, Any]) -> int:
    """How many FP16 rows came out as zeros that aren't, beside one that came out right."""
    rows, half = rows_beside(seen, right), right["value"]["dtype"] == "float16"
    zeros = sum(any(wanted) and not any(row) for row, wanted in rows)
    return zeros if half and one_is_right(rows) else 0


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

    some, little, much = (0.3, 0.0), (0.05, 0.6), (0.3, 20000.0)
    cases = []
    for start, count, size, dtype, inside in [
        (0.0, 4, some, SINGLE, HALF),
        (0.0, 3, some, BFLOAT, BFLOAT),
        (300.0, 4, little, BFLOAT, BFLOAT),
        (2500.0, 4, little, HALF, HALF),
        (300.0, 3, little, HALF, BFLOAT),
        (300.0, 4, little, SINGLE, BFLOAT),
        (2500.0, 3, little, SINGLE, HALF),
        (0.0, 5, much, HALF, HALF),
        (0.0, 5, much, SINGLE, HALF),
        (62000.0, 2, much, HALF, HALF),
    ]:
        x = (start + torch.randn(3, 6, generator=random)).to(dtype)
        with torch.random.fork_rng(devices=[]):
            blocks = [Block(6, *size, random) for _ in range(count)]
        label = f"{count} blocks that add about {size[1] or 1:g} each to a stream of {start:g}"
        label += f", x {name_of(dtype)}, region {name_of(inside)}"
        cases.append(Case((x, blocks, inside), label))
    return cases


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
