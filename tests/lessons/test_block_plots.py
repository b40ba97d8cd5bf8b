"""block_plots.py: each figure's numbers are those that it was given, and its text names them."""

from __future__ import annotations

import pytest
import torch

from amp_lessons.amp.numbers import FP8_E4M3
from amp_lessons.lessons import block_plots


def numbers(picture) -> dict[str, list[float]]:
    return {name: [float(word) for word in words.split()] for name, words in picture.data.items()}


def test_windows_go_from_small_to_amax_and_leave_zeros_out():
    tensor = torch.cat([torch.zeros(1000), torch.tensor([-0.25] * 500 + [8.0])])
    picture = block_plots.windows({"weights": tensor}, FP8_E4M3, title="Some weights")
    assert numbers(picture) == {"weights": [-2, 3]}
    assert "E4M3 reaches from 2^-9 to 2^9" in picture.alt
    assert "weights 2^-2 to 2^3" in picture.alt


def test_spoilt_counts_eight_numbers_at_a_time():
    matrix = torch.ones(16, 32)
    stored = {"whole": matrix.clone(), "one row": matrix.clone(), "one place": matrix.clone()}
    stored["one row"][3] = 0.0
    stored["one place"][3, 9] = 0.3  # 0.7 of the root of 8 is 25%
    found = numbers(block_plots.spoilt(matrix, stored, title="Spoilt"))
    assert found["whole"] == [0]
    assert found["one row"] == pytest.approx([1 / 16])
    assert found["one place"] == pytest.approx([1 / 64], rel=0.01)


def test_what_is_nearly_right_is_not_spoilt():
    matrix = torch.ones(8, 16)
    assert numbers(block_plots.spoilt(matrix, {"off": matrix * 1.19}, title=""))["off"] == [0]
    assert numbers(block_plots.spoilt(matrix, {"off": matrix * 1.21}, title=""))["off"] == [1]


@pytest.mark.parametrize("log", [True, False])
def test_curves_by_size_are_told_with_both_ends(log):
    picture = block_plots.by_size(
        [2, 4, 1024],
        {"a": [0.1, 0.2, 0.4], "b": [3, 2, 1]},
        title="Errors",
        xlabel="K",
        ylabel="error",
        level=1.0,
        log=log,
    )
    assert numbers(picture) == {"a": [0.1, 0.2, 0.4], "b": [3, 2, 1]}
    assert "Errors. error by K, 2 to 1,024: a from 0.1 to 0.4; b from 3 to 1." in picture.alt
