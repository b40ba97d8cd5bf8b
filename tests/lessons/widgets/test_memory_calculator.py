"""The memory calculator: memory.mjs against models on fake tensors, and the page by keyboard."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pages
import pytest
import traitlets

from amp_lessons.amp.memory.training import Memory, crossover_batch
from amp_lessons.lessons.widgets import MemoryCalculator
from amp_lessons.lessons.widgets.memory_calculator import PRESETS

PARTS = ("parameters", "gradients", "optimizer", "data", "activations", "cast_cache")
NAMES = ("kind", "layers", "width", "batch", "length", "optimizer", "against")

# ---- memory.mjs --------------------------------------------------------------------------------


def random_settings(count: int) -> list[dict[str, Any]]:
    draw = random.Random(0)
    made = []
    for i in range(count):
        gpt = i % 2 == 1
        width = 64 * draw.randint(1, 30) if gpt else draw.randint(1, 5000)
        sizes = {"layers": draw.randint(1, 4), "width": width, "batch": draw.randint(1, 300)}
        choices = {"optimizer": draw.choice(("sgd", "momentum", "adam"))}
        choices["against"] = draw.choice(("amp", "bf16"))
        made.append(
            {"kind": "gpt" if gpt else "mlp", "length": draw.randint(1, 1024)} | sizes | choices
        )
    return made


@pytest.mark.browser
@pytest.mark.parametrize("count", [6, pytest.param(40, marks=pytest.mark.slow)])
def test_the_page_counts_as_python_does(open_page: Callable[..., Any], count: int) -> None:
    """Every byte of every part, against what autograd really saves in such a model."""
    cases = random_settings(count)
    got = pages.value_of(
        open_page(),
        """async (cases) => {
          const { trainingMemory } = await import("/memory.mjs");
          return cases.map((settings) =>
            ["fp32", settings.against].map((precision) => trainingMemory(settings, precision)));
        }""",
        cases,
    )
    for settings, seen in zip(cases, got, strict=True):
        calculator = MemoryCalculator(**settings)
        for memory, counted in zip(calculator.memories, seen, strict=True):
            assert {part: getattr(memory, part) for part in PARTS} == counted, settings


@pytest.mark.slow
@pytest.mark.browser
def test_the_crossover_is_where_the_totals_cross(open_page: Callable[..., Any]) -> None:
    cases = random_settings(24)
    got = pages.value_of(
        open_page(),
        """async (cases) => {
          const { crossoverBatch, trainingMemory, totalOf } = await import("/memory.mjs");
          const total = (settings, precision) => totalOf(trainingMemory(settings, precision));
          return cases.map((settings) => {
            const found = crossoverBatch(settings, settings.against);
            const at = (batch, precision) => total({ ...settings, batch }, precision);
            const less = (batch) => at(batch, settings.against) < at(batch, "fp32");
            return [found, found === null ? less(1e9) : less(found), found > 1 && less(found - 1)];
          });
        }""",
        cases,
    )
    assert [less for _, less, _ in got] == [found is not None for found, _, _ in got]
    assert not any(before for _, _, before in got)
    assert {found is None for found, _, _ in got} == {True, False}
    for settings, (found, _, _) in list(zip(cases, got, strict=True))[:6]:
        pairs = [MemoryCalculator(**settings | {"batch": batch}).memories for batch in (1, 2)]
        fp32, beside = zip(*pairs, strict=True)
        assert crossover_batch(fp32, beside) == found


# ---- Python ------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_presets_are_what_their_names_say() -> None:
    sizes = {
        preset.name: MemoryCalculator(preset.name).memories[0].parameters // 4 for preset in PRESETS
    }
    assert sizes["GPT-2 small"] == 124_439_808
    assert sizes["GPT-2 XL"] == 1_557_611_200
    assert sizes["MLP of PyTorch's AMP recipe"] == 3 * (4096 * 4096 + 4096)


def test_what_a_lesson_reads_and_sets() -> None:
    calculator = MemoryCalculator("GPT-2 small", batch=2)
    assert (calculator.kind, calculator.layers, calculator.batch) == ("gpt", 12, 2)
    calculator.optimizer = "adam"
    fp32, amp = calculator.memories
    assert isinstance(fp32, Memory)
    assert fp32.model_states == amp.model_states == 16 * 124_439_808
    calculator.against = "bf16"
    assert calculator.memories[1].model_states == fp32.model_states // 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"preset": "GPT-5"}, "preset must be one of MLP of"),
        ({"kind": "cnn"}, "kind must be one of mlp, gpt; got 'cnn'"),
        ({"optimizer": "lion"}, "optimizer must be one of sgd, momentum, adam; got 'lion'"),
        ({"against": "fp8"}, "against must be one of amp, bf16; got 'fp8'"),
        ({"batch": 0}, "batch must be 1 to 1,000,000, got 0"),
        ({"kind": "gpt", "width": 100}, "multiple of 64, got 100"),
    ],
)
def test_what_it_refuses(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MemoryCalculator(**arguments)
    calculator = MemoryCalculator("GPT-2 small")
    for name, value in arguments.items():
        if name not in ("preset", "kind"):
            with pytest.raises(traitlets.TraitError, match=message):
                setattr(calculator, name, value)


# ---- the page ----------------------------------------------------------------------------------


@pytest.fixture
def mounted(mount: Callable[..., Any]) -> Callable[..., Any]:
    def mounted_(scheme: str = "light", width: int = 900, **traits: Any) -> Any:
        return mount(
            "memory_calculator",
            MemoryCalculator(**traits).get_state(["data", *NAMES]),
            scheme,
            width,
        )

    return mounted_


def rows(page: Any) -> dict[str, list[str]]:
    found = [row.locator("th, td").all_inner_texts() for row in page.locator("tbody tr").all()]
    return {row[0]: row[1:] for row in found}


@pytest.mark.browser
def test_the_recipes_own_growth(mounted: Callable[..., Any]) -> None:
    page = mounted()
    assert rows(page)["cast cache"] == ["0", "100,687,872", "+100,687,872"]
    assert rows(page)["total"][2] == "+100,687,872"
    assert page.locator("output").inner_text() == "AMP needs 1.14 times the bytes of FP32."
    assert page.get_by_text("At no batch does AMP need less").is_visible()


@pytest.mark.browser
def test_by_keyboard_alone(mounted: Callable[..., Any]) -> None:
    page = mounted()
    press = page.keyboard.press
    press("Tab")
    for _ in range(2):
        press("ArrowDown")  # GPT-2 small
    assert page.evaluate("model.get('kind')") == "gpt"
    assert page.get_by_label("Sequence length").is_visible()
    press("Tab")
    press("Tab")
    press("End")
    assert page.evaluate("model.get('optimizer')") == "adam"
    page.get_by_label("Batch", exact=True).focus()
    press("Control+A")
    page.keyboard.type("2")
    press("Enter")
    fp32, amp = MemoryCalculator("GPT-2 small", "adam", batch=2).memories
    assert rows(page)["total"][:2] == [f"{fp32.total:,}", f"{amp.total:,}"]
    assert page.get_by_label("Example", exact=True).input_value() == "sizes of your own"
    label = page.get_by_role("img").get_attribute("aria-label")
    assert label.startswith("Bytes of a training step. FP32: ")
    assert "optimizer state 949.40 MiB" in label


@pytest.mark.browser
def test_what_the_page_refuses(mounted: Callable[..., Any]) -> None:
    page = mounted(preset="GPT-2 small")
    for text, complaint in (("100", "multiple of 64"), ("many", "whole number from 1 to 65536")):
        page.get_by_label("Width", exact=True).fill(text)
        page.get_by_label("Width", exact=True).press("Enter")
        assert complaint in page.get_by_role("alert").inner_text()
        assert page.evaluate("model.get('width')") == 768
    page.get_by_label("Example", exact=True).select_option("small MLP")
    assert page.get_by_role("alert").inner_text() == ""
    assert page.get_by_label("Width", exact=True).input_value() == "256"
    page.get_by_label("Width", exact=True).fill("100")
    page.get_by_label("Width", exact=True).press("Enter")
    page.get_by_label("Kind of model", exact=True).select_option("GPT-2")
    assert page.evaluate("model.get('width')") == 128


@pytest.mark.browser
def test_python_moves_the_page(mounted: Callable[..., Any]) -> None:
    page = mounted()
    page.evaluate("model.set('optimizer', 'adam'); model.set('against', 'bf16')")
    assert page.get_by_label("Optimizer", exact=True).input_value() == "Adam"
    assert page.locator("thead th").all_inner_texts() == ["part", "FP32", "BF16", "difference"]
    assert "BF16 needs less at every batch." in page.locator(".amp-widget").inner_text()


@pytest.mark.browser
def test_axe_finds_nothing(
    mounted: Callable[..., Any], faultless: Callable[[Any], None], look: tuple[str, int]
) -> None:
    page = mounted(*look, preset="GPT-2 small", optimizer="adam")
    faultless(page)
    page.get_by_label("Width", exact=True).fill("7")
    page.get_by_label("Width", exact=True).press("Enter")
    faultless(page)
