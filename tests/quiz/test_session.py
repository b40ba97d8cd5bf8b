"""Asking at a terminal: what is shown, what each key does, and what is kept."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from interview_room import (
    choice_item,
    fake_generators,
    number_item,
    open_question,
    order_item,
    small_bank,
)
from rich.console import Console

from amp_lessons.core import terminal
from amp_lessons.quiz import bank, interview, log, mock, session, whiteboard
from amp_lessons.quiz.items import Plot
from amp_lessons.quiz.keys import ENTER, Edit, Quit, append
from amp_lessons.quiz.marking import NAMES, mark, shuffled
from amp_lessons.quiz.screen import Screen, without_math
from amp_lessons.quiz.session import CardSource, Session

BANK = small_bank()


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("AMP_LESSONS_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Typed:
    """Keys as a terminal gives them: a word is typed key by key, and an empty one is Enter."""

    single = True

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys = list(keys)

    def key(self) -> str:
        if not self.keys:
            raise Quit
        key = self.keys.pop(0)
        if key == "^C":
            raise KeyboardInterrupt
        return key

    def forget(self, wait: float = 0.0) -> None:
        pass

    def line(self, edit: Edit | None = None, at_once: str = "", empty: bool = True) -> str:
        typed = ""
        while True:
            key = self.key()
            if not typed and key in at_once:
                return key
            if key == ENTER and (typed or empty):
                return typed
            changed = None if key == ENTER else (edit or append)(typed, key)
            typed = typed if changed is None else changed


def asking(*words: str, where: log.Where = "quiz", width: int = 80, **console) -> Session:
    """A session in which these words are typed, with Enter after each of more than one key."""
    keys: list[str] = []
    for word in words:
        keys += [word] if word == "^C" else [*word, *([ENTER] if len(word) != 1 else [])]
    screen = Screen(Console(file=io.StringIO(), width=width, highlight=False, **console))
    return Session(screen, Typed(keys), where)


def shown(held: Session) -> str:
    return held.screen.console.file.getvalue()  # type: ignore[attr-defined]


def kept() -> list[tuple[str, float, bool, str]]:
    """What the log holds, in the order of its lines: two answers may share a millisecond."""
    path = log.log_file()
    lines = path.read_text().splitlines() if path.exists() else []
    entries = [log.LogEntry.from_json(json.loads(line)) for line in lines]
    return [(e.item, e.score, e.sure, e.where) for e in entries]


SINGLE = choice_item("memory.single_it")
SEVERAL = choice_item("memory.several_it", "several")
NUMBER = number_item("memory.number_it")
ORDER = order_item("memory.order_it")


def keys(order: Iterable[int]) -> str:
    """The keys of these places of `ORDER`'s lines."""
    there = shuffled(ORDER)
    return "".join(NAMES[there.index(place)] for place in order)


# ---- answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("item", "typed", "score", "sure"),
    [
        (SINGLE, ["2"], 1.0, True),
        (SINGLE, ["?2"], 1.0, False),
        (SINGLE, ["?", "?", "", "2"], 1.0, False),
        (SINGLE, ["1"], 0.0, True),
        (SINGLE, ["", "", "2"], 1.0, True),
        (SINGLE, ["x", "b", "7", "0", "2"], 1.0, True),
        (SEVERAL, ["13"], 1.0, True),
        (SEVERAL, ["31"], 1.0, True),
        (SEVERAL, ["1223"], 1.0, True),
        (SEVERAL, ["13?"], 1.0, False),
        (SEVERAL, ["33", "13"], 1.0, True),
        (SEVERAL, ["123"], 0.5, True),
        (SEVERAL, ["z139"], 1.0, True),
        (NUMBER, ["7 GB"], 1.0, True),
        (NUMBER, ["7gb?"], 1.0, False),
        (NUMBER, ["7 ?"], 1.0, False),
        (NUMBER, ["twelve", "12"], 0.0, True),
        (NUMBER, ["nan", "?x", "7 "], 1.0, True),
        (ORDER, [keys((0, 1, 2))], 1.0, True),
        (ORDER, [keys((0, 1, 2)) + "?"], 1.0, False),
        (ORDER, [keys((0, 1, 2)) * 2], 1.0, True),
        (ORDER, [keys((1, 0, 2))], 0.0, True),
        (ORDER, [keys((0, 1)), keys((0, 1, 2))], 1.0, True),
        (ORDER, [keys((0, 1, 2, 3)), keys((0, 1, 3))], 0.0, True),
    ],
    ids=lambda value: getattr(value, "kind", None) or str(value),
)
def test_answers(item, typed, score, sure):
    held = asking(*typed, "")
    done = held.ask(item, "1 of 1")
    assert (done.score, done.sure) == (score, sure)
    assert kept() == [(item.id, score, sure, "quiz")]
    word = {1.0: "Right", 0.0: "Not right."}.get(score, "Partly right: 50%")
    assert f"{word}" in shown(held)
    assert ("by a guess" in shown(held)) == (score == 1 and not sure)


def test_lines_from_a_pipe_are_the_same_answers(monkeypatch):
    from amp_lessons.quiz.keys import Lines

    script = "12\n2\n\n3, 1\n\n7 GB?\n\n" + " ".join(keys((0, 1, 2))) + "\n\n2 ?\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(script))
    held = asking()
    held.keys = Lines()
    scores = [held.ask(item, "x") for item in (SINGLE, SEVERAL, NUMBER, ORDER, SINGLE)]
    assert [(d.score, d.sure) for d in scores] == [
        (1.0, True),
        (1.0, True),
        (1.0, False),
        (1.0, True),
        (1.0, False),
    ]
    with pytest.raises(Quit):
        held.ask(SINGLE, "x")


def test_an_answer_explains_itself():
    held = asking("3", "")
    held.ask(SINGLE, "1 of 1")
    text = shown(held)
    assert "why 2 of memory.single_it" in text
    assert "why 1 of memory.single_it" in text
    assert "why 0" not in text
    assert text.index("why 2") < text.index("why 1"), "first what was chosen"
    assert "Source: source of memory.single_it" in text


def test_a_right_choice_that_was_left_out_is_named():
    held = asking("12", "")
    held.ask(SEVERAL, "1 of 1")
    text = shown(held)
    assert "✔  1 (right): choice 0" in text
    assert "✔  3 (right, and you left it out): choice 2" in text
    held = asking("1", "")
    held.ask(SINGLE, "1 of 1")
    assert "✔  2 (right): choice 1" in shown(held)


def test_too_few_and_too_many_lines_are_no_answer():
    held = asking(keys((0, 1)), keys((0, 1, 2, 3)), keys((0, 1, 2)), "")
    assert held.ask(ORDER, "1 of 1").right
    assert "2 of 3 lines: type all three." in shown(held)
    assert "4 of 3 lines: type only three." in shown(held)
    assert len(kept()) == 1


def test_what_is_typed_ahead_is_dropped_before_each_prompt():
    held, forgotten = asking("2", ENTER), []
    held.keys.forget = forgotten.append  # type: ignore[method-assign]
    held.ask(SINGLE, "1 of 1")
    assert forgotten == [0.0, session.HABIT], "after one key, also an Enter out of habit"


def test_a_number_names_the_mistake():
    held = asking("12", "")
    held.ask(NUMBER, "1 of 1")
    assert "five too many" in shown(held)
    assert "It is 7." in shown(held)


def test_an_order_shows_the_right_one():
    held = asking(keys((1, 0, 2)), "")
    held.ask(ORDER, "1 of 1")
    assert re.search(r"1  first\(\)\n +2  second\(\)\n +3  third\(\)", shown(held))


def test_a_generators_question_is_explained_too():
    made = fake_generators().GENERATORS["number_formats.gen_round"].make(5)
    held = asking("1", "")
    held.ask(made, "1 of 1")
    assert "why 0" in shown(held)
    assert "why 1" in shown(held)
    assert kept()[0][0] == "number_formats.gen_round_5"


# ---- the other keys -----------------------------------------------------------------------------


def test_a_hint_and_no_proof_before_the_answer():
    held = asking("h", "p", "H", "2", "")
    held.ask(SINGLE, "1 of 1")
    assert shown(held).count("hint of memory.single_it") == 2
    assert "after you have answered" in shown(held)


@pytest.mark.parametrize("item", [SEVERAL, NUMBER, ORDER], ids=lambda item: item.kind)
def test_commands_where_an_answer_is_typed(item):
    held = asking("h", "p", "s", "")
    done = held.ask(item, "1 of 1")
    assert done.score == 0
    assert "Hint: " in shown(held)
    assert "after you have answered" in shown(held)
    assert "This is the answer" in shown(held)
    with pytest.raises(Quit):
        asking("q").ask(item, "1 of 1")


def test_the_proof_comes_after_the_answer():
    held = asking("7 GB", "p", "p", "")
    held.ask(NUMBER, "1 of 1")
    assert shown(held).count("answer = 6.0 + abs(1)") == 2
    held = asking("2", "p", "")
    held.ask(SINGLE, "1 of 1")
    assert session.NO_PROOF.split(".")[0] in shown(held)


def test_a_skipped_question_shows_the_answer_and_counts_as_missed():
    held = asking("s", "")
    assert held.ask(SINGLE, "1 of 1").score == 0
    assert "why 1 of memory.single_it" in shown(held)
    assert kept() == [(SINGLE.id, 0.0, True, "quiz")]


def test_quit_before_an_answer_keeps_nothing():
    with pytest.raises(Quit):
        asking("q").ask(SINGLE, "1 of 1")
    assert kept() == []
    with pytest.raises(Quit):
        asking("2", "q").ask(SINGLE, "1 of 1")
    assert len(kept()) == 1, "and after it keeps the answer"


# ---- a quiz -------------------------------------------------------------------------------------

FOUR = [
    choice_item("memory.one"),
    choice_item("speed.two"),
    choice_item("memory.three"),
    choice_item("speed.four"),
]


def test_a_quiz_sums_up():
    held = asking("2", "", "1", "", "?2", "", "s", "")
    session.run_quiz(held, FOUR)
    text = shown(held)
    assert "1 of 4 - Memory, level 1, one answer" in text
    assert "── 2 of 4 right " in text
    assert "1 of them was a guess." in text
    end = text[text.index("2 of 4 right") :]
    assert "Lesson 10, Speed, measured" in end
    assert "notebooks/10_speed.ipynb" in end
    assert "- speed.two" in end
    assert "- speed.four" in end
    assert "memory" not in end
    assert "amp-lessons lab" in end
    assert len(re.findall("^Next: ", end, re.MULTILINE)) == 1


def test_a_quit_and_the_end_of_the_input_sum_up_too():
    for words in (("2", "", "q"), ("2", "")):
        held = asking(*words)
        session.run_quiz(held, FOUR)
        assert "1 of 1 right" in shown(held)
    held = asking("q")
    session.run_quiz(held, FOUR)
    assert "Nothing was answered" in shown(held)


def test_ctrl_c_keeps_what_was_answered():
    held = asking("2", "", "1", "", "^C")
    with pytest.raises(KeyboardInterrupt):
        session.run_quiz(held, FOUR)
    assert held.tally() == "2 answered, 1 right: kept."
    assert len(kept()) == 2
    assert asking().tally() == "Nothing was answered yet."


def test_answers_that_cannot_be_kept_are_told_once(home, monkeypatch, capsys):
    (home / "file").write_text("")
    monkeypatch.setenv("AMP_LESSONS_HOME", str(home / "file" / "home"))
    held = asking("2", "", "2", "")
    session.run_quiz(held, FOUR[:2])
    assert capsys.readouterr().err.count("your answers are not kept") == 1
    assert "Not kept:" in shown(held)
    assert held.tally().endswith("not kept, see above.")


def test_what_was_never_asked_comes_first():
    asked = FOUR[1:]
    for number, item in enumerate(asked):
        at = log.now().replace(microsecond=number)
        log.append(log.LogEntry(at, item.id, 1.0))
    found = session.choose(FOUR, 2, None, log.read().entries)
    assert found[0] == FOUR[0]
    assert len(found) == 2
    seeded = [session.choose(FOUR, 4, 3, log.read().entries) for _ in range(2)]
    assert seeded[0] == seeded[1] == session.choose(FOUR, 4, 3)


# ---- a drill ------------------------------------------------------------------------------------


def test_a_drill_asks_again_what_was_missed():
    generators = fake_generators()
    deck = CardSource(BANK, generators.GENERATORS, generators.Fresh(10))
    held = asking("2", "", "1", "", "1", ENTER, "", "2", "", "7 GB", "", where="drill")
    in_turn = session.run_drill(
        held, deck, ["memory.single_it", "number_formats.gen_round"], ["memory.gen_bytes_2"]
    )
    assert in_turn == 3
    session.sum_up(held, "", "Next: tomorrow.", in_turn)
    assert "1 of 3 right" in shown(held)
    assert "Asked once more: 2 of 2 right." in shown(held)
    assert [(name, score) for name, score, _, _ in kept()] == [
        ("memory.single_it", 1.0),
        ("number_formats.gen_round_11", 0.0),
        ("memory.gen_bytes_2_12", 0.0),
        ("number_formats.gen_round_13", 1.0),
        ("memory.gen_bytes_2_14", 1.0),
    ]
    assert "2 of 3, due" in shown(held)
    assert "3 of 3, new" in shown(held)
    assert "Once more, 1 of 2" in shown(held)


# ---- open questions -----------------------------------------------------------------------------


def test_an_open_question_is_marked_by_its_rubric():
    held = asking("my notes", "133", "", "", "")
    done = held.ask_open(open_question("memory.open_it"), "1 of 1")
    assert done.score == pytest.approx(1 / 3)
    text = shown(held)
    places = [
        text.index(words)
        for words in (
            "Explain memory.open_it.",
            "short of",
            "Which of these",
            "1 of 3 points.",
            "And then?",
            "Then this.",
            "And after that?",
            "long of",
            "Something wrong.",
        )
    ]
    assert places == sorted(places)
    assert kept()[0][:2] == ("memory.open_it", pytest.approx(0.3333))


def test_nothing_ticked_is_asked_once():
    for words, score in ((["", ""], 0), (["", "1", ENTER], 1 / 3), (["1?", ""], 1 / 3)):
        held = asking("", *words, "", "", "")
        done = held.ask_open(open_question("memory.open_it"), "1 of 1")
        assert done.score == pytest.approx(score)
        assert shown(held).count("Enter again to note 0") == (words[0] == "")


def test_an_open_question_can_be_skipped_and_left():
    held = asking("s", ENTER, "", "", "")
    assert held.ask_open(open_question("memory.open_it"), "1 of 1").score == 0
    assert "- two points" in shown(held)
    with pytest.raises(Quit):
        asking("q", ENTER).ask_open(open_question("memory.open_it"), "1 of 1")


# ---- how it looks -------------------------------------------------------------------------------

PROSE = """
A **bold** claim with `scaler.step()`, *stress* and a [link](https://example.org/x):

- one point that is long enough to be wrapped somewhere near the end of the eighty columns there are
- $2^{-24}$ and $\\frac{1}{2} \\times 10^{3}$

1. first
2. second

```
kept   as it is **here**
```
"""


def render(text: str, **console) -> str:
    screen = Screen(Console(file=io.StringIO(), width=80, highlight=False, **console))
    screen.markdown(text)
    return screen.console.file.getvalue()  # type: ignore[attr-defined]


def test_markdown_without_colour():
    plain = render(PROSE)
    assert "A bold claim with `scaler.step()`, stress and a link (https://example.org/x):" in plain
    assert "- 2^-24 and (1)/(2) × 10^3" in plain
    assert "1. first\n2. second" in plain
    assert "kept   as it is **here**" in plain
    assert "\x1b" not in plain
    assert max(map(len, plain.splitlines())) <= 80


def test_markdown_with_colour():
    coloured = render(PROSE, force_terminal=True, color_system="standard")
    assert "\x1b[1;36mscaler.step()\x1b[0m" in coloured
    assert "**bold**" not in coloured
    without = render(PROSE, force_terminal=True, no_color=True)
    assert "`scaler.step()`" in re.sub(r"\x1b\[[0-9;]*m", "", without)
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", without)


@pytest.mark.parametrize(
    ("formula", "plain"),
    [
        ("$2^{16}$ halved", "2^16 halved"),
        ("$2^{n-1}$", "2^(n-1)"),
        ("$x_{i}$ and $a_1$", "x_i and a_1".replace("_", r"\_")),
        ("GradScaler.__init__(x)", r"GradScaler.\_\_init\_\_(x)"),
        ("`__init__` and __init__", r"`__init__` and \_\_init\_\_"),
        ("it costs $5 or $6", "it costs $5 or $6"),
        ("`$HOME` and $x$", "`$HOME` and x"),
        (r"$\sqrt{\mathrm{mean}(x^2)}$", "√(mean(x^2))"),
        (r"$a \le b \approx 65{,}504$", "a ≤ b ≈ 65,504"),
    ],
)
def test_formulas_as_plain_text(formula, plain):
    assert without_math(formula) == plain


def test_code_is_highlighted_where_there_is_colour():
    item = choice_item("memory.it", "output")
    for colour in (None, "standard"):
        held = asking("2", "", force_terminal=bool(colour), color_system=colour)
        held.ask(item, "1 of 1")
        assert bool(re.search(r"\x1b\[35(;49)?mimport", shown(held))) == bool(colour)
        assert "import math" in re.sub(r"\x1b\[[0-9;]*m", "", shown(held))


@pytest.mark.parametrize("width", [30, 50, 80])
def test_a_heading_never_breaks_a_word(width):
    show = asking(width=width).screen
    about = ("Training on several GPUs", "level 3", "several right answers")
    show.heading("10 of 10, due", *about)
    text = show.console.file.getvalue()  # type: ignore[attr-defined]
    assert max(map(len, text.splitlines())) <= width
    words = text.replace("─", " ").split()
    assert set(words) <= set(f"10 of 10, due - {', '.join(about)}".split()) | {"GPUs", "3"}
    assert ("level" in words) == (width == 80)


def test_a_long_line_of_code_is_folded_at_a_space():
    show = asking().screen
    show.code("    call(" + ", ".join(f"argument_{n}" for n in range(20)) + ")\n" + "x" * 99)
    *parts, last = show.console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert last == "x" * 99, "there is nowhere to fold it"
    assert max(map(len, parts)) <= 80
    assert all(part.endswith(" ↩") for part in parts[:-1])
    whole = " ".join(part.strip().removesuffix(" ↩") for part in parts)
    assert whole.startswith("call(argument_0, ")
    assert re.findall(r"argument_\d+", whole) == [f"argument_{n}" for n in range(20)]
    show.code("y" * 50 + " " + "z" * 50, fold=False)
    assert "y z" in show.console.file.getvalue()  # type: ignore[attr-defined]


def test_a_plot_is_a_table():
    plot = Plot(x="step", y="loss", series={"fp16": (1.0, 0.5, 0.25)}, alt="it falls")
    item = choice_item("memory.it", "trace").model_copy(update={"plot": plot})
    held = asking("2", "")
    held.ask(item, "1 of 1")
    assert "step  fp16" in shown(held)


def test_everything_fits_and_no_markdown_is_left():
    """Each question of the course, in 80 columns without colour: its own code is all that may be
    longer."""
    for item in bank.load().items:
        held = asking("s", "")
        held.ask(item, "10 of 10, due")
        own = f"{item.code}\n{item.log}"
        for line in shown(held).splitlines():
            assert len(line) <= 80 or line.strip() in own, line
            assert line.strip() in own or not re.search(r"\*\*\w[^*]*\*\*", line), line


def test_ascii_alone(monkeypatch):
    monkeypatch.setattr(terminal, "can_print", str.isascii)
    item = choice_item(
        "memory.it",
        prompt="−1 × 2 → “x” ≤ 3 µs … 10⁻²",
        source="a – b",
    )
    held = asking("1", "")
    held.ask(item, "1 of 1")
    assert shown(held).isascii(), [c for c in shown(held) if not c.isascii()]
    assert '-1 x 2 -> "x" <= 3 us ... 10^-2' in shown(held)


@pytest.mark.parametrize("item", [SINGLE, SEVERAL, NUMBER, ORDER], ids=lambda item: item.kind)
@pytest.mark.parametrize("hints", [True, False])
def test_the_help_is_one_line(item, hints):
    assert len(session._help(item, hints)) <= 80


# ---- the mock -----------------------------------------------------------------------------------


class Clock:
    """Time that passes only when it is told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def interviewed(*words: str, minutes: int = 45, passes: bool = True, seed: int = 1):
    held = asking(*words, where="mock")
    held.clock = Clock()
    plan = mock.compose(BANK, minutes=minutes, seed=seed)

    def checker(name: str, path: Path) -> whiteboard.Checked:
        assert path.exists()
        return whiteboard.Checked("passed" if passes else "wrong", "what the check says")

    return interview.Interview(plan, held, Path.cwd(), checker=checker)


def key_of(item) -> list[str]:
    """What to type for a right answer."""
    if item.form == "number":
        return ["7 GB"]
    return ["13"] if item.form == "many" else ["2"]


OPEN = ["", "123", "", "", ""]


def all_right(plan: mock.Mock) -> list[str]:
    words = [""]
    for step in plan.steps:
        if isinstance(step.asks, mock.Coding):
            words += [""]
        elif isinstance(step.asks, mock.YourQuestion):
            words += ["why?", "123"]
        else:
            words += OPEN if hasattr(step.asks, "rubric") else key_of(step.asks)
    return words


@pytest.mark.parametrize("minutes", [10, 45, 90])
def test_a_whole_mock_all_right(minutes, home):
    words = all_right(mock.compose(BANK, minutes=minutes, seed=1))
    held = interviewed(*words, minutes=minutes)
    report = held.run()
    assert report.points == pytest.approx(100)
    assert report.finished
    assert held.missed == []
    steps = [step for step in held.plan.steps if step.id != "yours"]
    assert [name for name, *_ in kept()] == [step.id for step in steps]
    assert {where for *_, where in kept()} == {"mock"}
    assert ("what the check says" in shown(held.session)) == (minutes >= 30)
    saved = interview.save(report)
    assert saved is not None
    assert saved.parent == home / "home" / "mocks"
    interview.show_report(held.session, report, saved)
    band = ": can defend it" if minutes >= 20 else ""
    assert f"100 of 100 points{band} ─" in shown(held.session)


def test_a_mock_does_not_tell_before_the_end():
    held = interviewed("", "1")
    report = held.run()
    assert not report.finished, "the input ended"
    assert "why" not in shown(held.session)
    assert "right" not in shown(held.session).lower().replace("right after", "")
    assert [done.score for done in held.missed] == [0.0]
    held.session.keys = Typed(["n"])
    held.go_through_missed()
    assert "why 0" not in shown(held.session)
    held.session.keys = Typed([ENTER, "y"])
    held.go_through_missed()
    assert "why 0" in shown(held.session)
    assert "why 1" in shown(held.session)


def test_quit_at_the_start_of_a_mock():
    held = interviewed("q")
    assert not held.run().finished
    assert held.results == {}
    assert "End the interview" not in shown(held.session), "nothing would be lost"


def test_a_slip_does_not_end_a_mock():
    held = interviewed("", "q", "n", "2", "q", "x", "y")
    report = held.run()
    assert not report.finished
    assert len(held.results) == 1
    assert shown(held.session).count("End the interview? y/n") == 2


def test_quit_asks_wherever_it_is_typed():
    plan = mock.compose(BANK, minutes=20, seed=1)
    words = all_right(plan)
    opens = 1 + sum(len(part.steps) for part in plan.parts if part.name not in ("open", "yours"))
    slips = ["q", ENTER, "n", "", "q", "n", "123", "q", "n", "", "", "", "q", ENTER, "n", "why?"]
    held = interviewed(*words[:opens], *slips, "123", minutes=20)
    assert held.run().points == pytest.approx(100)
    assert shown(held.session).count("End the interview?") == 4


def test_points_are_kept_as_soon_as_they_are_ticked():
    plan = mock.compose(BANK, minutes=10, seed=1)
    held = interviewed(*all_right(plan)[:-4], "123", "q", "y", minutes=10)
    report = held.run()
    assert not report.finished
    assert report.points == report.of == pytest.approx(100)


def test_a_right_guess_is_gone_through_too():
    held = interviewed("", "?2", "q", "y")
    report = held.run()
    interview.show_report(held.session, report, None)
    assert "1 of your right answers was a guess." in shown(held.session)
    held.session.keys = Typed(["y"])
    held.go_through_missed()
    text = shown(held.session)
    assert "you missed or guessed? y/n" in text
    assert "Guessed, 1 of 1 - " in text
    assert "Right, by a guess." in text


def test_a_mock_gives_no_hints():
    held = interviewed("", "h", "p", "2")
    held.run()
    assert "gives no hints" in shown(held.session)
    assert "after you have answered" in shown(held.session)
    assert len(held.results) == 1


def test_a_coding_task_can_be_tried_again_and_left():
    plan = mock.compose(BANK, seed=1)
    before = all_right(plan)[: 1 + 9]  # the start, five warm-ups, two estimates, two bugs
    held = interviewed(*before, "", "x", "", "s", "q", ENTER, "y", passes=False)
    report = held.run()
    (code,) = (step for step in plan.steps if isinstance(step.asks, mock.Coding))
    assert held.results[code.id].score == 0
    assert shown(held.session).count("what the check says") == 2
    assert not report.finished
    (written,) = Path.cwd().glob("whiteboard_*.py")
    assert "YOUR CODE HERE" in written.read_text()


def test_a_coding_task_that_cannot_be_written_does_not_end_the_mock(monkeypatch, capsys):
    def refuse(*_: object) -> None:
        raise whiteboard.WhiteboardError("disk full")

    monkeypatch.setattr(whiteboard, "write", refuse)
    plan = mock.compose(BANK, seed=1)
    words = all_right(plan)
    place = 1 + 9
    held = interviewed(*words[:place], *words[place + 1 :])
    report = held.run()
    assert report.finished
    assert report.points == pytest.approx(80)
    assert "disk full" in capsys.readouterr().err


def test_the_clock():
    held = interviewed(*all_right(mock.compose(BANK, seed=1)))
    clock = held.session.clock
    assert isinstance(clock, Clock)
    ask = held.session.ask

    def slowly(*words, **more):
        clock.now += 10 * 60
        return ask(*words, **more)

    held.session.ask = slowly  # type: ignore[method-assign]
    report = held.run()
    assert report.finished
    assert len(held.results) == 5, "the fifth ends after 50 minutes, and is not cut off"
    assert report.unasked == len(held.plan.steps) - 5
    interview.show_report(held.session, report, None)
    assert "The time was up" in shown(held.session)


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        (0, "45 minutes left."),
        (0.1, "45 minutes left."),
        (1, "44 minutes left."),
        (43.2, "2 minutes left."),
        (44.5, "1 minute left."),
        (45, "The time is up."),
        (99, "The time is up."),
    ],
)
def test_the_time_that_is_left(gone, words):
    held = interviewed()
    held.session.clock.now = gone * 60  # type: ignore[attr-defined]
    assert held.clock_line() == words


def test_a_report_that_cannot_be_kept(home, monkeypatch, capsys):
    (home / "file").write_text("")
    monkeypatch.setenv("AMP_LESSONS_HOME", str(home / "file"))
    assert interview.save(mock.report(mock.compose(BANK), {})) is None
    assert "the report is not kept" in capsys.readouterr().err


def test_marking_in_the_terminal_is_marking():
    held = asking("1", "")
    done = held.ask(SINGLE, "1 of 1")
    assert done.marked == mark(SINGLE, [0])
    assert done.marked.score == done.score
