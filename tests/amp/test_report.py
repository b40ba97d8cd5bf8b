"""The report: its numbers add up, no word is lost on its way to a screen, a diff sees changes."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections import Counter
from dataclasses import fields, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from amp_lessons.amp.explain import explain_autocast
from amp_lessons.amp.explain.report import Explanation, changes_page, data
from amp_lessons.amp.explain.report.alignment import find_misfits
from amp_lessons.amp.explain.report.casting import casting_of
from amp_lessons.amp.explain.report.changes import OtherModel, compare
from amp_lessons.amp.explain.report.changes_text import lines_of as lines_of_changes
from amp_lessons.amp.explain.report.costs import Costs, costs_of
from amp_lessons.amp.explain.report.digest import made_with
from amp_lessons.amp.explain.report.islands import find_islands
from amp_lessons.amp.explain.report.names import duration, flop, pattern, percent, ranges, short
from amp_lessons.amp.explain.report.printing import first_failure
from amp_lessons.amp.explain.report.tree import ModuleNode, Sums, cut, fold, grow, levels
from amp_lessons.amp.explain.rows import Cast, Hazard, Module, OpRow, Totals, Trace
from amp_lessons.amp.roofline import find_gpu
from amp_lessons.amp.training import models
from amp_lessons.app import cli


def gpt(layers=3, vocabulary=96):
    model = models.GPT(vocabulary=vocabulary, context=32, width=64, layers=layers, heads=4)
    return model, (torch.zeros(2, 32, dtype=torch.long),)


EXAMPLES = {
    "mlp": models.mlp,
    "cnn": models.cnn,
    "custom function": models.custom_function,
    "gpt": gpt,
}
_made: dict[tuple[str, str], Explanation] = {}


def explained(name: str, device: str = "cuda") -> Explanation:
    if (name, device) not in _made:
        model, inputs = EXAMPLES[name]()
        _made[name, device] = explain_autocast(model, *inputs, device=device)
    return _made[name, device]


every = pytest.mark.parametrize(
    ("name", "device"), [(name, device) for name in EXAMPLES for device in ("cuda", "cpu")]
)


class Of(nn.Module):
    """A module whose forward is a function of the module and the input."""

    def __init__(self, function, **modules):
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)
        self.function = function

    def forward(self, x):
        return self.function(self, x)


# ---- what a trace counts ------------------------------------------------------------------------


@every
def test_saved_bytes_of_the_rows_add_up(name, device):
    trace = explained(name, device)
    assert sum(row.saved for row in trace.rows) == trace.totals.saved_amp > 0


def test_saved_bytes_go_to_the_op_that_keeps_them():
    trace = explain_autocast(
        Of(lambda m, x: F.gelu(torch.exp(x * x))), torch.randn(8, 16).requires_grad_()
    )
    saved = {row.short_op: row.saved for row in trace.rows}
    # mul keeps its input; exp its result, which gelu then keeps at no further cost.
    assert saved == {"mul": 8 * 16 * 4, "exp": 8 * 16 * 4, "gelu": 0}
    trace = explain_autocast(Of(lambda m, x: F.gelu(x + 1)), torch.randn(8, 16).requires_grad_())
    assert [row.saved for row in trace.rows] == [0, 8 * 16 * 4]  # add keeps nothing


def test_rows_know_their_shapes_and_bytes():
    model = nn.Sequential(nn.Embedding(1000, 16), nn.Linear(16, 8))
    look_up, linear = explain_autocast(model, torch.zeros(4, 3, dtype=torch.long)).rows
    assert look_up.shapes_in == ((1000, 16), (4, 3))
    assert look_up.shape_out == (4, 3, 16)
    assert look_up.bytes_moved == 2 * (4 * 3 * 16 * 4) + 4 * 3 * 8  # only the rows that it picks
    assert linear.shapes_in == ((8,), (12, 16), (16, 8))
    assert linear.bytes_moved == 2 * (8 + 12 * 16 + 16 * 8 + 12 * 8)
    assert [cast.bytes_moved for cast in linear.casts] == [6 * 8, 6 * 16 * 8, 6 * 12 * 16]


def test_modules_are_counted():
    twice = Of(lambda m, x: m.a(m.a(x)), a=nn.Linear(8, 8), unused=nn.Linear(8, 2))
    root, a, unused = explain_autocast(twice, torch.randn(2, 8)).modules
    assert root == Module("", "Of", 1, 90, 360, "float16")
    assert a == Module("a", "Linear", 2, 72, 288, "float16")
    assert (unused.calls, unused.dtype_out) == (0, "")


# ---- the tree -----------------------------------------------------------------------------------


def all_forms(trace: Trace) -> list[ModuleNode]:
    grown = grow(trace, costs_of(trace))
    folded = fold(grown)
    cuts = [cut(folded, depth, top) for depth in range(levels(folded) + 1) for top in (None, 1, 2)]
    return [grown, folded, *cuts]


@every
def test_sums_of_the_tree_are_the_totals(name, device):
    trace = explained(name, device)
    totals = trace.totals
    for root in all_forms(trace):
        assert root.total == replace(
            Sums(
                totals.ops,
                totals.flops,
                totals.flops_16bit,
                totals.casts_forward,
                totals.casts_cached,
                sum(cast.bytes_moved for row in trace.rows for cast in row.casts),
                totals.saved_amp,
                sum(row.bytes_moved for row in trace.rows),
            ),
            seconds=pytest.approx(root.total.seconds),
        )
        for node in root.walk():
            if node.children:
                parts = sum((child.total for child in node.children), node.own)
                assert replace(parts, seconds=0.0) == replace(node.total, seconds=0.0)
                assert parts.seconds == pytest.approx(node.total.seconds)


def paths_in(root: ModuleNode) -> Counter[str]:
    return Counter(path for node in root.walk() for path in node.paths)


@every
def test_folding_loses_no_module(name, device):
    grown = grow(explained(name, device))
    assert paths_in(fold(grown)) == paths_in(grown)


def test_repeated_blocks_fold_and_the_odd_one_stands_apart():
    model, inputs = gpt(layers=6)
    model.blocks[3].down = nn.Sequential(nn.Dropout(0.5), model.blocks[3].down)
    labels = {n.label: n.count for n in fold(grow(explain_autocast(model, *inputs))).children}
    assert labels["blocks.0–2, 4–5"] == 5
    assert labels["blocks.3"] == 1


def test_what_a_report_shows_decides_whether_blocks_are_the_same():
    row = OpRow(0, "b.0", "aten::mul", "", "", (), "float16", "float16", (), 10)
    hazard = Hazard("kind", "watch", ("b.1",), "mul", (), "message", "fix")
    modules = tuple(Module(f"b.{i}", "Block", 1) for i in range(3))

    def labels(rows, hazards=(), kinds=modules):
        trace = Trace("M", "cpu", "bfloat16", "2", rows, None, hazards, (), kinds)
        return [node.label for node in fold(grow(trace)).children]

    rows = tuple(replace(row, number=i, path=f"b.{i}") for i in range(3))
    assert labels(rows) == ["b.0–2"]
    assert labels(rows, (hazard,)) == ["b.0, 2", "b.1"]
    for change in ({"flops": 11}, {"saved": 1}, {"op": "aten::add"}, {"computed_in": "float32"}):
        assert labels((rows[0], replace(rows[1], **change), rows[2])) == ["b.0, 2", "b.1"]
    other = (modules[0], replace(modules[1], dtype_out="float32"), modules[2])
    assert labels(rows, (), other) == ["b.0, 2", "b.1"]


def test_a_hidden_hazard_stays_in_sight():
    model = Of(
        lambda m, x: m.a(x), a=Of(lambda m, x: m.b(x), b=Of(lambda m, x: (x.half() + 1e-8).log()))
    )
    trace = explain_autocast(model, torch.randn(4))
    assert trace.hazards
    for root in all_forms(trace):
        assert set(map(id, root.met_below())) == set(map(id, trace.hazards))


def test_the_largest_children_are_kept():
    sizes = (8, 64, 16, 32, 24)
    model = Of(
        lambda m, x: sum(m.get_submodule(f"l{s}")(x).sum() for s in sizes),
        **{f"l{size}": nn.Linear(256, size) for size in sizes},
    )
    root = cut(fold(grow(explain_autocast(model, torch.randn(64, 256)))), None, 2)
    assert [child.label for child in root.children] == ["l64", "l32", "3 smaller modules"]


def test_rows_of_unknown_modules_find_a_place():
    row = OpRow(0, "a.b.c", "aten::mul", "", "", (), "float16", "float16", (), 1)
    root = grow(Trace("M", "cpu", "bfloat16", "2", (row,), None, (), (), ()))
    assert [node.label for node in root.walk()] == ["M", "a.b.c"]
    assert root.total.flops == 1


# ---- time, islands, sizes, casts ----------------------------------------------------------------


def test_least_times_by_hand():
    costs = Costs(find_gpu("a100"))
    product = OpRow(0, "", "aten::mm", "", "", (), "float16", "float16", (), 2 * 10**12)
    assert costs.of_row(product) == pytest.approx(2e12 / 312e12)
    assert costs.of_row(replace(product, computed_in="float32")) == pytest.approx(2e12 / 19.5e12)
    by_cudnn = replace(product, computed_in="float32", op="aten::convolution")
    assert costs.of_row(by_cudnn) == pytest.approx(2e12 / 156e12)
    assert costs.of_row(replace(product, bytes_moved=2039 * 10**9)) == pytest.approx(1.0)
    assert Costs(find_gpu("t4")).of_row(replace(product, computed_in="bfloat16")) == pytest.approx(
        2e12 / 8.1e12
    )
    cast = Cast("activation", "float32", "float16", "new", bytes=2, bytes_moved=2039 * 10**6)
    assert costs.with_casts(replace(product, flops=0, casts=(cast, cast))) == pytest.approx(2e-3)


def test_a_cpu_and_an_unknown_gpu_have_no_times():
    assert costs_of(explained("mlp", "cpu")) is None
    unknown = replace(as_trace(explained("mlp")), gpu="sm86")
    assert costs_of(unknown) is None
    assert made_with(unknown, None).endswith("; no times: its peak rates aren't known here")
    assert "no times" not in made_with(as_trace(explained("mlp", "cpu")), None)
    assert costs_of(replace(as_trace(explained("mlp")), gpu="t4")).gpu.name == "T4"
    assert "time" not in dict(explained("mlp", "cpu").digest.summary())
    assert explained("mlp", "cpu").to_dict()["estimate"] is None


def test_islands_are_the_runs_in_float32():
    def forward(m, x):
        x = m.first(x)
        x = m.norm(x) + 1  # float32 until the next product
        x = m.second(x)
        return x.float() * 2

    model = Of(forward, first=nn.Linear(16, 64), norm=nn.LayerNorm(64), second=nn.Linear(64, 8))
    trace = explain_autocast(model, torch.randn(32, 16))
    islands = {
        (island.module, island.ops): island for island in find_islands(trace, costs_of(trace))
    }
    assert set(islands) == {
        ("norm", ("native_layer_norm",)),
        ("", ("add",)),
        ("", ("float (to_copy)", "mul")),
    }
    assert islands["norm", ("native_layer_norm",)].why == "autocast runs native_layer_norm in fp32"
    assert islands["", ("add",)].why == "its inputs are fp32"
    assert islands["", ("float (to_copy)", "mul")].why == "the model's own code converts to fp32"
    shares = [island.share for island in find_islands(trace, costs_of(trace))]
    assert shares == sorted(shares, reverse=True)
    wide = [row for row in trace.rows if row.computed_in == "float32"]
    seconds = sum(map(costs_of(trace).with_casts, wide))
    assert sum(shares) == pytest.approx(seconds / trace.digest.seconds)


def test_attention_is_named_by_its_kernel():
    class Attends(nn.MultiheadAttention):
        def forward(self, x):
            return super().forward(x, x, x, need_weights=False)[0]

    x = torch.randn(2, 8, 64)
    model = nn.Sequential(*(Attends(64, 4, batch_first=True) for _ in range(2)))
    words = dict(explain_autocast(model, x, gpu="a100").digest.summary())["attention"]
    assert words.startswith("flash kernel ×2, because ")
    labels = [n.own_ops for n in explain_autocast(model, x, gpu="a100").digest.tree.walk()]
    assert sum("attention [flash]" in label for label in labels) > 0
    masked = Of(lambda m, x: F.scaled_dot_product_attention(x, x, x, x[..., :1] > 0))
    trace = explain_autocast(masked, x[:, None], gpu="t4", dtype=torch.bfloat16)
    assert dict(trace.digest.summary())["attention"].startswith("math (keeps")
    reported = " ".join(trace.text().split())
    assert "attention runs in" in " ".join(trace.notes)
    assert "attention runs in" not in reported  # the summary says it
    assert all(note in reported for note in trace.digest.notes)
    assert "[math]" not in trace.text()


def as_if_larger(trace: Explanation, factor: int) -> Explanation:
    """The same ops with more work in each."""
    rows = tuple(
        replace(row, flops=row.flops * factor, bytes_moved=row.bytes_moved * factor)
        for row in trace.rows
    )
    return Explanation(**{f.name: getattr(trace, f.name) for f in fields(Trace)} | {"rows": rows})


def test_where_launches_decide_no_time_is_told():
    small, large = explained("gpt"), as_if_larger(explained("gpt"), 10**6)
    assert small.digest.launches_decide
    assert not large.digest.launches_decide
    unit = re.compile(r"\d (ns|µs|ms|s)\b")
    report = dict(small.digest.summary())
    assert report.pop("time").startswith("kernel launches decide")
    assert not any(map(unit.search, report.values()))
    report = dict(large.digest.summary())
    assert " or more for a forward on one H200" in report["time"]
    assert unit.search(report["casts a step"])
    for form in (Explanation.text, Explanation.to_html):
        parts = [form(t).partition("FP32 islands")[2] for t in (small, large)]
        assert [bool(unit.search(part)) for part in parts] == [False, True]
    (time,) = (f for f in compare(small, large).figures if "peak" in f.name)
    assert time.before == "launches decide on H200" != time.after


def test_saved_bytes_without_a_ratio_are_still_a_sentence():
    trace = explained("mlp")
    report = {}
    for fp32 in (None, 0, trace.totals.saved_amp * 2):
        totals = replace(trace.totals, saved_fp32=fp32)
        report[fp32] = dict(replace(trace, totals=totals).digest.summary())["saved"]
    assert [words.partition(" for backward")[2] for words in report.values()] == [
        "",
        ", 0 bytes without autocast",
        ", 0.50 times the 109.0 KiB without autocast",
    ]


def test_values_beside_fake_tensors_are_not_called_real():
    report = [
        replace(as_trace(explained("mlp", device)), values="real") for device in ("cuda", "cpu")
    ]
    cuda, cpu = (made_with(trace, None) for trace in report)
    assert "fake CUDA tensors, with real numbers on the CPU beside them" in cuda
    assert "real tensors" in cpu


def test_no_islands_without_a_16_bit_sea():
    assert find_islands(explain_autocast(nn.LayerNorm(8), torch.randn(2, 8))) == ()


def test_islands_of_blocks_are_one():
    trace = explained("gpt")
    counts = {island.module: island.count for island in find_islands(trace, costs_of(trace))}
    assert counts["blocks.*.norm1"] == 3


def sizes_of(trace: Trace) -> dict[str, tuple[int, int, int]]:
    return {m.name.split()[0]: (m.size, m.padded, m.count) for m in find_misfits(trace)}


def test_sizes_that_tensor_cores_do_not_like():
    model = nn.Sequential(nn.Linear(16, 50257), nn.Linear(50257, 12))
    found = find_misfits(explain_autocast(model, torch.randn(24, 16)))
    assert [(m.name, m.size, m.padded) for m in found] == [
        ("outputs", 50257, 50264),
        ("inputs", 50257, 50264),
        ("outputs", 12, 16),
    ]
    assert found[0].modules == ("0",)
    assert sizes_of(explain_autocast(model, torch.randn(24, 16), device="cpu")) == {}
    # Rows aren't contiguous in memory, so cuBLAS asks nothing of them.
    assert sizes_of(explain_autocast(nn.Linear(16, 8), torch.randn(591, 16))) == {}
    assert sizes_of(explain_autocast(nn.Linear(16, 8), torch.randn(1, 16))) == {}
    assert sizes_of(explain_autocast(nn.Linear(16, 8).double(), torch.randn(9, 16).double())) == {}


def test_channels_that_tensor_cores_do_not_like():
    images = torch.randn(2, 3, 8, 8)
    layers = nn.Conv2d(3, 12, 3), nn.Conv2d(12, 16, 3)
    assert [
        (m.name, m.size, m.padded)
        for m in find_misfits(explain_autocast(nn.Sequential(*layers), images))
    ] == [
        ("channels in", 12, 16),
        ("channels out", 12, 16),
    ] or sizes_of(explain_autocast(nn.Sequential(*layers), images)) == {"channels": (12, 16, 1)}
    depthwise = nn.Conv2d(12, 12, 3, groups=12)
    assert find_misfits(explain_autocast(depthwise, torch.randn(2, 12, 8, 8))) == ()


def test_what_casts_cost():
    def forward(m, x):
        x = m.norm(x)  # float32: cast once for each of the three
        return m.a(x) + m.a(x) + m.b(x)

    linear = {"bias": False}
    model = Of(
        forward, norm=nn.LayerNorm(64), a=nn.Linear(64, 64, **linear), b=nn.Linear(64, 64, **linear)
    )
    trace = explain_autocast(model, torch.randn(32, 64))
    casting = casting_of(trace, costs_of(trace))
    assert (casting.count, casting.repeats, casting.spared) == (5, 2, 1)
    assert casting.repeat_bytes == 2 * 6 * 32 * 64
    assert casting.spared_bytes == 6 * 64 * 64
    assert casting.bytes_moved == 6 * (3 * 32 * 64 + 2 * 64 * 64)
    assert casting.seconds == pytest.approx(casting.bytes_moved / 4.8e12)
    assert sum(place.bytes_moved for place in casting.places) == casting.bytes_moved


# ---- text ---------------------------------------------------------------------------------------


@every
@pytest.mark.parametrize("width", [40, 61, 80, 133])
def test_no_line_is_too_long_and_no_word_is_lost(name, device, width):
    trace = explained(name, device)
    options = {"depth": 9, "top": 9, "ops": True}
    lines = trace.text(width, **options).splitlines()
    assert max(map(len, lines)) <= width
    if width >= 80:  # narrower, numbers stand below the names, each with its head
        words, all_words = (trace.text(w, **options).split() for w in (width, 300))
        assert Counter("".join(words)) == Counter("".join(all_words))
        assert all(len(word) > 30 for word in Counter(all_words) - Counter(words))


def test_names_longer_than_a_line_are_shown_whole():
    name, kind = "a_very_" + "long_" * 30 + "name", type("Kind" * 40, (nn.Linear,), {})
    trace = explain_autocast(
        Of(lambda m, x: m.get_submodule(name)(x), **{name: kind(8, 9)}), torch.randn(16, 8)
    )
    for width in (40, 80):
        text = trace.text(width, ops=True)
        assert max(map(len, text.splitlines())) <= width
        seen = re.sub(r"\s", "", text)
        assert name in seen
        assert "Kind" * 40 in re.sub(r"\d|<|%|K|M|fp16", "", seen).replace("ind", "Kind")


def test_the_summary_fits_on_half_a_screen():
    for name in EXAMPLES:
        text = explained(name).text(80, summary=True)
        assert 8 <= len(text.splitlines()) <= 20
        assert text in explained(name).text(80)


def test_options_of_the_text():
    trace = explained("gpt")
    assert "blocks.0–2 ×3 Block" in trace.text(depth=1)
    assert "norm1" not in trace.text(depth=1).partition("FP32 islands")[0].partition("By module")[2]
    assert "norm1 ×3 LayerNorm" in trace.text(depth=2)
    assert "smaller modules" in trace.text(depth=2, top=1)
    assert "\nOps\n" in trace.text()
    assert "\nOps\n" not in trace.text(ops=False)
    assert "\nOps\n" not in replace_rows(trace, 41).text()
    assert "\nOps\n" in replace_rows(trace, 41).text(ops=True)


def replace_rows(trace: Explanation, count: int) -> Explanation:
    rows = tuple(replace(trace.rows[-1], number=i) for i in range(count))
    return Explanation(**{f.name: getattr(trace, f.name) for f in fields(Trace)} | {"rows": rows})


def test_every_hazard_stands_with_its_fix_and_lesson():
    trace = with_hazards(
        Hazard(
            "kind one", "raises", ("a",), "op", ("x.py:1",), "bad", "do this", 3, "losses_and_ops"
        ),
        Hazard("kind two", "watch", ("",), "op", (), "less bad", "do that", 1, "no such topic"),
    )
    text = trace.text(80)
    assert "✘ raises: kind one in a (x.py:1) ×3" in text
    assert "Fix: do this" in text
    assert re.search(r"Lesson 08: \w+", text)
    assert text.count("Lesson") == 1
    assert "1 raises an error, 1 to watch" in text
    assert 'href="08_losses_and_ops.ipynb"' in trace._repr_html_()
    assert "href" not in trace.to_html()


def with_hazards(*hazards: Hazard) -> Explanation:
    trace = explained("mlp")
    return Explanation(
        **{f.name: getattr(trace, f.name) for f in fields(Trace)} | {"hazards": hazards}
    )


def test_numbers_in_few_characters():
    assert [short(n) for n in (0, 7, 999, 1000, 99_950, 999_600, 1.5e12)] == [
        "0", "7", "999", "1.0K", "100K", "1.0M", "1.5T",
    ]  # fmt: skip
    assert [short(n, 1024) for n in (1023, 1024, 498 * 2**20, 1023 * 2**20)] == [
        "1023", "1.0K", "498M", "1.0G",
    ]  # fmt: skip
    assert all(len(short(10**n * m)) <= 5 for n in range(16) for m in (1, 4.5, 9.96))
    assert [percent(s) for s in (0, 0.001, 0.61, 0.999, 1)] == ["0", "<1%", "61%", ">99%", "100%"]
    assert [duration(s) for s in (1.5, 2.22e-3, 3.1e-5, 7e-8)] == [
        "1.5 s",
        "2.22 ms",
        "31 µs",
        "70 ns",
    ]
    assert flop(545e9) == "545 GFLOP"
    assert flop(12) == "12 FLOP"
    assert ranges([7, 0, 2, 1, 5, 8]) == "0–2, 5, 7–8"
    assert pattern("h.3.layer1.0") == "h.*.layer1.*"


# ---- HTML ---------------------------------------------------------------------------------------


class Balanced(HTMLParser):
    """Refuses markup whose elements don't close in order."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.words = [], Counter(), []

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, words):
        self.words.append(words)


def parsed(markup: str) -> Balanced:
    parser = Balanced()
    parser.feed(markup)
    parser.close()
    assert parser.open == []
    return parser


@every
def test_the_markup_is_whole(name, device):
    trace = explained(name, device)
    for markup in (trace._repr_html_(), trace.to_html()):
        parser = parsed(markup)
        assert parser.tags["details"] == parser.tags["summary"] > 1
        assert markup.count('<tr class="op"') == len(trace.rows)
        assert "http" not in markup  # nothing is fetched
        assert "<script" not in markup


def test_every_word_is_escaped():
    evil = "<b onmouseover='x()'>&\""
    trace = explained("mlp")
    rows = tuple(replace(r, path=evil, op=f"aten::{evil}", where=evil, call="") for r in trace.rows)
    data_of = {f.name: getattr(trace, f.name) for f in fields(Trace)}
    hazard = Hazard(evil, "raises", (evil,), evil, (evil,), evil, evil, 2, "losses_and_ops")
    bad = Explanation(
        **data_of
        | {"model": evil, "rows": rows, "hazards": (hazard,), "notes": (evil,)}
        | {"modules": (Module(evil, evil, 1, 1, 1, evil),), "torch": evil}
    )
    for markup in (bad._repr_html_(), bad.to_html()):
        parser = parsed(markup)
        assert parser.tags["b"] == 0
        assert "<b " not in markup
        assert any(evil in words for words in parser.words)


def test_a_notebook_stores_no_endless_tree():
    model = nn.Sequential()
    for width in range(8, 108):  # all of them differ
        model.append(nn.Sequential(nn.Linear(width, width + 1), nn.ReLU(), nn.Identity()))
    trace = explain_autocast(model, torch.randn(4, 8))
    assert trace._repr_html_().count("ReLU") == 0
    assert "1 of 2 levels" in trace._repr_html_()
    assert trace.to_html().count("ReLU") == 100


def test_a_notebook_stores_no_endless_table():
    large = replace_rows(explained("mlp"), 401)
    assert '<tr class="op"' not in large._repr_html_()
    assert "401" in large._repr_html_()
    assert large.to_html().count('<tr class="op"') == 401


# ---- JSON ---------------------------------------------------------------------------------------


def as_trace(trace: Explanation) -> Trace:
    return Trace(**{f.name: getattr(trace, f.name) for f in fields(Trace)})


@every
def test_json_comes_back_as_it_went(name, device, tmp_path):
    trace = explained(name, device)
    file = tmp_path / "a.json"
    file.write_text(trace.to_json())
    assert data.read(file) == as_trace(trace)


KEYS = {
    "format", "version", "model", "device", "dtype", "torch", "gpu", "values", "notes", "rows",
    "modules", "hazards", "totals", "estimate", "tree", "casting", "islands", "not_run", "sizes",
}  # fmt: skip


def test_the_keys_of_the_json_are_a_contract():
    report = json.loads(explained("gpt").to_json())
    assert set(report) == KEYS
    for key in KEYS:
        assert f"``{key}``" in data.__doc__
    assert set(report["totals"]) == {f.name for f in fields(Totals)} | set(data._DERIVED)
    assert set(report["tree"]["total"]) == {f.name for f in fields(Sums)}
    assert report["tree"]["total"]["saved"] == report["totals"]["saved_amp"]
    assert report["estimate"]["forward_seconds"] > report["estimate"]["cast_seconds"] > 0
    lines = explained("gpt").to_json().splitlines()
    assert sum(line.startswith('  {"number"') for line in lines) == len(report["rows"])


def test_a_later_version_may_add_keys():
    report = json.loads(explained("mlp").to_json())
    report["rows"][0]["news"] = report["hazards_too"] = 1
    assert data.from_dict(report) == as_trace(explained("mlp"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot read"),
        ("{", "is not JSON"),
        ("[1]", "is not a report"),
        ('{"rows": []}', "is not a report"),
        (json.dumps({"format": data.FORMAT, "version": 99}), "version 99"),
        (json.dumps({"format": data.FORMAT, "version": data.VERSION}), "damaged"),
    ],
)
def test_files_that_are_not_ours_are_refused(tmp_path, content, words):
    file = tmp_path / "a.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(data.NotAReport, match=words) as raised:
        data.read(file)
    assert "\n" not in str(raised.value)
    assert "--json >" in str(raised.value)


# ---- differences --------------------------------------------------------------------------------


def diff_text(before: Trace, after: Trace) -> str:
    return "\n".join(line.text for line in lines_of_changes(compare(before, after), 80))


@every
def test_equal_runs_have_no_difference(name, device):
    trace = explained(name, device)
    assert compare(trace, trace).empty
    assert "Nothing changed" in diff_text(trace, trace)


class Blocks(nn.Module):
    """Blocks with a planted difference."""

    def __init__(self, activation):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.activation = activation

    def forward(self, x):
        for block in self.blocks:
            x = self.activation(block(x))
        return x


def blocks(activation, **options):
    return explain_autocast(Blocks(activation), torch.randn(8, 16), **options)


def test_a_planted_op_is_found():
    changes = compare(blocks(torch.relu), blocks(lambda x: torch.relu(torch.exp(x))))
    assert [(c.op, c.count, c.after) for c in changes.new] == [("exp", 4, "fp32")]
    assert changes.gone == ()
    assert [(c.op, c.before, c.after, c.count) for c in changes.dtypes] == [
        ("relu", "fp16", "fp32", 4)
    ]
    assert changes.saved[0].before != changes.saved[0].after
    assert {f.name for f in changes.figures} >= {"ops", "casts, forward", "saved for backward"}
    back = compare(blocks(lambda x: torch.relu(torch.exp(x))), blocks(torch.relu))
    assert [(c.op, c.count) for c in back.gone] == [("exp", 4)]


def test_a_swap_of_the_16_bit_dtype_is_one_line():
    changes = compare(blocks(torch.relu), blocks(torch.relu, dtype=torch.bfloat16))
    assert changes.swapped == 8
    assert not changes.dtypes
    text = diff_text(blocks(torch.relu), blocks(torch.relu, dtype=torch.bfloat16))
    assert "8 ops: fp16 → bf16" in text
    # One that goes to float32 as well is more than the swap.
    mixed = blocks(lambda x: torch.relu(x.float()).bfloat16(), dtype=torch.bfloat16)
    assert not compare(blocks(torch.relu), mixed).empty


def test_hazards_gone_and_new():
    bad = blocks(lambda x: x + 1e-8 if x.dtype == torch.half else x)
    fill = blocks(lambda x: x.masked_fill(x > 0, -1e9))
    changes = compare(bad, fill)
    assert [h.kind for h in changes.hazards_new] == [h.kind for h in fill.hazards]
    assert [h.kind for h in compare(fill, bad).hazards_gone] == [h.kind for h in fill.hazards]
    assert f"Fix: {fill.hazards[0].fix}" in " ".join(diff_text(bad, fill).split())
    assert "Fix: " not in diff_text(fill, bad)  # it is gone
    assert "New hazards" in diff_text(bad, fill)
    assert "Hazards that are gone" in diff_text(fill, bad)
    assert compare(fill, fill).empty


def test_a_hazard_in_one_more_place_is_new():
    trace = with_hazards(Hazard("kind", "watch", ("a.0",), "op", (), "message", "fix"))
    wider = with_hazards(Hazard("kind", "watch", ("a.1", "b"), "op", (), "message", "fix", 2))
    assert len(compare(trace, wider).hazards_new) == 1
    assert compare(wider, trace).hazards_gone
    moved = with_hazards(Hazard("kind", "watch", ("a.7",), "op", (), "message", "fix"))
    assert compare(trace, moved).hazards_new == ()


def test_another_model_is_refused():
    with pytest.raises(OtherModel, match=r"GPT.*Blocks"):
        compare(explained("gpt"), blocks(torch.relu))
    renamed = Explanation(
        **{f.name: getattr(explained("gpt"), f.name) for f in fields(Trace)} | {"model": "New"}
    )
    assert compare(explained("gpt"), renamed).empty


def test_a_difference_fits_on_a_screen():
    text = diff_text(explained("gpt"), explained("gpt", "cpu"))
    assert len(text.splitlines()) <= 50
    assert max(map(len, text.splitlines())) <= 80
    report = json.loads(compare(explained("gpt"), explained("gpt", "cpu")).to_json())
    assert report["before"]["device"] == "cuda"
    assert report["empty"] is False
    assert [set(change) for change in report["dtypes"]] == [
        {"module", "op", "before", "after", "count"}
    ] * len(report["dtypes"])


def test_the_page_of_a_difference_holds_both_reports():
    before, after = explained("gpt"), explained("gpt", "cpu")
    changes = compare(before, after)
    markup = changes_page.whole(changes)
    parser = parsed(markup)
    assert parser.tags["html"] == parser.tags["style"] - 1 == parser.tags["h1"] == 1
    assert parser.tags["details"] == parser.tags["summary"]
    assert markup.count('<tr class="op"') == len(before.rows) + len(after.rows)
    assert "http" not in markup
    assert "<script" not in markup
    words = "".join(parser.words)
    top = words.partition("Before: ")[0]
    for figure in (*changes.figures, *changes.casts, *changes.saved):
        assert figure.before in top
        assert figure.after in top
    assert all(change.op in top for change in changes.dtypes)
    order = [words.index(title) for title in ("Totals that differ", "Before: GPT", "After: GPT")]
    assert order == sorted(order)


def test_the_page_of_a_difference_names_hazards_and_swaps():
    bad = blocks(lambda x: x.masked_fill(x > 0, -1e9))
    fine = blocks(torch.relu, dtype=torch.bfloat16)
    words = "".join(parsed(changes_page.whole(compare(bad, fine))).words)
    gone, new = words.partition("Before: ")[0], changes_page.whole(compare(fine, bad))
    assert "Hazards that are gone: 1" in gone
    assert bad.hazards[0].fix in gone
    assert "New hazards: 1" in new
    for title in ("Ops that are gone", "New ops", "Ops in another dtype"):
        assert title in gone
    assert "the whole model" in gone
    same = changes_page.whole(compare(bad, bad))
    assert "Nothing changed" in same
    assert "Totals that differ" not in same


def test_the_page_of_a_difference_escapes_every_word():
    evil = "<b onmouseover='x()'>&\""
    trace = explained("mlp")
    rows = tuple(replace(r, path=evil, op=f"aten::{evil}", call="") for r in trace.rows)
    hazard = Hazard(evil, "raises", (evil,), evil, (evil,), evil, evil)
    bad = replace(
        as_trace(trace), rows=rows, hazards=(hazard,), modules=(Module(evil, evil, 1),), torch=evil
    )
    markup = changes_page.whole(compare(as_trace(trace), bad))
    assert parsed(markup).tags["b"] == 0
    assert "<b " not in markup


# ---- the command --------------------------------------------------------------------------------


def run(capsys, *words: str) -> tuple[int, str, str]:
    status = 0
    try:
        cli.main(["explain", *words])
    except SystemExit as leaving:
        status = int(leaving.code or 0)
    out = capsys.readouterr()
    return status, out.out, out.err


@pytest.fixture
def bad_model(tmp_path, monkeypatch):
    (tmp_path / "own_bad_model.py").write_text(
        "import torch\n"
        "class Bad(torch.nn.Linear):\n"
        "    def forward(self, x):\n"
        "        x = super().forward(x)\n"
        "        return x.masked_fill(x > 0, -1e9)\n"
        "def make(): return Bad(8, 8), torch.randn(4, 8)\n"
        "def fine(): return torch.nn.Linear(8, 8), torch.randn(4, 8)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return "own_bad_model:make"


def test_fail_on(capsys, bad_model):
    status, out, err = run(capsys, bad_model, "--fail-on", "raises")
    assert status == 1
    assert "Bad under autocast" in out
    (line,) = err.strip().splitlines()
    assert "constant beyond the format" in line
    assert "Fix:" in line
    assert run(capsys, bad_model)[0] == 0
    assert run(capsys, "own_bad_model:fine", "--fail-on", "raises", "--fail-on", "overflow")[0] == 0
    assert run(capsys, bad_model, "--fail-on", "nonsense")[0] == 2


def test_what_fails():
    raises = Hazard("a", "raises", ("x",), "op", (), "m", "f")
    inf = Hazard("b", "watch", ("y",), "op", (), "m", "f", overflows=True)
    assert first_failure((raises, inf), ("raises",)).startswith("--fail-on raises: a in x")
    assert first_failure((raises, inf), ("overflow",)).startswith("--fail-on overflow: b in y")
    assert first_failure((inf,), ("raises",)) == ""
    assert first_failure((raises, inf), ()) == ""


def test_the_command_writes_a_page_and_compares(capsys, bad_model, tmp_path):
    status, out, _ = run(capsys, bad_model, "--json")
    (tmp_path / "a.json").write_text(out)
    assert status == 0
    status, out, _ = run(capsys, bad_model, "--summary", "--html", "page.html")
    assert "By module" not in out
    assert parsed((tmp_path / "page.html").read_text()).tags["html"] == 1
    assert "Nothing changed" in run(capsys, bad_model, "--diff", "a.json")[1]
    status, out, _ = run(capsys, bad_model, "--diff", "a.json", "--dtype", "bfloat16")
    assert "Hazards that are gone" in out
    words = (bad_model, "--diff", "a.json", "--dtype", "bfloat16", "--html", "diff.html")
    assert run(capsys, *words)[1] == out
    page = (tmp_path / "diff.html").read_text()
    assert "What changed in Bad" in page
    assert page.count("Bad under autocast") == 2  # a title to unfold for each
    report = json.loads(run(capsys, bad_model, "--diff", "a.json", "--json")[1])
    assert report["empty"] is True


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--diff", "no_such.json"), "cannot read no_such.json"),
        (("--html", "no/such/folder/page.html"), "cannot write"),
    ],
)
def test_bad_files_are_one_line(capsys, bad_model, words, message):
    status, _, err = run(capsys, bad_model, *words)
    assert status == 1
    (line,) = err.strip().splitlines()
    assert message in line


def test_a_pipe_gets_plain_lines(capsys, bad_model):
    _, out, _ = run(capsys, bad_model, "--ops")
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 80
    _, again, _ = run(capsys, bad_model, "--depth", "0", "--top", "1", "--no-ops")
    assert len(again) < len(out)


# ---- the page of command lines ------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "your_model.md"


def blocks_of_code(page: str) -> list[str]:
    """The indented blocks of a page, without their indent."""
    found = re.findall(r"(?:^ {4}.*\n|^\n(?= {4}))+", page, re.MULTILINE)
    return [re.sub(r"^ {4}", "", block, flags=re.MULTILINE).strip("\n") for block in found]


def shown_commands() -> list[tuple[str, str]]:
    """Each command of the page with the output that stands below it, but for the comparison."""
    page = PAGE.read_text(encoding="utf-8").replace("\\\n", "")
    blocks = [block for block in blocks_of_code(page) if block.startswith("$ amp-lessons")]
    blocks = [block for block in blocks if "--diff" not in block]
    both = (part.partition("\n") for block in blocks for part in block.split("$ amp-lessons ")[1:])
    return [(command, output) for command, _, output in both]


def param_of(command: str) -> Any:
    """The command as a test; those that build a large model are long."""
    large = "--hf" in command or "--timm" in command
    return pytest.param(command, marks=[pytest.mark.long] if large else [], id=command[:60])


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the page shows 2.13")
@pytest.mark.parametrize("command", [param_of(command) for command, _ in shown_commands()])
def test_the_page_shows_what_the_commands_print(command, capsys, tmp_path, monkeypatch):
    blocks = blocks_of_code(PAGE.read_text(encoding="utf-8"))
    (train,) = (block for block in blocks if block.startswith("import torch"))
    (config,) = (block for block in blocks if block.startswith('{"architectures"'))
    (tmp_path / "train.py").write_text(train)
    (tmp_path / "config.json").write_text(config)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    with contextlib.suppress(SystemExit):
        cli.main(shlex.split(command))
    printed = capsys.readouterr()
    words = " ".join(f"{printed.out} {printed.err}".split())
    for part in filter(str.strip, re.split(r"^…$", dict(shown_commands())[command], flags=re.M)):
        before, found, words = words.partition(" ".join(part.split()))
        assert found, f"not printed: {part}\nbut: {before}"


@pytest.mark.long
@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the page shows 2.13")
def test_the_page_shows_what_a_comparison_prints(capsys, tmp_path, monkeypatch):
    blocks = blocks_of_code(PAGE.read_text(encoding="utf-8"))
    (diff,) = (b for b in blocks if b.startswith("$ amp-lessons") and "--diff" in b)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    gpt2 = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2"}
    for folder, kind in (("old", "gelu_new"), ("new", "gelu_pytorch_tanh")):
        (tmp_path / folder).mkdir()
        about = gpt2 | {"activation_function": kind}
        (tmp_path / folder / "config.json").write_text(json.dumps(about))
    _, before, after = diff.split("$ amp-lessons explain ")
    report = run(capsys, *shlex.split(before.partition(">")[0]))[1]
    (tmp_path / "before.json").write_text(report)
    command, _, shown = after.partition("\n")
    printed = " ".join(run(capsys, *shlex.split(command))[1].split())
    for part in re.split(r"^…$", shown, flags=re.M):
        assert " ".join(part.split()) in printed


def test_the_page_shows_eight_commands():
    # The last of the six examples has two, and one stands where the page says what did not run.
    assert len(shown_commands()) == 8
    assert sum(bool(output) for _, output in shown_commands()) == 8
