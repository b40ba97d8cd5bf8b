"""Start torchrun from a notebook or a test, and never wait for ever.

`launch` starts torchrun from `agent`, in this Python, which works where the command is not on the
PATH, and which ends the ranks if this process is killed. They meet at a port that torchrun picks
itself (``127.0.0.1:0``), so two launches do not disturb each other. It imports no torch: the ranks
do. For a job on real machines call torchrun yourself; the docstring of `train` has the commands.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

import amp_lessons
from amp_lessons.core.errors import AmpLessonsError

PACKAGE_ROOT = Path(amp_lessons.__file__).resolve().parent.parent
_REPORT = "amp-lessons-report "
_SIGKILL = 9  # Windows has no name for it
_ROOT_CAUSE = re.compile(r"Root Cause.*?rank\s+: (\d+).*?exitcode\s+: (-?\d+)", re.DOTALL)


class LaunchError(AmpLessonsError, RuntimeError):
    """The ranks did not all come to their end. The message says which one, why, and what to do."""


@dataclass(frozen=True)
class Rank:
    """What one rank left behind.

    Attributes:
        number: its rank, from 0.
        output: what it printed to standard output, the reports left out.
        errors: what it printed to standard error.
        reports: what it handed to `report`, by name.
    """

    number: int
    output: str
    errors: str
    reports: dict[str, Any] = field(default_factory=dict)

    @property
    def last_words(self) -> str:
        """The last line that it printed, errors before output; "" if it printed nothing."""
        lines = [*self.output.splitlines(), *self.errors.splitlines()]
        return next((line.strip() for line in reversed(lines) if line.strip()), "")


def report(name: str, value: Any) -> None:
    """Called by a rank: hand a value that JSON can hold to the caller of `launch`."""
    print(_REPORT + json.dumps([name, value]), flush=True)


def launch(script: str | Path, *args: str, ranks: int = 2, timeout: float = 120.0) -> list[Rank]:
    """Run a script on several processes of this machine, as torchrun does.

    Args:
        script: a module (``"amp_lessons.amp.distributed.train"``) or the path of a file that ends
            in ``.py``.
        args: its command line.
        ranks: processes to start, at least 1.
        timeout: seconds until all of them are ended.

    Returns:
        One `Rank` each, in order.

    Raises:
        LaunchError: if torchrun is missing, a rank fails or is killed, or the time is over. No
            process of the launch outlives the call.
        ValueError: if an argument makes no sense, or there is no such file.
    """
    if type(ranks) is not int or ranks < 1:
        raise ValueError(f"ranks must be positive and whole, got {ranks!r}")
    if not isinstance(timeout, int | float) or not 0 < timeout < threading.TIMEOUT_MAX:
        raise ValueError(f"timeout must be positive seconds, got {timeout!r}")
    if not isinstance(script, str | Path) or not _looks_like_a_script(str(script)):
        raise ValueError(
            f"there is no script {script!r}: give a file that ends in .py, or a module"
        )
    if not all(isinstance(arg, str) and "\0" not in arg for arg in args):
        raise ValueError(f"what follows the script must be text, as on a command line, got {args}")
    if not _has_torchrun():
        raise LaunchError(
            "this Python has no torch.distributed.run (torchrun): install torch in it, "
            f"a build with torch.distributed ({sys.executable})"
        )
    with tempfile.TemporaryDirectory(prefix="amp-lessons-ranks-") as folder:
        watched, held = os.pipe()  # while this process holds its end, `agent` knows that it lives
        process = subprocess.Popen(
            _command(script, args, ranks, folder),
            env=_environment(),
            stdin=watched,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,  # a signal to this process's group is not for the ranks
        )
        os.close(watched)
        try:
            _, log = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            _end(process)
            begun = any(Path(folder).glob("*/attempt_0/*"))
            found = _collect(folder, ranks) if begun else []
            raise LaunchError(_too_long(found, timeout)) from None
        finally:
            _end(process)
            os.close(held)
        found = _collect(folder, ranks)
    if process.returncode:
        raise LaunchError(_failed(found, log))
    return found


def _looks_like_a_script(name: str) -> bool:
    if name.endswith(".py"):
        return Path(name).is_file()
    return all(part.isidentifier() for part in name.split("."))


def _has_torchrun() -> bool:
    try:
        return importlib.util.find_spec("torch.distributed.run") is not None
    except ImportError:
        return False


def _command(script: str | Path, args: tuple[str, ...], ranks: int, folder: str) -> list[str]:
    target = [str(script)] if str(script).endswith(".py") else ["-m", str(script)]
    return [
        *(sys.executable, "-m", "amp_lessons.amp.distributed.agent"),
        *("--nnodes", "1", "--nproc-per-node", str(ranks)),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0", "--local-addr", "127.0.0.1"),
        *("--log-dir", folder, "--redirects", "3"),
        *target,
        *args,
    ]


def _environment() -> dict[str, str]:
    """This process's, with one thread a rank, and this course to import."""
    paths = [str(PACKAGE_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    own = {"PYTHONPATH": os.pathsep.join(paths), "PYTHONIOENCODING": "utf-8"}
    return {"OMP_NUM_THREADS": "1"} | dict(os.environ) | own


def _end(process: subprocess.Popen[str]) -> None:
    """End torchrun and its ranks, which may sit in sessions of their own."""
    if process.poll() is not None:
        return
    with suppress(psutil.Error):
        family = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for member in family:
            with suppress(psutil.Error):
                member.kill()
    process.kill()
    process.communicate()


def _collect(folder: str, ranks: int) -> list[Rank]:
    return [_rank(number, Path(folder)) for number in range(ranks)]


def _rank(number: int, folder: Path) -> Rank:
    """Read what torchrun has put in its log folder for a rank."""
    text = {"stdout": "", "stderr": ""}
    for stream in text:
        for path in folder.glob(f"*/attempt_0/{number}/{stream}.log"):
            text[stream] = path.read_text(encoding="utf-8", errors="replace")
    output, reports = [], {}
    for line in text["stdout"].splitlines():
        if line.startswith(_REPORT):
            with suppress(ValueError, TypeError):  # the last line of a rank that was killed
                name, value = json.loads(line.removeprefix(_REPORT))
                reports[name] = value
        else:
            output.append(line)
    return Rank(number, "\n".join(output), text["stderr"], reports)


def _too_long(ranks: list[Rank], timeout: float) -> str:
    """What to say when the time is over; no ranks if torchrun had not started any."""
    if not ranks:
        return (
            f"torchrun had started no rank after {timeout:g} s. It needs the address 127.0.0.1, "
            "which a sandbox may lack; on a slow machine pass a longer timeout"
        )
    words = "; ".join(f"rank {r.number}: {r.last_words or 'printed nothing'}" for r in ranks)
    return (
        f"the ranks were not done after {timeout:g} s and have been ended. Often one waits for a "
        "collective that another never calls; on a slow or busy machine pass a longer timeout. "
        f"Their last lines: {words}"
    )


def _failed(ranks: list[Rank], log: str) -> str:
    """Name the rank that failed first; torchrun ends the others, so theirs is no news."""
    cause = _ROOT_CAUSE.search(log)
    if cause is None:
        lines = [line for line in log.splitlines() if line.strip()]
        return f"torchrun failed before the ranks ran: {lines[-1] if lines else 'no message'}"
    number, code = int(cause[1]), int(cause[2])
    how = f"ended with exit status {code}" if code >= 0 else f"was killed by {_signal(-code)}"
    if code == -_SIGKILL:
        how += ", as when memory runs out"
    words = next((r.last_words for r in ranks if r.number == number), "")
    return f"rank {number} {how}" + (f": {words}" if words else "")


def _signal(number: int) -> str:
    with suppress(ValueError):
        return signal.Signals(number).name
    return f"signal {number}"
