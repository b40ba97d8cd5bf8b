"""Lesson 08: the numbers that its text states beside its cells, and its helpers in the package.

What a prediction states is proved in the question bank, where it can be computed.
"""

from __future__ import annotations

import math
import re

import pytest
import torch
from stored import Stored
from torch import nn
from torch.nn import functional as F

from amp_lessons.amp.policy import op_policy
from amp_lessons.lessons.experiments import both_halves, kept_by_cross_entropy, rotated

HALF, BFLOAT = torch.float16, torch.bfloat16


STORED = Stored("losses_and_ops")
printed, curves = STORED.printed, STORED.curves


def numbers(text: str) -> list[float]:
    return [float(n) for n in re.findall(r"-?(?:\d[\d,]*\.?\d*(?:e-?\d+)?|inf)|nan", text)]


def test_saturated_pixels_stop_fp16_and_bf16_forgets_the_negative():
    fp32, fp16 = (float(n) for n in re.findall(r"0\.\d+", printed("scaler_path")))
    assert fp32 < 0.053 < 0.074 < fp16
    rows = [numbers(line.partition("pixel")[2]) for line in printed("runs |=").splitlines()]
    assert all(average == pytest.approx(0.052, abs=0.001) for average, _ in rows)
    negative = [error for _, error in rows]
    assert negative[1] > 0.4 > 0.08 > max(negative[0], *negative[2:])


def test_where_each_sigmoid_is_rounded_to_one():
    """The limits of the explanation: 16 in FP32, about 8 in FP16 and 6 in BF16."""
    last = {}
    for dtype in (torch.float32, HALF, BFLOAT):
        logits = torch.arange(30, dtype=dtype)
        last[dtype] = int((torch.sigmoid(logits) < 1).sum()) - 1
    assert last == {torch.float32: 16, HALF: 8, BFLOAT: 6}
    assert torch.sigmoid(torch.tensor([8.2, 8.4]).half()).tolist()[1] == 1 > 0.9999
    assert torch.sigmoid(torch.tensor(8.2).half()) < 1


def test_scale_at_which_the_gradient_fits():
    """5e11 times 2^-8 over 38,400 fits into FP16, and with 2^-7 it doesn't."""
    assert 5e11 * 2**-8 / 38_400 < torch.finfo(HALF).max < 5e11 * 2**-7 / 38_400


def test_cuda_refuses_bce_in_both_formats():
    assert {op_policy("binary_cross_entropy", "cuda", d).group for d in (HALF, BFLOAT)} == {
        "refused"
    }


def test_an_eps_has_to_survive_twice():
    found = curves("RmsNormInFp32")
    assert set(found["eps 1e-06"]) == set(found["eps 0.0001"])
    assert len(set(found["eps 1e-06"])) == 1
    for name in ("eps 0.001", "FP32 inside", "nn.RMSNorm"):
        assert found[name][-1] == pytest.approx(found["FP32"][-1], rel=0.05)
    assert re.findall(r"(\d+) of 120", printed("RmsNormInFp32")) == ["120", "120", "0", "0", "0"]
    for eps, fits in ((0.0006, False), (0.00062, True)):
        cube = torch.tensor(eps).half().rsqrt() ** 3
        assert cube.isfinite().item() == fits


def test_torchs_norms_are_wide_inside_and_fp32_on_cuda():
    x = torch.tensor([[300.0, -300.0, 600.0, -600.0]]).half()
    for y in (F.layer_norm(x, (4,)), F.rms_norm(x, (4,)), F.group_norm(x.unsqueeze(-1), 1)):
        assert y.dtype is HALF
        assert y.flatten().tolist() == pytest.approx([0.632, -0.632, 1.265, -1.265], abs=0.001)
    for op in ("layer_norm", "group_norm", "rms_norm"):
        assert op_policy(op, "cuda", HALF).group == "float32"
        assert op_policy(op, "cpu", HALF).group == "as given"


def test_scores_depend_on_the_position_in_bf16_only():
    *rows, last = printed("rotated").splitlines()[2:]
    scores = [numbers(row)[1:] for row in (*rows, last)]
    assert {fp32 for fp32, _ in scores} == {-8.87}
    assert scores[0][1] == -8.87
    assert numbers(last)[2] < -11


def test_a_decorated_function_learns_as_the_op_does():
    usual, undecorated = printed("learn(torch.matmul)").splitlines()
    decorated = printed("custom_fwd")
    assert numbers(usual)[-1] == numbers(decorated)[-1] < 0.02
    assert "RuntimeError" in undecorated


def test_bytes_that_a_loss_over_a_vocabulary_keeps():
    kept = {
        (device, convert): kept_by_cross_entropy(
            device, convert=convert, tokens=1000, words=100_000
        )
        for device in ("cpu", "cuda")
        for convert in (False, True)
    }
    fp32, bf16 = 4e8, 2e8
    for case, of_logits in {
        ("cpu", False): fp32,
        ("cpu", True): fp32,
        ("cuda", False): fp32 + bf16,
        ("cuda", True): fp32,
    }.items():
        assert kept[case] == pytest.approx(of_logits, rel=0.06), case


def test_numbers_of_the_vocabulary_section():
    gigabytes = 8 * 4096 * 128_000 * 2 / 1e9
    assert gigabytes == pytest.approx(8.4, rel=0.01)
    assert math.log(128_000) == pytest.approx(12, abs=0.3)
    twelve = torch.tensor(12.0, dtype=BFLOAT)
    assert torch.nextafter(twelve, twelve + 1) - twelve == 0.0625


def test_rotated_keeps_lengths_and_depends_on_the_distance():
    draw = torch.Generator().manual_seed(0)
    query, key = torch.randn(2, 8, generator=draw)
    angles = torch.arange(20.0).unsqueeze(1) * torch.tensor([1.0, 0.1, 0.01, 0.001])
    turned = rotated(query, angles)
    assert turned.norm(dim=-1).tolist() == pytest.approx([query.norm().item()] * 20)
    scores = [(turned[i + 3] @ rotated(key, angles[i])).item() for i in range(17)]
    assert scores == pytest.approx([scores[0]] * 17, abs=1e-5)
    assert rotated(query, torch.zeros(4)).tolist() == query.tolist()


def test_both_halves_says_what_each_decorator_does():
    fwd, bwd = torch.amp.custom_fwd(device_type="cpu"), torch.amp.custom_bwd(device_type="cpu")
    wide = torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)

    def words(line: str) -> list[str]:
        return line.replace("forward:", "").replace("backward:", "").replace("input", "").split()

    assert words(both_halves()) == ["float16", "float16", "off"]
    assert words(both_halves(backward_in=BFLOAT)) == ["float16", "float16", "bfloat16"]
    both = both_halves(fwd=fwd, bwd=bwd, backward_in=BFLOAT)
    assert words(both) == ["float16", "float16", "float16"]
    assert words(both_halves(fwd=wide, bwd=bwd)) == ["off", "float32", "off"]
    outside = both_halves(fwd=wide, bwd=bwd, forward_in=None)
    assert words(outside) == ["off", "float16", "off"]
    assert "AttributeError" in both_halves(bwd=bwd)


def test_smallest_normal_numbers_are_no_eps_for_a_scaled_loss():
    for dtype in (torch.float32, BFLOAT):
        p = torch.zeros((), dtype=dtype, requires_grad=True)
        loss = (p + torch.finfo(dtype).smallest_normal).log()
        (loss.float() * 65_536).backward()
        assert p.grad.isinf()


def test_fused_adam_keeps_fp16_averages():
    weights = nn.Parameter(torch.ones(1).half())
    optimizer = torch.optim.Adam([weights], lr=0.01, fused=True)
    weights.grad = torch.tensor([1e-5]).half()
    for _ in range(3):
        optimizer.step()
    assert optimizer.state[weights]["exp_avg_sq"].item() == 0
    assert abs(weights.item() - 0.97) > 0.005
