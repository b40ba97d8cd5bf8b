"""In which order a refused model is tried again, and what the last refusal says."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from amp_lessons.amp.fake_tensors.errors import CANNOT_FOLLOW, TraceError
from amp_lessons.amp.loading import LoadedModel, LoadError, ModelSpec, attempts, attempts_at

WANTED = ModelSpec("some:model")
LOOKS = TraceError("it looks at numbers", kind=CANNOT_FOLLOW)


@pytest.fixture
def loaded(monkeypatch):
    """A model that comes with a picture; says for each load whether it was asked to be real."""
    loads: list[bool] = []

    def load(wanted: ModelSpec) -> LoadedModel:
        loads.append(wanted.real)
        with torch.device("cpu" if wanted.real else "meta"):
            model = nn.Linear(2, 2)
        plain = LoadedModel(model, kwargs={"ids": 1}, note="Linear: inputs: ids=1")
        return LoadedModel(model, kwargs={"ids": 1, "picture": 2}, note="", plain=plain)

    monkeypatch.setattr(attempts, "load_model", load)
    return loads


def tried(values: str, *refusals: Exception) -> list[LoadedModel]:
    """The models of all attempts, of which the first ones refuse."""
    models, left = [], iter(refusals)
    for attempt in attempts_at(WANTED, values):
        with attempt.started() as given:
            models.append(given)
            if error := next(left, None):
                raise error
    return models


def test_the_first_that_works_is_the_last(loaded):
    (given,) = tried("auto")
    assert (set(given.kwargs), loaded) == ({"ids", "picture"}, [False])


def test_what_was_made_here_is_left_out_first_and_real_numbers_come_next(loaded):
    models = tried("auto", LoadError("no such picture"), LOOKS, LoadError("not this one"))
    assert [len(given.kwargs) for given in models] == [2, 1, 2, 1]
    assert [given.model.weight.is_meta for given in models] == [True, True, False, False]
    assert loaded == [False, True]
    assert models[1].note.splitlines()[1:] == [
        "left out, because the model refused them: picture (no such picture)"
    ]


@pytest.mark.parametrize("values", ["fake", "real"])
def test_numbers_that_were_not_asked_for_are_not_made(loaded, values):
    with pytest.raises(LoadError, match="it looks at numbers; on the command line, --values real"):
        tried(values, LoadError("no such picture"), LOOKS)
    assert loaded == [values == "real"]


def test_an_error_of_somebody_elses_code_is_not_tried_again(loaded):
    with pytest.raises(ZeroDivisionError):
        tried("auto", ZeroDivisionError())
    assert loaded == [False]
