"""The monitor beside two others, on the planted faults and healthy runs of its tests.

The others are Hugging Face's `DebugUnderflowOverflow` (in transformers) and torchinstruments. They
aren't dependencies of the course: install them in a folder of their own and put it on PYTHONPATH.
For each run the table says whether an alarm was raised, and whether it names the module, the op and
the line. Run it with ``python benchmarks/monitor_faults.py [--json FILE]``.

torchinstruments raises no alarm by itself. Here it samples every forward pass, and the first layer
whose record holds something that isn't finite counts as named.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

import amp_lessons

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
from monitor_faults import FAULTS, HEALTHY, Case, made, train


@dataclass
class Told:
    """What a tool said about a run."""

    alarm: bool
    module: str = ""
    op: str = ""
    line: str = ""

    def __str__(self) -> str:
        if not self.alarm:
            return "silent"
        return " ".join(part for part in (self.op, self.line, self.module) if part) or "alarm"


# ---- ours ------------------------------------------------------------------------------------


def ours(case: Case) -> Told:
    seen = train(case, made(case), amp_lessons.monitor)
    return _told(seen)


def _told(seen: Any) -> Told:
    if not seen.alarms:
        return Told(False)
    if not seen.faults:
        return Told(True)
    fault = seen.faults[0]
    return Told(True, fault.module, fault.op, str(fault.place))


def ours_healthy(run: Callable[..., Any]) -> Told:
    return _told(run(lambda model, scaler: amp_lessons.monitor(model, scaler, every=10)))


# ---- Hugging Face ----------------------------------------------------------------------------


@contextlib.contextmanager
def _hugging_face(model: nn.Module, *_: Any) -> Iterator[Any]:
    from transformers.debug_utils import DebugUnderflowOverflow

    # It takes a Sequential's or a ModuleDict's own first call for the end of a batch.
    yield DebugUnderflowOverflow(model, max_frames_to_save=3)


def hugging_face(case: Case) -> Told:
    return _caught(lambda: train(case, made(case), _hugging_face))


def _caught(run: Callable[[], Any]) -> Told:
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            run()
    except ValueError:
        frames = re.findall(r"^ {17} (.*) \w+$", printed.getvalue(), re.MULTILINE)
        return Told(True, frames[-1] if frames else "?")
    return Told(False)


def hugging_face_healthy(run: Callable[..., Any]) -> Told:
    return _caught(lambda: run(_hugging_face))


# ---- torchinstruments ------------------------------------------------------------------------


def _instrumented(run: Callable[[Callable[..., Any]], Any]) -> Told:
    import polars
    from torchinstruments import inject_observer, remove_observer

    with tempfile.TemporaryDirectory() as folder:

        @contextlib.contextmanager
        def watch(model: nn.Module, *_: Any) -> Iterator[None]:
            inject_observer(model, interval=datetime.timedelta(microseconds=1), output_dir=folder)
            try:
                yield
            finally:
                remove_observer(model)

        run(watch)
        table = polars.read_parquet(Path(folder) / "history.parquet")
    bad = [row for row in table.rows(named=True) if _nonfinite(row)]
    return Told(True, bad[0]["layer"] or "(model)") if bad else Told(False)


def _nonfinite(row: dict[str, Any]) -> bool:
    return row["metric"] == "nonfinite_fraction" and (row["value"] or 0.0) > 0


def torchinstruments(case: Case) -> Told:
    return _instrumented(lambda watch: train(case, made(case), watch))


def torchinstruments_healthy(run: Callable[..., Any]) -> Told:
    return _instrumented(run)


TOOLS: dict[str, tuple[Callable[[Case], Told], Callable[[Any], Told]]] = {
    "amp_lessons": (ours, ours_healthy),
    "DebugUnderflowOverflow": (hugging_face, hugging_face_healthy),
    "torchinstruments": (torchinstruments, torchinstruments_healthy),
}


def attempt(call: Callable[[], Told]) -> Told:
    """What a tool says; its own exception counts as nothing said."""
    try:
        return call()
    except ImportError as error:
        return Told(False, op=f"not installed: {error.name}")
    except Exception as error:
        return Told(False, op=f"{type(error).__name__}: {error}"[:60])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every answer to FILE")
    options = parser.parse_args()
    torch.set_num_threads(1)
    table: dict[str, dict[str, Told]] = {}
    for case in FAULTS:
        table[case.name] = {n: attempt(lambda t=t, c=case: t[0](c)) for n, t in TOOLS.items()}
    for run in HEALTHY:
        name = f"healthy: {run.__name__}"
        table[name] = {n: attempt(lambda t=t, r=run: t[1](r)) for n, t in TOOLS.items()}
    print("| run | " + " | ".join(TOOLS) + " |")
    print("|---" * (len(TOOLS) + 1) + "|")
    for name, answers in table.items():
        print(f"| {name} | " + " | ".join(str(told) for told in answers.values()) + " |")
    if options.json:
        plain = {n: {t: asdict(told) for t, told in a.items()} for n, a in table.items()}
        options.json.write_text(json.dumps(plain, indent=1) + "\n")


if __name__ == "__main__":
    main()
