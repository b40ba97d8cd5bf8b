"""What modules need, rolled up: to a depth, and with repeated blocks in one row.

A row holds everything inside its module. Blocks that follow each other in one list, have the same
class and need the same bytes become one row, such as ``h.0–11`` twelve times. The list itself gets
no row, for it never runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from amp_lessons.amp.memory.training import ModuleMemory

LISTS = ("ModuleList", "ModuleDict")


@dataclass
class MemoryNode:
    """A module with all that is inside it, in bytes.

    Attributes:
        name: the last part of its path, or a range of them for repeated blocks.
        kind: the class's name.
        count: how many blocks the row stands for; the bytes are those of all of them.
        own: what the module adds without those inside it.
    """

    name: str
    kind: str
    parameters: int = 0
    trained: int = 0
    activations: int = 0
    cast_cache: int = 0
    count: int = 1
    own: ModuleMemory | None = None
    children: list[MemoryNode] = field(default_factory=list)

    @property
    def bytes(self) -> tuple[int, int, int, int]:
        return self.parameters, self.trained, self.activations, self.cast_cache

    def alike(self, other: MemoryNode) -> bool:
        """Whether two blocks have the same classes and bytes throughout."""
        return (
            (self.kind, self.bytes, len(self.children))
            == (other.kind, other.bytes, len(other.children))
        ) and all(
            mine.name == theirs.name and mine.alike(theirs)
            for mine, theirs in zip(self.children, other.children, strict=True)
        )


def tree(modules: Sequence[ModuleMemory]) -> MemoryNode:
    """The modules of a model as a tree; its root is the model."""
    nodes: dict[str, MemoryNode] = {}
    for module in modules:
        outer, _, name = module.path.rpartition(".")
        node = MemoryNode(
            name,
            module.kind,
            module.parameters,
            module.trained,
            module.activations,
            module.cast_cache,
            own=module,
        )
        nodes[module.path] = node
        if module.path:
            nodes[outer].children.append(node)
    _sum(nodes[""])
    _without_lists(nodes[""])
    return nodes[""]


def rows(root: MemoryNode, depth: int) -> Iterator[tuple[int, MemoryNode]]:
    """Each row with its level, from the children of the root on, collapsed and down to a depth."""
    yield from _rows(root, 0, depth)


def _rows(node: MemoryNode, level: int, depth: int) -> Iterator[tuple[int, MemoryNode]]:
    if level >= depth:
        return
    for block in _collapsed(node.children):
        yield level, block
        if block.count == 1 or level + 1 < depth:
            yield from _rows(block, level + 1, depth)


def _collapsed(children: Sequence[MemoryNode]) -> Iterator[MemoryNode]:
    start = 0
    while start < len(children):
        end = start + 1
        while end < len(children) and _follow(children[start], children[end]):
            end += 1
        yield _together(children[start:end])
        start = end


def _follow(first: MemoryNode, other: MemoryNode) -> bool:
    """Whether two blocks are of one list and alike."""
    place, _, number = first.name.rpartition(".")
    its_place, _, its_number = other.name.rpartition(".")
    in_one_list = number.isdigit() and its_number.isdigit() and place == its_place
    return in_one_list and first.alike(other)


def _together(blocks: Sequence[MemoryNode]) -> MemoryNode:
    """One row for equal blocks: the bytes of all of them, also in what is inside."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    return _times(first, len(blocks), f"{first.name}–{blocks[-1].name.rpartition('.')[2]}")


def _times(node: MemoryNode, count: int, name: str) -> MemoryNode:
    return MemoryNode(
        name,
        node.kind,
        parameters=count * node.parameters,
        trained=count * node.trained,
        activations=count * node.activations,
        cast_cache=count * node.cast_cache,
        count=count * node.count,
        own=node.own,
        children=[_times(child, count, child.name) for child in node.children],
    )


def _without_lists(node: MemoryNode) -> None:
    """Put the modules of a list in its place, under names such as ``h.0``."""
    flat: list[MemoryNode] = []
    for child in node.children:
        _without_lists(child)
        if child.kind in LISTS and child.children:
            for inner in child.children:
                inner.name = f"{child.name}.{inner.name}"
            flat += child.children
        else:
            flat.append(child)
    node.children = flat


def _sum(node: MemoryNode) -> None:
    for child in node.children:
        _sum(child)
        node.parameters += child.parameters
        node.trained += child.trained
        node.activations += child.activations
        node.cast_cache += child.cast_cache
