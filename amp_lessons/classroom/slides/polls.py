"""A question of the bank on two slides: what the room votes on, and the answer with its reason.

The explanation and what each wrong choice gets wrong are in the speaker notes.
"""

from __future__ import annotations

import html
from dataclasses import dataclass

from amp_lessons.classroom.slides import blocks
from amp_lessons.quiz import markup
from amp_lessons.quiz.curves import plot_svg
from amp_lessons.quiz.items import ChoiceItem, Item, NumberItem
from amp_lessons.quiz.marking import NAMES, shuffled, with_unit

REASON = 420
"""Letters of a reason that fit below the choices; the rest is in the notes."""


@dataclass(frozen=True)
class PollSide:
    """One side of a poll: the slide's body, and what the speaker reads."""

    body: str
    notes: str


def question(item: Item) -> PollSide:
    """The question with its choices, in large type."""
    if isinstance(item, ChoiceItem):
        answers = _choices(item, marked=False)
    elif isinstance(item, NumberItem):
        unit = f" in {html.escape(item.unit)}" if item.unit else ""
        answers = f'<p class="asked">Your number{unit}?</p>'
    else:
        lines = "".join(
            f"<li>{markup.line_html(item.offered[place])}</li>" for place in shuffled(item)
        )
        answers = f'<p class="asked">In which order?</p><ul class="lines">{lines}</ul>'
    right = f"<p><b>The answer:</b> {html.escape(_key(item))}</p>"
    notes = f"<p>Let everybody choose before you press a key: the next slide answers.</p>{right}"
    return PollSide(f'<div class="prompt">{_asked(item)}</div>{answers}', notes)


def answer(item: Item) -> PollSide:
    """The right answer and its reason. The notes have the whole explanation."""
    if isinstance(item, ChoiceItem):
        right = [choice for choice in item.choices if choice.right]
        reason = " ".join(choice.why for choice in right)
        shown = _choices(item, marked=True)
    elif isinstance(item, NumberItem):
        reason = ""
        shown = f'<p class="number">{html.escape(with_unit(item.answer, item.unit))}</p>'
    else:
        reason = ""
        lines = "".join(f"<li>{markup.line_html(line)}</li>" for line in item.lines)
        shown = f'<ol class="lines">{lines}</ol>'
    prompt = f'<div class="prompt again">{markup.to_html(item.prompt)}</div>'
    told = f'<div class="reason">{_reason(reason, item.explanation)}</div>'
    return PollSide(prompt + shown + told, markup.answer_html(item))


def _key(item: Item) -> str:
    text = markup.key_text(item)
    return text if isinstance(item, ChoiceItem) else text.replace("\n", "; ")


def _asked(item: Item) -> str:
    """The prompt, with the code, log or plot to read with it."""
    shown = [markup.to_html(item.prompt)]
    if item.code:
        shown.append(blocks.listing(item.code).html)
    if item.log:
        shown.append(f'<pre class="output">{html.escape(item.log)}</pre>')
    if item.plot:
        shown.append(f'<div class="plot">{plot_svg(item.plot)}</div>')
    return "".join(shown)


def _choices(item: ChoiceItem, marked: bool) -> str:
    shown = []
    for name, choice in zip(NAMES, item.choices, strict=False):
        css, sign = "", ""
        if marked:
            css = ' class="right"' if choice.right else ' class="other"'
            sign = '<b class="sign">✓ right</b>' if choice.right else ""
        badge = f'<b class="name">{name}</b>'
        text = f"<div>{markup.choice_html(item, choice.text)}</div>"
        shown.append(f"<li{css}>{badge}{text}{sign}</li>")
    several = "" if item.form == "one" else '<p class="asked">Several can be right.</p>'
    return f'{several}<ul class="choices">{"".join(shown)}</ul>'


def _reason(why: str, explanation: str) -> str:
    """The reason of the right choice, then whole sentences of the explanation while they fit."""
    kept: list[str] = []
    left = REASON - len(why)
    paragraphs = [block for block in blocks.read(explanation) if block.kind == "paragraph"]
    whole = [piece for block in paragraphs for piece in block.pieces]
    for place, piece in enumerate(whole):
        left -= len(piece.text)
        if left < 0 and (place or why):
            kept.append(blocks.MORE)
            break
        kept.append(piece.html)
    first = markup.to_html(why) if why else ""
    return first + (f"<p>{' '.join(kept)}</p>" if kept else "")
