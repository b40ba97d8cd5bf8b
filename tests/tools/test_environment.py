"""environment.yml, constraints.txt and pyproject.toml say the same thing about what to install."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
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
EXTRAS = PROJECT["optional-dependencies"]


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


def test_what_conda_brings_has_the_ranges_of_pyproject():
    lines = [*PROJECT["dependencies"], *EXTRAS["course"], *EXTRAS["authors"]]
    ranges = {r.name: r.specifier for r in map(Requirement, lines)}
    specs = {spec.name.normalized: spec for spec in map(MatchSpec, SPECS)}
    assert str(specs.pop("python").version) == PROJECT["requires-python"]
    del specs["pip"]
    named = {conda: name for name, conda in CONDA_NAMES.items()}
    for name, spec in specs.items():
        ours = {str(specifier) for specifier in ranges[named.get(name, name)]}
        assert set(str(spec.version).split(",")) == ours, name


def test_the_packages_that_define_the_course_are_there():
    names = {MatchSpec(line).name.normalized for line in SPECS}
    assert names >= {"pytorch", "jupyterlab", "matplotlib", "ipywidgets", "nbval"}


def test_pip_brings_the_rest_with_the_course_from_the_checkout():
    others = [line for line in ENVIRONMENT["dependencies"] if not isinstance(line, str)]
    assert others == [{"pip": ["-e .[course]"]}]
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
    extras = ("course", "cluster", "models")
    lines = [*PROJECT["dependencies"], *(line for extra in extras for line in EXTRAS[extra])]
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


WITHOUT = """
import importlib, pkgutil, sys
blocked, failed = set(sys.argv[1:]), {}
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from amp_lessons import amp, core
from amp_lessons.app import cli
for wing in (core, amp):
    for found in pkgutil.walk_packages(wing.__path__, wing.__name__ + "."):
        try:
            importlib.import_module(found.name)
        except ModuleNotFoundError as error:
            failed[found.name] = error.name.partition(".")[0]
print(failed)
"""
DRAWS = {
    f"amp_lessons.{name}"
    for name in ("core.pictures", "amp.monitor.chart", "amp.speed.roofline_plot")
}


def brought_by(lines: list[str]) -> set[str]:
    """The distributions that come with these requirements, and with theirs."""
    found: set[str] = set()
    while lines:
        need = Requirement(lines.pop())
        name = canonicalize_name(need.name)
        if name not in found and (need.marker is None or need.marker.evaluate({"extra": ""})):
            found.add(name)
            with suppress(PackageNotFoundError):
                lines += requires(name) or []
    return found


def test_wings_core_and_amp_and_the_command_line_load_without_the_extra():
    base = brought_by([*PROJECT["dependencies"]])
    course = {canonicalize_name(Requirement(line).name) for line in EXTRAS["course"]}
    assert {"jupyterlab", "matplotlib", "scikit-learn", "anywidget"} <= course - base
    modules = packages_distributions().items()
    absent = [m for m, names in modules if not base & set(map(canonicalize_name, names))]
    command = [sys.executable, "-c", WITHOUT, *(m for m in absent if m != "amp_lessons")]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.stderr == ""
    failed = ast.literal_eval(run.stdout)
    assert failed.keys() <= DRAWS, "only what draws may need more than the base"
    assert set(failed.values()) == {"matplotlib"}


# ---- the pins ------------------------------------------------------------------------------

PINNED_EXTRAS = ("course", "tests", "authors", "classroom", "hub", "cluster", "models")


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
