"""Check questions while you write them: `python tools/check_bank.py grad_scaler`.

Reads the bank, runs the proofs of the topics that you name (all of them without a name), holds
their sentences to the rules of `tools/prose.py`, and says what gives answers away. The tests hold
the same rules. A *strategy* is a way to guess without knowing: it should do no better than chance.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches

from prose import plain, unplain

from amp_lessons.quiz import bank, proofs
from amp_lessons.quiz.items import ChoiceItem, Item, OpenQuestion, texts

Strategy = Callable[[ChoiceItem], Sequence[int]]
"""Gives the places of the choices among which it would draw."""

HEDGES = re.compile(
    r"\b(may|might|can|could|often|usually|sometimes|mostly|likely|probably|about|roughly|"
    r"nearly|almost|depends?|unless|if|some|most|perhaps|generally|typically|at least|at most)\b",
    re.IGNORECASE,
)
ALL_OF_THEM = re.compile(
    r"^(all|none|both|neither|either) of (the )?(above|these|them)\b|\b(above|the other choices)$",
    re.IGNORECASE,
)


def _highest(item: ChoiceItem, measure: Callable[[str], float]) -> list[int]:
    scores = [measure(choice.text) for choice in item.choices]
    return [place for place, score in enumerate(scores) if score == max(scores)]


def _only_code(item: ChoiceItem) -> list[int]:
    coded = [place for place, choice in enumerate(item.choices) if "`" in choice.text]
    return coded if len(coded) == 1 else list(range(len(item.choices)))


STRATEGIES: dict[str, Strategy] = {
    "the longest": lambda item: _highest(item, len),
    "the first": lambda item: [0],
    "the most hedged": lambda item: _highest(item, lambda text: len(HEDGES.findall(text))),
    "the only one with code": _only_code,
}


def single_choice(items: Iterable[Item]) -> list[ChoiceItem]:
    """The items with one right choice."""
    return [item for item in items if isinstance(item, ChoiceItem) and item.form == "one"]


def gain(strategy: Strategy, items: Sequence[ChoiceItem]) -> float:
    """How many percentage points a strategy scores above chance."""
    score = chance = 0.0
    for item in items:
        chosen = strategy(item)
        score += len(item.right & set(chosen)) / len(chosen)
        chance += 1 / len(item.choices)
    return 100 * (score - chance) / len(items) if items else 0.0


def report(items: Sequence[Item]) -> list[str]:
    """A line for each strategy: its gain over all items, and in the topics where it is over 15."""
    singles = single_choice(items)
    lines = []
    for name, strategy in STRATEGIES.items():
        topics = {topic: [i for i in singles if i.topic == topic] for topic in bank.topics_there()}
        gains = {topic: gain(strategy, found) for topic, found in topics.items() if found}
        high = ", ".join(f"{topic} {value:+.0f}" for topic, value in gains.items() if value > 15)
        lines.append(
            f"{name}: {gain(strategy, singles):+.1f} points" + f"; too high: {high}" * bool(high)
        )
    return lines


def words(item: Item | OpenQuestion) -> list[str]:
    """What is wrong with the English of a question, each in a line."""
    found = []
    for text in texts(item):
        found += unplain(text)
        if "$" in plain(text):
            found.append(f"no formulas, write them as code: {text}")
        if re.search(r"\(([a-e])\)", plain(text)):
            found.append(f"choices have no letters here: {text}")
    return [f"{item.id}: {fault}" for fault in found]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("topics", nargs="*", help="such as grad_scaler; default all")
    topics = parser.parse_args(arguments).topics
    known = bank.topics_there()
    for topic in topics:
        if topic not in known:
            close = get_close_matches(topic, known, n=1)
            cure = f"did you mean {close[0]}?" if close else f"there are {', '.join(known)}"
            print(f"no topic is called {topic!r}; {cure}", file=sys.stderr)
            return 2
    try:
        there = bank.read(bank.FOLDER)
    except bank.BankError as error:
        print(error)
        return 1
    items = [i for i in (*there.items, *there.predictions) if not topics or i.topic in topics]
    if not items:
        print(f"{', '.join(topics)} has no questions yet")
        return 1
    spoken = [question for question in there.open if not topics or question.topic in topics]
    faults = [fault for item in (*items, *spoken) for fault in words(item)]
    print("\n".join(faults), end="\n" if faults else "")
    failed = 0
    for item in items:
        if item.proved:
            try:
                proofs.prove(item)
            except proofs.ProofError as error:
                failed += 1
                print(error)
    found = [i for i in items if i.kind != "prediction"]
    kinds: dict[str, int] = {}
    for item in found:
        kinds[item.kind] = kinds.get(item.kind, 0) + 1
    levels = [sum(i.level == level for i in found) for level in (1, 2, 3)]
    print(f"{len(found)} items, {sum(i.proved for i in found)} proved, {failed} proofs failed")
    print(f"kinds {kinds}, levels 1/2/3 {levels}, open {len(spoken)}")
    for line in report(found):
        print(line)
    return 1 if failed or faults else 0


if __name__ == "__main__":
    sys.exit(main())
