"""`amp-lessons quiz`, `drill` and `mock` as a user meets them, at a terminal and through a pipe."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pexpect
import pytest
from interview_room import fake_generators, small_bank

import amp_lessons.quiz
from amp_lessons.app import cli
from amp_lessons.quiz import bank, commands, log
from amp_lessons.quiz.log import LogEntry

ROOM = Path(__file__).with_name("interview_room.py")
BANK = small_bank()


@pytest.fixture(autouse=True)
def own_place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AMP_LESSONS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    for name in ("AMP_LESSONS_DEBUG", "NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture(autouse=True)
def small(monkeypatch) -> None:
    """The small bank and the two generators, in this process."""
    fake = fake_generators()
    monkeypatch.setattr(bank, "load", lambda: BANK)
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    monkeypatch.setattr(amp_lessons.quiz, "generators", fake, raising=False)


class Done:
    """What a command did."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def line(self) -> str:
        """The one line on standard error of a command that failed as it should."""
        assert self.status
        assert "Traceback" not in self.err
        (line,) = self.err.strip().splitlines()
        return line


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command in this process, with these lines as its input."""
    import io

    def call(words: str, typed: str = "") -> Done:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        with pytest.raises(SystemExit) as leaving:
            cli.main(words.split())
        return Done(leaving.value.code or 0, *capsys.readouterr())

    return call


@contextmanager
def terminal(words: str, **env: str) -> Iterator[pexpect.spawn]:
    """A command at a terminal of 80 columns and 24 rows."""
    child = pexpect.spawn(
        sys.executable,
        [str(ROOM), *words.split()],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | env,
        dimensions=(24, 80),
        encoding="utf-8",
        timeout=None,
    )
    child.delaybeforesend = None
    try:
        yield child
    finally:
        child.close(force=True)


def ended(child: pexpect.spawn) -> tuple[str, int]:
    """What was printed to the end, without styles, and the exit status."""
    child.expect(pexpect.EOF)
    text = plain(child.before)
    child.close()
    return text, child.exitstatus


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r", "")


def entry(item: str, score: float = 1.0, days: float = 0.0, **more) -> LogEntry:
    at = datetime.now(UTC) - timedelta(days=days)
    return LogEntry(at.replace(microsecond=0), item, score, **more)


# ---- what is counted and listed -----------------------------------------------------------------


def test_stats_as_json(run):
    counts = json.loads(run("quiz --stats --json").out)
    assert counts["items"] == len(BANK.items) == sum(counts["by_kind"].values())
    assert (counts["open"], counts["generators"], counts["predictions"]) == (16, 2, 16)
    assert counts["proofs"] == sum(item.proved for item in BANK.items)
    assert sum(counts["by_lesson"].values()) == sum(counts["by_level"].values()) == counts["items"]


def test_stats_as_tables(run):
    out = run("quiz --stats").out
    assert out.startswith("112 questions, 32 of them with a proof that the tests run;")
    assert re.search(r"^09 Memory +7 +2$", out, re.MULTILINE)
    assert re.search(r"^bug +16 +0$", out, re.MULTILINE)
    assert re.search(r"^3 +32 +0$", out, re.MULTILINE)
    assert max(map(len, out.splitlines())) <= 80


def test_list(run):
    out = run("quiz --list --topic memory").out
    assert len(out.splitlines()) == 8, "with the generator"
    assert re.search(r"^memory.gen_bytes_2 +number +2  Count bytes$", out, re.MULTILINE)
    rows = json.loads(run("quiz --list --lesson 09 --kind bug --json").out)
    assert [row["id"] for row in rows] == ["memory.bug_it"]


def test_list_of_generators_and_of_a_few(run):
    out = run("quiz --list --generated").out
    assert len(out.splitlines()) == 2
    assert all(".gen_" in line for line in out.splitlines())
    assert len(run("quiz --list -n 3").out.splitlines()) == 3
    assert len(run("quiz memory --list").out.splitlines()) == 8


def test_a_list_fits_and_as_json_it_is_whole(run, monkeypatch):
    long = "What happens " * 20
    several = BANK.items[0].model_copy(update={"prompt": long})
    monkeypatch.setattr(bank, "load", lambda: bank.Bank((several,)))
    (line,) = run("quiz --list --kind single").out.splitlines()[:1]
    assert line.startswith(several.id)
    assert line.endswith("…")
    assert len(line) <= 80
    monkeypatch.setenv("COLUMNS", "30")
    assert several.id in run("quiz --list --kind single").out
    rows = json.loads(run("quiz --list --kind single --json").out)
    assert rows[0]["asks"] == long.strip()


# ---- a quiz -------------------------------------------------------------------------------------


def test_a_quiz_through_a_pipe(run):
    done = run("quiz --kind single -n 3", "2\n\n1\n\n?2\n\n")
    assert done.status == 0
    assert "3 of 3 - " in done.out
    assert "── 2 of 3 right" in done.out
    assert len(log.read().entries) == 3


def test_conditions(run):
    for words, kinds in (
        ("--lesson 06 --kind bug", {"find the fault"}),
        ("--topic grad_scaler --level 1 -n 20", {"one answer", "put in order"}),
    ):
        out = run(f"quiz {words}", "s\n\n" * 20).out
        headings = re.findall(r"^── \d+ of \d+ - GradScaler, level \d, (.*?) ─", out, re.MULTILINE)
        assert set(headings) == kinds


def test_the_seed_decides(run):
    headings = []
    for _ in range(2):
        out = run("quiz --seed 4 -n 4", "s\n\n" * 4).out
        headings.append(re.findall(r"^── \d of 4 -.*", out, re.MULTILINE))
    assert headings[0] == headings[1]
    assert len(headings[0]) == 4


def test_generated_questions(run):
    out = run("quiz --generated -n 4 --seed 7", "s\n\n" * 4).out
    assert "4 of 4" in out
    ids = [e.item for e in log.read().entries]
    assert len(set(ids)) == 4
    assert {name.rpartition("_")[0] for name in ids} == set(fake_generators().GENERATORS)
    assert "no kind" in run("quiz --generated --kind bugs").line
    assert "leave one condition out" in run("quiz --generated --kind bug").line


@pytest.mark.parametrize(
    ("name", "typed", "asked"),
    [
        ("memory.bug_it", "2", "memory.bug_it"),
        ("memory.predict_it", "2", "memory.predict_it"),
        ("memory.open_it", "\n12\n\n\n\n", "memory.open_it"),
        ("memory.gen_bytes_2_77", "7 GB", "memory.gen_bytes_2_77"),
    ],
)
def test_one_question_by_its_id(run, name, typed, asked):
    assert run(f"quiz {name}", typed + "\n").status == 0
    assert [e.item for e in log.read().entries] == [asked]


@pytest.mark.parametrize("name", ["number_formats.gen_round", "gen_round"])
@pytest.mark.parametrize(("more", "count"), [("", 5), (" -n 2", 2)])
def test_a_generator_by_its_name_makes_new_questions(run, name, more, count):
    run(f"quiz {name}{more}", "2\n\n" * 9)
    ids = [e.item for e in log.read().entries]
    assert len(set(ids)) == count
    assert all(re.fullmatch(r"number_formats\.gen_round_\d+", name) for name in ids)


def test_a_topic_by_its_name(run):
    out = run("quiz grad_scaler -n 2", "s\n\n" * 9).out
    assert "2 of 2 - GradScaler" in out
    assert {e.item.partition(".")[0] for e in log.read().entries} == {"grad_scaler"}
    assert (
        "1 of 1 - GradScaler, level 3, find the fault"
        in run("quiz grad_scaler --kind bug", "s\n\n").out
    )


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("quiz --lesson 66", 1, "no lesson is called '66'; there are 00 to "),
        ("quiz --lesson grad_scalar", 1, "did you mean grad_scaler?"),
        ("quiz --topic memmory", 1, "did you mean memory?"),
        ("quiz --kind bugs", 1, "did you mean bug?"),
        ("quiz --level 4", 1, "there are 1, 2 and 3"),
        ("quiz --level high", 2, "See amp-lessons quiz --help"),
        ("quiz --topic memory --lesson 06", 1, "leave one condition out"),
        ("quiz memory.bug_its", 1, "did you mean memory.bug_it"),
        ("quiz memmory", 1, "did you mean memory?"),
        ("quiz memory --topic speed", 2, "not both"),
        ("quiz memory.bug_it --list", 2, "not both"),
        ("quiz gen_nothing", 1, "no generator is called"),
        ("quiz memory.gen_nothing_3", 1, "no generator is called"),
        ("quiz memory.gen_nothing", 1, "no generator is called"),
        ("quiz memory.bug_it --level 2", 2, "not both"),
        ("quiz --json", 2, "--list or --stats"),
        ("quiz -n 0", 2, "See amp-lessons quiz --help"),
        ("drill --merge nowhere", 1, "nowhere is not a file"),
        ("drill --new -1", 2, "See amp-lessons drill --help"),
        ("mock --minutes 5", 1, "10 to 90 minutes"),
        ("mock --role boss", 1, "ml, systems, research, performance"),
    ],
)
def test_bad_input_is_one_line(run, words, status, message):
    done = run(words)
    assert message in done.line
    assert done.status == status
    assert done.out == ""


def test_a_broken_bank_is_one_line(run, monkeypatch):
    def broken() -> None:
        raise bank.BankError("memory.toml, item 'x': kind: is missing")

    monkeypatch.setattr(bank, "load", broken)
    for words in ("quiz", "drill", "mock"):
        assert "memory.toml, item 'x'" in run(words).line


def test_a_broken_log_is_told_and_practice_goes_on(run):
    log.append(entry("memory.bug_it"))
    with open(log.log_file(), "a") as stream:
        stream.write("half a li")
    done = run("quiz -n 1 --kind single", "2\n")
    assert done.status == 0
    assert "kept in" in done.err
    assert "1 of 1 right" in done.out


# ---- a drill ------------------------------------------------------------------------------------


def test_the_first_drill(run):
    done = run("drill -n 2", "s\n\n" * 4)
    assert "Nothing is due. Here are 2 new questions." in done.out
    assert "1 of 2, new" in done.out
    assert "Once more, 2 of 2" in done.out
    assert "Next: 2 questions due tomorrow" in done.out
    assert {e.where for e in log.read().entries} == {"drill"}


def test_what_is_due_comes_before_what_is_new(run):
    for name in ("memory.single_it", "speed.single_it"):
        log.append(entry(name, 0.0, days=3))
    out = run("drill -n 3", "s\n\n" * 6).out
    assert "1 of 3, due - " in out
    assert "2 of 3, due - " in out
    assert "3 of 3, new - " in out


def test_drill_due_only_tells(run):
    log.append(entry("memory.single_it", 0.0, days=3))
    out = run("drill --due --new 4").out
    assert out.startswith("1 question due today:\n    1  lesson 09, Memory\n")
    assert "4 new questions for today, of 113 that you have not had yet." in out
    assert len(log.read().entries) == 1


def test_nothing_due_and_no_new_ones_left_today(run):
    log.append(entry("memory.single_it", where="drill"))
    done = run("drill --new 0", "y\nb\n")
    assert "Nothing is due today. 1 question will be due on " in done.out
    assert "y: " not in done.out
    assert len(log.read().entries) == 1
    out = run("drill --due --new 0").out
    assert "No new questions: --new 0. 113 are left" in out
    assert "Start with" not in out
    out = run("drill --due --new 1").out
    assert "You have had today's new questions. The drill offers 5 more, of 113" in " ".join(
        out.split()
    )
    assert "Start with: amp-lessons drill --new 1" in out
    assert "y: 3 more" in run("drill --new 1 -n 3", "n\n").out
    done = run("drill --new 1", "y\n" + "s\n\n" * 10)
    assert "y: 5 more" in done.out
    assert "5 of 5, new" in done.out
    assert len(log.read().entries) == 1 + 10


def test_a_missed_prediction_comes_back(run):
    log.append(entry("memory.predict_it", 0.0, days=2, where="lesson"))
    log.append(entry("speed.predict_it", 1.0, days=2, where="lesson"))
    out = run("drill --new 0", "2\n\n").out
    assert "1 of 1, due - Memory, level 1, predict" in out


def test_merge(run, own_place):
    log.append(entry("memory.single_it", days=2))
    other = own_place / "theirs.jsonl"
    other.write_text(json.dumps(entry("speed.bug_it", 0.0, days=1).to_json()) + "\nbroken\n")
    done = run(f"drill --merge {other}")
    assert "1 answer added from " in done.out
    assert "2 answers now." in done.out
    assert "1 line could not be read" in done.err
    assert "lesson 10, Speed, measured" in done.out
    assert "0 answers added" in run(f"drill --merge {other}").out


# ---- a mock -------------------------------------------------------------------------------------


def test_a_mock_through_a_pipe(run, own_place):
    done = run("mock --minutes 10 --seed 3", "\n2\n2\n7\n2\nnotes\n12\n\n\n\n")
    assert done.status == 0, done.err
    assert re.search(r"^── [\d.]+ of 100 points ─", done.out, re.MULTILINE), "and no band"
    assert "Seed 3: the same interview again with --seed 3, as long as" in done.out
    assert "Read next" in done.out
    (saved,) = (own_place / "home" / "mocks").glob("*.json")
    assert json.loads(saved.read_text())["finished"] is True
    assert f"This report is kept in {saved}\n" in done.out


def test_a_mock_that_nobody_takes(run, own_place):
    done = run("mock --minutes 10", "")
    assert done.status == 0
    assert "Nothing was answered, so there is no report." in done.out
    assert not (own_place / "home").exists()


# ---- at a terminal ------------------------------------------------------------------------------


def test_one_key_answers_at_a_terminal():
    with terminal("quiz --kind single -n 2") as child:
        child.expect("> ")
        child.send("h")
        child.expect("hint of")
        child.expect("> ")
        child.send("\x1b[A")  # an arrow key is no answer
        child.send("2")
        child.expect("Right")
        child.expect("> ")
        child.send("p")
        child.expect("no proof")
        child.expect("> ")
        child.send("\r")
        child.expect("2 of 2")
        child.expect("q: quit")
        child.expect("> ")
        child.send("?1")
        child.expect("Not right")
        child.expect("> ")
        child.send("q")
        text, status = ended(child)
    assert status == 0
    assert "1 of 2 right" in text
    assert [(e.score, e.sure) for e in log.read().entries] == [(1.0, True), (0.0, False)]


@pytest.mark.slow
def test_typed_answers_at_a_terminal():
    with terminal("quiz memory.several_it") as child:
        child.expect("> ")
        child.send("231\x7f23\r")  # Backspace takes 3 away, and the second 2 the first
        child.expect("Right|Not right|Partly")
        assert child.match.group() == "Right", plain(child.before)
        child.expect("> ")
        child.send("q")
        assert ended(child)[1] == 0
    with terminal("quiz memory.number_it") as child:
        child.expect("> ")
        child.send("\r12\x15ü8\x7f\x7f7 GB?\r")
        child.expect("by a guess")
        child.expect("> ")
        child.send("\r")
        assert ended(child)[1] == 0
    assert [(e.score, e.sure) for e in log.read().entries] == [(1.0, True), (1.0, False)]


def test_ctrl_c_in_a_quiz_keeps_what_was_answered():
    with terminal("quiz --kind single -n 5") as child:
        for _ in range(2):
            child.expect("> ")
            child.send("2")
            child.expect("go on")
            child.expect("> ")
            child.send("\r")
        child.expect("3 of 5")
        child.expect("> ")
        child.sendintr()
        text, status = ended(child)
    assert status == 130
    assert text.strip().splitlines()[-1] == "2 answered, 2 right: kept."
    assert "Traceback" not in text
    assert len(log.read().entries) == 2


@pytest.mark.slow
def test_ctrl_c_in_a_drill_keeps_what_was_answered():
    log.append(entry("memory.single_it", 0.0, days=3))
    with terminal("drill") as child:
        child.expect("due - ")
        child.expect("> ")
        child.send("1")
        child.expect("go on")
        child.expect("> ")
        child.sendintr()  # also between two questions
        text, status = ended(child)
    assert (status, text.strip()) == (130, "1 answered, 0 right: kept.")
    assert len(log.read().entries) == 2


@pytest.mark.slow
def test_ctrl_c_in_a_mock_keeps_what_was_answered():
    with terminal("mock --minutes 10 --seed 1") as child:
        child.expect("> ")
        child.send("\r")
        child.expect("1 of 2")
        child.expect("> ")
        child.send("2")
        child.expect("2 of 2")
        child.expect("> ")
        child.sendintr()
        text, status = ended(child)
    assert status == 130
    assert " points ─" in text
    assert "You stopped early" in text
    assert "why 1" not in text, "no answer is told"
    (saved,) = (Path(os.environ["AMP_LESSONS_HOME"]) / "mocks").glob("*.json")
    assert json.loads(saved.read_text())["finished"] is False
    assert text.strip().splitlines()[-1] == "1 answered, 1 right: kept."


def test_quit_at_the_start_of_a_mock_is_one_line():
    with terminal("mock --minutes 10") as child:
        child.expect("> ")
        child.send("q")
        text, status = ended(child)
    assert status == 0
    assert text.split("\n", 1)[1].strip() == "Nothing was answered, so there is no report."


@pytest.mark.slow
def test_a_habitual_enter_does_not_skip_the_explanation():
    with terminal("quiz --kind single -n 2") as child:
        child.expect("> ")
        child.send("2\r")
        child.expect("go on")
        child.expect("> ")
        child.send("q")
        text, _ = ended(child)
    assert "1 of 1 right" in text
    assert "2 of 2" not in text


@pytest.mark.slow
def test_ctrl_c_at_the_first_question():
    with terminal("quiz") as child:
        child.expect("> ")
        child.sendintr()
        text, status = ended(child)
    assert (status, text.strip()) == (130, "Nothing was answered yet.")


@pytest.mark.parametrize("leave", ["q", "\x03", "\x04"], ids=["quit", "Ctrl+C", "Ctrl+D"])
@pytest.mark.slow
def test_the_terminal_is_put_back(leave):
    command = f"{sys.executable} {ROOM} quiz; stty -a"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    child = pexpect.spawn(
        "/bin/sh", ["-c", f"trap : INT; {command}"], env=environment, encoding="utf-8", timeout=None
    )
    try:
        child.expect("> ")
        child.send(leave)
        text, _ = ended(child)
    finally:
        child.close(force=True)
    assert " icanon" in text
    assert " echo " in text


@pytest.mark.slow
def test_no_colour_and_ascii_at_a_terminal():
    with terminal("quiz memory.bug_it", NO_COLOR="1", PYTHONIOENCODING="ascii") as child:
        child.expect("> ")
        question = child.before
        child.send("2")
        child.expect("go on")
        answer = child.before
        child.expect("> ")
        child.send("q")
        ended(child)
    assert (question + answer).isascii()
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", question + answer)
    assert max(map(len, plain(question).splitlines())) <= 80


@pytest.mark.slow
def test_a_dumb_terminal():
    with terminal("quiz memory.bug_it", TERM="dumb") as child:
        child.expect("> ")
        assert "\x1b" not in child.before
        child.send("q")
        assert ended(child)[1] == 0


# ---- quick to start -----------------------------------------------------------------------------

LIGHT = """
import atexit, io, sys
from interview_room import main
def look():
    found = {"torch", "numpy", "fsrs", "matplotlib", "IPython"} & set(sys.modules)
    print("loaded:", sorted(found))
atexit.register(look)
sys.argv[1:] = %r
sys.stdin = io.StringIO(%r)
main()
"""


@pytest.mark.parametrize(
    ("words", "typed", "loaded"),
    [
        (["quiz"], "s\n\n", []),
        (["quiz", "memory.order_it"], "h\n", []),
        (["quiz", "--stats"], "", []),
        (["quiz", "--help"], "", []),
        (["drill"], "s\n\n", ["fsrs"]),
        (["mock", "--minutes", "20"], "\nb\n", []),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_no_torch(words, typed, loaded):
    done = subprocess.run(
        [sys.executable, "-c", LIGHT % (words, typed)],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join([str(ROOM.parent), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1] == f"loaded: {loaded}"


def test_a_reader_that_leaves_is_no_error():
    command = f"yes s | {sys.executable} {ROOM} quiz -n 90 | head -n 1"
    done = subprocess.run(
        command,
        shell=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""


@pytest.mark.parametrize("closed", ["<&-", "<&- >&-", ">&-"])
def test_closed_streams(closed):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = f"{sys.executable} {ROOM} quiz -n 1 {closed}"
    done = subprocess.run(
        command, shell=True, env=environment, stdin=subprocess.DEVNULL, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_help_names_every_command(run):
    out = run("--help").out
    assert all(command in out for command in ("quiz", "drill", "mock"))
    for command in ("quiz", "drill", "mock"):
        lines = run(f"{command} --help").out.splitlines()
        assert max(map(len, lines)) <= 80


def test_days_are_told_in_words(run, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    try:
        log.append(entry("memory.single_it", where="drill"))
        assert re.search(r"will be due on \w+day\.", run("drill --due").out)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert commands.MORE_NEW == 5
