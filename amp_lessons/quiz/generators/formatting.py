"""Numbers as a person writes them in a sentence."""

from __future__ import annotations

import math

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float, digits: int = 7) -> str:
    """``65,536``, ``0.09997559``, ``6e-8``, ``2⁻²⁴`` for a small power of two, ``inf``."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == int(value) and abs(value) < 1e9:
        return f"{int(value):,}"
    if abs(value) <= 2.0**-7 and is_power(value):
        return power(value)
    text = short(f"{value:.{digits}g}")
    if "e" in text or abs(value) < 1000:
        return text
    whole, point, rest = text.partition(".")
    return f"{int(whole):,}{point}{rest}"


def short(text: str) -> str:
    """``1e-8`` instead of ``1e-08``."""
    head, mark, exponent = text.partition("e")
    return f"{head}e{int(exponent)}" if mark else head


def is_power(value: float) -> bool:
    """Whether it is a power of two."""
    return value > 0 and math.isfinite(value) and math.frexp(value)[0] == 0.5


def power(value: float) -> str:
    """A power of two as one: ``2⁻²⁴``.

    Raises:
        ValueError: if it is none.
    """
    if not is_power(value):
        raise ValueError(f"{value!r} is not a power of two")
    return raised(math.frexp(value)[1] - 1)


def small(value: float) -> str:
    """A small power of two with its size: ``2⁻¹¹, about 0.00049``; another number as `number`."""
    if not is_power(value) or value > 2.0**-5:
        return number(value)
    return f"{power(value)}, about {short(f'{value:.2g}')}"


def raised(exponent: int) -> str:
    """``2⁻²⁴`` for -24."""
    return f"2{str(exponent).translate(_RAISED)}"


def count(many: int, thing: str, plural: str = "") -> str:
    """``1 step``, ``12 steps``, ``2,000 steps``."""
    return f"{many:,} {thing if many == 1 else plural or thing + 's'}"


def listed(parts: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def amount(value: float, digits: int = 3) -> str:
    """A measured or estimated number to a few digits, without an exponent: ``1,240``, ``0.85``."""
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{round(value, places):,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def params(many: float) -> str:
    """A count of parameters: ``350 million``, ``1.3 billion``."""
    if many >= 1e9:
        return f"{many / 1e9:g} billion"
    return f"{many / 1e6:g} million"
