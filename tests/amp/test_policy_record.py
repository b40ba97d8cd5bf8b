"""The recorded policy against the live one, and what is said of two versions' differences."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import policy_tables
import pytest
import record_policy
import torch
from click.testing import Result
from packaging.version import Version
from typer.testing import CliRunner

from amp_lessons.amp import policy, policy_record
from amp_lessons.amp.policy import shown
from amp_lessons.amp.policy_record import (
    PolicyRecordError,
    RecordedPolicy,
    asked,
    compared,
    differences,
)
from amp_lessons.amp.policy_record.changes import BUILD_ONLY, KINDS, PolicyChanges, kind_of, since
from amp_lessons.app import cli

RELEASE = policy_record.release(torch.__version__)
CASES = [(device, dtype) for device in policy.DEVICES for dtype in ("float16", "bfloat16")]
DTYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}


@pytest.fixture(scope="module")
def live() -> dict[tuple[str, str], list[dict]]:
    return {(d, t): policy.as_json(policy_tables.live(d, DTYPES[t])) for d, t in CASES}


@pytest.mark.skipif(RELEASE not in policy_record.versions(), reason="this torch is not recorded")
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU answers more than fake tensors do")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_record_is_what_torch_answers(live, case):
    recorded = policy_record.table(*case, torch.__version__)
    assert tuple(recorded) == policy.OPS
    changed = differences(recorded, policy_record.from_plain(live[case]))
    assert [each.op for each in changed if not refused_by_a_cpu(each.recorded)] == []
    output = compared(torch.__version__, live[case])
    assert bool(output) == bool(changed)


def refused_by_a_cpu(recorded: RecordedPolicy) -> bool:
    """The CPU of the record couldn't run it: an LSTM in FP16, which some CPUs do."""
    return recorded.device == "cpu" and None in (recorded.low, recorded.full)


@pytest.mark.skipif(RELEASE not in policy_record.versions(), reason="this torch is not recorded")
@pytest.mark.parametrize("device", policy.DEVICES)
def test_the_recorded_rules_are_the_dispatchers(device):
    assert policy_record.rules(device, RELEASE) == policy.rules(device) - BUILD_ONLY
    assert len(policy_record.rules(device, RELEASE)) >= 100


def test_versions_are_releases_the_newest_last():
    found = policy_record.versions()
    assert {"2.13.0", "2.15.0"} <= set(found)
    assert list(found) == sorted(found, key=Version)
    assert all("+" not in version for version in found)
    assert policy_record.release("2.13.0+cpu") == "2.13.0"
    for version in found:
        kept = policy_record.read(version)
        short, long = policy_record.COLUMNS, (*policy_record.COLUMNS, *policy_record.DETAILS)
        assert kept["torch"] == version
        assert kept["columns"] in (list(short), list(long))
        rows = [
            r for dtypes in kept["answers"].values() for t in dtypes.values() for r in t.values()
        ]
        assert {len(row) for row in rows} == {len(kept["columns"])}


@pytest.mark.parametrize("text", ["2.13", "2.13.0", "2.13.0+cu130", " 2.13 ", "v2.13"])
def test_a_version_may_be_shortened(text):
    assert policy_record.find_version(text) == "2.13.0"


@pytest.mark.parametrize("text", ["", "2.1", "13", "2.13.", "2.13.00", "new", "../../x"])
def test_an_unknown_version_is_answered_with_the_known_ones(text):
    what = "is not recorded" if text else "^name a version of torch"
    with pytest.raises(PolicyRecordError, match=rf"{what}; recorded: .*2\.13\.0, .*2\.15\.0"):
        policy_record.find_version(text)


def test_a_version_with_another_last_number_is_answered_with_the_one_there_is():
    with pytest.raises(PolicyRecordError, match=r"2\.15\.0; of torch 2\.12 it is 2\.12\.1$"):
        policy_record.find_version("2.12.0")


def test_a_difference_is_told_in_one_line(live):
    rows = [dict(row) for row in live["cuda", "float16"] if row["op"] in ("softmax", "mm", "add")]
    for row in rows:
        if row["op"] == "softmax":
            row["low"] = "float16"
    output = compared("2.13.0+cpu", rows)
    assert output == "1 of these 3 answers differs from that recorded for torch 2.13.0: softmax"
    output = compared("9.9.0+cu999", rows)
    assert output.startswith("torch 9.9.0 is not recorded")
    assert "2.13.0" in output


def test_ops_that_are_new_or_gone_are_differences():
    before = {"mm": RecordedPolicy("mm", "cpu", "float16", None, None, None, "as given")}
    after = dataclasses.replace(before["mm"], op="bmm")
    found = differences(before, {"bmm": after})
    assert [(each.op, each.recorded, each.now) for each in found] == [
        ("bmm", None, after),
        ("mm", before["mm"], None),
    ]


def test_what_is_not_recorded_is_refused():
    with pytest.raises(PolicyRecordError, match=r"recorded: .*2\.13\.0"):
        policy_record.table("cpu", "float16", "1.0.0")
    with pytest.raises(PolicyRecordError, match="no record of autocast's rules"):
        policy_record.rules("tpu", "2.13.0")
    with pytest.raises(PolicyRecordError, match="no record of autocast"):
        policy_record.table("tpu", "float16")


def test_the_tool_writes_what_the_module_reads():
    for version in policy_record.versions():
        text = (policy_record.FOLDER / f"{version}.json").read_text(encoding="utf-8")
        assert record_policy.as_text(json.loads(text)) == text


# ---- one op, from the record --------------------------------------------------------------------

NOT_LIVE = pytest.mark.skipif(
    RELEASE not in policy_record.versions() or torch.cuda.is_available(),
    reason="this torch is not recorded, or a GPU answers more",
)


@NOT_LIVE
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_recorded_answer_is_the_live_one(live, case):
    rows = {row["op"]: row for row in live[case]}
    found = {op: asked.answers([op], *case) for op in rows}
    output = {op: answer[0] for op, answer in found.items() if answer}
    assert len(output) > 250
    for op, answer in output.items():
        assert answer == rows[op] | {"measured": asked.RECORDED}, op


@NOT_LIVE
def test_what_depends_on_the_machine_is_asked_live():
    assert asked.answers(["convolution"], "cpu", "fp16") is None
    assert asked.answers(["lstm"], "cpu", "fp16") is None
    assert asked.answers(["geqrf"], "cuda", "fp16") is None
    assert asked.answers(["mm", "geqrf"], "cuda", "fp16") is None
    (refused,) = asked.answers(["binary_cross_entropy"], "cuda", "fp16")
    assert refused["low"] is None


@pytest.mark.parametrize(
    "words", [(["sotfmax"], "cuda", "fp16"), (["mm"], "tpu", "fp16"), (["mm"], "cuda", "fp32")]
)
def test_what_the_record_does_not_have_is_asked_live(words):
    assert asked.answers(*words) is None


def test_another_version_is_asked_live(monkeypatch):
    monkeypatch.setattr(asked, "installed", lambda: "2.15.0+cpu")
    assert asked.answers(["mm"], "cuda", "fp16") is None, "of it fewer columns are recorded"
    monkeypatch.setattr(asked, "installed", lambda: "9.9.0")
    assert asked.answers(["mm"], "cuda", "fp16") is None


@NOT_LIVE
def test_policy_of_an_op_does_not_load_torch():
    code = (
        "import sys\nfrom amp_lessons.app import cli\n"
        "try:\n    cli.main(['policy', 'torch.softmax', 'mm'])\n"
        "except SystemExit as left:\n    assert left.code == 0\n"
        "assert 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"autocast('cuda', torch.float16), recorded for torch {RELEASE}" in done.stdout
    assert "why softmax: asks for a float32 result" in done.stdout


@NOT_LIVE
def test_live_asks_torch_and_finds_the_same():
    words = ("mm", "add", "--device", "cuda")
    recorded, now = (json.loads(run(*words, "--json", *more).output) for more in ((), ("--live",)))
    ((first,), (second,)) = recorded["tables"], now["tables"]
    assert (first["measured"], second["measured"]) == ("recorded", "fake tensors")
    for table in (first, second):
        for row in (table, *table["ops"]):
            row["measured"] = ""
    assert first == second


# ---- what changed between two versions ----------------------------------------------------------


def compare(before: str, now: str, device: str, dtype: str, rules: bool = True) -> PolicyChanges:
    """Two recorded versions, as if a torch of the second had been asked now."""
    live = policy_record.rules(device, now) if rules else None
    return since(before, f"{now}+cpu", rows(device, dtype, now), live, where=(device, dtype))


def rows(device: str, dtype: str, version: str, *ops: str) -> list[dict]:
    table = policy_record.table(device, dtype, version)
    return [vars(table[op]) for op in ops or table]


def test_since_the_same_version_nothing_changed():
    found = compare("2.13", "2.13.0", "cuda", "float16")
    assert not found
    assert found.to_dict()["ops"] == []
    assert shown.changed(found) == [
        "autocast('cuda', float16), torch 2.13.0 beside 2.13.0: nothing changed, 303 asked"
    ]


def test_since_2_13_torch_2_15_has_a_new_op_and_two_are_gone():
    """torch.linalg.matrix_sqrth and its rule came with 2.14, which removed cholesky and qr."""
    found = compare("2.13", "2.15.0", "cpu", "bfloat16")
    assert [(each.op, kind_of(each)) for each in found.ops] == [
        ("linalg_matrix_sqrth", "new"),
        ("cholesky", "gone"),
        ("qr", "gone"),
    ]
    assert (found.new_rules, found.old_rules) == (("linalg_matrix_sqrth",), ("cholesky", "qr"))
    assert shown.changed(found) == [
        "autocast('cpu', bfloat16), torch 2.15.0 beside 2.13.0: 3 ops differ",
        "new in torch:",
        "- linalg_matrix_sqrth: float32 (float32, float32, -)",
        "gone from torch:",
        "- cholesky: float32 (float32, float32, -)",
        "- qr: float32 (float32, float32, -)",
        "autocast now has a rule for: linalg_matrix_sqrth",
        "autocast no longer has a rule for: cholesky, qr",
    ]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_since_2_9_rms_norm_has_a_rule_on_cuda(dtype):
    """In torch 2.11 it stayed low; the rule came with 2.12 (see docs/versions.md)."""
    found = compare("2.9", "2.13.0", "cuda", dtype)
    (rms_norm,) = found.of_kind("rule")
    assert rms_norm.op == "rms_norm"
    assert (rms_norm.recorded.low, rms_norm.now.low) == (dtype, "float32")
    assert (found.new_rules, found.old_rules) == (("rms_norm",), ())
    assert {each.op for each in found.of_kind("runs")} >= {"scaled_dot_product_attention"}


def test_the_page_tells_of_each_op_that_changed():
    page = (Path(__file__).parents[2] / "docs" / "versions.md").read_text(encoding="utf-8")
    words = {"fft_": "Fourier", "gru": "GRU", "_multi_head": "nn.MultiheadAttention"}
    recorded = policy_record.versions()
    changed = {
        found.op
        for before, now in pairwise(recorded)
        for device, dtype in CASES
        for found in compare(before, now, device, dtype).ops
    }
    assert len(changed) >= 25
    for op in changed:
        named = [word for mark, word in words.items() if mark in f"_{op}".lower()]
        name = named[0] if named else op.removeprefix("linalg_")
        assert name in page, op


def test_a_result_that_only_the_op_changed_is_told_apart():
    """torch 2.14's FFT takes bfloat16 on CUDA. Autocast leaves it alone, as before."""
    found = compare("2.13", "2.15.0", "cuda", "bfloat16")
    ops = {each.op: kind_of(each) for each in found.ops}
    assert ops["fft_fft"] == "result"
    assert ops["GRUCell"] == "runs"
    assert set(ops.values()) <= set(KINDS)


def test_a_few_ops_say_nothing_of_the_others():
    where = ("cpu", "float16")
    few = rows(*where, "2.15.0", "mm", "softmax")
    found = since("2.13", "2.15.0", few, where=where)
    assert (found.asked, bool(found)) == (2, False)
    # an op that was asked too, and that only the recorded torch has
    found = since("2.13", "2.15.0", few, where=where, missing=["qr"])
    assert [(each.op, kind_of(each)) for each in found.ops] == [("qr", "gone")]


def test_a_newer_version_is_compared_the_right_way_round():
    """On torch 2.13, --since 2.15 shows what an upgrade changes: cholesky goes, it doesn't come."""
    found = compare("2.13", "2.15.0", "cuda", "float16")
    turned = compare("2.15", "2.13.0", "cuda", "float16")
    assert (turned.before, turned.now, turned.installed) == ("2.13.0", "2.15.0", "2.13.0")
    assert dataclasses.replace(turned, installed="2.15.0", asked=found.asked) == found
    assert shown.older(found) == []
    assert shown.older(turned) == [
        "This is what changes from torch 2.13.0, which is installed, to 2.15.0."
    ]


def test_what_both_dtypes_have_in_common_is_said_once():
    half, brain = (compare("2.13", "2.15.0", "cuda", low) for low in ("float16", "bfloat16"))
    lines = shown.all_changed([half, brain])
    (second,) = [i for i, line in enumerate(lines) if "bfloat16)" in line and "beside" in line]
    assert lines[second].endswith(": 24 ops differ; besides those above:")
    ops = [line.split(":")[0].removeprefix("- ") for line in lines[second:] if line[:2] == "- "]
    assert "fft_fft" in ops
    assert {"GRUCell", "cholesky"}.isdisjoint(ops)
    assert not any("a rule for" in line for line in lines[second:])
    cpu = [compare("2.13", "2.15.0", "cpu", low) for low in ("float16", "bfloat16")]
    assert shown.all_changed(cpu)[-1].endswith("3 ops differ, as in float16")


def run(*words: str) -> Result:
    return CliRunner().invoke(cli.app, ["policy", *words])


def test_the_command_compares_with_a_version():
    done = run("--since", "2.9", "--device", "cuda", "--dtype", "fp16")
    assert done.exit_code == 0
    assert f"torch {RELEASE} beside 2.9.1: " in done.output
    assert "- rms_norm: as given (float16, float32, float16) → float32 " in done.output


def test_the_command_gives_json():
    done = run("rms_norm", "mm", "--since", "2.9", "--device", "cuda", "--dtype", "bf16", "--json")
    (found,) = json.loads(done.output)["changes"]
    assert (found["before"], found["now"], found["asked"]) == ("2.9.1", RELEASE, 2)
    assert [(each["op"], each["kind"]) for each in found["ops"]] == [("rms_norm", "rule")]
    assert found["ops"][0]["before"]["group"] == "as given"


def test_the_command_asks_both_dtypes_and_tells_of_an_op_that_only_the_record_has():
    gone, there = ("qr", "2.13") if "qr" not in policy.OPS else ("linalg_matrix_sqrth", "2.15")
    done = run(gone, "mm", "--since", there, "--device", "cpu")
    assert done.exit_code == 0
    assert f"- {gone}: float32 (float32, float32, -)" in done.output
    assert "autocast('cpu', bfloat16)" in done.output
    assert done.output.endswith("1 op differs, as in float16\n")


def test_the_command_knows_which_versions_there_are():
    done = run("--since", "1.4")
    assert done.exit_code == 2
    output = str(done.exception or "") + done.output
    assert "torch 1.4 is not recorded; recorded: 2.9.1, " in " ".join(output.split())
