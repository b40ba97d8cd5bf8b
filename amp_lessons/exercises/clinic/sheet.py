# %% text
# # Exercises 16: The clinic
#
# Sixteen broken programs, one for each case of the clinic. They are the last exercises of the
# course. Take [[lesson clinic]] first. Fourteen of them train in mixed precision on the CPU. Cases
# 14 and 15 are parts of a model that is called under autocast.
#
# For each case you see the program and what it prints. Find out why, then write the fixed program
# under the name that the task gives. If it trains, call `loss_fn` once for each batch.
#
# The check runs a training program on several sets of batches. Some batches hold an input of
# 300000, which FP16 cannot store. Such a batch overflows, and the scaler must skip its step. The
# check compares the steps that were really made, the dtypes of layers, gradients and weights, the
# scale, the losses, and the weights at the end. Any fix that gets these right passes. If a task
# asks for more, such as little memory, the check looks at that too.

# %% given
import math

import torch
from torch import nn
from torch.nn.functional import cross_entropy, log_softmax, softmax
from torch.utils.checkpoint import checkpoint

from amp_lessons.exercises import clinic as ex


# %% demo
def some_batches(count, rows=10, spoiled=()):
    """Random batches that can be learned; those in `spoiled` hold a NaN."""
    random = torch.Generator().manual_seed(0)
    batches = []
    for number in range(count):
        x = torch.randn(rows, 6, generator=random)
        y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
        if number in spoiled:
            x[0, 0] = math.nan
        batches.append((x, y))
    return batches


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def scaler(init_scale=2.0**10):
    return torch.amp.GradScaler("cpu", init_scale=init_scale)
