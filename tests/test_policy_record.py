"""The recorded policy against the live one, and what is said of two versions' differences."""

from __future__ import annotations

import dataclasses
import json

import pytest
import record_policy
import torch
from click.testing import Result
from packaging.version import Version
from typer.testing import CliRunner

from amp_lessons import cli, policy, policy_record
from amp_lessons.policy import shown
from amp_lessons.policy_record import PolicyRecordError, RecordedPolicy, compared, differences
from amp_lessons.policy_record.changes import BUILD_ONLY, KINDS, kind_of, since

RELEASE = policy_record.release(torch.__version__)
CASES = [(device, dtype) for device in policy.DEVICES for dtype in ("float16", "bfloat16")]


@pytest.fixture(scope="module")
def live() -> dict[tuple[str, str], list[dict]]:
    return {case: policy.as_json(policy.policy_table(*case)) for case in CASES}


@pytest.mark.skipif(RELEASE not in policy_record.versions(), reason="this torch is not recorded")
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU answers more than fake tensors do")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_record_is_what_torch_answers(live, case):
    recorded = policy_record.table(*case, torch.__version__)
    assert tuple(recorded) == policy.OPS
    assert differences(recorded, policy_record.from_plain(live[case])) == []
    assert compared(torch.__version__, live[case]) == ""


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
        assert (kept["torch"], kept["columns"]) == (version, list(policy_record.COLUMNS))


@pytest.mark.parametrize("text", ["2.13", "2.13.0", "2.13.0+cu130", " 2.13 "])
def test_a_version_may_be_shortened(text):
    assert policy_record.find_version(text) == "2.13.0"


@pytest.mark.parametrize("text", ["", "2.1", "13", "2.13.", "2.13.00", "new", "../../x"])
def test_an_unknown_version_is_answered_with_the_known_ones(text):
    with pytest.raises(PolicyRecordError, match=r"not recorded; recorded: .*2\.13\.0, .*2\.15\.0"):
        policy_record.find_version(text)


def test_a_difference_is_told_in_one_line(live):
    rows = [dict(row) for row in live["cuda", "float16"] if row["op"] in ("softmax", "mm", "add")]
    for row in rows:
        if row["op"] == "softmax":
            row["low"] = "float16"
    told = compared("2.13.0+cpu", rows)
    assert told == "1 of these 3 answers differs from that recorded for torch 2.13.0: softmax"
    told = compared("9.9.0+cu999", rows)
    assert told.startswith("torch 9.9.0 is not recorded")
    assert "2.13.0" in told


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


# ---- what changed between two versions ----------------------------------------------------------


def rows(device: str, dtype: str, version: str) -> list[dict]:
    """A recorded table as if a torch of that version had been asked now."""
    return [vars(each) for each in policy_record.table(device, dtype, version).values()]


def test_since_the_same_version_nothing_changed():
    rules = policy_record.rules("cuda", "2.13.0")
    found = since("2.13", "2.13.0+cpu", rows("cuda", "float16", "2.13.0"), rules)
    assert not found
    assert found.to_dict()["ops"] == []
    assert shown.changed(found) == [
        "autocast('cuda', float16), torch 2.13.0 beside 2.13.0: nothing changed, 303 asked"
    ]


def test_since_2_13_torch_2_15_has_a_new_op_and_two_are_gone():
    """torch.linalg.matrix_sqrth and its rule came with 2.14, which removed cholesky and qr."""
    rules = policy_record.rules("cpu", "2.15.0")
    found = since("2.13", "2.15.0+cu132", rows("cpu", "bfloat16", "2.15.0"), rules)
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
    rules = policy_record.rules("cuda", "2.13.0")
    found = since("2.9", "2.13.0", rows("cuda", dtype, "2.13.0"), rules)
    (rms_norm,) = found.of_kind("rule")
    assert rms_norm.op == "rms_norm"
    assert (rms_norm.recorded.low, rms_norm.now.low) == (dtype, "float32")
    assert (found.new_rules, found.old_rules) == (("rms_norm",), ())
    assert {each.op for each in found.of_kind("runs")} >= {"scaled_dot_product_attention"}


def test_a_result_that_only_the_op_changed_is_told_apart():
    """torch 2.14's FFT takes bfloat16 on CUDA. Autocast leaves it alone, as before."""
    found = since("2.13", "2.15.0", rows("cuda", "bfloat16", "2.15.0"), set())
    ops = {each.op: kind_of(each) for each in found.ops}
    assert ops["fft_fft"] == "result"
    assert ops["GRUCell"] == "runs"
    assert set(ops.values()) <= set(KINDS)


def test_a_few_ops_say_nothing_of_the_others():
    few = [row for row in rows("cpu", "float16", "2.15.0") if row["op"] in ("mm", "softmax")]
    found = since("2.13", "2.15.0", few)
    assert (found.asked, bool(found)) == (2, False)


def run(*words: str) -> Result:
    return CliRunner().invoke(cli.app, ["policy", *words])


def test_the_command_compares_with_a_version():
    done = run("--since", "2.9", "--device", "cuda")
    assert done.exit_code == 0
    assert f"torch {RELEASE} beside 2.9.1: " in done.output
    assert "- rms_norm: as given (float16, float32, float16) → float32 " in done.output


def test_the_command_gives_json():
    done = run("rms_norm", "mm", "--since", "2.9", "--device", "cuda", "--dtype", "bf16", "--json")
    (found,) = json.loads(done.output)["changes"]
    assert (found["before"], found["now"], found["asked"]) == ("2.9.1", RELEASE, 2)
    assert [(each["op"], each["kind"]) for each in found["ops"]] == [("rms_norm", "rule")]
    assert found["ops"][0]["before"]["group"] == "as given"


def test_the_command_knows_which_versions_there_are():
    done = run("--since", "1.4")
    assert done.exit_code == 2
    told = str(done.exception or "") + done.output
    assert "torch 1.4 is not recorded; recorded: 2.9.1, " in " ".join(told.split())
