# %% text
# # Exercises 12: Several ranks
#
# You let ranks agree on a step and on a norm, accumulate with few exchanges, and shard a model.
# Take [[lesson ranks]] first. You don't need a GPU or a second process: the ranks are threads of
# this process, or stand-ins.

# %% given
import contextlib
import math

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from amp_lessons.exercises import ranks as ex
