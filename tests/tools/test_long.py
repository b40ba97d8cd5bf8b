"""What takes long: `make test-long`.

Lessons with curves on this machine's own instruction set and on an older one, and `make lab` as a
learner meets it first: in a fresh clone, with everything still to be installed.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from waiting import wait_until

from amp_lessons.core.catalogue import lesson_called

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

ROOT = Path(__file__).resolve().parents[2]
RETOLD = ("amp_in_20_minutes", "how_numbers_break", "amp_from_scratch", "grad_scaler")
AVX2 = {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2"}


# ---- another instruction set --------------------------------------------------------------------


@pytest.mark.parametrize("slug", RETOLD)
@pytest.mark.parametrize("settings", [{}, AVX2], ids=["own", "AVX2"])
def test_a_lesson_shows_what_is_stored_on_any_cpu(settings, slug):
    """nbval runs it from top to bottom in a kernel that has these settings."""
    environment = os.environ | settings
    code = "import torch; print(torch.backends.cpu.get_cpu_capability())"
    command = [sys.executable, "-c", code]
    capability = subprocess.check_output(command, env=environment, text=True).strip()
    assert not (settings and "AVX512" in capability), "the settings change nothing"
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
    command.append(lesson_called(slug).notebook)
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, f"on {capability}:\n{run.stdout[-5000:]}"


# ---- a first `make lab` -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """The checkout as a learner has it after `git clone`: what is not committed is not there."""
    folder = tmp_path_factory.mktemp("fresh") / "course"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
    return folder


@contextmanager
def make_lab(clone: Path, port: int) -> Iterator[tuple[subprocess.Popen, str]]:
    """`make lab` in a session of its own, and the address that it prints."""
    out, log = clone.parent / "out", clone.parent / "log"
    ours = ("PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "AMP_LESSONS_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    environment |= {name: str(clone.parent / name.lower()) for name in names}
    command = ["make", "lab", f"PYTHON={sys.executable}", f"ARGS=--no-browser --port {port}"]
    with out.open("w") as stdout, log.open("w") as stderr:
        process = subprocess.Popen(
            command,
            cwd=clone,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
    try:
        address = wait_until(
            lambda: re.search(r"http://\S+", out.read_text()),
            process,
            lambda: f"It said:\n{out.read_text()[-2000:]}\n{log.read_text()[-5000:]}",
        )[0]
        yield process, address
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def page(address: str) -> str:
    with suppress(OSError), urllib.request.urlopen(address) as answer:
        return answer.read().decode()
    return ""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM], ids=["cold, Ctrl-C", "warm, SIGTERM"]
)
def test_make_lab_serves_the_course_and_ends_when_asked(clone, number):
    """The first time everything is installed, the second time it is there."""
    assert (clone / ".venv").exists() == (number is signal.SIGTERM), "cold comes first"
    port = free_port()
    with make_lab(clone, port) as (process, address):
        assert f":{port}" in address
        assert "JupyterLab" in wait_until(lambda: page(address), process)
        os.killpg(process.pid, number)
        wait_until(lambda: process.poll() is not None)
        wait_until(lambda: not page(address))
        wait_until(lambda: not alive(process.pid))


def alive(session: int) -> bool:
    """Whether a process of a session is left."""
    with suppress(ProcessLookupError):
        os.killpg(session, 0)
        return True
    return False
