"""The autocast step-through: its steps against `policy` and a real run, its score, and the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import traitlets
from playwright.sync_api import expect
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from amp_lessons.amp import policy
from amp_lessons.amp.explain import TraceError
from amp_lessons.lessons.widgets import AutocastSteps, op_steps
from amp_lessons.lessons.widgets.autocast_steps import DTYPES, MOST_STEPS, OneOfEach
from amp_lessons.lessons.widgets.op_steps import OpStep, Score

LOW, FULL = "float16", "float32"
# What PyTorch's list of ops says of each line of `OneOfEach`: the group on CUDA and on a CPU.
# https://docs.pytorch.org/docs/stable/amp.html#autocast-op-reference
DOCUMENTED = [
    ("linear", "lower precision", "lower precision"),
    ("gelu", "as given", "as given"),
    ("linear", "lower precision", "lower precision"),
    ("layer_norm", "float32", "as given"),
    ("matmul", "lower precision", "lower precision"),
    ("softmax", "float32", "as given"),
    ("matmul", "lower precision", "lower precision"),
    ("add", "as given", "as given"),
    ("addcmul", "widest", "as given"),
    ("cat", "as given", "widest"),
    ("linear", "lower precision", "lower precision"),
    ("sum", "float32", "as given"),
    ("mse_loss", "float32", "float32"),
]
GIVES = {
    "cuda": [LOW, LOW, LOW, FULL, LOW, FULL, LOW, FULL, FULL, FULL, LOW, FULL, FULL],
    "cpu": [LOW, LOW, LOW, LOW, LOW, LOW, LOW, FULL, FULL, FULL, LOW, LOW, FULL],
}
CASTS = {
    "cuda": [3, 0, 0, 1, 1, 0, 2, 0, 2, 0, 3, 0, 0],
    "cpu": [3, 0, 0, 0, 0, 0, 0, 0, 0, 1, 3, 0, 1],
}
RULES = [(device, dtype) for device in policy.DEVICES for dtype in DTYPES]


@pytest.fixture(scope="module")
def made() -> dict[tuple[str, str], tuple[OpStep, ...]]:
    """The steps of the widget's own model under each choice of rules."""
    return {rules: AutocastSteps(device=rules[0], dtype=rules[1]).steps for rules in RULES}


# ---- facts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", RULES, ids="-".join)
def test_dtypes_and_casts_of_each_op(
    made: dict[tuple[str, str], tuple[OpStep, ...]], rules: tuple[str, str]
) -> None:
    device, low = rules
    steps = made[rules]
    place = 1 + policy.DEVICES.index(device)
    assert [(step.op, step.rule) for step in steps] == [(row[0], row[place]) for row in DOCUMENTED]
    assert [step.gives for step in steps] == [low if d == LOW else FULL for d in GIVES[device]]
    # softmax on CUDA has a kernel that reads FP16 and gives FP32, and none that reads BF16.
    softmax = rules == ("cuda", "bfloat16")
    assert [step.casts - (softmax and step.op == "softmax") for step in steps] == CASTS[device]
    assert [step.spared for step in steps] == [2 if step.number == 3 else 0 for step in steps]
    for step in steps:
        assert len([o for o in step.operands if o.how in ("new", "again")]) == step.casts
        assert all(o.dtype == o.used_as for o in step.operands if not o.how)


@pytest.mark.parametrize("rules", RULES, ids="-".join)
def test_every_rule_is_what_policy_says(
    made: dict[tuple[str, str], tuple[OpStep, ...]], rules: tuple[str, str]
) -> None:
    for step in made[rules]:
        asked = policy.op_policy(step.op, *rules)
        assert step.rule == asked.group
        known = {LOW: asked.low, "bfloat16": asked.low, FULL: asked.full}
        dtypes = {o.dtype for o in step.operands}
        if len(dtypes) == 1:
            assert step.gives == policy.short(known[dtypes.pop()])


def test_cuda_and_the_cpu_differ(made: dict[tuple[str, str], tuple[OpStep, ...]]) -> None:
    cuda, cpu = made["cuda", LOW], made["cpu", LOW]
    assert [a.number for a, b in zip(cuda, cpu, strict=True) if a.gives != b.gives] == [4, 6, 12]
    assert {step.rule for step in cuda} == {"lower precision", "float32", "widest", "as given"}
    assert {step.rule for step in cpu} == {step.rule for step in cuda}
    norm = cpu[3]
    assert (norm.runs_in, norm.gives) == (FULL, LOW), "the two questions have two answers"


class Watch(TorchDispatchMode):
    """Counts the casts of a real run, and keeps the dtype of each op's result."""

    def __init__(self) -> None:
        super().__init__()
        self.casts = 0
        self.gives: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default:
            self.casts += 1
        elif not func.is_view and "_unsafe_view" not in str(func) and "detach" not in str(func):
            first = result[0] if isinstance(result, tuple) else result
            self.gives.append(policy.short(first.dtype))
        return result


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_real_run_on_this_cpu_does_the_same(
    made: dict[tuple[str, str], tuple[OpStep, ...]], dtype: str
) -> None:
    """The same ops, dtypes and casts; what the cache holds is spared in the same region alone."""
    steps = made["cpu", dtype]
    model, x, target = OneOfEach(), torch.randn(4, 8), torch.randn(4)

    def run() -> Watch:
        with Watch() as watch:
            model(x, target)
        return watch

    with torch.autocast("cpu", dtype=getattr(torch, dtype)):
        first, second = run(), run()
    with torch.autocast("cpu", dtype=getattr(torch, dtype)):
        after = run()
    assert first.gives == [step.gives for step in steps]
    assert first.casts == after.casts == sum(step.casts for step in steps)
    assert first.casts - second.casts == len(steps[-1].cache)


def test_the_cache_fills_and_is_used(made: dict[tuple[str, str], tuple[OpStep, ...]]) -> None:
    steps = made["cuda", LOW]
    mix, head = {"mix.weight", "mix.bias"}, {"head.weight", "head.bias"}

    def entries(step: OpStep, state: str) -> set[str]:
        return {entry.name for entry in step.cache if entry.state == state}

    assert entries(steps[0], "new") == mix
    assert entries(steps[1], "") == mix
    assert entries(steps[2], "used") == mix
    assert entries(steps[10], "new") == head
    assert entries(steps[12], "") == mix | head
    sizes = {entry.name: entry.bytes for entry in steps[12].cache}
    assert sizes == {"mix.weight": 128, "mix.bias": 16, "head.weight": 256, "head.bias": 16}
    twice = {o.name: o.how for o in steps[6].operands}
    assert twice == {"shares": "new", "k": "again"}, "an activation is cast each time"


def test_names_and_order(made: dict[tuple[str, str], tuple[OpStep, ...]]) -> None:
    steps = made["cuda", LOW]
    assert [(o.name, o.kind, o.made_by) for o in steps[0].operands] == [
        ("x", "input", 0),
        ("mix.weight", "parameter", 0),
        ("mix.bias", "parameter", 0),
    ]
    assert [(o.name, o.kind, o.made_by) for o in steps[7].operands] == [
        ("mixed", "result", 7),
        ("x", "input", 0),
    ]
    assert [step.code.partition("  #")[0] for step in steps][3:5] == [
        "k = self.norm(k)",
        "scores = q @ k.mT",
    ]
    assert (steps[4].kernel, steps[12].result) == ("mm", "")


@pytest.mark.parametrize(
    ("rules", "number", "sentences"),
    [
        (("cuda", LOW), 1, ["On CUDA, autocast runs linear in FP16.",
                            "Autocast casts x, mix.weight and mix.bias.",
                            "The cache keeps the casts of mix.weight and mix.bias."]),
        (("cuda", "bfloat16"), 3, ["On CUDA, autocast runs linear in BF16.",
                                   "The casts of mix.weight and mix.bias come from the cache."]),
        (("cuda", LOW), 6, ["On CUDA, autocast runs softmax in FP32.",
                            "It casts nothing: it asks the op for an FP32 result, and the op "
                            "reads FP16."]),
        (("cuda", LOW), 7, ["On CUDA, autocast runs matmul in FP16.", "Autocast casts shares.",
                            "It casts k again: the cache keeps only casts of FP32 parameters that "
                            "need a gradient."]),
        (("cuda", LOW), 9, ["On CUDA, autocast casts the inputs of addcmul to the widest dtype "
                            "among them.", "Autocast casts q and mixed."]),
        (("cuda", LOW), 13, ["On CUDA, autocast runs mse_loss in FP32.",
                             "All its inputs are FP32 already, so nothing is cast."]),
        (("cpu", LOW), 4, ["On a CPU, autocast has no rule for layer_norm: it takes its inputs as "
                           "they come.", "FP16 and FP32 go in. It runs in FP32, and its output has "
                           "the dtype of k: FP16."]),
        (("cpu", LOW), 6, ["On a CPU, autocast has no rule for softmax: it takes its inputs as "
                           "they come.", "FP16 goes in, FP16 comes out."]),
        (("cpu", LOW), 8, ["On a CPU, autocast has no rule for add: it takes its inputs as they "
                           "come.", "FP16 and FP32 go in. PyTorch's type promotion makes the "
                           "result FP32."]),
    ],
)  # fmt: skip
def test_the_reasons(
    made: dict[tuple[str, str], tuple[OpStep, ...]],
    rules: tuple[str, str],
    number: int,
    sentences: list[str],
) -> None:
    assert list(made[rules][number - 1].why) == sentences


# ---- a model of one's own ----------------------------------------------------------------------


class Odd(nn.Module):
    """What the widget's own model has not: a disabled region, own casts, in place, a frozen one."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Linear(8, 8, bias=False).requires_grad_(False)

    def forward(self, x):
        h = self.frozen(self.frozen(x))
        with torch.autocast(x.device.type, enabled=False):
            h = F.linear(h.float(), self.frozen.weight)
        h = h.half()
        h += x
        return F.binary_cross_entropy(h.sigmoid(), x.sigmoid())


def test_a_model_of_ones_own() -> None:
    steps = AutocastSteps(Odd(), torch.zeros(2, 8)).steps
    by_rule = {(step.op, step.rule): step for step in steps}
    first, second = steps[:2]
    assert [o.how for o in first.operands] == ["new", "new"]
    assert (second.operands[0].name, second.operands[0].made_by) == ("", 1)
    assert second.operands[1].how == "again"
    assert "casts frozen.weight again" in " ".join(second.why)
    assert second.cache == ()
    assert by_rule["linear", "off"].why[0].startswith("The rule of linear has no effect here")
    assert ("float", "own cast") in by_rule
    added = by_rule["add_", "as given"]
    assert (added.runs_in, added.gives) == (FULL, LOW)
    refused = by_rule["binary_cross_entropy", "refused"]
    assert "a real run raises an error here" in refused.why[0]


def test_ops_inside_others_and_ops_without_input() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    steps = AutocastSteps(layer, torch.zeros(2, 5, 16)).steps
    bias = next(step for step in steps if step.op == "add" and step.spared)
    assert bias.rule == "inside"
    assert bias.why[0].startswith("add runs inside a larger op here")
    assert {step.rule for step in steps} == {"lower precision", "float32", "as given", "inside"}
    zeros = AutocastSteps(nn.LSTM(4, 4), torch.zeros(2, 2, 4), device="cpu").steps[0]
    assert zeros.operands == ()
    assert zeros.why[1] == "It takes no floating-point tensor, so there is nothing to cast."


def test_an_op_that_policy_does_not_know() -> None:
    class Rare(nn.Module):
        def forward(self, x):
            return torch.special.scaled_modified_bessel_k0(x)

    (step,) = AutocastSteps(Rare(), torch.ones(3), device="cpu").steps
    assert step.rule == ""
    assert step.why[0].startswith("The policy browser doesn't list")


def test_what_cannot_be_stepped_through() -> None:
    class Branches(nn.Module):
        def forward(self, x):
            return x + 1 if x.sum() > 0 else x

    long = nn.Sequential(*[nn.ReLU() for _ in range(MOST_STEPS + 1)])
    cases = [
        ((Branches(), torch.ones(2)), "the code asks for a value"),
        ((long, torch.ones(2)), "Sequential runs 61 ops, and the step-through takes at most 60"),
        ((nn.Identity(), torch.ones(2)), "Identity runs no op on floating-point tensors"),
        ((nn.Linear(3, 3),), "missing"),
        (("model", torch.ones(2)), "nn.Module"),
    ]
    for arguments, message in cases:
        with pytest.raises(TraceError, match=message) as raised:
            AutocastSteps(*arguments)
        assert "\n" not in str(raised.value)


def test_rules_under_which_the_model_does_not_run() -> None:
    class OnlyCpu(nn.Module):
        def forward(self, x):
            if x.device.type == "cuda":
                raise RuntimeError("not on a GPU")
            return x * 2

    widget = AutocastSteps(OnlyCpu(), torch.ones(2), device="cpu")
    widget.predict("fp32")
    widget.device = "cuda"
    assert "not on a GPU" in widget.view["fault"]
    assert (widget.steps, widget.view["steps"], widget.answers) == ((), [], [])
    widget.device = "cpu"
    assert (widget.view["fault"], len(widget.steps)) == ("", 1)


# ---- predictions -------------------------------------------------------------------------------


def test_predict_and_score() -> None:
    widget = AutocastSteps(device="cpu")
    assert widget.score == Score(0, 0, 0)
    assert widget.predict("fp16")
    assert not widget.predict(torch.float32)
    assert widget.show_next().number == 3
    assert widget.predict("float32", "float16"), "the norm on a CPU"
    assert (widget.score, widget.place) == (Score(2, 3, 1), 3)
    assert [step.number for step in widget.missed] == [2]
    assert widget.answers == [[LOW, LOW], [FULL, FULL], [], [FULL, LOW]]
    for _ in range(9):
        widget.show_next()
    with pytest.raises(ValueError, match="every step has been committed: call again"):
        widget.show_next()
    widget.again()
    assert (widget.answers, widget.place, widget.score) == ([], 0, Score(0, 0, 0))


def test_half_an_answer_is_wrong() -> None:
    (step,) = (s for s in AutocastSteps(device="cpu").steps if s.op == "layer_norm")
    assert op_steps.verdict(step, [FULL, LOW]) == "right"
    assert op_steps.verdict(step, [FULL, FULL]) == op_steps.verdict(step, [LOW, LOW]) == "wrong"
    assert op_steps.verdict(step, []) == "shown"


def test_the_page_is_told_nothing_before_the_commit() -> None:
    widget = AutocastSteps()
    widget.predict("fp16")
    revealed, asked, *later = widget.view["steps"]
    assert (revealed["verdict"], revealed["gives"], revealed["casts"]) == ("right", LOW, 3)
    assert set(asked) == {"number", "op", "kernel", "path", "code", "operands", "verdict"}
    assert set(asked["operands"][0]) == {"name", "kind", "made_by", "dtype"}
    assert {len(step["operands"]) for step in later} == {0}


def test_other_rules_start_again() -> None:
    widget = AutocastSteps()
    widget.predict("fp16")
    widget.dtype = "bf16"
    assert (widget.dtype, widget.answers, widget.place) == ("bfloat16", [], 0)
    assert widget.view["options"] == ["bfloat16", FULL]
    widget.predict("bf16")
    widget.device = "cpu"
    assert (widget.answers, widget.view["device"]) == ([], "cpu")
    widget.place = 7
    assert widget.place == 0, "the next step is not shown before its turn"


def test_what_a_page_sends() -> None:
    widget = AutocastSteps()
    widget.set_state({"answers": [[LOW, LOW], []], "place": 2})
    assert (widget.score, widget.view["place"]) == (Score(1, 1, 1), 2)
    widget.set_state({"answers": [], "place": 0})
    assert widget.view["answers"] == []


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("device", "tpu", "device must be 'cuda' or 'cpu', got 'tpu'"),
        ("dtype", "fp32", "autocast computes in torch.float16 or torch.bfloat16, not fp32"),
        ("answers", [["float16"]], "an answer must be \\[\\] or two of float16, float32"),
        ("answers", [["float16", "int8"]], "an answer must be"),
    ],
)
def test_what_it_refuses(name: str, value: Any, message: str) -> None:
    widget = AutocastSteps()
    with pytest.raises((traitlets.TraitError, ValueError), match=message):
        setattr(widget, name, value)
    if name != "answers":
        with pytest.raises(ValueError, match=message):
            AutocastSteps(**{name: value})
    with pytest.raises(ValueError, match="a prediction must be one of float16, float32; got 'fp8'"):
        widget.predict("fp8")


# ---- the page ----------------------------------------------------------------------------------

NAMES = ("device", "dtype", "answers", "place", "view")


@pytest.fixture
def show(mount: Callable[..., Any]) -> Callable[..., Any]:
    """Draw a widget, and answer its changes as the kernel does."""

    def show_(widget: AutocastSteps, scheme: str = "light", width: int = 900) -> Any:
        def python(state: dict[str, Any]) -> dict[str, Any]:
            widget.set_state(state)
            return {name: getattr(widget, name) for name in NAMES}

        values = {name: getattr(widget, name) for name in NAMES}
        return mount("autocast_steps", values, scheme, width, python)

    return show_


def heading(page: Any) -> Any:
    return page.locator(".amp-step-panel > .amp-heading")


def focused(page: Any) -> str:
    return page.evaluate("document.activeElement.value || document.activeElement.textContent")


@pytest.mark.browser
def test_by_keyboard_alone(show: Callable[..., Any]) -> None:
    widget = AutocastSteps()
    page = show(widget)
    press = page.keyboard.press
    for _ in range(4):  # two fields, the list of ops, the first group
        press("Tab")
    press("Space")
    assert focused(page) == LOW
    assert page.locator("input:checked").count() == 2, "the output follows"
    press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Right: linear runs in FP16 and gives FP16.")
    assert focused(page) == "Next op"
    press("Enter")
    expect(heading(page)).to_have_text("Op 2 of 13: gelu")
    press("Space")
    press("ArrowDown")
    assert focused(page) == FULL
    press("Tab")
    press("ArrowUp")
    assert focused(page) == LOW
    press("Tab")
    assert focused(page) == "Commit"
    press("Space")
    expect(page.get_by_role("status")).to_contain_text("You said that it runs in FP32 and gives")
    assert widget.answers == [[LOW, LOW], [FULL, LOW]]
    press("Enter")
    expect(heading(page)).to_have_text("Op 3 of 13: linear")
    for _ in range(3):
        press("Tab")
    assert focused(page) == "Show me"
    press("Enter")
    expect(page.get_by_role("status")).to_contain_text("Shown: linear runs in FP16")
    expect(page.get_by_role("status")).to_contain_text("come from the cache")
    assert focused(page) == "Next op"
    press("Tab")
    assert focused(page) == "Back"
    press("Enter")
    expect(heading(page)).to_have_text("Op 2 of 13: gelu")
    assert widget.score == Score(1, 2, 1)


@pytest.mark.browser
def test_casts_are_drawn_once_they_are_committed(show: Callable[..., Any]) -> None:
    page = show(AutocastSteps())
    inputs = page.get_by_role("list", name="Inputs").get_by_role("listitem")
    expect(inputs).to_have_text(["x inputFP32", "mix.weightFP32", "mix.biasFP32"])
    assert page.locator(".amp-cast").count() == 0
    page.get_by_role("button", name="Show me").click()
    kept = "cast, kept in the cachecopyFP16"
    expect(inputs).to_have_text(
        ["x inputFP32castcopyFP16", f"mix.weightFP32{kept}", f"mix.biasFP32{kept}"]
    )
    cache = page.locator(".amp-cache li")
    expect(cache).to_have_text(["mix.bias 16 bytes, newFP16", "mix.weight 128 bytes, newFP16"])
    for _ in range(2):
        page.get_by_role("button", name="Next op").click()
        page.get_by_role("button", name="Show me").click()
    expect(inputs.nth(1)).to_have_text("mix.weightFP32from the cachecopyFP16")
    expect(cache.nth(0)).to_have_text("mix.bias 16 bytes, used by this opFP16")


@pytest.mark.slow
@pytest.mark.browser
def test_to_the_end_and_again(show: Callable[..., Any]) -> None:
    widget = AutocastSteps()
    page = show(widget)
    for step in widget.steps:
        wrong = step.number in (6, 8)
        name = "FP32" if (step.runs_in == FULL) != wrong else "FP16"
        page.get_by_role("group", name="It runs in").get_by_label(name).check()
        page.get_by_role("button", name="Commit").click()
        page.get_by_role("button", name="Next op" if step.number < 13 else "End the region").click()
    expect(heading(page)).to_have_text("The autocast region ends.")
    expect(page.get_by_role("status")).to_contain_text("11 of 13 right.")
    missed = page.get_by_role("status").get_by_role("listitem")
    expect(missed.first).to_have_text(
        "Op 6, shares = scores.softmax(-1): softmax runs in FP32 and gives FP32. You said FP16. "
        "On CUDA, autocast runs softmax in FP32."
    )
    expect(missed).to_have_count(2)
    expect(page.locator(".amp-cache-box")).to_contain_text("emptied")
    expect(page.locator(".amp-cache li[data-state=gone]")).to_have_count(4)
    assert focused(page) == "Start again"
    page.keyboard.press("Enter")
    expect(heading(page)).to_have_text("Op 1 of 13: linear")
    expect(page.get_by_text("No prediction yet")).to_be_visible()
    assert (widget.answers, focused(page)) == ([], LOW)


@pytest.mark.slow
@pytest.mark.browser
def test_no_choice_is_told_what_is_missing(show: Callable[..., Any]) -> None:
    widget = AutocastSteps()
    page = show(widget)
    page.get_by_role("button", name="Commit").click()
    alert = page.get_by_role("alert").filter(has_text="Choose")
    expect(alert).to_have_text("Choose the dtype it runs in first.")
    page.get_by_role("group", name="Its output is").get_by_label("FP32").check()
    page.get_by_role("group", name="It runs in").get_by_label("FP16").check()
    assert page.get_by_role("group", name="Its output is").get_by_label("FP32").is_checked()
    page.get_by_role("button", name="Commit").click()
    expect(page.get_by_role("status")).to_contain_text("Not so: linear runs in FP16")
    expect(alert).to_have_count(0)
    assert widget.answers == [[LOW, FULL]]


@pytest.mark.slow
@pytest.mark.browser
def test_the_rules_and_a_fault(show: Callable[..., Any]) -> None:
    class OnlyCpu(nn.Module):
        def forward(self, x):
            if x.device.type == "cuda":
                raise RuntimeError("not on a GPU")
            return x * 2

    page = show(AutocastSteps(OnlyCpu(), torch.ones(2), device="cpu"))
    page.get_by_label("16-bit dtype").select_option("BF16")
    expect(page.get_by_role("group", name="It runs in").get_by_role("radio")).to_have_count(2)
    expect(page.get_by_role("group", name="It runs in").get_by_label("BF16")).to_be_visible()
    page.get_by_label("Whose rules").select_option("CUDA")
    expect(page.get_by_role("alert").first).to_contain_text("not on a GPU")
    expect(page.locator(".amp-step-through")).to_be_hidden()
    page.get_by_label("Whose rules").select_option("CPU")
    expect(heading(page)).to_have_text("Op 1 of 1: mul")
    expect(page.get_by_text("not on a GPU")).to_have_count(0)


@pytest.mark.browser
def test_python_moves_the_page(show: Callable[..., Any]) -> None:
    widget = AutocastSteps(device="cpu", dtype="bf16")
    page = show(widget)
    for _ in range(4):
        widget.show_next()
    values = {name: getattr(widget, name) for name in NAMES}
    page.evaluate("values => Object.entries(values).forEach(([k, v]) => model.set(k, v))", values)
    expect(heading(page)).to_have_text("Op 4 of 13: layer_norm")
    expect(page.get_by_role("status")).to_contain_text("runs in FP32 and gives BF16")
    expect(page.locator("[aria-current=step] code")).to_have_text("k = self.norm(k)")


@pytest.mark.browser
def test_axe_finds_nothing(
    show: Callable[..., Any], faultless: Callable[[Any], None], look: tuple[str, int]
) -> None:
    widget = AutocastSteps()
    page = show(widget, *look)
    page.get_by_role("button", name="Commit").click()
    faultless(page)
    page.get_by_role("group", name="It runs in").get_by_label("FP32").check()
    page.get_by_role("button", name="Commit").click()
    expect(page.get_by_role("status")).to_contain_text("Not so")
    faultless(page)
    for step in widget.steps[1:]:
        page.get_by_role("button", name="Next op").click()
        page.get_by_role("button", name="Show me").click()
        expect(page.get_by_role("status")).to_contain_text(f"Shown: {step.op}")
    page.get_by_role("button", name="End the region").click()
    expect(heading(page)).to_have_text("The autocast region ends.")
    faultless(page)


@pytest.mark.slow
@pytest.mark.browser
def test_a_key_changes_little_of_the_page(
    show: Callable[..., Any], changes_by: Callable[[Any, str], int]
) -> None:
    page = show(AutocastSteps())
    page.get_by_role("group", name="It runs in").get_by_label("FP16").focus()
    changes = [changes_by(page, key) for key in ("Space", "ArrowDown", "ArrowUp", "Enter")]
    expect(page.get_by_role("button", name="Next op")).to_be_focused()
    assert max(changes) < 500
