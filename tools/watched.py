"""Run a long command for somebody who waits: show what it does, and end it on Ctrl+C.

`tools/install.py` runs its steps with this. Like that file, it needs only the standard library, and
an old Python can read it.
"""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

TICK = 0.25  # seconds between two looks at the command
PLAIN_EVERY = 10.0  # seconds between two lines where there is no terminal


class Stopped(Exception):
    """Somebody pressed Ctrl+C, or ended this process. The argument is the signal's number."""


class Signals:
    """Note Ctrl+C and its relatives instead of dying at once, so that the child can be ended."""

    def __init__(self) -> None:
        self.seen = 0
        self.before = {}

    def __enter__(self) -> "Signals":
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) != signal.SIG_IGN:
                self.before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise `Stopped` if one of them has come."""
        if self.seen:
            raise Stopped(self.seen)

    def _note(self, number: int, _: object) -> None:
        self.seen = self.seen or number


class OneAtATime:
    """Two `make` at once in one checkout take turns. Needs no file of its own."""

    def __init__(self, root: Path, signals: Signals) -> None:
        self.root = root
        self.signals = signals
        self.handle = None

    def __enter__(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows
            return
        self.handle = os.open(str(self.root), os.O_RDONLY)
        output = False
        while True:
            self.signals.check()
            try:
                fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if not output:
                    say("Another make is installing the course here: waiting for it")
                output = True
                time.sleep(TICK)
            except OSError:  # a disk without locks
                return

    def __exit__(self, *_: object) -> None:
        if self.handle is not None:
            os.close(self.handle)


class Step:
    """One long command: its output is read line by line, its state is shown while it runs.

    Args:
        command: what to run.
        root: the folder to run it in.
        signals: end the command when one comes.
        log: an open file for all that it prints, or None.
        environment: what to set for it.
    """

    def __init__(
        self,
        command: list,
        root: Path,
        signals: Signals,
        log: object = None,
        environment: "dict | None" = None,
    ) -> None:
        self.command = [str(word) for word in command]
        self.root = root
        self.signals = signals
        self.log = log
        self.environment = environment or {}
        self.lines = []

    def run(self, tell: "object") -> int:
        """Run the command, showing `tell(its lines)` meanwhile; its exit status.

        Raises `Stopped`, and what `tell` raises. Neither leaves the command running.
        """
        self.signals.check()
        child = subprocess.Popen(
            self.command,
            cwd=str(self.root),
            env=dict(os.environ, PYTHONUNBUFFERED="1", **self.environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl+C comes to us, and we end the child
        )
        reader = threading.Thread(target=self._read, args=(child.stdout,), daemon=True)
        reader.start()
        line = StatusLine()
        try:
            while child.poll() is None:
                self.signals.check()
                line.show(tell(self.lines))
                time.sleep(TICK)
        finally:
            line.clear()
            end(child)
            reader.join(timeout=5)
        return child.returncode

    def _read(self, stream: object) -> None:
        for raw in stream:
            text = raw.decode("utf-8", errors="replace").rstrip()
            self.lines.append(text)
            try:
                if self.log is not None:
                    self.log.write(text + "\n")
                    self.log.flush()
            except OSError:  # the disk is full: the command will say so itself
                self.log = None


def end(child: "subprocess.Popen") -> None:
    """End a child and its children: on SIGINT pip and uv remove their temporary files."""
    steps = [(signal.SIGINT, 10)]
    if os.name == "posix":
        steps.append((signal.SIGKILL, 10))
    for number, patience in steps:
        if child.poll() is not None:
            return
        if os.name == "posix":
            os.killpg(child.pid, number)
        else:
            child.terminate()
        try:
            child.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            continue


class StatusLine:
    """How long it has taken, and what is going on: one line that changes, or a few plain ones."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.live = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.due = self.started + (0 if self.live else PLAIN_EVERY)

    def show(self, text: str) -> None:
        now = time.monotonic()
        if now < self.due:
            return
        line = f"  {minutes(now - self.started)}  {text}"
        if not self.live:
            say(line)
            self.due = now + PLAIN_EVERY
            return
        width = shutil.get_terminal_size().columns
        sys.stdout.write("\r\x1b[2K" + line[: max(width - 1, 1)])
        sys.stdout.flush()

    def clear(self) -> None:
        if self.live:
            sys.stdout.write("\r\x1b[2K")
            sys.stdout.flush()


def minutes(seconds: float) -> str:
    return "{}:{:02}".format(*divmod(int(seconds), 60))


def say(text: object) -> None:
    print(text, flush=True)
