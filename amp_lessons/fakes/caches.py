"""Caches in a model's code, which must not keep a fake tensor.

A function under `functools.lru_cache` that makes positions or a mask would give the fake ones of a
trace to the next real run of the same code. So would a dict in which a module or class keeps them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from types import FunctionType, ModuleType
from typing import Any

from torch import nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

_OURS = ("torch", "amp_lessons", "builtins")
_found: dict[str, tuple[int, list[Any]]] = {}


@contextmanager
def caches_kept_clean(model: nn.Module) -> Iterator[None]:
    """Empty every cache of the model's packages that took in a result meanwhile.

    Looked at are functions, methods and what decorators closed over, in every loaded module of the
    packages that the model's classes come from, and in the program itself.
    """
    packages = {type(module).__module__.partition(".")[0] for module in model.modules()}
    packages = (packages | {"__main__"}) - set(_OURS)
    before = {id(each): _entries(each) for each in _caches(packages)}
    try:
        yield
    finally:
        for each in _caches(packages):
            if _entries(each) <= before.get(id(each), 0):
                continue
            if isinstance(each, dict):
                for key in [key for key, kept in each.items() if _is_fake(kept)]:
                    del each[key]
            else:
                each.cache_clear()


def _entries(cache: Any) -> int:
    """How much a cache has taken in so far."""
    return len(cache) if isinstance(cache, dict) else cache.cache_info().misses


def _is_fake(kept: Any) -> bool:
    return any(isinstance(leaf, FakeTensor) for leaf in tree_leaves(kept))


def _caches(packages: set[str]) -> list[Any]:
    found = []
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in packages and isinstance(module, ModuleType):
            found += _in_module(name, module)
    return found


def _in_module(name: str, module: ModuleType) -> list[Any]:
    """The caches of a module. It is searched again only when it has gained or lost a name."""
    values = list(vars(module).values())
    count, found = _found.get(name, (-1, []))
    if count != len(values) or name == "__main__":
        found = list(_in_values(values, name))
        _found[name] = (len(values), found)
    return found


def _in_values(values: Iterable[Any], module: str) -> Iterator[Any]:
    for value in values:
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        if isinstance(value, type) and value.__module__ == module:
            yield from _in_values([v for v in vars(value).values() if type(v) is not type], module)
        elif isinstance(value, _CACHE | dict):
            yield value
        elif isinstance(value, FunctionType) and value.__closure__:
            for cell in value.__closure__:
                try:
                    inside = cell.cell_contents
                except ValueError:  # not filled yet
                    continue
                if isinstance(inside, _CACHE):
                    yield inside


_CACHE = type(lru_cache(lambda: None))
