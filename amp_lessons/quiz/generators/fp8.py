"""Questions on FP8: the scale that puts a tensor's largest number on the largest of the format."""

from __future__ import annotations

import math
import random

from amp_lessons.quiz.generators.base import Draft, generator, mistakes
from amp_lessons.quiz.generators.floats import E4M3, E5M2
from amp_lessons.quiz.generators.formatting import amount, number, power


@generator("fp8.gen_fp8_scale", "The FP8 scale of a tensor", level=2, kind="number")
def fp8_scale(rng: random.Random) -> Draft | None:
    fmt, other = rng.choice(((E4M3, E5M2), (E5M2, E4M3)))
    amax = float(f"{math.exp(rng.uniform(math.log(1e-3), math.log(5e3))):.2g}")
    by_power = rng.random() < 0.5
    exact = fmt.max / amax
    answer = 2.0 ** math.floor(math.log2(exact)) if by_power else exact
    if by_power and fmt.max < 2 * answer * amax <= fmt.first_inf:
        return None  # the next power of two would overshoot, but round back to the largest number
    wrong = [
        (1 / exact, "This is the other way about: you multiply by it to get the values back."),
        (other.max / amax, f"{number(other.max)} is the largest number of {other.name}."),
        (1 / amax, f"This brings the largest value to 1, and leaves {fmt.name}'s range unused."),
    ]
    if by_power:
        wrong = [
            (2 * answer, f"With this, {number(amax)} would become {number(2 * answer * amax)}: too "
             f"large for {fmt.name}."),
            (exact, "This is the exact quotient. Round it down to a power of two."),
            (answer / 2, "This is safe, but one power of two smaller than it has to be."),
            *wrong,
        ]  # fmt: skip
    found = mistakes(answer, 0.01, wrong)
    if found is None:
        return None
    asked = (
        "What is the largest power of two that you can take without an overflow?"
        if by_power
        else f"Which scale brings it to the largest number of {fmt.name}?"
    )
    power_told = (
        f" The power of two below is {_power(answer)}, and {number(amax)} becomes "
        f"{amount(answer * amax)}."
        if by_power
        else ""
    )
    return {
        "prompt": f"The largest magnitude in a tensor is {number(amax)}. You multiply the "
        "tensor by "
        f"a scale and cast it to {fmt.name}. {asked}",
        "hint": f"What is the largest number of {fmt.name}?",
        "source": "OCP 8-bit Floating Point Specification 1.0; Micikevicius et al. 2022, arXiv "
        "2209.05433",
        "answer": answer,
        "tolerance": 0.01,
        "explanation": f"{fmt.name}'s largest number is {number(fmt.max)}, and "
        f"{number(fmt.max)} / {number(amax)} is {amount(exact, 4)}.{power_told}",
        "mistake": found,
        "proof": "import math\nimport torch\n\n"
        f"scale = torch.finfo({fmt.dtype}).max / {amax!r}\n"
        + ("answer = 2.0 ** math.floor(math.log2(scale))" if by_power else "answer = scale * 1.0"),
    }


def _power(value: float) -> str:
    return f"{power(value)} = {int(value):,}" if value >= 2 else f"{power(value)}"


GENERATORS = (fp8_scale,)
