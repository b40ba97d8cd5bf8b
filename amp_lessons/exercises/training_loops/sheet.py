# %% text
# # Exercises 07: Real training loops
#
# Six loops that are broken as loops really are, and four to write. Take [[lesson training_loops]]
# first.

# %% given
import torch
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_

from amp_lessons.exercises import training_loops as ex
