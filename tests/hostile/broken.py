"""What happens to honest people: damaged files, exports, cells that moved, odd programs."""

from __future__ import annotations

import json
import os
from pathlib import Path

from amp_lessons.core import ipynb
from hostile.machine import Around
from hostile.sheets import (
    FIRST,
    FOURTH,
    LESSON,
    NAMES,
    OTHER,
    SECOND,
    THIRD,
    Outcome,
    Sheet,
    Submission,
    broken,
    notebook,
)

# ---- files --------------------------------------------------------------------------------------


def damaged(name: str, content: bytes, says: str, tries: str = "") -> Submission:
    """A file that isn't a notebook of this course."""

    def put(folder: Path, _: Around) -> None:
        notebook(folder, content)

    return Submission(name, "broken", tries or f"a file that is {name}", put, Outcome(refused=says))


def _cells(*sources: object) -> bytes:
    cells = [{"cell_type": "code", "metadata": {}, "source": source} for source in sources]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}).encode()


FILES = [
    damaged("empty", b"", "is empty"),
    damaged("cut-off", Sheet().to_bytes()[:3000], "is not JSON"),
    damaged("binary", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, "is not UTF-8"),
    damaged("utf-16", Sheet().to_bytes().decode().encode("utf-16"), "is not UTF-8"),
    damaged("html", b"<!DOCTYPE html><html><title>Sign in</title></html>", "is not JSON"),
    damaged("a-list", b"[1, 2]", "not a notebook"),
    damaged("a-number", b"4", "not a notebook"),
    damaged("format-3", b'{"nbformat": 3, "worksheets": [{"cells": []}]}', "format 3"),
    damaged("cells-of-numbers", b'{"nbformat": 4, "cells": [1, 2]}', "cells"),
    damaged("source-is-null", _cells(None), "cells"),
    damaged("source-holds-numbers", _cells(["x", 3]), "cells"),
    damaged("another-course", _cells("import numpy", "print('week 1')"), "no exercise of the"),
    damaged("no-cells", b'{"nbformat": 4, "cells": []}', "no exercise of the course"),
    damaged(
        "digits",
        b'{"nbformat": 4, "cells": [], "n": ' + b"9" * 5000 + b"}",
        "digits",
        "a number of 5,000 digits in the file",
    ),
    damaged("deep-json", b"[" * 200_000, "nested", "200,000 nested lists in the file"),
    damaged("deep-objects", b'{"a":' * 200_000, "nested", "200,000 nested objects in the file"),
    damaged(
        "120-mb",
        Sheet().to_bytes()[:-1] + b" " * 120 * 2**20 + b"}",
        "larger than",
        "a file of 120 MB",
    ),
]


def special(name: str, tries: str, make, says: str) -> Submission:
    """Something else than a file under a notebook's name."""

    def put(folder: Path, around: Around) -> None:
        make(folder / Path(LESSON.sheet).name, around)

    return Submission(name, "broken", tries, put, Outcome(refused=says))


def _unreadable() -> Submission:
    def put(folder: Path, _: Around) -> None:
        notebook(folder, Sheet().to_bytes()).chmod(0)

    everything = os.geteuid() == 0 and Outcome()  # root reads it all the same
    outcome = everything or Outcome(refused="cannot be read: Permission denied")
    return Submission("unreadable", "broken", "a file that nobody may read", put, outcome)


SPECIAL = [
    special("fifo", "a FIFO under a notebook's name", lambda p, _: os.mkfifo(p), "ordinary file"),
    special("device", "a link to a device", lambda p, _: p.symlink_to("/dev/zero"), "is a link"),
    special("link", "a link to a neighbour", lambda p, a: p.symlink_to(a.neighbour), "is a link"),
    special("loop", "a link to itself", lambda p, _: p.symlink_to(p.name), "is a link"),
    special("dangling", "a link to nothing", lambda p, _: p.symlink_to("no"), "is a link"),
    _unreadable(),
]


def named(name: str, tries: str, file: bytes) -> Submission:
    """A right sheet under an odd name."""

    def put(folder: Path, _: Around) -> None:
        with open(os.fsencode(folder) + b"/" + file, "wb") as target:
            target.write(Sheet().to_bytes())

    return Submission(name, "broken", tries, put, Outcome())


NAMED = [
    named("escapes", "terminal codes in the name", b"\x1b[2J\x1b]0;marks\x07 01.ipynb"),
    named("newline", "line ends in the name", b"01\n\r8 of 8 points.ipynb"),
    named("bidi", "text that runs backwards in the name", "\u202ebynpi.\u2066marks.ipynb".encode()),
    named("not-utf-8", "a name that isn't text", b"\xff\xfe 01.ipynb"),
    named("long-name", "a name of 255 bytes", b"x" * 249 + b".ipynb"),
    named("markup", "markup in the name", b"<script>alert(1)<!--[bold red]&amp;.ipynb"),
    named("formula", "a spreadsheet's formula in the name", b"=HYPERLINK(A1)+'|cmd'!A1.ipynb"),
    named("option", "a command's option as a name", b"--no-sandbox.ipynb"),
    named("capitals", "the suffix in capitals", b"01_SHEET.IPYNB"),
]

# ---- what editors and people do to a notebook ----------------------------------------------------


def colab(sheet: Sheet) -> None:
    """Colab keeps nbgrader's metadata, and gives ids of its own."""
    sheet.notebook["metadata"] = {"colab": {"provenance": []}, "kernelspec": {"name": "python3"}}
    sheet.notebook["nbformat_minor"] = 0
    for number, cell in enumerate(sheet.cells):
        cell.pop("id", None)
        cell["metadata"] |= {"id": f"k3J{number:09d}", "colab": {"base_uri": "https://x"}}


def vs_code(sheet: Sheet) -> None:
    sheet.notebook["metadata"]["language_info"] = {"name": "python", "version": "3.12.1"}
    for number, cell in enumerate(sheet.cells):
        cell["metadata"] = {"vscode": {"languageId": "python"}}
        cell["id"] = f"{number:08x}"


def kaggle(sheet: Sheet) -> None:
    sheet.notebook["nbformat_minor"] = 4
    sheet.notebook["metadata"]["kaggle"] = {"accelerator": "gpu", "isGpuEnabled": True}
    for cell in sheet.cells:
        cell.pop("id", None)
        stamp = {"execution": {"iopub.status.busy": "2026-01-01"}, "trusted": True, "_uuid": "d62"}
        cell["metadata"] = stamp


def windows(sheet: Sheet) -> None:
    """Line ends as Windows has them, and blanks before them."""
    for cell in sheet.cells:
        cell["source"] = ipynb.source_of(cell).replace("\n", "  \r\n")


def strip_metadata(sheet: Sheet) -> None:
    sheet.notebook["metadata"] = {}
    for cell in sheet.cells:
        cell["metadata"] = {}


def strip_all(sheet: Sheet) -> None:
    """Neither metadata nor ids: what is left is what stands in the cells."""
    strip_metadata(sheet)
    for cell in sheet.cells:
        cell.pop("id", None)


def big_output(sheet: Sheet) -> None:
    text = {"output_type": "stream", "name": "stdout", "text": "x" * 20 * 2**20}
    sheet.check(FIRST)["outputs"] = [text]


def split_answer(sheet: Sheet) -> None:
    helper = "def largest_code(bits):\n    return 2**bits - 1"
    answer = sheet.source(FIRST).replace("(2**mantissa_bits - 1)", "largest_code(mantissa_bits)")
    sheet.write(FIRST, answer)
    sheet.add(helper, before=FIRST)


def into_one_cell(sheet: Sheet) -> None:
    check = sheet.source(f"{FIRST}_check")
    sheet.take(f"{FIRST}_check")
    sheet.write(FIRST, f"{sheet.source(FIRST)}\n{check}")


def check_above(sheet: Sheet) -> None:
    place = sheet.index(SECOND)
    sheet.cells.insert(place, sheet.take(f"{SECOND}_check"))


def backwards(sheet: Sheet) -> None:
    order = [name for exercise in reversed(NAMES) for name in (exercise, f"{exercise}_check")]
    sheet.cells.extend([sheet.take(name) for name in order])


def stub_below(sheet: Sheet) -> None:
    """The sheet's stub, pasted above the right answer."""
    stub = Sheet(solved=False).cell(FIRST)
    sheet.cells.insert(sheet.index(FIRST), {**stub, "id": "another"})


def twice(sheet: Sheet) -> None:
    sheet.cells.append(dict(sheet.check(SECOND)))


def drop_checks(sheet: Sheet) -> None:
    for name in NAMES:
        sheet.take(f"{name}_check")


def checks_as_text(sheet: Sheet) -> None:
    sheet.check(FIRST)["cell_type"] = "markdown"
    sheet.check(SECOND)["cell_type"] = "raw"


def edit_checks(sheet: Sheet) -> None:
    sheet.write(f"{FIRST}_check", "print('all tests passed')")
    sheet.write(f"{SECOND}_check", f"ex.{SECOND}.check(lambda *args: 3)")


def drop_imports(sheet: Sheet) -> None:
    sheet.cells[:] = [c for c in sheet.cells if "import number_formats" not in str(c["source"])]


def two_lessons(sheet: Sheet) -> None:
    other = Sheet(lesson=OTHER)
    sheet.cells.extend(other.cells[-3:])


def stubs(sheet: Sheet) -> None:
    sheet.notebook = Sheet(solved=False).notebook


def answers(**written: str):
    """Each of these exercises gets this answer."""

    def change(sheet: Sheet) -> None:
        for name, source in written.items():
            sheet.write(name, source)

    return change


def earlier(*sources: str):
    """Cells of the learner's own above the first exercise."""

    def change(sheet: Sheet) -> None:
        for source in sources:
            sheet.at_the_top(source)

    return change


def spoils(*sources: str) -> tuple[object, Outcome]:
    """A cell above the first exercise that spoils the standard output; it is named in a note."""
    change = earlier(*sources)
    where = Sheet().index(FIRST) + 1
    return change, Outcome(notes=(f"cell {where} ",))


def _function(name: str, body: str) -> str:
    return f"def {name}(*args):\n    {body}"


NOTEBOOKS = [
    broken("colab", "an export from Colab", colab),
    broken("vs-code", "saved by VS Code, metadata lost", vs_code),
    broken("windows", "other line ends", windows),
    broken("kaggle", "an export from Kaggle", kaggle),
    broken("no-metadata", "all metadata stripped", strip_metadata),
    broken("no-ids", "all metadata and ids stripped", strip_all),
    broken("old-minor", "nbformat 4.0", lambda s: s.notebook.update(nbformat_minor=0)),
    broken("no-outer-metadata", "no notebook metadata", lambda s: s.notebook.pop("metadata")),
    broken("20-mb-output", "20 MB of stored output", big_output),
    broken("split", "an answer in two cells", split_answer),
    broken("one-cell", "answer and check in one cell", into_one_cell, Outcome(notes=(FIRST,))),
    broken("check-above", "an answer below its check", check_above, Outcome(notes=(SECOND,))),
    broken("backwards", "exercises in the opposite order", backwards),
    broken("stub-above", "the stub left above the right answer", stub_below),
    broken("check-twice", "a check copied", twice, Outcome(notes=("2 times",))),
    broken("no-checks", "all checks deleted", drop_checks, Outcome(notes=("missing",) * 4)),
    broken("checks-as-text", "checks in text cells", checks_as_text, Outcome(notes=(FIRST,))),
    broken(
        "edited-checks",
        "checks rewritten",
        edit_checks,
        Outcome(notes=("the course's own check",) * 2),
    ),
    broken(
        "no-imports",
        "the cell with the imports deleted",
        drop_imports,
        Outcome({SECOND: "error", FOURTH: "error"}, {SECOND: "torch"}),
    ),
    broken("two-lessons", "cells of another lesson", two_lessons, Outcome(problems=(OTHER.id,))),
    broken("untouched", "the stubs", stubs, Outcome(dict.fromkeys(NAMES, "not attempted"))),
    broken(
        "wrong",
        "wrong answers",
        answers(**{name: _function(name, "return 3.0") for name in NAMES}),
        Outcome(dict.fromkeys(NAMES, "wrong")),
    ),
    broken(
        "raises",
        "exceptions of every kind",
        answers(
            **{
                FIRST: f"def {FIRST}(*args)\n    return 3",
                SECOND: _function(SECOND, "return undefined_name"),
                THIRD: _function(THIRD, "raise KeyboardInterrupt"),
                FOURTH: _function(FOURTH, "raise SystemExit(0)"),
            }
        ),
        Outcome(
            dict.fromkeys(NAMES, "error"),
            {FIRST: "SyntaxError", SECOND: "undefined_name", FOURTH: "SystemExit"},
        ),
    ),
    broken(
        "earlier-failure",
        "cells that fail above the exercises",
        earlier("1 / 0", "def (", "raise KeyboardInterrupt", "import sys; sys.exit(1)", "quit()"),
    ),
    broken("null-byte", "a null byte in a cell", earlier("x = 1\0")),
    broken("half-character", "half a surrogate pair in a cell", earlier("x = '\ud800'  # \udfff")),
    broken("tabs", "a tab among spaces", earlier("if True:\n\tx = 1\n        y = 2")),
    broken("asks", "a cell that waits for input", earlier("input('name? ')", "breakpoint()")),
    broken(
        "magics",
        "magics, a shell and top-level await",
        earlier(
            "!echo hello",
            "%%bash\nls /",
            "import asyncio\nawait asyncio.sleep(0)",
            "%config InteractiveShell.ast_node_interactivity = 'all'",
        ),
    ),
    broken("ex-reused", "the name of the checks reused", earlier("ex = torch.exp")),
    broken(
        "ex-of-another",
        "imports another lesson's checks",
        earlier("from amp_lessons.exercises import grad_scaler as ex"),
    ),
    broken(
        "torch-settings",
        "defaults of torch changed and left so",
        earlier(
            "torch.set_default_dtype(torch.float64)",
            "torch.set_default_device('meta')",
            "torch.inference_mode().__enter__()",
            "torch.set_printoptions(precision=1)",
            "torch.set_num_threads(8)",
            "import warnings; warnings.simplefilter('error')",
        ),
    ),
    broken(
        "workers",
        "a data loader with two workers, threads and a large product",
        earlier(
            "from torch.utils.data import DataLoader\n"
            "list(DataLoader(list(range(8)), num_workers=2))",
            "torch.set_num_threads(4)\n(torch.ones(500, 500) @ torch.ones(500, 500)).sum()",
            "import threading\nt = threading.Thread(target=print)\nt.start(); t.join()",
            "from concurrent.futures import ThreadPoolExecutor\n"
            "list(ThreadPoolExecutor(4).map(abs, range(100)))",
        ),
    ),
    broken(
        "explores",
        "calls what the course has, and compares it with its own answers",
        lambda sheet: [
            sheet.at_the_top(
                "from amp_lessons.amp.numbers.formats import FP16\n"
                "print(max(FP16.next_up(x / 10) for x in range(200)))\n"
                "dtype = getattr(torch, 'float16')"
            ),
            sheet.add(f"assert {SECOND}(1.0) == FP16.next_up(1.0)", before=f"{SECOND}_check"),
            sheet.add(f"print({SECOND}(2.0), FP16.neighbours(2.0))"),
        ],
    ),
    broken(
        "leftovers",
        "files, folders and a changed directory",
        earlier(
            "import os; os.makedirs('a/b'); open('a/b/c', 'w').write('x')",
            "os.chdir('a'); os.umask(511)",
            "import tempfile; open(tempfile.mkdtemp() + '/x', 'w').write('x')",
        ),
    ),
    broken("stdout-none", "sys.stdout = None", *spoils("import sys; sys.stdout = None")),
    broken(
        "stdout-raises",
        "a standard output that raises",
        *spoils(
            "import sys\nclass Out:\n    def __getattr__(self, name): raise OSError(name)\n"
            "sys.stdout = sys.stderr = Out()"
        ),
    ),
    broken("stdout-closed", "closes sys.stdout", *spoils("import sys; sys.stdout.close()")),
    broken(
        "fds-closed", "closes descriptors 1 and 2", *spoils("import os; os.close(1); os.close(2)")
    ),
    broken(
        "stdout-file",
        "prints into a file from now on",
        *spoils("import sys; sys.stdout = open('out.txt', 'w')"),
    ),
    broken(
        "200000-lines",
        "prints 200,000 lines",
        earlier("for i in range(200_000): print(i)"),
        Outcome(problems=("printed far too much",)),
    ),
    broken(
        "one-long-line",
        "prints 100 MB in one line",
        earlier("print('x' * 100_000_000)"),
        Outcome(problems=("printed far too much",)),
    ),
    broken("a-million", "a million characters in a cell", earlier("# " + "x" * 10**6)),
    broken(
        "5-mb-of-code",
        "a pasted table of 5 MB in a cell",
        earlier("table = [" + "0, " * 1_700_000 + "]"),
        Outcome(other_problems=True),  # it may take longer than these tests allow a cell
    ),
    broken(
        "5-mb-of-lines",
        "5 MB of lines in a cell",
        earlier("x\n" * 2_500_000),
        Outcome(other_problems=True),
    ),
    broken(
        "sleeps",
        "an answer that never ends",
        answers(**{FIRST: _function(FIRST, "import time; time.sleep(600)")}),
        Outcome({FIRST: "error"}, {FIRST: "longer than"}, ("longer than",)),
    ),
    broken(
        "exits",
        "an answer that ends the process",
        answers(**{FIRST: _function(FIRST, "import os; os._exit(7)")}),
        Outcome({FIRST: "error"}, {FIRST: "exit status 7"}, (f"the check of {FIRST}",)),
    ),
    broken(
        "recursion",
        "endless recursion, with the limit set up",
        answers(
            **{
                FIRST: "import sys; sys.setrecursionlimit(10**9)\n"
                + _function(FIRST, f"return {FIRST}(*args)")
            }
        ),
        Outcome({FIRST: "error"}, {}, (), other_problems=True),
    ),
    broken(
        "odd-values",
        "answers of odd types and sizes",
        answers(
            **{
                FIRST: _function(FIRST, "return 10**5000"),
                SECOND: _function(SECOND, "x = []; x.append(x); return x"),
                THIRD: _function(THIRD, "return [0.0] * 5_000_000"),
                FOURTH: _function(FOURTH, "return (i for i in iter(int, 1))"),
            }
        ),
        Outcome(dict.fromkeys(NAMES, "wrong")),
    ),
    broken(
        "deep-value",
        "a value nested 5,000 deep",
        answers(
            **{FIRST: _function(FIRST, "x = []\n    for _ in range(5_000): x = [x]\n    return x")}
        ),
        Outcome({FIRST: "wrong"}),
    ),
    broken(
        "60-mb-value",
        "text of 60 MB as a result",
        answers(**{FIRST: _function(FIRST, "return 'x' * 60_000_000")}),
        Outcome({FIRST: "error|wrong"}, other_problems=True),
    ),
    broken(
        "long-message",
        "an exception with 1 MB to say",
        answers(**{FIRST: _function(FIRST, "raise ValueError('x' * 1_000_000)")}),
        Outcome({FIRST: "error"}, {FIRST: "ValueError"}),
    ),
    broken(
        "10-gib",
        "asks for 10 GiB at once",
        answers(**{FIRST: _function(FIRST, "return bytearray(10 * 2**30)")}),
        Outcome({FIRST: "error"}, {FIRST: "MemoryError"}),
    ),
    broken(
        "10-gib-tensor",
        "asks torch for 10 GiB",
        answers(**{FIRST: _function(FIRST, "return torch.ones(10 * 2**28)")}),
        Outcome({FIRST: "error"}, {FIRST: "allocate"}),
    ),
    broken(
        "crashes",
        "reads at address 0",
        answers(**{FIRST: _function(FIRST, "import faulthandler; faulthandler._sigsegv()")}),
        Outcome({FIRST: "error"}, {FIRST: "SIGSEGV"}, ("SIGSEGV",)),
    ),
]

BROKEN = [*FILES, *SPECIAL, *NAMED, *NOTEBOOKS]
