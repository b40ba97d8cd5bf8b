"""What the course's files were called in former versions, so that a learner's copy can follow.

To rename a file, add a line at the end of `MOVED`: from its last name to its new one. Older lines
stay as they are, since a workspace may have skipped some versions.
"""

from __future__ import annotations

from collections.abc import Iterator

MOVED = {
    # 0.1: a lesson and its sheet had one name, so two tabs in JupyterLab looked the same
    "exercises/00_start_here.ipynb": "exercises/00_amp_in_20_minutes_exercises.ipynb",
    "exercises/01_number_formats.ipynb": "exercises/01_number_formats_exercises.ipynb",
    "exercises/02_how_numbers_break.ipynb": "exercises/02_how_numbers_break_exercises.ipynb",
    "exercises/03_amp_from_scratch.ipynb": "exercises/03_amp_from_scratch_exercises.ipynb",
    "exercises/04_autocast_ops.ipynb": "exercises/04_autocast_ops_exercises.ipynb",
    "exercises/05_autocast_regions.ipynb": "exercises/05_autocast_regions_exercises.ipynb",
    "exercises/06_grad_scaler.ipynb": "exercises/06_grad_scaler_exercises.ipynb",
    "exercises/07_training_loops.ipynb": "exercises/07_training_loops_exercises.ipynb",
    "exercises/08_losses_and_ops.ipynb": "exercises/08_losses_and_ops_exercises.ipynb",
    "exercises/09_memory.ipynb": "exercises/09_memory_exercises.ipynb",
    "exercises/10_speed.ipynb": "exercises/10_speed_exercises.ipynb",
    "exercises/11_past_one_gpu.ipynb": "exercises/11_past_one_gpu_exercises.ipynb",
    "exercises/12_myths_and_clinic.ipynb": "exercises/12_myths_and_clinic_exercises.ipynb",
    # 0.2: lesson 12 became two, and the lesson after it moved up
    "exercises/12_myths_and_clinic_exercises.ipynb": "exercises/13_clinic_exercises.ipynb",
    "notebooks/13_interview_room.ipynb": "notebooks/14_interview_room.ipynb",
}
"""The same file under another name: a learner's copy is moved."""

REPLACED = {
    "notebooks/00_start_here.ipynb": "notebooks/00_amp_in_20_minutes.ipynb",
    "notebooks/12_myths_and_clinic.ipynb": "notebooks/12_myths.ipynb",
}
"""A new file that took the place of another: a learner's copy of the old one stays beside it."""

LESSONS = {
    # 0.2: lesson 12 became two
    "myths_and_clinic": ("myths", "clinic"),
}
"""Lessons by their former slugs, with the ones that took their place. Who finished the former one
has finished those."""

TOPICS = {
    "start_here": "amp_in_20_minutes",
    "myths_and_clinic": "clinic",
}
"""Folders of exercises by their former names: sheets that a learner answered import them."""

EXERCISES = {
    # 0.2: the word for repairing a program is "fix"
    "mend_mismatches": "fix_mismatches",
    "mend_stuck": "fix_stuck",
    "mend_unscaled": "fix_unscaled",
    "mend_norms": "fix_norms",
    "mend_epochs": "fix_epochs",
    "mend_half": "fix_half",
    "mend_evaluation": "fix_evaluation",
    "mend_finetune": "fix_finetune",
    "mend_guard": "fix_guard",
    "mend_adapter": "fix_adapter",
    "mend_uneven": "fix_uneven",
    "mend_decay": "fix_decay",
    "mend_closure": "fix_closure",
    "mend_moments": "fix_moments",
    "mend_entropy": "fix_entropy",
    "mend_similarity": "fix_similarity",
    "mend_recompute": "fix_recompute",
}
"""Exercises by their former names: saved progress and answered sheets follow."""


def current_grade_id(grade_id: str) -> str:
    """What the cell of an answer or a check is called now: ``"fix_stuck_check"``."""
    name = grade_id.removesuffix("_check")
    return EXERCISES.get(name, name) + grade_id[len(name) :]


def current(path: str) -> str:
    """What a path is called now, after any number of renamings."""
    while (newer := MOVED.get(path) or REPLACED.get(path)) is not None:
        path = newer
    return path


def moves() -> Iterator[tuple[str, str]]:
    """Each former name with the present one, the youngest name first: if a learner has a file under
    two of its names, the younger is the one that moves on."""
    for former in reversed(MOVED):
        yield former, current(former)
