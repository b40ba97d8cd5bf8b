"""What a trace says as plain data: rows, modules, hazards and totals.

No tensor is kept here, and nothing is drawn: `report` turns these classes into text, HTML and JSON.
"""

from __future__ import annotations

from dataclasses import dataclass

from amp_lessons.amp.fake_tensors.not_run import NotRun

LOW_NAMES = ("float16", "bfloat16")
"""The 16-bit dtypes, as rows name them."""


@dataclass(frozen=True)
class Cast:
    """A cast that autocast put before an op, or spared because the cast was in its cache.

    Attributes:
        what: the parameter's name, or "activation".
        source, target: dtypes.
        how: "new"; "again" (the same tensor was cast before: it cannot be cached); "from cache"
            (no cast ran).
        cached: whether autocast keeps the result, so that the next use needs no cast.
        differentiable: whether autograd casts the gradient back.
        bytes: of the result.
        bytes_moved: read and written by the cast; 0 if the cache spared it.
    """

    what: str
    source: str
    target: str
    how: str
    cached: bool = False
    differentiable: bool = False
    bytes: int = 0
    bytes_moved: int = 0


@dataclass(frozen=True)
class Input:
    """A floating tensor that an op takes, and what autocast did to it first.

    Attributes:
        name: of the parameter or buffer, or of the argument of `forward`; "" for what an op made.
        made_by: number of the row that made it; -1 if none did.
        dtype: before autocast's cast.
        used_as: the dtype in which the op takes it.
        how: as for `Cast`; "" where nothing was cast.
        cached: whether the cast is in autocast's cache.
    """

    name: str
    made_by: int
    dtype: str
    used_as: str
    how: str = ""
    cached: bool = False


@dataclass(frozen=True)
class OpRow:
    """One op of the forward pass.

    Attributes:
        number: position, from 0.
        path: of the module, "" for the model itself.
        op: as torch dispatches it, such as "aten::addmm".
        call: as it was called, such as "linear"; "" if torch's C++ called it.
        where: file and line in the model's own code; "" if there is none.
        code: the text of that line.
        dtypes_in: of the floating inputs, before autocast's casts.
        computed_in: the widest floating dtype that the op itself takes or gives.
        dtype_out: of the first result.
        casts: made for this op, or spared.
        inputs: the floating tensors that it takes, in the op's own order.
        flops: multiplications and additions, by `torch.utils.flop_counter`.
        grad_casts: casts of gradients that backward makes for this op: one for each of its
            differentiable casts, and one for each input that type promotion widened.
        shapes_in: of all tensors that the op takes, in its own order. A size is -1 where it
            depends on values.
        shape_out: of the first result.
        bytes_moved: bytes of the inputs read and the results written, each tensor once. An op that
            picks rows (embedding, gather) reads as many as it writes.
        saved: bytes that autograd newly keeps for backward because of this op. Their sum over all
            rows is `Totals.saved_amp`.
        kernel, kernel_why: for attention: "flash", "efficient", "cudnn" or "math", and why CUDA
            takes that one.
    """

    number: int
    path: str
    op: str
    call: str
    where: str
    dtypes_in: tuple[str, ...]
    computed_in: str
    dtype_out: str
    casts: tuple[Cast, ...]
    flops: int
    grad_casts: int = 0
    inputs: tuple[Input, ...] = ()
    code: str = ""
    shapes_in: tuple[tuple[int, ...], ...] = ()
    shape_out: tuple[int, ...] = ()
    bytes_moved: int = 0
    saved: int = 0
    kernel: str = ""
    kernel_why: str = ""

    @property
    def short_op(self) -> str:
        return self.op.partition("::")[2] or self.op

    @property
    def shown_op(self) -> str:
        """The call and the op where they differ: ``linear (addmm)``."""
        op, call = self.short_op.strip("_"), self.call.strip("_")
        if not call or op.startswith(call) or op[:12] == call[:12]:
            return op
        return f"{call} ({op})"


@dataclass(frozen=True)
class Module:
    """One module of the model.

    Attributes:
        path: its name in `named_modules`, "" for the model itself.
        kind: its class.
        calls: how often its forward ran; 0 if it never did, or only as a plain function.
        parameters, parameter_bytes: of the module and all below it, each parameter once.
        dtype_out: of the first tensor in what its last call gave; "" if there was none.
    """

    path: str
    kind: str
    calls: int = 0
    parameters: int = 0
    parameter_bytes: int = 0
    dtype_out: str = ""


@dataclass(frozen=True)
class Hazard:
    """Something that goes wrong in 16 bit, and the cure.

    Attributes:
        severity: "raises", "wrong numbers" or "watch".
        paths, where: module paths and lines that have it. count: how often it was met.
        lesson: the topic that teaches it, a slug of `catalogue`; "" if none does.
        overflows: whether a number passes the end of its format in the forward, and becomes inf.
        entry: id of what `amp-lessons lookup` says of it; "" if it has no entry.
    """

    kind: str
    severity: str
    paths: tuple[str, ...]
    op: str
    where: tuple[str, ...]
    message: str
    fix: str
    count: int = 1
    lesson: str = ""
    overflows: bool = False
    entry: str = ""


@dataclass(frozen=True)
class Totals:
    """Sums over one forward pass, and what they mean for a training step.

    Attributes:
        ops: rows.
        flops, flops_16bit: of the forward pass.
        casts_forward: casts that ran. casts_cached: casts that the cache spared.
        casts_backward: casts of gradients. backward_counted: whether they were counted in a
            backward pass on fake tensors; otherwise they are the sum of `OpRow.grad_casts`, for
            fake CUDA tensors have no backward where there is no GPU.
        cached_bytes: of 16-bit copies of parameters, alive until autocast ends.
        saved_fp32, saved_amp: bytes that autograd keeps for backward without and with autocast,
            the model's own parameters and buffers left out; None if that pass could not run.
        parameters, parameter_bytes: of the model.
    """

    ops: int
    flops: int
    flops_16bit: int
    casts_forward: int
    casts_cached: int
    casts_backward: int
    cached_bytes: int
    saved_fp32: int | None
    saved_amp: int
    parameters: int
    parameter_bytes: int
    backward_counted: bool

    @property
    def share_16bit(self) -> float:
        """Share of FLOPs in 16 bit, 0 to 1."""
        return self.flops_16bit / self.flops if self.flops else 0.0

    @property
    def casts_step(self) -> int:
        """Casts in one training step, forward and backward."""
        return self.casts_forward + self.casts_backward

    @property
    def saved_ratio(self) -> float | None:
        """Bytes kept under autocast over bytes kept without it."""
        return self.saved_amp / self.saved_fp32 if self.saved_fp32 else None


@dataclass(frozen=True)
class Trace:
    """What one forward pass of a model under autocast looked like.

    Attributes:
        model: the class. device, dtype: of autocast. torch: the version that ran it.
        rows: one op each, in the order in which they ran.
        totals: sums over the rows.
        hazards: what raises first, then what gives wrong numbers, then what to watch.
        notes: what a reader must know about how far this holds.
        modules: in the order of `named_modules`.
        gpu: whose attention kernels are shown, such as "h200"; "" for the CPU.
        values: "fake" if tensors had shapes and dtypes only, "real" if they held numbers.
        not_run: parts of the model whose parameters no op used, the largest first.
    """

    model: str
    device: str
    dtype: str
    torch: str
    rows: tuple[OpRow, ...]
    totals: Totals
    hazards: tuple[Hazard, ...]
    notes: tuple[str, ...] = ()
    modules: tuple[Module, ...] = ()
    gpu: str = ""
    values: str = "fake"
    not_run: tuple[NotRun, ...] = ()
