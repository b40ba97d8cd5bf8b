"""What lessons use to look behind the scenes tells the truth, and leaves torch as it was."""

from __future__ import annotations

import warnings

import pytest
import torch

from amp_lessons.experiments import (
    item_calls,
    raised,
    raised_by,
    saved_for_backward,
    scaler_error,
    warned,
    without_cuda,
)


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
        (("step",), {"scaled": False}, "AssertionError: Attempted step but _scale is None"),
        (
            ("step",),
            {"trained": False},
            "AssertionError: No inf checks were recorded for this optimizer",
        ),
        (("unscale_", "unscale_"), {}, "RuntimeError: unscale_() has already been called"),
        (("step", "step"), {}, "RuntimeError: step() has already been called"),
        (("step", "unscale_"), {}, "RuntimeError: unscale_() is being called after step()"),
        (("update",), {}, "AssertionError: No inf checks were recorded prior to update"),
        (("unscale_", "step", "update"), {}, "no error"),
    ],
)
def test_a_scaler_says_what_the_lesson_explains(calls, settings, message):
    assert scaler_error(*calls, **settings).startswith(message)


def test_a_line_of_code_runs_among_the_names_that_it_is_given():
    names = {"memory": torch.zeros(3), "rows": torch.tensor([0]), "half": torch.ones(1).half()}
    assert raised_by("memory[:1] = half", names) == "no error"
    assert names["memory"].tolist() == [1, 0, 0]
    assert raised_by("memory[rows] = half", names).startswith("RuntimeError: Index put requires")


def test_what_is_saved_for_backward_comes_once_and_in_the_dtype_that_is_kept():
    x, weight = torch.ones(4, 8), torch.ones(8, 2, requires_grad=True)

    def forward(enabled: bool) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.float16, enabled=enabled):
            return torch.nn.functional.mse_loss(torch.tanh(x @ weight), torch.zeros(4, 2))

    wide = saved_for_backward(lambda: forward(False))
    assert [(t.dtype, tuple(t.shape)) for t in wide] == [
        (torch.float32, (4, 8)),
        (torch.float32, (4, 2)),  # the result of tanh, which the loss keeps as well
        (torch.float32, (4, 2)),
    ]
    low = saved_for_backward(lambda: forward(True))
    assert [t.dtype for t in low] == [torch.float16] * 2 + [torch.float32] * 2
