"""Comparing what a cell shows with what is stored, for nbval, the rebuild and the browser alike.

Everything is compared exactly, except the image of a picture that brings its numbers along
(`amp_lessons.core.pictures.Picture`): FP16 results differ from one CPU to the next in the fifth
digit, so such an image is not the same byte for byte. Its alt text and its curves are compared
instead.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

CURVES = "application/vnd.amp-lessons.curves+json"  # pictures.CURVES, imported lightly
RELATIVE = 0.01  # of a value; the values are kept at three significant digits
OF_THE_RANGE = 0.003  # of what its curve spans: about one pixel in a figure 320 pixels high
PNG = re.compile(r'src="data:image/png;base64,[^"]*"')

Output = Mapping[str, Any]


def settled(shown: Iterable[Output], stored: Iterable[Output]) -> list[Output]:
    """What a cell showed, with the stored picture in place of each one that agrees with it.

    The result can be compared with ``stored`` exactly: a picture is equal to the stored one if it
    agrees with it, and anything else is left as it is.

    Raises:
        AssertionError: for curves that differ. The message says where they do.
    """
    pictures = iter([output["data"] for output in stored if _has_curves(output)])
    return [
        {**output, "data": _settled(output["data"], next(pictures, {}))}
        if _has_curves(output)
        else output
        for output in shown
    ]


def _has_curves(output: Output) -> bool:
    return CURVES in output.get("data", {})


def _settled(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The data of a picture, with the numbers and the image of the stored one."""
    if not theirs:
        return ours
    assert (found := differences(ours[CURVES], theirs[CURVES])) == [], "\n".join(found)
    return {**ours, CURVES: theirs[CURVES], "text/html": _with_image_of(theirs, ours)}


def _with_image_of(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """Our HTML around their image."""
    image = PNG.search(theirs["text/html"])
    assert image, "a picture is stored without its image"
    return PNG.sub(lambda _: image[0], ours["text/html"], count=1)


def differences(ours: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """Where the curves of a picture differ from the stored ones, a line for each; [] if nowhere."""
    if ours.keys() != theirs.keys():
        return [f"the curves are {sorted(ours)}, stored are {sorted(theirs)}"]
    found = []
    for name in ours:
        new, old = ([float(word) for word in curves[name].split()] for curves in (ours, theirs))
        if len(new) != len(old):
            found.append(f"{name!r} has {len(new)} values, stored are {len(old)}")
            continue
        finite = [value for value in old if math.isfinite(value)]
        pixel = OF_THE_RANGE * (max(finite) - min(finite)) if finite else 0.0
        apart = [
            f"{name!r} is {ours[name].split()[i]} at {i}, stored is {theirs[name].split()[i]}"
            for i in range(len(new))
            if not _close(new[i], old[i], pixel)
        ]
        more = f", and differs in {len(apart) - 1} more places" if len(apart) > 1 else ""
        found += [apart[0] + more] if apart else []
    return found


def _close(new: float, old: float, pixel: float) -> bool:
    if math.isnan(new) or math.isnan(old):
        return math.isnan(new) and math.isnan(old)
    return math.isclose(new, old, rel_tol=RELATIVE, abs_tol=pixel)
