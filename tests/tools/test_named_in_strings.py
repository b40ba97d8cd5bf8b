"""What a string names of this repository is there: modules, parts of modules, files and folders.

Python finds a wrong name in an import, but not in a string, a docstring or a program that a test
sends elsewhere. A cheat that imports what has moved, say, fails for the wrong reason.
"""

from __future__ import annotations

import ast
import importlib
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from amp_lessons.core import catalogue

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "amp_lessons"
FOLDERS = (PACKAGE, "benchmarks", "hub", "sources", "tests", "tools")
PYTHON = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
PAGES = [ROOT / name for name in ("Makefile", "pyproject.toml", "environment.yml")]

_TOPS = [*FOLDERS, "docs", "exercises", "notebooks", "solutions", r"\.ci", r"\.github"]
_PATH = re.compile(rf"(?<![\w./-])(?:{'|'.join(_TOPS)})(?:/[\w.*-]+)+")
_MODULE = re.compile(rf"(?<![\w./]){PACKAGE}(?:\.\w+)+(?::\w+)?")
_IMPORT = re.compile(rf"from ({PACKAGE}[\w.]*) import (\([\w\s,]+\)|[\w ,]+)")

MADE_UP = {
    ".ci/none",
    "amp_lessons.amp.training.models:mpl",  # a slip of the pen
    "amp_lessons.no_such_room",
    "amp_lessons.notary",  # a logger
    "amp_lessons/_course",  # in a wheel
    "amp_lessons/_course/exercises",
    "amp_lessons/_course/notebooks",
    "amp_lessons/_course/solutions",
    "amp_lessons/exercises/TOPIC/NAME.py",
    "docs/source/amp.md",  # PyTorch's, as the next one
    "tools/autograd/derivatives.yaml",
    "exercises/mine/deeper",
    "notebooks/9*.ipynb",
    "tools/no_such.py",
}
"""What is not here, and is named all the same."""
ABOUT_OTHERS = {
    Path(__file__).resolve(),
    ROOT / "tests/tools/test_check.py",
    ROOT / "tests/test_architecture.py",
}
"""Tests whose strings are about a repository that they make up."""


def strings(path: Path) -> Iterator[str]:
    """What may name something: a module's strings and docstrings, or the whole of a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield text
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def named_in(text: str) -> Iterator[str]:
    """Such as ``"amp_lessons.amp.numbers.formats:Format"``, and ``"docs/*.md"``."""
    yield from _MODULE.findall(text)
    for module, names in _IMPORT.findall(text):
        yield from (f"{module}:{name.split()[0]}" for name in names.strip("()").split(",") if name)
    yield from (name.rstrip(".") for name in _PATH.findall(text))


def exists(name: str, root: Path = ROOT) -> bool:
    """Whether something is called so, or begins so: the end may be put to it elsewhere."""
    if "/" in name:
        places = root, root / PACKAGE  # where an attack looks for answers
        return any(any(p.glob(name)) or any(p.glob(f"{name}*")) for p in places)
    place, parts = root, re.split("[.:]", name)
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    if not parts or (len(parts) == 1 and any(place.glob(f"{parts[0]}*"))):
        return True
    module = place / f"{parts[0]}.py"
    module, part = (module, parts[1]) if module.is_file() else (place / "__init__.py", parts[0])
    if part.startswith("__"):  # what Python gives to every module
        return True
    files = [path for path in (module, module.with_suffix(".pyi")) if path.is_file()]
    return any(re.search(rf"\b{part}\b", path.read_text("utf-8")) for path in files)


@pytest.fixture(scope="module")
def named() -> dict[str, set[str]]:
    """What is named, with the files that name it."""
    found = defaultdict(set)
    for path in {*PYTHON, *PAGES} - ABOUT_OTHERS:
        for text in strings(path):
            for name in named_in(text):
                found[name].add(path.relative_to(ROOT).as_posix())
    return found


def test_it_exists(named):
    gone = {name: places for name, places in named.items() if not exists(name)}
    assert len(named) > 200
    assert {*PYTHON} >= ABOUT_OTHERS
    assert {name: places for name, places in gone.items() if name not in MADE_UP} == {}
    assert gone.keys() >= MADE_UP, "no longer named, or there by now"


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ('"amp_lessons.amp.numbers.formats:Format.next_up", or amp_lessons.core.files', []),
        ("import amp_lessons.no_room.frames", ["amp_lessons.no_room.frames"]),
        (
            "from amp_lessons.classroom.grading import frames, spoons",
            ["amp_lessons.classroom.grading:spoons"],
        ),
        (
            "from amp_lessons.amp.numbers.formats import (\n  FP16,\n  FP12 as x)",
            ["amp_lessons.amp.numbers.formats:FP12"],
        ),
        ("tests/hostile/*.py and docs/classroom.md.", []),
        ("see tests/hostile/nobody.py", ["tests/hostile/nobody.py"]),
        ("https://example.org/docs/none.html and my/tests/none.py", []),
    ],
)
def test_what_does_not_exist_is_found(text, gone):
    assert [name for name in named_in(text) if not exists(name)] == gone


def test_a_path_that_a_module_keeps_exists():
    """`FOLDER`, `STATIC` and the like, which say where a module finds its data."""
    kept = {}
    path_of = re.compile(r"^[A-Z_]+ = .*(Path\(|\.parent|FOLDER|EXERCISES)", re.MULTILINE)
    for path in (ROOT / PACKAGE).rglob("*.py"):
        if path_of.search(path.read_text(encoding="utf-8")):
            dotted = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
            module = importlib.import_module(dotted.removesuffix(".__init__"))
            for name, value in vars(module).items():
                if isinstance(value, Path):
                    kept[f"{module.__name__}.{name}"] = value
    assert len(kept) > 15
    absent = {name for name, value in kept.items() if not value.exists()}
    assert absent == {f"{catalogue.__name__}.IN_WHEEL"}


def test_mypy_leaves_out_the_files_of_exercises_and_no_module():
    (pattern,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["exclude"]
    paths = (path.relative_to(ROOT).as_posix() for path in PYTHON)
    left_out = {path for path in paths if re.search(pattern, path)}
    topics = {each.slug for each in catalogue.LESSONS if each.exercises}
    assert {path.split("/")[2] for path in left_out} == topics
    assert not {path for path in left_out if Path(path).stem.startswith(("harness", "__init__"))}
