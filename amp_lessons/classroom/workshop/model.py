"""What a workshop plan is made of: blocks, their steps, where rooms get stuck.

Questions, minutes of exercises and sentences about mistakes are not here. A plan names them by
their ids, and `reading` makes sure that they exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from amp_lessons.core import catalogue

BlockKind = Literal["talk", "demo", "poll", "exercise", "break"]
StepKind = Literal["show", "poll", "exercise", "talk"]
DAY = 24 * 60

Text = Annotated[str, Field(min_length=1)]
Id = Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]


class _PlanModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class BlockStep(_PlanModel):
    """A few minutes of a block. Exactly one of ``heading``, ``exercise`` and ``title`` is given,
    or ``poll`` alone.

    Attributes:
        heading: of the lesson's section to show, as in the notebook.
        poll: id of a question of the bank, asked after ``say`` and before any cell runs.
        exercise: name of an exercise that everybody solves.
        title: of what is talked about.
        minutes: how long it takes. An exercise has its own, from the catalogue.
        say: what to say and do first, in Markdown.
        then: what to say and do after the vote, or after the exercise.
        more: names of exercises for those who are done early.
        late: what to do instead if you are late.
        saves: the minutes that this saves.
    """

    id: Id
    say: Text
    heading: str = ""
    poll: str = ""
    exercise: str = ""
    title: str = ""
    minutes: Annotated[int, Field(ge=1, le=60)] | None = None
    then: str = ""
    more: tuple[str, ...] = ()
    late: str = ""
    saves: Annotated[int, Field(ge=0)] = 0

    @property
    def kind(self) -> StepKind:
        if self.heading:
            return "show"
        if self.exercise:
            return "exercise"
        return "talk" if self.title else "poll"

    @property
    def length(self) -> int:
        """Minutes. Raises `catalogue.UnknownExercise`."""
        if self.exercise:
            return catalogue.exercise_info(self.exercise).minutes
        return self.minutes or 0

    @model_validator(mode="after")
    def _one_thing(self) -> BlockStep:
        given = [name for name in ("heading", "exercise", "title") if getattr(self, name)]
        if len(given) > 1 or not (given or self.poll):
            raise ValueError("it needs one of heading, exercise and title, or a poll alone")
        if self.poll and given not in ([], ["heading"]):
            raise ValueError("a poll stands alone or below a heading")
        if bool(self.exercise) == (self.minutes is not None):
            raise ValueError("it needs minutes; an exercise has its own, from the catalogue")
        if self.more and not self.exercise:
            raise ValueError("only an exercise has more of them")
        if bool(self.late) != bool(self.saves):
            raise ValueError("`late` and `saves` come together")
        return self


class Stuck(_PlanModel):
    """Where a room gets stuck, and what to say then.

    Attributes:
        exercise, mistake: a mistake that the exercise's check knows, by the name in its file.
        poll, answer: or a wrong answer to a poll: the text of a choice, or a number.
        say: what helps.
    """

    say: Text
    exercise: str = ""
    mistake: str = ""
    poll: str = ""
    answer: str | float = ""

    @model_validator(mode="after")
    def _one_place(self) -> Stuck:
        of_exercise = bool(self.exercise) and bool(self.mistake)
        of_poll = bool(self.poll) and self.answer != ""
        if of_exercise == of_poll:
            raise ValueError("it needs exercise and mistake, or poll and answer")
        return self


class WorkshopBlock(_PlanModel):
    """A part of a workshop.

    Attributes:
        id: unique among all blocks.
        kind: what it is mostly.
        goal: what the room has or can do after it, in a sentence.
        lesson: the slug of the lesson that is open, or "".
        minutes: of a break. Any other block takes as long as its steps.
        steps: in order.
        stuck: at most three places where rooms get stuck.
        told: what to say in a sentence about lessons that this one builds on and the plan leaves
            out, by their slugs.
    """

    id: Id
    kind: BlockKind
    title: Text
    goal: Text
    lesson: str = ""
    minutes: Annotated[int, Field(ge=5, le=90)] | None = None
    steps: Annotated[tuple[BlockStep, ...], Field(alias="step")] = ()
    stuck: Annotated[tuple[Stuck, ...], Field(max_length=3)] = ()
    told: dict[str, Text] = {}

    @property
    def length(self) -> int:
        """Minutes."""
        return self.minutes or sum(step.length for step in self.steps)

    @property
    def saves(self) -> int:
        """The minutes that can be saved in it."""
        return sum(step.saves for step in self.steps)

    @property
    def polls(self) -> tuple[str, ...]:
        return tuple(step.poll for step in self.steps if step.poll)

    @property
    def exercises(self) -> tuple[str, ...]:
        return tuple(step.exercise for step in self.steps if step.exercise)

    @model_validator(mode="after")
    def _well_formed(self) -> WorkshopBlock:
        if self.kind == "break":
            if self.minutes is None or self.steps or self.lesson:
                raise ValueError("a break has minutes, and no lesson and no steps")
            return self
        if self.minutes is not None or not self.steps:
            raise ValueError("it needs steps and no minutes: it takes as long as they do")
        if len({step.id for step in self.steps}) < len(self.steps):
            raise ValueError("two of its steps have the same id")
        kinds = {step.kind for step in self.steps}
        wanted = {"demo": "show", "exercise": "exercise", "poll": "poll", "talk": "talk"}[self.kind]
        if wanted not in kinds:
            raise ValueError(f"a block of kind {self.kind!r} needs a step of kind {wanted!r}")
        if kinds & {"show", "exercise"} and not self.lesson:
            raise ValueError("it needs a lesson, since it shows a section or sets an exercise")
        for step in self.steps:
            if step.saves > (step.minutes or DAY):
                raise ValueError(f"step {step.id!r} saves more minutes than it takes")
        return self


@dataclass(frozen=True)
class Slot:
    """A block and its place in the day: minutes after midnight, or after the start."""

    block: WorkshopBlock
    start: int
    end: int


class WorkshopPlan(_PlanModel):
    """A workshop.

    Attributes:
        name: ``"4h"``.
        hours: how long it takes, with breaks.
        goal: what people can do afterwards, as it follows "After it, everybody can".
        who: whom it is for, and what they should know already.
        leaves_out: what it doesn't teach, and where people find it.
        homework: what to set, in Markdown.
        behind: ids of blocks to leave out whole, if you have lost a good part of an hour.
        behind_say: why these, and what to say in their place.
    """

    name: Text
    title: Text
    hours: Annotated[int, Field(ge=1, le=8)]
    goal: Text
    who: Text
    leaves_out: Text
    homework: Text
    behind: Annotated[tuple[str, ...], Field(min_length=1)]
    behind_say: Text
    blocks: tuple[WorkshopBlock, ...]

    @cached_property
    def lessons(self) -> tuple[catalogue.Lesson, ...]:
        """The lessons that it opens, in the order of the course."""
        slugs = {block.lesson for block in self.blocks}
        return tuple(lesson for lesson in catalogue.LESSONS if lesson.slug in slugs)

    @cached_property
    def exercises(self) -> tuple[str, ...]:
        return tuple(name for block in self.blocks for name in block.exercises)

    @cached_property
    def polls(self) -> tuple[str, ...]:
        return tuple(poll for block in self.blocks for poll in block.polls)

    @cached_property
    def sheets(self) -> tuple[catalogue.Lesson, ...]:
        """The lessons whose exercise sheets are opened."""
        found = {catalogue.lesson_of(name).slug for name in self.exercises}
        return tuple(lesson for lesson in catalogue.LESSONS if lesson.slug in found)

    def minutes(self, *kinds: BlockKind) -> int:
        """The minutes of all blocks, or of those of some kinds."""
        chosen = (block for block in self.blocks if not kinds or block.kind in kinds)
        return sum(block.length for block in chosen)

    @property
    def solving(self) -> int:
        """The minutes in which everybody solves exercises."""
        return sum(catalogue.exercise_info(name).minutes for name in self.exercises)

    def slots(self, start: int = 0) -> tuple[Slot, ...]:
        """The blocks with their times.

        Args:
            start: minutes after midnight, or 0 for the time that has passed.
        """
        found, now = [], start
        for block in self.blocks:
            found.append(Slot(block, now, now + block.length))
            now += block.length
        return tuple(found)


class Checklist(_PlanModel):
    """Things to do, in Markdown.

    Attributes:
        place: where it stands on a page.
    """

    place: Literal["before", "votes", "after"]
    title: Text
    items: Annotated[tuple[Text, ...], Field(min_length=1, alias="item")]


class AskedQuestion(_PlanModel):
    """A question that an instructor has on the evening before, with its answer.

    Attributes:
        plans: the plans whose page has it. All of them, if there are none.
    """

    ask: Text
    answer: Text
    plans: tuple[str, ...] = ()


class Around(_PlanModel):
    """What all plans share: what to do before and after, and what instructors ask."""

    lists: Annotated[tuple[Checklist, ...], Field(alias="list")]
    questions: Annotated[tuple[AskedQuestion, ...], Field(alias="question")]


def clock(minutes: int) -> str:
    """``"9:05"`` for 545 minutes after midnight. After 24 hours it starts again."""
    hour, minute = divmod(minutes % DAY, 60)
    return f"{hour}:{minute:02}"
