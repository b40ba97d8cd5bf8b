"""The choice itself: the order in which CUDA tries the kernels, and the first that fits."""

from __future__ import annotations

from amp_lessons.attention import rules
from amp_lessons.attention.calls import KERNELS, LABELS, Call, Case, Choice, Refusal, Settings
from amp_lessons.attention.gpus import DEFAULT_GPU, capability

CPP = rules.CPP
_PLAIN = ("flash", "efficient", "math", "cudnn")  # Context.h: sdp_priority_order
_HOPPER = ("cudnn", "flash", "efficient", "math")
_TAKEN = {"cudnn": 1069, "flash": 1074, "efficient": 1079, "math": 1084}
_NONE = 1110
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


def choose(call: Call, gpu: str = DEFAULT_GPU, settings: Settings | None = None) -> Choice:
    """Which kernel ``scaled_dot_product_attention`` takes for a call on a GPU.

    Source: ``select_sdp_backend`` in sdp_utils.cpp of PyTorch 2.13.0. Nested tensors are not
    followed.

    Args:
        call: after autocast's casts.
        gpu: a name or a compute capability, as `gpus.capability` takes it.
        settings: the switches; None for torch's defaults.

    Raises:
        AttentionError: for a GPU that is not known.
    """
    settings = settings or Settings()
    if any(0 in shape for shape in (call.query, call.key, call.value)):
        return Choice("none", gpu, _EMPTY, source={"none": f"attention.cpp {_ENTRY}"})
    case = Case(call, capability(gpu), settings)
    refusals = {name: found for name in rules.RULES if (found := rules.first_refusal(name, case))}
    if "math" not in settings.enabled:
        refusals["math"] = Refusal("is switched off", f"{CPP}:1083")
    tried = order(case.sm, settings)
    kernel = next((name for name in tried if name not in refusals), "")
    source = {name: refusal.line for name, refusal in refusals.items()}
    source[kernel] = f"{CPP}:{_TAKEN.get(kernel, _NONE)}"
    return Choice(
        kernel,
        gpu,
        _why(kernel, tried, refusals),
        {name: refusal.why for name, refusal in refusals.items()},
        {name: source[name] for name in (*KERNELS, "") if name in source},
    )


def _why(kernel: str, tried: tuple[str, ...], refusals: dict[str, Refusal]) -> str:
    """The reasons of the kernels that come first, in one clause."""
    before = tried[: tried.index(kernel)] if kernel else tried
    if not before:
        return "it is tried first here, and it takes the call"
    return "; ".join(f"{LABELS[name]} {refusals[name].why}" for name in before)
