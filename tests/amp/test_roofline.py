"""The roofline's arithmetic, against NVIDIA's own examples, torch's counter and brute force."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from amp_lessons.amp import roofline
from amp_lessons.amp.roofline import GPUS, Matmul, find_gpu

H200, T4 = find_gpu("H200"), find_gpu("T4")


def test_nvidias_own_example() -> None:
    """From the matrix multiplication guide: FLOPS:B of a V100, and two products on either side."""
    v100 = find_gpu("V100")
    assert v100.ridge("fp16") == pytest.approx(138.9, abs=0.05)
    thin, square = Matmul(8192, 128, 8192), Matmul(8192, 8192, 8192)
    assert thin.intensity("fp16") == pytest.approx(124.1, abs=0.05)
    assert square.intensity("fp16") == pytest.approx(2730, abs=1)
    bounds = [
        roofline.bound(v100, "fp16", work.flops, work.bytes("fp16")) for work in (thin, square)
    ]
    assert bounds == ["bandwidth", "compute"]


def test_the_seeds_run() -> None:
    assert roofline.seed_floor(H200, "fp32") == pytest.approx(2.46, abs=0.005)
    assert roofline.seed_floor(H200, "tf32") == pytest.approx(0.334, abs=0.0005)
    assert roofline.seed_floor(H200, "bf16") == pytest.approx(0.167, abs=0.0005)
    assert roofline.speedup_limit(H200, "fp32", "fp16") == pytest.approx(14.8, abs=0.05)
    assert roofline.speedup_limit(H200, "tf32", "fp16") == 2


def test_the_peaks_are_dense_and_hang_together() -> None:
    assert len({gpu.name for gpu in GPUS}) == len(GPUS) >= 14
    for gpu in GPUS:
        assert gpu.source.startswith("https://"), gpu.name
        assert gpu.fp16 >= 1.99 * gpu.fp32, gpu.name
        assert gpu.bf16 in (None, gpu.fp16), gpu.name
        if gpu.tf32 is not None:
            assert 1.95 <= gpu.fp16 / gpu.tf32 <= 2.1, gpu.name
            assert gpu.tf32 >= gpu.fp32, gpu.name
    assert H200.fp16 == 989
    assert T4.dtypes == find_gpu("V100").dtypes == ("fp32", "fp16")


@pytest.mark.parametrize(
    ("name", "sums_in_fp32", "sums_in_fp16"),
    [("RTX 3090", 71, 142), ("RTX 4090", 165.2, 330.3), ("RTX 5090", 209.5, 419)],
)
def test_geforce_cards_are_listed_with_sums_in_fp32(
    name: str, sums_in_fp32: float, sums_in_fp16: float
) -> None:
    """NVIDIA's white papers print both rates; cuBLAS sums in FP32 unless it is told otherwise."""
    gpu = find_gpu(name)
    assert gpu.fp16 == gpu.bf16 == sums_in_fp32 == pytest.approx(sums_in_fp16 / 2, rel=0.001)
    assert gpu.tf32 == gpu.fp32 == pytest.approx(sums_in_fp32 / 2, rel=0.005)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("NVIDIA H200", "H200"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("NVIDIA A100 80GB PCIe", "A100 PCIe 80GB"),
        ("a100", "A100 SXM 80GB"),
        ("Tesla V100-SXM2-16GB", "V100 SXM2"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA B200", "B200 (HGX)"),
        ("l4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("NVIDIA H100 PCIe", "H100 PCIe"),
        ("H100", "H100 SXM"),
        ("AMD Instinct MI300X", "MI300X"),
    ],
)
def test_names_as_cuda_gives_them(name: str, found: str) -> None:
    assert find_gpu(name).name == found


ROWS = (
    "T4", "V100", "A10G", "RTX 3090", "A100", "L4", "RTX 4090", "L40S", "H100 PCIe", "H100", "H200",
    "B200", "RTX 5090", "MI300X",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        "",
        "RTX",
        "A10",
        "NVIDIA A10",
        "NVIDIA L40",
        "NVIDIA H100 NVL",
        "NVIDIA H100 PCIe MIG 1g.10gb",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 5090 D",
        "AMD Instinct MI325X",
        "NVIDIA A100-PCIE-40GB",
        "NVIDIA H200 NVL",
        "NVIDIA GB200",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb",
    ],
)
def test_a_relative_with_other_peaks_is_not_taken_for_it(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among these rows, so that somebody can add one for the relative."""
    rows = tuple(find_gpu(each) for each in ROWS)
    monkeypatch.setattr(roofline, "GPUS", rows)
    with pytest.raises(ValueError, match=r"no GPU is called .*; there are T4, V100"):
        find_gpu(name)


def test_the_floor_is_the_slower_of_the_two() -> None:
    for gpu in GPUS:
        for dtype in gpu.dtypes:
            for size in (1, 64, 513, 4096):
                work = Matmul(size, 2 * size, 64)
                computing = work.flops / gpu.peak(dtype)
                moving = work.bytes(dtype) / gpu.bytes_per_second()
                floor = roofline.matmul_floor(gpu, dtype, work)
                assert floor == max(computing, moving)
                bound = roofline.bound(gpu, dtype, work.flops, work.bytes(dtype))
                assert (bound == "compute") == (work.intensity(dtype) >= gpu.ridge(dtype))
                reach = gpu.roof(dtype, work.intensity(dtype))
                assert work.flops / floor == pytest.approx(reach)
                share = roofline.share_of_peak(gpu, dtype, work.flops, floor)
                assert share == pytest.approx(reach / gpu.peak(dtype))


@pytest.mark.parametrize("widths", [(3, 5), (784, 64, 10), (4, 8, 16, 8, 4)])
@pytest.mark.parametrize("input_grad", [False, True])
def test_a_training_step_has_the_flops_that_torch_counts(
    widths: tuple[int, ...], input_grad: bool
) -> None:
    layers = [nn.Linear(a, b) for a, b in pairwise(widths)]
    data = torch.randn(7, widths[0], requires_grad=input_grad)
    with FlopCounterMode(display=False) as counter:
        nn.Sequential(*layers)(data).sum().backward()
    products = roofline.training_matmuls(widths, 7, input_grad=input_grad)
    assert roofline.total_flops(products) == counter.get_total_flops()


def test_the_product_that_is_missing() -> None:
    names = [work.name for work in roofline.training_matmuls((4, 4, 4, 4), 2)]
    assert len(names) == 8
    assert "layer 1 gradient of the input" not in names
    assert names[3] == "layer 3 gradient of the weight", "backward begins at the last layer"


def test_bytes_of_a_product() -> None:
    work = Matmul(2, 3, 5)
    assert work.bytes("fp16") == 2 * (2 * 5 + 5 * 3 + 2 * 3)
    assert work.bytes("tf32") == work.bytes("fp32") == 2 * work.bytes("bf16")


def test_rows_of_16_bytes() -> None:
    work = Matmul(m=512, n=516, k=513)
    assert roofline.unaligned(work, "fp16") == roofline.unaligned(work, "bf16") == ("n", "k")
    assert roofline.unaligned(work, "tf32") == ("k",)
    assert roofline.unaligned(work, "fp32") == ()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: T4.peak("bf16"), "T4 has no bf16 tensor cores: choose one of fp32, fp16"),
        (lambda: T4.peak("float16"), "dtype must be one of fp32, tf32, fp16, bf16, got 'float16'"),
        (lambda: Matmul(0, 1, 1), "m must be a whole number, 1 or more, got 0"),
        (lambda: Matmul(1, 2.5, 1), "n must be a whole number, 1 or more, got 2.5"),
        (lambda: Matmul(1, 1, True), "k must be a whole number, 1 or more, got True"),
        (lambda: roofline.matmul_bytes(1, 1, 1, "fp64"), "dtype must be one of"),
        (lambda: roofline.unaligned(Matmul(1, 1, 1), "int8"), "dtype must be one of"),
        (lambda: roofline.share_of_peak(H200, "fp16", 1, 0), "seconds must be positive, got 0"),
        (lambda: roofline.training_matmuls((5,), 1), "widths must name an input and at least one"),
        (lambda: roofline.training_matmuls((5, 0), 1), "n must be a whole number"),
    ],
)
def test_bad_input_gets_one_clear_line(call, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_it_does_not_need_torch() -> None:
    code = "import sys, amp_lessons.amp.roofline, amp_lessons.amp.speed.pretend_gpu; "
    code += "print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_autocasts_cast_reads_four_bytes_and_writes_two():
    h200 = roofline.find_gpu("H200")
    assert roofline.cast_floor(h200, 4096 * 4096) == pytest.approx(6 * 4096**2 / 4.8e12)
    assert roofline.cast_floor(h200, 0) == 0
    with pytest.raises(ValueError, match="elements must be a number, 0 or more, got -1"):
        roofline.cast_floor(h200, -1)
