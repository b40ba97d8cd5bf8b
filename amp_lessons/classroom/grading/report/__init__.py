"""How marks are shown: in a terminal, as JSON, as CSV, and as pages for learners and class.

All of it works on results (`grading.marks.Graded`) and on nothing else, so a class that was graded
once can be reported again. `console` draws tables and the progress bar, `as_json` and `as_csv` are
for programs, and `pages` writes the HTML, whose content comes from `learner_page` and
`class_page`. `roster` says which notebook counts; `anonymous` takes names out of answers.
"""

from amp_lessons.classroom.grading.report.as_csv import Layout, Per, check_csv, write_csv
from amp_lessons.classroom.grading.report.as_json import JsonWriter, as_json
from amp_lessons.classroom.grading.report.class_list import ClassListError, Listed, read_class_list
from amp_lessons.classroom.grading.report.console import (
    FEW,
    attendance,
    class_table,
    summary,
    table,
    tables,
    with_progress,
)
from amp_lessons.classroom.grading.report.merging import names_in
from amp_lessons.classroom.grading.report.pages import write_pages
from amp_lessons.classroom.grading.report.roster import roster
from amp_lessons.classroom.grading.report.writing import ReportError

__all__ = [
    "FEW",
    "ClassListError",
    "JsonWriter",
    "Layout",
    "Listed",
    "Per",
    "ReportError",
    "as_json",
    "attendance",
    "check_csv",
    "class_table",
    "names_in",
    "read_class_list",
    "roster",
    "summary",
    "table",
    "tables",
    "with_progress",
    "write_csv",
    "write_pages",
]
