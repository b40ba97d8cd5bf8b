"""The filters of PyTorch's ``sdp_utils`` in 2.13.0 and in 2.15.0, each with the line that refuses.

A function here is one ``check_…`` of the C++, asked in its order: the first that refuses decides.
`CPP` is ``cuda/sdp_utils.cpp`` and `HEADER` is ``sdp_utils_cpp.h``, both under
``aten/src/ATen/native/transformers`` at the tag v2.13.0 (commit cf30153c). The line is where the
warning stands that torch prints for the refusal, or the ``return false`` where it prints none.
`LINES_2_15` has the same lines at v2.15.0 (commit d0f2af8b), as its compiled code prints them.
"""

from __future__ import annotations

from collections.abc import Callable

from amp_lessons.amp.attention.calls import CallOnGpu, KernelRefusal

CPP = "sdp_utils.cpp"
HEADER = "sdp_utils_cpp.h"
Rule = Callable[[CallOnGpu], KernelRefusal | None]

_HALVES = ("float16", "bfloat16")
_ITEM_BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}


def first_refusal(kernel: str, case: CallOnGpu) -> KernelRefusal | None:
    """Why a fused kernel does not take a call; None if it does."""
    for rule in RULES[kernel]:
        refusal = rule(case)
        if refusal is not None:
            return refusal
    return None


def _enabled(kernel: str, line: str) -> Rule:
    def check_runtime_disabled(case: CallOnGpu) -> KernelRefusal | None:
        return None if kernel in case.settings.enabled else KernelRefusal("is switched off", line)

    return check_runtime_disabled


def _four_dimensions(case: CallOnGpu) -> KernelRefusal | None:
    """check_tensor_shapes"""
    dims = {len(shape) for shape in (case.call.query, case.call.key, case.call.value)}
    if dims == {4}:
        return None
    count = " and ".join(map(str, sorted(dims)))
    return KernelRefusal(f"needs 4 dimensions, not {count}", f"{HEADER}:327")


def _no_mask(case: CallOnGpu) -> KernelRefusal | None:
    """check_for_attn_mask"""
    return None if case.call.mask is None else KernelRefusal("takes no mask", f"{HEADER}:262")


def _gpu_from(lowest: tuple[int, int], line: str) -> Rule:
    def check_hardware_support(case: CallOnGpu) -> KernelRefusal | None:
        if lowest <= case.sm <= (12, 1):
            return None
        limit = "ends at compute capability 12.1"
        if case.sm < lowest:
            limit = f"needs compute capability {_dotted(lowest)} or newer"
        return KernelRefusal(f"{limit}, and this GPU has {_dotted(case.sm)}", line)

    return check_hardware_support


# ---- flash --------------------------------------------------------------------------------------


def _flash_head_size(case: CallOnGpu) -> KernelRefusal | None:
    """check_head_dim_size_flash. Sizes that are no multiple of 8 are padded, not refused."""
    sizes = _head_sizes(case)
    if len(set(sizes)) == 1 and sizes[0] <= 256:
        return None
    line = f"{CPP}:199"
    if len(set(sizes)) > 1:
        told = f"query and key {sizes[0]}, value {sizes[2]}" if sizes[0] == sizes[1] else sizes
        return KernelRefusal(f"needs one head size for query, key and value, not {told}", line)
    return KernelRefusal(f"takes head sizes up to 256, not {sizes[0]}", line)


def _flash_backward(case: CallOnGpu) -> KernelRefusal | None:
    """check_requires_grad_and_head_dim_gt192_constraints_on_sm86_89_or_120"""
    small = (8, 6) <= case.sm <= (8, 9) or (12, 0) <= case.sm <= (12, 1)
    size, dropout = case.call.query[-1], case.call.dropout > 0
    if not (case.call.needs_grad and small and size > 192 and (size <= 224 or dropout)):
        return None
    reason = f"for head size {size}" + (" with dropout" if size > 224 else "")
    where = f"on compute capability {_dotted(case.sm)}"
    return KernelRefusal(f"has no backward {reason} {where}", f"{CPP}:537")


def _flash_causal(case: CallOnGpu) -> KernelRefusal | None:
    """check_flash_causal_non_square_seqlens"""
    query, key = case.call.query[-2], case.call.key[-2]
    if not case.call.causal or query == key:
        return None
    return KernelRefusal(
        f"takes is_causal for equal lengths only, not {query} and {key}", f"{CPP}:558"
    )


def _low_precision(case: CallOnGpu) -> KernelRefusal | None:
    """check_dtypes_low_precision: FP16, and BF16 from sm80."""
    return _one_of(case, _HALVES if case.sm[0] >= 8 else ("float16",))


def _one_of(case: CallOnGpu, dtypes: tuple[str, ...]) -> KernelRefusal | None:
    """check_tensor_dtype"""
    if case.call.dtype in dtypes:
        return None
    low = case.call.dtype == "bfloat16"
    on = f" on compute capability {_dotted(case.sm)}" if low else ""
    return KernelRefusal(f"does not take {case.call.dtype}{on}", f"{HEADER}:91")


def _flash_grid(case: CallOnGpu) -> KernelRefusal | None:
    """check_flash_attention_grid_size, which is new in 2.15"""
    if _is_2_15(case) and max(case.call.query[:2]) > 65535:
        return KernelRefusal("takes at most 65,535 batches and heads", f"{CPP}:717")
    return None


# ---- what the three have in common --------------------------------------------------------------


def _is_2_15(case: CallOnGpu) -> bool:
    return case.settings.torch == "2.15"


def _dotted(sm: tuple[int, int]) -> str:
    return f"{sm[0]}.{sm[1]}"


def _batch_and_heads(grouped: bool, kv_alike: bool = True) -> Rule:
    """check_batch_size_and_num_heads_dense and, with ``enable_gqa``, check_grouped_query_attention.

    Since 2.14 each kernel takes fewer key and value heads, and also a single one that is broadcast
    without ``enable_gqa`` (pull request 191085).

    Args:
        grouped: whether the kernel of 2.13 takes fewer key and value heads than query heads.
        kv_alike: whether key and value then need the same number.
    """

    def check(case: CallOnGpu) -> KernelRefusal | None:
        shapes = (case.call.query, case.call.key, case.call.value)
        batches = {shape[0] for shape in shapes}
        if len(batches) > 1:
            return KernelRefusal("needs one batch size, and does not broadcast", f"{HEADER}:417")
        query, key, value = (shape[-3] for shape in shapes)
        if case.call.gqa and (grouped or _is_2_15(case)):
            return _groups(query, key, value, kv_alike)
        if query == key == value or (_is_2_15(case) and key == value == 1):
            return None
        counts = f"{query} query heads, {key} key head{'s' if key != 1 else ''}"
        heads = counts if query != key else "unequal heads"
        wants = "takes no grouped queries" if case.call.gqa else "needs enable_gqa"
        return KernelRefusal(f"{wants} ({heads})", f"{HEADER}:437")

    return check


def _groups(query: int, key: int, value: int, kv_alike: bool) -> KernelRefusal | None:
    if kv_alike and key != value:
        return KernelRefusal(
            f"needs as many key as value heads, not {key} and {value}", f"{HEADER}:365"
        )
    if query % key or (not kv_alike and query % value):
        return KernelRefusal(
            f"needs key heads that divide the {query} query heads", f"{HEADER}:381"
        )
    return None


def _some_length(case: CallOnGpu) -> KernelRefusal | None:
    """check_nonzero_sequence_lengths_dense"""
    if case.call.query[-2] and case.call.key[-2]:
        return None
    return KernelRefusal("takes no sequence of length 0", f"{HEADER}:502")


def _dense_rows(single_too: bool) -> Rule:
    """check_last_dim_stride_equals_1_dense

    Args:
        single_too: whether the stride is free where the head size is 1.
    """

    def check(case: CallOnGpu) -> KernelRefusal | None:
        call = case.call
        inputs = set(call.last_strides) == {1} or (single_too and call.query[-1] == 1)
        if inputs and (call.mask is None or call.mask_last_stride == 1):
            return None
        what = "query, key and value" if not inputs else "the mask"
        return KernelRefusal(f"needs stride 1 in the last dimension of {what}", f"{HEADER}:546")

    return check


# ---- efficient ----------------------------------------------------------------------------------


def _alignment(case: CallOnGpu) -> int:
    """minimum_gemm_alignment: elements to which the efficient kernel wants its rows aligned."""
    half = case.call.dtype in _HALVES
    tensor_cores = case.sm[0] >= 8 or (case.sm[0] == 7 and half)
    least = 4 if case.sm[0] >= 8 else 1
    return max(least, 8 if half else 4) if tensor_cores else least


def _efficient_head_size(case: CallOnGpu) -> KernelRefusal | None:
    """check_head_dim_size_mem_efficient. There is no upper limit."""
    query, key, value = _head_sizes(case)
    step = _alignment(case)
    if query == key and query > 0 and value > 0 and not query % step and not value % step:
        return None
    line = f"{CPP}:285"
    if query != key:
        return KernelRefusal(f"needs one head size for query and key, not {query} and {key}", line)
    wrong = query if query % step or not query else value
    return KernelRefusal(f"needs head sizes that are a multiple of {step}, not {wrong}", line)


def _efficient_alignment(case: CallOnGpu) -> KernelRefusal | None:
    """check_data_ptr_alignment_mem_efficient: where query, key and value begin, from sm80 on."""
    if case.sm[0] < 8:
        return None
    item = _ITEM_BYTES.get(case.call.dtype, 4)
    wanted = _alignment(case) * item
    call = case.call
    starts = zip((call.query, call.key, call.value), call.offsets, strict=True)
    if any(offset * item % wanted for shape, offset in starts if 0 not in shape):
        return KernelRefusal(
            f"needs tensors that begin at a multiple of {wanted} bytes", f"{CPP}:356"
        )
    return None


def _efficient_dtype(case: CallOnGpu) -> KernelRefusal | None:
    """can_use_mem_efficient_attention: float32 and FP16, and BF16 from sm80."""
    return _one_of(case, ("float32", *(_HALVES if case.sm[0] >= 8 else ("float16",))))


# ---- cuDNN --------------------------------------------------------------------------------------


def _cudnn_version(case: CallOnGpu) -> KernelRefusal | None:
    """can_use_cudnn_attention: 9.11.1 to 9.13 have no dropout."""
    if case.call.dropout > 0 and 91100 < case.settings.cudnn < 91400:
        return KernelRefusal("has no dropout from 9.11.1 to 9.13", f"{CPP} can_use_cudnn_attention")
    return None


def _cudnn_deterministic(case: CallOnGpu) -> KernelRefusal | None:
    """check_cudnn_deterministic"""
    wanted = case.settings.deterministic
    return KernelRefusal("is not deterministic", f"{CPP}:843") if wanted else None


def _cudnn_mask(case: CallOnGpu) -> KernelRefusal | None:
    """check_attn_mask_shape"""
    call, mask = case.call, case.call.mask
    if mask is None:
        return None
    if call.mask_needs_grad:
        return KernelRefusal("computes no gradient for a mask", f"{HEADER}:275")
    if len(mask) < 2 or mask[-2] not in (1, call.query[2]):
        where = "in its second to last dimension"
        return KernelRefusal(f"needs a mask with the query's length or 1 {where}", f"{HEADER}:297")
    if mask[-1] not in (1, call.key[2]):
        where = "in its last dimension"
        return KernelRefusal(f"needs a mask with the key's length or 1 {where}", f"{HEADER}:301")
    batch, heads = call.query[:2]
    if len(mask) == 2 or (len(mask) == 4 and mask[0] in (1, batch) and mask[1] in (1, heads)):
        return None
    if len(mask) == 4:
        return KernelRefusal("needs a mask of the query's batch and heads, or 1", f"{HEADER}:314")
    return KernelRefusal(f"takes masks of 2 or 4 dimensions, not {len(mask)}", f"{HEADER}:314")


def _cudnn_dropout(case: CallOnGpu) -> KernelRefusal | None:
    """check_cudnn_dropout"""
    if case.call.dropout * 16 == int(case.call.dropout * 16):
        return None
    return KernelRefusal(f"needs dropout in steps of 1/16, not {case.call.dropout:g}", f"{CPP}:590")


def _cudnn_shapes(case: CallOnGpu) -> KernelRefusal | None:
    """check_cudnn_tensor_shapes, for cuDNN 9.11 and newer."""
    call = case.call
    batch, heads, length = call.query[:3]
    sizes = (call.query[3], call.value[3])
    if batch > 65535 or heads > 65535:
        return KernelRefusal("takes at most 65,535 batches and heads", f"{CPP}:605")
    limit = _cudnn_limit(case, sizes)
    if max(sizes) > limit:
        return KernelRefusal(f"takes head sizes up to {limit} here, not {max(sizes)}", f"{CPP}:647")
    odd = [size for size in sizes if size % 8]
    if odd:
        return KernelRefusal(
            f"needs head sizes that are a multiple of 8, not {odd[0]}", f"{CPP}:653"
        )
    if call.key[2] == 1:
        return KernelRefusal("takes no single key", f"{CPP}:680")
    if length == 1 and call.dropout:
        return KernelRefusal("takes no query of length 1 with dropout", f"{CPP}:686")
    return None


def _cudnn_limit(case: CallOnGpu, sizes: tuple[int, int]) -> int:
    """256 on sm90; on sm10x 128, and DeepSeek's pair of 192 and 128; elsewhere 128. With 2.15 and
    its cuDNN it is 256 on sm10x too."""
    if case.sm == (9, 0) or _cudnn_takes_256(case):
        return 256
    return 192 if case.sm[0] == 10 and sizes == (192, 128) else 128


def _cudnn_takes_256(case: CallOnGpu) -> bool:
    """``supports_d256`` of check_cudnn_d256_bprop_head_dim, which is new in 2.15"""
    new = _is_2_15(case) and case.settings.cudnn > 92200
    waits = case.sm == (10, 7) and case.settings.cudnn <= 92500
    return new and (case.sm == (9, 0) or case.sm[0] == 10) and not waits


def _cudnn_backward(case: CallOnGpu) -> KernelRefusal | None:
    """check_cudnn_d256_bprop_head_dim, which is new in 2.15"""
    sizes = query, value = case.call.query[3], case.call.value[3]
    if not case.call.needs_grad or not _cudnn_takes_256(case):
        return None
    if max(sizes) <= 128 or sizes in ((192, 128), (256, 256)):
        return None
    told = f"head size {query}" if query == value else f"head size {query} with values of {value}"
    return KernelRefusal(f"has no backward for {told}", f"{CPP}:915")


def _head_sizes(case: CallOnGpu) -> tuple[int, int, int]:
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
        _flash_grid,
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
        _cudnn_backward,
    ),
}
"""For each fused kernel the filters in the order of can_use_…_attention in sdp_utils.cpp."""

LINES_2_15 = {
    f"{CPP}:199": f"{CPP}:292",
    f"{CPP}:285": f"{CPP}:388",
    f"{CPP}:356": f"{CPP}:460",
    f"{CPP}:443": f"{CPP}:547",
    f"{CPP}:503": f"{CPP} check_mem_efficient_hardware_support",
    f"{CPP}:537": f"{CPP}:643",
    f"{CPP}:558": f"{CPP}:666",
    f"{CPP}:590": f"{CPP}:699",
    f"{CPP}:605": f"{CPP}:735",
    f"{CPP}:647": f"{CPP}:806",
    f"{CPP}:653": f"{CPP}:813",
    f"{CPP}:680": f"{CPP}:843",
    f"{CPP}:686": f"{CPP}:849",
    f"{CPP}:772": f"{CPP}:1006",
    f"{CPP}:831": f"{CPP}:1065",
    f"{CPP}:843": f"{CPP}:1077",
    f"{CPP}:1083": f"{CPP} select_sdp_backend",
    f"{HEADER}:91": f"{HEADER}:108",
    f"{HEADER}:262": f"{HEADER}:279",
    f"{HEADER}:275": f"{HEADER}:293",
    f"{HEADER}:297": f"{HEADER}:315",
    f"{HEADER}:301": f"{HEADER}:319",
    f"{HEADER}:314": f"{HEADER}:332",
    f"{HEADER}:327": f"{HEADER}:345",
    f"{HEADER}:365": f"{HEADER}:383",
    f"{HEADER}:381": f"{HEADER}:409",
    f"{HEADER}:417": f"{HEADER}:446",
    f"{HEADER}:437": f"{HEADER}:478",
    f"{HEADER}:502": f"{HEADER}:545",
    f"{HEADER}:546": f"{HEADER}:593",
    f"{HEADER}:559": f"{HEADER}:606",
    f"{HEADER}:571": f"{HEADER}:618",
}
"""Lines of 2.13.0, and where the same refusal stands in 2.15.0."""
