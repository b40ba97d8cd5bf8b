"""What lessons use to look behind the scenes tells the truth, and leaves torch as it was."""

from __future__ import annotations

import warnings

import pytest
import torch

from amp_lessons.experiments import item_calls, raised, scaler_error, warned, without_cuda


def test_item_calls_are_counted_and_still_give_their_number():
    original = torch.Tensor.item
    with item_calls() as seen:
        assert torch.tensor(3.0).item() == 3.0
        torch.tensor(2, dtype=torch.int64).item()
    assert seen == ["torch.float32", "torch.int64"]
    torch.tensor(1.0).item()
    assert len(seen) == 2
    assert torch.Tensor.item is original


def test_without_cuda_there_is_none_and_afterwards_what_there_was():
    before = torch.cuda.is_available()
    with without_cuda():
        assert not torch.cuda.is_available()
    assert torch.cuda.is_available() == before


def test_the_first_warning_is_told_and_none_is_said_to_be_none():
    def twice():
        warnings.warn("First. More of it.", stacklevel=1)
        warnings.warn("Second", stacklevel=1)

    assert warned(twice) == "First"
    assert warned(lambda: None) == "no warning"


def test_an_exception_is_told_with_its_type():
    assert raised(lambda: {}["x"]) == "KeyError: 'x'"
    assert raised(lambda: 1) == "no error"


@pytest.mark.parametrize(
    ("calls", "settings", "message"),
    [
        (("step",), {"scaled": False}, "Attempted step but _scale is None"),
        (("step",), {"trained": False}, "No inf checks were recorded for this optimizer"),
        (("unscale_", "unscale_"), {}, "unscale_() has already been called"),
        (("step", "step"), {}, "step() has already been called"),
        (("step", "unscale_"), {}, "unscale_() is being called after step()"),
        (("update",), {}, "No inf checks were recorded prior to update"),
        (("unscale_", "step", "update"), {}, "no error"),
    ],
)
def test_a_scaler_says_what_the_lesson_explains(calls, settings, message):
    assert scaler_error(*calls, **settings).startswith(message)
