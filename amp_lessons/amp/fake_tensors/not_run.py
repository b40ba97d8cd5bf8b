"""Which parameters a forward pass did not use, and what would make it use them.

A report about half of a model looks like one about all of it: the vision tower of a model that got
only text costs nothing in a trace, and a great deal on a GPU. So a count of a pass also notes
which parameters an op was given, and says which parts of the model stayed out.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from amp_lessons.amp.fake_tensors.ops import storage_id

WORTH = 0.002
"""A share of the parameters that is worth naming. A mask token of a real model is less."""
MUCH = 0.01
"""A share without which a count of a step is not that of the model."""

_SENSES = (
    (
        re.compile(r"vi[st]|image|img|pixel|patch|pictur|video|clip|sam_"),
        re.compile(r"pixel|image|img|picture|video|vision"),
    ),
    (
        re.compile(r"audio|speech|sound|acoustic|semantic|whisper|wav|mel_|codec"),
        re.compile(r"input_features|input_values|audio|speech|sound|wav|mel"),
    ),
)
"""Words in the name of a part of a model, and in the inputs that it is for."""
_NO_DATA = re.compile(
    r"labels?$|_labels$|mask$|position|past_|cache|_state$|^(output|return|use|do|num|interpolate)_|"
    r"^(mems|target_mapping|inputs_embeds|token_type_ids|logits_to_keep|train|training|mm_encoder_outputs)$|_embeds$|"
    r"_outputs$|_types?_ids$|_layer$|_strategy$|_loss$|_sizes?$|_grid"
)
"""Inputs of Hugging Face's forwards that steer a pass, or replace or go with another one."""


@dataclass(frozen=True)
class NotRun:
    """A part of a model that a pass did not use.

    Attributes:
        path: of the module or parameter, with ``*`` for a number that differs.
        count: how many modules that is.
        parameters: their numbers, each parameter once.
        share: of all parameters of the model, 0 to 1.
        inputs: the inputs of the forward that were left out, and may run it.
        sure: whether their names say that they are for this part.
        beside: whether it stands in a list in which others of its class ran, as an expert does.
    """

    path: str
    count: int
    parameters: int
    share: float
    inputs: tuple[str, ...] = ()
    sure: bool = False
    beside: bool = False

    @property
    def name(self) -> str:
        times = f" ×{self.count}" if self.count > 1 else ""
        share = f"{self.share:.0%}" if self.share >= 0.095 else f"{self.share:.1%}"
        return f"{self.path}{times} ({share} of parameters)"

    @property
    def is_missed(self) -> bool:
        """Whether a step of the same model with other inputs would need clearly more."""
        return self.share >= MUCH and (bool(self.inputs) or self.beside)

    def __str__(self) -> str:
        return f"{self.name} did not run: {self._why()}"

    def _why(self) -> str:
        if self.inputs:
            names = " or ".join(f"{name}=…" for name in self.inputs[:3])
            how = f"(on the command line, --input {self.inputs[0]}=SIZES)"
            return f"give {names} {how}" if self.sure else f"{names} may run it {how}"
        if self.beside:
            return (
                "others in the same list did, so another batch may use it: an expert that got no "
                "token, or a layer that was skipped"
            )
        return (
            "no input that holds data was left out; the config may leave this part out, or a mask "
            "or another mode may run it"
        )


class Used:
    """Notes which parameters of a model were given to an op.

    Args:
        model: whose parameters. They must stay alive as long as this does.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self._unused = {storage_id(p) for p in model.parameters()}

    def note(self, func: Any, args: Any, kwargs: Any) -> None:
        """Called with each op. A view alone uses nothing."""
        if not self._unused or func.is_view or func.namespace == "prim":
            return
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, Tensor):
                self._unused.discard(storage_id(leaf))

    def not_run(
        self, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[NotRun, ...]:
        """The parts that stayed out of a pass with these inputs, the largest first."""
        sizes = {storage_id(p): p.numel() for p in self.model.parameters()}
        whole = sum(sizes.values()) or 1
        left_out = _left_out(forward, args, kwargs)
        found: dict[tuple[str, bool], NotRun] = {}
        for path, ids in self._parts("", self.model):
            count = sum(sizes[each] for each in ids)
            key = pattern(path), self._stands_beside(path)
            before = found.get(key)
            if before is None:
                found[key] = NotRun(path, 1, count, count / whole, beside=key[1])
            else:
                together = before.parameters + count
                found[key] = NotRun(
                    key[0], before.count + 1, together, together / whole, beside=key[1]
                )
        named = (_with_inputs(part, left_out) for part in found.values())
        return tuple(sorted(named, key=lambda part: -part.parameters))

    def _parts(self, path: str, module: nn.Module) -> Iterator[tuple[str, set[int]]]:
        """The outermost modules of which nothing ran, and parameters that alone did not."""
        ids = {storage_id(p) for p in module.parameters()}
        if ids and ids <= self._unused:
            yield path or "the whole model", ids
            return
        inside = f"{path}." if path else ""
        for name, parameter in module.named_parameters(recurse=False):
            if storage_id(parameter) in self._unused:
                yield inside + name, {storage_id(parameter)}
        for name, child in module.named_children():
            if ids & self._unused:
                yield from self._parts(inside + name, child)

    def _stands_beside(self, path: str) -> bool:
        """Whether the module is in a list with others of its class, of which some ran."""
        outer, _, name = path.rpartition(".")
        if not name[-1:].isdigit() or path not in dict(self.model.named_modules()):
            return False
        siblings = self.model.get_submodule(outer).children()
        kind = type(self.model.get_submodule(path))
        alike = [each for each in siblings if type(each) is kind]
        return any(storage_id(p) not in self._unused for each in alike for p in each.parameters())


def worth_naming(parts: Iterable[NotRun]) -> tuple[NotRun, ...]:
    """Those that are large enough to change what a report says."""
    return tuple(part for part in parts if part.share >= WORTH)


def pattern(path: str) -> str:
    """The path with ``*`` for each number that stands alone: "layers.3.mlp" as "layers.*.mlp"."""
    return re.sub(r"(?<![^.])\d+(?![^.])", "*", path)


def _left_out(
    forward: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> list[str]:
    """The inputs that a forward takes and was not given, without those that hold no data."""
    try:
        signature = inspect.signature(forward)
        given = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # nothing to look at
        return []
    return [
        name
        for name, parameter in signature.parameters.items()
        if given.get(name) is None and parameter.default is None and not _NO_DATA.search(name)
    ]


def _with_inputs(part: NotRun, left_out: list[str]) -> NotRun:
    """The part with the inputs that were left out and are for it: by its name, or else all."""
    if part.beside:
        return part
    for of_part, of_input in _SENSES:
        fits = tuple(name for name in left_out if of_input.search(name))
        if fits and of_part.search(part.path.lower()):
            return replace(part, inputs=fits, sure=True)
    return replace(part, inputs=tuple(left_out))
