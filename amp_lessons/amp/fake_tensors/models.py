"""A stand-in for a model: the same modules, with fake tensors on the device that was asked for.

A fake tensor (`torch._subclasses.fake_tensor`) has shape, dtype and device and no data, so a
model of any size costs nothing, and a CUDA model needs no GPU. The stand-in is a copy: whatever
its forward changes (batch-norm statistics, counters, hooks), the model itself stays as it is.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.utils.rnn import PackedSequence
from torch.utils._pytree import tree_leaves, tree_map

from amp_lessons.amp.fake_tensors.converter import TensorConverter
from amp_lessons.amp.fake_tensors.errors import TraceError

_PLAIN = (str, bytes, bool, int, float, complex, torch.dtype, torch.device)


def fake_like(
    tensor: Tensor, mode: FakeTensorMode, device: str, floats: torch.dtype | None = None
) -> Tensor:
    """A fake with the tensor's shape, strides, dtype and `requires_grad`; a parameter stays one.

    With ``floats``, tensors of floating point get that dtype, as by ``.to(floats)``.
    """
    return TensorConverter(mode=mode, floats=floats)(tensor, device)


def fake_inputs(
    inputs: Any,
    mode: FakeTensorMode | None,
    device: str,
    floats: torch.dtype | None = None,
    values: bool = False,
) -> Any:
    """Every tensor in the inputs as a fake on the device, or as a real copy if ``mode`` is None.

    Tuples, lists and dicts are looked into, and objects of other classes (a dataclass, a packed
    sequence, a batch of another library) are copied with fakes in the place of their tensors. A
    tensor that comes twice is one fake. ``values``: see `TensorConverter`.
    """
    doubles = TensorConverter(tensors_in(inputs), mode, floats, values)

    def convert(value: Any, memo: Any = None) -> Any:
        if isinstance(value, Tensor):
            return doubles(value, device)
        if isinstance(value, PackedSequence):  # it wants batch sizes on the CPU, with values
            data, sizes, *order = value
            return PackedSequence(convert(data), sizes.cpu(), *map(convert, order))
        if value is None or callable(value) or isinstance(value, _PLAIN):
            return value
        try:
            return copy.deepcopy(value)
        except TraceError:
            raise
        except Exception:  # what cannot be copied is passed on as it is
            return value

    with mock.patch.object(Tensor, "__deepcopy__", convert):
        try:
            return tree_map(convert, inputs, is_leaf=lambda leaf: isinstance(leaf, PackedSequence))
        except TraceError:
            raise
        except Exception as error:  # of a container's own making
            raise TraceError(f"the inputs cannot be copied: {error}") from error


def tensors_in(value: Any, _seen: set[int] | None = None) -> list[Tensor]:
    """Every tensor in an output: in tuples, lists, dicts, and in the attributes of objects."""
    seen = set() if _seen is None else _seen
    found = []
    for leaf in tree_leaves(value):
        if isinstance(leaf, Tensor):
            found.append(leaf)
        elif id(leaf) not in seen and hasattr(leaf, "__dict__") and not callable(leaf):
            seen.add(id(leaf))
            found += tensors_in(dict(vars(leaf)), seen)
    return found


def stand_in(
    model: nn.Module,
    mode: FakeTensorMode | None,
    device: str,
    floats: torch.dtype | None = None,
    values: bool = False,
) -> nn.Module:
    """A copy of the model with fake parameters and buffers on the device, as `fake_like` makes.

    Tensors that are neither (plain attributes) keep the device they have, for ``model.to(...)``
    would not move them either. If ``mode`` is None the copy is a real one, on the CPU.
    """
    own = (*model.parameters(), *model.buffers())
    attributes = [t for module in model.modules() for t in _tensors_of(module)]
    doubles = TensorConverter((*own, *attributes), mode, floats, values)
    memo: dict[int, Any] = {id(tensor): doubles(tensor, device) for tensor in own}
    plain = TensorConverter(attributes, mode, None, values)
    for tensor in attributes:
        if id(tensor) not in memo:
            memo[id(tensor)] = (plain if floats else doubles)(tensor, tensor.device.type)
    memo |= {id(hook): hook for hook in _foreign_hooks(model)}
    try:
        return copy.deepcopy(model, dict(memo))
    except Exception:
        memo |= {id(value): value for value in _uncopyable(model, memo)}
    try:
        return copy.deepcopy(model, memo)
    except Exception as error:
        raise TraceError(f"the model cannot be copied: {error}") from error


def _tensors_of(module: nn.Module) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(_attributes(module)) if isinstance(leaf, Tensor)]


def _attributes(module: nn.Module) -> dict[str, Any]:
    own = {"_parameters", "_buffers", "_modules"}
    return {name: value for name, value in vars(module).items() if name not in own}


def _foreign_hooks(model: nn.Module) -> Iterator[Any]:
    """Hooks that are methods of something else than the model's modules: not ours to copy."""
    own = {id(module) for module in model.modules()}
    for module in model.modules():
        for name, value in vars(module).items():
            if name.endswith("_hooks") and isinstance(value, dict):
                for hook in value.values():
                    if id(getattr(hook, "__self__", None)) not in own:
                        yield hook


def _uncopyable(model: nn.Module, memo: dict[int, Any]) -> Iterator[Any]:
    """Attributes that `copy.deepcopy` refuses, such as locks and open files: they are shared."""
    for module in model.modules():
        for value in _attributes(module).values():
            try:
                copy.deepcopy(value, dict(memo))
            except Exception:
                yield value


def check_model(model: Any) -> None:
    """Refuse what cannot be traced. Raises `TraceError` with one line."""
    if isinstance(model, type) and issubclass(model, nn.Module):
        raise TraceError(f"{model.__name__} is a class; give a model, such as {model.__name__}()")
    if not isinstance(model, nn.Module):
        raise TraceError(f"the model must be an nn.Module, not {type(model).__name__}")
    if isinstance(model, torch.jit.ScriptModule):
        raise TraceError("a scripted model cannot be traced; give the nn.Module it was made from")
    places: dict[str, str] = {}
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if nn.parameter.is_lazy(tensor):
            raise TraceError(
                f"{name} has no shape yet; give the layer its sizes, or run the model once on real "
                "inputs where it is built"
            )
        if tensor.device.type != "meta":
            places.setdefault(str(tensor.device), name)
    if len(places) > 1:
        where = " and ".join(f"{name} on {place}" for place, name in list(places.items())[:2])
        raise TraceError(f"the model is on several devices: {where}; move it to one")


def check_inputs(model: nn.Module, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse too few inputs, too many, or unknown ones. Raises `TraceError`."""
    try:
        inspect.signature(model.forward).bind(*inputs, **kwargs)
    except TypeError as error:
        given = f"{len(inputs)} positional and {len(kwargs)} keyword inputs"
        raise TraceError(
            f"{type(model).__name__}.forward: {error} ({given} were given); give every input that "
            "forward asks for: on the command line with --input, or from a factory that returns "
            "(model, inputs)"
        ) from error
    except ValueError:  # no signature to look at
        pass


def check_loss(value: Any) -> None:
    """Refuse a loss that gives no tensor, for want of a ``return``. Raises `TraceError`."""
    if not tensors_in(value):
        raise TraceError(f"the loss gives {type(value).__name__}, not a tensor; let it return one")


def has_values(model: nn.Module, inputs: Any) -> bool:
    """Whether the model and its inputs hold real numbers, so that they can be run."""
    given = (*model.parameters(), *model.buffers(), *tensors_in(inputs))
    return not any(isinstance(t, FakeTensor) or t.device.type == "meta" for t in given)
