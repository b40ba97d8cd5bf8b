"""Begin an exercise: write its file with every cell in place, and say what to do next.

    python tools/new_exercise.py training_loops stop_sinking "An alarm for a sinking scale"

`tools/check_exercises.py` tells what is still missing in the file, and how to put it there.
"""

from __future__ import annotations

import argparse
import keyword
import sys
from pathlib import Path

from amp_lessons.core import catalogue

TEMPLATE = '''\
# %% statement points={points} minutes={minutes}
# # {title}
#
# TODO: What is given, what is asked for, and what counts. One idea a sentence.

# %% answer
def {name}(x):
    """TODO: what it returns."""
    ### BEGIN SOLUTION
    return x
    ### END SOLUTION


# %% hints
# - TODO: a question that leads to the idea.
# - TODO: almost the answer, in words.

# %% probe
# A mistake is named only if it shows in two cases, so let no case stand alone.
probe = Probe(lambda: [Case((1.0,)), Case((-2.0,)), Case((-3.0,))])

# %% passed
# TODO: what somebody who passes has learned.

# %% right in_another_way
def {name}(x):
    return 1 * x

# %% wrong sign-lost
# TODO: what they did, why it is wrong, and what to do.
swap("return x", "return abs(x)")
of("in_another_way", swap("1 * x", "max(x, -x)"))

# %% program without_its_sign
def {name}(x):
    return -x if x < 0 else x
'''


class Refused(Exception):
    """The exercise cannot be begun. The message is one line with the cure."""


def begin(topic: str, name: str, title: str, points: int, minutes: int) -> Path:
    """Write the file. Raises `Refused`."""
    folder = catalogue.EXERCISES / topic
    topics = sorted(path.parent.name for path in catalogue.EXERCISES.glob("*/sheet.py"))
    if topic not in topics:
        raise Refused(
            f"no topic is called {topic!r}: take one of {', '.join(topics)}, or begin one with a "
            "sheet.py, a harness.py and an __init__.py"
        )
    if not name.isidentifier() or keyword.iskeyword(name) or name != name.strip("_"):
        raise Refused(f"{name!r} cannot name a function: take a word such as stop_sinking")
    if catalogue.find_exercise(name) is not None or (folder / f"{name}.py").exists():
        raise Refused(f"an exercise called {name} exists: take another name")
    path = folder / f"{name}.py"
    text = TEMPLATE.format(name=name, title=title, points=points, minutes=minutes)
    path.write_text(text, encoding="utf-8")
    return path


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("topic", help="a folder of amp_lessons/exercises, such as training_loops")
    parser.add_argument("name", help="of the function to write, such as stop_sinking")
    parser.add_argument("title", help="a few words")
    parser.add_argument("--points", type=int, default=2)
    parser.add_argument("--minutes", type=int, default=10)
    chosen = parser.parse_args(arguments)
    try:
        path = begin(chosen.topic, chosen.name, chosen.title, chosen.points, chosen.minutes)
    except Refused as refused:
        print(refused, file=sys.stderr)
        return 2
    print(f"Wrote {path}")
    where = f"the exercises of {chosen.topic} in amp_lessons/core/catalogue.py"
    print(f'Next: add "{chosen.name}" to {where},')
    print("write the wrong answers first, as people would give them, then the cells marked TODO,")
    print(f"and run: .venv/bin/python tools/check_exercises.py {chosen.name} -v")
    print("At the end: make check")
    return 0


if __name__ == "__main__":
    sys.exit(main())
