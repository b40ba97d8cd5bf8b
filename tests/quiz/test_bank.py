"""The bank: what is in it, that its proofs hold, that nothing gives an answer away, and what a
writer reads who made a mistake in it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import check_bank
import pytest
from check_bank import ALL_OF_THEM, STRATEGIES, gain, single_choice

from amp_lessons.core.catalogue import LESSONS
from amp_lessons.quiz import bank, proofs
from amp_lessons.quiz.items import KINDS, ChoiceItem, NumberItem, OrderItem

BANK = bank.load()
EVERYTHING = [*BANK.items, *BANK.predictions]
PROVED = [item for item in EVERYTHING if item.proved]


# ---- what is in it ------------------------------------------------------------------------------


def test_there_are_enough_of_each():
    stats = BANK.stats()
    assert stats["items"] >= 220
    assert stats["proofs"] >= 160
    assert stats["open"] >= 40
    least = {"bug": 25, "output": 25, "number": 15, "trace": 15, "order": 10}
    for kind, wanted in least.items():
        assert stats["by_kind"][kind] >= wanted, kind
    for lesson in LESSONS:
        if lesson.topics and lesson.number > 0:
            assert stats["by_lesson"][lesson.slug] >= 12, lesson.slug


def test_levels_are_mixed():
    counts = Counter(item.level for item in BANK.items)
    for level, share in ((1, 0.25), (2, 0.45), (3, 0.30)):
        assert abs(counts[level] / len(BANK.items) - share) < 0.06, counts


def test_seeds_are_corrected():
    corrected = {claim for item in BANK.items for claim in item.corrects}
    wanted = {f"000.{n}" for n in range(1, 7)} | {f"001.{n}" for n in range(1, 6)}
    assert wanted <= corrected


def test_open_questions_cover_the_course():
    assert {question.kind for question in BANK.open} == {"explain", "whiteboard", "design"}
    assert len({question.topic for question in BANK.open}) >= 12


def test_each_lesson_has_questions_of_many_kinds():
    for lesson in (each for each in LESSONS[1:] if each.asks):
        kinds = {item.kind for item in BANK.choose(lesson=lesson.slug)}
        assert kinds >= {"single", "bug", "output", "trace", "order"}, lesson.slug


# ---- proofs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", sorted({item.topic for item in PROVED}))
def test_proof(topic, subtests, record_property):
    proved = 0
    for item in PROVED:
        if item.topic == topic:
            with subtests.test(item.id):
                proofs.prove(item)
                proved += 1
    record_property("questions proved", proved)


def test_shown_proof_is_a_program(subtests):
    for item in PROVED:
        with subtests.test(item.id):
            compile(proofs.as_program(item), item.id, "exec")


@pytest.mark.parametrize("kind", KINDS)
def test_shown_proof_runs_alone_and_prints_the_verdict(kind):
    """One of each kind: what the box shows can be copied and run."""
    item = next(item for item in BANK.items if item.kind == kind and item.proved)
    shown = proofs.printed(proofs.as_program(item))
    if isinstance(item, ChoiceItem) and item.proof:
        verdicts = ["holds" if choice.right else "does not hold" for choice in item.choices]
        assert shown.splitlines()[-len(verdicts) :] == [
            f"{name}: {verdict}" for name, verdict in zip("1234567", verdicts, strict=False)
        ]
    elif isinstance(item, NumberItem):
        assert item.accepts(float(shown.split()[0]))
    else:
        assert shown


def test_no_two_items_of_a_topic_share_key_and_proof():
    seen = Counter()
    for item in BANK.items:
        key = item.code if isinstance(item, ChoiceItem) and item.kind == "output" else item.proof
        if key:
            right = sorted(c.text for c in item.choices if c.right) if _chosen(item) else [item.id]
            seen[item.topic, key, *right] += 1
    assert max(seen.values()) == 1


def _chosen(item):
    return isinstance(item, ChoiceItem)


def test_what_cannot_run_cites_a_source_with_a_version_or_an_address():
    for item in BANK.items:
        assert len(item.source) > 8, item.id


# ---- give-aways ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STRATEGIES)
def test_guessing_by_form_gains_nothing(name):
    singles = single_choice(BANK.items)
    assert gain(STRATEGIES[name], singles) <= 5
    for topic in bank.topics_there():
        of_topic = [item for item in singles if item.topic == topic]
        assert gain(STRATEGIES[name], of_topic) <= 15, topic


def test_the_guard_sees_each_give_away(write):
    given_away = {
        "the longest": ("A very long and precise right answer", "no", "yes"),
        "the first": ("same", "else", "more"),
        "the most hedged": ("It may often depend", "It is always so", "It is never so"),
        "the only one with code": ("`x.half()`", "twice x", "half x"),
    }
    for name, (right, *wrong) in given_away.items():
        found = bank.read(write(choices(right, *wrong)))
        assert gain(STRATEGIES[name], single_choice(found.items)) > 50, name


def test_no_choice_refers_to_other_choices():
    for item in EVERYTHING:
        for choice in getattr(item, "choices", ()):
            assert not ALL_OF_THEM.search(choice.text), (item.id, choice.text)


def test_numbers_stand_in_ascending_order():
    for item in BANK.items:
        if isinstance(item, ChoiceItem) and item.kind == "single":
            try:
                values = [float(choice.text.replace(",", "")) for choice in item.choices]
            except ValueError:
                continue
            assert values == sorted(values), item.id


# ---- the English --------------------------------------------------------------------------------


def test_prose_is_plain():
    found = [each for item in (*EVERYTHING, *BANK.open) for each in check_bank.words(item)]
    assert not found, "\n".join(found)


def test_prose_that_is_not_plain_is_told_with_the_question(write):
    text = choices("a", "b").replace("Which?", "Simply choose (a) or $x$.")
    output = check_bank.words(bank.read(write(text)).items[0])
    assert output == [
        "memory.one: 'Simply': leave it out",
        "memory.one: no formulas, write them as code: Simply choose (a) or $x$.",
        "memory.one: choices have no letters here: Simply choose (a) or $x$.",
    ]


# ---- the tool that writers call -----------------------------------------------------------------


def test_the_tool_has_a_help(capsys):
    with pytest.raises(SystemExit, match="0"):
        check_bank.main(["--help"])
    assert "such as grad_scaler" in capsys.readouterr().out


def test_the_tool_knows_the_nearest_topic(capsys):
    assert check_bank.main(["grad_scaller"]) == 2
    output = capsys.readouterr().err
    assert output == "no topic is called 'grad_scaller'; did you mean grad_scaler?\n"


def test_the_tool_names_a_proof_that_fails_and_a_sentence_that_is_not_plain(
    write, monkeypatch, capsys
):
    folder = write(WRONG_PROOFS["leaves no answer"].replace("Which?", "Obviously?"))
    monkeypatch.setattr(bank, "FOLDER", folder)
    assert check_bank.main(["memory"]) == 1
    output = capsys.readouterr().out
    assert "memory.one: 'Obviously': leave it out" in output
    assert "memory.one: its proof leaves no `answer` behind" in output


# ---- reading and choosing -----------------------------------------------------------------------


def test_each_question_is_found_by_its_id():
    for item in (*EVERYTHING, *BANK.open):
        assert BANK.find(item.id) is item


def test_choose_narrows_by_everything_asked_for():
    found = BANK.choose(lesson="06", kind="bug", level=2)
    assert found
    assert {(item.topic, item.kind, item.level) for item in found} == {("grad_scaler", "bug", 2)}
    assert BANK.choose(topic="memory") == BANK.choose(lesson="memory")
    shared = BANK.choose(topic="myths_and_clinic")
    assert BANK.choose(lesson="myths") == BANK.choose(lesson="clinic") == shared


@pytest.mark.parametrize(
    ("asked", "output"),
    [
        ({"kind": "bugs"}, "no kind is called 'bugs'; did you mean bug?"),
        ({"topic": "grad_scaller"}, "no topic is called 'grad_scaller'; did you mean grad_scaler"),
        ({"level": 4}, "no level is called 4; there are 1, 2 and 3"),
        ({"lesson": "06", "topic": "memory"}, "leave one condition out"),
        ({"lesson": "17"}, "leave the lesson out"),
    ],
)
def test_what_is_not_there_is_told_with_the_nearest(asked, output):
    with pytest.raises(bank.BankError, match=output.replace("?", r"\?")):
        BANK.choose(**asked)


def test_unknown_id_is_told_with_the_nearest():
    wanted = BANK.items[0].id
    with pytest.raises(bank.BankError, match=wanted):
        BANK.find(wanted[:-1])


def test_reading_the_bank_brings_no_torch():
    code = "import sys; from amp_lessons.quiz import bank, markup; bank.load()\n"
    code += "print([m for m in ('torch', 'numpy') if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# ---- what is malformed --------------------------------------------------------------------------

HEAD = """
[[item]]
id = "one"
kind = "single"
level = 1
prompt = "Which?"
hint = "Look."
source = "IEEE 754-2019"
"""


def choice(text, right=False, **more):
    lines = [f"text = {json.dumps(text)}", 'why = "Because."', f"right = {str(right).lower()}"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in more.items()]
    return "[[item.choice]]\n" + "\n".join(lines) + "\n"


def choices(right, *wrong, head=HEAD):
    return head + choice(right, right=True) + "".join(choice(text) for text in wrong)


@pytest.fixture
def write(tmp_path):
    """Write a topic's file, and give the folder to read."""
    made = []

    def write_(text, topic="memory") -> Path:
        folder = tmp_path / str(len(made))
        made.append(folder)
        folder.mkdir()
        (folder / f"{topic}.toml").write_text(text, encoding="utf-8")
        return folder

    return write_


PROOF = 'proof = "import math\\nroot = math.sqrt(4)"\n'
NUMBER = HEAD.replace("single", "number") + 'answer = 2\nexplanation = "So."\n'
WRONG = '[[item.mistake]]\nvalue = 3\nwhy = "No."\n'
ORDER = (
    HEAD.replace("single", "order") + 'lines = ["a = 1", "b = a", "c = b"]\nexplanation = "So."\n'
)
DISTRACTOR = '[[item.distractor]]\ntext = "d = 1"\nwhy = "No."\n'

MALFORMED = {
    "two right": (HEAD + choice("a", True) + choice("b", True), "a single has one right choice"),
    "none right": (HEAD + choice("a") + choice("b"), "has one right choice, and this has 0"),
    "one choice": (HEAD + choice("a", True), "needs 2 to 5 choices"),
    "same choices": (choices("a", "b", "b"), "two of its choices are the same"),
    "no explanation": (choices("a", "b").replace('why = "Because."', 'why = ""'), "why: is empty"),
    "no why": (choices("a", "b").replace('why = "Because."\n', ""), "why: is missing"),
    "no hint": (choices("a", "b").replace('hint = "Look."\n', ""), "hint: is missing"),
    "unknown kind": (choices("a", "b").replace('"single"', '"singel"'), "did you mean single"),
    "unknown level": (choices("a", "b").replace("level = 1", "level = 4"), "level"),
    "unknown field": (choices("a", "b", head=HEAD + 'lesson = "06"\n'), "no field that we know"),
    "unknown table": ("[[items]]\nid = 1\n", "unknown table 'items'"),
    "no TOML": ("[[item", "not valid TOML"),
    "twice": (choices("a", "b") + choices("a", "b"), "another item has this id"),
    "unknown enemy": (choices("a", "b", head=HEAD + 'enemies = ["memory.two"]\n'), "enemies"),
    "bad id": (choices("a", "b").replace('"one"', '"One!"'), "id"),
    "bug without code": (choices("a", "b").replace('"single"', '"bug"'), "a bug needs code"),
    "trace without log": (choices("a", "b").replace('"single"', '"trace"'), "a log or a plot"),
    "proof without claims": (choices("a", "b", head=HEAD + PROOF), "each choice needs `holds`"),
    "claims without proof": (HEAD + choice("a", True, holds="x") + choice("b"), "has no proof"),
    "proof of all": (
        HEAD + PROOF + choice("a", True, holds="root == 2") + choice("b", holds="root == 2"),
        "its proof proves two choices",
    ),
    "literal claim": (
        HEAD + PROOF + choice("a", True, holds="2 == 2") + choice("b", holds="root == 3"),
        "compares only literals",
    ),
    "proof of nothing": (
        HEAD + 'proof = "x = 2"\n' + choice("a", True, holds="x == 2") + choice("b", holds="x > 2"),
        "its proof computes nothing",
    ),
    "proof with a typo": (NUMBER + 'proof = "answer = ("\n' + WRONG, "not valid Python"),
    "number without mistake": (NUMBER, "needs a mistake"),
    "mistake that is right": (NUMBER + WRONG.replace("3", "2"), "would be accepted as right"),
    "order without distractor": (ORDER, "needs a distractor"),
    "order against itself": (ORDER + "before = [[2, 0]]\n" + DISTRACTOR, "contradicts"),
    "order out of range": (ORDER + "before = [[0, 7]]\n" + DISTRACTOR, "places from 0 to 2"),
    "order with a strange proof": (
        ORDER + 'proof = "answer = 1 + 1"\n' + DISTRACTOR,
        "defines accepts",
    ),
}


@pytest.mark.parametrize("fault", MALFORMED)
def test_fault_is_told_with_file_and_item(write, fault):
    text, output = MALFORMED[fault]
    with pytest.raises(bank.BankError) as refused:
        bank.read(write(text))
    message = str(refused.value)
    assert message.startswith("memory.toml")
    assert output in message
    assert "\n" not in message.strip() or fault == "no TOML"


def test_unknown_topic_is_told_with_the_nearest(write):
    with pytest.raises(bank.BankError, match=r"memroy\.toml: .*did you mean memory"):
        bank.read(write(choices("a", "b"), topic="memroy"))


def test_well_formed_item_is_read(write):
    found = bank.read(write(choices("a", "b")))
    assert [item.id for item in found.items] == ["memory.one"]


# ---- proofs that fail ---------------------------------------------------------------------------

WRONG_PROOFS = {
    "proves a wrong choice": HEAD
    + PROOF
    + choice("a", True, holds="root == 2")
    + choice("b", holds="root < 3"),
    "does not prove the right one": HEAD
    + PROOF
    + choice("a", True, holds="root == 3")
    + choice("b", holds="root == 4"),
    "raises": HEAD
    + 'proof = "import math\\nroot = math.sqrt(-1)"\n'
    + choice("a", True, holds="root == 2")
    + choice("b", holds="root == 3"),
    "names what is not there": HEAD
    + PROOF
    + choice("a", True, holds="route == 2")
    + choice("b", holds="root == 3"),
    "gives another number": NUMBER + 'proof = "answer = 2 + 2"\n' + WRONG,
    "leaves no answer": NUMBER + 'proof = "found = 1 + 1"\n' + WRONG,
    "takes every order": ORDER
    + 'proof = "def accepts(lines):\\n    return len(lines) + 1 > 0"\n'
    + DISTRACTOR,
    "prints something else": HEAD.replace("single", "output")
    + 'code = "print(1 + 1)"\n'
    + choice("3", True)
    + choice("2"),
}


@pytest.mark.parametrize("fault", WRONG_PROOFS)
def test_wrong_proof_fails_and_names_the_item(write, fault):
    item = bank.read(write(WRONG_PROOFS[fault])).items[0]
    with pytest.raises(proofs.ProofError, match=r"memory\.one"):
        proofs.prove(item)


def test_a_proof_may_read_a_flag_of_a_module(write):
    proof = 'proof = "import sys\\nstrict = sys.flags.hash_randomization"\n'
    claims = choice("a", True, holds="strict in (0, 1)") + choice("b", holds="strict == 2")
    proofs.prove(bank.read(write(HEAD + proof + claims)).items[0])


def test_right_proofs_pass(write):
    order = 'proof = "def accepts(lines):\\n    names = {}\\n    exec(chr(10).join(lines), names)'
    order += "\\n    return names['c'] == 1 and 'd' not in names\"\n"
    right = [
        HEAD + PROOF + choice("a", True, holds="root == 2") + choice("b", holds="root == 3"),
        NUMBER + 'proof = "answer = 1 + 1"\n' + WRONG,
        ORDER + order + DISTRACTOR,
    ]
    for text in right:
        proofs.prove(bank.read(write(text)).items[0])


def test_front_ends_can_rely_on_the_three_forms():
    for item in EVERYTHING:
        assert isinstance(item, ChoiceItem | NumberItem | OrderItem)
        assert item.form in ("one", "many", "number", "order")
