"""A small exercise, written into a folder of a test: square a number."""

from __future__ import annotations

from pathlib import Path

from amp_lessons.exercises.checks.exercise import Exercise
from amp_lessons.exercises.checks.parts import AnswerKey, PublicPart

SHEET = """\
# %% text
# # Exercises: Squares

# %% given
import math
"""

HEAD = """\
# %% statement points=1 minutes=5
# # Square a number
#
# Write `square(x)`.


# %% answer
def square(x):
    \"\"\"The square of a number.\"\"\"
    ### BEGIN SOLUTION
    y = abs(x)
    return y * y
    ### END SOLUTION


# %% hints
# - What is
#   a square?
# - Multiply.
"""

PROBE = """
# %% probe
from amp_lessons.exercises.checks.probe import Case, Probe

NUMBERS = (-3, -2, 2, 3, 4)
probe = Probe(lambda: [Case((x,), kind="negative numbers" if x < 0 else "") for x in NUMBERS])
"""

SECRET = """
# %% passed
# A square is never negative.


# %% right power
def square(x):
    return x**2


# %% wrong doubled
# You doubled the number. A square is the number times itself.
swap("y * y", "y + y")


# %% program twice
def square(x):
    return 2 * abs(x)


# %% wrong signed
# You kept the sign of the number. Minus times minus is plus.
swap("y * y", "x * y")


# %% program copied_sign
def square(x):
    return math.copysign(x * x, x)


# %% wrong one-too-many
# You added one.
swap("return y * y", "return y * y + 1")
put("y = y * y + 1", after="y =") & swap("return y * y", "return y")
"""

WHOLE = HEAD + PROBE + SECRET


def toy(folder: Path, text: str = WHOLE) -> Exercise:
    """The exercise of such a file; only what the course's catalogue does not have to know works."""
    topic = folder / "squares"
    topic.mkdir(exist_ok=True)
    (topic / "sheet.py").write_text(SHEET, encoding="utf-8")
    path = topic / "square.py"
    path.write_text(text, encoding="utf-8")
    return Exercise(path)


def secret(folder: Path, text: str) -> AnswerKey:
    return AnswerKey(PublicPart(toy(folder, text).path))
