"""The doctor's reports of a class in one table: nobody is lost, and no file can stop it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from amp_lessons.app import class_reports, cli, doctor
from amp_lessons.app.doctor import Problem

OLD_TORCH = Problem("torch is version 2.5", 'python -m pip install "torch>=2.13,<3"', blocks=True)
NO_GPU = Problem("torch is built for the CPU", "install the build for your driver", blocks=False)


@pytest.fixture(scope="module")
def report() -> dict:
    """What the doctor says here."""
    return doctor.as_json(doctor.examine()) | {"ok": True, "problems": []}


@pytest.fixture
def send(tmp_path, report) -> Callable[..., Path]:
    """Write a learner's report into the folder, and give the folder."""

    def send_(name: str, *problems: Problem, encoding: str = "utf-8", **changed: object) -> Path:
        ok = not any(problem.blocks for problem in problems)
        data = report | {"ok": ok, "problems": list(map(vars, problems))} | changed
        file = tmp_path / "reports" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(data, indent=1), encoding=encoding)
        return tmp_path / "reports"

    return send_


def call(*words: object) -> int:
    with pytest.raises(SystemExit) as leaving:
        cli.main(["doctor", *map(str, words)])
    return leaving.value.code


def test_the_table_says_who_is_ready_who_is_not_and_the_cure(send, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    send("ada.json")
    send("bea.json", OLD_TORCH, NO_GPU)
    folder = send("cy.json", NO_GPU)
    assert call(folder) == 1
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    cells = [[cell.strip() for cell in row.strip("│").split("│")] for row in rows]
    assert cells == [
        ["bea", "no", OLD_TORCH.what, OLD_TORCH.cure],
        ["bea", "no", NO_GPU.what, NO_GPU.cure],
        ["ada", "yes", "", ""],
        ["cy", "yes", NO_GPU.what, NO_GPU.cure],
    ]


def test_it_succeeds_only_if_everybody_is_ready(send, capsys):
    folder = send("ada.json")
    assert call(folder) == 0
    assert capsys.readouterr().out.endswith("1 of 1 is ready.\n")
    send("bea.json", OLD_TORCH)
    assert call(folder) == 1
    assert capsys.readouterr().out.endswith("1 of 2 is ready.\n")


@pytest.mark.parametrize(
    ("name", "encoding", "learner"),
    [
        ("ada.txt", "utf-16", "ada"),  # what > writes in an older PowerShell
        ("ada.json", "utf-8-sig", "ada"),
        ("doejane_123_456_report.json", "utf-8", "doejane"),
        ("Jane Doe_12_assignsubmission_file/report.json", "utf-8", "Jane Doe"),
    ],
)
def test_reports_come_as_people_and_learning_platforms_send_them(send, name, encoding, learner):
    (found,) = class_reports.read(send(name, encoding=encoding))
    assert (found.learner, found.ready) == (learner, True)


def test_the_class_s_list_says_who_sent_nothing(send, tmp_path, capsys):
    send("lovelace ada.json")
    roster = tmp_path / "roster.csv"
    roster.write_text("name,email\nAda Lovelace,ada@example.org\nBea Ng,bea@example.org\n")
    assert call(send("eve.json"), "--roster", roster, "--json") == 1
    found = json.loads(capsys.readouterr().out)["learners"]
    assert [(each["learner"], each["ready"]) for each in found] == [
        ("Bea Ng", None),
        ("eve", True),
        ("lovelace ada", True),
    ]
    assert found[0]["problems"][0]["what"] == "sent no report"


BROKEN = {
    "empty.json": b"",
    "table.json": b"Python 3.11\nNo problem found.",
    "list.json": b"[1]",
    "number.json": b"7",
    "nested.json": b"[" * 200_000,
    "digits.json": b"9" * 5_000,
    "large.json": b" " * (class_reports.LARGEST + 1),
    "half.json": b'{"ok": true, "problems": [',
    "no_ok.json": b'{"problems": []}',
    "ok_as_text.json": b'{"ok": "yes", "problems": []}',
    "odd_problem.json": b'{"ok": true, "problems": [{"what": 1, "cure": "", "blocks": false}]}',
    "no_cure.json": b'{"ok": true, "problems": [{"what": "", "blocks": false}]}',
    "bytes.json": bytes(range(256)),
}


def test_a_broken_report_is_a_line_and_stops_nobody(send, tmp_path):
    folder = send("zoe.json")
    for name, content in BROKEN.items():
        (folder / name).write_bytes(content)
    (folder / "nobody").mkdir()
    (folder / "link.json").symlink_to(folder / "zoe.json")
    os.mkfifo(folder / "pipe.json")
    (folder / ".hidden.json").write_text("{")
    *broken, zoe = class_reports.read(folder)
    assert (zoe.learner, zoe.ready) == ("zoe", True)
    names = [*(Path(name).stem for name in BROKEN), "nobody", "link", "pipe"]
    assert [each.learner for each in broken] == sorted(names)
    for each in broken:
        assert each.ready is None
        (problem,) = each.problems
        assert problem.what.endswith("is no report of the doctor")
        assert problem.cure == class_reports.ASK_FOR_IT


def test_a_report_that_says_ok_and_blocks_is_not_ready(send):
    (found,) = class_reports.read(send("ada.json", OLD_TORCH, ok=True))
    assert found.ready is False


def test_what_a_report_says_cannot_steer_the_terminal(send, capsys):
    odd = Problem("\x1b[2J[bold]red[/bold]\n" + "x" * 5_000, "\x07cure\u202e", blocks=True)
    call(send("ada\x1b[1m.json", odd))
    told = capsys.readouterr().out
    assert not {"\x1b", "\x07", "\u202e"} & set(told)
    assert "[bold]red" in told.replace("\n", "")
    assert told.count("x") <= class_reports.LONGEST


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere",), "nowhere cannot be read: No such file or directory"),
        (("a_file",), "a_file cannot be read: Not a directory"),
        (("empty",), "empty holds no report: ask for it: amp-lessons doctor --json > NAME.json"),
        (("--roster", "a_file"), "--roster goes with a folder of reports"),
        (("full", "--roster", "nowhere"), "--roster: nowhere cannot be read"),
        (("full", "--roster", "empty/roster.csv"), "names nobody"),
    ],
)
def test_a_wrong_call_gets_one_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    for name in ("a_file", "empty/roster.csv", "full/ada.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert call(*words) != 0
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert output.err.count("\n") == 1
