"""The loss scale lab: what Python keeps, and the page by keyboard, pointer and eye."""

from __future__ import annotations

import itertools
import math
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pages
import pytest
import traitlets

from amp_lessons.amp.training import fixed_scale
from amp_lessons.core import catalogue
from amp_lessons.core.pictures import CURVES
from amp_lessons.core.progress import ProgressError
from amp_lessons.lessons.widgets import LossScaleLab
from amp_lessons.lessons.widgets import loss_scale_runs as runs
from amp_lessons.lessons.widgets.files import module
from amp_lessons.lessons.widgets.loss_scale_lab import ASKED, COSTS
from amp_lessons.lessons.widgets.loss_scale_picture import loss_scale_picture, sentence
from amp_lessons.quiz import bank, log, schedule
from amp_lessons.quiz.items import ChoiceItem

# ---- Python ------------------------------------------------------------------------------------


def test_what_a_lesson_reads_and_sets() -> None:
    lab = LossScaleLab(65536, predict=False)
    assert (lab.scale_exponent, lab.scale, lab.stage) == (16.0, 65536.0, "live")
    assert (len(lab.errors), round(lab.errors[-1], 3)) == (151, 0.015)
    lab.scale_exponent = 33
    assert len(lab.errors) == 1
    assert LossScaleLab(2**0.25).scale_exponent == 0.25
    assert LossScaleLab().stage == "guess"


def test_what_lesson_06_says_of_one_fixed_scale() -> None:
    text = (catalogue.course_files() / "notebooks/06_grad_scaler.ipynb").read_text("utf-8")
    run = runs.run_at(4.0)
    first, last = (run["snapshots"][place]["between"] for place in (0, -1))
    shares = [f"{group['zero'] / group['total']:.0%}" for group in (first, last)]
    assert f"{shares[0]} of the gradients become zero at the first step, and {shares[1]}" in text
    assert "within 3% of FP32's" in text
    assert run["errors"][-1] <= 1.03 * runs.recorded()["fp32"]["errors"][-1]


@pytest.mark.parametrize("scale", [0.5, 3.0, 24, 2.0**41, math.inf, math.nan, "big", None])
def test_scales_that_it_refuses(scale: Any) -> None:
    with pytest.raises(ValueError, match=re.escape("scale must be 2**0, 2**0.25")):
        LossScaleLab(scale)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("scale_exponent", 4.25, "scale_exponent must be log2 of a recorded loss scale, got 4.25"),
        ("guess", -1.0, "guess must be log2 of a recorded loss scale, got -1.0"),
        ("step", 20, "step must be None or one of 0, 10, 50, 150; got 20"),
        ("stage", "end", "stage must be one of 'guess', 'cost', 'live'; got 'end'"),
        ("cost", "half", "cost must be one of '', 'none', 'twice', 'same'; got 'half'"),
    ],
)
def test_traits_that_it_refuses(name: str, value: Any, message: str) -> None:
    lab = LossScaleLab()
    before = getattr(lab, name)
    with pytest.raises(traitlets.TraitError, match=re.escape(message)):
        setattr(lab, name, value)
    assert getattr(lab, name) == before


# ---- the prediction in the log -------------------------------------------------------------------


def logged() -> list[tuple[str, float, str]]:
    return [(each.item, each.score, each.where) for each in log.read().entries]


@pytest.mark.parametrize(("cost", "score"), [("none", 0.0), ("twice", 0.0), ("same", 1.0)])
def test_a_prediction_is_in_the_log_as_those_of_the_lessons_are(cost: str, score: float) -> None:
    lab = LossScaleLab()
    lab.set_state({"stage": "cost", "guess": 5.0})
    assert logged() == []
    lab.set_state({"stage": "live", "cost": cost})  # the page sends both at once
    lab.set_state({"scale_exponent": 4.0})
    assert logged() == [(ASKED, score, "lesson")]
    due = schedule.due(log.read().entries, bank.load(), {}, now=log.now() + timedelta(days=1))
    assert (ASKED in due.now) == (score == 0), "the drill comes back to what was missed"


def test_who_skips_the_predictions_leaves_no_trace() -> None:
    LossScaleLab().set_state({"stage": "live"})
    halfway = LossScaleLab()
    halfway.set_state({"stage": "cost", "guess": 5.0})
    halfway.set_state({"stage": "live"})
    LossScaleLab(16, predict=False).set_state({"scale_exponent": 5.0})
    assert logged() == []


def test_a_log_that_cannot_be_written_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Any) -> None:
        raise ProgressError("the disk is full")

    monkeypatch.setattr(log, "append", full)
    lab = LossScaleLab()
    lab.set_state({"stage": "cost"})
    lab.set_state({"stage": "live", "cost": "same"})
    assert lab.stage == "live"


def test_the_lab_and_the_bank_ask_the_same() -> None:
    script = module("loss_scale_lab.mjs")
    (table,) = re.findall(r"const COSTS = \{(.*?)\};", script, re.DOTALL)
    shown = dict(re.findall(r'(\w+): "([^"]+)"', table))
    item = bank.load().find(ASKED)
    assert isinstance(item, ChoiceItem)
    assert tuple(shown) == COSTS[1:]
    assert [each.text.lower() for each in item.choices] == [t.lower() for t in shown.values()]
    run, fp32 = runs.run_at(4.0), runs.recorded()["fp32"]
    between = run["snapshots"][0]["between"]
    assert f"{between['zero'] / between['total']:.0%} of the gradients" in item.prompt
    assert f"ends at {run['errors'][-1] * runs.UNIT:.3f}, as in FP32" in item.choices[2].why
    assert f"{fp32['errors'][-1] * runs.UNIT:.3f}" in item.choices[2].why
    assert f"ends at {runs.run_at(2.0)['errors'][-1] * runs.UNIT:.3f}" in item.choices[2].why


def test_training_here_tells_how_far_it_is() -> None:
    lab, output = LossScaleLab(16), []
    lab.observe(lambda change: output.append(change["new"]), "trained")
    lab._handle_custom_msg({"type": "train", "exponent": 3.0}, [])
    assert {each["exponent"] for each in output} == {3.0}
    assert [len(each["errors"]) for each in output] == [*range(1, 151, 5), 151, 151]
    assert [each["done"] for each in output] == [False] * 31 + [True]
    assert output[-1]["problem"] == ""
    recorded = [error * runs.UNIT for error in runs.run_at(3.0)["errors"]]
    assert output[-1]["errors"] == pytest.approx(recorded, rel=0.1, abs=0.001)
    lab.scale_exponent = 33.0
    assert len(lab.train()) == 1


def test_a_training_that_stops_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = LossScaleLab(16)
    for error, said in ((KeyboardInterrupt(), "it was interrupted."), (OSError("x"), "OSError: x")):

        def broken(*_: Any, error: BaseException = error) -> Any:
            yield 0.2, None
            raise error

        monkeypatch.setattr(fixed_scale, "train", broken)
        assert lab.train() == (0.2,)
        assert (lab.trained["done"], lab.trained["problem"]) == (True, said)


def test_messages_that_mean_nothing_do_nothing() -> None:
    lab = LossScaleLab()
    for message in ({}, {"type": "train"}, {"type": "train", "exponent": 99}, {"type": "stop"}):
        lab._handle_custom_msg(message, [])
    assert lab.trained == {}


def test_a_picture_and_a_sentence_stand_in_where_no_widget_runs() -> None:
    data, _ = LossScaleLab()._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in data
    alt = re.search(r'alt="([^"]+)"', data["text/html"])[1]
    assert alt.count("Loss scale") == 4
    assert "Loss scale 4: 81% of the gradients between the layers become 0; after 150" in alt
    assert "8 weight gradients become inf" in alt
    assert data["text/html"].endswith(f"<p>{sentence()}</p>")
    assert "From 13.5 to 2^32 it learns as well as FP32." in sentence()
    assert CURVES not in data
    assert len(data["text/html"]) < 60_000


def test_a_page_and_a_readme_get_data_and_picture_without_torch() -> None:
    code = "import sys; from amp_lessons.lessons.widgets import loss_scale_picture as drawn; "
    code += "drawn.loss_scale_picture(); drawn.runs.plain_data(); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_picture_of_other_scales() -> None:
    picture = loss_scale_picture([1.25, 40.0])
    assert picture.alt.startswith("Loss scale 2.38: 88% of the gradients between the layers")
    assert "7,364 weight gradients become inf" in picture.alt


# ---- the page ----------------------------------------------------------------------------------

NAMES = ("data", "scale_exponent", "step", "stage", "guess", "cost", "searched", "trained")


@pytest.fixture
def mounted(mount: Callable[..., Any]) -> Callable[..., Any]:
    def mounted_(scheme: str = "light", width: int = 900, python: Any = None, **traits: Any) -> Any:
        lab = LossScaleLab(**{"predict": False} | traits)
        page = mount("loss_scale_lab", lab.get_state(NAMES), scheme, width, python)
        page.add_style_tag(url="loss_scale_lab.css")
        return page

    return mounted_


def said(page: Any) -> str:
    return page.locator("output").inner_text()


def labels(page: Any) -> list[str]:
    return [each.get_attribute("aria-label") for each in page.locator("svg[role=img]").all()]


def snapshot(exponent: float, step: int) -> dict[str, Any] | None:
    shots = runs.run_at(exponent)["snapshots"]
    place = runs.recorded()["about"]["snapshots"].index(step)
    return shots[place] if place < len(shots) else None


def share(count: int, total: int) -> str:
    if count in (0, total):
        return "all" if count else "none"
    percent = math.floor(100 * count / total + 0.5)
    if percent > 99:
        return f"all but {total - count:,}"
    return f"{percent}%" if percent >= 1 else f"{count:,} of {total:,}"


def fate(group: dict[str, int]) -> str:
    output = [
        f"{share(group[count], group['total'])} {'becomes' if group[count] == 1 else 'become'} {to}"
        for count, to in (("zero", "0"), ("inf", "inf"))
        if group[count]
    ]
    return ", ".join(output) or "none become 0"


def error_after(exponent: float, step: int) -> str:
    errors = runs.run_at(exponent)["errors"]
    return f"{errors[step] * runs.UNIT:.3f}" if step < len(errors) else "NaN"


ALL = list(itertools.product(runs.exponents(), (None, 0, 10, 50, 150)))
FEW = [pair for pair in ALL if pair[0] in (0.0, 1.25, 4.0, 16.0, 20.0, 33.0)]


@pytest.mark.browser
@pytest.mark.parametrize(
    "pairs", [FEW, pytest.param(ALL, marks=pytest.mark.slow)], ids=["few", "all"]
)
def test_the_page_says_what_python_says(mounted: Callable[..., Any], pairs: list[Any]) -> None:
    """The numbers in the sentence and in the three pictures' texts, at each scale and time."""
    page = mounted()
    found = pages.value_of(
        page,
        """async (pairs) => pairs.map(([exponent, step]) => {
          model.set("scale_exponent", exponent);
          model.set("step", step);
          const labels = [...document.querySelectorAll("svg[role=img]")].map((e) => e.ariaLabel);
          return [document.querySelector("output").textContent, ...labels];
        })""",
        pairs,
    )
    lost = 0
    for (exponent, step), (summary, gradients, curve, digits) in zip(pairs, found, strict=True):
        shot, last = snapshot(exponent, step or 0), 150 if step is None else step
        if shot is None:
            assert "every gradient is NaN" in summary
            assert gradients.endswith("Every gradient is NaN.")
        else:
            between, weights = shot["between"], shot["weights"]
            assert f"Between the layers: {fate(between)}." in gradients
            assert f"Of the weights: {fate(weights)}." in gradients
            if weights["inf"]:
                assert f"{weights['inf']:,} weight gradients become inf" in summary
                assert "none between the layers" in summary
            elif between["zero"] < between["total"]:
                assert f"{share(between['zero'], between['total'])} " in summary
                lost += 1
        error, fp32 = error_after(exponent, last), runs.recorded()["fp32"]["errors"][last]
        if exponent >= 33:
            assert "inf or NaN from step 1 on" in curve
        else:
            assert f"{error_after(exponent, 0)} to {error_after(exponent, 150)}" in curve
        if error == "NaN":
            assert "nothing but NaN" in digits
        else:
            assert f"(error {fp32 * runs.UNIT:.3f}), and the FP16 network (error {error})" in digits
            if shot is not None and not shot["weights"]["inf"]:
                assert f"the error is {error} (FP32: {fp32 * runs.UNIT:.3f})" in summary
    assert lost >= len(pairs) // 2


@pytest.mark.browser
def test_the_whole_way_by_keyboard(mounted: Callable[..., Any]) -> None:
    """Guess, predict, search and go through time with Tab, arrows, Home, End, Page keys, Space."""
    page = mounted(predict=True, python=lambda message: {})
    press = page.keyboard.press
    slider, guess = (page.get_by_role("slider", name=name) for name in ("Loss scale", "Your guess"))
    assert not slider.is_visible()
    assert said(page).startswith("Loss scale 1: every gradient becomes 0, so no weight changes;")
    press("Tab")
    for key, exponent in (("ArrowRight", "0.25"), ("PageUp", "1.5"), ("End", "40"), ("Home", "0")):
        press(key)
        assert guess.get_attribute("aria-valuetext").startswith(f"2^{exponent} = "), key
    for _ in range(17):
        press("ArrowRight")
    assert guess.get_attribute("aria-valuetext") == "2^5 = 32"
    assert said(page).startswith("Loss scale 1:"), "nothing is given away"
    press("Tab")
    press("Enter")  # commit
    assert "at loss scale 16, 41% of the gradients between the layers become 0" in (
        page.get_by_role("group", name="One more").inner_text()
    )
    press("ArrowDown")  # to the second choice
    press("Tab")
    press("Space")
    assert page.evaluate("[model.get('guess'), model.get('cost'), model.get('stage')]") == [
        5,
        "twice",
        "live",
    ]
    assert page.evaluate("document.activeElement.labels[0].textContent") == "Loss scale"
    assert page.get_by_text("your guess: 32").is_visible()
    for _ in range(15):
        press("ArrowRight")
    assert said(page).startswith(
        "Loss scale 13.5: 46% of the gradients between the layers become 0;"
    )
    assert page.get_by_text("GradScaler").count() == 0, "found, but not moved on"
    press("ArrowRight")
    assert said(page) == (
        "Loss scale 16: 41% of the gradients between the layers become 0; "
        "after 150 steps the error is 0.015 (FP32: 0.015)."
    )
    assert page.get_by_text("You predicted “about twice FP32's”, and it is 1.02").is_visible()
    press("ArrowRight")
    assert page.get_by_text("GradScaler starts at 65,536").is_visible()
    assert page.get_by_text(
        "Your guess was 32. FP16 trains as well as FP32 from loss scale 13.5 to 2³²."
    ).is_visible()
    press("Tab")
    press("End")  # the last moment
    assert said(page).startswith("Loss scale 32, after 150 steps: 57% of the gradients")
    sizes = [snapshot(exponent, 150)["weights"]["largest"] for exponent in (0.0, 5.0)]
    shrunk = float(f"{sizes[0] / sizes[1]:.2g}")  # at a scale of 1 nothing has changed
    assert 100 < shrunk < 400
    note = page.locator(".amp-ll-note").inner_text()
    assert f"now {shrunk:g} times smaller than at the start" in note
    press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Train it here"


@pytest.mark.browser
def test_skipping_both_predictions(mounted: Callable[..., Any]) -> None:
    page = mounted(predict=True)
    page.get_by_role("button", name="Skip, let me drag").click()
    assert page.evaluate("[model.get('guess'), model.get('cost'), model.get('stage')]") == [
        None,
        "",
        "live",
    ]
    assert page.get_by_role("slider", name="Loss scale").is_visible()
    assert page.get_by_text("your guess:").count() == 0


@pytest.mark.browser
def test_grad_scalers_scale_is_marked_after_a_long_search_too(mounted: Callable[..., Any]) -> None:
    page = mounted()
    page.get_by_role("slider", name="Loss scale").focus()
    for key in (*["ArrowRight"] * 14, "End", *["ArrowLeft"] * 4):  # none of them trains
        page.keyboard.press(key)
        assert page.get_by_text("GradScaler").count() == 0
    page.keyboard.press("ArrowLeft")
    assert page.get_by_text("GradScaler starts at 65,536").is_visible()


@pytest.mark.browser
def test_the_gradients_can_be_dragged(mounted: Callable[..., Any]) -> None:
    page = mounted()
    box = page.locator(".amp-ll-grab svg").bounding_box()
    edges = [float(e.get_attribute("x1")) for e in page.locator(".amp-ll-grab .amp-edge").all()]
    octave = (edges[1] - edges[0]) / 11  # from 2^-25, which rounds to 0, to 2^-14, which is normal
    page.mouse.move(box["x"] + 250, box["y"] + 90)
    page.mouse.down()
    page.mouse.move(box["x"] + 250 + 16 * octave, box["y"] + 95)
    page.mouse.move(box["x"] + 250 + 8 * octave, box["y"] + 95)
    assert page.evaluate("model.get('scale_exponent')") == 8
    assert page.get_by_text("GradScaler").count() == 0, "a drag only passes by"
    page.mouse.up()
    page.mouse.move(box["x"] + 250, box["y"] + 95)
    assert page.evaluate("model.get('scale_exponent')") == 8
    page.mouse.down()
    page.mouse.move(box["x"] - 600, box["y"] + 95)
    page.mouse.up()
    assert page.evaluate("model.get('scale_exponent')") == 0
    assert page.get_by_text("GradScaler starts at 65,536").is_visible()


@pytest.mark.browser
def test_solid_bars_are_what_fp16_computes_and_outlines_what_is_exact(
    mounted: Callable[..., Any],
) -> None:
    """At a scale of 1 FP16 has nothing to draw; from 2^21 on both say the same."""
    page = mounted()
    outline = "path => path.getAttribute('d').split('Z').length - 1"
    exact = f"[...document.querySelectorAll('.amp-ll-grab path.amp-ll-exact')].map({outline})"
    solid = "document.querySelectorAll('.amp-ll-grab .amp-bar:not([d=\"\"])').length"
    shared = runs.recorded()["fp32"]["snapshots"][0]
    bars = [sum(map(bool, shared[name]["exact"][1:])) for name in ("between", "weights")]
    assert page.evaluate(solid) == 0
    assert page.evaluate(exact) == bars
    page.evaluate("model.set('scale_exponent', 21)")
    assert page.evaluate(solid) == 8  # two groups in four ranges
    assert page.evaluate(exact) == bars
    page.evaluate("model.set('scale_exponent', 33); model.set('step', 50)")
    assert page.evaluate(exact) == []


@pytest.mark.browser
@pytest.mark.parametrize("exponent", [0.25, 1.0, 4.0, 33.0])
def test_the_gradients_move_with_the_scale(mounted: Callable[..., Any], exponent: float) -> None:
    """Both outlines, by as many powers of two as the scale has; the ranges stand still."""
    page = mounted()
    edges = (
        "[...document.querySelectorAll('.amp-ll-grab .amp-edge')].map(e => +e.getAttribute('x1'))"
    )
    starts = "[...document.querySelectorAll('.amp-ll-grab path.amp-ll-exact')].map("
    starts += "path => parseFloat(path.getAttribute('d').slice(1)))"
    before, stand = page.evaluate(starts), page.evaluate(edges)
    page.evaluate("exponent => model.set('scale_exponent', exponent)", exponent)
    octave = (stand[1] - stand[0]) / 11  # from 2^-25, which rounds to 0, to 2^-14, which is normal
    moved = [after - start for start, after in zip(before, page.evaluate(starts), strict=True)]
    assert moved == pytest.approx([exponent * octave] * 2, abs=0.01)
    assert page.evaluate(edges) == stand


@pytest.mark.browser
def test_a_training_here_is_drawn_over_the_recorded_one(mounted: Callable[..., Any]) -> None:
    asked: list[Any] = []

    def python(message: dict[str, Any]) -> dict[str, Any]:
        asked.append(message)
        errors = [0.2453, 0.1, 0.05] if len(asked) == 1 else [0.2453] * 150 + [0.017]
        done = len(asked) > 1
        return {"exponent": 4, "errors": errors, "done": done, "seconds": 0.25, "problem": ""}

    page = mounted(scale=16, python=python)
    button, status = (
        page.get_by_role("button", name="Train it here"),
        page.locator(".amp-ll-train p"),
    )
    assert page.locator("path.amp-ll-here").count() == 1  # of the legend, hidden
    button.click()
    page.wait_for_function("document.querySelectorAll('path.amp-ll-here').length === 2")
    assert asked == [{"type": "train", "exponent": 4}]
    assert status.inner_text() == "Training at loss scale 16: 2 of 150 steps …"
    page.evaluate("() => { model.sent = 0; model.send = () => (model.sent += 1) }")
    button.press("Enter")
    assert page.evaluate("model.sent") == 0, "it is still busy"
    page.evaluate("model.set('trained', {})")
    button.click()
    assert page.evaluate("model.sent") == 1
    page.evaluate("trained => model.set('trained', trained)", python({}))
    assert status.inner_text() == (
        "Trained here in 0.3 s at loss scale 16: error 0.017, recorded 0.015."
    )
    page.evaluate("model.set('scale_exponent', 5)")
    assert page.locator("path.amp-ll-here").count() == 1
    page.evaluate(
        "model.set('trained', {exponent: 5, errors: [0.2], done: true, seconds: 1, problem: 'x'})"
    )
    assert status.inner_text() == "Training at loss scale 32 stopped: x"


@pytest.mark.browser
def test_without_a_kernel_there_is_nothing_to_train_in(open_page: Callable[..., Any]) -> None:
    page = open_page()
    pages.wait_for(
        page,
        """async (data) => {
          const { mount } = await import("/loss_scale_lab.mjs");
          mount(document.getElementById("widget"), { data, stage: "live" });
        }""",
        LossScaleLab().data,
    )
    assert page.get_by_role("slider", name="Loss scale").is_visible()
    assert page.get_by_role("button").count() == 0


@pytest.mark.browser
def test_python_moves_the_page(mounted: Callable[..., Any]) -> None:
    page = mounted()
    page.evaluate("model.set('scale_exponent', 24); model.set('step', 10)")
    assert page.get_by_role("slider", name="Loss scale").get_attribute("aria-valuetext") == (
        "2^24 = 16,777,216"
    )
    assert page.get_by_role("slider", name="Time").get_attribute("aria-valuetext") == (
        "after 10 steps"
    )
    assert said(page).startswith("Loss scale 2²⁴, after 10 steps:")


STATES: list[dict[str, Any]] = [
    {"stage": "guess"},
    {"stage": "cost", "guess": 5.0},
    {"stage": "live", "scale_exponent": 1.25, "searched": True, "guess": 40.0},
    {"scale_exponent": 4.0, "cost": "same"},
    {"scale_exponent": 33.0, "step": 0},
    {"scale_exponent": 40.0, "step": 50},
    {"scale_exponent": 1.0, "step": 150},  # the longest captions
]


def put(page: Any, state: dict[str, Any]) -> None:
    page.evaluate(
        "state => Object.entries(state).forEach(([name, value]) => model.set(name, value))", state
    )


@pytest.mark.browser
def test_axe_finds_nothing(
    mounted: Callable[..., Any], faultless: Callable[[Any], None], look: tuple[str, int]
) -> None:
    page = mounted(*look)
    for state in STATES:
        put(page, state)
        faultless(page)


@pytest.mark.browser
@pytest.mark.parametrize("width", [290, 380, 620, 1400])  # 290: on a phone, in JupyterLab
def test_nothing_sticks_out_or_overlaps(mounted: Callable[..., Any], width: int) -> None:
    page = mounted(width=width)
    for state in STATES:
        put(page, state)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") == 0
        for box in page.locator(".amp-picture-box").all():
            within = box.bounding_box()
            texts = [text.bounding_box() for text in box.locator("svg text").all()]
            assert len(texts) >= 3
            for text in texts:
                assert text["x"] >= within["x"] - 1, state
                assert text["x"] + text["width"] <= within["x"] + within["width"] + 1, state
        names = [each.bounding_box() for each in page.locator(".amp-band-label").all()]
        for a, b in itertools.combinations(names, 2):
            apart = a["x"] + a["width"] <= b["x"] or b["x"] + b["width"] <= a["x"]
            assert apart or abs(a["y"] - b["y"]) >= 14


@pytest.mark.slow
@pytest.mark.browser
def test_a_key_changes_little_of_the_page(
    mounted: Callable[..., Any], changes_by: Callable[[Any, str], int]
) -> None:
    page = mounted()
    page.get_by_role("slider", name="Loss scale").focus()
    changes = [changes_by(page, "ArrowRight") for _ in range(24)]
    assert page.evaluate("model.get('scale_exponent')") == 12
    assert 0 < min(changes) <= max(changes) < 300
