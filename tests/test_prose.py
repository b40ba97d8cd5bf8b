"""A floor under the English: phrases that must not come back, and sentences of a readable length.

It holds for the pages in `RETOLD`, which grows as lessons are retold. It is a floor and not a
style: read a page aloud before you trust it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from amp_lessons.authoring.cells import Cell, read_cells

ROOT = Path(__file__).resolve().parent.parent
_PACKAGE = (
    "course",
    "home",
    "lab",
    "server",
    "standing",
    "overview",
    "renamed",
    "interrupts",
    "terminal",
    "cli",
    "interview",
    "boxes",
    "messages",
    "op_watch",
    "torch_state",
    "widgets/quiz",
    "widgets/error_lookup",
    "widgets/mock",
    "widgets/order_calls",
    "widgets/autocast_steps",
    "widgets/op_steps",
    "widgets/published_explorer",
    "widgets/error_lookup",
    "clinic",
    "patients",
    "recipe",
    "step_timing",
    "gain_plots",
    "set_up",
    "pretend_gpu",
    "memory",
    "model_commands",
    "roofline",
)
RETOLD = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "sources/home.py",
    ROOT / "sources/lessons/00_amp_in_20_minutes.py",
    *(
        path
        for n in ("01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13")
        for path in sorted((ROOT / "sources/lessons").glob(f"{n}_*.py"))
    ),
    ROOT / "sources/lessons/14_interview_room.py",
    *(ROOT / f"amp_lessons/{name}.py" for name in _PACKAGE),
    *(
        path
        for room in (
            "quiz",
            "call_order",
            "checks",
            "authoring",
            "exercises",
            "foundations",
            "plain_data",
            "workspace",
            "experiments",
            "myths",
            "lookup",
            "timing",
            "bench",
            "records",
            "policy_record",
            "profiles",
            "attention",
            "budget",
            "doors",
            "fakes",
            "monitoring",
            "trace",
        )
        for path in sorted((ROOT / "amp_lessons" / room).rglob("*.py"))
        if path.name != "__init__.py" or room == "quiz"
    ),
    *sorted((ROOT / "amp_lessons/lookup/entries").glob("*.toml")),
    ROOT / "tools/sheets.py",
    ROOT / "tools/check_exercises.py",
    ROOT / "tools/new_exercise.py",
    ROOT / "tools/install.py",
    ROOT / "tools/links.py",
]
LONGEST = 35  # words

BANNED = [
    r"\bmend(s|ed|ing)?\b",
    r"\banew\b",
    r"\bwhoever\b",
    r"\btold by\b",
    r"\bwhat is no\b",
    r"(?<!there )\bis no (a|an|one)\b",
    r"\bill\b",
    r"\bas it were\b",
    r"\bnot one of its own\b",
    r"\bsimply\b",
    r"\bobviously\b",
    r"(?m)[a-z]!(\s|$)",
]


def prose(path: Path) -> list[tuple[int, str]]:
    """The paragraphs that a person reads on a page: line and text, without code, tables and links.

    Of Python files in the package these are docstrings and comments too: learners read them.
    """
    text = path.read_text(encoding="utf-8")
    if text.startswith("# %%") and "exercises" in path.parts:
        return [found for cell in read_cells(path) for found in _paragraphs(cell)]
    if path.suffix == ".toml":
        return [(1 + text.count("\n", 0, m.start()), plain(m[1])) for m in _TEXT.finditer(text)]
    if path.suffix == ".py" and path.parent.name != "lessons" and "sources" not in path.parts:
        return [(1 + text.count("\n", 0, m.start()), m[1]) for m in _QUOTED.finditer(text)]
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


def _paragraphs(cell: Cell) -> list[tuple[int, str]]:
    """What a learner reads of an exercise's cell."""
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-|#]|\d+\.) )", cell.comment)
    return [(cell.line, plain(" ".join(part.split()))) for part in parts if "|---" not in part]


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


@pytest.mark.parametrize("path", RETOLD, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_phrase_comes_back(path):
    text = path.read_text(encoding="utf-8")
    found = [
        f"{path.name}:{1 + text.count(chr(10), 0, match.start())}: {match[0]!r}"
        for pattern in BANNED
        for match in re.finditer(pattern, text)
    ]
    assert found == []


@pytest.mark.parametrize("path", RETOLD, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_sentence_is_too_long(path):
    paragraphs = prose(path)
    assert any(len(text.split()) > 8 for _, text in paragraphs), "no prose found"
    long = [
        f"{path.name}:{number}: {len(sentence.split())} words: {sentence}"
        for number, text in paragraphs
        for sentence in sentences(text)
        if len(sentence.split()) > LONGEST
    ]
    assert long == []


@pytest.mark.parametrize(
    "text",
    ["Mend that line", "Write it anew", "told by its casts", "A step is no one's", "code is ill"],
)
def test_each_phrase_is_caught(text):
    assert any(re.search(pattern, text, re.IGNORECASE) for pattern in BANNED), text


def test_a_long_sentence_is_caught(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"Short.\n\n{'word ' * 30}\n{'word ' * 8}end.\n\n- {'item ' * 20}\n")
    lengths = [len(s.split()) for _, text in prose(page) for s in sentences(text)]
    assert max(lengths) == 39
