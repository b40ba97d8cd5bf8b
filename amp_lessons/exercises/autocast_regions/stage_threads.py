"""How a function that carries autocast's state is used: wrapped here, called in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import torch

from amp_lessons.checks.probe import Case
from amp_lessons.checks.surroundings import usual_torch
from amp_lessons.exercises.autocast_regions.stage import as_returned, since, state
from amp_lessons.exercises.autocast_regions.stage_calls import Expected

SECONDS = 1.0
Carry = Callable[[Callable[..., Any]], Any]


@contextmanager
def _region(words: str) -> Any:
    """A region by its words: "off", "float16", "bfloat16 with no cache"."""
    if words == "off":
        yield
        return
    dtype, _, rest = words.partition(" ")
    with torch.autocast("cpu", getattr(torch, dtype), cache_enabled=not rest):
        yield


def _in_thread(work: Callable[[], Any], own: str) -> Callable[[], Any]:
    """Start work in a thread with a region of its own; what is returned waits for the result."""
    found: list[Any] = []

    def run() -> None:
        try:
            with _region(own):
                found.extend((work(), None))
        except BaseException as error:
            found[:] = [None, error]

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result() -> Any:
        while thread.is_alive():
            thread.join(0.1)
        if found[1] is not None:
            raise found[1]
        return found[0]

    return result


def carry_cases() -> list[Case]:
    """What is carried where; then what may happen while it is used."""
    bf16, fp16, off = "bfloat16", "float16", "off"
    uncached, fp16_uncached = "bfloat16 with no cache", "float16 with no cache"
    once = [
        (bf16, off),
        (fp16, off),
        (off, fp16),
        (off, bf16),
        (uncached, off),
        (fp16_uncached, off),
        (fp16, bf16),
        (bf16, fp16),
        (fp16, uncached),
        (bf16, fp16_uncached),
    ]
    return [
        *[Case((_once, *pair), _label(*pair)) for pair in once],
        Case((_two_wrapped, fp16, uncached), "two functions, wrapped in different regions"),
        Case((_two_wrapped, off, fp16), "two functions, the first wrapped with autocast off"),
        Case((_raising, fp16, off), "a function that raises, in a thread with autocast off"),
        Case((_raising, off, bf16), "a function that raises, in a thread with autocast on"),
        Case((_nested, fp16, off), "a function that calls itself, in a thread with autocast off"),
        Case((_nested, off, bf16), "a function that calls itself, in a thread with autocast on"),
        Case((_overlapping, fp16, off), "two threads that call it at the same time"),
        Case((_new_weights, bf16, off), "two calls, with another weight in the second"),
        Case((_new_weights, fp16, off), "two calls in float16, with another weight in the second"),
    ]


def _label(caller: str, own: str) -> str:
    words = []
    for state_in_words in (caller, own):
        dtype, _, rest = state_in_words.partition(" ")
        words.append(
            "with autocast off" if dtype == "off" else f"in a {dtype} region {rest}".strip()
        )
    return f"wrapped {words[0]}; called in a thread {words[1]}"


def carrying(carry: Carry) -> Callable[..., Any]:
    def play(scene: Callable[..., Any], caller: str, own: str) -> Any:
        with usual_torch():
            try:
                return scene(carry, caller, own)
            finally:
                torch.clear_autocast_cache()

    return play


def _wrapped(carry: Carry, caller: str, function: Callable[..., Any]) -> Any:
    with _region(caller):
        return carry(function)


def _once(carry: Carry, caller: str, own: str) -> Any:
    seen: list[str] = []

    def function(*args: int, **kwargs: int) -> str:
        seen.append(str(state()))
        return f"{args} {kwargs}"

    carried = _wrapped(carry, caller, function)
    if not callable(carried):
        return as_returned(carried)
    early = len(seen)

    def work() -> dict[str, Any]:
        before = state()
        result = carried(3, b=7)
        return {
            "runs before the call": early,
            "runs in the call": len(seen) - early,
            "autocast in the function": seen[-1] if seen else "it did not run",
            "arguments and result": result if result == "(3,) {'b': 7}" else f"lost: {result!r}",
            "autocast in the thread afterwards": since(before),
        }

    return _in_thread(work, own)()


def _two_wrapped(carry: Carry, caller: str, other: str) -> Any:
    def function() -> str:
        return str(state())

    first, second = _wrapped(carry, caller, function), _wrapped(carry, other, function)
    if not callable(first):
        return as_returned(first)
    inside = "autocast in the {} function".format
    return _in_thread(lambda: {inside("first"): first(), inside("second"): second()}, "off")()


def _raising(carry: Carry, caller: str, own: str) -> Any:
    def function() -> None:
        raise Expected

    carried = _wrapped(carry, caller, function)
    if not callable(carried):
        return as_returned(carried)

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
    if not callable(carried):
        return as_returned(carried)

    def work() -> dict[str, Any]:
        before = state()
        states = carried(2)
        return {"autocast in its calls": states, "autocast after all of them": since(before)}

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
    if not callable(carried):
        return as_returned(carried)

    def call(first: bool) -> str:
        before = state()
        try:
            carried(first)
        finally:
            if first:
                first_is_over.set()
        return since(before)

    threads = [_in_thread(lambda: call(True), own), _in_thread(lambda: call(False), "bfloat16")]
    after = [thread() for thread in threads]
    return {"autocast in its calls": [*states.values()], "autocast after all of them": after}


def _new_weights(carry: Carry, caller: str, own: str) -> Any:
    weight, x = torch.nn.Parameter(torch.ones(1, 2)), torch.ones(1, 2)

    carried = _wrapped(carry, caller, lambda: torch.nn.functional.linear(x, weight).item())
    if not callable(carried):
        return as_returned(carried)

    def work() -> dict[str, Any]:
        results = [carried()]
        with torch.no_grad():
            weight.fill_(5.0)
        return {"results with weights 1 and then 5": [*results, carried()]}

    return _in_thread(work, own)()
