"""Checkpoints from which a training goes on bit for bit, or not at all.

A run that is interrupted, saved and loaded must give the very numbers of one that was not. That
takes more than the weights: optimizer, scaler, scheduler, random generators and the place in the
data. A file that does not fit is refused before anything is loaded.
"""

from __future__ import annotations

import contextlib
import copy
import io
import os
import random
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from amp_lessons.amp.scaling.scaler_log import ScalerLog
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.files import write_atomically

FORMAT = "AMP Lessons checkpoint, version 1"
CONTENT = {"format": str, "torch": str, "kinds": dict, "states": dict, "random": dict}


class CheckpointError(AmpLessonsError):
    """A checkpoint could not be written or does not fit. The message is one line with the cure."""


class Stateful(Protocol):
    """What a checkpoint can keep: models, optimizers, scalers, schedulers, `training.Batches`."""

    def state_dict(self) -> Mapping[str, Any]: ...

    def load_state_dict(self, state: Any) -> Any: ...


def save_checkpoint(path: str | Path, **parts: Stateful) -> None:
    """Write everything that a training needs to go on, in one file, whole or not at all.

    Call it between two steps, after `scaler.update()`::

        save_checkpoint("run.pt", model=model, optimizer=optimizer, scaler=scaler,
                        scheduler=scheduler, batches=batches)

    The random generators of torch (the CPU's, and each GPU's once CUDA is in use), NumPy and
    Python are kept too, and torch's version, since another one may round differently.

    Args:
        path: of the file; one that is there already is replaced when the new one is complete.
        parts: each with a name to be found by.

    Raises:
        CheckpointError: if a part has no state, the file cannot be written, or could never be
            read back: torch loads tensors and plain Python data alone (``weights_only``), no
            objects of other classes.
    """
    _check_path(path)
    _check_parts(parts)
    content = {
        "format": FORMAT,
        "torch": str(torch.__version__),
        "kinds": {name: _kind(part) for name, part in parts.items()},
        "states": {name: _state_of(name, part) for name, part in parts.items()},
        "random": _random_state(),
    }
    stream = io.BytesIO()
    try:
        torch.save(content, stream)
        stream.seek(0)
        torch.load(stream, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle's own errors have no common class
        raise CheckpointError(f"{path} could not be read back: {_line(error)}") from error
    try:
        write_atomically(Path(path), stream.getvalue())
    except OSError as error:
        raise CheckpointError(f"{path} cannot be written: {error.strerror}") from error


def load_checkpoint(path: str | Path, *, other_torch: bool = False, **parts: Stateful) -> None:
    """Load a checkpoint into parts like those it was saved from, or change nothing.

    Everything is compared first: the names and kinds of the parts, the model's parameters with
    their shapes and dtypes, the optimizer's groups, whether the scaler is enabled.

    Args:
        path: of a file from `save_checkpoint`.
        other_torch: load what another version of torch wrote, with a warning: the run goes on,
            but perhaps not bit for bit.
        parts: the same names as when it was saved.

    Raises:
        CheckpointError: if the file is missing, damaged, no checkpoint, of other parts or of
            another torch, or a part refuses its state. Nothing has been loaded then.
    """
    _check_path(path)
    _check_parts(parts)
    content = _read(Path(path))
    faults = _faults(content, parts)
    if faults:
        raise CheckpointError(f"{path} does not fit, nothing was loaded: {'; '.join(faults)}")
    _compare_torch(path, content["torch"], other_torch)
    _load_all(path, parts, content["states"])
    _set_random_state(content["random"])


def _load_all(path: str | Path, parts: Mapping[str, Stateful], states: Mapping[str, Any]) -> None:
    """Load every part; if one refuses, give back to all of them what they had."""
    before: dict[str, Any] = {}
    for name, part in parts.items():
        before[name] = copy.deepcopy(part.state_dict())
        try:
            part.load_state_dict(states[name])
        except Exception as error:  # a part may be of any class
            for loaded in list(before)[:-1]:
                parts[loaded].load_state_dict(before[loaded])
            with contextlib.suppress(Exception):
                part.load_state_dict(before[name])
            raise CheckpointError(
                f"{path} does not fit, nothing was loaded: {name}: {_line(error)}"
            ) from error


def _state_of(name: str, part: Stateful) -> Mapping[str, Any]:
    try:
        return part.state_dict()
    except Exception as error:  # a part may be of any class
        raise CheckpointError(f"{name} does not give its state: {_line(error)}") from error


def _check_path(path: str | Path) -> None:
    if not isinstance(path, str | os.PathLike):
        raise CheckpointError(f"path must be the name of a file, not {type(path).__name__}")
    if "\0" in os.fsdecode(path):
        raise CheckpointError(f"path must be the name of a file, got {os.fsdecode(path)!r}")


def _check_parts(parts: Mapping[str, Any]) -> None:
    for name, part in parts.items():
        if not callable(getattr(part, "state_dict", None)):
            raise CheckpointError(
                f"{name} is of type {type(part).__name__}, which has no state_dict()"
            )


def _read(path: Path) -> dict[str, Any]:
    try:
        stream = io.BytesIO(path.read_bytes())
    except FileNotFoundError:
        raise CheckpointError(f"there is no checkpoint {path}") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}") from error
    try:
        damaged = zipfile.ZipFile(stream).testzip()  # torch.load does not look at the checksums
        stream.seek(0)
        content = torch.load(stream, map_location="cpu", weights_only=True)
    except Exception as error:  # what a broken file raises has no common class
        raise CheckpointError(
            f"{path} is truncated or no checkpoint, nothing was loaded: take an older one "
            f"({_line(error)})"
        ) from error
    if damaged:
        raise CheckpointError(
            f"{path} is damaged in {damaged}, nothing was loaded: take an older one"
        )
    entries = content if isinstance(content, dict) else {}
    if entries.get("format") != FORMAT or any(
        not isinstance(entries.get(name), kind) for name, kind in CONTENT.items()
    ):
        raise CheckpointError(f"{path} was not written by save_checkpoint, nothing was loaded")
    return content


def _line(error: Exception) -> str:
    """The first line of an error; with its type, since many say just a number or a key."""
    line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {line}".removesuffix(": ")


def _compare_torch(path: str | Path, saved: str, other_torch: bool) -> None:
    here = str(torch.__version__)
    if saved == here:
        return
    message = f"{path} was written by torch {saved}, this is {here}: it may round differently"
    if not other_torch:
        raise CheckpointError(
            f"{message}, so nothing was loaded (other_torch=True loads it all the same)"
        )
    warnings.warn(f"{message}, and the run may not go on bit for bit", stacklevel=3)


# ---- does it fit? ----------------------------------------------------------------------------


def _faults(content: dict[str, Any], parts: Mapping[str, Stateful]) -> list[str]:
    """What speaks against loading, in words; nothing is changed."""
    states, kinds = content["states"], content["kinds"]
    faults = [f"it holds no {name}" for name in parts if name not in states]
    faults += [f"it holds {name}, which is not asked for" for name in states if name not in parts]
    for name in [name for name in parts if name in states]:
        kind = _kind(parts[name])
        if kinds.get(name) != kind:
            faults.append(f"{name} was a {kinds.get(name)}, this is a {kind}")
        elif not isinstance(states[name], Mapping):
            faults.append(f"{name} has no state in it")
        else:
            differences = _compare(parts[name], states[name])
            faults += [f"{name}: {_few(differences)}"] if differences else []
    return faults + _compare_random(content["random"])


def _kind(part: Stateful) -> str:
    if isinstance(part, ScalerLog):  # a log is as good as its scaler
        part = part.scaler
    # Two models are compared by their parameters: what class holds them says nothing.
    return "model" if isinstance(part, nn.Module) else type(part).__name__


def _compare(part: Stateful, saved: Mapping[str, Any]) -> list[str]:
    here = part.state_dict()
    if isinstance(part, Optimizer):
        return _compare_optimizer(here, saved, part.param_groups)
    if not isinstance(part, nn.Module) and bool(here) != bool(saved):
        return [f"was {_able(saved)}, is {_able(here)}"]
    faults = [f"no {key} in the file" for key in here if key not in saved]
    faults += [f"{key} is not in this one" for key in saved if key not in here]
    shared = [key for key in here if key in saved]
    outlines = [(key, _outline(saved[key]), _outline(here[key])) for key in shared]
    if isinstance(part, nn.Module):
        faults += [f"{key} was {old}, is {new}" for key, old, new in outlines if old != new]
    return faults


def _compare_optimizer(
    here: Mapping[str, Any], saved: Mapping[str, Any], groups: list[dict[str, Any]]
) -> list[str]:
    if not {"state", "param_groups"} <= saved.keys():
        return ["this is no optimizer's state"]
    sizes = [[len(group["params"]) for group in state["param_groups"]] for state in (saved, here)]
    if sizes[0] != sizes[1]:
        return [f"had groups of {sizes[0]} parameters, has {sizes[1]}"]
    parameters = [p for group in groups for p in group["params"]]
    numbers = [n for group in saved["param_groups"] for n in group["params"]]
    faults = []
    for number, parameter in zip(numbers, parameters, strict=True):
        for key, value in saved["state"].get(number, {}).items():
            # Only a step count may have no dimension; momenta are as large as the parameter.
            if isinstance(value, Tensor) and value.dim() and value.shape != parameter.shape:
                shapes = tuple(value.shape), tuple(parameter.shape)
                faults.append(f"{key} of parameter {number} has shape {shapes[0]}, not {shapes[1]}")
    return faults


def _able(state: Mapping[str, Any]) -> str:
    return "enabled" if state else "disabled"


def _outline(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    return type(value).__name__


def _few(faults: list[str]) -> str:
    """The first few in one line: another model differs in every parameter."""
    more = [f"and {len(faults) - 3} more"] if len(faults) > 4 else []
    return ", ".join([*faults[:3], *more] if more else faults)


# ---- random generators -----------------------------------------------------------------------


def _random_state() -> dict[str, Any]:
    """The state of every global random generator, as tensors and plain data."""
    version, words, gauss = random.getstate()
    name, keys, *rest = np.random.get_state(legacy=True)
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
        "python": [version, list(words), gauss],
        "numpy": [name, np.asarray(keys).tolist(), *rest],
    }


def _compare_random(saved: dict[str, Any]) -> list[str]:
    """Try the states on generators that nobody uses: the global ones are changed last of all."""
    try:
        torch.Generator().set_state(saved["torch"])
        random.Random().setstate(_python_state(saved))
        np.random.RandomState().set_state(tuple(saved["numpy"]))
        gpus = len(saved["cuda"])
    except Exception as error:  # each of them has its own
        return [f"its random state cannot be set here ({_line(error)})"]
    if gpus > torch.cuda.device_count():
        return [f"it holds the random state of {gpus} GPUs, which are not here"]
    return []


def _python_state(state: dict[str, Any]) -> tuple[int, tuple[int, ...], float | None]:
    version, words, gauss = state["python"]
    return version, tuple(words), gauss


def _set_random_state(state: dict[str, Any]) -> None:
    random.setstate(_python_state(state))
    np.random.set_state(tuple(state["numpy"]))
    torch.set_rng_state(state["torch"])
    if state["cuda"]:
        torch.cuda.set_rng_state_all(state["cuda"])
