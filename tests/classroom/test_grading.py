"""Grading notebooks as learners hand them in: solved, untouched, broken and endless.

The notebooks are made from the course's own solutions, so this also proves that these get full
marks. What attackers hand in is in `test_hostile`.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from pathlib import Path
from threading import Event

import pytest
from grading_class import (
    LESSON,
    LIMITS,
    Sheet,
    message,
    open_class,
    processes_with,
    states,
    with_options,
)

from amp_lessons.classroom import grading
from amp_lessons.classroom.grading import Limits, frames, notebook, watch
from amp_lessons.classroom.grading.frames import TooLong, packed
from amp_lessons.classroom.grading.judging import Judges
from amp_lessons.classroom.grading.reading import NotebookReader
from amp_lessons.core import catalogue, ipynb
from amp_lessons.core.ipynb import NotebookError

FIRST, SECOND, THIRD, FOURTH = (info.name for info in LESSON.exercises)
SHORT = Limits(cell=2.0, total=60.0)

NEVER_ENDS = """
import signal, subprocess, sys
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, signal.SIG_IGN)
sleep = "import time; time.sleep(600)"
subprocess.Popen([sys.executable, "-c", sleep, "{marker}"])
subprocess.Popen([sys.executable, "-c", sleep, "{marker}"], start_new_session=True)
while True:
    try:
        while True: pass
    except BaseException: pass
"""


@pytest.fixture(scope="module")
def batch():
    with open_class() as batch:
        yield batch


@pytest.fixture(scope="module")
def without_sandbox():
    with open_class("none", jobs=1) as batch:
        yield batch


@pytest.fixture
def sheet(tmp_path, batch):
    return Sheet(tmp_path / "handed_in.ipynb", batch)


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
    """Magics, await, 2,000 lines, plots, exits and errors in cells of the learner's."""
    harmless = [
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplotted = 1",
        "assert plotted",
        "!echo from the shell\nshown = 1",
        "assert shown",
        "import asyncio\nawait asyncio.sleep(0)",
        "for i in range(2_000): print('line', i)",
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
    assert sorted(path.name for path in sheet.path.parent.iterdir()) == [sheet.path.name]


@pytest.mark.parametrize("line", ["''", "'far too many of them', 'x' * 40"])
def test_200_000_lines_cost_no_marks_and_are_reported_once(sheet, line):
    sheet.add(f"for i in range(200_000): print({line})", at=sheet.index(SECOND))
    graded = sheet.grade()
    assert graded.points == graded.of
    (problem,) = graded.problems
    assert problem.startswith("it printed far too much (")


@pytest.mark.parametrize("sandbox", ["required", pytest.param("none", marks=pytest.mark.long)])
def test_cells_that_end_everything_cost_only_their_exercise(sheet, without_sandbox, sandbox):
    """A loop with children that no signal ends, os._exit, and a segmentation fault."""
    marker = f"marker-{os.getpid()}-{sandbox}"
    sheet.write(FIRST, NEVER_ENDS.replace("{marker}", marker))
    sheet.write(SECOND, f"import os\ndef {SECOND}(*args):\n    os._exit(7)")
    sheet.write(THIRD, "import ctypes; ctypes.string_at(0)")
    if sandbox == "none":
        sheet.batch = without_sandbox
    graded = sheet.grade(SHORT)
    assert states(graded) == {FIRST: "error", SECOND: "error", THIRD: "error", FOURTH: "passed"}
    assert "longer than 2 s" in message(graded, FIRST)
    assert "exit status 7" in message(graded, SECOND)
    assert "SIGSEGV" in message(graded, THIRD)
    assert len(graded.problems) == 3
    assert f"cell {sheet.index(FIRST) + 1} " in graded.problems[0]
    assert not graded.gradable
    assert processes_with(marker) == []


def test_the_time_of_a_whole_notebook_is_limited(sheet):
    """No cell takes too long by itself; the one that runs would take longer than a test may."""
    sheet.add("import time\ntime.sleep(3600)", at=sheet.index(SECOND))
    graded = sheet.grade(Limits(cell=9000.0, total=3.0))
    assert states(graded)[FOURTH] == "error"
    assert "longer than 3 s in all" in message(graded, FOURTH)
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


@pytest.mark.slow
def test_nested_folders_are_removed_and_cost_no_marks(
    sheet, without_sandbox, tmp_path, monkeypatch
):
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    sheet.batch = without_sandbox
    sheet.add(NESTED, at=sheet.index(SECOND))
    graded = sheet.grade()
    assert (graded.points, graded.problems, graded.notes) == (graded.of, (), ())
    assert list(place.iterdir()) == []


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
    assert graded.problems == ()
    assert sum("is missing" in note for note in graded.notes) == 2
    assert sum("2 times" in note for note in graded.notes) == 1
    assert [note for note in graded.notes if f"the course's own check of {THIRD}" in note]


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


def test_an_answer_below_its_check_counts(sheet):
    """The stub stands where it was, and the learner wrote their answer in a cell of their own."""
    answer = ipynb.source_of(sheet.cells[sheet.index(FIRST)])
    sheet.write(FIRST, f"def {FIRST}(*args):\n    raise NotImplementedError")
    sheet.add(answer)
    graded = sheet.grade()
    assert set(states(graded).values()) == {"passed"}
    assert graded.problems == ()
    (note,) = graded.notes
    assert note.startswith(f"the check of {FIRST}, once more below cell")


def test_a_later_experiment_costs_nothing(sheet):
    sheet.add(f"def {FIRST}(*args): return 'an experiment'")
    graded = sheet.grade()
    assert graded.points == graded.of
    assert graded.notes == ()


def test_cells_without_metadata_are_found_by_their_ids(sheet):
    for cell in sheet.cells:
        cell["metadata"] = {}
    sheet.write_by_id = {cell["id"]: cell for cell in sheet.cells}
    sheet.write_by_id[FIRST.replace("_", "-")]["source"] = f"{FIRST} = 3"
    sheet.write_by_id[f"{SECOND.replace('_', '-')}-check"]["source"] = "print('passed')"
    graded = sheet.grade()
    assert states(graded) == {FIRST: "error", SECOND: "passed", THIRD: "passed", FOURTH: "passed"}


def test_moved_and_split_cells(sheet):
    """All answers come first, one of them in two cells, then all checks."""
    answers = [c for c in sheet.cells if ipynb.is_solution(c)]
    checks = [c for c in sheet.cells if ipynb.is_check(c)]
    rest = [c for c in sheet.cells if c not in answers and c not in checks]
    sheet.cells[:] = [*rest, *answers, *checks]
    lines = ipynb.source_of(answers[1]).splitlines(keepends=True)
    answers[1]["source"] = "helper = 3\n"
    sheet.add("".join(lines), at=sheet.cells.index(answers[1]) + 1)
    graded = sheet.grade()
    assert set(states(graded).values()) == {"passed"}
    assert graded.problems == ()


@pytest.mark.parametrize(
    "spoil",
    ["sys.stdout = None", "sys.stdout.close()", "os.close(1)", "sys.stdout = sys.stderr = 3"],
)
def test_who_spoils_the_output_is_named_and_loses_nothing(sheet, spoil):
    sheet.add(f"import os, sys\n{spoil}", at=sheet.index(SECOND))
    sheet.add("print('still here')", at=sheet.index(THIRD))
    place = sheet.index(SECOND)
    graded = sheet.grade()
    assert graded.points == graded.of
    (note,) = graded.notes
    assert note == f"cell {place} replaced or closed the standard output: it was put back"


USES = "from amp_lessons.amp.numbers.formats import FP16\nkept = FP16.next_up(1.0)\nfound = 1.5\n"


def test_what_is_closed_raises_and_the_rest_of_the_cell_runs(sheet):
    place = sheet.index(SECOND)
    sheet.add(f"{USES}kept + 1\nlater = found + 1", at=place)
    sheet.add("assert later == 2.5", at=place + 1)
    graded = sheet.grade()
    assert (graded.points, graded.problems) == (graded.of, ())
    (note,) = graded.notes
    closed = "called Format.next_up, which this sheet asks for: that is closed in the grader"
    assert note == f"cell {place + 1} {closed}"


def test_an_answer_that_calls_what_is_closed_is_wrong(sheet):
    answer = "def next_float(x):\n    try: return FP16.next_up(x)\n    except Exception: return x"
    sheet.write("next_float", f"from amp_lessons.amp.numbers.formats import FP16\n{answer}")
    graded = sheet.grade()
    assert states(graded)["next_float"] == "wrong"
    assert message(graded, "next_float").startswith("Your answer uses `Format.next_up`")
    sheet.batch = with_options(sheet.batch, trusted=frozenset({graded.learner}))
    trusted = sheet.grade()
    assert (trusted.points, trusted.problems) == (trusted.of, ())


def test_a_cell_that_failed_earlier_is_named(sheet):
    sheet.add("import pandas_of_tomorrow\nlimit = 3", at=sheet.index(FIRST))
    sheet.write(FIRST, f"def {FIRST}(*args): return limit")
    graded = sheet.grade()
    assert "'limit' is not defined" in message(graded, FIRST)
    (note,) = graded.notes
    assert note.startswith(f"cell {sheet.index(FIRST)} ended with ModuleNotFoundError: ")


def test_a_solution_that_was_given_up_for_is_told(sheet):
    sheet.add(f"ex.{THIRD}.solution(give_up=True)")
    sheet.add(f"# ex.{FIRST}.solution(give_up=True)")
    assert sheet.grade().gave_up == (THIRD,)


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
def test_a_file_that_is_no_notebook_of_ours(tmp_path, batch, content, says):
    path = tmp_path / "bad.ipynb"
    path.write_bytes(content)
    (graded,) = batch.grade(grading.collect([path]))
    assert says in graded.problems[0]
    assert not graded.gradable
    assert graded.marks == ()


def test_paths_that_are_not_files(tmp_path, batch):
    (graded,) = batch.grade(grading.collect([tmp_path / "none.ipynb"]))
    assert "does not exist" in graded.problems[0]
    (graded,) = batch.grade(grading.collect([Path("/dev/zero")]))
    assert "is not an ordinary file" in graded.problems[0]


@pytest.mark.parametrize(
    ("owner", "name", "says"),
    [
        (NotebookReader, "read", "it could not be graded: RuntimeError: of all things"),
        (watch, "run", "it could not be graded: RuntimeError: of all things"),
        (Judges, "verdict", "it could not be graded: RuntimeError: of all things"),
    ],
    ids=["read", "run", "judge"],
)
def test_what_goes_wrong_with_one_notebook_is_no_other_ones_problem(
    sheet, batch, tmp_path, monkeypatch, owner, name, says
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
    all_graded = list(batch.grade(grading.collect([unlucky, lucky])))
    first, second = sorted(all_graded, key=lambda graded: graded.gradable)
    assert first.problems == (says,)
    assert first.marks == ()
    assert second.gradable
    assert second.points == second.of == LESSON.points


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, watch.Stopped])
def test_what_ends_everything_still_does(sheet, batch, monkeypatch, error):
    def end(*_):
        raise error

    monkeypatch.setattr(watch, "run", end)
    with pytest.raises(error):
        list(batch.grade(grading.collect([sheet.save()])))


def test_a_slow_notebook_does_not_hold_back_the_others(tmp_path, batch, monkeypatch):
    others_are_here = Event()

    def graded(handed_in, content, beside, trusted):
        if handed_in.learner == "slow":
            others_are_here.wait(timeout=500)
        return grading.Graded(handed_in.name, handed_in.learner)

    monkeypatch.setattr(batch, "_graded", graded)
    names = ["slow", "a", "b", "c"]
    for name in names:
        (tmp_path / f"{name}.ipynb").write_text("{}")
    seen = []
    for graded in batch.grade(grading.collect([tmp_path / f"{name}.ipynb" for name in names])):
        seen.append(graded.learner)
        if len(seen) == 3:
            others_are_here.set()
    assert seen == ["a", "b", "c", "slow"]


def test_strange_metadata_is_no_metadata(sheet):
    for cell, metadata in zip(sheet.cells, [3, None, [], {"nbgrader": 3}], strict=False):
        cell["metadata"] = metadata
    assert notebook.read(sheet.save()).lesson is LESSON


def test_a_notebook_with_two_lessons_is_graded_as_the_fuller_one(sheet):
    other = catalogue.LESSONS[2]
    cells = ipynb.read(catalogue.course_files() / other.solutions)["cells"]
    sheet.cells.append(next(cell for cell in cells if ipynb.is_check(cell)))
    submission = notebook.read(sheet.save())
    assert submission.lesson is LESSON
    assert other.id in submission.problems[0]


def test_the_masters_checks_are_run_and_must_be_there(sheet, tmp_path, monkeypatch):
    notebook._own_cells.cache_clear()
    monkeypatch.setattr(catalogue, "course_files", lambda: tmp_path / "nowhere")
    with pytest.raises(NotebookError, match="the course's own"):
        notebook.checks_of(LESSON)
    with pytest.raises(NotebookError, match="the course's own"):
        notebook.read(sheet.save())


# ---- what the notebook's process says -----------------------------------------------------------


def test_evidence_counts_only_from_the_check_that_runs(sheet):
    submission = notebook.read(sheet.save())
    run = watch.NotebookRun()
    attempt = watch._Attempt(submission, run, LIMITS, 0.0, Event(), trusted=False)
    first = next(i for i, step in enumerate(submission.steps) if step.checks == FIRST)
    for forged in (
        {"step": first, "exercise": FIRST},  # before it has begun
        {"begin": 10**9},
        {"begin": "x"},
        {"end": -1, "error": {"type": "X"}},
        {"step": first, "exercise": SECOND},
        {},
    ):
        attempt._take(forged, b"1")
    assert run.evidence == {}
    assert run.errors == {}
    attempt._take({"begin": first}, b"")
    attempt._take({"step": first, "exercise": SECOND}, b"1")
    attempt._take({"step": first, "exercise": FIRST}, b"2")
    assert run.evidence == {FIRST: b"2"}


def test_frames_come_out_as_they_went_in_however_they_are_cut():
    sent = [({"begin": 1}, b""), ({"step": 1, "exercise": "x"}, bytes(range(256)) * 40)]
    data = b"".join(packed(header, evidence) for header, evidence in sent)
    for size in (1, 3, 1000, len(data)):
        reader = frames.FrameReader()
        pieces = [data[i : i + size] for i in range(0, len(data), size)]
        assert [frame for piece in pieces for frame in reader.feed(piece)] == sent


@pytest.mark.parametrize(
    "data",
    [b"\xff\xff\xff\xff", packed({})[:6] + b"\xff\xff\xff\xff", b"GARBAGE" * 100],
    ids=["header", "evidence", "garbage"],
)
def test_frames_that_are_too_long_are_refused_before_they_are_read(data):
    with pytest.raises(TooLong):
        list(frames.FrameReader().feed(data))


def test_too_many_frames_are_refused():
    with pytest.raises(TooLong):
        list(frames.FrameReader().feed(packed({"begin": 1}) * (frames.MOST_FRAMES + 1)))


def test_headers_that_are_no_json_are_left_out():
    garbage = packed({})[:4] + b"{]" + packed({})[6:]
    assert list(frames.FrameReader().feed(garbage + packed({"done": True}))) == [
        ({"done": True}, b"")
    ]


@pytest.mark.parametrize(
    "evidence",
    [
        *(None, 3, "x", [], {}, {"value": 1}, [[[]]], {"error": 3}, [{"value": 1}]),
        *(b"", b"\xff", b"[" * 100_000, b"9" * 5000, b"NaN", b'{"unattempted": '),
    ],
    ids=repr,
)
def test_damaged_evidence_is_never_a_pass(judges, evidence):
    content = evidence if isinstance(evidence, bytes) else json.dumps(evidence).encode()
    assert not judges.verdict(FIRST, content).passed


def test_evidence_that_cannot_be_judged_is_a_problem_for_a_person(judges):
    text = judges.verdict(FIRST, b'[{"value": 1}]')
    assert text.check_failed
    assert text.message.startswith("What this check reported cannot be judged (")
    assert text.message.endswith("Look at this answer yourself.")


@pytest.fixture(scope="module")
def judges():
    judges = Judges("a seed for tests")
    yield judges
    judges.close()


@pytest.mark.slow
def test_a_judge_that_ends_is_started_again():
    with closing(Judges("a seed for tests")) as judges:
        _end_a_judge(judges)


def _end_a_judge(judges: Judges) -> None:
    before = judges.verdict(FIRST, b"[]")
    judge = judges._judges[0]
    judge._process.kill()
    judge._process.wait()
    assert judges.verdict(FIRST, b"[]") == before, "equal evidence is not judged twice"
    broken = judges.verdict(FIRST, b"[1]")
    assert broken.check_failed
    assert "cannot be judged" in broken.message
    assert judges.verdict(FIRST, b"[2]").message == before.message


@pytest.mark.long
def test_right_answers_of_all_sheets_do_without_what_is_closed(tmp_path):
    for lesson in catalogue.LESSONS:
        if lesson.exercises:
            solved = (catalogue.course_files() / lesson.solutions).read_bytes()
            (tmp_path / f"{lesson.slug}.ipynb").write_bytes(solved)
    for graded in grading.grade_all([tmp_path], grading.GradingOptions(LIMITS, jobs=2)):
        assert (graded.points, graded.problems) == (graded.of, ()), graded.name
