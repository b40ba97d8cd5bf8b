"""The decision: which entries fit a pasted text, and whether that can be said with confidence.

Patterns decide about what a program printed: first in the last error, then in earlier ones, then in
the rest. Somebody's own words are compared with the words of the entries. An error that no pattern
matches never gets a confident answer, however many words it shares with an entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

from amp_lessons.amp.errors import catalogue, pasted
from amp_lessons.amp.errors.catalogue import Entry
from amp_lessons.amp.errors.pasted import Message, Pasted
from amp_lessons.amp.errors.similarity import SUBJECTS, TOPIC, Index, Likeness, tokens

LAST, EARLIER, ELSEWHERE = 300.0, 200.0, 100.0
"""What a match is worth by its place: in the last error, in another message, elsewhere."""
MOST_SPECIFIC = 60
"""Characters. Of two patterns that match a message, the one that matches more of it wins."""
SPECIAL = 30.0
"""What such a match is worth, beside its place."""
LONGEST_WHY = 90
"""Characters of a match that are shown."""
OFTEN = {"very common": 3.0, "common": 1.5, "rare": 0.0}
MOST_MESSAGES = 30
"""Different messages of a text that are looked at, the last ones first."""
WINDOW, OVERLAP = 4_000, 500
"""Characters of a log that patterns see at once, so that ``.*`` can't run through all of it."""
MOST_WORDS = 40
"""More words than these are no description but a log."""
FOR_SYMPTOMS = 1.3
"""What the score of a symptom is multiplied by, where it's compared with somebody's own words."""
NEARLY_AS_GOOD = 0.7
"""Which part of the best score an entry has that may be meant too."""
LEAST_SHARE = 0.6
"""Which part of somebody's words, weighted by rarity, an entry has if it is what they mean."""


@dataclass(frozen=True)
class Match:
    """An entry that fits, and how well.

    Attributes:
        entry: what was found.
        score: to sort by; scores of different texts can't be compared.
        confident: whether this is an answer, or only the nearest entry there is.
        why: what it was found by, in one line.
    """

    entry: Entry
    score: float
    confident: bool
    why: str


def lookup(text: str, limit: int = 3) -> list[Match]:
    """Look an error up: a message, a traceback, a log, or a symptom in your own words.

    Args:
        text: what you would paste. Of a very long text the beginning and the end are read.
        limit: at most so many entries.

    Returns:
        The entries that fit, the best one first. If none does, the nearest ones, none of them
        ``confident``; an empty list if no entry shares a word with the text.

    Raises:
        UnreadableText: if the text is empty, binary, or has no word in Latin letters.
        ValueError: if the limit is less than 1.
    """
    return _catalogue().search(text, limit)


@lru_cache(maxsize=1)
def _catalogue() -> Catalogue:
    return Catalogue(catalogue.load())


class Catalogue:
    """Entries to search.

    Args:
        entries: as `catalogue.load` gives them.
    """

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries = tuple(entries)
        self._by_id = {entry.id: entry for entry in self.entries}

    def search(self, text: str, limit: int = 3) -> list[Match]:
        """As `lookup`."""
        if limit < 1:
            raise ValueError(f"limit must be at least 1, got {limit}")
        named = self._by_id.get(text.strip().lower())
        if named is not None:
            return [Match(named, LAST, True, "this is its name")]
        read = pasted.read(text)
        found = self._by_patterns(read)
        if not any(each.confident for each in found):
            found += self._by_words(read)
        best: dict[str, Match] = {}
        for each in sorted(found, key=lambda each: (each.confident, each.score), reverse=True):
            best.setdefault(each.entry.id, each)
        return list(best.values())[:limit]

    # ---- patterns ----

    def _by_patterns(self, read: Pasted) -> list[Match]:
        # Compiling the general patterns takes as long as the rest, and each needs a dtype's name.
        passes = (False, True) if any(map(_NAMED_DTYPE.search, read.lines)) else (False,)
        for look in (self._in_errors, self._in_the_rest):
            for general in passes:
                if found := look(read, general):
                    return found
        return []

    def _in_the_rest(self, read: Pasted, general: bool) -> list[Match]:
        # A warning, or a line of the log, doesn't explain an error that no entry is about.
        confident = not read.errors
        rest = [(each, EARLIER, "a warning says") for each in _warnings(read)]
        rest += [(Message("", part), ELSEWHERE, "a line says") for part in _windows(read.lines)]
        found: list[Match] = []
        for message, worth, why in rest:
            found += self._matches(message, worth, confident, why, read, general)
        return found

    def _in_errors(self, read: Pasted, general: bool) -> list[Match]:
        found: list[Match] = []
        for place, message in enumerate(_different(read.errors)):
            worth = EARLIER - place if place else LAST
            why = "an earlier error says" if place else "the error says"
            found += self._matches(message, worth, True, why, read, general)
        return found

    def _matches(
        self,
        message: Message,
        worth: float,
        confident: bool,
        why: str,
        read: Pasted,
        general: bool,
    ) -> list[Match]:
        found = []
        for entry in self.entries:
            special, matched = _match(entry, message, general)
            if matched:
                score = worth + special + _own_words(entry, read) + OFTEN[entry.seen]
                found.append(Match(entry, score, confident, f"{why}: {_short(matched)}"))
        return found

    # ---- words ----

    @cached_property
    def _index(self) -> Index:
        return Index([parts(entry) for entry in self.entries])

    def _by_words(self, read: Pasted) -> list[Match]:
        said = [each.text for each in read.errors[:1]] or read.own or read.lines
        text = " ".join(said)[:WINDOW]
        words = self._index.query(text)
        likely = [
            (_favoured(entry, read) * like.score, entry, like)
            for entry, like in zip(self.entries, self._index.compare(words), strict=True)
            if like.words
        ]
        likely.sort(key=lambda each: each[0], reverse=True)
        best = likely[0] if likely else None
        sure = best is not None and _is_sure(read, words, best[2])
        return [
            Match(
                entry,
                score,
                sure and score >= NEARLY_AS_GOOD * likely[0][0] and _is_sure(read, words, like),
                f"your words {', '.join(words[each] for each in like.words[:6])}",
            )
            for score, entry, like in likely
        ]


def parts(entry: Entry) -> list[tuple[float, str]]:
    """An entry's texts with their weights, for the index of words."""
    return [
        (3.0, entry.title),
        (3.0, " ".join(entry.words)),
        (2.0, entry.example),
        (1.0, f"{entry.cause} {entry.raised_by}"),
        (0.5, entry.cure),
    ]


def _favoured(entry: Entry, read: Pasted) -> float:
    """Somebody's own words tell a symptom more often than a message."""
    return FOR_SYMPTOMS if entry.kind == "symptom" and not read.raised else 1.0


def _is_sure(read: Pasted, words: Mapping[str, str], like: Likeness) -> bool:
    """Whether somebody's own words name this entry."""
    if read.raised or not read.own or len(words) > MOST_WORDS or not TOPIC & words.keys():
        return False
    if SUBJECTS.issuperset(like.words):
        return False
    return len(like.words) >= 2 and like.share >= LEAST_SHARE


def _own_words(entry: Entry, read: Pasted) -> float:
    """A little for an entry whose own words stand in the text, such as ``lora``."""
    own = [set(tokens(each)) for each in entry.words]
    return 2.0 * min(sum(bool(each) and each <= read.words for each in own), 3)


def _different(messages: Iterable[Message]) -> list[Message]:
    return list({each.text: each for each in messages}.values())[:MOST_MESSAGES]


def _warnings(read: Pasted) -> list[Message]:
    return _different(each for each in reversed(read.messages) if each.is_warning)


def _windows(lines: Sequence[str]) -> list[str]:
    """The lines as text, in pieces that overlap."""
    text = " ".join(lines)
    return [text[start : start + WINDOW] for start in range(0, len(text), WINDOW - OVERLAP)]


# ---- one pattern, one text -----------------------------------------------------------------------


def _match(entry: Entry, message: Message, general: bool) -> tuple[float, str]:
    """How special an entry's match in a message is, and what it matches; 0 and "" if nothing.

    The more of the message a pattern matches, the more special it is. One that begins in the frames
    above the message is more special than all others.
    """
    regexes = general_patterns(entry) if general else entry.regexes
    inside = [found[0] for regex in regexes if (found := regex.search(message.text))]
    if inside:
        longest = max(inside, key=len)
        return SPECIAL * min(len(longest), MOST_SPECIFIC) / MOST_SPECIFIC, longest
    whole = f"{message.before} {message.text}"
    start = len(message.before) + 1
    for regex in regexes if message.before else ():
        for found in regex.finditer(whole):
            if found.end() > start:
                return 2 * SPECIAL, message.text
    return 0.0, ""


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_WHY else f"{text[:LONGEST_WHY]}…"


_DTYPE = r"(?:BFloat16|Half|Float|Double|float16|float32|float64|bfloat16)"
_NAMED_DTYPE = re.compile(_DTYPE, re.IGNORECASE)
_SPELLED = r"(?:(?:torch|c10|at)(?:\.|::)(?:cuda\.)?)?"
_ANY_DTYPE = f"{_SPELLED}{_DTYPE}(?:Tensor)?"
_IN_PATTERN = re.compile(rf"(?:(?:torch\\?\.|c10::|at::)(?:cuda\\?\.)?)?\b{_DTYPE}(?:Tensor)?\b")


@cache
def general_patterns(entry: Entry) -> tuple[re.Pattern[str], ...]:
    """The patterns that name a dtype, with any dtype in its place, however it is spelled."""
    found = []
    for pattern in entry.patterns:
        wider = _IN_PATTERN.sub(lambda _: _ANY_DTYPE, pattern)
        if wider != pattern:
            try:
                found.append(re.compile(wider, re.IGNORECASE))
            except re.error:  # it stood where no group can, as between brackets
                continue
    return tuple(found)
