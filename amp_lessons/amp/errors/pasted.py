"""A pasted text: made readable, and the error messages in it.

People paste tracebacks with colour codes, time stamps, rank numbers, quotation marks and the frames
of boxes. `read` takes all that off and finds the messages, the last of which counts most. What they
mean, `search` knows.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from amp_lessons.amp.errors.similarity import tokens
from amp_lessons.core.errors import AmpLessonsError

HEAD, TAIL = 25_000, 75_000
"""Characters at the beginning and at the end of a text that are read. An error stands at one of
them: the first thing that went wrong, or what ended the run."""
MOST_LINES = 12
"""Lines of one message. What comes after is state, not message."""
MOST_FRAMES, MOST_BEFORE = 40, 1_500
"""Lines and characters above a message that belong to it."""
WRAPPERS = {
    "ChildFailedError",
    "CalledProcessError",
    "ProcessExitedException",
    "ProcessRaisedException",
    "RayTaskError",
    "BrokenPipeError",
    "KeyboardInterrupt",
    "SystemExit",
    "ZeroDivisionError",
}
"""Errors that only say that something went wrong before. The launchers raise most of them; apex
divides by a loss scale that has fallen to zero."""


class UnreadableText(AmpLessonsError, ValueError):
    """There is nothing to look up in a text. The message is one line with the cure."""


@dataclass(frozen=True)
class Message:
    """One ``SomeError: message`` of a text.

    Attributes:
        name: of the class, without its module.
        text: name and message, each run of white space as one space.
        before: the lines above it, such as the frames of its traceback, in the same form.
    """

    name: str
    text: str
    before: str = ""

    @property
    def is_warning(self) -> bool:
        return self.name.endswith("Warning")

    @property
    def says_something(self) -> bool:
        """Whether the message itself can be looked up."""
        return self.name not in WRAPPERS and self.text.removeprefix(self.name).strip(" :.") != ""


@dataclass(frozen=True)
class Pasted:
    """A text that can be searched.

    Attributes:
        lines: without what surrounds them, none empty, none twice.
        messages: in the order of the text.
        raised: whether it has a message or a traceback, and isn't only somebody's own words.
        own: the lines that somebody may have written: those without a log's prefix.
    """

    lines: tuple[str, ...]
    messages: tuple[Message, ...]
    raised: bool
    own: tuple[str, ...] = ()

    @cached_property
    def words(self) -> frozenset[str]:
        """The words of the text that say something, in their one form."""
        return frozenset(tokens(" ".join(self.lines)))

    @property
    def errors(self) -> tuple[Message, ...]:
        """The messages of errors that say something, the last one first."""
        told = [each for each in self.messages if not each.is_warning and each.says_something]
        return tuple(reversed(told))


def read(text: str) -> Pasted:
    """Make a pasted text readable, and find its messages.

    Raises:
        UnreadableText: if it is empty, binary, or has no word in Latin letters.
    """
    if not text.strip():
        raise UnreadableText("nothing to look up: paste an error, or describe what you see")
    if "\0" in text or text.count("\ufffd") > len(text) / 10:
        raise UnreadableText("this is not text: paste the error as it was printed")
    text, _ = ends_of([text])
    bare = [_bare(line) for line in _plain(text).split("\n")]
    lines = [line for line, _ in bare]
    if not any(re.search(r"[A-Za-z]{2}", line) for line in lines):
        raise UnreadableText(
            "no English words in this text: PyTorch's messages are in English, so paste one of them"
        )
    messages = tuple(_messages(lines))
    raised = bool(messages) or any(line.startswith(_TRACEBACK) for line in lines)
    once = tuple(dict.fromkeys(filter(None, lines)))  # logs repeat themselves
    own = tuple(line for line, logged in bare if line and not logged)
    return Pasted(once, messages, raised, own)


def ends_of(pieces: Iterable[str]) -> tuple[str, str]:
    """The beginning and the end of a text that comes in pieces, and a sentence on what was read.

    Returns:
        The text, of which `HEAD` and `TAIL` characters are kept, and "" if that is all of it.
    """
    head, tail, total = "", "", 0
    for piece in pieces:
        room = HEAD - len(head)
        head, tail = head + piece[:room], (tail + piece[room:])[-TAIL:]
        total += len(piece)
    if total <= HEAD + TAIL:
        return head + tail, ""
    return f"{head}\n{tail}", what_was_read(total)


def what_was_read(total: int) -> str:
    """How much of a text of this many characters is read, as a sentence; "" if all of it is."""
    if total <= HEAD + TAIL:
        return ""
    return f"the text has {total:,} characters: the first {HEAD:,} and the last {TAIL:,} were read"


# ---- lines --------------------------------------------------------------------------------------

_TRACEBACK = "Traceback (most recent call last)"
_COLOURS = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # titles, links
    r"|\x1b[@-_]"
    r"|\[(?:\d{1,3};)*\d{1,3}m"  # colours whose escape character was lost on the way
)
_AROUND = " \t>|│┃║▏▌╭╮╰╯┌┐└┘├┤─━═❱"
_TYPEID = re.compile(r"\b(?:struct|class) (?=(?:c10|at)::)")
"""What Windows' compiler puts before the name of a type: ``struct c10::Half``."""
_ENTITIES = {"lt": "<", "gt": ">", "quot": '"', "#39": "'", "nbsp": " ", "amp": "&"}
_PREFIX = re.compile(
    r"""(?:(?P<log>
      \[?\(?rank[ _:]?\d+\)?\]?:?                                   # torchrun, DeepSpeed
    | \[\d+(?:,\d+)?\](?:<\w+>)?:                                   # mpirun
    | \(\w+\ pid=\d+[^)]*\)                                         # Ray
    | [\[(]?\d{4}[-/]\d\d?[-/]\d\d?[T ,]+\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?[\])]?
    | [\[(]?\d\d:\d\d:\d\d(?:[.,]\d+)?[\])]?
    | \[?(?-i:DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\]?(?=[\s:|-])
    )
    | \[?(?:debug|info|warn|warning|error|critical|fatal)\]?(?=[\s:|-])  # people write these too
    | E(?=\s{3})                                                    # pytest
    | [\w.-]{1,40}\s+\|(?=\s)                                       # docker compose
    | [-:|](?=\s)
    )\s*""",
    re.VERBOSE | re.IGNORECASE,
)


def _plain(text: str) -> str:
    """The text without colours, in ordinary letters and quotation marks, with real line ends."""
    text = _COLOURS.sub("", text)
    for name, character in _ENTITIES.items():
        text = text.replace(f"&{name};", character)
    if f"{_TRACEBACK}:\\n" in text:  # a log in JSON
        text = text.replace("\\n", "\n").replace('\\"', '"')
    text = unicodedata.normalize("NFKC", re.sub("\r\n?", "\n", text))
    text = re.sub("[‘’`´]", "'", re.sub("[“”„]", '"', text))
    text = _TYPEID.sub("", text)
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def _bare(line: str) -> tuple[str, bool]:
    """A line without what surrounds it, and whether that is a log's prefix.

    Boxes, quotation marks and prefixes go. Only a prefix shows that a program wrote the line.
    """
    line, logged = line.strip(_AROUND), False
    while found := _PREFIX.match(line):
        logged = logged or found["log"] is not None
        line = line[found.end() :].strip(_AROUND)
    return " ".join(line.split()), logged


# ---- messages -----------------------------------------------------------------------------------

_NAMED = re.compile(
    r"(?<!except )(?<![\w.])(?:\w+\.)*(\w*(?:Error|Exception|Warning|KeyboardInterrupt|SystemExit))"
    r"(?:: ?|$)(.*)"
)
_ENDS = re.compile(
    r'Traceback|File "|During handling of|The above exception|Original Traceback|-{4,}'
)


def _messages(lines: list[str]) -> list[Message]:
    """Each message with the lines that belong to it."""
    found = []
    for place, line in enumerate(lines):
        named = _NAMED.search(line)
        if named is None:
            continue
        parts = [named[2]]
        for following in lines[place + 1 : place + MOST_LINES]:
            if not following or _ENDS.match(following) or _NAMED.search(following):
                break
            parts.append(following)
        text = " ".join(part for part in (f"{named[1]}:", *parts) if part)
        before = " ".join(filter(None, lines[max(place - MOST_FRAMES, 0) : place]))
        found.append(Message(named[1], text, before[-MOST_BEFORE:]))
    return found
