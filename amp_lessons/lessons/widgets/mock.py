"""A mock interview in a notebook: closed and open questions, a task to code, and a report.

What is asked and how it counts, `quiz.mock` decides. As in an interview, nobody says whether an
answer was right before the end.
"""

from __future__ import annotations

import html
import time
from typing import Any

from amp_lessons.core import progress
from amp_lessons.lessons.widgets.quiz import Quiz
from amp_lessons.quiz import log, markup, mock, whiteboard
from amp_lessons.quiz.bank import BankError
from amp_lessons.quiz.items import ChoiceItem, NumberItem, OpenQuestion, OrderItem
from amp_lessons.quiz.marking import AnswerError
from amp_lessons.quiz.mock import Coding, Mock, MockStep, StepScore, YourQuestion

NOTED = "Noted. You learn at the end what was right."
ALOUD = "Answer aloud, as you would to an interviewer. Then compare."
IN_A_CELL = "Write it in the cell of this name above, from memory, and run its check."


class MockInterview(Quiz):
    """A whole interview, one question at a time, with the time that is left.

    Args:
        plan: what `mock.compose` gives.

    Attributes:
        results: what was answered, by the steps' ids.
    """

    def __init__(self, plan: Mock) -> None:
        self.plan = plan
        self.results: dict[str, StepScore] = {}
        self._steps = {step.id: step for step in plan.steps}
        self._waiting: dict[str, dict[str, Any]] = {}
        self._started = progress.load()
        closed = [
            step.asks
            for step in plan.steps
            if isinstance(step.asks, ChoiceItem | NumberItem | OrderItem)
        ]
        if not closed:
            raise BankError("this mock has no question to begin with")
        super().__init__(closed, title="Mock interview", where="mock")
        views = {question["id"]: question for question in self.questions}
        self.questions = [
            views[step.id] if step.id in views else _view(step) for step in plan.steps
        ]
        self.ends_at = time.time() + 60 * plan.minutes

    def finish(self) -> dict[str, Any]:
        """Show the verdicts and the report. What was not answered counts as missed."""
        if not self.report:
            self.verdicts = self.verdicts | self._waiting
            self.report = report_html(mock.report(self.plan, self.results))
        return {}

    # ---- inside ----

    def _reply(self, content: dict[str, Any]) -> dict[str, Any]:
        if content["type"] == "finish":
            return self.finish()
        if content["type"] == "drawn" or _is_closed(step := self._steps[content["id"]]):
            return super()._reply(content)
        if content["type"] == "reveal":
            return _good_answer(step)
        if isinstance(step.asks, Coding):
            return self._check_task(step.asks)
        return self._mark_oneself(step, content["answer"])

    def _tell(self, item: Any, told: dict[str, Any]) -> dict[str, Any]:
        if self.report:
            return super()._tell(item, told)
        score = 0.0 if told["given"] is None else told["score"]
        self.results.setdefault(item.id, StepScore(score))
        self._waiting.setdefault(item.id, told)
        self._count()
        kept = {"given": told["given"], "readAs": told.get("readAs", "")}
        return kept | {"waiting": NOTED, "remarks": []}

    def _mark_oneself(self, step: MockStep, ticked: list[int]) -> dict[str, Any]:
        asked = step.asks
        assert isinstance(asked, OpenQuestion | YourQuestion)
        score = len(set(ticked)) / len(asked.rubric)
        if isinstance(asked, OpenQuestion) and step.id not in self.results:
            self._save(log.LogEntry(log.now(), asked.id, score, True, "mock"))
        self.results.setdefault(step.id, StepScore(score))
        self._count()
        return {"text": f"{len(set(ticked))} of {len(asked.rubric)} points noted"}

    def _check_task(self, task: Coding) -> dict[str, Any]:
        before, now = self._started[task.name], progress.load()[task.name]
        if now.checks == before.checks:
            raise AnswerError(f"the check of {task.name} has not run since this mock began")
        passed = now.state == "passed"
        self.results[task.id] = StepScore(float(passed))
        self._save(log.LogEntry(log.now(), task.id, float(passed), True, "mock"))
        self._count()
        return {"text": "Passed" if passed else f"The check said: {now.state}"}

    def _count(self) -> None:
        self.standing = f"{len(self.results)} of {len(self._steps)} answered"
        if len(self.results) == len(self._steps):
            self.finish()


def _is_closed(step: MockStep) -> bool:
    return not isinstance(step.asks, OpenQuestion | Coding | YourQuestion)


def _view(step: MockStep) -> dict[str, Any]:
    """A question without choices, as the page draws it."""
    asked = step.asks
    shown = {"id": step.id, "topic": asked.topic, "form": "open", "before": "", "howTo": ALOUD}
    if isinstance(asked, Coding):
        task = whiteboard.task(asked.name)
        minutes = f"{task.title}, about {task.minutes} minutes"
        return shown | {
            "form": "task",
            "kindName": f"Code · {minutes}",
            "prompt": markup.to_html(task.statement),
            "code": markup.code_html(task.stub),
            "howTo": IN_A_CELL,
        }
    kind = markup.KIND_NAMES[asked.kind] if isinstance(asked, OpenQuestion) else "Your turn"
    return shown | {"kindName": kind, "prompt": markup.to_html(asked.prompt)}


def _good_answer(step: MockStep) -> dict[str, Any]:
    asked = step.asks
    if isinstance(asked, OpenQuestion):
        answer = markup.open_html(asked, rubric=False)
    else:
        assert isinstance(asked, YourQuestion)
        shown = "".join(f"<li>{markup.inline_html(each)}</li>" for each in asked.examples)
        answer = f"{markup.heading('For example')}<ul>{shown}</ul>"
    return {"answer": answer, "rubric": [markup.inline_html(point) for point in asked.rubric]}


def report_html(report: mock.MockReport) -> str:
    """A report as HTML: points by part and by topic, and what to read next, with links."""
    parts = [f'<p class="amp-result">{_points(report)} points</p>']
    band = html.escape(report.band[:1].upper() + report.band[1:])
    parts += [f"<p>{band}</p>"] if band else []
    parts.append(_table("Part", report.parts))
    parts.append(_table("Topic", report.topics))
    if report.read_next:
        links = "".join(
            f'<li><a target="_blank" href="../{each.notebook}">{html.escape(each.title)}</a></li>'
            for each in report.read_next
        )
        parts.append(f"{markup.heading('Read next')}<ul>{links}</ul>")
    return "".join(parts)


def _points(scored: mock.MockReport | mock.Scored) -> str:
    return f"{mock.in_words(scored.points)} of {mock.in_words(scored.of)}"


def _table(heading: str, rows: tuple[mock.Scored, ...]) -> str:
    lines = "".join(
        f"<tr><td>{html.escape(row.title)}</td><td>{_points(row)}</td></tr>" for row in rows
    )
    return f"<table><tr><th>{heading}</th><th>Points</th></tr>{lines}</table>"
