"""The public part stands alone: a process without the answer key can probe every exercise, and
finds no line of a solution anywhere."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import amp_lessons
from amp_lessons.core.catalogue import LESSONS
from amp_lessons.exercises import checks
from amp_lessons.exercises.checks.parts import write_public_parts

PACKAGE = Path(amp_lessons.__file__).parent
EXERCISES = [info.name for lesson in LESSONS for info in lesson.exercises]

PLANTED = "asked_for: what an answer should return, for the diagnosis"
"""A line of the package, asked for as if it were a solution's."""

# Runs in a fresh process on a cut copy of the package; told the lines to look for on stdin.
SEARCH = """
import gc, inspect, json, os, sys, types
from pathlib import Path

lines = json.load(sys.stdin)
import amp_lessons
from amp_lessons.exercises import checks
from amp_lessons.core.catalogue import LESSONS

names = [info.name for lesson in LESSONS for info in lesson.exercises]
for name in names:
    exercise = checks.find_exercise(name)
    assert len(exercise.probe.all_cases) > 0
    exercise.evidence_of(lambda *args, **kwargs: None)  # the probe runs
    exercise.hints, exercise.public.stub
    assert exercise.verdict([{"value": 0}]).check_failed, name

texts = []
seen = set()
def look(value, depth=0):
    if id(value) in seen or depth > 4:
        return
    seen.add(id(value))
    if isinstance(value, str):
        texts.append(value)
    elif isinstance(value, bytes):
        texts.append(value.decode("utf-8", "replace"))
    elif isinstance(value, types.CodeType):
        for part in value.co_consts:
            look(part, depth + 1)
    elif isinstance(value, types.FunctionType):
        look(value.__code__)
        for cell in value.__closure__ or ():
            try:
                look(cell.cell_contents, depth + 1)
            except ValueError:
                pass
        for part in (value.__defaults__ or ()):
            look(part, depth + 1)
    elif isinstance(value, dict):
        for key, item in list(value.items()):
            look(key, depth + 1); look(item, depth + 1)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in list(value):
            look(item, depth + 1)

mine = [m for name, m in list(sys.modules.items()) if name.startswith("amp_lessons")]
for value in [*map(vars, mine), *gc.get_objects()]:
    if value is not lines and value is not texts:
        look(value)
found = {}
for text in texts:
    for exercise, wanted in lines.items():
        for line in wanted:
            if line != text and line in text:
                found.setdefault(exercise, []).append(["memory", line])
for path in Path(amp_lessons.__file__).parent.rglob("*"):
    if path.is_file():
        data = path.read_bytes().decode("utf-8", "replace")
        for exercise, wanted in lines.items():
            for line in wanted:
                if line in data:
                    found.setdefault(exercise, []).append([str(path), line])
print(json.dumps({"probed": len(names), "texts": len(texts), "found": found}))
"""


def solution_lines() -> dict[str, list[str]]:
    """For each exercise the lines of its solution that are long, and that no other file has and no
    cell that a learner is given."""
    files = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    found = {}
    for name in EXERCISES:
        exercise = checks.find_exercise(name)
        given = exercise.public.stub + "".join(cell.text for cell in exercise.public.cells)
        others = "".join(text for path, text in files.items() if path != exercise.path)
        lines = {line.strip() for line in exercise.solved().splitlines()}
        found[name] = [x for x in lines if len(x) > 30 and x not in given and x not in others]
    return found


@pytest.fixture(scope="module")
def cut_copy(tmp_path_factory) -> Path:
    """A copy of the package that holds the public parts alone."""
    folder = tmp_path_factory.mktemp("cut")
    kept = shutil.ignore_patterns("__pycache__", "_course", "bank", "static")
    shutil.copytree(PACKAGE, folder / "amp_lessons", ignore=kept)
    write_public_parts(folder / "amp_lessons")
    return folder


@pytest.fixture(scope="module")
def output(cut_copy) -> dict[str, Any]:
    """What a process with the cut copy finds, of the solutions' lines and of one that is there."""
    lines = solution_lines()
    assert sum(map(bool, lines.values())) > len(EXERCISES) / 2, "nothing to look for"
    done = subprocess.run(
        [sys.executable, "-c", SEARCH],
        input=json.dumps(lines | {"planted": [PLANTED]}),
        env=os.environ | {"PYTHONPATH": str(cut_copy), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=cut_copy,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_process_without_the_answer_key_finds_no_line_of_a_solution(output):
    assert output["probed"] == len(EXERCISES)
    assert output["texts"] > 10_000, "the search saw no memory"
    assert {name: places for name, places in output["found"].items() if name != "planted"} == {}


def test_the_search_finds_a_line_that_is_there(output):
    places = {place for place, _ in output["found"]["planted"]}
    assert "memory" in places
    assert any(place.endswith("diagnosis.py") for place in places)


def test_no_cut_file_holds_a_secret_cell(cut_copy, subtests):
    for name in EXERCISES:
        with subtests.test(name):
            topic = cut_copy / "amp_lessons/exercises" / checks.find_exercise(name).lesson.slug
            text = (topic / f"{name}.py").read_text()
            ast.parse(text)
            for word in ("# %% wrong", "# %% right", "# %% judge", "# %% passed", "BEGIN SOLUTION"):
                assert word not in text
            assert "# %% probe" in text


def test_a_probe_knows_no_right_answer(subtests):
    """The public part of a file names nothing of the answer key."""
    for name in EXERCISES:
        with subtests.test(name):
            names = set(checks.find_exercise(name).public.names)
            assert "judge" not in names
            assert not any(
                module.startswith("amp_lessons.exercises.checks.diagnosis") for module in names
            )
