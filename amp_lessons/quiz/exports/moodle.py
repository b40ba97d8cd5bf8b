"""The bank as Moodle XML, for a teacher's question bank.

Questions with choices become multichoice, numbers numerical, open questions essays. An order
becomes a matching question, with a line to choose for each place. Moodle's own `ordering` has been
in its core since 4.4, but has no room for the lines that don't belong, and marks one order only.
An item of which several orders are right asks for one of some whole orders instead.
"""

from __future__ import annotations

import base64
import difflib
import html
import random
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree

from amp_lessons.quiz import markup
from amp_lessons.quiz.bank import Bank
from amp_lessons.quiz.exports import contents
from amp_lessons.quiz.items import (
    ChoiceItem,
    Item,
    NumberItem,
    OpenQuestion,
    OrderItem,
    slug_of,
)
from amp_lessons.quiz.marking import shuffled

CATEGORY = "AMP Lessons"
LIKE_A_MISTAKE = 1e-3
"""The share within which a number counts as a known mistake, as in `marking.why_wrong`."""
LETTERS = "abcdefghij"
"""Of the lines to put in order: their places are numbers in Moodle."""

Element = ElementTree.Element


def build(bank: Bank) -> bytes:
    """The bank as the bytes of an ``.xml`` file, with a category for each topic."""
    quiz = ElementTree.Element("quiz")
    for topic, questions in contents.by_topic(bank):
        quiz.append(_category(topic))
        for question in questions:
            quiz.append(_open(question) if isinstance(question, OpenQuestion) else _item(question))
    ElementTree.indent(quiz, " ")
    return ElementTree.tostring(quiz, encoding="UTF-8", xml_declaration=True) + b"\n"


def _category(topic: str) -> Element:
    title = contents.topic_title(topic).replace("/", "//")  # one slash would begin a subcategory
    question = ElementTree.Element("question", type="category")
    _text(question, "category", f"$course$/top/{CATEGORY}/{title}", format=None)
    _text(question, "info", f"Questions on {contents.topic_title(topic)}, from AMP Lessons.")
    _put(question, "idnumber", f"amp_lessons.{topic}")
    return question


# ---- kinds ---------------------------------------------------------------------------------------


def _item(item: Item) -> Element:
    if isinstance(item, ChoiceItem):
        question = _choices(item)
    elif isinstance(item, NumberItem):
        question = _number(item)
    elif item.before:
        question = _whole_orders(item)
    else:
        question = _places(item)
    _text(question, "hint", markup.to_html(item.hint))
    _tags(question, item)
    return question


def _choices(item: ChoiceItem) -> Element:
    question = _multichoice(item, _reading(item), single=item.form == "one")
    share = 100 / len(item.right)
    for choice in item.choices:
        fraction = share if choice.right else -share if item.form == "many" else 0.0
        shown = markup.choice_html(item, choice.text)
        _answer(question, shown, fraction, markup.to_html(choice.why))
    return question


def _whole_orders(item: OrderItem) -> Element:
    asked = f"{_reading(item)}\n<p>Which of these orders works?</p>"
    question = _multichoice(item, asked, single=True)
    for order, why in orders_to_choose(item):
        lines = "".join(f"<li>{_line(item.offered[place])}</li>" for place in order)
        fraction = 100.0 if item.accepts(order) else 0.0
        _answer(question, f"<ol>{lines}</ol>", fraction, markup.to_html(why) if why else "")
    return question


def _number(item: NumberItem) -> Element:
    note = f"Answer in {html.escape(item.unit)}: " if item.unit else ""
    note += "write a number such as 112 or 1e-8."
    question = _question("numerical", item, f"{_reading(item)}\n<p>{note}</p>")
    reach = item.tolerance * abs(item.answer)
    _answer(question, _plain(item.answer), 100.0, "", format=None, tolerance=reach)
    for mistake in item.mistakes:
        why = markup.to_html(mistake.why)
        reach = _reach(item, mistake.value)
        _answer(question, _plain(mistake.value), 0.0, why, format=None, tolerance=reach)
    if item.unit:
        units = ElementTree.SubElement(question, "units")
        unit = ElementTree.SubElement(units, "unit")
        _put(unit, "multiplier", "1")
        _put(unit, "unit_name", item.unit)
    _put(question, "unitgradingtype", "0")  # a unit may be left out
    _put(question, "unitpenalty", "0.1")
    _put(question, "showunits", "0" if item.unit else "3")  # in the text box, or none at all
    _put(question, "unitsleft", "0")
    return question


def _reach(item: NumberItem, wrong: float) -> float:
    """How far from a known mistake a number still counts as it.

    `marking` takes the nearest mistake and Moodle the first that fits, so none reaches beyond the
    middle between it and the next.
    """
    others = [abs(each.value - wrong) / 2 for each in item.mistakes if each.value != wrong]
    return min([max(item.tolerance, LIKE_A_MISTAKE) * abs(wrong), *others])


def _places(item: OrderItem) -> Element:
    """A matching question: to each place belongs a line, and some lines to none.

    The list of lines stands above it in full, as Moodle's menus show plain text only.
    """
    places = shuffled(item)
    letter = {place: LETTERS[number] for number, place in enumerate(places)}
    lines = "".join(f"<li>{_line(item.offered[place])}</li>" for place in places)
    left_over = len(item.distractors)
    note = f"{left_over} of the lines {'does' if left_over == 1 else 'do'} not belong."
    asked = f'{_reading(item)}\n<ol type="a">{lines}</ol>\n<p>{note}</p>'
    question = _question("matching", item, asked)
    _put(question, "shuffleanswers", "false")
    _combined_feedback(question)
    for place, line in enumerate(item.offered):
        belongs = place < len(item.lines)
        stem = f"<p>Line {place + 1}</p>" if belongs else ""
        part = ElementTree.SubElement(question, "subquestion", format="html")
        _put(part, "text", stem)
        shown = " ".join(line.removeprefix("# ").split())
        _text(part, "answer", f"({letter[place]}) {shown}", format=None)
    return question


def _open(question: OpenQuestion) -> Element:
    answer = markup.open_html(question)
    element = _question("essay", question, markup.to_html(question.prompt), answer)
    for name, value in {
        "responseformat": "editor",
        "responserequired": "1",
        "responsefieldlines": "15",
        "attachments": "0",
        "attachmentsrequired": "0",
    }.items():
        _put(element, name, value)
    _text(element, "graderinfo", answer)
    _text(element, "responsetemplate", "")
    _tags(element, question)
    return element


def orders_to_choose(item: OrderItem) -> list[tuple[tuple[int, ...], str]]:
    """A right order and one for each slip and distractor, with what to say about it.

    Of the wrong ones, each makes one mistake that has a name. They come in an order of chance that
    is the same in each build.
    """
    right = tuple(range(len(item.lines)))
    found = {right: ""}
    for slip in item.slips:
        rest = [line for line in right if line != slip.early]
        at = rest.index(slip.late)
        found.setdefault((*rest[:at], slip.early, *rest[at:]), slip.why)
    for place, distractor in enumerate(item.distractors, len(right)):
        like = _most_alike(distractor.text, item.lines)
        found.setdefault((*right[:like], place, *right[like + 1 :]), distractor.why)
    choices = [(order, why) for order, why in found.items() if not why or not item.accepts(order)]
    random.Random(item.id).shuffle(choices)
    return choices


def _most_alike(text: str, lines: Sequence[str]) -> int:
    def likeness(place: int) -> float:
        return difflib.SequenceMatcher(None, text, lines[place], autojunk=False).ratio()

    return max(range(len(lines)), key=likeness)


# ---- what they are made of -----------------------------------------------------------------------


def _question(
    kind: str, asked: Item | OpenQuestion, markup_: str, feedback: str | None = None
) -> Element:
    """A question of one of Moodle's types, with all that each of them has."""
    question = ElementTree.Element("question", type=kind)
    _text(question, "name", asked.id, format=None)
    text = _text(question, "questiontext", markup_)
    if not isinstance(asked, OpenQuestion):
        text.extend(_files(asked))
        feedback = "\n".join(_general_feedback(asked))
    _text(question, "generalfeedback", feedback or "")
    _put(question, "defaultgrade", "1")
    _put(question, "penalty", "0.3333333")
    _put(question, "hidden", "0")
    _put(question, "idnumber", asked.id)
    return question


def _multichoice(item: Item, markup_: str, single: bool) -> Element:
    question = _question("multichoice", item, markup_)
    _put(question, "single", "true" if single else "false")
    _put(question, "shuffleanswers", "false")  # numbers among them are in ascending order
    _put(question, "answernumbering", "abc")
    _put(question, "showstandardinstruction", "1")
    _combined_feedback(question)
    return question


def _combined_feedback(question: Element) -> None:
    _text(question, "correctfeedback", "<p>Right.</p>")
    _text(question, "partiallycorrectfeedback", "<p>Partly right.</p>")
    _text(question, "incorrectfeedback", "<p>Not right.</p>")


def _answer(
    question: Element,
    text: str,
    fraction: float,
    feedback: str,
    *,
    format: str | None = "html",
    tolerance: float | None = None,
) -> None:
    """An answer. Moodle takes only fractions that it knows, and compares five digits of them."""
    answer = _text(question, "answer", text, format=format or "moodle_auto_format")
    answer.set("fraction", f"{fraction:.5f}".rstrip("0").rstrip("."))
    _text(answer, "feedback", feedback)
    if tolerance is not None:
        _put(answer, "tolerance", _plain(tolerance))


def _reading(item: Item) -> str:
    """What there is to read. Moodle has no colours for code, so it comes without."""
    parts = [markup.to_html(item.prompt)]
    parts += [
        f"<pre>{html.escape(text.strip(chr(10)))}</pre>" for text in (item.code, item.log) if text
    ]
    if item.plot:
        source = f"@@PLUGINFILE@@/{slug_of(item.id)}.svg"
        style = "max-width:100%;background:#fff"
        parts.append(
            f'<p><img src="{source}" alt="{html.escape(item.plot.alt)}" style="{style}"></p>'
        )
    return "\n".join(parts)


def _files(item: Item) -> Iterator[Element]:
    """The plot as a file of its own: Moodle's editor would take an SVG out of the text."""
    if item.plot:
        name = f"{slug_of(item.id)}.svg"
        file = ElementTree.Element("file", name=name, path="/", encoding="base64")
        file.text = base64.b64encode(markup.plot_svg(item.plot).encode()).decode()
        yield file


def _line(line: str) -> str:
    """A line to put in order, as code. One that is prose is written with a leading ``# ``."""
    if line.startswith("# "):
        return markup.inline_html(line[2:])
    return f"<code>{html.escape(line)}</code>"


def _general_feedback(item: Item) -> Iterator[str]:
    if item.explanation:
        yield markup.to_html(item.explanation)
    if isinstance(item, OrderItem):
        for distractor in item.distractors:
            yield f"<p>{_line(distractor.text)}: {markup.inline_html(distractor.why)}</p>"
        yield from (markup.to_html(slip.why) for slip in item.slips)
    program = contents.proof_program(item)
    if program:
        shown = f"<pre>{html.escape(program)}</pre>"
        yield f"<details><summary>The proof</summary>{shown}</details>"
    yield f"<p><small>Source: {markup.inline_html(item.source)}</small></p>"


def _tags(question: Element, asked: Item | OpenQuestion) -> None:
    tags = ElementTree.SubElement(question, "tags")
    for tag in (asked.topic, asked.kind, f"level {asked.level}"):
        _text(tags, "tag", tag, format=None)


def _text(parent: Element, name: str, text: str, format: str | None = "html") -> Element:
    """An element with a ``<text>`` in it, as Moodle writes nearly all of them."""
    element = ElementTree.SubElement(parent, name)
    if format:
        element.set("format", format)
    _put(element, "text", text)
    return element


def _put(parent: Element, name: str, text: str) -> None:
    ElementTree.SubElement(parent, name).text = text


def _plain(value: float) -> str:
    """A number as Moodle reads it back: all its digits, and no fraction where there is none."""
    return repr(value).removesuffix(".0")
