"""Record one wrong answer of each exercise for the site, in `tools/website/recorded`.

Of the mistakes with a sentence of their own, the one is taken whose program shares least with the
right answers. The program itself is kept only if that is less than `LITTLE`, and if the exercise
begins with nothing: a wrong repair of a given loop holds most of the right one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))  # `leaks` measures the same for the tests

import answers  # noqa: E402
from leaks import runs  # noqa: E402
from website.widgets import RECORDED  # noqa: E402

from amp_lessons.core.catalogue import LESSONS  # noqa: E402
from amp_lessons.exercises import checks  # noqa: E402

FILE = RECORDED / "wrong_answers.json"
LITTLE = 0.3
"""The share of a right answer's runs of six words that a shown program holds at most."""
DULL = {"ready-made", "library-called"}
"""Mistakes that say nothing of mixed precision: the answer calls what it was to write."""


def main() -> None:
    FILE.write_text(record(), encoding="utf-8")
    found = json.loads(FILE.read_text(encoding="utf-8"))
    shown = sum(bool(each["program"]) for each in found.values())
    print(f"{FILE.name}: {len(found)} exercises, {shown} with a program")


def record() -> str:
    """The file as text."""
    names = [info.name for lesson in LESSONS for info in lesson.exercises]
    return json.dumps({name: _of(name) for name in names}, indent=1, ensure_ascii=False) + "\n"


def _of(name: str) -> dict[str, Any]:
    exercise = checks.find_exercise(name)
    key = exercise.answer_key
    given = runs("\n".join(cell.text for cell in exercise.public.cells))
    right = [runs(source) - given for source in key.right.values()]
    choices = [
        (mistake.slug in DULL, _share(answer.source, right), mistake.slug, answer.source, mistake)
        for mistake in key.diagnosis.mistakes
        if mistake.sentence and "{" not in mistake.sentence
        for answer in mistake.answers
    ]
    _, share, slug, source, mistake = min(choices, key=lambda each: each[:4])
    begun_empty = "raise NotImplementedError" in exercise.public.stub
    hidden = share > LITTLE or not begun_empty or _gives_away(source)
    program = "" if hidden else source.strip("\n")
    return {"mistake": slug, "program": program, "verdict": mistake.sentence}


def _gives_away(source: str) -> bool:
    """Whether the tests would take a program for a right answer of any exercise."""
    found = answers.search().leaks([("program", source.encode())])
    return any(label.startswith(("solution", "right cell")) for label in found.get("program", ()))


def _share(source: str, right: list[set[int]]) -> float:
    there = runs(source)
    return max(len(there & each) / max(len(each), 1) for each in right)


if __name__ == "__main__":
    main()
