"""The scaler lab: predict what GradScaler does next, then see what a real one did.

The real `torch.amp.GradScaler` runs here, on every pattern that the learner makes; the page in
`static/` draws, and simulates beside it with the arithmetic of `scaler`, under test.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anywidget
import traitlets

from amp_lessons.amp.scaling.scaler_log import (
    ScalerRecord,
    check_settings,
    simulate_scaler,
    torch_records,
)
from amp_lessons.lessons.widgets.files import module, style
from amp_lessons.lessons.widgets.traits import Number, Refused

MAX_STEPS = 40
SETTINGS = ("init_scale", "growth_factor", "backoff_factor", "growth_interval")
# Overflow at steps 5 and 6 of 12.
EXAMPLE = (False,) * 5 + (True,) * 2 + (False,) * 5


class ScalerLab(anywidget.AnyWidget):
    """A GradScaler whose steps overflow where the learner says, predicted step by step.

    Args:
        found_inf: for each of 1 to 40 steps, whether its gradients overflow.
        init_scale, growth_factor, backoff_factor, growth_interval: as for `simulate_scaler`.

    Attributes:
        found_inf, init_scale, growth_factor, backoff_factor, growth_interval: as above.
        answers: for each step that has been shown, the scale that was predicted, as text; "" where
            the step was shown without a prediction.

    All follow the learner, and the widget follows when a lesson sets one of them. Steps whose
    scale could have changed by that are hidden again.

    Raises:
        ValueError: if a setting is one that `simulate_scaler` refuses, or there are no steps or
            more than 40.
        TypeError: if a setting is not a number.
    """

    _esm = module("scaler_lab.mjs")
    _css = style("widgets.css")

    init_scale = Number(4.0)
    growth_factor = Number(2.0)
    backoff_factor = Number(0.5)
    growth_interval = traitlets.Int(2).tag(sync=True)
    found_inf = traitlets.List(traitlets.Bool(), list(EXAMPLE)).tag(sync=True)
    answers = traitlets.List(traitlets.Unicode()).tag(sync=True)
    real = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        found_inf: Iterable[bool] = EXAMPLE,
        *,
        init_scale: float = 4.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2,
        **traits: Any,
    ) -> None:
        settings = (init_scale, growth_factor, backoff_factor, growth_interval)
        check_settings(*settings)
        super().__init__(
            found_inf=_checked_pattern([bool(found) for found in found_inf]),
            **dict(zip(SETTINGS, settings, strict=True)),
            **traits,
        )
        self._run_real()

    @property
    def settings(self) -> dict[str, Any]:
        """The four settings by name, as `simulate_scaler` takes them."""
        return {name: getattr(self, name) for name in SETTINGS}

    @property
    def records(self) -> list[ScalerRecord]:
        """What a real GradScaler does, step by step, shown or not."""
        return torch_records(self.found_inf, **self.settings)

    @property
    def score(self) -> tuple[int, int]:
        """How many predictions were right, and how many there were."""
        scales = simulate_scaler(self.found_inf, **self.settings)
        given = [(a, s) for a, s in zip(self.answers, scales, strict=False) if a]
        return sum(float(answer) == scale for answer, scale in given), len(given)

    @traitlets.validate(*SETTINGS)
    def _check_setting(self, proposal: dict[str, Any]) -> Any:
        try:
            check_settings(**self.settings | {proposal["trait"].name: proposal["value"]})
        except (ValueError, TypeError) as error:
            raise Refused(str(error)) from None
        return proposal["value"]

    @traitlets.validate("found_inf")
    def _check_pattern(self, proposal: dict[str, Any]) -> list[bool]:
        return _checked_pattern(proposal["value"])

    @traitlets.validate("answers")
    def _check_answers(self, proposal: dict[str, Any]) -> list[str]:
        for answer in proposal["value"]:
            try:
                float(answer or 0)
            except ValueError:
                raise Refused(f"an answer must be a scale as text, got {answer!r}") from None
        return proposal["value"][: len(self.found_inf)]

    @traitlets.observe(*SETTINGS)
    def _hide_all(self, _: Any) -> None:
        self.answers = []
        self._run_real()

    @traitlets.observe("found_inf")
    def _hide_changed(self, change: dict[str, Any]) -> None:
        """Keep the steps before the first that differs."""
        old, new = change["old"], change["new"]
        pairs = enumerate(zip(old or [], new, strict=False))
        first = next((step for step, (a, b) in pairs if a != b), min(len(old or []), len(new)))
        self.answers = self.answers[:first]
        self._run_real()

    def _run_real(self) -> None:
        settings = {name: repr(value) for name, value in self.settings.items()}
        scales = [repr(record.scale) for record in self.records]
        self.real = settings | {"found_inf": list(self.found_inf), "scales": scales}


def _checked_pattern(found_inf: list[bool]) -> list[bool]:
    if not 1 <= len(found_inf) <= MAX_STEPS:
        raise Refused(f"found_inf must hold 1 to {MAX_STEPS} steps, got {len(found_inf)}")
    return found_inf
