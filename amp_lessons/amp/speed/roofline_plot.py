"""The figure of a roofline: runs below the roofs of a machine. Drawn from plain numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from amp_lessons.core.pictures import COLOURS, DASHES, INK, MARKERS, Picture, figure_of


def roofline(
    runs: Mapping[str, Mapping[str, tuple[float, float]]],
    compute: Mapping[str, float],
    bandwidth: float,
    *,
    title: str = "Roofline",
    counted: str = "eager ops, no cache",
) -> Picture:
    """Runs below the roofs of a machine: no step can be above both.

    Args:
        runs: for each workload, by mode, the arithmetic intensity in FLOP/byte and the speed in
            FLOP/s. A workload has one colour, a mode one marker.
        compute: peaks in FLOP/s by precision; each is a flat roof.
        bandwidth: of the memory in bytes/s, the slanted roof.
        title: of the figure.
        counted: how the bytes were counted, for the axis.
    """
    with figure_of(height=4.4) as (figure, axes):
        points = {
            (workload, mode): point
            for workload, by_mode in runs.items()
            for mode, point in by_mode.items()
        }
        workloads = list(runs)
        modes = list(dict.fromkeys(mode for _, mode in points))
        corners = [peak / bandwidth for peak in compute.values()]
        places = [intensity for intensity, _ in points.values()]
        low, high = min(places + corners) / 4, max(places + corners) * 6
        x = np.geomspace(low, high, 200)
        for i, (name, peak) in enumerate(compute.items()):
            style: dict[str, Any] = {
                "color": COLOURS[i % len(COLOURS)],
                "ls": DASHES[i % len(DASHES)],
            }
            axes.plot(x, np.minimum(x * bandwidth, peak) / 1e12, lw=1.8, **style)
            axes.annotate(
                f"{name} {peak / 1e12:.4g}", (high, peak / 1e12), (-2, 4), ha="right",
                textcoords="offset points", color=style["color"], fontsize=9,
            )  # fmt: skip
        for (workload, mode), (intensity, speed) in points.items():
            axes.plot(
                intensity, speed / 1e12, ls="", ms=8, mec=INK, mew=0.6,
                marker=MARKERS[modes.index(mode) % len(MARKERS)],
                mfc=COLOURS[workloads.index(workload) % len(COLOURS)],
                label=f"{workload}, {mode}",
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(low, high)
        axes.grid(True, color="#e5e7ea", lw=0.6)
        axes.set_xlabel(f"arithmetic intensity in FLOP/byte ({counted})")
        axes.set_ylabel("TFLOP/s")
        axes.set_title(title)
        if points:
            figure.legend(loc="outside right upper", fontsize=8)
        roofs = ", ".join(f"{name} {peak / 1e12:.4g} TFLOP/s" for name, peak in compute.items())
        words = "; ".join(
            f"{workload}, {mode}: {speed / 1e12:.4g} TFLOP/s at {intensity:.3g} FLOP/byte"
            for (workload, mode), (intensity, speed) in points.items()
        )
        return Picture(
            figure,
            f"{title}. Roofs: memory {bandwidth / 1e9:.4g} GB/s, {roofs}. Runs: {words or 'none'}.",
        )
