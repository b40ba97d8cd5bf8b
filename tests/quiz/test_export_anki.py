"""The Anki package: what is in it, the same bytes each time, and what Anki makes of it."""

from __future__ import annotations

import hashlib
import html.parser
import io
import json
import os
import re
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from small_bank import small_bank

from amp_lessons.quiz import bank
from amp_lessons.quiz.bank import Bank
from amp_lessons.quiz.exports import anki

THROUGH_ANKI = Path(__file__).with_name("through_anki.py")


@pytest.fixture
def small(tmp_path: Path) -> Bank:
    return small_bank(tmp_path)


def tables(package: bytes, folder: Path) -> dict[str, Any]:
    """What stands in a package: its notes by id of the question, its cards and its decks."""
    with zipfile.ZipFile(io.BytesIO(package)) as archive:
        (folder / "read.anki2").write_bytes(archive.read("collection.anki2"))
    connection = sqlite3.connect(folder / "read.anki2")
    try:
        notes = {}
        for note, guid, mod, tags, fields in connection.execute(
            "select id, guid, mod, tags, flds from notes"
        ):
            parts = dict(zip(anki.FIELDS, fields.split("\x1f"), strict=True))
            notes[parts["Id"]] = parts | {"note": note, "guid": guid, "mod": mod, "tags": tags}
        (decks,) = connection.execute("select decks from col").fetchone()
        cards = connection.execute("select nid, did, due from cards order by due").fetchall()
    finally:
        connection.close()
    return {"notes": notes, "cards": cards, "decks": json.loads(decks)}


class _Balanced(html.parser.HTMLParser):
    """Raises if a tag is closed that is not open."""

    void = ("br", "hr", "img", "path", "polyline", "input")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def assert_balanced(markup: str) -> None:
    reader = _Balanced()
    reader.feed(markup)
    assert reader.open == []


def test_each_question_has_one_card_in_the_deck_of_its_topic(small: Bank, tmp_path: Path) -> None:
    found = tables(anki.build(small), tmp_path)
    asked = [question.id for question in (*small.items, *small.open)]
    assert sorted(found["notes"]) == sorted(asked)
    assert len(asked) == 9
    names = {int(number): deck["name"] for number, deck in found["decks"].items()}
    of_note = {note["note"]: name for name, note in found["notes"].items()}
    by_due = [(of_note[note], names[deck]) for note, deck, _ in found["cards"]]
    assert by_due == [
        ("number_formats.largest", "AMP Lessons::Number formats"),
        ("number_formats.what_underflows", "AMP Lessons::Number formats"),
        ("number_formats.bytes", "AMP Lessons::Number formats"),
        ("number_formats.prints_two_lines", "AMP Lessons::Number formats"),
        ("grad_scaler.two_faults", "AMP Lessons::GradScaler"),
        ("grad_scaler.clip_in_order", "AMP Lessons::GradScaler"),
        ("grad_scaler.any_of_two_orders", "AMP Lessons::GradScaler"),
        ("grad_scaler.read_the_scale", "AMP Lessons::GradScaler"),
        ("grad_scaler.why_scale", "AMP Lessons::GradScaler"),
    ]


def test_what_stands_on_a_card(small: Bank, tmp_path: Path) -> None:
    notes = tables(anki.build(small), tmp_path)["notes"]
    largest = notes["number_formats.largest"]
    assert "It's &lt; <code>1e5</code>, &amp;" in largest["Question"]
    assert re.findall(r"<li>(\d+)</li>", largest["Question"]) == ["32768", "65504", "65536"]
    assert "65504" not in largest["Hint"]
    assert "(2), right." in largest["Answer"]
    assert largest["Answer"].count("not right.") == 2
    assert "IEEE 754-2019, table 3.5" in largest["Answer"]
    assert largest["tags"].split() == [
        "amp::topic::number_formats",
        "amp::kind::single",
        "amp::level::1",
    ]
    prints = notes["number_formats.prints_two_lines"]
    assert "<pre>a 1\nb &amp; 2</pre>" in prints["Question"]
    assert 'class="k"' in prints["Question"]
    trace = notes["grad_scaler.read_the_scale"]
    assert "<svg" in trace["Question"]
    assert "step 3 scale 32768 &lt;-" in trace["Question"]
    assert "112 GB" in notes["number_formats.bytes"]["Answer"]
    assert "Often heard" in notes["grad_scaler.why_scale"]["Answer"]
    for note in notes.values():
        for field in anki.FIELDS:
            assert_balanced(note[field])


def test_the_whole_bank_makes_cards_with_whole_markup_and_proofs(tmp_path: Path) -> None:
    everything = bank.load()
    notes = tables(anki.build(everything), tmp_path)["notes"]
    assert len(notes) == len(everything.items) + len(everything.open)
    assert len({note["guid"] for note in notes.values()}) == len(notes)
    proved = [item for item in everything.items if item.proof]
    assert proved
    for item in proved:
        assert "<summary>The proof</summary>" in notes[item.id]["Answer"]
    for note in notes.values():
        for field in anki.FIELDS:
            assert_balanced(note[field])


def test_a_guid_hangs_on_the_id_alone(small: Bank, tmp_path: Path) -> None:
    changed = Bank(tuple(i.model_copy(update={"prompt": "New?"}) for i in small.items[::-1]))
    before = tables(anki.build(small, "0.1.0"), tmp_path)["notes"]
    after = tables(anki.build(changed, "0.2.0"), tmp_path)["notes"]
    for name, note in after.items():
        assert note["guid"] == before[name]["guid"]
        assert note["Question"] != before[name]["Question"]
        assert note["mod"] > before[name]["mod"]  # else Anki would keep the old text


def test_a_later_version_is_newer() -> None:
    versions = ["0.1.0", "0.1.1", "0.1.10", "0.2.0.dev3", "0.10.0", "1.0", "1.0.1rc1", "2"]
    times = [anki.revised(version) for version in versions]
    assert times == sorted(set(times))


def test_two_processes_on_two_days_write_the_same_bytes(small: Bank, tmp_path: Path) -> None:
    code = (
        "import sys, time; now = time.time; time.time = lambda: now() + float(sys.argv[1])\n"
        "from pathlib import Path\n"
        "from amp_lessons.quiz import bank\n"
        "from amp_lessons.quiz.exports import anki\n"
        "import hashlib; package = anki.build(bank.read(Path(sys.argv[2])))\n"
        "print(hashlib.sha256(package).hexdigest())"
    )
    hashes = {hashlib.sha256(anki.build(small)).hexdigest()}
    for seed, later in (("1", "0"), ("2", "86400000")):
        run = subprocess.run(
            [sys.executable, "-c", code, later, str(tmp_path)],
            env=os.environ | {"PYTHONHASHSEED": seed, "TZ": f"UTC+{seed}"},
            capture_output=True,
            text=True,
            check=True,
        )
        hashes.add(run.stdout.strip())
    assert len(hashes) == 1


def _with_anki() -> str:
    """An interpreter that can import `anki`, which this course neither needs nor installs."""
    python = os.environ.get("AMP_LESSONS_ANKI_PYTHON", sys.executable)
    try:
        found = subprocess.run([python, "-c", "import anki.collection"], capture_output=True)
    except OSError as error:
        pytest.fail(f"AMP_LESSONS_ANKI_PYTHON={python}: {error}")
    if found.returncode == 0:
        return python
    if "AMP_LESSONS_ANKI_PYTHON" in os.environ:
        pytest.fail(f"{python} cannot import anki: {found.stderr.decode()[-300:]}")
    pytest.skip(
        "no anki package: make a virtual environment with `pip install anki`, and set "
        "AMP_LESSONS_ANKI_PYTHON to its python"
    )


@pytest.mark.long
def test_ankis_own_importer_updates_the_text_and_keeps_the_schedule(tmp_path: Path) -> None:
    python, everything = _with_anki(), bank.load()
    first, *rest = everything.items
    changed = Bank((first.model_copy(update={"prompt": "Changed?"}), *rest), (), everything.open)
    (tmp_path / "first.apkg").write_bytes(anki.build(everything, "0.1.0"))
    (tmp_path / "newer.apkg").write_bytes(anki.build(changed, "0.1.1"))
    files = [str(tmp_path / name) for name in ("c.anki2", "first.apkg", "newer.apkg")]
    run = subprocess.run([python, THROUGH_ANKI, *files], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    output = json.loads(run.stdout)
    count = len(everything.items) + len(everything.open)
    assert output["first"] == {"new": count, "updated": 0, "duplicate": 0, "conflicting": 0}
    assert output["newer"] == {"new": 0, "updated": count, "duplicate": 0, "conflicting": 0}
    assert len(output["changed"]) == 1
    assert output["answered"]
    assert output["reviews"] == len(output["answered"])
    assert all(output["before"][guid][1] == 2 for guid in output["answered"]), "not in review"
    assert output["after"] == output["before"]
    assert output["note types"] == ["AMP Lessons question"]
    assert "<hr id" in output["answer"]
    shown = {key: output[key] for key in ("first", "newer", "answered", "decks")}
    print(json.dumps(shown, indent=1))
