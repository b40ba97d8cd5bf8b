"""Lesson 15 leaves nothing out: each claim is tried, and its verdict follows from what was found.

The notebook is read as it is stored, so what is tested is what a learner sees; nbval runs it.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path

import nbformat
import pytest
import torch
from sections import PRIMARY, printed, sections

from amp_lessons.core.catalogue import lesson_called
from amp_lessons.lessons.myths import (
    BENCHMARK,
    GUIDE,
    MYTHS,
    QUESTION,
    QUIZ,
    proofs,
    table,
    verdict_of,
)
from amp_lessons.lessons.myths import Myth as Entry

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    QUESTION: "Page one: an interview question",
    QUIZ: "Page two: a quiz",
    GUIDE: "Page three: a guide",
    BENCHMARK: "Page four: a benchmark",
}


@cache
def notebook() -> nbformat.NotebookNode:
    return nbformat.read(ROOT / lesson_called("myths").notebook, as_version=4)


def text_of(myth: Entry) -> str:
    """What stands under a claim's heading."""
    cells = (cell.source for cell in notebook().cells if cell.cell_type == "markdown")
    (cell,) = (source for source in cells if f"### {myth.heading}\n" in source)
    return re.split(r"^#+ ", cell.split(f"### {myth.heading}\n")[1], flags=re.MULTILINE)[0]


# ---- the catalogue ------------------------------------------------------------------------------


def test_the_catalogue_is_whole_and_in_the_order_of_the_pages():
    assert [myth.number for myth in MYTHS] == list(range(1, 37))
    assert list(dict.fromkeys(myth.page for myth in MYTHS)) == list(PAGES)
    assert sorted(proofs.PROOFS) == list(range(1, 37))


def test_the_verdict_follows_from_the_cases(subtests):
    for myth in MYTHS:
        with subtests.test(f"myth {myth.number}"):
            cases = proofs.PROOFS[myth.number]()
            assert verdict_of(cases) == myth.verdict, cases


def test_a_claim_has_a_reason_a_lesson_and_a_primary_source_if_it_has_any(subtests):
    for myth in MYTHS:
        with subtests.test(f"myth {myth.number}"):
            assert 1 <= myth.lesson <= 11
            assert myth.source == "" or myth.source.startswith(PRIMARY)
            for text in (myth.claim, myth.why):
                assert 10 < len(text) < 130
                assert not text.endswith(".")


def test_how_a_verdict_follows():
    assert verdict_of({"a": True, "b": True}) == "true"
    assert verdict_of({"a": True, "b": False}) == "true only when"
    assert verdict_of({"a": False}) == "false"
    with pytest.raises(ValueError, match="at least one"):
        verdict_of({})


# ---- the notebook -------------------------------------------------------------------------------


def test_the_table_at_the_top_is_there_before_anything_has_run():
    assert table() in notebook().cells[1].source  # below the set-up cell


def test_the_lesson_is_short():
    assert len(notebook().cells) <= 45
    for cell in notebook().cells:
        if cell.cell_type == "code":
            assert len([line for line in cell.source.splitlines() if line.strip()]) <= 15


def test_each_claim_begins_with_its_verdict_and_is_short(subtests):
    for myth in MYTHS:
        with subtests.test(f"myth {myth.number}"):
            text = text_of(myth).strip()
            assert text.lower().startswith(f"**{myth.verdict}")
            assert 20 <= len(text.split()) <= 125


def test_the_claims_stand_in_order_under_their_pages():
    order = [h for h in sections(notebook()) if h in PAGES.values() or re.match(r"\d+\. ", h)]
    wanted = []
    for before, myth in pairwise([None, *MYTHS]):
        if before is None or before.page != myth.page:
            wanted.append(PAGES[myth.page])
        wanted.append(myth.heading)
    assert order == wanted


def test_each_claim_has_a_printed_line(subtests):
    for myth in MYTHS:
        with subtests.test(f"myth {myth.number}"):
            cells = [cell for cell in notebook().cells if cell.cell_type == "code"]
            assert re.search(rf"^{myth.number} \S", printed(cells), re.MULTILINE)


def test_cells_print_numbers_and_no_booleans():
    cells = [cell for cell in notebook().cells if cell.cell_type == "code"]
    assert not re.search(r"\b(True|False|yes|no|ok)\b(?! (error|zero_grad|GPU|arguments))",
                         re.sub(r"set_to_none=(True|False)", "", printed(cells)))  # fmt: skip


# ---- what the lesson says besides ---------------------------------------------------------------


def test_five_sentences_hold():
    x, y = proofs.batch()
    model, _, _ = proofs.fresh()
    with proofs.fp16():
        output = model(x)
        loss = torch.nn.functional.mse_loss(output, y)
    products = {dtype for name, dtype in proofs.operations(loss.backward) if name == "mm"}
    assert (output.dtype, loss.dtype, products) == (torch.float16, torch.float32, {torch.float16})
    assert proofs.weight_after(overflow=True) == 3
    assert proofs.largest_gradient(proofs.SMALL, torch.bfloat16) > 0


def test_a_limit_of_speed_counts_the_cast_of_the_weight():
    assert proofs.limit("V100", "fp32", 1) == pytest.approx(0.5, abs=0.01)
    assert all(proofs.limit("A100", "tf32", 2**power) < 2 for power in range(20))
    assert 7 < proofs.limit("V100", "fp32", 4096) < 125 / 15.7


def test_the_benchmarks_peak_rules_out_hopper():
    assert 0 < proofs.left_of_the_peak(proofs.WORKSPACE) < 10_000
    assert proofs.left_of_the_peak(proofs.HOPPER_WORKSPACE) < -(2**25)
    possible = {
        "A10G",
        "RTX 3090",
        "A100 SXM 80GB",
        "L4",
        "RTX 4090",
        "L40S",
        "B200 (HGX)",
        "RTX 5090",
    }
    ruled_out = {"T4", "V100 SXM2", "H100 PCIe", "H100 SXM", "H200", "MI300X"}
    assert possible <= set(proofs.candidates())
    assert not ruled_out & set(proofs.candidates())
    (a100,) = (gpu for gpu in proofs.GPUS if gpu.name == "A100 SXM 80GB")
    assert proofs.seed_floor(a100, "fp32") > proofs.quoted().rows[0].total_s, "only with TF32"


def test_a_scaler_in_use_divides_a_gradient_that_nobody_scaled():
    assert proofs.weight_after() == pytest.approx(2.4)
    assert proofs.weight_after(scaled=False, used=True) == pytest.approx(3 - 0.6 / 65536)
    with pytest.raises(AssertionError, match="_scale is None"):
        proofs.weight_after(scaled=False)
