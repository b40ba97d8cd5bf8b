"""From the parts of a notebook to slides: which of them begin one, continue it, or share the room.

A heading begins a slide. Text goes on over more slides where it's long; where dropping a few
closing sentences saves a slide, they go into the speaker notes. A cell and its result share a
slide if both fit, and a short text before them stands above.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field

from amp_lessons.classroom.slides import blocks, polls, sizes
from amp_lessons.classroom.slides.blocks import TextBlock
from amp_lessons.classroom.slides.parts import CellOutput, Code, Part, Poll, Text, Try
from amp_lessons.core.catalogue import Lesson
from amp_lessons.quiz.bank import Bank
from amp_lessons.quiz.items import OpenQuestion

LEAD = 150
"""The most room, in pixels, that a text may take above code and its result."""
LEAD_ALONE = 330
"""The same where the code has no result."""
TIGHT = 1.12
"""How much more than a slide's room code and its result may ask for: the type gets smaller."""
DROPPED = 1 / 3
"""The most of a text, in letters, that may be left to the speaker notes."""
KEYS = (
    "Keys: arrows and Space turn slides, s opens this view, t changes light and dark, ? lists all"
)


@dataclass
class Slide:
    """One slide.

    Attributes:
        kind: "title", "text", "code", "poll", "answer" or "try".
        heading: inline HTML.
        part: the section's heading, where the slide's own heading stands below it; else "".
        body: HTML.
        notes: HTML for the speaker, paragraph by paragraph.
        tag: a word above the heading, such as "Poll".
        place: where the slide comes from, such as "06 GradScaler".
    """

    kind: str
    heading: str
    body: str
    part: str = ""
    notes: list[str] = field(default_factory=list)
    tag: str = ""
    place: str = ""


def cut(
    found: Sequence[Part], lesson: Lesson, bank: Bank, *, whole: bool = True
) -> list[list[Slide]]:
    """The slides of a lesson, section by section: each ``##`` heading begins one.

    Args:
        found: the lesson's parts, or some of them.
        lesson: whose they are.
        bank: where the polls' questions come from.
        whole: whether the lesson's exercises follow, and what comes next.
    """
    cutter = _Cutter(lesson, bank)
    for place, part in enumerate(found):
        last = whole and place == len(found) - 1
        if isinstance(part, Text):
            cutter.text(part, closing=last)
        elif isinstance(part, Code):
            cutter.code(part)
        elif isinstance(part, Poll):
            cutter.poll(part)
        else:
            cutter.to_try(part)
    cutter.end(exercises=whole)
    return [section for section in cutter.sections if section]


def place_of(lesson: Lesson) -> str:
    """What stands above the slides of a lesson, such as ``"06 GradScaler"``."""
    return f"{lesson.number:02} {lesson.title}"


class _Cutter:
    """Collects text until a heading or a cell says where it belongs."""

    def __init__(self, lesson: Lesson, bank: Bank) -> None:
        self.lesson, self.bank = lesson, bank
        self.sections: list[list[Slide]] = [[]]
        self.heading, self.below = html.escape(lesson.title), ""
        self.kind = "text"
        self.waiting: list[TextBlock] = []
        self.free = 0.0

    def text(self, part: Text, closing: bool = False) -> None:
        found = blocks.read(part.source)
        if closing and found and found[0].kind != "heading":
            self._begin("What comes next")
        for block in found:
            if block.kind == "heading":
                self._head(block)
            elif not _is_navigation(block):
                self.waiting.append(block)

    def code(self, part: Code) -> None:
        notes = [f"The picture: {html.escape(r.alt)}" for r in part.results if r.alt]
        if part.imports:
            notes.insert(0, f"The cell begins with imports:<pre>{html.escape(part.imports)}</pre>")
        if not part.source:
            return
        listing = blocks.listing(part.source)
        needed = sum(map(sizes.result_height, part.results))
        if self._goes_on(sizes.height(listing) + needed):
            slide = self.sections[-1][-1]
            rest = self.free - sizes.height(listing)
            slide.body += listing.html + _results(part.results, rest)
            slide.notes += notes
            self.free = 0.0 if part.results else rest
            return
        room = sizes.BODY - sizes.height(listing)
        lead = self._lead(room - needed, LEAD if part.results else LEAD_ALONE)
        rest = room - sizes.total(self.led)
        if needed <= sizes.BODY * TIGHT - sizes.height(listing) or not part.results:
            self._add("code", lead + listing.html + _results(part.results, rest), notes)
            self.free = 0.0 if part.results else rest
            return
        texts = [result for result in part.results if result.kind != "picture"]
        beside = sum(map(sizes.result_height, texts)) <= rest
        self._add("code", lead + listing.html + _results(texts if beside else [], rest), [])
        apart = [result for result in part.results if result.kind == "picture" or not beside]
        for place, result in enumerate(apart):
            self._add("code", _result(result, sizes.ALONE), [] if place else notes, tag="Result")

    def poll(self, part: Poll) -> None:
        self._flush()
        for place, wanted in enumerate(part.ids, 1):
            item = self.bank.find(wanted)
            if isinstance(item, OpenQuestion):
                continue
            number = f" {place} of {len(part.ids)}" if len(part.ids) > 1 else ""
            asked, told = polls.question(item), polls.answer(item)
            self._add("poll", asked.body, [asked.notes], tag=f"Poll{number}")
            self._add("answer", told.body, [told.notes], tag=f"Answer{number}")

    def to_try(self, part: Try) -> None:
        lead = self._lead(LEAD_ALONE, 260)
        where = f"Open lesson {self.lesson.number:02} and"
        if part.what:
            told = f"{where} try the <b>{html.escape(part.what)}</b>."
            note = "It needs a running notebook: switch to JupyterLab, and let the room try it too."
        else:
            told = f"{where} run this cell."
            note = "The notebook stores no result of this cell, because it differs each time."
        body = f'{lead}<p class="try">{told}</p>{blocks.listing(part.source).html}'
        self._add("try", body, [note], tag="Try it")

    def end(self, exercises: bool) -> None:
        """What is left, and perhaps the lesson's exercises with their minutes."""
        if exercises and self.lesson.exercises:
            self.waiting.append(_exercises(self.lesson))
        self._flush()

    def _goes_on(self, needed: float) -> bool:
        """Whether a cell joins the one before it: that one defined something and showed nothing."""
        return not self.waiting and 0 < needed <= self.free

    # ---- headings -------------------------------------------------------------------------------

    def _head(self, block: TextBlock) -> None:
        self._flush()
        self.free = 0.0
        if block.level == 1:
            self.heading, self.kind = block.html.partition(":")[2].strip() or block.html, "title"
        elif block.level == 2:
            self._begin(block.html)
        else:
            self.below = block.html

    def _begin(self, heading: str) -> None:
        self._flush()
        self.free = 0.0
        self.sections.append([])
        self.heading, self.below, self.kind = heading, "", "text"

    def _add(self, kind: str, body: str, notes: list[str], tag: str = "") -> None:
        heading, part = (self.below, self.heading) if self.below else (self.heading, "")
        self.free = 0.0
        place = place_of(self.lesson)
        if kind == "title":
            place = f"AMP Lessons · lesson {self.lesson.number:02}"
        self.sections[-1].append(Slide(kind, heading, body, part, notes, tag, place))

    # ---- text -----------------------------------------------------------------------------------

    def _lead(self, room: float, most: float) -> str:
        """The text that waits, if it is short and fits above the next cell; else on slides."""
        self.led = self.waiting
        if self.kind == "title" or not 0 < sizes.total(self.waiting) <= min(most, room):
            self._flush()
            self.led = []
        self.waiting = []
        return "".join(block.html for block in self.led)

    def _flush(self) -> None:
        """Put the text that waits on slides of its own."""
        waiting, self.waiting = self.waiting, []
        if not waiting:
            return
        kind, self.kind = self.kind, "text"
        shown = shortened(waiting)
        notes = []
        if shown != waiting:
            notes.append("In full: " + "".join(block.html for block in waiting))
        if kind == "title":
            notes = [*_of_the_lesson(self.lesson), *notes]
        for page in pages(shown):
            self._add(kind, "".join(block.html for block in page), notes)
            kind, notes = "text", []


def _is_navigation(block: TextBlock) -> bool:
    """Whether it's the line of links below a lesson's heading."""
    return block.kind == "paragraph" and block.text.startswith("Home · ")


def _of_the_lesson(lesson: Lesson) -> list[str]:
    notes = [f"The lesson takes {lesson.minutes} minutes to read and run alone."]
    if lesson.exercises:
        minutes = sum(info.minutes for info in lesson.exercises)
        notes.append(f"Its {len(lesson.exercises)} exercises take {minutes} minutes more.")
    return [*notes, KEYS + "."]


def _exercises(lesson: Lesson) -> TextBlock:
    """A table of them."""
    rows = "".join(
        f"| {info.title} | {info.minutes} |\n" for info in lesson.exercises
    )  # fmt: skip
    return blocks.read(f"| exercise | minutes |\n|---|---|\n{rows}")[0]


def _results(results: Sequence[CellOutput], room: float) -> str:
    """Stored outputs one below the other, in as much height as there is."""
    pictures = [each for each in results if each.kind == "picture"]
    rest = room - sum(sizes.result_height(each) for each in results if each.kind != "picture")
    share = rest / len(pictures) - sizes.GAP if pictures else 0
    share = min(sizes.ALONE, max(sizes.LEAST_PICTURE, share))
    return "".join(_result(each, share) for each in results)


def _result(result: CellOutput, share: float) -> str:
    if result.kind == "picture":
        high = round(sizes.picture_height(result, sizes.WIDTH, share))
        width, height = result.size
        return (
            f'<img src="{result.body}" alt="{html.escape(result.alt)}" width="{width}" '
            f'height="{height}" style="--high:{high}px">'
        )
    if result.kind == "text":
        long = max(map(len, result.body.split("\n"))) > sizes.LONGEST_LINE
        wrapped = " wrapped" if long else ""
        return f'<pre class="output{wrapped}">{html.escape(result.body)}</pre>'
    if result.kind == "markdown":
        return blocks.to_html(result.body)
    return f'<div class="html">{result.body}</div>'


# ---- pages --------------------------------------------------------------------------------------


def pages(found: Sequence[TextBlock], room: float = sizes.PROSE) -> list[list[TextBlock]]:
    """Blocks on as few slides as they need, about equally full."""
    apart = _filled(found, room, room)
    large = room if len(apart) <= len(_filled(found, room, 0)) else 0
    fewest = _filled(found, room, large)
    low, high = sizes.total(found) / len(fewest), room
    while len(fewest) > 1 and high - low > 20:
        middle = (low + high) / 2
        if len(_filled(found, middle, large)) == len(fewest):
            high = middle
        else:
            low = middle
    return _filled(found, high, large)


def _filled(found: Sequence[TextBlock], room: float, large: float) -> list[list[TextBlock]]:
    """Fill one slide after the other. A line that ends in a colon stays with what it announces.

    Args:
        room: pixels of a slide.
        large: only a block that is higher may be cut.
    """
    made: list[list[TextBlock]] = [[]]
    left, waiting = room, list(found)
    while waiting:
        block = waiting.pop(0)
        if sizes.height(block) <= left:
            made[-1].append(block)
            left -= sizes.height(block)
            continue
        first, rest = _parted(block, left, large)
        if first is not None:
            made[-1].append(first)
            waiting.insert(0, rest)
        elif not made[-1]:  # larger than a slide, and in one piece: the page makes its type smaller
            made[-1].append(block)
        else:
            waiting.insert(0, block)
            if len(made[-1]) > 1 and made[-1][-1].text.endswith(":"):
                waiting.insert(0, made[-1].pop())
        if waiting:
            made.append([])
            left = room
    return made


def _parted(block: TextBlock, left: float, large: float) -> tuple[TextBlock | None, TextBlock]:
    """Of a list, table or listing of more than ``large`` pixels: as much as fits into what is
    left, and the rest. At least two pieces stand on either side, if they fit on one slide."""
    if block.kind not in ("list", "table", "code") or sizes.height(block) <= large:
        return None, block
    few = 1 if sizes.height(block.cut(2)[0]) > sizes.PROSE else 2
    for count in range(len(block.pieces) - few, few - 1, -1):
        first, rest = block.cut(count)
        if sizes.height(first) <= left:
            return first, rest
    return None, block


def shortened(found: Sequence[TextBlock]) -> list[TextBlock]:
    """The blocks without closing sentences of long paragraphs, if that saves a slide.

    A sentence that defines a term, or that has bold words in it, stays; so does a paragraph's
    first one.
    """
    wanted = len(pages(found)) - 1
    made, letters = list(found), sum(len(block.text) for block in found)
    left = letters * DROPPED
    while wanted >= 1 and left > 0:
        long = [n for n, block in enumerate(made) if _may_be_shorter(block)]
        if not long:
            break
        longest = max(long, key=lambda n: len(made[n].text))
        left -= len(made[longest].pieces[-1].text)
        made[longest] = made[longest].shorter()
        if left > 0 and len(pages(made)) == wanted:
            return made
    return list(found)


def _may_be_shorter(block: TextBlock) -> bool:
    if block.kind != "paragraph" or len(block.pieces) < 2:
        return False
    last = block.pieces[-1]
    return not last.keep and not last.text.endswith(":")
