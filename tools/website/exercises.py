"""A sheet of exercises on a page: statement, starter code, one wrong answer, the first hint.

The wrong answers and the verdicts on them are recorded (`tools/record_wrong_answers.py`). A wrong
answer is mostly the right one with a small change, so a program is shown only where it holds little
of any right answer. For the other exercises there is the verdict alone.
"""

from __future__ import annotations

import html
import json
from functools import cache
from typing import Any

from nbformat import NotebookNode

from amp_lessons.exercises import checks
from website import cells
from website.text import Text, code
from website.widgets import RECORDED


@cache
def recorded() -> dict[str, dict[str, Any]]:
    """By exercise: the ``program``, or "", and the ``verdict`` on it."""
    return json.loads((RECORDED / "wrong_answers.json").read_text(encoding="utf-8"))


def content(notebook: NotebookNode, text: Text) -> str:
    """The sheet as HTML."""
    shown = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            shown.append(text.render(cells.without_links(cell.source)))
            continue
        marks = cell.metadata.get("nbgrader", {})
        if "setup" in cell.metadata.get("tags", []) or _only_comments(cell.source):
            continue
        if marks.get("solution"):
            shown += ['<p class="label">Starter code</p>', code(cell.source)]
        elif marks.get("grade"):
            shown.append(_aids(marks["grade_id"].removesuffix("_check"), text))
        else:
            shown.append(code(cell.source))
            if cell.outputs:
                shown.append(f'<div class="output">{cells.output_html(cell.outputs)}</div>')
    return "\n".join(shown)


def _only_comments(source: str) -> bool:
    return all(line.startswith("#") for line in source.splitlines())


def _aids(name: str, text: Text) -> str:
    """What helps with an exercise: the check's verdict on a wrong answer, and the first hint."""
    wrong = recorded()[name]
    hint = checks.find_exercise(name).public.hints[0]
    verdict = (
        f'<p class="verdict"><strong>✗ Not right.</strong> {text.inline(wrong["verdict"])}</p>'
    )
    if wrong["program"]:
        said = "A wrong answer, and what its check says"
        verdict = code(wrong["program"]) + verdict
    else:
        said = "What the check says about one wrong answer"
    return (
        f"<details><summary>{said}</summary>{verdict}</details>"
        f"<details><summary>First hint</summary><p>{text.inline(hint)}</p></details>"
        f'<p class="without-kernel">To have your answer checked, run '
        f"<code>ex.{html.escape(name)}.check(…)</code> in the notebook.</p>"
    )
