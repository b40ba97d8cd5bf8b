"""From what was seen to the mistake behind it.

The wrong answers that an exercise lists are used twice: the tests show that each is wrong, and
here they are the models. A mistake is named if one of its wrong answers gives what the learner's
answer gave, in every case, right or wrong, and at least two cases are wrong. If none does, two
edits together may; and if exactly one pair of mistakes explains everything, both are named. Where
that fails too, the mistakes that explain some of the cases, and are not contradicted by others,
are named for those cases alone.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

from amp_lessons.exercises.checks import messages
from amp_lessons.exercises.checks.authoring.edits import Edit, EditError
from amp_lessons.exercises.checks.evidence import DamagedEvidence
from amp_lessons.exercises.checks.probe import Case, Probe
from amp_lessons.exercises.checks.serialize.compare import Same, exactly, is_tensor, same_outcome
from amp_lessons.exercises.checks.verdict import Finding, State, Verdict

MAX_LINES = 4
ENOUGH = 2
"""In how many wrong cases a mistake must show before it is named: one may be chance."""

Entry = dict[str, Any]
"""What one case gave, as `evidence.observe` describes it."""


@dataclass(frozen=True)
class Judge:
    """How an exercise compares, where the usual way does not do.

    Args:
        same: compares expected and seen.
        asked_for: what an answer should return, for the diagnosis "wrong-type".
        own: takes all entries, and those of the right answer; gives a finding, or None to go on.
            It is asked before the mistakes are. Only for what no rule and no wrong answer can say.
        tell: takes a case, what the right answer gave and what was seen (two entries); the line
            for the learner. By default `messages.line`.
        pairs: whether to look for two mistakes at once. Off where a run takes too long.
    """

    same: Same = exactly
    asked_for: str = "a number"
    own: Callable[[list[Entry], list[Entry]], Finding | Verdict | None] | None = None
    tell: Callable[[Case, Entry, Entry], str] | None = None
    pairs: bool = True


@dataclass(frozen=True)
class WrongAnswer:
    """A program that is wrong, for a reason that is known.

    Args:
        name: the edit as it is written, or the program's name.
        source: the program.
        where: ``file:line``, for messages.
        edit: how it was made out of a right answer, or None for a whole program.
        proof: it shows in the tests that the mistake is found, and is no model of it.
    """

    name: str
    source: str
    where: str
    edit: Edit | None = None
    proof: bool = False


Breaks = Callable[[Entry, Entry], "bool | Mapping[str, Any] | None"]


@dataclass(frozen=True)
class Mistake:
    """A mistake that a check knows by name.

    Args:
        slug: its name, such as ``"bias-forgotten"``.
        sentence: what to tell the learner: what they did, and why it isn't right.
        answers: wrong answers with this mistake.
        breaks: a rule that a case breaks: takes what was seen and what the right answer gives, as
            entries. True names the mistake, whatever the rest shows, and so does a mapping, which
            fills the braces of the sentence.
        where: ``file:line``.
    """

    slug: str
    sentence: str
    answers: tuple[WrongAnswer, ...] = ()
    breaks: Breaks | None = None
    where: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """All that it takes to judge one exercise's evidence.

    Args:
        name: the exercise's.
        probe: runs our own programs as it ran the learner's.
        judge: how to compare.
        right: the solutions by name; that of the course is ``""``.
        mistakes: in the order in which they are tried.
        answer: makes what `check` is given out of a program's source.
        seconds: how long the solution took in each case, once `expected` is known.
    """

    name: str
    probe: Probe
    judge: Judge
    right: Mapping[str, str]
    mistakes: tuple[Mistake, ...]
    answer: Callable[[str], tuple[Any, ...]]
    seconds: dict[int, float] = field(default_factory=dict, repr=False)
    _outcomes: dict[tuple[str, int], Entry] = field(default_factory=dict, repr=False)

    def outcome(self, source: str, number: int) -> Entry:
        """What a program of ours does in a case: found out once, for it never changes."""
        key = source, number
        if key not in self._outcomes:
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about a program that the learner didn't write
                try:
                    seen = self.probe.see(number, *self.answer(source))
                except Exception as error:  # a program that cannot even be defined
                    seen = {"error": {"type": type(error).__name__, "message": str(error)}}
            # Not sorted, as `as_json` would: the first key that differs is the one that is told.
            self._outcomes[key] = json.loads(json.dumps(seen))
        return self._outcomes[key]

    @cached_property
    def expected(self) -> list[Entry]:
        """What the solution does, case by case."""
        found = []
        for n in range(len(self.probe.all_cases)):
            began = time.perf_counter()
            found.append(self.outcome(self.right[""], n))
            self.seconds[n] = time.perf_counter() - began
        return found

    # ---- one answer -----------------------------------------------------------------------------

    def diagnose(self, evidence: Any) -> Finding | Verdict:
        """What a probe's evidence says about the answer."""
        cases = self.probe.all_cases
        if not isinstance(evidence, list) or len(evidence) != len(cases):
            raise DamagedEvidence("not one entry for each run")
        if self.probe.watch and any(not {"ops", "unattempted"} & seen.keys() for seen in evidence):
            raise DamagedEvidence("no list of the operations that ran")
        attempted = [n for n, seen in enumerate(evidence) if "unattempted" not in seen]
        if not attempted:
            return Verdict(State.NOT_ATTEMPTED, "Your answer is still the stub.")
        found = self._find(_Answers(self, evidence, attempted))
        if len(attempted) == len(cases) or isinstance(found, Verdict) or found.diagnosis:
            return found
        kinds = list(dict.fromkeys(case.kind or case.label for case in cases))
        open_ = dict.fromkeys(
            cases[n].kind or cases[n].label for n in range(len(cases)) if n not in attempted
        )
        message = f"{len(kinds) - len(open_)} of {len(kinds)} are right so far. Still to do: "
        return Verdict(State.NOT_ATTEMPTED, message + ", ".join(open_) + ".")

    def _find(self, seen: _Answers) -> Finding | Verdict:
        if (ready_made := seen.ready_made()) is not None:
            return ready_made
        if self.judge.own is not None:
            own = self.judge.own(seen.entries, self.expected)
            if own is not None:
                return own
        for mistake in self.mistakes:
            found = seen.broken(mistake)
            if found is not None:
                return found
        if not seen.failed:
            changed = next((n for n in seen.numbers if "changed" in seen.entries[n]), None)
            if changed is None:
                return Finding()
            return Finding("changed-argument", (seen.call(changed),))
        return seen.one() or seen.two() or seen.without_a_name() or seen.some() or seen.generic()

    def models(self, without: str = "") -> Iterator[tuple[Mistake, WrongAnswer]]:
        """The wrong answers that serve as models, with their mistakes."""
        for mistake in self.mistakes:
            for answer in mistake.answers if mistake.sentence and not mistake.breaks else ():
                if not answer.proof and answer.name != without:
                    yield mistake, answer

    @cached_property
    def pairs(self) -> tuple[tuple[frozenset[str], str], ...]:
        """Programs with two mistakes: the two slugs, and the source. For each mistake and each
        right answer, its first edit stands for all.
        """
        first_ones: dict[tuple[str, str], tuple[str, str, Edit]] = {}
        for mistake, answer in self.models():
            if (edit := answer.edit) is not None:
                first_ones.setdefault((mistake.slug, edit.of), (mistake.slug, answer.source, edit))
        found: dict[str, frozenset[str]] = {}
        couples = itertools.permutations(first_ones.values(), 2)
        for (one, edited, first), (other, _, then) in couples:
            if one == other or first.of != then.of:
                continue
            with contextlib.suppress(EditError):
                found.setdefault(then(edited), frozenset((one, other)))
        return tuple((slugs, source) for source, slugs in found.items())

    def sentence(self, slug: str) -> str:
        return next(m.sentence for m in self.mistakes if m.slug == slug)


class _Answers:
    """The evidence of one answer beside that of the right one."""

    def __init__(self, diagnosis: Diagnosis, entries: list[Entry], numbers: list[int]) -> None:
        self.all, self.entries, self.numbers = diagnosis, entries, numbers
        self.same, self.cases = diagnosis.judge.same, diagnosis.probe.all_cases
        expected = diagnosis.expected
        self.failed = [n for n in numbers if not same_outcome(expected[n], entries[n], self.same)]

    def call(self, number: int) -> str:
        case = self.cases[number]
        return case.label or f"{self.all.name}({', '.join(map(repr, case.args))})"

    @cached_property
    def lines(self) -> tuple[str, ...]:
        """What was seen in the first wrong cases, in words."""
        return self.told(self.failed)

    def told(self, numbers: Sequence[int]) -> tuple[str, ...]:
        tell = self.all.judge.tell
        lines = []
        for n in numbers[:MAX_LINES]:
            case, expected, seen = self.cases[n], self.all.expected[n], self.entries[n]
            if tell is not None and "value" in expected and "value" in seen:
                lines.append(tell(case, expected, seen))
            else:
                lines.append(messages.line(self.all.name, case, expected, seen, self.same))
        if len(numbers) > MAX_LINES:
            lines.append(f"and {len(numbers) - MAX_LINES} more of {len(self.cases)} calls")
        return tuple(lines)

    # ---- the ways to a name, from the surest on -------------------------------------------------

    def ready_made(self) -> Finding | None:
        """What the answer had somebody else's code do, if that was to be written."""
        for n in self.numbers:
            if isinstance(name := self.entries[n].get("used"), str):
                lines = (f"it shows in: {self.call(n)}",)
                return Finding("ready-made", lines, {"name": name[:100]})
        return None

    def broken(self, mistake: Mistake) -> Finding | None:
        """What a rule says."""
        if (breaks := mistake.breaks) is None:
            return None
        for n in self.numbers:
            found = breaks(self.entries[n], self.all.expected[n])
            if found:
                fields = found if isinstance(found, Mapping) else None
                lines = self.told([n]) if n in self.failed else (f"it shows in: {self.call(n)}",)
                return Finding(mistake.slug, lines, fields)
        return None

    def explains(self, source: str, number: int) -> bool:
        """Whether a program of ours gives what was seen. Where no error is asked for, its message
        counts too, since torch raises RuntimeError for many reasons."""
        seen, wanted = self.entries[number], self.all.expected[number]
        outcome = self.all.outcome(source, number)
        if not same_outcome(outcome, seen, self.same):
            return False
        if "error" not in outcome or "error" in wanted:
            return True
        return outcome["error"]["message"] == seen["error"].get("message")

    def explains_all(self, source: str) -> bool:
        """The quickest wrong case is asked first: most programs differ there already."""
        quick = sorted(self.failed, key=self.all.seconds.__getitem__)
        passed = [n for n in self.numbers if n not in self.failed]
        return all(self.explains(source, n) for n in [*quick, *passed])

    def one(self) -> Finding | None:
        """The mistake that explains every case."""
        if len(self.failed) < ENOUGH:
            return None
        for mistake, answer in self.all.models():
            if self.explains_all(answer.source):
                return Finding(mistake.slug, self.lines)
        return None

    def two(self) -> Finding | None:
        """The two mistakes that together explain every case, if exactly one pair does."""
        raised = all("error" in self.entries[n] for n in self.failed)
        if raised or len(self.failed) < ENOUGH or not self.all.judge.pairs:
            return None  # where all that was seen is an error, the learner is best told of that
        found = {slugs for slugs, source in self.all.pairs if self.explains_all(source)}
        if len(found) != 1:
            return None
        order = [m.slug for m in self.all.mistakes]
        return Finding(" + ".join(sorted(found.pop(), key=order.index)), self.lines)

    def _shows(self, source: str, number: int) -> bool:
        """Whether a program of ours is wrong in a case."""
        outcome = self.all.outcome(source, number)
        return not same_outcome(self.all.expected[number], outcome, self.same)

    def some(self) -> Finding | None:
        """The mistake that explains some of the wrong cases, as no other does: it must show in at
        least `ENOUGH`, and in each of the same kinds in which it would. Or two, if they cover all.
        """
        by_case: dict[int, set[str]] = {n: set() for n in self.failed}
        holds: set[tuple[str, int]] = set()
        for mistake, answer in self.all.models():
            explained = [n for n in self.numbers if self.explains(answer.source, n)]
            contradicted = {
                self.cases[n].kind
                for n in self.numbers
                if n not in explained and (n not in by_case or self._shows(answer.source, n))
            }
            for n in by_case.keys() & explained:
                by_case[n].add(mistake.slug)
                if self.cases[n].kind not in contradicted:
                    holds.add((mistake.slug, n))
        sure: dict[str, list[int]] = {}
        for n, slugs in by_case.items():
            if len(slugs) == 1:
                (slug,) = slugs
                if (slug, n) in holds:
                    sure.setdefault(slug, []).append(n)
        sure = {slug: numbers for slug, numbers in sure.items() if len(numbers) >= ENOUGH}
        if len(sure) == 2 and all(slugs & sure.keys() for slugs in by_case.values()):
            return Finding(" + ".join(sure), self.lines)
        if len(sure) != 1:
            return None
        ((slug, numbers),) = sure.items()
        rest = [n for n in self.failed if n not in numbers]
        if not rest:  # nothing is left that would need another cause
            return Finding(slug, self.told(numbers))
        kinds = list(dict.fromkeys(self.cases[n].kind for n in numbers))
        if len(kinds) > 3:
            kinds = [", ".join(kinds[:3]), "others"]
        scope = " and ".join(kinds) if all(kinds) else ""
        return Finding(slug, self.told([*numbers, *rest]), scope=scope, of=len(numbers))

    # ---- where no mistake has a name ------------------------------------------------------------

    def without_a_name(self) -> Finding | Verdict | None:
        """What every function can do wrong: raise, change its input, return nothing or another
        type."""
        n = self.failed[0]
        first, wanted = self.entries[n], self.all.expected[n]
        if "error" in first:
            verdict = error_verdict(first["error"])
            call = self.call(n)
            if "error" in wanted:  # the right thing to do, but not with this error
                call += f": expected a {wanted['error']['type']}"
            return Verdict(State.ERROR, verdict.message, seen=(call, *verdict.seen))
        if "changed" in first:
            return Finding("changed-argument", self.lines)
        value = first.get("value")
        # Where None is right, whatever else came is a wrong value, not a wrong type; and where it
        # is right in some calls, a None in others is no forgotten return, unless nothing else came.
        nothing = any("value" in one and one["value"] is None for one in self.all.expected)
        given = any(self.entries[i].get("value") is not None for i in self.numbers)
        if value is None and not (nothing and given):
            return Finding("returned-none", self.lines)
        if value is None or wanted.get("value") is None:
            return None
        if messages.kind_of(value) != messages.kind_of(wanted["value"]):
            return Finding("wrong-type", self.lines, self._types(value, wanted["value"]))
        return None

    def _types(self, value: Any, wanted: Any) -> dict[str, str]:
        got, asked_for = messages.describe(value), self.all.judge.asked_for
        if is_tensor(value) and is_tensor(wanted) and value["shape"] != wanted["shape"]:
            got = f"{got} of shape {value['shape']}"
            asked_for = f"{asked_for}, here of shape {wanted['shape']}"
        return {"got": got, "expected": asked_for}

    def generic(self) -> Finding:
        return Finding("wrong-value", self.lines)


def error_verdict(error: Mapping[str, Any]) -> Verdict:
    """The verdict for a learner's exception, as `evidence.describe_error` describes it."""
    where = ""
    if "line" in error:
        where = f"line {error['line']} of {error.get('function')}: {error.get('source')}"
        where = where.rstrip(": ")
    message = f"{error.get('type')}: {error.get('message')}".rstrip(": ")
    message = f"{message} {messages.earlier_cause(message)}".rstrip()
    return Verdict(State.ERROR, message, seen=(where,) if where else ())


@cache
def compiled(source: str, name: str) -> Any:
    """A program's code, compiled once."""
    return compile(source, f"<{name}>", "exec")
