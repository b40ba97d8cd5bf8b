"""plots.py: what a reader needs in order to tell two lines apart."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from amp_lessons import plots


@pytest.mark.parametrize(
    "heights", [[0.003, 0.0], [0.0, 0.003], [1.0, 1.0, 1.0], [0.0, 5.0], [2.0]]
)
def test_labels_that_end_close_together_are_moved_apart(heights):
    moved = sorted(plots._apart(heights, 0.01))
    assert all(b - a > 0.0099 for a, b in itertools.pairwise(moved))
    assert all(0 <= m - h <= 0.021 for h, m in zip(sorted(heights), moved, strict=True))


def test_labels_keep_their_order_and_their_place_where_there_is_room():
    assert plots._apart([5.0, 0.0], 1.0) == [5.0, 0.0]
    low, high = plots._apart([0.0, 0.1], 1.0)
    assert (low, high) == (0.0, 1.0)


@pytest.mark.parametrize("data", [None, {"loss": [1, 0.12345, -math.inf, math.nan]}])
def test_a_picture_brings_its_numbers_along_if_it_is_given_them(data):
    with plots._figure() as (figure, _):
        bundle = plots.Picture(figure, "A line.", data)._repr_mimebundle_()
    kinds = {"text/html", "text/plain"} | ({plots.CURVES} if data else set())
    assert bundle.keys() == kinds
    assert bundle.get(plots.CURVES) == ({"loss": "1 0.123 -inf nan"} if data else None)


def test_a_picture_keeps_the_numbers_that_it_was_drawn_from():
    losses = [torch.tensor(2.0), 1.0]
    picture = plots.curves(
        {"loss": losses}, title="Loss", xlabel="step", ylabel="loss", alt="It falls."
    )
    losses.append(0.5)
    assert picture._repr_mimebundle_()[plots.CURVES] == {"loss": "2 1"}
