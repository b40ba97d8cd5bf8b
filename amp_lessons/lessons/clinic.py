"""Ways in which a mixed precision run goes wrong, as the clinic shows them.

The clinic's deep notebook triggers each one that a CPU and this version of torch can show, prints
what torch says, and fixes it; `Clinic` keeps the record. The lesson itself shows `table`. What a
fault looks like and what to do about it stands in the catalogue of `amp.errors`.
"""

from __future__ import annotations

from dataclasses import dataclass
from posixpath import dirname, relpath
from textwrap import shorten
from typing import Literal

from amp_lessons.amp.errors import catalogue
from amp_lessons.amp.errors.catalogue import Entry
from amp_lessons.core.catalogue import heading_anchor, lesson_called

Shown = Literal["triggered here", "cited"]

WIDTH = 160  # characters of a message that are printed; some go on for several sentences


class Disagreement(AssertionError):
    """A cell found something else than the catalogue says. One of the two is wrong: read both."""


@dataclass(frozen=True)
class Pitfall:
    """One of them.

    Args:
        number: 1 to 30.
        section: the part of the lesson that shows it.
        name: a few words.
        ids: of its entry in the catalogue, and of others whose messages it shows too.
        shown: whether the lesson triggers it or, if that takes CUDA or another version, cites it.
    """

    number: int
    section: str
    name: str
    ids: tuple[str, ...]
    shown: Shown = "triggered here"

    @property
    def entry(self) -> Entry:
        """What the catalogue says of it."""
        return catalogue.entry(self.ids[0])

    @property
    def silent(self) -> bool:
        """Whether PyTorch says nothing."""
        return self.entry.kind == "symptom"

    def says(self, line: str) -> bool:
        """Whether a line is one of its messages."""
        entries = map(catalogue.entry, self.ids)
        return any(regex.search(line) for entry in entries for regex in entry.regexes)

    @property
    def heading(self) -> str:
        """Its heading in the lesson."""
        return f"Pitfall {self.number}: {self.name}"


class Clinic:
    """The record of a notebook that shows the pitfalls one by one."""

    def __init__(self) -> None:
        self.seen: dict[int, Shown] = {}

    def read(self, number: int, message: str) -> None:
        """Print the line of a message by which a pitfall is recognised, if need be cut short.

        Raises:
            KeyError: no pitfall has this number.
            Disagreement: the message is another one, or the pitfall is a silent one.
        """
        pitfall = BY_NUMBER[number]
        lines = [] if pitfall.silent else message.splitlines()
        found = next((line for line in lines if pitfall.says(line)), None)
        if found is None:
            raise Disagreement(f"Pitfall {number} was not recognised in {message!r}")
        print(f"Pitfall {number} says: {shorten(found, WIDTH, placeholder=' …')}")
        self.seen[number] = "triggered here"

    def notice(self, number: int, symptom: str, *, present: bool) -> None:
        """Print the symptom of a silent pitfall.

        Raises:
            KeyError: no pitfall has this number.
            Disagreement: the symptom is not there.
        """
        if not present:
            raise Disagreement(f"Pitfall {number} did not show: {symptom}")
        self.seen[BY_NUMBER[number].number] = "triggered here"
        print(f"Pitfall {number} shows: {symptom}")

    def fix(self, number: int, cure: str, *, works: bool) -> None:
        """Print a fix.

        Raises:
            Disagreement: it did not help, or the pitfall was not triggered before.
        """
        if number not in self.seen:
            raise Disagreement(f"Pitfall {number} must be triggered before it is fixed")
        if not works:
            raise Disagreement(f"Pitfall {number} is not fixed by: {cure}")
        print(f"Fixed by: {cure}")

    def cite(self, number: int) -> None:
        """Print where a pitfall that cannot be triggered here is described."""
        pitfall = BY_NUMBER[number]
        self.seen[number] = "cited"
        print(f"Pitfall {number} is cited: {pitfall.entry.links[0]}")


def table() -> str:
    """The faults by their symptoms, with links to their places, as Markdown for the lesson."""
    lesson = lesson_called("clinic")
    page = relpath(lesson.deep_notebook, dirname(lesson.notebook))
    rows = [_row(catalogue.entry(name), h, f"#{heading_anchor(h)}") for name, h in IN_THE_LESSON]
    rows += (
        _row(p.entry, f"{p.number}. {p.name}", f"{page}#{heading_anchor(p.heading)}")
        for p in PITFALLS
    )
    head = "| what you see | pitfall | what to do | name in `lookup` |"
    return "\n".join((head, "|---|---|---|---|", *rows))


def _row(entry: Entry, name: str, link: str) -> str:
    quoted = entry.kind == "message" and any(each.search(entry.title) for each in entry.regexes)
    seen = f"`{entry.title}`" if quoted else entry.title
    return f"| {seen} | [{name}]({link}) | {entry.fix} | `{entry.id}` |"


IN_THE_LESSON = (
    ("optimizer-step-beside-scaler", "Run d: a loss that explodes"),
    ("batchnorm-poisoned-statistics", "One broken batch, and one skipped step"),
    ("rotary-positions-collapse", "Eight positions in BF16"),
    ("init-scale-passed-as-device", "A deprecation warning"),
)
"""Faults that the lesson itself shows: the entry's id, and the heading."""

LOOP, SILENT, DTYPES = "What the scaler says", "Runs that say nothing", "Dtypes that do not match"
NUMBERS, MACHINERY, MACHINE = "Numbers that break", "Around the loop", "The machine"
SECTIONS = (LOOP, SILENT, DTYPES, NUMBERS, MACHINERY, MACHINE)

PITFALLS: tuple[Pitfall, ...] = (
    Pitfall(
        1,
        LOOP,
        "An optimizer without gradients",
        ("no-inf-checks-for-this-optimizer",),
    ),
    Pitfall(2, LOOP, "An update without a step", ("no-inf-checks-prior-to-update",)),
    Pitfall(3, LOOP, "unscale_ has already been called", ("unscale-already-called",)),
    Pitfall(4, LOOP, "unscale_ is being called after step", ("unscale-after-step",)),
    Pitfall(5, SILENT, "The loss is frozen", ("stale-autocast-cache",)),
    Pitfall(6, LOOP, "FP16 parameters with a scaler", ("unscale-fp16-gradients",)),
    Pitfall(
        7,
        MACHINERY,
        "Gradients missing after a no_grad pass",
        ("gradients-missing-after-no-grad",),
        "cited",
    ),
    Pitfall(8, DTYPES, "Expected the same dtype", ("mat1-mat2-same-dtype",)),
    Pitfall(
        9, DTYPES, "scatter and index_copy_ refuse", ("scatter-self-src-dtype", "index-add-dtypes")
    ),
    Pitfall(
        10,
        DTYPES,
        "A custom Function without its decorators",
        ("custom-function-backward", "mat1-mat2-same-dtype"),
    ),
    Pitfall(11, NUMBERS, "BCELoss under autocast", ("bce-unsafe-to-autocast",)),
    Pitfall(12, LOOP, "lr_scheduler.step before optimizer.step", ("scheduler-before-optimizer",)),
    Pitfall(13, NUMBERS, "The scale sinks to nothing", ("scale-keeps-falling",)),
    Pitfall(14, SILENT, "Clipped before unscale_", ("clip-before-unscale",)),
    Pitfall(15, LOOP, "Closures and LBFGS", ("closure-with-scaler",)),
    Pitfall(16, SILENT, "Accumulation without division", ("accumulation-without-division",)),
    Pitfall(17, SILENT, "Two optimizers and two updates", ("two-optimizers-two-updates",)),
    Pitfall(18, NUMBERS, "Adam in pure FP16 divides by zero", ("adam-eps-zero-in-fp16",)),
    Pitfall(19, NUMBERS, "log of p plus 1e-8", ("log-of-a-probability",)),
    Pitfall(20, DTYPES, "A mask of minus 1e9", ("value-cannot-be-converted-to-half",)),
    Pitfall(21, NUMBERS, "BatchNorm in half precision", ("batchnorm-in-fp16",)),
    Pitfall(
        22, MACHINERY, "RMSNorm has another dtype than before", ("rms-norm-dtype-changed",), "cited"
    ),
    Pitfall(23, MACHINE, "No speed-up", ("no-speed-up",), "cited"),
    Pitfall(24, MACHINE, "Memory unchanged", ("more-memory-under-autocast",)),
    Pitfall(25, MACHINE, "Autocast on a CPU is slow", ("cpu-autocast-slow",)),
    Pitfall(26, MACHINERY, "Recomputed in another dtype", ("recomputed-outside-autocast",)),
    Pitfall(
        27, MACHINERY, "A compiled backward ignores an inner region", ("compiled-gradients-differ",)
    ),
    Pitfall(28, MACHINE, "The scaler on MPS needs float64", ("mps-float64",), "cited"),
    Pitfall(29, DTYPES, "NumPy has no bfloat16", ("numpy-bfloat16",)),
    Pitfall(
        30,
        SILENT,
        "Trained in one precision, evaluated in another",
        ("evaluated-in-another-precision",),
    ),
)
BY_NUMBER = {pitfall.number: pitfall for pitfall in PITFALLS}
