"""The errors in `amp_lessons/amp/errors/entries/` that need no GPU, raised for real.

`MESSAGES` has a function for each such message; it returns what torch said, one text for each way
to get it. `SYMPTOMS` has one for each silent fault; it asserts the wrong number, and the right one.
"""

from __future__ import annotations

import copy
import gc
import io
import math
import pickle
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from amp_lessons.amp.fake_tensors.modes import autocast_on, quiet
from amp_lessons.amp.memory.training import training_memory
from amp_lessons.amp.policy import op_policy
from amp_lessons.core.messages import said
from amp_lessons.lessons.experiments import without_cuda

HALF, BF16, FP32, FP64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
X = torch.ones(4, 8)
ROWS = torch.arange(4)
NAN = float("nan")


def region(dtype: torch.dtype = HALF, enabled: bool = True, cache: bool = True) -> torch.autocast:
    return torch.autocast("cpu", dtype=dtype, enabled=enabled, cache_enabled=cache)


Loop = tuple[nn.Linear, torch.optim.SGD, torch.amp.GradScaler]


def loop(scale: float = 2.0**16, lr: float = 0.1) -> Loop:
    """A layer of ones, its optimizer and its scaler, after one scaled backward pass."""
    layer = nn.Linear(8, 3)
    nn.init.ones_(layer.weight)
    optimizer = torch.optim.SGD(layer.parameters(), lr=lr)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    scaler.scale(layer(X).mean()).backward()
    return layer, optimizer, scaler


def both_ways(call: Callable[[Tensor, Tensor], Any], one: Tensor, other: Tensor) -> list[str]:
    """What an op says about FP32 and half, half and FP32, and FP32 and BF16."""
    pairs = [(FP32, HALF), (HALF, FP32), (FP32, BF16)]
    return [said(lambda a=a, b=b: call(one.to(a), other.to(b))) for a, b in pairs]


# ---- the scaler ----------------------------------------------------------------------------------


def unscale_fp16_gradients() -> list[str]:
    layer = nn.Linear(8, 3).half()
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(layer(X.half()).sum()).backward()
    return [said(lambda: scaler.unscale_(torch.optim.SGD(layer.parameters())))]


def no_inf_checks_for_this_optimizer() -> list[str]:
    _, _, scaler = loop()
    other = torch.optim.SGD(nn.Linear(8, 3).parameters())
    return [said(lambda: scaler.step(other))]


def no_inf_checks_prior_to_update() -> list[str]:
    return [said(loop()[2].update)]


def unscale_already_called() -> list[str]:
    _, optimizer, scaler = loop()
    scaler.unscale_(optimizer)
    return [said(lambda: scaler.unscale_(optimizer))]


def unscale_after_step() -> list[str]:
    _, optimizer, scaler = loop()
    scaler.step(optimizer)
    return [said(lambda: scaler.unscale_(optimizer))]


def step_already_called() -> list[str]:
    _, optimizer, scaler = loop()
    scaler.step(optimizer)
    return [said(lambda: scaler.step(optimizer))]


def scale_is_none() -> list[str]:
    optimizer = loop()[1]
    scaler = torch.amp.GradScaler("cpu")
    calls = (lambda: scaler.step(optimizer), lambda: scaler.unscale_(optimizer), scaler.update)
    return [said(call) for call in calls]


def scheduler_before_optimizer() -> list[str]:
    layer, optimizer, scaler = loop()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    next(layer.parameters()).grad = torch.full((3, 8), torch.inf)
    scaler.step(optimizer)  # skipped
    scaler.update()
    return [said(schedule.step)]


def closure_with_scaler() -> list[str]:
    layer, _, scaler = loop()
    lbfgs = torch.optim.LBFGS(layer.parameters())
    return [said(lambda: scaler.step(lbfgs, closure=lambda: 0.0))]


def scaler_without_cuda() -> list[str]:
    with without_cuda():
        return [said(lambda: torch.amp.GradScaler("cuda"))]


def scaler_state_dict_empty() -> list[str]:
    saved = torch.amp.GradScaler("cpu", enabled=False).state_dict()
    assert saved == {}
    return [said(lambda: torch.amp.GradScaler("cpu").load_state_dict(saved))]


def scaler_pickled() -> list[str]:
    _, optimizer, scaler = loop()
    scaler.unscale_(optimizer)
    early = said(lambda: pickle.dumps(scaler))
    scaler.step(optimizer)
    scaler.update()
    file = io.BytesIO()
    torch.save(scaler, file)
    file.seek(0)
    return [early, said(lambda: torch.load(file))]


def anomaly_mode_nan() -> list[str]:
    model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 3))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40)

    def backward() -> None:
        with torch.autograd.set_detect_anomaly(True):
            with region():
                output = model(X)
            scaler.scale(output.float().sum()).backward()

    return [said(backward).splitlines()[-1]]


def init_scale_passed_as_device() -> None:
    assert torch.amp.GradScaler(1024.0).get_scale() == 65536
    assert torch.amp.GradScaler("cpu", init_scale=1024.0).get_scale() == 1024


def optimizer_step_beside_scaler() -> None:
    moved = {}
    for who in ("optimizer", "scaler"):
        layer, optimizer, scaler = loop()
        optimizer.step() if who == "optimizer" else scaler.step(optimizer)
        moved[who] = 1 - layer.weight[0, 0].item()
    assert round(moved["optimizer"] / moved["scaler"], -2) == 65500


def backward_after_unscale() -> None:
    weight = torch.zeros(1, requires_grad=True)
    optimizer, scaler = torch.optim.SGD([weight]), torch.amp.GradScaler("cpu")
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    assert weight.grad is not None
    assert weight.grad.item() == 1
    scaler.scale(weight.sum()).backward()
    assert weight.grad.item() == 65537  # and 2 if unscale_ had come last


def clip_before_unscale() -> None:
    moved = {}
    for first in ("clip", "unscale_"):
        layer, optimizer, scaler = loop()
        if first == "unscale_":
            scaler.unscale_(optimizer)
        norm = nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        scaler.step(optimizer)
        moved[first] = norm.item(), 1 - layer.weight[0, 0].item()
    assert moved["clip"][0] > 10_000 > 10 > moved["unscale_"][0]
    assert moved["clip"][1] < 1e-5 < 1e-2 < moved["unscale_"][1]


def scale_keeps_falling() -> None:
    scales = {}
    for dtype in (HALF, BF16):
        layer, optimizer, scaler = loop()
        before = layer.weight.clone()
        for _ in range(200):
            optimizer.zero_grad()
            with region(dtype):
                hidden = layer(X * 1e5)  # 800,000 in BF16, inf in FP16
            scaler.scale(hidden.float().mean() * 1e-6).backward()
            scaler.step(optimizer)
            scaler.update()
        scales[dtype] = scaler.get_scale(), torch.equal(layer.weight, before)
    assert scales == {HALF: (0.0, True), BF16: (65536.0, False)}


def accumulation_without_division() -> None:
    def gradient(parts: int, divide: int) -> float:
        weight = torch.zeros(1, requires_grad=True)
        optimizer, scaler = torch.optim.SGD([weight]), torch.amp.GradScaler("cpu")
        for batch in torch.arange(8.0).chunk(parts):
            scaler.scale((weight * batch).mean() / divide).backward()
        scaler.unscale_(optimizer)
        assert weight.grad is not None
        return weight.grad.item()

    assert gradient(4, divide=1) == 4 * gradient(1, divide=1) == 4 * gradient(4, divide=4) == 14


def two_optimizers_two_updates() -> None:
    def second_moved(updates: int) -> float:
        weights = [torch.zeros(1, requires_grad=True) for _ in "ab"]
        first, second = (torch.optim.SGD([weight], lr=1) for weight in weights)
        scaler = torch.amp.GradScaler("cpu")
        for weight, size in zip(weights, (torch.inf, 1.0), strict=True):
            scaler.scale((weight * size).sum()).backward()
        scaler.step(first)
        if updates == 2:
            scaler.update()
        scaler.step(second)
        scaler.update()
        return -weights[1].item()

    assert (second_moved(updates=1), second_moved(updates=2)) == (1, 2)


def gradient_underflow() -> None:
    def gradient(scaled: bool, dtype: torch.dtype = HALF) -> float:
        weight = torch.ones(1, requires_grad=True)
        optimizer, scaler = torch.optim.SGD([weight]), torch.amp.GradScaler("cpu", enabled=scaled)
        scaler.scale((weight.to(dtype) * 1e-4).float().sum() * 1e-5).backward()
        scaler.unscale_(optimizer)
        assert weight.grad is not None
        return weight.grad.item()

    assert gradient(scaled=False) == 0
    assert math.isclose(gradient(scaled=True), 1e-9, rel_tol=1e-2)
    assert math.isclose(gradient(scaled=False, dtype=BF16), 1e-9, rel_tol=1e-2)
    assert torch.tensor(2.98e-8).half() == 0 < torch.tensor(2.99e-8).half()


def gradient_overflow() -> None:
    weight = torch.ones(1, requires_grad=True)
    optimizer, scaler = torch.optim.SGD([weight]), torch.amp.GradScaler("cpu", init_scale=2.0**16)
    scales = []
    for _ in range(3):
        optimizer.zero_grad()
        scaler.scale(weight.half().float().sum() * 1.5).backward()  # 98304, then 49152
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    assert scales == [2.0**15] * 3
    assert weight.item() < 1


def loss_not_scaled() -> None:
    layer, optimizer, scaler = loop()
    optimizer.zero_grad()
    layer(X).mean().backward()
    true = nn.utils.get_total_norm([p.grad for p in layer.parameters() if p.grad is not None])
    scaler.unscale_(optimizer)
    found = nn.utils.get_total_norm([p.grad for p in layer.parameters() if p.grad is not None])
    assert round((true / found).item()) == 65536


def inf_gradients_not_cleared() -> None:
    def after_an_overflow(clear: str) -> list[float]:
        weight, scales = torch.ones(1, requires_grad=True), []
        optimizer, scaler = torch.optim.SGD([weight]), torch.amp.GradScaler("cpu")
        for size in (torch.inf, 1.0, 1.0):
            scaler.scale((weight * size).sum()).backward()
            before = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
            if clear == "always" or scales[-1] >= before:
                optimizer.zero_grad()
        return scales

    assert after_an_overflow("after a step") == [2.0**15, 2.0**14, 2.0**13]
    assert after_an_overflow("always") == [2.0**15] * 3


# ---- mixed dtypes --------------------------------------------------------------------------------


def two_dtypes_under_autocast() -> None:
    buffer, layer = torch.zeros(4, 3), nn.Linear(8, 3)
    with region():
        out = layer(X)
        assert "dtypes match" in said(lambda: buffer.index_put_((ROWS,), out))
        assert "dtype" in said(lambda: torch.linalg.solve(torch.eye(4).double(), torch.ones(4)))
        assert torch.equal(buffer.index_put_((ROWS,), out.to(buffer.dtype)), out.float())


def in_place_keeps_16_bits() -> None:
    one, small = torch.ones(2, dtype=HALF), torch.full((2,), 1e-4)
    with region():
        assert (one + small).dtype is FP32
        assert (one + small).min() > 1
        one += small
    assert one.dtype is HALF
    assert one.tolist() == [1, 1]


def rms_norm_dtype_changed() -> None:
    assert op_policy("rms_norm", "cuda").low is FP32
    assert op_policy("rms_norm", "cpu").low is HALF


def recomputed_outside_autocast() -> None:
    class Recompute(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, layer: Any, x: Tensor) -> Tensor:
            ctx.layer = layer
            ctx.save_for_backward(x)
            result: Tensor = layer(x)
            return result

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor | None]:
            again = ctx.saved_tensors[0].detach().requires_grad_()
            with torch.enable_grad():
                output = ctx.layer(again)
            torch.autograd.backward(output, grad)
            return None, again.grad

    def dtypes(run: Callable[[nn.Module, Tensor], Tensor]) -> list[torch.dtype]:
        layer, found = nn.Linear(8, 3), []
        layer.register_forward_hook(lambda _, args, out: found.append(out.dtype))
        with region():
            loss = run(layer, X.clone().requires_grad_()).float().sum()
        loss.backward()
        return found

    assert dtypes(Recompute.apply) == [HALF, FP32]
    with set_checkpoint_early_stop(False):  # so that the hook sees the second pass
        assert dtypes(lambda layer, x: checkpoint(layer, x, use_reentrant=False)) == [HALF, HALF]


def expected_scalar_type() -> list[str]:
    prelu = both_ways(F.prelu, X, torch.ones(1))
    images, grid = torch.ones(1, 1, 4, 4), torch.zeros(1, 2, 2, 2)
    return [
        *prelu,
        *both_ways(torch.bmm, X[None], torch.ones(1, 8, 3)),
        *both_ways(lambda a, b: torch.einsum("bi,bij->bj", a, b), X, torch.ones(4, 8, 3)),
        *both_ways(lambda a, b: torch.baddbmm(b, a, a), torch.ones(1, 8, 8), torch.ones(1, 8, 8)),
        *both_ways(lambda a, b: F.grid_sample(a, b, align_corners=False), images, grid),
        said(lambda: F.cross_entropy(X, ROWS, weight=torch.ones(8, dtype=HALF))),
    ]


def mat1_mat2_same_dtype() -> list[str]:
    bias, weight = torch.ones(3), torch.ones(3, 8)
    return [
        *both_ways(lambda a, b: F.linear(a, b, bias.to(b.dtype)), X, weight),
        *both_ways(F.linear, X, weight),
        *both_ways(lambda a, b: torch.addmm(a, X.to(b.dtype), b), bias, weight.t()),
        *both_ways(torch.mv, X, torch.ones(8)),
        *both_ways(torch.dot, bias, bias),
    ]


def conv_input_and_weight_type() -> list[str]:
    images, weight, bias = torch.ones(8, 16, 32, 32), torch.ones(32, 16, 3, 3), torch.ones(32)
    with_bias = both_ways(lambda a, b: F.conv2d(a, b, bias.to(b.dtype)), images, weight)
    without = [said(lambda d=d: F.conv2d(images, weight.to(d))) for d in (HALF, BF16)]
    return with_bias + without


def rnn_input_dtype() -> list[str]:
    layers = (nn.LSTM(8, 4), nn.GRU(8, 4), nn.RNN(8, 4))
    kept = torch.zeros(1, 4, dtype=BF16)
    inputs = [said(lambda n=n, d=d: n(X.to(d))) for n in layers for d in (HALF, BF16)]
    return [*inputs, said(lambda: nn.LSTM(8, 4)(X, (kept, kept)))]


def norm_mixed_dtype_cpu() -> list[str]:
    norms = (nn.LayerNorm(8), nn.GroupNorm(2, 8), nn.BatchNorm1d(8))
    for norm in norms:
        assert "mixed dtype" not in said(lambda n=norm: n(X.half()))

    def in_a_region() -> None:
        with region(BF16):
            nn.LayerNorm(8).bfloat16()(X)

    return [said(lambda n=norm: n.half()(X)) for norm in norms] + [said(in_a_region)]


def rms_norm_not_fused() -> list[str]:
    torch._C._set_warnAlways(True)  # else it warns once a process
    try:
        return [said(lambda: F.rms_norm(X.half(), (8,), torch.ones(8)))]
    finally:
        torch._C._set_warnAlways(False)


def sdpa_same_dtype() -> list[str]:
    x = X[None, None]

    def attend(a: Tensor, b: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(a, a, b)

    with region():
        assert attend(x, x.half()).dtype is HALF
    with quiet(), FakeTensorMode():
        fake = torch.ones(1, 1, 4, 8, device="cuda")
        on_cuda = both_ways(attend, fake, fake)
    return both_ways(attend, x, x) + on_cuda


def found_dtype_but_expected() -> list[str]:
    p, target = torch.full((3,), 0.5), torch.ones(3)

    def huber() -> None:
        F.huber_loss(p.half().requires_grad_(), target).backward()

    return [*both_ways(F.binary_cross_entropy, p, target), said(huber)]


def lerp_end_dtype() -> list[str]:
    def cast_too_late() -> None:
        layer = nn.Linear(8, 3)
        adam = torch.optim.Adam(layer.parameters())
        for dtype in (FP32, HALF):
            layer.to(dtype)(X.to(dtype)).sum().backward()
            adam.step()
            adam.zero_grad()

    ema = both_ways(lambda a, b: a.clone().lerp_(b, 0.5), X, X)
    return [*ema, said(cast_too_late)]


def _gradient_of_another_dtype() -> nn.Parameter:
    weight = nn.Parameter(torch.ones(3))
    weight.grad_dtype = None
    weight.grad = torch.ones(3, dtype=HALF)
    return weight


def fused_adam_same_dtype() -> list[str]:
    return [
        said(lambda k=k: torch.optim.AdamW([_gradient_of_another_dtype()], **{k: True}).step())
        for k in ("fused", "foreach")
    ]


def assign_gradient_dtype() -> list[str]:
    weight = nn.Parameter(torch.ones(3))
    text = said(lambda: setattr(weight, "grad", torch.ones(3, dtype=HALF)))
    assert "dtype" in said(torch.optim.Adam([_gradient_of_another_dtype()]).step)  # the wrong cure
    return [text]


def scatter_self_src_dtype() -> list[str]:
    index, zeros = ROWS.view(4, 1), torch.zeros(4, 8)

    def in_a_region() -> Tensor:
        with region():
            return zeros.scatter_add(0, index, X @ torch.ones(8, 8))

    return [
        *both_ways(lambda a, b: a.scatter(0, index, b), zeros, X),
        *both_ways(lambda a, b: a.scatter_add(0, index, b), zeros, X),
        *both_ways(lambda a, b: a.scatter_reduce(0, index, b, "sum"), zeros, X),
        said(in_a_region),
    ]


def index_put_dtypes() -> list[str]:
    def rows(a: Tensor, b: Tensor) -> None:
        a.clone()[ROWS] = b

    def mask(a: Tensor, b: Tensor) -> None:
        a.clone()[a > 0] = b.flatten()

    def a_slice(a: Tensor, b: Tensor) -> None:
        a.clone()[:] = b

    assert both_ways(a_slice, X, X) == ["", "", ""]
    return both_ways(rows, X, X) + both_ways(mask, X, X)


def index_add_dtypes() -> list[str]:
    return [
        *both_ways(lambda a, b: a.clone().index_add_(0, ROWS, b), X, X),
        *both_ways(lambda a, b: a.clone().index_copy_(0, ROWS, b), X, X),
        *both_ways(lambda a, b: a.clone().index_reduce_(0, ROWS, b, "mean"), X, X),
        *both_ways(lambda a, b: a.masked_scatter(a > 0, b), X, X),
    ]


def out_tensor_dtype() -> list[str]:
    def in_a_region() -> None:
        with region():
            torch.mm(X, torch.ones(8, 3), out=torch.zeros(4, 3, dtype=HALF))

    products = both_ways(lambda a, b: torch.mm(a, a.t(), out=b), X, torch.zeros(4, 4))
    return [*products, said(in_a_region)]


def float64_input() -> list[str]:
    batch, images = X.double(), torch.ones(1, 1, 5, 5, dtype=FP64)

    def forward(layer: nn.Module, x: Tensor, enabled: bool = True) -> None:
        with region(BF16, enabled):
            layer(x)

    layers = (nn.Linear(8, 3), nn.Linear(8, 3, bias=False))
    return [
        *(said(lambda n=n, e=e: forward(n, batch, e)) for n in layers for e in (True, False)),
        said(lambda: forward(nn.Conv2d(1, 1, 3), images, enabled=False)),
        said(lambda: torch.bmm(X[None], batch.t()[None])),
        said(lambda: F.binary_cross_entropy(torch.full((3,), 0.5), torch.ones(3).double())),
    ]


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return x @ weight.t()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, weight = ctx.saved_tensors
        return grad @ weight, grad.t() @ x


def custom_function_backward() -> list[str]:
    weight = torch.ones(3, 8, requires_grad=True)
    with region():
        loss = _Product.apply(X, weight).sum()
    try:
        loss.backward()
    except RuntimeError:
        return [traceback.format_exc()]
    return []


def checkpoint_recomputed_metadata() -> list[str]:
    layer, on = nn.Linear(8, 8), [True, False]

    def block(x: Tensor) -> Tensor:
        with region(enabled=on.pop(0)):
            return layer(x).float().sin()

    output = checkpoint(block, X.clone().requires_grad_(), use_reentrant=False)
    return [said(output.sum().backward)]


def autocast_not_in_thread() -> None:
    layer, found = nn.Linear(8, 3), []

    @region(BF16)
    def batches() -> Iterator[torch.dtype]:
        yield layer(X).dtype

    with region(BF16):
        thread = threading.Thread(target=lambda: found.append(layer(X).dtype))
        thread.start()
        thread.join()
        found.append(layer(X).dtype)
    assert found == [FP32, BF16]
    assert list(batches()) == [FP32]


# ---- kernels and devices -------------------------------------------------------------------------


def linalg_not_implemented_for_half() -> list[str]:
    eye, linalg = torch.eye(4), torch.linalg
    ops = (
        *(linalg.svd, linalg.inv, linalg.qr, linalg.cholesky, linalg.det, linalg.eigh, linalg.pinv),
        *(linalg.slogdet, lambda a: linalg.matrix_norm(a, 2), lambda a: linalg.solve(a, a)),
        nn.init.orthogonal_,
    )
    outside = [said(lambda op=op, d=d: op(eye.to(d))) for op in ops for d in (HALF, BF16)]

    def inside(op: Callable[[Tensor], Any]) -> None:
        with region():
            op(eye @ eye)

    assert [said(lambda op=op: inside(op)) for op in (linalg.svd, linalg.inv)] == ["", ""]
    return outside + [said(lambda op=op: inside(op)) for op in (linalg.det, linalg.pinv)]


def cufft_half_powers_of_two() -> list[str]:
    window = torch.ones(16)

    def stft(dtype: torch.dtype) -> None:
        torch.stft(torch.ones(64, dtype=dtype), 16, window=window.to(dtype), return_complex=True)

    def inside() -> None:
        with region():
            assert torch.fft.rfft(X.half()).dtype is torch.complex64

    assert said(inside) == ""
    return [said(lambda d=d: torch.fft.rfft(X.to(d))) for d in (HALF, BF16)] + [
        said(lambda: stft(HALF))
    ]


def ctc_loss_not_implemented() -> list[str]:
    lengths = torch.tensor([5]), torch.tensor([2])
    logits, target = torch.zeros(5, 1, 3), torch.tensor([[1, 2]])
    return [
        said(lambda d=d: F.ctc_loss(logits.to(d).log_softmax(-1), target, *lengths))
        for d in (HALF, BF16)
    ]


def op_not_implemented_for_half() -> list[str]:
    ops: tuple[Callable[[Tensor], Any], ...] = (
        lambda x: x.quantile(0.5),
        lambda x: torch.cdist(x, x),
        torch.pdist,
        lambda x: F.multi_margin_loss(x, ROWS),
    )
    return [said(lambda op=op: op(X.half())) for op in ops]


def autocast_cuda_not_available() -> list[str]:
    with without_cuda():
        return [said(lambda: torch.autocast("cuda"))]


def autocast_target_dtype() -> list[str]:
    return [said(lambda d=d: torch.autocast("cpu", dtype=d)) for d in (FP32, FP64)]


def autocast_device_type_str() -> list[str]:
    assert "cpu:0" not in said(lambda: torch.autocast("cpu:0"))
    calls: tuple[Callable[[], Any], ...] = (
        lambda: torch.autocast(X.device),
        lambda: torch.autocast(),
        lambda: torch.amp.custom_fwd(abs, device_type=X.device),
        lambda: torch.amp.custom_fwd(abs),
        lambda: torch.amp.custom_bwd(abs),
    )
    return [said(call) for call in calls]


def torch_cuda_amp_deprecated() -> list[str]:
    cuda, cpu = torch.cuda.amp, torch.cpu.amp
    calls: tuple[Callable[[], Any], ...] = (
        *(cuda.autocast, cuda.GradScaler, cpu.autocast, cpu.GradScaler),
        lambda: cuda.custom_fwd(abs),
        lambda: cuda.custom_bwd(abs),
    )
    return [said(call).splitlines()[0] for call in calls]


# ---- numbers -------------------------------------------------------------------------------------


def value_cannot_be_converted_to_half() -> list[str]:
    half, mask = X.half(), X > 0
    assert half.add(1e9).isinf().all()  # no message for this one
    calls: tuple[Callable[[], Any], ...] = (
        lambda: half.masked_fill(mask, -1e9),
        lambda: half.masked_fill(mask, torch.finfo(BF16).min),
        lambda: torch.full((2,), 1e9, dtype=HALF),
        lambda: half.clamp(max=1e9),
    )
    return [said(call) for call in calls]


def nan_rows_from_two_masks() -> None:
    least = torch.finfo(HALF).min
    scores = torch.zeros(1, 3, dtype=HALF)
    both = scores + least + least
    assert both.isinf().all()
    assert both.softmax(-1).isnan().all()
    assert scores.masked_fill(torch.ones(1, 3) > 0, least).softmax(-1).isfinite().all()


def trainer_loss_zero_grad_norm_nan() -> None:
    norms = {}
    for dtype in (HALF, BF16):
        layer = nn.Linear(8, 3)
        with region(dtype):
            loss = layer(X * 1e5).pow(2).mean()
        loss.backward()
        norms[dtype] = nn.utils.get_total_norm([layer.weight.grad]).item()
    assert math.isnan(norms[HALF])
    assert math.isfinite(norms[BF16])


def nan_loss_after_some_epochs() -> None:
    p = torch.tensor([0.0, 1.0])
    assert (p.half() * (p.half() + 1e-8).log()).sum().isnan()
    assert (p * (p + 1e-8).log()).sum().abs() < 1e-6


def probability_tensor_inf_nan() -> list[str]:
    rows = ([0.5, NAN], [torch.inf, 1.0], [-0.5, 1.0])
    return [said(lambda row=row: torch.multinomial(torch.tensor(row), 1)) for row in rows]


def log_of_a_probability() -> None:
    logits = torch.tensor([20.0, 0.0, -20.0], dtype=HALF)
    p = logits.softmax(0)
    assert p.log().isinf().any()
    assert (p * (p + 1e-8).log()).sum().isnan()
    assert (1 - torch.tensor(0.9999).half()).log().isinf()
    log_p = logits.log_softmax(0)
    assert (log_p.exp() * log_p).sum().isfinite()
    assert torch.tensor(1e-8).half() == 0


def eps_zero_in_fp16() -> None:
    zero = torch.zeros(1, dtype=HALF)
    assert (zero / (zero + 1e-8)).isnan()
    assert (zero + 1e-12).log().isinf()
    assert slope(lambda x: (x + 1e-8).sqrt(), 0.0, HALF) == math.inf
    assert (zero.float() / (zero.float() + 1e-8)).item() == 0
    assert (zero / (zero + 6.2e-5)).item() == 0
    assert torch.finfo(HALF).tiny < 6.2e-5


def slope(function: Callable[[Tensor], Tensor], at: float, dtype: torch.dtype = FP32) -> float:
    """The derivative of a function, as autograd computes it."""
    x = torch.tensor(at, dtype=dtype, requires_grad=True)
    (found,) = torch.autograd.grad(function(x), x)
    return found.item()


def infinite_slope() -> None:
    assert slope(torch.sqrt, 0.0) == slope(torch.log, 0.0) == math.inf
    assert slope(torch.acos, 1.0) == -math.inf
    assert math.isnan(slope(lambda x: (x * x).sqrt(), 0.0))
    assert math.isnan(slope(lambda x: torch.where(x > 0, (x * x).log(), 0.0), 0.0))
    assert slope(lambda x: (x * x + 1e-6).sqrt(), 0.0) == 0
    assert slope(lambda x: torch.where(x > 0, (x * x).clamp(min=1e-6).log(), 0.0), 0.0) == 0


def cancellation() -> None:
    x = (100 + torch.arange(64.0) / 64).half()
    assert ((x * x).mean() - x.mean() ** 2).item() < 0
    assert ((x * x).mean() - x.mean() ** 2).sqrt().isnan()
    assert 0.08 < x.float().var() < 0.09


def activation_overflow() -> None:
    x = torch.full((4, 4), 300.0)
    assert (x.half() * x.half()).isinf().all()
    assert (x.bfloat16() * x.bfloat16()).isfinite().all()
    with region():
        assert (x @ x).isinf().all()
        assert ((x / 16) @ x).isfinite().all()
        with region(enabled=False):
            assert (x @ x).isfinite().all()


def exp_overflow() -> None:
    logits = torch.tensor([12.0, 0.0], dtype=HALF)
    assert logits.exp().isinf().any()
    assert (logits - logits.max()).exp().isfinite().all()
    assert logits.logsumexp(0).isfinite()
    assert torch.tensor(math.exp(11.08)).half().isfinite()
    assert torch.tensor(math.exp(11.1)).half().isinf()
    assert torch.tensor([88.7, 88.8]).exp().isinf().tolist() == [False, True]
    assert torch.tensor([88.5, 89.0], dtype=BF16).exp().isinf().tolist() == [False, True]


def activation_underflow() -> None:
    assert (X.half() * 1e-8).sum() == 0
    assert (X.half().float() * 1e-8).sum() > 0


def sum_overflow() -> None:
    x = torch.full((1000,), 100.0, dtype=HALF)
    assert x.sum().isinf()
    assert x.cumsum(0)[-1].isinf()
    assert (x * torch.tensor([1.0, -1.0]).half().repeat(500) * 3).var().isinf()
    assert x.float().sum() == x.cumsum(0, dtype=FP32)[-1] == 100_000


def integers_round_in_16_bits() -> None:
    for dtype, most in ((HALF, 2048), (BF16, 256)):
        first = torch.arange(most + 1)
        assert torch.equal(first.to(dtype).long(), first)
        assert torch.tensor(most + 1).to(dtype) == torch.tensor(most).to(dtype)
        count = torch.tensor(float(most), dtype=dtype)
        assert count + 1 == count
    assert torch.tensor(2049.0) + 1 == 2050


def running_average_stalls() -> None:
    for dtype, moves in ((HALF, False), (BF16, False), (FP32, True)):
        average = torch.ones(1, dtype=dtype)
        for _ in range(1000):
            average.lerp_(torch.full_like(average, 0.9), 0.001)
        assert (average.item() < 0.95) == moves, dtype


def fp16_weights() -> None:
    one, large = torch.ones(1, dtype=HALF), torch.full((1,), 6e4, dtype=HALF)
    assert (one - 1 / 4096).item() == 1 > (one - 1 / 4000).item()
    assert (large + 1e4).isinf()
    assert "FP16 gradients" in unscale_fp16_gradients()[0]
    assert (one.float() - 1 / 4096).item() < 1


def batchnorm_in_fp16() -> None:
    features = torch.tensor([[6e4], [-6e4], [3e4]], dtype=HALF)
    for norm, broken in ((nn.BatchNorm1d(1).half(), True), (nn.BatchNorm1d(1), False)):
        with region():
            norm.train()(features)
            assert norm.running_var is not None
            assert norm.running_var.isinf().item() == broken
            assert (norm.eval()(features) == 0).all().item() == broken


def nan_in_the_batch() -> None:
    batch = X.clone()
    batch[0, 0] = NAN
    for dtype in (HALF, FP32):
        with region(dtype, enabled=dtype is HALF):
            assert nn.Linear(8, 3)(batch).isnan().any()
    clean = batch[torch.isfinite(batch).all(1)]
    assert nn.Linear(8, 3)(clean).isfinite().all()


def nan_in_weights() -> None:
    layer, optimizer, scaler = loop()
    layer.load_state_dict({"weight": torch.full((3, 8), NAN), "bias": torch.zeros(3)})
    optimizer.zero_grad()
    scaler.scale(layer(X).sum()).backward()
    assert layer(X).isnan().all()
    assert layer.weight.grad is not None
    assert layer.weight.grad.isfinite().all()  # nobody skips this step


def training_diverges() -> None:
    def loss_after(lr: float, clip: float, dtype: torch.dtype) -> float:
        weight = torch.ones(1, requires_grad=True)
        optimizer = torch.optim.SGD([weight], lr=lr)
        for _ in range(200):
            optimizer.zero_grad()
            (weight.to(dtype) ** 2).float().sum().backward()
            nn.utils.clip_grad_norm_([weight], clip)
            optimizer.step()
        return (weight**2).item()

    for dtype in (FP32, BF16):
        assert not math.isfinite(loss_after(3.0, math.inf, dtype))
        assert loss_after(0.1, math.inf, dtype) < 1e-3
        assert loss_after(3.0, 1.0, dtype) < 10


def nan_in_fp32_too() -> None:
    for dtype in (FP32, BF16, FP64):
        zero = torch.zeros(1, dtype=dtype)
        assert (zero / zero).isnan()
        assert zero.log().isinf()
        assert (zero - 1).sqrt().isnan()


def mean_of_nothing() -> None:
    chosen = X[X > 1]
    assert chosen.mean().isnan()
    assert chosen.sum() / max(len(chosen), 1) == 0


def variance_of_one_number() -> None:
    with quiet():
        assert torch.ones(1).var().isnan()
        assert torch.ones(1).std().isnan()
        assert torch.ones(1).var(correction=0) == 0


def all_targets_ignored() -> None:
    logits, targets = torch.randn(4, 3), torch.full((4,), -100)
    assert F.cross_entropy(logits, targets).isnan()
    assert F.cross_entropy(logits, targets, reduction="sum") / max((targets >= 0).sum(), 1) == 0


def ctc_target_too_long() -> None:
    def loss(steps: int, target: list[int], zero: bool = False) -> Tensor:
        log_p = torch.zeros(steps, 1, 4).log_softmax(-1)
        lengths = torch.tensor([steps]), torch.tensor([len(target)])
        return F.ctc_loss(log_p, torch.tensor([target]), *lengths, zero_infinity=zero)

    assert loss(2, [1, 2, 3]).isinf()
    assert loss(3, [1, 2, 3]).isfinite()
    assert loss(2, [1, 1]).isinf()
    assert loss(3, [1, 1]).isfinite()
    assert loss(2, [1, 2, 3], zero=True) == 0


def weight_norm_zero_row() -> None:
    for start, broken in ((0.0, True), (1.0, False)):
        layer = nn.Linear(8, 3)
        nn.init.constant_(layer.weight, start)
        nn.utils.parametrizations.weight_norm(layer)
        assert layer(X).isnan().any().item() == broken


def t5_nan_in_fp16() -> None:
    x, weight = torch.full((1, 2), 200.0), torch.full((1, 2), 200.0)
    assert F.linear(x.half(), weight.half()).isinf().all()
    assert F.linear(x, weight).item() == 80000
    assert abs(F.linear(x.bfloat16(), weight.bfloat16()).item() - 80000) <= 256


def bce_input_out_of_range() -> list[str]:
    return [
        said(lambda v=v: F.binary_cross_entropy(torch.tensor([v]), torch.ones(1)))
        for v in (2.0, NAN)
    ]


def bce_unsafe_to_autocast() -> list[str]:
    with quiet(), FakeTensorMode(), autocast_on("cuda", HALF, True):
        p = torch.ones(3, device="cuda")
        return [
            said(lambda: F.binary_cross_entropy(p, p)),
            said(lambda: nn.BCELoss()(p.half(), p)),
        ]


def batchnorm_poisoned_statistics() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler, before = torch.amp.GradScaler("cpu"), copy.deepcopy(model.state_dict())
    with region():
        loss = model(torch.randn(16, 8) * 1e6).float().pow(2).mean()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    norm = model[1]
    assert isinstance(norm, nn.BatchNorm1d)
    assert norm.running_mean is not None
    assert all(torch.equal(before[name], value) for name, value in model.named_parameters())
    assert scaler.get_scale() == 32768
    assert norm.running_mean.isnan().any()
    assert model.eval()(X).isnan().all()
    norm.reset_running_stats()
    assert model(X).isfinite().all()


def rotary_positions_collapse() -> None:
    positions, frequencies = torch.arange(65536.0, 65544.0)[:, None], torch.ones(1, 2)
    with region(BF16):
        assert len((positions @ frequencies)[:, 0].unique()) == 1
        assert len((positions.float() @ frequencies.float())[:, 0].unique()) == 1
        with region(enabled=False):
            assert len((positions @ frequencies)[:, 0].unique()) == 8


def pure_bf16_training_stalls() -> None:
    ends = {}
    for dtype in (BF16, FP32):
        weight = torch.ones(1, dtype=dtype, requires_grad=True)
        adamw = torch.optim.AdamW([weight], lr=1e-3, weight_decay=0.1)
        for _ in range(100):
            weight.grad = torch.zeros_like(weight)
            adamw.step()
        ends[dtype] = weight.item()
    assert ends[BF16] == 1
    assert ends[FP32] < 0.991
    one = torch.ones(1, dtype=BF16)
    assert (one - 1 / 512).item() == 1 > (one - 1 / 500).item()


def adam_eps_zero_in_fp16() -> None:
    def after_a_step(dtype: torch.dtype, eps: float) -> Tensor:
        weight = torch.ones(3, dtype=dtype, requires_grad=True)
        weight.grad = torch.tensor([0.0, 1e-4, 1.0], dtype=dtype)
        torch.optim.Adam([weight], lr=0.01, eps=eps).step()
        return weight.detach()

    broken = after_a_step(HALF, 1e-8)
    assert broken.isnan().tolist() == [True, False, False]
    assert broken.isinf().tolist() == [False, True, False]
    assert after_a_step(FP32, 1e-8).isfinite().all()
    assert after_a_step(HALF, 1e-4).isfinite().all()


def evaluated_in_another_precision() -> None:
    layer = nn.Linear(8, 3)
    nn.init.constant_(layer.weight, 100.0)
    with region(BF16):
        assert layer(X * 100).isfinite().all()
    assert layer.half()(X.half() * 100).isinf().all()


def tf32_mixed_apis() -> list[str]:
    matmul, conv = torch.backends.cuda.matmul, torch.backends.cudnn.conv
    before = matmul.fp32_precision, conv.fp32_precision
    try:
        matmul.fp32_precision, conv.fp32_precision = "tf32", "ieee"
        return [
            said(lambda: matmul.allow_tf32),
            said(torch.get_float32_matmul_precision),
            said(lambda: torch.backends.cudnn.allow_tf32),
        ]
    finally:
        matmul.fp32_precision, conv.fp32_precision = before


def numpy_bfloat16() -> list[str]:
    assert X.bfloat16().float().numpy().sum() == 32
    return [said(X.bfloat16().numpy)]


# ---- cache and memory ----------------------------------------------------------------------------


def stale_autocast_cache() -> None:
    def losses(regions: str, cache: bool = True) -> int:
        layer = nn.Linear(8, 3)
        sgd = torch.optim.SGD(layer.parameters(), lr=0.1)
        found = set()
        with region(BF16, cache=cache) if regions == "one" else nullcontext():
            for _ in range(5):
                with region(BF16, cache=cache):
                    loss = layer(X).float().pow(2).mean()
                sgd.zero_grad()
                loss.backward()
                sgd.step()
                found.add(loss.item())
        return len(found)

    assert losses("one") == 1
    assert losses("many") == losses("one", cache=False) == 5


def jit_trace_under_autocast() -> list[str]:
    layer = nn.Linear(8, 8)

    def trace(cache: bool) -> None:
        with region(BF16, cache=cache):
            torch.jit.trace(nn.Sequential(layer, layer), X)

    assert "Cannot insert" not in said(lambda: trace(cache=False))
    return [said(lambda: trace(cache=True))]


def more_memory_under_autocast() -> None:
    with torch.device("meta"):
        model, small, large = nn.Linear(512, 512), torch.ones(1, 512), torch.ones(8192, 512)

    def total(batch: Tensor, precision: str) -> int:
        deep = nn.Sequential(*(copy.deepcopy(model) for _ in range(8)))
        return training_memory(deep, batch, precision=precision, device="cuda").total

    assert total(small, "amp fp16") > total(small, "fp32")
    assert total(large, "amp fp16") < total(large, "fp32")


# ---- FSDP, with gloo in one process --------------------------------------------------------------


@contextmanager
def one_rank() -> Iterator[None]:
    """A process group of one. Nothing of it is left afterwards."""
    from torch import distributed

    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        gc.collect()  # models hold the group
        distributed.destroy_process_group()


def _two_dtypes() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4).bfloat16(), nn.LayerNorm(4))


def fsdp1_uniform_dtype() -> list[str]:
    from torch.distributed.fsdp import FullyShardedDataParallel

    def wrap(original: bool) -> None:
        FullyShardedDataParallel(
            _two_dtypes(), device_id=torch.device("cpu"), use_orig_params=original
        )

    with one_rank():
        return [said(lambda: wrap(False)), said(lambda: wrap(True))]


def _sharded(module: nn.Module) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=BF16)
    fully_shard(module, mesh=init_device_mesh("cpu", (1,)), mp_policy=policy)
    return module


def fsdp2_uniform_dtype() -> list[str]:
    with one_rank():
        return [said(lambda: _sharded(_two_dtypes())(torch.ones(2, 4)))]


class _Shifted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("turn", torch.eye(4))

    def forward(self, batch: Any, turned: bool) -> Tensor:
        hidden: Tensor = self.layer(batch.x if isinstance(batch, SimpleNamespace) else batch)
        return hidden @ self.turn if turned else hidden


def fsdp2_inputs_not_cast() -> None:
    x = torch.ones(2, 4)
    with one_rank():
        assert _sharded(_Shifted())(x, False).dtype is BF16
        assert "the same dtype" in said(lambda: _sharded(_Shifted())(x, True))
        inside = SimpleNamespace(x=x)
        assert "the same dtype" in said(lambda: _sharded(_Shifted())(inside, False))


def _by_id(*functions: Callable[[], Any]) -> dict[str, Any]:
    return {function.__name__.replace("_", "-"): function for function in functions}


MESSAGES: dict[str, Callable[[], list[str]]] = _by_id(
    unscale_fp16_gradients,
    no_inf_checks_for_this_optimizer,
    no_inf_checks_prior_to_update,
    unscale_already_called,
    unscale_after_step,
    step_already_called,
    scale_is_none,
    scheduler_before_optimizer,
    closure_with_scaler,
    scaler_without_cuda,
    scaler_state_dict_empty,
    scaler_pickled,
    anomaly_mode_nan,
    expected_scalar_type,
    mat1_mat2_same_dtype,
    conv_input_and_weight_type,
    rnn_input_dtype,
    norm_mixed_dtype_cpu,
    rms_norm_not_fused,
    sdpa_same_dtype,
    found_dtype_but_expected,
    lerp_end_dtype,
    fused_adam_same_dtype,
    assign_gradient_dtype,
    scatter_self_src_dtype,
    index_put_dtypes,
    index_add_dtypes,
    out_tensor_dtype,
    float64_input,
    custom_function_backward,
    checkpoint_recomputed_metadata,
    linalg_not_implemented_for_half,
    cufft_half_powers_of_two,
    ctc_loss_not_implemented,
    op_not_implemented_for_half,
    autocast_cuda_not_available,
    autocast_target_dtype,
    autocast_device_type_str,
    torch_cuda_amp_deprecated,
    value_cannot_be_converted_to_half,
    probability_tensor_inf_nan,
    bce_input_out_of_range,
    bce_unsafe_to_autocast,
    tf32_mixed_apis,
    numpy_bfloat16,
    jit_trace_under_autocast,
    fsdp1_uniform_dtype,
    fsdp2_uniform_dtype,
)

SYMPTOMS: dict[str, Callable[[], None]] = _by_id(
    init_scale_passed_as_device,
    optimizer_step_beside_scaler,
    backward_after_unscale,
    clip_before_unscale,
    scale_keeps_falling,
    accumulation_without_division,
    two_optimizers_two_updates,
    gradient_underflow,
    gradient_overflow,
    loss_not_scaled,
    inf_gradients_not_cleared,
    two_dtypes_under_autocast,
    in_place_keeps_16_bits,
    rms_norm_dtype_changed,
    recomputed_outside_autocast,
    autocast_not_in_thread,
    nan_rows_from_two_masks,
    trainer_loss_zero_grad_norm_nan,
    nan_loss_after_some_epochs,
    log_of_a_probability,
    eps_zero_in_fp16,
    infinite_slope,
    cancellation,
    activation_overflow,
    exp_overflow,
    activation_underflow,
    sum_overflow,
    integers_round_in_16_bits,
    running_average_stalls,
    fp16_weights,
    batchnorm_in_fp16,
    nan_in_the_batch,
    nan_in_weights,
    training_diverges,
    nan_in_fp32_too,
    mean_of_nothing,
    variance_of_one_number,
    all_targets_ignored,
    ctc_target_too_long,
    weight_norm_zero_row,
    t5_nan_in_fp16,
    batchnorm_poisoned_statistics,
    rotary_positions_collapse,
    pure_bf16_training_stalls,
    adam_eps_zero_in_fp16,
    evaluated_in_another_precision,
    stale_autocast_cache,
    more_memory_under_autocast,
    fsdp2_inputs_not_cast,
)
