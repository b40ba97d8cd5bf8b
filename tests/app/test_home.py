"""The home page: drawn from saved progress, readable before any cell has run, never in the way."""

from __future__ import annotations

import base64
import re
import threading
from collections.abc import Callable
from itertools import pairwise
from math import isclose, isnan
from pathlib import Path

import nbformat
import pytest
import torch
from waiting import wait_until

from amp_lessons.amp import roofline
from amp_lessons.amp.numbers.formats import FORMATS
from amp_lessons.app import home, workspace
from amp_lessons.core import ipynb, progress
from amp_lessons.core.catalogue import HOME, LESSONS, PATHS, lesson_called
from amp_lessons.core.progress import Progress
from amp_lessons.core.standing import next_lesson, state_of
from amp_lessons.lessons import plots

ROOT = Path(__file__).resolve().parents[2]
SOURCE = (ROOT / "sources/home.py").read_text(encoding="utf-8")
EXERCISES = [info for lesson in LESSONS for info in lesson.exercises]


def page(folder: Path) -> str:
    """All Markdown of a workspace's home page, as it is before any cell has run."""
    cells = ipynb.read(folder / HOME)["cells"]
    texts = [ipynb.source_of(cell) for cell in cells if cell["cell_type"] == "markdown"]
    shown = [output["data"] for output in drawn_cell(folder)["outputs"]]
    return "\n".join([*texts, *(str(data.get("text/markdown", data)) for data in shown)])


def drawn_cell(folder: Path) -> ipynb.Cell:
    (cell,) = [cell for cell in ipynb.read(folder / HOME)["cells"] if home.is_drawn(cell)]
    return cell


def rows(text: str) -> dict[str, str]:
    """The rows of the page's tables by their lesson or path."""
    found = re.findall(r"^\| .*$", text, re.MULTILINE)
    return {re.sub(r"[*\[].*", "", row.split("|")[2]) or row: row for row in found}


def pass_all(slug: str) -> None:
    for info in lesson_called(slug).exercises:
        progress.record_check(info.name, "passed")


# ---- what has been done -------------------------------------------------------------------------


def test_a_lesson_is_done_by_its_last_cell_or_by_its_exercises():
    lesson = lesson_called("grad_scaler")
    assert state_of(lesson, Progress()) == "open"
    assert state_of(lesson, progress.record_check("clip_step", "wrong")) == "started"
    assert state_of(lesson, progress.record_check("clip_step", "passed")) == "started"
    assert state_of(lesson, progress.record_lesson("grad_scaler")) == "done"
    progress.forget([info.name for info in lesson.exercises])
    pass_all("memory")
    assert state_of(lesson_called("memory"), progress.load()) == "done"


def test_the_next_lesson_is_the_one_that_was_started():
    assert next_lesson(Progress()) is LESSONS[0]
    progress.record_lesson("amp_in_20_minutes")
    assert next_lesson(progress.load()).slug == "number_formats"
    progress.record_check("clip_step", "wrong")
    assert next_lesson(progress.load()).slug == "grad_scaler"
    for lesson in LESSONS:
        progress.record_lesson(lesson.slug)
    assert next_lesson(progress.load()) is None


# ---- the page -----------------------------------------------------------------------------------


def test_the_page_of_somebody_new(tmp_path):
    workspace.copy_course(tmp_path)
    text = page(tmp_path)
    start = "**New here? Start with [lesson 00, AMP in 20 minutes](00_amp_in_20_minutes.ipynb).**"
    assert start in text
    assert "continue here" not in text.lower()


def test_the_page_of_somebody_new_says_nothing_that_a_first_lesson_makes_false(tmp_path):
    """JupyterLab keeps it on the screen while they work in another tab."""
    workspace.copy_course(tmp_path)
    text = page(tmp_path)
    assert not re.search(r"\b0 of \d|finished|✔|◐|○|[Nn]ot yet", text)
    first = LESSONS[0]
    count, minutes = len(first.exercises), sum(info.minutes for info in first.exercises)
    assert f"| [{count}](../{first.sheet}), {minutes}\u00a0min |" in text


def test_a_page_that_is_stored_says_of_which_moment_it_speaks(tmp_path):
    progress.record_lesson("amp_in_20_minutes")
    workspace.copy_course(tmp_path)
    finished = f"When you opened the course, you had finished 1 of {len(LESSONS)} lessons"
    assert finished in page(tmp_path)


def test_the_stored_page_of_the_course_is_that_of_somebody_new():
    stored = nbformat.read(ROOT / HOME, as_version=4)
    for cell in stored.cells:
        if home.is_drawn(cell):
            cell.execution_count = None
    assert home.drawn(stored, Progress()) == stored, "make notebooks, then commit"


def test_the_page_of_somebody_halfway(tmp_path):
    pass_all("amp_in_20_minutes")
    progress.record_lesson("number_formats")
    progress.record_check("next_float", "passed")
    progress.record_check("kahan_sum", "wrong")
    workspace.copy_course(tmp_path)
    text = page(tmp_path).replace("\u00a0", " ")
    assert "**Continue here: [lesson 02, Three ways numbers break]" in text
    finished = f"finished 2 of {len(LESSONS)} lessons and passed 2 of {len(EXERCISES)} exercises"
    assert finished in text
    first, second = (lesson_called(slug) for slug in ("number_formats", "how_numbers_break"))
    minutes = sum(info.minutes for info in second.exercises)
    assert f"0 of {len(second.exercises)}](../{second.sheet}), {minutes} min" in text
    assert "| ✔ | [00 AMP in 20 minutes]" in text
    assert "| ✔ | [01 Number formats]" in text
    assert f"[1 of {len(first.exercises)}](../{first.sheet})" in text
    assert "| ◐ | [02 Three ways numbers break]" in text
    for path in PATHS:
        (row,) = [row for row in text.splitlines() if row.startswith(f"| **{path.title}**")]
        assert row.count("continue here") == (path.title != "20 minutes"), row
        assert "✔ [00 AMP in 20 minutes]" in row
    assert "Done: 00, 01; Started: 02" in text  # the picture, for those who don't see it


def test_the_map_is_stored_with_the_page(tmp_path):
    workspace.copy_course(tmp_path)
    _, shown, _ = (output["data"] for output in drawn_cell(tmp_path)["outputs"])
    data, alt = re.search(r'base64,([^"]+)" alt="([^"]+)"', shown["text/html"]).groups()
    assert base64.b64decode(data).startswith(b"\x89PNG")
    assert alt == f"Map of the {len(LESSONS)} lessons and how they build on each other."


def test_no_arrow_of_the_map_runs_through_a_box():
    cells = {lesson.id: divmod(place, 4) for place, lesson in enumerate(LESSONS)}
    arrows = [(before, lesson.id) for lesson in LESSONS for before in lesson.prerequisites]
    for (start, end), way in zip(arrows, plots._ways(cells, arrows), strict=True):
        (end_row, end_column), target = way[-1], cells[end]
        assert (way[0], end_row) == (cells[start], target[0])
        assert abs(end_column - target[1]) < 0.3, "an arrow that ends beside its box"
        for (row, column), (to_row, to_column) in pairwise(way):
            assert row == to_row or column == to_column, "a line that is not straight"
            for name, (box_row, box_column) in cells.items():
                across = sorted((column, to_column))
                down = sorted((row, to_row))
                meets = across[0] < box_column + 0.4 and box_column - 0.4 < across[1] + 1e-9
                meets = meets and down[0] < box_row + 0.33 and box_row - 0.33 < down[1] + 1e-9
                assert not meets or name in (start, end), f"{start} to {end} meets {name}"


def test_the_page_is_drawn_anew_at_each_start_and_left_alone_in_between(tmp_path):
    workspace.copy_course(tmp_path)
    before = (tmp_path / HOME).stat()
    workspace.copy_course(tmp_path)
    assert (tmp_path / HOME).stat().st_mtime_ns == before.st_mtime_ns  # or Lab asks about it
    pass_all("amp_in_20_minutes")
    copied = workspace.copy_course(tmp_path)
    assert "Continue here" in page(tmp_path)
    assert (copied.kept, copied.kept_older, copied.kept_beside, copied.foreign) == ([], [], {}, [])


def test_a_page_that_the_learner_ran_and_wrote_on_keeps_their_cells(tmp_path):
    workspace.copy_course(tmp_path)
    notebook = ipynb.read(tmp_path / HOME)
    note = {"cell_type": "markdown", "id": "mine", "metadata": {}, "source": "remember the milk"}
    notebook["cells"].append(note)
    for cell in notebook["cells"]:
        if home.is_drawn(cell):
            cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "old"}]
    (tmp_path / HOME).write_bytes(ipynb.to_bytes(notebook))
    pass_all("amp_in_20_minutes")
    workspace.copy_course(tmp_path)
    assert "remember the milk" in page(tmp_path)
    assert "Continue here" in page(tmp_path)
    assert '"old"' not in (tmp_path / HOME).read_text()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_a_broken_page_is_left_to_the_learner(tmp_path, content):
    workspace.copy_course(tmp_path)
    (tmp_path / HOME).write_bytes(content)
    workspace.copy_course(tmp_path)
    assert (tmp_path / HOME).read_bytes() == content


def test_progress_that_cannot_be_read_draws_an_empty_page(tmp_path, own_progress_file):
    own_progress_file.mkdir()
    (own_progress_file / "progress.json").write_text('{"version": 99, "exercises": {}}')
    workspace.copy_course(tmp_path)
    assert "New here?" in page(tmp_path)


# ---- the cells that call it ---------------------------------------------------------------------


def test_show_draws_the_page_of_this_moment(monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda data, **_: shown.append(data))
    progress.record_lesson("amp_in_20_minutes")
    home.show()
    before, picture, after = shown
    assert "Continue here" in before["text/markdown"]
    finished = rf"You have finished 1 of {len(LESSONS)} .* \(seen at \d\d:\d\d\)"
    assert re.search(finished, before["text/markdown"])
    assert "Done: 00" in picture["text/html"]
    assert "## All lessons" in after["text/markdown"]


class Handle:
    """Stands for what IPython gives for an output, to change it later."""

    def __init__(self, data: dict[str, str]) -> None:
        self.data = data

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.data = data


def test_a_page_that_was_shown_keeps_up_and_one_that_was_replaced_does_not(monkeypatch):
    handles: list[Handle] = []

    def display(data: dict[str, str], **_: object) -> Handle:
        handles.append(Handle(data))
        return handles[-1]

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(home, "SECONDS", 0.01)
    try:
        home.show()
        home.show()
        progress.record_lesson("amp_in_20_minutes")
        text = poll(lambda: handles[3].data["text/markdown"], until=f"finished 1 of {len(LESSONS)}")
        assert "Continue here" in text
        poll(lambda: handles[5].data["text/markdown"], until="1 of 3 done")
        assert "New here?" in handles[0].data["text/markdown"]
        names = [thread.name for thread in threading.enumerate()]
        assert names.count("amp-lessons home") == 1
    finally:
        home._following.set()


def poll(look: Callable[[], str], until: str) -> str:
    return wait_until(lambda: text if until in (text := look()) else "")


def test_finishing_a_lesson_marks_it_and_shows_the_way(capsys):
    progress.record_check("clip_step", "passed")
    home.finished("grad_scaler")
    text = " ".join(capsys.readouterr().out.split())
    assert "Lesson 06 done: GradScaler" in text
    assert f"1 of {len(lesson_called('grad_scaler').exercises)}" in text
    assert "../exercises/06_grad_scaler_exercises.ipynb" in text
    assert "lesson 07, Real training loops (../notebooks/07_training_loops.ipynb)" in text
    first = progress.load().lessons["grad_scaler"]
    home.finished("grad_scaler")
    assert progress.load().lessons["grad_scaler"] == first


def finish(slug: str, capsys) -> str:
    home.finished(slug)
    return " ".join(capsys.readouterr().out.split())


def test_the_end_of_a_lesson_says_what_is_next_on_each_path(capsys):
    text = finish("amp_in_20_minutes", capsys)
    assert "Next in the course: exercises 00" in text
    assert "3-hour path: 04 What autocast does to each op (../notebooks/04_autocast_ops" in text
    assert "1-day path: 02 Three ways numbers break (../notebooks/02_how" in text
    assert "That was the last lesson of the half-hour path." in text
    assert "1-day path, interview path: 07 Real training loops" in finish("grad_scaler", capsys)
    assert "on your path" not in finish("losses_and_ops", capsys)


def test_the_last_lesson_of_a_path_says_so_and_what_was_left_out(capsys):
    text = finish("grad_scaler", capsys)
    assert "last lesson of the 3-hour path (not done yet: 00, 04)." in text
    progress.record_lesson("amp_in_20_minutes")
    progress.record_lesson("autocast_ops")
    assert "last lesson of the 3-hour path, and you have done them all" in finish(
        "grad_scaler", capsys
    )


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.title)
def test_who_follows_the_box_walks_the_whole_path(path):
    walked = [path.lessons[0]]
    while following := path.after(walked[-1]):
        walked.append(following)
    assert tuple(walked) == path.lessons


def test_the_core_exercises_make_a_lesson_done_and_are_counted_at_its_end(capsys):
    lesson = lesson_called("training_loops")
    for info in lesson.core:
        assert state_of(lesson, progress.load()) != "done"
        progress.record_check(info.name, "passed")
    assert state_of(lesson, progress.load()) == "done"
    assert "Core exercises passed: 3 of 3." in finish("training_loops", capsys)


def test_finishing_without_a_disk_says_so_and_goes_on(capsys, own_progress_file):
    own_progress_file.write_text("a file where the folder should be")
    home.finished("memory")
    assert "Progress was not saved" in capsys.readouterr().out


def test_finishing_an_unknown_lesson_is_an_error():
    with pytest.raises(KeyError):
        home.finished("nope")


# ---- its numbers --------------------------------------------------------------------------------


def table(heading: str) -> list[list[str]]:
    """The rows of the table whose heading row begins so, as text."""
    lines = [line.removeprefix("# ") for line in SOURCE.splitlines()]
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def number(text: str) -> float:
    return float("nan") if text == "–" else float(text)


def test_the_table_of_formats_is_what_the_formats_say():
    found = table("format")
    assert len(found) == 6
    for name, bits, *figures in found:
        key = name.replace(" (stored in 32 bits)", "")
        format_ = next(f for f in FORMATS.values() if f.name == key)
        assert bits == f"1, {format_.exponent_bits}, {format_.mantissa_bits}"
        largest, normal, smallest, gap, whole = map(number, figures)
        assert isclose(largest, format_.max, rel_tol=0.01)
        assert isclose(normal, format_.min_normal, rel_tol=0.03)
        assert isnan(smallest) or isclose(smallest, format_.min_subnormal, rel_tol=0.03)
        assert isclose(gap, 2.0**-format_.mantissa_bits, rel_tol=0.01)
        assert whole == 2 ** (format_.mantissa_bits + 1)


def test_the_ends_of_fp16_are_what_torch_gives():
    half = torch.float16
    assert torch.tensor([2.97e-8, 2.99e-8], dtype=half).tolist() == [0.0, 2.0**-24]
    assert torch.tensor([65519.0, 65520.0], dtype=half).tolist() == [65504.0, float("inf")]
    x = torch.tensor([11.0, 11.1], dtype=half)
    assert x.exp().isinf().tolist() == [False, True]
    assert torch.tensor(256.0, dtype=half).square().isinf()
    scaler = torch.amp.GradScaler("cpu")
    assert (scaler.get_scale(), scaler.get_growth_interval()) == (65536.0, 2000)
    assert 2.0**16 * 0.5**17 < 1 <= 2.0**16 * 0.5**16


def test_lost_updates_are_where_the_page_says():
    for dtype, low, high in ((torch.float16, 4096, 2048), (torch.bfloat16, 512, 256)):
        ones, almost_two = torch.tensor([1.0], dtype=dtype), torch.tensor([1.99], dtype=dtype)
        assert (almost_two + almost_two / low / 1.01).item() == almost_two.item()
        assert (ones + ones / high * 1.01).item() > 1
        assert (ones + ones / high / 1.01).item() == 1


def test_the_build_puts_the_course_s_table_of_gpus_on_the_page():
    from test_build import build

    page = build.home_product(ROOT / "sources").notebook
    (cell,) = (cell.source for cell in page.cells if "| GPU |" in cell.source)
    rows = [line for line in cell.split("| GPU |")[1].splitlines() if line.startswith("| ")]
    assert [row.split(" | ")[0] for row in rows[1:]] == [f"| {gpu.name}" for gpu in roofline.GPUS]
    assert "| T4 | 8.1 | – | 65 | – | 320 |" in rows
    assert "[[" not in cell


def test_the_glossary_is_in_order_and_each_term_is_explained():
    terms = re.findall(r"^# ### (.+)\n# (.+)", SOURCE, re.MULTILINE)
    names = [name for name, _ in terms]
    assert len(names) >= 40
    assert names == sorted(names, key=str.lower)
    assert all(len(text) > 20 for _, text in terms)
