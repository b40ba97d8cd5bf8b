"""Where a learner stands, and what is next: in the course, or on the path that they chose."""

from __future__ import annotations

from itertools import pairwise

import pytest

from amp_lessons.core import progress
from amp_lessons.core.catalogue import LESSONS, PATHS, UnknownPath, find_path, lesson_called
from amp_lessons.core.progress import Progress
from amp_lessons.core.standing import (
    Step,
    chosen_path,
    next_step,
    solved,
    state_of,
    step_after,
    steps_of,
    ways_on,
)


def pass_all(slug: str) -> None:
    for info in lesson_called(slug).exercises:
        progress.record_check(info.name, "passed")


def slug_of(step: Step | None) -> str:
    assert step is not None
    return step.lesson.slug


def test_a_lesson_is_done_by_its_last_cell_or_by_its_exercises():
    lesson = lesson_called("grad_scaler")
    assert state_of(lesson, Progress()) == "open"
    assert state_of(lesson, progress.record_check("clip_step", "wrong")) == "started"
    assert state_of(lesson, progress.record_check("clip_step", "passed")) == "started"
    assert state_of(lesson, progress.record_lesson("grad_scaler")) == "done"
    progress.forget([info.name for info in lesson.exercises])
    pass_all("memory")
    assert state_of(lesson_called("memory"), progress.load()) == "done"


def test_a_sheet_is_solved_when_each_exercise_has_passed_or_was_given_up():
    lesson = lesson_called("how_numbers_break")
    first, *others = lesson.exercises
    for info in others:
        progress.record_check(info.name, "passed")
    assert not solved(lesson, progress.load())
    assert solved(lesson, progress.record_give_up(first.name))


# ---- in the order of the course -----------------------------------------------------------------


def test_the_next_lesson_is_the_one_that_was_started():
    assert next_step(Progress()) == Step(LESSONS[0])
    progress.record_lesson("amp_in_20_minutes")
    assert slug_of(next_step(progress.load())) == "number_formats"
    progress.record_check("clip_step", "wrong")
    assert slug_of(next_step(progress.load())) == "grad_scaler"
    for lesson in LESSONS:
        progress.record_lesson(lesson.slug)
    assert next_step(progress.load()) is None


def test_after_a_lesson_comes_the_one_with_the_next_number():
    for lesson, following in pairwise(LESSONS):
        assert step_after(lesson, Progress()) == Step(following)
    assert step_after(LESSONS[-1], Progress()) is None


# ---- on a path ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.key)
def test_who_follows_next_walks_the_whole_path_and_then_the_course(path):
    progress.choose_path(path.key)
    walked = []
    while (step := next_step(progress.load())) not in walked:
        assert step is not None
        walked.append(step)
        if step.is_sheet:
            pass_all(step.lesson.slug)
        else:
            progress.record_lesson(step.lesson.slug)
        if len(walked) == len(list(steps_of(path))):
            break
    assert walked == list(steps_of(path))
    assert tuple(step.lesson for step in walked if not step.is_sheet) == path.lessons
    sheets = [step.lesson for step in walked if step.is_sheet]
    assert sheets == [lesson for lesson in path.lessons if lesson.core]
    left = next((x for x in LESSONS if x not in path.lessons), None)
    assert next_step(progress.load()) == (Step(left) if left else None)


def test_a_path_leads_even_where_another_lesson_was_started():
    progress.choose_path("3-hour")
    progress.record_check("next_float", "wrong")
    assert slug_of(next_step(progress.load())) == "amp_in_20_minutes"
    progress.choose_path(None)
    assert slug_of(next_step(progress.load())) == "number_formats"


def test_after_a_lesson_the_path_goes_on_from_there():
    progress.choose_path("3-hour")
    progress.record_lesson("autocast_ops")
    sheet = Step(lesson_called("autocast_ops"), is_sheet=True)
    following = Step(lesson_called("grad_scaler"))
    assert ways_on(lesson_called("autocast_ops"), progress.load()) == (sheet, following)
    pass_all("autocast_ops")
    assert ways_on(lesson_called("autocast_ops"), progress.load()) == (following,)
    assert slug_of(step_after(lesson_called("autocast_ops"), progress.load())) == "grad_scaler"
    pass_all("grad_scaler")
    assert slug_of(step_after(lesson_called("grad_scaler"), progress.load())) == "amp_in_20_minutes"


@pytest.mark.parametrize("stored", ["nope", "", "1-week"])
def test_an_unknown_choice_counts_as_none(stored):
    done = Progress(path=stored)
    assert chosen_path(done) is None
    assert next_step(done) == Step(LESSONS[0])


@pytest.mark.parametrize("name", ["1-day", "1 day", "1-day path", "1 Day"])
def test_a_path_is_found_by_any_of_its_names(name):
    assert find_path(name).title == "1 day"


def test_an_unknown_path_is_told_with_those_that_there_are():
    with pytest.raises(UnknownPath, match="half-hour, 3-hour, 1-day, interview"):
        find_path("1-week")
