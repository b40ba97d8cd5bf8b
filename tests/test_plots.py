"""plots.py: what a reader needs in order to tell two lines apart."""

from __future__ import annotations

import itertools

import pytest

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
