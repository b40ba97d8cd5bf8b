# %% text
# # Exercises 08: Losses, norms and your own ops
#
# You write four losses, two norms and a residual stream that work in 16 bits, and fix two autograd
# Functions for autocast. Take [[lesson losses_and_ops]] first. Everything runs on a CPU.

# %% given
import torch
from torch.nn import functional as F

from amp_lessons.exercises import losses_and_ops as ex
