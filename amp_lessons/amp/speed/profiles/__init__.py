"""Where a training step spends its time on a CPU: one profile that was kept, and new ones.

`load_profile` reads the profile that ``tools/make_trace.py`` stored, with its provenance. Another
machine gives other times, so a lesson shows the stored ones. `profile_step` profiles in a process
of its own: `torch.profiler` writes to standard error, and that would stand in the notebook.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from amp_lessons.core.errors import AmpLessonsError

STORED = Path(__file__).parent / "step_on_a_cpu.json"
PRECISIONS = ("fp32", "bf16")
CASTS = ("aten::to", "aten::_to_copy")
"""The ops of a cast: ``aten::to`` decides, ``aten::_to_copy`` copies when the dtype changes."""


class ProfileError(AmpLessonsError):
    """A profile could not be made or read. The message is one line."""


@dataclass(frozen=True)
class OpTime:
    """One op in a profile.

    Attributes:
        name: as the profiler calls it, such as ``"aten::mm"``.
        calls: in all steps together.
        microseconds: its self CPU time in all steps: what the op itself took, without the ops that
            it called.
        share: of the self CPU time of all ops, 0 to 1.
    """

    name: str
    calls: int
    microseconds: float
    share: float


@dataclass(frozen=True)
class StepProfile:
    """Where the time of some training steps went, in one precision.

    Attributes:
        precision: "fp32" or "bf16", which is autocast in BF16.
        steps: that were profiled, after a warm-up.
        ops: the ones with the most self CPU time, the longest first.
        calls: of every op, by name, also of those that are not among ``ops``.
    """

    precision: str
    steps: int
    ops: tuple[OpTime, ...]
    calls: Mapping[str, int] = field(default_factory=dict, repr=False)

    @property
    def casts(self) -> int:
        """Casts in a step: calls of ``aten::_to_copy``."""
        return round(self.calls.get("aten::_to_copy", 0) / self.steps)

    def table(self, rows: int = 8) -> str:
        """The longest ops as text, one a line."""
        head = f"{self.precision:24} {'calls a step':>12} {'self CPU':>10} {'share':>6}"
        lines = []
        for op in self.ops[:rows]:
            name, calls = op.name.partition("#")[0], op.calls / self.steps
            time = f"{op.microseconds / self.steps:7.0f} µs"
            lines.append(f"{name:24} {calls:12g} {time} {op.share:6.1%}")
        return "\n".join([head, *lines, f"casts in a step: {self.casts}"])


@dataclass(frozen=True)
class Profiles:
    """Profiles of the same step in several precisions, and where they come from.

    Attributes:
        by_precision: in the order of `PRECISIONS`.
        made: the "model" that was trained, "cpu", its instructions for native "bf16" ("" for none),
            "threads", "torch", "date", and for the stored one the "command".
    """

    by_precision: Mapping[str, StepProfile]
    made: Mapping[str, Any]

    @property
    def source(self) -> str:
        """One line: on what, with which torch, and when."""
        made = self.made
        threads = f"{made['threads']} thread{'s' if made['threads'] > 1 else ''}"
        cpu = f"{made['cpu']} ({made['bf16'] or 'no native BF16'})"
        return f"{made['model']}, on {cpu}, {threads}, torch {made['torch']}, {made['date']}"


def load_profile(path: str | Path = STORED) -> Profiles:
    """The profile that comes with the course. Raises `ProfileError` if it cannot be read."""
    try:
        data = json.loads(Path(path).read_text(encoding="utf-8"))
        return _read(data)
    except OSError as error:
        raise ProfileError(f"{path} cannot be read: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ProfileError(f"{path} is not a profile: make one with tools/make_trace.py") from error


def profile_step(
    width: int = 256,
    batch: int = 256,
    *,
    precisions: Sequence[str] = PRECISIONS,
    steps: int = 10,
    seconds: float = 120.0,
) -> Profiles:
    """Profile the training step of a small network here, in a process of its own.

    The network has three linear layers of ``width`` with ReLU between them, a mean squared error
    and plain SGD: the AMP recipe's, in a size for a CPU.

    Args:
        width: of each layer.
        batch: rows of the input.
        precisions: of `PRECISIONS`.
        steps: to profile, after 3 that are not counted.
        seconds: after which it gives up.

    Raises:
        ProfileError: for another precision, a size below 1, or if the process fails.
    """
    numbers = (width, batch, steps)
    if not precisions or set(precisions) - set(PRECISIONS):
        raise ProfileError(f"precisions are {' and '.join(PRECISIONS)}, got {precisions!r}")
    if not all(type(n) is int and n >= 1 for n in numbers):
        raise ProfileError(f"width, batch and steps are whole numbers from 1 on, got {numbers}")
    words = [sys.executable, "-m", f"{__name__}.worker", *map(str, numbers), *precisions]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        raise ProfileError(f"no profile after {seconds:g} s: take a smaller width") from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise ProfileError(f"the process that profiles failed: {last}")
    return _read(json.loads(done.stdout))


def as_json(profiles: Profiles) -> dict[str, Any]:
    """Plain data, as `load_profile` reads it."""
    return {
        "made": dict(profiles.made),
        "profiles": [asdict(profile) for profile in profiles.by_precision.values()],
    }


def _read(data: Any) -> Profiles:
    found = {}
    for each in data["profiles"]:
        ops = tuple(OpTime(**op) for op in each["ops"])
        found[each["precision"]] = StepProfile(**each | {"ops": ops})
    made = data["made"]
    profiles = Profiles(found, made)
    str(profiles.source)  # a KeyError where something about the machine is missing
    return profiles
