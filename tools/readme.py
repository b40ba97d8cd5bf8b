"""Write the README's tables of paths and lessons from `amp_lessons/core/catalogue.py`.

Each stands between two comments, such as ``<!-- paths: ... -->`` and ``<!-- end of paths -->``.
With nothing changed, a second run writes nothing.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from amp_lessons.core.catalogue import LESSONS, PATHS, ExerciseInfo, Lesson

ROOT = Path(__file__).resolve().parent.parent


def paths() -> str:
    """The table of the paths, with the minutes of their lessons and core exercises together."""
    lines = ["| path | where it leads | lessons | minutes |", "|---|---|---|---:|"]
    for path in PATHS:
        cells = f"**{path.title}**", path.goal, _numbers(path.lessons), str(path.minutes)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def course_map() -> str:
    """The table of the lessons, and the minutes of all of them together."""
    lines = ["| lesson | you will be able to | minutes | core exercises |", "|---|---|---:|---|"]
    for lesson in LESSONS:
        link = f"[{lesson.number:02} {lesson.title}]({lesson.notebook})"
        count, minutes = len(lesson.core), _solving(lesson.core)
        exercises = f" {count}, {minutes} minutes" if count else ""
        lines.append(f"| {link} | {lesson.goal} | {lesson.minutes} |{exercises} |")
    reading = sum(each.minutes for each in LESSONS)
    core = sum(_solving(lesson.core) for lesson in LESSONS)
    everything = [info for lesson in LESSONS for info in lesson.exercises]
    together = (
        f"Together: {reading} minutes of lessons and {core} of core exercises. With more practice, "
        f"there are {len(everything)} exercises of {_solving(everything)} minutes."
    )
    return "\n".join([*lines, "", together])


TABLES: dict[str, Callable[[], str]] = {"paths": paths, "course map": course_map}


def _solving(exercises: Iterable[ExerciseInfo]) -> int:
    return sum(info.minutes for info in exercises)


def _numbers(lessons: tuple[Lesson, ...]) -> str:
    return ", ".join(f"{lesson.number:02}" for lesson in lessons)


def written(text: str) -> str:
    """A README's text with the tables as they should be.

    Raises:
        ValueError: if the comments around a table aren't there. The message says what to write.
    """
    for name, table in TABLES.items():
        begin = f"<!-- {name}: written by tools/readme.py from amp_lessons/core/catalogue.py -->"
        end = f"<!-- end of {name} -->"
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if not (found and closed):
            raise ValueError(f"README.md needs the lines {begin} and {end}, around its table")
        text = f"{before}{begin}\n\n{table()}\n\n{end}{after}"
    return text


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.parse_args(arguments)
    page = ROOT / "README.md"
    text = page.read_text(encoding="utf-8")
    try:
        new = written(text)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if new != text:
        page.write_text(new, encoding="utf-8")
        print("wrote README.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
