# %% [markdown]
# # Exercises 00: Start here
#
# One small exercise, to see how a check works. Each exercise has four cells: the task, your
# answer, the check, and a cell with help. Run them in that order, as often as you like. Nothing
# is counted against you, and your progress is kept when you close the notebook.

# %%
import torch

from amp_lessons.checks import amp_in_20_minutes as ex

# %% [markdown] heading="survives"
# Write `survives(x)`: does the number `x`, stored in FP16, remain different from zero?
#
# Return `True` or `False`. `x` is a Python float of either sign. Before you write, guess: does
# 4e-8 survive? Does 1e-8?


# %% exercise="survives"
def survives(x):
    """Whether x, stored in torch.float16, is still different from zero."""
    ### BEGIN SOLUTION
    return torch.tensor(x, dtype=torch.float16).item() != 0
    ### END SOLUTION


# %% [markdown]
# Run the check before you have written anything, too: it says *not attempted*. Then write
# something wrong on purpose, such as `return x > 0`, and read the diagnosis.
#
# Next: the lesson *Number formats*, `notebooks/01_number_formats.ipynb`.
