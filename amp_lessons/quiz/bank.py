"""The question bank: one TOML file a topic in `bank/`, read, validated and searched.

`load()` reads everything once a process, in well under a tenth of a second. What is wrong in a file
is reported with the file, the item and the fault. `find` and `choose` pick items; which lesson a
topic belongs to, `catalogue` knows. Nothing here imports torch.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import tomli
from pydantic import TypeAdapter, ValidationError

from amp_lessons.core import catalogue
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.quiz.items import (
    KINDS,
    ChoiceItem,
    Item,
    NumberItem,
    OpenQuestion,
    OrderItem,
)

FOLDER = Path(__file__).parent / "bank"
LEVELS = (1, 2, 3)

_MODELS: dict[str, Any] = {
    **dict.fromkeys(("single", "several", "output", "bug", "trace"), TypeAdapter(ChoiceItem)),
    "number": TypeAdapter(NumberItem),
    "order": TypeAdapter(OrderItem),
}
_CHOSEN, _NUMBER, _OPEN = (TypeAdapter(m) for m in (ChoiceItem, NumberItem, OpenQuestion))


class BankError(AmpLessonsError):
    """The bank is malformed, or nothing in it fits. The message is one line with the cure."""


@dataclass(frozen=True)
class Bank:
    """All questions.

    Attributes:
        items: of the seven kinds, in the order of the course, then of their files.
        predictions: what lessons ask before a result.
        open: questions to answer aloud.
    """

    items: tuple[Item, ...] = ()
    predictions: tuple[Item, ...] = ()
    open: tuple[OpenQuestion, ...] = ()

    @cached_property
    def _by_id(self) -> dict[str, Item | OpenQuestion]:
        return {each.id: each for each in (*self.items, *self.predictions, *self.open)}

    def find(self, wanted: str) -> Item | OpenQuestion:
        """The question with this id. Raises `BankError` with the nearest ids."""
        try:
            return self._by_id[wanted]
        except KeyError:
            raise BankError(_unknown("question", wanted, self._by_id)) from None

    def choose(
        self,
        *,
        lesson: str | None = None,
        topic: str | None = None,
        kind: str | None = None,
        level: int | None = None,
    ) -> tuple[Item, ...]:
        """The items that fit all that is asked for.

        Args:
            lesson: as `catalogue.find_lesson` takes it, such as ``"06"`` or ``"grad_scaler"``.
            topic: a topic's slug.
            kind: one of `KINDS`.
            level: 1, 2 or 3.

        Raises:
            BankError: for an unknown topic, kind or level, or if nothing fits.
            UnknownLesson: for an unknown lesson.
        """
        topics = set(topics_there()) if lesson is None else set(_topics_of(lesson))
        if topic is not None:
            _check("topic", topic, topics_there())
            topics &= {topic}
        if kind is not None:
            _check("kind", kind, KINDS)
        if level is not None and level not in LEVELS:
            raise BankError(f"no level is called {level}; there are 1, 2 and 3")
        found = tuple(
            item
            for item in self.items
            if item.topic in topics
            and (kind is None or item.kind == kind)
            and (level is None or item.level == level)
        )
        if not found:
            raise BankError("the bank has no question that is all of this: leave one condition out")
        return found

    def stats(self) -> dict[str, Any]:
        """Counts: items, proofs, open questions, predictions, and items by kind, lesson, level."""
        lessons = Counter(catalogue.lesson_of_topic(item.topic).slug for item in self.items)
        return {
            "items": len(self.items),
            "proofs": sum(item.proved for item in self.items),
            "open": len(self.open),
            "predictions": len(self.predictions),
            "by_kind": _counted((item.kind for item in self.items), KINDS),
            "by_lesson": {
                each.slug: lessons[each.slug] for each in catalogue.LESSONS if each.topics
            },
            "by_level": _counted((str(item.level) for item in self.items), map(str, LEVELS)),
        }


def _counted(values: Iterable[str], order: Iterable[str]) -> dict[str, int]:
    counts = Counter(values)
    return {name: counts[name] for name in order}


def topics_there() -> tuple[str, ...]:
    """All topics, in the order of the course."""
    return tuple(topic for lesson in catalogue.LESSONS for topic in lesson.topics)


def _topics_of(name: str) -> tuple[str, ...]:
    lesson = catalogue.find_lesson(name)
    if not lesson.asks:
        raise BankError(
            f"lesson {lesson.number:02}, {lesson.title}, asks about all the others: leave the "
            f"lesson out"
        )
    return lesson.asks


def _check(what: str, name: str, there: Sequence[str]) -> None:
    if name not in there:
        raise BankError(_unknown(what, name, there))


def _unknown(what: str, name: str, there: Iterable[str]) -> str:
    names = list(there)
    close = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    if close:
        return f"no {what} is called {name!r}; did you mean {', '.join(close)}?"
    few = f"there are {', '.join(names)}" if len(names) <= 15 else f"there are {len(names)}"
    return f"no {what} is called {name!r}; {few}"


@lru_cache(maxsize=1)
def load() -> Bank:
    """The course's own bank. Raises `BankError`."""
    return read(FOLDER)


def read(folder: Path) -> Bank:
    """A bank from a folder of TOML files, one a topic.

    Raises:
        BankError: with file, item and fault.
    """
    files = {path.stem: path for path in sorted(folder.glob("*.toml"))}
    for topic, path in files.items():
        if topic not in topics_there():
            raise BankError(f"{path.name}: {_unknown('topic', topic, topics_there())}")
    draft = _Draft()
    for topic in topics_there():
        if topic in files:
            _read_topic(files[topic], draft)
    _check_enemies(draft)
    return Bank(tuple(draft.items), tuple(draft.predictions), tuple(draft.open))


@dataclass
class _Draft:
    items: list[Any] = field(default_factory=list)
    predictions: list[Any] = field(default_factory=list)
    open: list[Any] = field(default_factory=list)
    file_of: dict[str, str] = field(default_factory=dict)

    @property
    def everything(self) -> list[Any]:
        return [*self.items, *self.predictions, *self.open]


def _read_topic(path: Path, draft: _Draft) -> None:
    try:
        data = tomli.loads(path.read_text(encoding="utf-8"))
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BankError(f"{path.name}: not valid TOML: {error}") from error
    stray = sorted(set(data) - {"item", "open"})
    if stray:
        raise BankError(f"{path.name}: unknown table {stray[0]!r}; there are [[item]] and [[open]]")
    for entry in data.get("item", []):
        item = _validated(path, entry, _model(path, entry))
        _add(path, draft, draft.predictions if item.kind == "prediction" else draft.items, item)
    for entry in data.get("open", []):
        _add(path, draft, draft.open, _validated(path, entry, _OPEN))


def _model(path: Path, entry: dict[str, Any]) -> Any:
    kind = entry.get("kind")
    if kind == "prediction":
        return _NUMBER if "answer" in entry else _CHOSEN
    if kind not in _MODELS:
        fault = _unknown("kind", str(kind), (*KINDS, "prediction"))
        raise BankError(f"{path.name}, item {entry.get('id')!r}: {fault}")
    return _MODELS[kind]


def _validated(path: Path, entry: dict[str, Any], model: Any) -> Any:
    try:
        return model.validate_python(entry | {"id": f"{path.stem}.{entry.get('id', '')}"})
    except ValidationError as error:
        raise BankError(f"{path.name}, item {entry.get('id')!r}: {_first_fault(error)}") from None


def _first_fault(error: ValidationError) -> str:
    """Pydantic's first complaint, in one line."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "missing":
        message = "is missing"
    elif first["type"] == "string_too_short":
        message = "is empty"
    elif first["type"] == "extra_forbidden":
        message = "is no field that we know"
    more = error.error_count() - 1
    return f"{place}: {message}".removeprefix(": ") + (f" (and {more} more)" if more else "")


def _add(path: Path, draft: _Draft, where: list[Any], item: Any) -> None:
    if item.id in draft.file_of:
        raise BankError(f"{path.name}, item {item.id!r}: another item has this id")
    draft.file_of[item.id] = path.name
    where.append(item)


def _check_enemies(draft: _Draft) -> None:
    for item in draft.everything:
        for enemy in item.enemies:
            if enemy not in draft.file_of:
                fault = _unknown("question", enemy, draft.file_of)
                raise BankError(f"{draft.file_of[item.id]}, item {item.id!r}: enemies: {fault}")
