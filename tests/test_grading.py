"""Grading notebooks as learners hand them in: solved, untouched, broken, endless and hostile.

The notebooks are made from the course's own solutions, so this also proves that these get full
marks. A run costs about two seconds, so one notebook holds several mishaps where each must cost
only its own exercise.
"""

from __future__ import annotations

import io
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import SimpleNamespace

import pytest

from amp_lessons import checks, course, grading, ipynb
from amp_lessons.checks.exercise import Exercise
from amp_lessons.checks.verdict import Finding
from amp_lessons.grading import Limits, notebook, report, scratch, watch
from amp_lessons.ipynb import NotebookError

LESSON = course.LESSONS[1]
FIRST, SECOND, THIRD, FOURTH = (info.name for info in LESSON.exercises)
SHEET = Path(LESSON.sheet).name
LIMITS = Limits(cell=300.0, total=500.0, start=300.0)  # for a hang, on the busiest machine

NEVER_ENDS = """
import signal, subprocess, sys
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
sleep = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", sleep, "{child}"])
subprocess.Popen([sys.executable, "-c", sleep, "{stray}"], start_new_session=True)
while True:
    try:
        while True: pass
    except BaseException: pass
"""


class Sheet:
    """A solved notebook of lesson 01 that a test spoils, then saves and grades."""

    def __init__(self, path: Path, folder: str = "solutions") -> None:
        self.path = path
        self.notebook = ipynb.read(course.course_files() / folder / SHEET)

    @property
    def cells(self) -> list[ipynb.Cell]:
        return self.notebook["cells"]

    def index(self, grade_id: str) -> int:
        return [ipynb.grade_id(cell) for cell in self.cells].index(grade_id)

    def write(self, grade_id: str, source: str) -> None:
        self.cells[self.index(grade_id)]["source"] = source

    def add(self, source: str, at: int | None = None) -> None:
        cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
        self.cells.insert(len(self.cells) if at is None else at, cell | {"source": source})

    def save(self) -> Path:
        self.path.write_bytes(ipynb.to_bytes(self.notebook))
        return self.path

    def grade(self, limits: Limits = LIMITS) -> grading.Graded:
        return grading.grade(self.save(), limits)


@pytest.fixture
def sheet(tmp_path):
    return Sheet(tmp_path / "handed_in.ipynb")


def states(graded: grading.Graded) -> dict[str, str]:
    return {mark.exercise: str(mark.verdict.state) for mark in graded.marks}


def message(graded: grading.Graded, exercise: str) -> str:
    return next(mark.message for mark in graded.marks if mark.exercise == exercise)


@pytest.fixture
def time_passes(monkeypatch):
    """Let the grader's clock jump ahead once each of these files holds something: a cell that runs
    too long is then one that has begun, however slow the machine is."""

    def jump(seconds: float, *files: Path) -> None:
        jumped: list[float] = []

        def monotonic() -> float:
            if not jumped and all(file.exists() and file.read_text() for file in files):
                jumped.append(seconds)
            return time.monotonic() + sum(jumped)

        monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic=monotonic))

    return jump


# ---- answers ------------------------------------------------------------------------------------


def test_what_learners_write_and_where_they_are_told(sheet):
    """A stub, a wrong answer, an exception inside a function, and one in the cell itself."""
    sheet.write(FIRST, f"def {FIRST}(*args):\n    raise NotImplementedError")
    sheet.write(SECOND, f"def {SECOND}(*args):\n    return 3.0")
    sheet.write(THIRD, f"def {THIRD}(*args):\n    x = 1\n    return x + undefined_name")
    sheet.write(FOURTH, f"def {FOURTH}(*args)\n    return 3")
    sheet.add("ex = 'reused by the learner'", at=sheet.index(FIRST))
    graded = sheet.grade()
    assert states(graded) == {
        FIRST: "not attempted",
        SECOND: "wrong",
        THIRD: "error",
        FOURTH: "error",
    }
    assert "undefined_name" in message(graded, THIRD)
    assert "line 3" in message(graded, THIRD)
    assert "SyntaxError" in message(graded, FOURTH)
    assert "line 1" in message(graded, FOURTH)
    assert (graded.points, graded.of) == (0, LESSON.points)
    assert graded.gradable, "a wrong answer can be graded"


def test_what_is_odd_and_does_no_harm(sheet):
    """Magics, await, 2,000 lines, plots, forks, exits and errors in cells of the learner's."""
    harmless = [
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
        "!echo from the shell",
        "import asyncio\nawait asyncio.sleep(0)",
        "for i in range(2_000): print('line', i)",
        "import os\nos.fork()",
        "import sys\nsys.exit(3)",
        "input('your name? ')",
        "raise KeyboardInterrupt",
        "class E(BaseException): pass\nraise E",
        "print('\\ud800 and \\x1b[2J')",
        "ex.next_float.hint()\nex.next_float.solution(give_up=True)",
        "import os, tempfile\nopen('left.txt', 'w').write('x')\nmine = os.getcwd()",
    ]
    for source in harmless:
        sheet.add(source, at=sheet.index(SECOND))
    sheet.add(f"ex.{SECOND}.check(lambda x: 3)")  # a check of their own, after the real one
    graded = sheet.grade()
    assert set(states(graded).values()) == {"passed"}
    assert graded.points == graded.of
    assert graded.problems == ()
    assert not (sheet.path.parent / "home").exists(), "the learner's progress was touched"
    assert sorted(path.name for path in sheet.path.parent.iterdir()) == [sheet.path.name]


@pytest.mark.parametrize("line", ["''", "'far too many of them', 'x' * 40"])
def test_200_000_lines_cost_no_marks_and_are_reported_once(sheet, line):
    sheet.add(f"for i in range(200_000): print({line})", at=sheet.index(SECOND))
    graded = sheet.grade()
    assert graded.points == graded.of
    (problem,) = graded.problems
    assert problem.startswith("it printed far too much (")


def test_cells_that_end_everything_cost_only_their_exercise(sheet, tmp_path, time_passes):
    """A loop with children that no signal ends, os._exit, and a segmentation fault."""
    child, stray = tmp_path / "child", tmp_path / "stray"
    sheet.write(FIRST, NEVER_ENDS.replace("{child}", str(child)).replace("{stray}", str(stray)))
    sheet.write(SECOND, f"import os\ndef {SECOND}(*args):\n    os._exit(7)")
    sheet.write(THIRD, "import ctypes; ctypes.string_at(0)")
    time_passes(400, child, stray)
    graded = sheet.grade(Limits(cell=300.0, total=5000.0))
    assert states(graded) == {FIRST: "error", SECOND: "error", THIRD: "error", FOURTH: "passed"}
    assert "longer than 300 s" in message(graded, FIRST)
    assert "exit status 7" in message(graded, SECOND)
    assert "SIGSEGV" in message(graded, THIRD)
    assert len(graded.problems) == 3
    assert f"cell {sheet.index(FIRST) + 1} " in graded.problems[0]
    assert not graded.gradable
    for file in (child, stray):
        assert not alive(int(file.read_text())), f"the {file.name} outlived the grader"


def alive(pid: int) -> bool:
    """Whether a process still runs; a zombie that nobody has buried does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return not Path("/proc").is_dir()
    return status.rsplit(")", 1)[1].split()[0] not in "ZX"


def test_the_time_of_a_whole_notebook_is_limited(sheet, tmp_path, time_passes):
    """No cell takes too long by itself; the one that runs would take longer than a test may."""
    begun = tmp_path / "begun"
    waits = f"import time\nopen({str(begun)!r}, 'w').write('x')\ntime.sleep(3600)"
    sheet.add(waits, at=sheet.index(SECOND))
    time_passes(2000, begun)
    graded = sheet.grade(Limits(cell=9000.0, total=1000.0))
    assert states(graded)[FOURTH] == "error"
    assert "longer than 1000 s in all" in message(graded, FOURTH)
    assert not graded.gradable


NESTED = """
import os
here = os.getcwd()
for _ in range(3000):
    os.mkdir("d")
    os.chdir("d")
os.chdir(here)
os.makedirs("closed/inner")
os.chmod("closed", 0)
"""


def test_nested_folders_are_removed_and_cost_no_marks(sheet, tmp_path, monkeypatch):
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    sheet.add(NESTED, at=sheet.index(SECOND))
    graded = sheet.grade()
    assert (graded.points, graded.problems, graded.notes) == (graded.of, (), ())
    assert list(place.iterdir()) == []


def test_a_folder_that_cannot_be_removed_is_a_note(sheet, monkeypatch):
    @contextmanager
    def never_removed(left_behind):
        with scratch.scratch_folder() as folder:
            yield folder
        left_behind.append(folder)

    monkeypatch.setattr(watch, "scratch_folder", never_removed)
    graded = sheet.grade()
    assert graded.gradable
    assert graded.points == graded.of
    (note,) = graded.notes
    assert note.startswith("its temporary folder could not be removed: ")


# ---- repairs ------------------------------------------------------------------------------------


def test_deleted_copied_and_changed_checks(sheet):
    del sheet.cells[sheet.index(f"{FIRST}_check")]
    copy = dict(sheet.cells[sheet.index(f"{SECOND}_check")])
    sheet.add(f"def {SECOND}(*args): return 3.0")
    sheet.cells.append(copy)
    sheet.write(f"{THIRD}_check", "print('all tests passed')")
    sheet.cells[sheet.index(f"{FOURTH}_check")]["cell_type"] = "markdown"
    graded = sheet.grade()
    expected = {FIRST: "passed", SECOND: "wrong", THIRD: "passed", FOURTH: "passed"}
    assert states(graded) == expected
    assert len(graded.problems) == 3
    assert sum("is missing" in problem for problem in graded.problems) == 2
    assert sum("2 times" in problem for problem in graded.problems) == 1
    assert [note for note in graded.notes if THIRD in note and "was changed" in note]
    assert not graded.gradable


def test_a_notebook_that_lost_all_metadata_is_graded(sheet):
    for cell in sheet.cells:
        cell["metadata"] = {}
    sheet.notebook["metadata"] = {}
    sheet.cells[0]["source"] = ["a list ", "of parts"]
    graded = sheet.grade()
    assert set(states(graded).values()) == {"passed"}
    assert graded.problems == ()


def test_a_missing_set_up_cell_costs_no_check(sheet):
    """The checks find the course by themselves; what the learner imported is the learner's."""
    submission = notebook.read(sheet.save())
    assert [step.checks for step in submission.steps if step.checks] == [
        FIRST,
        SECOND,
        THIRD,
        FOURTH,
    ]
    sheet.cells[:] = [c for c in sheet.cells if "import number_formats" not in ipynb.source_of(c)]
    for grade_id in (FIRST, SECOND, THIRD, FOURTH):
        sheet.write(grade_id, f"def {grade_id}(*args): raise NotImplementedError")
    assert set(states(sheet.grade()).values()) == {"not attempted"}


# ---- files that cannot be graded ----------------------------------------------------------------

BAD_FILES = {
    "empty": (b"", "is empty"),
    "not JSON": (b'{"cells": [', "is not JSON"),
    "not UTF-8": (b'{"cells": "\xff"}', "is not UTF-8"),
    "a list": (b"[]", "not a notebook"),
    "another object": (b'{"a": 1}', "not a notebook"),
    "format 3": (b'{"nbformat": 3, "worksheets": []}', "format 3"),
    "cells of text": (b'{"nbformat": 4, "cells": ["x"]}', "cells"),
    "source a number": (
        b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": 3}]}',
        "cells",
    ),
    "a number of 5,000 digits": (
        b'{"nbformat": 4, "cells": [], "n": ' + b"9" * 5000 + b"}",
        "holds a number of more than 4,300 digits",
    ),
    "nested without end": (b"[" * 100_000, "nested"),
    "no exercise": (b'{"nbformat": 4, "cells": []}', "no exercise of the course"),
    "an exercise of another course": (
        b'{"nbformat": 4, "cells": [{"cell_type": "code", "metadata": {"nbgrader": '
        b'{"grade": true, "grade_id": "sort_list_check"}}, "source": "x"}]}',
        "no exercise of the course",
    ),
}


@pytest.mark.parametrize(("content", "says"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_file_that_is_no_notebook_of_ours(tmp_path, content, says):
    path = tmp_path / "bad.ipynb"
    path.write_bytes(content)
    graded = grading.grade(path)
    assert says in graded.problems[0]
    assert not graded.gradable
    assert graded.marks == ()


def test_paths_that_are_no_files(tmp_path):
    assert "does not exist" in grading.grade(tmp_path / "none.ipynb").problems[0]
    assert "is a folder" in grading.grade(tmp_path).problems[0]
    assert grading.grade(Path("/dev/zero")).problems


@pytest.mark.parametrize(
    ("owner", "name", "says"),
    [
        (notebook, "read", "it could not be read: RuntimeError: of all things"),
        (watch, "run", "it could not be graded: RuntimeError: of all things"),
        (checks, "find", "it could not be graded: RuntimeError: of all things"),
    ],
    ids=["read", "run", "judge"],
)
def test_what_goes_wrong_with_one_notebook_is_no_other_ones_problem(
    sheet, tmp_path, monkeypatch, owner, name, says
):
    unlucky, lucky = sheet.save(), tmp_path / "lucky.ipynb"
    lucky.write_bytes(unlucky.read_bytes())
    original, begun = getattr(owner, name), []

    def fail_once(*args):
        begun.append(args)
        if len(begun) == 1:
            raise RuntimeError("of all\nthings")
        return original(*args)

    monkeypatch.setattr(owner, name, fail_once)
    first, second = grading.grade_all([unlucky, lucky], LIMITS)
    assert first.problems == (says,)
    assert first.marks == ()
    assert second.gradable
    assert second.points == second.of == LESSON.points


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, watch.Stopped])
def test_what_ends_everything_still_does(sheet, monkeypatch, error):
    def end(*_):
        raise error

    monkeypatch.setattr(watch, "run", end)
    with pytest.raises(error):
        list(grading.grade_all([sheet.save()]))


def test_strange_metadata_is_no_metadata(sheet):
    for cell, metadata in zip(sheet.cells, [3, None, [], {"nbgrader": 3}], strict=False):
        cell["metadata"] = metadata
    assert notebook.read(sheet.save()).lesson is LESSON


def test_a_notebook_with_two_lessons_is_graded_as_the_fuller_one(sheet):
    other = course.LESSONS[2]
    cells = ipynb.read(course.course_files() / other.solutions)["cells"]
    sheet.cells.append(next(cell for cell in cells if ipynb.is_check(cell)))
    submission = notebook.read(sheet.save())
    assert submission.lesson is LESSON
    assert other.id in submission.problems[0]


def test_the_masters_checks_are_run_and_must_be_there(sheet, tmp_path, monkeypatch):
    monkeypatch.setattr(course, "course_files", lambda: tmp_path / "nowhere")
    with pytest.raises(NotebookError, match="the course's own"):
        notebook.checks_of(LESSON)
    graded = grading.grade(sheet.save())
    assert "the course's own" in graded.problems[0]


# ---- what the child says ------------------------------------------------------------------------


def test_evidence_counts_only_from_the_check_that_runs(sheet):
    submission = notebook.read(sheet.save())
    run = watch.Run()
    attempt = watch._Attempt(submission, run, LIMITS, 0.0, Event())
    first = next(i for i, step in enumerate(submission.steps) if step.checks == FIRST)
    for forged in (
        {"step": first, "exercise": FIRST, "evidence": 1},  # before it has begun
        {"begin": 10**9},
        {"begin": "x"},
        {"end": -1, "error": {"type": "X"}},
        {"step": first, "exercise": SECOND, "evidence": 1},
        {},
    ):
        attempt._take(forged)
    assert run.evidence == {}
    assert run.errors == {}
    attempt._take({"begin": first})
    attempt._take({"step": first, "exercise": SECOND, "evidence": 1})
    attempt._take({"step": first, "exercise": FIRST, "evidence": {"x": 1}})
    assert run.evidence == {FIRST: {"x": 1}}


@pytest.mark.parametrize("evidence", [None, 3, "x", [], {}, {"value": 1}, [[[]]], {"error": 3}])
def test_damaged_evidence_is_never_a_pass(sheet, evidence):
    submission = notebook.read(sheet.save())
    run = watch.Run(evidence={info.name: evidence for info in LESSON.exercises})
    for info in LESSON.exercises:
        mark = grading._mark(info, submission, run)
        assert not mark.verdict.passed
        assert mark.points == 0


def test_evidence_that_cannot_be_judged_is_a_problem_for_a_person(sheet, monkeypatch):
    forged = watch.Run(evidence={FIRST: [{"value": 1}]})
    monkeypatch.setattr(watch, "run", lambda *_: forged)
    (problem,) = sheet.grade().problems
    assert problem.startswith(f"{FIRST}: What this check reported cannot be judged (")
    assert problem.endswith("Look at this answer yourself.")


# ---- reports ------------------------------------------------------------------------------------


def test_references_run_one_at_a_time_though_notebooks_run_together(monkeypatch):
    """They seed torch's global random numbers and hook its optimizers, so two would mix."""
    running, most = [], []

    def judge(evidence):
        running.append(evidence)
        most.append(len(running))
        time.sleep(0.02)
        running.remove(evidence)
        return Finding()

    info = course.exercise_info("survives")
    exercise = Exercise(checks.find(info.name).path)
    monkeypatch.setattr(exercise, "find", judge)
    monkeypatch.setattr(checks, "find", lambda name: exercise)
    submission = SimpleNamespace(steps_of=lambda name: ())
    run = SimpleNamespace(stopped={}, evidence={info.name: []})
    with ThreadPoolExecutor(4) as pool:
        marks = [pool.submit(grading._mark, info, submission, run) for _ in range(4)]
        assert all(mark.result().points == info.points for mark in marks)
    assert most == [1, 1, 1, 1]


def test_the_json_has_all_that_the_table_has(tmp_path):
    from amp_lessons.checks.verdict import State, Verdict

    verdict = Verdict(State.WRONG, "Off by\none. \x1b[2J", "off-by-one", ("f(1): 2",))
    graded = grading.Graded(tmp_path / "a.ipynb", LESSON.id, (report.Mark(FIRST, verdict, 0, 2),))
    data = json.loads(json.dumps(report.as_json([graded])))
    entry = data["notebooks"][0]["exercises"][FIRST]
    assert entry == {
        "state": "wrong",
        "points": 0,
        "of": 2,
        "diagnosis": "off-by-one",
        "message": "Off by one. [2J",
        "seen": ["f(1): 2"],
    }
    assert data["gradable"] is True
    assert (data["points"], data["of"]) == (0, 2)


def test_the_json_is_written_as_notebooks_are_graded(tmp_path):
    from amp_lessons.checks.verdict import State, Verdict

    right, wrong = Verdict(State.PASSED), Verdict(State.WRONG, "No.\n\ud800", "no")
    all_graded = [
        grading.Graded(tmp_path / "a.ipynb", LESSON.id, (report.Mark(FIRST, right, 2, 2),)),
        grading.Graded(tmp_path / "b.ipynb", problems=("this file is empty",)),
        grading.Graded(tmp_path / "c.ipynb", LESSON.id, (report.Mark(FIRST, wrong, 0, 2),)),
    ]
    path = tmp_path / "marks.json"
    with path.open("w", encoding="utf-8") as stream:
        document = report.JsonWriter(stream)
        for number, graded in enumerate(all_graded, start=1):
            document.add(graded)
            _, *lines = path.read_text().splitlines()  # what a killed grader leaves
            so_far = [json.loads(line.removesuffix(",")) for line in lines]
            assert so_far == report.as_json(all_graded[:number])["notebooks"]
        document.close()
    data = json.loads(path.read_text())
    assert data == report.as_json(all_graded)
    assert list(data) == ["notebooks", "points", "of", "gradable"]


def test_the_json_of_no_notebooks_is_valid_too(tmp_path):
    stream = io.StringIO()
    report.JsonWriter(stream).close()
    assert json.loads(stream.getvalue()) == report.as_json([])


def test_a_slow_notebook_does_not_hold_back_the_others(tmp_path, monkeypatch):
    others_are_here = Event()

    def grade(path, limits, stop):
        if path.name == "slow.ipynb":
            others_are_here.wait(timeout=500)
        return grading.Graded(path)

    monkeypatch.setattr(grading, "grade", grade)
    names = ["slow.ipynb", "a.ipynb", "b.ipynb", "c.ipynb"]
    seen = []
    for graded in grading.grade_all([tmp_path / name for name in names], jobs=2):
        seen.append(graded.path.name)
        if len(seen) == 3:
            others_are_here.set()
    assert seen == ["a.ipynb", "b.ipynb", "c.ipynb", "slow.ipynb"]


def test_a_table_fits_a_terminal_and_prints_no_control_characters(tmp_path):
    from rich.console import Console

    from amp_lessons.checks.verdict import State, Verdict

    marks = tuple(
        report.Mark(f"{FIRST}_{number}", Verdict(state, "[bold]\x1b[31m " + "long " * 40), 0, 2)
        for number, state in enumerate(State)
    )
    console = Console(width=80, record=True, markup=False, file=(tmp_path / "out").open("w"))
    console.print(report.table(grading.Graded(tmp_path / "[red]a.ipynb", LESSON.id, marks)))
    text = console.export_text()
    assert "\x1b" not in text
    assert "[bold]" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_sheet_that_was_answered_under_former_names_is_graded(tmp_path):
    """Its cells, its imports and its functions say what the exercises were once called."""
    lesson = course.lesson_called("autocast_ops")
    text = (course.course_files() / lesson.solutions).read_text(encoding="utf-8")
    text = text.replace("fix_mismatches", "mend_mismatches")
    text = text.replace("from amp_lessons.exercises import", "from amp_lessons.checks import")
    path = tmp_path / "answered.ipynb"
    path.write_text(text, encoding="utf-8")
    graded = grading.grade(path)
    assert graded.problems == ()
    assert {mark.exercise: mark.points for mark in graded.marks} == {
        info.name: info.points for info in lesson.exercises
    }
