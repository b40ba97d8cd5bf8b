# %% text
# # Exercises 00: AMP in 20 minutes
#
# One small exercise, to see how answers are checked in this course. Each exercise has four cells:
# the task, your answer, the check, and a cell with help. Run them in this order, as often as you
# like. Nothing counts against you, and your progress is kept when you close the notebook.
#
# First run all cells as they are: the check says *not attempted*. Then write something wrong on
# purpose, such as `return x > 0`. Run the cell and the check, and read what it says.

# %% given
import torch

from amp_lessons.exercises import amp_in_20_minutes as ex
