"""Calls as a model writes them, run as a GPU would run them where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _disable_current_modes

from amp_lessons.amp.attention import KernelChoice, capability, choose
from amp_lessons.amp.fake_tensors.attention import SDPA, Attention, attend, gpu_named, settings
from amp_lessons.amp.fake_tensors.known import is_stale, numbers_in, value_of
from amp_lessons.amp.fake_tensors.packed import PAD_PACKED, can_unpack, unpacked
from amp_lessons.core.interrupts import let_in


class GpuCalls(TorchFunctionMode):
    """Has calls do what they do on a GPU: attention's kernels, and "cuda" with a number.

    `explain` derives from it, to hear of each call.

    Args:
        device: "cpu" or "cuda".
        gpu: whose attention kernels run, such as "a100"; None for this machine's, or an H200.

    Attributes:
        choices: the kernel of each call of attention, in order.
    """

    def __init__(self, device: str, gpu: str | None = None) -> None:
        super().__init__()
        self.device = device
        self.gpu = gpu_named(gpu) if device == "cuda" else ""
        self.choices: list[KernelChoice] = []
        self._depth = 0  # of calls in calls: torch writes some of its own in Python

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "") == "__get__":  # reading .dtype, .shape, .device
            return func(*args, **kwargs)
        self._depth += 1
        try:
            return self.run(func, args, kwargs)
        finally:
            self._depth -= 1
            if not self._depth:
                let_in()

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one call."""
        if self.device == "cuda" and not torch.cuda.is_available():
            if func is Tensor.cuda:
                return args[0].to("cuda:0")
            if func is Tensor.to:
                args, kwargs = _with_index(args, kwargs)
        if func is SDPA and self.device == "cuda":
            return self.attention(*args, **kwargs)
        if func is F.binary_cross_entropy:
            return self._bce(func, args, kwargs)
        if func in _TO_NUMPY and isinstance(args[0], FakeTensor):
            return _in_numpy(func, args, kwargs)
        if func is PAD_PACKED and can_unpack(args):
            return unpacked(*args, **kwargs)
        if func is torch.tensor:
            args = (numbers_in(args[0]), *args[1:])
        if func is F.ctc_loss:
            args = tuple(_beside(a, args[0]) for a in args)
            kwargs = {k: _beside(v, args[0]) for k, v in kwargs.items()} if args else kwargs
        return func(*args, **kwargs)

    def refused(self, message: str) -> None:
        """Called with torch's words where autocast refuses a call. Here it does nothing."""

    def casting(self, call: str) -> AbstractContextManager[None]:
        """Open while a call of this name makes the casts that autocast would make on a GPU."""
        return nullcontext()

    def _bce(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Note autocast's refusal, and go on as if the call stood in a disabled region."""
        try:
            return func(*args, **kwargs)
        except RuntimeError as error:
            if "unsafe to autocast" not in str(error):
                raise
            self.refused(str(error))
        with torch.autocast(self.device, enabled=False):
            wide = [a.float() if isinstance(a, Tensor) else a for a in args]
            kwargs = {k: v.float() if isinstance(v, Tensor) else v for k, v in kwargs.items()}
            return func(*wide, **kwargs)

    def attending(self, choice: KernelChoice) -> AbstractContextManager[None]:
        """Open while a call of attention runs in the kernel that was chosen."""
        return nullcontext()

    def attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        *,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """Attention in the kernel that a GPU would take, which `amp_lessons.amp.attention` says.

        Without CUDA torch would take the plain form, which computes in float32 and keeps the
        whole attention matrix: other dtypes and other bytes than on a GPU.
        """
        call = Attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        with torch._C.DisableTorchFunction():
            if query.device.type != "cuda" or any(t.is_nested for t in (query, key, value)):
                return _as_torch_does(call)
            if torch.is_autocast_enabled("cuda"):
                with self.casting("scaled_dot_product_attention"):
                    call = call.cast(torch.get_autocast_dtype("cuda"))
            with torch.autocast("cuda", enabled=False):  # as inside autocast's own kernel
                if not call.is_plain:
                    return _as_torch_does(call)
                choice = choose(call.described(), self.gpu, settings())
                self.choices.append(choice)
                with self.attending(choice):
                    return attend(call, choice.kernel)


def _as_torch_does(call: Attention) -> Tensor:
    """The call as it is, for torch to run or to refuse in its own words."""
    return SDPA(
        call.query,
        call.key,
        call.value,
        call.mask,
        call.dropout,
        call.causal,
        scale=call.scale,
        enable_gqa=call.gqa,
    )


@contextmanager
def on_gpu(calls: GpuCalls) -> Iterator[None]:
    """What code finds where it runs, on the GPU that was asked for, and a function mode can't see.

    The attention inside torch's own functions, and the compute capability, by which libraries
    choose a kernel (transformers, for a mixture of experts).
    """
    with ExitStack() as stack:
        stack.enter_context(mock.patch("torch.overrides.has_torch_function", _overrides))
        stack.enter_context(mock.patch("torch.cond", _cond))
        if calls.device == "cuda":
            attention = mock.patch.object(F, "scaled_dot_product_attention", calls.attention)
            major_minor = capability(calls.gpu)
            asked = mock.patch("torch.cuda.get_device_capability", return_value=major_minor)
            stack.enter_context(attention)
            stack.enter_context(asked)
        yield


def _overrides(tensors: Iterable[Any]) -> bool:
    """Whether a tensor is of a class that overrides functions, as a fake one does not.

    `nn.TransformerEncoder` and `nn.MultiheadAttention` ask, and take no fast path if so. Torch's
    own answer is yes wherever somebody looks on.
    """
    plain = (Tensor, nn.Parameter, FakeTensor)
    return any(isinstance(each, Tensor) and type(each) not in plain for each in tensors)


def _cond(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> Any:
    """`torch.cond` as a branch, which it is when nothing compiles it."""
    return (true_fn if pred else false_fn)(*operands)


_TO_NUMPY = (Tensor.numpy, Tensor.__array__)


def _in_numpy(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A fake tensor whose values are known as an array of NumPy; what torch refuses stays so."""
    tensor, known = args[0], value_of(args[0])
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        if tensor.device.type != "cpu" and not kwargs.get("force"):
            raise TypeError(
                f"can't convert {tensor.device} device type tensor to numpy. Use Tensor.cpu() to "
                "copy the tensor to host memory first."
            )
        if known is not None and not is_stale(known) and not tensor.requires_grad:
            return func(known, *args[1:], **kwargs)
    return func(*args, **kwargs)


def _beside(given: Any, scores: Tensor) -> Any:
    """An argument of CTC on the scores' device: the kernel brings lengths to the CPU by itself.

    It reads a list's tensor in C++, where a fake one has no data.
    """
    if isinstance(given, list | tuple):
        given = torch.tensor(given)
    return given.to(scores.device) if isinstance(given, Tensor) else given


def _with_index(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Write "cuda" as "cuda:0": there is no current device to take the number from."""

    def indexed(value: Any) -> Any:
        bare = value == "cuda" or (isinstance(value, torch.device) and str(value) == "cuda")
        return torch.device("cuda", 0) if bare else value

    args = tuple(a if isinstance(a, Tensor) else indexed(a) for a in args)
    return args, {k: v if isinstance(v, Tensor) else indexed(v) for k, v in kwargs.items()}
