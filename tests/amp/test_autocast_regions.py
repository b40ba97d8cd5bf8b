"""What the lesson on regions says in numbers and in words, held against torch and its notebook."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from pathlib import Path

import nbformat
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from amp_lessons.amp.training.loops import autoencoder, load_digits
from amp_lessons.core import pictures
from amp_lessons.core.catalogue import lesson_called
from amp_lessons.lessons.experiments import autocast_put_back, autocast_state, casts

ROOT = Path(__file__).resolve().parents[2]
HALF, BFLOAT = torch.float16, torch.bfloat16


@cache
def images() -> torch.Tensor:
    return load_digits().train_images[:100]


def region(dtype=HALF, **options):
    return torch.autocast("cpu", dtype=dtype, **options)


def shown() -> list[dict]:
    """The outputs that the lesson's notebook stores."""
    notebook = nbformat.read(ROOT / lesson_called("autocast_regions").notebook, as_version=4)
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def test_the_curve_stands_still_and_the_usual_one_falls():
    (curves,) = [o.data[pictures.CURVES] for o in shown() if pictures.CURVES in o.get("data", {})][
        :1
    ]
    usual, other = ([float(v) for v in words.split()] for words in curves.values())
    assert len(usual) == len(other) == 150
    assert set(other) == {usual[0]}
    assert usual[1] < usual[0], "one step along the first gradient makes it better"
    assert usual[-1] < 0.02


def test_the_model_of_the_flat_curve_is_ruined():
    (text,) = [o.text for o in shown() if "one more region: error" in o.get("text", "")]
    usual, other = (float(line.split()[-1]) for line in text.splitlines()[:2])
    assert usual < 0.02
    assert 850 < other / 0.245 < 950, "the explanation says about 900 times"


def test_a_region_for_each_pass_takes_all_casts_in_every_mode():
    frozen = autoencoder().requires_grad_(False)
    modes = [(autoencoder(), mode()) for mode in (nullcontext, torch.no_grad, torch.inference_mode)]
    for model, mode in [*modes, (frozen, nullcontext())]:
        with casts() as made, mode:
            for _ in range(10):
                with region():
                    model(images())
        assert len(made) == 90


def test_a_loss_is_float32_inside_and_16_bits_after_the_region():
    with region():
        scores = nn.Linear(64, 10)(images())
        labels = torch.zeros(len(images()), dtype=torch.long)
        inside = F.cross_entropy(scores, labels)
    assert (inside.dtype, F.cross_entropy(scores, labels).dtype) == (torch.float32, HALF)


def test_numpy_takes_float16_and_refuses_bfloat16():
    assert str(images().half().numpy().dtype) == "float16"
    with pytest.raises(TypeError):
        images().bfloat16().numpy()


@pytest.mark.parametrize("dtype", [HALF, BFLOAT])
def test_backward_inside_changes_no_gradient_of_the_painter(dtype):
    def gradients(inside):
        model = autoencoder()
        with region(dtype):
            loss = F.mse_loss(model(images()), images())
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        return [parameter.grad for parameter in model.parameters()]

    pairs = list(zip(gradients(True), gradients(False), strict=True))
    assert len(pairs) == 8
    assert all(torch.equal(inside, outside) for inside, outside in pairs)


def test_the_state_is_seen_before_an_inner_region_unless_the_outer_one_is_disabled():
    with region():
        assert torch.is_autocast_enabled("cpu")
    with region(enabled=False):
        assert not torch.is_autocast_enabled("cpu")


def test_a_region_ends_with_an_exception():
    with pytest.raises(ZeroDivisionError), region():
        raise ZeroDivisionError
    assert autocast_state() == "off"


def test_a_decorated_recursion_and_a_region_entered_twice_leave_autocast_on():
    @region()
    def depth(tree):
        return 1 + max((depth(branch) for branch in tree), default=0)

    one = region()
    with autocast_put_back():
        assert depth([]) == 1
        assert autocast_state() == "off"
        assert depth([[]]) == 2
        assert autocast_state() == "torch.float16"
    with autocast_put_back():
        with one, one:
            pass
        assert autocast_state() == "torch.float16"
    assert autocast_state() == "off"


def test_of_the_optimizers_shown_only_adafactor_multiplies_matrices():
    def after(make, inside):
        model = autoencoder()
        weights = [p for p in model.parameters() if p.ndim == 2]
        F.mse_loss(model(images()), images()).backward()
        with region(BFLOAT, enabled=inside):
            make(weights, lr=0.01).step()
        return torch.cat([w.detach().flatten() for w in weights])

    for make, same in {"SGD": True, "AdamW": True, "Adafactor": False}.items():
        make = getattr(torch.optim, make)
        assert torch.equal(after(make, True), after(make, False)) == same, make
