"""`explain_autocast` on models from public packages, against a real run on the CPU.

`make test` runs eight small models, `make test-all` two more, and `make test-long` all of
docs/model_table.md. What each one should give is stored, so a model that gets better fails too: run
`tools/model_table.py` then.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from packaging.requirements import Requirement
from real_models import compare, recorder, table
from real_models.packages import nms, prepare
from real_models.recorder import Op
from real_models.zoo import MODELS
from torch import nn

from amp_lessons.amp.explain import Hazard, explain_autocast

pytestmark = pytest.mark.slow

STORED = table.read()
LINES = STORED["models"]
BF16 = torch.bfloat16


@pytest.fixture(scope="module", autouse=True)
def _packages():
    """The packages are imported once, by the first model that needs them."""
    prepare()


CASES = [
    pytest.param(model, id=model.name, marks=[] if model.gate else [pytest.mark.long])
    for model in MODELS
]


@pytest.mark.parametrize("model", CASES)
def test_a_model_comes_out_as_stored(model):
    outcome, stored = compare.compare(model), LINES[model.name]
    found = (outcome.verdict, outcome.on_fakes)
    assert found == (stored["verdict"], stored["on_fakes"]), (
        f"{outcome.why or outcome.on_fakes_why or 'it agrees now'}\n"
        f"If that is right: {table.COMMAND} {model.name}"
    )


# ---- what is stored -----------------------------------------------------------------------------


def test_each_model_has_one_line():
    names = Counter(model.name for model in MODELS)
    assert names.most_common(1)[0][1] == 1
    assert set(names) == set(LINES), f"run {table.COMMAND}"
    assert sum(model.gate for model in MODELS) == 10


def test_nine_models_of_ten_agree_and_the_gate_has_some_of_each_package():
    agree = [name for name, line in LINES.items() if line["verdict"] == "agree"]
    assert len(LINES) >= 60
    assert len(agree) >= 0.9 * len(LINES)
    assert {model.package for model in MODELS if model.gate} == {m.package for m in MODELS}


def test_the_page_shows_what_is_stored():
    assert table.PAGE.read_text(encoding="utf-8") == table.page(STORED), (
        f"run {table.COMMAND} --page"
    )


def test_the_table_was_made_with_the_versions_that_are_installed():
    lines = (table.ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if "==" in line]
    assert set(STORED["versions"]) == set(table.PACKAGES)
    for name, number in STORED["versions"].items():
        (pin,) = (pin for pin in pins if pin.name.replace("-", "_") == name)
        assert number in pin.specifier, f"{name} is pinned at another version; run {table.COMMAND}"


# ---- the recorder and the comparison ------------------------------------------------------------


def test_the_recorder_shares_no_code_with_the_course():
    tree = ast.parse(Path(recorder.__file__).read_text(encoding="utf-8"))
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    assert "torch" in imported
    assert not [name for name in imported if name and name.startswith("amp_lessons")]


def _linear_and_norm():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6)), torch.randn(3, 4)


def test_the_recorder_counts_what_can_be_counted_by_hand():
    """The Linear casts input, weight and bias, and saves the input's copy, 3 x 4 in 16 bits.

    The norm takes the Linear's result as it is: 3 x 6 in 16 bits, and saves the mean and the
    inverse deviation of 3 rows in float32. Backward casts the gradients of weight and bias.
    """
    model, x = _linear_and_norm()
    run = recorder.run(model, (x,), {}, BF16)
    low = "bfloat16"
    assert run.ops == [
        Op("aten::addmm", (low, low, low), low),
        Op("aten::native_layer_norm", (low, "float32", "float32"), low),
    ]
    assert (run.casts, run.casts_backward) == (3, 2)
    assert run.saved == 3 * 4 * 2 + 3 * 6 * 2 + 2 * 3 * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: run, ""),
        (lambda run: replace(run, casts=run.casts + 1), "casts forward: told 3, real 4"),
        (lambda run: replace(run, casts_backward=0), "casts backward: told 2, real 0"),
        (lambda run: replace(run, saved=run.saved - 2), "saved bytes: told 84, real 82"),
        (lambda run: replace(run, ops=run.ops[:1]), "ops: told [native_layer_norm"),
        (
            lambda run: replace(run, ops=[replace(run.ops[0], dtype_out="float32"), run.ops[1]]),
            "ops: told [addmm(bfloat16, bfloat16, bfloat16) -> bfloat16], "
            "real [addmm(bfloat16, bfloat16, bfloat16) -> float32]",
        ),
    ],
)
def test_the_comparison_sees_one_op_dtype_cast_or_byte(change, message):
    model, x = _linear_and_norm()
    output = explain_autocast(model, x, device="cpu", dtype=BF16)
    found = "; ".join(compare.differences(output, change(recorder.run(model, (x,), {}, BF16))))
    assert found.startswith(message)
    assert bool(found) == bool(message)


def test_a_model_that_is_told_to_raise_and_runs_does_not_agree():
    model, x = _linear_and_norm()
    output = explain_autocast(model, x, device="cpu", dtype=BF16)
    wrong = Hazard("mixed", "raises", ("",), "mm", ("",), "mm takes one dtype", "cast")
    found = compare.differences(
        replace(output, hazards=(wrong,)), recorder.run(model, (x,), {}, BF16)
    )
    assert found == ["told to raise, and runs: mm: mm takes one dtype"]


def test_suppression_in_python_keeps_the_best_of_boxes_that_overlap():
    boxes = torch.tensor([[0.0, 0, 4, 4], [0, 0, 4, 3], [5, 5, 9, 9], [0, 2, 4, 6]])
    scores = torch.tensor([0.5, 0.9, 0.1, 0.7])
    # Box 0 shares 12 of 16 with box 1, and box 3 shares 4 of 24 with it.
    assert nms(boxes, scores, 0.5).tolist() == [1, 3, 2]
    assert nms(boxes, scores, 0.1).tolist() == [1, 2]
    assert nms(boxes[:0], scores[:0], 0.5).tolist() == []
