"""Places outside a model where its code keeps tensors, which must not keep a fake one.

A function under `functools.lru_cache` that makes positions or a mask would give the fake ones of a
trace to the next real run of the same code. So would a dict, a list, a global, an attribute of a
class, or what a hook writes an activation into.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

_OURS = ("torch", "amp_lessons", "builtins")
_NOTHING = object()
_found: dict[str, tuple[int, list[Any]]] = {}


@contextmanager
def caches_kept_clean(model: nn.Module, *others: Any) -> Iterator[None]:
    """Put back every cache that took in a fake tensor meanwhile; empty those of functions.

    Looked at is every loaded module of the packages that the model's classes come from, and the
    program itself: its names, dicts, lists and classes, and what its functions and decorators
    closed over. So are the model's own classes and hooks, and ``others``: more functions.
    """
    classes = {kind for module in model.modules() for kind in type(module).__mro__}
    classes = {kind for kind in classes if not _is_ours(kind)}
    packages = {kind.__module__.partition(".")[0] for kind in classes} | {"__main__"}
    own = [*_functions(model), *others, *(v for kind in classes for v in vars(kind).values())]
    places = {id(each): each for each in (*_caches(packages), *_in_values(own, ""))}
    before = [(each, _kept(each)) for each in places.values()]
    spaces = [(s, dict(vars(s))) for s in (*_modules(packages), *classes, *_beside(classes))]
    try:
        yield
    finally:
        for place, kept in before:
            _put_back(place, kept)
        for each, names in spaces:
            for name in [key for key, value in vars(each).items() if type(value) is FakeTensor]:
                _set(each, name, names.get(name, _NOTHING))
        for place in _caches(packages):  # in a module that was imported meanwhile
            if id(place) not in places:
                _put_back(place, type(place)() if type(place) in _CONTAINERS else 0)


def _kept(place: Any) -> Any:
    """What a place holds now: a copy, or how much a function's cache has taken in so far."""
    if type(place) in _CONTAINERS:
        return place.copy()
    return _inside(place) if isinstance(place, CellType) else place.cache_info().misses


def _put_back(place: Any, kept: Any) -> None:
    if isinstance(place, dict):
        for key in [key for key, value in place.items() if _became_fake(value, kept.get(key))]:
            if key in kept:
                place[key] = kept[key]
            else:
                del place[key]
    elif isinstance(place, list):
        changed = len(place) != len(kept) or any(map(_became_fake, place, kept))
        if changed and any(map(_is_fake, place)):
            place[:] = kept
    elif isinstance(place, CellType):
        if _became_fake(_inside(place), kept):
            place.cell_contents = kept
    elif place.cache_info().misses > kept:
        place.cache_clear()


def _set(owner: Any, name: str, value: Any) -> None:
    if value is _NOTHING:
        delattr(owner, name)
    else:
        setattr(owner, name, value)


def _became_fake(value: Any, before: Any) -> bool:
    return value is not before and _is_fake(value)


def _is_fake(kept: Any) -> bool:
    return any(isinstance(leaf, FakeTensor) for leaf in tree_leaves(kept))


def _inside(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _is_place(value: Any) -> bool:
    """Whether it may take in tensors. A library's own kind of dict may import what it names."""
    return type(value) in _CONTAINERS or isinstance(value, _CACHE)


def _functions(model: nn.Module) -> Iterator[Any]:
    """Hooks of the model's modules, and functions among their attributes."""
    for module in model.modules():
        yield from (each for each in vars(module).values() if isinstance(each, FunctionType))
        yield from module._forward_hooks.values()
        yield from module._forward_pre_hooks.values()


def _modules(packages: set[str]) -> Iterator[ModuleType]:
    names = _names(len(sys.modules), next(reversed(sys.modules)))
    for name in [name for package in packages for name in names.get(package, ())]:
        if isinstance(module := sys.modules.get(name), ModuleType):
            yield module


@lru_cache(maxsize=1)
def _names(count: int, newest: str) -> dict[str, list[str]]:
    """The loaded modules, by package. There may be thousands, so only a new one has them sorted."""
    names = defaultdict(list)
    for name in list(sys.modules):
        names[name.partition(".")[0]].append(name)
    return names


def _beside(classes: set[type]) -> Iterator[type]:
    """Other classes of the modules that the model's classes stand in."""
    for name in {kind.__module__ for kind in classes}:
        for value in list(vars(sys.modules.get(name, sys)).values()):
            if isinstance(value, type) and value.__module__ == name and value not in classes:
                yield value


def _caches(packages: set[str]) -> list[Any]:
    return [place for module in _modules(packages) for place in _in_module(module)]


def _in_module(module: ModuleType) -> list[Any]:
    """The caches of a module. It is searched again only when it has gained or lost a name."""
    name, names = module.__name__, vars(module)
    count, found = _found.get(name, (-1, []))
    if count != len(names) or name == "__main__":
        found = list(_in_values([v for k, v in names.items() if k[:2] != "__"], name))
        _found[name] = (len(names), found)
    return found


def _in_values(values: Iterable[Any], module: str) -> Iterator[Any]:
    for value in values:
        if isinstance(value, MethodType) and not isinstance(value.__self__, type | nn.Module):
            yield from _in_object(value.__self__)
        if isinstance(value, staticmethod | classmethod | MethodType):
            value = value.__func__
        if isinstance(value, type):
            if value.__module__ == module:
                own = [each for each in vars(value).values() if type(each) is not type]
                yield from _in_values(own, module)
        elif _is_place(value):
            yield value
        elif isinstance(value, FunctionType):
            yield from _in_function(value)
        elif type(value).__module__ == module and not isinstance(value, nn.Module):
            yield from _in_object(value)


def _in_object(owner: Any) -> Iterator[Any]:
    """The attributes of an object that is not a module, and the containers among them."""
    attributes = getattr(owner, "__dict__", None)
    if type(attributes) is dict and not _is_ours(type(owner)):
        yield attributes
        yield from (each for each in attributes.values() if type(each) in _CONTAINERS)


def _is_ours(thing: Any) -> bool:
    """Whether a function or a class is torch's or this package's."""
    return str(thing.__module__).partition(".")[0] in _OURS


def _in_function(function: FunctionType, depth: int = 2) -> Iterator[Any]:
    """What a function closed over, its attributes, and the containers among its defaults."""
    if _is_ours(function):  # such as the hooks that follow the modules
        return
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    yield vars(function)
    yield from (each for each in defaults if type(each) in _CONTAINERS)
    for cell in function.__closure__ or ():
        inside = _inside(cell)
        if _is_place(inside):
            yield inside
        elif inside is None or isinstance(inside, Tensor):
            yield cell
        elif isinstance(inside, FunctionType) and depth:
            yield from _in_function(inside, depth - 1)
        elif not isinstance(inside, type | nn.Module | ModuleType):
            yield from _in_object(inside)


_CONTAINERS = (dict, list, OrderedDict, defaultdict)
_CACHE = type(lru_cache(lambda: None))
