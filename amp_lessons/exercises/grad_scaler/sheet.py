# %% text
# # Exercises 06: GradScaler
#
# Write a GradScaler, predict one, and use one in the right order. Take [[lesson grad_scaler]]
# first. You don't need a GPU: `torch.amp.GradScaler("cpu")` works like the one for CUDA.

# %% given
import torch
from torch import nn

from amp_lessons.exercises import grad_scaler as ex
