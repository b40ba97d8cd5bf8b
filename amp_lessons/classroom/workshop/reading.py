"""Read the plans and hold them against the course: every lesson, heading, poll and exercise.

``plans/4h.toml`` lists its blocks. A block that other plans share stands in ``blocks/`` and is
taken by ``use = "its_id"``, whole or with some of its ``steps``. What is wrong is reported in one
line that names the file, the block and the cure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import tomli
from pydantic import ValidationError

from amp_lessons.classroom.workshop.model import (
    Around,
    BlockStep,
    Stuck,
    WorkshopBlock,
    WorkshopPlan,
)
from amp_lessons.classroom.workshop.sections import sections
from amp_lessons.classroom.workshop.sentences import PlanError, sentence, unknown
from amp_lessons.core import catalogue
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.quiz import bank
from amp_lessons.quiz.items import ChoiceItem, NumberItem

FOLDER = Path(__file__).parent
NAMES = ("2h", "4h", "8h")
SLUGS = tuple(lesson.slug for lesson in catalogue.LESSONS)
CATCH_UP = 10
"""Minutes. So many can be saved between two breaks, so that a late start is made up by the next."""


def load(name: str) -> WorkshopPlan:
    """The course's own plan of this name: ``"4h"`` or ``"4"``.

    Raises:
        PlanError: if there is no such plan, or if it is malformed.
    """
    wanted = name if name.endswith("h") else f"{name}h"
    if wanted not in NAMES:
        raise PlanError(f"no plan is called {name!r}; there are {', '.join(NAMES)}")
    return _ours()[wanted]


@lru_cache(maxsize=1)
def around() -> Around:
    """What to do before and after any workshop, and what instructors ask. Raises `PlanError`."""
    return read_around(FOLDER)


def read_around(folder: Path) -> Around:
    """The same from a folder of your own."""
    path = folder / "around.toml"
    try:
        found = Around.model_validate(_toml(path))
    except ValidationError as error:
        raise PlanError(f"{path.name}: {_fault(error)}") from None
    for question in found.questions:
        for name in question.plans:
            if name not in NAMES:
                raise PlanError(f"{path.name}: {unknown('plan', name, NAMES)}")
    return found


@lru_cache(maxsize=1)
def _ours() -> dict[str, WorkshopPlan]:
    return read(FOLDER)


def read(folder: Path) -> dict[str, WorkshopPlan]:
    """All plans of a folder that holds ``plans/`` and ``blocks/``, by name, checked.

    Raises:
        PlanError: with the file, the block and what to do.
    """
    shared: dict[str, WorkshopBlock] = {}
    for path in sorted((folder / "blocks").glob("*.toml")):
        for entry in _toml(path).get("block", []):
            block = _block(path, entry)
            if block.id in shared:
                raise PlanError(f"{path.name}: two blocks are called {block.id!r}")
            _check_block(path, block)
            shared[block.id] = block
    plans = {}
    for name in NAMES:
        path = folder / "plans" / f"{name}.toml"
        plans[name] = _plan(path, shared)
        _check_plan(path, plans[name])
    return plans


# ---- from TOML to models -------------------------------------------------------------------------


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomli.loads(path.read_text(encoding="utf-8"))
    except (tomli.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlanError(f"{path.name}: not valid TOML: {error}") from error
    except OSError as error:
        raise PlanError(f"{path.name} can't be read: {error.strerror}") from error


def _block(path: Path, entry: Mapping[str, Any]) -> WorkshopBlock:
    try:
        return WorkshopBlock.model_validate(entry)
    except ValidationError as error:
        raise PlanError(f"{_where(path, entry.get('id'))}: {_fault(error)}") from None


def _plan(path: Path, shared: Mapping[str, WorkshopBlock]) -> WorkshopPlan:
    data = _toml(path)
    blocks = [_chosen(path, entry, shared) for entry in data.pop("block", [])]
    try:
        return WorkshopPlan.model_validate({**data, "name": path.stem, "blocks": tuple(blocks)})
    except ValidationError as error:
        raise PlanError(f"{path.name}: {_fault(error)}") from None


def _chosen(
    path: Path, entry: dict[str, Any], shared: Mapping[str, WorkshopBlock]
) -> WorkshopBlock:
    """A block of a plan: its own, or a shared one with some of its steps."""
    if "use" not in entry:
        block = _block(path, entry)
        _check_block(path, block)
        return block
    name = entry["use"]
    stray = sorted(set(entry) - {"use", "steps", "told", "title", "goal"})
    if stray:
        raise PlanError(f"{_where(path, name)}: {stray[0]!r} is no field next to `use`")
    if name not in shared:
        raise PlanError(f"{path.name}: {unknown('block', name, shared)}")
    block = shared[name]
    steps = block.steps
    if "steps" in entry:
        by_id = {step.id: step for step in steps}
        for wanted in entry["steps"]:
            if wanted not in by_id:
                raise PlanError(f"{_where(path, name)}: {unknown('step', wanted, by_id)}")
        steps = tuple(step for step in steps if step.id in entry["steps"])
    kept = {*(step.poll for step in steps), *(step.exercise for step in steps)}
    changed: dict[str, Any] = block.model_dump(by_alias=True)
    changed |= {name: entry[name] for name in ("title", "goal") if name in entry}
    changed["told"] = {**block.told, **entry.get("told", {})}
    changed["step"] = [step.model_dump() for step in steps]
    changed["stuck"] = [s.model_dump() for s in block.stuck if (s.poll or s.exercise) in kept]
    return _block(path, changed)


def _where(path: Path, block: Any) -> str:
    return f"{path.name}, block {block!r}"


def _fault(error: ValidationError) -> str:
    """Pydantic's first complaint, in one line."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    kinds = {"missing": "is missing", "extra_forbidden": "is no field that we know"}
    message = kinds.get(first["type"], first["msg"].removeprefix("Value error, "))
    return f"{place}: {message}".removeprefix(": ")


# ---- what a block names --------------------------------------------------------------------------


def _check_block(path: Path, block: WorkshopBlock) -> None:
    try:
        lesson = _lesson(block.lesson) if block.lesson else None
        for step in block.steps:
            _check_step(step, lesson)
        for stuck in block.stuck:
            _check_stuck(stuck, block)
    except PlanError as error:
        raise PlanError(f"{_where(path, block.id)}: {error}") from None
    except AmpLessonsError as error:  # the bank's and the catalogue's own words
        raise PlanError(f"{_where(path, block.id)}: {error}") from error


def _lesson(slug: str) -> catalogue.Lesson:
    if slug not in SLUGS:
        raise PlanError(unknown("lesson", slug, SLUGS))
    return catalogue.lesson_called(slug)


def _check_step(step: BlockStep, lesson: catalogue.Lesson | None) -> None:
    if step.heading and lesson is not None:
        there = {section.heading: section for section in sections(lesson)}
        if step.heading not in there:
            raise PlanError(unknown(f"section of lesson {lesson.number:02}", step.heading, there))
    if step.poll:
        item = bank.load().find(step.poll)
        if not isinstance(item, ChoiceItem | NumberItem) or item.plot:
            raise PlanError(f"{step.poll} can't be a poll: a poll has choices or a number")
        if step.heading and lesson is not None and item.kind == "prediction":
            asked = there[step.heading].predictions
            if step.poll not in asked:
                raise PlanError(
                    f"the section {step.heading!r} asks {', '.join(asked) or 'nothing'}, and not "
                    f"{step.poll}"
                )
    for name in filter(None, (step.exercise, *step.more)):
        of = catalogue.lesson_of(name)
        if lesson is not None and of != lesson:
            raise PlanError(f"{name} is an exercise of {of.slug}, and not of {lesson.slug}")


def _check_stuck(stuck: Stuck, block: WorkshopBlock) -> None:
    if stuck.poll and stuck.poll not in block.polls:
        raise PlanError(f"people get stuck in {stuck.poll}, which the block doesn't ask")
    if stuck.exercise and stuck.exercise not in block.exercises:
        raise PlanError(f"people get stuck in {stuck.exercise}, which the block doesn't set")
    sentence(stuck)


# ---- the plan as a whole -------------------------------------------------------------------------


def _check_plan(path: Path, plan: WorkshopPlan) -> None:
    ids = [block.id for block in plan.blocks]
    for name in ids:
        if ids.count(name) > 1:
            raise PlanError(f"{path.name}: block {name!r} comes twice")
    for name in plan.behind:
        if name not in ids:
            raise PlanError(f"{path.name}, behind: {unknown('block', name, ids)}")
    minutes = plan.minutes()
    if minutes != 60 * plan.hours:
        raise PlanError(
            f"{path.name}: the blocks take {minutes} minutes, and {plan.hours} hours have "
            f"{60 * plan.hours}"
        )
    for fault in (*_unmet(plan), *_too_stiff(plan)):
        raise PlanError(f"{path.name}, {fault}")


def _unmet(plan: WorkshopPlan) -> Iterator[str]:
    """Blocks whose lesson builds on one that was neither shown nor told about."""
    known: set[str] = set()
    for block in plan.blocks:
        told = set(block.told)
        for slug in sorted(told):
            if slug not in SLUGS:
                yield f"block {block.id!r}, told: {unknown('lesson', slug, SLUGS)}"
            if slug in known:
                yield f"block {block.id!r}: tells about {slug}, which the room knows already"
        needed = (
            {each[3:] for each in _lesson(block.lesson).prerequisites} if block.lesson else set()
        )
        if stray := told - needed:
            yield f"block {block.id!r}: its lesson doesn't need {min(stray)}: don't tell about it"
        if missing := needed - known - told:
            yield (
                f"block {block.id!r}: {block.lesson} needs {min(missing)}; show it before, or tell "
                f'it in a sentence: told = {{ {min(missing)} = "…" }}'
            )
        known |= told | {block.lesson}


def _too_stiff(plan: WorkshopPlan) -> Iterator[str]:
    """Blocks in which nothing can be saved, and stretches in which too little can."""
    saved, first = 0, plan.blocks[0].id if plan.blocks else ""
    for place, block in enumerate(plan.blocks):
        if block.kind != "break":
            if not block.saves:
                yield f"block {block.id!r}: say what to do if you are late, in `late` and `saves`"
            saved += block.saves
        if block.kind == "break" or place == len(plan.blocks) - 1:
            if saved < CATCH_UP:
                yield (
                    f"from block {first!r} to {block.id!r}: only {saved} minutes can be saved, "
                    f"make it {CATCH_UP}"
                )
            saved = 0
            first = plan.blocks[min(place + 1, len(plan.blocks) - 1)].id
