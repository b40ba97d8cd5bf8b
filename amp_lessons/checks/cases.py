"""Exercises whose answer is a function: call it on many cases and compare.

Such an exercise needs four things only: the cases, a reference, and for each misconception a
model of it, which is the function that a learner with this misconception would have written. If a
model gives what the learner's function gave wherever that was wrong, the check can say why.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from amp_lessons.checks.evidence import DamagedEvidence, observe
from amp_lessons.checks.legacy import Exercise, Finding, error_verdict
from amp_lessons.checks.verdict import State, Verdict
from amp_lessons.op_watch import watched
from amp_lessons.plain_data import as_json, in_words

MAX_LINES = 4


@dataclass(frozen=True)
class Case:
    """One call.

    Args:
        args: what the function is called with; each call gets a copy.
        label: how the call is written for the learner; default the arguments' repr.
    """

    args: tuple[Any, ...]
    label: str = ""

    def __str__(self) -> str:
        return self.label or ", ".join(repr(arg) for arg in self.args)


class Misconception:
    """A mistake that the check knows by name.

    Args:
        text: what to tell the learner: what they did, and why it is not right.
        models: what a learner with this misconception would have written, in one way or several.
            Where a model raises, it stands for a function that raises the same type.
    """

    def __init__(self, text: str, *models: Callable[..., Any]) -> None:
        self.text, self.models = text, models


@dataclass(frozen=True)
class Rule:
    """Something that an answer must not do, whatever it returns.

    Args:
        text: what to tell the learner.
        breaks: takes the operations that ran, as `spy.watched` lists them; True if one of them
            breaks the rule.
    """

    text: str
    breaks: Callable[[list[dict[str, Any]]], bool]


Same = Callable[[Any, Any], bool]
"""Compares two plain values: expected, then seen."""

Outcome = Callable[[Callable[..., Any], int], dict[str, Any]]
"""What a function of ours does with the case of a number, in the form of a learner's evidence."""


def exactly(expected: Any, seen: Any) -> bool:
    """Same numbers, NaN equal to NaN; for tensors also the same dtype and shape.

    A number counts as a number whether it comes as an int, a float, or a tensor or array with
    one element.
    """
    return within(0.0)(expected, seen)


def within(tolerance: float) -> Same:
    """Like `exactly`, but each number may be off by ``tolerance * max(1, |expected|)``."""

    def same(expected: Any, seen: Any) -> bool:
        if _is_tensor(expected):
            return (
                _is_tensor(seen)
                and seen["dtype"] == expected["dtype"]
                and seen["shape"] == expected["shape"]
                and _close_values(expected["values"], seen["values"], tolerance)
            )
        if _is_dict(expected):
            return _is_dict(seen) and not _differing(expected, seen, same)
        if isinstance(expected, list):
            return (
                isinstance(seen, list)
                and len(seen) == len(expected)
                and all(same(e, s) for e, s in zip(expected, seen, strict=True))
            )
        if isinstance(expected, bool | str) or expected is None:
            seen = _only_element(seen)
            return type(seen) is type(expected) and seen == expected
        return _close_values(expected, as_number(seen), tolerance)

    return same


def as_number(seen: Any) -> float | int | None:
    """A plain number out of plain data: itself, or the only element of a tensor or array."""
    seen = _only_element(seen)
    return seen if isinstance(seen, int | float) and not isinstance(seen, bool) else None


def _only_element(seen: Any) -> Any:
    """The element of a tensor or array that has one; anything else as it is."""
    if _is_tensor(seen):
        seen = seen["values"]
        while isinstance(seen, list) and len(seen) == 1:
            seen = seen[0]
    return seen


def _is_tensor(data: Any) -> bool:
    return isinstance(data, dict) and {"values", "dtype", "shape"} <= data.keys()


def _is_dict(data: Any) -> bool:
    return isinstance(data, dict) and isinstance(data.get("dict"), dict)


def _differing(expected: Any, seen: Any, same: Same) -> list[str]:
    """The keys of an expected dict under which something else was seen, or nothing."""
    wanted, got = expected["dict"], seen["dict"]
    return [key for key in wanted if key not in got or not same(wanted[key], got[key])]


def _close_values(expected: Any, seen: Any, tolerance: float) -> bool:
    if isinstance(expected, list):
        return (
            isinstance(seen, list)
            and len(seen) == len(expected)
            and all(_close_values(e, s, tolerance) for e, s in zip(expected, seen, strict=True))
        )
    if not isinstance(seen, int | float) or isinstance(seen, bool) != isinstance(expected, bool):
        return False
    if math.isnan(expected) or math.isnan(seen):
        return math.isnan(expected) and math.isnan(seen)
    if math.isinf(expected) or math.isinf(seen) or tolerance == 0.0:
        return expected == seen
    return abs(expected - seen) <= tolerance * max(1.0, abs(expected))


def function_exercise(
    name: str,
    *,
    cases: Callable[[], Sequence[Case]],
    reference: Callable[..., Any],
    misconceptions: Mapping[str, Misconception],
    hints: tuple[str, ...],
    lesson_learned: str,
    same: Same = exactly,
    asked_for: str = "a number",
    rules: Mapping[str, Rule] | None = None,
    play: Callable[[Any], Callable[..., Any]] = lambda answer: answer,
) -> Exercise:
    """An exercise that compares the learner's function with a reference, case by case.

    Args:
        name: as in the catalogue.
        cases: makes the calls; the same ones each time, from fixed seeds, edge cases among them.
        reference: the right answer. Only its values count, so a learner may write another.
        misconceptions: by diagnosis name, in the order in which they are tried.
        hints, lesson_learned: as for `Exercise`.
        same: compares expected and seen.
        asked_for: what the function should return, for the diagnosis "wrong-type".
        rules: what the function must not do on the way, by diagnosis name.
        play: for an answer that is used and not just called, such as a class or a step of a
            training loop: takes the answer and gives the function that is called on each case,
            which uses it and returns what there was to see. The reference and the misconceptions'
            models go through it too.
    """
    rules = rules or {}

    models = {
        slug: Misconception(mistake.text, *map(play, mistake.models))
        for slug, mistake in misconceptions.items()
    }

    played = play(reference)
    our_cases = cache(lambda: tuple(cases()))

    @cache
    def outcome(function: Callable[..., Any], number: int) -> dict[str, Any]:
        """What a function of ours does with a case: found out once, for it never changes."""
        return json.loads(as_json(observe(function, *our_cases()[number].args)))

    def probe(function: Callable[..., Any]) -> list[dict[str, Any]]:
        look = watched(observe) if rules else observe
        return [look(play(function), *case.args) for case in cases()]

    def judge(evidence: Any) -> Finding | Verdict:
        # What a call did before it raised says nothing of what it would have done.
        done = [s for s in evidence if "value" in s] if isinstance(evidence, list) else []
        for slug, rule in rules.items():
            if any(rule.breaks(seen.get("ops", [])) for seen in done):
                return Finding(slug)
        return _judge(name, our_cases(), evidence, outcome, played, models, same, asked_for)

    named = {**rules, **misconceptions}
    texts = {slug: mistake.text for slug, mistake in named.items()}
    return Exercise(name, probe, judge, texts, hints, lesson_learned)


def _judge(
    name: str,
    cases: Sequence[Case],
    evidence: Any,
    outcome: Outcome,
    reference: Callable[..., Any],
    misconceptions: Mapping[str, Misconception],
    same: Same,
    asked_for: str,
) -> Finding | Verdict:
    if not isinstance(evidence, list) or len(evidence) != len(cases):
        raise DamagedEvidence("not one entry for each run")
    if any("unattempted" in seen for seen in evidence):
        return Verdict(State.NOT_ATTEMPTED, "Your answer is still the stub.")
    expected = [outcome(reference, number) for number in range(len(cases))]
    failed = [i for i, seen in enumerate(evidence) if not _same_outcome(expected[i], seen, same)]
    if not failed:
        changed = next((i for i, seen in enumerate(evidence) if "changed" in seen), None)
        if changed is not None:
            return Finding("changed-argument", (f"{name}({cases[changed]})",))
        return Finding()
    lines = tuple(_line(name, cases[i], expected[i], evidence[i], same) for i in failed[:MAX_LINES])
    if len(failed) > MAX_LINES:
        lines += (f"and {len(failed) - MAX_LINES} more of {len(cases)} calls",)
    named = _explanation(outcome, expected, evidence, misconceptions, same)
    if named:
        return Finding(named, lines)
    first = evidence[failed[0]]
    if "error" in first:
        verdict = error_verdict(first["error"])
        call = f"{name}({cases[failed[0]]})"
        if "error" in expected[failed[0]]:  # the right thing to do, but not with this error
            call += f": expected a {expected[failed[0]]['error']['type']}"
        return Verdict(State.ERROR, verdict.message, seen=(call, *verdict.seen))
    if "changed" in first:
        return Finding("changed-argument", lines)
    value = first["value"]
    wanted = expected[failed[0]]
    # Where None is right, whatever else came is a wrong value, not a wrong type; and where it is
    # right in some calls, a None in others is no forgotten return, unless nothing else ever came.
    sometimes_none = any("value" in one and one["value"] is None for one in expected)
    if value is None and (not sometimes_none or not any(_given(seen) for seen in evidence)):
        return Finding("returned-none", lines)
    typed = value is not None and wanted.get("value") is not None
    if typed and _kind(value) != _kind(wanted["value"]):
        got, wished = _describe(value), asked_for
        if _is_tensor(value) and _is_tensor(wanted["value"]):
            shapes = value["shape"], wanted["value"]["shape"]
            if shapes[0] != shapes[1]:
                got, wished = f"{got} of shape {shapes[0]}", f"{wished}, here of shape {shapes[1]}"
        return Finding("wrong-type", lines, {"got": got, "expected": wished})
    return Finding("wrong-value", lines)


def _given(seen: dict[str, Any]) -> bool:
    """Whether a call returned something."""
    return seen.get("value") is not None


def _same_outcome(expected: dict[str, Any], seen: Any, same: Same) -> bool:
    if not isinstance(seen, dict):
        return False
    if "error" in expected:
        return "error" in seen and seen["error"].get("type") == expected["error"]["type"]
    return "value" in seen and same(expected["value"], seen["value"])


def _explanation(
    outcome: Outcome,
    expected: Sequence[dict[str, Any]],
    evidence: Sequence[dict[str, Any]],
    misconceptions: Mapping[str, Misconception],
    same: Same,
) -> str:
    """The misconception that gives what was seen in every case, right or wrong; "" if none does.

    A wrong diagnosis is worse than none, so a mistake that explains most of it is not enough.
    """
    for slug, misconception in misconceptions.items():
        for model in misconception.models:
            if all(
                _explains(outcome(model, number), seen, same, wanted)
                for number, (wanted, seen) in enumerate(zip(expected, evidence, strict=True))
            ):
                return slug
    return ""


def _explains(
    outcome: dict[str, Any], seen: dict[str, Any], same: Same, wanted: dict[str, Any]
) -> bool:
    """As `_same_outcome`. Where no error is asked for its message has to be the same too, since
    torch raises RuntimeError for many reasons."""
    if not _same_outcome(outcome, seen, same):
        return False
    if "error" not in outcome or "error" in wanted:
        return True
    return outcome["error"]["message"] == seen["error"].get("message")


def _kind(value: Any) -> str:
    if as_number(value) is not None:
        return "number"
    if _is_tensor(value):
        return f"tensor {value['dtype']} {value['shape']}"
    if isinstance(value, dict):
        return next((kind for kind in ("dict", "dtype") if kind in value), "object")
    return type(value).__name__


def _line(name: str, case: Case, expected: dict[str, Any], seen: Any, same: Same) -> str:
    """One call, with what was expected and what came; of two tensors the element that is most
    different, of two dicts the first entry that differs."""
    wanted, got = expected.get("value"), seen.get("value") if isinstance(seen, dict) else None
    if _is_dict(wanted) and isinstance(seen, dict) and "error" in seen:
        return f"{case}: {_result(seen)}"  # all that was expected instead would hide it
    if _is_dict(wanted) and _is_dict(got) and _differing(wanted, got, same):
        key = _differing(wanted, got, same)[0]
        one, other = wanted["dict"][key], got["dict"].get(key)
        if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            place = next(
                i for i, pair in enumerate(zip(one, other, strict=True)) if not same(*pair)
            )
            key, one, other = f"{key} [{place}]", one[place], other[place]
        return f"{case}: {key}: expected {_describe(one)}, got {_describe(other)}"
    if isinstance(wanted, list) and isinstance(got, list) and _result(expected) == _result(seen):
        place = next(
            (i for i, (e, s) in enumerate(zip(wanted, got, strict=False)) if not same([e], [s])), 0
        )
        if place < min(len(wanted), len(got)):  # two long lists that differ where they are cut
            one, other = _describe(wanted[place]), _describe(got[place])
            return f"{name}({case})[{place}]: expected {one}, got {other}"
    if _is_tensor(wanted) and _is_tensor(got) and wanted["shape"] == got["shape"]:
        place, one, other = most_different(wanted["values"], got["values"])
        if place and wanted["dtype"] == got["dtype"]:
            return f"{name}({case}){place}: expected {one:.6g}, got {other:.6g}"
    return f"{name}({case}): expected {_result(expected)}, got {_result(seen)}"


def most_different(expected: Any, seen: Any) -> tuple[str, float, float]:
    """Where two nested lists differ most, such as ``"[0][2]"``, and the two numbers there."""
    pairs = list(_pairs(expected, seen, ""))
    if not pairs:
        return "", 0.0, 0.0

    def difference(pair: tuple[str, float, float]) -> float:
        apart = abs(pair[1] - pair[2])
        if apart != apart:  # NaN: a difference unless both are NaN, or the same infinity
            alike = pair[1] == pair[2] or (pair[1] != pair[1] and pair[2] != pair[2])
            return 0.0 if alike else math.inf
        return apart

    return max(pairs, key=difference)


def _pairs(expected: Any, seen: Any, place: str) -> Iterator[tuple[str, float, float]]:
    if isinstance(expected, list) and isinstance(seen, list):
        for i, (one, other) in enumerate(zip(expected, seen, strict=False)):
            yield from _pairs(one, other, f"{place}[{i}]")
    elif isinstance(expected, int | float) and isinstance(seen, int | float):
        yield place, expected, seen


def _result(outcome: Any) -> str:
    if not isinstance(outcome, dict):
        return "nothing"
    if "error" in outcome:
        return f"{outcome['error'].get('type')}: {outcome['error'].get('message')}"[:120]
    return _describe(outcome.get("value"))


def _describe(value: Any) -> str:
    if _is_tensor(value):
        values = value["values"]
        shown = _short(values) if isinstance(values, list) else f"{values:.6g}"
        return f"{shown} ({value['dtype']})"
    if isinstance(value, dict) and "object" in value:
        return in_words(value)
    if isinstance(value, dict) and "dtype" in value:
        return value["dtype"]
    if isinstance(value, list) and any(map(_is_tensor, value)):
        return ", ".join(map(_describe, value))
    if isinstance(value, dict) and "dict" in value:
        items = (f"{key!r}: {_describe(item)}" for key, item in value["dict"].items())
        return f"{{{', '.join(items)}}}"
    text = _numbers(value) if isinstance(value, list) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _numbers(values: list[Any]) -> str:
    """A list as Python writes it, with floats in six digits and objects in words."""

    def shown(value: Any) -> str:
        if isinstance(value, dict) and "object" in value:
            return in_words(value)
        return f"{value:.6g}" if isinstance(value, float) else repr(value)

    return f"[{', '.join(map(shown, values))}]"


def _short(values: list[Any]) -> str:
    """The first row of a nested list, or the first numbers of a flat one, in few digits."""
    nested = bool(values) and isinstance(values[0], list)
    first = values[: 1 if nested else 4]
    shown = [
        _short(v) if nested else f"{v:.4g}" if isinstance(v, float) else repr(v) for v in first
    ]
    return f"[{', '.join(shown)}{', ...' if len(values) > len(first) else ''}]"
