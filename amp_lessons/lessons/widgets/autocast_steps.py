"""The autocast step-through: the ops of a model one by one, the dtype of each predicted first.

`explain` runs the model on fake tensors, under CUDA's rules or a CPU's, when the widget is made and
when the rules change. `op_steps` turns that into steps; what the page in `static/` may show before
a prediction is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import anywidget
import torch
import traitlets
from torch import Tensor, nn
from torch.nn import functional as F

from amp_lessons.amp import policy
from amp_lessons.amp.explain import TraceError, explain_autocast
from amp_lessons.amp.policy import PolicyError
from amp_lessons.core.precision import brief, dtype_name
from amp_lessons.lessons.widgets import op_steps
from amp_lessons.lessons.widgets.files import module, style
from amp_lessons.lessons.widgets.op_steps import OpStep, Score
from amp_lessons.lessons.widgets.traits import Refused

DTYPES = ("float16", "bfloat16")
MOST_STEPS = 60


class OneOfEach(nn.Module):
    """Attention in miniature: one op a line, and an op for each thing that autocast can do."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.mix = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(2 * width, width)

    def forward(self, x: Tensor, target: Tensor) -> Tensor:
        q = self.mix(x)
        q = F.gelu(q)
        k = self.mix(q)
        k = self.norm(k)
        scores = q @ k.mT
        shares = scores.softmax(-1)
        mixed = shares @ k
        h = mixed + x
        h = torch.addcmul(h, q, mixed)  # h + q*mixed
        h = torch.cat([h, q], -1)
        out = self.head(h)
        total = out.sum(-1)
        return F.mse_loss(total, target)


class AutocastSteps(anywidget.AnyWidget):
    """Ops under autocast, one by one: predict the dtype an op runs in, then see what is cast.

    The facts are computed, for each choice of device and dtype. `trace.explain_autocast` gives the
    ops, their dtypes and the casts, from CUDA's real dispatch rules on fake tensors, so that no GPU
    is needed. `policy.op_policy` gives each op's rule. Both ask the installed torch.

    Args:
        model: a model of your own; without one, `OneOfEach`.
        inputs: of its forward, as for `explain_autocast`.
        device: whose rules: ``"cuda"`` or ``"cpu"``.
        dtype: `torch.float16` or `torch.bfloat16`, or ``"fp16"``, ``"bf16"``.

    Attributes:
        device, dtype: as above, ``dtype`` as ``"float16"`` or ``"bfloat16"``. To change one starts
            again.
        answers: for each step that has been committed, the dtypes that were predicted: the op's
            and its output's, such as ``["float32", "float16"]``; ``[]`` where the step was shown
            without a prediction.
        place: the step that is looked at, from 0. One past the last is the end, with the score.

    All follow the learner, and the widget follows when a lesson sets one of them.

    Raises:
        TraceError: in one line, if the model cannot be traced, or has no op or more than 60.
        ValueError: for a device or a dtype that is none of the above.
    """

    _esm = module("autocast_steps.mjs")
    _css = style("widgets.css")

    device = traitlets.Unicode("cuda").tag(sync=True)
    dtype = traitlets.Unicode("float16").tag(sync=True)
    answers = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True)
    place = traitlets.Int(0).tag(sync=True)
    view = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        model: nn.Module | None = None,
        *inputs: Any,
        device: Any = "cuda",
        dtype: Any = torch.float16,
        **traits: Any,
    ) -> None:
        if model is None:
            model, inputs = OneOfEach(), (torch.zeros(4, 8), torch.zeros(4))
        self._model, self._inputs = model, inputs
        device, name = policy.find_device(device), policy.short(policy.find_dtype(dtype))
        self._rules, self._fault = (device, name), ""
        self._steps = self._trace(device, name)
        super().__init__(device=device, dtype=name, **traits)
        self._refresh()

    # ---- for lessons and tests ------------------------------------------------------------------

    @property
    def steps(self) -> tuple[OpStep, ...]:
        """Every step with its answer, shown or not; none where these rules cannot be traced."""
        return self._steps

    @property
    def score(self) -> Score:
        """How many predictions were right, how many there were, and how many steps were shown."""
        return op_steps.score(self._steps, self.answers)

    @property
    def missed(self) -> list[OpStep]:
        """The steps whose prediction was wrong."""
        pairs = zip(self._steps, self.answers, strict=False)
        return [step for step, answer in pairs if op_steps.verdict(step, answer) == "wrong"]

    def predict(self, runs_in: Any, gives: Any = None) -> bool:
        """Commit a prediction for the next step, and look at it; whether it was right.

        Args:
            runs_in: the dtype that the op runs in, such as ``"fp16"`` or `torch.float32`.
            gives: the dtype of its output; the same if left out.

        Raises:
            ValueError: if every step has been committed, or a dtype is none of the choices.
        """
        answer = [self._choice(runs_in), self._choice(runs_in if gives is None else gives)]
        step = self._commit(answer)
        return op_steps.verdict(step, answer) == "right"

    def show_next(self) -> OpStep:
        """Show the next step without a prediction. Raises ValueError if there is none."""
        return self._commit([])

    def again(self) -> None:
        """Forget every answer and start at the first step."""
        with self.hold_sync():
            self.answers, self.place = [], 0

    def _commit(self, answer: list[str]) -> OpStep:
        now = len(self.answers)
        if now == len(self._steps):
            raise ValueError("every step has been committed: call again() to start again")
        with self.hold_sync():
            self.answers = [*self.answers, answer]
            self.place = now
        return self._steps[now]

    def _choice(self, dtype: Any) -> str:
        for name in self._options:
            if dtype_name(dtype) in (name, brief(name)):
                return name
        raise Refused(f"a prediction must be one of {', '.join(self._options)}; got {dtype!r}")

    @property
    def _options(self) -> tuple[str, ...]:
        return op_steps.options(self._steps, self.dtype)

    # ---- the traits -----------------------------------------------------------------------------

    @traitlets.validate("device")
    def _check_device(self, proposal: dict[str, Any]) -> str:
        try:
            return policy.find_device(proposal["value"])
        except PolicyError as error:
            raise Refused(str(error)) from None

    @traitlets.validate("dtype")
    def _check_dtype(self, proposal: dict[str, Any]) -> str:
        try:
            return policy.short(policy.find_dtype(proposal["value"]))
        except PolicyError as error:
            raise Refused(str(error)) from None

    @traitlets.validate("answers")
    def _check_answers(self, proposal: dict[str, Any]) -> list[list[str]]:
        answers = proposal["value"][: len(self._steps)]
        for answer in answers:
            if answer and (len(answer) != 2 or not set(answer) <= set(self._options)):
                known = ", ".join(self._options)
                raise Refused(f"an answer must be [] or two of {known}; got {answer}")
        return answers

    @traitlets.validate("place")
    def _check_place(self, proposal: dict[str, Any]) -> int:
        return min(max(proposal["value"], 0), len(self.answers))

    @traitlets.observe("device", "dtype")
    def _start_again(self, _: Any) -> None:
        if self._rules == (self.device, self.dtype):
            return
        self._rules, self._fault, self._steps = (self.device, self.dtype), "", ()
        try:
            self._steps = self._trace(self.device, self.dtype)
        except TraceError as error:
            self._fault = str(error)
        self.again()
        self._refresh()

    @traitlets.observe("answers", "place")
    def _follow(self, _: Any) -> None:
        self.place = min(self.place, len(self.answers))
        self._refresh()

    def _trace(self, device: str, dtype: str) -> tuple[OpStep, ...]:
        explained = explain_autocast(
            self._model, *self._inputs, device=device, dtype=dtype, values="fake"
        )
        found = len(explained.rows)
        if not found:
            raise TraceError(f"{explained.model} runs no op on floating-point tensors")
        if found > MOST_STEPS:
            raise TraceError(
                f"{explained.model} runs {found} ops, and the step-through takes at most "
                f"{MOST_STEPS}: give it one block of the model"
            )
        named = (*self._model.named_parameters(), *self._model.named_buffers())
        return op_steps.steps_of(explained, [name for name, _ in named])

    def _refresh(self) -> None:
        self.view = {
            "device": self.device,
            "dtype": self.dtype,
            "answers": self.answers,
            "place": self.place,
            "model": type(self._model).__name__,
            "torch": torch.__version__,
            "fault": self._fault,
            "options": list(self._options),
            "steps": _plain_steps(self._steps, self.answers),
            "score": asdict(self.score),
        }


def _plain_steps(
    steps: Sequence[OpStep], answers: Sequence[op_steps.Answer]
) -> list[dict[str, Any]]:
    """What the page may know of each step; the form is told in autocast_steps.mjs."""
    return [
        _revealed(step, answers[place])
        if place < len(answers)
        else _hidden(step, asked=place == len(answers))
        for place, step in enumerate(steps)
    ]


def _revealed(step: OpStep, answer: op_steps.Answer) -> dict[str, Any]:
    told = {"answer": list(answer), "verdict": op_steps.verdict(step, answer)}
    return asdict(step) | told


def _hidden(step: OpStep, asked: bool) -> dict[str, Any]:
    """The op, and of the one that is asked its inputs too, before any cast."""
    plain = {name: getattr(step, name) for name in ("number", "op", "kernel", "path", "code")}
    inputs = [
        {"name": o.name, "kind": o.kind, "made_by": o.made_by, "dtype": o.dtype}
        for o in step.operands
        if asked
    ]
    return plain | {"operands": inputs, "verdict": ""}
