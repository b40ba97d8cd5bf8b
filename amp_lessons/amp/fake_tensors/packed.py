"""Packed sequences on fake tensors, for recurrent layers over texts of different lengths.

How a batch is packed depends on the lengths alone, and those are known as a rule. PyTorch's C++
reads them as memory, which a fake tensor has none of: so the batch sizes are a real tensor here,
and unpacking is written out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import _disable_current_modes

PACK = torch.ops.aten._pack_padded_sequence.default
PAD_PACKED = torch._VF._pad_packed_sequence


def packed(padded: Tensor, lengths: Tensor, batch_first: bool) -> tuple[Tensor, Tensor]:
    """The result of `PACK` for known lengths: fake data, and real batch sizes."""
    with _disable_current_modes():
        data, batch_sizes = PACK(torch.zeros(*padded.shape[:2], 1), lengths.cpu(), batch_first)
    return padded.new_empty(data.shape[0], *padded.shape[2:]), batch_sizes


def can_unpack(args: tuple[Any, ...]) -> bool:
    """Whether the data is fake and the batch sizes are real, as `packed` gives them."""
    return isinstance(args[0], FakeTensor) and not isinstance(args[1], FakeTensor)


def unpacked(
    data: Tensor, batch_sizes: Tensor, batch_first: bool, padding: float, total: int
) -> tuple[Tensor, Tensor]:
    """The padded batch and its lengths.

    The ops are those of ``_pad_packed_sequence`` in aten/src/ATen/native/PackedSequence.cpp.

    Raises:
        RuntimeError: if ``total`` is given and less than the longest sequence.
    """
    with _disable_current_modes():
        sizes: list[int] = batch_sizes.tolist()
        lengths = [sum(size > place for size in sizes) for place in range(sizes[0])]
    if 0 < total < len(sizes):
        raise RuntimeError(
            f"Expected total_length to be at least the length of the longest sequence in input, "
            f"but got total_length={total} and max sequence length being {len(sizes)}"
        )
    shape = (max(total, len(sizes)), sizes[0], *data.shape[1:])
    output = torch.full(shape, padding, dtype=data.dtype, device=data.device)
    begin = read = 0
    for end in range(1, len(sizes) + 1):
        if end < len(sizes) and sizes[end] == sizes[begin]:
            continue
        steps, width = end - begin, sizes[begin]
        rows = data[read : read + steps * width].view(steps, width, *data.shape[1:])
        output[begin:end, :width].copy_(rows)
        begin, read = end, read + steps * width
    return output.transpose(0, 1) if batch_first else output, torch.tensor(lengths)
