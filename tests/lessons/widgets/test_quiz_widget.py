"""The quiz widget: its page in a browser, with the widget's own Python behind it."""

from __future__ import annotations

import json
import re

import pages
import pytest
from playwright.sync_api import expect

from amp_lessons.lessons import interview
from amp_lessons.lessons.widgets.mock import MockInterview
from amp_lessons.lessons.widgets.quiz import COMMITTED, NO_GUESS, Prediction, Quiz
from amp_lessons.quiz import bank, generators, log, mock
from amp_lessons.quiz.bank import BankError
from amp_lessons.quiz.items import NumberItem, OrderItem
from amp_lessons.quiz.marking import NAMES, AnswerError, shuffled

BANK = bank.load()
KINDS = ("single", "several", "number", "output", "bug", "order", "trace")
ONE_OF_EACH = {kind: next(i for i in BANK.items if i.kind == kind and i.proved) for kind in KINDS}
CHOSEN = ONE_OF_EACH["single"]
BIG = BANK.find("amp_in_20_minutes.big_pictures")
SHOWN = ("questions", "title", "ends_at", "committed")


@pytest.fixture(autouse=True)
def own_log(tmp_path, monkeypatch):
    monkeypatch.setenv("AMP_LESSONS_HOME", str(tmp_path))


@pytest.fixture
def show(mount):
    """Draw a quiz, and answer its messages as the kernel does."""

    def show_(quiz, scheme="light", width=900):
        replies = []
        quiz.send = replies.append

        def python(message):
            quiz._on_message(quiz, message, [])
            names = ("verdicts", "standing", "report")
            return {
                "reply": replies.pop(),
                "changed": {name: getattr(quiz, name) for name in names},
            }

        values = {name: getattr(quiz, name) for name in SHOWN if hasattr(quiz, name)}
        page = mount("quiz", values, scheme, width, python)
        page.add_style_tag(url="question.css")
        return page

    return show_


def wrong_place(item):
    return next(n for n, choice in enumerate(item.choices) if not choice.right)


# ---- in the browser -----------------------------------------------------------------------------


@pytest.mark.browser
@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_answered_with_the_keyboard_alone(show, kind, faultless):
    item = ONE_OF_EACH[kind]
    page = show(Quiz([item]))
    page.keyboard.press("Tab")
    if isinstance(item, NumberItem):
        page.keyboard.type(f"{item.answer:.12g}")
    elif isinstance(item, OrderItem):
        offered = shuffled(item)
        for place in range(len(item.lines)):
            page.keyboard.press(NAMES[offered.index(place)])
        page.locator("p.amp-note").first.focus()
        page.get_by_role("button", name="Answer").focus()
    else:
        for place in sorted(item.right):
            page.keyboard.press(NAMES[place])
    page.keyboard.press("Enter")
    expect(page.locator(".amp-result")).to_have_text("✓ Right")
    expect(page.locator(".amp-feedback")).to_be_focused()
    faultless(page)
    assert [entry.score for entry in log.read().entries] == [1.0]


@pytest.mark.browser
def test_wrong_answer_is_explained_and_the_right_one_marked(show, every_look, faultless):
    page = show(Quiz([CHOSEN]), *every_look)
    wrong = wrong_place(CHOSEN)
    page.locator(".amp-choice").nth(wrong).click()
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".amp-result")).to_have_text("✗ Not right")
    expect(page.locator(".amp-choice.amp-wrong")).to_have_count(1)
    expect(page.locator(".amp-choice.amp-right")).to_have_count(1)
    expect(page.locator(".amp-remark-wrong")).to_contain_text("not right")
    faultless(page)


@pytest.mark.browser
def test_hint_proof_and_its_run_are_a_key_away(show, faultless):
    page = show(Quiz([CHOSEN]))
    page.keyboard.press("Tab")
    page.keyboard.press("h")
    expect(page.locator(".amp-hint")).to_be_visible()
    page.get_by_role("button", name="Show me").click()
    page.get_by_role("button", name="Show the proof").click()
    expect(page.locator(".amp-proof pre").first).to_contain_text("import torch")
    page.get_by_role("button", name="Run it here").click()
    expect(page.locator(".amp-proof")).to_contain_text("does not hold")
    faultless(page)
    assert [entry.score for entry in log.read().entries] == [0.0], "seen, and not known"


@pytest.mark.slow
@pytest.mark.browser
def test_no_answer_is_told_how_to_give_one(show):
    page = show(Quiz([ONE_OF_EACH["number"], CHOSEN]))
    expect(page.locator("input[type=text]")).to_have_accessible_description(re.compile(r"2\^-24"))
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_role("alert")).to_contain_text("Type a number")
    page.locator("input[type=text]").fill("twelve")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("is not a number")
    page.get_by_role("button", name="Next question").click()
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_role("alert")).to_contain_text("Choose one")
    assert log.read().entries == []


@pytest.mark.browser
@pytest.mark.parametrize("number", ["number", "prediction"])
def test_a_calculation_is_answered_by_what_it_was_read_as(show, number, faultless):
    item = next(i for i in (*BANK.items, *BANK.predictions) if i.form == "number" and not i.unit)
    page = show(Quiz([item]) if number == "number" else Prediction(item))
    page.locator("input[type=text]").fill("about 0.2*65536")
    page.keyboard.press("Enter")
    expect(page.locator(".amp-number")).to_contain_text("0.2*65536 = 13,107.2")
    faultless(page)


@pytest.mark.browser
def test_a_key_on_the_text_is_for_the_question_and_for_nothing_around_it(show):
    """JupyterLab would take a digit for a command, and turn the cell into a heading."""
    page = show(Quiz([CHOSEN, ONE_OF_EACH["number"]]))
    page.evaluate("""() => {
      window.leaked = [];
      document.addEventListener("keydown", ({ key }) => window.leaked.push(key));
    }""")
    page.locator(".amp-prompt").first.click()
    for key in ("b", "x", "9", "2"):
        page.keyboard.press(key)
    expect(page.locator("input[type=radio]").nth(1)).to_be_checked()
    page.keyboard.press("Enter")
    expect(page.locator(".amp-feedback")).to_be_focused()
    for key in ("d", "d", "1", "Enter"):
        page.keyboard.press(key)
    expect(page.locator(".amp-kind")).to_contain_text("Question 2 of 2")
    expect(page.locator("input[type=text]")).to_be_focused()
    assert page.evaluate("window.leaked") == []


@pytest.mark.browser
def test_answers_stay_on_the_way_back(show):
    page = show(Quiz([CHOSEN, ONE_OF_EACH["bug"]]))
    expect(page.locator(".amp-kind")).to_contain_text("Question 1 of 2")
    page.locator(".amp-choice").nth(wrong_place(CHOSEN)).click()
    page.get_by_label("I'm guessing").check()
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".amp-quiz-foot")).to_contain_text("0 of 1 right")
    page.get_by_role("button", name="Next question").click()
    expect(page.locator(".amp-kind")).to_contain_text("Question 2 of 2")
    page.get_by_role("button", name="Back").click()
    expect(page.locator(".amp-result")).to_have_text("✗ Not right")
    assert [entry.sure for entry in log.read().entries] == [False]


@pytest.mark.slow
@pytest.mark.browser
def test_several_shows_what_was_missed(show):
    item = ONE_OF_EACH["several"]
    page = show(Quiz([item]))
    page.locator(".amp-choice").nth(min(item.right)).click()
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".amp-remark-missed")).to_have_count(len(item.right) - 1)


@pytest.mark.browser
def test_prediction_waits_for_its_result(show, faultless):
    prediction = Prediction(BIG)
    page = show(prediction)
    page.locator(".amp-choice").first.click()
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".amp-waiting")).to_have_text(COMMITTED)
    expect(page.locator(".amp-feedback[aria-live=polite]")).to_be_focused()
    expect(page.locator(".amp-result")).to_have_count(0)
    faultless(page)
    prediction.result_there = True
    page.evaluate("verdicts => window.model.set('verdicts', verdicts)", prediction.verdicts)
    expect(page.locator(".amp-result")).to_have_text("✗ Not right")
    expect(page.locator(".amp-remark-explanation")).to_contain_text("divided by 100 million")


@pytest.mark.browser
def test_a_prediction_opens_by_itself_when_its_result_is_there(show, faultless):
    prediction = Prediction(BIG)
    page = show(prediction)
    expect(page.get_by_role("button", name="Show me")).to_be_hidden()
    prediction.result_there = True
    page.evaluate("verdicts => window.model.set('verdicts', verdicts)", prediction.verdicts)
    expect(page.locator(".amp-result")).to_have_text(NO_GUESS)
    expect(page.locator(".amp-choice.amp-right")).to_have_count(1)
    expect(page.locator(".amp-remark-explanation")).to_contain_text("divided by 100 million")
    expect(page.get_by_role("button", name="Answer")).to_be_hidden()
    expect(page.locator(".amp-feedback")).not_to_be_focused()
    assert log.read().entries == []
    faultless(page)


@pytest.mark.browser
def test_commit_is_still_there_when_it_is_drawn_again(show):
    prediction = Prediction(BIG)
    prediction.answer(BIG.id, [1])
    page = show(prediction)
    expect(page.locator(".amp-waiting")).to_have_text(COMMITTED)
    expect(page.locator("input").nth(1)).to_be_checked()
    expect(page.locator("input").nth(1)).to_be_disabled()
    expect(page.locator(".amp-feedback")).not_to_be_focused()
    expect(page.get_by_role("button", name="Answer")).to_be_hidden()


@pytest.mark.browser
def test_two_boxes_on_a_page_keep_both_choices(open_page):
    """Each with a copy of its own of the module, as in a notebook."""
    page = open_page("blank.html")
    pages.wait_for(
        page,
        """async ([text, questions]) => {
          for (const name of ["left", "right"]) {
            const el = document.createElement("div");
            el.id = name;
            document.body.append(el);
            const state = { questions, place: 0, verdicts: {}, title: name, standing: "" };
            const model = { get: (key) => state[key], on() {}, off() {} };
            const blob = new Blob([text], { type: "text/javascript" });
            (await import(URL.createObjectURL(blob))).default.render({ model, el });
          }
        }""",
        [Quiz._esm, Quiz([CHOSEN]).questions],
    )
    left, right = (page.locator(f"#{name} input[type=radio]") for name in ("left", "right"))
    left.nth(2).check()
    right.nth(0).check()
    expect(left.nth(2)).to_be_checked()
    left.last.focus()
    page.keyboard.press("ArrowDown")
    expect(left.first).to_be_focused()
    expect(right.nth(0)).to_be_checked()
    ids = page.evaluate("() => [...document.querySelectorAll('[id]')].map(({ id }) => id)")
    assert len(ids) == len(set(ids))


@pytest.mark.browser
def test_mock_keeps_its_verdicts_for_the_end(show, faultless):
    plan = mock.compose(BANK, minutes=30, seed=3, generators=generators.GENERATORS)
    page = show(MockInterview(plan))
    expect(page.get_by_role("timer")).to_have_text(re.compile(r"\d+ minutes? left"))
    for step in plan.steps:
        answer(page, step)
        following = page.get_by_role("button", name="Next question")
        if following.count():
            following.click()
    page.get_by_role("button", name="Finish").click()
    expect(page.locator(".amp-report")).to_contain_text("of 100 points")
    faultless(page)
    assert {entry.where for entry in log.read().entries} == {"mock"}


def answer(page, step):
    if page.get_by_role("button", name="Show a good answer").count():
        page.get_by_role("button", name="Show a good answer").click()
        page.locator(".amp-choice").first.click()
        page.get_by_role("button", name="Note my points").click()
        expect(page.locator(".amp-result")).to_contain_text("points noted")
    elif page.get_by_role("button", name="I have run its check").count():
        page.get_by_role("button", name="I have run its check").click()
        expect(page.get_by_role("alert")).to_contain_text("has not run since")
    else:
        if page.locator("input[type=text]").count():
            page.locator("input[type=text]").fill("3")
        elif page.locator(".amp-order-line").count():
            page.locator(".amp-order-line").first.click()
        else:
            page.locator(".amp-choice").first.click()
        page.get_by_role("button", name="Answer").click()
        expect(page.locator(".amp-waiting")).to_contain_text("Noted")


# ---- in Python ----------------------------------------------------------------------------------


def test_the_page_gets_no_answer_before_it_is_given():
    quiz = Quiz([CHOSEN])
    sent = json.dumps([quiz.questions, quiz.verdicts])
    assert all(json.dumps(choice.why)[1:-1] not in sent for choice in CHOSEN.choices)
    quiz.answer(CHOSEN.id, sorted(CHOSEN.right))
    assert quiz.verdicts[CHOSEN.id]["right"]


def test_the_first_answer_counts():
    quiz = Quiz([CHOSEN])
    quiz.answer(CHOSEN.id, [wrong_place(CHOSEN)])
    quiz.answer(CHOSEN.id, sorted(CHOSEN.right))
    assert [entry.score for entry in log.read().entries] == [0.0]


def test_what_was_answered_before_is_said():
    Quiz([CHOSEN]).answer(CHOSEN.id, [wrong_place(CHOSEN)])
    assert Quiz([CHOSEN]).questions[0]["before"] == "missed"
    Quiz([CHOSEN]).answer(CHOSEN.id, sorted(CHOSEN.right))
    assert Quiz([CHOSEN]).questions[0]["before"] == "right"


def test_a_disk_that_refuses_is_told_and_nothing_stops(monkeypatch, tmp_path):
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("AMP_LESSONS_HOME", str(tmp_path / "a file"))
    quiz = Quiz([CHOSEN])
    assert quiz.answer(CHOSEN.id, sorted(CHOSEN.right))["right"]
    assert "could not be saved" in quiz.standing


@pytest.mark.parametrize(
    "message",
    [
        {"type": "answer", "id": CHOSEN.id, "answer": [99]},
        {"type": "answer", "id": CHOSEN.id, "answer": "a"},
        {"type": "answer", "id": "no.such", "answer": [0]},
        {"type": "dance", "id": CHOSEN.id},
        {"id": CHOSEN.id},
    ],
)
def test_strange_messages_get_an_error_back(message):
    quiz, replies = Quiz([CHOSEN]), []
    quiz.send = replies.append
    quiz._on_message(quiz, message | {"call": "7"}, [])
    assert replies[0]["call"] == "7"
    assert replies[0]["error"]
    assert log.read().entries == []


def test_an_empty_quiz_is_refused():
    with pytest.raises(BankError):
        Quiz([])


@pytest.mark.parametrize("item", BANK.predictions[:1], ids=lambda item: item.id)
def test_no_guess_costs_nothing_and_one_that_comes_too_late_is_none(item):
    prediction = Prediction(item)
    prediction.result_there = True
    output = prediction.verdicts[item.id]
    assert (output["given"], output["result"]) == (None, NO_GUESS)
    assert prediction.answer(item.id, sorted(item.right)) == output
    assert log.read().entries == []


def test_giving_up_on_a_prediction_in_a_drill_counts_as_missed():
    item = BANK.predictions[0]
    Quiz([item], where="drill").give_up(item.id)
    assert [(entry.item, entry.score) for entry in log.read().entries] == [(item.id, 0.0)]


def test_a_commit_counts_once():
    item = next(i for i in BANK.predictions if i.form == "one")
    prediction = Prediction(item)
    prediction.answer(item.id, [wrong_place(item)])
    prediction.answer(item.id, sorted(item.right))
    assert log.read().entries == [], "the kernel may be restarted before it is judged"
    prediction.result_there = True
    assert [entry.score for entry in log.read().entries] == [0.0]
    assert (prediction.verdicts[item.id]["right"], prediction.committed) == (False, {})


def test_asked_again_a_prediction_still_has_its_commit(monkeypatch):
    shown = []
    monkeypatch.setattr(interview, "_display", shown.append)
    monkeypatch.setattr(interview, "_asked", {})
    for _ in range(2):
        interview.predict(BIG.id)
    shown[1].answer(BIG.id, [wrong_place(BIG)])
    interview.predict(BIG.id)
    shown[1].result_there = True
    interview.predict(BIG.id)
    first, fresh, kept, after = shown
    assert fresh is not first
    assert kept is fresh
    assert after is not fresh
    assert after.questions[0]["before"] == "missed"


def test_a_mock_counts_the_first_answer():
    plan = mock.compose(BANK, minutes=20, seed=1, generators=generators.GENERATORS)
    interview = MockInterview(plan)
    item = next(item for item in interview.items.values() if item.form == "one")
    for _ in range(2):
        interview.answer(item.id, [wrong_place(item)])
    assert len(log.read().entries) == 1


def test_no_task_passes_without_its_check():
    plan = mock.compose(BANK, minutes=45, seed=1, generators=generators.GENERATORS)
    interview = MockInterview(plan)
    task = next(step.asks for step in plan.steps if step.id.split(".")[1].startswith("whiteboard"))
    with pytest.raises(AnswerError, match="has not run since"):
        interview._check_task(task)


def test_static_form_stands_beside_the_widget():
    data, _ = Quiz([CHOSEN, ONE_OF_EACH["bug"]])._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    assert data["text/html"].count("<details><summary>Answer</summary>") == 2
    assert CHOSEN.choices[0].why not in data["text/plain"]
