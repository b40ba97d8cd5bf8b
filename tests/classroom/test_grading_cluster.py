"""Grading on a Dask cluster gives what one machine gives, also when a part of it is lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from distributed import Event
from grading_class import LESSON, LIMITS, Sheet
from waiting import wait_until

from amp_lessons.classroom import grading
from amp_lessons.classroom.grading import Graded, GradingOptions, batch, cluster
from amp_lessons.classroom.grading.collect import HandedIn

pytestmark = pytest.mark.slow
OPTIONS = GradingOptions(LIMITS, jobs=2, seed="a seed for tests")
CLUSTER = """
from distributed import LocalCluster
with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as made:
    print(made.scheduler_address, flush=True)
    input()
"""
IMPATIENT = """
from amp_lessons.app import cli
from amp_lessons.classroom.grading import cluster
cluster.PATIENCE = cluster.FIRST_WORKER = 1.0
cli.main()
"""


@pytest.fixture(scope="module")
def dask() -> Iterator[str]:
    """The address of a `LocalCluster` with two workers: daemonic processes, which may have no
    children by `multiprocessing`."""
    words = [sys.executable, "-c", CLUSTER]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate("\n")


@pytest.fixture(scope="module")
def handed_in(tmp_path_factory: pytest.TempPathFactory) -> list[HandedIn]:
    """A small class. Two of its notebooks have one name, and one is no notebook."""
    folder = tmp_path_factory.mktemp("class")
    for learner in ("ada", "bob", "cleo", "dan"):
        (folder / learner).mkdir()
        kind = "exercises" if learner == "bob" else "solutions"
        sheet = Sheet(folder / learner / "sheet.ipynb", folder=kind)
        if learner == "cleo":
            del sheet.cells[sheet.index("next_float_check")]
            sheet.write("choose_format", "1 / 0")
        sheet.save()
    sheet.path.write_text('{"cells": ')
    found = grading.collect([folder])
    return [*found, *(replace(each, name="sheet.ipynb") for each in found[1:3])]


@pytest.fixture(scope="module")
def here(handed_in: list[HandedIn]) -> list[dict]:
    """What this machine gives."""
    with grading.open_batch(OPTIONS, [LESSON.slug]) as opened:
        return as_json(opened.grade(handed_in))


@pytest.fixture(scope="module")
def opened(dask: str, tmp_path_factory) -> Iterator[cluster.ClusterBatch]:
    options = replace(OPTIONS, results=tmp_path_factory.mktemp("kept") / "results")
    with cluster.open_batch(dask, options, [LESSON.slug]) as opened:
        yield opened


def as_json(found: Iterator[Graded]) -> list[dict]:
    return sorted((graded.to_json() for graded in found), key=lambda each: json.dumps(each))


def test_two_workers_give_the_results_of_one_machine(opened, handed_in, here):
    assert (opened.about["workers"], opened.about["seed"]) == (2, OPTIONS.seed)
    assert as_json(opened.grade(handed_in)) == here
    assert [each["points"] for each in here] == [8, 0, 6, 0, 0, 6]


def test_what_the_folder_of_results_has_is_not_sent_again(opened, handed_in, here, monkeypatch):
    monkeypatch.setattr(opened, "_client", None)
    of_one_name = handed_in[:4]
    names = {each.name for each in of_one_name}
    assert as_json(opened.grade(of_one_name)) == [x for x in here if x["notebook"] in names]


def test_nothing_is_lost_with_a_worker(opened, tmp_path, monkeypatch):
    """A worker that has work is killed; its nanny starts another one. All work but the first piece
    waits until then."""
    go_on = Event("go on", client=opened._client)

    def waits(order, chunk):
        if chunk[0].name != "0.ipynb":
            Event("go on").wait()
        return cluster._grade_chunk(order, chunk)  # the worker has the real one

    monkeypatch.setattr(opened, "_results", None)
    monkeypatch.setattr(cluster, "_grade_chunk", waits)
    (one,) = grading.collect([Sheet(tmp_path / "a.ipynb").save()])
    results = opened.grade([replace(one, name=f"{number}.ipynb") for number in range(4)])
    found = [next(results)]
    pids = opened._client.run(os.getpid)
    busy = [worker for worker, keys in opened._client.processing().items() if keys]
    os.kill(pids[busy[0]], signal.SIGKILL)
    go_on.set()
    found += results
    assert sorted(graded.name for graded in found) == [f"{number}.ipynb" for number in range(4)]
    assert {(graded.points, graded.problems) for graded in found} == {(LESSON.points, ())}


def test_a_worker_with_other_versions_is_refused_by_name(opened, dask, monkeypatch):
    monkeypatch.setattr(batch, "__version__", "0.0.9")
    with pytest.raises(cluster.ClusterError) as refused, cluster.open_batch(dask, OPTIONS):
        pass
    (line,) = str(refused.value).splitlines()
    assert line.startswith("tcp://")
    assert "and not 0.0.9: install the same versions" in line


# ---- a cluster that isn't there, or no longer ---------------------------------------------------


@contextmanager
def running(what: str, *words: object) -> Iterator[subprocess.Popen[bytes]]:
    """One of Dask's own commands, until the block is left."""
    command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard"]
    nothing = subprocess.DEVNULL
    process = subprocess.Popen([*command, *map(str, words)], stdout=nothing, stderr=nothing)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def scheduler(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    file = folder / "scheduler.json"
    words = ("--scheduler-file", file, "--host", "127.0.0.1", "--port", 0)
    with running("scheduler", *words) as process:
        wait_until(file.exists, process)
        yield process, json.loads(file.read_text())["address"]


def grade_on(address: str, folder: Path) -> str:
    """The one line with which the command refuses."""
    words = [
        sys.executable,
        "-c",
        IMPATIENT,
        "grade",
        "--dask",
        address,
        Sheet(folder / "a.ipynb").save(),
    ]
    run = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    (line,) = run.stderr.splitlines()
    assert (run.returncode, run.stdout) == (1, "")
    return line


def test_a_missing_scheduler_or_one_without_workers_is_told_in_one_line(tmp_path):
    with scheduler(tmp_path) as (_, address):
        assert f"the Dask scheduler at {address} has no workers" in grade_on(address, tmp_path)
    assert f"no Dask scheduler answers at {address}" in grade_on(address, tmp_path)


@pytest.mark.long
def test_what_a_lost_scheduler_leaves_is_named_and_the_rest_counts(tmp_path, handed_in, capsys):
    with (
        scheduler(tmp_path) as (process, address),
        running("worker", address, "--nthreads", 1, "--local-directory", tmp_path),
        cluster.open_batch(address, OPTIONS, [LESSON.slug]) as opened,
    ):
        results = opened.grade(handed_in)
        found = [next(results)]
        process.kill()
        found += results
    assert sorted(graded.name for graded in found) == sorted(each.name for each in handed_in)
    assert found[0].gradable
    assert any("was lost" in problem for graded in found for problem in graded.problems)
    assert capsys.readouterr().err.count("was lost") == 1
