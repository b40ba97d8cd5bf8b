"""Questions and answers in a terminal: Markdown, code, choices and verdicts as plain text.

Everything fits 80 columns and reads the same without colour. Where there is colour, code is
highlighted with the terminal's own colours, which read on light and on dark. Where a terminal
knows only ASCII, signs such as the minus are spelled in ASCII. What is asked, and when, `session`
decides.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from rich.text import Text

from amp_lessons.core import terminal
from amp_lessons.quiz.curves import plot_table
from amp_lessons.quiz.items import ChoiceItem, Item, NumberItem, OrderItem
from amp_lessons.quiz.marking import NAMES, Marked, Remark, shuffled
from amp_lessons.quiz.typed_numbers import forms

if TYPE_CHECKING:
    from rich.console import Console

WIDEST = 88
"""Columns. Longer lines are hard to read, however wide the terminal is."""
_SIGNS = str.maketrans(
    {
        "−": "-",
        "–": "-",
        "—": "-",
        "×": "x",
        "·": "*",
        "→": "->",
        "←": "<-",
        "⇒": "=>",
        "≤": "<=",
        "≥": ">=",
        "≠": "!=",
        "≈": "~",
        "±": "+-",
        "∞": "inf",
        "√": "sqrt",
        "µ": "u",
        "μ": "u",
        "ε": "eps",
        "Δ": "delta ",
        "β": "beta",
        "…": "...",
        "“": '"',
        "”": '"',
        "„": '"',
        "‘": "'",
        "’": "'",
        "\u00a0": " ",
        "\u202f": " ",
    }
)
_RAISED, _LOWERED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", "₀₁₂₃₄₅₆₇₈₉"
_DIGITS = str.maketrans(_RAISED + _LOWERED, "0123456789-+n" + "0123456789")


class Screen:
    """Prints to one console.

    Attributes:
        width: of the text, in columns.
        colour: whether there is any. Without it, code in a sentence keeps its backticks.
    """

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or terminal.console()
        self.width = min(self.console.width, WIDEST)
        self.colour = self.console.color_system is not None and not self.console.no_color

    # ---- pieces -------------------------------------------------------------------------------

    def blank(self) -> None:
        self.console.print()

    def line(self, words: str, style: str = "") -> None:
        """Words of ours, wrapped."""
        self._hang("", Text(in_ascii(words), style=style))

    def as_it_is(self, words: str) -> None:
        """A line that is not wrapped, such as one with a path to copy."""
        self.console.print(Text(words), soft_wrap=True)

    def paragraph(self, words: str, indent: int = 0) -> None:
        """Plain words, wrapped, with no Markdown in them."""
        self._hang(" " * indent, Text(in_ascii(words)))

    def heading(self, words: str, *about: str) -> None:
        """A line across the screen that says where we are.

        Args:
            about: what the question is about: its lesson, its level and its kind, say. What
                doesn't fit into the line is left out: the level first, then the kind.
        """
        dash = "─" if terminal.can_print("─") else "-"
        most, kept = self.width - 4, list(about)
        while kept and len(_together(words, kept)) > most:
            kept.pop(1 if len(kept) > 2 else -1)
        lines = textwrap.wrap(in_ascii(_together(words, kept)), max(most, 10)) or [""]
        for number, line in enumerate(lines, 1):
            start = dash * 2 if number == 1 else "  "
            rest = dash * (self.width - len(line) - 4) if number == len(lines) else ""
            self.console.print(
                Text(f"{start} {line} {rest}".rstrip(), style="bold"), soft_wrap=True
            )

    def prompt(self, words: str) -> None:
        """What stands before the cursor."""
        self.console.print(Text(in_ascii(words)), end="", soft_wrap=True)
        self.console.file.flush()

    def markdown(self, text: str, indent: int = 0, first: str = "") -> None:
        """Markdown, wrapped. ``first`` stands before its first line, in place of the indent."""
        prefix = first or " " * indent
        for number, (kind, block) in enumerate(_blocks(text, self._code_in_text)):
            if number and kind != "item":
                self.blank()
            if kind == "code":
                self.code(block.plain, indent + 2, python=False)
                continue
            self._hang(prefix, block)
            prefix = " " * max(indent, len(first))

    def code(self, source: str, indent: int = 4, python: bool = True, fold: bool = True) -> None:
        """A program, or text that must keep its lines.

        Args:
            fold: whether a line that is too long goes on below, after a mark. Without it the
                terminal breaks the line, and what is copied runs.
        """
        source = in_ascii(source.strip("\n"))
        longest = max(map(len, source.splitlines()), default=0)
        if longest + indent > self.console.width:
            indent = max(0, self.console.width - longest)
        shown = _highlighted(source) if python and self.colour else Text(source)
        columns = self.console.width - indent
        for line in shown.split("\n", allow_blank=True):
            for part in _folded(line, columns) if fold else [line]:
                self.console.print(Text.assemble(" " * indent, part), soft_wrap=True)

    def _hang(self, prefix: str, text: Text) -> None:
        """Wrapped text, its further lines below the first and not below the prefix."""
        columns = max(self.width - len(prefix), 10)
        for number, line in enumerate(text.wrap(self.console, columns)):
            line.rstrip()
            start = prefix if number == 0 else " " * len(prefix)
            self.console.print(Text.assemble(start, line), soft_wrap=True)

    def _code_in_text(self, code: str) -> Text:
        return Text(code, style="bold cyan") if self.colour else Text(f"`{code}`")

    # ---- questions ----------------------------------------------------------------------------

    def question(self, item: Item) -> None:
        """The question and what there is to read and to choose from."""
        self.markdown(item.prompt)
        for source, python in ((item.code, True), (item.log, False)):
            if source:
                self.blank()
                self.code(source, python=python)
        if item.plot:
            self.blank()
            self.code(plot_table(item.plot), python=False)
        self.blank()
        if isinstance(item, ChoiceItem):
            for name, choice in zip(NAMES, item.choices, strict=False):
                self._choice(name, choice.text, as_it_is=item.kind == "output")
        elif isinstance(item, OrderItem):
            for name, place in zip(NAMES, shuffled(item), strict=False):
                self._line_of_code(name, item.offered[place])
            self.blank()
            self.line(
                f"Type {len(item.lines)} of the {len(item.offered)} lines' numbers, in order."
            )
        elif isinstance(item, NumberItem):
            where = f"Answer in {item.unit}, such" if item.unit else "Answer with a number, such"
            self.line(f"{where} as {forms(item.unit)}.")

    def _choice(self, name: str, text: str, as_it_is: bool) -> None:
        start = f"  {name}  "
        if not as_it_is:
            self.markdown(text, first=start, indent=len(start))
            return
        for number, line in enumerate(text.splitlines()):
            self._hang(start if number == 0 else " " * len(start), Text(in_ascii(line)))

    def _line_of_code(self, name: str, line: str) -> None:
        start = f"  {name}  "
        if line.startswith("# "):
            self.markdown(line[2:], first=start, indent=len(start))
        else:
            self._hang(start, Text(in_ascii(line)))

    # ---- answers ------------------------------------------------------------------------------

    def verdict(self, item: Item, marked: Marked, sure: bool = True) -> None:
        """Whether an answer is right, and why, for what was chosen and for what is right."""
        if marked.right:
            words = "Right." if sure else "Right, by a guess."
            self.state("passed", words, "green")
        elif marked.score:
            self.state("wrong", f"Partly right: {marked.score:.0%} of the points.", "yellow")
        else:
            self.state("wrong", "Not right.", "red")
        self._remarks(item, marked.remarks)

    def shown(self, item: Item) -> None:
        """The answer, for somebody who did not give one."""
        from amp_lessons.quiz.marking import mark
        from amp_lessons.quiz.markup import key_view

        self.state("skipped", "Skipped. This is the answer:", "cyan")
        self._remarks(item, mark(item, key_view(item)).remarks)

    def state(self, state: str, words: str, style: str) -> None:
        """A verdict in bold, after its symbol. ``state`` is one of `core.states.LOOKS`."""
        self.console.print(Text(f"{terminal.mark(state)} {words}", style=f"bold {style}"))

    def _remarks(self, item: Item, remarks: Sequence[Remark]) -> None:
        rank = {"right": 0, "wrong": 0, "missed": 1, "explanation": 2}  # first what was chosen
        for remark in sorted(remarks, key=lambda each: rank[each.role]):
            self.blank()
            if remark.answer:
                self._answered(item, remark)
            if remark.text:
                self.markdown(remark.text, indent=5 if remark.answer else 2)
            if remark.role == "explanation" and isinstance(item, OrderItem):
                self.blank()
                for number, line in enumerate(item.lines, 1):
                    self._line_of_code(str(number), line)
        self.blank()
        self.markdown(f"Source: {item.source}", indent=2)

    def _answered(self, item: Item, remark: Remark) -> None:
        """The choice, line or number that a remark is about, marked as what it is."""
        state, word = {
            "right": ("passed", "right"),
            "wrong": ("wrong", "wrong"),
            "missed": ("passed", "right"),
        }[remark.role]
        if isinstance(item, OrderItem) and remark.role == "missed":
            word = "left out"
        if item.kind == "several" and remark.role == "missed":
            word = "right, and you left it out"
        start = f"  {terminal.mark(state)}  "
        if isinstance(item, ChoiceItem):
            place = next(n for n, c in enumerate(item.choices) if c.text == remark.answer)
            self._choice_again(start, NAMES[place], item, remark.answer, word)
        elif isinstance(item, OrderItem) and remark.answer.startswith("# "):
            self.markdown(f"{remark.answer[2:]} ({word})", first=start, indent=len(start))
        else:
            self._hang(start, Text(in_ascii(f"{remark.answer} ({word})")))

    def _choice_again(self, start: str, name: str, item: ChoiceItem, text: str, word: str) -> None:
        if item.kind != "output":
            self.markdown(f"{name} ({word}): {text}", first=start, indent=len(start))
            return
        lines = text.splitlines() or [""]
        together = f" {lines[0]}" if len(lines) == 1 else ""
        self._hang(start, Text(in_ascii(f"{name} ({word}):{together}")))
        if not together:
            self.code(text, indent=len(start), python=False)


def _together(words: str, about: Sequence[str]) -> str:
    return f"{words} - {', '.join(about)}" if about else words


def _folded(line: Text, columns: int) -> Iterator[Text]:
    """A line of code in parts that fit, broken at spaces. A part that goes on ends in a mark."""
    mark = " ↩" if terminal.can_print("↩") else " \\"
    inner = len(line.plain) - len(line.plain.lstrip()) + 4
    start = 0
    while len(line.plain) > columns:
        cut = line.plain.rfind(" ", start + 1, columns - len(mark) + 1)
        if not line.plain[start:cut].strip() or cut <= start:  # one long word
            break
        yield Text.assemble(line[:cut], mark)
        rest = line[cut + 1 :]
        start = min(inner, columns // 2)
        line = Text.assemble(" " * start, rest)
    yield line


# ---- Markdown ----------------------------------------------------------------------------------


def in_ascii(text: str) -> str:
    """The same text; where the output knows only ASCII, with usual signs spelled out."""
    if terminal.can_print("−×→≤µ²"):
        return text
    text = re.sub(f"[{_RAISED}]+", lambda found: "^" + found[0].translate(_DIGITS), text)
    text = re.sub(f"[{_LOWERED}]+", lambda found: "_" + found[0].translate(_DIGITS), text)
    return text.translate(_SIGNS)


_MATH = re.compile(
    r"(?P<code>```.*?```|`+[^`]*`+)"
    r"|(?P<dunder>\b__\w+__\b)"
    r"|\$(?! )(?P<math>[^$\n]+?)(?<! )\$(?!\d)",
    re.DOTALL,
)


def without_math(text: str) -> str:
    """Markdown with its formulas as plain text, such as ``2^-24``.

    Code stays as it is, and a name such as ``__init__`` is no bold word.
    """

    def plain(found: re.Match[str]) -> str:
        if found["code"]:
            return found["code"]
        words = found["dunder"] or _plain_math(found["math"])
        return re.sub(r"([*_`])", r"\\\1", words)

    return _MATH.sub(plain, text)


_COMMANDS = (
    (r"\\[dt]?frac\{([^{}]*)\}\{([^{}]*)\}", r"(\1)/(\2)"),
    (r"\\sqrt\{([^{}]*)\}", r"√(\1)"),
    (r"\\(?:mathrm|text|mathbf|mathit|operatorname)\{([^{}]*)\}", r"\1"),
    (r"\\(?:times)\b ?", "× "),
    (r"\\cdot\b ?", "· "),
    (r"\\leq?\b ?", "≤ "),
    (r"\\geq?\b ?", "≥ "),
    (r"\\neq?\b ?", "≠ "),
    (r"\\approx\b ?", "≈ "),
    (r"\\pm\b ?", "± "),
    (r"\\infty\b", "∞"),
    (r"\\(?:to|rightarrow)\b ?", "→ "),
    (r"\\varepsilon\b|\\epsilon\b", "ε"),
    (r"\\(?:left|right)\b", ""),
    (r"\{,\}", ","),
    (r"\\[,;:! ]", " "),
    (r"\\%", "%"),
    (r"\\([a-zA-Z]+)", r"\1"),
)


def _plain_math(formula: str) -> str:
    for _ in range(2):  # what is nested
        for pattern, plain in _COMMANDS[:-1]:
            formula = re.sub(pattern, plain, formula)
    formula = re.sub(*_COMMANDS[-1], formula)
    formula = re.sub(r"([\^_])\{([+-]?[\w.]+)\}", r"\1\2", formula)
    formula = re.sub(r"([\^_])\{([^{}]*)\}", r"\1(\2)", formula)
    return re.sub(r" {2,}", " ", formula.replace("{", "").replace("}", "")).strip()


@lru_cache(maxsize=1)
def _parser() -> Any:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False})


def _blocks(text: str, code: Any) -> Iterator[tuple[str, Text]]:
    """The blocks of a Markdown text: ``("text" | "item" | "code", words)``."""
    bullets: list[int | None] = []
    pending = ""
    for token in _parser().parse(without_math(text)):
        if token.type == "bullet_list_open":
            bullets.append(None)
        elif token.type == "ordered_list_open":
            bullets.append(int(token.attrGet("start") or 1))
        elif token.type in ("bullet_list_close", "ordered_list_close"):
            bullets.pop()
        elif token.type == "list_item_open":
            number = bullets[-1]
            pending = "  " * (len(bullets) - 1) + ("- " if number is None else f"{number}. ")
            if number is not None:
                bullets[-1] = number + 1
        elif token.type in ("fence", "code_block"):
            yield "code", Text(token.content.rstrip("\n"))
        elif token.type == "inline":
            kind = "item" if pending else "text"
            yield kind, Text.assemble(pending, _inline(token.children or [], code))
            pending = ""


def _inline(tokens: Sequence[Any], code: Any) -> Text:
    result = Text()
    styles: list[str] = []
    address = ""
    for token in tokens:
        if token.type == "code_inline":
            result.append_text(code(in_ascii(token.content)))
        elif token.type in ("strong_open", "em_open"):
            styles.append("bold" if token.type == "strong_open" else "italic")
        elif token.type in ("strong_close", "em_close"):
            styles.pop()
        elif token.type == "link_open":
            address = str(token.attrGet("href") or "")
        elif token.type == "link_close":
            if address and not result.plain.endswith(address):
                result.append(f" ({address})")
        elif token.type in ("softbreak", "hardbreak"):
            result.append(" " if token.type == "softbreak" else "\n")
        else:
            result.append(in_ascii(token.content), " ".join(styles))
    return result


# ---- code --------------------------------------------------------------------------------------


def _highlighted(source: str) -> Text:
    """Python in the terminal's own colours: those that read on light and on dark."""
    from pygments.token import Comment, Keyword, Name, Number, Operator, String, Token
    from rich.style import Style
    from rich.syntax import ANSISyntaxTheme, Syntax

    theme = ANSISyntaxTheme(
        {
            Token: Style(),
            Comment: Style(italic=True, dim=True),
            Keyword: Style(color="magenta"),
            Operator.Word: Style(color="magenta"),
            Name.Builtin: Style(color="cyan"),
            Name.Decorator: Style(color="cyan"),
            Number: Style(color="cyan"),
            String: Style(color="green"),
        }
    )
    shown = Syntax("", "python", theme=theme, background_color="default").highlight(source)
    shown.rstrip()
    return shown
