"""What a question is: the kinds of items, open questions, and what makes one well formed.

The bank's files and the generators both make these, so whatever asks a question (a terminal, a
widget, a page, a deck of cards) knows only what stands here. Nothing here imports torch.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

Kind = Literal["single", "several", "number", "output", "bug", "order", "trace"]
KINDS: tuple[str, ...] = get_args(Kind)
OpenKind = Literal["explain", "whiteboard", "design"]
Form = Literal["one", "many", "number", "order"]

Text = Annotated[str, Field(min_length=1)]


class _ItemModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)


class Choice(_ItemModel):
    """One answer to choose from.

    Attributes:
        text: what is shown. In an *output* item, exactly what the code prints.
        why: what somebody reads who chose it: why it is right, or why it is tempting and wrong.
        right: whether it is.
        holds: a Python expression over the names that the item's proof leaves behind; true for a
            right choice and false for a wrong one.
    """

    text: Text
    why: Text
    right: bool = False
    holds: str = ""


class NumericMistake(_ItemModel):
    """A wrong number that names its wrong model, such as a forgotten factor."""

    value: float
    why: Text


class Distractor(_ItemModel):
    """A line that does not belong, among those to put in order."""

    text: Text
    why: Text


class Slip(_ItemModel):
    """A wrong order that has a name: the line ``early`` stands before the line ``late``."""

    early: int
    late: int
    why: Text


class Plot(_ItemModel):
    """Curves to read. The numbers are data, so that a terminal can show them as a table.

    Attributes:
        x, y: labels of the axes, with units.
        series: values by the name of their curve, one for each step. ``inf`` and ``nan`` are
            allowed: they are shown as gaps, and named in the table.
        alt: what the picture shows, for somebody who cannot see it, without giving the answer.
        start, every: the first step, and the distance between two values.
        log: whether the y axis is logarithmic.
    """

    x: Text
    y: Text
    series: dict[str, tuple[float, ...]]
    alt: Text
    start: int = 0
    every: int = 1
    log: bool = False

    @model_validator(mode="after")
    def _same_length(self) -> Plot:
        lengths = {len(values) for values in self.series.values()}
        if len(lengths) != 1 or lengths == {0}:
            raise ValueError("the series of a plot need the same number of values, at least one")
        return self


class _Question(_ItemModel):
    """What all items share.

    Attributes:
        id: unique in the bank, as ``"grad_scaler.skip_halves"``: topic, then a name.
        level: 1 to recall, 2 to apply and predict, 3 to diagnose, design and defend.
        prompt: the question, in Markdown.
        code: Python to read with it.
        log: text output to read with it, such as a training log.
        plot: curves to read with it.
        hint: a push in the right direction that does not give the answer.
        source: where the fact comes from: a primary source with its version.
        proof: Python that runs in the tests; see `proofs`.
        enemies: ids of items that answer this one, so that no mock asks both.
        corrects: claims of the seed documents that it puts right, such as ``"001.2"``.
    """

    id: Annotated[str, Field(pattern=r"^[a-z0-9_]+\.[a-z0-9_]+$")]
    level: Literal[1, 2, 3]
    prompt: Text
    hint: Text
    source: Text
    code: str = ""
    log: str = ""
    plot: Plot | None = None
    proof: str = ""
    enemies: tuple[str, ...] = ()
    corrects: tuple[str, ...] = ()

    @property
    def topic(self) -> str:
        return self.id.partition(".")[0]


class ChoiceItem(_Question):
    """A question with answers to choose from, in the order in which they are shown."""

    kind: Literal["single", "several", "output", "bug", "trace", "prediction"]
    choices: tuple[Choice, ...] = Field(alias="choice")
    explanation: str = ""

    @property
    def form(self) -> Form:
        return "many" if self.kind == "several" else "one"

    @property
    def right(self) -> frozenset[int]:
        """The places of the right choices, from 0."""
        return frozenset(place for place, choice in enumerate(self.choices) if choice.right)

    @property
    def proved(self) -> bool:
        return self.kind == "output" or bool(self.proof)

    @model_validator(mode="after")
    def _well_formed(self) -> ChoiceItem:
        most = 7 if self.kind == "several" else 5
        if not 2 <= len(self.choices) <= most:
            raise ValueError(f"it needs 2 to {most} choices, and has {len(self.choices)}")
        texts = [choice.text for choice in self.choices]
        if len(set(texts)) < len(texts):
            raise ValueError("two of its choices are the same")
        if self.kind == "several":
            if not self.right:
                raise ValueError("none of its choices is right")
        elif len(self.right) != 1:
            raise ValueError(f"a {self.kind} has one right choice, and this has {len(self.right)}")
        if self.kind in ("output", "bug") and not self.code:
            raise ValueError(f"a {self.kind} needs code")
        if self.kind == "trace" and not (self.log or self.plot):
            raise ValueError("a trace needs a log or a plot")
        self._check_claims()
        return self

    def _check_claims(self) -> None:
        """Each choice of a proved item claims something of its own."""
        claims = [choice.holds for choice in self.choices if choice.holds]
        if not self.proof:
            if claims:
                raise ValueError("its choices have `holds`, and it has no proof to compute them")
            return
        if len(claims) < len(self.choices):
            raise ValueError("with a proof, each choice needs `holds`")
        if len(set(claims)) < len(claims):
            raise ValueError("its proof proves two choices: their `holds` are the same")
        for claim in claims:
            _check_claim(claim)
        _check_computes(self.proof)


class NumberItem(_Question):
    """A question whose answer is a number.

    Attributes:
        answer: in ``unit``.
        tolerance: how far an accepted answer may be off, as a share of the answer; 0 for exact.
        mistakes: wrong numbers with the thinking behind them.
    """

    kind: Literal["number", "prediction"]
    answer: float
    explanation: Text
    unit: str = ""
    tolerance: Annotated[float, Field(ge=0, lt=1)] = 0.0
    mistakes: tuple[NumericMistake, ...] = Field((), alias="mistake")

    @property
    def form(self) -> Form:
        return "number"

    @property
    def proved(self) -> bool:
        return bool(self.proof)

    def accepts(self, value: float) -> bool:
        """Whether this answer is close enough."""
        return abs(value - self.answer) <= self.tolerance * abs(self.answer) * (1 + 1e-9)

    @model_validator(mode="after")
    def _well_formed(self) -> NumberItem:
        if self.kind == "number" and not self.mistakes:
            raise ValueError("it needs a mistake: a wrong number that people arrive at")
        for mistake in self.mistakes:
            if self.accepts(mistake.value):
                raise ValueError(f"its mistake {mistake.value:g} would be accepted as right")
        if self.proof:
            _check_computes(self.proof)
        return self


class OrderItem(_Question):
    """Lines to put in order.

    Attributes:
        lines: in a right order.
        before: pairs of places in ``lines``, where the first must come before the second. Empty:
            each line must follow the one before it. Otherwise any order that keeps these is right.
        distractors: lines that do not belong.
        slips: wrong orders that have a name.
    """

    kind: Literal["order"]
    lines: Annotated[tuple[Text, ...], Field(min_length=3, max_length=10)]
    explanation: Text
    before: tuple[tuple[int, int], ...] = ()
    distractors: tuple[Distractor, ...] = Field((), alias="distractor")
    slips: tuple[Slip, ...] = Field((), alias="slip")

    @property
    def form(self) -> Form:
        return "order"

    @property
    def proved(self) -> bool:
        return bool(self.proof)

    @property
    def offered(self) -> tuple[str, ...]:
        """All lines to choose from, the distractors last. Front ends shuffle them."""
        return self.lines + tuple(distractor.text for distractor in self.distractors)

    def accepts(self, order: Sequence[int]) -> bool:
        """Whether these places in `offered` are a right order."""
        if sorted(order) != list(range(len(self.lines))):
            return False
        place = {line: number for number, line in enumerate(order)}
        pairs = self.before or tuple(pairwise(range(len(self.lines))))
        return all(place[a] < place[b] for a, b in pairs)

    @model_validator(mode="after")
    def _well_formed(self) -> OrderItem:
        if len(set(self.offered)) < len(self.offered):
            raise ValueError("two of its lines are the same")
        if not self.distractors:
            raise ValueError("it needs a distractor: a line that does not belong")
        places = range(len(self.lines))
        used = {place for pair in self.before for place in pair}
        used |= {place for slip in self.slips for place in (slip.early, slip.late)}
        if not used <= set(places):
            raise ValueError(f"`before` and slips name places from 0 to {len(self.lines) - 1}")
        if not self.accepts(places):
            raise ValueError("`before` contradicts the order of its own lines")
        if self.proof and "accepts" not in _names_defined(self.proof):
            raise ValueError("the proof of an order defines accepts(lines)")
        if self.proof:
            _check_computes(self.proof)
        return self


Item = ChoiceItem | NumberItem | OrderItem


class FollowUp(_ItemModel):
    """What the interviewer asks next, and what a good answer has in it."""

    question: Text
    answer: Text


class OpenQuestion(_ItemModel):
    """A question to answer aloud or at a whiteboard, marked by oneself.

    Attributes:
        short: what to say in 30 seconds.
        long: what to say in 2 minutes.
        rubric: 3 to 5 points, each worth the same.
        often_heard: the wrong answer that interviewers often hear, and what is wrong with it.
    """

    id: Annotated[str, Field(pattern=r"^[a-z0-9_]+\.[a-z0-9_]+$")]
    kind: OpenKind
    level: Literal[1, 2, 3]
    prompt: Text
    short: Text
    long: Text
    rubric: Annotated[tuple[Text, ...], Field(min_length=3, max_length=5)]
    follow_ups: Annotated[tuple[FollowUp, ...], Field(min_length=2, alias="follow_up")]
    often_heard: Text
    source: Text
    enemies: tuple[str, ...] = ()

    @property
    def topic(self) -> str:
        return self.id.partition(".")[0]


# ---- what a proof must look like ----------------------------------------------------------------

_IDLE = {"print", "len", "str", "repr", "bool", "int", "float", "list", "tuple", "set", "dict"}


def _check_claim(claim: str) -> None:
    try:
        tree = ast.parse(claim.strip(), mode="eval")
    except SyntaxError as error:
        raise ValueError(f"`holds` is not a Python expression: {claim!r}") from error
    if not any(isinstance(node, ast.Name) for node in ast.walk(tree)):
        raise ValueError(f"`holds` compares only literals: {claim!r}")


def _check_computes(proof: str) -> None:
    """A proof calls something, calculates, or reads a value of a module, such as a flag of torch;
    one that only names its own answer proves nothing."""
    try:
        tree = ast.parse(proof)
    except SyntaxError as error:
        raise ValueError(
            f"its proof is not valid Python: {error.msg}, line {error.lineno}"
        ) from error
    imports = [n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom)]
    imported = {(a.asname or a.name).partition(".")[0] for n in imports for a in n.names}
    if not any(_is_work(node, imported) for node in ast.walk(tree)):
        raise ValueError(
            "its proof computes nothing: have it call or calculate something, or read a value from "
            "a module that it imports"
        )


def _is_work(node: ast.AST, imported: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in imported
    if isinstance(node, ast.Call):
        return not (isinstance(node.func, ast.Name) and node.func.id in _IDLE)
    return isinstance(node, ast.BinOp | ast.AugAssign)


def _names_defined(source: str) -> set[str]:
    try:
        return {n.name for n in ast.parse(source).body if isinstance(n, ast.FunctionDef)}
    except SyntaxError:
        return set()


# ---- texts ---------------------------------------------------------------------------------------


def texts(item: Item | OpenQuestion) -> Iterator[str]:
    """Everything in it that a person reads as prose."""
    for name in ("prompt", "hint", "explanation", "short", "long", "often_heard"):
        if text := getattr(item, name, ""):
            yield text
    yield from getattr(item, "rubric", ())
    for name in ("choices", "mistakes", "distractors", "slips"):
        yield from (part.why for part in getattr(item, name, ()))
    if isinstance(item, ChoiceItem) and item.kind != "output":
        yield from (choice.text for choice in item.choices)
    for follow_up in getattr(item, "follow_ups", ()):
        yield from (follow_up.question, follow_up.answer)


def slug_of(item_id: str) -> str:
    """An id as an HTML id or a file name can carry it."""
    return re.sub(r"[^a-z0-9]+", "-", item_id.lower()).strip("-")
