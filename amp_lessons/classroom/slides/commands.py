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
        str | None, typer.Argument(metavar="LESSON", help="A lesson, such as 06 or grad_scaler.")
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(
            metavar="PLAN",
            help="Instead of a lesson: what the workshop of 2h, 4h or 8h shows, asks and sets.",
        ),
    ] = None,
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
    """Turn a lesson or a workshop plan into slides: one HTML file that needs no network.

    Predictions become polls, and what didn't fit is in the speaker notes. Keys: s
    opens the notes, t changes light and dark, ? lists all. Widgets stay in the
    lesson: a slide says where to open it. For a PDF, add ?print-pdf to the file's
    address, and print without margins.
    """
    if (lesson is None) == (plan is None):
        raise typer.BadParameter("name a lesson, such as 06, or a plan: --plan 4h")
    from amp_lessons.classroom.slides import deck, of_plan
    from amp_lessons.classroom.workshop import reading
    from amp_lessons.core import catalogue
    from amp_lessons.core.files import write_atomically

    if lesson is not None:
        chosen = catalogue.find_lesson(lesson)
        path = _checked(output or Path(f"{chosen.id}_slides.html"), force)
        made = deck.make(chosen)
    else:
        workshop = reading.load(plan or "")
        path = _checked(output or Path(f"workshop_{workshop.name}_slides.html"), force)
        made = of_plan.make(workshop)
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
