"""The report as JSON, and back: what `--json` prints and `--diff` reads.

The keys are a contract: they are added to, and never renamed within a version.

- ``format``, ``version``: "amp-lessons explain" and 1.
- ``model``, ``device``, ``dtype``, ``torch``, ``gpu``, ``values``, ``notes``: as in `Trace`.
- ``rows``, ``modules``, ``hazards``, ``totals``: as in `OpRow`, `Module`, `Hazard` and `Totals`;
  bytes and FLOPs are whole numbers. ``totals`` also has ``share_16bit``, ``casts_step`` and
  ``saved_ratio``.
- ``estimate``: the GPU, and seconds by its peaks for the forward, its FP32 ops and its casts; null
  on a CPU.
- ``tree``: nodes with ``paths``, ``label``, ``kind``, ``dtype_out``, ``own``, ``total`` and
  ``children``; repeated blocks are one node with several paths.
- ``not_run``: parts whose parameters no op used, as in `NotRun`.
- ``casting``, ``islands``, ``sizes``: as in `Casting`, `Island` and `Misfit`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeVar

from amp_lessons.amp.explain.report.digest import Digest
from amp_lessons.amp.explain.report.tree import ModuleNode
from amp_lessons.amp.explain.rows import Cast, Hazard, Input, Module, OpRow, Totals, Trace
from amp_lessons.amp.fake_tensors.not_run import NotRun
from amp_lessons.core.errors import AmpLessonsError

FORMAT, VERSION = "amp-lessons explain", 1
_DERIVED = ("share_16bit", "casts_step", "saved_ratio")

Record = TypeVar("Record")


class NotAReport(AmpLessonsError, ValueError):
    """A file that `amp-lessons explain --json` did not write."""


def to_dict(digest: Digest) -> dict[str, Any]:
    """Everything that the report says, as plain data."""
    trace = digest.trace
    data: dict[str, Any] = {"format": FORMAT, "version": VERSION, **asdict(trace)}
    data["totals"] |= {name: getattr(trace.totals, name) for name in _DERIVED}
    return data | {
        "estimate": _estimate(digest),
        "casting": asdict(digest.casting),
        "islands": [asdict(island) for island in digest.islands],
        "sizes": [asdict(misfit) for misfit in digest.misfits],
        "tree": _branch(digest.tree),
    }


def _estimate(digest: Digest) -> dict[str, Any] | None:
    if digest.costs is None:
        return None
    return {
        "gpu": digest.costs.gpu.name,
        "source": digest.costs.gpu.source,
        "forward_seconds": digest.seconds,
        "fp32_seconds": digest.seconds * digest.wide_share,
        "cast_seconds": digest.casting.seconds,
    }


def _branch(node: ModuleNode) -> dict[str, Any]:
    return {
        "paths": list(node.paths),
        "label": node.label,
        "kind": node.kind,
        "dtype_out": node.dtype_out,
        "ops": list(node.ops),
        "own": asdict(node.own),
        "total": asdict(node.total),
        "children": [_branch(child) for child in node.children],
    }


def to_json(data: dict[str, Any]) -> str:
    """The data with one entry of each list a line, so that text tools can compare two files."""
    parts = []
    for key, value in data.items():
        if isinstance(value, list | tuple) and value:
            lines = ",\n  ".join(json.dumps(item) for item in value)
            parts.append(f" {json.dumps(key)}: [\n  {lines}\n ]")
        else:
            parts.append(f" {json.dumps(key)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(parts) + "\n}"


# ---- and back -----------------------------------------------------------------------------------


def read(path: Path) -> Trace:
    """The trace in a file that ``amp-lessons explain --json`` wrote.

    Raises:
        NotAReport: in one line: no such file, no JSON, or not one of ours.
    """
    cure = "write one with: amp-lessons explain … --json > before.json"
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotAReport(f"cannot read {path}: {error.strerror or error}; {cure}") from error
    except ValueError as error:
        raise NotAReport(f"{path} is not JSON; {cure}") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise NotAReport(f"{path} is not a report of amp-lessons explain; {cure}")
    if data.get("version") != VERSION:
        raise NotAReport(
            f"{path} has version {data.get('version')} of the report, and this is {VERSION}; {cure}"
        )
    try:
        return from_dict(data)
    except (KeyError, TypeError, ValueError) as error:
        raise NotAReport(f"{path} is a damaged report; {cure}") from error


def from_dict(data: dict[str, Any]) -> Trace:
    """A trace from what `to_dict` made. Raises KeyError or TypeError for anything else."""
    return Trace(
        rows=tuple(map(_row, data["rows"])),
        modules=tuple(_made(Module, module) for module in data["modules"]),
        hazards=tuple(_made(Hazard, hazard) for hazard in data["hazards"]),
        totals=_made(Totals, data["totals"]),
        notes=tuple(data["notes"]),
        not_run=tuple(_made(NotRun, part) for part in data["not_run"]),
        **{name: str(data[name]) for name in _WORDS},
    )


_WORDS = ("model", "device", "dtype", "torch", "gpu", "values")


def _row(data: dict[str, Any]) -> OpRow:
    data = data | {
        "casts": [_made(Cast, cast) for cast in data["casts"]],
        "inputs": [_made(Input, given) for given in data["inputs"]],
        "shapes_in": [tuple(shape) for shape in data["shapes_in"]],
    }
    return _made(OpRow, data)


def _made(kind: type[Record], data: dict[str, Any]) -> Record:
    """A record of this class. Keys that it doesn't have came with a later version."""
    names = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    values = {name: _frozen(value) for name, value in data.items() if name in names}
    return kind(**values)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
