"""What the norms and the losses of this topic are handed, and what is noted of them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from amp_lessons.checks.probe import Case

HALF, BFLOAT, SINGLE = torch.float16, torch.bfloat16, torch.float32


def name_of(dtype: torch.dtype | None) -> str:
    return "no region" if dtype is None else str(dtype).removeprefix("torch.")


# ---- rows: unit_rows(x) and safe_rms_norm(x, weight, eps) ---------------------------------------
# A row that goes wrong in 16 bits has another row beside it that doesn't.


def _rows(values: Any, dtype: torch.dtype) -> Tensor:
    return torch.as_tensor(values, dtype=SINGLE).to(dtype)


def unit_row_cases() -> list[Case]:
    """Rows of zeros, large and small rows, and rows that are not zeros but look like it."""
    noise = torch.randn(4, 6, generator=torch.Generator().manual_seed(21))

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
        case([[0.0, 3.0, -1.0, -2.0], [-1.0, -3.0, -2.0, 0.0]], BFLOAT, "a 0 in each row"),
        case(100 * noise[:2, :3], SINGLE, "2 random rows"),
        case([[0.0, 0.0], [300.0, 100.0]], SINGLE, "a row of zeros"),
        case([[2.0, -1.0, 5.0], [0.0, 0.0, 0.0]], SINGLE, "a row of zeros at the end"),
        case([[0.0, 4.0, -6.0, 2.0], [-5.0, -1.0, -2.0, 0.0]], SINGLE, "a 0 in each row"),
    ]


def rms_norm_cases() -> list[Case]:
    """Large and small rows, rows of zeros, and each eps that an answer may have written in."""
    random = torch.Generator().manual_seed(22)
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
