"""Dependencies point one way, and what must be quick to import is."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import amp_lessons

PACKAGE = Path(amp_lessons.__file__).parent
# From the foundations up: a module may import from its own room and from those before it.
ROOMS = (
    ("course", "renamed", "progress", "standing", "terminal", "interrupts", "ipynb", "casebook"),
    ("es_modules",),
    ("device", "fake_cuda"),
    (
        "formats",
        "policy",
        "policy_record",
        "pretend_gpu",
        "roofline",
        "scaling",
        "scaler",
        "training",
        "checkpoint",
        "distributed",
        "float8",
        "models",
        "trace",
        "memory",
        "timing",
        "records",
        "myths",
        "clinic",
    ),
    ("plots", "checks"),
    ("quiz",),
    ("home",),
    ("widgets", "grading", "workspace", "doctor", "server", "lab", "bench", "overview"),
    ("interview", "cli"),
    ("__main__",),
)
LEVEL = {name: level for level, names in enumerate(ROOMS) for name in names}


def imports() -> dict[str, set[str]]:
    """For each top-level module or package of ours, those of ours that it imports."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        names = found.setdefault(room, set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = []
            if isinstance(node, ast.ImportFrom) and node.module:
                modules = [node.module]
                if node.module == "amp_lessons":
                    modules = [f"amp_lessons.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            names |= {m.split(".")[1] for m in modules if m.startswith("amp_lessons.")}
        names.discard(room)
    return found


def test_every_module_has_a_room():
    assert set(imports()) == set(LEVEL)


def test_imports_point_one_way():
    found = imports()
    assert found["checks"], "the test sees no imports"
    wrong = [
        f"{module} imports {other}"
        for module, others in found.items()
        for other in others
        if other in LEVEL and LEVEL[other] > LEVEL[module]
    ]
    assert not wrong


def test_no_circles_between_modules_of_one_room():
    found = imports()
    for module, others in found.items():
        for other in others:
            assert module not in found.get(other, set()), f"{module} and {other} import each other"


@pytest.mark.parametrize(
    "module", ["amp_lessons", "amp_lessons.course", "amp_lessons.progress", "amp_lessons.cli"]
)
def test_import_does_not_bring_torch(module):
    code = f"import {module}, sys; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
