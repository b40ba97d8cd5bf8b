"""Plain words compared with plain words: which entry speaks of what somebody typed.

BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009) over
the words of each entry, after endings and synonyms are evened out. It serves symptoms, which have
no message, and finds what is nearest when no pattern fits.
"""

from __future__ import annotations

import difflib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

K1, B = 1.2, 0.6
"""How soon a repeated word stops to count, and how much a long entry is held back."""
FEW_WORDS = 12
"""Up to so many unknown words are compared with the known ones, in case they are misspelt."""

NAMING = 2.0
"""The parts of an entry of at least this weight name a fault. The others explain it, with words
that many faults share."""
EXPLAINED = 0.5
"""What a word counts for the share if only an explanation has it."""

_STOP_WORDS = (
    "a about after again all almost already also although always am an and any anything are "
    "as at be because been before being but by call can cannot could did do doing don done "
    "during each even ever every everything file first for from gave get getting give given "
    "go going got had happen has have having help here how however i if in into is it its "
    "itself just keep kept last like line lot make many maybe me mode more most much must my "
    "need never no none not now of off often on once one only or other our out over own "
    "please problem really right run running same say see seem set should since so some "
    "something sometimes start still such than that the their them then there these they "
    "thing this though through time to together too try under until up us use using very want "
    "was way we well were what when where whether which while who why will with within "
    "without would wrong yet you your epoch iteration does doesn didn isn work become became "
    "train model torch pytorch python detect module name pls plz thx thanks hi hello guys anyone "
    "anybody someone since switch turn around fine okay better"
)
_SAME = {
    "float16": "fp16",
    "half": "fp16",
    "halftensor": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float": "fp32",
    "single": "fp32",
    "floattensor": "fp32",
    "float64": "fp64",
    "double": "fp64",
    "gradscaler": "scaler",
    "infinite": "inf",
    "infinity": "inf",
    "nonfinite": "nan",
    "sink": "fall",
    "sank": "fall",
    "fell": "fall",
    "drop": "fall",
    "shrink": "fall",
    "decrease": "fall",
    "decline": "fall",
    "halve": "fall",
    "reduce": "fall",
    "collapse": "fall",
    "diverge": "explode",
    "blow": "explode",
    "converge": "learn",
    "frozen": "freeze",
    "stuck": "freeze",
    "stall": "freeze",
    "speedup": "speed",
    "slow": "speed",
    "fast": "speed",
    "evaluation": "eval",
    "validation": "eval",
    "evaluate": "eval",
    "gradient": "grad",
    "optimiser": "optimizer",
    "lr": "rate",
}
_TOPIC_WORDS = (
    "amp apex autocast bf16 dtype fp16 fp32 fp64 fp8 inf mismatch mixed nan overflow "
    "precision scale scaler tf32 underflow unscale"
)
TOPIC = frozenset(_TOPIC_WORDS.split())
"""Words, as `tokens` gives them, one of which somebody uses who asks about mixed precision."""


BACKGROUND = "amp"
"""The word that most questions have, and that says the least."""
_PHRASES = re.compile(r"mixed[ -]precision|speed[ -]up|grad(?:ient)?[ _]scaler|\bhalfs\b")


def _one_word(phrase: re.Match[str]) -> str:
    return {"m": BACKGROUND, "s": "speedup", "g": "scaler", "h": "halves"}[phrase[0][0]]


def tokens(text: str) -> list[str]:
    """The words of a text that say something, each in one form: ``"scales"`` as ``"scale"``."""
    return [word for _, word in _spelled(text)]


def _spelled(text: str) -> list[tuple[str, str]]:
    """The words of a text that say something: as they are spelled, and in their one form."""
    found = re.findall(r"[a-z]+\d*", _PHRASES.sub(_one_word, text.lower()))
    return [(each, word) for each in found if (word := _form(each))]


@lru_cache(maxsize=10_000)
def _form(word: str) -> str:
    """A word without its ending, or its synonym; "" for one that says nothing."""
    if word in _STOP or len(word) < 2 or re.fullmatch(r"\w*(error|exception|warning)", word):
        return ""
    stem = _SYNONYMS.get(_stem(word), _stem(word))
    if stem in _STOP:
        return ""
    return _TOPIC_STEMS.get(stem, stem)


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "er", "es", "s", "ly"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
            break
    if len(word) > 3 and word[-1] == word[-2]:
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 3 else word


_STOP = frozenset(each for word in _STOP_WORDS.split() for each in (word, _stem(word)))
_SYNONYMS = {_stem(word): _stem(other) for word, other in _SAME.items()}
_TOPIC_STEMS = {_stem(word): word for word in sorted(TOPIC)}
_FAULTS = {"inf", "mismatch", "nan", "overflow", "underflow"}
SUBJECTS = TOPIC - _FAULTS | frozenset(tokens("grad loss"))
"""Words, as `tokens` gives them, that say what a question is about, and not what is wrong."""


def plain_data() -> dict[str, Any]:
    """The words of this module as plain data, for the search that works without Python."""
    return {
        "stop": sorted(_STOP),
        "synonyms": _SYNONYMS,
        "topicStems": _TOPIC_STEMS,
        "topic": sorted(TOPIC),
        "subjects": sorted(SUBJECTS),
    }


@dataclass(frozen=True)
class Likeness:
    """How well a document fits a query.

    Attributes:
        score: BM25, to sort by.
        share: which part of the query's words it has, weighted by how rare they are: 0 to 1. A
            word that only its explanation has counts `EXPLAINED`.
        words: of the query that it has.
    """

    score: float
    share: float
    words: tuple[str, ...]


class Index:
    """Documents to compare queries with.

    Args:
        documents: for each its parts, as pairs of a weight and a text.
    """

    def __init__(self, documents: Sequence[Iterable[tuple[float, str]]]) -> None:
        parted = [tuple(parts) for parts in documents]
        self._counts = [_weighted(parts) for parts in parted]
        self._names = [
            frozenset(_weighted(part for part in parts if part[0] >= NAMING)) for parts in parted
        ]
        self._lengths = [sum(counts.values()) for counts in self._counts]
        self._mean = sum(self._lengths) / max(len(self._lengths), 1)
        there = Counter(word for counts in self._counts for word in counts)
        total = len(self._counts)
        self._rarity = {
            word: math.log(1 + (total - n + 0.5) / (n + 0.5)) for word, n in there.items()
        }
        self._rarest = math.log(1 + (total + 0.5) / 0.5)

    def query(self, text: str) -> dict[str, str]:
        """The words of a query, each once, with what was typed. Misspelt ones are put right."""
        words: dict[str, str] = {}
        for typed, word in _spelled(text):
            words.setdefault(word, typed)
        unknown = [word for word in words if word not in self._rarity and len(word) >= 5]
        if len(unknown) > FEW_WORDS:
            return words
        known = [*self._rarity, *_SYNONYMS, *_STOP]
        for word in unknown:
            near = _with_two_swapped(word, known) or difflib.get_close_matches(
                word, known, n=1, cutoff=0.84
            )
            if near and (typed := words.pop(word)) and near[0] not in _STOP:
                meant = _SYNONYMS.get(near[0], near[0])
                words.setdefault(_TOPIC_STEMS.get(meant, meant), typed)
        return words

    def compare(self, words: Iterable[str]) -> list[Likeness]:
        """The likeness of each document to the words of a query."""
        weights = {word: self._rarity.get(word, self._rarest) for word in words}
        if BACKGROUND in weights and len(weights) > 1:
            weights[BACKGROUND] *= 0.2
        total = sum(weights.values()) or 1.0
        return [self._likeness(place, weights, total) for place in range(len(self._counts))]

    def _likeness(self, place: int, weights: Mapping[str, float], total: float) -> Likeness:
        counts = self._counts[place]
        there = tuple(word for word in weights if word in counts)
        held_back = K1 * (1 - B + B * self._lengths[place] / self._mean)
        score = sum(
            weights[word] * counts[word] * (K1 + 1) / (counts[word] + held_back) for word in there
        )
        names = self._names[place]
        has = sum(weights[word] * (1.0 if word in names else EXPLAINED) for word in there)
        return Likeness(score, has / total, there)


def _with_two_swapped(word: str, known: Iterable[str]) -> list[str]:
    """The known words that are this word with two neighbouring letters swapped."""
    swaps = {f"{word[:n]}{word[n + 1]}{word[n]}{word[n + 2 :]}" for n in range(len(word) - 1)}
    return [each for each in known if each in swaps]


def _weighted(parts: Iterable[tuple[float, str]]) -> dict[str, float]:
    counts: dict[str, float] = {}
    for weight, text in parts:
        for word in tokens(text):
            counts[word] = counts.get(word, 0.0) + weight
    return counts
