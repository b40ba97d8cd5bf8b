"""From the words of a command line to a model and its inputs: ``package.module:factory``.

The factory runs where tensors are fake, so that a model of any size is built at once and for
nothing. One that needs real numbers, to load a checkpoint for instance, is then run for real.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from amp_lessons.fakes.errors import TraceError
from amp_lessons.fakes.modes import quiet


def load(target: str, shapes: Sequence[str] = ()) -> tuple[nn.Module, tuple[Any, ...]]:
    """The model that ``module:factory`` names, and its inputs.

    Args:
        target: a function that gives a model or ``(model, inputs)``, a module class without
            arguments, or a model.
        shapes: of inputs that take the place of the factory's, such as "32,64" or "8,128:int64".

    Raises:
        TraceError: if there is no such thing, or it gives something else.
    """
    inputs = tuple(parse_shape(text) for text in shapes)
    made = _make(_find(target), target)
    model, own = made if isinstance(made, tuple) and len(made) == 2 else (made, ())
    if not isinstance(model, nn.Module):
        raise TraceError(
            f"{target} gives {type(model).__name__}; it must give an nn.Module, or a tuple of a "
            "module and its inputs"
        )
    own = tuple(own) if isinstance(own, tuple | list) else (own,)
    return model, inputs or own


def parse_shape(text: str) -> Tensor:
    """ "8,128:int64" as a tensor on the meta device, which has no data. Raises `TraceError`."""
    sizes, _, name = text.partition(":")
    dtype = getattr(torch, name or "float32", None)
    if not isinstance(dtype, torch.dtype):
        raise TraceError(f"--input {text}: {name!r} is no dtype; try float32 or int64")
    try:
        shape = [int(size) for size in sizes.strip("()[] ,").split(",") if size.strip()]
        if min(shape, default=0) < 0 or not sizes.strip():
            raise ValueError
    except ValueError:
        raise TraceError(f"--input {text}: write a shape as 32,64 or as 8,128:int64") from None
    try:
        return torch.empty(shape, dtype=dtype, device="meta")
    except (RuntimeError, TypeError):  # its bytes are no int64
        raise TraceError(f"--input {text}: no tensor can be that large") from None


def _find(target: str) -> Any:
    module_name, colon, path = target.partition(":")
    if not (module_name and colon and path):
        raise TraceError(f"{target!r} is not of the form package.module:factory")
    if "/" in module_name or "\\" in module_name or module_name.endswith(".py"):
        dotted = module_name.removesuffix(".py").strip("./\\").replace("/", ".")
        raise TraceError(f"{module_name} is a file: name the module, as {dotted}:{path}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        cure = "" if error.name != module_name else "; run this in its folder, or install it"
        raise TraceError(f"cannot import {module_name}: {_words(error)}{cure}") from error
    except _FAILURES as error:
        raise TraceError(f"cannot import {module_name}: {_words(error)}") from error
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise TraceError(f"{module_name} has no {path!r}{_near(found, name)}") from None
    return found


def _near(owner: Any, name: str) -> str:
    import difflib

    close = difflib.get_close_matches(name, dir(owner), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _make(found: Any, target: str) -> Any:
    if isinstance(found, nn.Module) or not callable(found):
        return found
    try:
        with quiet(), FakeTensorMode(allow_non_fake_inputs=True):
            return found()
    except _FAILURES:
        try:
            return found()
        except _FAILURES as error:
            raise TraceError(f"{target} failed: {_words(error)}") from error


_FAILURES = (Exception, SystemExit)  # a script that calls sys.exit() must not end ours unheard


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
