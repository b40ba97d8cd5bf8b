"""The whole loop: what changes from FP32 to mixed precision, what each line is for, and a copy.

The two loops are `train_plain` and `train_amp` of `amp.training`. The page in `static/` colours the
lines that differ, and copies the second loop as a program of its own.
"""

from __future__ import annotations

import ast
import html
import inspect
import textwrap
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import cache
from typing import Any, Literal, NamedTuple

import anywidget
import traitlets

from amp_lessons.lessons.widgets.files import module, style

IMPORTS = "import torch\nfrom torch.nn.utils import clip_grad_norm_\n"

WHY = {
    "def train_amp": "One argument chooses the format: float16, or bfloat16.",
    "scaler = ": "One scaler serves the whole training, so it's made before the first epoch. Only "
    "FP16 needs it. With enabled=False its calls change nothing, and step() steps the optimizer.",
    "with torch.autocast": "Picks a dtype for each operation: 16 bits for matrix products and "
    "convolutions, FP32 for most losses. backward() belongs outside: it uses the dtypes of the "
    "forward pass by itself.",
    "    loss = loss_fn": "The forward pass and the loss belong inside.",
    "scaler.scale(loss)": "Multiplies the loss by the scale, so that small gradients don't "
    "become zero in FP16.",
    "scaler.unscale_": "Divides the gradients by the scale before they are clipped: the limit is "
    "meant for the true norm. step() then doesn't divide again.",
    "scaler.step": "Divides the gradients, unless unscale_() has. Skips the step if it finds inf "
    "or NaN in them.",
    "scaler.update": "Halves the scale after a skipped step, and doubles it after 2,000 steps in a "
    "row without inf or NaN.",
}
"""What a line of the second loop is for, by a part of it."""


class LoopLine(NamedTuple):
    """A line of the comparison: its text, in which of the loops it is, and what it's for."""

    text: str
    kind: Literal["same", "gone", "new"]
    why: str


class WholeLoop(anywidget.AnyWidget):
    """A training loop before and after: the lines that differ are coloured and explain themselves.

    Attributes:
        program: what the button copies: the loop in mixed precision, with its imports.
        opened: the places of the lines whose reasons are shown, from 0.
    """

    _esm = module("whole_loop.mjs")
    _css = style("widgets.css", "whole_loop.css")

    lines = traitlets.List(traitlets.Dict()).tag(sync=True)
    program = traitlets.Unicode().tag(sync=True)
    opened = traitlets.List(traitlets.Int()).tag(sync=True)

    def __init__(self, **traits: Any) -> None:
        super().__init__(
            lines=[line._asdict() for line in comparison()], program=program(), **traits
        )

    def _repr_mimebundle_(self, **options: Any) -> Any:
        found = super()._repr_mimebundle_(**options)
        data, metadata = found if isinstance(found, tuple) else (found, {})
        return dict(data or {}) | static_form(), metadata


@cache
def comparison() -> tuple[LoopLine, ...]:
    """Both loops as one listing, line by line."""
    from amp_lessons.amp.training import train_amp, train_plain

    before, after = (shown(loop).splitlines() for loop in (train_plain, train_amp))
    lines: list[LoopLine] = []
    for tag, i, j, k, m in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if tag == "equal":
            lines += (LoopLine(text, "same", "") for text in before[i:j])
        else:
            lines += (LoopLine(text, "gone", "") for text in before[i:j])
            lines += (LoopLine(text, "new", _why(text)) for text in after[k:m])
    return tuple(lines)


def _why(text: str) -> str:
    return next((why for part, why in WHY.items() if part in text), "")


def program() -> str:
    """The loop in mixed precision as a program that needs nothing else."""
    from amp_lessons.amp.training import train_amp

    return f"{IMPORTS}\n\n{shown(train_amp)}"


def shown(loop: Callable[..., Any]) -> str:
    """The source of a function without its docstring."""
    source = textwrap.dedent(inspect.getsource(loop))
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    described = function.body[0]
    lines = source.splitlines(keepends=True)
    return "".join(lines[: described.lineno - 1] + lines[described.end_lineno :])


def static_form() -> dict[str, str]:
    """The comparison as text, for where no widget can be drawn."""
    signs = {"same": " ", "gone": "-", "new": "+"}
    text = "\n".join(f"{signs[line.kind]} {line.text}".rstrip() for line in comparison())
    reasons = [(line.text.strip(), line.why) for line in comparison() if line.why]
    rows = "".join(
        f"<li><code>{html.escape(line)}</code> {html.escape(why)}</li>" for line, why in reasons
    )
    return {
        "text/html": f"<pre>{html.escape(text)}</pre><ul>{rows}</ul>",
        "text/plain": "\n".join([text, "", *(f"{line}\n    {why}" for line, why in reasons)]),
    }
