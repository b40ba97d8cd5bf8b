"""While a class is graded the inputs are secret, and the verdicts are the same.

`salts.py` beside this file holds the proof. A probe makes its cases once a process, so what is
salted runs in processes of its own.
"""

from __future__ import annotations

import re
import secrets

import pytest
import salts

from amp_lessons.exercises.checks import draws
from amp_lessons.exercises.varied import Varied

pytestmark = pytest.mark.slow

QUICK = ("survives", "next_float", "choose_format", "stop_sinking")
SLOWER = ("kahan_sum", "StaticScaler")
MOST_NAMELESS = 20  # of about 2,000 wrong answers


@pytest.fixture
def salted(monkeypatch):
    """Salts this process; nothing that makes cases may be asked for meanwhile."""
    return lambda salt: monkeypatch.setattr(draws, "_salt", salt)


# ---- draws, and what may vary -------------------------------------------------------------------


def test_a_seed_is_itself_without_a_salt_and_another_one_under_each(salted):
    assert [draws.seed(number) for number in (0, 7, 2**31)] == [0, 7, 2**31]
    found = set()
    for salt in ("one", "another"):
        salted(salt)
        found |= {draws.seed(0), draws.seed(7)}
        assert draws.salted()
        assert draws.seed(7) == draws.seed(7)
    assert len(found - {0, 7}) == 4
    assert all(0 <= seed < 2**31 for seed in found)


def drawn(vary: Varied) -> list[object]:
    """A little of everything that may vary."""
    mixed = vary.mixed(list(range(20)))
    numbers = [vary.near(3.0), vary.near(0.0), vary.shifted(1.0), vary.more(5)]
    return [mixed, numbers, len(vary.extra(4)), vary.note(0.05)]


def test_nothing_varies_without_a_salt():
    assert drawn(Varied(1)) == [list(range(20)), [3.0, 0.0, 1.0, 5], 0, ""]


def test_under_a_salt_what_varies_stays_in_its_bounds(salted):
    salted("one")
    mixed, (near, zero, shifted, more), extra, note = drawn(Varied(1))
    assert mixed != list(range(20))
    assert sorted(mixed) == list(range(20))
    assert 2.7 <= near <= 3.3
    assert near != 3.0
    assert zero == 0.0
    assert shifted in [2.0**n for n in range(-3, 4)]
    assert 5 <= more <= 8
    assert (extra, note) == (4, " (numbers changed by up to 5%)")
    first = drawn(Varied(1))
    assert first == drawn(Varied(1)) != drawn(Varied(2))
    salted("another")
    assert first != drawn(Varied(1))


# ---- the exercises ------------------------------------------------------------------------------


def proved(names: tuple[str, ...], salt: str) -> int:
    """How many wrong answers get the general box and not their sentence; anything worse fails."""
    done = salts.run(names, salt, "--nameless")
    assert done.returncode == 0, f"under the salt {salt!r}:\n{done.stdout}{done.stderr[-3000:]}"
    (lost,) = re.findall(r"(\d+) answers without their name", done.stdout)
    return int(lost)


@pytest.mark.parametrize("names", [QUICK, SLOWER], ids=["quick", "slower"])
def test_exercises_keep_their_verdicts_under_a_salt(names):
    assert proved(names, "a salt") == 0


def test_the_proof_notices_evidence_that_passes_everywhere(monkeypatch):
    recorded = {"home": salts.record(["classify_faults"])}
    assert list(salts.problems("classify_faults", recorded)) == []
    monkeypatch.setattr(salts, "CONSTANT", {})
    (found,) = salts.problems("classify_faults", recorded)
    assert found == "classify_faults: what the solution gave under the salt 'home' passes"


def test_each_constant_answer_is_an_exercise_with_a_reason():
    assert salts.CONSTANT.keys() <= salts.EXERCISES.keys()
    assert all(len(reason.split()) > 5 for reason in salts.CONSTANT.values())


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_all_exercises_keep_their_verdicts_under_a_fresh_salt(number):
    assert proved(tuple(salts.EXERCISES), secrets.token_hex(8)) <= MOST_NAMELESS
