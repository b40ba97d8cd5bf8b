"""The hazard rules: every planted mistake is found, no clean model is accused, and each is true.

What a hazard says is shown by a value: the expression goes wrong in 16 bits on this CPU, and its
cure gives the right number.
"""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from hazards_planted import BF16, FP16, RAISES, WRONG, Of
from hazards_table import CLEAN, PLANTED, RUNS, counted, page, told
from torch import nn

from amp_lessons.amp.errors import catalogue
from amp_lessons.amp.explain import TraceError, explain_autocast
from amp_lessons.amp.explain.facts import Fact, rounded, spacing
from amp_lessons.amp.explain.facts.fact import add, inverse, multiply
from amp_lessons.amp.explain.hazards import KINDS

DOC = Path(__file__).parents[2] / "docs" / "hazards.md"


def hazards(function, *rest, dtype=FP16, device="cuda", rows=4):
    return explain_autocast(
        Of(function), torch.randn(rows, 8), *rest, device=device, dtype=dtype
    ).hazards


# ---- planted and clean ---------------------------------------------------------------------------


SINCE_2_14 = torch.__version__ >= (2, 14)  # where CUDA's FFT takes BF16


def test_a_planted_mistake_is_found(subtests):
    for planted in PLANTED:
        with subtests.test(planted.name):
            if planted.name == "an FFT in BF16" and SINCE_2_14:
                pytest.skip("no mistake in this PyTorch")
            found = counted().found[planted.name]
            assert told(planted, found), [(h.kind, h.severity, h.message) for h in found]


def test_a_clean_model_is_not_accused(subtests):
    for name in CLEAN:
        with subtests.test(name):
            for device, dtype in RUNS:
                found = counted().false[name, device, str(dtype)[6:]]
                assert found == (), [(h.kind, h.op, h.where, h.message) for h in found]


def test_there_are_enough_of_both_and_of_each_kind():
    assert len(PLANTED) >= 45
    assert len(CLEAN) >= 25
    assert {p.kind for p in PLANTED} == set(KINDS)
    assert len({p.name for p in PLANTED}) == len(PLANTED)
    # A second hazard beside the planted one is a square on the way to a variance, and no more.
    assert counted().beside() == ["variance as a difference"]


SHOWN = [p for p in PLANTED if p.shown is not None]


def number(value) -> float:
    return torch.as_tensor(value).double().reshape(-1)[0].item()


def test_the_number_goes_wrong_and_the_cure_is_right(subtests):
    for planted in SHOWN:
        with subtests.test(planted.name):
            wrong, cured, truth = planted.shown
            if planted.severity == RAISES and planted.kind != "16-bit parameters":
                with pytest.raises((RuntimeError, NotImplementedError)):
                    wrong()
            else:
                got = number(wrong())
                assert not math.isfinite(got) or abs(got - truth) > 0.02 * abs(truth) + 1e-6, got
            assert number(cured()) == pytest.approx(truth, rel=2e-3, abs=1e-6)


def test_most_mistakes_show_a_number():
    assert len(SHOWN) >= len(PLANTED) - 6


# ---- what each hazard carries --------------------------------------------------------------------


def test_every_hazard_has_a_fix_an_entry_and_its_lesson():
    for found in counted().found.values():
        for hazard in found:
            assert hazard.fix
            assert hazard.lesson == catalogue.entry(hazard.entry).lesson
            assert hazard.op or hazard.paths


def test_a_report_names_what_to_look_up():
    trace = explain_autocast(Of(lambda x: x * x), torch.randn(4, 8), device="cuda", dtype=FP16)
    assert trace.hazards[0].entry == "activation-overflow"
    for shown in (str(trace), trace.to_html()):
        assert "amp-lessons lookup activation-overflow" in shown


def test_what_becomes_inf_is_marked_as_an_overflow():
    (square,) = hazards(lambda x: x * x)
    assert square.overflows
    assert "256" in square.message
    (fill,) = hazards(lambda x: x.masked_fill(x > 0, -1e9))
    assert not fill.overflows  # it raises before it could
    (guard,) = hazards(lambda x: (x + 1e-8).log())
    assert not guard.overflows


def test_the_bound_in_a_message_is_the_bound():
    (found,) = hazards(lambda h: h / 1e-5)
    assert "|x| is above 0.66" in found.message
    below, above = torch.tensor([0.655, 0.66]).half() / 1e-5
    assert torch.isfinite(below)
    assert torch.isinf(above)
    (found,) = hazards(lambda h: torch.exp2(h))
    assert "above 16" in found.message
    assert torch.isinf(torch.exp2(torch.tensor(16.0).half()))


@pytest.mark.skipif(SINCE_2_14, reason="the page is PyTorch 2.13's")
def test_the_page_is_what_the_table_prints():
    assert DOC.read_text(encoding="utf-8") == page(counted())


# ---- where a rule keeps silent -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (lambda x: x.tanh() * x.tanh(), False),
        (lambda x: x.clamp(-200, 200).square() * 1.0, False),
        (lambda x: (x / 16) * (x / 16), False),
        (lambda x: x * x.flip(0), False),
        (lambda x: x[:, :4] * x[:, 4:], False),
        (lambda x: x[:, :4] * x[:, :4], True),
        (lambda x: x.clamp(-300, 300) * x.clamp(-300, 300), True),
        (lambda x: x.sigmoid() * 1e4, False),
        (lambda x: x.sigmoid() / 1e-5, True),
        (lambda x: x / 8, False),
        (lambda x: x * 255, False),
        (lambda x: x.log_softmax(-1).exp().half(), False),
        (lambda x: x.clamp(max=10).exp().half(), False),
        (lambda x: (-x.abs()).exp().half(), False),
        (lambda x: (x - x.logsumexp(-1, keepdim=True)).exp().half(), False),
        (lambda x: x.float().square().half(), True),
        (lambda x: nn.functional.layer_norm(x, (8,)).half().square().half(), False),
    ],
)
def test_a_bounded_value_does_not_overflow(function, found):
    assert ("overflow" in {h.kind for h in hazards(function)}) is found


@pytest.mark.parametrize("dtype", [FP16, BF16], ids=str)
def test_a_margin_that_the_format_holds_is_enough(dtype):
    margin = 2**-6
    safe = hazards(lambda x: torch.log(1 - x.sigmoid().clamp(margin, 1 - margin)), dtype=dtype)
    assert safe == ()
    lost = hazards(lambda x: torch.log(1 - x.sigmoid().clamp(1e-5, 1 - 1e-5)), dtype=dtype)
    assert [h.kind for h in lost] == ["log of a probability"]


def test_positions_are_judged_by_their_step():
    def grid(count, dtype):
        return lambda x: x[:, :1] + torch.arange(count, device=x.device).to(dtype)

    for dtype, most in ((FP16, 2048), (BF16, 256)):
        assert hazards(grid(most + 1, dtype), dtype=dtype) == ()
        (found,) = hazards(grid(most + 2, dtype), dtype=dtype)
        assert found.kind == "positions in 16 bit"
        assert torch.tensor(most + 1.0).to(dtype).item() == most
    assert hazards(lambda x: x[:, :1] + torch.linspace(-1, 1, 64, device=x.device).half()) == ()


def test_a_half_model_is_a_hazard_only_if_it_is_trained():
    model, x = nn.Linear(8, 8).half(), torch.randn(4, 8)

    def severities():
        return [h.severity for h in explain_autocast(model, x).hazards]

    assert severities() == ["raises"]
    model.eval()
    assert severities() == ["watch"]
    with torch.no_grad():
        assert severities() == []
    model.train().requires_grad_(False)
    assert severities() == []


def assign_one(x):
    x[0, 0] = -1e9


def assign_row(x):
    x[0] = -1e9


def assign_where(x):
    x[x > 0] = -1e9


def assign_at(x):
    x[[0, 1], [2, 3]] = -1e9


def fill_one(x):
    x[0, :1].fill_(-1e9)


def fill_row(x):
    x[0].fill_(-1e9)


@pytest.mark.parametrize(
    "write", [assign_one, assign_row, assign_where, assign_at, fill_one, fill_row]
)
def test_a_number_past_the_end_is_told_as_this_torch_writes_it(write):
    x = torch.ones(4, 8, dtype=FP16)
    try:
        write(x)
    except RuntimeError:
        expected = RAISES
    else:
        assert torch.isinf(x).any()
        expected = WRONG
    (found,) = hazards(lambda x: write(x) or x, device="cpu")
    assert (found.kind, found.severity) == ("constant beyond the format", expected)
    if expected == WRONG:
        assert "-inf" in found.message


def test_a_float64_tensor_is_named_where_it_comes_in():
    def function(x, y):
        return ((x + y) * 2).exp()

    found = hazards(function, torch.randn(4, 8, dtype=torch.float64))
    assert [(h.kind, h.op) for h in found] == [("float64", "add")]
    assert hazards(function, torch.tensor(2.0, dtype=torch.float64)) == ()


# ---- the trace goes on ---------------------------------------------------------------------------


def test_a_trace_goes_on_after_an_op_that_raises():
    def function(x):
        y = torch.lerp(x, x.float(), 0.5)
        return y.scatter(0, torch.zeros(1, 8, dtype=torch.long, device=y.device), x[:1]).log()

    model, x = Of(function), torch.randn(4, 8)
    explained = explain_autocast(model, x)
    assert [h.op for h in explained.hazards if h.severity == RAISES] == ["lerp", "scatter"]
    assert all("test_hazards.py:" in h.where[0] for h in explained.hazards)
    assert [row.short_op for row in explained.rows][-3:] == ["lerp", "scatter", "log"]
    cpu = explain_autocast(model, x, device="cpu", dtype=FP16)
    assert [h.op for h in cpu.hazards if h.severity == RAISES] == ["lerp", "scatter"]
    with pytest.raises(RuntimeError), torch.autocast("cpu", FP16):
        model(x)


def test_an_error_that_has_nothing_to_do_with_dtypes_ends_the_trace():
    def function(x):
        return x @ torch.ones(3, 3, dtype=x.dtype, device=x.device)

    with pytest.raises(TraceError, match="reduction dim"):
        hazards(function)


def test_a_model_that_raises_without_autocast_says_so():
    explained = explain_autocast(
        Of(lambda x: torch.lerp(x, x.half(), 0.5)), torch.randn(4, 8), device="cpu", dtype=FP16
    )
    assert explained.hazards == ()
    assert any("without autocast the model does not run" in note for note in explained.notes)


# ---- facts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [FP16, BF16], ids=str)
def test_numbers_round_as_torch_rounds_them(dtype):
    generator = torch.Generator().manual_seed(0)
    exponents = torch.rand(400, generator=generator, dtype=torch.float64) * 80 - 60
    for value in (*(2.0**exponents).tolist(), 65519.0, 65520.0, 2.0**-25, 3 * 2.0**-25, 1 - 1e-7):
        for signed in (value, -value):
            stored = torch.tensor(signed, dtype=torch.float32).to(dtype).item()
            assert rounded(signed, dtype) == stored, signed


def test_spacing_is_the_distance_of_neighbours():
    for dtype in (FP16, BF16):
        for value in (1.0, 100.0, 255.0, 256.0, 257.0, 4000.0):
            below = torch.tensor(value).to(dtype)
            below = (
                below if below.item() < value else torch.nextafter(below, torch.zeros_like(below))
            )
            gap = torch.nextafter(below, torch.full_like(below, math.inf)) - below
            assert spacing(value, dtype) == gap.item(), (dtype, value)


def test_intervals_hold_what_is_inside():
    generator = torch.Generator().manual_seed(1)
    for _ in range(200):
        ends = torch.randn(4, generator=generator).mul(3).tolist()
        a, b = Fact(min(ends[:2]), max(ends[:2])), Fact(min(ends[2:]), max(ends[2:]))
        x = a.low + (a.high - a.low) * torch.rand((), generator=generator).item()
        y = b.low + (b.high - b.low) * torch.rand((), generator=generator).item()
        for (low, high), value in ((add(a, b), x + y), (multiply(a, b), x * y)):
            assert low - 1e-9 <= value <= high + 1e-9
        low, high = inverse(b)
        assert low - 1e-9 <= 1 / y <= high + 1e-9
    assert inverse(Fact(0.0, 1.0)) == (0.0, math.inf)
    assert multiply(Fact(0.0, 0.0), Fact()) == (0.0, 0.0)
