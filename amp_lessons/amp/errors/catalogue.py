"""The one catalogue of faults: a TOML file a section in `entries/`, read and validated.

`lookup` searches it. The clinic, the monitor, the hazards of `explain` and the checks of exercises
name a fault by its `id` and take their words from here. `load` reads the files once a process.
What is wrong in one is a line that names the file, the entry and the field. Patterns are compiled
when a text is searched, since most of them are never needed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, field, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import tomli

from amp_lessons.core import catalogue
from amp_lessons.core.errors import AmpLessonsError

FOLDER = Path(__file__).parent / "entries"

KINDS = ("message", "symptom")
SECTIONS = ("scaler", "dtypes", "precision", "numerics", "compile", "distributed")
SEEN = ("very common", "common", "rare")
SHOWN_ON = ("cpu", "fake", "cuda", "other")
_CHOICES = {"kind": KINDS, "section": SECTIONS, "seen": SEEN, "shown_on": SHOWN_ON}
_LISTS = ("patterns", "words", "links")


class CatalogueError(AmpLessonsError, ValueError):
    """An entry is malformed, or there is none of this name. The message is one line."""


@dataclass(frozen=True)
class Entry:
    """One family of messages, or one symptom, with its cause and its cure.

    Attributes:
        id: its name, in kebab case. It stays the same when the texts change.
        title: the message in one line, or the symptom in plain words.
        kind: ``"message"`` or ``"symptom"``.
        section: one of `SECTIONS`.
        patterns: regular expressions for `search`, without regard to case. They meet a text in
            which each run of white space is one space.
        words: more words to find it by, in lower case.
        raised_by: who raises it, and where.
        cause: why it happens.
        cure: what to do; its first sentence, `fix`, is shown alone in reports. May hold code
            between backticks, like all texts here.
        seen: how often, one of `SEEN`.
        shown_on: where it can be raised, one of `SHOWN_ON`; ``"fake"`` means fake CUDA tensors.
        lesson: slug of the lesson that explains it.
        links: where people met it, or where it is documented.
        example: the message as it is raised, or what somebody with the symptom would type.
        wrong_cure: the popular one that doesn't help, and what it does; "" if there is none.
        versions: of PyTorch or of a library; "" if all are alike.
    """

    id: str
    title: str
    kind: str
    section: str
    patterns: tuple[str, ...]
    words: tuple[str, ...]
    raised_by: str
    cause: str
    cure: str
    seen: str
    shown_on: str
    lesson: str
    links: tuple[str, ...]
    example: str
    wrong_cure: str = field(default="")
    versions: str = field(default="")

    @property
    def fix(self) -> str:
        """The first sentence of the cure, as a clause for a line of a report or a table."""
        first = self.cure.partition(". ")[0].removesuffix(".")
        return first[0].lower() + first[1:]

    @cached_property
    def regexes(self) -> tuple[re.Pattern[str], ...]:
        """The patterns, compiled."""
        return tuple(re.compile(pattern, re.IGNORECASE) for pattern in self.patterns)

    @property
    def notebook(self) -> str:
        """The lesson that explains it, as a path in the course and in a workspace."""
        return catalogue.lesson_called(self.lesson).notebook

    @property
    def lesson_title(self) -> str:
        """That lesson's number and title, such as ``"06 GradScaler"``."""
        lesson = catalogue.lesson_called(self.lesson)
        return f"{lesson.number:02} {lesson.title}"


_FIELDS = {each.name: each for each in fields(Entry)}
_NEEDED = [name for name, each in _FIELDS.items() if each.default is MISSING]


@lru_cache(maxsize=1)
def load() -> tuple[Entry, ...]:
    """The course's own entries, in the order of `SECTIONS`. Raises `CatalogueError`."""
    return read(FOLDER, check_patterns=False)


def entry(name: str) -> Entry:
    """The course's own entry with this id. Raises `KeyError`."""
    return _by_id()[name]


@lru_cache(maxsize=1)
def _by_id() -> dict[str, Entry]:
    return {each.id: each for each in load()}


def read(folder: Path, *, check_patterns: bool = True) -> tuple[Entry, ...]:
    """The entries in a folder of TOML files, each a list of ``[[entry]]`` tables.

    Args:
        folder: where the files ``*.toml`` lie.
        check_patterns: also compile each pattern, and hold it against the entry's example. This
            takes longer than everything else. `load` leaves it out, for the tests do it.

    Raises:
        CatalogueError: with the file, the entry and the field.
    """
    entries: dict[str, Entry] = {}
    for path in sorted(folder.glob("*.toml")):
        for number, table in enumerate(_tables(path), 1):
            found = _entry(path, number, table)
            if found.id in entries:
                raise _fault(path, found.id, "id", "another entry has this id")
            if check_patterns:
                _check_patterns(path, found)
            entries[found.id] = found
    if not entries:
        raise CatalogueError(f"{folder} holds no entries: it needs *.toml files with [[entry]]")
    return tuple(sorted(entries.values(), key=lambda each: SECTIONS.index(each.section)))


def in_section(entries: Iterable[Entry], section: str | None) -> tuple[Entry, ...]:
    """The entries of one section, or all. Raises `CatalogueError` with the nearest names."""
    if section is None:
        return tuple(entries)
    if section not in SECTIONS:
        raise CatalogueError(_unknown("section", section, SECTIONS))
    return tuple(each for each in entries if each.section == section)


# ---- validation ---------------------------------------------------------------------------------


def _tables(path: Path) -> list[Any]:
    try:
        data = tomli.loads(path.read_text(encoding="utf-8"))
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{path.name}: not valid TOML: {error}") from error
    stray = sorted(set(data) - {"entry"})
    if stray:
        raise CatalogueError(f"{path.name}: unknown table {stray[0]!r}; there is only [[entry]]")
    tables = data.get("entry", [])
    if not isinstance(tables, list):
        raise CatalogueError(f"{path.name}: write [[entry]], with two brackets")
    return tables


def _entry(path: Path, number: int, table: dict[str, Any]) -> Entry:
    name = str(table.get("id") or f"number {number}")
    for key in table:
        if key not in _FIELDS:
            raise _fault(path, name, key, _unknown("field", key, _FIELDS))
    for key in _NEEDED:
        if key not in table:
            raise _fault(path, name, key, "is missing")
    values: dict[str, Any] = {}
    for key, value in table.items():
        check = _texts if key in _LISTS else _text
        values[key] = check(value, _fault(path, name, key, _expected(key)))
    for key, choices in _CHOICES.items():
        if values[key] not in choices:
            raise _fault(path, name, key, _unknown(key, values[key], choices))
    found = Entry(**values)
    _check_details(path, found)
    return found


def _expected(key: str) -> str:
    return "must be a list of texts, none empty" if key in _LISTS else "must be a text, not empty"


def _text(value: Any, fault: CatalogueError) -> str:
    if not isinstance(value, str) or not value.strip():
        raise fault
    return value.strip()


def _texts(value: Any, fault: CatalogueError) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise fault
    return tuple(_text(each, fault) for each in value)


def _check_details(path: Path, entry: Entry) -> None:
    faults = {
        "id": not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", entry.id) and "must be in kebab case",
        "title": "\n" in entry.title and "must be one line",
        "patterns": entry.kind == "message" and not entry.patterns and "a message needs one",
        "words": any(word != word.lower() for word in entry.words) and "must be in lower case",
        "lesson": entry.lesson not in _slugs() and _unknown("lesson", entry.lesson, _slugs()),
        "links": any(not link.startswith("https://") for link in entry.links)
        and "each must begin with https://",
    }
    for key, fault in faults.items():
        if fault:
            raise _fault(path, entry.id, key, fault)


@lru_cache(maxsize=1)
def _slugs() -> tuple[str, ...]:
    return tuple(lesson.slug for lesson in catalogue.LESSONS)


def _check_patterns(path: Path, entry: Entry) -> None:
    try:
        regexes = entry.regexes
    except re.error as error:
        raise _fault(path, entry.id, "patterns", f"not a regular expression: {error}") from error
    example = " ".join(entry.example.split())
    if entry.kind == "message" and not any(regex.search(example) for regex in regexes):
        raise _fault(path, entry.id, "patterns", "none of them matches the example")
    if any(regex.search("") for regex in regexes):
        raise _fault(path, entry.id, "patterns", "one of them matches an empty text")


def _fault(path: Path, entry: str, key: str, fault: str) -> CatalogueError:
    return CatalogueError(f"{path.name}, entry {entry!r}: {key}: {fault}")


def _unknown(what: str, name: str, there: Iterable[str]) -> str:
    names = list(there)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
    return f"no {what} is called {name!r}; {hint}"
