"""Dependencies point one way, and what must be quick to import is."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import amp_lessons

PACKAGE = Path(amp_lessons.__file__).parent
# The floors of the house, from the ground up: a room imports from the floors below its own.
FLOORS = (
    {"foundations", "pictures", "es_modules", "interrupts", "roofline"},
    {"course", "progress", "ipynb", "terminal", "server", "boxes", "device", "set_up"},
    {
        "attention",
        "formats",
        "models",
        "timing",
        "pretend_gpu",
        "records",
        "policy_record",
    },
    {"plain_data", "torch_state", "op_watch", "authoring", "recipe", "profiles", "handout"},
    {"messages", "scaler_log", "fakes", "lookup"},
    {"float8", "loss_scale", "checkpoint", "clinic", "policy", "trace", "standing", "doors"},
    {"training", "memory", "experiments"},
    {"roofline_plot"},
    {"plots", "myths", "call_order", "patients", "budget"},
    {"bench", "checks", "distributed", "overview", "gain_plots", "monitoring"},
    {"exercises", "step_timing"},
    {"home", "quiz"},
    {"widgets", "workspace", "slides", "workshop"},
    {"doctor", "grading", "interview", "lab", "model_commands"},
    {"class_view"},
    {"cli"},
    {"__main__"},
)
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name. An exercise's file is data, not a module."""
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = list(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        is_exercise = parts[1] == "exercises" and len(parts) == 4
        if is_exercise and parts[-1] != "__init__" and not parts[-1].startswith("stage"):
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


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


@pytest.fixture(scope="module")
def graph() -> dict[str, set[str]]:
    return imports(modules())


def test_every_room_has_a_floor(graph):
    assert {room(module) for module in graph} - {""} == set(FLOOR)


def test_imports_point_down(graph):
    assert len(graph) > 100, "the test sees no modules"
    wrong = [
        f"{module} imports {other}"
        for module, others in graph.items()
        for other in others
        if "" not in (room(module), room(other)) and room(module) != room(other)
        if FLOOR[room(other)] >= FLOOR[room(module)]
    ]
    assert wrong == []


def test_no_circles_of_any_length_also_inside_a_room(graph):
    assert circles(graph) == []


def test_a_circle_is_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"d", "e"}, "d": {"b"}, "e": set()}
    assert circles(graph) == [["b", "c", "d", "b"]]


def test_no_floor_is_a_bag():
    assert max(map(len, FLOORS)) <= 8


@pytest.mark.parametrize(
    "module", ["amp_lessons", "amp_lessons.course", "amp_lessons.progress", "amp_lessons.cli"]
)
def test_import_does_not_bring_torch(module):
    code = f"import {module}, sys; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
