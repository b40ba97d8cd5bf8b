"""From a target to what its words name, and to the model that it gives. `target_words` reads them.

A factory runs where tensors are fake, so that a model of any size is built at once and for
nothing. One that needs real numbers, to load a checkpoint for instance, is then run for real.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from amp_lessons.amp.fake_tensors.errors import wants_gpu
from amp_lessons.amp.fake_tensors.known import KnownValues, value_of
from amp_lessons.amp.fake_tensors.modes import fake_mode, quiet, rng_kept
from amp_lessons.amp.loading.captured_output import heard
from amp_lessons.amp.loading.early import no_such_name
from amp_lessons.amp.loading.model_spec import LoadError
from amp_lessons.amp.loading.target_words import FAILURES, Target, file_of, in_words


def find(target: Target) -> Any:
    """What the target names: a function, a class or a model. Raises `LoadError`."""
    owner: Any = _import(target)
    for name in target.path.split("."):
        try:
            owner = getattr(owner, name)
        except AttributeError:
            raise no_such_name(target, name, dir(owner)) from None
        except FAILURES as error:  # a library that loads its parts when they are asked for
            raise LoadError(f"cannot import {target}: {in_words(error)}") from error
    return owner


def make(found: Any, target: Target, real: bool = False) -> Any:
    """What a factory gives, built on fake tensors where that works. Raises `LoadError`."""
    if isinstance(found, nn.Module) or not callable(found):
        return found
    _check_arguments(found, target)

    def build() -> Any:
        return found(*target.args, **target.kwargs)

    try:
        return built(build, real)
    except FAILURES as error:
        raise LoadError(f"{target} failed: {in_words(error)}{_cure(error, target)}") from error


def built(build: Any, real: bool = False) -> Any:
    """What a function gives among fake tensors; among real ones where it fails there."""
    if not real:
        mode = fake_mode()
        try:
            with heard(), rng_kept(), quiet(), mode, KnownValues(mode):
                return build()
        except FAILURES:
            pass
    with heard():
        return build()


def unpacked(made: Any, target: str) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any]]:
    """A model and its inputs from what a factory may give. Raises `LoadError`.

    That is a model, ``(model, inputs)`` or ``(model, args, kwargs)``. Inputs are a tuple or a list
    of positional ones, a dict of keyword inputs, or a single one.
    """
    parts = tuple(made) if isinstance(made, tuple | list) else (made,)
    model: Any = parts[0] if parts else None
    if not isinstance(model, nn.Module):
        if inspect.iscoroutine(made):
            made.close()
        what = f"the class {model.__name__}" if isinstance(model, type) else type(made).__name__
        raise LoadError(
            f"{target} gives {what}; it must give an nn.Module, (model, inputs) or "
            "(model, args, kwargs)"
        )
    if len(parts) > 3 or (len(parts) == 3 and not isinstance(parts[2], Mapping)):
        raise LoadError(
            f"{target} gives {len(parts)} things; it must give a model, (model, inputs) or "
            "(model, args, kwargs), with kwargs a dict"
        )
    named: Mapping[str, Any] = parts[2] if len(parts) == 3 else {}
    inputs: Any = parts[1] if len(parts) > 1 else ()
    if isinstance(inputs, Mapping):  # keyword inputs, such as a tokenizer's
        inputs, named = (), {**inputs, **named}
    args = tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)
    args, named = tree_map_only(Tensor, _known, (args, dict(named)))
    return model, args, dict(named)


def _known(tensor: Tensor) -> Tensor:
    """The real tensor beside a fake one whose values are known, such as token ids."""
    value = value_of(tensor)
    return tensor if value is None else value


def _import(target: Target) -> ModuleType:
    name = target.module
    try:
        with heard():
            return _from_file(file_of(target)) if target.in_file else _from_path(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if not target.in_file and (name == missing or name.startswith(f"{missing}.")):
            cure = "; run this in its folder, or install it"
        else:
            cure = f"; pip install {missing.partition('.')[0]}, or whatever provides it"
        raise LoadError(f"cannot import {name}: {in_words(error)}{cure}") from error
    except LoadError:
        raise
    except FAILURES as error:
        raise LoadError(f"cannot import {name}: {in_words(error)}{_cure(error, target)}") from error


def _from_path(name: str) -> ModuleType:
    _search(Path.cwd())
    return importlib.import_module(name)


def _from_file(file: Path) -> ModuleType:
    """A module from its file; one that is in a package is imported as part of it."""
    folder, parts = file.resolve().parent, [file.stem]
    while (folder / "__init__.py").is_file():
        parts.insert(0, folder.name)
        folder = folder.parent
    _search(folder)
    if parts[-1] == "__init__":
        parts.pop()
    name = ".".join(parts)
    if len(parts) > 1 or name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, file)
        if len(parts) > 1 or spec is None or spec.loader is None:
            return importlib.import_module(name)
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # as an import does: a dataclass looks there for its module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        return module
    return _again(name, file)


def _again(name: str, file: Path) -> ModuleType:
    """A file whose name a loaded module has: that module if it is this file, else another name."""
    module = sys.modules[name]
    if getattr(module, "__file__", None) == str(file.resolve()):
        return module
    spec = importlib.util.spec_from_file_location(f"{name}_of_{file.parent.name or 'here'}", file)
    assert spec is not None, "a file that is there has a spec"
    assert spec.loader is not None, "and a loader"
    other = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = other
    spec.loader.exec_module(other)
    return other


def _search(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _check_arguments(found: Any, target: Target) -> None:
    """Refuse a call without the arguments that the factory needs. Raises `LoadError`."""
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):  # nothing to look at
        return
    try:
        signature.bind(*target.args, **target.kwargs)
    except TypeError as error:
        first = next(iter(signature.parameters), "width")
        cure = f"write them out, as '{target}({first}=…)', or name a function that needs none"
        if first == "config":
            cure = (
                "give its config with --hf config.json, or call it in a function of your own "
                "and name that"
            )
        raise LoadError(f"{target} is called without what it needs: {error}; {cure}") from None


def _cure(error: BaseException, target: Target) -> str:
    if isinstance(error, FileNotFoundError):
        return "; shapes are enough here, so build the model without the file, or run in its folder"
    if isinstance(error, EOFError):
        return (
            "; it reads standard input, which is closed to it here; write the value into the "
            f"call, as '{target}(width=64)'"
        )
    if isinstance(error, SystemExit):
        return "; name a function that builds the model and does not end the program"
    if wants_gpu(error):
        return "; build it on the CPU: --device says whose rules are told, and no GPU is needed"
    if "torchvision::" in str(error):
        return "; torchvision doesn't fit this torch: reinstall the two together"
    if "offline" in str(error).lower() or type(error).__name__ in _DOWNLOADS:
        return "; nothing is downloaded here: build it from a config, or without the weights"
    return ""


_DOWNLOADS = ("OfflineModeIsEnabled", "URLError", "ConnectionError", "ConnectError")
