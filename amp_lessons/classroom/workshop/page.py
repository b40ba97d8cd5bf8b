"""A plan as a Markdown page, complete enough to teach from.

What a page says about a lesson is taken from the lesson: its sections, what its cells print, its
questions with the reason for each answer, and the minutes of its exercises.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from amp_lessons.classroom.workshop import reading
from amp_lessons.classroom.workshop.model import (
    BlockStep,
    Checklist,
    Slot,
    Stuck,
    WorkshopPlan,
    clock,
)
from amp_lessons.classroom.workshop.sections import needed_first, sections
from amp_lessons.classroom.workshop.sentences import PlanError, help_with, sentence
from amp_lessons.core import catalogue
from amp_lessons.core.catalogue import Lesson
from amp_lessons.quiz import bank
from amp_lessons.quiz.items import ChoiceItem, NumberItem
from amp_lessons.quiz.marking import NAMES, with_unit

KIND_NAMES = {
    "talk": "talk",
    "demo": "show and vote",
    "poll": "votes",
    "exercise": "exercise",
    "break": "break",
}
MOST_LINES = 24
"""Of what a section's cells print. No section of a plan prints more; one that did would be cut."""
_LINK = re.compile(r"\[([^\]]+)\]\((lesson|sheet):([^)]+)\)")


@dataclass(frozen=True)
class CourseLinks:
    """The way from a page to the course's files.

    Args:
        course: the folder that holds ``notebooks/``, as the page sees it, with a slash.
    """

    course: str = ""

    def lesson(self, lesson: Lesson, text: str = "") -> str:
        return f"[{text or f'lesson {lesson.number:02}'}]({self.course}{lesson.notebook})"

    def sheet(self, lesson: Lesson, text: str = "") -> str:
        return f"[{text or f'exercises {lesson.number:02}'}]({self.course}{lesson.sheet})"

    def section(self, lesson: Lesson, heading: str) -> str:
        anchor = catalogue.heading_anchor(heading)
        return f"[{heading}]({self.course}{lesson.notebook}#{anchor})"

    def exercise(self, name: str) -> str:
        """A link to an exercise's heading in its sheet."""
        lesson, title = catalogue.lesson_of(name), numbered_title(name)
        return f"[{title}]({self.course}{lesson.sheet}#{catalogue.heading_anchor(title)})"

    def expand(self, text: str) -> str:
        """The text with its links written out. Raises `PlanError`."""
        return _LINK.sub(self._one, text)

    def _one(self, match: re.Match[str]) -> str:
        text, kind, name = match.groups()
        try:
            lesson = catalogue.lesson_called(name)
        except KeyError:
            raise PlanError(f"a link names the lesson {name!r}, which doesn't exist") from None
        return self.lesson(lesson, text) if kind == "lesson" else self.sheet(lesson, text)


def numbered_title(exercise: str) -> str:
    """An exercise's heading in its sheet: ``"2. Log the skips of a run"``."""
    infos = catalogue.lesson_of(exercise).exercises
    number = [info.name for info in infos].index(exercise) + 1
    return f"{number}. {infos[number - 1].title}"


def markdown(plan: WorkshopPlan, start: int | None = None) -> str:
    """The whole page, for a place beside the learner's folders.

    Args:
        plan: what to teach.
        start: minutes after midnight. Without it, times count from the beginning.
    """
    slots, links = plan.slots(start or 0), CourseLinks()
    parts = [*_head(plan, links), *_glance(plan, slots), *_lists("before", plan, links)]
    parts += _lists("votes", plan, links)
    first = run_first(plan)
    for number, slot in enumerate(slots, start=1):
        parts += _block(number, slot, links, first)
    parts += [*_lists("after", plan, links), "### Homework", links.expand(plan.homework)]
    parts += _questions(plan, links)
    return "\n\n".join(parts) + "\n"


# ---- the top -------------------------------------------------------------------------------------


def _head(plan: WorkshopPlan, links: CourseLinks) -> Iterator[str]:
    lessons = ", ".join(links.lesson(lesson, f"{lesson.number:02}") for lesson in plan.lessons)
    yield f"# Workshop: {plan.title}"
    yield (
        "**Nobody has taught this plan in a room yet.** The minutes of the exercises are those "
        "that their sheets give. All other minutes are estimates."
    )
    yield f"After it, everybody can {plan.goal}."
    yield f"**For whom.** {plan.who}"
    yield (
        f"**What is in it.** Lessons {lessons}, {len(plan.polls)} votes, {len(plan.exercises)} "
        f"exercises ({plan.solving} minutes) and {plan.minutes('break')} minutes of breaks. In the "
        f"parts called *{KIND_NAMES['demo']}*, people run the lesson's cells themselves."
    )
    yield f"**What it leaves out.** {links.expand(plan.leaves_out)}"
    yield (
        f"`amp-lessons workshop {plan.name} --start 9:00` prints the timetable with your times. "
        "Other lengths: " + _others(plan) + "."
    )
    yield (
        "*Made by `amp-lessons workshop` from the plans in `amp_lessons/classroom/workshop/`, the "
        "lessons and the question bank.*"
    )


def _others(plan: WorkshopPlan) -> str:
    names = [name for name in reading.NAMES if name != plan.name]
    return " and ".join(f"`amp-lessons workshop {name}`" for name in names)


def _glance(plan: WorkshopPlan, slots: Iterable[Slot]) -> Iterator[str]:
    yield "## At a glance"
    rows = ["| | time | part | what it is | minutes | can save |", "|---:|---:|---|---|---:|---:|"]
    for number, slot in enumerate(slots, start=1):
        block = slot.block
        saves = str(block.saves) if block.saves else ""
        rows.append(
            f"| {number} | {clock(slot.start)} | {block.title} | {KIND_NAMES[block.kind]} | "
            f"{block.length} | {saves} |"
        )
    yield "\n".join(rows)
    yield "*Can save* says how many minutes you gain if you do what a part says under *Late*."
    titles = {block.id: (block.title, block.length) for block in plan.blocks}
    gone = " and ".join(f"*{titles[name][0]}*" for name in plan.behind)
    gained = sum(titles[name][1] for name in plan.behind)
    lost = f"**If you have lost more than that:** leave out {gone} ({gained} minutes)."
    yield f"{lost} {plan.behind_say}"


PLACES = {"before": "Before the day", "votes": "", "after": "After the day"}


def _lists(place: str, plan: WorkshopPlan, links: CourseLinks) -> Iterator[str]:
    if PLACES[place]:
        yield f"## {PLACES[place]}"
    for each in reading.around().lists:
        if each.place == place:
            yield f"{'###' if PLACES[place] else '##'} {each.title}"
            yield "\n".join(_items(each, plan, links))


def _items(checklist: Checklist, plan: WorkshopPlan, links: CourseLinks) -> Iterator[str]:
    names = {
        "plan": plan.name,
        "hours": str(plan.hours),
        "reading": str(sum(lesson.minutes for lesson in plan.lessons)),
        "solving": str(plan.solving),
        "lessons": "lessons " + _and(links.lesson(x, f"{x.number:02}") for x in plan.lessons),
        "sheets": _and(links.sheet(x, f"{x.number:02}") for x in plan.sheets),
    }
    for number, item in enumerate(checklist.items, start=1):
        text = re.sub(r"\{(\w+)\}", lambda match: names[match[1]], links.expand(item))
        yield f"{number}. {text}" if checklist.place == "votes" else f"- [ ] {text}"


def _and(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


# ---- a block -------------------------------------------------------------------------------------


def run_first(plan: WorkshopPlan) -> dict[tuple[str, str], tuple[str, ...]]:
    """The sections whose cells must run before a step that needs them, though the plan skips them.

    Returns:
        Headings by the ids of the block and the step.
    """
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for lesson in plan.lessons:
        shown = [
            ((block.id, step.id), step.heading)
            for block in plan.blocks
            for step in block.steps
            if block.lesson == lesson.slug and step.heading
        ]
        needed = needed_first(lesson, [heading for _, heading in shown])
        found |= {ids: needed[heading] for ids, heading in shown if heading in needed}
    return found


def run_first_says(skipped: Sequence[str]) -> str:
    """What to do about sections that `run_first` found, in Markdown; "" if there are none."""
    if not skipped:
        return ""
    return (
        f"**Run first.** This section needs cells of {_and(f'*{each}*' for each in skipped)}, "
        "which we skip. Click on the heading of this section, then *Run → Run All Above Selected "
        "Cell*. It can take a minute, so start it before you explain."
    )


def _block(
    number: int, slot: Slot, links: CourseLinks, first: dict[tuple[str, str], tuple[str, ...]]
) -> Iterator[str]:
    block = slot.block
    lesson = catalogue.lesson_called(block.lesson) if block.lesson else None
    yield f"## {number}. {block.title}"
    open_ = "" if lesson is None else f" Open {links.lesson(lesson)}"
    if lesson is not None and block.exercises:
        open_ = f" Open {links.sheet(lesson)}"
    yield (
        f"*{KIND_NAMES[block.kind].capitalize()}, {block.length} minutes, {clock(slot.start)} to "
        f"{clock(slot.end)}.*{open_}{'.' if open_ else ''}"
    )
    if block.kind == "break":
        yield block.goal
        return
    yield f"**Goal.** {block.goal}"
    for slug, told in block.told.items():
        skipped = catalogue.lesson_called(slug)
        yield f"**Say first**, since we skip {links.lesson(skipped)}: {told}"
    for step in block.steps:
        yield from _step(step, lesson, links, first.get((block.id, step.id), ()))
    if block.stuck:
        yield "### Where people may get stuck"
        yield "\n".join(_stuck(stuck, links) for stuck in block.stuck)


def _step(
    step: BlockStep, lesson: Lesson | None, links: CourseLinks, first: tuple[str, ...]
) -> Iterator[str]:
    yield f"### {_step_title(step)} · {step.length} minutes"
    if step.heading and lesson is not None:
        yield f"**Show** the section {links.section(lesson, step.heading)}{_widgets(step, lesson)}."
        if first:
            yield run_first_says(first)
    if step.exercise:
        of = catalogue.lesson_of(step.exercise)
        yield (
            f"**Everybody solves** {links.exercise(step.exercise)} in {links.sheet(of)}, "
            f"`{step.exercise}`."
        )
    yield links.expand(step.say)
    if step.poll:
        yield from poll(step.poll)
    if step.then:
        when = "Meanwhile" if step.exercise else "Then"
        yield f"**{when}.** {links.expand(step.then)}"
    if step.heading and lesson is not None:
        yield from _printed(step, lesson)
    if step.more:
        more = [f"{links.exercise(name)} (`{name}`)" for name in step.more]
        yield f"**Done early?** {_and(more)}."
    if step.exercise:
        yield from _hints_and_answer(step.exercise)
    if step.late:
        minutes = "1 minute" if step.saves == 1 else f"{step.saves} minutes"
        yield f"**Late?** {step.late} It saves {minutes}."


def _step_title(step: BlockStep) -> str:
    if step.exercise:
        return f"Exercise: {catalogue.exercise_info(step.exercise).title}"
    return step.heading or step.title or "A vote"


def _widgets(step: BlockStep, lesson: Lesson) -> str:
    """The widgets of a section, which have no stored picture."""
    found = next(each for each in sections(lesson) if each.heading == step.heading).widgets
    names = _and(f"`{name}`" for name in found) if found else ""
    return f", which has the widget {names}" if names else ""


def _printed(step: BlockStep, lesson: Lesson) -> Iterator[str]:
    """What the section's cells print where the course was built: on a CPU."""
    section = next(each for each in sections(lesson) if each.heading == step.heading)
    lines = [line for cell in section.cells for line in cell.shown]
    if not lines:
        return
    if len(lines) > MOST_LINES:
        lines = [*lines[:MOST_LINES], "…"]
    yield "<details><summary>What the cells show, on a CPU</summary>"
    yield "\n".join(f"    {line}".rstrip() for line in lines)
    yield "</details>"


def _hints_and_answer(exercise: str) -> Iterator[str]:
    """For the instructor's eyes. The solutions of the course are public anyway."""
    hints, answer = help_with(exercise)
    yield "<details><summary>Its hints, and a right answer</summary>"
    yield "\n".join(f"{number}. {hint}" for number, hint in enumerate(hints, start=1))
    yield "A right answer:"
    yield "\n".join(f"    {line}".rstrip() for line in answer.splitlines())
    yield "</details>"


def _stuck(stuck: Stuck, links: CourseLinks) -> str:
    if stuck.exercise:
        where = f"In `{stuck.exercise}`, the check says: “{sentence(stuck)}”"
    else:
        answer = stuck.answer
        shown = answer if isinstance(answer, str) else with_unit(answer, "")
        where = f"Somebody voted “{shown}”."
    return f"- {where} **What helps:** {links.expand(stuck.say)}"


# ---- polls and questions -------------------------------------------------------------------------


def poll(name: str) -> Iterator[str]:
    """A question for a room: its text with all options, and the answer in a fold."""
    item = bank.load().find(name)
    yield f"**Vote** (`{name}`). {item.prompt}"
    for text in (getattr(item, "code", ""), getattr(item, "log", "")):
        if text:
            yield "\n".join(f"    {line}".rstrip() for line in text.strip("\n").splitlines())
    if isinstance(item, ChoiceItem):
        yield from _choices(item)
    elif isinstance(item, NumberItem):
        yield from _numbers(item)


def _choices(item: ChoiceItem) -> Iterator[str]:
    options = list(zip(NAMES, item.choices, strict=False))
    yield "\n".join(f"- **{name}** {choice.text}" for name, choice in options)
    right = _and(name for name, choice in options if choice.right)
    yield f"<details><summary>Answer: {right}. The reason for each option</summary>"
    yield "\n".join(
        f"- **{name}{', right' if choice.right else ''}:** {choice.why}" for name, choice in options
    )
    if item.explanation.strip():
        yield item.explanation.strip()
    yield "</details>"


def offered(item: NumberItem) -> list[float]:
    """The numbers to offer a room: the answer among the wrong ones that people arrive at."""
    return sorted([item.answer, *(mistake.value for mistake in item.mistakes)])


def _numbers(item: NumberItem) -> Iterator[str]:
    numbers = [with_unit(value, item.unit) for value in offered(item)]
    yield f"Everybody writes a number down. Then ask for hands: {', '.join(numbers)}, another one."
    yield f"<details><summary>Answer: {with_unit(item.answer, item.unit)}</summary>"
    yield "\n".join(f"- **{with_unit(m.value, item.unit)}:** {m.why}" for m in item.mistakes)
    yield item.explanation.strip()
    yield "</details>"


def _questions(plan: WorkshopPlan, links: CourseLinks) -> Iterator[str]:
    yield "## Questions from the evening before"
    yield "These came up when we read the plan as somebody who has to teach it tomorrow."
    for each in reading.around().questions:
        if not each.plans or plan.name in each.plans:
            yield f"**{each.ask}** {links.expand(each.answer)}"


# ---- for a browser -------------------------------------------------------------------------------

_FRAME = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ max-width: 46rem; margin: 2rem auto; padding: 0 1rem; line-height: 1.5; }}
body {{ font-family: system-ui, sans-serif; }}
table {{ display: block; overflow-x: auto; border-collapse: collapse; }}
td, th {{ padding: 0.25rem 0.6rem; border: 1px solid #8888; text-align: left; }}
pre {{ overflow-x: auto; padding: 0.6rem; border: 1px solid #8888; }}
@media print {{ h2 {{ break-before: page; }} }}
</style>
{body}</html>
"""


def as_html(plan: WorkshopPlan, start: int | None = None) -> str:
    """The same page as one HTML file: light, dark and on paper. A browser opens no notebooks, so it
    names lessons without links."""
    from markdown_it import MarkdownIt

    text = re.sub(r"\[([^\]]+)\]\((?!https?:)[^)\s]+\)", r"\1", markdown(plan, start))
    body = MarkdownIt("commonmark").enable("table").render(text)
    return _FRAME.format(title=f"Workshop: {plan.title}", body=body)
