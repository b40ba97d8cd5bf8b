# %% text
# # Exercises 05: Regions, cache, threads
#
# Six pieces of code around an autocast region: where it ends, what leaves it, what it keeps, and
# where it does not reach. Take [[lesson autocast_regions]] first. Everything runs on the CPU. The
# checks look at whether autocast was on when something ran, however you open a region.

# %% given
import torch
from torch import nn
from torch.nn import Linear

from amp_lessons.exercises import autocast_regions as ex
