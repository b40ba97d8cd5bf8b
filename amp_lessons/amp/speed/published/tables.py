"""Reads a table of published runs into its dataclass, and refuses what the course can't trust.

A dataclass is the table's schema: its fields are the columns, and their types say what a cell may
hold. Text may be empty, a number is finite and above 0, and a count is 0 or more.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from amp_lessons.amp.speed.published.rows import LeftOut, NvidiaRow, Quoted, Signed, Source
from amp_lessons.amp.speed.records import RecordError

SCHEMA = "amp-lessons published 1"
Q = TypeVar("Q", bound=Quoted)
M = TypeVar("M", bound=NvidiaRow)
Cells = dict[str, str]
Parser = tuple[Callable[[str], Any], str]  # reads a cell, and says what it must hold


def read_sources(folder: Path) -> dict[str, Source]:
    """The sources by name. Raises `RecordError`."""
    path = folder / "sources.json"
    try:
        data = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} isn't JSON: {str(error).splitlines()[0]}") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema != SCHEMA:
        has = f"has schema {schema!r}" if schema else "has no schema"
        raise RecordError(f"{path} {has}; published runs have {SCHEMA!r}")
    entries = data.get("sources")
    if not isinstance(entries, dict) or not entries:
        raise RecordError(f"{path} lists no sources; 'sources' must name at least one")
    return {name: _source(path, name, entry) for name, entry in entries.items()}


def read_rows(folder: Path, name: str, kind: type[Q], sources: Mapping[str, Source]) -> list[Q]:
    """The rows of a table. Raises `RecordError`, which names file, row and column."""
    path = folder / f"{name}.csv"
    columns = set(_parsers(kind))
    return [_row(path, n, cells, kind, sources) for n, cells in _cells(path, columns)]


def read_pairs(
    folder: Path, name: str, kind: type[M], sources: Mapping[str, Source]
) -> tuple[list[M], list[LeftOut]]:
    """The pairs of a table with a column ``why_left_out``, and the rows that aren't pairs."""
    path = folder / f"{name}.csv"
    pairs: list[M] = []
    left_out: list[LeftOut] = []
    for n, cells in _cells(path, set(_parsers(kind)) | {"why_left_out"}):
        if cells["why_left_out"]:
            left_out.append(_left_out(path, n, cells, sources))
        else:
            pairs.append(_row(path, n, cells, kind, sources))
    return pairs, left_out


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise RecordError(
            f"{path} isn't there; pass the folder that holds the published runs, or none for the "
            "course's own"
        ) from error
    except OSError as error:
        raise RecordError(f"{path} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RecordError(f"{path} isn't UTF-8 text (byte {error.start})") from error


def _source(path: Path, name: str, entry: Any) -> Source:
    fields = {field.name for field in dataclasses.fields(Source)} - {"name"}
    if not isinstance(entry, dict) or entry.keys() != fields:
        raise RecordError(f"{path}: source {name!r} must have {', '.join(sorted(fields))}")
    for field, value in entry.items():
        if not isinstance(value, str) or not value:
            raise RecordError(f"{path}: source {name!r} needs text for {field}, not {value!r}")
    return Source(name=name, **entry)


def _cells(path: Path, columns: set[str]) -> Iterator[tuple[int, Cells]]:
    """The rows of a file by column, each with its line, after a look at the header."""
    try:
        reader = csv.DictReader(io.StringIO(_text(path), newline=""), strict=True)
        found = reader.fieldnames or []
        for name in sorted(columns - set(found)):
            raise RecordError(f"{path} lacks the column {name!r}; see README.md beside the tables")
        for name in sorted(set(found) - columns, key=str):
            raise RecordError(f"{path} has a column {name!r} that this table doesn't know")
        for cells in reader:
            if None in cells or None in cells.values():
                count = "more" if None in cells else "fewer"
                raise RecordError(f"{path}, row {reader.line_num}: {count} cells than columns")
            yield reader.line_num, cells
    except csv.Error as error:
        raise RecordError(f"{path} isn't a CSV table: {error}") from error


def _row(path: Path, n: int, cells: Cells, kind: type[Q], sources: Mapping[str, Source]) -> Q:
    parsers = _parsers(kind)
    values = {name: _value(path, n, name, cells[name], parsers[name]) for name in parsers}
    if cells["source"] not in sources:
        raise _wrong(path, n, "source", f"{cells['source']!r} isn't in sources.json")
    values["source"] = sources[cells["source"]]
    try:
        return kind(**values)
    except ValueError as error:
        raise RecordError(f"{path}, row {n}: {error}") from error


def _left_out(path: Path, n: int, cells: Cells, sources: Mapping[str, Source]) -> LeftOut:
    """A row with no 32-bit run lacks a number, so only what names it is read."""
    cells = cells | {"table": path.stem, "where": ""}
    parsers = _parsers(LeftOut)
    values = {name: _value(path, n, name, cells[name], parsers[name]) for name in parsers}
    if cells["source"] not in sources:
        raise _wrong(path, n, "source", f"{cells['source']!r} isn't in sources.json")
    line = _value(path, n, "line", cells["line"], _parsers(Quoted)["line"])
    return LeftOut(**values | {"where": sources[cells["source"]].where(line)})


def _value(path: Path, n: int, name: str, cell: str, parser: Parser) -> Any:
    parse, wanted = parser
    try:
        return parse(cell)
    except ValueError as error:
        raise _wrong(path, n, name, f"{cell!r} isn't {wanted}") from error


def _wrong(path: Path, n: int, column: str, what: str) -> RecordError:
    return RecordError(f"{path}, row {n}, column {column}: {what}")


def _parsers(kind: type) -> dict[str, Parser]:
    """For each column how a cell is read, and what it must be, in words."""
    if kind not in _PARSERS:
        _PARSERS[kind] = _build_parsers(kind)
    return _PARSERS[kind]


_PARSERS: dict[type, dict[str, Parser]] = {}


def _build_parsers(kind: type) -> dict[str, Parser]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: _parser(hints[field.name]) for field in dataclasses.fields(kind)}


def _parser(hint: Any) -> Parser:
    if get_origin(hint) is Literal:
        choices = get_args(hint)
        return _one_of(choices), "one of " + ", ".join(map(repr, choices))
    if hint is int:
        return _count, "a whole number, 0 or more"
    if hint is float:
        return _number, "a number above 0"
    if hint == Signed:
        return _signed, "a number other than 0"
    if hint == float | None:
        return lambda cell: _number(cell) if cell else None, "a number above 0, or empty"
    return str, "text"


def _one_of(choices: tuple[str, ...]) -> Callable[[str], str]:
    def parse(cell: str) -> str:
        if cell not in choices:
            raise ValueError
        return cell

    return parse


def _count(cell: str) -> int:
    if not (cell.isascii() and cell.isdigit()):
        raise ValueError
    return int(cell)


def _number(cell: str) -> float:
    number = _signed(cell)
    if number < 0:
        raise ValueError
    return number


def _signed(cell: str) -> float:
    number = float(cell)
    if not math.isfinite(number) or number == 0:
        raise ValueError
    return number
