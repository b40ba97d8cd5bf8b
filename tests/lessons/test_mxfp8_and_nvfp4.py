"""Lesson 14: what its cells show, as numbers, and what its text says beside them."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
import torch
from sections import curves_of, text_after

from amp_lessons.amp.numbers.formats import FP4_E2M1
from amp_lessons.core.catalogue import lesson_called
from amp_lessons.exercises.mxfp8_and_nvfp4.harness import fp4
from amp_lessons.lessons.dot_plots import dots

ROOT = Path(__file__).resolve().parents[2]
LESSON = lesson_called("mxfp8_and_nvfp4")
CELLS = nbformat.read(ROOT / LESSON.notebook, as_version=4).cells
DEEP = nbformat.read(ROOT / LESSON.deep_notebook, as_version=4).cells


def numbers_after(code: str) -> list[float]:
    return [
        float(n.replace(",", "")) for n in re.findall(r"\d[\d,]*\.?\d*", text_after(CELLS, code))
    ]


def test_one_outlier_costs_nine_of_ten_weights_with_one_scale():
    zeros = re.findall(r"([\d,]+) zeros", text_after(CELLS, "with_outlier = weights.clone()"))
    one, mx, nv = (int(count.replace(",", "")) for count in zeros)
    assert 0.85 < one / 4096 < 0.95
    assert max(mx, nv) < 0.12 * 4096


def test_floor_cuts_off_and_rceil_does_not():
    rows = re.findall(r"(\w+) (FLOOR|RCEIL) +(\d+) +([\d.]+)%", text_after(CELLS, "blocks cut off"))
    cut = {(name, rounding): int(count) for name, rounding, count, _ in rows}
    assert 250 < cut["MXFP4", "FLOOR"] < 350
    assert 120 < cut["MXFP8", "FLOOR"] < 220
    assert cut["MXFP4", "RCEIL"] == cut["MXFP8", "RCEIL"] == 0
    error = {(name, rounding): float(percent) for name, rounding, _, percent in rows}
    assert error["MXFP4", "FLOOR"] == pytest.approx(error["MXFP4", "RCEIL"], abs=0.15)


def test_without_the_second_scale_gradients_vanish():
    text = text_after(CELLS, "one_level = ")
    found = dict(re.findall(r"size +([\de.-]+): .* (\d+)% without", text))
    assert found == {"10000": "80", "1": "9", "0.01": "12", "1e-06": "100"}


def test_square_blocks_are_the_same_in_both_directions():
    differ = [int(n.replace(",", "")) for n in re.findall(
        r" ([\d,]+) of 4,096 differ", text_after(CELLS, "square = "))]  # fmt: skip
    assert differ[0] < 60
    assert 0.7 < differ[1] / 4096 < 0.8
    assert differ[2] == 0


def test_nearest_rounding_predicts_too_many_clicks_and_stochastic_rounding_does_not():
    def pairs(code: str) -> list[tuple[float, float]]:
        found = re.findall(r"([\d.]+)% of the views.* says ([\d.]+)%", text_after(CELLS, code))
        return [(float(actual), float(predicted)) for actual, predicted in found]

    exact, nearest = pairs("exact = "), pairs("click_rate(nearest, seed)")
    stochastic = pairs("gradients=stochastic")
    assert len(exact) == len(nearest) == len(stochastic) == 3
    assert all(abs(predicted - actual) < 0.11 for actual, predicted in exact + stochastic)
    assert all(predicted > 1.1 * actual for actual, predicted in nearest)


def test_mixing_helps_mxfp4_and_not_nvfp4():
    found = curves_of(CELLS, "The error of a row, by its outlier")
    at_16 = {name: errors[4] for name, errors in found.items()}
    assert at_16["MXFP4 mixed"] < 0.7 * at_16["MXFP4"]
    assert at_16["NVFP4 mixed"] > 1.05 * at_16["NVFP4"]
    assert found["NVFP4"][0] == pytest.approx(found["NVFP4 mixed"][0], rel=0.05)


def test_mixing_pays_in_the_gradient_of_the_weight_for_large_outliers():
    found = re.findall(r"error ([\d.]+)% plain, ([\d.]+)% mixed", text_after(CELLS, "exact_sum = "))
    small, _, large = ((float(plain), float(mixed)) for plain, mixed in found)
    assert small[1] > small[0]
    assert large[1] < 0.75 * large[0]


def test_the_exercises_fp4_is_the_courses():
    numbers = torch.tensor(FP4_E2M1.decode(range(8)))
    points = torch.cat([numbers, (numbers[1:] + numbers[:-1]) / 2, torch.tensor([5.2, 7.0, 1e9])])
    points = torch.cat([points, torch.nextafter(points, torch.tensor(1e10)), points * 0.999])
    points = torch.cat([points, -points])
    assert torch.equal(fp4(points), FP4_E2M1.round(points))


def test_dots_beyond_the_edge_are_written_out():
    picture = dots({"a": [1.0, 2.0], "b": [50.0, 60.0]}, title="T", xlabel="x", limit=10, unit="%")
    assert picture.alt == "T. Dots, by x: a 1 to 2%; b 50 to 60%."
    assert set(picture.data or {}) == {"a", "b"}


def test_no_line_of_output_is_a_bare_true_or_false():
    for cell in [*CELLS, *DEEP]:
        text = "".join(output.get("text", "") for output in cell.get("outputs", []))
        assert not re.search(r"(?<!=)\b(True|False|yes|no|ok)\s*$", text, re.MULTILINE)
