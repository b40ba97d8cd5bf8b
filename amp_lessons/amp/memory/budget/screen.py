"""A survey on a terminal of 80 columns: kinds of bytes, what fits where, and the modules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rich.table import Table
from rich.text import Text

from amp_lessons.amp.memory.budget import rollup
from amp_lessons.amp.memory.budget.counting import CARDS, NOT_COUNTED, OPTIMIZERS, Survey
from amp_lessons.amp.memory.training import STATE_COPIES
from amp_lessons.core.sizes import size

WIDEST = len("grads+optim")
"""Columns that a number of bytes takes, or the word above it."""
MANY = 10**6
"""Larger batches than this say no more about a model than that the GPU's memory is no limit."""
_PRECISIONS = "amp: autocast, with parameters in FP32. bf16: parameters in BF16, no autocast."
WORDS = {"data": "batch"}
"""What a reader calls a field of `Memory`, where its name says less."""


def renderables(
    found: Survey, precision: str, depth: int, top: int | None, width: int = 80
) -> Iterator[Any]:
    """What to print, one after the other.

    Args:
        found: the survey.
        precision: of the table by module.
        depth: how far into the modules; 0 leaves the table out.
        top: at most this many rows of it, those that need most.
        width: columns of the terminal.
    """
    yield Text(_title(found), style="bold")
    for part in found.not_run:
        yield Text(f"{part}.", style="yellow" if part.is_missed else "dim")
    yield _kinds(found)
    yield Text(_PRECISIONS, style="dim")
    yield Text("")
    yield from _fits(found)
    yield Text("")
    yield _optimizers(found)
    if depth > 0:
        yield Text("")
        yield Text(f"By module, {precision}", style="bold")
        yield _modules(found, precision, depth, top, width)
    yield Text("")
    yield Text(f"Not counted, so leave room for it: {', '.join(NOT_COUNTED)}.")
    for note in found.notes:
        yield Text(f"Note: {note}.")


def _title(found: Survey) -> str:
    batch = f", batch {found.batch}" if found.batch else ""
    return f"Memory of a training step of {found.name}{batch}, {found.optimizer}, on {found.device}"


def _table(first: str, columns: Any) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(first, overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def _kinds(found: Survey) -> Table:
    table = _table("", found.at)
    for kind in next(iter(found.at.values())).bytes:
        name = WORDS.get(kind, kind.replace("_", " "))
        table.add_row(name, *(size(memory.bytes[kind]) for memory in found.at.values()))
    table.add_row("total", *(size(memory.total) for memory in found.at.values()), style="bold")
    if any(found.peak(name) > memory.total for name, memory in found.at.items()):
        table.add_row("peak, in step()", *(size(found.peak(name)) for name in found.at))
    if found.knows_batches:
        each = (found.each_example(name) for name in found.at)
        table.add_row("one more example", *(size(count or 0) for count in each))
    return table


def _fits(found: Survey) -> Iterator[Any]:
    if found.missed:
        yield Text(_why_no_batch(found))
        return
    if not found.knows_batches:
        yield Text(_fits_at_all(found))
        return
    yield Text("Largest batch that fits", style="bold")
    table = _table("GPU memory" if found.device == "cuda" else "memory", found.at)
    for card in CARDS:
        batches = (found.largest_batch(name, card) for name in found.at)
        table.add_row(f"{card} GB", *(_batch(count) for count in batches))
    yield table
    for name in ("amp fp16", "bf16"):
        if name in found.at and "fp32" in found.at:
            yield Text(_crossing(found, name))


def _why_no_batch(found: Survey) -> str:
    names = ", ".join(part.name for part in found.missed)
    return (
        f"No largest batch: this step leaves out {names}, and would need more with it. Give the "
        "inputs that are named above."
    )


def _batch(count: int | None) -> str:
    if count is None:
        return "any"
    if count > MANY:
        return "> 1 million"
    return f"{count:,}" if count else "none"


def _crossing(found: Survey, name: str) -> str:
    batch = found.crossover(name)
    if batch is None:
        return f"{name} never needs less memory than fp32 here."
    if batch <= 1:
        return f"{name} needs less memory than fp32 at every batch."
    return f"{name} needs less memory than fp32 from batch {batch:,} on."


def _fits_at_all(found: Survey) -> str:
    """Where no batch could be changed: which cards have room for the step as it is."""
    parts = []
    for name in found.at:
        card = next((gb for gb in CARDS if found.peak(name) <= gb * 10**9), None)
        parts.append(f"{name} {f'{card} GB' if card else f'more than {CARDS[-1]} GB'}")
    where = "GPU it fits on" if found.device == "cuda" else "memory it fits in"
    return f"The smallest {where}: {', '.join(parts)}."


def _optimizers(found: Survey) -> Table:
    table = _table("peak by optimizer", found.at)
    for kind in STATE_COPIES:
        name = "/".join(word for word, known in OPTIMIZERS.items() if known == kind)
        table.add_row(name, *(size(found.peak(precision, kind)) for precision in found.at))
    return table


def _modules(found: Survey, precision: str, depth: int, top: int | None, width: int) -> Table:
    states = 1 + STATE_COPIES[OPTIMIZERS[found.optimizer]]
    table = _table("module", ("parameters", "grads+optim", "activations", "cast cache"))
    # A long name is wrapped, a number isn't: two spaces stand between columns.
    room = max(width - sum(2 + WIDEST for _ in table.columns[1:]), WIDEST)
    table.columns[0].max_width = room
    root = rollup.tree(found.modules[precision])
    lines = [*rollup.rows(root, depth)]
    kept = _largest(lines, states, top)
    for level, node in lines:
        if id(node) in kept:
            table.add_row(_name(level, node, room), *_cells(node, states))
    left_out = len(lines) - len(kept)
    if left_out:
        table.add_row(f"… {left_out} smaller rows", style="dim")
    own = root.own
    if own is not None and own.activations:
        table.add_row("output, loss", "", "", size(own.activations), "")
    table.add_row("the model", *_cells(root, states), style="bold")
    return table


def _largest(lines: list[tuple[int, rollup.MemoryNode]], states: int, top: int | None) -> set[int]:
    by_need = sorted(lines, key=lambda line: -_need(line[1], states))
    return {id(node) for _, node in by_need[: len(lines) if top is None else top]}


def _need(node: rollup.MemoryNode, states: int) -> int:
    return node.parameters + states * node.trained + node.activations + node.cast_cache


def _name(level: int, node: rollup.MemoryNode, room: int) -> Text:
    """A module's name and class; the class goes below, and further in, where one line is full."""
    times = f" ×{node.count}" if node.count > 1 else ""
    name = f"{'  ' * level}{node.name}{times}"
    between = " " if len(name) + 1 + len(node.kind) <= room else f"\n{'  ' * (level + 1)}"
    return Text(name).append(f"{between}{node.kind}", style="dim")


def _cells(node: rollup.MemoryNode, states: int) -> list[str]:
    counts = (node.parameters, states * node.trained, node.activations, node.cast_cache)
    return [size(count) if count else "" for count in counts]
