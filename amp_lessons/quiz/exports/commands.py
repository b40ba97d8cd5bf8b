"""`amp-lessons export`: write the bank as an Anki deck, a page or a Moodle file."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from amp_lessons.core.terminal import say, warn


@dataclass(frozen=True)
class ExportFormat:
    """One of the forms of the bank: the name of its file, and the module that makes it."""

    file: str
    module: str


FORMATS = {
    "anki": ExportFormat("amp-lessons.apkg", "anki"),
    "page": ExportFormat("amp-lessons.html", "page"),
    "moodle": ExportFormat("amp-lessons-moodle.xml", "moodle"),
}


def export(
    format: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="anki (a deck), page (one HTML file that works offline) or moodle (XML).",
        ),
    ],
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="Default: amp-lessons.apkg, .html or -moodle.xml in this folder."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that exists.")] = False,
) -> None:
    """Take the interview questions with you: to Anki, to a phone, to a Moodle course.

    Import a newer Anki deck over the old one: what you learned is kept. The
    page needs no network, and prints as a sheet of questions or of answers.
    """
    from amp_lessons.core.files import write_atomically
    from amp_lessons.quiz import bank

    if format not in FORMATS:
        raise typer.BadParameter(_unknown(format))
    path = _checked(file or Path(FORMATS[format].file), format, force)
    try:
        questions = bank.load()
        content = _builder(format)(questions)
        write_atomically(path, content)
    except bank.BankError as error:
        _fail(str(error))
    except OSError as error:
        _fail(f"{path} cannot be written: {error.strerror or error}")
    counted = f"{len(questions.items)} questions and {len(questions.open)} open ones"
    say(f"{path}: {counted}, {_size(len(content))}")


def _builder(format: str) -> Callable[..., bytes]:
    from importlib import import_module
    from importlib.util import find_spec

    if format == "anki" and find_spec("genanki") is None:
        _fail("an Anki deck needs genanki: pip install genanki")
    build: Callable[..., bytes] = import_module(f"{__package__}.{FORMATS[format].module}").build
    return build


def _unknown(format: str) -> str:
    close = difflib.get_close_matches(format.lower(), FORMATS, n=1, cutoff=0.5)
    if close:
        return f"no format is called {format!r}; did you mean {close[0]}?"
    return f"no format is called {format!r}; there are {', '.join(FORMATS)}"


def _checked(path: Path, format: str, force: bool) -> Path:
    """The file to write: does its name fit, is there a folder, and nothing to lose?"""
    path = path.expanduser()
    usual = Path(FORMATS[format].file).suffix
    if path.suffix != usual and not path.is_dir():
        raise typer.BadParameter(f"{format} needs a file that ends in {usual}, not {path.name!r}")
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder: name a file in it")
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"{path} cannot be written: there is no such folder")
    if path.exists() and not force:
        raise typer.BadParameter(f"{path} exists: name another file, or add --force")
    return path


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def _fail(message: str) -> NoReturn:
    warn(message)
    raise typer.Exit(1)
