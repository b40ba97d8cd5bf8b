"""The catalogue: which lessons, exercises and paths there are, how long they take, what they need.

This is the one place that lists the course. The notebooks, the home page, the checks, the command
line and the README are all held against it by the tests. It knows nothing about torch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from amp_lessons import __version__
from amp_lessons.core.errors import AmpLessonsError
from amp_lessons.core.needs import Need

HOME = "notebooks/home.ipynb"
"""The home page, as a path in the course and in a workspace."""

WHEEL = f"amp_lessons-{__version__}-py3-none-any.whl"
"""Where a notebook's set-up cell finds the course if it is not installed: a path or an address that
pip can read. While no release has an address, it is a file beside the notebook. The environment
variable AMP_LESSONS_WHEEL takes its place where it is set."""


@dataclass(frozen=True)
class ExerciseInfo:
    """One graded exercise, as a learner sees it in a list.

    Args:
        name: the stem of its file, as in `amp-lessons reset`, such as ``"next_float"``.
        title: a few words.
        points: what a pass is worth in `amp-lessons grade`.
        minutes: what to plan for it.
        core: whether it's one of the two or three that each learner should solve. The others are
            more practice.
    """

    name: str
    title: str
    points: int
    minutes: int
    core: bool


class BadExerciseHead(AmpLessonsError, ValueError):
    """The first lines of an exercise's file do not say what the catalogue must know."""


_HEAD = re.compile(r"# %% statement points=(\d+) minutes=(\d+)\n# # (.+)\n")
PACKAGE = Path(__file__).resolve().parent.parent
EXERCISES = PACKAGE / "exercises"
"""The folder of the exercises: a folder a topic, a file an exercise."""
IN_WHEEL = PACKAGE / "_course"
"""Where an installed wheel carries notebooks, sheets and solutions. A checkout has no such folder.
"""


def _of(
    topic: str, *, core: tuple[str, ...], more: tuple[str, ...] = ()
) -> tuple[ExerciseInfo, ...]:
    """The exercises of a topic, from the first two lines of their files."""
    found = []
    for name in (*core, *more):
        with (EXERCISES / topic / f"{name}.py").open(encoding="utf-8") as file:
            head = _HEAD.match(file.readline() + file.readline())
        if head is None:
            raise BadExerciseHead(
                f"{topic}/{name}.py must begin with the line '# %% statement points=2 minutes=10' "
                "and the line '# # Its title'"
            )
        found.append(ExerciseInfo(name, head[3], int(head[1]), int(head[2]), name in core))
    return tuple(found)


@dataclass(frozen=True)
class Demonstration:
    """Something that a lesson shows, and what a machine needs to measure it itself."""

    what: str
    needs: Need = "cpu"


@dataclass(frozen=True)
class Deep:
    """An optional notebook beside a lesson: what is good to know, and off every path.

    Args:
        title: as in the notebook's heading.
        minutes: reading and running.
    """

    title: str
    minutes: int


@dataclass(frozen=True)
class Lesson:
    """One lesson and its exercises.

    Args:
        id: number and slug, the stem of its notebooks: ``"01_number_formats"``.
        title: as in the notebook's heading.
        goal: what you will be able to do, as it follows these words.
        minutes: reading and running, without the exercises.
        prerequisites: ids of the lessons to take first.
        shows: what it demonstrates, for `amp-lessons doctor`.
        exercises: in the order of the exercise notebook, the core ones first.
        topics: of the question bank, by the stems of its files. Questions keep their ids when
            lessons are split or renumbered.
        shares: topics of another lesson, some of whose questions are about this one.
        deep: the optional notebook that goes deeper, if there is one.
    """

    id: str
    title: str
    goal: str
    minutes: int
    prerequisites: tuple[str, ...] = ()
    shows: tuple[Demonstration, ...] = ()
    exercises: tuple[ExerciseInfo, ...] = ()
    topics: tuple[str, ...] = ()
    shares: tuple[str, ...] = ()
    deep: Deep | None = None

    @property
    def number(self) -> int:
        return int(self.id[:2])

    @property
    def slug(self) -> str:
        """The id without its number: the name of the module in `amp_lessons.exercises.checks`."""
        return self.id[3:]

    @property
    def asks(self) -> tuple[str, ...]:
        """The topics of the questions about it: its own, and those that it shares."""
        return (*self.topics, *self.shares)

    @property
    def core(self) -> tuple[ExerciseInfo, ...]:
        """The exercises that belong to the lesson on each path. The others are more practice."""
        return tuple(info for info in self.exercises if info.core)

    @property
    def points(self) -> int:
        return sum(exercise.points for exercise in self.exercises)

    @property
    def notebook(self) -> str:
        """The lesson's notebook, as a path in the course and in a workspace."""
        return f"notebooks/{self.id}.ipynb"

    @property
    def deep_notebook(self) -> str:
        """The notebook that goes deeper, as a path like that of `notebook`."""
        return f"notebooks/deep/{self.id}_deep.ipynb"

    @property
    def sheet(self) -> str:
        """The notebook of its exercises. The stem says so, to tell two tabs apart."""
        return f"exercises/{self.id}_exercises.ipynb"

    @property
    def solutions(self) -> str:
        """The solved sheet. nbgrader wants the name that the sheet has."""
        return f"solutions/{self.id}_exercises.ipynb"


LESSONS: tuple[Lesson, ...] = (
    Lesson(
        id="00_amp_in_20_minutes",
        title="AMP in 20 minutes",
        goal="train a network in mixed precision, break it, and put it back",
        minutes=20,
        shows=(
            Demonstration(
                "A network that FP16 stops from learning, and a GradScaler that saves it"
            ),
        ),
        exercises=_of("amp_in_20_minutes", core=("survives",)),
        topics=("amp_in_20_minutes",),
    ),
    Lesson(
        id="01_number_formats",
        title="Number formats",
        goal="read the bits of a number, predict how it rounds, and choose a format",
        minutes=45,
        prerequisites=("00_amp_in_20_minutes",),
        shows=(
            Demonstration("FP32, TF32, FP16, BF16 and FP8, bit by bit"),
            Demonstration("TF32 inside a matrix multiplication", needs="tf32"),
        ),
        exercises=_of(
            "number_formats",
            core=("decode_bits", "choose_format"),
            more=("next_float", "smallest_scale"),
        ),
        topics=("number_formats",),
        deep=Deep("Number formats at their edges", minutes=20),
    ),
    Lesson(
        id="02_how_numbers_break",
        title="Three ways numbers break",
        goal="recognise underflow, overflow and swamping, and fix each of them",
        minutes=45,
        prerequisites=("01_number_formats",),
        shows=(
            Demonstration("Underflow, overflow and swamping in FP16 and BF16"),
            Demonstration("The gradients of a real network, and what FP16 loses of them"),
        ),
        exercises=_of(
            "how_numbers_break",
            core=("classify_faults", "masked_softmax"),
            more=("kahan_sum", "log_softmax"),
        ),
        topics=("how_numbers_break",),
        deep=Deep("More ways to lose a number", minutes=25),
    ),
    Lesson(
        id="03_amp_from_scratch",
        title="AMP from scratch",
        goal="build mixed precision by hand, and see what each ingredient is for",
        minutes=40,
        prerequisites=("02_how_numbers_break",),
        shows=(
            Demonstration("A mixed precision step by hand, bit for bit what autocast gives"),
            Demonstration("Training without the scale, without masters, without wide sums"),
        ),
        exercises=_of(
            "amp_from_scratch",
            core=("StaticScaler", "mixed_loss"),
            more=("MasterSGD", "choose_scale", "missing_ingredient"),
        ),
        topics=("amp_from_scratch",),
        deep=Deep("Sums, windows, and gradients in between", minutes=30),
    ),
    Lesson(
        id="04_autocast_ops",
        title="What autocast does to each op",
        goal="say which dtype each op gets, on a CPU and on CUDA, with no GPU",
        minutes=45,
        prerequisites=("03_amp_from_scratch",),
        shows=(
            Demonstration("The dtype that autocast gives for each op, on a CPU and on CUDA"),
            Demonstration("What autocast does to a whole model, with no GPU"),
        ),
        exercises=_of(
            "autocast_ops",
            core=("result_dtype", "gram"),
            more=("fix_mismatches", "dtype_offenders", "low_flop_share"),
        ),
        topics=("autocast_ops",),
        deep=Deep("Autocast's rules at their edges", minutes=20),
    ),
    Lesson(
        id="05_autocast_regions",
        title="Regions, cache, threads",
        goal="place autocast regions, and know what leaves them and what the cache keeps",
        minutes=45,
        prerequisites=("04_autocast_ops",),
        shows=(
            Demonstration("Where a region begins and ends, and what leaves it"),
            Demonstration("The cast cache, counted live, and a loss that it freezes"),
            Demonstration("Autocast's state in threads, generators and coroutines"),
        ),
        exercises=_of(
            "autocast_regions",
            core=("autocast_step", "leak_free_scores"),
            more=("keep_float32", "count_casts", "thawed_epoch", "carry_autocast"),
        ),
        topics=("autocast_regions",),
        deep=Deep("Regions at their edges", minutes=30),
    ),
    Lesson(
        id="06_grad_scaler",
        title="GradScaler",
        goal="follow GradScaler call by call, and predict its scale and its skipped steps",
        minutes=45,
        prerequisites=("04_autocast_ops",),
        shows=(
            Demonstration(
                "GradScaler step by step: skipped steps, growth, back-off, and its errors"
            ),
            Demonstration("An overflow that no loss scale can fix"),
        ),
        exercises=_of(
            "grad_scaler",
            core=("predict_scale", "clip_step"),
            more=("OwnScaler", "skipped_steps", "schedule_step", "why_skipped", "stop_sinking"),
        ),
        topics=("grad_scaler",),
        deep=Deep("GradScaler at its edges", minutes=25),
    ),
    Lesson(
        id="07_training_loops",
        title="Real training loops",
        goal="clip, accumulate, schedule, save and resume, in any precision",
        minutes=45,
        prerequisites=("05_autocast_regions", "06_grad_scaler"),
        shows=(
            Demonstration(
                "Clipping, accumulation, schedules and several optimizers with one scaler"
            ),
            Demonstration("A run interrupted and resumed, equal to the last bit"),
        ),
        exercises=_of(
            "training_loops",
            core=("fix_stuck", "fix_unscaled", "fix_norms"),
            more=(
                "fix_epochs",
                "fix_half",
                "fix_evaluation",
                "accumulate",
                "accumulate_tokens",
                "train_two",
                "exact_resume",
                "train_any",
            ),
        ),
        topics=("training_loops",),
        deep=Deep("Training loops at their edges", minutes=30),
    ),
    Lesson(
        id="08_losses_and_ops",
        title="Losses, norms and your own ops",
        goal="write losses, norms and autograd Functions that hold in 16 bits",
        minutes=45,
        prerequisites=("06_grad_scaler",),
        shows=(
            Demonstration(
                "Losses, norms and residual streams that break in 16 bits, and how to write them"
            ),
            Demonstration("What custom_fwd, custom_bwd and register_autocast really do"),
        ),
        exercises=_of(
            "losses_and_ops",
            core=("stable_losses", "residual_stream"),
            more=("unit_rows", "safe_rms_norm", "recomputed_silu", "wide_energy"),
        ),
        topics=("losses_and_ops",),
        deep=Deep("Losses and ops at their edges", minutes=30),
    ),
    Lesson(
        id="09_memory",
        title="Memory",
        goal="say where the bytes of a training step are, and when AMP needs more of them",
        minutes=45,
        prerequisites=("07_training_loops",),
        shows=(
            Demonstration("Where the bytes of a training step are, counted with no GPU"),
            Demonstration("When mixed precision needs more memory, and from which batch on less"),
        ),
        exercises=_of(
            "memory",
            core=("training_bytes", "best_lever"),
            more=("crossover", "cache_bytes", "step_ratio", "chunked_loss"),
        ),
        topics=("memory",),
        deep=Deep("Memory, byte by byte", minutes=25),
    ),
    Lesson(
        id="10_speed",
        title="Speed, measured",
        goal="say what to expect on your GPU, time a step correctly, and find what holds it back",
        minutes=45,
        prerequisites=("07_training_loops",),
        shows=(
            Demonstration("What mixed precision gave on V100 to B200, published by others"),
            Demonstration("How a stopwatch lies, on a GPU whose true times are known"),
            Demonstration("Floors, rooflines and the limit of AMP's speed-up, by arithmetic"),
            Demonstration("FP32 against TF32 on this machine's GPU", needs="tf32"),
        ),
        exercises=_of(
            "speed",
            core=("time_step", "read_roofline"),
            more=(
                "suspect_rows",
                "fair_pairs",
                "compare_steps",
                "summarise_times",
                "speed_verdict",
                "step_flops",
                "least_seconds",
                "predict_speedup",
            ),
        ),
        topics=("speed",),
        deep=Deep("How fast could it be?", minutes=50),
    ),
    Lesson(
        id="11_compile_and_checkpoint",
        title="Compile and checkpoint",
        goal="compile a model and recompute activations in the precision you chose",
        minutes=30,
        prerequisites=("07_training_loops", "08_losses_and_ops"),
        shows=(
            Demonstration("A compiled backward pass with the wrong autocast, beside eager's"),
            Demonstration("A block that runs twice, and the dtype of its second run"),
        ),
        exercises=_of(
            "compile_and_checkpoint",
            core=("compiled_gradients", "checkpointed"),
            more=("changed_gradients", "cheapest_plan"),
        ),
        topics=("compile_and_checkpoint",),
        deep=Deep("Checkpoints at their edges", minutes=10),
    ),
    Lesson(
        id="12_ranks",
        title="Several ranks",
        goal="train on several ranks whose scalers agree, and choose what travels between them",
        minutes=35,
        prerequisites=("07_training_loops",),
        shows=(
            Demonstration("Two ranks under DDP and FSDP2, one of which overflows"),
            Demonstration("What FSDP2 casts, and how often DDP exchanges gradients"),
        ),
        exercises=_of(
            "ranks",
            core=("may_step", "few_exchanges"),
            more=("clip_shards", "shard_model"),
        ),
        topics=("ranks",),
        deep=Deep("Ranks at their edges", minutes=20),
    ),
    Lesson(
        id="13_fp8",
        title="FP8: a scale for each tensor, row or block",
        goal="train in FP8, choose what shares a scale, and say what stays in 16 or 32 bits",
        minutes=45,
        prerequisites=("01_number_formats", "07_training_loops"),
        shows=(
            Demonstration("FP8 by hand: scales for tensors, rows and blocks, and their errors"),
            Demonstration("Sums of 14 bits, as on Hopper, with and without promotion"),
        ),
        exercises=_of(
            "fp8", core=("to_float8", "DelayedScale"), more=("promoted_sum", "keep_high")
        ),
        topics=("fp8",),
        deep=Deep("FP8 at its edges", minutes=15),
    ),
    Lesson(
        id="14_mxfp8_and_nvfp4",
        title="MXFP8 and NVFP4: four bits, and a scale for sixteen numbers",
        goal="say what each ingredient of a 4-bit recipe is for, and find the one that is missing",
        minutes=40,
        prerequisites=("13_fp8",),
        shows=(
            Demonstration("Blocks of 4-bit and 8-bit numbers, and the error of each kind of scale"),
            Demonstration("Training in MXFP8, MXFP4 and NVFP4, with one ingredient left out"),
        ),
        exercises=_of(
            "mxfp8_and_nvfp4",
            core=("e8m0_scale", "stochastic_rounding"),
            more=("block_quantizer", "recipe_hole"),
        ),
        topics=("mxfp8_and_nvfp4",),
        deep=Deep("MXFP8 and NVFP4 at their edges", minutes=20),
    ),
    Lesson(
        id="15_myths",
        title="Myths, tested",
        goal="say where common claims about AMP hold, and what to say instead",
        minutes=45,
        prerequisites=("07_training_loops",),
        shows=(Demonstration("Claims about AMP, each tried, with its verdict"),),
        shares=("myths_and_clinic",),
    ),
    Lesson(
        id="16_clinic",
        title="The clinic",
        goal="find a fault by its message or symptom, and fix broken programs",
        minutes=45,
        prerequisites=("07_training_loops",),
        shows=(Demonstration("Pitfalls, triggered or cited, explained and fixed"),),
        exercises=_of(
            "clinic",
            core=("fix_finetune", "fix_guard"),
            more=(
                "fix_adapter",
                "fix_uneven",
                "fix_decay",
                "fix_closure",
                "fix_moments",
                "fix_entropy",
                "fix_similarity",
                "fix_recompute",
                "fix_ported",
                "fix_step",
                "fix_lora",
                "fix_scatter",
                "fix_positions",
                "fix_statistics",
            ),
        ),
        topics=("myths_and_clinic",),
        deep=Deep("Faults, one by one", minutes=75),
    ),
    Lesson(
        id="17_interview_room",
        title="Interview room",
        goal="answer questions on AMP with reasons and with numbers, and see where you stand",
        minutes=60,
        prerequisites=("00_amp_in_20_minutes",),
        shows=(Demonstration("Questions that never run out, a mock interview, tasks from memory"),),
    ),
)


@dataclass(frozen=True)
class Stage:
    """A part of a path, such as one day of it.

    Args:
        title: a few words, or "" for a path with a single stage.
        lessons: slugs, in order. The core exercises of each belong to the path too.
    """

    title: str
    lessons: tuple[str, ...]

    @property
    def minutes(self) -> int:
        """Reading, running, and solving the core exercises."""
        lessons = map(lesson_called, self.lessons)
        return sum(each.minutes + sum(info.minutes for info in each.core) for each in lessons)


@dataclass(frozen=True)
class LearningPath:
    """A way through the course for the time that a learner has.

    Args:
        title: that time, such as ``"3 hours"``.
        name: how a sentence calls it, such as ``"3-hour path"``.
        goal: what it leads to, as a sentence without its full stop.
        stages: in order.
    """

    title: str
    name: str
    goal: str
    stages: tuple[Stage, ...]

    @property
    def key(self) -> str:
        """How a command and a file call it, such as ``"3-hour"``."""
        return self.name.removesuffix(" path")

    @property
    def minutes(self) -> int:
        return sum(stage.minutes for stage in self.stages)

    @property
    def lessons(self) -> tuple[Lesson, ...]:
        return tuple(lesson_called(slug) for stage in self.stages for slug in stage.lessons)

    def skipped(self, lesson: Lesson) -> tuple[Lesson, ...]:
        """Lessons that one of its lessons builds on, and that it leaves out."""
        needed = (each for each in LESSONS if each.id in lesson.prerequisites)
        return tuple(each for each in needed if each not in self.lessons)


PATHS: tuple[LearningPath, ...] = (
    LearningPath(
        title="Half an hour",
        name="half-hour path",
        goal="A working mixed precision loop, and what each of its lines is for",
        stages=(Stage("", ("amp_in_20_minutes",)),),
    ),
    LearningPath(
        title="3 hours",
        name="3-hour path",
        goal="What autocast and GradScaler do, in enough detail to debug them",
        stages=(Stage("", ("amp_in_20_minutes", "autocast_ops", "grad_scaler")),),
    ),
    LearningPath(
        title="1 day",
        name="1-day path",
        goal="Make real training loops run in mixed precision, and check that they're right",
        stages=(
            Stage("Morning", ("amp_in_20_minutes", "how_numbers_break", "amp_from_scratch")),
            Stage("Afternoon", ("autocast_ops", "grad_scaler", "training_loops")),
        ),
    ),
    LearningPath(
        title="Interview in three days",
        name="interview path",
        goal="Answer questions on AMP with reasons and with numbers",
        stages=(
            Stage(
                "Day 1, numbers",
                ("amp_in_20_minutes", "number_formats", "how_numbers_break", "amp_from_scratch"),
            ),
            Stage(
                "Day 2, the machine",
                ("autocast_ops", "autocast_regions", "grad_scaler", "training_loops"),
            ),
            Stage(
                "Day 3, size, speed and judgement",
                ("memory", "speed", "myths", "clinic", "interview_room"),
            ),
        ),
    ),
)


class UnknownExercise(AmpLessonsError, KeyError):
    """No exercise has this name. The message lists the names that there are."""

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownLesson(AmpLessonsError, KeyError):
    """No lesson has this name. The message offers the nearest."""

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownPath(AmpLessonsError, KeyError):
    """No path has this name. The message lists the names that there are."""

    def __str__(self) -> str:
        return str(self.args[0])


def find_path(name: str) -> LearningPath:
    """The path that somebody means: ``"3-hour"``, ``"3 hours"`` or ``"3-hour path"``.

    Raises:
        UnknownPath: with the names of all paths in its message.
    """
    plain = name.strip().lower().replace("-", " ")
    for path in PATHS:
        names = (path.key, path.title, path.name)
        if plain in [each.lower().replace("-", " ") for each in names]:
            return path
    raise UnknownPath(f"no path is called {name!r}; there are {', '.join(p.key for p in PATHS)}")


def find_lesson(name: str) -> Lesson:
    """The lesson that somebody means: ``"6"``, ``"06"``, ``"grad_scaler"`` or its notebook's name.

    Raises:
        UnknownLesson: with the nearest names in its message.
    """
    plain = name.removesuffix(".ipynb").removesuffix("_exercises").rpartition("/")[2]
    for lesson in LESSONS:
        if plain in (lesson.id, lesson.slug, f"{lesson.number:02}", str(lesson.number)):
            return lesson
    import difflib

    names = [f"{lesson.number:02}" for lesson in LESSONS] + [lesson.slug for lesson in LESSONS]
    close = difflib.get_close_matches(plain, names, n=3)
    last = LESSONS[-1].number
    there = f"did you mean {', '.join(close)}?" if close else f"there are 00 to {last:02}"
    raise UnknownLesson(f"no lesson is called {name!r}; {there}")


def lesson_of(exercise: str) -> Lesson:
    """The lesson of an exercise, given as ``"next_float"``.

    Raises:
        UnknownExercise: with the nearest names in its message.
    """
    for lesson in LESSONS:
        if any(info.name == exercise for info in lesson.exercises):
            return lesson
    import difflib

    names = [info.name for lesson in LESSONS for info in lesson.exercises]
    close = difflib.get_close_matches(exercise, names, n=3) or names
    raise UnknownExercise(f"no exercise is called {exercise!r}; did you mean {', '.join(close)}?")


def lesson_called(slug: str) -> Lesson:
    """The lesson with this slug. Raises `KeyError`."""
    found = {lesson.slug: lesson for lesson in LESSONS}
    return found[slug]


def lesson_of_topic(topic: str) -> Lesson:
    """The lesson that teaches a topic of the question bank. Raises `KeyError`."""
    found = {name: lesson for lesson in LESSONS for name in lesson.topics}
    return found[topic]


def after(lesson: Lesson) -> Lesson | None:
    """The lesson that comes next in the catalogue, or None after the last."""
    place = LESSONS.index(lesson) + 1
    return LESSONS[place] if place < len(LESSONS) else None


def before(lesson: Lesson) -> Lesson | None:
    """The lesson that comes before in the catalogue, or None before the first."""
    place = LESSONS.index(lesson)
    return LESSONS[place - 1] if place else None


def paths_with(lesson: Lesson) -> tuple[LearningPath, ...]:
    """The paths that lead through a lesson."""
    return tuple(path for path in PATHS if lesson in path.lessons)


def heading_anchor(heading: str) -> str:
    """What follows the # in a link to a heading, as JupyterLab names headings."""
    return quote(heading.replace(" ", "-"))


def exercise_info(exercise: str) -> ExerciseInfo:
    """The catalogue's entry of an exercise. Raises `UnknownExercise`."""
    return next(info for info in lesson_of(exercise).exercises if info.name == exercise)


def find_exercise(name: str) -> ExerciseInfo | None:
    """The catalogue's entry of an exercise, or None if no exercise is called so."""
    try:
        return exercise_info(name)
    except UnknownExercise:
        return None


def checkout() -> Path | None:
    """The root of the source checkout this package runs from, or None if it was installed."""
    root = PACKAGE.parent
    return root if (root / "sources" / "lessons").is_dir() else None


def course_files() -> Path:
    """The folder that holds ``notebooks/``, ``exercises/`` and ``solutions/``.

    In a checkout that is its root; an installed wheel carries the three in `IN_WHEEL`.
    """
    return checkout() or IN_WHEEL


def _validate(lessons: tuple[Lesson, ...]) -> None:
    """Refuse a catalogue that contradicts itself, when it is imported."""
    seen: list[str] = []
    names: list[str] = []
    for lesson in lessons:
        assert not seen or lesson.id > seen[-1], f"{lesson.id}: lessons stand in their order"
        for before in lesson.prerequisites:
            assert before in seen, f"{lesson.id} needs {before}, which does not come before it"
        assert lesson.minutes > 0, f"{lesson.id}: minutes must be positive"
        seen.append(lesson.id)
        names += [info.name for info in lesson.exercises]
        few = 1 <= len(lesson.core) <= 3 or not lesson.exercises
        assert few, f"{lesson.id}: two or three exercises are its core"
    topics = [topic for lesson in lessons for topic in lesson.topics]
    assert len(topics) == len(set(topics)), "each topic belongs to one lesson"
    shared = {topic for lesson in lessons for topic in lesson.shares}
    assert shared <= set(topics), f"these topics belong to no lesson: {shared - set(topics)}"
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"exercise names must be unique in the course: {sorted(twice)}"

    for path in PATHS:
        for stage in path.stages:
            for slug in stage.lessons:
                assert slug in {lesson.slug for lesson in lessons}, f"{path.title}: no {slug!r}"


_validate(LESSONS)
