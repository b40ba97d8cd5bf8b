"""The tool that begins an exercise: what it writes runs, and what it cannot do is one line."""

from __future__ import annotations

import shutil

import check_exercises
import new_exercise
import pytest

from amp_lessons import course
from amp_lessons.checks.exercise import Exercise


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A copy of one topic, so that nothing is written into the course."""
    shutil.copytree(course.EXERCISES / "number_formats", tmp_path / "number_formats")
    monkeypatch.setattr(course, "EXERCISES", tmp_path)
    return tmp_path


def test_a_new_exercise_lacks_only_its_words(shelf, monkeypatch, capsys):
    assert new_exercise.main(["number_formats", "halve", "Halve a number"]) == 0
    told = capsys.readouterr().out
    assert 'add "halve" to the exercises of number_formats in amp_lessons/course.py' in told
    assert "python tools/check_exercises.py halve -v" in told
    exercise = Exercise(shelf / "number_formats" / "halve.py")
    monkeypatch.setattr(check_exercises, "find", lambda name: exercise)
    check_exercises.entries.cache_clear()
    problems = check_exercises.problems("halve")
    check_exercises.entries.cache_clear()
    assert len(problems) == 6
    assert all("still to do: " in problem and "TODO" in problem for problem in problems)
    assert problems[0].startswith("number_formats/halve.py:4:")


@pytest.mark.parametrize(
    ("topic", "name", "message"),
    [
        ("numbers", "halve", "no topic is called 'numbers': take one of number_formats, or begin"),
        ("number_formats", "next_float", "an exercise called next_float exists"),
        ("number_formats", "mend_stuck", "an exercise called mend_stuck exists"),
        ("number_formats", "two words", "'two words' cannot name a function"),
        ("number_formats", "lambda", "'lambda' cannot name a function"),
        ("number_formats", "../x", "'../x' cannot name a function"),
    ],
)
def test_what_cannot_be_begun_is_one_line(shelf, capsys, topic, name, message):
    before = sorted(shelf.rglob("*"))
    assert new_exercise.main([topic, name, "A title"]) == 2
    told = capsys.readouterr().err
    assert message in told
    assert told.count("\n") == 1
    assert sorted(shelf.rglob("*")) == before
