"""The roofline explorer: a matrix product on a GPU, in FP32 or TF32 and in 16 bit side by side.

It shows which bound each of the two meets, its floor (the least time by the data sheet), and their
ratio: the most that AMP can gain on this product. The peaks come from `roofline`; the page in
`static/` repeats that module's arithmetic, under test.
"""

from __future__ import annotations

from typing import Any

import anywidget
import traitlets

from amp_lessons.amp import roofline
from amp_lessons.amp.roofline import GPUS, Gpu, Matmul
from amp_lessons.lessons.widgets.files import module, style
from amp_lessons.lessons.widgets.traits import Number, Refused

MAX_SIZE = 2**17  # so that FLOPs are whole numbers that a float64 holds
SIZES = ("m", "n", "k")
BASELINES = ("fp32", "tf32")
LOW = ("fp16", "bf16")


class RooflineExplorer(anywidget.AnyWidget):
    """A product of matrices, (m, k) times (k, n), on the rooflines of a GPU.

    Args:
        gpu: as for `roofline.find_gpu`: ``"H200"``, ``"T4"``.
        dtype: the 16-bit dtype: ``"fp16"``, or ``"bf16"`` if that GPU has a peak for it.
        m, n, k: the sizes, whole numbers from 1 to 2**17.
        baseline: what it is compared with: ``"fp32"``, or ``"tf32"`` if that GPU has it.
        measured: a measured time of the 16-bit product in milliseconds; 0 for none.

    Attributes:
        gpu: the name of the GPU, as in `roofline.GPUS`.
        dtype, m, n, k, baseline, measured: as above.

    All follow the learner, and the widget follows when a lesson sets one of them. When the GPU
    changes, a dtype that it does not have becomes fp16, and a baseline fp32.

    Raises:
        ValueError: for a GPU, a dtype, a size or a time that is none of the above.
    """

    _esm = module("roofline_explorer.mjs")
    _css = style("widgets.css")

    data = traitlets.Dict().tag(sync=True)
    gpu = traitlets.Unicode("H200").tag(sync=True)
    baseline = traitlets.Unicode("fp32").tag(sync=True)
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
        baseline: str = "fp32",
        measured: float = 0.0,
        **traits: Any,
    ) -> None:
        chosen = roofline.find_gpu(gpu)
        for role, name in (("baseline", baseline), ("dtype", dtype)):
            _check_role(chosen, role, name)  # also where the trait keeps its default
        super().__init__(
            data={"gpus": [_plain_gpu(g) for g in GPUS]}, gpu=chosen.name, baseline=baseline,
            dtype=dtype, m=m, n=n, k=k, measured=measured, **traits,
        )  # fmt: skip

    @property
    def work(self) -> Matmul:
        """The product that is chosen."""
        return Matmul(self.m, self.n, self.k)

    @property
    def floor_seconds(self) -> dict[str, float]:
        """The floor in seconds of each of the two dtypes, the baseline first."""
        return {
            dtype: roofline.matmul_floor(self._gpu, dtype, self.work)
            for dtype in (self.baseline, self.dtype)
        }

    @property
    def bound(self) -> dict[str, roofline.Bound]:
        """Which of the two, ``"compute"`` or ``"bandwidth"``, decides the floor of each dtype."""
        work = self.work
        return {
            dtype: roofline.bound(self._gpu, dtype, work.flops, work.bytes(dtype))
            for dtype in (self.baseline, self.dtype)
        }

    @property
    def limit(self) -> float:
        """How many times as fast as the baseline the 16-bit product can be: floor over floor."""
        floors = self.floor_seconds
        return floors[self.baseline] / floors[self.dtype]

    @property
    def limit_with_cast(self) -> float:
        """The same where the (k, n) weight is stored in FP32 and cast first, as autocast does."""
        floors = self.floor_seconds
        cast = roofline.cast_floor(self._gpu, self.k * self.n)
        return floors[self.baseline] / (cast + floors[self.dtype])

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
    def _keep_dtypes(self, _: Any) -> None:
        if self.dtype not in self._gpu.dtypes:
            self.dtype = "fp16"
        if self.baseline not in self._gpu.dtypes:
            self.baseline = "fp32"

    @traitlets.validate("baseline", "dtype")
    def _check_dtype(self, proposal: dict[str, Any]) -> str:
        _check_role(self._gpu, proposal["trait"].name, proposal["value"])
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


def _check_role(gpu: Gpu, role: str, dtype: str) -> None:
    """Raise `Refused` for a dtype that cannot be the baseline, or the 16-bit one, of this GPU."""
    known = BASELINES if role == "baseline" else LOW
    if dtype not in known:
        raise Refused(f"{role} must be {' or '.join(known)}, got {dtype!r}")
    try:
        gpu.peak(dtype)
    except ValueError as error:
        raise Refused(str(error)) from None


def _plain_gpu(gpu: Gpu) -> dict[str, Any]:
    """A GPU as the page takes it; the form is told in roofline_explorer.mjs."""
    peaks = {dtype: getattr(gpu, dtype) for dtype in gpu.dtypes}
    return {"name": gpu.name, "peaks": peaks, "bandwidth": gpu.bandwidth, "note": gpu.note}
