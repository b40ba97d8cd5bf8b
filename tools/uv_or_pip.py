"""Install packages with uv, or with pip if uv fails.

uv takes a fraction of pip's time. It doesn't read pip's settings, so it is told them here: the
indexes, folders with wheels, the proxy and certificates that hold on this machine. Like
`tools/install.py`, which calls this, it needs only the standard library, and an old Python can read
it.
"""

import ast
import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from watched import Signals, Step, say

if TYPE_CHECKING:
    from install import Place

CUDA_SIZE = "3 GB to download and 7 GB of disk"
CUDA_ONLY = (
    "Only PyTorch's CUDA build can be reached from here. That is " + CUDA_SIZE + ".\n"
    "If you want it: make lab PYTORCH=cuda"
)
# What uv, and then pip, say when packages for CUDA are on their way.
CUDA_COMES = r" \+ nvidia-|\s*(Collecting|Downloading) (\S*/)?nvidia[-_]"
INSTALL = ["--disable-pip-version-check", "--no-input", "install", "--progress-bar", "off"]
# What `make lab` imports until the end of a first lesson, in two processes at once.
FIRST_IMPORTS = (
    "torch",
    "jupyterlab.labapp, ipykernel.kernelapp, ipywidgets, matplotlib.pyplot, sklearn.datasets",
)
WARM_UP = """
import os, subprocess, sys
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
parts = [subprocess.Popen([sys.executable, "-c", "import " + names]) for names in sys.argv[1:]]
for part in parts:
    part.wait()
"""
COMPILING = "compiling what a first lesson needs"
SILENT = {
    "cwd": str(Path(__file__).resolve().parent.parent),
    "stdin": subprocess.DEVNULL,
    "stdout": subprocess.PIPE,
    "stderr": subprocess.DEVNULL,
}
# pip's options, and the variables that tell uv the same.
UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
    "default-timeout": "UV_HTTP_TIMEOUT",
    "timeout": "UV_HTTP_TIMEOUT",
    "cert": "SSL_CERT_FILE",
    "client-cert": "SSL_CLIENT_CERT",
    "proxy": "ALL_PROXY",
}


class InstallError(Exception):
    """The course can't be installed. Each line of the message is for the learner."""


class ToolError(Exception):
    """uv or pip failed. Its text is the line that says why."""

    def __init__(self, lines: "list[str]") -> None:
        super().__init__(why(lines))
        self.lines = lines


def install(place: "Place", what: str, signals: Signals, log: object) -> None:
    """Install what a place requires.

    Raises `ToolError` if pip fails too, and `InstallError` if CUDA's gigabytes would come unasked.
    """
    tools = Tools(place, what, signals, log)
    trouble = tools.uv_installs()
    if trouble:
        say(f"uv failed, so pip takes over: {trouble}")
        drop_half_installed(place.packages())
        tools.pip_installs()


class Tools:
    """uv and pip, asked to install the same."""

    def __init__(self, place: "Place", what: str, signals: Signals, log: object) -> None:
        self.place = place
        self.signals = signals
        self.log = log
        self.what = what
        self.requirements = place.requirements(what)
        self.no_cuda = place.build == "cpu" and sys.platform == "linux"
        self.environment = {}

    def uv_installs(self) -> str:
        """Install with uv, after putting it into the environment if need be.

        Returns "", or why that did not work.
        """
        try:
            if self.place.uv() is None and not self._fetched_uv():
                return "it can't be downloaded"
            self.environment = for_uv(settings_of_pip(self._pip()), self.place.root)
            command = [self.place.uv(), "pip", "install", "--color", "never"]
            command += ["--python", self.place.python]
            # uv stops at the first index that has a package. pip takes the best of all of them.
            command += ["--index-strategy", "unsafe-best-match", *self.requirements, "pip"]
            if self.no_cuda and self._brings_cuda(command):
                command += ["--torch-backend", "cpu"]  # from PyTorch's own index
                self._only_with_cpu_build(command)
            # To compile everything takes longer than all the rest, so a learner gets what is needed
            # to start: a first import is as fast, and the others write their bytecode themselves.
            self._run(command if self.what == "lab" else [*command, "--compile-bytecode"])
            if self.what == "lab":
                self._run([self.place.python, "-c", WARM_UP, *FIRST_IMPORTS], lambda _: COMPILING)
        except (ToolError, OSError) as error:
            return str(error)
        return ""

    def _fetched_uv(self) -> bool:
        """Whether pip could put uv into the environment."""
        words = ["--retries", "1", "-c", "constraints.txt", "uv"]
        try:
            self._run([*self._pip(), *INSTALL, *words])
        except ToolError:
            return False
        return self.place.uv() is not None

    def pip_installs(self) -> None:
        """Install with pip, which is ended as soon as it collects what nobody asked for."""
        self.environment = {"TMPDIR": str(self.place.scratch)}  # /tmp may be too small for CUDA
        command = [*self._pip(of_its_own=True), *INSTALL, *self.requirements]
        self._run(command, self._refuse_cuda if self.no_cuda else doing)

    def _pip(self, of_its_own: bool = False) -> list:
        """The environment's pip, or while it has none, the one of the Python that made it."""
        own = [self.place.python, "-m", "pip"]
        if (self.place.packages() / "pip" / "__main__.py").exists():
            return own
        if not of_its_own:
            other = [sys.executable, "-m", "pip", "--python", str(self.place.python)]
            if subprocess.run([*other, "--version"], **SILENT).returncode == 0:
                return other
        self._run([self.place.python, "-m", "ensurepip"], lambda _: "making pip")
        return own

    def _brings_cuda(self, command: list) -> bool:
        plan = self._run([*command, "--dry-run"], lambda _: "looking for versions that fit")
        return any(re.match(CUDA_COMES, line) for line in plan)

    def _only_with_cpu_build(self, command: list) -> None:
        try:
            if not self._brings_cuda(command):
                return
        except ToolError:
            pass
        raise InstallError(CUDA_ONLY)

    def _refuse_cuda(self, lines: "list[str]") -> str:
        if any(re.match(CUDA_COMES, line) for line in lines):
            raise InstallError(CUDA_ONLY)
        return doing(lines)

    def _run(self, command: list, tell: "object" = None) -> "list[str]":
        """What a command prints. Raises `ToolError` if it fails."""
        step = Step(command, self.place.root, self.signals, self.log, self.environment)
        status = step.run(tell or doing)
        if status:
            raise ToolError(step.lines or [f"it ended with status {status} and said nothing"])
        return step.lines


def settings_of_pip(pip: list) -> "dict[str, str]":
    """The settings that pip has from its files and variables, by the names of its options."""
    listed = subprocess.run([*map(str, pip), "config", "list"], **SILENT)
    settings = {}
    for section in ("global.", "install.", ":env:."):  # each is stronger than the one before
        for line in listed.stdout.decode("utf-8", errors="replace").splitlines():
            name, equals, value = line.partition("=")
            if equals and name.startswith(section):
                settings[name[len(section) :]] = str(ast.literal_eval(value))
    return settings


def for_uv(settings: "dict[str, str]", root: Path) -> "dict[str, str]":
    """The variables that tell uv the same, without those that somebody has set for uv."""
    wanted = {}
    for option, variable in UV_NAMES.items():
        values = settings.get(option, "").split()
        if option == "find-links":  # pip passes over a folder that isn't there, and uv fails
            values = [each for each in values if "://" in each or (root / each).exists()]
        if option == "proxy":  # pip takes one without http://, too
            values = [each if "://" in each else "http://" + each for each in values]
        if values and not (variable.startswith("UV_") and os.environ.get(variable)):
            wanted[variable] = ("," if option == "find-links" else " ").join(values)
    return wanted


SAYS = (
    # uv
    (r"Resolved (\d+) package", "downloading {} packages"),
    (r"Prepared (\d+) package", "putting the packages in place"),
    (r"Installed (\d+) package", "compiling {} packages, so that they start faster"),
    # pip
    (r"Obtaining file", "reading what the course needs"),
    (r"\s*Collecting ([\w.-]+)", "looking for {}"),
    (r"  Downloading (?:\S*/)?([^\s/-]+)\S* \((.+)\)", "downloading {} ({})"),
    (r"Installing collected packages", "putting the packages in place"),
)


def doing(lines: "list[str]") -> str:
    """What uv or pip is doing now, by what it has printed."""
    text = "starting"
    coming = {}  # uv downloads many at once, and says when each has come
    for line in lines:
        for pattern, says in SAYS:
            found = re.match(pattern, line)
            if found:
                text = says.format(*found.groups())
        begun = re.match(r"Downloading (\S+) (\(.+\))", line)
        if begun:
            coming[begun.group(1)] = " ".join(begun.groups())
        coming.pop(line.replace(" Downloaded ", ""), None)
    return "downloading " + ", ".join(list(coming.values())[:3]) if coming else text


def drop_half_installed(packages: Path) -> None:
    """Forget the packages that were left half installed, so that they are installed again.

    uv and pip list the file INSTALLER in a package's RECORD when everything else is in place. When
    they remove a package, they remove its files one by one.
    """
    for leftover in packages.glob("~*"):  # what pip puts aside
        shutil.rmtree(leftover, ignore_errors=True)
    for info in packages.glob("*.dist-info"):
        if not is_complete(info):
            shutil.rmtree(info)


def is_complete(info: Path) -> bool:
    """Whether a package is there with all of its files."""
    try:
        record = (info / "RECORD").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    files = [row[0] for row in csv.reader(record.splitlines()) if row]
    return "/INSTALLER," in record and all(
        (info.parent / file).exists() for file in files if not file.endswith(".pyc")
    )


def why(lines: "list[str]") -> str:
    """The line of uv's or pip's output that says why it failed, or the last cause that uv names."""
    lines = [line.strip() for line in lines if line.strip()]
    vague = "ResolutionImpossible|subprocess-exited"
    errors = [line for line in lines if re.match(rf"(?i)error: (?!{vague})", line)]
    crosses = [line[1:] for line in lines if line.startswith("\u00d7")]  # uv's, before an error
    causes = [line.split(": ")[-1] for line in lines if re.match("(cause|Caused by): ", line)]
    last = (causes or errors or crosses or lines or ["it said nothing"])[-1]
    return re.sub(r"(?i)^error:\s*", "", last).strip()
