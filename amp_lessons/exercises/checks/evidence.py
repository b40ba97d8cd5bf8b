"""What a call of a learner's function gave, as plain data: the last place where the two touch.

A probe runs the learner's code and hands over what it saw through `observe`. What comes out is
numbers, text, lists and dicts, so a judge can never be fooled by an object.
"""

from __future__ import annotations

import copy
import json
import traceback
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import amp_lessons
from amp_lessons.core.interrupts import TooSlow
from amp_lessons.exercises.checks.serialize import UNATTEMPTED, as_json, name_of, plain

PACKAGE = Path(amp_lessons.__file__).resolve().parent


class DamagedEvidence(ValueError):
    """A judge was given data that its probe never returns."""


def observe(function: Any, *args: Any) -> dict[str, Any]:
    """Call a learner's function on copies of ``args`` and describe what happens.

    Returns:
        ``{"value": plain result}``, ``{"unattempted": True}`` if it is still the stub, or
        ``{"error": …}`` as `describe_error` gives it. If the call changed one of its arguments,
        the first case also holds ``"changed": index of the argument``.
    """
    if function is ...:
        return UNATTEMPTED
    given = copy.deepcopy(args)
    before = [plain(arg) for arg in given]
    try:
        result = function(*given)
        seen: dict[str, Any] = {"value": plain(result)}
    except NotImplementedError:
        return UNATTEMPTED
    except (KeyboardInterrupt, TooSlow):
        raise
    except BaseException as error:  # also sys.exit(), and a learner's own BaseException
        return {"error": describe_error(error)}
    if seen["value"] == UNATTEMPTED:
        return UNATTEMPTED
    after = [plain(arg) for arg in given]
    if after != before:  # NaN is not equal to itself, so what looks changed is compared as text
        changed = (as_json(one) != as_json(other) for one, other in zip(before, after, strict=True))
        place = next((i for i, differs in enumerate(changed) if differs), None)
        seen |= {} if place is None else {"changed": place}
    return seen


def by_name(names: Iterable[str], answers: Sequence[Any]) -> dict[str, Any]:
    """The answers of a check that takes several, by name. Raises TypeError if one is missing."""
    names = list(names)
    if len(answers) != len(names):
        raise TypeError(
            f"this check takes {len(names)} functions ({', '.join(names)}), got {len(answers)}"
        )
    return dict(zip(names, answers, strict=True))


def describe_error(error: BaseException) -> dict[str, Any]:
    """A learner's exception as plain data, placed at the learner's own line. Never raises.

    Returns:
        ``type``, ``message``, and, if one of the frames is the learner's, ``line`` (its number in
        the cell), ``source`` (its text) and ``function``.
    """
    data: dict[str, Any] = {"type": name_of(type(error)), "message": ""}
    with suppress(Exception):  # a learner's `__str__` may raise
        data["message"] = str.__str__(str(error))[:500]
    with suppress(Exception):  # and a file name may be anything
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if is_learners(frame.filename)]
        if own:
            data |= {"line": own[-1].lineno, "source": own[-1].line or "", "function": own[-1].name}
    return data


def is_learners(filename: str) -> bool:
    """Whether a frame is the learner's: not this package, not a library, not Python itself."""
    path = Path(filename)
    if PACKAGE in path.parents or "site-packages" in path.parts or filename.startswith("<frozen"):
        return False
    return Path(json.__file__).resolve().parent.parent not in path.resolve().parents
