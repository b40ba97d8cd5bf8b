"""`amp-lessons class`: its options, and what it prints. `cli` registers it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from amp_lessons.core.terminal import say, warn

if TYPE_CHECKING:
    from amp_lessons.classroom.class_view.viewer import Viewer


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("class")(class_)


def class_(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Where the learners' notebooks and progress files arrive: a folder for each "
            "learner, or files that begin with the learner's name.",
        ),
    ],
    lesson: Annotated[
        str | None,
        typer.Option(metavar="LESSON", help="Show one lesson, such as 06 or grad_scaler."),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65535, show_default=False, help="Listen on this port. Default: a free one."
        ),
    ] = 0,
    ip: Annotated[
        str, typer.Option(help="Listen on this address: 0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    once: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the page into a file, and end.")
    ] = None,
) -> None:
    """Show where a class is, and what it fails on now, while files arrive in DIR.

    It reads what the learners' files say and runs nothing. Such files can be
    edited, so what it shows are not marks: amp-lessons grade gives those.
    """
    from amp_lessons.classroom.class_view.viewer import Viewer
    from amp_lessons.core import catalogue

    only = catalogue.find_lesson(lesson) if lesson else None
    viewer = Viewer(folder.expanduser(), only)
    if once is not None:
        _write(viewer, once)
    else:
        _serve(viewer, ip, port)


def _write(viewer: Viewer, file: Path) -> None:
    from amp_lessons.classroom.class_view import page
    from amp_lessons.classroom.class_view.folder import ClassError
    from amp_lessons.core.files import write_atomically

    text = page.page(viewer.look(), viewer.folder, live=False)
    try:
        write_atomically(file.expanduser(), text.encode())
    except OSError as error:
        raise ClassError(f"{file} cannot be written: {error.strerror or error}") from error
    say(f"The class is in {file}")


def _serve(viewer: Viewer, ip: str, port: int) -> None:
    from amp_lessons.classroom.class_view import serving

    viewer.look()  # a folder that can't be read is told here, and not in the browser
    with serving.PageServer(viewer, ip, port) as server:
        if ip not in ("127.0.0.1", "::1", "localhost"):
            warn(
                "other machines can reach this page: who has its address sees the learners' names, "
                "and on its way nothing is encrypted"
            )
        say(f"The class is open at {server.address}")
        say("Stop it with Ctrl+C.")
        server.serve_forever()
