# %% text
# # Exercises 10: Speed, measured
#
# You find the suspect rows of a table, and the runs that make a fair pair. You fix two benchmarks
# that lie, summarise their times and judge a speed-up. Then you compute how fast a step could be at
# best, and what mixed precision could gain. Take [[lesson speed]] first.
#
# Nothing here depends on the speed of your machine. The two benchmarks run on a `PretendGpu`: a
# queue, a clock, and programs whose true times are known. Its times were made up for this sheet.

# %% given
import math
import statistics
from itertools import pairwise

from amp_lessons.exercises import speed as ex
from amp_lessons.amp.speed import PretendGpu
