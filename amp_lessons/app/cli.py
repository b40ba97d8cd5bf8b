"""The command line: `amp-lessons lab`, `doctor`, `progress`, `path`, `reset`, `grade`, `policy` and
`bench`. `explain` and `memory` are in `model_commands`, the interview room's in `quiz.commands`,
`lookup` in `amp.errors.commands`.

Each command loads what it needs when it runs, so that help is quick and never imports torch. What
goes wrong is told in one line on standard error, with a non-zero exit; a traceback appears only if
``AMP_LESSONS_DEBUG`` is set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from amp_lessons import __version__
from amp_lessons.amp.errors import commands as errors_and_cures
from amp_lessons.app import model_commands
from amp_lessons.classroom.class_view import commands as class_page
from amp_lessons.classroom.grading import commands as marks
from amp_lessons.classroom.slides import commands as slide_decks
from amp_lessons.classroom.workshop import commands as workshop_plans
from amp_lessons.core import interrupts
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.terminal import console, open_standard_streams, say, warn
from amp_lessons.quiz import commands as interview_room
from amp_lessons.quiz.exports.commands import export

CLEAN_UP = ("lab", "grade", "reset")
"""Commands that write files or start processes. `bench` loads torch before it does."""


class _Commands(TyperGroup):
    """Typer ends silently on Ctrl+C. Here a command that does not say so itself gets a line."""

    def invoke(self, ctx: Any) -> Any:
        try:
            if (ctx.obj or {}).get("command") in CLEAN_UP:
                interrupts.clean_up_first()
            return super().invoke(ctx)
        except KeyboardInterrupt:
            warn("stopped with Ctrl+C")
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Commands,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="AMP Lessons: an interactive course on PyTorch Automatic Mixed Precision.",
    epilog="Start with: amp-lessons lab",
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        say(f"amp-lessons {__version__}")
        raise typer.Exit


# ---- lab ----------------------------------------------------------------------------------------


@app.command()
def lab(
    ctx: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR",
            help="Where your copy of the course lives. Default: workspace/ in a checkout, "
            "./amp-lessons elsewhere.",
        ),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Open no browser.")] = False,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Listen on this port and no other.")
    ] = None,
    ip: Annotated[str | None, typer.Option(help="Listen on this address.")] = None,
    no_solutions: Annotated[
        bool,
        typer.Option(
            "--no-solutions",
            help="For instructors: make DIR a hand-out, in which giving up takes a code that you "
            "hold. It keeps honest learners honest: the installed package has the answers.",
        ),
    ] = False,
    make_only: Annotated[
        bool, typer.Option("--make-only", help="Make DIR or bring it up to date; don't open it.")
    ] = False,
    nbgrader: Annotated[
        bool, typer.Option("--nbgrader", help="For instructors: show nbgrader's menus.")
    ] = False,
) -> None:
    """Open the course in JupyterLab, in a copy that is yours.

    Files that you changed are never overwritten. Those that you did not
    change are brought up to date. Arguments after -- go to Jupyter.
    """
    extra = _for_jupyter(ctx)
    if make_only and (port is not None or ip is not None or nbgrader or extra):
        raise typer.BadParameter("--make-only opens nothing: leave out what is for JupyterLab")
    if no_solutions:
        from amp_lessons.app.workspace import handing_out

        made = handing_out.hand_out(folder.expanduser() if folder else None)
        for line in handing_out.told(made):
            say(line)
        if make_only:
            return
    from amp_lessons.app import doctor, server, workspace
    from amp_lessons.app import lab as jupyterlab
    from amp_lessons.app.workspace.messages import told

    place = (folder or workspace.current_folder()).expanduser()
    if not no_solutions:  # `hand_out` asks for more
        workspace.refuse_elsewhere(place)
    if make_only:
        for line in told(workspace.copy_course(place), place):
            say(line)
        say(f"Open it with: amp-lessons lab {place}")
        return
    words = jupyterlab.command(place, browser=not no_browser, port=port, ip=ip, extra=extra)
    running = server.running_in(place)
    if running is not None:
        jupyterlab.join(running, browser=not no_browser, port=port, ip=ip, extra=extra)
        return
    if port is not None or ip is not None:
        jupyterlab.check_port(port or 0, ip)
    if not no_solutions:  # `hand_out` has done it
        for line in told(workspace.copy_course(place), place):
            say(line)
    for problem in (*doctor.kernel_problems(), *doctor.progress_problems()):
        warn(f"{problem.what}. What to do: {problem.cure}")
    if jupyterlab.as_root():
        say("You are root: JupyterLab is started with --allow-root.")
    raise typer.Exit(jupyterlab.start(words, place, nbgrader=nbgrader))


def _for_jupyter(ctx: typer.Context) -> Sequence[str]:
    return (ctx.obj or {}).get("after_dashes", ())


# ---- doctor -------------------------------------------------------------------------------------


@app.command()
def doctor(
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="DIR",
            help="For instructors: a folder of reports that learners sent, each made with doctor "
            "--json > NAME.json. Says who is ready, who isn't, and the cure.",
        ),
    ] = None,
    roster: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With DIR: the class's list, to see who sent nothing."),
    ] = None,
    json: Json = False,
) -> None:
    """Say what this machine can do, and how to fix what keeps the course from working.

    The exit status is 1 if a problem blocks the course; with DIR, if somebody
    isn't ready.
    """
    if folder is not None:
        _print_readiness(folder.expanduser(), roster, json)
        return
    if roster is not None:
        raise typer.BadParameter("--roster goes with a folder of reports: amp-lessons doctor DIR")
    from amp_lessons.app import doctor as examination

    report = examination.examine()
    if json:
        _print_json(examination.as_json(report))
    else:
        examination.show(report, console())
    raise typer.Exit(1 if report.blocked else 0)


def _print_readiness(folder: Path, roster: Path | None, json: bool) -> None:
    from amp_lessons.app import class_reports

    found = class_reports.read(folder, roster)
    if json:
        _print_json(class_reports.as_json(found))
    else:
        console().print(class_reports.table(found))
        say(class_reports.summary(found))
    raise typer.Exit(0 if all(each.ready for each in found) else 1)


# ---- progress -----------------------------------------------------------------------------------


@app.command()
def progress(
    lesson: Annotated[
        str | None,
        typer.Argument(metavar="LESSON", help="One lesson, such as 06 or grad_scaler."),
    ] = None,
    json: Json = False,
) -> None:
    """Show what you have done: the course on one screen, or one lesson's exercises."""
    from amp_lessons.app import progress_summary
    from amp_lessons.core import catalogue
    from amp_lessons.core import progress as record

    chosen = catalogue.find_lesson(lesson) if lesson else None
    done = record.load()
    for warning in done.warnings:
        warn(warning)
    if json:
        _print_json(progress_summary.as_json(done))
        return
    screen = console()
    if chosen is not None:
        screen.print(progress_summary.lesson_table(chosen, done, screen.width))
        return
    screen.print(progress_summary.course_table(done, screen.width))
    for text in (*progress_summary.summary(done), f"Kept in {record.progress_file()}"):
        say(text)


# ---- path ---------------------------------------------------------------------------------------


@app.command()
def path(
    name: Annotated[
        str | None,
        typer.Argument(metavar="PATH", help="A path, such as 1-day; or none, for no path."),
    ] = None,
) -> None:
    """Show the paths through the course, or choose the one that every "next" follows."""
    from amp_lessons.core import catalogue, standing
    from amp_lessons.core import progress as record

    if name is not None:
        done = record.choose_path(None if name == "none" else catalogue.find_path(name).key)
    else:
        done = record.load()
    chosen = standing.chosen_path(done)
    for each in catalogue.PATHS if name is None else ():
        say(f"{each.key:10}  {each.goal}{' (your path)' if each == chosen else ''}")
    say(f"You follow the {chosen.name}." if chosen else "You follow no path.")
    step = standing.next_step(done)
    if step is not None:
        say(f"Continue with {step}.")


# ---- reset --------------------------------------------------------------------------------------


@app.command()
def reset(
    exercise: Annotated[
        str,
        typer.Argument(
            metavar="EXERCISE",
            help="An exercise, such as next_float; or a whole notebook, such as 01_number_formats "
            "or 01_number_formats_exercises.",
        ),
    ],
    workspace: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The workspace, if it is not the default one."),
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="Also forget its passes, hints and checks.")
    ] = False,
) -> None:
    """Put an exercise back as it was handed out; your old notebook is kept beside it."""
    from amp_lessons.app import workspace as folders
    from amp_lessons.core import progress as record

    place = (workspace or folders.current_folder()).expanduser()
    done = folders.reset(place, exercise)
    for note in done.notes:
        say(note[:1].upper() + note[1:] + ".")
    if done.kept_as is None:
        say(f"{exercise} is as it was handed out, in {done.file}")
    else:
        say(f"{exercise} was put back in {done.file}")
        say(f"Your old notebook is kept as {done.kept_as.name}")
        say("If it is open in JupyterLab: File > Reload Notebook from Disk")
    if forget and done.exercises:
        record.forget(done.exercises)
        say(f"Progress forgotten: {', '.join(done.exercises)}")


# ---- grade --------------------------------------------------------------------------------------

marks.register(app)
# ---- policy -------------------------------------------------------------------------------------


@app.command()
def policy(
    ops: Annotated[
        list[str] | None,
        typer.Argument(metavar="OP...", help="Ops, such as softmax. Default: the whole table."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cuda or cpu. Default: both.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="fp16 or bf16. Default: fp16; with --since both.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="VERSION", help="Show only what changed since an earlier PyTorch, such as 2.11."
        ),
    ] = None,
    live: Annotated[
        bool, typer.Option("--live", help="Ask PyTorch now, also about an OP that is recorded.")
    ] = False,
    json: Json = False,
) -> None:
    """Show what autocast does to each op, in the installed PyTorch. CUDA's rules need no GPU.

    The columns give the dtype of the result for 16-bit, for float32 and for
    mixed inputs. With --since these three are in brackets. For an OP the answer is
    the one recorded for your version of PyTorch, if there is one; --live asks PyTorch.
    """
    if since is not None:
        _say_what_changed(since, ops or (), device, dtype, json)
        return
    from amp_lessons.amp.policy_record import asked, shown

    devices = [device] if device else list(asked.DEVICES)
    found = [asked.answers(ops, each, dtype or "fp16") for each in devices if ops and not live]
    tables = [rows for rows in found if rows is not None]
    version, told = asked.installed(), [""] * len(devices)
    if len(tables) < len(devices):
        tables, told, version = _asked_live(ops or (), devices, dtype or "fp16")
    if json:
        _print_json({"tables": [shown.as_json(table, version) for table in tables]})
        return
    screen = console()
    for table, warning in zip(tables, told, strict=True):
        screen.print(shown.table(table, version, why=not ops and screen.width >= 120))
        why = [f"why {row['op']}: {row['note']}" for row in table]
        for line in why if ops else shown.totals(table, version):
            say(line)
        if warning:
            say(warning)


def _asked_live(
    ops: Sequence[str], devices: Sequence[str], dtype: str
) -> tuple[list[list[dict[str, Any]]], list[str], str]:
    """The answers of the installed torch, how each table differs from the record, its version."""
    from amp_lessons.amp import policy as rules
    from amp_lessons.amp import policy_record

    version = rules.torch.__version__
    try:
        tables = [
            rules.as_json(
                [rules.op_policy(op, where, dtype) for op in ops]
                or rules.policy_table(where, dtype)
            )
            for where in devices
        ]
    except rules.PolicyError as error:
        raise typer.BadParameter(str(error)) from None
    return tables, [policy_record.compared(version, rows) for rows in tables], version


def _say_what_changed(
    since: str, ops: Sequence[str], device: str | None, dtype: str | None, json: bool
) -> None:
    from amp_lessons.amp import policy_record

    try:
        policy_record.find_version(since)
    except policy_record.PolicyRecordError as error:
        raise typer.BadParameter(str(error)) from None
    from amp_lessons.amp import policy as rules
    from amp_lessons.amp.policy import shown

    devices = [device] if device else rules.DEVICES
    dtypes = [dtype] if dtype else ("float16", "bfloat16")
    try:
        found = [shown.since(since, where, low, ops) for where in devices for low in dtypes]
    except rules.PolicyError as error:
        raise typer.BadParameter(str(error)) from None
    if json:
        _print_json({"changes": [changes.to_dict() for changes in found]})
        return
    for line in shown.all_changed(found):
        say(line)


# ---- explain ------------------------------------------------------------------------------------

model_commands.register(app)
# ---- bench --------------------------------------------------------------------------------------

QUICK_LEAVES_OUT = "compiling takes longer than the rest of --quick (--mode bf16-compile runs it)"


@app.command()
def bench(
    preset: Annotated[
        list[str] | None,
        typer.Option(
            help="What to train: seed, seed-128, seed-256, seed-513, transformer, cnn, "
            "cnn-channels-last, course or small; may be repeated. Default: course on CUDA, small "
            "on a CPU.",
        ),
    ] = None,
    sizes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BATCHxWIDTH",
            help="The seed's network in this size, such as 513x4096 (or 513x4096x5: 5 layers); "
            "may be repeated.",
        ),
    ] = None,
    mode: Annotated[
        list[str] | None,
        typer.Option(help="fp32, tf32, fp16, bf16 or bf16-compile; may be repeated."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="cuda or cpu. Default: CUDA if there is one.")
    ] = None,
    batches: Annotated[
        int | None, typer.Option(min=1, help="Preloaded batches. Default: 50; 8 with --quick.")
    ] = None,
    epochs: Annotated[
        int, typer.Option(min=1, help="Passes over them in the run whose losses are compared.")
    ] = 3,
    repeats: Annotated[
        int | None, typer.Option(min=2, help="Samples of each mode. Default: 15; 7 with --quick.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Fewer batches and samples, and no compiler unless asked."),
    ] = False,
    json: Json = False,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the roofline into a PNG file.")
    ] = None,
    record: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Keep a record, for the speed lesson to show: in records/ of your workspace, or "
            "as the file that NAME says if it has a folder part. Needs CUDA.",
        ),
    ] = None,
) -> None:
    """Measure what each precision gains here: time, memory, and the loss beside them.

    Runs are warmed up, take turns, and are shown with their spread. An
    interrupted bench keeps what it has measured.
    """
    from amp_lessons.amp.speed.records import own

    file = own.record_path(record) if record is not None else None
    _check_outputs({"--picture": picture, "--record": file}, own.own_folder())
    from amp_lessons.amp.speed import bench as benches
    from amp_lessons.amp.speed.bench import modes, screen, workloads

    where = _bench_device(device, file)
    if file is not None:
        own.make_room(file)
    small = where.type == "cpu"
    presets = preset if preset or sizes else ["small" if small else "course"]
    left_out = {"bf16-compile": QUICK_LEAVES_OUT} if quick and not mode else {}
    sized = {"batches": batches or (8 if quick else 50), "epochs": epochs}
    try:
        report = screen.measure(
            workloads.chosen(presets or (), sizes or (), **sized),
            modes.chosen(mode or [m.key for m in benches.MODES]),
            where,
            repeats=repeats or (7 if quick else 15),
            left_out=left_out,
        )
    except benches.BenchError as error:
        warn(str(error))
        raise typer.Exit(1) from error
    screen.show(report, screen.Outputs(json, picture, file))
    if file is not None and report.rows and not json:
        say(f"record: {file}")
    if report.stopped:
        kept = f"{len(report.rows)} finished rows kept" if report.rows else "no row was finished"
        warn(f"the bench ended early ({kept}): {report.stopped}")
        raise typer.Exit(130 if report.interrupted else 1)


def _check_outputs(files: dict[str, Path | None], made_later: Path) -> None:
    """Before minutes of measuring: can the results be written?"""
    for option, file in files.items():
        if file is None:
            continue
        folder = file.absolute().parent
        if file.is_dir() or not (folder.is_dir() or folder == made_later):
            raise typer.BadParameter(f"{option}: {file} cannot be written: no such folder")
        if option == "--picture" and file.suffix != ".png":
            raise typer.BadParameter(f"--picture writes PNG: name the file {file.stem}.png")
        if option == "--record" and file.suffix != ".json":
            raise typer.BadParameter(f"--record writes JSON: name the file {file.stem}.json")
        if option == "--picture":
            import matplotlib  # noqa: F401  # comes with the extra, and is needed at the end


def _bench_device(name: str | None, record: Path | None) -> Any:
    import torch

    there = torch.cuda.is_available()
    try:
        where = torch.device(name or ("cuda" if there else "cpu"))
    except RuntimeError:
        raise typer.BadParameter(f"no device {name!r}: cuda or cpu") from None
    if where.type not in ("cuda", "cpu"):
        raise typer.BadParameter(f"the bench knows cuda and cpu, not {where.type}")
    if where.type == "cuda" and not there:
        raise typer.BadParameter("PyTorch finds no CUDA GPU here: take --device cpu")
    if where.type == "cuda" and (where.index or 0) >= torch.cuda.device_count():
        raise typer.BadParameter(f"there is no {where}: PyTorch finds {torch.cuda.device_count()}")
    if record is not None and where.type != "cuda":
        raise typer.BadParameter("--record needs CUDA, for a CPU's times are no record: use --json")
    return where


def _print_json(data: dict[str, Any]) -> None:
    import json

    print(json.dumps(data, indent=1, default=str))


# ---- class ---------------------------------------------------------------------------------------

class_page.register(app)
# ---- lookup --------------------------------------------------------------------------------------

errors_and_cures.register(app)
# ---- quiz, drill, mock ---------------------------------------------------------------------------

interview_room.register(app)
# ---- workshop ------------------------------------------------------------------------------------

workshop_plans.register(app)
# ---- export --------------------------------------------------------------------------------------

app.command()(export)
# ---- slides --------------------------------------------------------------------------------------

slide_decks.register(app)

# ---- from the shell and back --------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The entry point: run a command and leave with its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    status: Any = 1
    open_standard_streams()
    try:
        status = _run(words)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):  # before or after a command
        warn("stopped with Ctrl+C")
        status = 130
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        if os.environ.get("AMP_LESSONS_DEBUG"):
            raise
        warn(_in_one_line(error))
        status = getattr(error, "exit_code", 1)
    sys.exit(status)


def _run(words: list[str]) -> int:
    """Hand the words to typer. Those after ``--`` are for Jupyter, if `lab` was called."""
    after: list[str] = []
    if words[:1] == ["lab"] and "--" in words:
        dashes = words.index("--")
        words, after = words[:dashes], words[dashes + 1 :]
    result = app(
        words or ["--help"],
        prog_name="amp-lessons",
        standalone_mode=False,
        obj={"command": words[0] if words else "", "after_dashes": after},
    )
    return result if isinstance(result, int) else 0


def _in_one_line(error: Exception) -> str:
    """An error in words: as it is if the course or typer wrote it, else with a hint."""
    if isinstance(error, AmpLessonsError):
        return str(error)
    if hasattr(error, "format_message"):  # typer's own, about how it was called
        ctx = getattr(error, "ctx", None)
        command = ctx.command_path if ctx is not None else "amp-lessons"
        told = error.format_message().rstrip(".")
        return f"{told}{'' if told.endswith('?') else '.'} See {command} --help"
    if isinstance(error, ModuleNotFoundError) and error.name:
        from amp_lessons.app import set_up

        if set_up.comes_with_course(error.name):
            return f"this command needs {error.name}, which comes with the course: {set_up.cure()}"
    return f"{type(error).__name__}: {error} (AMP_LESSONS_DEBUG=1 shows the traceback)"


if __name__ == "__main__":
    main()
