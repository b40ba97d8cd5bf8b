"""What stands around the course on GitHub names files, targets and versions that exist.

Nothing here runs a workflow. actionlint and zizmor check those (see CONTRIBUTING.md).
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import build_release
import pytest
import yaml
from typer.main import get_command

from amp_lessons.app.cli import app

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("wrong_*.yml"))
PAGES = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / ".github/PULL_REQUEST_TEMPLATE.md"]
MADE = ("dist/", "build/", ".venv/", "notes.md")  # by a step, so not in the repository


def read(path: str | Path) -> Any:
    """A file of YAML, or of JSON, which is YAML too."""
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def commands(workflow: dict) -> list[str]:
    """The shell commands of a workflow."""
    steps = (step for job in workflow["jobs"].values() for step in job["steps"])
    return [step["run"] for step in steps if "run" in step]


def missing(command: str, root: Path = ROOT) -> list[str]:
    """The words of a command that look like a file, a pattern of files or a target of make, and
    that the repository hasn't got."""
    words = shlex.split(command.replace("\n", " "))
    files = [word for word in words if re.search(r"/|\.(py|txt|md|toml|yml|sh)$", word)]
    files = [word for word in files if not word.startswith(("$", "-", *MADE))]
    gone = [word for word in files if not any(root.glob(word.rstrip("/")))]
    targets = [name for before, name in pairwise(words) if before == "make"]
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    return gone + [name for name in targets if not re.search(rf"^{name}:", makefile, re.MULTILINE)]


def in_code(page: str) -> Iterable[str]:
    """What a page in Markdown shows as code: spans, and indented lines without their comments."""
    yield from re.findall(r"`([^`\n]+)`", page)
    for line in re.findall(r"^ {4}(.+)$", page, re.MULTILINE):
        yield line.partition(" # ")[0]


# ---- what is named exists ------------------------------------------------------------------------


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_calls_what_there_is(path):
    found = commands(read(path))
    assert found
    assert [word for command in found for word in missing(command)] == []


def test_the_cache_depends_on_files_that_there_are():
    steps = [s for path in WORKFLOWS for job in read(path)["jobs"].values() for s in job["steps"]]
    named = [s["with"]["cache-dependency-glob"] for s in steps if "cache-dep" in str(s.get("with"))]
    assert named
    assert [name for name in named if missing(name)] == []


def test_the_dev_container_calls_what_there_is():
    assert missing(read(".devcontainer/devcontainer.json")["postCreateCommand"]) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_what_there_is(page):
    text = page.read_text(encoding="utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", text.replace("\n", " "))
    gone = [link for link in links if not (page.parent / link).exists()]
    assert gone + [word for code in in_code(text) for word in missing(code)] == []


def test_the_commands_named_exist():
    texts = [path.read_text(encoding="utf-8") for path in (*PAGES, *FORMS, *WORKFLOWS)]
    named = set(re.findall(r'amp-lessons["`]? (\w+)', " ".join(texts)))
    assert {"doctor", "lab", "grade"} <= named
    assert named <= get_command(app).commands.keys()


def test_the_source_archive_names_what_there_is():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    included = build["build"]["targets"]["sdist"]["include"]
    assert {"/CHANGELOG.md", "/CITATION.cff", "/conftest.py"} <= set(included)
    assert [name for name in included if not (ROOT / name.lstrip("/")).exists()] == []


@pytest.mark.parametrize(
    ("command", "gone"),
    [
        ("python tools/no_such.py tests", ["tools/no_such.py"]),
        ("jupyter execute notebooks/9*.ipynb\nbash .ci/none", ["notebooks/9*.ipynb", ".ci/none"]),
        ("make test && make everything", ["everything"]),
        ("pip install -c constrains.txt 'dist/x.whl'", ["constrains.txt"]),
        ('"$BIN/python" -m pytest tests/quiz', []),
    ],
)
def test_what_does_not_exist_is_found(command, gone):
    assert missing(command) == gone


# ---- versions ------------------------------------------------------------------------------------


def test_pre_commit_has_the_ruff_of_the_tests():
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    (ours,) = re.findall(r"^ruff==(.+)$", pins, re.MULTILINE)
    (hook,) = (r for r in read(".pre-commit-config.yaml")["repos"] if "ruff" in r["repo"])
    assert hook["rev"] == f"v{ours}"


def test_the_changelog_begins_with_the_version_of_the_project():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = list(build_release.HEADING.finditer(text))
    assert len(headings) == len(re.findall(r"^## ", text, re.MULTILINE)), (
        "each is ## [1.2.3] - date"
    )
    newest = next(heading for heading in headings if heading["version"] != "Unreleased")
    assert newest["version"] == PROJECT["version"]
    assert newest["date"] == "unreleased" or build_release.DATE.fullmatch(newest["date"])


def test_the_citation_says_what_the_project_says():
    citation = read("CITATION.cff")
    for name in ("version", "license", "keywords"):
        assert citation[name] == PROJECT[name], name


def test_the_dev_container_is_the_container_of_the_tests():
    box = read(".devcontainer/devcontainer.json")
    container = read(".github/workflows/tests.yml")["jobs"]["linux"]["container"]
    options = ["--privileged"] * box["privileged"] + box["runArgs"]
    assert (box["image"], " ".join(options)) == (container["image"], container["options"])
    json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))


# ---- the workflows and the forms -----------------------------------------------------------------


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_only_what_it_needs_and_ends(path):
    workflow = read(path)
    assert workflow["permissions"] in ({}, {"contents": "read"})
    assert all(job["timeout-minutes"] <= 60 for job in workflow["jobs"].values())


def test_an_action_is_pinned_to_one_commit_with_its_version_beside_it():
    text = "\n".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    used = re.findall(r"uses: (\S+?)@(.+)$", text, re.MULTILINE)
    assert len(used) > 5
    assert all(re.fullmatch(r"[0-9a-f]{40} # v[\d.]+", commit) for _, commit in used)
    assert len(set(used)) == len({action for action, _ in used})


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_is_one_that_github_shows(path):
    form = read(path)
    assert (
        {"name", "description", "body"} <= form.keys() <= {"name", "description", "title", "body"}
    )
    assert {field["type"] for field in form["body"]} <= {"textarea", "input", "dropdown"}
    assert len({field["id"] for field in form["body"]}) == len(form["body"])
    assert all(field["attributes"]["label"] for field in form["body"])


# ---- a release -----------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path) -> Path:
    """A project of version 1.2.0 with a changelog of two versions."""
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2027-01-31\n\n### Added\n\n- A lesson.\n\n"
        "## [1.1.0] - 2026-12-01\n\n- The rest.\n"
    )
    return tmp_path


def test_the_notes_are_the_section_of_the_version(project):
    assert build_release.notes("v1.2.0", project) == "### Added\n\n- A lesson.\n"


@pytest.mark.parametrize(
    ("tag", "file", "old", "new", "message"),
    [
        ("v1.3.0", "CHANGELOG.md", "", "", "the tag is v1.3.0, but pyproject.toml has 1.2.0"),
        ("1.2.0", "CHANGELOG.md", "", "", "the tag is 1.2.0, but"),
        ("v1.2.0", "CHANGELOG.md", "2027-01-31", "unreleased", "no date for 1.2.0"),
        ("v1.2.0", "CHANGELOG.md", " - 2027-01-31", "", "no date for 1.2.0"),
        ("v1.2.1", "pyproject.toml", "1.2.0", "1.2.1", r"no section \[1.2.1\]"),
    ],
)
def test_a_release_that_does_not_fit_is_refused(project, tag, file, old, new, message):
    path = project / file
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(build_release.ReleaseError, match=message):
        build_release.notes(tag, project)


def test_an_earlier_build_is_not_mixed_with_a_new_one(tmp_path, monkeypatch, capsys):
    (tmp_path / "old.whl").touch()
    monkeypatch.setattr(build_release, "notes", lambda tag, root: "")
    assert build_release.main(["v0.1.0", "--to", str(tmp_path)]) == 1
    assert "remove it" in capsys.readouterr().err
