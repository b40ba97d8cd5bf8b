"""nbgrader's settings for a course folder with sheets of AMP Lessons.

Copy this file into the course folder, beside `source/`, and run nbgrader there. `docs/grading.md`
leads through it step by step. nbgrader's own defaults hold for whatever isn't named here.
"""

import os
import sys
from pathlib import Path

c = get_config()  # noqa: F821 - Jupyter's loader brings it

COURSE = Path(__file__).resolve().parent

c.CourseDirectory.root = str(COURSE)
c.CourseDirectory.course_id = "amp-lessons"

# Seconds. The first cell imports PyTorch and some checks train a small network. nbgrader's defaults
# (30 to run a cell, 4 to wait for its output) lose honest submissions on a busy machine.
c.Execute.timeout = 120
c.Execute.startup_timeout = 300
c.Execute.iopub_timeout = 60

# A check that passes writes that down for the learner. While you grade, that isn't you.
os.environ["AMP_LESSONS_HOME"] = str(COURSE / ".amp-lessons")

# nbgrader calls alembic by its bare name, which fails where the environment isn't activated.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
