# %% text
# # Exercises 14: MXFP8 and NVFP4
#
# A scale that is a power of two, rounding that is right on average, a quantiser for blocks of 16,
# and a recipe with a hole. Take [[lesson mxfp8_and_nvfp4]] first. You don't need a GPU.

# %% given
import torch

from amp_lessons.exercises import mxfp8_and_nvfp4 as ex
