"""Widgets for the notebooks: small interactive pictures of what the package computes, and the quiz.

A widget holds no facts of its own. Some repeat arithmetic in JavaScript, under test: the bit
explorer that of `formats`, the block explorer that of `blocks`, the scaler lab that of `scaler`,
the roofline explorer that of `roofline`, and the memory calculator what `memory` counts. The
gradient histogram draws what `scaling` counted, and the loss scale lab runs of `fixed_scale` that
were recorded. The policy browser shows what `policy` answers. The autocast step-through draws what
`explain` sees, and the ordering of the calls shows what `call_order` ran. The box for errors shows
what `lookup` finds, and the explorer of published runs what `speed.published` quotes. The whole
loop compares two loops of `training`. Each is one anywidget with its page in `static/`, works with
the keyboard alone, and loads nothing from a network.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from amp_lessons.lessons.widgets.autocast_steps import AutocastSteps
    from amp_lessons.lessons.widgets.bit_explorer import BitExplorer
    from amp_lessons.lessons.widgets.block_explorer import BlockExplorer
    from amp_lessons.lessons.widgets.error_lookup import ErrorLookup
    from amp_lessons.lessons.widgets.gradient_histogram import GradientHistogram
    from amp_lessons.lessons.widgets.loss_scale_lab import LossScaleLab
    from amp_lessons.lessons.widgets.memory_calculator import MemoryCalculator
    from amp_lessons.lessons.widgets.order_calls import OrderTheCalls
    from amp_lessons.lessons.widgets.policy_browser import PolicyBrowser
    from amp_lessons.lessons.widgets.published_explorer import PublishedExplorer
    from amp_lessons.lessons.widgets.roofline_explorer import RooflineExplorer
    from amp_lessons.lessons.widgets.scaler_lab import ScalerLab
    from amp_lessons.lessons.widgets.whole_loop import WholeLoop

__all__ = [
    "AutocastSteps",
    "BitExplorer",
    "BlockExplorer",
    "ErrorLookup",
    "GradientHistogram",
    "LossScaleLab",
    "MemoryCalculator",
    "OrderTheCalls",
    "PolicyBrowser",
    "PublishedExplorer",
    "RooflineExplorer",
    "ScalerLab",
    "WholeLoop",
]

MODULES = {
    "AutocastSteps": "autocast_steps",
    "BitExplorer": "bit_explorer",
    "BlockExplorer": "block_explorer",
    "ErrorLookup": "error_lookup",
    "GradientHistogram": "gradient_histogram",
    "LossScaleLab": "loss_scale_lab",
    "MemoryCalculator": "memory_calculator",
    "OrderTheCalls": "order_calls",
    "PolicyBrowser": "policy_browser",
    "PublishedExplorer": "published_explorer",
    "RooflineExplorer": "roofline_explorer",
    "ScalerLab": "scaler_lab",
    "WholeLoop": "whole_loop",
}
"""Where each widget lies: its Python module and, under the same name, its page in `static/`."""


def __getattr__(name: str) -> Any:
    """Import a widget when it is asked for: most bring torch with them."""
    if name not in MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{MODULES[name]}"), name)
