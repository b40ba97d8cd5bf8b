"""The buttons below a verdict: hints one at a time, and a solution that asks before it gives up."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from amp_lessons.core import output_box, progress
from amp_lessons.exercises.checks import find_exercise
from amp_lessons.exercises.checks.help_buttons import HelpButtons

NAME = "next_float"


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setenv("AMP_LESSONS_HOME", str(tmp_path))


@pytest.fixture
def in_shell(monkeypatch):
    """Cells run as if a request came with this metadata."""

    def in_shell_(**metadata):
        parent = {"metadata": metadata}
        kernel = SimpleNamespace(get_parent=lambda _: parent)
        monkeypatch.setattr(output_box, "_notebook", lambda: SimpleNamespace(kernel=kernel))
        drawn = []
        monkeypatch.setattr("IPython.display.display", lambda shown, **_: drawn.append(shown))
        return drawn

    return in_shell_


def test_buttons_stand_below_a_verdict_in_a_page(in_shell):
    drawn = in_shell(cellId="a cell")
    find_exercise(NAME).check(lambda x: None)
    box, buttons = drawn
    assert "text/html" in box
    assert isinstance(buttons, HelpButtons)


def test_where_a_program_runs_the_cell_there_are_none(in_shell, capsys, monkeypatch):
    drawn = in_shell()
    find_exercise(NAME).check(lambda x: None)
    assert len(drawn) == 1
    monkeypatch.undo()
    find_exercise(NAME).check(lambda x: None)
    assert "hint()" in capsys.readouterr().out


def test_hints_come_one_at_a_time():
    exercise = find_exercise(NAME)
    buttons = HelpButtons(exercise)
    for number, _ in enumerate(exercise.hints, 1):
        assert buttons.more_hints
        buttons._on_message(buttons, "hint", [])
        assert len(buttons.shown) == number
        assert f"Hint {number} of {len(exercise.hints)}" in buttons.shown[-1]
    assert not buttons.more_hints
    assert progress.load()[NAME].hints == len(exercise.hints)
    buttons.hint()
    assert len(buttons.shown) == len(exercise.hints), "the last hint again is no new one"


def test_the_solution_gives_up_once():
    buttons = HelpButtons(find_exercise(NAME))
    assert buttons.gives_up
    buttons._on_message(buttons, "solution", [])
    assert "Solution" in buttons.shown[-1]
    assert progress.load()[NAME].gave_up_at
    assert not buttons.gives_up
    assert not HelpButtons(find_exercise(NAME)).gives_up


def test_after_a_pass_the_solution_is_open():
    progress.record_check(NAME, "passed")
    buttons = HelpButtons(find_exercise(NAME))
    assert not buttons.gives_up
    buttons.solution()
    assert progress.load()[NAME].gave_up_at is None


def test_nothing_is_shown_but_the_buttons():
    data, _ = HelpButtons(find_exercise(NAME))._repr_mimebundle_()
    assert data["text/plain"] == ""
    assert "application/vnd.jupyter.widget-view+json" in data
