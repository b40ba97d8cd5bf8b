"""The corpus of broken and hostile submissions: nothing is lost, nothing undeserved, nothing left.

Among them are honest neighbours, who get all points. The corpus runs in a process of its own, which
becomes the parent of all that the grader and the attacks leave behind. The limit of a cell is
3 seconds. What could harm a machine is never run without a sandbox.

The gate runs one or two submissions of each kind, `CORE`; `make test-all` runs the others too.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hostile.corpus import BY_NAME, CORPUS
from hostile.sheets import LESSON, Sheet

from amp_lessons.classroom.grading import collect
from amp_lessons.core.ipynb import NotebookError

TESTS = Path(__file__).resolve().parents[1]
OTHER_USER = 65534

CORE = (
    # files that are no notebook, sheets that went wrong, and honest people
    *("cut-off", "fifo", "zip", "zip-cut-off", "untouched", "wrong", "crashes", "recursion"),
    *("split", "no-metadata", "honest-subprocess", "honest-compares-below"),
    # processes, time, memory and disk
    *("fork-bomb", "daemons", "endless", "deaf", "kills-all", "memory", "1-gib-file", "limits-up"),
    # the network, files, and others' answers
    *(
        "network",
        "socket-families",
        "home",
        "environment",
        "writes",
        "neighbours",
        "proc",
        "suid",
        "zip-up",
        "links",
    ),
    # the pipe to the grader
    *("garbage", "half-a-frame", "says-done", "output-flood"),
    # marks for nothing: forged evidence, answers looked up, machinery bent
    *("patched-evidence", "frames", "objects", "guessed-descriptors", "solutions-on-disk"),
    *("answer-key", "neighbours-answers", "transformers", "judges-patched", "always-equal"),
    *("stored-passes", "other-python", "tabulated", "pasted-copy", "child-python"),
)
REST = [name for name in BY_NAME if name not in CORE]
Table = dict[str, Any]

WITHOUT = {
    "network": "reaches the network and sockets of the machine",
    "socket-families": "makes sockets of every family",
    "writes": "opens files to write that the grader's user may write",
    "neighbours": "reads what others handed in",
    "neighbours-answers": "takes a neighbour's answers: all points with --trust",
    "solutions-on-disk": "takes the course's solutions: all points with --trust",
}
"""What wins with no sandbox. The docs say the same."""

ROOT_IN_BUBBLEWRAP = {"proc"}
"""Bubblewrap cannot make another user of root. So a notebook can list the descriptors of the first
process of its namespace and open its ``oom_score_adj``, and gains nothing by either."""


def run_table(*words: str, prefix: Sequence[str] = ()) -> Table:
    """What `hostile.table` tells, in a process of its own."""
    command = [*prefix, sys.executable, "-m", "hostile.table", *words]
    env = os.environ | {"PYTHONPATH": str(TESTS), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, capture_output=True, text=True, env=env, cwd=TESTS)
    if "SandboxError" in run.stderr and "no sandbox can be made here" in run.stderr:
        missing = run.stderr.strip().splitlines()[-1]
        if os.environ.get("AMP_LESSONS_REQUIRE_SANDBOX") == "1":
            pytest.fail(missing)
        pytest.skip(missing)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def core() -> Table:
    """What the gate grades, in the sandbox that takes milliseconds."""
    return run_table("fork", *CORE)


@pytest.fixture(scope="module")
def rest() -> Table:
    """All others."""
    return run_table("fork", *REST)


@pytest.mark.parametrize("name", CORE)
def test_submission(core, name):
    came_out_as_it_must(core, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", REST)
def test_one_of_the_other_submissions(rest, name):
    came_out_as_it_must(rest, name)


def came_out_as_it_must(graded: Table, name: str) -> None:
    faults = graded["faults"][name]
    if BY_NAME[name].remains:
        assert faults, "it doesn't win any more: take its `remains` away, and the docs' sentence"
    else:
        assert faults == []


def test_nothing_outside_of_the_sandbox_was_reached_or_left(core):
    assert core["reached"] == []
    assert core["words"].keys() == set(CORE)


@pytest.mark.slow
def test_nothing_outside_was_reached_or_left_by_the_others(rest):
    assert rest["reached"] == []
    assert rest["words"].keys() == set(REST)


def test_the_corpus_is_large_and_the_core_has_each_kind():
    assert len(CORPUS) >= 60
    kinds = {"broken", "hostile", "cheat"}
    assert {submission.kind for submission in CORPUS} == kinds
    assert {BY_NAME[name].kind for name in CORE} == kinds


@pytest.mark.slow
def test_forged_evidence_would_win_if_the_inputs_were_known():
    """So what these attacks lack in the corpus is the secret, and not the skill."""
    forged = "patched-evidence patched-probe patched-observe frames objects reporter table"
    words = run_table("fork", *forged.split(), "--known-inputs")["words"]
    assert words == dict.fromkeys(forged.split(), f"{LESSON.points}/{LESSON.points}")


# ---- files that change while they are read ------------------------------------------------------


def test_links_that_come_and_go_are_never_followed(tmp_path):
    """A learner swaps their notebook, and the folder above it, for links to somebody else's."""
    private, place = tmp_path / "private", tmp_path / "class" / "eve"
    private.mkdir()
    place.mkdir(parents=True)
    own = place / "sheet.ipynb"
    (private / "sheet.ipynb").write_bytes(b"PRIVATE")
    own.write_bytes(b"OWN")
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for target, link in ((private / "sheet.ipynb", own), (private, place)):
                kept = link.with_name("kept")
                os.rename(link, kept)
                link.symlink_to(target)
                link.unlink()
                os.rename(kept, link)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        seen = {_content(tmp_path / "class") for _ in range(2000)}
    finally:
        over.set()
        thread.join()
    assert b"OWN" in seen
    assert b"PRIVATE" not in seen


def _content(folder: Path) -> bytes:
    for each in collect([folder]):
        try:
            return each.read()
        except NotebookError:
            return b"refused"
    return b"nothing"


def _zipped() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for learner in ("ada", "bob"):
            archive.writestr(f"{learner}/sheet.ipynb", Sheet().to_bytes())
            archive.writestr(f"{learner}/progress.json", "{}")
    return content.getvalue()


def test_damaged_zip_files_never_raise_anything_else(tmp_path):
    """Bytes changed at random, many in the directory at the end; the neighbour is always there."""
    draw, original = random.Random(7), _zipped()
    (tmp_path / "zoe").mkdir()
    (tmp_path / "zoe" / "sheet.ipynb").write_bytes(b"{}")
    for _ in range(300):
        content = bytearray(original)
        for _ in range(draw.randint(1, 8)):
            start = draw.choice((0, len(content) - 400, len(content) - 60))
            content[draw.randrange(start, len(content))] = draw.randrange(256)
        (tmp_path / "eve.zip").write_bytes(content[: draw.choice((None, len(content) - 5))])
        found = collect([tmp_path])
        for each in found:
            with suppress(NotebookError):
                each.read()
            each.progress()
        assert [each.learner for each in found].count("zoe") == 1


# ---- with and without a sandbox, as root and as somebody else -----------------------------------

AS_OTHER = """
set -e
mount --make-rprivate /
hidden=$(mktemp -d)
mount --bind "$1" "$hidden"
if [ ! -x /root ] || [ "$(stat -c %a /root)" = 700 ]; then
  mount -t tmpfs -o mode=755 none /root
fi
mkdir -p "$1"
mount --move "$hidden" "$1" 2>/dev/null || mount --bind "$hidden" "$1"
shift
exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
"""


def as_other_user() -> list[str]:
    """The words before a command that run it as another user, who can reach this Python.

    A home that nobody else may enter is covered, and Python's own folder put back into it.
    """
    python = str(Path(sys.base_prefix))
    return ["unshare", "-m", "bash", "-c", AS_OTHER, "as-other", python]


@pytest.mark.long
@pytest.mark.parametrize("user", ["root", "other"])
@pytest.mark.parametrize("sandbox", ["fork", "bubblewrap", "none"])
def test_the_whole_table(sandbox, user, capsys):
    prefix = _prefix(user)
    table = run_table(sandbox, prefix=prefix)
    with capsys.disabled():
        print(f"\n\nsandbox: {sandbox}, user: {user}")
        for name, word in table["words"].items():
            faults = table["faults"].get(name, [])
            print(f"{BY_NAME[name].kind:8} {name:22} {word:9} {'; '.join(faults)[:150]}")
        print(f"reached: {table['reached']}")
    wins = {name for name, faults in table["faults"].items() if faults}
    remain = {submission.name for submission in CORPUS if submission.remains}
    if sandbox == "none":
        assert wins <= WITHOUT.keys() | remain
    else:
        known = ROOT_IN_BUBBLEWRAP if (sandbox, user) == ("bubblewrap", "root") else set()
        assert wins - known == remain
        assert table["reached"] == []


def _prefix(user: str) -> list[str]:
    if user == "root" and os.geteuid() != 0:
        pytest.skip("not root")
    if user == "root" or os.geteuid() != 0:
        return []
    if not shutil.which("setpriv"):
        pytest.skip("no setpriv here")
    return as_other_user()
