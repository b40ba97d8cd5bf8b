"""What the answers are handed: a model to compile, and a block to run twice.

Each ``play`` returns a dict in the learner's terms, the most telling entry first.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.amp.fake_tensors.saved import SavedBytes
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import (
    BFLOAT,
    HALF,
    Answer,
    as_play,
    dtype_or_type,
    elements,
    in_words,
    is_tensor,
    name_of,
    seeded,
)

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
        "gradients of the last layer": elements(gradients[1:]),
        "gradients of the first layer": elements(gradients[:1]),
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
            return {"output": dtype_or_type(output), "graph of the output": "none"}
        torch.rand(seed)  # the random numbers have moved on when the backward pass comes
        with second.noted():
            output.float().square().sum().backward()
    return {
        "output": dtype_or_type(output),
        "graph of the output": "there is one",
        "dtype of the block's parameters": in_words(map(dtype_or_type, block.parameters())),
        "runs before backward()": first.times,
        "dtype of the first run": in_words(first.dtypes),
        "layers that run again": second.layers,
        "kept for the backward pass": "x" if saved.total <= x_twice else "more than x",
        "dtype of the second run": in_words(second.dtypes),
        "dropout mask of the first run": first.mask,
        "dropout mask of the second run": second.mask,
        "gradient of x": elements([x.grad]) if needs_grad else "not asked for",
        "gradients of the parameters": elements(p.grad for p in block.parameters()),
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
        self.dtypes.add(dtype_or_type(output))
        if isinstance(layer, nn.Dropout):
            self.times += 1
            self.mask = "".join("x" if kept else "." for kept in output[0, :24] != 0)

    @property
    def layers(self) -> str:
        return {0: "none", len(self.block): "all"}.get(len(self.ran), "some")
