"""A hand-out without solutions: closed without the code, open with it, and give-ups on record."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import stat
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from amp_lessons.app import cli, workspace
from amp_lessons.app.workspace import handing_out
from amp_lessons.app.workspace.errors import WorkspaceError
from amp_lessons.core import handout, ipynb, progress
from amp_lessons.core.catalogue import HOME, LESSONS
from amp_lessons.core.handout import FILE, RECORD, Handout, HandoutError
from amp_lessons.exercises import checks

NAMES = [info.name for lesson in LESSONS for info in lesson.exercises]
EXERCISE, OTHER = "survives", "next_float"


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    """A hand-out as its instructor made it. Tests work in copies."""
    place = tmp_path_factory.mktemp("instructor") / "class_a"
    message = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(message):
        patch.setenv("AMP_LESSONS_HOME", str(place.parent / "home"))
        progress.record_lesson("number_formats")  # the instructor has been busy
        progress.record_check(OTHER, "passed")
        assert call("lab", "--no-solutions", place, "--make-only") == 0
    assert f"{place}_codes.txt" in message.getvalue()
    assert "honest learners honest" in message.getvalue()
    return place


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as leaving:
        cli.main([str(word) for word in words])
    return leaving.value.code


@pytest.fixture(scope="module")
def codes(original) -> dict[str, str]:
    text = original.with_name("class_a_codes.txt").read_text(encoding="utf-8")
    return {name: code for code, name in re.findall(r"^ +(\w{4}-\w{4})  (\w+)", text, re.MULTILINE)}


@pytest.fixture
def learner(original, tmp_path, monkeypatch) -> Path:
    """A learner's copy, in the folder of a sheet's kernel."""
    place = tmp_path / "from the stick" / "amp"
    shutil.copytree(original, place)
    monkeypatch.chdir(place / "exercises")
    return place


@pytest.fixture
def exercise():
    return checks.find_exercise(EXERCISE)


def record(learner: Path) -> progress.Progress:
    return progress.parse((learner / "exercises" / RECORD).read_bytes(), "the record")


# ---- what is in it ------------------------------------------------------------------------------


def test_no_code_is_in_the_folder(original, codes):
    """And no answer, which `test_secrets` looks for."""
    files = [path.read_text(encoding="utf-8") for path in original.rglob("*") if path.is_file()]
    everything = "\n".join(files)
    assert EXERCISE in everything
    assert codes
    assert not [code for code in codes.values() if code in everything]
    assert not [code for code in codes.values() if code.replace("-", "") in everything]


def test_each_exercise_has_a_code_of_its_own_on_a_page_that_only_its_owner_reads(original, codes):
    assert list(codes) == NAMES
    assert len(set(codes.values())) == len(NAMES)
    if os.name == "posix":
        page = original.with_name("class_a_codes.txt")
        assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_the_home_page_shows_nothing_of_the_instructors_progress(original):
    page = (original / HOME).read_text(encoding="utf-8")
    assert "Start: lesson 00" in page
    assert "When you opened the course" not in page


def test_for_a_workspace_it_is_as_if_nobody_had_changed_anything(learner):
    copied = workspace.copy_course(learner)
    changed = [*copied.kept, *copied.kept_older, *copied.kept_beside, *copied.foreign]
    assert changed == []


# ---- opening a solution -------------------------------------------------------------------------


def test_giving_up_takes_the_code(learner, exercise, codes, capsys):
    exercise.solution()
    assert "ask your instructor for its code" in told(capsys)
    exercise.solution(give_up=True)
    assert "Your instructor holds the code of this exercise" in told(capsys)
    exercise.solution(give_up=True, code=codes[OTHER])
    assert "This is not the code of this exercise" in told(capsys)
    exercise.solution(code=codes[EXERCISE])
    assert "give_up=True" in told(capsys)
    assert progress.load()[EXERCISE].gave_up_at is None
    assert not (learner / "exercises" / RECORD).exists()
    exercise.solution(give_up=True, code=codes[EXERCISE])
    assert exercise.solved() in capsys.readouterr().out
    kept = record(learner)[EXERCISE]
    assert kept.gave_up_at == progress.load()[EXERCISE].gave_up_at is not None
    exercise.solution()  # and stays open
    assert exercise.solved() in capsys.readouterr().out


def told(capsys: pytest.CaptureFixture[str]) -> str:
    """The box that was shown, on one line; it's no solution."""
    text = " ".join(capsys.readouterr().out.split())
    assert "The solution is still closed" in text
    assert "def survives" not in text
    return text


def test_after_a_pass_it_opens_without_a_code(learner, exercise, capsys):
    progress.record_check(EXERCISE, "passed")
    exercise.solution()
    assert exercise.solved() in capsys.readouterr().out
    assert record(learner)[EXERCISE].passed


def test_a_give_up_at_home_shows_in_the_hand_out_as_well(learner, exercise):
    progress.record_give_up(EXERCISE)
    exercise.hint()
    assert record(learner)[EXERCISE].gave_up_at is not None


def test_attempts_are_not_limited(learner, exercise, codes, capsys):
    for guess in ("", "0000-0000", 1234, "é" * 1000, "\ud800", codes[OTHER]):
        exercise.solution(give_up=True, code=guess)
        assert "still closed" in told(capsys)
    exercise.solution(give_up=True, code=codes[EXERCISE])
    assert exercise.solved() in capsys.readouterr().out


def test_a_code_may_be_spelled_as_people_spell_codes():
    held = Handout.from_codes({EXERCISE: "K0QF-1M9V", OTHER: "K0QF-1M9V"}, Path())
    for spelled in ("K0QF-1M9V", "k0qf1m9v", " K0QF 1M9V ", "koqf-im9v", "KOQF-LM9U", "K0QF–1M9V"):
        assert held.opens(EXERCISE, spelled), spelled
    for other in ("K0QF-1M9", "K0QF-1M9VV", "J0QF-1M9V", ""):
        assert not held.opens(EXERCISE, other)
    assert not held.opens("no_such_exercise", "K0QF-1M9V")
    assert held.hashes[EXERCISE] != held.hashes[OTHER], "one table of hashes would fit all"


def test_outside_a_hand_out_nothing_has_changed(tmp_path, monkeypatch, exercise, capsys):
    monkeypatch.chdir(tmp_path)
    assert handout.find() is None
    exercise.solution()
    assert "run the same cell with solution(give_up=True)" in told(capsys)
    exercise.solution(give_up=True)
    assert exercise.solved() in capsys.readouterr().out
    assert list(tmp_path.glob("*.json")) == []


# ---- where it is found --------------------------------------------------------------------------


@pytest.mark.parametrize("where", [".", "exercises", "notebooks", "exercises/mine/deeper"])
def test_it_is_found_from_every_folder_of_the_copy(learner, monkeypatch, where):
    (learner / where).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(learner / where)
    found = handout.find()
    assert found is not None
    assert found.folder == learner / "exercises"


def test_a_server_names_it_for_all_its_learners(learner, tmp_path, monkeypatch, codes):
    place = tmp_path / "ada"
    place.mkdir()
    monkeypatch.setenv(handout.VARIABLE, str(learner / "exercises" / FILE))
    monkeypatch.chdir(place)
    found = handout.find()
    assert found is not None
    assert found.opens(EXERCISE, codes[EXERCISE])
    assert handout.keep(EXERCISE, progress.ExerciseRecord()) == []
    assert (place / RECORD).exists()


def test_a_deleted_current_folder_is_no_hand_out(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "cwd", lambda: os.stat(tmp_path / "gone"))
    assert handout.find() is None


# ---- what is broken -----------------------------------------------------------------------------

BROKEN = {
    "empty": b"",
    "half": b'{"version": 1, "salt": "00',
    "a list": b"[]",
    "no codes": b'{"version": 1, "salt": "00"}',
    "odd hex": b'{"version": 1, "salt": "00", "codes": {"survives": "xyz"}}',
    "version as text": b'{"version": "1", "salt": "00", "codes": {}}',
    "deep": b"[" * 100_000,
    "digits": b"9" * 5000,
    "newer": b'{"version": 2, "salt": "00", "codes": {}}',
}


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_file_keeps_the_solution_closed_and_says_so(learner, exercise, capsys, content):
    (learner / "exercises" / FILE).write_bytes(content)
    exercise.solution(give_up=True)
    assert "its solutions can't be opened" in told(capsys)
    exercise.check(lambda x: x > 0)
    out = capsys.readouterr().out
    assert out.startswith("✘ Wrong")
    assert FILE in re.sub(r"\s", "", out)
    assert progress.load()[EXERCISE].checks == 1


def test_a_record_that_cannot_be_written_is_a_note_below_the_box(learner, exercise, capsys):
    (learner / "exercises" / RECORD).mkdir()
    exercise.check(lambda x: x > 0)
    text = capsys.readouterr().out
    assert text.startswith("✘ Wrong")
    assert "Your instructor's copy of your progress was not saved" in " ".join(text.split())


def test_a_broken_record_is_named_and_left_alone(learner, exercise, capsys):
    (learner / "exercises" / RECORD).write_text("{")
    exercise.hint()
    text = " ".join(capsys.readouterr().out.split())
    assert "is not a progress file" in text
    assert (learner / "exercises" / RECORD).read_text() == "{"


# ---- what is kept -------------------------------------------------------------------------------


def test_checks_hints_and_diagnoses_are_kept_beside_the_sheets(learner, exercise):
    exercise.check(lambda x: x > 0)
    exercise.hint(2)
    kept = record(learner)[EXERCISE]
    assert (kept.state, kept.checks, kept.hints) == ("wrong", 1, 2)
    assert {*kept.extra["diagnosis"].split(" + ")} <= {*exercise.diagnoses}
    assert kept.extra["checked_at"].endswith("+00:00")
    assert list(record(learner).entries) == [EXERCISE], "other exercises are nobody's business"


def test_nothing_is_taken_back_when_the_learner_forgets(learner):
    progress.record_check(EXERCISE, "passed")
    given_up = progress.record_give_up(EXERCISE)[EXERCISE]
    handout.keep(EXERCISE, given_up, "")
    progress.forget([EXERCISE])
    handout.keep(EXERCISE, progress.record_check(EXERCISE, "wrong")[EXERCISE], "off-by-one")
    kept = record(learner)[EXERCISE]
    assert (kept.gave_up_at, kept.passed_at) == (given_up.gave_up_at, given_up.passed_at)
    assert (kept.state, kept.extra["diagnosis"]) == ("wrong", "off-by-one")


# ---- making one ---------------------------------------------------------------------------------


def test_it_keeps_its_codes_when_it_is_made_again_and_opened(learner, monkeypatch, capsys):
    from amp_lessons.app import lab

    started = []
    monkeypatch.setattr(lab, "start", lambda words, folder, **_: started.append(folder) or 0)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(learner.parent / "jupyter"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(learner.parent / "runtime"))
    file = learner / "exercises" / FILE
    before = file.read_bytes()
    assert call("lab", learner, "--no-solutions", "--no-browser") == 0
    out = capsys.readouterr().out
    assert "Its codes are the ones that you got then" in out
    assert "Somebody has worked in it" not in out
    assert file.read_bytes() == before
    assert started == [learner]
    assert not learner.with_name("amp_codes.txt").exists()


def test_it_says_if_somebody_has_worked_in_it(learner, capsys):
    sheet = learner / LESSONS[1].sheet
    notebook = ipynb.read(sheet)
    notebook["cells"][-1]["source"] = "my answer"
    sheet.write_bytes(ipynb.to_bytes(notebook))
    handout.keep(EXERCISE, progress.ExerciseRecord())
    assert call("lab", "--no-solutions", learner, "--make-only") == 0
    out = capsys.readouterr().out
    assert "Somebody has worked in it" in out
    assert f"sheet 01, exercises/{RECORD}" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--make-only", "--port", "0"), "--make-only opens nothing"),
        (("--no-solutions",), "name a folder for the hand-out"),
        (("--no-solutions", "mine"), "has files in it"),
        (("--no-solutions", "again"), "codes of another hand-out"),
        (("--no-solutions", "a_file"), "a_file is a file"),
        (("--no-solutions", "broken"), "is broken"),
    ],
)
def test_what_cannot_be_a_hand_out_is_one_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    for name in ("mine/notes.txt", "again_codes.txt", "a_file", f"broken/exercises/{FILE}"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{")
    assert call("lab", *words) != 0
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line
    assert (tmp_path / "again_codes.txt").read_text() == "{"
    assert not (tmp_path / "mine_codes.txt").exists()


def test_codes_that_open_nothing_are_not_left(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(handing_out, "copy_course", lambda folder: None)
    monkeypatch.setattr(handing_out, "write_atomically", full)
    with pytest.raises(WorkspaceError, match=r"No space left on device.*is not complete"):
        handing_out.hand_out(tmp_path / "class")
    assert not (tmp_path / "class_codes.txt").exists()


def test_a_handout_error_is_one_line(tmp_path):
    with pytest.raises(HandoutError, match="cannot be read"):
        Handout.read(tmp_path / FILE, tmp_path)
