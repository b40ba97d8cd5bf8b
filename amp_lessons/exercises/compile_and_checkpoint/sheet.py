# %% text
# # Exercises 11: Compile and checkpoint
#
# You compile a model so that its gradients are those of eager mode, compare two steps, and run
# blocks twice to save memory. Take [[lesson compile_and_checkpoint]] first. You need no GPU and no
# C++ compiler.

# %% given
import math

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from amp_lessons.exercises import compile_and_checkpoint as ex
