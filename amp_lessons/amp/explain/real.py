"""Which values a trace runs on: fake tensors where they do, real ones on the CPU where they don't.

Fake tensors have no values, so a model that branches on an activation stops them. If the model and
its inputs hold values, the same pass is run with them; a note says so.
"""

from __future__ import annotations

from dataclasses import replace

from amp_lessons.amp.explain.passes import FAKE, REAL, UNBACKED, TraceRequest, explained
from amp_lessons.amp.explain.report import Explanation
from amp_lessons.amp.fake_tensors.errors import (
    BAD_INPUT,
    CANNOT_FOLLOW,
    MODEL_RAISES,
    TraceError,
    depends_on_values,
)
from amp_lessons.amp.fake_tensors.models import has_values

VALUES = ("auto", FAKE, REAL)

_BESIDE = (
    "values computed on the CPU beside the fake CUDA tensors decided which way the model went; "
    "the rules are CUDA's"
)
_ON_THE_CPU = "this is a run with real values on the CPU, by the CPU's rules and in its kernels"
_CURE = (
    'give the model and its inputs real values (not on "meta", and no fake tensors), and a run on '
    "the CPU follows it"
)
_SIZES = "sizes that depend on values are not known; what they multiply counts 0"


def best(asked: TraceRequest, values: str) -> Explanation:
    """The explanation from the first kind of run that can follow the model.

    Raises:
        TraceError: if none can, or if the model itself raises.
    """
    possible = has_values(asked.model, (asked.inputs, dict(asked.kwargs), asked.target))
    if values == REAL:
        if not possible:
            raise TraceError(f"values='real' needs values: {_CURE}")
        return _really(asked)
    try:
        return explained(asked)
    except TraceError as stopped:
        if stopped.kind == BAD_INPUT:
            raise
        if values == FAKE or not possible:
            return _with_unknown_sizes(asked, stopped, possible)
        if stopped.kind == MODEL_RAISES and asked.device != "cpu":
            raise  # by CUDA's rules, of which a run on the CPU says nothing
        return _after(asked, stopped)


def _after(asked: TraceRequest, stopped: TraceError) -> Explanation:
    """A run with real values, after fake tensors stopped."""
    try:
        return _really(asked)
    except TraceError as error:
        only_stops = error.kind == CANNOT_FOLLOW and asked.device == "cpu"
        if stopped.kind == MODEL_RAISES or only_stops:
            raise stopped from error
        raise


def _really(asked: TraceRequest) -> Explanation:
    """With real values: by CUDA's rules if they can be had, else by the CPU's.

    A model that raises on the CPU only because its kernels differ is not told apart.
    """
    if asked.device == "cuda":
        try:
            return _noted(explained(asked, REAL), _BESIDE)
        except TraceError as error:
            if error.kind != CANNOT_FOLLOW:
                raise
            return _by_the_cpus_rules(asked, error)
    return _noted(explained(asked, REAL), _ON_THE_CPU)


def _by_the_cpus_rules(asked: TraceRequest, stopped: TraceError) -> Explanation:
    """The CPU's answer to a question about CUDA. What raises there need not raise on a GPU."""
    try:
        found = explained(replace(asked, device="cpu"), REAL)
    except TraceError as error:
        if error.kind == CANNOT_FOLLOW:
            raise stopped from stopped.__cause__
        message = f"{stopped}; nor could it run on the CPU instead: {error}"
        raise _saying(message, stopped) from stopped.__cause__
    return _noted(found, f"{_ON_THE_CPU}, for CUDA's could not be followed ({stopped})")


def _with_unknown_sizes(asked: TraceRequest, stopped: TraceError, possible: bool) -> Explanation:
    """With sizes that depend on values left open. Raises ``stopped`` where that does not help."""
    if depends_on_values(stopped.__cause__ or stopped):
        try:
            return _noted(explained(asked, UNBACKED), _SIZES)
        except TraceError:
            pass
    if stopped.kind == CANNOT_FOLLOW and not possible:
        raise _with_cure(stopped) from stopped.__cause__
    raise stopped


def _with_cure(error: TraceError) -> TraceError:
    return _saying(f"{error}; {_CURE}", error)


def _saying(message: str, error: TraceError) -> TraceError:
    """The same error in other words."""
    return TraceError(message, error.path, error.op, error.where, error.explanation, error.kind)


def _noted(explanation: Explanation, note: str) -> Explanation:
    return replace(explanation, notes=(note, *explanation.notes))
