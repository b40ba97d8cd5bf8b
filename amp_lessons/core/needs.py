"""What a demonstration must have to be measured."""

from __future__ import annotations

from typing import Literal

Need = Literal["cpu", "tf32"]
"""Any machine, or a GPU with TF32 tensor cores."""
