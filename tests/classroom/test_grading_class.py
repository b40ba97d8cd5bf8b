"""A class graded as instructors grade one: all at once, one learner again, interrupted, packed; and
what honest people do with a sheet's cells."""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from grading_class import LESSON, LIMITS, SHEET, Sheet, open_class

from amp_lessons.app import cli
from amp_lessons.classroom import grading
from amp_lessons.classroom.grading import Batch, GradingOptions, notebook
from amp_lessons.classroom.grading.judging import Judges
from amp_lessons.classroom.grading.kept import Results
from amp_lessons.core import ipynb

FIRST, SECOND, THIRD, FOURTH = (info.name for info in LESSON.exercises)


@pytest.fixture(scope="module")
def batch():
    with open_class() as batch:
        yield batch


@pytest.fixture
def sheet(tmp_path, batch):
    (tmp_path / "sub/ada").mkdir(parents=True)
    return Sheet(tmp_path / "sub/ada" / SHEET, batch)


def steps(sheet: Sheet) -> list[tuple[str, str, str]]:
    """What runs: the exercise that a step checks or solves, and its source."""
    found = notebook.read(sheet.save()).steps
    return [(step.checks, step.solves, step.source) for step in found]


def answer(sheet: Sheet, name: str) -> str:
    return ipynb.source_of(sheet.cells[sheet.index(name)])


STUB = "def {}(*args):\n    raise NotImplementedError"


@pytest.mark.parametrize(
    "check",
    [
        "# mine\n{answer}\n\nex.{name}.check({name})\nprint('done')",
        "result = ex.{name}.check(mine)  # it works",
        "if True:\n    ex.{name}.check(kept['mine'])",
        "%time ex.{name}.check(mine)",
        "print(ex.{name}.check(lambda *given: mine(*given)))",
        "check = ex.{name}.check; check(mine)",
    ],
)
def test_a_changed_check_runs_as_it_is(sheet, check):
    """The answer stands in it, or has another name, or the call another form."""
    written = answer(sheet, SECOND)
    mine = written.replace(SECOND, "mine") + "\nkept = {'mine': mine}"
    sheet.write(SECOND, STUB.format(SECOND) if "{answer}" in check else mine)
    sheet.write(f"{SECOND}_check", check.format(answer=written, name=SECOND))
    graded = sheet.grade()
    assert (graded.points, graded.problems, graded.notes) == (graded.of, (), ())


@pytest.mark.parametrize(
    "check",
    [
        f"ex.{SECOND}.check(nowhere)",
        f"ex.{SECOND}.check(lambda x: x)",
        f"ex.{SECOND}.check({SECOND}, {FIRST})",
        f"ex.{FIRST}.check({SECOND})",
        f"ex.{SECOND}.check",
        "pass",
        "def (",
    ],
)
def test_where_a_changed_check_does_not_pass_the_courses_own_counts(sheet, check):
    sheet.write(f"{SECOND}_check", check)
    graded = sheet.grade()
    assert (graded.points, graded.problems) == (graded.of, ())
    assert any(f"the course's own check of {SECOND}, below cell" in note for note in graded.notes)


def test_an_answer_above_its_check_is_found_without_any_metadata(sheet):
    written = answer(sheet, SECOND)
    sheet.write(SECOND, STUB.format(SECOND))
    sheet.write(f"{SECOND}_check", f"{written}\nex.{SECOND}.check({SECOND})")
    for cell in sheet.cells:
        cell["metadata"] = {}
        cell.pop("id", None)
    checks = dict.fromkeys(each[0] for each in steps(sheet) if each[0])
    assert [*checks] == [FIRST, SECOND, THIRD, FOURTH]
    assert notebook.read(sheet.path).problems == ()


def test_what_honest_people_do_with_their_cells_costs_no_marks(sheet):
    """An answer in the check's cell, one renamed with its check, and one in a module beside it."""
    first, second, third = (answer(sheet, name) for name in (FIRST, SECOND, THIRD))
    sheet.write(FIRST, STUB.format(FIRST))
    sheet.write(f"{FIRST}_check", f"{first}\nex.{FIRST}.check({FIRST})")
    sheet.write(SECOND, second.replace(SECOND, "mine"))
    sheet.write(f"{SECOND}_check", f"ex.{SECOND}.check(mine)")
    sheet.write(THIRD, f"from helper import {THIRD}\nassert open('data.txt').read() == 'data'")
    steps(sheet)
    beside = "import torch\nfrom amp_lessons.amp.numbers.formats import FP16\n\n"
    (sheet.path.parent / "helper.py").write_text(f"{beside}{third}")
    (sheet.path.parent / "data.txt").write_text("data")
    (sheet.path.parent / "torch.py").write_text("raise RuntimeError('not this one')")
    (graded,) = sheet.batch.grade(grading.collect([sheet.path.parent]))
    assert graded.problems == ()
    assert {mark.exercise: mark.points for mark in graded.marks} == {
        info.name: info.points for info in LESSON.exercises
    }, [mark.message for mark in graded.marks]


# ---- a class of six, graded in every way --------------------------------------------------------

SIX = ("ada", "ben", "cem", "dora", "eva", "finn")
OF = LESSON.points
WRONG = f"def {SECOND}(*args):\n    return 3.0"


@pytest.fixture
def class_of_six(tmp_path):
    """Six learners: all right, one wrong, in folders of their own, and one whose last cell ends the
    process."""
    top = tmp_path / "sub"
    places = ("", "exercises", "work/exercises", "", "", "")
    for learner, place in zip(SIX, places, strict=True):
        sheet = Sheet(top / learner / place / SHEET)
        if learner in ("ben", "eva"):
            sheet.write(SECOND, WRONG)
        if learner == "finn":
            sheet.add("import os; os._exit(7)")
        sheet.path.parent.mkdir(parents=True)
        sheet.save()
    return top


@pytest.fixture
def grade(batch, tmp_path, monkeypatch, capsys):
    """`amp-lessons grade` with the sandbox and judges that stand open. Gives what it printed."""

    @contextmanager
    def opened(options: GradingOptions, lessons=None) -> Iterator[Batch]:
        results = Results(options.results, options.conditions) if options.results else None
        options = replace(options, limits=LIMITS)
        yield Batch(options, batch._starter, batch._reader, batch._judges, "salt", results)

    def call(*words: object, status: int = 0) -> str:
        with pytest.raises(SystemExit) as leaving:
            cli.main(["grade", *map(str, words), "--jobs", "2"])
        message = capsys.readouterr()
        assert leaving.value.code == status, message.err
        assert "Traceback" not in message.err
        return message.out + message.err

    monkeypatch.setattr(grading, "open_batch", opened)
    monkeypatch.chdir(tmp_path)
    return call


def marks(file: Path) -> dict[str, tuple[str, str, bool]]:
    """By learner: points, of how many, and whether somebody has to look."""
    with file.open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    return {row["learner"]: (row["points"], row["of"], bool(row["look at"])) for row in rows}


def rows(found: dict[str, tuple[str, str, bool]]) -> str:
    return "\n".join(f"{name:6}{' '.join(map(str, cells))}" for name, cells in found.items())


@pytest.mark.slow
def test_the_same_six_rows_however_the_class_is_named(class_of_six, grade, tmp_path, capsys):
    worth = next(info.points for info in LESSON.exercises if info.name == SECOND)
    full, less = (str(OF), str(OF), False), (str(OF - worth), str(OF), False)
    expected = dict(zip(SIX, (full, less, full, full, less, (*full[:2], True)), strict=True))
    learners = sorted(Path("sub").iterdir())
    grade("sub", "--csv", "1.csv", status=1)
    grade(*learners, "--csv", "2.csv", status=1)

    grade("sub", "--results", "kept", "--csv", "3.csv", status=1)
    message = grade("sub/ben", "--results", "kept", "--csv", "3.csv", "--html", "pages")
    assert "5 other notebooks of 5 learners stand as they were graded before" in message
    assert len(list(Path("pages/learners").iterdir())) == 6
    shutil.copy("1.csv", "4.csv")
    for learner in SIX:  # one after the other, with the CSV file alone
        grade(f"sub/{learner}", "--csv", "4.csv", status=int(learner == "finn"))

    graded, whole = Batch._graded, Batch._result

    def interrupted(*arguments):
        if len(list(Path("again/results").glob("*.json"))) >= 3:
            raise KeyboardInterrupt
        return graded(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Batch, "_graded", interrupted)
        grade("sub", "--results", "again", "--csv", "5.csv", status=130)
    kept = {file.name: file.stat().st_mtime_ns for file in Path("again/results").iterdir()}
    assert 3 <= len(kept) < 6
    assert not Path("5.csv").exists()
    grade("sub", "--results", "again", "--csv", "5.csv", status=1)
    for name, when in kept.items():
        assert (Path("again/results") / name).stat().st_mtime_ns == when, "it was graded again"
    assert Batch._result is whole

    Path("zips").mkdir()
    for learner in SIX:
        shutil.make_archive(f"zips/{learner}", "zip", f"sub/{learner}")
    shutil.make_archive("class", "zip", ".", "sub")
    shutil.make_archive("class", "gztar", ".", "sub")
    grade(*sorted(Path("zips").iterdir()), "--csv", "6.csv", status=1)
    grade("zips", "--csv", "7.csv", status=1)
    grade("class.zip", "--csv", "8.csv", status=1)
    grade("class.tar.gz", "--csv", "9.csv", status=1)
    for number in range(1, 10):
        assert marks(Path(f"{number}.csv")) == expected, number
    with capsys.disabled():
        if os.environ.get("SHOW_ROWS"):
            print("\n" + rows(marks(Path("1.csv"))))


@pytest.mark.slow
def test_trust_mends_one_learner_and_stays(class_of_six, grade):
    grade("sub", "--results", "kept", "--csv", "m.csv", status=1)
    assert marks(Path("m.csv"))["finn"][2]
    grade("sub/finn", "--trust", "Finn", "--results", "kept", "--csv", "m.csv")
    before = marks(Path("m.csv"))
    assert list(before) == list(SIX)
    assert not before["finn"][2]
    grade("sub", "--results", "kept", "--csv", "m.csv")
    assert marks(Path("m.csv")) == before, "what a person has looked at was graded as before"
    Path("m.csv").unlink()
    grade(*sorted(Path("sub").iterdir()), "--trust", "finn", "--csv", "m.csv")
    assert marks(Path("m.csv")) == before
    message = grade("sub", "--trust", "fin", status=2)
    assert "--trust: no learner here is called 'fin'; try finn" in message


def test_only_what_was_set_is_counted(class_of_six, grade):
    grade("sub", "--csv", "m.csv", "--exercises", f"{FIRST},{SECOND}", "--html", "pages", status=1)
    set_ = sum(info.points for info in LESSON.exercises if info.name in (FIRST, SECOND))
    assert {of for _, of, _ in marks(Path("m.csv")).values()} == {str(set_)}
    page = Path("pages/class.html").read_text()
    assert f"of {set_}</small>" in page
    assert "<dt>Full marks</dt><dd>4</dd>" in page
    message = grade("sub", "--exercises", "next_flota", status=1)
    (only,) = message.strip().splitlines()
    assert "no exercise is called 'next_flota'; did you mean next_float" in only
    (only,) = grade("sub", "--plan", "5h", status=1).strip().splitlines()
    assert "no plan is called '5h'; there are 2h, 4h, 8h" in only
    message = grade("sub/ada", "--plan", "4h")
    assert "none of its exercises was set" in message


def test_a_roster_says_who_is_missing(class_of_six, grade):
    Path("roster.csv").write_text("Student,ID\nAda,11\nben,12\nGil Gone,17\n")
    message = grade("sub", "--roster", "roster.csv", "--csv", "m.csv", "--html", "pages", status=1)
    assert "missing, 1 of 3 on the list: Gil Gone" in message
    assert "not on the list: cem; dora; eva; finn" in message
    assert marks(Path("m.csv"))["Gil Gone"] == ("0", str(OF), True)
    assert "to look at, 1 of 6:" in message
    assert f"held the class up, with those who did not pass: {SECOND} (2 of 6)" in message
    grade("sub", "--roster", "roster.csv", "--csv", "c.csv", "--layout", "canvas", status=1)
    assert "Ada,11," in Path("c.csv").read_text(encoding="utf-8-sig")
    assert "names nobody" in grade("sub", "--roster", "/dev/null", status=1)


def test_a_csv_of_another_kind_is_refused_before_anything_runs(class_of_six, grade, monkeypatch):
    Path("m.csv").write_text("shopping\nmilk\n")
    monkeypatch.setattr(grading, "collect", None)
    message = grade("sub", "--csv", "m.csv", status=1)
    assert "m.csv holds another table, which would be lost" in message


# ---- what is left -------------------------------------------------------------------------------


@pytest.mark.slow
def test_judges_leave_nothing_in_the_temporary_folder(tmp_path, monkeypatch):
    """What an exercise compiles makes torch write a folder `torchinductor_<user>` there."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with closing(Judges("salt")) as judges:
        assert judges.prepare("compiled_gradients"), "its judge has not even started"
    assert list(tmp_path.iterdir()) == []
