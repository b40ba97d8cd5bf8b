"""Records: read, checked and written; measured and quoted are never mixed."""

from __future__ import annotations

import copy
import json

import pytest

from amp_lessons import records
from amp_lessons.records import RecordError, load_records, read_record, write_record

# Invented, and so only here: nothing in the package says that anybody measured this.
INVENTED = {
    "schema_version": 1,
    "name": "invented",
    "kind": "measured",
    "gpu": "Imaginary GPU",
    "driver": "1.2.3",
    "torch": "2.13.0",
    "date": "2026-01-02",
    "command": "amp-lessons bench --preset seed",
    "clock": "cuda events",
    "machine": {"cpu": "Imaginary CPU"},
    "peaks": {"flops": {"FP32": 5e13, "FP16": 8e14}, "bandwidth": 4e12},
    "rows": [
        {
            "workload": "mlp 4096x4096, 3 layers",
            "mode": "FP32",
            "samples_s": [0.020, 0.022, 0.021, 0.029, 0.0215],
            "calls": 50,
            "warm_up": 6,
            "settled": True,
            "step_flops": 1_000_000_000_000,
            "step_bytes": 10_000_000_000,
            "roof": 5e13,
            "peak_bytes": 700,
            "data_bytes": 600,
            "losses": [1.0, None, 0.5],
            "departs": "",
        }
    ],
    "not_measured": [{"workload": "cnn", "mode": "TF32", "reason": "no TF32"}],
}
QUOTED = {
    "schema_version": 1,
    "name": "a-page",
    "kind": "quoted",
    "source": "A page that says so.",
    "rows": [{"workload": "mlp", "mode": "FP32", "total_s": 3.0, "steps": 150}],
}


def put(folder, data, name="broken.json"):
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


# ---- the package's own --------------------------------------------------------------------------


def test_the_seed_is_quoted_with_its_source():
    (seed,) = (record for record in load_records() if record.name == "seed_003")
    assert seed.kind == "quoted"
    assert seed.gpu is None
    assert "warm-up" in seed.source
    fp32, amp = seed.rows
    assert (fp32.total_s, amp.total_s) == (7.738, 3.325)
    assert fp32.median_s / amp.median_s == pytest.approx(2.33, abs=0.005)
    assert (fp32.tflops, amp.tflops) == (
        pytest.approx(21.3, abs=0.05),
        pytest.approx(49.6, abs=0.05),
    )
    assert amp.peak_bytes - fp32.peak_bytes == 100_686_848
    assert (fp32.step_peak_bytes, amp.step_peak_bytes) == (822_446_592, 923_133_440)
    assert fp32.samples_s == ()
    assert fp32.spread is None


def test_every_record_of_the_package_is_whole():
    for record in load_records():
        assert record.source
        for row in record.rows:
            assert bool(row.samples_s) == (record.kind == "measured")


# ---- reading ------------------------------------------------------------------------------------


def test_no_records_are_no_error(tmp_path):
    assert load_records(tmp_path) == []


def test_records_come_by_name_and_the_schema_is_none(tmp_path):
    put(tmp_path, INVENTED, "z.json")
    put(tmp_path, QUOTED, "a.json")
    put(tmp_path, "{}", "record.schema.json")
    assert [record.kind for record in load_records(tmp_path)] == ["quoted", "measured"]


def test_a_measured_record_gives_medians_and_shares(tmp_path):
    record = read_record(put(tmp_path, INVENTED))
    assert record.gpu == "Imaginary GPU"
    assert record.source == "Imaginary GPU, 2026-01-02: amp-lessons bench --preset seed"
    assert record.bandwidth == 4e12
    (row,) = record.rows
    assert row.median_s == 0.0215
    assert row.spread == pytest.approx(0.001 / 0.0215)
    assert row.tflops == pytest.approx(1 / 0.0215)
    assert row.share == pytest.approx(1e12 / 0.0215 / 5e13)
    assert row.intensity == 100
    assert row.step_peak_bytes == 100
    assert row.losses == (1.0, None, 0.5)
    assert record.details["driver"] == "1.2.3"


def test_what_is_not_known_is_none(tmp_path):
    (row,) = read_record(put(tmp_path, QUOTED)).rows
    assert row.median_s == 0.02
    unknown = (row.tflops, row.share, row.intensity, row.step_peak_bytes, row.departs)
    assert set(unknown) == {None}


# ---- what breaks the schema ---------------------------------------------------------------------


def without(data, *path):
    data = copy.deepcopy(data)
    place = data
    for part in path[:-1]:
        place = place[part]
    del place[path[-1]]
    return data


def having(data, value, *path):
    data = copy.deepcopy(data)
    place = data
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    return data


BROKEN = {
    "no kind": (without(QUOTED, "kind"), "'kind'"),
    "another kind": (having(QUOTED, "guessed", "kind"), "kind"),
    "another version": (having(QUOTED, 2, "schema_version"), "schema_version"),
    "a quoted one without a source": (without(QUOTED, "source"), "'source'"),
    "a quoted one with an empty source": (having(QUOTED, "", "source"), "source"),
    "a quoted one with samples": (having(QUOTED, [1.0, 1.0], "rows", 0, "samples_s"), "samples_s"),
    "a quoted one that has a driver": (having(QUOTED, "1", "driver"), "driver"),
    "a quoted time of zero": (having(QUOTED, 0, "rows", 0, "total_s"), "rows[0].total_s"),
    "a measured one that quotes": (having(INVENTED, "a page", "source"), "source"),
    "a measured row with a total": (having(INVENTED, 7.0, "rows", 0, "total_s"), "total_s"),
    "one sample": (having(INVENTED, [1.0], "rows", 0, "samples_s"), "rows[0].samples_s"),
    "a sample in words": (having(INVENTED, [1.0, "2"], "rows", 0, "samples_s"), "samples_s[1]"),
    "a negative sample": (having(INVENTED, [1.0, -2], "rows", 0, "samples_s"), "samples_s[1]"),
    "a date in words": (having(INVENTED, "today", "date"), "date"),
    "no rows": (having(INVENTED, [], "rows"), "rows"),
    "a field that nobody knows": (having(INVENTED, 1, "rows", 0, "speed"), "speed"),
    "a list": ([], "the top"),
} | {
    f"a measured one without {name}": (without(INVENTED, name), f"'{name}'")
    for name in ("gpu", "driver", "torch", "date", "command", "clock", "peaks")
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_record_is_one_line_with_file_and_field(tmp_path, case):
    data, field = BROKEN[case]
    with pytest.raises(RecordError) as raised:
        read_record(put(tmp_path, data))
    message = str(raised.value)
    assert "broken.json" in message
    assert field in message
    assert "\n" not in message
    assert len(message) < 400


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"name": NaN}', "[" * 100_000, '{"rows": Infinity}', '{"a": 1e999}'],
    ids=lambda t: t[:12],
)
def test_what_is_no_json_is_one_line(tmp_path, text):
    with pytest.raises(RecordError, match=r"broken\.json is no JSON: ") as raised:
        load_records(put(tmp_path, text).parent)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(RecordError, match="cannot be read"):
        read_record(tmp_path / "none.json")


# ---- writing ------------------------------------------------------------------------------------


def test_what_is_written_reads_the_same(tmp_path):
    write_record(tmp_path / "new.json", INVENTED)
    (record,) = load_records(str(tmp_path))
    assert record.details == INVENTED


def test_a_broken_record_is_not_written_over_a_good_one(tmp_path):
    path = put(tmp_path, INVENTED)
    with pytest.raises(RecordError, match="'gpu'"):
        write_record(path, without(INVENTED, "gpu"))
    assert json.loads(path.read_text()) == INVENTED
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_one_line(tmp_path):
    with pytest.raises(RecordError, match="cannot be written"):
        write_record(tmp_path / "none" / "r.json", INVENTED)


def test_the_schema_is_valid_itself():
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(
        json.loads((records.FOLDER / "record.schema.json").read_text(encoding="utf-8"))
    )
