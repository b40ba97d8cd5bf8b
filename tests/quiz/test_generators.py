"""Each generator over 200 seeds: well formed, always the same, and right by another computation."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
import subprocess
import sys
import warnings
from collections import Counter
from dataclasses import replace
from functools import cache

import check_bank
import ml_dtypes
import numpy as np
import policy_tables
import pytest
import torch
from torch import nn

from amp_lessons.amp import policy, roofline
from amp_lessons.amp.memory import training
from amp_lessons.amp.numbers import formats
from amp_lessons.amp.scaling import scaler_log
from amp_lessons.core import catalogue
from amp_lessons.quiz import generators, items, proofs
from amp_lessons.quiz.bank import BankError
from amp_lessons.quiz.generators import (
    autocast_ops,
    autocast_regions,
    floats,
    formatting,
    myths_and_clinic,
    simulation,
)
from amp_lessons.quiz.generators import memory as bytes_asked
from amp_lessons.quiz.generators.base import Option, choices, mistakes
from amp_lessons.quiz.items import ChoiceItem, Item, NumberItem, OrderItem

SEEDS = range(200)
NAMES = list(generators.GENERATORS)
KIND_OF = {name: generator.kind for name, generator in generators.GENERATORS.items()}


@cache
def made(name: str) -> tuple[Item, ...]:
    """The questions of the first 200 seeds."""
    return tuple(generators.GENERATORS[name].make(seed) for seed in SEEDS)


def of(kind: type, name: str) -> list:
    """The same, for a generator whose kind of item is known."""
    found = list(made(name))
    assert all(isinstance(item, kind) for item in found)
    return found


# ---- all of them --------------------------------------------------------------------------------


def test_there_are_enough_of_each_sort():
    there = generators.GENERATORS.values()
    assert len(there) >= 13
    assert {g.level for g in there} == {1, 2, 3}
    assert {g.kind for g in there} >= {"single", "several", "number", "output", "trace", "order"}
    topics = [topic for lesson in catalogue.LESSONS for topic in lesson.topics]
    places = [topics.index(g.topic) for g in there]
    assert places == sorted(places), "not in the order of the course"
    for name, g in generators.GENERATORS.items():
        assert g.id == name
        assert g.id.partition(".")[2].startswith("gen_")
        assert g.kind in items.KINDS


def test_items_are_well_formed(subtests):
    for name in NAMES:
        with subtests.test(name):
            g = generators.GENERATORS[name]
            for seed, item in zip(SEEDS, made(name), strict=True):
                assert (item.id, item.kind, item.level) == (f"{name}_{seed}", g.kind, g.level)
                assert item.topic == g.topic
                if isinstance(item, ChoiceItem) and item.form == "one":
                    assert 3 <= len(item.choices) <= 4
                if isinstance(item, NumberItem):
                    values = [mistake.value for mistake in item.mistakes]
                    assert len(set(values)) == len(values)
                    assert not any(map(item.accepts, values))


def test_the_same_seed_gives_the_same_question(subtests):
    for name in NAMES:
        with subtests.test(name):
            g = generators.GENERATORS[name]
            assert [g.make(seed) for seed in range(10)] == list(made(name)[:10])


def digest(names: list[str]) -> str:
    """Of some questions of each generator."""
    texts = (generators.GENERATORS[n].make(s).model_dump_json() for n in names for s in range(3))
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def test_another_process_makes_the_same_questions_without_torch():
    code = (
        "import sys, hashlib\n"
        "from amp_lessons.quiz import generators as g\n"
        "texts = (x.make(s).model_dump_json() for x in g.GENERATORS.values() for s in range(3))\n"
        "print(hashlib.sha256(''.join(texts).encode()).hexdigest())\n"
        "print([m for m in ('torch', 'numpy') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:2] == [digest(NAMES), "[]"]


def test_there_are_200_different_questions_in_400_seeds(subtests):
    for name in NAMES:
        with subtests.test(name):
            g = generators.GENERATORS[name]
            found = {generators.fingerprint(item) for item in made(name)}
            for seed in range(200, 400):
                if len(found) >= 200:
                    break
                found.add(generators.fingerprint(g.make(seed)))
            assert len(found) >= 200


def test_guessing_does_not_pay(subtests):
    for name in NAMES:
        with subtests.test(name):
            singles = check_bank.single_choice(made(name))
            for strategy in check_bank.STRATEGIES.values() if singles else ():
                assert check_bank.gain(strategy, singles) <= 10


def test_no_place_is_the_right_one_too_often(subtests):
    for name in (n for n in NAMES if KIND_OF[n] in ("single", "trace", "output")):
        with subtests.test(name):
            places = Counter(min(item.right) for item in of(ChoiceItem, name))
            assert max(places.values()) <= 0.55 * len(SEEDS), places


@pytest.mark.parametrize(
    "name",
    [
        "number_formats.gen_round_to",
        "number_formats.gen_next_float",
        "amp_from_scratch.gen_update",
    ],
)
def test_numbers_stand_in_ascending_order(name):
    for item in of(ChoiceItem, name):
        values = [value_of(choice.text) for choice in item.choices]
        finite = [value for value in values if value == value]
        assert finite == sorted(finite)
        assert all(value == value for value in values[:-1]), "NaN comes last"


def value_of(text: str) -> float:
    """A number as `words.number` writes it."""
    raised = re.fullmatch("2([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text)
    if raised:
        return 2.0 ** int(raised[1].translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
    return float(text.replace(",", ""))


# ---- how they sound -----------------------------------------------------------------------------

CLUMSY = [
    r"(?<![\d.,])1 (steps|casts|gaps|parameters|halvings|doublings|overflows|times|numbers|GPUs)\b",
    r"(?<![\d,.])\d{5,}(?![\d.])",  # a long number needs its separators
    r"\d\.\d{11,}",
    r"e[-+]0\d",
    r"  ",
    r"\bis no (a|an|one)\b",
    r"!(\s|$)",
    r"\{|\}",
    r"\b(simply|obviously|just)\b",
]


def test_texts_read_well(subtests):
    for name in NAMES:
        with subtests.test(name):
            for item in made(name):
                for text in items.texts(item):
                    prose = re.sub(r"`[^`]*`", "code", text)
                    for pattern in CLUMSY:
                        assert not re.search(pattern, prose), (item.id, pattern, text)
                    for sentence in re.split(r"(?<=[.?:;])\s+", prose):
                        assert len(sentence.split()) <= 35, (item.id, sentence)


# ---- their proofs -------------------------------------------------------------------------------

# How many seeds, where the proof of an item takes long.
SAMPLED = {
    "autocast_ops.gen_op_dtype": 4,
    "autocast_ops.gen_float32_ops": 2,
    "autocast_regions.gen_casts": 60,
    "grad_scaler.gen_scale_later": 2,
    "training_loops.gen_call_order": 2,
    "how_numbers_break.gen_sum_stops": 60,
}
UNPROVED = {
    "how_numbers_break.gen_which_format",
    "amp_from_scratch.gen_loss_scale",
    "memory.gen_state_bytes",
    "myths_and_clinic.gen_name_the_fault",
}  # each has a test of its own below


def test_proofs_hold(subtests):
    for name in (n for n in NAMES if n not in UNPROVED):
        with subtests.test(name):
            for item in made(name)[: SAMPLED.get(name, len(SEEDS))]:
                assert item.proved
                proofs.prove(item)


def test_what_has_no_proof_is_known():
    assert {n for n in NAMES if not made(n)[0].proved} == UNPROVED


def test_every_kind_of_training_step_is_proved():
    sorts: dict[tuple[str, ...], list[OrderItem]] = {}
    for item in of(OrderItem, "training_loops.gen_call_order"):
        lines = tuple(re.sub(r"\d\.\d+", "norm", line) for line in item.lines)
        sorts.setdefault(lines, []).append(item)
    assert len(sorts) == 7
    for sort in sorts.values():
        proofs.prove(sort[0])
        assert len({stray.text for item in sort for stray in item.distractors}) == 3


def test_the_prompt_says_where_more_than_one_order_is_right():
    for item in of(OrderItem, "training_loops.gen_call_order"):
        order = list(range(len(item.lines)))
        swaps = ([*order[:n], n + 1, n, *order[n + 2 :]] for n in order[:-1])
        assert any(map(item.accepts, swaps)) == ("More than one order" in item.prompt)


def test_slips_are_wrong_orders():
    for item in of(OrderItem, "training_loops.gen_call_order"):
        assert item.slips
        for slip in item.slips:
            order = [p for p in range(len(item.lines)) if p != slip.early]
            order.insert(order.index(slip.late), slip.early)
            assert not item.accepts(order), (item.id, slip)


# ---- formats ------------------------------------------------------------------------------------

OURS = {
    floats.FP32: formats.FP32,
    floats.FP16: formats.FP16,
    floats.BF16: formats.BF16,
    floats.E4M3: formats.FP8_E4M3,
    floats.E5M2: formats.FP8_E5M2,
}


@pytest.mark.parametrize("fmt", OURS, ids=lambda fmt: fmt.name)
def test_pure_python_rounds_as_the_formats_do(fmt):
    ours = OURS[fmt]
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [
            rng.normal(size=500) * 2.0 ** rng.uniform(-30, 18, size=500),
            np.arange(0, 5000.0),
            [fmt.max, fmt.first_inf if fmt.has_inf else 464, 1e9, fmt.tiny / 2, fmt.tiny * 1.5],
        ]
    )
    saturate = not fmt.has_inf
    wanted = [ours.round(float(value), saturate=saturate) for value in values]
    assert [fmt.round(float(value)) for value in values] == wanted
    assert (fmt.max, fmt.min_normal, fmt.tiny, fmt.eps) == (
        ours.max,
        ours.min_normal,
        ours.min_subnormal,
        ours.eps,
    )


def test_ml_dtypes_rounds_to_the_right_choice_too():
    types = {
        "torch.float16": np.float16,
        "torch.bfloat16": ml_dtypes.bfloat16,
        "torch.float8_e5m2": ml_dtypes.float8_e5m2,
    }
    seen = 0
    for item in of(ChoiceItem, "number_formats.gen_round_to"):
        value, dtype = re.search(r"tensor\((.*?)\)\.to\((.*?)\)\.float", item.proof).groups()
        if dtype not in types:
            continue
        with np.errstate(over="ignore"):
            stored = float(np.float32(float(value)).astype(types[dtype]))
        right = item.choices[min(item.right)]
        assert right.text == formatting.number(stored)
        seen += 1
    assert seen > 100


def all_numbers(dtype: torch.dtype) -> torch.Tensor:
    """Every finite number of a format, in order."""
    width = {1: torch.uint8, 2: torch.uint16}[dtype.itemsize]
    found = torch.arange(2 ** (8 * dtype.itemsize)).to(width).view(dtype).double()
    return found[found.isfinite()].unique()


def test_a_reason_that_names_two_neighbours_names_the_right_ones():
    seen = 0
    for item in of(ChoiceItem, "number_formats.gen_round_to"):
        value, dtype = re.search(r"tensor\((.*?)\)\.to\(torch\.(.*?)\)", item.proof).groups()
        numbers = all_numbers(getattr(torch, dtype))
        after = int(torch.searchsorted(numbers, float(value)))
        for choice in item.choices:
            assert "one bit too few" not in choice.why
            named = re.search(r"The two next to .* are (.*) and (.*)\.$", choice.why)
            if named:
                below, above = numbers[after - 1].item(), numbers[after].item()
                assert named.groups() == (formatting.number(below), formatting.number(above)), (
                    item.id
                )
                assert choice.text not in named.groups()
                seen += 1
    assert seen > 20


# ---- gradients and scales -----------------------------------------------------------------------


def rows_of(item: ChoiceItem) -> tuple[float, float]:
    """The ends of a histogram: where its first row begins and where its last one ends."""
    powers = re.findall(r"2[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+", item.log)
    return value_of(powers[0]), value_of(powers[-1])


def shares_of(item: ChoiceItem) -> list[int]:
    return [int(share) for share in re.findall(r"(\d+)%", item.log)]


def survives(values: torch.Tensor, dtype: torch.dtype) -> bool:
    """Whether a cast makes none of these 0, inf, or the largest number in their place."""
    stored = values.to(dtype).float()
    top = torch.finfo(dtype).max
    return bool((stored > 0).all() and stored.isfinite().all() and (values <= top * 1.01).all())


def spread(first: float, last: float) -> torch.Tensor:
    """Magnitudes in all rows, up to just below the end of the last."""
    return torch.logspace(math.log2(first), math.log2(last) - 1e-3, 500, base=2)


def lost_by(item: ChoiceItem, dtype: torch.dtype, scale: float = 1.0) -> int:
    """Per cent of a histogram that a cast makes 0: the rows in which every number becomes 0."""
    starts = re.findall(r"^(2[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+) to", item.log, re.MULTILINE)
    shares = zip(starts, shares_of(item), strict=True)
    middles = {start: torch.tensor(1.5 * value_of(start) * scale) for start in starts}
    return sum(share for start, share in shares if middles[start].to(dtype).float() == 0)


def told_lost(why: str) -> int:
    """The per cent that a reason says become 0."""
    message = re.search(r"(\d+)%", why)
    return int(message[1]) if message else 0


def test_the_format_is_the_smallest_that_keeps_all():
    dtypes = {
        "E4M3": torch.float8_e4m3fn,
        "E5M2": torch.float8_e5m2,
        "FP16": torch.float16,
        "BF16": torch.bfloat16,
    }
    found = Counter()
    for item in of(ChoiceItem, "how_numbers_break.gen_which_format"):
        assert sum(shares_of(item)) == 100
        values = spread(*rows_of(item))
        for choice in item.choices:
            stored = values.to(dtypes[choice.text]).float()
            top = torch.finfo(dtypes[choice.text]).max
            assert lost_by(item, dtypes[choice.text]) == told_lost(choice.why), (item.id, choice)
            assert (bool((stored == 0).any())) == ("become 0:" in choice.why), (item.id, choice)
            too_large = bool((values > 1.01 * top).any())
            assert too_large == ("last row" in choice.why), (item.id, choice)
        first = next(name for name, dtype in dtypes.items() if survives(values, dtype))
        right = item.choices[min(item.right)].text
        assert right == first, item.id
        found[right] += 1
    assert min(found[name] for name in dtypes) >= 20, found


FP8 = {"E4M3": torch.float8_e4m3fn, "E5M2": torch.float8_e5m2}


def fits_fp8(value: float, dtype: torch.dtype) -> bool:
    """Whether a cast neither gives inf nor moves the value by more than rounding does."""
    stored = torch.tensor(value).to(dtype).double().item()
    numbers = all_numbers(dtype)
    return math.isfinite(stored) and abs(stored - value) <= (numbers[-1] - numbers[-2]) / 2


def test_a_cast_decides_which_fp8_scale_is_too_large():
    seen = 0
    for item in of(NumberItem, "fp8.gen_fp8_scale"):
        largest = float(re.search(r"tensor is ([\d.,]+)\.", item.prompt)[1].replace(",", ""))
        dtype = FP8[re.search(r"cast it to (\w+)", item.prompt)[1]]
        assert fits_fp8(item.answer * largest, dtype), item.id
        if "power of two" in item.prompt:
            assert math.frexp(item.answer)[0] == 0.5
            assert not fits_fp8(2 * item.answer * largest, dtype), item.id
            seen += 1
    assert seen > 50


def test_only_the_right_loss_scale_saves_all_gradients():
    for item in of(ChoiceItem, "amp_from_scratch.gen_loss_scale"):
        assert sum(shares_of(item)) == 100
        values = spread(*rows_of(item))
        lost = []
        for choice in item.choices:
            stored = (values * value_of(choice.text)).half()
            share = lost_by(item, torch.float16, value_of(choice.text))
            assert share == told_lost(choice.why), (item.id, choice)
            assert bool((stored == 0).any()) == (share > 0), (item.id, choice)
            assert bool(stored.isinf().any()) == ("gives inf" in choice.why), (item.id, choice)
            lost.append(share > 0)
        assert any(lost), "one scale is too small"
        assert sum(lost) < len(lost) - 1, "and one is too large"
        saved = [survives(values * value_of(choice.text), torch.float16) for choice in item.choices]
        assert saved == [choice.right for choice in item.choices], item.id


def test_an_update_always_offers_the_old_weight():
    lost = 0
    for item in of(ChoiceItem, "amp_from_scratch.gen_update"):
        weight = re.search(r"stored in \w+ as ([\d.,]+)\. ", item.prompt)[1]
        assert weight in [choice.text for choice in item.choices], item.id
        lost += item.choices[min(item.right)].text == weight
    assert 40 <= lost <= 100


def test_the_scale_much_later_is_what_the_simulator_says():
    for item in of(NumberItem, "grad_scaler.gen_scale_later"):
        start = float(re.search(r"= ([\d,]+) with", item.prompt)[1].replace(",", ""))
        interval = int(re.search(r"growth_interval=(\d+)", item.prompt)[1])
        listed = re.search(r"steps? ([\d, and]+) overflow", item.prompt)[1]
        bad = {int(s.replace(",", "")) for s in re.findall(r"\d+(?:,\d{3})*", listed)}
        steps = int(re.search(r"of step ([\d,]+)\?", item.prompt)[1].replace(",", ""))
        found = scaler_log.simulate_scaler(
            [step in bad for step in range(1, steps + 1)],
            init_scale=start,
            growth_interval=interval,
        )
        assert found[-1] == item.answer, item.id


# ---- autocast -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def live() -> dict[tuple[str, str], dict[str, policy.OpPolicy]]:
    """What the installed torch answers."""
    if not torch.__version__.startswith(autocast_ops.VERSION):
        pytest.skip("the questions are on another torch than the one that is installed")
    return {
        (device, policy.short(dtype)): {p.op: p for p in policy_tables.live(device, dtype)}
        for device in policy.DEVICES
        for dtype in (torch.float16, torch.bfloat16)
    }


def test_the_dtype_of_an_op_is_what_torch_gives(live):
    for item in of(ChoiceItem, "autocast_ops.gen_op_dtype"):
        op, device, dtype, given = re.search(
            r"op_policy\('(\w+)', '(\w+)', '(\w+)'\)\.(\w+)", item.proof
        ).groups()
        assert f'autocast("{device}", dtype=torch.{dtype})' in item.prompt
        answer = live[device, dtype][op]
        names = {"-": autocast_ops.RAISES}
        result = policy.short(getattr(answer, given))
        assert item.choices[min(item.right)].text == names.get(result, f"torch.{result}")
        if given == "mixed":
            assert answer.inputs > 1


def test_an_ops_dtype_always_has_float32_among_the_choices():
    for item in of(ChoiceItem, "autocast_ops.gen_op_dtype"):
        device, dtype = re.search(r'autocast\("(\w+)", dtype=torch\.(\w+)\)', item.prompt).groups()
        offered = {choice.text for choice in item.choices}
        assert "torch.float32" in offered, item.id
        other = {"float16": "bfloat16", "bfloat16": "float16"}[dtype]
        if f"torch.{other}" in offered:  # somebody may expect it who knows the default only
            assert torch.get_autocast_dtype(device) == getattr(torch, other), item.id
        assert ("`torch.einsum" in item.prompt) == ('("ij,jk->ik", ...)`' in item.prompt)


def test_the_float32_ops_are_what_torch_says(live):
    name_of = {function: op for op, function in autocast_ops.FUNCTIONS.items()}
    for item in of(ChoiceItem, "autocast_ops.gen_float32_ops"):
        device, dtype = re.search(r'autocast\("(\w+)", dtype=torch\.(\w+)\)', item.prompt).groups()
        for choice in item.choices:
            low = live[device, dtype][name_of[choice.text.strip("`")]].low
            assert (low is torch.float32) == choice.right, (item.id, choice.text)


def test_the_functions_exist():
    for function in autocast_ops.FUNCTIONS.values():
        home, _, name = function.rpartition(".")
        assert callable(getattr({"F": nn.functional, "torch": torch}[home], name))


def test_the_count_of_casts_covers_each_case():
    codes = " ".join(item.code for item in made("autocast_regions.gen_casts")[:60])
    for words_ in ("bias=False", "cache_enabled=False", "requires_grad_(False)", "dtype=torch.bf"):
        assert words_ in codes
    loop = autocast_regions.Loop(2, True, 10, False, True, 0, False)
    assert loop.casts == 10 + 4
    assert replace(loop, cached=False).casts == 10 + 40
    assert replace(loop, frozen=2).casts == 10 + 40
    assert replace(loop, per_batch=True).casts == 10 + 40
    assert replace(loop, half_input=True).casts == 4


# ---- memory -------------------------------------------------------------------------------------

OPTIMIZERS = {
    "plain SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "Adam": lambda p: torch.optim.Adam(p),
    "AdamW": lambda p: torch.optim.AdamW(p),
}
WIDTHS = {2: torch.bfloat16, 4: torch.float32}


def test_bytes_for_each_parameter_are_those_of_real_tensors(subtests):
    for recipe, optimizer in itertools.product(bytes_asked.RECIPES, OPTIMIZERS):
        with subtests.test(f"{recipe.words[:20]}, {optimizer}"):
            many = 1000
            weight = torch.ones(many, dtype=WIDTHS[recipe.weight], requires_grad=True)
            gradient = torch.ones(many, dtype=WIDTHS[recipe.gradient])
            master = weight.detach().float().requires_grad_() if recipe.master else weight
            master.grad = gradient.to(master.dtype)
            stepper = OPTIMIZERS[optimizer]([master])
            stepper.step()
            steps = 4 * (bytes_asked.MOMENTS[optimizer] == 2)  # Adam's count of steps
            total = weight.nbytes + gradient.nbytes + training.optimizer_bytes(stepper) - steps
            total += master.nbytes if recipe.master else 0
            assert total == many * recipe.each(optimizer)


@pytest.mark.parametrize(
    ("precision", "words_"),
    [("fp32", "in FP32"), ("amp bf16", "under `torch.autocast"), ("bf16", "in pure BF16")],
)
def test_bytes_agree_with_the_memory_lesson(precision, words_):
    model = nn.Linear(64, 32, bias=False)
    count = 64 * 32
    names = {"sgd": "plain SGD", "momentum": "SGD with momentum", "adam": "Adam"}
    for theirs, ours in names.items():
        message = training.training_memory(
            model, torch.ones(4, 64), precision=precision, optimizer=theirs
        )
        recipes = [r for r in bytes_asked.RECIPES if re.match(words_, r.words)]
        assert recipes
        assert {r.each(ours) * count for r in recipes} == {message.model_states}


def test_state_bytes_are_the_recipe_times_the_parameters():
    for item in of(NumberItem, "memory.gen_state_bytes"):
        size, unit = re.search(r"with ([\d.]+) (million|billion) param", item.prompt).groups()
        many = float(size) * {"million": 1e6, "billion": 1e9}[unit]
        recipe = next(r for r in bytes_asked.RECIPES if f"trained {r.words}. The" in item.prompt)
        optimizer = re.search(r"optimizer is (.*?)[,.] ", item.prompt)[1]
        assert item.answer == pytest.approx(many * recipe.each(optimizer) / 1e9)


def test_models_that_train_fit_the_gpus():
    sizes = {gpu.name: gpu for gpu in roofline.GPUS if gpu.bf16}
    for item in of(NumberItem, "speed.gen_mfu"):
        many, unit, gpus = re.search(
            r"with ([\d.]+) (million|billion) .* on (one|[\d,]+) ", item.prompt
        ).groups()
        name = max((name for name in sizes if name in item.prompt), key=len)
        count = 1 if gpus == "one" else int(gpus.replace(",", ""))
        state = 16 * float(many) * {"million": 1e6, "billion": 1e9}[unit]
        assert state < sizes[name].memory * 1e9 * count, item.id


# ---- name the fault -----------------------------------------------------------------------------


def parsed(log: str) -> list[tuple[float, ...]]:
    """Step, loss, scale and norm of each row of a printed log."""
    return [tuple(map(float, line.split())) for line in log.splitlines()[1:]]


def seen_in(log: str) -> list[str]:
    """The faults that a printed log shows, each by the features that its explanation names."""
    _, losses, scales, norms = (list(column) for column in zip(*parsed(log), strict=True))
    finite = all(map(math.isfinite, losses))
    ratio = [norm / scale for norm, scale in zip(norms, scales, strict=True)]
    no_scaler, grows = set(scales) == {1.0}, scales[-1] > scales[0]
    bad = [not math.isfinite(norm) for norm in norms]
    first_bad = bad.index(True) if True in bad else len(bad)
    features = {
        "overflow": all(map(math.isinf, losses)) and scales[-1] < scales[0],
        "clip": finite
        and not no_scaler
        and norms[0] > 1000
        and max(ratio) / min(ratio) < 2.5
        and abs(losses[-1] / losses[0] - 1) < 0.1,
        "stale": len(set(losses)) == 1 and len(set(norms)) == 1 and 0 < norms[0] < 1000,
        "no_scaler": no_scaler and set(norms) == {0.0} and len(set(losses)) == 1,
        "stuck": finite and 2 <= first_bad < len(bad) and all(bad[first_bad:]),
        "settling": finite and any(bad) and not any(bad[-2:]) and losses[-1] < 0.85 * losses[0],
        "stall": no_scaler
        and finite
        and losses[0] > losses[-1] == losses[-4]
        and 0 < norms[-1] < 1000,
        "rate": finite and losses[-1] > 2 * losses[0],
        "batch": no_scaler and not finite and math.isfinite(losses[0]) and math.isnan(losses[-1]),
        "dead": set(norms) == {0.0} and grows,
    }
    return [name for name, there in features.items() if there]


def test_each_log_shows_its_fault_and_no_other():
    found = Counter()
    for item in of(ChoiceItem, "myths_and_clinic.gen_name_the_fault"):
        right = item.choices[min(item.right)].text
        name = next(n for n, fault in myths_and_clinic.FAULTS.items() if fault.text == right)
        assert seen_in(item.log) == [name], item.id
        assert 10 <= len(parsed(item.log)) <= 14
        found[name] += 1
    assert set(found) == set(myths_and_clinic.FAULTS)
    assert min(found.values()) >= 8, found


def test_numbers_in_the_diagnoses_stand_in_the_log():
    for item in of(ChoiceItem, "myths_and_clinic.gen_name_the_fault"):
        there = {number for row in parsed(item.log) for number in row} | {16, 60}
        for choice in item.choices:
            for text in re.findall(r"(?<![A-Za-z\d])\d[\d,]*(?:\.\d+)?", choice.why):
                assert float(text.replace(",", "")) in there, (item.id, choice.why)


def real_run(run: simulation.SimulatedRun, steps: int) -> list[tuple[float, float, float]]:
    """The same training with torch itself: loss, scale and norm of each step."""
    dtype = {"FP16": torch.float16, "BF16": torch.bfloat16}[run.fmt.name]
    layer = nn.Linear(len(run.weights), 1, bias=False)
    layer.weight.data = torch.tensor([run.weights])
    if run.weight_fmt is floats.BF16:
        layer = layer.bfloat16()
    inputs, targets = torch.tensor(run.inputs), torch.tensor(run.targets)
    optimizer = torch.optim.SGD(layer.parameters(), lr=run.lr)
    grad_scaler = torch.amp.GradScaler(
        "cpu",
        init_scale=run.scale or 1.0,
        growth_interval=run.growth_interval,
        enabled=run.scale is not None,
    )
    clip = nn.utils.clip_grad_norm_
    found = []
    region = torch.autocast("cpu", dtype=dtype)
    for step in range(steps):
        if not run.keep_grads:
            optimizer.zero_grad()
        batch = inputs.clone()
        if step == run.bad_step:
            batch[0, 0] = math.inf
        if not (run.stale and step):
            region.__enter__()
        output = layer(batch).squeeze(1)
        loss = nn.functional.mse_loss(output.relu() if run.relu else output, targets)
        if not run.stale:
            region.__exit__(None, None, None)
        grad_scaler.scale(loss).backward()
        if run.clip_early:
            norm = clip(layer.parameters(), run.max_norm)
        else:
            if run.scale is not None:
                grad_scaler.unscale_(optimizer)
            norm = clip(layer.parameters(), run.max_norm)
        grad_scaler.step(optimizer)
        grad_scaler.update()
        found.append((loss.item(), grad_scaler.get_scale(), norm.item()))
    if run.stale:
        region.__exit__(None, None, None)
    return found


def a_run(**settings) -> simulation.SimulatedRun:
    run = simulation.SimulatedRun(
        inputs=((1.5, -0.5, 0.25), (-1.0, 2.0, 0.5), (0.75, 1.25, -1.5), (0.5, 0.5, 1.75)),
        targets=(1.0, -0.5, 2.0, 0.25),
        weights=(0.5, -1.0, 0.75),
        lr=0.05,
        scale=4096.0,
    )
    return run.change(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"scale": 2.0**18},
        {"scale": 2.0**12, "growth_interval": 3},
        {"scale": 2.0**13, "growth_interval": 3, "keep_grads": True},
        {"clip_early": True, "max_norm": 1.0, "growth_interval": 5},
        {"stale": True, "growth_interval": 5},
        {"fmt": floats.BF16, "scale": None},
        {"fmt": floats.BF16, "scale": None, "bad_step": 6},
        {"fmt": floats.BF16, "weight_fmt": floats.BF16, "scale": None, "lr": 0.002},
        {"lr": 0.6},
        {"inputs": ((900.0, 900.0, 900.0),) * 4, "weights": (100.0, 100.0, 100.0)},
        {
            "inputs": ((1.0, 1.0, 1.0),) * 4,
            "weights": (-1.0, -1.0, -1.0),
            "relu": True,
            "growth_interval": 2,
        },
    ],
    ids=str,
)
def test_the_simulation_trains_as_torch_does(settings):
    run = a_run(**settings)
    simulated = [(row.loss, row.scale, row.norm) for row in simulation.train(run, 14)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        real = real_run(run, 14)
    for ours, theirs in zip(simulated, real, strict=True):
        assert ours[1] == theirs[1]
        assert ours[0] == pytest.approx(theirs[0], rel=2e-2, nan_ok=True)
        if math.isfinite(ours[2]) or math.isfinite(theirs[2]):
            assert ours[2] == pytest.approx(theirs[2], rel=2e-2, abs=1e-6)


def test_a_mean_over_many_elements_underflows_in_fp16():
    run = a_run(scale=None, copies=2**27)
    assert {row.norm for row in simulation.train(run, 5)} == {0.0}
    largest = 2 * 4.0 / (len(run.inputs) * run.copies)
    assert torch.tensor(largest).half() == 0
    assert (torch.tensor(largest) * 65536).half() > 0


# ---- sessions -----------------------------------------------------------------------------------


def test_a_session_gets_no_question_twice():
    fresh = generators.Fresh(seed=7)
    g = generators.GENERATORS["number_formats.gen_round_to"]
    asked = [fresh.make(g) for _ in range(150)]
    assert len({generators.fingerprint(item) for item in asked}) == 150
    later = generators.Fresh(seed=7, seen=fresh.seen)
    assert generators.fingerprint(later.make(g)) not in {
        generators.fingerprint(item) for item in asked
    }
    assert generators.Fresh(seed=7).make(g) == asked[0]
    assert generators.Fresh(seed=1000).make(g) != asked[0]


def test_a_generator_that_runs_dry_says_so(monkeypatch):
    monkeypatch.setattr(generators, "ENOUGH", 3)
    g = generators.GENERATORS["number_formats.gen_gap"]
    only = replace(g, draw=lambda rng: g.draw(__import__("random").Random(1)))
    fresh = generators.Fresh(seed=0)
    fresh.make(only)
    with pytest.raises(BankError, match="no question left that you haven't seen"):
        fresh.make(only)


def test_a_question_comes_back_by_its_id():
    for name in NAMES:
        item = made(name)[3]
        assert generators.remake(item.id) == item
    with pytest.raises(BankError, match="it has no seed"):
        generators.remake("number_formats.bf16_range")


def test_find_takes_an_id_or_its_end_and_names_what_is_near():
    g = generators.find("gen_round_to")
    assert g is generators.find("number_formats.gen_round_to")
    assert g.topic == "number_formats"
    with pytest.raises(BankError, match=r"did you mean number_formats\.gen_round_to"):
        generators.find("number_formats.gen_round")
    with pytest.raises(BankError, match="there are number_formats"):
        generators.find("zzz")


@pytest.mark.parametrize("seed", [-1, 1.5, "3", True])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(BankError, match="whole number"):
        generators.GENERATORS["number_formats.gen_gap"].make(seed)


# ---- the small parts ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (65536.0, "65,536"),
        (0.1, "0.1"),
        (0.0999755859375, "0.09997559"),
        (2.0**-24, "2⁻²⁴"),
        (1e-8, "1e-8"),
        (1234.5, "1,234.5"),
        (math.inf, "inf"),
        (math.nan, "NaN"),
        (3.3895e38, "3.3895e38"),
    ],
)
def test_numbers_in_words(value, text):
    assert formatting.number(value) == text


def test_amounts_and_counts_in_words():
    assert [formatting.amount(v) for v in (1234.6, 0.8512, 12.0, 0.0)] == [
        "1,235",
        "0.851",
        "12",
        "0",
    ]
    assert formatting.count(1, "step") == "1 step"
    assert formatting.count(2000, "step") == "2,000 steps"
    assert formatting.params(1.3e9) == "1.3 billion"
    assert formatting.params(60e6) == "60 million"
    assert formatting.listed(["a", "b", "c"]) == "a, b and c"
    with pytest.raises(ValueError, match="not a power of two"):
        formatting.power(3.0)


def test_choices_need_two_wrong_ones():
    import random

    right, same = Option("a", "why"), Option("a", "other")
    assert choices(random.Random(0), right, [same, Option("b", "why")]) is None
    shown = choices(random.Random(0), right, [Option("b", "x"), Option("c", "y")])
    assert sorted(choice["text"] for choice in shown) == ["a", "b", "c"]


def test_mistakes_are_apart_from_the_answer_and_each_other():
    assert mistakes(100.0, 0.02, [(101.0, "near"), (50.0, "half"), (50.1, "again")]) == [
        {"value": 50.0, "why": "half"}
    ]
    assert mistakes(100.0, 0.02, [(100.0, "same")]) is None
