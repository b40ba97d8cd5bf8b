"""Get the model packages ready to import: offline, and with a torchvision that can detect."""

from __future__ import annotations

import logging
import os
import warnings

import torch
from torch import Tensor

from amp_lessons.amp.loading.vision_ops import declare_on_import

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "DIFFUSERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}

_added: list[torch.library.Library] = []  # a kernel lives as long as its library object


def prepare() -> None:
    """Make ``import torchvision, transformers, timm, diffusers, peft`` work here. May be repeated.

    Where torchvision's compiled ops are missing, ``torchvision::nms`` gets a CPU kernel in Python,
    and `torchvision.ops.nms` uses it. RoIAlign has a Python path of its own in torchvision.
    """
    os.environ.update(OFFLINE)
    logging.getLogger("torchao").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"(transformers|timm|diffusers|torch_geometric)\b.*")
    declare_on_import()
    import torchvision.ops.boxes

    if _added or torch._C._dispatch_has_kernel_for_dispatch_key("torchvision::nms", "CPU"):
        return
    kernels = torch.library.Library("torchvision", "IMPL")
    kernels.impl("nms", nms, "CPU")
    _added.append(kernels)
    torchvision.ops.boxes._assert_has_ops = lambda: None


def nms(boxes: Tensor, scores: Tensor, threshold: float) -> Tensor:
    """Greedy non-maximum suppression: the indices of the boxes that stay, best score first.

    Args:
        boxes: [N, 4], corners x1, y1, x2, y2. scores: [N].
        threshold: a box goes if its intersection over union with a better one is above this.
    """
    left, top, right, bottom = boxes.unbind(1)
    areas = (right - left) * (bottom - top)
    order = scores.argsort(descending=True).tolist()
    kept: list[int] = []
    while order:
        best, *rest = order
        kept.append(best)
        others = torch.tensor(rest, dtype=torch.int64)
        if not rest:
            break
        width = (right[others].clamp(max=right[best]) - left[others].clamp(min=left[best])).clamp(0)
        height = (bottom[others].clamp(max=bottom[best]) - top[others].clamp(min=top[best])).clamp(
            0
        )
        shared = width * height
        overlap = shared / (areas[others] + areas[best] - shared)
        order = others[overlap <= threshold].tolist()
    return torch.tensor(kept, dtype=torch.int64)
