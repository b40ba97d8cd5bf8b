"""How marks are shown: in a terminal, as JSON, as CSV, and as pages for learners and class.

All of it works on results (`grading.marks.Graded`) and on nothing else, so a class that was graded
once can be reported again. `console` draws tables and the progress bar, `as_json` and `as_csv` are
for programs, and `pages` writes the HTML, whose content comes from `learner_page` and
`class_page`. `roster` says which notebook counts; `anonymous` takes names out of answers.
"""

from amp_lessons.grading.report.as_csv import Layout, Per, write_csv
from amp_lessons.grading.report.as_json import JsonWriter, as_json
from amp_lessons.grading.report.console import FEW, class_table, table, tables, with_progress
from amp_lessons.grading.report.pages import write_pages
from amp_lessons.grading.report.roster import roster
from amp_lessons.grading.report.writing import ReportError

__all__ = [
    "FEW",
    "JsonWriter",
    "Layout",
    "Per",
    "ReportError",
    "as_json",
    "class_table",
    "roster",
    "table",
    "tables",
    "with_progress",
    "write_csv",
    "write_pages",
]
