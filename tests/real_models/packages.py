"""Get the model packages ready to import: offline, and with a torchvision that loads.

torchvision's Linux wheel on the package index is a CUDA build. Beside a CPU build of torch its
compiled ops do not load, and then ``import torchvision`` fails, as does all that imports it.
"""

from __future__ import annotations

import logging
import os
import warnings

import torch
from torch import Tensor

OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "DIFFUSERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}

_declared: list[torch.library.Library] = []  # an op lives as long as its library object


def prepare() -> None:
    """Make ``import torchvision, transformers, timm, diffusers, peft`` work here. May be repeated.

    Where torchvision's compiled ops are missing, ``torchvision::nms`` gets a CPU kernel in Python,
    and `torchvision.ops.nms` uses it. RoIAlign has a Python path of its own in torchvision.
    """
    os.environ.update(OFFLINE)
    logging.getLogger("torchao").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module=r"(transformers|timm|diffusers|torch_geometric)\b.*")
    if _declared:
        return
    try:
        import torchvision
    except RuntimeError as error:
        if "torchvision::nms does not exist" not in str(error):
            raise
        _declare_nms()
    else:
        if torch._C._dispatch_has_kernel_for_dispatch_key("torchvision::nms", "CPU"):
            return
        added = torch.library.Library("torchvision", "IMPL")  # amp_lessons.doors declared the op
        added.impl("nms", nms, "CPU")
        _declared.append(added)
    import torchvision.ops.boxes

    torchvision.ops.boxes._assert_has_ops = lambda: None


def _declare_nms() -> None:
    library = torch.library.Library("torchvision", "DEF")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define(
        "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
    )  # declared only: torchvision registers a fake kernel for it on import
    library.impl("nms", nms, "CPU")
    _declared.append(library)


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
