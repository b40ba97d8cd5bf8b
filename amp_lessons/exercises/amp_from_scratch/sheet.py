# %% text
# # Exercises 03: AMP from scratch
#
# You build the three ingredients of mixed precision by hand. Then you find out which of them a
# training run lacks. Take [[lesson amp_from_scratch]] first. Nothing here needs `torch.amp`.

# %% given
import math

import torch

from amp_lessons.exercises import amp_from_scratch as ex
from amp_lessons import FP16
