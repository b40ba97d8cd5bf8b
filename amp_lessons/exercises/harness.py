"""What several harnesses need: random networks and batches, regions, notes of a call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from amp_lessons.amp.fake_tensors.cuda import ensure_cuda_guard
from amp_lessons.core.precision import dtype_name as name_of
from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.checks.messages import describe, line
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.checks.serialize import plain
from amp_lessons.exercises.checks.serialize.compare import Same, as_number, is_dict

HALF, BFLOAT, SINGLE, DOUBLE = torch.float16, torch.bfloat16, torch.float32, torch.float64
Answer = Callable[..., Any]  # what the learner wrote
Use = Callable[[Answer], Callable[..., Any]]  # how it is used


def as_play(use: Callable[..., Any]) -> Use:
    """For `Probe.play`: ``use(answer, *args)`` shows what an answer does with these arguments."""
    return lambda answer: partial(use, answer)


# ---- what was noted -----------------------------------------------------------------------------


def telling(same: Same, what: str = "returned") -> Callable[..., str]:
    """For `Judge.tell`: what was noted is no part of an answer that is of the wrong type."""

    def tell(case: Case, right: dict[str, Any], seen: dict[str, Any]) -> str:
        if is_dict(right["value"]) and not is_dict(seen["value"]):
            return f"{case.label}: {what} {describe(seen['value'])}"
        return line("", case, right, seen, same)

    return tell


def numbers(result: Any) -> list[float] | None:
    """Numbers in a list, a tuple, a tensor or an array, as a list; None if there are others."""
    seen = plain(result)
    values = seen.get("values") if isinstance(seen, dict) else seen
    found = [as_number(x) for x in values] if isinstance(values, list) else [None]
    return None if None in found else [x for x in found if x is not None]


def flat(tensors: Iterable[Tensor]) -> list[float]:
    """All elements in one list of floats, which holds each of them exactly."""
    return [x for t in tensors for x in t.detach().double().flatten().tolist()]


def is_tensor(given: Any) -> bool:
    """Whether it is torch's own tensor. A subclass may say anything about itself."""
    return type(given) in (Tensor, nn.Parameter)


def dtype_or_type(given: Any) -> str:
    """A tensor's dtype without "torch.", or the name of another type."""
    return name_of(given.dtype) if is_tensor(given) else type(given).__name__


def elements(tensors: Iterable[Any]) -> list[float] | str:
    """All elements in one list of floats, or what else there is: "None", "a str"."""
    found: list[float] = []
    for tensor in tensors:
        if not is_tensor(tensor):
            return "None" if tensor is None else f"a {type(tensor).__name__}"
        found += tensor.detach().double().flatten().tolist()
    return found


def in_words(words: Iterable[str]) -> str:
    return ", ".join(sorted({*words}))


def in_plain(text: str) -> str:
    """In lower case, with single spaces."""
    return " ".join(text.lower().split())


def answers_to(answers: Any) -> Callable[[str], Any]:
    """What a dict of a learner's says to one letter; "?" and None stand for: not attempted."""

    def answer(letter: str) -> Any:
        if not isinstance(answers, dict):
            return answers
        word = {str(key).strip().lower(): word for key, word in dict.items(answers)}.get(letter)
        word = in_plain(str.__str__(word)) if isinstance(word, str) else word
        return ... if word in (None, "?", "") else {letter: word}

    return answer


# ---- autocast -----------------------------------------------------------------------------------


def autocast_state(device: str = "cpu") -> tuple[bool, torch.dtype, bool]:
    """Whether autocast is on, its dtype, and whether it caches casts."""
    on, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    return on, dtype, torch.is_autocast_cache_enabled()


@contextmanager
def region(dtype: torch.dtype | None, device: str = "cpu") -> Iterator[None]:
    """An autocast region, or none; the state is put back whatever a learner leaves behind.

    One for "cuda" is of fake tensors, which needs no GPU. ``torch.autocast("cuda")`` disables
    itself where there is no CUDA, so the state is set by hand.
    """
    fake = device == "cuda" and ensure_cuda_guard()
    on, narrow, cached = autocast_state(device)
    try:
        with FakeTensorMode() if fake else torch.autocast("cpu", dtype) if dtype else nullcontext():
            if fake:
                torch.set_autocast_enabled(device, dtype is not None)
                torch.set_autocast_dtype(device, dtype or narrow)
            yield
    finally:
        torch.set_autocast_enabled(device, on)
        torch.set_autocast_dtype(device, narrow)
        torch.set_autocast_cache_enabled(cached)
        torch.clear_autocast_cache()


class Operations(TorchDispatchMode):
    """Notes the operations that run below autocast, each with the dtype of its result."""

    products = ("mm", "addmm", "bmm", "baddbmm", "matmul", "mv", "addmv", "linear", "dot")

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, str]] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            name = func.overloadpacket._qualified_op_name.removeprefix("aten::")
            self.seen.append((name, name_of(result.dtype)))
        return result

    def of_products(self) -> list[str]:
        """The dtypes of the matrix products, in order."""
        return [dtype for name, dtype in self.seen if name in self.products]


# ---- networks and batches -----------------------------------------------------------------------

TOO_LARGE = 3e5  # an input beyond FP16: the forward pass overflows, and the step must be skipped
LARGE = 3e4  # an input with which the forward pass is fine, and the scaled gradients overflow
SMALL = 2.0**-24  # a weight of the loss with which FP16 gradients are zero unless they are scaled
INPUTS, CLASSES = 6, 3

Batch = tuple[Tensor, Tensor]


def from_seed(seed: int) -> torch.Generator:
    """Draws the same for everybody, and something else under each salt (`draws.use_salt`)."""
    return torch.Generator().manual_seed(draws.seed(seed))


def seeded(seed: int, make: Callable[[], Any], *, near: bool = False) -> Any:
    """A module whose weights depend on the seed alone, and on the salt.

    ``near``: under a salt, the notebook's weights as `moved` changes them.
    """
    with torch.random.fork_rng(devices=[]):
        start = seed if near else draws.seed(seed)
        torch.default_generator.manual_seed(start)  # much cheaper than torch.manual_seed
        made = make()
    if near:
        moved(made.parameters(), seed)
    return made


def moved(tensors: Iterable[Tensor], seed: int) -> None:
    """Under a salt, change each number by up to 6% of itself, in place. So a batch whose gradients
    overflow still does, and nobody knows the results."""
    if draws.salted():
        random = from_seed(seed)
        with torch.no_grad():
            for tensor in tensors:
                tensor.mul_(torch.empty(tensor.shape).uniform_(0.94, 1.06, generator=random))


def network(seed: int, width: int = 8, *, noisy: bool = False) -> nn.Sequential:
    """Two layers, float32; ``noisy`` adds batch norm and dropout."""

    def make() -> nn.Sequential:
        between = [nn.BatchNorm1d(width), nn.Dropout(0.4)] if noisy else []
        first, last = nn.Linear(INPUTS, width), nn.Linear(width, CLASSES)
        return nn.Sequential(first, *between, nn.ReLU(), last)

    return seeded(seed, make, near=True)


@dataclass(frozen=True)
class Setting:
    """One run of a training program.

    Args:
        seed: of the model and of the batches.
        sizes: the rows of each batch.
        spoiled: by the number of a batch, a value for one of its inputs, such as NaN.
        init_scale: of the scaler.
        weight: the loss is multiplied by it, and the learning rate divided by it.
        rate: the learning rate.
        width: of the hidden layer.
        more: what the program is handed besides, such as a weight decay.
    """

    seed: int
    sizes: tuple[int, ...]
    spoiled: dict[int, float] = field(default_factory=dict)
    init_scale: float = 2.0**10
    weight: float = 1.0
    rate: float = 0.5
    width: int = 8
    more: tuple[Any, ...] = ()

    def __deepcopy__(self, _: dict[int, Any]) -> Setting:
        return self  # frozen: each call of a case gets the same one

    def batches(self) -> list[Batch]:
        """Batches of random inputs with labels that can be learned."""
        random = torch.Generator().manual_seed(self.seed)
        rule = torch.randn(INPUTS, CLASSES, generator=random)
        made = []
        for number, size in enumerate(self.sizes):
            x = torch.randn(size, INPUTS, generator=random)
            y = (x @ rule).argmax(1)
            if number in self.spoiled:
                x[0, 0] = self.spoiled[number]
            made.append((x, y))
        moved((x for x, _ in made), self.seed)
        return made

    def optimizer(self, model: nn.Module) -> torch.optim.SGD:
        return torch.optim.SGD(model.parameters(), lr=self.rate / self.weight)

    def scaler(self) -> torch.amp.GradScaler:
        """With a short growth interval, so that the scale moves in a few batches."""
        return torch.amp.GradScaler("cpu", init_scale=self.init_scale, growth_interval=3)


def case(
    label: str,
    seed: int,
    count: int,
    spoiled: dict[int, float] | None = None,
    *,
    rows: int = 10,
    kind: str = "",
    **settings: Any,
) -> Case:
    """A case with one `Setting`: so many batches with so many rows each."""
    return Case((Setting(seed, (rows,) * count, spoiled or {}, **settings),), label, kind)
