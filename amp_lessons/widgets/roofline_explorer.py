"""The roofline explorer: choose a GPU, a dtype and the sizes of a matrix product, and read which
bound it meets, the time below which it cannot be done, and what a measured time reached.

The peaks come from `roofline`; the page in `static/` repeats that module's arithmetic, under test.
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from amp_lessons import roofline
from amp_lessons.es_modules import join_modules, read_static
from amp_lessons.roofline import GPUS, Gpu, Matmul
from amp_lessons.widgets.traits import Number, Refused

MAX_SIZE = 2**17  # so that FLOPs are whole numbers that a float64 holds
SIZES = ("m", "n", "k")


class RooflineExplorer(anywidget.AnyWidget):
    """A product of matrices, (m, k) times (k, n), on the roofline of a GPU.

    Args:
        gpu: as for `roofline.find_gpu`: ``"H200"``, ``"T4"``.
        dtype: ``"fp32"``, ``"tf32"``, ``"fp16"`` or ``"bf16"``, if that GPU has a peak for it.
        m, n, k: the sizes, whole numbers from 1 to 2**17.
        measured: a measured time in milliseconds; 0 for none.

    Attributes:
        gpu: the name of the GPU, as in `roofline.GPUS`.
        dtype, m, n, k, measured: as above.

    All follow the learner, and the widget follows when a lesson sets one of them. A dtype that the
    GPU does not have becomes fp32 when the GPU changes.

    Raises:
        ValueError: for a GPU, a dtype, a size or a time that is none of the above.
    """

    _esm = join_modules("roofline_explorer.mjs")
    _css = read_static("widgets.css")

    data = traitlets.Dict().tag(sync=True)
    gpu = traitlets.Unicode("H200").tag(sync=True)
    dtype = traitlets.Unicode("fp16").tag(sync=True)
    m = traitlets.Int(4096).tag(sync=True)
    n = traitlets.Int(4096).tag(sync=True)
    k = traitlets.Int(4096).tag(sync=True)
    measured = Number(0.0)

    def __init__(
        self,
        gpu: str = "H200",
        dtype: str = "fp16",
        m: int = 4096,
        n: int = 4096,
        k: int = 4096,
        *,
        measured: float = 0.0,
        **traits: Any,
    ) -> None:
        chosen = roofline.find_gpu(gpu)
        chosen.peak(dtype)  # refuses a dtype that this GPU does not have
        super().__init__(
            data={"gpus": [_plain_gpu(g) for g in GPUS]}, gpu=chosen.name, dtype=dtype,
            m=m, n=n, k=k, measured=measured, **traits,
        )  # fmt: skip

    @property
    def work(self) -> Matmul:
        """The product that is chosen."""
        return Matmul(self.m, self.n, self.k)

    @property
    def floor_seconds(self) -> float:
        """The time in seconds below which it cannot be done."""
        return roofline.matmul_floor(self._gpu, self.dtype, self.work)

    @property
    def bound(self) -> roofline.Bound:
        """Which of the two decides the floor: ``"compute"`` or ``"bandwidth"``."""
        return roofline.bound(self._gpu, self.dtype, self.work.flops, self.work.bytes(self.dtype))

    @property
    def _gpu(self) -> Gpu:
        return roofline.find_gpu(self.gpu)

    @traitlets.validate("gpu")
    def _check_gpu(self, proposal: dict[str, Any]) -> str:
        try:
            return roofline.find_gpu(proposal["value"]).name
        except ValueError as error:
            raise Refused(str(error)) from None

    @traitlets.observe("gpu")
    def _keep_a_dtype(self, _: Any) -> None:
        if self.dtype not in self._gpu.dtypes:
            self.dtype = "fp32"

    @traitlets.validate("dtype")
    def _check_dtype(self, proposal: dict[str, Any]) -> str:
        try:
            self._gpu.peak(proposal["value"])
        except ValueError as error:
            raise Refused(str(error)) from None
        return proposal["value"]

    @traitlets.validate(*SIZES)
    def _check_size(self, proposal: dict[str, Any]) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        if not 1 <= value <= MAX_SIZE:
            raise Refused(f"{name} must be a whole number from 1 to {MAX_SIZE}, got {value}")
        return value

    @traitlets.validate("measured")
    def _check_measured(self, proposal: dict[str, Any]) -> float:
        value = proposal["value"]
        if not 0 <= value < float("inf"):
            raise Refused(f"measured must be a time in milliseconds, or 0 for none, got {value}")
        return value


def _plain_gpu(gpu: Gpu) -> dict[str, Any]:
    """A GPU as the page takes it; the form is told in roofline_explorer.mjs."""
    peaks = {dtype: getattr(gpu, dtype) for dtype in gpu.dtypes}
    return {"name": gpu.name, "peaks": peaks, "bandwidth": gpu.bandwidth, "note": gpu.note}
