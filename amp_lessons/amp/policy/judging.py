"""From trials to an answer: what autocast changed, and why, in words."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.utils._python_dispatch import _disable_current_modes

from amp_lessons.amp.policy.answer import Group, OpPolicy
from amp_lessons.amp.policy.calls import CALLS, operator_of
from amp_lessons.amp.policy.trials import Sandbox, Trial, attempt


def judge(name: str, box: Sandbox) -> OpPolicy:
    """Try an op with every kind of input, with and without autocast, and say what changed."""
    call, low, full = CALLS[name], box.dtype, torch.float32
    kinds = {"low": (low, low), "full": (full, full), "mixed": (low, full)}
    off = {kind: attempt(call, box, *dtypes, on=False) for kind, dtypes in kinds.items()}
    on = {kind: attempt(call, box, *dtypes, on=True) for kind, dtypes in kinds.items()}
    double = attempt(call, box, torch.float64, torch.float64, on=True)
    group = _group(on, off, low)
    single = on["full"].tensors < 2
    return OpPolicy(
        op=name,
        device=box.device,
        dtype=low,
        low=on["low"].dtype,
        full=on["full"].dtype,
        mixed=None if single else on["mixed"].dtype,
        group=group,
        measured=box.measured,
        note=note(name, group, on, off, box),
        double=double.dtype,
        listed=operator_of(name) in box.rules,
        inputs=on["full"].tensors,
    )


def _group(on: Mapping[str, Trial], off: Mapping[str, Trial], low: torch.dtype) -> Group:
    """What autocast does, from what differs between a run under it and one without.

    Casts count even where the op then fails, so a kernel that cannot run here still tells.
    """
    if on["full"].casts_to(low, off["full"]):
        return "lower precision"
    if on["low"].casts_to(torch.float32, off["low"]) or _widened(on["low"], off["low"], low):
        return "float32"
    if on["mixed"].casts_to(torch.float32, off["mixed"]):
        return "widest"
    if on["low"].error and on["full"].error:
        works_without = not (off["low"].error and off["full"].error)
        return "refused" if works_without else "not answerable"
    return "as given"


def _widened(on: Trial, off: Trial, low: torch.dtype) -> bool:
    """Whether the op was asked for a float32 result, which takes no cast of its input."""
    return on.dtype is torch.float32 and off.dtype is low


def note(
    name: str, group: Group, on: Mapping[str, Trial], off: Mapping[str, Trial], box: Sandbox
) -> str:
    """Why, in a sentence or two, with torch's own message for what raises."""
    if group == "refused":
        return f"raises: {on['full'].error}"
    broken = _sentence(on["full"].error) if on["low"].error and on["full"].error else ""
    if group == "not answerable":
        return f"does not run {box.place}, with or without autocast: {broken}"
    parts = [_reason(group, on, off, box)]
    if group != "as given" and operator_of(name) not in box.rules:
        parts.append(
            f"no rule for {operator_of(name)} itself, but for some of what it calls; "
            "the rest runs in the dtype it is given"
        )
    if broken:
        why = f"the answer comes from its casts, because it does not run {box.place}: {broken}"
        return "; ".join([*parts, why])
    if group == "lower precision" and on["full"].dtype is torch.float32:
        parts.append("the result for float32 input is float32 again: not all of it is cast")
    for kind, words in (("low", box.low), ("full", "float32")):
        if on[kind].error:
            parts.append(f"{words} input raises: {_sentence(on[kind].error)}")
    return "; ".join([*parts, *_about_mixed(name, group, on, box)])


def _reason(group: Group, on: Mapping[str, Trial], off: Mapping[str, Trial], box: Sandbox) -> str:
    if group == "lower precision":
        return f"casts float32 input to {box.low}"
    if group == "float32" and on["low"].casts_to(torch.float32, off["low"]):
        return f"casts {box.low} input to float32"
    if group == "float32":
        return "asks for a float32 result, with no cast of the input"
    if group == "widest":
        return "casts all input to the widest dtype among it"
    return "autocast leaves it alone"


def _about_mixed(name: str, group: Group, on: Mapping[str, Trial], box: Sandbox) -> list[str]:
    mixed = on["mixed"]
    if on["full"].tensors < 2:
        return ["takes one floating-point tensor, so no mixed input"]
    if mixed.error:
        return [f"mixed input raises: {_sentence(mixed.error)}"]
    if group != "as given":
        return []
    if box.measured == "fake tensors" and _cpu_refuses_mixed(name, box.dtype):
        return ["mixed input passes here, but a kernel may refuse it, as the CPU's does"]
    if mixed.dtype is torch.float32:
        return ["it promotes mixed input by itself"]
    if box.measured == "fake tensors":
        return ["mixed input passes here, but a kernel may refuse it"]
    return ["it takes mixed input as it is"]


def _cpu_refuses_mixed(name: str, low: torch.dtype) -> bool:
    """Whether the op raises on real CPU tensors of two dtypes: fake tensors check less."""
    with _disable_current_modes():
        cpu = Sandbox("cpu", low, "measured", frozenset())
        return bool(attempt(CALLS[name], cpu, low, torch.float32, on=False).error)


def _sentence(message: str) -> str:
    """The first sentence of a message of torch's; advice for its developers may follow."""
    return message.splitlines()[0].split(". ")[0].rstrip(".")
