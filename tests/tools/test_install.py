"""tools/install.py: what a person sees during the first two minutes, and what survives Ctrl+C.

Stand-ins for uv and pip print what those print, as fast or as slowly as a test needs.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import uv_or_pip
from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow
TOOLS = ("install", "uv_or_pip", "watched")
PIP = """
import os, pathlib, sys, time

if "config" in sys.argv and pathlib.Path("pip-config").exists():
    print(pathlib.Path("pip-config").read_text())
if "install" in sys.argv:
    manner = pathlib.Path("manner").read_text().strip()
    with open("called", "a") as called:
        called.write("\\n" * (called.tell() > 0) + " ".join(sys.argv[1:]))
    if sys.argv[-1] == "uv" and pathlib.Path("uv").exists():
        os.rename("uv", ".venv/bin/uv")
    pathlib.Path("pid").write_text(str(os.getpid()))
    print("WARNING: Location 'somewhere' is ignored: it is not a folder.", file=sys.stderr)
    print("Collecting torch==2.13.0 (from amp-lessons==0.1.0)")
    print("  Downloading torch-2.13.0-cp311-cp311-linux_x86_64.whl (190.5 MB)")
    if manner == "CUDA":
        print("Collecting nvidia-cublas==13.1.1.3 (from torch==2.13.0->amp-lessons==0.1.0)")
    if manner in ("hang", "CUDA"):
        pathlib.Path("hanging").touch()
        time.sleep(600)
    if manner.startswith("fail"):
        print(manner.partition(" ")[2])
        print("ERROR: No matching distribution found for torch==2.13.0")
        print("ERROR: ResolutionImpossible: for help visit some page")
        sys.exit(1)
    print("Installing collected packages: torch, numpy")
"""
UV = """
import json, os, pathlib, signal, sys, time

manner = pathlib.Path("uv-manner").read_text() if os.path.exists("uv-manner") else "fail"
with open("uv-called", "a") as called:
    called.write(" ".join(sys.argv[1:]) + "\\n")
pathlib.Path("uv-environment").write_text(json.dumps(dict(os.environ)))
print("Resolved 136 packages in 728ms", file=sys.stderr)
if "--dry-run" in sys.argv:
    if "--torch-backend" in sys.argv and manner != "CUDA, and PyTorch's index":
        sys.exit("error: Request failed after 3 retries")
    if manner.startswith("CUDA") and "--torch-backend" not in sys.argv:
        print(" + nvidia-cublas==13.1.1.3")
    sys.exit()
print("Downloading torch (181.7MiB)", file=sys.stderr)
if manner == "hang":
    pathlib.Path("pid").write_text(str(os.getpid()))
    pathlib.Path("hanging").touch()
    time.sleep(600)
if manner == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if manner.startswith("fail"):
    sys.exit("error: Request failed after 3 retries\\n  cause: dns error")
print("Installed 136 packages in 1.97s", file=sys.stderr)
"""


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("install", ROOT / "tools" / "install.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


install = load()


@pytest.fixture
def project(tmp_path):
    """A checkout with a virtual environment in which stand-ins are uv and pip."""
    for name in ("pyproject.toml", "constraints.txt", install.VISION_OPS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "manner").write_text("succeed")
    (tmp_path / "uv-manner").write_text("succeed")
    make_environment(tmp_path)
    return tmp_path


@pytest.fixture
def failing_uv(project):
    (project / "uv-manner").write_text("fail")
    return project


def make_environment(project: Path) -> None:
    """The modules that install, and an environment with the stand-ins. This uv fails until a file
    `uv-manner` says otherwise."""
    (project / "tools").mkdir(exist_ok=True)
    for name in TOOLS:
        shutil.copy(ROOT / "tools" / f"{name}.py", project / "tools")
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", "--symlinks", project / ".venv"],
        check=True,
    )
    packages = next(project.glob(".venv/lib/python*/site-packages"))
    (packages / "pip").mkdir()
    (packages / "pip" / "__init__.py").touch()
    (packages / "pip" / "__main__.py").write_text(PIP)
    uv = project / ".venv" / "bin" / "uv"
    uv.write_text(f"#!{sys.executable}{UV}")
    uv.chmod(0o755)


def surroundings(**more: str) -> dict[str, str]:
    """Environment variables with no settings of uv or pip but these."""
    ours = ("UV", "PIP_", "PYTORCH", "SSL_CERT_FILE", "ALL_PROXY")
    return {name: each for name, each in os.environ.items() if not name.startswith(ours)} | more


def run(project: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, project / "tools" / "install.py", *words]
    return subprocess.run(command, env=surroundings(**more), capture_output=True, text=True)


def calls(project: Path, file: str = "uv-called") -> list[str]:
    """What uv was called with, or `called`: pip, and forget it."""
    if not (project / file).exists():
        return []
    lines = (project / file).read_text().splitlines()
    (project / file).unlink()
    return lines


def test_it_says_what_it_does_and_then_has_nothing_to_do(project):
    first = run(project)
    assert (first.returncode, first.stderr) == (0, "")
    assert "usually less than a minute" in first.stdout
    assert "Resolved" not in first.stdout
    assert max(map(len, first.stdout.splitlines())) <= 80
    plan, called = calls(project)
    assert called.startswith("pip install --color never --python ")
    assert called.endswith(
        "--index-strategy unsafe-best-match --constraint constraints.txt --editable .[course] pip"
    )
    assert plan == called + " --dry-run"
    assert calls(project, "called") == []
    assert "Resolved 136" in (project / ".venv" / "install.log").read_text()
    second = run(project)
    assert (second.returncode, second.stdout, second.stderr) == (0, "", "")
    assert calls(project) == []


def test_what_the_tests_need_includes_what_the_course_needs(project):
    assert run(project, "tests").returncode == 0
    assert "--editable .[tests] pip --compile-bytecode" in calls(project)[-1]
    assert run(project, "authors").stdout == run(project, "lab").stdout == ""
    (project / ".venv" / ".tests").unlink()
    assert "what the tests need" in run(project, "tests").stdout


# ---- uv, or else pip ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("manner", "why"),
    [
        ("fail", "dns error"),
        ("killed", "Downloading torch (181.7MiB)"),
        ("no program", "Exec format error"),
    ],
)
def test_pip_takes_over_once_if_uv_fails(project, manner, why):
    (project / "uv-manner").write_text(manner)
    if manner == "no program":
        (project / ".venv" / "bin" / "uv").write_text("not a program")
    done = run(project)
    assert (done.returncode, done.stderr) == (0, "")
    (message,) = (line for line in done.stdout.splitlines() if "uv failed" in line)
    assert message.startswith("uv failed, so pip takes over: ")
    assert why in message
    (called,) = calls(project, "called")
    assert called.startswith("--disable-pip-version-check --no-input install ")
    assert called.endswith("--constraint constraints.txt --editable .[course]")
    assert run(project).stdout == ""


def test_pip_puts_uv_into_the_environment_if_there_is_none(project):
    uv = project / ".venv" / "bin" / "uv"
    uv.rename(project / "uv")
    assert run(project, PATH="").returncode == 0
    (called,) = calls(project, "called")
    assert called.endswith("-c constraints.txt uv")
    assert len(calls(project)) == 2
    uv.unlink()  # and where it can't
    (project / ".venv" / ".lab").unlink()
    assert "uv failed, so pip takes over: it can't be downloaded" in run(project, PATH="").stdout
    assert len(calls(project, "called")) == 2


def test_the_uv_of_this_machine_is_used(project, tmp_path):
    uv = project / ".venv" / "bin" / "uv"
    (tmp_path / "elsewhere").mkdir()
    uv.rename(tmp_path / "elsewhere" / "uv")
    assert run(project, PATH=str(tmp_path / "elsewhere")).returncode == 0
    assert calls(project, "called") == []
    assert len(calls(project)) == 2


def test_uv_is_told_what_pip_is_told(project):
    (project / "wheels").mkdir()
    (project / "pip-config").write_text(
        ":env:.find-links='wheels /nowhere https://wheels.example/'\n"
        "global.cert='/etc/one.pem'\n"
        "global.extra-index-url='\\nhttps://one.example/simple\\nfile:///two'\n"
        "global.find-links='/overridden'\n"
        "global.index-url='https://main.example/simple'\n"
        "global.no-color='true'\n"
        "install.proxy='proxy.example:3128'\n"
    )
    assert run(project, UV_DEFAULT_INDEX="https://mine.example").returncode == 0
    message = json.loads((project / "uv-environment").read_text())
    assert {name: message.get(name) for name in uv_or_pip.UV_NAMES.values()} == {
        "UV_DEFAULT_INDEX": "https://mine.example",  # set by a person, for uv
        "UV_INDEX": "https://one.example/simple file:///two",
        "UV_FIND_LINKS": "wheels,https://wheels.example/",
        "UV_INSECURE_HOST": None,
        "UV_HTTP_TIMEOUT": None,
        "SSL_CERT_FILE": "/etc/one.pem",
        "SSL_CLIENT_CERT": None,
        "ALL_PROXY": "http://proxy.example:3128",
    }


# ---- PyTorch's build ----------------------------------------------------------------------------


def test_the_cpu_build_comes_from_pytorchs_index_where_others_have_cuda_only(project):
    (project / "uv-manner").write_text("CUDA, and PyTorch's index")
    assert run(project).returncode == 0
    last = calls(project)[-1]
    assert last.endswith("--torch-backend cpu")
    assert "===" not in last


def test_gigabytes_never_come_unasked(project):
    (project / "uv-manner").write_text("CUDA")
    done = run(project)
    assert done.returncode == 1
    assert "3 GB to download and 7 GB of disk" in done.stdout
    assert done.stdout.endswith("If you want it: make lab PYTORCH=cuda\n")
    assert all("--dry-run" in call for call in calls(project))
    assert calls(project, "called") == []


def test_pip_is_ended_before_gigabytes_come(failing_uv):
    (failing_uv / "manner").write_text("CUDA")
    done = run(failing_uv)
    assert done.returncode == 1
    assert done.stdout.endswith("If you want it: make lab PYTORCH=cuda\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int((failing_uv / "pid").read_text()), 0)


def test_cuda_comes_when_it_is_asked_for_and_is_kept(project):
    (project / "uv-manner").write_text("CUDA")
    done = run(project, PYTORCH="cuda")
    assert done.returncode == 0
    assert "3 GB to download" in done.stdout
    (called,) = calls(project)
    assert called.endswith("--editable .[course] torch===2.13.0 pip")
    assert run(project).stdout == ""
    with (project / "constraints.txt").open("a") as file:
        file.write("# changed\n")
    assert run(project).returncode == 0
    assert "torch===2.13.0" in calls(project)[0]
    place = place_of(project)
    place.choose_build("cpu")
    assert not place.is_ready("lab")
    assert place.trouble() == "PyTorch's CPU build was asked for"


def test_an_interrupted_choice_is_kept(project):
    place = place_of(project)
    place.unfinished.write_text("cuda")
    place.choose_build("")
    assert place.build == "cuda"
    assert place.trouble() is None
    place.choose_build("cpu")
    assert place.trouble() == "PyTorch's CPU build was asked for"


def test_a_machine_with_a_gpu_is_told_of_the_other_build(project):
    for folder in ("with", "without"):
        (project / folder).mkdir()
    (project / "with" / "nvidia-smi").touch(0o755)
    message = "press Ctrl+C and run: make lab PYTORCH=cuda"
    assert message in run(project, PATH=str(project / "with")).stdout
    (project / ".venv" / ".lab").unlink()
    assert message not in run(project, PATH=str(project / "with"), PYTORCH="cpu").stdout
    if not Path("/proc/driver/nvidia").exists():
        (project / ".venv" / ".lab").unlink()
        assert message not in run(project, PATH=str(project / "without")).stdout


def test_another_word_is_refused(project):
    done = run(project, PYTORCH="rocm")
    assert (done.returncode, done.stdout) == (1, "PYTORCH=rocm is neither cpu nor cuda\n")


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_elsewhere_nothing_is_asked(project, monkeypatch, platform):
    """There PyPI's PyTorch is the CPU build."""
    monkeypatch.setattr(sys, "platform", platform)
    place = place_of(project)
    place.choose_build("")
    with install.Signals() as signals:
        assert not uv_or_pip.Tools(place, "lab", signals, None).no_cuda
    with pytest.raises(install.InstallError, match="is for Linux"):
        place.choose_build("cuda")


def test_only_the_environment_of_the_tests_gets_the_repair_of_torchvision(project):
    run(project)
    assert not list(project.glob(".venv/**/*vision_ops*"))
    run(project, "tests")
    repaired = next(project.glob(".venv/**/amp_lessons_vision_ops.pth"))
    asked = "import sys; print(any('DeclaresOps' in str(finder) for finder in sys.meta_path))"
    python = project / ".venv" / "bin" / "python"
    done = subprocess.run([python, "-c", asked], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert run(project, "tests").stdout == ""
    repaired.unlink()
    assert "Installed" in run(project, "tests").stdout
    assert repaired.exists()


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_changed_requirements_are_installed(project, name):
    run(project)
    with (project / name).open("a") as file:
        file.write("# changed\n")
    assert "up to date" in run(project).stdout
    assert run(project).stdout == ""


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_broken_note_of_what_is_installed_counts_as_none(project, content):
    run(project)
    (project / ".venv" / ".lab").write_text(content)
    assert "Installed" in run(project).stdout
    assert run(project).stdout == ""


# ---- interrupted --------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("tool", ["uv", "pip"])
def test_stopped_while_it_installs(project, tool, number):
    (project / "uv-manner").write_text("hang" if tool == "uv" else "fail")
    (project / "manner").write_text("hang")

    def heed() -> None:
        for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(each, signal.SIG_DFL)

    process = subprocess.Popen(
        [sys.executable, project / "tools" / "install.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=surroundings(),
        preexec_fn=heed,
    )
    wait_until((project / "hanging").exists, process)
    process.send_signal(number)
    out, errors = process.communicate()
    assert (process.returncode, errors) == (128 + number, "")
    assert out.splitlines()[-1].startswith("Stopped. Run the same command again")
    with pytest.raises(ProcessLookupError):
        os.kill(int((project / "pid").read_text()), 0)
    assert not (project / ".venv" / "tmp").exists()
    assert bool(calls(project, "called")) == (tool == "pip"), "pip doesn't take over then"
    (project / "uv-manner").write_text("succeed")
    assert run(project).returncode == 0
    assert run(project).stdout == ""


def distribution(packages: Path, name: str, record: str | None) -> Path:
    folder = packages / f"{name}-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    if record is not None:
        (folder / "RECORD").write_text(record)
    return folder


INSTALLER = "{0}-1.0.dist-info/METADATA,sha256=x,4\n{0}-1.0.dist-info/INSTALLER,sha256=x,4\n"


def test_packages_that_are_left_half_installed_are_installed_again(project):
    run(project)
    packages = next(project.glob(".venv/lib/python*/site-packages"))
    whole = distribution(packages, "whole", '"a, b.py",,\n' + INSTALLER.format("whole"))
    half = [
        distribution(packages, "half", "half.py,,\n"),
        distribution(packages, "bare", None),
        distribution(packages, "removed", "removed.py,,\n" + INSTALLER.format("removed")),
    ]
    for folder, file in ((whole, "a, b.py"), (half[0], "half.py")):
        (folder.parent / file).touch()
    for folder in (whole, half[2]):
        (folder / "INSTALLER").touch()
    (packages / "~orch").mkdir()
    (project / ".venv" / ".lab").unlink()
    (project / ".venv" / ".unfinished").touch()
    assert run(project).returncode == 0
    assert whole.exists()
    assert not any(each.exists() for each in (*half, packages / "~orch"))
    assert not (project / ".venv" / ".unfinished").exists()


def place_of(project: Path) -> install.Place:
    return install.Place(project, project / ".venv")


def test_what_an_interrupted_venv_leaves_is_made_again(project):
    """A folder with a link to Python, and no packages."""
    place = place_of(project)
    (place.venv / "pyvenv.cfg").unlink()
    shutil.rmtree(place.venv / "lib")
    place.python.unlink()
    reason = place.trouble()
    assert reason == ".venv has no Python that runs"
    with install.Signals() as signals:
        install.make_environment(place, reason, signals)
    assert place.trouble() is None


@pytest.mark.slow
def test_pip_takes_over_where_there_is_none_yet(project):
    """uv would have brought it. The environment gets the one that comes with Python."""
    place = place_of(project)
    shutil.rmtree(place.packages() / "pip")
    with install.Signals() as signals:
        tools = uv_or_pip.Tools(place, "lab", signals, None)
        assert tools._pip()[0] == sys.executable
        own = tools._pip(of_its_own=True)
    assert own == [place.python, "-m", "pip"]
    assert list(place.packages().glob("pip-*.dist-info"))


def test_what_a_first_lesson_imports_is_compiled(project, monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    (project / "slow_to_compile.py").write_text("x = 1")
    command = [sys.executable, "-c", uv_or_pip.WARM_UP, "slow_to_compile", "there_is_none"]
    assert subprocess.run(command, cwd=project, stderr=subprocess.DEVNULL).returncode == 0
    assert list(project.glob("__pycache__/slow_to_compile.*"))


def test_when_an_environment_has_to_be_made_again(project, tmp_path_factory):
    place = place_of(project)
    assert place.trouble() is None
    assert run(project).returncode == 0
    moved = tmp_path_factory.mktemp("moved") / "here"
    shutil.copytree(project, moved, symlinks=True)
    assert place_of(moved).trouble() == "This folder has moved"
    assert not place_of(moved).is_ready("lab")
    place.python.unlink()
    place.python.symlink_to("/nowhere/python")
    assert "Python of .venv has changed" in place.trouble()
    (place.venv / ".lab").unlink()
    assert "no Python that runs" in place.trouble()
    shutil.rmtree(place.venv)
    assert place.trouble() == ""


def test_two_at_once_take_turns(project):
    with install.Signals() as signals, install.OneAtATime(project, signals):
        second = subprocess.Popen(
            [sys.executable, project / "tools" / "install.py"],
            stdout=subprocess.PIPE,
            env=surroundings(),
            text=True,
        )
        assert second.stdout.readline().startswith("Another make is installing")
        assert calls(project) == []
    second.communicate()
    assert second.returncode == 0
    assert len(calls(project)) == 2


# ---- when it fails ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("output", "cure"),
    [
        ("WARNING: Retrying after NewConnectionError('x: Connection refused')", "network"),
        ("ERROR: Could not install packages: [Errno 28] No space left on device", "room"),
        ("ERROR: Could not find a version (from versions: none)", "make lab PYTHON=python3.12"),
        ("PermissionError: [Errno 13] Permission denied: '/x'", "yours"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "damaged"),
    ],
)
def test_a_failure_names_the_error_the_cure_and_the_log(failing_uv, output, cure):
    (failing_uv / "manner").write_text(f"fail {output}")
    done = run(failing_uv)
    assert done.returncode == 1
    error, what_to_do, log = done.stdout.splitlines()[-3:]
    assert error == "pip failed: No matching distribution found for torch==2.13.0"
    assert what_to_do.startswith("What to do: ")
    assert cure in what_to_do
    assert log.endswith("install.log")
    assert output in (failing_uv / ".venv" / "install.log").read_text()
    (failing_uv / "manner").write_text("succeed")
    assert run(failing_uv).returncode == 0


def test_a_missing_venv_module_has_its_own_cure():
    output = "The virtual environment was not created because ensurepip is not\navailable."
    assert "apt install python3-venv" in install.cure_for(output)


def test_an_old_python_is_told_the_way_in_one_line(monkeypatch):
    monkeypatch.setattr(install.sys, "version_info", (3, 9, 2))
    monkeypatch.setattr(install.shutil, "which", lambda name: name == "python3.12")
    with pytest.raises(install.InstallError) as refused:
        install.require_python()
    assert str(refused.value) == (
        "AMP Lessons needs Python 3.11 or newer, and this is 3.9: make lab PYTHON=python3.12"
    )


@pytest.mark.parametrize("name", TOOLS)
def test_an_old_python_can_read_the_files(name):
    ast.parse((ROOT / "tools" / f"{name}.py").read_text(), feature_version=(3, 6))


def test_a_place_that_cannot_be_written(project):
    shutil.rmtree(project / ".venv")
    (project / ".venv").write_text("a file in the way")
    done = run(project)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert ".venv" in done.stdout.splitlines()[-2]


# ---- what it shows ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "shown"),
    [
        (["Collecting torch<3,>=2.13 (from x)"], "looking for torch"),
        (
            ["  Downloading https://x.example/rich-15.0.0-py3-none-any.whl (300 kB)"],
            "downloading rich (300 kB)",
        ),
        (["Installing collected packages: a, b"], "putting the packages in place"),
        (["Resolved 136 packages in 728ms"], "downloading 136 packages"),
        (
            ["Downloading torch (181.7MiB)", "Downloading jedi (4.7MiB)", " Downloaded jedi"],
            "downloading torch (181.7MiB)",
        ),
        (["Downloading jedi (4.7MiB)", " Downloaded jedi", "Prepared 2 packages in 3s"], "putting"),
        (["Installed 136 packages in 1.97s"], "compiling 136 packages"),
        (["Something else"], "starting"),
    ],
)
def test_what_is_going_on(lines, shown):
    assert uv_or_pip.doing(lines).startswith(shown)


def test_a_terminal_gets_one_line_that_changes(project):
    (project / "uv-manner").write_text("hang")
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, project / "tools" / "install.py"],
        stdout=theirs,
        stderr=theirs,
        env=surroundings(TERM="xterm", COLUMNS="60"),
    )
    os.close(theirs)
    shown = b""
    while b"downloading torch (181.7MiB)" not in shown:
        shown += os.read(ours, 4096)
    process.terminate()
    while b"Stopped." not in shown:
        shown += os.read(ours, 4096)
    assert process.wait() == 143
    os.close(ours)
    assert b"\r\x1b[2K  0:0" in shown


def test_the_makefile_calls_it():
    # `make test ARGS=...` hands its own arguments on to a make that a test starts.
    outer = ("ARGS", "MAKEFLAGS", "MAKEOVERRIDES", "MFLAGS", "MAKELEVEL")
    dry = subprocess.run(
        ["make", "--no-print-directory", "-n", "lab", "PYTHON=some-python"],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if name not in outer},
        capture_output=True,
        text=True,
    )
    assert dry.stdout.splitlines() == [
        "some-python tools/install.py lab --venv .venv",
        ".venv/bin/amp-lessons lab ",
    ]
