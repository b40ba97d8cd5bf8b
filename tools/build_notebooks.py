"""Build notebooks/, exercises/ and solutions/ from sources/: `make notebooks`.

A lesson's source is a py:percent script (jupytext) and becomes one executed notebook. The exercises
of a topic become two (`sheets`): the solutions, executed, and the sheet, with each solution cut
out. With nothing changed, a second build gives the same bytes: cell ids come from the cells' text,
and what differs from run to run is left out.

Each notebook begins with a hidden cell that installs the course where it is missing. Each gets a
line of links below its heading, each lesson a last cell that marks it as done, and links in the
text are written out (`links`). A lesson whose prerequisite is skipped by a path says so below its
heading. The home page comes from `sources/home.py`; its drawn cells show here
what somebody sees who has done nothing yet, and its table of GPUs is that of `roofline`.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import os
import posixpath
import re
import sys
import tempfile
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import jupytext
import nbformat
import sheets
from jupyter_core.utils import ensure_event_loop
from links import Linker, LinkError
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from amp_lessons.amp import roofline
from amp_lessons.app import home
from amp_lessons.core import ipynb
from amp_lessons.core.catalogue import HOME, LESSONS, WHEEL, Lesson, after, before, paths_with
from amp_lessons.core.progress import Progress
from amp_lessons.exercises.checks.authoring.exercise_parser import ExerciseFileError
from amp_lessons.lessons.widgets.loss_scale_picture import loss_scale_picture

ROOT = Path(__file__).resolve().parent.parent
README_PICTURE = ROOT / "docs/loss_scale.png"

FOLDERS = ("notebooks", "exercises", "solutions")
MAX_BYTES = 400_000
CELL_TIMEOUT = 120
KERNELSPEC = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
CHECK_COMMENT, CHECK_TAG = "# NBVAL_CHECK_OUTPUT", "nbval-check-output"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
QUESTION_TAG = "question"
WIDGET_TAGS = {QUESTION_TAG, "widget"}
"""Of cells that show a widget, and are stored with the form that it has where no widget runs."""
SET_UP = f"""# @title Set-up: installs AMP Lessons if it is missing
from importlib.util import find_spec
if find_spec("amp_lessons") is None:
    import os, subprocess, sys
    wheel = os.environ.get("AMP_LESSONS_WHEEL") or "{WHEEL}"
    steps = ["pip", "install", "-qqq", "--no-deps", wheel], ["amp_lessons.app.set_up"]
    if any(subprocess.run([sys.executable, "-m", *step]).returncode for step in steps):
        print(f"Not installed. Make sure that pip can read {{wheel}}, then run this cell again.")"""


class BuildError(Exception):
    """A source cannot be built. The message names the file and what to do."""


@dataclass(frozen=True)
class Product:
    """One notebook to be written: where to, from what, and whether it is executed first."""

    path: str
    notebook: NotebookNode
    execute: bool


# ---- from a source to unexecuted notebooks ------------------------------------------------------


def read_source(path: Path) -> NotebookNode:
    """A py:percent script as a notebook with nothing but its cells."""
    notebook = jupytext.read(path, fmt="py:percent")
    if not notebook.cells:
        raise BuildError(f"{path}: no cells; begin each with a line '# %%'")
    return notebook


def lesson_product(lesson: Lesson, sources: Path) -> Product:
    source = sources / "lessons" / f"{lesson.id}.py"
    notebook = read_source(source)
    *cells, closing = (each for cell in notebook.cells for each in whiteboard(cell))
    call = f'from amp_lessons.app import home\n\nhome.finished("{lesson.slug}")'
    mark = new_code_cell(call, metadata={"tags": ["live"]})
    invite = new_markdown_cell(
        "Run this cell when you have finished. It saves your progress and says what is next, also "
        "on your path."
    )
    notebook.cells = [*cells, invite, mark, closing]
    say_minutes(notebook.cells[0], lesson.minutes)
    add_navigation(notebook.cells[0], lesson, lesson.sheet)
    add_shortcuts(notebook.cells[0], lesson)
    add_ways_on(notebook.cells[-1], lesson)
    write_out_links(notebook.cells, lesson.notebook, sources)
    return Product(lesson.notebook, finish(notebook), execute=True)


def deep_product(lesson: Lesson, sources: Path) -> Product:
    """The optional notebook beside a lesson. It is on no path, so nothing marks it as done."""
    notebook = read_source(sources / "lessons" / f"{lesson.id}_deep.py")
    if lesson.deep is not None:
        say_minutes(notebook.cells[0], lesson.deep.minutes)
    add_navigation(notebook.cells[0], lesson, lesson.deep_notebook)
    write_out_links(notebook.cells, lesson.deep_notebook, sources)
    return Product(lesson.deep_notebook, finish(notebook), execute=True)


MINUTES = "[[minutes]]"
"""Stands in the opening of a lesson for its minutes, as the catalogue has them."""


def say_minutes(opening: NotebookNode, minutes: int) -> None:
    """Raises `BuildError` if the opening has no place for them."""
    if f"**Time** {MINUTES} minutes" not in opening.source:
        raise BuildError(f"say '**Time** {MINUTES} minutes' in the cell:\n{opening.source}")
    opening.source = opening.source.replace(MINUTES, str(minutes))


def whiteboard(cell: NotebookNode) -> list[NotebookNode]:
    """A cell ``# %% [markdown] whiteboard="next_float"`` asks for that exercise from its sheet:
    statement, stub and check. Any other cell stays as it is."""
    name = cell.metadata.pop("whiteboard", None)
    if name is None:
        return [cell]
    try:
        return sheets.whiteboard(name, cell.source)
    except ExerciseFileError as error:
        raise BuildError(str(error)) from error


GPU_TABLE = "[[the table of GPUs]]"
"""Where the home page has the table."""


def home_product(sources: Path) -> Product:
    source = sources / "home.py"
    notebook = read_source(source)
    for cell in notebook.cells:
        cell.source = cell.source.replace(GPU_TABLE, roofline.table())
        cell.id = "unset"  # `finish` gives each its own
    write_out_links(notebook.cells, HOME, sources)
    page = nbformat.from_dict(home.drawn(dict(notebook), Progress()))
    for cell in page.cells:
        if home.is_drawn(cell):
            cell.execution_count = 1  # or nbval refuses a cell with outputs
    return Product(HOME, finish(page), execute=False)


# ---- the set-up cell ----------------------------------------------------------------------------


def with_set_up(product: Product) -> Product:
    """The same notebook with the set-up cell before all others. JupyterLab and Colab hide its text;
    where the course is installed it does nothing."""
    hidden = {"cellView": "form", "jupyter": {"source_hidden": True}, "tags": [ipynb.SET_UP]}
    product.notebook.cells.insert(0, new_code_cell(SET_UP, metadata=hidden))
    finish(product.notebook)
    return product


# ---- links --------------------------------------------------------------------------------------


def glossary_terms(sources: Path) -> frozenset[str]:
    """The headings below "## Glossary" on the home page."""
    text = (sources / "home.py").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^# ### (.+)$", text, re.MULTILINE))


def write_out_links(cells: list[NotebookNode], path: str, sources: Path) -> None:
    """Write out the links in the text of the notebook that will stand at this path."""
    linker = Linker(posixpath.dirname(path), glossary_terms(sources))
    for cell in cells:
        if cell.cell_type == "markdown":
            try:
                cell.source = linker.expand(cell.source)
            except LinkError as error:
                raise BuildError(f"{path}: {error}, in the cell:\n{cell.source}") from error


def add_navigation(opening: NotebookNode, lesson: Lesson, other: str) -> None:
    """Below the heading: links to the home page, the lesson's other notebook and what is next."""
    kind = "exercises" if other == lesson.sheet else "lesson"
    links = ["[[home|Home]]", f"[[{kind} {lesson.slug}]]", "[[glossary|glossary]]"]
    if not lesson.exercises:
        del links[1]
    following = after(lesson)
    if following:
        links.append(f"[[lesson {following.slug}|next: {following.title}]]")
    heading, _, rest = opening.source.partition("\n")
    opening.source = f"{heading}\n\n{' · '.join(links)}\n{rest}"


def add_ways_on(closing: NotebookNode, lesson: Lesson) -> None:
    """At the end: links to the lessons before and after, and to the home page."""
    links = ["[[home|Home]]"]
    if previous := before(lesson):
        links.insert(0, f"[[lesson {previous.slug}|previous: {previous.title}]]")
    if following := after(lesson):
        links.append(f"[[lesson {following.slug}|next: {following.title}]]")
    closing.source += f"\n\n{' · '.join(links)}"


def add_shortcuts(opening: NotebookNode, lesson: Lesson) -> None:
    """Below what a lesson needs: which paths skip that, so that their learners read on."""
    skipping: dict[tuple[Lesson, ...], list[str]] = {}
    for path in paths_with(lesson):
        if left_out := path.skipped(lesson):
            skipping.setdefault(left_out, []).append(f"the {path.name}")
    for left_out, names in skipping.items():
        skipped = " and ".join(f"[[lesson {each.slug}]]" for each in left_out)
        verb = "skips" if len(names) == 1 else "skip"
        line = f"{' and '.join(names)} {verb} {skipped}. You can follow this lesson without it;"
        opening.source += f"\n\n{line[0].upper()}{line[1:]} look up new terms in [[glossary]]."


def exercise_products(lesson: Lesson, sources: Path) -> list[Product]:
    """The solution notebook and the exercise notebook of one sheet."""
    try:
        solved = sheets.solved(lesson)
    except ExerciseFileError as error:
        raise BuildError(str(error)) from error
    add_navigation(solved[0], lesson, lesson.notebook)
    write_out_links(solved, lesson.sheet, sources)
    return [
        Product(lesson.solutions, finish(_notebook(solved)), execute=True),
        Product(lesson.sheet, finish(_notebook(sheets.unsolved(solved))), execute=False),
    ]


def _notebook(cells: list[NotebookNode]) -> NotebookNode:
    return nbformat.v4.new_notebook(cells=cells)


def finish(notebook: NotebookNode) -> NotebookNode:
    """Give a notebook the metadata that Lab wants, and cell ids that depend on the text alone."""
    notebook.metadata = NotebookNode(kernelspec=dict(KERNELSPEC), language_info={"name": "python"})
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    taken: set[str] = set()
    for cell in notebook.cells:
        base = cell.metadata.get("nbgrader", {}).get("grade_id")
        if base is None:
            base = hashlib.sha256(f"{cell.cell_type}\n{cell.source}".encode()).hexdigest()[:10]
        base = base.replace("_", "-")
        number = next(n for n in range(1, 10_000) if _numbered(base, n) not in taken)
        cell.id = _numbered(base, number)
        taken.add(cell.id)
    return notebook


def _numbered(base: str, number: int) -> str:
    return base if number == 1 else f"{base}-{number}"


# ---- running ------------------------------------------------------------------------------------


def execute(product: Product) -> NotebookNode:
    """Run a notebook from top to bottom in a fresh kernel; keep what will be the same next time."""
    notebook = copy.deepcopy(product.notebook)
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "AMP_LESSONS_HOME": folder,
            "PYTHONHASHSEED": "0",
            "OMP_NUM_THREADS": "1",  # as in `make test`: several kernels run side by side
        }
        client = NotebookClient(
            notebook,
            timeout=CELL_TIMEOUT,
            kernel_name="python3",
            extra_arguments=["--log-level=ERROR"],
            resources={"metadata": {"path": folder}},
        )
        try:
            client.execute(env=environment)
        except CellExecutionError as error:
            raise BuildError(f"{product.path}: a cell failed\n{error}") from error
        finally:
            ensure_event_loop().close()  # Jupyter makes one for each thread, and leaves it open
    for cell in notebook.cells:
        if cell.cell_type == "code":
            clean_outputs(cell, product.path)
            have_it_checked(cell)
    return finish(notebook)


def clean_outputs(cell: NotebookNode, path: str) -> None:
    """Drop what differs from run to run, and refuse what a learner should not meet."""
    cell.metadata.pop("execution", None)
    if "live" in cell.metadata.get("tags", []):
        cell.outputs = []
        return
    merged: list[NotebookNode] = []
    for output in cell.outputs:
        if output.output_type == "stream":
            if output.name == "stderr":
                raise BuildError(f"{path}: a cell writes to stderr:\n{cell.source}\n{output.text}")
            if merged and merged[-1].output_type == "stream":
                merged[-1].text += output.text  # where a kernel cuts its stream is chance
                continue
        if WIDGET_VIEW in output.get("data", {}):
            if not WIDGET_TAGS & {*cell.metadata.get("tags", [])}:
                raise BuildError(
                    f"{path}: a cell that shows a widget needs the tag live, question or widget:\n"
                    f"{cell.source}"
                )
            del output.data[WIDGET_VIEW]  # what stays is the form for pages without widgets
        merged.append(output)
    cell.outputs = merged


def have_it_checked(cell: NotebookNode) -> None:
    """Give a stored output that no comment marks the tag by which nbval compares it."""
    tags = cell.metadata.get("tags", [])
    if WIDGET_TAGS & {*tags}:
        return  # a widget, where there is a kernel
    if cell.outputs and CHECK_COMMENT not in cell.source and CHECK_TAG not in tags:
        cell.metadata["tags"] = [*tags, CHECK_TAG]


def to_text(notebook: NotebookNode) -> str:
    return nbformat.writes(notebook) + "\n"


# ---- everything ---------------------------------------------------------------------------------


def products(sources: Path) -> list[Product]:
    """Everything that the catalogue asks for, not executed yet.

    Raises:
        BuildError: if a source is missing, or one exists that the catalogue does not list.
    """
    wanted = [home_product(sources)]
    listed: set[Path] = set()
    for lesson in LESSONS:
        listed.add(sources / "lessons" / f"{lesson.id}.py")
        wanted.append(lesson_product(lesson, sources))
        if lesson.deep:
            listed.add(sources / "lessons" / f"{lesson.id}_deep.py")
            wanted.append(deep_product(lesson, sources))
        if lesson.exercises:
            wanted += exercise_products(lesson, sources)
    stray = sorted(set(sources.glob("*/*.py")) - listed)
    if stray:
        raise BuildError(
            f"not in the catalogue (amp_lessons/core/catalogue.py): {', '.join(map(str, stray))}"
        )
    return [with_set_up(product) for product in wanted]


def build(
    sources: Path = ROOT / "sources", jobs: int = 2, only: Sequence[str] = ()
) -> dict[str, str]:
    """Build every notebook, or those of the lessons whose ids begin as ``only`` says.

    Returns:
        The text of each file by its path below the root.
    """
    wanted = products(sources)
    if only:
        wanted = [p for p in wanted if Path(p.path).name.startswith(tuple(only))]

    with ThreadPoolExecutor(jobs) as pool:
        return dict(zip([p.path for p in wanted], pool.map(make, wanted), strict=True))


def make(product: Product) -> str:
    """A notebook's text, after it has run if it does. Raises `BuildError`."""
    text = to_text(execute(product) if product.execute else product.notebook)
    if len(text.encode()) > MAX_BYTES:
        raise BuildError(f"{product.path} has {len(text.encode())} bytes, over {MAX_BYTES}")
    return text


def store(built: dict[str, str]) -> int:
    """Write the notebooks that aren't stored like this yet, and the README's picture.

    Returns:
        How many notebooks were written. Each is printed.
    """
    changed = 0
    for name, text in built.items():
        path = ROOT / name
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
            changed += 1
            print(f"wrote {name}")
    if LESSONS[0].notebook in built:
        README_PICTURE.write_bytes(loss_scale_picture().png)
    return changed


def remove_all_but(wanted: Collection[str]) -> None:
    """Remove the stored notebooks that no source makes any more."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.ipynb")):
            name = path.relative_to(ROOT).as_posix()
            if name not in wanted:
                path.unlink()
                print(f"removed {name}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2, help="notebooks that run at a time")
    parser.add_argument("only", nargs="*", help="lessons to build, such as 01; default all")
    chosen = parser.parse_args()
    try:
        built = build(jobs=chosen.jobs, only=chosen.only)
    except (BuildError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 1
    changed = store(built)
    if not chosen.only:
        remove_all_but(built)
    print(f"{len(built)} notebooks built, {changed} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
