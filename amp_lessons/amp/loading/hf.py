"""``--hf config.json``: a Hugging Face model from its config, with no weights and no network.

The config says which class builds the model and which inputs its forward takes. transformers and
diffusers are both known; a name with no file is looked for among the models that were downloaded to
this machine before, then among the model types that transformers has defaults for.
"""

from __future__ import annotations

import difflib
import inspect
import json
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from amp_lessons.amp.loading.libraries import library, part_of
from amp_lessons.amp.loading.model_spec import LoadError
from amp_lessons.amp.loading.targets import FAILURES, WEIGHTS, built, in_words

OTHER_FILES = {
    "model_index.json": "a pipeline's folder; name the folder of one model in it, such as {}/unet",
    "adapter_config.json": "a folder with an adapter; name its base model's config",
}

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
        DoorError: if there is no config, or no class that it fits.
    """
    settings, note = read_config(where)
    if "_class_name" in settings:
        model = _diffusers(settings, found, where, real)
        return model, note
    defaulted = "model_type" not in settings
    config = settings["config"] if defaulted else _config(settings, where)
    chosen, why = _chosen(config, found, where)
    build = chosen.from_config if chosen.__name__.startswith("Auto") else chosen
    model = _built(lambda: build(config), chosen.__name__, where, real)
    if defaulted:
        note += f": {in_short(sum(p.numel() for p in model.parameters()))} parameters"
    return model, "\n".join(filter(None, (note, why, _narrow(config))))


def from_config_object(config: Any, real: bool = False) -> tuple[nn.Module, str]:
    """A model from a config that a factory gave."""
    chosen, why = _chosen(config, None, type(config).__name__)
    model = _built(lambda: chosen(config), chosen.__name__, type(config).__name__, real)
    return model, "\n".join(filter(None, (why, _narrow(config))))


def read_config(where: str) -> tuple[dict[str, Any], str]:
    """What a config file says, and where it was found if that is not plain. Raises `LoadError`.

    For a model type that has no file, the one key "config" holds transformers' default.
    """
    path = Path(where).expanduser()
    if path.is_dir():
        return _read(_in_folder(path)), ""
    if path.is_file():
        return _read(path), ""
    if path.suffix in (".json", *WEIGHTS) or where.startswith((".", "/", "~")):
        raise LoadError(f"there is no file or folder {where}: give a model's config.json")
    if "://" in where:
        raise LoadError(
            f"nothing is downloaded, so {where} can't be read: save the config, and take --hf DIR"
        )
    if where.endswith(("/", "\\")) or where.count("/") > 1:  # a hub's names have one slash
        raise LoadError(f"there is no folder {where}: give one that holds a model's config.json")
    cached = _cached(where)
    if cached is not None:
        return _read(cached), f"config of {where} from this machine's Hugging Face cache"
    return _default(where)


def in_short(count: int) -> str:
    """A number of parameters, such as "6.7 B"."""
    for unit, name in ((10**9, "B"), (10**6, "M"), (10**3, "K")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return str(count)


def is_config(target: str) -> bool:
    """Whether a target without a colon is a config file or a folder that holds one."""
    path = Path(target).expanduser()
    return path.suffix == ".json" or (path / "config.json").is_file()


def _in_folder(folder: Path) -> Path:
    for name in ("config.json", *OTHER_FILES):
        if (folder / name).is_file():
            if name in OTHER_FILES:
                raise LoadError(f"{folder} is {OTHER_FILES[name].format(folder)}")
            return folder / name
    raise LoadError(f"{folder} holds no config.json; save the model's config there")


def _read(path: Path) -> dict[str, Any]:
    if path.suffix in WEIGHTS:
        raise LoadError(f"{path} holds weights; give the config.json that goes with them")
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LoadError(f"{path} can't be read as JSON: {in_words(error)}") from error
    if not isinstance(settings, dict) or not settings.keys() & {"model_type", "_class_name"}:
        raise LoadError(
            f"{path} names neither model_type (transformers) nor _class_name (diffusers): give the "
            "config.json of a model"
        )
    return settings


def _cached(name: str) -> Path | None:
    """A config that an earlier download left on this machine."""
    library("transformers")
    try:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(name, "config.json")
    except FAILURES:  # not a name that a hub could have
        return None
    return Path(found) if isinstance(found, str) else None


def _default(name: str) -> tuple[dict[str, Any], str]:
    types = _types()
    plain = name.lower()
    kind = plain if plain in types else plain.replace("-", "_")
    if kind not in types:
        close = difflib.get_close_matches(plain.rpartition("/")[2], types, n=1)
        near = f", or --hf {close[0]} for that type's default" if close else ""
        raise LoadError(
            f"there is no file {name}, and nothing is downloaded. Where you have a network, "
            f"AutoConfig.from_pretrained({name!r}).save_pretrained('DIR') saves its config; then "
            f"take --hf DIR{near}"
        )
    config = types[kind]()
    return (
        {"config": config},
        f"no config named {name} on this machine: taking transformers' default "
        f"{type(config).__name__}",
    )


def _types() -> Any:
    library("transformers")
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return CONFIG_MAPPING


def _config(settings: dict[str, Any], where: str) -> Any:
    types, kind = _types(), settings["model_type"]
    if kind not in types:
        import transformers

        close = difflib.get_close_matches(str(kind), types, n=1)
        near = f"; did you mean {close[0]!r}?" if close else ""
        own = "; its code is not in transformers: build the model in a function, and name that"
        raise LoadError(
            f"{where}: transformers {transformers.__version__} does not know the model type "
            f"{kind!r}{own if 'auto_map' in settings else near}"
        )
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
