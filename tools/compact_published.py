"""Make the package's tables of published runs from the full tables of a research folder.

    python tools/compact_published.py /work/shared/data

Numbers are copied as they are printed; notes are shortened. Lambda's file, which has no licence,
becomes medians, and the tables of CC BY-SA sources become the few figures that the course uses.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "amp_lessons" / "records" / "published"
SCHEMA = "amp-lessons published 1"
READ = "2026-11-22"
Row = dict[str, str]

NVIDIA, LAMBDA = "NVIDIA/DeepLearningExamples", "lambdal/deeplearning-benchmark"
LAMBDA_COMMIT = "aa5addb6a53675a649a80036dad548f1c27cbcc4"
H100_LOGS = "pytorch/results/H100_80GB_SXM5_v1"
# The licence file of each model's folder at the commit; a README without one in its own folder has
# the licence of the folder above.
MIT, BSD, NONE = {"SE3Transformer", "GNMT"}, {"ConvNets", "FastPitch", "Tacotron2"}, "none found"
BSD |= {"efficientnet", "resnet50v1.5", "resnext101-32x4d", "se-resnext101-32x4d", "Transformer"}
NO_LICENCE = {"BART", "MaskRCNN", "wav2vec2"}

OTHER_SOURCES: dict[str, dict[str, str]] = {
    "lambda": {
        "repository": LAMBDA,
        "path": "pytorch/",
        "commit": LAMBDA_COMMIT,
        "licence": NONE,
        "author": "Lambda",
        "use": "medians of speed-ups for each GPU and model; no row of its tables is kept "
        "here, and the exercise suspect_rows quotes one",
    },
    "lambda-waveglow-log": {
        "repository": LAMBDA,
        "path": f"{H100_LOGS}/PyTorch_waveglow_FP16/14-02-2023_05-15-28.txt",
        "commit": LAMBDA_COMMIT,
        "licence": NONE,
        "author": "Lambda",
        "use": "one line quoted",
    },
    "lambda-bert-log": {
        "repository": LAMBDA,
        "path": f"{H100_LOGS}/PyTorch_bert_large_squad_FP16/14-02-2023_05-22-57.txt",
        "commit": LAMBDA_COMMIT,
        "licence": NONE,
        "author": "Lambda",
        "use": "one line quoted",
    },
    "mamf": {
        "repository": "stas00/ml-engineering",
        "path": "compute/accelerator/README.md",
        "commit": "744d01e18b79512572f64a6bbd8b5f4a725203a7",
        "licence": "CC BY-SA 4.0",
        "author": "Stas Bekman",
        "use": "four figures of his table of achievable matmul FLOPS; not the table",
    },
    "pytorch-cuda-notes": {
        "repository": "pytorch/pytorch",
        "path": "docs/source/notes/cuda.rst",
        "commit": "68e217b9e71fcecbd34d831dd3e3e5a4ea9028fd",
        "licence": "BSD-style",
        "author": "PyTorch contributors",
        "use": "six times quoted; the rates are computed from them",
    },
}
MAMF = ("NVIDIA A100 SXM", "NVIDIA H100 SXM", "NVIDIA B200 SXM", "AMD MI300X")
# PyTorch's notes at the commit above: by dtype, shape and switch the line, and how it was run.
NOTES = {
    ("TF32", "10240x10240x10240", ""): (107, "TF32 allowed"),
    ("FP32", "10240x10240x10240", ""): (113, "TF32 off"),
    ("FP16", "4096x4096x4096", "True"): (163, "sums may be rounded to FP16"),
    ("FP16", "4096x4096x4096", "False"): (163, "sums in FP32"),
    ("FP16", "4096x4096x16384", "True"): (172, "sums may be rounded to FP16"),
    ("FP16", "4096x4096x16384", "False"): (172, "sums in FP32"),
}
LOGS: list[Row] = [
    {
        "model": "WaveGlow",
        "gpu_type": "H100 80GB SXM",
        "label": "FP16",
        "text": "DLL 2023-02-14 05:15:42.976702 - PARAMETER amp : False",
        "mixed": "no",
        "note": "Lambda's script passes --amp-run; the program knows --amp and ignores the rest",
        "source": "lambda-waveglow-log",
        "line": "15",
    },
    {
        "model": "BERT large",
        "gpu_type": "H100 80GB SXM",
        "label": "FP16",
        "text": "Selected optimization level O2:  FP16 training with FP32 batchnorm and FP32 "
        "master weights.",
        "mixed": "yes",
        "note": "the same log also says amp=False: this program's switch is called fp16",
        "source": "lambda-bert-log",
        "line": "12",
    },
]

# Long notes of the research folder, and what the package says in their place.
CONVNETS = re.compile(
    r"batch per GPU not in the table; configs\.yml at this commit: baseline (\d+), AMP (\d+), and "
    r"AMP also uses memory_format nhwc \(channels_last\), the baseline does not"
)
SHORTER: tuple[tuple[str | re.Pattern[str], str], ...] = (
    (CONVNETS, r"configs.yml: batch \1, with AMP \2 and channels_last"),
    ("the two precisions stand in two tables; source_line is the baseline table",
     "two tables"),
    ("batch differs between precisions", ""),
    ("no baseline at this batch (cell is N/A or -): not a pair", ""),
    ("baseline cell is N/A at this batch; the stated speed-up is against the baseline at its own "
     "largest batch, which is filled in here", "baseline is the one at its own largest batch"),
    ("batch per GPU not in the table; train-benchmark scripts at this commit:",
     "train-benchmark scripts:"),
    (" (see published_time_to_train.csv)", ""),
)  # fmt: skip
BESIDES = (
    ("AMP also uses", "layout"),
    ("NHWC are off", "layout"),
    ("channels_first, AMP channels_last", "layout, perhaps"),
    ("the batch column holds the accumulated batch", "batch of a step"),
)


def read(folder: Path, name: str) -> list[Row]:
    with (folder / f"published_{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def source_id(row: Row) -> str:
    """The name of a README's source: that of its folder."""
    return row["source_path"].split("/")[-2].lower()


def nvidia_sources(tables: Iterable[Sequence[Row]]) -> dict[str, dict[str, str]]:
    found = {}
    for row in (row for table in tables for row in table):
        folder = row["source_path"].split("/")[-2]
        licence = "MIT" if folder in MIT else "BSD-3-Clause" if folder in BSD else "Apache-2.0"
        found[source_id(row)] = {
            "repository": row["source_repo"],
            "path": row["source_path"],
            "commit": row["source_commit"],
            "licence": NONE if folder in NO_LICENCE else licence,
            "author": "NVIDIA",
            "use": "figures quoted",
        }
    return dict(sorted(found.items()))


def split_note(row: Row) -> tuple[str, str]:
    """A row's note without what other columns say, and why the row is suspect, or ""."""
    note = row["note"]
    for long, short in SHORTER:
        note = note.replace(long, short) if isinstance(long, str) else long.sub(short, note)
    parts = [part.strip() for part in note.split(";") if part.strip()]
    first = next(
        (n for n, part in enumerate(parts) if part.startswith("suspect") or "passes --amp" in part),
        len(parts),
    )
    reasons = [part.removeprefix("suspect: ") for part in parts[first:]]
    unit = [part for part in reasons if part.startswith("unit not printed")]
    reasons = [part for part in reasons if part not in unit]
    return "; ".join(parts[:first] + unit), "; ".join(reasons)


def software(row: Row) -> str:
    stated = row["software"]
    version = re.search(r"(\d\d\.\d\d)(-py3)?", stated)
    if version is None:
        return "not stated"
    return f"NGC {version[1]}" + ("" if stated.startswith("NGC") else " (by the Dockerfile)")


def common(row: Row) -> Row:
    """The columns that all of NVIDIA's tables share."""
    note, suspect = split_note(row)
    where = {"source": source_id(row), "line": row["source_line"]}
    texts = {"software": software(row), "suspect": suspect, "note": note}
    variant = row["variant"].strip(" :").replace(" s s", " s")
    shared = {"id": row["id"].removeprefix("dle-"), "model": row["model"], "variant": variant}
    return shared | texts | where


def gpu(row: Row) -> Row:
    printed = row["gpu"]
    kind = row.get("gpu_type") or gpu_type(printed)
    return {"gpu": printed, "gpu_type": kind, "gpu_count": row["gpu_count"]}


def gpu_type(printed: str) -> str:
    """Such as "V100 16GB", from a machine's name. A DGX-2 has V100s of 32 GB."""
    found = re.search(r"(V100|A100|T4) (\d+)G", printed)
    if found:
        return f"{found[1]} {found[2]}GB"
    return {"DGX-2": "V100 32GB", "DGX A100": "A100", "NVIDIA T4": "T4"}[printed]


def training(row: Row) -> Row:
    note = row["note"]
    if (row["model"], row["variant"]) == ("nnU-Net", "3D"):  # its scripts/benchmark.py says so
        note += "; AMP also uses layout NDHWC and a fused norm, the baseline does not"
        row = row | {"note": note.removeprefix("; ")}
    printed = row["batch_baseline"] and row["batch_mixed"]
    same = row["batch_baseline"] == row["batch_mixed"]
    unit, _, remark = re.sub(r" \[(.*)\]", r" (\1)", row["unit"]).partition(" (")
    made = common(row) | gpu(row)
    if remark:
        made["note"] = "; ".join(filter(None, [made["note"], f"unit: {remark.rstrip(')')}"]))
    baseline = row["throughput_baseline"]
    return made | {
        "task": row["task"],
        "baseline": row["baseline_precision"],
        "mixed": row["mixed_dtype"].partition(" ")[0],
        "batch_baseline": row["batch_baseline"],
        "batch_mixed": row["batch_mixed"],
        "rate_baseline": baseline,
        "rate_mixed": row["throughput_mixed"],
        "unit": unit,
        "stated_speedup": row["speedup_stated"],
        "comparison": ("same batch" if same else "other batch") if printed else "batch not printed",
        "also_differs": next((what for sign, what in BESIDES if sign in note), ""),
        "why_left_out": "no 32-bit run"
        if not baseline
        else "repeats another row" * bool(row["duplicate"]),
    }


def accuracy(row: Row) -> Row:
    return common(row) | gpu(row) | {
        "metric": row["metric"],
        "better": row["better"],
        "final": "no" if row["metric"].startswith("loss at epoch") else "yes",
        "baseline": row["baseline_precision"],
        "value_baseline": row["value_baseline"],
        "value_mixed": row["value_mixed"],
        "std_baseline": row["std_baseline"],
        "std_mixed": row["std_mixed"],
        "runs": row["seeds_epochs"],
    }  # fmt: skip


def time_to_train(row: Row) -> Row:
    return common(row) | gpu(row) | {
        "baseline": row["baseline_precision"],
        "mixed": row["mixed_dtype"].partition(" ")[0],
        "hours_baseline": row["hours_baseline"],
        "hours_mixed": row["hours_mixed"],
        "printed_baseline": row["time_baseline_stated"],
        "printed_mixed": row["time_mixed_stated"],
        "unit": row["unit"],
        "stated_speedup": row["speedup_stated"],
        "why_left_out": "" if row["hours_baseline"] else "no 32-bit run",
    }  # fmt: skip


def inference(row: Row) -> Row:
    return common(row) | gpu(row) | {
        "task": row["task"],
        "baseline": row["baseline_precision"],
        "mixed": "BF16" if "BF16" in row["note"] else "FP16",
        "batch": row["batch"],
        "rate_baseline": row["throughput_baseline"],
        "rate_mixed": row["throughput_mixed"],
        "unit": row["unit"],
        "latency_baseline": row["latency_avg_baseline"],
        "latency_mixed": row["latency_avg_mixed"],
        "latency_unit": row["latency_unit"],
        "stated_speedup": row["speedup_stated"],
    }  # fmt: skip


def speedup(row: Row) -> float:
    return float(row["throughput_mixed"]) / float(row["throughput_baseline"])


def summary(rows: Sequence[Row], **names: str) -> Row:
    """One line for some of Lambda's runs: their median speed-up and its range, not the runs."""
    ratios = sorted(map(speedup, rows))
    machines = {row["gpu"].removesuffix("_bk") for row in rows}
    return names | {
        "confirmed": rows[0]["mixed_verified"],
        "baseline": "/".join(sorted({row["baseline_precision"] for row in rows}, key=len)[-1:]),
        "runs": str(len(rows)),
        "machines": str(len(machines)),
        "median": f"{statistics.median(ratios):.4f}",
        "low": f"{ratios[0]:.4f}",
        "high": f"{ratios[-1]:.4f}",
        "other_batch": str(sum(row["batch_baseline"] != row["batch_mixed"] for row in rows)),
        "source": "lambda",
        "line": "0",
    }


def grouped(rows: Sequence[Row], key: Callable[[Row], tuple[str, ...]]) -> list[list[Row]]:
    groups = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return list(groups.values())


def medians(rows: Sequence[Row]) -> list[Row]:
    """For each GPU, number of GPUs and model, confirmed runs and others apart."""
    cells = grouped(
        rows, lambda r: (r["gpu_type"], r["gpu_count"], r["model"], r["mixed_verified"])
    )
    return [
        summary(
            cell,
            gpu_type=cell[0]["gpu_type"],
            gpu_count=cell[0]["gpu_count"],
            model=cell[0]["model"],
        )
        for cell in cells
    ]


def over_all_gpus(rows: Sequence[Row]) -> list[Row]:
    """For each model over all GPUs: its runs on one GPU, and on any number of them ("0")."""
    made = []
    for count, chosen in (("1", [r for r in rows if r["gpu_count"] == "1"]), ("0", rows)):
        for cell in grouped(chosen, lambda r: (r["model"], r["mixed_verified"])):
            made.append(
                summary(cell, gpu_type="every GPU", gpu_count=count, model=cell[0]["model"])
            )
        speech = [r for r in chosen if r["model"] in ("WaveGlow", "Tacotron 2")]
        both = "WaveGlow and Tacotron 2"
        made.append(summary(speech, gpu_type="every GPU", gpu_count=count, model=both))
    return made


def matmul(rows: Sequence[Row]) -> list[Row]:
    made = []
    for row in rows:
        names = {"gpu": row["gpu"], "dtype": row["dtype"], "shape_mxnxk": row["shape_mxnxk"]}
        rates = {"tflops": row["achieved_tflops"], "peak": row["theoretical_tflops"]}
        if row["gpu"] in MAMF and row["dtype"] == "BF16":
            how = {"how": "best shape found, mean of 100 iterations", "error": ""}
            made.append(names | rates | how | {"source": "mamf", "line": row["source_line"]})
        switch = re.search(r"reduction=(\w+)", row["note"])
        place = NOTES.get((row["dtype"], row["shape_mxnxk"], switch[1] if switch else ""))
        if row["source_repo"] == "pytorch/pytorch" and place:
            line, how_text = place
            time = re.search(r"time printed: ([\d.]+ \w+)", row["note"])
            error = re.search(r"max error against FP64 printed: ([\d.]+)", row["note"])
            made.append(names | rates | {
                "how": f"{how_text}; {time[1] if time else '?'} printed",
                "error": error[1] if error else "",
                "source": "pytorch-cuda-notes",
                "line": str(line),
            })  # fmt: skip
    return made


def write(name: str, rows: Sequence[Row]) -> None:
    with (FOLDER / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{name}.csv: {len(rows)} rows, {(FOLDER / f'{name}.csv').stat().st_size:,} bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder with the full tables")
    folder = parser.parse_args().folder
    makers = {"training": training, "accuracy": accuracy, "time_to_train": time_to_train}
    makers |= {"inference": inference}
    tables = {name: read(folder, name) for name in makers}
    for name, make in makers.items():
        write(name, [make(row) for row in tables[name]])
    runs = read(folder, "training_lambda")
    write("medians", medians(runs))
    write("overall", over_all_gpus(runs))
    write("matmul", matmul(read(folder, "matmul")))
    write("logs", LOGS)
    sources = nvidia_sources(tables.values()) | OTHER_SOURCES
    text = json.dumps({"schema": SCHEMA, "read": READ, "sources": sources}, indent=1)
    (FOLDER / "sources.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
