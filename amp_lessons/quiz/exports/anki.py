"""The bank as an Anki package: a deck for each topic, a card for each question.

Anki recognises a note by its GUID, which comes from the question's id alone, so a new release
changes the text of a card and leaves its schedule as it is. Anki takes the new text only if the
note is newer than the one it has. That is why notes carry a time that grows with the version of
the package, and not the time of the build.
"""

from __future__ import annotations

import hashlib
import html
import io
import zipfile
from datetime import UTC, datetime
from typing import Any

from amp_lessons import __version__
from amp_lessons.quiz import markup
from amp_lessons.quiz.bank import Bank
from amp_lessons.quiz.exports import contents
from amp_lessons.quiz.items import Item, OpenQuestion

DECK = "AMP Lessons"
FIELDS = ("Id", "About", "Question", "Hint", "Answer")
"""Of a note. They stay as they are: with others, Anki would make a second type of note."""

FRONT = """<div class="amp">
<p class="about">{{About}}</p>
{{Question}}
{{#Hint}}<div class="hint-box">{{hint:Hint}}</div>{{/Hint}}
</div>"""
BACK = """{{FrontSide}}
<hr id="answer">
<div class="amp">
{{Answer}}
</div>"""

_FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)
_ZIP_DATE = (1980, 1, 1, 0, 0, 0)


def build(bank: Bank, version: str = __version__) -> bytes:
    """The package as the bytes of an ``.apkg`` file.

    Args:
        bank: what to put in it.
        version: of the course, such as ``"0.1.0"``. Anki updates the cards that a learner has if
            this is higher than that of the package they came from.
    """
    import genanki

    model = _model(genanki)
    decks = [genanki.Deck(_number("deck"), DECK, _description())]
    place = 0
    for topic, questions in contents.by_topic(bank):
        name = f"{DECK}::{contents.topic_title(topic)}"
        deck = genanki.Deck(_number(f"deck {topic}"), name)
        for question in questions:
            place += 1  # new cards come in the order of the course
            deck.add_note(
                genanki.Note(
                    model=model,
                    fields=_fields(question),
                    tags=_tags(question),
                    guid=genanki.guid_for("amp-lessons", question.id),
                    due=place,
                )
            )
        decks.append(deck)
    package = io.BytesIO()
    genanki.Package(decks).write_to_file(package, timestamp=revised(version))
    return _with_fixed_dates(package.getvalue())


def revised(version: str) -> float:
    """A time for the notes of a version, in seconds since 1970: a higher version is later.

    It lies in the past, so a note that a learner edited is newer, and Anki keeps it.
    """
    parts = [int("".join(filter(str.isdigit, part)) or 0) for part in version.split(".")[:3]]
    major, minor, patch = [*parts, 0, 0, 0][:3]
    return _FIRST_DAY.timestamp() + 60 * (10_000 * major + 100 * minor + patch)


def _number(name: str) -> int:
    """An id for Anki, the same in each build."""
    digest = hashlib.sha256(f"amp-lessons {name}".encode()).digest()
    return (1 << 30) + int.from_bytes(digest[:4], "big") % (1 << 30)


def _model(genanki: Any) -> Any:
    return genanki.Model(
        _number("note type"),
        "AMP Lessons question",
        fields=[{"name": name} for name in FIELDS],
        templates=[{"name": "Question", "qfmt": FRONT, "afmt": BACK}],
        css=(contents.STATIC / "anki.css").read_text(encoding="utf-8"),
    )


def _description() -> str:
    return (
        "Interview questions on PyTorch Automatic Mixed Precision, from AMP Lessons. "
        "Import a newer package over this one: your schedule stays as it is."
    )


def _fields(question: Item | OpenQuestion) -> list[str]:
    about = f"{contents.topic_title(question.topic)} · {markup.KIND_NAMES[question.kind]}"
    front = [question.id, html.escape(about)]
    if isinstance(question, OpenQuestion):
        return [*front, markup.to_html(question.prompt), "", markup.open_html(question)]
    answer = markup.answer_html(question) + _proof(question)
    return [*front, markup.question_html(question), markup.to_html(question.hint), answer]


def _proof(item: Item) -> str:
    program = contents.proof_program(item)
    if not program:
        return ""
    shown = markup.code_html(program)
    return f"<details><summary>The proof</summary><pre><code>{shown}</code></pre></details>"


def _tags(question: Item | OpenQuestion) -> list[str]:
    parts = {"topic": question.topic, "kind": question.kind, "level": question.level}
    return [f"amp::{name}::{value}" for name, value in parts.items()]


def _with_fixed_dates(package: bytes) -> bytes:
    """The same zip without the time at which, and the system on which, it was written."""
    fixed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package)) as old, zipfile.ZipFile(fixed, "w") as new:
        for name in sorted(old.namelist()):
            entry = zipfile.ZipInfo(name, _ZIP_DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = 0o644 << 16
            new.writestr(entry, old.read(name))
    return fixed.getvalue()
