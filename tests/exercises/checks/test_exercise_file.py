"""How a file of an exercise is read, and what is said of one that is not as it should be."""

from __future__ import annotations

import check_exercises
import pytest
from toy_topic import HEAD, PROBE, SECRET, WHOLE, secret, toy

from amp_lessons.exercises.checks.authoring.exercise_parser import (
    ExerciseFileError,
    cut_solution,
    public_part,
)


def test_the_parts_of_a_file(tmp_path):
    exercise = toy(tmp_path)
    assert exercise.hints == ("What is a square?", "Multiply.")
    assert exercise.lesson_learned == "A square is never negative."
    assert exercise.public.call == "square"
    assert "raise NotImplementedError()" in exercise.public.stub
    assert "y * y" not in exercise.public.stub
    assert exercise.solved() == (
        'def square(x):\n    """The square of a number."""\n    y = abs(x)\n    return y * y'
    )
    assert exercise.diagnoses["signed"] == (
        "You kept the sign of the number. Minus times minus is plus."
    )


def test_the_public_part_is_read_without_the_answer_key(tmp_path):
    exercise = toy(tmp_path, public_part(WHOLE))
    assert exercise.evidence_of(lambda x: x * x)[0] == {"value": 9}
    assert "y * y" not in exercise.path.read_text()
    verdict = exercise.evaluate(lambda x: x * x)
    assert verdict.check_failed
    assert "the answer key is not here" in verdict.message


def everything(tmp_path, text) -> tuple:
    half = secret(tmp_path, text)
    return half.diagnosis, half.passed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (WHOLE + "\n# %% worng doubled\n", "squares/square.py:61: no cell is called 'worng'. Take"),
        (WHOLE + "\n# %% hints\n# - x\n", "a cell 'hints' belongs to the public part. Move it"),
        (WHOLE + "\n# %% right power\n", "give each right answer its own name"),
        (WHOLE + "\n# %% wrong\n# You lost it.\n", "py:61: give it a name of its own, as in '# %%"),
        (
            WHOLE.replace('swap("y * y", "y + y")', 'swap("y*y", "y + y")'),
            "squares/square.py:38: this edit does not fit any more: 'y*y' stands there 0 times",
        ),
        (WHOLE.replace('swap("y * y", "y + y")', "x = 1"), ":38: below 'wrong' stand edits"),
        (WHOLE.replace('swap("y * y", "y + y")', "of('me', drop('y ='))"), "is no edit of a right"),
        (HEAD + SECRET, "has 0 cells '# %% probe'; write one"),
        (WHOLE.replace("# %% passed\n# A square is never negative.", ""), "0 cells '# %% passed'"),
        (HEAD + PROBE.replace("\nprobe = ", "\nprope = ") + SECRET, "define `probe = Probe"),
        (WHOLE + "\n# %% rule big\n# Too big.\nx = 1\n", "define `breaks"),
        (HEAD + PROBE + "\n# %% program x\n", "put a cell 'wrong' above this program"),
    ],
    ids=range(12),
)
def test_a_file_that_is_not_right_names_line_and_cure(tmp_path, text, message):
    with pytest.raises(ExerciseFileError) as refused:
        everything(tmp_path, text)
    assert message in str(refused.value)


def found(tmp_path, text, check) -> str:
    return "\n".join(check(toy(tmp_path, text)))


@pytest.fixture(autouse=True)
def _fresh(monkeypatch, tmp_path):
    """The tool knows exercises by name; here the name is that of the file in the test's folder."""
    monkeypatch.setattr(check_exercises, "find_exercise", lambda name: toy(tmp_path, _now["text"]))
    check_exercises.entries.cache_clear()
    yield
    check_exercises.entries.cache_clear()


_now = {"text": WHOLE}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("", ""), ""),
        (("# - Multiply.\n", ""), "square.py: has 1 hints; write at least two"),
        (("# A square is never negative.", "#"), "the cell 'passed' is empty"),
        (
            ("# %% right power\ndef square(x):\n    return x**2", "# %% wrong z\n# Z."),
            "has no other right answer; write one in another way, '# %% right NAME'",
        ),
        (("# You added one.\n", ""), "'one-too-many' has no sentence; write one as a comment"),
        (("# %% wrong signed", "# %% wrong doubled"), "'doubled' stands there twice"),
        (("return x**2", "return x**3"), "the right answer power does not pass but is wrong"),
        (
            ('swap("y * y", "y + y")', 'swap("y = abs(x)", "y = x")'),
            "swap('y = abs(x)', 'y = x') passes; it changes nothing that a case shows",
        ),
        (
            ('"y + y")', '"6.0 if y == 4 else y * y")'),
            "should earn 'doubled' and gets 'wrong-value' (wrong in 1 cases",
        ),
        (
            ('swap("y * y", "x * y")', 'swap("y * y", "2 * y")'),
            "does the same as swap('y * y', 'y + y') at squares/square.py:38",
        ),
        (
            ("# %% program twice\ndef square(x):\n    return 2 * abs(x)\n", ""),
            "square.py:36: 'doubled' is earned only by the edits that model it",
        ),
    ],
    ids=range(11),
)
def test_the_tool_names_what_is_missing_and_its_cure(tmp_path, change, message):
    _now["text"] = WHOLE.replace(*change) if change[0] else WHOLE
    problems = check_exercises.problems("square")
    if not message:
        assert problems == []
    assert message in "\n".join(problems)


@pytest.mark.parametrize(
    ("sentence", "message"),
    [
        ("You simply added one.", "square.py:57: 'simply': leave it out"),
        (f"You added one{' and one' * 17}.", "square.py:56: 37 words, over 35: You added one and"),
    ],
)
def test_a_sentence_that_is_not_plain_is_refused(tmp_path, sentence, message):
    _now["text"] = WHOLE.replace("You added one.", sentence)
    (problem,) = check_exercises.problems("square", (check_exercises.words,))
    assert problem.startswith(message)


def test_a_long_file_is_refused(tmp_path):
    _now["text"] = WHOLE + "\n" * 400
    assert "over 350; write programs as edits" in "\n".join(check_exercises.problems("square"))


def test_two_mistakes_that_take_too_long_are_found(tmp_path, monkeypatch):
    _now["text"] = WHOLE
    ticks = iter(range(0, 10_000, 6))
    monkeypatch.setattr(check_exercises.time, "process_time", lambda: next(ticks))
    problems = check_exercises.problems("square", (check_exercises.two_at_once,))
    assert problems
    assert "together take over 5 s; say pairs=False" in problems[0]


@pytest.mark.parametrize(
    "answer",
    [
        "def square(x):\n    ### BEGIN SOLUTION\n    return 1",
        "def square(x):\n    return 1\n    ### END SOLUTION",
        "def square(x):\n    ### END SOLUTION\n    ### BEGIN SOLUTION",
    ],
)
def test_a_marker_without_its_other_half_is_refused(tmp_path, answer):
    start, end = WHOLE.index("def square"), WHOLE.index("# %% hints")
    with pytest.raises(ExerciseFileError, match=r"square.py:\d+: an answer needs .* as a pair"):
        secret(tmp_path, f"{WHOLE[:start]}{answer}\n\n{WHOLE[end:]}")


def test_cut_keeps_indentation_and_everything_around():
    source = (
        "class A:\n    def f(self):\n        ### BEGIN SOLUTION\n        return 1\n"
        "        ### END SOLUTION\n\n    def g(self): ...\n"
        "x = ...\n### BEGIN SOLUTION\nx = 2\n### END SOLUTION\n"
    )
    assert cut_solution(source) == (
        "class A:\n    def f(self):\n        # YOUR CODE HERE\n"
        "        raise NotImplementedError()\n\n    def g(self): ...\nx = ...\n"
    )
