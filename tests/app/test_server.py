"""A Jupyter server as our child: told where it is, ended with us, found again by the next call.

Most tests put a small stand-in in Jupyter's place, which starts in no time and misbehaves on
demand. `test_cli.py` starts the real one.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from waiting import wait_until

from amp_lessons.app import lab, server
from amp_lessons.app.lab import LabError

STAND_IN = """
    import http.server, json, os, pathlib, signal, subprocess, sys, time

    manner = sys.argv[1]
    print("[I 2026-01-01 10:00:00.000 ServerApp] nothing of interest")
    if manner == "only print":
        sys.exit("Version 4.4" and print("4.4.0"))
    if manner == "die":
        print("[C 2026-01-01 10:00:00.000 ServerApp] Bad config: no such port.")
        sys.exit(3)
    if manner == "hang":
        time.sleep(600)
    if manner == "stubborn":
        signal.signal(signal.SIGTERM, lambda *_: pathlib.Path("asked to end").touch())
        kernel = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        pathlib.Path("kernel").write_text(str(kernel.pid))
    else:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            token = self.headers["Authorization"] == "token " + os.environ["JUPYTER_TOKEN"]
            self.send_response(200 if token else 403)
            self.end_headers()
            self.wfile.write(b'{"started": "now"}')
        def log_message(self, *_):
            pass

    httpd = http.server.HTTPServer(("127.0.0.1", 0), Answers)
    port = httpd.server_port
    info = {
        "hostname": "localhost", "password": False, "pid": os.getpid(), "port": port,
        "root_dir": os.getcwd(), "token": os.environ["JUPYTER_TOKEN"],
        "url": f"http://127.0.0.1:{port}/",
    }
    file = pathlib.Path(os.environ["JUPYTER_RUNTIME_DIR"], f"jpserver-{os.getpid()}.json")
    file.write_text(json.dumps(info))
    if manner == "shut down":
        httpd.handle_request()
        sys.exit(0)
    if manner == "crash":
        httpd.handle_request()
        print("ValueError: out of luck")
        sys.exit(1)
    httpd.serve_forever()
"""
DRIVER = """
import sys
from pathlib import Path
from amp_lessons.app import lab, server
server.SLOW, server.LIMIT, server.GRACE = map(float, sys.argv[3:6])
try:
    sys.exit(lab.start([sys.executable, sys.argv[1], sys.argv[2]], Path.cwd()))
except lab.LabError as error:
    sys.exit(f"amp-lessons: {error}")
"""


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runtime").mkdir()
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.delenv("JUPYTER_TOKEN", raising=False)
    (tmp_path / "stand_in.py").write_text(textwrap.dedent(STAND_IN))
    return tmp_path


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(own_place) -> Iterator[Start]:
    """`lab.start` in a process of its own, with the stand-in; nothing is left running."""
    started: list[subprocess.Popen[str]] = []

    def start(
        manner: str = "",
        *,
        slow: float = 300,
        limit: float = 300,
        grace: float = 300,
        ignored: int | None = None,
    ) -> subprocess.Popen[str]:
        def heed() -> None:  # the tests must not depend on what their own parent ignores
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN if number == ignored else signal.SIG_DFL)

        words = [sys.executable, "-c", DRIVER, str(own_place / "stand_in.py"), manner]
        process = subprocess.Popen(
            [*words, str(slow), str(limit), str(grace)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=heed,
        )
        started.append(process)
        return process

    yield start
    left = stand_ins(own_place)
    for process in started:
        process.kill()
        process.communicate()
    for child in left:
        with suppress(psutil.Error):
            child.kill()


def stand_ins(place: Path) -> list[psutil.Process]:
    """The stand-ins of this test that run, and what they started."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cmdline()[1:2] == [str(place / "stand_in.py")]:
                found += [process, *process.children()]
        except psutil.Error:
            continue
    return found


def address_of(process: subprocess.Popen[str]) -> str:
    """Wait until it tells where it is; the lines up to there."""
    for line in process.stdout:
        if found := re.search(r"is open at (http\S+)", line):
            return found[1]
    raise AssertionError(f"it ended: {process.stderr.read()}")


# ---- from start to end --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_it_tells_the_address_and_ends_with_the_server(own_place, start, number, status):
    process = start()
    assert re.fullmatch(r"http://127.0.0.1:\d+/\?token=[\w-]{22}", address_of(process))
    assert "Ctrl+C" in (line := process.stdout.readline())
    assert lab.LOG in line
    assert len(stand_ins(own_place)) == 1
    process.send_signal(number)
    out, errors = process.communicate()
    assert (process.returncode, errors) == (status, "")
    assert out == "JupyterLab has stopped. The same command opens the course again.\n"
    assert stand_ins(own_place) == []
    assert "nothing of interest" in (own_place / lab.LOG).read_text()
    assert (own_place / lab.LOG).stat().st_mode & 0o077 == 0, "the log may hold the token"


def test_a_server_that_will_not_end_is_killed_with_its_kernels(own_place, start):
    process = start("stubborn", grace=0.2)
    address_of(process)
    kernel = int((own_place / "kernel").read_text())
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert stand_ins(own_place) == []
    wait_until(lambda: not psutil.pid_exists(kernel) or psutil.Process(kernel).status() == "zombie")


def test_a_second_ctrl_c_does_not_wait(own_place, start):
    process = start("stubborn", grace=3600)
    address_of(process)
    process.send_signal(signal.SIGINT)
    wait_until((own_place / "asked to end").exists, process)
    process.send_signal(signal.SIGINT)
    process.communicate()
    assert process.returncode == 0
    assert stand_ins(own_place) == []


def test_ctrl_c_before_it_answers(own_place, start):
    process = start("hang")
    wait_until(lambda: stand_ins(own_place))
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    assert "is open at" not in out
    assert stand_ins(own_place) == []


def test_nohup_is_respected(own_place, start):
    process = start(ignored=signal.SIGHUP)
    address_of(process)
    process.send_signal(signal.SIGHUP)  # which comes first: a process that heeds it ends with 129
    process.send_signal(signal.SIGTERM)
    process.communicate()
    assert process.returncode == 143


if sys.platform == "linux":

    def test_the_server_ends_if_we_are_killed(own_place, start):
        process = start()
        address_of(process)
        process.kill()
        wait_until(lambda: not stand_ins(own_place))


def test_the_server_ends_if_nobody_reads_its_address(own_place, start):
    process = start()
    process.stdout.close()
    assert process.wait() != 0
    assert stand_ins(own_place) == []


def test_a_learner_who_shuts_down_in_lab(start):
    process = start("shut down")
    address_of(process)
    out, errors = process.communicate()
    assert (process.returncode, errors) == (0, "")
    assert "JupyterLab was shut down." in out


def test_a_server_that_dies_at_the_start(own_place, start):
    process = start("die")
    out, errors = process.communicate()
    assert process.returncode == 1
    assert "is open at" not in out
    (line,) = errors.splitlines()
    log = own_place / lab.LOG
    assert line.endswith(f"did not start: Bad config: no such port. Its log: {log}")


def test_a_server_that_dies_later(start):
    _, errors = start("crash").communicate()
    assert "ended by itself: ValueError: out of luck. Its log: " in errors


def test_what_jupyter_only_prints_is_shown(start):
    process = start("only print")
    out, _ = process.communicate()
    assert process.returncode == 0
    assert out.endswith("4.4.0\n")


def test_a_slow_start_is_told_and_ends_at_last(own_place, start):
    process = start("hang", slow=0, limit=0.5)
    out, errors = process.communicate()
    assert "longer than usual" in out
    assert process.returncode == 1
    assert "has not answered" in errors
    assert stand_ins(own_place) == []


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("", "nothing at all"),
        ("[C 2026-11-22 05:29:37.445 ServerApp] Bad: 'abc'.\n", "Bad: 'abc'"),
        ("[E 2026-11-22 05:29:37.445 A] broken\n[I 2026-11-22 05:29:38.000 A] bye\n", "broken"),
        ("Traceback:\n  File x\n    y\nOSError: no room\n\n", "OSError: no room"),
        ("first\nlast\n", "last"),
    ],
)
def test_the_last_words_of_a_log(own_place, text, last):
    (own_place / "log").write_text(text)
    assert server.last_words(own_place / "log") == last


# ---- the log ------------------------------------------------------------------------------------


def test_the_log_goes_to_the_data_folder_if_the_workspace_cannot_hold_it(
    own_place, own_progress_file
):
    (own_place / lab.LOG).mkdir()
    assert lab._log_file(own_place) == own_progress_file / lab.LOG


def test_without_any_place_for_the_log_the_cure_is_told(own_place, own_progress_file):
    (own_place / lab.LOG).mkdir()
    own_progress_file.write_text("a file where the folder should be")
    with pytest.raises(LabError, match="AMP_LESSONS_HOME") as refused:
        lab._log_file(own_place)
    assert "\n" not in str(refused.value)


# ---- servers that run already -------------------------------------------------------------------


def test_a_running_server_is_found_by_its_folder(own_place, start):
    process = start()
    address = address_of(process)
    (own_place / "link").symlink_to(own_place)
    assert server.running_in(own_place).address == address
    assert server.running_in(own_place / "link").address == address
    assert server.running_in(own_place / "runtime") is None
    assert server.running_in(own_place / "none") is None


def describe(own_place: Path, **changes: object) -> Path:
    """A file in the runtime folder, of a server that does not run."""
    info = {
        "hostname": "localhost",
        "password": False,
        "pid": os.getpid(),
        "port": 9,
        "root_dir": str(own_place),
        "token": "secret",
        "url": "http://localhost:9/",
    }
    file = own_place / "runtime" / "jpserver-7.json"
    file.write_text(json.dumps(info | changes))
    return file


@pytest.mark.parametrize("pid", [os.getpid(), 2**22 + 1], ids=["of another", "of nobody"])
def test_a_file_of_a_dead_server_is_no_running_server(own_place, pid):
    file = describe(own_place, pid=pid)
    assert server.running_in(own_place) is None
    assert file.exists()


def test_a_file_whose_address_another_server_has_now(own_place, start):
    address_of(start())
    (file,) = (own_place / "runtime").glob("*.json")
    info = json.loads(file.read_text())
    file.unlink()
    describe(own_place, port=info["port"], url=info["url"], token="of yesterday")
    assert server.running_in(own_place) is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"pid": null}', "\udcff"])
def test_files_that_make_no_sense_are_passed_over(own_place, content):
    file = describe(own_place)
    file.with_name("jpserver-1.json").write_bytes(content.encode(errors="surrogateescape"))
    assert [found.port for found in server.described()] == [9]


@pytest.mark.parametrize(
    ("changes", "address"),
    [
        ({}, "http://localhost:9/?token=secret"),
        ({"token": ""}, "http://localhost:9/"),
        ({"token": "a b&c"}, "http://localhost:9/?token=a+b%26c"),
        ({"hostname": "0.0.0.0", "url": "http://box:9/x/"}, "http://localhost:9/x/?token=secret"),
        ({"url": "https://localhost:9/"}, "https://localhost:9/?token=secret"),
    ],
)
def test_the_address_for_a_person(own_place, changes, address):
    assert server.JupyterServer.from_file(describe(own_place, **changes)).address == address


@pytest.fixture
def running(own_place):
    return server.JupyterServer.from_file(describe(own_place))


@pytest.fixture
def browser(own_place, monkeypatch) -> Iterator[Path]:
    """A browser that notes what it was asked to open. Nobody waits for the process that calls it
    but the tests, which leave nothing behind."""
    before = psutil.Process().children()
    script = own_place / "browser"
    script.write_text(f'#!/bin/sh\necho "$@" > {own_place}/part && mv {own_place}/part opened\n')
    script.chmod(0o755)
    monkeypatch.setenv("BROWSER", str(script))
    yield own_place / "opened"
    for child in psutil.Process().children():
        if child not in before:
            child.wait()


ASIS = {"browser": True, "port": None, "ip": None, "extra": ()}


@pytest.mark.parametrize("changes", [{}, {"port": 9}, {"port": 0}, {"ip": "localhost"}])
def test_a_second_call_leads_to_the_running_server(running, browser, capfd, changes):
    running.page.write_text("<html>")
    opening = lab.join(running, **ASIS | changes)
    out = capfd.readouterr().out
    assert "It's already open at http://localhost:9/?token=secret\n" in out
    assert opening.wait() == 0
    wait_until(browser.exists)
    assert browser.read_text().strip() == running.page.as_uri()


def test_a_second_call_opens_no_browser_if_not_wanted(running, browser):
    assert lab.join(running, **ASIS | {"browser": False}) is None
    assert not browser.exists()


@pytest.mark.parametrize("changes", [{"port": 10}, {"ip": "0.0.0.0"}, {"extra": ["--debug"]}])
def test_a_second_call_that_wants_other_settings_is_refused(running, browser, changes):
    with pytest.raises(LabError, match=r"already running.*http://localhost:9/\?token=secret$"):
        lab.join(running, **ASIS | changes)
    assert not browser.exists()
