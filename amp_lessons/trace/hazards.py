"""What in a trace will bite in 16 bit, and what to write instead.

Each rule reads one `Event` (an op with its real arguments, still fake tensors) and names at most
one hazard. Rules look at dtypes and constants only, never at values: there are none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

from amp_lessons.foundations.precision import dtype_name
from amp_lessons.trace.recorder import LOW, Event, Origin, dtypes_that_differ
from amp_lessons.trace.report import Hazard

Rule = Callable[[Event], "Hazard | None"]

_LOGS = (
    "aten::log", "aten::log2", "aten::log10", "aten::rsqrt", "aten::reciprocal", "aten::sqrt",
)  # fmt: skip
_OF_PROBABILITIES = ("aten::log", "aten::log2", "aten::log10", "aten::log1p")
_REDUCTIONS = (
    "sum", "mean", "var", "std", "var_mean", "std_mean", "prod", "cumsum", "cumprod", "logsumexp",
    "logcumsumexp", "linalg_vector_norm", "norm", "dist", "_softmax", "_log_softmax",
    "_safe_softmax", "nansum",
)  # fmt: skip
_FILLS = (
    "masked_fill", "masked_fill_", "fill_", "full", "full_like", "new_full", "constant_pad_nd",
    "index_fill", "index_fill_", "scatter", "scatter_", "threshold",
)  # fmt: skip
_BOUNDS = ("clamp", "clamp_", "clamp_min", "clamp_min_", "clamp_max", "clamp_max_", "hardtanh")
_ADDED = ("add", "add_", "sub", "sub_", "rsub", "where", "_to_copy")
_SCALED = ("mul", "mul_")
_BOUNDED = ("mean", "_softmax", "_log_softmax", "_safe_softmax", "logsumexp", "logcumsumexp")
_SOLVERS = (
    "linalg_cholesky_ex", "cholesky", "linalg_qr", "_linalg_svd", "_linalg_eigh", "linalg_eig",
    "_linalg_eigvals", "linalg_lu", "linalg_lu_factor_ex", "_linalg_det", "_linalg_solve_ex",
    "linalg_solve_triangular", "triangular_solve", "linalg_ldl_factor_ex", "linalg_lstsq",
    "linalg_householder_product", "_cdist_forward", "_pdist_forward",
)  # fmt: skip


MASK = "mask with torch.finfo(x.dtype).min, or work in float32 (x.float())"


def _hazard(event: Event, kind: str, severity: str, message: str, fix: str) -> Hazard:
    row = event.row
    return Hazard(kind, severity, (row.path,), row.short_op, (row.where,), message, fix)


def _chain(origin: Origin | None) -> Iterator[Origin]:
    while origin is not None:
        yield origin
        origin = origin.before


def _low_output_of(op: str, origin: Origin) -> bool:
    return any(o.op == op and o.dtype in LOW for o in _chain(origin))


def bce_after_sigmoid(event: Event) -> Hazard | None:
    """1 - p needs more digits than p in 16 bit has."""
    if event.row.op != "aten::binary_cross_entropy":
        return None
    if not _low_output_of("aten::sigmoid", event.inputs[0][1]):
        return None
    return _hazard(
        event,
        "BCE after sigmoid",
        "wrong numbers",
        "the sigmoid was rounded to 16 bit before the loss: 1 - p is 0 once p rounds to 1",
        "drop the sigmoid and use binary_cross_entropy_with_logits (BCEWithLogitsLoss)",
    )


def log_of_probability(event: Event) -> Hazard | None:
    """The log of a sigmoid or softmax that 16 bit rounded, perhaps to zero."""
    if event.row.op not in _OF_PROBABILITIES:
        return None
    origin = event.inputs[0][1]
    complement = any(o.complement for o in _chain(origin))
    if event.row.op == "aten::log1p" and not complement:
        return None
    for op, better in (("sigmoid", "logsigmoid"), ("_softmax", "log_softmax")):
        if not _low_output_of(f"aten::{op}", origin):
            continue
        if complement and op == "sigmoid":
            better = "logsigmoid(-x), for 1 - sigmoid(x) is sigmoid(-x)"
        ends = "1 gives log(0) = -inf" if complement else "0 gives -inf"
        return _hazard(
            event,
            "log of a probability",
            "wrong numbers",
            f"the {op.strip('_')} was rounded to 16 bit before the log; what rounds to {ends}",
            f"use torch.nn.functional.{better}",
        )
    return None


def eps_vanishes(event: Event) -> Hazard | None:
    """An epsilon that was added in 16 bit and is zero there."""
    name = event.row.op
    place = 1 if name in ("aten::div", "aten::div_") else 0
    root = name == "aten::pow" and _below_one(event.args[1:2])
    if not (name in _LOGS or place or root) or len(event.inputs) <= place:
        return None
    origin = event.inputs[place][1]
    if origin.lost_eps is None:
        return None
    low = next((o.dtype for o in _chain(origin) if o.dtype in LOW), torch.float16)
    power = event.args[1] if root else 0.5
    harm = "the gradient is inf at 0" if name in ("aten::sqrt", "aten::pow") and power > 0 else ""
    return _hazard(
        event,
        "eps vanishes",
        "wrong numbers",
        f"{origin.lost_eps:g} was added in {dtype_name(low)}, where it is 0: nothing guards "
        f"{event.row.short_op} from 0" + (f", where {harm}" if harm else ""),
        f"compute it in float32 (x.float()), or take an eps of at least {_safe_eps(low):g}",
    )


def _below_one(values: Iterable[object]) -> bool:
    """Whether there is an exponent here with which 0 has no power, or one without a slope."""
    return any(isinstance(v, int | float) and v < 1 and v != 0 for v in values)


def _safe_eps(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).tiny


def constant_beyond_format(event: Event) -> Hazard | None:
    """A mask fill or an added constant that the 16-bit format cannot hold."""
    name = event.row.op.partition("::")[2]
    if not event.outputs or event.outputs[0].dtype not in LOW:
        return None
    dtype = event.outputs[0].dtype
    limit = torch.finfo(dtype).max
    value = next((n for n in _numbers(event) if limit < abs(n) < math.inf), None)
    if value is None:
        return None
    # On CUDA the bounds are compared in float32: there they do no harm.
    raises = name in _FILLS or (name in _BOUNDS and event.outputs[0].device.type == "cpu")
    if raises:
        what, severity = "raises: value cannot be converted without overflow", "raises"
    elif name in _ADDED:
        what, severity = "gives inf", "wrong numbers"
    elif name in _SCALED:
        what, severity = f"gives inf where |x| is above {limit / abs(value):.2g}", "watch"
    else:
        return None
    return _hazard(
        event,
        "constant beyond the format",
        severity,
        f"{value:g} does not fit {dtype_name(dtype)} (largest: {limit:g}); {name} {what}",
        MASK,
    )


def _numbers(event: Event) -> list[float]:
    """The constants of a call, as numbers and as tensors that were made from one."""
    numbers = [a for a in (*event.args, *event.kwargs.values()) if isinstance(a, int | float)]
    return numbers + [o.constant for _, o in event.inputs if o.constant is not None]


def of_written(written: Iterable[tuple[str, str, float, torch.dtype]]) -> list[Hazard]:
    """Numbers that an assignment to a part of a 16-bit tensor turns into inf."""
    return [
        Hazard(
            "constant beyond the format",
            "wrong numbers",
            (path,),
            "__setitem__",
            (where,),
            f"{number:g} does not fit {dtype_name(dtype)} (largest: "
            f"{torch.finfo(dtype).max:g}); written into a part of a tensor it becomes inf",
            MASK,
        )
        for path, where, number, dtype in written
    ]


def dtypes_in_one_op(event: Event) -> Hazard | None:
    """Real kernels of some ops refuse two dtypes. The fake ones, which ran here, do not look."""
    dtypes = dtypes_that_differ(event.func, (t for t, _ in event.inputs))
    if not dtypes:
        return None
    return _hazard(
        event,
        "dtypes that differ",
        "raises",
        f"{_meeting(dtypes, event.row.short_op)}, and autocast casts nothing here: it raises",
        "bring both to one dtype by hand: x.float() before a region where autocast is off, "
        "value.to(target.dtype) before a write",
    )


def of_backward(refused: Mapping[str, list[str]]) -> list[Hazard]:
    """Ops of the backward pass that get two dtypes: autocast is off there."""
    return [
        Hazard(
            "dtypes that differ",
            "raises",
            ("",),
            op,
            ("",),
            f"{_meeting(dtypes, op)}, in the backward pass: it raises",
            "decorate forward and backward of the autograd Function with torch.amp.custom_fwd "
            "and custom_bwd",
        )
        for op, dtypes in refused.items()
    ]


def _meeting(dtypes: list[str], op: str) -> str:
    return f"{' and '.join(dtypes)} meet in {op.strip('_')}, which takes one dtype"


def solver_in_low(event: Event) -> Hazard | None:
    """Solvers and distances have no 16-bit kernel. The fake one, which ran here, has."""
    if event.row.op.partition("::")[2] not in _SOLVERS:
        return None
    dtype = next((t.dtype for t, _ in event.inputs if t.dtype in LOW), None)
    if dtype is None:
        return None
    return _hazard(
        event,
        "no 16-bit kernel",
        "raises",
        f"{event.row.short_op.strip('_')} gets {dtype_name(dtype)}, for which torch has no "
        "kernel: it raises",
        "compute it in float32: with autocast off, on x.float()",
    )


def mixed_in_place(event: Event) -> Hazard | None:
    """In-place and out= are not autocast: the result keeps the dtype of what it is written to."""
    if not event.func._schema.is_mutable or not _asked_for(event) or dtypes_in_one_op(event):
        return None
    tensors = [t for t, _ in event.inputs if t.is_floating_point() and t.dim()]
    written = _written(event)
    if written is None or not tensors or {t.dtype for t in tensors} == {written.dtype}:
        return None
    others = sorted({dtype_name(t.dtype) for t in tensors} - {dtype_name(written.dtype)})
    return _hazard(
        event,
        "in-place or out= mix",
        "wrong numbers" if written.dtype in LOW else "watch",
        f"{', '.join(others)} is written into a {dtype_name(written.dtype)} tensor: autocast "
        "leaves in-place and out= alone, the result is rounded to what is there",
        "write it out of place (x = x + y), or allocate in the dtype that you want",
    )


def _asked_for(event: Event) -> bool:
    """Whether the model itself wrote in place; torch's own ops do so inside as they see fit."""
    call = event.row.call
    return call.startswith("__") or call in (event.row.short_op, f"{event.row.short_op}_")


def _written(event: Event) -> Tensor | None:
    out = event.kwargs.get("out")
    if isinstance(out, Tensor):
        return out
    for argument, value in zip(event.func._schema.arguments, event.args, strict=False):
        if argument.alias_info is not None and argument.alias_info.is_write:
            return value if isinstance(value, Tensor) and value.is_floating_point() else None
    return None


def reduction_in_low(event: Event) -> Hazard | None:
    """A sum, mean or softmax whose result stays in 16 bit."""
    name = event.row.op.partition("::")[2]
    if name not in _REDUCTIONS or not event.outputs or event.outputs[0].dtype not in LOW:
        return None
    dtype = event.outputs[0].dtype
    bits = 11 if dtype == torch.float16 else 8
    overflows = dtype == torch.float16 and name not in _BOUNDED
    risk = "overflows past 65504" if overflows else f"keeps {bits} significant bits"
    return _hazard(
        event,
        "reduction in 16 bit",
        "watch",
        f"{name.strip('_')} gives {dtype_name(dtype)}: autocast leaves it in 16 bit here, and "
        f"the result {risk}",
        "reduce in float32: x.float().mean(), or dtype=torch.float32 where there is one",
    )


def float64(event: Event) -> Hazard | None:
    """Autocast never touches float64."""
    if not any(t.dtype == torch.float64 for t in (*(t for t, _ in event.inputs), *event.outputs)):
        return None
    return _hazard(
        event,
        "float64",
        "watch",
        "float64 takes no part in autocast: the op runs in double precision, slowly",
        "make inputs and constants float32, for instance torch.from_numpy(array).float()",
    )


RULES: tuple[Rule, ...] = (
    bce_after_sigmoid,
    log_of_probability,
    eps_vanishes,
    constant_beyond_format,
    dtypes_in_one_op,
    solver_in_low,
    mixed_in_place,
    reduction_in_low,
    float64,
)


def of_parameters(model: nn.Module) -> list[Hazard]:
    """Parameters that are not float32."""
    found = []
    for dtype in (*LOW, torch.float64):
        names = [name for name, p in model.named_parameters() if p.dtype == dtype]
        if not names:
            continue
        if dtype == torch.float64:
            message = "float64 parameters take no part in autocast"
        else:
            trouble = (
                "GradScaler refuses their gradients"
                if dtype == torch.float16
                else "updates below 2**-8 of a weight are lost"
            )
            message = f"parameters stored in {dtype_name(dtype)}: {trouble}"
        found.append(
            Hazard(
                "float64" if dtype == torch.float64 else "16-bit parameters",
                "watch" if dtype != torch.float16 else "raises",
                tuple(name.rpartition(".")[0] for name in names),
                "",
                (),
                f"{message} ({len(names)}: {', '.join(names[:3])}{', …' if names[3:] else ''})",
                "keep parameters in float32 (model.float()) and let autocast cast them",
            )
        )
    return found


def of_refused(refused: Iterable[tuple[str, str, str]]) -> list[Hazard]:
    """BCE calls that autocast refuses."""
    return [
        Hazard(
            "BCE after sigmoid",
            "raises",
            (path,),
            "binary_cross_entropy",
            (where,),
            f"raises under autocast: {message.splitlines()[0]}",
            "drop the sigmoid and use binary_cross_entropy_with_logits (BCEWithLogitsLoss)",
        )
        for path, where, message in refused
    ]


def of_functions(outputs: Iterable[Tensor]) -> list[Hazard]:
    """Custom autograd Functions in the graph whose forward is not under `custom_fwd`."""
    found: dict[str, Hazard] = {}
    todo = [t.grad_fn for t in outputs if t.grad_fn is not None]
    seen = set()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        todo += [n for n, _ in node.next_functions if n is not None]
        owner = getattr(type(node), "_forward_cls", None)
        if owner is None or owner.__module__.partition(".")[0] == "torch":
            continue
        if not hasattr(node, "_fwd_used_autocast"):
            name = owner.__name__
            found[name] = Hazard(
                "custom Function",
                "watch",
                ("",),
                name,
                (_place(owner.forward),),
                f"{name} has no custom_fwd and custom_bwd: its forward sees whatever dtypes "
                "arrive, and its backward runs without the autocast state of its forward",
                "decorate forward and backward with torch.amp.custom_fwd and custom_bwd",
            )
    return list(found.values())


def _place(function: Callable[..., object]) -> str:
    code = getattr(function, "__code__", None)
    return f"{Path(code.co_filename).name}:{code.co_firstlineno}" if code is not None else ""


def without_refused(
    found: Iterable[Hazard], refused: Iterable[tuple[str, str, str]]
) -> list[Hazard]:
    """Drop the milder word on a BCE that autocast refuses anyway."""
    places = {((path,), (where,)) for path, where, _ in refused}
    return [h for h in found if h.kind != "BCE after sigmoid" or (h.paths, h.where) not in places]


def find(events: Iterable[Event]) -> list[Hazard]:
    """All hazards of the ops, alike ones together."""
    return [hazard for event in events for rule in RULES if (hazard := rule(event)) is not None]


def together(hazards: Iterable[Hazard]) -> tuple[Hazard, ...]:
    """One hazard for all places that have the same one; what raises comes first."""
    groups: dict[tuple[str, ...], Hazard] = {}
    for hazard in hazards:
        key = (hazard.kind, hazard.severity, hazard.op, hazard.message, hazard.fix)
        first = groups.get(key)
        if first is None:
            groups[key] = hazard
        else:
            groups[key] = replace(
                first,
                paths=tuple(dict.fromkeys(first.paths + hazard.paths)),
                where=tuple(dict.fromkeys(first.where + hazard.where)),
                count=first.count + hazard.count,
            )
    order = ("raises", "wrong numbers", "watch")
    return tuple(sorted(groups.values(), key=lambda hazard: order.index(hazard.severity)))
