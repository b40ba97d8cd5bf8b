"""Answers that may be shown in the room: nothing in them tells whose they are.

What is kept is what the course itself says: its words, in names and in strings. Comments and
docstrings go. A string with a word that the course does not use becomes an ellipsis, and a name
that holds a part of some learner's name becomes a neutral one. An answer that Python cannot read
is not shown at all. This finds the names on the class list. It can't find a nickname that somebody
spelt out as a variable, so an instructor should read the page before the room does.
"""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from amp_lessons.core.catalogue import EXERCISES
from amp_lessons.exercises import checks

CHECKS = Path(checks.__file__).parent

LONGEST = 8_000
"""Characters of an answer that is considered. What is longer is no clear example."""

LONGEST_LINE = 1_000
"""Characters of what was seen. The patterns below take their time with more."""

_WORD = re.compile(r"[^\W\d_]+|\d+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_MAIL = re.compile(r"[^\s@'\"<>(),;]+@[^\s@'\"<>(),;]+")
_QUOTED = re.compile(r"(?<!\w)(['\"])((?:(?!\1).)*)\1(?!\w)")
_RAISED = re.compile(r"(raised \w+): .*?(?=; expected|$)")
_SHORTEST = 2  # an ASCII letter alone is nobody's name; one Chinese character may be
_PART = 4
"""Letters from which on a part of a word is taken for a part of a name."""

ELLIPSIS = "…"


@dataclass(frozen=True)
class Names:
    """The names of some learners, as words in lower case.

    Args:
        whole: each name's words.
    """

    whole: tuple[frozenset[str], ...] = ()

    @classmethod
    def of(cls, learners: Iterable[str]) -> Names:
        found = (_words(name) for name in learners)
        return cls(tuple(frozenset(w for w in words if _names_somebody(w)) for words in found))

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset().union(*self.whole)

    def hidden_in(self, text: str, spared: frozenset[str], own: Names) -> bool:
        """Whether the text holds a part of a name that is none of the spared words.

        Args:
            own: the author's name, of which parts of words count too.
        """
        words = [word for word in _words(text) if word not in spared]
        if any(word in self.words for word in words):
            return True
        return any(
            len(shorter) >= _PART and shorter in longer
            for word in words
            for name in own.words
            for shorter, longer in ((word, name), (name, word))
        )

    def spelt_out_in(self, text: str, spared: frozenset[str]) -> bool:
        """Whether the text holds a whole name, even if the course uses each of its words."""
        words = frozenset(_words(text))
        return text.casefold() not in spared and any(name and name <= words for name in self.whole)


def _names_somebody(word: str) -> bool:
    return not word.isdigit() or len(word) >= _PART


def _words(text: str) -> list[str]:
    found = _WORD.findall(_CAMEL.sub(" ", text))
    return [w.casefold() for w in found if len(w) >= _SHORTEST or not w.isascii()]


@cache
def vocabulary(slug: str) -> frozenset[str]:
    """The words that the course itself uses: in a lesson's exercises, and in what checks say."""
    files = [CHECKS / name for name in ("exercise.py", "messages.py", "diagnosis.py")]
    files += sorted((EXERCISES / slug).glob("*.py"))
    texts = [path.read_text(encoding="utf-8") for path in files]
    texts.append(" ".join((*keyword.kwlist, *keyword.softkwlist, *dir(builtins))))
    words = (word for text in texts for word in _words(text))
    return frozenset(words) | {name.casefold() for name in re.findall(r"\w+", " ".join(texts))}


@dataclass(frozen=True)
class Veil:
    """Takes out of one author's answer what could name somebody.

    Args:
        names: of the class.
        own: of the author.
        spared: words that the course uses itself.
    """

    names: Names
    own: Names
    spared: frozenset[str]

    def code(self, source: str) -> str | None:
        """The source without names, or None if it can't be shown."""
        source = source.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
        if len(source) > LONGEST:
            return None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of strings like "\d", on standard error
                shown = _without_empty_lines(self._rewritten(source))
                ast.parse(shown)
        except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
            return None
        hidden = self.names.hidden_in(shown, self.spared, self.own)
        return None if not shown or hidden else shown

    def words(self, text: str) -> str:
        """A sentence, or a line of what was seen, without names."""
        text = _RAISED.sub(r"\1", _MAIL.sub(ELLIPSIS, text[:LONGEST_LINE]))
        text = _QUOTED.sub(self._quoted, text)
        return re.sub(r"\w+", lambda found: ELLIPSIS if self._hides(found[0]) else found[0], text)

    def _hides(self, word: str) -> bool:
        return self.names.hidden_in(word, self.spared, self.own)

    def _rewritten(self, source: str) -> str:
        docstrings = set(_docstrings(ast.parse(source)))
        neutral: dict[str, str] = {}
        lines = source.split("\n")
        pieces = list(_pieces(source, lines))
        changes = [(piece, self._instead_of(piece, docstrings, neutral)) for piece in pieces]
        for piece, text in reversed(changes):
            (first, begin), (last, end) = piece.start, piece.end
            if text is not None:
                lines[first - 1 : last] = [lines[first - 1][:begin] + text + lines[last - 1][end:]]
        return "\n".join(lines)

    def _instead_of(
        self, piece: SourceToken, docstrings: set[tuple[int, int]], neutral: dict[str, str]
    ) -> str | None:
        """What takes the place of a piece of source; None if it stays as it is."""
        if piece.kind == "COMMENT":
            return ""
        if piece.kind == "STRING":
            return "..." if piece.in_bytes in docstrings else self._string(piece.text)
        if piece.kind == "NUMBER" and piece.text.isdigit() and len(piece.text) > 5:
            return None if piece.text in self.spared else "..."  # it may be a student's number
        if piece.kind == "NAME" and (
            self._hides(piece.text) or self.own.spelt_out_in(piece.text, self.spared)
        ):
            return neutral.setdefault(piece.text, f"name_{len(neutral) + 1}")
        return None

    def _string(self, text: str) -> str:
        prefix = text[: text.index(text[-1])].lower()
        if self._is_the_courses(text[len(prefix) :].strip("'\"")):
            return text
        if "b" in prefix:
            return 'b"..."'
        return f'{"f" if "f" in prefix else ""}"{ELLIPSIS}"'

    def _quoted(self, found: re.Match[str]) -> str:
        kept = self._is_the_courses(found[2])
        return found[0] if kept else f"{found[1]}{ELLIPSIS}{found[1]}"

    def _is_the_courses(self, string: str) -> bool:
        """Whether the course uses each word of a string, and they are not the author's name."""
        known = all(word in self.spared for word in _words(string))
        a_name = self.own.spelt_out_in(string, self.spared) or _MAIL.search(string[:LONGEST_LINE])
        return known and not a_name


@dataclass(frozen=True)
class SourceToken:
    """A token of Python's, with an f-string as one.

    Attributes:
        kind: the token's name, such as ``"NAME"``.
        start: its line, from 1, and its column, in characters.
        end: likewise.
        text: its source.
        in_bytes: the start with its column in bytes, as `ast` counts.
    """

    kind: str
    start: tuple[int, int]
    end: tuple[int, int]
    text: str
    in_bytes: tuple[int, int]


def _pieces(source: str, lines: Sequence[str]) -> Iterator[SourceToken]:
    depth, opened = 0, (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        kind, start = tokenize.tok_name[token.type], token.start
        if kind == "FSTRING_START":  # since Python 3.12 an f-string is many tokens
            opened = start if not depth else opened
            depth += 1
        elif kind == "FSTRING_END":
            depth -= 1
            kind, start = "STRING", opened
        if not depth:
            text = _between(lines, start, token.end) if kind == "STRING" else token.string
            in_bytes = start[0], len(lines[start[0] - 1][: start[1]].encode()) if text else 0
            yield SourceToken(kind, start, token.end, text, in_bytes)


def _between(lines: Sequence[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]]
    inner = lines[start[0] : end[0] - 1]
    return "\n".join([lines[start[0] - 1][start[1] :], *inner, lines[end[0] - 1][: end[1]]])


def _docstrings(tree: ast.AST) -> Iterator[tuple[int, int]]:
    """Where strings stand that are statements: line and column in bytes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.JoinedStr):
            yield node.value.lineno, node.value.col_offset


def _without_empty_lines(source: str) -> str:
    """Without the lines that a comment or a docstring left, and without spaces at line ends."""
    kept = [line.rstrip() for line in source.split("\n")]
    kept = [line for line in kept if line]
    return "\n".join(_without_needless_ellipses(kept))


def _without_needless_ellipses(lines: list[str]) -> Iterator[str]:
    """A lone ellipsis stays only where it is all that a block holds."""
    for number, line in enumerate(lines):
        if line.strip() == "...":
            following = lines[number + 1] if number + 1 < len(lines) else ""
            if _indent(following) == _indent(line) and following:
                continue
        yield line


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
