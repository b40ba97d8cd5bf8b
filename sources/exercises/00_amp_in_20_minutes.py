# %% [markdown]
# # Exercises 00: AMP in 20 minutes
#
# One small exercise, to see how answers are checked in this course. Each exercise has four cells:
# the task, your answer, the check, and a cell with help. Run them in this order, as often as you
# like. Nothing counts against you, and your progress is kept when you close the notebook.
#
# First run all cells as they are: the check says *not attempted*. Then write something wrong on
# purpose, such as `return x > 0`, run the cell and the check, and read what it says.

# %%
import torch

from amp_lessons.checks import amp_in_20_minutes as ex

# %% [markdown] heading="survives"
# In the lesson, the gradient of a pixel became zero in FP16. Which numbers survive? Write
# `survives(x)`: is the number `x` still different from zero after it has been stored in FP16?
#
# Return `True` or `False`. `x` is a Python float, positive or negative. Make a guess before you
# write: does 4e-8 survive? Does 1e-8?


# %% exercise="survives"
def survives(x):
    """Whether x, stored in torch.float16, is still different from zero."""
    ### BEGIN SOLUTION
    return torch.tensor(x, dtype=torch.float16).item() != 0
    ### END SOLUTION


# %% [markdown]
# Next: [[lesson number_formats]] shows where the limit comes from. Or go [[home]].
