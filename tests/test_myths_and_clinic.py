"""Lesson 12 leaves nothing out: each myth and each pitfall has its cell, and the cell its verdict.

The notebook is read as it is stored, so what is tested is what a learner sees; nbval runs it.
"""

from __future__ import annotations

import copy
import re
import warnings
from functools import cache
from pathlib import Path

import nbformat
import pytest

from amp_lessons.catalogues import Disagreement, Table, anchor, gaps
from amp_lessons.clinic import PITFALLS, WARDS, Clinic
from amp_lessons.course import LESSONS
from amp_lessons.messages import said
from amp_lessons.myths import MYTHS, THEMES, Trials, verdict_of

ROOT = Path(__file__).resolve().parent.parent
PRIMARY = (
    "https://docs.pytorch.org/",
    "https://pytorch.org/blog/",
    "https://github.com/pytorch/pytorch/",
    "https://developer.nvidia.com/",
    "https://docs.nvidia.com/",
    "https://arxiv.org/abs/",
)


@cache
def notebook() -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "notebooks/12_myths_and_clinic.ipynb", as_version=4)


def sections(lesson: nbformat.NotebookNode) -> dict[str, list[nbformat.NotebookNode]]:
    """The code cells under each heading, by the heading's text."""
    found: dict[str, list[nbformat.NotebookNode]] = {}
    heading = ""
    for cell in lesson.cells:
        if cell.cell_type == "code":
            found.setdefault(heading, []).append(cell)
        for line in cell.source.splitlines() if cell.cell_type == "markdown" else ():
            if line.startswith("#"):
                heading = line.lstrip("#").strip()
                assert heading not in found, f"two headings {heading!r}"
                found[heading] = []
    return found


def printed(cells: list[nbformat.NotebookNode]) -> str:
    return "".join(o.text for c in cells for o in c.outputs if o.output_type == "stream")


def untested(lesson: nbformat.NotebookNode) -> list[int]:
    """The myths without a checked cell of their own that prints the catalogue's verdict."""
    under = sections(lesson)
    return [
        myth.number
        for myth in MYTHS
        if not any(
            f"trials.test({myth.number}," in cell.source
            and "nbval-check-output" in cell.metadata.get("tags", [])
            and f"Myth {myth.number} is {myth.ruling}\n" in printed([cell])
            for cell in under.get(myth.heading, ())
        )
    ]


def untreated(lesson: nbformat.NotebookNode) -> list[int]:
    """The pitfalls without a cell of their own that triggers and mends them, or cites them."""
    under, missing = sections(lesson), []
    for pitfall in PITFALLS:
        cells = under.get(pitfall.heading, [])
        text = printed(cells)
        if pitfall.shown == "cited":
            done = f"Pitfall {pitfall.number} is cited: {pitfall.source}\n" in text
        else:
            shown = re.search(rf"Pitfall {pitfall.number} (says|shows): \S", text)
            done = shown is not None and "Mended: " in text[shown.start() :]
            if done and pitfall.pattern:
                done = re.search(pitfall.pattern, text) is not None
        if not done:
            missing.append(pitfall.number)
    return missing


# ---- the catalogues -----------------------------------------------------------------------------


def test_catalogues_are_whole_and_in_order():
    assert [myth.number for myth in MYTHS] == list(range(1, 37))
    assert [pitfall.number for pitfall in PITFALLS] == list(range(1, 31))
    assert {myth.theme for myth in MYTHS} == set(THEMES)
    assert {pitfall.ward for pitfall in PITFALLS} == set(WARDS)


@pytest.mark.parametrize(
    "entry", [*MYTHS, *PITFALLS], ids=lambda e: f"{type(e).__name__}{e.number}"
)
def test_entry_has_a_reason_a_lesson_and_a_primary_source_where_it_needs_one(entry):
    assert 0 <= entry.lesson <= 11
    assert entry.source == "" or entry.source.startswith(PRIMARY)
    if getattr(entry, "shown", "") == "cited":
        assert entry.source
    for text in (getattr(entry, "why", ""), getattr(entry, "cause", ""), entry.heading):
        assert len(text) < 120


def test_lessons_that_stand_are_the_ones_meant():
    standing = {lesson.number: lesson.title for lesson in LESSONS}
    assert "GradScaler" in standing[6]
    assert "op" in standing[4]


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (8, "RuntimeError: mat1 and mat2 must have the same dtype, but got Half and Float"),
        (8, "RuntimeError: expected m1 and m2 to have the same dtype, but got: float != c10::Half"),
        (8, "RuntimeError: expected scalar type Float but found Half"),
        (9, "RuntimeError: scatter(): Expected self.dtype to be equal to src.dtype"),
        (9, "index_copy_(): self and source expected to have the same dtype, but got (self) Float"),
        (20, "RuntimeError: value cannot be converted to type c10::Half without overflow"),
        (20, "RuntimeError: value cannot be converted to type at::Half without overflow: -1e+09"),
        (28, "TypeError: Cannot convert a MPS Tensor to float64 dtype as the MPS framework does"),
        (29, "TypeError: Got unsupported ScalarType BFloat16"),
        (29, "TypeError: got unsupported scalartype bfloat16"),
    ],
)
def test_pattern_knows_the_wordings_of_several_versions(number, message):
    assert re.search(PITFALLS[number - 1].pattern, message)


def test_pattern_does_not_know_another_error():
    for pitfall in PITFALLS:
        if pitfall.pattern:
            assert not re.search(pitfall.pattern, "RuntimeError: shape '[2]' is invalid for input")


# ---- the notebook -------------------------------------------------------------------------------


def test_each_myth_has_its_cell_with_the_catalogues_verdict():
    assert untested(notebook()) == []


def test_each_pitfall_is_triggered_and_mended_or_cited():
    assert untreated(notebook()) == []


@pytest.mark.parametrize("myth", [MYTHS[0], MYTHS[20], MYTHS[35]], ids=lambda m: f"myth{m.number}")
def test_lost_cell_or_changed_verdict_is_noticed(myth):
    for damage in ("lost", "changed"):
        lesson = copy.deepcopy(notebook())
        (cell,) = (c for c in lesson.cells if f"trials.test({myth.number}," in c.source)
        if damage == "lost":
            lesson.cells.remove(cell)
        else:
            for output in cell.outputs:
                output.text = output.text.replace(f"Myth {myth.number} is {myth.verdict}", "")
        assert untested(lesson) == [myth.number]


@pytest.mark.parametrize("number", [1, 5, 7, 30])
def test_lost_treatment_is_noticed(number):
    lesson = copy.deepcopy(notebook())
    call = re.compile(rf"clinic\.(read|notice|cite)\({number}\b")
    lesson.cells = [c for c in lesson.cells if not call.search(c.source)]
    assert untreated(lesson) == [number]


def test_each_theme_and_each_ward_has_its_heading():
    headings = sections(notebook())
    assert set(THEMES) | set(WARDS) <= set(headings)


def test_each_myth_stands_under_its_theme_and_each_pitfall_in_its_ward():
    order = list(sections(notebook()))
    groups = [h for h in order if h in {*THEMES, *WARDS}]
    for entry in [*MYTHS, *PITFALLS]:
        before = [h for h in groups if order.index(h) < order.index(entry.heading)]
        assert before[-1] == getattr(entry, "theme", getattr(entry, "ward", ""))


@pytest.mark.parametrize("entries", [MYTHS, PITFALLS], ids=["myths", "pitfalls"])
def test_stored_table_links_each_entry_to_a_heading_that_exists(entries):
    tables = [
        output.data["text/html"]
        for cell in notebook().cells
        for output in cell.get("outputs", [])
        if "<table>" in output.get("data", {}).get("text/html", "")
    ]
    headings = {anchor(heading) for heading in sections(notebook())}
    (table,) = (t for t in tables if anchor(entries[0].heading) in t)
    links = re.findall(r'href="(#[^"]+)"', table)
    assert links == [anchor(entry.heading) for entry in entries]
    assert set(links) <= headings


# ---- the records --------------------------------------------------------------------------------


def test_verdict_follows_from_the_cases():
    assert verdict_of({"a": True, "b": True}) == "true"
    assert verdict_of({"a": True, "b": False}) == "true only when"
    assert verdict_of({"a": False}) == "false"
    with pytest.raises(ValueError, match="at least one"):
        verdict_of({})


def test_myth_that_comes_out_otherwise_is_refused(capsys):
    trials = Trials()
    with pytest.raises(Disagreement, match="Myth 1 is 'true' by this test"):
        trials.test(1, {"a case": True})
    assert trials.found == {}
    trials.test(1, {"a case": False})
    assert "Myth 1 is false: " in capsys.readouterr().out
    with pytest.raises(KeyError):
        trials.test(37, {"a case": False})


def test_table_of_myths_waits_for_the_last_test(capsys):
    trials = Trials()
    for myth in MYTHS:
        with pytest.raises(Disagreement, match=str(MYTHS[-1].number)):
            trials.table()
        mixed = myth.verdict == "true only when"
        trials.test(myth.number, {"one": mixed, "other": False})
    assert len(trials.table().rows) == 36


def test_clinic_refuses_another_message_and_a_symptom_that_is_not_there(capsys):
    clinic = Clinic()
    with pytest.raises(Disagreement, match="not recognised"):
        clinic.read(1, "RuntimeError: something else")
    with pytest.raises(Disagreement, match="not recognised"):
        clinic.read(5, "a message, from a pitfall that gives none")
    with pytest.raises(Disagreement, match="did not show"):
        clinic.notice(5, "a frozen loss", present=False)
    with pytest.raises(Disagreement, match="must be triggered before"):
        clinic.mend(5, "a cure", well=True)
    clinic.notice(5, "a frozen loss", present=True)
    with pytest.raises(Disagreement, match="not mended"):
        clinic.mend(5, "a cure", well=False)
    for unknown in (clinic.cite, lambda n: clinic.read(n, "")):
        with pytest.raises(KeyError):
            unknown(31)


def test_clinic_reads_out_the_line_that_it_knows_and_cuts_a_long_one_short(capsys):
    clinic = Clinic()
    clinic.read(8, "UserWarning: look out\nRuntimeError: m1 and m2 must have the same dtype")
    clinic.read(29, "TypeError: Got unsupported ScalarType BFloat16" + " and more" * 50)
    first, second = capsys.readouterr().out.splitlines()
    assert first == "Pitfall 8 says: RuntimeError: m1 and m2 must have the same dtype"
    assert second.endswith(" …")
    assert len(second) < 200


def test_table_of_pitfalls_asks_for_all_and_for_how_they_were_shown(capsys):
    clinic = Clinic()
    with pytest.raises(Disagreement, match="not treated"):
        clinic.table()
    for pitfall in PITFALLS:
        clinic.cite(pitfall.number)
    with pytest.raises(Disagreement, match="otherwise"):
        clinic.table()
    for pitfall in PITFALLS:
        if pitfall.shown == "triggered here":
            clinic.notice(pitfall.number, "seen", present=True)
    assert len(clinic.table().rows) == 30


def test_said_hears_warnings_and_errors_and_nothing_else():
    def both():
        warnings.warn("look out", FutureWarning, stacklevel=1)
        raise RuntimeError("too late")

    assert said(both) == "FutureWarning: look out\nRuntimeError: too late"
    assert said(lambda: 1) == ""


def test_table_escapes_what_it_shows():
    table = Table(("a", "b"), (('x "<b>', ("<1>", "&")),))
    assert "&lt;1&gt;" in table._repr_html_()
    assert 'href="#x-&quot;&lt;b&gt;"' in table._repr_html_()
    assert "<b>" not in table._repr_html_()
    assert repr(table) == "<1>  &"


def test_gaps():
    assert gaps([3, 1, 2], [2]) == "1, 3"
    assert gaps([1], [1, 2]) == ""
