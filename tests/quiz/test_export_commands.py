"""`amp-lessons export`: what it writes, and what it refuses in one line."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from amp_lessons.app import cli
from amp_lessons.quiz import bank
from amp_lessons.quiz.exports import commands


@pytest.fixture
def run(tmp_path: Path, monkeypatch: Any, capfd: Any) -> Any:
    """Run the command in an empty folder: its exit status, what it prints and what it warns."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def run_(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            cli.main(["export", *words])
        shown = capfd.readouterr()
        return int(left.value.code or 0), shown.out, shown.err

    return run_


def told(path: str) -> str:
    found = bank.load()
    return f"{path}: {len(found.items)} questions and {len(found.open)} open ones, "


@pytest.mark.parametrize("format", commands.FORMATS)
@pytest.mark.slow
def test_each_format_is_written_under_its_own_name_and_can_be_read(run: Any, format: str) -> None:
    name = commands.FORMATS[format].file
    status, out, err = run(format)
    assert (status, err) == (0, "")
    assert out.startswith(told(name))
    assert out.rstrip().endswith(("kB", "MB"))
    assert out.count("\n") == 1
    assert [path.name for path in Path().iterdir()] == [name]
    if format == "anki":
        with zipfile.ZipFile(name) as package:
            assert package.testzip() is None
    elif format == "moodle":
        assert ElementTree.parse(name).getroot().tag == "quiz"
    else:
        assert Path(name).read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_file_that_exists_is_kept_unless_forced(run: Any) -> None:
    Path("amp-lessons.html").write_text("mine", encoding="utf-8")
    status, out, err = run("page")
    assert status == 2
    assert out == ""
    assert "amp-lessons.html exists: name another file, or add --force" in err
    assert Path("amp-lessons.html").read_text(encoding="utf-8") == "mine"
    assert run("page", "--force")[0] == 0
    assert Path("amp-lessons.html").read_bytes().startswith(b"<!doctype html>")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["ankii"], "no format is called 'ankii'; did you mean anki?"),
        (["Moodle"], "no format is called 'Moodle'; did you mean moodle?"),
        (["xyz"], "no format is called 'xyz'; there are anki, page, moodle"),
        (["page", "."], ". is a folder: name a file in it"),
        (["page", "none/x.html"], "none/x.html cannot be written: there is no such folder"),
        ([], "Missing argument"),
    ],
)
def test_what_is_wrong_gets_one_line(run: Any, words: list[str], complaint: str) -> None:
    status, out, err = run(*words)
    assert status == 2
    assert out == ""
    assert complaint in err
    assert err.count("\n") == 1
    assert list(Path().iterdir()) == []


def test_a_broken_bank_and_a_missing_genanki_get_one_line(run: Any, monkeypatch: Any) -> None:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "genanki", None)
        assert run("anki") == (
            1,
            "",
            "amp-lessons: an Anki deck needs genanki: pip install genanki\n",
        )

    def broken() -> None:
        raise bank.BankError("memory.toml, item 'x': why: is missing")

    monkeypatch.setattr(bank, "load", broken)
    assert run("moodle") == (1, "", "amp-lessons: memory.toml, item 'x': why: is missing\n")
    assert list(Path().iterdir()) == []


def test_the_command_line_starts_without_the_bank() -> None:
    code = "import sys, amp_lessons.quiz.exports.commands; print('pydantic' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "False"


def test_help_and_a_page_bring_neither_torch_nor_genanki(tmp_path: Path) -> None:
    code = (
        "import sys; from amp_lessons.quiz.exports import commands, page; "
        "from amp_lessons.quiz import bank; page.build(bank.load()); "
        "print([name for name in ('torch', 'numpy', 'genanki') if name in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert shown.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("format", "name"), [("page", "-"), ("anki", "deck.html"), ("moodle", "quiz")]
)
def test_a_name_that_does_not_fit_the_format_is_refused(run: Any, format: str, name: str) -> None:
    status, out, err = run(format, name)
    assert status != 0
    assert out == ""
    assert "needs a file that ends in" in err
    assert err.count("\n") == 1
    assert list(Path().iterdir()) == []
