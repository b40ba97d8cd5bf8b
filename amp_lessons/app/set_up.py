"""The second half of a notebook's set-up cell: `python -m amp_lessons.app.set_up`.

The cell installs the course's wheel and nothing else. This module then installs what the course
needs and the machine lacks. Packages that are there stay as they are, whatever their version:
PyTorch is large, and a kernel that runs cannot have its own packages exchanged. Nothing but the
standard library is imported before pip has run, since nothing else may be there.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import amp_lessons
from amp_lessons.core.errors import AmpLessonsError

DISTRIBUTION = "amp-lessons"
EXTRA = "course"
"""The extra of `DISTRIBUTION` with what notebooks, widgets and questions need."""
IMPORTED_AS = {
    "IPython": "ipython",
    "PIL": "pillow",
    "markdown_it": "markdown-it-py",
    "sklearn": "scikit-learn",
}
"""The distribution of a module, where another name than its own is not just a matter of dashes."""
WRITTEN_WITH = "2.13"
"""The PyTorch whose numbers the notebooks show."""
IN_OLDER_TORCH = (
    "one cell of lesson 09 and its whole optional notebook need linear_cross_entropy with options, "
    "FP8 E4M3 gives NaN beyond 448, a CPU multiplies no FP8 matrices, and before 2.12 CUDA's "
    "autocast leaves rms_norm alone"
)
"""What the tests of 2.11 showed: see `docs/versions.md`."""
NOT_IN_A_NOTEBOOK = frozenset({"jupyterlab"})
"""What only `amp-lessons lab` needs. Where a notebook is open, something serves it already."""


class SetUpError(AmpLessonsError):
    """pip could not install what is missing. The message is one line with pip's reason."""


def needed() -> dict[str, str]:
    """What a notebook of the course requires, by name: ``{"torch": "torch>=2.13,<3", ...}``."""
    requirements = of_extra("") | of_extra(EXTRA)
    return {name: line for name, line in requirements.items() if name not in NOT_IN_A_NOTEBOOK}


def of_extra(extra: str) -> dict[str, str]:
    """The course's requirements for an extra, or for none if it's "", by name."""
    lines = metadata.requires(DISTRIBUTION) or []
    marked = [line.partition(";") for line in lines]
    asked = [plain.strip() for plain, _, marker in marked if _extra_of(marker) == extra]
    return {re.split(r"[^\w.-]", line, maxsplit=1)[0]: line for line in asked}


def _extra_of(marker: str) -> str:
    found = re.search(r"extra == ['\"]([\w-]+)", marker)
    return found[1] if found else ""


def comes_with_course(module: str) -> bool:
    """Whether a module is one that the extra brings. False too where the course isn't installed."""
    name = module.partition(".")[0]
    with suppress(metadata.PackageNotFoundError):
        found = {name.replace("_", "-").lower() for name in of_extra(EXTRA)}
        return IMPORTED_AS.get(name, name.replace("_", "-")) in found
    return False


def cure() -> str:
    """The line that installs what the course needs beside what is there."""
    return f'{sys.executable} -m pip install "{DISTRIBUTION}[{EXTRA}]"'


def versions(names: Mapping[str, str]) -> dict[str, str]:
    """The version of each of these packages that is installed."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def install(missing: list[str], there: Mapping[str, str]) -> None:
    """Install requirements, and let pip exchange no package that is there.

    Args:
        missing: requirements, such as ``"fsrs>=6.1,<7"``.
        there: versions to keep, by name.

    Raises:
        SetUpError: with the last error that pip printed.
    """
    with tempfile.TemporaryDirectory() as folder:
        keep = Path(folder, "keep.txt")
        keep.write_text("".join(f"{name}=={version}\n" for name, version in there.items()))
        done = pip("install", "--constraint", str(keep), *missing)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
        why = errors[-1].removeprefix("ERROR: ") if errors else f"it ended with {done.returncode}"
        names = ", ".join(missing)
        raise SetUpError(f"AMP Lessons needs {names}, which pip could not install: {why}")


def pip(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one command of pip without questions, and keep what it prints."""
    words = ["--disable-pip-version-check", "--no-input", command, "--quiet", *arguments]
    return subprocess.run(
        [sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False
    )


def older(there: Mapping[str, str], requirements: Mapping[str, str]) -> list[str]:
    """Which installed packages do not fit their requirement, such as ``["torch 2.11.0"]``."""
    from packaging.requirements import Requirement

    def fits(name: str) -> bool:
        return Requirement(requirements[name]).specifier.contains(there[name], prereleases=True)

    return [f"{name} {there[name]}" for name in there if not fits(name)]


def of_older_torch(installed: str) -> str:
    """What the course can't show with this PyTorch, in one line; "" if it shows all."""
    from packaging.version import Version

    if Version(installed) >= Version(WRITTEN_WITH):
        return ""
    return (
        f"PyTorch {installed} is older than {WRITTEN_WITH}, with which the course was written. The "
        f"lessons run, except that {IN_OLDER_TORCH}."
    )


def complete() -> str:
    """Install what is missing. If that fails, remove the course again, so that the next run of the
    set-up cell starts over.

    Returns:
        A line about packages outside the range that the course was tested with, and about what an
        older PyTorch lacks, or "".

    Raises:
        SetUpError: if pip fails.
    """
    requirements = needed()
    there = versions(requirements)
    missing = [line for name, line in requirements.items() if name not in there]
    try:
        if missing:
            install(missing, there)
    except BaseException:  # Ctrl+C too
        beside = Path(amp_lessons.__file__).parents[1]
        if not (beside / "pyproject.toml").exists():  # never a checkout
            pip("uninstall", "--yes", DISTRIBUTION)
        raise
    misfits = older(there, requirements)
    said = [of_older_torch(there["torch"])] if "torch" in there else []
    if misfits:
        said.append(
            "AMP Lessons was not tested with these versions, which it found here and did not "
            f"change: {', '.join(misfits)}. Some cells may fail, or show something else."
        )
    return " ".join(filter(None, said))


def main() -> int:
    """What the set-up cell runs. It prints at most one line."""
    try:
        message = complete()
    except SetUpError as error:
        print(error)
        return 1
    except KeyboardInterrupt:
        print("Stopped.")
        return 130
    if message:
        print(message)
    return 0


if __name__ == "__main__":
    sys.exit(main())
