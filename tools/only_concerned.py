"""A pytest plugin for `tools/check.py`: it runs a part of a file's tests, and heeds the time.

Its orders are a JSON file, named by the environment variable `ORDERS`: `Check.pytest` writes it.
"""

from __future__ import annotations

import json
import os
import time
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ORDERS = "AMP_LESSONS_CHECK"


@cache
def orders() -> dict[str, Any]:
    return json.loads(Path(os.environ[ORDERS]).read_text(encoding="utf-8"))


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of a parametrized test whose names hold one of a file's words, leave out the others."""
    by_test: dict[tuple[str, str], list[pytest.Item]] = {}
    for item in items:
        test = item.nodeid.partition("[")[0]
        by_test.setdefault((_file(item), test), []).append(item)
    left_out = set()
    for (file, _), cases in by_test.items():
        words = orders()["only"].get(file, ())
        names = [item.name for item in items if _file(item) == file]
        if words and all(any(word in name for name in names) for word in words):
            wanted = {c for c in cases if any(word in c.name for word in words)}
            left_out |= set(cases) - wanted if wanted else set()
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=list(left_out))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Begin no test of an importer once the time is over, and note down its file."""
    if _file(item) in orders()["others"] and time.time() > orders()["until"]:
        with Path(orders()["left"]).open("a", encoding="utf-8") as left:
            left.write(f"{_file(item)}\n")
        pytest.skip("no time left")
