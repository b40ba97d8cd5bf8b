"""environment.yml, constraints.txt and pyproject.toml say the same thing about what to install."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from rattler import MatchSpec

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENVIRONMENT = yaml.safe_load((ROOT / "environment.yml").read_text())
SPECS = [line for line in ENVIRONMENT["dependencies"] if isinstance(line, str)]
CONDA_NAMES = {"torch": "pytorch"}
# Pure Python packages that conda-forge may lack: pip takes them.
FROM_PYPI = [line for line in PROJECT["dependencies"] if line.startswith(("fsrs", "genanki"))]


def copy_of_the_project(folder: Path) -> Path:
    for name in ("pyproject.toml", "environment.yml", "tools/sync_environment.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    return folder


def sync(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(root / "tools" / "sync_environment.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd="/")


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


# ---- the tool ------------------------------------------------------------------------------


def test_environment_yml_is_what_the_tool_generates(tmp_path):
    root = copy_of_the_project(tmp_path)
    assert sync(root, "--check").returncode == 0
    (root / "environment.yml").unlink()
    assert sync(root).returncode == 0
    assert (root / "environment.yml").read_bytes() == (ROOT / "environment.yml").read_bytes()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"torch>=2.13,<3"', '"torch>=2.14,<3"'),
        ('  "filelock>=3.16",\n', ""),
        ('"filelock>=3.16"', '"filelock>=3.16", "tqdm"'),
        ('"nbval>=0.11"', '"nbval>=0.12"'),
        ('requires-python = ">=3.11"', 'requires-python = ">=3.12"'),
    ],
)
def test_a_changed_dependency_makes_the_check_fail_in_one_line(tmp_path, old, new):
    root = copy_of_the_project(tmp_path)
    edit(root / "pyproject.toml", old, new)
    before = (root / "environment.yml").read_text()
    checked = sync(root, "--check")
    assert checked.returncode == 1
    assert checked.stdout.splitlines() == [
        "environment.yml is not what pyproject.toml says: run `make environment`"
    ]
    assert checked.stderr == ""
    assert (root / "environment.yml").read_text() == before
    assert sync(root).returncode == 0
    assert sync(root, "--check").returncode == 0
    assert (root / "environment.yml").read_text() != before


def test_a_missing_or_edited_file_makes_the_check_fail(tmp_path):
    root = copy_of_the_project(tmp_path)
    with (root / "environment.yml").open("a") as file:
        file.write("  - tqdm\n")
    assert sync(root, "--check").returncode == 1
    (root / "environment.yml").unlink()
    assert sync(root, "--check").returncode == 1
    assert not (root / "environment.yml").exists()


@pytest.mark.parametrize(
    "requirement",
    [
        "filelock[extra]>=3",
        "filelock; python_version < '3.12'",
        "filelock @ https://example.org/filelock.whl",
        "filelock===3.16",
        "filelock >> 3",
    ],
)
def test_what_conda_cannot_say_is_refused_in_one_line(tmp_path, requirement):
    root = copy_of_the_project(tmp_path)
    edit(root / "pyproject.toml", '"filelock>=3.16"', f'"{requirement}"')
    for arguments in ((), ("--check",)):
        refused = sync(root, *arguments)
        assert refused.returncode == 1
        assert len([line for line in refused.stderr.splitlines() if line.strip()]) == 1
        assert refused.stderr.startswith(f"pyproject.toml: {requirement!r}")


# ---- the file ------------------------------------------------------------------------------


def test_conda_forge_is_the_only_channel():
    assert ENVIRONMENT["channels"] == ["conda-forge"]
    assert not any("::" in spec for spec in SPECS)


def test_every_spec_is_one_that_conda_can_read():
    for line in SPECS:
        spec = MatchSpec(line, strict=True)
        assert spec.name.normalized == re.match(r"[a-z0-9_-]+", line).group()
        assert spec.channel is None
        assert spec.version is not None or line == "pip"


def test_every_dependency_appears_with_its_range():
    of_tests = [r for r in PROJECT["optional-dependencies"]["authors"] if r.startswith("nbval")]
    required = [Requirement(r) for r in (*PROJECT["dependencies"], *of_tests)]
    required = [r for r in required if str(r) not in map(str, map(Requirement, FROM_PYPI))]
    specs = {spec.name.normalized: spec for spec in map(MatchSpec, SPECS)}
    for requirement in required:
        spec = specs.pop(CONDA_NAMES.get(requirement.name, requirement.name))
        ours = {str(specifier) for specifier in requirement.specifier}
        assert set(str(spec.version).split(",")) == ours
    assert str(specs.pop("python").version) == PROJECT["requires-python"]
    assert set(specs) == {"pip"}, "nothing else is installed"


def test_the_packages_that_define_the_course_are_there():
    names = {MatchSpec(line).name.normalized for line in SPECS}
    assert names >= {"pytorch", "jupyterlab", "matplotlib", "ipywidgets", "nbval"}


def test_the_course_itself_is_installed_by_pip_from_the_checkout():
    others = [line for line in ENVIRONMENT["dependencies"] if not isinstance(line, str)]
    assert len(FROM_PYPI) == 2
    assert others == [{"pip": [*FROM_PYPI, "-e ."]}]
    assert SPECS[-1] == "pip"


# ---- what the package imports ---------------------------------------------------------------


def imported() -> dict[str, set[str]]:
    """Each module that the package imports from elsewhere, at any depth, and the files that do."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "amp_lessons").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module]
            for name in names:
                top = name.partition(".")[0]
                if top != "amp_lessons" and top not in sys.stdlib_module_names:
                    found.setdefault(top, set()).add(str(path.relative_to(ROOT)))
    return found


def test_whatever_the_package_imports_is_declared():
    # `grade --dask` and `explain --hf` say how to get theirs.
    lines = [*PROJECT["dependencies"], *EXTRAS["cluster"], *EXTRAS["models"]]
    declared = {canonicalize_name(Requirement(line).name) for line in lines}
    distributions = packages_distributions()
    modules = imported()
    assert {"torch", "sklearn", "IPython", "traitlets"} <= set(modules)
    missing = {
        f"{module} (from {' or '.join(distributions.get(module, ['?']))}), in {min(files)}"
        for module, files in modules.items()
        if not declared & set(map(canonicalize_name, distributions.get(module, [])))
    }
    assert not missing, f"imported, and not among the dependencies in pyproject.toml: {missing}"


# ---- the pins ------------------------------------------------------------------------------

EXTRAS = PROJECT["optional-dependencies"]
PINNED_EXTRAS = ("tests", "authors", "classroom", "hub", "cluster", "models")


def pins() -> dict[str, Version]:
    found: dict[str, Version] = {}
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        name, equals, version = line.partition("==")
        assert equals, f"{line!r} pins nothing"
        key = canonicalize_name(name)
        assert key not in found, f"{name} is pinned twice"
        found[key] = Version(version)
    return found


def required() -> list[Requirement]:
    lines = [*PROJECT["dependencies"], *(r for extra in PINNED_EXTRAS for r in EXTRAS[extra])]
    every = [Requirement(line) for line in lines]
    return [r for r in every if r.name != PROJECT["name"]]  # an extra may name another one


def test_each_dependency_is_pinned_to_a_version_in_its_range(subtests):
    for requirement in required():
        with subtests.test(requirement.name):
            version = pins().get(canonicalize_name(requirement.name))
            assert version is not None, f"constraints.txt does not pin {requirement.name}"
            assert version in requirement.specifier


@pytest.mark.parametrize("version", ["0.15.0", "0.16.1", "0.17.4"])
def test_typer_is_not_one_that_takes_a_missing_argument_for_an_answer(version):
    """Seen with click 8.5: 0.15 cannot print help, later ones run `reset` with no exercise."""
    (typer,) = (r for r in required() if r.name == "typer")
    assert version not in typer.specifier


def test_torch_is_pinned_at_the_version_that_the_course_was_measured_with():
    assert pins()["torch"] == Version("2.13.0")
