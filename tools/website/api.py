"""The reference: what `amp_lessons/__init__.pyi` lists, with signatures and docstrings.

griffe reads the sources without importing them. Only the modules that a name lies in are read: all
of the package takes griffe nine seconds.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import griffe

from website import places
from website.pages import Page
from website.places import Places
from website.text import Heading, Text, code

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "amp_lessons"
WIDE = 78
"""Characters, from which on a signature has a line for each parameter."""
_IMPORT = re.compile(
    rf'<span class="nn">{PACKAGE}</span><span class="w"> </span><span class="kn">import</span>.*'
)
_NAME = re.compile(r'<span class="n">(\w+)</span>')


@dataclass(frozen=True)
class Group:
    """Names that stand together in the stub, below one comment."""

    title: str
    names: tuple[str, ...]


@cache
def groups() -> tuple[Group, ...]:
    """The vocabulary, as the stub orders it."""
    found: list[tuple[str, list[str]]] = []
    lines = (ROOT / PACKAGE / "__init__.pyi").read_text(encoding="utf-8").splitlines()
    for before, line in pairwise(lines):
        name = re.match(r"from \S+ import (\w+) as \1$", line)
        if name and before.startswith("# "):
            found.append((before.removeprefix("# ").removesuffix("."), []))
        if name:
            found[-1][1].append(name[1])
    return tuple(Group(title, tuple(names)) for title, names in found)


def names() -> dict[str, str]:
    """The address of each name of the vocabulary, from the root of the site."""
    every = [name for group in groups() for name in group.names]
    return {name: f"{places.API}#{name}" for name in every}


def with_links(listing: str, to_root: str) -> str:
    """Coloured code in which each name that is imported from the package is a link."""

    def line(found: re.Match[str]) -> str:
        return _NAME.sub(name, found[0])

    def name(found: re.Match[str]) -> str:
        address = names().get(found[1])
        return f'<a href="{to_root}{address}">{found[0]}</a>' if address else found[0]

    return _IMPORT.sub(line, listing)


# ---- what griffe reads --------------------------------------------------------------------------


@cache
def _module(path: str) -> griffe.Module:
    file = _file(path)
    assert file, f"{path} is no module"
    return griffe.visit(
        path,
        filepath=file,
        code=file.read_text(encoding="utf-8"),
        docstring_parser=griffe.Parser.google,
        docstring_options={"warnings": False},  # a dataclass has no signature that griffe sees here
    )


def _file(path: str) -> Path | None:
    base = ROOT.joinpath(*path.split("."))
    return next((f for f in (base.with_suffix(".py"), base / "__init__.py") if f.is_file()), None)


def find(path: str) -> griffe.Object:
    """What a dotted path names, such as ``"amp_lessons.amp.policy.op_policy"``."""
    if _file(path):
        return _module(path)
    module, _, name = path.rpartition(".")
    found = _module(module).members[name]
    return find(found.target_path) if isinstance(found, griffe.Alias) else found


@cache
def vocabulary() -> dict[str, griffe.Object]:
    """Each name of the stub, and what it stands for."""
    stub = ROOT / PACKAGE / "__init__.pyi"
    read = griffe.visit(PACKAGE, filepath=stub, code=stub.read_text(encoding="utf-8"))
    found = {}
    for group in groups():
        for name in group.names:
            alias = read.members[name]
            assert isinstance(alias, griffe.Alias)
            found[name] = find(alias.target_path)
    return found


def _answers(value: griffe.Object) -> Iterator[griffe.Class]:
    """The course's classes that somebody gets who uses a name: what it returns or is one of."""
    if isinstance(value, griffe.Function):
        given = value.returns
    elif isinstance(value, griffe.Attribute):
        given = value.value
    else:
        return
    if isinstance(given, griffe.Expr):
        for part in given.iterate(flat=True):
            if isinstance(part, griffe.ExprName) and part.canonical_path.startswith(f"{PACKAGE}."):
                found = find(part.canonical_path)
                if isinstance(found, griffe.Class):
                    yield found


def _public(value: griffe.Object) -> list[griffe.Object]:
    """What a class has of its own and from the course's other classes, or a module defines."""
    found = [] if isinstance(value, griffe.Module) else list(_inherited(value))
    for name, member in value.members.items():
        written = isinstance(member, griffe.Function) or _is_property(member)
        if written and not name.startswith("_"):
            found = [each for each in found if each.name != name] + [member]
    return found


def _inherited(value: griffe.Object) -> Iterator[griffe.Object]:
    for base in value.bases if isinstance(value, griffe.Class) else ():
        if isinstance(base, griffe.ExprName) and base.canonical_path.startswith(f"{PACKAGE}."):
            yield from _public(find(base.canonical_path))


def _is_property(value: Any) -> bool:
    return isinstance(value, griffe.Attribute) and "property" in value.labels


# ---- the page -----------------------------------------------------------------------------------


def page(to: Places) -> Page:
    """Every name of the vocabulary, and the classes of what one gets from it."""
    text = Text(lambda href: to.link(href, "", places.API), str, names=names())
    headings: list[Heading] = []
    shown = [
        "<h1>The vocabulary of the course</h1>",
        text.render(
            "These names come from `amp_lessons`, as in `from amp_lessons import ask, plots`. "
            "Lessons use them, and so can your own code. This page is made from the package's "
            "signatures and docstrings. A command line for most of it is in "
            "[With your own model](docs/your_model.md)."
        ),
    ]
    told: set[str] = set()
    for number, group in enumerate(groups(), 1):
        headings.append(Heading(2, f"part-{number}", group.title))
        shown.append(f'<h2 id="part-{number}">{html.escape(group.title)}</h2>')
        values = {name: vocabulary()[name] for name in group.names}
        answers = {each.name: each for value in values.values() for each in _answers(value)}
        for name, value in (values | answers).items():
            if value.path not in told:
                told.add(value.path)
                shown += _entry(name, value, text, headings)
    return Page(places.API, "The vocabulary of the course", "\n".join(shown), headings, kind="api")


def _entry(name: str, value: griffe.Object, text: Text, headings: list[Heading]) -> Iterator[str]:
    if isinstance(value, griffe.Attribute):
        yield f'<div id="{name}">{code(f"{name} = {value.value}")}</div>'
        return
    headings.append(Heading(3, name, name))
    label = html.escape(f"Link to “{name}”")
    yield (
        f'<h3 id="{name}"><code>{name}</code>'
        f' <a class="anchor" href="#{name}" aria-label="{label}">#</a></h3>'
    )
    yield from _about(value, text)
    if isinstance(value, griffe.Class | griffe.Module):
        for member in _public(value):
            yield f'<div class="member" id="{name}.{member.name}">'
            yield from _about(member, text)
            yield "</div>"


def _about(value: griffe.Object, text: Text) -> Iterator[str]:
    """A signature and a docstring."""
    signature = _signature(value)
    if signature:
        yield code(signature)
    if value.docstring:
        for section in value.docstring.parsed:
            yield _section(section, text)


def _signature(value: griffe.Object) -> str:
    if isinstance(value, griffe.Function):
        return _call(value, value.name)
    if isinstance(value, griffe.Class):
        made = value.members.get("__init__")
        return _call(made, value.name) if isinstance(made, griffe.Function) else ""
    if isinstance(value, griffe.Attribute):
        return f"{value.name}: {value.annotation}"
    return ""


def _call(function: griffe.Function, name: str) -> str:
    """A function's head, on one line where it fits."""
    given = list(_parameters(function))
    made = function.name == "__init__"
    end = f") -> {function.returns}" if function.returns is not None and not made else ")"
    line = f"{name}({', '.join(given)}{end}"
    if len(line) <= WIDE or not given:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in given), end])


def _parameters(function: griffe.Function) -> Iterator[str]:
    starred = False
    for number, each in enumerate(function.parameters):
        if number == 0 and isinstance(function.parent, griffe.Class):
            continue  # self
        stars = {
            griffe.ParameterKind.var_positional: "*",
            griffe.ParameterKind.var_keyword: "**",
        }.get(each.kind or griffe.ParameterKind.positional_or_keyword, "")
        if each.kind is griffe.ParameterKind.keyword_only and not starred:
            yield "*"
        starred |= stars == "*" or each.kind is griffe.ParameterKind.keyword_only
        annotation = f": {each.annotation}" if each.annotation is not None else ""
        default = f" = {each.default}" if each.default is not None and not stars else ""
        yield f"{stars}{each.name}{annotation}{default}"


LISTS = {
    griffe.DocstringSectionKind.parameters: "Arguments",
    griffe.DocstringSectionKind.attributes: "Attributes",
    griffe.DocstringSectionKind.raises: "Raises",
}
ANSWERS = {
    griffe.DocstringSectionKind.returns: "Returns",
    griffe.DocstringSectionKind.yields: "Yields",
}


def _section(section: griffe.DocstringSection, text: Text) -> str:
    if section.kind is griffe.DocstringSectionKind.text:
        return text.render(section.value)
    if section.kind in ANSWERS:
        said = " ".join(" ".join(each.description.split()) for each in section.value)
        return f'<p><span class="label">{ANSWERS[section.kind]}</span> {text.inline(said)}</p>'
    if section.kind in LISTS:
        rows = _rows(section.value, section.kind is griffe.DocstringSectionKind.raises)
        told = "".join(
            f"<dt><code>{html.escape(name)}</code></dt><dd>{text.render(said)}</dd>"
            for name, said in rows
        )
        return f'<p class="label">{LISTS[section.kind]}</p><dl class="listed">{told}</dl>'
    raise ValueError(f"{section.kind.value}: the page of the API has no form for this section")


def _rows(found: Iterable[Any], raised: bool) -> Iterator[tuple[str, str]]:
    for each in found:
        yield str(each.annotation) if raised else each.name, each.description
