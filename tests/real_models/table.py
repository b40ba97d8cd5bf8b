"""The table of models: what came out of each, stored as JSON and shown as docs/model_table.md.

Stored are verdicts and counts. The page is written from them, so it needs no package of models.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from real_models.compare import Outcome

ROOT = Path(__file__).parents[2]
STORED = Path(__file__).with_name("outcomes.json")
PAGE = ROOT / "docs" / "model_table.md"
COMMAND = ".venv/bin/python tools/model_table.py"
PACKAGES = (
    "torch", "transformers", "timm", "torchvision", "peft", "diffusers", "torch_geometric",
)  # fmt: skip

HEAD = """\
# Models that `explain_autocast` was compared on

How far can you trust what `explain` says? We compared it with real training steps. Each line of the
table is a class from a public package, made small from a config, with random weights. Its step ran
on a CPU under `torch.autocast("cpu")`, in BF16 unless the mode says FP16. A recorder that shares no
code with the course watched it. *Agree* means that all of this is equal:

- the ops, in their order, with the dtypes of their inputs and of their result;
- the casts, shown as forward + backward;
- the bytes that autograd saves for backward.

*On fake tensors* compares a trace that holds no numbers. This is the harder test, and the kind of
trace that also works for CUDA. *As you call it* is the default, `values="auto"`: where fake tensors
stop, it runs the model on the CPU with its own numbers. Such an answer is marked *real*. It agrees
more easily, because both sides then run the same kernels.

Everything here follows the CPU's rules. On CUDA autocast has other lists and other kernels, about
which this table says nothing.
[Your own model](your_model.md) shows how to use the tool.
"""


def read() -> dict[str, Any]:
    """The stored outcomes: ``{"versions": {package: version}, "models": {name: {...}}}``."""
    return json.loads(STORED.read_text(encoding="utf-8"))


def versions() -> dict[str, str]:
    """The installed version of each package that the table is about."""
    return {name: version(name).partition("+")[0] for name in PACKAGES}


def as_data(model: Any, outcome: Outcome) -> dict[str, Any]:
    """One line of the table, as it is stored."""
    mode = "train" if model.train else "eval"
    mode += "" if model.grad else ", no gradients"
    about = {
        "package": model.package,
        "kind": model.kind,
        "mode": mode,
        "dtype": str(model.dtype).removeprefix("torch."),
    }
    return about | asdict(outcome)


def write(models: Mapping[str, Mapping[str, Any]], packages: Mapping[str, str]) -> None:
    """Store the outcomes and write the page."""
    data = {"versions": dict(packages), "models": dict(models)}
    STORED.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(data), encoding="utf-8")


def page(data: Mapping[str, Any]) -> str:
    """The table as Markdown."""
    models = data["models"]
    parts = [HEAD, _made_with(data["versions"]), _sums(models.values())]
    for package in dict.fromkeys(line["package"] for line in models.values()):
        of_package = {n: line for n, line in models.items() if line["package"] == package}
        parts.append(_table(package, of_package))
    parts.append(_reasons(models))
    return "\n".join(parts)


def _made_with(packages: Mapping[str, str]) -> str:
    names = ", ".join(f"{name} {number}" for name, number in packages.items())
    return (
        f"Made with {names}. This command runs every model again and rewrites the page:\n\n"
        f"    {COMMAND}\n"
    )


def _sums(lines: Iterable[Mapping[str, Any]]) -> str:
    lines = list(lines)
    called, fakes = (Counter(line[key] for line in lines) for key in ("verdict", "on_fakes"))
    rows = [
        f"| {verdict} | {fakes[verdict]} | {called[verdict]} |"
        for verdict in ("agree", "differ", "refused", "both refuse", "told only")
        if fakes[verdict] or called[verdict]
    ]
    rows.append(f"| share that agrees | {_share(fakes)} | {_share(called)} |")
    head = f"| of {len(lines)} models | on fake tensors | as you call it |\n|---|---|---|\n"
    return head + "\n".join(rows) + "\n"


def _share(counted: Counter[str]) -> str:
    return f"{counted['agree'] / max(counted.total(), 1):.0%}"


def _table(package: str, models: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [
        f"## {package}",
        "",
        "| model | what it has | mode | ops | casts | bytes saved | on fake tensors | "
        "as you call it |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, line in models.items():
        mode = line["mode"] + (", FP16" if line["dtype"] == "float16" else "")
        casts = f"{line['casts']} + {line['casts_backward']}"
        called = line["verdict"] + (", real" if line["values"] == "real" else "")
        lines.append(
            f"| {name} | {line['kind']} | {mode} | {line['ops']} | {casts} | "
            f"{line['saved']:,} | {line['on_fakes']} | {called} |"
        )
    return "\n".join(lines) + "\n"


def _reasons(models: Mapping[str, Mapping[str, Any]]) -> str:
    lines = ["## What differs or is refused", ""]
    for name, line in models.items():
        for key, where in (("on_fakes", "on fake tensors"), ("verdict", "as you call it")):
            why = line[f"{key}_why" if key == "on_fakes" else "why"]
            if line[key] != "agree" and why:
                lines.append(f"- **{name}**, {where}, {line[key]}: `{_one_line(why)}`")
                break
    if len(lines) == 2:
        lines.append("Nothing.")
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    short = " ".join(text.replace("`", "'").split())
    return short if len(short) <= 400 else f"{short[:400]} …"
