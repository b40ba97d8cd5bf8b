"""`amp-lessons workshop`: a plan's timetable, its whole page, or JSON.

`cli` registers it. What it prints is loaded when it runs, so help is quick; nothing imports torch.
"""

from __future__ import annotations

import json as json_text
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from amp_lessons.core.terminal import console, say

if TYPE_CHECKING:
    from amp_lessons.classroom.workshop.model import BlockStep, WorkshopPlan


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(workshop)


def workshop(
    plan: Annotated[
        str | None, typer.Argument(metavar="PLAN", help="2h, 4h or 8h. Without it: a list.")
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(metavar="HH:MM", help="When it begins. Default: count from 0:00."),
    ] = None,
    page: Annotated[
        bool,
        typer.Option(
            "--page", help="Print all that you need to teach it, as Markdown. It has the answers."
        ),
    ] = False,
    open_: Annotated[
        bool, typer.Option("--open", help="Make that page as one HTML file, and open it.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Print the timetable of a workshop of 2, 4 or 8 hours.

    For the page to teach from, with votes, exercises and what helps:
    amp-lessons workshop 4h --start 9:00 --open
    """
    from amp_lessons.classroom.workshop import reading

    if page + open_ + json > 1:
        raise typer.BadParameter("--page, --open and --json exclude each other")
    if plan is None:
        if page or open_ or start is not None:
            raise typer.BadParameter(f"name a plan: {', '.join(reading.NAMES)}")
        plans = [reading.load(name) for name in reading.NAMES]
        _print_list(plans, json)
        return
    chosen, begins = reading.load(plan), None if start is None else minutes_of(start)
    if json:
        print(json_text.dumps(as_json(chosen, begins), indent=1, ensure_ascii=False))
    elif page:
        from amp_lessons.classroom.workshop import page as pages

        print(pages.markdown(chosen, begins), end="")
    elif open_:
        _open_page(chosen, begins)
    else:
        _print_timetable(chosen, begins)


def _open_page(plan: WorkshopPlan, start: int | None) -> None:
    import webbrowser

    from amp_lessons.classroom.workshop.page import as_html
    from amp_lessons.core.files import data_folder, write_atomically

    file = data_folder() / f"workshop_{plan.name}.html"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, as_html(plan, start).encode())
    say(f"The page to teach from, with the answers: {file}")
    if not webbrowser.open(file.as_uri()):
        say("No browser opens here: open that file in one.")


def minutes_of(start: str) -> int:
    """The minutes after midnight of a time such as ``"9:00"``, ``"09:00"`` or ``"14"``."""
    match = re.fullmatch(r"(\d{1,2})(?::(\d{2}))?", start.strip(), re.ASCII)
    hour, minute = (int(match[1]), int(match[2] or 0)) if match else (24, 0)
    if hour > 23 or minute > 59:
        raise typer.BadParameter(f"--start takes a time from 0:00 to 23:59, and not {start!r}")
    return 60 * hour + minute


# ---- as tables -----------------------------------------------------------------------------------


def _print_list(plans: list[WorkshopPlan], json: bool) -> None:
    if json:
        data = {"plans": [{k: v for k, v in as_json(p).items() if k != "blocks"} for p in plans]}
        print(json_text.dumps(data, indent=1, ensure_ascii=False))
        return
    from rich.padding import Padding

    screen = console()
    for plan in plans:
        lessons = ", ".join(f"{lesson.number:02}" for lesson in plan.lessons)
        counts = f"{len(plan.polls)} votes, {len(plan.exercises)} exercises"
        screen.print(f"{plan.name}  {plan.title}", style="bold")
        about = f"After it, everybody can {plan.goal}.\nLessons {lessons}; {counts}."
        screen.print(Padding(about, (0, 0, 1, 4)))
    say("Nobody has taught these plans in a room yet. A timetable: amp-lessons workshop 4h")


def _print_timetable(plan: WorkshopPlan, start: int | None) -> None:
    from rich.table import Table

    from amp_lessons.classroom.workshop.model import clock
    from amp_lessons.classroom.workshop.page import KIND_NAMES
    from amp_lessons.core import catalogue

    table = Table(title=plan.title, title_justify="left")
    for name in ("from", "min"):
        table.add_column(name, justify="right", no_wrap=True)
    for name in ("part", "what it is", "lesson", "ask and set"):
        table.add_column(name, overflow="fold")
    for slot in plan.slots(start or 0):
        block = slot.block
        open_ = f"{catalogue.lesson_called(block.lesson).number:02}" if block.lesson else ""
        votes = _counted(len(block.polls), "vote") if block.polls else ""
        tasks = ", ".join(filter(None, (votes, *block.exercises)))
        row = (clock(slot.start), str(block.length), block.title, KIND_NAMES[block.kind])
        table.add_row(*row, open_, tasks)
    table.add_row(clock(slot.end), "", "The end", "", "", "")
    console().print(table)
    say("Nobody has taught this plan in a room yet. All you need to teach it, with the answers:")
    shown = "" if start is None else f" --start {clock(start)}"
    say(f"amp-lessons workshop {plan.name}{shown} --page > teaching/plan.md")


# ---- as data -------------------------------------------------------------------------------------


def as_json(plan: WorkshopPlan, start: int | None = None) -> dict[str, Any]:
    """A plan as plain data. Times are ``"9:05"``; without a start they count from ``"0:00"``."""
    from amp_lessons.classroom.workshop.model import clock
    from amp_lessons.classroom.workshop.sentences import sentence

    blocks = []
    for slot in plan.slots(start or 0):
        block = slot.block
        stuck = [
            {
                **each.model_dump(exclude_defaults=True),
                **({"sentence": sentence(each)} if each.exercise else {}),
            }
            for each in block.stuck
        ]
        blocks.append(
            {
                "id": block.id,
                "kind": block.kind,
                "title": block.title,
                "start": clock(slot.start),
                "end": clock(slot.end),
                "minutes": block.length,
                "saves": block.saves,
                "goal": block.goal,
                "lesson": block.lesson or None,
                "told": block.told,
                "steps": [_step_as_json(step) for step in block.steps],
                "stuck": stuck,
            }
        )
    return {
        "plan": plan.name,
        "title": plan.title,
        "hours": plan.hours,
        "minutes": plan.minutes(),
        "start": clock(start or 0),
        "taught": False,
        "goal": plan.goal,
        "lessons": [lesson.id for lesson in plan.lessons],
        "exercises": list(plan.exercises),
        "polls": list(plan.polls),
        "blocks": blocks,
    }


def _step_as_json(step: BlockStep) -> dict[str, Any]:
    found = {"kind": step.kind, "minutes": step.length}
    return found | step.model_dump(exclude_defaults=True, exclude={"minutes"})


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
