"""Bytes of a training step: the count on fake tensors against real tensors and real optimizers."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss

from amp_lessons.amp.memory.training import (
    NOT_HERE,
    PRECISIONS,
    STATE_COPIES,
    BytesAlive,
    allocator_check,
    crossover_batch,
    gpt_steps,
    memory_by_module,
    optimizer_bytes,
    training_memory,
)
from amp_lessons.amp.training import models
from amp_lessons.exercises.checks import find_exercise

LOW = {"fp32": None, "amp fp16": torch.float16, "amp bf16": torch.bfloat16, "bf16": None}


def step(batch=16, width=24, layers=3):
    torch.manual_seed(0)
    model, (inputs,) = models.linear_stack(width, layers, batch)
    return model, inputs, torch.randn(batch, width)


def real_activations(model, inputs, target, low):
    """What autograd keeps in a real forward pass, by hand: bytes by address."""
    apart = {t.data_ptr() for t in (*model.parameters(), inputs, target)}
    kept, alive = {}, []

    def pack(tensor):
        alive.append(tensor)
        if not any(tensor.shape == p.t().shape for p in model.parameters() if p.dim() > 1):
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", low, enabled=low is not None):
        output = model(inputs)
        loss = mse_loss(output, target)
    kept[output.data_ptr()] = output.nbytes
    # The real kernel leaves the loss in a buffer as large as the output; only its number counts.
    assert loss.untyped_storage().nbytes() == loss.element_size() * output.numel()
    return loss.nbytes + sum(size for address, size in kept.items() if address not in apart)


@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_count_is_what_a_real_forward_keeps(precision):
    model, inputs, target = step()
    counted = training_memory(model, inputs, precision=precision, loss=mse_loss, target=target)
    if precision == "bf16":
        model, inputs, target = model.bfloat16(), inputs.bfloat16(), target.bfloat16()
    assert counted.activations == real_activations(model, inputs, target, LOW[precision])
    assert counted.parameters == sum(p.nbytes for p in model.parameters())
    assert counted.data == inputs.nbytes + target.nbytes
    assert counted.total == sum(
        (counted.model_states, counted.data, counted.activations, counted.cast_cache)
    )


@pytest.mark.parametrize("precision", ["fp32", "amp bf16", "bf16"])
@pytest.mark.parametrize("optimizer", STATE_COPIES)
def test_model_states_are_what_torch_keeps(precision, optimizer):
    model, inputs, target = step()
    choices = {"precision": precision, "optimizer": optimizer, "loss": mse_loss, "target": target}
    counted = training_memory(model, inputs, **choices)
    model.to(torch.bfloat16 if precision == "bf16" else torch.float32)
    real = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
        "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        "adam": lambda p: torch.optim.AdamW(p, lr=0.1),
    }[optimizer](model.parameters())
    low = LOW[precision]
    with torch.autocast("cpu", low, enabled=low is not None):
        loss = model(inputs.to(model[0].weight.dtype)).float().sum()
    loss.backward()
    real.step()
    steps = 4 * len(list(model.parameters())) if optimizer == "adam" else 0
    assert counted.gradients == sum(p.grad.nbytes for p in model.parameters())
    assert counted.optimizer == optimizer_bytes(real) - steps


def test_the_recipes_growth_and_its_data():
    with torch.device("meta"):
        model, (inputs,) = models.linear_stack()
        target = torch.empty_like(inputs)
    fp32, amp = (
        training_memory(model, inputs, precision=p, loss=mse_loss, target=target, device="cuda")
        for p in ("fp32", "amp fp16")
    )
    assert fp32.activations == amp.activations
    assert amp.total - fp32.total == amp.cast_cache == 100_687_872
    assert 0 <= amp.cast_cache - (7_634_019_840 - 7_533_332_992) <= 1024
    assert 50 * fp32.data == 6_710_886_400


def test_frozen_tied_and_16_bit_parameters():
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8), nn.Linear(8, 2))
    model[1].weight = model[0].weight
    model[2].requires_grad_(False)
    counted = training_memory(model, torch.randn(3, 8), precision="amp bf16", optimizer="adam")
    assert counted.parameters == 4 * (64 + 8 + 18)
    assert counted.gradients == 4 * (64 + 8)
    assert counted.optimizer == 2 * counted.gradients
    assert counted.cast_cache == 2 * (64 + 8)


class Part(nn.Module):
    """Uses the first of two layers; "checkpoint" hides it from the graph."""

    def __init__(self, hides):
        super().__init__()
        self.used, self.unused, self.hides = nn.Linear(8, 8), nn.Linear(8, 8), hides

    def forward(self, x):
        if self.hides:
            return torch.utils.checkpoint.checkpoint(self.used, x, use_reentrant=True)
        return self.used(x)


@pytest.mark.parametrize("hides", [False, True])
def test_a_layer_that_the_loss_does_not_reach_has_no_gradient(hides):
    x = torch.randn(3, 8, requires_grad=True)
    counted, modules = memory_by_module(Part(hides), x, optimizer="adam")
    layers = 2 if hides else 1  # what is hidden counts as a whole
    assert counted.gradients == layers * 4 * (64 + 8)
    assert counted.optimizer == 2 * counted.gradients
    assert [module.trained for module in modules[1:]] == [4 * 72, (layers - 1) * 4 * 72]


def test_crossover_is_where_the_totals_cross():
    def both(batch, layers):
        model, inputs, target = step(batch, 16, layers)
        rest = {"loss": mse_loss, "target": target}
        precisions = ("fp32", "amp bf16")
        return [training_memory(model, inputs, precision=p, **rest) for p in precisions]

    fp32, amp = zip(both(1, 6), both(2, 6), strict=True)
    found = crossover_batch(fp32, amp)
    assert found > 1
    for batch, less in ((found - 1, False), (found, True)):
        plain, low = both(batch, 6)
        assert (low.total < plain.total) == less
    fp32, amp = zip(both(1, 3), both(2, 3), strict=True)
    assert crossover_batch(fp32, amp) is None
    assert crossover_batch(amp, fp32) == 1


def test_nothing_is_changed_and_size_does_not_matter():
    model, inputs, target = step()
    before = [p.clone() for p in model.parameters()]
    training_memory(model, inputs, precision="bf16", loss=mse_loss, target=target)
    for old, now in zip(before, model.parameters(), strict=True):
        assert torch.equal(old, now)
        assert now.dtype == torch.float32
        assert now.grad is None
    with torch.device("meta"):
        large, (images,) = models.linear_stack(200_000, 2, 10)
    assert training_memory(large, images, optimizer="adam").model_states > 10**12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"precision": "fp8"}, "precision must be one of fp32, amp fp16, amp bf16, bf16; got"),
        ({"optimizer": "lion"}, "optimizer must be one of sgd, momentum, adam; got 'lion'"),
        ({"device": "tpu"}, "device must be one of cpu, cuda; got 'tpu'"),
    ],
)
def test_what_it_refuses(arguments, message):
    model, inputs, _ = step()
    with pytest.raises(ValueError, match=message):
        training_memory(model, inputs, **arguments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU to measure")
def test_without_a_gpu_nothing_is_invented():
    model, inputs, target = step()
    with pytest.raises(ValueError, match="precision must be one of"):
        allocator_check(model, inputs, precision="fp8", loss=mse_loss, target=target)
    assert allocator_check(model, inputs, loss=mse_loss, target=target) == NOT_HERE


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("precision", ["fp32", "amp fp16"])
def test_the_allocator_agrees(precision):
    """To a cuBLAS workspace and 512 bytes a tensor."""
    model, inputs, target = step(2048, 1024, 8)
    text = allocator_check(model, inputs, precision=precision, loss=mse_loss, target=target)
    for line in text.splitlines()[1:3]:
        counted, seen = (int(number.replace(",", "")) for number in line.split()[-2:])
        assert counted <= seen <= counted + 2**26


# ---- bytes alive, operation by operation --------------------------------------------------------


def test_bytes_alive_are_those_of_the_tensors_that_are_alive():
    model, inputs, target = step()
    there = (inputs, target, *model.parameters())
    start = sum(tensor.nbytes for tensor in there)
    optimizer = torch.optim.Adam(model.parameters())
    with BytesAlive(*there) as alive:
        loss = mse_loss(model(inputs), target)
        alive.mark("forward")
        loss.backward()
        alive.mark("backward")
        optimizer.step()
        alive.mark("step")
    ends = [alive.values[end - 1] for _, end in alive.phases]
    parameters = sum(p.nbytes for p in model.parameters())
    counted = training_memory(model, inputs, loss=mse_loss, target=target)
    buffer = loss.untyped_storage().nbytes()
    assert ends[0] == start + counted.activations - 4 + buffer
    assert ends[1] == start + parameters + buffer
    assert ends[2] == ends[1] + optimizer_bytes(optimizer)
    assert [name for name, _ in alive.peaks()] == ["forward", "backward", "step"]
    assert alive.peak == max(peak for _, peak in alive.peaks())


@pytest.mark.long
def test_ben_s_peak_is_in_the_optimizer_and_anna_s_is_not():
    """The numbers of lesson 09, by a formula of their own."""
    with torch.device("meta"):
        parameters = sum(p.numel() for p in models.GPT(50257, 1024, 1600, 48, 25).parameters())
    assert parameters == 1_557_611_200
    for precision in ("fp32", "amp bf16"):
        ben = gpt_steps("XL", 1, precision, steps=1)
        assert ben.peak == dict(ben.peaks())["optimizer.step"]
        assert 0 <= ben.peak - 20 * parameters < 1e6
    peaks = [gpt_steps("medium", 12, precision).peak / 2**30 for precision in ("fp32", "amp bf16")]
    assert peaks == pytest.approx([28.98, 21.74], abs=0.01)


@pytest.mark.parametrize("arguments", [("huge", 1), ("small", 1, "amp fp16")])
def test_a_gpt_or_a_precision_that_is_not_known_is_refused(arguments):
    with pytest.raises(ValueError, match="no GPT-2 is called"):
        gpt_steps(*arguments)


def peak_of(layers, batch, amp, name_output=False):
    network, (x,) = models.linear_stack(256, layers, batch)
    target, output = torch.zeros(batch, 256), None
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    with BytesAlive(x, target, *network.parameters()) as alive:
        for _ in range(2):
            with torch.autocast("cpu", torch.bfloat16, enabled=amp):
                if name_output:
                    output = network(x)
                    loss = mse_loss(output, target)
                else:
                    loss = mse_loss(network(x), target)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    del output
    return alive.peak


@pytest.mark.parametrize("batch", [772, 2048])
def test_three_layers_save_nothing_at_the_peak(batch):
    assert peak_of(3, batch, True) - peak_of(3, batch, False) == 131_580
    assert peak_of(8, batch, True) < peak_of(8, batch, False)
    assert peak_of(3, batch, True, name_output=True) < peak_of(3, batch, False, name_output=True)


class WithLoss(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x, target):
        return mse_loss(self.network(x), target)


@pytest.mark.parametrize(("width", "first"), [(256, 772), (4096, 12_292)])
def test_three_layers_pay_by_the_sum_if_nobody_holds_the_output(width, first):
    def memories(precision):
        for batch in (1, 2):
            with torch.device("meta"):
                network, (x,) = models.linear_stack(width, 3, batch)
            yield training_memory(WithLoss(network), x, x.clone(), precision=precision)

    assert crossover_batch(list(memories("fp32")), list(memories("amp bf16"))) == first


# ---- what lesson 09 prints ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def printed():
    path = Path(__file__).resolve().parents[2] / "notebooks/09_memory.ipynb"
    cells = nbformat.read(path, as_version=4).cells
    return "".join(o.text for c in cells for o in c.get("outputs", []) if "text" in o)


@pytest.mark.parametrize(
    "line",
    [
        "FP32: Anna's peak 29.0 GiB, Ben's peak 29.0 GiB",
        "mixed precision: Anna's peak 21.7 GiB, Ben's peak 29.0 GiB",
        "FP32 keeps 499,200 bytes",
        "autocast keeps 415,488 bytes",
        " 3 layers   1.00  1.03  1.01  1.00",
        "16 layers   1.00  1.01  0.85  0.73",
        "4 texts: activations 20.4 GiB, other parts 23.2 GiB: 47%",
        "peak of the loss:  9.2 GiB, 12 bytes per logit",
        "16 pieces: peak of the loss 0.8 GiB",
    ],
)
def test_the_lesson_prints_what_its_explanations_say(printed, line):
    assert line in printed


def test_a_loop_over_the_batches_passes_crossover_in_few_rounds():
    batches = [
        entry["value"] or 0 for entry in find_exercise("crossover").answer_key.diagnosis.expected
    ]
    assert 2_000_000 < sum(batches) < 4_000_000
