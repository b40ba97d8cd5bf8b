"""What a model calls that autocast refuses or does not see into: BCE, and autograd Functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from torch import Tensor

from amp_lessons.amp.explain.hazards.kinds import RAISES, WATCH, made
from amp_lessons.amp.explain.rows import Hazard


def of_refused(refused: Iterable[tuple[str, str, str]]) -> list[Hazard]:
    """BCE calls that autocast refuses."""
    return [
        made(
            "BCE after sigmoid",
            RAISES,
            path,
            "binary_cross_entropy",
            where,
            f"raises under autocast: {message.splitlines()[0]}",
        )
        for path, where, message in refused
    ]


def without_refused(
    found: Iterable[Hazard], refused: Iterable[tuple[str, str, str]]
) -> list[Hazard]:
    """Drop the milder word on a BCE that autocast refuses anyway."""
    places = {((path,), (where,)) for path, where, _ in refused}
    return [h for h in found if h.kind != "BCE after sigmoid" or (h.paths, h.where) not in places]


def of_functions(outputs: Iterable[Tensor]) -> list[Hazard]:
    """Custom autograd Functions in the graph whose forward is not under `custom_fwd`."""
    found: dict[str, Hazard] = {}
    todo = [t.grad_fn for t in outputs if t.grad_fn is not None]
    seen = set()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        todo += [n for n, _ in node.next_functions if n is not None]
        owner = getattr(type(node), "_forward_cls", None)
        if owner is None or owner.__module__.partition(".")[0] == "torch":
            continue
        if not hasattr(node, "_fwd_used_autocast"):
            name = owner.__name__
            found[name] = made(
                "custom Function",
                WATCH,
                "",
                name,
                _place(owner.forward),
                f"{name} has no custom_fwd and custom_bwd: its forward sees whatever dtypes "
                "arrive, and its backward runs without the autocast state of its forward",
            )
    return list(found.values())


def _place(function: Callable[..., object]) -> str:
    code = getattr(function, "__code__", None)
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code is not None else ""
