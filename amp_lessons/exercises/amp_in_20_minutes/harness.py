"""Which numbers are asked about."""

from __future__ import annotations

from amp_lessons.exercises.checks.probe import Case
from amp_lessons.exercises.varied import Varied

SMALL = [1e-3, -5e-4, 1e-4, 2e-5, 2.0**-24, -(2.0**-24), 6e-8, -6e-8, 5.5e-8, 5.2e-8, 4e-8]
SMALL += [-4e-8, 3.5e-8, 3e-8, 2.0**-25, -(2.0**-25), 1e-8, -1e-8, 1e-30, 1e-43, 0.0, -0.0]
POWERS = {
    s * 2.0**p: f"survives({'-' if s < 0 else ''}2**{p})" for p in (-24, -25) for s in (1, -1)
}
LARGE = (7e4, -1e5, 1e30)


def numbers_to_store() -> list[Case]:
    """Numbers on both sides of where FP16 begins, and some beyond its end."""
    """The listed numbers; with a salt also random ones, and in another order."""
    vary, random_ones = Varied(5), []
    for _ in vary.extra(30):
        size = 2.0 ** vary.random.uniform(-32, -12)
        random_ones.append(vary.near(vary.random.choice((-1, 1)) * size))
    small = (1.0, -1.0, *SMALL, *random_ones)
    ordinary = [Case((x,), POWERS.get(x, f"survives({x})")) for x in small]
    large = [Case((x,), f"survives({x})", "numbers beyond 65504") for x in map(vary.near, LARGE)]
    return vary.mixed([*ordinary, *large])
