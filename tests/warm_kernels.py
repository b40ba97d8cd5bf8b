"""Kernels that begin with torch imported: tests start some sixty, and each import takes seconds.

A server that has imported what most lessons need forks a process for each kernel (Python's own
`forkserver`). Nothing of the course is among it, so a lesson that forgets an import still fails.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

PRELOADED = ["torch", "matplotlib.pyplot", "ipywidgets", "anywidget", "sklearn.datasets"]
PRELOADED += ["ipykernel.kernelapp", "ipykernel.ipkernel"]
ROOT = Path(__file__).resolve().parent.parent
_server = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")


def start_warm(patch: pytest.MonkeyPatch) -> None:
    """Let jupyter_client start its kernels from the server, while `patch` holds: nbval's, or those
    of the JupyterLab whose process this is.

    The first kernel starts the server, which takes its environment from this process.
    """
    if sys.platform != "linux":  # elsewhere a fork isn't safe once torch is there
        return
    # What ipykernel sets before matplotlib is imported.
    patch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    patch.setattr("jupyter_client.provisioning.local_provisioner.launch_kernel", launch)
    _server.set_forkserver_preload(PRELOADED)


def launch(command: list[str], *, cwd: str, env: dict[str, str], **_: object) -> Forked:
    """Start a kernel: as `jupyter_client.launcher.launch_kernel`, which would start a Python."""
    arguments = command[command.index("ipykernel_launcher") + 1 :]
    ready, says_so = _server.Pipe(duplex=False)
    given = (arguments, cwd, env, says_so)
    process: Any = _server.Process(target=run_kernel, args=given)  # type: ignore[attr-defined]
    with mock.patch.dict(sys.modules, {"__main__": ModuleType("__main__")}):
        process.start()  # the process would else import the program that runs here
    says_so.close()
    with ready:
        ready.recv()  # before, its process group would still be ours, and be killed with it
    return Forked(process)


class Forked:
    """A forked process with those methods of `subprocess.Popen` that jupyter_client calls."""

    stdin = stdout = stderr = None

    def __init__(self, process: Any) -> None:
        self.process = process
        self.pid = process.pid

    def poll(self) -> int | None:
        return self.process.exitcode

    def wait(self, timeout: float | None = None) -> int | None:
        self.process.join(timeout)
        return self.poll()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def run_kernel(arguments: list[str], cwd: str, env: dict[str, str], ready: Any) -> None:
    """What a forked process does: be what ``python -m ipykernel_launcher`` would be."""
    from ipykernel import kernelapp

    os.setsid()
    with ready:
        ready.send(True)
    os.chdir(cwd)
    os.environ.clear()
    # A kernel ends when its parent does, and that's the server.
    os.environ.update(env, JPY_PARENT_PID=str(os.getppid()))
    silence = os.open(os.devnull, os.O_RDWR)
    for number in range(3):
        os.dup2(silence, number)
    sys.argv = ["ipykernel_launcher", *arguments]
    # pytest's own: the folders of the tests and tools, which no lesson may import from.
    own = {ROOT / "tests", ROOT / "tools"}
    sys.path[:] = [path for path in sys.path if not own & {Path(path), *Path(path).parents}]
    kernelapp.launch_new_instance()
