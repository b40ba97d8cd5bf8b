"""The gradient histogram: what a format does to gradients, and how a loss scale saves them.

Everything is counted here once, with `scaling`, for every scale and format; the page in `static/`
only draws it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import anywidget
import torch
import traitlets
from torch import Tensor

from amp_lessons.amp.numbers.formats import BF16, FP8_E4M3, FP8_E5M2, FP16, FP32, Format, get_format
from amp_lessons.amp.scaling.loss_scale import ExponentHistogram, Fate, exponent_histogram, fates
from amp_lessons.lessons.widgets.files import module, style
from amp_lessons.lessons.widgets.traits import Refused

CHOICES = (FP16, BF16, FP8_E4M3, FP8_E5M2, FP32)
MAX_SCALE_EXPONENT = 40


class GradientHistogram(anywidget.AnyWidget):
    """Gradients by binary exponent, over the range of a format, with a slider for the loss scale.

    Args:
        gradients: a float tensor, several, or a dict of them by name, such as
            `training.digits_gradients` gives; any shape, unscaled.
        format: the format to start with, as for `get_format`: FP16, BF16, FP8 E4M3, FP8 E5M2 or
            FP32, or a `Format` of your own, which is added to the list.
        scale: the loss scale to start with, a power of two from 1 to 2**40.

    Attributes:
        format: the name of the format.
        scale_exponent: log2 of the loss scale, 0 to 40.

    Both follow the learner, and the widget follows when a lesson sets one of them.

    Raises:
        ValueError: if there is no gradient that is not zero, one is inf or NaN, something is not
            a float tensor, or the format or the scale is none of the above.
    """

    _esm = module("gradient_histogram.mjs")
    _css = style("widgets.css")

    data = traitlets.Dict().tag(sync=True)
    format = traitlets.Unicode("FP16").tag(sync=True)
    scale_exponent = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        gradients: Tensor | Iterable[Tensor] | Mapping[str, Tensor],
        format: Any = "FP16",
        scale: float = 1.0,
        **traits: Any,
    ) -> None:
        chosen = format if isinstance(format, Format) else get_format(format)
        choices = CHOICES if chosen in CHOICES else (chosen, *CHOICES)
        if isinstance(format, Format) and chosen.name in [f.name for f in choices if f != chosen]:
            raise ValueError(f"there is another format called {chosen.name}: give yours a new name")
        tensors = _checked_gradients(gradients)
        scales = [math.ldexp(1.0, e) for e in range(MAX_SCALE_EXPONENT + 1)]
        self._histogram = exponent_histogram(tensors)
        self._fates = {f.name: fates(tensors, scales, f) for f in choices}
        super().__init__(
            data=_plain_data(self._histogram, choices, self._fates),
            format=chosen.name,
            scale_exponent=_scale_exponent(scale),
            **traits,
        )

    @property
    def scale(self) -> float:
        """The loss scale, 2**scale_exponent."""
        return math.ldexp(1.0, self.scale_exponent)

    @property
    def fate(self) -> Fate:
        """What becomes of the gradients at the scale and in the format that are chosen."""
        return self._fates[self.format][self.scale_exponent]

    @property
    def histogram(self) -> ExponentHistogram:
        """The unscaled gradients by binary exponent."""
        return self._histogram

    @traitlets.validate("format")
    def _check_format(self, proposal: dict[str, Any]) -> str:
        name = proposal["value"]
        if name in self._fates:
            return name
        try:
            name = get_format(name).name
        except ValueError as error:
            raise Refused(str(error)) from None
        if name not in self._fates:
            raise Refused(f"{name} is not among this histogram's formats: {', '.join(self._fates)}")
        return name

    @traitlets.validate("scale_exponent")
    def _check_scale(self, proposal: dict[str, Any]) -> int:
        if not 0 <= proposal["value"] <= MAX_SCALE_EXPONENT:
            raise Refused(
                f"scale_exponent must be 0 to {MAX_SCALE_EXPONENT}, got {proposal['value']}"
            )
        return proposal["value"]


def _scale_exponent(scale: Any) -> int:
    """log2 of a scale that the slider can show."""
    wrong = f"scale must be a power of two from 1 to 2**{MAX_SCALE_EXPONENT}, got {scale!r}"
    if not isinstance(scale, int | float) or not 1 <= scale <= 2**MAX_SCALE_EXPONENT:
        raise ValueError(wrong)
    mantissa, exponent = math.frexp(scale)
    if mantissa != 0.5:
        raise ValueError(wrong)
    return exponent - 1


def _checked_gradients(gradients: Any) -> list[Tensor]:
    """The gradients as a list of tensors, each checked under its name."""
    if isinstance(gradients, Tensor):
        named = {"the tensor": gradients}
    elif isinstance(gradients, Mapping):
        named = {repr(name): tensor for name, tensor in gradients.items()}
    elif isinstance(gradients, Iterable) and not isinstance(gradients, str | bytes):
        named = {f"number {i}": tensor for i, tensor in enumerate(gradients)}
    else:
        raise ValueError(
            "gradients must be a tensor, several, or a dict of them by name, "
            f"got {type(gradients).__name__}"
        )
    for name, tensor in named.items():
        _check_gradient(name, tensor)
    if not any(tensor.count_nonzero() for tensor in named.values()):
        raise ValueError("there is no gradient that is not zero: run backward() first")
    return list(named.values())


def _check_gradient(name: str, tensor: Any) -> None:
    if tensor is None:
        raise ValueError(f"gradient {name} is None: run backward() first, or leave it out")
    if not isinstance(tensor, Tensor):
        raise ValueError(f"gradient {name} must be a tensor, got {type(tensor).__name__}")
    if not tensor.is_floating_point():
        raise ValueError(f"gradient {name} must be of a float dtype, got {tensor.dtype}")
    bad = int((~torch.isfinite(tensor)).sum())
    if bad:
        raise ValueError(
            f"gradient {name} holds {bad} inf or NaN: take the gradients before they overflow"
        )


def _plain_data(
    histogram: ExponentHistogram, choices: Iterable[Format], counted: Mapping[str, list[Fate]]
) -> dict[str, Any]:
    """What the page draws, in plain numbers; its form is told in gradient_histogram.mjs."""
    return {
        "exponents": list(histogram.exponents),
        "counts": list(histogram.counts),
        "zeros": histogram.zeros,
        "total": histogram.total,
        "formats": [_plain_format(f, counted[f.name]) for f in choices],
    }


def _plain_format(format: Format, counted: list[Fate]) -> dict[str, Any]:
    return {
        "name": format.name,
        "overflow": "inf" if format.has_inf else "NaN",
        **edges(format),
        "fates": [[f.zero, f.subnormal, f.normal, f.overflow] for f in counted],
    }


def edges(format: Format) -> dict[str, float]:
    """log2 of the magnitudes where a format rounds to 0, is normal, and overflows."""
    half_a_step_above = format.max + format.ulp(format.max) / 2
    return {
        "becomes_zero": math.log2(format.min_subnormal / 2),
        "normal": math.log2(format.min_normal),
        "overflows": math.log2(half_a_step_above),
    }
