"""How a function that carries autocast's state is used: wrapped here, called in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import nullcontext
from typing import Any

import torch

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.autocast_regions.harness import as_returned, since, state
from amp_lessons.exercises.autocast_regions.harness_calls import Expected
from amp_lessons.exercises.harness import as_play
from amp_lessons.exercises.varied import Varied
from amp_lessons.exercises.checks.torch_state import usual_torch

SECONDS = 1.0
Carry = Callable[[Callable[..., Any]], Any]
OFF = "with autocast off"
_REGIONS: dict[str, dict[str, Any]] = {
    "in a bfloat16 region": {"dtype": torch.bfloat16},
    "in a float16 region": {"dtype": torch.float16},
    "in a bfloat16 region with no cache": {"dtype": torch.bfloat16, "cache_enabled": False},
    "in a float16 region with no cache": {"dtype": torch.float16, "cache_enabled": False},
}


def _region(words: str) -> Any:
    return nullcontext() if words == OFF else torch.autocast("cpu", **_REGIONS[words])


def _in_thread(work: Callable[[], Any], own: str) -> Callable[[], Any]:
    """Start work in a thread with a region of its own; what is returned waits for the result."""
    found: Future[Any] = Future()

    def run() -> None:
        try:
            with _region(own):
                result = work()
            found.set_result(result)
        except BaseException as error:
            found.set_exception(error)

    threading.Thread(target=run, daemon=True).start()

    def result() -> Any:
        while not found.done():
            wait([found], 0.1)
        return found.result()

    return result


def carry_cases() -> list[Case]:
    """What is carried where; then what may happen while it is used."""
    bf16, fp16, bf16_uncached, fp16_uncached = _REGIONS
    carried = [(bf16, OFF), (fp16, OFF), (OFF, fp16), (OFF, bf16)]
    carried += [(bf16_uncached, OFF), (fp16_uncached, OFF), (fp16, bf16), (bf16, fp16)]
    carried += [(fp16, bf16_uncached), (bf16, fp16_uncached)]
    vary = Varied(52)
    for _ in vary.extra(5):
        caller, own = vary.random.sample((OFF, *_REGIONS), 2)
        carried.append((caller, own))
    once = [(_once, *two, "wrapped {}; called in a thread {}".format(*two)) for two in carried]
    by_kind: dict[str, list[tuple[Any, ...]]] = {
        "one call at a time": once,
        "two functions": [
            (_two_wrapped, fp16, bf16_uncached, "two functions, wrapped in different regions"),
            (_two_wrapped, OFF, fp16, f"two functions, the first wrapped {OFF}"),
        ],
        "functions that raise errors": [
            (_raising, fp16, OFF, f"a function that raises, in a thread {OFF}"),
            (_raising, OFF, bf16, f"a function that raises, in a thread {bf16}"),
        ],
        "calls that overlap": [
            (_nested, fp16, OFF, f"a function that calls itself, in a thread {OFF}"),
            (_nested, OFF, bf16, f"a function that calls itself, in a thread {bf16}"),
            (_overlapping, fp16, OFF, "two threads that call it at the same time"),
        ],
        "weights that change": [
            (_new_weights, bf16, OFF, "two calls, with another weight in the second"),
            (_new_weights, fp16, OFF, "two calls in float16, with another weight in the second"),
        ],
    }
    found = [Case(tuple(c[:3]), c[3], kind) for kind, cases in by_kind.items() for c in cases]
    return vary.mixed(found)


@as_play
def carrying(carry: Carry, scene: Callable[..., Any], caller: str, own: str) -> Any:
    with usual_torch():
        given = carry(lambda *args, **kwargs: None)
        if not callable(given):
            return as_returned(given)
        try:
            return scene(carry, caller, own)
        finally:
            torch.clear_autocast_cache()


def _wrapped(carry: Carry, caller: str, function: Callable[..., Any]) -> Callable[..., Any]:
    with _region(caller):
        return carry(function)


def _once(carry: Carry, caller: str, own: str) -> Any:
    seen: list[str] = []
    vary = Varied(53)
    a, b = vary.more(3, 10**6), vary.more(7, 10**6)

    def function(*args: int, **kwargs: int) -> str:
        seen.append(str(state()))
        return f"{args} {kwargs}"

    carried = _wrapped(carry, caller, function)
    early = len(seen)

    def work() -> dict[str, Any]:
        before = state()
        result = carried(a, b=b)
        expected = f"({a},) {{'b': {b}}}"
        return {
            "runs before the call": early,
            "runs in the call": len(seen) - early,
            "autocast in the function": seen[-1] if seen else "it did not run",
            "arguments and result": result if result == expected else f"lost: {result!r}",
            "autocast in the thread afterwards": since(before),
        }

    return _in_thread(work, own)()


def _two_wrapped(carry: Carry, caller: str, other: str) -> Any:
    def function() -> str:
        return str(state())

    first, second = _wrapped(carry, caller, function), _wrapped(carry, other, function)
    inside = "autocast in the {} function".format
    return _in_thread(lambda: {inside("first"): first(), inside("second"): second()}, OFF)()


def _raising(carry: Carry, caller: str, own: str) -> Any:
    def function() -> None:
        raise Expected

    carried = _wrapped(carry, caller, function)

    def work() -> dict[str, Any]:
        before, error = state(), "lost"
        try:
            carried()
        except Expected:
            error = "reaches the caller"
        return {"the error": error, "autocast after the error": since(before)}

    return _in_thread(work, own)()


def _nested(carry: Carry, caller: str, own: str) -> Any:
    def function(depth: int) -> list[str]:
        inner = carried(depth - 1) if depth else []
        return [str(state()), *inner]

    carried = _wrapped(carry, caller, function)

    def work() -> dict[str, Any]:
        before = state()
        states = carried(2)
        return {"autocast in its calls": states, "autocast after the calls": since(before)}

    return _in_thread(work, own)()


def _overlapping(carry: Carry, caller: str, own: str) -> Any:
    """The second call begins while the first one runs, and ends after it."""
    second_runs, first_is_over = threading.Event(), threading.Event()
    states = {}

    def function(first: bool) -> None:
        states[first] = str(state())
        if first:
            second_runs.wait(SECONDS)
        else:
            second_runs.set()
            first_is_over.wait(SECONDS)

    carried = _wrapped(carry, caller, function)

    def call(first: bool) -> str:
        before = state()
        try:
            carried(first)
        finally:
            if first:
                first_is_over.set()
        return since(before)

    one = _in_thread(lambda: call(True), own)
    other = _in_thread(lambda: call(False), "in a bfloat16 region")
    after = [one(), other()]
    in_order = [states[first] for first in (True, False) if first in states]
    return {"autocast in its calls": in_order, "autocast after the calls": after}


def _new_weights(carry: Carry, caller: str, own: str) -> Any:
    weight, x = torch.nn.Parameter(torch.ones(1, 2)), torch.ones(1, 2)
    runs: list[float] = []

    def function() -> float:
        runs.append(torch.nn.functional.linear(x, weight).item())
        return runs[-1]

    carried = _wrapped(carry, caller, function)

    def work() -> dict[str, Any]:
        results = [carried()]
        with torch.no_grad():
            weight.fill_(5.0)
        results.append(carried())
        return {"runs in the two calls": len(runs), "results with weights 1 and then 5": results}

    return _in_thread(work, own)()
