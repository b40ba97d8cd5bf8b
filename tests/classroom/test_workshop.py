"""Workshop plans: complete, in step with the course, and refused in one line where they aren't."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from posixpath import normpath
from urllib.parse import unquote

import pytest
from headings import anchors
from typer.testing import CliRunner

from amp_lessons.app.cli import app
from amp_lessons.classroom.workshop import page, reading, sections, sentences
from amp_lessons.classroom.workshop.model import WorkshopPlan, clock
from amp_lessons.classroom.workshop.sentences import PlanError
from amp_lessons.core import catalogue
from amp_lessons.quiz import bank

ROOT = Path(__file__).resolve().parents[2]
PLANS = [reading.load(name) for name in reading.NAMES]
EACH = pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)


# ---- the plans that we have ----------------------------------------------------------------------


@EACH
def test_a_plan_fills_its_hours_without_gaps(plan: WorkshopPlan):
    slots = plan.slots(9 * 60)
    assert [slot.start for slot in slots[1:]] == [slot.end for slot in slots[:-1]]
    assert slots[0].start == 9 * 60
    assert slots[-1].end == 9 * 60 + 60 * plan.hours


@EACH
def test_it_opens_the_lessons_of_the_path_for_that_time(plan: WorkshopPlan):
    of_path = {path.title: {lesson.slug for lesson in path.lessons} for path in catalogue.PATHS}
    opened = {lesson.slug for lesson in plan.lessons}
    if plan.name == "4h":  # no path has its lessons: it lies between the two
        assert of_path["3 hours"] < opened < of_path["1 day"]
    else:
        assert opened == of_path[{"2h": "3 hours", "8h": "1 day"}[plan.name]]


@EACH
def test_nobody_sits_longer_than_ninety_minutes(plan: WorkshopPlan):
    sitting = 0
    for block in plan.blocks:
        sitting = 0 if block.kind == "break" else sitting + block.length
        assert sitting <= 90, block.id


@EACH
def test_what_is_late_can_be_made_up_before_the_next_break(plan: WorkshopPlan):
    saved = 0
    for block in plan.blocks:
        if block.kind == "break":
            assert saved >= 10, block.id
            saved = 0
        saved += block.saves
    assert saved >= 10


@EACH
def test_no_vote_and_no_exercise_comes_twice(plan: WorkshopPlan):
    asked = (*plan.polls, *plan.exercises)
    assert len(set(asked)) == len(asked) > 10


def test_the_minutes_of_an_exercise_are_the_catalogues(monkeypatch: pytest.MonkeyPatch):
    (step,) = [s for block in PLANS[0].blocks for s in block.steps if s.exercise == "clip_step"]
    assert step.length == catalogue.exercise_info("clip_step").minutes
    longer = catalogue.ExerciseInfo("clip_step", "Longer", 2, 17, core=True)
    monkeypatch.setattr(catalogue, "exercise_info", lambda name: longer)
    assert step.length == 17


def test_a_longer_exercise_breaks_the_plan(monkeypatch: pytest.MonkeyPatch):
    """Minutes are nowhere copied, so a plan notices when the catalogue changes."""
    true = catalogue.exercise_info
    longer = catalogue.ExerciseInfo("gram", "Longer", 2, 15, core=True)
    monkeypatch.setattr(catalogue, "exercise_info", lambda n: longer if n == "gram" else true(n))
    with pytest.raises(PlanError, match=r"4h\.toml: the blocks take 245 minutes"):
        reading.read(reading.FOLDER)


def test_plans_are_found_by_their_hours():
    assert reading.load("4") is reading.load("4h")
    with pytest.raises(PlanError, match="no plan is called '3h'; there are 2h, 4h, 8h"):
        reading.load("3h")


# ---- plans that contradict the course ------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in ("plans", "blocks"):
        shutil.copytree(reading.FOLDER / part, tmp_path / part)
    shutil.copy(reading.FOLDER / "around.toml", tmp_path)
    return tmp_path


SCALER, TWO = "blocks/grad_scaler.toml", "plans/2h.toml"
FAULTS = {
    "lesson": (SCALER, '"grad_scaler"\ngoal', '"gradscaler"\ngoal', "'grad_scaler'"),
    "heading": (SCALER, '"Four calls"', '"Four call"', "no section of lesson 06.*'Four calls'"),
    "poll": (SCALER, '.one_inf"\nsay', '.one_imf"\nsay', "no question is called.*one_inf"),
    "poll of another section": (
        SCALER,
        '"grad_scaler.one_inf"\nsay',
        '"grad_scaler.fixed_scales"\nsay',
        "asks grad_scaler.one_inf, and not grad_scaler.fixed_scales",
    ),
    "poll with an order": (
        TWO,
        '"amp_in_20_minutes.loss_stands_still"',
        '"grad_scaler.order_with_clipping"',
        "can't be a poll",
    ),
    "exercise": (SCALER, 'e = "clip_step"\nsay', 'e = "clip_stop"\nsay', "clip_step"),
    "more of another lesson": (SCALER, '["stop_sinking"]', '["gram"]', "of autocast_ops, and not"),
    "mistake": (SCALER, '"first-group-only"', '"first-group"', "did you mean 'first-group-only'"),
    "mistake with a blank": (
        "blocks/autocast_ops.toml",
        'exercise = "gram"\nmistake = "one-device"',
        'exercise = "fix_mismatches"\nmistake = "half-leaks"',
        "fix_mismatches, which the block doesn't set",
    ),
    "wrong answer": (SCALER, '"The two scales differ"', '"They differ"', "no wrong answer to"),
    "right answer": (SCALER, "answer = 16", "answer = 20", "no wrong answer to"),
    "stuck elsewhere": (
        SCALER,
        'poll = "grad_scaler.one_inf"\nanswer',
        'poll = "grad_scaler.disabled_nan"\nanswer',
        "which the block doesn't ask",
    ),
    "minutes": (TWO, "minutes = 8", "minutes = 9", "121 minutes, and 2 hours have 120"),
    "needs": (TWO, "amp_from_scratch = ", "# ", "needs amp_from_scratch; show it before, or tell"),
    "told in vain": (TWO, "amp_from", 'memory = "x"\namp_from', "need memory"),
    "told of nothing": (TWO, "amp_from_scratch = ", "from_scratch = ", "no lesson is called"),
    "told twice": (
        "plans/8h.toml",
        'use = "which_ops"',
        'use = "which_ops"\ntold = { amp_from_scratch = "x" }',
        "which the room knows already",
    ),
    "shared block": (TWO, 'use = "flat_curve"', 'use = "flat_curves"', "'flat_curve'"),
    "shared step": (TWO, '["which", "browser"]', '["which", "browse"]', "'browser'"),
    "field beside use": (TWO, 'use = "flat_curve"', 'use = "flat_curve"\nkind = "talk"', "'kind'"),
    "unknown field": (TWO, "saves = 3", "saves = 3\nsave = 3", "no field that we know"),
    "no goal": (TWO, 'goal = "Help those', '# "Help those', "goal: is missing"),
    "break with a lesson": (TWO, "minutes = 8", 'minutes = 8\nlesson = "memory"', "no lesson"),
    "break without minutes": (TWO, "minutes = 8", "", "a break has minutes"),
    "late without minutes": (TWO, "saves = 3", "", "`late` and `saves` come together"),
    "saves too much": (TWO, "saves = 3", "saves = 7", "saves more minutes than it takes"),
    "a block twice": (TWO, 'use = "clip_right"', 'use = "first_exercise"', "comes twice"),
    "behind": (TWO, 'behind = ["which_ops"]', 'behind = ["which_op"]', "'which_ops'"),
    "not TOML": (TWO, 'use = "flat_curve"', "use = flat_curve", "not valid TOML"),
    "a shared block twice": (SCALER, 'id = "log_skips"', 'id = "scaler_calls"', "two blocks"),
    "wrong kind": (SCALER, 'kind = "exercise"', 'kind = "poll"', "needs a step of kind 'poll'"),
    "exercise with minutes": (SCALER, 'exercise = "clip_step"\nsay', 'exercise = "clip_step"\n'
                              "minutes = 9\nsay", "from the catalogue"),
    "two things at once": (SCALER, 'exercise = "clip_step"\nsay', 'exercise = "clip_step"\n'
                           'title = "x"\nsay', "one of heading, exercise and title"),
    "two steps with one id": (SCALER, 'id = "one_inf"', 'id = "four_calls"', "the same id"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_plan_that_contradicts_the_course_is_refused_in_one_line(folder: Path, fault: str):
    file, old, new, output = FAULTS[fault]
    path = folder / file
    text = path.read_text(encoding="utf-8")
    assert old in text, "this test is out of date"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(PlanError, match=output) as caught:
        reading.read(folder)
    assert "\n" not in str(caught.value)
    assert path.name in str(caught.value)


def test_a_stretch_in_which_nothing_can_be_saved_is_refused(folder: Path):
    path = folder / "plans/2h.toml"
    text = re.sub(r"^late = .*\nsaves = .*\n", "", path.read_text(encoding="utf-8"), flags=re.M)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PlanError, match=r"2h\.toml, block 'welcome': say what to do if you are"):
        reading.read(folder)


def test_a_mistake_whose_sentence_has_a_blank_cannot_be_quoted():
    stuck = page.Stuck(exercise="fix_mismatches", mistake="half-leaks", say="x")
    with pytest.raises(PlanError, match="has a blank"):
        sentences.sentence(stuck)


def test_a_missing_file_is_one_line(folder: Path):
    (folder / "plans/8h.toml").unlink()
    with pytest.raises(PlanError, match=r"8h\.toml can't be read"):
        reading.read(folder)


def test_the_checklists_name_plans_and_lessons_that_exist(folder: Path):
    path = folder / "around.toml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text + '\n[[question]]\nask = "a"\nanswer = "b"\nplans = ["3h"]\n')
    with pytest.raises(PlanError, match="no plan is called '3h'"):
        reading.read_around(folder)
    with pytest.raises(PlanError, match="names the lesson 'gone'"):
        page.CourseLinks().expand("see [this](lesson:gone)")


# ---- which cells must run first ------------------------------------------------------------------


def test_skipped_sections_that_a_section_needs_are_named():
    lesson = catalogue.lesson_called("grad_scaler")
    fixed, high = "Which number should we multiply by?", "A start that is much too high"
    forget = "If you forget zero_grad"
    assert sections.needed_first(lesson, ["Four calls", forget]) == {forget: (fixed, high)}
    assert sections.needed_first(lesson, [fixed, forget]) == {forget: (high,)}
    assert sections.needed_first(lesson, [fixed, high, forget]) == {}


def test_a_section_that_is_needed_twice_is_named_once():
    lesson = catalogue.lesson_called("grad_scaler")
    found = sections.needed_first(
        lesson, ["A start that is much too high", "If you forget zero_grad"]
    )
    assert list(found) == ["A start that is much too high"]


@pytest.mark.parametrize(
    ("source", "defines", "uses"),
    [
        ("import a.b as c\nx = c.d(y)", {"c", "x"}, {"y"}),
        ("def f(z):\n    def g():\n        return z + w\n    return g", {"f"}, {"w"}),
        ("class C(B):\n    k = m\n    def n(self):\n        return q", {"C"}, {"B", "m", "q"}),
        ("for i in things:\n    print(i)", {"i"}, {"things", "print"}),
        ("%matplotlib inline", set(), set()),
    ],
)
def test_names_of_a_cell(source: str, defines: set[str], uses: set[str]):
    cell = sections.LearnerCell(source)
    assert (cell.defines, cell.uses) == (defines, uses)


def test_a_heading_in_a_fence_is_no_heading():
    assert list(sections._headings("# A\n```\n# no\n```\ntext\n### B `c`\n#no")) == ["A", "B `c`"]


RUN = """
import sys, matplotlib
matplotlib.use("Agg")
from amp_lessons.core import catalogue
from amp_lessons.classroom.workshop.sections import sections
lesson = catalogue.lesson_called(sys.argv[1])
there = {section.heading: section for section in sections(lesson)}
names = {"__name__": "__main__"}
for heading in sys.argv[2:]:
    for cell in there[heading].cells:
        if "home.finished" not in cell.source:
            exec(compile(cell.source, heading, "exec"), names)
print("ran", len(sys.argv) - 2)
"""


def run_sections(lesson: catalogue.Lesson, headings: list[str], tmp_path: Path):
    words = [sys.executable, "-W", "ignore", "-c", RUN, lesson.slug, *headings]
    return subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)


def in_order(plan: WorkshopPlan, lesson: catalogue.Lesson, needed: bool) -> list[str]:
    """The headings of a lesson as a plan shows them, with or without what must run first."""
    first = page.run_first(plan) if needed else {}
    found = [sections.sections(lesson)[0].heading]
    for block in plan.blocks:
        for step in block.steps:
            if block.lesson == lesson.slug and step.heading:
                found += [*first.get((block.id, step.id), ()), step.heading]
    return found


WAYS = {
    (lesson.slug, *in_order(plan, lesson, needed=True)): (plan, lesson)
    for plan in PLANS
    for lesson in plan.lessons
}
"""Plans share blocks, so some go the same way through a lesson. Each way is run once."""


@pytest.mark.long
@pytest.mark.parametrize(
    ("plan", "lesson"), WAYS.values(), ids=[f"{p.name}-{x.slug}" for p, x in WAYS.values()]
)
def test_the_cells_of_a_plan_run_in_its_order(
    plan: WorkshopPlan, lesson: catalogue.Lesson, tmp_path: Path
):
    headings = in_order(plan, lesson, needed=True)
    run = run_sections(lesson, headings, tmp_path)
    assert run.stdout.splitlines()[-1:] == [f"ran {len(headings)}"], run.stderr[-2000:]
    without = in_order(plan, lesson, needed=False)
    if without != headings:
        assert "NameError" in run_sections(lesson, without, tmp_path).stderr


# ---- the pages -----------------------------------------------------------------------------------


@EACH
def test_a_page_has_each_vote_in_full_with_its_answer(plan: WorkshopPlan):
    text = page.markdown(plan)
    for name in plan.polls:
        item = bank.load().find(name)
        assert item.prompt in text, name
        if hasattr(item, "choices"):
            right = "1234567"[[choice.right for choice in item.choices].index(True)]
            assert f"Answer: {right}. " in text.partition(item.prompt)[2].partition("###")[0]
            parts = [choice.text for choice in item.choices] + [c.why for c in item.choices]
        else:
            assert item.answer in page.offered(item)
            parts = [mistake.why for mistake in item.mistakes]
        assert [part for part in parts if part not in text] == [], name


@EACH
def test_a_page_has_each_exercise_with_minutes_hints_and_answer(plan: WorkshopPlan):
    text = page.markdown(plan)
    for name in plan.exercises:
        info = catalogue.exercise_info(name)
        _, found, after = text.partition(f"### Exercise: {info.title} · {info.minutes} minutes")
        assert found, name
        hints, answer = sentences.help_with(name)
        part = after.partition("###")[0]
        assert hints[0] in part
        assert f"    {answer.splitlines()[0]}" in part
        assert "NotImplementedError" not in part


@EACH
def test_a_page_leaves_no_blank_and_says_that_it_was_not_taught(plan: WorkshopPlan):
    text = page.markdown(plan)
    assert not re.search(r"\{(plan|hours|reading|solving|lessons|sheets)\}", text)
    assert not re.search(r"\]\((lesson|sheet|doc):", text)
    assert "Nobody has taught this plan in a room yet." in text


@EACH
def test_every_link_of_a_page_leads_to_a_heading(plan: WorkshopPlan):
    targets = re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.markdown(plan))
    wrong = []
    for target in set(targets):
        file, _, anchor = target.partition("#")
        to = normpath(file)
        if not (ROOT / to).is_file() or (anchor and unquote(anchor) not in anchors(to)):
            wrong.append(target)
    assert len(targets) > 30
    assert wrong == []


def test_a_page_beside_a_learners_folders_links_to_nothing_above_it():
    text = page.markdown(PLANS[1], 9 * 60)
    assert "](../" not in text
    assert "](notebooks/06_grad_scaler.ipynb)" in text
    assert "9:07 to 9:37" in text
    assert f"| 15 | {clock(9 * 60 + 234)} | To close |" in text


# ---- the command ---------------------------------------------------------------------------------


def call(*words: str):
    return CliRunner().invoke(app, ["workshop", *words])


def test_without_a_plan_it_lists_them():
    shown = call().output
    assert all(f"{plan.name}  {plan.title}" in shown for plan in PLANS)


def test_the_timetable_has_clock_times():
    shown = call("4h", "--start", "13:30").output
    rows = re.findall(r"^│ +(\d+:\d\d) │", shown, re.MULTILINE)
    assert (rows[0], rows[1], rows[-1]) == ("13:30", "13:37", "17:30")
    assert len(rows) == len(PLANS[1].blocks) + 1
    assert "clip_step" in shown


def test_a_night_workshop_goes_past_midnight():
    data = json.loads(call("2h", "--start", "23:00", "--json").output)
    assert (data["start"], data["blocks"][-1]["end"]) == ("23:00", "1:00")


@EACH
def test_json_has_all_of_a_plan(plan: WorkshopPlan):
    data = json.loads(call(plan.name, "--json").output)
    assert data["minutes"] == 60 * plan.hours == sum(b["minutes"] for b in data["blocks"])
    steps = [step for block in data["blocks"] for step in block["steps"]]
    assert [step["poll"] for step in steps if "poll" in step] == data["polls"] == [*plan.polls]
    assert data["taught"] is False
    stuck = [each for block in data["blocks"] for each in block["stuck"]]
    assert len(stuck) >= 10
    assert all("sentence" in each for each in stuck if "exercise" in each)
    listed = json.loads(call("--json").output)["plans"]
    assert {**listed[PLANS.index(plan)], "blocks": data["blocks"]} == data


def test_the_page_is_printed_as_it_is():
    assert call("2h", "--page", "--start", "9").output == page.markdown(PLANS[0], 9 * 60)


def test_a_page_opens_in_the_browser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("AMP_LESSONS_HOME", str(tmp_path / "new"))
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: not opened.append(address))
    done = call("2h", "--open", "--start", "9")
    assert done.exit_code == 0
    (file,) = (tmp_path / "new").iterdir()
    assert opened == [file.as_uri()]
    text = file.read_text(encoding="utf-8")
    assert "<table>" in text
    assert f"<h1>Workshop: {PLANS[0].title}</h1>" in text
    assert "9:00" in text
    assert ".ipynb" not in text
    assert "No browser" not in done.output
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    assert "No browser opens here" in call("2h", "--open").output


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("3h",), "no plan is called '3h'; there are 2h, 4h, 8h"),
        (("4h", "--start", "24:00"), "--start takes a time"),
        (("4h", "--start", "9:60"), "--start takes a time"),
        (("4h", "--start", "nine"), "--start takes a time"),
        (("4h", "--start", "٩:00"), "--start takes a time"),
        (("4h", "--page", "--json"), "exclude each other"),
        (("4h", "--page", "--open"), "exclude each other"),
        (("--page",), "name a plan"),
        (("--start", "9:00"), "name a plan"),
    ],
)
def test_a_wrong_call_is_one_line(words: tuple[str, ...], output: str, capsys):
    from amp_lessons.app import cli

    with pytest.raises(SystemExit) as left:
        cli.main(["workshop", *words])
    shown = capsys.readouterr()
    assert left.value.code
    assert shown.out == ""
    assert output in shown.err
    assert len(shown.err.splitlines()) == 1


def test_it_does_not_bring_torch():
    code = (
        "import sys\nfrom amp_lessons.app import cli\n"
        "try: cli.main(['workshop', '4h', '--page'])\n"
        "except SystemExit: print([m for m in ('torch', 'numpy') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"
