"""transformers, diffusers and timm: imported when they are asked for, and always offline.

Nothing here downloads a config or weights. A library that is missing or broken gets one line with
the cure.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch

from amp_lessons.doors.given import DoorError
from amp_lessons.doors.talk import heard
from amp_lessons.doors.targets import FAILURES, in_words

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "DIFFUSERS_VERBOSITY": "error",
    "TRANSFORMERS_VERBOSITY": "error",
}

_declared: list[torch.library.Library] = []  # an op lives as long as its library object


def go_offline() -> None:
    """Tell the libraries, before they are imported, that there is no network."""
    os.environ.update(OFFLINE)


def library(name: str) -> ModuleType:
    """transformers, diffusers or timm. Raises `DoorError` if it is missing or broken."""
    go_offline()
    if importlib.util.find_spec(name) is None:
        raise DoorError(f"{name} is not installed: pip install {name}")
    try:
        with heard():
            _declare_vision_ops()
            return importlib.import_module(name)
    except FAILURES as error:
        raise DoorError(
            f"cannot import {name}: {in_words(error)}; reinstall it beside torch "
            f"{torch.__version__}"
        ) from error


def part_of(name: str, attribute: str) -> object:
    """A class of a library, which loads it now. Raises `DoorError` if that fails.

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
        raise DoorError(f"cannot import {name}.{attribute}: {in_words(root)}") from error


def beside_vision(make: Callable[[], Any]) -> Any:
    """What a person's own code gives; once more with torchvision's ops declared if it needs them.

    Raises:
        DoorError: that of the code, or one that says how to repair torchvision.
    """
    try:
        return make()
    except DoorError as error:
        if not _of_vision(error):
            raise
    try:
        with heard():
            _declare_vision_ops()
        return make()
    except FAILURES as error:
        root = _of_vision(error)
        if root is None:
            raise
        raise DoorError(
            f"torchvision doesn't fit this torch ({in_words(root)}): reinstall the two together"
        ) from error


def _of_vision(error: BaseException) -> BaseException | None:
    """The error of torchvision's compiled ops behind another one, if there is one."""
    return next((each for each in _chain(error) if "torchvision::" in str(each)), None)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The innermost error first."""
    if error is not None:
        yield from _chain(error.__cause__ or error.__context__)
        yield error


def _declare_vision_ops() -> None:
    """Let torchvision be imported beside a torch that its compiled ops were not built for.

    The package index has torchvision for CUDA. Beside a CPU build of torch its library of ops does
    not load, and ``import torchvision`` ends with "operator torchvision::nms does not exist"; so
    does every Hugging Face model. A trace needs the ops' names, and none of their kernels.
    """
    if _declared or importlib.util.find_spec("torchvision") is None:
        return
    try:
        importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        ops = torch.library.Library("torchvision", "DEF")
        for schema in (
            "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
            "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
        ):
            ops.define(schema)
        _declared.append(ops)
        importlib.import_module("torchvision")
