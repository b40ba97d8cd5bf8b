"""What a monitor has seen, as text for 80 columns, as HTML for a notebook, and as JSON."""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from amp_lessons.amp.monitor.counting import MOST, Tally, fates_by_scale
from amp_lessons.amp.monitor.diagnosis import Advice, diagnoses, parameters, power, title
from amp_lessons.amp.monitor.findings import Findings, Seen, Skip
from amp_lessons.core.states import look

WIDTH = 80
NAME = 28
"""Columns for the name of a module."""


class MonitorReport(Findings):
    """The half of a monitor that tells; the other half, `watching.Monitor`, fills it."""

    _live: Any

    @property
    def diagnoses(self) -> list[Advice]:
        """What the findings mean, the worst first."""
        return diagnoses(self)

    @property
    def alarms(self) -> list[Advice]:
        """The diagnoses that ask for something to be done. A healthy run has none."""
        return [diagnosis for diagnosis in self.diagnoses if diagnosis.alarm]

    # ---- text --------------------------------------------------------------------------------

    def summary(self, top: int = 12) -> str:
        """The report in lines of at most 80 columns.

        Args:
            top: modules in the table, those that lose most first. 0 leaves the table out.
        """
        lines = [*self._head(), ""]
        for diagnosis in self.diagnoses:
            lines += [*_told(diagnosis), ""]
        lines += [*self._scaler_lines()]
        lines += self._table(top) if top and self.modules else []
        for note in self.notes:
            lines += ["", *_wrapped("Note: " + note)]
        while lines and not lines[-1]:
            lines.pop()
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "watching"
        return (
            f"<monitor of {type(self.model).__name__}: {state}, {self.steps} steps, "
            f"{len(self.alarms)} alarms>"
        )

    def _head(self) -> list[str]:
        count = len(self.samples)
        first = (
            f"Monitor of {type(self.model).__name__}: {self.steps} steps, {count} sampled (one in "
            f"{self.every}), judged in {self.format.name}."
        )
        if not self.steps and not count:
            first += " No step has ended yet: call seen.step() after each if this stays so."
        unknown = sum(skip.unexplained for skip in self.skips)
        if self.alarms:
            return _wrapped(first)
        if unknown:
            steps = f"{unknown} skipped step{'s' * (unknown > 1)}"
            return _wrapped(
                f"{first} No cause is known for {steps}, at a loss scale that worked before."
            )
        return _wrapped(f"{first} Nothing to fix was seen.")

    def _scaler_lines(self) -> list[str]:
        if not self.scales:
            return []
        lines = _wrapped(
            f"Loss scale: {power(self.scales[0])} at first, {power(self.scales[-1])} in the last "
            f"step; {len(self.skips)} of {len(self.scales)} steps skipped."
        )
        runs = list(_alike(self.skips))
        for alike in runs[:5]:
            lines += _wrapped(told_skips(alike), "  ")
        if len(runs) > 5:
            lines.append(f"  … and {sum(map(len, runs[5:]))} more")
        return [*lines, ""]

    def _table(self, top: int) -> list[str]:
        chosen = self.worst(top)
        lines = [
            f"{'':{NAME}} {'activations':^25} {'gradients':^25}",
            f"{'module':{NAME}} {'zero':>5} {'subn':>5} {'over':>5} {'max':>7} "
            f"{'zero':>5} {'subn':>5} {'over':>5} {'max':>7}",
        ]
        lines += [
            f"{_clipped(part.path or '(model)'):{NAME}} {_cells(part.activations)} "
            f"{_cells(part.all_gradients)}"
            for part in chosen
        ]
        left = len(self.modules) - len(chosen)
        if left:
            lines.append(f"… and {left} more modules: seen.summary(top=…)")
        name = self.format.name
        parts = self.modules.values()
        thin = any(part.activations.thinned or part.all_gradients.thinned for part in parts)
        sample = f" Of tensors with more than {MOST:,} numbers, a sample was counted."
        lines += _wrapped(
            f"zero: is 0, or becomes 0 in {name}. subn, over: becomes subnormal, overflows in "
            f"{name}. max: the largest magnitude. Gradients without the loss scale."
            + (sample if thin else "")
        )
        return lines

    def worst(self, top: int) -> list[Seen]:
        """The modules that lose most, in the model's order."""

        def loss(part: Seen) -> float:
            both = (part.activations, part.all_gradients)
            return max(t.share(t.underflow + t.overflow + t.infs + t.nans) for t in both)

        ranked = sorted(self.modules.values(), key=loss, reverse=True)[:top]
        kept = {part.path for part in ranked}
        return [part for part in self.modules.values() if part.path in kept]

    # ---- JSON --------------------------------------------------------------------------------

    def as_dict(self) -> dict[str, Any]:
        """Everything that was seen, in plain data."""
        gradients = self.gradients
        return {
            "model": type(self.model).__name__,
            "steps": self.steps,
            "every": self.every,
            "format": self.format.name,
            "alarms": [_advice(each) for each in self.alarms],
            "diagnoses": [_advice(each) for each in self.diagnoses],
            "faults": [asdict(f) for f in self.faults],
            "bad_steps": self.bad_steps,
            "skips": [asdict(s) for s in self.skips],
            "scales": self.scales,
            "by_scale": [asdict(f) for f in fates_by_scale(gradients, self.format)],
            "samples": [asdict(s) for s in self.samples],
            "modules": [_plain(part) for part in self.modules.values()],
            "notes": self.notes,
        }

    def to_json(self, indent: int | None = 1) -> str:
        """`as_dict` as JSON."""
        return json.dumps(self.as_dict(), indent=indent)

    # ---- a notebook --------------------------------------------------------------------------

    def _repr_html_(self) -> str:
        from amp_lessons.amp.monitor.chart import picture

        told = "".join(_as_html(d) for d in self.diagnoses)
        chart = ""
        if self.samples or self.scales:
            chart = str(picture(self)._repr_mimebundle_()["text/html"])
        head = html.escape(" ".join(self._head()))
        lines = "\n".join([*self._scaler_lines(), *(self._table(12) if self.modules else [])])
        table = f'<pre style="overflow-x:auto;line-height:1.3">{html.escape(lines)}</pre>'
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return f"<div><p><b>{head}</b></p>{told}{chart}{table}{notes}</div>"

    def live(self, seconds: float = 1.0) -> None:
        """Show a chart below the cell that follows the run, redrawn at most once a second.

        Without a notebook, it prints nothing: ask for `summary()` at the end.

        Args:
            seconds: the least time between two drawings, in seconds.
        """
        from amp_lessons.amp.monitor.chart import Live

        self._live = Live(self, seconds)

    def picture(self) -> Any:
        """The chart alone: the largest numbers, the scale, and the gradients' powers of two."""
        from amp_lessons.amp.monitor.chart import picture

        return picture(self)


def _alike(skips: Iterable[Skip]) -> Iterable[list[Skip]]:
    """Skipped steps that follow each other for one reason, together."""
    run: list[Skip] = []
    for skip in skips:
        if run and (skip.step != run[-1].step + 1 or not _same_reason(run[0], skip)):
            yield run
            run = []
        run.append(skip)
    if run:
        yield run


def _same_reason(first: Skip, skip: Skip) -> bool:
    """Whether the same gradients broke, and nothing else was found to be the cause."""
    if (first.parameters, first.broken) != (skip.parameters, skip.broken):
        return False
    one, two = first.cause, skip.cause
    if one is None or two is None:
        return two is None
    return (one.phase, one.kind, one.op, one.place) == (two.phase, two.kind, two.op, two.place)


def told_skips(skips: list[Skip]) -> str:
    """One skipped step in words, or several that are alike."""
    skip, last = skips[0], skips[-1]
    names = ", ".join(skip.parameters[:2]) + (", …" if skip.broken > 2 else "")
    text = f"step {skip.step}, scale {power(skip.scale)}: "
    if last is not skip:
        text = f"steps {skip.step} to {last.step}, scale {power(skip.scale)} to "
        text += f"{power(last.scale)}: "
    text += f"inf or NaN in the gradients of {parameters(skip.broken)} ({names})"
    if skip.cause is not None:
        made = title(skip.cause).partition(": ")[2]
        text += f"; {made} at {skip.cause.place}"
        if skip.cause.module:
            text += f" in module {skip.cause.module}"
    return text


def _told(diagnosis: Advice) -> Iterable[str]:
    symbol = look(diagnosis.severity).symbol if diagnosis.alarm else "·"
    yield from _wrapped(f"{symbol} {diagnosis.title}", hang="  ")
    for line in diagnosis.text.splitlines():
        yield from _wrapped(line, "  ", "  ")
    if diagnosis.alarm:
        entry = diagnosis.entry
        yield from _wrapped(f"Fix: {entry.fix}", "  ", "  ")
        yield from _wrapped(f"Lesson {entry.lesson_title}: {entry.notebook}", "  ")
        yield from _wrapped(f"More: amp-lessons lookup {entry.id}", "  ")


def _as_html(diagnosis: Advice) -> str:
    shown = look(diagnosis.severity)
    edge = shown.edge if diagnosis.alarm else look("skipped").edge
    symbol = shown.symbol if diagnosis.alarm else "·"
    text = "<br>".join(html.escape(line) for line in diagnosis.text.splitlines())
    entry = diagnosis.entry
    fix = f"<br>Fix: {html.escape(entry.fix)}" if diagnosis.alarm else ""
    lesson = f"Lesson {entry.lesson_title}"
    return (
        f'<div style="border-left:4px solid {edge};padding:2px 10px;margin:6px 0">'
        f"<b>{symbol} {html.escape(diagnosis.title)}</b><br>{text}{fix}<br>"
        f'<a href="../{html.escape(entry.notebook)}" style="text-decoration:underline">'
        f"{html.escape(lesson)}</a> <code>amp-lessons lookup {entry.id}</code></div>"
    )


def _wrapped(text: str, indent: str = "", hang: str | None = None) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + "  " if hang is None and indent else hang or "",
        break_on_hyphens=False,
    )


def _clipped(name: str) -> str:
    return name if len(name) <= NAME else "…" + name[1 - NAME :]


def _cells(tally: Tally) -> str:
    if not tally.numbers:
        return f"{'-':>5} {'-':>5} {'-':>5} {'-':>7}"
    zero = tally.share(tally.zeros + tally.underflow)
    over = tally.share(tally.overflow + tally.infs + tally.nans)
    shares = " ".join(f"{_percent(s):>5}" for s in (zero, tally.share(tally.subnormal), over))
    return f"{shares} {power(tally.largest):>7}"


def _percent(share: float) -> str:
    """A share in at most five columns: what is not 0 doesn't look like 0."""
    if share == 0:
        return "0"
    if share < 0.001:
        return "<0.1%"
    return f"{share:.1%}" if share < 0.0995 else f"{share:.0%}"


def _advice(advice: Advice) -> dict[str, Any]:
    return asdict(advice) | {"fix": advice.entry.fix, "lesson": advice.entry.lesson}


def _plain(part: Seen) -> dict[str, Any]:
    tallies = ("activations", "gradients", "weights")
    return {"path": part.path, "kind": part.kind} | {
        name: _plain_tally(getattr(part, name)) for name in tallies
    }


def _plain_tally(tally: Tally) -> dict[str, Any]:
    histogram = tally.histogram
    counts = ("zeros", "infs", "nans", "underflow", "subnormal", "overflow", "largest", "numbers")
    return {name: getattr(tally, name) for name in counts} | {
        "dtypes": sorted(tally.dtypes),
        "exponents": list(histogram.exponents),
        "counts": list(histogram.counts),
    }
