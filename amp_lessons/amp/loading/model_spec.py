"""What is asked for and what loading gives: a model, the inputs of its forward, and a name.

A command asks for it in the words of its command line (`ModelSpec`), and never learns whether a
function, a config file or a library's list of names was behind them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from amp_lessons.core.errors import AmpLessonsError

if TYPE_CHECKING:
    from torch import nn


class LoadError(AmpLessonsError):
    """What stands on the command line gives no model, in one line with the cure."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


@dataclass(frozen=True)
class ModelSpec:
    """A model and its inputs, in the words of a command line.

    Attributes:
        target: such as ``package.module:factory`` or ``model.py:make(width=64)``; "" for none.
        inputs: such as "32,64" or "input_ids=2,16:int64<50257".
        hf: a Hugging Face config: a file, a folder that holds one, or a name.
        timm: the name of a model in timm.
        batch, length, image_size: of the inputs that are made from a config; None for the default.
        labels: whether a Hugging Face model gets labels, so that it computes its loss too.
        real: whether parameters and inputs must hold numbers.
    """

    target: str = ""
    inputs: tuple[str, ...] = ()
    hf: str = ""
    timm: str = ""
    batch: int | None = None
    length: int | None = None
    image_size: int | None = None
    labels: bool = True
    real: bool = False


@dataclass(frozen=True)
class LoadedModel:
    """A model and the inputs of its forward.

    Attributes:
        model: with fake parameters or parameters on the meta device where that was possible.
        args: positional inputs.
        kwargs: keyword inputs.
        name: such as "GPT2LMHeadModel".
        note: what was assumed and can be changed, a line for each thing; "" for nothing.
        packed: names of inputs in which the examples follow each other, so that their first size
            is a multiple of the batch.
        plain: the same without a picture or sound that was made here, in case those don't fit.
    """

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    note: str = ""
    packed: frozenset[str] = frozenset()
    plain: LoadedModel | None = None
