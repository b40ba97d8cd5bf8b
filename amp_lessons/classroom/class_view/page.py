"""The room as a page: one self-contained HTML file, light and dark, readable without its script.

Every word that comes from a learner, such as a folder's name, is escaped by the template and cut to
size. The page's policy allows its own style and script, by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from amp_lessons.classroom.class_view.room import (
    RECENT,
    UNKNOWN,
    ClassState,
    CommonMistake,
    LearnerState,
    Standing,
    hardest,
    is_recent,
    mistakes,
    standings,
)
from amp_lessons.core.catalogue import lesson_of
from amp_lessons.core.states import State, look

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

LONGEST = 60
"""Characters of a name."""
MOST = 8
"""Of the exercises and of the mistakes that are listed at the top."""
SECONDS = 5
"""Between two loads of the page where scripts are off."""
CSS = {
    State.PASSED: "passed",
    State.WRONG: "wrong",
    State.ERROR: "error",
    State.NOT_ATTEMPTED: "open",
    State.SKIPPED: "skipped",
    UNKNOWN: "unknown",
}


def shown(text: str, longest: int = LONGEST) -> str:
    """A stranger's text, so that it can be read on one line: what steers a screen is replaced."""
    text = text.encode("utf-8", "replace").decode()
    plain = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return plain if len(plain) <= longest else f"{plain[: longest - 1]}…"


def page(room: ClassState, folder: Path, live: bool, trouble: str = "") -> str:
    """The whole page.

    Args:
        room: what to show.
        folder: where it comes from.
        live: whether a server keeps it up to date.
        trouble: why this is not what the folder holds now, or "".
    """
    style, script = _asset("page.css"), _asset("page.js")
    return _template("page.html.jinja").render(
        folder=shown(folder.resolve().name or str(folder)),
        policy=policy(live),
        live=live,
        seconds=SECONDS,
        style=_as_markup(style),
        script=_as_markup(script),
        room=_as_markup(part(room, trouble)),
    )


def policy(live: bool) -> str:
    """The page's content security policy."""
    rules = ["default-src 'none'", f"style-src {_hash(_asset('page.css'))}"]
    if live:
        rules += [f"script-src {_hash(_asset('page.js'))}", "connect-src 'self'"]
    return "; ".join([*rules, "base-uri 'none'", "form-action 'none'"])


def part(room: ClassState, trouble: str = "") -> str:
    """The part of the page that changes: the element ``main``."""
    found, wrong = standings(room), mistakes(room)
    claims = [claim for each in room.learners for claim in each.claims.values()]
    totals = {
        "learners": len(room.learners),
        "active": sum(each.last >= room.now - RECENT for each in room.learners),
        "passes": sum(claim.state == "passed" for claim in claims),
    }
    states = [
        {"symbol": look(state).symbol, "word": str(state), "css": CSS[state]} for state in State
    ]
    return _template("room.html.jinja").render(
        room=room,
        trouble=trouble,
        totals=totals,
        standings=found,
        hardest=hardest(found)[:MOST],
        mistakes=wrong[:MOST],
        more_mistakes=len(wrong[MOST:]),
        states=states,
        clock=time.strftime("%H:%M", time.localtime(room.now)),
        recent=round(RECENT / 60),
        bar=_bar,
        shown=shown,
        with_code=_with_code,
        cell=_cells(room.now),
        at=_at,
        ago=_ages(room.now),
        id=_id,
        key=_key,
    )


# ---- what the template calls --------------------------------------------------------------------


def _with_code(text: str) -> Markup:
    """Escaped, and what stands in backticks set as code."""
    from markupsafe import Markup, escape

    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _bar(standing: Standing) -> Markup:
    """The states of the room as one bar. Its widths are attributes: the policy allows no style."""
    from markupsafe import Markup

    parts, words, x, total = [], [], 0.0, max(sum(standing.counts.values()), 1)
    for state, css in CSS.items():
        count = standing.counts.get(state, 0)
        width = 100 * count / total
        if count:
            parts.append(f'<rect class="{css}" x="{x:.2f}" width="{width:.2f}" height="10"/>')
            words.append(f"{count} {state or 'without a file'}")
        x += width
    label = Markup.escape(", ".join(words))
    return Markup(
        '<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" '
        f'aria-label="{label}"><title>{label}</title>{"".join(parts)}</svg>'
    )


def _cells(now: float) -> Callable[[LearnerState, Standing], Markup]:
    """The cell of a learner and an exercise: its class draws it, its text is for screen readers."""
    from markupsafe import Markup, escape

    def cell(learner: LearnerState, standing: Standing) -> Markup:
        state = learner.state(standing.lesson, standing.info.name)
        claim = learner.claims.get(standing.info.name)
        words, classes = [state or "no file"], ["s", CSS[state]]
        if claim is not None and claim.fails and is_recent(claim, now):
            classes.append("now")
        if claim is not None and claim.diagnosis:
            words.append(claim.diagnosis)
        if claim is not None and claim.gave_up:
            classes.append("flag")
            words.append("gave up")
        if standing.number == 1:
            classes.append("first")
        text = escape(shown(", ".join(words), 120))
        title = f' title="{text}"' if len(words) > 1 else ""
        markup = f'<td class="{" ".join(classes)}"{title}><i>{text}</i></td>'
        return Markup(markup)

    return cell


def _at(learner: LearnerState) -> str:
    """Where a learner is, in a few words."""
    claim = learner.here
    if claim is None:
        return ""
    lesson = lesson_of(claim.exercise)
    number = [info.name for info in lesson.exercises].index(claim.exercise) + 1
    words = [f"{lesson.number:02}.{number} {claim.state}"]
    if claim.checks and claim.fails:
        words.append(f"{claim.checks} check{'s' * (claim.checks != 1)}")
    if claim.hints and claim.fails:
        words.append(f"{claim.hints} hint{'s' * (claim.hints != 1)}")
    return ", ".join(words)


def _ages(now: float) -> Callable[[LearnerState], str]:
    def ago(learner: LearnerState) -> str:
        minutes = int((now - learner.last) // 60)
        if not learner.last:
            return ""
        if minutes < 1:
            return "just now"
        if minutes < 120:
            return f"{minutes} min ago"
        return f"{minutes // 60} h ago" if minutes < 48 * 60 else f"{minutes // 1440} days ago"

    return ago


def _id(learner: LearnerState) -> str:
    return f"learner-{_digest(learner.name)}"


def _key(mistake: CommonMistake) -> str:
    return f"{mistake.info.name}-{_digest(mistake.name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


# ---- templates and assets -----------------------------------------------------------------------


@cache
def _asset(name: str) -> str:
    return (files("amp_lessons.classroom.class_view") / "static" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Environment:
    from jinja2 import BaseLoader, Environment, StrictUndefined

    return Environment(loader=BaseLoader(), autoescape=True, undefined=StrictUndefined)


def _template(name: str) -> Any:
    return _environment().from_string(_asset(name))


def _as_markup(text: str) -> Markup:
    """Our own files, and what a template made: not to be escaped again."""
    from markupsafe import Markup

    return Markup(text)


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
