"""gain_plots.py: each figure's numbers are those of its rows, and its text says what it shows."""

from __future__ import annotations

import dataclasses

import pytest

from amp_lessons.amp.speed.published import (
    first_variants,
    four_rates,
    load_published,
    of,
    on,
    on_both,
    one_gpu,
)
from amp_lessons.amp.speed.records import RecordError
from amp_lessons.core import pictures
from amp_lessons.lessons import gain_plots

PUBLISHED = load_published()
PAIRS = first_variants(on_both(PUBLISHED.best_pairs()))


def numbers(picture):
    """The numbers behind a picture, by series."""
    return {name: [float(word) for word in words.split()] for name, words in picture.data.items()}


@pytest.fixture
def drawn(monkeypatch):
    """The axes of the figures that a test draws, in order."""
    kept = []
    draw = pictures.Picture.__init__

    def keep(self, figure, *rest, **named):
        kept.extend(figure.axes)
        draw(self, figure, *rest, **named)

    monkeypatch.setattr(pictures.Picture, "__init__", keep)
    return kept


def markers(axes):
    """Each marker as x, shape and whether it is filled."""
    return [
        (line.get_xdata()[0], line.get_marker(), line.get_markerfacecolor() != "white")
        for line in axes.lines
        if line.get_marker() not in ("None", "", None)
    ]


def test_the_dumbbell_has_both_gpus_of_each_model_sorted_by_the_a100():
    found = numbers(gain_plots.dumbbell(PAIRS))
    assert len(found) == 25
    a100 = [gain for _, gain in found.values()]
    assert a100 == sorted(a100)
    assert found["Tacotron 2"] == [1.73, 0.841]
    assert found["FastPitch 1.1"] == [2.63, 1.05]
    v100 = {row.name: row.speedup for row in on(PAIRS, "V100")}
    assert {name: gains[0] for name, gains in found.items()} == pytest.approx(v100, rel=0.005)


def test_the_dumbbell_marks_what_is_not_like_for_like(drawn):
    picture = gain_plots.dumbbell(of(PAIRS, "ResNet50", "Jasper", "BERT"))
    (axes,) = drawn
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "Jasper", "BERT large seq 128 pre-training", "ResNet50 v1.5"
    ]  # fmt: skip
    shapes = {(shape, filled) for _, shape, filled in markers(axes)}
    assert shapes == {("o", True), ("s", True), ("o", False), ("s", False)}
    filled = {round(x, 2) for x, _, full in markers(axes) if full}
    assert filled == {2.89, 1.52}  # Jasper's two; ResNet50 changes its layout, BERT its batch
    assert "Jasper: A100 1.52 and V100 2.89;" in picture.alt
    assert "ResNet50 v1.5: A100 2.63* and V100 3.27*" in picture.alt


def test_a_model_of_one_gpu_has_one_marker(drawn):
    picture = gain_plots.dumbbell(of(PUBLISHED.best_pairs(), "MoFlow"))
    assert [shape for _, shape, _ in markers(drawn[0])] == ["s"]
    assert picture.data == {"MoFlow": "nan 1.43"}


def test_gain_by_batch_has_a_panel_a_model_and_a_line_a_gpu(drawn):
    rows = of(PUBLISHED.inference, "ResNet50", "EfficientNet-b0", "SSD300")
    picture = gain_plots.gain_by_batch(rows)
    assert [axes.get_title(loc="left") for axes in drawn] == [
        "SSD300 v1.1 (ResNet50)", "EfficientNet-b0", "ResNet50 v1.5"
    ]  # fmt: skip
    assert all(axes.get_xscale() == "log" for axes in drawn)
    found = numbers(picture)
    batches, gains = found["ResNet50 v1.5, V100"][::2], found["ResNet50 v1.5, V100"][1::2]
    assert batches == [1, 2, 4, 8, 16, 32, 64, 128, 256]
    assert dict(zip(batches, gains, strict=True))[16] == 1.15
    assert gains[0] < 1 < gains[-1]
    assert "ResNet50 v1.5, V100: 0.81 at 1," in picture.alt


def test_tf32_share_is_relative_to_the_v100_in_fp32():
    picture = gain_plots.tf32_share(
        four_rates(first_variants(on_both(one_gpu(PUBLISHED.training))))
    )
    found = numbers(picture)
    assert found["BERT large seq 128 pre-training"] == [1, 4.48, 6.34, 11.6]
    starts = [tf32 for _, _, tf32, _ in found.values()]
    assert starts == sorted(starts)
    ahead = sum(tf32 > v100 for _, v100, tf32, _ in found.values())
    assert f"for {ahead} of {len(found)} models" in picture.alt


def test_accuracy_spread_draws_the_pairs_that_have_one(drawn):
    picture = gain_plots.accuracy_spread(PUBLISHED.accuracy)
    found = [value for values in numbers(picture).values() for value in values]
    assert sorted(found) == pytest.approx(
        sorted(row.deviations for row in PUBLISHED.spread_pairs()), abs=0.006
    )
    assert "23 of 25 differences lie within 2 standard deviations." in picture.alt
    assert drawn[0].get_yticklabels()[0].get_text() == "ResNet50 v1.5, 50 epochs, V100 32GB"
    low, high = drawn[0].get_xlim()
    assert low < min(found)
    assert high > max(found)


def test_within_counts_at_a_width():
    assert gain_plots.within(PUBLISHED.spread_pairs(), 1).startswith("16 of 25 differences")


def test_the_placebo_tells_confirmed_runs_from_others(drawn):
    picture = gain_plots.placebo(PUBLISHED.by_model())
    off = {"WaveGlow", "Tacotron 2", "NCF"}
    by_shape = {}
    for x, shape, _ in markers(drawn[0]):
        by_shape.setdefault(shape, []).append(x)
    assert len(by_shape["X"]) == len(off)
    assert max(by_shape["X"]) < 1.1 < 1.4 < min(by_shape["o"])
    assert numbers(picture)["WaveGlow, off"] == [1.04, 0.994, 1.09]
    said_off, _, said_on = picture.alt.partition("the log says it was on: ")
    assert all(name in said_off for name in off)
    assert "BERT large 2.12 (1.80 to 4.75, 65 runs)" in said_on


@pytest.mark.parametrize(
    "draw",
    [
        gain_plots.dumbbell,
        gain_plots.gain_by_batch,
        gain_plots.tf32_share,
        gain_plots.accuracy_spread,
        gain_plots.placebo,
    ],
)
def test_a_choice_that_leaves_nothing_says_so(draw):
    with pytest.raises(RecordError, match="no rows to draw"):
        draw([])


def test_two_rows_for_one_place_are_refused():
    (pair,) = of(PUBLISHED.best_pairs(), "MoFlow")
    with pytest.raises(RecordError, match="two rows for MoFlow on A100: choose one"):
        gain_plots.dumbbell([pair, pair])
    row = on(of(PUBLISHED.inference, "ResNet50"), "T4")[0]
    other = dataclasses.replace(row, id="again")
    with pytest.raises(RecordError, match=r"two rows for ResNet50 v1\.5 on T4, batch 1:"):
        gain_plots.gain_by_batch([row, other])


def test_a_kind_of_gpu_looks_the_same_in_every_figure():
    looks = [gain_plots._marker(gpu, filled=True) for gpu in gain_plots.GPUS]
    assert len({look["mec"] for look in looks}) == len({look["marker"] for look in looks}) == 3
