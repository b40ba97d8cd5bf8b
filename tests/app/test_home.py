"""The home page: drawn from saved progress, readable before any cell has run, never in the way."""

from __future__ import annotations

import html
import re
import threading
from collections.abc import Callable, Iterator
from math import isclose, isnan
from pathlib import Path
from typing import Any

import build_notebooks as build
import nbformat
import pytest
import torch
from waiting import wait_until

from amp_lessons.amp import roofline
from amp_lessons.amp.numbers.formats import FORMATS
from amp_lessons.app import cards, home, workspace
from amp_lessons.core import ipynb, progress
from amp_lessons.core.catalogue import HOME, LESSONS, PATHS, find_path, lesson_called
from amp_lessons.core.progress import Progress

ROOT = Path(__file__).resolve().parents[2]
SOURCE = (ROOT / "sources/home.py").read_text(encoding="utf-8")
EXERCISES = [info for lesson in LESSONS for info in lesson.exercises]


def page(folder: Path) -> str:
    """The home page of a workspace, as a reader sees it before any cell has run: its text, with
    each link as [text](address)."""
    cells = ipynb.read(folder / HOME)["cells"]
    texts = [ipynb.source_of(cell) for cell in cells if cell["cell_type"] == "markdown"]
    return "\n".join([*texts, *map(as_text, drawn_html(folder))])


def drawn_html(folder: Path) -> list[str]:
    """The HTML that is stored with the drawn cells: what is next, paths, the lab, lessons."""
    return [
        output["data"]["text/html"] for cell in drawn_cells(folder) for output in cell["outputs"]
    ]


def drawn_cells(folder: Path) -> list[ipynb.Cell]:
    return [cell for cell in ipynb.read(folder / HOME)["cells"] if home.is_drawn(cell)]


def as_text(markup: str) -> str:
    """HTML as text, a line a block."""
    markup = re.sub(r"<style>.*?</style>", "", markup, flags=re.DOTALL)
    markup = re.sub(r'<a [^>]*href="([^"]+)"[^>]*>(.*?)</a>', r"[\2](\1)", markup)
    markup = re.sub(r"<h2>", "\n## ", markup)
    return html.unescape(re.sub(r"<[^>]+>", "", re.sub(r"</(p|li|h2)>", "\n", markup)))


def card(text: str, title: str) -> str:
    """The lines of one lesson's card."""
    start = text.index(f"[{title}]")
    return text[start:].split("\n\n")[0]


def pass_all(slug: str) -> None:
    for info in lesson_called(slug).exercises:
        progress.record_check(info.name, "passed")


# ---- the page -----------------------------------------------------------------------------------


def test_the_page_of_somebody_new(tmp_path):
    workspace.copy_course(tmp_path)
    text = page(tmp_path)
    assert "[Start: lesson 00, AMP in 20 minutes](00_amp_in_20_minutes.ipynb)" in text
    assert "Continue" not in text
    assert "".join(drawn_html(tmp_path)).count('amp-go"') == 1


def test_the_page_of_somebody_new_says_nothing_that_a_first_lesson_makes_false(tmp_path):
    """Where nothing runs the page, it stays on the screen while they work in another tab."""
    workspace.copy_course(tmp_path)
    text = page(tmp_path)
    assert not re.search(r"\b0 of \d|finished|✔|◐|○|[Nn]ot started|Next", text)
    first = LESSONS[0]
    count, minutes = len(first.core), sum(info.minutes for info in first.core)
    plural = "s" if count > 1 else ""
    assert f"[{count} core exercise{plural}](../{first.sheet}), {minutes} min" in text


def test_each_lesson_has_one_card_with_links_to_all_its_notebooks(tmp_path):
    workspace.copy_course(tmp_path)
    text = as_text(drawn_html(tmp_path)[-1])
    for lesson in LESSONS:
        title = f"{lesson.number:02} {lesson.title}"
        assert text.count(f"[{title}]") == 1
        shown = card(text, title)
        assert lesson.goal[1:] in shown
        assert f"{lesson.minutes} min" in shown
        for to, there in (
            (lesson.notebook.removeprefix("notebooks/"), True),
            (f"../{lesson.sheet}", lesson.exercises),
            (lesson.deep_notebook.removeprefix("notebooks/"), lesson.deep),
        ):
            assert (f"]({to})" in shown) == bool(there)


def test_a_page_that_is_stored_says_of_which_moment_it_speaks_and_how_to_run_it(tmp_path):
    progress.record_lesson("amp_in_20_minutes")
    workspace.copy_course(tmp_path)
    finished = f"When you opened the course, you had finished 1 of {len(LESSONS)} lessons"
    text = page(tmp_path)
    assert finished in text
    assert "Run > Run All Cells" in text


def test_the_stored_page_of_the_course_is_that_of_somebody_new():
    stored = nbformat.read(ROOT / HOME, as_version=4)
    for cell in stored.cells:
        if home.is_drawn(cell):
            cell.execution_count = None
    assert home.drawn(stored, Progress()) == stored, "make notebooks, then commit"


def test_the_page_of_somebody_halfway(tmp_path):
    pass_all("amp_in_20_minutes")
    progress.record_lesson("number_formats")
    progress.record_check("choose_format", "passed")
    progress.record_check("kahan_sum", "wrong")
    workspace.copy_course(tmp_path)
    text = page(tmp_path)
    assert "[Continue: lesson 02, Three ways numbers break](02_how_numbers_break.ipynb)" in text
    assert f"finished 2 of {len(LESSONS)} lessons and passed 2 of {len(EXERCISES)} exer" in text
    first, second = (lesson_called(slug) for slug in ("number_formats", "how_numbers_break"))
    assert "✔ Done" in card(text, "00 AMP in 20 minutes")
    assert "✔ Done" in (of_first := card(text, "01 Number formats"))
    assert f"[1 of {len(first.core)} core exercises passed](../{first.sheet})" in of_first
    assert "◐ Started" in (of_second := card(text, "02 Three ways numbers break"))
    minutes = sum(info.minutes for info in second.core)
    link = f"[0 of {len(second.core)} core exercises passed](../{second.sheet})"
    assert f"{link}, {minutes} min, and 2 more" in of_second
    assert "○ Not started" in card(text, "03 AMP from scratch")
    assert text.count("Next") == 1


def test_the_chosen_path_comes_first_and_leads(tmp_path):
    progress.record_lesson("amp_in_20_minutes")
    pass_all("amp_in_20_minutes")
    progress.choose_path("1-day")
    workspace.copy_course(tmp_path)
    text = page(tmp_path)
    assert "[Continue: lesson 02, Three ways numbers break]" in text
    assert "You follow the 1-day path, and 1 of its 6 lessons are done." in text
    assert text.count("Your path\n") == 1
    lessons = as_text(drawn_html(tmp_path)[-1])
    assert re.findall(r"^## (.+)$", lessons, re.MULTILINE) == ["Your path: 1 day", "More lessons"]
    path = find_path("1-day")
    rest = [lesson for lesson in LESSONS if lesson not in path.lessons]
    places = [lessons.index(f"[{each.number:02} {each.title}]") for each in (*path.lessons, *rest)]
    assert places == sorted(places)
    assert lessons.count("Next") == 1
    assert "Next · Morning\n[02 Three ways numbers break]" in lessons


def test_each_path_can_be_chosen_and_none(tmp_path):
    options = cards.path_options()
    assert [option["key"] for option in options] == [*(path.key for path in PATHS), ""]
    for path, option in zip(PATHS, options, strict=False):
        assert (option["title"], option["goal"]) == (path.title, f"{path.goal}.")
        core = sum(len(lesson.core) for lesson in path.lessons)
        assert f"{core} core exercise" in option["time"]
    assert options[0]["time"] == "1 lesson, 1 core exercise, 25 minutes"
    assert f"{len(LESSONS)} lessons" in options[-1]["time"]


def test_the_page_is_drawn_anew_at_each_start_and_left_alone_in_between(tmp_path):
    workspace.copy_course(tmp_path)
    before = (tmp_path / HOME).stat()
    workspace.copy_course(tmp_path)
    assert (tmp_path / HOME).stat().st_mtime_ns == before.st_mtime_ns  # or Lab asks about it
    pass_all("amp_in_20_minutes")
    copied = workspace.copy_course(tmp_path)
    assert "[Continue: lesson 01" in page(tmp_path)
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
    assert "[Continue: lesson 01" in page(tmp_path)
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
    assert "[Start: lesson 00" in page(tmp_path)


# ---- the cells that call it ---------------------------------------------------------------------


class Shown:
    """What a cell shows, in IPython's place. Each output can be changed later."""

    def __init__(self, data: dict[str, str]) -> None:
        self.data = data

    def update(self, data: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.data = data

    @property
    def text(self) -> str:
        return as_text(self.data["text/html"])


@pytest.fixture
def shown(monkeypatch) -> Iterator[list[Any]]:
    """What the page's cells show: a `Shown` for each output, and the widget of the paths."""
    outputs: list[Any] = []

    def display(data: Any, **_: object) -> Shown | None:
        outputs.append(Shown(data) if isinstance(data, dict) else data)
        return outputs[-1] if isinstance(data, dict) else None

    monkeypatch.setattr("IPython.display.display", display)
    monkeypatch.setattr(home, "SECONDS", 0.01)
    monkeypatch.setattr(home, "_page", home._Page())
    yield outputs
    home._page.end()


def test_show_draws_the_page_of_this_moment(shown):
    progress.record_lesson("amp_in_20_minutes")
    home.show()
    home.show_lessons()
    start, choice, lessons = shown
    assert "[Continue: lesson 01, Number formats]" in start.text
    assert f"You have finished 1 of {len(LESSONS)} lessons" in start.text
    assert "Run All Cells" not in start.text
    assert choice.chosen == ""
    assert "## Lessons" in lessons.text


def test_a_page_that_was_shown_keeps_up_and_one_that_was_replaced_does_not(shown):
    home.show()
    home.show()
    home.show_lessons()
    old, _, new, _, lessons = shown
    progress.record_lesson("amp_in_20_minutes")
    assert "Continue" in poll(lambda: new.text, until=f"finished 1 of {len(LESSONS)}")
    poll(lambda: lessons.text, until="✔ Done")
    assert "Start: lesson 00" in old.text
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("amp-lessons home") == 1


def test_a_choice_on_the_page_is_kept_and_changes_the_page_at_once(shown):
    pass_all("amp_in_20_minutes")
    home.show()
    home.show_lessons()
    start, choice, lessons = shown
    choice.choose("3-hour")
    assert progress.load().path == "3-hour"
    assert "[Continue: lesson 04," in start.text
    assert "## Your path: 3 hours" in lessons.text
    choice.choose("")
    assert progress.load().path is None
    assert "[Continue: lesson 01," in start.text
    assert "## Lessons" in lessons.text


def test_a_choice_made_elsewhere_shows_on_the_page(shown):
    home.show()
    progress.choose_path("interview")
    poll(lambda: shown[1].chosen, until="interview")


def test_a_choice_that_cannot_be_saved_says_so(shown, own_progress_file):
    home.show()
    own_progress_file.write_text("a file where the folder should be")
    shown[1].choose("1-day")
    assert "not saved" in shown[1].problem
    assert shown[1].chosen == ""


def test_a_choice_of_no_path_that_there_is_is_refused(shown):
    home.show()
    with pytest.raises(ValueError, match="nope"):
        shown[1].choose("nope")
    assert progress.load().path is None


def test_where_no_widget_can_be_drawn_the_paths_are_a_list(shown):
    home.show()
    data, _ = shown[1]._repr_mimebundle_()
    assert all(path.goal in as_text(data["text/html"]) for path in PATHS)


def poll(look: Callable[[], str], until: str) -> str:
    return wait_until(lambda: text if until in (text := look()) else "")


def test_finishing_a_lesson_marks_it_and_shows_the_way(capsys):
    progress.record_check("clip_step", "passed")
    home.finished("grad_scaler")
    text = " ".join(capsys.readouterr().out.split())
    assert "Lesson 06 done: GradScaler" in text
    assert f"Core exercises passed: 1 of {len(lesson_called('grad_scaler').core)}." in text
    assert "../exercises/06_grad_scaler_exercises.ipynb" in text
    assert "lesson 07, Real training loops (../notebooks/07_training_loops.ipynb)" in text
    first = progress.load().lessons["grad_scaler"]
    home.finished("grad_scaler")
    assert progress.load().lessons["grad_scaler"] == first


def finish(slug: str, capsys) -> str:
    home.finished(slug)
    return " ".join(capsys.readouterr().out.split())


def test_the_end_of_a_lesson_says_what_is_next_in_the_course(capsys):
    text = finish("amp_in_20_minutes", capsys)
    assert "Next: exercises 00 (../exercises/00" in text
    assert "lesson 01, Number formats (../notebooks/01_number" in text
    assert "path" not in text.replace("path:", "")


def test_the_end_of_a_lesson_says_what_is_next_on_the_chosen_path(capsys):
    progress.choose_path("1-day")
    text = finish("amp_in_20_minutes", capsys)
    assert "Next on the 1-day path: exercises 00, AMP in 20 minutes (../exercises/00" in text
    assert "lesson 02, Three ways numbers break (../notebooks/02" in text
    assert "lesson 01" not in text
    pass_all("amp_in_20_minutes")
    text = finish("amp_in_20_minutes", capsys)
    assert "Next on the 1-day path: lesson 02, Three ways numbers break" in text
    assert "To practise this lesson: exercises 00" in text
    # A lesson off the path leads back to it.
    assert "Next on the 1-day path: lesson 02" in finish("losses_and_ops", capsys)


def test_the_last_step_of_a_path_says_so_and_leads_on_in_the_course(capsys):
    progress.choose_path("half-hour")
    pass_all("amp_in_20_minutes")
    text = finish("amp_in_20_minutes", capsys)
    assert "You have finished the half-hour path." in text
    assert "Next in the course: lesson 01, Number formats" in text


def test_the_last_lesson_of_a_path_leads_back_to_what_was_left_out(capsys):
    progress.choose_path("3-hour")
    pass_all("grad_scaler")
    assert "Next on the 3-hour path: lesson 00" in finish("grad_scaler", capsys)


def test_a_path_goes_on_past_core_exercises_that_passed_or_were_given_up(capsys):
    progress.choose_path("1-day")
    first, *others = lesson_called("training_loops").core
    text = finish("training_loops", capsys)
    assert "1-day path: exercises 07" in text
    assert "To practise" not in text
    progress.record_check(first.name, "passed")
    assert "1-day path: exercises 07" in finish("training_loops", capsys)
    for info in others:
        progress.record_give_up(info.name)
    text = finish("training_loops", capsys)
    assert "1-day path: lesson 00" in text
    assert "Core exercises passed: 1 of 3." in text
    assert "To practise this lesson: exercises 07" in text


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
