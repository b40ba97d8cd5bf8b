"""The comparison that exercises in the old format still import from here. It is in `compare`."""

from amp_lessons.checks.compare import within_ulps
from amp_lessons.checks.topic import open_topic

__all__ = ["within_ulps"]
__getattr__ = open_topic("amp_lessons.exercises.how_numbers_break")
