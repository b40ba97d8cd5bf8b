"""Imports point one way: from a wing to those below it, and never in a circle."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import amp_lessons

PACKAGE = Path(amp_lessons.__file__).parent
# From the ground up. A wing imports from those below it; those of one floor not from each other.
FLOORS = (
    {"core"},
    {"amp"},
    {"exercises"},
    {"quiz"},
    {"lessons", "classroom"},
    {"app"},
)
FLOOR = {wing: number for number, wings in enumerate(FLOORS) for wing in wings}
FILES = {"__init__.py", "__init__.pyi", "__main__.py", "py.typed"}


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name. An exercise's file is data, not a module."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = list(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        is_exercise = parts[1] == "exercises" and len(parts) == 4 and parts[2] != "checks"
        if is_exercise and parts[-1] != "__init__" and not parts[-1].startswith("harness"):
            continue
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports(found: dict[str, Path]) -> dict[str, set[str]]:
    """For each module those of ours that it imports, also inside functions and for types alone."""
    graph: dict[str, set[str]] = {}
    for name, path in found.items():
        targets: set[str] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for alias in node.names:
                    inside = f"{node.module}.{alias.name}"
                    targets.add(inside if inside in found else node.module)
            elif isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
        graph[name] = {target for target in targets if target in found and target != name}
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Circles of imports, of any length: each as the modules that lead back to the first."""
    done: set[str] = set()
    found: list[list[str]] = []

    def follow(module: str, way: list[str]) -> None:
        if module in way:
            found.append([*way[way.index(module) :], module])
            return
        if module not in done:
            for other in sorted(graph.get(module, ())):
                follow(other, [*way, module])
            done.add(module)

    for module in sorted(graph):
        follow(module, [])
    return found


def wing(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def room(module: str) -> str:
    """A folder or a module of a wing: ``amp_lessons.amp.speed`` for all that lies below it."""
    return ".".join(module.split(".")[:3])


def by_room(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The graph of the rooms. What a wing's own `__init__` offers lazily is nobody's import."""
    found: dict[str, set[str]] = {}
    for module, others in graph.items():
        here = found.setdefault(room(module), set())
        here |= {room(other) for other in others} - {room(module)}
    return found


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    return imports(modules())


def test_the_house_has_seven_wings_and_nothing_else_beside_them():
    there = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    assert there == FLOOR.keys() | FILES


def test_imports_point_down(graph):
    assert len(graph) > 100, "the test sees no modules"
    wrong = [
        f"{module} imports {other}"
        for module, others in graph.items()
        for other in others
        if "" not in (wing(module), wing(other)) and wing(module) != wing(other)
        if "__main__" not in (wing(module), wing(other))
        if FLOOR[wing(other)] >= FLOOR[wing(module)]
    ]
    assert wrong == []


def test_nothing_in_the_house_takes_the_learners_vocabulary():
    """It reaches every wing, and no import would show which."""
    wrong = [
        f"{name}: {alias.name}"
        for name, path in modules().items()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "amp_lessons"
        for alias in node.names
        if alias.name not in {*FLOOR, "__main__", "__version__"}
    ]
    assert wrong == []


def test_no_circles_of_modules(graph):
    assert circles(graph) == []


def test_no_circles_between_the_folders_of_a_wing(graph):
    assert circles(by_room(graph)) == []


def test_a_circle_is_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"d", "e"}, "d": {"b"}, "e": set()}
    assert circles(graph) == [["b", "c", "d", "b"]]


def test_a_circle_of_folders_is_found():
    graph = {
        "amp_lessons.amp.speed.one": {"amp_lessons.amp.memory.two"},
        "amp_lessons.amp.memory.other": {"amp_lessons.amp.speed.third"},
    }
    assert circles(graph) == []
    (found,) = circles(by_room(graph))
    assert found[0] == found[-1] == "amp_lessons.amp.memory"


@pytest.mark.parametrize(
    "module",
    [
        "amp_lessons",
        "amp_lessons.core.catalogue",
        "amp_lessons.core.progress",
        "amp_lessons.app.cli",
    ],
)
def test_import_does_not_bring_torch(module):
    code = f"import {module}, sys; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
