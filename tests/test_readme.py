"""The README's course map and commands are those of the course."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from amp_lessons.course import LESSONS

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("lesson", LESSONS, ids=lambda lesson: lesson.id)
def test_course_map_lists_each_lesson_with_its_minutes(lesson):
    minutes = sum(info.minutes for info in lesson.exercises)
    row = next(line for line in README.splitlines() if f"notebooks/{lesson.id}.ipynb" in line)
    assert f"[{lesson.number:02} {lesson.title}]" in row
    assert f"| {lesson.minutes} | {len(lesson.exercises)}, {minutes} minutes |" in row


def test_course_map_lists_nothing_else():
    assert len(re.findall(r"^\| \[\d\d ", README, re.MULTILINE)) == len(LESSONS)


def test_the_map_tells_the_time_of_the_whole_course():
    lessons = sum(lesson.minutes for lesson in LESSONS)
    exercises = sum(info.minutes for lesson in LESSONS for info in lesson.exercises)
    assert f"{lessons} minutes of lessons and {exercises} minutes of exercises" in README


def test_linked_files_exist():
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert len(targets) > len(LESSONS)
    for target in targets:
        assert (ROOT / target).exists(), target


def test_commands_in_the_readme_exist():
    from typer.testing import CliRunner

    from amp_lessons.cli import app

    commands = set(re.findall(r"^ {4}amp-lessons (\w+)", README, re.MULTILINE))
    assert len(commands) >= 5
    for command in commands:
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0, command


def test_make_targets_in_the_readme_exist():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"make (\w+)", README)) - {"and"}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
