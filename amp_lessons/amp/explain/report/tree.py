"""The rows of a trace summed up by module: a tree, with repeated blocks as one node.

`grow` makes the tree as the model has it, `fold` puts siblings that are the same into one node,
and `cut` leaves the largest siblings and sums up the others. None of them loses a number: a node's
total is its own ops and its children's totals, in each of the three.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace

from amp_lessons.amp.explain.report.costs import Costs
from amp_lessons.amp.explain.report.names import op_name, plural, ranges, times
from amp_lessons.amp.explain.rows import LOW_NAMES, Hazard, Module, OpRow, Trace


@dataclass(frozen=True)
class Sums:
    """What rows come to.

    Attributes:
        ops: how many. flops, flops_16bit: of the forward pass.
        casts: that ran. cached: that the cache spared. cast_bytes: read and written by casts.
        saved: bytes kept for backward.
        bytes_moved: read and written by the ops, casts left out.
        seconds: the least time of ops and casts, on the GPU that `grow` was given; else 0.
    """

    ops: int = 0
    flops: int = 0
    flops_16bit: int = 0
    casts: int = 0
    cached: int = 0
    cast_bytes: int = 0
    saved: int = 0
    bytes_moved: int = 0
    seconds: float = 0.0

    def __add__(self, other: Sums) -> Sums:
        return Sums(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Sums)))

    @property
    def share_16bit(self) -> float | None:
        """Share of the FLOPs in 16 bit; None where there are none."""
        return self.flops_16bit / self.flops if self.flops else None


NOTHING = Sums()


def sums_of(rows: Iterable[OpRow], costs: Costs | None = None) -> Sums:
    """What these rows come to."""
    total = NOTHING
    for row in rows:
        ran = [cast for cast in row.casts if cast.how != "from cache"]
        total += Sums(
            ops=1,
            flops=row.flops,
            flops_16bit=row.flops if row.computed_in in LOW_NAMES else 0,
            casts=len(ran),
            cached=len(row.casts) - len(ran),
            cast_bytes=sum(cast.bytes_moved for cast in ran),
            saved=row.saved,
            bytes_moved=row.bytes_moved,
            seconds=costs.with_casts(row) if costs else 0.0,
        )
    return total


@dataclass(frozen=True)
class ModuleNode:
    """A module, several that are the same, or what was cut off.

    Attributes:
        paths: of the modules it stands for.
        label: the path below the parent's, such as "layers.0–23".
        kind: the class.
        own: of the ops in the module's own forward. total: with everything below.
        ops: these ops by name.
        dtype_out: of what the module gives.
        hazards: met in the module itself.
        children: in the order of `named_modules`.
    """

    paths: tuple[str, ...]
    label: str
    kind: str
    own: Sums = NOTHING
    total: Sums = NOTHING
    ops: tuple[str, ...] = ()
    dtype_out: str = ""
    hazards: tuple[Hazard, ...] = ()
    children: tuple[ModuleNode, ...] = ()

    @property
    def count(self) -> int:
        """How many modules it stands for."""
        return len(self.paths)

    @property
    def own_ops(self) -> str:
        """The module's own ops in words: "add ×2, relu"."""
        counts = Counter(self.ops)
        return ", ".join(f"{op}{times(n * self.count)}" for op, n in sorted(counts.items()))

    def walk(self) -> Iterator[ModuleNode]:
        """The node and everything below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()

    def met_below(self) -> list[Hazard]:
        """Hazards met in the node or below, each once."""
        found = {id(hazard): hazard for node in self.walk() for hazard in node.hazards}
        return list(found.values())


@dataclass
class _Branch:
    """A module while the tree grows."""

    module: Module
    rows: list[OpRow] = field(default_factory=list)
    hazards: list[Hazard] = field(default_factory=list)
    children: list[_Branch] = field(default_factory=list)


# ---- growing ------------------------------------------------------------------------------------


def grow(trace: Trace, costs: Costs | None = None) -> ModuleNode:
    """The tree of a trace: a node for each module that ran an op, or has a hazard."""
    branches = _branches(trace)
    for row in trace.rows:
        branches[row.path].rows.append(row)
    for hazard in trace.hazards:
        for path in hazard.paths or ("",):
            branches[path if path in branches else ""].hazards.append(hazard)
    (root,) = _ripe(branches[""], "", costs) or (ModuleNode(("",), trace.model, trace.model),)
    return replace(root, label=trace.model, kind="")


def _branches(trace: Trace) -> dict[str, _Branch]:
    """A branch for each module, and for each path that only rows have, under its parent's."""
    modules = {module.path: module for module in trace.modules}
    paths = ["", *modules, *(row.path for row in trace.rows)]
    branches: dict[str, _Branch] = {}
    for path in dict.fromkeys(paths):
        branches[path] = _Branch(modules.get(path, Module(path, "")))
        if path:
            parent = path
            while parent not in branches or parent == path:
                parent = parent.rpartition(".")[0]
            branches[parent].children.append(branches[path])
    return branches


def _ripe(branch: _Branch, parent: str, costs: Costs | None) -> list[ModuleNode]:
    """The branch as a node; its children in its place if it is a list that never ran itself."""
    path = branch.module.path
    is_list = path and not branch.rows and not branch.hazards and not branch.module.calls
    below = [
        node
        for child in branch.children
        for node in _ripe(child, parent if is_list else path, costs)
    ]
    if is_list:
        return below
    own = sums_of(branch.rows, costs)
    if path and not own.ops and not below and not branch.hazards:
        return []
    total = sum((node.total for node in below), own)
    return [
        ModuleNode(
            (path,),
            path.removeprefix(f"{parent}.") if parent else path,
            branch.module.kind,
            own,
            total,
            tuple(map(op_name, branch.rows)),
            branch.module.dtype_out,
            tuple(branch.hazards),
            tuple(below),
        )
    ]


# ---- folding ------------------------------------------------------------------------------------


def fold(node: ModuleNode) -> ModuleNode:
    """Siblings that differ in their number alone become one node, at every depth.

    ``layers.0`` to ``layers.23`` become "layers.0–23" if all that the report shows of them is the
    same, down to the last op. One that differs stays by itself.
    """
    folded = [fold(child) for child in node.children]
    groups: dict[object, list[ModuleNode]] = {}
    for child in folded:
        stem, number = _numbered(child.label)
        key = (stem, _likeness(child)) if number is not None else child.paths
        groups.setdefault(key, []).append(child)
    return replace(node, children=tuple(map(_as_one, groups.values())))


def _numbered(label: str) -> tuple[str, int | None]:
    """A label without its last number: "blocks.3" as ("blocks.", 3)."""
    found = re.fullmatch(r"(|.*\.)(\d+)", label)
    return (found[1], int(found[2])) if found else (label, None)


def _likeness(node: ModuleNode) -> tuple[object, ...]:
    """Everything that the report shows of a node, but for its path."""
    hazards = tuple(sorted((h.kind, h.severity, h.message) for h in node.hazards))
    below = tuple((child.label, _likeness(child)) for child in node.children)
    whole = replace(node.own, seconds=0.0)  # which follows from the others
    return (node.kind, whole, node.ops, node.dtype_out, hazards, node.count, below)


def _as_one(nodes: Sequence[ModuleNode]) -> ModuleNode:
    """Nodes that are alike as one that stands for all."""
    first = nodes[0]
    if len(nodes) == 1:
        return first
    stem = _numbered(first.label)[0]
    numbers = [number for _, number in map(_numbered, (n.label for n in nodes))]
    merged = _merged(nodes)
    return replace(merged, label=stem + ranges(n for n in numbers if n is not None))


def _merged(nodes: Sequence[ModuleNode]) -> ModuleNode:
    """Several nodes in one, and so their children, pair by pair."""
    first = nodes[0]
    return replace(
        first,
        paths=tuple(path for node in nodes for path in node.paths),
        own=sum((node.own for node in nodes), NOTHING),
        total=sum((node.total for node in nodes), NOTHING),
        hazards=tuple({id(h): h for node in nodes for h in node.hazards}.values()),
        children=tuple(
            _merged(children) for children in zip(*(node.children for node in nodes), strict=True)
        ),
    )


# ---- cutting ------------------------------------------------------------------------------------


def cut(node: ModuleNode, depth: int | None = None, top: int | None = None) -> ModuleNode:
    """The tree to a depth, with the ``top`` largest children of each node.

    The children that are left out become one node, the last. What lies below the depth stays in
    the totals, and its hazards stay with the node that hides them.

    Args:
        node: the root of what is shown.
        depth: levels below it; None for all.
        top: 1 or more; None for all.
    """
    if depth == 0:
        return replace(node, hazards=tuple(node.met_below()), children=())
    children = list(node.children)
    if top is not None and len(children) > top + 1:  # one alone takes no more room than its sum
        largest = {id(n) for n in sorted(children, key=_weight, reverse=True)[:top]}
        rest = [child for child in children if id(child) not in largest]
        children = [child for child in children if id(child) in largest]
        children.append(_remainder(rest))
    deeper = None if depth is None else depth - 1
    return replace(node, children=tuple(cut(child, deeper, top) for child in children))


def _weight(node: ModuleNode) -> tuple[float, int, int]:
    return (node.total.seconds, node.total.flops, node.total.bytes_moved)


def _remainder(rest: Sequence[ModuleNode]) -> ModuleNode:
    total = sum((node.total for node in rest), NOTHING)
    paths = tuple(path for node in rest for path in node.paths)
    hazards = tuple({id(h): h for node in rest for h in node.met_below()}.values())
    label = plural(len(paths), "smaller module")
    return ModuleNode(paths, label, "", total=total, hazards=hazards)


def levels(node: ModuleNode) -> int:
    """How deep the tree is: 0 for a node without children."""
    return max((levels(child) + 1 for child in node.children), default=0)
