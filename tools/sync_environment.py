"""Write environment.yml, which conda and Binder read, from the dependencies in pyproject.toml.

``python tools/sync_environment.py`` writes it; with ``--check`` it only says whether the file is
up to date, and exits with 1 if it is not.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

ROOT = Path(__file__).resolve().parent.parent

# A learner who came by conda can validate the notebooks, too.
FROM_TESTS = ("nbval",)
# PyPI's name to conda-forge's, where they differ.
CONDA_NAMES = {"torch": "pytorch"}
# What conda-forge may not have: pip installs it beside the course.
FROM_PYPI = ("fsrs", "genanki")

HEADER = """\
# Written by tools/sync_environment.py from pyproject.toml; `make environment` renews it.
"""


def conda_spec(requirement: str) -> str:
    """A line of pyproject.toml as conda writes it: ``"torch>=2.13,<3"`` to ``"pytorch>=2.13,<3"``.

    Raises:
        ValueError: for what conda has no word for: extras, markers, URLs and ``===``.
    """
    try:
        parsed = Requirement(requirement)
    except InvalidRequirement as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"{requirement!r} is no requirement: {reason}") from None
    operators = {specifier.operator for specifier in parsed.specifier}
    if parsed.extras or parsed.marker or parsed.url or "===" in operators:
        raise ValueError(f"{requirement!r} has no equivalent in conda: give a name and a range")
    lower_bound_first = sorted(map(str, parsed.specifier), reverse=True)
    return CONDA_NAMES.get(parsed.name, parsed.name) + ",".join(lower_bound_first)


def environment(project: dict) -> str:
    """The text of environment.yml for the ``[project]`` table of a pyproject.toml.

    Raises:
        ValueError: if a dependency has no equivalent in conda, or one of `FROM_TESTS` is missing.
    """
    requirements = list(project["dependencies"])
    of_authors = {Requirement(r).name: r for r in project["optional-dependencies"]["authors"]}
    for name in FROM_TESTS:
        if name not in of_authors:
            raise ValueError(f"{name} is not among the dependencies of the extra 'authors'")
        requirements.append(of_authors[name])
    as_conda = {requirement: conda_spec(requirement) for requirement in requirements}
    from_pypi = [r for r in requirements if Requirement(r).name in FROM_PYPI]
    from_conda = [spec for r, spec in as_conda.items() if r not in from_pypi]
    specs = [f"python{project['requires-python']}", *from_conda, "pip"]
    lines = [
        f"name: {project['name']}",
        "channels:",
        "  - conda-forge",
        "dependencies:",
        *(f"  - {spec}" for spec in specs),
        "  - pip:",
        *(f"      - {requirement}" for requirement in from_pypi),
        "      - -e .",
    ]
    return HEADER + "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of date")
    options = parser.parse_args()
    target = ROOT / "environment.yml"
    try:
        text = environment(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])
    except ValueError as error:
        print(f"pyproject.toml: {error}", file=sys.stderr)
        return 1
    if not options.check:
        target.write_text(text)
        return 0
    if not target.exists() or target.read_text() != text:
        print("environment.yml is not what pyproject.toml says: run `make environment`")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
