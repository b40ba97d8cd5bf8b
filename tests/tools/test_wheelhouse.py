"""A folder of wheels from which the course can be installed without a network."""

from __future__ import annotations

import os
import subprocess
import venv
from pathlib import Path

import pytest
import wheelhouse


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("wheels", "beos-3.12"), "'beos-3.12' is no machine that we know: write it as linux-3.12"),
        (("wheels", "windows"), "'windows' is no machine that we know"),
        (("wheels", "windows-2.7"), "'windows-2.7' is no machine that we know"),
        (("a_file",), "a_file is a file: name a folder"),
    ],
)
def test_a_wrong_call_is_one_line(tmp_path, monkeypatch, capsys, words, message):
    monkeypatch.chdir(tmp_path)
    Path("a_file").touch()
    assert wheelhouse.main(list(words)) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert os.listdir() == ["a_file"]


def test_each_machine_gets_what_uv_names_for_it(tmp_path, monkeypatch, capsys):
    """pip alone would take the conditions on packages as this machine's."""
    ran = played(monkeypatch, "torch==2.13.0\n")
    assert wheelhouse.main([str(tmp_path), "windows-3.12", "macos-3.13"]) == 0
    assert len(ran) == 5
    assert {"wheel", str(wheelhouse.ROOT)} <= set(ran[0])
    for compile_, download, system in ((ran[1], ran[2], "windows"), (ran[3], ran[4], "macos")):
        called, tags = wheelhouse.SYSTEMS[system]
        assert called in compile_
        assert download[download.index("--platform") + 1] == tags[0]
        assert compile_[compile_.index("--output-file") + 1] == download[-1]
    assert "Install from it with:" in capsys.readouterr().out


def test_the_cuda_build_does_not_come_unasked(tmp_path, monkeypatch, capsys):
    ran = played(monkeypatch, "numpy==2.4.6\nnvidia-nccl-cu13==2.29.7\n")
    assert wheelhouse.main([str(tmp_path), "linux-3.12"]) == 1
    assert capsys.readouterr().err == f"linux-3.12: {wheelhouse.CUDA_ONLY}\n"
    assert not any("download" in words for words in ran)


def test_why_uv_or_pip_failed_is_one_line(tmp_path, monkeypatch, capsys):
    ran = played(monkeypatch, "", status=1)
    assert wheelhouse.main([str(tmp_path)]) == 1
    assert capsys.readouterr().err == "building the course failed: no network\n"
    assert len(ran) == 1


def played(monkeypatch, pins: str, status: int = 0) -> list[list[str]]:
    """uv and pip do nothing but note how they are called, and write the pins."""
    ran: list[list[str]] = []

    def run(words, **_):
        ran.append(words)
        if "--output-file" in words:
            Path(words[words.index("--output-file") + 1]).write_text(pins)
        return subprocess.CompletedProcess(words, status, "", "ERROR: no network\n")

    monkeypatch.setattr(wheelhouse.subprocess, "run", run)
    monkeypatch.setattr(wheelhouse, "settings_of_pip", lambda pip: {})
    monkeypatch.setattr(wheelhouse.Place, "uv", lambda self: "uv")
    return ran


@pytest.mark.long
def test_the_course_is_installed_from_it_with_no_index(tmp_path, capsys):
    folder = tmp_path / "wheels"
    if wheelhouse.main([str(folder)]):
        pytest.skip(capsys.readouterr().err)
    venv.create(tmp_path / "amp", with_pip=True)
    python = tmp_path / "amp" / "bin" / "python"
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    alone |= {"PIP_CONFIG_FILE": os.devnull, "AMP_LESSONS_HOME": str(tmp_path / "home")}
    words = ["-m", "pip", "install", "--no-compile", "--no-index", "--find-links", "wheels"]
    install = [python, *words, "amp-lessons[course]"]
    for command in (install, [python, "-m", "amp_lessons", "doctor"]):
        done = subprocess.run(command, cwd=tmp_path, env=alone, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert "No problem found." in done.stdout
