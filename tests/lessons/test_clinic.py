"""The clinic leaves nothing out: each pitfall has its cell, is triggered there, and fixed or cited.

The notebook is read as it is stored, so what is tested is what a learner sees; nbval runs it.
"""

from __future__ import annotations

import copy
import re
from functools import cache
from pathlib import Path

import nbformat
import pytest
from sections import PRIMARY, printed, sections

from amp_lessons.amp.errors import catalogue
from amp_lessons.core.catalogue import lesson_called
from amp_lessons.exercises.checks import find_exercise
from amp_lessons.exercises.checks.authoring.exercise_parser import read_cells
from amp_lessons.lessons.clinic import (
    BY_NUMBER,
    IN_THE_LESSON,
    PITFALLS,
    SECTIONS,
    Clinic,
    Disagreement,
    table,
)

ROOT = Path(__file__).resolve().parents[2]


@cache
def notebook() -> nbformat.NotebookNode:
    """The notebook that goes deeper, where each pitfall has its place."""
    return nbformat.read(ROOT / lesson_called("clinic").deep_notebook, as_version=4)


@cache
def lesson() -> nbformat.NotebookNode:
    return nbformat.read(ROOT / lesson_called("clinic").notebook, as_version=4)


def untreated(lesson: nbformat.NotebookNode) -> list[int]:
    """The pitfalls without a cell of their own that triggers and fixes them, or cites them."""
    under, missing = sections(lesson), []
    for pitfall in PITFALLS:
        cells = under.get(pitfall.heading, [])
        text = printed(cells)
        if pitfall.shown == "cited":
            done = f"Pitfall {pitfall.number} is cited: {pitfall.entry.links[0]}\n" in text
        else:
            shown = re.search(rf"Pitfall {pitfall.number} (says|shows): \S", text)
            done = shown is not None and "Fixed by: " in text[shown.start() :]
            if done and not pitfall.silent:
                done = any(map(pitfall.says, text.splitlines()))
        if not done:
            missing.append(pitfall.number)
    return missing


# ---- the catalogue ------------------------------------------------------------------------------


def test_the_catalogue_is_whole_and_in_order():
    assert [pitfall.number for pitfall in PITFALLS] == list(range(1, 31))
    assert {pitfall.section for pitfall in PITFALLS} == set(SECTIONS)


def test_each_pitfall_has_an_entry_and_what_is_cited_has_a_primary_source(subtests):
    for pitfall in PITFALLS:
        with subtests.test(f"pitfall {pitfall.number}"):
            for name in pitfall.ids:
                catalogue.entry(name)
            if pitfall.shown == "cited":
                assert pitfall.entry.links[0].startswith(PRIMARY)
    main = [pitfall.ids[0] for pitfall in PITFALLS] + [name for name, _ in IN_THE_LESSON]
    assert len(set(main)) == len(main)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (8, "RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float"),
        (8, "RuntimeError: expected m1 and m2 to have the same dtype, but got: float != c10::Half"),
        (9, "RuntimeError: scatter(): Expected self.dtype to be equal to src.dtype"),
        (9, "index_copy_(): self and source expected to have the same dtype, but got (self) Float"
            " and (source) Half"),
        (29, "TypeError: got unsupported scalartype bfloat16"),
    ],
)  # fmt: skip
def test_a_pitfall_knows_its_messages_and_no_others(number, message):
    assert BY_NUMBER[number].says(message)
    assert not BY_NUMBER[number].says("RuntimeError: shape '[2]' is invalid for input")


def test_the_table_takes_its_words_from_the_catalogue():
    rows = table().splitlines()[2:]
    assert len(rows) == len(IN_THE_LESSON) + len(PITFALLS)
    entries = [catalogue.entry(name) for name, _ in IN_THE_LESSON]
    for row, entry in zip(rows, [*entries, *(p.entry for p in PITFALLS)], strict=True):
        seen, _, fix, name = row.strip("| ").split(" | ")
        assert (seen.strip("`"), fix, name.strip("`")) == (entry.title, entry.fix, entry.id)


# ---- the notebook -------------------------------------------------------------------------------


def test_the_table_is_there_before_anything_has_run():
    (cell,) = [cell for cell in lesson().cells if table() in cell.source]
    assert cell.cell_type == "markdown"


def test_each_pitfall_is_triggered_and_fixed_or_cited():
    assert untreated(notebook()) == []


@pytest.mark.parametrize("number", [1, 5, 7, 30])
def test_a_lost_cell_is_noticed(number):
    lesson = copy.deepcopy(notebook())
    call = re.compile(rf"clinic\.(read|notice|cite)\({number}\b")
    lesson.cells = [c for c in lesson.cells if not call.search(c.source)]
    assert untreated(lesson) == [number]


def test_each_pitfall_stands_in_its_section():
    order = list(sections(notebook()))
    groups = [heading for heading in order if heading in SECTIONS]
    assert groups == list(SECTIONS)
    for pitfall in PITFALLS:
        before = [h for h in groups if order.index(h) < order.index(pitfall.heading)]
        assert before[-1] == pitfall.section


# ---- the record ---------------------------------------------------------------------------------


def test_clinic_refuses_another_message_and_a_symptom_that_is_not_there(capsys):
    clinic = Clinic()
    with pytest.raises(Disagreement, match="not recognised"):
        clinic.read(1, "RuntimeError: something else")
    with pytest.raises(Disagreement, match="not recognised"):
        clinic.read(5, "a message, from a pitfall that gives none")
    with pytest.raises(Disagreement, match="did not show"):
        clinic.notice(5, "a frozen loss", present=False)
    with pytest.raises(Disagreement, match="must be triggered before"):
        clinic.fix(5, "a cure", works=True)
    clinic.notice(5, "a frozen loss", present=True)
    with pytest.raises(Disagreement, match="not fixed"):
        clinic.fix(5, "a cure", works=False)
    for unknown in (clinic.cite, lambda n: clinic.read(n, "")):
        with pytest.raises(KeyError):
            unknown(31)


def test_clinic_reads_out_the_line_that_it_knows_and_cuts_a_long_one_short(capsys):
    clinic = Clinic()
    clinic.read(8, "UserWarning: look out\nRuntimeError: mat1 and mat2 must have the same dtype")
    clinic.read(29, "TypeError: Got unsupported ScalarType BFloat16" + " and more" * 50)
    first, second = capsys.readouterr().out.splitlines()
    assert first == "Pitfall 8 says: RuntimeError: mat1 and mat2 must have the same dtype"
    assert second.endswith(" …")
    assert len(second) < 200


# ---- the exercises ------------------------------------------------------------------------------

SHOWN = {
    "fix_ported": "asked for a scale of 1024.0, got 65536.0",
    "fix_step": r"Adam largest .*: 0\.\d+\nSGD largest .*: \d{2,}\.",
    "fix_lora": "ValueError: Attempting to unscale FP16 gradients",
    "fix_scatter": "RuntimeError: Index put requires the source and destination dtypes match",
    "fix_positions": "FP32, different rows: 8\nBF16, different rows: 1\n",
    "fix_statistics": r"weights finite: True\ntrain mode: \d\.\d+\neval mode:  nan",
}


@pytest.mark.parametrize("name", SHOWN)
def test_the_broken_program_shows_its_fault(name, capsys):
    path = find_exercise(name).path
    names: dict[str, object] = {}
    for cell in [*read_cells(path.with_name("sheet.py")), *read_cells(path)]:
        if cell.kind in ("given", "demo"):
            exec(compile(cell.code, str(path), "exec"), names)
    assert re.search(SHOWN[name], capsys.readouterr().out)


def test_a_check_does_not_pass_on_the_warnings_of_our_own_wrong_answers(recwarn):
    exercise = find_exercise("fix_ported")
    mistakes = exercise.answer_key.diagnosis.mistakes
    (switched_off,) = [mistake for mistake in mistakes if mistake.slug == "switched-off"]
    verdict = exercise.evaluate(*exercise.public.answer(switched_off.answers[0].source))
    assert verdict.diagnosis == "switched-off"
    assert not recwarn.list
