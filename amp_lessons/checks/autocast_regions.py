"""Lesson 05's exercises: where a region begins and ends, what it leaves behind, and its cache.

The probes call the learner's code with modules, losses and optimizers that write down whether
autocast was on when each of them ran. So it does not matter how a region is opened: as a context,
as a decorator, or by hand.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from amp_lessons.checks.cases import Case, Misconception, as_number, function_exercise
from amp_lessons.checks.evidence import (
    UNATTEMPTED,
    DamagedEvidence,
    describe_error,
    in_words,
    plain,
)
from amp_lessons.checks.legacy import Exercise, Finding, error_verdict
from amp_lessons.checks.verdict import Verdict

# Bound once, before any learner's code runs.
_is_enabled, _get_dtype, _is_cached = (
    torch.is_autocast_enabled,
    torch.get_autocast_dtype,
    torch.is_autocast_cache_enabled,
)

# torch words it in many ways: "mat1 and mat2 must have the same dtype", "expected m1 and m2 to
# have the same dtype", "Input type … and bias type … should be the same", and so on.
_MISMATCH = re.compile(r"same dtype|should be the same|expected scalar type|does not match", re.I)


# ---- witnesses ----------------------------------------------------------------------------------


class _Log(list):
    """What the witnesses saw. A copy of a witness writes into the same log."""

    def __deepcopy__(self, memo: dict) -> _Log:
        return self

    def add(self, what: str, *tensors: Any) -> None:
        takes = [_name(t.dtype) for t in tensors if isinstance(t, Tensor)]
        region = _name(_get_dtype("cpu"))
        self.append({"what": what, "on": _is_enabled("cpu"), "region": region, "takes": takes})


class _Witness(nn.Module):
    """A module, or any callable, that logs its calls and the backward pass through its result."""

    def __init__(self, inner: Callable[..., Tensor], name: str, log: _Log) -> None:
        super().__init__()
        self.inner, self.name, self.log = inner, name, log

    def forward(self, *args: Any) -> Tensor:
        self.log.add(self.name, *args)
        result = self.inner(*args)
        if result.requires_grad:
            result.register_hook(lambda grad: self.log.add(f"{self.name} backward", grad))
        return result


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


@contextmanager
def _own_state() -> Iterator[None]:
    """Give the autocast state back as it was, whatever a learner's code leaves behind."""
    before = _is_enabled("cpu"), _get_dtype("cpu"), _is_cached()
    try:
        yield
    finally:
        torch.set_autocast_enabled("cpu", before[0])
        torch.set_autocast_dtype("cpu", before[1])
        torch.set_autocast_cache_enabled(before[2])
        torch.clear_autocast_cache()


def _attempt(call: Callable[[], Any], log: _Log) -> dict[str, Any]:
    """Run a learner's code; its result or its error as plain data, with what the log holds."""
    with _own_state():
        try:
            seen: dict[str, Any] = {"value": plain(call())}
        except NotImplementedError:
            raise
        except Exception as error:
            seen = {"error": describe_error(error)}
        seen["after"] = _is_enabled("cpu")
    return seen | {"log": list(log)}


def _states(seen: dict[str, Any], what: str) -> list[bool]:
    """Whether autocast was on, at each entry of the log with this name."""
    return [entry["on"] for entry in seen["log"] if entry["what"] == what]


def _mismatch(seen: dict[str, Any]) -> bool:
    return "error" in seen and bool(_MISMATCH.search(seen["error"].get("message", "")))


def _error(seen: dict[str, Any]) -> Verdict:
    return error_verdict(seen["error"])


def _numbers(data: Any) -> list[float]:
    """All numbers of plain data in order."""
    if isinstance(data, dict):
        data = data["values"]
    if isinstance(data, list):
        return [number for item in data for number in _numbers(item)]
    return [float(data)]


def _close(expected: Any, seen: Any, tolerance: float) -> bool:
    """The same count of numbers, each within ``tolerance`` of the largest expected one."""
    one, other = _numbers(expected), _numbers(seen)
    scale = max((abs(x) for x in one), default=0.0) + 1e-12
    return len(one) == len(other) and all(
        abs(x - y) <= tolerance * scale for x, y in zip(one, other, strict=True)
    )


def _plain_parameters(module: nn.Module) -> list[Any]:
    return [plain(p.detach()) for p in module.parameters()]


def _dtypes(parameters: list[Any]) -> set[str]:
    return {p["dtype"] for p in parameters}


# ---- a small training problem, for two exercises ------------------------------------------------


class _Training:
    """A model, a loss, an optimizer and batches, drawn from a seed, all under witness."""

    STEPS = 5

    def __init__(self, seed: int, *, old_gradients: bool = False) -> None:
        draw = random.Random(seed)
        generator = torch.Generator().manual_seed(seed)
        inputs, width, outputs = draw.randint(3, 9), draw.randint(8, 24), draw.randint(2, 5)
        self.log = _Log()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            first, last = nn.Linear(inputs, width), nn.Linear(width, outputs)
        self.model = nn.Sequential(
            _Witness(first, "model", self.log), nn.Tanh(), _Witness(last, "output", self.log)
        )
        for p in self.model.parameters() if old_gradients else ():
            p.grad = torch.ones_like(p)
        project = torch.randn(outputs, 3, generator=generator)

        def distance(prediction: Tensor, target: Tensor) -> Tensor:
            if seed % 2:  # a loss with a matrix product of its own: it needs the region
                return ((prediction @ project) - (target @ project)).float().square().mean()
            wide = prediction.float()  # one in which the order of the two matters
            return nn.functional.mse_loss(wide, target) + 0.3 * wide.abs().mean()

        self.loss_fn = _Witness(distance, "loss", self.log)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.5)
        self.optimizer.register_step_pre_hook(lambda *_: self.log.add("step"))
        self.batches = [
            (
                torch.randn(12, inputs, generator=generator),
                3 + torch.randn(12, outputs, generator=generator),
            )
            for _ in range(self.STEPS)
        ]

    def step(self, x: Tensor, y: Tensor, *, zero: str = "before", move: bool = True) -> float:
        """One step as it should be, or with a piece left out or in another place."""
        if zero == "before":
            self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = self.loss_fn(self.model(x), y)
        loss.backward()
        if move:
            self.optimizer.step()
        if zero == "after":
            self.optimizer.zero_grad()
        return loss.item()


_TRAINING_SEEDS = (2, 3, 8, 11)


def _trained(
    seed: int, *, old_gradients: bool = False, **otherwise: Any
) -> tuple[list[float], list[Any]]:
    """Losses and parameters after the steps of one problem, done by us."""
    problem = _Training(seed, old_gradients=old_gradients)
    with _own_state():
        losses = [problem.step(x, y, **otherwise) for x, y in problem.batches]
    return losses, _plain_parameters(problem.model)


def _probe_training(
    run: Callable[[_Training], Any], *, old_gradients: bool = False
) -> list[dict[str, Any]]:
    found = []
    for seed in _TRAINING_SEEDS:
        problem = _Training(seed, old_gradients=old_gradients)
        seen = _attempt(lambda problem=problem: run(problem), problem.log)
        found.append(seen | {"parameters": _plain_parameters(problem.model)})
    return found


def _boundaries(seen: dict[str, Any], lines: tuple[str, ...]) -> Finding | Verdict | None:
    """What is wrong with where the region of a training step begins and ends; None if nothing."""
    if _dtypes(seen["parameters"]) != {"float32"}:
        return Finding("parameters-cast", lines)
    if not any(_states(seen, "model")):
        return _error(seen) if "error" in seen else Finding("no-autocast", lines)
    if not all(_states(seen, "model")):
        return Finding("forward-outside-too", lines)
    if not all(_states(seen, "loss")):
        return Finding("loss-outside", lines)
    if "error" in seen:
        return _error(seen)
    if any(_states(seen, "output backward")):
        return Finding("backward-inside", lines)
    if any(_states(seen, "step")):
        return Finding("step-inside", lines)
    if any("float16" in e["takes"] for e in seen["log"] if e["what"] == "loss"):
        return Finding("other-dtype", lines)
    return None


def _where(seen: dict[str, Any]) -> tuple[str, ...]:
    """For the learner: in which of the four parts autocast was on."""
    names = {"model": "forward", "loss": "loss", "output backward": "backward", "step": "step"}
    parts = []
    for what, label in names.items():
        states = _states(seen, what)
        shown = "did not run" if not states else "on" if any(states) else "off"
        parts.append(f"{label}: {shown}")
    return (f"autocast in the first call: {', '.join(parts)}",)


_STEP_TEXTS = {
    "parameters-cast": "The parameters are not float32 any more. Autocast needs no cast model: it "
    "casts what an operation takes, and the parameters, their gradients and the updates stay in "
    "float32.",
    "no-autocast": "Autocast was off while the model ran. Open a region around the forward pass: "
    'torch.autocast("cpu", dtype=torch.bfloat16).',
    "forward-outside-too": "The model ran in the region, and outside it as well. A step has one "
    "forward pass, in the region, and its loss is the one that goes backward.",
    "loss-outside": "The model ran in the region, and the loss outside it. The prediction is a "
    "16-bit tensor, and out there nobody chooses a dtype for the loss: an operation that takes "
    "only one dtype raises, another computes in 16 bits. The loss belongs to the forward pass.",
    "backward-inside": "The backward pass ran in the region. Its operations should run in the "
    "dtypes of the forward pass, and under autocast those of a float32 part are cast to 16 bits, "
    "with no message. Close the region before backward().",
    "step-inside": "The optimizer's step ran in the region. Its arithmetic belongs in float32, and "
    "a region that is still open when the weights change keeps 16-bit copies of the old ones.",
    "other-dtype": "The region is a float16 one. bfloat16 was asked for: float16 has a smaller "
    "range, and needs a GradScaler for its gradients.",
    "nothing-learned": "The parameters are what they were before, or the gradients never reached "
    "them. A step is: zero_grad, forward, loss, backward, step, in this order.",
    "steps-miscounted": "optimizer.step() did not run once for each batch. Each batch has a step "
    "of its own, from weights that the batch before has moved.",
    "region-left-open": "Autocast is still on when your function returns, so the caller's next "
    "lines run in 16 bits as well. A `with` block ends by itself.",
    "gradients-pile-up": "The gradients of the first batch are still there when the second one "
    "comes: backward() adds. Call optimizer.zero_grad() once a step.",
}


# ---- autocast_step ------------------------------------------------------------------------------


_ONE_STEP_TEXTS = {
    slug: text for slug, text in _STEP_TEXTS.items() if slug != "gradients-pile-up"
} | {
    "gradients-of-before": "When your function is called, the gradients of a step before may still "
    "be there, and backward() adds to them. Call optimizer.zero_grad() before backward(), in each "
    "call: at the end of the last one is too late for a step that somebody else made.",
    "stale-cache": "From the second call on the model computes with the 16-bit copies that "
    "autocast made of its first weights. A region that is switched on and off by hand, or entered "
    "and never left, keeps them; a `with` block empties the cache when it ends.",
}


def _probe_step(step: Callable[..., Any]) -> Any:
    return _probe_training(
        lambda p: [step(p.model, p.loss_fn, p.optimizer, x, y) for x, y in p.batches],
        old_gradients=True,
    )


def _judge_step(evidence: Any) -> Finding | Verdict:
    return _judge_training(evidence, _ONE_STEP_TEXTS)


def _judge_training(evidence: Any, texts: dict[str, str]) -> Finding | Verdict:
    if len(evidence) != len(_TRAINING_SEEDS):
        raise DamagedEvidence("not one entry for each run")
    for seed, seen in zip(_TRAINING_SEEDS, evidence, strict=True):
        wrong = _judge_problem(seed, seen, texts)
        if wrong is not None:
            return wrong
    return Finding()


def _judge_problem(seed: int, seen: dict[str, Any], texts: dict[str, str]) -> Any:
    losses, parameters = _trained(seed)
    seen = seen | {"value": _losses(seen["value"])} if "value" in seen else seen
    odd = next((v for v in _items(seen.get("value")) if "object" in v), None)
    if odd:
        fields = {"got": in_words(odd), "expected": "a loss for each batch"}
        return Finding("wrong-type", _where(seen), fields)
    steps = len(_states(seen, "step"))
    if "value" in seen and steps == _Training.STEPS:
        frozen, start = _trained(seed, move=False)
        moved = not _close(start, seen["parameters"], 1e-4)
        if moved and _is_numbers(seen["value"]) and _close(frozen, seen["value"], 1e-3):
            return Finding("stale-cache", _loss_line(losses, seen["value"]))
    if "error" not in seen and not _states(seen, "model"):
        return Finding("nothing-learned", ("the model was never called",))
    wrong = _boundaries(seen, _where(seen))
    if wrong is not None:
        return wrong
    if _close(_plain_parameters(_Training(seed).model), seen["parameters"], 1e-5):
        return Finding("nothing-learned", _where(seen))
    if steps != _Training.STEPS:
        return Finding("steps-miscounted", (f"{_Training.STEPS} batches, {steps} steps",))
    if _close(_trained(seed, zero="never")[1], seen["parameters"], 1e-4):
        return Finding("gradients-pile-up")
    if "gradients-of-before" in texts and any(
        _close(_trained(seed, old_gradients=True, zero=zero)[1], seen["parameters"], 1e-4)
        for zero in ("never", "after")
    ):
        return Finding("gradients-of-before")
    if seen["value"] is None or (isinstance(seen["value"], list) and None in seen["value"]):
        return Finding("returned-none")
    if not _is_numbers(seen["value"]):
        return Finding("wrong-value", (f"expected losses such as {losses[0]:.3f}",))
    if not _close(losses, seen["value"], 1e-2):
        return Finding("wrong-value", _loss_line(losses, seen["value"]))
    if not _close(parameters, seen["parameters"], 1e-3):
        return Finding("wrong-value", ("the parameters after the last step are not right",))
    return Finding("region-left-open") if seen["after"] else None


def _items(value: Any) -> list[dict[str, Any]]:
    """The dicts of plain data in a value, or in a list of values."""
    return [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, dict)]


def _is_numbers(value: Any) -> bool:
    return isinstance(value, list) and all(as_number(item) is not None for item in value)


def _losses(value: Any) -> Any:
    """The losses as a list, also where they come as one tensor or array."""
    is_row = isinstance(value, dict) and len(value.get("shape", ())) == 1
    return value["values"] if is_row else value


def _loss_line(expected: list[float], seen: Any) -> tuple[str, ...]:
    got = ", ".join(f"{as_number(x):.3f}" for x in seen)
    return (f"losses: expected {', '.join(f'{x:.3f}' for x in expected)}; got {got}",)


autocast_step = Exercise(
    "autocast_step",
    probe=_probe_step,
    judge=_judge_step,
    diagnoses=_ONE_STEP_TEXTS,
    hints=(
        "There are five lines: zero_grad, the forward pass, the loss, backward and step. Which of "
        "them choose the dtypes of the others?",
        "Backward follows the dtypes of the forward pass by itself, and the step works on float32.",
        "The region holds two calls: the model's and the loss function's.",
    ),
    lesson_learned="The region holds the forward pass and the loss. Backward and the step follow "
    "from it, and stay outside.",
)


# ---- thawed_epoch -------------------------------------------------------------------------------


def _probe_epoch(epoch: Callable[..., Any]) -> Any:
    return _probe_training(lambda p: epoch(p.model, p.loss_fn, p.optimizer, list(p.batches)))


_EPOCH_TEXTS = _STEP_TEXTS | {
    "stale-cache": "The parameters move and the losses do not: the model still computes with the "
    "16-bit copies that autocast made in the first step. They are kept until the outermost region "
    "ends, so a region must end before the weights change.",
}


def _judge_epoch(evidence: Any) -> Finding | Verdict:
    return _judge_training(evidence, _EPOCH_TEXTS)


thawed_epoch = Exercise(
    "thawed_epoch",
    probe=_probe_epoch,
    judge=_judge_epoch,
    diagnoses=_EPOCH_TEXTS,
    hints=(
        "Print a weight after each step, and the loss. Which of the two stands still?",
        "The 16-bit copies of the weights live until the outermost region ends. When does it end "
        "here?",
        "Swap the two outer lines: the loop goes outside, the region inside.",
    ),
    lesson_learned="The cast cache lives as long as the outermost region, so a region must not "
    "outlive the weights that it has cast.",
)


# ---- leak_free_scores ---------------------------------------------------------------------------


class _Scoring:
    """A backbone, a head and inputs, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        inputs, width, classes = draw.randint(3, 9), draw.randint(8, 24), draw.randint(2, 6)
        self.log = _Log()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            body = nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width))
            head = nn.Linear(width, classes)
            self.x = torch.randn(draw.randint(2, 7), inputs)
        self.backbone = _Witness(body, "backbone", self.log)
        self.head = _Witness(head, "head", self.log)
        self.dtype = torch.float16 if seed % 2 else torch.bfloat16

    def scores(self) -> Tensor:
        with torch.autocast("cpu", dtype=self.dtype):
            features = self.backbone(self.x)
        return self.head(features.float())

    def parameters(self) -> list[nn.Parameter]:
        return [*self.backbone.parameters(), *self.head.parameters()]


_SCORE_SEEDS = (4, 5, 12, 19)


def _probe_scores(function: Callable[..., Any]) -> Any:
    found = []
    for seed in _SCORE_SEEDS:
        s = _Scoring(seed)
        given = []

        def call(s: _Scoring = s, given: list = given) -> Any:
            given.append(function(s.backbone, s.head, s.x.clone(), s.dtype))
            return given[0]

        seen = _attempt(call, s.log)
        seen["parameters"] = sorted({_name(p.dtype) for p in s.parameters()})
        seen["modes kept"] = s.backbone.training and s.head.training
        seen["reached"] = _reached(given[0], s) if given and type(given[0]) is Tensor else False
        found.append(seen)
    return found


def _reached(scores: Tensor, scoring: _Scoring) -> bool:
    """Whether a gradient of the scores arrives at the first weight of the backbone."""
    if not scores.requires_grad:
        return False
    first = scoring.parameters()[0]
    (grad,) = torch.autograd.grad(scores.float().sum(), first, allow_unused=True)
    return grad is not None


def _judge_scores(evidence: Any) -> Finding | Verdict:
    if len(evidence) != len(_SCORE_SEEDS):
        raise DamagedEvidence("not one entry for each run")
    for seed, seen in zip(_SCORE_SEEDS, evidence, strict=True):
        slug = _score_fault(seed, seen)
        if isinstance(slug, Verdict):
            return slug
        if slug:
            region = _name(_Scoring(seed).dtype)
            lines = (f"with dtype={region}: {_log_line(seen)}",)
            if "error" in seen:
                lines += (seen["error"]["message"],)
            kind = type(seen.get("value")).__name__.replace("dict", "no tensor")
            return Finding(slug, lines, {"got": f"a {kind}", "expected": "a float32 tensor"})
    return Finding()


def _score_fault(seed: int, seen: dict[str, Any]) -> str | Verdict:
    scoring = _Scoring(seed)
    if seen["parameters"] != ["float32"]:
        return "module-cast"
    if _mismatch(seen) and not _states(seen, "head"):
        return "backbone-in-float32" if any(_low_inputs(seen, "backbone")) else _error(seen)
    if _mismatch(seen) and any(_low_inputs(seen, "head")):
        return "still-leaks"
    if "error" in seen:
        return _error(seen)
    if seen["value"] is None:
        return "returned-none"
    if not _states(seen, "backbone") or not _states(seen, "head"):
        return "not-run"
    if not any(_states(seen, "backbone")):
        return "backbone-in-float32"
    if any(_states(seen, "head")):
        return "head-in-region"
    value, expected = seen["value"], plain(scoring.scores())
    if not isinstance(value, dict) or "values" not in value:
        return "wrong-type"
    if value["dtype"] != "float32":
        return "not-float32"
    if value["shape"] != expected["shape"]:
        return "wrong-value"
    if not seen["reached"]:
        return "graph-cut"
    if {e["region"] for e in seen["log"] if e["what"] == "backbone"} != {_name(scoring.dtype)}:
        return "other-dtype"
    if not _close(expected, value, 1e-5):
        return "wrong-value"
    if seen["after"]:
        return "region-left-open"
    return "" if seen["modes kept"] else "mode-changed"


def _low_inputs(seen: dict[str, Any], what: str) -> list[bool]:
    """Whether a 16-bit tensor went in, at each entry of the log with this name."""
    return [
        any(dtype in ("float16", "bfloat16") for dtype in entry["takes"])
        for entry in seen["log"]
        if entry["what"] == what
    ]


def _log_line(seen: dict[str, Any]) -> str:
    parts = [
        f"{e['what']} took {', '.join(e['takes'])} with autocast {'on' if e['on'] else 'off'}"
        for e in seen["log"]
        if "backward" not in e["what"]
    ]
    return "; ".join(parts) or "neither backbone nor head ran"


leak_free_scores = Exercise(
    "leak_free_scores",
    probe=_probe_scores,
    judge=_judge_scores,
    diagnoses={
        "still-leaks": "The features that the region gave out are 16 bits wide, and the head's "
        "weights are float32. Outside the region nobody casts, so torch refuses. Widen the "
        "features where they leave the region.",
        "module-cast": "You cast a module, so the caller's parameters are not float32 any "
        "more, and the optimizer would train those. Cast the tensor that crosses the border "
        "instead.",
        "head-in-region": "The head ran in the region, so its product was computed in 16 bits. "
        "Widening the scores afterwards does not bring back the digits.",
        "backbone-in-float32": "The backbone ran with autocast off. It is the expensive part, and "
        "the one that should run in 16 bits: a region casts its weights too, which a cast of the "
        "input does not.",
        "not-float32": "The scores should be float32, as the head's weights are.",
        "graph-cut": "No gradient of the scores reaches the backbone. A cast with .float() or "
        ".to() is recorded by autograd; .detach(), .data and no_grad cut the graph.",
        "other-dtype": "The backbone ran in a region of another dtype than the one that was asked "
        "for. Hand the argument `dtype` to the region.",
        "not-run": "The backbone or the head was never called.",
        "region-left-open": "Autocast is still on when your function returns, so the caller's next "
        "lines run in 16 bits as well. A `with` block ends by itself.",
        "mode-changed": "The backbone or the head comes back in another mode than it came. Neither "
        "eval() nor train() is needed for a dtype.",
    },
    hints=(
        "Print features.dtype. What does the head expect?",
        "Inside the region autocast would cast the features for the head. Outside, you must.",
        "features.float(), on the outer side of the border.",
    ),
    lesson_learned="What leaves a region keeps its 16-bit dtype. Widen it at the border, and "
    "autograd takes the gradient back across.",
)


# ---- keep_float32 -------------------------------------------------------------------------------


class _Scale(nn.Module):
    """A submodule with a second argument that is a plain number."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor, factor: float) -> Tensor:
        return self.linear(x) * factor


class _Gather(nn.Module):
    """A submodule that also takes indices."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table = nn.Embedding(40_000, 3)
        self.linear = nn.Linear(width, 3)

    def forward(self, x: Tensor, index: Tensor) -> Tensor:
        return self.linear(x) + self.table(index)


class _Sum(nn.Module):
    """A submodule with two inputs that both meet weights."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(width, 3), nn.Linear(4, 3)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.one(x) + self.other(y)


class _Raises(nn.Module):
    def forward(self, *args: Any) -> Tensor:
        raise _Expected


class _Expected(Exception):
    """What a submodule raises to see what is left of the region."""


class _Submodule:
    """A submodule with its arguments, and the region in which it is called."""

    def __init__(self, number: int) -> None:
        width = 5 + 3 * number
        self.log = _Log()
        self.label, self.region, kind, given = (
            ("in a bfloat16 region", torch.bfloat16, "linear", torch.bfloat16),
            ("in a float16 region", torch.float16, "scale", torch.float16),
            ("in a bfloat16 region, with indices", torch.bfloat16, "gather", torch.bfloat16),
            ("in a bfloat16 region, with a float32 input", torch.bfloat16, "linear", torch.float32),
            ("outside any region", None, "linear", torch.float32),
            ("in a bfloat16 region, with two inputs", torch.bfloat16, "sum", torch.bfloat16),
        )[number]
        self.takes_indices = kind == "gather"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(50 + number)
            self.x = torch.randn(4, width).to(given).requires_grad_()
            inner, more = {
                "linear": lambda: (nn.Linear(width, 3), ()),
                "scale": lambda: (_Scale(width), (2.5,)),
                "sum": lambda: (_Sum(width), (torch.randn(4, 4).to(given),)),
                "gather": lambda: (_Gather(width), (torch.tensor([39_999, 1, 2049, 30_001]),)),
            }[kind]()
        self.inner, self.more = _Witness(inner, "submodule", self.log), more

    def enter(self) -> Any:
        return nullcontext() if self.region is None else torch.autocast("cpu", dtype=self.region)


_SUBMODULES = range(6)


def _probe_keep(keep: Callable[..., Any]) -> Any:
    found = []
    for number in _SUBMODULES:
        case = _Submodule(number)
        given: list[Any] = []
        region_kept: list[bool] = []

        def call(case=case, given=given, region_kept=region_kept) -> Any:
            kept = keep(case.inner)
            if not callable(kept):
                return {"not callable": type(kept).__name__}
            with case.enter():
                before = _state()
                given.append(kept(case.x, *case.more))
                region_kept.append(_compared(before))
            return given[0]

        seen = _attempt(call, case.log)
        seen["region"] = region_kept[0] if region_kept else "kept"
        if number == _SUBMODULES[-1]:
            seen["region after error"] = _left_by_error(keep)
        seen["parameters"] = sorted({_name(p.dtype) for p in case.inner.parameters()})
        seen["reached"] = False
        if given and type(given[0]) is Tensor and given[0].requires_grad:
            (grad,) = torch.autograd.grad(given[0].float().sum(), case.x, allow_unused=True)
            seen["reached"] = grad is not None
        found.append(seen)
    return found


def _compared(before: dict[str, Any]) -> str:
    """What has become of the region: kept, closed, or changed in another way."""
    after = _state()
    if after == before:
        return "kept"
    return "closed" if before["on"] and not after["on"] else "changed"


def _left_by_error(keep: Callable[..., Any]) -> str:
    """The same after a submodule that raises."""
    with _own_state(), torch.autocast("cpu", dtype=torch.bfloat16):
        before = _state()
        try:
            keep(_Raises())(torch.ones(2, 2))
        except Exception:
            return _compared(before)
    return "kept"


def _judge_keep(evidence: Any) -> Finding | Verdict:
    if len(evidence) != len(_SUBMODULES):
        raise DamagedEvidence("not one entry for each run")
    for number, seen in zip(_SUBMODULES, evidence, strict=True):
        case = _Submodule(number)
        slug = _keep_fault(case, seen)
        if isinstance(slug, Verdict):
            return slug
        if slug:
            lines = (f"{case.label}: {_log_line(seen).replace('neither backbone nor head', 'it')}",)
            if "error" in seen:
                lines += (seen["error"]["message"],)
            fields = {"got": "no callable", "expected": "a callable that runs the module"}
            return Finding(slug, lines, fields)
    return Finding()


def _keep_fault(case: _Submodule, seen: dict[str, Any]) -> str | Verdict:
    if seen["parameters"] != ["float32"]:
        return "module-cast"
    states = _states(seen, "submodule")
    takes = [entry["takes"] for entry in seen["log"] if entry["what"] == "submodule"]
    if case.takes_indices and takes and takes[0][1:] != ["int64"]:
        return "indices-cast"
    if states and any(states):
        return "still-autocast"
    if _mismatch(seen) and any(_low_inputs(seen, "submodule")):
        return "input-not-cast"
    if "error" in seen:
        return _error(seen)
    value = seen["value"]
    if value is None:
        return "returned-none"
    if isinstance(value, dict) and "not callable" in value.get("dict", {}):
        return "wrong-type"
    if not states:
        return "not-run"
    if seen["region"] != "kept":
        return f"region-{seen['region']}"
    if any(_low_inputs(seen, "submodule")) or takes[0][0] != "float32":
        return "input-not-cast"
    more = [m.float() if isinstance(m, Tensor) and m.is_floating_point() else m for m in case.more]
    expected = plain(case.inner(case.x.float(), *more))
    if not isinstance(value, dict) or value.get("dtype") != "float32":
        return "result-cast-back"
    if not seen["reached"]:
        return "graph-cut"
    if value["shape"] != expected["shape"] or not _close(expected, value, 1e-5):
        return "wrong-value"
    return "" if seen.get("region after error", "kept") == "kept" else "lost-by-an-error"


keep_float32 = Exercise(
    "keep_float32",
    probe=_probe_keep,
    judge=_judge_keep,
    diagnoses={
        "still-autocast": "Autocast was on while the submodule ran, so its product was computed in "
        "16 bits, whatever you cast before or after. Open a region with enabled=False around it, "
        'for the right device: torch.autocast("cpu", enabled=False).',
        "input-not-cast": "In a disabled region nobody casts, and what comes from the outer region "
        "is 16 bits wide: it meets float32 weights. Cast the input yourself; where there are "
        "several, each of them.",
        "indices-cast": "You cast every tensor, and one of them holds indices. Cast those that "
        "x.is_floating_point() says are numbers.",
        "module-cast": "The submodule's parameters are not float32 any more. Cast the input to the "
        "dtype of the module, not the module to another.",
        "not-run": "What you return never ran the submodule.",
        "result-cast-back": "The submodule computed in float32, and you gave its result out in 16 "
        "bits. Hand it out as it is: the operations that follow cast what they need.",
        "graph-cut": "No gradient reaches the input. A cast with .float() is recorded by autograd; "
        ".detach(), .data and no_grad cut the graph.",
        "region-closed": "After your call the outer region is off: its other modules run in "
        "float32. A `with` block gives the state back by itself.",
        "region-changed": "After your call autocast is not as it was: on where it was off, or with "
        "another dtype or cache setting. A `with` block gives all of it back by itself.",
        "lost-by-an-error": "When the submodule raises, the outer region is not as it was: the "
        "line that gives the state back is never reached. Use a `with` block, or try and finally.",
    },
    hints=(
        "Two things are needed: a nested region, and a cast. What does each do without the other?",
        'torch.autocast("cpu", enabled=False) turns autocast off for its block only.',
        "The arguments: tensors of floating point go through .float(); all others stay.",
    ),
    lesson_learned="A disabled subregion turns off the casts, also those that you need: the input "
    "must be cast by hand.",
)


# ---- count_casts --------------------------------------------------------------------------------

_LOW = (torch.float16, torch.bfloat16)


class _Counter(TorchDispatchMode):
    """Counts the operations for which ``counts(function, first tensor, result)`` is true."""

    def __init__(self, counts: Callable[[Any, Tensor, Tensor], bool]) -> None:
        super().__init__()
        self.counts, self.number = counts, 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if args and isinstance(args[0], Tensor) and isinstance(result, Tensor):
            self.number += bool(self.counts(func.overloadpacket, args[0], result))
        return result


def _counting(counts: Callable[[Any, Tensor, Tensor], bool]) -> Callable[..., int]:
    def count_casts(work: Callable[[], Any]) -> int:
        with _Counter(counts) as counter:
            work()
        return counter.number

    return count_casts


_CASTS = (torch.ops.aten._to_copy, torch.ops.aten.to)


def _is_cast(op: Any, source: Tensor, result: Tensor) -> bool:
    return op in _CASTS and source.dtype == torch.float32 and result.dtype in _LOW


class _Above(TorchFunctionMode):
    """Counts casts above autocast, where those that it inserts cannot be seen."""

    def __init__(self, sources: tuple[torch.dtype, ...]) -> None:
        super().__init__()
        self.number, self.sources = 0, sources

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if args and isinstance(args[0], Tensor) and isinstance(result, Tensor):
            named = getattr(func, "__name__", "") in ("to", "half", "bfloat16", "type")
            self.number += named and args[0].dtype in self.sources and result.dtype in _LOW
        return result


def _counting_above(*sources: torch.dtype) -> Callable[..., int]:
    def count_casts(work: Callable[[], Any]) -> int:
        with _Above(sources) as above:
            work()
        return above.number

    return count_casts


def _count_second_run(work: Callable[[], Any]) -> int:
    work()
    return _counting(_is_cast)(work)


def _count_in_region(work: Callable[[], Any]) -> int:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return _counting(_is_cast)(work)


def _work(
    seed: int,
    *,
    cache: bool = True,
    frozen: bool = False,
    around: Callable[[], Any] = nullcontext,
    given: torch.dtype = torch.float32,
    extra: Callable[[Tensor], Any] = lambda y: y,
) -> Callable[[], Any]:
    """A function without arguments that runs a few layers in a region several times."""
    draw = random.Random(seed)
    width, layers, times = draw.randint(3, 8), draw.randint(1, 3), draw.randint(2, 6)
    dtype = draw.choice(_LOW)

    def work() -> None:
        with torch.random.fork_rng(devices=[]), torch.inference_mode(False):
            torch.manual_seed(seed)
            model = nn.Sequential(*[nn.Linear(width, width) for _ in range(layers)])
            model.requires_grad_(not frozen)
            x = torch.randn(3, width)
            x = x if given == torch.float32 else x.to(dtype)
            with around(), torch.autocast("cpu", dtype=dtype, cache_enabled=cache):
                for _ in range(times):
                    extra(model(x))

    return work


def _train_once() -> None:
    model = nn.Linear(4, 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = nn.functional.mse_loss(model(torch.ones(3, 4)), torch.zeros(3, 2))
    loss.backward()


def _copies_only() -> None:
    x = torch.ones(3, 4)
    x.clone().to(torch.float64).to(torch.float32).to(torch.float32).contiguous().long()


def _cast_from_elsewhere() -> None:
    torch.ones(3, dtype=torch.float64).half()
    torch.arange(5).bfloat16().half()


def _without_region() -> None:
    nn.Linear(4, 2)(torch.ones(3, 4))


class _Staged:
    """Work that does something else each time; a copy of it begins anew."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1
        for _ in range(6 // self.times):
            torch.ones(4).bfloat16()


def _count_cases() -> list[Case]:
    return [
        Case((_work(1),), "a few layers, several times"),
        Case((_work(2, cache=False),), "the same without the cache"),
        Case((_work(3, frozen=True),), "frozen layers"),
        Case((_work(4, around=torch.no_grad),), "under no_grad"),
        Case((_work(5, around=torch.inference_mode),), "in inference_mode"),
        Case((_work(6, given=torch.float16),), "with a 16-bit input"),
        Case((_work(7, extra=lambda y: y.float().relu().sum()),), "results widened again"),
        Case((_copies_only,), "copies and casts, none to 16 bits"),
        Case((_train_once,), "a forward and a backward pass"),
        Case((lambda: torch.ones(5).half(),), "one cast by hand, no autocast"),
        Case((_cast_from_elsewhere,), "casts to 16 bits, none of them from float32"),
        Case((_without_region,), "a layer with no region open"),
        Case((_Staged(),), "work that does less the second time"),
    ]


count_casts = function_exercise(
    "count_casts",
    cases=_count_cases,
    reference=_counting(_is_cast),
    misconceptions={
        "looked-above": Misconception(
            "You see none of the casts that autocast inserts. It makes them below the calls of "
            "Python, on the way from the call to the kernel: a TorchDispatchMode sees them there, "
            "a TorchFunctionMode or a patched Tensor.to does not.",
            _counting_above(torch.float32),
            _counting_above(torch.float32, torch.float64, torch.int64, *_LOW),
            _counting(lambda op, a, b: False),
        ),
        "inference-missed": Misconception(
            "You counted aten::_to_copy only. In inference_mode a cast is not taken apart, and "
            "arrives as aten::to. Ask what went in and what came out, for both.",
            _counting(lambda op, a, b: op == _CASTS[0] and _is_cast(op, a, b)),
        ),
        "every-copy-counted": Misconception(
            "You counted each _to_copy, whatever its dtypes. Those from 16 bits back to float32 "
            "and those to integers or float64 are casts of another kind: look at both dtypes.",
            _counting(lambda op, a, b: op == _CASTS[0]),
            _counting(lambda op, a, b: op in _CASTS),
            _counting(lambda op, a, b: op in _CASTS and a.dtype != b.dtype),
        ),
        "results-counted": Misconception(
            "You counted the results that are 16 bits wide. A matrix product in 16 bits gives one "
            "too, and is no cast. A cast takes float32 and gives 16 bits.",
            _counting(lambda op, a, b: b.dtype in _LOW),
            _counting(lambda op, a, b: op in _CASTS and b.dtype in _LOW),
        ),
        "any-source-counted": Misconception(
            "You counted the casts to 16 bits from any dtype. Those from float64, from integers "
            "or from the other 16-bit format are none of autocast's: ask for float32.",
            _counting(lambda op, a, b: op in _CASTS and a.dtype not in _LOW and b.dtype in _LOW),
            _counting(lambda op, a, b: op in _CASTS and a.dtype != b.dtype and b.dtype in _LOW),
        ),
        "ran-twice": Misconception(
            "You ran work() more than once. It may train, or draw random numbers, so a second run "
            "is another one: count while it runs for the first and only time.",
            _count_second_run,
        ),
        "region-of-your-own": Misconception(
            "You opened a region around work(), so layers that nobody put under autocast are cast "
            "now. What you measure must run as it does without you.",
            _count_in_region,
        ),
        "one-format-only": Misconception(
            "You counted the casts to one 16-bit format. Autocast can be asked for either: "
            "float16 and bfloat16.",
            _counting(lambda op, a, b: _is_cast(op, a, b) and b.dtype == torch.bfloat16),
            _counting(lambda op, a, b: _is_cast(op, a, b) and b.dtype == torch.float16),
        ),
    },
    hints=(
        "The casts are inserted below Python. Where could you watch what really runs?",
        "A TorchDispatchMode gets each operation as func, with its arguments; call it, and look at "
        "the dtypes of args[0] and of the result.",
        "The operation is aten._to_copy, or aten.to in inference_mode: func.overloadpacket.",
    ),
    lesson_learned="You can count what autocast does instead of believing it: the cache shows as "
    "casts that are not there.",
    asked_for="a whole number",
)


# ---- carry_autocast -----------------------------------------------------------------------------

_STATES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("in a bfloat16 region", {"dtype": torch.bfloat16}),
    ("in a float16 region", {"dtype": torch.float16}),
    ("outside any region", {"enabled": False}),
    ("in a region with cache_enabled=False", {"dtype": torch.bfloat16, "cache_enabled": False}),
)
_OFF = 2  # which of them has autocast off


def _state() -> dict[str, Any]:
    return {"on": _is_enabled("cpu"), "dtype": _name(_get_dtype("cpu")), "cache": _is_cached()}


def _in_thread(work: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    found: list[Any] = [None, None]

    def run() -> None:
        try:
            found[0] = work()
        except BaseException as error:
            found[1] = error

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found[0], found[1]


def _probe_carry(carry: Callable[..., Any]) -> Any:
    found = []
    for number, (_, arguments) in enumerate(_STATES):
        inside: list[dict[str, Any]] = []

        def work(a: int, *, b: int, inside: list = inside) -> int:
            inside.append(_state())
            return 10 * a + b

        with _own_state():
            with torch.autocast("cpu", **arguments):
                carried = carry(work)
            if carried is ...:
                return UNATTEMPTED
            if not callable(carried):
                found.append({"not callable": type(carried).__name__, "inside": []})
                continue

            def in_worker(carried: Any = carried, number: int = number) -> Any:
                # To carry "off" shows only in a thread in which autocast is on.
                with torch.autocast("cpu", torch.float16, enabled=number == _OFF):
                    before = _state()
                    result = plain(carried(number, b=7))
                    return {"result": result, "restored": _state() == before}

            seen, error = _in_thread(in_worker)
        if isinstance(error, NotImplementedError):
            raise error
        found.append(
            {"error": describe_error(error)} if error is not None else {**seen, "inside": inside}
        )
    if all("result" in seen for seen in found):
        found.append(_carried_further(carry))
    return found


def _carried_further(carry: Callable[..., Any]) -> dict[str, Any]:
    """Two functions wrapped before the first of them runs; and one that raises."""
    inside: list[dict[str, Any]] = []

    def raising() -> None:
        raise _Expected

    with _own_state():
        with torch.autocast("cpu", dtype=torch.float16):
            first, failing = carry(lambda: inside.append(_state())), carry(raising)
        with torch.autocast("cpu", dtype=torch.bfloat16, cache_enabled=False):
            carry(raising)

        def in_worker() -> dict[str, Any]:
            first()
            before = _state()
            try:
                failing()
            except _Expected:
                return {"raised": True, "restored": _state() == before}
            return {"raised": False}

        seen, error = _in_thread(in_worker)
    return {"error": describe_error(error)} if error is not None else {**seen, "inside": inside}


def _judge_carry(evidence: Any) -> Finding | Verdict:
    *evidence, further = evidence if len(evidence) > len(_STATES) else [*evidence, {}]
    if len(evidence) != len(_STATES):
        raise DamagedEvidence("not one entry for each run")
    for seen in evidence:
        if "error" in seen:
            return _error(seen)
    if any("not callable" in seen for seen in evidence):
        if evidence[0]["not callable"] == "NoneType":
            return Finding("returned-none")
        return Finding("wrong-type", (), {"got": "not callable", "expected": "a function"})
    lines = tuple(
        _state_line(label, seen) for (label, _), seen in zip(_STATES, evidence, strict=True)
    )
    if any(len(seen["inside"]) != 1 for seen in evidence):
        return Finding("not-called-once", lines)
    if any(seen["result"] != 10 * number + 7 for number, seen in enumerate(evidence)):
        return Finding("result-lost", lines)
    states = [seen["inside"][0] for seen in evidence]
    on = [state["on"] for state in states]
    off_kept = not on.pop(_OFF)
    if not any(on):
        return Finding("state-not-carried", lines)
    if not off_kept:
        own = states[_OFF]["dtype"] == "float16"  # the worker's region, as it was
        return Finding("off-not-carried" if own else "always-on", lines)
    if [state["dtype"] for state in states[:2]] != ["bfloat16", "float16"]:
        return Finding("dtype-not-carried", lines)
    if [state["cache"] for state in states] != [True, True, True, False]:
        return Finding("cache-not-carried", lines)
    if not all(on):
        return Finding("state-not-carried", lines)
    if not all(seen["restored"] for seen in evidence):
        return Finding("worker-left-changed", lines)
    if "error" in further:
        return _error(further)
    if not further["inside"]:
        return Finding("not-called-once", lines)
    if further["inside"][0] != states[1]:
        return Finding("last-state-wins", (_state_line(_STATES[1][0], further),))
    if not further["raised"]:
        return Finding("error-swallowed")
    return Finding() if further["restored"] else Finding("worker-changed-by-an-error")


def _state_line(label: str, seen: dict[str, Any]) -> str:
    if not seen["inside"]:
        return f"wrapped {label}: the function did not run"
    state = seen["inside"][0]
    on = f"on, {state['dtype']}" if state["on"] else "off"
    return f"wrapped {label}: in the thread autocast is {on}, cache_enabled={state['cache']}"


carry_autocast = Exercise(
    "carry_autocast",
    probe=_probe_carry,
    judge=_judge_carry,
    diagnoses={
        "state-not-carried": "In the thread autocast is off. The state belongs to a thread, and a "
        "new one begins with autocast off: read it when carry_autocast is called, and open a "
        "region with it where the function runs.",
        "always-on": "You open a region whether there was one or not. Carry the state as it is: "
        'enabled=torch.is_autocast_enabled("cpu").',
        "off-not-carried": "You carry the state only where autocast is on. Off is a state as well: "
        "the thread that runs the function may have a region open, and it has to be off in there.",
        "dtype-not-carried": "The dtype in the thread is its own default, bfloat16 on a CPU. "
        'torch.get_autocast_dtype("cpu") is part of the state too, and must be read in the '
        "thread that has it.",
        "cache-not-carried": "Whether casts are cached is the third part of the state: "
        "torch.is_autocast_cache_enabled().",
        "worker-left-changed": "After the call the thread's state is not what it was before. A "
        "thread of a pool runs other work next: use a `with` block, which puts it back.",
        "last-state-wins": "Of two functions that you wrapped, the first runs in the state of the "
        "second: the state is kept in one place, and each call of carry_autocast overwrites it. "
        "Keep it in a variable of the call.",
        "error-swallowed": "The function raised, and what you return gave no sign of it. Whoever "
        "calls it has to get the exception.",
        "worker-changed-by-an-error": "When the function raises, the thread's state is not what it "
        "was before: the lines that put it back are never reached. Use a `with` block, or try and "
        "finally.",
        "not-called-once": "The function should run once at each call of what you return, and "
        "not before.",
        "result-lost": "The result of the function, or one of its arguments, is lost on the way: "
        "take *args and **kwargs, and return what the function returns.",
    },
    hints=(
        "A function defined in carry_autocast remembers the variables of carry_autocast. What "
        "should they hold, and when are they read?",
        "The state has three parts: enabled, dtype, cache_enabled. torch has a function to read "
        "each of them.",
        "Read before `def`; open the region after it.",
    ),
    lesson_learned="The state of autocast is the thread's own. What should hold in another thread "
    "must be read in one and set in the other.",
)
