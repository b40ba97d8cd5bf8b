"""The generated notebooks are what the sources give, carry no answers, and check something."""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import build_notebooks as build
import nbformat
import pytest
import rebuild
from markdown_it import MarkdownIt
from outputs import settled
from rebuild import asked

from amp_lessons.app.home import DRAWN
from amp_lessons.core.catalogue import HOME, LESSONS, exercise_info, paths_with
from amp_lessons.exercises import checks
from amp_lessons.exercises.checks.authoring.exercise_parser import BEGIN, END
from amp_lessons.lessons.widgets import loss_scale_lab
from amp_lessons.quiz import bank

ROOT = Path(__file__).resolve().parents[2]


FOLDERS = build.FOLDERS


@cache
def products() -> tuple[build.Product, ...]:
    """What the sources make, not run yet. To change one, copy it."""
    return tuple(build.products(ROOT / "sources"))


def stored() -> dict[str, str]:
    return {
        path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
    }


def notebooks(folder: str) -> dict[str, nbformat.NotebookNode]:
    paths = sorted((ROOT / folder).rglob("*.ipynb"))
    return {path.stem: nbformat.read(path, as_version=4) for path in paths}


def executed(folder: str) -> dict[str, nbformat.NotebookNode]:
    """Those that are stored with what they showed: all but the home page."""
    return {name: found for name, found in notebooks(folder).items() if name != Path(HOME).stem}


# ---- drift ------------------------------------------------------------------------------------


def test_notebooks_are_what_the_sources_give():
    """Text, code and the forms of questions. The other outputs are nbval's to compare, cell by
    cell, and for the lessons also the browser tests', which run them in JupyterLab."""
    wanted, kept = products(), stored()
    assert len(wanted) >= 9, "nothing was compared"
    stale = [p.path for p in wanted if rebuild.refreshed(p, kept[p.path]) != kept[p.path]]
    assert not stale, f"make notebooks, then commit: {stale}"


def opening_cell(product: build.Product) -> nbformat.NotebookNode:
    return next(cell for cell in product.notebook.cells if cell.cell_type == "markdown")


def test_a_changed_sentence_leaves_the_outputs_as_they_are():
    path = LESSONS[1].notebook
    (product,) = (copy.deepcopy(p) for p in products() if p.path == path)
    opening_cell(product).source += "\n\nOne more sentence."
    text = rebuild.refreshed(product, stored()[path])
    old, new = (nbformat.reads(each, as_version=4) for each in (stored()[path], text))
    assert "One more sentence." in text
    assert [c for c in new.cells if c.cell_type == "code"] == [
        c for c in old.cells if c.cell_type == "code"
    ]


def test_changed_code_has_to_run():
    path = LESSONS[1].notebook
    (product,) = (copy.deepcopy(p) for p in products() if p.path == path)
    assert rebuild.refreshed(product, "") is None, "nothing is stored yet"
    product.notebook.cells[-2].source += "\nprint(1)"
    assert rebuild.refreshed(product, stored()[path]) is None


def test_a_changed_question_changes_its_form_alone(monkeypatch):
    path = LESSONS[1].notebook
    (product,) = (p for p in products() if p.path == path)
    old = nbformat.reads(stored()[path], as_version=4)
    monkeypatch.setattr(rebuild, "form", lambda cell, ids: {"text/plain": f"asks {ids}"})
    new = nbformat.reads(rebuild.refreshed(product, stored()[path]), as_version=4)
    changed = [one for one, other in zip(new.cells, old.cells, strict=True) if one != other]
    assert len(changed) == sum(bool(asked(cell)) for cell in old.cells) >= 4
    assert all("asks [" in cell.outputs[0].data["text/plain"] for cell in changed)


def test_stored_notebooks_ran_from_top_to_bottom():
    for folder in ("notebooks", "solutions"):
        for name, notebook in executed(folder).items():
            code = [cell for cell in notebook.cells if cell.cell_type == "code"]
            counts = [cell.execution_count for cell in code]
            assert counts == list(range(1, len(code) + 1)), f"{folder}/{name}"


def with_settled_pictures(text: str, kept: str) -> str:
    """A notebook, with the stored image in each picture whose curves agree with the stored ones."""
    notebook, stored = (nbformat.reads(each, as_version=4) for each in (text, kept))
    for cell, old in zip(notebook.cells, stored.cells, strict=False):
        if cell.cell_type == old.cell_type == "code":
            cell.outputs = [nbformat.from_dict(o) for o in settled(cell.outputs, old.outputs)]
    return build.to_text(notebook)


@pytest.mark.slow
def test_rebuilt_notebooks_are_the_stored_ones_to_the_byte():
    """A whole lesson, its optional notebook and its sheets, with pictures, live cells and cells
    that are checked. A picture that brings its numbers along is compared by them."""
    rebuilt, kept = build.build(only=("01",)), stored()
    assert len(rebuilt) == 4, "nothing was compared"
    drifted = [name for name, text in rebuilt.items() if kept[name] != text]
    drifted = [n for n in drifted if kept[n] != with_settled_pictures(rebuilt[n], kept[n])]
    assert not drifted, f"make notebooks, then commit: {drifted}"


def test_no_file_is_too_many_or_too_few():
    wanted = {product.path for product in products()}
    assert set(stored()) == wanted, "make notebooks"


def test_each_lesson_has_its_notebook_and_each_sheet_its_two():
    names = set(stored())
    for lesson in LESSONS:
        assert lesson.notebook in names
        for path in (lesson.sheet, lesson.solutions):
            assert (path in names) == bool(lesson.exercises)


@pytest.mark.parametrize("folder", FOLDERS)
def test_notebooks_are_valid_small_and_ready_for_lab(folder):
    found = notebooks(folder)
    assert found
    for name, notebook in found.items():
        nbformat.validate(notebook)
        assert notebook.metadata.kernelspec.name == "python3", name
        assert len(nbformat.writes(notebook).encode()) < build.MAX_BYTES
        ids = [cell.id for cell in notebook.cells]
        assert len(ids) == len(set(ids))


def test_cell_ids_depend_on_the_text_and_not_on_the_place():
    from nbformat.v4 import new_code_cell, new_notebook

    def ids(*sources):
        finished = build.finish(new_notebook(cells=[new_code_cell(s) for s in sources]))
        return [cell.id for cell in finished.cells]

    a, b = ids("a = 1", "b = 2")
    assert ids("b = 2", "a = 1") == [b, a]
    assert ids("new = 0", "a = 1", "b = 2")[1:] == [a, b]
    assert len(set(ids("same", "same", "same"))) == 3


# ---- no answers -------------------------------------------------------------------------------


def solution_lines() -> dict[str, set[str]]:
    """For each sheet, the lines of its solutions that no public part has."""
    found = {}
    for lesson in LESSONS:
        exercises = [checks.find_exercise(info.name) for info in lesson.exercises]
        given = "".join(cell.text for each in exercises for cell in each.public.cells)
        lines = {line.strip() for each in exercises for line in each.solved().splitlines()}
        if exercises:
            found[lesson.id] = {x for x in lines if len(x) > 8 and x not in given}
    return found


def test_no_line_of_a_solution_stands_in_an_exercise_notebook():
    secrets = solution_lines()
    assert sum(map(len, secrets.values())) > 30, "no solution lines found to look for"
    for name, lines in secrets.items():
        text = (ROOT / f"exercises/{name}_exercises.ipynb").read_text(encoding="utf-8")
        cells = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
        leaked = [line for line in lines if line in cells]
        assert not leaked, f"exercises/{name}_exercises.ipynb holds {leaked}"
        assert BEGIN not in cells
        assert END not in cells


def test_exercise_notebooks_have_no_outputs_and_no_answer_key():
    for name, notebook in notebooks("exercises").items():
        for cell in notebook.cells:
            if cell.cell_type == "code":
                assert cell.outputs == [], name
                assert cell.execution_count is None
                metadata = json.dumps(cell.metadata)
                assert "answer" not in metadata
                assert "solution" not in cell.source.replace(".solution()", "")


# ---- what is checked --------------------------------------------------------------------------


def is_checked(cell: nbformat.NotebookNode) -> bool:
    return cell.cell_type == "code" and (
        build.CHECK_COMMENT in cell.source or build.CHECK_TAG in cell.metadata.get("tags", [])
    )


@pytest.mark.parametrize("folder", ["notebooks", "solutions"])
def test_each_checked_cell_has_something_to_compare(folder):
    for name, notebook in executed(folder).items():
        checked = [cell for cell in notebook.cells if is_checked(cell)]
        assert checked, f"{folder}/{name} checks nothing"
        for cell in checked:
            assert cell.outputs, f"{folder}/{name}: no stored output:\n{cell.source}"
            assert "live" not in cell.metadata.get("tags", [])


def test_each_stored_output_is_checked():
    for folder in ("notebooks", "solutions"):
        for name, notebook in notebooks(folder).items():
            for cell in notebook.cells:
                of_its_own = {*build.WIDGET_TAGS, DRAWN} & {*cell.metadata.get("tags", [])}
                unchecked = cell.get("outputs") and not is_checked(cell) and not of_its_own
                assert not unchecked, f"{folder}/{name} shows unchecked:\n{cell.source}"


def test_no_mark_of_our_tests_stands_where_learners_read():
    for folder in FOLDERS:
        for name, notebook in notebooks(folder).items():
            for cell in notebook.cells:
                assert "NBVAL" not in cell.source, f"{folder}/{name}:\n{cell.source}"


def test_live_cells_are_stored_without_output_and_no_output_is_stderr():
    for folder in ("notebooks", "solutions"):
        for notebook in notebooks(folder).values():
            for cell in notebook.cells:
                if "live" in cell.metadata.get("tags", []):
                    assert cell.outputs == []
                for output in cell.get("outputs", []):
                    assert output.output_type != "error"
                    assert output.get("name") != "stderr"


def test_pictures_carry_a_text():
    pictures = 0
    for name, notebook in notebooks("notebooks").items():
        for cell in notebook.cells:
            for output in cell.get("outputs", []):
                assert "image/png" not in output.get("data", {}), f"{name}: {cell.source}"
                for alt in re.findall(r'<img [^>]*alt="([^"]*)"', str(output.get("data", {}))):
                    pictures += 1
                    assert len(alt) > 40, (name, alt)
    assert pictures >= 6


# ---- how lessons are made -----------------------------------------------------------------------


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.id)
def test_lesson_opens_and_closes_as_the_design_says(lesson):
    _, *cells = notebooks("notebooks")[lesson.id].cells  # after the set-up cell
    opening = cells[0].source
    assert opening.startswith(f"# Lesson {lesson.number:02}: {lesson.title}\n")
    assert "**You will be able to**" in opening
    assert f"**Time** {lesson.minutes} minutes" in opening
    assert "**Needs**" in opening
    text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    recap = text.split("## Recap")[1].split("## ")[0]
    assert len(re.findall(r"^\d\. ", recap, re.MULTILINE)) == 5
    assert "## Three questions" in text
    assert "**Next:**" in cells[-1].source


def test_an_opening_without_a_place_for_the_minutes_is_refused():
    cell = nbformat.v4.new_markdown_cell("# Lesson 01\n\n**Time** 45 minutes.")
    with pytest.raises(build.BuildError, match=r"say '\*\*Time\*\* \[\[minutes\]\] minutes'"):
        build.say_minutes(cell, 45)


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.id)
def test_lesson_says_which_paths_come_without_what_it_needs(lesson):
    product = build.lesson_product(lesson, ROOT / "sources")
    last = product.notebook.cells[0].source.rpartition("\n\n")[2]
    skipped = {each for path in paths_with(lesson) for each in path.skipped(lesson)}
    assert ("You can follow this lesson without it" in last) == bool(skipped)
    for path in paths_with(lesson):
        assert (path.name in last) == bool(path.skipped(lesson))
    for each in skipped:
        assert f"[lesson {each.number:02}]" in last


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.id)
def test_lesson_asks_three_questions_of_the_bank_at_its_end(lesson):
    cells = notebooks("notebooks")[lesson.id].cells
    heading = next(n for n, cell in enumerate(cells) if "## Three questions" in cell.source)
    last = cells[heading + 1]
    assert re.search(r"^ask\($", last.source, re.MULTILINE)
    ids = asked(last)
    assert len(ids) == 3
    for wanted in ids:
        question = bank.load().find(wanted)
        assert not lesson.asks or question.topic in lesson.asks
        assert question.kind != "prediction"


def test_no_question_is_asked_twice_in_the_lessons():
    ids = [each for n in notebooks("notebooks").values() for c in n.cells for each in asked(c)]
    twice = {each for each in ids if ids.count(each) > 1} - set(ALSO_IN_THE_INTERVIEW_ROOM)
    assert len(ids) >= 39
    assert not twice


ALSO_IN_THE_INTERVIEW_ROOM = (
    "memory.seven_billion_states",
    "myths_and_clinic.scale_is_a_sixteenth",
)


def test_each_prediction_is_asked_once_and_stands_right_above_its_result():
    found = []
    for name, notebook in executed("notebooks").items():
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        for cell, result in pairwise(code):
            if "predict(" in cell.source and (ids := asked(cell)):
                found += ids
                assert cell.source == f'predict("{ids[0]}")', name
                assert result.outputs, f"{name}: {ids[0]} has no result below it"
        found += [loss_scale_lab.ASKED for cell in code if cell.source == "LossScaleLab()"]
    assert sorted(found) == sorted(each.id for each in bank.load().predictions)


def test_questions_are_stored_as_a_form_that_reads_without_a_kernel():
    forms = 0
    for notebook in notebooks("notebooks").values():
        for cell in notebook.cells:
            if ids := asked(cell):
                (output,) = cell.outputs
                form = rebuild.form(cell, ids)
                assert output.data == form, f"make notebooks, then commit: {ids}"
                assert form["text/html"].count("<details><summary>Answer</summary>") == len(ids)
                forms += 1
    assert forms >= 18


def test_nothing_that_answers_a_prediction_stands_in_the_notebook():
    """Question, key and explanation live in the bank: the workspace's copies have no outputs."""
    for notebook in notebooks("notebooks").values():
        sources = "\n".join(cell.source for cell in notebook.cells)
        for item in bank.load().predictions:
            for part in (*getattr(item, "choices", ()), *getattr(item, "mistakes", ())):
                assert part.why not in sources
            assert not item.explanation or item.explanation not in sources
            assert item.prompt not in sources


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.id)
def test_lesson_asks_before_it_shows_and_keeps_cells_short(lesson):
    cells = notebooks("notebooks")[lesson.id].cells
    text = "\n".join(cell.source for cell in cells)
    if lesson.asks and lesson.slug != "clinic":  # there people look something up
        assert text.count("**Predict:**") + text.count("predict(") >= 3
    for cell in cells:
        if cell.cell_type == "code":
            code = [line for line in cell.source.splitlines() if line.strip()]
            assert len(code) <= 20, f"{lesson.id}: a cell of {len(code)} lines:\n{cell.source}"
    assert "In this section" not in text
    assert not re.search(r"^#+ .*[\U0001F300-\U0001FAFF]", text, re.MULTILINE), "emoji heading"


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_paragraph_runs_into_a_list_or_a_heading(folder):
    """A wrapped line that begins with "1. " or "- " ends its paragraph and begins a list."""
    markdown = MarkdownIt("gfm-like", {"linkify": False})
    seen = 0
    for name, notebook in notebooks(folder).items():
        for cell in notebook.cells:
            if cell.cell_type == "markdown":
                blocks = [t for t in markdown.parse(cell.source) if t.level == 0 and t.map]
                seen += len(blocks)
                for before, after in pairwise(blocks):
                    apart = after.map[0] - before.map[1]
                    assert before.type != "paragraph_open" or apart > 0, (name, cell.source)
    assert seen > 50


def test_headings_of_exercises_come_from_the_catalogue():
    for lesson in LESSONS:
        if lesson.exercises:
            cells = notebooks("exercises")[Path(lesson.sheet).stem].cells
            text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
            for number, info in enumerate(lesson.exercises, 1):
                assert f"## {number}. {info.title}\n" in text
                assert f"about {exercise_info(info.name).minutes} minutes" in text
