"""How many submissions a minute the grader takes, and nbgrader beside it, on the same notebooks.

A class of one sheet is made, a third of it with wrong answers. Ours grades all of it with the
sandbox on, nbgrader's `autograde` the first few, one after the other as it does. Run it with
``python benchmarks/grading.py [--learners N] [--nbgrader N] [--json FILE]``; with 500 and 12 it
takes about five minutes.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from grading_class import SHEET, make_class  # noqa: E402

_LOOK = 0.2  # seconds between two looks at the memory


class Memory:
    """The most memory that this program's children took together, in MiB of PSS."""

    def __init__(self) -> None:
        self.most, self._stop = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._stop.wait(_LOOK):
            total = 0
            for process in psutil.Process().children(recursive=True):
                try:
                    total += process.memory_full_info().pss
                except psutil.Error:
                    continue
            self.most = max(self.most, total / 2**20)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()


def timed(command: list[str], **options: Any) -> dict[str, float]:
    """Run a command; seconds on the wall and of the processor, and the most memory."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    with Memory() as memory:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall": time.monotonic() - began, "cpu": cpu, "memory": memory.most}


def ours(submitted: Path, out: Path) -> dict[str, float]:
    words = [str(submitted), "--json", "--require-sandbox", "--results", str(out)]
    return timed([sys.executable, "-m", "amp_lessons", "grade", *words])


def nbgraders(root: Path, learners: int) -> dict[str, float]:
    """`nbgrader autograde` for the first learners, with what it needs before it left out."""
    source = root / "source/sheet"
    source.mkdir(parents=True)
    shutil.copy(ROOT / "solutions" / SHEET, source)
    few = root / "submitted"
    for folder in sorted((root / "class").iterdir())[:learners]:
        (few / folder.name / "sheet").mkdir(parents=True)
        shutil.copy(folder / SHEET, few / folder.name / "sheet")
    (root / "nbgrader_config.py").write_text(
        f"c = get_config()\nc.CourseDirectory.root = {str(root)!r}\n"
        "c.ExecutePreprocessor.timeout = 120\n"
    )
    env = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    nbgrader = [str(Path(sys.executable).with_name("nbgrader"))]
    quiet: dict[str, Any] = {"cwd": root, "env": env, "stderr": subprocess.DEVNULL}
    timed([*nbgrader, "generate_assignment", "sheet"], **quiet)
    return timed([*nbgrader, "autograde", "sheet"], **quiet)


def row(name: str, learners: int, run: dict[str, float]) -> str:
    rate = 60 * learners / run["wall"]
    return (
        f"{name:10} {learners:5} submissions  {run['wall']:7.1f} s  {rate:8.1f} a minute  "
        f"{run['cpu'] / learners:6.3f} s of CPU each  {run['memory']:6.0f} MiB at most"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--learners", type=int, default=500)
    parser.add_argument("--nbgrader", type=int, default=12, help="of them for nbgrader")
    parser.add_argument("--json", type=Path, help="write the figures into a file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        expected = make_class(root / "class", given.learners)
        found = ours(root / "class", root / "kept")
        results = [json.loads(f.read_text()) for f in (root / "kept/results").iterdir()]
        points = {r["graded"]["learner"]: r["graded"]["points"] for r in results}
        theirs = nbgraders(root, given.nbgrader)
    ratio = (given.learners / found["wall"]) / (given.nbgrader / theirs["wall"])
    print(row("ours", given.learners, found))
    print(row("nbgrader", given.nbgrader, theirs))
    print(f"ours takes {ratio:.0f} times as many submissions a minute")
    right = sum(points.get(learner) == of for learner, of in expected.items())
    print(f"{right} of {len(expected)} learners got the points that their answers are worth")
    if given.json:
        about = {
            "date": f"{datetime.date.today()}",
            "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
            "python": platform.python_version(),
        }
        figures = {"ours": found, "nbgrader": theirs, "ratio": ratio, "right": right}
        counts = {"learners": given.learners, "by_nbgrader": given.nbgrader}
        given.json.write_text(json.dumps({**about, **counts, **figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()
