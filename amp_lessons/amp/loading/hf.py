"""``--hf config.json``: a Hugging Face model from its config, with no weights and no network.

The config says which class builds the model and which inputs its forward takes. transformers and
diffusers are both known. `hf_config` finds the config.
"""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from amp_lessons.amp.loading import hf_config
from amp_lessons.amp.loading.libraries import library, part_of
from amp_lessons.amp.loading.model_spec import LoadError
from amp_lessons.amp.loading.target_words import FAILURES, in_words
from amp_lessons.amp.loading.targets import built

TASKS = (
    "SEQ_TO_SEQ_CAUSAL_LM",
    "SPEECH_SEQ_2_SEQ",
    "MASKED_LM",
    "CAUSAL_LM",
    "ZERO_SHOT_IMAGE_CLASSIFICATION",
    "IMAGE_CLASSIFICATION",
    "OBJECT_DETECTION",
    "SEMANTIC_SEGMENTATION",
    "CTC",
    "AUDIO_CLASSIFICATION",
    "IMAGE_TEXT_TO_TEXT",
    "DEPTH_ESTIMATION",
    "UNIVERSAL_SEGMENTATION",
    "TIME_SERIES_PREDICTION",
    "TEXT_TO_WAVEFORM",
)
"""The head that a config gets which names no class: the first of these that its type has."""


def from_config(where: str, found: Any = None, real: bool = False) -> tuple[nn.Module, str]:
    """A model from a config, and a line about what was assumed.

    Args:
        where: a config file, a folder with a config.json, or a name.
        found: the class that the command line named, or None.
        real: whether its parameters must hold numbers.

    Raises:
        LoadError: if there is no config, or no class that it fits.
    """
    file, note = hf_config.find(where)
    settings = {} if file is None else hf_config.read(file)
    if "_class_name" in settings:
        return _diffusers(settings, found, where, real), note
    if file is None:
        config = _types()[hf_config.type_named(where, _types())]()
        note = (
            f"no config named {where} on this machine: taking transformers' default "
            f"{type(config).__name__}"
        )
    else:
        config = _config(settings, where)
    chosen, why = _chosen(config, found, where)
    build = chosen.from_config if chosen.__name__.startswith("Auto") else chosen
    model = _built(lambda: build(config), chosen.__name__, where, real)
    if file is None:
        note += f": {in_short(sum(p.numel() for p in model.parameters()))} parameters"
    return model, "\n".join(filter(None, (note, why, _narrow(config))))


def from_config_object(config: Any, real: bool = False) -> tuple[nn.Module, str]:
    """A model from a config that a factory gave."""
    chosen, why = _chosen(config, None, type(config).__name__)
    model = _built(lambda: chosen(config), chosen.__name__, type(config).__name__, real)
    return model, "\n".join(filter(None, (why, _narrow(config))))


def in_short(count: int) -> str:
    """A number of parameters, such as "6.7 B"."""
    for unit, name in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return str(count)


def _types() -> Any:
    library("transformers")
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return CONFIG_MAPPING


def _config(settings: dict[str, Any], where: str) -> Any:
    types, kind = _types(), settings["model_type"]
    hf_config.check_type(settings, where, types)
    try:
        return types[kind].from_dict(settings)
    except FAILURES as error:
        raise LoadError(f"{where} is not a config that {kind} takes: {in_words(error)}") from error


def _chosen(config: Any, found: Any, where: str) -> tuple[Any, str]:
    """The class that builds the model, and a line if nobody named it."""
    if found is not None:
        return _fitting(config, found, where), ""
    for name in getattr(config, "architectures", None) or ():
        try:
            return part_of("transformers", name.removeprefix("TF").removeprefix("Flax")), ""
        except AttributeError:
            continue
    from transformers.models.auto import modeling_auto

    for task in TASKS:
        names = getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING_NAMES", {})
        if config.model_type in names:
            name = names[config.model_type]
            break
    else:
        name = modeling_auto.MODEL_MAPPING_NAMES.get(config.model_type)
    name = name[0] if isinstance(name, list | tuple) else name
    if name is None:
        raise LoadError(
            f"{where} names no class of transformers under architectures; name one, as "
            f"transformers:SomeModel --hf {where}"
        )
    return part_of("transformers", name), f"the config names no class: taking {name}"


def _narrow(config: Any) -> str:
    """A line if the checkpoint's parameters are in 16 bits: autocast wants them in float32."""
    name = str(getattr(config, "dtype", None) or getattr(config, "torch_dtype", None))
    name = name.removeprefix("torch.")
    if name not in ("float16", "bfloat16"):
        return ""
    return f"parameters in float32, as autocast wants them (the checkpoint's are {name})"


def _fitting(config: Any, found: Any, where: str) -> Any:
    """The class of the command line, if the config is its own. Raises `LoadError`."""
    name = getattr(found, "__name__", type(found).__name__)
    if name.startswith("Auto") and hasattr(found, "from_config"):
        return found
    wanted = getattr(found, "config_class", None)
    if not (isinstance(found, type) and issubclass(found, nn.Module)) or wanted is None:
        raise LoadError(
            f"{name} is not a Hugging Face model class, so it can't take --hf; name the class, as "
            f"transformers:AutoModelForCausalLM, or leave one of the two out"
        )
    if not isinstance(config, wanted):
        raise LoadError(
            f"{where} is a config of {config.model_type} ({type(config).__name__}), and {name} "
            f"takes {wanted.__name__}; leave {name} out, or give a config of its own"
        )
    return found


def _diffusers(settings: dict[str, Any], found: Any, where: str, real: bool) -> nn.Module:
    name = settings["_class_name"]
    try:
        chosen: Any = part_of("diffusers", name)
    except AttributeError:
        raise LoadError(f"{where}: diffusers has no class {name!r}") from None
    if found is not None and found is not chosen:
        raise LoadError(f"{where} is a config of {name}, not of {found.__name__}; leave it out")
    if not (inspect.isclass(chosen) and issubclass(chosen, nn.Module)):
        raise LoadError(f"{where}: {name} is not a model; give the config.json of one")
    build: Any = chosen
    return _built(lambda: build.from_config(settings), name, where, real)


def _no_initial_values() -> AbstractContextManager[None]:
    """transformers' own way to leave weights as they are; a few of its draws look at values."""
    try:
        from transformers.initialization import no_init_weights
    except ImportError:  # before transformers 5
        return nullcontext()
    return cast("AbstractContextManager[None]", no_init_weights())


def _built(build: Any, name: str, where: str, real: bool) -> nn.Module:
    def build_here() -> Any:
        try:
            return build()
        except FAILURES:
            if not isinstance(torch.empty(0), FakeTensor):
                raise
        with _no_initial_values():  # it leaves out tying weights as well
            model = build()
        model.tie_weights()
        return model

    try:
        model = built(build_here, real)
    except FAILURES as error:
        raise LoadError(f"{name} can't be built from {where}: {in_words(error)}") from error
    assert isinstance(model, nn.Module), "a model class gives a model"
    return model
