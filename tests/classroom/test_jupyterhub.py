"""The JupyterHub of `hub/`: two learners log in, get the course, and run a check."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import nbformat
import pytest
from class_hub import CONFIG, Hub, Learner, find_proxy, running_hub
from traitlets.config import Config, PyFileConfigLoader

from amp_lessons.app.workspace import MANIFEST, START_PAGE

ROOT = Path(__file__).resolve().parents[2]
SHEET = "exercises/01_number_formats_exercises.ipynb"
WRONG = "def next_float(x):\n    return x + 2.0**-24"
CHECK = "\nex.next_float.check(next_float)"


def right_answer() -> str:
    solution = nbformat.read(ROOT / SHEET.replace("exercises/", "solutions/"), as_version=4)
    cells = [cell for cell in solution.cells if "nbgrader" in cell.metadata]
    return next(cell.source for cell in cells if cell.metadata.nbgrader.grade_id == "next_float")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that runs. Without its proxy the test is skipped, or fails where one is required."""
    if find_proxy() is None:
        message = (
            "no configurable-http-proxy: npm install --prefix .venv configurable-http-proxy@5.1.0"
        )
        if os.environ.get("AMP_LESSONS_REQUIRE_HUB") == "1":
            pytest.fail(message)
        pytest.skip(message)
    with running_hub(tmp_path_factory.mktemp("hub")) as hub:
        yield hub


@pytest.fixture(scope="module")
def learners(hub: Hub) -> Iterator[tuple[Learner, Learner]]:
    """Ada and Ben. Both have logged in, and their servers run."""
    with ExitStack() as stack:
        ada, ben = (stack.enter_context(Learner(hub, name)) for name in ("ada", "ben"))
        for one in (ada, ben):
            assert one.log_in(hub.password).url.endswith(f"/hub/spawn-pending/{one.name}")
        for one in (ada, ben):
            one.wait_for_server()
        yield ada, ben


@pytest.mark.slow
def test_each_learner_sees_the_home_page_of_a_copy_of_their_own(hub, learners):
    for one in learners:
        page = one.first_page()
        assert page.ok
        assert page.url == f"{hub.address}/user/{one.name}/lab/tree/{START_PAGE}"
        assert one.api(f"contents/{START_PAGE}")["type"] == "notebook"
        assert (hub.folder / "homes" / one.name / "amp-lessons" / MANIFEST).is_file()


@pytest.mark.slow
def test_a_check_runs_for_both_and_each_has_their_own_progress(learners):
    ada, ben = learners
    for one, answer, state in ((ada, right_answer(), "passed"), (ben, WRONG, "wrong")):
        with one.open_notebook(SHEET) as kernel:
            kernel.run("import torch\nfrom amp_lessons.exercises import number_formats as ex")
            shown = kernel.run(answer + CHECK)
            assert state in shown.lower(), shown
            noted = kernel.run(
                "from amp_lessons.core import progress\nprint(progress.load()['next_float'].state)"
            )
            assert noted.strip() == state


@pytest.mark.slow
def test_no_learner_may_use_anothers_server(hub, learners):
    ada, ben = learners
    mine = ada.session.get(f"{hub.address}/user/ada/api/kernels", headers=ada.as_me())
    hers = ada.session.get(f"{hub.address}/user/{ben.name}/api/kernels", headers=ada.as_me())
    assert (mine.status_code, hers.status_code) == (200, 403)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["eve", "../ada", "ada\nb", "..", "Eve Example"])
def test_a_wrong_password_or_a_name_that_is_no_folders_is_refused(hub, name):
    password = "not the password" if name == "eve" else hub.password
    with Learner(hub, name) as one:
        assert one.log_in(password).status_code == 403


# ---- the settings, without a hub ----------------------------------------------------------------


def settings() -> Config:
    return PyFileConfigLoader(CONFIG.name, path=str(CONFIG.parent)).load_config()


@pytest.fixture
def class_folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("AMP_LESSONS_CLASS", str(tmp_path / "class"))
    return tmp_path / "class"


def pretend_proxy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The environment of an installed proxy: a program of its name, below this prefix."""
    program = folder / "node_modules/.bin/configurable-http-proxy"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o700)
    monkeypatch.setattr(sys, "prefix", str(folder))
    return program


def test_without_changes_the_hub_is_open_to_this_machine_only(class_folder, tmp_path, monkeypatch):
    program = pretend_proxy(tmp_path, monkeypatch)
    found = settings()
    assert found.JupyterHub.bind_url.startswith("http://127.0.0.1:")
    assert str(program) == found.ConfigurableHTTPProxy.command


def test_the_password_is_made_once_and_only_its_owner_may_read_it(
    class_folder, tmp_path, monkeypatch, capsys
):
    pretend_proxy(tmp_path, monkeypatch)
    first, second = settings(), settings()
    password = first.SharedPasswordAuthenticator.user_password
    assert password == second.SharedPasswordAuthenticator.user_password
    assert len(password) >= 12
    assert (class_folder / "password").stat().st_mode & 0o077 == 0
    text = capsys.readouterr().err
    assert str(class_folder / "password") in text
    assert password not in text


def test_without_the_proxy_one_line_says_how_to_get_it(class_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        settings()
    (line,) = str(ended.value).splitlines()
    assert "npm install" in line
    assert "configurable-http-proxy@5.1.0" in line
