"""What to do when a trace stops on a model that was loaded.

These say what to write on our own command line. Faults of mixed precision stand in `amp.errors`.
"""

from __future__ import annotations

import inspect

from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from amp_lessons.amp.fake_tensors.errors import CANNOT_FOLLOW, TraceError
from amp_lessons.amp.loading.model_spec import LoadedModel, LoadError
from amp_lessons.core.errors import AmpLessonsError

SMALL = 2**30
"""Bytes of parameters up to which a model is built for real without asking."""


def worth_a_real_run(given: LoadedModel, error: Exception) -> bool:
    """Whether the model asked for values, has none, and is small enough to be built with them."""
    stopped = isinstance(error, TraceError) and error.kind == CANNOT_FOLLOW
    parameters = list(given.model.parameters())
    without = any(isinstance(p, FakeTensor) or p.is_meta for p in parameters)
    return stopped and without and sum(p.nbytes for p in parameters) <= SMALL


def with_fix(error: AmpLessonsError, given: LoadedModel) -> AmpLessonsError:
    """The error, with what to write on the command line where that may help."""
    text, cure = str(error), ""
    if "indices" in text and "Long" in text:
        cure = "token ids are whole numbers: write --input input_ids=2,16:int64"
    elif "out of range for an embedding" in text and "inputs:" in given.note:
        cure = (
            "the tokens made here don't fit: take a smaller --length, or bound them as in "
            "--input 'input_ids=2,16:int64<1000'"
        )
    elif isinstance(error, TraceError) and error.kind == CANNOT_FOLLOW and "--values" not in text:
        cure = "on the command line, --values real builds the model and runs it on the CPU"
    elif not given.args and not given.kwargs and "--input" not in text:
        cure = f"no inputs were given: write --input NAME=SHAPE for {', '.join(takes(given.model))}"
    return LoadError(f"{text}; {cure}") if cure else error


def takes(model: nn.Module) -> list[str]:
    """The names of the inputs that a forward takes."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
