"""Read the number that somebody typed, such as ``13,107``, ``0.2*65536``, ``about 13k`` or ``33%``.

It is a small calculator with ``+ - * / ^`` and parentheses, written by hand, so that nothing that
is typed is ever run. `static/typed_numbers.mjs` reads the same for the page that works without
Python; one table of cases in the tests holds the two together.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

from amp_lessons.quiz.marking import AnswerError, with_unit

LONGEST = 100
"""Characters of an answer. Nobody needs more, and parentheses can't be nested too deep."""

_ABOUT = re.compile(r"^(?:about|around|roughly|approximately|approx\.?|~|≈)\s*", re.IGNORECASE)
_WHOLE = r"[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+(?:_[0-9]+)*|(?=\.[0-9])"
_PLAIN = rf"(?:{_WHOLE})(?:\.[0-9]*)?(?:e[+-]?[0-9]+)?"
_NUMBER = re.compile(rf"{_PLAIN}|inf(?:inity)?(?![a-z])", re.IGNORECASE)
_LITERAL = re.compile(rf"[+-]?(?:{_NUMBER.pattern})", re.IGNORECASE)
_SUFFIXES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}
_SUFFIX = re.compile(r"%|[kKMG](?![a-zA-Z])")
_BARE_SUFFIX = re.compile(r"([kKMG])$")
_PREFIXED = re.compile(r"([KMGT])i?B")
_WORDS = re.compile(r"[a-zµ][a-zµ/ ]*", re.IGNORECASE)
_BYTES = {"b": 1, "byte": 1, "bytes": 1}
_BYTES |= {f"{prefix}b": 1000**n for n, prefix in enumerate("kmgt", 1)}
_BYTES |= {f"{prefix}ib": 1024**n for n, prefix in enumerate("kmgt", 1)}
_TIMES = {"ns": 1, "µs": 10**3, "us": 10**3, "ms": 10**6, "s": 10**9, "sec": 10**9}
_TIMES |= {"second": 10**9, "seconds": 10**9}


class Typed(NamedTuple):
    """A number that was typed.

    Attributes:
        value: in the question's unit.
        read_as: what it was read as, such as ``"0.2*65536 = 13,107.2"``; empty for a plain number.
    """

    value: float
    read_as: str


def read_number(text: str, unit: str = "") -> Typed:
    """The number that somebody typed, in the question's unit.

    Raises:
        AnswerError: if it is none, with examples of what can be typed, or if its unit is another
            one that can't be turned into the question's.
    """
    shown = text.strip()
    plain = _with_the_prefix(_ABOUT.sub("", _in_plain_signs(shown)), unit)
    reader = _Reader(plain, share=not _is_percent(unit))
    try:
        if len(plain) > LONGEST:
            raise ValueError
        value = reader.sum()
        rest = plain[reader.at :].strip()
        if rest and not _WORDS.fullmatch(rest):
            raise ValueError
    except (ValueError, OverflowError, ZeroDivisionError):
        raise AnswerError(f"{shown!r} is not a number; {_advice(unit)}") from None
    if unit and not _is_percent(unit) and plain.endswith("%"):
        raise AnswerError(f"this question doesn't want a percentage; {_advice(unit)}")
    value = _in_unit(value, rest, unit)
    if math.isnan(value):
        raise AnswerError(f"{shown!r} is not a number; {_advice(unit)}")
    written = plain.removesuffix("%").strip() if _is_percent(unit) else plain[: reader.at].strip()
    if _LITERAL.fullmatch(written) and (not rest or _same(rest, unit)):
        return Typed(value, "")
    return Typed(value, f"{plain} = {with_unit(value, unit)}")


def forms(unit: str) -> str:
    """Examples of what can be typed, for the help beside a field and for errors."""
    if _is_percent(unit):
        return "33, 33% or 100/3"
    if unit:
        return f"112 {unit}, 0.2*65536, 1/3 or 2^-24"
    return "13,107, 0.2*65536, 13k, 33% or 2^-24"


def _advice(unit: str) -> str:
    return f"answer in {unit}, such as {forms(unit)}" if unit else f"write it such as {forms(unit)}"


def _in_plain_signs(text: str) -> str:
    for sign, plain in {"−": "-", "×": "*", "·": "*", "÷": "/", "μ": "µ"}.items():
        text = text.replace(sign, plain)
    text = re.sub(r"\bper ?cent\b", "%", re.sub(r"\s+", " ", text), flags=re.IGNORECASE)
    return re.sub(r"(?<=[0-9]) (?=[0-9]{3}(?![0-9]))", "", text)


# ---- units -------------------------------------------------------------------------------------


def _is_percent(unit: str) -> bool:
    return unit in ("%", "percent")


def _with_the_prefix(plain: str, unit: str) -> str:
    """``16.8G`` where GB is wanted is 16.8 GB, and neither a thousand million GB nor unclear."""
    wanted, bare = _PREFIXED.fullmatch(unit), _BARE_SUFFIX.search(plain)
    if not wanted or not bare:
        return plain
    letter = bare[1]
    if letter.upper() != wanted[1]:
        raise AnswerError(f"it isn't clear what {letter!r} counts here; {_advice(unit)}")
    return f"{plain[:-1].rstrip()} {unit}"


def _in_unit(value: float, typed: str, wanted: str) -> float:
    if not typed or _same(typed, wanted):
        return value
    for units in (_BYTES, _TIMES):
        there, here = units.get(typed.lower()), units.get(wanted.lower())
        if there and here:
            return value * there / here
    raise AnswerError(f"{typed!r} is not a unit that this question takes; {_advice(wanted)}")


def _same(typed: str, wanted: str) -> bool:
    """Whether it is the question's unit, whatever its capitals and spaces, or one of them."""
    one, other = (unit.lower().replace(" ", "") for unit in (typed, wanted))
    return one == other or (len(one) > 2 and f"{one}s" == other)  # "step", and not "m" for ms


# ---- the calculator ----------------------------------------------------------------------------


class _Reader:
    """Reads a sum from left to right and stops where it ends, at ``at``."""

    def __init__(self, text: str, share: bool) -> None:
        self.text, self.at = text, 0
        self.share = share  # whether 33% is 0.33

    def _take(self, pattern: str | re.Pattern[str]) -> str:
        """What comes next, if it looks like this, or ""."""
        start = self.at + len(self.text[self.at :]) - len(self.text[self.at :].lstrip())
        found = re.compile(pattern).match(self.text, start)
        if not found or not found[0]:
            return ""
        self.at = found.end()
        return found[0]

    def sum(self) -> float:
        value = self._product()
        while sign := self._take(r"[+-]"):
            other = self._product()
            value = value + other if sign == "+" else value - other
        return value

    def _product(self) -> float:
        value = self._signed()
        while sign := self._take(r"\*(?!\*)|/"):
            other = self._signed()
            value = value * other if sign == "*" else value / other
        return value

    def _signed(self) -> float:
        sign = self._take(r"[+-]")
        value = self._power()
        return -value if sign == "-" else value

    def _power(self) -> float:
        base = self._atom()
        if not self._take(r"\^|\*\*"):
            return base
        value = base ** self._signed()
        if isinstance(value, complex) or not math.isfinite(value):
            raise ValueError
        return float(value)

    def _atom(self) -> float:
        if self._take(r"\("):
            value = self.sum()
            if not self._take(r"\)"):
                raise ValueError
        else:
            value = float(self._take(_NUMBER).replace(",", ""))
        while suffix := self._take(_SUFFIX):
            value = self._scaled(value, suffix)
        return value

    def _scaled(self, value: float, suffix: str) -> float:
        if suffix == "%":
            return value / 100 if self.share else value
        return value * _SUFFIXES[suffix]
