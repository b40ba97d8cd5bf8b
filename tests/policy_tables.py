"""The live tables of autocast's policy, made once a process: each takes a second or two."""

from __future__ import annotations

from functools import cache

import torch

from amp_lessons.amp import policy


@cache
def live(device: str, dtype: torch.dtype) -> tuple[policy.OpPolicy, ...]:
    """What the installed torch answers, as `policy.policy_table` gives it."""
    return tuple(policy.policy_table(device, dtype))
