"""The block explorer: numbers that share a scale, and what four formats keep of them.

The page in `static/` does the arithmetic of `numbers/blocks` itself, so that it also lives on a web
page with no Python.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import anywidget
import numpy as np
import traitlets

from amp_lessons.lessons.widgets.files import module, style
from amp_lessons.lessons.widgets.traits import Refused

NUMBERS = (
    *(-1.13, -1.15, -0.25, -0.43, 0.85, 0.69, -0.32, -2.12, 0.32, -1.26, 0.35, 0.31, 0.12, 1.24),
    *(1.12, -0.25, -1.35, -1.7, 0.57, 0.79, 0.6, -1.56, -0.34, 1.85, 0.75, -0.59, -0.17, 0.18),
    *(1.39, 1.59, 0.95, -0.84),
)
"""From a normal distribution, to two decimals: ``torch.randn(32)`` with the seed 0."""
MARKED = 5
MOST_TIMES = 1024.0
ROUNDINGS = ("FLOOR", "CEIL", "RCEIL", "EVEN")
"""The names of `ScaleRounding`, whose module needs torch."""


class BlockExplorer(anywidget.AnyWidget):
    """Drag one number of a block, and see what FP8, MXFP8, MXFP4 and NVFP4 keep of the others.

    FP8 has one scale for all numbers, MXFP8 and MXFP4 one for 32 and NVFP4 one for 16. NVFP4's
    second scale, which belongs to a whole tensor, is 1: as if the tensor's largest number were
    6 * 448.

    Args:
        times: how many times as large the marked number is as the median of the others, 1 to 1024.
        numbers: 16 or 32 finite ones, of which most aren't 0; by default, 32 of a normal
            distribution. The sixth is marked, and only its sign counts.
        count: how many are shown, 16 or 32.
        rounding: how the scale of MX formats is rounded: the name of a `ScaleRounding`.

    Attributes:
        times: as above.
        count: as above.
        rounding: as above.

    All three follow the learner, and the widget follows when a lesson sets one of them.

    Raises:
        ValueError: for numbers, a count, times or a rounding other than these.
    """

    _esm = module("block_explorer.mjs")
    _css = style("widgets.css", "block_explorer.css")

    numbers = traitlets.Tuple(default_value=NUMBERS).tag(sync=True)
    marked = traitlets.Int(MARKED, read_only=True).tag(sync=True)
    count = traitlets.Int(16).tag(sync=True)
    times = traitlets.Float(32.0).tag(sync=True)
    rounding = traitlets.Unicode("FLOOR").tag(sync=True)

    def __init__(
        self,
        times: float = 32.0,
        *,
        numbers: Iterable[float] = NUMBERS,
        count: int = 16,
        rounding: str = "FLOOR",
        **traits: Any,
    ) -> None:
        given = tuple(float(number) for number in numbers)
        start = {"times": float(times), "count": count, "rounding": rounding}
        super().__init__(numbers=given, **(start | traits))

    @property
    def block(self) -> list[float]:
        """The numbers that are shown, the marked one included, each a number of FP32."""
        numbers = [float(np.float32(number)) for number in self.numbers[: self.count]]
        marked = numbers.pop(self.marked)
        size = self.times * sorted(map(abs, numbers))[len(numbers) // 2]
        numbers.insert(self.marked, float(np.float32(math.copysign(size, marked))))
        return numbers

    def _repr_mimebundle_(self, **options: Any) -> Any:
        found = super()._repr_mimebundle_(**options)
        data, metadata = found if isinstance(found, tuple) else (found, {})
        return dict(data or {}) | static_form(self), metadata

    @traitlets.validate("numbers")
    def _check_numbers(self, proposal: dict[str, Any]) -> tuple[float, ...]:
        numbers: tuple[float, ...] = proposal["value"]
        if len(numbers) not in (16, 32):
            raise Refused(f"numbers must be 16 or 32, got {len(numbers)}")
        with np.errstate(over="ignore"):
            if not np.isfinite(np.array(numbers, dtype=np.float32)).all():
                raise Refused("numbers must be finite in FP32")
        for count in (16, len(numbers)):
            others = sorted(
                abs(np.float32(n)) for i, n in enumerate(numbers[:count]) if i != MARKED
            )
            if not others[count // 2 - 1]:
                raise Refused("most of the numbers must not be 0")
        return numbers

    @traitlets.validate("count")
    def _check_count(self, proposal: dict[str, Any]) -> int:
        known = {16, len(self.numbers)}
        if proposal["value"] not in known:
            raise Refused(f"count must be {' or '.join(map(str, sorted(known)))}")
        return int(proposal["value"])

    @traitlets.validate("times")
    def _check_times(self, proposal: dict[str, Any]) -> float:
        if not 1 <= proposal["value"] <= MOST_TIMES:
            raise Refused(f"times must be 1 to {MOST_TIMES:.0f}, got {proposal['value']}")
        return float(proposal["value"])

    @traitlets.validate("rounding")
    def _check_rounding(self, proposal: dict[str, Any]) -> str:
        if proposal["value"] not in ROUNDINGS:
            raise Refused(f"rounding must be {', '.join(ROUNDINGS)}; got {proposal['value']!r}")
        return str(proposal["value"])


def static_form(explorer: BlockExplorer) -> dict[str, str]:
    """What the formats keep, as a table, for where no widget can be drawn."""
    from amp_lessons.lessons.widgets.block_fates import CLOSE, fates

    count = explorer.count
    says = (
        f"{count} numbers. One of them is {explorer.times:,.4g} times the median magnitude of the "
        f"others. What {count - 1} others become (scale of MX formats: {explorer.rounding}):"
    )
    rows = [
        (
            each.name,
            "scale " + " and ".join(f"{scale:.6g}" for scale in each.scales),
            f"{each.zero} become 0",
            f"{each.close} stay within {CLOSE[each.name]:.0%}",
            f"{each.cut} saturate",
        )
        for each in fates(explorer.block, explorer.marked, explorer.rounding)
    ]
    table = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    lines = [f"{name}: {', '.join(cells)}" for name, *cells in rows]
    return {
        "text/html": f"<p>{says}</p><table>{table}</table>",
        "text/plain": "\n".join([says, *lines]),
    }
