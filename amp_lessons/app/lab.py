"""JupyterLab, started in a workspace with this Python, on the start page.

A port that is asked for is taken or refused, never silently replaced. What a learner adds after
``--`` goes to Jupyter as it is. The terminal gets the address and little else; the rest goes to a
log. `server` runs the process.
"""

from __future__ import annotations

import errno
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from amp_lessons.app import server, set_up
from amp_lessons.app.workspace import START_PAGE
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.files import data_folder
from amp_lessons.core.terminal import say

HERE = Path(__file__).resolve().parent
SETTINGS = HERE / "jupyter_config"
FOR_LEARNERS = HERE / "jupyter_config_learner"
"""Settings that leave out nbgrader's menus, which only an instructor needs."""
EXTENSIONS = HERE / "labextensions"
"""Our extension of JupyterLab: it runs the home page when it opens, and marks the cells to edit."""
LOG = ".jupyter.log"


class LabError(AmpLessonsError):
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
        raise LabError(f"JupyterLab is not installed for this Python: {set_up.cure()}")
    words = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder.resolve()}"]
    words.append(f"--LabApp.default_url=/lab/tree/{START_PAGE}")
    words.append(f"--LabApp.extra_labextensions_path={EXTENSIONS}")
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


def settings(*, nbgrader: bool = False) -> str:
    """Our settings folders, as JUPYTER_CONFIG_PATH wants them, with nbgrader's menus or without.

    They also turn off JupyterLab's question about news and new versions: a learner who opens the
    course has enough to read.
    """
    return os.pathsep.join(map(str, [SETTINGS] if nbgrader else [SETTINGS, FOR_LEARNERS]))


def environment(*, nbgrader: bool = False) -> dict[str, str]:
    """The environment of JupyterLab: ours, our settings, and a token.

    A token of 22 characters (128 random bits) keeps the address on one line of the terminal;
    Jupyter's own has 48.
    """
    paths = [settings(nbgrader=nbgrader), *filter(None, [os.environ.get("JUPYTER_CONFIG_PATH")])]
    ours = {"JUPYTER_CONFIG_PATH": os.pathsep.join(paths)}
    if not {"JUPYTER_TOKEN", "JUPYTER_TOKEN_FILE"} & set(os.environ):
        ours["JUPYTER_TOKEN"] = secrets.token_urlsafe(16)
    return os.environ | ours


def start(words: Sequence[str], folder: Path, *, nbgrader: bool = False) -> int:
    """Run JupyterLab until it is ended, and tell the learner where it is; the exit status.

    Ctrl+C is the way to stop it, so it counts as success.

    Raises:
        LabError: if it cannot be started, or ends by itself with an error.
    """
    log = _log_file(folder)
    opened: list[server.JupyterServer] = []

    def tell(running: server.JupyterServer) -> None:
        opened.append(running)
        say(f"AMP Lessons is open at {running.address}")
        say(f"Stop it with Ctrl+C. Jupyter's log: {_short(log)}")

    def tell_slow() -> None:
        say(f"It is taking longer than usual, still waiting. Jupyter's log: {_short(log)}")

    say("Starting JupyterLab (usually 3 to 10 seconds)")
    try:
        number = server.serve(words, environment(nbgrader=nbgrader), log, tell, tell_slow)
    except server.ServerError as error:
        raise LabError(str(error)) from error
    except OSError as error:
        raise LabError(f"JupyterLab cannot be started: {error}") from error
    with suppress(OSError):  # the terminal may be gone
        if number:
            after_ctrl_c = "\n" if sys.stdout.isatty() else ""
            sys.stdout.write(after_ctrl_c)
            say("JupyterLab has stopped. The same command opens the course again.")
        elif opened:
            say("JupyterLab was shut down. The same command opens the course again.")
        else:  # such as after `-- --help`
            sys.stdout.write(log.read_text(encoding="utf-8", errors="replace"))
            sys.stdout.flush()
    return 128 + number if number not in (0, signal.SIGINT) else 0


def join(
    running: server.JupyterServer,
    *,
    browser: bool,
    port: int | None,
    ip: str | None,
    extra: Sequence[str],
) -> subprocess.Popen[bytes] | None:
    """Lead the learner to the JupyterLab that serves the workspace already.

    Returns:
        The process that opens the browser, if one was started.

    Raises:
        LabError: if it was asked to run in another way than it does.
    """
    other_port = port not in (None, 0, running.port)
    if other_port or ip not in (None, running.ip) or extra:
        raise LabError(
            "it's already running with other settings. Stop that one first, with Ctrl+C, or go "
            f"there: {running.address}"
        )
    say(f"It's already open at {running.address}")
    say("Stop it with Ctrl+C where it was started.")
    return _open_browser(running) if browser else None


def _open_browser(running: server.JupyterServer) -> subprocess.Popen[bytes] | None:
    """Open the page that Jupyter made for this. A browser may print, and a text browser would
    take the terminal, so it runs apart."""
    address = running.page.as_uri() if running.page.is_file() else running.address
    nothing = subprocess.DEVNULL
    with suppress(OSError):
        return subprocess.Popen(
            [sys.executable, "-m", "webbrowser", address],
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            start_new_session=True,
        )
    return None


def _log_file(folder: Path) -> Path:
    """Where Jupyter's log goes: into the workspace, else beside the learner's progress.

    Raises:
        LabError: if neither can be written.
    """
    places = (folder / LOG, data_folder() / LOG)
    for log in places:
        with suppress(OSError):
            log.parent.mkdir(parents=True, exist_ok=True)
            if log.exists():
                log.unlink()
            log.touch(mode=0o600)
            return log
    raise LabError(
        f"no log can be written, neither {places[0]} nor {places[1]}: make one of these folders "
        "writable, or set AMP_LESSONS_HOME to a folder that is"
    )


def _short(path: Path) -> str:
    """The path from the current folder, if it lies below."""
    with suppress(ValueError, OSError):
        return str(path.resolve().relative_to(Path.cwd().resolve()))
    return str(path)
