"""What lesson 15 tries its claims with, and for each claim the cases that its verdict rests on.

Everything runs on a CPU. CUDA's rules are asked on fake tensors, memory is counted on them, and
limits of speed are arithmetic with the figures of data sheets.
"""

from __future__ import annotations

import ast
import inspect
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from amp_lessons.amp.explain import explain_autocast
from amp_lessons.amp.fake_tensors.modes import autocast_on
from amp_lessons.amp.memory.training import Memory, training_memory
from amp_lessons.amp.policy import counts, op_policy, policy_table
from amp_lessons.amp.roofline import GPUS, Gpu, Matmul, find_gpu, matmul_floor, seed_floor
from amp_lessons.amp.scaling.scaler_log import ScalerLog
from amp_lessons.amp.speed import timing
from amp_lessons.amp.speed.pretend_gpu import PretendGpu
from amp_lessons.amp.speed.records import Record, load_records
from amp_lessons.amp.training import loops, models
from amp_lessons.core.messages import said
from amp_lessons.lessons.experiments import item_calls, raised, scaler_error, warned, without_cuda

half, bfloat, single = torch.float16, torch.bfloat16, torch.float32
GradScaler = torch.amp.GradScaler
SMALL = 2.0**-30
"""A factor that makes a loss, and with it all gradients, too small for FP16."""


def fp16(enabled: bool = True) -> torch.autocast:
    """An FP16 autocast region on the CPU."""
    return torch.autocast("cpu", dtype=half, enabled=enabled)


def batch() -> tuple[Tensor, Tensor]:
    """Four rows of ones, and targets of zero."""
    return torch.ones(4, 8), torch.zeros(4, 3)


def fresh() -> tuple[nn.Linear, torch.optim.Optimizer, GradScaler]:
    """A layer that is the same each time, its optimizer, and a scaler."""
    torch.manual_seed(0)
    model = nn.Linear(8, 3)
    return model, torch.optim.SGD(model.parameters(), lr=0.1), GradScaler("cpu")


class _Watch(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, torch.dtype | None]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        taken = next((each.dtype for each in args if isinstance(each, Tensor)), None)
        self.seen.append((func.overloadpacket.__name__, taken))
        return func(*args, **(kwargs or {}))


def operations(call: Callable[[], object]) -> list[tuple[str, torch.dtype | None]]:
    """The operations that really run in a call: the name of each, and its first tensor's dtype."""
    with _Watch() as watch:
        call()
    return watch.seen


def casts(call: Callable[[], object]) -> int:
    """How many of the operations of a call are casts."""
    return sum(name in ("_to_copy", "to") for name, _ in operations(call))


def fp32_products(call: Callable[[], object]) -> int:
    """How many matrix products of a call take FP32."""
    products = ("addmm", "mm", "bmm", "convolution")
    return sum(name in products and taken is single for name, taken in operations(call))


@contextmanager
def cuda_rules() -> Iterator[None]:
    """An FP16 autocast region for CUDA, which works without a GPU as well."""
    with autocast_on("cuda", half, enabled=True):
        yield


def small_transformer() -> Any:
    """What autocast does to each op of a small transformer, by CUDA's rules."""
    network, inputs = models.transformer_encoder()
    return explain_autocast(network, *inputs)


def moved(steps: str, dtype: torch.dtype = bfloat) -> float:
    """How far the farthest weight moves in three iterations under autocast.

    Args:
        steps: what each iteration does, such as ``"forward, backward, step"``.
        dtype: of the region.
    """
    x, y = batch()
    model, optimizer, _ = fresh()
    before = model.weight.detach().clone()
    for _ in range(3):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=dtype):
            loss = F.mse_loss(model(x), y)
        if "backward" in steps:
            loss.backward()
        if "step" in steps:
            optimizer.step()
    return (model.weight - before).abs().max().item()


def gradient_of_an_fp32_layer(backward_inside: bool) -> Tensor:
    """The gradient of a layer that a BF16 model keeps in FP32 on purpose."""
    torch.manual_seed(0)
    first, last = nn.Linear(16, 32), nn.Linear(32, 4)
    data = torch.randn(64, 16)
    with torch.autocast("cpu", dtype=bfloat):
        hidden = first(data).tanh()
        with torch.autocast("cpu", enabled=False):
            loss = last(hidden.float()).square().mean()
    with torch.autocast("cpu", dtype=bfloat, enabled=backward_inside):
        loss.backward()
    assert last.weight.grad is not None
    return last.weight.grad


def weights_after_adam(step_inside: bool) -> Tensor:
    """A layer's weights after a step of Adam, made inside autocast or outside."""
    x, y = batch()
    model, _, _ = fresh()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    F.mse_loss(model(x), y).backward()
    with torch.autocast("cpu", dtype=bfloat, enabled=step_inside):
        optimizer.step()
    return model.weight.detach()


def apart(one: Tensor, other: Tensor) -> float:
    """The relative difference of two tensors, by their norms."""
    return ((one - other).norm() / other.norm()).item()


def digits_accuracy(pixel: float, dtype: torch.dtype | None) -> float:
    """The accuracy on digits after twelve epochs, with a scaler for FP16.

    Args:
        pixel: the value of a white pixel.
        dtype: of autocast, in training and evaluation; None for FP32.
    """
    digits, network = loops.load_digits(), loops.digits_network()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    scaler = GradScaler("cpu", enabled=dtype is half)
    for _ in range(12):
        for images, labels in zip(
            digits.train_images.split(64), digits.train_labels.split(64), strict=True
        ):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=dtype, enabled=dtype is not None):
                loss = F.cross_entropy(network(images * pixel), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    images = digits.validation_images * pixel
    return loops.accuracy(network, images, digits.validation_labels, dtype)


def step_memory(precision: str, rows: int, length: int = 64) -> Memory:
    """The bytes of a step of a small transformer with Adam, by CUDA's rules, and its batch.

    Args:
        precision: ``"fp32"`` or ``"amp fp16"``.
        rows: sequences in the batch.
        length: tokens in each.
    """
    with torch.device("meta"):
        network, inputs = models.transformer_encoder(batch=rows, length=length)
    return training_memory(network, *inputs, precision=precision, optimizer="adam", device="cuda")


def saving(rows: int, length: int = 64) -> float:
    """The share of a step's memory that FP16 autocast saves; negative if it needs more."""
    plain = step_memory("fp32", rows, length).total
    return 1 - step_memory("amp fp16", rows, length).total / plain


def largest_gradient(factor: float, dtype: torch.dtype = half, scaled: bool = False) -> float:
    """The largest gradient of a loss near 1 that is multiplied by a factor, unscaled again."""
    x, y = batch()
    model, optimizer, scaler = fresh()
    with torch.autocast("cpu", dtype=dtype):
        loss = F.mse_loss(model(x), y)
    if scaled:
        scaler.scale(loss * factor).backward()
        scaler.unscale_(optimizer)
    else:
        (loss * factor).backward()
    assert model.weight.grad is not None
    return model.weight.grad.abs().max().item()


def papers_step() -> tuple[Tensor, Tensor]:
    """A weight of 1 after an update of 0.0001 by the paper's recipe: the FP16 one, its master."""
    weight = torch.ones((), dtype=half)
    master = weight.float()
    master -= 0.0001
    weight.copy_(master)
    return weight, master


def zero_grad_operations(**options: bool) -> int:
    """How many operations on gradients `zero_grad` runs for a layer with a weight and a bias."""
    x, _ = batch()
    model, optimizer, _ = fresh()
    model(x).sum().backward()
    ran = operations(lambda: optimizer.zero_grad(**options))
    return sum(not name.startswith("_record_function") for name, _ in ran)


def skipped_without_zero_grad() -> list[int]:
    """Which of eight steps a scaler skips, if the second overflows and nobody calls `zero_grad`."""
    x, y = batch()
    model, optimizer, scaler = fresh()
    log = ScalerLog(scaler)
    for step in range(8):
        log.scale(F.mse_loss(model(x), y)).backward()
        if step == 1:
            assert model.weight.grad is not None
            model.weight.grad[0, 0] = torch.inf
        log.step(optimizer)
        log.update()
    return log.skipped_steps


def weight_after(overflow: bool = False, scaled: bool = True, used: bool = False) -> float:
    """A weight of 3, whose gradient is 6, after a step of SGD with a learning rate of 0.1.

    Args:
        overflow: whether the gradient becomes inf.
        scaled: whether the loss is scaled.
        used: whether the scaler has scaled another loss before.
    """
    weight = torch.tensor(3.0, requires_grad=True)
    optimizer, scaler = torch.optim.SGD([weight], lr=0.1), GradScaler("cpu")
    if used:
        scaler.scale(torch.ones(()))
    loss = weight**2
    (scaler.scale(loss) if scaled else loss).backward()
    if overflow:
        assert weight.grad is not None
        weight.grad.fill_(torch.inf)
    scaler.step(optimizer)
    return weight.item()


def served(model: nn.Module, x: Tensor) -> Callable[[], None]:
    """Ten calls of a model for inference, all in one autocast region."""

    def call() -> None:
        with torch.inference_mode(), fp16():
            for _ in range(10):
                model(x)

    return call


class LogDet(torch.autograd.Function):
    """`torch.logdet`, which has no FP16 kernel, in FP32 wherever it is called."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=single)
    def forward(ctx: Any, a: Tensor) -> Tensor:
        return torch.logdet(a)


def limit(gpu: str, baseline: str, rows: int) -> float:
    """How many times faster FP16 autocast can make one product at most, with its weight's cast.

    The product is that of ``rows`` rows and a weight of 4096 by 4096. The cast reads the FP32
    weight and writes the FP16 one. All bytes come from the GPU's memory; launches cost nothing.
    Both versions come equally close to what the GPU can do.

    Args:
        gpu: as `find_gpu` takes it.
        baseline: ``"fp32"`` or ``"tf32"``.
        rows: of the input.
    """
    work, one = Matmul(rows, 4096, 4096), find_gpu(gpu)
    cast = (4 + 2) * 4096 * 4096 / one.bytes_per_second()
    return matmul_floor(one, baseline, work) / (cast + matmul_floor(one, "fp16", work))


def share_of_the_cast(gpu: str, rows: int) -> float:
    """Which share of the time of `limit`'s product goes into the cast of its weight."""
    one = find_gpu(gpu)
    cast = (4 + 2) * 4096 * 4096 / one.bytes_per_second()
    return cast / (cast + matmul_floor(one, "fp16", Matmul(rows, 4096, 4096)))


def forward_overflows() -> float:
    """The scale after 20 steps in which the forward pass overflows in FP16."""
    x, y = batch()
    model, optimizer, scaler = fresh()
    for _ in range(20):
        optimizer.zero_grad()
        with fp16():
            loss = F.mse_loss(model(x * 1e6), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    return float(scaler.get_scale())


def digits_with_a_large_loss() -> tuple[list[int], list[float]]:
    """The skipped steps and the losses of 100 steps, with the sum of the losses of 128 images."""
    digits, network = loops.load_digits(), loops.digits_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    log, losses = ScalerLog(GradScaler("cpu")), []
    for _ in range(100):
        optimizer.zero_grad()
        with fp16():
            output = network(digits.train_images[:128])
            loss = F.cross_entropy(output, digits.train_labels[:128], reduction="sum")
        log.scale(loss).backward()
        log.step(optimizer)
        log.update()
        losses.append(loss.item())
    return log.skipped_steps, losses


def product_dtype(*decorators: Callable[..., Any]) -> torch.dtype:
    """The dtype that a custom Function with these decorators gives in an FP16 region."""

    def forward(ctx: Any, a: Tensor, b: Tensor) -> Tensor:
        return a @ b

    for decorate in decorators:
        forward = decorate(forward)
    function: Any = type("Product", (torch.autograd.Function,), {"forward": staticmethod(forward)})
    with fp16():
        found: torch.dtype = function.apply(torch.ones(4, 8), torch.ones(8, 3)).dtype
    return found


class Price(NamedTuple):
    """What a training loop costs: lines in its body, operations of a step, reads by Python."""

    lines: int
    operations: int
    reads: int


def price(train: Callable[..., object], *extra: object) -> Price:
    """The price of one step of a training loop of this course, on eight digits."""
    digits, network = loops.load_digits(), loops.digits_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    rows = [(digits.train_images[:8], digits.train_labels[:8])]
    with item_calls() as reads:
        ran = operations(lambda: train(network, optimizer, rows, *extra))
    nodes = ast.walk(ast.parse(inspect.getsource(train)))
    (loop,) = (node for node in nodes if isinstance(node, ast.For))
    assert loop.end_lineno is not None
    return Price(loop.end_lineno - loop.lineno, len(ran), len(reads))


# ---- the benchmark ------------------------------------------------------------------------------


def quoted() -> Record:
    """The benchmark's own figures."""
    return next(record for record in load_records() if record.name == "seed_003")


def left_of_the_peak(workspace: int) -> int:
    """What is left of the benchmark's FP32 peak when its known parts are taken out, in bytes.

    The parts are the data, the network and that of the run before it, six tensors of the size of an
    output, and two workspaces of cuBLAS. It is an account that fits, and not a measurement.

    Args:
        workspace: bytes of one workspace.
    """
    plain = quoted().rows[0]
    assert plain.peak_bytes is not None
    assert plain.data_bytes is not None
    output, network = 4096 * 4096 * 4, 3 * (4096 * 4096 + 4096) * 4
    return plain.peak_bytes - plain.data_bytes - 2 * network - 6 * output - 2 * workspace


WORKSPACE = (2 * 4096 + 8 * 16) * 1024
HOPPER_WORKSPACE = 32 * 2**20
"""The bytes of a cuBLAS workspace in PyTorch: by default, and on Hopper. Blackwell takes Hopper's
since pull request 175344 (February 2026); the benchmark ran in July 2025."""


def large_workspaces(gpu: Gpu) -> bool:
    """Whether PyTorch gave it workspaces of 32 MiB or more: on Hopper, and on AMD's GPUs, where an
    MI300X has 128 MiB (CublasHandlePool.cpp)."""
    return gpu.capability is None or gpu.capability[0] == 9


def fast_enough(gpu: Gpu) -> bool:
    """Whether a GPU can reach the benchmark's times by its peaks, in FP32 or with TF32."""
    plain, mixed = (row.total_s for row in quoted().rows)
    assert plain is not None
    assert mixed is not None
    floors = [seed_floor(gpu, d) for d in ("fp32", "tf32") if d in gpu.dtypes]
    return min(floors) < plain and seed_floor(gpu, "fp16") < mixed


def seconds_at_least(gpu: str) -> float:
    """How long the benchmark's FP32 run takes on a GPU at its peak, without TF32."""
    return seed_floor(find_gpu(gpu), "fp32")


def candidates() -> list[str]:
    """The GPUs that the benchmark's times and its peak memory leave over."""
    too_large = left_of_the_peak(HOPPER_WORKSPACE) < 0
    left = [gpu for gpu in GPUS if not (too_large and large_workspaces(gpu))]
    return [gpu.name for gpu in left if fast_enough(gpu)]


def equal_programs() -> tuple[float, float]:
    """The speed-up between two equal programs: by the benchmark's method, and by `timing`'s.

    On a GPU that is pretended. Each program takes 20 ms a step. The one that is timed first also
    pays for a start of five slow steps.
    """
    gpu = PretendGpu()
    first, second = gpu.program("FP32", 20e-3, cold=5), gpu.program("AMP", 20e-3)

    def once(step: Callable[[object], object]) -> float:
        gpu.synchronize()
        start = gpu.clock()
        for _ in range(150):
            step(None)
        gpu.synchronize()
        return gpu.clock() - start

    found = once(first) / once(second)
    clock = timing.WallClock(gpu.synchronize, gpu.clock)
    times = timing.compare({"a": lambda: first(None), "b": lambda: second(None)}, clock=clock)
    return found, times["a"].median / times["b"].median


def reset_max_says() -> str:
    """What `torch.cuda.reset_max_memory_allocated` warns of, with or without a GPU."""
    with mock.patch("torch.cuda.memory.reset_peak_memory_stats"):
        return said(torch.cuda.reset_max_memory_allocated)


def _reset_max_resets_all() -> bool:
    with mock.patch("torch.cuda.memory.reset_peak_memory_stats") as resets_all, _silence():
        torch.cuda.reset_max_memory_allocated()
    return bool(resets_all.called)


def scale_without_cuda(device: str) -> float:
    """What a loss of 1 becomes with a scaler for this device, on a machine without CUDA."""
    with without_cuda(), _silence():
        scaler = GradScaler(device)
    scaled: Tensor = scaler.scale(torch.ones(()))
    return scaled.item()


@contextmanager
def _silence() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# ---- the cases ----------------------------------------------------------------------------------

Cases = dict[str, bool]
"""For each case tried, whether the claim holds there."""

_old = torch.cuda.amp
_fwd = torch.amp.custom_fwd


def _current(*names: str) -> Cases:
    calls: dict[str, Callable[[], object]] = {
        "autocast": lambda: _old.autocast(),
        "GradScaler": lambda: _old.GradScaler(),
        "custom_fwd": lambda: _old.custom_fwd(len),
    }
    with _silence():
        works = all(raised(calls[name]) == "no error" for name in names)
    current = {f"{name} is current": "deprecated" not in warned(calls[name]) for name in names}
    return {"the calls work": works} | current


def _majority() -> Cases:
    table, trace = policy_table("cuda", half), small_transformer()
    low = sum(row.dtype_out == "float16" for row in trace.rows)
    return {
        "of the rules": counts(table)["lower precision"] > len(table) / 2,
        "of the ops that ran": low > len(trace.rows) / 2,
        "of the FLOPs": trace.totals.share_16bit > 0.5,
    }


def _holds_a_copy() -> Cases:
    x, y = batch()
    model, _, _ = fresh()
    optimizer = torch.optim.AdamW(model.parameters())
    with torch.autocast("cpu", dtype=bfloat):
        loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    kept = [t for state in optimizer.state.values() for t in state.values()]
    weight, master = papers_step()
    return {
        "AdamW keeps one": any(torch.equal(t, model.weight) for t in kept),
        "the paper's recipe": weight.dtype is half and master.dtype is single,
    }


def _bf16_keeps() -> Cases:
    weight = torch.tensor(1.0, dtype=bfloat)
    return {
        "a gradient far below FP16's range": torch.tensor(2.0**-120).bfloat16().item() > 0,
        "an FP32 number below BF16's range": torch.tensor(2.0**-140).bfloat16().item() > 0,
        "a small update of a weight stored in BF16": (weight - 0.001).item() != 1,
    }


def _fp32_losses() -> Cases:
    x, y = batch()
    with fp16():
        output = fresh()[0](x)
        losses = {"mse_loss": F.mse_loss(output, y), "by hand": (output * output).mean()}
    return {name: loss.dtype is single for name, loss in losses.items()}


def _unscaled() -> Cases:
    later = raised(lambda: weight_after(scaled=False, used=True))
    return {
        "the first iteration": scaler_error("step", scaled=False) != "no error",
        "a later iteration": later != "no error",
    }


def _only_the_step() -> Cases:
    inside, outside = gradient_of_an_fp32_layer(True), gradient_of_an_fp32_layer(False)
    moves = not torch.equal(weights_after_adam(True), weights_after_adam(False))
    return {"backward may stand inside": apart(inside, outside) == 0, "Adam's step may not": moves}


def _mismatches() -> Cases:
    x, _ = batch()
    with fp16():
        leaked = fresh()[0](x).detach()
    weight, rows = torch.ones(3, 2), torch.arange(4)
    attempts = {
        "a product": lambda: leaked @ weight,
        "in place": lambda: torch.zeros(4, 3).index_copy_(0, rows, leaked),
        "into out=": lambda: torch.mm(leaked, weight, out=torch.zeros(4, 2)),
    }
    with fp16():
        fixed = {name: raised(attempt) == "no error" for name, attempt in attempts.items()}
    after = raised(attempts["a product"]) == "no error"
    return fixed | {"a product after the region": after}


def _runs_in_fp32() -> Cases:
    asked = [(op, "cuda") for op in ("softmax", "sum", "norm", "mean", "var", "std")]
    asked += [(op, "cpu") for op in ("softmax", "sum", "norm", "mean", "var", "std")]
    return {f"{op}, {device}": op_policy(op, device).group == "float32" for op, device in asked}


def _logdet() -> Cases:
    with fp16():
        gram = torch.eye(3) @ torch.eye(3)
        by_cast = raised(lambda: LogDet.apply(gram))
        with fp16(enabled=False):
            by_region = raised(lambda: torch.logdet(gram.float()))
    stops = "no error"
    return {"with a disabled region": by_region != stops, "with cast_inputs": by_cast != stops}


def _helps() -> Cases:
    def rescues(dtype: torch.dtype) -> bool:
        return largest_gradient(SMALL, dtype) == 0 < largest_gradient(SMALL, dtype, scaled=True)

    return {
        "small gradients, FP16": rescues(half),
        "small gradients, BF16": rescues(bfloat),
        "an overflow in the forward pass": forward_overflows() >= 1,
    }


def _nan() -> Cases:
    run = loops.train_digits("fp16 unscaled", 30, loss_factor=1e-6)
    tiny = torch.tensor(2.0**-24, dtype=half)
    zero = tiny * tiny
    return {
        "gradients underflow": bool(torch.tensor(run.losses).isnan().any()),
        "p underflows, then p log p": bool((zero * zero.log()).isnan()),
        "both underflow, then a / b": bool((zero / zero).isnan()),
    }


def _fast() -> Cases:
    """Where the limit leaves room for the claim. Only a measurement could confirm it there."""
    asked = [("V100", "fp32", 1.5), ("A100", "fp32", 2.0), ("A100", "tf32", 2.0)]
    return {
        f"{gpu} over {baseline}, {rows} rows": limit(gpu, baseline, rows) > least
        for gpu, baseline, least in asked
        for rows in (1, 4096)
    }


def _free() -> Cases:
    plain, mixed = price(loops.train_fp32), price(loops.train_fp16, GradScaler("cpu"))
    return {
        "a small network, operations": mixed.operations < 1.1 * plain.operations,
        "a small network, reads": mixed.reads <= plain.reads,
        "a product of one row": share_of_the_cast("V100", 1) < 0.05,
        "a product of 65,536 rows": share_of_the_cast("V100", 65_536) < 0.05,
    }


def _anywhere() -> Cases:
    x, _ = batch()
    with without_cuda(), _silence():
        device = "cuda" if torch.cuda.is_available() else "cpu"
        with torch.autocast(device, dtype=half):
            casts_to = fresh()[0](x).dtype
    return {"autocast": casts_to is half, "GradScaler": scale_without_cuda("cuda") > 1}


def _less_work() -> Cases:
    named = zero_grad_operations(set_to_none=True)
    return {
        "than the default": named < zero_grad_operations(),
        "than set_to_none=False": named < zero_grad_operations(set_to_none=False),
    }


def _served() -> Cases:
    x, _ = batch()
    with torch.inference_mode(), fp16():
        dropped = int((nn.Dropout(0.5)(torch.ones(1000)) == 0).sum())
    return {
        "weights are cast once": casts(served(fresh()[0], x)) <= 2 + 10,
        "dropout is off": dropped == 0,
    }


def _smaller() -> Cases:
    plain, mixed = step_memory("fp32", 16), step_memory("amp fp16", 16)
    parts = ("parameters", "gradients", "optimizer", "activations")
    return {part: getattr(mixed, part) < getattr(plain, part) for part in parts}


def _accurate() -> Cases:
    return {
        f"pixels up to {pixel:,.0f}": abs(
            digits_accuracy(pixel, half) - digits_accuracy(pixel, None)
        )
        < 0.02
        for pixel in (1.0, 1e6)
    }


def _reduces() -> Cases:
    plain, mixed = quoted().rows
    assert plain.peak_bytes is not None
    assert mixed.peak_bytes is not None
    assert plain.step_peak_bytes is not None
    assert mixed.step_peak_bytes is not None
    return {
        "the peak": mixed.peak_bytes < plain.peak_bytes,
        "without the data": mixed.step_peak_bytes < plain.step_peak_bytes,
    }


def _shows_the_gain() -> Cases:
    found, _ = equal_programs()
    return {
        "equal programs come out equal": abs(found - 1) < 0.05,
        "the GPU is named": bool(quoted().gpu),
        "its figures fit one GPU only": len(candidates()) == 1,
    }


def _tf32() -> Cases:
    x, _ = batch()
    layer = fresh()[0]

    def run(enabled: bool) -> Callable[[], None]:
        def call() -> None:
            with fp16(enabled):
                layer(x)

        return call

    return {
        "FP32 products under autocast": fp32_products(run(True)) > 0,
        "in a disabled region": fp32_products(run(False)) > 0,
    }


def _cpu_in_cuda() -> Cases:
    x, _ = batch()
    layer = fresh()[0]
    with cuda_rules():
        return {"a CPU layer raises": raised(lambda: layer(x)) != "no error"}


def _takes_device_type() -> Cases:
    claimed: dict[str, Any] = {"device_type": "cuda"}
    with _silence():
        error = raised(lambda: _old.autocast(**claimed))
    return {"torch.cuda.amp.autocast": "TypeError" not in error}


def _skips() -> Cases:
    _, losses = digits_with_a_large_loss()
    return {"it does not learn": losses[-1] > 0.8 * losses[0]}


PROOFS: dict[int, Callable[[], Cases]] = {
    1: _takes_device_type,
    2: lambda: _current("autocast", "GradScaler", "custom_fwd"),
    3: _majority,
    4: _holds_a_copy,
    5: _bf16_keeps,
    6: lambda: {"the weights move": moved("forward") > 0},
    7: lambda: {"type() tells them apart": type(torch.ones(1)) is not type(torch.ones(1).half())},
    8: _fp32_losses,
    9: _unscaled,
    10: _only_the_step,
    11: _accurate,
    12: lambda: {name: torch.get_autocast_dtype(name) is half for name in ("cuda", "cpu")},
    13: _smaller,
    14: lambda: {str(factor): largest_gradient(factor) > 0 for factor in (1.0, SMALL)},
    15: lambda: {"it recovers": skipped_without_zero_grad() == [1]},
    16: lambda: {
        "the step is scaled": weight_after() < 0,
        "it steps after an overflow": weight_after(overflow=True) != 3,
    },
    17: _served,
    18: _cpu_in_cuda,
    19: _nan,
    20: _mismatches,
    21: _runs_in_fp32,
    22: lambda: {
        "autocast alone": largest_gradient(SMALL) > 0,
        "with a GradScaler": largest_gradient(SMALL, scaled=True) > 0,
    },
    23: lambda: {
        f"none for {kind}": not torch.amp.is_autocast_available(kind)
        for kind in ("cpu", "xpu", "mps")
    },
    24: _logdet,
    25: lambda: {
        f"{rows} sequences of {length}": 0.3 <= saving(rows, length) <= 0.5
        for rows, length in ((16, 64), (1, 16))
    },
    26: _fast,
    27: _helps,
    28: _skips,
    29: _tf32,
    30: lambda: {
        "alone": product_dtype(_fwd(device_type="cpu")) is not half,
        "with cast_inputs": product_dtype(_fwd(device_type="cpu", cast_inputs=single)) is not half,
    },
    31: _free,
    32: lambda: {
        "the name is current": "FutureWarning" not in reset_max_says(),
        "the call resets the maximum": _reset_max_resets_all(),
    },
    33: _reduces,
    34: _shows_the_gain,
    35: _anywhere,
    36: _less_work,
}
"""By the number of the claim, what tries it."""
