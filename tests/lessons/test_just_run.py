"""Which box may take the focus, in a kernel that runs one cell after the other."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest

from amp_lessons.lessons.just_run import JustRun

START = datetime(2026, 3, 2, 9)


class Shell:
    """Runs cells: each shows some boxes, and was sent to the kernel at some second."""

    def __init__(self, cells: JustRun, dated: bool = True) -> None:
        self.cells = cells
        self.hooks: list = []
        self.events = SimpleNamespace(register=lambda _, hook: self.hooks.append(hook))
        self.kernel = SimpleNamespace(get_parent=lambda _: {"header": self.header})
        self.dated = dated

    def run(self, second: float, *boxes: str) -> None:
        self.header = {"date": START + timedelta(seconds=second)} if self.dated else {}
        for hook in self.hooks:
            hook(None)
        for box in boxes:
            self.cells.shows(box, self)


@pytest.fixture(params=[True, False], ids=["with dates", "without"])
def shell(request):
    return Shell(JustRun(), request.param)


def test_a_box_that_has_just_run_is_due_once(shell):
    for second in (0, 60):
        shell.run(second, "box")
        assert shell.cells.is_due("box")
        assert not shell.cells.is_due("box"), "another view of it, or a page that was opened again"


def test_a_box_is_not_due_when_another_cell_has_run(shell):
    shell.run(0, "box")
    shell.run(1)
    assert not shell.cells.is_due("box")


def test_a_box_that_asks_late_takes_nothing_from_the_next(shell):
    shell.run(0, "early")
    shell.run(60, "late")
    assert not shell.cells.is_due("early")
    assert shell.cells.is_due("late")


def test_of_two_boxes_in_a_cell_the_first_is_due(shell):
    shell.run(0, "first", "second")
    assert not shell.cells.is_due("second")
    assert shell.cells.is_due("first")


def test_of_all_cells_at_once_no_later_box_is_due():
    shell = Shell(JustRun())
    shell.run(0, "first")
    shell.run(0.01)
    shell.run(0.02, "last")
    assert not shell.cells.is_due("first")
    assert not shell.cells.is_due("last")
    shell.run(5, "last")
    assert shell.cells.is_due("last")


def test_without_a_notebook_no_box_is_due():
    cells = JustRun()
    cells.shows("box", None)
    assert not cells.is_due("box")
