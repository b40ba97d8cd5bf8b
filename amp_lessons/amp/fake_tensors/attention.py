"""Attention on fake CUDA tensors: the ops that a GPU would run, in the kernel that it would take.

Which kernel that is, `amp_lessons.amp.attention` says. Here the call is described to it, and the
steps around the kernel are made as PyTorch's C++ makes them: head sizes padded for flash, masks
turned into biases, grouped heads repeated for math. So dtypes and saved bytes are that kernel's.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from amp_lessons.amp.attention import (
    DEFAULT_GPU,
    LABELS,
    AttentionCall,
    AttentionError,
    KernelChoice,
    Settings,
    capability,
)
from amp_lessons.core.precision import dtype_name

SDPA = F.scaled_dot_product_attention
ADDITIVE_MIN = {"cudnn": -65504.0}
"""What a False in a mask becomes: minus infinity, but for cuDNN FP16's lowest number."""

_A = torch.ops.aten
_NUMBERS = {0: "math", 1: "flash", 2: "efficient", 3: "cudnn"}  # at::SDPBackend
_DEFAULT_ORDERS = ([1, 2, 0, 3], [3, 1, 2, 0])
_UNKNOWN = 1024
_IN_WORDS = {
    "flash": "the flash kernel",
    "efficient": "the efficient kernel",
    "cudnn": "cuDNN's kernel",
    "math": "the plain form (math), which keeps the whole attention matrix",
}
_WHOSE = "attention is counted as PyTorch {torch} runs it on the {gpu}"
_ANOTHER = "; name another GPU with --gpu (in Python: gpu=)"


@dataclass(frozen=True)
class Attention:
    """The arguments of one ``scaled_dot_product_attention``."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None = None
    dropout: float = 0.0
    causal: bool = False
    scale: float | None = None
    gqa: bool = False

    def cast(self, low: torch.dtype) -> Attention:
        """As autocast casts it: tensors of floating point, the mask too, but no float64."""

        def lower(tensor: Tensor) -> Tensor:
            stays = not tensor.is_floating_point() or tensor.dtype == torch.float64
            return tensor if stays or tensor.device.type != "cuda" else tensor.to(low)

        query, key, value = map(lower, (self.query, self.key, self.value))
        mask = None if self.mask is None else lower(self.mask)
        return replace(self, query=query, key=key, value=value, mask=mask)

    @property
    def needs_grad(self) -> bool:
        wanted = any(t.requires_grad for t in (self.query, self.key, self.value))
        return wanted and torch.is_grad_enabled()

    @property
    def is_plain(self) -> bool:
        """Whether torch's own checks would let it pass: ``validate_sdpa_input``."""
        three = (self.query, self.key, self.value)
        alike = len({(t.dtype, t.device) for t in three}) == 1 and min(t.dim() for t in three) > 1
        if self.mask is None:
            return alike
        masks = (torch.bool, torch.float32, self.query.dtype)
        return alike and self.mask.dtype in masks and self.mask.dim() > 1

    def described(self) -> AttentionCall:
        """The call as the rules take it."""
        three, mask = (self.query, self.key, self.value), self.mask
        query, key, value = (_sizes(t.shape) for t in three)
        first, second, third = (_known(t.stride(-1), 1) for t in three)
        starts = [_known(t.storage_offset(), 0) for t in three]
        return AttentionCall(
            query,
            key,
            value,
            dtype=dtype_name(self.query.dtype),
            mask=None if mask is None else _sizes(mask.shape),
            mask_dtype="bool" if mask is None else dtype_name(mask.dtype),
            mask_needs_grad=mask is not None and mask.requires_grad,
            dropout=self.dropout,
            causal=self.causal,
            gqa=self.gqa,
            needs_grad=self.needs_grad,
            last_strides=(first, second, third),
            mask_last_stride=1 if mask is None else _known(mask.stride(-1), 1),
            offsets=(starts[0], starts[1], starts[2]),
        )


def attend(call: Attention, kernel: str) -> Tensor:
    """The result of a call in one of the kernels, with what autograd saves.

    A fused kernel takes 3 dimensions since PyTorch 2.14: they get a batch of 1 (pull request
    192271).

    Source: ``scaled_dot_product_attention`` in attention.cpp of PyTorch 2.13.0.

    Raises:
        RuntimeError: with torch's words, if no kernel that is switched on takes the call.
    """
    if kernel in ("flash", "efficient", "cudnn") and call.query.dim() == 3:
        return attend(_batched(call), kernel).squeeze(0)
    if kernel == "flash":
        return _flash(call)
    if kernel == "efficient":
        return _efficient(call)
    if kernel == "cudnn":
        return _cudnn(call)
    if kernel == "math":
        return _math(call)
    if kernel == "none":
        return SDPA(call.query, call.key, call.value)
    raise RuntimeError("No available kernel. Aborting execution.")


def _batched(call: Attention) -> Attention:
    """With a batch of 1, and a mask of 4 dimensions."""
    query, key, value = (t.unsqueeze(0) for t in (call.query, call.key, call.value))
    mask = call.mask
    while mask is not None and mask.dim() < 4:
        mask = mask.unsqueeze(0)
    return replace(call, query=query, key=key, value=value, mask=mask)


def _flash(call: Attention) -> Tensor:
    size = call.query.shape[-1]
    three = [_to_multiple_of_8(t) for t in (call.query, call.key, call.value)]
    scale = 1 / math.sqrt(size) if call.scale is None else call.scale
    out: Tensor = _A._scaled_dot_product_flash_attention(
        *three, call.dropout, call.causal, False, scale=scale
    )[0]
    return out if out.shape[-1] == size else out[..., :size]


def _efficient(call: Attention) -> Tensor:
    bias = _bias(call, "efficient")
    if bias is not None:
        if any(stride % 8 for stride in bias.stride()[:-1]) or bias.stride(-1) != 1:
            length = bias.shape[-1]
            bias = F.pad(bias, (0, 8 - length % 8))[..., :length]
        bias = bias.expand(*call.query.shape[:-1], call.key.shape[-2])
    three = (call.query, call.key, call.value)
    out: Tensor = _A._scaled_dot_product_efficient_attention(
        *three, bias, call.needs_grad, call.dropout, call.causal, scale=call.scale
    )[0]
    return out


def _cudnn(call: Attention) -> Tensor:
    three = (call.query, call.key, call.value)
    out: Tensor = _A._scaled_dot_product_cudnn_attention(
        *three, _bias(call, "cudnn"), call.needs_grad, call.dropout, call.causal, scale=call.scale
    )[0]
    return out


def _math(call: Attention) -> Tensor:
    """The plain form. It computes FP16 and BF16 in float32, unless
    ``torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)`` was called."""
    three, options = (call.query, call.key, call.value), {"scale": call.scale}
    out: Tensor = _A._scaled_dot_product_attention_math(
        *three, _bias(call, "math"), call.dropout, call.causal, enable_gqa=call.gqa, **options
    )[0]
    return out


def _bias(call: Attention, kernel: str) -> Tensor | None:
    """The mask as numbers that are added: ``convert_boolean_attn_mask`` in attention.cpp."""
    mask = call.mask
    if mask is None or mask.dtype != torch.bool:
        return mask
    zero = torch.scalar_tensor(0.0, dtype=call.query.dtype, device=mask.device)
    return torch.where(mask, zero, ADDITIVE_MIN.get(kernel, -math.inf))


def _to_multiple_of_8(tensor: Tensor) -> Tensor:
    """The last dimension filled up with zeros: ``pad_last_dim`` in attention.cpp."""
    missing = -tensor.shape[-1] % 8
    return F.pad(tensor, (0, missing)) if missing else tensor


# ---- where it runs ------------------------------------------------------------------------------


def gpu_named(gpu: str | None) -> str:
    """The GPU whose kernels are shown: the one asked for, else this machine's, else an H200.

    Raises:
        AttentionError: for a GPU that is not known.
    """
    if gpu is not None:
        capability(gpu)
        return gpu
    if not torch.cuda.is_available():
        return DEFAULT_GPU
    name = torch.cuda.get_device_name()
    try:
        capability(name)
    except AttentionError:
        major, minor = torch.cuda.get_device_capability()
        return f"sm{major}{minor}"
    return name


def settings() -> Settings:
    """The installed torch's rules, and the switches as they stand now, inside ``sdpa_kernel`` for
    instance."""
    backends = torch.backends.cuda
    switches = {
        "flash": backends.flash_sdp_enabled(),
        "efficient": backends.mem_efficient_sdp_enabled(),
        "cudnn": backends.cudnn_sdp_enabled(),
        "math": backends.math_sdp_enabled(),
    }
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    version, cuda = _libraries()
    return Settings.for_torch(
        torch.__version__,
        enabled=frozenset(name for name, on in switches.items() if on),
        order=_order_set(),
        deterministic=torch.are_deterministic_algorithms_enabled() and not warns,
        cudnn_first=os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") != "1",
        cudnn=version,
        cuda=cuda,
    )


def _libraries() -> tuple[int, int]:
    """The versions of cuDNN and CUDA: this machine's if it has a GPU, else those of the rules."""
    own = Settings.for_torch(torch.__version__)
    if not torch.cuda.is_available():
        return own.cudnn, own.cuda
    try:
        version = torch.backends.cudnn.version()
    except RuntimeError:  # a cuDNN that is too new for the GPU
        version = None
    return version or own.cudnn, int((torch.version.cuda or str(own.cuda)).partition(".")[0])


def _order_set() -> tuple[str, ...]:
    """The order that the user asked for; () for torch's own."""
    order = [number for number in torch._C._get_sdp_priority_order() if number in _NUMBERS]
    return () if order in _DEFAULT_ORDERS else tuple(_NUMBERS[number] for number in order)


def notes(choices: Iterable[KernelChoice], gpu: str, named: bool = False) -> list[str]:
    """Which kernels were assumed, on which GPU and why: a line for each kernel.

    ``named`` says that the GPU was asked for by name.
    """
    reasons: dict[str, Counter[str]] = {}
    rules = ""
    for choice in choices:
        rules = choice.torch
        if choice.kernel in LABELS:
            reasons.setdefault(choice.kernel, Counter())[choice.why] += 1
    lines = [_note(kernel, whys, gpu) for kernel, whys in reasons.items()]
    whose = _WHOSE.format(torch=rules, gpu=gpu.upper()) + ("" if named else _ANOTHER)
    return [*lines, whose] if lines else []


def _note(kernel: str, whys: Counter[str], gpu: str) -> str:
    (why, _), *others = whys.most_common()
    count = f" ({whys.total()} calls)" if whys.total() > 1 else ""
    more = f" (and {len(others)} other reasons)" if others else ""
    return f"attention runs in {_IN_WORDS[kernel]}{count} on {gpu}: {why}{more}"


def _sizes(shape: Any) -> tuple[int, ...]:
    return tuple(_known(size, _UNKNOWN) for size in shape)


def _known(size: Any, instead: int) -> int:
    """A size as a number. One that depends on values counts as an ordinary length."""
    if isinstance(size, int):
        return size
    return int(size) if size.node.has_hint() else instead
