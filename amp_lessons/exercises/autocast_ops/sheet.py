# %% text
# # Exercises 04: What autocast does to each op
#
# Predict the dtypes that autocast gives, and fix code that autocast doesn't look after. Then write
# two tools that show what it did to a model. Everything runs on a CPU. Where an exercise asks about
# CUDA, the check uses fake tensors. Take [[lesson autocast_ops]] first.

# %% given
import torch
from torch import nn
from torch.nn import functional as F

from amp_lessons.exercises import autocast_ops as ex
