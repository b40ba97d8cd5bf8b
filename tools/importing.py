"""Who imports what in this repository: the package, the tests, the tools and the lessons.

A file's imports are read from its text, also those inside functions, and with them the names of
modules that it holds as a string. Nothing is imported for it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "amp_lessons"
_IMPORT = re.compile(r"^\s*(?:from (\w+)[\w.]* import\b|import (\w+)\s*(?:,|as\b|$))", re.MULTILINE)
_MODULE = re.compile(rf"{PACKAGE}(\.\w+)+(:\w+)?")


class Code:
    """The Python files below a folder, and their imports.

    Args:
        root: of the repository.
    """

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self._read: dict[Path, tuple[frozenset[str], frozenset[str]]] = {}
        self._reach: dict[Path, frozenset[str]] = {}
        self._names: dict[str, frozenset[str]] = {}

    @cached_property
    def tests(self) -> list[Path]:
        """Every file of tests."""
        return sorted((self.root / "tests").rglob("test_*.py"))

    @cached_property
    def modules(self) -> dict[str, Path]:
        """The package's modules by their dotted names."""
        paths = sorted((self.root / PACKAGE).rglob("*.py"))
        return {dotted(path.relative_to(self.root).as_posix()): path for path in paths}

    @cached_property
    def beside(self) -> dict[str, Path]:
        """What tests and tools import from beside them, by the names under which they do."""
        found = {}
        for folder in ("tools", "tests"):
            for path in sorted((self.root / folder).rglob("*.py")):
                parts = path.relative_to(self.root / folder).with_suffix("").parts
                if not path.with_name("__init__.py").exists():
                    found.setdefault(parts[-1], path)
                found[".".join(parts).removesuffix(".__init__")] = path
        return found

    def imports(self, path: Path) -> frozenset[str]:
        """What a file imports: modules, and names as ``module.name``."""
        return self._once(path)[0]

    def _once(self, path: Path) -> tuple[frozenset[str], frozenset[str]]:
        """What a file imports, and what it defines."""
        if path not in self._read:
            text = path.read_text(encoding="utf-8") if path.exists() else ""
            tree = ast.parse(text)
            imported = frozenset(_imported(tree))
            inside = path.name == "__init__.py"
            handed_on = {name.rpartition(".")[2] for name in imported} if inside else set()
            self._read[path] = imported, frozenset(_defined(tree) | handed_on)
        return self._read[path]

    def reach(self, path: Path) -> frozenset[str]:
        """What a test or a tool imports, also by way of the files beside it."""
        if path not in self._reach:
            self._reach[path] = frozenset[str]().union(*map(self.imports, self.with_helpers(path)))
        return self._reach[path]

    def with_helpers(self, path: Path) -> set[Path]:
        found, new = set(), {path}
        while new:
            found |= new
            names = {name for each in new for name in self.imports(each)}
            new = {file for name in names for file in self._files_beside(name)} - found
        return found

    def _files_beside(self, name: str) -> Iterator[Path]:
        parts = name.split(".")
        for end in range(len(parts), 0, -1):
            if path := self.beside.get(".".join(parts[:end])):
                yield path
                return

    def names_of(self, module: str) -> frozenset[str]:
        """The names by which others may import this module, or something that it defines: a package
        hands on what its modules define."""
        if module not in self._names:
            self._names[module] = self._names_of(module)
        return self._names[module]

    def _names_of(self, module: str) -> frozenset[str]:
        path = self.modules.get(module)
        inside = self._once(path)[1] if path is not None else frozenset[str]()
        parts = module.split(".")
        above = [".".join(parts[:end]) for end in range(1, len(parts))]
        names = {f"{package}.{name}" for package in (*above, module) for name in inside}
        if path is None or path.name != "__init__.py":
            names |= self.names_below(module)
        return frozenset({module, *above[1:], *names})

    def names_below(self, module: str) -> frozenset[str]:
        """Whatever any file imports from a module, or from the modules of a package."""
        return frozenset(name for name in self._all_names if name.startswith(f"{module}."))

    @cached_property
    def _all_names(self) -> frozenset[str]:
        files = [*self.modules.values(), *self.beside.values(), *self.root.glob("sources/*/*.py")]
        return frozenset[str]().union(*map(self.imports, files))

    def importers(self, module: str) -> set[str]:
        """The package's modules that import this one."""
        names = self.names_of(module)
        found = {other for other, path in self.modules.items() if names & self.imports(path)}
        return found - {module}

    def tests_of(self, module: str) -> Iterator[list[str]]:
        """The tests that reach a module: those that import it, then those that import a module
        which does, and so on. In each list the one that imports least comes first."""
        seen, now = {module}, {module}
        taken: set[Path] = set()
        while now:
            names = frozenset[str]().union(*map(self.names_of, now))
            found = [p for p in self.tests if p not in taken and names & self.reach(p)]
            taken.update(found)
            found.sort(key=lambda path: (len(self.reach(path)), path))
            yield [path.relative_to(self.root).as_posix() for path in found]
            now = {other for each in now for other in self.importers(each)} - seen
            seen |= now

    def tests_with(self, path: Path) -> list[str]:
        """The tests that import this file, which lies beside them."""
        found = [test for test in self.tests if path in self.with_helpers(test)]
        return [test.relative_to(self.root).as_posix() for test in found]

    def missing(self, test: str) -> list[str]:
        """The packages that a test needs and that aren't installed."""
        files = [file for file in self.with_helpers(self.root / test) if file.exists()]
        names = {name.partition(".")[0] for file in files for name in self.imports(file)}
        texts = (file.read_text(encoding="utf-8") for file in files)  # some start a script
        names |= {one or other for text in texts for one, other in _IMPORT.findall(text)}
        ours = {name.partition(".")[0] for name in self.beside} | {PACKAGE, "tests", "tools"}
        foreign = names - ours - set(sys.stdlib_module_names)
        return sorted(name for name in foreign if find_spec(name) is None)


def dotted(path: str) -> str:
    """A file's path below the root as the name of a module."""
    return path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and _MODULE.fullmatch(str(node.value)):
            yield str(node.value).replace(":", ".")


def _defined(tree: ast.Module) -> set[str]:
    """The names that a module defines at its top."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return names
