# %% text
# # Exercises 02: Three ways numbers break
#
# Three functions in 16 bits, and ten faults to name. Take [[lesson how_numbers_break]] first.

# %% given
import torch

from amp_lessons.exercises import how_numbers_break as ex
