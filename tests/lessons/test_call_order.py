"""Running the calls of a step in any order: what breaks, and which mistake is named."""

from __future__ import annotations

import itertools
import json
import math
import re
import warnings
from collections.abc import Iterator
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from amp_lessons.exercises.checks.torch_state import usual_torch
from amp_lessons.lessons import call_order
from amp_lessons.lessons.call_order import (
    CARDS,
    STEPS,
    USUAL,
    Order,
    OrderError,
    mixed_order,
    playing,
    run_order,
)
from amp_lessons.lessons.call_order.cards import ZONES, read_order
from amp_lessons.lessons.widgets.order_calls import plain_result

IDS = [card.id for card in CARDS]
LOOP = "forward divide backward"
END = "unscale clip step update schedule"


def order(before: str = "zero_grad", each: str = LOOP, after: str = END) -> Order:
    return Order(tuple(before.split()), tuple(each.split()), tuple(after.split()))


# ---- orders ------------------------------------------------------------------------------------


def test_an_order_in_plain_data():
    assert read_order(USUAL.as_dict()) == USUAL
    assert read_order({"each": ["forward"]}) == Order(each=("forward",))
    assert Order(each=("forward",)).unused == tuple(id for id in IDS if id != "forward")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"each": ["forwards"]}, "no card is called 'forwards'"),
        ({"each": [["forward"]]}, "no card is called"),
        ({"each": ["step"], "after": ["step"]}, "'step' is used twice"),
        ({"inside": []}, "an order has no 'inside': use before, each, after"),
        ({"each": "step"}, "each must be a list of cards, got 'step'"),
        ([["step"]], "an order must be an Order or a dict, got list"),
    ],
)
def test_orders_that_are_refused(given, message):
    with pytest.raises(OrderError, match=message):
        read_order(given)


def test_a_mixed_order_is_drawn_from_its_seed_and_is_wrong():
    orders = [mixed_order(seed) for seed in range(20)]
    assert orders == [mixed_order(seed) for seed in range(20)]
    assert len(set(orders)) == 20
    assert all(
        sorted(o.used) == sorted(IDS) and min(map(len, o.as_dict().values())) for o in orders
    )
    assert not any(run_order(o).right for o in orders)


# ---- the usual order ---------------------------------------------------------------------------


def plain_loop() -> torch.Tensor:
    """The usual order, written by hand: the weights at the end."""
    names = playing.parts()
    model, optimizer, scaler = names["model"], names["optimizer"], names["scaler"]
    for pictures in names["batches"]:
        optimizer.zero_grad()
        for piece in pictures.split(8):
            with torch.autocast("cpu", dtype=torch.float16):
                loss = torch.nn.functional.mse_loss(model(piece), piece)
            scaler.scale(loss / 4).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        names["scheduler"].step()
    return playing.weights_of(model)


@cache
def right_weights() -> torch.Tensor:
    with usual_torch():
        return plain_loop()


def close(weights: torch.Tensor) -> bool:
    return torch.allclose(weights, right_weights(), rtol=1e-4, atol=1e-5)


def test_the_usual_order_overflows_once_and_is_clipped_once():
    outcome = run_order(USUAL)
    assert outcome.right
    assert outcome.findings == ()
    run = outcome.run
    assert close(run.weights)
    assert run.skipped == (playing.BROKEN_STEP,)
    clipped = [play.step for play in run.plays if play.card == "clip" and play.norm > 1]
    assert clipped == [playing.BRIGHT_STEP]
    assert run.scales == (2.0**16,) * 6 + (2.0**15,) * 24
    assert run.warned == ()
    assert run.errors[-1] < run.errors[0] / 2
    assert len(run.moves) == STEPS - 1
    for move in run.moves:
        assert move.held.keys() == {(move.step, piece) for piece in range(4)}
        for held in move.held.values():
            assert held.share == pytest.approx(1 / 4)
            assert held.factor == 1


def right_orders() -> list[Order]:
    """zero_grad first or anywhere after the step; the schedule before or after update."""
    after = [("update", "schedule"), ("schedule", "update")]
    found = [order(after=f"unscale clip step {a} {b}") for a, b in after]
    for rest in itertools.permutations(("update", "schedule", "zero_grad")):
        found.append(order("", after=f"unscale clip step {' '.join(rest)}"))
    return found


@pytest.mark.parametrize("good", right_orders(), ids=lambda o: "-".join(o.before + o.after[3:]))
def test_orders_that_are_as_good(good):
    outcome = run_order(good)
    assert outcome.right
    assert outcome.findings == ()
    notes = " ".join(outcome.notes)
    assert ("at the end of a step clears" in notes) == ("zero_grad" in good.after)
    early = good.after.index("schedule") < good.after.index("update")
    assert ("may come before or after" in notes) == early
    assert "skipped step 7, and the schedule moved on" in notes


# ---- the mistakes ------------------------------------------------------------------------------

MISTAKES = {
    "clip-before-unscale": (
        order(after="clip unscale step update schedule"),
        r"the threshold 1.0 met gradients 65,536 times their size. In step 1 their norm was "
        r"13,\d+ instead of 0.20\d",
        None,
    ),
    "clip-without-unscale": (
        order(after="clip step update schedule"),
        "Clipping without `unscale_",
        None,
    ),
    "unscale-after-step": (
        order(after="clip step unscale update schedule"),
        "`unscale_()` after `step()`: `scaler.step()` has already divided",
        "RuntimeError: unscale_() is being called after step().",
    ),
    "step-before-backward": (
        order(each=f"step {LOOP}", after="unscale clip update schedule"),
        "`scaler.step()` before `backward()`: no loss has been scaled",
        "AssertionError: Attempted step but _scale is None.",
    ),
    "update-before-step": (
        order(after="unscale clip update step schedule"),
        "The optimizer got them 65,536 times too small",
        "RuntimeError: unscale_() is being called after step().",
    ),
    "update-each": (
        order(each=f"{LOOP} update", after="unscale clip step schedule"),
        "`update()` in each micro-batch",
        "AssertionError: No inf checks were recorded prior to update.",
    ),
    "step-each": (
        order(each=f"{LOOP} step", after="unscale clip update schedule"),
        "`scaler.step()` in each micro-batch",
        "RuntimeError: step() has already been called since the last update().",
    ),
    "zero-each": (
        order("", f"zero_grad {LOOP}"),
        "removed the gradients of 3 of the 4 micro-batches",
        None,
    ),
    "zero-before-step": (
        order("", after="unscale clip zero_grad step update schedule"),
        "removed the gradients before `scaler.step()` could use them. The weights never moved.",
        None,
    ),
    "never-zeroed": (
        order(""),
        "step 6 used those of 6 steps. The inf of step 7 stayed in them too, so 24 steps were",
        None,
    ),
    "schedule-before-step": (
        order(after="unscale clip schedule step update"),
        "each step uses the learning rate of the next. In step 30 it was 0.129 instead of 0.136",
        None,
    ),
    "schedule-each": (
        order(each=f"{LOOP} schedule", after="unscale clip step update"),
        "the learning rate fell 4 times a step. In step 30 it was 0.00127 instead of 0.136",
        None,
    ),
    "undivided": (
        order(each="forward backward"),
        "No division by the number of micro-batches: each gradient is 4 times its share",
        None,
    ),
    "unscale-each": (
        order(each=f"{LOOP} unscale", after="clip step update schedule"),
        "`unscale_()` in each micro-batch",
        "RuntimeError: unscale_() has already been called on this optimizer",
    ),
    "clip-each": (
        order(each=f"{LOOP} clip", after="step update schedule"),
        "In step 1 it met 4 gradients, of 1, 2, 3 and 4 of the 4 micro-batches",
        None,
    ),
    "clip-after-step": (
        order(after="unscale step clip update schedule"),
        "In step 15 the optimizer used a gradient with a norm of 2.9",
        None,
    ),
    "clip-before-backward": (
        order("zero_grad clip", after="unscale step update schedule"),
        "there are no gradients yet, so nothing is clipped",
        None,
    ),
    "no-clip": (order(after="unscale step update schedule"), "In step 15 the optimizer used", None),
    "no-step": (
        order(after="unscale clip update schedule"),
        "the weights never moved",
        None,
    ),
    "no-update": (
        order(after="unscale clip step schedule"),
        "in step 2 the scaler still waits for the end of step 1",
        "RuntimeError: unscale_() is being called after step().",
    ),
    "no-schedule": (
        order(after="unscale clip step update"),
        "In step 30 it was 0.6 instead of 0.136",
        None,
    ),
    "no-backward": (
        order(each="forward divide"),
        "there are no gradients, and no loss was scaled",
        "AssertionError: Attempted unscale_ but _scale is None.",
    ),
    "no-forward": (
        order(each="divide backward"),
        "nothing computes the loss",
        "NameError: name 'loss' is not defined",
    ),
    "one-micro-batch": (
        order(each="forward divide", after=f"backward {END}"),
        "`backward()` after the loop: it runs once a step, so the gradients are those of 1 of",
        None,
    ),
    "forward-before-loop": (
        order("zero_grad forward", "divide backward"),
        "`piece` gets its value in the loop",
        "NameError: name 'piece' is not defined",
    ),
    "divide-before-forward": (
        order(each="divide forward backward"),
        "there is no loss yet",
        "NameError: name 'loss' is not defined",
    ),
    "backward-before-forward": (
        order(each="backward forward divide"),
        "there is no loss yet",
        "NameError: name 'loss' is not defined",
    ),
    "unscale-before-backward": (
        order(each="forward unscale divide backward", after="clip step update schedule"),
        "`unscale_()` before `backward()`",
        "AssertionError: Attempted unscale_ but _scale is None.",
    ),
    "update-before-backward": (
        order("zero_grad update", after="unscale clip step schedule"),
        "`update()` before `backward()`",
        "AssertionError: Attempted update but _scale is None.",
    ),
}  # fmt: skip


@pytest.mark.parametrize("slug", MISTAKES)
def test_each_mistake_is_told_apart(slug):
    wrong, text, error = MISTAKES[slug]
    outcome = run_order(wrong)
    assert not outcome.right
    named = {finding.slug: finding.text for finding in outcome.findings}
    if slug == "clip-each":  # the gradients were scaled, too
        assert list(named) == ["clip-without-unscale", "clip-each"]
    else:
        assert list(named) == [slug], "one mistake, and no other is named"

    pattern = text if "\\d" in text else re.escape(text)
    assert re.search(pattern, named[slug]), named[slug]
    assert (outcome.run.stop is not None) == (error is not None)
    if outcome.run.stop and error:
        assert outcome.run.stop.message.startswith(error)


def test_another_way_to_make_a_mistake_earns_its_name():
    """Orders that make the same mistake elsewhere, some of which raise and some of which don't."""
    ways = {
        "unscale-after-step": order(after="clip step update unscale schedule"),
        "zero-before-step": order("", f"{LOOP} zero_grad"),
        "update-before-step": order(after="update unscale clip step schedule"),
        "undivided": order(each="forward backward divide"),
        "one-micro-batch": order(each="", after=f"{LOOP} {END}"),
        "clip-after-step": order("clip zero_grad", after="unscale step update schedule"),
        "schedule-before-step": order("schedule zero_grad", after="unscale clip step update"),
    }
    assert {slug: run_order(o).findings[0].slug for slug, o in ways.items()} == {s: s for s in ways}


SEVERAL = {
    "never-zeroed clip-before-unscale": order("", LOOP, "clip unscale step update schedule"),
    "undivided no-clip no-schedule": order(each="forward backward", after="unscale step update"),
    "unscale-after-step clip-after-step step-each update-each": order(
        each=f"{LOOP} step update", after="unscale clip schedule"
    ),
    "update-each unscale-each": order(each=f"{LOOP} unscale update", after="clip step schedule"),
}


def test_a_whole_step_in_each_micro_batch():
    """With zero_grad in the loop too, it is a training with small batches, and a quarter of the
    gradient. Without it, the gradients add up all the same."""
    small = run_order(order("", f"zero_grad {LOOP} unscale clip step update", "schedule"))
    (finding,) = small.findings
    assert finding.slug == "no-accumulation"
    assert "The optimizer stepped 4 times for each batch" in finding.text
    assert len(small.run.moves) == 4 * STEPS - len(small.run.skipped)
    adding = run_order(order(each=f"{LOOP} unscale clip step update", after="schedule"))
    slugs = {finding.slug for finding in adding.findings}
    assert slugs == {"unscale-each", "clip-each", "step-each", "update-each"}


@pytest.mark.parametrize("slugs", SEVERAL)
def test_several_mistakes_are_all_named(slugs):
    found = [finding.slug for finding in run_order(SEVERAL[slugs]).findings]
    assert " ".join(found) == slugs


def test_a_scaled_gradient_that_reaches_the_optimizer():
    """unscale_ after update: the next step believes it, and the inf of step 7 is used."""
    outcome = run_order(order(after="step update unscale schedule"))
    text = outcome.findings[0].text
    assert "The optimizer got gradients 65,536 times their size." in text
    assert outcome.run.moves[1].held[(1, 0)].factor == 2**16
    clipped = run_order(order(after="clip step update unscale schedule"))
    assert "Clipping met gradients" in clipped.findings[0].text
    assert "In step 7 nobody looked for inf" in clipped.findings[0].text
    assert math.isnan(clipped.run.errors[-1])


def test_what_pytorch_warns_of_is_kept():
    (warned,) = run_order(MISTAKES["schedule-before-step"][0]).run.warned
    assert warned.startswith("UserWarning: Detected call of `lr_scheduler.step()` before")


# ---- what the findings stand on ----------------------------------------------------------------


def true_gradient(piece: int) -> torch.Tensor:
    """Of one micro-batch of the first step, in FP32, at the initial weights."""
    model = playing.autoencoder()
    part = playing.batches()[0].split(8)[piece]
    playing.loss_of(model, part).backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


@pytest.mark.parametrize(
    "slug",
    ["undivided", "zero-each", "update-before-step", "one-micro-batch", "no-clip"],
)
def test_the_ledger_tells_what_the_gradients_hold(slug, monkeypatch):
    """The sum of share times factor times the true gradient is what the optimizer gets."""
    got = []
    moving = playing._Player._moving

    def look(player, *hooked):
        moving(player, *hooked)
        got.append(torch.cat([p.grad.flatten() for p in player.model.parameters()]).clone())

    monkeypatch.setattr(playing._Player, "_moving", look)
    run = playing.play_order(MISTAKES[slug][0])
    held = run.moves[0].held
    expected = sum(part.share * part.factor * true_gradient(n) for (_, n), part in held.items())
    assert run.moves[0].step == 0
    assert (got[0] - expected).norm() < 0.01 * expected.norm()  # FP16 beside FP32
    assert run.moves[0].norm == pytest.approx(got[0].norm().item())


def run_as_a_program(order: Order) -> torch.Tensor | None:
    """The weights after the order's own program, all at once; None if it raises."""
    names = playing.parts()
    with usual_torch(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(order.program, names)
        except Exception:
            return None
    return playing.weights_of(names["model"])


def one_move_away(start: Order = USUAL, cards: list[str] = IDS) -> list[Order]:
    """Every order that differs from another by one card: moved, or left out."""
    found = {start: None}
    for card in cards:
        rest = {zone: [c for c in getattr(start, zone) if c != card] for zone in ZONES}
        found[read_order(rest)] = None
        for zone in ZONES:
            for place in range(len(rest[zone]) + 1):
                moved = rest | {zone: [*rest[zone][:place], card, *rest[zone][place:]]}
                found[read_order(moved)] = None
    return list(found)


def judge(order: Order) -> call_order.OrderOutcome:
    """What holds for every order."""
    outcome = run_order(order)
    weights = run_as_a_program(order)
    assert outcome.right == (weights is not None and close(weights))
    assert (outcome.run.stop is None) == (weights is not None)
    if weights is not None:
        torch.testing.assert_close(outcome.run.weights, weights, equal_nan=True, rtol=0, atol=0)
    assert outcome.right != bool(outcome.findings)
    slugs = [finding.slug for finding in outcome.findings]
    assert "other" not in slugs
    assert len(set(slugs)) == len(slugs)
    for finding in outcome.findings:
        assert all(len(part.split()) <= 35 for part in finding.text.split(". "))
        assert finding.text.count("`") % 2 == 0
        assert finding.text.endswith(".")
    json.dumps(plain_result(outcome), allow_nan=False)
    return outcome


@pytest.mark.long
def test_no_order_one_move_away_is_misjudged():
    orders = one_move_away()
    assert len(orders) == 94
    right = [o for o in orders if judge(o).right]
    assert len(right) == 5  # zero_grad in four places, and the schedule before update


@pytest.mark.long
@pytest.mark.parametrize("card", IDS)
def test_no_order_two_moves_away_is_misjudged(card):
    orders = dict.fromkeys(
        far for near in one_move_away(cards=[card]) for far in one_move_away(near)
    )
    assert len(orders) > 500
    for each in orders:
        judge(each)


def moves() -> Iterator[st.SearchStrategy[Order]]:
    """Orders that are far from the usual one, and orders two to four moves away."""
    yield st.builds(mixed_order, st.integers(0, 10**6))

    @st.composite
    def moved(draw):
        zones = {zone: list(getattr(USUAL, zone)) for zone in ZONES} | {"unused": []}
        for _ in range(draw(st.integers(2, 4))):
            card = draw(st.sampled_from(IDS))
            for cards in zones.values():
                if card in cards:
                    cards.remove(card)
            to = zones[draw(st.sampled_from([*ZONES, "after", "each", "unused"]))]
            to.insert(draw(st.integers(0, len(to))), card)
        return read_order({zone: zones[zone] for zone in ZONES})

    yield moved()


@settings(max_examples=100, derandomize=True)
@given(st.one_of(*moves()))
@pytest.mark.slow
def test_every_order_gives_a_result_and_no_wrong_one_is_called_right(order):
    judge(order)


def test_no_card_at_all():
    outcome = run_order(Order())
    assert [finding.slug for finding in outcome.findings] == ["no-backward"]
    assert outcome.run.moved == 0


# ---- around it ---------------------------------------------------------------------------------


def test_the_same_order_is_run_once():
    assert run_order(order("")) is run_order(order(""))


def test_torch_stays_as_it_was():
    torch.manual_seed(3)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16), warnings.catch_warnings():
        warnings.simplefilter("error")
        run = playing.play_order(MISTAKES["schedule-each"][0])
        assert not torch.is_grad_enabled()
    assert torch.equal(run.weights, run_order(MISTAKES["schedule-each"][0]).run.weights)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads


def test_numbers_put_both_runs_side_by_side():
    usual, wrong = (call_order.numbers(run_order(o).run) for o in (USUAL, order("")))
    assert usual.keys() == wrong.keys()
    assert usual["Steps that the scaler skipped"] == "1: step 7"
    assert wrong["Steps that the scaler skipped"] == "24: steps 7 to 30"
    assert (
        usual["Micro-batches in a step's gradient"],
        wrong["Micro-batches in a step's gradient"],
    ) == ("4", "4 to 24")
    assert usual["Loss scale at the end"] == "32,768"


def test_the_program_of_an_order():
    assert Order(each=("forward",)).program == (
        "for pictures in batches:\n"
        "    pieces = pictures.split(len(pictures) // 4)\n"
        "    for piece in pieces:\n"
        '        with torch.autocast("cpu", dtype=torch.float16):\n'
        "            loss = loss_of(model, piece)\n"
    )
    assert "    for piece in pieces:\n        pass\n" in Order().program
