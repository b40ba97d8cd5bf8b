"""The README's course map and commands are those of the course."""

from __future__ import annotations

import re
from pathlib import Path

import build_notebooks as build
import pytest

from amp_lessons import plots
from amp_lessons.course import LESSONS, PATHS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.id)
def test_course_map_lists_each_lesson_with_its_minutes(lesson):
    minutes = sum(info.minutes for info in lesson.exercises)
    row = next(line for line in README.splitlines() if f"notebooks/{lesson.id}.ipynb" in line)
    assert f"[{lesson.number:02} {lesson.title}]" in row
    assert f"| {lesson.goal} |" in row
    exercises = f"{len(lesson.exercises)}, {minutes} minutes |" if lesson.exercises else "|"
    assert f"| {lesson.minutes} | {exercises}" in row


def test_course_map_lists_nothing_else():
    assert len(re.findall(r"^\| \[\d\d ", README, re.MULTILINE)) == len(LESSONS)


def test_the_map_tells_the_time_of_the_whole_course():
    lessons = sum(lesson.minutes for lesson in LESSONS)
    exercises = sum(info.minutes for lesson in LESSONS for info in lesson.exercises)
    assert f"{lessons} minutes of lessons and {exercises} minutes of exercises" in README


def test_it_begins_with_the_gain_the_picture_the_commands_and_the_paths():
    order = ["in 20 minutes you have", "docs/curves.png", "make lab", "make test", "## Four paths"]
    places = [README.index(text) for text in order]
    assert places == sorted(places)
    assert places[-1] < README.index("## The course")


def test_the_paths_are_those_of_the_course():
    rows = re.findall(r"^\| \*\*(.+?)\*\* \| (.+?) \| (.+?) \|$", README, re.MULTILINE)
    assert len(rows) == 4
    for (title, goal, lessons), path in zip(rows, PATHS, strict=True):
        assert (title, goal) == (path.title, path.goal)
        assert lessons == ", ".join(f"{lesson.number:02}" for lesson in path.lessons)


def test_it_says_which_paths_count_exercises():
    sheets = [[f"{lesson.number:02}" for lesson in path.sheets] for path in PATHS]
    assert sheets == [[], [], ["02", "07"], ["02"]], "say so in the README, below the paths"
    text = " ".join(README.split())
    assert "The first two times are for the lessons only." in text
    assert "02 and 07 on the third path, 02 on the fourth." in text


def test_the_picture_is_the_plot_of_lesson_00_that_has_its_title():
    stored = (ROOT / LESSONS[0].notebook).read_text(encoding="utf-8")
    same = (ROOT / "docs/curves.png").read_bytes() == build.readme_picture(stored)
    assert same, "make notebooks"


def test_the_picture_shows_what_its_caption_says():
    stored = (ROOT / LESSONS[0].notebook).read_text(encoding="utf-8")
    numbers = build.readme_plot(stored)[plots.CURVES]
    curves = {name: [float(x) for x in text.split()] for name, text in numbers.items()}
    assert "FP32 and mixed precision fall together, FP16 without protection stays flat" in README
    assert set(curves) == {"FP32", "mixed precision", "FP16 without protection"}
    fp32, mixed, flat = (curves[n] for n in ("FP32", "mixed precision", "FP16 without protection"))
    assert fp32[-1] < fp32[0] / 5
    assert mixed == pytest.approx(fp32, rel=0.2)
    assert flat == pytest.approx([fp32[0]] * len(flat), rel=0.01)


def test_without_that_plot_the_build_takes_no_other():
    stored = (ROOT / LESSONS[0].notebook).read_text(encoding="utf-8")
    with pytest.raises(build.BuildError, match="0 plots called"):
        build.readme_picture(stored.replace(build.README_PICTURE, "Another title"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_linked_files_exist(page):
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", text)
    assert targets or page.name != "README.md"
    for target in targets:
        assert (page.parent / target).exists(), target


def test_every_page_of_the_docs_is_linked():
    for page in PAGES[1:]:
        assert f"docs/{page.name}" in README, page.name


def test_commands_in_the_readme_exist():
    from typer.testing import CliRunner

    from amp_lessons.cli import app

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
