"""Which kernel `scaled_dot_product_attention` takes on CUDA: flash, efficient, cuDNN or math.

The rules are those of PyTorch 2.13.0's or 2.15.0's C++, restated on shapes, dtypes and flags: no
tensor, no torch and no GPU is needed. How a kernel is then run on fake tensors is left to
`fake_tensors.attention`.
"""

from amp_lessons.amp.attention.calls import (
    KERNELS,
    LABELS,
    RULES_OF,
    AttentionCall,
    AttentionError,
    KernelChoice,
    KernelRefusal,
    Settings,
)
from amp_lessons.amp.attention.choosing import choose, order
from amp_lessons.amp.attention.gpus import CAPABILITIES, DEFAULT_GPU, capability
from amp_lessons.amp.attention.numbers import forward_flops

__all__ = [
    "CAPABILITIES",
    "DEFAULT_GPU",
    "KERNELS",
    "LABELS",
    "RULES_OF",
    "AttentionCall",
    "AttentionError",
    "KernelChoice",
    "KernelRefusal",
    "Settings",
    "capability",
    "choose",
    "forward_flops",
    "order",
]
