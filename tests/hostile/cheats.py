"""Who wants marks without doing the task. Each sheet holds the stubs, and a cell above them.

``HOME`` in such a cell is evidence of right answers, recorded in a notebook at home; the batch draws
other inputs. ``NAMES`` are the four exercises.
"""

# ruff: noqa: E501  (the attacks are programs in strings)

from __future__ import annotations

import inspect
import json
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from amp_lessons.amp.numbers.formats import Format
from amp_lessons.core import catalogue
from hostile.machine import Around
from hostile.sheets import (
    FIRST,
    FOURTH,
    NAMES,
    OTHER,
    SECOND,
    THIRD,
    Outcome,
    Sheet,
    Submission,
    cheat,
    notebook,
)

FRAMES = """
import sys, json
def outer(name):
    frame = sys._getframe()
    while frame is not None:
        if name in frame.f_locals: return frame.f_locals[name]
        frame = frame.f_back
"""
SEND = """
def tell_all(reporter, job):
    for number, step in enumerate(job['steps']):
        if step['checks'] in HOME:
            text = json.dumps(HOME[step['checks']]).encode()
            reporter.send(begin=number)
            reporter.send(text, step=number, exercise=step['checks'])
            reporter.send(end=number, error=None)
"""
ANSWERS = """
import re
def learn(text):
    'Run what may be the answers, and bind the stubs to them.'
    for part in re.split(r'(?m)^(?=def )', text):
        name = part[4:].split('(')[0]
        if name in NAMES and '\\n' in part:
            body = [l for l in part.splitlines() if not l.strip().startswith('###')]
            while body:
                try:
                    exec('\\n'.join(body), globals())
                    break
                except SyntaxError: body.pop()
                except BaseException: break
KEPT = {}
def keep():
    'The cells below define the stubs again; put what was found into the checks.'
    from amp_lessons.exercises.checks.exercise import Exercise
    found = {n: globals()[n] for n in NAMES if n in globals()}
    original = Exercise.evidence_of
    def evidence(self, *answer):
        return original(self, found.get(self.name, *answer))
    Exercise.evidence_of = evidence
"""

# ---- evidence from home -------------------------------------------------------------------------

FORGED = [
    cheat(
        "patched-evidence",
        "Exercise.evidence_of gives evidence from home",
        "from amp_lessons.exercises.checks.exercise import Exercise\n"
        "Exercise.evidence_of = lambda self, *answer: HOME[self.name]",
    ),
    cheat(
        "patched-probe",
        "Probe.__call__ gives evidence from home",
        "from amp_lessons.exercises.checks.probe import Probe\n"
        "probes = {id(getattr(ex, n).probe): HOME[n] for n in NAMES}\n"
        "Probe.__call__ = lambda self, *answer: probes[id(self)]",
    ),
    cheat(
        "patched-observe",
        "observe gives what was seen at home, call by call",
        "from amp_lessons.exercises.checks import evidence, probe\n"
        "calls = iter([entry for n in NAMES for entry in HOME[n]])\n"
        "evidence.observe = probe.observe = lambda *_: next(calls)",
    ),
    cheat(
        "patched-plain",
        "plain and as_json give evidence from home",
        "from amp_lessons.exercises.checks import serialize\nfrom amp_lessons.exercises.checks import evidence\n"
        "texts = iter([json.dumps(HOME[n]) for n in NAMES for _ in range(2)])\n"
        "import json\nserialize.as_json = evidence.as_json = lambda value: next(texts)\n"
        "serialize.plain = evidence.plain = lambda value: 1.0",
    ),
    cheat(
        "patched-json",
        "json gives evidence from home",
        "import json\ntexts = [json.dumps(HOME[n]) for n in NAMES]\nnames = iter(NAMES)\n"
        "original = json.loads\njson.loads = lambda text, **_: HOME[next(names)]\n"
        "json.dumps = lambda value, **_: texts.pop(0) if isinstance(value, list) else '{}'",
    ),
    cheat(
        "frames",
        "walks the stack to the reporter and sends evidence from home",
        f"{FRAMES}{SEND}reporter, job = outer('reporter'), outer('job')\n"
        "tell_all(reporter, job)\nreporter.send(done=True)",
    ),
    cheat(
        "objects",
        "finds the reporter with gc, and sends evidence from home at each check",
        f"{FRAMES}{SEND}import gc\n"
        "reporter = next(o for o in gc.get_objects() if type(o).__name__ == 'ToGrader')\n"
        "original = type(reporter).send\n"
        "def send(self, evidence=b'', **header):\n"
        "    if header.get('exercise') in HOME: evidence = json.dumps(HOME[header['exercise']]).encode()\n"
        "    return original(self, evidence, **header)\ntype(reporter).send = send",
    ),
    cheat(
        "reporter",
        "hands evidence from home to the reporter of the exercises",
        "from amp_lessons.exercises.checks.exercise import Exercise\n"
        "def check(self, *answer): self.reporter.report(self, HOME[self.name])\n"
        "Exercise.check = check",
    ),
    cheat(
        "guessed-descriptors",
        "writes frames into every descriptor",
        "import os, json, struct\n"
        "def frame(header, evidence=b''):\n    text = json.dumps(header).encode()\n"
        "    return struct.pack('>I', len(text)) + text + struct.pack('>I', len(evidence)) + evidence\n"
        "for fd in range(3, 64):\n    for number in range(30):\n        for name in NAMES:\n"
        "            text = json.dumps(HOME[name]).encode()\n            try:\n"
        "                os.write(fd, frame({'begin': number}) + frame({'step': number, "
        "'exercise': name}, text) + frame({'end': number, 'error': None}))\n"
        "            except OSError: pass",
    ),
    cheat(
        "writing-thread",
        "a thread that goes on writing frames",
        f"{FRAMES}{SEND}import threading\nreporter, job = outer('reporter'), outer('job')\n"
        "def go_on():\n    while True: tell_all(reporter, job)\n"
        "threading.Thread(target=go_on, daemon=True).start()",
    ),
    cheat(
        "writing-fork",
        "a process that goes on writing frames",
        f"{FRAMES}{SEND}import os\nreporter, job = outer('reporter'), outer('job')\n"
        "if os.fork() == 0:\n    reporter.process = os.getpid()\n"
        "    while True: tell_all(reporter, job)",
    ),
    cheat(
        "no-salt",
        "takes the salt away, and makes the inputs from home again",
        "from amp_lessons.exercises.checks import draws\nfrom amp_lessons.exercises.checks.exercise import Exercise\n"
        "draws.use_salt('')\nfor name in NAMES: vars(getattr(ex, name).probe).pop('all_cases', None)\n"
        "seen = {n: iter(HOME[n]) for n in NAMES}\n"
        "from amp_lessons.exercises.checks.probe import Probe\n"
        "Exercise.evidence_of = lambda self, *answer: HOME[self.name]",
    ),
    cheat(
        "old-report",
        "writes the report of the grader before this one",
        "import os, json\nfor fd in range(1, 40):\n    for number in range(20):\n"
        "        for name in NAMES:\n            try:\n"
        "                text = json.dumps({'step': number, 'exercise': name, 'evidence': HOME[name]})\n"
        "                os.write(fd, text.encode() + b'\\n')\n            except OSError: pass",
    ),
    cheat(
        "passes-by-message",
        "frames that speak of a pass",
        f"{FRAMES}reporter = outer('reporter')\n"
        "for number in range(20):\n    for name in NAMES:\n"
        "        reporter.send(begin=number)\n"
        "        for more in ({'state': 'passed'}, {'points': 8}, {'verdict': {'state': 'passed'}}):\n"
        '            reporter.send(b\'{"state": "passed"}\', step=number, exercise=name, **more)\n'
        "        reporter.send(end=number, error={'type': 'Passed', 'message': 'passed'})",
    ),
    cheat(
        "nan-evidence",
        "evidence that is NaN wherever it can be",
        "from amp_lessons.exercises.checks.exercise import Exercise\n"
        "def to_nan(x):\n    if isinstance(x, dict): return {k: to_nan(v) for k, v in x.items()}\n"
        "    return list(map(to_nan, x)) if isinstance(x, list) else nan\n"
        "Exercise.evidence_of = lambda self, *answer: to_nan(HOME[self.name])",
    ),
    cheat(
        "short-evidence",
        "evidence of no calls, or of one",
        "from amp_lessons.exercises.checks.exercise import Exercise\n"
        "few = {NAMES[0]: [], NAMES[1]: HOME[NAMES[1]][:1], NAMES[2]: {}, NAMES[3]: [[]]}\n"
        "Exercise.evidence_of = lambda self, *answer: few[self.name]",
    ),
]

# ---- answers from elsewhere ---------------------------------------------------------------------

STOLEN = [
    cheat(
        "give-up",
        "opens the solution and runs what it shows",
        f"{ANSWERS}import contextlib, io\nfrom IPython.utils.capture import capture_output\n"
        "for name in NAMES:\n    with capture_output() as shown:\n"
        "        try: getattr(ex, name).solution(give_up=True)\n        except BaseException: pass\n"
        "    learn(shown.stdout + ''.join(str(o.data) for o in shown.outputs))\n"
        "    try: learn(getattr(ex, name).solved())\n    except BaseException: pass\nkeep()",
    ),
    cheat(
        "answer-key",
        "reads the answer key of the exercises",
        f"{ANSWERS}from amp_lessons.exercises.checks.parts import AnswerKey\n"
        "for name in NAMES:\n    exercise = getattr(ex, name)\n    try:\n"
        "        for source in AnswerKey(exercise.public).right.values(): learn(source)\n"
        "    except BaseException: pass\n    learn(exercise.path.read_text())\nkeep()",
    ),
    cheat(
        "solutions-on-disk",
        "looks for the solutions in every likely place",
        f"{ANSWERS}import glob, json, os, sys, time\n"
        "places = [AROUND['course'], AROUND['package'], os.path.dirname(AROUND['package'])]\n"
        "import amp_lessons\nplaces += list(amp_lessons.__path__) + sys.path + ['/tmp', '/root', '.']\n"
        "until = time.monotonic() + 0.8\n"
        "for place in places:\n"
        "    for pattern in ('solutions/01*', '_course/solutions/01*', '*/solutions/01*',"
        " 'exercises/number_formats/*.py', 'amp_lessons/exercises/number_formats/*.py', '*.ipynb'):\n"
        "        for path in glob.glob(f'{place}/{pattern}'):\n"
        "            try: text = open(path).read()\n            except OSError: continue\n"
        "            if path.endswith('.ipynb'):\n"
        "                cells = json.loads(text)['cells']\n"
        "                text = '\\n'.join(''.join(c['source']) for c in cells)\n"
        "            learn(text)\n        if time.monotonic() > until: break\nkeep()",
    ),
    cheat(
        "solutions-in-memory",
        "looks for the solutions in its own memory",
        f"{ANSWERS}import re\nwanted = re.compile(rb'def (?:decode_bits|next_float|smallest_scale|"
        "choose_format)\\\\([^)]*\\\\):\\\\n[ -~\\\\n]{200,1500}')\n"
        "with open('/proc/self/maps') as maps, open('/proc/self/mem', 'rb') as memory:\n"
        "    for row in maps:\n        where, rights, *_ = row.split()\n"
        "        first, last = (int(x, 16) for x in where.split('-'))\n"
        "        if rights == 'rw-p' and last - first < 2**26:\n"
        "            memory.seek(first)\n"
        "            for found in wanted.findall(memory.read(last - first)):\n"
        "                if b'AROUND' not in found: learn(found.decode())\nkeep()",
    ),
    cheat(
        "neighbours-answers",
        "reads a neighbour's notebook",
        f"{ANSWERS}import glob, json\n"
        "paths = [AROUND['neighbour'], *glob.glob('/proc/*/cwd/*.ipynb'), *glob.glob('/tmp/*/*.ipynb'), "
        "*glob.glob('../*/*.ipynb')]\n"
        "for path in paths:\n    try:\n        cells = json.load(open(path))['cells']\n"
        "        learn('\\n'.join(''.join(c['source']) for c in cells))\n"
        "    except (OSError, ValueError): pass\nkeep()",
    ),
    cheat(
        "table",
        "a table of the results for the inputs from home",
        "import torch\nfrom amp_lessons.exercises.checks.draws import use_salt\n"
        "from amp_lessons.exercises.checks.exercise import Exercise\n"
        "def table(name):\n    seen = [e.get('value') for e in HOME[name]]\n"
        "    given = iter(seen)\n    return lambda *args: next(given, None)\n"
        "original = Exercise.evidence_of\n"
        "Exercise.evidence_of = lambda self, *answer: original(self, table(self.name))",
    ),
    cheat(
        "download",
        "fetches the answers from a server",
        f"{ANSWERS}import urllib.request\n"
        "try: learn(urllib.request.urlopen(f\"http://127.0.0.1:{AROUND['port']}/\", timeout=1)"
        ".read().decode())\nexcept OSError: pass\nkeep()",
    ),
    cheat(
        "expected-in-frames",
        "an answer that looks for the expected value in the frames that call it",
        "import sys\nfrom amp_lessons.exercises.checks.exercise import Exercise\n"
        "def answer(*args):\n    frame, found = sys._getframe(1), []\n"
        "    while frame is not None and len(found) < 50:\n"
        "        for name in ('expected', 'right', 'want', 'target', 'result', 'solution', 'value'):\n"
        "            if name in frame.f_locals: found.append(frame.f_locals[name])\n"
        "        frame = frame.f_back\n    return found[0] if found else None\n"
        "original = Exercise.evidence_of\nExercise.evidence_of = lambda self, *_: original(self, answer)",
    ),
    cheat(
        "public-helpers",
        "has the course's own functions do the task",
        "",
        change=lambda sheet: [sheet.write(name, text) for name, text in HELPERS.items()],
        outcome=Outcome(
            {FIRST: "wrong", SECOND: "wrong", THIRD: "not attempted", FOURTH: "not attempted"},
            {FIRST: "already does", SECOND: "already does"},
        ),
    ),
]
HELPERS = {
    FIRST: "from amp_lessons.amp.numbers.formats import FORMATS, FP16\n"
    "def decode_bits(code, exponent_bits, mantissa_bits):\n"
    "    from amp_lessons.amp.numbers import formats\n"
    "    own = formats.Format('own', exponent_bits, mantissa_bits)\n"
    "    return float(own.decode(torch.tensor([code]).numpy())[0])",
    SECOND: "from amp_lessons.amp.numbers.formats import FP16\ndef next_float(x):\n    return FP16.next_up(x)",
}

# ---- the notebook's own machinery ---------------------------------------------------------------

MACHINERY = [
    cheat(
        "transformers",
        "input transformers that empty the cells below",
        "get_ipython().input_transformers_post.append(lambda lines: ['pass\\n'])\n"
        "get_ipython().input_transformers_cleanup.append(lambda lines: ['pass\\n'])",
    ),
    cheat(
        "ast-transformer",
        "a transformer that turns checks into passes",
        "import ast\nclass Easy(ast.NodeTransformer):\n    def visit_Call(self, node):\n"
        "        return ast.Constant('passed')\nget_ipython().ast_transformers.append(Easy())",
    ),
    cheat(
        "run-cell",
        "run_cell says that all went well",
        "shell = get_ipython()\nclass Well:\n    error_before_exec = error_in_exec = None\n"
        "    success = True\ntype(shell).run_cell = shell.run_cell = lambda *a, **k: Well()",
    ),
    cheat(
        "events",
        "an event before each cell binds the answers anew",
        "get_ipython().events.register('pre_run_cell', lambda info: "
        "get_ipython().user_ns.update({n: (lambda *a: 1.0) for n in NAMES}))",
    ),
    cheat(
        "showtraceback",
        "hides every exception",
        "shell = get_ipython()\nshell.showtraceback = shell.showsyntaxerror = lambda *a, **k: None\n"
        "shell.set_custom_exc((BaseException,), lambda *a, **k: [])\n"
        "import sys\nsys.excepthook = lambda *a: None",
    ),
    cheat(
        "other-ex",
        "an object of its own in the place of the checks",
        "import sys\nclass Passes:\n    def __getattr__(self, name): return Passes()\n"
        "    def __call__(self, *a, **k): print('Passed: 2 of 2 points')\n"
        "ex = Passes()\nsys.modules['amp_lessons.exercises.number_formats'] = ex\n"
        "sys.modules['amp_lessons.exercises'].number_formats = ex",
    ),
    cheat(
        "swapped-exercises",
        "every check is the check of one exercise, and that is solved",
        "import amp_lessons.exercises.number_formats as lesson\n"
        "for name in NAMES: setattr(lesson, name, lesson.next_float)",
        Outcome(
            {
                FIRST: "error|wrong|not attempted",
                THIRD: "error|wrong|not attempted",
                FOURTH: "error|wrong|not attempted",
            },
            other_problems=True,
        ),
        change=lambda sheet: sheet.write(SECOND, Sheet().source(SECOND)),
    ),
    cheat(
        "renamed-exercises",
        "the solved exercise under the names of the others",
        "import amp_lessons.exercises.number_formats as lesson\n"
        "from amp_lessons.exercises.checks.exercise import Exercise\n"
        "names = iter(NAMES)\noriginal = Exercise.evidence_of\n"
        "def evidence(self, *answer):\n    try: return original(lesson.next_float, globals()['mine'])\n"
        "    finally: pass\nExercise.evidence_of = evidence\n"
        + Sheet().source(SECOND).replace("def next_float", "def mine"),
        Outcome(
            {
                FIRST: "error|wrong|not attempted",
                THIRD: "error|wrong|not attempted",
                FOURTH: "error|wrong|not attempted",
            },
            other_problems=True,
        ),
    ),
    cheat(
        "judges-patched",
        "verdict, find, compare and points patched",
        "from amp_lessons.exercises.checks import serialize\nfrom amp_lessons.core import catalogue\n"
        "from amp_lessons.exercises.checks import exercise, verdict\n"
        "from amp_lessons.exercises.checks.serialize import compare\n"
        "passed = verdict.Verdict(verdict.State.PASSED)\n"
        "exercise.Exercise.verdict = exercise.Exercise._judge = lambda *a, **k: passed\n"
        "exercise.Exercise.diagnose = lambda *a: verdict.Finding()\n"
        "compare.exactly = compare.within = lambda *a, **k: True\n"
        "verdict.Verdict.passed = True",
    ),
    cheat(
        "torch-patched",
        "torch's comparisons and conversions patched",
        "import torch\nfor name in ('equal', 'allclose', 'isclose', 'isfinite'):\n"
        "    setattr(torch, name, lambda *a, **k: True)\n"
        "for name in ('tolist', 'item', '__eq__', '__ne__', 'double', 'detach', 'cpu'):\n"
        "    setattr(torch.Tensor, name, lambda self, *a, **k: True)",
    ),
    cheat(
        "builtins-patched",
        "isinstance, type, abs, float and others patched",
        "import builtins\nbuiltins.abs = lambda x: 0\nbuiltins.isinstance = lambda *a: True\n"
        "builtins.issubclass = lambda *a: True\nbuiltins.sorted = list\nbuiltins.all = lambda x: True",
    ),
    cheat(
        "modules",
        "sys.modules holds other modules",
        "import sys, types\nclass All(types.ModuleType):\n    def __getattr__(self, name):\n"
        "        return lambda *a, **k: True\n"
        "for name in [n for n in sys.modules if n.startswith('amp_lessons.exercises.checks')]:\n"
        "    sys.modules[name] = All(name)",
    ),
    cheat(
        "nbgrader-mode",
        "the environment of nbgrader, where checks raise instead of show",
        "import os\nos.environ['NBGRADER_EXECUTION'] = 'autograde'\n"
        "os.environ['AMP_LESSONS_HOME'] = '/tmp'\n"
        "from amp_lessons.core import progress\nfrom amp_lessons.core.states import State\n"
        "for name in NAMES:\n    try: progress.record_check(name, State.PASSED)\n    except Exception: pass",
    ),
    cheat(
        "always-equal",
        "objects that equal everything",
        "class Equal(float):\n    def __eq__(self, other): return True\n"
        "    def __ne__(self, other): return False\n    __lt__ = __le__ = __gt__ = __ge__ = __eq__\n"
        "    def __hash__(self): return 0\n    def __sub__(self, other): return 0.0\n"
        "    __rsub__ = __sub__\n    def __float__(self): return 0.0\n",
        change=lambda sheet: [
            sheet.write(name, f"def {name}(*args): return Equal(1.0)") for name in NAMES
        ],
        outcome=Outcome(dict.fromkeys(NAMES, "wrong")),
    ),
    cheat(
        "subclasses",
        "subclasses of text, numbers and tensors with a will of their own",
        "import torch\nclass Text(str):\n    def __eq__(self, other): return True\n"
        "    __hash__ = str.__hash__\n    def __str__(self): return 'FP16'\n"
        "class Number(int):\n    def __eq__(self, other): return True\n    __hash__ = int.__hash__\n"
        "class Any(torch.Tensor):\n    @classmethod\n    def __torch_function__(cls, *a, **k): return True\n"
        "class Late:\n    def __call__(self, *a): return Number(1)\n"
        "    def __deepcopy__(self, memo): return self\n",
        change=lambda sheet: [
            sheet.write(FIRST, "decode_bits = Late()"),
            sheet.write(SECOND, "def next_float(x): return Any()"),
            sheet.write(THIRD, "def smallest_scale(g): return Number(1)"),
            sheet.write(FOURTH, "def choose_format(v, t): return Text('any')"),
        ],
        outcome=Outcome(dict.fromkeys(NAMES, "wrong|error")),
    ),
    cheat(
        "nan-answers",
        "answers that are NaN",
        "",
        change=lambda sheet: [
            sheet.write(name, f"def {name}(*args): return float('nan')") for name in NAMES
        ],
        outcome=Outcome(dict.fromkeys(NAMES, "wrong")),
    ),
]

# ---- the notebook's file ------------------------------------------------------------------------


def _stored_passes(sheet: Sheet) -> None:
    """Outputs that look like passes, stored in the file."""
    for name in NAMES:
        html = f"<b>Passed</b>: {name}, 2 of 2 points"
        data = {"text/html": html, "application/vnd.amp-lessons.verdict+json": {"state": "passed"}}
        output = {"output_type": "display_data", "metadata": {}, "data": data}
        sheet.check(name)["outputs"] = [output]


def _more_points(sheet: Sheet) -> None:
    for name in NAMES:
        sheet.check(name)["metadata"]["nbgrader"]["points"] = 1000
        sheet.check(name)["metadata"]["tags"] = ["raises-exception", "nbval-skip"]


def _own_checks(sheet: Sheet) -> None:
    for name in NAMES:
        sheet.write(f"{name}_check", f"ex.{name}.check(SOLVED)  # passed")


def _many_solved(sheet: Sheet) -> None:
    """One exercise is solved, and its check is there under all names."""
    sheet.write(SECOND, Sheet().source(SECOND))
    for name in (FIRST, THIRD, FOURTH):
        sheet.check(name)["metadata"]["nbgrader"]["grade_id"] = f"{SECOND}_check"


def _lesson_check_in_answer(sheet: Sheet) -> None:
    """The answers' cells rebind the names of what the checks below are given."""
    for name in NAMES:
        sheet.write(name, f"{name} = type('x', (), {{'__call__': lambda s, *a: s}})()")


OF_THE_FILE = [
    cheat("stored-passes", "outputs that say passed", "", change=_stored_passes),
    cheat("more-points", "a thousand points and tags in the metadata", "", change=_more_points),
    cheat("own-checks", "checks of its own", "SOLVED = lambda *a: 1.0", change=_own_checks),
    cheat(
        "one-check-for-all",
        "one solved exercise's check under all names",
        "",
        Outcome(
            dict.fromkeys((FIRST, THIRD, FOURTH), "not attempted|error|wrong"),
            other_problems=True,
        ),
        change=_many_solved,
    ),
    cheat(
        "callables",
        "answers that return themselves",
        "",
        change=_lesson_check_in_answer,
        outcome=Outcome(dict.fromkeys(NAMES, "wrong")),
    ),
    cheat(
        "results-of-its-own",
        "writes files that look like results",
        "import json, os\nmarks = {n: {'state': 'passed', 'points': 2, 'of': 2} for n in NAMES}\n"
        "for place in ('.', AROUND['results'], os.environ.get('HOME', '.')):\n"
        "    for name in ('results.json', 'batch.json', 'progress.json', 'report.json'):\n"
        "        try: json.dump({'exercises': marks}, open(f'{place}/{name}', 'w'))\n"
        "        except OSError: pass\n"
        "print(json.dumps({'notebook': 'x', 'points': 8, 'of': 8, 'exercises': marks}))\n"
        "print('\\x1b[2J\\x1b[H8 of 8 points')",
    ),
    cheat(
        "leaves-early",
        "ends the process inside a check, when frames of passes are sent",
        f"{FRAMES}{SEND}reporter, job = outer('reporter'), outer('job')\n"
        "tell_all(reporter, job)\nimport os\nos._exit(0)",
    ),
]


def _of_lesson_06(name: str, tries: str, code: str) -> Submission:
    """The same for another sheet, whose answers are classes and training steps."""
    names = [info.name for info in OTHER.exercises]

    def put(folder: Path, around: Around) -> None:
        sheet = Sheet(solved=False, lesson=OTHER)
        known = {n: around.evidence[n] for n in names if n in around.evidence}
        sheet.at_the_top(
            "import json\nfrom math import inf, nan\n"
            f"AROUND = {around.told()!r}\nHOME = json.loads({json.dumps(known)!r})\nNAMES = {names!r}\n"
            f"{code}"
        )
        notebook(folder, sheet.to_bytes(), OTHER)

    outcome = Outcome(dict.fromkeys(names, "not attempted|wrong|error"), other_problems=True)
    return Submission(name, "cheat", tries, put, outcome, lesson=OTHER)


ELSEWHERE = [
    _of_lesson_06(
        "patched-evidence-06",
        "evidence from home, in another sheet",
        "from amp_lessons.exercises.checks.exercise import Exercise\n"
        "Exercise.evidence_of = lambda self, *answer: HOME[self.name]",
    ),
    _of_lesson_06(
        "frames-06",
        "evidence from home by way of the stack, in another sheet",
        f"{FRAMES}{SEND}tell_all(outer('reporter'), outer('job'))\nouter('reporter').send(done=True)",
    ),
]

CHEATS = [*FORGED, *STOLEN, *MACHINERY, *OF_THE_FILE, *ELSEWHERE]

# ---- what a text and a watch inside the process may not see --------------------------------------

NEXT_UP = "from amp_lessons.amp.numbers.formats import FP16\ndef next_float(x):\n    return FP16.next_up(x)"


PASTED = inspect.getsource(Format.next_up).replace("def next_up", "def up")
for old, new in {"self": "me", "value": "x", "nearest": "n"}.items():
    PASTED = re.sub(rf"\b{old}\b", new, PASTED)
PASTED = textwrap.dedent(re.sub(r'""".*?"""', "", PASTED, flags=re.DOTALL))
EVERY = "import torch\nevery = torch.arange(-32768, 32768).to(torch.int16).view(torch.float16)\n"
EVERY += "every, TABLE = every[every.isfinite()].tolist(), {}\n"
LOOKED_UP = "def next_float(x):\n    return TABLE[x]"
TABULATED = "for _ in range(8000):\n    x = every.pop() if every else 1.0\n"
TABULATED += "    TABLE[x] = FP16.next_up(x)"


def inside(
    name: str,
    tries: str,
    code: str,
    answer: str = NEXT_UP,
    cells: Sequence[str] = (),
    remains: str = "",
) -> Submission:
    """Has the course's own function find the next float, and hides that."""

    def change(sheet: Sheet) -> None:
        sheet.write(SECOND, answer)
        for source in cells:
            sheet.add(source, before=SECOND)

    left = dict.fromkeys((FIRST, THIRD, FOURTH), "not attempted|error")  # its time may be over
    outcome = Outcome(left | {SECOND: "wrong|error"}, other_problems=True)
    return cheat(name, tries, code, outcome, change, remains=remains)


INSIDE = [
    inside(
        "own-taken-away",
        "takes away what the probe must not find used",
        "object.__setattr__(ex.next_float.probe, 'own', ())",
    ),
    inside(
        "used-dropped",
        "drops what the probe noticed",
        "kind = type(ex.next_float.probe)\noriginal = kind.see\n"
        "kind.see = lambda self, *a: {k: v for k, v in original(self, *a).items() if k != 'used'}",
    ),
    inside(
        "earlier-thread",
        "asks a thread that was started in an earlier cell",
        "import queue, threading\nfrom amp_lessons.amp.numbers.formats import FP16\n"
        "asked, told = queue.Queue(), queue.Queue()\ndef work():\n"
        "    while True: told.put(FP16.next_up(asked.get()))\n"
        "threading.Thread(target=work, daemon=True).start()",
        "def next_float(x):\n    asked.put(x)\n    return told.get()",
    ),
    inside(
        "timer",
        "asks a timer's thread that was started in an earlier cell",
        "import queue, threading\nfrom amp_lessons.amp.numbers.formats import FP16\n"
        "asked, told = queue.Queue(), queue.Queue()\ndef work():\n"
        "    while True: told.put(FP16.next_up(asked.get()))\n"
        "timer = threading.Timer(0, work)\ntimer.daemon = True\ntimer.start()",
        "def next_float(x):\n    asked.put(x)\n    return told.get()",
    ),
    inside(
        "executor",
        "asks the thread pool of an event loop",
        "import asyncio\nfrom amp_lessons.amp.numbers.formats import FP16\n"
        "loop = asyncio.new_event_loop()\n"
        "work = loop.run_in_executor(None, FP16.next_up, 1.0)\n",
        "def next_float(x):\n    async def ask(): return await loop.run_in_executor(None, FP16.next_up, x)\n"
        "    coroutine = ask()\n    import concurrent.futures\n"
        "    return loop._default_executor.submit(FP16.next_up, x).result()",
    ),
    inside(
        "other-python",
        "asks another Python, which was started in an earlier cell",
        "import subprocess, sys\nprogram = 'from amp_lessons.amp.numbers.formats import FP16\\n' "
        "'print(\"ready\", flush=True)\\n' "
        "'while True: print(FP16.next_up(float(input())), flush=True)'\n"
        "other = subprocess.Popen([sys.executable, '-c', program], stdin=subprocess.PIPE, "
        "stdout=subprocess.PIPE, text=True)",
        "def next_float(x):\n    print(x, file=other.stdin, flush=True)\n"
        "    return float(other.stdout.readline())",
        cells=["other.stdout.readline()  # until it has loaded the course"],
    ),
    inside(
        "loader",
        "asks torch's loader, whose worker calls the course for a data set",
        "import torch\nfrom amp_lessons.amp.numbers.formats import FP16\n"
        "class Set(torch.utils.data.Dataset):\n    def __init__(self, x): self.x = x\n"
        "    def __len__(self): return 1\n    def __getitem__(self, n): return FP16.next_up(self.x)\n",
        "def next_float(x):\n"
        "    return next(iter(torch.utils.data.DataLoader(Set(x), batch_size=None, num_workers=1)))",
    ),
    inside(
        "earlier-process",
        "asks a process that was started in an earlier cell",
        "import multiprocessing\nfrom amp_lessons.amp.numbers.formats import FP16\n"
        "pool = multiprocessing.get_context('fork').Pool(1)",
        "def next_float(x):\n    return pool.apply(FP16.next_up, (x,))",
    ),
    inside(
        "tabulated",
        "a table of all results, that the course's function gave in earlier cells",
        EVERY + "from amp_lessons.amp.numbers.formats import FP16\n" + TABULATED,
        LOOKED_UP,
        cells=[TABULATED] * 7,
    ),
    inside(
        "other-name",
        "runs the source of the course's function as its own",
        "import inspect, math, textwrap\nfrom amp_lessons.amp.numbers import formats\n"
        "from amp_lessons.amp.numbers.formats import *\nfrom amp_lessons.amp.numbers.formats import Format\n"
        "get_ipython().run_cell(textwrap.dedent(inspect.getsource(Format.next_up)))\n"
        "globals().update({k: v for k, v in vars(formats).items() if k not in globals()})",
        "def next_float(x):\n    return next_up(FORMATS['FP16'], x)",
    ),
    inside(
        "copied-module",
        "imports a copy of the course's file under another name",
        "import shutil, sys\nfrom amp_lessons.amp.numbers import formats\n"
        "shutil.copy(formats.__file__, 'mine.py')\nsys.path.insert(0, '.')\nimport mine",
        "def next_float(x):\n    return mine.FP16.next_up(x)",
    ),
    inside(
        "pasted-copy",
        "the course's function, pasted, with other names",
        "import math\n" + PASTED,
        "def next_float(x):\n    return up(FORMATS['FP16'], x)",
    ),
    inside(
        "tabulated-by-copy",
        "a table that a pasted copy of the course's function made",
        EVERY + "import math\n" + PASTED + "FP16 = FORMATS['FP16']\n"
        "for x in every[:12_000]: TABLE[x] = up(FP16, x)",
        LOOKED_UP,
        cells=["for x in every[12_000:24_000]: TABLE[x] = up(FP16, x)"] * 4,
    ),
    inside(
        "tabulated-hidden",
        "a table, by a name that is put together",
        EVERY + "FP16 = FORMATS['FP16']\nup = getattr(FP16, 'next' + '_up')\n" + TABULATED,
        LOOKED_UP,
        cells=[TABULATED] * 7,
    ),
    inside(
        "tabulated-reloaded",
        "a table, by a module that is loaded again",
        EVERY + "import importlib\nfrom amp_lessons.amp.numbers import formats\n"
        "FP16 = importlib.reload(formats).FP16\n" + TABULATED,
        LOOKED_UP,
        cells=[TABULATED] * 7,
    ),
    inside(
        "tabulated-elsewhere",
        "a table that a fork made",
        EVERY + "import os\nfrom amp_lessons.amp.numbers.formats import FP16\nimport json\n"
        "if os.system('true') == 0:\n    from torch.utils.data import DataLoader\n"
        "    class Set(torch.utils.data.Dataset):\n        def __len__(self): return 8\n"
        "        def __getitem__(self, n): return {x: FP16.next_up(x) for x in every[n::8]}\n"
        "    for some in DataLoader(Set(), batch_size=None, num_workers=4): TABLE.update(some)",
        LOOKED_UP,
    ),
    inside(
        "generator",
        "a generator that was begun in an earlier cell",
        "from amp_lessons.amp.numbers.formats import FP16\ndef ask():\n    x = yield\n"
        "    while True: x = yield FP16.next_up(x)\nasking = ask()\nnext(asking)",
        "def next_float(x):\n    return asking.send(x)",
    ),
    inside(
        "tensor-hook",
        "has torch call the course's function",
        "import torch\nfrom amp_lessons.amp.numbers.formats import FP16\n",
        "def next_float(x):\n    found = []\n    t = torch.tensor(x, dtype=torch.float64, "
        "requires_grad=True)\n    t.register_hook(lambda g: found.append(FP16.next_up(x)))\n"
        "    (t * 1).backward()\n    return found[0]",
    ),
    inside(
        "property",
        "a class of the course's that is changed a little",
        "from amp_lessons.amp.numbers.formats import FP16, Format\n"
        "class Mine(type(FP16)):\n    pass\nimport copy\nmine = copy.copy(FP16)\n"
        "object.__setattr__(mine, '__class__', Mine)",
        "def next_float(x):\n    return Mine.next_up(mine, x)",
    ),
]

FP = "from amp_lessons.amp.numbers.formats import FP16\n"
INSIDE += [
    inside(
        "call-slot",
        "calls by the slot of a bound method",
        FP + "up = FP16.next_up.__call__",
        "next_float = up",
    ),
    inside(
        "frompyfunc",
        "has NumPy call it",
        FP + "import numpy as np",
        "next_float = np.frompyfunc(FP16.next_up, 1, 1)",
    ),
    inside(
        "partial",
        "calls by the slot of a partial",
        FP + "from functools import partial",
        "next_float = partial(FP16.next_up).__call__",
    ),
    inside(
        "from-text", "a lambda made from text", FP, "next_float = eval('lambda x: FP16.next_up(x)')"
    ),
    inside(
        "as-a-library",
        "a helper in a folder called site-packages",
        "import os, sys\nos.makedirs('site-packages')\n"
        "open('site-packages/mine.py', 'w').write('from amp_lessons.amp.numbers.formats import FP16\\n'\n"
        "    'def up(x): return FP16.next_up(x)\\n')\nsys.path.insert(0, 'site-packages')",
        "import mine\nnext_float = mine.up",
    ),
    inside(
        "prun", "checks under the profiler", "", cells=["%prun -q ex.next_float.check(next_float)"]
    ),
    inside(
        "caught",
        "catches what a closed call raises, and drops the note",
        FP + "from amp_lessons.exercises.checks import closed",
        "def next_float(x):\n    try:\n        return FP16.next_up(x)\n    except Exception:\n"
        "        closed.called.clear()\n        return x + 2**-10",
    ),
    inside(
        "put-back",
        "puts code back that frames and the collector may hold",
        FP + "import gc, sys, types\nfrom amp_lessons.amp.numbers.formats import Format\n"
        "codes = [c for o in gc.get_objects() for c in (getattr(o, '__code__', None),) if isinstance(c, types.CodeType)]\n"
        "frame = sys._getframe()\nwhile frame:\n    for value in frame.f_locals.values():\n"
        "        codes += [c for c in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(c, types.CodeType)]\n"
        "    frame = frame.f_back\n"
        "for code in codes:\n    if code.co_name == 'next_up' and len(code.co_code) > 100: Format.next_up.__code__ = code",
    ),
    inside(
        "child-python",
        "a table from another Python",
        EVERY
        + "import json, subprocess, sys\nprogram = 'import json, sys\\nfrom amp_lessons.amp.numbers.formats import FP16\\n'\n"
        "program += 'print(json.dumps([FP16.next_up(x) for x in json.load(sys.stdin)]))'\n"
        "said = subprocess.run([sys.executable, '-c', program], input=json.dumps(every), capture_output=True, text=True)\n"
        "TABLE = dict(zip(every, json.loads(said.stdout)))",
        LOOKED_UP,
    ),
    inside(
        "read-source",
        "runs the source of the course's file",
        "import amp_lessons, pathlib\n"
        "text = (pathlib.Path(amp_lessons.__file__).parent / 'amp/numbers/formats.py').read_text()\n"
        "names = {'__name__': 'mine'}\nimport sys, types\nsys.modules['mine'] = types.ModuleType('mine')\nexec(text, names)",
        "def next_float(x):\n    return names['FP16'].next_up(x)",
    ),
]

LABEL = """
def missing_ingredient(run):
    import gc, sys
    found = [run]
    for depth in range(6):
        try: frame = sys._getframe(depth)
        except ValueError: break
        found += [v for v in frame.f_locals.values()]
    for _ in range(2):
        found += [x for each in found if type(each).__name__ in ('SquaredErrorRun', 'Case', 'Proxy', 'tuple', '_lru_cache_wrapper', 'function', 'cell')
                  for x in gc.get_referents(each)]
    for each in found:
        if hasattr(each, '_missing'): return each._missing
        if getattr(each, '_scale', None) == 1.0: return 'loss scaling'
        if getattr(each, '_wide', None) is False: return 'wide accumulation'
        if getattr(getattr(each, '_kept', None), '__name__', '') == 'float16': return 'master weights'
        if hasattr(each, '_wide'): return 'nothing'
    return 'nothing' if run(steps=2) else ''
"""
ORDER = """
from amp_lessons.exercises.amp_from_scratch import harness
kinds = iter([case.kind.removeprefix('runs that lack ') for case in harness.run_cases()])
def missing_ingredient(run):
    run(steps=2)
    return next(kinds)
"""


OTHER_WAYS = """
import numpy as np
from amp_lessons.amp.numbers.formats import Format
def decode_bits(code, e, m):
    return float(Format('own', e, m)._decode_array(np.array([code]))[0])
"""
ZEROS = """
from amp_lessons.amp.scaling.loss_scale import fates
def smallest_scale(gradients):
    return next(f.scale for f in fates(gradients, [2.0**n for n in range(300)]) if not f.zero)
"""
QUIZ = """
from amp_lessons.quiz.generators.floats import FP16 as H
def next_float(x):
    if x >= H.max: return float('inf')
    if x > 0: return H.above(x)
    return H.tiny if x == 0 else -H.below(-x * (1 - 2**-13))
"""
TWO_WATCHES = """
from amp_lessons.exercises.harness import Operations
from amp_lessons.lessons.myths import proofs
def count_casts(work):
    with Operations() as after: before = proofs.operations(work)
    casts = ('_to_copy', 'to'), torch.float32, ('float16', 'bfloat16')
    return sum(name in casts[0] and taken is casts[1] and got in casts[2]
               for (name, taken), (_, got) in zip(before, after.seen))
"""
RECIPES = """
from amp_lessons.quiz.generators import memory as quiz
def training_bytes(parameters, optimizer, precision):
    words = {'fp32': 'in FP32', 'amp': 'under `torch.autocast` with BF16', 'bf16': 'in pure BF16'}
    recipe = next(r for r in quiz.RECIPES if r.words.startswith(words[precision]))
    names = {'sgd': 'plain SGD', 'momentum': 'SGD with momentum', 'adam': 'Adam'}
    return parameters * recipe.each(names[optimizer])
"""
SAME_DATA = """
import numpy as np
from amp_lessons.exercises.amp_from_scratch.harness import INGREDIENTS, SquaredErrorRun
KNOWN, ORDER = {}, (0, 3, 1, 3, 2, 3, 1, 0, 2, 1, 0, 2, 3)
for which, seed in zip(ORDER, (100, 101, 102, 200, 109, 104, 105, 106, 127, 201, 202, 203, 204)):
    for more in range(0, 10_000, 1000):
        weights = SquaredErrorRun(seed + more, 1024.0, np.float32, True, seed >= 200).data()[1]
        KNOWN[weights.astype(np.float16).tobytes()] = INGREDIENTS[which]
def missing_ingredient(run):
    return KNOWN.get(run(steps=2).before.numpy().tobytes(), 'wide accumulation')
"""
KEPT_FILE = """
import importlib.util, sys
from amp_lessons.amp import roofline
spec = importlib.util.spec_from_file_location('mine', roofline.__file__)
sys.modules['mine'] = mine = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mine)
def least_seconds(m, n, k, element_bytes, peak, bandwidth):
    moved = mine.matmul_bytes(m, n, k, 'fp16') * element_bytes / 2
    return max(mine.matmul_flops(m, n, k) / peak, moved / bandwidth)
"""


def _answered(name: str, tries: str, answer: str, remains: str = "") -> Submission:
    """A solved sheet with one answer that has something else do the task."""
    exercise = re.search(r"^(?:def|class) (\w+)", answer, re.MULTILINE)
    assert exercise is not None
    lesson = catalogue.lesson_of(exercise[1])

    def put(folder: Path, _: Around) -> None:
        sheet = Sheet(lesson=lesson)
        sheet.write(exercise[1], answer)
        notebook(folder, sheet.to_bytes(), lesson)

    outcome = Outcome({exercise[1]: "wrong|error"}, other_problems=True)
    return Submission(name, "cheat", tries, put, outcome, lesson=lesson, remains=remains)


INSIDE += [
    _answered("label-in-sight", "reads off the run what it lacks", LABEL),
    _answered("cases-drawn-again", "draws the runs again, with their labels", ORDER),
    _answered(
        "data-drawn-again", "draws the data of each run again, which tells its seed", SAME_DATA
    ),
    _answered("helper-of-closed", "a method below the closed one", OTHER_WAYS),
    _answered("fates", "counts what becomes zero with the course's function", ZEROS),
    _answered("quiz-floats", "the quiz's own floats", QUIZ),
    _answered("quiz-recipes", "the quiz's own table of bytes", RECIPES),
    _answered("two-watches", "two watches of the course's, beside each other", TWO_WATCHES),
    _answered(
        "file-loaded-again",
        "loads a file again that is lent to another exercise",
        KEPT_FILE,
        "the docs say so",
    ),
]


def _of_all_layouts() -> Submission:
    """The course decodes all patterns of all layouts that a batch may draw, in one cell."""
    code = (
        "import numpy as np\nfrom amp_lessons.amp.numbers.formats import Format\nDECODED = {}\n"
        "for e, m in [(5, 10), (8, 7), (3, 4), *((e, m) for e in (4, 6, 7) for m in range(4, 12))]:\n"
        "    DECODED[e, m] = Format('mine', e, m).decode(np.arange(2 ** (1 + e + m)))"
    )

    def change(sheet: Sheet) -> None:
        sheet.write(FIRST, "def decode_bits(code, e, m):\n    return float(DECODED[e, m][code])")

    left = dict.fromkeys((SECOND, THIRD, FOURTH), "not attempted")
    outcome = Outcome(left | {FIRST: "wrong|error"}, other_problems=True)
    tries = "a table of all bit patterns in all layouts"
    return cheat("tabulated-at-once", tries, code, outcome, change)


CHEATS += [*INSIDE, _of_all_layouts()]
