"""The tool that begins an exercise: what it writes runs, and what it cannot do is one line."""

from __future__ import annotations

import shutil

import check_exercises
import new_exercise
import pytest

from amp_lessons.core import catalogue


@pytest.fixture
def shelf(tmp_path, monkeypatch):
    """A copy of one topic, so that nothing is written into the course."""
    shutil.copytree(catalogue.EXERCISES / "number_formats", tmp_path / "number_formats")
    monkeypatch.setattr(catalogue, "EXERCISES", tmp_path)
    return tmp_path


def test_a_new_exercise_lacks_its_words_and_its_place(shelf, capsys):
    assert new_exercise.main(["number_formats", "halve", "Halve a number"]) == 0
    output = capsys.readouterr().out
    assert (
        'add "halve" to the exercises of number_formats in amp_lessons/core/catalogue.py' in output
    )
    assert ".venv/bin/python tools/check_exercises.py halve -v" in output
    assert check_exercises.main(["halve", "-v"]) == 1
    output = capsys.readouterr().out
    assert output.count("  ok  sign-lost: ") == 3
    place, *words, _ = [line for line in output.splitlines() if line[0] != " "][1:]
    assert place == (
        "number_formats/halve.py: not in the course yet; add 'halve' to the exercises of "
        "number_formats in amp_lessons/core/catalogue.py."
    )
    assert len(words) == 6
    assert all("still to do: " in problem and "TODO" in problem for problem in words)
    assert words[0].startswith("number_formats/halve.py:4:")


def test_a_file_that_cannot_be_read_is_one_problem(shelf, capsys):
    assert new_exercise.main(["number_formats", "lessen", "Make a number smaller"]) == 0
    file = shelf / "number_formats" / "lessen.py"
    file.write_text(file.read_text().replace("# %% wrong sign-lost", "# %% wrong"))
    capsys.readouterr()
    assert check_exercises.main(["lessen", "-v"]) == 1
    output = capsys.readouterr().out
    assert "lessen.py:29: give it a name of its own, as in '# %% wrong NAME'." in output


@pytest.mark.parametrize(
    ("name", "cure"),
    [("stop_snking", "did you mean stop_sinking?"), ("xyz", "begin one with tools/new_exercise")],
)
def test_an_unknown_exercise_is_one_line_with_a_cure(capsys, name, cure):
    assert check_exercises.main([name]) == 2
    output = capsys.readouterr().err
    assert output.startswith(f"no exercise is called '{name}'; {cure}")
    assert output.count("\n") == 1


@pytest.mark.parametrize(
    ("topic", "name", "message"),
    [
        ("numbers", "halve", "no topic is called 'numbers': take one of number_formats, or begin"),
        ("number_formats", "next_float", "an exercise called next_float exists"),
        ("number_formats", "two words", "'two words' cannot name a function"),
        ("number_formats", "lambda", "'lambda' cannot name a function"),
        ("number_formats", "../x", "'../x' cannot name a function"),
    ],
)
def test_what_cannot_be_begun_is_one_line(shelf, capsys, topic, name, message):
    before = sorted(shelf.rglob("*"))
    assert new_exercise.main([topic, name, "A title"]) == 2
    output = capsys.readouterr().err
    assert message in output
    assert output.count("\n") == 1
    assert sorted(shelf.rglob("*")) == before
