"""Where the config of a Hugging Face model lies, and what can be refused without its library.

A name with no file is looked for among the models that were downloaded to this machine before, then
among the model types that transformers has defaults for. Nothing here imports torch.
"""

from __future__ import annotations

import ast
import difflib
import importlib.metadata
import importlib.util
import json
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

from amp_lessons.amp.loading.libraries import check_installed, go_offline
from amp_lessons.amp.loading.model_spec import LoadError
from amp_lessons.amp.loading.target_words import FAILURES, WEIGHTS, in_words

OTHER_FILES = {
    "model_index.json": "a pipeline's folder; name the folder of one model in it, such as {}/unet",
    "adapter_config.json": "a folder with an adapter; name its base model's config",
}

_TYPES_IN = ("auto_mappings.py", "configuration_auto.py")
_TYPES = "CONFIG_MAPPING_NAMES"


def check(where: str, may_add_types: bool = False) -> None:
    """Refuse a config that isn't there, or of a type or a library that isn't. Raises `LoadError`.

    Args:
        where: a config file, a folder with a config.json, or a name.
        may_add_types: whether the reader's own code may tell transformers of more types.
    """
    file, _ = find(where)
    settings = {} if file is None else read(file)
    check_installed("diffusers" if "_class_name" in settings else "transformers")
    types = set() if may_add_types or "_class_name" in settings else known_types()
    if types and file is None:
        type_named(where, types)
    elif types:
        check_type(settings, where, types)


def find(where: str) -> tuple[Path | None, str]:
    """The config's file, and where it was found if that is not plain. Raises `LoadError`.

    None stands for a name that has no file, and may be a model type.
    """
    path = Path(where).expanduser()
    if path.is_dir():
        return _in_folder(path), ""
    if path.is_file():
        return path, ""
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
        return cached, f"config of {where} from this machine's Hugging Face cache"
    return None, ""


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


def read(path: Path) -> dict[str, Any]:
    """What a config file says. Raises `LoadError`."""
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


def type_named(name: str, types: Collection[str]) -> str:
    """The model type of this name, which is no config's. Raises `LoadError` if there is none."""
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
    return kind


def check_type(settings: dict[str, Any], where: str, types: Collection[str]) -> None:
    """Refuse a config whose model type transformers doesn't know. Raises `LoadError`."""
    kind = settings["model_type"]
    if kind not in types:
        close = difflib.get_close_matches(str(kind), types, n=1)
        near = f"; did you mean {close[0]!r}?" if close else ""
        own = "; its code is not in transformers: build the model in a function, and name that"
        raise LoadError(
            f"{where}: transformers {importlib.metadata.version('transformers')} does not know the "
            f"model type {kind!r}{own if 'auto_map' in settings else near}"
        )


@cache
def known_types() -> frozenset[str]:
    """The model types in the source of transformers, which takes seconds to import.

    Empty if they don't stand where they are looked for: then only an import can tell.
    """
    spec = importlib.util.find_spec("transformers")
    found: set[str] = set()
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for name in _TYPES_IN:
            try:
                source = Path(folder, "models", "auto", name).read_text(encoding="utf-8")
                found |= _types_in(ast.parse(source))
            except (OSError, SyntaxError):
                return frozenset()
    return frozenset(found)


def _types_in(module: ast.Module) -> set[str]:
    """The first of each pair of texts, and the keys, in what fills the mapping."""
    found: list[ast.expr | None] = []
    for statement in module.body:
        if not ast.unparse(statement).startswith((f"{_TYPES} = ", f"{_TYPES}.update(")):
            continue
        for node in ast.walk(statement):
            if isinstance(node, ast.Tuple):
                found += node.elts[:1]
            elif isinstance(node, ast.Dict):
                found += node.keys
    values = (each.value for each in found if isinstance(each, ast.Constant))
    return {value for value in values if isinstance(value, str)}


def _cached(name: str) -> Path | None:
    """A config that an earlier download left on this machine."""
    go_offline()
    check_installed("transformers")
    try:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(name, "config.json")
    except FAILURES:  # not a name that a hub could have
        return None
    return Path(found) if isinstance(found, str) else None
