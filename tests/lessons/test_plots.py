"""plots.py: what a reader needs in order to tell two lines apart."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from amp_lessons.amp.memory.training import BytesAlive
from amp_lessons.amp.numbers.formats import BF16, FP8_E4M3, FP16, FP32
from amp_lessons.amp.scaling.scaler_log import ScalerRecord
from amp_lessons.core import pictures
from amp_lessons.core.es_modules import read_static
from amp_lessons.lessons import plots


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
    with pictures.figure_of() as (figure, _):
        bundle = pictures.Picture(figure, "A line.", data)._repr_mimebundle_()
    kinds = {"text/html", "text/plain"} | ({pictures.CURVES} if data else set())
    assert bundle.keys() == kinds
    assert bundle.get(pictures.CURVES) == ({"loss": "1 0.123 -inf nan"} if data else None)


def test_a_picture_keeps_the_numbers_that_it_was_drawn_from():
    losses = [torch.tensor(2.0), 1.0]
    picture = plots.curves(
        {"loss": losses}, title="Loss", xlabel="step", ylabel="loss", alt="It falls."
    )
    losses.append(0.5)
    assert picture._repr_mimebundle_()[pictures.CURVES] == {"loss": "2 1"}


def records(*scales, skipped=()):
    """Records of steps that were made with these scales; `scale`, what came after, is left out."""
    return [
        ScalerRecord(n, math.nan, n in skipped, n in skipped, 0, used=scale)
        for n, scale in enumerate(scales)
    ]


@pytest.mark.parametrize(
    ("scales", "skipped", "message"),
    [
        ((8.0, 8.0), (), "the scale begins at 2^3 and ends at 2^3. No step is skipped."),
        ((8.0, 4.0), (1,), "the scale begins at 2^3 and ends at 2^2. Step 1 is skipped."),
        (
            (4.0, 2.0, 4.0),
            (0, 1),
            "the scale begins at 2^2, falls to 2^1 and ends at 2^2. Steps 0",
        ),
        ((4.0, 8.0, 4.0), (0, 2), "2 steps are skipped, the first is step 0."),
    ],
)
def test_a_scale_is_told_in_words(scales, skipped, message):
    path = plots.scaler_path(records(*scales, skipped=skipped), title="A run")
    assert message in path.alt
    errors = [0.25] * len(scales)
    picture = plots.scaled_training(
        {"loop": errors}, records(*scales, skipped=skipped), title="A run", ylabel="error"
    )
    assert message in picture.alt
    assert picture.alt.startswith("A run. Error over")
    assert picture.data.keys() == {"loop", "exponent of the scale"}


def test_the_fields_of_a_number_have_the_colours_of_the_bit_explorer():
    css = read_static("widgets.css")
    for field, colour in plots.FIELDS.items():
        assert f"--amp-{field}: light-dark({colour}," in css


def test_spacing_says_which_formats_become_flat_within_the_figure():
    alt = plots.spacing([FP32, FP16, BF16, FP8_E4M3]).alt
    assert alt.endswith("Those of FP16, FP8 E4M3 are flat at their left ends.")
    assert "flat" not in plots.spacing([FP32, BF16]).alt


def test_memory_over_time_gives_each_phase_its_peak():
    with BytesAlive() as alive:
        kept = torch.zeros(256)
        alive.mark("forward")
        del kept
        assert [torch.zeros(1024), torch.zeros(512)]
        alive.mark("backward")
    picture = plots.memory_over_time({"FP32": alive}, title="T", limit=("the limit", 8192))
    assert picture.data == {"FP32": "1 6"}
    assert "FP32 has at most 1 in forward in step 1, 6 in backward in step 1." in picture.alt
    assert "the limit: 8." in picture.alt
    x, y = plots._by_phase(alive)
    assert all(0 < place < 2 for place in x)
    assert max(y) == alive.peak
