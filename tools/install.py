"""Make `.venv`, install the course into it, and show what is going on meanwhile.

The Makefile calls this before every `make lab` and `make test`. It runs before anything is
installed, so it needs only the standard library, and it is written so that an old Python can read
it and say that it is too old. What pip prints goes to a log file; the terminal gets one line per
step and a status line.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
FURTHER = ("python3.13", "python3.12", "python3.11", "python3.14")
EXTRAS = {"lab": "", "tests": "[tests]"}
# The package index has torchvision for CUDA only, and beside a CPU build of PyTorch no program can
# import it, nor timm, nor peft. This file, run at each start of Python, repairs that: a copy goes
# into the environment of the tests, with a .pth file that calls it. It does nothing where
# torchvision fits. A learner's environment has no torchvision, and gets neither.
VISION_OPS = "amp_lessons/doors/vision_ops.py"
AT_START = "import amp_lessons_vision_ops as ops; ops.declare_on_import()\n"
TICK = 0.25  # seconds between two looks at pip
PLAIN_EVERY = 10.0  # seconds between two lines where there is no terminal
MB = 10**6


class InstallError(Exception):
    """The course can't be installed. Each line of the message is for the learner."""


class Stopped(Exception):
    """Somebody pressed Ctrl+C, or ended this process. The argument is the signal's number."""


def main(arguments: "list[str] | None" = None) -> int:
    parser = argparse.ArgumentParser(description="Install AMP Lessons into a virtual environment.")
    parser.add_argument("what", choices=EXTRAS, nargs="?", default="lab")
    parser.add_argument("--venv", default=".venv", help="where to install, default: .venv")
    chosen = parser.parse_args(arguments)
    place = Place(ROOT, ROOT / chosen.venv)
    try:
        if not place.is_ready(chosen.what):
            install(place, chosen.what)
    except InstallError as error:
        say(error)
        return 1
    except (Stopped, KeyboardInterrupt) as stopped:
        say("Stopped. Run the same command again, and it goes on from here.")
        return 128 + (stopped.args or (signal.SIGINT,))[0]
    except OSError as error:
        say(f"Installing failed: {error.filename or place.venv}: {error.strerror}")
        say(f"What to do: {cure_for(str(error))}")
        return 1
    return 0


def install(place: "Place", what: str) -> None:
    """Bring the environment up to date. Raises `InstallError` or `Stopped`."""
    with Signals() as signals, OneAtATime(place.root, signals):
        if place.is_ready(what):  # another `make` has done it while we waited
            return
        reason = place.trouble()
        if reason is not None:
            make_environment(place, reason, signals)
        install_packages(place, what, signals)


# ---- the two steps ------------------------------------------------------------------------------


def make_environment(place: "Place", reason: str, signals: "Signals") -> None:
    """Run `python -m venv`, over whatever half of an environment may be there."""
    require_python()
    if reason:
        say(f"{reason}: making {place.venv.name} again")
    say(f"Making a Python environment in {place.venv.name} (usually 5 to 15 seconds)")
    place.venv.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "venv", "--clear", str(place.venv)]
    step = Step(command, place, signals, log=None)
    if step.run(lambda: f"making {place.venv.name}"):
        output = "\n".join(step.lines)
        place.log.write_text(output + "\n", encoding="utf-8")
        raise InstallError(failure("python -m venv", output, place))


def install_packages(place: "Place", what: str, signals: "Signals") -> None:
    """Let pip install the versions that the course was tested with."""
    say(place.announcement(what))
    if place.unfinished.exists():
        drop_half_installed(place.packages())
    place.unfinished.touch()
    shutil.rmtree(place.scratch, ignore_errors=True)
    place.scratch.mkdir()
    command = [str(place.python), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    command += ["install", "--progress-bar", "off", *place.requirements(what)]
    started = time.monotonic()
    try:
        with open(place.log, "w", encoding="utf-8", errors="replace") as log:
            step = Step(command, place, signals, log)
            watch = PipWatch(place, step)
            failed = step.run(watch.now)
    finally:
        shutil.rmtree(place.scratch, ignore_errors=True)
    if failed:
        raise InstallError(failure("pip", "\n".join(step.lines), place))
    if what == "tests":
        place.repair_torchvision()
    place.note_ready(what)
    place.unfinished.unlink()
    say(f"Installed in {minutes(time.monotonic() - started)}.")


def drop_half_installed(packages: Path) -> None:
    """Forget the packages that an interrupted pip left half installed, so that pip installs
    them again.

    pip lists the file INSTALLER in a package's RECORD when everything else is in place.
    """
    for leftover in packages.glob("~*"):
        shutil.rmtree(leftover, ignore_errors=True)
    for info in packages.glob("*.dist-info"):
        try:
            complete = "/INSTALLER," in (info / "RECORD").read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            complete = False
        if not complete:
            shutil.rmtree(info)


def require_python() -> None:
    if sys.version_info >= OLDEST:
        return
    newer = next((name for name in FURTHER if shutil.which(name)), None)
    cure = "make lab PYTHON={}".format(newer or "/path/to/a/newer/python")
    raise InstallError(
        "AMP Lessons needs Python {}.{} or newer, and this is {}.{}: {}".format(
            *OLDEST, *sys.version_info[:2], cure
        )
    )


# ---- where it is installed ----------------------------------------------------------------------


class Place:
    """The checkout and its virtual environment, and whether they fit together."""

    def __init__(self, root: Path, venv: Path) -> None:
        self.root = root
        self.venv = venv
        self.bin = venv / ("Scripts" if os.name == "nt" else "bin")
        self.python = self.bin / ("python.exe" if os.name == "nt" else "python")
        self.log = venv / "install.log"
        self.unfinished = venv / ".unfinished"
        self.scratch = venv / "tmp"

    def packages(self) -> Path:
        """The folder `site-packages`."""
        pattern = "Lib/site-packages" if os.name == "nt" else "lib/python*/site-packages"
        found = sorted(self.venv.glob(pattern))
        return found[-1] if found else self.venv / "none"

    def is_ready(self, what: str) -> bool:
        """Whether there is nothing to do. Takes milliseconds: `make lab` asks every time."""
        if what == "tests" and not self.torchvision_is_repaired():
            return False
        return self._stamp(what) == self._wanted() and self.python.exists()

    def repair_torchvision(self) -> None:
        """See `VISION_OPS`."""
        shutil.copyfile(str(self.root / VISION_OPS), str(self._vision_ops()))
        self._vision_ops().with_suffix(".pth").write_text(AT_START, encoding="utf-8")

    def torchvision_is_repaired(self) -> bool:
        """Whether `repair_torchvision` was run, and with this version of the file."""
        try:
            same = self._vision_ops().read_bytes() == (self.root / VISION_OPS).read_bytes()
        except OSError:
            return False
        return same and self._vision_ops().with_suffix(".pth").exists()

    def _vision_ops(self) -> Path:
        return self.packages() / "amp_lessons_vision_ops.py"

    def note_ready(self, what: str) -> None:
        for covered in {"lab", what}:  # what the tests need includes what the course needs
            text = json.dumps(self._wanted(), indent=1)
            (self.venv / ("." + covered)).write_text(text + "\n", encoding="utf-8")

    def requirements(self, what: str) -> "list[str]":
        """What pip is told to install."""
        return ["--constraint", "constraints.txt", "--editable", "." + EXTRAS[what]]

    def announcement(self, what: str) -> str:
        """What pip will do, and how long that takes."""
        if not self._stamp("lab"):
            return (
                "Installing PyTorch, JupyterLab and what they need (usually 1 to 3 minutes;\n"
                "PyTorch alone is about 200 MB, and several GB where pip picks its CUDA build)"
            )
        if self.is_ready("lab"):
            return "Installing what the tests need too (usually 1 to 2 minutes)"
        return "Bringing the installed packages up to date (usually less than a minute)"

    def trouble(self) -> "str | None":
        """Why the environment has to be made: "" if there is none yet, None if it's fine."""
        if not self.venv.exists():
            return ""
        stamp = self._stamp("lab")
        if stamp and stamp.get("folder") != str(self.venv):
            return "This folder has moved"
        if stamp and stamp.get("python") != os.path.realpath(str(self.python)):
            return f"The Python of {self.venv.name} has changed"
        if not any(self.venv.iterdir()):
            return ""
        try:
            asked = f"import sys, pip; sys.exit(sys.version_info < {OLDEST!r})"
            command = [str(self.python), "-c", asked]
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        except OSError:
            return f"{self.venv.name} has no Python that runs"
        return f"{self.venv.name} is not complete" if done.returncode else None

    def _stamp(self, what: str) -> "dict":
        """What was installed here, as `note_ready` wrote it down."""
        try:
            data = json.loads((self.venv / ("." + what)).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return data if isinstance(data, dict) else {}

    def _wanted(self) -> "dict":
        digest = hashlib.sha256()
        for name in ("pyproject.toml", "constraints.txt"):
            digest.update((self.root / name).read_bytes())
        python = os.path.realpath(str(self.python))
        return {"folder": str(self.venv), "python": python, "packages": digest.hexdigest()}


class OneAtATime:
    """Two `make` at once in one checkout take turns. Needs no file of its own."""

    def __init__(self, root: Path, signals: "Signals") -> None:
        self.root = root
        self.signals = signals
        self.handle = None

    def __enter__(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows
            return
        self.handle = os.open(str(self.root), os.O_RDONLY)
        told = False
        while True:
            self.signals.check()
            try:
                fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if not told:
                    say("Another make is installing the course here: waiting for it")
                told = True
                time.sleep(TICK)
            except OSError:  # a disk without locks
                return

    def __exit__(self, *_: object) -> None:
        if self.handle is not None:
            os.close(self.handle)


# ---- a child that is watched --------------------------------------------------------------------


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


class Step:
    """One long command: its output is read line by line, its state is shown while it runs."""

    def __init__(self, command: list, place: Place, signals: Signals, log: object) -> None:
        self.command = command
        self.place = place
        self.signals = signals
        self.log = log
        self.lines = []

    def run(self, tell: "object") -> int:
        """Run the command, showing `tell()` meanwhile; its exit status. Raises `Stopped`."""
        self.signals.check()
        environment = dict(os.environ, PYTHONUNBUFFERED="1")
        if self.place.scratch.exists():  # a small /tmp would not hold PyTorch's CUDA build
            environment["TMPDIR"] = str(self.place.scratch)
        child = subprocess.Popen(
            self.command,
            cwd=str(self.place.root),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # Ctrl+C comes to us, and we end pip
        )
        reader = threading.Thread(target=self._read, args=(child.stdout,), daemon=True)
        reader.start()
        line = StatusLine()
        try:
            while child.poll() is None:
                self.signals.check()
                line.show(tell())
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
            if self.log is not None:
                self.log.write(text + "\n")
                self.log.flush()


def end(child: "subprocess.Popen") -> None:
    """End a child and its children: on SIGINT pip removes its temporary files."""
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


class PipWatch:
    """What pip is doing now, read from its output and from the files that it makes."""

    def __init__(self, place: Place, step: Step) -> None:
        self.place = place
        self.step = step
        self.read = 0
        self.text = "starting pip"
        self.size = 0.0
        self.count = 0
        self.before = 0

    def now(self) -> str:
        for line in self.step.lines[self.read :]:
            self.read += 1
            self._understand(line)
        if self.count:
            done = min(max(self._installed() - self.before, 0), self.count)
            return f"installing {self.count} packages ({done} done)"
        if self.size >= 5:
            return f"{self.text} ({min(self._arrived() / MB, self.size):.0f} of {self.size:.0f} MB)"
        return self.text

    def _understand(self, line: str) -> None:
        download = re.match(r"\s*Downloading (\S+) \(([\d.]+) (\w+)\)", line)
        if download:
            units = {"kB": 1e-3, "MB": 1.0, "GB": 1e3}
            self.size = float(download.group(2)) * units.get(download.group(3), 0.0)
            self.text = f"downloading {package(download.group(1))}"
            return
        for pattern, text in PIP_SAYS:
            found = re.match(pattern, line)
            if found:
                self.size = 0.0
                self.text = text.format(*map(package, found.groups()))
        packages = re.match(r"Installing collected packages: (.*)", line)
        if packages:
            self.count = packages.group(1).count(",") + 1
            self.before = self._installed()

    def _installed(self) -> int:
        return sum(1 for _ in self.place.packages().glob("*.dist-info"))

    def _arrived(self) -> int:
        """Bytes of the file that is being downloaded."""
        sizes = [0]
        for path in self.place.scratch.glob("pip-*/*"):
            try:
                sizes.append(path.stat().st_size)
            except OSError:  # pip has just moved it
                continue
        return max(sizes)


PIP_SAYS = (
    (r"Obtaining file", "reading what the course needs"),
    (r"\s*Collecting ([\w.-]+)", "looking for {}"),
    (r"\s*Using cached (\S+)", "taking {} from pip's cache"),
    (r"\s*Processing (\S+\.whl)", "taking {} from this machine"),
    (r"Building wheels? for collected packages: (\S+?),?$", "building {}"),
)


def package(file: str) -> str:
    """A short name for a file: `torch-2.13.0` for `https://…/torch-2.13.0-cp311-….whl`."""
    name = file.rsplit("/", 1)[-1]
    return "-".join(name.split("-")[:2]) if name.endswith((".whl", ".metadata")) else name


# ---- when it fails ------------------------------------------------------------------------------

CURES = (
    (
        r"No space left|Errno 28|Disk quota",
        "make room on this disk (3 GB, or 9 GB with PyTorch's CUDA build), then run it again",
    ),
    (
        r"ensurepip is not|No module named '?(venv|ensurepip)",
        "install Python's venv module (Debian and Ubuntu: apt install python3-venv), "
        "then run it again",
    ),
    (
        r"NewConnectionError|NameResolutionError|Temporary failure in name resolution|"
        r"ConnectTimeout|ConnectionResetError|ReadTimeout|ProxyError|SSLError|"
        r"Connection aborted|IncompleteRead|Network is unreachable|Connection refused",
        "check the network connection (and the proxy, if you need one), then run it again",
    ),
    (r"HASH|hash", "a download was damaged: run it again"),
    (
        r"Permission denied|Errno 13|Read-only file system|Operation not permitted",
        "this folder can't be written: copy the course to one that is yours, or fix its owner",
    ),
    (
        r"No matching distribution|from versions:|requires a different Python",
        "PyTorch may have no build for this Python: remove .venv and name another Python, "
        "as in make lab PYTHON=python3.12",
    ),
)


def cure_for(output: str) -> str:
    """The likely cure, by what the log says."""
    found = (cure for pattern, cure in CURES if re.search(pattern, output))
    return next(found, "run it again; if it fails again, the log says more")


def failure(program: str, output: str, place: Place) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(?i)error: (?!ResolutionImpossible)", line)]
    last = (errors or lines or ["it said nothing"])[-1]
    return "\n".join(
        (
            "{} failed: {}".format(program, re.sub(r"(?i)^error:\s*", "", last)),
            f"What to do: {cure_for(output)}",
            f"Its whole output: {os.path.relpath(str(place.log))}",
        )
    )


def minutes(seconds: float) -> str:
    return "{}:{:02}".format(*divmod(int(seconds), 60))


def say(text: object) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
