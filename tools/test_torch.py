"""Run what depends on torch with another version of it: `make test-torch TORCH=2.15.0`.

Each version gets an environment of its own below `.venvs`, which the next run uses again: that
torch, and every other package as `constraints.txt` pins it. There it runs the tests of the tools
that ask torch, and every lesson and solution, cell by cell. `docs/versions.md` has the results.
Like `tools/install.py`, it needs only the standard library.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import install
from install import InstallError, Place, say

ROOT = install.ROOT
TESTS = (
    "test_attention",
    "test_budget",
    "test_fidelity",
    "test_hazards",
    "test_loading",
    "test_lookup_entries",
    "test_memory",
    "test_monitor",
    "test_policy",
    "test_policy_record",
    "test_real_models",
    "test_report",
    "test_trace",
)
"""Files of `tests/` about what torch does and says: the policy, the traces and what stands on them,
and the messages that `lookup` knows."""

BEFORE = "print('torch', __import__('torch').__version__)"


class TorchPlace(Place):
    """An environment with a torch of its own; everything else is as `constraints.txt` pins it."""

    def __init__(self, root: Path, folder: Path, version: str) -> None:
        # A link may lead to a larger disk. `trouble` would take it for a folder that has moved.
        super().__init__(root, (folder / f"torch-{version}").resolve())
        self.version = version

    def requirements(self, what: str) -> "list[str]":
        pins = self.venv / "constraints.txt"
        lines = (self.root / "constraints.txt").read_text(encoding="utf-8").splitlines()
        kept = [line for line in lines if not line.startswith("torch==")]
        pins.write_text("\n".join(kept) + "\n", encoding="utf-8")
        torch = f"torch=={self.version}"  # named first, so that pip's error is about this version
        course = ["--constraint", str(pins), "--editable", "." + install.EXTRAS["lab"]]
        return [torch, *test_packages(self.root), *course]

    def announcement(self, what: str) -> str:
        return (
            f"Installing torch {self.version} and what the tests need into {self.shown} "
            "(2 to 10 minutes;\nwith PyTorch's CUDA build, 3 GB to download and 7 GB of disk)"
        )

    @property
    def shown(self) -> str:
        return os.path.relpath(str(self.venv))


def test_packages(root: Path) -> "list[str]":
    """What the extra `authors` asks for. What `tests` adds is for grading and for other people's
    models, and torchvision fits one torch alone."""
    import tomllib  # since Python 3.11: an older one can still read this file

    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = project["optional-dependencies"]["authors"]
    return [line for line in lines if not line.startswith("amp-lessons[")]  # the course, from here


def main(arguments: "list[str] | None" = None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    end = words.index("--") if "--" in words else len(words)
    chosen, tests = _parser().parse_args(words[:end]), words[end + 1 :]
    try:
        version = read_version(chosen.version)
    except InstallError as error:
        say(error)
        return 2
    place = TorchPlace(ROOT, Path(chosen.venvs).resolve(), version)
    if status := prepare(place):
        return status
    subprocess.run([str(place.python), "-c", BEFORE], check=True)
    return run(place, tests)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="Test the course with another version of torch.",
        epilog="What follows -- is for pytest: what to run instead, and options.",
    )
    parser.add_argument("version", nargs="?", default="", help="such as 2.15.0")
    parser.add_argument("--venvs", default=str(ROOT / ".venvs"), help="where environments are kept")
    return parser


def read_version(text: str, root: Path = ROOT) -> str:
    """The version as it was given, without blanks; "2.15" is "2.15.0", as pip sees it.

    Raises:
        InstallError: for what isn't a version, and for one outside the range of pyproject.toml.
    """
    version = re.sub(r"^(\d+\.\d+)$", r"\1.0", text.strip())
    if not version:
        raise InstallError("Name a version of torch: make test-torch TORCH=2.15.0")
    if not re.fullmatch(r"\d+\.\d+(\.\d+)?((a|b|rc)\d+)?(\+[\w.]+)?", version):
        raise InstallError(f"{version!r} is not a version of torch; give one such as TORCH=2.15.0")
    least, below = supported(root)
    if not _numbers(least) <= _numbers(version) < _numbers(below):
        raise InstallError(
            f"the course doesn't support torch {version}: pyproject.toml asks for "
            f"torch>={least},<{below}; to try it all the same, change that line first"
        )
    return version


def supported(root: Path = ROOT) -> "tuple[str, str]":
    """The oldest supported version of torch, and the one that is too new."""
    text = (root / "pyproject.toml").read_text(encoding="utf-8")
    found = re.search(r'"torch>=([\d.]+),<([\d.]+)"', text)
    assert found, "pyproject.toml names no range of torch"
    return found[1], found[2]


def _numbers(version: str) -> "list[int]":
    """To compare versions by. What follows the numbers, such as rc1 or +cpu, is left out."""
    return [int(number) for number in re.match(r"[\d.]+", version)[0].split(".")]


def prepare(place: TorchPlace) -> int:
    """Make the environment, if it isn't there yet. Returns an exit status."""
    try:
        if place.is_ready("tests"):
            say(f"Using {place.shown}, which is up to date")
        else:
            install.install(place, "tests")
    except InstallError as error:
        output = missing(place)
        if output:
            shutil.rmtree(place.venv)  # nothing was installed
        say(output or error)
        return 1
    except (install.Stopped, KeyboardInterrupt) as stopped:
        say("Stopped. Run the same command again, and it goes on from here.")
        return 128 + (stopped.args or (install.signal.SIGINT,))[0]
    return 0


def missing(place: TorchPlace) -> str:
    """One line if pip found no such version, with those that it found; "" if it did."""
    log = place.log.read_text(encoding="utf-8") if place.log.exists() else ""
    python = ".".join(map(str, sys.version_info[:2]))
    wanted = re.escape(f"torch=={place.version}")
    found = re.search(rf"satisfies the requirement {wanted} \(from versions: (.*?)\)", log)
    if found:
        there = [each for each in found[1].split(", ") if each[:1].isdigit()]
        return (
            f"torch {place.version} doesn't exist for Python {python} on this machine; "
            f"there are: {', '.join(there[-8:]) or 'none'}"
        )
    return ""


def run(place: TorchPlace, chosen: "list[str]") -> int:
    """pytest in that environment, on what depends on torch or on what was asked for."""
    tests = [p.relative_to(ROOT).as_posix() for n in TESTS for p in ROOT.glob(f"tests/*/{n}.py")]
    asked = chosen if any(not word.startswith("-") for word in chosen) else []
    what = asked or [*tests, "notebooks", "solutions", *chosen]
    command = [str(place.python), "-m", "pytest", "-p", "no:cacheprovider", "--numprocesses", "2"]
    command += ["--dist", "loadscope", "--no-loadscope-reorder", *what]
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    return subprocess.run(command, cwd=str(ROOT), env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
