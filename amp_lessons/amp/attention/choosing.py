"""The choice itself: the order in which CUDA tries the kernels, and the first that fits."""

from __future__ import annotations

from dataclasses import replace

from amp_lessons.amp.attention import rules
from amp_lessons.amp.attention.calls import (
    KERNELS,
    LABELS,
    AttentionCall,
    CallOnGpu,
    KernelChoice,
    KernelRefusal,
    Settings,
)
from amp_lessons.amp.attention.gpus import DEFAULT_GPU, capability

CPP = rules.CPP
_PLAIN = ("flash", "efficient", "math", "cudnn")  # Context.h: sdp_priority_order
_HOPPER = ("cudnn", "flash", "efficient", "math")
_TAKEN = {"cudnn": 1069, "flash": 1074, "efficient": 1079, "math": 1084}
_NONE = 1110
_SELECT = f"{CPP} select_sdp_backend"
_ENTRY = "scaled_dot_product_attention"
_EMPTY = "an input has no elements, so the result is zeros without a kernel"


def order(sm: tuple[int, int], settings: Settings | None = None) -> tuple[str, ...]:
    """The kernels in the order in which they are tried.

    cuDNN is tried first where it is newer than 9.15.0 and the GPU is of compute capability 9.x or
    10.x; a build for CUDA 12 also wants the minor version to be 0 or 3. Elsewhere it comes after
    math, which takes everything, so it runs only where it was asked for.

    Source: ``check_prefer_cudnn_attention`` and ``priority_order`` in sdp_utils.cpp.

    Args:
        sm: compute capability, such as (9, 0).
    """
    settings = settings or Settings()
    if settings.order:
        return (*settings.order, *(k for k in _PLAIN if k not in settings.order))
    fits = sm[0] in (9, 10) and (settings.cuda >= 13 or sm[1] in (0, 3))
    preferred = settings.cudnn_first and settings.cudnn > 91500 and fits
    return _HOPPER if preferred else _PLAIN


def choose(
    call: AttentionCall, gpu: str = DEFAULT_GPU, settings: Settings | None = None
) -> KernelChoice:
    """Which kernel ``scaled_dot_product_attention`` takes for a call on a GPU.

    Source: ``select_sdp_backend`` in sdp_utils.cpp of PyTorch 2.13.0 or 2.15.0. Nested tensors are
    not followed.

    Args:
        call: after autocast's casts.
        gpu: a name or a compute capability, as `gpus.capability` takes it.
        settings: the rules and switches; None for those of PyTorch 2.13.0.

    Raises:
        AttentionError: for a GPU that is not known.
    """
    settings = settings or Settings()
    if any(0 in shape for shape in (call.query, call.key, call.value)):
        source = {"none": f"attention.cpp {_ENTRY}"}
        return KernelChoice("none", gpu, _EMPTY, source=source, torch=settings.torch)
    case = CallOnGpu(_batched(call, settings), capability(gpu), settings)
    refusals = {name: found for name in rules.RULES if (found := rules.first_refusal(name, case))}
    if "math" not in settings.enabled:
        refusals["math"] = KernelRefusal("is switched off", f"{CPP}:1083")
    tried = order(case.sm, settings)
    kernel = next((name for name in tried if name not in refusals), "")
    source = {name: refusal.line for name, refusal in refusals.items()}
    source[kernel] = f"{CPP}:{_TAKEN.get(kernel, _NONE)}"
    if settings.torch == "2.15":
        source = {name: rules.LINES_2_15.get(line, line) for name, line in source.items()}
        source[kernel] = _SELECT
    return KernelChoice(
        kernel,
        gpu,
        _why(kernel, tried, refusals),
        {name: refusal.why for name, refusal in refusals.items()},
        {name: source[name] for name in (*KERNELS, "") if name in source},
        settings.torch,
    )


def _batched(call: AttentionCall, settings: Settings) -> AttentionCall:
    """Since 2.14 a call of 3 dimensions gets a batch of 1, and its mask 4 dimensions.

    Source: ``normalize_unbatched_input`` in sdp_utils_cpp.h.
    """
    if settings.torch == "2.13" or {len(s) for s in (call.query, call.key, call.value)} != {3}:
        return call
    mask = None if call.mask is None else (1,) * (4 - len(call.mask)) + call.mask
    query, key, value = ((1, *shape) for shape in (call.query, call.key, call.value))
    return replace(call, query=query, key=key, value=value, mask=mask)


def _why(kernel: str, tried: tuple[str, ...], refusals: dict[str, KernelRefusal]) -> str:
    """The reasons of the kernels that come first, in one clause."""
    before = tried[: tried.index(kernel)] if kernel else tried
    if not before:
        return "PyTorch tries it first on this GPU"
    return "; ".join(f"{LABELS[name]} {refusals[name].why}" for name in before)
