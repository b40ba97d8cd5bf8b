"""`amp-lessons lookup`: its options, what it reads, and what it prints.

`cli` registers it. Each part is loaded when it is needed: help stays quick, and no torch.
"""

from __future__ import annotations

import codecs
import json as json_text
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from amp_lessons.core.terminal import console, say, warn

if TYPE_CHECKING:
    from amp_lessons.amp.errors.search import Match

PASTE = "Paste the error, then press Ctrl+D on an empty line."
PASTE_ON_WINDOWS = "Paste the error, then press Ctrl+Z on an empty line, then Enter."
_PIECE = 1 << 16
_ENCODINGS = dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "utf-16")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(lookup)


def lookup(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT...",
            help="An error message, a traceback or a symptom in your own words. Without it, what "
            "you paste or pipe in is read.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many.")] = 3,
    list_: Annotated[
        bool,
        typer.Option(
            "--list",
            help="List all entries, or those of a section: scaler, dtypes, precision, numerics, "
            "compile or distributed.",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Look up an error of mixed precision: its cause, its cure, and the wrong cure.

    Quote what you paste, or pipe it: amp-lessons lookup < train.log. The
    exit status is 1 if no entry fits; then the nearest ones are listed.
    """
    if list_:
        _list(words or [], json)
        return
    from amp_lessons.amp.errors import search

    text, cut = (_one_text(words), "") if words else _read_input()
    found = search.lookup(text, limit)
    if json:
        from amp_lessons.amp.errors import messages

        _print_json(messages.as_json(found, cut))
    elif any(each.confident for each in found):
        _show([each for each in found if each.confident])
    else:
        _show_nearest(found)
    if cut and not json:
        warn(cut)
    if not any(each.confident for each in found):
        warn("nothing here matches this text")
        raise typer.Exit(1)


def _list(words: list[str], json: bool) -> None:
    from amp_lessons.amp.errors import catalogue, messages

    if len(words) > 1:
        raise typer.BadParameter("--list takes one section, or none")
    entries = catalogue.in_section(catalogue.load(), words[0] if words else None)
    if json:
        _print_json({"entries": [messages.entry_as_json(entry) for entry in entries]})
        return
    screen = console()
    for line in messages.as_list(entries, screen.width):
        screen.print(line, soft_wrap=True)


def _show(found: list[Match]) -> None:
    """The best entry in full, and what else may be meant."""
    from amp_lessons.amp.errors import messages

    screen = console()
    title, *lines = messages.as_text(found[0], screen.width)
    screen.print(title, style="bold", soft_wrap=True)
    for line in lines:
        screen.print(line, soft_wrap=True)
    if found[1:]:
        _print_list("\nIt may also be one of these. Look them up by name:\n", found[1:])


def _show_nearest(found: list[Match]) -> None:
    if found:
        _print_list("The nearest entries, to look up by name:\n", found)
    else:
        say("All entries: amp-lessons lookup --list")


def _print_list(heading: str, found: list[Match]) -> None:
    from amp_lessons.amp.errors import messages

    screen = console()
    for line in (heading, *messages.as_list([each.entry for each in found], screen.width)):
        screen.print(line, soft_wrap=True)


def _print_json(data: dict[str, Any]) -> None:
    print(json_text.dumps(data, indent=1))


# ---- what is looked up --------------------------------------------------------------------------


def _one_text(words: list[str]) -> str:
    """The words of the call as one text. A file's name alone is a call that went wrong."""
    text = " ".join(words)
    if len(text) < 250 and "\n" not in text and Path(text).is_file():
        raise typer.BadParameter(f"{text} is a file: amp-lessons lookup < {text}")
    return text


def _read_input() -> tuple[str, str]:
    """Standard input to its end, and a sentence if only its beginning and its end were kept."""
    from amp_lessons.amp.errors import pasted

    if sys.stdin.isatty():
        print(PASTE_ON_WINDOWS if sys.platform == "win32" else PASTE, file=sys.stderr, flush=True)
    stream = getattr(sys.stdin, "buffer", None)
    # A stand-in for standard input has no bytes.
    return pasted.ends_of([sys.stdin.read()] if stream is None else _decoded(stream))


def _decoded(stream: BinaryIO) -> Iterator[str]:
    """A stream's text, piece by piece; UTF-8 unless it says that it is UTF-16."""
    piece = stream.read(_PIECE)
    decoder = codecs.getincrementaldecoder(_ENCODINGS.get(piece[:2], "utf-8-sig"))("replace")
    while len(piece) == _PIECE:
        yield decoder.decode(piece)
        piece = stream.read(_PIECE)
    # Less than was asked for means the end. To read on, a terminal would want another Ctrl+D.
    yield decoder.decode(piece, final=True)
