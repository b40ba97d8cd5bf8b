"""The policy browser: search an op, and read what autocast does to it on CUDA beside the CPU.

`policy` is asked once for both devices and both dtypes, which takes a few seconds the first time;
the page in `static/` only filters and shows.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import anywidget
import torch
import traitlets

from amp_lessons.amp import policy
from amp_lessons.amp.policy import OpPolicy, PolicyError
from amp_lessons.lessons.widgets.files import module, style
from amp_lessons.lessons.widgets.traits import Refused

DTYPES = (torch.float16, torch.bfloat16)
SHOWS = ("all ops", "differs between CUDA and CPU", *policy.GROUPS)


class PolicyBrowser(anywidget.AnyWidget):
    """Search an op, and read its policy on CUDA beside the CPU, with the reason.

    Args:
        op: the op to start with, as for `policy.find_op`: ``"softmax"``, ``"torch.mm"``.
        dtype: `torch.float16` or `torch.bfloat16`, or ``"fp16"``, ``"bf16"``.
        search: what stands in the search field; an op is listed if its name holds every word.
        show: which ops to list: one of `SHOWS`, such as ``"differs between CUDA and CPU"``.

    Attributes:
        op, dtype, search, show: as above, ``dtype`` as ``"float16"`` or ``"bfloat16"``.

    All four follow the learner, and the widget follows when a lesson sets one of them.

    Raises:
        ValueError: for an op, a dtype or a ``show`` that does not exist.
    """

    _esm = module("policy_browser.mjs")
    _css = style("widgets.css")

    data = traitlets.Dict().tag(sync=True)
    op = traitlets.Unicode("softmax").tag(sync=True)
    dtype = traitlets.Unicode("float16").tag(sync=True)
    search = traitlets.Unicode("").tag(sync=True)
    show = traitlets.Unicode(SHOWS[0]).tag(sync=True)

    def __init__(
        self,
        op: str = "softmax",
        dtype: Any = torch.float16,
        search: str = "",
        show: str = SHOWS[0],
        **traits: Any,
    ) -> None:
        super().__init__(
            data=_plain_data(),
            op=policy.find_op(op),
            dtype=policy.short(policy.find_dtype(dtype)),
            search=search,
            show=show,
            **traits,
        )

    @property
    def policies(self) -> tuple[OpPolicy, OpPolicy]:
        """What is shown: the op's policy on CUDA and on the CPU."""
        dtype = policy.find_dtype(self.dtype)
        cuda, cpu = (_table(device, dtype)[policy.OPS.index(self.op)] for device in policy.DEVICES)
        return cuda, cpu

    @traitlets.validate("op")
    def _check_op(self, proposal: dict[str, Any]) -> str:
        try:
            return policy.find_op(proposal["value"])
        except PolicyError as error:
            raise Refused(str(error)) from None

    @traitlets.validate("dtype")
    def _check_dtype(self, proposal: dict[str, Any]) -> str:
        try:
            return policy.short(policy.find_dtype(proposal["value"]))
        except PolicyError as error:
            raise Refused(str(error)) from None

    @traitlets.validate("show")
    def _check_show(self, proposal: dict[str, Any]) -> str:
        if proposal["value"] not in SHOWS:
            raise Refused(f"show must be one of {', '.join(SHOWS)}; got {proposal['value']!r}")
        return proposal["value"]


@cache
def _table(device: str, dtype: torch.dtype) -> tuple[OpPolicy, ...]:
    return tuple(policy.policy_table(device, dtype))


def _plain_data() -> dict[str, Any]:
    """What the page shows, in plain data; its form is told in policy_browser.mjs."""
    return {
        "torch": torch.__version__,
        "devices": list(policy.DEVICES),
        "dtypes": [policy.short(dtype) for dtype in DTYPES],
        "groups": list(policy.GROUPS),
        "shows": list(SHOWS),
        "ops": list(policy.OPS),
        "policies": {policy.short(dtype): _side_by_side(dtype) for dtype in DTYPES},
    }


def _side_by_side(dtype: torch.dtype) -> list[dict[str, Any]]:
    rows = zip(*(_table(device, dtype) for device in policy.DEVICES), strict=True)
    return [{"differs": _differs(*row), "of": policy.as_json(row)} for row in rows]


def _differs(cuda: OpPolicy, cpu: OpPolicy) -> bool:
    """Whether the two devices are known to treat an op differently."""
    if "not answerable" in (cuda.group, cpu.group):
        return False
    return cuda.group != cpu.group
