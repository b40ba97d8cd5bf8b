"""A class of 500, a tenth of it hostile: nothing is lost, and every honest mark is right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from grading_class import make_class

ROOT = Path(__file__).resolve().parents[2]
HONEST, HOSTILE = 450, 50

GRADE = """
import json, random, sys, tempfile, time
from pathlib import Path
from amp_lessons.classroom import grading
from hostile import class_room
from hostile.corpus import HOSTILE
from hostile.machine import machine
honest, count = Path(sys.argv[1]), int(sys.argv[2])
reached = []
chosen = random.Random(5).sample(HOSTILE, count)
with tempfile.TemporaryDirectory() as folder:
    with machine(Path(folder), class_room.evidence_from_home(), reached) as around:
        for submission in chosen:
            (honest / submission.name).mkdir()
            submission.put(honest / submission.name, around)
        began = time.monotonic()
        limits = grading.Limits(cell=2.0, total=20.0, memory=512, processes=64)
        options = grading.GradingOptions(limits, jobs=2, sandbox="required")
        points = {}
        for graded in grading.grade_all([honest], options):
            points.setdefault(graded.learner, []).append(graded.points)
        seconds = time.monotonic() - began
print(json.dumps({"points": points, "reached": reached, "seconds": seconds,
                  "hostile": [s.name for s in chosen]}))
"""


@pytest.mark.long
def test_a_class_of_500_with_a_tenth_of_it_hostile(tmp_path, capsys):
    expected = make_class(tmp_path / "class", HONEST)
    env = os.environ | {"PYTHONPATH": str(ROOT / "tests"), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-c", GRADE, str(tmp_path / "class"), str(HOSTILE)]
    run = subprocess.run(words, capture_output=True, text=True, env=env, cwd=ROOT / "tests")
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout)
    with capsys.disabled():
        print(f"\n{HONEST + HOSTILE} submissions, {HOSTILE} hostile: {found['seconds']:.0f} s")
    assert {name: found["points"].get(name) for name in expected} == {
        name: [points] for name, points in expected.items()
    }
    assert set(found["hostile"]) <= found["points"].keys(), "a hostile submission was lost"
    assert found["reached"] == []
