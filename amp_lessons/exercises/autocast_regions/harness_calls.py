"""What `keep_float32` is given to run, and what `count_casts` is given to count."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, mse_loss

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.autocast_regions import harness
from amp_lessons.exercises.harness import BFLOAT, HALF, SINGLE, as_play, from_seed, name_of, seeded
from amp_lessons.exercises.varied import Varied
from amp_lessons.exercises.checks.torch_state import usual_torch

# ---- keep_float32 -------------------------------------------------------------------------------


class _Submodule(nn.Module):
    """A layer, and what the further arguments ask for: a factor, a row of a table, a sum."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear, self.other = nn.Linear(width, 3), nn.Linear(4, 3)
        self.table = nn.Embedding(400, 3)

    def forward(self, x: Tensor, more: Any = None) -> Tensor:
        result = self.linear(x)
        if isinstance(more, float):
            return result * more
        if isinstance(more, Tensor):
            return result + (self.table(more.long()) if more.dim() == 1 else self.other(more))
        return result


class _Raises(_Submodule):
    def forward(self, *args: Any) -> Tensor:
        raise Expected


class Expected(Exception):
    """What a function raises to show what is left of the region."""


def module_cases() -> list[Case]:
    """Calls in regions of both dtypes and outside, with one input and more."""
    bf16, fp16, wide = "bfloat16", "float16", "float32"
    return [
        Case((1, bf16, bf16, None), "in a bfloat16 region"),
        Case((2, fp16, fp16, None), "in a float16 region"),
        Case((3, bf16, bf16, 2.5), "in a bfloat16 region, with a number"),
        Case((4, bf16, bf16, "indices"), "in a bfloat16 region, with indices"),
        Case((5, fp16, fp16, "indices"), "in a float16 region, with indices"),
        Case((6, bf16, bf16, "second"), "in a bfloat16 region, with two inputs"),
        Case((7, fp16, fp16, "second"), "in a float16 region, with two inputs"),
        Case((8, bf16, wide, None), "in a bfloat16 region, with a float32 input"),
        Case((9, None, wide, None), "outside any region"),
        Case((10, None, bf16, "second"), "outside any region, with two bfloat16 inputs"),
        Case((11, bf16, bf16, "error"), "in a bfloat16 region, and the module raises"),
        Case((12, fp16, fp16, "error"), "in a float16 region, and the module raises"),
    ]


@as_play
def kept_module(
    keep: Callable[..., Any], seed: int, region: str | None, given: str, more: Any
) -> Any:
    """How a function that wraps a module is used: in a region, on inputs of some dtype."""
    log, width = harness.Log(), 3 + seed
    generator = from_seed(seed)
    inner = seeded(seed, lambda: _Submodule(width))
    module = _Raises(width) if more == "error" else harness.Witness(inner, "module", log)
    x = torch.randn(4, width, generator=generator).to(getattr(torch, given)).requires_grad_()
    args = [x, more] if isinstance(more, float) else [x]
    if more == "second":
        args.append(torch.randn(4, 4, generator=generator).to(x.dtype))
    if more == "indices":
        args.append(torch.tensor([399, 1, 257, 301]))
    with usual_torch():
        kept = keep(module)
        if not callable(kept):
            return harness.as_returned(kept)
        with torch.autocast("cpu", getattr(torch, region)) if region else nullcontext():
            before = harness.state()
            if more == "error":
                return {"autocast after the error": _after_the_error(kept, x)}
            result = kept(*args)
            after = harness.since(before)
    is_tensor = type(result) is Tensor
    return {
        "dtype of the parameters": harness.dtypes_of(inner),
        "autocast in the module": log.during("module"),
        "dtypes that the module took": log.taken_by("module"),
        "autocast after the call": after,
        "dtype of the result": name_of(result.dtype) if is_tensor else "it is no tensor",
        "gradient for the input": harness.reaches(result, x),
        "gradient for the parameters": harness.reaches(result, inner.linear.weight),
        "result": result,
    }


def _after_the_error(kept: Callable[..., Any], x: Tensor) -> str:
    before = harness.state()
    try:
        kept(x)
    except Expected:
        return harness.since(before)
    return "the error was lost"


# ---- count_casts --------------------------------------------------------------------------------

Work = Callable[[], Any]


def _layers(
    seed: int,
    dtype: torch.dtype = BFLOAT,
    *,
    cache: bool = True,
    frozen: bool = False,
    around: Callable[[], Any] = nullcontext,
    narrow_input: bool = False,
    then: Callable[[Tensor], Any] = lambda y: y,
) -> Work:
    """Work that runs a few layers in a region, several times."""
    draw = random.Random(draws.seed(seed))
    width, count, times = draw.randint(3, 6), draw.randint(1, 3), draw.randint(2, 5)
    if dtype == HALF:  # slow on most CPUs
        count, times = 1, 2

    def work() -> None:
        with torch.inference_mode(False):
            layers = seeded(seed, lambda: [nn.Linear(width, width) for _ in range(count)])
            model = nn.Sequential(*layers)
            model.requires_grad_(not frozen)
            x = torch.ones(3, width, dtype=dtype if narrow_input else SINGLE)
        with around(), torch.autocast("cpu", dtype=dtype, cache_enabled=cache):
            for _ in range(times):
                then(model(x))

    return work


def _train(inputs: int) -> Work:
    def work() -> None:
        model = nn.Linear(inputs, 2)
        with torch.autocast("cpu", dtype=BFLOAT):
            loss = mse_loss(model(torch.ones(3, inputs)), torch.zeros(3, 2))
        loss.backward()

    return work


def _without_region(inputs: int) -> Work:
    return lambda: linear(torch.ones(3, inputs), torch.ones(2, inputs))


def _other_casts(count: int) -> Work:
    """Casts and copies, none of them to 16 bits."""
    return lambda: [
        torch.ones(3, 4).clone().double().float().contiguous().long() for _ in range(count)
    ]


def _from_elsewhere(count: int) -> Work:
    """Casts to 16 bits that don't start from float32."""
    return lambda: [
        (torch.ones(3, dtype=torch.float64).half(), torch.arange(5).bfloat16().half())
        for _ in range(count)
    ]


def _by_hand(*dtypes: torch.dtype) -> Work:
    return lambda: [torch.ones(5).to("cpu", dtype) for dtype in dtypes]


def _copied(count: int, dtype: torch.dtype) -> Work:
    """Float32 numbers copied into tensors of 16 bits that are there already."""
    return lambda: [torch.empty(4, dtype=dtype).copy_(torch.ones(4)) for _ in range(count)]


class _Staged:
    """Work that does less each time; a copy of it starts from the beginning."""

    def __init__(self, most: int) -> None:
        self.times, self.most = 0, most

    def __call__(self) -> None:
        self.times += 1
        for _ in range(self.most // self.times):
            torch.ones(4).to(BFLOAT)


def _some(vary: Varied) -> list[torch.dtype]:
    """More 16-bit dtypes, and none without a salt."""
    return vary.random.choices((HALF, BFLOAT), k=vary.more(0, 9))


def works() -> list[Case]:
    """Work with casts that autocast inserts, casts by hand, and others that don't count. With a
    salt they come in another order, and there are more casts by hand."""
    vary = Varied(51)
    no_grad, inference = torch.no_grad, torch.inference_mode
    by_kind: dict[str, list[tuple[Work, str]]] = {
        "casts by hand": [
            (_other_casts(1), "copies and casts, none to 16 bits"),
            (_other_casts(2), "more copies and casts, none to 16 bits"),
            (_by_hand(HALF), "one cast by hand, no autocast"),
            (_by_hand(BFLOAT, HALF, BFLOAT, *_some(vary)), "several casts by hand"),
            (_from_elsewhere(1), "casts to 16 bits, none of them from float32"),
            (_from_elsewhere(2), "more casts to 16 bits, none of them from float32"),
        ],
        "`copy_`": [
            (_copied(1, BFLOAT), "copy_ into a bfloat16 tensor"),
            (_copied(vary.more(3), HALF), "copy_ into several float16 tensors"),
        ],
        "layers in a region": [
            (_layers(1), "a few layers, several times"),
            (_layers(2, HALF), "a layer in float16, twice"),
            (_layers(2, cache=False), "layers without the cache"),
            (_layers(3, frozen=True), "frozen layers"),
            (_layers(4, around=no_grad), "under no_grad"),
            (_layers(6, narrow_input=True), "with a 16-bit input"),
            (_layers(7, then=lambda y: y.float().relu().sum()), "results cast back to float32"),
            (_train(4), "a forward and a backward pass"),
            (_train(5), "another forward and backward pass"),
        ],
        "`inference_mode`": [
            (_layers(5, HALF, around=inference), "in inference_mode, float16"),
            (_layers(8, around=inference), "in inference_mode, bfloat16"),
            (inference()(_by_hand(HALF)), "a cast by hand in inference_mode, with a device"),
            (inference()(_by_hand(BFLOAT, HALF, *_some(vary))),
             "several casts by hand in inference_mode"),
        ],
        "layers outside a region": [
            (_without_region(4), "a layer with no region open"),
            (_without_region(5), "another layer with no region open"),
        ],
        "work that changes": [
            *((_Staged(most), f"{most} casts, and fewer when it is run again")
              for most in (vary.more(6), vary.more(9, 9))),
        ],
    }  # fmt: skip
    cases = [Case((w,), label, kind) for kind, some in by_kind.items() for w, label in some]
    return vary.mixed(cases)
