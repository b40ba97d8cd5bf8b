"""Calls as a model writes them, run as a GPU would run them where there is none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from amp_lessons.fakes.ops import LOW

_SDPA = F.scaled_dot_product_attention


class GpuCalls(TorchFunctionMode):
    """Has calls do what they do on a GPU: attention's kernels, and "cuda" with a number.

    `trace` derives from it, to hear of each call.

    Args:
        device: "cpu" or "cuda".
    """

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device = device

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if getattr(func, "__name__", "") == "__get__":  # reading .dtype, .shape, .device
            return func(*args, **kwargs)
        return self.run(func, args, kwargs)

    def run(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one call."""
        if self.device == "cuda" and not torch.cuda.is_available():
            if func is Tensor.cuda:
                return args[0].to("cuda:0")
            if func is Tensor.to:
                args, kwargs = _with_index(args, kwargs)
            if func is _SDPA:
                return self.attention(*args, **kwargs)
        if func is F.binary_cross_entropy:
            return self._bce(func, args, kwargs)
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

    def attention(
        self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **rest: Any
    ) -> Tensor:
        """Attention as a GPU runs it: the flash kernel for 16 bit, the efficient one otherwise.

        Without CUDA torch would take the plain form, which computes in float32 and keeps the
        whole attention matrix: other dtypes and other bytes than on a GPU.
        """
        scale, plain = rest.get("scale"), query.dim() != 4 or query.shape[-1] % 8
        if plain or rest.get("enable_gqa") or query.device.type != "cuda":
            return _SDPA(query, key, value, attn_mask, dropout_p, is_causal, **rest)
        rest = {"dropout_p": dropout_p, "is_causal": is_causal, "scale": scale}
        with self.casting("scaled_dot_product_attention"):
            if torch.is_autocast_enabled("cuda"):
                low = torch.get_autocast_dtype("cuda")
                query, key, value = (t.to(low) for t in (query, key, value))
            if query.dtype in LOW and attn_mask is None:
                flash = torch.ops.aten._scaled_dot_product_flash_attention
                return flash(query, key, value, **rest)[0]
            bias, keep = _bias(attn_mask, query, key), torch.is_grad_enabled()
            efficient = torch.ops.aten._scaled_dot_product_efficient_attention
            return efficient(query, key, value, bias, keep, **rest)[0]


@contextmanager
def gpu_attention(calls: GpuCalls) -> Iterator[None]:
    """Also reach the attention inside torch's own functions, which a function mode does not see."""
    if calls.device != "cuda" or torch.cuda.is_available():
        yield
        return
    with mock.patch.object(F, "scaled_dot_product_attention", calls.attention):
        yield


def _bias(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor | None:
    if mask is None:
        return None
    if mask.dtype == torch.bool:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, -math.inf)
    return mask.to(query.dtype).expand(*query.shape[:-1], key.shape[-2])


def _with_index(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Write "cuda" as "cuda:0": there is no current device to take the number from."""

    def indexed(value: Any) -> Any:
        bare = value == "cuda" or (isinstance(value, torch.device) and str(value) == "cuda")
        return torch.device("cuda", 0) if bare else value

    args = tuple(a if isinstance(a, Tensor) else indexed(a) for a in args)
    return args, {k: v if isinstance(v, Tensor) else indexed(v) for k, v in kwargs.items()}
