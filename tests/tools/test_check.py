"""`make check`: what git says has changed, what belongs to it, and how a run ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import check
import concerned
import nbformat
import psutil
import pytest
from changes import Changes, ChangesError, changes, ran_differently
from concerned import TABLE, Row, plan
from importing import ROOT, Code
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from only_concerned import ORDERS
from steps import Steps
from waiting import wait_until

from amp_lessons.core.catalogue import LESSONS, lesson_called

CODE = Code()


# ---- what git says ------------------------------------------------------------------------------


@dataclass
class Repository:
    """A small one, with a first commit on main."""

    root: Path

    def git(self, *words: str) -> str:
        who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
        command = ["git", *who, *words]
        return subprocess.run(
            command, cwd=self.root, check=True, capture_output=True, text=True
        ).stdout

    def write(self, path: str, text: str = "", commit: bool = False) -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")
        if commit:
            self.git("add", path)
            self.git("commit", "-q", "-m", f"Write {path}")


@pytest.fixture
def repository(tmp_path) -> Repository:
    made = Repository(tmp_path / "repository")
    made.root.mkdir()
    made.git("init", "-q", "-b", "main")
    made.write("README.md", "# A course\n", commit=True)
    return made


def test_what_is_not_committed_has_changed(repository):
    assert changes(repository.root).paths == ()
    repository.write("README.md", "# Another\n")
    repository.write("docs/a page.md", "New\n")
    repository.write(".gitignore", "build/\n")
    repository.write("build/made.txt")
    assert changes(repository.root).paths == (".gitignore", "README.md", "docs/a page.md")


def test_a_branch_is_held_against_the_main_one(repository):
    repository.git("checkout", "-q", "-b", "more")
    repository.write("one.py", commit=True)
    repository.write("two.py")
    repository.git("checkout", "-q", "main")
    repository.write("of_main.py", commit=True)
    repository.git("checkout", "-q", "more")
    found = changes(repository.root)
    assert found.paths == ("one.py", "two.py")
    assert found.since.startswith("main (")


def test_the_main_branch_is_held_against_its_remote(repository, tmp_path):
    copy = Repository(tmp_path / "copy")
    repository.git("clone", "-q", str(repository.root), str(copy.root))
    copy.write("one.py", commit=True)
    found = changes(copy.root)
    assert found.paths == ("one.py",)
    assert found.since.startswith("origin/main (")


def test_a_revision_and_files_can_be_named(repository, monkeypatch):
    for name in ("one.py", "two.py", "three.py"):
        repository.write(name, commit=True)
    repository.git("rm", "-q", "two.py")
    assert changes(repository.root, "HEAD~1").paths == ("three.py", "two.py")
    monkeypatch.chdir(repository.root)
    assert changes(repository.root, files=["one.py"]).paths == ("one.py",)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"since": "HEAD~99"}, "git knows no revision 'HEAD~99': take one such as HEAD~3"),
        ({"files": ["no.py"]}, "has no file no.py"),
    ],
)
def test_what_git_cannot_find_is_one_line(repository, asked, message):
    with pytest.raises(ChangesError, match=message):
        changes(repository.root, **asked)


def test_outside_of_a_repository_it_says_so(tmp_path):
    with pytest.raises(ChangesError, match="isn't a git repository: clone"):
        changes(tmp_path)


def notebook(text: str, shown: str) -> str:
    output = new_output("stream", text=shown)
    cells = [new_markdown_cell(text, id="a"), new_code_cell("x", id="b", outputs=[output])]
    return nbformat.writes(new_notebook(cells=cells))


def test_a_notebook_runs_again_if_its_code_or_its_outputs_are_new(repository):
    for name in ("text", "shown"):
        repository.write(f"notebooks/{name}.ipynb", notebook("Old", "1"), commit=True)
    repository.write("notebooks/text.ipynb", notebook("New", "1"))
    repository.write("notebooks/shown.ipynb", notebook("Old", "2"))
    repository.write("notebooks/added.ipynb", notebook("Old", "1"))
    repository.write("exercises/sheet.ipynb", notebook("Old", ""))
    base = changes(repository.root).base
    assert ran_differently(repository.root, base) == [
        "notebooks/shown.ipynb",
        "notebooks/added.ipynb",
    ]


# ---- who imports what ---------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path) -> Code:
    """A package of which one module imports another, and tests of both."""
    for path, text in {
        "amp_lessons/__init__.py": "",
        "amp_lessons/shop/__init__.py": "from amp_lessons.shop.till import Till\n",
        "amp_lessons/shop/till.py": "class Till: ...\n\ndef count(): ...\n",
        "amp_lessons/shop/door.py": "def close(): ...\n",
        "amp_lessons/street.py": "from amp_lessons.shop.door import close\n",
        "amp_lessons/lazy.py": "NAMES = {'ring': 'amp_lessons.bell'}\n",
        "amp_lessons/bell.py": "def ring(): ...\n",
        "tests/helper.py": "from amp_lessons.shop import Till\n",
        "tests/deep/test_by_helper.py": "import helper\n",
        "tests/test_by_package.py": "from amp_lessons import shop\n",
        "tests/test_lazily.py": "def test():\n    import amp_lessons.lazy\n",
        "tests/test_street.py": "from amp_lessons import street\n",
        "tests/test_light.py": "import json, no_such_package\nimport helper\n",
        "tests/test_script.py": "CODE = '''\nfrom no_such_wheel import x\n'''\n",
        "tools/tool.py": "",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    return Code(tmp_path)


def nearest(code: Code, module: str) -> list[str]:
    return next(tests for tests in code.tests_of(module) if tests)


def test_a_test_reaches_what_it_or_its_helper_imports(small):
    assert set(nearest(small, "amp_lessons.shop.till")) == {
        "tests/deep/test_by_helper.py",
        "tests/test_light.py",
        "tests/test_by_package.py",
    }


def test_a_module_that_no_test_imports_has_the_tests_of_what_imports_it(small):
    assert next(small.tests_of("amp_lessons.bell")) == []
    assert nearest(small, "amp_lessons.bell") == ["tests/test_lazily.py"]
    assert "tests/test_street.py" in next(
        tests for tests in small.tests_of("amp_lessons.street") if tests
    )


def test_a_module_that_is_gone_still_has_its_tests(small):
    (small.root / "amp_lessons/shop/door.py").unlink()
    found = Code(small.root).tests_of("amp_lessons.shop.door")
    assert "tests/test_street.py" in [test for tests in found for test in tests]


def test_a_test_whose_packages_are_missing_is_known(small):
    assert small.missing("tests/test_light.py") == ["no_such_package"]
    assert small.missing("tests/test_script.py") == ["no_such_wheel"]
    assert small.missing("tests/test_street.py") == []
    assert CODE.missing("tests/tools/test_check.py") == []


# ---- what belongs to what -----------------------------------------------------------------------


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.files)
def test_each_row_of_the_table_fits_the_repository(row):
    files = [path for path in tracked() if concerned.fnmatch(path, row.files)]
    assert files, f"no file is called {row.files}: correct the row, or remove it"
    for pattern in row.tests:
        alone = Row(row.files, tests=(pattern,))
        found = concerned.Plan()
        for path in files:
            concerned._by_table(found, alone, path, ROOT)
        assert found.own, f"no test is called {pattern}: correct the row of {row.files}"
    assert not row.tool or (ROOT / "tools" / row.tool).is_file()
    assert all((ROOT / path).is_file() for path in row.notebooks)
    assert row.tests or row.tool or row.says


def test_what_it_names_is_there():
    assert (ROOT / check.REBUILD).is_file()
    file, _, name = check.RAN_ALREADY.partition("::")
    assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8")


def test_a_lesson_has_its_own_tests():
    found = plan(["sources/lessons/02_how_numbers_break_deep.py"], CODE)
    assert found.own["tests/tools/test_build.py"] == {"02_how_numbers_break"}
    assert {
        "tests/core/test_links.py",
        "tests/lessons/test_how_numbers_break.py",
    } <= found.own.keys()
    assert found.tools == {}


def test_an_exercise_has_its_checker_and_a_stage_that_of_its_topic():
    found = plan(["amp_lessons/exercises/grad_scaler/stop_sinking.py"], CODE)
    assert found.tools == {"check_exercises.py": ["stop_sinking"]}
    assert found.own["tests/exercises/test_exercises.py"] == {"grad_scaler"}
    of_topic = plan(["amp_lessons/exercises/grad_scaler/harness.py"], CODE)
    names = [info.name for info in lesson_called("grad_scaler").exercises]
    assert of_topic.tools == {"check_exercises.py": names}
    assert lesson_called("grad_scaler").solutions in of_topic.notebooks


def test_several_files_share_one_call_of_a_checker():
    found = plan([f"amp_lessons/quiz/bank/{topic}.toml" for topic in ("memory", "speed")], CODE)
    assert found.tools == {"check_bank.py": ["memory", "speed"]}
    assert found.own["tests/quiz/test_bank.py"] == {"memory", "speed"}


def test_entries_concern_their_tests_and_the_lesson_that_shows_them():
    found = plan(["amp_lessons/amp/errors/entries/scaler.toml"], CODE)
    assert {"tests/amp/test_lookup.py", "tests/amp/test_lookup_entries.py"} <= found.own.keys()
    assert lesson_called("clinic").notebook in found.notebooks


def test_a_module_concerns_its_tests_its_importers_and_its_lessons():
    found = plan(["amp_lessons/amp/roofline.py"], CODE)
    assert {"tests/amp/test_roofline.py", "tests/amp/test_gpus.py", "tests/app/test_home.py"} <= {
        *found.own
    }
    assert found.own["tests/quiz/test_generators.py"] == {"speed"}
    assert "tests/amp/test_report.py" in found.others
    assert not found.own.keys() & {*found.others}
    assert lesson_called("speed").notebook in found.notebooks
    assert found.says


def test_tests_in_jupyterlab_are_named_and_not_run():
    found = plan(["amp_lessons/core/progress.py"], CODE)
    assert "tests/browser/test_home_page.py" in found.browser
    assert not any("browser" in test for test in (*found.own, *found.others))
    itself = plan(["tests/browser/test_home_page.py"], CODE)
    assert itself.own == {"tests/browser/test_home_page.py": set()}


def test_every_module_reaches_a_test():
    missing = []
    for module, path in CODE.modules.items():
        name = path.relative_to(ROOT).as_posix()
        if not name.endswith("__init__.py") and "/exercises/" not in name:
            found = concerned.Plan()
            concerned._tests_of_module(found, module, CODE)
            missing += [] if found.own or found.others else [name]
    assert missing == []


def test_a_tool_a_helper_and_a_page_concern_the_tests_that_use_them():
    assert "tests/core/test_links.py" in plan(["tools/links.py"], CODE).own
    assert plan(["tests/raised_errors.py"], CODE).others == ["tests/amp/test_lookup_entries.py"]
    assert "tests/tools/test_readme.py" in plan(["docs/versions.md"], CODE).own
    assert plan(["tests/data/pasted_errors.toml"], CODE).others == ["tests/amp/test_lookup.py"]
    assert plan(["conftest.py"], CODE).says


def test_a_test_that_is_wanted_whole_is_run_whole():
    both = plan(["sources/lessons/06_grad_scaler.py", "tests/tools/test_build.py"], CODE)
    assert both.own["tests/tools/test_build.py"] == set()


def test_every_source_of_a_notebook_is_known():
    """Lessons, their deep notebooks and their solutions, each by something that it imports."""
    everything = concerned.notebooks_with(CODE.names_below("amp_lessons"), CODE)
    wanted = {lesson.notebook for lesson in LESSONS}
    wanted |= {lesson.deep_notebook for lesson in LESSONS if lesson.deep}
    wanted |= {lesson.solutions for lesson in LESSONS if lesson.exercises}
    assert set(everything) == wanted


# ---- the plugin ---------------------------------------------------------------------------------

TESTS = """
import pytest

@pytest.mark.parametrize("topic", ["memory", "speed"])
def test_by_topic(topic): pass

@pytest.mark.parametrize("kind", ["bug", "order"])
def test_by_kind(kind): pass

def test_whole(): pass
"""


def pytest_with(folder: Path, **orders: object) -> str:
    """What pytest says of the tests above, once in test_own.py and once in test_other.py."""
    for name in ("test_own.py", "test_other.py"):
        (folder / name).write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]")
    asked = {"only": {}, "others": [], "until": 0, "left": str(folder / "left")} | orders
    (folder / "orders.json").write_text(json.dumps(asked))
    command = [sys.executable, "-m", "pytest", "-v", "-p", "only_concerned", "-p"]
    run = subprocess.run(
        [*command, "no:cacheprovider", "test_own.py", "test_other.py"],
        cwd=folder,
        env=os.environ
        | {
            ORDERS: str(folder / "orders.json"),
            "PYTHONPATH": str(ROOT / "tools"),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout


def test_of_parametrized_tests_those_of_the_change_are_run(tmp_path):
    message = pytest_with(tmp_path, only={"test_own.py": ["speed"]})
    assert "test_own.py::test_by_topic[speed] PASSED" in message
    assert "test_own.py::test_by_topic[memory]" not in message
    assert message.count("test_own.py::test_by_kind[") == 2
    assert "test_own.py::test_whole PASSED" in message
    assert "test_other.py::test_by_topic[memory] PASSED" in message
    assert "9 passed, 1 deselected" in message


def test_a_word_that_no_test_knows_narrows_nothing(tmp_path):
    message = pytest_with(tmp_path, only={"test_own.py": ["speed", "base"]})
    assert "10 passed" in message


def test_when_the_time_is_over_only_the_tests_of_importers_end(tmp_path):
    message = pytest_with(tmp_path, others=["test_other.py"])
    assert "5 passed, 5 skipped" in message
    assert set((tmp_path / "left").read_text().split()) == {"test_other.py"}
    assert "10 passed" in pytest_with(tmp_path, others=["test_other.py"], until=1e12)


# ---- a run --------------------------------------------------------------------------------------


def test_with_nothing_changed_it_says_what_it_would_do(repository, monkeypatch, capsys):
    monkeypatch.setattr(check, "ROOT", repository.root)
    assert check.main([]) == 0
    message = capsys.readouterr().out
    assert message.startswith("Nothing has changed since main (")
    assert "make check SINCE=HEAD~3" in message


def test_an_unknown_revision_is_one_line(repository, monkeypatch, capsys):
    monkeypatch.setattr(check, "ROOT", repository.root)
    assert check.main(["--since", "v9"]) == 2
    assert capsys.readouterr().err == "git knows no revision 'v9': take one such as HEAD~3\n"


def test_a_step_that_fails_shows_what_it_said_and_is_listed_with_its_cure(tmp_path, capsys):
    steps = Steps(ROOT, tmp_path)
    assert steps.run("first", ["-c", "print('wrote README.md')"]) == "wrote README.md\n"
    steps.run("second", ["-c", "print('a.py:3: oh'); exit(1)"], "make format")
    checked = check.Check(steps, Changes("main", "", ()))
    checked.left.append("what only imports it: python -m pytest tests/test_x.py")
    assert checked.sum_up(concerned.Plan(says=["Read it again."])) == 1
    message = capsys.readouterr().out
    assert "ok    first" in message
    assert "FAIL  second" in message
    assert "\n      a.py:3: oh\n" in message
    assert "Written, for you to look at and to commit:\n  README.md\n" in message
    assert "To read again:\n  Read it again.\n" in message
    assert "Not run here, but by `make test-all`:\n  what only imports it" in message
    assert "Still to do:\n  second: make format\n" in message


SAID = """
=========================== short test summary info ============================
FAILED tests/amp/test_a.py::test_b[one two] - AssertionError: say it in 20 lines
SUBFAILED[clip: None] tests/amp/test_a.py::test_c - ValueError: oh
FAILED tests/amp/test_a.py::test_c - contains 1 failed subtest
FAILED notebooks/04_scaler.ipynb::Cell 3
3 failed, 2 passed in 1.00s
"""


def test_each_failed_test_is_named_with_what_it_said():
    found = check.failures(SAID)
    assert found == {
        "tests/amp/test_a.py::test_b[one two]": "say it in 20 lines",
        "tests/amp/test_a.py::test_c": "ValueError: oh",
        "notebooks/04_scaler.ipynb::Cell 3": "",
    }
    *lines, notebook, again = check.fix_of(found).split("\n    ")
    assert lines[1] == "tests/amp/test_a.py::test_b[one two]: say it in 20 lines"
    assert notebook.endswith(f"{check.python()} tools/build_notebooks.py 04_scaler.ipynb")
    assert again == (
        f"run again: {check.python()} -m pytest "
        "'tests/amp/test_a.py::test_b[one two]' tests/amp/test_a.py::test_c"
    )


def test_many_failed_tests_are_counted():
    lines = check.fix_of({f"tests/test_{i}.py::test": "" for i in range(20)}).split("\n    ")
    assert "and 12 more" in lines
    assert lines[-1].count("::") == check.FAILED


def test_all_is_well_if_every_step_passed(tmp_path, capsys):
    assert check.Check(Steps(ROOT, tmp_path), Changes("main", "", ())).sum_up(concerned.Plan()) == 0
    assert "All is well" in capsys.readouterr().out


@pytest.mark.slow
def test_tests_run_and_those_without_their_package_are_named(tmp_path, monkeypatch, capsys):
    steps = Steps(ROOT, tmp_path)
    checked = check.Check(steps, Changes("main", "", ("tests/core/test_messages.py",)))
    lacking = {"tests/classroom/test_nbgrader.py": ["nbgrader"]}
    monkeypatch.setattr(checked.code, "missing", lambda test: lacking.get(test, []))
    found = concerned.Plan(
        own={"tests/core/test_messages.py": set(), "tests/classroom/test_nbgrader.py": set()}
    )
    checked.test(found, [])
    assert steps.failed == {}
    assert "ok    tests of 1 files, passed: " in capsys.readouterr().out
    assert checked.left == [
        "tests/classroom/test_nbgrader.py: `make test` installs nbgrader for it"
    ]


SLEEPS = """
import os, sys, time
with open(sys.argv[1], "w") as marker:
    marker.write(f"{os.getpid()} {os.environ['TMPDIR']} .")
time.sleep(3600)
"""
INTERRUPTED = """
import sys
import check
from changes import Changes

check.changes = lambda *_: Changes("main", "", ("README.md",))
check.Check.run = lambda self: self.steps.run("sleeps", ["-c", *sys.argv[1:]])
sys.exit(check.main([]))
"""


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_ctrl_c_leaves_nothing_behind(tmp_path):
    marker = tmp_path / "marker"
    command = [sys.executable, "-c", INTERRUPTED, SLEEPS, str(marker)]
    environment = os.environ | {"PYTHONPATH": str(ROOT / "tools")}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as run:
        wait_until(lambda: marker.exists() and marker.read_text().endswith("."), run)
        pid, folder, _ = marker.read_text().split()
        assert Path(folder).is_dir()
        run.send_signal(signal.SIGINT)
        message, _ = run.communicate()
    assert run.returncode == 130
    assert message.endswith("Stopped.\n")
    assert not psutil.pid_exists(int(pid))
    assert not Path(folder).exists()
