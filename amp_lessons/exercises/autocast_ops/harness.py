"""What the answers of lesson 04 are handed: dtypes, tensors in a region, and five broken functions.

The models are in `harness_models`. A region for CUDA needs no GPU: its tensors are fake, with a
dtype and a shape but no values.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from amp_lessons.exercises.checks.evidence import by_name
from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.harness import (
    BFLOAT,
    DOUBLE,
    HALF,
    SINGLE,
    Operations,
    as_play,
    autocast_state,
    flat,
    from_seed,
    name_of,
    region,
)
from amp_lessons.exercises.varied import Varied
from amp_lessons.exercises.checks.serialize import as_json, plain

# ---- result_dtype(op, device, region, inputs) ---------------------------------------------------

ONE_INPUT = (
    *("softmax", "layer_norm", "exp", "log", "sum", "cumsum", "prod", "mean", "var", "sqrt"),
    *("relu", "sigmoid", "softmax, dtype=float32"),
)
DEVICES = ("cpu", "cuda")
TWO_INPUTS = ("matmul", "linear", "conv1d", "mse_loss", "add", "cat", "add_")


def oracle_cases() -> list[Case]:
    """Each op on each device with each mixture of inputs, in one of the two regions.

    float64 comes alone: fake tensors let mixtures with it pass that a GPU refuses. With a salt the
    regions are other ones, and so is the order.
    """
    vary, found = Varied(41), []
    for at, (op, device) in enumerate(itertools.product((*TWO_INPUTS, *ONE_INPUT), DEVICES)):
        count = 2 if op in TWO_INPUTS else 1
        mixtures = itertools.combinations_with_replacement((SINGLE, HALF, BFLOAT), count)
        for number, mixture in enumerate([*mixtures, (DOUBLE,) * count]):
            dtype, other = vary.mixed((HALF, BFLOAT) if (at + number) % 2 else (BFLOAT, HALF))
            inputs = mixture if device == "cpu" else mixture[::-1]
            # On a CPU, `cat` refuses the 16-bit format that isn't the region's.
            if not (op == "cat" and device == "cpu" and other in inputs):
                found.append(Case((op, device, dtype, inputs), kind=f"`{op}`"))
    return vary.mixed(found)


# ---- gram(x, weight) ----------------------------------------------------------------------------


def gram_cases() -> list[Case]:
    made = from_seed(4)

    def case(device: str, dtype: torch.dtype | None, rows: int, given: torch.dtype) -> Case:
        x = torch.randint(1, 200, (rows, 6), generator=made).to(given)
        weight = torch.randint(1, 10, (3 + rows % 2, 6), generator=made).to(SINGLE)
        where = f"a region of {name_of(dtype)}" if dtype else "no region open"
        words = f"{rows} rows of {name_of(given)}, {device}, {where}"
        return Case((x, weight, device, dtype), words, "CUDA" if device == "cuda" else "the CPU")

    return [
        case("cpu", HALF, 4, SINGLE),
        case("cpu", HALF, 5, HALF),
        case("cpu", BFLOAT, 3, SINGLE),
        case("cpu", BFLOAT, 6, BFLOAT),
        case("cpu", None, 4, SINGLE),
        case("cpu", None, 7, SINGLE),
        case("cuda", HALF, 4, SINGLE),
        case("cuda", BFLOAT, 5, BFLOAT),
        case("cuda", HALF, 6, HALF),
    ]


class _LastProduct(TorchFunctionMode):
    """Remembers the last matrix product as it is called, above autocast."""

    names = ("matmul", "__matmul__", "mm", "einsum", "linear", "inner", "tensordot")
    words = ""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        tensors = [a for a in args if isinstance(a, Tensor)]
        if getattr(func, "__name__", "") in self.names and tensors:
            on = "on" if torch.is_autocast_enabled(tensors[0].device.type) else "off"
            self.words = f" (the last product got {name_of(tensors[0].dtype)}, autocast was {on})"
        return func(*args, **(kwargs or {}))


@as_play
def play_gram(
    function: Callable[..., Any], x: Tensor, weight: Tensor, device: str, dtype: torch.dtype | None
) -> Any:
    """Call in the case's region. A 16-bit result is wrong whatever is in it, so what is noted is
    how it came about. On CUDA there are no values, but a dtype."""
    with region(dtype, device), _LastProduct() as product, Operations() as below:
        if device == "cuda":
            x, weight = (torch.empty(t.shape, dtype=t.dtype, device=device) for t in (x, weight))
        before = autocast_state(device)
        result = function(x, weight)
        after = autocast_state(device)
    if after != before and result is not ...:
        changed = "off; expected on" if dtype and not after[0] else "not as it was"
        return {"autocast after the call": changed}
    if any(name == "float64" for _, name in below.seen):
        return {"computed in": "float64; expected float32"}
    if isinstance(result, Tensor) and result.dtype in (HALF, BFLOAT):
        return f"{name_of(result.dtype)}{product.words}"
    if device == "cuda" and isinstance(result, Tensor):
        ran = below.of_products() or ["no product"]
        inner = ran[-1] if len(ran) > 1 else "float32"  # sums of products are no product
        words = f"{name_of(result.dtype)} of shape {tuple(result.shape)}"
        return f"{words}, linear layer in {ran[0]}, inner products in {inner}"
    return result


# ---- fix_mismatches -----------------------------------------------------------------------------

FUNCTIONS = ("update_memory", "project", "classify", "energy", "predictions")
REGIONS = {
    "with no region open": None,
    "in a region of float16": HALF,
    "in a region of bfloat16": BFLOAT,
}


def mismatch_cases() -> list[Case]:
    """Each function with several sizes; each case is run in all regions."""
    return [
        Case((name, rows), f"{name}, {rows} rows", f"`{name}`")
        for name in FUNCTIONS
        for rows in (4, 7, 5)
    ]


def _arguments(name: str, rows: int) -> tuple[Any, ...]:
    made = from_seed(rows)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=made)

    x, weight, head, memory = normal(rows, 5), normal(5, 4), normal(4, 2), normal(6, 4)
    if name == "update_memory":
        return memory, torch.arange(rows) % 3, x, weight
    if name in ("project", "classify"):
        return x, weight, head
    return (200 * x, weight) if name == "energy" else (x, weight)


def _is_mismatch(error: Exception) -> bool:
    """Wordings differ from op to op and from version to version; they all speak of types."""
    words = ("dtype", "scalar type", "scalartype", "c10::", "same type", "must match")
    return any(word in str(error).lower() for word in words)


def _in_words(result: Any) -> str:
    if isinstance(result, Tensor):
        return f"a {name_of(result.dtype)} tensor of shape {tuple(result.shape)}"
    if isinstance(result, np.ndarray):
        return f"a {result.dtype.name} NumPy array of shape {result.shape}"
    return "None" if result is None else f"an object of type {type(result).__name__}"


def _numbers(result: Any) -> list[float]:
    if isinstance(result, np.ndarray) and result.dtype.kind in "fiub":
        result = torch.from_numpy(result.copy())
    return flat([result]) if isinstance(result, Tensor) else []


def _run(name: str, rows: int, function: Callable[..., Any], dtype: torch.dtype | None) -> Any:
    """One call: whether it raised, in what its products ran, and what it returned."""
    args = _arguments(name, rows)
    given = as_json(plain(args))
    own = name == "classify"  # it opens its own region
    with region(None if own else dtype), Operations() as operations:
        before = autocast_state()
        try:
            result = function(*args, dtype) if own else function(*args)
        except (RuntimeError, TypeError) as error:
            if isinstance(error, NotImplementedError) or not _is_mismatch(error):
                raise
            return {"raised": f"{type(error).__name__}: {str(error)[:150]}"}
        after = autocast_state()
    if result is ...:
        raise NotImplementedError
    products = operations.of_products()
    found = {
        "raised": "nothing",
        "function": name,
        "x @ weight ran in": (products or ["no product"])[0],
        "returned": _in_words(result),
        "autocast after the call": "as it was" if after == before else "not as it was",
        "arguments": "as they were" if as_json(plain(args)) == given else "changed",
        "values": _numbers(result),
    }
    if own:
        found["the head ran in"] = (products[1:] or ["no product"])[-1]
    if name == "update_memory" and isinstance(result, Tensor) and result.shape == args[0].shape:
        kept = torch.equal(result[3:], args[0][3:])
        found["rows that nothing was added to"] = "unchanged" if kept else "rounded"
    return found


def play_mismatches(*functions: Any) -> Callable[..., Any]:
    given = by_name(FUNCTIONS, functions)

    def play(name: str, rows: int) -> Any:
        if given[name] is ... or _code(given[name]) == _unfixed()[name]:
            raise NotImplementedError
        regions = {w: d for w, d in REGIONS.items() if d or name != "classify"}
        ran = {where: _run(name, rows, given[name], dtype) for where, dtype in regions.items()}
        return None if any(run.get("returned") == "None" for run in ran.values()) else ran

    return play


@cache
def _unfixed() -> dict[str, Any]:
    """The code of the functions as they stand in the sheet."""
    from amp_lessons.exercises.checks.parts import PublicPart

    half = PublicPart(Path(__file__).with_name("fix_mismatches.py"))
    names = dict(half.given)
    exec(compile(half.stub, "<sheet>", "exec"), names)
    return {name: _code(names[name]) for name in FUNCTIONS}


def _code(function: Any) -> Any:
    """What a function does, without its docstring and its place; None for what isn't Python's."""
    code = getattr(function, "__code__", None)
    return code and (code.co_code, code.co_names, code.co_consts[1:])
