"""Collect the course and all that it needs in a folder, for a room without a network.

    python tools/wheelhouse.py wheels                          # for machines like this one
    python tools/wheelhouse.py wheels windows-3.12 macos-3.13  # for others, into the same folder

Wheels with compiled code fit one system and one version of Python. uv says which packages another
machine needs (pip would read the conditions on them as this machine's), and pip downloads them.
There, `pip install --no-index --find-links wheels "amp-lessons[course]"` installs from the folder.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from install import Place
from uv_or_pip import for_uv, settings_of_pip, why

ROOT = Path(__file__).resolve().parent.parent
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
SYSTEMS = {
    "linux": ("x86_64-manylinux_2_34", [f"manylinux_2_{n}_x86_64" for n in range(34, 4, -1)]),
    "macos": ("aarch64-apple-darwin", ["macosx_14_0_arm64"]),
    "windows": ("x86_64-pc-windows-msvc", ["win_amd64"]),
}
"""What uv and pip call each of them: Intel's and AMD's processors, and Apple's for macOS."""
LATER = ".9"
"""A release of each Python that packages accept; some refuse the first ones."""
OLD_NAMES = ["manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64"]
CUDA_ONLY = (
    "PyTorch's CUDA build would come, 3 GB: give pip the address of the CPU build in the variable "
    "PIP_EXTRA_INDEX_URL; pytorch.org shows it"
)


class WheelhouseError(Exception):
    """The folder cannot be filled. The message is one line with the cure."""


def target(text: str) -> tuple[str, str]:
    """The system and the Python of a word such as ``windows-3.12``. Raises `WheelhouseError`."""
    system, _, python = text.partition("-")
    if system not in SYSTEMS or not re.fullmatch(r"3\.\d+", python):
        names = ", ".join(f"{name}-3.12" for name in SYSTEMS)
        raise WheelhouseError(f"{text!r} is no machine that we know: write it as {names}")
    return system, python


def this_machine() -> str:
    """Such as ``linux-3.11``."""
    system = {"darwin": "macos", "win32": "windows"}.get(sys.platform, sys.platform)
    return f"{system}-{sys.version_info.major}.{sys.version_info.minor}"


def fill(folder: Path, machines: list[str]) -> None:
    """Put the course's wheel and the packages for each machine into the folder.

    Raises:
        WheelhouseError: if uv or pip fails, or would bring CUDA's packages.
    """
    wanted = [target(machine) for machine in machines]
    if folder.exists() and not folder.is_dir():
        raise WheelhouseError(f"{folder} is a file: name a folder")
    uv = Place(ROOT, ROOT / ".venv").uv()
    if uv is None:
        raise WheelhouseError("uv is missing: python -m pip install uv")
    settings = for_uv(settings_of_pip(PIP[:3]), ROOT)
    run([*PIP, "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT], "building the course")
    for machine, (system, python) in zip(machines, wanted, strict=True):
        called, tags = SYSTEMS[system]
        with tempfile.TemporaryDirectory() as scratch:
            pins = Path(scratch, "pins.txt")
            words = [uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
            words += ["--index-strategy", "unsafe-best-match", "--constraint", "constraints.txt"]
            words += ["--python-platform", called, "--python-version", f"{python}{LATER}"]
            words += ["--extra", "course", "--output-file", pins, "pyproject.toml"]
            run(words, f"looking what {machine} needs", MACOSX_DEPLOYMENT_TARGET="14.0", **settings)
            if re.search(r"^nvidia-", pins.read_text(encoding="utf-8"), re.MULTILINE):
                raise WheelhouseError(f"{machine}: {CUDA_ONLY}")
            words = [*PIP, "download", "--quiet", "--no-deps", "--only-binary=:all:"]
            for tag in [*tags, *(OLD_NAMES if system == "linux" else ())]:
                words += ["--platform", tag]
            words += ["--python-version", f"{python}{LATER}"]
            words += ["--dest", folder, "--requirement", pins]
            run(words, f"downloading for {machine}")
    sizes = [path.stat().st_size for path in folder.iterdir()]
    print(f"{folder}: {len(sizes)} files, {sum(sizes) / 1e6:.0f} MB. Install from it with:")
    print(f'    python -m pip install --no-index --find-links {folder.name} "amp-lessons[course]"')


def run(words: list[object], doing: str, **environment: str) -> None:
    """Run a command in the checkout. Raises `WheelhouseError` with the reason that it gives."""
    print(f"{doing[0].upper()}{doing[1:]}", flush=True)
    done = subprocess.run(
        [str(word) for word in words],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise WheelhouseError(f"{doing} failed: {why((done.stdout + done.stderr).splitlines())}")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Collect the course in a folder of wheels.")
    parser.add_argument("folder", type=Path, help="where to put them")
    parser.add_argument(
        "machines",
        nargs="*",
        metavar="MACHINE",
        help="linux, macos or windows with a Python, such as windows-3.12. Default: this machine",
    )
    chosen = parser.parse_args(arguments)
    try:
        fill(chosen.folder.absolute(), chosen.machines or [this_machine()])
    except (WheelhouseError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
