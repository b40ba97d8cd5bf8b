# %% text
# # Exercises 13: FP8
#
# You store a tensor in eight bits, with a scale of its own. Take [[lesson fp8]] first. You don't
# need a GPU.

# %% given
import torch

from amp_lessons.exercises import fp8 as ex
