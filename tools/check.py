"""Check what has changed, in about a minute: `make check`.

It asks git what differs from the main branch, and writes what is written for you: the README's
tables, and the notebooks that a change makes stale. Then it holds the change against ruff, the
prose rules, mypy, the checker of its kind and the tests that belong to it (`concerned`). A fault
doesn't end it: at the end it names all that is still to do.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import prose
from changes import Changes, ChangesError, changes, ran_differently
from concerned import Plan, is_cells, plan
from importing import PACKAGE, ROOT, Code
from only_concerned import ORDERS
from run_tests import HARNESSES, PARALLEL, STOPPED, adopt_orphans, end_all_below, heed_signals
from steps import Steps

SECONDS, AT_LEAST = 40.0, 10.0
"""After the first, no test begins that only imports what has changed; but they get the second."""
IMPORTERS, NOTEBOOKS = 12, 3
"""Of the files with such tests, and of such notebooks, so many are read at most."""
REBUILD = "tools/rebuild.py"
SOURCES = ("sources/", f"{PACKAGE}/", "notebooks/", "exercises/", "solutions/")
"""What notebooks are made of, besides the tools that make them."""
RAN_ALREADY = "tests/tools/test_build.py::test_rebuilt_notebooks_are_the_stored_ones_to_the_byte"
"""It builds a lesson, as this does."""
NAMED = 6  # changed files
FAILED = 8  # tests
LINT = "make format repairs most of it; break a line that is too long by hand"
EXPLAINED = (
    "After an edit, this writes what follows from it, such as notebooks and the README's tables. "
    "Then it runs ruff, the prose rules, mypy, and the checker and the tests of what you edited. "
    "To look at the last three commits, run `make check SINCE=HEAD~3`."
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", help="check these files instead of what git names")
    parser.add_argument("--since", default="", help="check what differs from it, such as HEAD~3")
    parser.add_argument("--all", action="store_true", help="run every test and notebook concerned")
    chosen = parser.parse_args(arguments)
    try:
        changed = changes(ROOT, chosen.since, chosen.files)
    except ChangesError as error:
        print(error, file=sys.stderr)
        return 2
    if not changed.paths:
        print(f"Nothing has changed since {changed.since}. {EXPLAINED}")
        return 0
    heed_signals()
    adopt_orphans()
    name = "amp-lessons-check-"
    with tempfile.TemporaryDirectory(prefix=name, ignore_cleanup_errors=True) as folder:
        try:
            status = Check(Steps(ROOT, Path(folder)), changed, chosen.all).run()
        except KeyboardInterrupt:
            print("\nStopped.")
            status = STOPPED
        end_all_below(at_once=status == STOPPED)
    return status


class Check:
    """One run of the check.

    Args:
        steps: what runs the commands.
        changed: what to check.
        whole: whether to run all that is concerned, however long it takes.
    """

    def __init__(self, steps: Steps, changed: Changes, whole: bool = False) -> None:
        self.steps, self.changed, self.whole = steps, changed, whole
        self.code, self.began = Code(), time.time()
        self.left: list[str] = []
        """What was not run, and how to run it."""

    def run(self) -> int:
        """Check everything, the quick things first; 1 if something is still to do."""
        paths = self.changed.paths
        more = [f"and {len(paths) - NAMED} more"] if len(paths) > NAMED else []
        named = ", ".join([*paths[:NAMED], *more])
        print(f"Changed since {self.changed.since}: {named}", flush=True)
        types = self.steps.start(["-m", "mypy"]) if any(map(is_typed, paths)) else None
        found = plan(paths, self.code)
        self.quick(found)
        makers = self.code.with_helpers(ROOT / REBUILD)
        if any(path.startswith(SOURCES) or ROOT / path in makers for path in paths):
            self.steps.run("notebooks", [REBUILD])
        self.test(found, ran_differently(ROOT, self.changed.base))
        if types is not None:
            self.steps.end("mypy", types)
        return self.sum_up(found)

    def quick(self, found: Plan) -> None:
        """Write what takes no time, and run what names a line and its cure."""
        self.steps.run("readme.py", ["tools/readme.py"])
        harnesses = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob(HARNESSES))
        self.steps.run("ruff check", ["-m", "ruff", "check", "--quiet", "."], LINT)
        style = ["-m", "ruff", "format", "--check", "--quiet", ".", *harnesses]
        self.steps.run("ruff format", style, "make format")
        held = {path.relative_to(ROOT).as_posix() for path in prose.pages()}
        if pages := sorted(held & set(self.changed.paths)):
            self.steps.run("prose", ["tools/prose.py", *pages])
        for tool, given in found.tools.items():
            self.steps.run(f"{tool} {' '.join(given)}"[:60], [f"tools/{tool}", *given])

    def test(self, found: Plan, new: list[str]) -> None:
        """Run the tests, the notebooks that show something new, and some that import it."""
        notebooks = [path for path in found.notebooks if path not in new]
        most = (None, None) if self.whole else (NOTEBOOKS, IMPORTERS)
        others = [*notebooks[: most[0]], *found.others[: most[1]]]
        late = [each for each in (*notebooks, *found.others) if each not in others]
        files = list(new)
        for test in (*found.own, *others):
            if test.endswith(".py") and (packages := self.code.missing(test)):
                self.left.append(f"{test}: `make test` installs {', '.join(packages)} for it")
            else:
                files.append(test)
        if files:
            late = [*self.pytest(files, found, others), *late]
        if late:
            self.left.append(f"what only imports it: {python()} -m pytest {' '.join(late)}")
        if found.browser:
            self.left.append(f"in JupyterLab: {python()} -m pytest {' '.join(found.browser)}")

    def pytest(self, files: list[str], found: Plan, others: list[str]) -> list[str]:
        """Run these files; give those of the importers for which no time was left."""
        orders, left = self.steps.folder / "orders.json", self.steps.folder / "left"
        until = max(self.began + SECONDS, time.time() + AT_LEAST)
        only = {test: sorted(words) for test, words in found.own.items() if words}
        asked = {"only": only, "others": [] if self.whole else others, "until": until}
        orders.write_text(json.dumps(asked | {"left": str(left)}), encoding="utf-8")
        tools = os.pathsep.join(filter(None, (str(ROOT / "tools"), os.environ.get("PYTHONPATH"))))
        command = ["-m", "pytest", "-q", "--tb=short", "-m", "not slow and not long"]
        command += ["-p", "only_concerned", *([*PARALLEL, "2"] if len(files) > 1 else []), *files]
        if not {"tests/tools/test_build.py", "tools/build_notebooks.py"} & set(self.changed.paths):
            command.append(f"--deselect={RAN_ALREADY}")
        began = time.monotonic()
        wide = "1000"  # so that the lines on failed tests are not cut
        process = self.steps.start(command, PYTHONPATH=tools, COLUMNS=wide, **{ORDERS: str(orders)})
        output, _ = process.communicate()
        report = re.search(r"^=+ (?:ERRORS|FAILURES) =+$.*?(?=^lessons run)", output, re.M | re.S)
        passed = sum(map(int, re.findall(r"(\d+) (?:subtests )?passed", output)))
        failed = failures(output)
        counts = f"failed: {len(failed)}, passed: {passed}" if failed else f"passed: {passed}"
        self.steps.say(
            f"tests of {len(files)} files, {counts}",
            process.returncode in (0, 5),  # with 5, none of them is in the gate
            report[0] if report else output,
            fix_of(failed) if failed else f"run {python()} -m pytest {' '.join(files)}",
            time.monotonic() - began,
        )
        return sorted(set(left.read_text(encoding="utf-8").split())) if left.exists() else []

    def sum_up(self, found: Plan) -> int:
        """Say what was written, what wasn't run and what is still to do."""
        failed = self.steps.failed.items()
        parts = {
            "Written, for you to look at and to commit": sorted(set(self.steps.written)),
            "To read again": found.says,
            "Not run here, but by `make test-all`": self.left,
            "Still to do": [f"{name}: {cure or 'see above'}" for name, cure in failed],
        }
        for title, lines in parts.items():
            if lines:
                print(f"\n{title}:", *(f"  {line}" for line in lines), sep="\n")
        seconds = f"{time.time() - self.began:.0f} s"
        if failed:
            print(f"\nNot yet, after {seconds}.")
        else:
            print(f"\nAll is well after {seconds}. Before a pull request: make test")
        return 1 if failed else 0


def failures(output: str) -> dict[str, str]:
    """The tests that failed, in pytest's order, each with the first line of what it said."""
    found: dict[str, str] = {}
    for line in re.findall(
        r"^(?:FAILED |ERROR |SUBFAILED\W.*? (?=\S+::))(.+)$", output, re.MULTILINE
    ):
        test, _, message = line.partition(" - ")
        found.setdefault(test, re.sub(r"^(?:AssertionError: |Failed: |assert False$)", "", message))
    return found


def fix_of(failed: dict[str, str]) -> str:
    """What each failed test said, and how to run those alone."""
    lines = [f"{test}{f': {message}' if message else ''}" for test, message in failed.items()]
    if len(lines) > FAILED:
        lines[FAILED:] = [f"and {len(lines) - FAILED} more"]
    notebooks = sorted({*re.findall(r"^\w+/(.+\.ipynb)::", "\n".join(failed), re.MULTILINE)})
    if notebooks:
        build = f"{python()} tools/build_notebooks.py {' '.join(notebooks)}"
        lines.append(f"if what a notebook shows now is right, store it: {build}")
    again = [test for test in failed if "::" in test and ".ipynb" not in test][:FAILED]
    lines.append(f"run again: {python()} -m pytest {shlex.join(again or sorted(failed))}")
    return "".join(f"\n    {line}" for line in lines)


def python() -> str:
    """The command for this Python, as one types it in the root of the repository."""
    own = Path(sys.executable)
    return own.relative_to(ROOT).as_posix() if own.is_relative_to(ROOT) else "python"


def is_typed(path: str) -> bool:
    """Whether mypy reads a file, or its settings."""
    module = path.startswith(PACKAGE) and path.endswith(".py") and not is_cells(ROOT / path)
    return module or path == "pyproject.toml"


if __name__ == "__main__":
    sys.exit(main())
