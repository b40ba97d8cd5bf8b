"""The first cell of each notebook: silent where the course is installed, and enough where it isn't.

The bare environments see this one's packages through links, all but the course. pip runs with no
index; what it may install lies in a folder.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import sysconfig
import zipfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import packages_distributions
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from wheels import built_wheel

from amp_lessons.app import cli, doctor, set_up
from amp_lessons.app.workspace.manifest import digests
from amp_lessons.core import catalogue, ipynb, progress

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = [
    p for f in ("notebooks", "exercises", "solutions") for p in (ROOT / f).rglob("*.ipynb")
]
SOURCE = ipynb.source_of(ipynb.read(ROOT / catalogue.HOME)["cells"][0])
LEFT_OUT = ("amp_lessons", "_amp_lessons", "fsrs", "jupyterlab-", "torch-")


# ---- the cell ------------------------------------------------------------------------------------


def test_every_notebook_begins_with_the_same_hidden_cell():
    assert len(NOTEBOOKS) > 30
    for path in NOTEBOOKS:
        first, *others = ipynb.read(path)["cells"]
        assert ipynb.is_set_up(first), path.name
        assert ipynb.source_of(first) == SOURCE, path.name
        assert first["metadata"]["jupyter"] == {"source_hidden": True}
        assert first["metadata"]["cellView"] == "form"
        assert first["outputs"] == []
        assert not any(map(ipynb.is_set_up, others)), path.name


def test_the_cell_is_short_and_names_the_one_wheel():
    lines = SOURCE.splitlines()
    assert len(lines) <= 8
    assert max(map(len, lines)) <= 100
    assert lines[0].startswith("# @title ")
    assert SOURCE.count(catalogue.WHEEL) == 1


def test_where_the_course_is_installed_it_does_nothing(monkeypatch, capfd):
    """No process, no connection, no line, and one name more."""

    def refuse(*_, **__):
        raise AssertionError("it was to do nothing")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(socket, "socket", refuse)
    names: dict[str, object] = {}
    exec(SOURCE, names)
    assert capfd.readouterr() == ("", "")
    assert names.keys() - {"__builtins__"} == {"find_spec"}


def test_another_address_in_the_cell_is_no_change_of_a_sheet():
    path = ROOT / catalogue.LESSONS[0].sheet
    notebook = ipynb.read(path)
    before = digests(path.read_bytes())
    notebook["cells"][0]["source"] = SOURCE.replace(
        catalogue.WHEEL, "https://example.org/other.whl"
    )
    after = digests(ipynb.to_bytes(notebook))
    assert after["text"] == before["text"]
    assert after["sha256"] != before["sha256"]
    notebook["cells"][1]["source"] = "# mine"
    assert digests(ipynb.to_bytes(notebook))["text"] != before["text"]


# ---- a bare environment --------------------------------------------------------------------------


class Bare:
    """A virtual environment without the course, without fsrs and with an old PyTorch's name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "empty"
        self.offered = folder / "offered"
        for each in (self.folder, self.offered):
            each.mkdir()
        venv = folder / "venv"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        self.python = venv / "bin" / "python"
        (self.packages,) = venv.glob("lib/python*/site-packages")
        linked = folder / "linked"
        linked.mkdir()
        for path in Path(sysconfig.get_path("purelib")).iterdir():
            if not path.name.startswith(LEFT_OUT):
                (linked / path.name).symlink_to(path)
        (self.packages / "linked.pth").write_text(f"{linked}\n")
        self.distribution("torch", "2.11.0+cu128")

    def distribution(self, name: str, version: str) -> None:
        folder = self.packages / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}")

    def offer(self, name: str, version: str) -> None:
        """A wheel with one empty module, for pip to find."""
        info = f"{name}-{version}.dist-info"
        files = {
            f"{name}.py": "",
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            f"{info}/RECORD": "",
        }
        with zipfile.ZipFile(self.offered / f"{name}-{version}-py3-none-any.whl", "w") as archive:
            for path, text in files.items():
                archive.writestr(path, text)

    def run(self, code: str, **environment: str) -> str:
        """What a script prints that runs as one notebook's cells do, in the empty folder."""
        ours = ("PYTHONPATH", "VIRTUAL_ENV", "AMP_LESSONS_WHEEL")
        inherited = {name: value for name, value in os.environ.items() if name not in ours}
        offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.offered)}
        done = subprocess.run(
            [self.python, "-u", "-c", code],
            cwd=self.folder,
            env=inherited | offline | environment,
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout

    def installed(self) -> set[str]:
        """The distributions in it, but for those that it sees through links."""
        return {path.name.partition("-")[0] for path in self.packages.glob("*.dist-info")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def bare(tmp_path) -> Bare:
    return Bare(tmp_path)


@pytest.mark.slow
def test_it_installs_the_wheel_and_what_is_missing_and_leaves_the_rest(bare, wheel):
    bare.offer("fsrs", "6.1.0")
    bare.offer("torch", "2.13.0")
    then = (
        "from amp_lessons.amp.numbers import formats\nfrom amp_lessons.core import catalogue\n"
        "print(catalogue.checkout(), formats.__name__)"
    )
    (bare.folder / catalogue.WHEEL).symlink_to(wheel)
    output, result = bare.run(f"{SOURCE}\n{then}").splitlines()
    assert output.startswith("PyTorch 2.11.0+cu128 is older than 2.13, with which the course was")
    assert result == "None amp_lessons.amp.numbers.formats"
    assert bare.installed() == {"torch", "fsrs", "amp_lessons"}
    assert [p.name for p in bare.packages.glob("torch-*")] == ["torch-2.11.0+cu128.dist-info"]
    assert bare.run(SOURCE, PIP_FIND_LINKS="/nowhere") == "", "the second time there is nothing"


def test_without_a_wheel_one_line_says_what_to_do(bare):
    line = (
        f"Not installed. Make sure that pip can read {catalogue.WHEEL}, then run this cell again.\n"
    )
    assert bare.run(SOURCE) == line
    assert bare.installed() == {"torch"}


@pytest.mark.slow
def test_what_pip_cannot_add_is_named_and_the_next_run_starts_over(bare, wheel):
    """Half a course would be found by the next run, which would then do nothing."""
    address = wheel.as_uri()
    why, line = bare.run(SOURCE, AMP_LESSONS_WHEEL=address).splitlines()
    assert why.startswith("AMP Lessons needs fsrs<7,>=6.1, which pip could not install: ")
    assert "No matching distribution found for fsrs" in why
    assert line.startswith(f"Not installed. Make sure that pip can read {address}")
    assert bare.installed() == {"torch"}
    bare.offer("fsrs", "6.1.0")
    bare.run(SOURCE, AMP_LESSONS_WHEEL=address)
    assert bare.installed() == {"torch", "fsrs", "amp_lessons"}


# ---- the second half -----------------------------------------------------------------------------


def test_the_requirements_are_those_of_the_course_without_jupyterlab_and_extras():
    found = set_up.needed()
    assert {"torch", "ipywidgets", "anywidget", "markdown-it-py"} <= found.keys()
    assert not {"jupyterlab", "pytest", "nbgrader"} & found.keys()
    assert found["torch"].startswith("torch")


@pytest.mark.parametrize(
    ("torch", "said"),
    [
        ("2.13.0+cpu", ""),
        ("2.15.0", ""),
        ("2.11.0+cu128", "PyTorch 2.11.0+cu128 is older than 2.13"),
        ("2.10.0", "AMP Lessons was not tested with these versions"),
    ],
)
def test_one_line_says_what_another_torch_means(monkeypatch, capsys, torch, said):
    monkeypatch.setattr(
        set_up, "versions", lambda names: dict.fromkeys(names, "99") | {"torch": torch}
    )
    monkeypatch.setattr(set_up, "needed", lambda: {"torch": set_up.of_extra("")["torch"]})
    assert set_up.main() == 0
    output = capsys.readouterr().out
    assert output.count("\n") == bool(said)
    assert said in output


def test_the_second_half_starts_where_nothing_is_installed():
    """It installs lazy_loader too, which the package itself imports. `-S` hides what is there."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from amp_lessons.app import set_up"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_pip_may_not_exchange_what_is_there(monkeypatch):
    called: list[str] = []

    def pip(*words: str) -> subprocess.CompletedProcess[str]:
        called.extend(words)
        called.append(Path(words[2]).read_text())
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(set_up, "pip", pip)
    set_up.install(["genanki>=0.13,<1"], {"torch": "2.11.0+cu128", "ipython": "7.34.0"})
    assert called[-2:] == ["genanki>=0.13,<1", "torch==2.11.0+cu128\nipython==7.34.0\n"]


def test_a_failure_in_a_checkout_removes_nothing(monkeypatch, capsys):
    commands: list[str] = []

    def pip(command: str, *_: str) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 1, "", "ERROR: no network\n")

    monkeypatch.setattr(set_up, "pip", pip)
    monkeypatch.setattr(set_up, "needed", lambda: {"absent-package": "absent-package>=1"})
    assert set_up.main() == 1
    assert commands == ["install"]
    line = "AMP Lessons needs absent-package>=1, which pip could not install: no network\n"
    assert capsys.readouterr().out == line


# ---- a command without the extra -----------------------------------------------------------------


def test_a_command_that_misses_the_extra_says_how_to_get_it(monkeypatch, capsys):
    def fails(_: list[str]) -> int:
        raise ModuleNotFoundError("No module named 'anywidget.x'", name="anywidget.x")

    monkeypatch.setattr(cli, "_run", fails)
    with pytest.raises(SystemExit) as ended:
        cli.main(["drill"])
    assert ended.value.code == 1
    assert capsys.readouterr().err.splitlines() == [
        "amp-lessons: this command needs anywidget.x, which comes with the course: "
        f'{sys.executable} -m pip install "amp-lessons[course]"'
    ]


def test_each_module_of_the_extra_is_known_and_no_other():
    wanted = {name.replace("_", "-").lower() for name in set_up.of_extra(set_up.EXTRA)}
    modules = packages_distributions().items()
    brought = {m for m, by in modules if {n.replace("_", "-").lower() for n in by} & wanted}
    named = {m for m in brought if m.replace("_", "-").lower() in wanted} | {"IPython", "PIL"}
    assert {"sklearn", "markdown_it", "anywidget", "jupyterlab"} <= brought
    missed = [m for m in {*named, "sklearn", "markdown_it"} if not set_up.comes_with_course(m)]
    assert not missed
    for module in ("torch", "transformers", "nothing_of_ours"):
        assert not set_up.comes_with_course(module)


def test_without_the_course_as_a_package_nothing_is_claimed(monkeypatch):
    monkeypatch.setattr(set_up, "DISTRIBUTION", "no-such-distribution")
    assert not set_up.comes_with_course("anywidget")


def test_the_doctor_names_many_missing_packages_in_one_line_with_a_cure():
    names = ["torch", "rich", "anywidget", "fsrs", "jinja2"]
    absent = [doctor.Package(name, None, ">=1", ok=False) for name in names]
    old = doctor.Package("numpy", "1.0", ">=2.0", ok=False, too_old=True)
    many, one = doctor._package_problems([*absent, old])
    assert many.what == "5 packages of the course are not installed, such as torch"
    assert many.cure == set_up.cure()
    assert one.what == "numpy is version 1.0; supported: >=2.0"


# ---- a notebook alone ----------------------------------------------------------------------------


def alone(lesson: catalogue.Lesson) -> nbformat.NotebookNode:
    """The code cells of a lesson and of its sheet, for one kernel to run in one go."""
    both = [nbformat.read(ROOT / path, as_version=4) for path in (lesson.notebook, lesson.sheet)]
    both[0].cells = [c for each in both for c in each.cells if c.cell_type == "code"]
    return both[0]


def run_in(folder: Path, notebook: nbformat.NotebookNode, kernel: str = "python3") -> None:
    """Run a notebook in a folder that is made for it, and that has to stay empty."""
    folder.mkdir()
    place = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, timeout=1800, kernel_name=kernel, resources=place)
    # `execute` would leave its event loop open, and Playwright's runs in this thread.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(lambda: asyncio.run(client.async_execute())).result()
    assert list(folder.iterdir()) == []


def shown(notebook: nbformat.NotebookNode, text: str) -> str:
    """What the first cell with this text shows."""
    return str(next(cell for cell in notebook.cells if text in cell.source).outputs)


LESSON = catalogue.lesson_called("number_formats")


@pytest.mark.slow
def test_a_lesson_and_a_sheet_work_alone_in_an_empty_folder(tmp_path):
    """No workspace and no other notebook: a prediction is asked, a check answers, and the progress
    of both is saved."""
    notebook = alone(LESSON)
    run_in(tmp_path / "empty", notebook)
    assert shown(notebook, "# @title") == "[]"
    assert "Prediction" in shown(notebook, "predict(")
    assert "Lesson 01 done" in shown(notebook, "home.finished(")
    assert "Not attempted" in shown(notebook, "ex.next_float.check(")
    done = progress.load()
    assert set(done.lessons) == {LESSON.slug}
    assert set(done.entries) == {info.name for info in LESSON.exercises}


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_lesson_and_a_sheet_set_up_a_machine_that_has_only_a_kernel(tmp_path, wheel, monkeypatch):
    """Everything else comes from pip's index, PyTorch too, in the versions of constraints.txt."""
    python = tmp_path / "venv" / "bin" / "python"
    spec = tmp_path / "jupyter" / "kernels" / "bare" / "kernel.json"
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    monkeypatch.setenv("PIP_CONSTRAINT", str(ROOT / "constraints.txt"))
    subprocess.run([python, "-m", "pip", "install", "--quiet", "ipykernel"], check=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec.parent.mkdir(parents=True)
    spec.write_text(json.dumps({"argv": argv, "display_name": "bare", "language": "python"}))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "jupyter"))
    monkeypatch.setenv("AMP_LESSONS_WHEEL", str(wheel))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    notebook = alone(LESSON)
    run_in(tmp_path / "empty", notebook, kernel="bare")
    assert shown(notebook, "# @title") == "[]"
    assert "Prediction" in shown(notebook, "predict(")
    assert "Not attempted" in shown(notebook, "ex.next_float.check(")
    assert set(progress.load().lessons) == {LESSON.slug}
