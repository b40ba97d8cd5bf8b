"""What a trace says to a person and to a program.

`tree`, `islands`, `alignment` and `casting` work out what is worth saying, `costs` how long it
takes at least, and `digest` holds all of it. `text`, `page` and `data` show it in a terminal, in a
browser and as JSON; `changes` compares two runs, for `changes_text` and `changes_page` to show. The
data itself is in `explain.rows`.
"""

from amp_lessons.amp.explain.report.explanation import Explanation
from amp_lessons.amp.explain.rows import Cast, Hazard, Input, Module, OpRow, Totals, Trace

__all__ = ["Cast", "Explanation", "Hazard", "Input", "Module", "OpRow", "Totals", "Trace"]
