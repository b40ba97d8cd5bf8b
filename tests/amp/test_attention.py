"""Which kernel attention takes on CUDA: by the table, by PyTorch's own C++, and in a trace."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from attention_calls import TABLE, Case, as_markdown, grouped, same
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from amp_lessons.amp.attention import (
    CAPABILITIES,
    RULES_OF,
    AttentionCall,
    AttentionError,
    Settings,
    capability,
    choose,
    forward_flops,
    order,
)
from amp_lessons.amp.explain import explain_autocast
from amp_lessons.amp.fake_tensors.attention import Attention, attend
from amp_lessons.amp.fake_tensors.calls import GpuCalls
from amp_lessons.amp.fake_tensors.cuda import ensure_cuda_guard
from amp_lessons.amp.memory.training import training_memory

HERE = Path(__file__).parents[1]
RECORDS = {
    version: json.loads((HERE / f"attention_recorded_{version}.json").read_text())
    for version in RULES_OF
}
ROWS = [
    (version, case, answer)
    for version, record in RECORDS.items()
    for case, answer in zip(TABLE, record["answers"], strict=True)
]
RULES = Settings.for_torch(torch.__version__).torch
"""Whose rules a trace shows here: those of the torch that is installed."""
SILENT = [f"sdp_utils_cpp.h:{line}" for line in (275, 297, 301, 293, 315, 319)]


def name(case: Case) -> str:
    return f"{case.what}, {case.gpu}"


# ---- the choice ---------------------------------------------------------------------------------


def test_the_table(subtests):
    for case in TABLE:
        with subtests.test(name(case)):
            choice = choose(case.call, case.gpu, case.switches)
            assert choice.kernel == case.kernel
            assert choice.source[case.refuses or case.kernel] == case.line


def test_pytorchs_own_code_says_the_same(subtests):
    for version, case, answer in ROWS:
        with subtests.test(f"{version}, {name(case)}"):
            row = (answer["what"], answer["gpu"])
            assert row == (case.what, case.gpu), "record_attention.py is due"
            choice = choose(case.call, case.gpu, under(version, case))
            assert (choice.kernel, choice.torch) == (answer["kernel"], version)
            if choice.kernel == "none":  # there the filters are not asked
                continue
            if version == "2.15" and case.what == "3 dimensions":  # the filters were asked before
                continue  # the call got its fourth
            lines = {kernel: choice.source[kernel] for kernel in choice.refused if kernel != "math"}
            silent = {kernel for kernel, line in lines.items() if line in SILENT}
            assert lines | dict.fromkeys(silent, "silent") == answer["lines"]


def under(version: str, case: Case) -> Settings:
    """A row's switches, with the rules and the cuDNN of a version."""
    switches = case.switches
    return Settings.for_torch(
        version, enabled=switches.enabled, deterministic=switches.deterministic
    )


@pytest.mark.parametrize(
    ("version", "rules", "cudnn"),
    [
        ("2.13.0+cpu", "2.13", 92000),
        ("2.13.1", "2.13", 92000),
        ("2.14.1+cu130", "2.15", 92600),
        ("2.15.0+cu132", "2.15", 92600),
        ("3.0.0a0", "2.15", 92600),
    ],
)
def test_each_torch_has_its_rules(version, rules, cudnn):
    settings = Settings.for_torch(version)
    assert (settings.torch, settings.cudnn) == (rules, cudnn)


@pytest.mark.parametrize(
    ("call", "gpu", "kernel", "why"),
    [
        (grouped(8), "t4", "efficient", "flash needs compute capability 8.0 or newer"),
        (grouped(1, gqa=False), "a100", "flash", "PyTorch tries it first"),
        (same(256), "b200", "cudnn", "PyTorch tries it first"),
        (same(200), "h200", "flash", "cuDNN has no backward for head size 200"),
        (
            AttentionCall(*[(8, 128, 64)] * 3, mask=(8, 128, 128)),
            "h200",
            "cudnn",
            "PyTorch tries it",
        ),
    ],
    ids=["grouped", "one key head", "256", "200", "3 dimensions"],
)
def test_what_2_15_does_in_another_way(call, gpu, kernel, why):
    new = choose(call, gpu, Settings.for_torch("2.15.0"))
    assert new.kernel == kernel
    assert why in new.why
    old = choose(call, gpu)
    assert (old.kernel, old.why) != (new.kernel, new.why)


def test_an_older_cudnn_keeps_128_on_blackwell():
    settings = Settings.for_torch("2.15.0", cudnn=92200)
    assert choose(same(256), "b200", settings).refused["cudnn"].endswith("up to 128 here, not 256")


def test_the_table_covers_each_kernel_and_the_records_are_of_their_versions():
    assert {case.kernel for case in TABLE} == {"cudnn", "flash", "efficient", "math", "none", ""}
    assert len(TABLE) >= 40
    assert len({(case.what, case.gpu) for case in TABLE}) == len(TABLE)
    builds = [record["build"] for record in RECORDS.values()]
    assert builds == [
        "torch 2.13.0+cu130 (cf30153c), cuDNN 9.20.0",
        "torch 2.15.0+cu132 (d0f2af8b), cuDNN 9.26.0",
    ]


def test_the_docs_show_the_table():
    page = (HERE.parent / "docs" / "attention.md").read_text(encoding="utf-8")
    assert as_markdown() in page, "put in what python tests/attention_calls.py prints"


def test_why_names_each_kernel_that_was_tried_before():
    call = same(20, mask=(128, 128))
    assert choose(call, "h200").why == (
        "cuDNN needs head sizes that are a multiple of 8, not 20; flash takes no mask; "
        "efficient needs head sizes that are a multiple of 8, not 20"
    )
    assert choose(call, "a100").why.startswith("flash takes no mask; efficient needs")


@pytest.mark.parametrize(
    ("settings", "kernel"),
    [
        (Settings(), "cudnn"),
        (Settings(cudnn_first=False), "flash"),
        (Settings(cudnn=91500), "flash"),
        (Settings(order=("efficient",)), "efficient"),
        (Settings(order=("math",)), "math"),
    ],
)
def test_the_order_can_be_changed(settings, kernel):
    assert choose(same(64), "h200", settings).kernel == kernel


def test_a_build_for_cuda_12_looks_at_the_minor_version_too():
    assert order((10, 1), Settings(cuda=13))[0] == "cudnn"
    assert order((10, 1), Settings(cuda=12))[0] == "flash"
    assert order((10, 3), Settings(cuda=12))[0] == "cudnn"


def test_cudnn_without_dropout_is_told():
    refused = choose(same(64, dropout=0.125), "h200", Settings(cudnn=91300)).refused
    assert "dropout" in refused["cudnn"]


@pytest.mark.parametrize(
    ("gpu", "sm"),
    [
        ("h200", (9, 0)),
        ("NVIDIA H100 80GB HBM3", (9, 0)),
        ("NVIDIA A100-SXM4-80GB", (8, 0)),
        ("Tesla T4", (7, 5)),
        ("Tesla V100-SXM2-16GB", (7, 0)),
        ("RTX 4090", (8, 9)),
        ("NVIDIA GeForce RTX 3090", (8, 6)),
        ("sm86", (8, 6)),
        ("12.1", (12, 1)),
    ],
)
def test_a_gpu_goes_by_many_names(gpu, sm):
    assert capability(gpu) == sm


@pytest.mark.parametrize("gpu", ["h300", "", "mi300x", "gpu", "90000"])
def test_an_unknown_gpu_gets_one_line_with_those_there_are(gpu):
    with pytest.raises(AttentionError) as error:
        choose(same(64), gpu)
    message = str(error.value)
    assert "\n" not in message
    assert all(known in message for known in CAPABILITIES)


def test_the_rules_need_no_torch():
    code = "import sys, amp_lessons.amp.attention; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# ---- the bytes ----------------------------------------------------------------------------------


def fake(mode, shape, dtype, grad=False, last=1, offset=0):
    """A fake CUDA tensor with that stride in its last dimension, and that storage offset."""
    strides: list[int] = []
    size = last
    for length in reversed(shape):
        strides.insert(0, size)
        size *= max(length, 1)
    flat = torch.empty(size + offset, dtype=getattr(torch, dtype), device="meta")
    meta = flat.as_strided(shape, strides, offset)
    return FakeTensor(mode, meta, torch.device("cuda", 0)).requires_grad_(grad)


def as_tensors(call: AttentionCall, mode) -> Attention:
    layout = zip((call.query, call.key, call.value), call.last_strides, call.offsets, strict=True)
    three = [fake(mode, s, call.dtype, call.needs_grad, last, at) for s, last, at in layout]
    mask = None
    if call.mask is not None:
        grad = call.mask_needs_grad
        mask = fake(mode, call.mask, call.mask_dtype, grad, call.mask_last_stride)
    return Attention(*three, mask, call.dropout, call.causal, None, call.gqa)


def saved(call: AttentionCall, kernel: str) -> int:
    """Bytes that autograd keeps of a call in a kernel, each storage once."""
    ensure_cuda_guard()
    mode, sizes, kept = FakeTensorMode(allow_non_fake_inputs=True), {}, []

    def keep(tensor):
        kept.append(tensor)
        sizes[tensor.untyped_storage()._cdata] = tensor.untyped_storage().nbytes()
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor)
    with mode, torch.autocast("cuda", enabled=False), hooks:
        attend(as_tensors(call, mode), kernel)
    return sum(sizes.values())


def test_saved_bytes_are_those_of_pytorchs_own_code(subtests):
    for case, answer in zip(TABLE, RECORDS[RULES]["answers"], strict=True):
        with subtests.test(name(case)):
            if answer["kernel"] == "":
                with pytest.raises(RuntimeError, match="No available kernel"):
                    saved(case.call, "")
            else:
                assert saved(case.call, answer["kernel"]) == answer["saved"]


ROW = 2 * 8 * 128  # batch, heads, length
BY_HAND = {
    # four of query's shape in 16 bit, the log of the softmax's sum in FP32, and random numbers
    "flash": (same(64), "flash", 4 * ROW * 64 * 2 + ROW * 4 + 24),
    "flash, padded from 20 to 24": (same(20), "flash", 4 * ROW * 24 * 2 + ROW * 4 + 24),
    "flash, FP32 is as long": (same(64, dtype="bfloat16"), "flash", 4 * ROW * 128 + ROW * 4 + 24),
    "efficient": (same(64), "efficient", 4 * ROW * 64 * 2 + ROW * 4 + 16),
    "efficient, FP32": (same(64, dtype="float32"), "efficient", 4 * ROW * 64 * 4 + ROW * 4 + 16),
    # lengths are filled up to 32 in the log-sum-exp, to 104 = 13 × 8 in the mask's rows
    "efficient, mask of 100 × 100": (
        same(64, length=100, mask=(100, 100)),
        "efficient",
        4 * 2 * 8 * 100 * 64 * 2 + 2 * 8 * 128 * 4 + 100 * 104 * 2 + 16,
    ),
    # DeepSeek's heads: query and key of 192, value and result of 128
    "efficient, a smaller value": (
        AttentionCall((2, 8, 128, 192), (2, 8, 128, 192), (2, 8, 128, 128)),
        "efficient",
        2 * ROW * 192 * 2 + 2 * ROW * 128 * 2 + ROW * 4 + 16,
    ),
    # grouped: 32 query heads, 8 key and value heads, which stay 8
    "cuDNN, grouped": (
        AttentionCall((2, 32, 128, 64), (2, 8, 128, 64), (2, 8, 128, 64), gqa=True),
        "cudnn",
        2 * (4 * ROW) * 64 * 2 + 2 * ROW * 64 * 2 + 4 * ROW * 4 + 16,
    ),
    "cuDNN, boolean mask": (
        same(64, mask=(2, 1, 1, 128)),
        "cudnn",
        4 * ROW * 64 * 2 + ROW * 4 + 2 * 128 * 2 + 16,
    ),
    # math works in FP32 and keeps three inputs and the matrix of 128 × 128
    "math": (same(64), "math", 3 * ROW * 64 * 4 + ROW * 128 * 4),
    "no gradient": (same(64, needs_grad=False), "flash", 0),
}


@pytest.mark.parametrize(("call", "kernel", "count"), BY_HAND.values(), ids=BY_HAND)
def test_saved_bytes_by_hand(call, kernel, count):
    assert saved(call, kernel) == count


def test_math_keeps_half_as_much_where_16_bit_sums_are_allowed():
    wide = saved(same(64), "math")
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    try:
        assert saved(same(64), "math") * 2 == wide
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(False)


def test_flops_count_query_heads_and_the_values_own_size():
    plain = forward_flops((2, 8, 128, 64), (2, 8, 128, 64), (2, 8, 128, 64))
    assert plain == 2 * 2 * (2 * 8 * 128 * 128 * 64)
    assert forward_flops((2, 8, 128, 64), (2, 2, 128, 64), (2, 2, 128, 64)) == plain
    latent = forward_flops((2, 8, 128, 192), (2, 8, 128, 192), (2, 8, 128, 128))
    assert latent == 2 * (2 * 8 * 128 * 128) * (192 + 128)


# ---- in a trace ---------------------------------------------------------------------------------


class Grouped(nn.Module):
    """Attention with 8 query heads, and 2 key and value heads."""

    def __init__(self, size: int = 64, mask: bool = False) -> None:
        super().__init__()
        self.size, self.mask = size, mask
        self.query = nn.Linear(64, 8 * size, bias=False)
        self.rest = nn.Linear(64, 4 * size, bias=False)

    def forward(self, x):
        batch, length, _ = x.shape
        q = self.query(x).view(batch, length, 8, self.size).transpose(1, 2)
        k, v = self.rest(x).view(batch, length, 4, self.size).transpose(1, 2).chunk(2, 1)
        mask = torch.zeros(length, length, device=x.device) if self.mask else None
        return F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)


def kernels(explained) -> list[str]:
    return list(dict.fromkeys(row.kernel for row in explained.rows if row.kernel))


@pytest.mark.parametrize(
    ("gpu", "kernel"),
    [
        (None, "cudnn"),
        ("h100", "cudnn"),
        ("a100", "flash"),
        ("t4", "math" if RULES == "2.13" else "efficient"),
    ],
)
def test_a_trace_says_which_kernel_and_why(gpu, kernel):
    explained = explain_autocast(Grouped(), torch.randn(2, 16, 64), gpu=gpu)
    assert kernels(explained) == [kernel]
    assert explained.gpu == (gpu or "h200")
    notes = [note for note in explained.notes if note.startswith("attention runs in")]
    assert len(notes) == 1
    assert any(f"PyTorch {RULES} " in note for note in explained.notes)
    why = next(row.kernel_why for row in explained.rows if row.kernel)
    assert explained.gpu in notes[0]
    assert why in notes[0]
    assert [row.kernel for row in explained.rows if row.op == "aten::mm"] == ["", ""]


def test_math_is_float32_and_gives_back_16_bit():
    explained = explain_autocast(Grouped(), torch.randn(2, 16, 64), dtype=torch.bfloat16, gpu="t4")
    products = [row for row in explained.rows if row.op == "aten::bmm"]
    assert [row.computed_in for row in products] == ["float32", "float32"]
    assert explained.rows[-1].dtype_out == "bfloat16"
    # two for each projection, the second time of the activation from nothing: none for attention
    assert [cast.what for row in explained.rows if row.kernel for cast in row.casts] == []


def test_autocast_casts_a_float32_mask_for_attention():
    explained = explain_autocast(Grouped(mask=True), torch.randn(2, 16, 64))
    attention = next(row for row in explained.rows if row.kernel)
    assert attention.op == "aten::_scaled_dot_product_cudnn_attention"
    assert [(cast.source, cast.target) for cast in attention.casts] == [("float32", "float16")]


def test_attention_inside_torchs_own_modules_is_followed():
    attention = nn.MultiheadAttention(64, 4, batch_first=True)
    inputs = [torch.randn(2, 16, 64)] * 3
    explained = explain_autocast(attention, *inputs, kwargs={"need_weights": False}, gpu="a100")
    assert kernels(explained) == ["flash"]
    layer = nn.TransformerEncoderLayer(64, 4, batch_first=True)
    assert kernels(explain_autocast(layer, inputs[0], gpu="h200")) == ["flash"]  # dropout 0.1
    assert kernels(explain_autocast(layer, inputs[0], gpu="h200", train=False)) == ["cudnn"]


def test_sdpa_kernel_inside_a_model_is_followed():
    class Chosen(Grouped):
        def forward(self, x):
            with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
                return super().forward(x)

    explained = explain_autocast(Chosen(20), torch.randn(2, 16, 64), gpu="a100")
    assert kernels(explained) == ["math"]
    why = next(row.kernel_why for row in explained.rows if row.kernel)
    assert why.startswith("flash is switched off; efficient needs head sizes")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key": "float32"}, "same dtype"),
        ({"mask": "int32"}, "attn_mask dtype"),
    ],
)
def test_torchs_own_words_for_a_call_that_it_refuses(change, message):
    ensure_cuda_guard()
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    shape = (2, 8, 16, 64)
    query, value = (fake(mode, shape, "float16") for _ in range(2))
    key = fake(mode, shape, change.get("key", "float16"))
    mask = fake(mode, (16, 16), change["mask"]) if "mask" in change else None
    with mode, pytest.raises(RuntimeError, match=message):
        GpuCalls("cuda", "a100").attention(query, key, value, mask)


def test_saved_bytes_in_training_memory_depend_on_the_gpu():
    model, x = Grouped(), torch.randn(2, 256, 64)
    case = {
        gpu: training_memory(model, x, precision="amp bf16", device="cuda", gpu=gpu).activations
        for gpu in ("h200", "a100", "t4")
    }
    assert 0 <= case["a100"] - case["h200"] < 64  # flash keeps a few more random numbers
    matrix = 2 * 8 * 256 * 256 * 4
    assert case["t4"] - case["a100"] > matrix


def test_an_unknown_gpu_is_told_before_anything_runs():
    for ask in (explain_autocast, training_memory):
        with pytest.raises(AttentionError, match="no GPU is called 'voodoo'"):
            ask(Grouped(), torch.randn(2, 16, 64), gpu="voodoo", device="cuda")
    assert explain_autocast(Grouped(), torch.randn(2, 16, 64), device="cpu").gpu == ""


def test_keys_that_need_no_gradient_leave_the_choice_to_the_query():
    call = replace(same(200), needs_grad=False)
    assert choose(call, "rtx4090").kernel == "flash"
    assert choose(same(200), "rtx4090").kernel == "efficient"


def test_a_model_that_looks_at_attentions_values_is_followed_with_real_ones():
    class Branch(Grouped):
        def forward(self, x):
            y = super().forward(x)
            return y if y.sum() > 0 else -y

    explained = explain_autocast(Branch(), torch.randn(2, 16, 64), values="real")
    assert kernels(explained) == ["cudnn"]
