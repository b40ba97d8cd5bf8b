"""What lessons need to look behind the scenes, so that their cells show the idea and not the trick.

Some change torch, for as long as a ``with`` block runs, and put it back. The others run something
and say what came of it.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode


@contextmanager
def item_calls() -> Iterator[list[str]]:
    """Count how often `Tensor.item()` is called from Python: one entry each time.

    On a GPU each such call waits until all work that was queued before it is done.
    """
    seen: list[str] = []
    item = torch.Tensor.item

    def counted(tensor: torch.Tensor) -> float:
        seen.append(str(tensor.dtype))
        return item(tensor)

    with mock.patch.object(torch.Tensor, "item", counted):
        yield seen


@contextmanager
def without_cuda() -> Iterator[None]:
    """Make torch believe that this machine has no CUDA, whatever it has."""
    with mock.patch("torch.cuda.is_available", return_value=False):
        yield


def warned(call: Callable[[], object]) -> str:
    """The first sentence of the first warning that a call gives, or ``"no warning"``."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return str(caught[0].message).partition(". ")[0] if caught else "no warning"


def raised(call: Callable[[], object]) -> str:
    """The type and the first sentence of the exception that a call raises, or ``"no error"``."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {str(error).partition('. ')[0]}"
    return "no error"


def scaler_error(*calls: str, scaled: bool = True, trained: bool = True) -> str:
    """What a new GradScaler raises when these methods are called after one backward pass.

    Args:
        calls: such as ``"unscale_", "step", "update"``.
        scaled: whether the loss was scaled before the backward pass.
        trained: whether the optimizer holds the parameter that got a gradient.

    Returns:
        What `raised` gives.
    """
    weight, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight if trained else other])
    scaler, loss = torch.amp.GradScaler("cpu"), weight.sum()
    (scaler.scale(loss) if scaled else loss).backward()

    def make_the_calls() -> None:
        for call in calls:
            arguments = [] if call == "update" else [optimizer]
            getattr(scaler, call)(*arguments)

    return raised(make_the_calls)


Run = dict[str, Any]
"""The parts of a training run by name, each with a state_dict(); ``"scaler"`` is a ScalerLog."""


def resumed(
    start: Callable[[int], Run],
    go_on: Callable[[Run, int], list[float]],
    before: int,
    after: int,
    *,
    without: str,
) -> tuple[list[float], list[Any]]:
    """Interrupt a run, and resume it without one of its parts.

    Args:
        start: makes the parts of a new run from a seed.
        go_on: trains them for some epochs and returns an error for each step.
        before: epochs until the interruption.
        after: epochs after it.
        without: the part whose state isn't loaded, or ``"random numbers"``, or anything else.

    Returns:
        The errors of all steps, and the `ScalerRecord` of each, from both scalers.
    """
    first = start(0)
    errors = go_on(first, before)
    saved = {name: copy.deepcopy(part.state_dict()) for name, part in first.items()}
    numbers = torch.get_rng_state(), torch.cuda.get_rng_state_all()
    second = start(1)
    for name, part in second.items():
        if name != without:
            part.load_state_dict(saved[name])
    if without != "random numbers":
        torch.set_rng_state(numbers[0])
        torch.cuda.set_rng_state_all(numbers[1])
    errors += go_on(second, after)
    records = [*first["scaler"].records, *second["scaler"].records]
    return errors, [replace(record, step=step) for step, record in enumerate(records)]


def rounded_at_random(values: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Round float32 numbers to bfloat16 at random: stochastic rounding.

    Each number goes to one of its two neighbours in bfloat16, and the closer one is more likely. So
    on average nothing is lost. A bfloat16 number stays as it is.

    Args:
        values: float32, finite, on a CPU.
        generator: gives the random numbers.
    """
    noise = torch.randint(0, 1 << 16, values.shape, generator=generator, dtype=torch.int32)
    bits = (values.contiguous().view(torch.int32) + noise) & ~0xFFFF
    return bits.view(torch.float32).bfloat16()


def raised_by(line: str, names: dict[str, Any]) -> str:
    """What a line of code raises, as `raised` puts it.

    Args:
        line: a statement, such as ``"memory[rows] = features"``.
        names: what it may use; a cell gives its own ``globals()``.
    """
    return raised(lambda: exec(line, names))


def saved_for_backward(forward: Callable[[], object]) -> list[torch.Tensor]:
    """The tensors that autograd keeps during a forward pass, until the backward pass needs them.

    Each comes once, in the order in which ops saved it, also where several ops keep the same one.
    Parameters and inputs are among them.
    """
    saved: dict[tuple[int, torch.dtype, torch.Size], torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        same = (tensor.data_ptr(), tensor.dtype, tensor.shape)
        saved.setdefault(same, tensor)  # it stays alive, so no other tensor gets its address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        graph = forward()
    del graph
    return list(saved.values())


class _Casts(TorchDispatchMode):
    """Notes the shape of each float32 tensor that is cast to 16 bits."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        # A cast is called aten.to in inference mode, and aten._to_copy everywhere else.
        if func.overloadpacket in (torch.ops.aten._to_copy, torch.ops.aten.to):
            low = result.dtype in (torch.float16, torch.bfloat16)
            if args[0].dtype == torch.float32 and low:
                self.shapes.append(" x ".join(str(size) for size in args[0].shape))
        return result


@contextmanager
def casts() -> Iterator[list[str]]:
    """List the casts from float32 to float16 or bfloat16 that run in a block.

    Those that autocast makes are among them. Each cast is one entry: the shape of the tensor, such
    as ``"64 x 16"``. It watches the ops below autocast, where the casts have become ops themselves.
    """
    with _Casts() as watch:
        yield watch.shapes


def autocast_state(device: str = "cpu") -> str:
    """Autocast in the calling thread: ``"off"``, or the dtype that it casts to."""
    if not torch.is_autocast_enabled(device):
        return "off"
    return str(torch.get_autocast_dtype(device))


@contextmanager
def autocast_put_back(device: str = "cpu") -> Iterator[None]:
    """Whatever a block does to the calling thread's autocast, it is as before afterwards."""
    before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    try:
        yield
    finally:
        torch.set_autocast_enabled(device, before[0])
        torch.set_autocast_dtype(device, before[1])
        torch.clear_autocast_cache()


@dataclass(frozen=True)
class OnePass:
    """What a forward and a backward pass came to.

    Attributes:
        kept: bytes that autograd kept from the forward pass for the backward pass.
        dtypes: of what the first layer put out, once for each time that it ran.
        gradients: of all parameters, in one flat tensor.
    """

    kept: int
    dtypes: tuple[str, ...]
    gradients: torch.Tensor


def fp16_pass(
    model: torch.nn.Sequential,
    inputs: torch.Tensor,
    forward: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> OnePass:
    """One forward pass under float16 autocast, and a backward pass outside of it.

    Args:
        model: whose first layer is watched and whose gradients are returned.
        inputs: also what the model should put out.
        forward: what to run in place of the model, such as a checkpoint around it.
    """
    dtypes: list[str] = []
    outputs: list[torch.Tensor] = []
    inputs = inputs.detach().clone().requires_grad_()
    model.zero_grad()

    def note(layer: torch.nn.Module, given: object, output: torch.Tensor) -> None:
        dtypes.append(str(output.dtype).removeprefix("torch."))

    def under_autocast() -> torch.Tensor:
        with torch.autocast(inputs.device.type, dtype=torch.float16):
            outputs.append((forward or model)(inputs))
        return outputs[0]

    hook = model[0].register_forward_hook(note)
    kept = sum(tensor.nbytes for tensor in saved_for_backward(under_autocast))
    torch.nn.functional.mse_loss(outputs[0].float(), inputs.detach()).backward()
    hook.remove()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    return OnePass(kept, tuple(dtypes), torch.cat(gradients))


@contextmanager
def one_of_ranks(ranks: int) -> Iterator[None]:
    """Be rank 0 of a process group whose other ranks do not exist.

    Its collectives do nothing and wait for nobody. It is enough to see in which dtype something
    is sent, or what PyTorch refuses.
    """
    dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=ranks)
    try:
        yield
    finally:
        dist.destroy_process_group()


def kept_by_cross_entropy(device: str, *, convert: bool, tokens: int, words: int) -> int:
    """How many bytes autograd keeps for a cross entropy over a vocabulary, under BF16 autocast.

    The logits come from a linear layer, which is narrow, so what it keeps hardly counts. Nothing of
    this size is allocated: `explain_autocast` asks with fake tensors.

    Args:
        device: whose rules to ask for, ``"cpu"`` or ``"cuda"``.
        convert: whether the loss gets ``logits.float()`` or the BF16 logits.
        tokens: rows of the logits.
        words: columns, the size of the vocabulary.
    """
    from amp_lessons.trace import explain_autocast

    with torch.device("meta"):
        model = _VocabularyLoss(words, convert)
        hidden, labels = torch.empty(tokens, 64), torch.empty(tokens, dtype=torch.long)
    report = explain_autocast(model, hidden, labels, device=device, dtype=torch.bfloat16)
    return report.totals.saved_amp


class _VocabularyLoss(torch.nn.Module):
    def __init__(self, words: int, convert: bool) -> None:
        super().__init__()
        self.head, self.convert = torch.nn.Linear(64, words, bias=False), convert

    def forward(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = self.head(hidden)
        logits = logits.float() if self.convert else logits
        return torch.nn.functional.cross_entropy(logits, labels)


def rotated(vectors: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """Vectors whose pairs of numbers are turned by angles, as rotary position embeddings do it.

    Number i and number i + n/2 of a vector are a pair. The rotation runs in float32, so an error of
    the result comes from the angles.

    Args:
        vectors: of shape (..., n).
        angles: in radians, of shape (..., n/2).
    """
    first, second = vectors.float().chunk(2, dim=-1)
    cos, sin = angles.float().cos(), angles.float().sin()
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


def both_halves(
    *,
    fwd: Callable[[Any], Any] = lambda function: function,
    bwd: Callable[[Any], Any] = lambda function: function,
    forward_in: torch.dtype | None = torch.float16,
    backward_in: torch.dtype | None = None,
) -> str:
    """What an autograd Function sees in its two halves, on a CPU: autocast's state, and a dtype.

    Args:
        fwd, bwd: decorators of the two halves, such as `torch.amp.custom_fwd` and `custom_bwd`.
        forward_in: the dtype of the region in which it is called, or None for no region.
        backward_in: the same for the backward pass.

    Returns:
        A line: the state in the forward, the dtype of the input there, the state in the backward.
    """
    seen: list[str] = []

    def state() -> str:
        on = torch.is_autocast_enabled("cpu")
        return str(torch.get_autocast_dtype("cpu")).removeprefix("torch.") if on else "off"

    class Looking(torch.autograd.Function):
        @staticmethod
        @fwd
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            seen.append(f"{state():9} input {str(x.dtype).removeprefix('torch.'):9}")
            return x * 1

        @staticmethod
        @bwd
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            seen.append(state())
            return gradient

    x = torch.ones(2, 2, dtype=torch.float16, requires_grad=True)
    with torch.autocast("cpu", dtype=forward_in, enabled=forward_in is not None):
        result = Looking.apply(x)
    with torch.autocast("cpu", dtype=backward_in, enabled=backward_in is not None):
        error = raised(lambda: result.sum().backward())
    return f"forward: {seen[0]}  backward: {seen[1] if len(seen) > 1 else error}"


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function or module, compiled with `torch.compile` and no C++ compiler.

    The backend ``"aot_eager"`` records the forward and the backward pass as every compile does, and
    runs the recording without optimizing it. What was compiled before is forgotten, so the settings
    of this moment count at the first call.
    """
    torch.compiler.reset()
    return torch.compile(function, backend="aot_eager")


@contextmanager
def kept_for_backward(*besides: torch.Tensor) -> Iterator[list[torch.Tensor]]:
    """The tensors that autograd keeps while a ``with`` block runs, each once, in order.

    Args:
        besides: tensors that are there anyway, such as the parameters and the batch. What shares
            their memory, such as a transposed view, is left out.
    """
    known = {tensor.untyped_storage().data_ptr() for tensor in besides}
    kept: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in known:
            known.add(place)
            kept.append(tensor.detach())  # it stays alive, so no other tensor gets its address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield kept


def deep_painter(layers: int = 16) -> torch.nn.Sequential:
    """A painter of digits with more layers: pictures of 64 pixels through layers of width 64.

    Args:
        layers: how many linear layers; all but the last are followed by a tanh.
    """
    nn = torch.nn
    blocks = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(layers - 1)]
    return nn.Sequential(*blocks, nn.Linear(64, 64))
