"""Everything that a report says about one trace, worked out once; and its summary in words.

`Digest` holds the findings as data, for `text`, `page` and `data` to show. `summary` is what a
person wants to know first.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import groupby

from amp_lessons.amp.explain.report.alignment import Misfit, find_misfits
from amp_lessons.amp.explain.report.casting import Casting, casting_of
from amp_lessons.amp.explain.report.costs import Costs, costs_of
from amp_lessons.amp.explain.report.islands import WIDE, Island, find_islands
from amp_lessons.amp.explain.report.names import duration, flop, percent, plural, shown, some, times
from amp_lessons.amp.explain.report.tree import ModuleNode, fold, grow
from amp_lessons.amp.explain.rows import Hazard, OpRow, Trace
from amp_lessons.amp.fake_tensors.not_run import NotRun, worth_naming
from amp_lessons.core.precision import brief
from amp_lessons.core.sizes import size

SMALL = 40
"""Rows up to which a report shows each op unasked."""
LAUNCH = 5e-6
"""Seconds: about what PyTorch and the driver take to launch a kernel. NVIDIA's "Getting Started
with CUDA Graphs" (developer.nvidia.com/blog/cuda-graphs) is the source: a few microseconds."""
_KERNELS = {"cudnn": "cuDNN's kernel", "math": "math (keeps the whole attention matrix)"}
WORTH = 0.005
"""A share of the forward that is worth a line."""


class Digest:
    """What a trace comes to. Nothing is worked out before it is asked for."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    @cached_property
    def costs(self) -> Costs | None:
        """Least times on the trace's GPU; None where there is none to ask."""
        return costs_of(self.trace)

    @cached_property
    def tree(self) -> ModuleNode:
        """The model by module, with repeated blocks folded."""
        return fold(grow(self.trace, self.costs))

    @cached_property
    def islands(self) -> tuple[Island, ...]:
        return find_islands(self.trace, self.costs)

    @cached_property
    def misfits(self) -> tuple[Misfit, ...]:
        return find_misfits(self.trace)

    @cached_property
    def casting(self) -> Casting:
        return casting_of(self.trace, self.costs)

    @property
    def seconds(self) -> float:
        """The forward's least time; 0 without a GPU to ask."""
        return self.tree.total.seconds

    @property
    def launches(self) -> int:
        """Kernels of the forward, about: a launch for each op and each cast that ran."""
        return self.trace.totals.ops + self.casting.count

    @property
    def launches_decide(self) -> bool:
        """Whether the ops and casts take less time, on average, than a launch does.

        Then the times of single ops say little, and the report leaves them out.
        """
        return bool(self.costs) and self.seconds < LAUNCH * self.launches

    @property
    def wide_share(self) -> float:
        """Share of that time in float32 ops, their casts left out."""
        if not self.costs or not self.seconds:
            return 0.0
        wide = (row for row in self.trace.rows if row.computed_in in WIDE)
        return sum(map(self.costs.of_row, wide)) / self.seconds

    @property
    def notes(self) -> list[str]:
        """The trace's notes, without the one that the summary's line on attention repeats."""
        told = ("attention runs in ",) if self._attention() else ()
        return [note for note in self.trace.notes if not note.startswith(told)]

    def summary(self) -> list[tuple[str, str]]:
        """What a person wants to know first: pairs of a label and a sentence."""
        found = [
            ("hazards", hazards_in_words(self.trace.hazards)),
            ("not run", not_run_in_words(worth_naming(self.trace.not_run))),
            ("16 bit", self._flops()),
            ("time", self._time()),
            ("FP32 ops", self._islands()),
            ("casts a step" if self._trains() else "casts", self._casts()),
            ("sizes", self._misfits()),
            ("attention", self._attention()),
            ("saved", self._saved()),
            ("cast cache", self._cache()),
            ("model", self._model()),
        ]
        return [(label, text) for label, text in found if text]

    def _flops(self) -> str:
        totals = self.trace.totals
        if not totals.flops:
            return "no matrix products or convolutions in the forward"
        low = brief(self.trace.dtype)
        share = f"{totals.share_16bit:.1%}" if totals.flops_16bit else "none"
        cores = ""
        if self.costs and low not in self.costs.gpu.dtypes:
            cores = f"; the {self.costs.gpu.name} has no tensor cores for {low}"
        return f"{share} of the forward's {flop(totals.flops)} run in {low}{cores}"

    def _time(self) -> str:
        if not self.costs or not self.seconds:
            return ""
        gpu, casts = self.costs.gpu.name, self.casting.seconds / self.seconds
        if self.launches_decide:
            return (
                f"kernel launches decide: the {self.launches:,} ops and casts take the {gpu} less "
                f"than {duration(LAUNCH)} each on average, about as long as a launch. 16 bit may "
                "save little time; a larger batch, torch.compile or CUDA graphs help more"
            )
        wide = percent(self.wide_share) if self.wide_share else "none"
        return (
            f"{duration(self.seconds)} or more for a forward on one {gpu}, at its peak rates; "
            f"{wide} of it in FP32 ops, {percent(casts) if casts else 'none'} in casts"
        )

    def _islands(self) -> str:
        if not self.islands:
            return ""
        worst = self.islands[0]
        of = "the time at peak rates" if self.costs else "the bytes"
        return f"most in {island_name(worst)}: {percent(worst.share)} of {of}"

    def _casts(self) -> str:
        totals, casting = self.trace.totals, self.casting
        timed = casting.seconds and not self.launches_decide
        took = f" in {duration(casting.seconds)}" if timed else ""
        parts = [f"{totals.casts_forward} in the forward"]
        if self._trains():
            parts[0] += f", {totals.casts_backward} in the backward"
        if casting.count:
            parts.append(f"the forward's move {size(casting.bytes_moved)}{took}")
        if casting.repeats:
            parts.append(f"{casting.repeats} cast a tensor that was cast before")
        if casting.spared:
            parts.append(f"autocast's cache saves {casting.spared} more")
        return "; ".join(parts)

    def _misfits(self) -> str:
        worth = [misfit for misfit in self.misfits if misfit.share >= WORTH]
        if not worth:
            return ""
        worst, more = worth[0], len(worth) - 1
        others = f"; {more} more" if more else ""
        return f"{misfit_in_words(worst)} ({percent(worst.share)} of the FLOPs){others}"

    def _attention(self) -> str:
        kernels: Counter[tuple[str, str]] = Counter()
        for (_, *kernel), rows in groupby(self.trace.rows, key=_attention):
            if kernel[0]:  # the math kernel is several ops a call, and each other one is one op
                kernels[kernel[0], kernel[1]] += 1 if kernel[0] == "math" else len(list(rows))
        return "; ".join(
            f"{_KERNELS.get(kernel, kernel + ' kernel')}{times(count)}"
            + (f", because {why}" if why else "")
            for (kernel, why), count in kernels.most_common()
        )

    def _trains(self) -> bool:
        """Whether the run has a backward pass to speak of."""
        totals = self.trace.totals
        return bool(totals.saved_amp or totals.saved_fp32 or totals.casts_backward)

    def _saved(self) -> str:
        totals = self.trace.totals
        if not self._trains():
            return "nothing for backward: no gradients are asked for"
        text = f"{size(totals.saved_amp)} for backward"
        if totals.saved_fp32 is not None:
            ratio = f"{totals.saved_ratio:.2f} times the " if totals.saved_ratio else ""
            text += f", {ratio}{size(totals.saved_fp32)} without autocast"
        return text

    def _cache(self) -> str:
        count = self.trace.totals.cached_bytes
        return f"{size(count)} of 16-bit parameters, kept until autocast ends" if count else ""

    def _model(self) -> str:
        totals = self.trace.totals
        weights = f"{totals.parameters:,} parameters ({size(totals.parameter_bytes)})"
        return f"{weights}, {plural(totals.ops, 'op')} in the forward"


def _attention(row: OpRow) -> tuple[str, str, str]:
    return row.path, row.kernel, row.kernel_why


# ---- words that every form uses -----------------------------------------------------------------


def headline(trace: Trace) -> str:
    """Which model, under which autocast."""
    return f'{trace.model} under autocast("{trace.device}", {trace.dtype})'


def made_with(trace: Trace, costs: Costs | None) -> str:
    """What the run was made with, and where its times come from."""
    words = [f"torch {trace.torch}, {_VALUES.get(trace.values, trace.values)}"]
    if trace.values == "real" and trace.device == "cuda":
        words = [f"torch {trace.torch}, {_BESIDE}"]
    same = costs is not None and costs.gpu.name.lower() == trace.gpu.lower()
    if trace.gpu and not same:
        words.append(f"attention as on the {trace.gpu.upper()}")
    if costs:
        words.append(f"{'attention and ' * same}times for the {costs.gpu.name}")
    elif trace.gpu:
        words.append("no times: its peak rates aren't known here")
    return "; ".join(words)


_VALUES = {"fake": "fake tensors (no numbers)", "real": "real tensors"}
_BESIDE = "fake CUDA tensors, with real numbers on the CPU beside them"


def hazards_in_words(hazards: tuple[Hazard, ...]) -> str:
    """How many of each severity."""
    counts = Counter(hazard.severity for hazard in hazards)
    verbs = {
        "raises": ("raises an error", "raise errors"),
        "wrong numbers": ("gives wrong numbers", "give wrong numbers"),
        "watch": ("to watch", "to watch"),
    }
    parts = [f"{counts[kind]} {verbs[kind][counts[kind] > 1]}" for kind in verbs if counts[kind]]
    return ", ".join(parts) or "none found"


def not_run_in_words(parts: tuple[NotRun, ...]) -> str:
    """Parts of the model that the pass did not use, and what would run them."""
    text = "; ".join(map(str, parts[:2]))
    more = len(parts) - 2
    return f"{text}; {plural(more, 'more part')}" if more > 0 else text


def hazard_name(hazard: Hazard) -> str:
    """Kind, places and lines of code: what to look for."""
    places = some([shown(path) for path in dict.fromkeys(hazard.paths)])
    lines = [line for line in hazard.where if line]
    code = f" ({some(lines, 2)})" if lines else ""
    return f"{hazard.kind} in {places}{code}{times(hazard.count)}"


def island_name(island: Island) -> str:
    """Where and which ops."""
    return f"{shown(island.module)} ({some(island.ops)}){times(island.count)}"


def misfit_in_words(misfit: Misfit) -> str:
    """Which size where, and what to pad it to."""
    where = some([shown(module) for module in misfit.modules], 2)
    of = f"{plural(misfit.count, 'product')} of " if misfit.count > 1 else ""
    return f"pad {misfit.size:,} {misfit.name} in {of}{where} to {misfit.padded:,}"
