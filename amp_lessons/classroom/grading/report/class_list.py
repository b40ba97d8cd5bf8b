"""The list of a class, as an instructor has it: names, a table of names and numbers, or what Canvas
exports as its gradebook.

It says who is missing, and gives what a gradebook needs to find a learner again. A learner is on
the list if their folder's name is a name, a number, a login or a mail address that one person on
the list has, and no other.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.terminal import line

LARGEST = 10 * 2**20
"""Bytes."""

_COLUMNS = {
    "name": ("student", "name", "fullname", "studentname", "learner", "displayname"),
    "first": ("firstname", "givenname", "forename"),
    "last": ("lastname", "surname", "familyname"),
    "id": ("id", "studentid", "canvasid", "idnumber", "number"),
    "sis": ("sisuserid",),
    "login": ("sisloginid", "username", "login", "loginid"),
    "mail": ("email", "emailaddress", "mail"),
    "section": ("section", "group"),
}
"""Headings, without spaces, by what the column holds."""

_NOBODY = ("points possible", "student, test", "test student")
"""Rows of Canvas's gradebook that are no learners."""


class ClassListError(AmpLessonsError):
    """The list cannot be used. The message is one line with the cure."""


@dataclass(frozen=True)
class Listed:
    """Somebody on the list.

    Attributes:
        name: as the list has it, such as ``"Doe, Jane"``.
        id: Canvas's number, or another one.
        sis: Canvas's SIS User ID.
        login: the name with which they log in.
    """

    name: str
    id: str = ""
    sis: str = ""
    login: str = ""
    mail: str = ""
    section: str = ""

    @property
    def keys(self) -> set[str]:
        """What a folder of theirs may be called, in small letters and digits alone."""
        names = [self.name]
        last, comma, first = self.name.partition(",")
        if comma:
            names.append(f"{first} {last}")
        elif words := self.name.split():
            names.append(" ".join([words[-1], *words[:-1]]))
        others = (self.id, self.sis, self.login, self.mail, self.mail.partition("@")[0])
        return {plain(text) for text in (*names, *others)} - {""}


def plain(text: str) -> str:
    """Small letters without accents, and digits: the same for ``"Doe, Zoë"`` and ``"doezoe"``."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(char for char in decomposed if char.isalnum())


def read_class_list(file: Path) -> tuple[Listed, ...]:
    """The people on a list.

    Args:
        file: a name on each line, or a table with headings such as "name", "id" and "email", or
            Canvas's exported gradebook.

    Raises:
        ClassListError: if it cannot be read, or names nobody.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(LARGEST + 1)
    except OSError as error:
        raise ClassListError(f"--roster: {file} cannot be read: {error.strerror}") from error
    if len(content) > LARGEST:
        raise ClassListError(f"--roster: {file} is larger than {LARGEST // 2**20} MB")
    rows = [row for row in rows_of(content) if any(row)]
    places = _places(rows[0]) if rows else {}
    found = _from_table(rows[1:], places) if places else _from_lines(content)
    people = [p for p in found if p.keys and not any(n in p.name.casefold() for n in _NOBODY)]
    if not people:
        raise ClassListError(
            f"--roster: {file} names nobody: it needs a name on each line, or a table with a "
            "column such as name, student or email"
        )
    return tuple(dict.fromkeys(people))


def rows_of(content: bytes) -> list[list[str]]:
    """The rows of a table that a spreadsheet has saved, whatever its encoding and its commas."""
    text = decoded(content)
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    found = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        return [[cell.strip() for cell in row] for row in found]
    except csv.Error:
        return []


def decoded(content: bytes) -> str:
    """A text that some program on some system has saved, whatever its encoding."""
    if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return content.decode("utf-16", errors="replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", errors="replace")  # what Excel saves in the West


def _places(head: Sequence[str]) -> dict[str, int]:
    """Where the columns are; nothing if these are no headings of people."""
    by_heading = {heading: what for what, headings in _COLUMNS.items() for heading in headings}
    found: dict[str, int] = {}
    for place, cell in enumerate(head):
        if what := by_heading.get(plain(cell)):
            found.setdefault(what, place)
    return found if found.keys() & {"name", "first", "last", "login", "mail"} else {}


def _from_table(rows: Iterable[Sequence[str]], places: dict[str, int]) -> list[Listed]:
    found = []
    for row in rows:
        cells = {what: line(row[at]) for what, at in places.items() if at < len(row)}
        whole = f"{cells.pop('first', '')} {cells.pop('last', '')}".strip()
        name = cells.pop("name", "") or whole or cells.get("login") or cells.get("mail", "")
        found.append(Listed(name, **cells))
    return found


def _from_lines(content: bytes) -> list[Listed]:
    """A name on each line, perhaps with a number behind it: ``Ada Lovelace, 1815``."""
    found = []
    for text in decoded(content).splitlines():
        name = line(text.lstrip("-* \t").strip("\"' \t"))
        if not name or name.startswith("#"):
            continue
        numbered = re.fullmatch(r"(.+?)\s*[,;\t]\s*\"?(\d+)\"?", name)
        found.append(Listed(numbered[1], numbered[2]) if numbered else Listed(name))
    return found


def matched(learners: Sequence[tuple[str, str]], people: Sequence[Listed]) -> list[Listed | None]:
    """Who on the list each learner is.

    Args:
        learners: each name, and the number that Canvas gave them or "".
    """
    by_key: dict[str, set[Listed]] = defaultdict(set)
    for person in people:
        for key in person.keys:
            by_key[key].add(person)
    numbers = {person.id: person for person in people if person.id}
    found: list[Listed | None] = []
    for name, canvas in learners:
        of_name = by_key.get(plain(name), set())
        only = next(iter(of_name)) if len(of_name) == 1 else None
        found.append(numbers.get(canvas) if canvas in numbers else only)
    return found
