"""The page that works offline: it marks as Python does, remembers, drills, filters and prints."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect
from small_bank import small_bank
from waiting import wait_until

from amp_lessons.quiz import bank, log, markup
from amp_lessons.quiz.bank import Bank
from amp_lessons.quiz.exports import contents
from amp_lessons.quiz.exports import page as export
from amp_lessons.quiz.items import ChoiceItem, Item, NumberItem, OrderItem
from amp_lessons.quiz.marking import AnswerError, mark, with_unit

Open = Callable[..., Page]


@pytest.fixture
def small(tmp_path: Path) -> Bank:
    return small_bank(tmp_path)


# ---- the file ------------------------------------------------------------------------------------


def test_the_page_is_one_file_that_loads_nothing(small: Bank) -> None:
    text = export.build(small).decode()
    assert "default-src 'none'" in text
    assert not re.search(
        r"<!-- [A-Z]+ -->|<script[^>]+src=|@import|url\(|\bimport\b[^\n]*from", text
    )
    assert not re.search(r"\beval\(|new Function|\bfetch\(|XMLHttpRequest|sendBeacon", text)
    assert set(re.findall(r"<(?:link|img|iframe)\b[^>]*>", text)) == {
        '<link rel="icon" href="data:,">'
    }
    addresses = set(re.findall(r"https?://[\w./-]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}


def test_a_rebuild_gives_the_same_bytes(small: Bank) -> None:
    assert export.build(small) == export.build(small)


@pytest.mark.slow
def test_a_rebuild_of_the_whole_bank_gives_the_same_bytes() -> None:
    assert export.build(bank.load()) == export.build(bank.load())


def test_the_data_holds_each_question_once_and_no_prediction(small: Bank) -> None:
    found = export.data(small)
    asked = [question["id"] for question in found["questions"]]
    assert sorted(asked) == sorted(q.id for q in (*small.items, *small.open))
    assert [lesson["name"] for lesson in found["lessons"]] == ["01 Number formats", "06 GradScaler"]
    assert ["explain", "Explain"] in found["kinds"]
    assert "</" not in export._embedded(found)


# ---- marking in JavaScript -----------------------------------------------------------------------


@pytest.fixture
def modules(chromium: Browser) -> Iterator[Page]:
    """A page with the modules that need no page, as `marking`, `boxes` and `answers`."""
    tab = chromium.new_page()
    tab.set_content("<!doctype html><title>Modules</title>")
    for name in ("marking", "boxes", "answers"):
        text = (contents.STATIC / f"{name}.mjs").read_text(encoding="utf-8")
        assert "import " not in re.sub(r"//.*", "", text)
        names = re.findall(r"^export (?:function|const) (\w+)", text, re.M)
        text = re.sub(r"^export ", "", text, flags=re.M)
        tab.add_script_tag(
            content=f"window.{name} = (() => {{{text}\nreturn {{{','.join(names)}}}}})()"
        )
    yield tab
    tab.close()


def answers_to(item: Item) -> list[Any]:
    """Answers of each sort: right ones, wrong ones, half right ones, and what is none."""
    draw = random.Random(item.id)
    if isinstance(item, ChoiceItem):
        places = range(len(item.choices))
        some = [list(c) for n in places for c in itertools.combinations(places, n + 1)]
        return [*some[:40], [len(item.choices)], [0, len(item.choices)], []]
    if isinstance(item, NumberItem):
        edge = item.tolerance * abs(item.answer)
        near = [
            item.answer + sign * edge * share for sign in (1, -1) for share in (1, 0.999, 1.001)
        ]
        far = [item.answer * factor for factor in (-1, 0, 0.5, 2, 3.14159, 1e4, 1 / 7, 1.1, 1e-9)]
        wrong = [m.value * share for m in item.mistakes for share in (1, 1.0009, 1.0011)]
        return [*near, *far, *wrong, 1e300, math.inf, -math.inf]
    right = list(range(len(item.lines)))
    every = list(range(len(item.offered)))
    swapped = [[*right[:n], right[n + 1], right[n], *right[n + 2 :]] for n in right[:-1]]
    drawn = [draw.sample(every, draw.randint(1, len(every))) for _ in range(40)]
    return [right, right[::-1], right[1:], *swapped, *drawn, [], [0, 0], [len(every)], every]


def python_says(item: Item, answer: Any) -> dict[str, Any]:
    try:
        return markup.feedback(item, mark(item, answer))
    except AnswerError as error:
        return {"error": str(error)}


_MARK = """([question, answers]) => answers.map((text) => {
  const number = { inf: Infinity, "-inf": -Infinity };
  const answer = text in number ? number[text] : JSON.parse(text);
  try { return marking.mark(question, answer); } catch (fault) { return { error: fault.message }; }
})"""


@pytest.mark.browser
@pytest.mark.parametrize("which", ["small", "real"])
def test_the_page_marks_as_python_does(which: str, small: Bank, modules: Page) -> None:
    chosen = small if which == "small" else bank.load()
    tried = 0
    for item in chosen.items:
        answers = answers_to(item)
        texts = [str(a) if a in (math.inf, -math.inf) else json.dumps(a) for a in answers]
        output = modules.evaluate(_MARK, [export.question_data(item), texts])
        for answer, got in zip(answers, output, strict=True):
            assert got == python_says(item, answer), (item.id, answer)
        tried += len(answers)
    assert tried > 100
    print(f"{tried} answers to {len(chosen.items)} items")


@pytest.mark.browser
def test_the_page_writes_numbers_as_python_does(modules: Page) -> None:
    draw = random.Random(1)
    values = [0.0, -0.0, 1.0, 9999.0, 10000.0, -1234567.0, 1e15, 1e16, 1234565 / 10, 1234575 / 10]
    values += [0.5, 0.00001, 0.000123456789, 2**-24, 999999.5, 99999.95, 1e-300, 1.7e308, 1 / 3]
    values += [draw.uniform(-1, 1) * 10 ** draw.uniform(-12, 18) for _ in range(500)]
    values += [draw.randint(1, 2**24) / 2 ** draw.randint(1, 10) for _ in range(500)]  # ties
    output = modules.evaluate("(vs) => vs.map((v) => marking.withUnit(v, 'GB'))", values)
    assert output == [with_unit(value, "GB") for value in values]


# ---- what is remembered --------------------------------------------------------------------------

MORNING = datetime(2026, 3, 2, 9, tzinfo=UTC).timestamp() * 1000
DAY = 86_400_000


def answered(item: str, days: float, score: float = 1.0, sure: bool = True) -> dict[str, Any]:
    at = datetime.fromtimestamp((MORNING + days * DAY) / 1000, UTC)
    return log.LogEntry(at, item, score, sure, "page", 3.0).to_json()


def next_of(
    modules: Page, ids: list[str], entries: list[Any], days: float, recent: list[str]
) -> Any:
    code = """([ids, entries, now, recent]) =>
      boxes.nextId(ids, boxes.standings(entries), now, recent)"""
    return modules.evaluate(code, [ids, entries, MORNING + days * DAY, recent])


@pytest.mark.browser
def test_a_right_answer_waits_longer_each_time_and_a_wrong_one_comes_back(modules: Page) -> None:
    entries: list[Any] = []
    day, waits = 0.0, []
    for _ in range(7):
        entries.append(answered("a", day))
        wait = next(w for w in range(1, 60) if next_of(modules, ["a"], entries, day + w, []) == "a")
        waits.append(wait)
        day += wait
    assert waits == [1, 3, 7, 16, 35, 35, 35]
    entries.append(answered("a", day, score=0.0))
    assert next_of(modules, ["a"], entries, day, []) == "a"
    entries.append(answered("a", day + 0.01))
    assert next_of(modules, ["a"], entries, day + 0.02, []) is None
    assert next_of(modules, ["a"], entries, day + 1, []) == "a"


@pytest.mark.browser
def test_practice_on_one_day_and_guesses_do_not_count_as_memory(modules: Page) -> None:
    crammed = [answered("a", n / 100) for n in range(5)]
    assert next_of(modules, ["a"], crammed, 1, []) == "a"
    guessed = [answered("a", n, sure=False) for n in range(5)]
    assert next_of(modules, ["a"], guessed, 5, []) == "a"


@pytest.mark.browser
def test_what_is_asked_first(modules: Page) -> None:
    ids = ["new", "due", "missed", "later"]
    entries = [answered("due", -5), answered("missed", -1, 0.5), answered("later", 0)]
    assert next_of(modules, ids, entries, 0.1, []) == "missed"
    assert next_of(modules, ids, entries, 0.1, ["missed"]) == "due"
    assert next_of(modules, ids, entries, 0.1, ["due", "missed"]) == "new"
    assert next_of(modules, ids, entries, 0.1, ["missed", "x", "y", "z"]) == "missed"
    others = [answered("other", -1, 0.0), *entries]
    back = ["other", "x", "y", "z", "other"]  # the last one came back: now something else
    assert next_of(modules, ["missed", "other", "new"], others, 0.1, ["missed", *back]) == "new"
    assert next_of(modules, ["missed"], entries, 0.1, ["missed"]) == "missed"
    assert next_of(modules, ["later"], entries, 0.1, []) is None
    assert next_of(modules, [], entries, 0.1, []) is None


@pytest.mark.browser
def test_the_lines_are_those_of_the_log(modules: Page, small: Bank) -> None:
    lines = modules.evaluate(
        """() => answers.toLines([
          answers.entryOf("grad_scaler.skip", 2 / 3, false, 12.345, new Date(1772442000123)),
          answers.entryOf("grad_scaler.skip", 1, true, null, new Date(1772442001000)),
        ])"""
    )
    entries, broken = log._parse(lines)
    assert broken == []
    assert [entry.to_json() for entry in entries] == list(map(json.loads, lines.splitlines()))
    written = "".join(json.dumps(answered("a", n)) + "\n" for n in (1, 0))
    bad = [
        "half a li",
        "[]",
        "null",
        json.dumps(answered("a", 2) | {"v": 2}),
        json.dumps(answered("a", 2) | {"score": 1.5}),
        json.dumps(answered("a", 2) | {"at": "2026-03-02T09:00:00"}),
        json.dumps(answered("a", 2) | {"where": "nowhere"}),
        json.dumps(answered("a", 2) | {"sure": 1}),
    ]
    assert len(log._parse("\n".join(bad))[1]) == len(bad)
    found = modules.evaluate("(text) => answers.parseLines(text)", written * 2 + "\n".join(bad))
    assert found["broken"] == len(bad)
    assert [entry["at"][:10] for entry in found["entries"]] == ["2026-03-02", "2026-03-03"]


# ---- the page ------------------------------------------------------------------------------------


@pytest.fixture
def open_bank(chromium: Browser, tmp_path: Path) -> Iterator[Open]:
    """Open the page of a bank as a file, offline. At the end it may not have complained."""
    complaints: list[str] = []
    contexts = []

    def open_(
        which: Bank, scheme: str = "light", width: int = 900, context: Any = None, **more: Any
    ) -> Page:
        file = tmp_path / "page.html"
        file.write_bytes(export.build(which))
        if context is None:
            size = {"width": width, "height": 800}
            context = chromium.new_context(
                color_scheme=scheme, viewport=size, offline=True, accept_downloads=True, **more
            )
            contexts.append(context)
        tab = context.new_page()
        tab.on("console", lambda m: m.type in ("error", "warning") and complaints.append(m.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on(
            "request",
            lambda r: r.url.startswith(("file:", "data:", "blob:")) or complaints.append(r.url),
        )
        tab.add_init_script("window.printed = 0; window.print = () => { window.printed += 1; };")
        tab.goto(file.as_uri())
        return tab

    yield open_
    for context in contexts:
        context.close()
    assert complaints == []


def go(tab: Page, name: str) -> None:
    tab.get_by_role("button", name=name, exact=True).click()


def filter_by(tab: Page, label: str, option: str) -> None:
    box = tab.locator(".amp-filter-box")
    if box.get_attribute("open") is None:
        box.locator("summary").click()
    tab.get_by_label(label).select_option(label=option)


def stored(tab: Page) -> list[dict[str, Any]]:
    text = tab.evaluate("localStorage.getItem('amp-lessons-answers') ?? ''")
    return [json.loads(line) for line in text.splitlines()]


def reload(tab: Page) -> None:
    """Load the page again, with what it stored.

    In a fresh profile Chromium loses in one of a hundred reloads what the page of a file stored.
    What the page has to do is write and read, and it is put back then.
    """
    kept = tab.evaluate("({...localStorage})")
    assert kept, "the page has stored nothing"
    tab.reload()
    while tab.evaluate("({...localStorage})") != kept:
        tab.evaluate("kept => Object.assign(localStorage, kept)", kept)
        tab.reload()


@pytest.mark.browser
def test_search_and_filters(open_bank: Open, small: Bank) -> None:
    tab = open_bank(small)
    count = tab.locator(".amp-found")
    expect(count).to_have_text("9 questions")
    tab.get_by_label("Search").fill("overflowed GRADIENT")  # in a choice
    expect(count).to_have_text("1 question")
    expect(tab.locator("article")).to_contain_text("What happened at step 3?")
    tab.get_by_label("Search").fill("minus zero")  # in an explanation
    expect(tab.locator("article")).to_contain_text("become zero in FP16")
    tab.get_by_label("Search").fill("nothing of the kind")
    expect(count).to_contain_text("No question fits")
    expect(tab.get_by_role("button", name="Print the questions")).to_be_disabled()
    tab.get_by_label("Search").fill("")
    filter_by(tab, "Lesson", "06 GradScaler")
    expect(count).to_have_text("5 questions")
    filter_by(tab, "Kind", "Put in order")
    expect(count).to_have_text("2 questions")
    filter_by(tab, "Level", "1 Recall")
    expect(count).to_have_text("1 question")
    expect(tab.locator(".amp-filter-box > summary")).to_have_text(
        "Search and filter: 06 GradScaler · Put in order · 1 Recall"
    )


@pytest.mark.browser
def test_an_answer_is_shown_when_it_is_asked_for(open_bank: Open, small: Bank) -> None:
    tab = open_bank(small)
    for article in tab.locator("article").all():
        expect(article.locator(".amp-answer")).to_be_hidden()
        button = article.get_by_role("button", name="Show answer")
        button.focus()
        tab.keyboard.press("Enter")
        expect(article.locator(".amp-answer")).to_be_visible()
        expect(article.get_by_role("button", name="Hide answer")).to_be_focused()
    text = tab.locator("main").inner_text()
    for part in ("(2) is right", "112 GB", "Not 56 GB", "A common slip", "In 30 seconds"):
        assert part in text
    lines = tab.locator("article", has_text="Put these in order").locator(".amp-offered").first
    shown = lines.locator("li").all_inner_texts()
    distractor = "12345"[[line.strip() for line in shown].index("optimizer.step()")]
    assert f"({distractor}) does not belong" in text


ANSWERS = {  # by the prompt's beginning: what to press, and whether it is right
    "What is the largest": ("2", True),
    "Which of these become": ("134", True),
    "How many GB": ("56", False),
    "What does this print": ("1", True),
    "Which line is wrong": ("2", False),
    "What happened at step 3": ("1", True),
}


@pytest.mark.browser
def test_a_drill_by_keyboard_asks_all_kinds_remembers_and_brings_back_what_was_missed(
    open_bank: Open, small: Bank
) -> None:
    tab = open_bank(small)
    tab.get_by_role("button", name="Drill").focus()
    tab.keyboard.press("Enter")
    seen = []
    for _ in range(25):  # what is missed comes again in between
        prompt = tab.locator("main .amp-prompt").inner_text()
        seen.append(prompt)
        known = next((value for key, value in ANSWERS.items() if prompt.startswith(key)), None)
        if known:
            tab.keyboard.type(known[0])
            tab.keyboard.press("Enter")
            expect(tab.locator(".amp-result")).to_have_text(
                "✓ Right" if known[1] else "✗ Not right"
            )
        elif "order" in prompt:
            _answer_order(tab, small, prompt)
        else:
            tab.keyboard.press("Enter")  # "Show a good answer" has the focus
            tab.get_by_role("checkbox").first.check()
            tab.get_by_role("button", name="Note my points").press("Enter")
            expect(tab.locator(".amp-result")).to_have_text("1 of 3 points")
        tab.keyboard.press("n")
        if len(set(seen)) == 9:
            break
    assert len(set(seen)) == 9
    assert len(seen) > 9
    entries = {entry["item"]: entry for entry in stored(tab)}
    assert len(entries) == 9
    missed = {name for name, entry in entries.items() if entry["score"] < 0.75}
    assert missed == {
        "number_formats.bytes",
        "grad_scaler.two_faults",
        "grad_scaler.why_scale",
        "grad_scaler.any_of_two_orders",
    }
    again = {tab.locator("main .amp-prompt").inner_text()}
    for _ in range(3):
        tab.keyboard.press("n")
        again.add(tab.locator("main .amp-prompt").inner_text())
    assert again <= {markup_text(small.find(name).prompt) for name in missed}
    reload(tab)
    filter_by(tab, "Answers", "Missed last time")
    expect(tab.locator(".amp-found")).to_have_text("4 questions")
    filter_by(tab, "Answers", "New")
    expect(tab.locator(".amp-found")).to_contain_text("No question fits")


def markup_text(prompt: str) -> str:
    return prompt.replace("`", "")


def _answer_order(tab: Page, small: Bank, prompt: str) -> None:
    """The clipping item in its order; of the other only the first line, which is wrong."""
    item = small.find("grad_scaler.clip_in_order")
    assert isinstance(item, OrderItem)
    shown = [
        line.strip() for line in tab.get_by_label("Your order").locator("code").all_inner_texts()
    ]
    if prompt == item.prompt:
        for line in item.lines:
            tab.keyboard.press("1234567"[shown.index(line)])
    else:
        tab.keyboard.press("1")
    tab.get_by_role("button", name="Answer", exact=True).press("Enter")
    expected = "✓ Right" if prompt == item.prompt else "✗ Not right"
    expect(tab.locator(".amp-result")).to_have_text(expected)


@pytest.mark.slow
@pytest.mark.browser
def test_the_verdict_is_announced_and_focused_and_n_skips(open_bank: Open, small: Bank) -> None:
    tab = open_bank(small)
    go(tab, "Drill")
    filter_by(tab, "Kind", "One answer")
    tab.locator("main .amp-prompt").click()  # the focus is nowhere: keys are for the question
    tab.keyboard.press("h")
    expect(tab.locator(".amp-hint")).to_have_text("Five exponent bits.")
    tab.keyboard.press("1")
    tab.keyboard.press("Enter")
    verdict = tab.locator(".amp-feedback")
    expect(verdict).to_be_focused()
    assert verdict.get_attribute("aria-live") == "polite"
    tab.keyboard.press("Enter")  # there is no other question of this kind
    expect(tab.locator("main .amp-kind")).to_contain_text("missed last time")
    tab.get_by_label("I'm guessing").check()
    tab.keyboard.press("2")
    tab.keyboard.press("Enter")
    expect(tab.locator(".amp-result")).to_have_text("✓ Right")
    assert [(entry["score"], entry["sure"]) for entry in stored(tab)] == [(0, True), (1, False)]
    tab.keyboard.press("n")
    expect(tab.locator(".amp-done")).to_contain_text("all for today")
    tab.get_by_role("button", name="Practise all the same").click()
    expect(tab.locator("main .amp-kind")).to_contain_text("answered")


@pytest.mark.browser
def test_a_number_that_is_none_gets_a_line_and_is_not_logged(open_bank: Open, small: Bank) -> None:
    tab = open_bank(small)
    go(tab, "Drill")
    filter_by(tab, "Kind", "A number")
    tab.get_by_label("Your answer, in GB").fill("a lot")
    tab.keyboard.press("Enter")
    expect(tab.get_by_role("alert")).to_have_text(
        "'a lot' is not a number; answer in GB, such as 112 GB, 0.2*65536, 1/3 or 2^-24."
    )
    assert stored(tab) == []
    tab.get_by_label("Your answer, in GB").fill("112 GB")
    tab.keyboard.press("Enter")
    expect(tab.locator(".amp-result")).to_have_text("✓ Right")


@pytest.mark.slow
@pytest.mark.browser
def test_answers_go_into_the_log_of_the_terminal_and_back(
    open_bank: Open, small: Bank, tmp_path: Path
) -> None:
    tab = open_bank(small)
    go(tab, "Drill")
    filter_by(tab, "Kind", "One answer")
    tab.get_by_role("radio").nth(1).check()
    tab.keyboard.press("Enter")
    expect(tab.locator(".amp-result")).to_be_visible()
    go(tab, "Progress")
    expect(tab.locator("tbody tr").first).to_have_text("01 Number formats4110")
    with tab.expect_download() as download:
        go(tab, "Export answers")
    taken = tmp_path / "taken.jsonl"
    download.value.save_as(taken)
    assert download.value.suggested_filename == "amp-lessons-answers.jsonl"
    added, merged = log.merge(taken)
    assert (added, merged.warnings) == (1, [])
    assert [(e.item, e.score, e.where) for e in merged.entries] == [
        ("number_formats.largest", 1.0, "page")
    ]
    log.append(log.LogEntry(datetime(2026, 1, 5, tzinfo=UTC), "grad_scaler.two_faults", 0.0))
    with tab.expect_file_chooser() as chooser:
        go(tab, "Import answers")
    chooser.value.set_files(log.log_file())
    output = tab.locator(".amp-told")
    expect(output).to_have_text("1 answer imported from quiz.jsonl, 1 were here before.")
    assert len(stored(tab)) == 2
    bad = tmp_path / "bad.txt"
    bad.write_text("nothing\n", encoding="utf-8")
    with tab.expect_file_chooser() as chooser:
        go(tab, "Import answers")
    chooser.value.set_files(bad)
    expect(output).to_contain_text("bad.txt holds no answers")
    go(tab, "Forget all")
    assert len(stored(tab)) == 2
    go(tab, "Press again to forget all")
    expect(output).to_have_text("Forgot 2 answers.")
    assert stored(tab) == []


@pytest.mark.slow
@pytest.mark.browser
def test_two_tabs_keep_each_others_answers(open_bank: Open, small: Bank) -> None:
    first = open_bank(small)
    second = open_bank(small, context=first.context)
    for number, (tab, kind) in enumerate(((first, "One answer"), (second, "Find the fault")), 1):
        go(tab, "Drill")
        filter_by(tab, "Kind", kind)
        tab.get_by_role("radio").first.check()
        tab.keyboard.press("Enter")
        expect(tab.locator(".amp-result")).to_be_visible()
        for reader in (first, second):  # the browser tells one tab of another's writing, in a while
            wait_until(lambda reader=reader, number=number: len(stored(reader)) == number)


@pytest.mark.slow
@pytest.mark.browser
def test_without_storage_the_page_works_and_says_so(open_bank: Open, small: Bank) -> None:
    tab = open_bank(small)
    tab.context.add_init_script(
        "Object.defineProperty(window, 'localStorage', { get() { throw new Error('no'); } });"
    )
    tab.reload()
    go(tab, "Drill")
    filter_by(tab, "Kind", "One answer")
    tab.get_by_role("radio").first.check()
    tab.keyboard.press("Enter")
    expect(tab.locator(".amp-result")).to_be_visible()
    go(tab, "Progress")
    expect(tab.locator("main")).to_contain_text("export your answers before you close it")
    expect(tab.get_by_role("button", name="Export answers")).to_be_enabled()


@pytest.mark.browser
def test_the_sheets_are_numbered_alike_and_only_the_answers_answer(
    open_bank: Open, small: Bank
) -> None:
    tab = open_bank(small, scheme="dark")
    filter_by(tab, "Lesson", "01 Number formats")
    sheets = {}
    for what in ("questions", "answers"):
        go(tab, f"Print the {what}")
        tab.emulate_media(media="print")
        expect(tab.locator("#page")).to_be_hidden()
        sheet = tab.locator("#sheet")
        sheets[what] = sheet.inner_text()
        numbers = sheet.locator("h2").all_inner_texts()
        assert [text.partition(".")[0] for text in numbers] == ["1", "2", "3", "4"]
        ground = sheet.evaluate("node => getComputedStyle(node).backgroundColor")
        assert ground == "rgb(255, 255, 255)"
        tab.emulate_media(media="screen")
        tab.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert tab.evaluate("printed") == 2
    assert "is right" not in sheets["questions"]
    assert "65504" in sheets["questions"]
    assert "(2) is right" in sheets["answers"]
    tab.evaluate("window.dispatchEvent(new Event('beforeprint'))")  # the browser's own command
    assert "is right" not in tab.locator("#sheet").inner_text()


@pytest.mark.slow
@pytest.mark.browser
def test_the_switch_turns_dark_into_light_and_stays(open_bank: Open, small: Bank) -> None:
    tab = open_bank(small, scheme="dark")
    switch = tab.get_by_role("button", name="Light")
    ground = "getComputedStyle(document.querySelector('#page')).backgroundColor"
    assert tab.evaluate(ground) == "rgb(22, 24, 26)"
    switch.click()
    reload(tab)
    expect(tab.get_by_role("button", name="Dark")).to_be_visible()
    assert tab.evaluate(ground) == "rgb(255, 255, 255)"


_SMALL_TARGETS = """() => [...document.querySelectorAll(
  "#page :is(button, select, summary, input[type=search], input[type=text], label.amp-choice)"
)].filter((node) => node.getClientRects().length && node.getBoundingClientRect().height < 40)
  .map((node) => node.outerHTML.slice(0, 120))"""


@pytest.mark.browser
@pytest.mark.parametrize(
    ("scheme", "width"),
    [("dark", 380), pytest.param("light", 1300, marks=pytest.mark.slow)],
)
def test_axe_finds_no_fault(open_bank: Open, small: Bank, scheme: str, width: int) -> None:
    tab, axe = open_bank(small, scheme=scheme, width=width), Axe()

    def check() -> None:
        response = axe.run(tab).response
        assert response["passes"]
        assert [
            f"{v['id']} ({v['impact']}): {[node['html'][:160] for node in v['nodes']]}"
            for v in response["violations"]
        ] == []
        assert tab.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        assert tab.evaluate(_SMALL_TARGETS) == []

    for _ in small.items:
        tab.get_by_role("button", name="Show answer").first.click()
    check()
    go(tab, "Drill")
    for kind in ("Several answers", "Put in order", "What does it print?", "Read the run"):
        filter_by(tab, "Kind", kind)
        tab.get_by_role("button", name="Show me").click()
        expect(tab.locator(".amp-result")).to_be_visible()
        check()
        tab.get_by_role("button", name="Next question").click()
    filter_by(tab, "Kind", "Explain")
    tab.get_by_role("button", name="Show a good answer").click()
    check()
    go(tab, "Progress")
    check()
