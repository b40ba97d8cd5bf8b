"""The loss scale lab: drag the loss scale, and see FP16 training come back to life.

It draws recorded runs (`loss_scale_runs`), and trains one for real when it is asked to. The page in
`static/` draws. Where widgets don't run, a picture of four of the runs takes its place.

The second of its two predictions is a question of the bank, and is noted in the log like every
prediction of a lesson. The first has no right answer but a range of scales, so it isn't.
"""

from __future__ import annotations

import html
import math
import time
from contextlib import suppress
from functools import cache
from typing import Any

import anywidget
import traitlets

from amp_lessons.core.progress import ProgressError
from amp_lessons.lessons.widgets import loss_scale_runs
from amp_lessons.lessons.widgets.files import module, style
from amp_lessons.lessons.widgets.traits import Refused
from amp_lessons.quiz import bank, log
from amp_lessons.quiz.items import ChoiceItem
from amp_lessons.quiz.marking import mark

STAGES = ("guess", "cost", "live")
COSTS = ("", "none", "twice", "same")
"""No prediction, and the choices of `ASKED` in their order."""
ASKED = "amp_in_20_minutes.scale_of_16"
REPORT_EVERY = 5  # steps of a training here


class LossScaleLab(anywidget.AnyWidget):
    """A slider for the loss scale, over real FP16 runs: gradients, error and painted digits.

    The runs are lesson 00's: an autoencoder on 600 digits, whose loss is divided by 100 million,
    150 steps of SGD with FP16 autocast on a CPU. The loss scale stays fixed and no step is skipped.
    They were recorded by `tools/record_loss_scale.py`. Errors are mean squared errors per pixel,
    for pixels from 0 to 1.

    Args:
        scale: the loss scale to start with, one of those recorded: 2**0, 2**0.25, ... 2**4, and
            then the powers of two up to 2**40.
        predict: whether to ask for two predictions before the slider can be dragged. The learner
            can skip them.

    Attributes:
        scale_exponent: log2 of the loss scale.
        step: after how many steps gradients and pictures are shown: 0, 10, 50 or 150. None shows
            the first gradients and the last pictures.
        stage: "guess" and "cost" during the predictions, then "live".
        guess: log2 of the scale that the learner expects to be the first that trains as well as
            FP32; None without a guess.
        cost: what the learner expects at a loss scale of 16: "none" if the network learns nothing,
            "twice" or "same" as FP32's error; "" without a prediction.
        searched: whether the learner has found a scale that trains and moved on, or has looked at
            20. Only then does the widget say where GradScaler starts.
        trained: the last run that was trained here, by ``scale_exponent`` as ``exponent``:
            ``errors`` after 0, 1, ... steps up to the first inf or NaN, whether it is ``done``, how
            many ``seconds`` it took, and the ``problem`` if there was one.

    All follow the learner, and the widget follows when a lesson sets one of the first six.

    Raises:
        ValueError: for a scale or a step that is not recorded, or a stage or cost that is none.
    """

    _esm = module("loss_scale_lab.mjs")
    _css = style("widgets.css", "loss_scale_lab.css")

    data = traitlets.Dict().tag(sync=True)
    scale_exponent = traitlets.Float().tag(sync=True)
    step = traitlets.Int(None, allow_none=True).tag(sync=True)
    stage = traitlets.Unicode("guess").tag(sync=True)
    guess = traitlets.Float(None, allow_none=True).tag(sync=True)
    cost = traitlets.Unicode("").tag(sync=True)
    searched = traitlets.Bool(False).tag(sync=True)
    trained = traitlets.Dict().tag(sync=True)

    def __init__(self, scale: float = 1.0, *, predict: bool = True, **traits: Any) -> None:
        start = {"scale_exponent": _exponent(scale), "stage": "guess" if predict else "live"}
        super().__init__(data=loss_scale_runs.plain_data(), **(start | traits))
        self.on_msg(self._on_message)

    @property
    def scale(self) -> float:
        """The loss scale, 2**scale_exponent."""
        return 2.0**self.scale_exponent

    @property
    def errors(self) -> tuple[float, ...]:
        """The recorded errors after 0, 1, ... steps at this scale, up to the first inf or NaN."""
        run = loss_scale_runs.run_at(self.scale_exponent)
        return tuple(error * loss_scale_runs.UNIT for error in run["errors"])

    def train(self) -> tuple[float, ...]:
        """Train at this scale in this process, on the CPU, and draw the errors while they come.

        Returns:
            The errors, as `errors` has them.
        """
        self._train(self.scale_exponent)
        return tuple(self.trained["errors"])

    # ---- inside ----

    def _on_message(self, _: Any, content: dict[str, Any], buffers: Any) -> None:
        if (
            content.get("type") == "train"
            and content.get("exponent") in loss_scale_runs.exponents()
        ):
            self._train(content["exponent"])

    def _train(self, exponent: float) -> None:
        from amp_lessons.amp.training import fixed_scale  # torch, only for who trains

        begin, errors = time.perf_counter(), list[float]()
        told: dict[str, Any] = {"exponent": exponent, "problem": ""}

        def tell(done: bool) -> None:
            seconds = time.perf_counter() - begin
            self.trained = told | {"errors": list(errors), "done": done, "seconds": seconds}

        try:
            with fixed_scale.one_thread():
                for error, _ in fixed_scale.train(fixed_scale.SHOWN, 2.0**exponent):
                    if not math.isfinite(error):
                        break
                    errors.append(error)
                    if len(errors) % REPORT_EVERY == 1:
                        tell(done=False)
        except KeyboardInterrupt:
            told["problem"] = "it was interrupted."
        except Exception as error:  # a bug of ours must not leave the page waiting
            told["problem"] = f"{type(error).__name__}: {error}"
        tell(done=True)

    @traitlets.observe("stage")
    def _note(self, change: dict[str, Any]) -> None:
        """Note what the learner has predicted, when they have. Who skips it leaves no trace."""
        if change["old"] != "cost" or change["new"] != "live" or not self.cost:
            return
        item = bank.load().find(ASKED)
        assert isinstance(item, ChoiceItem), "it has choices"
        score = mark(item, [COSTS.index(self.cost) - 1]).score
        with suppress(ProgressError):  # `lab` has warned that nothing can be saved
            log.append(log.LogEntry(log.now(), ASKED, score, where="lesson"))

    @traitlets.validate("scale_exponent", "guess")
    def _check_exponent(self, proposal: dict[str, Any]) -> float | None:
        value = proposal["value"]
        if value is not None and value not in loss_scale_runs.exponents():
            name = proposal["trait"].name
            raise Refused(f"{name} must be log2 of a recorded loss scale, got {value}")
        return value

    @traitlets.validate("step")
    def _check_step(self, proposal: dict[str, Any]) -> int | None:
        known = loss_scale_runs.recorded()["about"]["snapshots"]
        if proposal["value"] is not None and proposal["value"] not in known:
            steps = ", ".join(map(str, known))
            raise Refused(f"step must be None or one of {steps}; got {proposal['value']}")
        return proposal["value"]

    @traitlets.validate("stage", "cost")
    def _check_choice(self, proposal: dict[str, Any]) -> str:
        name, value = proposal["trait"].name, proposal["value"]
        known = {"stage": STAGES, "cost": COSTS}[name]
        if value not in known:
            raise Refused(f"{name} must be one of {', '.join(map(repr, known))}; got {value!r}")
        return value

    def _repr_mimebundle_(self, **options: Any) -> Any:
        found = super()._repr_mimebundle_(**options)
        data, metadata = found if isinstance(found, tuple) else (found, {})
        return dict(data or {}) | static_form(), metadata


def _exponent(scale: Any) -> float:
    """log2 of a recorded loss scale."""
    for exponent in loss_scale_runs.exponents():
        if isinstance(scale, int | float) and math.isclose(scale, 2.0**exponent):
            return exponent
    raise ValueError(f"scale must be 2**0, 2**0.25, ... 2**4, 2**5, ... or 2**40, got {scale!r}")


@cache
def static_form() -> dict[str, Any]:
    """A picture of four of the runs and a sentence, for where no widget can be drawn."""
    from amp_lessons.lessons.widgets.loss_scale_picture import loss_scale_picture, sentence

    picture = loss_scale_picture()
    shown = picture._repr_mimebundle_()
    return {
        "text/html": f"{shown['text/html']}<p>{html.escape(sentence())}</p>",
        "text/plain": f"{shown['text/plain']} {sentence()}",
    }
