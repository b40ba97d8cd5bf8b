"""Order the calls: what Python keeps and answers, and the page by keyboard, mouse and finger."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import traitlets

from amp_lessons.lessons import plots
from amp_lessons.lessons.call_order import CARDS, USUAL, Order, mixed_order, run_order
from amp_lessons.lessons.widgets import OrderTheCalls
from amp_lessons.lessons.widgets.files import style

IDS = [card.id for card in CARDS]
CODE = {card.id: card.code for card in CARDS}
CLIP_FIRST = Order(USUAL.before, USUAL.each, ("clip", "unscale", "step", "update", "schedule"))
UNSCALE_EACH = Order(USUAL.before, (*USUAL.each, "unscale"), ("clip", "step", "update", "schedule"))

# ---- Python ------------------------------------------------------------------------------------


def test_it_opens_with_a_mixed_order() -> None:
    for seed in (0, 7):
        widget = OrderTheCalls(seed=seed)
        assert widget.order == widget.data["start"] == mixed_order(seed).as_dict()
        assert widget.outcome is None
        assert widget.result == {}
    assert [card["id"] for card in widget.data["cards"]] == list(mixed_order(7).used)
    assert (widget.data["overflows"], widget.data["clipped"]) == ([7], [15])


def test_a_run() -> None:
    widget = OrderTheCalls(CLIP_FIRST)
    outcome = widget.run()
    assert outcome is widget.outcome is run_order(CLIP_FIRST)
    result = widget.result
    assert result["order"] == CLIP_FIRST.as_dict()
    assert not result["right"]
    assert result["findings"][0].startswith("Clipping before `unscale_()`: the threshold 1.0 met")
    assert result["stop"] is None
    assert [len(result["curves"][name]["errors"]) for name in ("yours", "right")] == [30, 30]
    assert result["curves"]["right"]["skipped"] == [7]
    assert {name: (a == b) for name, a, b in result["numbers"]} == {
        "Steps that the optimizer made": True,
        "Steps that the scaler skipped": True,
        "Micro-batches in a step's gradient": True,
        "Largest norm that met the threshold 1.0": False,
        "Learning rate of the last step": True,
        "Loss scale at the end": True,
        "How far the weights moved": False,
        "Error per pixel at the end": False,
    }
    widget.order = UNSCALE_EACH.as_dict()
    assert widget.result == result, "it stays until the next run"
    widget.run()
    assert widget.result["stop"] == {
        "card": "unscale",
        "step": 1,
        "piece": 2,
        "message": "RuntimeError: unscale_() has already been called on this optimizer since the "
        "last update().",
    }
    assert widget.result["curves"] == {}
    assert widget.result["numbers"] == []


def test_what_a_page_sends() -> None:
    widget = OrderTheCalls()
    widget.set_state({"asked": USUAL.as_dict()})
    assert widget.result["right"]
    assert widget.result["findings"] == []
    assert widget.outcome is run_order(USUAL)
    widget.set_state({"asked": {}, "order": widget.data["start"]})
    assert widget.result == {}
    assert widget.outcome is None


def test_an_order_of_ones_own() -> None:
    widget = OrderTheCalls({"each": ["forward", "backward"]})
    assert widget.order == {"before": [], "each": ["forward", "backward"], "after": []}
    assert widget.run().right is False
    with pytest.raises(ValueError, match="no card is called 'scale'"):
        OrderTheCalls({"each": ["scale"]})
    with pytest.raises(traitlets.TraitError, match="'step' is used twice"):
        widget.order = {"each": ["step"], "after": ["step"]}
    assert widget.order["each"] == ["forward", "backward"]


def test_the_two_runs_have_the_colours_of_the_figures() -> None:
    css = style("order_calls.css")
    for name, run in (("right", "mixed precision"), ("yours", "FP16 without protection")):
        colour = plots.COLOURS[plots.RUNS[run]].lower()
        assert f"--amp-run-{name}: light-dark({colour}, {colour});" in css


# ---- the page ----------------------------------------------------------------------------------


@pytest.fixture
def mounted(mount: Callable[..., Any]) -> Callable[..., Any]:
    """The page with the widget's own Python behind it: what the page sets reaches the widget, and
    its result comes back."""

    def mounted_(
        widget: OrderTheCalls, scheme: str = "light", width: int = 900, *, answers: bool = True
    ) -> Any:
        names = ["data", "order", "asked", "result"]

        def python(order: dict[str, Any], asked: dict[str, Any]) -> dict[str, Any]:
            widget.set_state({"order": order, "asked": asked})
            return widget.result

        page = mount("order_calls", widget.get_state(names), scheme, width, python)
        page.add_style_tag(url="order_calls.css")
        page.evaluate(
            """answers => {
              const send = async () => {
                const result = await window.python(model.get("order"), model.get("asked"));
                if (result.order || !model.get("asked").each) model.set("result", result);
              };
              if (answers) for (const name of ["order", "asked"]) model.on(`change:${name}`, send);
            }""",
            answers,
        )
        return page

    return mounted_


def order_of(page: Any) -> Order:
    """Where the page shows the cards, by the code on them."""
    ids = {code: id for id, code in CODE.items()}
    zones = {}
    for zone in ("before", "each", "after"):
        texts = page.locator(f"[data-zone={zone}] code").all_text_contents()
        zones[zone] = tuple(ids[text] for text in texts)
    assert page.evaluate("model.get('order')") == {zone: list(ids) for zone, ids in zones.items()}
    return Order(**zones)


def card(page: Any, id: str) -> Any:
    return page.locator(".amp-oc-call").filter(has=page.get_by_text(CODE[id], exact=True))


def status(page: Any) -> str:
    return page.get_by_role("status").inner_text()


def run(page: Any) -> str:
    page.get_by_role("button", name="Run it").click()
    page.wait_for_selector(".amp-oc-result-word")
    return page.locator(".amp-oc-outcome").inner_text()


@pytest.mark.browser
def test_it_shows_the_program_and_gives_nothing_away(mounted: Callable[..., Any]) -> None:
    page = mounted(OrderTheCalls())
    assert order_of(page) == mixed_order(0)
    assert page.get_by_text("for piece in pieces:").is_visible()
    assert page.locator(".amp-oc-outcome").is_hidden()
    assert page.locator("table").is_hidden()
    assert page.get_by_role("img").is_hidden()


@pytest.mark.browser
def test_solving_it_by_keyboard_alone(mounted: Callable[..., Any]) -> None:
    """Tab, arrows, Space: every card to its place, then Run it."""
    page = mounted(OrderTheCalls())
    press = page.keyboard.press
    press("Tab")
    focused = "document.activeElement.querySelector('code')?.textContent"
    assert page.evaluate(focused) == CODE[mixed_order(0).used[0]]
    ends = list(USUAL.used)
    for id in ends:  # the cards come to the end one after the other, in the usual order
        press("Home")
        for _ in range(order_of(page).used.index(id)):
            press("ArrowDown")
        assert page.evaluate(focused) == CODE[id]
        press("Space")
        while order_of(page).after[-1:] != (id,):
            press("ArrowDown")
        press("Space")
    assert order_of(page) == Order(after=USUAL.used)
    for id in (*USUAL.before, *USUAL.each):
        press("Home")
        for _ in range(order_of(page).used.index(id)):
            press("ArrowDown")
        press("Space")
        zone = "before" if id in USUAL.before else "each"
        while id not in getattr(order_of(page), zone):
            press("ArrowUp")
        press("Space")
    assert order_of(page) == USUAL
    for _ in range(3):  # past the buttons that move a card
        press("Tab")
    press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Run it"
    press("Enter")
    page.wait_for_selector("text=✓ Right")
    output = page.locator(".amp-oc-outcome").inner_text()
    assert "After 30 steps the weights are those of the usual order." in output


@pytest.mark.browser
def test_moving_a_card_is_told(mounted: Callable[..., Any]) -> None:
    page = mounted(OrderTheCalls(USUAL))
    unscale = card(page, "unscale")
    unscale.focus()
    press = page.keyboard.press
    press("Space")
    assert unscale.get_attribute("aria-pressed") == "true"
    assert status(page).startswith("Chosen: after the loop, 1 of 5.")
    press("ArrowUp")
    assert status(page) == "Now in the loop, 4 of 4."
    assert order_of(page) == UNSCALE_EACH
    assert (
        page.evaluate("document.activeElement.querySelector('code').textContent") == CODE["unscale"]
    )
    press("Escape")
    assert status(page) == "Put back: after the loop, 1 of 5."
    assert order_of(page) == USUAL
    press("Space")
    press("Delete")
    assert status(page) == "Now left out."
    assert order_of(page).unused == ("unscale",)
    press("ArrowDown")
    assert status(page) == "It is at the end."
    press("ArrowUp")
    press("Enter")
    assert status(page) == "Put down: after the loop, 5 of 5."
    assert unscale.get_attribute("aria-pressed") == "false"
    name = "scaler.unscale_(optimizer) after the loop, 5 of 5"
    assert page.get_by_role("button", name=name).count() == 1
    press("ArrowUp")
    assert order_of(page).after[-1] == "unscale", "a card that isn't chosen stays"


@pytest.mark.browser
def test_moving_by_buttons(mounted: Callable[..., Any]) -> None:
    page = mounted(OrderTheCalls(USUAL))
    up, down, out = (page.get_by_role("button", name=n) for n in ("↑ Up", "↓ Down", "Leave out"))
    up.click(force=True)
    assert order_of(page) == USUAL, "no card is chosen"
    assert up.get_attribute("aria-disabled") == "true"
    card(page, "clip").click()
    assert up.get_attribute("aria-disabled") == "false"
    up.click()
    assert order_of(page) == CLIP_FIRST
    down.click()
    assert order_of(page) == USUAL
    out.click()
    assert order_of(page).unused == ("clip",)
    assert page.evaluate("document.activeElement.textContent") == "Leave out"


def drag(page: Any, id: str, onto: Any, below: bool = False) -> None:
    box = onto.bounding_box()
    card(page, id).hover()
    page.mouse.down()
    y = box["y"] + box["height"] * (0.9 if below else 0.1)
    page.mouse.move(box["x"] + 40, y, steps=6)
    page.mouse.move(box["x"] + 42, y)
    page.mouse.up()


@pytest.mark.browser
@pytest.mark.parametrize("width", [900, pytest.param(400, marks=pytest.mark.slow)])
def test_dragging(mounted: Callable[..., Any], width: int) -> None:
    page = mounted(OrderTheCalls(USUAL), "light", width)
    drag(page, "clip", card(page, "unscale"))
    assert order_of(page) == CLIP_FIRST
    assert card(page, "clip").get_attribute("aria-pressed") == "false", "the drag is no click"
    drag(page, "clip", card(page, "unscale"), below=True)
    assert order_of(page) == USUAL
    drag(page, "unscale", card(page, "backward"), below=True)
    assert order_of(page) == UNSCALE_EACH
    drag(page, "zero_grad", page.locator("[data-zone=unused]"))
    assert order_of(page).unused == ("zero_grad",)
    drag(page, "zero_grad", page.locator("[data-zone=before]"))
    assert order_of(page) == UNSCALE_EACH
    assert status(page) == "Now before the loop, 1 of 1."


@pytest.mark.slow
@pytest.mark.browser
def test_a_drag_is_called_off_with_escape(mounted: Callable[..., Any]) -> None:
    page = mounted(OrderTheCalls(USUAL))
    box = card(page, "forward").bounding_box()
    card(page, "schedule").hover()
    page.mouse.down()
    page.mouse.move(box["x"] + 20, box["y"] + 3, steps=5)
    assert order_of(page).each[0] == "schedule"
    page.keyboard.press("Escape")
    assert order_of(page) == USUAL
    page.mouse.move(box["x"] + 20, box["y"] + 90, steps=3)
    page.mouse.up()
    assert order_of(page) == USUAL


@pytest.mark.slow
@pytest.mark.browser
def test_a_finger_drags_at_the_grip_alone(mounted: Callable[..., Any]) -> None:
    """Elsewhere on a card it scrolls the page."""
    page = mounted(OrderTheCalls(USUAL))
    send = """([id, part, to]) => {
      const find = (text) => [...document.querySelectorAll(".amp-oc-call")]
        .find((node) => node.querySelector("code").textContent === text);
      const middle = (node) => {
        const box = node.getBoundingClientRect();
        return { clientX: box.left + 8, clientY: box.top + 4 };
      };
      const fire = (target, type, at) => target.dispatchEvent(new PointerEvent(type, {
        bubbles: true, cancelable: true, pointerType: "touch", ...at,
      }));
      const from = find(id).querySelector(part);
      const at = middle(find(to));
      fire(from, "pointerdown", middle(from));
      fire(window, "pointermove", at);
      fire(window, "pointerup", at);
    }"""
    page.evaluate(send, [CODE["clip"], "code", CODE["unscale"]])
    assert order_of(page) == USUAL
    page.evaluate(send, [CODE["clip"], ".amp-oc-grip", CODE["unscale"]])
    assert order_of(page) == CLIP_FIRST


@pytest.mark.browser
def test_a_wrong_order_is_named_and_drawn(mounted: Callable[..., Any]) -> None:
    page = mounted(OrderTheCalls(CLIP_FIRST))
    output = run(page)
    assert output.startswith("✗ Not right")
    assert "Clipping before unscale_(): the threshold 1.0 met gradients 65,536 times" in output
    label = page.get_by_role("img").get_attribute("aria-label")
    assert label.startswith("Both runs over 30 steps. Your order: the error per pixel goes from")
    assert label.endswith("the loss scale ends at 32768, 1 step is skipped.")
    assert page.locator(".amp-oc-run-yours").count() == 3  # error, scale, legend
    rows = [row.inner_text().split("\t") for row in page.locator("tbody tr").all()]
    assert rows[0] == ["Steps that the optimizer made", "29", "29"]
    assert rows[-1][1].startswith("≠ 0.2")
    card(page, "unscale").click()
    page.get_by_role("button", name="↑ Up").click()
    assert page.get_by_text("You have moved cards since this run.").is_visible()
    page.get_by_role("button", name="Run it").click()
    page.wait_for_selector("text=✓ Right")
    assert page.get_by_text("You have moved cards since this run.").count() == 0
    page.get_by_role("button", name="Run it").click()
    assert status(page) == "This order has run: its result is below."


@pytest.mark.browser
def test_an_error_is_shown_where_it_was_raised(mounted: Callable[..., Any]) -> None:
    page = mounted(OrderTheCalls(UNSCALE_EACH))
    output = run(page)
    assert "unscale_() in each micro-batch" in output
    assert "The run stopped in step 1, micro-batch 2:" in output
    assert "RuntimeError: unscale_() has already been called on this optimizer" in output
    assert "✗ raised the error" in card(page, "unscale").inner_text()
    assert page.get_by_text("✗ raised the error").count() == 1
    assert page.locator("table").is_hidden()
    page.get_by_role("button", name="Show me").click()
    assert order_of(page) == USUAL
    assert page.get_by_text("✗ raised the error").count() == 0
    assert status(page) == "This is the usual order. Run it to see what it does."


@pytest.mark.slow
@pytest.mark.browser
def test_a_warning_of_pytorch_is_shown(mounted: Callable[..., Any]) -> None:
    early = Order(("schedule", "zero_grad"), USUAL.each, USUAL.after[:-1])
    output = run(mounted(OrderTheCalls(early)))
    assert "PyTorch warned:" in output
    assert "UserWarning: Detected call of `lr_scheduler.step()` before" in output


@pytest.mark.slow
@pytest.mark.browser
def test_weights_that_become_nan_are_drawn(mounted: Callable[..., Any]) -> None:
    late = Order(USUAL.before, USUAL.each, ("clip", "step", "update", "unscale", "schedule"))
    page = mounted(OrderTheCalls(late))
    run(page)
    assert page.locator("svg").get_by_text("inf or NaN").count() == 1
    assert "to inf or NaN" in page.get_by_role("img").get_attribute("aria-label")
    assert "NaN" not in page.locator(".amp-oc-run-yours").first.get_attribute("d")


@pytest.mark.slow
@pytest.mark.browser
def test_reset(mounted: Callable[..., Any]) -> None:
    page = mounted(OrderTheCalls())
    page.get_by_role("button", name="Show me").click()
    run(page)
    page.get_by_role("button", name="Reset").click()
    assert order_of(page) == mixed_order(0)
    assert page.locator(".amp-oc-outcome").is_hidden()
    page.get_by_role("button", name="Show me").click()
    assert run(page).startswith("✓ Right")


@pytest.mark.browser
def test_it_says_that_it_waits_for_python(mounted: Callable[..., Any]) -> None:
    widget = OrderTheCalls(CLIP_FIRST)
    page = mounted(widget, answers=False)
    page.get_by_role("button", name="Run it").click()
    assert status(page) == "Running…"
    widget.run()
    page.evaluate("result => model.set('result', result)", widget.result)
    assert status(page) == ""
    assert page.get_by_text("✗ Not right").is_visible()


@pytest.mark.browser
def test_python_moves_the_cards(mounted: Callable[..., Any]) -> None:
    page = mounted(OrderTheCalls())
    page.evaluate("order => model.set('order', order)", Order(each=("forward",)).as_dict())
    assert order_of(page) == Order(each=("forward",))
    left_out = page.locator("[data-zone=unused] code").all_text_contents()
    assert left_out == [CODE[id] for id in mixed_order(0).used if id != "forward"]


@pytest.mark.browser
def test_axe_finds_nothing(
    mounted: Callable[..., Any], faultless: Callable[[Any], None], look: tuple[str, int]
) -> None:
    page = mounted(OrderTheCalls(), *look)
    faultless(page)
    card(page, "clip").click()
    faultless(page)
    for order in (CLIP_FIRST, UNSCALE_EACH, USUAL):
        page.evaluate("order => model.set('order', order)", order.as_dict())
        before = page.locator(".amp-oc-outcome").inner_text()
        page.get_by_role("button", name="Run it").click()
        page.wait_for_function(
            "text => document.querySelector('.amp-oc-outcome').innerText !== text", arg=before
        )
        faultless(page)


@pytest.mark.slow
@pytest.mark.browser
def test_a_key_changes_little_of_the_page(
    mounted: Callable[..., Any], changes_by: Callable[[Any, str], int]
) -> None:
    page = mounted(OrderTheCalls())
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    changes = [changes_by(page, "ArrowDown") for _ in range(6)]
    assert 0 < min(changes) <= max(changes) < 100
