"""Lesson 00's one exercise: what is left of a number in FP16."""

from __future__ import annotations

from amp_lessons.checks.cases import Case, Misconception, function_exercise
from amp_lessons.formats import BF16, FP16, FP32

_NUMBERS = (1.0, -1.0, 1e-3, 1e-4, 2e-5, 6e-8, -6e-8, 4e-8, -4e-8, 3e-8, 2.0**-25)
_NUMBERS += (1e-8, -1e-8, 1e-30, 1e-43, 0.0)


survives = function_exercise(
    "survives",
    cases=lambda: [Case((x,)) for x in _NUMBERS],
    reference=lambda x: FP16.round(x) != 0,
    misconceptions={
        "sign-forgotten": Misconception(
            "Negative numbers count too: -1.0 survives in FP16 as well as 1.0 does. "
            "Compare magnitudes, or ask whether the result is different from zero.",
            lambda x: FP16.round(x) > 0,
            lambda x: x > 0,
            lambda x: x > 2**-25,
        ),
        "tie-survives": Misconception(
            "Almost. Exactly 2**-25 lies half-way between 0 and 2**-24, and a tie goes to the "
            "even one of the two, which is 0.",
            lambda x: abs(x) >= 2**-25,
        ),
        "not-stored": Misconception(
            "You asked about x itself, or stored it in float32, where all of these numbers fit. "
            "Store it in torch.float16, and then look.",
            lambda x: x != 0,
            lambda x: FP32.round(x) != 0,
        ),
        "smallest-is-the-limit": Misconception(
            "You compared with 2**-24, the smallest number that FP16 has. But storing a number "
            "rounds it to the nearest one, so what lies above half of 2**-24 is rounded up to "
            "it and survives.",
            lambda x: abs(x) >= FP16.min_subnormal,
        ),
        "smallest-normal-is-the-limit": Misconception(
            "You compared with 2**-14, the smallest *normal* number of FP16. Below it the format "
            "goes on with subnormal numbers, which have fewer bits but are not zero.",
            lambda x: abs(x) >= FP16.min_normal,
        ),
        "bfloat16": Misconception(
            "That is what survives in BF16. It has the exponents of FP32, so it reaches far lower "
            "than FP16. The question is about torch.float16.",
            lambda x: BF16.round(x) != 0,
        ),
    },
    hints=(
        "You don't need to know a limit: let torch store the number, and look at what comes back.",
        "torch.tensor(x, dtype=torch.float16) stores x in FP16. `.item()` gives a Python number.",
    ),
    lesson_learned="Storing a number rounds it to the nearest one that the format has. Sometimes "
    "that is zero.",
    asked_for="True or False",
)
