"""Lesson 11's exercises: compiled, checkpointed, sharded, accumulated and in eight bits.

Nothing here starts a second process. Several ranks are threads that meet in an `all_reduce`, where
a rank that never comes is noticed at once; or they are torch's "fake" process group, whose
collectives do nothing, where only dtypes and the number of exchanges are looked at.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache, partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from amp_lessons.checks.cases import Case, Misconception, function_exercise, within

HALF, BFLOAT = torch.float16, torch.bfloat16
Answer = Callable[..., Any]


def _is_tensor(given: Any) -> bool:
    """Whether it is torch's own tensor: a subclass may say of itself what it likes."""
    return type(given) in (Tensor, nn.Parameter)


def _numbers(given: Any) -> Any:
    """Tensors in a list as lists of numbers; anything else by the name of its type."""
    if not isinstance(given, list | tuple) or not all(map(_is_tensor, given)):
        return type(given).__name__
    return [t.detach().double().flatten().tolist() for t in given]


def _name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


class _Own(partial):
    """An answer of ours, right or mistaken on purpose; what it gives never changes."""


def _played(measure: Answer) -> Callable[[Answer], Answer]:
    """A ``play`` out of ``measure(answer, *case)`` that measures our own answers only once."""
    remembered = cache(measure)
    return lambda answer: partial(remembered if isinstance(answer, _Own) else measure, answer)


def _seeded(seed: int, make: Callable[[], Any]) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


# ---- compiled_gradients -------------------------------------------------------------------------


class _Guarded(nn.Module):
    """A layer under the caller's autocast, then one that a disabled region keeps in float32."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(inputs, width), nn.Linear(width, 2)
        with torch.no_grad():
            self.first.weight.abs_()
            self.last.weight.mul_(0.3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)
        with torch.autocast("cpu", enabled=False):
            return self.last(hidden.float())


def _compiled_seen(
    answer: Answer, seed: int, batch: int, inputs: int, width: int
) -> dict[str, Any]:
    """Hand the answer a model whose float32 gradient does not fit in FP16.

    Count the backward passes that go through what the backend made: one that compiles, and then
    trains the eager model, has compiled nothing.
    """
    from torch._functorch import config

    model = _seeded(seed, lambda: _Guarded(inputs, width))
    x = 1 + _seeded(seed + 1, lambda: torch.rand(batch, inputs))
    regions: list[bool] = []  # for each backward pass, whether autocast was on

    def note(gradient: Tensor) -> None:
        regions.append(torch.is_autocast_enabled("cpu"))

    def backend(graph: torch.fx.GraphModule, example: list[Tensor]) -> Any:
        compiled = torch._dynamo.lookup_backend("aot_eager")(graph, example)

        def run(*args: Any) -> Any:
            outputs = compiled(*args)
            for output in outputs:
                if isinstance(output, Tensor) and output.requires_grad:
                    output.register_hook(note)
            return outputs

        return run

    def loss_fn(output: Tensor) -> Tensor:
        return output.float().sum() * 2.0**14

    torch.compiler.reset()
    with config.patch(backward_pass_autocast="same_as_forward"):  # and so it is put back
        gradients = answer(model, loss_fn, x, backend)
    torch.compiler.reset()
    return {
        "a compiled backward pass ran": bool(regions),
        "was backward() called under autocast": any(regions),
        "gradients": _numbers(gradients),
    }


def _compiled(
    model: nn.Module,
    loss_fn: Answer,
    x: Tensor,
    backend: Any,
    *,
    setting: str,
    mixed: bool = True,
    inside: bool = False,
) -> list[Tensor]:
    """``setting`` is that of the backward pass, and ``inside`` puts it into the region."""
    from torch._functorch import config

    with config.patch(backward_pass_autocast=setting):
        with torch.autocast("cpu", dtype=HALF, enabled=mixed):
            output = torch.compile(model, backend=backend)(x)
        with torch.autocast("cpu", dtype=HALF, enabled=inside):
            loss_fn(output).backward()
    return [p.grad for p in model.parameters()]


def _eager(model: nn.Module, loss_fn: Answer, x: Tensor, backend: Any) -> list[Tensor]:
    with torch.autocast("cpu", dtype=HALF):
        output = model(x)
    loss_fn(output).backward()
    return [p.grad for p in model.parameters()]


_right_compiled = _Own(_compiled, setting="off")
_default_compiled = _Own(_compiled, setting="same_as_forward")
_default_compiled_inside = _Own(_compiled, setting="same_as_forward", inside=True)
_right_compiled_inside = _Own(_compiled, setting="off", inside=True)
_float32_compiled = _Own(_compiled, setting="off", mixed=False)

compiled_gradients = function_exercise(
    "compiled_gradients",
    cases=lambda: [
        Case((1, 6, 3, 4), "batch 6, width 4"),
        Case((5, 9, 5, 3), "batch 9, width 3"),
    ],
    reference=_right_compiled,
    play=_played(_compiled_seen),
    same=within(1e-4),
    misconceptions={
        "traced-under-autocast": Misconception(
            "The last layer's gradient is inf: its backward pass was traced under the autocast of "
            "the forward pass, and runs in FP16. torch._functorch.config.backward_pass_autocast "
            "is read when the model is compiled, and that is at its first call, not where "
            'torch.compile stands: there it must be "off". Or compile a function that holds the '
            "autocast region.",
            _default_compiled,
            _default_compiled_inside,
        ),
        "backward-in-the-region": Misconception(
            "The gradients are right, and backward() is called under autocast. Here every pass "
            "that it runs was traced before, and is not touched by it; what runs in eager mode "
            "would be. Leave the region first.",
            _right_compiled_inside,
        ),
        "not-compiled": Misconception(
            "These are the eager gradients: no backward pass went through anything that `backend` "
            "has compiled. Give torch.compile that backend, and call the model that it returns.",
            _Own(_eager),
        ),
        "no-autocast": Misconception(
            "The forward pass ran in FP32. The trap is avoided, and mixed precision too: run the "
            'model under torch.autocast("cpu", dtype=torch.float16).',
            _float32_compiled,
        ),
    },
    hints=(
        "Compare with eager on the first case: which layer's gradient differs, and in which dtype "
        "does it seem to be computed?",
        "There are two cures in the lesson: a setting that must hold when the model is first "
        "called, and another place for the autocast region.",
        'settings.patch(backward_pass_autocast="off") around the call, or a small function with '
        "the region inside it, and that function compiled.",
    ),
    lesson_learned="A compiled backward pass is traced under the autocast that is on when the "
    "forward is compiled. Now it gives eager's gradients.",
    asked_for="a list of gradients",
)

# ---- checkpointed -------------------------------------------------------------------------------


class _Witness(nn.Module):
    """Remembers the dtypes that pass through it."""

    def __init__(self, seen: list[str]) -> None:
        super().__init__()
        self.seen = seen

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(_name(x.dtype))
        return x


def _bytes_kept(function: Callable[[], Any]) -> tuple[Any, int]:
    """Call it; the result, and the bytes that autograd saves on the way, each storage once."""
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        return function(), sum(kept.values())


def _checkpointed_seen(
    answer: Answer, seed: int, needs_grad: bool, dtype_name: str
) -> dict[str, Any]:
    dtype = getattr(torch, dtype_name)
    seen: list[str] = []
    runs: list[int] = []
    block = _seeded(seed, lambda: _noisy_block(seen))
    block[0].register_forward_pre_hook(lambda layer, inputs: runs.append(1))
    x = _seeded(seed + 1, lambda: torch.randn(128, 8)).requires_grad_(needs_grad)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        _, plain_bytes = _bytes_kept(lambda: _checkpointed(block, x, dtype, how="plain"))
        seen.clear()
        torch.manual_seed(seed)
        output, kept = _bytes_kept(lambda: answer(block, x, dtype))
        attached = _is_tensor(output) and output.requires_grad
        forward_runs = len(runs)
        if attached:
            torch.rand(seed)  # the random numbers have moved on when the backward pass comes
            output.float().square().sum().backward()
    gradients = [p.grad for p in block.parameters()]
    return {
        "output": _name(output.dtype) if _is_tensor(output) else type(output).__name__,
        "output has a graph": attached,
        "bytes kept are less than half of the plain run's": kept < plain_bytes / 2,
        "the block runs again in the backward pass": len(runs) > forward_runs,
        "dtypes in which the block ran": sorted(set(seen)),
        "dtypes of the block's parameters": sorted({_name(p.dtype) for p in block.parameters()}),
        "gradients of the parameters": _numbers(gradients),
        "gradient of x": _numbers([x.grad]) if needs_grad else "not asked for",
    }


def _noisy_block(seen: list[str]) -> nn.Sequential:
    """Two layers with dropout between them, (n, 8) to (n, 4), and a witness."""
    first, last = nn.Linear(8, 32), nn.Linear(32, 4)
    return nn.Sequential(first, _Witness(seen), nn.GELU(), nn.Dropout(0.5), last)


class _Recompute(torch.autograd.Function):
    """A checkpoint by hand that forgets autocast, and may forget the random numbers too."""

    @staticmethod
    def forward(ctx: Any, function: Answer, keep: bool, x: Tensor, *parameters: Tensor) -> Tensor:
        ctx.function, ctx.x = function, x
        ctx.random = torch.get_rng_state() if keep else None
        ctx.parameters = parameters
        return function(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        x = ctx.x.detach().requires_grad_()
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            if ctx.random is not None:
                torch.set_rng_state(ctx.random)
            output = ctx.function(x)
        wanted = (x, *ctx.parameters)
        found = torch.autograd.grad(output, wanted, gradient.to(output.dtype))
        return None, None, *found


def _checkpointed(block: nn.Module, x: Tensor, dtype: torch.dtype, *, how: str = "") -> Tensor:
    """As it should be, or with the mistake that ``how`` names."""
    with torch.autocast("cpu", dtype=dtype, enabled=how != "no autocast"):
        if how == "plain":
            return block(x)
        if how == "block cast":
            block.to(dtype)
        if how in ("by hand", "by hand, other dropout"):
            return _Recompute.apply(block, how == "by hand", x, *block.parameters())
        if how == "in parts":
            for layer in block:
                x = checkpoint(layer, x, use_reentrant=False)
            return x
        if how == "no grad":
            with torch.no_grad():
                return block(x)
        keep = how != "other dropout"
        if how == "reentrant":
            return _reentrant(block, x)
        return checkpoint(block, x, use_reentrant=False, preserve_rng_state=keep)


def _reentrant(block: nn.Module, x: Tensor) -> Tensor:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return checkpoint(block, x, use_reentrant=True)


def _mistaken(how: str) -> Answer:
    return _Own(_checkpointed, how=how)


checkpointed = function_exercise(
    "checkpointed",
    cases=lambda: [
        Case((1, False, "float16"), "x needs no gradient, FP16"),
        Case((2, True, "float16"), "x needs a gradient, FP16"),
        Case((3, False, "bfloat16"), "x needs no gradient, BF16"),
    ],
    reference=_Own(_checkpointed),
    play=_played(_checkpointed_seen),
    same=within(1e-5),
    misconceptions={
        "nothing-forgotten": Misconception(
            "Autograd keeps as much as without a checkpoint: the block ran once, with all its "
            "activations saved. Call it by way of torch.utils.checkpoint.checkpoint.",
            _mistaken("plain"),
        ),
        "kept-in-between": Misconception(
            "Something runs again, and still half of the bytes or more are kept: you checkpoint "
            "parts of the block, and what goes from one part to the next stays. One checkpoint "
            "around the whole block keeps x alone.",
            _mistaken("in parts"),
        ),
        "recompute-in-fp32": Misconception(
            "The block's second run, in the backward pass, was in FP32: backward() stands outside "
            "of autocast, and nothing restored it. The gradients are those of another "
            "computation. torch's checkpoint restores the state; in a Function of your own "
            "custom_fwd and custom_bwd do.",
            _mistaken("by hand"),
            _mistaken("by hand, other dropout"),
        ),
        "reentrant": Misconception(
            "Where x needs no gradient, your output has no graph and nothing is trained. "
            "use_reentrant=True looks at the inputs alone, and so does a Function of your own that "
            "is not handed the parameters. Pass use_reentrant=False.",
            _mistaken("reentrant"),
        ),
        "no-graph": Misconception(
            "Your output has no graph, so there is no backward pass: forgetting the activations is "
            "half of a checkpoint, running the block again is the other half.",
            _mistaken("no grad"),
        ),
        "other-dropout": Misconception(
            "The second run drew another dropout mask than the first, so the gradients belong to "
            "another network. Leave preserve_rng_state at True; a Function of your own has to save "
            "torch.get_rng_state() and set it again.",
            _mistaken("other dropout"),
        ),
        "block-cast": Misconception(
            "You cast the block itself: the caller's parameters are 16 bits wide now, and what an "
            "optimizer adds to them is lost where it is small. Leave them in FP32; autocast makes "
            "copies.",
            _mistaken("block cast"),
        ),
        "no-autocast": Misconception(
            'The block ran in FP32. Run it under torch.autocast("cpu", dtype=dtype).',
            _mistaken("no autocast"),
        ),
    },
    hints=(
        "torch.utils.checkpoint.checkpoint runs a block and forgets what is inside. What must be "
        "around it when it is called?",
        "Which of its two implementations works for an x that needs no gradient?",
    ),
    lesson_learned="A checkpointed block runs twice, and both runs must have the same dtype and "
    "the same random numbers.",
    asked_for="the block's output",
)

# ---- may_step -----------------------------------------------------------------------------------


class _Apart(Exception):
    """The ranks do not call the same collective, so a real run would hang or break."""


class _Ranks:
    """Ranks as threads of this process, with one collective: `all_reduce`.

    A rank that waits for one that has ended is told so at once, so that nothing ever hangs.
    """

    def __init__(self, size: int) -> None:
        self.size, self.ended = size, 0
        self.waiting: dict[int, tuple[Tensor, Any]] = {}
        self.round, self.broken = 0, ""
        self.turn = threading.Condition()

    def all_reduce(self, rank: int, tensor: Tensor, op: Any = dist.ReduceOp.SUM) -> None:
        """As torch.distributed.all_reduce: in place, over all ranks."""
        if not isinstance(tensor, Tensor):
            raise TypeError(f"all_reduce changes a tensor in place, and this is {tensor!r}")
        with self.turn:
            self.waiting[rank] = (tensor, op)
            number = self.round
            if len(self.waiting) == self.size:
                self._reduce()
            elif self.ended:
                self._break("a rank waits for an all_reduce that another never calls")
            while self.round == number and not self.broken:
                self.turn.wait()
            if self.broken:
                raise _Apart(self.broken)

    def _reduce(self) -> None:
        tensors = [tensor for tensor, _ in self.waiting.values()]
        ops = [op for _, op in self.waiting.values()]
        if len({(t.shape, t.dtype) for t in tensors}) > 1 or any(op != ops[0] for op in ops):
            self._break("the ranks reduce tensors of different shapes or dtypes")
            return
        stacked = torch.stack([t.detach() for t in tensors])
        result = _REDUCTIONS[str(ops[0])](stacked)
        for tensor in tensors:
            with torch.no_grad():
                tensor.copy_(result)
        self.waiting.clear()
        self.round += 1
        self.turn.notify_all()

    def _break(self, why: str) -> None:
        self.broken = why
        self.turn.notify_all()

    def end(self) -> None:
        with self.turn:
            self.ended += 1
            if self.waiting:
                self._break("a rank waits for an all_reduce that another never calls")

    def run(self, work: Callable[[int], Any]) -> list[Any]:
        """Call ``work(rank)`` in a thread each; the results. Raises what a rank raised first."""
        results: list[Any] = [None] * self.size
        errors: list[BaseException] = []

        def one(rank: int) -> None:
            try:
                results[rank] = work(rank)
            except BaseException as error:
                errors.append(error)
            finally:
                self.end()

        threads = [threading.Thread(target=one, args=(r,), daemon=True) for r in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        own = [error for error in errors if not isinstance(error, _Apart)]
        if own or errors:
            raise (own or errors)[0]
        return results


_REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    str(dist.ReduceOp.SUM): lambda t: t.sum(0, dtype=t.dtype),
    str(dist.ReduceOp.AVG): lambda t: (t.sum(0) / len(t)).to(t.dtype),
    str(dist.ReduceOp.MAX): lambda t: t.amax(0),
    str(dist.ReduceOp.MIN): lambda t: t.amin(0),
    str(dist.ReduceOp.PRODUCT): lambda t: t.prod(0, dtype=t.dtype),
    str(dist.ReduceOp.BAND): lambda t: t.all(0) if t.dtype == torch.bool else t.amin(0),
    str(dist.ReduceOp.BOR): lambda t: t.any(0) if t.dtype == torch.bool else t.amax(0),
}


def _shards(pattern: str, seed: int) -> list[list[Tensor]]:
    """A rank a letter: finite shards; one with an inf, a -inf or a NaN; one that is finite and
    huge; none; one with no element.

    The shards of two ranks never have the same shapes.
    """
    draw = torch.Generator().manual_seed(seed)
    ranks = []
    for number, letter in enumerate(pattern):
        shard = [1e3 * torch.randn(2 + number, 3, generator=draw), torch.randn(4, generator=draw)]
        bad = {"i": math.inf, "-": -math.inf, "n": math.nan, "h": 1e30}.get(letter)
        if bad is not None:
            shard[number % 2].view(-1)[number] = bad
        if letter == "e":
            shard = [torch.zeros(0, 3)]
        ranks.append([] if letter == "0" else shard)
    return ranks


def _play_ranks(answer: Answer) -> Answer:
    def play(pattern: str, scale: float, seed: int) -> dict[str, Any]:
        shards = _shards(pattern, seed)
        tensors = [list(shard) for shard in shards]  # a list may be given other tensors
        ranks = _Ranks(len(shards))
        apart = ""
        answers: list[Any] = []
        try:
            answers = ranks.run(
                lambda rank: answer(shards[rank], scale, partial(ranks.all_reduce, rank))
            )
        except _Apart as error:
            apart = str(error)
        steps = not apart and not set(pattern) & set("i-n")
        return {
            "what goes wrong between the ranks": apart,
            "may step, by rank": [_truth(given) for given in answers],
            "gradients after it": [_numbers(shard) for shard in tensors] if steps else "any",
        }

    return play


def _truth(given: Any) -> Any:
    """A bool, also out of a tensor or array with one element; anything else as its type's name."""
    if _is_tensor(given) and given.numel() == 1 and given.dtype == torch.bool:
        return bool(given)
    return bool(given) if type(given).__name__ in ("bool", "bool_") else type(given).__name__


def _may_step(gradients: list[Tensor], scale: float, all_reduce: Answer, *, how: str = "") -> bool:
    """As it should be, or with the mistake that ``how`` names."""
    if how == "none, no call" and not gradients:
        return True
    if how == "early return" and not any(g.numel() for g in gradients):
        return True
    for gradient in gradients:
        if how != "not unscaled":
            gradient /= scale
        if how == "adds shards":
            all_reduce(gradient)
    look = {
        "inf only": torch.isinf,
        "squares": lambda g: ~torch.isfinite(g.square().sum()),
    }.get(how, lambda g: ~torch.isfinite(g))
    found = torch.tensor(float(any(bool(look(g).any()) for g in gradients)))
    if how == "finite, max":
        finite = 1 - found
        all_reduce(finite, op=dist.ReduceOp.MAX)
        return bool(finite)
    if how == "in a branch":
        if found:
            all_reduce(found)
    elif how not in ("local", "adds shards"):
        all_reduce(found, op=dist.ReduceOp.MIN if how == "found, min" else dist.ReduceOp.MAX)
    return bool(found) if how == "inverted" else not found


def _agreeing(how: str) -> Answer:
    return partial(_may_step, how=how)


may_step = function_exercise(
    "may_step",
    cases=lambda: [
        Case(("..", 1024.0, 1), "two ranks, all finite"),
        Case((".i", 65536.0, 2), "an inf on rank 1"),
        Case(("-..", 256.0, 3), "a -inf on rank 0 of three"),
        Case(("..n", 2.0, 4), "a NaN on rank 2 of three"),
        Case(("ii", 8.0, 5), "both ranks overflow"),
        Case((".0.", 512.0, 6), "rank 1 has no gradients at all"),
        Case(("ei", 64.0, 7), "an inf on rank 1; rank 0's shard has no elements"),
        Case((".h", 128.0, 8), "all finite, a gradient of 1e30 on rank 1"),
    ],
    reference=_may_step,
    play=_play_ranks,
    same=within(1e-6),
    misconceptions={
        "local-decision": Misconception(
            "Each rank decides for itself: the one with the inf skips, the others step, and from "
            "then on there are several models and several scales. Ask the others: all_reduce what "
            "you found.",
            _agreeing("local"),
        ),
        "collective-in-a-branch": Misconception(
            "Not every rank calls all_reduce equally often: that depends on what a rank found, or "
            "on the gradients that it has. A collective waits for all ranks, so a real run hangs "
            "there until its time-out. Call it once, unconditionally.",
            _agreeing("in a branch"),
            _agreeing("early return"),
            _agreeing("none, no call"),
        ),
        "one-good-rank-is-enough": Misconception(
            "You step as soon as one rank is fine. It must be all of them: the maximum (or the "
            "sum) of `found an inf`, or the minimum of `is finite`.",
            _agreeing("found, min"),
            _agreeing("finite, max"),
        ),
        "shards-added-up": Misconception(
            "You all-reduced the gradients. They are shards: each rank holds another part, already "
            "averaged, of another shape. Reduce one number instead: whether this rank found an inf "
            "or a NaN.",
            _agreeing("adds shards"),
        ),
        "nan-missed": Misconception(
            "You look for inf only. An overflow often arrives as NaN: ask torch.isfinite.",
            _agreeing("inf only"),
        ),
        "finite-refused": Misconception(
            "Gradients that are finite are refused where they are large. What you compute of "
            "them, a norm or a cast, overflows before they do. Ask each element: torch.isfinite.",
            _agreeing("squares"),
        ),
        "not-unscaled": Misconception(
            "The ranks agree, and the gradients are still multiplied by the scale. Divide them by "
            "it, in place.",
            _agreeing("not unscaled"),
        ),
        "inverted": Misconception(
            "You return whether an inf was found. What was asked for is whether the step may be "
            "made.",
            _agreeing("inverted"),
        ),
    },
    hints=(
        "Each rank can say whether its own gradients are finite, as one number in a tensor. Which "
        "reduction over the ranks gives the answer for all?",
        "Every rank has to call all_reduce the same number of times, also one that has nothing.",
    ),
    lesson_learned="Sharded gradients differ, so the decision must be reduced and not the "
    "gradients. That one number is what DTensor and ShardedGradScaler add to GradScaler.",
    asked_for="a bool",
)

# ---- a process group without processes ---------------------------------------------------------


@contextmanager
def _fake_group(size: int) -> Iterator[None]:
    """Be rank 0 of a group whose other ranks do not exist, and whose collectives do nothing."""
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


# ---- shard_model --------------------------------------------------------------------------------

_NORMS = (nn.LayerNorm, nn.RMSNorm)


class _Block(nn.Module):
    """A residual block with a norm inside."""

    def __init__(self, width: int, norm: type[nn.Module]) -> None:
        super().__init__()
        self.norm, self.up, self.down = norm(width), nn.Linear(width, 8), nn.Linear(8, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


def _stack(kind: str) -> nn.Module:
    if kind == "layer norm":
        return nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.ReLU(), nn.Linear(6, 2))
    blocks = [_Block(4, nn.RMSNorm), _Block(4, nn.LayerNorm)]
    return nn.Sequential(nn.Linear(4, 4), *blocks, nn.RMSNorm(4), nn.Linear(4, 2))


class _Reductions(TorchDispatchMode):
    """The dtypes of the gradients that are sent to the other ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "reduce_scatter" in str(func) or "allreduce" in str(func):
            tensors = [t for a in args for t in (a if isinstance(a, list | tuple) else [a])]
            self.dtypes |= {_name(t.dtype) for t in tensors if isinstance(t, Tensor)}
        return func(*args, **(kwargs or {}))


def _sharding_seen(answer: Answer, kind: str, seed: int) -> dict[str, Any]:
    model = _seeded(seed, lambda: _stack(kind))
    seen: dict[str, set[str]] = {}
    with _fake_group(4):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("other", "shards"))["shards"]
        answer(model, mesh)
        parameters = list(model.parameters())
        hooks = [
            module.register_forward_pre_hook(partial(_look, seen))
            for module in model.modules()
            if isinstance(module, (nn.Linear, *_NORMS))
        ]
        with _Reductions() as reductions:
            outcome = _forward_and_backward(model)
        for hook in hooks:
            hook.remove()
    whole = all(hasattr(p, "to_local") for p in parameters)
    ranks = {p.device_mesh.size() for p in parameters if hasattr(p, "to_local")}
    return {
        "parameters between steps": sorted({_name(p.dtype) for p in parameters}),
        "every parameter is sharded": whole,
        "ranks of the mesh that is used": sorted(ranks),
        "forward and output": outcome,
        **{what: sorted(found) for what, found in sorted(seen.items())},
        "gradients are added up in": sorted(reductions.dtypes),
    }


def _look(seen: dict[str, set[str]], module: nn.Module, inputs: Any) -> None:
    """Note the dtypes, after FSDP2 has fetched the weight and cast the input."""
    what = "norms" if isinstance(module, _NORMS) else "linear layers"
    seen.setdefault(f"{what}, weight", set()).add(_name(module.weight.dtype))
    seen.setdefault(f"{what}, input", set()).add(_name(inputs[0].dtype))


def _forward_and_backward(model: nn.Module) -> str:
    """The output's dtype, or the first words of torch's complaint."""
    try:
        output = model(torch.ones(3, 4))
        output.sum().backward()
    except RuntimeError as error:
        return f"RuntimeError: {str(error)[:60]}"
    return _name(output.dtype)


def _shard_model(
    model: nn.Module,
    mesh: DeviceMesh,
    *,
    reduce: torch.dtype | None = torch.float32,
    norms_reduce: torch.dtype | None = None,
    output: torch.dtype | None = torch.float32,
    norms: str = "float32",
    cast: bool = False,
    policy: bool = True,
    root: bool = True,
    root_first: bool = False,
) -> None:
    """As it should be, or with something left out."""
    if root_first:
        fully_shard(model, mesh=mesh)
    if cast:
        model.to(BFLOAT)
    param = BFLOAT if policy else None
    back = None if norms == "left in float32" else BFLOAT
    for module in model.modules():
        if isinstance(module, _NORMS) and norms != "not told apart":
            own = MixedPrecisionPolicy(torch.float32, norms_reduce, output_dtype=back)
            fully_shard(module, mesh=mesh, mp_policy=own)
    if root:
        own = MixedPrecisionPolicy(param_dtype=param, reduce_dtype=reduce, output_dtype=output)
        fully_shard(model, mesh=mesh, mp_policy=own)


def _sharded(**left_out: Any) -> Answer:
    return _Own(_shard_model, **left_out)


shard_model = function_exercise(
    "shard_model",
    cases=lambda: [
        Case(("layer norm", 1), "a LayerNorm between two layers"),
        Case(("blocks", 2), "residual blocks with LayerNorm and RMSNorm"),
    ],
    reference=_Own(_shard_model),
    play=_played(_sharding_seen),
    misconceptions={
        "reduced-in-bf16": Misconception(
            "Gradients are added up in BF16, where 256 + 1 is 256. Say "
            "reduce_dtype=torch.float32: without a reduce_dtype FSDP2 reduces in param_dtype.",
            _sharded(reduce=None),
            _sharded(reduce=None, norms="not told apart"),
            _sharded(reduce=None, output=None),
            _sharded(reduce=None, output=None, norms="not told apart"),
            _sharded(reduce=BFLOAT, norms_reduce=BFLOAT),
        ),
        "norms-in-bf16": Misconception(
            "The norms run in BF16, weights and all: a policy is for modules, and one policy at "
            "the root is for all of them. Give each norm a fully_shard of its own, before the "
            "root's, with param_dtype=torch.float32.",
            _sharded(norms="not told apart"),
        ),
        "output-in-bf16": Misconception(
            "The model's output, and so the loss, is BF16. Say output_dtype=torch.float32 at the "
            "root.",
            _sharded(output=None),
            _sharded(output=None, norms="not told apart"),
        ),
        "norm-output-not-cast-back": Misconception(
            "Your norms run in FP32 and hand FP32 on, to a layer whose weights are BF16, or to a "
            "residual that pulls everything after it up. Cast back at the norm's end: "
            "output_dtype=torch.bfloat16 in its policy.",
            _sharded(norms="left in float32"),
        ),
        "model-cast": Misconception(
            "The shards themselves are BF16: the optimizer now updates 8 significant bits, and "
            "small updates are lost. Leave the model in FP32; FSDP2 casts what it fetches.",
            _sharded(cast=True),
            _sharded(cast=True, norms="not told apart"),
            _sharded(cast=True, norms="not told apart", policy=False, reduce=None, output=None),
        ),
        "no-policy": Misconception(
            "Everything runs in FP32: fully_shard without a MixedPrecisionPolicy shards, and "
            "casts nothing.",
            _sharded(policy=False, norms="not told apart", reduce=None, output=None),
        ),
        "root-first": Misconception(
            "The call on the model takes all the parameters that no other call has taken yet, and "
            "for a module that comes after it nothing is left. Inner modules first, then the "
            "model.",
            _sharded(root_first=True),
        ),
        "root-not-sharded": Misconception(
            "Only some of the modules are sharded; the others' parameters are plain tensors that "
            "nobody averages. Call fully_shard on the model itself, last.",
            _sharded(root=False),
        ),
    },
    hints=(
        "fully_shard(module, mesh=mesh, mp_policy=MixedPrecisionPolicy(...)) on the inner modules "
        "first, on the model last: a parameter belongs to the first call that reaches it.",
        "Three dtypes in a policy: what the module computes in, what gradients are added up in, "
        "what it hands on.",
        "A norm needs param_dtype float32, and hands on what the next layer takes.",
    ),
    lesson_learned="FSDP2 casts modules and not operations: what autocast's lists protect, you "
    "protect by a policy.",
    asked_for="nothing: the model is sharded in place",
)

# ---- few_exchanges ------------------------------------------------------------------------------

_OTHERS = 3.0  # what the all-reduce makes of a gradient, so that one left out can be seen


def _exchanges_seen(answer: Answer, sizes: str, seed: int) -> dict[str, Any]:
    """Let the answer take several steps with a DDP model, and count its all-reduces."""
    with _fake_group(2):
        network = _seeded(seed, lambda: nn.Sequential(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 2)))
        model = DistributedDataParallel(network)
        count = [0]

        def exchange(state, bucket):  # DDP refuses annotations that are text
            count[0] += 1
            result: torch.futures.Future[Tensor] = torch.futures.Future()
            result.set_result(bucket.buffer() * _OTHERS)
            return result

        model.register_comm_hook(None, exchange)
        passes: list[str] = []
        dtypes: set[str] = set()
        network.register_forward_hook(partial(_note_passes, passes, dtypes))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=2)
        exchanges, scales, path = [], [], []
        by_hand: set[str] = set()
        for batches in _groups(sizes, seed):
            before = count[0]
            with _Reductions() as own:
                answer(model, optimizer, scaler, nn.functional.mse_loss, batches)
            by_hand |= own.dtypes
            exchanges.append(count[0] - before)
            scales.append(scaler.get_scale())
            path.append(sum(p.double().sum().item() for p in network.parameters()))
    return {
        "forward and backward passes": " ".join(passes),
        "dtypes of the outputs": sorted(dtypes),
        "exchanges in each step": exchanges,
        "all-reduces that are not DDP's": sorted(by_hand),
        "scale after each step": scales,
        "sum of the parameters after each step": path,
        "parameters at the end": _numbers(list(network.parameters())),
    }


def _note_passes(
    passes: list[str], dtypes: set[str], network: nn.Module, inputs: Any, output: Tensor
) -> None:
    """A forward hook: note it with its batch size and dtype, and later its backward pass."""
    passes.append(f"F{len(inputs[0])}")
    dtypes.add(_name(output.dtype))
    if output.requires_grad:
        output.register_hook(lambda gradient: passes.append("B"))


def _groups(sizes: str, seed: int) -> list[list[tuple[Tensor, Tensor]]]:
    """A step a digit: so many micro-batches, not all of the same size; with an "o" before it the
    first of them overflows.
    """
    draw = torch.Generator().manual_seed(seed)
    groups, overflow = [], False
    for letter in sizes:
        if letter == "o":
            overflow = True
            continue
        group = [
            (torch.randn(rows, 5, generator=draw), torch.randn(rows, 2, generator=draw))
            for rows in itertools.islice((3, 8, 5, 2), int(letter))
        ]
        if overflow:
            group[0][1][0, 0] = 1e6
        groups.append(group)
        overflow = False
    return groups


def _few_exchanges(
    model: Any,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    loss_fn: Answer,
    batches: Sequence[tuple[Tensor, Tensor]],
    *,
    how: str = "",
) -> None:
    """As it should be, or with the mistake that ``how`` names."""
    if how != "not cleared":
        optimizer.zero_grad()
    for number, (x, y) in enumerate(batches, 1):
        last = number == len(batches)
        if how == "cleared in between":
            optimizer.zero_grad()
        quiet = {"each": False, "never": True, "first": number > 1}.get(how, not last)
        with model.no_sync() if quiet else nullcontext():
            with torch.autocast("cpu", dtype=HALF):
                loss = loss_fn(model(x), y)
            if how == "by rows":
                loss = loss * (len(y) / sum(len(labels) for _, labels in batches))
            elif how != "not divided":
                loss = loss / len(batches)
            scaler.scale(loss).backward()
        if how == "steps" and not last:
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    scaler.step(optimizer)
    scaler.update()


def _all_at_once(
    model: Any,
    optimizer: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    loss_fn: Answer,
    batches: Sequence[tuple[Tensor, Tensor]],
    *,
    joined: bool,
) -> None:
    """One backward pass for all: of the mean of the losses, or of one joined batch."""
    optimizer.zero_grad()
    if joined:
        batches = [(torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches]))]
    with torch.autocast("cpu", dtype=HALF):
        losses = [loss_fn(model(x), y) for x, y in batches]
    scaler.scale(torch.stack(losses).mean()).backward()
    scaler.step(optimizer)
    scaler.update()


def _exchanging(how: str) -> Answer:
    return _Own(_few_exchanges, how=how)


few_exchanges = function_exercise(
    "few_exchanges",
    cases=lambda: [
        Case(("3", 1), "one step of three micro-batches"),
        Case(("214", 2), "steps of 2, 1 and 4"),
        Case(("2o33", 3), "the first micro-batch of the second step overflows"),
    ],
    reference=_Own(_few_exchanges),
    play=_played(_exchanges_seen),
    same=within(2e-3),
    misconceptions={
        "exchanged-each-time": Misconception(
            "DDP exchanges gradients in every micro-batch. All but the last go under "
            "model.no_sync(), and the forward pass too: DDP decides there whether the backward "
            "will exchange.",
            _exchanging("each"),
        ),
        "never-exchanged": Misconception(
            "DDP never exchanges a gradient, and each rank trains a model of its own: the last "
            "micro-batch must not stand under no_sync(), nor go around DDP by model.module.",
            _exchanging("never"),
        ),
        "exchanged-too-early": Misconception(
            "The first micro-batch is exchanged and the others are not: what they add stays on "
            "this rank. The *last* backward exchanges the sum of all.",
            _exchanging("first"),
        ),
        "all-at-once": Misconception(
            "There is one exchange because there is one backward pass, and all the activations "
            "wait for it: the memory of the whole batch, which micro-batches are to avoid. Run "
            "each micro-batch's backward pass before the next one's forward.",
            _Own(_all_at_once, joined=False),
            _Own(_all_at_once, joined=True),
        ),
        "loss-not-divided": Misconception(
            "The gradients of the micro-batches add up, so the step is too large by their number. "
            "Divide each loss by it.",
            _exchanging("not divided"),
        ),
        "weighed-by-rows": Misconception(
            "You weigh each loss by the rows of its micro-batch, which gives the mean over all "
            "rows. That is often what one wants; what was asked for is the mean of the losses, "
            "in which each counts as much as another.",
            _exchanging("by rows"),
        ),
        "gradients-not-cleared": Misconception(
            "The gradients of the step before are still there when the next one begins. After a "
            "skipped step they are inf, and every step from then on is skipped. Clear them first.",
            _exchanging("not cleared"),
        ),
        "cleared-in-between": Misconception(
            "The gradients are cleared for each micro-batch, so only the last one counts. Clear "
            "them once, before the first.",
            _exchanging("cleared in between"),
        ),
        "stepped-each-time": Misconception(
            "The optimizer steps after each micro-batch. One step, and one update of the scaler, "
            "belong to all of them.",
            _exchanging("steps"),
        ),
    },
    hints=(
        "with model.no_sync(): goes around forward and backward of every micro-batch but the last.",
        "The scaler's part is lesson 07's: scale each loss, step and update once.",
        "contextlib.nullcontext() is a context that does nothing, for the last one.",
    ),
    lesson_learned="One exchange a step, with the same scale for all that is added up.",
    asked_for="nothing: the model is trained in place",
)

# ---- to_float8 ----------------------------------------------------------------------------------

E4M3 = torch.float8_e4m3fn
_LARGEST = torch.finfo(E4M3).max


def _tensors() -> dict[str, Tensor]:
    def draw(seed: int, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))

    skewed = draw(3, 6, 5)
    skewed[2, 1] = -11.0
    return {
        "weights of size 0.001": 1e-3 * draw(1, 7, 9),
        "values of size 3000": 3e3 * draw(2, 40),
        "the largest is negative": skewed,
        "size 1e-9": 1e-9 * draw(4, 3, 4, 2),
        "size 1e9": 1e9 * draw(7, 5, 4),
        "all zero": torch.zeros(4, 3),
        "FP16, size 0.0001": (1e-4 * draw(5, 8, 3)).half(),
        "BF16, size 20": (20 * draw(6, 16)).bfloat16(),
    }


def _play_float8(answer: Answer) -> Answer:
    def play(name: str) -> dict[str, Any]:
        x = _tensors()[name]
        given = x.clone()
        result = answer(given)
        if not isinstance(result, tuple | list) or len(result) != 2:
            return {"a pair (q, scale)": False}
        q, scale = result
        if not _is_tensor(q) or q.shape != x.shape:
            return {"a pair (q, scale)": True, "q": "not a tensor of the shape of x"}
        factor = _as_float(scale)
        return {
            "a pair (q, scale)": True,
            "an input that is as it was": torch.equal(given, x),
            "q": _name(q.dtype),
            **_quality(x, q, factor),
        }

    return play


def _as_float(scale: Any) -> float:
    if _is_tensor(scale) and scale.numel() == 1:
        return scale.item()
    plain_number = type(scale) in (int, float, np.float16, np.float32, np.float64)
    return float(scale) if plain_number else math.nan


def _quality(x: Tensor, q: Tensor, scale: float) -> dict[str, Any]:
    """Whether q is finite, uses the range of E4M3, and gives x back to half an ulp."""
    exact, stored = x.double(), q.double()
    back, other_way = (stored / scale if scale else stored * math.nan), stored * scale
    # Half an ulp of a normal number is 2**-4 of it, of a subnormal one 2**-10; the scale may be a
    # power of two, and so up to twice too small.
    allowed = exact.abs() * 2.0**-4 + exact.abs().max() * 2.0**-9 * 2.0**-8
    same, reversed_ = (bool(((y - exact).abs() <= allowed).all()) for y in (back, other_way))
    largest = stored.abs().max().item()
    zero = not exact.any()
    reach = scale * exact.abs().max().item()
    return {
        "a scale that is one finite, positive number": math.isfinite(scale) and scale > 0,
        "all of q is finite": bool(stored.isfinite().all()),
        "is q / scale x, up to rounding": "yes" if same else f"no{', q * scale is' * reversed_}",
        "scale * amax": "224 to 448" if zero or 223.9 < reach < 448.1 else f"{reach:.4g}",
        "the largest |q| is between 224 and 448": zero or 224 <= largest <= _LARGEST,
    }


def _float8(x: Tensor, *, how: str = "", guarded: bool = True) -> tuple[Tensor, Any]:
    """As it should be, or with the mistake that ``how`` names, and with zeros minded or not."""
    if how == "no scale":
        return x.to(E4M3), 1.0
    wide = x if how == "in its dtype" else x.float()
    amax = wide.max() if how == "no abs" else wide.abs().max()
    if guarded:
        amax = torch.where(amax == 0, torch.ones_like(amax), amax)
    scale = (57344.0 if how == "range of E5M2" else _LARGEST) / amax
    wide = wide.mul_(scale) if how == "in place" else wide * scale
    q = wide.clamp(-_LARGEST, _LARGEST).to(E4M3)
    if how == "not cast":
        return q.float(), scale
    return q, 1 / scale if how == "reciprocal" else scale


def _casting(how: str) -> tuple[Answer, Answer]:
    """The mistake in code that minds a tensor of zeros, and in code that does not."""
    return tuple(partial(_float8, how=how, guarded=guarded) for guarded in (True, False))


to_float8 = function_exercise(
    "to_float8",
    cases=lambda: [Case((name,), name) for name in _tensors()],
    reference=_float8,
    play=_play_float8,
    misconceptions={
        "no-scale": Misconception(
            "You cast without a scale: what is below 0.001 becomes zero, what is above 448 is cut "
            "off. Multiply first, by 448 over the largest magnitude.",
            *_casting("no scale"),
        ),
        "reciprocal": Misconception(
            "q is right, and the scale that you return is its reciprocal: q / scale should be x. "
            "(Some kernels want that one; whoever hands over a scale says which.)",
            *_casting("reciprocal"),
        ),
        "sign-forgotten": Misconception(
            "You took the largest value and not the largest *magnitude*: a large negative number "
            "is cut off at -448.",
            *_casting("no abs"),
        ),
        "range-of-e5m2": Misconception(
            "You scaled to 57344, which is where E5M2 ends. E4M3 ends at 448, and everything above "
            "is cut off.",
            *_casting("range of E5M2"),
        ),
        "zero-tensor": Misconception(
            "A tensor of zeros has amax 0, and 448 / 0 is inf; 0 * inf is NaN. Any finite scale "
            "will do for it.",
            partial(_float8, guarded=False),
        ),
        "scale-in-half": Misconception(
            "Your scale is computed in the dtype of x. In FP16 448 / 0.0003 is inf, and so is the "
            "product. Go to float32 first: x.float(). (And look at what your code does with a "
            "tensor of zeros.)",
            *_casting("in its dtype"),
        ),
        "input-changed": Misconception(
            "You multiply x itself, which the caller still needs. Of a float32 tensor x.float() "
            "is no copy but the same tensor, so *= and mul_ change it: write x.float() * scale.",
            *_casting("in place"),
        ),
        "not-float8": Misconception(
            "Your q has the right numbers in the wrong dtype: each still takes 4 bytes. Cast it: "
            ".to(torch.float8_e4m3fn).",
            *_casting("not cast"),
        ),
    },
    hints=(
        "amax is the largest magnitude and scale is 448 / amax; then multiply, and cast to "
        "torch.float8_e4m3fn.",
        "In which dtype is that division? And what if every element is zero?",
    ),
    lesson_learned="That is FP8 training's cast: amax, scale, round, and the scale kept for the "
    "product.",
    asked_for="a pair (q, scale)",
)
