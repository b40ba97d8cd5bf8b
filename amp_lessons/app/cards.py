"""What the home page shows of a learner's progress, as HTML: what is next, the paths, the lessons.

Every function takes the progress and gives text, and `home` puts that on the page. The look is in
`home.css`. Nothing here says by colour alone what a lesson's state is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape
from posixpath import relpath

from amp_lessons.core.catalogue import HOME, LESSONS, PATHS, LearningPath, Lesson
from amp_lessons.core.progress import Progress
from amp_lessons.core.standing import (
    Step,
    chosen_path,
    core_passes,
    next_step,
    passes,
    state_of,
)
from amp_lessons.core.states import look

WORDS = {"done": "Done", "started": "Started", "open": "Not started"}
BY_HAND = (
    "In the JupyterLab that <code>amp-lessons lab</code> opens, this page runs by itself. "
    "Elsewhere, run its cells: Run &gt; Run All Cells."
)
WHOLE_COURSE = "The whole course"


def is_new(done: Progress) -> bool:
    """Whether nothing has been done yet. The page then says nothing about progress."""
    return all(state_of(lesson, done) == "open" for lesson in LESSONS)


# ---- what is next -------------------------------------------------------------------------------


def way_in(done: Progress, *, live: bool) -> str:
    """The one large link to what is next, how far the learner is, and the heading of the paths.

    Args:
        done: what has been recorded.
        live: whether the page keeps up with the learner, or was stored when the course was opened.
    """
    step, told = next_step(done), _how_far(done, live)
    if step is None:
        link = "<p><strong>You have finished every lesson.</strong></p>"
    else:
        verb = "Start" if is_new(done) else "Continue"
        link = (
            f'<p><a class="amp-go" href="{_to(step.notebook)}">{verb}: {escape(str(step))}</a></p>'
        )
    lines = [told, "" if live else BY_HAND]
    below = "".join(f'<p class="amp-below">{line}</p>' for line in lines if line)
    return _on_page(f"{link}{below}<h2>How much time do you have?</h2>")


def _how_far(done: Progress, live: bool) -> str:
    if is_new(done):
        step = next_step(done)
        return f"It takes {step.lesson.minutes} minutes." if step else ""
    lessons = f"{_finished(LESSONS, done)} of {len(LESSONS)} lessons"
    passed = sum(passes(lesson, done) for lesson in LESSONS)
    exercises = f"{passed} of {sum(len(lesson.exercises) for lesson in LESSONS)} exercises"
    when = "You have" if live else "When you opened the course, you had"
    told = f"{when} finished {lessons} and passed {exercises}."
    path = chosen_path(done)
    if path is None:
        return told
    on_path = f"{_finished(path.lessons, done)} of its {len(path.lessons)} lessons"
    return f"{told} You follow the {path.name}, and {on_path} are done."


def _finished(lessons: Iterable[Lesson], done: Progress) -> int:
    return sum(state_of(lesson, done) == "done" for lesson in lessons)


# ---- the paths ----------------------------------------------------------------------------------


def path_options() -> list[dict[str, str]]:
    """What there is to choose from: the paths, and the whole course, which has no key."""
    options = [
        {"key": path.key, "title": path.title, "time": _content(path), "goal": f"{path.goal}."}
        for path in PATHS
    ]
    exercises = [info for lesson in LESSONS for info in lesson.exercises]
    minutes = sum(each.minutes for each in LESSONS) + sum(each.minutes for each in exercises)
    return [
        *options,
        {
            "key": "",
            "title": WHOLE_COURSE,
            "time": f"{len(LESSONS)} lessons, {len(exercises)} exercises, {_hours(minutes)}",
            "goal": "Everything, in the order of its numbers.",
        },
    ]


def _content(path: LearningPath) -> str:
    core = sum(len(lesson.core) for lesson in path.lessons)
    parts = _count(len(path.lessons), "lesson"), _count(core, "core exercise"), _hours(path.minutes)
    return ", ".join(parts)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _hours(minutes: int) -> str:
    return f"{minutes} minutes" if minutes <= 120 else f"about {round(minutes / 60)} hours"


def path_list(done: Progress) -> str:
    """The paths as a list, for a page that is stored or has no widgets: nothing can be chosen."""
    path = chosen_path(done)
    chosen = path.key if path else ""
    cards = []
    for option in path_options():
        mark = '<p class="amp-state"><span aria-hidden="true">✔</span> Your path</p>'
        cards.append(
            f'<li class="amp-path"><p class="amp-title">{escape(option["title"])}</p>'
            f'<p class="amp-time">{escape(option["time"])}</p><p>{escape(option["goal"])}</p>'
            f"{mark if chosen and option['key'] == chosen else ''}</li>"
        )
    return _on_page(f'<ul class="amp-paths">{"".join(cards)}</ul>')


# ---- the lessons --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Group:
    """Cards under a heading.

    Args:
        title: the heading.
        lessons: in order.
        path: whose steps they are, or None.
    """

    title: str
    lessons: tuple[Lesson, ...]
    path: LearningPath | None = None


def lessons(done: Progress) -> str:
    """A card for each lesson. Those on the learner's path come first."""
    path = chosen_path(done)
    if path is None:
        groups = [_Group("Lessons", LESSONS)]
    else:
        rest = tuple(lesson for lesson in LESSONS if lesson not in path.lessons)
        groups = [_Group(f"Your path: {path.title}", path.lessons, path)]
        groups += [_Group("More lessons", rest)] if rest else []
    step = None if is_new(done) else next_step(done)
    parts = []
    for group in groups:
        cards = "".join(_card(lesson, done, group.path, step) for lesson in group.lessons)
        parts.append(f'<h2>{escape(group.title)}</h2><ul class="amp-cards">{cards}</ul>')
    return _on_page("".join(parts))


def _card(lesson: Lesson, done: Progress, path: LearningPath | None, step: Step | None) -> str:
    state = state_of(lesson, done)
    is_next = step is not None and step.lesson == lesson
    facts = [_facts(lesson, done)]
    if lesson.exercises:
        facts.append(_sheet(lesson, done))
    if lesson.deep:
        link = _link(lesson.deep_notebook, f"Optional: {lesson.deep.title}")
        facts.append(f"{link}, {lesson.deep.minutes} min")
    where = " · ".join(filter(None, [_next(step) if is_next else "", _stage(lesson, path)]))
    current = ' aria-current="step"' if is_next else ""
    return "".join(
        [
            f'<li class="amp-card" data-state="{state}"{current}>',
            f'<p class="amp-where">{escape(where)}</p>' if where else "",
            f'<a class="amp-title" href="{_to(lesson.notebook)}">',
            f'<span class="amp-number">{lesson.number:02}</span> {escape(lesson.title)}</a>',
            f"<p>{escape(lesson.goal[:1].upper() + lesson.goal[1:])}.</p>",
            f'<div class="amp-facts">{"".join(f"<p>{fact}</p>" for fact in facts)}</div></li>',
        ]
    )


def _next(step: Step | None) -> str:
    return "Next: the exercises" if step and step.is_sheet else "Next"


def _facts(lesson: Lesson, done: Progress) -> str:
    """The first line below a card's text: its state, and its minutes."""
    time = f"{lesson.minutes} min"
    if is_new(done):
        return time
    state = state_of(lesson, done)
    symbol = f'<span aria-hidden="true">{look(state).symbol}</span>'
    return f'<span class="amp-state">{symbol} {WORDS[state]}</span> · {time}'


def _sheet(lesson: Lesson, done: Progress) -> str:
    """The link to a lesson's exercises: how many of the core have passed, and how many more."""
    minutes = sum(info.minutes for info in lesson.core)
    words = _count(len(lesson.core), "core exercise")
    if not is_new(done):
        words = f"{core_passes(lesson, done)} of {words} passed"
    more = len(lesson.exercises) - len(lesson.core)
    return f"{_link(lesson.sheet, words)}, {minutes} min{f', and {more} more' if more else ''}"


def _stage(lesson: Lesson, path: LearningPath | None) -> str:
    stages = path.stages if path else ()
    return next((stage.title for stage in stages if lesson.slug in stage.lessons), "")


# ---- inside -------------------------------------------------------------------------------------


def _on_page(content: str) -> str:
    return f'<div class="amp-home">{content}</div>'


def _link(path: str, text: str) -> str:
    return f'<a href="{_to(path)}">{escape(text)}</a>'


def _to(path: str) -> str:
    """The address of a file of the course, from the home page."""
    return relpath(path, HOME.rpartition("/")[0])
