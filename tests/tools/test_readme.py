"""The README's course map and commands are those of the course."""

from __future__ import annotations

import io
import pydoc
import re
from pathlib import Path

import build_notebooks as build
import numpy as np
import readme
from PIL import Image

from amp_lessons.core.catalogue import LESSONS, PATHS, lesson_called
from amp_lessons.lessons.widgets.loss_scale_picture import STOPS, loss_scale_picture
from amp_lessons.lessons.widgets.loss_scale_runs import run_at, trains

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_its_tables_are_those_of_the_course():
    assert readme.written(README) == README, "run python tools/readme.py"


def test_the_map_has_each_lesson_and_the_time_of_the_whole_course():
    text = readme.course_map()
    lesson = lesson_called("number_formats")
    (row,) = [line for line in text.splitlines() if lesson.notebook in line]
    minutes = sum(info.minutes for info in lesson.core)
    assert f"[{lesson.number:02} {lesson.title}]" in row
    assert f"| {lesson.goal} | {lesson.minutes} | {len(lesson.core)}, {minutes} min" in row
    assert len(re.findall(r"^\| \[\d\d ", text, re.MULTILINE)) == len(LESSONS)
    assert f"{sum(each.minutes for each in LESSONS)} minutes of lessons" in text


def test_each_path_is_told_with_its_lessons_and_minutes():
    path = PATHS[-1]
    (row,) = [line for line in readme.paths().splitlines() if f"**{path.title}**" in line]
    lessons, minutes = (cell.strip() for cell in row.split("|")[3:5])
    assert lessons == ", ".join(f"{lesson.number:02}" for lesson in path.lessons)
    assert minutes == str(path.minutes)


def test_a_stale_table_is_written_again_and_the_rest_is_left_alone(tmp_path, monkeypatch, capsys):
    page = tmp_path / "README.md"
    page.write_text(README.replace("minutes of lessons and", "hours, and"))
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    assert readme.main([]) == 0
    assert page.read_text() == README
    assert capsys.readouterr().out == "wrote README.md\n"
    assert readme.main([]) == 0
    assert capsys.readouterr().out == ""


def test_a_readme_without_the_comments_is_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "README.md").write_text("# AMP Lessons\n")
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    assert readme.main([]) == 1
    output = capsys.readouterr().err
    assert output.startswith("README.md needs the lines <!-- paths: ")
    assert output.count("\n") == 1


def test_it_begins_with_the_gain_the_picture_the_commands_and_the_paths():
    order = [
        "in 20 minutes you have",
        "docs/loss_scale.png",
        "make lab",
        "make test",
        "## Paths through",
    ]
    places = [README.index(text) for text in order]
    assert places == sorted(places)
    assert places[-1] < README.index("## The course")


def test_the_picture_is_drawn_from_the_recorded_runs():
    """By what it shows: another CPU may place a letter a pixel further."""
    with (
        Image.open(build.README_PICTURE) as stored,
        Image.open(io.BytesIO(loss_scale_picture().png)) as drawn,
    ):
        assert stored.size == drawn.size, "python tools/build_notebooks.py 00"
        apart = np.subtract(*(np.asarray(each.convert("L"), float) for each in (stored, drawn)))
    assert np.abs(apart).mean() < 1, "python tools/build_notebooks.py 00"


def test_the_picture_shows_what_its_text_says():
    (text,) = re.findall(r"!\[(.*?)\]\(docs/loss_scale\.png\)", README)
    for part in ("at 1 every gradient becomes 0", "at 65,536 as well as FP32", "at 2^33 it breaks"):
        assert part in text
    flat, bad, good, broken = (run_at(exponent) for exponent in STOPS)
    assert [2 ** run["exponent"] for run in (flat, bad, good, broken)] == [1, 4, 65_536, 2**33]
    assert flat["errors"][-1] == flat["errors"][0]
    assert trains(good)
    assert not trains(bad)
    assert good["errors"][-1] < bad["errors"][-1] < flat["errors"][-1]
    assert len(broken["errors"]) < len(good["errors"])  # they end at the first inf or NaN


def test_linked_files_exist(subtests):
    for page in PAGES:
        with subtests.test(page.name):
            text = page.read_text(encoding="utf-8")
            targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
            assert targets or page.name != "README.md"
            for target in targets:
                assert (page.parent / target).exists(), target


def test_linked_headings_exist(subtests):
    """A part of a page, as GitHub names it: small letters, hyphens, and no other signs."""
    link = re.compile(r"\]\((?!https?:)([^)#]*\.md)?#([^)]+)\)")
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md"]:
        for name, part in link.findall(page.read_text(encoding="utf-8")):
            with subtests.test(page.name, part=part):
                text = (page.parent / name if name else page).read_text(encoding="utf-8")
                headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
                plain = (re.sub(r"[^\w -]", "", heading.lower()) for heading in headings)
                assert part in {words.replace(" ", "-") for words in plain}


def test_there_are_at_most_twelve_pages_and_one_for_a_class():
    assert len(PAGES[1:]) <= 12
    assert len((ROOT / "docs" / "classroom.md").read_text(encoding="utf-8").split()) <= 1_600


def test_the_page_for_a_model_is_one_to_read_and_says_where_the_rest_is():
    page = (ROOT / "docs" / "your_model.md").read_text(encoding="utf-8")
    assert len(page.split()) <= 3_000
    named = re.findall(r"(?:pydoc|…) (amp_lessons[\w.]+)", page)
    assert len(named) >= 6
    for name in named:
        assert len(pydoc.render_doc(name)) > 1_000, name


def test_every_page_of_the_docs_is_two_clicks_away():
    near = set(re.findall(r"\]\(docs/(\w+\.md)", README))
    texts = [(ROOT / "docs" / name).read_text(encoding="utf-8") for name in sorted(near)]
    found = near | {name for text in texts for name in re.findall(r"\]\((\w+\.md)", text)}
    assert found >= {page.name for page in PAGES[1:]}


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 90


def test_commands_in_the_readme_exist():
    from typer.testing import CliRunner

    from amp_lessons.app.cli import app

    commands = set(re.findall(r"^ {4}amp-lessons (\w+)", README, re.MULTILINE))
    assert len(commands) >= 5
    for command in commands:
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0, command


def test_make_targets_in_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"(?:`|^ {4})make ([\w-]+)", text, re.MULTILINE))
    assert {"lab", "test", "test-long", "notebooks"} <= named
    for target in named:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
