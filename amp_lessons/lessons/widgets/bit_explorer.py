"""The bit explorer: a number, its bits, and what rounding lost, in a notebook.

The page in `static/` does its own arithmetic, so that it also lives on a web page with no Python;
what is here keeps `value`, `code` and `format` in agreement when Python changes one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anywidget
import traitlets

from amp_lessons.amp.numbers.formats import FORMATS, Fields, Format, get_format
from amp_lessons.lessons.widgets.files import module, style
from amp_lessons.lessons.widgets.traits import Number, Refused, same


def _as_plain(formats: tuple[Format, ...], _: Any) -> list[dict[str, Any]]:
    return [
        {
            "name": f.name,
            "exponent_bits": f.exponent_bits,
            "mantissa_bits": f.mantissa_bits,
            "has_inf": f.has_inf,
        }
        for f in formats
    ]


class BitExplorer(anywidget.AnyWidget):
    """Toggle the bits of a number and read what they mean.

    Args:
        value: the number to start with.
        format: a `Format`, or what `get_format` takes: ``"FP16"``, ``torch.float16``.
        formats: the formats to choose from, each as for ``format``; the six of the course by
            default. One that is given as ``format`` and is not among them is added.
        saturate: what lies beyond the largest number becomes the largest number, as in
            `Format.round`.

    Attributes:
        value: the number that was asked for, a float. Toggling bits asks for what they say.
        format: the name of the format.
        code: the bit pattern that stores ``value``, an int.
        saturate: as above.

    All four follow the learner, and the widget follows when a lesson sets one of them.

    Raises:
        ValueError: for a format that does not exist or has more than 32 bits, two formats of one
            name, or a ``code`` that has more bits than the format.
    """

    _esm = module("bit_explorer.mjs")
    _css = style("widgets.css")

    value = Number(0.1)
    format = traitlets.Unicode("FP16").tag(sync=True)
    code = traitlets.Int(0).tag(sync=True)
    saturate = traitlets.Bool(False).tag(sync=True)
    formats = traitlets.Tuple().tag(sync=True, to_json=_as_plain)

    def __init__(
        self,
        value: float = 0.1,
        format: Any = "FP16",
        formats: Iterable[Any] | None = None,
        *,
        saturate: bool = False,
        **traits: Any,
    ) -> None:
        chosen = _known(format)
        choices = [_known(f) for f in (FORMATS.values() if formats is None else formats)]
        if chosen not in choices:
            choices.append(chosen)
        _check_choices(choices)
        value = _as_number(value)
        super().__init__(
            value=value,
            format=chosen.name,
            formats=tuple(choices),
            saturate=saturate,
            code=chosen.encode(value, saturate=saturate),
            **traits,
        )

    @property
    def stored(self) -> float:
        """The number that is stored: ``value`` after rounding."""
        return self.number_format.decode(self.code)

    @property
    def fields(self) -> Fields:
        """Sign, exponent and mantissa of what is stored."""
        return self.number_format.fields(self.code)

    @property
    def number_format(self) -> Format:
        """The `Format` that is chosen."""
        return next(f for f in self.formats if f.name == self.format)

    @traitlets.validate("format")
    def _check_format(self, proposal: dict[str, Any]) -> str:
        name = proposal["value"]
        names = [f.name for f in self.formats]
        if name in names:
            return name
        try:
            name = get_format(name).name
        except ValueError as error:
            raise Refused(str(error)) from None
        if name not in names:
            raise Refused(f"{name} is not among this explorer's formats: {', '.join(names)}")
        return name

    @traitlets.validate("code")
    def _check_code(self, proposal: dict[str, Any]) -> int:
        try:
            self.number_format.fields(proposal["value"])
        except ValueError as error:
            raise Refused(str(error)) from None
        return proposal["value"]

    @traitlets.observe("value", "format", "saturate")
    def _store_value(self, _: Any) -> None:
        """Round the value, unless the bits say it already (NaN has many patterns)."""
        fits = self.code < 1 << self.number_format.bits
        if not fits or not same(self.stored, self.value):
            self.code = self.number_format.encode(self.value, saturate=self.saturate)

    @traitlets.observe("code")
    def _read_code(self, _: Any) -> None:
        """Ask for what the bits say, unless they came from rounding the value."""
        if self.code != self.number_format.encode(self.value, saturate=self.saturate):
            self.value = self.stored


def _known(format: Any) -> Format:
    """The format that is meant, if the widget can show it."""
    known = format if isinstance(format, Format) else get_format(format)
    if known.bits > 32:
        raise ValueError(
            f"{known.name} has {known.bits} bits, and the bit explorer shows 32 at most"
        )
    if not known.has_nan:
        raise ValueError(f"{known.name} has no NaN, and the bit explorer knows no such format")
    return known


def _check_choices(choices: list[Format]) -> None:
    names = [f.name for f in choices]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"two formats are called {', '.join(twice)}: give each its own name")


def _as_number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"value must be a number, got {value!r}") from None
