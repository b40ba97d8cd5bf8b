"""The view of a class: what it reads in learners' files, whom it serves, and what it survives."""

from __future__ import annotations

import http.client
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from amp_lessons.app import cli
from amp_lessons.classroom.class_view import folder as folders
from amp_lessons.classroom.class_view import page, room, serving, viewer
from amp_lessons.classroom.class_view.reading import Claim, joined, read_notebook, read_progress
from amp_lessons.classroom.class_view.viewer import Viewer
from amp_lessons.core import handout, output_box, progress
from amp_lessons.core.catalogue import find_lesson
from amp_lessons.core.progress import ExerciseRecord, Progress
from amp_lessons.core.states import State
from amp_lessons.exercises import checks
from amp_lessons.exercises.checks.verdict import VERDICT

LESSON = find_lesson("01")
FIRST, SECOND, THIRD, FOURTH = (info.name for info in LESSON.exercises)
SHEET = Path(LESSON.sheet).name


def verdict(exercise: str, state: str = "wrong", diagnosis: str = "", message: str = "") -> dict:
    words = {"diagnosis": diagnosis, "message": message} if state in ("wrong", "error") else {}
    return {"exercise": exercise, "state": state, **words}


def sheet(*verdicts: object) -> bytes:
    """A saved notebook with a check cell for each verdict."""
    cells = []
    for each in verdicts:
        data = {"text/plain": "a box", VERDICT: each}
        output = {"output_type": "display_data", "metadata": {}, "data": data}
        source = ["ex.NAME.check(NAME)"]
        cells.append({"cell_type": "code", "metadata": {}, "source": source, "outputs": [output]})
    return json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def record(**entries: ExerciseRecord) -> bytes:
    return progress.to_bytes(Progress(entries))


@pytest.fixture
def folder(tmp_path) -> Path:
    place = tmp_path / "class"
    place.mkdir()
    return place


def put(folder: Path, name: str, content: bytes, minutes: float = 0) -> Path:
    """Write a file as if it had been saved so many minutes ago."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    then = time.time() - 60 * minutes
    os.utime(path, (then, then))
    return path


def seen(folder: Path, learner: str = "ada") -> dict[str, str]:
    """The states of one learner's exercises."""
    (found,) = [each for each in Viewer(folder).look().learners if each.name == learner]
    return {info.name: found.state(LESSON, info.name) for info in LESSON.exercises}


# ---- what it reads ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        f"ada/{SHEET}",
        f"ada/exercises/{SHEET}",
        f"ada/assignment 1/any name.ipynb",  # noqa: F541
        "ada.ipynb",
        f"ada_{SHEET}",
        f"ada-{SHEET}",
        SHEET.replace(".ipynb", "_ada.ipynb"),
    ],
)
def test_a_notebook_is_found_in_each_layout(folder, name):
    put(folder, name, sheet(verdict(FIRST, "passed")))
    assert seen(folder)[FIRST] == "passed"


@pytest.mark.parametrize(
    "name",
    ["ada/progress.json", "ada/exercises/progress.json", "ada_progress.json", "ada.progress.json"],
)
def test_a_progress_file_is_found_in_each_layout(folder, name):
    put(folder, name, record(**{FIRST: ExerciseRecord("error", 2)}))
    assert seen(folder)[FIRST] == "error"


@pytest.mark.parametrize(
    "name",
    [
        f"ada/.ipynb_checkpoints/{SHEET.replace('.ipynb', '-checkpoint.ipynb')}",
        f"ada/{SHEET.replace('.ipynb', '.before-reset-20250101T000000.ipynb')}",
        "ada/progress.previous.json",
        f"ada/.trash/{SHEET}",
        f"__MACOSX/ada/{SHEET}",
    ],
)
def test_old_copies_and_hidden_files_say_nothing(folder, name):
    (folder / "ada").mkdir()
    is_progress = name.endswith(".json")
    content = (
        record(**{FIRST: ExerciseRecord("wrong", 1)}) if is_progress else sheet(verdict(FIRST))
    )
    put(folder, name, content)
    assert set(seen(folder).values()) == {room.UNKNOWN}
    assert [each.name for each in Viewer(folder).look().learners] == ["ada"]


def test_the_box_of_a_real_check_is_read_back(folder, monkeypatch):
    shown: list[dict] = []
    monkeypatch.setattr(output_box, "_notebook", object)
    monkeypatch.setattr("IPython.display.display", lambda data, raw: shown.append(data))
    exercise = checks.find_exercise("survives")

    def right(x):
        import torch

        return torch.tensor(x, dtype=torch.float16).item() != 0

    for answer in (lambda x: True, lambda x: 1 / 0, right, ...):
        exercise.check(answer)
    assert len(shown) == 4
    assert all({"text/html", "text/plain", VERDICT} == set(bundle) for bundle in shown)
    claims = [read_notebook(sheet(bundle[VERDICT]), 1.0).claims[0] for bundle in shown]
    assert [claim.state for claim in claims] == ["wrong", "error", "passed", "not attempted"]
    assert claims[0].diagnosis in exercise.diagnoses
    assert claims[0].message in shown[0]["text/plain"].replace("\n  ", " ")
    assert claims[1].message.startswith("ZeroDivisionError")


def test_the_five_states_are_told_apart_from_no_file_at_all(folder):
    states = ["passed", "wrong", "error", "skipped"]
    put(folder, f"ada/{SHEET}", sheet(*map(verdict, (FIRST, SECOND, THIRD, FOURTH), states)))
    put(folder, f"ben/{SHEET}", sheet(verdict(FIRST, "passed")))
    (folder / "cem").mkdir()
    assert list(seen(folder).values()) == states
    assert list(seen(folder, "ben").values()) == ["passed"] + 3 * ["not attempted"]
    assert set(seen(folder, "cem").values()) == {room.UNKNOWN}
    cells = Parsed(page.part(Viewer(folder).look())).cells
    assert cells["ada"] == states
    assert cells["ben"] == ["passed"] + 3 * ["not attempted"]
    assert cells["cem"] == 4 * ["no file"]


def test_a_sheet_that_nobody_has_touched_is_not_attempted(folder):
    root = Path(cli.__file__).resolve().parents[2]
    put(folder, f"ada/{SHEET}", (root / LESSON.sheet).read_bytes())
    put(folder, "ben/renamed.ipynb", (root / LESSON.sheet).read_bytes())
    assert set(seen(folder).values()) == set(seen(folder, "ben").values()) == {"not attempted"}
    assert Viewer(folder).look().lessons == (), "a lesson that nobody has begun needs no columns"


def test_the_newest_file_wins_and_a_pass_stays_one(folder):
    old = record(**{FIRST: ExerciseRecord("wrong", 7, 2), SECOND: ExerciseRecord("wrong", 1)})
    put(folder, "ada/progress.json", old, minutes=60)
    put(folder, f"ada/{SHEET}", sheet(verdict(FIRST, "error"), verdict(THIRD, "passed")), minutes=5)
    newest = record(**{THIRD: ExerciseRecord("wrong", 4)})
    put(folder, "ada/later/progress.json", newest)
    assert seen(folder) == {
        FIRST: "error",
        SECOND: "wrong",
        THIRD: "passed",
        FOURTH: "not attempted",
    }
    (ada,) = Viewer(folder).look().learners
    assert (ada.claims[FIRST].checks, ada.claims[FIRST].hints) == (7, 2)


def test_words_of_the_notebook_stand_beside_the_counts_of_the_progress_file():
    box = Claim(FIRST, "wrong", 1.0, "bias-forgotten", "You forgot the bias.")
    counts = Claim(FIRST, "wrong", 2.0, "", checks=3, gave_up=True)
    both = joined([box, counts])
    assert (both.diagnosis, both.message) == ("bias-forgotten", "You forgot the bias.")
    assert (both.checks, both.gave_up, both.when) == (3, True, 2.0)
    later = joined([box, Claim(FIRST, "wrong", 2.0, "sign-forgotten")])
    assert (later.diagnosis, later.message) == ("sign-forgotten", "")
    assert joined([box, Claim(FIRST, "error", 2.0, "", "NameError: x")]).message == "NameError: x"


def test_what_a_hand_out_keeps_is_read(tmp_path, monkeypatch):
    held = handout.Handout.from_codes({"survives": "AAAA-BBBB"}, tmp_path)
    (tmp_path / handout.FILE).write_bytes(held.to_bytes())
    monkeypatch.chdir(tmp_path)
    checks.find_exercise("survives").check(lambda x: True)
    checks.find_exercise("survives").solution(give_up=True, code="AAAA-BBBB")
    now = time.time() + 3600  # the folder is handed in later
    (claim,) = read_progress((tmp_path / handout.RECORD).read_bytes(), now).claims
    assert (claim.state, claim.gave_up, claim.checks) == ("wrong", True, 1)
    assert claim.diagnosis in checks.find_exercise("survives").diagnoses
    assert claim.when < now - 1800, "the time of the check, not of the file"


@pytest.mark.parametrize(
    "moment", ["", "yesterday", 3, None, "9999-12-31T23:59:59+00:00", "0001-01-01"]
)
def test_an_odd_time_is_the_files(moment):
    entry = ExerciseRecord("wrong", 1, extra={"checked_at": moment})
    (claim,) = read_progress(record(**{FIRST: entry}), 1000.0).claims
    assert claim.when <= 1000.0


def zipped(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return stream.getvalue()


def test_a_learner_who_sent_an_archive_is_there(folder):
    """A zipped hand-out, at the top or in the learner's folder, with its progress file."""
    handout = {
        f"class_a/exercises/{SHEET}": sheet(verdict(FIRST, "passed"), verdict(SECOND)),
        "class_a/exercises/progress.json": record(**{THIRD: ExerciseRecord("error", 2)}),
        "class_a/notebooks/01_number_formats.ipynb": sheet(),
    }
    put(folder, "ada.zip", zipped(handout))
    put(folder, "ben/handed in.zip", zipped(handout))
    put(folder, f"cem/{SHEET}", sheet())
    expected = {FIRST: "passed", SECOND: "wrong", THIRD: "error", FOURTH: "not attempted"}
    assert seen(folder) == seen(folder, "ben") == expected
    assert [each.name for each in Viewer(folder).look().learners] == ["ada", "ben", "cem"]
    assert Viewer(folder).look().problems == ()


def test_an_archive_that_says_nothing_of_one_learner_is_named(folder):
    put(folder, "ada.zip", b"PK no zip")
    put(folder, "ben.zip", zipped({"answers.txt": b""}))
    put(folder, "class.zip", zipped({f"{n}/{SHEET}": sheet(verdict(FIRST)) for n in ("x", "y")}))
    put(folder, "cem.7z", b"7z")
    here = Viewer(folder).look()
    said = dict(each.split(": ", 1) for each in here.problems)
    assert said["ada.zip"].startswith("is not a zip file that can be read")
    assert said["ben.zip"] == "has no notebook (*.ipynb) in it"
    assert said["class.zip"].startswith("holds 01_number_formats_exercises in two folders")
    assert said["cem.7z"] == "cannot be read: it has to be sent as a zip file"
    assert [each.name for each in here.learners] == ["ada", "ben", "cem", "class"]
    assert not any(each.claims for each in here.learners)


# ---- what it adds up to -------------------------------------------------------------------------


def test_the_room_is_counted_by_exercise_and_by_mistake(folder):
    said = "You forgot the bias."
    for name, minutes in (("ada", 1), ("ben", 2), ("cem", 300)):
        wrong = verdict(FIRST, "wrong", "bias-forgotten", said)
        put(folder, f"{name}/{SHEET}", sheet(wrong), minutes)
    two = verdict(FIRST, "wrong", "bias-forgotten + sign-forgotten", "Two mistakes at once.")
    put(folder, f"dee/{SHEET}", sheet(two, verdict(SECOND, "error", "", "NameError: name 'y'")))
    put(folder, f"eva/{SHEET}", sheet(verdict(FIRST, "passed"), verdict(SECOND, "wrong")))
    here = Viewer(folder).look()
    first, second, *_ = room.standings(here)
    assert first.counts == {"wrong": 4, "passed": 1}
    assert (first.failing, first.earlier) == (("ada", "ben", "dee"), ("cem",))
    assert second.counts == {"error": 1, "wrong": 1, "not attempted": 3}
    assert [each.info.name for each in room.hardest(room.standings(here))] == [FIRST, SECOND]
    found = {each.name: each for each in room.mistakes(here)}
    assert list(found) == ["bias-forgotten", "sign-forgotten", "NameError", ""]
    assert (found["bias-forgotten"].now, found["bias-forgotten"].earlier) == (
        ["ada", "ben", "dee"],
        ["cem"],
    )
    assert found["bias-forgotten"].said == said, "a box about one mistake says it better"
    assert found["sign-forgotten"].said == "Two mistakes at once."
    text = Parsed(page.part(here)).text
    assert "3 now, 1 before bias-forgotten in 01.1" in text
    assert "not recognised" in text


def test_a_learner_is_where_they_checked_last(folder):
    put(folder, f"ada/{SHEET}", sheet(verdict(THIRD, "passed"), verdict(FIRST)), minutes=90)
    put(folder, "ada/06.ipynb", sheet(verdict("clip_step")), minutes=3)
    put(folder, "ada/progress.json", record(clip_step=ExerciseRecord("wrong", 4, 1)), minutes=5)
    (ada,) = Viewer(folder).look().learners
    assert ada.here is not None
    assert ada.here.exercise == "clip_step"
    assert re.search(
        r"06\.\d wrong, 4 checks, 1 hint 3 min ago", Parsed(page.part(Viewer(folder).look())).text
    )


def at(folder: Path) -> dict[str, str]:
    return {each.name: page._at(each) for each in Viewer(folder).look().learners}


def test_after_run_all_a_learner_is_where_they_are_and_not_at_the_last_exercise(folder):
    """Run All checks every exercise, also those that nobody has tried."""
    none = "not attempted"
    states = {
        "ada": ("passed", "wrong", "error", none),
        "ben": ("passed", none, "wrong", none),
        "cem": ("passed", "passed", none, none),
        "dee": (none, none, none, none),
        "eva": ("passed", "passed", "passed", "passed"),
        "fay": ("passed", "skipped", none, "passed"),
    }
    names = [info.name for info in LESSON.exercises]
    for learner, found in states.items():
        pairs = zip(names, found, strict=True)
        put(folder, f"{learner}/{SHEET}", sheet(*(verdict(n, state) for n, state in pairs)))
    assert at(folder) == {
        "ada": "01.2 wrong",
        "ben": "01.3 wrong",
        "cem": "01.3 not attempted",
        "dee": "01.1 not attempted",
        "eva": "01.4 passed",
        "fay": "01.3 not attempted",
    }


def test_a_sheet_that_was_only_begun_goes_on_at_its_first_open_exercise(folder):
    put(folder, f"ada/{SHEET}", sheet(verdict(FIRST, "passed")), minutes=1)
    put(folder, "ada/06.ipynb", sheet(verdict("clip_step")), minutes=30)
    assert at(folder) == {"ada": "01.2 not attempted"}


def test_a_file_from_the_future_is_from_now(folder):
    put(folder, f"ada/{SHEET}", sheet(verdict(FIRST)), minutes=-1000)
    (ada,) = Viewer(folder).look().learners
    assert ada.claims[FIRST].when <= time.time()


def test_one_lesson_can_be_chosen(folder):
    put(folder, "ada/x.ipynb", sheet(verdict(FIRST), verdict("clip_step")))
    assert [x.number for x in Viewer(folder).look().lessons] == [1, 6]
    assert [x.number for x in Viewer(folder, find_lesson("06")).look().lessons] == [6]


def test_a_class_of_500_has_a_row_for_each(folder):
    states = [str(state) for state in State]
    for number in range(500):
        verdicts = [
            verdict(info.name, states[(number + place) % 5], "some-mistake", "Words. " * 9)
            for place, info in enumerate(LESSON.exercises)
        ]
        put(folder, f"learner {number:03}/{SHEET}", sheet(*verdicts))
    here = Viewer(folder).look()
    assert len(here.learners) == 500
    for standing in room.standings(here):
        assert standing.counts == dict.fromkeys(states, 100)
    parsed = Parsed(page.part(here))
    assert len(parsed.cells) == 500
    assert Counter(map(len, parsed.cells.values())) == {4: 500}
    assert len(parsed.ids) == len(set(parsed.ids))


# ---- what strangers write -----------------------------------------------------------------------

NESTED = b'{"nbformat": 4, "cells": ' + b"[" * 100_000 + b'"' + VERDICT.encode()
HOSTILE = {
    "empty": b"",
    "half": sheet(verdict(FIRST))[:-20],
    "not UTF-8": b"\xff\xfe" + sheet(verdict(FIRST)),
    "deep": NESTED,
    "digits": sheet(verdict(FIRST)).replace(
        b'"nbformat_minor": 5', b'"nbformat_minor": ' + b"9" * 5000
    ),
    "no notebook": b'{"cells": 3, "x": "' + VERDICT.encode() + b'"}',
    "too large": sheet(verdict(FIRST)) + b" " * 70_000,
}
USELESS = {
    "outputs are none": sheet(verdict(FIRST)).replace(b'"outputs": [', b'"outputs": null, "x": ['),
    "verdict is a list": sheet([1]),
    "verdict is a text": sheet("passed"),
    "unknown state": sheet(verdict(FIRST, "brilliant")),
    "state is a list": sheet(verdict(FIRST) | {"state": ["passed"]}),
    "unknown exercise": sheet(verdict("nobody_knows")),
    "exercise is a dict": sheet(verdict(FIRST) | {"exercise": {}}),
    "a long exercise": sheet(verdict("x" * 30_000)),
}


@pytest.fixture
def small_files(monkeypatch):
    monkeypatch.setattr(folders, "LARGEST", 60_000)


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_broken_notebook_is_named_and_costs_nobody_else(folder, content, small_files):
    put(folder, f"ada/{SHEET}", sheet(verdict(FIRST, "passed")))
    put(folder, f"zed/{SHEET}", content)
    here = Viewer(folder).look()
    (problem,) = here.problems
    assert problem.startswith(f"zed/{SHEET}: ")
    assert seen(folder)[FIRST] == "passed"
    assert f"zed/{SHEET}" in Parsed(page.part(here)).text


@pytest.mark.parametrize("content", USELESS.values(), ids=USELESS.keys())
def test_what_a_notebook_claims_in_another_form_is_no_claim(folder, content):
    put(folder, "zed/x.ipynb", content)
    here = Viewer(folder).look()
    assert [dict(each.claims) for each in here.learners] == [{}]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"version": 9, "exercises": {}}',
        b'{"version": 1, "exercises": 3}',
        NESTED,
    ],
    ids=["empty", "half", "list", "newer", "number", "deep"],
)
def test_a_broken_progress_file_is_named(folder, content):
    put(folder, "zed/progress.json", content)
    put(folder, "ada/progress.json", record(**{FIRST: ExerciseRecord("passed", 1)}))
    (problem,) = Viewer(folder).look().problems
    assert problem.startswith("zed/progress.json: ")
    assert seen(folder)[FIRST] == "passed"


def test_words_are_cut_to_size(folder):
    long = "x" * 100_000 + "\x1b[2J"
    put(folder, "zed/x.ipynb", sheet(verdict(FIRST, "wrong", long, long)))
    entry = ExerciseRecord("wrong", 10**30, 10**30, extra={"diagnosis": long})
    put(folder, "yan/progress.json", record(**{FIRST: entry}))
    here = Viewer(folder).look()
    assert all(
        len(claim.message) <= 400 for each in here.learners for claim in each.claims.values()
    )
    assert len(page.part(here)) < 20_000


def test_words_are_one_line_that_steers_no_screen(folder):
    words = "red\x1b[31m\nand \u202eback\ud800"
    put(folder, "zed/x.ipynb", sheet(verdict(FIRST, "wrong", words, words)))
    (zed,) = Viewer(folder).look().learners
    assert zed.claims[FIRST].message == zed.claims[FIRST].diagnosis == "red [31m and back"


def test_a_bug_of_ours_costs_one_file(folder, monkeypatch):
    def fails(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(viewer, "read_notebook", fails)
    put(folder, f"zed/{SHEET}", sheet(verdict(FIRST)))
    put(folder, "ada/progress.json", record(**{FIRST: ExerciseRecord("passed", 1)}))
    assert Viewer(folder).look().problems == (f"zed/{SHEET}: cannot be read (ZeroDivisionError)",)
    assert seen(folder)[FIRST] == "passed"


def test_files_without_a_learner_are_named(folder):
    put(folder, SHEET, sheet(verdict(FIRST)))
    put(folder, "progress.json", record())
    here = Viewer(folder).look()
    assert here.learners == ()
    assert len(here.problems) == 2
    assert all("names no learner" in problem for problem in here.problems)
    assert "Nobody yet" in page.part(here)


posix = pytest.mark.skipif(os.name != "posix", reason="links and pipes as POSIX has them")


@posix
def test_links_pipes_and_deep_folders_are_not_followed(folder, tmp_path):
    secret = put(tmp_path, f"secret/{SHEET}", sheet(verdict(FIRST, "passed")))
    put(folder, f"ada/{SHEET}", sheet(verdict(FIRST, "passed")))
    (folder / "zed").mkdir()
    (folder / "zed" / SHEET).symlink_to(secret)
    (folder / "zed" / "more").symlink_to(secret.parent)
    (folder / "yan").symlink_to(secret.parent)
    os.mkfifo(folder / "zed" / "pipe.ipynb")
    put(folder, f"xav/{'d/' * 8}{SHEET}", sheet(verdict(FIRST, "passed")))
    here = Viewer(folder).look()
    assert {each.name for each in here.learners if each.claims} == {"ada"}
    report = {problem.partition(": ")[0] for problem in here.problems}
    assert report == {f"zed/{SHEET}", "yan", "zed/pipe.ipynb", "xav/d/d/d/d/d"}


@posix
def test_a_link_that_appears_after_the_look_is_not_followed(folder, tmp_path):
    put(tmp_path, f"secret/{SHEET}", sheet(verdict(FIRST, "passed")))
    path = put(folder, f"ada/exercises/{SHEET}", sheet(verdict(FIRST)))
    (found,) = folders.list_files(folder).files
    assert folders.read(folder, found) == path.read_bytes()
    path.parent.rename(tmp_path / "away")
    path.parent.symlink_to(tmp_path / "secret")
    with pytest.raises(OSError, match=r"directory|links"):
        folders.read(folder, found)
    path.parent.unlink()
    path.parent.mkdir()
    path.symlink_to(tmp_path / "secret" / SHEET)
    with pytest.raises(OSError, match="symbolic links"):
        folders.read(folder, found)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OSError, match="not an ordinary file"):
        folders.read(folder, found)


def test_numbers_of_files_and_problems_are_bounded(folder, monkeypatch):
    monkeypatch.setattr(folders, "MOST_ENTRIES", 8)
    monkeypatch.setattr(folders, "MOST_FILES", 5)
    monkeypatch.setattr(viewer, "MOST_PROBLEMS", 3)
    for number in range(12):
        put(folder, f"learner{number:02}.ipynb", sheet(verdict(FIRST)) if number < 7 else b"")
    here = Viewer(folder).look()
    assert len(here.learners) == 5
    assert any("12 entries, and the first 8" in problem for problem in here.problems)
    assert any("more than 5 files" in problem for problem in here.problems)
    for number in range(12):
        put(folder, f"bad{number}/{SHEET}", b"")
    assert len(Viewer(folder).look().problems) <= 4


NAMES = [
    "<script>alert(1)<",
    "<img src=x onerror=alert(1)>",
    "\"'><b>",
    "{{ 7 * 7 }}{% raw %}",
    "&amp;",
    "right\u202eto left",
    "line\nbreak\ttab\x1b[31m",
    "x" * 200,
    "Zoë 王",
]


@posix
@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_hostile_name_is_shown_and_never_obeyed(folder, name):
    words = verdict(FIRST, "wrong", name, f"{name} `{name}`")
    put(folder, f"{name}/{SHEET}", sheet(words))
    put(folder, f"{name}/more.ipynb", b"broken")
    whole = page.page(Viewer(folder).look(), folder, live=True)
    parsed = Parsed(whole)
    assert parsed.tags["script"] == parsed.tags["style"] == 1
    assert parsed.tags["img"] == parsed.tags["b"] == 0
    assert parsed.attributes == attributes_of_a_harmless_page(folder)
    plain = page.shown(name)
    assert plain.isprintable()
    assert len(plain) <= page.LONGEST
    assert plain in parsed.cells


def attributes_of_a_harmless_page(folder: Path) -> set[str]:
    other = folder.with_name("other")
    put(other, f"ada/{SHEET}", sheet(verdict(FIRST, "wrong", "a", "b")))
    put(other, "ada/more.ipynb", b"broken")
    return Parsed(page.page(Viewer(other).look(), other, live=True)).attributes


@posix
def test_a_name_that_is_no_text_is_shown_too(folder):
    os.mkdir(os.fsencode(folder) + b"/\xff\xfe")
    assert len(Parsed(page.page(Viewer(folder).look(), folder, live=False)).ids) > 0


def test_two_names_that_look_alike_are_two_rows(folder):
    for name in ("a" * 100, "a" * 101):
        put(folder, f"{name}/{SHEET}", sheet(verdict(FIRST, "passed")))
    parsed = Parsed(page.part(Viewer(folder).look()))
    assert sum(each.startswith("learner-") for each in set(parsed.ids)) == 2


class Parsed(HTMLParser):
    """What a browser would find on a page."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: list[str] = []
        self.attributes: set[str] = set()
        self.cells: dict[str, list[str]] = {}
        """By learner, the words in the cells of the grid."""
        self._words: list[str] = []
        self._way: list[str] = []
        self._row: list[str] | None = None
        self.feed(markup)
        self.text = " ".join("".join(self._words).split())

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.attributes |= {name for name, _ in attrs}
        self.ids += [value for name, value in attrs if name == "id"]
        if tag == "tr":
            is_learner = any(n == "id" and v.startswith("learner-") for n, v in attrs)
            self._row = [] if is_learner else None
        if tag in ("td", "th", "li", "p", "h2"):
            self._words.append(" ")
        if tag not in ("meta", "rect"):
            self._way.append(tag)

    def handle_endtag(self, tag):
        if tag != "rect":
            self._way.pop()

    def handle_data(self, data):
        if {"style", "script"} & {*self._way}:
            return
        self._words.append(data)
        if self._row is not None and self._way[-2:] == ["th", "bdi"]:
            self.cells[data] = self._row
        elif self._row is not None and self._way[-1:] == ["i"]:
            self._row.append(data)


# ---- whom it serves -----------------------------------------------------------------------------


@pytest.fixture
def server(folder, monkeypatch):
    monkeypatch.setattr(viewer, "PAUSE", -1.0)
    with serving.PageServer(Viewer(folder)) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def ask(server: serving.PageServer, path: str, method: str = "GET", host: str = "127.0.0.1"):
    connection = http.client.HTTPConnection(host, server.server_address[1])
    connection.request(method, path)
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    return answer, content


def test_without_the_token_nobody_learns_anything(server, folder):
    put(folder, f"ada/{SHEET}", sheet(verdict(FIRST)))
    wrong = ["", "?token=", "?token=x", f"?token={server.token[:-1]}", f"?token={server.token}x"]
    wrong += [f"?Token={server.token}", "?token=%FF%FE", f"?token=x&token={server.token}"]
    for query in wrong:
        for path in ("/", "/state.json", "/nothing", "/../etc/passwd"):
            answer, content = ask(server, path + query)
            assert answer.status == 403, query
            assert content == serving.NO_TOKEN
    assert len(server.token) >= 22


def test_with_it_the_page_comes_and_is_kept_nowhere(server, folder):
    put(folder, f"ada/{SHEET}", sheet(verdict(FIRST)))
    answer, content = ask(server, f"/?token={server.token}")
    assert answer.status == 200
    assert "ada" in Parsed(content).cells
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert server.token not in content
    answer, content = ask(server, f"/?token={server.token}", "HEAD")
    assert (answer.status, content) == (200, "")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_can_be_sent_to_it(server, method):
    answer, _ = ask(server, f"/?token={server.token}", method)
    assert answer.status == 501


@pytest.mark.parametrize(
    "path", ["/x", "/state.json/", "/../../etc/passwd", "//etc/passwd", "/static"]
)
def test_no_other_path_leads_anywhere(server, path):
    answer, _ = ask(server, f"{path}?token={server.token}")
    assert answer.status == 404


def test_a_file_that_arrives_changes_the_state(server, folder, monkeypatch):
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)  # the page also says how long ago it was

    def state(have: str = "") -> dict[str, str]:
        return json.loads(ask(server, f"/state.json?token={server.token}&have={have}")[1])

    put(folder, f"ada/{SHEET}", sheet(verdict(FIRST)))
    before = state()
    assert Parsed(before["html"]).cells["ada"][0].startswith("wrong")
    assert state(before["revision"]) == {"revision": before["revision"]}
    put(folder, f"ada/{SHEET}", sheet(verdict(FIRST, "passed"), verdict(SECOND, "passed")))
    after = state(before["revision"])
    assert Parsed(after["html"]).cells["ada"][:2] == ["passed", "passed"]


def test_only_what_changed_is_read_again(folder, monkeypatch):
    read = []
    real = viewer.read
    monkeypatch.setattr(
        viewer, "read", lambda place, found: read.append(found.name) or real(place, found)
    )
    monkeypatch.setattr(viewer, "PAUSE", -1.0)
    put(folder, f"ada/{SHEET}", sheet(verdict(FIRST)), minutes=5)
    put(folder, f"ben/{SHEET}", b"broken", minutes=5)
    view = Viewer(folder)
    view.look()
    view.look()
    assert read == [f"ada/{SHEET}", f"ben/{SHEET}"]
    put(folder, f"ben/{SHEET}", sheet(verdict(FIRST, "passed")))
    assert [each.claims[FIRST].state for each in view.look().learners] == ["wrong", "passed"]
    assert read[2:] == [f"ben/{SHEET}"]


def test_a_folder_that_goes_away_is_said_on_the_page(server, folder):
    put(folder, f"ada/{SHEET}", sheet(verdict(FIRST)))
    ask(server, f"/?token={server.token}")
    folder.rename(folder.with_name("gone"))
    answer, content = ask(server, f"/?token={server.token}")
    assert answer.status == 200
    assert "Below is what was seen last" in content
    assert "ada" in Parsed(content).cells


def test_it_listens_on_this_machine_alone(server):
    assert server.server_address[0] == "127.0.0.1"
    assert urlsplit(server.address).hostname == "127.0.0.1"


def test_a_page_that_fails_is_one_line(server, monkeypatch, capsys):
    monkeypatch.setattr(page, "page", lambda *_, **__: 1 / 0)
    with pytest.raises(http.client.HTTPException):
        ask(server, f"/?token={server.token}")
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "ZeroDivisionError" in line


# ---- the command --------------------------------------------------------------------------------


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as leaving:
        cli.main([str(word) for word in words])
    return leaving.value.code


def test_the_page_can_be_written_once(folder, tmp_path, capsys):
    put(folder, f"ada/{SHEET}", sheet(verdict(FIRST)))
    file = tmp_path / "class.html"
    assert call("class", folder, "--once", file, "--lesson", "01") == 0
    assert str(file) in capsys.readouterr().out
    parsed = Parsed(file.read_text(encoding="utf-8"))
    assert parsed.tags["script"] == parsed.tags["noscript"] == 0, "no server answers it"
    assert "ada" in parsed.cells


def test_other_machines_are_let_in_with_a_warning(folder, monkeypatch, capsys):
    monkeypatch.setattr(serving.PageServer, "serve_forever", lambda self: None)
    assert call("class", folder, "--ip", "0.0.0.0") == 0
    done = capsys.readouterr()
    assert "other machines can reach this page" in done.err
    assert "http://127.0.0.1:" in done.out
    assert call("class", folder) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere",), "No such file or directory"),
        (("a_file",), "Name the folder"),
        ((".", "--lesson", "99"), "lesson"),
        ((".", "--ip", "no such address"), "cannot be used"),
        ((".", "--port", "{taken}"), "Name another one with --port"),
        ((".", "--once", "."), "cannot be written"),
        ((".", "--once", "no/such/folder.html"), "cannot be written"),
        ((), "Missing argument"),
    ],
)
def test_what_cannot_be_shown_is_one_line(tmp_path, monkeypatch, capsys, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a_file").write_text("")
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        status = call("class", *(word.format(taken=taken) for word in words))
    assert status not in (0, None)
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line


@posix
def test_ctrl_c_ends_it_at_once_and_it_needs_no_torch(folder):
    put(folder, f"ada/{SHEET}", sheet(verdict(FIRST)))
    code = (
        "import sys, threading\nfrom amp_lessons import __main__\nfrom amp_lessons.app import cli\n"
        "from amp_lessons.classroom.class_view import serving\n"
        "real = serving.PageServer.html\n"
        "def html(self):\n    text = real(self)\n    return f'{\"torch\" in sys.modules} {text}'\n"
        "serving.PageServer.html = html\n"
        f"sys.argv = ['amp-lessons', 'class', {str(folder)!r}]\n__main__.main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        parts = urlsplit(address)
        connection = http.client.HTTPConnection("127.0.0.1", parts.port)
        connection.request("GET", f"/?{parts.query}")
        content = connection.getresponse().read().decode()
        connection.close()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
    assert content.startswith("False <!doctype html>")
    assert process.returncode == 130
    assert err.strip() == "amp-lessons: stopped with Ctrl+C"
