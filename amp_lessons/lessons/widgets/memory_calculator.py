"""The memory calculator: where the bytes of a training step are, FP32 beside 16 bit.

The page in `static/` counts with the arithmetic of memory.mjs; `memory.training_memory`, which
runs the model on fake tensors, is its oracle in the tests and here in `memories`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anywidget
import torch
import traitlets
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss

from amp_lessons.amp.memory.training import STATE_COPIES, Memory, training_memory
from amp_lessons.amp.training.models import GPT, linear_stack
from amp_lessons.lessons.widgets.files import module, style
from amp_lessons.lessons.widgets.traits import Refused

KINDS = ("mlp", "gpt")
AGAINST = ("amp", "bf16")
HEAD_WIDTH = 64
VOCABULARY, CONTEXT = 50257, 1024


@dataclass(frozen=True)
class Preset:
    """A model and a batch with a name: what the page's first field offers."""

    name: str
    kind: str
    layers: int
    width: int
    batch: int
    length: int = CONTEXT


PRESETS = (
    Preset("MLP of PyTorch's AMP recipe", "mlp", 3, 4096, 4096),
    Preset("small MLP", "mlp", 8, 256, 64),
    Preset("GPT-2 small", "gpt", 12, 768, 8),
    Preset("GPT-2 medium", "gpt", 24, 1024, 8),
    Preset("GPT-2 large", "gpt", 36, 1280, 8),
    Preset("GPT-2 XL", "gpt", 48, 1600, 8),
)
MOST = {"layers": 200, "width": 65536, "batch": 1_000_000, "length": CONTEXT}


class MemoryCalculator(anywidget.AnyWidget):
    """Bytes of a training step by what they are for, in FP32 beside autocast or BF16 parameters.

    Args:
        preset: the name of one of `PRESETS`, to start from.
        optimizer: "sgd", "momentum" or "adam".
        against: what stands beside FP32: "amp" or "bf16" (parameters in bfloat16).
        traits: kind ("mlp" or "gpt"), layers, width, batch, length (tokens in a sequence): what
            differs from the preset.

    Attributes:
        kind, layers, width, batch, length, optimizer, against: as above.

    All follow the learner, and the widget follows when a lesson sets one of them.

    Raises:
        ValueError: for a preset, kind, optimizer or ``against`` that does not exist, a size that
            is not a whole number in its range, or a GPT's width that is no multiple of 64.
    """

    _esm = module("memory_calculator.mjs")
    _css = style("widgets.css")

    data = traitlets.Dict().tag(sync=True)
    kind = traitlets.Unicode("mlp").tag(sync=True)
    layers = traitlets.Int(3).tag(sync=True)
    width = traitlets.Int(4096).tag(sync=True)
    batch = traitlets.Int(4096).tag(sync=True)
    length = traitlets.Int(CONTEXT).tag(sync=True)
    optimizer = traitlets.Unicode("sgd").tag(sync=True)
    against = traitlets.Unicode("amp").tag(sync=True)

    def __init__(
        self,
        preset: str = PRESETS[0].name,
        optimizer: str = "sgd",
        against: str = "amp",
        **traits: Any,
    ) -> None:
        chosen = next((p for p in PRESETS if p.name == preset), None)
        if chosen is None:
            names = ", ".join(p.name for p in PRESETS)
            raise Refused(f"preset must be one of {names}; got {preset!r}")
        start = {name: value for name, value in vars(chosen).items() if name != "name"}
        data = {"presets": [vars(p) for p in PRESETS], "most": MOST}
        super().__init__(data=data, optimizer=optimizer, against=against, **(start | traits))

    @property
    def memories(self) -> tuple[Memory, Memory]:
        """What is shown, counted by running the model on fake tensors: FP32, and beside it."""
        model, batch, target, loss = example(
            self.kind, self.layers, self.width, self.batch, self.length
        )
        other = "amp fp16" if self.against == "amp" else "bf16"
        rest = {"optimizer": self.optimizer, "loss": loss, "target": target}
        rest |= {"device": "cuda", "gpu": "h200"}
        fp32, beside = (
            training_memory(model, batch, precision=precision, **rest)
            for precision in ("fp32", other)
        )
        return fp32, beside

    @traitlets.validate("kind", "optimizer", "against")
    def _check_choice(self, proposal: dict[str, Any]) -> str:
        name, value = proposal["trait"].name, proposal["value"]
        known = {"kind": KINDS, "optimizer": tuple(STATE_COPIES), "against": AGAINST}[name]
        if value not in known:
            raise Refused(f"{name} must be one of {', '.join(known)}; got {value!r}")
        if value == "gpt":
            _check_heads(self.width)
        return value

    @traitlets.validate(*MOST)
    def _check_size(self, proposal: dict[str, Any]) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        if not 1 <= value <= MOST[name]:
            raise Refused(f"{name} must be 1 to {MOST[name]:,}, got {value:,}")
        if name == "width" and self.kind == "gpt":
            _check_heads(value)
        return value


def _check_heads(width: int) -> None:
    if width % HEAD_WIDTH:
        raise Refused(f"the width of a GPT must be a multiple of {HEAD_WIDTH}, got {width}")


def example(
    kind: str, layers: int, width: int, batch: int, length: int
) -> tuple[nn.Module, Tensor, Tensor, Any]:
    """A model on the meta device, with its batch, its target and its loss."""
    with torch.device("meta"):
        if kind == "mlp":
            model, (inputs,) = linear_stack(width, layers, batch)
            return model, inputs, torch.empty_like(inputs), mse_loss
        gpt = GPT(VOCABULARY, CONTEXT, width, layers, width // HEAD_WIDTH)
        ids, target = (torch.empty(batch, length, dtype=torch.long) for _ in range(2))
    return gpt, ids, target, lambda out, ids: cross_entropy(out.flatten(0, 1), ids.flatten())
