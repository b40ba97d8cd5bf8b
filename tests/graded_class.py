"""Results of an invented class, for the tests of the grader's reports."""

from __future__ import annotations

from amp_lessons.classroom.grading.marks import Graded, Mark
from amp_lessons.core import catalogue
from amp_lessons.exercises.checks.verdict import State, Verdict

LESSON = catalogue.lesson_called("grad_scaler")
FORMATS = catalogue.lesson_called("number_formats")

SENTENCES = {
    "clipped-before-unscale": "You clipped scaled gradients. Call `scaler.unscale_` before that.",
    "step-forgotten": "Your optimizer never steps. Call `scaler.step(optimizer)`.",
    "update-forgotten": "You never call `update`.",
}
ANSWER = '''def clip_step(scaler, optimizer, loss, max_norm):
    """Backward, clip and step."""
    scaler.scale(loss).backward()  # by {name}, {name}@uni.example
    norm = nn.utils.clip_grad_norm_(parameters, max_norm)
    {variable} = "{name} wrote this"
    return norm
'''


def mark(exercise: str, state: State = State.PASSED, diagnosis: str = "", **more) -> Mark:
    """A mark with the points that go with its state."""
    of = catalogue.exercise_info(exercise).points
    text = {State.PASSED: "Well done.", State.NOT_ATTEMPTED: "Your answer is still the stub."}
    message = more.pop("message", SENTENCES.get(diagnosis, text.get(state, "")))
    verdict = Verdict(state, message, diagnosis, **more)
    return Mark(exercise, verdict, of if verdict.passed else 0, of)


def graded(
    learner: str = "Ada",
    *marks: Mark,
    lesson: catalogue.Lesson = LESSON,
    name: str = "",
    **more,
) -> Graded:
    """A notebook: these marks, and a pass in what is left of the sheet."""
    given = {each.exercise: each for each in marks}
    whole = tuple(given.get(info.name) or mark(info.name) for info in lesson.exercises)
    name = name or f"submitted/{learner}/{lesson.id}_exercises.ipynb"
    return Graded(name, learner, lesson.id, whole, **more)


def wrong(learner: str, diagnosis: str, exercise: str = "clip_step", **more) -> Graded:
    """A notebook with one wrong answer, in which the learner names themselves."""
    answer = ANSWER.format(name=learner, variable="for_" + learner.lower().replace(" ", "_"))
    seen = (f"max_norm 0.1: returned {learner!r}; expected 1.0",)
    one = mark(exercise, State.WRONG, diagnosis, seen=seen)
    return graded(learner, one, answers={exercise: answer}, **more)


def many(count: int) -> list[Graded]:
    """A class of so many learners, with every state and misconception, and some to look at."""
    slugs = list(SENTENCES)
    found = []
    for number in range(count):
        learner = f"Learner{number:03} Person{number:03}"
        if number % 5 == 0:
            found.append(graded(learner))
        elif number % 5 == 1:
            states = (State.ERROR, State.NOT_ATTEMPTED)
            marks = [mark(info.name, states[number % 2]) for info in LESSON.exercises]
            found.append(graded(learner, *marks, problems=("x" * 2000,) * 5))
        else:
            found.append(wrong(learner, slugs[number % 3]))
    return found


HOSTILE_NAMES = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "{{ 7 * 7 }}{% include '/etc/passwd' %}",
    "\x1b[2J\x1b]0;owned\x07Eve",
    "Ada\nLovelace",
    "Eve \u202egnp.exe\u202c",
    "\u2066isolated\u2069 \u200bzero",
    "x" * 300,
    "../../etc/passwd",
    "CON",
    "ada",
    "ADA",
    "Ünïcode Ñame 王小明",
    "\ud800 half",
    "nul\x00l",
    "=cmd|'/c calc'!A1",
    "+1+1",
    "-2-3",
    "@SUM(A1)",
    "＝1+1",
    "a;=1+1",
    "Points Possible",
    "&lt;b&gt;",
    "'; DROP TABLE grades; --",
)
HOSTILE_ANSWER = (
    "</pre><script>alert(1)</script>\n"
    "x = '\u202e' # \x1b[31m red \x00\n"
    "<!-- --><style>*{display:none}</style>\r\n" + "(" * 3000
)
