"""What lessons use to look behind the scenes tells the truth, and leaves torch as it was."""

from __future__ import annotations

import warnings

import pytest
import torch

from amp_lessons.lessons.experiments import (
    autocast_put_back,
    autocast_state,
    casts,
    deep_painter,
    item_calls,
    kept_for_backward,
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


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_casts_to_16_bits_are_listed_by_shape_and_nothing_else(mode):
    layer, x = torch.nn.Linear(8, 3), torch.ones(2, 8)
    with casts() as made, mode(), torch.autocast("cpu", dtype=torch.bfloat16):
        layer(x).float()
        x.half()
        x.double()
        torch.empty(4, dtype=torch.float16).copy_(torch.ones(4))
    assert sorted(made) == ["2 x 8", "2 x 8", "3", "3 x 8"]
    x.half()
    assert len(made) == 4


def test_autocast_state_says_off_or_the_dtype():
    assert autocast_state() == "off"
    with torch.autocast("cpu", dtype=torch.float16):
        assert autocast_state() == "torch.float16"
        assert autocast_state("cuda") == "off"


def test_autocast_is_put_back_even_after_an_exception():
    def leave_it_on():
        with autocast_put_back():
            torch.set_autocast_enabled("cpu", True)
            torch.set_autocast_dtype("cpu", torch.float16)
            raise ZeroDivisionError

    assert raised(leave_it_on) == "ZeroDivisionError: "
    assert autocast_state() == "off"
    assert torch.get_autocast_dtype("cpu") == torch.bfloat16


def test_tensors_that_are_kept_for_backward_come_once_and_without_the_known():
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2))
    x = torch.randn(5, 4)
    with kept_for_backward(x, *model.parameters()) as kept:
        loss = model(x).square().sum()
    loss.backward()
    assert [tuple(tensor.shape) for tensor in kept] == [(5, 3), (5, 2)]
    assert not any(tensor.requires_grad for tensor in kept)
    with kept_for_backward() as everything:
        model(x)
    assert any(tensor.data_ptr() == x.data_ptr() for tensor in everything)


def test_the_deep_painter_has_as_many_layers_as_asked():
    for layers in (3, 16):
        model = deep_painter(layers)
        assert sum(isinstance(m, torch.nn.Linear) for m in model.modules()) == layers
        assert model(torch.zeros(2, 64)).shape == (2, 64)
