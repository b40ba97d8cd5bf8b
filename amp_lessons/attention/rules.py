"""The filters of PyTorch 2.13.0's ``sdp_utils``, each with the line that refuses.

A function here is one ``check_…`` of the C++, asked in its order: the first that refuses decides.
`CPP` is ``cuda/sdp_utils.cpp`` and `HEADER` is ``sdp_utils_cpp.h``, both under
``aten/src/ATen/native/transformers`` at the tag v2.13.0 (commit cf30153c). The line is where the
warning stands that torch prints for the refusal, or the ``return false`` where it prints none.
"""

from __future__ import annotations

from collections.abc import Callable

from amp_lessons.attention.calls import Case, Refusal

CPP = "sdp_utils.cpp"
HEADER = "sdp_utils_cpp.h"
Rule = Callable[[Case], Refusal | None]

_HALVES = ("float16", "bfloat16")
_ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


def first_refusal(kernel: str, case: Case) -> Refusal | None:
    """Why a fused kernel does not take a call; None if it does."""
    for rule in RULES[kernel]:
        refusal = rule(case)
        if refusal is not None:
            return refusal
    return None


def _enabled(kernel: str, line: str) -> Rule:
    def check_runtime_disabled(case: Case) -> Refusal | None:
        return None if kernel in case.settings.enabled else Refusal("is switched off", line)

    return check_runtime_disabled


def _four_dimensions(case: Case) -> Refusal | None:
    """check_tensor_shapes"""
    dims = {len(shape) for shape in (case.call.query, case.call.key, case.call.value)}
    if dims == {4}:
        return None
    count = " and ".join(map(str, sorted(dims)))
    return Refusal(f"needs 4 dimensions, not {count}", f"{HEADER}:327")


def _no_mask(case: Case) -> Refusal | None:
    """check_for_attn_mask"""
    return None if case.call.mask is None else Refusal("takes no mask", f"{HEADER}:262")


def _gpu_from(lowest: tuple[int, int], line: str) -> Rule:
    def check_hardware_support(case: Case) -> Refusal | None:
        if lowest <= case.sm <= (12, 1):
            return None
        limit = f"needs sm{lowest[0]}{lowest[1]} or newer" if case.sm < lowest else "ends at sm121"
        return Refusal(f"{limit}, and this GPU is sm{case.sm[0]}{case.sm[1]}", line)

    return check_hardware_support


# ---- flash --------------------------------------------------------------------------------------


def _flash_head_size(case: Case) -> Refusal | None:
    """check_head_dim_size_flash. Sizes that are no multiple of 8 are padded, not refused."""
    sizes = _head_sizes(case)
    if len(set(sizes)) == 1 and sizes[0] <= 256:
        return None
    line = f"{CPP}:199"
    if len(set(sizes)) > 1:
        told = f"query and key {sizes[0]}, value {sizes[2]}" if sizes[0] == sizes[1] else sizes
        return Refusal(f"needs one head size for query, key and value, not {told}", line)
    return Refusal(f"takes head sizes up to 256, not {sizes[0]}", line)


def _flash_backward(case: Case) -> Refusal | None:
    """check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120"""
    small = (8, 6) <= case.sm <= (8, 9) or (12, 0) <= case.sm <= (12, 1)
    size, dropout = case.call.query[-1], case.call.dropout > 0
    if not (case.call.needs_grad and small and size > 192 and (size <= 224 or dropout)):
        return None
    reason = f"of head size {size}" + (" with dropout" if size > 224 else "")
    return Refusal(f"has no backward {reason} on sm{case.sm[0]}{case.sm[1]}", f"{CPP}:537")


def _flash_causal(case: Case) -> Refusal | None:
    """check_flash_causal_non_square_seqlens"""
    query, key = case.call.query[-2], case.call.key[-2]
    if not case.call.causal or query == key:
        return None
    return Refusal(f"takes is_causal for equal lengths only, not {query} and {key}", f"{CPP}:558")


def _low_precision(case: Case) -> Refusal | None:
    """check_dtypes_low_precision: FP16, and BF16 from sm80."""
    return _one_of(case, _HALVES if case.sm[0] >= 8 else ("float16",))


def _one_of(case: Case, dtypes: tuple[str, ...]) -> Refusal | None:
    """check_tensor_dtype"""
    if case.call.dtype in dtypes:
        return None
    on = f" on sm{case.sm[0]}{case.sm[1]}" if case.call.dtype == "bfloat16" else ""
    return Refusal(f"does not take {case.call.dtype}{on}", f"{HEADER}:91")


# ---- what the three have in common --------------------------------------------------------------


def _batch_and_heads(grouped: bool, kv_alike: bool = True) -> Rule:
    """check_batch_size_and_num_heads_dense and, with ``enable_gqa``, check_grouped_query_attention.

    Args:
        grouped: whether the kernel takes fewer key and value heads than query heads.
        kv_alike: whether key and value then need the same number.
    """

    def check(case: Case) -> Refusal | None:
        shapes = (case.call.query, case.call.key, case.call.value)
        batches = {shape[0] for shape in shapes}
        if len(batches) > 1:
            return Refusal("needs one batch size, and does not broadcast", f"{HEADER}:417")
        query, key, value = (shape[-3] for shape in shapes)
        if case.call.gqa and grouped:
            return _groups(query, key, value, kv_alike)
        if query == key == value:
            return None
        heads = f"{query} query heads and {key} key heads" if query != key else "unequal heads"
        wants = "takes no grouped queries" if case.call.gqa else "needs enable_gqa"
        return Refusal(f"{wants} ({heads})", f"{HEADER}:437")

    return check


def _groups(query: int, key: int, value: int, kv_alike: bool) -> Refusal | None:
    if kv_alike and key != value:
        return Refusal(f"needs as many key as value heads, not {key} and {value}", f"{HEADER}:365")
    if query % key or (not kv_alike and query % value):
        return Refusal(f"needs key heads that divide the {query} query heads", f"{HEADER}:381")
    return None


def _some_length(case: Case) -> Refusal | None:
    """check_nonzero_sequence_lengths_dense"""
    if case.call.query[-2] and case.call.key[-2]:
        return None
    return Refusal("takes no sequence of length 0", f"{HEADER}:502")


def _dense_rows(single_too: bool) -> Rule:
    """check_last_dim_stride_equals_1_dense

    Args:
        single_too: whether the stride is free where the head size is 1.
    """

    def check(case: Case) -> Refusal | None:
        call = case.call
        inputs = set(call.last_strides) == {1} or (single_too and call.query[-1] == 1)
        if inputs and (call.mask is None or call.mask_last_stride == 1):
            return None
        what = "query, key and value" if not inputs else "the mask"
        return Refusal(f"needs stride 1 in the last dimension of {what}", f"{HEADER}:546")

    return check


# ---- efficient ----------------------------------------------------------------------------------


def _alignment(case: Case) -> int:
    """minimum_gemm_alignment: elements to which the efficient kernel wants its rows aligned."""
    half = case.call.dtype in _HALVES
    tensor_cores = case.sm[0] >= 8 or (case.sm[0] == 7 and half)
    least = 4 if case.sm[0] >= 8 else 1
    return max(least, 8 if half else 4) if tensor_cores else least


def _efficient_head_size(case: Case) -> Refusal | None:
    """check_head_dim_size_mem_efficient. There is no upper limit."""
    query, key, value = _head_sizes(case)
    step = _alignment(case)
    if query == key and query > 0 and value > 0 and not query % step and not value % step:
        return None
    line = f"{CPP}:285"
    if query != key:
        return Refusal(f"needs one head size for query and key, not {query} and {key}", line)
    wrong = query if query % step or not query else value
    return Refusal(f"needs head sizes that are a multiple of {step}, not {wrong}", line)


def _efficient_alignment(case: Case) -> Refusal | None:
    """check_data_ptr_alignment_mem_efficient: where query, key and value begin, from sm80 on."""
    if case.sm[0] < 8:
        return None
    item = _ITEM_BYTES.get(case.call.dtype, 4)
    wanted = _alignment(case) * item
    call = case.call
    starts = zip((call.query, call.key, call.value), call.offsets, strict=True)
    if any(offset * item % wanted for shape, offset in starts if 0 not in shape):
        return Refusal(f"needs tensors that begin at a multiple of {wanted} bytes", f"{CPP}:356")
    return None


def _efficient_dtype(case: Case) -> Refusal | None:
    """can_use_mem_efficient_attention: float32 and FP16, and BF16 from sm80."""
    return _one_of(case, ("float32", *(_HALVES if case.sm[0] >= 8 else ("float16",))))


# ---- cuDNN --------------------------------------------------------------------------------------


def _cudnn_version(case: Case) -> Refusal | None:
    """can_use_cudnn_attention: 9.11.1 to 9.13 have no dropout."""
    if case.call.dropout > 0 and 91100 < case.settings.cudnn < 91400:
        return Refusal("has no dropout from 9.11.1 to 9.13", f"{CPP} can_use_cudnn_attention")
    return None


def _cudnn_deterministic(case: Case) -> Refusal | None:
    """check_cudnn_deterministic"""
    wanted = case.settings.deterministic
    return Refusal("is not deterministic", f"{CPP}:843") if wanted else None


def _cudnn_mask(case: Case) -> Refusal | None:
    """check_attn_mask_shape"""
    call, mask = case.call, case.call.mask
    if mask is None:
        return None
    if call.mask_needs_grad:
        return Refusal("gives a mask no gradient", f"{HEADER}:275")
    if len(mask) < 2 or mask[-2] not in (1, call.query[2]):
        return Refusal("needs a mask as long as the query, or 1", f"{HEADER}:297")
    if mask[-1] not in (1, call.key[2]):
        return Refusal("needs a mask as long as the key, or 1", f"{HEADER}:301")
    batch, heads = call.query[:2]
    if len(mask) == 2 or (len(mask) == 4 and mask[0] in (1, batch) and mask[1] in (1, heads)):
        return None
    if len(mask) == 4:
        return Refusal("needs a mask of the query's batch and heads, or 1", f"{HEADER}:314")
    return Refusal(f"takes masks of 2 or 4 dimensions, not {len(mask)}", f"{HEADER}:314")


def _cudnn_dropout(case: Case) -> Refusal | None:
    """check_cudnn_dropout"""
    if case.call.dropout * 16 == int(case.call.dropout * 16):
        return None
    return Refusal("takes dropout in sixteenths only", f"{CPP}:590")


def _cudnn_shapes(case: Case) -> Refusal | None:
    """check_cudnn_tensor_shapes, for cuDNN 9.11 and newer."""
    call = case.call
    batch, heads, length = call.query[:3]
    sizes = (call.query[3], call.value[3])
    if batch > 65535 or heads > 65535:
        return Refusal("takes at most 65,535 batches and heads", f"{CPP}:605")
    limit = _cudnn_limit(case, sizes)
    if max(sizes) > limit:
        return Refusal(f"takes head sizes up to {limit} here, not {max(sizes)}", f"{CPP}:647")
    odd = [size for size in sizes if size % 8]
    if odd:
        return Refusal(f"needs head sizes that are a multiple of 8, not {odd[0]}", f"{CPP}:653")
    if call.key[2] == 1:
        return Refusal("takes no key of length 1", f"{CPP}:680")
    if length == 1 and call.dropout:
        return Refusal("takes no query of length 1 with dropout", f"{CPP}:686")
    return None


def _cudnn_limit(case: Case, sizes: tuple[int, int]) -> int:
    """256 on sm90; on sm10x 128, and DeepSeek's pair of 192 and 128; elsewhere 128."""
    if case.sm == (9, 0):
        return 256
    return 192 if case.sm[0] == 10 and sizes == (192, 128) else 128


def _head_sizes(case: Case) -> tuple[int, int, int]:
    call = case.call
    return call.query[-1], call.key[-1], call.value[-1]


RULES: dict[str, tuple[Rule, ...]] = {
    "flash": (
        _enabled("flash", f"{HEADER}:559"),
        _four_dimensions,
        _no_mask,
        _flash_head_size,
        _gpu_from((8, 0), f"{CPP}:443"),
        _flash_backward,
        _flash_causal,
        _low_precision,
        _batch_and_heads(grouped=True),
        _some_length,
        _dense_rows(single_too=True),
    ),
    "efficient": (
        _enabled("efficient", f"{HEADER}:571"),
        _gpu_from((5, 0), f"{CPP}:503"),
        _four_dimensions,
        _efficient_head_size,
        _efficient_alignment,
        _some_length,
        _dense_rows(single_too=False),
        _batch_and_heads(grouped=False),
        _efficient_dtype,
    ),
    "cudnn": (
        _cudnn_version,
        _enabled("cudnn", f"{CPP}:831"),
        _four_dimensions,
        _cudnn_deterministic,
        _low_precision,
        _cudnn_mask,
        _gpu_from((8, 0), f"{CPP}:772"),
        _cudnn_dropout,
        _some_length,
        _dense_rows(single_too=True),
        _batch_and_heads(grouped=True, kv_alike=False),
        _cudnn_shapes,
    ),
}
"""For each fused kernel the filters in the order of can_use_…_attention in sdp_utils.cpp."""
