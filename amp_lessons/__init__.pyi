"""What lessons and your own code take from the course: ``from amp_lessons import ask, FP16``."""

__version__: str

from .amp.monitor import monitor as monitor
