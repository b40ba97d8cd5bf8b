"""speed/published: what others measured, with its source, and no more of it than we may keep."""

from __future__ import annotations

import csv
import json
import shutil
import statistics
import subprocess
import sys

import pytest

from amp_lessons.amp.speed import records
from amp_lessons.amp.speed.published import (
    FOLDER,
    first_variants,
    four_rates,
    like_for_like,
    load_published,
    of,
    on,
    on_both,
    one_gpu,
    table,
)
from amp_lessons.amp.speed.records import RecordError, load_records

PUBLISHED = load_published()
QUOTED = {
    name: getattr(PUBLISHED, name)
    for name in (
        "training", "accuracy", "time_to_train", "inference", "medians", "overall", "matmul", "logs"
    )
}  # fmt: skip


def median(rows):
    return round(statistics.median(row.speedup for row in rows), 2)


def extremes(rows):
    speedups = [row.speedup for row in rows]
    return round(min(speedups), 2), round(max(speedups), 2)


# The numbers below are those of the research that the tables come from.


@pytest.mark.parametrize(
    ("gpu", "count", "middle", "ends"),
    [
        ("V100 16GB", 65, 2.46, (1.21, 3.99)),
        ("V100 32GB", 82, 2.44, (1.33, 5.50)),
        ("V100", 147, 2.44, (1.21, 5.50)),
        ("A100 40GB", 26, 1.54, (0.83, 2.36)),
        ("A100 80GB", 114, 1.61, (1.00, 2.66)),
        ("A100", 140, 1.60, (0.83, 2.66)),
    ],
)
def test_training_gains_by_gpu(gpu, count, middle, ends):
    rows = on(PUBLISHED.training, gpu)
    assert (len(rows), median(rows), extremes(rows)) == (count, middle, ends)
    assert {row.baseline for row in rows} == {"FP32" if gpu.startswith("V100") else "TF32"}


@pytest.mark.parametrize(
    ("gpu", "same", "other"), [("V100", (89, 2.10), (58, 2.75)), ("A100", (84, 1.42), (56, 1.93))]
)
def test_pairs_of_one_batch_gain_less_than_the_others(gpu, same, other):
    groups = {True: [], False: []}
    for row in on(PUBLISHED.training, gpu):
        groups[row.comparison == "same batch" and row.also_differs != "layout, perhaps"].append(row)
    assert [(len(rows), median(rows)) for rows in groups.values()] == [same, other]


def test_like_for_like_leaves_out_equal_batches_that_are_accumulated():
    bert = [row for row in on(PUBLISHED.training, "V100") if row.model == "BERT large"]
    assert any(row.also_differs == "batch of a step" for row in bert)
    assert like_for_like(bert) == ()
    assert all(row.batch_baseline == row.batch_mixed for row in like_for_like(PUBLISHED.training))


def test_rows_that_are_not_pairs_are_counted_apart():
    counts = {}
    for row in PUBLISHED.left_out:
        counts[row.table, row.why_left_out] = counts.get((row.table, row.why_left_out), 0) + 1
    assert counts == {
        ("training", "repeats another row"): 18,
        ("training", "no 32-bit run"): 13,
        ("time_to_train", "no 32-bit run"): 8,
    }
    assert len(PUBLISHED.training) == 287
    assert len({row.model for row in PUBLISHED.training}) == 32


def test_time_to_train():
    found = {gpu: on(PUBLISHED.time_to_train, gpu) for gpu in ("V100", "A100")}
    assert {gpu: (len(rows), median(rows)) for gpu, rows in found.items()} == {
        "V100": (62, 2.20), "A100": (60, 1.39)
    }  # fmt: skip


@pytest.mark.parametrize(
    ("gpu", "count", "middle", "slower"),
    [("V100", 191, 1.58, 42), ("A100", 147, 1.12, 45), ("T4", 85, 2.75, 8)],
)
def test_inference(gpu, count, middle, slower):
    rows = on(PUBLISHED.inference, gpu)
    assert (len(rows), median(rows)) == (count, pytest.approx(middle, abs=0.006))
    assert sum(row.speedup < 1 for row in rows) == slower


def test_accuracy():
    final = [row for row in PUBLISHED.accuracy if row.final == "yes"]
    signs = [(row.gain > 0) - (row.gain < 0) for row in final]
    assert (len(PUBLISHED.accuracy), len(final)) == (177, 145)
    assert [signs.count(sign) for sign in (1, 0, -1)] == [57, 13, 75]
    assert sum(abs(row.relative_gain) <= 0.01 for row in final) == 129
    spread = PUBLISHED.spread_pairs()
    counts = [sum(abs(row.deviations) <= limit for row in spread) for limit in (1, 2, 9)]
    assert counts == [16, 23, 25]
    outside = {row.model: round(row.deviations, 1) for row in spread if abs(row.deviations) > 2}
    assert outside == {"ResNet50 v1.5": -2.4, "GPUNet-1": 2.4}


def test_plus_is_better_for_mixed_also_where_lower_is_better():
    lower, higher = (
        next(row for row in PUBLISHED.accuracy if row.better == better and row.gain)
        for better in ("lower", "higher")
    )
    assert (lower.gain > 0) == (lower.value_mixed < lower.value_baseline)
    assert (higher.gain > 0) == (higher.value_mixed > higher.value_baseline)


def test_the_placebo_gains_nothing_and_confirmed_runs_do():
    (both,) = [
        row
        for row in PUBLISHED.overall
        if row.model == "WaveGlow and Tacotron 2" and row.gpu_count == 0
    ]
    assert (both.runs, both.confirmed, round(both.median, 2)) == (292, "no", 1.03)
    confirmed = [row.median for row in PUBLISHED.by_model() if row.confirmed == "yes"]
    assert min(confirmed) > 1.4
    assert sum(row.runs for row in PUBLISHED.by_model(0) if row.confirmed == "yes") == 812
    assert sum(row.runs for row in PUBLISHED.by_model(0) if row.confirmed == "no") == 328


@pytest.mark.parametrize(
    ("gpu", "model", "reported"),
    [
        ("V100 16GB", "BERT large", 4.75),
        ("RTX 4090", "ResNet50 v1.5", 1.80),
        ("A100 80GB SXM", "SSD300", 1.51),
        ("H100 80GB SXM", "GNMT v2", 1.92),
        ("B200 192GB", "ResNet50 v1.5", 1.04),
    ],
)
def test_medians_of_confirmed_runs(gpu, model, reported):
    (row,) = [
        row
        for row in PUBLISHED.medians
        if (row.gpu_type, row.gpu_count, row.model) == (gpu, 1, model) and row.confirmed == "yes"
    ]
    assert round(row.median, 2) == reported
    assert row.low <= row.median <= row.high
    assert row.machines <= row.runs


def test_the_log_of_the_placebo_says_that_amp_was_off():
    reported = {line.model: line for line in PUBLISHED.logs}
    assert reported["WaveGlow"].text.endswith("amp : False")
    assert (reported["WaveGlow"].mixed, reported["BERT large"].mixed) == ("no", "yes")


def test_matmul_rates_follow_from_the_printed_times():
    rows = [row for row in PUBLISHED.matmul if row.source.name == "pytorch-cuda-notes"]
    assert len(rows) == 6
    for row in rows:
        time, unit, _ = row.how.partition("; ")[2].split()
        m, n, k = map(int, row.shape_mxnxk.split("x"))
        seconds = float(time) * {"s": 1, "us": 1e-6}[unit]
        assert row.tflops == pytest.approx(2 * m * n * k / seconds / 1e12, abs=0.06)


# Speed-ups that are printed wrong, and rows that we doubt.


def test_printed_speedups_agree_but_for_ten():
    wrong = [
        row
        for row in PUBLISHED.training
        if row.stated_speedup and abs(row.speedup - row.stated_speedup) > 0.02 * row.speedup
    ]
    ncf = [row for row in wrong if row.model == "NCF"]
    assert len(ncf) == 9
    assert all(row.stated_speedup == pytest.approx(1 / row.speedup, abs=0.01) for row in ncf)


def test_suspect_rows_say_why_and_stay():
    ssd = [row for row in of(PUBLISHED.time_to_train, "SSD300") if row.suspect]
    assert len(ssd) == 9
    assert all(0.99 < row.speedup < 1.01 for row in ssd)
    efficientdet = [row for row in of(PUBLISHED.accuracy, "EfficientDet") if row.suspect]
    assert "--amp" in efficientdet[0].suspect
    same = [row for row in of(PUBLISHED.training, "SE(3)") if row.suspect]
    assert [row.rate_baseline for row in same] == [row.rate_mixed for row in same]


# Sources.


@pytest.mark.parametrize("name", QUOTED)
def test_each_row_has_a_source_and_a_line(name):
    assert QUOTED[name]
    for row in QUOTED[name]:
        assert row.source is PUBLISHED.sources[row.source.name]
        assert row.source.commit[:7] in row.where
        assert row.url.startswith(f"https://github.com/{row.source.repository}/")
        assert row.source.commit in row.url
        assert row.line or row.source.path.endswith("/")


def test_a_row_names_its_source_and_links_to_it():
    row = next(row for row in PUBLISHED.training if row.id == "t114")
    place = "PyTorch/LanguageModeling/BERT/README.md"
    commit = "729963dd47e7c8bd462ad10bfac7a7b0b604e6dd"
    assert row.where == f"NVIDIA/DeepLearningExamples, {place}, line 811, commit 729963d"
    assert row.url == (
        f"https://github.com/NVIDIA/DeepLearningExamples/blob/{commit}/{place}?plain=1#L811"
    )


def test_every_source_is_used_and_names_its_licence():
    used = {row.source.name for rows in QUOTED.values() for row in rows}
    assert used == set(PUBLISHED.sources)
    for source in PUBLISHED.sources.values():
        assert len(source.commit) == 40
        assert int(source.commit, 16)
        assert source.licence
        assert source.use


def test_no_single_run_of_lambda_is_kept():
    """Its repository has no licence: medians and ranges only, and no machine, rate or date."""
    text = "".join((FOLDER / f"{name}.csv").read_text() for name in ("medians", "overall"))
    with (FOLDER / "medians.csv").open(newline="") as file:
        columns = csv.DictReader(file).fieldnames
    assert not {"id", "gpu", "machine", "run_date", "software", "note"} & set(columns)
    assert not [c for c in columns if "rate" in c or "throughput" in c or c.startswith("batch")]
    for sign in ("lam-", "LambdaOD", "SXM5", "_v2", "scalar", "images/s", "2025"):
        assert sign not in text
    assert {row.source.name for row in PUBLISHED.medians + PUBLISHED.overall} == {"lambda"}
    assert len(PUBLISHED.logs) < 5


def test_a_share_alike_table_is_not_reproduced():
    share_alike = [row for row in PUBLISHED.matmul if "SA" in row.source.licence]
    assert 0 < len(share_alike) < 6
    assert {row.source.author for row in share_alike} == {"Stas Bekman"}
    assert "Stas Bekman" in (FOLDER / "README.md").read_text()


def test_the_tables_are_small_and_complete():
    names = {path.name for path in FOLDER.iterdir() if path.suffix != ".py"} - {"__pycache__"}
    assert names == {f"{name}.csv" for name in QUOTED} | {"sources.json", "README.md"}
    assert sum(path.stat().st_size for path in FOLDER.glob("*.*")) < 300_000


def test_neither_loader_finds_the_other_s_files():
    names = {record.name for record in load_records()}
    assert not names & set(PUBLISHED.sources)
    assert load_records(records.FOLDER) == load_records()
    assert not list(records.FOLDER.glob("*.csv"))
    with pytest.raises(RecordError, match=r"sources\.json"):
        load_records(FOLDER)
    with pytest.raises(RecordError, match="isn't there"):
        load_published(records.FOLDER)


def test_loading_needs_no_torch_and_happens_once():
    code = """
import sys
from amp_lessons.amp.speed.published import load_published
assert load_published() is load_published()
print([name for name in ("torch", "numpy", "matplotlib", "jsonschema") if name in sys.modules])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


# Bad files.


@pytest.fixture
def folder(tmp_path):
    for path in FOLDER.iterdir():
        if path.suffix in (".csv", ".json"):
            shutil.copy(path, tmp_path)
    return tmp_path


def refused(folder):
    with pytest.raises(RecordError) as caught:
        load_published(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


def change(folder, name, row, column, value):
    """Put a value into a cell; row 1 is the header."""
    path = folder / name
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    rows[row - 1][rows[0].index(column)] = value
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def test_a_copy_of_the_folder_is_read_as_the_course_s_own(folder):
    assert load_published(folder) == PUBLISHED


@pytest.mark.parametrize(
    ("name", "column", "value", "reported"),
    [
        ("training", "rate_mixed", "fast", "'fast' isn't a number above 0"),
        ("training", "rate_baseline", "", "'' isn't a number above 0"),
        ("training", "rate_mixed", "-3", "'-3' isn't a number above 0"),
        ("training", "rate_mixed", "nan", "'nan' isn't a number above 0"),
        ("training", "stated_speedup", "1e999", "'1e999' isn't a number above 0, or empty"),
        ("training", "gpu_count", "8.0", "'8.0' isn't a whole number, 0 or more"),
        ("training", "gpu_count", "²", "'²' isn't a whole number, 0 or more"),
        ("training", "baseline", "FP64", "'FP64' isn't one of 'FP32', 'TF32'"),
        ("training", "source", "hearsay", "'hearsay' isn't in sources.json"),
        ("training", "line", "", "'' isn't a whole number, 0 or more"),
        ("training", "why_left_out", "dull", "'dull' isn't one of 'repeats another row'"),
        ("time_to_train", "hours_mixed", "0", "'0' isn't a number above 0"),
        ("accuracy", "value_mixed", "", "'' isn't a number other than 0"),
        ("accuracy", "final", "maybe", "'maybe' isn't one of 'yes', 'no'"),
        ("inference", "batch", "many", "'many' isn't a whole number, 0 or more"),
        ("medians", "median", "inf", "'inf' isn't a number above 0"),
        ("matmul", "tflops", "x", "'x' isn't a number above 0"),
        ("logs", "mixed", "", "'' isn't one of 'yes', 'no'"),
    ],
)
def test_a_bad_cell_is_named_by_file_row_and_column(folder, name, column, value, reported):
    row = 22 if name in ("training", "time_to_train") else 3  # among training's, the first pairs
    change(folder, f"{name}.csv", row, column, value)
    message = refused(folder)
    assert message.startswith(f"{folder / name}.csv, row {row}, column {column}: {reported}")


def test_an_inference_row_needs_rates_or_latencies(folder):
    change(folder, "inference.csv", 2, "rate_mixed", "")
    assert refused(folder) == (
        f"{folder / 'inference.csv'}, row 2: it needs both rates, or both latencies"
    )


@pytest.mark.parametrize("name", QUOTED)
def test_a_table_without_one_of_its_columns(folder, name):
    path = folder / f"{name}.csv"
    path.write_text(path.read_text(encoding="utf-8").replace("source", "origin", 1))
    assert f"{path} lacks the column 'source'" in refused(folder)


def test_a_table_with_a_column_too_many(folder):
    path = folder / "matmul.csv"
    path.write_text(path.read_text(encoding="utf-8").replace("line", "line,colour", 1))
    assert refused(folder) == f"{path} has a column 'colour' that this table doesn't know"


@pytest.mark.parametrize(("cells", "reported"), [("a", "fewer"), ("a," * 40, "more")])
def test_a_row_that_does_not_fit_the_header(folder, cells, reported):
    path = folder / "matmul.csv"
    path.write_text(path.read_text(encoding="utf-8") + cells + "\n", encoding="utf-8")
    assert refused(folder) == f"{path}, row 12: {reported} cells than columns"


@pytest.mark.parametrize("name", [*(f"{name}.csv" for name in QUOTED), "sources.json"])
def test_a_file_that_is_not_there(folder, name):
    (folder / name).unlink()
    assert refused(folder).startswith(f"{folder / name} isn't there; ")


def test_a_folder_that_is_not_there(tmp_path):
    assert "isn't there" in refused(tmp_path / "nowhere")


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"\x00\x01binary", b""])
def test_a_table_that_is_not_text(folder, data):
    (folder / "training.csv").write_bytes(data)
    assert refused(folder).startswith(str(folder / "training.csv"))


@pytest.mark.parametrize(
    ("sources", "reported"),
    [
        ("{", "isn't JSON"),
        ("[" * 100_000, "isn't JSON"),
        ("[]", "has no schema"),
        ('{"schema": "bench 1"}', "has schema 'bench 1'; published runs have"),
        ('{"schema": "amp-lessons published 1"}', "lists no sources"),
        ('{"schema": "amp-lessons published 1", "sources": {"a": {}}}', "source 'a' must have"),
    ],
)
def test_sources_of_another_kind(folder, sources, reported):
    (folder / "sources.json").write_text(sources)
    assert reported in refused(folder)


def test_a_record_of_the_bench_is_not_a_list_of_sources(folder):
    shutil.copy(records.FOLDER / "seed_003.json", folder / "sources.json")
    assert "published runs have 'amp-lessons published 1'" in refused(folder)


@pytest.mark.parametrize("value", ["", 7, None])
def test_a_source_needs_text(folder, value):
    path = folder / "sources.json"
    data = json.loads(path.read_text())
    data["sources"]["bert"]["commit"] = value
    path.write_text(json.dumps(data))
    assert refused(folder) == f"{path}: source 'bert' needs text for commit, not {value!r}"


# Choosing.


def test_best_pairs_prefer_like_for_like_and_then_the_higher_rate():
    best = PUBLISHED.best_pairs()
    keys = [(row.name, row.task, row.family) for row in best]
    assert len(keys) == len(set(keys))
    for row in best:
        rivals = [
            other
            for other in one_gpu(PUBLISHED.training)
            if (other.name, other.task, other.family) == (row.name, row.task, row.family)
            if not other.suspect
        ]
        assert (row.like_for_like, row.rate_mixed) == max(
            (other.like_for_like, other.rate_mixed) for other in rivals
        )
    assert not [row for row in best if row.suspect or row.gpu_count != 1]
    assert {row.gpu_count for row in PUBLISHED.best_pairs(8)} == {8}


def test_on_both_and_first_variants():
    pairs = first_variants(on_both(PUBLISHED.best_pairs()))
    families = {}
    for row in pairs:
        families.setdefault(row.model, []).append((row.family, row.name))
    assert len(families) == 25
    for found in families.values():
        assert sorted(family for family, _ in found) == ["A100", "V100"]
        assert len({name for _, name in found}) == 1
    assert "MoFlow" not in families  # on an A100 only


def test_four_rates():
    rates = {row.name: row for row in four_rates(one_gpu(PUBLISHED.training))}
    bert = rates["BERT large seq 128 pre-training"]
    assert (bert.v100_fp32, bert.v100_mixed, bert.a100_tf32, bert.a100_mixed) == (50, 224, 317, 580)
    assert bert.relative == pytest.approx((1, 4.48, 6.34, 11.6))
    ahead = {name for name, row in rates.items() if row.a100_tf32 > row.v100_mixed}
    assert {"DLRM small", "Jasper", "Tacotron 2", "FastPitch 1.1"} <= ahead
    assert not ahead & {"ResNet50 v1.5", "ResNeXt101-32x4d", "EfficientNet-b0", "WaveGlow"}


def test_a_table_to_print():
    (line,) = [line for line in table(PUBLISHED.best_pairs()).splitlines() if "2,470" in line]
    assert line.startswith("ResNet50 v1.5")
    for part in ("1 x A100 80GB", "TF32 → FP16", "batch ? → ?", "2.63x", "other layout"):
        assert part in line
    assert "batch not printed" in line
