"""The sandbox from outside: what is in the house, which kind is taken, and what is said of it.

What attackers try in it is in `test_hostile`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from grading_class import LESSON, Sheet, open_class, states

from amp_lessons import checks, course, grading
from amp_lessons.grading import launch, reaching
from amp_lessons.grading.launch import UNPROTECTED, SandboxError
from amp_lessons.grading.sandbox import bubblewrap, house

LOOKS_AROUND = """
import json, os
def walk(top):
    return sorted(os.path.join(d, f) for d, _, files in os.walk(top) for f in files)
report = {
    "environment": [name for name in os.environ if "TOKEN" in name or "SECRET" in name],
    "root": sorted(os.listdir("/")),
    "own": [f for f in walk("/tmp") + walk("/scratch") if "/.ipython/" not in f][:5],
    "processes": [p for p in os.listdir("/proc") if p.isdigit()],
    "user": [os.getuid(), os.geteuid()],
    "writable": [place for place in ("/", "/dev", "/usr", "/etc") if os.access(place, os.W_OK)],
}
raise RuntimeError(json.dumps(report))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory) -> Path:
    return house.copy_without_secrets(tmp_path_factory.mktemp("copy"))


def test_the_copy_for_the_house_has_no_answer(copy):
    """No marker of a solution is left, and no sentence that only a mistake earns."""
    texts = [p.read_text(encoding="utf-8") for p in (copy / "exercises").rglob("*.py")]
    everything = " ".join("\n".join(texts).replace("# ", "").split())
    assert "BEGIN SOLUTION" not in everything
    assert everything.count("Case(") > 50, "the learners' halves are there"
    mistakes = [m for name in _names() for m in checks.find(name).secret.diagnosis.mistakes]
    sentences = [m.sentence for m in mistakes if len(m.sentence) > 60]
    assert len(sentences) > 300
    assert [sentence for sentence in sentences if sentence in everything] == []
    assert not (copy / "_course").exists()
    assert not (copy / "workshop").exists()
    assert not (copy / "quiz" / "bank").exists()


def test_the_copy_has_every_module_that_a_notebook_may_import(copy):
    """A folder that is left out may have the name of another one."""
    there, here = (
        {path.relative_to(top).as_posix() for path in top.rglob("*.py")}
        for top in (copy, house.PACKAGE)
    )
    left_out = ("workshop/", "slides/", "class_view/", "grading/report/", "exercises/")
    assert [path for path in here - there if not path.startswith(left_out)] == []


def test_the_copy_is_a_package_whose_secret_halves_say_that_they_are_missing(copy):
    from amp_lessons.authoring.cells import ExerciseFileError
    from amp_lessons.checks.halves import LearnersHalf, SecretHalf

    files = [p for p in (copy / "exercises").glob("*/*.py") if p.stem in _names()]
    assert len(files) == sum(len(lesson.exercises) for lesson in course.LESSONS)
    for file in files:
        with pytest.raises(ExerciseFileError, match="the secret half is not here"):
            SecretHalf(LearnersHalf(file))


def _names() -> set[str]:
    return {info.name for lesson in course.LESSONS for info in lesson.exercises}


needs_bubblewrap = pytest.mark.skipif(
    not shutil.which("bwrap") and os.environ.get("AMP_LESSONS_REQUIRE_SANDBOX") != "1",
    reason="bubblewrap is not installed",
)
KINDS = ["required", pytest.param("bubblewrap", marks=needs_bubblewrap)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_sees_python_and_itself(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    first = LESSON.exercises[0].name
    with open_class(kind, jobs=1) as batch:
        sheet = Sheet(tmp_path / "curious.ipynb", batch)
        sheet.write(first, LOOKS_AROUND)
        graded = sheet.grade()
    (mark,) = [m for m in graded.marks if m.exercise == first]
    seen = json.loads(mark.verdict.message.split(": ", 1)[1])
    assert seen["environment"] == []
    assert all(file.startswith(sys.prefix) for file in seen["own"]), seen["own"]
    assert len(seen["processes"]) <= 3
    assert "home" not in seen["root"]
    assert seen["writable"] == []
    assert states(graded)[LESSON.exercises[1].name] == "passed"


def test_what_is_missing_is_said_in_one_line(tmp_path):
    with open_class("none", jobs=1) as batch:
        assert batch.missing == UNPROTECTED
        assert "\n" not in batch.missing
    with open_class("required", jobs=1) as batch:
        assert batch.missing == ""


@pytest.fixture
def nothing_allowed(monkeypatch):
    """A machine that forbids namespaces and has no bubblewrap."""

    def refuse(*_):
        raise SandboxError("new namespaces: Operation not permitted")

    monkeypatch.setattr(launch, "ForkServer", refuse)
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda _: None)


def test_a_required_sandbox_is_not_replaced(nothing_allowed):
    options = grading.Options(sandbox="required")
    with (
        pytest.raises(SandboxError, match=r"Operation not permitted.*not installed") as error,
        grading.open_batch(options),
    ):
        pass
    assert "\n" not in str(error.value)
    assert "--require-sandbox" in str(error.value)


def test_without_one_the_grader_goes_on_and_says_so(nothing_allowed, tmp_path):
    with grading.open_batch(grading.Options(), [LESSON.slug]) as batch:
        assert batch.missing == UNPROTECTED
        assert batch.about["sandbox"] == "no sandbox"
        (graded,) = batch.grade(grading.collect([Sheet(tmp_path / "a.ipynb").save()]))
    assert graded.points == graded.of


GRADES = """
import sys
from pathlib import Path
from amp_lessons import grading
from amp_lessons.grading.sandbox import house
with grading.open_batch(grading.Options(sandbox="fork"), ["number_formats"]) as batch:
    (graded,) = batch.grade(grading.collect([Path(sys.argv[1])]))
print(house.scratch(), graded.points, graded.of)
"""


@pytest.mark.parametrize("place", ["/tmp", pytest.param("/var/tmp", marks=pytest.mark.long)])
def test_a_course_below_tmp_has_the_same_sandbox(place, tmp_path):
    """A clone or an environment may lie where a submission has its own folder elsewhere."""
    with tempfile.TemporaryDirectory(dir=place) as folder:
        copy = Path(folder, house.PACKAGE.name)
        shutil.copytree(house.PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        (copy / "_course").symlink_to(course.course_files())
        sheet = Sheet(tmp_path / "a.ipynb").save()
        run = subprocess.run(
            [sys.executable, "-c", GRADES, str(sheet)],
            capture_output=True,
            text=True,
            cwd=folder,
            env=os.environ | {"PYTHONPATH": folder},
        )
    scratch = "/scratch" if place == "/tmp" or house.scratch() == Path("/scratch") else "/tmp"
    assert run.stdout == f"{scratch} {LESSON.points} {LESSON.points}\n", run.stderr[-2000:]


def test_a_fork_server_that_ends_is_started_again(tmp_path):
    with open_class(jobs=1) as batch:
        batch._starter._process.kill()
        batch._starter._process.wait()
        graded = Sheet(tmp_path / "a.ipynb", batch).grade()
    assert graded.points == graded.of


# ---- cells that reach into the check ------------------------------------------------------------

REACHES = {
    "sys._getframe().f_back": ["f_back"],
    "from sys import _getframe\n_getframe()": ["sys._getframe"],
    "import inspect as look\nlook.currentframe()": ["inspect.currentframe"],
    "from threading import setprofile\nsetprofile(None)": ["threading.setprofile"],
    "import amp_lessons.checks.evidence": ["amp_lessons.checks.evidence"],
    "from amp_lessons.checks import probe": ["amp_lessons.checks.probe"],
    "from amp_lessons import op_watch": ["amp_lessons.op_watch"],
    "__import__('amp_lessons.grading')": ["amp_lessons.grading"],
    "import sys\nsys.modules['x'] = 3": ["sys.modules"],
    "import gc\ngc.get_objects()": ["gc.get_objects"],
    "import ctypes": ["ctypes"],
    "import builtins\nbuiltins.exec(text)": ["builtins.exec"],
    "f.__closure__[0].cell_contents": ["cell_contents"],
    "open('/proc/self/maps')": ["/proc/self"],
    "import os\nos.write(5, b'x')": ["os.write"],
    "exec(text)": ["exec"],
    "exec('import ctypes')": ["ctypes"],
    "%%time\nimport sys\nsys._getframe()": ["sys._getframe"],
    "%timeit sys._getframe()": ["sys._getframe"],
    "!ls\nimport gc\ngc.get_referrers(f)": ["gc.get_referrers"],
    "import json\njson.dumps = mine": ["json.dumps ="],
    "from concurrent.futures import ThreadPoolExecutor": ["concurrent.futures.ThreadPoolExecutor"],
    "from amp_lessons.exercises import memory as ex\nex.crossover.probe": ["ex.crossover.probe"],
    "import torch\ntorch.threading.Thread(target=f)": ["torch.threading.Thread"],
    "import numpy as np\nc = np.ctypeslib\nc.ctypes.pythonapi": ["ctypes"],
    "from torch.multiprocessing import get_context": ["torch.multiprocessing.get_context"],
    "import asyncio\nawait asyncio.to_thread(f)": ["to_thread"],
    "get_ipython().run_cell(text)": ["run_cell"],
    "get_ipython().input_transformers_post.append(f)": ["input_transformers_post"],
    "x = 1\n" * 20_000: ["more than 100,000 characters"],
}
HARMLESS = [
    "model.eval()\ntorch.compile(model)",
    "import gc\ngc.collect()\ngc.disable()",
    "from gc import collect",
    "from amp_lessons.checks import number_formats as ex",
    "from amp_lessons.exercises import grad_scaler as ex\nex.clip_step.check(f)",
    "import torch\nfrom torch import nn\nimport math, time, copy, itertools",
    "import importlib\nimportlib.reload(ex)",
    "import importlib.util\nimportlib.util.find_spec('torch')",
    "from inspect import getsource, signature, isclass",
    "from types import SimpleNamespace",
    "import sys\n'google.colab' in sys.modules",
    "import torch\nwith torch.autograd.profiler.profile() as seen: f()",
    "%timeit f(3)\nget_ipython().run_line_magic('time', 'f()')",
    "import sys\nsys.stdout = open('log', 'w')",
    "x = eval('2**3')",
    "open('/proc/cpuinfo').read()",
    "# sys._getframe() in a comment, and amp_lessons/checks",
    "def broken(:",
    "%%time\nx = [1] * 3",
    "!pip install pandas",
]


@pytest.mark.parametrize(("source", "found"), REACHES.items(), ids=[s[:40] for s in REACHES])
def test_what_reaches_into_the_check_is_found(source, found):
    (here,) = reaching.reaches([source])
    assert set(found) <= set(here)


@pytest.mark.parametrize("source", HARMLESS, ids=lambda s: s[:40])
def test_what_learners_write_does_not(source):
    assert reaching.reaches([source], {"number_formats"}) == [[]]


def test_a_name_from_another_cell_is_followed():
    cells = ["from sys import setprofile as look", "look(None)"]
    assert reaching.reaches(cells) == [["sys.setprofile"], ["sys.setprofile"]]
