"""What a training step of a model needs, in each precision, and which GPU has that much.

`survey` counts a step at two batch sizes with `memory.memory_by_module`. All that grows with the
batch grows in proportion to it, so the two give every other batch, the largest that fits, and the
batch from which on autocast needs less than float32. `screen` prints it.
"""

from __future__ import annotations

from amp_lessons.amp.memory.budget.counting import CARDS, OPTIMIZERS, Survey, survey

__all__ = ["CARDS", "OPTIMIZERS", "Survey", "survey"]
