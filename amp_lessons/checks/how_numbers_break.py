"""Lesson 02's exercises: sums, logarithms and masks that hold in 16 bits, and naming faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from amp_lessons.checks.cases import Case, Misconception, Rule, function_exercise
from amp_lessons.checks.legacy import Exercise, Finding
from amp_lessons.checks.verdict import State, Verdict
from amp_lessons.formats import BF16, FP16, FP32, Format

_FORMAT_OF = {"float16": FP16, "bfloat16": BF16, "float32": FP32}


def within_ulps(count: float, at_least: float = 0.0) -> Callable[[Any, Any], bool]:
    """Tensors of the same dtype and shape whose numbers differ by at most ``count`` ulp.

    The ulp is that of the expected number, or of ``at_least`` if that is larger: where a result
    is the difference of numbers around 1, its error is measured against them.
    """

    def close(expected: Any, seen: Any, format: Format) -> bool:
        if isinstance(expected, list):
            return all(close(e, s, format) for e, s in zip(expected, seen, strict=True))
        if expected != expected or seen != seen or abs(expected) == float("inf"):
            return (expected != expected) == (seen != seen) and (
                expected != expected or expected == seen
            )
        return abs(expected - seen) <= count * format.ulp(max(abs(expected), at_least))

    def same(expected: Any, seen: Any) -> bool:
        if not isinstance(seen, dict) or "values" not in seen:
            return False
        alike = all(expected[key] == seen[key] for key in ("dtype", "shape"))
        return alike and close(expected["values"], seen["values"], _FORMAT_OF[seen["dtype"]])

    return same


# ---- kahan_sum --------------------------------------------------------------------------------


def _sum_cases() -> list[Case]:
    random = torch.Generator().manual_seed(4)

    def case(values: Tensor, label: str) -> Case:
        return Case((values.half(),), label)

    return [
        case(torch.tensor([2048.0] + [1.0] * 100), "2048, then a hundred ones"),
        case(torch.rand(400, generator=random), "400 numbers between 0 and 1"),
        case(torch.full((700,), 0.1), "0.1, seven hundred times"),
        case(torch.tensor([1.0] + [1e-4] * 500), "1, then 0.0001 five hundred times"),
        case(10 + torch.randn(300, generator=random), "300 numbers around 10"),
        case(torch.tensor([-1000.0] + [-0.2] * 300), "-1000, then -0.2 three hundred times"),
        case(torch.tensor([7.0]), "a single 7"),
    ]


def _exact_sum(values: Tensor) -> Tensor:
    return values.double().sum().half()


def _naive_sum(values: Tensor) -> Tensor:
    total = torch.zeros((), dtype=values.dtype)
    for value in values:
        total = total + value
    return total


def _kahan(step: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]):
    """Kahan's loop with another step in it: the models of the misconceptions."""

    def compensated(values: Tensor) -> Tensor:
        total = torch.zeros((), dtype=values.dtype)
        lost = torch.zeros((), dtype=values.dtype)
        for value in values:
            total, lost = step(total, lost, value)
        return total

    return compensated


def _wrong_sign(total: Tensor, lost: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    value = value + lost
    new = total + value
    return new, (new - total) - value


def _after_the_update(total: Tensor, lost: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    value = value - lost
    total = total + value
    return total, (total - total) - value


def _forgets(total: Tensor, lost: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    value = value - lost
    new = total + value
    return new, new - total


def _breaks_out_of_fp16(ops: list[dict[str, Any]]) -> bool:
    """A wider tensor made from FP16 ones, arithmetic between wider ones, or a Python float.

    To make a zero in float32 and store it in FP16 is harmless, and so is a comparison.
    """
    wide = {"float32", "float64"}

    def breaks(op: dict[str, Any]) -> bool:
        if op["op"] == "aten::_local_scalar_dense":
            return op["dtype"] == "float"
        if op["op"] in ("tolist", "numpy", "__array__"):
            return True
        from_half = "float16" in op["takes"] and op["dtype"] in wide
        return from_half or (op["op"] in _ARITHMETIC and op["dtype"] in wide)

    return any(breaks(op) for op in ops)


_ARITHMETIC = {f"aten::{name}" for name in ("add", "sub", "mul", "div", "sum", "rsub", "add_")}
_PICKS = {
    f"aten::{name}"
    for name in (
        "select", "slice", "unbind", "index", "index_select", "gather", "split", "narrow", "take",
        "split_with_sizes", "chunk", "masked_select", "as_strided", "squeeze", "expand", "unfold",
        "new_zeros", "zeros_like", "new_empty", "new_full", "_local_scalar_dense", "nonzero",
        "max", "min", "amax", "amin", "argmax", "argmin", "tensor_split", "item", "flatten",
    )
}  # fmt: skip


def _sums_at_once(ops: list[dict[str, Any]]) -> bool:
    """An operation that makes fewer numbers out of many, other than by picking some of them."""
    running = {"aten::cumsum", "aten::logcumsumexp"}
    return any((op["shrinks"] and op["op"] not in _PICKS) or op["op"] in running for op in ops)


kahan_sum = function_exercise(
    "kahan_sum",
    cases=_sum_cases,
    reference=_exact_sum,
    rules={
        "left-fp16": Rule(
            "You left FP16 on the way: an operation of yours gave float32 or float64, or took the "
            "numbers out of torch, with item(), tolist() or NumPy. A wider accumulator is the "
            "right answer in real code, and hardware has one; here the point is to do without.",
            _breaks_out_of_fp16,
        ),
        "reduction-called": Rule(
            "You called a reduction such as sum(). It accumulates in float32 inside and rounds "
            "once at the end, so it has no problem to solve. Add one value after the other.",
            _sums_at_once,
        ),
    },
    misconceptions={
        "no-compensation": Misconception(
            "You add one value after the other, and what each addition rounds away is gone. "
            "Once the total is 2048 times as large as a value, adding that value may do nothing. "
            "Keep what was lost in a second variable.",
            _naive_sum,
        ),
        "compensation-sign": Misconception(
            "Your compensation has the wrong sign, so each loss is counted twice instead of made "
            "good. With lost = (new - total) - value, subtract it from the next value.",
            _kahan(_wrong_sign),
        ),
        "compensation-after-update": Misconception(
            "You updated the total before you worked out the loss, so total - total is 0. Keep "
            "the new total under its own name until the loss is known.",
            _kahan(_after_the_update),
        ),
        "compensation-incomplete": Misconception(
            "new - total is what really was added. What was lost is the difference between that "
            "and the value that should have been added: (new - total) - value.",
            _kahan(_forgets),
        ),
    },
    hints=(
        "Each addition total + value rounds. As long as the total is the larger of the two, the "
        "part that was rounded away can be computed exactly, in FP16, from the old total, the new "
        "total and the value.",
        "new = total + value; (new - total) is what arrived; (new - total) - value is the error.",
        "Subtract that error from the next value before you add it. That is Kahan's summation.",
    ),
    lesson_learned="Two FP16 numbers hold what one cannot. Optimizers that keep weights in BF16 "
    "use the same idea.",
    same=within_ulps(2),
    asked_for="a float16 tensor without dimensions",
)

# ---- log_softmax ------------------------------------------------------------------------------


def _logit_cases() -> list[Case]:
    random = torch.Generator().manual_seed(5)

    def case(rows: Any, dtype: torch.dtype, label: str) -> Case:
        return Case((torch.as_tensor(rows, dtype=torch.float32).to(dtype),), label)

    half, bfloat, single = torch.float16, torch.bfloat16, torch.float32
    return [
        case([[1.0, 2.0, 3.0], [0.5, -0.5, 0.0]], half, "small logits, float16"),
        case([[12.0, 11.0, -3.0], [0.0, 20.0, 19.0]], half, "logits up to 20, float16"),
        case([[0.0, -30.0, -40.0]], half, "logits down to -40, float16"),
        case([[500.0, 498.0, 0.0], [-500.0, -501.0, -499.0]], half, "rows 1000 apart, float16"),
        case([[-20.0, -21.0]], half, "a row of negative logits, float16"),
        case([[100.0, 99.0, 90.0, 0.0]], bfloat, "logits up to 100, bfloat16"),
        case([[100.0, 99.0], [-300.0, -302.0]], single, "rows 400 apart, float32"),
        case([[1000.0, 999.0], [0.0, -800.0]], single, "logits of 1000 and -800, float32"),
        case(3 * torch.randn(4, 5, generator=random), half, "4 random rows of 5, float16"),
        case(60 * torch.randn(3, 7, generator=random), half, "3 random rows of 7, float16"),
    ]


def _true_log_softmax(logits: Tensor) -> Tensor:
    return torch.log_softmax(logits.double(), dim=-1).to(logits.dtype)


def _shifted(shift: Callable[[Tensor], Tensor | float], dim: int = -1):
    def log_softmax(logits: Tensor) -> Tensor:
        moved = logits - shift(logits)
        return moved - moved.exp().sum(dim, keepdim=True).log()

    return log_softmax


log_softmax = function_exercise(
    "log_softmax",
    cases=_logit_cases,
    reference=_true_log_softmax,
    rules={
        "library-called": Rule(
            "You called torch's own log_softmax or logsumexp, and in real code that is what you "
            "should do. Here, write it out once, to see what it protects you from.",
            lambda ops: any(op["op"] in ("aten::_log_softmax", "aten::logsumexp") for op in ops),
        ),
    },
    misconceptions={
        "no-shift": Misconception(
            "exp overflows: in FP16 exp(12) is already inf, and in float64 exp(710) is. Subtract "
            "the largest logit of each row first; that changes nothing in the result, and exp "
            "never sees more than 0.",
            _shifted(lambda logits: 0.0),
            lambda logits: _shifted(lambda _: 0.0)(logits.float()).to(logits.dtype),
            lambda logits: _shifted(lambda _: 0.0)(logits.double()).to(logits.dtype),
        ),
        "log-of-softmax": Misconception(
            "You took the logarithm of the probabilities. A probability below 2**-25 has already "
            "become 0 in FP16 (in wider formats it happens later, but it does), and log(0) is "
            "-inf. Stay with logarithms all the way.",
            lambda logits: torch.softmax(logits, -1).log(),
            lambda logits: torch.softmax(logits.float(), -1).log().to(logits.dtype),
            lambda logits: torch.softmax(logits.double(), -1).log().to(logits.dtype),
        ),
        "log-plus-eps": Misconception(
            "You took the logarithm of the probabilities and added a small number against log(0). "
            "1e-8 becomes 0 in FP16, and a larger one is an answer made up. Stay with logarithms.",
            lambda logits: (torch.softmax(logits, -1) + 1e-8).log(),
        ),
        "shift-added-back": Misconception(
            "You built logsumexp as m + log(sum) and subtracted that. Beside a large m the small "
            "logarithm loses its digits: in FP16 500 + 0.13 is 500.25. Subtract m first, then the "
            "logarithm.",
            lambda logits: (
                logits
                - (
                    logits.max(-1, keepdim=True).values
                    + (logits - logits.max(-1, keepdim=True).values).exp().sum(-1, True).log()
                )
            ),
        ),
        "one-shift-for-all": Misconception(
            "You subtracted the largest logit of the whole tensor. In a row that lies far below "
            "it every exp becomes 0, and log(0) is -inf. Each row needs its own maximum.",
            _shifted(lambda logits: logits.max()),
        ),
        "wrong-dimension": Misconception(
            "You normalised over the wrong dimension: classes lie along the last one, dim=-1.",
            _shifted(lambda logits: logits.max(0, keepdim=True).values, dim=0),
        ),
        "shift-not-subtracted": Misconception(
            "You shifted the logits inside the logarithm only. The shift cancels if both terms "
            "have it: (x - m) - log(sum(exp(x - m))).",
            lambda logits: (
                logits - (logits - logits.max(-1, keepdim=True).values).exp().sum(-1, True).log()
            ),
        ),
    },
    hints=(
        "log_softmax(x) = x - log(sum(exp(x))). Which of these steps can overflow?",
        "Adding the same number to all logits of a row does not change its log-softmax.",
        "m = x.max(dim=-1, keepdim=True).values; then work with x - m.",
    ),
    lesson_learned="After the shift exp never sees more than 0 and the sum is at least 1, so "
    "neither exp nor log fails. Only the sum can still overflow: in FP16 from 65520 equal logits "
    "on, which is why it belongs in FP32.",
    same=within_ulps(2, at_least=1.0),
    asked_for="a tensor with the dtype and shape of the logits",
)

# ---- masked_softmax ---------------------------------------------------------------------------


def _mask_cases() -> list[Case]:
    random = torch.Generator().manual_seed(6)

    def case(scores: Any, keep: Any, dtype: torch.dtype, label: str) -> Case:
        scores = torch.as_tensor(scores, dtype=torch.float32).to(dtype)
        return Case((scores, torch.as_tensor(keep, dtype=torch.bool)), label)

    half, bfloat, single = torch.float16, torch.bfloat16, torch.float32
    some = torch.rand(3, 6, generator=random) > 0.4
    some[:, 0] = True
    noise = 5 * torch.randn(3, 6, generator=random)
    return [
        case([[1.0, 2.0, 3.0]], [[True, True, False]], half, "the last one masked, float16"),
        case([[-3.0, 4.0, 30.0]], [[True, True, False]], half, "the largest one masked, float16"),
        case(noise, some, half, "3 random rows, float16"),
        case(noise, some, bfloat, "3 random rows, bfloat16"),
        case(noise, some, single, "3 random rows, float32"),
        case(
            [[-40.0, 30.0], [1.0, 2.0]],
            [[False, False], [True, True]],
            half,
            "a row with nothing kept, float16",
        ),
        case([[-1e6, -1e6, 0.0]], [[True, True, False]], bfloat, "scores of -1e6, bfloat16"),
        case([[-2e9, -2e9, 5.0]], [[True, True, False]], single, "scores of -2e9, float32"),
        case([[10.0, -50.0, 0.0]], [[False, True, True]], single, "the first one masked, float32"),
    ]


def _true_masked_softmax(scores: Tensor, keep: Tensor) -> Tensor:
    nothing_kept = ~keep.any(-1, keepdim=True)
    exact = scores.double().masked_fill(~keep, -torch.inf).masked_fill(nothing_kept, 0.0)
    return torch.softmax(exact, -1).to(scores.dtype)


def _filled_with(value: float):
    return lambda scores, keep: torch.softmax(scores.masked_fill(~keep, value), -1)


masked_softmax = function_exercise(
    "masked_softmax",
    cases=_mask_cases,
    reference=_true_masked_softmax,
    misconceptions={
        "fill-does-not-fit": Misconception(
            "-1e9 is far below the lowest number of FP16, -65504, and torch refuses to fill with "
            "it. Ask the dtype for its own lowest number: torch.finfo(scores.dtype).min.",
            _filled_with(-1e9),
        ),
        "fill-is-infinite": Misconception(
            "Filling with -inf works until a row has nothing left: then its maximum is -inf, "
            "-inf - (-inf) is NaN, and one NaN spoils everything that it meets. Fill with the "
            "lowest finite number of the dtype.",
            _filled_with(-torch.inf),
        ),
        "fill-from-another-dtype": Misconception(
            "Your fill value is one constant for every dtype. BF16 and FP32 can hold scores far "
            "below it, and there the masked places win. Ask the dtype for its lowest number.",
            _filled_with(-65504.0),
            _filled_with(-60000.0),
            _filled_with(-1e4),
            lambda scores, keep: _filled_with(-1e9)(scores.float(), keep).to(scores.dtype),
        ),
        "masked-by-zero": Misconception(
            "Your masked scores are 0. exp(0) is 1, so masked places get their share of the "
            "probability.",
            lambda scores, keep: torch.softmax(scores * keep, -1),
            _filled_with(0.0),
        ),
        "empty-row-zero": Misconception(
            "A row with nothing kept gets zeros from you, so it sums to 0 and not to 1. With the "
            "lowest finite number as the fill it comes out uniform by itself.",
            lambda scores, keep: _filled_with(-torch.inf)(scores, keep).nan_to_num(0.0),
            lambda scores, keep: _filled_with(torch.finfo(scores.dtype).min)(scores, keep) * keep,
        ),
        "not-renormalised": Misconception(
            "You masked the probabilities after the softmax. What is left does not sum to 1.",
            lambda scores, keep: torch.softmax(scores, -1) * keep,
        ),
        "mask-added": Misconception(
            "You added the lowest number to the scores of masked places. Negative scores push the "
            "sum over the edge to -inf, and a row with nothing left is not uniform any more. "
            "Replace the scores instead: masked_fill or torch.where.",
            lambda scores, keep: torch.softmax(
                scores + (~keep).to(scores.dtype) * torch.finfo(scores.dtype).min, -1
            ),
        ),
        "mask-inverted": Misconception(
            "You masked what should be kept: `keep` is True at the places that count.",
            lambda scores, keep: torch.softmax(
                scores.masked_fill(keep, torch.finfo(scores.dtype).min), -1
            ),
        ),
    },
    hints=(
        "scores.masked_fill(~keep, value): what must `value` be, so that its exp is 0 next to any "
        "score?",
        "It must fit the dtype of the scores, and it must not be infinite: think of a row with "
        "nothing kept.",
        "torch.finfo(scores.dtype).min",
    ),
    lesson_learned="A constant that is right in FP32 may not exist in 16 bits. Ask the dtype.",
    same=within_ulps(8),
    asked_for="a tensor with the dtype and shape of the scores",
)

# ---- classify_faults --------------------------------------------------------------------------

FAULTS = ("underflow", "overflow", "swamping", "cancellation", "no fault")
_OPEN = "?"

# The answer of each case, and the slug of the diagnosis for the wrong answers that have one.
_TRUTH = {
    "a": "underflow",
    "b": "overflow",
    "c": "swamping",
    "d": "no fault",
    "e": "overflow",
    "f": "cancellation",
    "g": "swamping",
    "h": "underflow",
    "i": "cancellation",
    "j": "overflow",
}
_KNOWN_MISTAKES = {
    ("e", "underflow"): "nan-from-underflow",
    ("c", "underflow"): "swamping-as-underflow",
    ("g", "underflow"): "swamping-as-underflow",
    ("d", "underflow"): "bf16-underflows",
    ("h", "overflow"): "symptom-not-cause",
    ("f", "swamping"): "cancellation-as-swamping",
    ("i", "swamping"): "cancellation-as-swamping",
    ("f", "underflow"): "cancellation-as-swamping",
    ("i", "underflow"): "cancellation-as-swamping",
}


def _probe_faults(answers: Any) -> Any:
    from amp_lessons.checks.evidence import plain

    return plain(answers)


def _judge_faults(evidence: Any) -> Finding | Verdict:
    answers = evidence.get("dict") if isinstance(evidence, dict) else None
    if answers is None:
        return Finding("not-a-dict")
    given = {letter: answers.get(letter, _OPEN) for letter in _TRUTH}
    given = {k: " ".join(v.lower().split()) if isinstance(v, str) else v for k, v in given.items()}
    left = [letter for letter, fault in given.items() if fault in (_OPEN, None)]
    if left:
        message = f"{len(_TRUTH) - len(left)} of {len(_TRUTH)} answered; open: {', '.join(left)}."
        return Verdict(State.NOT_ATTEMPTED, message)
    unknown = tuple(f"{k}: {v!r}" for k, v in given.items() if v not in FAULTS)
    if unknown:
        return Finding("not-a-fault", unknown, {"faults": ", ".join(FAULTS)})
    wrong = [letter for letter, fault in given.items() if fault != _TRUTH[letter]]
    if not wrong:
        return Finding()
    known = [_KNOWN_MISTAKES[k, given[k]] for k in wrong if (k, given[k]) in _KNOWN_MISTAKES]
    lines = tuple(f"{letter}: {given[letter]} is not right" for letter in wrong)
    return Finding(known[0] if known else "some-wrong", lines)


classify_faults = Exercise(
    "classify_faults",
    probe=_probe_faults,
    judge=_judge_faults,
    diagnoses={
        "nan-from-underflow": "Nothing in (e) became too small. Look at what each step of it "
        "gives: inf - inf is NaN, so something became too large.",
        "swamping-as-underflow": "In (c) and (g) nothing became zero: the small number is there, "
        "and FP16 or BF16 could store it. It is lost because it is added to a number whose ulp "
        "is at least twice as large as the small one.",
        "bf16-underflows": "BF16 has the exponents of FP32: 1e-8 is far inside its range. The "
        "last digits differ, as they do whenever a decimal is stored.",
        "symptom-not-cause": "In (h) the inf is the symptom. Ask for the first step that went "
        "wrong: what was divided by, once it was stored?",
        "cancellation-as-swamping": "In (f) and (i) the subtraction itself is exact. It removes "
        "the leading digits that both numbers share, and what is left are the rounding errors "
        "from before: that is cancellation.",
        "not-a-dict": "Your answer is not a dict from letter to fault, as it stands in the cell.",
        "not-a-fault": "Each answer must be one of: {faults}.",
        "some-wrong": "Some of your answers are not right. For each, find the first step whose "
        "result differs from the true one, and ask what happened there.",
    },
    hints=(
        "Ask of each program: which is the first stored value that differs from the true one by "
        "more than a rounding, and why?",
        "Became 0: underflow. Became inf: overflow. A sum that did not change: swamping. A "
        "difference of two close numbers with wrong digits: cancellation.",
        "NaN and division by zero are symptoms: their cause is one step earlier.",
    ),
    lesson_learned="You look for the first step that went wrong, not for the step that shows it.",
)
