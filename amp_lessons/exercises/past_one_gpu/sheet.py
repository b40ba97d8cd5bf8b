# %% text
# # Exercises 11: Past one eager GPU
#
# You compile a model, run a block twice, shard a model, share gradients between ranks and store a
# tensor in eight bits. Take [[lesson past_one_gpu]] first. You don't need a GPU or a second
# process. Where there are several ranks, they are threads of this process, or stand-ins.

# %% given
import contextlib

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

from amp_lessons.exercises import past_one_gpu as ex
