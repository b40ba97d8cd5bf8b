"""Other implementations of block-scaled formats, brought to one shape: elements and scales.

torchao runs as it is installed. Transformer Engine, DeepSeek-V3 and DeepGEMM need a GPU, so their
arithmetic is written down here in NumPy, operation by operation.
"""

from __future__ import annotations

import logging
import warnings

import gfloat
import gfloat.formats
import ml_dtypes
import numpy as np
import torch
from torch import Tensor

from amp_lessons.amp.numbers.formats import (
    FP4_E2M1,
    FP6_E2M3,
    FP6_E3M2,
    FP8_E4M3,
    FP8_E5M2,
    Format,
)

logging.getLogger("torchao").setLevel(logging.CRITICAL)  # it has no kernels for a CPU
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torchao.prototype.mx_formats.kernels import unpack_uint4
    from torchao.prototype.mx_formats.mx_tensor import ScaleCalculationMode, to_mx
    from torchao.prototype.mx_formats.nvfp4_tensor import (
        nvfp4_quantize,
        per_tensor_amax_to_scale,
    )

ML_DTYPES = {
    FP8_E4M3: ml_dtypes.float8_e4m3fn,
    FP8_E5M2: ml_dtypes.float8_e5m2,
    FP6_E2M3: ml_dtypes.float6_e2m3fn,
    FP6_E3M2: ml_dtypes.float6_e3m2fn,
    FP4_E2M1: ml_dtypes.float4_e2m1fn,
}
GFLOAT = {
    FP8_E4M3: gfloat.formats.format_info_ocp_e4m3,
    FP8_E5M2: gfloat.formats.format_info_ocp_e5m2,
    FP6_E2M3: gfloat.formats.format_info_ocp_e2m3,
    FP6_E3M2: gfloat.formats.format_info_ocp_e3m2,
    FP4_E2M1: gfloat.formats.format_info_ocp_e2m1,
}
_TORCHAO = {
    FP8_E4M3: torch.float8_e4m3fn,
    FP8_E5M2: torch.float8_e5m2,
    FP6_E2M3: "fp6_e2m3",
    FP6_E3M2: "fp6_e3m2",
    FP4_E2M1: torch.float4_e2m1fn_x2,
}


def random_blocks(count: int, size: int, seed: int = 0) -> Tensor:
    """A quarter each: normal numbers, ones of all magnitudes, random bits, and ties; some zeros."""
    generator = torch.Generator().manual_seed(seed)
    blocks = torch.randn(count, size, generator=generator)
    wide, bits, ties = blocks[::4], blocks[1::4], blocks[2::4]
    exponents = torch.randint(-149, 126, (len(wide), 1), generator=generator)
    wide.copy_((wide.double() * 2.0**exponents).float().nan_to_num())
    raw = torch.randint(-(2**31), 2**31, bits.shape, generator=generator, dtype=torch.int64)
    bits.copy_(raw.to(torch.int32).view(torch.float32).nan_to_num(0.0, 1.0, -1.0))
    ties.copy_(torch.randint(-64, 65, ties.shape, generator=generator) / 8)
    blocks[::97] = 0
    return blocks


def same(ours: Tensor, theirs: Tensor) -> Tensor:
    """Where two tensors hold the same numbers, signs of zeros included; NaN is like NaN."""
    bits = ours.float().view(torch.int32) == theirs.float().view(torch.int32)
    return bits | (ours.isnan() & theirs.isnan())


# ---- scales of a power of two -------------------------------------------------------------------


def torchao_mx(blocks: Tensor, element: Format, mode: str) -> tuple[Tensor, Tensor]:
    """Elements and scales, as torchao 0.18 stores them."""
    scales, stored = to_mx(blocks, _TORCHAO[element], blocks.shape[1], ScaleCalculationMode[mode])
    if element == FP4_E2M1:
        stored = unpack_uint4(stored)
    return decoded(stored, element), scales.float()


def decoded(codes: Tensor, element: Format) -> Tensor:
    """By ml_dtypes, from bytes."""
    numbers = codes.view(torch.uint8).numpy().view(ML_DTYPES[element])
    return torch.from_numpy(numbers.astype(np.float32))


def gfloat_mx(blocks: Tensor, element: Format) -> tuple[Tensor, Tensor]:
    """Elements and scales of each block by gfloat's own scale (FLOOR) and rounding."""
    info = GFLOAT[element]
    values = blocks.double().numpy()
    scales = np.array([gfloat.compute_scale_amax(info.emax, block) for block in values])[:, None]
    elements = gfloat.round_ndarray(info, values / scales, sat=True)
    return torch.from_numpy(elements).float(), torch.from_numpy(scales).float()


# ---- NVFP4 --------------------------------------------------------------------------------------


def torchao_nvfp4(blocks: Tensor, two_levels: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Elements, scales and the tensor's scale."""
    tensor_scale = per_tensor_amax_to_scale(blocks.abs().max()) if two_levels else None
    scales, packed = nvfp4_quantize(blocks, 16, tensor_scale)
    elements = decoded(unpack_uint4(packed), FP4_E2M1)
    return elements, scales.float(), torch.ones(()) if tensor_scale is None else tensor_scale


def transformer_engine_nvfp4(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """As `_quantize_blockwise_reference` in Transformer Engine's reference_nvfp4.py of Aug 2026."""
    f32 = np.float32
    x, largest = blocks.numpy(), np.finfo(np.float32).max
    with np.errstate(all="ignore"):
        encode = np.minimum(f32(448) * f32(6) / np.abs(x).max(), largest)
        encode = f32(1) if encode == 0 else encode
        multiplier = encode * (f32(1) / f32(6))
        scale = np.minimum(np.abs(x).max(1, keepdims=True) * multiplier, largest)
        scale = np.clip(scale, f32(-448), f32(448)).astype(ML_DTYPES[FP8_E4M3]).astype(f32)
        factor = np.minimum(f32(1) / (scale * (f32(1) / encode)), largest)
        scaled = np.clip(x * factor, f32(-6), f32(6))
        elements = scaled.astype(ML_DTYPES[FP4_E2M1]).astype(f32)
    return torch.from_numpy(elements), torch.from_numpy(scale)


# ---- scales in FP32 -----------------------------------------------------------------------------


def fp8_by_scale_in_fp32(
    blocks: Tensor, element: Format, how: str, power_of_two: bool = False
) -> tuple[Tensor, Tensor]:
    """One scale a row, as a library computes it: elements, and what they are multiplied by."""
    f32 = np.float32
    x, largest = blocks.numpy(), f32(element.max)
    amax = np.abs(x).max(1, keepdims=True)
    with np.errstate(all="ignore"):
        match how:
            case "torchao":  # float8_utils.amax_to_scale, which divides in float64
                scale = (element.max / np.maximum(amax.astype(np.float64), 1e-12)).astype(f32)
                scale = _up(scale, -1) if power_of_two else scale
                scaled, stored = x * scale, f32(1) / scale
            case "Transformer Engine":  # quantize_scale_calc.scale_from_amax_tensor
                scale = largest / amax
                scale = np.where(np.isinf(scale), np.finfo(f32).max, scale)
                scale = _up(scale, -1) if power_of_two else scale
                scale = np.where(amax == 0, f32(1), scale)
                scaled, stored = x * scale, f32(1) / scale
            case "DeepSeek-V3":  # inference/kernel.py
                stored = np.maximum(amax, f32(1e-4)) / largest
                stored = _up(stored, 1) if power_of_two else stored
                scaled = x / stored
            case "DeepGEMM":  # utils/math.py
                stored = np.maximum(amax, f32(1e-4)) / largest
                stored = _up(stored, 1) if power_of_two else stored
                scaled = x * (f32(1) / stored)
    scaled = np.clip(scaled, -largest, largest)
    elements = scaled.astype(ML_DTYPES[element]).astype(f32)
    return torch.from_numpy(elements), torch.from_numpy(stored)


def _up(values: np.ndarray, direction: int) -> np.ndarray:
    """The next power of two, up or down."""
    mantissa, exponent = np.frexp(values)
    power = exponent - 1 + ((mantissa > 0.5) if direction > 0 else 0)
    return np.ldexp(np.float32(1), power).astype(np.float32)
