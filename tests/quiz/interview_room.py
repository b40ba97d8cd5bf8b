"""A small question bank and two generators for the tests, and the command line on top of them.

Questions are told by their ids, so no test depends on what the real bank asks. Run as a program,
this is `amp-lessons` with this bank, for tests in a process or at a terminal of their own.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from amp_lessons.quiz.bank import Bank, BankError, topics_there
from amp_lessons.quiz.items import ChoiceItem, NumberItem, OpenQuestion, OrderItem

KINDS = ("single", "output", "bug", "trace", "several")


def choice_item(name: str, kind: str = "single", level: int = 1, **more: Any) -> ChoiceItem:
    """``b`` is right; in a *several* question, ``a`` and ``c`` are."""
    right = (0, 2) if kind == "several" else (1,)
    choices = [
        {"text": f"choice {n} of {name}", "why": f"why {n} of {name}", "right": n in right}
        for n in range(3)
    ]
    data = {
        "id": name,
        "kind": kind,
        "level": level,
        "prompt": f"Ask **{name}** with `code` and $2^{{-24}}$?",
        "hint": f"hint of {name}",
        "source": f"source of {name}",
        "code": "import math\nprint(math.pi)" if kind in ("output", "bug") else "",
        "log": "step  loss\n   0   1.0" if kind == "trace" else "",
        "choice": choices,
    }
    return ChoiceItem.model_validate(data | more)


def number_item(name: str, answer: float = 7.0, level: int = 2) -> NumberItem:
    return NumberItem(
        id=name,
        kind="number",
        level=level,
        prompt=f"How many in {name}?",
        hint="count",
        source="a source",
        answer=answer,
        unit="GB",
        tolerance=0.01,
        explanation=f"It is {answer:g}.",
        mistake=({"value": answer + 5, "why": "five too many"},),
        proof=f"answer = {answer - 1} + abs(1)",
    )


def order_item(name: str) -> OrderItem:
    return OrderItem(
        id=name,
        kind="order",
        level=1,
        prompt="Put in order.",
        hint="begin at the beginning",
        source="a source",
        lines=("first()", "second()", "third()"),
        explanation="One after the other.",
        distractor=({"text": "never()", "why": "This one never comes."},),
    )


def open_question(name: str, kind: str = "explain") -> OpenQuestion:
    follow_up = {"question": "And then?", "answer": "Then this."}
    return OpenQuestion(
        id=name,
        kind=kind,
        level=2,
        prompt=f"Explain {name}.",
        short=f"short of {name}",
        long=f"long of {name}",
        rubric=("one point", "two points", "three points"),
        follow_up=(follow_up, follow_up | {"question": "And after that?"}),
        often_heard="Something wrong.",
        source="a source",
    )


def small_bank() -> Bank:
    """For each topic: one item of each kind, an open question and a prediction."""
    items: list[Any] = []
    for topic in topics_there():
        items += [
            choice_item(f"{topic}.{kind}_it", kind, level)
            for level, kind in ((1, "single"), (2, "output"), (3, "bug"), (3, "trace"))
        ]
        items.append(choice_item(f"{topic}.several_it", "several", 2))
        items += [number_item(f"{topic}.number_it"), order_item(f"{topic}.order_it")]
    kinds = ("explain", "whiteboard", "design")
    opens = [open_question(f"{t}.open_it", kinds[n % 3]) for n, t in enumerate(topics_there())]
    predictions = [choice_item(f"{topic}.predict_it", "prediction") for topic in topics_there()]
    return Bank(tuple(items), tuple(predictions), tuple(opens))


@dataclass(frozen=True)
class FakeGenerator:
    """As `generators.Generator`."""

    id: str
    title: str
    kind: str
    level: int = 2

    @property
    def topic(self) -> str:
        return self.id.partition(".")[0]

    def make(self, seed: int) -> Any:
        name = f"{self.id}_{seed}"
        return number_item(name) if self.kind == "number" else choice_item(name, self.kind)


class FakeFresh:
    """As `generators.Fresh`."""

    def __init__(self, seed: int, seen: Any = ()) -> None:
        self.seed = seed

    def make(self, generator: FakeGenerator) -> Any:
        self.seed += 1
        return generator.make(self.seed)


def fake_generators() -> ModuleType:
    """A module as `amp_lessons.quiz.generators` is."""
    module: Any = ModuleType("amp_lessons.quiz.generators")
    made = (
        FakeGenerator("number_formats.gen_round", "Round it", "single"),
        FakeGenerator("memory.gen_bytes_2", "Count bytes", "number"),
    )
    module.GENERATORS = {each.id: each for each in made}
    module.Fresh = FakeFresh

    def find(name: str) -> FakeGenerator:
        if name not in module.GENERATORS:
            raise BankError(f"no generator is called {name!r}; there are 2")
        found: FakeGenerator = module.GENERATORS[name]
        return found

    def remake(item_id: str) -> Any:
        name, _, seed = item_id.rpartition("_")
        return find(name).make(int(seed))

    module.find, module.remake = find, remake
    return module


def main() -> None:
    """The command line on the small bank. The first word may be ``--``, or code to run first."""
    import amp_lessons.quiz
    from amp_lessons import __main__
    from amp_lessons.quiz import bank

    bank.load = small_bank  # type: ignore[assignment]
    fake = fake_generators()
    sys.modules[fake.__name__] = fake
    amp_lessons.quiz.generators = fake  # type: ignore[attr-defined]
    __main__.main()


if __name__ == "__main__":
    main()
