"""Asking in a terminal: one question after the other, each answer kept at once.

`Session.ask` asks one item and `Session.ask_open` one open question; `run_quiz` and `run_drill` are
the two ways of practice, and `interview` is the third. How things look is `screen`'s, what is typed
`keys`', and whether it is right `marking`'s.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from amp_lessons.core import catalogue, interrupts
from amp_lessons.core.progress import ProgressError
from amp_lessons.core.terminal import warn
from amp_lessons.quiz import log, proofs
from amp_lessons.quiz.bank import Bank
from amp_lessons.quiz.items import ChoiceItem, Item, NumberItem, OpenQuestion, OrderItem
from amp_lessons.quiz.keys import ENTER, Edit, Keys, Quit, opened
from amp_lessons.quiz.log import LogEntry, Where
from amp_lessons.quiz.marking import NAMES, Answer, AnswerError, Marked, mark, shuffled
from amp_lessons.quiz.markup import KIND_NAMES
from amp_lessons.quiz.screen import Screen
from amp_lessons.quiz.typed_numbers import read_number

_COMMANDS = "hpsqHPSQ"
HABIT = 0.2
"""Seconds after a single key in which an Enter out of habit is dropped."""
NO_PROOF = "This question has no proof that runs. Its source stands below the answer."


@dataclass(frozen=True)
class Answered:
    """One question that was asked.

    Attributes:
        id: the question's.
        score: from 0 to 1; 0 if it was skipped.
        marked: the marks and remarks, or None if it was skipped or marked by oneself.
        item: what was asked, unless it was an open question or a coding task.
    """

    id: str
    score: float
    sure: bool = True
    seconds: float = 0.0
    marked: Marked | None = None
    item: Item | None = None

    @property
    def right(self) -> bool:
        return self.score == 1.0


@dataclass
class Session:
    """What one run of a command has asked so far.

    Attributes:
        where: what asks, for the log.
        clock: seconds, for how long an answer took.
        answered: in order; a question that was asked twice stands in it twice.
        not_kept: why answers could not be saved, or "".
        confirm: what to ask at a terminal before ``q`` quits, or "" to quit at once.
    """

    screen: Screen
    keys: Keys
    where: Where
    clock: Callable[[], float] = time.monotonic
    answered: list[Answered] = field(default_factory=list)
    not_kept: str = ""
    confirm: str = ""
    _one_key: bool = field(default=False, repr=False)

    # ---- keys ---------------------------------------------------------------------------------

    def prompt(self) -> None:
        """Wait for something new: what was typed before it is dropped at a terminal."""
        self.keys.forget(HABIT if self._one_key else 0.0)
        self._one_key = False
        self.screen.prompt("> ")

    def press(self, legend: str, allowed: str, at_end: str = "") -> str:
        """One of these keys, as soon as it is pressed. Other keys do nothing.

        Args:
            allowed: lowercase letters, and `ENTER`. With ``q`` among them, it quits.
            at_end: what the end of a pipe counts as. Without it, it quits.

        Raises:
            Quit: for ``q``, and at the end of the input.
        """
        self.screen.line(legend, "dim")
        self.prompt()
        while True:
            try:
                key = self.keys.key().lower()
            except Quit:
                if self.keys.single or not at_end:
                    raise
                return at_end
            key = ENTER if key == " " and ENTER in allowed else key
            if not key or key not in allowed:
                if not self.keys.single:
                    self.screen.prompt("> ")
                continue
            if self.keys.single:
                self.screen.line(key.strip())
            self._one_key = key != ENTER
            if key != "q":
                return key
            self.leave()
            self.screen.line(legend, "dim")
            self.prompt()

    def leave(self) -> None:
        """Quit. In a mock at a terminal, ask first, and go on if it was a slip."""
        if self.confirm and self.keys.single:
            words, self.confirm = self.confirm, ""
            try:
                if self.press(f"{words} y/n", "yn") == "n":
                    return
            finally:
                self.confirm = words
        raise Quit

    # ---- one item -----------------------------------------------------------------------------

    def ask(self, item: Item, heading: str, *, reveal: bool = True) -> Answered:
        """Ask a question and keep the answer.

        Args:
            heading: what stands above it, such as ``"3 of 10"``.
            reveal: whether to show the verdict and to wait. A mock interview doesn't.

        Raises:
            Quit: if somebody has had enough. What was not answered is not kept.
        """
        self.screen.blank()
        self.screen.heading(heading, *described(item, lesson=reveal))
        self.screen.blank()
        self.screen.question(item)
        self.screen.blank()
        self.screen.line(_help(item, reveal, self.keys.single), "dim")
        start = self.clock()
        answer, sure = self._answer(item, reveal)
        seconds = self.clock() - start
        marked = None if answer is None else mark(item, answer)
        score = marked.score if marked is not None else 0.0
        done = Answered(item.id, score, sure, seconds, marked, item)
        self._keep(done)
        if reveal:
            self.explain(item, marked, sure)
            self._between(item)
        return done

    def explain(self, item: Item, marked: Marked | None, sure: bool = True) -> None:
        """The verdict and the reasons; for a skipped question, the answer."""
        self.screen.blank()
        if marked is None:
            self.screen.shown(item)
        else:
            self.screen.verdict(item, marked, sure)

    def _answer(self, item: Item, hints: bool) -> tuple[Answer | None, bool]:
        """An answer, or None for a skipped question; and whether it was no guess."""
        while True:
            self.prompt()
            typed = self._typed(item)
            command = typed.lower()
            if command == "h":
                self._tell(item.hint if hints else "A mock interview gives no hints.", hints)
            elif command == "p":
                self._tell("The proof gives the answer away: it is shown after you have answered.")
            elif command == "s":
                return None, True
            elif command == "q":
                self.leave()
            else:
                try:
                    answer, read_as = _read(item, typed.replace("?", "").strip())
                    if read_as:
                        self.screen.line(read_as)
                    return answer, "?" not in typed
                except AnswerError as error:
                    self._tell(f"{str(error)[:1].upper()}{str(error)[1:]}.")

    def _typed(self, item: Item) -> str:
        """A command or an answer, as it was typed."""
        if item.form != "one":
            edits: dict[str, Edit | None] = {"number": None}
            if isinstance(item, ChoiceItem):
                edits["many"] = _toggle(len(item.choices))
            elif isinstance(item, OrderItem):
                edits["order"] = _arrange(len(item.offered))
            typed = self.keys.line(edits[item.form], at_once=_COMMANDS, empty=False)
            self._one_key = typed in tuple(_COMMANDS)
            return typed
        self._one_key = True
        return self._one_choice() if self.keys.single else self.keys.line()

    def _one_choice(self) -> str:
        """A key that answers at once, or a command; a ``?`` that came first stands before it."""
        guess = ""
        while True:
            key = self.keys.key()
            if key == "?" and not guess:
                guess = key
                self.screen.prompt(key)
            elif key.strip() and key != "?":  # not Enter or an arrow key
                self.screen.line(key)
                return key if key in _COMMANDS else guess + key

    def _tell(self, words: str, markdown: bool = False) -> None:
        if markdown:
            self.screen.markdown(f"Hint: {words}", indent=2)
        else:
            self.screen.line(words)

    def _keep(self, done: Answered) -> None:
        self.answered.append(done)
        entry = LogEntry(log.now(), done.id, done.score, done.sure, self.where, done.seconds)
        try:
            log.append(entry)
        except ProgressError as error:
            if not self.not_kept:
                warn(f"your answers are not kept: {error}")
            self.not_kept = str(error)

    def _between(self, item: Item) -> None:
        """After an answer: the proof, or on."""
        self.screen.blank()
        # the end of a pipe ends the session at the next question
        while self.press("Enter: go on   p: proof   q: quit", f"{ENTER}pq", at_end=ENTER) == "p":
            self.show_proof(item)

    def show_proof(self, item: Item) -> None:
        """The proof as a program that somebody can run."""
        if not item.proved:
            self.screen.line(NO_PROOF)
            return
        self.screen.line("This program proves it. The course's tests run it:")
        self.screen.blank()
        self.screen.code(proofs.as_program(item), fold=False)
        self.screen.blank()

    # ---- open questions -----------------------------------------------------------------------

    def ask_open(
        self,
        question: OpenQuestion,
        heading: str,
        marked: Callable[[Answered], None] | None = None,
    ) -> Answered:
        """Ask an open question: the candidate answers aloud, compares, and ticks the rubric.

        Args:
            marked: is told the result as soon as the rubric is ticked, before the follow-ups.

        Raises:
            Quit: if somebody has had enough.
        """
        show = self.screen
        show.blank()
        show.heading(heading, f"level {question.level}", KIND_NAMES[question.kind].lower())
        show.blank()
        show.markdown(question.prompt)
        show.blank()
        start = self.clock()
        typed = self.typed("Answer aloud or type notes. Enter: compare   s, Enter: skip")
        seconds = self.clock() - start
        show.blank()
        self._titled("In 30 seconds", question.short)
        skipped = typed.lower() == "s"
        ticked = 0 if skipped else self._tick(question.rubric)
        if skipped:
            self._titled("A good answer has", "\n".join(f"- {p}" for p in question.rubric))
        done = Answered(question.id, ticked / len(question.rubric), True, seconds)
        self._keep(done)
        if marked is not None:
            marked(done)
        for number, follow_up in enumerate(question.follow_ups, 1):
            self._titled(f"Follow-up {number}", follow_up.question)
            self.pause("Enter: compare")
            show.markdown(follow_up.answer, indent=2)
            show.blank()
        self._titled("In 2 minutes", question.long)
        self._titled("Often heard, and wrong", question.often_heard)
        show.markdown(f"Source: {question.source}", indent=2)
        self.pause("Enter: go on")
        return done

    def typed(self, words: str) -> str:
        """What somebody typed, such as notes. ``q`` alone quits."""
        while True:
            self.screen.line(f"{words}   q, Enter: quit", "dim")
            self.prompt()
            typed = self.keys.line()
            if typed.lower() != "q":
                return typed
            self.leave()

    def pause(self, words: str) -> None:
        """Wait for Enter. The end of a pipe goes on; ``q`` quits."""
        self.press(f"{words}   q: quit", f"{ENTER}q", at_end=ENTER)

    def _titled(self, title: str, text: str) -> None:
        self.screen.line(title, "bold")
        self.screen.markdown(text, indent=2)
        self.screen.blank()

    def _tick(self, rubric: Sequence[str], asks: str = "Which of these did you say?") -> int:
        """How many points of the rubric somebody says they made."""
        self.screen.line(asks, "bold")
        for number, point in enumerate(rubric, 1):
            self.screen.markdown(point, first=f"  {number}  ", indent=5)
        self.screen.blank()
        self.screen.line(f"1-{len(rubric)}: tick or untick   Enter: done   q: quit", "dim")
        digits, asked = "123456789"[: len(rubric)], not self.keys.single

        def edit(old: str, key: str) -> str | None:
            return None if key == "?" else _flip(old, key, digits)

        while True:
            self.prompt()
            typed = self.keys.line(edit, at_once="qQ")
            if typed.lower() == "q":
                self.leave()
            elif typed or asked:
                break
            else:
                self.screen.line("Nothing ticked. Enter again to note 0, or tick first.")
                asked = True
        self.screen.line(f"{len(typed)} of {len(rubric)} points.")
        self.screen.blank()
        return len(typed)

    def tick(self, rubric: Sequence[str], asks: str) -> float:
        """The share of a rubric's points that somebody says hold."""
        return self._tick(rubric, asks) / len(rubric)

    def note(self, done: Answered) -> None:
        """Keep an answer that something else has marked, such as a coding task."""
        self._keep(done)

    # ---- in one line --------------------------------------------------------------------------

    def tally(self) -> str:
        """How it went, for a session that was interrupted."""
        if not self.answered:
            return "Nothing was answered yet."
        right = sum(each.right for each in self.answered)
        kept = "not kept, see above" if self.not_kept else "kept"
        return f"{len(self.answered)} answered, {right} right: {kept}."


@contextmanager
def started(where: Where) -> Iterator[Session]:
    """A session at this process's terminal. From here on Ctrl+C raises KeyboardInterrupt."""
    interrupts.clean_up_first()
    with opened() as keys:
        yield Session(Screen(), keys, where)


# ---- what is typed ------------------------------------------------------------------------------


def described(item: Item, lesson: bool = True) -> tuple[str, ...]:
    """Lesson, level and kind, for a heading. In a mock the lesson would be a hint."""
    about = (_lesson(item.topic),) if lesson else ()
    return (*about, f"level {item.level}", KIND_NAMES[item.kind].lower())


def _lesson(topic: str) -> str:
    return catalogue.lesson_of_topic(topic).title


def _help(item: Item, hints: bool, single: bool = True) -> str:
    """The keys, in one line of at most 80 columns. ``single``: one key is an answer."""
    commands = "h: hint   s: show me   q: quit" if hints else "s: I don't know   q: quit"
    if isinstance(item, NumberItem):
        return f"A number, then Enter   ? at the end: a guess   {commands}"
    if isinstance(item, ChoiceItem):
        last = NAMES[len(item.choices) - 1]
        if item.form == "one":
            enter = " (no Enter)" if single else ""
            return f"1-{last}: answer{enter}   ? first: a guess   {commands}"
        return f"1-{last}, then Enter   ? at the end: a guess   {commands}"
    return f"Numbers in order, Enter   ? at the end: a guess   {commands}"


_NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


def _read(item: Item, typed: str) -> tuple[Answer, str]:
    """An answer, and what a number was read as. Raises `AnswerError` with what to type instead."""
    if isinstance(item, NumberItem):
        return read_number(typed, item.unit)
    if isinstance(item, ChoiceItem):
        allowed = NAMES[: len(item.choices)]
        one = item.form == "one"
        if not typed or not set(typed) <= set(allowed) or (one and len(typed) > 1):
            raise AnswerError(
                f"{'press a number' if one else 'type numbers'} from 1 to {allowed[-1]}"
            )
        return sorted({allowed.index(name) for name in typed}), ""
    if not typed:
        raise AnswerError("type the numbers of the lines, in order")
    wanted = len(item.lines)
    if len(typed) != wanted:
        many = _NUMBERS[wanted] if wanted < len(_NUMBERS) else str(wanted)
        some = "all" if len(typed) < wanted else "only"
        raise AnswerError(f"{len(typed)} of {wanted} lines: type {some} {many}")
    shown = shuffled(item)
    return [shown[NAMES.index(name)] for name in typed], ""


def _toggle(count: int) -> Edit:
    """Choices that are on, in their order; the same key again turns one off."""

    def edit(typed: str, key: str) -> str | None:
        return _flip(typed, key, NAMES[:count])

    return edit


def _flip(typed: str, key: str, allowed: str) -> str | None:
    if not key or key not in allowed:
        return typed + key if key == "?" and typed and "?" not in typed else None
    others = typed.replace(key, "")
    if len(others) == len(typed):
        others += key
    return "".join(sorted(others, key=lambda name: (name == "?", name)))


def _arrange(count: int) -> Edit:
    """Lines in the order in which they are typed, each once; a ``?`` at the end is a guess."""

    def edit(typed: str, key: str) -> str | None:
        if key == "?":
            return typed + key if typed and "?" not in typed else None
        if not key or key not in NAMES[:count] or key in typed or "?" in typed:
            return None
        return typed + key

    return edit


# ---- quiz ---------------------------------------------------------------------------------------


def run_quiz(session: Session, items: Sequence[Item]) -> None:
    """Ask these, and sum up. Raises `KeyboardInterrupt`; a quit ends it early and sums up too."""
    asked = 0
    try:
        for asked, item in enumerate(items, 1):
            session.ask(item, f"{asked} of {len(items)}")
    except Quit:
        pass
    sum_up(session, "amp-lessons drill asks again tomorrow what you missed")


def sum_up(session: Session, for_missed: str, also: str = "", in_turn: int | None = None) -> None:
    """The end of a session: the score, what was missed, where to read, and one suggestion.

    Args:
        for_missed: when the missed ones come back.
        also: the suggestion, if it is another one.
        in_turn: how many answers count. Those after them were to questions asked once more.
    """
    show = session.screen
    answered, again = (
        session.answered[:in_turn],
        session.answered[len(session.answered[:in_turn]) :],
    )
    show.blank()
    if not answered:
        show.line("Nothing was answered, so there is nothing to keep.")
        return
    right = sum(each.right for each in answered)
    show.heading(f"{right} of {len(answered)} right")
    guessed = sum(each.right and not each.sure for each in answered)
    if guessed:
        show.line(f"{guessed} of them {'was a guess' if guessed == 1 else 'were guesses'}.")
    if again:
        show.line(f"Asked once more: {sum(each.right for each in again)} of {len(again)} right.")
    if session.not_kept:
        show.as_it_is(f"Not kept: {session.not_kept}")
    missed = list(dict.fromkeys(each.id for each in answered if not each.right))
    if missed:
        show.blank()
        show.line("Missed, and where it's taught:", "bold")
        tell_missed(show, missed)
        show.line("Open a lesson with: amp-lessons lab")
        show.as_it_is(f"See a question again with: amp-lessons quiz {missed[0]}")
    show.blank()
    show.line(also or _suggestion(missed, guessed, for_missed))


def tell_missed(show: Screen, missed: Iterable[str]) -> None:
    """Missed questions by lesson, with the lesson's notebook and its exercises."""
    by_topic: dict[str, list[str]] = {}
    for name in missed:
        by_topic.setdefault(name.partition(".")[0], []).append(name)
    for topic, names in by_topic.items():
        lesson = catalogue.lesson_of_topic(topic)
        show.line(f"  Lesson {lesson.number:02}, {lesson.title}")
        show.line(f"    {lesson.notebook}")
        show.line(f"    {lesson.sheet}")
        for name in names:
            show.line(f"    - {name}")


def _suggestion(missed: Sequence[str], guessed: int, for_missed: str) -> str:
    if missed:
        (topic, _), *_ = Counter(name.partition(".")[0] for name in missed).most_common(1)
        number = catalogue.lesson_of_topic(topic).number
        return f"Next: read lesson {number:02}; {for_missed}."
    if guessed:
        return "Next: look up what you guessed; amp-lessons drill asks it again tomorrow."
    return "Next: try harder ones with amp-lessons quiz --level 3, or a whole amp-lessons mock."


# ---- drill --------------------------------------------------------------------------------------


@dataclass
class CardSource:
    """Gives the question of a card: an item of the bank, or a new one from a generator."""

    bank: Bank
    generators: Mapping[str, Any]
    fresh: Any

    def question(self, card: str) -> Item:
        """Raises `BankError` if there is none."""
        if card in self.generators:
            made: Item = self.fresh.make(self.generators[card])
            return made
        found = self.bank.find(card)
        assert not isinstance(found, OpenQuestion), f"{card} is no card"
        return found


def run_drill(session: Session, deck: CardSource, due: Sequence[str], new: Sequence[str]) -> int:
    """Ask what is due, then what is new, then once more what was missed.

    Returns:
        How many were answered before those that were asked once more.
    """
    total = len(due) + len(new)
    missed: list[str] = []
    in_turn = None
    try:
        for number, card in enumerate((*due, *new), 1):
            word = "new" if number > len(due) else "due"
            done = session.ask(deck.question(card), f"{number} of {total}, {word}")
            if not done.right:
                missed.append(card)
        in_turn = len(session.answered)
        for number, card in enumerate(missed, 1):
            session.ask(deck.question(card), f"Once more, {number} of {len(missed)}")
    except Quit:
        pass
    return len(session.answered) if in_turn is None else in_turn


def choose(
    items: Sequence[Item], number: int, seed: int | None, entries: Iterable[LogEntry] = ()
) -> list[Item]:
    """Items for a quiz: those never answered first, then those answered longest ago.

    With a seed the log does not matter, so that the same seed gives the same quiz.
    """
    drawn = random.Random(seed).sample(list(items), len(items))
    if seed is None:
        latest = {entry.item: entry.at.timestamp() for entry in sorted(entries)}
        drawn.sort(key=lambda item: latest.get(item.id, 0.0))
    return drawn[:number]
