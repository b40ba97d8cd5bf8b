"""The course's vocabulary: what lessons use most, and what your own code may need.

    from amp_lessons import ask, predict, plots, ScalerLog, op_policy, FP16

A name is imported when it is used first. Exercises come from ``amp_lessons.exercises``, and all
else from the wing that it lies in; `docs/architecture.md` draws them.
"""

__version__: str

# In the order of what they are for, not of their paths.
# isort: off

# Questions, and pictures of numbers.
from .lessons.interview import ask as ask
from .lessons.interview import predict as predict
from .lessons import plots as plots

# Number formats: which numbers there are, and what rounding makes of others.
from .amp.numbers.formats import FP32 as FP32
from .amp.numbers.formats import TF32 as TF32
from .amp.numbers.formats import BF16 as BF16
from .amp.numbers.formats import FP16 as FP16
from .amp.numbers.formats import FP8_E4M3 as FP8_E4M3
from .amp.numbers.formats import FP8_E5M2 as FP8_E5M2
from .amp.numbers.formats import FORMATS as FORMATS

# What autocast does to an op and to a model, and the memory that a model takes.
from .amp.policy import op_policy as op_policy
from .amp.policy import policy_table as policy_table
from .amp.explain import explain_autocast as explain_autocast
from .amp.memory.training import training_memory as training_memory

# A run: the loss scale, what goes wrong, and what a message means.
from .amp.scaling.scaler_log import ScalerLog as ScalerLog
from .amp.scaling.scaler_log import simulate_scaler as simulate_scaler
from .amp.monitor import monitor as monitor
from .amp.errors import lookup as lookup

# The network and the digits on which the lessons train.
from .amp.training.loops import autoencoder as autoencoder
from .amp.training.loops import load_digits as load_digits
