"""Run every model of docs/model_table.md, and write the table and the outcomes that tests expect.

python tools/model_table.py            all models, then write
python tools/model_table.py NAME ...   these only; the others keep their stored outcome
python tools/model_table.py --page     only write the page again, from what is stored
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from real_models import table  # noqa: E402


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="models; all, if none is named")
    parser.add_argument("--page", action="store_true", help="write the page from what is stored")
    chosen = parser.parse_args(arguments)
    if chosen.page:
        data = table.read()
        table.write(data["models"], data["versions"])
        return 0
    return run(chosen.names)


def run(names: list[str]) -> int:
    """Run the models that are named, or all, and store what came out."""
    import torch
    from real_models.packages import prepare
    from real_models.zoo import MODELS

    unknown = set(names) - {model.name for model in MODELS}
    if unknown:
        print(f"no model has the name {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    prepare()
    torch.set_num_threads(1)
    known = table.read()["models"] if table.STORED.exists() else {}
    for model in MODELS:
        if names and model.name not in names:
            continue
        before = known.get(model.name, {}).get("verdict", "new")
        known[model.name] = line = _line(model)
        changed = "*" if before != line["verdict"] else " "
        print(f"{changed} {line['verdict']:12} {model.name}  {line['why'][:200]}", flush=True)
        # Written after each model, so that what is done survives a stop.
        ordered = {m.name: known[m.name] for m in MODELS if m.name in known}
        table.write(ordered, table.versions())
    return 0


def _line(model: Any) -> dict[str, Any]:
    from real_models.compare import compare

    started = time.process_time()
    line = table.as_data(model, compare(model))
    print(f"{time.process_time() - started:6.1f} CPU s", end=" ")
    return line


if __name__ == "__main__":
    raise SystemExit(main())
