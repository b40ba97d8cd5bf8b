"""The grader's reports: tables, JSON, CSV for a spreadsheet and two LMS, pages.

They get results made by hand, so nothing is graded here. Names and answers are a learner's own, so
most tests hold some that want to be a formula, a tag, or a command of the terminal.
"""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from graded_class import (
    FORMATS,
    HOSTILE_ANSWER,
    HOSTILE_NAMES,
    LESSON,
    SENTENCES,
    graded,
    many,
    mark,
    wrong,
)
from rich.console import Console

from amp_lessons.classroom.grading import report
from amp_lessons.classroom.grading.marks import Graded
from amp_lessons.classroom.grading.report import anonymous, class_counts, pages
from amp_lessons.classroom.grading.report.anonymous import Names, Veil
from amp_lessons.core import terminal
from amp_lessons.exercises.checks.exercise import Exercise
from amp_lessons.exercises.checks.verdict import Finding, State

EXERCISES = [info.name for info in LESSON.exercises]
CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ud800-\udfff]")
UNREADABLE = Graded("submitted/Eve/notes.ipynb", "Eve", problems=("this file is not JSON",))


def in_words(*tables, width: int = 160) -> str:
    screen = Console(file=io.StringIO(), width=width, color_system=None)
    for table in tables:
        screen.print(table)
    return screen.file.getvalue()


# ---- who handed in what -------------------------------------------------------------------------


def test_notebooks_of_different_lessons_are_one_learner():
    (learner,) = report.roster([graded("Ada"), graded("Ada", lesson=FORMATS)])
    assert learner.points == LESSON.points + FORMATS.points
    assert [each.lesson for each in learner.counted] == [FORMATS.id, LESSON.id]
    assert learner.notes == ()


def test_of_two_notebooks_of_a_lesson_the_better_one_counts_as_a_whole_and_a_note_says_so():
    first = graded("Ada", mark("clip_step", State.WRONG), name="sheet.ipynb")
    missing = [mark(name, State.NOT_ATTEMPTED) for name in EXERCISES if name != "clip_step"]
    second = graded("Ada", *missing, name="sheet (1).ipynb")
    for order in ((first, second), (second, first)):
        (learner,) = report.roster(order)
        assert learner.points == first.points, "not the sum of the best of each exercise"
        (note,) = learner.notes
        assert note.index("sheet.ipynb counts (15 points)") < note.index("not sheet (1).ipynb (2")


def test_of_two_equal_notebooks_the_one_without_problems_counts():
    (learner,) = report.roster(
        [
            graded("Ada", name="a.ipynb", problems=("a check is gone",)),
            graded("Ada", name="b.ipynb"),
        ]
    )
    assert [each.name for each in learner.counted] == ["b.ipynb"]


def test_a_notebook_that_nobody_owns_stands_for_itself():
    learners = report.roster([graded("", name="x.ipynb"), graded("", name="y.ipynb")])
    assert [(each.name, each.known) for each in learners] == [
        ("x.ipynb", False),
        ("y.ipynb", False),
    ]


def test_two_learners_of_one_name_are_told_apart_by_their_number_in_canvas():
    names = ("dl/doejane_11_900_sheet.ipynb", "dl/doejane_LATE_12_901_sheet.ipynb")
    learners = report.roster([graded("doejane", name=name) for name in names])
    assert [each.canvas for each in learners] == ["11", "12"]


# ---- terminal -----------------------------------------------------------------------------------


def test_a_few_notebooks_get_a_table_each_and_a_class_one_table():
    few = [graded("Ada"), wrong("Grace", "step-forgotten")]
    assert len(report.tables(few)) == 2
    assert SENTENCES["step-forgotten"][:20] in in_words(*report.tables(few))
    (table,) = report.tables([*few, UNREADABLE, graded("Alan")])
    words = in_words(table)
    for expected in ("Ada", "06 GradScaler", "17/17", "this file is not JSON", "total", "49/51"):
        assert expected in words


def test_the_console_says_whom_to_look_at_and_what_held_the_class_up():
    class_ = [
        graded("Ada"),
        wrong("Ben", "step-forgotten"),
        wrong("Cem", "step-forgotten"),
        graded("Dora", mark("OwnScaler", State.ERROR), problems=("its check of x is gone",)),
    ]
    people = [report.Listed(name) for name in ("Ada", "Ben", "Cem", "Eva")]
    learners = report.roster(class_, people)
    assert report.attendance(learners) == [
        "missing, 1 of 4 on the list: Eva",
        "not on the list: Dora",
    ]
    assert report.attendance(report.roster(class_)) == []
    reported = report.summary(learners)
    assert reported[0] == "to look at, 1 of 4:"
    assert reported[1].startswith("  Dora: submitted/Dora/")
    assert reported[1].endswith("its check of x is gone")
    held_up = "held the class up, with those who did not pass: "
    assert reported[2:] == [f"{held_up}clip_step (2 of 4), OwnScaler (1 of 4)"]
    assert report.summary(report.roster([graded("Ada")])) == []


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_no_name_steers_the_terminal_or_fills_it(name):
    problems = ("\x1b[31mred\x1b[0m \u202e",)
    words = in_words(report.class_table([graded(name, name=name, problems=problems)]))
    words += in_words(report.table(graded(name, name=name)))
    assert not CONTROLS.search(words)
    assert words.count("\n") < 40


def test_progress_says_nothing_in_a_pipe(capsys):
    results = many(3)
    assert list(report.with_progress(iter(results), 3)) == results
    assert capsys.readouterr() == ("", "")


def test_progress_on_a_terminal_is_on_standard_error_and_goes_away(monkeypatch, capsys):
    drawn = io.StringIO()
    asked = []

    def console(stderr: bool = False) -> Console:
        asked.append(stderr)
        return Console(file=drawn, force_terminal=True, width=100)

    monkeypatch.setattr(terminal, "console", console)
    results = [graded("Ada"), UNREADABLE]
    for number, _ in enumerate(report.with_progress(iter(results), 2)):
        print("result", number)
    assert asked == [True]
    assert "2/2" in drawn.getvalue()
    assert "1 to look at" in drawn.getvalue()
    assert "result" not in drawn.getvalue()
    assert capsys.readouterr().out == "result 0\nresult 1\n"
    assert list(report.with_progress(iter(results), 2, show=False)) == results


# ---- JSON ---------------------------------------------------------------------------------------


def test_json_as_a_whole_and_line_by_line_are_the_same_and_can_be_read_back():
    results = [wrong(name, "step-forgotten") for name in HOSTILE_NAMES]
    about = {"seed": "abc", "torch": "2.13.0"}
    stream = io.StringIO()
    writer = report.JsonWriter(stream, about)
    for each in results:
        writer.add(each)
    writer.close()
    document = json.loads(stream.getvalue())
    assert document == json.loads(json.dumps(report.as_json(results, about)))
    assert document["batch"] == about
    assert [Graded.from_json(each) for each in document["notebooks"]] == results
    assert document["points"] == sum(each.points for each in results)


def test_json_without_a_batch_and_without_notebooks_is_valid():
    stream = io.StringIO()
    report.JsonWriter(stream).close()
    assert json.loads(stream.getvalue()) == {
        "notebooks": [],
        "points": 0,
        "of": 0,
        "gradable": True,
    }


# ---- CSV ----------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path):
    """Writes a CSV file and reads its cells back."""

    def write(results, layout="plain", **more) -> list[list[str]]:
        file = tmp_path / "marks.csv"
        file.unlink(missing_ok=True)
        write.notes = report.write_csv(results, file, layout, **more)
        content = file.read_bytes()
        assert content.startswith(b"\xef\xbb\xbf"), "Excel needs it"
        rows = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))
        assert {len(row) for row in rows} == {len(rows[0])}, "every row has every column"
        return rows

    return write


def test_a_plain_file_has_a_row_a_learner_and_a_column_an_exercise(written):
    skipped = mark("why_skipped", State.SKIPPED)
    results = [
        wrong("Ada", "step-forgotten", gave_up=("clip_step",), notes=("a note",)),
        graded("Ada", lesson=FORMATS),
        graded("Grace", skipped, problems=("the check of x is missing",)),
        UNREADABLE,
        graded("", name="nobody.ipynb"),
    ]
    head, *rows = written(results)
    found = {row[0]: dict(zip(head, row, strict=True)) for row in rows}
    formats = [info.name for info in FORMATS.exercises]
    assert head == [
        *("learner", *formats, *EXERCISES),
        *("points", "of", "gave up", "look at", "notes", "notebooks"),
    ]
    ada = found["Ada"]
    assert (ada["clip_step"], ada["OwnScaler"], ada["decode_bits"]) == ("0", "4", "2")
    assert (ada["points"], ada["of"]) == ("23", "25")
    assert (ada["gave up"], ada["notes"]) == ("clip_step", "a note")
    assert found["Grace"]["decode_bits"] == "", "not handed in is not 0"
    assert found["Grace"]["why_skipped"] == "", "skipped counts neither for nor against"
    assert "is missing" in found["Grace"]["look at"]
    assert found["Eve"]["points"] == "0"
    assert "not JSON" in found["Eve"]["look at"]
    assert found[""]["notebooks"] == "nobody.ipynb"


def test_a_column_a_sheet(written):
    head, row = written(
        [wrong("Ada", "step-forgotten"), graded("Ada", lesson=FORMATS)], per="sheet"
    )
    assert head[1:4] == ["01 Number formats", "06 GradScaler", "points"]
    assert row[1:4] == ["8", "15", "23"]


FORMULA = re.compile(r"(?:^|[;\t])[\s\"]*[=+\-@＝＋－＠](?!$)")


@pytest.mark.parametrize("layout", ["plain", "canvas", "moodle"])
def test_no_cell_is_a_formula_or_two_cells_or_two_lines(written, layout):
    wild = mark("clip_step", State.ERROR, message="=HYPERLINK(1)\n;=2")
    results = [graded(name, wild, name=name, notes=(name,)) for name in HOSTILE_NAMES]
    rows = written(results, layout)
    assert len(rows) >= len(HOSTILE_NAMES), "nobody was lost"
    for cell in (cell for row in rows for cell in row):
        assert not FORMULA.search(cell), cell
        assert not CONTROLS.search(cell), cell
        assert "\n" not in cell
        assert len(cell) <= 1001


def test_canvas_reads_its_file(written):
    """What `lib/gradebook_importer.rb` of Canvas asks of the first two rows, and of the names."""
    skipped = mark("why_skipped", State.SKIPPED)
    results = [
        graded("Points Possible", mark("clip_step", State.WRONG)),
        graded("doejane", skipped, name="doejane_77_900_sheet.ipynb"),
        graded("", name="nobody.ipynb"),
    ]
    head, worth, *rows = written(results, "canvas")
    assert head[:5] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    assignments = head[5:-1]
    assert assignments == [f"grad_scaler: {name}" for name in EXERCISES]
    ignored = re.compile("(Current|Final|Override) (Score|Points|Grade|Status)")
    assert [name for name in head if ignored.search(name)] == ["Final Points"]
    assert not any(re.search(r"\s\(\d+\)$", name) for name in assignments), "read as a number"
    assert "Points Possible" in worth[0]
    assert worth[5:-1] == [str(info.points) for info in LESSON.exercises]
    assert not any("Points Possible" in row[0] for row in rows), (
        "it would set what things are worth"
    )
    jane = dict(zip(head, rows[0], strict=True))
    assert (jane["ID"], jane["SIS Login ID"]) == ("77", "doejane")
    assert jane["grad_scaler: why_skipped"] == "EX"
    assert len(rows) == 2, "a notebook of nobody is left out"
    assert any("nobody.ipynb" in note for note in written.notes)


def test_moodle_gets_identifier_grade_and_feedback(written):
    results = [wrong("ada", "step-forgotten"), graded("grace", lesson=FORMATS)]
    head, ada, grace = written(results, "moodle")
    assert head[0] == "Username"
    ada = dict(zip(head, ada, strict=True))
    assert ada["grad_scaler: clip_step"] == "0"
    assert SENTENCES["step-forgotten"] in ada["grad_scaler: clip_step (feedback)"]
    assert ada["grad_scaler: OwnScaler (feedback)"] == "passed"
    assert dict(zip(head, grace, strict=True))["grad_scaler: clip_step"] == "-"
    assert (ada["Total"], grace[-1]) == ("15", "8")
    head, *_ = written([graded("ada@uni.example"), graded("grace@uni.example")], "moodle")
    assert head[0] == "Email address"
    head, row = written([wrong("ada", "step-forgotten")], "moodle", per="sheet")
    assert "clip_step: wrong: Your optimizer" in row[head.index("grad_scaler (feedback)")]


def test_the_instructor_is_told_what_an_lms_will_not_find(written):
    written([graded("Ada Lovelace"), graded("=1"), graded("a\nb"), graded("a b")], "moodle")
    notes = "\n".join(written.notes)
    assert "3 names are not user names of Moodle" in notes
    assert "got an apostrophe" in notes
    assert "several learners read 'a b'" in notes


# ---- a class's file is brought up to date -------------------------------------------------------


@pytest.fixture
def kept(tmp_path):
    """Writes into one file, again and again, and reads it by learner."""

    def write(results, layout="plain", **more) -> dict[str, dict[str, str]]:
        write.notes = report.write_csv(results, write.file, layout, **more)
        content = write.file.read_text(encoding="utf-8-sig")
        head, *rows = csv.reader(io.StringIO(content, newline=""))
        return {row[0]: dict(zip(head, row, strict=True)) for row in rows}

    write.file = tmp_path / "marks.csv"
    return write


def test_one_learner_graded_again_leaves_the_others_alone(kept):
    before = kept([wrong("Ada", "step-forgotten"), graded("Ben"), graded("Cem", lesson=FORMATS)])
    assert before["Ada"]["points"] == "15"
    after = kept([graded("Ada")])
    assert after == before | {"Ada": before["Ada"] | {"clip_step": "2", "points": "17"}}
    (note,) = kept.notes
    assert note.endswith(
        "marks.csv: 1 learner updated, and 2 whom this batch doesn't have kept as they were"
    )
    whole = kept([graded("Ada"), graded("Ben"), graded("Cem", lesson=FORMATS)])
    assert whole == after
    assert kept.notes == ()


def test_another_sheet_is_a_column_more_and_totals_are_added_up_anew(kept):
    kept([wrong("Ada", "step-forgotten", notes=("a note",)), graded("Ben")])
    ada, ben = kept([graded("Ada", lesson=FORMATS)]).values()
    assert (ada["clip_step"], ada["decode_bits"]) == ("0", "2")
    assert (ada["points"], ada["of"]) == ("23", "25")
    assert (ben["points"], ben["of"], ben["decode_bits"]) == ("17", "25", "")
    assert ada["notes"] == "a note"
    assert ada["notebooks"].count("Ada") == 2


def test_columns_of_the_instructors_own_and_what_excel_makes_of_the_file_stay(kept):
    kept([graded("Zoë"), graded("Ben")])
    text = kept.file.read_text(encoding="utf-8-sig").replace(",", ";")
    lines = text.splitlines()
    lines = [f"{lines[0]};late days", *(f"{each};{2 * n}" for n, each in enumerate(lines[1:]))]
    kept.file.write_bytes("\r\n".join(lines).encode("cp1252"))
    found = kept([wrong("Zoë", "step-forgotten")])
    assert {name: row["late days"] for name, row in found.items()} == {"Ben": "0", "Zoë": "2"}
    assert (found["Zoë"]["points"], found["Ben"]["points"]) == ("15", "17")


@pytest.mark.parametrize("layout", ["canvas", "moodle"])
def test_the_files_of_gradebooks_are_brought_up_to_date_too(kept, layout):
    jane = "dl/doejane_77_900_sheet.ipynb"
    kept([wrong("doejane", "step-forgotten", name=jane), graded("ben")], layout)
    found = kept([graded("doejane", name=jane), graded("cem", lesson=FORMATS)], layout)
    assert len(found) == {"canvas": 4, "moodle": 3}[layout]
    assert found["doejane"]["grad_scaler: clip_step"] == "2"
    total = {"canvas": "Final Points", "moodle": "Total"}[layout]
    assert [found[name][total] for name in ("doejane", "ben", "cem")] == ["17", "17", "8"]
    if layout == "canvas":
        worth = found["    Points Possible"]
        assert worth["grad_scaler: clip_step"] == "2"
        assert worth["number_formats: decode_bits"] == "2"
    else:
        assert found["doejane"]["grad_scaler: clip_step (feedback)"] == "passed"
        assert found["ben"]["grad_scaler: OwnScaler (feedback)"] == "passed"


def test_a_table_of_another_kind_is_not_overwritten(kept):
    kept([graded("Ada")])
    for more in ({"layout": "canvas"}, {"per": "sheet"}):
        with pytest.raises(report.ReportError, match="holds another table, which would be lost"):
            kept([graded("Ada")], **more)
    kept.file.write_text("shopping\nmilk\n")
    with pytest.raises(report.ReportError, match="name another file with --csv"):
        kept([graded("Ada")])
    assert kept.file.read_text() == "shopping\nmilk\n"


# ---- the list of a class ------------------------------------------------------------------------


LISTS = {
    "names": "Ada Lovelace\n# a remark\n- Hopper, Grace\n\nZoë Ünal\n",
    "names and numbers": "Ada Lovelace, 11\nGrace Hopper, 12\nZoë Ünal, 13\n",
    "a table": 'Name;ID;Email\nAda Lovelace;11;ada@x.org\n"Hopper, Grace";12;g@x.org\n'
    "Zoë Ünal;13;z@x.org\n",
    "first and last": "First name,Last name,ID number\nAda,Lovelace,11\nGrace,Hopper,12\n"
    "Zoë,Ünal,13\n",
    "Canvas": "Student,ID,SIS User ID,SIS Login ID,Section,HW (99)\n"
    "    Points Possible,,,,,10\n"
    '"Lovelace, Ada",11,s11,alove1,A,\n"Hopper, Grace",12,s12,ghop2,A,\n"Ünal, Zoë",13,s13,z,B,\n'
    '"Student, Test",99,,x,,\n',
}


@pytest.mark.parametrize("text", LISTS.values(), ids=LISTS.keys())
@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252", "utf-16"])
def test_a_list_says_who_is_missing(tmp_path, text, encoding):
    file = tmp_path / "roster.csv"
    file.write_bytes(text.encode(encoding))
    people = report.read_class_list(file)
    assert len(people) == 3
    results = [graded("hoppergrace"), graded("Zoë Ünal"), graded("a stranger")]
    learners = report.roster(results, people)
    assert [each.name for each in learners if each.missing] == [people[0].name]
    assert [each.name for each in learners if not each.listed] == ["a stranger"]
    numbers = {each.name: each.listed.id for each in learners if each.listed}
    if encoding and "11" in text:
        assert numbers == {people[0].name: "11", "hoppergrace": "12", "Zoë Ünal": "13"}


def test_two_people_whom_a_name_fits_are_neither(tmp_path):
    file = tmp_path / "roster.txt"
    file.write_text("name,id,login\nJane Doe,1,jd1\nDoe Jane,2,jd2\n")
    people = report.read_class_list(file)
    learners = report.roster([graded("janedoe"), graded("jd2")], people)
    assert {each.name: each.listed and each.listed.id for each in learners} == {
        "janedoe": None,
        "jd2": "2",
        "Jane Doe": "1",
    }


def test_a_list_fills_in_what_a_gradebook_needs(kept, tmp_path):
    file = tmp_path / "canvas.csv"
    file.write_text(LISTS["Canvas"])
    people = report.read_class_list(file)
    results = [graded("lovelaceada", name="x/lovelaceada_11_4_s.ipynb"), graded("ghop2")]
    found = kept(results, "canvas", people=people)
    grace, zoe = found["Hopper, Grace"], found["Ünal, Zoë"]
    assert (grace["ID"], grace["SIS User ID"], grace["SIS Login ID"]) == ("12", "s12", "ghop2")
    assert (zoe["ID"], zoe["Section"], zoe["grad_scaler: clip_step"]) == ("13", "B", "")
    assert found["Lovelace, Ada"]["grad_scaler: clip_step"] == "2"
    again = kept([wrong("lovelaceada", "step-forgotten")], "canvas")
    assert again["lovelaceada"]["grad_scaler: clip_step"] == "0"
    assert len(again) == len(found), "Canvas's two names for her are one learner's"
    kept.file.unlink()
    moodle = kept(results, "moodle", people=people)
    assert moodle["z"]["grad_scaler: clip_step"] == "-"
    kept.file.unlink()
    assert kept(results, people=people)["Ünal, Zoë"]["look at"] == "nothing was handed in"


@pytest.mark.parametrize("content", [b"", b"\n\n", b"# nobody\n", b"Student,ID\n,\n"])
def test_a_list_of_nobody_is_one_line(tmp_path, content):
    file = tmp_path / "roster.txt"
    file.write_bytes(content)
    with pytest.raises(report.ClassListError, match="names nobody"):
        report.read_class_list(file)
    with pytest.raises(report.ClassListError, match="cannot be read"):
        report.read_class_list(tmp_path / "none.csv")


# ---- what was set -------------------------------------------------------------------------------


def test_only_what_was_set_counts(kept, tmp_path):
    results = [each.only({"clip_step", "OwnScaler"}) for each in (graded("Ada"), graded("Ben"))]
    found = kept(results)
    assert {(row["points"], row["of"]) for row in found.values()} == {("6", "6")}
    index = report.write_pages(results, tmp_path / "site")
    page = index.with_name("class.html").read_text()
    assert "of 6</small>" in page
    assert "<dt>Full marks</dt><dd>2</dd>" in page
    (other,) = (graded("Ada", lesson=FORMATS).only({"clip_step"}),)
    assert (other.marks, other.notes) == ((), ("none of its exercises was set",))
    words = in_words(report.class_table([*results, other]))
    assert words.count("06 GradScaler") == 2
    assert "01 Number formats" not in words


def test_notebooks_of_one_sheet_in_two_folders_may_be_two_learners():
    names = (
        "group1/ada/06_grad_scaler_exercises.ipynb",
        "group1/ben/06_grad_scaler_exercises.ipynb",
    )
    (learner,) = report.roster([graded("group1", name=name) for name in names])
    assert learner.notes == ()
    (doubt,) = learner.problems
    assert "2 notebooks of 06_grad_scaler were handed in" in doubt
    assert all(name in doubt for name in names)


def test_an_older_file_stays_if_the_new_one_cannot_be_written(tmp_path):
    with pytest.raises(report.ReportError, match="choose another place with --csv") as raised:
        report.write_csv([graded()], tmp_path / "gone" / "marks.csv")
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


# ---- pages --------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a browser would find: tags, attributes, text; every tag closed in its order."""

    VOID = ("meta", "br")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.outside_details = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data
            self.outside_details += data if "details" not in self.open else ""

    def all(self, name: str) -> list[str]:
        return [attrs[name] or "" for _, attrs in self.tags if name in attrs]


TAGS = {
    *("html", "head", "meta", "title", "style", "body", "main", "footer", "section", "article"),
    *("h1", "h2", "h3", "p", "ul", "li", "dl", "dt", "dd", "div", "span", "small", "strong", "br"),
    *("i", "a", "bdi", "code", "pre", "table", "caption", "thead", "tbody", "tr", "th", "td"),
    *("details", "summary"),
}
ATTRIBUTES = {
    *("lang", "charset", "name", "content", "http-equiv", "id", "class", "style", "href", "role"),
    *("scope", "tabindex", "aria-label", "aria-labelledby", "aria-hidden"),
}


def checked(path) -> Page:
    """A page that holds nothing but what the templates write."""
    html = path.read_text(encoding="utf-8")
    assert not CONTROLS.search(html)
    page = Page(html)
    assert {tag for tag, _ in page.tags} <= TAGS
    assert {name for _, attrs in page.tags for name in attrs} <= ATTRIBUTES
    assert len(page.all("id")) == len(set(page.all("id")))
    assert any("default-src 'none'" in content for content in page.all("content"))
    for style in page.all("style"):
        assert re.fullmatch(r"width:\d+(\.\d+)?%", style)
    for href in page.all("href"):
        local = re.fullmatch(r"(learners/[a-z0-9-]+|index|class)\.html", href)
        assert local or href.startswith("http://localhost:8888/lab/tree/"), href
    return page


@pytest.fixture
def site(tmp_path):
    """Writes pages, and gives each of them parsed, by its file's name."""

    def write(results, about=None) -> dict[str, Page]:
        index = report.write_pages(results, tmp_path / "site", about)
        assert index == tmp_path / "site" / "index.html"
        files = index.parent.rglob("*.html")
        return {str(file.relative_to(index.parent)): checked(file) for file in files}

    return write


def test_a_learner_reads_marks_mistakes_and_their_own_answer(site):
    result = wrong(
        "Ada", "clipped-before-unscale", gave_up=("clip_step",), notes=("cell 3 was changed",)
    )
    about = {"date": "2026-11-23", "course": "0.1.0", "torch": "2.13.0", "seed": "topsecret"}
    found = site([result, graded("Ada", lesson=FORMATS), graded("Grace Hopper")], about)
    ada = found["learners/ada.html"]
    for expected in (
        "23 of 25 points",
        "06 GradScaler",
        "2. Clip in the right order",
        "✘ wrong · 0 of 2 points",
        "You clipped scaled gradients.",
        "max_norm 0.1: returned 'Ada'",
        'for_ada = "Ada wrote this"',
        "You opened the solution before your answer passed.",
        "cell 3 was changed",
        "Graded on 2026-11-23 by amp-lessons 0.1.0 with PyTorch 2.13.0.",
    ):
        assert expected in ada.text
    assert "Grace" not in ada.text, "a page that is handed out names nobody else"
    assert "topsecret" not in ada.text
    assert "topsecret" in found["index.html"].text
    sheet = "http://localhost:8888/lab/tree/exercises/06_grad_scaler_exercises.ipynb"
    assert f"{sheet}#2.-Clip-in-the-right-order" in ada.all("href")


def test_a_learner_reads_why_a_person_has_to_look(site):
    page = site([UNREADABLE])["learners/eve.html"]
    assert "Your instructor should look at this notebook" in page.text
    assert "this file is not JSON" in page.text
    assert "submitted/" not in page.text, "the instructor's folders are nobody's business"


def test_hostile_names_and_answers_are_text_and_nothing_else(site):
    """`checked` refuses tags, attributes and characters that no template writes."""
    wild = mark("clip_step", State.WRONG, "<b>slug</b>", message=HOSTILE_ANSWER)
    results = [
        graded(
            name,
            wild,
            name=f"{name}.ipynb",
            problems=(HOSTILE_ANSWER,),
            notes=(name,),
            answers={"clip_step": HOSTILE_ANSWER, name: name},
        )
        for name in HOSTILE_NAMES
    ]
    found = site(results, {"date": "<script>", "course": "\x1b", "sandbox": "</p>", "x<": "</ul>"})
    assert len(found) == len(HOSTILE_NAMES) + 2
    eve = next(page for name, page in found.items() if "script-alert" in name)
    assert "<script>alert(1)</script>" in eve.text
    assert "⟨U+202E⟩" in eve.text, "what turns a line around is spelt out"
    assert "⟨U+0000⟩" in eve.text
    assert "49" not in next(p for n, p in found.items() if "7-7" in n).text.split("of")[0]


def test_a_very_long_answer_is_cut_and_says_so(site):
    result = graded("Ada", mark("clip_step", State.WRONG), answers={"clip_step": "x = 1\n" * 10**6})
    page = site([result])["learners/ada.html"]
    assert "5,979,999 more characters" in page.text
    assert len(page.text) < 30_000


def test_file_names_are_safe_and_different_everywhere():
    names = pages.file_names([*HOSTILE_NAMES, "", "…", "lpt1", "index"])
    assert len({name.lower() for name in names}) == len(names)
    for name in names:
        assert re.fullmatch(r"[a-z0-9-]{1,64}\.html", name)
        assert name.split(".")[0] not in ("con", "nul", "lpt1", "index")
    assert pages.file_names(["Ada Lovelace"]) == ["ada-lovelace.html"]


def test_a_bar_is_as_long_as_its_share(tmp_path):
    """One of twelve is 8 %, also where nothing is more frequent."""
    results = [wrong("Ada", "step-forgotten"), *(graded(f"L{n}") for n in range(11))]
    page = report.write_pages(results, tmp_path / "site").with_name("class.html").read_text()
    section = page.partition("Which misconceptions")[2].partition("</section>")[0]
    assert "(8 %)" in section
    assert re.findall(r"width:([\d.]+)%", section) == ["8.33"]
    points = page.partition('<section aria-labelledby="points">')[2]
    widths = [float(each) for each in re.findall(r"width:([\d.]+)%", points)]
    assert sum(widths) == pytest.approx(100, abs=0.1)


def test_who_is_missing_is_on_the_index_and_has_no_page(tmp_path):
    people = [report.Listed("Ada"), report.Listed("Eva Missing")]
    index = report.write_pages([graded("Ada")], tmp_path / "site", people=people)
    text = " ".join(re.sub(r"<[^>]*>", " ", index.read_text()).split())
    assert "1 learner, 1 notebook, and 1 of whom nothing came" in text
    assert "Eva Missing nothing was handed in 0/17" in text
    assert [file.name for file in (tmp_path / "site/learners").iterdir()] == ["ada.html"]
    assert "<dt>Missing</dt><dd>1</dd>" in index.with_name("class.html").read_text()


def test_an_empty_class_has_pages(site):
    found = site([])
    assert "No notebook has marks." in found["class.html"].text
    assert set(found) == {"class.html", "index.html"}


def test_pages_of_somebody_else_are_not_overwritten(tmp_path):
    page = tmp_path / "index.html"
    page.write_text("<h1>My site</h1>")
    with pytest.raises(report.ReportError, match="not a page of this grader"):
        report.write_pages([graded()], tmp_path)
    assert page.read_text() == "<h1>My site</h1>"
    page.unlink()
    for _ in range(2):  # its own pages are replaced
        report.write_pages([graded()], tmp_path)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path):
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(report.ReportError, match="choose another place with --html") as raised:
        report.write_pages([graded()], file)
    assert "\n" not in str(raised.value)


# ---- the class page -----------------------------------------------------------------------------


def test_the_class_page_counts_exercises_and_misconceptions(site):
    results = [
        wrong("Ada", "step-forgotten"),
        wrong("Grace", "step-forgotten"),
        wrong("Alan", "clipped-before-unscale"),
        wrong("Edsger", "wrong-value"),
        graded("Barbara", mark("clip_step", State.ERROR, message="NameError: name 'x' is")),
        graded("Donald", mark("clip_step", State.ERROR, message="DonaldsError: mine")),
        graded("Ken", mark("clip_step", State.NOT_ATTEMPTED)),
        graded("Radia", problems=("a check is missing",)),
    ]
    learners = report.roster(results)
    first = class_counts.exercise_counts(learners)[0]
    assert first.column.exercise == "clip_step"
    assert [first.states[state] for state in State] == [1, 4, 2, 1, 0]
    found = class_counts.misconceptions(learners)
    assert [(each.slug, each.learners, each.of) for each in found] == [
        ("step-forgotten", 2, 8),
        ("clipped-before-unscale", 1, 8),
    ]
    page = site(results)["class.html"]
    for expected in (
        "Clip in the right order",
        "2 (25 %)",
        "In 1 more wrong answer the checks recognised no mistake.",
        "Errors that ended answers: NameError (1), others (1).",
        "2 answers worth showing",
        "8 learners with marks: from 15 to 17 of 17 points, the median is 15.",
    ):
        assert expected in " ".join(page.text.split())
    assert "a check is missing" in page.text


def test_each_mistake_of_a_pair_counts_with_its_own_sentence():
    exercise = SimpleNamespace(diagnoses=SENTENCES)
    pair = "step-forgotten + update-forgotten"
    findings = {
        pair: Finding(pair),
        "step-forgotten": Finding("step-forgotten", scope="large losses", of=2),
        "update-forgotten": Finding("update-forgotten", of=3),
    }
    for slugs, finding in findings.items():
        reported = Exercise._message(exercise, finding)  # as a check says it
        one = mark("clip_step", State.WRONG, slugs, message=reported)
        expected = {slug: SENTENCES[slug] for slug in slugs.split(" + ")}
        assert class_counts.named_mistakes(one) == expected


def test_the_answers_shown_name_nobody(site):
    people = (
        "Ada Lovelace",
        "Grace Hopper",
        "Norm Scale",
        "smithjohn_12345_678",
        "eve@uni.example",
    )
    results = [wrong(name, slug) for name, slug in zip(people, [*SENTENCES] * 2, strict=False)]
    results.append(UNREADABLE)
    page = site(results)["class.html"]
    shown = page.outside_details.lower()
    assert "def clip_step(scaler, optimizer, loss, max_norm):" in shown
    assert "clip_grad_norm_(parameters, max_norm)" in shown, "what the course says stays"
    for word in (
        "ada",
        "lovelace",
        "grace",
        "hopper",
        "smithjohn",
        "12345",
        "uni.example",
        "wrote",
    ):
        assert not re.search(rf"\b{word}\b", shown), word
    assert "for_" not in shown.split("answers worth showing")[1].split("points")[0].replace(
        "for_name", ""
    )
    assert "open" not in {name for tag, attrs in page.tags if tag == "details" for name in attrs}


def test_the_most_frequent_mistakes_give_the_answers_and_the_shortest_is_shown():
    long = wrong("Ada", "step-forgotten")
    short = graded(
        "Grace",
        mark("clip_step", State.WRONG, "step-forgotten"),
        answers={"clip_step": "def clip_step(scaler, optimizer, loss, max_norm):\n    return 1\n"},
    )
    learners = report.roster([long, short, wrong("Alan", "update-forgotten")])
    found = class_counts.answers_to_show(learners, class_counts.misconceptions(learners))
    assert [each.misconception.slug for each in found] == ["step-forgotten", "update-forgotten"]
    assert found[0].code.endswith("return 1")


def test_a_mistake_without_an_answer_to_show_is_shown_by_its_sentence():
    results = [
        graded(
            "Ada",
            mark("clip_step", State.WRONG, "step-forgotten"),
            answers={"clip_step": "def clip_step(:"},
        )
    ]
    learners = report.roster(results)
    (shown,) = class_counts.answers_to_show(learners, class_counts.misconceptions(learners))
    assert (shown.code, shown.seen) == ("", ())
    assert shown.misconception.sentence == SENTENCES["step-forgotten"]


def test_the_page_of_500_learners_stays_below_a_megabyte(tmp_path):
    index = report.write_pages(many(500), tmp_path)
    size = (index.parent / "class.html").stat().st_size
    assert 50_000 < size < 10**6
    page = checked(index.parent / "class.html")
    assert "100 notebooks, by name" in page.text
    assert sum(tag == "article" for tag, _ in page.tags) == 3
    assert len(list((tmp_path / "learners").iterdir())) == 500


def test_the_bars_of_points_hold_everybody():
    for count in (1, 7, 50):
        points = class_counts.points(report.roster(many(count)))
        assert sum(bar.learners for bar in points.bars) == count
        assert (points.bars[0].least, points.bars[-1].most) == (0, LESSON.points)
        steps = zip(points.bars, points.bars[1:], strict=False)
        assert all(one.most + 1 == other.least for one, other in steps)


# ---- anonymous answers --------------------------------------------------------------------------

CLASS = ("Ada Lovelace", "Max Norman", "Li Wei", "smithjohn_12345_678", "Ada")


def veil(author: str) -> Veil:
    names = Names.of([*CLASS, author])
    return Veil(names, Names.of([author]), anonymous.vocabulary("grad_scaler"))


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("x = 1  # Ada\n\n\ny = 2", "x = 1\ny = 2"),
        ('def f():\n    """By Ada."""\n    return 1', "def f():\n    return 1"),
        ('def f():\n    """By Ada."""', "def f():\n    ..."),
        ("group['params']", "group['params']"),
        ("x = 'Zoe was here'", 'x = "…"'),
        ("x = b'Zoe was here'", 'x = b"..."'),
        ("x = f'Zoe {scale} here'", 'x = f"…"'),
        ("x = '''Zoe\nwas\nhere''' + 1", 'x = "…" + 1'),
        ("ada_scale = loveLovelace = 2", "name_1 = name_2 = 2"),
        ("ada = 1\nprint(ada)", "name_1 = 1\nprint(name_1)"),
        ("max_norm = max(scale, 1)", "max_norm = max(scale, 1)"),
        ("li, wei = 1, 2", "name_1, name_2 = 1, 2"),
        ("number = 20231234", "number = ..."),
        ("bits = 0x7C00 + 65504", "bits = 0x7C00 + 65504"),
        ("x = 'ü' ; ada = 'ö'", 'x = "…" ; name_1 = "…"'),
        ("max_li = 'scale'", "name_1 = 'scale'"),
        ("x = '\\d'", "x = '\\d'"),
        ("y = scale@loss.half()", "y = scale@loss.half()"),
        ("x = 'scale@loss.half'", 'x = "…"'),
        ("def f(:", None),
        ("", None),
        ("%matplotlib inline", None),
        ("x = (" * 300 + ")" * 300, None),
        ("x = 1\n" * 5000, None),
    ],
)
def test_an_answer_without_its_author(source, shown):
    assert veil("smithjohn_12345_678").code(source) == shown


def test_a_part_of_the_authors_name_is_found_inside_a_word():
    for source in ("john_scale = 1", "smithjohns = 1"):
        assert veil("smithjohn_12345_678").code(source) == "name_1 = 1"


def test_an_author_called_like_a_word_of_the_course_is_not_spelt_out():
    shown = veil("Norm Scale").code("my_norm_scale = norm * scale + max_norm\nx = 'norm scale'")
    assert shown == 'name_1 = norm * scale + max_norm\nx = "…"'


def test_what_was_seen_without_names():
    reported = veil("Ada").words("returned 'Zoe'; don't ask lovelace@x.example or Ada")
    assert reported == "returned '…'; don't ask … or …"
    kept = "max_norm 0.1: returned 'scale'; expected 1.5, so don't"
    assert veil("Ada").words(kept) == kept
    raised = "clip_step(3) raised ValueError: I am Zoe; expected a TypeError"
    assert veil("Ada").words(raised) == "clip_step(3) raised ValueError; expected a TypeError"


def test_reports_need_no_torch(tmp_path):
    code = (
        "import sys; from amp_lessons.classroom.grading import report; "
        "report.write_pages([], __import__('pathlib').Path(sys.argv[1])); "
        "print('torch' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "False"
