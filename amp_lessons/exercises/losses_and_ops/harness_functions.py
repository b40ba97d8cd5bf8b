"""Where an autograd Function of one's own is called, and what is noted of its two halves.

A Function is judged by the dtypes in which its matrix products really ran, with autocast on or off
around the forward and around the backward. How it gets there is not looked at.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.checks.verdict import State, Verdict
from amp_lessons.exercises.harness import (
    BFLOAT,
    HALF,
    SINGLE,
    Operations,
    as_play,
    autocast_state,
    from_seed,
    name_of,
    region,
    telling,
)
from amp_lessons.exercises.checks.serialize import as_json
from amp_lessons.exercises.checks.serialize.compare import is_dict, is_tensor, noted


def _case(
    x: Tensor, other: Tensor, forward: torch.dtype | None, backward: torch.dtype | None
) -> Case:
    place = [f"a {name_of(dtype)}" if dtype else "no" for dtype in (forward, backward)]
    label = f"x {name_of(x.dtype)}, forward in {place[0]} region, backward in {place[1]} region"
    return Case((x.requires_grad_(), other, forward, backward), f"{label}, {len(x)} rows")


def silu_cases() -> list[Case]:
    cases = []
    regions = (None, HALF, BFLOAT), (None, BFLOAT)
    for forward, backward, seed in itertools.product(*regions, (1, 6)):
        random = from_seed(seed)
        x = torch.randn(2 + seed, 4, generator=random)
        weight = 0.5 * torch.randn(4, 3 + seed, generator=random)
        cases.append(_case(x, weight.requires_grad_(), forward, backward))
    return cases


def energy_cases() -> list[Case]:
    places: list[tuple[Any, ...]] = [(None, None, SINGLE), (HALF, None, HALF), (HALF, None, SINGLE)]
    places += [(BFLOAT, None, BFLOAT), (BFLOAT, None, SINGLE), (HALF, HALF, HALF)]
    places += [(None, BFLOAT, SINGLE)]
    cases = []
    for (forward, backward, dtype), seed in itertools.product(places, (1, 6)):
        random = from_seed(seed)
        x = 300 * torch.randn(1 + seed, 5, generator=random)
        matrix = torch.randn(5, 5, generator=random)
        cases.append(_case(x.to(dtype), matrix + matrix.T, forward, backward))
    return cases


@as_play
def play_function(
    function: Callable[..., Any],
    x: Tensor,
    other: Tensor,
    forward: torch.dtype | None,
    backward: torch.dtype | None,
) -> Any:
    """Run both halves, the second one also after another call of the function in between."""

    def call(*args: Tensor) -> tuple[Any, list[str], bool]:
        with region(forward), Operations() as operations:
            before = autocast_state()
            result = function(*args)
            return result, operations.of_products(), autocast_state() == before

    def gradients(result: Tensor, *args: Tensor) -> tuple[list[Any], list[str]]:
        weights = torch.linspace(0.5, 1.5, result.numel()).reshape(result.shape)
        inputs = [t for t in args if t.requires_grad]
        with region(backward), Operations() as operations:
            found = torch.autograd.grad(result, inputs, weights.to(result.dtype), allow_unused=True)
        return [_coarse(g, result.dtype) for g in found], operations.of_products()

    copies, another = (
        [t.detach().clone().requires_grad_(t.requires_grad) for t in (x, other)] for _ in range(2)
    )
    result, ran, kept = call(x, other)
    if not isinstance(result, Tensor):
        return result
    node = _own_node(result)
    found: list[Any] = [None, None]
    ran_back, ran_later = list[str](), list[str]()
    if result.requires_grad:
        _, ran_back = gradients(result, x, other)
        again, _, _ = call(*copies)
        with region(HALF if forward is BFLOAT else BFLOAT):
            function(*another)
        found, ran_later = gradients(again, *copies)
    states = {None: "nothing", True: "on", False: "off"}
    return {
        "computed by": "operations of torch" if node is None else "a Function",
        "dtypes of products in the forward": sorted({*ran}),
        "dtypes of products in the backward": sorted({*ran_back}),
        "dtypes of products in the backward after another call": sorted({*ran_later}),
        "autocast after the call": "as before" if kept else "changed",
        "dtype of the result": name_of(result.dtype),
        "result": result,
        "gradient of x": found[0],
        "gradient of the other argument": found[1] if len(found) > 1 else None,
        "details": {
            "forward in": name_of(forward) or "no region",
            "backward in": name_of(backward) or "no region",
            "x": name_of(x.dtype),
            "custom_fwd noted": states[getattr(node, "_fwd_used_autocast", None)],
            "number of products in the backward": len(ran_back),
        },
    }


def _coarse(gradient: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """A gradient in its own dtype or in that of the result: that of fewer digits."""
    if gradient is None or torch.finfo(gradient.dtype).eps > torch.finfo(dtype).eps:
        return gradient
    return gradient.to(dtype)


def _own_node(result: Tensor) -> Any:
    """The node of a custom Function in the graph of a result, or None."""
    todo, done = [result.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in done:
            continue
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            return node
        done.add(node)
        todo += [following for following, _ in node.next_functions]
    return None


# ---- for the judges -----------------------------------------------------------------------------


def same_function(expected: Any, seen: Any) -> bool:
    """Products in no other dtype, numbers to a few units of the coarsest dtype; details differ."""
    if is_dict(expected):
        if not is_dict(seen) or "computed by" not in expected["dict"]:
            return is_dict(seen)
        wanted, got = expected["dict"], seen["dict"]
        return all(key in got and same_function(wanted[key], got[key]) for key in wanted)
    if isinstance(expected, list):
        return isinstance(seen, list) and {*seen} <= {*expected, *_wider(expected)}
    if is_tensor(expected):
        eps = torch.finfo(getattr(torch, expected["dtype"])).eps
        return apart(expected, seen) <= max(1e-4, 8 * eps)
    return expected == seen


tell = telling(same_function)


def _wider(products: list[str]) -> set[str]:
    return {"float64"} if products == ["float32"] else set()


def apart(expected: Any, seen: Any) -> float:
    """The largest difference of two tensors, as a part of the largest number expected."""
    if not is_tensor(seen) or seen["shape"] != expected["shape"]:
        return math.inf
    one, other = (torch.tensor(t["values"], dtype=torch.float64) for t in (expected, seen))
    same = (one == other) | (one.isnan() & other.isnan())
    difference = torch.where(same, 0.0, (one - other).abs()).max().item()
    largest = one.nan_to_num(0.0, 0.0, 0.0).abs().max().item()
    if math.isfinite(difference) and largest:
        return difference / largest
    return math.inf if difference else 0.0


def fact(entry: dict[str, Any], key: str) -> Any:
    """What an entry says under a key, the details included; None if the call raised."""
    details = noted(entry, "details")
    found = noted(entry, key)
    return details["dict"].get(key) if found is None and is_dict(details) else found


def products(seen: dict[str, Any], right: dict[str, Any], half: str) -> set[str]:
    """The dtypes of the products that ran in this half, without those that are right."""
    key = f"dtypes of products in the {half}"
    ran, wanted = (fact(entry, key) or [] for entry in (seen, right))
    return {*ran} - {*wanted} - _wider(wanted)


def message(entry: dict[str, Any]) -> str:
    return str(entry.get("error", {}).get("message", "")).lower()


def two_dtypes_met(entry: dict[str, Any]) -> bool:
    """Whether a call raised because two dtypes met; the wording differs by op and version."""
    words = ("dtype", "scalar type", "c10::", "same type")
    return any(word in message(entry) for word in words)


def as_given(name: str) -> Callable[..., Verdict | None]:
    """For `Judge.own`: a Function that still does what the stub does was not attempted."""

    @cache
    def stub() -> list[Any]:
        from amp_lessons.exercises.checks import find_exercise

        learners = find_exercise(name).public
        return json.loads(as_json(learners.probe(*learners.answer(learners.stub))))

    def own(entries: list[Any], expected: list[Any]) -> Verdict | None:
        if all(_alike(one, other) for one, other in zip(stub(), entries, strict=True)):
            return Verdict(State.NOT_ATTEMPTED, "The Function still behaves as it was given.")
        return None

    def _alike(one: dict[str, Any], other: dict[str, Any]) -> bool:
        if "error" in one or "error" in other:
            return message(one) == message(other) and "error" in one and "error" in other
        details = fact(one, "details") == fact(other, "details")
        return details and "value" in other and same_function(one["value"], other["value"])

    return own
