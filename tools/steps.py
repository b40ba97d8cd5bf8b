"""The steps of a run that checks something: each is a command, and a line on how it went."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

SHOWN = 60  # lines of what a failed step has printed


@dataclass
class Steps:
    """What was run so far.

    Attributes:
        root: where the commands run.
        folder: for their temporary files.
        failed: the steps that failed, each with what helps.
        written: the files that they say they wrote.
    """

    root: Path
    folder: Path
    failed: dict[str, str] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)

    def run(self, name: str, command: Sequence[str], cure: str = "") -> str:
        """Run a command of Python's, such as ``["-m", "mypy"]``, and give what it printed."""
        return self.end(name, self.start(command), cure)

    def start(self, command: Sequence[str], **environment: str) -> subprocess.Popen[str]:
        """Start one that goes on beside the next steps."""
        own = {"TMPDIR": str(self.folder), "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, *command],
            cwd=self.root,
            env=os.environ | own | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )

    def end(self, name: str, process: subprocess.Popen[str], cure: str = "") -> str:
        """Wait for a command and say how it went; give what it printed."""
        since = time.monotonic()
        output, _ = process.communicate()
        self.say(name, not process.returncode, output, cure, time.monotonic() - since)
        return output

    def say(self, name: str, passed: bool, output: str, cure: str, seconds: float) -> None:
        """Print a step's line and, if it failed, the end of its output."""
        print(f"{'ok' if passed else 'FAIL':<6}{name:<64}{seconds:6.1f} s", flush=True)
        self.written += re.findall(r"^(?:wrote|removed) (.+)$", output, re.MULTILINE)
        if not passed:
            lines = re.sub(r"\x1b\[\d*m", "", output).strip().splitlines()
            above = [f"... and {len(lines) - SHOWN} lines above"] if len(lines) > SHOWN else []
            print(*(f"      {line}" for line in above + lines[-SHOWN:]), sep="\n", flush=True)
            self.failed[name] = cure
