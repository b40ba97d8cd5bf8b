"""What the box says after a pass: how far the learner is, and where to go on."""

from __future__ import annotations

from amp_lessons.core import progress
from amp_lessons.core.catalogue import exercise_info, lesson_called
from amp_lessons.core.output_box import Links
from amp_lessons.exercises.checks.display import after_a_pass

LESSON = lesson_called("training_loops")


def passed(name: str) -> Links:
    progress.record_check(name, "passed")
    return after_a_pass(exercise_info(name), progress.load())


def labels(links: Links) -> list[str]:
    return [label for label, _ in links.to]


def test_the_core_leads_from_one_exercise_to_the_next_and_then_to_the_next_lesson():
    first, second, third = (info.name for info in LESSON.core)
    output = passed(first)
    assert (output.text, len(labels(output))) == ("1 of 3 core exercises. Next: ", 1)
    assert labels(output)[0].startswith("2. ")
    assert labels(passed(third))[0].startswith("2. "), "the one that was left out"
    output = passed(second)
    assert output.text == "3 of 3 core exercises. Next: "
    assert labels(output)[0] == "lesson 08, Losses, norms and your own ops"
    assert labels(output)[1].startswith("4. "), "more practice comes after it"


def test_more_practice_leads_back_to_a_core_exercise_that_is_open():
    more = LESSON.exercises[5].name
    output = passed(more)
    assert output.text == f"1 of {len(LESSON.exercises)} in this lesson. Next: "
    assert labels(output)[0].startswith("1. ")
    for info in LESSON.core:
        passed(info.name)
    output = after_a_pass(exercise_info(more), progress.load())
    assert labels(output)[0].startswith("7. ")
    assert labels(output)[1] == "lesson 08, Losses, norms and your own ops"
