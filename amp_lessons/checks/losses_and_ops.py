"""Lesson 08's exercises: losses, norms and streams that hold in 16 bits, own Functions.

A loss is judged by its value and its gradient, in every dtype that it may be given. A Function is
judged by the dtypes that its matrix products really ran in, in the forward and in the backward
pass, with autocast on or off around each of them; how it gets there is not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from amp_lessons.checks.cases import (
    Case,
    Misconception,
    function_exercise,
    most_different,
    within,
)
from amp_lessons.checks.evidence import DamagedEvidence, by_name, describe_error, in_words, plain
from amp_lessons.checks.how_numbers_break import within_ulps
from amp_lessons.checks.legacy import Exercise, Finding, error_verdict
from amp_lessons.checks.verdict import State, Verdict

HALF, BFLOAT, SINGLE = torch.float16, torch.bfloat16, torch.float32

# Bound once, before any learner's code runs.
_autograd_grad, _is_enabled, _get_dtype, _equal, _cross_entropy = (
    torch.autograd.grad,
    torch.is_autocast_enabled,
    torch.get_autocast_dtype,
    torch.equal,
    F.cross_entropy,
)


def _name(dtype: torch.dtype | None) -> str:
    return "no region" if dtype is None else str(dtype).removeprefix("torch.")


@contextmanager
def _region(dtype: torch.dtype | None) -> Iterator[None]:
    """A CPU region of autocast, or none; the state is put back whatever a learner leaves behind."""
    before = _is_enabled("cpu"), _get_dtype("cpu")
    try:
        with torch.autocast("cpu", dtype=dtype) if dtype else nullcontext():
            yield
    finally:
        torch.set_autocast_enabled("cpu", before[0])
        torch.set_autocast_dtype("cpu", before[1])
        torch.clear_autocast_cache()


# ---- stable_losses ------------------------------------------------------------------------------
# The losses as they stand in the sheet, before they are mended.


def _broken_click(logits: Tensor, targets: Tensor) -> Tensor:
    p = torch.sigmoid(logits)
    return -(targets * torch.log(p + 1e-8) + (1 - targets) * torch.log(1 - p + 1e-8)).mean()


def _broken_smoothed(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    log_p = torch.log(torch.softmax(logits, -1) + 1e-8)
    right = log_p.gather(1, labels.unsqueeze(1)).squeeze(1)
    return -((1 - smoothing) * right + smoothing * log_p.sum(-1) / logits.shape[1]).mean()


def _broken_contrastive(similarities: Tensor, temperature: float) -> Tensor:
    e = torch.exp(similarities / temperature)
    return -torch.log(e.diagonal() / e.sum(-1)).mean()


def _broken_dice(logits: Tensor, masks: Tensor) -> Tensor:
    p = torch.sigmoid(logits)
    return 1 - (2 * (p * masks).sum() + 1) / (p.sum() + masks.sum() + 1)


_BROKEN: dict[str, Callable[..., Tensor]] = {
    "click_loss": _broken_click,
    "smoothed_loss": _broken_smoothed,
    "contrastive_loss": _broken_contrastive,
    "dice_loss": _broken_dice,
}
_RIGHT: dict[str, Callable[..., Tensor]] = {
    "click_loss": F.binary_cross_entropy_with_logits,
    "smoothed_loss": lambda x, labels, s: _cross_entropy(x, labels, label_smoothing=s),
    "contrastive_loss": lambda x, t: _cross_entropy(x / t, torch.arange(len(x))),
    "dice_loss": _broken_dice,
}


@dataclass(frozen=True)
class _LossRun:
    """One call of a loss: the dtype of its logits, the region it is called in, and a size."""

    dtype: torch.dtype
    region: torch.dtype | None
    size: int

    def __str__(self) -> str:
        where = "outside a region" if self.region is None else f"in a region of {_name(self.dtype)}"
        return f"{_name(self.dtype)} logits, {where}, {'large' if self.size else 'small'} input"


_LOSS_RUNS = [
    _LossRun(dtype, region, size)
    for dtype, region in ((HALF, HALF), (HALF, None), (BFLOAT, BFLOAT), (SINGLE, None))
    for size in (0, 1)
]
_GRADIENT_STEPS = 4 * 2.0**-24  # FP16 has no finer numbers, and dice's gradients are near them
_SAMPLE = 400  # gradients of large inputs are thinned out to about this many numbers


def _loss_args(name: str, run: _LossRun) -> tuple[Any, ...]:
    random = torch.Generator().manual_seed(17 + run.size)

    def normal(*shape: int) -> Tensor:  # float32 whatever an answer has made the default
        return torch.randn(*shape, generator=random, dtype=SINGLE)

    if name == "click_loss":
        ends = torch.tensor([10.0, -40.0, 60.0, -9.0], dtype=SINGLE)
        logits = torch.cat([12 * normal(5 + 4 * run.size), ends])
        targets = (torch.rand(len(logits), generator=random) > 0.5).to(SINGLE)
        targets[-4:] = torch.tensor([0.0, 1.0, 0.0, 1.0], dtype=SINGLE)
        return logits.clamp(-60, 60).to(run.dtype), targets
    if name == "smoothed_loss":
        rows, classes = (2, 9000) if run.size else (4, 7)
        logits = normal(rows, classes) * (3 if run.size else 15)
        labels = torch.randint(classes, (rows,), generator=random)
        if run.size:
            logits[torch.arange(rows), labels] += 12  # the others' probabilities become small
        else:
            logits[0, :2] = torch.tensor([60.0, -60.0])  # a share of exp(-120), 0 in float32 too
        return logits.clamp(-60, 60).to(run.dtype), labels, 0.1 if run.size else 0.25
    if name == "contrastive_loss":
        rows = 6 if run.size else 3
        similarities = normal(rows, rows).tanh()
        if run.size:  # a row far below the largest of all: exp(-128 * 1.7) is 0 in float32 too
            similarities[0], similarities[1, 2] = similarities[0] / 10 - 0.85, 0.99
        return similarities.to(run.dtype), 1 / 128 if run.size else 1 / 16
    pixels = (300, 300) if run.size else (5, 7)
    return (3 * normal(*pixels) + 4 * run.size).to(run.dtype), (normal(*pixels) > -1).to(SINGLE)


def _run_loss(name: str, function: Any, run: _LossRun) -> dict[str, Any]:
    """The loss and its gradient with respect to the logits, or the error, as plain data."""
    logits, *rest = _loss_args(name, run)
    logits.requires_grad_()
    try:
        with _region(run.region):
            loss = function(logits, *rest)
        seen = {"loss": plain(loss), "changed": _changed(name, run, (logits, *rest))}
        if isinstance(loss, Tensor) and loss.dim() == 0 and loss.requires_grad:
            (gradient,) = _autograd_grad(loss, logits, allow_unused=True)
            if gradient is not None:
                gradient = gradient.flatten()
                seen["gradient"] = plain(gradient[:: max(1, len(gradient) // _SAMPLE)])
        return seen
    except NotImplementedError:
        return {"unattempted": True}
    except Exception as error:
        return {"error": describe_error(error)}


def _changed(name: str, run: _LossRun, given: tuple[Any, ...]) -> bool:
    """Whether a call has written into one of the tensors that it was given."""
    pairs = zip(given, _loss_args(name, run), strict=True)
    return not all(_equal(a.detach(), b) for a, b in pairs if isinstance(a, Tensor))


def _probe_losses(*functions: Any) -> dict[str, Any]:
    given = by_name(_BROKEN, functions)
    return {name: [_run_loss(name, f, run) for run in _LOSS_RUNS] for name, f in given.items()}


@cache
def _loss_truth(name: str, run: _LossRun) -> tuple[float, list[float]]:
    logits, *rest = _loss_args(name, run)
    exact = logits.double().requires_grad_()
    wide = [r.double() if isinstance(r, Tensor) and r.is_floating_point() else r for r in rest]
    loss = _RIGHT[name](exact, *wide)
    gradient = _autograd_grad(loss, exact)[0].flatten()
    return loss.item(), gradient[:: max(1, len(gradient) // _SAMPLE)].tolist()


def _rough(value: Any) -> Any:
    """A number to three digits, so that another machine's last digit makes no difference."""
    return f"{value:.2e}" if isinstance(value, float) else value


def _loss_signature(seen: dict[str, Any]) -> tuple[Any, ...]:
    if "loss" not in seen or not isinstance(seen["loss"], dict):
        return ("error",)
    loss, gradient = seen["loss"], seen.get("gradient", {}).get("values", [])
    return _rough(loss.get("values")), loss.get("dtype"), tuple(map(_rough, gradient[:8]))


@cache
def _broken_losses(name: str) -> list[tuple[Any, ...]]:
    return [_loss_signature(_run_loss(name, _BROKEN[name], run)) for run in _LOSS_RUNS]


def _judge_losses(evidence: Any) -> Finding | Verdict:
    if not isinstance(evidence, dict) or set(evidence) != set(_BROKEN):
        raise DamagedEvidence("not one entry for each function")
    unmended = []
    for name, runs in ((name, evidence[name]) for name in _BROKEN):
        if len(runs) != len(_LOSS_RUNS):
            raise DamagedEvidence("not one entry for each run")
        if any("unattempted" in s for s in runs) or _broken_losses(name) == [
            _loss_signature(s) for s in runs
        ]:
            unmended.append(name)
            continue
        finding = next(filter(None, (_judge_loss(name, runs, kind) for kind in _LOSS_KINDS)), None)
        if finding is not None:
            return finding
    if unmended:
        message = f"{len(_BROKEN) - len(unmended)} of {len(_BROKEN)} mended; open: "
        return Verdict(State.NOT_ATTEMPTED, message + ", ".join(unmended) + ".")
    return Finding()


def _judge_loss(name: str, runs: Sequence[dict[str, Any]], kind: str) -> Finding | Verdict | None:
    """What is wrong with one loss, of one kind of fault; the worst kinds are asked for first."""
    for run, seen in zip(_LOSS_RUNS, runs, strict=True):
        found = _loss_fault(name, run, seen)
        if found is None or found[0] != kind:
            continue
        if kind == "error":
            return error_verdict(seen["error"])
        got = seen["loss"].get("dtype") if isinstance(seen["loss"], dict) else None
        return Finding(kind, (f"{name}, {run}: {found[1]}",), {"name": name, "got": got})
    return None


_LOSS_KINDS = (
    "error",
    "no-loss",
    "loss-not-finite",
    "gradient-not-finite",
    "loss-off",
    "gradient-off",
    "loss-not-float32",
    "changed-argument",
)


def _loss_fault(name: str, run: _LossRun, seen: dict[str, Any]) -> tuple[str, str] | None:
    """The kind of fault, and what was seen; None if the loss and its gradient are right."""
    if "error" in seen:
        return "error", ""
    loss = seen["loss"]
    if not isinstance(loss, dict) or loss.get("shape") != [] or "gradient" not in seen:
        return "no-loss", f"got {_what(loss)}"
    value, gradient = loss["values"], seen["gradient"]["values"]
    true_value, true_gradient = _loss_truth(name, run)
    largest = max(map(abs, true_gradient))
    apart = max(abs(a - b) for a, b in zip(gradient, true_gradient, strict=True))
    if not math.isfinite(value):
        return "loss-not-finite", f"expected {true_value:.4g}, got {value}"
    if not all(map(math.isfinite, gradient)):
        return "gradient-not-finite", f"the loss is {value:.4g}, and its gradient has inf or NaN"
    if abs(value - true_value) > 0.01 * abs(true_value):
        return "loss-off", f"expected {true_value:.4g}, got {value:.4g}"
    if apart > max(0.03 * largest, _GRADIENT_STEPS if run.dtype == HALF else 0.0):
        return "gradient-off", f"a gradient is off by {apart:.2g}, the largest is {largest:.2g}"
    if loss["dtype"] != "float32":
        return "loss-not-float32", f"got {loss['dtype']}"
    if seen["changed"]:
        return "changed-argument", "an argument is not what it was before the call"
    return None


def _what(loss: Any) -> str:
    """What was returned in place of a loss, in words."""
    if not isinstance(loss, dict) or "dict" in loss:
        return "None" if loss is None else f"a {type(loss).__name__}, and no tensor"
    if "object" in loss:
        return in_words(loss)
    if loss.get("shape") != []:
        return f"a tensor of shape {loss.get('shape')}"
    return "a tensor with no way back to the logits"


stable_losses = Exercise(
    "stable_losses",
    probe=_probe_losses,
    judge=_judge_losses,
    diagnoses={
        "no-loss": "{name} should return a tensor without dimensions that the logits' gradient can "
        "be computed from. Is a return missing, or the mean? detach(), item(), no_grad and a new "
        "tensor, as torch.tensor(...) makes it, cut the gradient off.",
        "loss-not-finite": "{name} gives inf or NaN. Look for the first step whose result does not "
        "fit: an exp, a sum over many terms, or the logarithm of what was rounded to 0. A cast "
        "after that step comes too late, and float32 alone does not save exp(128). A sum written "
        "as a matrix product (@, einsum) is cast back to 16 bits in a region, whatever you cast.",
        "gradient-not-finite": "{name} gives a loss that looks fine, and a gradient with inf or "
        "NaN: the backward pass multiplies 1/0, or 1 over a very small eps, by 0. Cutting the loss "
        "off afterwards does not mend that; start from the logits.",
        "loss-off": "{name} is finite and not right. Is it still the same loss, with its "
        "temperature, its smoothing, its mean? An eps or a clamp that keeps a log finite changes "
        "it too: from the logits none is needed.",
        "gradient-off": "{name} has the right value, and its gradient is not right: something that "
        "the gradient is computed from was rounded to 16 bits, or cut off, on the way. Cast the "
        "logits to float32 first.",
        "loss-not-float32": "{name} has the right value and returns {got}. float32 was asked for: "
        "cast the logits to it first, then the loss is float32 in a region and outside.",
    },
    hints=(
        "Ask of each loss: which intermediate value can leave the range of FP16? Of float32?",
        "Three of the four exist in torch in a form that takes logits. In the fourth it is a sum "
        "that does not fit.",
        "logits.float() first, then binary_cross_entropy_with_logits, cross_entropy with "
        "label_smoothing, cross_entropy of similarities over the temperature.",
    ),
    lesson_learned="A loss that starts from logits and in float32 needs no eps, and has a gradient "
    "where the model is most wrong.",
)


# ---- unit_rows ----------------------------------------------------------------------------------


def _row_cases() -> list[Case]:
    random = torch.Generator().manual_seed(21)

    def case(rows: Any, dtype: torch.dtype, label: str) -> Case:
        return Case((torch.as_tensor(rows, dtype=SINGLE).to(dtype),), label)

    noise = torch.randn(4, 6, generator=random)
    return [
        case(noise, HALF, "4 random rows, float16"),
        case([[3.0, -4.0], [0.0, 0.0]], HALF, "a row of zeros, float16"),
        case([[300.0, -200.0, 100.0]], HALF, "entries of 300, float16"),
        case([[5e4, 4e4, -5e4, 1e4]], HALF, "entries of 50,000, float16"),
        case([[0.003, -0.001, 0.002]], HALF, "entries of 0.003, float16"),
        case(100 * noise, BFLOAT, "4 larger rows, bfloat16"),
        case([[0.0] * 5, [2.0, 1.0, 0.0, -1.0, 5.0]], BFLOAT, "a row of zeros, bfloat16"),
        case([[0.003, -0.001, 0.002]], BFLOAT, "entries of 0.003, bfloat16"),
        case(100 * noise[:2, :3], SINGLE, "2 random rows, float32"),
        case([[0.0, 3.0, -1.0, -2.0], [-1.0, -3.0, -2.0, 0.0]], HALF, "a 0 in each row, float16"),
        case([[0.0, 0.0], [300.0, 100.0]], SINGLE, "a row of zeros, float32"),
    ]


def _true_unit_rows(x: Tensor) -> Tensor:
    wide = x.double()
    return (wide / wide.norm(dim=-1, keepdim=True).clamp_min(1e-30)).to(x.dtype)


def _length(x: Tensor) -> Tensor:
    return x.norm(dim=-1, keepdim=True)


def _root(x: Tensor, eps: float = 0.0) -> Tensor:
    return ((x * x).sum(-1, keepdim=True) + eps).sqrt()


def _divided(length: Callable[[Tensor], Tensor], wide: bool) -> Callable[[Tensor], Tensor]:
    """x over a length of x, computed in float32 or in the dtype of x."""

    def unit(x: Tensor) -> Tensor:
        given = x.float() if wide else x
        return (given / length(given)).to(x.dtype)

    return unit


unit_rows = function_exercise(
    "unit_rows",
    cases=_row_cases,
    reference=_true_unit_rows,
    misconceptions={
        "no-eps": Misconception(
            "Nothing keeps the length of a row of zeros from being 0: 0/0 is NaN, in float32 too.",
            _divided(_length, wide=True),
            _divided(_root, wide=True),
        ),
        "eps-underflows": Misconception(
            "Your eps is 0 in FP16, so a row of zeros gives 0/0. 1e-8 and F.normalize's 1e-12 are "
            "below the smallest number of FP16. (Entries of 50,000 go wrong as well: their length "
            "does not fit.) Compute in float32, or take an eps from torch.finfo(x.dtype).",
            _divided(_length, wide=False),
            _divided(_root, wide=False),
            _divided(lambda x: _length(x) + 1e-8, wide=False),
            _divided(lambda x: _length(x).clamp_min(1e-8), wide=False),
            _divided(lambda x: _root(x, 1e-8), wide=False),
            _divided(lambda x: _root(x) + 1e-8, wide=False),
            F.normalize,
        ),
        "length-overflows": Misconception(
            "Your eps survives; the length does not. In FP16 the squares of 300, or the length of "
            "a row of 50,000s, are beyond 65504: inf, and a row divided by inf is a row of zeros. "
            "Compute the length in float32, and divide there.",
            lambda x: x / x.float().norm(dim=-1, keepdim=True).clamp_min(1e-6).to(x.dtype),
            _divided(lambda x: _length(x).clamp_min(torch.finfo(x.dtype).tiny), wide=False),
            _divided(lambda x: _length(x).clamp_min(torch.finfo(x.dtype).eps), wide=False),
            _divided(lambda x: _length(x).clamp_min(1e-4), wide=False),
            _divided(lambda x: _length(x).clamp_min(1e-5), wide=False),
            _divided(lambda x: _length(x).clamp_min(1e-6), wide=False),
            _divided(lambda x: _length(x) + 1e-6, wide=False),
            _divided(lambda x: _root(x).clamp_min(torch.finfo(x.dtype).tiny), wide=False),
            _divided(lambda x: _root(x).clamp_min(1e-6), wide=False),
            _divided(lambda x: _root(x) + 1e-6, wide=False),
        ),
        "eps-too-large": Misconception(
            "Your eps survives, and it changes rows that are not zero: beside a length of 0.004 it "
            "is not small. (Under the root it is compared with the *square* of the length.)",
            *(_divided(lambda x, e=e: _length(x) + e, wide=True) for e in (1e-3, 1e-4, 2.0**-14)),
            *(_divided(lambda x, e=e: _root(x, e), wide=True) for e in (1e-4, 1e-5, 1e-6)),
            *(_divided(lambda x, e=e: _length(x).clamp_min(e), wide=True) for e in (1e-1, 1e-2)),
            lambda x: (x.float() / (_length(x.float()) + torch.finfo(x.dtype).eps)).to(x.dtype),
            lambda x: (x.float() / _length(x.float()).clamp_min(torch.finfo(x.dtype).eps)).to(
                x.dtype
            ),
        ),
        "another-measure": Misconception(
            "You divide by another measure of the row than its length, such as the sum of the "
            "absolute values, the largest entry, or the sum of the squares without its root.",
            _divided(lambda x: x.abs().sum(-1, keepdim=True).clamp_min(1e-6), wide=True),
            _divided(lambda x: x.abs().amax(-1, keepdim=True).clamp_min(1e-6), wide=True),
            _divided(lambda x: x.square().sum(-1, keepdim=True).clamp_min(1e-12), wide=True),
        ),
        "one-length-for-all": Misconception(
            "You divide all rows by one length. Each row has its own: dim=-1, keepdim=True.",
            lambda x: (x.float() / x.float().norm().clamp_min(1e-6)).to(x.dtype),
        ),
    },
    hints=(
        "Three rows to think of: zeros, entries of 300, entries of 0.003.",
        "Where do the squares fit? And the eps?",
        "Cast to float32, divide by the length with clamp_min of something small, cast back.",
    ),
    lesson_learned="An eps has to be larger than the smallest number of its dtype and smaller than "
    "every length that counts. float32 has room for both.",
    same=within_ulps(4),
    asked_for="a tensor with the dtype and shape of x",
)


# ---- safe_rms_norm ------------------------------------------------------------------------------


def _norm_cases() -> list[Case]:
    random = torch.Generator().manual_seed(22)

    def case(rows: Any, dtype: torch.dtype, eps: float, label: str) -> Case:
        rows = torch.as_tensor(rows, dtype=SINGLE).to(dtype)
        weight = 1 + 0.5 * torch.randn(rows.shape[-1], generator=random)
        return Case((rows, weight, eps), label)

    noise = 2 + torch.randn(3, 6, generator=random)
    return [
        case(noise, HALF, 1e-5, "3 random rows, float16"),
        case(noise, BFLOAT, 1e-5, "3 random rows, bfloat16"),
        case(noise, SINGLE, 1e-5, "3 random rows, float32"),
        case([[300.0, -300.0, 600.0, 100.0]], HALF, 1e-6, "entries of 600, float16"),
        case([[6e4, 3e4, -5e4]], HALF, 1e-6, "entries of 60,000, float16"),
        case([[1e-3, -2e-3, 3e-3, 1e-4]], HALF, 1e-6, "entries of 0.003, eps 1e-6, float16"),
        case([[1e-4, -2e-4, 3e-4]], HALF, 1e-8, "entries of 0.0003, eps 1e-8, float16"),
        case([[0.0, 0.0], [3.0, 1.0]], HALF, 1e-6, "a row of zeros, float16"),
        case([[0.0, 0.0], [3.0, 1.0]], HALF, 1e-12, "a row of zeros, eps 1e-12, float16"),
        case([[0.3, 0.1, 0.2]], BFLOAT, 0.5, "an eps of 0.5, bfloat16"),
        case([[4e4, 3e4, -5e4]], SINGLE, 1e-6, "entries of 50,000, float32"),
    ]


def _exact_rms(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.double()
    mean_square = wide.square().mean(-1, keepdim=True)
    return (wide / (mean_square + eps).sqrt() * weight.double()).to(x.dtype)


def _rms(
    square: Callable[[Tensor], Tensor] = lambda x: x * x,
    scale: Callable[[Tensor, float], Tensor] = lambda ms, eps: torch.rsqrt(ms + eps),
    *,
    wide: bool = True,
    weighted: bool = True,
) -> Callable[[Tensor, Tensor, float], Tensor]:
    """An RMS norm, with a change in it the models of the misconceptions."""

    def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
        given = x.float() if wide else x
        normed = given * scale(square(given).mean(-1, keepdim=True), eps)
        return (normed * weight if weighted else normed).to(x.dtype)

    return norm


safe_rms_norm = function_exercise(
    "safe_rms_norm",
    cases=_norm_cases,
    reference=_exact_rms,
    misconceptions={
        "squares-in-16-bits": Misconception(
            "Your squares are 16 bits wide. From 256 on they are inf in FP16, 1/sqrt(inf) is 0, "
            "and the norm returns zeros without a word; small ones vanish, and an eps of 1e-8 with "
            "them. Cast x to float32 first, and back at the end.",
            _rms(wide=False),
            _rms(torch.square, wide=False),
            _rms(scale=lambda ms, eps: 1 / (ms + eps).sqrt(), wide=False),
            lambda x, w, eps: (x / ((x * x).mean(-1, keepdim=True) + eps).sqrt() * w).to(x.dtype),
            lambda x, w, eps: (
                x.float() * torch.rsqrt((x * x).mean(-1, keepdim=True).float() + eps) * w
            ).to(x.dtype),
            lambda x, w, eps: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w.to(x.dtype),
        ),
        "mean-subtracted": Misconception(
            "You subtracted the mean. That is layer norm; the root mean square is taken of x as it "
            "is.",
            lambda x, w, eps: F.layer_norm(x.float(), w.shape, w, None, eps).to(x.dtype),
            lambda x, w, eps: _rms()(x.float() - x.float().mean(-1, keepdim=True), w, eps).to(
                x.dtype
            ),
        ),
        "eps-outside-the-root": Misconception(
            "Your eps stands outside the root. Inside, it is added to the mean *square*: that is "
            "another number wherever eps matters.",
            _rms(scale=lambda ms, eps: 1 / (ms.sqrt() + eps)),
        ),
        "eps-forgotten": Misconception(
            "Your norm has no eps, so a row of zeros is 0/0, and small rows come out too large.",
            _rms(scale=lambda ms, eps: torch.rsqrt(ms)),
            _rms(scale=lambda ms, eps: torch.rsqrt(ms + 1e-12)),
        ),
        "eps-of-your-own": Misconception(
            "Your eps is not the one that was passed. F.rms_norm without eps= takes that of "
            "float32, 1.2e-7.",
            lambda x, w, eps: F.rms_norm(x.float(), w.shape, w).to(x.dtype),
            *(_rms(scale=lambda ms, eps, e=e: torch.rsqrt(ms + e)) for e in (1e-5, 1e-6, 1e-8)),
        ),
        "weight-forgotten": Misconception(
            "The weight is missing: it multiplies the normed values.", _rms(weighted=False)
        ),
        "sum-for-mean": Misconception(
            "You took the sum of the squares. The *mean* square does not grow with the width.",
            lambda x, w, eps: (
                x.float() * torch.rsqrt(x.float().square().sum(-1, keepdim=True) + eps) * w
            ).to(x.dtype),
        ),
        "one-mean-for-all": Misconception(
            "You took one mean over all rows. Each row has its own: dim=-1, keepdim=True.",
            lambda x, w, eps: (x.float() * torch.rsqrt(x.float().square().mean() + eps) * w).to(
                x.dtype
            ),
        ),
    },
    hints=(
        "Which is the first intermediate value that does not fit FP16 when an entry is 300?",
        "Compute everything in float32, and cast the result to the dtype of x.",
        "wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * weight, and F.rms_norm "
        "does it for you if you pass it the eps.",
    ),
    lesson_learned="Torch's own norms read 16 bits, compute in float32 and write 16 bits. Yours "
    "now does too.",
    same=within_ulps(4),
    asked_for="a tensor with the dtype and shape of x",
)


# ---- residual_stream ----------------------------------------------------------------------------


class _Block(nn.Module):
    """A norm and a linear layer, which notes the dtype that the linear layer gives."""

    def __init__(self, width: int, weight: float, bias: float, random: torch.Generator) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.linear = nn.Linear(width, width)
        with torch.no_grad():
            self.linear.weight.copy_(weight * torch.randn(width, width, generator=random))
            self.linear.bias.copy_(bias * (1 + 0.1 * torch.randn(width, generator=random)))
        self.seen: list[str] = []

    def forward(self, x: Tensor) -> Tensor:
        y = self.linear(self.norm(x))
        self.seen.append(_name(y.dtype))
        return y


@cache
def _stream_cases() -> tuple[Case, ...]:
    random = torch.Generator().manual_seed(23)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(23)

        def case(x: Any, count: int, size: tuple[float, float], *dtypes: Any, label: str) -> Case:
            given, region = dtypes
            start = x + torch.randn(3, 6, generator=random)
            blocks = [_Block(6, *size, random) for _ in range(count)]
            label = f"{label}; x {_name(given)}, region {_name(region)}"
            return Case((start.to(given), blocks, region), label)

        little, much = (0.05, 0.5), (0.3, 4000.0)
        return (
            case(0.0, 5, (0.3, 0.0), SINGLE, HALF, label="5 blocks"),
            case(0.0, 3, (0.3, 0.0), BFLOAT, BFLOAT, label="3 blocks"),
            case(300.0, 40, little, BFLOAT, BFLOAT, label="40 small blocks on a stream of 300"),
            case(2500.0, 80, (0.05, 0.7), HALF, HALF, label="80 blocks on a stream of 2500"),
            case(300.0, 40, little, SINGLE, BFLOAT, label="40 small blocks on a stream of 300"),
            case(1.0, 25, much, HALF, HALF, label="25 blocks that add 4000 each"),
            case(1.0, 25, much, SINGLE, HALF, label="25 blocks that add 4000 each"),
        )


def _fed_in_16_bits(x: Tensor, blocks: list[_Block], region: torch.dtype) -> Tensor:
    x = x.float()
    with torch.autocast("cpu", dtype=region):
        for block in blocks:
            x = x + block(x.to(region))
    return x


def _marks(block: nn.Module) -> set[str]:
    """What of a block a caller would find changed, if an answer changed it, in words."""
    words = {f"{_name(p.dtype)} weights" for p in block.parameters()}
    if not all(p.requires_grad for p in block.parameters()):
        words.add("frozen weights")
    if any(m._forward_hooks or m._forward_pre_hooks for m in block.modules()):
        words.add("hooks")
    return words


def _cast_for_good(x: Tensor, blocks: list[_Block], region: torch.dtype) -> Tensor:
    x = x.float()
    for block in blocks:
        x = x + block.to(region)(x.to(region))
    return x


def _linear_cast_for_good(x: Tensor, blocks: list[_Block], region: torch.dtype) -> Tensor:
    x = x.float()
    with torch.autocast("cpu", dtype=region):
        for block in blocks:
            block.linear.to(region)
            x = x + block(x)
    return x


def _play_stream(function: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    def played(x: Tensor, blocks: list[_Block], region: torch.dtype) -> dict[str, Any]:
        with _region(None):
            result = function(x, blocks, region)
            left_on = _is_enabled("cpu")
        ran = sorted({name for block in blocks for name in block.seen})
        after = sorted({word for block in blocks for word in _marks(block)})
        times = [len(block.seen) for block in blocks]
        dtype = _name(result.dtype) if type(result) is Tensor else type(result).__name__
        return {
            "linear layers ran in": ran,
            "runs of each block": times,
            "the blocks afterwards": after,
            "autocast is on afterwards": left_on,
            "dtype of the stream": dtype,
            "stream": result,
        }

    return played


def _stream(
    start: Callable[[Tensor, torch.dtype], Tensor] = lambda x, region: x,
    add: Callable[[Tensor, Tensor], Tensor] = torch.add,
    end: Callable[[Tensor], Tensor] = lambda x: x,
    *,
    autocast: bool = True,
    default_dtype: bool = False,
) -> Callable[..., Tensor]:
    """A stream with a change in it: the models of the misconceptions."""

    def stream(x: Tensor, blocks: list[_Block], region: torch.dtype) -> Tensor:
        x = start(x, region)
        dtype = None if default_dtype else region
        with torch.autocast("cpu", dtype=dtype, enabled=autocast):
            for block in blocks:
                x = add(x, block(x))
        return end(x)

    return stream


residual_stream = function_exercise(
    "residual_stream",
    cases=_stream_cases,
    reference=_stream(lambda x, region: x.float()),
    misconceptions={
        "stream-as-it-comes": Misconception(
            "The stream keeps the dtype that x came with. A sum takes the wider of two dtypes, and "
            "here both are 16 bit: in FP16 it passes 65504, in BF16 what is added to 300 is lost. "
            "Widen x before the first block, not after the last.",
            _stream(),
            _stream(end=lambda x: x.float()),
        ),
        "stream-in-the-regions-dtype": Misconception(
            "You cast the stream to the region's dtype. Autocast casts what the linear layers "
            "need; the stream is what must not be cast.",
            _fed_in_16_bits,
            _stream(lambda x, region: x.to(region)),
            _stream(lambda x, region: x.to(region), end=lambda x: x.float()),
            _stream(lambda x, region: x.float(), lambda x, y: (x + y).to(y.dtype)),
            _stream(
                lambda x, region: x.float(), lambda x, y: (x + y).to(y.dtype), lambda x: x.float()
            ),
            _stream(lambda x, region: x.float(), lambda x, y: x.to(y.dtype) + y),
            _stream(
                lambda x, region: x.float(), lambda x, y: x.to(y.dtype) + y, lambda x: x.float()
            ),
        ),
        "blocks-cast-for-good": Misconception(
            "You cast the blocks' own weights to 16 bits, and they stay so after the call. Whoever "
            "trains them needs them in float32; autocast makes copies, and drops them.",
            _cast_for_good,
            _linear_cast_for_good,
        ),
        "blocks-in-float32": Misconception(
            "The stream is right, and the blocks run in float32: no region of the CPU's is open "
            "while they do. Only the sums need float32.",
            _stream(lambda x, region: x.float(), autocast=False),
        ),
        "region-without-its-dtype": Misconception(
            'Your region has no dtype of its own: torch.autocast("cpu") means bfloat16. The blocks '
            "are to run in the dtype that was passed as region.",
            _stream(lambda x, region: x.float(), default_dtype=True),
        ),
        "stream-not-added": Misconception(
            "Each block replaces the stream. It should be added to it: x + block(x).",
            _stream(lambda x, region: x.float(), lambda x, y: y),
            _stream(lambda x, region: x.float(), lambda x, y: y.float()),
            _stream(lambda x, region: x.float(), lambda x, y: y, lambda x: x.float()),
        ),
    },
    hints=(
        "Which dtype has float32 + float16? And float16 + float16?",
        "The first tensor of the stream decides for all that follow.",
        "x.float() before the loop, a region around it, and x = x + block(x) inside.",
    ),
    lesson_learned="The dtype of the first tensor decides for the whole stream; the blocks run in "
    "16 bits all the same.",
    same=within(0.01),
    asked_for="a float32 tensor of the shape of x",
    play=_play_stream,
)


# ---- Functions of one's own ---------------------------------------------------------------------


class _Products(TorchDispatchMode):
    """Notes the dtype of each matrix product that runs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func.overloadpacket._qualified_op_name in _PRODUCTS:
            self.seen.append(_name(result.dtype))
        return result


_PRODUCTS = {
    f"aten::{name}"
    for name in ("mm", "addmm", "bmm", "baddbmm", "matmul", "mv", "addmv", "linear", "dot")
}


@dataclass(frozen=True)
class _Scenario:
    """Where a Function's two halves are called: in a region of a dtype, or in none."""

    forward: torch.dtype | None
    backward: torch.dtype | None
    x: torch.dtype = SINGLE

    def __str__(self) -> str:
        forward, backward = (
            "in no region" if d is None else f"in a {_name(d)} region"
            for d in (self.forward, self.backward)
        )
        return f"x {_name(self.x)}, forward {forward}, backward {backward}"


Args = tuple[Tensor, Tensor]


def _call_function(function: Any, args: Args, scenario: _Scenario) -> dict[str, Any]:
    """Run both halves; their products' dtypes, the results, and the error, as plain data."""
    x, other = args
    inputs = [t for t in args if t.requires_grad]
    seen: dict[str, Any] = {"noted": None, "forward": [], "backward": []}
    try:
        with _region(scenario.forward), _Products() as products:
            before = _is_enabled("cpu"), _get_dtype("cpu")
            result = function(x, other)
            seen["state left"] = (_is_enabled("cpu"), _get_dtype("cpu")) == before
        seen |= {"forward": products.seen, "value": plain(result)}
        if not isinstance(result, Tensor) or not result.requires_grad:
            return seen | {"own": False}
        node = _own_node(result)
        seen |= {"own": node is not None, "noted": getattr(node, "_fwd_used_autocast", None)}
        if seen["noted"] is not None:
            seen["noted"] = bool(seen["noted"])
        with _region(HALF if scenario.forward is BFLOAT else BFLOAT):
            function(x, other)  # what the first call noted must outlive another call
        weights = torch.linspace(0.5, 1.5, result.numel()).reshape(result.shape)
        with _region(scenario.backward), _Products() as products:
            gradients = _autograd_grad(result, inputs, weights.to(result.dtype), allow_unused=True)
        return seen | {"backward": products.seen, "gradients": [plain(g) for g in gradients]}
    except NotImplementedError:
        return {"unattempted": True}
    except Exception as error:
        return seen | {"error": describe_error(error)}


def _own_node(result: Tensor) -> Any:
    """The node of a custom Function in the graph of a result, or None."""
    todo, done = [result.grad_fn], set()
    while todo:
        node = todo.pop()
        if node is None or node in done:
            continue
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            return node
        done.add(node)
        todo += [following for following, _ in node.next_functions]
    return None


def _apart(expected: Tensor, seen: Any) -> float:
    """The largest difference of two tensors, over the largest number expected; inf if not alike."""
    if not isinstance(seen, dict) or seen.get("shape") != list(expected.shape):
        return math.inf
    values = torch.tensor(seen["values"], dtype=torch.float64)
    apart = ((values - expected).abs().max() / expected.abs().max()).item()
    return apart if math.isfinite(apart) else math.inf


def _beside(expected: Tensor, seen: Any) -> str:
    """Where two tensors are most apart, in words."""
    if not isinstance(seen, dict) or seen.get("shape") != list(expected.shape):
        got = f"shape {seen['shape']}" if isinstance(seen, dict) and "shape" in seen else seen
        return f"expected shape {list(expected.shape)}, got {got}"
    place, one, other = most_different(expected.tolist(), seen["values"])
    return f"{place} expected {one:.4g}, got {other:.4g}".strip()


def _dtype_words(data: Any) -> bool:
    """Whether an error is about two dtypes that met; its wording differs by op and version."""
    text = str(data.get("message", "")).lower()
    return any(word in text for word in ("dtype", "scalar type", "c10::", "same type"))


@dataclass(frozen=True)
class _FunctionCheck:
    """What an exercise on a Function of one's own expects.

    Args:
        name: of the exercise.
        scenarios: where its halves are called.
        args: makes x and the other argument for a scenario and a seed.
        formula: the result in float64, by autograd.
        broken: the Function as it stands in the sheet.
        products: the dtype of the matrix products that is right in a scenario.
        result: the dtype of the result that is right.
        blame: the diagnosis for products of the wrong dtype: takes the scenario, the half
            ("forward", "backward", or "error" where two dtypes met), and what was seen, with
            "follows region" added to it: whether every forward ran its products in the dtype of
            its region.
        recomputed: how many products the backward has at least, if it keeps none of the forward.
    """

    name: str
    scenarios: tuple[_Scenario, ...]
    args: Callable[[_Scenario, int], Args]
    formula: Callable[[Tensor, Tensor], Tensor]
    broken: type[torch.autograd.Function]
    products: Callable[[_Scenario], torch.dtype]
    result: Callable[[_Scenario], torch.dtype]
    blame: Callable[[_Scenario, str, dict[str, Any]], str]
    recomputed: int = 0

    SEEDS = (1, 6)

    def probe(self, function: Any) -> Any:
        return [self._call(function, *run) for run in self._runs()]

    def _runs(self) -> list[tuple[_Scenario, int]]:
        return [(scenario, seed) for scenario in self.scenarios for seed in self.SEEDS]

    def _call(self, function: Any, scenario: _Scenario, seed: int) -> dict[str, Any]:
        args = self.args(scenario, seed)
        seen = _call_function(function, args, scenario)
        pairs = zip(args, self.args(scenario, seed), strict=True)
        return seen | {"changed": not all(_equal(a.detach(), b.detach()) for a, b in pairs)}

    def judge(self, evidence: Any) -> Finding | Verdict:
        runs = self._runs()
        if not isinstance(evidence, list) or len(evidence) != len(runs):
            raise DamagedEvidence("not one entry for each run")
        if any("unattempted" in seen for seen in evidence):
            return Verdict(State.NOT_ATTEMPTED, "Your answer is still the stub.")
        if [_products(seen) for seen in evidence] == self._as_given():
            return Verdict(State.NOT_ATTEMPTED, "The Function still behaves as it was given.")
        follows = all(
            set(seen["forward"]) == {_name(scenario.forward)}
            for (scenario, _), seen in zip(runs, evidence, strict=True)
            if scenario.forward is not None
        )
        for (scenario, seed), seen in zip(runs, evidence, strict=True):
            wrong = self._fault(scenario, seed, seen | {"follows region": follows})
            if wrong is not None:
                return wrong
        fewest = min(len(seen["backward"]) for seen in evidence)
        if fewest < self.recomputed and all(seen["forward"] for seen in evidence):
            return Finding("product-kept", (f"products in the backward: {fewest}",))
        return Finding()

    def _as_given(self) -> list[Any]:
        return [_products(self._call(self.broken.apply, *run)) for run in self._runs()]

    def _fault(self, scenario: _Scenario, seed: int, seen: dict[str, Any]) -> Any:
        if "error" in seen:
            return self._error(scenario, seen)
        if seen["value"] is None:
            return Finding("returned-none")
        if not isinstance(seen["value"], dict) or "values" not in seen["value"]:
            return Finding("wrong-type", (), {"got": "no tensor", "expected": "a tensor"})
        if not seen["own"]:
            return Finding("no-function", (str(scenario),))
        line = f"{scenario}: products in {_short(seen['forward'])}, then {_short(seen['backward'])}"
        right = _name(self.products(scenario))
        allowed = {right, "float64"} if right == "float32" else {right}
        for part in ("forward", "backward"):
            if not set(seen[part]) <= allowed:
                return Finding(self.blame(scenario, part, seen), (line,), {"right": right})
        if not seen["state left"]:
            return Finding("state-left-behind", (str(scenario),))
        return self._values(scenario, seed, seen)

    def _error(self, scenario: _Scenario, seen: dict[str, Any]) -> Finding | Verdict:
        error, lines = seen["error"], (str(scenario),)
        if "_fwd_used_autocast" in str(error.get("message")):
            return Finding("bwd-without-fwd", lines)
        if _dtype_words(error):
            where = error_verdict(error).seen
            lines += (*where, error["message"][:120])
            return Finding(self.blame(scenario, "error", seen), lines)
        return error_verdict(error)

    def _values(self, scenario: _Scenario, seed: int, seen: dict[str, Any]) -> Finding | None:
        args = self.args(scenario, seed)
        exact = [a.detach().double().requires_grad_(a.requires_grad) for a in args]
        value = self.formula(*exact)
        weights = torch.linspace(0.5, 1.5, value.numel(), dtype=torch.float64).reshape(value.shape)
        inputs = [a for a in exact if a.requires_grad]
        gradients = _autograd_grad(value, inputs, weights)
        coarsest = max(torch.finfo(d).eps for d in (self.products(scenario), scenario.x))
        tolerance = max(1e-4, 8 * coarsest)
        if seen["value"]["dtype"] != _name(self.result(scenario)):
            got = seen["value"]["dtype"]
            expected = f"{_name(self.result(scenario))} ({scenario})"
            return Finding("wrong-type", (), {"got": got, "expected": expected})
        pairs = [("the result", value.detach(), seen["value"])]
        names = [f"the gradient of argument {i}" for i, a in enumerate(exact) if a.requires_grad]
        pairs += zip(names, gradients, seen["gradients"], strict=True)
        for what, true, given in pairs:
            if _apart(true, given) > tolerance:
                return Finding("wrong-value", (f"{scenario}: {what}: {_beside(true, given)}",))
        if seen["changed"]:
            return Finding("changed-argument", (str(scenario),))
        return None


def _products(seen: dict[str, Any]) -> Any:
    """What tells one behaviour from another: the products of both halves, custom_fwd's note, and
    of the result its dtype and what of it is finite."""
    error = "error" in seen and seen["error"].get("type")
    value = seen.get("value") if isinstance(seen.get("value"), dict) else {}
    finite = torch.tensor(value.get("values") or [], dtype=torch.float64).isfinite().tolist()
    noted = seen.get("noted"), seen.get("own"), value.get("dtype"), finite
    return seen.get("forward"), seen.get("backward"), noted, error


def _short(names: list[str]) -> str:
    return "/".join(dict.fromkeys(names)) or "none"


_COMMON_FUNCTION_TEXTS = {
    "other-device": "custom_fwd noted that autocast was off, in a region of the CPU: it was asked "
    "about another device. torch.cuda.amp.custom_fwd always asks about CUDA. These tensors are on "
    'the CPU: device_type="cpu".',
    "bwd-without-fwd": "custom_bwd restores what custom_fwd noted, and here nothing was noted: "
    "forward has no custom_fwd, or its first argument is not ctx (as in a Function with "
    "setup_context).",
    "state-left-behind": "Your Function leaves autocast in another state than it found it in, so "
    "whatever runs next in the caller's region runs in another precision. A `with` puts the state "
    "back; torch.set_autocast_enabled does not.",
    "no-function": "What you return was not computed by a Function of yours (no node of one is in "
    "its graph), so the gradient does not go through your backward.",
}


def _silu_args(scenario: _Scenario, seed: int) -> Args:
    random = torch.Generator().manual_seed(seed)
    rows, width, out = 2 + seed, 4, 3 + seed
    x = torch.randn(rows, width, generator=random)
    weight = 0.5 * torch.randn(width, out, generator=random)
    return x.requires_grad_(), weight.requires_grad_()


class _GivenSilu(torch.autograd.Function):
    """The Function as it stands in the sheet."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return F.silu(x @ weight)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        h = x @ weight
        s = torch.sigmoid(h)
        grad_h = grad * (s + h * s * (1 - s))
        return grad_h @ weight.T, x.T @ grad_h


def _blame_silu(scenario: _Scenario, part: str, seen: dict[str, Any]) -> str:
    if part == "error":
        return "dtypes-meet"
    if part == "forward":
        wide = scenario.forward is not None and set(seen["forward"]) == {"float32"}
        return "forward-in-float32" if wide else "one-dtype-for-all"
    if scenario.forward is not None and seen["noted"] is False:
        return "other-device"
    if seen["noted"]:
        return "fwd-without-bwd"
    ran = set(seen["backward"])
    right = _name(scenario.forward or SINGLE)
    if scenario.backward is not None and ran - {right} == {_name(scenario.backward)}:
        return "backward-elsewhere"
    return "backward-in-float32" if ran == {"float32"} else "one-dtype-for-all"


_SILU = _FunctionCheck(
    "recomputed_silu",
    scenarios=(
        _Scenario(None, None),
        _Scenario(HALF, None),
        _Scenario(BFLOAT, None),
        _Scenario(None, BFLOAT),
        _Scenario(HALF, BFLOAT),
        _Scenario(HALF, HALF),
    ),
    args=_silu_args,
    formula=lambda x, weight: F.silu(x @ weight),
    broken=_GivenSilu,
    products=lambda scenario: scenario.forward or SINGLE,
    result=lambda scenario: scenario.forward or SINGLE,
    blame=_blame_silu,
    recomputed=3,
)

recomputed_silu = Exercise(
    "recomputed_silu",
    probe=_SILU.probe,
    judge=_SILU.judge,
    diagnoses=_COMMON_FUNCTION_TEXTS
    | {
        "fwd-without-bwd": "custom_fwd noted autocast's state, and the products of the backward do "
        'not run in it: custom_bwd(device_type="cpu") is missing, or a region of your own inside '
        "overrides it.",
        "backward-in-float32": "The forward's product ran in 16 bits, the backward's in float32: "
        "backward() is called outside the region, where nothing casts. Restore the forward's state "
        "around it.",
        "backward-elsewhere": "The backward, or a part of it, follows the region that backward() "
        "is called in, and not the one of the forward. Casting the tensors is not enough: a region "
        "that is open casts them again.",
        "forward-in-float32": "The forward's product runs in float32 in a region: autocast is off "
        "inside. That is what cast_inputs=torch.float32 is for, and here 16 bits were asked for.",
        "product-kept": "The dtypes are right, and the backward computes fewer products than it "
        "has to: the product of x and the weight is kept from the forward, and so is its memory. "
        "This Function is there to save it: keep x and the weight, and compute it again.",
        "one-dtype-for-all": "A product runs in a dtype that the region of the forward does not "
        "ask for: here {right} is right. Is a dtype written into the code, a region opened where "
        "the forward had none, or the state noted where the next call overwrites it? ctx belongs "
        "to one call. custom_fwd without cast_inputs leaves the choice to autocast.",
        "dtypes-meet": "Two dtypes meet in a product. Cast all that goes into it, or let autocast "
        "do it, in the state that the forward ran in.",
    },
    hints=(
        "In which state of autocast does forward run, and in which does backward?",
        "Two decorators do it: one notes the state, one restores it. They stand below "
        "@staticmethod, and take a device_type.",
        '@torch.amp.custom_fwd(device_type="cpu") and @torch.amp.custom_bwd(device_type="cpu")',
    ),
    lesson_learned="The backward of your Function now runs in the state that its forward ran in, "
    "wherever it is called. That is all the two decorators do.",
)


def _energy_args(scenario: _Scenario, seed: int) -> Args:
    random = torch.Generator().manual_seed(seed)
    rows, width = 1 + seed, 5
    x = 300 * torch.randn(rows, width, generator=random)
    matrix = torch.randn(width, width, generator=random)
    return x.to(scenario.x).requires_grad_(), matrix + matrix.T


class _GivenEnergy(torch.autograd.Function):
    """The Function as it stands in the sheet."""

    @staticmethod
    def forward(ctx, x: Tensor, matrix: Tensor) -> Tensor:
        ctx.save_for_backward(x, matrix)
        return 0.5 * ((x @ matrix) * x).sum(-1)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None]:
        x, matrix = ctx.saved_tensors
        return grad.unsqueeze(-1) * (x @ matrix), None


def _blame_energy(scenario: _Scenario, part: str, seen: dict[str, Any]) -> str:
    if part == "backward" and (scenario.backward is not None or not seen["noted"]):
        return "backward-in-16-bits"
    if seen["noted"]:
        return "state-is-no-precision"
    if seen["noted"] is False and seen["follows region"]:
        return "other-device"
    return "dtypes-meet" if part == "error" else "forward-in-16-bits"


_ENERGY = _FunctionCheck(
    "wide_energy",
    scenarios=(
        _Scenario(None, None),
        _Scenario(HALF, None, HALF),
        _Scenario(HALF, None),
        _Scenario(BFLOAT, None, BFLOAT),
        _Scenario(HALF, HALF, HALF),
        _Scenario(None, BFLOAT),
    ),
    args=_energy_args,
    formula=lambda x, matrix: 0.5 * ((x @ matrix) * x).sum(-1),
    broken=_GivenEnergy,
    products=lambda scenario: SINGLE,
    result=lambda scenario: SINGLE,
    blame=_blame_energy,
)

wide_energy = Exercise(
    "wide_energy",
    probe=_ENERGY.probe,
    judge=_ENERGY.judge,
    diagnoses=_COMMON_FUNCTION_TEXTS
    | {
        "state-is-no-precision": "custom_fwd without cast_inputs notes the state of autocast and "
        "leaves it on, and custom_bwd puts it back, so your product still runs in 16 bits. What "
        "casts is cast_inputs=torch.float32, and it turns autocast off as well.",
        "forward-in-16-bits": "The forward's product still runs in 16 bits. .float() inside a "
        "region does not help a matrix product: autocast casts it back. Switch autocast off, for "
        "the device that computes, *and* cast. A cast of the result comes after the overflow.",
        "backward-in-16-bits": "The forward is right, and the backward's product runs in 16 bits. "
        "backward() may be called in a region: autocast has to be off inside, there too.",
        "dtypes-meet": "A 16-bit tensor meets the float32 matrix in a product: autocast is off, "
        "and nothing was cast. x has to be float32 in both halves.",
    },
    hints=(
        "Two things are needed in both halves: float32 inputs, and autocast off.",
        "custom_fwd has an argument that does both.",
        "cast_inputs=torch.float32 for custom_fwd; and custom_bwd, for a backward inside a region.",
    ),
    lesson_learned="cast_inputs casts and switches autocast off, in both halves: that is how an op "
    "without 16-bit arithmetic takes part in mixed precision.",
)
