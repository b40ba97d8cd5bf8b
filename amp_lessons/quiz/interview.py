"""A mock interview at the terminal: the clock, the parts in turn, and the report at the end.

What is asked and how it is scored, `mock` decides. As in an interview, nobody says whether an
answer was right until the end; then what was missed can be gone through.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from amp_lessons.core.files import data_folder, write_atomically
from amp_lessons.core.terminal import warn
from amp_lessons.quiz import log, mock, whiteboard
from amp_lessons.quiz.items import OpenQuestion
from amp_lessons.quiz.keys import ENTER, Quit
from amp_lessons.quiz.mock import Coding, Mock, MockReport, MockStep, Part, StepScore, YourQuestion
from amp_lessons.quiz.session import Answered, Session, described


@dataclass
class Interview:
    """One mock interview under way.

    Attributes:
        folder: where coding tasks are written.
        results: by the steps' ids.
        missed: closed questions to go through at the end: also those that were guessed.
        checker: checks a coding task's file.
    """

    plan: Mock
    session: Session
    folder: Path
    results: dict[str, StepScore] = field(default_factory=dict)
    missed: list[Answered] = field(default_factory=list)
    checker: Callable[[str, Path], whiteboard.Checked] = whiteboard.check
    started_at: float = 0.0

    # ---- the parts ----------------------------------------------------------------------------

    def run(self) -> MockReport:
        """Ask everything that the time allows, and give the report."""
        finished = True
        try:
            self._open()
            self.session.confirm = "End the interview?"
            for part in self.plan.parts:
                if not self._run_part(part):
                    break
        except Quit:
            finished = False
        finally:
            self.session.confirm = ""
        return self.report(finished)

    def report(self, finished: bool) -> MockReport:
        """The report on what was answered so far."""
        return mock.report(self.plan, self.results, finished=finished)

    def _open(self) -> None:
        show, plan = self.session.screen, self.plan
        show.blank()
        show.heading(f"Mock interview: {mock.ROLES[plan.role].title}, {plan.minutes} minutes")
        show.blank()
        for part in plan.parts:
            count = len(part.steps)
            what = f"{count} question{'s' * (count != 1)}"
            if part.name == mock.CODE:
                what = f"{count} task{'s' * (count != 1)}"
            show.line(f"  {part.title:<22}{part.minutes:>3} min  {part.points:>3} points  {what}")
        show.blank()
        show.line(
            "Say your reasons aloud, as you would to an interviewer. You get no hints, and you "
            "hear how it went at the end. The clock never cuts an answer off."
        )
        self.session.pause("Enter: start the clock")
        self.started_at = self.session.clock()

    def _run_part(self, part: Part) -> bool:
        """Whether there is time for the next one."""
        show = self.session.screen
        show.blank()
        show.heading(f"{part.title}: {part.minutes} min, {part.points} points")
        show.line(f"An interviewer looks for: {part.looks_for}.")
        for number, step in enumerate(part.steps, 1):
            if self._left() <= 0:
                return False
            self._run_step(step, f"{part.title}, {number} of {len(part.steps)}")
        if part is not self.plan.parts[-1]:
            show.blank()
            show.line(self.clock_line(), "bold")
        return True

    def _run_step(self, step: MockStep, heading: str) -> None:
        asks = step.asks
        if isinstance(asks, YourQuestion):
            self._your_question(asks, step)
        elif isinstance(asks, Coding):
            self._coding(asks, step)
        elif isinstance(asks, OpenQuestion):
            self.session.ask_open(asks, heading, marked=lambda done: self._note(step, done))
        else:
            done = self.session.ask(asks, heading, reveal=False)
            if not (done.right and done.sure):
                self.missed.append(done)
            self._note(step, done)

    def _note(self, step: MockStep, done: Answered) -> None:
        self.results[step.id] = StepScore(done.score, done.sure, round(done.seconds, 1))

    def _left(self) -> float:
        """Seconds."""
        return self.plan.minutes * 60 - (self.session.clock() - self.started_at)

    def clock_line(self) -> str:
        """The time that is left, rounded up to minutes."""
        minutes = int(-(-self._left() // 60))
        if minutes <= 0:
            return "The time is up."
        return f"{minutes} minute{'s' * (minutes != 1)} left."

    # ---- your question ------------------------------------------------------------------------

    def _your_question(self, asks: YourQuestion, step: MockStep) -> None:
        show = self.session.screen
        show.blank()
        show.line(asks.prompt)
        self.session.typed("Ask it aloud or type it. Enter: go on")
        show.blank()
        share = self.session.tick(asks.rubric, "Which of these are true of it?")
        self.results[step.id] = StepScore(share)
        show.line("Three questions that do all of this:", "bold")
        for example in asks.examples:
            show.markdown(example, first="  - ", indent=4)

    # ---- the coding task ----------------------------------------------------------------------

    def _coding(self, asks: Coding, step: MockStep) -> None:
        show = self.session.screen
        show.blank()
        start = self.session.clock()
        try:
            task = whiteboard.task(asks.name)
            path = whiteboard.write(task, self.folder)
        except whiteboard.WhiteboardError as error:
            warn(f"no coding task this time: {error}")
            self.results[step.id] = StepScore(0.0)
            return
        show.line(task.title, "bold")
        show.blank()
        show.markdown(task.statement)
        show.blank()
        show.code(task.stub)
        show.blank()
        show.line(f"Write it in {path.name}, which is in the current folder.", "bold")
        show.line("Edit it in another window, from memory, and save it.")
        passed = self._until_it_passes(task.name, path)
        done = Answered(step.id, float(passed), True, self.session.clock() - start)
        self.session.note(done)
        self._note(step, done)

    def _until_it_passes(self, name: str, path: Path) -> bool:
        show = self.session.screen
        while True:
            show.blank()
            legend = f"{self.clock_line()}  Enter: check it   s: leave it   q: quit"
            if self.session.press(legend, f"{ENTER}sq") == "s":
                show.line(f"Left as it is. The exercise is in {_sheet(name)}.")
                return False
            show.line("Checking, which takes a few seconds ...")
            checked = self.checker(name, path)
            self._show_check(checked)
            if checked.passed:
                return True

    def _show_check(self, checked: whiteboard.Checked) -> None:
        show = self.session.screen
        if checked.printed:
            show.line("Your program prints:", "dim")
            show.code(checked.printed, python=False)
        style = {"passed": "green", "wrong": "red"}.get(checked.state, "yellow")
        show.state(checked.state, f"{checked.state.capitalize()}.", style)
        if checked.message:
            show.paragraph(checked.message, indent=2)
        if checked.seen:
            show.code("\n".join(checked.seen), python=False)

    # ---- the end ------------------------------------------------------------------------------

    def go_through_missed(self) -> None:
        """Show what was missed or guessed with its answers, if somebody wants to see it."""
        show = self.session.screen
        if not self.missed:
            return
        count = len(self.missed)
        what = "the question" if count == 1 else f"the {count} questions"
        guessed = " or guessed" if any(done.right for done in self.missed) else ""
        show.blank()
        try:
            if self.session.press(f"Go through {what} you missed{guessed}? y/n", "ynq") != "y":
                return
            for number, done in enumerate(self.missed, 1):
                if number > 1:
                    self.session.pause("Enter: the next one")
                assert done.item is not None
                show.blank()
                word = "Guessed" if done.right else "Missed"
                show.heading(f"{word}, {number} of {count}", *described(done.item))
                show.blank()
                show.question(done.item)
                self.session.explain(done.item, done.marked, done.sure)
                show.blank()
        except Quit:
            return


def _sheet(name: str) -> str:
    return whiteboard.task(name).lesson.sheet


def show_report(session: Session, report: MockReport, saved: Path | None) -> None:
    """The report as a person reads it."""
    show = session.screen
    show.blank()
    band = f": {report.band}" if report.band else ""
    won, possible = mock.in_words(report.points), mock.in_words(report.of)
    show.heading(f"{won} of {possible} points{band}")
    if not report.finished:
        show.line("You stopped early, so only what you answered counts.")
    elif report.unasked:
        many = f"{report.unasked} questions were" if report.unasked > 1 else "1 question was"
        show.line(f"The time was up: {many} not asked, and count as missed.")
    guessed = sum(r.score == 1 and not r.sure for r in report.results.values())
    if guessed:
        many = f"{guessed} of your right answers were guesses"
        show.line(f"{'1 of your right answers was a guess' if guessed == 1 else many}.")
    for title, rows in (("By part", report.parts), ("By topic", report.topics)):
        if rows:
            show.blank()
            show.line(title, "bold")
        for row in rows:
            tenths = [mock.tenths(points) for points in (row.points, row.of)]
            show.line(f"  {row.title:<34}{tenths[0]:>5.1f} of {tenths[1]:>5.1f}")
    if report.read_next:
        show.blank()
        show.line("Read next", "bold")
        for reading in report.read_next:
            show.line(f"  {reading.title[:1].upper()}{reading.title[1:]}")
            show.line(f"    {reading.notebook}")
            show.line(f"    {reading.sheet}")
        show.line("  Open them with: amp-lessons lab")
    show.blank()
    if session.not_kept:
        show.line(f"Your answers were not kept: {session.not_kept}")
    if saved is not None:
        show.as_it_is(f"This report is kept in {saved}")
    seed = report.mock.seed
    show.line(
        f"Seed {seed}: the same interview again with --seed {seed}, as long as your answers don't "
        "change. Those that you gave here count too."
    )
    if report.mock.minutes < mock.LEAST_FOR_BAND:
        show.line(f"An interview under {mock.LEAST_FOR_BAND} minutes is too short for a band.")
    elif report.finished:
        bands = [f"from {least}: {words}" for least, words in reversed(mock.BANDS) if least]
        show.line(f"Bands: {'; '.join(bands)}.")


def save(report: MockReport) -> Path | None:
    """Keep a report as JSON beside the progress. Warns, and gives None, if it can't be written."""
    folder = data_folder() / "mocks"
    now = log.now()
    path = folder / f"mock-{now:%Y%m%dT%H%M%S%f}.json"
    data = {"at": now.isoformat(timespec="seconds")} | report.to_json()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, (json.dumps(data, indent=1) + "\n").encode())
    except OSError as error:
        warn(f"the report is not kept: {path} cannot be written: {error.strerror}")
        return None
    return path
