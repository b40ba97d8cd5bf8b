"""What autocast does to each operation, asked live: on the CPU, and on CUDA with or without a GPU.

No rule is written down here. The table in `calls` says only how to *call* each operation; its
answer comes from running it under autocast with 16-bit, float32 and mixed input, beside a run
without autocast. Where there is no GPU, CUDA's rules are asked on fake tensors, which have a
device, a dtype and a shape but no data: autocast's dispatch keys work on them as on real ones.
Whole models are left to `explain`.
"""

from __future__ import annotations

from typing import Any

import torch

from amp_lessons.amp.policy.answer import (
    DTYPES,
    OpPolicy,
    PolicyError,
    as_json,
    caption,
    counts,
    short,
)
from amp_lessons.amp.policy.calls import OPS, VARIANTS
from amp_lessons.amp.policy.judging import judge
from amp_lessons.amp.policy.names import find_device, find_dtype, find_op
from amp_lessons.amp.policy.trials import rules, sandbox
from amp_lessons.amp.policy_record import GROUPS, Group
from amp_lessons.amp.policy_record.asked import DEVICES

__all__ = [
    "DEVICES",
    "DTYPES",
    "GROUPS",
    "OPS",
    "VARIANTS",
    "Group",
    "OpPolicy",
    "PolicyError",
    "as_json",
    "caption",
    "counts",
    "find_dtype",
    "find_op",
    "op_policy",
    "policy_table",
    "rules",
    "short",
]


def op_policy(op: str, device: Any = "cuda", dtype: Any = torch.float16) -> OpPolicy:
    """What autocast does to one operation, asked now.

    Args:
        op: a name in `OPS`, such as ``"softmax"``. Prefixes (``torch.``, ``F.``, ``aten::``), the
            name of an overload at the end and, where only one op can be meant, case and
            underscores do not matter, except the last one of an op in place.
        device: ``"cuda"`` or ``"cpu"``, or a `torch.device`.
        dtype: `torch.float16` or `torch.bfloat16`, or ``"fp16"``, ``"bf16"``.

    Raises:
        PolicyError: (a ValueError) for an unknown op, device or dtype; the message has near
            matches.
    """
    name, device, dtype = find_op(op), find_device(device), find_dtype(dtype)
    with sandbox(device, dtype) as box:
        return judge(name, box)


def policy_table(device: Any = "cuda", dtype: Any = torch.float16) -> list[OpPolicy]:
    """`op_policy` of every op in `OPS`, in their order; a second or two.

    Raises:
        PolicyError: as `op_policy`.
    """
    device, dtype = find_device(device), find_dtype(dtype)
    with sandbox(device, dtype) as box:
        return [judge(name, box) for name in OPS]
