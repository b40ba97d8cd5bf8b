"""`amp-lessons quiz`, `drill` and `mock`: their options, and what they print without asking.

`cli` registers them. Each loads what it needs when it runs: help stays quick, and no torch.
"""

from __future__ import annotations

import json as json_text
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from amp_lessons.core.terminal import can_print, console, say, warn

if TYPE_CHECKING:
    from amp_lessons.quiz.bank import Bank
    from amp_lessons.quiz.items import Item, OpenQuestion
    from amp_lessons.quiz.log import LogEntry, Where
    from amp_lessons.quiz.schedule import Due
    from amp_lessons.quiz.session import Session

USUAL = 10
"""How many questions `quiz` asks, unless somebody wants more."""
FRESH = 5
"""How many questions `quiz` asks from one generator, unless somebody wants more."""
_FEWEST = 8
"""Columns for the beginning of a prompt in a list."""
MORE_NEW = 5
"""How many new questions a drill offers beyond the day's."""

Seed = Annotated[
    int | None, typer.Option("--seed", min=0, help="The same seed asks the same questions.")
]
MockSeed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        help="The same seed gives the same interview, as long as your answers don't change.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the three commands."""
    app.command()(quiz)
    app.command()(drill)
    app.command()(mock)


# ---- quiz ---------------------------------------------------------------------------------------


def quiz(
    question: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A question's id, such as grad_scaler.what_step_does, a topic or a generator.",
        ),
    ] = None,
    lesson: Annotated[
        str | None, typer.Option(help="Only this lesson, such as 06 or grad_scaler.")
    ] = None,
    topic: Annotated[str | None, typer.Option(help="Only this topic, such as grad_scaler.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="single, several, number, output, bug, order or trace.")
    ] = None,
    level: Annotated[
        int | None, typer.Option(help="1: recall, 2: apply and predict, 3: diagnose and design.")
    ] = None,
    number: Annotated[
        int | None,
        typer.Option("--number", "-n", min=1, help="How many questions. Default: 10."),
    ] = None,
    generated: Annotated[
        bool, typer.Option("--generated", help="Ask new questions, made for this quiz.")
    ] = False,
    seed: Seed = None,
    list_: Annotated[bool, typer.Option("--list", help="List the questions' ids.")] = False,
    stats: Annotated[
        bool, typer.Option("--stats", help="Count the questions by lesson, kind and level.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="With --list or --stats: JSON.")] = False,
) -> None:
    """Ask questions on AMP, and explain each answer. One key answers.

    Without options: ten questions from the whole course, those you have
    not had yet first. Every answer is kept at once, so Ctrl+C loses none.
    """
    from amp_lessons.quiz import bank as banks

    bank = banks.load()
    if json and not (list_ or stats):
        raise typer.BadParameter("--json goes with --list or --stats")
    if stats:
        _stats(bank, json)
        return
    wanted: dict[str, Any] = {"lesson": lesson, "topic": topic, "kind": kind, "level": level}
    if question in banks.topics_there() and lesson is None and topic is None:
        wanted["topic"], question = question, None
    if question is not None and (list_ or any(value is not None for value in wanted.values())):
        raise typer.BadParameter("name one question, or options to choose by, but not both")
    if list_:
        _list(_listed(bank, generated).choose(**wanted)[:number], json)
        return
    if question is not None:
        fresh = _from_generator(question, number or FRESH, seed)
        if not fresh:
            _ask_one(_question(bank, question))
            return
        items: Sequence[Item] = fresh
    else:
        items = _chosen(bank, wanted, number or USUAL, seed, generated)

    def body(session: Session) -> None:
        from amp_lessons.quiz.session import run_quiz

        run_quiz(session, items)

    _run("quiz", body)


def _chosen(
    bank: Bank, wanted: Mapping[str, Any], number: int, seed: int | None, generated: bool
) -> Sequence[Item]:
    from amp_lessons.quiz import session

    if not generated:
        entries = _entries() if seed is None else []
        return session.choose(bank.choose(**wanted), number, seed, entries)
    from amp_lessons.quiz import generators

    first = random.randrange(10**6) if seed is None else seed
    makers: list[Any] = list(_only(generators.GENERATORS).choose(**wanted))
    order = random.Random(first).sample(makers, len(makers))
    fresh = generators.Fresh(first)
    return [fresh.make(order[place % len(order)]) for place in range(number)]


def _only(found: Mapping[str, Any]) -> Bank:
    """Generators as a bank: they have a topic, a kind and a level too, so they can be chosen."""
    from amp_lessons.quiz.bank import Bank

    return Bank(tuple(found.values()))


def _listed(bank: Bank, generated: bool) -> Bank:
    """What `--list` chooses from: questions and generators, or generators alone."""
    from amp_lessons.quiz import generators
    from amp_lessons.quiz.bank import Bank

    if generated:
        return _only(generators.GENERATORS)
    makers: tuple[Any, ...] = tuple(generators.GENERATORS.values())
    return Bank((*bank.items, *makers), bank.predictions, bank.open)


def _from_generator(name: str, number: int, seed: int | None) -> list[Item]:
    """New questions from one generator, by its id with or without the topic; [] if it is none."""
    if not name.rpartition(".")[2].startswith("gen_"):
        return []
    from amp_lessons.quiz import generators
    from amp_lessons.quiz.bank import BankError

    made = name.rpartition("_")[2].isdigit()  # one question of a generator has its seed behind it
    found = [id_ for id_ in generators.GENERATORS if name in (id_, id_.partition(".")[2])]
    if len(found) > 1:
        raise BankError(f"{len(found)} generators are called {name!r}: {', '.join(found)}")
    if not found and made:
        return []
    maker = generators.find(found[0] if found else name)
    fresh = generators.Fresh(random.randrange(10**6) if seed is None else seed)
    return [fresh.make(maker) for _ in range(number)]


def _question(bank: Bank, name: str) -> Item | OpenQuestion:
    """A question of the bank or of a generator, by its id."""
    if ".gen_" in name:
        from amp_lessons.quiz import generators

        return generators.remake(name)
    if "." not in name:  # an id has a dot, a topic has none
        bank.choose(topic=name)
    return bank.find(name)


def _ask_one(found: Item | OpenQuestion) -> None:
    from amp_lessons.quiz.items import OpenQuestion

    def body(session: Session) -> None:
        from amp_lessons.quiz.keys import Quit
        from amp_lessons.quiz.session import sum_up

        try:
            if isinstance(found, OpenQuestion):
                session.ask_open(found, found.id)
            else:
                session.ask(found, found.id)
        except Quit:
            sum_up(session, "amp-lessons drill asks again tomorrow what you missed")

    _run("quiz", body)


def _list(items: Iterable[Any], json: bool) -> None:
    rows = [{"id": i.id, "kind": i.kind, "level": i.level, "asks": _asks(i)} for i in items]
    if json:
        print(json_text.dumps(rows, indent=1))
        return
    width = max(len(str(row["id"])) for row in rows)
    for row in rows:
        start = f"{row['id']!s:<{width}}  {row['kind']!s:<7} {row['level']}"
        _as_it_is(f"{start}  {_cut(str(row['asks']), console().width - len(start) - 2)}".rstrip())


def _cut(text: str, columns: int) -> str:
    """The beginning of a text; "" where there are too few columns for any word."""
    if len(text) <= columns:
        return text
    dots = "…" if can_print("…") else "..."
    return f"{text[: columns - len(dots)].rstrip()}{dots}" if columns >= _FEWEST else ""


def _as_it_is(words: str) -> None:
    """Print a row of a table: `say` would close its gaps."""
    console().print(words, soft_wrap=True)


def _asks(item: Any) -> str:
    """A prompt in one line, or what a generator asks for."""
    return " ".join(getattr(item, "prompt", getattr(item, "title", "")).split())


# ---- stats --------------------------------------------------------------------------------------


def _stats(bank: Bank, json: bool) -> None:
    from amp_lessons.quiz import generators

    counts = bank.stats() | {"generators": len(generators.GENERATORS)}
    if json:
        print(json_text.dumps(counts, indent=1))
        return
    from amp_lessons.core import catalogue
    from amp_lessons.quiz.bank import LEVELS
    from amp_lessons.quiz.items import KINDS

    say(f"{counts['items']} questions, {counts['proofs']} of them with a proof that the tests run;")
    say(
        f"{counts['open']} open questions, {counts['predictions']} predictions in the lessons, "
        f"{counts['generators']} generators."
    )
    slugs = {topic: lesson.slug for lesson in catalogue.LESSONS for topic in lesson.topics}
    rows = [(f"{x.number:02} {x.title}", x.slug) for x in catalogue.LESSONS if x.topics]
    _table("lesson", rows, bank.items, lambda item: slugs[item.topic])
    _table("kind", [(kind, kind) for kind in KINDS], bank.items, lambda item: item.kind)
    _table("level", [(str(n), n) for n in LEVELS], bank.items, lambda item: item.level)


def _table(
    heading: str,
    rows: Sequence[tuple[str, Any]],
    items: Iterable[Any],
    group: Callable[[Any], Any],
) -> None:
    there = list(items)
    number, proved = Counter(map(group, there)), Counter(group(i) for i in there if i.proved)
    _as_it_is(f"\n{heading:<36}{'questions':>10}{'proved':>8}")
    for title, name in rows:
        _as_it_is(f"{title:<36}{number[name]:>10}{proved[name]:>8}")


# ---- drill --------------------------------------------------------------------------------------


def drill(
    number: Annotated[
        int | None, typer.Option("--number", "-n", min=1, help="At most so many questions.")
    ] = None,
    new: Annotated[
        int | None, typer.Option("--new", min=0, help="New questions a day. Default: 10.")
    ] = None,
    due: Annotated[bool, typer.Option("--due", help="Only say what is due today.")] = False,
    merge: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Add the answers of another machine: its quiz.jsonl."),
    ] = None,
) -> None:
    """Ask what is due today, then a few new questions.

    What you missed or guessed comes back tomorrow; what you know comes back
    later each time. Predictions you missed in a lesson come back too.
    """
    from amp_lessons.quiz import bank as banks
    from amp_lessons.quiz import schedule

    bank = banks.load()
    if merge is not None:
        _merge(merge)
    limit = schedule.NEW_A_DAY if new is None else new
    today = _due(bank, limit)
    if due or merge is not None:
        _tell_due(today, limit)
        return
    waiting, fresh = today.now[:number], today.new
    if number is not None:
        fresh = fresh[: number - len(waiting)]
    body = _drill_of(bank, today, waiting, fresh, limit, number)
    _run("drill", body)


def _merge(other: Path) -> None:
    from amp_lessons.quiz import log

    added, merged = log.merge(other)
    for warning in merged.warnings:
        warn(warning)
    say(f"{_many(added, 'answer')} added from {other}; {_many(len(merged.entries), 'answer')} now.")


def _due(bank: Bank, limit: int) -> Due:
    from amp_lessons.core import catalogue, progress, standing
    from amp_lessons.quiz import generators, log, schedule

    try:
        done = progress.load()
    except progress.ProgressError:  # which lessons were taken only sorts the new questions
        done = progress.Progress()
    taken = [lesson for lesson in catalogue.LESSONS if standing.state_of(lesson, done) != "open"]
    return schedule.due(
        _entries(),
        bank,
        generators.GENERATORS,
        now=log.now(),
        new=limit,
        known=[topic for lesson in taken for topic in lesson.asks],
    )


def _drill_of(
    bank: Bank,
    today: Due,
    waiting: Sequence[str],
    fresh: Sequence[str],
    limit: int,
    number: int | None,
) -> Callable[[Session], None]:
    def body(session: Session) -> None:
        from amp_lessons.quiz import generators
        from amp_lessons.quiz.session import CardSource, run_drill, sum_up

        deck = CardSource(bank, generators.GENERATORS, generators.Fresh(random.randrange(10**6)))
        new = list(fresh)
        if not waiting:
            these = f" Here {_are(len(new))} {_many(len(new), 'new question')}." if new else ""
            session.screen.line(_nothing_due(today) + these)
            if limit and not new:
                new = _offer_more(session, bank, today, number)
            if not new:
                return
        in_turn = run_drill(session, deck, waiting, new)
        left = _due(bank, limit)
        sum_up(session, "the drill asks them again tomorrow", _and_then(left), in_turn)

    return body


def _offer_more(session: Session, bank: Bank, today: Due, number: int | None) -> list[str]:
    """New questions beyond the day's, if somebody wants them."""
    if not today.unseen:
        return []
    from amp_lessons.quiz.keys import Quit

    count = min(MORE_NEW, today.unseen, number or MORE_NEW)
    session.screen.line("You have had today's new questions.")
    session.screen.line(f"y: {count} more   any other key: not today")
    session.prompt()
    try:
        key = session.keys.key()
    except Quit:
        key = ""
    session.screen.line(key.strip() if session.keys.single else "")
    if key not in ("y", "Y"):
        return []
    return list(_due(bank, today.introduced + count).new)


def _nothing_due(today: Due) -> str:
    if today.next_day is None:
        return "Nothing is due."
    count = _many(today.next_count, "question")
    return f"Nothing is due today. {count} will be due {_when(today)}."


def _and_then(left: Due) -> str:
    """What comes next, in one sentence."""
    if left.now:
        return f"Still due today: {_many(len(left.now), 'question')}. Go on with: amp-lessons drill"
    if left.next_day is None:
        return ""
    return f"Next: {_many(left.next_count, 'question')} due {_when(left)}, with amp-lessons drill."


def _tell_due(today: Due, limit: int) -> None:
    if today.now:
        say(f"{_many(len(today.now), 'question')} due today:")
        from amp_lessons.core import catalogue

        topics = Counter(name.partition(".")[0] for name in today.now)
        for lesson in catalogue.LESSONS:
            if count := sum(topics[topic] for topic in lesson.topics):
                _as_it_is(f"  {count:>3}  lesson {lesson.number:02}, {lesson.title}")
    else:
        say(_nothing_due(today))
    if today.now and today.next_day is not None:
        say(f"After that, {_many(today.next_count, 'question')} {_when(today)}.")
    if today.new:
        many = _many(len(today.new), "new question")
        say(f"{many} for today, of {today.unseen} that you have not had yet.")
    elif not limit:
        say(f"No new questions: --new 0. {today.unseen} are left that you have not had yet.")
    elif today.unseen:
        say(
            f"You have had today's new questions. The drill offers {min(MORE_NEW, today.unseen)} "
            f"more, of {today.unseen} that you have not had yet."
        )
    if today.now or today.new or (limit and today.unseen):
        from amp_lessons.quiz import schedule

        option = "" if limit == schedule.NEW_A_DAY else f" --new {limit}"
        say(f"Start with: amp-lessons drill{option}")


def _when(today: Due) -> str:
    from amp_lessons.quiz import log, schedule

    assert today.next_day is not None
    return schedule.in_words(today.next_day, log.now().astimezone().date())


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


# ---- mock ---------------------------------------------------------------------------------------


def mock(
    minutes: Annotated[int, typer.Option(help="How long it takes: 10 to 90.")] = 45,
    role: Annotated[str, typer.Option(help="ml, systems, research or performance.")] = "ml",
    seed: MockSeed = None,
) -> None:
    """Rehearse an interview: 45 minutes on the clock, and a report at the end.

    Quick questions, estimates, bugs and logs, a coding task in your own
    editor, two open questions that you mark yourself by a rubric, and your
    question to us. Topics that you are weak in come up more often.
    """
    from amp_lessons.quiz import bank as banks
    from amp_lessons.quiz import generators
    from amp_lessons.quiz import mock as mocks

    plan = mocks.compose(
        banks.load(),
        _entries(),
        minutes=minutes,
        role=role,
        seed=random.randrange(10**6) if seed is None else seed,
        generators=generators.GENERATORS,
    )

    def body(session: Session) -> None:
        from amp_lessons.quiz import interview

        interviewed = interview.Interview(plan, session, Path.cwd())
        try:
            report = interviewed.run()
        except KeyboardInterrupt:
            if interviewed.results:
                report = interviewed.report(finished=False)
                interview.show_report(session, report, interview.save(report))
            raise
        if not interviewed.results:
            session.screen.line("Nothing was answered, so there is no report.")
            return
        interview.show_report(session, report, interview.save(report))
        interviewed.go_through_missed()

    _run("mock", body)


# ---- all three ----------------------------------------------------------------------------------


def _entries() -> list[LogEntry]:
    """The log. What was wrong with it is told, and does not keep anybody from practising."""
    from amp_lessons.core.progress import ProgressError
    from amp_lessons.quiz import log

    try:
        found = log.read()
    except ProgressError as error:
        warn(f"earlier answers are left out: {error}")
        return []
    for warning in found.warnings:
        warn(warning)
    return found.entries


def _run(where: Where, body: Callable[[Session], None]) -> None:
    """Hold a session. Ctrl+C ends it with what was kept, and with the exit status 130."""
    from amp_lessons.quiz.session import started

    with started(where) as session:
        try:
            body(session)
            return
        except KeyboardInterrupt:
            tally = session.tally()
    print()
    say(tally)
    raise typer.Exit(130)
