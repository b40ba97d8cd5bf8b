"""The slides of a workshop plan: the sections that it shows, its votes and exercises, in its order.

What the plan says to the instructor is in the speaker notes. A lesson's sections and questions that
the plan leaves out are left out here too. The hints and answers stay on the page to teach from.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator

from amp_lessons.classroom.slides import blocks, cutting, deck, polls
from amp_lessons.classroom.slides.cutting import Slide
from amp_lessons.classroom.slides.deck import Deck
from amp_lessons.classroom.slides.parts import Part, Poll, Text
from amp_lessons.classroom.workshop import page, sections
from amp_lessons.classroom.workshop.model import BlockStep, WorkshopBlock, WorkshopPlan
from amp_lessons.core import catalogue
from amp_lessons.core.catalogue import Lesson
from amp_lessons.quiz import bank
from amp_lessons.quiz.items import ChoiceItem, NumberItem


def make(plan: WorkshopPlan) -> Deck:
    """Cut what a plan shows into slides: a section for each of its blocks.

    Raises:
        NotebookError: if a lesson's notebook is missing or broken, with its path.
    """
    first, links = page.run_first(plan), page.CourseLinks()
    made = [[_title(plan)]]
    for block in plan.blocks:
        found: list[Slide] = []
        for step in block.steps:
            slides = list(_step(step, block, plan.title))
            told = page.run_first_says(first.get((block.id, step.id), ()))
            slides[0].notes[:0] = map(blocks.to_html, (told, links.expand(step.say)))
            late = f"**Late?** {step.late}" if step.late else ""
            slides[-1].notes.extend(map(blocks.to_html, (links.expand(step.then), late)))
            found += slides
        if block.kind == "break":
            body = blocks.to_html(f"{block.length} minutes")
            found.append(Slide("text", block.title, body, notes=[blocks.to_html(block.goal)]))
        made.append(found)
    for slide in (slide for section in made for slide in section):
        slide.notes[:] = filter(None, slide.notes)
        slide.place = slide.place or plan.title
    return Deck(f"Workshop: {plan.title}", made)


def _title(plan: WorkshopPlan) -> Slide:
    body = blocks.to_html(f"After it, everybody can {plan.goal}.")
    notes = [f"{cutting.KEYS}.", f"The answers: amp-lessons workshop {plan.name} --open"]
    return Slide("title", html.escape(plan.title), body, notes=notes, place="AMP Lessons")


def _step(step: BlockStep, block: WorkshopBlock, title: str) -> Iterator[Slide]:
    """A step's slides, at least one.

    Several steps of a block may show one section, each with a vote. The section stands in that step
    whose question the lesson asks there, or else in the first.
    """
    if step.exercise:
        yield _exercise(step)
    elif step.heading:
        lesson = catalogue.lesson_called(block.lesson)
        found = under(deck.parts_of(lesson), step.heading)
        asked = [name for part in found if isinstance(part, Poll) for name in part.ids]
        same = [each for each in block.steps if each.heading == step.heading]
        if step.poll and step.poll not in asked:
            yield from _vote(step.poll, step.heading, cutting.place_of(lesson))
        if step is next((each for each in same if each.poll in asked), same[0]):
            yield from _section(found, lesson, [each.poll for each in same])
    elif step.poll:
        yield from _vote(step.poll, "A vote", title)
    else:
        yield Slide("text", html.escape(step.title), blocks.to_html(f"{step.length} minutes"))


def _section(found: Iterable[Part], lesson: Lesson, asked: Iterable[str]) -> Iterator[Slide]:
    """The slides of a section, with those of its questions that the plan asks."""
    kept: list[Part] = []
    for part in found:
        if isinstance(part, Poll):
            part = Poll(tuple(name for name in part.ids if name in asked))
        kept.append(part)
    for section in cutting.cut(kept, lesson, bank.load(), whole=False):
        yield from section


def _vote(name: str, heading: str, place: str) -> Iterator[Slide]:
    """A question that the lesson doesn't ask there, and its answer."""
    item = bank.load().find(name)
    assert isinstance(item, ChoiceItem | NumberItem)  # `reading` lets nothing else into a plan
    heading = blocks.to_html(heading).removeprefix("<p>").removesuffix("</p>")
    for kind, side in (("poll", polls.question(item)), ("answer", polls.answer(item))):
        tag = kind.capitalize()
        yield Slide(kind, heading, side.body, notes=[side.notes], tag=tag, place=place)


def _exercise(step: BlockStep) -> Slide:
    lesson, name = catalogue.lesson_of(step.exercise), step.exercise
    body = (
        f"Open the sheet of lesson {lesson.number:02}, `{lesson.sheet}`, and solve "
        f"**{page.numbered_title(name)}**: `{name}`.\n\n{step.length} minutes."
    )
    if step.more:
        more = ", ".join(page.numbered_title(each) for each in step.more)
        body += f"\n\nDone early? {more}."
    title = html.escape(catalogue.exercise_info(name).title)
    place = cutting.place_of(lesson)
    return Slide("text", title, blocks.to_html(body), tag="Exercise", place=place)


def under(found: Iterable[Part], heading: str) -> list[Part]:
    """The parts from a heading to the next one of any level, with the heading itself."""
    return [part for above, part in _by_heading(found) if above == heading]


def _by_heading(found: Iterable[Part]) -> Iterator[tuple[str, Part]]:
    """Each part with the heading that it stands under. A text with more of them is cut there."""
    heading = ""
    for part in found:
        if not isinstance(part, Text):
            yield heading, part
            continue
        lines: list[str] = []
        for line, begins in sections.lines_and_headings(part.source):
            if begins:
                if lines:
                    yield heading, Text("\n".join(lines))
                lines, heading = [], begins
            lines.append(line)
        yield heading, Text("\n".join(lines))
