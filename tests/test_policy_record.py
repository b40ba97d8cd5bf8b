"""The recorded policy against the live one, and what it tells of a difference."""

from __future__ import annotations

import dataclasses
import json

import pytest
import record_policy
import torch

from amp_lessons import policy, policy_record
from amp_lessons.policy_record import PolicyRecordError, RecordedPolicy, compared, differences

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


def test_versions_are_releases():
    assert policy_record.versions()
    assert all("+" not in version for version in policy_record.versions())
    assert policy_record.release("2.13.0+cpu") == "2.13.0"
    assert json.loads(policy_record.FILE.read_text())["columns"] == list(policy_record.COLUMNS)


def test_a_difference_is_told_in_one_line(live):
    rows = [dict(row) for row in live["cuda", "float16"] if row["op"] in ("softmax", "mm", "add")]
    for row in rows:
        if row["op"] == "softmax":
            row["low"] = "float16"
    told = compared(policy_record.versions()[-1] + "+cpu", rows)
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
    with pytest.raises(PolicyRecordError, match=r"recorded: 2\.13\.0"):
        policy_record.table("cpu", "float16", "1.0.0")
    with pytest.raises(PolicyRecordError, match="no record of autocast"):
        policy_record.table("tpu", "float16")


def test_the_tool_writes_what_the_module_reads():
    text = policy_record.FILE.read_text(encoding="utf-8")
    assert record_policy.as_text(json.loads(text)["versions"]) == text
    two = {"2.14.0": {}, "2.9.1": {}}
    assert list(json.loads(record_policy.as_text(two))["versions"]) == ["2.9.1", "2.14.0"]
