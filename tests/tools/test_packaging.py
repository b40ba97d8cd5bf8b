"""The wheel carries the whole course: code, widgets and notebooks, and runs from anywhere."""

from __future__ import annotations

import configparser
import sys
import zipfile
from pathlib import Path

import pytest
from wheels import built_wheel, pip, run

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
COURSE_FOLDERS = ("notebooks", "exercises", "solutions")
NOT_SHIPPED = {"__pycache__", ".ipynb_checkpoints", ".pytest_cache"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def contents(wheel) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert len(names) == len(set(names))
        return {name: archive.read(name) for name in names}


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> Path:
    """A folder into which the wheel alone was installed."""
    target = tmp_path_factory.mktemp("installed")
    done = pip("install", "--no-deps", "--target", target, wheel, cwd=target)
    assert done.returncode == 0, done.stderr
    return target


def run_installed(code: str, installed: Path, cwd: Path) -> str:
    done = run(sys.executable, "-c", code, cwd=cwd, PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("folder", COURSE_FOLDERS)
def test_the_wheel_carries_the_notebooks_as_they_are(contents, folder):
    ours = {
        path.relative_to(ROOT / folder).as_posix(): path.read_bytes()
        for path in (ROOT / folder).rglob("*.ipynb")
    }
    assert ours, f"{folder}/ is empty: nothing would be compared"
    prefix = f"amp_lessons/_course/{folder}/"
    theirs = {n.removeprefix(prefix): data for n, data in contents.items() if prefix in n}
    assert sorted(theirs) == sorted(ours), f"the wheel must carry {folder}/*.ipynb and no more"
    assert theirs == ours


def test_the_wheel_carries_every_file_of_the_package(contents):
    package = ROOT / "amp_lessons"
    ours = {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for path in package.rglob("*")
        if path.is_file() and not NOT_SHIPPED & set(path.parts)
    }
    theirs = {
        name: data
        for name, data in contents.items()
        if name.startswith("amp_lessons/") and not name.startswith("amp_lessons/_course/")
    }
    assert theirs.keys() == ours.keys()
    assert theirs == ours


def test_the_wheel_carries_modules_styles_and_pages_of_the_widgets(contents):
    static = [name for name in contents if "/static/" in name]
    assert {Path(name).suffix for name in static} >= {".mjs", ".css", ".html"}


def test_the_wheel_carries_the_records_and_their_schema(contents):
    folders = ("amp_lessons/amp/speed/records/", "amp_lessons/amp/speed/published/")
    carried = {n.rpartition("/")[2] for n in contents if n.startswith(folders)}
    assert {"record.schema.json", "seed_003.json"} <= carried
    assert {"training.csv", "medians.csv", "sources.json", "README.md"} <= carried


def test_the_wheel_carries_nothing_else(contents):
    tops = {name.partition("/")[0] for name in contents}
    (metadata,) = tops - {"amp_lessons"}
    assert metadata.endswith(".dist-info")
    assert f"{metadata}/licenses/LICENSE" in contents


def test_the_wheel_has_the_command(contents):
    (name,) = (n for n in contents if n.endswith(".dist-info/entry_points.txt"))
    parser = configparser.ConfigParser()
    parser.read_string(contents[name].decode())
    assert dict(parser["console_scripts"]) == {"amp-lessons": "amp_lessons.__main__:main"}


def test_the_installed_package_finds_its_notebooks_and_knows_it_is_no_checkout(installed, tmp_path):
    code = """
import amp_lessons
from amp_lessons.core import catalogue
print(amp_lessons.__file__)
print(catalogue.checkout())
for folder in ("notebooks", "exercises", "solutions"):
    files = (catalogue.course_files() / folder).rglob("*.ipynb")
    print(*sorted(path.name for path in files))
"""
    file, checkout, *folders = run_installed(code, installed, tmp_path).splitlines()
    assert Path(file).is_relative_to(installed)
    assert checkout == "None"
    for folder, listed in zip(COURSE_FOLDERS, folders, strict=True):
        ours = sorted(path.name for path in (ROOT / folder).rglob("*.ipynb"))
        assert ours, f"{folder}/ is empty: nothing would be compared"
        assert listed.split() == ours


def test_the_installed_package_reads_its_records(installed, tmp_path):
    code = "from amp_lessons.amp.speed.records import load_records; print(load_records()[0].kind)"
    assert run_installed(code, installed, tmp_path) in ("measured", "quoted")


@pytest.mark.parametrize(
    "module", ["amp_lessons", "amp_lessons.core.catalogue", "amp_lessons.amp.numbers.formats"]
)
def test_importing_what_should_be_cheap_does_not_import_torch(installed, tmp_path, module):
    code = f"import sys, {module}; print({module}.__file__, 'torch' in sys.modules)"
    file, torch_there = run_installed(code, installed, tmp_path).split()
    assert Path(file).is_relative_to(installed)
    assert torch_there == "False"


def test_the_installed_command_answers_from_an_empty_folder(installed, tmp_path):
    script = next((installed / "bin").glob("amp-lessons*"))
    done = run(script, "--help", cwd=tmp_path, PYTHONPATH=str(installed))
    assert done.returncode == 0, done.stderr
    assert "lab" in done.stdout
    assert not list(tmp_path.iterdir())
