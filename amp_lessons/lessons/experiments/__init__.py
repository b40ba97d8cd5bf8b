"""What lessons need to look behind the scenes, so that their cells show the idea and not the trick.

Some change torch, for as long as a ``with`` block runs, and put it back. The others run something
and say what came of it.
"""

from amp_lessons.amp.policy.regions import autocast_put_back, autocast_state, both_halves, casts
from amp_lessons.core.messages import raised, raised_by, warned
from amp_lessons.lessons.experiments.kept import (
    kept_by_cross_entropy,
    kept_for_backward,
    saved_for_backward,
)
from amp_lessons.lessons.experiments.numbers import rotated, rounded_at_random
from amp_lessons.lessons.experiments.runs import (
    OnePass,
    Run,
    compiled,
    deep_painter,
    fp16_pass,
    one_of_ranks,
    resumed,
)
from amp_lessons.lessons.experiments.scalers import item_calls, scaler_error, without_cuda

__all__ = [
    "OnePass",
    "Run",
    "autocast_put_back",
    "autocast_state",
    "both_halves",
    "casts",
    "compiled",
    "deep_painter",
    "fp16_pass",
    "item_calls",
    "kept_by_cross_entropy",
    "kept_for_backward",
    "one_of_ranks",
    "raised",
    "raised_by",
    "resumed",
    "rotated",
    "rounded_at_random",
    "saved_for_backward",
    "scaler_error",
    "warned",
    "without_cuda",
]
