# %% text
# # Exercises 13: FP8
#
# You store a tensor in eight bits, repair a history of scales, add up in a register with few bits,
# and choose the layers that stay in BF16. Take [[lesson fp8]] first. You don't need a GPU.

# %% given
import math

import torch
from torch import nn

from amp_lessons.exercises import fp8 as ex
