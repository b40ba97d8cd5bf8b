"""The bench: what each precision gains on this machine, measured as an engineer would defend it.

`workloads` says what is trained, `modes` in which precisions, and `planning` what it will take.
`runner` measures with the method of `timing`; `report` shows the result and makes records of it.
"""

from amp_lessons.amp.speed.bench.modes import MODES, Mode
from amp_lessons.amp.speed.bench.planning import WorkloadCost, check_fits, plan
from amp_lessons.amp.speed.bench.runner import BenchReport, departure, pieces, run
from amp_lessons.amp.speed.bench.workloads import (
    PRESETS,
    BenchError,
    Workload,
    cnn,
    mlp,
    transformer,
)

__all__ = [
    "MODES",
    "PRESETS",
    "BenchError",
    "BenchReport",
    "Mode",
    "Workload",
    "WorkloadCost",
    "check_fits",
    "cnn",
    "departure",
    "mlp",
    "pieces",
    "plan",
    "run",
    "transformer",
]
