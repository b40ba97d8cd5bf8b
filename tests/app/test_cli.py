"""The command line as a user meets it: exit status, one clear line, no traceback.

Most commands run in this process. Those whose matter is the process are started: what they import,
what the shell closes, Ctrl+C.
"""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from warnings import catch_warnings

import psutil
import pytest
from grading_class import processes_with
from waiting import wait_until

from amp_lessons.app import cli, lab, workspace
from amp_lessons.core import catalogue, ipynb, progress, terminal

COMMANDS = (
    "lab",
    "doctor",
    "progress",
    "reset",
    "grade",
    "policy",
    "explain",
    "memory",
    "bench",
    "quiz",
    "drill",
    "mock",
    "lookup",
    "class",
)
SHEET = "exercises/01_number_formats_exercises.ipynb"
EXERCISES = [info for lesson in catalogue.LESSONS for info in lesson.exercises]


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    """A current folder, a Jupyter folder and a progress file of the test's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("COLUMNS", "80")
    for name in ("AMP_LESSONS_DEBUG", "NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


Done = subprocess.CompletedProcess[str]


def start(*words: object, **env: str) -> Done:
    """Run a command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "amp_lessons.app.cli", *map(str, words)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        stdin=subprocess.DEVNULL,
        env=os.environ | env,
    )


def run(*words: object, **env: str) -> Done:
    """Run a command in this process, with its own standard streams, which are no terminal."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    with (
        pytest.MonkeyPatch.context() as patch,
        open(os.devnull) as nothing,
        redirect_stdout(out),
        redirect_stderr(err),
        catch_warnings(record=True) as warned,
    ):
        patch.setattr(sys, "stdin", nothing)
        for name, value in env.items():
            patch.setenv(name, value)
        status = call(*words)
    told = [each for each in warned if each.category not in UNSEEN]
    for each in told:
        print(each.message, file=err)
    return Done(words, status, *(each.buffer.getvalue().decode() for each in (out, err)))


UNSEEN = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
"""What Python shows to nobody unless it's asked to."""


def call(*words: object) -> int:
    """Run a command in this process; its exit status."""
    with pytest.raises(SystemExit) as leaving:
        cli.main([str(word) for word in words])
    return leaving.value.code


def one_line(done: Done) -> str:
    """The one line on standard error of a command that failed as it should."""
    assert done.returncode not in (0, None)
    assert "Traceback" not in done.stdout + done.stderr
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("amp-lessons: ")
    return line


@pytest.fixture
def no_start(monkeypatch):
    """`lab` does everything but start JupyterLab; gives the words it would have started."""
    started: list[list[str]] = []
    monkeypatch.setattr(lab, "start", lambda words, folder, **_: started.append(list(words)))
    return started


# ---- help and errors of the call ----------------------------------------------------------------


def test_help_imports_nothing_heavy():
    """Of any command: one after the other, and each that imports something heavy is named."""
    code = (
        "import sys\nfrom amp_lessons.app import cli\n"
        "heavy = {'torch', 'numpy', 'jupyter_core', 'nbformat', 'platformdirs', 'asyncio'}\n"
        f"for words in ([], *([command] for command in {COMMANDS!r})):\n"
        "    try: cli.main([*words, '--help'])\n"
        "    except SystemExit as leaving: assert not leaving.code\n"
        "    assert not heavy & set(sys.modules), (words, heavy & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Usage: amp-lessons") == 1 + len(COMMANDS)


def test_without_words_it_helps():
    done = start()
    assert done.returncode == 0
    assert all(command in done.stdout for command in COMMANDS)


def test_version():
    import amp_lessons

    assert run("--version").stdout == f"amp-lessons {amp_lessons.__version__}\n"


@pytest.mark.parametrize(
    "words",
    [("lbb",), ("lab", "--foo"), ("lab", "--port", "many"), ("reset",), ("grade",)],
    ids=" ".join,
)
def test_a_wrong_call_is_one_line_with_help(words):
    assert "--help" in one_line(run(*words))


def test_an_unforeseen_error_is_one_line_and_a_traceback_on_demand(own_place, monkeypatch):
    def broken() -> None:
        raise ZeroDivisionError("of all\nthings")

    monkeypatch.setattr(progress, "load", broken)
    assert call("progress") == 1
    monkeypatch.setenv("AMP_LESSONS_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        cli.main(["progress"])


def test_a_reader_that_leaves_is_no_error():
    done = subprocess.run(
        f"{sys.executable} -m amp_lessons.app.cli progress | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "slow"),
    [("progress", "typer"), ("lab ws", "typer"), ("policy mm --live", "torch"), ("bench", "torch")],
)
def test_ctrl_c_while_something_is_loading(own_place, words, slow):
    """A stand-in for a library takes for ever to load, and swallows what is raised in it."""
    (own_place / f"{slow}.py").write_text(
        "import pathlib, time\n"
        "pathlib.Path('loading').touch()\n"
        "while True:\n"
        "    try: time.sleep(60)\n"
        "    except BaseException: pass\n"
    )
    interrupted = interrupt([sys.executable, "-m", "amp_lessons", *words.split()], "loading")
    assert one_line(interrupted) == "amp-lessons: stopped with Ctrl+C"
    assert interrupted.returncode == 130


@pytest.mark.parametrize("words", ["reset next_float", "lab ws"])
def test_ctrl_c_during_a_command_that_cleans_up(own_place, words):
    code = (
        "import pathlib, time\n"
        "from amp_lessons import __main__\nfrom amp_lessons.app import workspace\n"
        "def wait(*_):\n"
        "    pathlib.Path('working').touch()\n"
        "    try: time.sleep(600)\n"
        "    finally: pathlib.Path('cleaned').touch()\n"
        "workspace.reset = workspace.copy_course = wait\n"
        "__main__.main()"
    )
    interrupted = interrupt([sys.executable, "-c", code, *words.split()], "working")
    assert one_line(interrupted) == "amp-lessons: stopped with Ctrl+C"
    assert interrupted.returncode == 130
    assert (own_place / "cleaned").exists()


def interrupt(command: list[str], when: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the current folder, and press Ctrl+C when it has made a file."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(["", *filter(None, sys.path)])}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)
    try:
        wait_until(Path(when).exists, process)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate()
    finally:
        process.kill()
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_output_is_no_error(closed):
    command = f"{sys.executable} -m amp_lessons progress {closed}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


# ---- lab ----------------------------------------------------------------------------------------


def test_lab_copies_then_starts(own_place, no_start, capsys):
    assert call("lab", "ws", "--no-browser") == 0
    assert (own_place / "ws" / SHEET).is_file()
    (words,) = no_start
    assert f"--ServerApp.root_dir={own_place / 'ws'}" in words
    if lab.as_root():
        assert "--allow-root" in capsys.readouterr().out


def test_lab_names_what_it_kept(own_place, no_start, capsys):
    call("lab", "ws")
    (own_place / "ws" / SHEET).write_text("mine")
    capsys.readouterr()
    assert call("lab", "ws") == 0
    (line,) = (text for text in capsys.readouterr().out.splitlines() if SHEET in text)
    assert line.startswith("Kept")
    assert (own_place / "ws" / SHEET).read_text() == "mine"


def test_an_upgrade_with_every_sheet_answered_is_told_in_a_few_lines(own_place, no_start, capsys):
    call("lab", "ws")
    manifest = own_place / "ws" / workspace.MANIFEST
    data = json.loads(manifest.read_text())
    for entry in data["files"].values():
        entry["text"] = "an older text"
    manifest.write_text(json.dumps(data))
    for path in (own_place / "ws" / "exercises").glob("*.ipynb"):
        path.write_text("mine")
    capsys.readouterr()
    assert call("lab", "ws") == 0
    told = [line for line in capsys.readouterr().out.splitlines() if "root" not in line]
    assert [line.split(":")[0] for line in told] == [
        "Your copy of the course is in ws",
        "Kept as you changed them, though newer ones exist",
        "To take ours, for example",
    ]
    assert told[1].endswith("sheets 00 to 14 and 16")


def test_what_follows_the_dashes_goes_to_jupyter(own_place, no_start):
    call("lab", "--no-browser", "--", "--ServerApp.token=x", "--debug")
    call("lab", "ws", "--", "--help")
    assert no_start[0][-2:] == ["--ServerApp.token=x", "--debug"]
    assert no_start[1][-1] == "--help"


@pytest.fixture(autouse=True)
def default_folder(own_place, monkeypatch):
    monkeypatch.setattr(workspace, "default_folder", lambda: own_place / "amp-lessons")


def test_lab_on_a_path_that_is_a_file(own_place):
    (own_place / "file").write_text("mine")
    assert "is a file" in one_line(run("lab", "file"))
    assert "is a file" in one_line(run("lab", "file/below"))
    assert (own_place / "file").read_text() == "mine"


@pytest.fixture
def tiny_disk(own_place):
    """A disk of 24 KB, where this user may mount one."""
    place = own_place / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24k", "tmpfs", str(place)]
    if sys.platform != "linux" or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this user may not mount a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_lab_on_a_full_disk(tiny_disk):
    assert "No space left" in one_line(run("lab", tiny_disk / "ws", "--no-browser"))
    whole = {path.name: path.read_bytes() for path in catalogue.course_files().rglob("*.ipynb")}
    for path in tiny_disk.rglob("*"):
        if path.is_file() and path.name != workspace.MANIFEST:
            assert path.suffix == ".ipynb", f"{path} is a scrap"
            assert len(path.read_bytes()) > 0
            assert path.name in whole


def test_lab_on_a_read_only_disk(tiny_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    assert "cannot be written" in one_line(run("lab", tiny_disk / "ws", "--no-browser"))
    assert "cannot be saved" in run("doctor", AMP_LESSONS_HOME=str(tiny_disk / "home")).stdout


def test_lab_on_a_port_in_use(own_place):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        assert f"port {port} is in use" in one_line(run("lab", "ws", "--port", port))
    assert not (own_place / "ws").exists()


@pytest.mark.slow
def test_lab_serves_the_start_page_and_a_second_lab_finds_it(own_place):
    """JupyterLab for real, with the page that opens first and without pop-ups."""
    command = [sys.executable, "-m", "amp_lessons", "lab", "ws", "--no-browser"]
    with open(own_place / "out", "wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, start_new_session=True)
    try:
        address = told_address(own_place / "out", process)
        opened = urllib.request.urlopen(address)
        assert f"/lab/tree/{workspace.START_PAGE}" in opened.url
        settings = opened.read().decode()
        assert "@jupyterlab/apputils-extension:announcements" in settings, "a pop-up will ask"
        assert '"name": "amp-lessons"' in settings, "the home page will not run by itself"
        for page, drawn in ((workspace.START_PAGE, 3), (catalogue.LESSONS[1].notebook, 0)):
            api = address.replace("?", f"api/contents/{page}?")
            cells = json.loads(urllib.request.urlopen(api).read())["content"]["cells"]
            answered = sum(bool(cell.get("outputs")) for cell in cells)
            assert answered == drawn, f"{page} shows results before they are predicted"

        (own_place / "ws" / SHEET).unlink()
        second = run("lab", "ws", "--no-browser")
        assert (second.returncode, second.stderr) == (0, "")
        assert f"already open at {address}\n" in second.stdout
        assert not (own_place / "ws" / SHEET).exists(), "files changed under the running server"
        assert "already running" in one_line(run("lab", "ws", "--port", "1"))
        assert "is running at" in (own_place / "ws" / lab.LOG).read_text()
    finally:
        server = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        assert process.wait() == 143
    assert server
    assert not any(child.is_running() for child in server)
    told = (own_place / "out").read_text().splitlines()
    assert max(map(len, told)) <= 80
    assert told[-1] == "JupyterLab has stopped. The same command opens the course again."


def told_address(out: Path, process: subprocess.Popen[bytes]) -> str:
    def told() -> str:
        found = re.search(r"is open at (http\S+)\n", out.read_text())
        return found[1] if found else ""

    return wait_until(told, process)


def test_lab_says_if_progress_cannot_be_saved(own_place, no_start, own_progress_file, capsys):
    own_progress_file.write_text("a file where the folder should be")
    assert call("lab", "ws") == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert f"progress cannot be saved in {own_progress_file}. What to do: " in line
    assert "AMP_LESSONS_HOME" in line


def test_lab_makes_a_copy_brings_it_up_to_date_and_opens_nothing(own_place, no_start):
    done = run("lab", "mine", "--make-only")
    assert done.returncode == 0
    assert done.stdout == "Your copy of the course is in mine\nOpen it with: amp-lessons lab mine\n"
    sheet = own_place / "mine" / SHEET
    notebook = ipynb.read(sheet)
    notebook["cells"][-1]["source"] = "my answer"
    sheet.write_bytes(ipynb.to_bytes(notebook))
    lesson = own_place / "mine" / catalogue.LESSONS[1].notebook
    lesson.unlink()
    done = run("lab", "mine", "--make-only")
    assert f"Kept as you changed them: {SHEET}\n" in done.stdout
    assert "my answer" in sheet.read_text()
    assert lesson.is_file()
    assert no_start == []
    assert not (own_place / "mine" / "solutions").exists()


@pytest.mark.parametrize(
    "words", [("--port", "8899"), ("--ip", "::"), ("--nbgrader",), ("--", "-y")]
)
def test_lab_refuses_what_goes_to_jupyterlab_if_it_only_makes_a_copy(own_place, words):
    assert "--make-only opens nothing" in one_line(run("lab", "mine", "--make-only", *words))
    assert not (own_place / "mine").exists()


# ---- doctor -------------------------------------------------------------------------------------


def test_doctor_reports_and_its_json_is_pure(capsys):
    done = run("doctor", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["ok"] is True
    assert call("doctor") == 0
    table = capsys.readouterr().out
    assert "PyTorch" in table
    assert max(map(len, table.splitlines()[:40])) <= 80


def test_doctor_fails_if_something_blocks(own_place, monkeypatch, capsys):
    place = own_place / "kernels" / "python3"
    place.mkdir(parents=True)
    spec = {"argv": ["/nowhere/python"], "display_name": "x", "language": "x"}
    (place / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(own_place))
    assert call("doctor") == 1
    told = capsys.readouterr().out
    assert "Blocks the course: the Jupyter kernel python3 starts /nowhere/python" in told
    assert "cure: " in told


# ---- progress -----------------------------------------------------------------------------------


def test_progress_of_a_lesson_shows_states_points_hints_and_giving_up():
    progress.record_check("next_float", "passed")
    progress.record_check("decode_bits", "wrong")
    progress.record_hint("decode_bits", 2)
    progress.record_give_up("decode_bits")
    done = run("progress", "01")
    assert done.returncode == 0
    assert "✔ passed" in done.stdout
    assert "✘ wrong" in done.stdout
    assert "○ not attempted" in done.stdout
    assert "2/8" in done.stdout
    data = json.loads(run("progress", "--json").stdout)
    entry = data["lessons"]["01_number_formats"]["decode_bits"]
    assert (entry["hints"], entry["points"], entry["of"]) == (2, 0, 2)
    assert entry["gave_up_at"]


def test_progress_of_the_course_fits_on_one_screen():
    """All lessons, the totals and where to go on, on 80 columns and 24 lines."""
    progress.record_check("survives", "passed")
    progress.record_check("next_float", "passed")
    progress.record_lesson("how_numbers_break")
    progress.record_check("of_another_course", "passed")
    lines = run("progress").stdout.splitlines()
    assert len(lines) < 24
    assert max(map(len, lines[:14])) <= 80
    rows = {line[:2]: " ".join(line.split()) for line in lines}
    states = (("✔ done", 1, 1), ("◐ started", 1, 2), ("✔ done", 0, 0), ("○ open", 0, 0))
    for lesson, (state, passed, points) in zip(catalogue.LESSONS, states, strict=False):
        number = f"{lesson.number:02}"
        standing = f"{state} {passed} of {len(lesson.exercises)} {points}/{lesson.points}"
        assert rows[number] == f"{number} {lesson.title} {standing}"
    points = sum(lesson.points for lesson in catalogue.LESSONS)
    assert f"2 of {len(EXERCISES)} exercises, 3 of {points} points." in lines
    assert "Continue with lesson 01, Number formats." in lines


@pytest.mark.parametrize("name", ["6", "06", "grad_scaler", "06_grad_scaler", "grad_scaler.ipynb"])
def test_progress_of_a_lesson_by_any_of_its_names(name):
    assert "clip_step" in run("progress", name).stdout


def test_progress_of_an_unknown_lesson_is_one_line():
    assert "grad_scaler" in one_line(run("progress", "gradscaler"))
    last = catalogue.LESSONS[-1].number
    assert f"00 to {last}" in one_line(run("progress", "99"))


def test_a_path_is_chosen_and_dropped():
    progress.record_check("survives", "passed")
    assert "Continue with lesson 04," in run("path", "3-hour").stdout
    assert "(your path)" in run("path").stdout
    lines = run("progress").stdout.splitlines()
    assert (
        "Continue with lesson 04, What autocast does to each op. You follow the 3-hour path."
        in (lines)
    )
    assert json.loads(run("progress", "--json").stdout)["path"] == "3-hour"
    assert "You follow no path.\nContinue with lesson 01," in run("path", "none").stdout


def test_an_unknown_path_is_one_line():
    assert "3-hour" in one_line(run("path", "1-week"))


def test_a_pass_and_a_later_check_are_both_told():
    progress.record_check("next_float", "passed")
    progress.record_check("next_float", "wrong")
    words = " ".join(run("progress", "01").stdout.replace("│", " ").split())
    assert "passed, latest" in words


@pytest.mark.parametrize(
    "env",
    [
        {"PYTHONIOENCODING": "ascii"},  # Python heeds it when it starts
        {"NO_COLOR": "1"},
        {"COLUMNS": "30"},
        {"COLUMNS": "0"},
        {"COLUMNS": "3"},
    ],
    ids=str,
)
def test_progress_in_poor_terminals(env):
    progress.record_check("next_float", "passed")
    done = (start if "PYTHONIOENCODING" in env else run)("progress", **env)
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout
    if "PYTHONIOENCODING" in env:
        assert "~ started" in done.stdout
        assert done.stdout.isascii()
    widest = {"30": 30, "3": terminal.NARROWEST}.get(env.get("COLUMNS", ""), 80)
    assert 0 < max(map(len, done.stdout.splitlines()[:14])) <= widest


@pytest.mark.parametrize(
    "content",
    [b'{"version": 1, "exer', b"", b"[]", b"\xff\xfe"],
    ids=["half", "empty", "list", "?"],
)
def test_a_broken_progress_file_is_set_aside_and_said(own_progress_file, content):
    own_progress_file.mkdir()
    (own_progress_file / "progress.json").write_bytes(content)
    done = run("progress")
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    (aside,) = own_progress_file.glob("progress.broken-*.json")
    assert str(aside) in line
    assert aside.read_bytes() == content
    assert f"0 of {len(EXERCISES)} exercises" in done.stdout


def test_a_newer_progress_file_is_one_line(own_progress_file):
    own_progress_file.mkdir()
    (own_progress_file / "progress.json").write_text('{"version": 99, "exercises": {}}')
    assert "newer" in one_line(run("progress"))


# ---- reset --------------------------------------------------------------------------------------


@pytest.fixture
def changed(own_place):
    """A workspace whose sheet the learner worked on."""
    folder = own_place / "ws"
    workspace.copy_course(folder)
    notebook = ipynb.read(folder / SHEET)
    for cell in notebook["cells"]:
        if ipynb.grade_id(cell) == "next_float":
            cell["source"] = "def next_float(x): return 3"
    (folder / SHEET).write_bytes(ipynb.to_bytes(notebook))
    return folder


def test_reset_keeps_the_pass_unless_told_to_forget(changed):
    progress.record_check("next_float", "passed")
    done = run("reset", "next_float", "--workspace", "ws")
    assert done.returncode == 0, done.stderr
    assert "before-reset" in done.stdout
    assert "return 3" not in (changed / SHEET).read_text()
    assert progress.load()["next_float"].passed
    assert run("reset", "next_float", "--workspace", "ws", "--forget").returncode == 0
    assert not progress.load()["next_float"].passed


def test_reset_of_an_unknown_exercise(changed):
    before = (changed / SHEET).read_bytes()
    line = one_line(run("reset", "next_flaot", "--workspace", "ws"))
    assert "next_float" in line
    assert (changed / SHEET).read_bytes() == before


def test_reset_without_a_workspace():
    assert "--workspace" in one_line(run("reset", "next_float", "--workspace", "none"))


# ---- grade --------------------------------------------------------------------------------------


COURSE = catalogue.course_files()
LONG, SLOW = pytest.mark.long, pytest.mark.slow


def sheets(folder: str) -> list[Path]:
    return sorted((COURSE / folder).glob("*.ipynb"))


THREE_OR_ALL = pytest.mark.parametrize(
    "lessons",
    [
        pytest.param(catalogue.LESSONS[:6:2], id="three", marks=SLOW),
        pytest.param([each for each in catalogue.LESSONS if each.points], id="all", marks=LONG),
    ],
)


@THREE_OR_ALL
def test_the_solutions_get_full_marks(lessons):
    done = run("grade", *(COURSE / lesson.solutions for lesson in lessons), "--jobs", 2)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    total = sum(lesson.points for lesson in lessons)
    assert f"{total} of {total} points in {len(lessons)} notebooks" in done.stdout


@THREE_OR_ALL
def test_the_stubs_get_none_and_are_not_attempted(lessons):
    done = run("grade", "--json", *(COURSE / lesson.sheet for lesson in lessons), "--jobs", 2)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    marks = [mark for sheet in data["notebooks"] for mark in sheet["exercises"].values()]
    assert len(marks) == sum(len(lesson.exercises) for lesson in lessons)
    assert {mark["state"] for mark in marks} == {"not attempted"}
    assert data["points"] == 0
    assert data["of"] == sum(lesson.points for lesson in lessons)


@pytest.mark.slow
def test_bad_notebooks_do_not_stop_the_others(own_place):
    solved = sheets("solutions")[0]
    (own_place / "half.ipynb").write_text('{"cells": [')
    (own_place / "own.ipynb").write_text('{"nbformat": 4, "cells": []}')
    notebook = ipynb.read(solved)
    endless = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook["cells"].insert(0, endless | {"source": "while True: pass"})
    (own_place / "endless.ipynb").write_bytes(ipynb.to_bytes(notebook))
    names = ["half.ipynb", "own.ipynb", "none.ipynb", "endless.ipynb"]
    done = run("grade", "--json", *names, solved, "--timeout", 5, "--jobs", 1)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    lines = done.stderr.strip().splitlines()
    assert [line.split(": ")[1] for line in lines] == names
    assert "is not JSON" in lines[0]
    assert "no exercise of the course" in lines[1]
    assert "does not exist" in lines[2]
    assert "cell 1 ran longer than 5 s" in lines[3]
    graded = json.loads(done.stdout)["notebooks"]
    assert [each["gradable"] for each in graded] == [False, False, False, False, True]
    assert graded[3]["points"] == graded[4]["points"] == graded[4]["of"] > 0


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize(
    ("number", "status"),
    [
        (signal.SIGINT, 130),
        pytest.param(signal.SIGTERM, 143, marks=LONG),
        (signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_an_interrupted_batch_leaves_no_process_and_goes_on(own_place, number, status):
    """What was finished is kept, is not run again, and gets the same inputs as the rest."""
    solved, marker = sheets("solutions")[0], f"marker-{os.getpid()}-{number}"
    notebook = ipynb.read(solved)
    busy = (
        "import subprocess, sys\n"
        f"stray = [sys.executable, '-c', 'import time; time.sleep(600)', '{marker}']\n"
        "subprocess.Popen(stray, start_new_session=True).wait()"
    )
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook["cells"].insert(0, cell | {"source": busy})
    for name, content in (("a", solved.read_bytes()), ("b", ipynb.to_bytes(notebook))):
        (own_place / f"{name}.ipynb").write_bytes(content)
    words = ["a.ipynb", "b.ipynb", "--json", "--jobs", "1", "--results", "kept"]
    command = [sys.executable, "-m", "amp_lessons.app.cli", "grade", *words]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            wait_until(lambda: processes_with(marker), process)
            process.send_signal(number)
            output, errors = process.communicate()
        finally:
            process.kill()
    assert process.returncode == status
    assert "Traceback" not in output + errors
    wait_until(lambda: not processes_with(marker))
    finished = json.loads(output.splitlines()[-1])
    assert (finished["notebook"], finished["points"]) == ("a.ipynb", finished["of"])
    (own_place / "b.ipynb").write_bytes(solved.read_bytes())
    seed = json.loads((own_place / "kept/batch.json").read_text())["seed"]
    before = {f.name: f.stat().st_mtime_ns for f in (own_place / "kept/results").iterdir()}
    done = run("grade", *words)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["batch"]["seed"] == seed
    assert data["points"] == data["of"] == 2 * finished["of"]
    after = {f.name: f.stat().st_mtime_ns for f in (own_place / "kept/results").iterdir()}
    assert len(after) == 2
    assert after.items() > before.items(), "what was finished was graded again"


def test_wrong_words_for_grade_are_one_line(own_place):
    (own_place / "empty").mkdir()
    (own_place / "file").write_text("x")
    for words, says in (
        (["empty"], "has no notebook"),
        (["x.ipynb", "--require-sandbox", "--no-sandbox"], "exclude each other"),
        (["x.ipynb", "--results", "file"], "name another folder for --results"),
    ):
        done = run("grade", *words)
        assert says in one_line(done)
        assert done.stdout == ""


@pytest.mark.slow
def test_a_cluster_that_has_no_address_is_one_line():
    done = start("grade", "x.ipynb", "--dask", "nowhere:1")
    assert "nowhere:1" in one_line(done)
    assert done.stdout == ""


# ---- policy -------------------------------------------------------------------------------------


def test_policy_of_one_op():
    done = start("policy", "torch.softmax")
    assert (done.returncode, done.stderr) == (0, "")
    cuda, cpu = done.stdout.split("autocast('cpu'")
    assert cuda.startswith("autocast('cuda', torch.float16), ")
    assert re.findall(r"float\d+|as given", cuda.split("softmax")[1])[:3] == ["float32"] * 3
    assert re.findall(r"float\d+|as given", cpu.split("softmax")[1])[:2] == ["float16", "float32"]
    assert "why softmax: autocast leaves it alone" in cpu


def test_policy_of_what_is_refused():
    done = run("policy", "binary_cross_entropy", "--device", "cuda", "--dtype", "bf16")
    assert "torch.bfloat16" in done.stdout
    assert "refused" in done.stdout
    reported = " ".join(done.stdout.split())
    assert "why binary_cross_entropy: raises: torch.nn.functional.binary_cross_entropy" in reported


def test_policy_of_several_ops():
    done = run("policy", "mm", "layer_norm", "--device", "cuda")
    assert done.returncode == 0
    assert re.findall(r"^│ (\w+) ", done.stdout, re.M) == ["mm", "layer_norm"]
    assert "why mm: " in done.stdout
    assert "why layer_norm: " in done.stdout


def test_policy_says_when_this_torch_is_not_recorded(monkeypatch):
    from typer.testing import CliRunner

    from amp_lessons.amp import policy_record
    from amp_lessons.app import cli

    words = ["policy", "mm", "--device", "cpu", "--live"]
    assert "recorded" not in CliRunner().invoke(cli.app, words).output
    monkeypatch.setattr(policy_record, "versions", lambda: ("1.0.0",))
    told = " ".join(CliRunner().invoke(cli.app, words).output.split())
    assert "compared with none; recorded: 1.0.0" in told


@pytest.mark.slow
def test_the_policy_table_and_its_counts():
    done = run("policy")
    assert (done.returncode, done.stderr) == (0, "")
    found = re.findall(r"(\d+) of (\d+) ops answered, on torch 2\.", done.stdout)
    asked = json.loads(run("policy", "--json").stdout)["tables"]
    assert [table["device"] for table in asked] == ["cuda", "cpu"]
    for (answered, of), table in zip(found, asked, strict=True):
        lost = [op["op"] for op in table["ops"] if op["group"] == "not answerable"]
        assert table["counts"]["not answerable"] == len(lost) == int(of) - int(answered)
        assert sum(table["counts"].values()) == len(table["ops"]) == int(of) >= 120
        for op in lost:
            assert f"- {op}: does not run on" in done.stdout


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("sotfmax",), "no op called 'sotfmax' among the 303 that can be asked; near it: softmax"),
        (("mm", "--device", "gpu"), "device must be 'cuda' or 'cpu', got 'gpu'; near it: 'cpu'"),
        (("--dtype", "fp32"), "autocast computes in torch.float16 or torch.bfloat16, not fp32"),
    ],
    ids=["op", "device", "dtype"],
)
def test_policy_refuses_what_it_does_not_know(words, message):
    assert message in one_line(run("policy", *words))
