"""No answer stands in what learners are given or a sandboxed notebook sees.

The answers come from where they are written, and are looked for in real copies, in files of any
name. `test_sandbox` makes the same search from inside. To compare the counts before and after
files are moved: ``python -m pytest tests/classroom/test_secrets.py -k counts -rP``.
"""

from __future__ import annotations

import compileall
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from answers import (
    EXERCISES,
    all_answers,
    files_in,
    files_of_the_package,
    kind,
    owner,
    search,
)
from leaks import UNREADABLE, Files, Search

from amp_lessons.app import workspace
from amp_lessons.app.workspace import handing_out
from amp_lessons.classroom.grading.sandbox import rootfs
from amp_lessons.classroom.workshop import reading
from amp_lessons.core import catalogue, ipynb
from amp_lessons.core.handout import FILE, SHEETS
from amp_lessons.exercises.checks.parts import SHARED
from amp_lessons.quiz import bank
from amp_lessons.quiz.generators import GENERATORS

SHOWN_DATA = {
    *("app/jupyter_config/labconfig", "app/jupyter_config_learner/labconfig"),
    *("app/labextensions/amp-lessons", "app/labextensions/amp-lessons/static"),
    *("amp/errors/entries", "amp/policy_record/recorded", "amp/training"),
    *("amp/speed/profiles", "amp/speed/records", "amp/speed/published"),
    *("core/static", "quiz/static", "quiz/exports/static"),
    *("exercises/checks/static", "lessons/widgets", "lessons/widgets/static"),
}
"""Folders of the package with files that are no modules, and that tell no answer."""

KINDS = {
    *("solution", "judge cell", "passed cell", "right cell", "wrong cell", "rule cell"),
    *("program cell", "shared cell", "question", "generator", "workshop"),
}
"""What is looked for. A cell of an exercise's file that becomes open is to be noticed here."""

COPIES = "import sys; from pathlib import Path; "
COPIES += "from amp_lessons.classroom.grading.sandbox import rootfs; "
COPIES += "print(rootfs.copy_without_secrets(Path(sys.argv[1])))"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory) -> Path:
    """The package as the submissions of a checkout see it."""
    return rootfs.copy_without_secrets(tmp_path_factory.mktemp("sandbox"))


@pytest.fixture(scope="module")
def sandbox_of_a_wheel(tmp_path_factory) -> Path:
    """The same where the package is installed: with the solutions, and compiled by pip."""
    site, folder = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("copy")
    package = site / rootfs.PACKAGE.name
    shutil.copytree(rootfs.PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("notebooks", "exercises", "solutions"):
        shutil.copytree(catalogue.course_files() / name, package / catalogue.IN_WHEEL.name / name)
    topic = package / EXERCISES[0].path.parent.relative_to(rootfs.PACKAGE)
    assert compileall.compile_dir(topic, quiet=1)
    environment = os.environ | {"PYTHONPATH": str(site)}
    command = [sys.executable, "-P", "-c", COPIES, folder]
    made = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return Path(made.stdout.strip())


@pytest.fixture(scope="module")
def handed_out(tmp_path_factory) -> Path:
    """What an instructor gives to learners."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AMP_LESSONS_HOME", str(tmp_path_factory.mktemp("home")))
        return handing_out.hand_out(tmp_path_factory.mktemp("instructor") / "class").folder


@pytest.fixture(scope="module")
def written() -> dict[str, list[str]]:
    """The files of the package that tell answers, and which."""
    return search().leaks(files_of_the_package())


def names(files: Files) -> set[str]:
    return {name for name, _ in files}


# ---- what is looked for -------------------------------------------------------------------------


def test_the_counts_are_those_of_the_catalogue(written, sandbox, handed_out):
    """Every answer is found where it is written, so that a search can't pass by finding nothing."""
    holders = Counter(each for labels in written.values() for each in {*map(kind, labels)})
    counts, sought = (Counter(map(kind, each)) for each in (all_answers(), search().answers))
    print(f"{'kind':14} {'answers':>8} {'looked for':>11} {'files with them':>16}")
    for each, count in counts.items():
        print(f"{each:14} {count:8,} {sought[each]:11,} {holders[each]:16,}")
    print(f"files of the package: {len(names(files_of_the_package())):,}")
    print(f"files in the sandbox: {len(names(files_in(sandbox))):,}")
    print(f"files in a hand-out:  {len(names(files_in(handed_out))):,}")

    assert counts.keys() == holders.keys() == KINDS
    assert {label for labels in written.values() for label in labels} == search().answers.keys()
    assert [each for each, count in counts.items() if sought[each] < 0.7 * count] == []
    questions = bank.load()
    exercises = {info.name for lesson in catalogue.LESSONS for info in lesson.exercises}
    owners = {
        "solution": exercises,
        "passed cell": exercises,
        "wrong cell|rule cell": exercises,
        "question": {q.id for q in (*questions.items, *questions.predictions, *questions.open)},
        "generator": {*GENERATORS},
        "workshop": {b.id for name in reading.NAMES for b in reading.load(name).blocks if b.stuck},
    }
    for kinds, expected in owners.items():
        found = {owner(each) for each in search().answers if kind(each) in kinds.split("|")}
        assert expected
        assert found >= expected, f"{kinds}: no answer of {expected - found}"


def test_answers_are_in_answer_keys_or_where_the_sandbox_leaves_them_out(written):
    keys = {path for each in EXERCISES for path in (each.path, each.path.with_name(SHARED))}
    homes = keys | rootfs.left_out()
    there = {name: rootfs.PACKAGE / name for name in written}
    assert {n: written[n] for n, path in there.items() if not homes & {path, *path.parents}} == {}


# ---- what learners and their notebooks see ------------------------------------------------------


@pytest.mark.parametrize("place", ["sandbox", "sandbox_of_a_wheel", "handed_out"])
def test_no_answer_is_there(place, request):
    assert search().leaks(files_in(request.getfixturevalue(place))) == {}


def test_no_answer_is_in_the_sheets_of_a_checkout():
    sheets = catalogue.course_files() / "exercises"
    expected = {Path(each.sheet).name for each in catalogue.LESSONS if each.exercises}
    assert names(files_in(sheets)) == expected
    assert search().leaks(files_in(sheets)) == {}


def test_the_sandbox_has_all_the_rest_of_the_package(sandbox, sandbox_of_a_wheel):
    """So it has every module that a notebook may import, and nothing compiled."""
    package, without = names(files_of_the_package()), rootfs.left_out()
    left_out = {name for name in package if without & {*(rootfs.PACKAGE / name).parents}}
    left_out |= {name for name in package if Path(name).name == SHARED}
    there = names(files_in(sandbox))
    assert there == names(files_in(sandbox_of_a_wheel)) == package - left_out


def test_data_in_the_sandbox_was_looked_at_by_somebody(sandbox):
    """The search knows the answers of today. A new folder of data may tell others."""
    modules = (".py", ".pyi", "py.typed")
    data = {Path(name) for name in names(files_in(sandbox)) if not name.endswith(modules)}
    assert {path.parent.as_posix() for path in data} == SHOWN_DATA


def test_a_hand_out_has_lessons_and_sheets_and_nothing_else(handed_out):
    given = {name for name, _ in workspace.copying.course_files()}
    assert given
    there = names(files_in(handed_out))
    assert there == given | {workspace.MANIFEST, f"{SHEETS}/{FILE}"}


@pytest.mark.parametrize("gone", ["amp_lessons.no_such_room", "amp_lessons.amp.numbers.formats"])
def test_no_sandbox_is_made_if_a_package_to_leave_out_has_moved(monkeypatch, tmp_path, gone):
    monkeypatch.setattr(rootfs, "_NOT_NEEDED", (gone, *rootfs._NOT_NEEDED))
    with pytest.raises(ModuleNotFoundError, match=gone):
        rootfs.copy_without_secrets(tmp_path)
    assert list(tmp_path.iterdir()) == []


# ---- what the search would find -----------------------------------------------------------------


def a_renamed_bank(folder: Path) -> None:
    shutil.copytree(bank.FOLDER, folder / "quiz" / "questions")


def keys_in_a_new_folder(folder: Path) -> None:
    whys = {label: text for label, text in all_answers().items() if kind(label) == "question"}
    (folder / "keys.json").write_text(json.dumps(whys, indent=1, ensure_ascii=True))


def an_answer_in_a_comment(folder: Path) -> None:
    shown = (rootfs.PACKAGE / "amp/numbers/formats.py").read_text(encoding="utf-8")
    method = next(text for label, text in all_answers().items() if "StaticScaler line" in label)
    comment = "\n    # ".join(["", *method.splitlines()])
    (folder / "formats.py").write_text(f'{shown}\n\ndef shown():\n    """Shown."""{comment}\n')


def a_sentence_in_a_message(folder: Path) -> None:
    sentence = next(text for label, text in all_answers().items() if label.endswith("in words"))
    (folder / "messages.js").write_text(f"const text = {json.dumps(sentence)};")


def solutions_in_a_hand_out(folder: Path) -> None:
    lesson = next(each for each in catalogue.LESSONS if each.exercises)
    shutil.copy(catalogue.course_files() / lesson.solutions, folder / "sheet.ipynb")


def a_solution_in_an_output(folder: Path) -> None:
    lesson = next(each for each in catalogue.LESSONS if each.exercises)
    sheet = ipynb.read(catalogue.course_files() / lesson.sheet)
    text = EXERCISES[0].answer_key.solution.splitlines(keepends=True)
    printed = {"output_type": "stream", "name": "stdout", "text": text}
    next(c for c in sheet["cells"] if c["cell_type"] == "code")["outputs"] = [printed]
    (folder / "sheet.ipynb").write_bytes(ipynb.to_bytes(sheet))


def a_wheel_in_an_archive(folder: Path) -> None:
    with zipfile.ZipFile(folder / "course.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        for path in (catalogue.course_files() / "solutions").glob("*.ipynb"):
            wheel.write(path, f"amp_lessons/_course/{path.name}")
    with zipfile.ZipFile(folder / "class.zip", "w") as archive:
        archive.write(folder / "course.whl", "class/course.whl")
    (folder / "course.whl").unlink()


@pytest.mark.parametrize(
    "plant",
    [
        a_renamed_bank,
        keys_in_a_new_folder,
        an_answer_in_a_comment,
        a_sentence_in_a_message,
        solutions_in_a_hand_out,
        a_solution_in_an_output,
        a_wheel_in_an_archive,
    ],
)
def test_the_search_finds(plant: Callable[[Path], None], tmp_path):
    plant(tmp_path)
    planted = names(files_in(tmp_path))
    assert planted
    assert search().leaks(files_in(tmp_path)).keys() == planted


def test_what_is_compiled_is_refused(tmp_path):
    source = shutil.copy(EXERCISES[0].path, tmp_path)
    compileall.compile_file(source, quiet=1, legacy=True)
    (compiled,) = tmp_path.glob("*.pyc")
    assert Search({}).leaks([("a", compiled.read_bytes())]) == {"a": [UNREADABLE]}
