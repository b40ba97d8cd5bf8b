"""Honest people's odd notebooks: full marks for each, and nobody is accused of anything.

Most of these lost 6 of 8 points when the grader looked for suspicious words in the cells.
"""

# ruff: noqa: E501  (the cells are programs in strings)

from __future__ import annotations

from pathlib import Path
from typing import Any

from hostile.machine import Around
from hostile.sheets import (
    FIRST,
    FOURTH,
    NAMES,
    SECOND,
    THIRD,
    Outcome,
    Sheet,
    Submission,
    broken,
    notebook,
)


def above(*sources: str) -> Any:
    """Cells above the first exercise."""

    def change(sheet: Sheet) -> None:
        for source in sources:
            sheet.at_the_top(source)

    return change


def below(*sources: str) -> Any:
    """Cells at the end, where the answers are defined."""

    def change(sheet: Sheet) -> None:
        for source in sources:
            sheet.add(source)

    return change


def around(name: str, before: str = "", after: str = "") -> Any:
    """Code in an answer's cell, above and below the right answer."""

    def change(sheet: Sheet) -> None:
        sheet.write(name, f"{before}\n{sheet.source(name)}\n{after}")

    return change


def every_answer(after: str) -> Any:
    def change(sheet: Sheet) -> None:
        for name in NAMES:
            around(name, after=after.format(name=name))(sheet)

    return change


def typed_into_the_check(sheet: Sheet) -> None:
    """The whole answer stands above the call in the check's own cell."""
    answer = sheet.source(SECOND)
    sheet.write(SECOND, Sheet(solved=False).source(SECOND))
    sheet.check(SECOND)["source"] = f"{answer}\n\nex.{SECOND}.check({SECOND})"


def renamed(sheet: Sheet) -> None:
    """Function and call were renamed together."""
    sheet.write(SECOND, sheet.source(SECOND).replace(SECOND, "my_next_float"))
    sheet.check(SECOND)["source"] = f"ex.{SECOND}.check(my_next_float)"


def beside(folder: Path, _: Around) -> None:
    """An answer in a module of the learner's own, beside the notebook."""
    sheet = Sheet()
    (folder / "helper.py").write_text(f"import torch\n\n\n{sheet.source(SECOND)}\n")
    sheet.write(SECOND, f"from helper import {SECOND}")
    notebook(folder, sheet.to_bytes())


FLOATS = "import struct\nstruct.unpack('<I', struct.pack('<f', 1.0))"
OWN_TESTS = """
import unittest
class Steps(unittest.TestCase):
    def test_one(self):
        self.assertEqual(next_float(1.0), 1 + 2**-10)
unittest.main(argv=['notebook'], exit=False)
"""
TIMED = """
import functools, time
def timed(function):
    @functools.wraps(function)
    def inner(*args):
        began = time.perf_counter()
        try:
            return function(*args)
        finally:
            spent.append(time.perf_counter() - began)
    return inner
spent = []
"""
A_CLASS = f"""
class Stepper:
    def __init__(self, function):
        self.function, self.calls = function, 0
    def __call__(self, x):
        self.calls += 1
        return self.function(x)
{SECOND} = Stepper({SECOND})
"""


def honest(name: str, tries: str, change: Any) -> Submission:
    """A solved sheet with something odd and harmless."""
    return broken(f"honest-{name}", tries, change)


HONEST = [
    honest("thread", "starts a thread", above("import threading\nthreading.Thread(target=print).start()")),
    honest(
        "pool",
        "maps with a pool of threads",
        above(
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(2) as pool: print(list(pool.map(abs, [-1, 2])))"
        ),
    ),
    honest("cpu-count", "counts processors", above("import multiprocessing\nmultiprocessing.cpu_count()")),
    honest("processes", "maps with a pool of processes", above("import multiprocessing\nwith multiprocessing.get_context('fork').Pool(2) as pool: pool.map(abs, [-1])")),
    honest("profiled", "profiles a line", above("import cProfile\ncProfile.run('sum(range(100))')")),
    honest("prun", "profiles and times by magics", below("%prun -q next_float(1.0)", "%timeit -n1 -r1 next_float(1.0)", "%%time\nnext_float(2.0)")),
    honest("torch-profiler", "profiles an op", above("from torch.profiler import profile\nwith profile() as found: torch.ones(3).sum()\nfound.key_averages()")),
    honest("tracemalloc", "counts memory", above("import tracemalloc\ntracemalloc.start(); x = [0] * 100; tracemalloc.stop()")),
    honest("all-objects", "counts the tensors that are alive", above("import gc\nsum(torch.is_tensor(o) for o in gc.get_objects() if type(o) is torch.Tensor)")),
    honest("referrers", "looks for what keeps a tensor alive", above("import gc\nx = torch.ones(2)\nlen(gc.get_referrers(x)), len(gc.get_referents([x]))")),
    honest("co-varnames", "looks at a function's names", below("next_float.__code__.co_varnames, next_float.__globals__ is globals()")),
    honest("closure", "looks at a closure", above("def add(n): return lambda x: x + n\nadd(3).__closure__[0].cell_contents")),
    honest("getsource", "prints its own source", below("import inspect\ntry: print(inspect.getsource(next_float))\nexcept OSError as error: print(error)")),
    honest("signature", "asks for a signature", below("import inspect\ninspect.signature(next_float), inspect.stack()[0].lineno")),
    honest("getframe", "prints its own line number", above("import sys\nsys._getframe().f_lineno, sys._getframe().f_locals.keys()")),
    honest("traceback", "prints a traceback", above("import sys, traceback\ntry: 1 / 0\nexcept ZeroDivisionError: print(traceback.format_exc(), sys.exc_info()[2].tb_frame.f_lineno)")),
    honest("builtins", "imports builtins", above("import builtins\nbuiltins.print('hello')")),
    honest("own-print", "changes print", above("import builtins, functools\nbuiltins.print = functools.partial(builtins.print, flush=True)")),
    honest("docstring", "names /proc/self in a docstring", around(FIRST, after=f"{FIRST}.__doc__ = 'Like /proc/self/maps, and amp_lessons.exercises.checks.'")),
    honest("120000-characters", "a table of 120,000 characters", above("table = [" + "1.5, " * 24_000 + "]\nlen(table)")),
    honest("long-answer", "an answer with a comment of 150,000 characters", around(SECOND, before="# " + "-" * 150_000)),
    honest("ctypes", "asks for the size of a C float", above("import ctypes\nctypes.sizeof(ctypes.c_float), ctypes.c_float(0.1).value")),
    honest("struct", "looks at bits", above(FLOATS)),
    honest("subprocess", "asks another Python for its version", above("import subprocess, sys\nsubprocess.run([sys.executable, '--version'], capture_output=True).returncode")),
    honest("exec", "runs text", above("code = 'a = 1 + 1'\nexec(code)\nprint(eval('a'), compile('1', 'x', 'eval'))")),
    honest("run-cells", "runs magics as functions", above("get_ipython().run_cell_magic('time', '', 'x = 1')\nget_ipython().run_line_magic('who', '')")),
    honest("sys-modules", "looks into sys.modules", above("import sys\n'torch' in sys.modules, sys.modules['math'].pi if 'math' in sys.modules else 3")),
    honest("reload", "loads a module again", above("import importlib, json\nimportlib.reload(json)\nimportlib.import_module('math').pi")),
    honest("globals", "sets names by globals()", above("globals()['answer'] = 42\nvars()['other'] = 1\nlocals()\ndir()")),
    honest("subclasses", "counts subclasses", above("len(int.__subclasses__()), object.__subclasses__()[:2]")),
    honest("asyncio", "waits for a thread", above("import asyncio\nawait asyncio.to_thread(abs, -1)")),
    honest("trace", "sets a trace and takes it off", above("import sys, threading\nsys.settrace(lambda *_: None)\nsys.settrace(None)\nthreading.settrace(None)\nsys.setprofile(None)")),
    honest("autoreload", "loads an extension", above("%load_ext autoreload\n%autoreload 2")),
    honest("transformer", "takes prompts out of pasted code", above("get_ipython().input_transformers_cleanup.append(lambda lines: lines)")),
    honest("unittest", "has tests of its own", below(OWN_TESTS)),
    honest("doctest", "tests its docstrings", below("import doctest\ndoctest.run_docstring_examples(next_float, globals())")),
    honest("cached", "caches an answer", around(SECOND, before="from functools import lru_cache", after=f"{SECOND} = lru_cache({SECOND})")),
    honest("timed", "times each answer with a decorator", lambda sheet: [above(TIMED)(sheet), every_answer("{name} = timed({name})")(sheet)]),
    honest("callable", "an answer that is an object", around(SECOND, after=A_CLASS)),
    honest("partial", "an answer that is a partial", around(SECOND, before="from functools import partial", after=f"{SECOND} = partial({SECOND})")),
    honest("ufunc", "an answer that NumPy wraps", around(SECOND, before="import numpy as np", after=f"{SECOND} = np.frompyfunc({SECOND}, 1, 1)")),
    honest("in-a-thread", "an answer that works in a thread", around(SECOND, after=f"from concurrent.futures import ThreadPoolExecutor\npool, inner = ThreadPoolExecutor(1), {SECOND}\ndef {SECOND}(x):\n    return pool.submit(inner, x).result()")),
    honest("own-names", "names of the course for things of its own", above("called, refuse, Case, Probe, Closed, closed = [], 1, 2, 3, 4, 5")),
    honest("own-format", "a class of the same name", above("class Format:\n    def next_up(self, x): return x + 1\nprint(Format().next_up(1))")),
    honest("reads-hints", "looks up hints by another import", above("from amp_lessons.exercises.checks import find_exercise\nfind_exercise('next_float').hints\nfrom amp_lessons.exercises.number_formats import next_float")),
    honest("progress", "looks at its progress", above("from amp_lessons.core import progress\nprogress.load()")),
    honest("signal", "sets a handler, and an exit function", above("import signal, atexit\nsignal.signal(signal.SIGALRM, signal.SIG_IGN)\natexit.register(print)")),
    honest("excepthook", "changes how errors are shown", above("import sys\nsys.excepthook = print\nimport logging; logging.basicConfig(level='DEBUG'); logging.debug('x', stack_info=True)")),
    honest("warnings", "shows warnings its own way", above("import warnings\nwarnings.showwarning = lambda *_, **__: None\nwarnings.warn('x')")),
    honest("compares-first", "compares with the course above its answer", around(SECOND, before="from amp_lessons.amp.numbers.formats import FP16\nexpected = [FP16.next_up(x) for x in (1.0, 2.0)]\nprint(expected)")),
    honest("compares-below", "compares with the course below its answer", around(SECOND, after="from amp_lessons.amp.numbers.formats import FP16\nassert next_float(1.0) == FP16.next_up(1.0)\nprint('fine')")),
    honest("compares-in-a-test", "compares with the course where that may fail", below("from amp_lessons.amp.numbers.formats import FP16\ntry: assert FP16.next_up(1.0) == next_float(1.0)\nexcept Exception as error: print(error)")),
    honest("prints-in-answers", "prints in its answers", every_answer("print({name})")),
    honest("typed-into-the-check", "an answer typed into the check's cell", typed_into_the_check),
    honest("renamed", "a function that was renamed together with its check", renamed),
    Submission("honest-module-beside", "broken", "an answer in a file beside the notebook", beside, Outcome()),
    honest("copied-cell", "the check's call repeated in a cell of its own", lambda sheet: sheet.add(f"ex.{THIRD}.check({THIRD})\nex.{FOURTH}.check({FOURTH})")),
    honest("json", "changes how JSON is written", above("import json\njson.encoder.FLOAT_REPR = repr\njson.dumps({'a': 1})")),
]  # fmt: skip
