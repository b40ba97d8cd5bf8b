"""Records: read, checked and written; measured and quoted are never mixed."""

from __future__ import annotations

import copy
import json

import pytest
from invented_record import INVENTED

from amp_lessons.amp.speed import records
from amp_lessons.amp.speed.published.beside import family, published_beside
from amp_lessons.amp.speed.records import (
    RecordError,
    from_json,
    load_records,
    read_record,
    write_record,
)
from amp_lessons.amp.speed.records.handing_in import faults, unfit
from amp_lessons.amp.speed.records.own import (
    MANIFEST,
    make_room,
    own_folder,
    own_records,
    record_path,
)
from amp_lessons.app import workspace

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


# ---- a learner's own ----------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A workspace, with the current folder at its notebooks."""
    (tmp_path / MANIFEST).write_text("{}")
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    return tmp_path


def test_own_records_lie_beside_the_notebooks(here):
    assert MANIFEST == workspace.MANIFEST
    assert own_folder() == here / "records" == workspace.current_folder() / "records"


def test_outside_a_workspace_they_lie_in_the_default_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert own_folder() == workspace.current_folder() / "records"
    monkeypatch.setattr("amp_lessons.core.catalogue.checkout", lambda: None)
    assert own_folder() == tmp_path / "amp-lessons" / "records"
    assert own_folder() == workspace.current_folder() / "records"


def test_a_bare_name_is_a_file_there_and_any_other_is_taken_as_it_is(here):
    assert record_path("my_gpu") == record_path("my_gpu.json") == here / "records" / "my_gpu.json"
    for name in ("./my_gpu.json", "out/my_gpu.json", "/tmp/my_gpu.json", "../my_gpu.json"):
        assert str(record_path(name)) == name.removeprefix("./")


def test_no_record_is_written_over_another(here):
    for expected in ("a.json", "a-2.json", "a-3.json"):
        path = record_path("a")
        assert path.name == expected
        make_room(path)
        write_record(path, INVENTED)
    assert len(own_records()) == 3


def test_own_records_are_found_and_the_packages_are_not_among_them(here, capsys):
    (here / "records").mkdir()
    put(here / "records", INVENTED, "mine.json")
    (mine,) = own_records()
    assert mine.gpu == "Imaginary GPU"
    assert capsys.readouterr().out == ""


def test_a_broken_record_is_named_and_the_others_are_kept(here, capsys):
    folder = here / "records"
    folder.mkdir()
    put(folder, "{", "a.json")
    put(folder, without(INVENTED, "gpu"), "b.json")
    put(folder, INVENTED, "c.json")
    put(folder, having(INVENTED, 7, "schema_version"), "d.json")
    assert len(own_records()) == 1
    output = capsys.readouterr().out.splitlines()
    assert [line.startswith("left out: ") for line in output] == [True] * 3
    for line, name, field in zip(output, "abd", ("JSON", "'gpu'", "schema_version"), strict=True):
        assert f"{name}.json" in line
        assert field in line
    assert len(list(folder.iterdir())) == 4, "nothing is lost"


def test_without_a_record_one_line_says_how_to_make_one(here, capsys):
    assert own_records() == []
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("no record of your own yet: `amp-lessons bench --record my_gpu`")
    empty = here / "empty"
    empty.mkdir()
    heard = []
    assert own_records(empty, tell=heard.append) == []
    (line,) = heard
    assert line.startswith(f"no record in {empty}: ")


def test_a_folder_that_is_none_is_one_line(here):
    for place in (here / "none", here / MANIFEST):
        with pytest.raises(RecordError, match="is not a folder: name the folder"):
            own_records(place)
    (here / "records").write_text("a file")
    with pytest.raises(RecordError, match="is not a folder"):
        own_records()
    with pytest.raises(RecordError, match="cannot be written"):
        make_room(record_path("a"))


def test_the_bench_keeps_a_named_record_in_the_workspace(here, monkeypatch, capsys):
    import torch

    from amp_lessons.amp.speed import bench
    from amp_lessons.amp.speed.bench import report, screen
    from amp_lessons.app import cli

    made = having(INVENTED, "old-name", "name")
    found = bench.BenchReport(torch.device("cpu"), {}, "cuda events", {}, rows=made["rows"])
    monkeypatch.setattr(cli, "_bench_device", lambda *_: torch.device("cuda"))
    monkeypatch.setattr(screen, "measure", lambda *_, **__: found)
    for name in ("tables", "notes"):
        monkeypatch.setattr(report, name, lambda *_, **__: [])
    monkeypatch.setattr(report, "as_json", lambda _, command, name: made | {"name": name})
    for file in ("my_gpu.json", "my_gpu-2.json"):
        with pytest.raises(SystemExit) as done:
            cli.main(["bench", "--record", "my_gpu"])
        assert done.value.code in (0, None)
        path = here / "records" / file
        assert capsys.readouterr().out.splitlines()[-1] == f"record: {path}"
        assert read_record(path).rows[0].mode == "FP32"


# ---- handed in ----------------------------------------------------------------------------------


def handed_in():
    """An invented record that has all that is asked for."""
    data = having(INVENTED, [0.02 + i / 1e4 for i in range(7)], "rows", 0, "samples_s")
    data["rows"].append(copy.deepcopy(data["rows"][0]) | {"mode": "AMP BF16"})
    return data


def test_a_record_that_is_handed_in_is_checked_in_the_packages_folder(tmp_path):
    assert unfit() == []
    (tmp_path / "record.schema.json").write_text("{}")
    put(tmp_path, QUOTED, "a-page.json")
    put(tmp_path, handed_in(), "invented.json")
    assert unfit(tmp_path) == []
    put(tmp_path, handed_in(), "renamed.json")
    put(tmp_path, "{", "broken.json")
    broken, renamed = unfit(tmp_path)
    assert broken.startswith("broken.json: ")
    assert renamed.startswith("renamed.json: the record is called 'invented'")


def test_a_whole_record_can_be_handed_in(tmp_path):
    assert faults(put(tmp_path, handed_in(), "invented.json")) == []


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (having(handed_in(), "other", "name"), "'other' and its file 'invented'"),
        (having(handed_in(), "perf_counter", "clock"), "timed by cuda events"),
        (having(handed_in(), "interrupted", "stopped"), "ended early (interrupted)"),
        (having(handed_in(), "x --json /home/me/a.json", "command"), "a folder on your computer"),
        (having(handed_in(), "x --json=~/a.json", "command"), "a folder on your computer"),
        (having(handed_in(), "x --json C:\\me\\a.json", "command"), "a folder on your computer"),
        (having(handed_in(), "AMP FP16", "rows", 0, "mode"), "no FP32 row"),
        (having(handed_in(), [1.0, 2.0], "rows", 1, "samples_s"), "AMP BF16: 2 samples, and 7"),
        (having(handed_in(), False, "rows", 1, "settled"), "AMP BF16: the time was not stable"),
        (without(handed_in(), "driver"), "'driver'"),
        (QUOTED, "quotes figures"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_what_keeps_a_record_out_is_one_line(data, says, tmp_path):
    (output,) = faults(put(tmp_path, data, "invented.json"))
    assert says in output
    assert "\n" not in output


def test_the_tool_checks_files_and_says_so(tmp_path, capsys):
    import check_record

    good = str(put(tmp_path, handed_in(), "invented.json"))
    bad = str(put(tmp_path, handed_in(), "renamed.json"))
    assert check_record.main([good]) == 0
    assert capsys.readouterr().out == "ready to hand in\n"
    assert check_record.main([good, bad]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{bad}: ")
    assert check_record.main([]) == 2


# ---- beside what was published ------------------------------------------------------------------


def measured_on(gpu, workload):
    data = having(INVENTED, gpu, "gpu")
    row = data["rows"][0] | {"workload": workload}
    data["rows"] = [
        row | {"samples_s": [time, time], "mode": mode}
        for mode, time in (("FP32", 0.04), ("TF32", 0.02), ("AMP BF16", 0.01))
    ]
    return from_json(data)


def test_a_record_stands_beside_similar_networks_on_the_same_gpu():
    (found,) = published_beside(measured_on("NVIDIA A100-SXM4-80GB", "transformer 16x512, wide"))
    assert found.against == {"FP32": 4, "TF32": 2}
    assert len(found.neighbours) > 5
    gains = [one.speedup for one in found.neighbours]
    assert gains == sorted(gains)
    for one in found.neighbours:
        assert "A100" in one.gpu
        assert one.model.startswith(("BERT", "BART", "Transformer"))
        assert one.low <= one.speedup <= one.high
        assert one.where
    assert {one.baseline for one in found.neighbours} == {"TF32", "FP32/TF32"}
    assert (
        str(found).splitlines()[0] == "transformer 16x512, wide, AMP BF16: 4.00 x FP32, 2.00 x TF32"
    )


def test_a_v100s_neighbours_have_fp32_as_their_baseline():
    (found,) = published_beside(measured_on("Tesla V100-SXM2-16GB", "cnn 256x3x64x64, 64 channels"))
    assert {one.baseline for one in found.neighbours} == {"FP32"}
    assert any(one.model.startswith("ResNet50") for one in found.neighbours)


@pytest.mark.parametrize(
    ("gpu", "workload"),
    [("Tesla T4", "transformer 16x512"), ("Imaginary GPU", "cnn 2x3"), ("NVIDIA H100", "other 1")],
)
def test_where_nothing_is_near_it_says_so(gpu, workload):
    (found,) = published_beside(measured_on(gpu, workload))
    assert found.neighbours == ()
    assert str(found).endswith("no published training run is near it")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("NVIDIA A100-SXM4-80GB", "A100 80GB", "A100 40GB PCIe"), "a100"),
        (("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe", "H100 80GB SXM"), "h100"),
        (("NVIDIA GeForce RTX 3090", "RTX 3090"), "3090"),
        (("NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada"), "6000 ada"),
        (("Quadro RTX 8000",), "8000"),
        (("NVIDIA A10G",), "a10g"),
        (("A10",), "a10"),
        (("NVIDIA GH200 480GB", "GH200 80GB (as named)"), "gh200"),
    ],
)
def test_the_family_of_a_gpu(names, expected):
    assert {family(name) for name in names} == {expected}
