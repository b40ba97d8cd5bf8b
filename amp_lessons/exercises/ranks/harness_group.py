"""A model that several ranks share, in a group whose other ranks don't exist.

Torch's "fake" process group does nothing in its collectives. It is used where only dtypes and the
number of exchanges count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import Mock

import torch
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg  # makes the backend "fake" known
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import (
    Answer,
    as_play,
    dtype_or_type,
    elements,
    from_seed,
    in_words,
    name_of,
    seeded,
)
from amp_lessons.exercises.varied import Varied


@contextmanager
def fake_group(size: int) -> Iterator[None]:
    """Be rank 0 of a group whose other ranks don't exist, and whose collectives do nothing."""
    if dist.is_initialized():
        raise RuntimeError(
            "this process is in a process group already, and the check needs one of its own: call "
            "torch.distributed.destroy_process_group() and check again"
        )
    dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=size)
    try:
        yield
    finally:
        dist.destroy_process_group()


class Reductions(TorchDispatchMode):
    """The dtypes of the gradients that are sent to the other ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "reduce_scatter" in func.__name__ or "allreduce" in func.__name__:
            tensors = [t for a in args for t in (a if isinstance(a, list | tuple) else [a])]
            self.dtypes |= {dtype_or_type(t) for t in tensors if isinstance(t, Tensor)}
        return func(*args, **(kwargs or {}))


# ---- shard_model(model, mesh) -------------------------------------------------------------------


class Block(nn.Module):
    """A residual block with a norm inside."""

    def __init__(self, norm: type[nn.Module], width: int) -> None:
        super().__init__()
        self.norm = norm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


def shard_cases() -> list[Case]:
    vary = Varied(1)

    def case(kind: str, label: str) -> Case:
        width = 2 * vary.more(2, 40)  # even, so that two ranks get the same share
        return Case((kind, width), label + (f", width {width}" if vary.on else ""))

    return [
        case("layer norm", "a LayerNorm between two layers"),
        case("rms norm", "an RMSNorm between two layers"),
        case("blocks", "residual blocks with LayerNorm and RMSNorm"),
        case("nested", "an RMSNorm at the top, and one in a residual block"),
    ]


def stack(kind: str, width: int) -> nn.Module:
    between: dict[str, list[nn.Module]] = {
        "layer norm": [nn.LayerNorm(width)],
        "rms norm": [nn.RMSNorm(width)],
        "blocks": [Block(nn.RMSNorm, width), Block(nn.LayerNorm, width), nn.RMSNorm(width)],
        "nested": [nn.RMSNorm(width), Block(nn.RMSNorm, width)],
    }
    return nn.Sequential(nn.Linear(width, width), *between[kind], nn.Linear(width, 2))


@as_play
def play_shards(answer: Answer, kind: str, width: int) -> Any:
    model = seeded(1, lambda: stack(kind, width))
    seen: dict[str, set[str]] = {}
    with fake_group(4):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("other", "shards"))["shards"]
        answer(model, mesh)
        parameters = list(model.parameters())
        sharded = [p for p in parameters if hasattr(p, "to_local")]
        found = {
            "parameters that are sharded": len(sharded),
            "ranks that share a parameter": in_words(str(p.device_mesh.size()) for p in sharded),
            "parameters between the steps": in_words(name_of(p.dtype) for p in parameters),
        }
        if draws.salted():  # the rest is the same for every width
            numbers_here = sum(p.to_local().numel() for p in sharded)
            found["numbers of the sharded parameters on rank 0"] = numbers_here
        for module in model.modules():
            if isinstance(module, nn.Linear | nn.LayerNorm | nn.RMSNorm):
                module.register_forward_pre_hook(partial(look, seen))
        with Reductions() as reductions:
            output = forward_and_backward(model, width)
    added = {"dtypes of gradients that are added up": in_words(reductions.dtypes), "output": output}
    return found | {key: in_words(seen[key]) for key in sorted(seen)} | added


def look(seen: dict[str, set[str]], module: nn.Module, inputs: Any) -> None:
    """Note the dtypes, after FSDP2 has fetched the weight and cast the input."""
    kind = type(module).__name__.removeprefix("FSDP")
    for what, tensor in (("weights", module.get_parameter("weight")), ("inputs", inputs[0])):
        seen.setdefault(f"all dtypes of {kind} {what}", set()).add(name_of(tensor.dtype))


def forward_and_backward(model: nn.Module, width: int) -> str:
    """The output's dtype, or the first words of torch's complaint."""
    try:
        output = model(torch.ones(3, width))
        output.sum().backward()
    except RuntimeError as error:
        return f"RuntimeError: {str(error)[:60]}"
    return name_of(output.dtype)


# ---- few_exchanges(model, optimizer, scaler, loss_fn, batches) ----------------------------------

OTHERS = 3.0  # what the all-reduce makes of a gradient, so that one left out can be seen


def exchange_cases() -> list[Case]:
    """Steps, with one digit each: so many micro-batches. After an "o" the first one overflows."""
    return [
        Case(("3", 1), "one step of 3 micro-batches"),
        Case(("213", 2), "steps of 2, 1 and 3 micro-batches"),
        Case(("2o22", 3), "3 steps of 2 micro-batches, the second overflows"),
        Case(("o32", 4), "steps of 3 and 2 micro-batches, the first overflows"),
    ]


def groups(sizes: str, seed: int) -> list[list[tuple[Tensor, Tensor]]]:
    """The micro-batches of each step. They don't all have the same size."""
    draw = from_seed(seed)
    found = []
    for place, letter in enumerate(sizes):
        if letter != "o":
            rows = (3, 8, 5)[: int(letter)]
            pairs = [[torch.randn(n, width, generator=draw) for width in (5, 2)] for n in rows]
            if sizes[:place].endswith("o"):
                pairs[0][1][0, 0] = 1e6
            found.append([(x, y) for x, y in pairs])
    return found


@as_play
def play_exchanges(answer: Answer, sizes: str, seed: int) -> Any:
    with fake_group(2):
        network = seeded(seed, lambda: nn.Sequential(nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 2)))
        model = DistributedDataParallel(network)
        exchanges: list[int] = []

        def exchange(state, bucket):  # DDP refuses annotations that are text
            exchanges[-1] += 1
            result: torch.futures.Future[Tensor] = torch.futures.Future()
            result.set_result(bucket.buffer() * OTHERS)
            return result

        model.register_comm_hook(None, exchange)
        passes = Passes(network)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
        steps: list[int] = []
        optimizer.register_step_post_hook(lambda *seen: steps.append(1))
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=2)
        scaler_step = scaler.step = Mock(wraps=scaler.step)  # type: ignore[method-assign]
        calls: list[int] = []
        scales: list[float] = []
        with Reductions() as own:
            for batches in groups(sizes, seed):
                exchanges.append(0)
                answer(model, optimizer, scaler, nn.functional.mse_loss, batches)
                calls.append(scaler_step.call_count - sum(calls))
                scales.append(scaler.get_scale())
    return {
        "dtype of the outputs": in_words(passes.dtypes),
        "rows of the forward passes": passes.rows,
        "forward passes before a backward pass": passes.most_open,
        "backward passes": passes.backward,
        "calls of all_reduce": "DDP's" if not own.dtypes else "your own",
        "exchanges in each step": exchanges,
        "calls of scaler.step in each step": calls,
        "optimizer steps": len(steps),
        "scale after each step": scales,
        "parameters at the end": elements(network.parameters()),
    }


class Passes:
    """The forward and backward passes of a network."""

    def __init__(self, network: nn.Module) -> None:
        self.rows: list[int] = []
        self.dtypes: set[str] = set()
        self.open = self.most_open = self.backward = 0
        network.register_forward_hook(self._forward)

    def _forward(self, network: nn.Module, inputs: Any, output: Tensor) -> None:
        self.rows.append(len(inputs[0]))
        self.dtypes.add(dtype_or_type(output))
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        if output.requires_grad:
            output.register_hook(self._backward)

    def _backward(self, gradient: Tensor) -> None:
        self.open -= 1
        self.backward += 1
