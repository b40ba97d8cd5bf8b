"""JupyterLab, started in a workspace with this Python, on the start page.

A port that is asked for is taken or refused, never silently replaced. What a learner adds after
``--`` goes to Jupyter as it is.
"""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from amp_lessons.workspace import START_PAGE

SETTINGS = Path(__file__).resolve().parent / "jupyter_config"


class LabError(Exception):
    """JupyterLab cannot be started. The message is one line with the cure."""


def command(
    folder: Path,
    *,
    browser: bool = True,
    port: int | None = None,
    ip: str | None = None,
    extra: Sequence[str] = (),
) -> list[str]:
    """The command that starts JupyterLab on the start page, with this Python.

    Raises:
        LabError: if JupyterLab is not installed.
    """
    if find_spec("jupyterlab") is None:
        raise LabError(
            f"JupyterLab is not installed for this Python: {sys.executable} -m pip install "
            "jupyterlab"
        )
    words = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder.resolve()}"]
    words.append(f"--LabApp.default_url=/lab/tree/{START_PAGE}")
    if not browser:
        words.append("--no-browser")
    if ip is not None:
        words.append(f"--ServerApp.ip={ip}")
    if port is not None:
        words += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    if as_root():
        words.append("--allow-root")
    return [*words, *extra]


def as_root() -> bool:
    """Whether this process belongs to root, for whom Jupyter wants to be asked twice."""
    return hasattr(os, "geteuid") and os.geteuid() == 0


def check_port(port: int, ip: str | None = None) -> None:
    """Raise `LabError` if a server cannot listen there."""
    host = ip or "localhost"
    name = None if host == "*" else host  # Jupyter's word for every address
    try:
        addresses = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise LabError(f"{host} is not an address of this machine: {error}") from error
    problems = [_cannot_listen(family, address) for family, *_, address in addresses]
    if any(problem == "in use" for problem in problems):
        raise LabError(
            f"port {port} is in use: name another one with --port, or none and Jupyter finds one"
        )
    if all(problems):
        what = f"port {port} on {host}" if port else host
        raise LabError(f"{what} cannot be used: {problems[0]}")


def _cannot_listen(family: int, address: Any) -> str:
    """Why a socket cannot be bound to this address: "" if it can."""
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        if os.name == "posix":  # on Windows this option would let two servers share a port
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            return "in use" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
    return ""


def environment() -> dict[str, str]:
    """The environment of JupyterLab: ours, and a settings folder that turns off its question
    about news and new versions. A learner who opens lesson one has enough to read."""
    paths = [str(SETTINGS), *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])]
    return os.environ | {"JUPYTER_CONFIG_PATH": os.pathsep.join(paths)}


def start(words: Sequence[str]) -> NoReturn:
    """Become JupyterLab. Where a process cannot be replaced, run it and leave with its status."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "posix":
        os.execve(words[0], list(words), environment())
    try:
        raise SystemExit(subprocess.call(list(words), env=environment()))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
