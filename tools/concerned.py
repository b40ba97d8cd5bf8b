"""What belongs to what: the tests, checkers and notebooks that a change concerns.

Most of it follows from imports and from names: a test belongs to the module that it imports, to
the one that it's called after, and to a file that it names. What doesn't follow from them is in
`TABLE`, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from importing import PACKAGE, Code, dotted

from amp_lessons.core.catalogue import LESSONS


@dataclass(frozen=True)
class Row:
    """What belongs to the files of a pattern, besides what imports and names say.

    In the texts, {stem} is the file's name without its ending, {topic} its folder, {path} the whole
    path, {lesson} the id of a source's lesson and {slug} the same without its number. {exercises}
    are the exercises that an exercise's file or a topic's harness concerns.

    Attributes:
        files: the pattern, below the root; `*` also stands for folders.
        but: a pattern of files that are meant by none of this.
        tests: patterns of test files, each run as a whole. Behind one stands in brackets what the
            names of its parametrized tests must hold: ``tests/tools/test_build.py[{lesson}]``.
        tool: a checker below ``tools/``.
        of: what the checker is given.
        notebooks: those that depend on the file, besides those that import it.
        says: what somebody has to look at, for no program can.
    """

    files: str
    but: str = ""
    tests: tuple[str, ...] = ()
    tool: str = ""
    of: str = ""
    notebooks: tuple[str, ...] = ()
    says: str = ""


TABLE = (
    Row(
        "sources/lessons/*.py",
        tests=(
            "tests/tools/test_build.py[{lesson}]",
            "tests/core/test_links.py",
            "tests/*/test_{slug}.py",
            "tests/test_one_catalogue.py",
        ),
    ),
    Row("sources/home.py", tests=("tests/app/test_home.py", "tests/core/test_links.py")),
    Row("amp_lessons/app/cards.py", tests=("tests/app/test_home.py",)),
    Row(
        "amp_lessons/app/labextensions/*",
        tests=(
            "tests/app/test_workspace.py",
            "tests/browser/test_home_page.py",
            "tests/browser/test_help_of_lab.py",
        ),
    ),
    Row(
        "amp_lessons/lessons/widgets/*/home.css",
        tests=("tests/app/test_home.py", "tests/browser/test_home_page.py"),
    ),
    Row(
        "amp_lessons/exercises/*/[!_]*.py",
        but="amp_lessons/exercises/checks/*",
        tool="check_exercises.py",
        of="{exercises}",
        tests=("tests/exercises/test_exercises.py[{topic}]", "tests/tools/test_build.py[{topic}]"),
    ),
    Row(
        "amp_lessons/quiz/bank/*.toml",
        tool="check_bank.py",
        of="{stem}",
        tests=(
            "tests/quiz/test_bank.py[{stem}]",
            "tests/tools/test_build.py[{stem}]",
            "tests/test_one_catalogue.py",
        ),
    ),
    Row("amp_lessons/quiz/generators/*.py", tests=("tests/quiz/test_generators.py[{stem}]",)),
    Row(
        "amp_lessons/amp/errors/entries/*.toml",
        tests=(
            "tests/amp/test_lookup*.py",
            "tests/amp/test_hazards.py",
            "tests/lessons/test_clinic.py",
            "tests/test_one_catalogue.py",
        ),
    ),
    Row(
        "amp_lessons/amp/roofline.py",
        tests=(
            "tests/amp/test_gpus.py",
            "tests/amp/test_attention.py",
            "tests/quiz/test_generators.py[speed]",
            "tests/lessons/test_myths.py",
            "tests/app/test_home.py",
        ),
        notebooks=("notebooks/15_myths.ipynb",),
        says="Lesson 15 prints which GPUs its old benchmark may have run on. If yours is now among "
        "them, read the text below it again.",
    ),
    Row(
        "amp_lessons/core/catalogue.py",
        tests=(
            "tests/tools/test_build.py",
            "tests/app/test_home.py",
            "tests/tools/test_readme.py",
            "tests/classroom/test_workshop.py",
        ),
    ),
    Row("amp_lessons/amp/speed/records/*.json", tool="check_record.py", of="{path}"),
    Row(
        "amp_lessons/lessons/widgets/loss_scale.json",
        tests=("tests/amp/test_fixed_scale.py", "tests/lessons/widgets/test_loss_scale_lab.py"),
    ),
    Row("amp_lessons/amp/training/four_bits.json", tests=("tests/amp/test_four_bits.py",)),
    Row(
        "amp_lessons/lessons/widgets/static/zones.mjs",
        tests=(
            "tests/lessons/widgets/test_gradient_histogram.py",
            "tests/lessons/widgets/test_loss_scale_lab.py",
        ),
    ),
    Row(
        "amp_lessons/lessons/widgets/static/block*.mjs",
        tests=("tests/lessons/widgets/test_block_explorer.py",),
    ),
    Row("amp_lessons/lessons/widgets/static/*", tests=("tests/lessons/widgets/test_{stem}*.py",)),
    Row(
        "amp_lessons/lessons/widgets/static/*.mjs", tests=("tests/lessons/widgets/test_modules.py",)
    ),
    Row("amp_lessons/classroom/workshop/*.toml", tests=("tests/classroom/test_workshop.py",)),
    Row("amp_lessons/*.py", tests=("tests/test_architecture.py",)),
    Row("tools/website/*", tests=("tests/tools/test_site.py", "tests/browser/test_site_walk.py")),
    Row("amp_lessons/quiz/exports/static/*.mjs", tests=("tests/tools/test_site.py",)),
    Row("README.md", tests=("tests/tools/test_readme.py",)),
    Row("docs/*.md", tests=("tests/tools/test_readme.py",)),
    Row(
        "pyproject.toml", tests=("tests/tools/test_environment.py", "tests/tools/test_packaging.py")
    ),
    Row("environment.yml", tests=("tests/tools/test_environment.py",)),
    Row("conftest.py", says="Every test shares conftest.py: run `make test`."),
    Row("tests/conftest.py", says="Many tests share tests/conftest.py: run `make test`."),
)


BROWSER = "tests/browser/"


@dataclass
class Plan:
    """What to run for a change.

    Attributes:
        own: the tests that belong to a changed file, each with the words that the names of its
            parametrized tests must hold; none stand for the whole file.
        others: the tests that only import what has changed, the closest first.
        tools: a checker below ``tools/``, and what it's given.
        browser: tests in JupyterLab, which take long; a change of the package doesn't run them.
        notebooks: those that import what has changed, first the one that imports least.
        says: what somebody has to look at.
    """

    own: dict[str, set[str]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    tools: dict[str, list[str]] = field(default_factory=dict)
    browser: list[str] = field(default_factory=list)
    notebooks: list[str] = field(default_factory=list)
    says: list[str] = field(default_factory=list)

    def add(self, test: str, word: str = "") -> None:
        """Run a test file; only for a word, if nothing else wants all of it."""
        words = self.own.setdefault(test, {word} if word else set())
        if word and words:
            words.add(word)
        else:
            words.clear()


def plan(paths: Iterable[str], code: Code) -> Plan:
    """What to run for these changed files, given by their paths below the root."""
    found = Plan()
    for path in paths:
        for row in TABLE:
            if fnmatch(path, row.files) and not fnmatch(path, row.but):
                _by_table(found, row, path, code.root)
        if path.startswith(("tests/", "tools/")) and path.endswith(".py"):
            _beside(found, path, code)
        elif path.startswith(f"{PACKAGE}/"):
            _in_package(found, path, code)
        else:
            found.others += _naming(Path(path).name, code)
    others = [test for test in dict.fromkeys(found.others) if test not in found.own]
    found.browser = [test for test in others if test.startswith(BROWSER)]
    found.others = [test for test in others if test not in found.browser]
    found.notebooks = list(dict.fromkeys(found.notebooks))
    return found


def _by_table(found: Plan, row: Row, path: str, root: Path) -> None:
    words = _words(path, root)
    for pattern in row.tests:
        file, _, only = pattern.removesuffix("]").partition("[")
        for test in sorted(root.glob(file.format(**words))):
            found.add(test.relative_to(root).as_posix(), only.format(**words))
    if row.tool:
        given = found.tools.setdefault(row.tool, [])
        given += [each for each in row.of.format(**words).split() if each not in given]
    found.notebooks += row.notebooks
    if row.says and row.says not in found.says:
        found.says.append(row.says)


def _words(path: str, root: Path) -> dict[str, str]:
    file = Path(path)
    return {
        "path": path,
        "stem": file.stem,
        "topic": file.parent.name,
        "lesson": file.stem.removesuffix("_deep"),
        "slug": file.stem.removesuffix("_deep")[3:],
        "exercises": " ".join(_exercises(root / path)),
    }


def _exercises(file: Path) -> list[str]:
    """The exercises that a file of a topic's folder concerns: its own, or all of the topic."""
    of_topic = [each.name for x in LESSONS if x.slug == file.parent.name for each in x.exercises]
    shared = file.stem in ("sheet", "shared") or file.stem.startswith("harness")
    return of_topic if shared else [file.stem] if file.exists() else []


def _beside(found: Plan, path: str, code: Code) -> None:
    """The tests of a file among the tests and tools: itself, or what imports or names it."""
    name = Path(path).name
    if name.startswith("test_") and path.startswith("tests/"):
        if (code.root / path).exists():
            found.add(path)
        return
    using = code.tests_with(code.root / path)
    for test in [*using, *_naming(name, code)]:
        _take(found, test, _alike(test, Path(path).stem))


def _in_package(found: Plan, path: str, code: Code) -> None:
    """The tests and notebooks of a file in the package."""
    if path.endswith(".py") and not is_cells(code.root / path):
        module = dotted(path)
        _tests_of_module(found, module, code)
        found.notebooks += notebooks_with(code.names_of(module), code)
        return
    found.others += _naming(Path(path).name, code)
    if Path(path).suffix in (".json", ".toml", ".csv"):
        folder = Path(path).parent
        while not (code.root / folder / "__init__.py").exists():
            folder = folder.parent
        found.notebooks += notebooks_with(code.names_below(dotted(folder.as_posix())), code)


def is_cells(file: Path) -> bool:
    """Whether a file is an exercise: Python in cells, which nothing imports."""
    return file.exists() and file.read_text(encoding="utf-8").startswith("# %%")


def _tests_of_module(found: Plan, module: str, code: Code) -> None:
    """Those that import it; if there are none, the closest that reach it. Of those that import it
    by way of another module, also the ones that are called after it."""
    package, stem = module.split(".")[-2:] if "." in module else (module, module)
    any_yet = False
    for distance, tests in enumerate(code.tests_of(module)):
        closest = not any_yet
        for test in tests:
            own = _alike(test, stem) or (closest and _alike(test, package))
            if own or closest:
                _take(found, test, own)
                any_yet = True
        if distance and any_yet:
            return


def _take(found: Plan, test: str, own: bool) -> None:
    if own and not test.startswith(BROWSER):
        if test not in found.own:  # the table may want only a part of it
            found.add(test)
    else:
        found.others.append(test)


def _alike(test: str, name: str) -> bool:
    """Whether a test is called after something: test_lookup_entries after lookup."""
    stem = Path(test).stem.removeprefix("test_")
    short, long = sorted((stem, name), key=len)
    return stem == name or (len(short) > 3 and long.startswith(short))


def _naming(name: str, code: Code) -> list[str]:
    """The tests whose text has the name of a file. That of this table names many."""
    tests = [path for path in code.tests if path.name != "test_check.py"]
    found = [path for path in tests if name in path.read_text(encoding="utf-8")]
    return [path.relative_to(code.root).as_posix() for path in found]


def notebooks_with(names: frozenset[str], code: Code) -> list[str]:
    """The notebooks whose sources import one of these, first the one that imports least."""
    found = {}
    for lesson in LESSONS:
        cells = {lesson.notebook: [code.root / f"sources/lessons/{lesson.id}.py"]}
        if lesson.deep:
            deep = code.root / f"sources/lessons/{lesson.id}_deep.py"
            cells[lesson.deep_notebook] = [deep]
        if lesson.exercises:
            topic = code.root / f"{PACKAGE}/exercises/{lesson.slug}"
            cells[lesson.solutions] = sorted(topic.glob("*.py"))
        for notebook, sources in cells.items():
            imported = frozenset[str]().union(*map(code.imports, sources))
            if names & imported:
                found[notebook] = len(imported)
    return sorted(found, key=lambda notebook: found[notebook])
