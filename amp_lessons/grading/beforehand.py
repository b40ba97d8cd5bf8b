"""What cells may have done before a check looks: let the course do the task, and keep the results.

A check sees what an answer calls, and not what an earlier cell called. So a notebook in whose text
that may be is run a second time, with the course's own functions closed for the learner's cells
(`checks.own_work.refusing`). An answer that passes there too did not need them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from amp_lessons.grading.reaching import LONGEST, tree_of

_WORD = re.compile(r"[A-Za-z_]\w*")
_HIDES = frozenset(
    (
        *("getattr", "vars", "dir", "globals", "locals", "eval", "exec", "compile", "reload"),
        *("__dict__", "__getattribute__", "__import__", "__file__", "import_module", "find_spec"),
        *("attrgetter", "methodcaller", "getmembers", "getattr_static", "getsource", "origin"),
        *("getsourcelines", "getsourcefile", "getfile", "run_cell", "run_path", "run_module"),
        *("SourceFileLoader", "spec_from_file_location", "pickle", "dill", "__path__"),
    )
)
"""By way of these a function can be called without its name."""

_STILL = (
    *(ast.Constant, ast.Name, ast.Attribute, ast.Tuple, ast.List, ast.Set, ast.Dict),
    *(ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop, ast.expr_context),
)


def acts(source: str) -> bool:
    """Whether a cell does more, as it runs, than import and define things."""
    if len(source) > LONGEST:
        return True
    return any(map(_does_something, tree_of(source).body))


def _does_something(node: ast.stmt) -> bool:
    match node:
        case ast.Import() | ast.ImportFrom() | ast.Pass():
            return False
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            given = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
            return not all(map(_is_still, [*node.decorator_list, *given]))
        case ast.ClassDef():
            around = [*node.decorator_list, *node.bases, *(each.value for each in node.keywords)]
            return not all(map(_is_still, around)) or any(map(_does_something, node.body))
        case ast.Assign(value=value) | ast.AnnAssign(value=value) | ast.Expr(value=value):
            return value is not None and not _is_still(value)
    return True


def _is_still(node: ast.expr) -> bool:
    """Whether an expression calls nothing; what stands in a lambda runs later."""
    return isinstance(node, ast.Lambda) or all(isinstance(n, _STILL) for n in ast.walk(node))


def may_use(cells: Sequence[tuple[str, bool]], words: Iterable[str]) -> bool:
    """Whether a cell of the learner's acts, and one has such a word, or a way to hide it.

    Args:
        cells: the source of each cell that the learner wrote, and whether it `acts`.
        words: names of which one stands in any code that uses what is closed.
    """
    looked_for = _HIDES.union(words)
    return any(acting for _, acting in cells) and any(
        len(source) > LONGEST or not looked_for.isdisjoint(_WORD.findall(source))
        for source, _ in cells
    )
