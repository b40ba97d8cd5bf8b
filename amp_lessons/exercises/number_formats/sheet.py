# %% text
# # Exercises 01: Number formats
#
# Four functions about the bits of a number, and about how many of them to spend. Take
# [[lesson number_formats]] first. A check calls your function with many numbers, and the ones that
# people forget are among them.

# %% given
import torch

from amp_lessons.exercises import number_formats as ex
from amp_lessons import FORMATS
