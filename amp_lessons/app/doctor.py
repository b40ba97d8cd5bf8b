"""`amp-lessons doctor`: whether the course works here, and what of it this machine can measure.

`examine` collects the facts, `as_json` and `show` present them. It changes nothing on the disk.
Every problem comes with its cure; a problem that blocks the course makes the command fail.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amp_lessons.amp.speed import device
from amp_lessons.app import set_up, workspace
from amp_lessons.core import catalogue, progress
from amp_lessons.core.files import data_folder

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

OLDEST_PYTHON = (3, 11)
FEW = 3
"""Of missing packages, so many get a line each. More are missing when the extra is."""


@dataclass(frozen=True)
class Problem:
    """Something that is wrong, and the one line that fixes it.

    Attributes:
        blocks: whether the course cannot be worked through before it is fixed.
    """

    what: str
    cure: str
    blocks: bool


@dataclass(frozen=True)
class Package:
    """A library of the course: what is installed and what is supported, such as ``">=2.13,<3"``."""

    name: str
    installed: str | None
    supported: str
    ok: bool
    too_old: bool = False


@dataclass(frozen=True)
class Kernel:
    """The Jupyter kernel that the notebooks ask for, and the program it starts."""

    name: str
    starts: str | None
    this_python: bool


@dataclass(frozen=True)
class Measurement:
    """Something that a lesson shows; ``why_not`` is "" if this machine can measure it."""

    lesson: str
    what: str
    why_not: str


@dataclass(frozen=True)
class DoctorReport:
    """All that `amp-lessons doctor` knows."""

    python: str
    executable: str
    platform: str
    cores: int
    torch: device.Torch
    devices: list[device.Device]
    packages: list[Package]
    kernel: Kernel
    progress_file: Path
    progress_writable: bool
    workspace: Path
    measurements: list[Measurement]
    problems: list[Problem]

    @property
    def blocked(self) -> bool:
        return any(problem.blocks for problem in self.problems)


def examine() -> DoctorReport:
    """Look at this machine. Never raises for what it finds."""
    torch = device.torch_installed()
    packages = _packages()
    kernel = _kernel()
    file = progress.progress_file()
    problems = [
        *_python_problems(),
        *_package_problems(packages),
        *_torch_problems(torch),
        *kernel_problems(kernel),
        *progress_problems(),
        *_missing_files(),
    ]
    return DoctorReport(
        python=platform.python_version(),
        executable=sys.executable,
        platform=platform.platform(terse=True),
        cores=device.logical_cores(),
        torch=torch,
        devices=device.devices(),
        packages=packages,
        kernel=kernel,
        progress_file=file,
        progress_writable=_can_write(file.parent),
        workspace=workspace.current_folder(),
        measurements=_measurements(),
        problems=problems,
    )


# ---- packages -----------------------------------------------------------------------------------


def _packages() -> list[Package]:
    """The packages that the course needs, as its own metadata lists them."""
    from importlib import metadata

    try:
        from packaging.requirements import Requirement

        texts = metadata.requires("amp-lessons") or []
    except (ImportError, metadata.PackageNotFoundError):
        return []
    wanted = [Requirement(text) for text in texts]
    here = {"extra": set_up.EXTRA}
    return [_package(need) for need in wanted if not need.marker or need.marker.evaluate(here)]


def _package(need: Any) -> Package:
    from importlib import metadata

    supported = ",".join(sorted((str(part) for part in need.specifier), reverse=True))
    try:
        installed = metadata.version(need.name)
    except metadata.PackageNotFoundError:
        return Package(need.name, None, supported, ok=False)
    least = [part for part in need.specifier if part.operator == ">="]
    too_old = not all(part.contains(installed, prereleases=True) for part in least)
    ok = need.specifier.contains(installed, prereleases=True)
    return Package(need.name, installed, supported, ok, too_old)


def _package_problems(packages: list[Package]) -> list[Problem]:
    if not packages:
        cure = f"{sys.executable} -m pip install amp-lessons"
        return [Problem("the course is not installed as a package", cure, blocks=False)]
    missing = [package.name for package in packages if package.installed is None]
    problems = []
    if len(missing) > FEW:
        what = f"{len(missing)} packages of the course are not installed, such as {missing[0]}"
        problems.append(Problem(what, set_up.cure(), blocks=True))
        packages = [package for package in packages if package.installed is not None]
    for package in packages:
        if package.ok:
            continue
        has = f"version {package.installed}" if package.installed else "not installed"
        problems.append(
            Problem(
                f"{package.name} is {has}; supported: {package.supported}",
                f'{sys.executable} -m pip install "{package.name}{package.supported}"',
                blocks=package.installed is None or package.too_old,
            )
        )
    return problems


def _python_problems() -> list[Problem]:
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return []
    cure = "make the environment with Python 3.11 or newer: make lab PYTHON=python3.12"
    return [Problem(f"Python {platform.python_version()} is too old", cure, blocks=True)]


def _torch_problems(torch: device.Torch) -> list[Problem]:
    if torch.version is None:
        if "No module named 'torch'" in torch.error:
            return []  # the list of packages has said so
        cure = f"{sys.executable} -m pip install --force-reinstall torch"
        return [Problem(f"torch cannot be imported: {torch.error}", cure, blocks=True)]
    has_gpu_build = torch.cuda or torch.hip
    if device.nvidia_gpu_present() and not has_gpu_build:
        return [
            Problem(
                f"this machine has an NVIDIA GPU, but torch {torch.version} is built for the CPU",
                "install the build for your driver, as https://pytorch.org/get-started says",
                blocks=False,
            )
        ]
    if device.nvidia_gpu_present() and torch.cuda and not _sees_a_gpu():
        return [
            Problem(
                f"this machine has an NVIDIA driver, but torch {torch.version} finds no GPU",
                "compare CUDA_VISIBLE_DEVICES and the driver's version in nvidia-smi with CUDA "
                f"{torch.cuda}",
                blocks=False,
            )
        ]
    return []


def _sees_a_gpu() -> bool:
    return any(found.name.startswith("cuda") for found in device.devices())


# ---- Jupyter ------------------------------------------------------------------------------------


def _kernel(name: str = "python3") -> Kernel:
    """The kernel of the notebooks. A bare ``python`` is replaced by Jupyter's own Python."""
    try:
        from jupyter_client.kernelspec import KernelSpecManager

        argv = KernelSpecManager().get_kernel_spec(name).argv
    except Exception:  # no jupyter_client, no such kernel, or a kernel.json that cannot be read
        return Kernel(name, None, this_python=False)
    if not argv:
        return Kernel(name, None, this_python=False)
    major, minor = sys.version_info[:2]
    if argv[0] in ("python", f"python{major}", f"python{major}.{minor}"):
        return Kernel(name, sys.executable, this_python=True)
    return Kernel(name, argv[0], _same_python(argv[0]))


def _same_python(program: str) -> bool:
    """Whether a path is this interpreter. Environments link to one binary: compare folders too."""
    ours, other = Path(sys.executable), Path(program)
    try:
        same_folder = ours.parent.resolve() == other.parent.resolve()
        return same_folder and os.path.samefile(ours, other)
    except OSError:
        return False


def kernel_problems(kernel: Kernel | None = None) -> list[Problem]:
    """What is wrong with the kernel that the notebooks ask for: nothing, or one problem."""
    kernel = kernel or _kernel()
    if kernel.this_python:
        return []
    if kernel.starts is None:
        what = f"Jupyter has no usable kernel called {kernel.name}"
    else:
        what = f"the Jupyter kernel {kernel.name} starts {kernel.starts}, not this Python"
    cure = f"{sys.executable} -m ipykernel install {_kernel_place()} --name {kernel.name}"
    return [Problem(what, cure, blocks=True)]


def _kernel_place() -> str:
    """Where Jupyter looks first: in the environment, or in the user's folder."""
    try:
        from jupyter_core.paths import prefer_environment_over_user
    except ImportError:
        return "--user"
    return "--sys-prefix" if prefer_environment_over_user() else "--user"


# ---- files --------------------------------------------------------------------------------------


def _can_write(folder: Path) -> bool:
    """Whether a file can be made in this folder, or the folder itself."""
    while not folder.exists():
        if folder.parent == folder:
            return False
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def progress_problems() -> list[Problem]:
    """What keeps progress from being saved: nothing, or one problem."""
    folder = data_folder()
    if _can_write(folder):
        return []
    cure = "make that folder yours, or set AMP_LESSONS_HOME to one that is"
    return [Problem(f"progress cannot be saved in {folder}", cure, blocks=False)]


def _missing_files() -> list[Problem]:
    missing = [
        lesson.id
        for lesson in catalogue.LESSONS
        if not (catalogue.course_files() / lesson.notebook).is_file()
    ]
    if not missing:
        return []
    what = f"notebooks are missing from {catalogue.course_files()}: {', '.join(missing)}"
    return [Problem(what, workspace.cure_for_missing_course(), blocks=True)]


# ---- what can be measured -----------------------------------------------------------------------


def _measurements() -> list[Measurement]:
    return [
        Measurement(lesson.id, shown.what, device.why_not(shown.needs))
        for lesson in catalogue.LESSONS
        for shown in lesson.shows
    ]


# ---- presentation -------------------------------------------------------------------------------


def as_json(report: DoctorReport) -> dict[str, Any]:
    """The report in JSON's types. ``ok`` is false if a problem blocks the course."""
    data = asdict(report)
    data["progress_file"] = str(report.progress_file)
    data["workspace"] = str(report.workspace)
    for entry in data["measurements"]:
        entry["measured_here"] = not entry["why_not"]
    return {"ok": not report.blocked, "version": _version()} | data


def show(report: DoctorReport, console: Console) -> None:
    """Print the report as tables, problems last, where they are seen."""
    console.print(_machine_table(report))
    console.print(_package_table(report))
    console.print(_measurement_table(report))
    if not report.problems:
        console.print("\nNo problem found. Open the course with: amp-lessons lab", soft_wrap=True)
    for problem in report.problems:
        word = "Blocks the course" if problem.blocks else "Worth fixing"
        console.print(f"\n{word}: {problem.what}", soft_wrap=True)
        console.print(f"  cure: {problem.cure}", soft_wrap=True)


def _machine_table(report: DoctorReport) -> Table:
    table = _table(f"AMP Lessons {_version()} on this machine", "", "")
    table.show_header = False
    table.add_row("Python", f"{report.python}, {report.executable}")
    table.add_row("System", f"{report.platform}, {report.cores} cores")
    table.add_row("PyTorch", _torch_line(report.torch))
    for found in report.devices:
        table.add_row(found.name, _device_lines(found))
    table.add_row("Kernel", _kernel_line(report.kernel))
    written = "" if report.progress_writable else " (cannot be written)"
    table.add_row("Progress", f"{report.progress_file}{written}")
    made = "" if report.workspace.is_dir() else " (not made yet)"
    table.add_row("Workspace", f"{report.workspace}{made}")
    return table


def _torch_line(torch: device.Torch) -> str:
    if torch.version is None:
        return f"cannot be imported: {torch.error}"
    built = f"CUDA {torch.cuda}" if torch.cuda else f"ROCm {torch.hip}" if torch.hip else "the CPU"
    return f"{torch.version}, built for {built}"


def _device_lines(found: device.Device) -> str:
    model = found.model
    if found.capability:
        is_gpu = found.name.startswith("cuda")
        model += f", {'compute capability' if is_gpu else 'vectors'} {found.capability}"
    native = ", ".join(
        f"{name} {_yes_no(has)}"
        for name, has in (("bf16", found.bf16), ("fp16", found.fp16), ("TF32", found.tf32))
    )
    through = f" ({found.through})" if found.through else ""
    return f"{model}\nnative arithmetic: {native}{through}\nmemory: {_memory(found)}"


def _memory(found: device.Device) -> str:
    if found.memory is None:
        return "not known"
    total = f"{found.memory / 2**30:.1f} GiB"
    return total if found.free is None else f"{total}, {found.free / 2**30:.1f} GiB free"


def _kernel_line(kernel: Kernel) -> str:
    if kernel.starts is None:
        return f"{kernel.name} is missing"
    return f"{kernel.name} starts {'this Python' if kernel.this_python else kernel.starts}"


def _yes_no(value: bool | None) -> str:
    return "not known" if value is None else "yes" if value else "no"


def _package_table(report: DoctorReport) -> Table:
    table = _table("Packages", "package", "installed", "supported", "")
    for package in report.packages:
        installed = package.installed or "missing"
        verdict = "ok" if package.ok else "problem"
        table.add_row(package.name, installed, package.supported, verdict)
    return table


def _measurement_table(report: DoctorReport) -> Table:
    table = _table("What of the course this machine can measure", "lesson", "what is shown", "here")
    for entry in report.measurements:
        here = f"not measured here: {entry.why_not}" if entry.why_not else "measured"
        table.add_row(entry.lesson, entry.what, here)
    return table


def _table(title: str, *columns: str) -> Table:
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", expand=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _version() -> str:
    from amp_lessons import __version__

    return __version__
