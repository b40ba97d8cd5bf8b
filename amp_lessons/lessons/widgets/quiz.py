"""Questions in a notebook: one at a time, marked here, with the verdict drawn in the page.

The page gets the questions without their answers. What is answered goes into the log, so that
`amp-lessons drill` comes back to what was missed. Where a widget cannot be drawn (GitHub, a PDF),
a static form with folded answers takes its place.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

from amp_lessons.core.progress import ProgressError
from amp_lessons.lessons import just_run
from amp_lessons.lessons.widgets.files import module, style
from amp_lessons.quiz import log, markup, proofs
from amp_lessons.quiz.bank import BankError
from amp_lessons.quiz.items import Item, OrderItem
from amp_lessons.quiz.marking import AnswerError, Marked, mark
from amp_lessons.quiz.typed_numbers import read_number

COMMITTED = "Committed. Now run the next cell."
NO_GUESS = "You didn't guess. This is the answer:"


class Quiz(anywidget.AnyWidget):
    """Questions to answer, one after the other.

    Args:
        items: at least one.
        title: what a screen reader calls the box.
        where: noted in the log.

    Attributes:
        place: of the question that is shown, from 0.
        verdicts: by the question's id, what was told about its answer.
        standing: a line below the questions, such as "2 of 3 right".
    """

    _esm = module("quiz.mjs")
    _css = style("widgets.css", "question.css")

    title = traitlets.Unicode().tag(sync=True)
    questions = traitlets.List(traitlets.Dict()).tag(sync=True)
    place = traitlets.Int(0).tag(sync=True)
    verdicts = traitlets.Dict().tag(sync=True)
    standing = traitlets.Unicode().tag(sync=True)
    ends_at = traitlets.Float(0.0).tag(sync=True)  # seconds since 1970, 0 without a clock
    report = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, items: Sequence[Item], title: str = "Questions", where: log.Where = "quiz"
    ) -> None:
        self.items = {item.id: item for item in items}
        if not self.items:
            raise BankError("a quiz needs at least one question")
        self.where = where
        self._shown_at = time.monotonic()
        self._marked: dict[str, Marked] = {}
        views = [markup.view(item) | {"before": before} for item, before in _with_past(items)]
        super().__init__(questions=views, title=title)
        self.on_msg(self._on_message)

    def answer(self, item_id: str, answer: Any, sure: bool = True) -> dict[str, Any]:
        """Mark an answer and note it. Raises `AnswerError` if it is none."""
        item = self.items[item_id]
        given, read_as = answer, ""
        if item.form == "number" and isinstance(answer, str):
            answer, read_as = read_number(answer, getattr(item, "unit", ""))
        marked = mark(item, answer)
        self._note(item, marked, sure)
        return self._tell(item, self._verdict(item, marked, given) | {"readAs": read_as})

    def give_up(self, item_id: str) -> dict[str, Any]:
        """The answer, for somebody who wants to see it. A question in a quiz counts as missed."""
        item = self.items[item_id]
        self._note(item, Marked(False, 0.0, ()), sure=False)
        return self._tell(item, self._answer_to(item))

    def proof(self, item_id: str) -> dict[str, str]:
        """A question's proof as a program: as text, and as coloured HTML."""
        program = proofs.as_program(self.items[item_id])
        return {"text": program, "markup": markup.code_html(program)}

    def run(self, item_id: str) -> dict[str, str]:
        """What a question's proof prints, run in this process."""
        return {"printed": proofs.printed(proofs.as_program(self.items[item_id]))}

    # ---- inside ----

    def _on_message(self, _: Any, content: dict[str, Any], buffers: Any) -> None:
        reply: dict[str, Any] = {"call": content.get("call")}
        try:
            reply["content"] = self._reply(content)
        except AnswerError as error:
            reply["error"] = f"{str(error)[:1].upper()}{str(error)[1:]}."
        except Exception as error:  # a bug of ours must not leave the page waiting
            reply["error"] = f"This did not work: {type(error).__name__}: {error}"
        self.send(reply)

    def _reply(self, content: dict[str, Any]) -> dict[str, Any]:
        match content["type"]:
            case "answer":
                sure = bool(content.get("sure", True))
                return self.answer(content["id"], content["answer"], sure)
            case "give up":
                return self.give_up(content["id"])
            case "drawn":
                return {"focus": just_run.cells.is_due(self)}
            case "proof":
                return self.proof(content["id"])
            case "run":
                return self.run(content["id"])
            case other:
                raise ValueError(f"no message is called {other!r}")

    def _verdict(self, item: Item, marked: Marked, given: Any) -> dict[str, Any]:
        told = markup.feedback(item, marked) | {"given": given}
        if isinstance(item, OrderItem):
            told["lines"] = [markup.line_html(line) for line in item.lines]
        return told

    def _answer_to(self, item: Item) -> dict[str, Any]:
        """What is told to somebody who has given none."""
        return self._verdict(item, mark(item, markup.key_view(item)), None)

    def _tell(self, item: Item, told: dict[str, Any]) -> dict[str, Any]:
        self.verdicts = self.verdicts | {item.id: told}
        if len(self.items) > 1:
            right = sum(marked.right for marked in self._marked.values())
            self.standing = f"{right} of {len(self._marked)} right"
            if len(self._marked) == len(self.items) and right < len(self.items):
                self.standing += ". The drill comes back to what you missed"
        return told

    def _note(self, item: Item, marked: Marked, sure: bool) -> None:
        if item.id in self._marked:
            return  # the first answer counts
        self._marked[item.id] = marked
        seconds, self._shown_at = time.monotonic() - self._shown_at, time.monotonic()
        self._save(log.LogEntry(log.now(), item.id, marked.score, sure, self.where, seconds))

    def _save(self, entry: log.LogEntry) -> None:
        try:
            log.append(entry)
        except ProgressError as error:
            self.standing = f"Your answer could not be saved: {error}"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        found = super()._repr_mimebundle_(**options)
        data, metadata = found if isinstance(found, tuple) else (found, {})
        return dict(data or {}) | markup.form(list(self.items.values()), self.title), metadata


class Prediction(Quiz):
    """One question before a result. When the result is there, the box opens by itself: with the
    verdict on what was committed, or with the answer, at no cost, if nothing was.

    A commit counts when it is judged: one that a restart of the kernel cuts off leaves no trace.

    Args:
        item: the question.

    Attributes:
        result_there: whether the cell after this one has run.
        committed: by the question's id, a commit that waits for its verdict.
    """

    result_there = traitlets.Bool(False)
    committed = traitlets.Dict().tag(sync=True)

    def __init__(self, item: Item) -> None:
        super().__init__([item], title="Prediction", where="lesson")
        self._waiting: dict[str, Any] | None = None
        self._unsaved: log.LogEntry | None = None

    @property
    def item(self) -> Item:
        return next(iter(self.items.values()))

    def answer(self, item_id: str, answer: Any, sure: bool = True) -> dict[str, Any]:
        """Commit an answer. Raises `AnswerError` if it is none."""
        if self.result_there:  # it was on its way when the box opened
            return self.verdicts[item_id]
        return super().answer(item_id, answer, sure)

    def _tell(self, item: Item, told: dict[str, Any]) -> dict[str, Any]:
        if self.result_there:
            return super()._tell(item, told)
        if self._waiting is None:
            self._waiting = told
            kept = {name: told[name] for name in ("given", "readAs")}
            self.committed = {item.id: kept | {"waiting": COMMITTED, "remarks": []}}
        return self.committed[item.id]

    def _save(self, entry: log.LogEntry) -> None:
        if self.result_there:
            super()._save(entry)
        else:
            self._unsaved = entry

    @traitlets.observe("result_there")
    def _open(self, _: Any) -> None:
        if self._unsaved is not None:
            self._save(self._unsaved)
        if self._waiting is None:
            self._tell(self.item, self._answer_to(self.item) | {"result": NO_GUESS})
        else:
            self._tell(self.item, self._waiting)
        self.committed = {}


def _with_past(items: Sequence[Item]) -> list[tuple[Item, str]]:
    """Each item with how it went the last time: "right", "missed", or "" if it is new."""
    last: dict[str, str] = {}
    try:
        for entry in log.read().entries:
            last[entry.item] = "right" if entry.right else "missed"
    except ProgressError:
        pass
    return [(item, last.get(item.id, "")) for item in items]
