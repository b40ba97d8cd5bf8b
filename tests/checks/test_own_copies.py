"""What counts as using the course's own functions, as copying them, and as doing without them."""

from __future__ import annotations

import inspect
import re
import textwrap

import pytest

from amp_lessons import checks, course
from amp_lessons.checks.own_work import noticing, refusing, rooms, shape
from amp_lessons.formats import FP16, Format

NEXT_UP = ("amp_lessons.formats:Format.next_up",)
WATCHED = [
    info.name
    for lesson in course.LESSONS
    for info in lesson.exercises
    if checks.find(info.name).probe.own
]


def written(source: str, **names: object):
    """A learner's function from its source."""
    namespace = {**names}
    exec(compile(source, "<cell>", "exec"), namespace)
    return namespace["answer"]


def pasted() -> str:
    """The course's function as a learner may paste it: other names, no docstring, no class."""
    source = textwrap.dedent(inspect.getsource(Format.next_up))
    source = re.sub(r'""".*?"""', "", source, flags=re.DOTALL)
    for old, new in {"next_up": "answer", "self": "me", "value": "x", "nearest": "n"}.items():
        source = re.sub(rf"\b{old}\b", new, source)
    return "import math\n" + source


def test_a_copy_is_noticed_whatever_its_names():
    copy = written(pasted())
    with noticing(NEXT_UP) as used:
        assert copy(FP16, 1.0) == 1 + 2**-10
    assert used == ["Format.next_up"]


def test_another_function_is_no_copy():
    other = written(pasted().replace("if n > x", "if n >= x"))
    with noticing(NEXT_UP) as used:
        other(FP16, 1.0)
    assert used == []


def test_a_short_function_may_be_written_twice():
    assert shape(Format.next_down.__code__) == ""
    assert shape(Format.next_up.__code__)


@pytest.mark.parametrize("name", WATCHED)
def test_no_right_or_wrong_answer_of_the_course_is_taken_for_a_copy(name):
    exercise = checks.find(name)
    closed = rooms(tuple(exercise.probe.own))
    answers = [*exercise.secret.right.values()]
    answers += [each.source for m in exercise.secret.diagnosis.mistakes for each in m.answers]
    for source in answers:
        inside = [compile(source, "<cell>", "exec")]
        for code in inside:
            inside += [each for each in code.co_consts if inspect.iscode(each)]
            assert closed.copied_by(code) == "", source


def test_the_course_cannot_do_it_by_another_of_its_rooms():
    """The bit explorer decodes, and an answer that asks it has not."""
    source = """
from amp_lessons.formats import Format
from amp_lessons.widgets.bit_explorer import BitExplorer

def answer(code, exponent_bits, mantissa_bits):
    own = Format("own", exponent_bits, mantissa_bits)
    explorer = BitExplorer(format=own, formats=[own])
    explorer.code = int(code)
    return explorer.stored
"""
    exercise = checks.find("decode_bits")
    seen = exercise.probe.see(0, written(source))
    assert seen["used"] in ("Format.decode", "Format.fields")


def test_closed_functions_refuse_and_are_open_again_afterwards():
    with refusing(NEXT_UP):
        with pytest.raises(RuntimeError, match="closed here"):
            FP16.next_up(1.0)
        assert FP16.round(1.0) == 1.0
    assert FP16.next_up(1.0) == 1 + 2**-10
