"""What a call of attention costs: floating point operations."""

from __future__ import annotations

from collections.abc import Sequence


def forward_flops(query: Sequence[int], key: Sequence[int], value: Sequence[int]) -> int:
    """Multiplications and additions of the two matrix products of a forward pass.

    With grouped queries each key and value head is used by several query heads, so the query's
    heads count; and the value's head size counts for itself. A causal mask halves what a kernel
    has to compute; as in `torch.utils.flop_counter`, it is not taken off.

    Args:
        query, key, value: shapes ``(batch, heads, length, head size)``.
    """
    batch, heads, length, size = query
    return 2 * batch * heads * length * key[2] * (size + value[3])
