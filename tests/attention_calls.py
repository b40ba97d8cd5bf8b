"""Calls of attention, each with the kernel that CUDA takes and the line that decides it.

Written from the source of PyTorch 2.13.0. `docs/attention.md` shows this table, and the files
`attention_recorded_….json` hold what the C++ of two versions answered for the same calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from amp_lessons.amp.attention import AttentionCall, Settings

CPP, HEADER = "sdp_utils.cpp", "sdp_utils_cpp.h"
TAKEN = {"cudnn": f"{CPP}:1069", "flash": f"{CPP}:1074", "efficient": f"{CPP}:1079"}


@dataclass(frozen=True)
class Case:
    """One row: a call on a GPU, its kernel, and the line that decides.

    Attributes:
        line: of the refusal that decides, or of the return if the first in the order takes it.
        refuses: the kernel that the line refuses; "" for none.
    """

    what: str
    gpu: str
    call: AttentionCall
    kernel: str
    line: str
    refuses: str = ""
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def switches(self) -> Settings:
        enabled = frozenset(self.settings.get("enabled", Settings().enabled))
        deterministic = self.settings.get("deterministic", False)
        return Settings(enabled=enabled, deterministic=deterministic)


def same(size: int, heads: int = 8, length: int = 128, **more: Any) -> AttentionCall:
    """Query, key and value of one shape."""
    shape = (2, heads, length, size)
    return AttentionCall(shape, shape, shape, **more)


def grouped(key_heads: int, size: int = 128, heads: int = 32, **more: Any) -> AttentionCall:
    """Grouped queries, as Llama has them."""
    key = (2, key_heads, 256, size)
    return AttentionCall((2, heads, 256, size), key, key, **{"gqa": True, **more})


def unequal(size: int, value: int, **more: Any) -> AttentionCall:
    """A value head of another size, as multi-head latent attention has it."""
    shape = (2, 8, 128, size)
    return AttentionCall(shape, shape, (2, 8, 128, value), **more)


def lengths(query: int, key: int, **more: Any) -> AttentionCall:
    return AttentionCall((2, 8, query, 64), (2, 8, key, 64), (2, 8, key, 64), **more)


LEARNED = {"mask": (1, 8, 128, 128), "mask_dtype": "float16", "mask_needs_grad": True}

TABLE = (
    # the order, by GPU
    Case("head size 64, FP16", "h200", same(64), "cudnn", TAKEN["cudnn"]),
    Case("head size 64, FP16", "h100", same(64), "cudnn", TAKEN["cudnn"]),
    Case("head size 64, FP16", "b200", same(64), "cudnn", TAKEN["cudnn"]),
    Case("head size 64, FP16", "b300", same(64), "cudnn", TAKEN["cudnn"]),
    Case("head size 64, FP16", "a100", same(64), "flash", TAKEN["flash"]),
    Case("head size 64, FP16", "l4", same(64), "flash", TAKEN["flash"]),
    Case("head size 64, FP16", "rtx5090", same(64), "flash", TAKEN["flash"]),
    Case("head size 64, FP16", "t4", same(64), "efficient", f"{CPP}:443", "flash"),
    Case("head size 64, FP16", "v100", same(64), "efficient", f"{CPP}:443", "flash"),
    Case("head size 64, FP16", "p100", same(64), "efficient", f"{CPP}:443", "flash"),
    # dtypes
    Case("BF16", "h200", same(64, dtype="bfloat16"), "cudnn", TAKEN["cudnn"]),
    Case("BF16", "a100", same(64, dtype="bfloat16"), "flash", TAKEN["flash"]),
    Case("BF16", "t4", same(64, dtype="bfloat16"), "math", f"{HEADER}:91", "efficient"),
    Case("BF16", "v100", same(64, dtype="bfloat16"), "math", f"{HEADER}:91", "efficient"),
    Case("FP32", "h200", same(64, dtype="float32"), "efficient", f"{HEADER}:91", "flash"),
    Case("FP32", "a100", same(64, dtype="float32"), "efficient", f"{HEADER}:91", "flash"),
    Case("FP32", "t4", same(64, dtype="float32"), "efficient", f"{CPP}:443", "flash"),
    Case("FP64", "a100", same(64, dtype="float64"), "math", f"{HEADER}:91", "efficient"),
    # head sizes
    Case("head size 80", "a100", same(80), "flash", TAKEN["flash"]),
    Case("head size 20, padded to 24", "a100", same(20), "flash", TAKEN["flash"]),
    Case("head size 20, padded to 24", "h200", same(20), "flash", f"{CPP}:653", "cudnn"),
    Case("head size 20", "t4", same(20), "math", f"{CPP}:285", "efficient"),
    Case("head size 20, FP32", "a100", same(20, dtype="float32"), "efficient", f"{HEADER}:91",
         "flash"),
    Case("head size 1", "a100", same(1), "flash", TAKEN["flash"]),
    Case("head size 256", "h200", same(256), "cudnn", TAKEN["cudnn"]),
    Case("head size 256", "b200", same(256), "flash", f"{CPP}:647", "cudnn"),
    Case("head size 256", "a100", same(256), "flash", TAKEN["flash"]),
    Case("head size 264", "h200", same(264), "efficient", f"{CPP}:199", "flash"),
    Case("head size 264", "a100", same(264), "efficient", f"{CPP}:199", "flash"),
    Case("head size 260", "a100", same(260), "math", f"{CPP}:285", "efficient"),
    Case("head size 200, training", "rtx3090", same(200), "efficient", f"{CPP}:537", "flash"),
    Case("head size 200, training", "rtx4090", same(200), "efficient", f"{CPP}:537", "flash"),
    Case("head size 200, training", "rtx5090", same(200), "efficient", f"{CPP}:537", "flash"),
    Case("head size 200, no grad", "rtx4090", same(200, needs_grad=False), "flash",
         TAKEN["flash"]),
    Case("head size 256, training", "rtx4090", same(256), "flash", TAKEN["flash"]),
    Case("head size 256, training with dropout", "rtx4090", same(256, dropout=0.1), "efficient",
         f"{CPP}:537", "flash"),
    # grouped queries
    Case("32 query heads, 8 key heads, enable_gqa", "h200", grouped(8, causal=True), "cudnn",
         TAKEN["cudnn"]),
    Case("32 query heads, 8 key heads, enable_gqa", "a100", grouped(8, causal=True), "flash",
         TAKEN["flash"]),
    Case("32 query heads, 8 key heads, enable_gqa", "t4", grouped(8, causal=True), "math",
         f"{HEADER}:437", "efficient"),
    Case("32 query heads, 1 key head, enable_gqa", "a100", grouped(1), "flash", TAKEN["flash"]),
    Case("1 key head, no enable_gqa", "a100", grouped(1, gqa=False), "math", f"{HEADER}:437",
         "flash"),
    Case("grouped, with a mask", "h200", grouped(8, mask=(256, 256)), "cudnn", TAKEN["cudnn"]),
    Case("grouped, with a mask", "a100", grouped(8, mask=(256, 256)), "math", f"{HEADER}:437",
         "efficient"),
    Case("grouped, FP32", "h200", grouped(8, dtype="float32"), "math", f"{HEADER}:437",
         "efficient"),
    # a value head of another size
    Case("head size 192, value 128 (DeepSeek)", "h200", unequal(192, 128), "cudnn",
         TAKEN["cudnn"]),
    Case("head size 192, value 128 (DeepSeek)", "b200", unequal(192, 128), "cudnn",
         TAKEN["cudnn"]),
    Case("head size 192, value 128 (DeepSeek)", "a100", unequal(192, 128), "efficient",
         f"{CPP}:199", "flash"),
    Case("head size 192, value 64", "b200", unequal(192, 64), "efficient", f"{CPP}:647", "cudnn"),
    Case("head size 96, value 64", "t4", unequal(96, 64), "efficient", f"{CPP}:199", "flash"),
    # masks
    Case("boolean mask", "h200", same(64, mask=(128, 128)), "cudnn", TAKEN["cudnn"]),
    Case("boolean mask", "a100", same(64, mask=(128, 128)), "efficient", f"{HEADER}:262",
         "flash"),
    Case("boolean mask, length 100", "a100", same(64, length=100, mask=(2, 1, 1, 100)),
         "efficient", f"{HEADER}:262", "flash"),
    Case("FP32 mask over FP16", "h200", same(64, mask=(2, 1, 128, 128), mask_dtype="float32"),
         "cudnn", TAKEN["cudnn"]),
    Case("learned bias", "h200", same(64, **LEARNED), "efficient", f"{HEADER}:275", "cudnn"),
    Case("learned bias", "a100", same(64, **LEARNED), "efficient", f"{HEADER}:262", "flash"),
    Case("mask of 3 dimensions", "h200", same(64, mask=(8, 128, 128)), "efficient",
         f"{HEADER}:314", "cudnn"),
    Case("learned bias, head size 20", "a100", same(20, **LEARNED), "math", f"{CPP}:285",
         "efficient"),
    # dropout and causal
    Case("dropout 0.1", "h200", same(64, dropout=0.1), "flash", f"{CPP}:590", "cudnn"),
    Case("dropout 0.125", "h200", same(64, dropout=0.125), "cudnn", TAKEN["cudnn"]),
    Case("dropout 0.1", "a100", same(64, dropout=0.1), "flash", TAKEN["flash"]),
    Case("causal", "a100", same(64, causal=True), "flash", TAKEN["flash"]),
    Case("causal, 64 queries over 128 keys", "a100", lengths(64, 128, causal=True), "efficient",
         f"{CPP}:558", "flash"),
    Case("causal, 64 queries over 128 keys", "h200", lengths(64, 128, causal=True), "cudnn",
         TAKEN["cudnn"]),
    # lengths, layout, dimensions
    Case("1 query over 128 keys", "h200", lengths(1, 128), "cudnn", TAKEN["cudnn"]),
    Case("1 key", "h200", lengths(128, 1), "flash", f"{CPP}:680", "cudnn"),
    Case("no keys", "a100", lengths(128, 0), "none", "attention.cpp scaled_dot_product_attention"),
    Case("3 dimensions", "a100", AttentionCall((8, 128, 64), (8, 128, 64), (8, 128, 64)), "math",
         f"{HEADER}:327", "flash"),
    Case("key of batch 1", "a100", AttentionCall((2, 8, 128, 64), (1, 8, 128, 64), (1, 8, 128, 64)),
         "math", f"{HEADER}:417", "flash"),
    Case("query's last stride is 2", "a100", same(64, last_strides=(2, 1, 1)), "math",
         f"{HEADER}:546", "flash"),
    Case("query begins at element 1, FP32", "a100", same(64, dtype="float32", offsets=(1, 0, 0)),
         "math", f"{CPP}:356", "efficient"),
    Case("70,000 batches", "h200", AttentionCall(*[(70000, 1, 2, 8)] * 3),
         "flash", f"{CPP}:605", "cudnn"),
    # switches
    Case("deterministic algorithms", "h200", same(64), "flash", f"{CPP}:843", "cudnn",
         {"deterministic": True}),
    Case("sdpa_kernel(MATH)", "h200", same(64), "math", f"{CPP}:831", "cudnn",
         {"enabled": ["math"]}),
    Case("sdpa_kernel(CUDNN_ATTENTION)", "a100", same(64), "cudnn", TAKEN["cudnn"], "",
         {"enabled": ["cudnn"]}),
    Case("sdpa_kernel(FLASH_ATTENTION)", "t4", same(64), "", f"{CPP}:1110", "",
         {"enabled": ["flash"]}),
)  # fmt: skip


def as_markdown() -> str:
    """The table of docs/attention.md."""
    from amp_lessons.amp.attention import LABELS, choose

    lines = ["| call | GPU | kernel | why | line |", "|---|---|---|---|---|"]
    for case in TABLE:
        choice = choose(case.call, case.gpu, case.switches)
        kernel = LABELS.get(choice.kernel, choice.kernel or "raises")
        lines.append(f"| {case.what} | {case.gpu} | {kernel} | {choice.why} | `{case.line}` |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(as_markdown())
