"""Makes the model that a command line asks for, and the inputs of its forward.

Parameters are fake wherever that works, so a model of any size is built at once. What autocast does
to it is told elsewhere.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import torch
from torch import Tensor, nn

from amp_lessons.amp.loading import early, hf, kinds, multimodal, targets
from amp_lessons.amp.loading.batches import with_batch
from amp_lessons.amp.loading.fixes import takes
from amp_lessons.amp.loading.hf_config import is_config
from amp_lessons.amp.loading.inputs import Spec, nested, parse_all
from amp_lessons.amp.loading.libraries import go_offline, library
from amp_lessons.amp.loading.model_spec import LoadedModel, LoadError, ModelSpec
from amp_lessons.amp.loading.target_words import FAILURES, in_words, read
from amp_lessons.amp.loading.vision_ops import declare_on_import

CHANGE = "change them with --batch, --length, --image-size or --input"


def load_model(wanted: ModelSpec) -> LoadedModel:
    """The model that a command line asks for, with its inputs.

    Raises:
        LoadError: in one line with the cure, if there is no such model, or no such input.
    """
    early.check(wanted)
    declare_on_import()
    specs = parse_all(wanted.inputs)
    model, args, kwargs, notes = _model(wanted)
    name = type(model).__name__
    own = _Own(model, args, kwargs)
    made_here: set[str] = set()
    if not args and not kwargs:
        made = _made(model, wanted, specs)
        if made:
            first = next(iter(_parameters(model)), "")
            named = {spec.name or first: spec for spec in specs}
            changed, made_here = {**made, **named}, made.keys() - named.keys()
            _check_ids(model, named)
            _check_labels(made, changed)
            tensors = {key: spec.tensor(wanted.real) for key, spec in made.items()}
            more, notes_on_loss = _loss_of(model, wanted)
            own = _Own(model, (), tensors | more)
            notes += [_inputs_in_words(tensors | more), notes_on_loss]
            notes.append(kinds.past_the_config(model, _sizes(wanted, specs)))
    args, kwargs = own.merged(specs, wanted.real)
    notes += own.unnamed(specs)
    _check_values(model, {key: kwargs[key] for key in kwargs.keys() - made_here})
    note = "\n".join(filter(None, notes))
    given = LoadedModel(model, args, nested(kwargs), name, f"{name}: {note}" if note else "")
    if made_here and not args:
        given = _with_multimodal(given, wanted, specs)
    return given if wanted.batch is None else with_batch(given, wanted.batch)


def _inputs_in_words(made: Mapping[str, Any]) -> str:
    """The line about inputs that were made, as a person would write them."""
    words = (
        str(Spec(tuple(value.shape), value.dtype, name))
        if isinstance(value, Tensor)
        else f"{name}={value}"
        for name, value in made.items()
    )
    return f"inputs: {' '.join(words)} ({CHANGE})"


def _with_multimodal(given: LoadedModel, wanted: ModelSpec, specs: Sequence[Spec]) -> LoadedModel:
    """The same with a picture or sound beside the text, for a model that takes one."""
    named = {spec.name: spec for spec in specs if spec.name}
    if not hasattr(given.model, "main_input_name"):
        return given
    found = multimodal.sensed(given.model, given.kwargs, named, _sizes(wanted, specs), wanted.real)
    if found is None:
        return given
    lines = given.note.splitlines()
    if not found.inputs:
        return replace(given, note="\n".join((*lines, found.note)))
    kwargs = {**given.kwargs, **found.inputs}
    place = next(n for n, line in enumerate(lines) if "inputs: " in line)
    before = lines[place].partition("inputs: ")[0]
    plain = list(lines)
    lines[place] = before + _inputs_in_words(kwargs)
    lines.insert(place + 1, found.note)
    own = any(name in named for name in found.inputs if name != "input_ids")
    return replace(
        given,
        kwargs=kwargs,
        note="\n".join(lines),
        packed=found.packed,
        plain=None if own else replace(given, note="\n".join((*plain, found.doubt)).strip()),
    )


class _Own:
    """The inputs that a factory gave, or a config: what ``--input`` takes the place of."""

    def __init__(self, model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.model, self.args, self.kwargs = model, args, kwargs
        self.takes = _parameters(model)

    def merged(self, specs: Sequence[Spec], real: bool) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional inputs of the command line replace all positional ones; a name, its own."""
        placed = tuple(spec.tensor(real) for spec in specs if not spec.name)
        named = {spec.name: spec.tensor(real) for spec in specs if spec.name}
        for name in (*self.kwargs, *named):
            self._check_name(name)
        args, kwargs = self.args, dict(self.kwargs)
        order = list(self.takes)
        if placed:
            args = placed
            kwargs = {key: v for key, v in kwargs.items() if key not in order[: len(placed)]}
        args = tuple(named.pop(order[i], a) if i < len(order) else a for i, a in enumerate(args))
        return args, kwargs | named

    def _check_name(self, name: str) -> None:
        """Refuse a name that the forward doesn't have. Raises `LoadError`."""
        first = name.partition(".")[0]
        if not self.takes or first in self.takes:
            return
        names = takes(self.model)
        close = difflib.get_close_matches(first, names, n=1)
        if close or not self._takes_any(first):
            hint = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(names)}"
            raise LoadError(f"{type(self.model).__name__}.forward has no input {first!r}; {hint}")

    def _takes_any(self, name: str) -> bool:
        """Whether the forward's ``**kwargs`` may have a use for it.

        Those of transformers drop what they don't know in silence. A typed dict names the others.
        """
        rest = next((p for p in self.takes.values() if p.kind is p.VAR_KEYWORD), None)
        if rest is None:
            return False
        if all(kind.__name__ != "PreTrainedModel" for kind in type(self.model).__mro__):
            return True
        known = (getattr(each, "__annotations__", {}) for each in get_args(rest.annotation))
        return name in self.kwargs or any(name in names for names in known)

    def unnamed(self, specs: Sequence[Spec]) -> list[str]:
        """A line for each input of the command line that only ``**kwargs`` takes."""
        names = dict.fromkeys(spec.name.partition(".")[0] for spec in specs if spec.name)
        return [
            f"forward does not name {name!r}: its **kwargs take it"
            for name in names
            if self.takes and name not in self.takes
        ]


def _model(wanted: ModelSpec) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], list[str]]:
    """The model, the factory's own inputs, and notes for the reader."""
    if wanted.timm:
        return _timm(wanted), (), {}, []
    if wanted.hf:
        found = _named(wanted.target) if wanted.target else None
        model, note = hf.from_config(wanted.hf, found, wanted.real)
        return model, (), {}, [note]
    if ":" not in wanted.target and is_config(wanted.target):
        model, note = hf.from_config(wanted.target, None, wanted.real)
        return model, (), {}, [note]
    target = read(wanted.target)
    if target.module.partition(".")[0] in ("transformers", "diffusers", "timm"):
        library(target.module.partition(".")[0])
    made = targets.make(targets.find(target), target, wanted.real)
    if hasattr(made, "model_type") and not isinstance(made, nn.Module):  # a config of transformers
        model, note = hf.from_config_object(made, wanted.real)
        return model, (), {}, [note]
    return *targets.unpacked(made, str(target)), []


def _named(text: str) -> Any:
    target = read(text)
    go_offline()
    if target.module.partition(".")[0] in ("transformers", "diffusers"):
        library(target.module.partition(".")[0])
    return targets.find(target)


def _timm(wanted: ModelSpec) -> nn.Module:
    timm = library("timm")
    plain = wanted.timm.partition(".")[0]
    if not timm.is_model(plain):  # where `early` couldn't tell
        raise LoadError(f"timm has no model {wanted.timm!r}")
    options = {"img_size": wanted.image_size} if wanted.image_size else {}
    try:
        model = targets.built(lambda: timm.create_model(plain, **options), wanted.real)
    except FAILURES:  # a convolutional network takes any size, and no such argument
        try:
            model = targets.built(lambda: timm.create_model(plain), wanted.real)
        except FAILURES as error:
            raise LoadError(f"timm can't build {plain}: {in_words(error)}") from error
    assert isinstance(model, nn.Module), "timm gives a model"
    return model


def _made(model: nn.Module, wanted: ModelSpec, specs: Sequence[Spec]) -> dict[str, Spec]:
    """Inputs by the model's config, with the batch and the length of those that were given."""
    if any(not spec.name for spec in specs) and not hasattr(model, "main_input_name"):
        return {}
    try:
        return kinds.made(model, _sizes(wanted, specs), wanted.labels)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, LoadError):
            raise
        first = next(iter(takes(model)), "x")
        raise LoadError(
            f"no inputs could be made from the config of {type(model).__name__} "
            f"({in_words(error)}): give them with --input {first}=SIZES"
        ) from error


def _sizes(wanted: ModelSpec, specs: Sequence[Spec]) -> kinds.ChosenSizes:
    """What the options and the inputs of the command line say about the others' sizes."""
    sizes = kinds.ChosenSizes(wanted.batch, wanted.length, wanted.image_size)
    for spec in specs:
        packed = spec.name == "pixel_values" and len(spec.shape) == 2  # patches of all pictures
        if spec.shape and not packed:
            sizes = replace(sizes, batch=sizes.batch or spec.shape[0])
        if len(spec.shape) == 2 and spec.name in ("", "input_ids"):
            sizes = replace(sizes, length=sizes.length or spec.shape[1])
        if len(spec.shape) == 4:
            sizes = replace(sizes, image=sizes.image or spec.shape[-1])
    return sizes


def _loss_of(model: nn.Module, wanted: ModelSpec) -> tuple[dict[str, bool], str]:
    """What asks a Hugging Face model for its loss, beside labels; and a line where nothing does."""
    asks = {"labels", "return_loss"} & _parameters(model).keys()
    if not asks or not hasattr(model, "main_input_name"):
        return {}, ""
    if not wanted.labels:
        return {}, "no labels in eval mode or with --no-grad: the loss isn't counted"
    return ({"return_loss": True} if "return_loss" in asks else {}), ""


def _parameters(model: nn.Module) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(model.forward).parameters
    except (TypeError, ValueError):
        return {}


def _check_ids(model: nn.Module, specs: Mapping[str, Spec]) -> None:
    """Refuse token ids past the vocabulary, and more tokens than there are positions."""
    rows, ids = _vocabulary(model), specs.get("input_ids")
    if ids is None or rows is None:
        return
    if ids.dtype not in (torch.int64, torch.int32):
        raise LoadError(
            f"input_ids are whole numbers: write --input input_ids="
            f"{','.join(map(str, ids.shape))}:int64"
        )
    if ids.below is not None and ids.below > rows:
        raise LoadError(
            f"ids below {ids.below} don't fit an embedding of {rows} rows: the largest id is "
            f"{rows - 1}"
        )


def _check_labels(made: Mapping[str, Spec], changed: Mapping[str, Spec]) -> None:
    """Refuse labels of another shape than the tokens that they are for. Raises `LoadError`."""
    tokens = next((name for name in ("decoder_input_ids", "input_ids") if name in made), "")
    if not tokens or "labels" not in made or made["labels"].shape != made[tokens].shape:
        return
    labels, ids = (",".join(map(str, changed[name].shape)) for name in ("labels", tokens))
    if labels != ids:
        raise LoadError(
            f"labels are {labels} and {tokens} are {ids}: give both the same shape, as --input "
            f"{tokens}={labels}:int64"
        )


def _check_values(model: nn.Module, kwargs: Mapping[str, Any]) -> None:
    """The same for ids whose values are known: those that a factory gave."""
    ids, rows = kwargs.get("input_ids"), _vocabulary(model)
    if rows is None or not isinstance(ids, Tensor) or ids.is_meta or ids.is_floating_point():
        return
    if type(ids) is Tensor and ids.numel() and int(ids.max()) >= rows:
        raise LoadError(
            f"input_ids hold {int(ids.max())}, and the embedding has {rows} rows: the largest id "
            f"is {rows - 1}"
        )


def _vocabulary(model: Any) -> int | None:
    """Rows of a Hugging Face model's embedding of tokens, if it has one."""
    try:
        return int(model.get_input_embeddings().num_embeddings)
    except (AttributeError, NotImplementedError, TypeError):
        return None
