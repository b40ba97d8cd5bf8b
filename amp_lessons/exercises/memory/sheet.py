# %% text
# # Exercises 09: Memory
#
# You write five small calculators of the kind that you need before you rent a GPU. Take
# [[lesson memory]] first. Nothing here needs a GPU.

# %% given
import torch
from torch import nn

from amp_lessons.exercises import memory as ex
