"""Make `.venv`, install the course into it, and show what is going on meanwhile.

The Makefile calls this before every `make lab` and `make test`. It runs before anything is
installed, so it needs only the standard library, and it is written so that an old Python can read
it and say that it is too old. uv installs, and pip takes over if uv fails. What they print goes to
a log file; the terminal gets one line per step and a status line.
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
import time
from pathlib import Path

import uv_or_pip
from uv_or_pip import CUDA_SIZE, InstallError, ToolError, drop_half_installed, why
from watched import OneAtATime, Signals, Step, Stopped, minutes, say

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
FURTHER = ("python3.13", "python3.12", "python3.11", "python3.14")
# From the least to the most: what is installed for one covers those before it.
EXTRAS = {"lab": "[course]", "authors": "[authors]", "tests": "[tests]"}
# The package index has torchvision for CUDA only, and beside a CPU build of PyTorch no program can
# import it, nor timm, nor peft. This file, run at each start of Python, repairs that: a copy goes
# into the environment of the tests, with a .pth file that calls it. It does nothing where
# torchvision fits. A learner's environment has no torchvision, and gets neither.
VISION_OPS = "amp_lessons/amp/loading/vision_ops.py"
AT_START = "import amp_lessons_vision_ops as ops; ops.declare_on_import()\n"
# PyTorch's build is chosen by the variable PYTORCH, as in `make lab PYTORCH=cuda`. Without it, the
# CPU build is installed, also on a machine with a GPU: gigabytes come only when somebody asks.
BUILDS = {"cpu": "CPU", "cuda": "CUDA"}


def main(arguments: "list[str] | None" = None) -> int:
    parser = argparse.ArgumentParser(description="Install AMP Lessons into a virtual environment.")
    parser.add_argument("what", choices=EXTRAS, nargs="?", default="lab")
    parser.add_argument("--venv", default=".venv", help="where to install, default: .venv")
    chosen = parser.parse_args(arguments)
    place = Place(ROOT, ROOT / chosen.venv)
    try:
        place.choose_build(os.environ.get("PYTORCH", ""))
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
    """Run `python -m venv`, over whatever half of an environment may be there. uv brings pip."""
    require_python()
    if reason:
        say(f"{reason}: making {place.venv.name} again")
    say(f"Making a Python environment in {place.venv.name}")
    place.venv.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "venv", "--without-pip", "--clear", str(place.venv)]
    step = Step(command, place.root, signals)
    if step.run(lambda _: f"making {place.venv.name}"):
        output = "\n".join(step.lines)
        place.log.write_text(output + "\n", encoding="utf-8")
        raise InstallError(failure("python -m venv", output, place))


def install_packages(place: "Place", what: str, signals: "Signals") -> None:
    """Install the versions that the course was tested with: by uv, or else by pip."""
    say(place.announcement(what))
    if place.unfinished.exists():
        drop_half_installed(place.packages())
    place.unfinished.write_text(place.build, encoding="utf-8")
    shutil.rmtree(place.scratch, ignore_errors=True)
    place.scratch.mkdir()
    started = time.monotonic()
    try:
        with open(place.log, "w", encoding="utf-8", errors="replace") as log:
            uv_or_pip.install(place, what, signals, log)
    except ToolError as error:
        raise InstallError(failure("pip", "\n".join(error.lines), place)) from None
    finally:
        shutil.rmtree(place.scratch, ignore_errors=True)
    if what == "tests":
        place.repair_torchvision()
    place.note_ready(what)
    place.unfinished.unlink()
    say(f"Installed in {minutes(time.monotonic() - started)}.")


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

    build = "any"  # PyTorch's: a key of BUILDS, or whichever comes
    asked = False  # whether somebody has chosen it now

    def __init__(self, root: Path, venv: Path) -> None:
        self.root = root
        self.venv = venv
        self.bin = venv / ("Scripts" if os.name == "nt" else "bin")
        self.python = self.bin / ("python.exe" if os.name == "nt" else "python")
        self.log = venv / "install.log"
        self.unfinished = venv / ".unfinished"
        self.scratch = venv / "tmp"

    def choose_build(self, word: str) -> None:
        """Take PyTorch's build that was asked for, or else the one that was chosen before."""
        if word not in ("", *BUILDS):
            raise InstallError(f"PYTORCH={word} is neither cpu nor cuda")
        if word == "cuda" and sys.platform != "linux":
            raise InstallError(
                "PYTORCH=cuda is for Linux. Install the course without it. On Windows, you can\n"
                f"then install PyTorch's CUDA build into {self.venv.name}: see pytorch.org."
            )
        self.build = word or self._chosen() or "cpu"
        self.asked = bool(word)

    def _chosen(self) -> "str | None":
        """The build that is in this environment, or on its way there."""
        try:
            build = self.unfinished.read_text(encoding="utf-8")
        except OSError:
            build = self._stamp("lab").get("build")
        return build if build in BUILDS else None

    def uv(self) -> "str | None":
        """uv: this environment's own, or else the one that this machine has."""
        own = self.bin / ("uv.exe" if os.name == "nt" else "uv")
        return str(own) if own.exists() else os.environ.get("UV") or shutil.which("uv")

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
        every = list(EXTRAS)
        for covered in every[: every.index(what) + 1]:
            text = json.dumps(self._wanted(), indent=1)
            (self.venv / ("." + covered)).write_text(text + "\n", encoding="utf-8")

    def requirements(self, what: str) -> "list[str]":
        """What uv or pip is told to install."""
        wanted = ["--constraint", "constraints.txt", "--editable", "." + EXTRAS[what]]
        if self.build == "cuda":  # "===": 2.13.0+cpu, which "==" would take, is another build
            pins = (self.root / "constraints.txt").read_text(encoding="utf-8")
            wanted.append("torch===" + re.search(r"^torch==(\S+)", pins, re.MULTILINE).group(1))
        return wanted

    def announcement(self, what: str) -> str:
        """What is installed, and how long that takes."""
        if self.is_ready("lab"):
            return "Installing what the tests need too (usually less than a minute)"
        if self._stamp("lab"):
            return "Bringing the installed packages up to date (usually less than a minute)"
        if self.build == "cuda":
            return (
                "Installing PyTorch's CUDA build, JupyterLab and what they need\n"
                f"(usually 2 to 10 minutes; {CUDA_SIZE})"
            )
        return (
            "Installing PyTorch, JupyterLab and what they need (usually less than a minute;\n"
            "PyTorch's CPU build alone is about 200 MB)" + self._gpu()
        )

    def _gpu(self) -> str:
        """What to say on a machine with an NVIDIA GPU, if nobody has chosen a build."""
        if self.asked or not (os.path.exists("/proc/driver/nvidia") or shutil.which("nvidia-smi")):
            return ""
        return (
            "\nThis machine has an NVIDIA GPU. PyTorch's CUDA build is "
            f"{CUDA_SIZE}.\nIf you want it, press Ctrl+C and run: make lab PYTORCH=cuda"
        )

    def trouble(self) -> "str | None":
        """Why the environment has to be made: "" if there is none yet, None if it's fine."""
        if not self.venv.exists():
            return ""
        stamp = self._stamp("lab")
        if stamp and stamp.get("folder") != str(self.venv):
            return "This folder has moved"
        if stamp and stamp.get("python") != os.path.realpath(str(self.python)):
            return f"The Python of {self.venv.name} has changed"
        if self.build in BUILDS and self._chosen() not in (None, self.build):
            return f"PyTorch's {BUILDS[self.build]} build was asked for"
        if not any(self.venv.iterdir()):
            return ""
        try:
            asked = f"import sys; sys.exit(sys.version_info < {OLDEST!r})"
            command = [str(self.python), "-c", asked]
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        except OSError:
            return f"{self.venv.name} has no Python that runs"
        return f"{self.venv.name} is broken, or too old" if done.returncode else None

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
        return {
            "folder": str(self.venv),
            "python": python,
            "packages": digest.hexdigest(),
            "build": self.build,
        }


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
    return "\n".join(
        (
            f"{program} failed: {why(output.splitlines())}",
            f"What to do: {cure_for(output)}",
            f"Its whole output: {os.path.relpath(str(place.log))}",
        )
    )


if __name__ == "__main__":
    sys.exit(main())
