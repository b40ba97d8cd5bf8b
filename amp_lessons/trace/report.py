"""What a trace says: rows, totals and hazards as plain data, and their three forms.

A table in a notebook (`Explanation._repr_html_`), text in a terminal (`str`, or `table` for a rich
console), and JSON. No tensor is kept: an explanation can be stored and sent.
"""

from __future__ import annotations

import html
import io
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from amp_lessons.foundations.precision import brief
from amp_lessons.foundations.sizes import size
from amp_lessons.foundations.states import look

if TYPE_CHECKING:
    from rich.console import RenderableType

LOW_NAMES = ("float16", "bfloat16")


@dataclass(frozen=True)
class Cast:
    """A cast that autocast put before an op, or spared because the cast was in its cache.

    Attributes:
        what: the parameter's name, or "activation".
        source, target: dtypes.
        how: "new"; "again" (the same tensor was cast before: it cannot be cached); "from cache"
            (no cast ran).
        cached: whether autocast keeps the result, so that the next use needs no cast.
        differentiable: whether autograd casts the gradient back.
        bytes: of the result.
    """

    what: str
    source: str
    target: str
    how: str
    cached: bool = False
    differentiable: bool = False
    bytes: int = 0


@dataclass(frozen=True)
class Input:
    """A floating tensor that an op takes, and what autocast did to it first.

    Attributes:
        name: of the parameter or buffer, or of the argument of `forward`; "" for what an op made.
        made_by: number of the row that made it; -1 if none did.
        dtype: before autocast's cast.
        used_as: the dtype in which the op takes it.
        how: as for `Cast`; "" where nothing was cast.
        cached: whether the cast is in autocast's cache.
    """

    name: str
    made_by: int
    dtype: str
    used_as: str
    how: str = ""
    cached: bool = False


@dataclass(frozen=True)
class Row:
    """One op of the forward pass.

    Attributes:
        number: position, from 0.
        path: of the module, "" for the model itself.
        op: as torch dispatches it, such as "aten::addmm".
        call: as it was called, such as "linear"; "" if torch's C++ called it.
        where: file and line in the model's own code; "" if there is none.
        code: the text of that line.
        dtypes_in: of the floating inputs, before autocast's casts.
        computed_in: the widest floating dtype that the op itself takes or gives.
        dtype_out: of the first result.
        casts: made for this op, or spared.
        inputs: the floating tensors that it takes, in the op's own order.
        flops: multiplications and additions, by `torch.utils.flop_counter`.
        grad_casts: casts of gradients that backward makes for this op: one for each of its
            differentiable casts, and one for each input that type promotion widened.
    """

    number: int
    path: str
    op: str
    call: str
    where: str
    dtypes_in: tuple[str, ...]
    computed_in: str
    dtype_out: str
    casts: tuple[Cast, ...]
    flops: int
    grad_casts: int = 0
    inputs: tuple[Input, ...] = ()
    code: str = ""

    @property
    def short_op(self) -> str:
        return self.op.partition("::")[2] or self.op

    @property
    def shown_op(self) -> str:
        """The call and the op where they differ: ``linear (addmm)``."""
        op, call = self.short_op.strip("_"), self.call.strip("_")
        if not call or op.startswith(call) or op[:12] == call[:12]:
            return op
        return f"{call} ({op})"


@dataclass(frozen=True)
class Hazard:
    """Something that goes wrong in 16 bit, and the cure.

    Attributes:
        severity: "raises", "wrong numbers" or "watch".
        paths, where: module paths and lines that have it. count: how often it was met.
    """

    kind: str
    severity: str
    paths: tuple[str, ...]
    op: str
    where: tuple[str, ...]
    message: str
    fix: str
    count: int = 1


@dataclass(frozen=True)
class Totals:
    """Sums over one forward pass, and what they mean for a training step.

    Attributes:
        ops: rows.
        flops, flops_16bit: of the forward pass.
        casts_forward: casts that ran. casts_cached: casts that the cache spared.
        casts_backward: casts of gradients. backward_counted: whether they were counted in a
            backward pass on fake tensors; otherwise they are the sum of `Row.grad_casts`, for
            fake CUDA tensors have no backward where there is no GPU.
        cached_bytes: of 16-bit copies of parameters, alive until autocast ends.
        saved_fp32, saved_amp: bytes that autograd keeps for backward without and with autocast,
            the model's own parameters and buffers left out; None if that pass could not run.
        parameters, parameter_bytes: of the model.
    """

    ops: int
    flops: int
    flops_16bit: int
    casts_forward: int
    casts_cached: int
    casts_backward: int
    cached_bytes: int
    saved_fp32: int | None
    saved_amp: int
    parameters: int
    parameter_bytes: int
    backward_counted: bool

    @property
    def share_16bit(self) -> float:
        """Share of FLOPs in 16 bit, 0 to 1."""
        return self.flops_16bit / self.flops if self.flops else 0.0

    @property
    def casts_step(self) -> int:
        """Casts in one training step, forward and backward."""
        return self.casts_forward + self.casts_backward

    @property
    def saved_ratio(self) -> float | None:
        """Bytes kept under autocast over bytes kept without it."""
        return self.saved_amp / self.saved_fp32 if self.saved_fp32 else None


@dataclass(frozen=True)
class Explanation:
    """What autocast does to a model: `rows`, `totals`, `hazards`, and remarks in `notes`."""

    model: str
    device: str
    dtype: str
    torch: str
    rows: tuple[Row, ...]
    totals: Totals
    hazards: tuple[Hazard, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data, as `to_json` writes it."""
        data = asdict(self)
        data["totals"] |= {
            "share_16bit": self.totals.share_16bit,
            "casts_step": self.totals.casts_step,
            "saved_ratio": self.totals.saved_ratio,
        }
        return data

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=1)

    def summary(self) -> list[str]:
        """The totals in words, one line each."""
        t = self.totals
        lines = [
            f"{t.ops} ops, {t.parameters:,} parameters ({size(t.parameter_bytes)})",
            f"FLOPs in 16 bit: {t.share_16bit:.1%} of {t.flops:,} (forward)",
            f"casts a step: {t.casts_forward} forward and {t.casts_backward} backward",
            f"casts spared by the cache: {t.casts_cached}",
            f"16-bit copies of parameters in the cache: {size(t.cached_bytes)}",
        ]
        saved = f"saved for backward: {size(t.saved_amp)} under autocast"
        if t.saved_fp32 is not None:
            saved += f", {size(t.saved_fp32)} in float32"
        if t.saved_ratio is not None:
            saved += f" ({t.saved_ratio:.2f} times)"
        return [*lines, saved]

    @property
    def title(self) -> str:
        return f"{self.model} under autocast({self.device!r}, {self.dtype}), torch {self.torch}"

    def renderable(self) -> RenderableType:
        """The whole report for a rich console."""
        from rich import box
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in COLUMNS:
            table.add_column(column, overflow="fold", justify="left")
        for row in self.rows:
            table.add_row(*(Text(cell) for cell in cells(row)))
        parts: list[RenderableType] = [Text(self.title, style="bold"), table]
        parts += [Text(line) for line in self.summary()]
        parts.append(Text(f"\n{_hazard_heading(self.hazards)}", style="bold"))
        for hazard in self.hazards:
            parts.append(Text(f"{look(hazard.severity).symbol} {hazard_line(hazard)}"))
            parts.append(Text(f"    fix: {hazard.fix}"))
        parts += [Text(f"note: {note}") for note in self.notes]
        return Group(*parts)

    def __str__(self) -> str:
        from rich.console import Console

        text = io.StringIO()
        screen = Console(file=text, width=120, color_system=None, highlight=False)
        screen.print(self.renderable())
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def _repr_html_(self) -> str:
        """A table that takes its colours from the theme around it; every word is escaped."""
        heads = "".join(f'<th scope="col" style="{_CELL}">{head}</th>' for head in COLUMNS)
        rows = "".join(_html_row(row) for row in self.rows)
        totals = "".join(f"<li>{html.escape(line)}</li>" for line in self.summary())
        hazards = "".join(_html_hazard(hazard) for hazard in self.hazards)
        notes = "".join(f"<p>Note: {html.escape(note)}</p>" for note in self.notes)
        label = html.escape(f"Ops of {self.title}")
        return (
            '<div class="amp-lessons-box" style="color:inherit;line-height:1.5">'
            f"<strong>{html.escape(self.title)}</strong>"
            f'<ul style="margin:6px 0">{totals}</ul>'
            f"<strong>{_hazard_heading(self.hazards)}</strong>{hazards}{notes}"
            f'<div tabindex="0" role="region" aria-label="{label}" style="max-height:28em;'
            'overflow:auto;margin-top:8px;border:1px solid rgba(128,128,128,0.45)">'
            '<table style="border-collapse:collapse;color:inherit;font-size:0.92em">'
            f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div></div>"
        )


COLUMNS = ("#", "module", "op", "in", "computed in", "out", "casts")
_CELL = "text-align:left;padding:2px 8px;vertical-align:top"


def cells(row: Row) -> tuple[str, ...]:
    """One row as text, in the order of `COLUMNS`."""
    dtypes = ", ".join(_runs(brief(dtype) for dtype in row.dtypes_in))
    casts = "; ".join(_runs(cast_text(cast, row.path) for cast in row.casts))
    computed, out = brief(row.computed_in), brief(row.dtype_out)
    return (str(row.number), row.path or ".", row.shown_op, dtypes, computed, out, casts)


def cast_text(cast: Cast, path: str = "") -> str:
    """One cast in words, such as ``weight → fp16``; the name as the module at ``path`` says it."""
    note = {"new": "", "again": " again", "from cache": " from cache"}[cast.how]
    return f"{cast.what.removeprefix(f'{path}.')} → {brief(cast.target)}{note}"


def hazard_line(hazard: Hazard) -> str:
    """Kind, places and message in one line."""
    places = [path or "the model itself" for path in hazard.paths[:3]]
    more = f" and {len(hazard.paths) - 3} more" if hazard.paths[3:] else ""
    lines = [line for line in hazard.where[:2] if line]
    code = f" ({', '.join(lines)})" if lines else ""
    times = f", {hazard.count} times" if hazard.count > 1 else ""
    return f"{hazard.kind}, {', '.join(places)}{more}{code}{times}: {hazard.message}"


def _runs(items: Any) -> list[str]:
    """Items with neighbours that are the same as one: ``fp32 ×3``."""
    counted: list[list[Any]] = []
    for item in items:
        if counted and counted[-1][0] == item:
            counted[-1][1] += 1
        else:
            counted.append([item, 1])
    return [item if count == 1 else f"{item} ×{count}" for item, count in counted]


def _hazard_heading(hazards: tuple[Hazard, ...]) -> str:
    return f"Hazards: {len(hazards)}" if hazards else "No hazard was found"


def _html_row(row: Row) -> str:
    low = row.computed_in in LOW_NAMES
    style = f"{_CELL};background:rgba(46,139,87,0.14)" if low else _CELL
    inner = "".join(f'<td style="{style}">{html.escape(cell)}</td>' for cell in cells(row))
    where = html.escape(row.where or row.op)
    return f'<tr title="{where}">{inner}</tr>'


def _html_hazard(hazard: Hazard) -> str:
    edge, mark = look(hazard.severity).edge, look(hazard.severity).symbol
    return (
        f'<div style="border-left:6px solid {edge};padding:4px 10px;margin:4px 0;max-width:60em">'
        f"{mark} <em>{html.escape(hazard.severity)}</em>: {html.escape(hazard_line(hazard))}"
        f"<br>Fix: {html.escape(hazard.fix)}</div>"
    )
