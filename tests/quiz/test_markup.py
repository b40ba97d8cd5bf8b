"""Questions as HTML, SVG and text: nothing of the answer in a view, all of it in a static form."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

from amp_lessons.quiz import bank, markup
from amp_lessons.quiz.curves import ROWS, plot_svg, plot_table
from amp_lessons.quiz.items import ChoiceItem, NumberItem, OrderItem, Plot

BANK = bank.load()
EVERYTHING = [*BANK.items, *BANK.predictions]
PLOTS = [item for item in EVERYTHING if item.plot]


class Balanced(HTMLParser):
    """Refuses tags that are not closed in their order."""

    VOID = ("br", "hr", "img", "input", "path", "polyline")

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def is_balanced(text):
    parser = Balanced()
    parser.feed(text)
    return parser.open == []


def test_view_holds_nothing_of_the_answer(subtests):
    for item in EVERYTHING:
        with subtests.test(item.id):
            view_holds_nothing_of_the_answer(item)


def view_holds_nothing_of_the_answer(item):
    view = json.dumps(markup.view(item))
    shown = json.dumps([item.prompt, item.code, item.log, item.hint])
    for part in (*getattr(item, "choices", ()), *getattr(item, "mistakes", ())):
        assert json.dumps(markup.to_html(part.why))[1:-1] not in view
    if isinstance(item, NumberItem):
        assert json.dumps(markup.to_html(item.explanation))[1:-1] not in view
    if item.proof and item.proof not in shown:
        assert item.proof not in view
    assert '"right"' not in view


def test_static_form_folds_the_whole_answer(subtests):
    for item in EVERYTHING:
        with subtests.test(item.id):
            static_form_folds_the_whole_answer(item)


def static_form_folds_the_whole_answer(item):
    page = markup.static_html(item)
    question, folded = page.split("<details>")
    assert is_balanced(page)
    for part in (*getattr(item, "choices", ()), *getattr(item, "mistakes", ())):
        why = markup.inline_html(part.why)
        assert why in folded
        assert why not in question
    if isinstance(item, ChoiceItem):
        for choice in item.choices:
            assert markup.choice_html(item, choice.text) in question
    text = markup.static_text(item)
    assert item.prompt in text
    assert "right" not in text.split(item.prompt)[0]


def test_a_line_to_order_is_code_or_a_sentence():
    assert markup.line_html("x = 1").startswith("<code>")
    assert markup.line_html("# leave the region") == "leave the region"


def test_markdown_cannot_bring_html_along():
    assert "<script>" not in markup.to_html("a <script>alert(1)</script>")
    assert "&lt;b&gt;" in markup.inline_html("<b>")


def test_plots_carry_their_text_and_fit_a_terminal(subtests):
    assert PLOTS
    for item in PLOTS:
        with subtests.test(item.id):
            root = ElementTree.fromstring(plot_svg(item.plot))
            assert root.get("role") == "img"
            assert len(root.get("aria-label")) > 30
            table = plot_table(item.plot)
            assert all(len(line) <= 80 for line in table.splitlines())
            assert len(table.splitlines()) <= ROWS + 4


def test_gaps_in_a_curve_are_not_drawn():
    plot = Plot(x="step", y="loss", alt="x", series={"a": (1.0, 2.0, float("inf"), 3.0, 4.0)})
    assert plot_svg(plot).count("<polyline") == 2
    assert re.search(r"2\s+inf", plot_table(plot))


def test_a_logarithmic_plot_leaves_out_what_has_no_logarithm():
    plot = Plot(x="step", y="norm", alt="x", log=True, series={"a": (1e-8, 0.0, 1.0, 1.0)})
    assert "nan" not in plot_svg(plot)
    assert plot_svg(plot).count("<polyline") == 2


def test_one_flat_curve_is_drawn():
    plot = Plot(x="step", y="loss", alt="x", series={"a": (2.3, 2.3)})
    assert "nan" not in plot_svg(plot)


def test_orders_are_shown_shuffled():
    for item in EVERYTHING:
        if isinstance(item, OrderItem):
            places = [line["place"] for line in markup.view(item)["lines"]]
            assert sorted(places) == list(range(len(item.offered)))
            assert places[: len(item.lines)] != list(range(len(item.lines)))
