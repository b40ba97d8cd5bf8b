"""A floor under the English: phrases that must not come back, and sentences of a readable length.

    python tools/prose.py docs/interview.md    # one page; without a name, all of them

It is a floor and not a style: read a page aloud before you trust it.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from amp_lessons.exercises.checks.authoring.exercise_parser import SourceCell, read_cells

ROOT = Path(__file__).resolve().parent.parent
PAGES = (
    "*.md",
    "docs/*.md",
    "sources/**/*.py",
    "amp_lessons/**/*.py",
    "amp_lessons/amp/errors/entries/*.toml",
    "tools/*.py",
)
"""What people read: pages, lessons, exercises, docstrings and comments."""
LONGEST = 35  # words
BANNED = {
    r"\bmend(s|ed|ing)?\b": "fix, repair",
    r"\banew\b": "again",
    r"\bwhoever\b": "if you, anyone who",
    r"\btold by\b": "you can tell by",
    r"\bwhat is no\b": "what isn't",
    r"(?<!there )\bis no (a|an|one)\b": "is not a",
    r"\bill\b": "broken",
    r"\bas it were\b": "leave it out",
    r"\bnot one of its own\b": "say it in another way",
    r"\bsimply\b": "leave it out",
    r"\bobviously\b": "leave it out",
    r"(?-i:[a-z])!(\s|$)": "a full stop",
}
"""What must not come back, and what to write instead."""


def pages(root: Path = ROOT) -> list[Path]:
    """Every file that the rules hold for."""
    return sorted({path for pattern in PAGES for path in root.glob(pattern) if path != _SELF})


_SELF = Path(__file__).resolve()  # it holds the phrases


def faults(path: Path) -> Iterator[str]:
    """What is wrong with a page: each as ``path:line: what, and what to write``."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else path.name
    text = path.read_text(encoding="utf-8")
    for match, cure in phrases(text):
        yield f"{name}:{1 + text.count(chr(10), 0, match.start())}: {match[0]!r}: {cure}"
    for number, paragraph in prose(path):
        for sentence in too_long(paragraph):
            yield f"{name}:{number}: {len(sentence.split())} words, over {LONGEST}: {sentence}"


def phrases(text: str) -> Iterator[tuple[re.Match[str], str]]:
    """The phrases in a text that must not come back, each with its cure."""
    for pattern, cure in BANNED.items():
        yield from ((m, cure) for m in re.finditer(pattern, text, re.IGNORECASE | re.MULTILINE))


def too_long(text: str) -> list[str]:
    """The sentences of a text, without markup, that have more than `LONGEST` words."""
    return [each for each in sentences(text) if len(each.split()) > LONGEST]


def unplain(text: str) -> list[str]:
    """What is wrong with one text of a question or an exercise, in a line each."""
    words = plain(text)
    found = [f"{match[0].strip()!r}: {cure}" for match, cure in phrases(words)]
    return found + [f"{len(s.split())} words, over {LONGEST}: {s}" for s in too_long(words)]


def prose(path: Path) -> list[tuple[int, str]]:
    """The paragraphs that a person reads on a page: line and text, without code, tables and links.

    Of Python files in the package these are the docstrings: learners read them.
    """
    text = path.read_text(encoding="utf-8")
    if text.startswith("# %%") and "sources" not in path.parts:
        return [found for cell in read_cells(path) for found in _paragraphs(cell)]
    if path.suffix == ".toml":
        return [(1 + text.count("\n", 0, m.start()), plain(m[1])) for m in _TEXT.finditer(text)]
    if path.suffix == ".py" and "sources" not in path.parts:
        return [found for match in _QUOTED.finditer(text) for found in _docstring(text, match)]
    found: list[tuple[int, str]] = []
    markdown = path.suffix == ".md"
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("# %%"):
            markdown = "[markdown]" in line
        words = line.removeprefix("# ").removeprefix("#") if path.suffix == ".py" else line
        starts = not words.strip() or re.match(r"\s*([-+|#<`]|\d+\. |\*\*\d|    )", words)
        if not markdown or starts or not found or found[-1][1] == "":
            found.append((number, words.strip() if markdown else ""))
        else:
            found[-1] = (found[-1][0], f"{found[-1][1]} {words.strip()}")
    return [(number, plain(words)) for number, words in found if not words.startswith(("|", "```"))]


def _paragraphs(cell: SourceCell) -> list[tuple[int, str]]:
    """What a learner reads of an exercise's cell."""
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-|#]|\d+\.) )", cell.comment)
    return [(cell.line, plain(" ".join(part.split()))) for part in parts if "|---" not in part]


def _docstring(text: str, match: re.Match[str]) -> Iterator[tuple[int, str]]:
    """The paragraphs of a docstring; one that is indented as a whole is an example."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(match[1])):
        if not all(line.startswith("    ") for line in part.splitlines()):
            yield 1 + text.count("\n", 0, match.start()), plain(" ".join(part.split()))


_TEXT = re.compile(r'^(?:title|raised_by|cause|cure|wrong_cure|versions) = "(.*)"$', re.MULTILINE)
_QUOTED = re.compile(r'"""(.*?)"""', re.DOTALL)


def plain(text: str) -> str:
    """Without code, links' addresses and markup."""
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\[\[\w+ [^\]|]*\|([^\]]*)\]\]", r"\1", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"[*_<>\[\]]", "", text)


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.?!:;])\s+", text)


def main(names: list[str]) -> int:
    read = {path.resolve() for path in map(Path, names)}
    held = [path for path in pages() if not read or path in read]
    found = [fault for path in held for fault in faults(path)]
    print(*found, f"{len(held)} pages read, {len(found)} to correct", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
