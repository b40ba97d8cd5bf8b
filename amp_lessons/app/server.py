"""A Jupyter server as a child of ours: found, started, waited for and ended.

Each running server describes itself in a file in Jupyter's runtime folder: its address, its token
and the folder it serves. That file is how we learn where our own server listens, and whether one
runs in a folder already. (Jupyter's `list_running_servers` reads the same files, but importing it
takes two seconds, and it deletes the files of servers on other machines that share the home.)
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Self

from amp_lessons.core.errors import AmpLessonsError

EVERYWHERE = ("", "0.0.0.0", "::", "*")
TICK = 0.1
"""Seconds between two looks at the child."""
SLOW = 20.0
"""Seconds after which a start is called slow. It usually takes 3 to 10."""
LIMIT = 300.0
"""Seconds after which we no longer wait for it."""
GRACE = 8.0
"""Seconds to end cleanly. Jupyter gives a busy kernel five of them."""


class ServerError(AmpLessonsError):
    """Jupyter did not start, or ended by itself. The message says what its log ends with."""


# ---- the servers that run -----------------------------------------------------------------------


@dataclass(frozen=True)
class JupyterServer:
    """A running Jupyter server, as it describes itself.

    Attributes:
        url: where it listens, such as ``"http://localhost:8888/"``.
        token: what a browser has to show, or "" if there is none.
        root: the folder it serves.
        ip: the address it was told to listen on; see `EVERYWHERE`.
        page: a file that leads a browser to it without the token in any command line.
    """

    pid: int
    url: str
    token: str
    password: bool
    root: Path
    ip: str
    port: int
    page: Path

    @classmethod
    def from_file(cls, file: Path) -> Self:
        """Raises OSError, ValueError, KeyError or TypeError for a file that is no server's."""
        info = json.loads(file.read_text(encoding="utf-8"))
        ip = str(info["hostname"])
        parts = urllib.parse.urlsplit(info["url"])
        if ip in EVERYWHERE:  # the machine's own name may not lead anywhere, as in a container
            parts = parts._replace(netloc=f"localhost:{info['port']}")
        return cls(
            pid=int(info["pid"]),
            url=parts.geturl(),
            token=str(info["token"]),
            password=bool(info["password"]),
            root=Path(info["root_dir"]),
            ip=ip,
            port=int(info["port"]),
            page=file.with_name(f"{file.stem}-open.html"),
        )

    @property
    def address(self) -> str:
        """The address for a person. The server leads on from there to its first page."""
        query = urllib.parse.urlencode({"token": self.token}) if self.token else ""
        return f"{self.url}?{query}" if query else self.url

    def answers(self) -> bool:
        """Whether it is there, and is the one that its file describes: it knows the token."""
        try:
            with self._ask("api" if self.password else "api/status") as answer:
                return bool({"version", "started"} & set(json.load(answer)))
        except (OSError, ValueError, TypeError):
            return False

    def shut_down(self) -> None:
        """Ask it to end itself and its kernels, where no signal can say so. May raise OSError."""
        self._ask("api/shutdown", method="POST").close()

    def _ask(self, path: str, method: str = "GET") -> Any:
        import ssl

        trusting = ssl.create_default_context()  # its certificate is rarely signed for localhost
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusting)
        )
        headers = {"Authorization": f"token {self.token}"} if self.token else {}
        request = urllib.request.Request(self.url + path, method=method, headers=headers)
        return opener.open(request, timeout=5)


def described() -> Iterator[JupyterServer]:
    """The servers that have a file. Those that ended without cleaning up are among them."""
    from jupyter_core.paths import jupyter_runtime_dir

    for file in sorted(Path(jupyter_runtime_dir()).glob("jpserver-*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            yield JupyterServer.from_file(file)


def running_in(folder: Path) -> JupyterServer | None:
    """The server that serves this folder now, if there is one."""
    import psutil

    for server in described():
        with suppress(OSError):
            same = server.root.resolve() == folder.resolve()
            if same and psutil.pid_exists(server.pid) and server.answers():
                return server
    return None


# ---- a server of our own ------------------------------------------------------------------------


def serve(
    words: Sequence[str],
    environment: dict[str, str],
    log: Path,
    opened: Callable[[JupyterServer], object],
    slow: Callable[[], object],
) -> int:
    """Run a Jupyter server until it ends, or until this process is told to end.

    Args:
        words: the command.
        environment: its environment.
        log: where everything that it prints goes; a file that is there is replaced.
        opened: called once, when the server answers.
        slow: called once, when that takes unusually long.

    Returns:
        0 if the learner shut the server down, or if it only printed something and ended (then it's
        in the log, and ``opened`` was not called); else the number of the signal that we got.

    Raises:
        ServerError: if Jupyter fails.
        OSError: if the log cannot be written.
    """
    with Signals() as signals, _open_empty(log) as output:
        child = subprocess.Popen(
            list(words),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            **_a_session_of_its_own(),
        )
        server: JupyterServer | None = None
        try:
            server = _wait_until_it_answers(child, signals, log, slow)
            if server is not None:
                opened(server)
            while child.poll() is None and not signals.seen:
                time.sleep(TICK)
        finally:
            _end(child, signals, server)
    if signals.seen:
        return signals.seen
    if child.returncode:
        when = "ended by itself" if server else "did not start"
        raise ServerError(f"JupyterLab {when}: {last_words(log)}. Its log: {log}")
    return 0


def _wait_until_it_answers(
    child: subprocess.Popen[bytes], signals: Signals, log: Path, slow: Callable[[], object]
) -> JupyterServer | None:
    """None if the child ended or we were told to end."""
    started, told = time.monotonic(), False
    while child.poll() is None and not signals.seen:
        server = next((s for s in described() if s.pid in _family(child)), None)
        if server is not None and server.answers():
            return server
        waited = time.monotonic() - started
        if waited > LIMIT:
            raise ServerError(
                f"JupyterLab has not answered for {LIMIT / 60:.0f} minutes. The last line of its "
                f"log: {last_words(log)}. All of it: {log}"
            )
        if waited > SLOW and not told:
            told = True
            slow()
        time.sleep(TICK)
    return None


def _family(child: subprocess.Popen[bytes]) -> set[int]:
    """The child's process number; on Windows the server may be a child of it."""
    return {child.pid, *(process.pid for process in _below(child) if os.name == "nt")}


def _below(child: subprocess.Popen[bytes]) -> list[Any]:
    import psutil

    try:
        return psutil.Process(child.pid).children(recursive=True)
    except psutil.Error:
        return []


def _a_session_of_its_own() -> dict[str, Any]:
    """Ctrl+C in the terminal must reach us only: we end the server, and say so."""
    if os.name == "nt":
        return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
    return {"start_new_session": True, "preexec_fn": _ending_with_its_parent()}


def _ending_with_its_parent() -> Callable[[], None]:
    """For the child, before Jupyter: on Linux, be told to end if our process is killed.

    Other systems have nothing like it. There a server whose parent was killed with SIGKILL goes on
    until somebody ends it: File > Shut Down does.
    """
    import ctypes

    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    parent = os.getpid()

    def ask() -> None:
        if prctl is not None:
            prctl(1, int(signal.SIGTERM))  # PR_SET_PDEATHSIG
        if os.getppid() != parent:
            os._exit(1)

    return ask


def _end(child: subprocess.Popen[bytes], signals: Signals, server: JupyterServer | None) -> None:
    """End the server and its kernels: politely, then not. A second Ctrl+C hurries."""
    if child.poll() is not None:
        return
    kernels, calls = _below(child), signals.count
    if os.name == "nt" and server is not None:
        with suppress(OSError):
            server.shut_down()
    else:
        child.terminate()
    deadline = time.monotonic() + GRACE
    while child.poll() is None and time.monotonic() < deadline and signals.count == calls:
        time.sleep(TICK)
    if child.poll() is None:
        child.kill()
        child.wait()
        for kernel in kernels:
            with suppress(Exception):  # it has ended meanwhile, or is not ours to end
                kernel.kill()


class Signals:
    """Note Ctrl+C, SIGTERM and SIGHUP instead of dying of them, so that the server can be ended.

    What is ignored stays so: ``nohup amp-lessons lab &`` outlives its terminal.
    """

    def __init__(self) -> None:
        self.seen = 0
        self.count = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: FrameType | None) -> None:
        self.seen = self.seen or number
        self.count += 1


# ---- its log ------------------------------------------------------------------------------------


def _open_empty(log: Path) -> Any:
    """The log, empty, and for its owner only: it can hold the token."""
    with suppress(FileNotFoundError):
        log.unlink()
    return os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def last_words(log: Path) -> str:
    """The last line of a log that says what went wrong, without its date."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    lines = [line for line in lines if line.strip() and not line[0].isspace()]
    errors = [line for line in lines if re.match(r"\[[CE] |\w*(Error|Exception)\b", line)]
    last = (errors or lines or ["nothing at all"])[-1]
    return re.sub(r"^\[\w [\d:. -]+ \w+\] *", "", last).strip().rstrip(".")[:300]
