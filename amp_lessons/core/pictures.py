"""A picture with a text that says what it shows, and the style and colours of all the course's
figures: readable in light and dark themes, without colour, and by ear.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

# Okabe and Ito's colours: told apart by colour-blind readers. Order matters.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P")
INK, QUIET = "#1b1f24", "#5b6470"

STYLE: dict[Any, Any] = {
    "figure.facecolor": "white",  # a white card, also in a dark theme
    "figure.dpi": 100,
    "savefig.dpi": 100,
    "font.family": "DejaVu Sans",  # comes with Matplotlib, so the bytes are the same everywhere
    "font.size": 10,
    "axes.edgecolor": QUIET,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": QUIET,
    "ytick.color": QUIET,
    "text.color": INK,
    "legend.frameon": False,
}


@contextmanager
def figure_of(width: float = 8.0, height: float = 3.0) -> Iterator[tuple[Figure, Axes]]:
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.add_subplot()


CURVES = "application/vnd.amp-lessons.curves+json"
"""The MIME type of the numbers behind a picture. JupyterLab doesn't know it and shows the HTML."""


class Picture:
    """A figure and the text that stands for it. Displays itself as an image with alt text.

    Args:
        figure: what to draw.
        alt: what it shows, in words.
        data: the numbers behind it, by series. FP16 results differ from one CPU to the next in the
            fifth digit, and so the bytes of the image do too. With the numbers beside it, a stored
            picture can be compared by what it shows.
    """

    def __init__(
        self, figure: Figure, alt: str, data: Mapping[str, Sequence[float]] | None = None
    ) -> None:
        self.alt = alt
        words = {name: _as_words(values) for name, values in (data or {}).items()}
        self.data = words or None
        drawn, small = io.BytesIO(), io.BytesIO()
        figure.savefig(drawn, format="png", metadata={"Software": None})
        # 128 colours look the same here, and take a third of the bytes.
        with Image.open(drawn) as image:
            image.convert("RGB").quantize(128, dither=Image.Dither.NONE).save(small, "PNG")
        self.png = small.getvalue()

    def _repr_mimebundle_(self, **_: object) -> dict[str, object]:
        # As HTML, because Jupyter gives its own <img> for image/png no alt text.
        data = base64.b64encode(self.png).decode()
        image = (
            f'<img src="data:image/png;base64,{data}" alt="{html.escape(self.alt)}" '
            'style="max-width:100%;height:auto">'
        )
        bundle: dict[str, object] = {"text/html": image, "text/plain": f"Figure: {self.alt}"}
        if self.data:
            bundle[CURVES] = self.data
        return bundle


def _as_words(values: Sequence[float]) -> str:
    """Numbers at three significant digits, "nan" and "inf" among them. A notebook keeps each item
    of a list on a line of its own, and JSON has no NaN; a line of text has neither problem."""
    return " ".join(f"{float(value):.3g}" for value in values)
