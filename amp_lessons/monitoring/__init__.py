"""Watching a training loop with real values: what breaks, where, and what FP16 would make of it.

`amp_lessons.monitor(model, scaler)` is the door. `watching` holds the monitor, `report` what it
tells; the rest is how it finds out.
"""

from amp_lessons.monitoring.arguments import MonitorError
from amp_lessons.monitoring.diagnosis import Diagnosis
from amp_lessons.monitoring.findings import Fault, Sample, Seen, Skip
from amp_lessons.monitoring.watching import Monitor

__all__ = ["Diagnosis", "Fault", "Monitor", "MonitorError", "Sample", "Seen", "Skip"]
