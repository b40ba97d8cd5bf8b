"""`amp-lessons slides`: its options, and what it says when the file can't be written.

`cli` registers it. Markdown, Pygments and the bank are loaded when it runs: help stays quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from amp_lessons.core.terminal import say, warn


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(slides)


def slides(
    lesson: Annotated[
        str, typer.Argument(metavar="LESSON", help="A lesson, such as 06 or grad_scaler.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The HTML file to write. Default: such as 06_grad_scaler_slides.html, here.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that exists.")] = False,
) -> None:
    """Turn a lesson into slides: one HTML file that needs no network.

    Predictions become polls, and what didn't fit is in the speaker notes
    (press s). Widgets stay in the lesson: a slide says where to open it.
    """
    from amp_lessons.core import catalogue

    chosen = catalogue.find_lesson(lesson)
    path = _checked(output or Path(f"{chosen.id}_slides.html"), force)
    from amp_lessons.classroom.slides import deck
    from amp_lessons.core.files import write_atomically

    made = deck.make(chosen)
    page = deck.page(made)
    try:
        write_atomically(path, page)
    except OSError as error:
        warn(f"{path} cannot be written: {error.strerror or error}")
        raise typer.Exit(1) from error
    counted = f"{made.slides} slides, {made.polls} polls" if made.polls else f"{made.slides} slides"
    say(f"{path}: {counted}, {len(page) / 1e3:.0f} kB. Open it in a browser; s shows the notes.")


def _checked(path: Path, force: bool) -> Path:
    """The file to write: does its name fit, is there a folder, and nothing to lose?"""
    path = path.expanduser()
    if path.is_dir():
        raise typer.BadParameter(f"{path} is a folder: name a file in it")
    if path.suffix.lower() not in (".html", ".htm"):
        raise typer.BadParameter(f"slides need a file that ends in .html, not {path.name!r}")
    if not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"{path} cannot be written: there is no such folder")
    if path.exists() and not force:
        raise typer.BadParameter(f"{path} exists: name another file, or add --force")
    return path
