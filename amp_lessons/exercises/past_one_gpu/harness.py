"""What one process needs: a model to compile, a block to run twice, tensors to store in FP8.

`harness_ranks` and `harness_group` hold what several ranks need. Each ``play`` returns a dict in
the learner's terms, the most telling entry first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import (
    BFLOAT,
    HALF,
    as_play,
    from_seed,
    in_words,
    name_of,
    seeded,
)
from amp_lessons.exercises.varied import Varied
from amp_lessons.amp.fake_tensors.saved import SavedBytes

Answer = Callable[..., Any]


def is_tensor(given: Any) -> bool:
    """Whether it is torch's own tensor. A subclass may say anything about itself."""
    return type(given) in (Tensor, nn.Parameter)


def dtype(tensor: Any) -> str:
    """The dtype's name without "torch.", or the name of another type."""
    return name_of(tensor.dtype) if is_tensor(tensor) else type(tensor).__name__


def numbers(tensors: Iterable[Any]) -> list[float] | str:
    """All elements in one list of floats, or what else there is: "None", "a str"."""
    found: list[float] = []
    for tensor in tensors:
        if not is_tensor(tensor):
            return "None" if tensor is None else f"a {type(tensor).__name__}"
        found += tensor.detach().double().flatten().tolist()
    return found


# ---- compiled_gradients(model, loss_fn, x, backend) ---------------------------------------------


class Guarded(nn.Module):
    """A layer under the caller's autocast, then one that a disabled region keeps in float32."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(inputs, width, False), nn.Linear(width, 2, False)
        with torch.no_grad():
            self.first.weight.abs_()
            self.last.weight.mul_(0.1)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        with torch.autocast("cpu", enabled=False):
            return self.last(hidden.float())


def large_loss(output: Tensor) -> Tensor:
    """The last layer's gradients are beyond 65504, those of the first layer are not."""
    return output.float().sum() * 2.0**14


def compile_cases() -> list[Case]:
    return [Case((1, 6, 3, 4), "batch 6, width 4"), Case((5, 9, 5, 3), "batch 9, width 3")]


@as_play
def play_compiled(answer: Answer, seed: int, batch: int, inputs: int, width: int) -> Any:
    """Count the backward passes that go through what the backend made. An answer that compiles,
    and then trains the eager model, has compiled nothing."""
    from torch._functorch import config

    model = seeded(seed, lambda: Guarded(inputs, width))
    x = 1 + seeded(seed + 1, lambda: torch.rand(batch, inputs))
    regions: list[bool] = []  # for each compiled backward pass, whether autocast was on
    torch.compiler.reset()
    with config.patch(backward_pass_autocast="same_as_forward"):  # and so it is put back
        gradients = answer(model, large_loss, x, partial(counting_backend, regions))
    torch.compiler.reset()
    if not isinstance(gradients, list | tuple):
        return {"returned": type(gradients).__name__}
    return {
        "returned": "a list",
        "compiled backward passes": min(len(regions), 1),
        "gradients in 16 bits": sum(t.dtype in (HALF, BFLOAT) for t in gradients if is_tensor(t)),
        "autocast when backward() was called": "on" if any(regions) else "off",
        "the first layer's gradients are values that fit in": precision(gradients[:1]),
        "gradients of the last layer": numbers(gradients[1:]),
        "gradients of the first layer": numbers(gradients[:1]),
    }


def counting_backend(regions: list[bool], graph: torch.fx.GraphModule, example: Any) -> Any:
    """Eager kernels behind AOTAutograd; notes autocast's state when a backward pass begins."""
    compiled = torch._dynamo.lookup_backend("aot_eager_default_partitioner")(graph, example)

    def note(gradient: Tensor) -> None:
        regions.append(torch.is_autocast_enabled("cpu"))

    def run(*args: Any) -> Any:
        outputs = compiled(*args)
        for output in outputs:
            if isinstance(output, Tensor) and output.requires_grad:
                output.register_hook(note)
        return outputs

    return run


def precision(tensors: Sequence[Any]) -> str:
    """The format with the fewest significant bits that hold every number, whatever its size."""
    if not tensors or not all(map(is_tensor, tensors)):
        return "no format"
    significands = [torch.frexp(t.detach().double()).mantissa for t in tensors]
    for narrow, bits in (("bfloat16", 8), ("float16", 11)):
        if all((s * 2.0**bits % 1 == 0).all() for s in significands):
            return narrow
    return "float32"


# ---- checkpointed(block, x, dtype) --------------------------------------------------------------


def checkpoint_cases() -> list[Case]:
    cases = []
    for seed, (dtype, needs) in enumerate(product((HALF, BFLOAT), (False, True)), 1):
        kind = f"an x that needs {'a' if needs else 'no'} gradient"
        cases.append(Case((seed, needs, dtype), f"{kind}, {name_of(dtype)}", kind))
    return cases


@as_play
def play_checkpointed(answer: Answer, seed: int, needs_grad: bool, low: torch.dtype) -> Any:
    block = seeded(seed, noisy_block)
    x = seeded(seed + 1, lambda: torch.randn(24, 8)).requires_grad_(needs_grad)
    x_twice = x.numel() * (4 + 2)  # its bytes in FP32, and once more in 16 bits
    first, second = BlockRun(block), BlockRun(block)
    saved = SavedBytes(block)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        with first.noted(), saved.counted():
            output = answer(block, x, low)
        if not is_tensor(output) or not output.requires_grad:
            return {"output": dtype(output), "graph of the output": "none"}
        torch.rand(seed)  # the random numbers have moved on when the backward pass comes
        with second.noted():
            output.float().square().sum().backward()
    return {
        "output": dtype(output),
        "graph of the output": "there is one",
        "dtype of the block's parameters": in_words(map(dtype, block.parameters())),
        "runs before backward()": first.times,
        "dtype of the first run": in_words(first.dtypes),
        "layers that run again": second.layers,
        "kept for the backward pass": "x" if saved.total <= x_twice else "more than x",
        "dtype of the second run": in_words(second.dtypes),
        "dropout mask of the first run": first.mask,
        "dropout mask of the second run": second.mask,
        "gradient of x": numbers([x.grad]) if needs_grad else "not asked for",
        "gradients of the parameters": numbers(p.grad for p in block.parameters()),
    }


def noisy_block() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.5), nn.Linear(32, 4))


class BlockRun:
    """One run of a block: which layers ran, in which dtypes, and which numbers were dropped."""

    def __init__(self, block: nn.Sequential) -> None:
        self.block = block
        self.ran: set[int] = set()
        self.dtypes: set[str] = set()
        self.mask, self.times = "", 0

    def noted(self) -> ExitStack:
        stack = ExitStack()
        for place, layer in enumerate(self.block):
            begins = layer.register_forward_pre_hook(partial(self._begins, place))
            ends = layer.register_forward_hook(self._ends)
            stack.callback(begins.remove)
            stack.callback(ends.remove)
        return stack

    def _begins(self, place: int, layer: nn.Module, inputs: Any) -> None:
        self.ran.add(place)  # here, for a second run may stop inside its last layer

    def _ends(self, layer: nn.Module, inputs: Any, output: Tensor) -> None:
        self.dtypes.add(dtype(output))
        if isinstance(layer, nn.Dropout):
            self.times += 1
            self.mask = "".join("x" if kept else "." for kept in output[0, :24] != 0)

    @property
    def layers(self) -> str:
        return {0: "none", len(self.block): "all"}.get(len(self.ran), "some")


# ---- to_float8(x) -------------------------------------------------------------------------------


def float8_cases() -> list[Case]:
    vary = Varied(1)

    def draw(seed: int, size: float, *shape: int) -> Tensor:
        rows = vary.more(shape[0], 50)
        return size * torch.randn(rows, *shape[1:], generator=from_seed(seed))

    skewed, below = draw(3, 1.0, 6, 5), -draw(8, 0.2, 9).abs()
    skewed[2, 1] = -11.0
    short, tiny, zero = "FP16 tensors", "tensors of tiny numbers", "tensors of zeros"
    return [
        Case((draw(1, 1e-3, 7, 9),), "float32, size 0.001"),
        Case((draw(2, 3e3, 40),), "float32, size 3000"),
        Case((draw(7, 1e9, 5, 4),), "float32, size 1e9"),
        Case((draw(6, 20.0, 16).bfloat16(),), "BF16, size 20"),
        Case((skewed,), "float32, the largest magnitude is that of a negative number"),
        Case((below,), "float32, all negative"),
        Case((draw(4, 1e-9, 3, 4, 2),), "float32, size 1e-9", tiny),
        Case((draw(9, 4e-10, 2, 6),), "float32, size 4e-10", tiny),
        Case((draw(5, 1e-4, 8, 3).half(),), "FP16, size 0.0001", short),
        Case((draw(10, 1e-3, 12).half(),), "FP16, size 0.001", short),
        Case((torch.zeros(vary.more(4, 50), 3),), "float32, all zero", zero),
        Case((torch.zeros(vary.more(5, 50), dtype=torch.bfloat16),), "BF16, all zero", zero),
    ]


@as_play
def play_float8(answer: Answer, x: Tensor) -> Any:
    exact = x.double()  # before the answer can change it
    result = answer(x)
    if not isinstance(result, tuple | list) or len(result) != 2:
        return {"returned": type(result).__name__}
    q, scale = result
    if not is_tensor(q) or q.shape != x.shape:
        return {"returned": "a pair", "q": "not a tensor with the shape of x"}
    found = quality(exact, q.double(), one_number(scale))
    if draws.salted():  # the rest says nothing about which x this is
        found["numbers in x"] = x.numel()
    return {"returned": "a pair", "dtype of q": dtype(q), **found}


def one_number(scale: Any) -> float | str:
    if is_tensor(scale) and scale.numel() != 1:
        return f"a tensor with {scale.numel()} elements"
    known = is_tensor(scale) or type(scale) in (int, float, np.float16, np.float32, np.float64)
    return float(scale) if known else f"a {type(scale).__name__}"


def quality(x: Tensor, q: Tensor, scale: float | str) -> dict[str, Any]:
    """Whether the scale is a positive number, q uses the range of E4M3, and q / scale is x."""
    if isinstance(scale, str):
        return {"scale": scale}
    if not math.isfinite(scale) or scale <= 0:
        return {"scale": f"{scale:.4g}" if math.isfinite(scale) else "not finite"}
    if not q.isfinite().all():
        return {"scale": "one positive number", "numbers in q": "not all finite"}
    used = range_used(x, q.abs().max().item(), math.frexp(scale)[0] == 0.5)
    found = {"scale": "one positive number", "numbers in q": "finite", "largest |q|": used}
    if used in ("0", "below 448"):
        return found
    ways = {"q / scale": q / scale, "q * scale": q * scale, "neither of the two": x}
    back = next(way for way, result in ways.items() if close(result, x))
    return found | {"what gives x back, q / scale or q * scale": back}


def range_used(x: Tensor, largest: float, power_of_two: bool) -> str:
    if not x.any():
        return "any"
    if largest == 448 or (power_of_two and largest >= 224):
        return "448, or from 224 on with a power of two"
    return "below 448" if largest > 0 else "0"


def close(y: Tensor, x: Tensor) -> bool:
    """Half an ulp of a normal number is 2**-4 of it. That of a subnormal one is 2**-10, and the
    scale may be a power of two, so up to twice too small."""
    allowed = x.abs() * 2.0**-4 + x.abs().max() * 2.0**-9 * 2.0**-8
    return bool(((y - x).abs() <= allowed).all())
