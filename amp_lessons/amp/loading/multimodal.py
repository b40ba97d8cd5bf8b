"""Pictures and sound for a model of transformers that reads them beside a text.

Its config seldom says how many tokens of the text stand for a picture: that depends on patches,
merging and pooling. So the model's own `get_image_features` is run on fake tensors, and as many
image tokens go into the text as it gives features. Where no guess at the sizes fits, nothing is
made, and the report says which part of the model did not run.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from amp_lessons.amp.fake_tensors.known import KnownValues
from amp_lessons.amp.fake_tensors.models import fake_inputs, stand_in, tensors_in
from amp_lessons.amp.fake_tensors.modes import as_in_a_run, fake_mode, quiet, rng_kept
from amp_lessons.amp.loading.inputs import Spec
from amp_lessons.amp.loading.kinds import ChosenSizes

SIDE = 448
"""Of a picture, in pixels, for a model that takes any size."""
FRAMES = 800
"""Of sound, 8 seconds at 10 ms, for a model that takes any length."""
SAMPLES = 48_000
TEXT = 64
"""Tokens of text beside those of a picture, where a person chose no length."""

Inputs = dict[str, Tensor]


@dataclass(frozen=True)
class Sensed:
    """Inputs of a picture or a sound, and the text that they belong to.

    Attributes:
        inputs: by the names of the forward's parameters; {} if the text has no room for them.
        packed: those whose first size is not the batch: all examples follow each other in them.
        note: how many tokens of the text stand for what, or would.
        doubt: why the model may refuse them; "" if nothing speaks against them.
    """

    inputs: Inputs
    packed: frozenset[str]
    note: str
    doubt: str = ""


@dataclass(frozen=True)
class Sense:
    """What one kind of input is called.

    Attributes:
        word: in a note.
        getter: the method of a model that makes features of it.
        names: of the input itself, one of which the getter takes.
        tokens: in a config, for the id of the token that stands for a feature.
        type_id: what `mm_token_type_ids` says of such a token.
    """

    word: str
    getter: str
    names: tuple[str, ...]
    tokens: tuple[str, ...]
    type_id: int


_PLACES = {"image_grid_thw", "image_grid_hw", "spatial_shapes", "image_position_ids"}
"""What says where the patches of a picture belong."""
_MISFIT = (
    "this config makes {word} features of width {width} for a text of width {wide}: take the "
    "config of a checkpoint"
)
SENSES = (
    Sense(
        "image",
        "get_image_features",
        ("pixel_values",),
        ("image_token_id", "image_token_index", "media_placeholder_token_id"),
        1,
    ),
    Sense(
        "audio",
        "get_audio_features",
        ("input_features", "input_values"),
        ("audio_token_id", "audio_token_index", "audio_bos_token_id"),
        3,
    ),
)


def sensed(
    model: Any, text: Mapping[str, Any], named: Mapping[str, Spec], sizes: ChosenSizes, real: bool
) -> Sensed | None:
    """Pictures and sound for a model that takes them beside a text; None if none could be made.

    Args:
        model: of transformers.
        text: the inputs that were made, with input_ids.
        named: what the command line gives.
        sizes: what a person chose.
        real: whether the inputs must hold numbers.
    """
    takes = inspect.signature(model.forward).parameters
    ids = text.get("input_ids")
    names = {name for sense in SENSES for name in sense.names} & text.keys()
    if not isinstance(ids, Tensor) or ids.is_meta or ids.dim() != 2 or names - named.keys():
        return None
    wide = _text(model.config).hidden_size
    doubt = ""
    made: Inputs = {}
    placed: list[tuple[Sense, int, int]] = []
    packed: set[str] = set()
    for sense in SENSES:
        getter, token = _getter(model, sense), _token(model.config, sense)
        if getter is None or token is None or not any(name in takes for name in sense.names):
            continue
        for guess in _guesses(model.config, sense, ids.shape[0], named, sizes, real):
            inputs = {name: value for name, value in guess.items() if name in takes}
            if guess.keys() & _PLACES and not inputs.keys() & _PLACES:
                continue  # patches, for a model that takes whole pictures
            count, width = _features(model, getter, inputs)
            if count and count % ids.shape[0] == 0:
                placed.append((sense, token, count // ids.shape[0]))
                if width != wide:
                    doubt = _MISFIT.format(word=sense.word, width=width, wide=wide)
                packed |= {n for n, v in inputs.items() if v.shape[0] != ids.shape[0]}
                made |= inputs
                break
    if not placed:
        return None
    told = " and ".join(f"{count} {sense.word} tokens" for sense, _, count in placed)
    room = 1 + sum(count for *_, count in placed)
    length = ids.shape[1]
    if sizes.length is None:
        length = max(length, room + TEXT)
    if room > length:
        return Sensed({}, frozenset(), f"{told} don't fit a text of {length}: take --length {room}")
    for name, value in text.items():  # labels, which are as long as the text
        if isinstance(value, Tensor) and value.shape == ids.shape:
            made[name] = _as_long(value, length)
    made |= _with_tokens(model.config, made["input_ids"], placed, takes)
    return Sensed(made, frozenset(packed), f"of each text, {told}", doubt)


def _as_long(tensor: Tensor, length: int) -> Tensor:
    return tensor.repeat(1, math.ceil(length / tensor.shape[1]))[:, :length].clone()


# ---- the text -----------------------------------------------------------------------------------


def _with_tokens(
    config: Any, text: Tensor, placed: list[tuple[Sense, int, int]], takes: Any
) -> Inputs:
    """The text with a run of tokens for each picture and sound, and what says which is which."""
    special = {value for name, value in _numbers(config) if name.endswith(("token_id", "_index"))}
    plain = next(number for number in range(len(special) + 1) if number not in special)
    for number in special:
        text[text == number] = plain
    types = torch.zeros_like(text)
    start = 1
    for sense, token, count in placed:
        text[:, start : start + count] = token
        types[:, start : start + count] = sense.type_id
        start += count
    found = {"input_ids": text}
    for name in ("mm_token_type_ids", "moe_mm_token_type_ids"):
        if name in takes:
            found[name] = types
    if "token_type_ids" in takes:
        found["token_type_ids"] = (types > 0).long()
    return found


def _numbers(config: Any) -> Iterator[tuple[str, int]]:
    for owner in {id(each): each for each in (config, _text(config))}.values():
        yield from ((n, v) for n, v in vars(owner).items() if type(v) is int)


def _text(config: Any) -> Any:
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _token(config: Any, sense: Sense) -> int | None:
    found = (getattr(config, name, None) for name in sense.tokens)
    return next((number for number in found if isinstance(number, int)), None)


# ---- the features -------------------------------------------------------------------------------


def _getter(model: Any, sense: Sense) -> Callable[[Any], Any] | None:
    """How to get a copy's own method: of the model, or of the part that it wraps."""
    if hasattr(model, sense.getter):
        return lambda copy: getattr(copy, sense.getter)
    if hasattr(getattr(model, "model", None), sense.getter):
        return lambda copy: getattr(copy.model, sense.getter)
    return None


def _features(model: nn.Module, getter: Callable[[Any], Any], inputs: Inputs) -> tuple[int, int]:
    """How many features the model makes of these inputs, and how wide; 0 if they don't fit it."""
    mode = fake_mode()
    try:
        with ExitStack() as stack:
            stack.enter_context(rng_kept())
            copied = stand_in(model, mode, "cpu")
            given = fake_inputs(inputs, mode, "cpu")
            stack.enter_context(quiet())
            stack.enter_context(mode)
            stack.enter_context(KnownValues(mode))
            stack.enter_context(as_in_a_run(copied))
            stack.enter_context(torch.no_grad())
            output = getter(copied)(**given)
    except Exception:
        return 0, 0
    found = getattr(output, "pooler_output", None)
    tensors = tensors_in(output if found is None else found)
    widths = [int(tensor.shape[-1]) for tensor in tensors if tensor.dim() and tensor.numel()]
    if len(set(widths)) != 1:
        return 0, 0
    return sum(int(tensor.numel()) for tensor in tensors) // widths[0], widths[0]


# ---- guesses at the sizes -----------------------------------------------------------------------


def _guesses(
    config: Any, sense: Sense, batch: int, named: Mapping[str, Spec], sizes: ChosenSizes, real: bool
) -> Iterator[Inputs]:
    """Inputs in the shapes that models take, the likelier ones first; or in a person's own."""
    makers = {"image": _pictures, "audio": _sounds}
    given = {name: spec for name, spec in named.items() if name in sense.names}
    for specs, more in makers[sense.word](config, batch, sizes, given):
        made = {name: spec.tensor(real) for name, spec in (specs | given).items()}
        yield made | {name: value for name, value in more.items() if name not in named}


Guess = tuple[dict[str, Spec], Inputs]


def _pictures(
    config: Any, batch: int, sizes: ChosenSizes, given: Mapping[str, Spec]
) -> Iterator[Guess]:
    vision = _part(config, "vision_config", "vision", "vision_tower_config")
    own = _number(vision, "image_size", default=SIDE)
    patch = _number(vision, "patch_size", "spatial_patch_size", default=14)
    channels = _number(vision, "num_channels", "in_channels", "in_chans", default=3)
    frames = _number(vision, "temporal_patch_size", default=1)
    merge = _number(vision, "spatial_merge_size", "merge_size", default=2)
    merge = max(merge, _number(config, "spatial_merge_size", "merge_size", default=1))
    side = sizes.image or min(own, SIDE)
    across = max(1, side // patch // merge) * merge
    rows, columns = _grid(given, batch, across, merge)
    count = rows * columns
    grid = torch.tensor([[1, rows, columns]] * batch)
    grids = {"image_grid_thw": grid, "image_grid_hw": grid[:, 1:]}
    for shape in (
        (channels * frames * patch**2,),
        (channels, patch, patch),
        (channels * patch**2,),
        (channels, frames, patch, patch),
    ):
        yield {"pixel_values": Spec((batch * count, *shape))}, grids
    flat = Spec((batch, count, channels * patch**2))
    mask = torch.ones(batch, count, dtype=torch.int64)
    shapes = {"spatial_shapes": grid[:, 1:], "pixel_attention_mask": mask}
    yield {"pixel_values": flat}, shapes
    places = torch.stack(torch.meshgrid(torch.arange(columns), torch.arange(rows), indexing="xy"))
    yield (
        {"pixel_values": flat},
        {"image_position_ids": places.reshape(2, -1).T.repeat(batch, 1, 1)},
    )
    side = sizes.image or own
    pixels = {"image_sizes": torch.tensor([[side, side]] * batch)}
    for shape in ((channels, side, side), (1, channels, side, side), (5, channels, side, side)):
        yield {"pixel_values": Spec((batch, *shape))}, pixels
        yield {"pixel_values": Spec((batch, *shape))}, {}


def _grid(given: Mapping[str, Spec], batch: int, across: int, merge: int) -> tuple[int, int]:
    """Rows and columns of patches in a picture: those of a person's own pixel_values, if it has."""
    spec = given.get("pixel_values")
    if spec is None or len(spec.shape) > 3 or not spec.shape or spec.shape[0] % batch:
        return across, across
    count = spec.shape[0] // batch if len(spec.shape) == 2 else spec.shape[1]
    side = math.isqrt(count)
    if side * side == count and side % merge == 0:
        return side, side
    return merge, max(1, count // merge)


def _sounds(
    config: Any, batch: int, sizes: ChosenSizes, given: Mapping[str, Spec]
) -> Iterator[Guess]:
    sound = _part(config, "audio_config", "audio_encoder_config", "encoder_config", "speech_config")
    mel = _number(sound, "num_mel_bins", "mel_bins", "n_mels", "feat_in", default=128)
    wide = _number(sound, "input_size", "input_dim", "input_feat_size", default=mel)
    positions = _number(sound, "max_source_positions", default=0)
    stacked = _number(sound, "num_stacked_frames", default=1)
    for frames in dict.fromkeys((2 * positions or FRAMES // stacked, FRAMES)):
        masks = _masks(batch, frames)
        for shape in dict.fromkeys(((mel, frames), (frames, wide), (frames, mel))):
            yield {"input_features": Spec((batch, *shape))}, masks
    for wave in ((SAMPLES,), (1, SAMPLES)):
        yield {"input_values": Spec((batch, *wave))}, _masks(batch, SAMPLES)


def _masks(batch: int, length: int) -> Inputs:
    """What says that nothing in the sound is padding, under each of its names."""
    ones = torch.ones(batch, length, dtype=torch.int64)
    names = ("input_features_mask", "feature_attention_mask", "input_values_mask")
    return dict.fromkeys(names, ones) | {"padding_mask": ones.bool()}


def _part(config: Any, *names: str) -> Any:
    return next((part for n in names if (part := getattr(config, n, None)) is not None), config)


def _number(owner: Any, *names: str, default: int) -> int:
    for name in names:
        value = getattr(owner, name, None)
        value = value[0] if isinstance(value, list | tuple) and value else value
        if isinstance(value, int) and value > 0:
            return value
    return default
