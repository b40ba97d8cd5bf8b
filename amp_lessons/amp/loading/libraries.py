"""transformers, diffusers and timm: imported when they are asked for, and always offline.

Nothing here downloads a config or weights. A library that is missing or broken gets one line with
the cure.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from types import ModuleType

from amp_lessons.amp.loading.captured_output import heard
from amp_lessons.amp.loading.model_spec import LoadError
from amp_lessons.amp.loading.target_words import FAILURES, in_words
from amp_lessons.amp.loading.vision_ops import declare_on_import

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "DIFFUSERS_VERBOSITY": "error",
    "TRANSFORMERS_VERBOSITY": "error",
}


def go_offline() -> None:
    """Tell the libraries, before they are imported, that there is no network."""
    os.environ.update(OFFLINE)


def check_installed(name: str) -> None:
    """Raises `LoadError` if a library is missing. It isn't imported for that."""
    if importlib.util.find_spec(name) is None:
        raise LoadError(f"{name} is not installed: pip install {name}")


def library(name: str) -> ModuleType:
    """transformers, diffusers or timm. Raises `LoadError` if it is missing or broken."""
    go_offline()
    check_installed(name)
    try:
        with heard():
            declare_on_import()
            return importlib.import_module(name)
    except FAILURES as error:
        import torch

        raise LoadError(
            f"cannot import {name}: {in_words(error)}; reinstall it beside torch "
            f"{torch.__version__}"
        ) from error


def part_of(name: str, attribute: str) -> object:
    """A class of a library, which loads it now. Raises `LoadError` if that fails.

    Raises:
        AttributeError: if there is no such name.
    """
    found = library(name)
    try:
        with heard():
            return getattr(found, attribute)
    except AttributeError:
        raise
    except FAILURES as error:
        root = error.__cause__ or error
        raise LoadError(f"cannot import {name}.{attribute}: {in_words(root)}") from error
