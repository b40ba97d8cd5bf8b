"""Write docs/workshop_2h.md, _4h.md and _8h.md from the plans in amp_lessons/classroom/workshop/.

A plan that contradicts the course is refused in one line. With nothing changed, a second run
writes nothing.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from amp_lessons.classroom.workshop import page, reading
from amp_lessons.core.errors import AmpLessonsError

ROOT = Path(__file__).resolve().parent.parent


def pages() -> dict[str, str]:
    """The text of each page by its path below the root. Raises `PlanError`."""
    plans = {name: reading.load(name) for name in reading.NAMES}
    return {f"docs/workshop_{name}.md": page.markdown(plan) for name, plan in plans.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if out of date")
    chosen = parser.parse_args()
    try:
        written = pages()
    except AmpLessonsError as error:
        print(error, file=sys.stderr)
        return 1
    old = {name: text for name, text in written.items() if _stored(name) != text}
    for name, text in old.items():
        if chosen.check:
            print(f"{name} is out of date: run .venv/bin/python tools/build_workshops.py")
        else:
            (ROOT / name).write_text(text, encoding="utf-8")
            print(f"wrote {name}")
    return 1 if chosen.check and old else 0


def _stored(name: str) -> str | None:
    path = ROOT / name
    return path.read_text(encoding="utf-8") if path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
