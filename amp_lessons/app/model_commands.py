"""`amp-lessons explain` and `memory`: their options, and what they print about a model.

What stands on the command line names a model in one place, `_wanted`. A command makes that model,
asks its question about it and shows the answer. `cli` registers both, and tells what goes wrong.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from amp_lessons.core import interrupts
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.precision import AUTOCAST_DTYPES
from amp_lessons.core.terminal import console, warn

if TYPE_CHECKING:
    from amp_lessons.amp.explain import Explanation
    from amp_lessons.amp.explain.report.printing import Output
    from amp_lessons.amp.loading import LoadedModel, ModelSpec

PRECISIONS = ("fp32", "amp fp16", "amp bf16", "bf16")
"""Those of `memory.PRECISIONS`, which loads torch."""
DEVICES = ("cuda", "cpu")
VALUES = ("auto", "fake", "real")
WIDEST = 80
"""Columns of what is said on standard error."""

Target = Annotated[
    str,
    typer.Argument(
        metavar="[MODULE:FACTORY]",
        show_default=False,
        help="Where the model comes from: a function, a class or a model, such as "
        "my_package.models:make or train.py:make. Arguments in brackets are passed on: "
        "'timm:create_model(\"resnet50\")'. A function may return a model, (model, inputs) or "
        "(model, args, kwargs). Inputs are a tuple of positional ones, a dict of keyword ones, or "
        "one tensor.",
    ),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="[NAME=]SHAPE[:DTYPE]",
        help="An input's shape, such as 32,64 or 32x64, or ids=2,16:int64. Repeat it for each "
        "input. 'ids=2,16:int64<50257', in quotes, keeps whole numbers below a bound; without one "
        "they are 0 and 1, and bool is True everywhere. cond.text=2,8 goes into a dict. Positional "
        "inputs replace all that the function returns, a named one only that of its name. A name "
        "that the forward doesn't know is refused.",
    ),
]
HuggingFace = Annotated[
    str,
    typer.Option(
        "--hf",
        metavar="CONFIG",
        show_default=False,
        help="A Hugging Face model, of transformers or diffusers: its config.json, the folder that "
        "holds it, a name in this machine's cache, or a model type such as gpt2; tried in this "
        "order, and a name with a slash at its end only as a folder. Nothing is downloaded.",
    ),
]
Timm = Annotated[
    str,
    typer.Option(
        metavar="NAME", show_default=False, help="A model of timm, such as vit_base_patch16_224."
    ),
]
Batch = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="Batch size, where inputs are made from a config. Default: 2."
    ),
]
Length = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Tokens per example, likewise. Default: what the config allows, at most 512.",
    ),
]
ImageSize = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="Height and width of images, likewise. Default: the config's."
    ),
]
Train = Annotated[
    bool | None,
    typer.Option(
        "--train/--eval",
        help="The model's mode. Default: as it was built, which is training in PyTorch. Only in "
        "training a Hugging Face model gets labels, or return_loss=True.",
    ),
]
LossName = Annotated[
    str,
    typer.Option(
        "--loss",
        metavar="MODULE:FUNCTION",
        show_default=False,
        help="A loss to add, called as loss(output, target), such as train.py:loss. Hugging "
        "Face models need none: they get labels.",
    ),
]
Gpu = Annotated[
    str,
    typer.Option(
        help="The GPU to assume on cuda: h200, a100, t4, sm86, … It decides the attention "
        "kernels. Default: this machine's GPU, or an H200."
    ),
]
LossTarget = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="SHAPE[:DTYPE]",
        show_default=False,
        help="Shape of the loss's second argument, such as 8,64, or 32:int64 for classes. Without "
        "it, the loss is called as loss(output).",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


class FailOn(StrEnum):
    """Hazards that end `explain` with status 1."""

    RAISES = "raises"
    OVERFLOW = "overflow"


Summary = Annotated[bool, typer.Option("--summary", help="Print only the summary.")]
Depth = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=0, help="Levels of modules to show. Default: what fits on a screen."
    ),
]
Top = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Show the N largest entries of each list and module."),
]
Ops = Annotated[
    bool | None,
    typer.Option("--ops/--no-ops", help="Print every op. Default: if there are 40 or fewer."),
]
Html = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Also write an HTML page: the report, or with --diff what changed."
    ),
]
FailsOn = Annotated[
    list[FailOn] | None,
    typer.Option(
        help="For CI: exit with status 1 if an op raises, or a number overflows. May be repeated."
    ),
]
Diff = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Print only what changed since an earlier run, which wrote FILE with --json.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(explain)
    app.command()(memory)


def explain(
    target: Target = "",
    device: Annotated[str, typer.Option(help="cuda or cpu: their rules differ.")] = "cuda",
    gpu: Gpu = "",
    dtype: Annotated[str, typer.Option(help="float16 or bfloat16.")] = "float16",
    shapes: Inputs = None,
    hf: HuggingFace = "",
    timm: Timm = "",
    batch: Batch = None,
    length: Length = None,
    image_size: ImageSize = None,
    train: Train = None,
    no_grad: Annotated[
        bool,
        typer.Option("--no-grad", help="Run under torch.no_grad(), as in inference: no labels."),
    ] = False,
    loss: LossName = "",
    loss_target: LossTarget = "",
    values: Annotated[
        str,
        typer.Option(
            help="fake: tensors have shapes and no numbers. real: the model runs on the CPU, for "
            "code that looks at numbers. auto: fake, and real where fake can't follow, up to 1 GiB "
            "of parameters."
        ),
    ] = "auto",
    summary: Summary = False,
    depth: Depth = None,
    top: Top = None,
    ops: Ops = None,
    html: Html = None,
    json: Json = False,
    fail_on: FailsOn = None,
    diff: Diff = None,
) -> None:
    """Show what autocast does to your model, module by module. Needs no GPU.

    The model runs on fake tensors, which have shapes and no numbers, so any size will do.

    What each line and column means: python -m pydoc amp_lessons.amp.explain.report
    """
    _check_choice("--device", device, DEVICES)
    if dtype not in AUTOCAST_DTYPES:
        raise typer.BadParameter(f"--dtype {dtype}: choose float16 or bfloat16")
    _check_choice("--values", values, VALUES)
    if summary and ops:
        raise typer.BadParameter("--summary prints the summary alone: leave out --ops")
    labels = train is not False and not no_grad
    wanted = _wanted(target, shapes, hf, timm, batch, length, image_size, labels)
    _check_gpu(gpu)
    output = _output(summary, depth, top, ops, html, json, fail_on, diff)

    from amp_lessons.amp.loading import attempts_at

    for attempt in attempts_at(wanted, values):
        with attempt.started() as given:
            from amp_lessons.amp.explain import explain_autocast
            from amp_lessons.amp.loading import losses

            called, wanted_output = losses.named(loss, loss_target)
            with losses.with_fix(loss_target):
                explained = explain_autocast(
                    given.model,
                    *given.args,
                    device=device,
                    dtype=dtype,
                    kwargs=given.kwargs,
                    loss=called,
                    target=wanted_output,
                    train=train,
                    grad=not no_grad,
                    values=values,
                    gpu=gpu or None,
                )
    _say_assumed(given)
    _show(explained, output)


def memory(
    target: Target = "",
    device: Annotated[
        str, typer.Option(help="cuda or cpu: their rules and kernels differ.")
    ] = "cuda",
    gpu: Gpu = "",
    optimizer: Annotated[str, typer.Option(help="sgd, momentum, adam or adamw.")] = "adamw",
    shapes: Inputs = None,
    hf: HuggingFace = "",
    timm: Timm = "",
    batch: Batch = None,
    length: Length = None,
    image_size: ImageSize = None,
    train: Train = None,
    loss: LossName = "",
    loss_target: LossTarget = "",
    precision: Annotated[
        str, typer.Option(help="For the table by module: fp32, amp fp16, amp bf16 or bf16.")
    ] = "amp fp16",
    depth: Annotated[
        int, typer.Option(min=0, metavar="N", help="Levels of modules to show. 0 shows none.")
    ] = 2,
    top: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Show the N modules that need most.")
    ] = None,
    json: Json = False,
) -> None:
    """Count the memory of a training step, in FP32 and in 16 bit, before you rent a GPU.

    Shows where the bytes go, and the largest batch that fits 16, 24, 40 and 80 GB.
    The model runs on fake tensors: nothing is allocated, and nothing is measured.

    What each row holds: python -m pydoc amp_lessons.amp.memory.budget
    """
    _check_choice("--precision", precision, PRECISIONS)
    _check_choice("--device", device, DEVICES)
    wanted = _wanted(target, shapes, hf, timm, batch, length, image_size, train is not False)
    _check_gpu(gpu)
    _check_optimizer(optimizer)

    from amp_lessons.amp.loading import attempts_at

    for attempt in attempts_at(wanted):
        with attempt.started() as given:
            from amp_lessons.amp.loading import losses
            from amp_lessons.amp.memory.budget import survey

            called, wanted_output = losses.named(loss, loss_target)
            with losses.with_fix(loss_target):
                found = survey(
                    given, optimizer, device, called, wanted_output, train, gpu=gpu or None
                )
    _say_assumed(given)
    if json:
        _print_json(found.to_dict())
        return
    from amp_lessons.amp.memory.budget import screen

    shown = precision if precision in found.at else next(iter(found.at))
    terminal = console()
    for part in screen.renderables(found, shown, depth, top, terminal.width):
        terminal.print(part)


def _wanted(
    target: str,
    shapes: list[str] | None,
    hf: str,
    timm: str,
    batch: int | None,
    length: int | None,
    image_size: int | None,
    labels: bool,
) -> ModelSpec:
    """The model that both commands take. What can't be one is refused before torch is imported."""
    interrupts.end_inside_c_too()
    from amp_lessons.amp import loading

    inputs = tuple(shapes or ())
    wanted = loading.ModelSpec(target, inputs, hf, timm, batch, length, image_size, labels)
    loading.check(wanted)
    return wanted


def _say_assumed(given: LoadedModel) -> None:
    """What was assumed about a model and can be changed, a line for each thing."""
    for assumed in given.note.splitlines():
        _say(f"amp-lessons: {assumed}")


def _say(words: str) -> None:
    """A line on standard error, wrapped where a person reads it in a terminal."""
    if not sys.stderr.isatty():
        warn(words.removeprefix("amp-lessons: "))
        return
    width = min(console(stderr=True).width, WIDEST)
    for part in textwrap.wrap(words, width, subsequent_indent="  ", break_on_hyphens=False):
        print(part, file=sys.stderr)


def _check_choice(option: str, value: str, choices: Sequence[str]) -> None:
    """Refuse a word that is not known, as any other wrong option: with status 2."""
    if value not in choices:
        raise typer.BadParameter(f"{option} {value}: choose one of {', '.join(choices)}")


def _check_gpu(gpu: str) -> None:
    if gpu:
        from amp_lessons.amp.fake_tensors.attention import gpu_named

        try:
            gpu_named(gpu)
        except AmpLessonsError as error:
            raise typer.BadParameter(f"--gpu {gpu}: {error}") from error


def _check_optimizer(name: str) -> None:
    from amp_lessons.amp.memory.budget.counting import OPTIMIZERS

    if name not in OPTIMIZERS:
        raise typer.BadParameter(f"--optimizer {name}: choose one of {', '.join(OPTIMIZERS)}")


def _output(
    summary: bool,
    depth: int | None,
    top: int | None,
    ops: bool | None,
    html: Path | None,
    json: bool,
    fail_on: list[FailOn] | None,
    diff: Path | None,
) -> Output:
    """What to show; a file that can't be compared with is refused before anything runs."""
    from amp_lessons.amp.explain.report import printing
    from amp_lessons.amp.explain.report.text import ReportOptions

    before = printing.earlier(diff)
    options = ReportOptions(summary, depth, top, ops)
    return printing.Output(options, json, html, before, tuple(fail_on or ()))


def _show(explained: Explanation, output: Output) -> None:
    """Print what `explain` found, and end with status 1 if that was asked for."""
    from amp_lessons.amp.explain.report import printing

    failure = printing.show(explained, output)
    if failure:
        warn(failure)
        raise typer.Exit(1)


def _print_json(data: dict[str, Any]) -> None:
    import json

    print(json.dumps(data, indent=1, default=str))
