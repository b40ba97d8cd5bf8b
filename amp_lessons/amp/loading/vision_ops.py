"""Let torchvision be imported beside a PyTorch that its compiled ops were not built for.

The package index has torchvision for CUDA only. Beside a CPU build of PyTorch its compiled ops do
not load, and then ``import torchvision`` ends with "operator torchvision::nms does not exist". So
does the import of timm, of peft, and of the Trainer of transformers. Only the two ops that
torchvision names on import are missed, so declaring them is enough: they have no kernel, and
`torchvision.ops.nms` still says that the compiled ops are missing.

`amp-lessons explain` and `memory` do this for themselves. ``tools/install.py tests`` puts this file
into the environment of the tests, where it runs at each start of Python. So it needs nothing else
of this package, and imports torch only once torchvision is imported.
"""

from __future__ import annotations

import sys

SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_declared: list[object] = []  # an op lives as long as its library object


class DeclaresOps:
    """A finder that finds nothing: it declares the ops when torchvision is about to name them."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Called by Python for each module that is imported."""
        if name == "torchvision._meta_registrations":
            _declare_missing()


def declare_on_import() -> None:
    """From now on an import of torchvision declares the ops, if its own don't load."""
    if not any(isinstance(finder, DeclaresOps) for finder in sys.meta_path):
        sys.meta_path.insert(0, DeclaresOps())


def _declare_missing() -> None:
    import torch

    extension = sys.modules["torchvision.extension"]
    if extension._has_ops() or hasattr(torch.ops.torchvision, "nms"):
        return
    ops = torch.library.Library("torchvision", "DEF")
    for schema in SCHEMAS:
        ops.define(schema)
    _declared.append(ops)
