"""Proofs: code that shows that the marked answer is right and each of the others is wrong.

A proof is a short program. What it leaves behind is asked:

- an item with choices gives each of them ``holds``, an expression over the proof's names. It must
  be true for the right choices and false for the others. In the proof, ``code`` is the item's code
  as text, and ``printed(text)`` runs a program and returns what it prints;
- an *output* item needs no proof of its own: its code is run, and must print the right choice;
- a *number* item's proof leaves ``answer`` behind, which must be accepted, and its mistakes not;
- an *order* item's proof defines ``accepts(lines)``, which gets the lines in some order, and says
  whether that order works.

Running a proof imports torch; importing this module does not.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import warnings
from collections.abc import Iterator
from itertools import permutations
from typing import Any

from amp_lessons.quiz.bank import BankError
from amp_lessons.quiz.items import ChoiceItem, Item, NumberItem, OrderItem
from amp_lessons.quiz.marking import NAMES

ALL_ORDERS = 5
"""Up to so many lines, every order is tried; beyond, a sample of them."""
SAMPLED_ORDERS = 120


class ProofError(BankError):
    """A proof does not prove its item. The message names the item and what failed."""


def printed(source: str, names: dict[str, Any] | None = None) -> str:
    """What a program prints, without the space at its ends. Warnings are left out."""
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(source, "<item>", "exec"), {} if names is None else names)
    return shown.getvalue().strip()


def prove(item: Item) -> None:
    """Run an item's proof.

    Raises:
        ProofError: if it fails, proves a wrong answer, or does not prove the right one.
    """
    if isinstance(item, ChoiceItem):
        _prove_choices(item)
    elif isinstance(item, NumberItem):
        _prove_number(item)
    else:
        _prove_order(item)


def _names_after(item: Item) -> dict[str, Any]:
    names: dict[str, Any] = {"code": item.code, "printed": printed}
    try:
        printed(item.proof, names)
    except Exception as error:
        raise ProofError(f"{item.id}: its proof raises {type(error).__name__}: {error}") from error
    return names


def _prove_choices(item: ChoiceItem) -> None:
    for choice, holds in zip(item.choices, claims(item), strict=True):
        if holds != choice.right:
            verdict = "disproves its right" if choice.right else "proves its wrong"
            raise ProofError(f"{item.id}: its proof {verdict} choice {choice.text!r}")


def claims(item: ChoiceItem) -> list[bool]:
    """For each choice, whether it holds."""
    if item.kind == "output" and not item.proof:
        shown = printed(item.code)
        return [_same_output(shown, choice.text) for choice in item.choices]
    names = _names_after(item)
    found = []
    for choice in item.choices:
        try:
            found.append(bool(eval(choice.holds.strip(), names)))
        except Exception as error:
            raise ProofError(f"{item.id}: `{choice.holds}` raises {error!r}") from error
    return found


def _same_output(shown: str, text: str) -> bool:
    return [line.rstrip() for line in shown.splitlines()] == [
        line.rstrip() for line in text.splitlines()
    ]


def _prove_number(item: NumberItem) -> None:
    names = _names_after(item)
    if "answer" not in names:
        raise ProofError(f"{item.id}: its proof leaves no `answer` behind")
    answer = float(names["answer"])
    if not item.accepts(answer):
        raise ProofError(f"{item.id}: its proof gives {answer:g}, and the key is {item.answer:g}")
    reach = max(item.tolerance * abs(answer), 0.0) * (1 + 1e-9)
    for mistake in item.mistakes:
        if abs(mistake.value - answer) <= reach:
            raise ProofError(f"{item.id}: its proof proves its mistake {mistake.value:g}")


def _prove_order(item: OrderItem) -> None:
    accepts = _names_after(item)["accepts"]
    offered = item.offered
    seen: set[bool] = set()
    for order in orders_to_try(item):
        works = _works(accepts, [offered[place] for place in order])
        seen.add(works)
        if works != item.accepts(order):
            shown = " / ".join(offered[place] for place in order)
            verdict = "works, and is marked wrong" if works else "is marked right, and fails"
            raise ProofError(f"{item.id}: this order {verdict}: {shown}")
    if seen != {True, False}:
        raise ProofError(f"{item.id}: its proof does not tell right from wrong")


def _works(accepts: Any, lines: list[str]) -> bool:
    """An order that raises does not work."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return bool(accepts(lines))
    except Exception:
        return False


def orders_to_try(item: OrderItem) -> Iterator[tuple[int, ...]]:
    """The marked order, many others, and the marked one with a distractor for one of its lines."""
    right = tuple(range(len(item.lines)))
    yield right
    if len(right) <= ALL_ORDERS:
        yield from (order for order in permutations(right) if order != right)
    else:
        yield from _one_line_moved(right)
        draw = random.Random(item.id)
        for _ in range(SAMPLED_ORDERS):
            yield tuple(draw.sample(right, len(right)))
    for extra in range(len(right), len(item.offered)):
        for place in right:
            yield (*right[:place], extra, *right[place + 1 :])


def _one_line_moved(right: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for line in right:
        rest = tuple(other for other in right if other != line)
        for place in range(len(right)):
            moved = (*rest[:place], line, *rest[place:])
            if moved != right:
                yield moved


def as_program(item: Item) -> str:
    """A proof as somebody can run it: it prints whether each choice's claim holds."""
    if isinstance(item, ChoiceItem) and item.kind == "output" and not item.proof:
        return item.code
    parts = []
    if "code" in _words(item.proof):
        parts.append(f'code = """\n{item.code.strip()}\n"""')
    if "printed" in _words(item.proof):
        parts.append("from amp_lessons.quiz.proofs import printed")
    parts.append(item.proof.strip())
    if isinstance(item, ChoiceItem):
        claimed = zip(NAMES, item.choices, strict=False)
        parts.append("\n".join(_shown_claim(name, choice.holds) for name, choice in claimed))
    elif isinstance(item, NumberItem):
        parts.append(f"print(answer, {item.unit!r})" if item.unit else "print(answer)")
    else:
        shown = ",\n    ".join(repr(line) for line in item.lines)
        parts.append(f"print(accepts([\n    {shown},\n]))")
    return "\n\n".join(parts) + "\n"


def _shown_claim(name: str, holds: str) -> str:
    return f'print("{name}:", "holds" if {_in_brackets(holds.strip())} else "does not hold")'


def _in_brackets(expression: str) -> str:
    simple = re.fullmatch(r"[\w.()\[\], ]+|[\w.\[\]]+ [<>=!]+ [\w.\-]+", expression)
    return expression if simple else f"({expression})"


def _words(source: str) -> set[str]:
    return set(re.findall(r"\w+", source))
