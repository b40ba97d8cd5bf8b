"""What is known of a tensor's values while only shapes and dtypes are there: bounds and history.

`Values` follows the ops of a trace and keeps one `Fact` for each tensor. The hazard rules read
them, so that they stay silent where a value is bounded, and speak where it is not.
"""

from amp_lessons.amp.explain.facts.elements import is_mask
from amp_lessons.amp.explain.facts.fact import Fact, rounded, spacing
from amp_lessons.amp.explain.facts.values import Values

__all__ = ["Fact", "Values", "is_mask", "rounded", "spacing"]
